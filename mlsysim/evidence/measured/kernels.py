"""Measured products and decode steps beside the iron law, and the shares of a device's rates that they reached."""

from collections.abc import Mapping
from typing import Any

from mlsysim import catalog, kernels
from mlsysim.evidence.measured.measurements import Check, Measurement, measurement
from mlsysim.roofline import kernel_time

# Bytes of an element in each number format, without the scales that some have.
ELEMENT_BYTES = {
    "fp64": 8.0,
    "fp32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "mxfp8": 1.0,
    "int8": 1.0,
    "fp6": 0.75,
    "fp4": 0.5,
    "mxfp4": 0.5,
    "nvfp4": 0.5,
    "int4": 0.5,
}


def _gemm(row: Measurement, i: Mapping[str, Any], **efficiencies: float) -> Check:
    m, n, k = i["m"], i["n"], i["k"]
    return _timed(
        row, kernels.gemm_flops(m, n, k), kernels.gemm_bytes(m, n, k, ELEMENT_BYTES[row.precision]), efficiencies
    )


def _decode(row: Measurement, i: Mapping[str, Any], **efficiencies: float) -> Check:
    """One token of a dense Llama-shaped model at a short context: every weight but the input embedding, once."""
    h, ffn = i["hidden"], i["ffn"]
    weights = i["layers"] * (4 * h * h + 3 * h * ffn + 2 * h) + h + i["vocab"] * h
    return _timed(row, 2.0 * weights, float(weights * i["weight_bytes"]), efficiencies)


def _timed(row: Measurement, work: float, traffic: float, efficiencies: Mapping[str, Any]) -> Check:
    found = kernel_time(row.device, work, traffic, row.precision, **efficiencies)
    value = row.value
    measured = {"time": value, "flop_rate": work / value, "token_rate": 1 / value}[row.quantity]
    return Check(row, float(found.time), measured, prediction=found)


RULES = {"gemm": _gemm, "decode": _decode}


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
