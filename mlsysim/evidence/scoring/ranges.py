"""Ranges of two levels, made of errors that their predictions had not seen, and the checks that they can fail.

On *known* ground a prediction errs as left-out sources did; on *new* ground as the rows of a domain did that were predicted
without the domain and without their own source. That is a jackknife over groups, with one vote per source or per domain; a domain's
vote is split over its sources, and the part of a source over its rows. The new range is never narrower than the known one. Shares
held are counted as votes are: of a source its rows, of a domain its sources. Who is judged has no vote at either level.
"""

import datetime
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mlsysim._numeric import Num, maximum
from mlsysim.equations import equation
from mlsysim.errors import InputError
from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.metrics import mean
from mlsysim.evidence.rows import sources
from mlsysim.evidence.scoring.conformal import MIN_GROUPS, NOMINAL, GroupedErrors
from mlsysim.evidence.scoring.domains import domain_of, ground, sources_of_parts
from mlsysim.evidence.scoring.leaving import Leaving, leave_out
from mlsysim.evidence.scoring.report import Report, fit, score_with
from mlsysim.intervals import KNOWN, NEW, log_error

# Classes of one kind whose sources are too few apart; each class says in which pool it stands.
POOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "training_step": ("training_step",),
        "inference": ("inference",),
        **dict.fromkeys(("memory", "scalar"), ("memory", "scalar")),
        "serving_tpot": ("serving_tpot",),
        "serving_ttft": ("serving_ttft",),
        **dict.fromkeys(("gemm", "attention", "collective"), ("attention", "collective", "gemm")),
    }
)
# Places whose rows are arithmetic on what is given. Ours agrees with it, so they have a range of their own.
COUNTED: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "memory": {"kind": ("params", "model_state", "activation_layer", "activation_stage", "kv_cache")},
        "scalar": {"phase": ("closed_form", "reference")},
    }
)


@equation("eq-two-levels", formula="max(sources, domains)", domain={"sources": "(-inf, inf)", "domains": "(-inf, inf)"})
def wider_quantile(sources: Num, domains: Num) -> Num:
    """The upper quantile of errors out of domain: without domain and source, and never inside that of left-out sources.

    Formula: q_new = max(q_sources, q_domains); the lower one mirrored, with both signs turned.

    Parameters
    ----------
    sources : float or array, 1
        Quantile of the log errors of left-out sources.
    domains : float or array, 1
        Quantile of the log errors of left-out domains.

    Returns
    -------
    float or array, 1

    Assumptions: a part that nobody has seen makes no prediction better.

    >>> wider_quantile(0.2, 0.5), wider_quantile(0.2, 0.1)
    (0.5, 0.2)

    Source: barber2021jackknife, the jackknife of its section 1, once over sources and once over domains.
    """
    return maximum(sources, domains)


@dataclass(frozen=True)
class LeftError:
    """The log error of a row whose prediction had not seen its source, or neither its source nor its domain."""

    id: str
    source: str
    error: float
    ground: str  # known, new; counted for arithmetic


@dataclass(frozen=True)
class Left:
    """All such errors of a class: every row without its source, and the rows of every domain without both."""

    class_name: str
    sources: tuple[LeftError, ...]
    domains: Mapping[str, tuple[LeftError, ...]]
    seen: Mapping[str, tuple[str, ...]]


def counted(class_name: str, place: Mapping[str, str]) -> bool:
    """Whether a row is arithmetic on what it gives."""
    return any(place[part] in values for part, values in COUNTED.get(class_name, {}).items())


def _errors(report: Report, by_id: Mapping[str, str]) -> tuple[LeftError, ...]:
    """A row without a prediction has no error, and one that is no prediction at all has none either."""
    return tuple(
        LeftError(r.id, r.group, float(log_error(r.predicted, r.measured)), by_id[r.id])
        for r in report.rows
        if r.predicted is not None and r.predicted > 0
    )


def left_errors(found: Leaving) -> Left:
    """Errors of a class from its scores in and out of domain."""
    name, cases = found.file.case_class.name, found.file.cases
    have = sources_of_parts(name, cases)
    places = {c.id: domain_of(name, c.inputs) for c in cases}
    by_id = {c.id: "counted" if counted(name, places[c.id]) else ground(places[c.id], have, c.group) for c in cases}
    asked = [c.group for c in cases if by_id[c.id] != "counted"]  # arithmetic is in no domain, and makes none smaller
    domains = {
        label: kept
        for label, report in found.domains.items()
        if not _most([r.group for r in report.rows if by_id[r.id] != "counted"], asked)
        if (kept := tuple(e for e in _errors(report, by_id) if e.ground != "counted"))
    }
    seen = MappingProxyType({part: tuple(sorted(values)) for part, values in have.items()})
    return Left(name, _errors(found.sources, by_id), MappingProxyType(domains), seen)


def _most(rows: Sequence[str], every: Sequence[str]) -> bool:
    """Whether a domain holds most rows and most sources: what would remain is not what a range is asked about."""
    return len(rows) > len(every) / 2 and len(set(rows)) > len(set(every)) / 2


def _by(errors: Iterable[tuple[Any, float]]) -> GroupedErrors:
    groups: dict[Any, list[float]] = {}
    for key, error in errors:
        groups.setdefault(key, []).append(error)
    return GroupedErrors(tuple(tuple(found) for found in groups.values()))


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


def shared_error(cases: Sequence[Case], errors: Iterable[LeftError]) -> dict[str, Any]:
    """How much of an error two devices share where one source measured the same on both.

    In the random effects e = u + v, with u of what is asked and who measured it and v of the device in it, two such rows have the
    covariance var(u). It is taken about zero, as ranges are, and divided by the mean square of the same rows; each source has one
    vote, and in it each pair of rows.

    Returns
    -------
    dict
        ``shared`` (the share of the variance), ``shared_sources`` and ``shared_pairs``; empty without a pair.
    """
    by_id = {e.id: e.error for e in errors}
    alike: dict[Any, list[tuple[str, float]]] = {}
    for c in cases:
        if c.id in by_id:
            same = tuple(sorted((k, str(v)) for k, v in c.inputs.items() if k not in _MACHINE and v is not None))
            alike.setdefault((c.group, same), []).append((str(c.inputs.get("device")), by_id[c.id]))
    votes: dict[str, list[tuple[float, float]]] = {}
    for (source, _), rows in alike.items():
        for i, (one, a) in enumerate(rows):
            votes.setdefault(source, []).extend((a * b, (a * a + b * b) / 2.0) for other, b in rows[:i] if other != one)
    votes = {source: pairs for source, pairs in votes.items() if pairs}
    if not votes:
        return {}
    product, square = (mean([mean([pair[i] for pair in pairs]) for pairs in votes.values()]) for i in (0, 1))
    return {"shared": product / square, "shared_sources": len(votes), "shared_pairs": sum(map(len, votes.values()))}


@dataclass(frozen=True)
class Levels:
    """The quantiles of each level, None where the votes are too few, and how many rows and votes stand behind them."""

    known: tuple[float, float] | None
    new: tuple[float, float] | None
    counted: tuple[float, float] | None
    votes: Mapping[str, int]
    rows: Mapping[str, int]
    domains: tuple[float, float] | None = None  # of left-out domains alone, before the wider of the two is taken

    def holds(self, level: str, error: float) -> bool:
        """Whether a range of a level holds an error; where a level has none, that of the next wider."""
        ends = {"counted": self.counted, KNOWN: self.known or self.new, NEW: self.new}[level]
        return ends is not None and ends[0] <= error <= ends[1]


def levels(
    lefts: Sequence[Left],
    nominal: float = NOMINAL,
    without_source: str | None = None,
    without_domain: tuple[str, str] | None = None,
) -> Levels:
    """The quantiles of a pool of classes.

    Parameters
    ----------
    lefts : sequence of Left
        The class itself first; the others of its pool after it.
    nominal : float
        Share that a range should hold.
    without_source : str, optional
        A source that has no vote at any level, nor in another class of the pool: for judging it.
    without_domain : (class, name), optional
        A domain that has no vote, and whose rows have none in any other or at the other level: for judging it.
    """
    gone: set[tuple[str, str]] = set()
    for left in lefts:
        if without_domain and left.class_name == without_domain[0]:
            gone |= {(left.class_name, e.id) for e in left.domains[without_domain[1]]}

    def rows(level: str) -> list[tuple[Any, float]]:
        own = lefts[:1] if level == "counted" else lefts
        return [
            ((left.class_name, e.source), e.error)
            for left in own
            for e in left.sources
            if e.ground == level and e.source != without_source
            if (left.class_name, e.id) not in gone
        ]

    kept = [
        [(e.source, e.error) for e in errors if (left.class_name, e.id) not in gone and e.source != without_source]
        for left in lefts
        for label, errors in left.domains.items()
        if (left.class_name, label) != without_domain
    ]
    domains = GroupedErrors.by_source(filter(None, kept))
    found = {KNOWN: _by(rows(KNOWN)), NEW: domains, "counted": _by(rows("counted"))}
    ends = {level: e.quantiles(nominal) if len(e.groups) >= MIN_GROUPS else None for level, e in found.items()}
    alone = ends[NEW]
    if (known := ends[KNOWN]) and (new := ends[NEW]):
        ends[NEW] = (-float(wider_quantile(-known[0], -new[0])), float(wider_quantile(known[1], new[1])))
    return Levels(
        ends[KNOWN],
        ends[NEW],
        ends["counted"],
        {level: len(e.groups) for level, e in found.items()},
        {level: e.rows for level, e in found.items()},
        alone,
    )


def held_sources(lefts: Sequence[Left]) -> dict[str, float]:
    """Of every source of the first class, the share of its rows in ranges that its rows had no vote in."""
    own, held = lefts[0], {}
    for source in sorted({e.source for e in own.sources}):
        found = levels(lefts, without_source=source)
        held[source] = mean([float(found.holds(e.ground, e.error)) for e in own.sources if e.source == source])
    return held


def held_domains(lefts: Sequence[Left], alone: bool = False) -> dict[str, float]:
    """Of every domain of the first class, the share of its vote in the new range that all others make without its rows.

    With ``alone`` in the range of left-out domains, even where that of left-out sources is wider. Where too few other domains are
    left for one, in that of left-out sources; a domain without which neither can be made is not judged.
    """
    own, held = lefts[0], {}
    for label, errors in own.domains.items():
        found = levels(lefts, without_domain=(own.class_name, label))
        ends = (found.domains if alone else found.new) or found.known
        if ends is not None:
            held[label] = share_held(errors, ends)
    return held


def share_held(errors: Iterable[LeftError], ends: tuple[float, float]) -> float:
    """Share of some errors between two ends, each of their sources with one vote.

    >>> rows = [LeftError("1", "A", 0.1, "known"), LeftError("2", "B", 0.1, "known"), LeftError("3", "B", 0.9, "known")]
    >>> share_held(rows, (-0.5, 0.5))  # all of A's vote and half of B's
    0.75
    """
    by: dict[str, list[float]] = {}
    for e in errors:
        by.setdefault(e.source, []).append(float(ends[0] <= e.error <= ends[1]))
    return mean([mean(inside) for inside in by.values()])


def held_of_pool(lefts: Sequence[Left], held: Callable[[Sequence[Left]], Mapping[str, float]]) -> list[float]:
    """A check of every class of a pool: what each source or each domain of all of them holds."""
    return [
        share for left in lefts for share in held([left, *(other for other in lefts if other is not left)]).values()
    ]


def month_of(case: Case) -> str:
    """The month in which the source of a row was published; a source without one is an error.

    >>> from mlsysim.evidence.rows import cases
    >>> month_of(cases("training_step", source="KORT").cases[0])
    '2022-05'
    """
    known = sources()
    source = known.get(case.source or case.group)
    if source is None or not source.month:
        raise InputError(
            f"sources.csv: no month for source {case.source or case.group!r}; add it with where it was read"
        )
    return source.month


def split_by_time(file: CaseFile, month: str) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """The rows of sources published before a month, and those from it on."""
    early = tuple(c for c in file.cases if month_of(c) < month)
    return early, tuple(c for c in file.cases if month_of(c) >= month)


def held_later(
    files: Sequence[CaseFile], month: str, leave: Callable[[CaseFile], Leaving] = leave_out
) -> dict[str, float]:
    """Fit and ranges from what was published before a month; of every later source of the first class, the share inside.

    Nothing of a later row went into the constants, the quantiles or the choice of its level. Where the class itself had no source
    by then, its pool makes the range, and every later row lies out of domain.
    """
    from dataclasses import replace

    parts = [(f, *split_by_time(f, month)) for f in files]
    file, early, later = parts[0]
    name = file.case_class.name
    if not later or not any(before for _, before, _ in parts):
        raise InputError(f"{name}: nothing was published {f'from {month} on' if not later else f'before {month}'}")
    lefts = [left_errors(leave(replace(f, cases=before))) for f, before, _ in parts if before]
    if not early:
        lefts.insert(0, Left(name, (), {}, {}))
    found, have = levels(lefts), sources_of_parts(name, early)
    report = score_with(replace(file, cases=later), fit(name, early))
    places = {c.id: domain_of(name, c.inputs) for c in later}
    held: dict[str, list[float]] = {}
    for row in report.rows:
        inside = 0.0
        if row.predicted is not None and row.predicted > 0:
            level = "counted" if counted(name, places[row.id]) else ground(places[row.id], have)
            inside = float(found.holds(level, float(log_error(row.predicted, row.measured))))
        held.setdefault(row.group, []).append(inside)
    return {source: mean(shares) for source, shares in held.items()}


def mean_and_error(shares: Sequence[float]) -> tuple[float, float]:
    """Mean of some shares and its standard error, which is not a number for a single one.

    >>> mean_and_error([0.5, 1.0])
    (0.75, 0.25)
    """
    n, middle = len(shares), mean(shares)
    return middle, math.sqrt(sum((x - middle) ** 2 for x in shares) / (n - 1) / n) if n > 1 else math.nan


def width(ends: tuple[float, float]) -> float:
    """The ends lie as far apart as x 1/width and x width."""
    return math.exp((ends[1] - ends[0]) / 2.0)


def entry(lefts: Sequence[Left], date: datetime.date, later: tuple[str, Mapping[str, float]] | None) -> dict[str, Any]:
    """What intervals.toml says of the first of some classes: both levels, what has been seen, and how the checks went."""
    own = lefts[0]
    found = levels(lefts)
    if found.new is None or (found.known is None and found.new is None):
        votes = found.votes[NEW] if found.new is None else found.votes[KNOWN]
        return {"refused": f"{votes} {'domains' if found.new is None else 'sources'}, and {MIN_GROUPS} are needed"}
    sources, domains = held_sources(lefts), held_domains(lefts)
    pool = [left.class_name for left in lefts]
    text: dict[str, Any] = {"nominal": NOMINAL, "date": date.isoformat()}
    for name, held_by in (("sources", sources), ("domains", domains)):
        if held_by:
            text[f"coverage_{name}"], error = mean_and_error(list(held_by.values()))
            text[f"judged_{name}"] = len(held_by)
            text |= {f"error_{name}": error} if math.isfinite(error) else {}
    every = {"sources": held_of_pool(lefts, held_sources), "domains": held_of_pool(lefts, held_domains)}
    for name, shares in every.items():
        if len(pool) > 1 and shares:
            text |= {f"coverage_pool_{name}": mean(shares), f"judged_pool_{name}": len(shares)}
    if domains:
        if found.domains:
            text["domains_alone"] = found.domains[1]
        text["coverage_domains_alone"] = mean(list(held_domains(lefts, alone=True).values()))
    if later:
        text |= {"later": later[0], "coverage_later": mean(list(later[1].values())), "sources_later": len(later[1])}
    held = {KNOWN: _held_of(lefts, KNOWN), NEW: mean(every["domains"]) if every["domains"] else math.nan}
    held["counted"] = _held_of(lefts[:1], "counted")
    for level, ends in ((KNOWN, found.known), (NEW, found.new), ("counted", found.counted)):
        if ends is None:
            continue
        text[level] = {
            "pool": [own.class_name] if level == "counted" else sorted(pool),
            "low": ends[0],
            "high": ends[1],
            "groups": found.votes[level],
            "rows": found.rows[level],
            "coverage": held[level],
        }
        if level == "counted":
            text[level]["places"] = {part: list(values) for part, values in COUNTED[own.class_name].items()}
    text["seen"] = {part: list(values) for part, values in own.seen.items()}
    return text


def _held_of(lefts: Sequence[Left], level: str) -> float:
    """Share of the rows of one level that ranges without their source hold, each source of all classes one vote."""
    shares = []
    for left in lefts:
        others = [left, *(other for other in lefts if other is not left)]
        for source in sorted({e.source for e in left.sources if e.ground == level}):
            found = levels(others, without_source=source)
            own = [e for e in left.sources if e.source == source and e.ground == level]
            shares.append(mean([float(found.holds(level, e.error)) for e in own]))
    return mean(shares) if shares else float("nan")


def median_width(found: Levels, grounds: Iterable[str]) -> float:
    """Median over rows of how wide their range is, as x 1/width to x width."""
    ends = {KNOWN: found.known or found.new, NEW: found.new, "counted": found.counted}
    return statistics.median(width(e) for g in grounds if (e := ends[g]) is not None)
