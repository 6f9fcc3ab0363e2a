"""Which rule makes ranges on new ground? Five of them, each chosen by what it held elsewhere.

A rule that is chosen because it holds what it promises can no longer fail the check that it was chosen by. So each pool of
classes chooses by the other pools alone, on the question that a reader asks, where neither the domain nor the source has been
seen. What a rule promises must be fit to be said as well: no range on new ground may be narrower than that on known ground.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.intervals import log_error
from mlsysim.validation.cases import Case, CaseFile
from mlsysim.validation.metrics import mean
from mlsysim.validation.predictors import Constants
from mlsysim.validation.scoring.conformal import NOMINAL
from mlsysim.validation.scoring.domains import domains_left_out
from mlsysim.validation.scoring.ranges import Left, levels, share_held, width
from mlsysim.validation.scoring.report import ScoredRow, fit, score_with

Strange = Mapping[
    str, Mapping[str, float]
]  # by domain and row: the log error without the domain and without the row's source


@dataclass(frozen=True)
class Rule:
    """How the votes of left-out domains make a range on new ground."""

    larger: bool  # the larger of the quantiles of sources and of domains, or that of domains alone
    by_source: bool  # a domain's vote is split over its sources, or over its rows
    strange: bool  # a row of a left-out domain is predicted without its own source too

    def votes(self, left: Left, strange: Strange) -> Left:
        """Left-out errors as the rule has them vote."""
        domains = {
            label: tuple(
                replace(
                    e,
                    source=e.source if self.by_source else e.id,
                    error=strange[label].get(e.id, e.error) if self.strange else e.error,
                )
                for e in errors
            )
            for label, errors in left.domains.items()
        }
        return replace(left, domains=MappingProxyType(domains))


# Written down before any was scored on this question; what the first two hold of domains alone left out was known.
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "larger": Rule(larger=True, by_source=False, strange=False),
        "alone": Rule(larger=False, by_source=False, strange=False),
        "larger, by source": Rule(larger=True, by_source=True, strange=False),
        "larger, by source, strange": Rule(larger=True, by_source=True, strange=True),
        "alone, by source, strange": Rule(larger=False, by_source=True, strange=True),
    }
)


def strangers(file: CaseFile) -> dict[str, tuple[ScoredRow, ...]]:
    """The rows of every domain, each predicted by constants that saw neither its domain nor its source."""
    name, fitted, found = file.case_class.name, dict[tuple[str, ...], Constants](), dict[str, tuple[ScoredRow, ...]]()
    for label, rows in domains_left_out(name, file.cases).items():
        own, scored = {c.id for c in rows}, list[ScoredRow]()
        for source, cases in _by_source(rows).items():
            kept = [c for c in file.cases if c.id not in own and c.group != source]
            key = tuple(c.id for c in kept)  # many domains leave the same rows to a source's absence
            if key not in fitted:
                fitted[key] = fit(name, kept)
            scored += score_with(replace(file, cases=tuple(cases)), fitted[key]).rows
        found[label] = tuple(scored)
    return found


def _by_source(rows: Iterable[Case]) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in rows:
        found.setdefault(case.group, []).append(case)
    return found


def shares(rule: Rule, lefts: Sequence[Left], strange: Mapping[str, Strange]) -> dict[str, float]:
    """Of every domain of the first class, the share of its vote that a rule holds where its sources are new as well."""
    voting, own, held = [rule.votes(left, strange[left.class_name]) for left in lefts], lefts[0], {}
    for label, errors in own.domains.items():
        found = levels(voting, without_domain=(own.class_name, label))
        ends = (found.new if rule.larger else found.domains) or found.known
        if ends is not None:
            new = strange[own.class_name][label]
            held[label] = share_held([replace(e, error=new[e.id]) for e in errors if e.id in new], ends)
    return held


def range_of(rule: Rule, lefts: Sequence[Left], strange: Mapping[str, Strange]) -> tuple[float, float]:
    """How wide a rule makes ranges on new and on known ground; the first may be less. Not a number where there is none."""
    found = levels([rule.votes(left, strange[left.class_name]) for left in lefts])
    new = found.new if rule.larger else found.domains
    return tuple(width(ends) if ends else float("nan") for ends in (new, found.known))  # type: ignore[return-value]


def chosen(held: Mapping[str, Mapping[str, float]], pool: Iterable[str], rules: Iterable[str] | None = None) -> str:
    """The rule whose shares of the classes outside a pool are nearest to the promise, on average.

    Parameters
    ----------
    held : mapping
        By rule and class the share held.
    pool : iterable of str
        Classes that have no say.
    rules : iterable of str, optional
        Among which to choose, of all unless given.

    >>> chosen({"a": {"x": 0.5, "y": 0.8}, "b": {"x": 0.8, "y": 0.9}}, pool=["x"])
    'a'
    """
    away = set(pool)

    def off(rule: str) -> float:
        return mean([abs(share - NOMINAL) for name, share in held[rule].items() if name not in away])

    return min(held if rules is None else rules, key=off)


def errors_of(left: Left, found: Mapping[str, Sequence[ScoredRow]]) -> Strange:
    """By domain and row the log error of a stranger's prediction, of the rows that have a vote."""
    kept: dict[str, dict[str, float]] = {}
    for label, errors in left.domains.items():
        ids = {e.id for e in errors}
        kept[label] = {
            r.id: float(log_error(r.predicted, r.measured))
            for r in found[label]
            if r.id in ids and r.predicted and r.predicted > 0
        }
    return kept


@dataclass(frozen=True)
class Tested:
    """What one rule held of a class, where domain and source are new, how wide it is there, and how wide known ground is."""

    held: float
    new: float
    known: float


@cache
def shipped_choice() -> Mapping[str, Mapping[str, Tested]]:
    """By rule and class what was counted when the rule was chosen.

    >>> set(shipped_choice()) == set(RULES)
    True
    """
    raw = shipped_toml(__package__, "choosing.toml")
    return MappingProxyType(
        {rule: {name: Tested(**raw[rule][name]) for name in raw[rule] if name != "date"} for rule in RULES}
    )
