"""Float-or-array arithmetic: builtins for plain numbers, NumPy only when the caller brought an array; without it our own vectors.

The same equation then serves a pocket calculation without NumPy and a sweep over a million configurations.
"""

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, reduce, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from mlsysim._numeric.traced import Made, applied

P = ParamSpec("P")
R = TypeVar("R")
_PLAIN = (float, int, str, bool, type(None))

# A float (or int), or an array that broadcasts. NumPy is optional, so the type checker sees Any.
Num: TypeAlias = Any


def is_array(x: Any) -> bool:
    """Whether x has axes to broadcast over (NumPy scalars and 0-d arrays count as plain numbers)."""
    return getattr(x, "ndim", 0) > 0


@cache
def arrays() -> Any:
    """NumPy, or where it is not installed, as in a page, the few of its names that we need, on lists."""
    try:
        import numpy
    except ImportError:
        from mlsysim._numeric import vectors

        return vectors
    return numpy


def grouped(columns: dict[str, Any]) -> dict[str, Any]:
    """The same columns; where our own vectors stand in for NumPy, what is asked of them is asked once for elements that are alike."""
    own = getattr(arrays(), "grouped", None)
    return columns if own is None else own(columns)


def bare(x: Any) -> Any:
    """An element of an array as Python's own number or text.

    >>> bare(2.5)
    2.5
    """
    return x.item() if hasattr(x, "item") else x


def widened(x: Num) -> Num:
    """The same number, or array of numbers, in a type that calculations neither wrap around nor shorten.

    Arrays of integers and of short floats become doubles (exact up to 2^53), and so do NumPy's scalars, ``Decimal`` and
    ``Fraction``. Python's own integers and floats stay; so does a quantity with a unit, around a widened magnitude.

    Raises
    ------
    TypeError, ValueError, OverflowError
        Truth values, complex numbers, dates, objects: whatever is no real number.
    """
    if type(x) is float or type(x) is int:
        return x
    if hasattr(x, "magnitude"):
        inner = widened(x.magnitude)
        return x if inner is x.magnitude else type(x)(inner, x.units)
    if hasattr(x, "dtype"):
        if getattr(x.dtype, "kind", "") not in "iuf":
            raise TypeError(f"{x.dtype} is no type of real numbers")
        if not is_array(x):
            return float(x)
        return x if x.dtype == "float64" else x.astype("float64")
    if isinstance(x, (bool, complex)):
        raise TypeError("no real number")
    return x + 0 if isinstance(x, int) else float(x)  # of a subclass such as IntEnum, the bare integer


def widening(function: Callable[P, R]) -> Callable[P, R]:
    """A solver whose arguments are :func:`widened` where they are arrays or foreign numbers, before it multiplies any.

    >>> from fractions import Fraction
    >>> widening(lambda tokens: tokens * tokens)(Fraction(1, 2))
    0.25
    """

    def wide(x: Any) -> Any:
        if type(x) in _PLAIN:
            return x
        if hasattr(x, "dtype") or type(x).__module__ in ("decimal", "fractions"):  # not imported for this question
            with suppress(
                TypeError, ValueError, ArithmeticError
            ):  # the equation that is asked with it names the argument
                return widened(x)
        return x

    @wraps(function)
    def with_numbers(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*map(wide, args), **{name: wide(value) for name, value in kwargs.items()})

    return with_numbers


def maximum(*xs: Num) -> Num:
    """Largest of the arguments, elementwise when one is an array.

    >>> maximum(1.0, 3.0, 2.0)
    3.0
    """
    for x in xs:  # plain numbers are by far the most: a sweep of a slider asks this a hundred thousand times
        if type(x) is not float and type(x) is not int:
            if is_array(x):
                return reduce(arrays().maximum, xs)
            if isinstance(x, Made):
                return applied(max, "max", *xs)
    return max(xs)


def minimum(*xs: Num) -> Num:
    """Smallest of the arguments, elementwise when one is an array.

    >>> minimum(1.0, 3.0)
    1.0
    """
    for x in xs:
        if type(x) is not float and type(x) is not int:
            if is_array(x):
                return reduce(arrays().minimum, xs)
            if isinstance(x, Made):
                return applied(min, "min", *xs)
    return min(xs)


def _doublings(x: float) -> int:
    return math.ceil(math.log2(x))


def _of_one(function: Callable[[float], float], x: Num) -> Num:
    return applied(function, function.__name__.strip("_"), x) if isinstance(x, Made) else function(x)


def doublings(x: Num) -> Num:
    """How often one has to be doubled to reach x: the binary logarithm rounded up, elementwise for an array.

    >>> [doublings(n) for n in (1, 2, 5, 8, 9)]
    [0, 1, 3, 3, 4]
    """
    return arrays().ceil(arrays().log2(x)) if is_array(x) else _of_one(_doublings, x)


def exp(x: Num) -> Num:
    """e to the x, elementwise for an array.

    >>> exp(0.0)
    1.0
    """
    return arrays().exp(x) if is_array(x) else _of_one(math.exp, x)


def expm1(x: Num) -> Num:
    """e to the x, less one, exact also where x is small; elementwise for an array.

    >>> expm1(1e-20)
    1e-20
    """
    return arrays().expm1(x) if is_array(x) else math.expm1(x)


def log(x: Num) -> Num:
    """Natural logarithm, elementwise for an array.

    >>> log(1.0)
    0.0
    """
    return arrays().log(x) if is_array(x) else _of_one(math.log, x)


def sqrt(x: Num) -> Num:
    """Square root, elementwise for an array.

    >>> sqrt(4.0)
    2.0
    """
    return arrays().sqrt(x) if is_array(x) else _of_one(math.sqrt, x)


def log1p(x: Num) -> Num:
    """Natural logarithm of one plus x, exact for small x; elementwise for an array.

    >>> log1p(0.0)
    0.0
    """
    return arrays().log1p(x) if is_array(x) else math.log1p(x)


def elementwise(function: Callable[[float], float], x: Num) -> Num:
    """What a function of a plain number says, of each element for an array.

    >>> elementwise(abs, -2.0)
    2.0
    """
    if not is_array(x):
        return function(x)
    own = getattr(arrays(), "elementwise", None)
    return arrays().vectorize(function, otypes=[float])(x) if own is None else own(function, x)


def sine(x: Num) -> Num:
    """Sine of an angle in radians, elementwise for an array.

    >>> sine(0.0)
    0.0
    """
    return arrays().sin(x) if is_array(x) else math.sin(x)


def concatenate(parts: Sequence[Num]) -> Num:
    """Results of consecutive blocks in one array; a result that is the same number in every block stays a number."""
    return arrays().concatenate(parts) if is_array(parts[0]) else parts[0]


def where(condition: Any, yes: Any, no: Any) -> Any:
    """``yes if condition else no``, elementwise when the condition is an array.

    >>> where(True, "compute", "memory")
    'compute'
    """
    if condition is True or condition is False:
        return yes if condition else no
    return arrays().where(condition, yes, no) if is_array(condition) else (yes if condition else no)


def is_finite(x: Num) -> bool:
    """Whether every element is a finite number; also works for quantities that carry a unit."""
    if isinstance(x, (int, float)):
        return abs(x) <= sys.float_info.max
    return all_true(x - x == 0)  # inf - inf and nan - nan are nan


def all_true(condition: Any) -> bool:
    """Whether a truth value, or every element of an array of them, is true."""
    return bool(condition.all()) if is_array(condition) else bool(condition)


def whole(x: Num) -> Num:
    """A count as an integer, elementwise for an array: 8.0 becomes 8.

    >>> whole(8.0)
    8
    """
    return x.astype("int64") if is_array(x) else _of_one(int, x)


def even_share(size: Num, room: Num) -> Num:
    """How many of ``size`` ranks to put where there is room for so many, so that all places get the same number.

    All of them if they fit, else the largest common divisor of the two, or of ``size`` and the largest power of two
    that fits: 8 of 64 ranks where there is room for 9.

    >>> [even_share(4, 8), even_share(16, 8), even_share(64, 9), even_share(6, 4)]
    [4, 8, 8, 2]
    """
    if is_array(size) or is_array(room):
        np = arrays()
        if hasattr(np, "elementwise"):  # our own vectors ask each pair once
            return np.elementwise(even_share, size, room)
        size, room = np.broadcast_arrays(size, room)
        share = np.minimum(size, room)
        split = (size > room) & (room > 1)  # few: an inner group that does not fit leaves no room outside it
        n, r = size[split], room[split]
        power = np.left_shift(1, np.log2(r).astype(np.int64))
        share[split] = np.maximum(np.gcd(n, r), np.gcd(n, power))
        return share
    if isinstance(size, Made) or isinstance(room, Made):
        return applied(even_share, "even_share", size, room)
    if size <= room:
        return size
    return max(math.gcd(size, room), math.gcd(size, 1 << (room.bit_length() - 1)))
