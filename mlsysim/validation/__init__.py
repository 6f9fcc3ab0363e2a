"""Predictions against published measurements."""

from mlsysim.validation.checks import ELEMENT_BYTES, Check, check, gemm_efficiency, stream_efficiency
from mlsysim.validation.measurements import Measurement, counts, measurement, measurements
from mlsysim.validation.metrics import signed_error
from mlsysim.validation.plans import PublishedPlan, published_plan, published_plans
from mlsysim.validation.presets import calibrated_efficiencies, datasheet_efficiencies

__all__ = [
    "ELEMENT_BYTES",
    "Check",
    "Measurement",
    "PublishedPlan",
    "calibrated_efficiencies",
    "check",
    "counts",
    "datasheet_efficiencies",
    "gemm_efficiency",
    "measurement",
    "measurements",
    "published_plan",
    "published_plans",
    "signed_error",
    "stream_efficiency",
]
