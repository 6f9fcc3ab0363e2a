"""Display of catalogue entries: a few lines, and every figure with its source."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import accumulate
from typing import Any, TypeVar

from mlsysim.catalog.sourced import Sourced
from mlsysim.results import Displayable, Report, Result, format_rows, plain
from mlsysim.results import format_value as written
from mlsysim.tables import table

Kind = TypeVar("Kind")
_MOST_FIGURES, _MOST_LETTERS = 12, 1300


class Named(Mapping[str, Kind], Displayable):
    """A mapping of entries of one kind that shows their names, not all that they hold."""

    _kind: str

    def _lines(self) -> list[str]:
        names = list(self)
        fit = sum(end <= _MOST_LETTERS for end in accumulate(len(name) + 2 for name in names))
        said = ", ".join(names[:fit]) + (f" and {len(names) - fit} more" if len(names) > fit else "")
        return format_rows(
            f"{len(names)} of kind {self._kind}", ("names", said), ("ask it", f"catalog.{self._kind}(name)")
        )

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def explain(self) -> Report:
        """Every entry by the first line of what it shows."""
        rows = [(name, repr(entry).split("\n")[0]) for name, entry in self.items()]
        return Report(f"{len(rows)} of kind {self._kind}", (table(("Name", "Entry"), rows),))

    def to_dict(self) -> dict[str, Any]:
        """Every entry, for JSON."""
        return dict(plain(dict(self)))

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per entry with the values of its figures."""
        rows = []
        for name, entry in self.items():
            figures = figures_of(entry)
            rows.append({"name": name, **({k: f.value for k, f in figures.items()} if figures else plain(entry))})
        return rows


class Catalogue(Named[Kind]):
    """Entries of one kind by name, as a dictionary holds them."""

    def __init__(self, kind: str, entries: Mapping[str, Kind]) -> None:
        self._kind, self._entries = kind, entries

    def __getitem__(self, name: str) -> Kind:
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> KeysView[str]:
        return self._entries.keys()

    def values(self) -> ValuesView[Kind]:
        return self._entries.values()

    def items(self) -> ItemsView[str, Kind]:
        return self._entries.items()


def figures_of(entry: Any) -> dict[str, Sourced]:
    """The sourced figures that an entry holds, by name."""
    held = {name: value for name, value in vars(entry).items() if isinstance(value, Sourced)}
    for name in ("fields", "published"):
        found = getattr(entry, name, None)
        held |= {k: v for k, v in found.items() if isinstance(v, Sourced)} if isinstance(found, Mapping) else {}
    return held


class ShownEntry(Result):
    """An entry with sourced figures: a line for each, and a table that says where each was read."""

    name: str

    def _words(self) -> str:
        """What is said of the entry beside its name."""
        said = [
            str(getattr(self, n))
            for n in ("kind", "vendor", "date", "item", "algorithm", "applies_to")
            if getattr(self, n, "")
        ]
        return ", ".join(said)

    def summary(self) -> list[str]:
        words, figures = self._words(), figures_of(self)
        rows = [
            (name.replace("_", " "), f"{figure.value:.0f}" if name == "year" else figure.words)
            for name, figure in list(figures.items())[:_MOST_FIGURES]
        ]
        left = len(figures) - len(rows)
        note = str(getattr(self, "notes", "") or getattr(self, "note", ""))
        more = ("more", f"{left} other figures: explain()" if left else "")
        return format_rows(self.name + (f": {words}" if words else ""), *rows, more, ("notes", short(note)))

    def explain(self) -> Report:
        """Every figure, where it was read, what was changed of it, and where else it stands."""
        rows = [
            (
                name,
                f"{f.value:.0f}" if name == "year" else written(f.value, f.unit, 6),
                f.printed,
                str(f),
                "; ".join(f.agree),
                f.retrieved,
            )
            for name, f in figures_of(self).items()
        ]
        notes = [str(getattr(self, n)) for n in ("notes", "note") if getattr(self, n, "")]
        return Report(
            self.summary()[0],
            (table(("Figure", "Value", "Printed", "Where from", "The same in", "Read on"), rows),),
            notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Name, words, and figures in SI units with their sources, for JSON."""
        figures = figures_of(self)
        held: dict[str, Any] = {
            k: _plain(v) for k, v in vars(self).items() if k not in ("fields", "published", *figures)
        }
        return held | {"figures": {k: plain(vars(f)) for k, f in figures.items()}}

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per figure."""
        return [{"name": self.name, "figure": k, **plain(vars(f))} for k, f in figures_of(self).items()]


def _plain(value: Any) -> Any:
    return getattr(value, "name", None) if isinstance(value, Displayable) else plain(value)


def short(text: str, most: int = 240) -> str:
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"
