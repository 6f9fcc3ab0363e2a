"""Scores with one group left out, computed once and shipped, since refitting for every group takes a while."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import unknown_name
from mlsysim.evidence.reality.report import check_class
from mlsysim.evidence.written import toml
from mlsysim.results import Result

_DIGITS = 4


@dataclass(frozen=True)
class HonestScore(Result):
    """Means over groups of rows whose constants were refitted without them, and the mean absolute error by group."""

    mape: float
    bias: float | None
    within: float
    groups: Mapping[str, float]


def measure(class_name: str) -> HonestScore:
    """Refit the constants of a class for each group of its published rows on the others, and score that group.

    >>> measure("collective").groups["DEEPEP"] < 0.2
    True
    """
    s = check_class(class_name, leave_one_group_out=True).summary
    bias = s.bias_mean_over_groups
    return HonestScore(
        mape=round(s.mape_mean_over_groups, _DIGITS),
        bias=None if bias is None else round(bias, _DIGITS),
        within=round(s.within_tolerance_mean_over_groups, _DIGITS),
        groups=MappingProxyType({name: round(g.mape, _DIGITS) for name, g in s.groups.items()}),
    )


@cache
def honest(class_name: str) -> HonestScore:
    """The shipped score of a class, leaving one group out.

    >>> honest("gemm").mape < 0.3
    True
    """
    raw = shipped_toml(__package__, "honest.toml")
    if class_name not in raw:
        raise unknown_name("class of cases", class_name, raw)
    own = raw[class_name]
    return HonestScore(own["mape"], own.get("bias"), own["within"], MappingProxyType(own["groups"]))


def as_toml(scores: Mapping[str, HonestScore]) -> str:
    """The text of honest.toml."""
    comment = "# Scores leaving one group out, written by scripts/maintain/score_reality.py. Do not edit."
    return toml(comment, {name: vars(s) for name, s in scores.items()})
