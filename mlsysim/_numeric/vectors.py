"""Vectors where NumPy is not: the few of its names that this library asks for, on lists of plain numbers.

A page of the book brings the standard library alone. What it searches there is small, some thousands of plans, and with this a
solver that takes arrays answers as it does elsewhere. A name does here what it does in NumPy, for one axis; division by
zero and overflow give infinity or NaN as they do there.
"""

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

nan, inf = math.nan, math.inf
int64, float64 = int, float
_KINDS = {bool: "b", int: "i", float: "f", str: "U"}


class Kind:
    """The type of a vector's elements."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.kind)

    def __str__(self) -> str:
        return {"b": "bool", "i": "int64", "f": "float64"}.get(self.kind, "str")


def _divided(x: Any, y: Any) -> float:
    if y:
        return float(x / y)
    return nan if x == 0 or x != x else math.copysign(inf, x) * math.copysign(1.0, y)


def _floored(x: Any, y: Any) -> Any:
    return x // y if y else 0 if isinstance(x, int) and isinstance(y, int) else _divided(x, y)


def _rest(x: Any, y: Any) -> Any:
    return x % y if y else 0 if isinstance(x, int) and isinstance(y, int) else nan


def _power(x: Any, y: Any) -> float:
    try:
        found = x**y
    except ZeroDivisionError:
        return inf
    except OverflowError:
        return inf
    return nan if isinstance(found, complex) else found


def _paired(plain: Callable[[Any, Any], Any], careful: Callable[[Any, Any], Any] | None = None) -> Any:
    """An operation on two vectors, or a vector and a number; where it fails, or gives no real number, the careful way."""

    def pairs(x: Any, y: Any) -> "Vector":
        if careful is None:
            return Vector(list(map(plain, *_aligned(x, y))))
        try:
            found = list(map(plain, *_aligned(x, y)))
        except ArithmeticError:
            return Vector(list(map(careful, *_aligned(x, y))))
        if plain is operator.pow and complex in set(map(type, found)):
            return Vector(list(map(careful, *_aligned(x, y))))
        return Vector(found)

    return pairs


def _aligned(x: Any, y: Any) -> tuple[Iterable[Any], Iterable[Any]]:
    if isinstance(x, Vector):
        if not isinstance(y, Vector):
            return x.items, repeat(y, len(x.items))
        if len(x.items) != len(y.items):
            raise ValueError(f"vectors of {len(x.items)} and {len(y.items)} elements do not go together")
        return x.items, y.items
    return repeat(x, len(y.items)), y.items


def _both(pairs: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: "Vector", other: Any) -> Any:
        return pairs(self, other) if _known(other) else NotImplemented

    def backward(self: "Vector", other: Any) -> Any:
        return pairs(other, self) if _known(other) else NotImplemented

    return forward, backward


def _known(x: object) -> bool:
    return isinstance(x, (Vector, int, float, str))


class Vector:
    """Numbers, truth values or texts in a row."""

    __slots__ = ("_kind", "items")
    __hash__ = None  # type: ignore[assignment]
    ndim = 1

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self._kind: Kind | None = None

    __add__, __radd__ = _both(_paired(operator.add))
    __sub__, __rsub__ = _both(_paired(operator.sub))
    __mul__, __rmul__ = _both(_paired(operator.mul))
    __truediv__, __rtruediv__ = _both(_paired(operator.truediv, _divided))
    __floordiv__, __rfloordiv__ = _both(_paired(operator.floordiv, _floored))
    __mod__, __rmod__ = _both(_paired(operator.mod, _rest))
    __pow__, __rpow__ = _both(_paired(operator.pow, _power))
    __and__, __rand__ = _both(_paired(operator.and_))
    __or__, __ror__ = _both(_paired(operator.or_))
    __lt__, _ = _both(_paired(operator.lt))
    __le__, _ = _both(_paired(operator.le))
    __gt__, _ = _both(_paired(operator.gt))
    __ge__, _ = _both(_paired(operator.ge))
    __eq__, _ = _both(_paired(operator.eq))
    __ne__, _ = _both(_paired(operator.ne))

    def __neg__(self) -> "Vector":
        return Vector([-x for x in self.items])

    def __abs__(self) -> "Vector":
        return Vector(list(map(abs, self.items)))

    def __invert__(self) -> "Vector":
        return Vector([not x for x in self.items])

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __bool__(self) -> bool:
        if len(self.items) != 1:
            raise ValueError("a vector is neither true nor false; ask any() or all()")
        return bool(self.items[0])

    def __repr__(self) -> str:
        return f"Vector({self.items!r})"

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Vector(self.items[at])
        if isinstance(at, (Vector, list)):
            return Vector(list(map(self.items.__getitem__, _places(at))))
        return self.items[at]

    def __setitem__(self, at: Any, values: Any) -> None:
        places = _places(at) if isinstance(at, (Vector, list)) else [at]
        for i, value in zip(places, values if isinstance(values, Vector) else repeat(values), strict=False):
            self.items[i] = value
        self._kind = None

    @property
    def dtype(self) -> Kind:
        if self._kind is None:
            found = {_KINDS.get(kind, "O") for kind in set(map(type, self.items))}
            self._kind = Kind("f" if found in ({"i", "f"}, set()) else found.pop() if len(found) == 1 else "O")
        return self._kind

    @property
    def shape(self) -> tuple[int]:
        return (len(self.items),)

    @property
    def size(self) -> int:
        return len(self.items)

    @property
    def flat(self) -> list[Any]:
        return self.items

    def astype(self, kind: Any) -> "Vector":
        made = {"int64": int, "float64": float, "bool": bool}.get(kind, kind)
        return Vector(list(map(made, self.items)))

    def tolist(self) -> list[Any]:
        return list(self.items)

    def copy(self) -> "Vector":
        return Vector(list(self.items))

    def all(self) -> bool:
        return all(self.items)

    def any(self) -> bool:
        return any(self.items)

    def sum(self) -> Any:
        return sum(self.items)

    def mean(self) -> float:
        return float(sum(self.items) / len(self.items))

    def min(self) -> Any:
        return nan if self._lacks() else min(self.items)

    def max(self) -> Any:
        return nan if self._lacks() else max(self.items)

    def argmin(self) -> int:
        return min(range(len(self.items)), key=self.items.__getitem__)

    def argmax(self) -> int:
        return max(range(len(self.items)), key=self.items.__getitem__)

    def _lacks(self) -> bool:
        """Whether an element is NaN."""
        if not self.items or isinstance(self.items[0], str):
            return False
        total = sum(self.items)
        return total != total and any(x != x for x in self.items)


def _places(at: "Vector | list[Any]") -> list[int]:
    """The positions that a mask or a list of positions chooses."""
    listed = at.items if isinstance(at, Vector) else at
    return [i for i, wanted in enumerate(listed) if wanted] if listed and isinstance(listed[0], bool) else listed


ndarray = Vector


def array(values: Any, dtype: Any = None) -> Vector:
    """A new vector."""
    made = Vector(list(values))
    return made if dtype is None else made.astype(dtype)


def asarray(values: Any, dtype: Any = None) -> Any:
    """The values as a vector; a single one stays what it is."""
    if isinstance(values, Vector):
        return values if dtype is None else values.astype(dtype)
    return values if isinstance(values, (int, float, str)) else array(values, dtype)


def full(length: int, value: Any) -> Vector:
    """The same value so many times."""
    return Vector([value] * length)


def ones_like(x: Vector) -> Vector:
    """As many ones."""
    return full(len(x), 1)


def arange(start: int, stop: int | None = None, step: int = 1) -> Vector:
    """Integers in equal steps."""
    return Vector(list(range(start, stop, step) if stop is not None else range(start)))


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Vector:
    """A vector as it is; a number so many times."""
    return x if isinstance(x, Vector) else full(shape[0], x)


def broadcast_arrays(*xs: Any) -> list[Vector]:
    """All as vectors of one length."""
    length = max(len(x) for x in xs if isinstance(x, Vector))
    return [x.copy() if isinstance(x, Vector) else full(length, x) for x in xs]


def concatenate(parts: Sequence[Any]) -> Vector:
    """One behind the other."""
    return Vector([x for part in parts for x in part])


def where(condition: Any, yes: Any, no: Any) -> Vector:
    """``yes`` where the condition holds, ``no`` elsewhere."""
    length = len(condition)
    first, other = (broadcast_to(x, (length,)).items for x in (yes, no))
    return Vector([a if c else b for c, a, b in zip(condition.items, first, other, strict=True)])


def _larger(x: Any, y: Any) -> Any:
    return x if x >= y or x != x else y


def _smaller(x: Any, y: Any) -> Any:
    return x if x <= y or x != x else y


maximum, minimum = _paired(_larger), _paired(_smaller)
gcd, left_shift = _paired(math.gcd), _paired(operator.lshift)


def divmod(x: Vector, y: Any) -> tuple[Vector, Vector]:
    """Quotients and what is left."""
    return x // y, x % y


def _each(function: Callable[[float], float], beyond: Callable[[float], float]) -> Callable[[Any], Any]:
    def safe(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return beyond(x)

    def each(x: Any) -> Any:
        return Vector(list(map(safe, x.items))) if isinstance(x, Vector) else safe(x)

    return each


def _of_log(x: float) -> float:
    return -inf if x == 0 else nan


exp = _each(math.exp, lambda x: inf)
expm1 = _each(math.expm1, lambda x: inf)
log, log2 = _each(math.log, _of_log), _each(math.log2, _of_log)
log1p = _each(math.log1p, lambda x: _of_log(1.0 + x))
sin = _each(math.sin, lambda x: nan)
sqrt = _each(math.sqrt, lambda x: nan)
ceil = _each(lambda x: float(math.ceil(x)), lambda x: x)
isfinite = _each(math.isfinite, lambda x: False)


def flatnonzero(mask: Vector) -> Vector:
    """Where it is true."""
    return Vector([i for i, x in enumerate(mask.items) if x])


def argsort(x: Vector, kind: str = "stable") -> Vector:
    """The positions in the order of the values; of equal ones the first come first."""
    return Vector(sorted(range(len(x)), key=x.items.__getitem__))


def lexsort(keys: Sequence[Vector]) -> Vector:
    """The positions in the order of the last key, then the one before it."""
    rows = list(zip(*(k.items for k in reversed(keys)), strict=True))
    return Vector(sorted(range(len(rows)), key=rows.__getitem__))


def partition(x: Vector, at: int) -> Vector:
    """Sorted, which puts what belongs there at that place."""
    return Vector(sorted(x.items))


def searchsorted(x: Vector, value: Any, side: str = "left") -> int:
    """Where a value would go among sorted ones."""
    return (bisect_left if side == "left" else bisect_right)(x.items, value)


def unique(x: Vector) -> Vector:
    """Every value once, in order."""
    return Vector(sorted(set(x.items)))
