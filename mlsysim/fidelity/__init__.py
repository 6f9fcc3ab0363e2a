"""Serving steps at the level of kernels, and how far to trust them: the ladder of accuracy."""

from mlsysim.fidelity.batches import Batch
from mlsysim.fidelity.calibration import Calibration, Coefficients, Subject, Verdict, least_squares, load_calibration
from mlsysim.fidelity.equations import (
    bilinear,
    chunk_pairs,
    fused_width,
    granularity_ratio,
    kernel_starts,
    kernel_utilisation,
    serving_step_time,
)
from mlsysim.fidelity.patterns import mixed_bandwidth, scattered_bandwidth
from mlsysim.fidelity.products import Product, layer_products
from mlsysim.fidelity.profiles import Profile, load_profile, profile, shipped_profiles
from mlsysim.fidelity.rates import DATASHEET, Rate, Rates, rates, shipped_rates
from mlsysim.fidelity.residuals import calibration_requests, overfitting_ratio, residual_constant, residual_time
from mlsysim.fidelity.rungs import BASELINE, TIER_0, Rungs
from mlsysim.fidelity.step import StepModel, step_model
from mlsysim.fidelity.tables import ProductTable, jumps, products_table
from mlsysim.fidelity.terms import Kernel, StepTerms

__all__ = [
    "BASELINE",
    "DATASHEET",
    "TIER_0",
    "Batch",
    "Calibration",
    "Coefficients",
    "Kernel",
    "Product",
    "ProductTable",
    "Profile",
    "Rate",
    "Rates",
    "Rungs",
    "StepModel",
    "StepTerms",
    "Subject",
    "Verdict",
    "bilinear",
    "calibration_requests",
    "chunk_pairs",
    "fused_width",
    "granularity_ratio",
    "jumps",
    "kernel_starts",
    "kernel_utilisation",
    "layer_products",
    "least_squares",
    "load_calibration",
    "load_profile",
    "mixed_bandwidth",
    "overfitting_ratio",
    "products_table",
    "profile",
    "rates",
    "residual_constant",
    "residual_time",
    "scattered_bandwidth",
    "serving_step_time",
    "shipped_profiles",
    "shipped_rates",
    "step_model",
]
