"""Compressed keys (DeepSeek-V4): cache, reading and work against hand counts and printed figures, and the steps of a server."""

import pytest

from mlsysim import catalog, evidence, flops, inference, memory, serving_steps
from mlsysim.catalog import blocks, from_hf_config
from mlsysim.catalog.operations import Attention, Compressor, Indexer, Product, Streams
from mlsysim.errors import InputError
from mlsysim.evidence.measured import fronts
from mlsysim.flops.tokens import attention_context
from mlsysim.inference import deploy
from mlsysim.inference.work import BOUND, pass_cost
from mlsysim.serving.measured import measured_points
from mlsysim.serving_steps import Batch

PRO, FLASH = catalog.model("DeepSeek-V4-Pro"), catalog.model("DeepSeek-V4-Flash")
LONG = 2**20


@pytest.mark.independent
def test_a_compressed_layer_reads_a_window_entries_and_their_index() -> None:
    read = inference.compressed_reading
    assert read(100, 10.0, window=30, ratio=4) == 10.0 * (30 + 25)
    assert read(20, 10.0, window=30, ratio=4) == 10.0 * (20 + 5)  # a window that is not full
    assert read(100, 10.0, window=30, ratio=4, picked=5) == 10.0 * (30 + 5)
    assert read(12, 10.0, window=4, ratio=4, picked=5) == 10.0 * (4 + 3)  # fewer entries than may be picked
    assert read(100, 10.0, window=30, ratio=4, picked=5, index_bytes=2.0) == 350.0 + 2.0 * 25
    sparse = inference.context_reading(100 / 4, 10.0, 5, 2.0)  # a sparse layer at a quarter of the context
    assert read(100, 10.0, window=0, ratio=4, picked=5, index_bytes=2.0) == sparse


@pytest.mark.independent
def test_a_compressed_cache_by_hand() -> None:
    held = memory.kv_cache_compressed
    assert held(3, 2, 100, window=30, ratio=4, entry=8) == 3 * 2 * (30 + 25) * 8 * 2
    assert held(1, 1, 100, window=30, ratio=4, entry=8, index_entry=2, element_bytes=1) == 55 * 8 + 25 * 2
    assert held(1, 1, 10, window=30, ratio=5, entry=8, element_bytes=1) == (10 + 2) * 8


@pytest.mark.published
def test_the_cache_of_a_million_tokens() -> None:
    """vLLM: 9.62 GiB in 16 bits, 8.7 times less than V3.2's; ours has what waits to be compressed in 32 bits besides."""
    window, sparse, heavy = 61 * 128 * 512, 30 * LONG // 4 * (512 + 128), 31 * LONG // 128 * 512
    assert round(2 * (window + sparse + heavy) / 2**30, 2) == 9.62
    # rows of keys and of gates: of two groups of four, twice as wide for the overlap; of one group of 128
    waiting = 4 * 2 * (30 * 8 * 2 * (512 + 128) + 31 * 128 * 512)
    assert memory.kv_cache_of(PRO, 1, LONG) == 2 * (window + sparse + heavy) + waiting
    assert memory.kv_cache_of("DeepSeek-V3.2", 1, LONG) / memory.kv_cache_of(PRO, 1, LONG) == pytest.approx(
        8.7, abs=0.05
    )
    assert memory.token_cache(PRO) == 2 * (30 / 4 * (512 + 128) + 31 / 128 * 512)
    # Flash: two layers have the window alone
    flash = 2 * (43 * 128 * 512 + 21 * LONG / 4 * (512 + 128) + 20 * LONG / 128 * 512)
    assert memory.kv_cache_of(FLASH, 1, LONG) - flash == 4 * 2 * (21 * 8 * 2 * (512 + 128) + 20 * 128 * 512)
    assert memory.state_of(PRO) == 0.0


@pytest.mark.independent
def test_the_pool_of_a_server_holds_tokens_of_all_layers() -> None:
    held = memory.server_memory(FLASH, "B200", tp=8, kv="fp8", weights="fp8-block", experts="mxfp4", max_model_len=LONG)
    assert held.kv_tokens == pytest.approx(held.kv_pool / memory.token_cache(FLASH, 1.0), rel=1e-3)
    assert held.longest_tokens == LONG and held.fits and any("half as many" in note for note in held.notes)


@pytest.mark.published
@pytest.mark.parametrize(
    ("name", "error"),
    [("pro-million", 0.003), ("pro-times-less", 0.006), ("pro-cache-share", 0.05), ("flash-cache-share", 0.05), ("pro-step", 0.03), ("flash-step", 0.05)],
)  # fmt: skip
def test_what_is_printed_of_deepseek_v4(name: str, error: float) -> None:
    assert abs(evidence.check(f"v4-{name}").error) < error


@pytest.mark.independent
def test_the_work_of_a_prompt_by_hand() -> None:
    s = 20_000
    pair, index = 2 * 128 * 1024, 2 * 64 * 128
    met = 61 * attention_context(s, 128) + 30 * attention_context(s, 4096) / 4 + 31 * attention_context(s, s) / 128
    expected = 2 * flops.matmul_parameters(PRO) + pair * met + 30 * index * attention_context(s, s) / 4
    assert flops.training_flops_per_token(PRO, s, True).forward == pytest.approx(expected, rel=1e-12)


@pytest.mark.independent
def test_a_decode_step_reads_what_the_equation_says() -> None:
    d = deploy(PRO, "B200", tp=8, precision="fp8", experts="mxfp4")
    w, index = d.work, 128 * (1 + 4 / 128)
    assert (w.window, w.latent, w.kv_shards) == (4096, 1.0, 1)

    def read(context: float) -> float:
        cost = pass_cost(w, d.split, d.machine, BOUND, 1.0, 1.0, context - 1.0, 1.0)
        return float(cost.components["attention"].bytes)

    for context in (5000, 100_000):
        heavy = inference.compressed_reading(context, 1024, 128, 128)
        sparse = inference.compressed_reading(context, 1024, 128, 4, 1024, index)
        assert read(context) == pytest.approx(31 * heavy + 30 * sparse, rel=1e-9)
    steps = serving_steps.step_model(d).mixed
    assert steps is not None
    found = steps.cost(Batch.of(PRO, decodes=[5000])).components["decode_attention"].bytes
    assert found == pytest.approx(read(5000), rel=1e-9)
    assert Batch.of(PRO, prefills=[(8000, 0)]).windowed_pairs == 4096 * 4097 / 2 + (8000 - 4096) * 4096


@pytest.mark.independent
def test_residual_streams_are_traffic_on_every_rank() -> None:
    for model, hidden, layers in ((PRO, 7168, 61), (FLASH, 4096, 43)):
        streams = [(x.count, o) for x in model.layers for o in x.operations if isinstance(o, Streams)]
        assert sum(n for n, _ in streams) == 2 * layers and {o.count for _, o in streams} == {4}
        assert inference.work_of(model).streamed == 2 * (4 * 4 + 2) * hidden
    moved = {}
    for tp in (1, 8):
        d = deploy(FLASH, "B300", tp=tp, precision="fp8", experts="mxfp4")
        moved[tp] = pass_cost(d.work, d.split, d.machine, BOUND, 1.0, 1.0, 0.0, 1.0).components["elementwise"].bytes
    assert moved[1] == moved[8] == 43 * 2 * 18 * 4096 * 2


@pytest.mark.independent
def test_what_a_compressed_block_is_made_of() -> None:
    kinds = {c.ratio: n for n, c in PRO.cores}
    assert kinds == {128: 31, 4: 30} and {c.ratio: n for n, c in FLASH.cores} == {0: 2, 4: 21, 128: 20}
    assert {o.ratio: n for n, o in PRO.compressors if o.width > 512} == {4: 30, 128: 31}
    sizes = {"heads": 4, "head_dim": 8, "q_rank": 8, "groups": 3, "output_rank": 4, "window": 4}
    with pytest.raises(InputError, match="groups = 3 must divide heads = 4"):
        blocks.compressed_attention(16, **sizes)
    assert Attention(4, 1, 8, 8, 8, window=4, ratio=2).met == ((1, 4), (2, 0))
    assert isinstance(PRO.indexers[0][1], Indexer) and isinstance(PRO.compressors[0][1], Compressor)
    down = next(o for x in PRO.layers for o in x.operations if isinstance(o, Product) and o.name == "output_down")
    assert (down.k, down.n, down.copies) == (128 * 512 // 16, 1024, 16)


@pytest.mark.published
def test_published_points_lie_where_the_chapter_says() -> None:
    runs = fronts.front_runs(25)
    assert sum(map(len, runs.values())) == 25 and not set(runs) & set(fronts.front_runs())
    inside = 0
    for name, points in runs.items():
        if points[0].drafted:
            none, every = fronts.check_run(name, 1.0), fronts.check_run(name, 4.0)
            inside += sum(
                b["itl"].predicted <= a["itl"].measured <= a["itl"].predicted for a, b in zip(none, every, strict=True)
            )
        else:
            assert all(0.9 < c["device_rate"].predicted / c["device_rate"].measured < 4 for c in fronts.check_run(name))
    assert inside >= 11
    # neighbours of an answer are servers whose attention is cut and that guess nothing
    near = [p for p in measured_points() if p.model.startswith("DeepSeek-V4")]
    assert [(p.source, p.tp, p.deployment().experts) for p in near] == [("lambda2026deepseekv4", 8, "mxfp4")]


@pytest.mark.independent
def test_a_config_names_the_format_of_the_experts() -> None:
    small = {
        "model_type": "deepseek_v4", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 32,
        "vocab_size": 100, "q_lora_rank": 16, "o_lora_rank": 8, "o_groups": 2, "index_n_heads": 2, "index_head_dim": 8,
        "index_topk": 4, "sliding_window": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "n_shared_experts": 1, "compress_ratios": [0, 4], "expert_dtype": "fp4", "num_nextn_predict_layers": 0,
    }  # fmt: skip
    assert from_hf_config(small).stored_experts == "mxfp4"
    assert from_hf_config(small | {"expert_dtype": None}).stored_experts == ""
    with pytest.raises(InputError, match="compress_ratios"):
        from_hf_config(small | {"compress_ratios": [0, 5]})
