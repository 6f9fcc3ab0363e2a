"""The registry that ties each equation's function to its label in the book, its source and its units.

``@equation`` declares, once, what the function computes and on which domain; its docstring says in which units, and who
published it. From these come the checks on input, the units in ``explain()``, the equation index of the book, and the tests
(dimensions, formula, chapter, citation, notebook, exercise).
"""

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from importlib import import_module
from pathlib import Path
from sys import float_info
from textwrap import dedent
from types import CodeType, MappingProxyType
from typing import Any, ParamSpec, TypeVar
from weakref import ref

from mlsysim._numeric import Num, all_true, is_finite, widened
from mlsysim._numeric.traced import Made, made, plain
from mlsysim.errors import InputError, unknown_name
from mlsysim.units import format as quantity

__all__ = [
    "COUNT",
    "NON_NEGATIVE",
    "POSITIVE",
    "REGISTRY",
    "Domain",
    "Equation",
    "P",
    "R",
    "Relation",
    "cache_by_identity",
    "check_argument",
    "equation",
    "is_tracing",
    "label_of",
    "lookup",
    "recording",
    "registered",
    "shorten",
    "signature_of",
    "unchecked",
]


def __dir__() -> list[str]:
    return __all__


# Arguments of a function that a decorator hands on, for type checkers.
P = ParamSpec("P")
# Result of a function that a decorator hands on, for type checkers.
R = TypeVar("R")
T = TypeVar("T")


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
    least: float = field(init=False, repr=False, compare=False)  # the smallest and the largest float inside
    most: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        least = math.nextafter(self.low, math.inf) if self.low_open else self.low
        most = math.nextafter(self.high, -math.inf) if self.high_open else self.high
        object.__setattr__(self, "least", max(least, -float_info.max))
        object.__setattr__(self, "most", min(most, float_info.max))

    @classmethod
    @cache
    def of(cls, text: str) -> "Domain":
        match = re.fullmatch(r"([\[(])\s*(\S+)\s*,\s*(\S+)\s*([\])])( whole)?", text)
        if match is None:
            raise InputError(f"domain: {text!r} is not an interval; write for example '(0, 1]' or '[0, inf)'")
        return cls(float(match[2]), float(match[3]), match[1] == "(", match[4] == ")", text, bool(match[5]))

    def contains(self, x: Any) -> bool:
        """Whether every element is finite and lies inside; bounds of 0 also compare with quantities that carry a unit."""
        if isinstance(x, (int, float)):
            return self.least <= x <= self.most and not (self.whole and x % 1)
        if hasattr(x, "magnitude"):  # a quantity: only a bound of 0 means the same in every unit
            return is_finite(x) and self._bounds(x) and self._counts(x)
        if x.size == 0:
            return True
        return bool(self.least <= x.min() and x.max() <= self.most) and self._counts(x)  # NaN passes neither

    def _counts(self, x: Any) -> bool:
        return not self.whole or all_true(x % 1 == 0)

    def _bounds(self, x: Any) -> bool:
        above = self.low == float("-inf") or (x > self.low if self.low_open else x >= self.low)
        below = self.high == float("inf") or (x < self.high if self.high_open else x <= self.high)
        return all_true(above) and all_true(below)


_ROUNDING = 1e-9  # relative, of sums that were rounded before they are compared


@dataclass(frozen=True)
class Relation:
    """A constraint between arguments of an equation, such as ``running < budget``, declared beside its formula."""

    text: str
    left: CodeType
    sign: str
    right: CodeType

    @classmethod
    def of(cls, text: str) -> "Relation":
        match = re.fullmatch(r"(.+?) (<=|<|!=) (.+)", text)
        if match is None:
            raise InputError(f"relation: {text!r} compares nothing; write for example 'cached_len <= input_len'")
        return cls(text, compile(match[1], text, "eval"), match[2], compile(match[3], text, "eval"))

    def holds(self, given: Mapping[str, Any]) -> bool:
        """Whether the constraint holds in every element."""
        left, right = (eval(side, {"__builtins__": {}}, dict(given)) for side in (self.left, self.right))
        if self.sign == "<=":
            return all_true(left <= right + _ROUNDING * abs(right))
        return all_true(left < right if self.sign == "<" else left != right)

    def check(self, owner: str, given: Mapping[str, Any], units: Mapping[str, str]) -> None:
        """Raise an InputError that names the values if the constraint is violated."""
        if not self.holds(given):
            used = {*self.left.co_names, *self.right.co_names}
            values = ", ".join(
                f"{name} = {_describe_value(value, units[name])}" for name, value in given.items() if name in used
            )
            raise InputError(f"{owner}: {values}, but it needs {self.text}; change one of them")


# Intervals that most arguments have.
NON_NEGATIVE, POSITIVE, FRACTION = "[0, inf)", "(0, inf)", "(0, 1]"
AT_LEAST_ONE = "[1, inf)"  # also fractions: means of counts, and sizes
COUNT = "[1, inf) whole"  # things that are counted: stages, micro-batches, ranks


@dataclass(frozen=True)
class Equation:
    """A registered equation: its place in the book, its source, and the meaning and unit of its numbers."""

    label: str
    function: Callable[..., Any]
    formula: str
    domains: Mapping[str, Domain]
    relations: tuple[str, ...]  # what arguments owe each other, as in "cached_len <= input_len"
    may_be_infinite: bool  # inf is an answer: never

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def qualified_name(self) -> str:
        return f"{self.function.__module__}.{self.function.__name__}"

    @property
    def summary(self) -> str:
        return self.docstring.partition("\n")[0]

    @property
    def docstring(self) -> str:
        """The specification; from the source where Python was told to forget docstrings (``-OO``)."""
        text = inspect.getdoc(self.function)
        if text is None:
            (node,) = ast.parse(dedent(inspect.getsource(self.function))).body
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
        return text or ""

    @cached_property
    def units(self) -> Mapping[str, str]:
        """Unit of every argument: ``name : float or array, unit`` in the docstring."""
        found: dict[str, str] = {}
        for names, unit in re.findall(r"^(\w+(?:, \w+)*) : float or array, (\S+)$", self.docstring, re.M):
            found |= dict.fromkeys(names.split(", "), unit)
        if set(found) != set(self.domains):
            raise InputError(
                f"units: the docstring of {self.name} needs a unit for exactly {[*self.domains]}, it has {[*found]}"
            )
        return MappingProxyType({name: found[name] for name in self.domains})

    @cached_property
    def result(self) -> str:
        """Unit of the value: below ``Returns`` in the docstring."""
        return self._documented(r"^Returns\n-+\nfloat or array, (\S+)$", "'Returns' with 'float or array, unit'")

    @property
    def source(self) -> str:
        """Key in ``references.bib``: what ``Source: key, where; notes.`` begins with."""
        return self._cited.partition(", ")[0]

    @property
    def where(self) -> str:
        """The place in that source."""
        return self._cited.partition(", ")[2]

    @property
    def _cited(self) -> str:
        return " ".join(self._documented(r"^Source: ([^;]+?)\.?(?:;|\n\n|\Z)", "'Source: key, where.'").split())

    def _documented(self, pattern: str, needed: str) -> str:
        found = re.search(pattern, self.docstring, re.M)
        if found is None:
            raise InputError(f"{self.name}: its docstring has no {needed}; add it")
        return found[1]


_registry: dict[str, Equation] = {}
# Every equation of the book by its label, as far as its module is loaded.
REGISTRY: Mapping[str, Equation] = MappingProxyType(_registry)


@cache
def registered() -> Mapping[str, Equation]:
    """Every equation of the book by its label: a module registers its own when it is imported, so all that have some are."""
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if "@equation(" in path.read_text(encoding="utf-8"):
            import_module(".".join((__package__, *path.relative_to(folder).with_suffix("").parts)))
    return REGISTRY


# Who is listening. Of a context, not of the process: what another thread computes meanwhile is not written down here.
_tracers: ContextVar[tuple[set[str], ...]] = ContextVar("recorders", default=())


def lookup(label: str) -> Equation:
    """The equation that a label names.

    >>> lookup("eq-ridge-point").name
    'ridge_point'
    """
    if label not in _registry and label not in registered():
        raise unknown_name("equation", label, _registry)
    return _registry[label]


def label_of(function: Callable[..., Any]) -> str:
    """The label under which an equation is registered.

    >>> from mlsysim import roofline
    >>> label_of(roofline.ridge_point)
    'eq-ridge-point'
    """
    return next(label for label, one in _registry.items() if one.function is function)


@contextmanager
def recording() -> Iterator[set[str]]:
    """Trace a block: collect the labels of the equations that this thread evaluates in it.

    >>> from mlsysim import roofline
    >>> with recording() as called:
    ...     _ = roofline.ridge_point(300e12, 2e12)
    >>> called
    {'eq-ridge-point'}
    """
    called: set[str] = set()
    token = _tracers.set((*_tracers.get(), called))
    try:
        yield called
    finally:
        _tracers.reset(token)


def is_tracing() -> bool:
    """True while equations are traced; caches must then be bypassed."""
    return bool(_tracers.get())


def cache_by_identity(function: Callable[[T], R]) -> Callable[[T], R]:
    """Cache the result of a function of one object, such as a model, for as long as the object lives.

    The key is the object's identity, since objects that hold mappings have no hash. While equations are traced the cache is
    bypassed, so that the trace is complete.
    """
    known: dict[int, tuple[ref[T], R]] = {}

    @wraps(function)
    def once(thing: T) -> R:
        held = known.get(id(thing))
        if held is not None and held[0]() is thing and not _tracers.get():
            return held[1]
        made = function(thing)
        key = id(thing)
        known[key] = ref(thing, lambda _: known.pop(key, None)), made
        return made

    return once


def check_argument(owner: str, name: str, value: Any, unit: str, domain: Domain) -> Num:
    """The value as a number to calculate with, or an InputError that names argument, value, range and fix.

    Integers of any width and short floats in arrays become doubles, so that no product wraps around or loses digits; a
    ``Decimal`` or a ``Fraction`` becomes the nearest float. Python's integers and floats stay what they are.
    """
    if isinstance(value, (bool, str, bytes, list, tuple, dict, set, complex)) or value is None:
        if isinstance(value, str):
            fix = f"parse it first: mlsysim.units.parse({value[:40]!r}, '{unit}')"
        else:
            fix = "wrap it: numpy.array(...)" if isinstance(value, (list, tuple)) else f"give a number in {unit}"
        raise InputError(f"{owner}: {name} = {shorten(value)!r} is not a number; {fix}")
    try:
        number = widened(value)
        good = domain.contains(number)
    except OverflowError:  # a Fraction beyond every float
        number, good = value, False
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"{owner}: {name} = {shorten(value)!r} is no number, and no array of numbers, in {unit}; give floats or integers"
        ) from error
    if not good:
        kind = "whole number" if domain.whole else "finite value"
        raise InputError(
            f"{owner}: {name} = {shorten(value, 80)} is outside {domain.text}; give a {kind} in {unit} inside it"
        )
    return number


def shorten(value: Any, most: int = 40) -> str:
    """Shorten a value for an error message: one line of at most ``most`` characters."""
    if isinstance(value, int) and abs(value) > 1e30:  # Python refuses to write integers of thousands of digits
        return f"an integer of {value.bit_length()} bits"
    text = " ".join(str(value).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _describe_value(value: Any, unit: str) -> str:
    return quantity(value, unit) if isinstance(value, (int, float)) and unit not in ("", "1") else shorten(value, 24)


_ANY = Domain.of("(-inf, inf)")


def _is_finite_number(result: Any) -> bool:
    """Whether every element of a result is a finite real number."""
    return not isinstance(result, complex) and _ANY.contains(result)


def _is_number(result: Any) -> bool:
    """Whether every element of a result is a real number; infinity is allowed and means *never*."""
    return not isinstance(result, complex) and all_true(result == result)


def _refusal(owner: str, given: Mapping[str, Any]) -> InputError:
    """The error for arguments that are each in range but have no finite result together."""
    values = ", ".join(f"{name} = {shorten(value, 24)}" for name, value in given.items())
    return InputError(
        f"{owner}: {values} have no finite result (they divide by zero, or it is larger than any float); change one of them"
    )


def _refused(docstring: str, domains: Mapping[str, Domain], relations: Sequence[str]) -> str:
    """The ``Raises`` section of a docstring, from the declared ranges and relations."""
    inside: dict[str, list[str]] = {}
    for name, domain in domains.items():
        inside.setdefault(domain.text, []).append(name)
    ranges = "; ".join(f"{', '.join(names)} in {text}" for text, names in inside.items())
    owed = "".join(f"; what does not keep {text}" for text in relations)
    lines = ("Raises", "------", "InputError", f"    A value that is not finite or not in its range: {ranges}{owed}.")
    margin = docstring.partition("Parameters\n")[0].rpartition("\n")[2]
    return "\n\n" + "".join(f"{margin}{line}\n" for line in lines)


def unchecked(function: Callable[P, R]) -> Callable[P, R]:
    """The formula of an equation without checks or tracing: for the later steps of a recurrence.

    >>> import mlsysim.roofline
    >>> unchecked(mlsysim.roofline.ridge_point)(300e12, 2e12)
    150.0
    """
    found: Callable[P, R] = getattr(function, "__wrapped__", function)
    return found


@cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of an equation, found once."""
    return inspect.signature(function)


def equation(
    label: str,
    *,
    formula: str,
    domain: Mapping[str, str] | None = None,
    relations: Sequence[str] = (),
    may_be_infinite: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a function as the one implementation of an equation of the book.

    Units, source and place in the source stand once, in the docstring of the function, and are read from there; what is
    refused stands here, and is added to the docstring unless it has ``Raises`` of its own.

    Parameters
    ----------
    label : str
        The chapter's label, ``eq-…``.
    formula : str
        The right-hand side as a Python expression over the argument names, for ``explain()``. A test evaluates it
        against the function, so it cannot drift.
    domain : mapping, optional
        Interval per argument; ``[0, inf)`` unless given.
    relations : sequence of str, optional
        What arguments owe each other: two expressions over their names with ``<=`` (which forgives rounding), ``<`` or
        ``!=`` between them.
    may_be_infinite : bool
        Whether ``inf`` is an answer, in the sense of *never*. NaN never is one.
    """

    def register(function: Callable[P, R]) -> Callable[P, R]:
        code = function.__code__  # inspect.signature would take a third of the time to load this package
        names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        if label in _registry or not label.startswith("eq-"):
            raise InputError(f"label: {label!r} is taken or does not start with 'eq-'; choose another")
        domains = {name: Domain.of((domain or {}).get(name, NON_NEGATIVE)) for name in names}
        is_answer = _is_number if may_be_infinite else _is_finite_number
        checked = _checked(function, label, domains, [Relation.of(text) for text in relations], is_answer)
        if function.__doc__ and "Raises\n" not in function.__doc__:
            checked.__doc__ = function.__doc__.rstrip() + _refused(function.__doc__, domains, relations)
        _registry[label] = Equation(
            label=label,
            function=checked,
            formula=formula,
            domains=MappingProxyType(domains),
            relations=tuple(relations),
            may_be_infinite=may_be_infinite,
        )
        return checked

    return register


def _given(function: Callable[..., Any], names: KeysView[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The arguments of a call by name, with defaults; where every one is given Python's own way takes ten times as long."""
    if len(args) + len(kwargs) == len(names):
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if given.keys() == names:
            return given
    found = signature_of(function).bind(*args, **kwargs)
    found.apply_defaults()
    return found.arguments


def _checked(
    function: Callable[P, R],
    label: str,
    domains: Mapping[str, Domain],
    owed: Sequence[Relation],
    is_answer: Callable[[Any], bool],
) -> Callable[P, R]:
    """The function behind the checks of its arguments and its result."""
    names, owner, largest = domains.keys(), function.__name__, float_info.max
    bounds = [(d.least, d.most, d.whole) for d in domains.values()]
    inner = dict(zip(names, bounds, strict=True))

    def checked_one(name: str, value: Any) -> Any:
        return check_argument(owner, name, value, _registry[label].units[name], domains[name])

    def followed(given: Mapping[str, Any]) -> Any:
        """The result as a step of its own, where one of the numbers is traced."""
        return made(checked(**{name: plain(value) for name, value in given.items()}), label, given)  # type: ignore[call-arg]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        # The common case, plain numbers, is decided by one comparison each; everything else goes the long way.
        for (least, most, counted), value in zip(bounds, args, strict=False):
            plain_type = type(value) is float or type(value) is int
            if not plain_type or not least <= value <= most or (counted and value % 1):  # type: ignore[operator]
                if isinstance(value, Made):
                    return followed(_given(function, names, args, kwargs))  # type: ignore[no-any-return]
                args = (*map(checked_one, names, args), *args[len(names) :])  # type: ignore[assignment]
                break
        for name, value in kwargs.items():
            if name in inner:  # Python itself reports an unexpected keyword
                least, most, counted = inner[name]
                plain_type = type(value) is float or type(value) is int
                if not plain_type or not least <= value <= most or (counted and value % 1):  # type: ignore[operator]
                    if isinstance(value, Made):
                        return followed(_given(function, names, args, kwargs))  # type: ignore[no-any-return]
                    kwargs[name] = checked_one(name, value)
        try:
            if owed:
                given = _given(function, names, args, kwargs)
                for relation in owed:
                    relation.check(owner, given, _registry[label].units)
            for called in _tracers.get():
                called.add(label)
            result: Any = function(*args, **kwargs)
        except InputError:
            raise
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            if isinstance(error, ValueError) and "math domain" not in str(error):
                raise
            raise _refusal(owner, dict(zip(names, args, strict=False)) | kwargs) from error
        if (type(result) is not float or not -largest <= result <= largest) and not is_answer(result):
            raise _refusal(owner, dict(zip(names, args, strict=False)) | kwargs)
        return result  # type: ignore[no-any-return]

    return checked
