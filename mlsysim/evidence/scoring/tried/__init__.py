"""Every way to predict a class that was scored, kept or not: a log per class, so that nobody has to trust a choice."""

import csv
import io
import math
from dataclasses import dataclass, fields
from datetime import date as Date
from pathlib import Path

from mlsysim.errors import InputError, unknown_name
from mlsysim.files import read_text

COLUMNS = (
    "date",
    "class",
    "variant",
    "constants",
    "rows",
    "groups",
    "error",
    "left_out_source",
    "left_out_domain",
    "kept",
    "why",
)
_MAX_BYTES = 1_000_000
_WORDS = {"yes": True, "no": False}
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Tried:
    """One variant and what it scored; errors are fractions, means over groups (of a domain: over domains).

    Without its domain a row was predicted with the rest of its source in the fit until 2026-11-23, and without its source since.
    """

    date: str
    case_class: str
    variant: str
    constants: int
    rows: int
    groups: int
    error: float  # of rows in the fit
    left_out_source: float
    left_out_domain: float
    kept: bool
    why: str

    def cells(self) -> list[str]:
        """As it stands in the file."""
        values = [getattr(self, f.name) for f in fields(self)]
        return [("yes" if v else "no") if isinstance(v, bool) else str(v) for v in values]


def logged() -> list[str]:
    """The classes that have a log."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def read_log(class_name: str, folder: Path = FOLDER) -> list[Tried]:
    """The log of a class, the oldest line first; an incomplete line is an error that names it.

    Raises
    ------
    InputError, UnknownNameError
        A class without a log; a line that lacks something.
    """
    path = folder / f"{class_name}.csv"
    if not path.is_file():
        raise unknown_name("class with a log", class_name, sorted(p.stem for p in folder.glob("*.csv")))
    reader = csv.reader(io.StringIO(read_text(path, _MAX_BYTES, "a log", "split it"), newline=""), strict=True)
    if (header := tuple(next(reader, ()))) != COLUMNS:
        raise InputError(f"{path.name}, line 1: the columns are {', '.join(header)}; they must be {', '.join(COLUMNS)}")
    return [_line(cells, class_name, f"{path.name}, line {n}") for n, cells in enumerate(reader, 2)]


def _line(cells: list[str], class_name: str, where: str) -> Tried:
    if len(cells) != len(COLUMNS):
        raise InputError(f"{where}: {len(cells)} cells under {len(COLUMNS)} headings; quote a cell that holds a comma")
    row = dict(zip(COLUMNS, map(str.strip, cells), strict=True))
    for name, text in row.items():
        if not text:
            raise InputError(f"{where}: no {name}; every column of a variant is filled in")
    if row["class"] != class_name:
        raise InputError(f"{where}: class {row['class']!r} stands in the log of {class_name}")
    if row["kept"] not in _WORDS:
        raise InputError(f"{where}: kept = {row['kept'][:20]!r} is neither yes nor no")
    try:
        counts = [int(row[name]) for name in ("constants", "rows", "groups")]
        errors = [float(row[name]) for name in ("error", "left_out_source", "left_out_domain")]
        day = Date.fromisoformat(row["date"]).isoformat()
    except ValueError as why:
        raise InputError(
            f"{where}: {why}; counts are whole numbers, errors fractions, the date as in 2026-11-22"
        ) from why
    if min(counts) < 0 or not all(e >= 0 or math.isnan(e) for e in errors):
        raise InputError(f"{where}: counts and errors are zero or more (nan where nothing can be left out)")
    constants, rows, groups = counts
    inside, source, domain = errors
    kept = _WORDS[row["kept"]]
    return Tried(day, class_name, row["variant"], constants, rows, groups, inside, source, domain, kept, row["why"])


def append(line: Tried, folder: Path = FOLDER) -> None:
    """Write a line at the end of the log of its class; begins the log where there is none."""
    path = folder / f"{line.case_class}.csv"
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        writer.writerow(line.cells())
