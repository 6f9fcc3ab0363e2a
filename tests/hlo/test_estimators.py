"""The Compute API: estimators of a compute region's time, the cache, and systolic arrays against their simulator."""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import PROGRAMS

from mlsysim import catalog, cli, equations, hlo, roofline
from mlsysim.errors import InputError, MlsysimError, UnknownNameError
from mlsysim.hlo import estimators
from mlsysim.hlo.estimators import cache as disk
from mlsysim.hlo.estimators import systolic
from mlsysim.hlo.estimators.base import Arguments
from mlsysim.hlo.fusing.fusion import Kernel, LoopKernels
from mlsysim.hlo.fusing.items import Work
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType
from mlsysim.hlo.work.products import Gemm, of_convolution, of_dot, of_library_call

TPU = catalog.device("TPU-v3")
CHIP = estimators.array("tpu-v3-chip")
NAMES = ("gemm_bf16_4096", "scan", "mlp_train_dp8.spmd", "tf1l_train_fsdp8.spmd", "tf1l_train_dp8.gpuopt_a100_sxm_40")


class Constant:
    """An estimator that answers one second and counts how often it is asked."""

    name = "constant"

    def __init__(self, seconds: float = 1.0, **compile_args: str | float) -> None:
        self.seconds, self.asked, self.compile_args = seconds, 0, compile_args

    def get_run_time_estimate(self, region: Region) -> estimators.RunTime:
        self.asked += 1
        return estimators.RunTime(self.seconds, self.seconds / 2, 2 * self.seconds, self.name)

    def get_compile_args(self) -> Arguments:
        return self.compile_args

    def get_exec_args(self) -> Arguments:
        return {"runs": 5}


def regions_of(name: str, split: str = "dependency") -> tuple[Region, ...]:
    return hlo.estimate(PROGRAMS[name], "H100", split=split).parts


def product(m: int, n: int, k: int, dtype: str = "bf16") -> Program:
    """One matrix product as a program."""
    kinds = (TensorType(dtype, (m, k)), TensorType(dtype, (k, n)), TensorType(dtype, (m, n)))
    dims = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (0,)}
    op = Op("stablehlo.dot_general", (0, 1), (2,), dims)
    return Program("product", kinds, (0, 1, 2), {"main": Block((0, 1), (op,), (2,))})


# The protocol


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", ["linear", "dependency"])
def test_the_default_is_the_roofline_and_its_parts_add_up(name: str, split: str) -> None:
    device = catalog.device("A100-40GB")
    plain = hlo.estimate(PROGRAMS[name], device, split=split)
    asked = hlo.estimate(PROGRAMS[name], device, split=split, estimator=estimators.RooflineEstimator(device))
    assert plain.to_dict() == asked.to_dict()
    clock = estimators.RooflineEstimator(device)

    def by_kernel(pieces: Any, times: int = 1) -> float:
        return math.fsum(
            clock.seconds(p.work) * times if isinstance(p, Kernel) else by_kernel(p.body, times * p.count)
            for p in pieces
            if isinstance(p, (Kernel, LoopKernels))
        )

    def everything(regions: tuple[Region, ...], times: int = 1) -> float:
        return math.fsum(
            everything(r.body, times * r.count) if r.kind == "loop" else by_kernel(r.pieces, times) for r in regions
        )

    assert plain.compute_s == pytest.approx(everything(plain.parts), rel=1e-13)


@pytest.mark.independent
def test_the_time_of_a_region_is_that_of_the_library_s_kernels() -> None:
    """The same two equations, and by hand: 2,048 cubed at half the peak, and a work that only the vector units bound."""
    device = catalog.device("H100")
    with equations.recording() as called:
        found = hlo.estimate(product(2048, 2048, 2048), device, efficiency=0.5)
    assert {"eq-compute-time", "eq-memory-time"} <= called
    work, moved = 2 * 2048**3, 3 * 2 * 2048**2
    alone = roofline.kernel_time(device, work, moved, efficiency=0.5)
    assert found.compute_s == pytest.approx(alone.time) == pytest.approx(work / 989.5e12 / 0.5)
    clock = estimators.RooflineEstimator(device)
    assert clock.seconds(Work(1.0, 1e12, 0.0, 1e12, {})) == 1e12 / device.vector_flops["fp32"]
    assert clock.seconds(Work(1e9, 1e12, 0.0, 1e9, {"bf16": 5e11, "f32": 5e11})) == pytest.approx(
        5e11 / device.peak_flops["bf16"] + 5e11 / device.peak_flops["tf32"]
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_distinct_region_is_priced_once(name: str) -> None:
    counting = Constant()
    result = hlo.estimate(PROGRAMS[name], "H100", estimator=counting)
    every = slicing_flat(result.parts)
    compute = [r for r in every if r.kind == "compute"]
    assert (
        counting.asked == len({r.signature() for r in compute}) == result.pricing.distinct == result.pricing.evaluated
    )
    assert result.unique_regions == len({r.signature() for r in every})
    assert result.pricing.regions == pytest.approx(result.compute_s)  # a second each
    assert (result.pricing.low_s, result.pricing.high_s) == (result.compute_s / 2, result.compute_s * 2)
    assert result.pricing.saved == pytest.approx(1 - counting.asked / result.pricing.regions)


def test_a_loop_that_communicates_pays_every_turn() -> None:
    scanned = hlo.estimate(
        hlo.sample("llama100m_train_fsdp4.scan"), "H100", estimator=Constant(), network=lambda c: 0.0
    )
    assert any(r.kind == "loop" for r in scanned.parts)
    turns = sum(
        r.count * sum(inner.kind == "compute" for inner in r.body) if r.kind == "loop" else r.kind == "compute"
        for r in scanned.parts
    )
    assert scanned.compute_s == scanned.pricing.regions == turns


def slicing_flat(regions: tuple[Region, ...]) -> list[Region]:
    return [found for r in regions for found in (slicing_flat(r.body) if r.kind == "loop" else [r])]


def test_every_estimator_is_one() -> None:
    every = (
        estimators.RooflineEstimator(TPU),
        estimators.SystolicEstimator(TPU, CHIP),
        estimators.CompositeEstimator({"dot": Constant()}, Constant()),
        estimators.CachedEstimator(Constant(), estimators.Cache.__new__(estimators.Cache), "x"),
    )
    for estimator in every:
        assert isinstance(estimator, estimators.Estimator)
        assert isinstance(estimator.get_compile_args(), Mapping)
        assert isinstance(estimator.get_exec_args(), Mapping)


@pytest.mark.parametrize(
    ("seconds", "low", "high"), [(1, 2, 3), (3, 1, 2), (-1, -1, -1), (1, 1, math.inf), (1, math.nan, 2)]
)
def test_a_run_time_lies_within_its_spread(seconds: float, low: float, high: float) -> None:
    with pytest.raises(InputError, match="0 <= low <= seconds <= high"):
        estimators.RunTime(seconds, low, high, "x")


def test_an_estimator_prices_compute_regions_only() -> None:
    comm = next(r for r in regions_of("mlp_train_dp8.spmd") if r.kind == "comm")
    for estimator in (estimators.RooflineEstimator(TPU), estimators.SystolicEstimator(TPU, CHIP)):
        with pytest.raises(InputError, match="kind 'comm'"):
            estimator.get_run_time_estimate(comm)


def test_options_of_the_roofline_go_to_the_roofline() -> None:
    with pytest.raises(InputError, match="give them to the estimator"):
        hlo.estimate(product(8, 8, 8), "H100", efficiency=0.5, estimator=Constant())


# Systolic arrays


@pytest.mark.published
def test_scale_sim_without_stalls_to_the_cycle() -> None:
    """Cycles of SCALE-Sim 3.0.0, recorded by our own runs of it."""
    found = estimators.scalesim_runs()
    assert len(found) >= 60
    assert {(r.rows, r.columns) for r in found} >= {(16, 8), (8, 16), (32, 32)}
    for r in found:
        assert systolic.gemm_cycles(r.m, r.n, r.k, r.rows, r.columns, r.dataflow) == r.cycles


@pytest.mark.published
def test_peaks_of_the_arrays() -> None:
    """Jouppi 2017, abstract: 92 TOPS; Google, TPU v3: 123 TFLOP/s per chip; hespas2026: 940 MHz, two arrays a core."""
    assert estimators.array("tpu-v1").peak == pytest.approx(92e12, rel=0.005)
    assert CHIP.peak == pytest.approx(TPU.peak_flops["bf16"], rel=0.005)
    assert estimators.array("tpu-v3-core").peak == pytest.approx(61.6e12, rel=0.001)


@pytest.mark.published
def test_utilisation_is_that_of_the_simulators_report() -> None:
    """SCALE-Sim 3.0.0, overall utilisation of 128^3 on 128 x 128: 25.147 % held still weights, 33.596 % results."""
    assert systolic.array_utilisation(128, 128, 128, 128, 128, 509) == pytest.approx(0.25147347740667975)
    assert systolic.array_utilisation(128, 128, 128, 128, 128, 381) == pytest.approx(0.3359580052493438)


@pytest.mark.independent
@pytest.mark.parametrize("flow", ["ws", "os", "is"])
@pytest.mark.parametrize("shape", [(5, 3, 4, 4, 3), (9, 7, 8, 4, 2), (1, 6, 5, 3, 4), (4, 4, 4, 4, 4)])
def test_the_closed_forms_are_those_of_a_wavefront(flow: str, shape: tuple[int, ...]) -> None:
    """Step through every fold: when the last operand has crossed the last element."""
    m, n, k, rows, columns = shape
    held, streamed = {"ws": ((k, n), m), "os": ((m, n), k), "is": ((k, m), n)}[flow]
    total = 0
    for _ in range(0, held[0], rows):
        for _ in range(0, held[1], columns):
            load = rows if flow != "os" else 0  # one row of the held operand per cycle
            last = 0
            for i in range(rows):
                for j in range(columns):
                    for t in range(streamed):
                        last = max(last, load + t + i + j + 1)  # skewed by one cycle per row and column
            total += last
    assert systolic.gemm_cycles(m, n, k, rows, columns, flow) == total - 1  # its report names the last cycle, from 0


@pytest.mark.independent
@pytest.mark.parametrize("flow", ["ws", "os", "is"])
def test_a_long_stream_fills_the_array(flow: str) -> None:
    """Utilisation tends to one as what is streamed grows and the rest fits."""
    m, n, k = {"ws": (10**7, 16, 32), "os": (32, 16, 10**7), "is": (16, 10**7, 32)}[flow]
    assert systolic.utilisation(m, n, k, 32, 16, flow) == pytest.approx(1, abs=1e-4)


def test_scale_sim_itself(tmp_path: Path) -> None:
    """The simulator in its own environment, where there is one (it is no part of this project's, so CI may lack it)."""
    if not os.environ.get(estimators.scalesim.VARIABLE):
        pytest.skip(f"{estimators.scalesim.VARIABLE} names no interpreter with scalesim")
    for flow in systolic.DATAFLOWS:
        array = estimators.SystolicArray(16, 8, 1e9, 2, flow)
        ours, theirs = estimators.SystolicEstimator(TPU, array), estimators.ScaleSimEstimator(TPU, array)
        gemms = [Gemm(1, 100, 40, 70), Gemm(3, 33, 20, 17), Gemm(1, 1, 9, 40)]
        assert theirs.gemm_times(gemms) == ours.gemm_times(gemms)
    assert "scalesim" in theirs.get_compile_args()
    result = hlo.estimate(product(64, 32, 48), TPU, estimator=theirs)
    assert result.compute_s == hlo.estimate(product(64, 32, 48), TPU, estimator=ours).compute_s
    assert result.pricing.estimator == "scalesim"


def test_without_scale_sim_the_error_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    array = estimators.SystolicArray(16, 8, 1e9)
    monkeypatch.delenv(estimators.scalesim.VARIABLE, raising=False)
    with pytest.raises(InputError, match="numpy<2"):
        estimators.ScaleSimEstimator(TPU, array)
    with pytest.raises(InputError, match="is not an interpreter"):
        estimators.ScaleSimEstimator(TPU, array, python=tmp_path / "none")


def fake_interpreter(folder: Path, body: str) -> Path:
    """A program that stands where the simulator's interpreter should."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("echo boom >&2; exit 3", "ended with 3: boom"),
        ("sleep 600", "took more than"),
        ("exit 0", "no report"),
        ("mkdir -p out/run; printf 'LayerID, Total Cycles,\\n0, x,\\n' > out/run/COMPUTE_REPORT.csv", "no report"),
        ("mkdir -p out/run; printf 'LayerID, Total Cycles,\\n' > out/run/COMPUTE_REPORT.csv", "0 of 1"),
    ],
)
def test_a_simulator_that_fails_is_one_sentence(body: str, says: str, tmp_path: Path) -> None:
    array = estimators.SystolicArray(16, 8, 1e9)
    timeout = 1.0 if "sleep" in body else 600.0
    broken = estimators.ScaleSimEstimator(TPU, array, python=fake_interpreter(tmp_path, body), timeout=timeout)
    with pytest.raises(InputError, match=says):
        broken.simulate([Gemm(1, 4, 4, 4)])


def test_a_product_that_would_take_the_simulator_too_long_is_refused(tmp_path: Path) -> None:
    array = estimators.SystolicArray(16, 8, 1e9)
    one = estimators.ScaleSimEstimator(TPU, array, python=fake_interpreter(tmp_path, "exit 0"), max_cycles=1000)
    with pytest.raises(InputError, match="max_cycles"):
        one.simulate([Gemm(1, 4096, 4096, 4096)])
    with pytest.raises(InputError, match="batch"):
        one.simulate([Gemm(2, 4, 4, 4)])


@pytest.mark.parametrize(
    ("change", "says"),
    [({"rows": 0}, "rows"), ({"columns": 1.5}, "columns"), ({"clock": 0.0}, "clock"), ({"dataflow": "rs"}, "dataflow")],
)
def test_an_array_of_no_size_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(MlsysimError, match=says):
        estimators.SystolicArray(**({"rows": 4, "columns": 4, "clock": 1e9} | change))


@pytest.mark.independent
@pytest.mark.parametrize(
    ("arrays", "batch", "m", "rounds"),
    [
        (1, 1, 100, [(100, 40, 1)]),
        # by hand: ceil(70/16) x ceil(n/8) fillings of m + 2 x 16 + 8 - 2 cycles each
        (4, 1, 20, [(20, 10, 1)]),  # columns 580; a grid 720; rows 1075
        (4, 1, 100, [(50, 20, 1)]),  # columns 1380; a grid 1320; rows 1575
        (4, 1, 1000, [(250, 40, 1)]),  # columns 10380; a grid 8070; rows 7200
        (5, 1, 1001, [(1001, 8, 1)]),  # columns 5194; rows 5974
        (5, 1, 20, [(20, 8, 1)]),  # a filling for each array
        (4, 2, 100, [(100, 20, 1)]),  # columns 2070; rows 2200
        (4, 3, 100, [(100, 20, 1), (50, 20, 1)]),  # two at once 2070 and the third on all four 1320; three at once 3450
        (4, 4, 100, [(100, 40, 1)]),
        (4, 9, 100, [(100, 40, 2), (50, 20, 1)]),  # 2 x 3450 + 1320; a third round of one on one array 10350
    ],
)
def test_arrays_share_the_batch_and_then_rows_or_columns(
    arrays: int, batch: int, m: int, rounds: list[tuple[int, int, int]]
) -> None:
    array = estimators.SystolicArray(16, 8, 1e9, arrays)
    assert array.share(Gemm(batch, m, 40, 70)) == tuple((Gemm(1, m, n, 70), times) for m, n, times in rounds)


@pytest.mark.independent
@settings(deadline=None, max_examples=60)
@given(
    *(st.integers(1, n) for n in (12, 600, 600, 300)),
    st.sampled_from(("ws", "os", "is")),
)
def test_an_array_more_never_costs_time(batch: int, m: int, n: int, k: int, flow: str) -> None:
    """Nor do a arrays do more than a times the work of one, nor a batch take longer than its products one by one."""
    gemm = Gemm(batch, m, n, k)
    found = [estimators.SystolicArray(16, 8, 1e9, arrays, flow).cycles(gemm) for arrays in range(1, 14)]
    assert found == sorted(found, reverse=True)
    for arrays, cycles in enumerate(found, 1):
        array = estimators.SystolicArray(16, 8, 1e9, arrays, flow)
        assert 2 * batch * m * n * k / array.peak <= cycles / 1e9
        assert cycles <= batch * array.cycles(Gemm(1, m, n, k))


@pytest.mark.independent
def test_products_never_run_faster_than_the_peak_of_the_arrays() -> None:
    for name in NAMES:
        found = hlo.estimate(PROGRAMS[name], TPU, estimator=estimators.SystolicEstimator(TPU, CHIP))
        assert found.compute_s >= found.matrix_flops / CHIP.peak
        assert found.compute_s >= found.bytes / TPU.memory_bandwidth
        assert math.fsum(found.pricing.seconds.values()) == pytest.approx(found.compute_s)


@pytest.mark.independent
def test_one_product_on_the_arrays() -> None:
    """4096^3 on four 128 x 128 arrays: 32 x 32 folds of 2 x 128 + 128 + 1024 - 2 cycles at 940 MHz."""
    result = hlo.estimate(product(4096, 4096, 4096), TPU, estimator=estimators.SystolicEstimator(TPU, CHIP))
    assert result.compute_s == pytest.approx((32 * 8 * (256 + 128 + 4096 - 2) - 1) / 940e6)
    assert set(result.pricing.seconds) == {"systolic"}


# Products inside operations


@pytest.mark.independent
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_products_found_hold_the_matrix_work(name: str) -> None:
    """2 x batch x m x n x k is the matrix work of an operation; of a convolution with padding at least it."""

    def kernels(regions: tuple[Region, ...]) -> list[Kernel]:
        def of(pieces: Any) -> list[Kernel]:
            return [k for p in pieces for k in ([p] if isinstance(p, Kernel) else of(getattr(p, "body", ())))]

        return [k for r in slicing_flat(regions) for k in of(r.pieces)]

    for kernel in kernels(hlo.estimate(PROGRAMS[name], "H100").parts):
        for node in kernel.nodes:
            if node.cost.matrix_flops and not node.cost.ground:  # a call priced as a whole tells no product
                g = node.cost.gemm
                assert g is not None
                work = 2 * g.batch * g.m * g.n * g.k
                if node.base == "convolution":
                    assert node.cost.matrix_flops <= work
                else:
                    assert work == node.cost.matrix_flops


@pytest.mark.independent
def test_a_grouped_convolution_is_a_batch_of_products() -> None:
    layouts = (("b", "0", "1", "f"), ("0", "1", "i", "o"), ("b", "0", "1", "f"))
    shapes = (2, 8, 8, 32), (3, 3, 8, 64), (2, 6, 6, 64)
    assert of_convolution(*shapes, {"layouts": layouts, "feature_group_count": 4}) == Gemm(4, 72, 16, 72)


@pytest.mark.independent
def test_a_spread_input_leaves_its_holes_out() -> None:
    """Stride two backwards: along each dimension an output meets two of three taps at most."""
    layouts = (("b", "0", "1", "f"), ("0", "1", "i", "o"), ("b", "0", "1", "f"))
    shapes = (1, 4, 4, 16), (3, 3, 16, 8), (1, 8, 8, 8)
    attributes = {"layouts": layouts, "lhs_dilation": (2, 2), "padding": ((1, 2), (1, 2))}
    assert of_convolution(*shapes, attributes) == Gemm(1, 64, 8, 4 * 16)


@pytest.mark.independent
def test_the_dimensions_of_a_dot_in_any_order() -> None:
    dims = {"lhs_batching_dimensions": (1,), "lhs_contracting_dimensions": (0, 3)}
    lhs, result = TensorType("bf16", (6, 4, 10, 7)), TensorType("bf16", (4, 10, 3, 5))
    assert of_dot(lhs, result, 42, dims) == Gemm(4, 10, 15, 42)
    assert of_dot(TensorType("bf16", (0, 4)), TensorType("bf16", (0, 4)), 4, {}) is None


@pytest.mark.independent
def test_a_librarys_product_reads_its_batch_from_its_configuration() -> None:
    operands = [TensorType("bf16", (8, 32, 16)), TensorType("bf16", (8, 16, 24))]
    numbers = {"lhs_contracting_dimensions": ["2"], "lhs_batch_dimensions": ["0"]}
    config = json.dumps({"gemm_backend_config": {"dot_dimension_numbers": numbers}})
    result, flops = TensorType("bf16", (8, 32, 24)), 2.0 * 8 * 32 * 24 * 16
    assert of_library_call({"config": config}, operands, result, flops) == Gemm(8, 32, 24, 16)
    assert of_library_call({}, operands, result, flops) == Gemm(8, 32, 24, 16)


# Composites


def test_a_composite_sends_each_kernel_where_it_belongs() -> None:
    device, name = catalog.device("A100-40GB"), "tf1l_train_dp8.spmd"
    roofline = estimators.RooflineEstimator(device)
    plain = hlo.estimate(PROGRAMS[name], device)
    same = hlo.estimate(
        PROGRAMS[name], device, estimator=estimators.CompositeEstimator({"products": roofline}, roofline)
    )
    assert same.compute_s == pytest.approx(plain.compute_s, rel=1e-12)
    zero = Constant(0.0)
    rest = hlo.estimate(PROGRAMS[name], device, estimator=estimators.CompositeEstimator({"products": zero}, roofline))
    dots = hlo.estimate(PROGRAMS[name], device, estimator=estimators.CompositeEstimator({"products": roofline}, zero))
    assert 0 < rest.compute_s < plain.compute_s
    assert rest.compute_s + dots.compute_s == pytest.approx(plain.compute_s, rel=1e-12)
    assert set(rest.pricing.seconds) == {"constant", "roofline"}
    assert "roofline" in str(rest)


def test_a_composite_counts_every_turn_of_a_loop() -> None:
    counting = Constant()
    loop = hlo.estimate(PROGRAMS["scan"], "H100", estimator=estimators.CompositeEstimator({"none": counting}, counting))
    turns = next(p.count for r in loop.parts for p in r.pieces if isinstance(p, LoopKernels))
    assert turns > 1
    assert loop.compute_s >= turns


def test_a_composite_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="by_op is empty"):
        estimators.CompositeEstimator({}, Constant())


# The cache


def test_a_second_run_evaluates_nothing(tmp_path: Path) -> None:
    program = hlo.sample("tf1l_train_dp8.spmd")
    first, second = (hlo.estimate(program, "H100", estimator=Constant(), cache=tmp_path) for _ in range(2))
    assert 0 < first.pricing.evaluated <= first.pricing.distinct  # the cache knows equal work from equal operations
    assert (second.pricing.evaluated, second.pricing.saved) == (0, 1.0)
    assert second.compute_s == first.compute_s
    assert (second.pricing.low_s, second.pricing.high_s) == (first.pricing.low_s, first.pricing.high_s)


def test_a_price_is_for_its_target_toolchain_and_region(tmp_path: Path) -> None:
    program, cache = product(64, 64, 64), estimators.Cache(tmp_path)

    def evaluated(device: str = "H100", program: Program = program, **compile_args: float) -> int:
        return hlo.estimate(program, device, estimator=Constant(**compile_args), cache=cache).pricing.evaluated

    assert [evaluated(), evaluated()] == [1, 0]
    assert [evaluated(device="A100-40GB"), evaluated(device="A100-40GB")] == [1, 0]
    assert [evaluated(flag=1.0), evaluated(flag=2.0), evaluated(flag=1.0)] == [1, 1, 0]
    assert [evaluated(program=product(64, 64, 32)), evaluated(program=product(64, 64, 32, "f16"))] == [1, 1]


def test_the_same_operations_on_other_bytes_are_another_region() -> None:
    def work(reads: float, writes: float) -> Any:
        return disk.work_of(Region("compute", (Kernel([], {0: reads}, {1: writes}),), ()))

    assert work(8.0, 4.0) == work(8.0, 4.0)
    assert len({disk.digest(w) for w in (work(8.0, 4.0), work(16.0, 4.0), work(8.0, 8.0))}) == 3


def test_equal_regions_of_two_programs_share_a_price(tmp_path: Path) -> None:
    """Numbering and names differ from program to program; the work does not."""
    kind = TensorType("bf16", (64, 64))
    dims = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (0,)}
    op = Op("stablehlo.dot_general", (1, 2), (3,), dims)
    extra = Program("other", (kind,), (0, 0, 0, 0), {"main": Block((0, 1, 2), (op,), (3,))})
    hlo.estimate(product(64, 64, 64), "H100", estimator=Constant(), cache=tmp_path)
    assert hlo.estimate(extra, "H100", estimator=Constant(), cache=tmp_path).pricing.evaluated == 0


def test_a_file_is_kept_whole_and_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = PROGRAMS["tf1l_train_fsdp8.spmd"]
    first = hlo.estimate(path, "H100", cache=tmp_path)
    monkeypatch.setattr(sys.modules["mlsysim.hlo.estimate"], "read", lambda *_: pytest.fail("parsed"))
    second = hlo.estimate(path, "H100", cache=tmp_path)
    assert second.from_cache and not first.from_cache
    assert (second.parts, second.pricing.evaluated) == ((), 0)
    assert second.timeline == first.timeline
    unlike = {"from_cache", "pricing"}
    assert {k: v for k, v in second.to_dict().items() if k not in unlike} == {
        k: v for k, v in first.to_dict().items() if k not in unlike
    }


@pytest.mark.parametrize(
    "options",
    [
        {"split": "linear"},
        {"fusion": "off"},
        {"network": hlo.Links(1e9)},
        {"efficiency": 0.5},
        {"run_as": {"bf16": "fp8"}},
        {"estimator": Constant()},
    ],
    ids=lambda o: next(iter(o)),
)
def test_every_option_is_part_of_the_key(options: dict[str, Any], tmp_path: Path) -> None:
    path = PROGRAMS["tf1l_train_fsdp8.spmd"]
    hlo.estimate(path, "H100", cache=tmp_path)
    assert not hlo.estimate(path, "H100", cache=tmp_path, **options).from_cache
    assert hlo.estimate(path, "H100", cache=tmp_path, **options).from_cache


def test_a_network_that_cannot_be_described_is_not_kept(tmp_path: Path) -> None:
    path = PROGRAMS["mlp_train_dp8.spmd"]
    for _ in range(2):
        assert not hlo.estimate(path, "H100", network=lambda c: 1.0, cache=tmp_path).from_cache


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-1],
        lambda raw: raw.replace(b"1.0", b"1.5"),
        lambda raw: b"",
        lambda raw: b"\x80\x04.",
        lambda raw: b"[" * 100_000,
        lambda raw: raw.partition(b"\n")[0] + b"\n{}",
        lambda raw: raw + b" " * disk.MAX_ENTRY,
    ],
)
def test_a_damaged_entry_is_reported_and_computed_again(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    program = product(64, 64, 64)
    hlo.estimate(program, "H100", estimator=Constant(), cache=tmp_path)
    entry = next(p for p in tmp_path.rglob("*.json"))
    entry.write_bytes(damage(entry.read_bytes()))
    again = hlo.estimate(program, "H100", estimator=Constant(), cache=tmp_path)
    assert again.pricing.evaluated == 1
    assert any("computed again" in note for note in again.notes)
    assert hlo.estimate(program, "H100", estimator=Constant(), cache=tmp_path).pricing.evaluated == 0


@pytest.mark.parametrize(
    "value", [None, [], {"seconds": "x"}, {"seconds": 2, "low": 3, "high": 4, "source": "", "parts": {}}, 7]
)
def test_an_entry_of_another_form_is_no_price(value: object, tmp_path: Path) -> None:
    cache, estimator = estimators.Cache(tmp_path), Constant()
    region = regions_of("gemm_bf16_4096")[0]
    cached = estimators.CachedEstimator(estimator, cache, "H100")
    cache.put(cached.key(region), value)
    assert cached.get_run_time_estimate(region).seconds == 1.0
    assert (estimator.asked, cached.hits) == (1, 0)


def _forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the whole-file entry of a cache and give it the digest that belongs to what it says now."""
    for entry in folder.rglob("*.json"):
        head, _, text = entry.read_bytes().partition(b"\n")
        held = json.loads(text)
        if "total_s" in held:
            change(held)
            new = json.dumps(held).encode()
            key = head.split(b" ")[-1]
            entry.write_bytes(f"{disk.FORMAT} {sha256(new).hexdigest()} ".encode() + key + b"\n" + new)
            return
    pytest.fail("no whole-file entry")


@pytest.mark.slow
@pytest.mark.independent
@pytest.mark.parametrize(
    "change",
    [
        {"total_s": -5.0}, {"total_s": float("nan")}, {"total_s": 1e-9}, {"total_s": 1e9}, {"total_s": float("inf")},
        {"flops": -1.0}, {"matrix_flops": 1e30}, {"compute_s": 0.0}, {"comm_s": 7.0}, {"exposed_comm_s": 1.0},
        {"regions": "many"}, {"regions": True}, {"spans": [[0.0, -1.0]]}, {"collectives": []}, {"pricing": {}},
    ],
    ids=str,
)  # fmt: skip
def test_totals_that_no_program_has_are_computed_again(change: dict[str, Any], tmp_path: Path) -> None:
    path = PROGRAMS["tf1l_train_fsdp8.spmd"]
    first = hlo.estimate(path, "H100", cache=tmp_path)
    _forge(tmp_path, lambda held: held.update(change))
    again = hlo.estimate(path, "H100", cache=tmp_path)
    assert not again.from_cache and again.total_s == first.total_s
    assert any("is no estimate; it was computed again" in note for note in again.notes)
    assert hlo.estimate(path, "H100", cache=tmp_path).from_cache


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_what_a_program_really_gives_passes_the_check(name: str, tmp_path: Path) -> None:
    for split in ("linear", "dependency"):
        for _ in range(2):
            found = hlo.estimate(PROGRAMS[name], "H100", split=split, cache=tmp_path)
        assert found.from_cache, found.notes


def test_a_pipe_in_a_cache_is_not_waited_for(tmp_path: Path) -> None:
    program = product(64, 64, 64)
    hlo.estimate(program, "H100", estimator=Constant(), cache=tmp_path)
    entry = next(p for p in tmp_path.rglob("*.json"))
    entry.unlink()
    os.mkfifo(entry)
    again = hlo.estimate(program, "H100", estimator=Constant(), cache=tmp_path)
    assert again.pricing.evaluated == 1 and any("computed again" in note for note in again.notes)
    assert entry.is_file()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        estimators.Cache(tmp_path / "file")


def test_a_description_is_canonical() -> None:
    assert disk.canonical({"b": 1.0, "a": (1, 2)}) == '{"a":[1,2],"b":1.0}'
    with pytest.raises(ValueError, match="JSON"):
        disk.canonical(math.nan)
    with pytest.raises(disk.NotDescribed):
        disk.described(lambda: 0)


def test_the_names_of_arrays() -> None:
    with pytest.raises(UnknownNameError, match="systolic array"):
        estimators.array("tpu-v9")
    for array in estimators.arrays().values():
        assert all(fact.source for fact in array.sources.values())


# The command line

SAMPLE = str(PROGRAMS["tf1l_train_dp8.spmd"])
KEYS = "flops matrix_flops transcendentals bytes compute_s comm_s exposed_comm_s total_s regions unique_regions collectives unknown_ops"


def command(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    cli.main(["hlo", "estimate", SAMPLE, "--device", "TPU-v3", "--json", *args])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_command_prices_by_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    named = command(capsys, "--estimator", "systolic", "--array", "tpu-v3-chip")
    given = command(
        capsys,
        "--estimator",
        "systolic",
        "--array",
        "128x128",
        "--arrays",
        "4",
        "--clock",
        "940 MHz",
        "--dataflow",
        "ws",
    )
    assert named == given
    assert set(KEYS.split()) <= set(named)
    assert named["compute_s"] == hlo.estimate(SAMPLE, TPU, estimator=estimators.SystolicEstimator(TPU, CHIP)).compute_s
    assert set(named["pricing"]["seconds"]) == {"systolic", "roofline"}


def test_the_command_composes_and_keeps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--estimator", "composite", "--array", "tpu-v3-chip", "--run-as", "f32=bf16", "--cache", str(tmp_path))
    first, second = command(capsys, *options), command(capsys, *options)
    assert (first["pricing"]["estimator"], first["from_cache"], second["from_cache"]) == ("composite", False, True)
    assert second["total_s"] == first["total_s"]
    assert second["pricing"]["saved"] == 1.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--estimator", "systolic"), "needs --array"),
        (("--estimator", "systolic", "--array", "8x8"), "needs --clock"),
        (("--estimator", "systolic", "--array", "tpu-v3-chip", "--clock", "1 GHz"), "has its own"),
        (("--estimator", "systolic", "--array", "8x", "--clock", "1 GHz"), "has its own"),
        (("--estimator", "systolic", "--array", "9999999x8", "--clock", "1 GHz"), "larger than any array"),
        (("--estimator", "systolic", "--array", "tpu-v9"), "tpu-v9"),
        (("--estimator", "systolic", "--array", "tpu-v3-chip", "--efficiency", "0.5"), "belong to the roofline"),
        (
            ("--estimator", "systolic", "--array", "tpu-v3-chip", "--rest", "profile"),
            "belongs to --estimator composite",
        ),
        (("--array", "8x8"), "belongs to --estimator scalesim or systolic"),
        (("--platform", "cpu"), "belongs to --estimator profile"),
        (("--estimator", "magic"), "magic"),
    ],
)
def test_an_option_that_does_not_fit_is_one_sentence(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["hlo", "estimate", SAMPLE, "--device", "TPU-v3", *options]) == 2
    assert says in capsys.readouterr().err


def test_a_cache_without_a_folder_and_a_program_asked_twice() -> None:
    program, roofline = hlo.sample("tf1l_train_dp8.spmd"), estimators.RooflineEstimator(catalog.device("H100"))
    first = hlo.estimate(program, "H100")
    cache = estimators.Cache()
    filling, from_it = (hlo.estimate(program, "H100", estimator=roofline, cache=cache) for _ in range(2))
    assert filling.total_s == from_it.total_s == first.total_s
    assert filling.pricing.evaluated > 0 == from_it.pricing.evaluated
    other = hlo.estimate(program, "A100")  # the same kernels on another device
    assert (other.kernels, other.bytes) == (first.kernels, first.bytes) and other.total_s != first.total_s
    assert (
        hlo.estimate(replace(program), "H100").to_dict() == first.to_dict() == hlo.estimate(program, "H100").to_dict()
    )
    apart = hlo.estimate(program, "H100", fusion="off")
    assert apart.kernels > first.kernels
