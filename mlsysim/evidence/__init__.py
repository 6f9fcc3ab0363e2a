"""Predictions against published measurements: rows, fits, scores, claims of others, and tools that measure."""

from mlsysim.evidence.hypotheses.hypotheses import Hypothesis, Verdict, hypothesis, judge
from mlsysim.evidence.measured.checks import check, checks
from mlsysim.evidence.measured.kernels import ELEMENT_BYTES, gemm_efficiency, stream_efficiency
from mlsysim.evidence.measured.measurements import Check, Measurement, measurement, measurements
from mlsysim.evidence.measured.plans import PublishedPlan, published_plan, published_plans
from mlsysim.evidence.measured.serving_runs import MeasuredRequest, ServingRun, serving_run, serving_runs
from mlsysim.evidence.measuring.profiles import Profile, load_profile, profile, shipped_profiles
from mlsysim.evidence.metrics import effective_rows, error_factor, optimism, signed_error, skill
from mlsysim.evidence.studies.costs import PublishedCost, published_costs
from mlsysim.evidence.studies.footprints import PublishedFootprint, published_footprint, published_footprints

__all__ = [
    "ELEMENT_BYTES",
    "Check",
    "Hypothesis",
    "MeasuredRequest",
    "Measurement",
    "Profile",
    "PublishedCost",
    "PublishedFootprint",
    "PublishedPlan",
    "ServingRun",
    "Verdict",
    "check",
    "checks",
    "effective_rows",
    "error_factor",
    "gemm_efficiency",
    "hypothesis",
    "judge",
    "load_profile",
    "measurement",
    "measurements",
    "optimism",
    "profile",
    "published_costs",
    "published_footprint",
    "published_footprints",
    "published_plan",
    "published_plans",
    "serving_run",
    "serving_runs",
    "shipped_profiles",
    "signed_error",
    "skill",
    "stream_efficiency",
]


def __dir__() -> list[str]:
    return __all__
