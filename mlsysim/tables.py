"""A small table that prints as text and shows as HTML in a notebook, with no dependency."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = [
    "Table",
    "table",
]

_ALONE = re.compile(r"[+−-]?[\d.,]+ ?\S{0,8}")  # a number with a unit, or a date


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of cells under headings; the caller formats numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        widths = [max(len(str(r[i])) for r in (self.head, *self.rows)) for i in range(len(self.head))]
        lines = [
            "  ".join(str(c).ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in (self.head, *self.rows)
        ]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])

    def _repr_html_(self) -> str:
        right = [_is_numeric([str(row[i]) for row in self.rows], label=not i) for i in range(len(self.head))]

        def cells(tag: str, row: Sequence[str]) -> str:
            sides = ["right" if r else "left" for r in right]
            return "".join(
                f'<{tag} style="text-align:{side}">{escape(str(c))}</{tag}>' for c, side in zip(row, sides, strict=True)
            )

        rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{cells('th', self.head)}</tr></thead><tbody>{rows}</tbody></table>"

    __repr__ = __str__


def _is_numeric(column: Sequence[str], label: bool = False) -> bool:
    """Whether every non-empty cell starts with a number, so that the column is aligned right.

    The first column names its row, so there a number must be all of it, but for a unit; a dash says nothing.

    >>> _is_numeric(["45 %", "–"]), _is_numeric(["8B, TP 1", "8B, TP 8"], label=True), _is_numeric(["1 kB"], label=True)
    (True, False, True)
    """
    said = [c for c in column if c not in ("", "–", "-")]
    if label:
        return bool(said) and all(_ALONE.fullmatch(c) for c in said)
    return bool(said) and all(c.lstrip("+−-")[:1].isdigit() for c in said)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table from its headings and rows.

    >>> print(table(["device", "ridge"], [["H100", "295"]]))
    device  ridge
    ------  -----
    H100    295
    """
    return Table(head, rows)
