"""Products and attention calls as a whole: bounds, limits, what each part does, and that arrays do as floats."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import cli, kernel_times, roofline
from mlsysim.errors import InputError
from mlsysim.kernel_times import attention_time, product_time

H100: dict[str, Any] = {"peak_flops": 989.5e12, "memory_bandwidth": 3.35e12}
REAL: dict[str, Any] = {
    "multiprocessors": 132,
    "compute_efficiency": 0.8,
    "memory_efficiency": 0.9,
    "startup_time": 3e-6,
    "sharpness": 3.0,
}
SIZE = st.integers(1, 20_000)


@pytest.mark.independent
@given(m=SIZE, n=SIZE, k=SIZE)
def test_without_tiles_shares_and_a_start_it_is_the_iron_law(m: int, n: int, k: int) -> None:
    found = product_time(m, n, k, **H100, tiled=False)
    assert found.time == pytest.approx(roofline.iron_law(2 * m * n * k, 2 * (m * k + k * n + m * n), 989.5e12, 3.35e12))
    assert product_time(m, n, k, **H100, **REAL).time > found.time


@pytest.mark.independent
@given(m=SIZE, n=SIZE, k=SIZE, groups=st.integers(1, 9))
def test_more_work_is_never_faster(m: int, n: int, k: int, groups: int) -> None:
    def time(*size: int, groups: int = groups) -> float:
        return float(product_time(*size, **H100, **REAL, groups=groups).time)

    now = time(m, n, k)
    assert time(m, n, k + 1) >= now and time(m + 1, n, k) >= now * (1 - 1e-9) and time(m, n + 1, k) >= now * (1 - 1e-9)
    assert time(m, n, k, groups=groups + 1) >= now * (1 - 1e-9)


@pytest.mark.independent
def test_a_wave_more_costs_a_wave() -> None:
    full, more = (product_time(128 * 132, 128 * c, 65536, **H100, **REAL, tiled=True) for c in (1, 2))
    assert (full.busy, more.busy) == (1.0, 1.0)
    part = product_time(128 * 132 + 1, 128, 65536, **H100, **REAL)
    assert part.busy == pytest.approx(133 / 264)
    assert part.compute_time == pytest.approx(2 * full.compute_time)
    assert product_time(200, 128, 65536, **H100, **REAL).busy == 1.0, (
        "up to 256 rows every multiprocessor is given work"
    )


@pytest.mark.independent
def test_weights_of_four_bits_move_a_quarter_and_compute_the_same() -> None:
    wide, narrow = (product_time(8, 28672, 8192, **H100, weight_bytes=b) for b in (2.0, 0.5))
    assert narrow.flops == wide.flops
    assert wide.bytes - narrow.bytes == pytest.approx(28672 * 8192 * 1.5)


@pytest.mark.independent
def test_a_narrow_product_waits_for_its_chain() -> None:
    step = kernel_times.CHAIN_BYTE_TIME
    assert step == pytest.approx(0.88e-9, rel=0.01)
    call = product_time(64, 128, 65536, 1979e12, 3.35e12, element_bytes=1.0, chain_byte_time=step, sharpness=3.0)
    assert call.bound == "chain" and call.time == pytest.approx(65536 * step, rel=0.01)


@pytest.mark.independent
def test_the_parts_make_the_time() -> None:
    call = product_time(4096, 7168, 512, **H100, **REAL)
    clocks = call.compute_time, call.memory_time, call.chain_time
    assert call.time == pytest.approx(sum(c**3 for c in clocks) ** (1 / 3) + call.unhidden_time + 3e-6)
    result = 2 * 4096 * 7168
    assert call.unhidden_time == pytest.approx(result * 132 / (32 * 56) / (0.9 * 3.35e12))
    assert call.memory_time == pytest.approx((call.bytes / (0.9 * 3.35e12)) - call.unhidden_time)


@pytest.mark.published
def test_few_tiles_with_a_long_shared_dimension_are_cut() -> None:
    """infersim2026bench, gemm/h800: 24.9 us for 512 x 512 x 16384 and 15.9 for 512 x 576 x 7168, 16 and 20 tiles on 132."""
    rates = REAL | {"compute_efficiency": 0.7, "element_bytes": 1.0, "result_bytes": 2.0, "startup_time": 4e-6}
    rates |= {"chain_byte_time": kernel_times.CHAIN_BYTE_TIME}
    for n, k, measured in ((512, 16384, 24.914e-6), (576, 7168, 15.9e-6)):
        call = product_time(512, n, k, 1979e12, 3.35e12, **rates)
        assert call.time == pytest.approx(measured, rel=0.12)
        tiles = 4 * -(-n // 128)
        parts = call.busy * 132 / tiles
        assert parts == pytest.approx(round(parts)) and 1 < parts <= 132 // tiles
        sums = 2 * (parts - 1) * 512 * n * 4
        assert call.bytes == pytest.approx(512 * k + n * k + 2 * 512 * n + sums)
        assert call.unhidden_time == pytest.approx((2 * 512 * n + sums) / (0.9 * 3.35e12))


@pytest.mark.independent
@given(m=st.integers(257, 2000), n=SIZE, k=SIZE)
def test_parts_are_taken_only_where_they_are_quicker(m: int, n: int, k: int) -> None:
    whole, cut = (product_time(m, n, k, **H100, **REAL | {"multiprocessors": s}) for s in (None, 132))
    tiles = -(-m // 128) * -(-n // (64 if n <= 64 else 128))
    one = tiles / (-(-tiles // 132) * 132)
    result = 2.0 * m * n * min(1.0, 132 / tiles) / (0.9 * 3.35e12)
    memory = whole.memory_time - result
    uncut = ((whole.compute_time / one) ** 3 + memory**3) ** (1 / 3) + result + 3e-6
    assert cut.time <= uncut * (1 + 1e-9)
    assert cut.busy >= one * (1 - 1e-12)


@pytest.mark.independent
def test_exponentials_and_queries_hide_behind_nothing() -> None:
    """Two sequences, no mask: 4 d FLOP a pair, one exponential in the time of 512; queries and results cross outside."""
    pairs, d = 2 * 8 * 4096**2, 64
    call = attention_time(
        2,
        8,
        4096,
        0,
        d,
        d,
        8,
        2 * d,
        2e15,
        8e12,
        causal=0.0,
        compute_efficiency=0.75,
        exponential_flops=512.0,
        sharpness=3.0,
    )
    products, exponentials = pairs * 4 * d / (0.75 * 2e15), pairs * 512 / 2e15
    outside, cache = (2 * 4096 * 8 * 2 * d * 2 / 8e12 for _ in range(2))
    assert call.compute_time == pytest.approx((products**3 + exponentials**3) ** (1 / 3))
    assert call.time == pytest.approx((products**3 + exponentials**3 + cache**3) ** (1 / 3) + outside)
    told = str(call.explain())
    assert "eq-softmax-share" in told and "queries and results" in told
    bound = attention_time(2, 8, 4096, 0, d, d, 8, 2 * d, 2e15, 8e12, causal=0.0)
    assert bound.time == pytest.approx(pairs * 4 * d / 2e15), "a bound hides both"


@pytest.mark.independent
def test_arrays_do_as_floats() -> None:
    m = np.array([1.0, 64.0, 300.0, 5000.0])
    many = product_time(m, 4096.0, 4096.0, **H100, **REAL)
    ones = [product_time(float(x), 4096.0, 4096.0, **H100, **REAL) for x in m]
    np.testing.assert_allclose(many.time, [o.time for o in ones], rtol=1e-14)
    assert list(many.bound) == [o.bound for o in ones]
    q = np.array([1.0, 128.0, 4096.0])
    both = attention_time(2.0, 32.0, q, 512.0, 128.0, 128.0, 8.0, 256.0, **H100, sharpness=3.0)
    each = [attention_time(2.0, 32.0, float(x), 512.0, 128.0, 128.0, 8.0, 256.0, **H100, sharpness=3.0) for x in q]
    np.testing.assert_allclose(both.time, [e.time for e in each], rtol=1e-14)


@pytest.mark.published
def test_absorbed_latent_decoding_starts_as_three_kernels() -> None:
    """infersim2026bench, mla/decode/h800: 155 us for 64 sequences of 4096 tokens. One sequence shows its host: 20.9 us for 1024
    tokens, 21.7 for four times as many."""
    shares = {"compute_efficiency": 0.667, "memory_efficiency": 0.887, "startup_time": 3 * 4.05e-6, "sharpness": 3.0}

    def decode(batch: float) -> kernel_times.CallTime:
        return attention_time(batch, 128, 1, 4095, 576, 512, 1, 576, 989e12, 3.35e12, **shares)

    assert decode(64).time == pytest.approx(155e-6, rel=0.1)
    assert decode(1).bound == "start" and decode(1).time < 21.7e-6


def test_what_is_explained_is_what_is_asked() -> None:
    told = str(product_time(512, 1280, 8192, **H100, **REAL, chain_byte_time=1e-9).explain())
    for label in (
        "eq-tile-padding",
        "eq-wave-share",
        "eq-last-wave",
        "eq-chain-time",
        "eq-rounded-roof",
        "eq-partial-sums",
    ):
        assert label in told
    assert "eq-attention-kernel-flops" in str(attention_time(1, 8, 1, 99, 64, 64, 8, 128, **H100).explain())
    with pytest.raises(InputError, match="product_time: m = 0 must be a number above 0"):
        product_time(0, 1, 1, **H100)


def test_the_command_asks_the_same_predictor(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["kernel", "product", "--device", "H100", "--m", "64", "--n", "7168", "--k", "2048", "--precision", "fp8"]
    found = {}
    for word in ("bound", "datasheet", "calibrated"):
        assert cli.main([*words, "--efficiencies", word, "--json"]) == 0
        found[word] = json.loads(capsys.readouterr().out)
        assert found[word]["efficiencies"] == word
    assert found["bound"]["time_s"] < found["datasheet"]["time_s"] < found["calibrated"]["time_s"]
    assert cli.main([*words, "--explain"]) == 0
    assert "eq-rounded-roof" in capsys.readouterr().out
    call = [
        "kernel",
        "attention",
        "--device",
        "H800-SXM",
        "--kind",
        "mla_absorbed",
        "--heads",
        "128",
        "--cached-len",
        "4095",
    ]
    assert cli.main([*call, "--json"]) == 0
    assert 8e-6 < json.loads(capsys.readouterr().out)["time_s"] < 15e-6
    assert cli.main(["kernel", "product", "--device", "H100", "--m", "0", "--n", "1", "--k", "1"]) == 2
    assert "argument --m: '0' must be above 0" in capsys.readouterr().err
    assert cli.main([*call[:-1], "-1"]) == 2
    assert (
        cli.main(["kernel", "attention", "--device", "H100", "--heads", "8", "--cached-len", "9", "--q-len", "0"]) == 2
    )
    assert "argument --q-len: '0' must lie in [1, inf)" in capsys.readouterr().err
