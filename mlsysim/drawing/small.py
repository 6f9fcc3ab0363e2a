"""Small pictures for sliders: words on the lines, readable on a phone, drawn by the standard library in a millisecond.

They are drawn 360 units wide, the width of a phone's column, so that no text falls below nine pixels there.
"""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from mlsysim.drawing.axes import Axis, minor_ticks, thin_ticks
from mlsysim.drawing.bars import Bars
from mlsysim.drawing.charts import Chart
from mlsysim.drawing.lanes import Lanes, Span
from mlsysim.drawing.marks import Line, Marks
from mlsysim.drawing.naming import Boxes, Point
from mlsysim.drawing.style import GRID, INK, PAPER, PLAIN, Drawing, text_width
from mlsysim.errors import InputError

Text = Callable[[float], str]
WIDE, SHOWN, LEFT, RIGHT, FOOT = 360, 480, 56.0, 350.0, 38.0
LETTERS = 11.0  # units of a letter
CROWDED = 30.0  # what it may cost to name a line where it runs, rather than over the picture


class Trace(NamedTuple):
    """A line through points, with its name on it; a gap where a value is None."""

    label: str
    y: Sequence[float | None]
    color: str = PLAIN
    dashed: bool = False


class Part(NamedTuple):
    """A piece of a row."""

    label: str
    value: float
    color: str = PLAIN


class Row(NamedTuple):
    """A bar: its name, its pieces from the left, and what stands behind it."""

    label: str
    parts: Sequence[Part]
    text: str


class Dot(NamedTuple):
    """A point with its name."""

    label: str
    x: float
    y: float
    color: str = PLAIN


class Stretch(NamedTuple):
    """From when to when something runs in a lane, and what stands on it."""

    lane: str
    start: float
    end: float
    color: str = PLAIN
    text: str = ""


class Small(Drawing):
    """What all share: a heading, an accessible name, one size."""

    title: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    @property
    def small(self) -> "Drawing":
        return self

    always_svg = True

    def sheet(self, height: float, body: Sequence[str], scales: str = "") -> str:
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height:g}" width="{SHOWN}" role="img" '
            f'fill="{INK}" font-family="sans-serif" font-size="11"{scales}><title>{escape(self.title)}</title>'
            f'<rect width="100%" height="100%" fill="{PAPER}"/>{"".join(body)}</svg>'
        )
        return text.replace('"', "'")  # a notebook would write a backslash before each (escape() leaves none in words)


def wide(text: str, *, bold: bool = False) -> float:
    """How wide words of a small picture are at most."""
    return text_width(text, LETTERS, bold=bold)


def gathered(kind: str, parts: Sequence[str]) -> str:
    """Parts that share attributes, which stand once."""
    return f"<g {kind}>{''.join(parts)}</g>" if parts else ""


def say(x: float, y: float, words: str, anchor: str = "", color: str = "", bold: bool = False) -> str:
    """Words in a small picture."""
    extra = f' text-anchor="{anchor}"' if anchor else ""
    extra += f' fill="{color}"' if color else ""
    extra += ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{extra}>{escape(words)}</text>'


def _frame(picture: Any, ax: Axis, ay: Axis, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> list[str]:
    """Heading, grid, axes and their words."""
    top, bottom = ay.end, ay.start
    body = [say(4, 13, picture.y_label, bold=True)]
    rows = [(ay.place(t), picture.y_text(t)) for t in y_ticks]
    grid = "".join(f"M{LEFT:g} {y:.0f}H{RIGHT:g}" for y, _ in rows)
    names = [say(LEFT - 5, y + 4, words) for y, words in rows]
    body.append(f'<path d="{grid}" stroke="{GRID}"/>' + gathered('text-anchor="end"', names))
    body.append(f'<path d="M{LEFT:g} {top:g}V{bottom:g}H{RIGHT:g}" stroke="{INK}" fill="none"/>')
    below: list[str] = []
    for t in x_ticks:
        words = picture.x_text(t)
        half = wide(words) / 2
        below.append(say(min(max(ax.place(t), half), WIDE - half - 3), bottom + 15, words))
    below.append(say((LEFT + RIGHT) / 2, bottom + FOOT - 6, picture.x_label, bold=True))
    return [*body, gathered('text-anchor="middle"', below)]


class _Names:
    """Names in a picture: beside what they name where nothing else is, or in rows under the heading."""

    def __init__(self, lines: Sequence[Sequence[Point]], dots: Sequence[Point], top: float, bottom: float) -> None:
        self.boxes = Boxes(lines, LEFT + 1, RIGHT + 4, top, bottom)
        self.boxes.taken += [(x - 5, y - 5, x + 5, y + 5) for x, y in dots]
        self.said: list[str] = []
        self.over: list[tuple[str, str, bool]] = []

    def name(
        self, words: str, spots: Sequence[tuple[float, Point]], color: str, own: int = -1, dashed: bool = False
    ) -> None:
        at = self.boxes.place(spots, wide(words, bold=True), own, CROWDED)
        if at is None:
            self.over.append((words, color, dashed))
        else:
            self.said.append(f'<text x="{at[0]:.0f}" y="{at[1]:.0f}" fill="{color}">{escape(words)}</text>')

    def line(self, own: int, words: str, color: str, dashed: bool = False) -> None:
        """The name of a line, where it runs."""
        self.name(words, self.boxes.along(own, wide(words, bold=True)), color, own, dashed)

    def sheet(self, picture: Small, high: float, body: Sequence[str], ax: Axis, ay: Axis) -> str:
        """The picture, a heading and the rest, with its names; the rest moves down where some of them stand over it.

        It says where its axes run and from what to what, so that a page can mark a reader's guess.
        """
        key, x, y = [], 8.0, 16.0
        for words, color, dashed in self.over:
            long = 24 + wide(words, bold=True)
            x, y = (x, y) if x > 8.0 and x + long < WIDE else (8.0, y + 14.0)
            dash = ' stroke-dasharray="6 4"' if dashed else ""
            key.append(f'<path d="M{x:.0f} {y - 4:g}h18" stroke="{color}" stroke-width="2.2"{dash}/>')
            key.append(say(x + 24, y, words, color=color, bold=True))
            x += long + 10
        heading, *rest = [*body, gathered(_HALO, self.said)]
        down = y - 16.0
        moved = [gathered(f'transform="translate(0 {down:g})"', rest)] if down else rest
        ends = (("x", ax, 0.0), ("y", ay, down))
        scales = "".join(
            f' data-{name}="{a.start + by:g} {a.end + by:g} {a.low:g} {a.high:g}{" log" * a.log}"'
            for name, a, by in ends
        )
        return picture.sheet(high + down, [heading, *key, *moved], scales)


def _ticks(axis: Axis, most: int) -> list[float]:
    """Values to write on an axis: where it has few powers of ten, ones, twos and fives as well."""
    ticks = axis.ticks()
    return thin_ticks(minor_ticks((axis.low, axis.high)) if axis.log and len(ticks) < 3 else ticks, most)


def _span(values: list[float], log: bool) -> tuple[float, float]:
    """The ends of an axis: of amounts from zero, unless they all lie close together."""
    low, high = min(values), max(values)
    if log:
        room = max((high / low) ** 0.06, 1.1)
        return low / room, high * room
    if 0 <= low <= 0.6 * high or high <= 0:
        low = min(low, 0.0)
        high = max(high, 0.0)
        return (low - 0.06 * (high - low) if low < 0 else 0.0), high + (0.06 * (high - low) or 1.0)
    room = 0.08 * (high - low) or 0.5 * abs(high)
    return low - room, high + room


def _known(values: Sequence[float | None]) -> list[float]:
    return [float(v) for v in values if v is not None and math.isfinite(v)]


class Curves(Small):
    """Lines over one axis, each with its name on it; where the slider stands, a point on each."""

    def __init__(
        self,
        y_label: str,
        x_label: str,
        x: Sequence[float],
        traces: Sequence[Trace],
        at: float,
        x_text: Text,
        y_text: Text,
        *,
        x_log: bool = False,
        y_log: bool | None = None,
        corners: Sequence[tuple[str, float]] = (),
    ) -> None:
        self.y_label, self.x_label, self.x, self.traces, self.at = y_label, x_label, list(x), list(traces), at
        self.x_text, self.y_text, self.x_log, self.corners = x_text, y_text, x_log, list(corners)
        self.title = f"{y_label} against {x_label}"
        values = [v for t in self.traces for v in _known(t.y)]
        if not values:
            raise InputError(
                f"Curves: {self.title}: no value can be drawn; give at least one trace with a finite value"
            )
        if y_log and max(values) > 0:  # what is not above zero leaves a gap
            values = [v for v in values if v > 0]
            self.traces = [t._replace(y=[v if v is not None and v > 0 else None for v in t.y]) for t in self.traces]
        wide = min(values) > 0 and max(values) > 20 * min(values)
        self.y_log = wide if y_log is None else y_log and min(values) > 0

    @property
    def height(self) -> float:
        return 3.8

    def svg(self) -> str:
        high, top = 232.0, 24.0
        bottom = high - FOOT
        ends = _span([v for t in self.traces for v in _known(t.y)], self.y_log)
        ax = Axis(self.x[0], self.x[-1], self.x_log, LEFT, RIGHT)
        ay = Axis(*ends, self.y_log, bottom, top)
        body = _frame(self, ax, ay, _ticks(ax, 5), _ticks(ay, 7))
        here = ax.place(self.at)
        body.append(f'<path d="M{here:.1f} {top:g}V{bottom:g}" stroke="{INK}" stroke-dasharray="2 3"/>')
        lines, points = [], []
        for trace in self.traces:
            pieces: list[list[tuple[float, float]]] = [[]]
            for at, value in zip(self.x, trace.y, strict=True):
                if value is None or not math.isfinite(value):
                    pieces.append([])
                else:
                    pieces[-1].append((ax.place(at), ay.place(value)))
            lines.append([p for piece in pieces for p in piece])
            path = "".join(_path(piece) for piece in pieces if piece)
            dash = ' stroke-dasharray="6 4"' if trace.dashed else ""
            body.append(f'<path d="{path}" fill="none" stroke="{trace.color}" stroke-width="2.2"{dash}/>')
            value = trace.y[self.x.index(self.at)] if self.at in self.x else None
            if value is not None and math.isfinite(value):
                points.append((here, ay.place(value)))
                if not trace.dashed:
                    body.append(f'<circle cx="{here:.1f}" cy="{points[-1][1]:.1f}" r="4.5" fill="{trace.color}"/>')
        corners = [(name, ax.place(value)) for name, value in self.corners if self.x[0] <= value <= self.x[-1]]
        upright = [[(x, top), (x, bottom)] for x in (here, *(x for _, x in corners))]
        names = _Names([*lines, *upright], points, top, bottom)
        for name, x in corners:
            body.append(f'<path d="M{x:.1f} {top:g}V{bottom:g}" stroke="{PLAIN}" stroke-dasharray="6 4"/>')
            starts = (x + 4, x - 4 - wide(name, bold=True))
            heights = (bottom - 6, top + 13, *range(round(bottom) - 22, round(top) + 13, -16))
            names.name(
                name,
                [(2 * i + j, (s, y)) for i, y in enumerate(heights) for j, s in enumerate(starts)],
                PLAIN,
                dashed=True,
            )
        for i, trace in enumerate(self.traces):
            if lines[i]:
                names.line(i, trace.label, trace.color, trace.dashed)
        return names.sheet(self, high, body, ax, ay)

    def paint(self, figure: Any) -> None:
        kept = [[(x, y) for x, y in zip(self.x, t.y, strict=True) if y is not None] for t in self.traces]
        lines = [
            Line([x for x, _ in k], [y for _, y in k], t.label, t.color, "dashed" if t.dashed else "solid")
            for k, t in zip(kept, self.traces, strict=True)
        ]
        Chart(self.x_label, self.y_label, lines, x_log=self.x_log, y_log=self.y_log).paint(figure)


def _path(piece: Sequence[tuple[float, float]]) -> str:
    """A path through points, without those that lie on the straight line between the ones that stay."""
    kept = {0, len(piece) - 1}
    open_ends = [(0, len(piece) - 1)]
    while open_ends:
        a, b = open_ends.pop()
        (x0, y0), (x1, y1) = piece[a], piece[b]
        slope = (y1 - y0) / ((x1 - x0) or 1.0)
        off, worst = max(
            ((abs(y0 + slope * (piece[i][0] - x0) - piece[i][1]), i) for i in range(a + 1, b)), default=(0.0, 0)
        )
        if off > 0.4:
            kept.add(worst)
            open_ends += [(a, worst), (worst, b)]
    return "M" + "L".join(f"{piece[i][0]:.1f} {piece[i][1]:.1f}" for i in sorted(kept))


_HALO = f'paint-order="stroke" stroke="{PAPER}" stroke-width="3" stroke-linejoin="round" font-weight="bold"'


class Rows(Small):
    """Bars under one another, each named on its left, its amount behind it; a line that no bar should pass."""

    def __init__(
        self,
        quantity: str,
        rows: Sequence[Row],
        limits: Sequence[tuple[str, float]] = (),
        *,
        cascade: bool = False,
    ) -> None:
        self.title, self.rows, self.limits, self.cascade = quantity, list(rows), list(limits), cascade
        if not self.rows:
            raise InputError(f"Rows: {quantity}: give at least one row")

    @property
    def height(self) -> float:
        return 1.2 + 0.42 * len(self.rows)

    def svg(self) -> str:
        many = list(dict.fromkeys((p.label, p.color) for row in self.rows for p in row.parts if p.label))
        key, x, below = [], 8.0, 30.0
        for name, color in many:  # as many to a line as it holds
            if x > 8.0 and x + wide(name, bold=True) > WIDE:
                x, below = 8.0, below + 14.0
            key.append(say(x, below, name, color=color, bold=True))
            x += wide(name, bold=True) + 10
        pitch, top = 34.0, (below + 10.0 if many else 24.0) + (16 if self.limits else 0)
        bottom = top + pitch * len(self.rows) + 2
        sums = [sum(p.value for p in row.parts) for row in self.rows]
        begins = [sum(sums[:i]) for i in range(len(sums))] if self.cascade else [0.0] * len(sums)
        low = min([0.0, *sums])
        high = max([b + s for b, s in zip(begins, sums, strict=True)] + [v for _, v in self.limits] + [0.0])
        room = max(wide(row.text) for row in self.rows) + 10
        left, right = 8.0, WIDE - 8.0
        scale = (right - left - room) / ((high - low) or 1.0)
        zero = left - low * scale
        body = [say(4, 13, self.title, bold=True), *key]
        for row, start in zip(self.rows, begins, strict=True):
            y = top + pitch * self.rows.index(row)
            body.append(say(left, y + 10, row.label))
            x = zero + start * scale
            for part in row.parts:
                width = part.value * scale
                a, b = (x, width) if width >= 0 else (x + width, -width)
                body.append(
                    f'<path d="M{a:.1f} {y + 14:g}h{max(b, 0.5):.1f}v12h-{max(b, 0.5):.1f}z" fill="{part.color}"/>'
                )
                x += width
            behind = max(x, zero) + 4
            for at in sorted(zero + value * scale for _, value in self.limits):
                if behind - 3 < at < behind + wide(row.text) + 2:
                    behind = at + 4  # past the line
            body.append(say(behind, y + 24, row.text))
        if low < 0:
            body.append(f'<path d="M{zero:.1f} {top:g}V{bottom:g}" stroke="{INK}"/>')
        for name, value in self.limits:
            x, width = zero + value * scale, wide(name, bold=True)
            line = ""
            for i, row in enumerate(self.rows):  # not through the name of a row
                y = top + pitch * i
                line += f"M{x:.1f} {y + 12 if left + wide(row.label) > x - 2 else y - (6 if i else 3):g}V{y + 28:g}"
            body.append(f'<path d="{line}" stroke="{INK}" stroke-dasharray="6 4"/>')
            body.append(say(min(max(x, left + width / 2), right - width / 2), top - 8, name, "middle", bold=True))
        return self.sheet(bottom + 6, body)

    def paint(self, figure: Any) -> None:
        names = list(dict.fromkeys(p.label for row in self.rows for p in row.parts))
        parts = {n: [sum(p.value for p in row.parts if p.label == n) for row in self.rows] for n in names}
        Bars([row.label for row in self.rows], parts, self.title, "").paint(figure)


class Timeline(Small):
    """What runs when: a lane for each, time to the right."""

    def __init__(self, quantity: str, spans: Sequence[Stretch], text: Text) -> None:
        self.title, self.spans, self.text = quantity, list(spans), text
        if not self.spans:
            raise InputError(f"Timeline: {quantity}: give at least one span")

    @property
    def height(self) -> float:
        return 1.2 + 0.32 * len(dict.fromkeys(s.lane for s in self.spans))

    def svg(self) -> str:
        lanes = list(dict.fromkeys(s.lane for s in self.spans))
        top, pitch, left, right = 24.0, 38.0, 8.0, WIDE - 12.0
        bottom, last = top + pitch * len(lanes), max(s.end for s in self.spans) or 1.0
        axis = Axis(0.0, last, False, left, right)
        body = [say(4, 13, self.title, bold=True)]
        for t in thin_ticks(axis.ticks(), 5):
            x, words = axis.place(t), self.text(t)
            half = wide(words) / 2
            body.append(f'<path d="M{x:.1f} {top:g}V{bottom:g}" stroke="{GRID}"/>')
            body.append(say(min(max(x, half), WIDE - half - 3), bottom + 14, words, "middle"))
        body += [say(left, top + pitch * i + 12, name) for i, name in enumerate(lanes)]
        runs: dict[str, list[str]] = {}
        on_them: list[str] = []
        for s in self.spans:
            y, a, b = top + pitch * lanes.index(s.lane) + 16, axis.place(s.start), axis.place(s.end)
            runs.setdefault(s.color, []).append(
                f"M{a:.1f} {y:g}h{max(b - a - 0.6, 0.6):.1f}v15h-{max(b - a - 0.6, 0.6):.1f}z"
            )
            if s.text and wide(s.text, bold=True) < b - a - 2:
                on_them.append(say((a + b) / 2, y + 11.5, s.text, "middle", PAPER, bold=True))
        body += [f'<path d="{"".join(paths)}" fill="{color}"/>' for color, paths in runs.items()]
        return self.sheet(bottom + 22, body + on_them)

    def paint(self, figure: Any) -> None:
        Lanes([Span(s.lane, s.start, s.end, s.text) for s in self.spans], self.title).paint(figure)


class Scatter(Small):
    """Points with their names on two axes, and a trail of what lies between them."""

    def __init__(
        self,
        y_label: str,
        x_label: str,
        dots: Sequence[Dot],
        x_text: Text,
        y_text: Text,
        trails: Sequence[tuple[str, Sequence[float], Sequence[float], str]] = (),
        *,
        x_log: bool = False,
        y_log: bool = False,
    ) -> None:
        self.y_label, self.x_label, self.dots, self.trails = y_label, x_label, list(dots), list(trails)
        self.x_text, self.y_text, self.x_log, self.y_log = x_text, y_text, x_log, y_log
        self.title = f"{y_label} against {x_label}"

    def svg(self) -> str:
        high, top = 232.0, 24.0
        bottom = high - FOOT
        xs = [d.x for d in self.dots] + [v for t in self.trails for v in t[1]]
        ys = [d.y for d in self.dots] + [v for t in self.trails for v in t[2]]
        ax = Axis(*_span(xs, self.x_log), self.x_log, LEFT, RIGHT)
        ay = Axis(*_span(ys, self.y_log), self.y_log, bottom, top)
        body = _frame(self, ax, ay, _ticks(ax, 5), _ticks(ay, 6))
        lines = []
        for _, tx, ty, color in self.trails:
            lines.append([(ax.place(x), ay.place(y)) for x, y in zip(tx, ty, strict=True)])
            body.append(f'<path d="{_path(lines[-1])}" fill="none" stroke="{color}" stroke-width="2.2"/>')
        names = _Names(lines, [(ax.place(d.x), ay.place(d.y)) for d in self.dots], top, bottom)
        for d in self.dots:
            x, y, width = ax.place(d.x), ay.place(d.y), wide(d.label, bold=True)
            body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{d.color}"/>')
            if d.label:
                starts = (x + 8, x - 8 - width, x - width / 2)
                spots = [(s, y + 4) for s in starts[:2]]
                spots += [(s, y + down) for down in (-9, 18, -23, 32, -37, 46) for s in reversed(starts)]
                names.name(d.label, [(float(i), at) for i, at in enumerate(spots)], d.color)
        for i, (name, _, _, color) in enumerate(self.trails):
            if name:
                names.line(i, name, color)
        return names.sheet(self, high, body, ax, ay)

    def paint(self, figure: Any) -> None:
        lines = [Line(x, y, name, color) for name, x, y, color in self.trails]
        marks = [Marks([d.x], [d.y], d.label, (), d.color) for d in self.dots]
        Chart(self.x_label, self.y_label, lines, marks, x_log=self.x_log, y_log=self.y_log).paint(figure)
