"""Prefill, decode and whole answers: by hand, published sizes and latencies, bounds, and every term noticed."""

import json
import math
import random
import tomllib
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, resized

from mlsysim import catalog, cli, evidence, inference, memory, training, transformer
from mlsysim.catalog import Device, Sourced, decoder
from mlsysim.efficiencies import shipped
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import measurement, scoring
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence.predictors import PREDICTORS, shipped_constants
from mlsysim.evidence.predictors import inference as of_inference
from mlsysim.evidence.predictors.base import Row
from mlsysim.evidence.predictors.fitting import stacked
from mlsysim.inference import (
    BOUND,
    Efficiencies,
    Machine,
    Split,
    Terms,
    Work,
    decode_step,
    deploy,
    generate,
    pass_cost,
    prefill,
)
from mlsysim.inference.work import _micro_batches
from mlsysim.parallelism import Plan

TERMS = tuple(f.name for f in fields(Terms))
TOY = decoder("toy", layers=4, hidden=8, heads=4, kv_heads=2, head_dim=2, ffn=32, vocab=100)
FIGURES = {
    "memory_bandwidth": (1e3, "byte/s"),
    "memory_capacity": (1e5, "byte"),
    "peak_flops.bf16": (1e4, "FLOP/s"),
    "peak_flops.fp8": (2e4, "FLOP/s"),
    "scale_up_bandwidth": (50.0, "byte/s"),
    "scale_up_domain": (4, "1"),
}
DEVICE = Device(name="round", kind="gpu", fields={k: Sourced(v, u, "test") for k, (v, u) in FIGURES.items()})
# Per layer: attention 2 x 8 x 2 x (4 + 2) = 192 weights, MLP 3 x 8 x 32 = 768. Head 8 x 100 = 800.
ATTENTION, MLP, HEAD = 192, 768, 800


# By hand


@pytest.mark.independent
def test_a_decode_step_by_hand() -> None:
    step = decode_step(deploy(TOY, DEVICE, efficiencies="bound"), context=10, batch=3)
    # Traffic in bytes over 1000 byte/s: 2 bytes a weight; the cache has 2 x 2 heads x 2 numbers x 2 bytes a token and layer.
    assert step.terms.projections == pytest.approx(4 * ATTENTION * 2 / 1e3)
    assert step.terms.mlp == pytest.approx(4 * MLP * 2 / 1e3)
    assert step.terms.attention == pytest.approx(4 * 3 * 10 * 8 * 2 / 1e3)
    assert step.terms.head == pytest.approx(HEAD * 2 / 1e3)
    assert step.time == pytest.approx(sum((6.144, 1.536, 1.92, 1.6)))
    assert step.bound == "memory"
    # Arithmetic: 2 per weight and sequence, 4 x heads x size per key.
    assert step.compute_time == pytest.approx((2 * 3 * (4 * (ATTENTION + MLP) + HEAD) + 4 * 3 * 10 * 4 * 4 * 2) / 1e4)


@pytest.mark.independent
def test_a_prompt_pass_by_hand() -> None:
    first = prefill(deploy(TOY, DEVICE, efficiencies="bound"), input_len=100, batch=2)
    pairs = 2 * 100 * 101 / 2
    assert first.terms.projections == pytest.approx(4 * 2 * ATTENTION * 200 / 1e4)
    assert first.terms.mlp == pytest.approx(4 * 2 * MLP * 200 / 1e4)
    assert first.terms.attention == pytest.approx(4 * 2 * pairs * 4 * 4 / 1e4)
    assert first.terms.head == pytest.approx(max(2 * HEAD * 2 / 1e4, HEAD * 2 / 1e3))  # one row of logits a sequence
    assert first.bound == "compute"
    counted = inference.prefill_flops(2, 100, 4 * (ATTENTION + MLP), HEAD, 4 * 4 * 4)
    assert first.cost.device_flops == pytest.approx(counted)
    assert first.mfu == pytest.approx(counted / (first.time * 1e4))


@pytest.mark.independent
def test_a_cached_prefix_leaves_the_rest() -> None:
    d = deploy(TOY, DEVICE, efficiencies="bound")
    whole, rest = prefill(d, input_len=100), prefill(d, input_len=100, cached_len=60)
    before = prefill(d, input_len=60)
    for name in ("projections", "attention", "mlp"):
        done = rest.cost.components[name].flops + before.cost.components[name].flops
        assert done == pytest.approx(whole.cost.components[name].flops)
    assert rest.cost.components["attention"].bytes == whole.cost.components["attention"].bytes  # reads the whole cache
    assert rest.time < whole.time


@pytest.mark.independent
def test_messages_of_tensor_parallelism_by_hand() -> None:
    step = decode_step(deploy(TOY, DEVICE, tp=2, efficiencies=Efficiencies(link_latency=0.01)), context=10, batch=3)
    # 2 all-reduces a layer of 3 x 8 numbers of 2 bytes; two steps of 10 ms, and (N - 1)/N of the bytes each way.
    assert step.terms.tensor_parallel == pytest.approx(8 * (2 * 0.01 + 2 * 0.5 * 48 / 50))
    alone = decode_step(deploy(TOY, DEVICE, efficiencies="bound"), context=10, batch=3)
    assert step.terms.mlp == pytest.approx(alone.terms.mlp / 2)
    assert alone.terms.tensor_parallel == 0


@pytest.mark.independent
def test_a_group_that_leaves_its_domain_pays_the_slow_link() -> None:
    wide = decoder("wide", layers=4, hidden=8, heads=8, kv_heads=8, head_dim=1, ffn=32, vocab=100)
    step = decode_step(deploy(wide, DEVICE, tp=8, inter_bandwidth=5.0, efficiencies="bound"), context=10, batch=3)
    # A pair of trees over two domains of four, in which adapters count twice, and 92 % of the wire carry data.
    assert step.terms.tensor_parallel == pytest.approx(8 * 2 * 48 / (0.92 * min(50, 4 * 2 * 5)))
    with pytest.raises(InputError, match="inter_bandwidth is missing"):
        deploy(wide, DEVICE, tp=8, efficiencies="bound")


def _call(file: str, group: str, name: str) -> float:
    text = (ROOT / "mlsysim" / "efficiencies" / file).read_text(encoding="utf-8")
    return float(tomllib.loads(text)["constants"][group][name])


def _in_chunks(seconds: float, stages: int, steps: float) -> float:
    """Bytes and the filling of a pipeline; what its first chunk waits is in the steps, and is no longer than they take."""
    first = min((stages - 1) * _call("collective.toml", "call", "chunk_s"), steps)
    return float((seconds**0.5 + first**0.5) ** 2 - first)


@pytest.mark.independent
def test_cards_without_a_link_of_their_own_sum_over_their_slots() -> None:
    """NCCL's ring with flags over four slots of PCIe 4: 24 of 31 GB/s planned, half of it payload, 1 us a step."""
    d = deploy("Llama-3.1-70B", "L40S", tp=4, weights="fp8")
    step = decode_step(d, context=1024, batch=8)
    moving = 2 * 3 / 4 * (8 * 8192 * 2) / (0.5 * 24e9 * 32 / 31)
    steps = 2 * 3 * 1e-6
    own = steps + _in_chunks(moving, 4, 6.6e-6 + steps)
    assert step.terms.tensor_parallel == pytest.approx(160 * (6.6e-6 + own))
    assert sum(x.time for x in step.cost.messages) == step.terms.tensor_parallel
    # where a host starts the call, it costs what a call costs alone
    launched = deploy("Llama-3.1-70B", "L40S", tp=4, weights="fp8", server="TensorRT-LLM 0.9")
    start = _call("collective.toml", "call", "startup_s")
    assert decode_step(launched, context=1024, batch=8).terms.tensor_parallel == pytest.approx(160 * (start + own))
    # a prompt goes in whole chunks, at 5.7 us a step and the whole plan
    steps = 8.4e-6 + 2 * 3 * 5.7e-6
    chunks = steps + _in_chunks(2 * 3 / 4 * 2048 * 8192 * 2 / (24e9 * 32 / 31), 4, steps)
    assert prefill(d, input_len=2048).terms.tensor_parallel == pytest.approx(160 * chunks)
    # the bound has the slots at their printed rate, and no steps
    bound = decode_step(deploy("Llama-3.1-70B", "L40S", tp=4, weights="fp8", efficiencies="bound"), context=1, batch=8)
    assert bound.terms.tensor_parallel == pytest.approx(160 * 2 * 3 / 4 * (8 * 8192 * 2) / 32e9)


@pytest.mark.independent
def test_over_nodes_the_library_takes_a_tree_for_one_token() -> None:
    """Two nodes of eight A100 on InfiniBand: a hop of 5 us between nodes and seven of 0.6 us inside, up and down."""
    d = deploy("Llama-3.1-70B", "2 x DGX-A100", tp=16)
    moving = 2 * 16_384 / (0.92 / 3.8 * 240e9)  # the tree's flags: 0.92 / 3.8 of the planned 240 GB/s
    steps = 6.8e-6 + 2 * (5e-6 + 7 * 0.6e-6)
    one = steps + _in_chunks(moving, 1 + 2 * (7 + 1), steps)
    step = decode_step(d, context=1024)
    assert step.terms.tensor_parallel == pytest.approx(160 * one, rel=1e-3)
    # an array of batches crosses from one protocol to the next, each element as it would alone
    batches = np.array([1, 16, 256, 4096])
    many = decode_step(d, context=1024, batch=batches)
    alone = [decode_step(d, context=1024, batch=int(b)).terms.tensor_parallel for b in batches]
    assert many.terms.tensor_parallel.tolist() == pytest.approx(alone, rel=1e-12)
    rates = {x.arguments["bandwidth"] for b in batches for x in decode_step(d, context=9, batch=int(b)).cost.messages}
    assert len(rates) > 1
    # EFA of the first generation lets the library write whole chunks alone, and a step over it takes 23 us
    far = decode_step(deploy("Llama-3.1-70B", "2 x P4d", tp=16), context=1024)
    assert far.terms.tensor_parallel > 3 * step.terms.tensor_parallel


@pytest.mark.independent
def test_a_pipeline_of_fastertransformer_is_cut_as_its_source_says() -> None:
    """``getLocalBatchSize``: by the stages where they divide the batch, then by halves down to 1,024 tokens."""
    cut = Split(pp=3, micro_tokens=1024)
    for sequences, new, parts in ((16, 1, 1), (12, 1, 3), (128, 128, 16), (6, 20, 3), (4, 600, 4), (7, 600, 1)):
        assert _micro_batches(cut, sequences, new) == parts
    sequences, new = np.array([16, 12, 128]), np.array([1, 1, 128])
    assert _micro_batches(cut, sequences, new).tolist() == [1, 3, 16]
    assert _micro_batches(Split(pp=3), 16, 1) == 3
    # stages that do not divide a batch wait for one another: the whole batch goes through all layers
    serial = time_of(split={"pp": 2, "micro_tokens": 1024.0, "dp": 1}, batch=31.0)
    filled = time_of(split={"pp": 2, "dp": 1}, batch=31.0)
    assert serial > filled
    made = deploy("Llama-2-70B", "H100", tp=8, pp=2, inter_bandwidth=50e9, server="FasterTransformer")
    assert made.split.micro_tokens == 1024


@pytest.mark.independent
def test_prompts_lose_the_multiprocessors_that_send_to_experts() -> None:
    """24 of 132 send tokens of the other micro-batch; kernels of decode steps send without any."""
    plain, two = (deploy("DeepSeek-V3", "H800", dp=32, ep=32, inter_bandwidth=50e9, interleaved=n) for n in (1, 2))
    first, other = (prefill(d, input_len=4096, batch=128).cost.components["experts"] for d in (plain, two))
    assert other.peak / first.peak == pytest.approx(108 / 132, rel=0.02)  # and a little for tiles that are less full
    core = [prefill(d, input_len=4096, batch=128).cost.components["attention"].peak for d in (plain, two)]
    assert core[1] / core[0] == pytest.approx(108 / 132)
    core = [decode_step(d, context=4096, batch=128).cost.components["attention"].peak for d in (plain, two)]
    assert core[1] == core[0]


@pytest.mark.independent
def test_llama_cpp_starts_a_kernel_for_every_operation_of_its_graph() -> None:
    """25 operations of llm_build_llama compute, at 5.16 us each on Apple's GPUs: 4.3 ms over 832 of them."""
    ours = inference.efficiencies_of("Apple-M2-Ultra", "fp16", framework="llama.cpp Metal")
    assert ours.layer_overhead == pytest.approx(25 * 4.30e-3 / 832, rel=2e-3)
    assert ours.kernel_start == ours.attention_start == ours.grouped_start == 0
    other = inference.efficiencies_of("Apple-M2-Ultra", "fp16")
    assert other.layer_overhead == 0 and other.kernel_start == pytest.approx(5.16e-6)


@pytest.mark.independent
def test_the_head_of_a_narrow_checkpoint_keeps_16_bits_unless_the_runtime_converts_it() -> None:
    row = dict.fromkeys(("n_experts", "kv_lora_rank", "weight_bytes"))
    row |= {"model": "x", "layers": 2, "hidden": 1024, "ffn": 4096, "heads": 8, "vocab": 50_000, "weight_bits": 8.0}
    row |= {"device": "H100", "phase": "decode_step", "context_len": 10, "compute_precision": "bf16"}
    times = {}
    for server in ("vLLM 0.9", "gpt-fast"):
        times[server] = PREDICTORS["inference"].predict({**row, "framework": server}, shipped("inference")).predicted
    # eight-bit ones are read at half, and two vector operations make a number of each
    less = 50_000 * 1024 * (1 / (0.887 * 3.35e12) - 2 / 66.9e12)
    assert times["vLLM 0.9"] - times["gpt-fast"] == pytest.approx(less, rel=0.01)


@pytest.mark.independent
def test_rows_taken_together_are_as_each_alone() -> None:
    """Over nodes, over slots, inside a domain and on one device; a card that the catalogue does not know has its slots too."""
    shape = {"model": "x", "layers": 8, "hidden": 4096, "ffn": 16384, "heads": 32, "vocab": 50_000, "batch": 8.0}
    ask = {"phase": "end_to_end", "input_len": 300, "output_len": 9, "framework": "TensorRT-LLM 0.9"}
    on = (
        {"device": "A100-SXM4-80GB", "tp": 16.0, "inter_node_bandwidth": 25e9},
        {"device": "L40S", "tp": 4.0},
        {"device": "A100-PCIe-80GB", "tp": 2.0, "peak_flops": 312e12, "hbm_bandwidth": 1.935e12},
        {"device": "H100", "tp": 8.0},
        {"device": "H100"},
    )
    rows = [shape | ask | m for m in on]
    constants = shipped("inference")
    alone = [PREDICTORS["inference"].predict(r, constants).predicted for r in rows]
    cases = [of_inference._cases(Row(r))[0] for r in rows]
    parts = {n: stacked([getattr(c, n) for c in cases]) for n in ("work", "split", "machine")}
    names = ("batch", "input_len", "context", "prefills", "steps")
    both = replace(cases[0], **{n: np.array([getattr(c, n) for c in cases]) for n in names}, **parts)
    eff = [of_inference._efficiencies(c, constants) for c in cases]
    fields = [f for f in vars(eff[0]) if f not in ("name", "source")]
    together = of_inference._time(both, Efficiencies(**{n: np.array([getattr(e, n) for e in eff]) for n in fields}))
    assert together.tolist() == pytest.approx(alone, rel=1e-12)


@pytest.mark.independent
def test_more_devices_than_key_value_heads_copy_the_cache() -> None:
    two, four = (decode_step(deploy(TOY, DEVICE, tp=t, efficiencies="bound"), context=50, batch=3) for t in (2, 4))
    assert four.terms.attention == pytest.approx(two.terms.attention)
    assert two.deployment.kv_memory(3, 64) == pytest.approx(four.deployment.kv_memory(3, 64))


@pytest.mark.independent
def test_a_pipeline_by_hand() -> None:
    d, one = deploy(TOY, DEVICE, pp=2, efficiencies="bound"), deploy(TOY, DEVICE, efficiencies="bound")
    # Decode: two micro-batches of 2, each through all layers; between stages 2 x 8 numbers of 2 bytes.
    step = decode_step(d, context=10, batch=4)
    assert step.time == pytest.approx(decode_step(one, context=10, batch=2).time + 2 * 8 * 2 / 50)
    # A prompt in two micro-batches: the second leaves one stage's time after the first.
    alone = prefill(one, input_len=100, batch=2).time
    assert prefill(d, input_len=100, batch=4).time == pytest.approx(1.5 * alone + 2 * 100 * 8 * 2 / 50)


MIX = decoder("mix", 4, 8, 4, 2, 2, 0, 100, n_experts=8, top_k=2, moe_ffn=16)
EXPERT = 3 * 8 * 16


@pytest.mark.independent
@pytest.mark.slow
def test_experts_hit_by_enumeration() -> None:
    """Draw expert sets for many batches and count the different ones; then two tokens exactly."""
    rng = random.Random(7)
    for tokens in (1, 3, 10):
        drawn = [len({e for _ in range(tokens) for e in rng.sample(range(8), 2)}) for _ in range(20_000)]
        assert inference.experts_hit(8, 2, tokens) == pytest.approx(sum(drawn) / len(drawn), rel=0.01)
    exact = [len({a, b} | {c, d}) for a in range(8) for b in range(a) for c in range(8) for d in range(c)]
    assert inference.experts_hit(8, 2, 2) == pytest.approx(sum(exact) / len(exact))


@pytest.mark.independent
def test_a_mixture_reads_the_experts_it_hits() -> None:
    d = deploy(MIX, DEVICE, efficiencies="bound")
    for batch in (1, 2, 50):
        read = decode_step(d, context=10, batch=batch).cost.components["experts"].bytes
        assert read == pytest.approx(4 * 8 * (1 - 0.75**batch) * EXPERT * 2)
    all_of_them = decode_step(d, context=10, batch=500).cost.components["experts"].bytes
    assert all_of_them == pytest.approx(4 * 8 * EXPERT * 2, rel=1e-12)


@pytest.mark.independent
def test_a_mixture_with_all_experts_active_is_a_dense_model() -> None:
    mix = decoder("mix", 4, 8, 4, 2, 2, 0, 100, n_experts=8, top_k=8, moe_ffn=16)
    dense = decoder("dense", 4, 8, 4, 2, 2, 8 * 16, 100)
    a, b = (decode_step(deploy(m, DEVICE, efficiencies="bound"), context=10, batch=3) for m in (mix, dense))
    assert a.terms.experts == pytest.approx(b.terms.mlp)
    a, b = (prefill(deploy(m, DEVICE, efficiencies="bound"), input_len=200) for m in (mix, dense))
    assert a.terms.experts == pytest.approx(b.terms.mlp)


@pytest.mark.independent
def test_expert_parallelism_by_hand() -> None:
    d = deploy(MIX, DEVICE, dp=4, ep=4, precision="fp8", efficiencies="bound")
    step = decode_step(d, context=10, batch=8)
    assert step.cost.components["experts"].bytes == pytest.approx(4 * 8 * (1 - 0.75**8) * EXPERT / 4)
    # 2 tokens a device, 2 copies of each, 3 of 4 go to another device: 1 byte there, 2 back.
    assert step.terms.expert_parallel == pytest.approx(4 * 2 * (2 * 3 / 4) * 8 * (1 + 2) / 50)
    together = decode_step(deploy(MIX, DEVICE, tp=4, ep=4, efficiencies="bound"), context=10, batch=8)
    assert together.cost.components["experts"].bytes == pytest.approx(4 * 8 * (1 - 0.75**8) * EXPERT * 2 / 4)


@pytest.mark.independent
def test_experts_in_other_domains_go_over_the_network() -> None:
    d = deploy(MIX, DEVICE, dp=8, ep=8, inter_bandwidth=5.0, efficiencies="bound")
    count = 4 * 8 * (2 + 2)  # layers x hidden x bytes there and back
    assert decode_step(d, context=10, batch=8).terms.expert_parallel == pytest.approx(count * 2 * 4 / 8 / 5)
    # In a prompt a token goes to the other domain once, if at least one of its 2 experts is there: not both of the four elsewhere.
    there = 1 - 4 / 8 * 3 / 7
    assert prefill(d, input_len=10, batch=8).terms.expert_parallel == pytest.approx(10 * count * there / 5)
    for dispatcher, copies in (("per-node", there), ("per-expert", 2 * 4 / 8)):
        held = deploy(MIX, DEVICE, dp=8, ep=8, inter_bandwidth=5.0, efficiencies="bound", dispatcher=dispatcher)
        assert decode_step(held, context=10, batch=8).terms.expert_parallel == pytest.approx(count * copies / 5)
        assert prefill(held, input_len=10, batch=8).terms.expert_parallel == pytest.approx(10 * count * copies / 5)
    with pytest.raises(UnknownNameError, match="dispatcher"):
        deploy(MIX, DEVICE, dp=8, ep=8, inter_bandwidth=5.0, dispatcher="deepep")


@pytest.mark.independent
def test_a_latent_model_sends_its_narrow_tokens() -> None:
    """Nemotron-3-Super: 22 copies of 1,024 numbers from each of 40 layers, out in 8 bits and back in 16."""
    d = deploy("Nemotron-3-Super", "H100", dp=8, ep=8, precision="fp8", efficiencies="bound")
    sent = 40 * 4 * 22 * 7 / 8 * 1024 * (1 + 2) / d.machine.intra_bandwidth
    assert decode_step(d, context=100, batch=32).terms.expert_parallel == pytest.approx(sent)


@pytest.mark.independent
def test_interleaved_micro_batches_hide_messages() -> None:
    plain = decode_step(deploy(MIX, DEVICE, dp=4, ep=4, efficiencies="bound"), context=10, batch=16)
    both = decode_step(deploy(MIX, DEVICE, dp=4, ep=4, interleaved=2, efficiencies="bound"), context=10, batch=16)
    assert plain.terms.expert_parallel > 0 == both.terms.expert_parallel
    assert both.terms.mlp == pytest.approx(2 * plain.terms.mlp)  # weights are read by each
    slow = deploy(MIX, DEVICE, dp=4, ep=4, interleaved=2, intra_bandwidth=0.1, efficiencies="bound")
    step = decode_step(slow, context=10, batch=16)
    busy = sum(getattr(step.terms, n) for n in ("projections", "attention", "mlp", "experts", "head"))
    sent = sum(m.time for m in step.cost.messages if m.label == "eq-moe-dispatch")
    assert step.terms.expert_parallel == pytest.approx(sent - busy)


@pytest.mark.independent
def test_the_latent_cache_by_hand() -> None:
    mla = decoder("mla", 2, 16, 4, 4, 4, 32, 100, kv_lora_rank=8, qk_rope_head_dim=2, q_lora_rank=8, v_head_dim=4)
    d = deploy(mla, DEVICE, tp=2, efficiencies="bound")
    step = decode_step(d, context=10, batch=3).cost.components["attention"]
    assert step.bytes == pytest.approx(2 * 3 * 10 * (8 + 2) * 2)  # every rank keeps all of it
    assert step.flops == pytest.approx(2 * 2 * 3 * 10 * 4 * (8 + 2 + 8) / 2)  # against the latent, absorbed
    first = prefill(d, input_len=10, batch=3).cost.components["attention"]
    assert first.flops == pytest.approx(2 * 2 * 3 * 55 * 4 * (4 + 2 + 4) / 2)  # expanded


@pytest.mark.independent
def test_a_window_by_counting() -> None:
    m = resized(TOY, attn_window=5, n_windowed_layers=2)
    first = prefill(deploy(m, DEVICE, efficiencies="bound"), input_len=12).cost.components["attention"]
    pairs = sum(2 * (i + 1) + 2 * min(i + 1, 5) for i in range(12))
    assert first.flops == pytest.approx(2 * pairs * 4 * 4)
    rest = prefill(deploy(m, DEVICE, efficiencies="bound"), input_len=12, cached_len=4).cost.components["attention"]
    assert rest.flops == pytest.approx(2 * sum(2 * (i + 1) + 2 * min(i + 1, 5) for i in range(4, 12)) * 4 * 4)
    step = decode_step(deploy(m, DEVICE, efficiencies="bound"), context=12, batch=3).cost.components["attention"]
    assert step.bytes == pytest.approx(3 * (2 * 12 + 2 * 5) * 8 * 2)


@pytest.mark.independent
def test_formats_change_bytes_and_nothing_else() -> None:
    plain, light = (
        deploy(TOY, DEVICE, efficiencies="bound"),
        deploy(TOY, DEVICE, weights="int4-g32", kv="fp8", efficiencies="bound"),
    )
    a, b = (decode_step(d, context=10, batch=3) for d in (plain, light))
    assert b.cost.components["mlp"].bytes == pytest.approx(a.cost.components["mlp"].bytes * (4 + 32 / 32) / 16)
    assert b.cost.components["attention"].bytes == pytest.approx(a.cost.components["attention"].bytes / 2)
    assert b.compute_time == pytest.approx(a.compute_time)  # weight-only: the products stay 16-bit
    assert prefill(
        deploy(TOY, DEVICE, precision="fp8", efficiencies="bound"), input_len=500
    ).terms.mlp == pytest.approx(prefill(plain, input_len=500).terms.mlp / 2)


@pytest.mark.independent
def test_memory_is_weights_and_whole_blocks() -> None:
    d = deploy(TOY, DEVICE, efficiencies="bound")
    count = transformer.parameter_count(TOY).total
    assert d.weight_memory == pytest.approx(2 * count) == pytest.approx(d.total_weight_bytes)
    assert d.kv_memory(3, 17) == pytest.approx(4 * 3 * 32 * 8 * 2)  # 17 tokens take two blocks of 16
    assert d.memory(3, 17) == d.weight_memory + d.kv_memory(3, 17)
    most = d.max_batch(32)
    assert d.fits(most, 32) and not d.fits(most + 1, 32)
    assert deploy(TOY, DEVICE, tp=2, efficiencies="bound").weight_memory == pytest.approx(count, rel=0.05)
    assert "does not fit" in d.reason(1e4, 32) and d.reason(1, 32).startswith("fits")
    binary = catalog.device("H100")  # prints 80 GB, and its driver reports 79.11 GiB (vllm2025h100memory)
    shape = resized(TOY, layers=1)
    h100 = deploy(shape, binary, efficiencies="bound")
    room = 79.11 * 2**30 - h100.weight_memory
    assert "the datasheet prints 80 GB" in str(prefill(h100, input_len=16).explain())
    assert h100.kv_room == pytest.approx(room, rel=1e-12)
    tokens = 16.0
    between = (81e9 - h100.weight_memory) // h100.kv_memory(1, tokens)
    assert h100.fits(between, tokens) and h100.reason(between, tokens).startswith("fits")
    assert not h100.fits(room // h100.kv_memory(1, tokens) + 1, tokens)
    mix = deploy(MIX, DEVICE, dp=4, ep=4, efficiencies="bound")
    assert deploy(MIX, DEVICE, efficiencies="bound").weight_memory - mix.weight_memory == pytest.approx(
        0.75 * 4 * 8 * EXPERT * 2
    )


@pytest.mark.independent
def test_an_answer_is_the_sum_of_its_steps() -> None:
    d = deploy(TOY, DEVICE, efficiencies="bound")
    g = generate(d, input_len=20, output_len=9, batch=2)
    steps = sum(decode_step(d, context=20 + j, batch=2).time for j in range(1, 9))
    assert g.e2e == pytest.approx(prefill(d, input_len=20, batch=2).time + steps)
    assert g.itl == pytest.approx((g.e2e - g.ttft) / 8)
    assert g.e2e_per_token == pytest.approx(g.e2e / 9)
    assert g.tokens_per_s == pytest.approx(2 * 9 / g.e2e)
    assert generate(d, input_len=20, output_len=1).e2e == prefill(d, input_len=20).time


@pytest.mark.independent
def test_launches_hide_behind_the_device() -> None:
    d = deploy(TOY, DEVICE, efficiencies="bound")
    busy = decode_step(d, context=10).time
    for launch, extra in ((busy / 8, 0.0), (busy / 2, busy)):
        eager = replace(d, efficiencies=Efficiencies(launch_time=launch, step_overhead=1.0, layer_overhead=0.0))
        assert decode_step(eager, context=10).time == pytest.approx(busy + extra + 1.0)
    tails = replace(d, efficiencies=Efficiencies(layer_overhead=0.5))
    assert decode_step(tails, context=10).time == pytest.approx(busy + 4 * 0.5)


# Published


@pytest.mark.published
def test_published_sizes() -> None:
    """Source 001: 43 GB for 70B with 8 heads, batch 16 x 8,192; DeepSeek-V2: 576 numbers a token and layer, 61 layers."""
    d = deploy("Llama-2-70B", "H100", tp=8, efficiencies="bound")
    assert 8 * d.kv_memory(16, 8192) == pytest.approx(43e9, rel=0.01)
    assert deploy("DeepSeek-V3", "H200", efficiencies="bound").token_bytes == 61 * 576 * 2 == 70_272
    # Source 000 says 540 GB for 70B, batch 32 x 4,096. All 64 heads would take 343.6 GB, the model's 8 take 42.9 GB.
    assert memory.kv_cache(80, 32, 4096, 64, 128) / 1e9 == pytest.approx(343.6, abs=0.1)
    assert memory.kv_cache_of("Llama-2-70B", 32, 4096) / 1e9 == pytest.approx(42.9, abs=0.1)


@pytest.mark.published
@pytest.mark.parametrize(("row", "weights"), [("gpt-fast-llama2-7b-bf16", "bf16"), ("gpt-fast-llama2-7b-int8", "int8")])
def test_gpt_fast_stays_above_the_bound_and_near_the_calibration(row: str, weights: str) -> None:
    measured = 1 / measurement(row).value
    bound = generate(
        deploy("Llama-2-7B", "A100-80GB", weights=weights, efficiencies="bound"), input_len=5, output_len=200
    )
    assert bound.e2e / 200 < measured
    ours = deploy("Llama-2-7B", "A100-80GB", weights=weights, efficiencies="calibrated")
    assert generate(ours, input_len=5, output_len=200).e2e / 200 == pytest.approx(measured, rel=0.15)


@pytest.mark.independent
def test_a_processor_that_shares_its_memory_reaches_another_part_of_it() -> None:
    """The constant as the file has it; a card with memory of its own reaches what STREAM does there."""
    file = ROOT / "mlsysim" / "efficiencies" / "inference.toml"
    fitted = tomllib.loads(file.read_text(encoding="utf-8"))["constants"]["shared memory"]["memory"]
    assert inference.efficiencies_of("DGX-Spark-GB10", "fp4").memory == fitted
    # of Apple's it was measured: 100 of the M4's 120 GB/s
    assert inference.efficiencies_of("Apple-M2-Ultra", "fp16").memory == pytest.approx(100 / 120, abs=1e-3)
    assert inference.efficiencies_of("H100").memory > 1.3 * fitted


@pytest.mark.published
def test_a_claim_below_the_bound_is_refuted() -> None:
    """A published table gives 4.2 ms between tokens for 70B on one H100; its weights alone take ten times as long."""
    d = deploy("Llama-2-70B", "H100", efficiencies="bound")
    assert decode_step(d, context=1).time > 9 * measurement("harvard-70b-itl").value
    assert not d.fits(1, 1)


@pytest.mark.published
def test_speculative_decoding_of_the_paper() -> None:
    """Leviathan et al.: alpha 0.8 and gamma 5 with a free draft model yield 3.69 tokens per pass."""
    assert inference.speculative_tokens(0.8, 5) == pytest.approx(3.69, abs=0.005)
    assert inference.speculative_speedup(0.8, 5, 0.0) == pytest.approx(3.69, abs=0.005)


@pytest.mark.published
def test_mxfp4_takes_4_25_bits() -> None:
    assert inference.quantised_bits(4, 8, 32) == 4.25
    assert inference.format_bytes("mxfp4") == 4.25 / 8


# Closed forms


@pytest.mark.independent
def test_tokens_of_guesses_that_fade_by_the_chance_of_each_length() -> None:
    """A pass ends with its first refusal: every length of the accepted run with its own chance."""
    first, fading = 0.8, 0.9
    for drafted in (0, 1, 2, 5):
        chances = [first * fading**k for k in range(drafted)]
        mean, alive = 0.0, 1.0
        for length, chance in enumerate([*chances, 0.0], 1):
            mean, alive = mean + alive * (1 - chance) * length, alive * chance
        assert inference.fading_tokens(first, fading, drafted) == pytest.approx(mean)
    assert inference.fading_tokens(0.7, 1.0, 6) == pytest.approx(float(inference.speculative_tokens(0.7, 6)))
    assert inference.fading_tokens(1.0, 1.0, 64) == 65.0


@pytest.mark.published
def test_tokens_of_guesses_by_position_as_vllm_keeps_them() -> None:
    found = {c.measurement.name: c for c in evidence.checks("service")}
    assert len(found) == 4 and all(abs(c.error) < 0.015 < c.error_of("even") + 0.005 for c in found.values())
    qwen = found["guesses-qwen3-8b"]  # by hand: 0.6541, then 0.6104 and 0.5697 where the ones before were right
    assert qwen.predicted == pytest.approx(1 + 0.6541 + 0.3993 + 0.3993 * 0.5697, rel=1e-3)
    assert qwen.error_of("even") == pytest.approx(2.3618 / 2.26 - 1, rel=1e-3)


@pytest.mark.independent
@given(st.floats(0.05, 0.95), st.integers(1, 8))
def test_speculative_tokens_by_simulation_of_its_chain(acceptance: float, draft: int) -> None:
    # Exactly j of the guesses are accepted with probability a^j (1 - a), all of them with a^draft.
    exact = sum((j + 1) * acceptance**j * (1 - acceptance) for j in range(draft)) + (draft + 1) * acceptance**draft
    assert inference.speculative_tokens(acceptance, draft) == pytest.approx(exact)
    assert inference.speculative_speedup(acceptance, draft, 0.1, 1.5) == pytest.approx(exact / (0.1 * draft + 1.5))


@pytest.mark.independent
def test_speculation_at_large_batch_does_not_pay() -> None:
    d = deploy("Llama-3.1-8B", "H100", efficiencies="bound")

    def verify(batch: int) -> float:
        step = decode_step(d, context=128, batch=batch).time
        return float(decode_step(d, context=128, batch=batch, new=5).time / step)

    assert verify(1) == pytest.approx(1.0, abs=0.01)
    assert inference.speculative_speedup(0.7, 4, 0.1, verify(1)) > 1.5
    assert inference.speculative_speedup(0.7, 4, 0.1, verify(512)) < 1


@pytest.mark.independent
def test_speculation_that_never_fails_yields_all_guesses_and_one() -> None:
    for acceptance in (0.0, 0.3, 1.0):
        by_hand = sum(acceptance**n for n in range(5))
        assert inference.speculative_tokens(acceptance, 4) == pytest.approx(by_hand)
        assert inference.speculative_speedup(acceptance, 4, 0.1, 1.5) == pytest.approx(by_hand / (4 * 0.1 + 1.5))
    assert inference.speculative_tokens(1 - 1e-9, 4) == pytest.approx(inference.speculative_tokens(1.0, 4))


@pytest.mark.independent
def test_chunks_read_again_what_came_before() -> None:
    d = deploy(TOY, DEVICE, efficiencies="bound")
    chunks, size = 5, 20
    read = 0.0
    for i in range(chunks):
        c = prefill(d, input_len=(i + 1) * size, cached_len=i * size, batch=2).cost.components
        read += c["projections"].bytes + c["mlp"].bytes + c["head"].bytes + c["attention"].bytes
    new = 2 * 100 * d.token_bytes  # the solver also reads what the chunk itself has just made
    weights = (4 * (ATTENTION + MLP) + HEAD) * 2.0
    assert inference.chunked_prefill_bytes(weights, 2, 100, d.token_bytes, chunks) == pytest.approx(read - new)
    assert inference.chunked_prefill_bytes(weights, 2, 100, d.token_bytes, 1) == weights
    with pytest.raises(InputError, match="chunks"):
        inference.chunked_prefill_bytes(weights, 2, 100, d.token_bytes, 8.75)


@pytest.mark.independent
def test_kv_transfer_by_schedule() -> None:
    """Send layer after layer as each is done, event by event."""
    layers, bandwidth, total = 8, 10.0, 40.0
    for prefill_time in (1.0, 4.0, 20.0):
        free = 0.0
        for layer in range(layers):
            free = max(free, prefill_time * (layer + 1) / layers) + total / layers / bandwidth
        exposed = inference.kv_transfer_time(total, bandwidth, layers, prefill_time)
        assert exposed == pytest.approx(free - prefill_time)
    assert inference.kv_transfer_time(total, bandwidth, latency=0.5) == pytest.approx(4.5)


@pytest.mark.independent
def test_disaggregation_balances() -> None:
    ratio = inference.prefill_replicas(prefill_time=0.2, decode_batch=64, output_len=129, itl=0.025)
    made = ratio / 0.2  # requests per second that the prefill side finishes, per decode machine
    taken = 64 / (128 * 0.025)
    assert made == pytest.approx(taken)


@pytest.mark.independent
def test_the_crossover_is_where_both_times_meet() -> None:
    w, f, bw, peak = 16e9, 16e9, 3.35e12, 989e12
    for cache in (0.0, 1e7):
        b = inference.decode_batch_crossover(w, f, cache, bw, peak)
        below, above = (
            inference.inter_token_latency(inference.decode_bytes(w, x, 1, cache), x * f, bw, peak)
            for x in (0.99 * b, 1.01 * b)
        )
        assert below == pytest.approx((w + 0.99 * b * cache) / bw)
        assert above == pytest.approx(1.01 * b * f / peak)
    assert inference.decode_batch_crossover(w, f, 1e9, bw, peak) == math.inf
    assert 1e5 * f / peak < (w + 1e5 * 1e9) / bw  # and indeed no batch is compute-bound
    assert inference.decode_batch_crossover(8.0, 2.0, 2.0, 1.0, 1.0) == math.inf  # the corner itself: never
    several = inference.decode_batch_crossover(w, f, np.array([0.0, 1e7, 1e9]), bw, peak)
    assert list(np.isfinite(several)) == [True, True, False]


@pytest.mark.independent
@pytest.mark.parametrize("context", [1, 1024, 16384])
def test_the_weights_saturate_whatever_the_context_and_attention_never_does(context: int) -> None:
    """Per component: 2 FLOP on each 2-byte weight, 4 query heads on each cached pair of 2-byte numbers."""
    d = deploy("Llama-3.1-8B", "H100", efficiencies="bound")
    ridge = 989.5e12 / 3.35e12
    for batch, bound in ((math.floor(ridge), "memory"), (math.ceil(ridge), "compute")):
        parts = decode_step(d, context=context, batch=batch).cost.components
        for name in ("projections", "mlp", "head"):
            c = parts[name]
            assert ("compute" if c.compute_time > c.memory_time else "memory") == bound
        assert parts["attention"].memory_time == pytest.approx(ridge / 4 * parts["attention"].compute_time, rel=1e-3)
    one, two = (decode_step(d, context=context, batch=b).cost.components for b in (1000, 2000))
    assert two["mlp"].time == pytest.approx(2 * one["mlp"].time)  # a batch shares no more weights


def test_a_sequence_beyond_the_learned_positions_is_refused() -> None:
    d = deploy("GPT-2-124M", "H100", efficiencies="bound")
    assert prefill(d, input_len=1024).time > 0
    assert inference.generate(d, input_len=1000, output_len=25).e2e > 0  # the last token is not read again
    for run in (
        lambda: prefill(d, input_len=1025),
        lambda: decode_step(d, context=np.array([10.0, 100_000.0])),
        lambda: inference.generate(d, input_len=1000, output_len=26),
        lambda: memory.training_memory("GPT-2-124M", "H100", seq=100_000),
        lambda: training.training_step(
            "GPT-2-124M", Plan(), catalog.cluster("DGX-H100", 1), global_batch=8, seq=2048, efficiencies="bound"
        ),
    ):
        with pytest.raises(InputError, match="beyond the 1,024 positions that GPT-2-124M has learned"):
            run()
    assert (
        prefill(deploy("Llama-3.1-8B", "H100", efficiencies="bound"), input_len=1_000_000).time > 0
    )  # positions that are computed


def test_serve_says_first_whether_it_fits_and_which_rates_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    for model, more, first, rates in (
        (
            "Llama-3.1-70B",
            ["--tp", "1", "--efficiencies", "bound"],
            "DOES NOT FIT: Llama-3.1-70B on H100-SXM5-80GB: 141.1 GB of weights",
            "Efficiencies: bound",
        ),
        ("Llama-3.1-8B", [], "Llama-3.1-8B on 1 x H100-SXM5-80GB: first token after", "Efficiencies: calibrated"),
        ("Llama-3.1-8B", ["--efficiencies", "bound"], "Llama-3.1-8B on 1 x H100", "Efficiencies: bound"),
    ):
        arguments = ["serve", "--model", model, "--device", "H100", "--input-len", "1024", "--output-len", "129", *more]
        status = 0 if first.startswith("Llama") else 3
        assert cli.main([*arguments, "--explain"]) == status
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(first)
        assert ([line for line in lines if "would fit: 2 x H100-SXM5-80GB" in line] != []) == (status == 3)
        assert any(line.lstrip().startswith(rates) for line in lines) == (
            status == 0
        )  # a model that does not fit has no times
        assert cli.main([*arguments, "--json"]) == status
        found = json.loads(capsys.readouterr().out)
        assert found["rates"].startswith(rates) and found["fits"] is (status == 0)


def test_what_cannot_be_is_refused_and_not_clamped() -> None:
    with pytest.raises(InputError, match="top_k = 9, but it needs top_k <= experts"):
        inference.experts_hit(8, 9, 1)


@pytest.mark.independent
def test_time_to_first_token_by_hand() -> None:
    assert inference.time_to_first_token(8e12, 100e12, devices=4, efficiency=0.5, overhead=0.01) == pytest.approx(0.05)
    assert inference.request_latency(0.5, 11, 0.02) == pytest.approx(0.7)
    assert inference.inter_token_latency(4e12, 1e12, 1e12, 1e12, devices=2, overhead=0.5) == pytest.approx(2.5)
    # 3 new tokens after 7 cached ones: 3 x 5 weights, one row of 11 logits, 8 + 9 + 10 keys of width 2; twice, for 4 sequences.
    assert inference.prefill_flops(4, 10, 5, 11, 2, cached_len=7) == 2 * 4 * (3 * 5 + 11 + 2 * 27)


# Bounds


def dense_pairs() -> list[tuple[str, str]]:
    found = []
    for d in catalog.devices().values():
        if d.kind not in ("gpu", "tpu", "superchip") or not d.has("peak_flops.bf16") or not d.has("memory_capacity"):
            continue
        for m in catalog.models().values():
            if (
                not m.is_moe
                and not m.n_recurrent_layers  # whose state is neither weights nor cache
                and transformer.parameter_count(m).total >= 1e9
                and deploy(m, d, efficiencies="bound").fits(1, 2048)
            ):
                found.append((m.name, d.name))
    return found


@pytest.mark.independent
@pytest.mark.slow
def test_decode_is_memory_bound_and_prefill_compute_bound() -> None:
    """Batch 1; 2,048 tokens or all learned positions; BF16; every dense model of a billion parameters or more that fits on a catalogue device.

    Weights and cache are all the traffic. With the traffic of activations counted as well, a few small models on
    devices with little bandwidth for their peak are exceptions, and more of them with 4-bit products.
    """
    pairs = dense_pairs()
    assert len(pairs) > 500
    counted = Efficiencies(elementwise=32.0)
    exceptions = set()
    for m, d in pairs:
        tokens = min(2048, catalog.model(m).learned_positions or 2048)
        step, first = (
            decode_step(deploy(m, d, efficiencies="bound"), context=tokens),
            prefill(deploy(m, d, efficiencies="bound"), input_len=tokens),
        )
        assert step.compute_time < 0.1 * step.memory_time, (m, d)
        assert first.compute_time > tokens / 1024 * first.memory_time, (m, d)
        full = prefill(deploy(m, d, efficiencies=counted), input_len=tokens)
        if full.compute_time < full.memory_time:
            exceptions.add((m, d))
    assert {d for m, d in exceptions if m != "GPT-2-1.5B"} <= {"TPU-v6e"}  # no GPU with 2,048 tokens
    assert ("GPT-2-1.5B", "TPU-v6e") in exceptions
    small = prefill(deploy("GPT-2-124M", "TPU-v6e", efficiencies=counted), input_len=1024)
    narrow = prefill(deploy("Llama-3.1-8B", "B300-SXM-288GB", precision="fp4", efficiencies=counted), input_len=2048)
    assert small.compute_time < small.memory_time and narrow.compute_time < narrow.memory_time


SIZES = st.tuples(st.integers(1, 300), st.integers(1, 4000), st.sampled_from((1, 2, 4, 8)))


@pytest.mark.independent
@given(SIZES, st.sampled_from(("Llama-3.1-8B", "Mixtral-8x7B", "DeepSeek-V3", "Gemma-2-9b")))
def test_no_pass_beats_its_bounds(sizes: tuple[int, int, int], name: str) -> None:
    batch, tokens, tp = sizes
    d = deploy(name, "H200", tp=tp, efficiencies="bound")
    for run in (prefill(d, input_len=tokens, batch=batch), decode_step(d, context=tokens, batch=batch)):
        assert 0 < run.mfu <= 1 + 1e-12
        assert 0 < run.mbu <= 1 + 1e-12
        assert run.time >= run.cost.device_bytes / d.device.memory_bandwidth * (1 - 1e-12)
        assert run.time == pytest.approx(sum(getattr(run.terms, t) for t in TERMS), rel=1e-12)
        faster = replace(d, machine=replace(d.machine, memory_bandwidth=2 * d.machine.memory_bandwidth))
        again = (
            prefill(faster, input_len=tokens, batch=batch)
            if run.phase == "prefill"
            else decode_step(faster, context=tokens, batch=batch)
        )
        assert again.time <= run.time * (1 + 1e-12)
    step = decode_step(d, context=tokens, batch=batch)
    one = inference.inter_token_latency(
        step.cost.device_bytes, step.cost.device_flops, d.device.memory_bandwidth, d.device.peak_flops["bf16"]
    )
    assert step.time >= one * (1 - 1e-12)  # the sum of maxima is never below the maximum of sums


@pytest.mark.independent
def test_one_device_sends_nothing() -> None:
    lossy = Efficiencies(link=0.5, link_latency=1.0)
    for run in (
        prefill(deploy("Mixtral-8x7B", "H200", efficiencies=lossy), input_len=100),
        decode_step(deploy("Mixtral-8x7B", "H200", efficiencies=lossy), context=100),
    ):
        assert run.terms.tensor_parallel == run.terms.expert_parallel == run.terms.pipeline == 0


@pytest.mark.independent
@pytest.mark.parametrize("name", ["Llama-3.1-70B", "Mixtral-8x7B", "Gemma-2-9b"])
def test_arrays_equal_scalars(name: str) -> None:
    lossy = Efficiencies("x", "y", 0.7, 0.4, 0.9, 0.8, 0.8, 3e-6, 32.0, 0.25, 6e-5, 3e-4, 1e-2)
    d = deploy(name, "H100", tp=4, pp=2, efficiencies=lossy, inter_bandwidth=50e9, domain=4)
    batch, lengths = np.array([1, 2, 7, 64, 300]), np.array([1, 16, 1000, 5000, 20_000])
    first, step = prefill(d, input_len=lengths, batch=batch), decode_step(d, context=lengths, batch=batch)
    whole = generate(d, input_len=lengths, output_len=batch, batch=batch)
    for i, (b, n) in enumerate(zip(batch.tolist(), lengths.tolist(), strict=True)):
        assert first.time[i] == pytest.approx(prefill(d, input_len=n, batch=b).time, rel=1e-12)
        assert step.time[i] == pytest.approx(decode_step(d, context=n, batch=b).time, rel=1e-12)
        one = generate(d, input_len=n, output_len=b, batch=b)
        assert whole.e2e[i] == pytest.approx(one.e2e, rel=1e-12)
        assert bool(whole.fits[i]) == one.fits
        assert step.memory[i] == pytest.approx(decode_step(d, context=n, batch=b).memory, rel=1e-12)
    assert step.explain().rows() and step.binding in TERMS
    assert d.max_batch(lengths).shape == lengths.shape


WORK = Work(32, 4096, 4e7, 1e8, 5e8, 32, 256, 256, 2048, 8, 500, 0.5, expert_params=2e7, n_experts=8, top_k=2, moe=0.5)
SPLIT = Split(tp=2, pp=2, dp=2, ep=2)
MACHINE = Machine(1e15, 5e14, 3e12, 4e11, 5e10, 2, 2, 5e10)
REAL = Efficiencies("x", "y", 0.7, 0.4, 0.9, 0.85, 0.8, 3e-6, 32.0, 0.25, 6e-5, 0.0, 1e-2)
# Where an efficiency matters that most cases do not meet: what it is there, and what would be better.
_THERE: dict[str, tuple[dict[str, Any], float]] = {
    "latent": ({"work": {"absorbed_macs": 4e4, "latent": 1.0}, "eff": {"latent": 0.5}}, 1.0),
    "latent_cache": ({"work": {"absorbed_macs": 300, "latent": 1.0}, "eff": {"latent_cache": 0.5}}, 1.0),
    "grouped": ({"eff": {"grouped": 0.5}}, 1.0),
    "grouped_memory": ({"eff": {"grouped_memory": 0.5}}, 1.0),
    "tile": ({"eff": {"tile": 128.0}}, 0.0),
    "kernel_start": ({"eff": {"kernel_start": 4e-6}}, 0.0),
    "grouped_start": ({"work": {"grouped": 1.0}, "eff": {"grouped_start": 1e-5}}, 0.0),
    "attention_start": ({"eff": {"attention_start": 2e-5}}, 0.0),
    "exponential": ({"eff": {"exponential": 5e3}}, 0.0),
    "prompt_launch_time": ({"eff": {"prompt_launch_time": 1.0}}, 0.0),
    "sequence_overhead": ({"eff": {"sequence_overhead": 1e-4}}, 0.0),
    "copies": ({"eff": {"copies": 1.0}}, 0.0),
    "score_bytes": ({"eff": {"score_bytes": 1e9}}, 0.0),
    "unpack_time": ({"split": {"weight_bytes": 0.5}, "eff": {"unpack_time": 1e-13}}, 0.0),
    "ungrouped": ({"eff": {"ungrouped": 0.5}}, 0.0),
    "short_link": ({"eff": {"short_link": 0.1, "switch_time": 1.0}}, 0.8),
    "switch_time": ({"eff": {"short_link": 0.1, "switch_time": 1e-6}}, 0.0),
    "overlap": ({}, 1.0),
    "network_start": ({"split": {"dp": 8, "ep": 8}, "eff": {"network_start": 1e-4}}, 0.0),  # experts on four domains
    "hop_share": ({"eff": {"hop_share": 1.0}}, 0.1),
    "routing_cv2": ({"split": {"dp": 1, "ep": 1}}, 1.0),  # on one device there is no busiest, and fewer experts are met
    "spread": ({"split": {"tp": 8}, "work": {"kv_shards": 1}}, 1.0),
}


def time_of(**changes: Any) -> float:
    given: dict[str, Any] = {"work": WORK, "split": SPLIT, "machine": MACHINE, "eff": REAL}
    given |= {"batch": 32.0, "new": 1.0, "cached_len": 900.0, "decode": 1.0}
    given |= {n: replace(given[n], **v) if isinstance(v, dict) else v for n, v in changes.items()}
    return float(pass_cost(**given).time)


@pytest.mark.independent
@pytest.mark.parametrize(
    "field", [f.name for f in fields(Efficiencies) if f.name not in ("name", "source", "launch_time", "prompt_pace")]
)
def test_every_efficiency_matters_and_in_the_right_direction(field: str) -> None:
    prompt = {"new": 900.0, "cached_len": 100.0, "decode": 0.0}
    better = {"layer_overhead": 0.0, "launch_time": 0.0, "step_overhead": 0.0, "link_latency": 0.0}
    better |= {"elementwise": 0.0, "replicated": 0.0}
    there, value = _THERE.get(field, ({}, better.get(field, 1.0)))
    other = {**there, "eff": {**there.get("eff", {}), field: value}}
    changed = [(time_of(**other, **kind), time_of(**there, **kind)) for kind in ({}, prompt)]
    assert any(new < old for new, old in changed), f"{field} changes nothing"
    assert all(new <= old for new, old in changed)


@pytest.mark.independent
def test_attention_of_prompts_waits_for_exponentials() -> None:
    """A pair of heads of 128 costs 512 FLOP; of a B200's matrix units an exponential takes the time of 512 more, of a GB300's 256."""
    clocks = {}
    for device, clock in (("B200", 512.0), ("GB300", 256.0)):
        made = deploy("Llama-3.1-8B", device, efficiencies="calibrated")
        share = made.efficiencies.attention
        pairs = 32 * 32 * 32768**2 / 2  # layers x heads, half of the square
        time = prefill(made, input_len=32768).terms.attention
        clocks[device] = time / pairs * catalog.device(device).peak_flops["bf16"]
        assert clocks[device] == pytest.approx(((512 / share) ** 3 + clock**3) ** (1 / 3), rel=1e-3)
    assert clocks["B200"] > 1.1 * clocks["GB300"]


@pytest.mark.independent
@pytest.mark.parametrize("field", ["attention_params", "dense_params", "head_params", "kv_elements", "expert_params"])
def test_every_part_of_the_work_takes_time(field: str) -> None:
    assert time_of(work={field: 0.0}) < time_of()


@pytest.mark.independent
def test_a_product_is_no_narrower_than_its_weights() -> None:
    """Beside experts in 4 bits, weights of 8 bits multiply at the 8-bit peak and those of 16 at the 16-bit peak."""
    how: dict[str, Any] = {"tp": 8, "efficiencies": "bound"}
    eight, sixteen = (
        deploy("DeepSeek-V3", "B200", precision="fp4", weights=w, experts="nvfp4", **how) for w in ("fp8", "bf16")
    )
    for made, alone in ((eight, "fp8"), (sixteen, "bf16")):
        mixed = prefill(made, input_len=8192)
        plain = prefill(deploy("DeepSeek-V3", "B200", precision=alone, **how), input_len=8192)
        assert mixed.terms.projections == pytest.approx(plain.terms.projections, rel=1e-6)
        assert mixed.terms.experts < plain.terms.experts


# Input


@pytest.mark.independent
@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: deploy("Llama-3.1-8B", "H100", tp=3, efficiencies="bound"), "tp = 3"),
        (lambda: deploy("Llama-3.1-8B", "H100", tp=0, efficiencies="bound"), "tp = 0"),
        (lambda: deploy("Llama-3.1-8B", "H100", ep=2, dp=2, efficiencies="bound"), "ep = 2"),
        (lambda: deploy("Mixtral-8x7B", "H100", ep=2, efficiencies="bound"), "ep = 2 must divide tp x dp"),
        (lambda: deploy("Llama-3.1-8B", "H100", tp=8, intra_bandwidth=0.0, efficiencies="bound"), "intra_bandwidth"),
        (lambda: prefill(deploy(TOY, DEVICE, efficiencies="bound"), input_len=0), "input_len = 0"),
        (lambda: prefill(deploy(TOY, DEVICE, efficiencies="bound"), input_len=5, cached_len=5), "below input_len = 5"),
        (lambda: decode_step(deploy(TOY, DEVICE, efficiencies="bound"), context=5, new=6), "must hold the new"),
        (lambda: decode_step(deploy(TOY, DEVICE, dp=2, efficiencies="bound"), context=5), "dp = 2"),
        (lambda: generate(deploy(TOY, DEVICE, efficiencies="bound"), input_len=5, output_len=0), "output_len = 0"),
        (lambda: prefill("H100", input_len=5), "inference.deploy"),  # type: ignore[arg-type]
        (lambda: inference.speculative_tokens(1.1, 3), "acceptance"),
    ],
)
def test_bad_input_names_argument_and_fix(run: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run()


@pytest.mark.independent
def test_unknown_formats_and_missing_peaks() -> None:
    with pytest.raises(UnknownNameError, match="int5"):
        deploy(TOY, DEVICE, weights="int5", efficiencies="bound")
    with pytest.raises(UnknownNameError, match="fp4"):
        deploy(TOY, DEVICE, precision="fp4", efficiencies="bound")


@pytest.mark.independent
def test_explanations_hold_what_they_say() -> None:
    names = {"min": min, "max": max}
    d = deploy("Mixtral-8x7B", "H100", tp=2, dp=2, ep=4, efficiencies=REAL)
    for x in (
        prefill(d, input_len=2048, batch=4).explain(),
        decode_step(d, context=2048, batch=4).explain(),
        generate(d, input_len=2048, output_len=10, batch=4).explain(),
    ):
        for term in x.terms:
            assert eval(term.formula, {"__builtins__": {}}, {**names, **term.arguments}) == pytest.approx(term.value)
    step = decode_step(d, context=2048, batch=4)
    assert sum(t.value for t in step.explain().terms) == pytest.approx(step.time)
    assert sum(t.binding for t in step.explain().terms) == 1
    assert "nvidia2023h100" in str(step.explain())


# The class of cases


@pytest.mark.nightly  # 18 fits; by day tests/evidence/test_reality.py leaves out each group of the shipped rows
@pytest.mark.slow
def test_leave_one_source_out_meets_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of the first two sets: 655 of 18 sources."""
    file = shipped_rows.cases("inference", set=("first", "second"))
    ours = scoring.score(file, "calibrated", leave_one_group_out=True)
    plain = scoring.score(file, "datasheet").summary
    rows = sum(abs(r.error or 1.0) for r in ours.rows) / len(ours.rows)
    with capsys.disabled():
        print(
            f"\ninference, leave one source out: {ours.summary.mape_mean_over_groups:.1%} over sources, {rows:.1%} over rows; "
            f"datasheet {plain.mape_mean_over_groups:.1%} (bias {plain.bias_mean_over_groups:+.1%}); the first edition 25.4%"
        )
    assert ours.summary.supported == ours.summary.n
    assert ours.summary.mape_mean_over_groups <= 0.20
    assert rows <= 0.22
    assert (plain.bias_mean_over_groups or 0.0) < -0.2  # the datasheet is too fast nearly everywhere


@pytest.mark.independent
def test_the_constants_are_few_and_physical() -> None:
    constants = {(c, n): v for c, names in shipped_constants("inference").items() for n, v in names.items()}
    assert 0 < len(constants) <= 12
    assert constants["shared memory", "memory"] < 1
    software = shipped_constants("inference")["software"]
    assert 1e-6 < software["link_latency"] < software["library_latency"] < 1e-4
    assert 0 < software["short_link"] < 0.8 and 0 < software["ungrouped"] < 1
    assert 5e-5 < software["launch_time"] < 5e-4  # a dozen kernels at 5 to 40 us each
    for device in ("A100-80GB", "H100", "H20"):
        eff = inference.efficiencies_of(device)
        assert 0.3 < eff.gemm < 1 and 0.2 < eff.attention < 1 and 0.4 < eff.memory < 1


ROW: dict[str, Any] = {
    "layers": 32.0,
    "hidden": 4096.0,
    "ffn": 14336.0,
    "heads": 32.0,
    "kv_heads": 8.0,
    "head_dim": 128.0,
    "vocab": 128256.0,
    "gated_mlp": True,
    "tied_embeddings": False,
    "device": "H100-SXM5-80GB",
    "peak_flops": 989.5e12,
    "hbm_bandwidth": 3.35e12,
    "tp": 1.0,
    "pp": 1.0,
    "dp": 1.0,
    "phase": "decode_step",
    "batch": 8.0,
    "context_len": 2048.0,
    "weight_bits": 16.0,
    "compute_precision": "bf16",
    "kv_precision": "bf16",
    "framework": "TensorRT-LLM",
}


@pytest.mark.independent
def test_a_row_gives_what_the_solver_gives() -> None:
    constants = shipped_constants("inference")
    ours = scoring.predict("inference", ROW, constants).predicted
    d = deploy("Llama-3.1-8B", "H100", efficiencies=inference.efficiencies_of("H100", framework="TensorRT-LLM"))
    assert ours == pytest.approx(decode_step(d, context=2048, batch=8).time, rel=1e-3)
    answer = ROW | {"phase": "end_to_end", "input_len": 100.0, "output_len": 20.0}
    whole = generate(d, input_len=100, output_len=20, batch=8).e2e
    assert scoring.predict("inference", answer, constants).predicted == pytest.approx(whole, rel=1e-3)


@pytest.mark.independent
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"phase": "warm-up"}, "phase"),
        ({"layers": None}, "layers"),
        ({"hidden": "many"}, "not a number"),
        ({"tp": 0.0}, "tp = 0"),
        ({"dp": 16.0}, "data-parallel"),
        ({"hbm_bandwidth": None, "device": "abacus"}, "hbm_bandwidth"),
        ({"hbm_bandwidth": 0.0}, "zero"),
        ({"kv_precision": "roman"}, "roman"),
        ({"phase": "prefill"}, "input_len"),
        ({"weight_bits": 0.0}, "weight_bytes"),
        ({"layers": 0.0}, "layers = 0"),
    ],
)
def test_odd_rows_get_a_reason(change: dict[str, Any], reason: str) -> None:
    found = scoring.predict("inference", ROW | change, shipped_constants("inference"))
    assert found.predicted is None and reason in found.reason


@pytest.mark.independent
def test_rows_of_every_kind_are_supported() -> None:
    constants = shipped_constants("inference")
    mix = {"n_experts": 8.0, "top_k": 2.0, "moe_ffn": 14336.0, "ffn": None, "weight_precision": "mxfp4"}
    latent = {"kv_lora_rank": 512.0, "qk_rope_head_dim": 64.0, "q_lora_rank": 1536.0}
    for change in (
        mix,
        latent,
        {"weight_bytes": 7e9, "device": "Snapdragon-8-Gen-3-CPU", "peak_flops": None, "hbm_bandwidth": 77e9},
        {"framework": None, "context_len": None, "device": "unheard of"},
        {"framework": "vLLM-2023", "tp": 4.0, "intra_node_bandwidth": 450e9},
        {"tp": 16.0, "intra_node_bandwidth": 450e9, "inter_node_bandwidth": 50e9, "devices_per_node": 8.0},
    ):
        found = scoring.predict("inference", ROW | change, constants)
        assert found.predicted is not None and 0 < found.predicted < 1 and math.isfinite(found.predicted), found.reason
    eager = scoring.predict("inference", ROW | {"framework": "vLLM-2023"}, constants).predicted
    graph = scoring.predict("inference", ROW, constants).predicted
    assert eager is not None and graph is not None and eager > graph + 5e-3


# The command


@pytest.mark.independent
def test_the_command_prints_its_documented_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--model", "Llama-3.1-70B", "--device", "H100", "--tp", "8", "--batch", "4"]
    lengths = ["--input-len", "1000", "--output-len", "100"]
    assert cli.main(["serve", *arguments, *lengths, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    g = generate(deploy("Llama-3.1-70B", "H100", tp=8), input_len=1000, output_len=100, batch=4)
    assert found["efficiencies"] == "calibrated" and found["interval_s"] == pytest.approx(list(g.interval().ends))
    assert found["ttft_s"] == pytest.approx(g.ttft) and found["itl_s"] == pytest.approx(g.itl)
    assert found["e2e_s"] == pytest.approx(g.e2e) and found["fits"] is True
    assert sum(found["decode"]["terms_s"].values()) == pytest.approx(found["itl_s"])
    assert cli.main(["serve", *arguments, *lengths, "--efficiencies", "bound", "--explain"]) == 0
    text = capsys.readouterr().out
    assert "end to end" in text and "fits" in text
    assert (
        cli.main(["serve", "--model", "Llama-3.1-70B", "--device", "H100", "--input-len", "10", "--output-len", "0"])
        == 2
    )
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    help_text = capsys.readouterr().out
    for key in found:
        assert key in help_text, f"{key} is not documented"


assert BOUND.gemm == 1.0
