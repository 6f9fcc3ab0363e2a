"""A tornado chart: how far each input alone can move an answer. Drawn like the charts of :mod:`mlsysim.classroom.charts`."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from mlsysim.classroom.charts import GRID, INK, PALETTE, PAPER, STYLE, WIDTH, display
from mlsysim.errors import InputError

_LOW, _HIGH = "input at its low end", "input at its high end"
_HATCH = "//"  # tells the high end from the low one in grey


@dataclass(frozen=True)
class Swings:
    """Horizontal bars from a middle: the answer with each input at the low and at the high end of its range."""

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

    def _repr_svg_(self) -> str:
        return svg(self)


def draw_swings(swings: Swings) -> None:
    """Show the tornado: a matplotlib figure in a notebook, an SVG where matplotlib is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        display(swings)
        return
    figure = matplotlib_figure(swings)
    display(figure)
    plt.close(figure)


def matplotlib_figure(swings: Swings) -> Any:
    """The tornado as a matplotlib figure in the house style."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(layout="constrained", figsize=(WIDTH, 1.2 + 0.42 * len(swings.names)))
        for label, ends, color, hatch in (
            (_LOW, swings.at_low, PALETTE[0], ""),
            (_HIGH, swings.at_high, PALETTE[1], _HATCH),
        ):
            widths = [end - swings.middle for end in ends]
            look = {"color": color, "hatch": hatch, "edgecolor": PAPER, "height": 0.6}
            axes.barh(list(swings.names), widths, left=swings.middle, label=label, **look)
        axes.axvline(swings.middle, color=INK, linewidth=1)
        axes.invert_yaxis()
        axes.set_axisbelow(True)
        axes.set_xlabel(swings.x_label)
        if swings.title:
            axes.set_title(swings.title, fontsize=10)
        figure.legend(loc="outside upper center", ncols=2, fontsize=8)
    return figure


def svg(swings: Swings) -> str:
    """The tornado as a self-contained SVG, drawn with the standard library alone."""
    width, left, right, row, top = 600.0, 190.0, 24.0, 30.0, 52.0
    bottom = top + row * len(swings.names)
    values = [*swings.at_low, *swings.at_high, swings.middle]
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or abs(low) or 1.0
    low, high = low - room, high + room

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - right)

    def text(x: float, y: float, content: str, anchor: str = "middle", size: int = 12) -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(content)}</text>'

    body = [f"<title>{escape(swings.title or swings.x_label)}</title>", text(width / 2, 16, swings.title, size=13)]
    for i in range(6):
        value = low + i / 5 * (high - low)
        x = place(value)
        body.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="{GRID}"/>' + text(x, bottom + 16, f"{value:.3g}"))
    for i, name in enumerate(swings.names):
        y = top + row * i + 6
        body.append(text(left - 6, y + 13, name, "end", 11))
        for end, color, shade in ((swings.at_low[i], PALETTE[0], 1.0), (swings.at_high[i], PALETTE[1], 0.6)):
            x, size = min(place(end), place(swings.middle)), abs(place(end) - place(swings.middle))
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" height="18" fill="{color}" fill-opacity="{shade}"/>'
            )
    body.append(f'<path d="M{place(swings.middle):.1f} {top}V{bottom}" stroke="{INK}"/>')
    for i, (label, color, shade) in enumerate(((_LOW, PALETTE[0], 1.0), (_HIGH, PALETTE[1], 0.6))):
        x = left + i * 190
        body.append(f'<rect x="{x}" y="27" width="12" height="12" fill="{color}" fill-opacity="{shade}"/>')
        body.append(text(x + 17, 37, label, "start", 11))
    body.append(text((left + width - right) / 2, bottom + 36, swings.x_label))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {bottom + 48:g}" width="{width:g}" role="img" fill="{INK}"'
    return f'{head} font-family="sans-serif"><rect width="100%" height="100%" fill="{PAPER}"/>{"".join(body)}</svg>'
