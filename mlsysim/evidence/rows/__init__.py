"""The measurements that ship: one table per class, each row with its set, its source and the place in it (``README.md``).

Only files of this folder are read; rows of your own are read by :func:`mlsysim.evidence.cases.read_cases`.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import InputError, unknown_name
from mlsysim.evidence.cases import CLASSES, Case, CaseClass, CaseFile
from mlsysim.evidence.cases.reader import case_class, read_case, read_cell
from mlsysim.results import Result, format_rows

__all__ = ["SETS", "TABLES", "RowCount", "Source", "cases", "counts", "row_table", "sources"]

SETS = ("first", "second", "third")  # by when they came: each edition of the library had not seen the set after its own
_KERNEL = "measured_time_s printed_mfu "
# What no class of cases is made of: kernels by the thousand, what servers hold, and requests one by one.
_OTHERS = (
    case_class("kernel_products", "measured_time_s", "", numbers=_KERNEL + "m n k", texts="device"),
    case_class(
        "kernel_experts",
        "measured_time_s",
        "",
        numbers=_KERNEL + "experts devices local_experts top_k hidden moe_ffn tokens tokens_per_expert",
        texts="device phase part",
    ),
    case_class(
        "kernel_attention",
        "measured_time_s",
        "",
        numbers=_KERNEL + "tp batch q_len kv_len q_heads kv_heads head_dim kv_lora_rank rope_dim selected",
        texts="device kind phase kv_precision",
    ),
    case_class(
        "server_starts",
        "requested_bytes",
        "",
        numbers="tp pp max_model_len max_num_batched_tokens max_num_seqs gpu_memory_utilization device_total_bytes "
        "init_free_bytes requested_bytes weights_bytes peak_activation_bytes non_torch_bytes cuda_graph_bytes "
        "kv_cache_bytes kv_cache_tokens num_blocks",
        flags="enforce_eager",
        texts="name model architecture vllm_version device dtype quantization kv_cache_dtype attention_backend "
        "weights_gib_by_rank activation_gib_by_rank non_torch_gib_by_rank",
    ),
    case_class(
        "requests",
        "e2e_s",
        "",
        numbers="arrival_s input_len output_len cached_len queue_s prefill_s ttft_s itl_s e2e_s client_ttft_s "
        "client_itl_s client_e2e_s",
        texts="run",
    ),
)
# Tables by name; both columns of the points of servers stand in one file.
TABLES: Mapping[str, CaseClass] = MappingProxyType(dict(CLASSES) | {c.name: c for c in _OTHERS})
_FILES = {"serving_tpot": "serving", "serving_ttft": "serving"}
_SHAPED = ("training_step", "inference")  # classes whose models have their shapes in shapes.csv


@dataclass(frozen=True)
class Source(Result):
    """Where rows were read."""

    name: str
    title: str
    address: str
    licence: str  # of a table that was taken as a whole; empty where single figures were read
    month: str  # of publication; empty where it is not known
    dated: str  # how that was found out
    cite: str  # key in references.bib, if the book cites it


@dataclass(frozen=True)
class Withdrawn(Result):
    """A row that is no longer read; README.md says what each reason means and how it was found."""

    table: str
    id: str
    since: str
    why: str


@dataclass(frozen=True)
class RowCount(Result):
    """How many rows a table has, and of how many sources."""

    name: str
    rows: int
    sources: int
    sets: Mapping[str, int]

    def summary(self) -> list[str]:
        sets = ", ".join(f"{n} {name}" for name, n in self.sets.items())
        return format_rows(f"{self.name}: {self.rows} rows of {self.sources} sources", ("sets", sets))


@cache
def _texts(file: str) -> tuple[Mapping[str, str], ...]:
    """The cells of a file of this folder, without the rows that were withdrawn."""
    found, out = _read(file), withdrawn().get(file, {})
    return tuple(row for row in found if row["id"] not in out) if out else found


@cache
def withdrawn() -> Mapping[str, Mapping[str, Withdrawn]]:
    """Rows that stand in a file and are no longer read, by file and id: what was wrong with each, and since when."""
    found: dict[str, dict[str, Withdrawn]] = {}
    for raw in _read("withdrawn"):
        found.setdefault(raw["table"], {})[raw["id"]] = Withdrawn(**raw)
    return MappingProxyType({file: MappingProxyType(of) for file, of in found.items()})


def _read(file: str) -> tuple[Mapping[str, str], ...]:
    text = (files(__package__) / f"{file}.csv").read_text(encoding="utf-8")
    found = tuple(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    for line, row in enumerate(found, 2):
        if None in row or None in row.values():
            raise InputError(
                f"{file}.csv, line {line}: another number of cells than headings; quote what holds a comma"
            )
    return found


@cache
def sources() -> Mapping[str, Source]:
    """Every source of a row, by its name.

    >>> sources()["KORT"].month
    '2022-05'
    """
    found = {raw["source"]: Source(raw["source"], *list(raw.values())[1:]) for raw in _texts("sources")}
    return MappingProxyType(found)


@cache
def _shapes() -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Shapes by model and by the one source that has it otherwise, "" for all."""
    found = {(row["model"], row["source"]): dict(list(row.items())[2:]) for row in _texts("shapes")}
    return MappingProxyType(found)


def _whole(name: str, row: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row with what its file does not repeat: the shape of its model, and its source as its group."""
    whole = {"group": row["source"], **row}
    if name in _SHAPED:
        known = _shapes()
        whole |= known.get((row["model"], row["source"])) or known[row["model"], ""]
        whole["active_params"] = row["active_params"] or row["params"]  # dense
    return whole


@cache
def _all(name: str) -> CaseFile:
    file = _FILES.get(name, name)
    kind = CLASSES[name]
    found: list[Case] = []
    for line, row in enumerate(_texts(file), 2):
        case = read_case(kind, _whole(name, row), f"{file}.csv, line {line}")
        if case.set not in SETS or case.source not in sources():
            raise InputError(f"{file}.csv, line {line}: set {case.set!r} or source {case.source!r} is not one of ours")
        found.append(case)
    return CaseFile(f"shipped rows of {name}", kind, tuple(found))


def cases(class_name: str, **equal: Any) -> CaseFile:
    """The shipped rows of a class of cases, as predictors and scores take them.

    Parameters
    ----------
    class_name : str
        A name of ``evidence.cases.CLASSES``.
    **equal
        Columns with the value, or one of the values, that they shall have: ``set``, ``source``, ``group``, or any input.

    Raises
    ------
    InputError, UnknownNameError
        A class or a column that does not exist, or values that no row has.

    >>> cases("gemm", set="first", source="AZURE", device="A100-SXM4-80GB").cases[0].id
    'HW0021'
    """
    if class_name not in CLASSES:
        raise unknown_name("class of cases", class_name, CLASSES)
    return _all(class_name).select(**equal) if equal else _all(class_name)


def row_table(name: str) -> Iterator[dict[str, Any]]:
    """The rows of any table that ships, as its file has them: numbers as numbers, an empty cell as None.

    Parameters
    ----------
    name : str
        A name of ``TABLES``.

    >>> next(row_table("kernel_products"))["measured_time_s"]
    1.063e-05
    """
    if name not in TABLES:
        raise unknown_name("table of rows", name, TABLES)
    kind, file = TABLES[name], _FILES.get(name, name)
    for line, row in enumerate(_texts(file), 2):
        yield {
            column: read_cell(_kind(kind, column), text, f"{file}.csv, line {line}, column {column!r}")
            for column, text in row.items()
        }


def _kind(kind: CaseClass, column: str) -> str:
    return kind.kind_of(column) or ("numbers" if column.startswith("measured") or column == "tolerance" else "texts")


@cache
def counts() -> tuple[RowCount, ...]:
    """How many rows each table has.

    >>> [c.rows for c in counts() if c.name == "kernel_products"]
    [624]
    """
    found = []
    runs = shipped_toml(__package__, "runs.toml")
    for name in TABLES:
        rows = [row | runs[row["run"]] if "run" in row else row for row in _texts(_FILES.get(name, name))]
        sets = Counter(row.get("set", SETS[0]) for row in rows)
        groups = len({row["source"] for row in rows})
        found.append(RowCount(name, len(rows), groups, MappingProxyType({s: sets[s] for s in SETS if sets[s]})))
    return tuple(found)
