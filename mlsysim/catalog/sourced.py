"""A figure with its provenance, and the bounded TOML reader that every catalogue file goes through."""

import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from mlsysim import units
from mlsysim.errors import InputError, unknown_name
from mlsysim.files import read_text
from mlsysim.results import format_value

Made = TypeVar("Made")
MAX_FILE_BYTES = 1_000_000
_PROVENANCE = ("value", "source", "where", "retrieved", "printed", "transform", "read", "read_in", "agree")


@dataclass(frozen=True, repr=False)
class Sourced:
    """A value in SI units and where it was read.

    ``source`` is the maker's document, by its key in the bibliography. Where we read its figure in another text, ``read_in``
    is the key of that text, and ``read`` is "secondary" unless it is the maker's as well (a repository, a guide) or a table
    of a project that reads the devices themselves (XLA, PyTorch). ``where`` is the place in the text that was read.
    ``agree`` lists other, independent places with the same value, each as "key, where".
    """

    value: float
    unit: str
    source: str
    where: str = ""
    retrieved: str = ""
    printed: str = ""
    transform: str = ""
    read: str = ""
    read_in: str = ""
    agree: tuple[str, ...] = ()

    @property
    def primary(self) -> bool:
        """Whether the maker's own text was read, or a table of a project that reads the devices themselves.

        >>> Sourced(1.0, "byte", "somebody2026", read="secondary").primary
        False
        """
        return self.read != "secondary"

    @property
    def words(self) -> str:
        """The value with its unit, and the key of its source."""
        return (
            f"{format_value(self.value, self.unit)} [{self.source}{', read in a transcription' if self.read else ''}]"
        )

    def __repr__(self) -> str:
        """The value with its unit, and where it was read; ``str`` gives the place alone."""
        return f"{format_value(self.value, self.unit)} ({self})"

    def __str__(self) -> str:
        found = f"{self.source}, read in {self.read_in}" if self.read_in else self.source
        place = f"{found}, {self.where}" if self.where else found
        changed = f" ({self.transform})" if self.transform else ""
        others = f", {len(self.agree)} more agree" if self.agree else ""
        return place + changed + ("" if self.primary else f" [secondary source{others}]")


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file of bounded size; every error names the file, and the line where there is one."""
    return parse_toml(text_of(path), path.name)


def text_of(path: Path) -> str:
    """Text of a TOML file of bounded size."""
    return read_text(path, MAX_FILE_BYTES, "the path of a TOML file", "a catalogue file is far smaller")


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Parse TOML; every error names the file, and the line where there is one."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise InputError(f"{file}: nested too deeply; a catalogue entry has two levels") from error
    except ValueError as error:  # Python converts no integer of thousands of digits
        raise InputError(f"{file}: a number of it cannot be read: {error}") from error


def beside(package: str, file: str) -> Path:
    """A file that stands beside the code of a package."""
    return Path(str(sys.modules[package].__file__)).parent / file


def shipped_toml(package: str, file: str) -> dict[str, Any]:
    """A TOML file that stands beside the code of a package."""
    return read_toml(beside(package, file))


def figures(raw: Mapping[str, Any], units: Mapping[str, str], where: str, file: str) -> dict[str, Sourced]:
    """Those fields of an entry that have a unit and are given, as :func:`sourced` reads them."""
    return {key: sourced(raw[key], unit, f"{where}, {key}", file) for key, unit in units.items() if key in raw}


def shipped(package: str, file: str, make: Callable[[str, Any, str], Made]) -> Mapping[str, Made]:
    """What each entry of such a file is made into, by its name; ``make`` takes name, entry and file."""
    return MappingProxyType(
        {name: make(name, raw, Path(file).name) for name, raw in shipped_toml(package, file).items()}
    )


def published(raw: Mapping[str, Any], units: Mapping[str, str], name: str, file: str) -> dict[str, Any]:
    """What such an entry is made of: its fields, lists as tuples, and as ``published`` the figures that others print of it."""
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in raw.items() if key not in units}
    printed = MappingProxyType(figures(raw, units, f"{file}: {name}", file))
    return {"name": name, **given, "published": printed}


def sourced(raw: Any, unit: str, where: str, origin: str) -> Sourced:
    """Read one field: a table with ``value`` and its provenance, or (in a user's file) the bare value.

    Parameters
    ----------
    raw : object
        What TOML gave: a number, a quantity string, or a table.
    unit : str
        Unit the field must have.
    where : str
        File, entry and field, for errors.
    origin : str
        Source to name when the field itself names none.
    """
    table = raw if isinstance(raw, Mapping) else {"value": raw}
    for key in table:
        if key not in _PROVENANCE:
            raise InputError(f"{where}: {unknown_name('key', key, _PROVENANCE)}")
    if "value" not in table:
        raise InputError(f"{where}: no 'value'; write {{ value = \"1.5 {unit}\", source = ... }}")
    value = units.parse(table["value"], unit, where)
    if value <= 0:
        raise InputError(f"{where} = {value:g} must be greater than zero; leave the field out when it is unknown")
    agree = table.get("agree", [])
    if not isinstance(agree, list) or not all(isinstance(a, str) for a in agree):
        raise InputError(f'{where}: agree = {str(agree)[:40]!r} must be a list of places, as in ["key, Table 1"]')
    text = {k: str(v) for k, v in table.items() if k not in ("value", "agree")}
    return Sourced(value=value, unit=unit, agree=tuple(agree), **{"source": origin, **text})
