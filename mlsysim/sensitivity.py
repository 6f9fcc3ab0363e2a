"""Sensitivity of an answer to its inputs: elasticities, and swings over a range of each input.

The two equations take a float or an array (broadcasting) and return the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim._numeric import Num, log, maximum, sqrt
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError
from mlsysim.results import Report, Result, format_rows
from mlsysim.tables import Table, table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing
__all__ = [
    "Swing",
    "Tornado",
    "combined_spread",
    "elasticities",
    "elasticity",
    "tornado",
]


def __dir__() -> list[str]:
    return __all__


@equation(
    "eq-elasticity",
    formula="log(above / below) / (2 * log(1 + step))",
    domain={"above": POSITIVE, "below": POSITIVE, "step": "(0, 1)"},
)
def elasticity(above: Num, below: Num, step: Num = 0.01) -> Num:
    """Relative change of an answer per relative change of an input.

    Formula: e = ln(f+ / f-) / (2 ln(1 + d)), with the answers at x (1 + d) and at x / (1 + d).

    Parameters
    ----------
    above, below : float or array, 1
        The answer with the input times and over 1 + step, in any one unit.
    step : float or array, 1
        Relative size of the move.

    Returns
    -------
    float or array, 1
        1 is proportional, -1 inverse, 0 no effect: the exponent, where the answer is a power of the input.

    Assumptions: one input moves and the others stand still. At a kink, as of a maximum, the two sides differ and their
    mean is returned.

    >>> round(elasticity(above=1.01**2, below=1.01**-2), 12)
    2.0

    Source: jcgm2008gum, sec. 5.1.6; the exponents of a product of powers.
    """
    return log(above / below) / (2 * log(1 + step))


@equation(
    "eq-combined-spread",
    formula="sqrt(max(0, first**2 + second**2 + 2 * correlation * first * second))",
    domain={"first": "[-100, 100]", "second": "[-100, 100]", "correlation": "[-1, 1]"},
)
def combined_spread(first: Num, second: Num, correlation: Num = 0.0) -> Num:
    """Relative spread of an answer from two inputs that may move together.

    Formula: s = sqrt(a^2 + b^2 + 2 r a b), with a and b each an elasticity times the relative spread of its input.

    Parameters
    ----------
    first, second : float or array, 1
        What each input does to the answer alone, with its sign.
    correlation : float or array, 1
        Of the two inputs: 0 when they are independent.

    Returns
    -------
    float or array, 1

    Assumptions: spreads so small that the answer is a product of powers within them.

    >>> combined_spread(0.3, 0.4), combined_spread(0.3, 0.4, 1.0), round(combined_spread(0.3, -0.3, 1.0), 9)
    (0.5, 0.7, 0.0)

    Source: jcgm2008gum, sec. 5.2.2; law of propagation of uncertainty, correlated inputs.
    """
    return sqrt(maximum(0.0, first**2 + second**2 + 2 * correlation * first * second))


def elasticities(function: Callable[..., Any], arguments: Mapping[str, float], step: float = 0.01) -> dict[str, float]:
    """Relative change of the answer per relative change of one input, the others fixed.

    Formula: eq-elasticity, from the two neighbours at x (1 + step) and x / (1 + step).

    Parameters
    ----------
    function : callable
        Takes the arguments by name and returns a positive number.
    arguments : mapping
        Where to measure; every value positive. Only these are moved.
    step : float, 1
        Relative size of the move.

    Returns
    -------
    dict
        Name to elasticity: 1 is proportional, -1 inverse, 0 no effect. At a kink, as of a maximum, the two sides differ
        and their mean is returned.

    Raises
    ------
    InputError
        An argument or an answer that is not positive.

    >>> elasticities(lambda a, b: a**2 / b, {"a": 3.0, "b": 5.0})
    {'a': 2.0, 'b': -1.0}
    """
    if not 0 < step < 1:
        raise InputError(f"elasticities: step = {step!r} must lie in (0, 1); 0.01 is one per cent")
    found = {}
    for name, value in arguments.items():
        if not value > 0:
            raise InputError(f"elasticities: {name} = {value!r} must be greater than zero; a share of it is moved")
        pair = [float(function(**{**arguments, name: value * factor})) for factor in (1 + step, 1 / (1 + step))]
        if min(pair) <= 0:
            raise InputError(
                f"elasticities: the answer {min(pair):g} is not greater than zero, so it has no elasticity"
            )
        found[name] = round(float(elasticity(pair[0], pair[1], step)), 12)
    return found


_MOST_SWINGS = 12  # that are shown


@dataclass(frozen=True)
class Swing:
    """The answer at both ends of one input's range, the others at their middle."""

    name: str
    low: float
    high: float
    at_low: float
    at_high: float

    @property
    def width(self) -> float:
        return abs(self.at_high - self.at_low)


@dataclass(frozen=True)
class Tornado(Result):
    """Swings of an answer, widest first."""

    middle: float
    swings: tuple[Swing, ...]

    def summary(self) -> list[str]:
        rows = [
            (s.name, f"{s.at_low:.4g} to {s.at_high:.4g} with {s.low:.4g} to {s.high:.4g}")
            for s in self.swings[:_MOST_SWINGS]
        ]
        left = len(self.swings) - len(rows)
        widest = f"; widest: {self.swings[0].name}" if self.swings else ""
        return format_rows(
            f"{self.middle:.4g} in the middle{widest}", *rows, ("others", f"{left} narrower ones" if left else "")
        )

    def chart(self) -> "Drawing | None":
        """Swings as bars from the middle."""
        from mlsysim.drawing import TornadoChart

        shown = self.swings[:_MOST_SWINGS]
        if not shown:
            return None
        return TornadoChart(
            [s.name for s in shown], [s.at_low for s in shown], [s.at_high for s in shown], self.middle, "answer"
        )

    def explain(self) -> Report:
        """Every swing; ``table(unit)`` gives the answers in their unit."""
        return Report(self.summary()[0], (self.table("1"),), ["each input alone, the others at their middle"])

    def to_dict(self) -> dict[str, Any]:
        """The middle and every swing, for JSON."""
        return {"middle": self.middle, "swings": [vars(s) | {"width": s.width} for s in self.swings]}

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per input."""
        return list(self.to_dict()["swings"])

    def table(self, unit: str) -> Table:
        """The swings, with the answer in its unit."""
        rows = [
            (s.name, f"{s.low:.4g}", f"{s.high:.4g}", units.format(s.at_low, unit), units.format(s.at_high, unit))
            for s in self.swings
        ]
        return table(("Input", "Low", "High", "Answer at low", "Answer at high"), rows)


def tornado(
    function: Callable[..., Any], arguments: Mapping[str, float], ranges: Mapping[str, tuple[float, float]]
) -> Tornado:
    """How far each input alone can move the answer within its range.

    Parameters
    ----------
    function : callable
        Takes the arguments by name and returns a number.
    arguments : mapping
        The middle: every input at its best guess.
    ranges : mapping
        Name to its lowest and highest plausible value.

    Returns
    -------
    Tornado
        Swings, widest first.

    Raises
    ------
    InputError
        A range for an input that is not among the arguments, or one that does not hold it.

    Assumptions: one input at a time; two that move together can move the answer further.

    >>> t = tornado(lambda a, b: a + b, {"a": 1.0, "b": 1.0}, {"a": (0.0, 2.0), "b": (0.5, 4.0)})
    >>> [s.name for s in t.swings]
    ['b', 'a']
    """
    swings = []
    for name, (low, high) in ranges.items():
        if name not in arguments:
            raise InputError(f"tornado: {name!r} has a range but no value; the arguments are {', '.join(arguments)}")
        if not low <= arguments[name] <= high:
            raise InputError(f"tornado: {name} = {arguments[name]:g} lies outside its own range [{low:g}, {high:g}]")
        ends = [float(function(**{**arguments, name: value})) for value in (low, high)]
        swings.append(Swing(name, low, high, *ends))
    swings.sort(key=lambda s: s.width, reverse=True)
    return Tornado(float(function(**arguments)), tuple(swings))
