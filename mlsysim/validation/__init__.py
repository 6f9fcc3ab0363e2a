"""Predictions against published measurements."""

from mlsysim.validation.checks import ELEMENT_BYTES, Check, check, gemm_efficiency, stream_efficiency
from mlsysim.validation.measurements import Measurement, counts, measurement, measurements
from mlsysim.validation.metrics import effective_rows, error_factor, optimism, signed_error, skill
from mlsysim.validation.plans import PublishedPlan, published_plan, published_plans

__all__ = [
    "ELEMENT_BYTES",
    "Check",
    "Measurement",
    "PublishedPlan",
    "check",
    "counts",
    "effective_rows",
    "error_factor",
    "gemm_efficiency",
    "measurement",
    "measurements",
    "optimism",
    "published_plan",
    "published_plans",
    "signed_error",
    "skill",
    "stream_efficiency",
]
