"""Scenes: drawings of things. Boxes, bars to scale, blocks, tracks of time and arrows, with their words on them.

One visual language: a device is a rounded box, memory a bar to scale, a link an arrow as wide as its bandwidth, time runs to
the right; compute is blue, memory green, network orange, waiting grey. A scene is as narrow as a phone, its words are large
enough for one, and whoever makes a scene with words that do not fit is told so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from mlsysim.drawing.style import INK, PALETTE, PAPER, Drawing, inside, page, words
from mlsysim.errors import InputError

WIDEST, PHONE, SMALLEST = (
    480.0,
    339.0,
    10.0,
)  # units of a scene; pixels of a phone's text column; pixels of a letter there
TEXT = 13  # size of words in units
_LETTER = 0.53  # mean width of a letter of a sans-serif font over its size
COLOURS = {
    "compute": PALETTE[0],
    "network": PALETTE[1],
    "memory": PALETTE[2],
    "other": PALETTE[3],
    "extra": PALETTE[4],
    "waiting": PALETTE[5],
    "plain": INK,
}
TINTS = {"waiting": 0.14, "plain": 0.0}  # of a fill, over the paper
Point = tuple[float, float]


def colour_of(kind: str) -> str:
    """The colour that a kind of thing has everywhere.

    Raises
    ------
    InputError
        Another kind.

    >>> colour_of("memory")
    '#00845f'
    """
    if kind not in COLOURS:
        raise InputError(f"kind = {kind!r} has no colour; use one of {', '.join(COLOURS)}")
    return COLOURS[kind]


def text_width(text: str, size: float) -> float:
    """About how wide words are, in units.

    >>> text_width("HBM", 10) < 20
    True
    """
    return _LETTER * size * len(text)


class Shape:
    """What a scene is made of. It draws itself as SVG and on matplotlib's axes, and knows the room that it takes."""

    def svg(self) -> str:
        raise NotImplementedError

    def paint(self, axes: Any) -> None:
        raise NotImplementedError

    @property
    def sizes(self) -> Sequence[float]:
        """Of its words."""
        return ()

    @property
    def room(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom."""
        raise NotImplementedError


@dataclass(frozen=True)
class Words(Shape):
    """Words at a point; several lines are written below one another, around it."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    size: float = TEXT
    kind: str = "plain"
    bold: bool = False
    light: bool = False  # written on a full colour

    @property
    def lines(self) -> list[tuple[float, str]]:
        parts = self.text.split("\n")
        step = 1.2 * self.size
        first = self.y + 0.36 * self.size - step * (len(parts) - 1) / 2
        return [(first + i * step, part) for i, part in enumerate(parts)]

    @property
    def colour(self) -> str:
        return PAPER if self.light else colour_of(self.kind)

    @property
    def sizes(self) -> Sequence[float]:
        return (self.size,) if self.text else ()

    @property
    def room(self) -> tuple[float, float, float, float]:
        wide = max(text_width(part, self.size) for _, part in self.lines)
        left = self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * wide
        ys = [y for y, _ in self.lines]
        return left, ys[0] - self.size, left + wide, ys[-1] + 0.3 * self.size

    def svg(self) -> str:
        extra = f'fill="{self.colour}"' + (' font-weight="bold"' if self.bold else "")
        size = round(self.size) if self.size == round(self.size) else self.size
        return "".join(words(self.x, y, part, self.anchor, size, extra) for y, part in self.lines if part)  # type: ignore[arg-type]

    def paint(self, axes: Any) -> None:
        align = {"start": "left", "middle": "center", "end": "right"}[self.anchor]
        weight = "bold" if self.bold else "normal"
        for y, part in self.lines:
            axes.text(
                self.x, y, part, ha=align, va="baseline", fontsize=0.72 * self.size, color=self.colour, weight=weight
            )


@dataclass(frozen=True)
class Box(Shape):
    """A thing with a name: rounded for a device, square for what is in it, dashed for what is not there."""

    x: float
    y: float
    width: float
    height: float
    text: str = ""
    kind: str = "plain"
    rounded: bool = False
    full: bool = False  # in its full colour, with light words
    dashed: bool = False
    size: float = TEXT
    bold: bool = False
    at: str = "middle"  # of the box, its words stand: middle, or top, where other shapes stand inside

    def __post_init__(self) -> None:
        if min(self.width, self.height) < 0:
            raise InputError(
                f"Box {self.text!r}: width = {self.width:g}, height = {self.height:g}; neither may be below 0"
            )
        colour_of(self.kind)
        wide = max(text_width(line, self.size) for line in self.text.split("\n"))
        if wide > self.width + 2:
            raise InputError(
                f"Box {self.text!r} needs {wide:.0f} units and has {self.width:.0f}; break its lines or widen it"
            )

    @property
    def centre(self) -> Point:
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def left(self) -> Point:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        return self.x + self.width, self.y + self.height / 2

    @property
    def top(self) -> Point:
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        return self.x + self.width / 2, self.y + self.height

    @property
    def sizes(self) -> Sequence[float]:
        return (self.size,) if self.text else ()

    @property
    def room(self) -> tuple[float, float, float, float]:
        return self.x, self.y, self.x + self.width, self.y + self.height

    @property
    def fill(self) -> str:
        """Its colour, or a tint of it on paper; never transparent, since arrows end behind boxes."""
        share = 1.0 if self.full else TINTS.get(self.kind, 0.2)
        own, paper = (bytes.fromhex(c[1:]) for c in (colour_of(self.kind), PAPER))
        return "#" + bytes(round(share * a + (1 - share) * b) for a, b in zip(own, paper, strict=True)).hex()

    @property
    def _words(self) -> Words:
        lines = self.text.count("\n") + 1
        y = self.centre[1] if self.at == "middle" else self.y + 0.75 * self.size + 0.6 * self.size * (lines - 1) + 2
        return Words(self.centre[0], y, self.text, size=self.size, light=self.full, bold=self.bold)

    def svg(self) -> str:
        corner = f' rx="{min(8.0, self.height / 3):g}"' if self.rounded else ""
        dash = ' stroke-dasharray="4 3"' if self.dashed else ""
        colour = (
            PAPER if self.full else colour_of(self.kind)
        )  # full boxes side by side stay apart, and so do their words
        shape = (
            f'<rect x="{self.x:.1f}" y="{self.y:.1f}" width="{self.width:.1f}" height="{self.height:.1f}"{corner} '
            f'fill="{self.fill}" stroke="{colour}"{dash}/>'
        )
        return shape + (self._words.svg() if self.text else "")

    def paint(self, axes: Any) -> None:
        from matplotlib.patches import FancyBboxPatch, Rectangle

        colour, style = colour_of(self.kind), "--" if self.dashed else "-"
        look: dict[str, Any] = {"facecolor": self.fill, "edgecolor": colour, "linestyle": style, "linewidth": 0.8}
        if self.rounded:
            corner = min(8.0, self.height / 3)
            inner = (self.x + corner, self.y + corner), self.width - 2 * corner, self.height - 2 * corner
            axes.add_patch(FancyBboxPatch(*inner, boxstyle=f"round,pad={corner}", **look))
        else:
            axes.add_patch(Rectangle((self.x, self.y), self.width, self.height, **look))
        if self.text:
            self._words.paint(axes)


@dataclass(frozen=True)
class Arrow(Shape):
    """From one point to another, perhaps over others; as wide as what it stands for, with its words beside it."""

    points: Sequence[Point]
    text: str = ""
    kind: str = "plain"
    width: float = 1.5
    both: bool = False  # a head at either end
    head: bool = True
    dashed: bool = False
    size: float = TEXT - 1
    beside: Point = (0.0, -9.0)  # of its middle, the words stand
    anchor: str = "middle"

    def __post_init__(self) -> None:
        if len(self.points) < 2:
            raise InputError(f"Arrow {self.text!r}: {len(self.points)} points; give at least two")

    @property
    def middle(self) -> Point:
        """Half of the way along."""
        parts = [math.dist(a, b) for a, b in zip(self.points, self.points[1:], strict=False)]
        half = sum(parts) / 2
        for (a, b), part in zip(zip(self.points, self.points[1:], strict=False), parts, strict=True):
            if half <= part:
                share = half / part if part else 0.0
                return a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])
            half -= part
        return self.points[-1]

    @property
    def sizes(self) -> Sequence[float]:
        return (self.size,) if self.text else ()

    @property
    def _words(self) -> Words:
        x, y = self.middle
        return Words(x + self.beside[0], y + self.beside[1], self.text, self.anchor, self.size, self.kind)

    @property
    def room(self) -> tuple[float, float, float, float]:
        xs, ys = [p[0] for p in self.points], [p[1] for p in self.points]
        own = min(xs), min(ys), max(xs), max(ys)
        if not self.text:
            return own
        beside = self._words.room
        return min(own[0], beside[0]), min(own[1], beside[1]), max(own[2], beside[2]), max(own[3], beside[3])

    def _heads(self) -> list[tuple[Point, Point, Point]]:
        ends = [(self.points[-2], self.points[-1])] if self.head else []
        if self.both:
            ends.append((self.points[1], self.points[0]))
        return [_triangle(a, b, 5.0 + 1.3 * self.width) for a, b in ends]

    def _line(self) -> list[Point]:
        """The points, shortened where a head stands."""
        line, long = list(self.points), 5.0 + 1.3 * self.width
        if self.head:
            line[-1] = _short(line[-2], line[-1], 0.8 * long)
        if self.both:
            line[0] = _short(line[1], line[0], 0.8 * long)
        return line

    def svg(self) -> str:
        colour, dash = colour_of(self.kind), ' stroke-dasharray="5 4"' if self.dashed else ""
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in self._line())
        body = f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{self.width:g}" stroke-linejoin="round"{dash}/>'
        for head in self._heads():
            body += f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in head)}" fill="{colour}"/>'
        return body + (self._words.svg() if self.text else "")

    def paint(self, axes: Any) -> None:
        from matplotlib.patches import Polygon

        xs, ys = zip(*self._line(), strict=True)
        axes.plot(
            xs, ys, color=colour_of(self.kind), linewidth=0.72 * self.width, linestyle="--" if self.dashed else "-"
        )
        for head in self._heads():
            axes.add_patch(Polygon(head, closed=True, color=colour_of(self.kind)))
        if self.text:
            self._words.paint(axes)


def _short(a: Point, b: Point, by: float) -> Point:
    far = math.dist(a, b) or 1.0
    share = max(0.0, 1.0 - by / far)
    return a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])


def _triangle(a: Point, b: Point, long: float) -> tuple[Point, Point, Point]:
    far = math.dist(a, b) or 1.0
    dx, dy = (b[0] - a[0]) / far, (b[1] - a[1]) / far
    back = b[0] - long * dx, b[1] - long * dy
    half = 0.45 * long
    return b, (back[0] - half * dy, back[1] + half * dx), (back[0] + half * dy, back[1] - half * dx)


@dataclass(frozen=True)
class Curve(Shape):
    """A line through points, as on a sheet of paper: for a bend that is read by hand."""

    points: Sequence[Point]
    kind: str = "plain"
    width: float = 2.0
    dashed: bool = False

    @property
    def room(self) -> tuple[float, float, float, float]:
        xs, ys = [p[0] for p in self.points], [p[1] for p in self.points]
        return min(xs), min(ys), max(xs), max(ys)

    def svg(self) -> str:
        return Arrow(self.points, kind=self.kind, width=self.width, head=False, dashed=self.dashed).svg()

    def paint(self, axes: Any) -> None:
        Arrow(self.points, kind=self.kind, width=self.width, head=False, dashed=self.dashed).paint(axes)


class Piece(NamedTuple):
    """A part of a bar to scale."""

    text: str
    value: float
    kind: str = "memory"


def bar(
    x: float,
    y: float,
    length: float,
    thick: float,
    pieces: Sequence[Piece],
    whole: float | None = None,
    *,
    upright: bool = False,
    size: float = TEXT,
) -> list[Shape]:
    """A bar to scale: its pieces one after another, each with its words where they fit, and a dashed rest up to the whole.

    Parameters
    ----------
    x, y : float
        Left and top corner.
    length, thick : float
        Along the bar and across, in units; upright bars are filled from below.
    pieces : sequence of Piece
        Words, amount and kind of each.
    whole : float, optional
        What the length stands for; the sum of the pieces unless given.

    Raises
    ------
    InputError
        An amount below zero, or more than the whole.
    """
    total = sum(p.value for p in pieces)
    if any(p.value < 0 for p in pieces):
        raise InputError(f"bar: a piece is below 0: {[(p.text, p.value) for p in pieces if p.value < 0]}")
    full = total if whole is None else whole
    if not full > 0 or total > full * (1 + 1e-9):
        raise InputError(
            f"bar: the pieces are {total:g} of a whole of {full:g}; the whole must be positive and at least as much"
        )
    shapes: list[Shape] = []
    done = 0.0
    rest = [Piece("", full - total, "plain")] if full - total > 1e-9 * full else []
    for piece in (*pieces, *rest):
        own = length * piece.value / full
        where = (x, y + length - done - own, thick, own) if upright else (x + done, y, own, thick)
        fits = (
            text_width(max(piece.text.split("\n"), key=len), size) <= where[2]
            and size * 1.1 * (piece.text.count("\n") + 1) <= where[3]
        )
        shapes.append(Box(*where, piece.text if fits else "", piece.kind, dashed=piece in rest, size=size))
        done += own
    return shapes


def blocks(
    x: float,
    y: float,
    columns: int,
    side: Point,
    cells: Sequence[tuple[str, str]],
    *,
    size: float = TEXT,
    gap: float = 0.0,
) -> list[Box]:
    """Blocks of a table, row by row: words and kind of each.

    >>> [b.x for b in blocks(0.0, 0.0, 2, (10, 10), [("", "memory")] * 3)]
    [0.0, 10.0, 0.0]
    """
    return [
        Box(x + (i % columns) * (side[0] + gap), y + (i // columns) * (side[1] + gap), *side, text, kind, size=size)
        for i, (text, kind) in enumerate(cells)
    ]


class Stretch(NamedTuple):
    """From when to when a track is busy."""

    start: float
    end: float
    text: str = ""
    kind: str = "compute"
    full: bool = False


def tracks(
    x: float,
    y: float,
    width: float,
    rows: Sequence[tuple[str, Sequence[Stretch]]],
    *,
    until: float | None = None,
    height: float = 22.0,
    gap: float = 6.0,
    names: float = 70.0,
    size: float = TEXT - 1,
) -> list[Shape]:
    """Tracks of time below one another: a name, then what it does when; time runs to the right.

    Parameters
    ----------
    x, y, width : float
        Left and top corner, and the width with the names.
    rows : sequence of (name, stretches)
        In any one unit of time.
    until : float, optional
        End of the axis; the last end unless given.
    names : float
        Width that the names take.
    """
    last = max([s.end for _, row in rows for s in row], default=0.0) if until is None else until
    if not last > 0:
        raise InputError("tracks: nothing lasts longer than 0; give a stretch, or `until`")
    scale = (width - names) / last
    shapes: list[Shape] = []
    for i, (name, row) in enumerate(rows):
        top = y + i * (height + gap)
        if name:
            shapes.append(Words(x + names - 8, top + height / 2, name, "end", size))
        for s in row:
            wide = (s.end - s.start) * scale
            text = s.text if text_width(s.text, size) <= wide + 2 else ""
            shapes.append(Box(x + names + s.start * scale, top, wide, height, text, s.kind, full=s.full, size=size))
    return shapes


def around(n: int, x: float, y: float, radius: float) -> list[Point]:
    """The corners of a ring, the first at the top, in the order of a clock.

    >>> [tuple(round(v) for v in p) for p in around(4, 0, 0, 10)]
    [(0, -10), (10, 0), (0, 10), (-10, 0)]
    """
    angles = [2 * math.pi * i / n - math.pi / 2 for i in range(n)]
    return [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in angles]


@dataclass(frozen=True, repr=False)
class Scene(Drawing):
    """Shapes on a sheet that a phone can show."""

    shapes: Sequence[Shape]
    alt: str  # what somebody who does not see it must know
    width: float = 400.0
    tall: float = field(default=0.0)  # as high as its shapes unless given

    def __post_init__(self) -> None:
        if not self.alt:
            raise InputError("Scene: alt is empty; say in words what the drawing shows")
        if not 0 < self.width <= WIDEST:
            raise InputError(f"Scene: width = {self.width:g}; take at most {WIDEST:g}, so that a phone shows its words")
        for shape in self.shapes:
            for size in shape.sizes:
                if size * PHONE / self.width < SMALLEST:
                    raise InputError(
                        f"Scene: words of size {size:g} are {size * PHONE / self.width:.1f} px on a phone; take at least "
                        f"{SMALLEST * self.width / PHONE:.1f}, or a narrower scene"
                    )
            left, top, right, _ = shape.room
            if left < -1 or top < -1 or right > self.width + 1:
                raise InputError(
                    f"Scene: {shape} reaches {left:.0f} to {right:.0f} of {self.width:.0f}, from {top:.0f} down"
                )

    def __repr__(self) -> str:
        """In words: what a notebook keeps beside the drawing."""
        return f"Scene: {self.alt}"

    @property
    def bottom(self) -> float:
        return self.tall or max((shape.room[3] for shape in self.shapes), default=0.0) + 8.0

    @property
    def height(self) -> float:
        return 6.0 * self.bottom / self.width

    def svg(self) -> str:
        body = f"<title>{escape(self.alt)}</title>" + "".join(shape.svg() for shape in self.shapes)
        return page(self.width, self.bottom, body)

    def paint(self, figure: Any) -> None:
        axes = figure.subplots()
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.bottom, 0)
        axes.set_aspect("equal")
        axes.axis("off")
        for shape in self.shapes:
            shape.paint(axes)


@dataclass(frozen=True, repr=False)
class Frames(Drawing):
    """Scenes one after another, where time is the point: a stepper on a page, stills below one another in print."""

    scenes: Sequence[Scene]
    says: Sequence[str]  # a sentence to each
    name: str  # of the whole, for who does not see it

    def __post_init__(self) -> None:
        if len(self.scenes) < 2 or len(self.scenes) != len(self.says):
            raise InputError(
                f"Frames {self.name!r}: {len(self.scenes)} scenes, {len(self.says)} sentences; give two or more of each"
            )
        if len({s.width for s in self.scenes}) > 1:
            raise InputError(f"Frames {self.name!r}: scenes of different widths; give all the same")

    def __repr__(self) -> str:
        return f"Frames: {self.name}, {len(self.scenes)} stills"

    @property
    def tall(self) -> float:
        return max(scene.bottom for scene in self.scenes)

    @property
    def height(self) -> float:
        return 6.0 * (self.tall + 24.0) * len(self.scenes) / self.scenes[0].width

    def svg(self) -> str:
        """The stills below one another, each with its number and the first words of its sentence."""
        width, inner, y = self.scenes[0].width, [], 0.0
        for i, scene in enumerate(self.scenes):
            inner.append(Words(6, y + 12, f"{i + 1}", "start", TEXT, bold=True).svg())
            inner.append(inside(scene.svg(), y + 20))
            y += scene.bottom + 24.0
        return page(width, y, f"<title>{escape(self.name)}</title>{''.join(inner)}")

    def _repr_html_(self) -> str:
        """A list of stills, of which a script (``book/assets/frames.js``) makes a stepper."""
        items = "".join(
            f"<li><figure>{scene.svg()}<figcaption>{escape(says)}</figcaption></figure></li>"
            for scene, says in zip(self.scenes, self.says, strict=True)
        )
        return f'<div class="frames" role="group" aria-label="{escape(self.name, quote=True)}"><ol>{items}</ol></div>'

    def paint(self, figure: Any) -> None:
        rows = figure.subfigures(len(self.scenes), 1, squeeze=False)
        for scene, row in zip(self.scenes, rows[:, 0], strict=True):
            scene.paint(row)
