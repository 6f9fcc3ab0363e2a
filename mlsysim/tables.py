"""A small table that prints as text and shows as HTML in a notebook, with no dependency."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of cells under headings; numbers are formatted by whoever makes the table."""

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
        head = "".join(f"<th>{escape(str(h))}</th>" for h in self.head)
        rows = "".join("<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in r) + "</tr>" for r in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    __repr__ = __str__


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table from its headings and rows.

    >>> print(table(["device", "ridge"], [["H100", "295"]]))
    device  ridge
    ------  -----
    H100    295
    """
    return Table(head, rows)
