"""Named efficiencies that others publish. A preset is always asked for by name, never applied silently."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

from mlsysim.catalog.shown import Catalogue, ShownEntry
from mlsysim.catalog.sourced import Sourced, read_toml, sourced
from mlsysim.errors import unknown_name


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
    with as_file(files(__package__) / "presets.toml") as path:
        made = {
            name: Preset(name, raw["applies_to"], sourced(raw["efficiency"], "1", f"{path.name}: {name}", path.name))
            for name, raw in read_toml(path).items()
        }
    return Catalogue("preset", made)


def preset(name: str) -> Preset:
    """The preset of that name.

    >>> preset("mlsysim-page-training").efficiency.value
    0.5
    """
    if name not in presets():
        raise unknown_name("efficiency preset", name, presets())
    return presets()[name]
