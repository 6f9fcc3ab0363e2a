"""A layer of experts: closed forms against limits, identities, a second derivation and measured kernels."""

import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import catalog, collectives, evidence
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.hypotheses import expert_claims, infersim
from mlsysim.evidence.hypotheses.hypotheses import judge
from mlsysim.evidence.hypotheses.measured import kernel_tables
from mlsysim.inference import Deployment, decode_step, deploy, experts_hit, prefill
from mlsysim.serving_steps import BASELINE, TIER_0, Batch, experts, rates, step_model
from mlsysim.serving_steps.expert_layer import (
    LOW_LATENCY_TOKENS,
    NORMAL_UNITS,
    TILE,
    expert_layer,
    expert_message_time,
    expert_messages,
    expert_work,
)
from mlsysim.serving_steps.rates import PRINTED
from mlsysim.serving_steps.step_options import StepOptions

us = 1e-6
NETWORK = 50e9


def v3(devices: int, **kwargs: int) -> Deployment:
    return deploy("DeepSeek-V3", "H800", dp=devices, ep=devices, precision="fp8", inter_bandwidth=NETWORK, **kwargs)


# Closed forms


@pytest.mark.independent
@pytest.mark.parametrize(
    ("devices", "variation", "tokens"), [(64, 0.0, 8), (64, 0.5, 32), (16, 0.5, 128), (16, 0.0, 4)]
)
def test_the_fullest_device_drawn_token_by_token(devices: int, variation: float, tokens: int) -> None:
    """Popularities from a gamma distribution, then every pair of a token and an expert drawn by itself."""
    rng, count, top_k = random.Random(16), 256, 8
    held, excess = count // devices, []
    for _ in range(12):
        popular = [rng.gammavariate(1 / variation, variation) if variation else 1.0 for _ in range(count)]
        loads = [0] * devices
        for expert in rng.choices(range(count), popular, k=devices * tokens * top_k):
            loads[expert // held] += 1
        excess.append(max(loads) / statistics.mean(loads) - 1)
    bound = experts.fullest_device(devices, count, variation, 1 / (tokens * top_k)) - 1
    assert (
        0.72 * bound < statistics.mean(excess) < (1.1 if variation else 1.0) * bound
    )  # gamma: a longer tail than normal
    assert experts.fullest_device(1, count, variation, 1.0) == 1.0


@pytest.mark.published
def test_tokens_per_expert_are_those_of_the_tables() -> None:
    """infersim2026bench prints tokens per expert beside devices and batch: 8 devices with 64 tokens each give 16."""
    assert experts.tokens_per_expert(8 * 64, 8, 256) == 16
    for g in expert_claims.all_grouped():
        assert experts.tokens_per_expert(g.tokens * g.devices, g.top_k, g.experts) == g.per_expert


@pytest.mark.independent
def test_all_experts_active_is_a_dense_layer() -> None:
    assert experts.tokens_per_expert(100, 8, 8) == 100
    assert experts.tokens_per_expert(64, 4, experts_hit(16, 4, 64)) > experts.tokens_per_expert(64, 4, 16)


@pytest.mark.independent
def test_a_half_empty_last_tile() -> None:
    """Counts spread evenly over many tiles: the mean of m over the mean of its padding, counted tile by tile."""
    tile, low, high = 128, 1, 128 * 40
    counts = range(low, high + 1)
    used = sum(counts)
    worked = sum(-(-m // tile) * tile for m in counts)
    mean = used / len(counts)
    assert experts.grouped_share(mean, 0.6, tile) == pytest.approx(0.6 * used / worked, rel=1e-3)
    assert experts.grouped_share(1e9, 0.6, tile) == pytest.approx(0.6)
    assert experts.grouped_share(64, 0.6, 128) == pytest.approx(0.3)
    assert experts.grouped_share(5, 1.0, 0) == 1.0


@pytest.mark.independent
def test_grouped_time_has_two_limits_and_a_start() -> None:
    peak, band = 2e15, 3e12
    few = experts.grouped_time(8, 1e7, 8, 1, peak, band, 0.5, 0.8)
    assert few == pytest.approx(8 * 1e7 / (0.8 * band))
    many = experts.grouped_time(1e6, 1e7, 8, 1, peak, band, 0.5, 0.8)
    assert many == pytest.approx(2 * 1e6 * 1e7 / (0.5 * peak))
    assert experts.grouped_time(8, 1e7, 8, 2, peak, band, 0.5, 0.8) == pytest.approx(2 * few)
    assert experts.grouped_time(8, 1e7, 8, 1, peak, band, 0.5, 0.8, 3e-6) == pytest.approx(few + 3e-6)
    more = experts.grouped_time(8, 1e7, 8, 1, peak, band, 0.5, 0.8, 0.0, 1e6)
    assert more == pytest.approx(few + 8 * 1e6 / (0.8 * band))


@pytest.mark.independent
def test_at_the_crossover_both_sides_take_the_same_time() -> None:
    peak, band = 1979e12, 3.35e12
    b = experts.moe_crossover(256, 8, 8, 1.0, peak, band, 0.6, 0.8)
    pairs, hit, params = b * 8, 256 / 8, 44e6
    assert 2 * pairs * params / (0.6 * peak) == pytest.approx(hit * params * 1.0 / (0.8 * band))
    assert experts.moe_crossover(8, 8, 1, 2.0, peak, band) == pytest.approx(peak / band)  # dense, 16-bit: the ridge


@pytest.mark.published
def test_the_share_of_the_shared_expert() -> None:
    """tam2026, H7d: one shared expert of nine active ones is 11 % of the work."""
    assert experts.shared_expert_share(2048, 8, 2048) == pytest.approx(1 / 9)
    assert experts.shared_expert_share(0, 8, 2048) == 0
    assert experts.shared_expert_share(5632, 4, 1408) == pytest.approx(0.5)  # Qwen1.5-MoE-A2.7B


@pytest.mark.published
def test_all_reduces_against_dispatch() -> None:
    """InferSim's own ratio, 4 w / (3 k): 1.33 at 8 devices, 2.67 at 16, at every batch."""
    for devices, batch in ((8, 1), (8, 256), (16, 1), (16, 256)):
        s = expert_claims.setup(devices, batch)
        theirs = 2 * infersim.all_reduce_time(s)
        theirs /= infersim.deepep_time(s, 1, "low-latency") + infersim.deepep_time(s, 2, "low-latency")
        assert experts.exchange_ratio(devices, 8) == pytest.approx(theirs) == pytest.approx(4 * devices / 24)
    # two rings over the tokens of all, by their own equation, against copies that all travel
    w, k, b, h, band = 8, 8, 64, 7168, 1e11
    ring = 2 * collectives.ring_all_reduce(w * b * h * 2, w, band)
    sent = collectives.all_to_all(b * k * h * 1.0, w, band) + collectives.all_to_all(b * k * h * 2.0, w, band)
    assert experts.exchange_ratio(w, k, passes=4) == pytest.approx(ring / sent)
    assert experts.exchange_ratio(w, k, 2, 1, 1, 1) == pytest.approx(w / k)
    assert experts.exchange_ratio(w, k, 2, 2, 4, 2) == pytest.approx(4 * w / (6 * k))


@pytest.mark.independent
def test_two_batches_in_turn() -> None:
    assert experts.two_batch_time(3, 1) == 6
    assert experts.two_batch_time(1, 3) == 6
    assert experts.two_batch_time(3, 1, 0.5) == 12
    assert experts.two_batch_time(1, 3, 0.5) == 6
    # never better than either resource alone, never worse than doing one after the other
    assert 2 * max(3, 2) <= experts.two_batch_time(3, 2) <= 2 * (3 + 2)


@pytest.mark.independent
def test_two_batches_in_turn_are_what_the_serving_solver_does() -> None:
    both, one = v3(16, interleaved=2), v3(16)
    joint = decode_step(both, batch=16 * 64, context=4096)
    alone = decode_step(one, batch=16 * 32, context=4096).cost
    sent = sum(m.time for m in alone.messages if m.name in ("dispatch", "combine"))
    assert joint.cost.time == pytest.approx(experts.two_batch_time(alone.time - sent, sent))


# The layer


@pytest.mark.independent
@pytest.mark.parametrize(
    ("name", "tp", "dp", "ep"),
    [
        ("DeepSeek-V3", 1, 8, 8),
        ("Mixtral-8x7B", 4, 1, 1),
        ("Mixtral-8x7B", 4, 1, 4),
        ("Mixtral-8x7B", 4, 2, 2),
        ("DeepSeek-V3", 2, 8, 16),
    ],
)
def test_the_layer_at_printed_rates_is_that_of_the_serving_solver(name: str, tp: int, dp: int, ep: int) -> None:
    """A second derivation: the same work, the same reading and the same messages as a whole pass, per layer."""
    d = deploy(name, "H800", tp=tp, dp=dp, ep=ep, precision="bf16", inter_bandwidth=NETWORK, efficiencies="bound")
    layers = d.model.n_moe_layers
    for mode, cost in (
        ("low-latency", decode_step(d, batch=32 * dp, context=100).cost),
        ("normal", prefill(d, batch=dp, input_len=32).cost),
    ):
        layer = expert_layer(d, tokens=32, mode=mode, rates=PRINTED, tile=0.0, link=1.0)
        assert layer.work.flops * layers == pytest.approx(cost.components["experts"].flops)
        read = layer.work.hit * layer.work.params * layer.work.weight_bytes
        assert read * layers == pytest.approx(cost.components["experts"].bytes)
        sent = {m.name: m.time for m in cost.messages}
        assert layer.dispatch_time * layers == pytest.approx(sent.get("dispatch", 0.0))
        assert layer.combine_time * layers == pytest.approx(sent.get("combine", 0.0))


@pytest.mark.published
def test_grouped_products_of_the_tables() -> None:
    """71 measured layers of routed experts (infersim2026bench): mean error below 10 %, none of a constant of ours."""
    errors = []
    for g in expert_claims.all_grouped():
        layer = expert_layer(v3(g.devices), tokens=g.tokens)
        if g.per_expert > 1:  # with one token each, half of the experts drew none
            errors.append(layer.routed_time / g.time - 1)
    assert len(errors) == 70
    assert statistics.mean(map(abs, errors)) < 0.10
    assert abs(statistics.mean(errors)) < 0.04
    without = []
    for g in expert_claims.all_grouped():
        if g.per_expert > 1:
            without.append(expert_layer(v3(g.devices), tokens=g.tokens, tile=0.0).routed_time / g.time - 1)
    assert statistics.mean(map(abs, errors)) < statistics.mean(map(abs, without))


@pytest.mark.published
def test_messages_measured_by_their_makers() -> None:
    """deepep2025, low-latency kernels on H800, 128 tokens: 192 us there and 369 us back at 128 devices, 155 and 273 at 32."""
    for devices, there, back in ((32, 155, 273), (64, 173, 314), (128, 192, 369)):
        layer = expert_layer(v3(devices), tokens=128)
        assert layer.dispatch_time == pytest.approx(there * us, rel=0.15)
        assert layer.combine_time == pytest.approx(back * us, rel=0.15)


@pytest.mark.independent
def test_messages_of_both_kinds() -> None:
    d = v3(16)
    there, back = expert_messages(d, 100)
    assert back["token_bytes"] == 2 * there["token_bytes"] == 2 * 7168
    assert there["remote_nodes"] == 4 and there["local_copies"] == 3.5  # half of eight copies, and the rest but its own
    normal, _ = expert_messages(d, 100, "normal")
    nowhere = [
        math.prod((n - i) / (256 - i) for i in range(8)) for n in (128, 240)
    ]  # of eight experts in a node, on a device
    assert normal["remote_nodes"] == pytest.approx(1 - nowhere[0])
    assert normal["local_copies"] == pytest.approx(16 * (1 - nowhere[1]) * 7 / 8), (
        "once to each device of a node but the first"
    )
    assert expert_message_time(d, LOW_LATENCY_TOKENS) == pytest.approx(
        expert_layer(d, tokens=LOW_LATENCY_TOKENS).message_time
    )
    direct = expert_layer(d, tokens=200)
    assert (
        expert_message_time(d, 200)
        == pytest.approx(expert_layer(d, tokens=200, mode="normal").message_time)
        != direct.message_time
    )
    alone = deploy("Mixtral-8x7B", "H200", tp=2)
    assert expert_message_time(alone, 64) == 0 == expert_message_time(alone, 64, latency=1e-5)
    with pytest.raises(UnknownNameError, match="low-latency"):
        expert_messages(d, 100, "slow")


@given(st.floats(1, 4096), st.floats(1, 4))
def test_more_tokens_never_less_time(tokens: float, factor: float) -> None:
    d = v3(8)
    one, more = (expert_layer(d, tokens=t) for t in (tokens, tokens * factor))
    assert more.time >= one.time * (1 - 1e-12)
    assert 0 < one.share <= rates("H800").grouped_products.compute
    assert one.work.hit <= 32 and one.work.flops / one.routed_time <= d.machine.peak_flops
    assert one.work.bytes / one.routed_time <= d.machine.memory_bandwidth


@pytest.mark.independent
def test_arrays_and_numbers_agree() -> None:
    np = pytest.importorskip("numpy")
    d, tokens = v3(32), np.array([1.0, 64.0, 200.0, 4096.0])
    many = expert_layer(d, tokens=tokens)
    for i, t in enumerate(tokens):
        one = expert_layer(d, tokens=float(t))
        assert many.time[i] == pytest.approx(one.time) and many.bound[i] == one.bound
        assert expert_message_time(d, tokens)[i] == pytest.approx(expert_message_time(d, float(t)))
    assert "several batches" in str(many.explain())


@pytest.mark.independent
def test_a_layer_explains_itself() -> None:
    layer = expert_layer(v3(8), tokens=64)
    text = str(layer.explain())
    for label in (
        "eq-tokens-per-expert",
        "eq-experts-hit",
        "eq-grouped-share",
        "eq-grouped-time",
        "eq-kernel-time",
        "eq-moe-dispatch",
    ):
        assert label in text
    assert layer.time == pytest.approx(layer.routed_time + layer.shared_time + layer.dispatch_time + layer.combine_time)
    assert layer.compute_time + layer.message_time == pytest.approx(layer.time)
    assert layer.shared_work_share == pytest.approx(1 / 9)
    assert expert_layer(deploy("Mixtral-8x7B", "H200"), tokens=4).shared_time == 0
    with pytest.raises(InputError, match="no experts"):
        expert_layer(deploy("Llama-3.1-8B", "H100"), tokens=4)
    with pytest.raises(InputError, match="tokens"):
        expert_layer(v3(8), tokens=0)
    with pytest.raises(UnknownNameError, match="H800"):
        kernel_tables("A100-80GB")


# In the step model


@pytest.mark.independent
def test_the_step_model_uses_the_layer() -> None:
    d = v3(128)
    step = step_model(d, TIER_0)
    batch = Batch.of(step.model, decodes=[4989.0] * 64)
    layer = expert_layer(d, tokens=64, rates=step.rates)
    assert step.terms(batch).experts == pytest.approx(step.model.n_moe_layers * layer.routed_time)
    start = step.rates.products_16bit.start
    assert step.terms(batch).messages == pytest.approx(58 * (layer.message_time + 2 * start))
    assert step.time(batch) == pytest.approx(step.terms(batch).time)
    nothing = step.terms(Batch())
    assert nothing.experts == nothing.messages == 0


@pytest.mark.independent
def test_rungs_of_experts() -> None:
    d = deploy("Mixtral-8x7B", "H200", precision="bf16")
    hit, every, dense = (expert_work(d, 2.0, which) for which in ("hit", "all", "dense"))
    assert hit.hit == 3.5 and every.hit == dense.hit == 8
    assert hit.flops == every.flops == dense.flops / 4
    times = [
        step_model(d, StepOptions(experts=which)).time(Batch.of(d.model, decodes=[500.0]))
        for which in ("hit", "all", "dense")
    ]
    assert times[0] < times[1] <= times[2]
    assert step_model(d, TIER_0).time(Batch.of(d.model, decodes=[500.0])) != step_model(d, BASELINE).time(
        Batch.of(d.model, decodes=[500.0])
    )


@pytest.mark.independent
def test_tensor_and_expert_ranks_share_the_sending() -> None:
    wide = deploy("DeepSeek-V3", "H800", tp=2, dp=8, ep=16, precision="fp8", inter_bandwidth=NETWORK)
    step = step_model(wide, TIER_0)
    terms = step.terms(Batch.of(step.model, decodes=[100.0] * 32))
    start = step.rates.products_16bit.start
    reduced = 61 * 2 * collectives.direct_all_reduce(32 * 7168 * 2, 2, 0.8 * 200e9, start)
    sent = 58 * (expert_layer(wide, tokens=32).message_time + 2 * start)
    assert terms.messages == pytest.approx(reduced + sent)


# H7


@pytest.mark.published
def test_the_claims_of_h7() -> None:
    numbers = expert_claims.expert_numbers()
    found = expert_claims.expert_hypotheses()
    assert list(numbers) == list(found)
    verdicts = {name: judge(h, numbers[name]) for name, h in found.items()}
    assert {name: v.outcome for name, v in verdicts.items()} == {
        "H7a": "undecided",
        "H7b": "undecided",
        "H7c": "refuted",
        "H7d": "refuted",
        "H7e": "refuted",
        "H7": "undecided",
    }
    assert numbers["H7e"]["ratio"] == pytest.approx(4 / 3)
    assert numbers["H7b"]["ratio_high"] > 100 and numbers["H7b"]["ratio_low"] < 1.1
    assert expert_claims.crossings(8)[0] == 14 and expert_claims.crossings(8)[-1] == 402
    assert numbers["H7a"]["overestimate"] == 0.5


@pytest.mark.published
def test_work_of_a_layer_is_counted_twice_alike() -> None:
    """get_moe_gflops of the reference: 0.792723456 GFLOP for DeepSeek-V3, 0.704643072 for Mixtral 8x7B."""
    assert expert_claims.layer_flops("DeepSeek-V3") == pytest.approx(0.792723456e9, rel=1e-9)
    assert expert_claims.layer_flops("Mixtral-8x7B") == pytest.approx(0.704643072e9, rel=1e-9)


@pytest.mark.published
def test_rates_of_deepseek_in_service() -> None:
    """infersim2026readme, Simulation Result: 7,839 prompt tokens and 2,324 answer tokens per second and device."""
    decode, _, _ = expert_claims.own_rate("decode")
    first, busy, sent = expert_claims.own_rate("prefill")
    assert decode == pytest.approx(2324, rel=0.15)
    assert first == pytest.approx(7839, rel=0.35) and first > 7839  # a bound: the pieces need not fit each other
    assert first == pytest.approx(2 * 8192 / experts.two_batch_time(busy, sent, NORMAL_UNITS))


@pytest.mark.independent
def test_where_an_expert_has_less_than_a_tile_reading_decides() -> None:
    """eq-grouped-share halves a tile that is one eighth full; with whole tiles of 128 rows reading still takes longer."""
    peak, read = rates("H800").grouped_products.compute * 1979e12, rates("H800").grouped_products.memory * 3.35e12
    for tokens in (1, 16, 64, 256, 500):
        work = expert_layer(v3(8), tokens=tokens).work
        assert 2 * work.hit * 128 * work.params / peak < work.hit * work.params / read


@pytest.mark.published
def test_combine_takes_twice_the_bytes_of_dispatch() -> None:
    """deepep2025, low-latency kernels: both of 128 tokens, over nodes."""
    for devices in (16, 32, 64, 128):
        layer = expert_layer(v3(devices), tokens=128)
        for ours, what in ((layer.dispatch_time, "dispatch"), (layer.combine_time, "combine")):
            measured = evidence.measurement(f"deepep-{what}-{devices}").value
            assert 0.75 < ours / measured < 1.05
    # the bandwidth that the source prints, to its two digits: 74 and 39 GB/s
    for devices, printed in ((16, 74e9), (128, 39e9)):
        row = evidence.measurement(f"deepep-combine-{devices}")
        sent = row.inputs["tokens"] * row.inputs["copies"] * row.inputs["token_bytes"]
        assert sent / row.value == pytest.approx(printed, rel=0.03)


@pytest.mark.independent
def test_one_crossover_at_a_constant_share() -> None:
    d = rates("H800").grouped_products
    b = expert_claims.constant_crossover(8, d.compute)
    layer = expert_layer(v3(8), tokens=b, tile=0.0)
    arithmetic = layer.work.flops / (d.compute * 1979e12)
    reading = layer.work.hit * layer.work.params / (d.memory * 3.35e12)
    assert arithmetic == pytest.approx(reading)
    # half a tile of rows for each of a device's 32 experts, of which a token brings 8, is arithmetic at any batch
    padded = expert_claims.padded_crossover(8)
    assert padded == pytest.approx(b - 64 * 32 / 8)
    rows = 8 * 8 * padded / 256
    work = 2 * 32 * (rows + 64) * layer.work.params
    assert work / (d.compute * 1979e12) == pytest.approx(reading)
    mine = expert_claims.own_crossover(8)
    d = expert_claims.deployed(128)  # halving finds the first of all batches
    one = expert_claims.expert_layer(d, tokens=1)
    reads = [replace(one, tokens=b, work=expert_claims.expert_work(d, b)).reading_binds for b in range(1, 60)]
    assert expert_claims.own_crossover(128) == 1 + reads.index(False)
    assert not any(reads[reads.index(False) :])
    assert mine > padded  # activations are read too
    assert expert_layer(v3(8), tokens=mine - 1).reading_binds and not expert_layer(v3(8), tokens=mine).reading_binds
    assert TILE == 128 and catalog.model("DeepSeek-V3").n_experts == 256
