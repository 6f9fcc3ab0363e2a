"""What a view returns: a drawing and the numbers beside it, the same in a notebook, in the lab and in a page."""

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from mlsysim import units
from mlsysim.drawing.style import Drawing
from mlsysim.errors import InputError

Value = float | int | str | bool
_SEVERAL = re.compile(r"^([a-z-]{2,}?)(?:(?<=ch)es|s)(?=$|/)")  # a noun of more than one
_PREFIXED = ("s", "byte", "FLOP", "W", "J", "kg", "L", "Hz")  # whose size `units.format` says by a prefix


class Reading:
    """A drawing and its numbers, as an instrument shows them.

    Parameters
    ----------
    drawing : Drawing or None
        What is drawn of it.
    numbers : (label, value, unit) or (label, value, unit, text)
        Words for the reader, the value with every digit, its unit ("1" for a count or a ratio, "%" for a fraction that
        is read in per cent, "" for a word), and how it is written where the unit does not say it well.
    note : str
        A sentence below.
    meaning : str
        What the numbers say now, in a sentence that a page shows where there is no note.

    >>> print(Reading(None, ("time", 0.0125, "s"), ("share of the peak", 0.5, "%"), ("bound by", "memory", "")))
    time: 12.5 ms
    share of the peak: 50.0 %
    bound by: memory
    """

    def __init__(self, drawing: Drawing | None, *numbers: Sequence[Any], note: str = "", meaning: str = "") -> None:
        if not (drawing is None or isinstance(drawing, Drawing)):
            raise InputError(f"Reading: drawing = {drawing!r} is no Drawing; give a Chart, Bars, Lanes, Panels or None")
        for number in numbers:
            if (
                isinstance(number, str)
                or len(number) not in (3, 4)
                or not all(isinstance(number[i], str) for i in (0, 2))
            ):
                raise InputError(f"Reading: {number!r} is not (label, value, unit) or (label, value, unit, text)")
        labels = [n[0] for n in numbers]
        if len(set(labels)) < len(labels):
            raise InputError(f"Reading: two numbers have the same label among {labels}")
        self.drawing, self.note, self.meaning = drawing, note, note or meaning
        self._numbers = [(n[0], n[1], n[2], n[3] if len(n) == 4 else written(n[1], n[2])) for n in numbers]

    def numbers(self) -> list[tuple[str, Value, str]]:
        """Label, value and unit of each number, in order."""
        return [(label, value, unit) for label, value, unit, _ in self._numbers]

    def rows(self) -> list[tuple[str, str, str]]:
        """Label, every digit, and the text to read, of each number."""
        return [(label, digits(value), text) for label, value, _, text in self._numbers]

    def __str__(self) -> str:
        lines = [f"{label}: {text}" for label, _, text in self.rows()]
        return "\n".join([*lines, self.note] if self.note else lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        figure = f"<figure>{self.drawing.svg()}</figure>" if self.drawing is not None else ""
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return f'<div class="reading">{figure}<dl>{listed(self.rows())}</dl>{note}</div>'


def listed(rows: Sequence[tuple[str, str, str]]) -> str:
    """Numbers as the items of a definition list, each with its value in full."""
    return "".join(
        f'<div><dt>{escape(label)}</dt><dd data-number="{escape(label)}" data-value="{escape(value)}">{escape(text)}</dd></div>'
        for label, value, text in rows
    )


def digits(value: Any) -> str:
    """A value with every digit, as a test reads it."""
    if isinstance(value, (bool, str)):
        return str(value)
    return repr(int(value)) if isinstance(value, int) else repr(float(value))


def written(value: Any, unit: str) -> str:
    """A value as a reader wants it.

    >>> written(512, "devices"), written(3.35e12, "byte/s"), written(0.421, "%"), written(1234567.8, "token/s")
    ('512 devices', '3.35 TB/s', '42.1 %', '1,234,568 token/s')
    >>> written(1, "micro-batches"), written(1.0, "tokens/s")
    ('1 micro-batch', '1 token/s')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "without end"
    if unit == "%":
        return units.percent(value, 1, signed=False)
    if unit.partition("/")[0] in _PREFIXED and known(unit):
        return units.format(value, unit)
    said = plain(value)
    if said == "1":
        unit = _SEVERAL.sub(r"\1", unit)
    return said + (f" {unit}" if unit not in ("", "1") else "")


def against(a: float, b: float) -> str:
    """The larger of two amounts against the smaller, in words that follow "is".

    >>> [against(a, 4.0) for a in (140.0, 14.0, 5.0, 4.01)]
    ['35 times', '3.5 times', '25 % more than', 'about the same as']
    """
    ratio = a / b
    if ratio < 1.02:
        return "about the same as"
    return f"{100 * (ratio - 1):.0f} % more than" if ratio < 2 else _times(ratio)


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 10 else f"{ratio:,.0f} times"


def changed(ratio: float) -> str:
    """What a change by so many times does, as a verb.

    >>> [changed(r) for r in (1.01, 1.25, 2.0, 3.5, 0.8, 0.5, 0.06)]
    ['hardly changes', 'grows by 25 %', 'doubles', 'grows to 3.5 times as much', 'falls by 20 %', 'halves', 'falls to 6 %']
    """
    if abs(ratio - 1) < 0.02:
        return "hardly changes"
    for exact, verb in ((2.0, "doubles"), (0.5, "halves")):
        if abs(ratio / exact - 1) < 0.02:
            return verb
    if ratio > 1:
        return f"grows by {100 * (ratio - 1):.0f} %" if ratio < 2 else f"grows to {_times(ratio)} as much"
    return f"falls by {100 * (1 - ratio):.0f} %" if ratio > 0.5 else f"falls to {100 * ratio:.2g} %"


def plain(value: float) -> str:
    """A number without a unit: whole ones whole, others to four digits, never as a power of ten where it can be read."""
    if isinstance(value, int) or 1e3 <= abs(value) < 1e15:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def known(unit: str) -> bool:
    """Whether the library knows a unit."""
    try:
        units.unit(unit)
    except ValueError:
        return False
    return True
