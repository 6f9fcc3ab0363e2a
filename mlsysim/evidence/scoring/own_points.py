"""What points of one's own are worth: every shipped row predicted again after other points of its source in its place moved the prediction.

The rows' errors are those of constants that had seen neither the source nor its set; the share that points have in common, and the
spread of the range, are counted without the source. So a row plays a question of somebody who measured a few like it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from mlsysim.evidence.metrics import mean
from mlsysim.evidence.scoring import decisions
from mlsysim.evidence.scoring.ranges import COUNTED, Left, LeftError, Spreads, common_error, in_spreads, quantile
from mlsysim.evidence.written import toml
from mlsysim.intervals import run_spread, run_weight
from mlsysim.tables import Table, table

POINTS = (0, 1, 2, 5)
FILE = Path(__file__).with_name("own_points.toml")
_BEFORE = "# What points of one's own are worth, written by scripts/maintain/fit_all.py. Do not edit."
_LEAST = max(POINTS) + 1  # rows of a source in a place: the question, and the points
_DRAWS = 10  # choices of points for a question


@dataclass(frozen=True)
class Worth:
    """Of so many points: mean error of a prediction, share of the measurements in its range, and the range each way; sources alike."""

    points: int
    error: float
    held: float
    width: float  # the ends are x/width and x width
    sources: int
    rows: int


def draws(count: int, question: int, points: int) -> list[list[int]]:
    """Choices of points beside a question, spread over the others, without chance.

    >>> draws(4, 0, 2)
    [[1, 2], [2, 3], [3, 1]]
    >>> draws(4, 0, 0)
    [[]]
    """
    others = [i for i in range(count) if i != question]
    if not points:
        return [[]]
    step = max(1, len(others) // points)
    starts = range(0, len(others), max(1, -(-len(others) // _DRAWS)))
    return [[others[(s + k * step) % len(others)] for k in range(points)] for s in starts]


def worth(lefts: Mapping[str, Left]) -> dict[str, tuple[Worth, ...]]:
    """What points are worth in every class, by their number; nothing of a class where no source has rows enough in a place."""
    alone = {name: Left(name, left.sets, {}, {}) for name, left in lefts.items() if name not in COUNTED}  # times alone
    standard = in_spreads(alone)
    return {name: found for name, left in alone.items() if (found := _worth(left, alone, standard))}


def _worth(
    left: Left, alone: Mapping[str, Left], standard: Mapping[tuple[str, str], Sequence[float]]
) -> tuple[Worth, ...]:
    by: dict[str, dict[str, list[LeftError]]] = {}
    for e in left.sets:
        if not e.counted:
            by.setdefault(e.source, {}).setdefault(e.place, []).append(e)
    asked = {s: kept for s, places in by.items() if (kept := {p: v for p, v in places.items() if len(v) >= _LEAST})}
    found: dict[int, list[tuple[float, float, float]]] = {n: [] for n in POINTS}
    for source, places in asked.items():
        common = min(0.99, common_error(e for e in left.sets if e.source != source).get("common", 0.0))
        spread, q = Spreads(alone, source).of(left.class_name), quantile(standard, left.class_name, source)
        for n in POINTS:
            weight = float(run_weight(float(n), common))
            each = [
                _one([e.error for e in rows], n, weight, q * float(run_spread(spread(place), common, weight)))
                for place, rows in places.items()
            ]
            every = [one for ones in each for one in ones]
            found[n].append(
                (mean([e for e, _, _ in every]), mean([h for _, h, _ in every]), mean([w for _, _, w in every]))
            )
    rows = sum(len(v) for places in asked.values() for v in places.values())
    return tuple(
        Worth(
            n,
            mean([e for e, _, _ in votes]),
            mean([h for _, h, _ in votes]),
            math.exp(mean([w for _, _, w in votes])),
            len(votes),
            rows,
        )
        for n, votes in found.items()
        if votes
    )


def _one(errors: Sequence[float], points: int, weight: float, end: float) -> list[tuple[float, float, float]]:
    """Relative error, whether the range holds it, and its half-width, of every question with every choice of points."""
    found = []
    for i, error in enumerate(errors):
        for chosen in draws(len(errors), i, points):
            moved = error - (weight * mean([errors[k] for k in chosen]) if chosen else 0.0)
            found.append((abs(math.expm1(moved)), float(abs(moved) <= end), end))
    return found


def as_toml(lefts: Mapping[str, Left]) -> str:
    """The same as text of own_points.toml."""
    found = {
        name: {f"points_{w.points}": {n: v for n, v in vars(w).items() if n != "points"} for w in each}
        for name, each in worth(lefts).items()
    }
    return toml(_BEFORE, found, lambda value: f"{value:.4g}")


@cache
def shipped() -> Mapping[str, tuple[Worth, ...]]:
    """What points were worth on the rows that ship, as own_points.toml has it.

    >>> before, one = (w.error for w in shipped()["inference"][:2])
    >>> one < before
    True
    """
    import tomllib

    text = FILE.read_text(encoding="utf-8")
    return {
        name: tuple(Worth(int(n.removeprefix("points_")), **numbers) for n, numbers in found.items())
        for name, found in tomllib.loads(text).items()
    }


def table_of() -> Table:
    """The same as a table: mean error, share held and half-width of the range by the number of points."""
    head = ("class", "sources", "rows", *(f"{n} points" for n in POINTS))
    rows = []
    for name, found in shipped().items():
        cells = [f"{w.error:.1%}, {w.held:.0%} in x{w.width:.2f}" for w in found]
        rows.append((name, str(found[0].sources), str(found[0].rows), *cells))
    return table(head, rows)


def _components(groups: Iterable[Sequence[float]]) -> tuple[float, float]:
    """Variance of log errors that a group shares, about zero, and of what each has of its own; every group is a vote.

    >>> [round(v, 6) for v in _components([(0.1, 0.3), (-0.3, -0.1)])]
    [0.04, 0.01]
    """
    groups = list(groups)
    return (
        mean([mean(own) ** 2 for own in groups]),
        mean([mean([(e - mean(own)) ** 2 for e in own]) for own in groups]),
    )


@cache
def regrets(kind: str = "serving") -> Mapping[int, decisions.DecisionScore]:
    """What a first choice gives away after so many points of its group at other lengths moved every prediction alike, by their number.

    The points are of any device, server and layout, so they say what the group has in common and nothing of one candidate against another.
    """
    known: dict[str, dict[tuple[str, ...], float]] = {}
    for q in decisions.questions(kind):
        for c, s in zip(q.candidates, decisions.said(q, decisions.blind(kind)), strict=True):
            if s is not None:
                known.setdefault(q.group, {})[c.ids] = math.log(c.times[0] / s[0])
    found: dict[int, list[decisions.Outcome]] = {n: [] for n in POINTS}
    for q in decisions.questions(kind):
        asked = {c.ids for c in q.candidates}
        others = [e for ids, e in known.get(q.group, {}).items() if ids not in asked]
        if len(others) < max(POINTS):
            continue
        shared, own = _components(tuple(e.values()) for group, e in known.items() if group != q.group)
        said = decisions.said(q, decisions.blind(kind))
        for n in POINTS:
            weight, each = float(run_weight(float(n), min(0.99, shared / (shared + own)))), []
            for chosen in draws(len(others) + 1, len(others), n):
                factor = math.exp(weight * mean([others[i] for i in chosen])) if chosen else 1.0
                each.append(decisions.choose(q, [None if s is None else (s[0] * factor, s[1] / factor) for s in said]))
            found[n].append(
                replace(each[0], regret=mean([o.regret for o in each]), missed=mean([o.missed for o in each]))
            )
    return {n: decisions.summarise(kind, f"{n} points", outcomes) for n, outcomes in found.items()}


def regret_told() -> str:
    """The same in a sentence, beside points of the layouts among which one chooses."""
    found = regrets()
    of_each = decisions.summarise("serving", "point", decisions.outcomes("serving", "point"))
    after = ", ".join(f"{s.regret:.1%} after {n}" for n, s in found.items())
    return (
        f"Choices of a server under a target ({found[0].questions} questions, {found[0].groups} groups) give away so much after so many points "
        f"of the same model at other lengths: {after}. They move all candidates alike, and a choice lies between them: one point of each "
        f"layout brings it to {of_each.regret:.1%}."
    )
