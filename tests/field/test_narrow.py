"""Numbers below 16 bits: their grids, the noise of rounding, and what products in them buy."""

import math
import random

import pytest

from mlsysim import catalog, evidence, memory, training
from mlsysim.errors import InputError
from mlsysim.evidence.measured.narrow import cast_bytes, linear_share, rate_gain, stored_bytes
from mlsysim.memory.grids import GRIDS, SCALES, block_snr, decibels, gaussian_noise, scale_of


@pytest.mark.published
def test_grids_are_those_of_the_papers() -> None:
    """Largest, smallest normal and smallest number as table 1 of FP8 Formats for Deep Learning and ONNX print them."""
    e4m3, e5m2 = GRIDS["e4m3"], GRIDS["e5m2"]
    assert (e4m3.largest, 2.0**e4m3.least_exponent, e4m3.smallest) == (448, 2**-6, 2**-9)
    assert (e5m2.largest, 2.0**e5m2.least_exponent, e5m2.smallest) == (57344, 2**-14, 2**-16)
    assert GRIDS["e2m1"].values == (0, 0.5, 1, 1.5, 2, 3, 4, 6)
    assert (GRIDS["e3m2"].largest, GRIDS["e3m2"].smallest) == (28, 0.0625)
    assert (GRIDS["e2m3"].largest, GRIDS["e2m3"].smallest) == (7.5, 0.125)
    assert (GRIDS["e8m0"].largest, GRIDS["e8m0"].smallest) == (2.0**127, 2.0**-127)
    assert GRIDS["int8"].values == tuple(range(128)) and GRIDS["int4"].values == tuple(range(8))
    assert [GRIDS[n].bits for n in ("e4m3", "e5m2", "e3m2", "e2m1", "e8m0", "int8")] == [8, 8, 6, 4, 8, 8]


@pytest.mark.independent
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_the_spacing_is_the_distance_of_neighbours(name: str) -> None:
    g = GRIDS[name]
    for low, high in zip(g.values, g.values[1:], strict=False):
        e = math.floor(math.log2(low)) if low else g.least_exponent - 5
        assert memory.grid_spacing(e, g.mantissa_bits, g.least_exponent) == high - low


@pytest.mark.independent
def test_a_narrow_cache_pays_where_two_steps_take_as_long() -> None:
    """Both steps by their bytes: at the crossing they are equal, and beyond it the narrow one is shorter."""
    wide, narrow, bandwidth, overhead, batch = 100e3, 28e3, 2e12, 3e-4, 5
    step = {k: (lambda s, k=k, t=t: t + batch * s * k / bandwidth) for k, t in ((wide, 0.0), (narrow, overhead))}
    found = memory.narrow_cache_context(overhead, bandwidth, wide, narrow, batch)
    assert step[wide](found) == pytest.approx(step[narrow](found))
    assert step[wide](2 * found) > step[narrow](2 * found) and step[wide](found / 2) < step[narrow](found / 2)
    with pytest.raises(InputError, match="narrow_bytes"):
        memory.narrow_cache_context(overhead, bandwidth, narrow, wide)


@pytest.mark.independent
def test_rounding_takes_the_nearest_and_the_even_of_two() -> None:
    rng = random.Random(26)
    for g in GRIDS.values():
        for _ in range(40):
            x = rng.uniform(0, 1.1 * g.largest) if g.name != "e8m0" else 2.0 ** rng.uniform(-20, 20)
            assert abs(x - g.rounded(x)) == min(abs(x - v) for v in g.values)
            if g.name != "e8m0":
                assert g.rounded(-x) == -g.rounded(x)
    assert [GRIDS["e2m1"].rounded(x) for x in (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)] == [0, 1, 1, 2, 2, 4, 4]
    assert GRIDS["e4m3"].rounded(1e9) == 448


@pytest.mark.independent
def test_noise_is_that_of_samples() -> None:
    rng = random.Random(5)
    xs = [rng.gauss(0, 1) for _ in range(20_000)]
    for name, scale in (("e2m1", 0.5), ("e4m3", 0.01), ("int4", 0.4)):
        g = GRIDS[name]
        sampled = sum((x - scale * g.rounded(x / scale)) ** 2 for x in xs) / len(xs)
        assert gaussian_noise(name, scale) == pytest.approx(sampled, rel=0.04)
        few = [x for x in xs if abs(x) <= 1]
        sampled = sum((x - scale * g.rounded(x / scale)) ** 2 for x in few) / len(few)
        assert gaussian_noise(name, scale, 1.0) == pytest.approx(sampled, rel=0.04)
    with pytest.raises(InputError, match="scale = 0"):
        gaussian_noise("e2m1", 0)


@pytest.mark.independent
def test_blocks_are_those_of_samples() -> None:
    rng = random.Random(7)
    for name, block, how in (("e2m1", 16, "e4m3"), ("e2m1", 32, "floor"), ("e2m1", 32, "ceil"), ("int4", 16, "exact")):
        power = noise = 0.0
        for _ in range(1500):
            xs = [rng.gauss(0, 1) for _ in range(block)]
            s = scale_of(max(map(abs, xs)), name, how)
            power += sum(x * x for x in xs)
            noise += sum((x - s * GRIDS[name].rounded(x / s)) ** 2 for x in xs)
        assert decibels(block_snr(name, block, how)) == pytest.approx(decibels(power / noise), abs=0.2)


@pytest.mark.independent
def test_a_format_without_ends_has_the_ratio_of_its_mantissa() -> None:
    """Sizes even in the logarithm, over whole octaves, rounded one by one: exact to what a million of them would give."""
    for name in ("e5m2", "e4m3"):
        g = GRIDS[name]
        xs = [2.0 ** ((i + 0.5) / 997) for i in range(997 * 3)]
        ratio = sum(x * x for x in xs) / sum((x - g.rounded(x)) ** 2 for x in xs)
        assert memory.float_snr(g.mantissa_bits) == pytest.approx(ratio, rel=0.03)
    assert memory.float_snr(4) / memory.float_snr(3) == pytest.approx(4)
    assert decibels(float(memory.float_snr(3))) == pytest.approx(32.2, abs=0.05)


@pytest.mark.independent
def test_factors_of_blocks() -> None:
    for how in SCALES:
        for a in (0.3, 1.0, 2.9, 5.0):
            s = scale_of(a, "e2m1", how)
            assert 3.7 < a / s < 8.0, (how, a)  # used up to its upper half, or cut off
            if how in ("exact", "ceil"):
                assert a / s <= 6
            if how in ("floor", "ceil"):
                assert math.log2(s) == round(math.log2(s))
    with pytest.raises(InputError, match="how = 'up'"):
        scale_of(1.0, "e2m1", "up")
    with pytest.raises(InputError, match="block = 1"):
        block_snr("e2m1", 1)


@pytest.mark.independent
def test_at_the_break_even_width_both_take_as_long() -> None:
    c, beta, wide, slim = 5.0, 3e12, 1e15, 2.5e15
    n = training.cast_break_even(c, beta, wide, slim)
    rows, depth = 4096, 8192
    in_16 = 2 * rows * depth * n / wide
    narrow = 2 * rows * depth * n / slim + rows * depth * c / beta
    assert narrow == pytest.approx(in_16)
    for width in (0.3 * n, 4 * n):
        gain = (2 * width / wide) / (2 * width / slim + c / beta)
        assert training.narrow_gain(2.5, width, n) == pytest.approx(gain)
    assert training.narrow_gain(2.5, 100.0) == pytest.approx(2.5)  # casts that cost nothing
    with pytest.raises(InputError, match="wide_rate < narrow_rate"):
        training.cast_break_even(c, beta, slim, wide)


@pytest.mark.independent
def test_the_implied_share_gives_the_gain_back() -> None:
    for gain, k in ((1.25, 2.0), (1.9, 2.0), (3.0, 4.0)):
        s = training.implied_share(gain, k)
        assert 1 / (1 - s + s / k) == pytest.approx(gain)
    assert training.implied_share(1.0, 2.0) == 0 and training.implied_share(2.0, 2.0) == 1
    assert training.implied_share(2.5, 2.0) > 1  # more than it can have given


@pytest.mark.published
def test_printed_figures_of_narrow_formats() -> None:
    found = {c.measurement.name: c for c in evidence.checks("narrow")}
    assert len(found) == 38 and all(c.measurement.sourced.source for c in found.values())
    # by hand: 8,030,261,248 parameters, of them two times 128,256 x 4,096 in embedding and head
    kept = 2 * 128_256 * 4096
    assert stored_bytes("Llama-3.1-8B", "nvfp4") == 2 * kept + (8_030_261_248 - kept) * 9 / 16
    assert all(abs(found[f"torchao-checkpoint-{f}"].error) < 0.004 for f in ("bf16", "fp8", "mxfp8", "nvfp4"))
    assert found["torchao-cast-mxfp8"].predicted == 16384**2 * (2 + 33 / 32)
    assert found["torchao-cast-nvfp4"].predicted == 2048 * 8192 * (2 + 2 * 9 / 16)
    assert all(abs(found[f"torchao-cast-{f}"].error) < 1e-5 for f in ("mxfp8", "nvfp4"))
    even = (2 + 33 / 32) / (2 * 7.7e12 * (1 / 2.25e15 - 1 / 4.5e15))
    assert found["torchao-product-mxfp8-4096"].predicted == pytest.approx(1 / (0.5 + 0.5 * even / 4096))
    even = (4 + 2) / (2 * 2.4e12 * (1 / 989.5e12 - 1 / 1979e12))
    inverse = (1 / 4096 + 1 / 8192 + 1 / 16384) / 3
    assert found["torchao-linear-4096-8192-16384"].predicted == pytest.approx(
        1 / (0.5 + 0.5 * even * inverse), rel=1e-6
    )
    casts = 2 * (2 + 33 / 32) * (131072 * (7168 + 2048) + 8 * 7168 * 2048) / 7.7e12
    assert found["torchao-moe-cast-share"].predicted == pytest.approx(
        casts / (casts + 6 * 131072 * 7168 * 2048 / 4.5e15)
    )
    # of a step: 32 layers of 4 x 4096 x (...) matrices, causal attention over 8,192, and the head
    mlp, rest = 3 * 4096 * 14336, 4096 * (2 * 4096 + 2 * 1024)
    whole = 32 * (2 * (mlp + rest) + 4 * 4096 * 8193 / 2) + 2 * 4096 * 128_256
    assert linear_share("Llama-3-8B", 8192) == pytest.approx(64 * (mlp + rest) / whole, rel=1e-3)
    assert linear_share("Llama-3-8B", 8192, "mlp") == pytest.approx(64 * mlp / whole, rel=1e-3)
    steps = [c for c in found.values() if c.measurement.kind in ("step", "decode")]
    assert all(c.measured < c.predicted for c in steps)  # no claim above its ceiling
    assert found["torchao-step-h100-tensorwise"].others["implied"] == pytest.approx((1 - 1 / 1.2503) * 2)
    weights, cache = 2 * (8_030_261_248 - kept / 2), 128 * 1056 * 32 * 2 * 8 * 128 * 2
    slim = stored_bytes("Llama-3.1-8B", "fp8") - kept
    assert found["torchao-decode-h100-fp8"].predicted == pytest.approx((weights + cache) / (slim + cache))
    assert rate_gain("GB200", "nvfp4", "fp8") == 2 and catalog.device("GB300").peak_flops["fp4"] == 15e15


@pytest.mark.independent
def test_a_calibrated_factor_spares_a_reading() -> None:
    """A number is read once in 16 bits and written in 4 with a byte for every 16; a B200 has 2.25 and 9 PFLOP/s, 7.7 TB/s."""
    by_hand = 2 + 4 / 8 + 1 / 16
    assert cast_bytes("nvfp4", 1, calibrated=True) == by_hand == cast_bytes("nvfp4", 1) - 2
    assert cast_bytes("mxfp8", 1, calibrated=True) == cast_bytes("mxfp8", 1)  # blocks wait in registers anyway
    b200, k = catalog.device("B200"), rate_gain("B200", "nvfp4")
    wide = b200.peak_flops["bf16"]
    even = training.cast_break_even(by_hand, b200.memory_bandwidth, wide, k * wide)
    assert even == pytest.approx(by_hand / (2 * 7.7e12 * (1 / 2.25e15 - 1 / 9e15))) == pytest.approx(499, rel=1e-3)
