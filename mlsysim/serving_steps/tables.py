"""A table of measured products: its efficiencies, read at the nearest entry or between the four around a shape."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from mlsysim import catalog
from mlsysim._numeric import Num, all_true, is_array, maximum, minimum, where
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import InputError, unknown_name
from mlsysim.kernels import gemm_flops
from mlsysim.results import Result
from mlsysim.serving_steps.equations import bilinear, kernel_utilisation

LOOKUPS = ("nearest", "bilinear")


@dataclass(frozen=True)
class ProductTable(Result):
    """Efficiencies of measured products over two axes: rows, and the size of the matrix that they meet.

    The size k n is the second axis since both what a matrix weighs and what a row costs depend on it alone. Both axes
    are linear: while reading the matrix is what takes the time, its efficiency is proportional to the rows.
    """

    device: str
    precision: str
    origin: str
    rows: tuple[float, ...]
    sizes: tuple[float, ...]  # k n of each matrix, ascending
    efficiencies: tuple[tuple[float, ...], ...]  # of the dense peak: one line per matrix, one entry per count of rows

    def efficiency(self, rows: Num, k: float, n: float, lookup: str = "bilinear") -> Num:
        """Share of the peak of a product, as a measured one reached it. Outside the table its edge is held.

        >>> products_table().efficiency(8, 2048, 6144, "nearest") == products_table().efficiency(8, 2048, 6144)
        True
        """
        if lookup not in LOOKUPS:
            raise unknown_name("lookup", lookup, LOOKUPS)
        if not k * n > 0:
            raise InputError(f"efficiency: k n = {k * n!r} must be greater than zero; give the sizes of a matrix")
        i, u = _place(self.sizes, k * n)
        lines = self.efficiencies[i], self.efficiencies[i + 1]
        if lookup == "nearest":
            return _at(lines[u >= 0.5], rows, self.rows)
        j, v = _place(self.rows, rows)
        corners = [_pick(line, index) for line in lines for index in (j, j + 1)]
        return bilinear(v, u, *corners)

    def covers(self, rows: Num, k: float, n: float) -> bool:
        """Whether a product lies inside the table; outside, :meth:`efficiency` holds the value of the edge."""
        inside = self.sizes[0] <= k * n <= self.sizes[-1]
        return inside and all_true(rows >= self.rows[0]) and all_true(rows <= self.rows[-1])


def _place(axis: Sequence[float], x: Num) -> tuple[Num, Num]:
    """The entry at or below x and how far x lies towards the next, from 0 to 1; held at the ends."""
    held = minimum(maximum(x, axis[0]), axis[-1])
    if is_array(held):
        i = sum((held >= a) * 1 for a in axis[1:-1])
        low, high = _pick(axis, i), _pick(axis, i + 1)
    else:
        i = min(bisect_right(axis, held), len(axis) - 1) - 1
        low, high = axis[i], axis[i + 1]
    return i, (held - low) / (high - low)


def _pick(values: Sequence[float], i: Num) -> Num:
    """values[i], for an index or an array of them."""
    if not is_array(i):
        return values[i]
    found = 0.0 * i
    for index, value in enumerate(values):
        found = where(i == index, value, found)
    return found


def _at(line: Sequence[float], rows: Num, axis: Sequence[float]) -> Num:
    j, v = _place(axis, rows)
    return _pick(line, j + where(v >= 0.5, 1, 0))


@cache
def products_table() -> ProductTable:
    """The table of products that the package ships: 8 matrices, 14 counts of rows, 8-bit, H100.

    >>> len(products_table().sizes), len(products_table().rows)
    (8, 14)
    """
    raw = shipped_toml(__package__, "products_h100.toml")
    peak = catalog.device(raw["device"]).peak_flops[raw["precision"]]
    matrices = sorted(raw["matrices"], key=lambda m: float(m["k"] * m["n"]))
    lines = tuple(
        tuple(
            kernel_utilisation(gemm_flops(m, x["n"], x["k"]), us * 1e-6, peak)
            for m, us in zip(raw["rows"], x["microseconds"], strict=True)
        )
        for x in matrices
    )
    return ProductTable(
        device=raw["device"],
        precision=raw["precision"],
        origin=f"{raw['source']}, {raw['where']}, {raw['licence']}",
        rows=tuple(map(float, raw["rows"])),
        sizes=tuple(float(x["k"] * x["n"]) for x in matrices),
        efficiencies=lines,
    )


def jumps(times: Sequence[float], work: Sequence[float], threshold: float = 0.05) -> int:
    """Neighbours between which a time jumps: more work takes less time, or longer than in proportion to the work.

    Parameters
    ----------
    times, work : sequence
        Of a sweep in which work grows; a step between neighbours counts when the time leaves the interval between
        staying as it is and growing with the work by ``threshold`` or more.

    >>> jumps([1.0, 1.0, 0.9, 1.0, 2.0], [1, 2, 3, 4, 5])
    2
    """
    found = 0
    for a, b, w, x in zip(times, times[1:], work, work[1:], strict=False):
        ratio, grown = math.log(b / a), math.log(x / w)
        found += ratio <= -math.log(1 + threshold) or ratio >= grown + math.log(1 + threshold)
    return found
