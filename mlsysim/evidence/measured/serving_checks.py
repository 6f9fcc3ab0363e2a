"""Published latencies of serving beside two predictions: the bound, and the calibrated model."""

from dataclasses import dataclass
from typing import Any

from mlsysim import inference
from mlsysim.errors import InputError, named
from mlsysim.evidence.measured.measurements import Measurement
from mlsysim.evidence.measured.measurements import serving as measured_serving
from mlsysim.evidence.metrics import signed_error
from mlsysim.inference import Efficiencies
from mlsysim.results import Result

KINDS = ("prefill", "decode", "generate")


@dataclass(frozen=True)
class ServingCheck(Result):
    """One published latency, in s per pass or per token; error = predicted/measured - 1."""

    measurement: Measurement
    measured: float
    bound: float  # printed rates, no overhead
    ours: float  # with the constants that ship

    @property
    def bound_error(self) -> float:
        return float(signed_error(self.bound, self.measured))

    @property
    def error(self) -> float:
        return float(signed_error(self.ours, self.measured))


def serving_measurement(name: str) -> Measurement:
    """The shipped measurement of serving of that name."""
    return named("measurement", name, measured_serving())


def serving_check(name: str) -> ServingCheck:
    """Predict a published latency; a rate of tokens is taken as the time per token.

    >>> serving_check("gpt-fast-70b-tp8").bound_error < 0
    True
    """
    row = serving_measurement(name)
    if row.kind not in KINDS:
        raise InputError(f"row: {name!r} is of kind {row.kind!r}; latencies are of kind {', '.join(KINDS)}")
    value = row.value
    host = str(row.inputs.get("host", ""))
    return ServingCheck(
        measurement=row,
        measured=value if row.quantity == "time" else 1.0 / value,
        bound=_time(row, inference.BOUND),
        ours=_time(row, inference.efficiencies_of(row.device, row.precision, framework=host)),
    )


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


def serving_checks(group: str = "") -> list[ServingCheck]:
    """Every published latency, or those of one group, in the order of the data."""
    return [serving_check(n) for n, m in measured_serving().items() if m.kind in KINDS and group in ("", m.group)]
