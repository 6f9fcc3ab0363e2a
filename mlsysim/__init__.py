"""mlsysim: a textbook that runs.

Small, sourced models of the speed, size, cost and carbon emissions of machine-learning systems.
Everything is in SI units (byte, FLOP, second, watt, joule, token, USD). Submodules load on first use, so that
``import mlsysim`` costs milliseconds and needs nothing but the standard library.
"""

from importlib import import_module
from typing import Any

# Version of the library, which results and files carry.
__version__ = "1.0.0rc1"
DISTRIBUTION = "mlsysim-book"  # the distribution called plain "mlsysim" on the package index is another project

_SUBMODULES = (
    "other_workloads",
    "capacity",
    "catalog",
    "course",
    "collectives",
    "communication",
    "cost",
    "api",
    "energy",
    "equations",
    "experts",
    "explore",
    "serving_steps",
    "flops",
    "hlo",
    "inference",
    "intervals",
    "kernel_times",
    "kernels",
    "memory",
    "network",
    "parallelism",
    "pipelines",
    "posttraining",
    "reliability",
    "roofline",
    "runs",
    "sensitivity",
    "serving",
    "tables",
    "training",
    "transformer",
    "units",
    "evidence",
)
_FUNCTIONS = (
    "SLO",
    "compare",
    "compare_devices",
    "plan",
    "serve",
    "simulate",
    "train",
)  # one call from names to an answer
__all__ = ["DISTRIBUTION", "__version__", *_FUNCTIONS, *_SUBMODULES]


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(import_module(f"{__name__}.api"), name)
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
