"""How wrong may it be? Reads the quantiles of past errors that ``mlsysim.validation`` wrote, and turns a number into a range.

The quantiles, the rows they stand on and the coverage that was checked are data; nothing is fitted here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim import units
from mlsysim._numeric import Num, exp, log
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Explanation, Input, Report, Result, Term, labelled, plain, shown
from mlsysim.tables import table

__all__ = [
    "KNOWN",
    "NEW",
    "ErrorQuantiles",
    "Interval",
    "error_quantiles",
    "interval",
    "interval_end",
    "log_error",
    "refusals",
]

KNOWN, NEW = "known domain", "new domain"  # where a prediction lies: seen in other sources, or not


def __dir__() -> list[str]:
    return __all__


@equation("eq-log-error", formula="log(predicted / measured)", domain={"predicted": POSITIVE, "measured": POSITIVE})
def log_error(predicted: Num, measured: Num) -> Num:
    """Signed error on a scale where twice too much and half of it are equally far off.

    Formula: eps = ln(p / m).

    Parameters
    ----------
    predicted, measured : float or array, 1
        In any one unit.

    Returns
    -------
    float or array, 1

    Assumptions: none; for small errors the relative error itself.

    >>> round(log_error(2.0, 1.0), 3), round(log_error(1.0, 2.0), 3)
    (0.693, -0.693)

    Source: tofallis2015accuracy, log of the accuracy ratio.
    """
    return log(predicted / measured)


@equation("eq-interval", formula="predicted * exp(-quantile)", domain={"predicted": POSITIVE, "quantile": "[-10, 10]"})
def interval_end(predicted: Num, quantile: Num) -> Num:
    """The measurement that a prediction would have if its log error were a given quantile of past ones.

    Formula: m = p exp(-q).

    Parameters
    ----------
    predicted : float or array, 1
        In any unit; the result has the same.
    quantile : float or array, 1
        Of ln(predicted / measured): the upper one gives the lower end.

    Returns
    -------
    float or array, 1

    Assumptions: the next source errs as the past ones did (they are exchangeable).

    >>> round(interval_end(10.0, -0.2), 2)
    12.21

    Source: lei2018conformal, algorithm 2; split conformal, here with signed errors.
    """
    return predicted * exp(-quantile)


@dataclass(frozen=True)
class ErrorQuantiles(Result):
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
        return interval_end(1.0, self.high), interval_end(1.0, self.low)

    def summary(self) -> list[str]:
        low, high = self.factors
        return labelled(
            f"{self.class_name}: {self.nominal:.0%} of new measurements between x{low:.2f} and x{high:.2f} of a prediction",
            ("held", f"{self.coverage:.0%} of the measurements, each source judged by the others"),
            ("counted", f"{self.rows} rows of {self.groups} sources, {self.date}"),
            ("pool", ", ".join(self.pool)),
        )

    def explain(self) -> Report:
        """What the quantiles were counted on, and their two equations."""
        rows = [("eq-log-error", "lower", f"{self.low:.4g}"), ("eq-log-error", "upper", f"{self.high:.4g}")]
        return Report(self.summary()[0], (table(("Equation", "Quantile", "Log error"), rows),), self.summary()[1:])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return dict(plain(asdict(self))) | {"factors": list(self.factors)}


@dataclass(frozen=True)
class Interval(Result):
    """A prediction and the range in which a measurement is expected."""

    value: Num
    low: Num
    high: Num
    quantiles: ErrorQuantiles

    @property
    def ends(self) -> tuple[Num, Num]:
        return self.low, self.high

    def summary(self) -> list[str]:
        return labelled(
            f"{shown(self.value, '1')}, expected {shown(self.low, '1')} to {shown(self.high, '1')}",
            ("range", str(self)),
        )

    def words(self, unit: str) -> str:
        """Both ends in their unit, and what the range promises."""
        q = self.quantiles
        return (
            f"{units.format(self.low, unit, 3)} to {units.format(self.high, unit, 3)}, where {q.nominal:.0%} of measurements are "
            f"expected ({q.rows} rows of {q.groups} sources)"
        )

    def explain(self) -> Explanation:
        """Both ends by their equation."""
        q = self.quantiles
        ends = [
            Term(name, value, "eq-interval", {"predicted": self.value, "quantile": quantile})
            for name, value, quantile in (("lower end", self.low, q.high), ("upper end", self.high, q.low))
        ]
        return Explanation(
            f"range of a prediction of class {q.class_name}", ends, (Input("predicted", self.value, "1"),), [str(self)]
        )

    def to_dict(self) -> dict[str, Any]:
        """The prediction, both ends in its unit, and what they were counted on."""
        return {
            "value": plain(self.value),
            "low": plain(self.low),
            "high": plain(self.high),
            "quantiles": self.quantiles.to_dict(),
        }

    def __str__(self) -> str:
        q = self.quantiles
        return (
            f"{q.nominal:.0%} of measurements are expected between x{self.low / self.value:.2f} and "
            f"x{self.high / self.value:.2f} of the prediction ({q.class_name}: {q.rows} rows of {q.groups} sources"
            f"{', pooled' if len(q.pool) > 1 else ''}; held {q.coverage:.0%} of the left-out ones, {q.date})"
        )


def _read() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("intervals.toml").read_text(encoding="utf-8"))


def _quantiles(name: str, pool: list[str], **entry: Any) -> ErrorQuantiles:
    return ErrorQuantiles(name, tuple(pool), **entry)


@cache
def error_quantiles() -> Mapping[str, ErrorQuantiles]:
    """Every class that has quantiles, by name."""
    known = {name: entry for name, entry in _read().items() if "refused" not in entry}
    return MappingProxyType({name: _quantiles(name, **entry) for name, entry in known.items()})


@cache
def refusals() -> Mapping[str, str]:
    """Classes for which no range is given, and why."""
    return MappingProxyType({name: entry["refused"] for name, entry in _read().items() if "refused" in entry})


def interval(class_name: str, predicted: Num) -> Interval:
    """The range in which a measurement of a predicted quantity is expected.

    Formula: eq-interval at the upper and at the lower quantile of eq-log-error over published measurements.

    Parameters
    ----------
    class_name : str
        Class of the prediction, as in ``training_step``.
    predicted : float or array
        A prediction of that class by the calibrated model; greater than zero.

    Raises
    ------
    InputError, UnknownNameError
        A class without quantiles, with the reason; a prediction that is not positive.

    >>> low, high = (f(interval("training_step", 10.0)) for f in (lambda i: i.low, lambda i: i.high))
    >>> low < 10.0 < high
    True

    Source: validation rows as counted in the result; quantiles as in lee2023hierarchical.
    """
    if class_name in refusals():
        raise InputError(f"interval: class {class_name!r} has none: {refusals()[class_name]}")
    if class_name not in error_quantiles():
        raise unknown_name("class with intervals", class_name, error_quantiles())
    q = error_quantiles()[class_name]
    return Interval(predicted, interval_end(predicted, q.high), interval_end(predicted, q.low), q)
