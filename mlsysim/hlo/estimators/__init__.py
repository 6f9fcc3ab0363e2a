"""Estimators of the time of a compute region, behind one protocol."""

from mlsysim.hlo.estimators.arrays import SystolicArray, array, arrays
from mlsysim.hlo.estimators.base import Estimator, RunTime
from mlsysim.hlo.estimators.cache import Cache, CachedEstimator
from mlsysim.hlo.estimators.composite import CompositeEstimator
from mlsysim.hlo.estimators.matrix import SystolicEstimator, products_of
from mlsysim.hlo.estimators.recorded import SimulatedGemm, scalesim_runs, zigzag_runs
from mlsysim.hlo.estimators.roofline import RooflineEstimator
from mlsysim.hlo.estimators.scalesim import ScaleSimEstimator

__all__ = [
    "Cache",
    "CachedEstimator",
    "CompositeEstimator",
    "Estimator",
    "RooflineEstimator",
    "RunTime",
    "ScaleSimEstimator",
    "SimulatedGemm",
    "SystolicArray",
    "SystolicEstimator",
    "array",
    "arrays",
    "products_of",
    "scalesim_runs",
    "zigzag_runs",
]
