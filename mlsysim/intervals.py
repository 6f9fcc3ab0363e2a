"""How wrong may it be? Reads the spreads of past errors that ``mlsysim.evidence`` wrote, and turns a number into a range.

The spreads, the rows they stand on and the coverage that was checked are data; nothing is fitted here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

from mlsysim import units
from mlsysim._numeric import Num, exp, log, maximum, sqrt
from mlsysim.efficiencies import pooled_share
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Explanation, Input, Report, Result, Term, format_rows, format_value, plain
from mlsysim.tables import table

__all__ = [
    "KNOWN",
    "LARGEST",
    "NEW",
    "STRENGTH",
    "ErrorQuantiles",
    "Interval",
    "Recentred",
    "apart",
    "came",
    "checks",
    "class_names",
    "error_quantiles",
    "interval",
    "interval_end",
    "interval_score",
    "log_error",
    "log_gap",
    "odds",
    "odds_once_measured",
    "place_name",
    "places",
    "recentred",
    "run_spread",
    "run_weight",
    "scale_of",
    "seen",
    "spread_of",
    "unseen",
    "width",
]

KNOWN, NEW = "known", "new"  # domain of a prediction: sources were there, and err no more than where none was; or not
ODDS = 2.0 / 3.0  # that a plan is the slower one, from which on it is not recommended however simple it is
LARGEST = 2.5  # a range wider than this factor each way says that we do not know
STRENGTH = 4.0  # votes of a class for a place, and of all for a class: the variance within places over that between
_TOGETHER = "these parts together"
_STEPS = 41  # of the integrals over what a measurement may say, and over how large its error is


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


@equation(
    "eq-run-weight",
    formula="points * common / (points * common + 1 - common + noise)",
    domain={"points": "[0, inf)", "common": "[0, 1)", "noise": "[0, inf)"},
)
def run_weight(points: Num, common: Num, noise: Num = 0.0) -> Num:
    """How much of the mean log error of one's own runs the next run has too.

    Formula: w = n c / (n c + 1 - c + v).

    Parameters
    ----------
    points : float or array, 1
        Measured points n of one's own.
    common : float or array, 1
        Share c of the variance of a log error that two points of one source in one place have in common.
    noise : float or array, 1
        Variance v of a point's own noise, over the variance of the errors.

    Returns
    -------
    float or array, 1

    Assumptions: errors are normal about zero; a part of the variance, c, is of the source, the rest of each point by itself.

    >>> round(run_weight(1.0, 0.4), 3), round(run_weight(5.0, 0.4), 3), run_weight(0.0, 0.4)
    (0.4, 0.769, 0.0)

    Source: gelman2006multilevel, section 3: partial pooling of a group's mean; here towards zero.
    """
    return points * common / (points * common + 1.0 - common + noise)


@equation(
    "eq-run-spread",
    formula="spread * sqrt(1 - common * weight)",
    domain={"spread": POSITIVE, "common": "[0, 1)", "weight": "[0, 1]"},
)
def run_spread(spread: Num, common: Num, weight: Num) -> Num:
    """Spread of the log errors that is left once one's own runs have moved the prediction.

    Formula: s' = s sqrt(1 - c w).

    Parameters
    ----------
    spread : float or array, 1
        Spread s of the log errors where nothing was measured.
    common : float or array, 1
        Share c of their variance that two points of one source have in common.
    weight : float or array, 1
        Weight w of the runs.

    Returns
    -------
    float or array, 1

    Assumptions: those of the weight; what a point has for itself no other point tells.

    >>> round(run_spread(0.2, 0.4, 0.4), 4), run_spread(0.2, 0.4, 0.0)
    (0.1833, 0.2)

    Source: gelman2006multilevel, section 3: the variance of a group's mean after pooling, and that of a new point in it.
    """
    return spread * sqrt(1.0 - common * weight)


@equation(
    "eq-interval-score",
    formula="log(high / low) + 2 / (1 - nominal) * max(0, log(low / measured), log(measured / high))",
    domain={"low": POSITIVE, "high": POSITIVE, "measured": POSITIVE, "nominal": "(0, 1)"},
    relations=("low <= high",),
)
def interval_score(low: Num, high: Num, measured: Num, nominal: Num) -> Num:
    """What a range costs: its width, and by how much it is missed, times two over the share that may lie outside.

    Formula: S = ln(u / l) + 2 / (1 - n) max(0, ln(l / m), ln(m / u)).

    Parameters
    ----------
    low, high : float or array, 1
        Ends l and u of the range, in any one unit.
    measured : float or array, 1
        What was measured, m.
    nominal : float or array, 1
        Share n of cases that the range is to hold, with half of the others on either side.

    Returns
    -------
    float or array, 1
        The smaller the better.

    Assumptions: none. Whoever gives the quantiles (1 - n) / 2 and (1 + n) / 2 of what he believes expects the smallest score.

    >>> round(interval_score(1.0, 2.0, 1.5, 0.8), 3), round(interval_score(1.0, 2.0, 2.2, 0.8), 3)
    (0.693, 1.646)

    Source: gneiting2007scoring, section 6.2, equation (43): the interval score; here of logarithms.
    """
    return log(high / low) + 2.0 / (1.0 - nominal) * maximum(0.0, log(low / measured), log(measured / high))


@dataclass(frozen=True)
class Recentred(Result):
    """What runs of one's own say of the predictions of a class: by how much to move them, and how much narrower the range is."""

    points: int
    error: float  # mean of ln(predicted / measured)
    common: float  # share of the variance that a point of ours and the question have in common
    weight: float

    @property
    def factor(self) -> float:
        """What to multiply a predicted time by."""
        return float(interval_end(1.0, self.weight * self.error))

    @property
    def narrower(self) -> float:
        """The spread of the errors that are left, over that without the runs."""
        return float(run_spread(1.0, self.common, self.weight))


@dataclass(frozen=True)
class ErrorQuantiles(Result):
    """Quantiles of the natural logarithm of predicted over measured, of one class of predictions."""

    class_name: str
    domain: str  # known: sources were there, and err no more than where none was; else new
    nominal: float  # share of new measurements that the range should hold
    low: float
    high: float
    groups: int  # sources of the class
    rows: int
    coverage: float  # share that the ranges of the class did hold of sources, each without a vote
    date: str
    near: int = 0  # sources in the same place
    own: int = 0  # points of one's own

    @property
    def votes(self) -> str:
        """How many sources stand behind it, and how many of them in the same place."""
        found = f"{self.groups} sources" + (f", {self.near} of them here" if self.near else "")
        return found + (f", and {self.own} {'point' if self.own == 1 else 'points'} of yours" if self.own else "")

    @property
    def width(self) -> float:
        """The ends are as far apart as x/width and x width."""
        return float(interval_end(1.0, (self.low - self.high) / 2.0))

    @property
    def unknown(self) -> bool:
        """Whether the range is so wide that it says only that we do not know."""
        return self.width > LARGEST

    @property
    def caveat(self) -> str:
        """What to say beside a number whose range says nothing, to end a phrase with; else nothing."""
        return f"; wider than x{LARGEST:g}: we do not know" if self.unknown else ""

    @property
    def factors(self) -> tuple[float, float]:
        """Factors on the prediction that give both ends of its range."""
        return interval_end(1.0, self.high), interval_end(1.0, self.low)

    def summary(self) -> list[str]:
        low, high = self.factors
        return format_rows(
            f"{self.class_name}, {self.domain} domain: {self.nominal:.0%} of new measurements between x{low:.2f} and x{high:.2f} of a "
            f"prediction{self.caveat}",
            ("held", f"{self.coverage:.0%} of the measurements, each group judged by the others"),
            ("counted", f"{self.rows} rows of {self.votes}, {self.date}"),
        )

    def explain(self) -> Report:
        """What the quantiles were counted on, and their two equations."""
        rows = [("eq-log-error", "lower", f"{self.low:.4g}"), ("eq-log-error", "upper", f"{self.high:.4g}")]
        return Report(self.summary()[0], (table(("Equation", "Quantile", "Log error"), rows),), self.summary()[1:])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return dict(plain(asdict(self))) | {"factors": list(self.factors), "unknown": self.unknown}


@dataclass(frozen=True)
class Interval(Result):
    """A prediction and the range in which a measurement is expected."""

    NUMBERS = "value low high domain missing unknown quantiles"

    value: Num
    low: Num
    high: Num
    quantiles: ErrorQuantiles
    missing: tuple[
        str, ...
    ] = ()  # parts of the domain that no source covers, in words; none where its sources err too much

    @property
    def domain(self) -> str:
        """``known`` or ``new``."""
        return self.quantiles.domain

    @property
    def where(self) -> str:
        """Whether the prediction is in domain, and if not why, in words."""
        if self.domain == KNOWN:
            return "in domain"
        return "out of domain: " + (
            f"no source covers {' or '.join(self.missing)}"
            if self.missing
            else "its own sources err more than strangers do"
        )

    @property
    def unknown(self) -> bool:
        """Whether the range is wider than x2.5 each way, and so says only that we do not know."""
        return self.quantiles.unknown

    @property
    def caveat(self) -> str:
        """What to say beside a number whose range says nothing, to end a phrase with; else nothing."""
        return self.quantiles.caveat

    @property
    def whose(self) -> str:
        """Coverage of the range over past errors, and the part of the domain that none of them covers."""
        of = f"{self.quantiles.nominal:.0%} range of past errors"
        lacks = [
            f"on {m.removeprefix('generation ').strip(chr(39))}" if m.startswith("generation ") else f"with {m}"
            for m in self.missing
        ]
        return of + (f", none {' or '.join(lacks)}" if lacks else "") + self.caveat

    @property
    def ends(self) -> tuple[Num, Num]:
        return self.low, self.high

    def told_apart(self, shared: float) -> float:
        """How many times as long as this another prediction must be for odds of two in three that it is the longer one.

        Log errors of both are as wide as the range and share a part of their variance, the machine, the model and the software
        being the same: that part cancels (:func:`apart`).
        """
        q = self.quantiles
        scale = scale_of((q.high - q.low) / 2.0, q.nominal)
        return math.exp(log_gap(ODDS, apart(scale, scale, shared)))

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
            f"expected ({self.where}; {q.rows} rows of {q.votes}){self.caveat}"
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

    def __str__(self) -> str:
        q = self.quantiles
        return (
            f"{q.nominal:.0%} of measurements are expected between {_times(self.low / self.value)} and "
            f"{_times(self.high / self.value)} of the prediction ({q.class_name}, {self.where}; {q.rows} rows of {q.votes}"
            f"; coverage {q.coverage:.0%} of those left out, {q.date}){self.caveat}"
        )


def _times(factor: Num) -> str:
    """A factor in words, with more digits where two would say 1.00."""
    return f"x{factor:.2f}" if abs(factor - 1.0) >= 0.05 else f"x{factor:.4f}"


def odds(gap: float, scale: float) -> float:
    """The chance that the greater one of two predictions is measured to be the greater: how far apart they are against how they err.

    Formula: p = (1 + g / sqrt(2 s^2 + g^2)) / 2, Student's law with two degrees of freedom: normal errors whose size differs from
    question to question, exponentially in 1 / size^2. Most errors are small and a few are large.

    Parameters
    ----------
    gap : float
        ln(greater / smaller) as predicted; of a target, ln(target / prediction).
    scale : float
        Of the error of that gap, as of :func:`apart` or :func:`scale_of`.

    >>> odds(0.0, 0.1), round(odds(0.1, 0.1), 3), odds(0.1, 0.0)
    (0.5, 0.789, 1.0)
    """
    width = math.hypot(gap, math.sqrt(2.0) * scale)
    return 0.5 if width == 0 else (1.0 + gap / width) / 2.0


def log_gap(chance: float, scale: float) -> float:
    """How far apart two predictions must be for these odds: :func:`odds`, turned round.

    >>> round(odds(log_gap(0.8, 0.3), 0.3), 12)
    0.8
    """
    return scale * (2.0 * chance - 1.0) / math.sqrt(2.0 * chance * (1.0 - chance))


def scale_of(end: float, chance: float) -> float:
    """The scale of errors of which so many lie within an end, each way: of a range, or of errors counted.

    >>> round(scale_of(log_gap(0.9, 0.2), 0.8), 12)
    0.2
    """
    return end / log_gap((1.0 + chance) / 2.0, 1.0)


def apart(a: float, b: float, share: float) -> float:
    """Scale of the difference of two log errors that have a share of their variance in common: of equal ones that part cancels.

    >>> [round(apart(0.2, 0.2, share), 3) for share in (0.0, 0.5, 1.0)]
    [0.283, 0.2, 0.0]
    """
    return math.sqrt((a - b) ** 2 + 2.0 * (1.0 - share) * a * b)


def odds_once_measured(gap: float, a: float, b: float, share: float) -> float:
    """The chance to choose the right one of two after the first was measured, on average over what the measurement may say.

    Formula: a measurement tells the first's error, and of the second's the part that goes with it. What is left of the gap has the
    scale b sqrt(1 - share^2).

    >>> odds_once_measured(0.1, 0.2, 0.2, 0.5) > odds(0.1, apart(0.2, 0.2, 0.5))
    True
    """
    left = b * math.sqrt(1.0 - share**2)
    if left == 0:
        return 1.0
    told = math.sqrt(max(0.0, apart(a, b, share) ** 2 - left**2))
    normal = NormalDist()
    middles = [(i + 0.5) / _STEPS for i in range(_STEPS)]
    drawn = [normal.inv_cdf(m) for m in middles]
    sizes = [1.0 / math.sqrt(-math.log(m)) for m in middles]
    return math.fsum(normal.cdf(abs(gap / size + told * z) / left) for size in sizes for z in drawn) / _STEPS**2


@cache
def _file() -> Mapping[str, Any]:
    import tomllib

    text = Path(__file__).with_name("intervals.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


@cache
def error_quantiles() -> Mapping[str, ErrorQuantiles]:
    """Error quantiles by class, for places where none of its sources has been.

    >>> error_quantiles()["training_step"].low < 0 < error_quantiles()["training_step"].high
    True
    """
    return MappingProxyType({name: _quantiles(name, NEW, _entry(name)["spread"], 0) for name in class_names()})


def _entry(name: str) -> Mapping[str, Any]:
    return dict(_file()[name])


def _quantiles(name: str, domain: str, spread: float, near: int) -> ErrorQuantiles:
    own, shared = _entry(name), _file()["ranges"]
    end = own["spreads"] * spread
    told = own["groups"], own["rows"], own["coverage_sources"], shared["date"]
    return ErrorQuantiles(name, domain, shared["nominal"], -end, end, *told, near)


def place_name(place: Mapping[str, str]) -> str:
    """The parts of a domain as one name.

    >>> place_name({"generation": "Hopper", "kind": "dense", "precision": "16-bit", "phase": "pretrain"})
    'Hopper | dense | 16-bit | pretrain'
    """
    return " | ".join(place.values())


def spread_of(class_name: str, place: Mapping[str, str]) -> tuple[float, int]:
    """Spread of the log errors in a place, drawn towards its class's (eq-pooled-share), and how many sources have been there.

    >>> place = {"generation": "Volta", "kind": "dense", "precision": "16-bit", "phase": "pretrain"}
    >>> spread_of("training_step", place)[1]
    0
    """
    family = _entry(class_name)["spread"]
    own, votes, near = _entry(class_name)["places"].get(place_name(place), (family, 0.0, 0))
    return float(pooled_share(own, family, votes, STRENGTH)), near


@cache
def class_names() -> tuple[str, ...]:
    """The classes that have a range."""
    return tuple(name for name in _file() if name != "ranges")


def width() -> Mapping[str, Any]:
    """How many spreads wide a range is each way, and by how many sources and rows of all classes.

    >>> 1.0 < width()["spreads"] < 2.5
    True
    """
    return MappingProxyType(_file()["ranges"])


def checks(class_name: str) -> Mapping[str, Any]:
    """Coverage of a class's ranges on left-out sources and left-out domains, and the share that they do not know.

    >>> 0.5 < checks("training_step")["coverage_domains"] <= 1.0
    True
    """
    if class_name not in class_names():
        raise unknown_name("class with intervals", class_name, class_names())
    return MappingProxyType({key: value for key, value in _file()[class_name].items() if not isinstance(value, dict)})


@cache
def came(class_name: str) -> Mapping[str, Mapping[str, float]]:
    """By set: what the constants and ranges of the sets before it promised of a class, and what came.

    >>> sorted(came("training_step")["third"])
    ['error', 'held', 'promised', 'sources']
    """
    if class_name not in class_names():
        raise unknown_name("class with intervals", class_name, class_names())
    return MappingProxyType(_entry(class_name)["came"])


@cache
def seen(class_name: str) -> Mapping[str, tuple[str, ...]]:
    """Generations, kinds of model, precisions and phases that a class's sources cover.

    >>> "Hopper" in seen("training_step")["generation"]
    True
    """
    if class_name not in class_names():
        raise unknown_name("class with intervals", class_name, class_names())
    return MappingProxyType({part: tuple(values) for part, values in _entry(class_name)["seen"].items()})


def places(class_name: str) -> tuple[Mapping[str, str], ...]:
    """The places where sources of a class have been.

    >>> {"generation": "Hopper", "kind": "dense", "precision": "16-bit", "phase": "pretrain"} in places("training_step")
    True
    """
    if class_name not in class_names():
        raise unknown_name("class with intervals", class_name, class_names())
    parts = ("generation", "kind", "precision", "phase")
    return tuple(dict(zip(parts, name.split(" | "), strict=True)) for name in _entry(class_name)["places"])


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
    alone = _entry(class_name).get("counted", {}).get("places", {})
    return any(place.get(part) in values for part, values in alone.items())


ALIKE, APART, MOVED = (
    "common",
    "common_apart",
    "shared",
)  # a point of one's own lies in the same place, in another, on another device


def recentred(
    class_name: str, place: Mapping[str, str], errors: Sequence[float], noise: Sequence[float] = (), kin: str = ALIKE
) -> Recentred:
    """What the log errors of one's own runs tell of the next prediction: a part of their mean (eq-run-weight).

    Parameters
    ----------
    class_name : str
        Class of the prediction.
    place : mapping
        Where the next prediction lies.
    errors : sequence of float, 1
        ln(predicted / measured) of each point.
    noise : sequence of float, 1, optional
        Standard deviation of each of them by itself (default: 0).
    kin : str
        ``ALIKE``, ``APART`` (another phase, kind or precision) or ``MOVED`` (another device): which share of the variance the points
        and the question have in common.

    >>> place = {"generation": "Hopper", "kind": "dense", "precision": "16-bit weights, 16-bit products", "phase": "decoding"}
    >>> one, more = (recentred("inference", place, [0.2] * n) for n in (1, 4))
    >>> 0.8 < more.factor < one.factor < 1.0, more.narrower < one.narrower < 1.0
    (True, True)
    """
    if not errors:
        raise InputError("recentred: no errors; give ln(predicted / measured) of one point at least")
    n, variance = len(errors), sum(v * v for v in noise) / len(errors)
    common = min(0.99, max(0.0, float(checks(class_name).get(kin, 0.0))))
    weight = float(run_weight(float(n), common, variance / spread_of(class_name, place)[0] ** 2))
    return Recentred(n, sum(errors) / n, common, weight)


def interval(
    class_name: str, predicted: Num, place: Mapping[str, str] | None = None, own: Recentred | None = None
) -> Interval:
    """The range in which a measurement of a predicted quantity is expected.

    Formula: eq-interval at so many spreads each way as held 80 % of left-out sources; the spread is that of the place's own
    sources, drawn towards that of its class (eq-pooled-share), which holds what strangers and new domains bring (eq-two-levels).

    Parameters
    ----------
    class_name : str
        Class of the prediction, as in ``training_step``.
    predicted : float or array
        A prediction of that class by the calibrated model; greater than zero.
    place : mapping, optional
        Where it lies: ``generation``, ``kind``, ``precision`` and ``phase``, as :func:`seen` lists them. It is in domain when sources
        have been in that place and err no more than where none has been; a place that nobody names is out of domain.

    Raises
    ------
    UnknownNameError, InputError
        A class without spreads; a prediction that is not positive.

    >>> low, high = (f(interval("training_step", 10.0)) for f in (lambda i: i.low, lambda i: i.high))
    >>> low < 10.0 < high
    True

    Source: validation rows as counted in the result; quantiles as in lee2023hierarchical, spreads as in gelman2006multilevel.
    """
    if class_name not in class_names():
        raise unknown_name("class with intervals", class_name, class_names())
    missing: tuple[str, ...] = ("a place that nobody named",)
    if place is None:
        q = error_quantiles()[class_name]
    elif _counted(class_name, place) and not unseen(class_name, place):
        level, missing = _entry(class_name)["counted"], ()
        numbers = {key: level[key] for key in ("low", "high", "groups", "rows", "coverage")}
        q = ErrorQuantiles(class_name, KNOWN, _file()["ranges"]["nominal"], **numbers, date=_file()["ranges"]["date"])
    else:
        spread, near = spread_of(class_name, place)
        missing = unseen(class_name, place) or (() if near else (_TOGETHER,))
        known = not missing and spread <= _entry(class_name)["spread"]
        q = _quantiles(class_name, KNOWN if known else NEW, spread, near)
    if own is not None:
        q = replace(q, low=q.low * own.narrower, high=q.high * own.narrower, own=own.points)
    return Interval(predicted, interval_end(predicted, q.high), interval_end(predicted, q.low), q, missing)
