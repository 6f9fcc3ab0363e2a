"""How the doors speak: counts, what was assumed, lines that fit a page."""

import math
from collections.abc import Iterable
from textwrap import wrap
from typing import Any, TypeVar

from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError

WIDTH = 98
_POSITIVE = Domain.of(POSITIVE)
T = TypeVar("T")


class Assumed:
    """What nobody said and an answer took, for its last lines."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def take(self, name: str, given: T | None, otherwise: T) -> T:
        """The value given, or the other one, which is then noted."""
        if given is not None:
            return given
        self._parts.append(f"{name} = {otherwise:,}" if isinstance(otherwise, int) else f"{name} = {otherwise}")
        return otherwise

    def add(self, text: str, when: bool = True) -> None:
        """Note something else."""
        if when:
            self._parts.append(text)

    @property
    def lines(self) -> tuple[str, ...]:
        return (f"assumed: {', '.join(self._parts)}",) if self._parts else ()


def count(owner: str, name: str, value: Any, unit: str = "1") -> float:
    """A positive finite number, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(f"{owner}: {name} = {repr(value)[:40]} must be a number above zero")
    check_argument(owner, name, value, unit, _POSITIVE)
    return value


def counted(number: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "replica"), counted(2, "replica"), counted(3, "x")
    ('1 replica', '2 replicas', '3 x')
    """
    return f"{number:,} {what}" + ("s" if number != 1 and what != "x" else "")


def wrapped(lines: Iterable[str]) -> list[str]:
    """Lines of at most 98 characters; what goes on is indented."""
    found: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        found += wrap(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=indent + "    ")
    return found


def paired(changes: Iterable[tuple[str, str]]) -> list[str]:
    """A line per thing that changes: both sides of a target stand in one.

    >>> paired([("ITL of 15 ms", "6 devices"), ("ITL of 60 ms", "3 devices"), ("40 requests/s", "6 devices")])
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
