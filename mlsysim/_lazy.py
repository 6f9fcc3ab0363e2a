"""Lazy attributes of a package: each loads on first use, so that importing the package costs nothing."""

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_IMPORT = re.compile(r"^    from (\S+) import (\([^)]*\)|[^(\n]*)$", re.M)


def lazily(
    package: str, homes: Mapping[str, str] | None = None, root: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, which lists its ``__all__``: ``homes`` maps each name to its module below ``root``, or below the package itself.

    Without ``homes`` the names are those that the package imports under ``if TYPE_CHECKING``, so that they stand there once.

    >>> lazily("mlsysim.drawing", {"Chart": "charts"})[0]("Chart").__name__
    'Chart'
    >>> lazily("mlsysim.capacity")[0]("erlang_c").__module__
    'mlsysim.capacity.queues'
    """
    known = {} if homes is None else {name: f"{root or package}.{home}" for name, home in homes.items()}

    def __getattr__(name: str) -> Any:
        if homes is None and not known:
            known.update(_imports(package))
        if name not in known:
            if name.startswith("_") or find_spec(f"{package}.{name}") is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return import_module(f"{package}.{name}")  # a module within
        found = getattr(import_module(known[name]), name)
        setattr(sys.modules[package], name, found)  # asked once
        return found

    return __getattr__, lambda: list(sys.modules[package].__all__)


def _imports(package: str) -> dict[str, str]:
    """Where each name comes from that a package imports for type checkers alone."""
    spec: Any = find_spec(package)
    text = spec.loader.get_source(package)
    return {name: module for module, names in _IMPORT.findall(text) for name in re.findall(r"\w+", names)}
