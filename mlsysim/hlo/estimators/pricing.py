"""Prices of a program's compute regions: each distinct one is given to the estimator once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import fsum
from typing import Any

from mlsysim import units
from mlsysim.hlo.estimators.base import Estimator, RunTime
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.results import Report, Result, format_rows, format_value
from mlsysim.tables import table


@dataclass(frozen=True)
class Pricing(Result):
    """How a program's compute regions were priced."""

    estimator: str
    regions: int  # compute regions that run
    distinct: int  # of them
    evaluated: int  # of the distinct ones, those that the estimator was asked for: the rest came from the cache
    low_s: float  # the fastest repeats together
    high_s: float  # the slowest
    seconds: Mapping[str, float] = field(default_factory=dict)  # by the estimator that priced them

    @property
    def saved(self) -> float:
        """Share of the evaluations that repetition and the cache saved."""
        return 1 - self.evaluated / self.regions if self.regions else 0.0

    def summary(self) -> list[str]:
        by = ", ".join(f"{source} {format_value(s, 's')}" for source, s in self.seconds.items())
        spread = (
            f"{format_value(self.low_s, 's')} to {format_value(self.high_s, 's')} over repeats"
            if self.low_s < self.high_s
            else ""
        )
        return format_rows(
            f"{self.regions} compute regions priced by {self.estimator}: {format_value(fsum(self.seconds.values()), 's')}",
            ("range", spread),
            ("evaluated", f"{self.evaluated} of {self.distinct} different ones, {self.saved:.1%} saved"),
            ("by", by),
        )

    def explain(self) -> Report:
        """Seconds by the estimator that priced them."""
        rows = [(source, format_value(s, "s")) for source, s in self.seconds.items()]
        return Report(self.summary()[0], (table(("Estimator", "Time"), rows),), str(self).strip().splitlines())

    def to_dict(self) -> dict[str, Any]:
        """For JSON, with the saved share."""
        return asdict(self) | {"seconds": dict(self.seconds), "saved": self.saved}

    def __str__(self) -> str:
        total = fsum(self.seconds.values())
        lines = [
            f"  priced by {self.estimator}: {self.evaluated} evaluations for {self.regions} compute regions,"
            f" {self.saved:.1%} saved"
        ]
        if len(self.seconds) > 1:
            lines += [
                f"    {source:<22}{units.format(s, 's'):>16}  {s / total if total else 0.0:6.1%}"
                for source, s in self.seconds.items()
            ]
        if self.low_s < self.high_s:
            lines.append(f"  spread over repeats: {units.format(self.low_s, 's')} to {units.format(self.high_s, 's')}")
        return "\n".join(lines)


def running(regions: Sequence[Region], times: int = 1) -> Iterator[tuple[Region, int]]:
    """Every region that computes or communicates with the times it runs, those inside loops that communicate included."""
    for region in regions:
        if region.kind == "loop":
            yield from running(region.body, times * region.count)
        else:
            yield region, times


def numbered(regions: Sequence[Region]) -> dict[int, int]:
    """A number for every region that runs, by its ``id``: equal for regions that do the same work on the same shapes."""
    known: dict[Any, int] = {}
    return {id(region): known.setdefault(region.signature(), len(known)) for region, _ in running(regions)}


class Prices:
    """The price of every compute region of some regions. ``unique`` counts distinct regions, collectives included.

    ``alike`` may give each region a number by its ``id``, equal for those that do the same; see :func:`numbered`.
    """

    def __init__(self, estimator: Estimator, regions: Sequence[Region], alike: Mapping[int, int] | None = None) -> None:
        self.estimator = estimator
        before = getattr(estimator, "hits", 0)  # of an estimator with a cache
        known: dict[Any, RunTime] = {}
        messages: set[Any] = set()
        self._of: dict[int, RunTime] = {}
        self._runs: list[tuple[RunTime, int]] = []
        alike = numbered(regions) if alike is None else alike
        for region, times in running(regions):
            signature = alike[id(region)]
            if region.kind == "comm":
                messages.add(signature)
                continue
            price = known.get(signature)
            if price is None:
                price = known[signature] = estimator.get_run_time_estimate(region)
            self._of[id(region)] = price
            self._runs.append((price, times))
        self.distinct = len(known)
        self.unique = self.distinct + len(messages)
        self.evaluated = self.distinct - (getattr(estimator, "hits", 0) - before)

    def of(self, region: Region) -> RunTime:
        return self._of[id(region)]

    def total(self) -> float:
        """Time of all compute regions one after another."""
        return fsum(price.seconds * times for price, times in self._runs)

    def summary(self) -> Pricing:
        seconds: dict[str, float] = {}
        for price, times in self._runs:
            for source, part in (price.parts or {price.source: price.seconds}).items():
                seconds[source] = seconds.get(source, 0.0) + part * times
        return Pricing(
            self.estimator.name,
            sum(times for _, times in self._runs),
            self.distinct,
            self.evaluated,
            fsum(price.low * times for price, times in self._runs),
            fsum(price.high * times for price, times in self._runs),
            seconds,
        )
