"""Scores of a predictor on the open cases, computed in one place and shipped as a summary, since the cases stay outside."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import read_toml, shipped_toml
from mlsysim.errors import unknown_name
from mlsysim.evidence.predictors import Constants, shipped_constants
from mlsysim.evidence.scoring import GroupScore, Summary, score, score_with
from mlsysim.evidence.scoring.leaving import Ladder, Leaving, count_constants
from mlsysim.evidence.scoring.rules import RuleScore, rule_score, score_rule
from mlsysim.evidence.written import toml
from mlsysim.results import Result

_DIGITS = 6
_FEW = 5  # rows of a group that say too little to compare on


@dataclass(frozen=True)
class ScoreSheet(Result):
    """What a case file says about a class: scores as fractions, averaged over groups and by group."""

    cases: str
    rows: int
    constants: int
    date: str
    datasheet: GroupScore
    fit: GroupScore  # rows that the constants were fitted to
    leave_one_group_out: GroupScore
    ladder: Ladder  # in the fit, without the source, without domain and source: over the same rows
    rule: RuleScore  # the simplest rule of the class
    worse: Mapping[str, tuple[int, float, float]]  # groups of more than five rows where that errs less: rows, ours, its
    domains: Mapping[str, GroupScore]  # rows without their domain and without their source
    switched: Mapping[str, GroupScore]  # in-sample, as constants are switched on one kind after the other
    baselines: Mapping[str, float]  # mean over groups of the mean absolute error, leaving one group out
    groups: Mapping[str, tuple[GroupScore, GroupScore]]  # datasheet, leaving one group out


def measure(found: Leaving, baselines: Mapping[str, float], date: datetime.date) -> ScoreSheet:
    """The sheet of a class from its scores with sources and domains left out, and beside simple baselines."""
    file, name = found.file, found.file.case_class.name
    constants, beside = shipped_constants(name), score_rule(file, found.sources)
    plain, honest = score(file, "datasheet").summary, found.sources.summary
    return ScoreSheet(
        cases=file.name,
        rows=len(file.cases),
        constants=count_constants(constants),
        date=date.isoformat(),
        datasheet=_mean(plain),
        fit=_mean(found.inside.summary),
        leave_one_group_out=_mean(honest),
        ladder=Ladder(*(round(error, _DIGITS) for error in found.ladder)),
        rule=rule_score(name, beside),
        worse=_worse(beside.ours, beside.simple) if beside else {},
        domains={label: _mean(report.summary) for label, report in found.domains.items()},
        switched={kind: _mean(score_with(file, some).summary) for kind, some in _stages(name, constants).items()},
        baselines={text: round(value, _DIGITS) for text, value in baselines.items()},
        groups={g: (_rounded(plain.groups[g]), _rounded(honest.groups[g])) for g in plain.groups},
    )


def _worse(ours: Summary, simple: Summary) -> dict[str, tuple[int, float, float]]:
    """Groups of more than five rows in which the rule errs less than we do."""
    return {
        group: (g.n, round(g.mape, _DIGITS), round(simple.groups[group].mape, _DIGITS))
        for group, g in ours.groups.items()
        if g.n > _FEW and simple.groups[group].mape < g.mape
    }


def _stages(name: str, constants: Constants) -> dict[str, Constants]:
    """Constants with more and more of them fitted; only training steps have such kinds.

    First kernels as they run alone, with what is counted and planned; then what a step keeps of them; then the rest of software.
    """
    if name != "training_step":
        return {}
    kept = {"in_step": constants["software"]["in_step"]}
    return {
        "kernels": {**constants, "software": {"in_step": 1.0}},
        "step": {**constants, "software": kept},
        "software": dict(constants),
    }


def _rounded(s: GroupScore) -> GroupScore:
    bias = None if s.bias is None else round(s.bias, _DIGITS)
    return GroupScore(s.n, round(s.mape, _DIGITS), bias, round(s.within, _DIGITS))


def _mean(s: Summary) -> GroupScore:
    return _rounded(
        GroupScore(s.supported, s.mape_mean_over_groups, s.bias_mean_over_groups, s.within_tolerance_mean_over_groups)
    )


def as_toml(sheet: ScoreSheet) -> str:
    """The text of a score file."""
    comment = f"# Scores on {sheet.cases}, written by scripts/maintain/fit_all.py. Fractions; means are over groups. Do not edit."
    scored = {k: getattr(sheet, k) for k in ("cases", "rows", "constants", "date")}
    worse = {g: {"n": n, "ours": ours, "rule": simple} for g, (n, ours, simple) in sheet.worse.items()}
    groups = {g: {"datasheet": vars(a), "leave_one_group_out": vars(b)} for g, (a, b) in sheet.groups.items()}
    tables = {
        "scored": scored,
        "rule": vars(sheet.rule),
        "ladder": sheet.ladder._asdict(),
        **{name: vars(getattr(sheet, name)) for name in ("fit", "datasheet", "leave_one_group_out")},
        "switched": {kind: vars(s) for kind, s in sheet.switched.items()},
        "baselines": sheet.baselines,
        "worse": worse,
        "domains": {label: vars(s) for label, s in sheet.domains.items()},
        "groups": groups,
    }
    return toml(comment, {name: table for name, table in tables.items() if table or name == "baselines"})


def _score(raw: Mapping[str, Any]) -> GroupScore:
    return GroupScore(raw["n"], raw["mape"], raw.get("bias"), raw["within"])


@dataclass(frozen=True)
class NeverSeen:
    """What others counted of earlier editions on rows that nobody here had seen; None where they say nothing."""

    first: float | None  # the first edition on the second set
    half: float | None  # the first edition on the half of it that is kept
    second: float | None  # the second edition on that half, after it had learned from the other
    third: float | None  # the second edition on the third set
    held: float | None
    held_third: float | None
    rule: float | None  # the simplest rule on the third set
    printed: float | None
    mixtures: tuple[float, ...]  # least and most of groups with mixtures of experts
    new_generations: float | None


@cache
def never_seen(name: str) -> NeverSeen:
    """Blind scores of earlier editions, of a class.

    >>> never_seen("attention").printed, never_seen("attention").first
    (0.03, 0.36)
    """
    raw = shipped_toml(__package__, "never_seen.toml")
    if name not in raw:
        raise unknown_name("class with blind scores", name, raw)
    own = raw[name]
    names = ("first", "half", "second", "third", "held", "held_third", "rule", "printed", "new_generations")
    parts = {name: own.get(name) for name in names}
    return NeverSeen(**parts, mixtures=tuple(own.get("mixtures", ())))


@cache
def refuted() -> Mapping[str, Mapping[str, float]]:
    """Models of ours that strangers' rows refuted, and by how much.

    >>> refuted()["power"]["third"] > refuted()["power"]["own"]
    True
    """
    return MappingProxyType(shipped_toml(__package__, "refuted.toml"))


@cache
def known_causes() -> Mapping[str, Mapping[str, str]]:
    """Why the simplest rule errs less in a group, where that is known: by class and group."""
    return MappingProxyType(shipped_toml(__package__, "causes.toml"))


@cache
def shipped_scores(name: str) -> ScoreSheet:
    """The score sheet of a class that ships with the package.

    >>> shipped_scores("training_step").rows > 600
    True
    """
    with as_file(files(__package__) / "sheets") as folder:
        known: Sequence[str] = sorted(path.stem for path in folder.glob("*.toml"))
        if name not in known:
            raise unknown_name("class with scores", name, known)
        raw = read_toml(folder / f"{name}.toml")
    worse = {g: (s["n"], s["ours"], s["rule"]) for g, s in raw.get("worse", {}).items()}
    return ScoreSheet(
        **raw["scored"],
        rule=RuleScore(**raw["rule"]),
        datasheet=_score(raw["datasheet"]),
        ladder=Ladder(**raw["ladder"]),
        fit=_score(raw["fit"]),
        worse=MappingProxyType(worse),
        domains=MappingProxyType({label: _score(s) for label, s in raw.get("domains", {}).items()}),
        leave_one_group_out=_score(raw["leave_one_group_out"]),
        switched=MappingProxyType({kind: _score(s) for kind, s in raw.get("switched", {}).items()}),
        baselines=MappingProxyType(raw.get("baselines", {})),
        groups=MappingProxyType(
            {g: (_score(s["datasheet"]), _score(s["leave_one_group_out"])) for g, s in raw["groups"].items()}
        ),
    )
