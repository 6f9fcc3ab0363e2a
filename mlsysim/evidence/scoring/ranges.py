"""Ranges made of errors that their predictions had not seen, with the spread between sources, domains and sets in them.

A source's errors have a size, which four fifths of them do not exceed, as a range promises; a run that compiled its kernels while it
was timed makes a source no larger. Of the sizes of its sources every class has a spread, their geometric mean, and every place
(generation, kind, precision, phase) has one of its own sources. Few sources say little, and sources of few rows less, so the spread of
a place is drawn towards its class's, and that towards all classes' (eq-pooled-share). A range is as many
spreads wide as hold four fifths of the sources of all classes, each judged without itself; a class with many moves from there to its own.

An error counts when constants predicted it that had seen neither its source nor any other of its set, since strangers' rows come in a
set of their own; and for ground that nobody has seen, neither its source nor its domain.
"""

import datetime
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import Any

from mlsysim._numeric import Num, maximum
from mlsysim.efficiencies import pooled_share
from mlsysim.equations import POSITIVE, equation
from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.metrics import mean
from mlsysim.evidence.rows import SETS
from mlsysim.evidence.scoring.conformal import MIN_GROUPS, NOMINAL, GroupedErrors, vote
from mlsysim.evidence.scoring.domains import domain_of, sources_of_parts
from mlsysim.evidence.scoring.leaving import Leaving, by_set
from mlsysim.evidence.scoring.report import Report, fit, score_with
from mlsysim.intervals import LARGEST, STRENGTH, log_error, place_name

# Places whose rows are arithmetic on what is given. Ours agrees with it, so they have a range of their own.
COUNTED: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "memory": {"kind": ("params", "model_state", "activation_layer", "activation_stage", "kv_cache")},
        "scalar": {"phase": ("closed_form", "reference")},
    }
)
_LEAST = 0.002  # size of errors of a source whose rows are exact: nothing is printed to more digits


@equation("eq-two-levels", formula="max(sets, domains)", domain={"sets": POSITIVE, "domains": POSITIVE})
def wider_spread(sets: Num, domains: Num) -> Num:
    """Spread of a class's errors where none of its sources has been: without the set, or without domain and source.

    Formula: s_new = max(s_sets, s_domains).

    Parameters
    ----------
    sets : float or array, 1
        Middle size of the errors of sources whose whole set was left out.
    domains : float or array, 1
        Middle size of the errors of sources that were left out together with the domains they lie in.

    Returns
    -------
    float or array, 1

    Assumptions: a part that nobody has seen makes no prediction better.

    >>> wider_spread(0.2, 0.5), wider_spread(0.2, 0.1)
    (0.5, 0.2)

    Source: barber2021jackknife, the jackknife of its section 1, once over sets and once over domains.
    """
    return maximum(sets, domains)


@dataclass(frozen=True)
class LeftError:
    """The log error of a row whose prediction had not seen its set, or neither its source nor its domain."""

    id: str
    source: str
    error: float
    place: str
    counted: bool = False  # arithmetic on what is given


@dataclass(frozen=True)
class Left:
    """All such errors of a class: every row without its set, and the rows of every domain without domain and source."""

    class_name: str
    sets: tuple[LeftError, ...]
    domains: Mapping[str, tuple[LeftError, ...]]
    seen: Mapping[str, tuple[str, ...]]
    shared: Mapping[str, float] = field(
        default_factory=dict
    )  # what two devices, and two points of a source, share of an error


def counted(class_name: str, place: Mapping[str, str]) -> bool:
    """Whether a row is arithmetic on what it gives."""
    return any(place[part] in values for part, values in COUNTED.get(class_name, {}).items())


def _errors(name: str, report: Report, cases: Mapping[str, Case]) -> tuple[LeftError, ...]:
    """A row without a prediction has no error, and one that is no prediction at all has none either."""
    found = []
    for r in report.rows:
        if r.predicted is not None and r.predicted > 0:
            where = domain_of(name, cases[r.id].inputs)
            error = float(log_error(r.predicted, r.measured))
            found.append(LeftError(r.id, r.group, error, place_name(where), counted(name, where)))
    return tuple(found)


def left_errors(found: Leaving) -> Left:
    """Errors of a class from its scores without sets, and without domains and sources."""
    name, cases = found.file.case_class.name, {c.id: c for c in found.file.cases}
    have = sources_of_parts(name, found.file.cases)
    measured = {i for i, c in cases.items() if not counted(name, domain_of(name, c.inputs))}
    asked = [c.group for i, c in cases.items() if i in measured]  # arithmetic is in no domain, and makes none smaller
    domains = {
        label: kept
        for label, report in found.domains.items()
        if not _most([r.group for r in report.rows if r.id in measured], asked)
        if (kept := tuple(e for e in _errors(name, report, cases) if not e.counted))
    }
    seen = MappingProxyType({part: tuple(sorted(values)) for part, values in have.items()})
    errors = _errors(name, found.sets, cases)
    shared = shared_error(found.file.cases, errors) | common_error(errors)
    if name == "training_step":
        shared |= shared_error(found.file.cases, errors, _PLAN, "shared_plans")
    return Left(name, errors, MappingProxyType(domains), seen, shared)


def _most(rows: Sequence[str], every: Sequence[str]) -> bool:
    """Whether a domain holds most rows and most sources: what would remain is not what a range is asked about."""
    return len(rows) > len(every) / 2 and len(set(rows)) > len(set(every)) / 2


# What a row says of the machine; rows that are alike in all else of their inputs differ in the device alone.
_MACHINE = frozenset(
    [
        "device",
        "peak_flops",
        "hbm_bandwidth",
        "hbm_bytes",
        "devices_per_node",
        "intra_node_bandwidth",
        "inter_node_bandwidth",
        "note",
    ]
)


# Of these no row is another device for its own sake: what follows from the device, and remarks.
_FOLLOWS = _MACHINE - {"device"}
# What a row says of the plan; rows that are alike in all else are one job, split in two ways.
_PLAN = frozenset(
    [
        *("tp", "pp", "cp", "ep", "dp", "sharding", "virtual_stages", "micro_batch", "recompute", "seq_parallel"),
        *("cp_comm_type", "note"),
    ]
)


def shared_error(
    cases: Sequence[Case], errors: Iterable[LeftError], parts: frozenset[str] = _MACHINE, name: str = "shared"
) -> dict[str, Any]:
    """How much of an error two devices, or two plans, share where one source measured the same with both.

    In the random effects e = u + v, with u of what is asked and who measured it and v of the device or the plan in it, two such rows have the
    covariance var(u). It is taken about zero, as ranges are, over the pairs of rows of a source, and divided by the mean square of
    the same rows; the share is the mean over sources, so that none counts for more because its errors are larger.

    Returns
    -------
    dict
        ``shared`` (the share of the variance; or the name), ``shared_sources`` and ``shared_pairs``; empty without a pair.
    """
    by_id = {e.id: e.error for e in errors}
    alike: dict[Any, list[tuple[str, float]]] = {}
    for c in cases:
        if c.id in by_id:
            same = tuple(sorted((k, str(v)) for k, v in c.inputs.items() if k not in parts and v is not None))
            own = str([c.inputs.get(k) for k in sorted(parts - _FOLLOWS)])
            alike.setdefault((c.group, same), []).append((own, by_id[c.id]))
    votes: dict[str, list[tuple[float, float]]] = {}
    for (source, _), rows in alike.items():
        for i, (one, a) in enumerate(rows):
            votes.setdefault(source, []).extend((a * b, (a * a + b * b) / 2.0) for other, b in rows[:i] if other != one)
    votes = {source: pairs for source, pairs in votes.items() if pairs}
    if not votes:
        return {}
    shares = [math.fsum(p for p, _ in pairs) / math.fsum(s for _, s in pairs) for pairs in votes.values()]
    return {name: mean(shares), f"{name}_sources": len(votes), f"{name}_pairs": sum(map(len, votes.values()))}


def common_error(errors: Iterable[LeftError]) -> dict[str, float]:
    """How much of an error a point tells of the next one of its source: in the same place, and apart from it.

    The covariance of two points of a source about zero, over the mean square of the same points, as in :func:`shared_error`; the
    share is the mean over sources, each one vote. None is below zero.

    >>> common_error([LeftError("1", "A", 0.2, "x"), LeftError("2", "A", 0.2, "x"), LeftError("3", "A", -0.2, "y")])
    {'common': 1.0, 'common_apart': 0.0}
    """
    votes: dict[str, dict[str, list[tuple[float, float]]]] = {"common": {}, "common_apart": {}}
    by: dict[str, list[LeftError]] = {}
    for e in errors:
        if not e.counted:
            by.setdefault(e.source, []).append(e)
    for source, own in by.items():
        for a, b in combinations(own, 2):
            pair = a.error * b.error, (a.error**2 + b.error**2) / 2.0
            votes["common" if a.place == b.place else "common_apart"].setdefault(source, []).append(pair)
    found = {}
    for name, pairs in votes.items():
        sums = [(math.fsum(p for p, _ in each), math.fsum(s for _, s in each)) for each in pairs.values()]
        if shares := [product / squares for product, squares in sums if squares]:
            found[name] = max(0.0, mean(shares))
    return found


def sizes(errors: Iterable[LeftError]) -> dict[str, tuple[float, float]]:
    """Of every source the size of its errors, which four fifths of them do not exceed, and its vote.

    >>> sizes([LeftError(str(i), "A", e, "") for i, e in enumerate((0.3, -0.4, 0.1, 0.2, 9.0))])["A"][0]
    0.4
    """
    by: dict[str, list[float]] = {}
    for e in errors:
        by.setdefault(e.source, []).append(abs(e.error))
    found = {source: sorted(each)[math.ceil(NOMINAL * len(each)) - 1] for source, each in by.items()}
    return {source: (max(_LEAST, size), vote(len(by[source]))) for source, size in found.items()}


def middle(sizes: Collection[tuple[float, float]]) -> tuple[float, float]:
    """The geometric mean of some sizes by their votes, and how many votes these are.

    >>> middle([(0.1, 0.5), (0.4, 0.5)])
    (0.2, 1.0)
    """
    votes = math.fsum(v for _, v in sizes)
    return math.exp(math.fsum(v * math.log(size) for size, v in sizes) / votes), votes


@dataclass(frozen=True)
class Spreads:
    """Spreads of some classes, without the rows of somebody who is to be judged by them."""

    lefts: Mapping[str, Left]
    source: str = ""  # without a vote in any class
    rows: frozenset[str] = frozenset()  # ids without a vote

    def _kept(self, errors: Iterable[LeftError]) -> list[LeftError]:
        return [e for e in errors if not e.counted and e.source != self.source and e.id not in self.rows]

    @cached_property
    def own(self) -> Mapping[str, tuple[float, float]]:
        """Of every class the spread that its own sources say, and how many votes they have; nothing of a class without sources."""
        found = {}
        for name, left in self.lefts.items():
            alone = sizes(self._kept(left.sets))
            both = sizes(self._kept(e for errors in left.domains.values() for e in errors))
            if alone:
                without_set, votes = middle(alone.values())
                without_both = middle(both.values())[0] if both else without_set
                found[name] = (float(wider_spread(without_set, without_both)), votes)
        return found

    def of_class(self, name: str) -> float:
        """Spread of a class, drawn towards that of the others."""
        others = [spread for other, (spread, _) in self.own.items() if other != name]
        spread, votes = self.own.get(name, (1.0, 0.0))
        if not others:
            return spread
        family = math.exp(mean([math.log(s) for s in others]))
        return float(pooled_share(spread, family, votes, STRENGTH))

    def places(self, name: str) -> dict[str, tuple[float, float, int]]:
        """Of every place of a class the spread that its own sources say, their votes, and how many they are."""
        by: dict[str, list[LeftError]] = {}
        for e in self._kept(self.lefts[name].sets):
            by.setdefault(e.place, []).append(e)
        found = {place: sizes(errors).values() for place, errors in by.items()}
        return {place: (*middle(each), len(each)) for place, each in found.items()}

    def of(self, name: str) -> Callable[[str], float]:
        """Spread of a place of a class, drawn towards that of the class."""
        family, places = self.of_class(name), self.places(name)

        def spread(place: str) -> float:
            own, votes, _ = places.get(place, (family, 0.0, 0))
            return float(pooled_share(own, family, votes, STRENGTH))

        return spread


def in_spreads(lefts: Mapping[str, Left]) -> dict[tuple[str, str], list[float]]:
    """The errors of every source of every class over the spread of their places, which they themselves have no vote in."""
    found: dict[tuple[str, str], list[float]] = {}
    for source in sorted({e.source for left in lefts.values() for e in left.sets}):
        without = Spreads(lefts, source)
        for name, left in lefts.items():
            own = [e for e in left.sets if e.source == source and not e.counted]
            if own and without.own:
                spread = without.of(name)
                found[name, source] = [e.error / spread(e.place) for e in own]
    return found


def quantile(standard: Mapping[tuple[str, str], Sequence[float]], name: str = "", source: str = "") -> float:
    """How many spreads wide a range is each way: by ranks of all sources but one, each with one vote.

    That of a class with sources enough for ranks of its own is drawn from there towards it, all classes counting as so many sources.
    """

    def ranked(which: str) -> GroupedErrors:
        kept = [e for (of, own), e in standard.items() if own != source and which in ("", of)]
        return GroupedErrors(tuple(map(tuple, kept)))

    common, own = ranked("").quantiles(NOMINAL)[1], ranked(name)
    if not name or len(own.groups) < MIN_GROUPS:
        return common
    return float(pooled_share(own.quantiles(NOMINAL)[1], common, len(own.groups), MIN_GROUPS))


def _arithmetic(left: Left, source: str = "") -> GroupedErrors:
    by: dict[str, list[float]] = {}
    for e in left.sets:
        if e.counted and e.source != source:
            by.setdefault(e.source, []).append(e.error)
    return GroupedErrors(tuple(map(tuple, by.values())))


def held_sources(
    lefts: Mapping[str, Left], standard: Mapping[tuple[str, str], Sequence[float]]
) -> dict[str, dict[str, float]]:
    """Of every source of every class, the share of its rows in ranges that it had no vote in; one too wide to say holds nothing."""
    found: dict[str, dict[str, float]] = {name: {} for name in lefts}
    for name, left in lefts.items():
        for source in sorted({e.source for e in left.sets}):
            inside = []
            if own := [e for e in left.sets if e.source == source and not e.counted]:
                q, spread = quantile(standard, name, source), Spreads(lefts, source).of(name)
                inside = [held(e.error, q * spread(e.place)) for e in own]
            if exact := [e for e in left.sets if e.source == source and e.counted]:
                others = _arithmetic(left, source)
                end = others.quantiles()[1] if len(others.groups) >= MIN_GROUPS else 0.0
                inside += [held(e.error, end) for e in exact]
            found[name][source] = mean(inside)
    return found


def held(error: float, end: float) -> float:
    """Whether a range holds an error; one wider than it may be says that nobody knows, and holds nothing.

    >>> held(0.1, 0.2), held(-0.3, 0.2), held(0.1, 2.0)
    (1.0, 0.0, 0.0)
    """
    return float(abs(error) <= end <= math.log(LARGEST))


def held_domains(
    lefts: Mapping[str, Left], standard: Mapping[tuple[str, str], Sequence[float]]
) -> dict[str, dict[str, float]]:
    """Of every domain of every class, the share of its sources' rows in ranges that none of its rows had a vote in."""
    found: dict[str, dict[str, float]] = {name: {} for name in lefts}
    for name, left in lefts.items():
        q = quantile(standard, name)
        for label, errors in left.domains.items():
            without = Spreads(lefts, rows=frozenset(e.id for e in errors))
            if name in without.own:
                spread = without.of(name)
                by: dict[str, list[float]] = {}
                for e in errors:
                    by.setdefault(e.source, []).append(held(e.error, q * spread(e.place)))
                found[name][label] = mean([mean(inside) for inside in by.values()])
    return found


@dataclass(frozen=True)
class Came:
    """What was promised of a set before it came, and what came: errors and shares held, means over sources."""

    promised: float  # error of the sources until then, each without its set
    error: float
    held: float
    sources: int


def foretold(files: Mapping[str, CaseFile]) -> dict[str, dict[str, Came]]:
    """By class and set: constants and ranges of the sets before it, judged by it. The structure of the predictors knew all sets."""
    found: dict[str, dict[str, Came]] = {name: {} for name in files}
    order = sorted({c.set for f in files.values() for c in f.cases} - {""}, key=SETS.index)
    for i, coming in enumerate(order):
        before = {n: replace(f, cases=tuple(c for c in f.cases if c.set in order[:i])) for n, f in files.items()}
        before = {name: file for name, file in before.items() if file.cases}
        reports = {name: by_set(file) for name, file in before.items()}
        lefts = {n: Left(n, _errors(n, reports[n], {c.id: c for c in f.cases}), {}, {}) for n, f in before.items()}
        standard = in_spreads(lefts)
        if len(standard) < MIN_GROUPS:
            continue
        spreads = Spreads(lefts)
        for name, file in files.items():
            known = {c.group for c in file.cases if c.set in order[:i]}
            new = replace(file, cases=tuple(c for c in file.cases if c.set == coming and c.group not in known))
            if not new.cases or name not in before:
                continue
            report, spread = score_with(new, fit(name, before[name].cases)), spreads.of(name)
            q = quantile(standard, name)
            inside: dict[str, list[float]] = {group: [] for group in report.summary.groups}
            for e in _errors(name, report, {c.id: c for c in new.cases}):
                inside[e.source].append(
                    held(e.error, _arithmetic(lefts[name]).quantiles()[1] if e.counted else q * spread(e.place))
                )
            for row in report.rows:
                if row.predicted is None:
                    inside[row.group].append(0.0)
            found[name][coming] = Came(
                promised=reports[name].summary.mape_mean_over_groups,
                error=report.summary.mape_mean_over_groups,
                held=mean([mean(each) for each in inside.values()]),
                sources=len(inside),
            )
    return found


def mean_and_error(shares: Sequence[float]) -> tuple[float, float]:
    """Mean of some shares and its standard error, which is not a number for a single one.

    >>> mean_and_error([0.5, 1.0])
    (0.75, 0.25)
    """
    n, middle = len(shares), mean(shares)
    return middle, math.sqrt(sum((x - middle) ** 2 for x in shares) / (n - 1) / n) if n > 1 else math.nan


def entries(
    lefts: Mapping[str, Left], date: datetime.date, came: Mapping[str, Mapping[str, Came]] = MappingProxyType({})
) -> dict[str, Any]:
    """What intervals.toml says: the width in spreads, and of every class its spreads, what has been seen, and how the checks went."""
    standard = in_spreads(lefts)
    spreads = Spreads(lefts)
    checks = {"sources": held_sources(lefts, standard), "domains": held_domains(lefts, standard)}
    rows = sum(len(errors) for errors in standard.values())
    text: dict[str, Any] = {
        "ranges": {
            "nominal": NOMINAL,
            "date": date.isoformat(),
            "spreads": quantile(standard),
            "sources": len(standard),
            "rows": rows,
        }
    }
    for name, left in lefts.items():
        spread, measured, q = spreads.of(name), [e for e in left.sets if not e.counted], quantile(standard, name)
        own: dict[str, Any] = {
            "spread": spreads.of_class(name),
            "spreads": q,
            "groups": len({e.source for e in measured}),
            "rows": len(measured),
            "unknown": _unknown(measured, {e.place: q * spread(e.place) for e in measured}),
        }
        for what, each in checks.items():
            if shares := list(each[name].values()):
                own[f"coverage_{what}"], error = mean_and_error(shares)
                own[f"judged_{what}"] = len(shares)
                own |= {f"error_{what}": error} if math.isfinite(error) else {}
        own |= left.shared
        own["places"] = {place: list(found) for place, found in sorted(spreads.places(name).items())}
        exact = _arithmetic(left)
        if len(exact.groups) >= MIN_GROUPS:
            low, high = exact.quantiles()
            own["counted"] = {"low": low, "high": high, "groups": len(exact.groups), "rows": exact.rows}
            own["counted"]["coverage"] = exact.coverage()
            own["counted"]["places"] = {part: list(values) for part, values in COUNTED[name].items()}
        own["seen"] = {part: list(values) for part, values in left.seen.items()}
        own["came"] = {order: vars(found) for order, found in came.get(name, {}).items()}
        text[name] = own
    return text


def _unknown(errors: Iterable[LeftError], ends: Mapping[str, float]) -> float:
    """Share of the rows whose range is too wide to say anything, each source one vote."""
    by: dict[str, list[float]] = {}
    for e in errors:
        by.setdefault(e.source, []).append(float(ends[e.place] > math.log(LARGEST)))
    return mean([mean(each) for each in by.values()]) if by else 0.0
