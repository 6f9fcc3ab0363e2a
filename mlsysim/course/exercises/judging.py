"""What the judges of tasks share: points against a curve, a fit against its own rows, a claim against a bound, a plan against the best.

Each returns the share that is right (0 to 1), the name of a mistake or None, and a sentence.
"""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mlsysim.errors import InputError

Verdict = tuple[float, str | None, str]


@cache
def recorded(name: str) -> tuple[tuple[float, float], ...]:
    """Rows that were measured once, for who cannot measure: (size, seconds). ``recorded.toml`` says on what.

    >>> len(recorded("copy")) > 10
    True
    """
    table = tomllib.loads((Path(__file__).parent / "recorded.toml").read_text(encoding="utf-8"))
    if name not in table:
        raise InputError(f"recorded = {name!r} is none of {', '.join(table)}")
    return tuple((float(a), float(b)) for a, b in table[name]["rows"])


def fitted(rows: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Start and slope of ``seconds = start + slope * size`` with the smallest relative errors.

    >>> start, slope = fitted([(1, 3.0), (2, 5.0), (4, 9.0)])
    >>> round(start, 9), round(slope, 9)
    (1.0, 2.0)
    """
    weights = [1.0 / y**2 for _, y in rows]
    w, wx = sum(weights), sum(k * x for k, (x, _) in zip(weights, rows, strict=True))
    wy = sum(k * y for k, (_, y) in zip(weights, rows, strict=True))
    wxx = sum(k * x * x for k, (x, _) in zip(weights, rows, strict=True))
    wxy = sum(k * x * y for k, (x, y) in zip(weights, rows, strict=True))
    slope = (w * wxy - wx * wy) / (w * wxx - wx * wx)
    return (wy - slope * wx) / w, slope


def _numbers(rows: Any) -> list[tuple[float, float]]:
    """Rows of two numbers, sorted by the first; a figure gives several lines, of which the longest counts."""
    if rows and isinstance(rows[0], list) and rows[0] and isinstance(rows[0][0], list):
        rows = max(rows, key=len)
    made = sorted((float(x), float(y)) for x, y in rows)
    if not all(math.isfinite(v) for row in made for v in row):
        raise ValueError("a number that is not finite")
    return made


def between(points: Sequence[tuple[float, float]], x: float) -> float:
    """The height of a curve between its points, straight in logarithms where both are positive."""
    at = min(max(1, next((i for i, (u, _) in enumerate(points) if u >= x), len(points) - 1)), len(points) - 1)
    (a, y), (b, z) = points[at - 1], points[at]
    if a > 0 and y > 0 and z > 0:
        return float(y * (z / y) ** (math.log(x / a) / math.log(b / a)))
    return y + (z - y) * (x - a) / (b - a)


def plot(
    given: Mapping[str, Any],
    best: Mapping[str, Any],
    tolerance: float = 0.02,
    least: int = 8,
    reading_within: float = 0.05,
) -> Verdict:
    """The points of a figure and what was read off it, against a curve that goes through many points.

    Parameters
    ----------
    given : mapping
        ``points``: pairs, or the axes of a figure; ``reading``: a number.
    best : mapping
        The same, with enough points to go between them.
    tolerance : float
        Of a height.
    least : int
        Points that must stand there, over the whole range.
    reading_within : float
        Tolerance of the reading.
    """
    points, curve = _numbers(given["points"]), _numbers(best["points"])
    inside = [(x, y) for x, y in points if curve[0][0] * (1 - 1e-9) <= x <= curve[-1][0] * (1 + 1e-9)]
    span = curve[-1][0] - curve[0][0]
    reach = (
        math.log(inside[-1][0] / inside[0][0]) / math.log(curve[-1][0] / curve[0][0])
        if inside and inside[0][0] > 0 and curve[0][0] > 0 and curve[-1][0] / curve[0][0] > 10
        else (inside[-1][0] - inside[0][0]) / span
        if inside
        else 0.0
    )
    if len(inside) < least or reach < 0.9:
        mine = f"{len(points)} points from {points[0][0]:.4g} to {points[-1][0]:.4g}" if points else "no points"
        asked = f"at least {least} from {curve[0][0]:.4g} to {curve[-1][0]:.4g}, end to end, in base units"
        return 0.0, "range", f"You have {mine}; it takes {asked}."
    wrong = [(x, y) for x, y in inside if abs(y - between(curve, x)) > tolerance * abs(between(curve, x)) + 1e-12]
    reading, expected = float(given["reading"]), float(best["reading"])
    read = abs(reading - expected) <= reading_within * abs(expected)
    share = 0.5 * (not wrong) + 0.5 * read
    if wrong:
        what = "What you read off is right, but the" if read else "The"
        return share, "off-curve", f"{what} curve is not: look at {wrong[0][0]:.4g}, where you have {wrong[0][1]:.4g}."
    if not read:
        return share, "reading", "The curve is right. Read the asked point off it once more."
    return 1.0, None, f"{len(inside)} points on the curve, and read off as {reading:.4g}"


def measured(
    given: Mapping[str, Any], sizes: tuple[float, float], count: int, work: float, name: str, unit: str
) -> Verdict:
    """Measured rows and the two constants that were fitted to them, against each other.

    Parameters
    ----------
    given : mapping
        ``rows`` of (size, seconds), ``rate`` and ``start``.
    sizes : (float, float)
        Smallest and largest size that is asked for.
    count : int
        How many sizes.
    work : float
        What one unit of size is in the rate.
    name, unit : str
        Of the rate, for the sentence.
    """
    rows = _numbers(given["rows"])
    rate, start = float(given["rate"]), float(given["start"])
    if len({x for x, _ in rows}) < count or rows[0][0] > sizes[0] * 1.001 or rows[-1][0] < sizes[1] * 0.999:
        return 0.0, "range", f"Measure at least {count} sizes, from {sizes[0]:,.0f} to {sizes[1]:,.0f}."
    if rows[0][1] <= 0 or len({y for _, y in rows}) < 2:
        return 0.0, "no-measurement", "Those are no measured times: they are not positive, or all the same."
    if rows[-1][1] < rows[0][1]:
        return (
            0.0,
            "no-measurement",
            "The largest size takes less time than the smallest. Take the smallest of several runs each.",
        )
    own_start, slope = fitted(rows)
    own = work / slope if slope > 0 else 0.0
    if own <= 0:
        return 0.0, "no-measurement", "These rows have no slope. Take the smallest of several runs for each size."
    if abs(rate - own) > 0.2 * own:
        for factor, why in ((1e-9, "bare-giga"), (work / own**2, "slope"), (1.0 / work if work > 1 else 0.5, "work")):
            if abs(rate - own * factor) <= 0.2 * own * factor:
                return 0.3, why, ""
        least = max(work * x / y for x, y in rows)
        if abs(rate - least) <= 0.2 * least:
            return 0.3, "one-row", ""
        return 0.3, "not-fitted", f"A line through your own rows has another {name}: fit it with relative errors."
    if abs(start - own_start) > max(0.3 * abs(own_start), 0.2 * rows[0][1]):
        return 0.6, "start", ""
    off = sorted(abs((start + work * x / rate) / y - 1) for x, y in rows)[len(rows) // 2]
    return (
        1.0,
        None,
        f"{rate:.3g} {unit} and {start:.2g} s to start; half of your rows lie within {100 * off:.0f} % of the line",
    )


def claim(given: Mapping[str, Any], best: Mapping[str, Any], word: str = "bound", tolerance: float = 0.02) -> Verdict:
    """The bound that a claim breaks, by its name, and by which factor."""
    said, factor = str(given[word]).strip().casefold(), float(given["factor"])
    right = said == str(best[word]).casefold()
    near = abs(factor - best["factor"]) <= tolerance * abs(best["factor"])
    if right and near:
        return 1.0, None, f"{best[word]}, by a factor of {factor:.3g}"
    if right:
        return 0.5, "factor", f"{best[word]!r} is right. The factor is not: which ratio does the question ask for?"
    so_far = f"The factor is right, {said!r} is not" if near else f"{said!r} is not what the numbers say"
    return 0.0, word, f"{so_far}: set the claim beside each {word} that the question names."


def plan(score: Callable[[Any], float | None], given: Any, best: Any, full: float = 0.98) -> Verdict:
    """A choice against the best one, by a score that is to be large; None where it breaks a constraint.

    All points from ``full`` of the best on, none below half of it, in proportion between.
    """
    mine, most = score(given), score(best)
    if most is None:
        raise InputError("the best plan breaks a constraint")
    if mine is None or not math.isfinite(mine):
        return 0.0, "not-allowed", ""
    reached = mine / most
    if reached >= full:
        return 1.0, None, f"allowed, and {100 * reached:.1f} % of the best that a search over all choices finds"
    share = round(max(0.0, min(0.9, 2 * (reached - 0.5))), 2)
    return share, "slower", f"Your choice is allowed, and reaches {100 * reached:.0f} % of the best. What limits it?"
