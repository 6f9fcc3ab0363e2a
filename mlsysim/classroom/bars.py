"""Stacked bars: what one total is made of, beside others. Drawn like the charts of :mod:`mlsysim.classroom.charts`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from mlsysim.classroom.charts import GRID, INK, PALETTE, PAPER, STYLE, WIDTH, display
from mlsysim.errors import InputError

HATCHES = ("", "//", "..", "xx", "\\\\", "--")  # told apart in grey
_SHADES = (1.0, 0.75, 0.45, 0.6, 0.3, 0.85)  # the same in an SVG, by opacity


@dataclass(frozen=True)
class Bars:
    """Horizontal bars, one per name; ``parts`` gives each bar's pieces by label, in order from the left."""

    names: Sequence[str]
    parts: Mapping[str, Sequence[float]]
    x_label: str
    title: str = ""

    def __post_init__(self) -> None:
        if not self.names or not 0 < len(self.parts) <= len(PALETTE):
            raise InputError(f"Bars: give at least one name and 1 to {len(PALETTE)} parts, not {len(self.parts)}")
        for label, values in self.parts.items():
            if len(values) != len(self.names) or min(values) < 0:
                raise InputError(f"Bars: {label!r} needs a value of at least 0 for each of {len(self.names)} names")

    def _repr_svg_(self) -> str:
        return svg(self)


def draw_bars(bars: Bars) -> None:
    """Show the bars: a matplotlib figure in a notebook, an SVG where matplotlib is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        display(bars)
        return
    figure = matplotlib_figure(bars)
    display(figure)
    plt.close(figure)


def matplotlib_figure(bars: Bars) -> Any:
    """The bars as a matplotlib figure in the house style."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(layout="constrained", figsize=(WIDTH, 1.2 + 0.42 * len(bars.names)))
        left = [0.0] * len(bars.names)
        for (label, values), color, hatch in zip(bars.parts.items(), PALETTE, HATCHES, strict=False):
            axes.barh(bars.names, values, left=left, label=label, color=color, hatch=hatch, edgecolor=PAPER, height=0.7)
            left = [a + b for a, b in zip(left, values, strict=True)]
        axes.invert_yaxis()
        axes.set_axisbelow(True)
        axes.set_xlabel(bars.x_label)
        if bars.title:
            axes.set_title(bars.title, fontsize=10)
        figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    return figure


def svg(bars: Bars) -> str:
    """The bars as a self-contained SVG, drawn with the standard library alone."""
    width, left, right, row, top = 600.0, 150.0, 24.0, 30.0, 64.0
    bottom = top + row * len(bars.names)
    longest = max(sum(values[i] for values in bars.parts.values()) for i in range(len(bars.names))) or 1.0
    scale = (width - left - right) / longest

    def text(x: float, y: float, content: str, anchor: str = "middle", size: int = 12) -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(content)}</text>'

    body = [f"<title>{escape(bars.title or bars.x_label)}</title>", text(width / 2, 16, bars.title, size=13)]
    for i in range(6):
        x = left + i / 5 * longest * scale
        body.append(
            f'<path d="M{x:.1f} {top}V{bottom}" stroke="{GRID}"/>' + text(x, bottom + 16, f"{i / 5 * longest:.3g}")
        )
    for i, name in enumerate(bars.names):
        x, y = left, top + row * i + 4
        body.append(text(left - 6, y + 15, name, "end", 11))
        for values, color, shade in zip(bars.parts.values(), PALETTE, _SHADES, strict=False):
            size = values[i] * scale
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" height="22" fill="{color}" fill-opacity="{shade}"/>'
            )
            x += size
    for i, (label, color, shade) in enumerate(zip(bars.parts, PALETTE, _SHADES, strict=False)):
        x, y = left + (i % 3) * 145, 30 + 16 * (i // 3)
        body.append(f'<rect x="{x}" y="{y - 9}" width="12" height="12" fill="{color}" fill-opacity="{shade}"/>')
        body.append(text(x + 17, y + 1, label, "start", 11))
    body.append(text((left + width - right) / 2, bottom + 36, bars.x_label))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {bottom + 48:g}" width="{width:g}" role="img" fill="{INK}"'
    return f'{head} font-family="sans-serif"><rect width="100%" height="100%" fill="{PAPER}"/>{"".join(body)}</svg>'
