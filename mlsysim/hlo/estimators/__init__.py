"""Estimators of the time of a compute region, behind one protocol."""

from mlsysim.hlo.estimators.base import Estimator, RunTime
from mlsysim.hlo.estimators.roofline import RooflineEstimator

__all__ = ["Estimator", "RooflineEstimator", "RunTime"]
