"""Scores in and out of domain, and a line in the log for every variant tried."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.metrics import mean
from mlsysim.evidence.predictors import Constants
from mlsysim.evidence.scoring.domains import domains_left_out
from mlsysim.evidence.scoring.report import Report, ScoredRow, Summary, fit, score, score_with, summarise
from mlsysim.evidence.scoring.tried import Tried, append


class Ladder(NamedTuple):
    """Errors of the same rows with the same weights, by what the constants had seen; each domain one vote, split over its sources."""

    in_fit: float
    without_source: float
    new_ground: float  # neither the row's domain nor its source


def count_constants(constants: Constants) -> int:
    """Fitted numbers; how many rows of a kind the fit saw is none.

    >>> count_constants({"Hopper": {"gemm": 0.6}, "seen: Hopper": {"rows": 7.0}})
    1
    """
    return sum(len(values) for name, values in constants.items() if not name.startswith("seen: "))


@dataclass(frozen=True)
class Leaving:
    """One way to predict a class: its error in the fit, without the row's source, and without its domain and its source."""

    file: CaseFile
    constants: Constants
    inside: Report
    sources: Report  # every row without its source
    sets: Report  # every row without its source and without all others of its set
    domains: Mapping[
        str, Report
    ]  # rows of a domain, each predicted without the domain and without the row's own source

    @property
    def ladder(self) -> Ladder:
        """The three errors of the rows of all domains, which are comparable; not a number without a domain to leave out."""

        def over_domains(every: Report | None) -> float:
            rows = {} if every is None else {r.id: r for r in every.rows}
            errors = [
                summarise([rows.get(r.id, r) for r in report.rows], [None] * len(report.rows)).mape_mean_over_groups
                for report in self.domains.values()
            ]
            return mean(errors) if errors else float("nan")

        return Ladder(over_domains(self.inside), over_domains(self.sources), over_domains(None))


def on_new_ground(file: CaseFile) -> dict[str, Report]:
    """The rows of every domain, each predicted by constants that saw neither its domain nor its source, as a stranger's is.

    The rows of a source mostly lie in several domains, so where only the domain is left out the rest of the source stays in the
    fit, and tells of the machine and the software what the next source would not.
    """
    name, fitted, found = file.case_class.name, dict[tuple[str, ...], Constants](), dict[str, Report]()
    for label, rows in domains_left_out(name, file.cases).items():
        own, scored, tolerances = {c.id for c in rows}, list[ScoredRow](), list[float | None]()
        for source in dict.fromkeys(c.group for c in rows):
            kept = [c for c in file.cases if c.id not in own and c.group != source]
            key = tuple(c.id for c in kept)  # many domains leave the same rows to a source's absence
            if key not in fitted:
                fitted[key] = fit(name, kept)
            cases = tuple(c for c in rows if c.group == source)
            scored += score_with(replace(file, cases=cases), fitted[key]).rows
            tolerances += [c.tolerance for c in cases]
        found[label] = Report(name, "calibrated", tuple(scored), summarise(scored, tolerances))
    return found


def by_set(file: CaseFile) -> Report:
    """Every row predicted by constants that saw neither its source nor any other source of its set.

    Of a set that holds more than two thirds of the sources only the row's source is left out: what would remain of the rest is not
    what anybody's constants are fitted to.
    """
    name, cases = file.case_class.name, file.cases
    whole = {c.group for c in cases}
    large = {s for s in {c.set for c in cases} if len({c.group for c in cases if c.set == s}) > len(whole) * 2 / 3}
    away: dict[str, list[Case]] = {}
    for c in cases:
        away.setdefault(c.group if c.set in large else f"set {c.set}", []).append(c)
    rows: dict[str, ScoredRow] = {}
    for own in away.values():
        gone, sources = {c.id for c in own}, {c.group for c in own}
        constants = fit(name, [c for c in cases if c.id not in gone and c.group not in sources])
        rows |= {r.id: r for r in score_with(replace(file, cases=tuple(own)), constants).rows}
    ordered = [rows[c.id] for c in cases]
    return Report(name, "calibrated", tuple(ordered), summarise(ordered, [c.tolerance for c in cases]))


def leave_out(file: CaseFile) -> Leaving:
    """Score the predictor of a class as the code now is: fitted to all, and without sources, sets, and domains with sources.

    The last takes a fit for every pair of them.
    """
    constants = fit(file.case_class.name, file.cases)
    left = score(file, "calibrated", leave_one_group_out=True)
    return Leaving(file, constants, score_with(file, constants), left, by_set(file), on_new_ground(file))


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
        constants=count_constants(found.constants) if constants is None else constants,
        rows=len(file.cases),
        groups=len(found.inside.summary.groups),
        error=round(found.inside.summary.mape_mean_over_groups, 4),
        left_out_source=round(found.sources.summary.mape_mean_over_groups, 4),
        left_out_domain=round(found.ladder.new_ground, 4),
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
