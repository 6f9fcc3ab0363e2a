"""The table of reality checks: every published row beside our prediction, scored by class and group."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.evidence.cases import TABLED
from mlsysim.evidence.predictors import shipped_fit
from mlsysim.evidence.reality.published import CATEGORIES, PublishedRow, case_file, rows
from mlsysim.evidence.scoring import ScoredRow, Summary, predict, score, summarise
from mlsysim.evidence.scoring.report import score_chart, score_lines, score_tables
from mlsysim.results import Displayable, Result, plain
from mlsysim.results import Report as Tables

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing


@dataclass(frozen=True)
class CheckedRow(Result):
    """A published row beside our prediction."""

    row: PublishedRow
    score: ScoredRow
    in_sample: bool  # a shipped constant that this prediction uses was fitted on rows of its group

    def _title(self) -> str:
        return self.score._title()

    @property
    def reason(self) -> str:
        """Why the prediction lies where it lies: what is known of the group, else what had to be assumed."""
        if not self.score.supported:
            return self.score.reason
        known = reasons().get(self.row.case_class, {}).get(self.row.case.group, "")
        assumed = "assumed: " + "; ".join(self.score.assumptions) if self.score.assumptions else ""
        if not known and abs(self.score.error or 0.0) <= (self.row.case.tolerance or 0.0):
            return "within its tolerance"
        return known or self.row.conditions or assumed or "not explained"


@dataclass(frozen=True)
class ClassCheck(Displayable):
    """All rows of a class, their score, and the scores of the rows inside and outside the fit."""

    name: str
    mode: str
    rows: tuple[CheckedRow, ...]
    summary: Summary
    inside: Summary | None
    outside: Summary | None

    def worst(self, n: int = 3) -> list[CheckedRow]:
        """The rows furthest off, those without a prediction not among them."""
        supported = [r for r in self.rows if r.score.error is not None]
        return sorted(supported, key=lambda r: -abs(r.score.error or 0.0))[:n]

    def in_sample(self, group: str) -> int:
        """Rows of a group that a constant they use was fitted on."""
        return sum(r.in_sample for r in self.rows if r.row.case.group == group)

    def unseen(self) -> dict[str, tuple[int, int]]:
        """The test that a range can fail: of each group, the rows outside the fit that lie in their range, and all of them.

        Nothing where no row was fitted (closed forms need no range), and in another mode. A
        row without a prediction has no range that could hold it: it counts as not held.
        """
        if self.inside is None:
            return {}
        found: dict[str, tuple[int, int]] = {}
        for r in self.rows:
            if not r.in_sample:
                held, n = found.get(r.row.case.group, (0, 0))
                found[r.row.case.group] = held + self._within(r), n + 1
        return found

    def _within(self, r: CheckedRow) -> bool:
        return bool(r.score.inside)

    def _lines(self) -> list[str]:
        first, *rest = score_lines(f"{self.name}, {self.mode}", self.summary)
        parts = [
            f"  {name:<8}  {units.percent(s.mape_mean_over_groups, signed=False)} over {s.n} rows"
            for name, s in (("in fit", self.inside), ("outside", self.outside))
            if s is not None
        ]
        return [first, *parts, *rest]

    def chart(self) -> "Drawing | None":
        """Mean absolute error by group."""
        return score_chart(f"{self.name}, {self.mode}", self.summary)

    def explain(self) -> Tables:
        """Every group, and the rows that are furthest off."""
        return score_tables(self._lines()[0], self.summary, [r.score for r in self.rows])

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per published figure."""
        return list(plain(self.to_dict()["rows"]))

    def to_dict(self) -> dict[str, Any]:
        """The documented JSON of one class."""
        found = []
        for r in self.rows:
            about = {
                "model": r.row.model,
                "device": r.row.case.inputs.get("device"),
                "category": r.row.category,
                "printed": r.row.printed,
                "metric": r.row.metric,
                "tolerance": r.row.case.tolerance,
                "source": r.row.source,
                "where": r.row.where,
                "read": r.row.read,
                "in_sample": r.in_sample,
            }
            found.append(asdict(r.score) | {"assumptions": list(r.score.assumptions)} | about)
        parts = {"summary": self.summary, "in_sample": self.inside, "out_of_sample": self.outside}
        scores = {name: asdict(s) if s else None for name, s in parts.items()}
        return {"class": self.name, "mode": self.mode, "rows": found, **scores}


@cache
def reasons() -> Mapping[str, Mapping[str, str]]:
    """Known causes of what remains, by class and group.

    >>> "training_step" in reasons()
    True
    """
    return shipped_toml(__package__, "reasons.toml")


def fitted_groups(class_name: str) -> frozenset[str]:
    """Groups of rows that the shipped constants of a class were fitted on.

    >>> "INFSIM" in fitted_groups("attention")
    True
    """
    return frozenset(shipped_fit(class_name).get("groups", ()))


def check_class(class_name: str, mode: str = "calibrated", leave_one_group_out: bool = False) -> ClassCheck:
    """Predict every published row of a class.

    Parameters
    ----------
    class_name : str
        A class of cases.
    mode : str
        ``datasheet`` uses no fitted constant; ``calibrated`` uses the shipped ones.
    leave_one_group_out : bool
        Refit the constants for each group on the other groups of this table, instead of taking the shipped ones.

    >>> check_class("collective").summary.n
    28
    """
    published = rows(class_name)
    report = score(case_file(class_name), mode, leave_one_group_out)
    shipped = mode == "calibrated" and not leave_one_group_out
    fitted = fitted_groups(class_name) if shipped else frozenset()
    checked = tuple(
        CheckedRow(row, scored, row.case.group in fitted and _uses_constants(row, scored))
        for row, scored in zip(published, report.rows, strict=True)
    )
    inside, outside = ([r for r in checked if r.in_sample is side] for side in (True, False))
    return ClassCheck(class_name, mode, checked, report.summary, _summary(inside), _summary(outside))


def check_all(mode: str = "calibrated", leave_one_group_out: bool = False) -> list[ClassCheck]:
    """:func:`check_class` for every class of the shipped table."""
    return [check_class(name, mode, leave_one_group_out) for name in TABLED]


def by_category(checks: Sequence[ClassCheck]) -> dict[str, list[CheckedRow]]:
    """The rows of each of the ten categories of rooflinepage2026.

    >>> list(by_category([check_class("memory")]))[:2]
    ['parameters', 'training memory']
    """
    return {name: [r for c in checks for r in c.rows if r.row.category == name] for name in CATEGORIES}


def _uses_constants(row: PublishedRow, scored: ScoredRow) -> bool:
    return predict(row.case_class, row.case.inputs, {}).predicted != scored.predicted


def _summary(part: Sequence[CheckedRow]) -> Summary | None:
    if not part:
        return None
    return summarise([r.score for r in part], [r.row.case.tolerance for r in part])
