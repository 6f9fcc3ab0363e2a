"""The figures that ship: constants that ``mlsysim.validation`` fitted, and shares of printed rates that others measured."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.efficiencies.kin import measured_kin

# Fitted constants: class of devices, rows or software -> name -> value. Empty where nothing is fitted.
Constants = Mapping[str, Mapping[str, float]]


@cache
def _file(name: str) -> Mapping[str, Any]:
    return MappingProxyType(shipped_toml(__package__, f"{name}.toml"))


@cache
def shipped(class_name: str) -> Constants:
    """The fitted constants of a class of predictions, ``training_step`` or ``inference``.

    >>> sorted(shipped("inference"))
    ['balance', 'graph', 'launched', 'shared memory']
    """
    return MappingProxyType(_file(class_name)["constants"])


def measured_share(kind: str, generation: str) -> float:
    """Share of the printed peak (``gemm``) or memory bandwidth (``memory``) that others measured on a generation, or on its kin.

    >>> 0.5 < measured_share("gemm", "Ampere") < 0.9
    True
    """
    return float(_file("measured")[measured_kin(generation)][kind])
