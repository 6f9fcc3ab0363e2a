"""Rows of class memory that are measured, and not counted: what a process holds, and what is written to a disk."""

import math

import pytest

from mlsysim.evidence.predictors import memory as rows
from mlsysim.evidence.predictors.base import Unsupported

SERVING = {
    "params": 6_662_258_688,
    "layers": 32,
    "hidden": 4096,
    "kv_heads": 32,
    "head_dim": 128,
    "batch": 4,
    "input_len": 128,
    "output_len": 8,
}
PEAK = {
    "layers": 16,
    "hidden": 1024,
    "heads": 16,
    "kv_heads": 16,
    "ffn": 4096,
    "vocab": 32000,
    "tp": 1,
    "pp": 4,
    "dp": 2,
    "sharding": "fsdp",
    "batch_per_dp_rank": 32,
    "seq": 2048,
    "recompute": "full",
}


def predict(kind: str, inputs: dict[str, object], constants: dict[str, dict[str, float]] | None = None) -> float:
    found = rows.predict({"kind": kind, "inputs": inputs}, constants or {}).predicted
    assert found is not None
    return found


@pytest.mark.independent
def test_a_serving_process_by_hand() -> None:
    weights, cache = 2 * 6_662_258_688, 2 * 32 * 4 * 136 * 4096 * 2
    buffers = 2 * 4 * 128 * (15 * 4096 + 32 * 128)
    runtime = 2.07 * 2**30  # with collectives, as a start-up log prints it
    assert predict("inference_total", SERVING) == pytest.approx(weights + cache + buffers + runtime)
    for counted in ("allocated", "reserved"):  # an allocator does not know what the driver holds
        assert predict("inference_total", SERVING | {"counted": counted}) == pytest.approx(weights + cache + buffers)
    with pytest.raises(Unsupported, match="counted = 'free' is not one of in_use"):
        predict("inference_total", SERVING | {"counted": "free"})
    given = {"params": 1e9, "weight_bytes": 2e9, "input_len": 64}
    assert predict("inference_total", given) == 3e9
    assert predict("inference_total", given, {"serving process": {"on_device": 5e8}}) == 2.5e9


@pytest.mark.published
def test_fastertransformers_process() -> None:
    """FasterTransformer's GPT guide: 15.87 GB for GPT-6.7B with four prompts of 128 tokens."""
    assert predict("inference_total", SERVING) == pytest.approx(15.87e9, rel=0.05)


@pytest.mark.independent
def test_a_file_is_printed_in_powers_of_1024() -> None:
    # 14 bytes a parameter, and what prints 1 GB for 2^30 bytes
    assert predict("checkpoint", {"params": 2**30, "precision": "bf16", "optimizer": "adam"}) == pytest.approx(14e9)


@pytest.mark.independent
def test_a_pipeline_of_which_nothing_is_said_has_as_many_micro_batches_as_stages() -> None:
    assert predict("training_peak", PEAK) == predict("training_peak", PEAK | {"micro_batch": 8})
    assert predict("training_peak", PEAK) < predict("training_peak", PEAK | {"micro_batch": 32})


@pytest.mark.independent
def test_who_shards_weights_and_recomputes_nothing_may_hold_copies_of_all_of_them() -> None:
    """By hand, in a model whose layers are nearly all: 2 bytes more for every parameter, the middle where nothing is said."""
    plain = PEAK | {
        "pp": 1,
        "dp": 64,
        "batch_per_dp_rank": 1,
        "seq": 1,
        "vocab": 128,
        "recompute": "none",
        "layers": 64,
    }
    least = predict("training_peak", plain | {"recompute": "selective"})
    layers = 64 * (4 * 1024**2 + 3 * 1024 * 4096)
    assert predict("training_peak", plain) == pytest.approx((least * (least + 2 * layers)) ** 0.5, rel=0.05)


@pytest.mark.independent
def test_the_fit_is_a_log_mean_with_one_vote_for_the_start() -> None:
    def sample(beside: float, group: str) -> tuple[dict[str, object], float, str]:
        inputs = {"params": 1e9, "weight_bytes": 2e9, "input_len": 64}
        return {"kind": "inference_total", "inputs": inputs}, 2e9 + beside, group

    found = rows.fit([sample(2e9, "a"), sample(8e9, "a"), sample(1e9, "b")])["serving process"]["on_device"]
    assert found == pytest.approx(math.exp((math.log(1e9) + math.log(4e9) + math.log(1e9)) / 3), rel=0.01)
    assert rows.fit([]) == {}
