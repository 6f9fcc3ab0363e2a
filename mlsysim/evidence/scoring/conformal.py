"""Quantiles of the size of log errors by the ranks of conformal prediction, one vote per source, and the coverage that they really have.

The errors are those of sources that were left out of the fit one at a time, so a range made of them is a jackknife over groups: near
its promise where no source moves the fit much, and without the guarantee of data that were set apart.

Rows of one source err together, so they cannot count as independent: the next measurement comes from a *new* source. Each
of k sources gets the weight 1/(k + 1), split evenly over its rows; the remaining 1/(k + 1) stands for the new source, and
its whole vote counts as if it lay beyond the range. A source of one or two rows says little about itself, so its vote is n / (n + 2)
of a whole one, as a source's mean is weighted in random effects, and votes are counted in means of them. What is ranked is the size of an error, so that the range reaches as
far up as down. A quantile at each end, each with the whole vote, holds far more than it promises where sources are few, since
each end then stands near the most extreme row of all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlsysim._numeric import Num
from mlsysim.equations import equation
from mlsysim.errors import InputError
from mlsysim.evidence.metrics import mean
from mlsysim.evidence.scoring import Report
from mlsysim.intervals import log_error
from mlsysim.results import Result

MIN_GROUPS = 9  # for 80 %: below, one vote is more than half of what may lie outside
NOMINAL = 0.8
HALF_VOTE = 2.0  # rows of half a vote: the variance of log sizes within a source over the one between sources, median of the classes


@equation("eq-row-weight", formula="1 / ((groups + 1) * rows)", domain={"groups": "[1, inf)", "rows": "[1, inf)"})
def row_weight(groups: Num, rows: Num) -> Num:
    """Weight of one row's error when every source has one vote and the next source has one too.

    Formula: w = 1 / ((k + 1) n).

    Parameters
    ----------
    groups : float or array, 1
        Sources.
    rows : float or array, 1
        Rows of the row's own source.

    Returns
    -------
    float or array, 1

    Assumptions: sources are exchangeable, and so are the rows within one.

    >>> row_weight(groups=9, rows=200)
    0.0005

    Source: lee2023hierarchical, hierarchical conformal prediction.
    """
    return 1 / ((groups + 1) * rows)


def vote(rows: float) -> float:
    """How much a source of some rows counts, where one of very many counts one.

    >>> vote(2), vote(198)
    (0.5, 0.99)
    """
    return rows / (rows + HALF_VOTE)


@dataclass(frozen=True)
class GroupedErrors(Result):
    """Signed errors by source, each source left out of the fit that predicted it: ln(predicted / measured), or that in spreads."""

    groups: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, *reports: Report) -> "GroupedErrors":
        """From scored reports; rows without a prediction have no error and are left out, as are errors of -100 %."""
        groups: dict[tuple[str, str], list[float]] = {}
        for report in reports:
            for row in report.rows:
                if row.predicted is not None and row.predicted > 0 and row.measured > 0:
                    groups.setdefault((report.case_class, row.group), []).append(log_error(row.predicted, row.measured))
        return cls(tuple(tuple(errors) for errors in groups.values()))

    @property
    def rows(self) -> int:
        return sum(map(len, self.groups))

    def quantiles(self, nominal: float = NOMINAL) -> tuple[float, float]:
        """The two errors, one minus the other, between which at least a share ``nominal`` of a new source's should lie.

        With one row a source their size is the order statistic ceil(nominal (k + 1)) of the sizes, which holds between
        ``nominal`` and ``nominal + 1 / (k + 1)`` of the draws of one more exchangeable source.

        Raises
        ------
        InputError
            With so few sources that the vote of the new one is more than half of what may lie outside.

        >>> GroupedErrors(tuple((x / 10,) for x in range(-9, 10))).quantiles(0.8)
        (-0.8, 0.8)
        """
        if not 0 < nominal < 1:
            raise InputError(f"quantiles: nominal = {nominal!r} must lie in (0, 1), as in 0.8")
        k = len(self.groups)
        outside, beyond = 1 - nominal, 1 / (k + 1)  # what may lie outside, and the new source, which does
        if 2 * beyond > outside * (1 + 1e-12):
            needed = math.ceil(2 / outside * (1 - 1e-12)) - 1
            raise InputError(f"quantiles: {k} sources are too few for a range of {nominal:.0%}; {needed} are needed")
        votes = [vote(len(group)) for group in self.groups]
        rows = [(e, len(group), v * k / sum(votes)) for group, v in zip(self.groups, votes, strict=True) for e in group]
        weighted = sorted((-abs(error), float(row_weight(k, n)) * share) for error, n, share in rows)
        size = -_reach(weighted, outside - beyond)
        return -size, size

    def left_out(self, nominal: float = NOMINAL) -> tuple[tuple[float, float], ...]:
        """For every source, the quantiles of the others."""
        return tuple(
            GroupedErrors(self.groups[:i] + self.groups[i + 1 :]).quantiles(nominal) for i in range(len(self.groups))
        )

    def coverage(self, nominal: float = NOMINAL) -> float:
        """Share of a source's rows within the quantiles of the other sources, averaged over the sources."""
        each = zip(self.groups, self.left_out(nominal), strict=True)
        return mean([mean([float(low <= error <= high) for error in group]) for group, (low, high) in each])


def _reach(weighted: Sequence[tuple[float, float]], share: float) -> float:
    """The first error at which the weights below it and its own exceed a share."""
    total = 0.0
    for error, weight in weighted:
        total += weight
        if total > share + 1e-12:
            return error
    return weighted[-1][0]
