"""Shared parts of catalogue entries: sourced figures, checks of files, and lookup by name."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from dataclasses import fields as dataclass_fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self, TypeVar, overload

from mlsysim.catalog.display import Named as ShownNames
from mlsysim.catalog.display import ShownEntry
from mlsysim.catalog.registry import fold
from mlsysim.catalog.sourced import Sourced, beside, figures, parse_toml, read_toml, text_of
from mlsysim.errors import InputError, UnknownNameError, unknown_name


class figure:
    """A figure of a kind of entry: its unit, what it is, and what stands in where an entry gives none (else asking raises)."""

    def __init__(self, unit: str, doc: str, *, otherwise: Callable[[Any], float] | None = None, share: bool = False):
        self.unit, self.__doc__, self.otherwise, self.share = unit, doc, otherwise, share

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, entry: None, owner: type) -> Self: ...
    @overload
    def __get__(self, entry: "Entry", owner: type) -> float: ...
    def __get__(self, entry: "Entry | None", owner: type) -> Self | float:
        return self if entry is None else self.of(entry)

    def __set__(self, entry: "Entry", value: float) -> None:
        raise AttributeError(f"{self.name} is read from the entry; take dataclasses.replace with other fields")

    def of(self, entry: "Entry") -> float:
        if self.otherwise is not None and self.name not in entry.fields:
            return self.otherwise(entry)
        return entry._value(self.name)


class count(figure):
    """A figure that counts: a whole number."""

    def __init__(self, doc: str, *, otherwise: Callable[[Any], int] | None = None):
        super().__init__("1", doc, otherwise=otherwise)

    @overload
    def __get__(self, entry: None, owner: type) -> Self: ...
    @overload
    def __get__(self, entry: "Entry", owner: type) -> int: ...
    def __get__(self, entry: "Entry | None", owner: type) -> Self | int:
        return self if entry is None else int(self.of(entry))


@dataclass(frozen=True, kw_only=True)
class Entry(ShownEntry):
    """Named figures, each with its source. A figure that no source gives raises when it is asked for."""

    FIGURES: ClassVar[Mapping[str, figure]] = MappingProxyType({})
    name: str
    notes: str = ""
    aliases: tuple[str, ...] = ()
    fields: Mapping[str, Sourced] = field(default_factory=dict, repr=False)

    def __init_subclass__(cls, units: Mapping[str, str] = MappingProxyType({})) -> None:
        """``units``: figures of no name that Python asks for, read by :meth:`_value`."""
        super().__init_subclass__()
        own = {n: f for n, f in vars(cls).items() if isinstance(f, figure)}
        cls.FIGURES = {**cls.FIGURES, **own, **{n: figure(unit, "") for n, unit in units.items()}}

    def _value(self, name: str) -> float:
        if name not in self.fields:
            raise UnknownNameError(f"{self.name} has no {name} in its catalogue entry; it has {', '.join(self.fields)}")
        return self.fields[name].value

    def has(self, name: str) -> bool:
        """Whether a figure such as ``tdp`` or ``peak_flops.fp8`` is known."""
        return name in self.fields

    def origin(self, name: str) -> str:
        """Where a figure was read, in words."""
        self._value(name)
        return str(self.fields[name])


Kind = TypeVar("Kind", bound=Entry)


@cache
def _texts(kind: Any) -> Mapping[str, bool]:
    """Fields of an entry that are written as text, and whether there is a default."""
    return {
        f.name: f.default is not MISSING for f in dataclass_fields(kind) if f.name not in ("name", "aliases", "fields")
    }


def read(
    kind: type[Kind],
    table: str,
    name: str,
    raw: Any,
    file: str,
    *,
    needed: Sequence[str] = (),
    choices: Mapping[str, Sequence[str]] = MappingProxyType({}),
    made: Mapping[str, Callable[[str], Any]] = MappingProxyType({}),
    beside: Sequence[str] = (),
) -> Kind:
    """One entry from its table in a file: text, aliases and sourced figures, checked; errors name file, entry and field.

    Parameters
    ----------
    kind : type
        The class of the entry; its fields are text, its figures have units.
    table, name, raw, file
        Where it stands, and what TOML gave.
    needed : sequence of str
        What every entry has to give.
    choices : mapping
        The values that a text may have.
    made : mapping
        What a text is turned into: the device of that name.
    beside : sequence of str
        Fields that the caller reads itself.
    """
    where = f"{file}: {name[:60]}"
    if not isinstance(raw, Mapping):
        raise InputError(f'{where} is not a table; start it with ["{name[:60]}"]')
    made_of: Any = kind
    texts = _texts(made_of)
    known = (*texts, "aliases", *kind.FIGURES, *beside)
    for key in raw:
        if key not in known:
            raise InputError(f"{where}: {unknown_name('field', key, known)}")
    for key in needed:
        if key not in raw:
            raise InputError(f"{where}: no {key}; an entry under {table} needs it")
    words: dict[str, Any] = {key: raw.get(key, "") for key, free in texts.items() if key in raw or not free}
    for key, value in words.items():
        if not isinstance(value, str):
            raise InputError(f"{where}, {key} = {str(value)[:40]!r} is not text; put it in quotes")
    aliases = raw.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise InputError(f'{where}, aliases must be a list of names, as in ["NVLink4"]')
    given = {key: f for key, f in kind.FIGURES.items() if key in raw}
    fields = figures(raw, {key: f.unit for key, f in given.items()}, where, file)
    for key, f in given.items():
        value = fields[key].value
        if isinstance(f, count) and value != int(value):
            raise InputError(f"{where}, {key} = {value} must be a whole number")
        if f.share and value > 1:
            raise InputError(f"{where}, {key} = {value} is outside (0, 1]; write the share as a fraction")
    for key, allowed in choices.items():
        if key in words:
            choice(words[key], allowed, key, where)
    words |= {key: make(words[key]) for key, make in made.items() if key in words}
    return kind(name=name, aliases=tuple(aliases), fields=MappingProxyType(fields), **words)


def choice(value: str, allowed: Sequence[str], kind: str, where: str) -> str:
    """The value, when it is one of those allowed."""
    if value not in allowed:
        raise InputError(f"{where}: {unknown_name(kind, value, allowed)}")
    return value


def load(path: Path, make: Callable[[str, Any, str], Kind]) -> dict[str, Kind]:
    """All entries of a TOML file: as data, never executed, of bounded size."""
    return {name: make(name, raw, path.name) for name, raw in read_toml(path).items()}


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...


Named = TypeVar("Named", bound=_Named)
# How the shipped files are written; a test compares what is found by it with the whole of them as TOML.
_ENTRY = re.compile(r'^\["([^"\n]+)"\]$', re.M)
_ALIASES = re.compile(r"^aliases = \[(.*)\]$", re.M)
_QUOTED = re.compile(r'"([^"]*)"')


class LazyTable(ShownNames[Named]):
    """Entries of the catalogue's files in their order, each parsed on first use.

    To read all devices takes longer than to import the library and to solve; to find where each begins, a millisecond.
    """

    def __init__(self, kind: str, place: str, make: Callable[[str, Any, str], Named]) -> None:
        """``place``: a file, or a folder of files."""
        self._kind = kind
        self._make = make
        self._made: dict[str, Named] = {}
        self._texts: dict[str, tuple[str, str]] = {}  # file and text of an entry, by name
        self.names: dict[str, str] = {}  # by folded name and alias
        self.aliases: list[str] = []
        path = beside(__package__, place)
        for file in sorted(path.glob("*.toml")) if path.is_dir() else [path]:
            _, *found = _ENTRY.split(text_of(file))
            for name, text in zip(found[::2], found[1::2], strict=True):
                self._texts[name] = file.name, text
                written = _ALIASES.search(text)
                aliases = _QUOTED.findall(written[1]) if written else []
                self.aliases += aliases
                self.names |= {fold(key): name for key in (name, *aliases)}

    def __getitem__(self, name: str) -> Named:
        if name not in self._made:
            file, text = self._texts[name]
            self._made[name] = self._make(name, parse_toml(f'["{name}"]{text}', file)[name], file)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def where(self, key: str, values: Sequence[str]) -> list[Named]:
        """Entries of which a text is one of these values; no others are read."""
        lines = [f'\n{key} = "{value}"\n' for value in values]
        return [self[name] for name, (_, text) in self._texts.items() if any(line in text for line in lines)]


def find(kind: str, name: Any, entries: Mapping[str, Named], hint: str = "") -> Named:
    """The entry of that name or alias.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    """
    names = names_of(entries)
    if not isinstance(name, str) or fold(name) not in names:
        aliases = (
            entries.aliases if isinstance(entries, LazyTable) else (a for e in entries.values() for a in e.aliases)
        )
        raise unknown_name(kind, name, entries, hint, aliases)
    return entries[names[fold(name)]]


def names_of(entries: Mapping[str, Named]) -> Mapping[str, str]:
    """The name of an entry by its folded name and aliases."""
    if isinstance(entries, LazyTable):
        return entries.names
    return {fold(key): e.name for e in entries.values() for key in (e.name, *e.aliases)}
