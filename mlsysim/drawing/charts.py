"""Charts on two axes: curves and points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from typing import Any

from mlsysim.drawing.style import GRID, INK, PALETTE, PAPER, Drawing, page, words
from mlsysim.errors import InputError

# How lines are told apart beside their colour, in their order.
DASHES = ("solid", "dashed", "dotted", "dashdot")
_SVG_DASHES = {"solid": "", "dashed": "6 4", "dotted": "2 3", "dashdot": "8 3 2 3", "dashdotdot": "8 3 2 3 2 3"}
_MATPLOTLIB_DASHES = {"dashdotdot": (0, (6, 2, 1, 2, 1, 2))}  # a fifth style; the others have the same names there


@dataclass(frozen=True)
class Line:
    """A curve through points."""

    x: Sequence[float]
    y: Sequence[float]
    label: str
    color: str = PALETTE[0]
    dash: str = "solid"


@dataclass(frozen=True)
class Marks:
    """Single points, each with its own text (which may be empty)."""

    x: Sequence[float]
    y: Sequence[float]
    label: str
    texts: Sequence[str] = ()
    color: str = PALETTE[1]
    marker: str = "o"
    above: bool = False  # where the texts stand: right of the points and above them, else below


@dataclass(frozen=True)
class Name(Marks):
    """Words on a line instead of a legend: they start, end or have their middle at the point."""

    anchor: str = "middle"


@dataclass(frozen=True)
class Chart(Drawing):
    """A chart on logarithmic (default) or linear axes; axis labels carry the units."""

    x_label: str
    y_label: str
    lines: Sequence[Line] = ()
    marks: Sequence[Marks] = ()
    title: str = ""
    x_log: bool = True
    y_log: bool = True
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None

    def svg(self) -> str:
        return _svg(self)

    def paint(self, figure: Any) -> None:
        axes = figure.subplots()
        for line in self.lines:
            dash = _MATPLOTLIB_DASHES.get(line.dash, line.dash)
            axes.plot(line.x, line.y, label=line.label, color=line.color, linestyle=dash)
        for marks in self.marks:
            if isinstance(marks, Name):
                side = {"start": "left", "middle": "center", "end": "right"}[marks.anchor]
                where, away = (marks.x[0], marks.y[0]), (0, 5 if marks.above else -12)
                axes.annotate(
                    marks.texts[0],
                    where,
                    xytext=away,
                    textcoords="offset points",
                    ha=side,
                    fontsize=8,
                    color=marks.color,
                )
                continue
            axes.plot(marks.x, marks.y, marks.marker, label=marks.label, color=marks.color, markersize=7)
            for x, y, text in zip(marks.x, marks.y, marks.texts, strict=False):
                axes.annotate(
                    text, (x, y), xytext=(6, 5 if marks.above else -12), textcoords="offset points", fontsize=8
                )
        if self.x_log:
            axes.set_xscale("log")
        if self.y_log:
            axes.set_yscale("log")
        if self.x_range:
            axes.set_xlim(*self.x_range)
        if self.y_range:
            axes.set_ylim(*self.y_range)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        if self.title:
            axes.set_title(self.title, fontsize=10)
        if any([line.label for line in self.lines] + [marks.label for marks in self.marks]):
            axes.legend(fontsize=8)


def on_lines(chart: Chart, *places: float) -> Chart:
    """The same chart with the name of each line on it, and no legend for lines.

    Parameters
    ----------
    chart : Chart
        With named lines.
    *places : float
        For each line, in order, the share of its points at which its name stands: above it, or below it if negative.

    Raises
    ------
    InputError
        Not as many places as lines, or one outside [-1, 1].

    >>> on_lines(Chart("x", "y", [Line([1, 2, 3], [1, 2, 3], "up")]), 0.5).marks[0].texts
    ['up']
    """
    if len(places) != len(chart.lines) or not all(-1 <= place <= 1 for place in places):
        raise InputError(
            f"on_lines: places = {list(places)} for {len(chart.lines)} lines; give one in [-1, 1] for each"
        )
    scale = math.log if chart.y_log else float
    least, most = chart.y_range or (
        min(y for line in chart.lines for y in line.y),
        max(y for line in chart.lines for y in line.y),
    )
    names = []
    for line, place in zip(chart.lines, places, strict=True):
        last = len(line.x) - 1
        i, near = round(abs(place) * last), max(1, last // 8)
        rise = (scale(line.y[min(last, i + near)]) - scale(line.y[max(0, i - near)])) / (scale(most) - scale(least))
        if abs(rise) < 0.04:  # flat: away from the ends of the axis
            anchor = "start" if abs(place) < 0.25 else "end" if abs(place) > 0.75 else "middle"
        else:  # the side on which the line is not
            anchor = "end" if (rise > 0) == (place >= 0) else "start"
        names.append(Name([line.x[i]], [line.y[i]], "", [line.label], line.color, "", place >= 0, anchor))
    return replace(chart, lines=[replace(line, label="") for line in chart.lines], marks=[*chart.marks, *names])


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    log: bool
    start: float
    end: float

    def place(self, value: float) -> float:
        low, high, value = (
            (math.log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, (last - first) // 6)
            return [10.0**e for e in range(first, last + 1, every)]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(n for n in (1, 2, 5, 10) if n * power >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [step * i for i in range(first, last + 1)]


def _padded(low: float, high: float, log: bool) -> tuple[float, float]:
    """A little air around the data, as matplotlib gives."""
    if log:
        room = (high / low) ** 0.05
        return low / room, high * room
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _axis(values: list[float], given: tuple[float, float] | None, log: bool, start: float, end: float) -> _Axis:
    if log and min(values) <= 0:
        raise InputError(f"chart: a logarithmic axis cannot show {min(values):g}; give values above 0 or a linear axis")
    low, high = given or _padded(min(values), max(values), log)
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
    return _Axis(low, high, log, start, end)


def _mark(x: float, y: float, marker: str, color: str) -> str:
    """A point, in the shape that its marker names: square, diamond, triangle, small dot, or dot."""
    if marker == "s":
        return f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" fill="{color}"/>'
    if marker in ("D", "^"):
        low = 6 if marker == "D" else 0
        path = f"M{x:.1f} {y - 6:.1f}l6 {6 if low else 11}" + ("l-6 6l-6 -6z" if low else "h-12z")
        return f'<path d="{path}" fill="{color}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2 if marker == "." else 5}" fill="{color}"/>'


def _along(one: Line | Marks, ax: _Axis, ay: _Axis) -> list[tuple[float, float]]:
    """Points of what is drawn, close enough that a legend cannot lie between two of a line."""
    points = [(ax.place(x), ay.place(y)) for x, y in zip(one.x, one.y, strict=True)]
    if isinstance(one, Marks):
        return points
    parts = 12
    return [
        (a[0] + (b[0] - a[0]) * i / parts, a[1] + (b[1] - a[1]) * i / parts)
        for a, b in pairwise(points)
        for i in range(parts + 1)
    ]


def _svg(chart: Chart) -> str:
    width, height, left, right, top, bottom = 600.0, 380.0, 70.0, 24.0, 30.0, 48.0
    series: list[Line | Marks] = [*chart.lines, *chart.marks]
    xs = [v for s in series for v in s.x] or [1.0, 10.0]
    ys = [v for s in series for v in s.y] or [1.0, 10.0]
    ax = _axis(xs, chart.x_range, chart.x_log, left, width - right)
    ay = _axis(ys, chart.y_range, chart.y_log, height - bottom, top)

    body = [f"<title>{escape(chart.title or chart.y_label + ' against ' + chart.x_label)}</title>"]
    for t in ax.ticks():
        x = ax.place(t)
        body.append(
            f'<path d="M{x:.1f} {top}V{height - bottom}" stroke="{GRID}"/>' + words(x, height - bottom + 16, f"{t:g}")
        )
    for t in ay.ticks():
        y = ay.place(t)
        body.append(
            f'<path d="M{left} {y:.1f}H{width - right}" stroke="{GRID}"/>' + words(left - 6, y + 4, f"{t:g}", "end")
        )
    body.append(f'<path d="M{left} {top}V{height - bottom}H{width - right}" stroke="{INK}" fill="none"/>')
    body.append(words((left + width - right) / 2, height - 10, chart.x_label))
    middle = (top + height - bottom) / 2
    body.append(words(16, middle, chart.y_label, extra=f'transform="rotate(-90 16 {middle:.1f})"'))
    body.append(words((left + width - right) / 2, 16, chart.title, size=13))
    clip = f'<clipPath id="plot"><rect x="{left}" y="{top}" width="{width - left - right}" height="{height - top - bottom}"/></clipPath>'
    curves = []
    for line in chart.lines:
        points = " ".join(f"{ax.place(x):.1f},{ay.place(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
        curves.append(
            f'<polyline points="{points}" fill="none" stroke="{line.color}" stroke-width="2" stroke-dasharray="{_SVG_DASHES[line.dash]}"/>'
        )
    for marks in chart.marks:
        if isinstance(marks, Name):
            cx, cy = ax.place(marks.x[0]), ay.place(marks.y[0])
            look = f'fill="{marks.color}" stroke="{PAPER}" stroke-width="3" paint-order="stroke"'
            away = {"start": 4, "middle": 0, "end": -4}[marks.anchor]
            wide = 6.4 * len(marks.texts[0])  # and inside the axes
            before, after = {"start": (0.0, wide), "middle": (wide / 2, wide / 2), "end": (wide, 0.0)}[marks.anchor]
            cx = min(max(cx, left + before + 6), width - right - after - 6)
            curves.append(
                words(cx + away, cy - 6 if marks.above else cy + 15, marks.texts[0], marks.anchor, extra=look)
            )
            continue
        texts = [*marks.texts, *[""] * len(marks.x)]
        for x, y, label in zip(marks.x, marks.y, texts, strict=False):
            cx, cy = ax.place(x), ay.place(y)
            curves.append(_mark(cx, cy, marks.marker, marks.color))
            curves.append(words(cx + 8, cy - 6 if marks.above else cy + 14, label, "start", size=11))
    body.append(clip + '<g clip-path="url(#plot)">' + "".join(curves) + "</g>")
    named = [one for one in series if one.label]
    wide, tall = 40 + 6.2 * max([len(one.label) for one in named], default=0), 16.0 * len(named)
    # lower right unless something is there; then another corner, the middle above or the middle on the left
    sides, ends = (
        (left + 10, (left + width - right - wide) / 2, width - right - wide),
        (
            top + 18,
            (top + height - bottom - tall) / 2,
            height - bottom + 4 - tall,
        ),
    )
    places = [(sides[x], ends[y]) for x, y in ((2, 2), (0, 0), (2, 0), (0, 2), (1, 0), (0, 1))]
    drawn = [point for one in series for point in _along(one, ax, ay)]
    x0, y0 = min(
        places,
        key=lambda at: sum(at[0] - 6 < x < at[0] + wide + 6 and at[1] - 18 < y < at[1] + tall - 6 for x, y in drawn),
    )
    for i, one in enumerate(named):
        y = y0 + 16 * i
        if isinstance(one, Line):
            dash = _SVG_DASHES[one.dash]
            body.append(
                f'<path d="M{x0:.0f} {y - 4:.0f}h28" stroke="{one.color}" stroke-width="2.5" stroke-dasharray="{dash}"/>'
            )
        else:
            body.append(_mark(x0 + 14, y - 4, one.marker, one.color))
        body.append(words(x0 + 34, y, one.label, "start", size=11))
    return page(width, height, "".join(body))
