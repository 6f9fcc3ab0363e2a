"""Scores with whole sources and whole domains left out, and a line in the log for every variant that was tried."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlsysim.validation.cases import Case, CaseFile
from mlsysim.validation.metrics import mean
from mlsysim.validation.predictors import Constants
from mlsysim.validation.scoring.domains import domains_left_out
from mlsysim.validation.scoring.report import Report, Summary, fit, score, score_with
from mlsysim.validation.scoring.tried import Tried, append


@dataclass(frozen=True)
class Leaving:
    """One way to predict a class: its error in the fit, without the row's source, and without the row's domain."""

    file: CaseFile
    constants: Constants
    inside: Summary
    sources: Report  # every row without its source
    domains: Mapping[str, Report]  # by the domain that was left out

    @property
    def domain_error(self) -> float:
        """Mean over the domains that were left out of the error by group of their rows."""
        return mean([s.summary.mape_mean_over_groups for s in self.domains.values()]) if self.domains else float("nan")

    @property
    def count(self) -> int:
        """Fitted numbers."""
        return sum(len(values) for name, values in self.constants.items() if not name.startswith("seen: "))


def without_domains(file: CaseFile) -> dict[str, tuple[tuple[Case, ...], Constants]]:
    """Every domain's rows, and constants fitted to the rows of all others."""
    found = {}
    for name, rows in domains_left_out(file.case_class.name, file.cases).items():
        own = {c.id for c in rows}
        found[name] = (tuple(rows), fit(file.case_class.name, [c for c in file.cases if c.id not in own]))
    return found


def leave_out(file: CaseFile) -> Leaving:
    """Score the predictor of a class as the code now is: fitted to all, without each source, without each domain."""
    constants = fit(file.case_class.name, file.cases)
    left = score(file, "calibrated", leave_one_group_out=True)
    domains = {
        name: score_with(replace(file, cases=rows), fitted) for name, (rows, fitted) in without_domains(file).items()
    }
    return Leaving(file, constants, score_with(file, constants).summary, left, domains)


def log_variant(
    file: CaseFile, variant: str, kept: bool, why: str, date: datetime.date | None = None, constants: int | None = None
) -> Tried:
    """Score the predictor as the code now is, append a line to the log of its class, and return that line.

    Parameters
    ----------
    file : CaseFile
        The open rows of one class, as of ``read_cases([first, second])``.
    variant : str
        What was changed, in a few words.
    kept : bool
        Whether the change stays.
    why : str
        Why it stays or goes.
    date : datetime.date, optional
        Today, unless given.
    constants : int, optional
        Fitted numbers, where the default, all that the fit returns, counts wrong.
    """
    found = leave_out(file)
    line = Tried(
        date=(date or datetime.date.today()).isoformat(),
        case_class=file.case_class.name,
        variant=variant,
        constants=found.count if constants is None else constants,
        rows=len(file.cases),
        groups=len(found.inside.groups),
        error=round(found.inside.mape_mean_over_groups, 4),
        left_out_source=round(found.sources.summary.mape_mean_over_groups, 4),
        left_out_domain=round(found.domain_error, 4),
        kept=kept,
        why=why,
    )
    append(line)
    return line


def standard_error(one: Summary, other: Summary, groups: Iterable[str] | None = None) -> tuple[float, float]:
    """By how much one way errs less than another, on average over groups, and the standard error of that average.

    The one-standard-error rule: the simpler way stays unless the first number is larger than the second.
    """
    names: Sequence[str] = sorted(groups if groups is not None else one.groups)
    gain = [other.groups[g].mape - one.groups[g].mape for g in names]
    middle, n = mean(gain), len(gain)
    spread = (sum((x - middle) ** 2 for x in gain) / (n - 1) / n) ** 0.5 if n > 1 else float("inf")
    return middle, spread
