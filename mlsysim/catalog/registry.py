"""Entries of the user's own, kept beside the shipped ones for as long as the process runs, and found by name like those."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

from mlsysim.catalog.display import Catalogue
from mlsysim.errors import InputError

Kind = TypeVar("Kind")
KINDS = ("device", "model", "link", "node", "price", "grid", "facility")

_entries: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}


def fold(name: str) -> str:
    """A name as compared: case, blanks and underscores do not count."""
    return name.casefold().replace("_", "-").replace(" ", "-")


def find(kind: str, name: Any) -> Any:
    """The user's entry of that name or alias, or None."""
    mine = _entries[kind]
    if not mine or not isinstance(name, str):
        return None
    wanted = fold(name)
    return next((e for e in mine.values() if wanted in map(fold, (e.name, *e.aliases))), None)


def joined(kind: str, shipped: Mapping[str, Kind]) -> Mapping[str, Kind]:
    """The shipped entries, and after them the user's."""
    return Catalogue(kind, dict(shipped) | _entries[kind]) if _entries[kind] else shipped


def keep(kind: str, entry: Any, known: Mapping[str, Any], replace: bool) -> None:
    """Keep an entry under its name and aliases, none of which may be taken. ``known`` are all entries of the kind."""
    shipped = {fold(n) for e in known.values() if e.name not in _entries[kind] for n in (e.name, *e.aliases)}
    for name in (entry.name, *entry.aliases):
        if not name.isprintable():
            raise InputError(
                f"{kind} {name[:60]!r} has characters that no terminal prints; give a name of visible ones"
            )
        if fold(name) in shipped:
            raise InputError(f"{kind} {name[:60]!r} is a name of the catalogue; give yours another name")
        taken = find(kind, name)
        if taken is not None and taken != entry and not (replace and taken.name == entry.name):
            raise InputError(
                f"{kind} {name[:60]!r} is one of yours already, with other figures; give it another name, "
                "or say replace=True"
            )
    _entries[kind][entry.name] = entry


@contextmanager
def all_or_none() -> Iterator[None]:
    """Entries added inside stay only if no error is raised."""
    before = {kind: dict(entries) for kind, entries in _entries.items()}
    try:
        yield
    except BaseException:
        _entries.update(before)
        raise


@contextmanager
def for_now() -> Iterator[None]:
    """Entries added inside are removed afterwards: a command leaves none behind in its process."""
    before = {kind: dict(entries) for kind, entries in _entries.items()}
    try:
        yield
    finally:
        _entries.update(before)


def everything() -> Mapping[str, Mapping[str, Any]]:
    """All user entries by kind, which the key of a stored result must contain."""
    return MappingProxyType(_entries)


def user_entries() -> Mapping[str, tuple[str, ...]]:
    """Names of all user entries, by kind.

    >>> user_entries()["device"]
    ()
    """
    return MappingProxyType({kind: tuple(entries) for kind, entries in _entries.items()})


def forget(*names: str) -> None:
    """Take out entries that were added, by name; without a name, all of them. Shipped entries stay.

    Raises
    ------
    InputError
        A name that was not added.
    """
    known = {fold(name): (kind, name) for kind, entries in _entries.items() for name in entries}
    for name in names or [name for _, name in known.values()]:
        if fold(name) not in known:
            have = ", ".join(name for _, name in known.values()) or "nothing"
            raise InputError(f"forget: {name[:60]!r} was not added; you added {have}")
    for name in names or [name for _, name in known.values()]:
        kind, kept = known[fold(name)]
        _entries[kind].pop(kept, None)
