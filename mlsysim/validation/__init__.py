"""Predictions against published measurements."""

from mlsysim.validation.checks import ELEMENT_BYTES, Check, check, gemm_efficiency, stream_efficiency
from mlsysim.validation.costs import PublishedCost, published_costs
from mlsysim.validation.footprints import PublishedFootprint, published_footprint, published_footprints
from mlsysim.validation.measurements import Measurement, counts, failures, measurement, measurements
from mlsysim.validation.metrics import signed_error
from mlsysim.validation.plans import PublishedPlan, published_plan, published_plans

__all__ = [
    "ELEMENT_BYTES",
    "Check",
    "Measurement",
    "PublishedCost",
    "PublishedFootprint",
    "PublishedPlan",
    "check",
    "counts",
    "failures",
    "gemm_efficiency",
    "measurement",
    "measurements",
    "published_costs",
    "published_footprint",
    "published_footprints",
    "published_plan",
    "published_plans",
    "signed_error",
    "stream_efficiency",
]
