"""Predictions against published measurements."""

from mlsysim.validation.measured.checks import ELEMENT_BYTES, Check, check, gemm_efficiency, stream_efficiency
from mlsysim.validation.measured.measurements import (
    Measurement,
    cache_budgets,
    counts,
    failures,
    measurement,
    measurements,
)
from mlsysim.validation.measured.plans import PublishedPlan, published_plan, published_plans
from mlsysim.validation.measured.serving_checks import ServingCheck, serving_check, serving_checks, serving_measurement
from mlsysim.validation.measured.serving_runs import MeasuredRequest, ServingRun, serving_run, serving_runs
from mlsysim.validation.metrics import effective_rows, error_factor, optimism, signed_error, skill
from mlsysim.validation.studies.costs import PublishedCost, published_costs
from mlsysim.validation.studies.footprints import PublishedFootprint, published_footprint, published_footprints

__all__ = [
    "ELEMENT_BYTES",
    "Check",
    "MeasuredRequest",
    "Measurement",
    "PublishedCost",
    "PublishedFootprint",
    "PublishedPlan",
    "ServingCheck",
    "ServingRun",
    "cache_budgets",
    "check",
    "counts",
    "effective_rows",
    "error_factor",
    "failures",
    "gemm_efficiency",
    "measurement",
    "measurements",
    "optimism",
    "published_costs",
    "published_footprint",
    "published_footprints",
    "published_plan",
    "published_plans",
    "serving_check",
    "serving_checks",
    "serving_measurement",
    "serving_run",
    "serving_runs",
    "signed_error",
    "skill",
    "stream_efficiency",
]


def __dir__() -> list[str]:
    return __all__
