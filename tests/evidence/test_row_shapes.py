"""The model of a row: its cells, what an empty one means, and that the library's own count of work is what rows are judged by."""

from typing import Any

import pytest

from mlsysim import catalog, inference, training
from mlsysim.evidence import scoring
from mlsysim.evidence.predictors import inference as of_inference
from mlsysim.evidence.predictors.base import Row, Unsupported
from mlsysim.evidence.predictors.shapes import model_of
from mlsysim.evidence.predictors.training_rows import step_of
from mlsysim.evidence.reality import published

LATENT: dict[str, Any] = {  # the sizes of DeepSeek-V3, without its name
    "layers": 61.0, "hidden": 7168.0, "heads": 128.0, "kv_heads": 128.0, "head_dim": 128.0, "ffn": 18432.0,
    "vocab": 129280.0, "q_lora_rank": 1536.0, "kv_lora_rank": 512.0, "qk_rope_head_dim": 64.0, "n_experts": 256.0,
    "top_k": 8.0, "n_shared_experts": 1.0, "moe_ffn": 2048.0, "n_dense_layers": 3.0, "gated_mlp": True,
    "tied_embeddings": False, "attn_type": "mla",
}  # fmt: skip
ATTENTION = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
EXPERT, DENSE, ROUTER, TABLE = 3 * 7168 * 2048, 3 * 7168 * 18432, 256 * 7168, 129280 * 7168
STEP = {"phase": "decode_step", "device": "unheard of", "hbm_bandwidth": 1e12, "framework": "vLLM", "batch": 1.0}
TRAINED = {
    "device": "H100", "n_devices": 64.0, "tp": 8.0, "pp": 1.0, "cp": 1.0, "dp": 8.0, "ep": 8.0, "precision": "bf16",
    "global_batch": 64.0, "seq": 4096.0,
}  # fmt: skip
PLAIN: dict[str, Any] = {"layers": 4.0, "hidden": 512.0, "heads": 8.0, "ffn": 2048.0, "vocab": 1000.0}


@pytest.mark.independent
def test_a_decode_step_of_latent_attention_reads_what_is_counted_by_hand() -> None:
    """Memory alone decides: the weights that one token meets, and 576 cached numbers of a token and layer."""
    none, long = (scoring.predict("inference", LATENT | STEP | {"context_len": n}, {}).predicted for n in (1.0, 1001.0))
    assert none is not None and long is not None
    weights = 61 * ATTENTION + 3 * DENSE + 58 * (9 * EXPERT + ROUTER) + TABLE
    assert (long - none) / none == pytest.approx(1000 * 61 * 576 / weights, rel=1e-3)


@pytest.mark.independent
def test_a_training_step_of_latent_attention_multiplies_with_what_is_counted_by_hand() -> None:
    work = step_of(Row(LATENT | TRAINED)).work
    assert 61 * work.dense_params == pytest.approx(61 * ATTENTION + 3 * DENSE + 58 * (EXPERT + ROUTER), rel=1e-12)
    assert 61 * work.active_expert_params == pytest.approx(58 * 8 * EXPERT, rel=1e-12)
    assert 61 * work.expert_params == pytest.approx(58 * 256 * EXPERT, rel=1e-12)
    assert (work.head_params, work.embedding_params) == (TABLE, 2 * TABLE)
    assert (work.qk_dim, work.v_dim, work.kv_heads) == (192, 128, 128)


@pytest.mark.regression
@pytest.mark.parametrize("name", ["training_step", "inference"])
def test_shipped_rows_have_the_work_of_their_catalogue_models(name: str) -> None:
    """What ``work_of`` says of a model is what its rows are judged by; the predictors once wrote it down again."""
    checked = set()
    for row in published.rows(name):
        model = row.case.inputs["model"]
        if model in checked or model in published.shapes():
            continue
        m = catalog.model(model)
        if (
            any(core.window for _, core in m.cores) or m.head.k != m.hidden
        ):  # of which the rows have no cell, or not all
            continue
        checked.add(model)
        if name == "inference":
            assert all(case.work == inference.work_of(m) for case in of_inference._cases(Row(row.case.inputs))), model
        else:
            assert step_of(Row(row.case.inputs)).work == training.work_of(m), model
    assert len(checked) >= 5


@pytest.mark.independent
def test_what_the_empty_cells_of_a_shape_mean() -> None:
    row = Row(PLAIN)
    m = model_of(row)
    assert (m.kv_heads, m.head_dim, m.gated_mlp, m.tied_embeddings) == (8, 64, True, True)
    assert row.assumptions == [
        "kv_heads = 8 (multi-head)", "head_dim = 64 (hidden / heads)", "gated_mlp = True", "tied_embeddings = True",
    ]  # fmt: skip
    assert not model_of(Row(PLAIN), tied=False).tied_embeddings
    assert model_of(Row(PLAIN | {"attn_type": "mqa"})).kv_heads == 1
    mixture = Row(PLAIN | {"n_experts": 8.0, "top_k": 2.0})
    assert model_of(mixture).moe_ffn == 2048 and "moe_ffn = 2048 (as the dense MLP)" in mixture.assumptions
    assert model_of(Row(PLAIN | {"n_experts": 8.0, "top_k": 2.0, "moe_ffn": 64.0, "ffn": None})).ffn == 0
    windows = {"attn_window": 128.0, "n_windowed_layers": 2.0}
    assert (model_of(Row(PLAIN | windows)).reach, model_of(Row(PLAIN | {"attn_window": 128.0})).reach) == (128, 0)


@pytest.mark.independent
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hidden": 512.5}, "hidden = 512.5 must be a whole number"),
        ({"hidden": float("nan")}, "hidden = nan must be a whole number"),
        ({"hidden": 510.0}, "8 heads do not divide hidden = 510"),
        ({"heads": 0.0}, "heads = 0 must be at least 1"),
        ({"kv_heads": 3.0}, "must divide heads = 8"),
        ({"vocab": None}, "the row gives no vocab"),
        ({"vocab": -1.0}, "vocab = -1"),
        ({"ffn": None}, "the row gives no ffn"),
        ({"n_windowed_layers": 2.0}, "attn_window = 0 needs n_windowed_layers"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        model_of(Row(PLAIN | change))


@pytest.mark.independent
def test_layers_without_a_vocabulary_have_no_head() -> None:
    """They can be trained alone; a step that writes a token needs a head."""
    work = step_of(Row(PLAIN | TRAINED | {"vocab": 0.0, "ep": 1.0})).work
    assert work.head_params == work.embedding_params == 0
    refused = scoring.predict("inference", PLAIN | STEP | {"context_len": 10.0, "vocab": 0.0}, {})
    assert refused.predicted is None and "vocab = 0" in refused.reason


@pytest.mark.independent
def test_attention_and_mlp_side_by_side_are_one_message() -> None:
    """PaLM's block, by the name of the row alone: the same sizes under another name have two all-reduces a layer."""
    wired = PLAIN | STEP | {"context_len": 10.0, "tp": 8.0, "intra_node_bandwidth": 1e9}
    one, two = (scoring.predict("inference", wired | {"model": n}, {}).predicted for n in ("PaLM-540B", "x"))
    assert one is not None and two is not None and one < 0.7 * two
