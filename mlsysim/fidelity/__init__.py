"""Serving steps at the level of kernels, and how far to trust them: the ladder of accuracy."""

from mlsysim.fidelity.batches import Batch
from mlsysim.fidelity.equations import (
    bilinear,
    chunk_pairs,
    fused_width,
    granularity_ratio,
    kernel_starts,
    kernel_utilisation,
    serving_step_time,
)
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
    "Kernel",
    "Product",
    "ProductTable",
    "Rate",
    "Rates",
    "Rungs",
    "StepModel",
    "StepTerms",
    "bilinear",
    "chunk_pairs",
    "fused_width",
    "granularity_ratio",
    "jumps",
    "kernel_starts",
    "kernel_utilisation",
    "layer_products",
    "products_table",
    "rates",
    "serving_step_time",
    "shipped_rates",
    "step_model",
]
