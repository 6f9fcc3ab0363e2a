"""Serving steps at the level of kernels, and how far to trust them: the ladder of accuracy."""

from mlsysim.fidelity.batches import Batch
from mlsysim.fidelity.calibration import Calibration, Coefficients, Subject, Verdict, least_squares, load_calibration
from mlsysim.fidelity.patterns import mixed_bandwidth, scattered_bandwidth
from mlsysim.fidelity.products import Product, layer_products
from mlsysim.fidelity.profiles import Profile, load_profile, profile, shipped_profiles
from mlsysim.fidelity.rates import DATASHEET, Rate, Rates, rates
from mlsysim.fidelity.residuals import calibration_requests, overfitting_ratio, residual_constant, residual_time
from mlsysim.fidelity.rungs import BASELINE, TIER_0, Rungs
from mlsysim.fidelity.step import Kernel, StepModel, StepTerms, step_model

__all__ = [
    "BASELINE",
    "DATASHEET",
    "TIER_0",
    "Batch",
    "Calibration",
    "Coefficients",
    "Kernel",
    "Product",
    "Profile",
    "Rate",
    "Rates",
    "Rungs",
    "StepModel",
    "StepTerms",
    "Subject",
    "Verdict",
    "calibration_requests",
    "layer_products",
    "least_squares",
    "load_calibration",
    "load_profile",
    "mixed_bandwidth",
    "overfitting_ratio",
    "profile",
    "rates",
    "residual_constant",
    "residual_time",
    "scattered_bandwidth",
    "shipped_profiles",
    "step_model",
]
