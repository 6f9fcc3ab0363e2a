"""What a result of this package shows: a title, tables, notes; as text and in a notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from mlsysim.tables import Table


@dataclass(frozen=True, repr=False)
class Report:
    """What ``explain()`` returns here: prints as text, shows as tables in a notebook."""

    title: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        blocks = ["\n".join(f"  {line}" for line in str(t).splitlines()) for t in self.tables]
        return "\n".join([self.title, "\n\n".join(blocks), *(f"  {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(n)}</p>" for n in self.notes)
        return f"<p><strong>{escape(self.title)}</strong></p>" + "".join(t._repr_html_() for t in self.tables) + notes
