"""All combinations of some axes, numbered, so that any stretch of them can be made without making the rest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from mlsysim._numeric import arrays
from mlsysim.errors import InputError

np = arrays()


@dataclass(frozen=True)
class Stretch:
    """Combinations start to stop of the numeric axes, with one value of each text axis."""

    texts: Mapping[str, str]
    start: int
    stop: int


@dataclass(frozen=True)
class Grid:
    """Axes by name: vectors of numbers, or lists of texts (which a solver takes one at a time)."""

    numbers: Mapping[str, Any]
    texts: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, axes: Mapping[str, Any]) -> "Grid":
        """Read axes as a user gives them.

        >>> Grid.of({"tp": [1, 2, 4], "recompute": ["none", "full"]}).size
        6
        """
        if not axes:
            raise InputError("sweep: no axis; give at least one, as in axes={'bandwidth': [1e11, 2e11]}")
        numbers, texts = {}, {}
        for name, values in axes.items():
            if isinstance(values, str) or not hasattr(values, "__len__"):
                raise InputError(f"sweep: axis {name!r} = {values!r} is one value; write a list of values")
            if len(values) == 0:
                raise InputError(f"sweep: axis {name!r} is empty; give at least one value")
            if isinstance(values[0], str):
                if not all(isinstance(v, str) for v in values):
                    raise InputError(f"sweep: axis {name!r} mixes texts and numbers; split it into two axes")
                texts[name] = tuple(values)
                continue
            vector = np.asarray(values)
            if vector.ndim != 1 or vector.dtype.kind not in "biuf" or not np.isfinite(vector).all():
                raise InputError(f"sweep: axis {name!r} must be a vector of finite numbers or a list of texts")
            numbers[name] = vector
        return cls(numbers, texts)

    @property
    def inner(self) -> int:
        """Combinations of the numeric axes."""
        return prod(len(v) for v in self.numbers.values())

    @property
    def size(self) -> int:
        """All combinations."""
        return self.inner * prod(len(v) for v in self.texts.values())

    def stretches(self, length: int) -> Iterator[Stretch]:
        """Stretches of at most that many combinations; together they are the grid, in order, the last axis fastest."""
        for values in product(*self.texts.values()):
            for start in range(0, self.inner, length):
                yield Stretch(dict(zip(self.texts, values, strict=True)), start, min(start + length, self.inner))

    def columns(self, stretch: Stretch) -> dict[str, Any]:
        """The numeric axes along a stretch, as vectors."""
        index = np.arange(stretch.start, stretch.stop)
        found = {}
        for name, values in reversed(list(self.numbers.items())):
            index, at = np.divmod(index, len(values))
            found[name] = values[at]
        return {name: found[name] for name in self.numbers}
