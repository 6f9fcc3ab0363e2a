"""Single kernels: padding, the time with three constants, and what attention computes and reads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import evidence, kernels, roofline
from mlsysim.serving_steps.rates import shipped_rates

SIZES = st.integers(1, 100_000)


@pytest.mark.independent
@given(size=SIZES, tile=st.sampled_from([1, 16, 64, 128, 256]))
def test_padding_is_the_next_whole_tile(size: int, tile: int) -> None:
    padded = kernels.tile_padding(size, tile)
    assert padded % tile == 0 and size <= padded < size + tile
    assert padded == math.ceil(size / tile) * tile


@pytest.mark.independent
@given(f=st.floats(1e6, 1e18), b=st.floats(1e3, 1e15), e=st.floats(0.1, 1.0))
def test_without_start_and_end_it_is_the_iron_law(f: float, b: float, e: float) -> None:
    bound = roofline.iron_law(f, b, 1e15, 3e12)
    assert kernels.measured_kernel_time(f, b, 1e15, 3e12) == pytest.approx(bound, rel=1e-12)
    slower = kernels.measured_kernel_time(f, b, 1e15, 3e12, e, e)
    assert slower == pytest.approx(bound / e, rel=1e-12)


@pytest.mark.independent
def test_each_constant_moves_the_side_that_it_belongs_to() -> None:
    compute = {"flops": 8e12, "bytes": 1e9, "peak_flops": 1e15, "memory_bandwidth": 2e12}
    memory = compute | {"flops": 1e9, "bytes": 8e9}
    assert kernels.measured_kernel_time(**compute, compute_efficiency=0.5) == pytest.approx(16e-3)
    assert kernels.measured_kernel_time(**compute, memory_efficiency=0.5) == pytest.approx(8e-3)
    assert kernels.measured_kernel_time(**memory, memory_efficiency=0.5) == pytest.approx(8e-3)
    assert kernels.measured_kernel_time(**memory, compute_efficiency=0.5) == pytest.approx(4e-3)
    assert kernels.measured_kernel_time(**memory, startup_time=1e-3) == pytest.approx(5e-3)
    # What nothing overlaps comes on top of either side, at the bandwidth that is sustained.
    end = kernels.measured_kernel_time(**compute, memory_efficiency=0.5, unhidden_bytes=2e9)
    assert end == pytest.approx(10e-3)


@pytest.mark.independent
@given(batch=st.integers(1, 3), heads=st.integers(1, 3), q=st.integers(1, 9), past=st.integers(0, 9))
def test_attention_counts_every_pair_that_is_not_masked(batch: int, heads: int, q: int, past: int) -> None:
    seen = np.tril(np.ones((q, past + q)), k=past)  # new token i sees the cache and new tokens up to itself
    for causal, pairs in ((1.0, seen.sum()), (0.0, q * (past + q))):
        work = kernels.attention_kernel_flops(batch, heads, q, past, qk_dim=5, v_dim=3, causal=causal)
        assert work == pytest.approx(batch * heads * pairs * 2 * (5 + 3))


@pytest.mark.independent
def test_causal_attention_tends_to_half_of_full_attention() -> None:
    ratios = [
        kernels.attention_kernel_flops(1, 8, s, 0, 128, 128) / kernels.attention_kernel_flops(1, 8, s, 0, 128, 128, 0.0)
        for s in (1, 64, 4096, 10**6)
    ]
    assert ratios[0] == 1.0 and ratios == sorted(ratios, reverse=True)
    assert ratios[-1] == pytest.approx(0.5, rel=1e-5)


@pytest.mark.independent
def test_grouped_queries_share_the_reading_of_their_keys_and_values() -> None:
    shape = {"batch": 4, "heads": 32, "q_len": 1, "kv_len": 8192, "qk_dim": 128, "v_dim": 128, "kv_width": 256}
    mha, gqa = (kernels.attention_kernel_bytes(**shape, kv_heads=h) for h in (32, 8))
    queries = kernels.attention_kernel_bytes(**shape, kv_heads=0)
    assert (mha - queries) == pytest.approx(4 * (gqa - queries))
    assert queries == 4 * 32 * 256 * 2
    halved = kernels.attention_kernel_bytes(**shape, kv_heads=8, kv_element_bytes=1)
    assert (gqa - queries) == pytest.approx(2 * (halved - queries))


@pytest.mark.independent
def test_absorbed_latent_attention_reads_one_vector_and_computes_for_every_head() -> None:
    rank, rope, heads, tokens = 512, 64, 128, 4096
    read = kernels.attention_kernel_bytes(1, heads, 1, tokens, rank + rope, rank, kv_heads=1, kv_width=rank + rope)
    work = kernels.attention_kernel_flops(1, heads, 1, tokens - 1, rank + rope, rank)
    assert work == 2 * heads * tokens * (2 * rank + rope)
    # 128 heads share one cached vector, so the intensity is near 2 x heads x (2 x 512 + 64) / (576 x 2) FLOP/byte.
    assert work / read == pytest.approx(heads * (2 * rank + rope) / (rank + rope), rel=0.06)


@pytest.mark.independent
@given(tiles=st.integers(1, 5000), multiprocessors=st.integers(1, 304))
def test_waves_are_those_of_handing_out_tiles_one_by_one(tiles: int, multiprocessors: int) -> None:
    busy, left = 0, tiles
    rounds = 0
    while left:
        busy += min(left, multiprocessors)
        left -= min(left, multiprocessors)
        rounds += 1
    assert kernels.wave_share(tiles, multiprocessors) == pytest.approx(busy / (rounds * multiprocessors))


@pytest.mark.published
def test_the_wave_that_the_guide_draws() -> None:
    """nvidia2023matmul, sec. 3.2: 109 tiles on 108 multiprocessors take as long as 216."""
    assert kernels.wave_share(109, 108) == pytest.approx(109 / 216)
    assert kernels.wave_share(216, 108) == 1.0


@pytest.mark.independent
def test_only_the_last_wave_is_written_with_nothing_to_hide_it() -> None:
    assert kernels.last_wave_bytes(264e6, 264, 132) == pytest.approx(132e6)  # two waves of 1 MB tiles: one of them
    assert kernels.last_wave_bytes(50e6, 50, 132) == pytest.approx(50e6)  # one wave, not full: all of it
    assert kernels.last_wave_bytes(1e9, 132, 132) == pytest.approx(1e9)


@pytest.mark.independent
@given(a=st.floats(1e-6, 1.0), b=st.floats(1e-6, 1.0), c=st.floats(0.0, 1.0))
def test_a_round_corner_lies_between_the_longest_clock_and_the_sum(a: float, b: float, c: float) -> None:
    roof = kernels.rounded_roof(a, b, c)
    assert max(a, b, c) * (1 - 1e-12) <= roof <= (a + b + c) * (1 + 1e-12)
    assert kernels.rounded_roof(a, b, c, sharpness=1.0) == pytest.approx(a + b + c)
    assert kernels.rounded_roof(b, a, c) == pytest.approx(roof) == kernels.rounded_roof(c + 1e-300, a, b)


@pytest.mark.independent
def test_far_from_the_corner_the_roof_is_the_old_one() -> None:
    assert kernels.rounded_roof(1.0, 0.1) == pytest.approx(1.0, rel=4e-4)
    assert kernels.rounded_roof(3.0, 4.0, 12.0, sharpness=2.0) == pytest.approx(13.0)


@pytest.mark.published
def test_narrow_products_take_a_time_that_grows_with_k() -> None:
    """infersim2026bench, gemm/h800: 64 x 576 x 7168 in 9.525 us and 64 x 512 x 16384 in 17.678; read nearly nothing."""
    slope = (17.678e-6 - 9.525e-6) / (16384 - 7168)
    assert kernels.chain_time(16384 - 7168, 1.0, slope) == pytest.approx(8.153e-6)
    assert kernels.chain_time(65536 - 16384, 1.0, slope) == pytest.approx(61.117e-6 - 17.678e-6, rel=0.01)
    assert kernels.chain_time(100.0, 2.0, slope) == pytest.approx(2 * kernels.chain_time(100.0, 1.0, slope))


@pytest.mark.independent
@given(share=st.floats(0.05, 1.0), ratio=st.floats(0.05, 20.0), ceiling=st.floats(0.05, 1.0))
def test_a_cut_part_loses_the_same_time(share: float, ratio: float, ceiling: float) -> None:
    """A multiprocessor of rate 1 needs 1/share per unit; one of rate r needs 1/r and the same loss."""
    lost = 1 / share - 1
    assert kernels.share_of_cut(share, ratio) == pytest.approx((1 / ratio) / (1 / ratio + lost))
    assert kernels.share_of_cut(share, 1.0) == pytest.approx(share)
    less = share * ceiling  # instructions that reach a part of the peak: the same with that part for the peak
    assert kernels.share_of_cut(less, ratio, ceiling) == pytest.approx(ceiling * kernels.share_of_cut(share, ratio))


@pytest.mark.published
def test_h100s_shares_foretell_an_h20s() -> None:
    """rates.toml, fitted to tables of two authors: attention of prompts 0.723 on H100, and 0.914 on H20."""
    rates = shipped_rates()
    ratio = (148 / 78) / (989.5 / 132)
    foretold = kernels.share_of_cut(float(rates["H100-SXM5-80GB"]["prefill_attention"].compute), ratio)
    assert foretold == pytest.approx(float(rates["H20"]["prefill_attention"].compute), rel=0.02)
    products = kernels.share_of_cut(float(rates["H800-SXM"]["products_8bit"].compute), ratio)
    assert products == pytest.approx(float(rates["H20"]["products_8bit"].compute), rel=0.02)


@pytest.mark.independent
@given(share=st.floats(0.05, 1.0), pair=st.floats(1.0, 1e4), clock=st.floats(0.0, 1e4))
def test_exponentials_are_one_more_clock(share: float, pair: float, clock: float) -> None:
    """A pair takes pair/share of the matrix units' time for its products, and clock of it for its exponential."""
    together = kernels.softmax_share(share, pair, clock)
    assert pair / together == pytest.approx(((pair / share) ** 3 + clock**3) ** (1 / 3))
    assert together <= min(share, pair / max(clock, 1e-300)) * (1 + 1e-12)
    assert kernels.softmax_share(share, pair, 0.0) == pytest.approx(share)
    assert kernels.softmax_share(share, 2 * pair, clock) == pytest.approx(kernels.softmax_share(share, pair, clock / 2))
    assert kernels.softmax_share(share, pair, clock, sharpness=1.0) == pytest.approx(1 / (1 / share + clock / pair))


@pytest.mark.published
def test_heads_of_64_on_a_b200_wait_for_their_exponentials() -> None:
    """flashattention2026head64: 3590 us for 2 x 32 heads x 16384 tokens of 64, which is 0.54 of the peak; 8,192 FLOP and 16
    exponentials a clock (together2026fa4); what FlashAttention-3 reaches of an H100 otherwise (shah2024flashattention3)."""
    reached = 4 * 64 * 2 * 32 * 16384**2 / 3590.242e-6 / 2250e12
    assert kernels.softmax_share(740 / 989.5, 4 * 64, 8192 / 16) == pytest.approx(reached, rel=0.17)
    assert 1.35 * reached < 740 / 989.5, "without exponentials"


@pytest.mark.independent
@given(m=st.integers(1, 9), n=st.integers(1, 9), parts=st.integers(1, 9))
def test_every_sum_but_one_is_written_and_read(m: int, n: int, parts: int) -> None:
    moved = sum(2 * 4 for _ in range(m) for _ in range(n) for _ in range(parts - 1))
    assert kernels.partial_sum_bytes(m, n, parts) == pytest.approx(moved)


@pytest.mark.independent
@given(q=st.integers(1, 40), past=st.integers(0, 9), tile=st.integers(1, 8))
def test_a_kernel_skips_whole_tiles_beyond_the_mask(q: int, past: int, tile: int) -> None:
    q = -(-q // tile) * tile  # whole tiles of queries
    seen = np.zeros((q, q))
    for i in range(0, q, tile):
        seen[i : i + tile, : i + tile] = 1  # a tile on the diagonal is computed whole
    work = kernels.attention_kernel_flops(1, 1, q, past, qk_dim=1, v_dim=1, mask_tile=tile)
    assert work == pytest.approx(4 * (seen.sum() + q * past))


@pytest.mark.published
def test_a_short_k_writes_longer_than_it_multiplies() -> None:
    """Vidur's products on an A100: with Azure's GEMM and STREAM figures the three constants stay within the published spread."""
    efficiency, stream = evidence.gemm_efficiency("a100"), evidence.stream_efficiency("a100", "triad")
    for tokens in (1, 64, 1024, 4096):
        row = evidence.check(f"vidur-a100-mlp-up-{tokens}")
        p = row.prediction
        time = kernels.measured_kernel_time(
            p.flops, p.bytes, p.device.peak_flops["fp16"], p.device.memory_bandwidth, efficiency, stream, 5e-6
        )
        assert time == pytest.approx(row.measured, rel=0.20)
        assert time > p.time, "the efficiencies cannot make it faster than the bound"
