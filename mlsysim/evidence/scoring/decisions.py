"""Decisions as a score: what the first choice of a model costs where several answers to one question were measured.

The questions, their groups and the scoring stand here as they were written down before anything was predicted for them.
A question's candidates are measured rows that agree in what the question gives; what they differ in is the choice. Rows that differ
in no input are one candidate, which nobody could tell apart. The prediction of a candidate had seen neither a source of the
question's group nor any row of a domain (all four parts) in which a candidate of the group lies.
"""

import csv
import io
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import combinations
from types import MappingProxyType

from mlsysim import intervals, units
from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation
from mlsysim.evidence.cases import Case
from mlsysim.evidence.metrics import mean
from mlsysim.evidence.predictors.base import Row
from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring import rules
from mlsysim.intervals import checks, run_weight
from mlsysim.results import Result
from mlsysim.tables import Table, table

FILE = "blind.csv"  # class, row and blind prediction, written by scripts/maintain/predict_blind.py
REFUSED = 1.0  # regret of a refusal, and of a missed target
_GROUPS, _DRAWS, _SEED = 5, 2000, 38  # fewest groups of an interval, and how it is drawn
CAUTIONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # powers of odds among which other groups choose
_NOMINAL = 0.8  # of errors, by whose end a scale is counted
WAYS: Mapping[str, str] = MappingProxyType(
    {
        "ours": "ours, blind",
        "odds": "ours, by odds",
        "point": "ours, one point",
        "measured": "ours, first one tried",
        "rule": "simplest rule",
        "chance": "at random",
    }
)
_SMALL = 1e-9
Predictions = Mapping[tuple[str, str], float]  # by class and row


@dataclass(frozen=True)
class Kind(Result):
    """Questions of one kind: what they give, and which of them are one group."""

    title: str
    classes: tuple[str, ...]  # predicted times of a candidate
    given: tuple[str, ...]  # columns, or "source", in which the candidates of a question agree
    joins: str = "source"  # questions with one of these in common are one group
    targets: tuple[float, ...] = ()  # s, held against the first class
    shares: tuple[tuple[str, ...], ...] = ()  # columns in which two candidates may agree, the coarsest first


_SHAPE = ("phase", "kind", "batch", "q_heads", "kv_heads", "head_dim", "v_head_dim", "kv_lora_rank", "rope_dim")
_DEGREES = ("tp", "attention_dp", "moe_tp", "moe_ep")
_LAYOUT = (*_DEGREES, *(f"{pool}_{name}" for pool in ("prefill", "decode") for name in ("workers", *_DEGREES)))
_JOB = ("source", "model", "device", "n_devices", "global_batch", "seq", "attn_len", "precision", "task")
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "serving": Kind(
            "device, format, server, layout and batch for a model and its lengths, by tokens per second and device",
            ("serving_tpot", "serving_ttft"),
            ("model", "input_len", "output_len"),
            "model",
            (0.01, 0.02, 0.03, 0.05, 0.1),
            (("device",), ("backend", "mode"), ("precision", "gemm_quant", "moe_quant"), _LAYOUT),
        ),
        "training": Kind("plan of one training job", ("training_step",), _JOB),
        "collective": Kind("device and algorithm of a collective", ("collective",), ("op", "n_ranks", "bytes")),
        "algorithm": Kind(
            "algorithm on given devices",
            ("collective",),
            ("source", "device", "op", "n_ranks", "ranks_per_node", "bytes"),
        ),
        "gemm": Kind("device for a product", ("gemm",), ("precision", "groups", "m", "n", "k")),
        "attention": Kind("device for attention", ("attention",), (*_SHAPE, "q_len", "kv_len", "causal", "precision")),
    }
)


@dataclass(frozen=True)
class Candidate(Result):
    """A measured answer: its rows, its times by class, and what they are worth."""

    ids: tuple[str, ...]
    times: tuple[float, ...]  # s, of the classes of its kind
    value: float


@dataclass(frozen=True)
class Question(Result):
    """Candidates of which the best is wanted that keeps the target, if there is one."""

    kind: str
    name: str
    group: str
    candidates: tuple[Candidate, ...]
    target: float | None = None


@equation(
    "eq-regret",
    formula="1 - chosen / best",
    domain={"chosen": "[0, inf)", "best": POSITIVE},
    relations=("chosen <= best",),
)
def regret(chosen: Num, best: Num) -> Num:
    """Share of what was possible that a choice gives away.

    Formula: R = 1 - v_chosen / v_best.

    Parameters
    ----------
    chosen : float or array, 1/s
        What the chosen answer was measured to be worth, as work per second; 0 where it misses its target or none was chosen.
    best : float or array, 1/s
        What the best answer that keeps the target was measured to be worth.

    Returns
    -------
    float or array, 1

    Assumptions: more is better, and every answer among which one could choose was measured.

    >>> regret(80.0, best=100.0)
    0.19999999999999996

    Source: savage1951theory, loss against the best act.
    """
    return 1 - chosen / best


def _given(kind: Kind, case: Case) -> tuple[str, ...]:
    return tuple(case.source if c == "source" else str(case.inputs.get(c)) for c in kind.given)


def _worth(kind: Kind, case: Case, times: Sequence[float]) -> float:
    """Work per second: of a server tokens per second and device, of all else one piece of work."""
    if len(times) == 1:
        return 1.0 / times[0]
    row = Row(case.inputs)
    pools = ("prefill_", "decode_") if "disagg" in str(row.need("mode")) else ("",)
    devices, answer = sum(rules.pool(row, prefix)[0] for prefix in pools), row.number("output_len")
    return row.number("concurrency") * answer / ((times[1] + (answer - 1) * times[0]) * devices)


def _rows(kind: Kind) -> list[tuple[Case, tuple[float, ...]]]:
    """Rows of which every class of a kind has a measurement, with their times."""
    first, *others = (cases(name).cases for name in kind.classes)
    further = [{c.id: c.measured for c in other} for other in others]
    return [(c, (c.measured, *(f[c.id] for f in further))) for c in first if all(c.id in f for f in further)]


def _joined(sets: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """Sets that have a member in common, as one.

    >>> sorted(map(sorted, _joined([frozenset("ab"), frozenset("c"), frozenset("bd")])))
    [['a', 'b', 'd'], ['c']]
    """
    found: list[frozenset[str]] = []
    for own in sets:
        near = [f for f in found if f & own]
        found = [f for f in found if not f & own] + [own.union(*near)]
    return found


@cache
def questions(name: str) -> tuple[Question, ...]:
    """The questions of a kind: two candidates or more; with targets those that some candidates keep and others miss."""
    kind = KINDS[name]
    asked: dict[tuple[str, ...], dict[str, list[tuple[Case, tuple[float, ...]]]]] = {}
    for case, times in _rows(kind):
        asked.setdefault(_given(kind, case), {}).setdefault(repr(sorted(case.inputs.items(), key=str)), []).append(
            (case, times)
        )
    found = []
    for given, alike in asked.items():
        if len(alike) > 1:
            members = frozenset(
                str(c.inputs["model"]) if kind.joins == "model" else c.group for own in alike.values() for c, _ in own
            )
            found.append(
                (" ".join(v for v in given if v != "None"), members, tuple(_candidate(kind, o) for o in alike.values()))
            )
    whole = _joined(members for _, members, _ in found)
    made = []
    for label, members, candidates in found:
        group = "+".join(sorted(next(g for g in whole if members <= g)))
        question = Question(name, label, group, candidates)
        if not kind.targets:
            made.append(question)
        for target in kind.targets:
            if 0 < sum(c.times[0] <= target for c in candidates) < len(candidates):
                made.append(replace(question, name=f"{label} {units.format(target, 's')}", target=target))
    return tuple(made)


def _candidate(kind: Kind, alike: Sequence[tuple[Case, tuple[float, ...]]]) -> Candidate:
    times = tuple(mean(each) for each in zip(*(t for _, t in alike), strict=True))
    return Candidate(tuple(c.id for c, _ in alike), times, _worth(kind, alike[0][0], times))


@dataclass(frozen=True)
class Outcome(Result):
    """What one way of choosing made of a question."""

    question: str
    group: str
    regret: float
    missed: float = 0.0  # 1 where the choice misses its target
    depth: float | None = None  # of a miss: its time over the target, less one
    refused: float = 0.0
    pairs: float | None = (
        None  # share of the pairs of different worth that are in the right order; a pair without a prediction is not
    )


def choose(question: Question, said: Sequence[tuple[float, float] | None]) -> Outcome:
    """Choose by predictions and be judged by measurements.

    Parameters
    ----------
    question : Question
        Its candidates as measured.
    said : sequence of (float, float) or None
        Of every candidate the predicted time that is held against the target (s) and the predicted worth (1/s); None where there is
        no prediction. Where no candidate is predicted to keep the target, nothing is chosen, which is a refusal.
    """
    pairs = _pairs([c.value for c in question.candidates], [None if s is None else s[1] for s in said])
    return replace(_judged(question, first_choice(question, said)), pairs=pairs)


def first_choice(question: Question, said: Sequence[tuple[float, float] | None]) -> int | None:
    """Which candidate is predicted to be worth most among those predicted to keep the target; the first of equals, None for none."""
    keeps = [i for i, s in enumerate(said) if s is not None and (question.target is None or s[0] <= question.target)]
    return max(keeps, key=lambda i: (said[i] or (0.0, 0.0))[1]) if keeps else None


def _judged(question: Question, chosen: int | None) -> Outcome:
    if chosen is None:
        return Outcome(question.name, question.group, REFUSED, refused=1.0)
    first, target = question.candidates[chosen], question.target
    if target is not None and first.times[0] > target:
        return Outcome(question.name, question.group, REFUSED, 1.0, first.times[0] / target - 1)
    return Outcome(question.name, question.group, float(regret(first.value, _best(question))))


def by_chance(question: Question) -> Outcome:
    """What a choice at random makes of a question, on average; half its pairs are in the right order."""
    missed = [question.target is not None and c.times[0] > question.target for c in question.candidates]
    each = [
        REFUSED if m else float(regret(c.value, _best(question)))
        for c, m in zip(question.candidates, missed, strict=True)
    ]
    deep = [c.times[0] / (question.target or 1.0) - 1 for c, m in zip(question.candidates, missed, strict=True) if m]
    return Outcome(
        question.name,
        question.group,
        mean(each),
        mean([float(m) for m in missed]),
        mean(deep) if deep else None,
        0.0,
        0.5,
    )


def _best(question: Question) -> float:
    return max(c.value for c in question.candidates if question.target is None or c.times[0] <= question.target)


def _pairs(measured: Sequence[float], predicted: Sequence[float | None]) -> float | None:
    """Share of the pairs in the right order; half of one where the prediction is the same.

    >>> _pairs([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]), _pairs([1.0, 1.0], [1.0, 2.0])
    (0.6666666666666666, None)
    """
    right = []
    for i, low in enumerate(measured):
        for k, high in enumerate(measured):
            if low < high:
                one, other = predicted[i], predicted[k]
                right.append(0.0 if one is None or other is None else float(one < other) + 0.5 * float(one == other))
    return mean(right) if right else None


@dataclass(frozen=True)
class DecisionScore(Result):
    """Outcomes of one way of choosing over the questions of a kind: means over groups, of which every one is a vote."""

    kind: str
    way: str
    questions: int
    groups: int
    regret: float
    low: float | None  # ends of the 95 % interval, over groups drawn again; None of fewer than five
    high: float | None
    missed: float
    depth: float | None  # mean over the misses
    refused: float
    pairs: float | None


def summarise(kind: str, way: str, outcomes: Sequence[Outcome]) -> DecisionScore:
    """Mean over the questions of a group, then over groups."""
    groups: dict[str, list[Outcome]] = {}
    for o in outcomes:
        groups.setdefault(o.group, []).append(o)

    def over(of: Callable[[Outcome], float | None]) -> float | None:
        votes = [[v for o in own if (v := of(o)) is not None] for own in groups.values()]
        each = [mean(v) for v in votes if v]
        return mean(each) if each else None

    votes = [mean([o.regret for o in own]) for own in groups.values()]
    low, high = _interval(votes)
    deep = [o.depth for o in outcomes if o.depth is not None]
    return DecisionScore(
        kind,
        way,
        len(outcomes),
        len(groups),
        mean(votes),
        low,
        high,
        over(lambda o: o.missed) or 0.0,
        mean(deep) if deep else None,
        over(lambda o: o.refused) or 0.0,
        over(lambda o: o.pairs),
    )


def _interval(votes: Sequence[float]) -> tuple[float | None, float | None]:
    if len(votes) < _GROUPS:
        return None, None
    draw = random.Random(_SEED)
    means = sorted(mean(draw.choices(votes, k=len(votes))) for _ in range(_DRAWS))
    return means[round(0.025 * _DRAWS)], means[round(0.975 * _DRAWS) - 1]


def with_errors(kind: str, own: float, shared: float, seed: int = 0) -> DecisionScore:
    """Decisions by what was measured, times e to normal errors: some that a group shares, and some of each candidate's own.

    >>> with_errors("gemm", 0.0, 0.0).regret
    0.0
    """
    draw, found = random.Random(seed), []
    common = {g: draw.gauss(0.0, shared) for g in sorted({q.group for q in questions(kind)})}
    rows: dict[tuple[str, ...], float] = {}
    for q in questions(kind):
        factors = [math.exp(common[q.group] + rows.setdefault(c.ids, draw.gauss(0.0, own))) for c in q.candidates]
        wrong = [(c.times[0] * f, c.value / f) for c, f in zip(q.candidates, factors, strict=True)]
        found.append(_judged(q, first_choice(q, wrong)))
    return summarise(kind, "errors", found)


@cache
def blind(kind: str) -> Predictions:
    """The blind predictions of a kind that ship, by class and row."""
    text = (files(__package__) / FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return MappingProxyType({(r["class"], r["id"]): float(r["predicted"]) for r in rows if r["kind"] == kind})


def by_rule(kind: str) -> Predictions:
    """What the simplest rule of each class says; a share that is the same for all candidates decides nothing and is left out."""
    asked = {i for q in questions(kind) for c in q.candidates for i in c.ids}
    found = {
        (name, c.id): rules.says(name, c.inputs)
        for name in KINDS[kind].classes
        for c in cases(name).cases
        if c.id in asked
    }
    return {key: value for key, value in found.items() if value is not None}


def said(question: Question, predictions: Predictions) -> list[tuple[float, float] | None]:
    """Of every candidate the time that is held against the target and the worth; a candidate of several rows has one prediction."""
    kind, inputs = KINDS[question.kind], _cases(question.kind)
    found: list[tuple[float, float] | None] = []
    for c in question.candidates:
        times = [predictions.get((name, c.ids[0])) for name in kind.classes]
        known = [t for t in times if t is not None]
        found.append((known[0], _worth(kind, inputs[c.ids[0]], known)) if len(known) == len(times) else None)
    return found


@cache
def errors(kind: str) -> Mapping[str, tuple[float, ...]]:
    """Logs of measured over blind times, the first class's, of every candidate of a group."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for q in questions(kind):
        for c, s in zip(q.candidates, said(q, blind(kind)), strict=True):
            if s is not None:
                found.setdefault(q.group, {})[c.ids] = math.log(c.times[0] / s[0])
    return {group: tuple(own.values()) for group, own in found.items()}


def scale(groups: Iterable[Sequence[float]]) -> float:
    """Scale of errors (``intervals.scale_of``) by the end that 80 % of them keep, every group being a vote.

    >>> round(scale([(0.1, -0.1), (0.2, 0.2, 0.2, 0.2)]) * 1.8856, 3)
    0.2
    """
    groups = [g for g in groups if g]
    ranked = sorted((abs(e), 1.0 / len(own) / len(groups)) for own in groups for e in own)
    held = 0.0
    for size, vote in ranked:
        held += vote
        if held > _NOMINAL - _SMALL:
            return intervals.scale_of(size, _NOMINAL)
    return 0.0


def in_common(kind: str, one: Candidate, other: Candidate) -> int:
    """How many of the parts of a kind's answers two candidates have in common, the coarsest first: none where the first differs."""
    a, b = (_cases(kind)[c.ids[0]].inputs for c in (one, other))
    for level, columns in enumerate(KINDS[kind].shares):
        if any(a.get(c) != b.get(c) for c in columns):
            return level
    return len(KINDS[kind].shares)


@cache
def gaps(kind: str) -> Mapping[str, Mapping[int, tuple[float, ...]]]:
    """By group and by what two candidates of a question have in common: errors of the log of their ratio in worth."""
    found: dict[str, dict[int, dict[frozenset[tuple[str, ...]], float]]] = {}
    for q in questions(kind):
        known = [(c, math.log(c.value / s[1])) for c, s in zip(q.candidates, said(q, blind(kind)), strict=True) if s]
        for (a, e), (b, f) in combinations(known, 2):
            found.setdefault(q.group, {}).setdefault(in_common(kind, a, b), {})[frozenset((a.ids, b.ids))] = e - f
    return {g: {level: tuple(of.values()) for level, of in own.items()} for g, own in found.items()}


@cache
def scales(kind: str, group: str) -> tuple[float, tuple[float, ...]]:
    """By the errors of the other groups: the scale of a time's error, and of a ratio's by what its two have in common.

    A part in which no pair of the other groups differs first errs as the next finer one does.
    """
    others = [own for g, own in gaps(kind).items() if g != group]
    levels: list[float] = []
    for level in reversed(range(len(KINDS[kind].shares) + 1)):
        own = scale(of.get(level, ()) for of in others)
        levels.insert(0, own or levels[0])
    return scale(own for g, own in errors(kind).items() if g != group), tuple(levels)


def odds(question: Question, times: Sequence[float]) -> list[float]:
    """Chance of every candidate to keep the target, by the errors of other groups."""
    spread, _ = scales(question.kind, question.group)
    return [intervals.odds(math.log((question.target or t) / t), spread) for t in times]


def pair_odds(question: Question) -> list[tuple[float, float]]:
    """Of every pair of different worth: the chance that the one said to be worth more is, and whether it was measured to be."""
    _, levels = scales(question.kind, question.group)
    known = [(c, s[1]) for c, s in zip(question.candidates, said(question, blind(question.kind)), strict=True) if s]
    found = []
    for (a, x), (b, y) in combinations(known, 2):
        if a.value != b.value:
            chance = intervals.odds(abs(math.log(x / y)), levels[in_common(question.kind, a, b)])
            found.append((chance, float((a.value > b.value) == (x > y))))
    return found


def shares(kind: str, group: str) -> tuple[float, ...]:
    """Share of the variance that two candidates of a question share, by what they have in common: what a ratio's error lacks of two."""
    one, levels = scales(kind, group)
    return tuple(max(0.0, 1.0 - (between / one) ** 2 / 2.0) for between in levels)


def tried(question: Question) -> Predictions:
    """Blind predictions after the first choice was run: its own times as measured, those of the others moved by the share of its error."""
    kind, predictions = KINDS[question.kind], blind(question.kind)
    first = first_choice(question, said(question, predictions))
    if first is None:
        known = [(s[0], i) for i, s in enumerate(said(question, predictions)) if s]
        if not known:
            return predictions
        first = min(known)[1]  # nobody is said to keep the target: run the quickest
    ran, moved, by = question.candidates[first], dict(predictions), shares(question.kind, question.group)
    for name, time in zip(kind.classes, ran.times, strict=True):
        error = math.log(time / predictions[name, ran.ids[0]])
        for c in question.candidates:
            for i in c.ids:
                if (name, i) in moved:
                    moved[name, i] *= math.exp(error * (1.0 if c is ran else by[in_common(question.kind, ran, c)]))
    return moved


def by_odds(question: Question, caution: float) -> Outcome:
    """Choose by worth times the chance to keep the target to a power: at one the most worth on average, above it more carefully."""
    known = said(question, blind(question.kind))
    some = [s for s in known if s is not None]
    chances = iter(odds(question, [s[0] for s in some]))
    weighed = [None if s is None else (0.0, s[1] * next(chances) ** caution) for s in known]
    return replace(choose(question, weighed), pairs=choose(question, known).pairs)


@cache
def _by_cautions(kind: str) -> Mapping[float, tuple[Outcome, ...]]:
    return {caution: tuple(by_odds(q, caution) for q in questions(kind)) for caution in CAUTIONS}


@cache
def caution(kind: str, group: str) -> float:
    """The power by which the other groups give away least: the best of many answers was flattered, so that odds alone are too bold."""

    def others(outcomes: Sequence[Outcome]) -> float:
        return summarise(kind, "odds", [o for o in outcomes if o.group != group]).regret

    return min(CAUTIONS, key=lambda power: others(_by_cautions(kind)[power]))


def pointed(question: Question) -> Predictions:
    """Blind predictions that one measured point of each layout has moved, at other lengths than the question's: the middle row by name.

    A layout is all that a row says but its lengths and its concurrency. The point weighs what one point of one's own does (eq-run-weight).
    """
    predictions, own = blind(question.kind), {i for c in question.candidates for i in c.ids}
    moved = dict(predictions)
    for name in KINDS[question.kind].classes:
        weight = float(run_weight(1.0, min(0.99, checks(name)["common"])))
        measured = {c.id: c.measured for c in cases(name).cases}
        for layout in _layouts(question.kind).values():
            others = [i for i in layout if i not in own]
            if others:
                point = others[len(others) // 2]
                factor = (measured[point] / predictions[name, point]) ** weight
                moved |= {(name, i): predictions[name, i] * factor for i in layout if i in own}
    return moved


@cache
def _layouts(kind: str) -> Mapping[str, list[str]]:
    """Rows of the candidates of a kind by layout, in the order of their names."""
    found: dict[str, list[str]] = {}
    for i in sorted({i for q in questions(kind) for c in q.candidates for i in c.ids}):
        alike = {k: v for k, v in _cases(kind)[i].inputs.items() if k not in ("input_len", "output_len", "concurrency")}
        found.setdefault(repr(sorted(alike.items())), []).append(i)
    return found


def reliability(kind: str, bins: int = 5) -> list[tuple[float, float, int]]:
    """Odds to keep a target in equal bins: their mean, the share of those candidates that kept it, and how many they are."""
    found: list[tuple[str, float, float]] = []
    for q in questions(kind):
        known = [(c, s[0]) for c, s in zip(q.candidates, said(q, blind(kind)), strict=True) if s is not None]
        for (c, _), p in zip(known, odds(q, [t for _, t in known]), strict=True):
            found.append(("", p, float(q.target is None or c.times[0] <= q.target)))
    return _binned(found, 0.0, bins)


def pair_reliability(kind: str, bins: int = 5) -> list[tuple[float, float, int]]:
    """Odds of pairs in equal bins from one half on: their mean, the share in the right order, both with a vote per group, and how many."""
    return _binned([(q.group, p, right) for q in questions(kind) for p, right in pair_odds(q)], 0.5, bins)


def _binned(found: Sequence[tuple[str, float, float]], least: float, bins: int) -> list[tuple[float, float, int]]:
    by: list[dict[str, list[tuple[float, float]]]] = [{} for _ in range(bins)]
    for group, p, kept in found:
        by[min(bins - 1, int((p - least) / (1.0 - least) * bins))].setdefault(group, []).append((p, kept))
    return [
        (
            mean([mean([p for p, _ in own]) for own in of.values()]),
            mean([mean([k for _, k in own]) for own in of.values()]),
            sum(map(len, of.values())),
        )
        for of in by
        if of
    ]


@cache
def _cases(kind: str) -> Mapping[str, Case]:
    return {c.id: c for c in cases(KINDS[kind].classes[0]).cases}


def outcomes(kind: str, way: str) -> list[Outcome]:
    """Every question of a kind, decided in one way of ``WAYS``."""
    if way == "chance":
        return [by_chance(q) for q in questions(kind)]
    if way == "odds":
        powers = _by_cautions(kind)
        return [powers[caution(kind, q.group)][i] for i, q in enumerate(questions(kind))]
    if way == "measured":
        return [choose(q, said(q, tried(q))) for q in questions(kind)]
    if way == "point":
        return [choose(q, said(q, pointed(q))) for q in questions(kind)]
    predictions = blind(kind) if way == "ours" else by_rule(kind)
    return [choose(q, said(q, predictions)) for q in questions(kind)]


def scores() -> tuple[DecisionScore, ...]:
    """Our decisions, those of the simplest rules, and chance, for every kind of question; odds and points where there are targets to miss."""
    return tuple(
        summarise(kind, way, outcomes(kind, way))
        for kind in KINDS
        for way in WAYS
        if way not in ("odds", "point", "measured") or KINDS[kind].targets
    )


def told(found: Sequence[DecisionScore]) -> str:
    """The scores as a table, with what its words mean."""

    def beside(bins: Sequence[tuple[float, float, int]]) -> str:
        return ", ".join(f"{units.percent(s, 0, signed=False)} {units.percent(k, 0, signed=False)}" for s, k, _ in bins)

    return (
        f"{table_of(found)}\n"
        "regret: share of the best measured worth that a first choice gives away; a missed target and a refusal are 1;\n"
        "means over groups with 95 % of groups drawn again. Blind: without the sources and the domains of a question's group.\n"
        "One point: moved by one measured row of each layout, at other lengths. First one tried: the first choice was run, and the\n"
        "others moved by the part of its error that they share; the choice is then made again. By odds: worth times the chance to\n"
        "keep the target to a power that other groups chose.\n"
        f"Odds of servers, fitted without the group, beside what came. To keep a target: {beside(reliability('serving'))}.\n"
        f"That one is worth more than another: {beside(pair_reliability('serving'))}."
    )


def table_of(found: Sequence[DecisionScore]) -> Table:
    """The scores as a table."""
    head = ("question", "way", "questions", "groups", "regret", "95 %", "missed", "by", "refused", "pairs right")

    def share(value: float | None) -> str:
        return "–" if value is None else units.percent(value, signed=False)

    cells = [
        (
            s.kind, WAYS[s.way], str(s.questions), str(s.groups), f"{s.regret:.2f}",
            "–" if s.low is None else f"{s.low:.2f} to {s.high:.2f}",
            share(s.missed), share(s.depth), share(s.refused), share(s.pairs),
        )
        for s in found
    ]  # fmt: skip
    return table(head, cells)
