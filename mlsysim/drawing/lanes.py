"""Lanes: what runs when, one row per resource."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from mlsysim.drawing.axes import Axis, label_ticks
from mlsysim.drawing.bars import MOST
from mlsysim.drawing.style import (
    GRID,
    HATCHES,
    PALETTE,
    PAPER,
    SHADES,
    WIDE,
    Drawing,
    page,
    swatches,
    text_width,
    words,
)
from mlsysim.errors import InputError


class Span(NamedTuple):
    """From when to when something runs in a lane; ``kind`` gives its colour."""

    lane: str
    start: float
    end: float
    kind: str = ""


def joined(spans: Sequence[Span]) -> list[Span]:
    """Spans of one kind that follow each other in a lane without a gap, as one: what is too many to see apart.

    >>> joined([Span("a", 0.0, 1.0), Span("b", 0.0, 1.0), Span("a", 1.0, 2.0)])
    [Span(lane='a', start=0.0, end=2.0, kind=''), Span(lane='b', start=0.0, end=1.0, kind='')]
    """
    last: dict[tuple[str, str], int] = {}
    found: list[Span] = []
    for span in sorted(spans, key=lambda s: s.start):
        at = last.get((span.lane, span.kind))
        if at is not None and span.start <= found[at].end * (1 + 1e-9):
            found[at] = found[at]._replace(end=max(found[at].end, span.end))
        else:
            last[span.lane, span.kind] = len(found)
            found.append(span)
    return found


@dataclass(frozen=True)
class Lanes(Drawing):
    """Rows of spans on one axis of time."""

    spans: Sequence[Span]
    x_label: str
    title: str = ""

    def __post_init__(self) -> None:
        if not self.spans:
            raise InputError("Lanes: there is no span to draw; give at least one")
        if len(self.kinds) > len(PALETTE):
            raise InputError(f"Lanes: {len(self.kinds)} kinds of span; give at most {len(PALETTE)}")

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(span.lane for span in self.spans))

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(span.kind for span in self.spans))

    @property
    def height(self) -> float:
        return 1.2 + 0.32 * len(self.names)

    def svg(self) -> str:
        names, kinds = self.names, self.kinds
        longest = max(map(text_width, names))
        beside = longest <= MOST
        left, over = (longest + 14, 4.0) if beside else (10.0, 17.0)  # over: from the top of a lane to its spans
        row, last = over + 22, max(span.end for span in self.spans) or 1.0
        body = [f"<title>{escape(self.title or self.x_label)}</title>", words(WIDE / 2, 16, self.title, size=13)]
        looks = [(kind, PALETTE[i], SHADES[i]) for i, kind in enumerate(kinds) if kind]
        key, top = swatches(looks, 24.0 if self.title else 6.0)
        top += 6 if beside else 3
        bottom, axis = top + row * len(names), Axis(0.0, last, False, left, WIDE - 18.0)
        body.append(key)
        for value, text in label_ticks(axis):
            x = axis.place(value)
            tick = words(min(x, WIDE - text_width(text) / 2 - 2), bottom + 16, text)
            body.append(f'<path d="M{x:.1f} {top:g}V{bottom:g}" stroke="{GRID}"/>{tick}')
        for i, name in enumerate(names):
            y = top + row * i + (over + 13 if beside else 13)
            body.append(words(left - 6 if beside else left, y, name, "end" if beside else "start"))
        for span in self.spans:
            look, y = kinds.index(span.kind), top + row * names.index(span.lane) + over
            start, end = axis.place(span.start), axis.place(max(span.start, span.end))
            body.append(
                f'<rect x="{start:.2f}" y="{y:.1f}" width="{end - start:.2f}" '
                f'height="18" fill="{PALETTE[look]}" fill-opacity="{SHADES[look]}"/>'
            )
        body.append(words((left + WIDE - 18) / 2, bottom + 36, self.x_label))
        return page(WIDE, bottom + 46, "".join(body))

    def paint(self, figure: Any) -> None:
        axes, names = figure.subplots(), self.names
        for i, kind in enumerate(self.kinds):
            mine = [s for s in self.spans if s.kind == kind]
            rows = [names.index(s.lane) for s in mine]
            widths, lefts = [s.end - s.start for s in mine], [s.start for s in mine]
            look = {"color": PALETTE[i], "hatch": HATCHES[i], "edgecolor": PAPER, "linewidth": 0.3, "height": 0.7}
            axes.barh(rows, widths, left=lefts, label=kind or None, **look)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_axisbelow(True)
        axes.set_xlabel(self.x_label)
        if self.title:
            axes.set_title(self.title, fontsize=10)
        if any(self.kinds):
            figure.legend(loc="outside upper center", ncols=4, fontsize=8)
