"""Serving steps at the level of kernels, and how far to trust them: the ladder of accuracy."""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

# What shares its name with a module cannot come later: the module would stand in its place.
from mlsysim.serving_steps.rates import PRINTED, Rate, Rates, rates, shipped_rates

if TYPE_CHECKING:
    from mlsysim.serving_steps.batches import Batch
    from mlsysim.serving_steps.calibration import Calibration, Coefficients, Subject, load_calibration
    from mlsysim.serving_steps.comparisons import (
        blended_step,
        e2e_per_token,
        jump,
        layer_residual,
        outlier_shift,
    )
    from mlsysim.serving_steps.equations import (
        bilinear,
        chunk_pairs,
        fused_width,
        granularity_ratio,
        kernel_starts,
        kernel_utilisation,
        serving_step_time,
    )
    from mlsysim.serving_steps.patterns import mixed_bandwidth, scattered_bandwidth
    from mlsysim.serving_steps.products import Product, layer_products
    from mlsysim.serving_steps.residuals import (
        calibration_requests,
        overfitting_ratio,
        residual_constant,
        residual_time,
    )
    from mlsysim.serving_steps.step import StepModel, step_model
    from mlsysim.serving_steps.step_options import BASELINE, TIER_0, StepOptions
    from mlsysim.serving_steps.tables import ProductTable, jumps, products_table
    from mlsysim.serving_steps.terms import Kernel, StepTerms

__all__ = [
    "BASELINE",
    "PRINTED",
    "TIER_0",
    "Batch",
    "Calibration",
    "Coefficients",
    "Kernel",
    "Product",
    "ProductTable",
    "Rate",
    "Rates",
    "StepModel",
    "StepOptions",
    "StepTerms",
    "Subject",
    "bilinear",
    "blended_step",
    "calibration_requests",
    "chunk_pairs",
    "e2e_per_token",
    "fused_width",
    "granularity_ratio",
    "jump",
    "jumps",
    "kernel_starts",
    "kernel_utilisation",
    "layer_products",
    "layer_residual",
    "load_calibration",
    "mixed_bandwidth",
    "outlier_shift",
    "overfitting_ratio",
    "products_table",
    "rates",
    "residual_constant",
    "residual_time",
    "scattered_bandwidth",
    "serving_step_time",
    "shipped_rates",
    "step_model",
]
__getattr__, __dir__ = lazily(__name__)
