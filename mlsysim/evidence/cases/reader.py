"""Case files: tables of published measurements with the columns of one class, read strictly and with bounds.

A row is split in two when it is read. What identifies or scores it (id, group, tolerance, the measured value) stays
here; only the inputs go to a predictor, so no prediction can depend on where a row comes from.
"""

import csv
import io
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim.errors import InputError, unknown_name
from mlsysim.files import read_text
from mlsysim.results import Result, format_rows

MAX_FILE_BYTES = 16_000_000
MAX_ROWS = 100_000
MAX_ENTRIES = 1_000  # of a list or an object in a cell
ORIGIN = ("set", "source", "where", "read", "note")  # columns that say where a row comes from, if a table has them
_WORDS = ("source", "where", "notes", "note")  # columns in which a row says what was measured


@dataclass(frozen=True)
class CaseClass(Result):
    """Columns of one class of cases: kind of each input column, and the column that is to be predicted."""

    name: str
    measured: str
    signature: frozenset[str]  # inputs that no other class has all of
    numbers: frozenset[str]
    flags: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()  # names, as they are written
    words: frozenset[str] = frozenset()  # of a list that a predictor knows: upper and lower case are one

    def kind_of(self, column: str) -> str:
        for kind in ("numbers", "flags", "objects", "texts", "words"):
            if column in getattr(self, kind):
                return kind
        return ""


def case_class(name: str, measured: str, signature: str, **columns: str) -> CaseClass:
    words = {"numbers": frozenset[str](), **{kind: frozenset(text.split()) for kind, text in columns.items()}}
    return CaseClass(name, measured, frozenset(signature.split()), **words)


_MODEL = (
    "params active_params layers hidden ffn heads kv_heads head_dim vocab n_experts top_k n_shared_experts moe_ffn "
    "n_dense_layers q_lora_rank kv_lora_rank qk_rope_head_dim "
)
_MACHINE = "peak_flops hbm_bandwidth hbm_bytes n_devices devices_per_node intra_node_bandwidth inter_node_bandwidth tp pp ep dp "
_SHAPE_FLAGS = "gated_mlp tied_embeddings "
_SPLITS = [
    f"{pool}{degree}" for pool in ("", "prefill_", "decode_") for degree in ("tp", "attention_dp", "moe_tp", "moe_ep")
]
# How a run of a server was made, for rows that state it: how lengths are drawn, how long the run was, what the server was told.
_RUN = ("length_range", "requests_per_user", "poll_steps", "gather_steps", "gather_tokens")
_CLASSES = (
    case_class(
        "gemm",
        "measured_time_s",
        "precision m n k",
        numbers="peak_flops hbm_bandwidth groups m n k",
        texts="device",
        words="precision out_precision",
    ),
    case_class(
        "attention",
        "measured_time_s",
        "phase kind q_heads kv_heads q_len kv_len",
        numbers="peak_flops hbm_bandwidth batch q_heads kv_heads head_dim v_head_dim kv_lora_rank rope_dim q_len kv_len",
        flags="causal",
        texts="device",
        words="phase kind precision kv_precision",
    ),
    case_class(
        "collective",
        "measured_time_s",
        "op n_ranks bytes",
        numbers="n_ranks ranks_per_node bytes tokens_per_rank hidden top_k intra_node_bandwidth inter_node_bandwidth latency_s",
        texts="device algo",
        words="op",
    ),
    case_class("memory", "measured_bytes", "kind inputs", objects="inputs", texts="model", words="kind"),
    case_class(
        "training_step",
        "measured_step_time_s",
        "tp pp dp global_batch seq",
        numbers=_MODEL
        + _MACHINE
        + "attn_window n_windowed_layers cp virtual_stages micro_batch global_batch seq attn_len",
        flags=_SHAPE_FLAGS + "seq_parallel",
        texts="model device",
        words="attn_type sharding precision recompute cp_comm_type task",
    ),
    case_class(
        "inference",
        "measured_time_s",
        "phase batch input_len output_len",
        numbers=_MODEL + _MACHINE + "batch input_len output_len context_len weight_bits weight_bytes",
        flags=_SHAPE_FLAGS,
        texts="model device framework",
        words="attn_type phase weight_precision compute_precision kv_precision",
    ),
    case_class("scalar", "value", "quantity basis inputs", objects="inputs", words="quantity basis"),
    *(
        case_class(
            f"serving_{what}",
            f"measured_{what}_s",
            "backend mode concurrency input_len output_len",
            numbers=" ".join(["input_len output_len concurrency prefill_workers decode_workers", *_SPLITS, *_RUN]),
            texts="model device backend backend_version",
            words="mode precision gemm_quant moe_quant kv_precision statistic",
        )
        for what in ("tpot", "ttft")
    ),
)
# Classes of measured cases, by name.
CLASSES: Mapping[str, CaseClass] = MappingProxyType({c.name: c for c in _CLASSES})
TABLED = tuple(name for name in CLASSES if not name.startswith("serving_"))  # classes of the shipped table


@dataclass(frozen=True)
class Case(Result):
    """One measurement; ``inputs`` is all that a predictor sees of it (None stands for an empty cell)."""

    id: str
    group: str
    measured: float
    tolerance: float | None
    inputs: Mapping[str, Any]
    set: str = ""  # of the shipped rows: first, second or third
    source: str = ""
    where: str = ""  # the place in the source
    read: str = (
        ""  # "primary": in the source itself; "secondary": in a transcription; "derived": from a formula of the source
    )
    note: str = ""


@dataclass(frozen=True)
class CaseFile(Result):
    """The rows of one file, all of one class."""

    name: str
    case_class: CaseClass
    cases: tuple[Case, ...]

    def summary(self) -> list[str]:
        groups = len({c.group for c in self.cases})
        return format_rows(f"{self.name}: {len(self.cases)} rows of {self.case_class.name}", ("groups", str(groups)))

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per measurement: where it comes from, the inputs, and what was measured."""
        about = ("id", *ORIGIN[:2], "group", *ORIGIN[2:])
        return [
            {**{a: getattr(c, a) for a in about}, **c.inputs, self.case_class.measured: c.measured} for c in self.cases
        ]

    def select(self, **equal: Any) -> "CaseFile":
        """The rows whose columns have these values, or one of several: ``set``, ``source``, ``group`` or any input.

        Raises
        ------
        InputError, UnknownNameError
            A column that the class does not have, or a value that no row has.
        """
        kept = self.cases
        for column, value in equal.items():
            own = column in ("id", "group", *ORIGIN)
            if not own and not self.case_class.kind_of(column):
                known = sorted({name for c in self.cases for name in c.inputs})
                raise unknown_name(f"column of {self.case_class.name}", column, ["id", "group", *ORIGIN, *known])
            there = [getattr(c, column) if own else c.inputs.get(column) for c in self.cases]
            wanted = value if isinstance(value, (tuple, list)) else (value,)
            if not any(v in there for v in wanted):
                raise unknown_name(f"{column} of {self.case_class.name}", wanted[0], sorted(set(map(str, there))))
            kept = tuple(c for c in kept if (getattr(c, column) if own else c.inputs.get(column)) in wanted)
        if not kept:
            asked = ", ".join(f"{k} = {v}" for k, v in equal.items())
            raise InputError(f"{self.case_class.name}: no row has {asked}; leave one of them out")
        return CaseFile(self.name, self.case_class, kept)


def recognise(header: Sequence[str], file: str) -> CaseClass:
    """The class whose columns a header has.

    >>> recognise(["id", "group", "precision", "m", "n", "k", "measured_time_s"], "x.csv").name
    'gemm'
    """
    found = [c for c in CLASSES.values() if c.signature | {c.measured} <= set(header)]
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise InputError(f"{file}, line 1: the columns are parted by {name}; save the table with commas")
    if len(found) != 1:
        wanted = "; ".join(f"{c.name}: {', '.join(sorted(c.signature | {c.measured}))}" for c in CLASSES.values())
        raise InputError(
            f"{file}, line 1: the header fits {len(found) or 'no'} class{'es' if len(found) != 1 else ''} of cases; "
            f"name one with --class, or use the columns of one ({wanted})"
        )
    return found[0]


def read_cases(path: str | Path | Sequence[str | Path], class_name: str | None = None) -> CaseFile:
    """Read a case file of bounded size, or several of one class; every error names the file, the line and the column.

    Parameters
    ----------
    path : str, Path, or a sequence of them
        A CSV file with a header; of several, the rows of all, whose ids must differ. A group that stands in more than one
        file is one source.
    class_name : str, optional
        The class of its rows; recognised from the header unless given.

    Raises
    ------
    InputError, UnknownNameError
        A file that is not what it should be; files of different classes, or with an id in common; a class that does not exist.
    """
    if isinstance(path, (str, Path)):
        return _read_one(Path(path), class_name)
    if not path:
        raise InputError("read_cases: no file is given; name at least one, as in mine.csv")
    return join_cases([_read_one(Path(p), class_name) for p in path], [Path(p).parent.name for p in path])


def join_cases(files: Sequence[CaseFile], folders: Sequence[str] = ()) -> CaseFile:
    """The rows of several files of one class as one file; an id may stand in one of them only.

    Parameters
    ----------
    files : sequence of CaseFile
        At least one.
    folders : sequence of str
        The folder of each, for the joined name where two files have one name.
    """
    first = files[0]
    if len(files) == 1:
        return first
    where: dict[str, str] = {}
    alike = len({file.name for file in files}) < len(files)
    names = [f"{folder}/{f.name}" if alike and folder else f.name for f, folder in zip_longest(files, folders)]
    for file, name in zip(files, names, strict=True):
        if file.case_class != first.case_class:
            raise InputError(
                f"{name} holds rows of class {file.case_class.name} and {names[0]} of {first.case_class.name}; "
                "read files of one class together"
            )
        for case in file.cases:
            if where.setdefault(case.id, name) is not name:
                raise InputError(f"{name}: id {case.id[:60]!r} stands in {where[case.id]} too; a row counts once")
    return CaseFile(" + ".join(names), first.case_class, tuple(c for file in files for c in file.cases))


def _read_one(path: Path, class_name: str | None) -> CaseFile:
    if class_name is not None and class_name not in CLASSES:
        raise unknown_name("class of cases", class_name, CLASSES)
    text = read_text(path, MAX_FILE_BYTES, "the path of a CSV file", "split it")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [heading.strip().casefold() for heading in next(reader, [])]
        twice = {column for column, n in Counter(header).items() if n > 1}
        for column in header:
            if column in twice - {""}:  # spreadsheets write empty headings over columns that hold nothing
                raise InputError(f"{path.name}, line 1, column {column!r} stands there twice; remove one")
        kind = CLASSES[class_name] if class_name else recognise(header, path.name)
        for column in ("id", "group", kind.measured, *sorted(kind.signature)):
            if column not in header:
                raise InputError(f"{path.name}, line 1: a file of class {kind.name} needs a column {column!r}")
        cases: list[Case] = []
        line = reader.line_num + 1
        for cells in reader:
            if len(cases) >= MAX_ROWS:
                raise InputError(f"{path.name}, line {line}: more than {MAX_ROWS:,} rows; split the file")
            if any(cell.strip() for cell in cells):  # an empty line says nothing
                if len(cells) != len(header):
                    raise InputError(
                        f"{path.name}, line {line}, column {len(cells)}: {len(cells)} cells under {len(header)} headings; "
                        "quote a cell that holds a comma"
                    )
                cases.append(read_case(kind, dict(zip(header, cells, strict=True)), f"{path.name}, line {line}"))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path.name}, line {reader.line_num}, column 1: not valid CSV: {error}") from error
    if not cases:
        raise InputError(f"{path.name}, line 2: no row follows the header; a case file has at least one")
    twice = {identity for identity, n in Counter(case.id for case in cases).items() if n > 1}
    if twice:
        warnings.warn(
            f"{path.name}: id {min(twice)[:60]!r} stands in more than one row"
            + (f", and {len(twice) - 1} more ids do" if len(twice) > 1 else "")
            + "; each row counts, so give each an id of its own",
            stacklevel=2,
        )
    return CaseFile(path.name, kind, tuple(cases))


def read_case(kind: CaseClass, row: Mapping[str, str], where: str) -> Case:
    measured = _number(row[kind.measured], f"{where}, column {kind.measured!r}")
    if measured is None or measured <= 0:
        raise InputError(
            f"{where}, column {kind.measured!r}: {row[kind.measured][:40]!r} must be a measurement above zero"
        )
    tolerance = _number(row.get("tolerance", ""), f"{where}, column 'tolerance'")
    inputs = {
        column: read_cell(kind.kind_of(column), text.strip(), f"{where}, column {column!r}")
        for column, text in row.items()
        if kind.kind_of(column)
    }
    if "statistic" in kind.words and not inputs.get("statistic"):
        inputs["statistic"] = _statistic(row)
    origin = {column: row.get(column, "").strip() for column in ORIGIN}
    return Case(row["id"].strip(), row["group"].strip(), measured, tolerance, MappingProxyType(inputs), **origin)


def _statistic(row: Mapping[str, str]) -> str | None:
    """Which number of a run a row prints, where it says so in its own words and in no column."""
    words = " ".join(row.get(column, "") for column in _WORDS).casefold()
    found = {statistic for statistic in ("mean", "median") if re.search(rf"\b{statistic}\b", words)}
    return found.pop() if len(found) == 1 else None


def read_cell(kind: str, text: str, where: str) -> Any:
    if text == "":
        return None
    if kind == "numbers":
        return _number(text, where)
    if kind == "flags":
        if text.casefold() not in ("true", "false"):
            raise InputError(f"{where}: {text[:40]!r} is neither 'true' nor 'false'; leave the cell empty if unknown")
        return text.casefold() == "true"
    if kind == "words":
        return text.casefold()
    if kind == "objects":
        return _object(text, where)
    return text


def _number(text: str, where: str) -> float | None:
    text = text.strip()
    if text == "":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or "_" in text or not text.isascii():
        raise InputError(
            f"{where}: {text[:40]!r} is not a finite number of zero or more in SI units; leave the cell empty if unknown"
        )
    return value


def _object(text: str, where: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, where))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON: {str(error)[:80]}") from error
    if not isinstance(value, dict):
        raise InputError(f'{where}: {text[:40]!r} is not a JSON object; write {{"name": value}}')
    for name, entry in value.items():
        _check_entry(name, entry, where)
    return MappingProxyType(value)


def _once(pairs: Sequence[tuple[str, Any]], where: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise InputError(f"{where}: {twice[:40]!r} stands there twice; keep one")
    return found


def _check_entry(name: str, entry: Any, where: str, depth: int = 0) -> None:
    """Numbers, texts and truths; lists and objects of numbers may stand one level deep."""
    if isinstance(entry, bool) or entry is None or isinstance(entry, str):
        return
    if isinstance(entry, (list, dict)) and depth < 2 and len(entry) <= MAX_ENTRIES:
        for part in entry.values() if isinstance(entry, dict) else entry:
            _check_entry(name, part, where, depth + 1)
        return
    if not isinstance(entry, (int, float)) or not 0 <= entry < 1e30:  # no comparison holds for NaN
        raise InputError(f"{where}: {name[:40]!r} is not a finite number of zero or more, a text or true/false")
