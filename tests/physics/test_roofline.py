"""The iron law against hand-computed values, identities and published measurements."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import catalog, inference, kernels, roofline
from mlsysim.catalog import Device, Sourced
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import measurements, signed_error

POSITIVE = st.floats(1e-3, 1e18)
FRACTION = st.floats(1e-3, 1.0)


def toy(peak: float = 100e12, bandwidth: float = 1e12) -> Device:
    """A device of round numbers."""
    figures = {"memory_bandwidth": (bandwidth, "byte/s"), "peak_flops.bf16": (peak, "FLOP/s")}
    return Device(name="toy", fields={k: Sourced(v, u, "test") for k, (v, u) in figures.items()})


# Ridge points worked out with pencil and paper from the vendors' dense peaks and bandwidths, in FLOP/byte.
HAND_RIDGES = [
    ("H100-SXM5-80GB", "bf16", 295.4, "989.5 TFLOP/s over 3.35 TB/s"),
    ("H100-SXM5-80GB", "fp8", 590.7, "1979 TFLOP/s over 3.35 TB/s"),
    ("A100-SXM4-80GB", "bf16", 153.0, "312 TFLOP/s over 2.039 TB/s"),
    ("A100-SXM4-40GB", "bf16", 200.6, "312 TFLOP/s over 1.555 TB/s"),
    ("H200-SXM-141GB", "bf16", 206.1, "989.5 TFLOP/s over 4.8 TB/s"),
    ("MI300X", "bf16", 246.7, "1307.4 TFLOP/s over 5.3 TB/s"),
    ("TPU-v5e", "bf16", 240.5, "197 TFLOP/s over 819 GB/s"),
    ("H20", "bf16", 37.0, "148 TFLOP/s over 4.0 TB/s"),
]


@pytest.mark.published
@pytest.mark.parametrize(("name", "precision", "ridge", "sum_in_words"), HAND_RIDGES)
def test_ridge_points_by_hand(name: str, precision: str, ridge: float, sum_in_words: str) -> None:
    d = catalog.device(name)
    assert roofline.ridge_point(d.peak_flops[precision], d.memory_bandwidth) == pytest.approx(ridge, rel=5e-3), (
        sum_in_words
    )


# Times worked out by hand on six devices: (device, precision, FLOPs, bytes, compute s, memory s, bound).
HAND_TIMES = [
    ("H100-SXM5-80GB", "bf16", 1e12, 1e9, 1.0106e-3, 2.985e-4, "compute"),
    ("A100-SXM4-80GB", "bf16", 1e12, 1e10, 3.2051e-3, 4.9044e-3, "memory"),
    ("A100-SXM4-40GB", "bf16", 1e12, 1e10, 3.2051e-3, 6.4309e-3, "memory"),
    ("H200-SXM-141GB", "fp8", 1e15, 1e12, 0.50531, 0.20833, "compute"),
    ("MI300X", "bf16", 1e12, 5.3e9, 7.649e-4, 1e-3, "memory"),
    ("TPU-v5e", "bf16", 1.97e14, 8.19e11, 1.0, 1.0, None),
]


@pytest.mark.independent
@pytest.mark.parametrize(("name", "precision", "flops", "nbytes", "compute", "memory", "bound"), HAND_TIMES)
def test_kernel_times_by_hand(
    name: str, precision: str, flops: float, nbytes: float, compute: float, memory: float, bound: str | None
) -> None:
    result = roofline.kernel_time(name, flops=flops, bytes=nbytes, precision=precision)
    assert result.compute_time == pytest.approx(compute, rel=2e-3)
    assert result.memory_time == pytest.approx(memory, rel=2e-3)
    assert result.time == pytest.approx(max(compute, memory), rel=2e-3)
    assert bound is None or result.bound == bound


@pytest.mark.independent
def test_every_term_of_the_solver_on_round_numbers() -> None:
    result = roofline.kernel_time(
        toy(), flops=2e12, bytes=5e9, efficiency=0.5, memory_efficiency=0.8, kernels=100, launch_overhead=1e-5
    )
    assert result.compute_time == pytest.approx(0.04)  # 2e12 / (100e12 x 0.5)
    assert result.memory_time == pytest.approx(0.00625)  # 5e9 / (1e12 x 0.8)
    assert result.dispatch_time == pytest.approx(1e-5)  # kernels of 400 us: only the first of 100 launches shows
    assert result.time == pytest.approx(0.04001)
    assert result.bound == "compute"
    assert result.intensity == pytest.approx(400.0)
    assert result.ridge_point == pytest.approx(125.0)  # 100e12 / 0.8e12
    assert result.attainable_flops == pytest.approx(50e12)
    assert result.achieved_flops == pytest.approx(2e12 / 0.04001)
    assert result.peak_fraction == pytest.approx(2e12 / 0.04001 / 100e12)
    memory = roofline.kernel_time(toy(), flops=1e9, bytes=5e9, memory_efficiency=0.8)
    assert (memory.bound, memory.time) == ("memory", pytest.approx(0.00625))
    assert memory.attainable_flops == pytest.approx(0.2 * 0.8e12)
    # 1 us of work in 10 kernels, 10 launches of 10 us: the last kernel of 0.1 us ends after the last launch.
    launch = roofline.kernel_time(toy(), flops=1e6, bytes=1e6, kernels=10, launch_overhead=1e-5)
    assert (launch.bound, launch.time) == ("dispatch", pytest.approx(1.001e-4))
    one = roofline.kernel_time(toy(), flops=1e6, bytes=1e6, launch_overhead=1e-5)
    assert (one.bound, one.time) == ("dispatch", pytest.approx(1.1e-5))  # of one kernel everything shows


def end_of_the_stream(kernels: int, launch: float, device: float) -> float:
    """When the last kernel ends: the host launches one after the other, the device takes them in order."""
    host = done = 0.0
    for _ in range(kernels):
        host += launch
        done = max(done, host) + device / kernels
    return done


@pytest.mark.independent
@given(st.integers(1, 400), st.floats(1e-7, 1e-3), st.floats(0, 0.1))
def test_launches_count_as_in_a_stream_that_is_played(kernels: int, launch: float, device: float) -> None:
    played = end_of_the_stream(kernels, launch, device)
    assert device + roofline.dispatch_time(kernels, launch, device) == pytest.approx(played, rel=1e-9)
    assert played >= max(device, kernels * launch) * (1 - 1e-9)


@pytest.mark.independent
@given(st.integers(1, 400), st.floats(1e-7, 1e-3), st.floats(0, 0.1))
def test_chapter_1_and_chapter_7_teach_one_law_for_launches(kernels: int, launch: float, device: float) -> None:
    """Per layer and over a whole pass, the two differ by a launch and a kernel, of which a pass has hundreds."""
    stream = roofline.dispatch_time(kernels, launch, device)
    passes = inference.host_overhead(kernels, 0.0, launch_time=launch, device_time=device)
    assert passes <= stream * (1 + 1e-9) <= (passes + max(launch, device / kernels)) * (1 + 1e-9)


def test_half_a_kernel_is_refused() -> None:
    for count in (0.5, 3.5, np.array([1.0, 2.5])):
        with pytest.raises(InputError, match=r"kernels = .* (is not whole|is outside)"):
            roofline.dispatch_time(count, 1e-5)
    with pytest.raises(InputError, match=r"kernels = 2\.5 is outside \[1, inf\) whole"):
        roofline.kernel_time("H100", 1e12, 1e9, kernels=2.5)
    with pytest.raises(InputError, match=r"size = 1\.5 is outside \[0, inf\) whole"):
        kernels.tile_padding(1.5, 128)
    with pytest.raises(InputError, match=r"tile = 12\.5 is outside \[1, inf\) whole"):
        kernels.tile_padding(128, 12.5)


@pytest.mark.independent
@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE, FRACTION, st.floats(0, 10))
def test_time_is_never_below_a_bound_and_rate_never_above_one(
    flops: float, nbytes: float, peak: float, bandwidth: float, efficiency: float, dispatch: float
) -> None:
    time = roofline.iron_law(flops, nbytes, peak, bandwidth, efficiency, dispatch)
    assert time >= nbytes / bandwidth
    assert time >= flops / peak
    assert time >= dispatch
    assert flops / time <= peak * efficiency * (1 + 1e-12)
    intensity = roofline.arithmetic_intensity(flops, nbytes)
    attainable = roofline.attainable_flops(intensity, peak, bandwidth, efficiency)
    no_dispatch = roofline.iron_law(flops, nbytes, peak, bandwidth, efficiency)
    assert flops / no_dispatch == pytest.approx(attainable, rel=1e-9)  # the two forms of the same law


@pytest.mark.independent
@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE, st.floats(1.0, 100.0))
def test_better_hardware_is_never_slower(
    flops: float, nbytes: float, peak: float, bandwidth: float, gain: float
) -> None:
    base = roofline.iron_law(flops, nbytes, peak, bandwidth)
    assert roofline.iron_law(flops, nbytes, peak * gain, bandwidth) <= base
    assert roofline.iron_law(flops, nbytes, peak, bandwidth * gain) <= base
    assert roofline.iron_law(flops * gain, nbytes, peak, bandwidth) >= base


@pytest.mark.independent
@given(st.floats(1e-3, 1e6), st.floats(1e6, 1e16), st.floats(1e6, 1e13))
def test_compute_bound_exactly_above_the_ridge(intensity: float, peak: float, bandwidth: float) -> None:
    ridge = roofline.ridge_point(peak, bandwidth)
    if math.isclose(intensity, ridge, rel_tol=1e-9):
        return
    result = roofline.kernel_time(toy(peak, bandwidth), flops=intensity * 1e6, bytes=1e6)
    assert result.bound == ("compute" if intensity > ridge else "memory")


@pytest.mark.independent
def test_at_the_ridge_the_corner_belongs_to_memory() -> None:
    assert roofline.kernel_time(toy(), flops=100e12, bytes=1e12).bound == "memory"


@pytest.mark.independent
@given(st.integers(1, 10**4), st.integers(1, 10**4), st.integers(1, 10**4))
def test_gemm_counts_against_enumeration_in_the_limit(m: int, n: int, k: int) -> None:
    assert kernels.gemm_flops(m, n, k) == 2 * m * n * k
    assert kernels.gemm_bytes(m, n, k, 2) == sum(2 * rows * columns for rows, columns in ((m, k), (k, n), (m, n)))
    intensity = roofline.arithmetic_intensity(kernels.gemm_flops(m, n, k), kernels.gemm_bytes(m, n, k, 2))
    assert intensity < min(m, n, k)  # never more than the smallest dimension, in 16-bit
    square = roofline.arithmetic_intensity(kernels.gemm_flops(m, m, m), kernels.gemm_bytes(m, m, m, 2))
    assert square == pytest.approx(m / 3)


def test_arrays_through_the_solver_equal_the_scalar_path() -> None:
    flops = np.logspace(6, 15, 50)
    result = roofline.kernel_time("H100", flops=flops, bytes=1e9, launch_overhead=3e-4)
    for i, work in enumerate(flops):
        one = roofline.kernel_time("H100", flops=float(work), bytes=1e9, launch_overhead=3e-4)
        assert result.time[i] == pytest.approx(one.time, rel=1e-12)
        assert result.bound[i] == one.bound
    assert set(result.bound) == {"dispatch", "compute"}
    assert "50 values" in str(result.explain())


@pytest.mark.published
def test_no_measured_kernel_beats_the_bound() -> None:
    """A roofline with efficiency 1 is a lower bound on time; a measurement under it is an error in one of the two."""
    seen = 0
    for row in measurements().values():
        if row.kind != "gemm":
            continue
        seen += 1
        size = 1 if row.precision == "fp8" else 2
        shape = row.inputs["m"], row.inputs["n"], row.inputs["k"]
        work = kernels.gemm_flops(*shape)
        bound = roofline.kernel_time(
            row.device, flops=work, bytes=kernels.gemm_bytes(*shape, size), precision=row.precision
        )
        measured = row.value if row.quantity == "time" else work / row.value
        assert signed_error(bound.time, measured) < 0, row.name
    assert seen >= 30


@pytest.mark.published
def test_the_4_2_ms_claim_breaks_the_bandwidth_bound() -> None:
    claim = measurements()["harvard-70b-itl"]
    h100 = catalog.device(claim.device)
    floor = roofline.memory_time(claim.inputs["parameters"] * 2, h100.memory_bandwidth)
    assert floor == pytest.approx(41.8e-3, rel=1e-3)  # 140e9 / 3.35e12
    assert claim.value < roofline.memory_time(claim.inputs["parameters"] / 2, h100.memory_bandwidth)  # even at 4 bits


def test_explain_shows_every_number_and_its_source() -> None:
    text = str(roofline.kernel_time("H100", flops=1e12, bytes=1e9, efficiency=0.8).explain())
    for part in (
        "compute-bound",
        "1.263 ms",
        "989.5 TFLOP/s",
        "@eq-iron-law",
        "given by the caller",
        "halved",
        "default: the bound",
    ):
        assert part in text
    html = roofline.kernel_time("H100", flops=1e12, bytes=1e9).explain()._repr_html_()
    assert html.count("<table>") == 2
    assert "eq-compute-time" in html


def test_results_are_frozen_and_turn_into_json() -> None:
    result = roofline.kernel_time("H100", flops=1e12, bytes=1e9)
    with pytest.raises(AttributeError):
        result.time = 0.0  # type: ignore[misc]
    assert json.loads(json.dumps(result.to_dict()))["bound"] == "compute"


@pytest.mark.parametrize(
    ("kwargs", "error", "says"),
    [
        ({"device": "H10"}, UnknownNameError, "unknown device 'H10'; did you mean"),
        ({"precision": "fp4"}, UnknownNameError, "H100-SXM5-80GB lists no dense peak for precision 'fp4'"),
        ({"bytes": 0}, InputError, "arithmetic_intensity: bytes = 0 is outside (0, inf)"),
        ({"bytes": -1}, InputError, "bytes = -1 is outside"),
        ({"flops": float("nan")}, InputError, "flops = nan is outside"),
        ({"efficiency": 0.0}, InputError, "efficiency = 0.0 is outside (0, 1]"),
        ({"efficiency": 80}, InputError, "efficiency = 80 is outside (0, 1]"),
        ({"memory_efficiency": 1.2}, InputError, "memory_efficiency = 1.2 is outside (0, 1]"),
        ({"flops": "1 TFLOP"}, InputError, "parse it first"),
    ],
)
def test_bad_input_to_the_solver(kwargs: dict[str, object], error: type[Exception], says: str) -> None:
    arguments = {"device": "H100", "flops": 1e12, "bytes": 1e9, **kwargs}
    with pytest.raises(error) as caught:
        roofline.kernel_time(**arguments)  # type: ignore[arg-type]
    assert says in str(caught.value)
