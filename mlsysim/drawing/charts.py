"""Charts on two axes: curves and points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlsysim.drawing.marks import Line, Marks, Name
from mlsysim.drawing.plot import plotted
from mlsysim.drawing.style import Drawing
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
