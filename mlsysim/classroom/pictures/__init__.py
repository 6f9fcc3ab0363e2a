"""Drawings of things, made from the objects that the library computes with: what is drawn cannot contradict what is timed."""

from importlib import import_module
from typing import Any

_HOMES = {
    "attention_heads": "models",
    "latent_cache": "models",
    "memory_levels": "devices",
    "roofline_by_hand": "devices",
    "training_memory_bar": "memory",
    "transformer_block": "models",
    "zero_stages": "memory",
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
