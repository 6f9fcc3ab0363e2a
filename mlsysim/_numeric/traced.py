"""Numbers that know how they came about: a solver that is asked with them leaves its own derivation behind.

A :class:`Traced` number is a float to whoever calculates with it, and keeps the operation that made it and the numbers that
went in. Equations of the registry are one step; between them stands plain arithmetic.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any


class Made:
    """How a number came about: the operation, the numbers that went in, and for one that was given its name, unit and origin."""

    op: str  # "" for a number that was given, a sign or a function, or the label of an equation
    of: Mapping[str, Any]
    name: str
    unit: str
    origin: str
    hidden: bool  # zero as arithmetic hides all of a message, which says something
    apart: bool = False  # its line stands with those that it needs, after the others

    def called(self, name: str, apart: bool = False) -> Any:
        """The same number; its line has this name unless it has one already."""
        self.name, self.apart = self.name or name, self.apart or apart
        return self


def called(value: Any, name: str, apart: bool = False) -> Any:
    """The same number, with a name where it is traced."""
    return value.called(name, apart) if isinstance(value, Made) else value


class Traced(float, Made):
    """A number that is traced; a whole one counts as an integer does."""

    whole: bool

    def __index__(self) -> int:
        return operator.index(plain(self))


class TracedTuple(tuple[float, ...], Made):
    """Several numbers that one line of an explanation holds."""


def plain(x: Any) -> Any:
    """The bare number.

    >>> type(plain(given(2.0, "batch"))) is float, type(plain(given(2, "layers") * 3)) is int
    (True, True)
    """
    if type(x) is Traced:
        return int(x) if x.whole else float(x)
    return tuple(x) if type(x) is TracedTuple else x


def given(value: Any, name: str, unit: str = "1", origin: str = "") -> Any:
    """A number to start from. What is no plain number, or traced already, stays what it is."""
    return made(value, "", {}, name, unit, origin)


def made(value: Any, op: str, of: Mapping[str, Any], name: str = "", unit: str = "", origin: str = "") -> Any:
    """What an operation made of other numbers; what is no plain number stays what it is."""
    if type(value) is tuple:
        number: Any = TracedTuple(value)
    elif type(value) is float or type(value) is int:
        number = Traced(value)
        number.whole = type(value) is int
    else:
        return value
    number.hidden = value == 0 and (
        bool(of.get("communication")) or any(getattr(v, "hidden", False) for v in of.values())
    )
    number.op, number.of, number.name, number.unit, number.origin = op, of, name, unit, origin
    return number


# What changes nothing: the second operand of an operation, by its sign; of sums also what comes to zero.
_IDLE = {"+": 0, "-": 0, "*": 1, "/": 1, "**": 1}


def _idle(sign: str, value: Any) -> bool:
    if value != _IDLE.get(sign):
        return False
    return not isinstance(value, Made) or (sign in "+-" and not value.hidden)


def _operation(sign: str, function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def step(x: Any, y: Any) -> Any:
        if not isinstance(plain(x), (int, float)) or not isinstance(plain(y), (int, float)):
            return NotImplemented
        value = function(plain(x), plain(y))
        if _idle(sign, y) and type(value) is type(plain(x)):
            return x
        if sign in "+*" and _idle(sign, x) and type(value) is type(plain(y)):
            return y
        return made(value, sign, {"x": x, "y": y})

    return step, lambda y, x: step(x, y)


_SIGNS = {
    "+": ("add", operator.add),
    "-": ("sub", operator.sub),
    "*": ("mul", operator.mul),
    "/": ("truediv", operator.truediv),
    "//": ("floordiv", operator.floordiv),
    "%": ("mod", operator.mod),
    "**": ("pow", operator.pow),
}
for _sign, (_name, _function) in _SIGNS.items():
    _forward, _backward = _operation(_sign, _function)
    setattr(Traced, f"__{_name}__", _forward)
    setattr(Traced, f"__r{_name}__", _backward)
Traced.__neg__ = lambda x: made(-plain(x), "neg", {"x": x})  # type: ignore[method-assign]


def applied(function: Callable[..., Any], name: str, *xs: Any) -> Any:
    """The result of a function of plain numbers, of which some are traced, as one step.

    >>> applied(max, "max", given(9.0, "area"), 4.0).op
    'max'
    """
    return made(function(*map(plain, xs)), name, {f"x{i}": x for i, x in enumerate(xs)})
