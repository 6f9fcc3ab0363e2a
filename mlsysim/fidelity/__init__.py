"""Serving steps at the level of kernels, and how far to trust them: the ladder of accuracy."""

from mlsysim.fidelity.batches import Batch
from mlsysim.fidelity.comparisons import blended_step, e2e_per_token, jump, layer_residual, outlier_shift
from mlsysim.fidelity.equations import (
    bilinear,
    chunk_pairs,
    fused_width,
    granularity_ratio,
    kernel_starts,
    kernel_utilisation,
    serving_step_time,
)
from mlsysim.fidelity.hypotheses import Hypothesis, Verdict, hypothesis, judge
from mlsysim.fidelity.products import Product, layer_products
from mlsysim.fidelity.rates import DATASHEET, Rate, Rates, rates, shipped_rates
from mlsysim.fidelity.rungs import BASELINE, TIER_0, Rungs
from mlsysim.fidelity.step import StepModel, step_model
from mlsysim.fidelity.tables import ProductTable, jumps, products_table
from mlsysim.fidelity.terms import Kernel, StepTerms

__all__ = [
    "BASELINE",
    "DATASHEET",
    "TIER_0",
    "Batch",
    "Hypothesis",
    "Kernel",
    "Product",
    "ProductTable",
    "Rate",
    "Rates",
    "Rungs",
    "StepModel",
    "StepTerms",
    "Verdict",
    "bilinear",
    "blended_step",
    "chunk_pairs",
    "e2e_per_token",
    "fused_width",
    "granularity_ratio",
    "hypothesis",
    "judge",
    "jump",
    "jumps",
    "kernel_starts",
    "kernel_utilisation",
    "layer_products",
    "layer_residual",
    "outlier_shift",
    "products_table",
    "rates",
    "serving_step_time",
    "shipped_rates",
    "step_model",
]
