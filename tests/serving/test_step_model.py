"""The step model: shapes by hand, tables, bounds, and every rung of the ladder noticed."""

import importlib.util
import math
import random
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, resized

from mlsysim import catalog, evidence, kernels, serving_steps
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.measured.serving_runs import serving_runs
from mlsysim.evidence.rows import row_table
from mlsysim.inference import deploy
from mlsysim.serving_steps import (
    BASELINE,
    PRINTED,
    TIER_0,
    Batch,
    Rate,
    Rates,
    StepModel,
    StepOptions,
    StepTerms,
    layer_products,
    products_table,
    rates,
    shipped_rates,
    step_model,
)

SEVEN = step_model(deploy("Llama-2-7B", "H100"), TIER_0)
PLAIN = Rates()  # datasheet shares, no starts


def model(name: str = "Llama-2-7B", device: str = "H100", options: StepOptions = TIER_0, **how: Any) -> StepModel:
    return step_model(deploy(name, device, **how), options)


# Equations


@pytest.mark.published
def test_fused_shapes_that_sources_print() -> None:
    """tam2026, H3: Llama-3.1-8B runs (bs, 4096, 6144) where three products would be 4096 and twice 1024 wide."""
    assert serving_steps.fused_width(32, 8, 128) == 6144
    assert next((p.k, p.n) for p in layer_products(catalog.model("Llama-3.1-8B"))) == (4096, 6144)
    split = layer_products(catalog.model("Llama-3.1-8B"), fused=False)
    assert [p.n for p in split[:3]] == [4096, 1024, 1024]


@pytest.mark.independent
def test_fused_width_by_counting_columns() -> None:
    for heads, kv, d, tp in ((32, 8, 128, 1), (64, 8, 128, 4), (64, 8, 128, 16), (40, 40, 64, 2)):
        held = {h * kv // heads for h in range(heads // tp)}  # key-value heads that the first rank's queries need
        assert serving_steps.fused_width(heads, kv, d, tp) == (heads // tp + 2 * len(held)) * d


@pytest.mark.independent
def test_pairs_of_a_chunk_by_counting() -> None:
    for new, past in ((1, 0), (1, 7), (5, 3), (40, 100)):
        assert serving_steps.chunk_pairs(new, past) == sum(past + i + 1 for i in range(new))


@pytest.mark.independent
def test_chunks_hold_the_pairs_of_the_prompt() -> None:
    m = resized(catalog.model("Llama-2-7B"), attn_window=100, n_windowed_layers=8)
    whole = Batch.of(m, prefills=[(700, 0)])
    parts = [Batch.of(m, prefills=[(new, past)]) for new, past in ((64, 0), (236, 64), (400, 300))]
    for name in ("prefill_pairs", "windowed_pairs", "prefill_tokens"):
        assert sum(getattr(p, name) for p in parts) == pytest.approx(getattr(whole, name))
    assert whole.windowed_pairs == sum(min(i + 1, 100) for i in range(700))


@pytest.mark.independent
def test_starts_add_up_over_layers() -> None:
    assert serving_steps.kernel_starts(10, 3, 2.0, 2, 5.0, 4) == pytest.approx(
        sum(3 * 2.0 + 2 * 5.0 for _ in range(10)) + 8
    )
    assert serving_steps.kernel_starts(10, 3, 2.0, 2, 5.0) == pytest.approx(10 * 16 + 2)


@pytest.mark.independent
def test_the_step_is_the_sum_of_its_terms() -> None:
    parts = [2.0**i for i in range(9)]  # a term dropped, doubled or swapped in changes the sum
    assert serving_steps.serving_step_time(*parts) == 511.0
    assert StepTerms(*parts).time == 511.0


@pytest.mark.independent
def test_bilinear_meets_its_corners_and_any_plane() -> None:
    corners = (0.1, 0.4, 0.2, 0.9)
    for (u, v), f in zip(((0, 0), (1, 0), (0, 1), (1, 1)), corners, strict=True):
        assert serving_steps.bilinear(u, v, *corners) == pytest.approx(f)
    plane = [0.2 + 0.3 * u + 0.1 * v for u, v in ((0, 0), (1, 0), (0, 1), (1, 1))]
    assert serving_steps.bilinear(0.3, 0.8, *plane) == pytest.approx(0.2 + 0.09 + 0.08)
    assert serving_steps.bilinear(0.5, 0.5, 0, 0, 0, 1) == pytest.approx(0.25)
    with pytest.raises(InputError, match="u"):
        serving_steps.bilinear(1.2, 0.5, *corners)


_SECONDS = st.floats(1e-6, 1.0)


@pytest.mark.independent
@given(_SECONDS, _SECONDS, _SECONDS, _SECONDS)
def test_one_maximum_is_never_above_the_sum_of_maxima(ca: float, ma: float, cb: float, mb: float) -> None:
    ratio = serving_steps.granularity_ratio(ca, ma, cb, mb)
    assert 1 - 1e-12 <= ratio <= 2 + 1e-12
    assert ratio * max(ca + cb, ma + mb) == pytest.approx(max(ca, ma) + max(cb, mb))


@pytest.mark.independent
def test_granularity_is_two_at_its_worst() -> None:
    assert serving_steps.granularity_ratio(1.0, 0.0, 0.0, 1.0) == 2
    assert serving_steps.granularity_ratio(2.0, 1.0, 2.0, 1.0) == 1


# Rates


@pytest.mark.published
@pytest.mark.parametrize(("name", "azure"), [("H100", "h100"), ("A100-80GB", "a100"), ("H800", "h100")])
def test_shares_of_16_bit_products_are_those_that_azure_measured(name: str, azure: str) -> None:
    """Azure: a product of 8192 and STREAM triad. The figures stand twice, here and among the measurements."""
    share = rates(name).products_16bit
    assert share.compute == pytest.approx(evidence.gemm_efficiency(azure), abs=0.0005)
    assert share.memory == pytest.approx(evidence.stream_efficiency(azure, "triad"), abs=0.0005)
    assert f"azure2024{azure}" in share.origin


@pytest.mark.published
@pytest.mark.parametrize(("device", "bound"), [("H100-SXM5-80GB", 0.06), ("A100-SXM4-80GB", 0.11)])
def test_16_bit_products_that_no_rate_was_taken_from(device: str, bound: float) -> None:
    """Vidur's measured products (57344 x 8192, 1 to 4096 rows) lie within 6 and 11 % of the three constants."""
    d, r = catalog.device(device), rates(device).products_16bit
    errors = []
    for row in evidence.measurements().values():
        if (row.group, row.device, row.kind) == ("vidur", device, "gemm"):
            m, n, k = (row.inputs[x] for x in "mnk")
            work, peak = 2 * m * n * k / (r.compute * d.peak_flops["bf16"]), r.memory * d.memory_bandwidth
            ours = max(work, 2 * (m * k + k * n + m * n) / peak) + r.start
            errors.append(abs(ours / row.value - 1))
    assert len(errors) == 11
    assert sum(errors) / len(errors) < bound


@pytest.mark.independent
def test_every_rate_is_physical_and_says_where_it_comes_from() -> None:
    for kinds in shipped_rates().values():
        for rate in kinds.values():
            assert 0 < rate.compute <= 1 and 0 < rate.memory <= 1 and 1e-6 < rate.start < 1e-4
            assert rate.origin and (rate.error is None or (rate.rows >= 25 and rate.error < 0.18))
    for name in catalog.devices():
        for f in fields(Rates):
            assert getattr(rates(name), f.name).origin != "the datasheet"


@pytest.mark.independent
def test_what_was_not_measured_is_said_and_has_its_own_bandwidth() -> None:
    """H200 is the silicon of H100 with faster memory: same shares, so a memory-bound kernel gains as the memory does."""
    h100, h200, b200 = rates("H100"), rates("H200"), rates("B200")
    assert "the same silicon" in h200.products_16bit.origin and "H200" in h200.products_16bit.origin
    assert "another device" in b200.products_8bit.origin
    assert h200.decode_attention.memory == h100.decode_attention.memory
    assert h100.latent_attention.origin.startswith("not measured on H100") and "H800" in h100.latent_attention.origin
    assert rates("H800").prefill_attention.compute == h100.prefill_attention.compute
    batch = Batch(decodes=200.0, context=200 * 8000.0)
    slow, fast = (
        next(k for k in model(device=d).kernels(batch) if k.name == "decode_attention") for d in ("H100", "H200")
    )
    assert slow.memory_time / fast.memory_time == pytest.approx(4.8 / 3.35, rel=0.01)


def fit_script() -> Any:
    spec = importlib.util.spec_from_file_location("fit_kernels", ROOT / "scripts" / "maintain" / "fit_kernels.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.independent
def test_the_fit_finds_the_constants_that_made_the_table() -> None:
    script, rng = fit_script(), np.random.default_rng(1)
    flops, bytes = 10 ** rng.uniform(6, 14, 200), 10 ** rng.uniform(4, 10, 200)
    time = np.maximum(flops / (0.6 * 1e15), bytes / (0.8 * 3e12)) + 7e-6
    time[::20] *= 5  # and a few rows that are simply wrong do not move it
    found = script.fit(script.Rows(flops, bytes, time), 1e15, 3e12)
    assert (found.compute, found.memory, found.start) == pytest.approx((0.6, 0.8, 7e-6), rel=0.01)
    held = script.fit(script.Rows(flops, bytes, time), 1e15, 3e12, {"memory": 0.5})
    assert held.memory == 0.5


@pytest.mark.regression
def test_the_shipped_rates_are_those_of_the_script() -> None:
    script = fit_script()
    assert script.text() == script.OUT.read_text(encoding="utf-8")


# The table of products


@pytest.mark.published
def test_the_table_holds_what_the_source_printed() -> None:
    """Every time and every printed MFU of inferencesim2026kernels, to the digits printed there."""
    table, seen = products_table(), 0
    for row in row_table("kernel_products"):
        if row["device"] == "H100-SXM5-80GB":
            m, k, n = (row[x] for x in "mkn")
            for lookup in ("nearest", "bilinear"):
                share = table.efficiency(m, k, n, lookup)
                assert share == pytest.approx(row["printed_mfu"], abs=0.0006)
                assert 2 * m * k * n / share / 1979e12 == pytest.approx(row["measured_time_s"], rel=1e-6)
            seen += 1
    assert seen == 112


@pytest.mark.independent
def test_between_the_entries_of_the_table() -> None:
    table = products_table()
    at = table.efficiency
    low, high = at(32, 4096, 6144), at(64, 4096, 6144)
    assert at(48, 4096, 6144) == pytest.approx((low + high) / 2)
    assert at(47, 4096, 6144, "nearest") == low and at(49, 4096, 6144, "nearest") == high
    between = (4096 * 6144 + 3584 * 11008) / 2
    assert at(64, between, 1.0) == pytest.approx((high + at(64, 3584, 11008)) / 2)
    small, large = 4096 * 6144, 3584 * 11008
    assert at(64, 0.6 * small + 0.4 * large, 1.0, "nearest") == high
    assert at(64, 0.4 * small + 0.6 * large, 1.0, "nearest") == at(64, 3584, 11008) != high
    many = np.array([1.0, 8.0, 40.0, 100.0, 131072.0, 1e6])
    for lookup in ("nearest", "bilinear"):
        assert at(many, 4096, 7000, lookup) == pytest.approx([at(float(x), 4096, 7000, lookup) for x in many])
    with pytest.raises(UnknownNameError, match="lookup"):
        at(8, 4096, 6144, "closest")
    with pytest.raises(InputError, match="k n"):
        at(8, 0, 6144)


@pytest.mark.independent
def test_outside_the_table_its_edge_is_held_and_said() -> None:
    table = products_table()
    assert table.efficiency(1, 4096, 6144) == table.efficiency(8, 4096, 6144)
    assert table.efficiency(64, 20000, 20000) == table.efficiency(64, 8192, 11008)
    assert table.covers(8, 2048, 6144) and not table.covers(7, 2048, 6144) and not table.covers(8, 1, 6144)
    m = model("Llama-2-7B", precision="fp8", options=StepOptions(lookup="bilinear"))
    text = str(m.explain(Batch(decodes=1.0, context=100.0)))
    assert "outside the table: held at its edge" in text
    inside = str(m.explain(Batch(decodes=64.0, context=100.0)))
    assert "bilinear in the table of 8-bit products (" in inside  # the fused projection of 7B
    assert "taken over from H100" in str(
        model(device="A100-80GB", options=StepOptions(lookup="nearest")).explain(DECODE)
    )


@pytest.mark.published
def test_a_step_from_the_table_takes_the_times_that_were_measured() -> None:
    """inferencesim2026kernels: 64 rows times 4096 x 6144, the fused projection of Llama-3.1-8B, took 15.136 us, start and all."""
    for lookup in ("nearest", "bilinear"):
        m = model("Llama-3.1-8B", precision="fp8", options=StepOptions(lookup=lookup))
        qkv = next(k for k in m.kernels(Batch(decodes=64.0, context=64.0)) if k.name == "qkv")
        assert qkv.time / 32 == pytest.approx(15.136e-6)


@pytest.mark.independent
def test_jumps_count_what_no_growth_of_work_explains() -> None:
    assert serving_steps.jumps([1, 2, 4, 8], [1, 2, 4, 8]) == 0  # in proportion
    assert serving_steps.jumps([1, 1, 1, 1], [1, 2, 4, 8]) == 0  # free
    assert serving_steps.jumps([1, 0.94, 1, 1.2], [1, 1.01, 1.02, 1.03]) == 3


@pytest.mark.independent
def test_interpolation_takes_the_jumps_away() -> None:
    counts = {}
    for lookup in ("nearest", "bilinear", "rates"):
        m = model(precision="fp8", options=StepOptions(lookup=lookup))
        found = 0
        for sweep in ([Batch(decodes=b, context=512.0 * b) for b in range(1, 257)], PROMPTS):
            products = [sum(k.time for k in m.kernels(b) if k.part in ("projections", "mlp")) for b in sweep]
            found += serving_steps.jumps(products, [b.tokens for b in sweep])
        counts[lookup] = found
    assert counts["nearest"] >= 5 and counts["bilinear"] <= 0.2 * counts["nearest"] and counts["rates"] == 0


# Steps

DECODE = Batch.of(catalog.model("Llama-2-7B"), decodes=[458])
MIXED = Batch.of(catalog.model("Llama-2-7B"), prefills=[(500, 100), (200, 0)], decodes=[400, 900] * 10)
PROMPTS = [Batch.of(catalog.model("Llama-2-7B"), prefills=[(s, 0)]) for s in range(128, 8193, 64)]


@pytest.mark.independent
def test_a_decode_step_by_hand() -> None:
    """Llama-2-7B, datasheet shares without starts: bytes over bandwidth, added up here."""
    m = step_model(deploy("Llama-2-7B", "H100"), TIER_0, PLAIN)
    h, f, v, bw = 4096, 11008, 32000, 3.35e12
    t = m.terms(DECODE)
    assert t.projections == pytest.approx(32 * (4 * h * h * 2 + 2 * (h + 3 * h + h + h)) / bw)
    assert t.mlp == pytest.approx(32 * (3 * h * f * 2 + 2 * (h + 2 * f + f + h)) / bw)
    assert t.head == pytest.approx((h * v * 2 + 2 * (h + v)) / bw)
    assert t.decode_attention == pytest.approx(32 * 458 * 2 * h * 2 / bw)
    assert t.elementwise == pytest.approx(32 * 32 * h * 2 / bw)
    assert t.experts == t.prefill_attention == t.messages == t.overhead == 0


@pytest.mark.independent
def test_a_prompt_by_hand() -> None:
    m = step_model(deploy("Llama-3.1-8B", "H100"), TIER_0, PLAIN)
    t = m.terms(Batch.of(m.model, prefills=[(4000, 1000)]))
    h, peak = 4096, 989.5e12
    assert t.projections == pytest.approx(32 * 2 * 4000 * (h * 6144 + h * h) / peak)
    assert t.mlp == pytest.approx(32 * 2 * 4000 * 3 * h * 14336 / peak)
    pairs = sum(1000 + i for i in range(1, 4001))
    assert t.prefill_attention == pytest.approx(32 * 2 * pairs * 32 * 256 / peak)
    assert t.head == pytest.approx((h * 128256 * 2 + 2 * (h + 128256)) / 3.35e12)  # one row of logits


@pytest.mark.independent
def test_the_work_of_attention_is_that_of_its_equation() -> None:
    for name, b in (("prefill_attention", Batch.of(SEVEN.model, prefills=[(300, 200)])), ("decode_attention", DECODE)):
        found = next(k for k in SEVEN.kernels(b) if k.name == name)
        new, past = (300, 200) if name.startswith("prefill") else (1, 457)
        assert found.flops == pytest.approx(kernels.attention_kernel_flops(1, 32, new, past, 128, 128))
        read = kernels.attention_kernel_bytes(1, 32, new, new + past, 128, 128, 32, 256)
        assert found.bytes == pytest.approx(read - new * 32 * 256 * 2)  # the cache; queries and results stay on chip


@pytest.mark.independent
def test_starts_of_a_step_are_those_of_its_kernels() -> None:
    r = rates("H100")
    same = replace(
        PLAIN, products_16bit=Rate(start=r.products_16bit.start), decode_attention=Rate(start=r.decode_attention.start)
    )
    with_starts = step_model(deploy("Llama-2-7B", "H100"), TIER_0, same).time(DECODE)
    without = step_model(deploy("Llama-2-7B", "H100"), TIER_0, PLAIN).time(DECODE)
    # four products and five small kernels a layer, one attention, and the head
    expected = serving_steps.kernel_starts(32, 4 + 5, r.products_16bit.start, 1, r.decode_attention.start, 1)
    assert with_starts - without == pytest.approx(expected)
    assert model(options=StepOptions(overhead="none")).time(DECODE) == pytest.approx(model().time(DECODE) - expected)


@pytest.mark.published
def test_synchronous_decoding_of_measured_runs() -> None:
    """inferencesim2026serving: every synchronous run's time between tokens within 8 %, on average within 4 %.

    No rate was fitted to a serving run.
    """
    errors = []
    for run in serving_runs().values():
        if run.regime == "synchronous":
            m = model(run.model, tp=run.tp)
            ours = m.time(Batch(decodes=1.0, context=run.input_len + run.output_len / 2))
            errors.append(ours / run.mean("itl") - 1)
    assert len(errors) >= 8
    assert max(map(abs, errors)) < 0.08
    assert sum(map(abs, errors)) / len(errors) < 0.04


_SHAPES = ("Llama-2-7B", "Llama-3.1-70B", "Mixtral-8x7B", "DeepSeek-V3", "Qwen3-14B", "Mistral-7B")
_RUNGS = (
    TIER_0, BASELINE, StepOptions(lookup="bilinear"), StepOptions(granularity="step"), StepOptions(mixing="max"), StepOptions(mixing="sum"),
    StepOptions(overhead="fixed"), StepOptions(experts="all"),
)  # fmt: skip


def some_batches(seed: int = 3, count: int = 12) -> list[Batch]:
    rng, m = random.Random(seed), catalog.model("Llama-2-7B")
    found = []
    for i in range(count):
        chunks = [(rng.randint(1, 3000), rng.choice([0, 500])) for _ in range(rng.randint(0 if i else 1, 2))]
        found.append(Batch.of(m, chunks, [rng.randint(1, 9000) for _ in range(rng.randint(0 if chunks else 1, 200))]))
    return found


@pytest.mark.independent
@pytest.mark.parametrize("name", _SHAPES)
@pytest.mark.parametrize("options", _RUNGS, ids=str)
def test_terms_sum_to_the_time_and_no_step_beats_its_bytes(name: str, options: StepOptions) -> None:
    big = catalog.model(name).hidden >= 7000
    m = model(name, tp=8 if big else 1, precision="fp8" if name == "DeepSeek-V3" else "bf16", options=options)
    for b in some_batches():
        t = m.terms(b)
        assert m.time(b) == pytest.approx(math.fsum(vars(t).values()), rel=1e-12)
        assert m.to_dict(b) == {**vars(t), "time": t.time}
        assert min(vars(t).values()) >= 0
        assert m.time(b) == m.time(b)
        if b.decodes:
            answers = Batch(decodes=b.decodes, context=b.context, windowed_context=b.context / 2)
            assert m.decoding(b.decodes)(b.context, b.context / 2) == m.time(answers)
            assert m.time(answers) == pytest.approx(m.terms(answers).time, rel=1e-12)
        if options.mixing == "additive":
            read = sum(k.layers * k.bytes for k in m.kernels(b))
            done = sum(k.layers * k.flops for k in m.kernels(b))
            assert m.time(b) >= read / m.deployment.machine.memory_bandwidth * (1 - 1e-12)
            assert m.time(b) >= done / m.deployment.machine.peak_flops * (1 - 1e-12)


@pytest.mark.independent
@pytest.mark.parametrize("options", _RUNGS, ids=str)
def test_arrays_are_many_numbers(options: StepOptions) -> None:
    m = model("Mixtral-8x7B", options=options)
    batches = some_batches()
    both = Batch(**{f.name: np.array([getattr(b, f.name) for b in batches], float) for f in fields(Batch)})
    assert m.time(both) == pytest.approx([m.time(b) for b in batches], rel=1e-12)
    assert m.explain(both).rows()


@pytest.mark.independent
@settings(max_examples=30)
@given(st.floats(1.0, 4.0), st.integers(1, 300), st.integers(1, 20000), st.integers(0, 4000))
def test_more_bandwidth_is_never_slower(factor: float, decodes: int, context: int, new: int) -> None:
    d = SEVEN.deployment
    fast = replace(d, machine=replace(d.machine, memory_bandwidth=d.machine.memory_bandwidth * factor))
    b = Batch.of(d.model, prefills=[(new, 0)] if new else [], decodes=[context] * decodes)
    for options in (TIER_0, StepOptions(granularity="step"), StepOptions(mixing="blend")):
        assert step_model(fast, options).time(b) <= step_model(d, options).time(b) * (1 + 1e-12)


@pytest.mark.independent
def test_one_maximum_for_the_step_is_never_above_the_kernels() -> None:
    coarse = model(options=StepOptions(granularity="step"))
    gaps = [SEVEN.time(b) / coarse.time(b) for b in (*some_batches(), MIXED)]
    assert min(gaps) >= 1 - 1e-12 and max(gaps) > 1.02


@pytest.mark.independent
def test_more_work_never_takes_less_time() -> None:
    base = SEVEN.time(MIXED)
    for more in (
        Batch.of(SEVEN.model, [(501, 100), (200, 0)], [400, 900] * 10),
        Batch.of(SEVEN.model, [(500, 101), (200, 0)], [400, 900] * 10),
        Batch.of(SEVEN.model, [(500, 100), (200, 0)], [400, 900] * 11),
        Batch.of(SEVEN.model, [(500, 100), (200, 0)], [401, 900] * 10),
    ):
        assert SEVEN.time(more) > base


@pytest.mark.independent
def test_every_rung_changes_what_it_names() -> None:
    for name, values in serving_steps.step_options.CHOICES.items():
        shape = "Mixtral-8x7B" if name == "experts" else "Llama-2-7B"
        few = Batch(decodes=3.0, context=900.0)
        ladder = {v: model(shape, options=replace(TIER_0, **{name: v})) for v in values}
        times = {v: (m.time(few), m.time(MIXED)) for v, m in ladder.items()}
        assert len(set(times.values())) == len(values), f"{name}: {times}"
    assert model(options=StepOptions(bandwidth="flat")).time(DECODE) > model(
        options=StepOptions(bandwidth="datasheet")
    ).time(DECODE)
    fixed, none = (model(options=StepOptions(overhead=o)) for o in ("fixed", "none"))
    assert fixed.time(DECODE) - none.time(DECODE) == pytest.approx(5e-3)
    assert fixed.time(MIXED) - none.time(MIXED) == pytest.approx(30e-3)
    step = model(options=StepOptions(overhead="step"))
    assert step.time(DECODE) - none.time(DECODE) == pytest.approx(50e-6)
    layers = model(tp=2, options=StepOptions(overhead="layers")).time(DECODE)
    assert layers - model(tp=2, options=StepOptions(overhead="none")).time(DECODE) == pytest.approx(100e-6 * 32 / 2)


@pytest.mark.independent
def test_a_mixed_step_costs_less_than_two_and_more_than_either() -> None:
    prompts, answers = (
        Batch.of(SEVEN.model, prefills=[(500, 100), (200, 0)]),
        Batch.of(SEVEN.model, decodes=[400, 900] * 10),
    )
    one, other, both = (SEVEN.time(b) for b in (prompts, answers, MIXED))
    assert max(one, other) < both < one + other
    assert model(options=StepOptions(mixing="sum")).time(MIXED) == pytest.approx(one + other)
    assert model(options=StepOptions(mixing="max")).time(MIXED) == pytest.approx(max(one, other))
    assert model(options=StepOptions(mixing="blend")).time(MIXED) == pytest.approx(0.75 * one + 0.25 * other)
    for pure in (prompts, answers):
        assert model(options=StepOptions(mixing="blend")).time(pure) == pytest.approx(SEVEN.time(pure))


@pytest.mark.independent
def test_tensor_parallelism_divides_work_and_adds_messages() -> None:
    one, two = model("Llama-3.1-8B").terms(DECODE), model("Llama-3.1-8B", tp=2).terms(DECODE)
    assert one.messages == 0 < two.messages
    r = rates("H100").products_16bit.start
    h100 = catalog.device("H100")
    sent = 2 * 2 * (r + 0.5 * 4096 * 2 / (h100.scale_up_bandwidth * 0.8))
    assert two.messages == pytest.approx(32 * sent)
    for name in ("projections", "mlp", "decode_attention"):
        assert 0.5 * getattr(one, name) < getattr(two, name) < getattr(one, name)
    wide = model("Llama-3.1-8B", tp=8, domain=4, inter_bandwidth=50e9).terms(DECODE)
    near = model("Llama-3.1-8B", tp=8).terms(DECODE)
    assert wide.messages > near.messages


@pytest.mark.published
def test_the_share_of_the_link_is_near_a_measured_one() -> None:
    """Azure, eight A100s: 231.58 GB/s of bus bandwidth in an all-reduce of 8 GB, over links of 300 GB/s one way."""
    row = evidence.measurements("collectives")["azure-a100-8g"]
    share = row.value / catalog.device(row.device).scale_up_bandwidth
    assert share == pytest.approx(serving_steps.step.LINK, abs=0.03)


@pytest.mark.independent
def test_windows_latents_and_experts_have_their_kernels() -> None:
    windowed = resized(catalog.model("Llama-2-7B"), name="windowed", attn_window=512, n_windowed_layers=16)
    full, near = (step_model(deploy(m, "H100"), TIER_0) for m in (catalog.model("Llama-2-7B"), windowed))
    b = Batch.of(windowed, decodes=[4096] * 50)
    plain = full.terms(b).decode_attention - 32 * full.rates.decode_attention.start
    cut = near.terms(b).decode_attention - 32 * near.rates.decode_attention.start
    assert cut / plain == pytest.approx((4096 + 512) / 2 / 4096)
    for some in (b, Batch.of(windowed, [(2000, 3000)], [4096] * 50), Batch.of(windowed, [(2000, 0)])):
        assert near.time(some) == pytest.approx(near.terms(some).time)
        assert near.time(some) < full.time(some)
    deepseek = model("DeepSeek-V3", "H200", tp=8, precision="fp8")
    found = {k.name: k for k in deepseek.kernels(b)}
    assert {"q_down", "q_up", "kv_down", "kv_up", "router", "shared up", "experts"} <= set(found)
    assert found["decode_attention"].rate == deepseek.rates.latent_attention
    grouped = found["experts"].rate  # chapter 16: a share of the peak by tokens per expert, the rest as measured
    assert replace(grouped, compute=deepseek.rates.grouped_products.compute) == deepseek.rates.grouped_products
    assert grouped.compute < deepseek.rates.grouped_products.compute
    few, many = (model("Mixtral-8x7B").terms(Batch(decodes=n, context=100 * n)).experts for n in (1.0, 64.0))
    assert 3 < many / few < 4.1  # two experts of eight, then nearly all


@pytest.mark.independent
def test_a_step_says_whether_its_weights_and_its_cache_fit() -> None:
    """405 billion parameters of two bytes on one device of 79.11 GiB (vllm2025h100memory); 7 billion, and its cache."""
    batch = Batch(decodes=8.0, context=8000.0)
    huge = step_model(deploy("Llama-3.1-405B", "H100"), TIER_0)
    assert huge.memory(batch) > 2 * 405e9 and not huge.fits(batch)
    text = str(huge.explain(batch))
    assert "memory does not fit" in text and "of 84.94 GB" in text
    token = 2 * 32 * 32 * 128 * 2  # keys and values, layers, heads of 128, two bytes
    small = step_model(deploy("Llama-2-7B", "H100"), TIER_0)
    assert small.memory(batch) == pytest.approx(2 * 6_738_415_616 + 8000 * token)
    room = (79.11 * 2**30 - 2 * 6_738_415_616) / token
    assert small.fits(Batch(decodes=1.0, context=float(int(room))))
    assert not small.fits(Batch(decodes=1.0, context=float(int(room) + 1)))
    assert "memory fits: 17.67 GB of 84.94 GB (weights 13.48 GB)" in str(small.explain(batch))
    many = Batch(decodes=np.array([1.0, 1.0]), context=np.array([1e3, 1e6]))
    assert list(small.fits(many)) == [True, False]
    assert "memory: 1 of 2 fit into 84.94 GB" in str(small.explain(many))


@pytest.mark.independent
def test_explain_shows_every_kernel_with_its_origin() -> None:
    text = str(model(tp=2).explain(MIXED))
    for part in (
        "qkv",
        "output",
        "up",
        "down",
        "head",
        "vectors",
        "prefill_attention",
        "decode_attention",
        "all-reduce",
    ):
        assert f"  {part} " in text
    assert "azure2024h100" in text and "inferencesim2026kernels" in text and "[@eq-serving-step]" in text
    found = SEVEN.explain(MIXED)
    assert [t.name for t in found.terms if t.binding] == ["up"]
    for t in found.terms[:-1]:
        assert t.value == pytest.approx(kernels.measured_kernel_time(**t.arguments))
    assert "prefill_attention" not in str(SEVEN.explain(DECODE))


@pytest.mark.independent
def test_datasheet_rates_are_a_bound() -> None:
    bound = step_model(deploy("Llama-2-7B", "H100"), TIER_0, PRINTED)
    for b in some_batches():
        assert bound.time(b) < SEVEN.time(b)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (lambda: Batch.of(SEVEN.model, prefills=[(0, 10)]), r"prefills has the chunk \(0, 10\).*new in \(0, inf\)"),
        (lambda: Batch.of(SEVEN.model, prefills=[(5, -1)]), "cached_len in"),
        (lambda: Batch.of(SEVEN.model, decodes=[0]), r"context 0 outside \[1, inf\); count the new token"),
        (lambda: Batch.of(SEVEN.model, decodes=[float("nan")]), "context nan"),
        (lambda: model(tp=1, pp=2), r"pp = 2 stages are not modelled; use tp"),
        (lambda: StepOptions(lookup="cubic"), "lookup"),
        (lambda: SEVEN.time(Batch(decodes=1.0, context=-5.0)), "bytes|m ="),
        (lambda: SEVEN.time(Batch(decodes=float("nan"), context=5.0)), "nan"),
        (lambda: SEVEN.time(Batch(prefills=1.0, prefill_tokens=5.0, prefill_pairs=float("inf"))), "inf"),
    ],
)
def test_bad_input_is_named(bad: Any, says: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=says):
        bad()
    with pytest.raises((InputError, UnknownNameError), match=says):
        bad()  # a second time: nothing was remembered


@pytest.mark.independent
def test_a_full_server_holds_every_stage_once() -> None:
    """199 requests of 1,000 and 200 tokens, one at each stage of its answer: one ends and one prompt comes in a step."""
    one_each = Batch.of(catalog.model("Llama-2-7B"), prefills=[(1000, 0)], decodes=[1000 + j for j in range(1, 200)])
    mean = Batch.steady(concurrency=199, input_len=1000, output_len=200)
    assert (mean.decodes, mean.context) == (one_each.decodes, one_each.context)
    assert (mean.prefills, mean.prefill_tokens, mean.prefill_pairs) == (1, 1000, one_each.prefill_pairs)
    assert mean.tokens == one_each.tokens
    with pytest.raises(InputError, match=r"output_len = 1 is outside \[2, inf\)"):
        Batch.steady(concurrency=8, input_len=100, output_len=1)
