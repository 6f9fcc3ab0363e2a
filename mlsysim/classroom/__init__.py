"""Teaching tools: sliders, charts and exercises. They show the library's numbers and compute none of their own."""

from importlib import import_module
from typing import Any

_HOMES = {
    "Bars": "bars",
    "Chart": "charts",
    "Choice": "sliders",
    "Line": "charts",
    "LogSlider": "sliders",
    "Marks": "charts",
    "PALETTE": "charts",
    "Slider": "sliders",
    "Swings": "swings",
    "check": "exercises",
    "draw": "charts",
    "draw_bars": "bars",
    "draw_swings": "swings",
    "explore": "sliders",
    "inputs": "exercises",
    "question": "exercises",
    "log_space": "views",
    "roofline_chart": "views",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
