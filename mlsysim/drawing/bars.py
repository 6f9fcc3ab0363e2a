"""Horizontal bars under one another: stacked from zero (what a total is made of), or swinging from a middle (a tornado)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from mlsysim.drawing.style import GRID, HATCHES, INK, PALETTE, PAPER, SHADES, WIDTH, Drawing, page, words
from mlsysim.errors import InputError

_LOW, _HIGH = "input at its low end", "input at its high end"
_RIGHT, _ROW = 24.0, 30.0
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
        left: float,
        thick: int,
        columns: tuple[int, float],
        middle: float | None = None,
        said: str = "",
    ) -> str:
        top = 64.0 if columns[0] == 3 else 52.0
        width, bottom, (low, high) = WIDTH * 100, top + _ROW * len(self.names), ends

        def place(value: float) -> float:
            return left + (value - low) / (high - low) * (width - left - _RIGHT)

        body = [f"<title>{escape(self.title or self.x_label)}</title>", words(width / 2, 16, self.title, size=13)]
        for i in range(6):
            value = low + i / 5 * (high - low)
            x = place(value)
            body.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="{GRID}"/>' + words(x, bottom + 16, f"{value:.3g}"))
        for i, name in enumerate(self.names):
            body.append(words(left - 6, top + _ROW * i + 19, name, "end", 11))
        inset = (_ROW - thick) / 2
        for piece in pieces:
            a, b = sorted((place(piece.start), place(piece.end)))
            color, _, shade = _LOOKS[piece.look]
            body.append(
                f'<rect x="{a:.1f}" y="{top + _ROW * piece.row + inset:.1f}" width="{b - a:.1f}" height="{thick}" '
                f'fill="{color}" fill-opacity="{shade}"/>'
            )
        if middle is not None:
            body.append(f'<path d="M{place(middle):.1f} {top}V{bottom}" stroke="{INK}"/>')
            body.append(words(place(middle) - 4, bottom - 3, said, "end", 11) if said else "")
        for i, (label, look) in enumerate((k, v) for k, v in legend.items() if k):
            x, y = left + (i % columns[0]) * columns[1], 30 + 16 * (i // columns[0])
            color, _, shade = _LOOKS[look]
            body.append(f'<rect x="{x}" y="{y - 3}" width="12" height="12" fill="{color}" fill-opacity="{shade}"/>')
            body.append(words(x + 17, y + 7, label, "start", 11))
        body.append(words((left + width - _RIGHT) / 2, bottom + 36, self.x_label))
        return page(width, bottom + 48, "".join(body))

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
        return self._svg(pieces, legend, (0.0, last), 150.0, 22, (3, 145.0), at, said)

    def paint(self, figure: Any) -> None:
        dressed = self._axes(figure, 3, *(self.limit or ()))
        axes, left = next(dressed), [0.0] * len(self.names)
        for (label, values), (color, hatch, _) in zip(self.parts.items(), _LOOKS, strict=False):
            axes.barh(self.names, values, left=left, label=label, color=color, hatch=hatch, edgecolor=PAPER, height=0.7)
            left = [a + b for a, b in zip(left, values, strict=True)]
        next(dressed)


@dataclass(frozen=True)
class Swings(_Rows):
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
        return self._svg(pieces, {_LOW: 0, _HIGH: 1}, ends, 190.0, 18, (2, 190.0), self.middle)

    def paint(self, figure: Any) -> None:
        dressed = self._axes(figure, 2, self.middle)
        axes = next(dressed)
        for label, ends, (color, hatch, _) in zip((_LOW, _HIGH), (self.at_low, self.at_high), _LOOKS, strict=False):
            widths = [end - self.middle for end in ends]
            look = {"color": color, "hatch": hatch, "edgecolor": PAPER, "height": 0.6}
            axes.barh(list(self.names), widths, left=self.middle, label=label, **look)
        next(dressed)
