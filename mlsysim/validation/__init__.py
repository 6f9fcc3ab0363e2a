"""Predictions against published measurements."""

from mlsysim.validation.checks import ELEMENT_BYTES, Check, check, gemm_efficiency, stream_efficiency
from mlsysim.validation.measurements import Measurement, counts, measurement, measurements
from mlsysim.validation.scoring import signed_error

__all__ = [
    "ELEMENT_BYTES",
    "Check",
    "Measurement",
    "check",
    "counts",
    "gemm_efficiency",
    "measurement",
    "measurements",
    "signed_error",
    "stream_efficiency",
]
