"""The shipped constants: those that ``mlsysim.evidence`` fitted, and measured shares of datasheet rates."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim._numeric.traced import given
from mlsysim.catalog import Device
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.efficiencies.hierarchy import Pooled, describe_class, measured_kin, pooled

# Fitted constants: class of devices, rows or software -> name -> value. Empty where nothing is fitted.
Constants = Mapping[str, Mapping[str, float]]


@cache
def _file(name: str) -> Mapping[str, Any]:
    return MappingProxyType(shipped_toml(__package__, f"{name}.toml"))


@cache
def shipped(class_name: str) -> Constants:
    """The fitted constants of a class of predictions, ``training_step`` or ``inference``.

    >>> "shared memory" in shipped("inference")
    True
    """
    return MappingProxyType(_file(class_name)["constants"])


def fitted_to(class_name: str) -> str:
    """What the constants of a class were fitted to, in words.

    >>> "measurements of" in fitted_to("collective")
    True
    """
    fit = _file(class_name)["fit"]
    return f"fitted to {fit['rows']} measurements of {len(fit['groups'])} sources ({fit['date']})"


def _unit(name: str) -> str:
    return "s" if name.endswith(("_time", "_latency", "_overhead", "_s")) else "1"


def traced_constants(class_name: str) -> Constants:
    """The fitted constants, each of which knows what it was fitted to.

    >>> traced_constants("inference")["software"]["ungrouped"].origin.partition(": ")[2]
    'software'
    """
    return {
        name: {
            k: given(v, k.replace("_", " "), _unit(k), f"{fitted_to(class_name)}: {name}") for k, v in values.items()
        }
        for name, values in shipped(class_name).items()
    }


def measured_share(kind: str, generation: str) -> float:
    """Share of the printed peak (``gemm``) or memory bandwidth (``memory``) that others measured on a generation, or on its closest relatives.

    >>> 0.5 < measured_share("gemm", "Ampere") < 0.9
    True
    """
    return float(_file("measured")[measured_kin(generation)][kind])


def best_share(device: Device | None, precision: str) -> float:
    """Best share of the datasheet peak that the vendor reports for products in a format; infinite where it reports none.

    >>> from mlsysim import catalog
    >>> round(best_share(catalog.device("MI300X"), "fp8"), 3), best_share(catalog.device("H100"), "fp8")
    (0.487, inf)
    """
    rate = None if device is None else _file("best").get(device.name, {}).get(precision)
    return math.inf if device is None or rate is None else float(rate) / device.peak_flops[precision]


@cache
def _kernels() -> Constants:
    table = _file("kernels")
    return {name: {kind: float(f["value"]) for kind, f in figures.items()} for name, figures in table.items()}


@cache
def _traced_kernels() -> Constants:
    """The figures of kernels, each of which knows its source."""

    def one(name: str, kind: str, f: Mapping[str, Any]) -> Any:
        origin = f"measured alone on {describe_class(name)}: {f['source']}, {f['where'].removeprefix('rates.toml: ')}"
        return given(float(f["value"]), f"kernels: {kind.replace('_', ' ')}", "s" if "start" in kind else "1", origin)

    return {name: {k: one(name, k, f) for k, f in figures.items()} for name, figures in _file("kernels").items()}


def kernel_shares(line: Sequence[str], traced: bool = False) -> Pooled:
    """Kernel efficiencies of a device, each from its closest relatives that have one, and which those are.

    Shares of printed rates and seconds, by the names of ``kernels.toml``; measured with no server around, fitted to none.

    >>> kernel_shares(("Hopper", "NVIDIA gpu", "gpu", "any")).values["products_16"]
    0.722
    >>> kernel_shares(("a generation of its own", "any")).describe()
    'constants of all devices: no row ran on a generation of its own'
    """
    return pooled(_traced_kernels() if traced else _kernels(), line) or Pooled({}, "", tuple(line))
