"""Systolic arrays: their size, their number and their clock, with where each figure was read."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from mlsysim import units
from mlsysim.catalog.sourced import Sourced, figures, read_toml
from mlsysim.errors import InputError, named, unknown_name
from mlsysim.hlo.estimators import systolic
from mlsysim.hlo.work.products import Gemm

_FIELDS = {"rows": "1", "columns": "1", "arrays": "1", "clock": "1/s"}
_MOST = 65_536


@dataclass(frozen=True)
class SystolicArray:
    """One or several equal arrays of ``rows`` x ``columns`` elements, each of which multiplies and adds once per cycle.

    Several arrays share the products of a batch: so many at once, each on an equal number of arrays, and those that are left for
    a last round on all arrays again. A product on several arrays is split by rows (M), by columns (N) or into a grid of both.
    Of all these ways the one with the fewest cycles is taken, also where it leaves an array idle, so that an array more never
    costs time. K is not split: then partial results would have to be added up outside the arrays.
    """

    rows: int
    columns: int
    clock: float
    arrays: int = 1
    dataflow: str = "ws"
    name: str = ""
    sources: Mapping[str, Sourced] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "arrays"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= _MOST:
                raise InputError(f"systolic array: {name} = {value!r} must be a whole number in [1, {_MOST}]")
        if not 0 < self.clock <= 1e12:
            raise InputError(f"systolic array: clock = {self.clock!r} is outside (0, 1e12]; give cycles per second")
        if self.dataflow not in systolic.DATAFLOWS:
            raise unknown_name("dataflow", self.dataflow, systolic.DATAFLOWS)

    @property
    def peak(self) -> float:
        """Of all arrays together, in FLOP/s."""
        return float(systolic.array_peak(self.rows, self.columns, self.clock, self.arrays))

    def share(self, gemm: Gemm) -> tuple[tuple[Gemm, int], ...]:
        """What the busiest array runs one after another: each product, and how many times."""
        split = cache(partial(self._split, gemm))
        best: tuple[tuple[Gemm, int], ...] = ((split(self.arrays), gemm.batch),)
        for at_once in range(2, min(self.arrays, gemm.batch) + 1):
            rounds, left = divmod(gemm.batch, at_once)
            found = ((split(self.arrays // at_once), rounds), *([(split(self.arrays // left), 1)] if left else []))
            best = min(best, found, key=self._together)
        return best

    def _split(self, gemm: Gemm, arrays: int) -> Gemm:
        """The largest part of one product of the batch on so many arrays, split so that it takes the fewest cycles."""
        parts = (
            Gemm(1, -(-gemm.m // a), -(-gemm.n // (arrays // a)), gemm.k) for a in _cuts(gemm.m, min(arrays, gemm.m))
        )
        return min(parts, key=self._alone)

    def _alone(self, part: Gemm) -> int:
        """Cycles of a product on one array."""
        return int(systolic.gemm_cycles(part.m, part.n, part.k, self.rows, self.columns, self.dataflow))

    def _together(self, rounds: Iterable[tuple[Gemm, int]]) -> int:
        return sum(times * self._alone(part) for part, times in rounds)

    def cycles(self, gemm: Gemm) -> int:
        """Cycles until the last array is done."""
        return self._together(self.share(gemm))

    def seconds(self, gemm: Gemm) -> float:
        """Time of a product at the array's clock, with operands there when they are needed."""
        return float(systolic.cycles_time(self.cycles(gemm), self.clock))

    def __str__(self) -> str:
        several = f"{self.arrays} x " if self.arrays > 1 else ""
        return f"{several}{self.rows}x{self.columns} {self.dataflow.upper()} at {units.format(self.clock, 'Hz')}"


def _cuts(size: int, most: int) -> Iterator[int]:
    """Numbers of parts, up to ``most``, of which each makes the largest part smaller than the one before."""
    parts = 1
    while parts <= most:
        yield parts
        largest = -(-size // parts)
        if largest == 1:
            return
        parts = -(-size // (largest - 1))


@cache
def arrays() -> Mapping[str, SystolicArray]:
    """The arrays that ship with the package, by name."""
    found = {}
    for name, entry in read_toml(Path(__file__).with_name("arrays.toml")).items():
        facts = figures(entry, _FIELDS, f"arrays.toml, {name}", "")
        rows, columns, several = (int(facts[key].value) for key in ("rows", "columns", "arrays"))
        found[name] = SystolicArray(rows, columns, facts["clock"].value, several, name=name, sources=facts)
    return found


def array(name: str) -> SystolicArray:
    """An array of :func:`arrays`.

    >>> array("tpu-v3-core").arrays
    2
    """
    return named("systolic array", name, arrays())
