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
_KINDS = {bool: "bool", int: "int64", float: "float64", str: "str"}
_LETTERS = {"bool": "b", "int64": "i", "float64": "f", "object": "O"}


class Kind(str):
    """The type of a vector's elements, by NumPy's name; ``kind`` is its letter."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return _LETTERS.get(self, "U")


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


class Family:
    """Columns of one table, a bit for each, the groups of every set of them that was asked for, and what follows from what."""

    __slots__ = ("known", "rules")

    def __init__(self) -> None:
        self.known: dict[int, Groups | None] = {}
        self.rules: list[tuple[int, int]] = []  # whoever has the first columns has the second

    def closed(self, of: int) -> int:
        """A set of columns with all that follow from them."""
        again = True
        while again:
            again = False
            for given, more in self.rules:
                if given & of == given and more & ~of:
                    of |= more
                    again = True
        return of


class Groups:
    """Which elements of a vector are alike: a group for each, so that what is asked of alike ones is asked once.

    Of thousands of plans most columns hold a few numbers again and again, and so does what follows from a few columns. ``of``
    holds the columns that the groups come from: those of two vectors together are the groups of all columns of both.
    """

    __slots__ = ("codes", "family", "first", "maps", "of")

    def __init__(self, codes: list[int], first: list[int], of: int = 0, family: Family | None = None) -> None:
        self.codes, self.first, self.of, self.family = codes, first, of, family  # first: an element of each group
        self.maps: dict[Groups, list[int]] = {}

    def with_(self, other: "Groups") -> "Groups | None":
        """The groups of both together; None where nearly every element would be its own."""
        if self is other or other.of == 0:
            return self
        if self.of == 0:
            return other
        family = self.family
        if family is not other.family or family is None:
            return None
        if (of := self.of | other.of) in family.known:
            return family.known[of]
        if (closed := family.closed(of)) not in family.known:
            n = len(other.first)
            found, first = _coded([a * n + b for a, b in zip(self.codes, other.codes, strict=True)])
            if len(first) == len(self.first):
                family.rules.append((self.of, other.of))
            if len(first) == n:
                family.rules.append((other.of, self.of))
            made = Groups(found, first, closed, family) if 3 * len(first) <= 2 * len(found) else None
            family.known[closed] = family.known[family.closed(closed)] = made
        family.known[of] = family.known[closed]
        return family.known[of]

    def from_(self, other: "Groups") -> list[int]:
        """For each group the one of a coarser vector that it lies in."""
        if other not in self.maps:
            self.maps[other] = list(map(other.codes.__getitem__, self.first))
        return self.maps[other]


def _coded(values: list[Any]) -> tuple[list[int], list[int]]:
    """For each value the number of its group, and the first place of each group."""
    codes: dict[Any, int] = dict.fromkeys(values, -1)
    first: list[int] = []
    for i, value in enumerate(values):
        if codes[value] < 0:
            codes[value] = len(first)
            first.append(i)
            if len(first) == len(codes):
                break
    return list(map(codes.__getitem__, values)), first


class _Taken:
    """Chosen places of vectors, kept with what chose them, so that columns that are taken together stay alike together."""

    def __init__(self, chosen: list[int]) -> None:
        self.places = chosen
        self.families: dict[Family, Family] = {}

    def of(self, x: "Vector") -> "Vector":
        if (old := x.groups) is None:
            return Vector(list(map(x.values.__getitem__, self.places)))
        if self.places == list(range(len(old.codes))):
            return Vector(list(x.values), old)
        if old.family is None:
            return full(len(self.places), x.values[0])
        family = self.families.setdefault(old.family, Family())
        groups = family.known.get(old.of)
        if groups is None:
            groups = Groups(*_coded(list(map(old.codes.__getitem__, self.places))), old.of, family)
            family.known[old.of] = groups
        return Vector([x.values[old.codes[self.places[i]]] for i in groups.first], groups)


def _together(*xs: Any) -> "tuple[list[Iterable[Any]], Groups | None]":
    """Vectors and numbers side by side, group by group where all of them have few, else element by element."""
    vectors = [x for x in xs if isinstance(x, Vector)]
    groups = vectors[0].groups
    for x in vectors[1:]:
        if len(x) != len(vectors[0]):
            raise ValueError(f"vectors of {len(vectors[0])} and {len(x)} elements do not go together")
        groups = (
            groups if groups is x.groups else None if groups is None or x.groups is None else groups.with_(x.groups)
        )
        if groups is None:
            break
    if groups is None:
        length = len(vectors[0])
        return [x.items if isinstance(x, Vector) else repeat(x, length) for x in xs], None
    return [
        repeat(x, len(groups.first))
        if not isinstance(x, Vector)
        else x.values
        if x.groups is groups
        else list(map(x.values.__getitem__, groups.from_(x.groups)))  # type: ignore[arg-type]
        for x in xs
    ], groups


def _paired(plain: Callable[[Any, Any], Any], careful: Callable[[Any, Any], Any] | None = None) -> Any:
    """An operation on two vectors, or a vector and a number; where it fails, or gives no real number, the careful way."""

    def pairs(x: Any, y: Any) -> "Vector":
        a: Iterable[Any]
        b: Iterable[Any]
        if not isinstance(y, Vector):  # most of what is asked
            a, b, groups = x.values, repeat(y), x.groups
        elif not isinstance(x, Vector):
            a, b, groups = repeat(x), y.values, y.groups
        elif x.groups is y.groups is not None:
            a, b, groups = x.values, y.values, x.groups
        else:
            (a, b), groups = _together(x, y)
        if careful is None:
            return Vector(list(map(plain, a, b)), groups)
        try:
            found = list(map(plain, a, b))
        except ArithmeticError:
            return Vector(list(map(careful, a, b)), groups)
        if plain is operator.pow and complex in set(map(type, found)):
            return Vector(list(map(careful, a, b)), groups)
        return Vector(found, groups)

    return pairs


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

    __slots__ = ("_items", "_kind", "_taken", "groups", "values")
    __hash__ = None  # type: ignore[assignment]
    ndim = 1

    def __init__(self, values: list[Any], groups: Groups | None = None) -> None:
        self.values, self.groups = values, groups  # one of each group, or of each element
        self._items = values if groups is None else None
        self._kind: Kind | None = None
        self._taken: _Taken | None = None

    @property
    def items(self) -> list[Any]:
        """All elements."""
        if self._items is None:
            self._items = list(map(self.values.__getitem__, self.groups.codes))  # type: ignore[union-attr]
        return self._items

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
        return Vector([-x for x in self.values], self.groups)

    def __abs__(self) -> "Vector":
        return Vector(list(map(abs, self.values)), self.groups)

    def __invert__(self) -> "Vector":
        return Vector([not x for x in self.values], self.groups)

    def __len__(self) -> int:
        return len(self.values if self.groups is None else self.groups.codes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __bool__(self) -> bool:
        if len(self) != 1:
            raise ValueError("a vector is neither true nor false; ask any() or all()")
        return bool(self.items[0])

    def __repr__(self) -> str:
        return f"Vector({self.items!r})"

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Vector(self.items[at])
        if isinstance(at, (Vector, list)):
            return _taken(at).of(self)
        return self.items[at]

    def __setitem__(self, at: Any, values: Any) -> None:
        places = _taken(at).places if isinstance(at, (Vector, list)) else [at]
        self.values, self.groups = self.items, None
        for i, value in zip(places, values if isinstance(values, Vector) else repeat(values), strict=False):
            self.values[i] = value
        self._items, self._kind, self._taken = self.values, None, None

    @property
    def dtype(self) -> Kind:
        if self._kind is None:
            found = {_KINDS.get(kind, "object") for kind in set(map(type, self.values))}
            mixed = "float64" if found in ({"int64", "float64"}, set()) else "object"
            self._kind = Kind(found.pop() if len(found) == 1 else mixed)
        return self._kind

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    @property
    def size(self) -> int:
        return len(self)

    @property
    def flat(self) -> list[Any]:
        return self.items

    def astype(self, kind: Any) -> "Vector":
        made = {"int64": int, "float64": float, "bool": bool}.get(kind, kind)
        return Vector(list(map(made, self.values)), self.groups)

    def tolist(self) -> list[Any]:
        return list(self.items)

    def copy(self) -> "Vector":
        return Vector(list(self.values), self.groups)

    def all(self) -> bool:
        return all(self.values)

    def any(self) -> bool:
        return any(self.values)

    def sum(self) -> Any:
        return sum(self.items)

    def mean(self) -> float:
        return float(sum(self.items) / len(self))

    def min(self) -> Any:
        return nan if self._lacks() else min(self.values)

    def max(self) -> Any:
        return nan if self._lacks() else max(self.values)

    def _lacks(self) -> bool:
        """Whether an element is NaN."""
        if not self.values or isinstance(self.values[0], str):
            return False
        total = sum(self.values)
        return total != total and any(x != x for x in self.values)


def _taken(at: "Vector | list[Any]") -> _Taken:
    """The positions that a mask or a list of positions chooses."""
    if isinstance(at, Vector) and at._taken is not None:
        return at._taken
    listed = at.items if isinstance(at, Vector) else at
    masked = bool(listed) and isinstance(listed[0], bool)
    made = _Taken([i for i, wanted in enumerate(listed) if wanted] if masked else list(listed))
    if isinstance(at, Vector):
        at._taken = made
    return made


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
    return Vector([value], Groups([0] * length, [0])) if length else Vector([])


def grouped(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns of counts or words that know which of their elements are alike; all others as they are."""
    family, found = Family(), {}
    for i, (name, x) in enumerate(columns.items()):
        found[name] = x
        if isinstance(x, Vector) and x.groups is None and x.values and x.dtype.kind in "biU":
            groups = Groups(*_coded(x.values), 1 << i, family)
            if 3 * len(groups.first) <= 2 * len(x):
                family.known[1 << i] = groups
                found[name] = Vector(list(map(x.values.__getitem__, groups.first)), groups)
    return found


def elementwise(function: Callable[..., Any], *xs: Any) -> Vector:
    """What a function of plain numbers says of each element."""
    columns, groups = _together(*xs)
    return Vector(list(map(function, *columns)), groups)


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
    found: list[Any] = []
    for part in parts:
        found += part.items if isinstance(part, Vector) else part
    return Vector(found)


def where(condition: Any, yes: Any, no: Any) -> Vector:
    """``yes`` where the condition holds, ``no`` elsewhere."""
    columns, groups = _together(condition, yes, no)
    return Vector([a if c else b for c, a, b in zip(*columns, strict=True)], groups)


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
        return Vector(list(map(safe, x.values)), x.groups) if isinstance(x, Vector) else safe(x)

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
