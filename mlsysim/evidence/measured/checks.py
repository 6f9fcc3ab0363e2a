"""A published measurement beside the time our equations give for the same work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlsysim import catalog, kernels
from mlsysim.errors import InputError
from mlsysim.evidence.measured.measurements import Measurement, measurement
from mlsysim.evidence.metrics import signed_error
from mlsysim.results import Result
from mlsysim.roofline import KernelTime, kernel_time

# Bytes of an element in each number format of a measurement.
ELEMENT_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


@dataclass(frozen=True)
class Check(Result):
    """One row of a reality check; times in s, error = predicted/measured - 1."""

    measurement: Measurement
    prediction: KernelTime
    measured: float

    @property
    def predicted(self) -> float:
        return float(self.prediction.time)

    @property
    def error(self) -> float:
        return float(signed_error(self.predicted, self.measured))


def check(row: Measurement | str, efficiency: float = 1.0, memory_efficiency: float = 1.0) -> Check:
    """Predict a measured kernel or decode step with the iron law.

    Parameters
    ----------
    row : Measurement or str
        A measurement of kind ``gemm`` or ``decode``, or its name.
    efficiency, memory_efficiency : float, 1
        Fractions of peak and bandwidth; 1 gives the bound. Take them from a source other than the row's.

    >>> round(check("vidur-h100-mlp-up-8").error, 3)
    -0.079
    """
    row = measurement(row) if isinstance(row, str) else row
    if row.kind == "gemm":
        work, traffic = _gemm(row)
    elif row.kind == "decode":
        work, traffic = _decode(row.inputs)
    else:
        raise InputError(
            f"row: {row.name!r} is of kind {row.kind!r}; the iron law can be checked on 'gemm' and 'decode'"
        )
    result = kernel_time(
        row.device, work, traffic, row.precision, efficiency=efficiency, memory_efficiency=memory_efficiency
    )
    return Check(row, result, _seconds(row, work))


def _gemm(row: Measurement) -> tuple[float, float]:
    m, n, k = row.inputs["m"], row.inputs["n"], row.inputs["k"]
    return kernels.gemm_flops(m, n, k), kernels.gemm_bytes(m, n, k, ELEMENT_BYTES[row.precision])


def _decode(inputs: Mapping[str, Any]) -> tuple[float, float]:
    """One token of a dense Llama-shaped model at a short context: every weight but the input embedding, once."""
    h, ffn = inputs["hidden"], inputs["ffn"]
    weights = inputs["layers"] * (4 * h * h + 3 * h * ffn + 2 * h) + h + inputs["vocab"] * h
    return 2.0 * weights, float(weights * inputs["weight_bytes"])


def _seconds(row: Measurement, work: float) -> float:
    value = row.value
    return {"time": value, "flop_rate": work / value, "token_rate": 1 / value}[row.quantity]


def stream_efficiency(device: str, kernel: str) -> float:
    """Fraction of a device's datasheet bandwidth that a STREAM kernel (copy, triad, dot) was measured to reach.

    >>> round(stream_efficiency("h100", "copy"), 3)
    0.866
    """
    row = measurement(f"azure-{device}-stream-{kernel}")
    return row.value / catalog.device(row.device).memory_bandwidth


def gemm_efficiency(device: str, size: int = 8192) -> float:
    """Fraction of a device's dense peak that a square GEMM was measured to reach.

    >>> round(gemm_efficiency("a100"), 3)
    0.813
    """
    row = measurement(f"azure-{device}-gemm-{size}")
    return row.value / catalog.device(row.device).peak_flops[row.precision]
