"""What catalogue entries share: named figures that know where they were read, the checks of a file, and lookup by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from mlsysim.catalog.kept import fold
from mlsysim.catalog.sourced import Sourced, read_toml, sourced
from mlsysim.errors import InputError, UnknownNameError, unknown_name


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Named figures, each with its source. A figure that no source gives raises when it is asked for."""

    name: str
    notes: str = ""
    aliases: tuple[str, ...] = ()
    fields: Mapping[str, Sourced] = field(default_factory=dict, repr=False)

    def _value(self, name: str) -> float:
        if name not in self.fields:
            raise UnknownNameError(f"{self.name} has no {name} in its catalogue entry; it has {', '.join(self.fields)}")
        return self.fields[name].value

    def has(self, name: str) -> bool:
        """Whether a figure is known."""
        return name in self.fields

    def origin(self, name: str) -> str:
        """Where a figure was read, in words."""
        self._value(name)
        return str(self.fields[name])


Kind = TypeVar("Kind", bound=Entry)
Parts = tuple[dict[str, str], tuple[str, ...], dict[str, Sourced]]


def parts(
    name: str,
    raw: Any,
    file: str,
    table: str,
    units: Mapping[str, str],
    text: Sequence[str],
    required: Sequence[str],
    whole: Sequence[str] = (),
) -> Parts:
    """Text, aliases and sourced figures of one entry of a file, checked; errors name file, entry and field."""
    where = f"{file}: {name[:60]}"
    if not isinstance(raw, Mapping):
        raise InputError(f'{where} is not a table; start it with ["{name[:60]}"]')
    known = (*text, "aliases", *units)
    for key in raw:
        if key not in known:
            raise InputError(f"{where}: {unknown_name('field', key, known)}")
    for key in required:
        if key not in raw:
            raise InputError(f"{where}: no {key}; an entry under {table} needs it")
    words = {key: raw.get(key, "") for key in text}
    for key, value in words.items():
        if not isinstance(value, str):
            raise InputError(f"{where}, {key} = {str(value)[:40]!r} is not text; put it in quotes")
    aliases = raw.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise InputError(f'{where}, aliases must be a list of names, as in ["NVLink4"]')
    fields = {k: sourced(raw[k], unit, f"{where}, {k}", file) for k, unit in units.items() if k in raw}
    for key in whole:
        if key in fields and fields[key].value != int(fields[key].value):
            raise InputError(f"{where}, {key} = {fields[key].value} must be a whole number")
    return words, tuple(aliases), fields


def choice(value: str, allowed: Sequence[str], kind: str, where: str) -> str:
    """The value, when it is one of those allowed."""
    if value not in allowed:
        raise InputError(f"{where}: {unknown_name(kind, value, allowed)}")
    return value


def load(path: Path, make: Callable[[str, Any, str], Kind]) -> dict[str, Kind]:
    """All entries of a TOML file: as data, never executed, of bounded size."""
    return {name: make(name, raw, path.name) for name, raw in read_toml(path).items()}


def shipped(place: str, make: Callable[[str, Any, str], Kind]) -> Mapping[str, Kind]:
    """All entries of a file that the package ships under ``mlsysim/catalog``."""
    with as_file(files("mlsysim.catalog") / place) as path:
        return MappingProxyType(load(path, make))


def find(kind: str, name: Any, entries: Mapping[str, Kind], hint: str = "") -> Kind:
    """The entry of that name or alias.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    """
    index = {fold(key): e for e in entries.values() for key in (e.name, *e.aliases)}
    if not isinstance(name, str) or fold(name) not in index:
        raise unknown_name(kind, name, entries, hint, (a for e in entries.values() for a in e.aliases))
    return index[fold(name)]
