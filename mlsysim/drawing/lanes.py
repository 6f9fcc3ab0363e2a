"""Lanes: what runs when, one row per resource."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from mlsysim.drawing.style import GRID, HATCHES, PALETTE, PAPER, SHADES, WIDTH, Drawing, page, words
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
        width, left, right, row, top = WIDTH * 100, 150.0, 24.0, 26.0, 52.0
        names, kinds = self.names, self.kinds
        bottom, last = top + row * len(names), max(span.end for span in self.spans) or 1.0
        scale = (width - left - right) / last
        body = [f"<title>{escape(self.title or self.x_label)}</title>", words(width / 2, 16, self.title, size=13)]
        for i in range(6):
            x = left + i / 5 * last * scale
            tick = words(x, bottom + 16, f"{i / 5 * last:.3g}")
            body.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="{GRID}"/>{tick}')
        body += [words(left - 6, top + row * i + 17, name, "end", 11) for i, name in enumerate(names)]
        for span in self.spans:
            look, y = kinds.index(span.kind), top + row * names.index(span.lane) + 4
            body.append(
                f'<rect x="{left + span.start * scale:.2f}" y="{y:.1f}" width="{max(0.0, span.end - span.start) * scale:.2f}" '
                f'height="18" fill="{PALETTE[look]}" fill-opacity="{SHADES[look]}"/>'
            )
        for i, kind in enumerate(k for k in kinds if k):
            look, x = kinds.index(kind), left + i % 4 * 110
            y = 27 + 16 * (i // 4)
            body.append(
                f'<rect x="{x}" y="{y}" width="12" height="12" fill="{PALETTE[look]}" fill-opacity="{SHADES[look]}"/>'
            )
            body.append(words(x + 17, y + 10, kind, "start", 11))
        body.append(words((left + width - right) / 2, bottom + 36, self.x_label))
        return page(width, bottom + 48, "".join(body))

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
