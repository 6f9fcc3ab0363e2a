"""The published rows as cases: read from this folder's tables, completed from the catalogue, converted to SI."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any

from mlsysim import catalog, flops
from mlsysim.catalog import Model, fabrics
from mlsysim.catalog.sourced import read_toml, shipped_toml
from mlsysim.errors import InputError, unknown_name
from mlsysim.evidence.cases import CLASSES, TABLED, Case, CaseFile
from mlsysim.evidence.reality.conversions import measured
from mlsysim.results import Result
from mlsysim.transformer import parameter_count

_ABOUT = ("group", "source", "where", "read", "metric", "tolerance", "conditions", "note", "printed")
_READ = ("primary", "secondary")
# The ten categories of checks that rooflinepage2026, sec. 6, lists, and which rows belong to each.
CATEGORIES = (
    "parameters",
    "training memory",
    "activation memory",
    "KV cache",
    "ridge points",
    "decode throughput",
    "time-to-train",
    "bubble",
    "NVLink crossing",
    "bottleneck class",
)
_CATEGORY = {
    "params": "parameters",
    "param_count": "parameters",
    "model_state": "training memory",
    "model_state_bytes": "training memory",
    "training_peak": "training memory",
    "activation_layer": "activation memory",
    "activation_stage": "activation memory",
    "kv_cache": "KV cache",
    "kv_cache_per_token": "KV cache",
    "ridge_point": "ridge points",
    "critical_batch": "ridge points",
    "decode_step": "decode throughput",
    "training_time": "time-to-train",
    "training_time_from_throughput": "time-to-train",
    "training_device_time": "time-to-train",
    "pipeline_bubble_fraction": "bubble",
    "tp_slowdown": "NVLink crossing",
    "bottleneck": "bottleneck class",
}


@dataclass(frozen=True)
class PublishedRow(Result):
    """One published figure: the case that is scored, and where it comes from."""

    case: Case
    case_class: str
    model: str
    printed: float
    metric: str
    source: str  # key in references.bib
    where: str
    read: str  # "primary": we read the figure there; "secondary": in somebody else's transcription of it
    conditions: str

    def _title(self) -> str:
        return f"{self.case.id}: {self.model}, {self.printed:.4g} {self.metric}"

    @property
    def category(self) -> str:
        """Which of the ten categories the row checks; empty when none of them."""
        inputs = self.case.inputs
        kind = inputs.get("kind") if self.case_class == "memory" else inputs.get("quantity") or inputs.get("phase")
        return _CATEGORY.get(str(kind), "") if self.case_class in ("memory", "scalar", "inference") else ""


@cache
def rows(class_name: str) -> tuple[PublishedRow, ...]:
    """All published rows of a class, in the order of its file.

    >>> rows("gemm")[0].case.id
    'AZURE-01'
    """
    if class_name not in TABLED:
        raise unknown_name("class of the shipped table", class_name, TABLED)
    file = f"{class_name}.toml"
    found: list[PublishedRow] = []
    taken: dict[str, int] = {}
    for table in _tables(file):
        for raw in _records(table, file):
            group = raw["group"]
            taken[group] = taken.get(group, 0) + 1
            found.append(_row(class_name, f"{group}-{taken[group]:02d}", raw, file))
    return tuple(found)


def case_file(class_name: str) -> CaseFile:
    """The rows of a class as :func:`mlsysim.evidence.scoring.score` takes them.

    >>> case_file("collective").case_class.name
    'collective'
    """
    return CaseFile("reality checks", CLASSES[class_name], tuple(r.case for r in rows(class_name)))


def _tables(file: str) -> list[Mapping[str, Any]]:
    with as_file(files(__package__) / file) as path:
        return list(read_toml(path)["table"])


def _records(table: Mapping[str, Any], file: str) -> Iterator[dict[str, Any]]:
    """The rows of a table as records; an empty cell is left out, fields of the table stand in every row."""
    shared = {k: v for k, v in table.items() if k not in ("common", "columns", "rows", "inputs")} | table.get(
        "common", {}
    )
    for cells in table["rows"]:
        if len(cells) != len(table["columns"]):
            raise InputError(
                f"{file}, {table['group']}: {len(cells)} cells under {len(table['columns'])} columns: {cells}"
            )
        record = shared | {k: v for k, v in zip(table["columns"], cells, strict=True) if v != ""}
        if "inputs" in table:
            record["inputs"] = {**table["inputs"], **record.get("inputs", {})}
        yield record


def _row(class_name: str, name: str, raw: Mapping[str, Any], file: str) -> PublishedRow:
    where = f"{file}, {name}"
    for key in ("group", "source", "where", "read", "metric", "tolerance", "printed"):
        if key not in raw:
            raise InputError(f"{where}: no {key!r}; every row states it, or its table does")
    if raw["read"] not in _READ:
        raise InputError(f"{where}: read = {raw['read']!r} is not one of {', '.join(_READ)}")
    inputs: dict[str, Any] = {k: v for k, v in raw.items() if k not in _ABOUT}
    model = None
    if class_name in ("training_step", "inference"):
        model = _model(inputs["model"])
        inputs = _shape(model, inputs["model"]) | _machine(inputs) | _layout(class_name, inputs)
    elif class_name in ("gemm", "attention"):
        inputs |= _device(inputs["device"], inputs["precision"])
    elif class_name == "collective":
        inputs.setdefault("intra_node_bandwidth", catalog.device(inputs["device"]).scale_up_bandwidth)
    inputs = {k: float(v) if isinstance(v, int) and not isinstance(v, bool) else v for k, v in inputs.items()}
    if "inputs" in inputs:
        inputs["inputs"] = MappingProxyType(inputs["inputs"])
    value = measured(raw["metric"], float(raw["printed"]), inputs, model)
    case = Case(name, raw["group"], value, float(raw["tolerance"]), MappingProxyType(inputs))
    conditions = "; ".join(x for x in (raw.get("conditions", ""), raw.get("note", "")) if x)
    label = str(raw.get("model") or raw.get("op") or raw.get("kind") or "product")
    figures = (float(raw["printed"]), raw["metric"], raw["source"], raw["where"], raw["read"])
    return PublishedRow(case, class_name, label, *figures, conditions)


@cache
def shapes() -> Mapping[str, Model]:
    """Shapes that the rows need and the catalogue does not hold.

    >>> shapes()["GPT 22B"].n_layers
    48
    """
    raw = shipped_toml(__package__, "shapes.toml")
    found = {}
    for cells in raw["rows"]:
        sizes = dict(zip(raw["columns"], cells, strict=True))
        name = sizes.pop("model")
        found[name] = catalog.decoder(name, **sizes | {"vocab": sizes["vocab"] or 1})
    return MappingProxyType(found)


def _model(name: str) -> Model:
    return shapes()[name] if name in shapes() else catalog.model(name)


def _shape(m: Model, name: str) -> dict[str, Any]:
    """The shape columns of a case; a part that the model does not have is an empty cell."""
    core, shared = m.core, [o.copies for _, o in m.products("shared_experts", "up")]
    near = [(n, one.window) for n, one in m.cores if one.window]
    sizes: dict[str, float] = {
        **{column: getattr(m, column) for column in ("hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab")},
        **{column: getattr(m, column) for column in ("n_experts", "top_k", "moe_ffn")},
        "layers": m.n_layers,
        "n_shared_experts": shared[0] if shared else 0,
        "n_dense_layers": m.n_mlp_layers - m.n_moe_layers if m.is_moe else 0,
        "q_lora_rank": m.rank("q_down"),
        "kv_lora_rank": core.latent_v if core else 0,
        "qk_rope_head_dim": core.rope_dim if core else 0,
        "attn_window": near[0][1] if near else 0,
        "n_windowed_layers": sum(n for n, _ in near),
    }
    sizes = {column: value for column, value in sizes.items() if value}
    if m.vocab == 1:  # a single layer, without an embedding
        sizes["vocab"] = 0.0
    counted = {"params": parameter_count(m).total, "active_params": flops.active_parameters(m)}
    flags = {"gated_mlp": m.gated_mlp, "tied_embeddings": m.tied_embeddings, "attn_type": m.attention}
    return {"model": name, **counted, **sizes, **flags}


def _device(name: str, precision: str) -> dict[str, Any]:
    """Peak at a precision and bandwidth of the catalogue's device, as far as it has them."""
    device = catalog.device(name)
    peak = f"peak_flops.{precision.removeprefix('mx')}"
    pairs = {"peak_flops": peak, "hbm_bandwidth": "memory_bandwidth"}
    return {column: device.fields[field].value for column, field in pairs.items() if device.has(field)}


def _machine(inputs: Mapping[str, Any]) -> dict[str, Any]:
    device = catalog.device(inputs["device"])
    found = _device(device.name, inputs.get("precision") or inputs.get("compute_precision") or "")
    if device.has("memory_capacity"):
        found["hbm_bytes"] = device.memory_capacity
    if "node" in inputs:
        node = fabrics.nodes()[inputs["node"]]
        found |= {
            "devices_per_node": node.domain,
            "intra_node_bandwidth": node.scale_up_bandwidth,
            "inter_node_bandwidth": node.scale_out_bandwidth,
        }
    return found


def _layout(class_name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The row's own columns; the data-parallel degree is what the other degrees leave."""
    own = {k: v for k, v in inputs.items() if k not in ("model", "node")}
    if class_name == "training_step":
        own.setdefault("task", "pretrain")
        if "tp" in own:
            own.setdefault("pp", 1)
            own.setdefault("cp", 1)
            own["dp"] = own["n_devices"] / (own["tp"] * own["pp"] * own["cp"])
    return own
