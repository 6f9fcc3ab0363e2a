"""Lazy attributes of a package: each loads on first use, so that importing the package costs nothing."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str], root: str = "") -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: ``homes`` maps each name to its module below ``root``, or below the package itself.

    >>> lazily("mlsysim.drawing", {"Chart": "charts"})("Chart").__name__
    'Chart'
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{root or package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, found)  # asked once
        return found

    return __getattr__
