"""One predictor per class of cases, and the constants that ship with them."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import read_toml
from mlsysim.evidence.predictors import attention, collective, gemm, inference, memory, scalar, serving, training_step
from mlsysim.evidence.predictors.base import Constants, Prediction, Predictor, Unsupported

__all__ = [
    "PREDICTORS",
    "READ_BY_SOLVERS",
    "Constants",
    "Prediction",
    "Predictor",
    "Unsupported",
    "shipped_constants",
    "shipped_fit",
]

# Classes whose constants lie below the solvers, which read them; those of others are ours.
READ_BY_SOLVERS = (
    "training_step",
    "inference",
    "collective",
    "serving_tpot",
    "serving_ttft",
)
# What predicts a row, by its class.
PREDICTORS: Mapping[str, Predictor] = MappingProxyType(
    {
        "gemm": gemm.PREDICTOR,
        "attention": attention.PREDICTOR,
        "collective": collective.PREDICTOR,
        "memory": memory.PREDICTOR,
        "training_step": training_step.PREDICTOR,
        "inference": inference.PREDICTOR,
        "scalar": scalar.PREDICTOR,
        "serving_tpot": serving.TPOT,
        "serving_ttft": serving.TTFT,
    }
)


@cache
def _shipped(class_name: str) -> Mapping[str, Any]:
    folder = files("mlsysim") / "efficiencies" if class_name in READ_BY_SOLVERS else files(__package__) / "constants"
    resource = folder / f"{class_name}.toml"
    if not resource.is_file():
        return MappingProxyType({})
    with as_file(resource) as path:
        return MappingProxyType(read_toml(path))


def shipped_constants(class_name: str) -> Constants:
    """The fitted constants of a class that ship with the package; none for a class without a fit.

    >>> sorted(shipped_constants("a class without constants"))
    []
    """
    return MappingProxyType(_shipped(class_name).get("constants", {}))


def shipped_fit(class_name: str) -> Mapping[str, Any]:
    """What the shipped constants of a class were fitted to: rows, groups, method, date.

    >>> len(shipped_fit("inference")["groups"]) > 10
    True
    """
    return MappingProxyType(_shipped(class_name).get("fit", {}))
