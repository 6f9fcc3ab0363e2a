"""One palette and one look for everything that is drawn: colour-blind safe, told apart in grey by dashes, markers and shades.

Drawings are data. matplotlib draws them where it is installed, plain SVG where it is not (a phone, the browser lab).
They are drawn on white; the book's dark mode inverts their lightness and keeps their hues (a test computes the contrasts).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from pathlib import Path
from typing import Any

from mlsysim.errors import InputError

PAPER, INK, GRID = "#ffffff", "#333333", "#d0d0d0"
# Colours of series in their order, told apart also by readers who see few colours.
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#00845f",
    "#a8527e",
    "#8a6d00",
    "#555555",
)  # after Okabe and Ito, darkened for contrast
COMPUTE, NETWORK, MEMORY, ANSWER, OTHER, WAITING = PALETTE  # what a colour means: the same in plots and in drawings
PLAIN = WAITING
# Words that stand on lines have the paper around them.
HALO = f'stroke="{PAPER}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
HATCHES = ("", "//", "..", "xx", "\\\\", "--")  # told apart in grey
SHADES = (1.0, 0.75, 0.45, 0.6, 0.3, 0.85)  # the same in an SVG, by opacity
WIDTH, HEIGHT = 6.0, 3.8  # inches at 100 dots each, of matplotlib's figures
WIDE, SHOWN = (
    400.0,
    520.0,
)  # units of an SVG, whose letters of 12 units have 10 pixels in a phone's column of 340; pixels of it where there is room
LETTER = 7.0  # the mean width of a letter of 12 units, where a text has no letters yet
# Widths of letters over their size, in the widest of the usual fonts (DejaVu Sans, what Linux has for sans-serif).
_WIDTHS = {
    letter: width
    for width, letters in ((0.33, "iljIJ,. ·’':;|"), (0.45, "f-()[]tr!/"), (0.55, '"*_–“”szc?'), (0.71, "KAVXZBRCUN"))
    for letter in letters
} | {letter: width for width, letters in ((0.85, "HDGOQ&#w+<=>^~×−M"), (1.0, "%mW@")) for letter in letters}
STYLE: dict[str, Any] = {
    "figure.figsize": (WIDTH, HEIGHT),
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
}
_moving: ContextVar[bool] = ContextVar("moving", default=False)
_collected: ContextVar[Callable[[Any], None] | None] = ContextVar("collected", default=None)


class Drawing:
    """Something that can be drawn: ``svg()`` by the standard library alone, ``paint()`` on a matplotlib figure."""

    always_svg = False  # whether a notebook shows it as we draw it, also where matplotlib is installed

    @property
    def height(self) -> float:
        """Inches, at :data:`WIDTH` inches wide."""
        return HEIGHT

    @property
    def small(self) -> "Drawing":
        """What stands beside a few lines of text: of several panels the first."""
        return self

    def svg(self) -> str:
        """The drawing as a self-contained SVG."""
        raise NotImplementedError

    def paint(self, figure: Any) -> None:
        """Draw on a matplotlib figure (or part of one) in the house style."""
        raise NotImplementedError

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | Path) -> Path:
        """Write the drawing: SVG by ourselves, any other ending (png, pdf) by matplotlib.

        Raises
        ------
        InputError
            Another ending than svg, and matplotlib is not installed.
        """
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg(), encoding="utf-8")
            return path
        try:
            matplotlib_figure(self).savefig(path)
        except ImportError:
            raise InputError(
                f"path = {path.name!r}: without matplotlib only .svg can be written; install 'mlsysim-book[plot]'"
            ) from None
        return path

    savefig = save  # what a matplotlib figure calls it, so that one line works with both


class Panels(Drawing):
    """Drawings below one another."""

    def __init__(self, *parts: Drawing) -> None:
        self.parts = parts

    @property
    def height(self) -> float:
        return sum(part.height for part in self.parts)

    @property
    def small(self) -> Drawing:
        return self.parts[0]

    def svg(self) -> str:
        inner, y = [], 0.0
        for part in self.parts:
            text = part.svg()
            width, height = size(text)
            inner.append(inside(text, y))
            y += height
        return page(width, y, "".join(inner))

    def paint(self, figure: Any) -> None:
        rows = figure.subfigures(len(self.parts), 1, height_ratios=[part.height for part in self.parts], squeeze=False)
        for part, row in zip(self.parts, rows[:, 0], strict=True):
            part.paint(row)


def page(width: float, height: float, body: str) -> str:
    """A white SVG page around what is drawn on it; where there is room its letters are as large as those of all others."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width * SHOWN / WIDE:g}" role="img" fill="{INK}"'
    return f'{head} font-family="sans-serif"><rect width="100%" height="100%" fill="{PAPER}"/>{body}</svg>'


def inside(svg: str, y: float) -> str:
    """A page on another one, in the units of both."""
    width, height = size(svg)
    return re.sub(r'\bwidth="[\d.]+"', f'y="{y:g}" width="{width:g}" height="{height:g}"', svg, count=1)


def size(svg: str) -> tuple[float, float]:
    """Width and height of a page."""
    width, height = svg.partition('viewBox="0 0 ')[2].partition('"')[0].split()
    return float(width), float(height)


def text_width(text: str, size: float = 12.0, *, bold: bool = False) -> float:
    """How wide words are at most, in units.

    >>> text_width("will") < text_width("now") < text_width("now", bold=True)
    True
    """
    return size * (1.14 if bold else 1.0) * sum(_WIDTHS.get(letter, 0.64) for letter in text)


def words(x: float, y: float, content: str, anchor: str = "middle", size: int = 12, extra: str = "") -> str:
    """Text in an SVG."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {extra}>{escape(content)}</text>'


def swatches(looks: Sequence[tuple[str, str, float]], top: float) -> tuple[str, float]:
    """A key of filled squares (name, colour, opacity) in rows that fill the width, and where it ends."""
    x, y, found = 8.0, top, []
    for name, color, shade in looks:
        wide = 18 + text_width(name) + 12
        if x > 8 and x + wide > WIDE + 8:
            x, y = 8.0, y + 17
        found.append(f'<rect x="{x:g}" y="{y:g}" width="12" height="12" fill="{color}" fill-opacity="{shade}"/>')
        found.append(words(x + 18, y + 10.5, name, "start"))
        x += wide
    return "".join(found), y + 17 if looks else top


def matplotlib_figure(drawing: Drawing) -> Any:
    """The drawing as a matplotlib figure in the house style."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure = plt.figure(layout="constrained", figsize=(WIDTH, drawing.height))
        drawing.paint(figure)
    return figure


def draw(drawing: Drawing) -> None:
    """Show a drawing: a matplotlib figure in a notebook; an SVG where matplotlib is missing or a slider waits for it."""
    display(drawing if drawing.always_svg or _moving.get() else plotted(drawing))


@contextmanager
def moving() -> Iterator[None]:
    """What is drawn inside follows a hand: as an SVG, in 2 ms of a processor, not by matplotlib in 300."""
    token = _moving.set(True)
    try:
        yield
    finally:
        _moving.reset(token)


def plotted(drawing: Drawing) -> Any:
    """The drawing as a matplotlib figure where that is installed (closed, so that a notebook shows it once), else itself."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return drawing
    figure = matplotlib_figure(drawing)
    plt.close(figure)
    return figure


@contextmanager
def collected(take: Callable[[Any], None]) -> Iterator[None]:
    """Whatever is displayed inside goes to ``take``, as a page that is no notebook wants it."""
    token = _collected.set(take)
    try:
        yield
    finally:
        _collected.reset(token)


def display(thing: Any) -> None:
    """Show a thing in a notebook; print it elsewhere."""
    if (take := _collected.get()) is not None:
        take(thing)
        return
    try:
        from IPython.display import display as show
    except ImportError:
        print(thing)
    else:
        show(thing)


def log_space(low: float, high: float, n: int = 61) -> Sequence[float]:
    """n values in equal ratios from low to high, without NumPy.

    >>> log_space(1.0, 100.0, 3)
    [1.0, 10.0, 100.0]
    """
    return [low * (high / low) ** (i / (n - 1)) for i in range(n)]
