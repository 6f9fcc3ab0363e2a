"""Scores of a predictor on the open cases, computed in one place and shipped as a summary, since the cases stay outside."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import read_toml
from mlsysim.errors import unknown_name
from mlsysim.results import Listed
from mlsysim.training.shares import from_constants
from mlsysim.validation.cases import CaseFile
from mlsysim.validation.predictors import Constants, shipped_constants
from mlsysim.validation.scoring import GroupScore, Summary, score, score_with

_DIGITS = 6


@dataclass(frozen=True)
class ScoreSheet(Listed):
    """What a case file says about a class: scores as fractions, averaged over groups and by group."""

    cases: str
    rows: int
    constants: int
    date: str
    datasheet: GroupScore
    leave_one_group_out: GroupScore
    switched: Mapping[str, GroupScore]  # in-sample, as constants are switched on one kind after the other
    baselines: Mapping[str, float]  # mean over groups of the mean absolute error, leaving one group out
    groups: Mapping[str, tuple[GroupScore, GroupScore]]  # datasheet, leaving one group out


def measure(file: CaseFile, baselines: Mapping[str, float], date: datetime.date) -> ScoreSheet:
    """Score a class on its cases: datasheet, calibrated on the other groups, and beside simple baselines."""
    name = file.case_class.name
    constants = shipped_constants(name)
    plain, honest = score(file, "datasheet").summary, score(file, "calibrated", leave_one_group_out=True).summary
    return ScoreSheet(
        cases=file.name,
        rows=len(file.cases),
        constants=sum(len(values) for values in constants.values()),
        date=date.isoformat(),
        datasheet=_mean(plain),
        leave_one_group_out=_mean(honest),
        switched={kind: _mean(score_with(file, some).summary) for kind, some in _stages(name, constants).items()},
        baselines={text: round(value, _DIGITS) for text, value in baselines.items()},
        groups={g: (_rounded(plain.groups[g]), _rounded(honest.groups[g])) for g in plain.groups},
    )


def _stages(name: str, constants: Constants) -> dict[str, Constants]:
    """Constants with more and more of them fitted, the rest as in datasheet mode; only training steps have such kinds."""
    if name != "training_step":
        return {}
    sourced = {g: from_constants((g,), g, "bf16", 1.0, {}) for g in ("Ampere", "Hopper")}
    plain = {"elementwise": sourced["Hopper"].elementwise, "dp_overlap": sourced["Hopper"].dp_overlap}
    products: dict[str, Mapping[str, float]] = {
        of: {k: v if k == "gemm" else sourced.get(of, sourced["Hopper"]).attention for k, v in values.items()}
        for of, values in constants.items()
        if of != "software"
    }
    return {
        "products": {**products, "software": plain},
        "attention": {**constants, "software": plain},
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

    def block(head: str, values: Mapping[str, Any]) -> list[str]:
        shown = {k: f'"{v}"' if isinstance(v, str) else repr(v) for k, v in values.items() if v is not None}
        return ["", f"[{head}]", *(f"{k} = {v}" for k, v in shown.items())]

    lines = [
        f"# Scores on {sheet.cases}, written by scripts/maintain/fit_constants.py. Fractions; means are over groups. Do not edit."
    ]
    lines += block("scored", {k: getattr(sheet, k) for k in ("cases", "rows", "constants", "date")})
    lines += block("datasheet", vars(sheet.datasheet))
    lines += block("leave_one_group_out", vars(sheet.leave_one_group_out))
    for kind, s in sheet.switched.items():
        lines += block(f"switched.{kind}", vars(s))
    lines += block("baselines", {f'"{text}"': value for text, value in sheet.baselines.items()})
    for group, (plain, honest) in sheet.groups.items():
        lines += block(f"groups.{group}.datasheet", vars(plain))
        lines += block(f"groups.{group}.leave_one_group_out", vars(honest))
    return "\n".join(lines) + "\n"


def _score(raw: Mapping[str, Any]) -> GroupScore:
    return GroupScore(raw["n"], raw["mape"], raw.get("bias"), raw["within"])


@cache
def shipped_scores(name: str) -> ScoreSheet:
    """The score sheet of a class that ships with the package.

    >>> shipped_scores("training_step").cases
    'training_step.open.csv'
    """
    with as_file(files(__package__) / "sheets") as folder:
        known: Sequence[str] = sorted(path.stem for path in folder.glob("*.toml"))
        if name not in known:
            raise unknown_name("class with scores", name, known)
        raw = read_toml(folder / f"{name}.toml")
    return ScoreSheet(
        **raw["scored"],
        datasheet=_score(raw["datasheet"]),
        leave_one_group_out=_score(raw["leave_one_group_out"]),
        switched=MappingProxyType({kind: _score(s) for kind, s in raw["switched"].items()}),
        baselines=MappingProxyType(raw["baselines"]),
        groups=MappingProxyType(
            {g: (_score(s["datasheet"]), _score(s["leave_one_group_out"])) for g, s in raw["groups"].items()}
        ),
    )
