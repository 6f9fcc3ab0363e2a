"""Quantiles of the size of log errors by the ranks of conformal prediction, one vote per source, and the coverage that they really have.

The errors are those of sources that were left out of the fit one at a time, so a range made of them is a jackknife over groups: near
its promise where no source moves the fit much, and without the guarantee of data that were set apart.

Rows of one source err together, so they cannot count as independent: the next measurement comes from a *new* source. Each
of k sources gets the weight 1/(k + 1), split evenly over its rows; the remaining 1/(k + 1) stands for the new source, and
its whole vote counts as if it lay beyond the range. What is ranked is the size of an error, so that the range reaches as
far up as down. A quantile at each end, each with the whole vote, holds far more than it promises where sources are few, since
each end then stands near the most extreme row of all.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
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


@equation("eq-row-weight", formula="1 / ((groups + 1) * rows)", domain={"groups": "[1, inf)", "rows": "[1, inf)"})
def row_weight(groups: Num, rows: Num) -> Num:
    """Weight of one row's error when every source has one vote and the next source has one too.

    Formula: w = 1 / ((k + 1) n).

    Parameters
    ----------
    groups : float or array, 1
        Sources.
    rows : float or array, 1
        Rows of the row's own source. Where a vote is split over sources first, as a domain's is, the rows of the row's own
        source times the sources that share the vote.

    Returns
    -------
    float or array, 1

    Assumptions: sources are exchangeable, and so are the rows within one.

    >>> row_weight(groups=9, rows=200)
    0.0005

    Source: lee2023hierarchical, hierarchical conformal prediction.
    """
    return 1 / ((groups + 1) * rows)


def most_held(groups: int, nominal: float = NOMINAL) -> float:
    """What a range of so many sources holds of a new one, on average, if rows of one source differ as those of different ones do.

    Of all rows it holds 1 - (1 - nominal - 1 / (k + 1)) (k + 1) / k = nominal (k + 1) / k, each source with one vote, and a
    new row is then like any of them. If rows of one source err alike, a new source is inside or out as one, and on average
    between ``nominal`` and ``nominal + 1 / (k + 1)`` of them are inside.

    >>> round(most_held(10), 3), round(most_held(38), 3)
    (0.88, 0.821)
    """
    return nominal * (groups + 1) / groups


@dataclass(frozen=True)
class GroupedErrors(Result):
    """Signed log errors ln(predicted / measured) by source, each source left out of the fit that predicted it.

    ``parts`` says of every row into how many equal parts the vote of its group is split; into as many as the group has rows
    unless given. So a domain's vote is split over its sources, and the part of a source over its rows.
    """

    groups: tuple[tuple[float, ...], ...]
    parts: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, *reports: Report) -> "GroupedErrors":
        """From scored reports; rows without a prediction have no error and are left out, as are errors of -100 %."""
        groups: dict[tuple[str, str], list[float]] = {}
        for report in reports:
            for row in report.rows:
                if row.predicted is not None and row.predicted > 0 and row.measured > 0:
                    groups.setdefault((report.case_class, row.group), []).append(log_error(row.predicted, row.measured))
        return cls(tuple(tuple(errors) for errors in groups.values()))

    @classmethod
    def by_source(cls, groups: Iterable[Iterable[tuple[Hashable, float]]]) -> "GroupedErrors":
        """From groups of sources and errors, as domains are: each source of a group has an equal part of its vote.

        >>> GroupedErrors.by_source([[("a", 0.1), ("b", 0.2), ("b", 0.3)]]).parts
        ((2, 4, 4),)
        """
        kept = [list(group) for group in groups]
        rows = [Counter(source for source, _ in group) for group in kept]
        parts = tuple(tuple(len(n) * n[source] for source, _ in group) for group, n in zip(kept, rows, strict=True))
        return cls(tuple(tuple(error for _, error in group) for group in kept), parts)

    @property
    def rows(self) -> int:
        return sum(map(len, self.groups))

    @property
    def _parts(self) -> tuple[tuple[int, ...], ...]:
        return self.parts or tuple((len(group),) * len(group) for group in self.groups)

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
        rows = [pair for both in zip(self.groups, self._parts, strict=True) for pair in zip(*both, strict=True)]
        weighted = sorted((-abs(error), float(row_weight(k, parts))) for error, parts in rows)
        size = -_reach(weighted, outside - beyond)
        return -size, size

    def left_out(self, nominal: float = NOMINAL) -> tuple[tuple[float, float], ...]:
        """For every source, the quantiles of the others."""
        return tuple(
            GroupedErrors(self.groups[:i] + self.groups[i + 1 :], self.parts[:i] + self.parts[i + 1 :]).quantiles(
                nominal
            )
            for i in range(len(self.groups))
        )

    def coverage(self, nominal: float = NOMINAL) -> float:
        """Share of a source's vote within the quantiles of the other sources, averaged over the sources."""
        each = zip(self.groups, self._parts, self.left_out(nominal), strict=True)
        return mean(
            [
                sum(1.0 / n for error, n in zip(group, parts, strict=True) if low <= error <= high)
                for group, parts, (low, high) in each
            ]
        )


def _reach(weighted: Sequence[tuple[float, float]], share: float) -> float:
    """The first error at which the weights below it and its own exceed a share."""
    total = 0.0
    for error, weight in weighted:
        total += weight
        if total > share + 1e-12:
            return error
    return weighted[-1][0]
