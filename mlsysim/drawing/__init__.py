"""Pictures as data: charts, bars, tornados and lanes, drawn by matplotlib where it is installed and as plain SVG where it is not."""

from importlib import import_module
from typing import Any

_HOMES = {
    "Bars": "bars",
    "Chart": "charts",
    "DASHES": "charts",
    "Drawing": "style",
    "Lanes": "lanes",
    "Line": "charts",
    "Marks": "charts",
    "PALETTE": "style",
    "Panels": "style",
    "Span": "lanes",
    "Swings": "bars",
    "draw": "style",
    "log_space": "style",
    "matplotlib_figure": "style",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
