"""How wrong may it be? Reads the quantiles of past errors that ``mlsysim.validation`` wrote, and turns a number into a range.

Nothing is computed here: the quantiles, the rows they stand on and the coverage that was checked are data.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any

from mlsysim.errors import InputError, unknown_name


@dataclass(frozen=True)
class ErrorQuantiles:
    """Quantiles of the natural logarithm of predicted over measured, of one class of predictions."""

    class_name: str
    pool: tuple[str, ...]  # classes whose errors stand behind them
    nominal: float  # share of new measurements that the range should hold
    low: float
    high: float
    groups: int
    rows: int
    coverage: float  # share that it did hold, each group judged by the others
    date: str

    @property
    def factors(self) -> tuple[float, float]:
        """What to multiply a prediction with for the two ends of its range."""
        return math.exp(-self.high), math.exp(-self.low)


@dataclass(frozen=True)
class Interval:
    """A prediction and the range in which a measurement is expected."""

    value: float
    low: float
    high: float
    quantiles: ErrorQuantiles

    def __str__(self) -> str:
        q = self.quantiles
        return (
            f"{q.nominal:.0%} of measurements are expected between x{self.low / self.value:.2f} and "
            f"x{self.high / self.value:.2f} of the prediction ({q.class_name}: {q.rows} rows of {q.groups} sources"
            f"{', pooled' if len(q.pool) > 1 else ''}; held {q.coverage:.0%} of the left-out ones, {q.date})"
        )


@cache
def error_quantiles() -> Mapping[str, ErrorQuantiles]:
    """Every class that has quantiles, by name."""
    import tomllib

    with as_file(files("mlsysim") / "intervals.toml") as path:
        raw: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return MappingProxyType(
        {
            name: ErrorQuantiles(class_name=name, **{k: tuple(v) if k == "pool" else v for k, v in entry.items()})
            for name, entry in raw.items()
            if "refused" not in entry
        }
    )


@cache
def refusals() -> Mapping[str, str]:
    """Classes for which no range is given, and why."""
    import tomllib

    with as_file(files("mlsysim") / "intervals.toml") as path:
        raw: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return MappingProxyType({name: entry["refused"] for name, entry in raw.items() if "refused" in entry})


def interval(class_name: str, predicted: float) -> Interval:
    """The range in which a measurement of a predicted quantity is expected.

    Formula: [p exp(-q_high), p exp(-q_low)], with the quantiles of ln(predicted / measured) over published measurements.

    Parameters
    ----------
    class_name : str
        Class of the prediction, as in ``training_step``.
    predicted : float
        A prediction of that class by the calibrated model; greater than zero.

    Raises
    ------
    InputError, UnknownNameError
        A class without quantiles, with the reason; a prediction that is not positive.

    >>> low, high = (f(interval("training_step", 10.0)) for f in (lambda i: i.low, lambda i: i.high))
    >>> low < 10.0 < high
    True

    Source: validation rows as counted in the result; grouped split-conformal quantiles as in dunn2023hierarchical.
    """
    if class_name in refusals():
        raise InputError(f"interval: class {class_name!r} has none: {refusals()[class_name]}")
    if class_name not in error_quantiles():
        raise unknown_name("class with intervals", class_name, error_quantiles())
    if not (math.isfinite(predicted) and predicted > 0):
        raise InputError(f"interval: predicted = {predicted!r} must be a finite number greater than zero")
    q = error_quantiles()[class_name]
    low, high = q.factors
    return Interval(predicted, predicted * low, predicted * high, q)
