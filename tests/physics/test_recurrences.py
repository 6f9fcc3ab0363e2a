"""Hybrids, sparse attention and states: their work, cache and blocks against limits, hand values and logs of servers."""

import re
from dataclasses import replace
from typing import Any

import pytest

from mlsysim import catalog, evidence, flops, inference, memory, serving_steps
from mlsysim.catalog.operations import Indexer, Layer, Operation, Scan
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.inference import BOUND, Work, deploy, pass_cost, work_of
from mlsysim.memory.serving import cache_groups, layer_cache_bytes, state_block, state_page
from mlsysim.serving_steps import Batch, step_model
from mlsysim.serving_steps.products import layer_products
from mlsysim.transformer import matrix_count, parameter_count

NEXT, PLAIN = catalog.model("Qwen3-Next-80B-A3B"), catalog.model("Llama-3.1-8B")
SCAN = {"kind": "gated-delta", "heads": 32, "head_dim": 8, "key_heads": 16, "state": 8, "conv": 4}
ATTENTION = {"heads": 4, "kv_heads": 2, "head_dim": 16}


def with_scan(**sizes: Any) -> catalog.Model:
    """Qwen3-Next with other sizes of its recurrence."""

    def other(o: Operation) -> Operation:
        return replace(o, **sizes) if isinstance(o, Scan) else o

    return replace(NEXT, layers=tuple(Layer(x.count, tuple(map(other, x.operations))) for x in NEXT.layers))


SPARSE, DENSE = catalog.model("DeepSeek-V3.2"), catalog.model("DeepSeek-V3")


@pytest.mark.published
@pytest.mark.parametrize(
    ("name", "token_bytes", "block", "padding"),
    [
        ("Qwen3-Next-80B-A3B", 2048, 544, 0.0149),  # vllm pull request 32492; a log of release 0.11
        ("Qwen3.5-27B", 4096, 784, 0.0013),  # logs of releases of 2026: "Setting attention block size to 784 tokens"
    ],
)
def test_a_block_of_attention_is_as_large_as_a_state(name: str, token_bytes: int, block: int, padding: float) -> None:
    m = catalog.model(name)
    assert layer_cache_bytes(m, 1, 2.0) == token_bytes
    assert state_block(m, 1, token_bytes, 2.0) == block
    assert block * token_bytes / state_page(m, 1, 2.0) - 1 == pytest.approx(padding, abs=5e-5)


@pytest.mark.independent
def test_states_by_hand() -> None:
    # 36 layers: 32 states of 128 by 128 and three inputs of 16 x 128 keys, as many queries, 32 x 128 values, all 16-bit
    by_hand = 36 * 2 * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128))
    assert memory.state_of(NEXT) == by_hand and memory.state_of(NEXT, batch=7) == 7 * by_hand
    assert memory.state_of(with_scan(state_bits=32)) - by_hand == 36 * 2 * 32 * 128 * 128
    assert memory.state_of(PLAIN) == 0.0
    assert memory.kv_cache_of(NEXT, 1, 1) == 12 * 2 * 2 * 256 * 2  # twelve layers with attention only
    assert memory.kv_cache_of(SPARSE, 1, 1) - memory.kv_cache_of(DENSE, 1, 1) == 61 * 128 * 2  # one key of an indexer


@pytest.mark.independent
def test_a_state_costs_the_same_however_long_the_text() -> None:
    mamba = catalog.model("Mamba-2-2.7B")
    short, long = (flops.training_flops_per_token(mamba, seq, True) for seq in (1_000, 1_000_000))
    assert short.forward_core == long.forward_core == 64 * 80 * 64 * 128 * 2 * 2  # written once, read once
    assert memory.kv_cache_of(mamba, 1, 10**6) == 0.0
    delta = flops.training_flops_per_token(NEXT, 1, True)
    attention = 12 * 1 * 16 * (256 + 256) * 2
    assert delta.forward_core - attention == 36 * 32 * 128 * 128 * 3 * 2  # read, written and read again
    assert work_of(NEXT).state_macs * 48 == 36 * 32 * 128 * 128 * 3


@pytest.mark.independent
def test_an_indexer_pays_beyond_the_keys_that_it_picks() -> None:
    def core(m: catalog.Model, seq: int) -> float:
        return float(flops.training_flops_per_token(m, seq, True).forward_core)

    index = 61 * 64 * 128 * 2  # per key, all of them
    assert core(SPARSE, 2048) == pytest.approx(core(DENSE, 2048) + index * 2049 / 2)
    assert core(SPARSE, 131_072) < core(DENSE, 131_072) / 3
    dense, mixed = SPARSE.layers
    bare = tuple(o for o in mixed.operations if getattr(o, "part", "") != "indexer" and not isinstance(o, Indexer))
    # 40 layers that take the keys of another's indexer
    shared = replace(SPARSE, layers=(dense, replace(mixed, count=18), Layer(40, bare)))
    assert core(SPARSE, 4096) - core(shared, 4096) == pytest.approx(40 / 61 * index * 4097 / 2)
    far = work_of(SPARSE).far
    assert far[0] == pytest.approx(64 * 128 / (128 * (192 + 128)))
    assert far[1] == pytest.approx(128 * (1 + 4 / 128) / (2 * 576))


@pytest.mark.published
@pytest.mark.parametrize(
    ("name", "expanded", "heads"), [("DeepSeek-V3.2", 128 + 64 + 128, 128), ("GLM-5", 192 + 64 + 256, 64)]
)
def test_a_long_prompt_of_sparse_attention_works_on_latents(name: str, expanded: int, heads: int) -> None:
    """deepseek-ai/FlashMLA, README, table of kernels: sparse prefill is MQA, keys of 576 and values of 512; a mask below."""
    m, tokens = catalog.model(name), 131_072
    layers, index = m.n_layers, m.indexers[0][1].heads * m.indexers[0][1].size
    every = tokens * (tokens + 1) / 2
    picked = 2048 * tokens - 2048 * 2047 / 2
    by_hand = 2 * layers * (index * every + heads * (576 + 512) * picked)
    assert flops.training_flops_per_token(m, tokens, True).forward_core * tokens == pytest.approx(by_hand)
    d = deploy(m, "H200", tp=8)
    cost = pass_cost(d.work, d.split, d.machine, BOUND, 1.0, float(tokens), 0.0, 0.0)
    assert 8 * cost.components["attention"].flops == pytest.approx(by_hand)
    whole = step_model(d, efficiencies="bound")
    alone = inference.prefill(deploy(m, "H200", tp=8, efficiencies="bound"), input_len=tokens)
    assert whole.time(Batch.of(m, prefills=[(tokens, 0)])) == pytest.approx(float(alone.time))
    # where the index drops nothing, or little, all expanded keys behind a mask are less work
    for short in (1024, 4096):
        masked = 2 * layers * (index + heads * expanded) * short * (short + 1) / 2
        assert flops.training_flops_per_token(m, short, True).forward_core * short == pytest.approx(masked)
        cost = pass_cost(d.work, d.split, d.machine, BOUND, 1.0, float(short), 0.0, 0.0)
        assert 8 * cost.components["attention"].flops == pytest.approx(masked)


@pytest.mark.independent
def test_steps_of_sparse_attention_overtake_those_of_full_attention() -> None:
    sparse, dense = (step_model(deploy(m, "B200", tp=8, weights="fp8")) for m in (SPARSE, DENSE))

    def decode(model: serving_steps.StepModel, m: catalog.Model, context: int) -> float:
        return float(model.time(Batch.of(m, decodes=[context] * 64)))

    assert decode(sparse, SPARSE, 1000) > decode(dense, DENSE, 1000)
    assert decode(sparse, SPARSE, 100_000) < decode(dense, DENSE, 100_000)


@pytest.mark.independent
@pytest.mark.parametrize(
    "name",
    ["DeepSeek-V3.2", "DeepSeek-V4-Flash", "Qwen3.5-27B", "Gemma-3-27b", "Mamba-2-2.7B", "Nemotron-3-Nano-30B-A3B"],
)
def test_the_short_cut_of_a_step_is_the_sum_of_its_terms(name: str) -> None:
    model = step_model(deploy(name, "H200", tp=8))
    batch = Batch.of(catalog.model(name), prefills=[(3000, 1000)], decodes=[500, 9000])
    assert model.time(batch) == pytest.approx(model.terms(batch).time, rel=1e-12)
    alone = Batch.of(catalog.model(name), decodes=[500, 9000])
    assert model.decoding(2.0)(alone.context, alone.windowed_context) == pytest.approx(
        model.terms(alone).time, rel=1e-12
    )


@pytest.mark.independent
@pytest.mark.parametrize("name", catalog.models())
def test_the_products_of_a_pass_are_the_matrices_of_the_model(name: str) -> None:
    m, count = catalog.model(name), matrix_count(name)
    head = m.vocab * m.head.k
    inside = sum(p.k * p.n * p.layers for p in layer_products(m)) - head
    convolutions = sum(n * conv.width * conv.channels for n, _, conv in m.recurrences)
    matrices = (
        count.attention + count.recurrence + count.indexer + count.dense_mlp + count.shared_experts + count.router
    )
    matrices += sum(n * o.k * o.n for n, o in m.products("other"))
    beside = sum(n * o.k for n, o in m.products("shared_experts", "gate"))
    assert inside == pytest.approx(matrices - convolutions - beside, rel=1e-9)


@pytest.mark.independent
def test_a_decode_step_reads_and_writes_every_state() -> None:
    def bytes_of(batch: float) -> float:
        d = deploy("Mamba-2-2.7B", "H100")
        cost = pass_cost(d.work, d.split, d.machine, BOUND, batch, 1.0, 999.0, 1.0)
        return float(cost.components["elementwise"].bytes)

    assert bytes_of(64.0) == pytest.approx(2 * 64 * memory.state_of("Mamba-2-2.7B"))  # nothing else: the bound's own


@pytest.mark.independent
def test_groups_of_unlike_layers() -> None:
    assert cache_groups(PLAIN, 32) == (32, 1)
    assert cache_groups(NEXT, 48) == (12, 4)
    assert cache_groups(catalog.model("Mamba-2-2.7B"), 64) == (64, 1)
    assert cache_groups(catalog.model("Nemotron-3-Nano-30B-A3B"), 52) == (6, 5)  # 6 and 23


@pytest.mark.independent
def test_a_server_of_a_hybrid_holds_blocks_for_its_states() -> None:
    held = memory.server_memory(NEXT, "H200", tp=4)
    block, page = 272, 2 * 1 * 256 * 2  # one key-value head of the two on each of four devices: half the log's block
    assert held.given["block_tokens"] == block
    assert held.kv_tokens == held.kv_pool // (block * page * 12) // 4 * block
    with pytest.raises(InputError, match="max_model_len is missing"):
        memory.server_memory("Mamba-2-2.7B", "H100")
    sequences = memory.server_memory("Mamba-2-2.7B", "H100", max_model_len=4096)
    assert sequences.kv_tokens == sequences.kv_pool // memory.state_of("Mamba-2-2.7B") * 4096


@pytest.mark.independent
@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"recurrence": {"kind": "gated-delta"}}, "recurrence: no heads; add it"),
        ({"recurrence": SCAN | {"state": 0}}, "recurrence: state = 0 must lie in"),
        ({"recurrence": SCAN | {"key_heads": 5}}, "recurrence: key_heads = 5 must divide heads = 32"),
        ({"recurrence": SCAN | {"kind": "of tomorrow"}}, "kind = 'of tomorrow' must be one of 'gated-delta'"),
        ({"recurrence": SCAN | {"state_bits": 8}}, "state_bits = '8' must be one of '0', '16', '32'"),
        ({"recurrence": SCAN, "layers": [{"count": 0, "recurrence": {}}]}, "count = 0 must be at least 1"),
        ({"recurrence": SCAN, "layers": [{"scan": {}}]}, "layers: unknown block 'scan'"),
        ({"recurrence": SCAN, "layers": "two"}, "layers = 'two' must be a number, or a list"),
        ({"attention": ATTENTION | {"gate": "half"}}, "attention: gate = 'half' must be one of '', 'full', 'head'"),
        ({"attention": ATTENTION | {"window": "near"}}, "attention.window = 'near' must be of type int"),
        ({"attention": ATTENTION | {"indexer": {"heads": 4}}}, "indexer: no size; add it"),
        ({"attention": 4}, "attention = '4' must be a table of sizes"),
        ({"modules": {"head": {}}}, "unknown block 'head'"),
        ({"norm": "batch"}, "norm = 'batch' must be one of rmsnorm, layernorm"),
    ],
)
def test_a_table_of_blocks_that_cannot_be_names_its_field(table: dict[str, Any], says: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=re.escape(says)):
        catalog.add({"models": {"X": {"hidden": 64, "vocab": 100, "layers": 2} | table}})


@pytest.mark.independent
def test_no_recurrence_has_no_parameters() -> None:
    assert parameter_count(PLAIN).recurrence == parameter_count(PLAIN).indexer == 0
    assert parameter_count(NEXT).recurrence - matrix_count(NEXT).recurrence == 36 * (
        2 * 32 + 128
    )  # decay and rate of a head, a norm


UNLIKE = (
    "DeepSeek-V3.2",
    "gpt-oss-120B",
    "Gemma-3-27b",
    "Nemotron-3-Nano-30B-A3B",
    "Qwen3-Next-80B-A3B",
    "Llama-4-Maverick",
)


@pytest.mark.independent
@pytest.mark.parametrize("name", UNLIKE)
@pytest.mark.parametrize("word", ["bound", "calibrated"])
def test_unlike_layers_take_what_each_kind_takes_alone(name: str, word: str) -> None:
    """A pass is linear in the layers of each kind: nothing is priced as an average of unlike ones."""
    m = catalog.model(name)
    assert len(m.layers) > 1

    def with_layers(factor: int, kinds: tuple[Layer, ...]) -> catalog.Model:
        return replace(m, layers=tuple(replace(x, count=factor * x.count) for x in kinds))

    def prompt(of: catalog.Model) -> float:
        return float(inference.prefill(deploy(of, "B200", tp=8, efficiencies=word), input_len=4096).time)

    def step(of: catalog.Model) -> float:
        return float(inference.decode_step(deploy(of, "B200", tp=8, efficiencies=word), context=4096, batch=32).time)

    for time in (prompt, step):
        ends = 2 * time(m) - time(with_layers(2, m.layers))
        alone = sum(time(with_layers(2, (kind,))) - time(with_layers(1, (kind,))) for kind in m.layers)
        assert ends + alone == pytest.approx(time(m), rel=1e-12)


# What the cost of a context is made of


@pytest.mark.independent
def test_bytes_of_a_context_by_hand() -> None:
    assert inference.context_reading(100, 10.0, 100) == 1000.0  # all of it
    assert inference.context_reading(100, 10.0, 30) == 300.0  # a window
    assert inference.context_reading(20, 10.0, 30) == 200.0  # one that is not full
    assert inference.context_reading(100, 10.0, 30, index_bytes=2.0) == 300.0 + 200.0
    assert inference.context_reading(10**6, 0.0, 1, state_bytes=7.0) == 14.0  # read and written
    assert inference.context_work(100, 8, 100) == 1600.0
    assert inference.context_work(100, 8, 30, index_macs=3, state_macs=5) == 2 * (240 + 300 + 5)


@pytest.mark.independent
def test_at_the_crossover_both_pay_the_same() -> None:
    token, index, picked = 1152.0, 132.0, 2048
    cross = inference.context_crossover(picked * token, token, index)
    full, sparse = (inference.context_reading(cross, token, *r) for r in ((cross,), (picked, index)))
    assert full == pytest.approx(sparse) and cross > picked
    assert inference.context_crossover(4096 * token, token) == 4096  # a window crosses where it is full
    assert inference.context_crossover(1.0, 5.0, 5.0) == inference.context_crossover(1.0, 5.0, 6.0) == float("inf")


@pytest.mark.independent
def test_a_hybrid_gains_at_most_what_its_full_layers_leave() -> None:
    for layers, full_layers in ((48, 12), (62, 10), (7, 7)):
        full, near = 1000.0, 30.0
        whole = layers * full / (full_layers * full + (layers - full_layers) * near)
        assert inference.hybrid_gain(full, near, full_layers / layers) == pytest.approx(whole)
        assert inference.hybrid_gain(full, 0.0, full_layers / layers) == pytest.approx(layers / full_layers)
    assert inference.hybrid_gain(10.0, 10.0, 0.3) == pytest.approx(1.0) and inference.hybrid_gain(
        1.0, 0.0, 0.0
    ) == float("inf")


@pytest.mark.independent
def test_work_of_a_chunk_is_that_of_its_products() -> None:
    """The products of one chunk as shapes (rows, depth, columns), counted one by one."""
    chunk, key, value, heads = 64, 128, 96, 5
    plain = [(chunk, key, chunk), (chunk, chunk, value), (chunk, key, value), (key, chunk, value)]
    delta = [(chunk, key, chunk), (chunk, chunk, value), (chunk, chunk, key), *plain, (chunk, key, value)]
    for products, kinds in ((plain, {}), (delta, {"key_products": 3, "value_products": 2, "touches": 3})):
        flops_of_all = heads * sum(2 * a * b * c for a, b, c in products)
        got = inference.chunk_work(chunk, heads, heads, key, value, **kinds)
        assert got * chunk == pytest.approx(flops_of_all)
    shared = inference.chunk_work(chunk, heads, 1, key, value)  # keys that the heads share are multiplied once
    assert inference.chunk_work(chunk, heads, heads, key, value) - shared == 2 * chunk * (heads - 1) * key


@pytest.mark.independent
def test_a_prompt_works_in_chunks_and_a_decode_step_does_not() -> None:
    work = work_of(NEXT)
    assert work.chunk_macs * 48 == 36 * 32 * 64 * (3 * 128 + 2 * 128)
    mamba = work_of("Mamba-2-2.7B")  # one group of keys for all heads
    assert mamba.chunk_macs == 256 * (128 + 80 * 64) and mamba.state_macs == 2 * 80 * 64 * 128
    assert work_of(PLAIN).chunk_macs == 0.0
    d = deploy(NEXT, "H200", tp=4, efficiencies=BOUND)

    def flops_of(work: Work, decode: float) -> float:
        cost = pass_cost(work, d.split, d.machine, BOUND, 1.0, 256.0, 0.0, decode)
        return float(cost.components["elementwise"].flops)

    bare = replace(work, chunk_macs=0.0)
    assert flops_of(work, 0.0) - flops_of(bare, 0.0) == pytest.approx(2 * 48 * work.chunk_macs * 256 / 4)
    assert flops_of(work, 1.0) == flops_of(bare, 1.0)


@pytest.mark.published
def test_printed_figures_of_models_that_forget() -> None:
    found = {c.measurement.name: c for c in evidence.checks("contexts")}
    assert len(found) == 18 and all(c.measurement.sourced.source for c in found.values())
    assert sum(c.predicted == c.measured for c in found.values()) == 6  # three logs, a state in tokens, Mistral, Jamba
    # by hand: 7 of 27 layers keep 1,152 B a token, the others 2.17 MB, at 2^20 tokens
    kept = (7 * 1152 * 2**20 + 20 * 2_170_880) / (27 * 1152 * 2**20)
    assert found["kimi-linear-cache"].predicted == pytest.approx(1 - kept)
    assert found["kimi-linear-decode"].error == pytest.approx(27 / (7 + 20 * 2 * 2_170_880 / (1152 * 2**20)) / 6 - 1)
    one = 91.8e9 + 10 * 2 * 16_384 * 50_000 + 70 * 2 * 2_097_152
    assert found["minimax-m1-flops"].predicted == pytest.approx(one / (74e9 + 61 * 2 * 40_960 * 50_000))
    assert found["flashmla-token"].predicted == 576
