"""Published latencies of serving beside two predictions: the bound, and the calibrated model."""

from collections.abc import Mapping
from typing import Any

from mlsysim import inference
from mlsysim.evidence.measured.measurements import Check, Measurement
from mlsysim.inference import Efficiencies


def _latency(row: Measurement, i: Mapping[str, Any]) -> Check:
    """Seconds per pass or per token, with the constants that ship; a rate of tokens is taken as the time per token."""
    ours = inference.efficiencies_of(row.device, row.precision, framework=str(i.get("host", "")))
    measured = row.value if row.quantity == "time" else 1.0 / row.value
    return Check(row, _time(row, ours), measured, {"bound": _time(row, inference.BOUND)})


RULES = dict.fromkeys(("prefill", "decode", "generate"), _latency)


def _time(row: Measurement, efficiencies: Efficiencies) -> float:
    i: dict[str, Any] = dict(row.inputs)
    d = inference.deploy(
        i["model"],
        row.device,
        tp=i["tp"],
        precision=row.precision,
        weights=i["weights"],
        head=i.get("head"),  # gptfast2023 quantises all linear layers, the head among them
        kv=row.precision,
        efficiencies=efficiencies,
    )
    if row.kind == "prefill":
        return float(inference.prefill(d, input_len=i["input_len"], batch=i["batch"]).time)
    if row.kind == "decode":
        return float(inference.decode_step(d, context=i["context"], batch=i["batch"]).time)
    answer = inference.generate(d, input_len=i["input_len"], output_len=i["output_len"], batch=i["batch"])
    return float(answer.e2e_per_token)
