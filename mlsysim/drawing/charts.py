"""Charts on two axes: as an SVG as narrow as a phone, its lines named where they run, the rest in a key above; or in Matplotlib."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any
from zlib import crc32

from mlsysim.drawing.axes import axis, label_ticks
from mlsysim.drawing.marks import Line, Marks, Name
from mlsysim.drawing.naming import Boxes, Point, around
from mlsysim.drawing.style import GRID, HALO, INK, LETTER, WIDE, Drawing, page, text_width, words
from mlsysim.errors import InputError

# How lines are told apart beside their colour, in their order.
DASHES = ("solid", "dashed", "dotted", "dashdot")
_MATPLOTLIB_DASHES = {"dashdotdot": (0, (6, 2, 1, 2, 1, 2))}  # a fifth style; the others have the same names there


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
        return plotted(self)

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


_DASHES = {"solid": "", "dashed": "6 4", "dotted": "2 3", "dashdot": "8 3 2 3", "dashdotdot": "8 3 2 3 2 3"}
TALL, RIGHT = 216.0, 16.0  # of the plot; what is left beside it
ROW, SYMBOL = 17.0, 32.0  # of the key
CROWDED = 24.0  # what it may cost to name a line where it runs, rather than in the key


def mark(x: float, y: float, marker: str, color: str) -> str:
    """A point, in the shape that its marker names: square, diamond, triangle, small dot, or dot."""
    if marker == "s":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{color}"/>'
    if marker in ("D", "^"):
        low = 5 if marker == "D" else 0
        path = f"M{x:.1f} {y - 5:.1f}l5 {5 if low else 9}" + ("l-5 5l-5 -5z" if low else "h-10z")
        return f'<path d="{path}" fill="{color}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2 if marker == "." else 4.5}" fill="{color}"/>'


def _beside(x: float, y: float, width: float, *, above: bool) -> list[Point]:
    """Where the words of a mark may begin, first where its maker wants them."""
    first, other = (-6.0, 14.0) if above else (14.0, -6.0)
    sides = [(x + 8, y + first), (x + 8, y + other), (x + 8, y + 4)]
    sides += [(x - 8 - width, y + first), (x - 8 - width, y + other), (x - 8 - width, y + 4)]
    return sides + [
        (x - share * width, y + dy) for dy in (18.0, -10.0, 32.0, -24.0, 46.0, -38.0) for share in (0.5, 0.0, 1.0)
    ]


class _Plot:
    """What lies between the axes: lines and marks in place, and words that keep out of each other's way."""

    def __init__(self, chart: Chart) -> None:
        series: list[Line | Marks] = [*chart.lines, *chart.marks]
        xs = [v for s in series for v in s.x] or [1.0, 10.0]
        ys = [v for s in series for v in s.y] or [1.0, 10.0]
        self.chart = chart
        self.ay = axis(ys, chart.y_range, chart.y_log, TALL, 0.0)
        self.y_ticks = label_ticks(self.ay)
        self.left = 12.0 + max([text_width(text) for _, text in self.y_ticks], default=0)
        self.right = WIDE - RIGHT
        self.ax = axis(xs, chart.x_range, chart.x_log, self.left, self.right)
        self.lines = [self.places(line) for line in chart.lines]
        self.boxes = Boxes(self.lines, self.left + 1, self.right + 4, 0.0, TALL)
        self.points = {id(m): self.places(m) for m in chart.marks if not isinstance(m, Name)}
        self.boxes.taken += [(x - 5, y - 5, x + 5, y + 5) for points in self.points.values() for x, y in points]
        self.said: list[str] = []
        self.key: list[Line | Marks] = []
        for name in chart.marks:
            if isinstance(name, Name):
                self.written(name)
        for marks in chart.marks:
            if not isinstance(marks, Name):
                self.noted(marks)
        for i, line in enumerate(chart.lines):
            if line.label and not self.along(line.label, line.color, i):
                self.key.append(line)
        self.key += [m for m in chart.marks if m.label]

    def places(self, one: Line | Marks) -> list[Point]:
        return [(self.ax.place(x), self.ay.place(y)) for x, y in zip(one.x, one.y, strict=True)]

    def inside(self, point: Point) -> bool:
        return self.left - 0.1 <= point[0] <= self.right + 0.1 and -0.1 <= point[1] <= TALL + 0.1

    def say(
        self, text: str, spots: Sequence[tuple[float, Point]], color: str, own: int = -1, most: float = math.inf
    ) -> bool:
        """Write words at the cheapest free place, if one costs at most so much."""
        found = self.boxes.place(spots, text_width(text), own, most)
        if found is not None:
            self.said.append(f'<text x="{found[0]:.1f}" y="{found[1]:.1f}" fill="{color}">{escape(text)}</text>')
        return found is not None

    def along(self, text: str, color: str, i: int) -> bool:
        """Name a line where it runs, if there is room."""
        return self.say(text, self.boxes.along(i, text_width(text)), color, i, CROWDED)

    def written(self, name: Name) -> None:
        """Words that their maker put on a line: there, elsewhere along it if something is in the way, or in the key."""
        text, (x, y) = name.texts[0], self.places(name)[0]
        width = text_width(text)
        start = {"start": x + 4, "middle": x - width / 2, "end": x - 4 - width}[name.anchor]
        on = [
            i
            for i, line in enumerate(self.chart.lines)
            if line.color == name.color and any(abs(a - x) + abs(b - y) < 0.1 for a, b in self.lines[i])
        ]
        own = on[0] if on else -1
        spots = [(0.0, (start, y - 6 if name.above else y + 15)), (1.0, (start, y + 15 if name.above else y - 6))]
        spots += [(3.0, at) for at in around(x, y, width)]
        spots += [(cost + 6, at) for cost, at in (self.boxes.along(own, width) if on else [])]
        if not self.say(text, spots, name.color, own):
            self.key.append(replace(self.chart.lines[own], label=text) if on else replace(name, label=text))

    def noted(self, marks: Marks) -> None:
        """The words of single points."""
        for (x, y), text in zip(self.points[id(marks)], marks.texts, strict=False):
            if text and self.inside((x, y)):
                beside = _beside(x, y, text_width(text), above=marks.above)
                if not self.say(text, [(float(i), at) for i, at in enumerate(beside)], INK):
                    self.said.append(words(*beside[0], text, "start"))

    def drawn(self) -> str:
        """All of it, from the upper end of the axes."""
        grid, ticks = [], []
        for t, text in label_ticks(self.ax):
            x = self.ax.place(t)
            grid.append(f"M{x:.1f} 0V{TALL:g}")
            half = text_width(text) / 2
            ticks.append(words(min(max(x, half), WIDE - half - 2), TALL + 16, text))
        for t, text in self.y_ticks:
            grid.append(f"M{self.left:.1f} {self.ay.place(t):.1f}H{self.right:g}")
            ticks.append(words(self.left - 6, self.ay.place(t) + 4, text, "end"))
        lines = "".join(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" stroke="{line.color}" '
            f'stroke-width="2" stroke-dasharray="{_DASHES[line.dash]}"/>'
            for line, points in zip(self.chart.lines, self.lines, strict=True)
        )
        dots = "".join(
            mark(x, y, m.marker, m.color)
            for m in self.chart.marks
            if id(m) in self.points
            for x, y in self.points[id(m)]
        )
        clip = f"plot-{crc32((lines + dots).encode()):x}"  # another chart on the same page has another
        return (
            f'<path d="{"".join(grid)}" stroke="{GRID}"/>{"".join(ticks)}'
            f'<path d="M{self.left:.1f} 0V{TALL:g}H{self.right:g}" stroke="{INK}" fill="none"/>'
            f'<clipPath id="{clip}"><rect x="{self.left - 5:.1f}" y="-5" width="{self.right - self.left + 10:.1f}" height="{TALL + 10:g}"/></clipPath>'
            f'<g clip-path="url(#{clip})">{lines}{dots}</g>'
            + (f'<g font-size="12" {HALO}>{"".join(self.said)}</g>' if self.said else "")
            + words((self.left + self.right) / 2, TALL + 36, self.chart.x_label)
        )

    def keys(self, top: float) -> tuple[list[str], float]:
        """The key of what is not named where it runs, in rows below ``top``, and where these end."""
        x, y, found = 8.0, top, []
        for one in self.key:
            parts = textwrap.wrap(one.label, int((WIDE - 16 - SYMBOL) / LETTER))
            wide = SYMBOL + max(map(text_width, parts)) + 12
            if x > 8 and x + wide > WIDE + 4:
                x, y = 8.0, y + ROW
            if isinstance(one, Line):
                found.append(
                    f'<path d="M{x:.0f} {y + 8:.0f}h26" stroke="{one.color}" stroke-width="2.5" stroke-dasharray="{_DASHES[one.dash]}"/>'
                )
            else:
                found.append(mark(x + 13, y + 8, one.marker, one.color))
            for i, part in enumerate(parts):
                found.append(words(x + SYMBOL, y + 12 + ROW * i, part, "start"))
            x, y = x + wide, y + ROW * (len(parts) - 1)
        return found, y + ROW if self.key else top


def plotted(chart: Chart) -> str:
    """The chart as an SVG."""
    plot = _Plot(chart)
    body = [f"<title>{escape(chart.title or chart.y_label + ' against ' + chart.x_label)}</title>"]
    top = 4.0
    if chart.title:
        body.append(words(WIDE / 2, top + 12, chart.title, size=13))
        top += 20
    body.append(words(4, top + 12, chart.y_label, "start", extra='font-weight="bold"'))
    key, top = plot.keys(top + 19)
    top += 8
    body += [*key, f'<g transform="translate(0 {top:g})">{plot.drawn()}</g>']
    return page(WIDE, top + TALL + 44, "".join(body))


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
