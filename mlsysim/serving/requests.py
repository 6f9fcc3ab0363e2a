"""Requests: one, a trace of them from a file, and random ones."""

import csv
import io
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from mlsysim.errors import InputError
from mlsysim.files import read_text

MAX_FILE_BYTES = 1 << 28
MAX_ROWS = 1 << 21  # requests of a trace, drawn ones too: with its record each takes about half a kilobyte
MAX_TOKENS = 10**7  # of one prompt or answer: beyond any model, and a bound on what an unknown file can ask for
# Columns have the names of arguments; files written before them go on being read.
_BEFORE = {"input_len": "prompt_tokens", "output_len": "output_tokens", "cached_len": "prefix_tokens"}
_NEEDED = ("arrival_s", "input_len", "output_len")
_OPTIONAL = ("cached_len",)


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as its sender knows it.

    Attributes
    ----------
    arrival : float, s
        When it comes, counted from the start of the trace.
    input_len, output_len : int
        Tokens of the prompt and of the answer; at least one each.
    cached_len : int
        Leading tokens of the prompt whose keys and values an earlier request left in the cache.
    """

    arrival: float
    input_len: int
    output_len: int
    cached_len: int = 0

    def __post_init__(self) -> None:
        if (
            type(self.arrival) is float
            and type(self.input_len) is type(self.output_len) is type(self.cached_len) is int
            and 0.0 <= self.arrival < math.inf
            and 0 <= self.cached_len <= self.input_len <= MAX_TOKENS
            and 0 < self.output_len <= MAX_TOKENS
            and self.input_len
        ):
            return  # as nearly all are
        if not (isinstance(self.arrival, (int, float)) and math.isfinite(self.arrival) and self.arrival >= 0):
            raise InputError(f"Request: arrival = {self.arrival!r} must be a time in seconds, zero or later")
        for name, least in (("input_len", 1), ("output_len", 1), ("cached_len", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_TOKENS:
                raise InputError(f"Request: {name} = {value!r} must be a whole number from {least} to {MAX_TOKENS:,}")
        if self.cached_len > self.input_len:
            raise InputError(
                f"Request: cached_len = {self.cached_len} exceed the {self.input_len} tokens of the prompt"
            )


def rows(path: str | Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a CSV file of bounded size: where each stands (file and line), and its cells by column.

    Columns beyond those named are passed on unread; one that looks like a misspelt optional column is an error.

    Raises
    ------
    InputError
        A file that cannot be read, is no UTF-8 or no CSV, or lacks a column; with line and column.
    """
    path = Path(path)
    text = read_text(path, MAX_FILE_BYTES, "the path of a CSV file", "split it")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        known = [_name(n, header) for n in optional]
        known += [_BEFORE[n] for n in known if n in _BEFORE and n not in header]  # a misspelt old name is one too
        _check_header(path.name, header, [_name(n, header) for n in needed], known)
        line = reader.line_num + 1
        for count, cells in enumerate(reader):
            if count >= MAX_ROWS:
                raise InputError(f"{path.name}, line {line}: more than {MAX_ROWS:,} rows; split the file")
            if cells:  # an empty line says nothing
                if len(cells) != len(header):
                    last = min(len(cells), len(header))
                    raise InputError(
                        f"{path.name}, line {line}, column {header[last - 1]!r}: {len(cells)} cells under "
                        f"{len(header)} headings; give each row one cell per heading"
                    )
                yield f"{path.name}, line {line}", dict(zip(header, cells, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path.name}, line {reader.line_num}, column 1: not valid CSV: {error}") from error


_LARGEST = 2**53  # whole numbers up to here are floats without rounding


def _name(column: str, header: Collection[str]) -> str:
    """What a column is called in a file: as it was before, where that stands there."""
    old = _BEFORE.get(column, column)
    return column if column in header or old not in header else old


def _check_header(file: str, header: Sequence[str], needed: Sequence[str], optional: Sequence[str]) -> None:
    for new, old in _BEFORE.items():
        if new in header and old in header:
            raise InputError(f"{file}, line 1: {old!r} is the old name of {new!r}; remove one")
    for position, name in enumerate(header, 1):
        if header.index(name) + 1 != position:
            raise InputError(f"{file}, line 1, column {position}: {name!r} stands there twice; remove one")
    for name in needed:
        if name not in header:
            raise InputError(
                f"{file}, line 1: a column {name!r} is missing; the header has {', '.join(header)[:200]!r}"
            )
    for name in optional:
        others = [h for h in header if h not in needed and h not in optional]
        if name not in header and (close := get_close_matches(name, others, 1, 0.8)):
            raise InputError(
                f"{file}, line 1, column {header.index(close[0]) + 1}: {close[0]!r}; did you mean {name!r}?"
            )


def number(row: Mapping[str, str], column: str, where: str, *, whole: bool = False) -> float:
    """The number in a cell, finite and not negative; the error says where it stands."""
    text = row[column].strip()
    try:
        value: float = int(text) if whole else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LARGEST:
        kind = "whole number" if whole else "number"
        raise InputError(f"{where}, column {column!r}: {text[:40]!r} must be a {kind}, zero or more, up to 2^53")
    return value


def read_trace(path: str | Path) -> tuple[Request, ...]:
    """Requests of a CSV file with the columns arrival_s, input_len, output_len and, optionally, cached_len.

    They keep the order of the file, which need not be that of their arrival. Other columns are left alone. The names of columns
    from before, prompt_tokens, output_tokens and prefix_tokens, are read as well.

    Raises
    ------
    InputError
        A file that is not what it should be; the message names file, line and column.
    """
    found = []
    for where, row in rows(path, _NEEDED, _OPTIONAL):
        arrival = number(row, "arrival_s", where)
        prompt, answer, cache = (_name(column, row) for column in _BEFORE)
        counts = {name: int(number(row, name, where, whole=True)) for name in (prompt, answer)}
        cached = int(number(row, cache, where, whole=True)) if row.get(cache, "").strip() else 0
        for name, value in counts.items():
            if not 1 <= value <= MAX_TOKENS:
                raise InputError(f"{where}, column {name!r}: {value} must lie between 1 and {MAX_TOKENS:,}")
        if cached > counts[prompt]:
            raise InputError(f"{where}, column {cache!r}: {cached} exceed the {counts[prompt]} tokens of the prompt")
        found.append(Request(arrival, counts[prompt], counts[answer], cached))
    return tuple(found)
