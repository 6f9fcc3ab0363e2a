"""Asked in a peer's own environment: its time of every row that it can be told, in seconds, or why it has none.

    PYTHON_OF_PEER scripts/maintain/peers/ask_packages.py (llm-analysis | mlsysim-harvard) < rows.json > answers.json

Defaults of the package, but for the efficiency of one half that the source of llm-analysis names. What a row states and a package cannot be told is
the reason that stands in place of a time.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import compare_peers

Row = dict[str, Any]


class CannotAnswer(Exception):
    """What the package cannot be told."""


def _must(holds: bool, reason: str) -> None:
    if not holds:
        raise CannotAnswer(reason)


def _llm_analysis(name: str, row: Row) -> float:
    from llm_analysis import analysis, config  # type: ignore[import-not-found]

    _must(row["attn_type"] in ("mha", "gqa", "mqa"), f"attention {row['attn_type']}")
    _must(not row.get("n_experts") or not row.get("n_shared_experts"), "shared experts")
    width = row["moe_ffn"] if row.get("n_experts") else row["ffn"]
    width *= 1.5 if row.get("gated_mlp") else 1.0  # it counts two matrices of an MLP
    model = config.ModelConfig(
        "row", int(row["layers"]), int(row["heads"]), int(row["hidden"]), int(row["vocab"]), 1 << 20, int(row["kv_heads"]),
        ffn_embed_dim=int(width), expansion_ratio=int(width / row["hidden"]) or 1, model_type="llama",
        moe_num_experts=int(row.get("n_experts") or 1), moe_top_k=int(row.get("top_k") or 1),
    )  # fmt: skip
    bits = int(row.get("weight_bits") or 16)
    peak = row["peak_flops"] / (2.0 if name == "training_step" and "8" in str(row["precision"]) else 1.0)
    gpu = config.GPUConfig(
        "row", row["hbm_bytes"] / 1e9, row["hbm_bandwidth"] / 1e9, (row.get("intra_node_bandwidth") or 300e9) / 1e9, 8e-6,
        peak / 1e12, inter_node_bandwidth_in_GB_per_sec=(row.get("inter_node_bandwidth") or 25e9) / 1e9,
    )  # fmt: skip
    degrees = {k: int(row.get(k) or 1) for k in ("tp", "pp", "dp", "ep")}
    split = config.ParallelismConfig(degrees["tp"], degrees["pp"], degrees["dp"], degrees["ep"], degrees["tp"])
    half = analysis.LLMAnalysis(model, gpu, config.DtypeConfig("row", bits, 16, 16), split, flops_efficiency=0.5)
    if name == "training_step":
        _must((row.get("cp") or 1) == 1, "context parallelism")
        _must(row["task"] == "pretrain", f"task {row['task']}")
        _must(bool(row.get("micro_batch")), "no micro-batch stated")
        kept = {"full": 2, "selective": 1}.get(row.get("recompute") or "none", 0)
        found = half.training(
            int(row["micro_batch"]), global_batch_size=int(row["global_batch"]), seq_len=int(row["seq"]),
            activation_recomputation=analysis.ActivationRecomputation(kept),
            ds_zero=analysis.DSZeRO({"none": 0, "zero1": 1, "zero2": 2, "zero3/fsdp": 3}.get(row.get("sharding") or "none", 3)),
        )  # fmt: skip
        return float(found["latency_per_iter"])
    _must(row["phase"] in ("prefill", "decode_step", "end_to_end"), f"phase {row['phase']}")
    prompt = int(row.get("input_len") or row.get("context_len") or 1)
    found = half.inference(int(row["batch"]), prompt, int(row.get("output_len") or 1))
    if row["phase"] == "prefill":
        return float(found["prefill_latency"])
    if row["phase"] == "decode_step":
        return float(found["decode_latency"])
    return float(found["total_latency"])


def _harvard(name: str, row: Row) -> float:
    _must(row["device"] in ("A100-SXM4-80GB", "H100-SXM5-80GB"), f"device {row['device']}")
    if name == "training_step":
        stated = all(row.get(n) for n in ("recompute", "sharding", "micro_batch"))
        _must(stated, "recomputation, sharding or micro-batch not stated")
        _must((row.get("cp") or 1) == 1 and row["task"] == "pretrain", "context parallelism, or no pretraining")
        _must(row["n_devices"] >= 8, "fewer devices than a node")
        return float(compare_peers._peer_training(row)["value"])
    _must(row.get("n_devices") == 1, "several devices")
    _must(row["phase"] in ("end_to_end", "throughput_static"), f"phase {row['phase']}")
    _must(row["weight_precision"] in ("fp16", "bf16", "fp8", "int8"), f"weights {row['weight_precision']}")
    return float(compare_peers._peer_inference(row)["value"])


PEERS: dict[str, Callable[[str, Row], float]] = {"llm-analysis": _llm_analysis, "mlsysim-harvard": _harvard}


def main() -> None:
    say, found = PEERS[sys.argv[1]], {}
    for one in json.load(sys.stdin):
        try:
            value = say(one["class"], one["inputs"])
            found[one["id"]] = {"value": value} if value > 0 else {"reason": "no time"}
        except Exception as error:
            found[one["id"]] = {"reason": (str(error) or type(error).__name__).splitlines()[0][:60]}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
