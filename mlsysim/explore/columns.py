"""Results as columns: named arrays of one length, sortable, filterable, and readable by pandas, Parquet and JSON."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import le
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlsysim._numeric import arrays, bare
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Displayable, Report, plain
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing


np = arrays()
_FIRST, _MOST_SHOWN = 5, 8  # rows and columns that are shown


@dataclass(frozen=True)
class Columns(Displayable):
    """Named arrays of one length. Columns are read-only; every method returns new ones."""

    data: Mapping[str, Any]

    def __post_init__(self) -> None:
        vectors = {name: np.asarray(column) for name, column in self.data.items()}
        lengths = {name: getattr(a, "shape", ()) for name, a in vectors.items()}
        if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) > 1:
            raise InputError(f"columns: shapes {lengths} differ; every column is a vector of the same length")
        for vector in vectors.values():
            if hasattr(vector, "flags"):  # of NumPy
                vector.flags.writeable = False
        object.__setattr__(self, "data", MappingProxyType(vectors))

    def __len__(self) -> int:
        return next((len(column) for column in self.data.values()), 0)

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise unknown_name("column", name, self.data)
        return self.data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def _lines(self) -> list[str]:
        names = f"Columns({len(self)} rows: {', '.join(self.data)})"
        shown = list(self.data)[:_MOST_SHOWN]
        rows = [[_cell(self.data[name][i]) for name in shown] for i in range(min(len(self), _FIRST))]
        left = len(self) - len(rows)
        more = [f"  … and {left:,} more rows: to_pandas(), smallest(column), pareto(columns)"] if left else []
        return [names, *(f"  {line}" for line in str(table(shown, rows)).splitlines()), *more] if rows else [names]

    def chart(self) -> "Drawing | None":
        """The first column that varies against ``time``, or against the last one."""
        numbers = [n for n, c in self.data.items() if c.dtype.kind in "iuf" and len(c) and np.isfinite(c).all()]
        varied = [n for n in numbers if self.data[n].min() < self.data[n].max()]
        if len(varied) < 2:
            return None
        y = "time" if "time" in varied else varied[-1]
        x = next(n for n in varied if n != y)
        from mlsysim.drawing import shapes

        pairs = list(zip(self.data[x].tolist(), self.data[y].tolist(), strict=True))
        return shapes.points(
            f"{len(self)} rows", {"": shapes.sampled(pairs)}, (x, "1"), (y, "s" if y == "time" else "1")
        )

    def explain(self) -> Report:
        """Every column with its kind and its range."""
        rows = []
        for name, column in self.data.items():
            numbers = column.dtype.kind in "iuf" and len(column)
            ends = (_cell(column.min()), _cell(column.max())) if numbers else ("", "")
            rows.append((name, str(column.dtype), str(len(np.unique(column))), *ends))
        return Report(f"{len(self)} rows", (table(("Column", "Kind", "Different", "Smallest", "Largest"), rows),))

    def to_frame(self) -> Any:
        """The same as :meth:`to_pandas`."""
        return self.to_pandas()

    def row(self, i: int) -> dict[str, Any]:
        """One row as plain numbers and texts.

        >>> Columns({"tp": np.array([1, 2]), "time": np.array([3.0, 1.5])}).row(1)
        {'tp': 2, 'time': 1.5}
        """
        return {name: bare(column[i]) for name, column in self.data.items()}

    def take(self, selection: Any) -> "Columns":
        """The rows of a mask or of a list of positions."""
        if getattr(getattr(selection, "dtype", None), "kind", "") == "b":
            if selection.all():
                return self
            selection = np.flatnonzero(selection)  # once for all columns
        return Columns({name: column[selection] for name, column in self.data.items()})

    def smallest(self, by: str, count: int = 1) -> "Columns":
        """The rows with the smallest values of a column, in order; of equal values the first come first.

        >>> Columns({"time": np.array([3.0, 1.0, 2.0])}).smallest("time", 2)["time"].tolist()
        [1.0, 2.0]
        """
        values = self[by]
        if count < len(values):
            edge = np.partition(values, count - 1)[count - 1]
            candidates = np.flatnonzero(values <= edge)
            return self.take(candidates[np.argsort(values[candidates], kind="stable")[:count]])
        return self.take(np.argsort(values, kind="stable"))

    def pareto(self, *by: str) -> "Columns":
        """The rows that no other row beats: none is at most as large in every named column and smaller in one.

        >>> c = Columns({"time": np.array([1.0, 2.0, 3.0]), "memory": np.array([3.0, 4.0, 1.0])})
        >>> c.pareto("time", "memory")["time"].tolist()
        [1.0, 3.0]
        """
        if not by:
            raise InputError("pareto: name at least one column, as in pareto('time', 'memory')")
        if not hasattr(np, "stack"):
            return self.take(_front([tuple(map(float, row)) for row in zip(*(self[name] for name in by), strict=True)]))
        points, place = np.unique(
            np.stack([np.asarray(self[name], dtype=float) for name in by], axis=1), axis=0, return_inverse=True
        )
        on_front: Any = np.zeros(len(points), dtype=bool)
        left = np.arange(len(points))
        while len(left):  # sorted, so nothing that is left beats the first
            first, left = left[0], left[1:]
            on_front[first] = True
            left = left[(points[left] < points[first]).any(axis=1)]
        found = np.flatnonzero(on_front[place.reshape(-1)])
        return self.take(found[np.lexsort(points[place.reshape(-1)[found]].T[::-1])])

    def to_dict(self) -> dict[str, list[Any]]:
        """Plain lists, for JSON."""
        return {name: plain(column.tolist()) for name, column in self.data.items()}

    def to_pandas(self) -> Any:
        """A pandas DataFrame; needs pandas."""
        return _needed("pandas").DataFrame(dict(self.data))

    def to_parquet(self, path: str | Path) -> None:
        """Write a Parquet file; needs pyarrow."""
        arrow = _needed("pyarrow")
        parquet = _needed("pyarrow.parquet")
        parquet.write_table(arrow.table({name: arrow.array(column) for name, column in self.data.items()}), str(path))

    @classmethod
    def join(cls, parts: Sequence["Columns"]) -> "Columns":
        """The rows of all parts, one after the other; the parts have the same columns."""
        if not parts:
            return cls({})
        names = list(parts[0].data)
        if any(list(part.data) != names for part in parts):
            raise InputError("columns: the parts have different columns, so their rows cannot follow each other")
        return cls({name: np.concatenate([part.data[name] for part in parts]) for name in names})


def _front(points: Sequence[tuple[float, ...]]) -> list[int]:
    """The places of the points that none beats, in order of the points; of equal points all."""
    order = sorted(range(len(points)), key=points.__getitem__)
    front: list[tuple[float, ...]] = []
    found = []
    least = math.inf  # of two columns, the second: the first only grows
    for i in order:  # sorted, so nothing that comes later beats what is on the front
        p = points[i]
        if len(p) == 2 and p[1] >= least and p != front[-1]:
            continue
        if len(p) == 2 or not any(q != p and all(map(le, q, p)) for q in front):
            found.append(i)
            least = p[-1]
            if not front or front[-1] != p:
                front.append(p)
    return found


Keep = Callable[[Columns], Columns]


def stacked(parts: Sequence[Mapping[str, Any]], lengths: Sequence[int]) -> dict[str, Any]:
    """The answers of several stretches one after the other; a plain value stands for its whole stretch.

    >>> stacked([{"tp": 8, "time": np.array([1.0, 2.0])}, {"tp": 4, "time": 3.0}], [2, 1])["time"].tolist()
    [1.0, 2.0, 3.0]
    """
    whole = [
        {name: np.broadcast_to(v, (n,)) for name, v in part.items()} for part, n in zip(parts, lengths, strict=True)
    ]
    return {name: np.concatenate([part[name] for part in whole]) for name in whole[0]}


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:16]


def _needed(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise InputError(f"{name} is not installed; run: pip install {name}") from error
