"""How wrong may it be? Reads the quantiles of past errors that ``mlsysim.evidence`` wrote, and turns a number into a range.

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
from mlsysim.results import Explanation, Input, Report, Result, Term, format_rows, format_value, plain
from mlsysim.tables import table

__all__ = [
    "KNOWN",
    "NEW",
    "ErrorQuantiles",
    "Interval",
    "checks",
    "class_names",
    "error_quantiles",
    "interval",
    "interval_end",
    "log_error",
    "refusals",
    "seen",
    "unseen",
]

KNOWN, NEW = "known", "new"  # domain of a prediction: every part of it was seen in other sources, or not


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
    """The measurement that a prediction would have if its log error were a given quantile of past errors.

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

    Source: barber2021jackknife, section 1: the jackknife; here with log errors, so that the ends are factors.
    """
    return predicted * exp(-quantile)


@dataclass(frozen=True)
class ErrorQuantiles(Result):
    """Quantiles of the natural logarithm of predicted over measured, of one class of predictions."""

    class_name: str
    domain: str  # known: each part was seen in other sources; new: a part was not
    pool: tuple[str, ...]  # classes whose errors stand behind them
    nominal: float  # share of new measurements that the range should hold
    low: float
    high: float
    groups: int  # sources, or left-out domains
    rows: int
    coverage: float  # share that it did hold, each group judged by the others
    date: str

    @property
    def votes(self) -> str:
        """What has one vote each: a source in domain, a left-out domain out of domain."""
        return f"{self.groups} {'sources' if self.domain == KNOWN else 'left-out domains'}"

    @property
    def width(self) -> float:
        """The ends are as far apart as x/width and x width."""
        return float(interval_end(1.0, (self.low - self.high) / 2.0))

    @property
    def factors(self) -> tuple[float, float]:
        """Factors on the prediction that give both ends of its range."""
        return interval_end(1.0, self.high), interval_end(1.0, self.low)

    def summary(self) -> list[str]:
        low, high = self.factors
        return format_rows(
            f"{self.class_name}, {self.domain} domain: {self.nominal:.0%} of new measurements between x{low:.2f} and x{high:.2f} of a "
            "prediction",
            ("held", f"{self.coverage:.0%} of the measurements, each group judged by the others"),
            ("counted", f"{self.rows} rows of {self.votes}, {self.date}"),
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
    missing: tuple[str, ...] = ()  # parts of the domain that no source covers, in words

    @property
    def domain(self) -> str:
        """``known`` or ``new``."""
        return self.quantiles.domain

    @property
    def where(self) -> str:
        """Whether the prediction is in domain, and if not why, in words."""
        if self.domain == KNOWN:
            return "in domain"
        return "out of domain" + (f": no source covers {' or '.join(self.missing)}" if self.missing else "")

    @property
    def whose(self) -> str:
        """Coverage of the range over past errors, and the part of the domain that none of them covers."""
        of = f"{self.quantiles.nominal:.0%} range of past errors"
        lacks = [
            f"on {m.removeprefix('generation ').strip(chr(39))}" if m.startswith("generation ") else f"with {m}"
            for m in self.missing
        ]
        return of + (f", none {' or '.join(lacks)}" if lacks else "")

    @property
    def ends(self) -> tuple[Num, Num]:
        return self.low, self.high

    def summary(self) -> list[str]:
        return format_rows(
            f"{format_value(self.value, '1')}, expected {format_value(self.low, '1')} to {format_value(self.high, '1')}",
            ("range", str(self)),
        )

    def words(self, unit: str) -> str:
        """Both ends in their unit, and the coverage that the range promises."""
        q = self.quantiles
        return (
            f"{units.format(self.low, unit, 3)} to {units.format(self.high, unit, 3)}, where {q.nominal:.0%} of measurements are "
            f"expected ({self.where}; {q.rows} rows of {q.votes})"
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
            "domain": self.domain,
            "missing": list(self.missing),
            "quantiles": self.quantiles.to_dict(),
        }

    def __str__(self) -> str:
        q = self.quantiles
        return (
            f"{q.nominal:.0%} of measurements are expected between {_times(self.low / self.value)} and "
            f"{_times(self.high / self.value)} of the prediction ({q.class_name}, {self.where}; {q.rows} rows of {q.votes}"
            f"{', pooled' if len(q.pool) > 1 else ''}; coverage {q.coverage:.0%} of those left out, {q.date})"
        )


def _times(factor: Num) -> str:
    """A factor in words, with more digits where two would say 1.00."""
    return f"x{factor:.2f}" if abs(factor - 1.0) >= 0.05 else f"x{factor:.4f}"


@cache
def _file() -> Mapping[str, Any]:
    import tomllib

    text = Path(__file__).with_name("intervals.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


@cache
def error_quantiles(domain: str = KNOWN) -> Mapping[str, ErrorQuantiles]:
    """Error quantiles by class, in domain or out of domain.

    >>> old, new = error_quantiles()["training_step"], error_quantiles("new")["training_step"]
    >>> new.low <= old.low < old.high <= new.high
    True
    """
    if domain not in (KNOWN, NEW):
        raise unknown_name("kind of domain", domain, (KNOWN, NEW))
    found = {name: _quantiles(name, domain, domain) for name, entry in _file().items() if domain in entry}
    return MappingProxyType(found)


def _quantiles(name: str, domain: str, level: str) -> ErrorQuantiles:
    entry, own = _file()[name], _file()[name][level]
    shared = {key: entry[key] for key in ("nominal", "date")}
    return ErrorQuantiles(name, domain, tuple(own["pool"]), **shared, **_numbers(own))


def _numbers(level: Mapping[str, Any]) -> dict[str, Any]:
    return {key: level[key] for key in ("low", "high", "groups", "rows", "coverage")}


@cache
def class_names() -> tuple[str, ...]:
    """The classes that have a range."""
    return tuple(name for name in _file() if name not in refusals())


@cache
def refusals() -> Mapping[str, str]:
    """Classes without a range, with the reason."""
    return MappingProxyType({name: entry["refused"] for name, entry in _file().items() if "refused" in entry})


def checks(class_name: str) -> Mapping[str, Any]:
    """Coverage of a class's ranges on left-out sources, left-out domains and later measurements.

    >>> 0.5 < checks("training_step")["coverage_domains"] <= 1.0
    True
    """
    if class_name not in class_names():
        raise unknown_name("class with intervals", class_name, class_names())
    return MappingProxyType({key: value for key, value in _file()[class_name].items() if not isinstance(value, dict)})


@cache
def seen(class_name: str) -> Mapping[str, tuple[str, ...]]:
    """Generations, kinds of model, precisions and phases that a class's sources cover.

    >>> "Hopper" in seen("training_step")["generation"]
    True
    """
    if class_name not in _file():
        raise unknown_name("class with intervals", class_name, _file())
    return MappingProxyType({part: tuple(values) for part, values in _file()[class_name].get("seen", {}).items()})


def unseen(class_name: str, place: Mapping[str, str]) -> tuple[str, ...]:
    """The parts of a domain that no source of a class covers, in words; empty in domain.

    >>> place = {"generation": "Volta", "kind": "dense", "precision": "16-bit", "phase": "pretrain"}
    >>> unseen("training_step", place)
    ("generation 'Volta'",)
    """
    have = seen(class_name)
    return tuple(f"{part} {value!r}" for part, value in place.items() if value not in have.get(part, (value,)))


def _counted(class_name: str, place: Mapping[str, str]) -> bool:
    """Whether the quantity is arithmetic on given inputs, which have errors of their own."""
    alone = _file()[class_name].get("counted", {}).get("places", {})
    return any(place.get(part) in values for part, values in alone.items())


def interval(class_name: str, predicted: Num, place: Mapping[str, str] | None = None) -> Interval:
    """The range in which a measurement of a predicted quantity is expected.

    Formula: eq-interval at the upper and at the lower quantile of eq-log-error over published measurements: in domain over
    sources that were left out, out of domain over whole domains that were (eq-two-levels).

    Parameters
    ----------
    class_name : str
        Class of the prediction, as in ``training_step``.
    predicted : float or array
        A prediction of that class by the calibrated model; greater than zero.
    place : mapping, optional
        Where it lies: ``generation``, ``kind``, ``precision`` and ``phase``, as :func:`seen` lists them. A domain with a part that no source covers is out of
        domain, and so is one that nobody names.

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
    if class_name not in _file():
        raise unknown_name("class with intervals", class_name, class_names())
    missing = ("a place that nobody named",) if place is None else unseen(class_name, place)
    if place and not missing and _counted(class_name, place):
        q = _quantiles(class_name, KNOWN, "counted")
    else:
        q = (error_quantiles(NEW if missing else KNOWN).get(class_name)) or error_quantiles(NEW)[class_name]
    return Interval(predicted, interval_end(predicted, q.high), interval_end(predicted, q.low), q, missing)
