"""The one way to score predictions that tests, the book and the command line share."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim.errors import MlsysimError
from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.metrics import mean
from mlsysim.evidence.metrics import signed_error as signed_error
from mlsysim.evidence.predictors import PREDICTORS, Constants, Prediction, shipped_constants
from mlsysim.evidence.scoring.domains import domain_of, grounds
from mlsysim.intervals import LARGEST, NEW, class_names, interval
from mlsysim.results import Displayable, Result, format_rows, plain
from mlsysim.results import Report as Tables
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

UNSUPPORTED_ERROR = 1.0  # a row without a prediction counts as 100 % wrong
MODES = ("datasheet", "calibrated")


@dataclass(frozen=True)
class ScoredRow(Result):
    """A case beside its prediction, in the unit of its class; ``error`` is a fraction."""

    id: str
    group: str
    measured: float
    predicted: float | None
    error: float | None
    supported: bool
    reason: str
    assumptions: tuple[str, ...]
    low: float | None = None  # ends of the 80 % range; None where nobody knows one
    high: float | None = None
    domain: str = ""  # known, new; empty where there is no range

    @property
    def unknown(self) -> bool:
        """Whether its range is so wide that it says only that we do not know."""
        return self.low is not None and self.high is not None and _width(self.low, self.high) > LARGEST

    @property
    def inside(self) -> bool | None:
        """Whether the measurement lies in its range; None without one.

        A row without a prediction is in no range, and a range that says that we do not know holds nothing.
        """
        if not self.supported or self.unknown:
            return False
        return None if self.low is None or self.high is None else self.low <= self.measured <= self.high

    def _title(self) -> str:
        if self.error is None or self.predicted is None:
            return f"{self.id}: no prediction, {self.reason}"
        return f"{self.id}: {units.percent(self.error)}, predicted {self.predicted:.4g}, measured {self.measured:.4g}"


@dataclass(frozen=True)
class GroupScore(Result):
    """Score of one source: mean absolute error, mean signed error of the supported rows, share within tolerance."""

    n: int
    mape: float
    bias: float | None
    within: float
    inside: float | None = None  # share in their 80 % range, of rows that have one
    unknown: float | None = None  # share whose range says that we do not know

    def _title(self) -> str:
        return f"{units.percent(self.mape, signed=False)} mean absolute error over {self.n} rows"


@dataclass(frozen=True)
class Summary(Result):
    """Scores averaged over groups, because rows of one group are strongly correlated."""

    n: int
    supported: int
    mape_mean_over_groups: float
    bias_mean_over_groups: float | None
    within_tolerance_mean_over_groups: float
    groups: Mapping[str, GroupScore]
    coverage: float | None = None  # share of a group in their 80 % ranges, mean over groups
    unknown: float | None = (
        None  # share of a group whose ranges say that we do not know, mean over groups; no range holds them
    )
    median_width: float | None = None  # over rows: 1.25 says the ends lie as far apart as x0.80 and x1.25

    def summary(self) -> list[str]:
        return score_lines("score", self)


@dataclass(frozen=True)
class Report(Displayable):
    """Every row of a case file and its score."""

    case_class: str
    mode: str
    rows: tuple[ScoredRow, ...]
    summary: Summary

    def _lines(self) -> list[str]:
        return score_lines(f"{self.case_class}, {self.mode}", self.summary)

    def chart(self) -> "Drawing | None":
        """Mean absolute error by group."""
        return score_chart(f"{self.case_class}, {self.mode}", self.summary)

    def explain(self) -> Tables:
        """Every group, and the rows that are furthest off."""
        return score_tables(self._lines()[0], self.summary, self.rows)

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per case."""
        return list(plain(self.to_dict()["rows"]))

    def to_dict(self) -> dict[str, Any]:
        """The documented JSON: fractions, SI units, null for what does not exist."""
        summary = asdict(self.summary)
        rows = [asdict(row) | {"assumptions": list(row.assumptions)} for row in self.rows]
        return {"class": self.case_class, "mode": self.mode, "rows": rows, "summary": summary}


def _mean_of_some(values: Sequence[float | None]) -> float | None:
    some = [v for v in values if v is not None]
    return mean(some) if some else None


def summarise(rows: Sequence[ScoredRow], tolerances: Sequence[float | None]) -> Summary:
    """Score rows by group, then average the groups.

    A row without a prediction counts as an error of 100 %, is never within its tolerance, and has no sign. A row
    without a tolerance is within it only when it is exact.
    """
    groups: dict[str, GroupScore] = {}
    ranged = any(row.low is not None for row in rows)
    members: dict[str, list[tuple[ScoredRow, float]]] = {}
    for row, tolerance in zip(rows, tolerances, strict=True):
        members.setdefault(row.group, []).append((row, tolerance or 0.0))
    for group, own in sorted(members.items()):
        groups[group] = GroupScore(
            n=len(own),
            mape=mean([UNSUPPORTED_ERROR if r.error is None else abs(r.error) for r, _ in own]),
            bias=_mean_of_some([r.error for r, _ in own]),
            within=mean([float(r.error is not None and abs(r.error) <= t) for r, t in own]),
            inside=_mean_of_some([None if r.inside is None else float(r.inside) for r, _ in own]) if ranged else None,
            unknown=mean([float(r.unknown) for r, _ in own]) if ranged else None,
        )
    return Summary(
        n=len(rows),
        supported=sum(r.supported for r in rows),
        mape_mean_over_groups=mean([g.mape for g in groups.values()]),
        bias_mean_over_groups=_mean_of_some([g.bias for g in groups.values()]),
        within_tolerance_mean_over_groups=mean([g.within for g in groups.values()]),
        groups=groups,
        coverage=_mean_of_some([g.inside for g in groups.values()]),
        unknown=_mean_of_some([g.unknown for g in groups.values()]),
        median_width=_median_width(rows),
    )


def _median_width(rows: Sequence[ScoredRow]) -> float | None:
    widths = [_width(r.low, r.high) for r in rows if r.high is not None and r.low]
    return statistics.median(widths) if widths else None


def _width(low: float, high: float) -> float:
    return math.sqrt(high / low)


def predict(class_name: str, inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Prediction for the inputs of one row, or the reason why there is none."""
    predictor = PREDICTORS.get(class_name)
    if predictor is None:
        return Prediction(None, f"{class_name} is not modelled yet")
    try:
        prediction = predictor.predict(inputs, constants)
    except MlsysimError as why:  # a row that is not modelled, or values that cannot be
        return Prediction(None, str(why))
    except ArithmeticError as why:
        return Prediction(None, f"the row's values lead to no finite prediction ({why})")
    if prediction.predicted is None or not math.isfinite(prediction.predicted):
        return Prediction(None, "the row's values lead to no finite prediction", prediction.assumptions)
    if prediction.predicted < 0:
        reason = f"the row's values lead to {prediction.predicted:.3g}, and nothing below zero can be measured"
        return Prediction(None, reason, prediction.assumptions)
    return prediction


def fit(class_name: str, cases: Sequence[Case]) -> Constants:
    """Constants of a class fitted to cases in which every group has one vote; none where the class has no fit, or no case is left."""
    predictor = PREDICTORS.get(class_name)
    if predictor is None or predictor.fit is None:
        return {}
    rows = [(c.inputs, c.measured, c.group) for c in cases if _usable(class_name, c)]
    return predictor.fit(rows) if rows else {}


def _usable(class_name: str, case: Case) -> bool:
    """Whether the class predicts a row at all; asked once a row, since leaving out fits the same rows again and again."""
    seen = _ASKED.get((class_name, case.id))
    if seen is None or seen[0] is not case.inputs:
        seen = _ASKED[class_name, case.id] = (case.inputs, predict(class_name, case.inputs, {}).predicted is not None)
    return seen[1]


_ASKED: dict[tuple[str, str], tuple[Mapping[str, Any], bool]] = {}


def score(file: CaseFile, mode: str = "calibrated", leave_one_group_out: bool = False) -> Report:
    """Predict every row of a case file and score the predictions.

    Parameters
    ----------
    file : CaseFile
        Rows of one class.
    mode : str
        ``datasheet`` uses no fitted constant; ``calibrated`` uses the shipped ones.
    leave_one_group_out : bool
        Refit the constants for each group on the other groups of the same file. This is the honest score on rows that
        the shipped constants were fitted to.
    """
    name = file.case_class.name
    fitted: dict[str, Constants] = {}
    for group in {c.group for c in file.cases}:
        if mode == "datasheet":
            fitted[group] = {}
        elif leave_one_group_out:
            fitted[group] = fit(name, [c for c in file.cases if c.group != group])
        else:
            fitted[group] = shipped_constants(name)
    report = _report(file, mode, fitted)
    if mode == "datasheet":
        return report
    new = [g == NEW for g in grounds(name, file.cases)] if leave_one_group_out else [False] * len(file.cases)
    rows = tuple(with_range(name, case, row, far) for case, row, far in zip(file.cases, report.rows, new, strict=True))
    return replace(report, rows=rows, summary=summarise(rows, [c.tolerance for c in file.cases]))


def with_range(class_name: str, case: Case, row: ScoredRow, new: bool = False) -> ScoredRow:
    """A scored row with its 80 % range and the domain it lies in; unchanged where no range can be given.

    ``new`` puts it out of domain whatever our sources have: for a row whose own source is the only one that knows its place.
    """
    if row.predicted is None or row.predicted <= 0 or class_name not in class_names():
        return row
    found = interval(class_name, row.predicted, None if new else domain_of(class_name, case.inputs))
    return replace(row, low=float(found.low), high=float(found.high), domain=found.domain)


def score_with(file: CaseFile, constants: Constants) -> Report:
    """Predict every row of a case file with constants of your own."""
    return _report(file, "calibrated", dict.fromkeys({c.group for c in file.cases}, constants))


def _report(file: CaseFile, mode: str, fitted: Mapping[str, Constants]) -> Report:
    name = file.case_class.name
    rows = tuple(_scored(name, case, fitted[case.group]) for case in file.cases)
    return Report(name, mode, rows, summarise(rows, [c.tolerance for c in file.cases]))


def _scored(name: str, case: Case, constants: Constants) -> ScoredRow:
    p = predict(name, case.inputs, constants)
    error = None if p.predicted is None else float(signed_error(p.predicted, case.measured))
    supported = p.predicted is not None
    return ScoredRow(case.id, case.group, case.measured, p.predicted, error, supported, p.reason, p.assumptions)


def score_lines(title: str, s: Summary) -> list[str]:
    """A score in a few lines: the error first, then the groups that err most."""
    worst = sorted(s.groups.items(), key=lambda pair: -pair[1].mape)[:6]
    bias = "" if s.bias_mean_over_groups is None else f", bias {units.percent(s.bias_mean_over_groups)}"
    return format_rows(
        f"{title}: {units.percent(s.mape_mean_over_groups, signed=False)} mean absolute error over {len(s.groups)} groups{bias}",
        ("rows", f"{s.supported} of {s.n} predicted"),
        (
            "within",
            f"{units.percent(s.within_tolerance_mean_over_groups, signed=False)} of the rows in their tolerance",
        ),
        ("ranges", _range_line(s)),
        ("furthest", ", ".join(f"{name} {units.percent(g.mape, signed=False)} ({g.n} rows)" for name, g in worst)),
    )


def _range_line(s: Summary) -> str:
    if s.coverage is None:
        return ""
    wide = s.median_width or 1.0
    unknown = f"; of {units.percent(s.unknown, signed=False)} we do not know, which holds nothing" if s.unknown else ""
    return (
        f"80 % ranges hold {units.percent(s.coverage, signed=False)}, typically x{1 / wide:.2f} to x{wide:.2f}{unknown}"
    )


def score_chart(title: str, s: Summary) -> "Drawing | None":
    """Mean absolute error of each group as bars."""
    from mlsysim.drawing import shapes

    return shapes.terms(title, {name: 100.0 * g.mape for name, g in s.groups.items()}, "mean absolute error, %", "1")


def score_tables(title: str, s: Summary, rows: Sequence[ScoredRow]) -> Tables:
    """Groups, and the twenty rows that are furthest off."""
    groups = [
        (name, str(g.n), units.percent(g.mape, signed=False), "" if g.bias is None else units.percent(g.bias))
        for name, g in s.groups.items()
    ]
    known = sorted((r for r in rows if r.error is not None), key=lambda r: -abs(r.error or 0.0))[:20]
    off = [(r.id, r.group, f"{r.measured:.4g}", f"{r.predicted:.4g}", units.percent(r.error or 0.0)) for r in known]
    return Tables(
        title,
        (
            table(("Group", "Rows", "Error", "Bias"), groups),
            table(("Row", "Group", "Measured", "Predicted", "Error"), off),
        ),
    )
