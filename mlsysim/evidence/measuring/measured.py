"""A measured value over its repeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Measured:
    """A rate or a time, over repeats: the median, and the quartiles around it."""

    median: float
    low: float
    high: float
    repeats: int

    @property
    def spread(self) -> float:
        """Distance of the quartiles over the median."""
        return (self.high - self.low) / self.median

    @staticmethod
    def of(values: Sequence[float]) -> "Measured":
        """
        >>> Measured.of([3.0, 1.0, 2.0, 5.0, 4.0])
        Measured(median=3.0, low=2.0, high=4.0, repeats=5)
        """
        ordered = sorted(values)
        last = len(ordered) - 1
        return Measured(median(ordered), ordered[round(last / 4)], ordered[round(3 * last / 4)], len(ordered))
