"""Named efficiencies that others publish. A preset is always asked for by name, never applied silently."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlsysim.catalog.display import Catalogue, ShownEntry
from mlsysim.catalog.sourced import Sourced, shipped, sourced
from mlsysim.errors import named


@dataclass(frozen=True)
class Preset(ShownEntry):
    """A fraction of the dense peak, for a kind of work, from a source."""

    name: str
    applies_to: str
    efficiency: Sourced


@cache
def presets() -> Mapping[str, Preset]:
    """All presets by name.

    >>> sorted(presets())[0]
    'mlsysim-page-inference'
    """
    return Catalogue("preset", shipped(__package__, "presets.toml", _preset))


def _preset(name: str, raw: Any, file: str) -> Preset:
    return Preset(name, raw["applies_to"], sourced(raw["efficiency"], "1", f"{file}: {name}", file))


def preset(name: str) -> Preset:
    """The preset of that name.

    >>> preset("mlsysim-page-training").efficiency.value
    0.5
    """
    return named("efficiency preset", name, presets())
