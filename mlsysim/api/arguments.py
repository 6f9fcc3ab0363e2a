"""Checks of arguments, their defaults, and formatting of summaries."""

import inspect
import math
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from numbers import Integral, Rational, Real
from textwrap import wrap
from types import NoneType
from typing import Any, ParamSpec, TypeVar, get_args

from mlsysim.declared import in_si
from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.results import ANSWER_LINES

WIDTH = 98
_POSITIVE = Domain.of(POSITIVE)
PUE = Domain.of("[1, inf)")
TOKENS = Domain.of("(0, 1e12]")  # of a prompt or an answer: more than any machine ever held, and no overflow
NONE_OR_MORE = Domain.of("[0, inf)")
BATCH = Domain.of("[1, 1e12]")
T = TypeVar("T")
P = ParamSpec("P")


def typed(function: Callable[P, T]) -> Callable[P, T]:
    """Check that arguments annotated as text, number or truth value are one; the error names the argument."""
    declared = inspect.signature(function).parameters
    kinds = {n: get_args(p.annotation) or (p.annotation,) for n, p in declared.items()}
    kinds = {n: of for n, of in kinds.items() if set(of) <= {*_NEEDED, NoneType}}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kinds.keys() & kwargs.keys():
            value, of = kwargs[name], kinds[name]
            if isinstance(value, str) and float in of:
                value = kwargs[name] = in_si(function, {name: value})[name]
            if not any(_is(value, kind) for kind in of):
                need = " or ".join(_NEEDED[kind] for kind in of if kind is not NoneType)
                raise InputError(f"{function.__name__}: {name} = {repr(value)[:40]} must be {need}")
        return function(*args, **kwargs)

    return checked


_NEEDED: dict[Any, str] = {str: "text", float: "a finite number", int: "a whole number", bool: "True or False"}


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of the kind. Whole numbers are numbers, True is none, and NumPy's numbers are as Python's."""
    if kind not in (float, int):
        return isinstance(value, kind)
    if value is True or value is False:
        return False
    if isinstance(value, Integral):
        return abs(int(value)) <= sys.float_info.max
    if not isinstance(value, Real) or isinstance(value, Rational):
        return False
    number = float(value)
    return math.isfinite(number) and (kind is float or number.is_integer())


class Defaults:
    """Collects defaulted arguments for the summary."""

    def __init__(self) -> None:
        self._options: list[str] = []
        self._parts: list[str] = []

    def resolve(self, name: str, given: T | None, otherwise: T, remark: str = "") -> T:
        """The given value, or the default, which is then listed as the option that says the same."""
        if given is not None:
            return given
        self.option(name, otherwise, remark)
        return otherwise

    def option(self, name: str, value: Any, remark: str = "") -> None:
        """List a value as the option that reproduces it."""
        text = f"{value:.12g}" if isinstance(value, float) else str(value)
        self._options.append(f"--{name.replace('_', '-')} {text}" + (f" ({remark})" if remark else ""))

    def add(self, text: str, when: bool = True) -> None:
        """List an assumption that no option says."""
        if when:
            self._parts.append(text)

    @property
    def lines(self) -> tuple[str, ...]:
        said = "; ".join(x for x in (" ".join(self._options), ", ".join(self._parts)) if x)
        return (f"assumed: {said}",) if said else ()


def check_number(owner: str, name: str, value: Any, unit: str = "1", domain: Domain = _POSITIVE) -> float:
    """Check that a number is finite and in its domain; the error names it."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise InputError(f"{owner}: {name} = {repr(value)[:40]} must be a finite number")
    check_argument(owner, name, value, unit, domain)
    return value


def pluralize(number: int, what: str) -> str:
    """A number with its noun.

    >>> pluralize(1, "replica"), pluralize(2, "replica"), pluralize(3, "x")
    ('1 replica', '2 replicas', '3 x')
    """
    return f"{number:,} {what}" + ("s" if number != 1 and what != "x" else "")


def wrap_lines(lines: Iterable[str]) -> list[str]:
    """Lines of at most 98 characters; what goes on is indented."""
    found: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        found += wrap(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=indent + "    ")
    return found


def fitted(lines: list[str], changes: Iterable[str], spare: Iterable[str] = ()) -> list[str]:
    """The lines of an answer, and as many changes below them as leave it short; the others stand in its ``sensitivities``.

    Spare lines go from an answer that is too long; JSON has what they say.

    >>> fitted(["a", "b", "c"], ["d"], spare=["b"]), len(fitted(["b", *"c" * 15], [], spare=["b"]))
    (['a', 'b', 'c', 'd'], 15)
    """
    found = list(lines)
    if len(found) > ANSWER_LINES:
        extra = wrap_lines(spare)
        found = [line for line in found if line not in extra]
    for change in changes:
        more = wrap_lines([change])
        if len(found) + len(more) > ANSWER_LINES:
            break
        found += more
    return found


def merge_targets(changes: Iterable[tuple[str, str]]) -> list[str]:
    """One line per change; both sides of a target share a line.

    >>> merge_targets([("ITL of 15 ms", "6 devices"), ("ITL of 60 ms", "3 devices"), ("40 requests/s", "6 devices")])
    ['  ITL of 15 ms: 6 devices; of 60 ms: 3 devices', '  40 requests/s: 6 devices']
    """
    found: list[str] = []
    last = ""
    for what, answer in changes:
        name, of, value = what.partition(" of ")
        if of and name == last:
            found[-1] += f"; of {value}: {answer}"
        else:
            found.append(f"  {what}: {answer}")
        last = name if of else ""
    return found
