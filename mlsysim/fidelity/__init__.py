"""Serving steps at the level of kernels, and how far to trust them: the ladder of accuracy."""

from mlsysim.fidelity.batches import Batch
from mlsysim.fidelity.products import Product, layer_products
from mlsysim.fidelity.rates import DATASHEET, Rate, Rates, rates
from mlsysim.fidelity.rungs import BASELINE, TIER_0, Rungs
from mlsysim.fidelity.step import Kernel, StepModel, StepTerms, step_model

__all__ = [
    "BASELINE",
    "DATASHEET",
    "TIER_0",
    "Batch",
    "Kernel",
    "Product",
    "Rate",
    "Rates",
    "Rungs",
    "StepModel",
    "StepTerms",
    "layer_products",
    "rates",
    "step_model",
]
