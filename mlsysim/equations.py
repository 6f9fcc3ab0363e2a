"""The registry that ties each equation's function to its label in the book, its source and its units.

``@equation`` declares, once, what the function computes, in which units and on which domain. From that one
declaration come the checks on input, the units in ``explain()``, the equation index of the book, and the tests
(dimensions, formula, chapter, citation, notebook, exercise).
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from mlsysim._numeric import all_true, is_finite
from mlsysim.errors import InputError, unknown_name

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Domain:
    """An interval such as ``(0, 1]``; ``inf`` stands for a missing bound, and a value is always finite.

    ``[1, inf) whole`` holds whole numbers only, of any type.
    """

    low: float
    high: float
    low_open: bool
    high_open: bool
    text: str
    whole: bool = False

    @classmethod
    def of(cls, text: str) -> "Domain":
        match = re.fullmatch(r"([\[(])\s*(\S+)\s*,\s*(\S+)\s*([\])])( whole)?", text)
        if match is None:
            raise InputError(f"domain: {text!r} is not an interval; write for example '(0, 1]' or '[0, inf)'")
        return cls(float(match[2]), float(match[3]), match[1] == "(", match[4] == ")", text, bool(match[5]))

    def contains(self, x: Any) -> bool:
        """Whether every element lies inside; bounds of 0 also compare with quantities that carry a unit."""
        if self.whole and not all_true(x % 1 == 0):
            return False
        if self.low == float("-inf") and self.high == float("inf"):
            return True
        above = x > self.low if self.low_open else x >= self.low
        if self.high == float("inf"):
            return all_true(above)
        below = x < self.high if self.high_open else x <= self.high
        return all_true(above) and all_true(below)


NON_NEGATIVE, POSITIVE, FRACTION = "[0, inf)", "(0, inf)", "(0, 1]"
COUNT = "[1, inf) whole"  # things that are counted: stages, micro-batches, ranks


@dataclass(frozen=True)
class Equation:
    """One registered equation: where it stands in the book, who published it, and what its numbers mean."""

    label: str
    function: Callable[..., Any]
    formula: str
    units: Mapping[str, str]
    result: str
    domains: Mapping[str, Domain]
    source: str
    where: str

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def qualified_name(self) -> str:
        return f"{self.function.__module__}.{self.function.__name__}"

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


_registry: dict[str, Equation] = {}
REGISTRY: Mapping[str, Equation] = MappingProxyType(_registry)
_recorders: list[set[str]] = []


def lookup(label: str) -> Equation:
    """The equation that a label names.

    >>> import mlsysim.roofline
    >>> lookup("eq-ridge-point").name
    'ridge_point'
    """
    if label not in _registry:
        raise unknown_name("equation", label, _registry)
    return _registry[label]


@contextmanager
def recording() -> Iterator[set[str]]:
    """Collect the labels of the equations that are really evaluated inside the block.

    >>> from mlsysim import roofline
    >>> with recording() as called:
    ...     _ = roofline.ridge_point(300e12, 2e12)
    >>> called
    {'eq-ridge-point'}
    """
    called: set[str] = set()
    _recorders.append(called)
    try:
        yield called
    finally:
        _recorders[:] = [r for r in _recorders if r is not called]


def check_argument(owner: str, name: str, value: Any, unit: str, domain: Domain) -> None:
    """Raise an InputError that names argument, value, range and fix unless value is a number inside domain."""
    if isinstance(value, (bool, str, bytes, list, tuple, dict, set, complex)) or value is None:
        if isinstance(value, str):
            fix = f"parse it first: mlsysim.units.parse({value[:40]!r}, '{unit}')"
        else:
            fix = "wrap it: numpy.array(...)" if isinstance(value, (list, tuple)) else f"give a number in {unit}"
        raise InputError(f"{owner}: {name} = {str(value)[:40]!r} is not a number; {fix}")
    try:
        good = is_finite(value) and domain.contains(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{owner}: {name} = {str(value)[:40]!r} cannot be compared with a number in {unit}") from error
    if not good:
        kind = "whole number" if domain.whole else "finite value"
        raise InputError(
            f"{owner}: {name} = {str(value)[:80]} is outside {domain.text}; give a {kind} in {unit} inside it"
        )


def check_whole(owner: str, name: str, value: Any) -> None:
    """Raise an InputError that names argument and value unless it is a whole number, or an array of them.

    For what is counted: kernels, tiles, experts. A mean of counts may be fractional, and has no business here.
    """
    if not all_true(value % 1 == 0):
        raise InputError(f"{owner}: {name} = {str(value)[:80]} is not whole; give a whole number, as it is counted")


def equation(
    label: str,
    *,
    formula: str,
    units: Mapping[str, str],
    source: str,
    where: str,
    domain: Mapping[str, str] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a function as the one implementation of an equation of the book.

    Parameters
    ----------
    label : str
        The chapter's label, ``eq-…``.
    formula : str
        The right-hand side as a Python expression over the argument names, for ``explain()``. A test evaluates it
        against the function, so it cannot drift.
    units : mapping
        Unit of every argument, and of the value under ``"return"``.
    source, where : str
        Key in ``references.bib``, and the place in that source.
    domain : mapping, optional
        Interval per argument; ``[0, inf)`` unless given.
    """

    def register(function: Callable[P, R]) -> Callable[P, R]:
        names = list(inspect.signature(function).parameters)
        if label in _registry or not label.startswith("eq-"):
            raise InputError(f"label: {label!r} is taken or does not start with 'eq-'; choose another")
        if {*names, "return"} != set(units):
            raise InputError(
                f"units: {function.__name__} needs a unit for exactly {[*names, 'return']}, got {list(units)}"
            )
        domains = {name: Domain.of((domain or {}).get(name, NON_NEGATIVE)) for name in names}
        inner = {name: (d.low, d.high, d.whole) for name, d in domains.items()}
        owner = function.__name__

        def check(name: str, value: Any) -> None:
            if type(value) is float:  # the common case, decided by one comparison; its edges go the long way
                low, high, counted = inner[name]
                if low < value < high and not (counted and value % 1):
                    return
            check_argument(owner, name, value, units[name], domains[name])

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in zip(names, args, strict=False):
                check(name, value)
            for name, value in kwargs.items():
                if name in inner:  # Python itself reports an unexpected keyword
                    check(name, value)
            for called in _recorders:
                called.add(label)
            return function(*args, **kwargs)

        _registry[label] = Equation(
            label=label,
            function=checked,
            formula=formula,
            units=MappingProxyType({n: units[n] for n in names}),
            result=units["return"],
            domains=MappingProxyType(domains),
            source=source,
            where=where,
        )
        return checked

    return register
