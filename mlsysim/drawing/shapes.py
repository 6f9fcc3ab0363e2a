"""The few pictures that results have: terms as bars, parts as a stack, an array as a curve, shares of a distribution."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from mlsysim import units
from mlsysim._numeric import is_array
from mlsysim.drawing.bars import Bars
from mlsysim.drawing.charts import DASHES, Chart
from mlsysim.drawing.marks import Line, Marks
from mlsysim.drawing.style import PALETTE, Drawing

MOST_ROWS, MOST_POINTS = 9, 400
Thing = TypeVar("Thing")


def readable(largest: float, unit: str) -> tuple[float, str]:
    """What to multiply values in a base unit with, and the unit they then have, so that the largest is easily read.

    >>> readable(0.02, "s")
    (1000.0, 'ms')
    """
    if unit == "1":
        return 1.0, ""
    value = largest or 1.0
    number, _, label = units.format(value, unit, 12).partition(" ")
    return float(f"{float(number) / value:.6g}"), label


def _axis(name: str, label: str) -> str:
    return f"{name} ({label})" if label else name


def terms(title: str, values: Mapping[str, Any], name: str = "time", unit: str = "s") -> Drawing | None:
    """A bar per term; the smallest share a bar when there are many. Of arrays, the sums as curves."""
    if any(is_array(v) for v in values.values()):
        return curves(title, values, name, unit)
    known = {label: float(v) for label, v in values.items() if v}
    if not known or min(known.values()) < 0:
        return None
    if len(known) > MOST_ROWS:
        kept = sorted(known, key=lambda label: -known[label])[: MOST_ROWS - 1]
        rest = sum(v for label, v in known.items() if label not in kept)
        known = {label: known[label] for label in known if label in kept} | {"all others": rest}
    factor, label = readable(max(known.values()), unit)
    rows = [row.replace("_", " ") for row in known]
    return Bars(rows, {"": [factor * v for v in known.values()]}, _axis(name, label), title)


def stack(
    title: str,
    rows: Mapping[str, Mapping[str, Any]],
    name: str,
    unit: str,
    limit: tuple[float, str] | None = None,
) -> Drawing | None:
    """Rows of pieces beside each other, at most six different ones, and a line that no row should pass."""
    pieces = {piece.replace("_", " "): None for row in rows.values() for piece in row}
    if any(is_array(v) for row in rows.values() for v in row.values()):
        return curves(title, {k: sum(row.values()) for k, row in rows.items()}, name, unit)
    named = {k: {p.replace("_", " "): float(v) for p, v in row.items()} for k, row in rows.items()}
    largest = max([sum(row.values()) for row in named.values()] + ([limit[0]] if limit else []))
    factor, label = readable(largest, unit)
    parts = {p: [factor * row.get(p, 0.0) for row in named.values()] for p in pieces}
    mark = (factor * limit[0], limit[1]) if limit else None
    return Bars(list(named), parts, _axis(name, label), title, mark)


def curves(title: str, values: Mapping[str, Any], name: str, unit: str) -> Drawing:
    """Arrays element by element, the largest first; at most four of them and so many points each."""
    flat = {label: sampled(v.ravel().tolist()) for label, v in values.items() if is_array(v)}
    first = sorted(flat, key=lambda label: -max(flat[label], default=0.0))[: len(DASHES)]
    factor, label = readable(max((max(flat[k], default=0.0) for k in first), default=1.0), unit)
    lines = [
        Line(range(len(flat[k])), [factor * y for y in flat[k]], k.replace("_", " "), PALETTE[i], DASHES[i])
        for i, k in enumerate(first)
    ]
    return Chart("element of the array", _axis(name, label), lines, title=title, x_log=False, y_log=False)


def sampled(values: Sequence[Thing], most: int = MOST_POINTS) -> list[Thing]:
    """At most so many of the values, evenly spaced, both ends among them.

    >>> sampled(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def distribution(title: str, values: Mapping[str, Sequence[float]], name: str, unit: str) -> Drawing | None:
    """Share of the values that stay below each: one curve per kind."""
    known = {label: sorted(v) for label, v in values.items() if v}
    if not known:
        return None
    factor, label = readable(max(v[-1] for v in known.values()), unit)
    lines = []
    for i, (kind, ordered) in enumerate(known.items()):
        n = len(ordered)
        shares = sampled([100.0 * (k + 1) / n for k in range(n)])
        x = [factor * v for v in sampled(ordered)]
        lines.append(Line(x, shares, kind, PALETTE[i % len(PALETTE)], DASHES[i % len(DASHES)]))
    return Chart(_axis(name, label), "share of the requests (%)", lines, title=title, x_log=False, y_log=False)


def points(
    title: str, kinds: Mapping[str, Sequence[tuple[float, float]]], x: tuple[str, str], y: tuple[str, str]
) -> Drawing | None:
    """Points of several kinds; each axis has a name and a base unit. The first kind is drawn as a curve when called front."""
    every = [p for kind in kinds.values() for p in kind]
    if not every:
        return None
    fx, lx = readable(max(p[0] for p in every), x[1])
    fy, ly = readable(max(p[1] for p in every), y[1])
    lines, marks = [], []
    for i, (label, kind) in enumerate(kinds.items()):
        xs, ys = [fx * p[0] for p in kind], [fy * p[1] for p in kind]
        if label.startswith("front"):
            lines.append(Line(xs, ys, label, PALETTE[i]))
        else:
            marks.append(Marks(xs, ys, label, (), PALETTE[i], ("o", "s", "^")[i % 3]))
    return Chart(_axis(x[0], lx), _axis(y[0], ly), lines, marks, title, x_log=False, y_log=False)
