"""Horizontal bars under one another: stacked from zero (what a total is made of), or swinging from a middle (a tornado)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from mlsysim.drawing.axes import Axis, label_ticks
from mlsysim.drawing.style import (
    GRID,
    HALO,
    HATCHES,
    INK,
    PALETTE,
    PAPER,
    SHADES,
    WIDE,
    Drawing,
    page,
    swatches,
    text_width,
    words,
)
from mlsysim.errors import InputError

_LOW, _HIGH = "input at its low end", "input at its high end"
_RIGHT = 18.0
MOST = 120.0  # units of a name that still stands beside its bar; longer ones stand above
_LOOKS = tuple(zip(PALETTE, HATCHES, SHADES, strict=True))


@dataclass(frozen=True)
class _Piece:
    """A rectangle from one value to another in a row."""

    row: int
    start: float
    end: float
    look: int


class _Rows(Drawing):
    """What both kinds share: names on the left, a value axis below, a legend above, rectangles in rows."""

    names: Sequence[str]
    x_label: str
    title: str

    @property
    def height(self) -> float:
        return 1.2 + 0.42 * len(self.names)

    def _svg(
        self,
        pieces: Iterable[_Piece],
        legend: Mapping[str, int],
        ends: tuple[float, float],
        thick: int,
        middle: float | None = None,
        said: str = "",
    ) -> str:
        longest = max(map(text_width, self.names))
        beside = longest <= MOST
        left, over = (longest + 14, 4.0) if beside else (10.0, 17.0)  # over: from the top of a row to its bar
        row = over + thick + 6
        body = [f"<title>{escape(self.title or self.x_label)}</title>", words(WIDE / 2, 16, self.title, size=13)]
        shown = [(label, *_LOOKS[look][::2]) for label, look in legend.items() if label]
        key, top = swatches(shown, 24.0 if self.title else 6.0)
        top += 6 if beside else 3
        bottom = top + row * len(self.names) + 2
        axis = Axis(*ends, False, left, WIDE - _RIGHT)
        body.append(key)
        for value, text in label_ticks(axis):
            x = axis.place(value)
            at = min(x, WIDE - text_width(text) / 2 - 2)
            body.append(f'<path d="M{x:.1f} {top:g}V{bottom:g}" stroke="{GRID}"/>' + words(at, bottom + 16, text))
        for piece in pieces:
            a, b = sorted((axis.place(piece.start), axis.place(piece.end)))
            color, _, shade = _LOOKS[piece.look]
            body.append(
                f'<rect x="{a:.1f}" y="{top + row * piece.row + over:.1f}" width="{b - a:.1f}" height="{thick}" '
                f'fill="{color}" fill-opacity="{shade}"/>'
            )
        if middle is not None:
            x = axis.place(middle)
            spans = (
                [(top, bottom)]
                if beside
                else [(y, y + thick) for y in (top + row * i + over for i in range(len(self.names)))]
            )
            body.append(f'<path d="{"".join(f"M{x:.1f} {a:g}V{b:g}" for a, b in spans)}" stroke="{INK}"/>')
            body.append(words(x - 4, top + 10, said, "end") if said else "")
        for i, name in enumerate(self.names):
            y = top + row * i + (over + thick / 2 + 4 if beside else 13)
            body.append(words(left - 6 if beside else left, y, name, "end" if beside else "start", extra=HALO))
        body.append(words((left + WIDE - _RIGHT) / 2, bottom + 36, self.x_label))
        return page(WIDE, bottom + 46, "".join(body))

    def _axes(self, figure: Any, columns: int, middle: float | None = None, said: str = "") -> Any:
        axes = figure.subplots()
        yield axes
        if middle is not None:
            axes.axvline(middle, color=INK, linewidth=1)
            axes.annotate(
                said,
                (middle, 0),
                xycoords=("data", "axes fraction"),
                xytext=(-4, 4),
                textcoords="offset points",
                ha="right",
            )
        axes.invert_yaxis()
        axes.set_axisbelow(True)
        axes.set_xlabel(self.x_label)
        if self.title:
            axes.set_title(self.title, fontsize=10)
        if any(not str(text).startswith("_") for text in axes.get_legend_handles_labels()[1]):
            figure.legend(loc="outside upper center", ncols=columns, fontsize=8)
        yield axes


@dataclass(frozen=True)
class Bars(_Rows):
    """Stacked bars, one per name; ``parts`` gives each bar's pieces by label, in order from the left. ``limit`` is a line."""

    names: Sequence[str]
    parts: Mapping[str, Sequence[float]]
    x_label: str
    title: str = ""
    limit: tuple[float, str] | None = None

    def __post_init__(self) -> None:
        if not self.names or not 0 < len(self.parts) <= len(PALETTE):
            raise InputError(f"Bars: give at least one name and 1 to {len(PALETTE)} parts, not {len(self.parts)}")
        for label, values in self.parts.items():
            if len(values) != len(self.names) or min(values) < 0:
                raise InputError(f"Bars: {label!r} needs a value of at least 0 for each of {len(self.names)} names")

    def svg(self) -> str:
        totals = [sum(values[i] for values in self.parts.values()) for i in range(len(self.names))]
        pieces = []
        for row in range(len(self.names)):
            start = 0.0
            for look, values in enumerate(self.parts.values()):
                pieces.append(_Piece(row, start, start + values[row], look))
                start += values[row]
        legend = {label: i for i, label in enumerate(self.parts)}
        at, said = self.limit or (None, "")
        last = max([*totals, at or 0.0]) or 1.0
        return self._svg(pieces, legend, (0.0, last), 22, at, said)

    def paint(self, figure: Any) -> None:
        dressed = self._axes(figure, 3, *(self.limit or ()))
        axes, left = next(dressed), [0.0] * len(self.names)
        for (label, values), (color, hatch, _) in zip(self.parts.items(), _LOOKS, strict=False):
            axes.barh(self.names, values, left=left, label=label, color=color, hatch=hatch, edgecolor=PAPER, height=0.7)
            left = [a + b for a, b in zip(left, values, strict=True)]
        next(dressed)


@dataclass(frozen=True)
class TornadoChart(_Rows):
    """A tornado: the answer with each input alone at the low and at the high end of its range, from the middle."""

    names: Sequence[str]
    at_low: Sequence[float]
    at_high: Sequence[float]
    middle: float
    x_label: str
    title: str = ""

    def __post_init__(self) -> None:
        if not self.names or not len(self.names) == len(self.at_low) == len(self.at_high):
            raise InputError(
                f"Swings: {len(self.names)} names need as many answers at the low end ({len(self.at_low)}) and at the "
                f"high end ({len(self.at_high)}), and at least one"
            )

    def svg(self) -> str:
        values = [*self.at_low, *self.at_high, self.middle]
        room = 0.05 * (max(values) - min(values)) or abs(min(values)) or 1.0
        ends = (min(values) - room, max(values) + room)
        both = zip(self.at_low, self.at_high, strict=True)
        pieces = [_Piece(row, self.middle, end, look) for row, pair in enumerate(both) for look, end in enumerate(pair)]
        return self._svg(pieces, {_LOW: 0, _HIGH: 1}, ends, 18, self.middle)

    def paint(self, figure: Any) -> None:
        dressed = self._axes(figure, 2, self.middle)
        axes = next(dressed)
        for label, ends, (color, hatch, _) in zip((_LOW, _HIGH), (self.at_low, self.at_high), _LOOKS, strict=False):
            widths = [end - self.middle for end in ends]
            look = {"color": color, "hatch": hatch, "edgecolor": PAPER, "height": 0.6}
            axes.barh(list(self.names), widths, left=self.middle, label=label, **look)
        next(dressed)
