"""What two structureless estimates score on the same rows: the datasheet's roofline, and one constant per device.

The roofline divides FLOPs by the dense peak and bytes by the bandwidth, takes the larger, and knows nothing else: no
bubble, no network, no start. The second estimate divides that by one efficiency per device, the median of the rows of
that device in *other* groups, so that no group grades itself.
"""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mlsysim import collectives, flops, kernels
from mlsysim.errors import InputError
from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.metrics import mean, signed_error
from mlsysim.evidence.predictors.base import element_bytes
from mlsysim.evidence.scoring import ScoredRow, Summary, summarise
from mlsysim.roofline import compute_time, memory_time

Inputs = Mapping[str, Any]
_PASSES = {"all_reduce": collectives.ring_all_reduce, "all_gather": collectives.ring_all_gather}


def _longer(work: float, traffic: float, row: Inputs, devices: float = 1.0) -> float:
    """The larger of the two times of the iron law, of those whose rate the row knows."""
    times = []
    if row.get("peak_flops"):
        times.append(float(compute_time(work, row["peak_flops"] * devices)))
    if row.get("hbm_bandwidth"):
        times.append(float(memory_time(traffic, row["hbm_bandwidth"] * devices)))
    return max(times)


def _training(row: Inputs) -> float:
    """Six FLOPs per active parameter and token, at the peak of all devices."""
    tokens = row["global_batch"] * row["seq"]
    work = float(flops.total_flops(flops.matmul_flops_per_token(row["active_params"]), tokens))
    return float(compute_time(work, row["peak_flops"] * row["n_devices"]))


def _pass(row: Inputs, tokens: float, context: float) -> float:
    """Two FLOPs per active parameter and token; every active weight and the cache read once."""
    n, size = row["n_devices"], row.get("weight_bits", 16.0) / 8.0
    heads = row["kv_heads"] * row["head_dim"] if not row.get("kv_lora_rank") else row["kv_lora_rank"] / 2.0
    cache = 2.0 * row["layers"] * heads * context * row["batch"] * element_bytes(row.get("kv_precision") or "fp16")
    work = float(flops.forward_matmul_flops(row["active_params"])) * tokens * row["batch"]
    return _longer(work, row.get("weight_bytes") or row["active_params"] * size + cache, row, n)


def _inference(row: Inputs) -> float:
    prompt, new = row.get("input_len") or 0.0, row.get("output_len") or 0.0
    if row["phase"] == "prefill":
        return _pass(row, prompt, 0.0)
    if row["phase"] == "decode_step":
        return _pass(row, 1.0, row.get("context_len") or 0.0)
    return _pass(row, prompt, 0.0) + new * _pass(row, 1.0, prompt + new / 2.0)


def _gemm(row: Inputs) -> float:
    m, n, k, size = row["m"], row["n"], row["k"], element_bytes(row["precision"])
    one = _longer(float(kernels.gemm_flops(m, n, k)), float(kernels.gemm_bytes(m, n, k, size)), row)
    return float(row["groups"] * one)


def _attention(row: Inputs) -> float:
    new, past = row["q_len"], row["kv_len"] - row["q_len"]
    causal = 1.0 if row.get("causal") and new > 1 else 0.0
    shape = (row["batch"], row["q_heads"], new, past, row["head_dim"], row["v_head_dim"], causal)
    size = element_bytes(row["precision"])
    cache = row["batch"] * row["kv_len"] * row["kv_heads"] * (row["head_dim"] + row["v_head_dim"]) * size
    return _longer(float(kernels.attention_kernel_flops(*shape)), cache, row)


def _collective(row: Inputs) -> float:
    """A ring on the slower of the links, at its full rate; a message of experts crosses it once."""
    crosses = row["n_ranks"] > row.get("ranks_per_node", row["n_ranks"])
    link = row["inter_node_bandwidth"] if crosses else row["intra_node_bandwidth"]
    if row["op"] in _PASSES:
        return float(_PASSES[row["op"]](row["bytes"], row["n_ranks"], link))
    return float(collectives.transfer_time(row["bytes"], link))


ROOFLINES: Mapping[str, Callable[[Inputs], float]] = MappingProxyType(
    {
        "gemm": _gemm,
        "attention": _attention,
        "collective": _collective,
        "training_step": _training,
        "inference": _inference,
    }
)


def roofline(class_name: str, inputs: Inputs) -> float:
    """Seconds of a row by datasheet and roofline alone.

    >>> row = {"groups": 1, "m": 4096.0, "n": 4096.0, "k": 4096.0, "precision": "bf16", "peak_flops": 1e15, "hbm_bandwidth": 3e12}
    >>> round(roofline("gemm", row) * 1e6)
    137
    """
    if class_name not in ROOFLINES:
        raise InputError(f"class_name: {class_name!r} has no roofline; it is one of {', '.join(ROOFLINES)}")
    return ROOFLINES[class_name](inputs)


def score_roofline(file: CaseFile) -> Summary:
    """Score the datasheet's roofline on timed rows."""
    return _score(file, lambda case: roofline(file.case_class.name, case.inputs))


def score_preset(file: CaseFile, efficiency: float) -> Summary:
    """Score the roofline over one efficiency for every row, such as a page's default."""
    return _score(file, lambda case: roofline(file.case_class.name, case.inputs) / efficiency)


def share_within(file: CaseFile, efficiency: float, tolerance: float) -> float:
    """Share of rows that the roofline over one efficiency predicts within a tolerance, averaged over groups."""
    name = file.case_class.name
    errors: dict[str, list[float]] = {}
    for case in file.cases:
        error = signed_error(roofline(name, case.inputs) / efficiency, case.measured)
        errors.setdefault(case.group, []).append(float(abs(error) <= tolerance))
    return mean([mean(found) for found in errors.values()])


def score_one_constant(file: CaseFile, among: Collection[str] | None = None) -> Summary:
    """Score the roofline over one efficiency per device, taken from the other groups; of some rows only, by their ids."""
    name = file.case_class.name
    shares = [(c, roofline(name, c.inputs) / c.measured) for c in file.cases]

    def predicted(case: Case) -> float:
        others = [(c, share) for c, share in shares if c.group != case.group] or shares
        alike = [share for c, share in others if c.inputs.get("device") == case.inputs.get("device")]
        return roofline(name, case.inputs) / statistics.median(alike or [share for _, share in others])

    rows = tuple(c for c in file.cases if among is None or c.id in among)
    return _score(replace(file, cases=rows), predicted)


def _score(file: CaseFile, predicted: Callable[[Case], float]) -> Summary:
    rows: Sequence[ScoredRow] = [
        ScoredRow(c.id, c.group, c.measured, p, float(signed_error(p, c.measured)), True, "", ())
        for c, p in ((c, predicted(c)) for c in file.cases)
    ]
    return summarise(rows, [c.tolerance for c in file.cases])
