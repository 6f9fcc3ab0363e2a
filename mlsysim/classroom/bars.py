"""Horizontal bars: what one total is made of (stacked), or how far each input alone can move an answer (a tornado).

Drawn like the charts of :mod:`mlsysim.classroom.charts`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from mlsysim.classroom.charts import GRID, INK, PALETTE, PAPER, STYLE, WIDTH, show
from mlsysim.errors import InputError

HATCHES = ("", "//", "..", "xx", "\\\\", "--")  # told apart in grey
_SHADES = (1.0, 0.75, 0.45, 0.6, 0.3, 0.85)  # the same in an SVG, by opacity


@dataclass(frozen=True)
class _Pieces:
    """A piece of every bar: where it starts and how far it goes, in the units of the axis."""

    label: str
    starts: Sequence[float]
    widths: Sequence[float]
    color: str
    hatch: str
    shade: float


@dataclass(frozen=True)
class _Look:
    """Sizes: inches of matplotlib in ``height``, all others dots of the SVG."""

    height: float
    bar: int
    left: float
    top: float
    legend: int  # the height at which it stands
    columns: int
    column: int


@dataclass(frozen=True)
class Bars:
    """Horizontal bars, one per name; ``parts`` gives each bar's pieces by label, in order from the left."""

    names: Sequence[str]
    parts: Mapping[str, Sequence[float]]
    x_label: str
    title: str = ""
    look: ClassVar = _Look(height=0.7, bar=22, left=150.0, top=64.0, legend=30, columns=3, column=145)
    middle: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.names or not 0 < len(self.parts) <= len(PALETTE):
            raise InputError(f"Bars: give at least one name and 1 to {len(PALETTE)} parts, not {len(self.parts)}")
        for label, values in self.parts.items():
            if len(values) != len(self.names) or min(values) < 0:
                raise InputError(f"Bars: {label!r} needs a value of at least 0 for each of {len(self.names)} names")

    def pieces(self) -> list[_Pieces]:
        found, left = [], [0.0] * len(self.names)
        for (label, values), color, hatch, shade in zip(self.parts.items(), PALETTE, HATCHES, _SHADES, strict=False):
            found.append(_Pieces(label, left, values, color, hatch, shade))
            left = [a + b for a, b in zip(left, values, strict=True)]
        return found

    def ends(self) -> tuple[float, float]:
        """What the axis shows: from zero to the longest bar."""
        return 0.0, max(map(sum, zip(*self.parts.values(), strict=True))) or 1.0

    def _repr_svg_(self) -> str:
        return svg(self)


@dataclass(frozen=True)
class Swings:
    """Horizontal bars from a middle: the answer with each input at the low and at the high end of its range."""

    names: Sequence[str]
    at_low: Sequence[float]
    at_high: Sequence[float]
    middle: float
    x_label: str
    title: str = ""
    look: ClassVar = _Look(height=0.6, bar=18, left=190.0, top=52.0, legend=36, columns=2, column=190)

    def __post_init__(self) -> None:
        if not self.names or not len(self.names) == len(self.at_low) == len(self.at_high):
            raise InputError(
                f"Swings: {len(self.names)} names need as many answers at the low end ({len(self.at_low)}) and at the "
                f"high end ({len(self.at_high)}), and at least one"
            )

    def pieces(self) -> list[_Pieces]:
        start = [self.middle] * len(self.names)
        return [
            _Pieces(f"input at its {end} end", start, [value - self.middle for value in values], color, hatch, shade)
            for end, values, color, hatch, shade in (
                ("low", self.at_low, PALETTE[0], "", 1.0),
                ("high", self.at_high, PALETTE[1], "//", 0.6),
            )
        ]

    def ends(self) -> tuple[float, float]:
        """What the axis shows: all answers, with a little air."""
        values = [*self.at_low, *self.at_high, self.middle]
        low, high = min(values), max(values)
        room = 0.05 * (high - low) or abs(low) or 1.0
        return low - room, high + room

    def _repr_svg_(self) -> str:
        return svg(self)


def draw_bars(bars: Bars | Swings) -> None:
    """Show the bars: a matplotlib figure in a notebook, an SVG where matplotlib is missing."""
    show(bars, matplotlib_figure)


draw_swings = draw_bars


def matplotlib_figure(bars: Bars | Swings) -> Any:
    """The bars as a matplotlib figure in the house style."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(layout="constrained", figsize=(WIDTH, 1.2 + 0.42 * len(bars.names)))
        for piece in bars.pieces():
            look = {"color": piece.color, "hatch": piece.hatch, "edgecolor": PAPER, "height": bars.look.height}
            axes.barh(list(bars.names), piece.widths, left=piece.starts, label=piece.label, **look)
        if bars.middle is not None:
            axes.axvline(bars.middle, color=INK, linewidth=1)
        axes.invert_yaxis()
        axes.set_axisbelow(True)
        axes.set_xlabel(bars.x_label)
        if bars.title:
            axes.set_title(bars.title, fontsize=10)
        figure.legend(loc="outside upper center", ncols=bars.look.columns, fontsize=8)
    return figure


def svg(bars: Bars | Swings) -> str:
    """The bars as a self-contained SVG, drawn with the standard library alone."""
    look, pieces, (low, high) = bars.look, bars.pieces(), bars.ends()
    width, left, right, row, top = 600.0, look.left, 24.0, 30.0, look.top
    bottom = top + row * len(bars.names)

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - right)

    def text(x: float, y: float, content: str, anchor: str = "middle", size: int = 12) -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(content)}</text>'

    def box(x: str, y: str, wide: str, high: int, piece: _Pieces) -> str:
        fill = f'fill="{piece.color}" fill-opacity="{piece.shade}"'
        return f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" {fill}/>'

    body = [f"<title>{escape(bars.title or bars.x_label)}</title>", text(width / 2, 16, bars.title, size=13)]
    for i in range(6):
        value = low + i / 5 * (high - low)
        x = place(value)
        body.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="{GRID}"/>' + text(x, bottom + 16, f"{value:.3g}"))
    for i, name in enumerate(bars.names):
        y = top + row * i
        body.append(text(left - 6, y + 19, name, "end", 11))
        for piece in pieces:
            start, end = sorted((place(piece.starts[i]), place(piece.starts[i] + piece.widths[i])))
            body.append(box(f"{start:.1f}", f"{y + (row - look.bar) / 2:.1f}", f"{end - start:.1f}", look.bar, piece))
    if bars.middle is not None:
        body.append(f'<path d="M{place(bars.middle):.1f} {top}V{bottom}" stroke="{INK}"/>')
    for i, piece in enumerate(pieces):
        x, y = left + (i % look.columns) * look.column, look.legend + 16 * (i // look.columns)
        body.append(box(f"{x}", f"{y - 9}", "12", 12, piece))
        body.append(text(x + 17, y + 1, piece.label, "start", 11))
    body.append(text((left + width - right) / 2, bottom + 36, bars.x_label))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {bottom + 48:g}" width="{width:g}" role="img" fill="{INK}"'
    return f'{head} font-family="sans-serif"><rect width="100%" height="100%" fill="{PAPER}"/>{"".join(body)}</svg>'
