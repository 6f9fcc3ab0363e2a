"""The simplest rule of each class, as a judge: what anybody could say in a minute, on the same rows as we.

Most rules have their numbers fixed beforehand, as they were written down with the third set of rows before anything was predicted.
Two take a share from the measurements, the median over the *other* sources, those of the same generation where there are any.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from mlsysim import catalog, collectives, flops, memory, units
from mlsysim.catalog import Device
from mlsysim.errors import MlsysimError
from mlsysim.evidence.cases import CaseFile
from mlsysim.evidence.metrics import signed_error
from mlsysim.evidence.predictors import serving
from mlsysim.evidence.predictors.base import Row, Unsupported
from mlsysim.evidence.predictors.training_rows import step_of
from mlsysim.evidence.reality.simple import roofline
from mlsysim.evidence.scoring.baselines import model_time
from mlsysim.evidence.scoring.domains import domain_of
from mlsysim.evidence.scoring.report import Report, ScoredRow, Summary, summarise
from mlsysim.memory.serving import checkpoint
from mlsysim.results import Result

Inputs = Mapping[str, Any]
_BYTES, _PROMPTS = 0.7, 0.4  # of the bandwidth, and of the peak
_STEP, _FIRST = 6e-3, 0.1  # s of a step and of a first token beside the kernels
_DIGITS = 6
_STATE, _WRITTEN = 16.0, 14.0  # bytes of a parameter in training and in a checkpoint
_FORMATS = {"16-bit": (2.0, "bf16"), "8-bit": (1.0, "fp8"), "4-bit": (0.5, "fp4"), "4-bit weights": (0.5, "bf16")}
_KEPT = {"none": 34.0, "selective": 34.0, "full": 2.0}  # bytes of a layer, token and hidden feature


@dataclass(frozen=True)
class Rule(Result):
    """A rule in words, and what it says of a row; over a share of the others where ``fitted``."""

    text: str
    says: Callable[[Inputs], float]
    fitted: bool = False

    @property
    def share(self) -> str:
        """Where its share is from."""
        return "median of the other sources" if self.fitted else "fixed beforehand"


def _filled(inputs: Inputs) -> dict[str, Any]:
    """A row's inputs with what an empty cell means for a roofline, the catalogue's peaks among it."""
    row = {name: value for name, value in inputs.items() if value is not None}
    device = Row(inputs).device
    if device is not None:
        precision = row.get("precision") or row.get("compute_precision") or "bf16"
        if device.has(f"peak_flops.{precision}"):
            row.setdefault("peak_flops", device.peak_flops[precision])
        row.setdefault("hbm_bandwidth", device.memory_bandwidth)
        if device.has("scale_up_bandwidth"):
            row.setdefault("intra_node_bandwidth", device.scale_up_bandwidth)
    if "heads" in row:
        row.setdefault("head_dim", row["hidden"] / row["heads"])
        row.setdefault("kv_heads", row["heads"])
    if "params" in row:
        row.setdefault("active_params", row["params"])
    if "head_dim" in row:
        row.setdefault("v_head_dim", row["head_dim"])
    for name, value in (("groups", 1.0), ("ranks_per_node", row.get("n_ranks")), ("batch", 1.0), ("n_devices", 1.0)):
        row.setdefault(name, value)
    row.setdefault("inter_node_bandwidth", row.get("intra_node_bandwidth"))
    return row


def _at(inputs: Inputs, products: float, traffic: float) -> dict[str, Any]:
    """A row on a device of so much of its peak and of its bandwidth."""
    row = _filled(inputs)
    rates = {"peak_flops": products, "hbm_bandwidth": traffic}
    return row | {name: row[name] * share for name, share in rates.items() if row.get(name)}


def _collective(inputs: Inputs) -> float:
    row = _filled(inputs)
    crosses = row["n_ranks"] > row["ranks_per_node"]
    link = 0.9 * row["inter_node_bandwidth" if crosses else "intra_node_bandwidth"]
    if row["op"] == "all_reduce":
        return float(collectives.ring_all_reduce(row["bytes"], row["n_ranks"], link, 5e-6))
    if row["op"] in ("all_gather", "reduce_scatter"):
        return float(collectives.ring_all_gather(row["bytes"], row["n_ranks"], link, 5e-6))
    return float(collectives.transfer_time(row["bytes"], link, 5e-6))


def _memory(inputs: Inputs) -> float:
    """Weights and state, what the backward pass needs, and the cache."""
    row = Row(inputs["inputs"])
    kind, n = inputs["kind"], row.number("params")
    if kind == "checkpoint":
        return n * _WRITTEN
    if kind == "inference_total":
        weights = row.number("weight_bytes") if row.has("weight_bytes") else n * row.optional("weight_dtype_bytes", 2.0)
        if not row.has("layers"):
            return weights
        tokens = row.number("input_len") + row.optional("output_len", 0.0)
        shape = (
            row.number("layers"),
            row.optional("batch", 1.0),
            tokens,
            row.number("kv_heads"),
            row.number("head_dim"),
        )
        return weights + float(memory.kv_cache(*shape, row.optional("kv_dtype_bytes", 2.0)))
    if kind != "training_peak":
        raise Unsupported("a closed form: the rule is the same equation")
    tp, pp, cp, dp = (row.optional(name, 1.0) for name in ("tp", "pp", "cp", "dp"))
    state = n * _STATE / (tp * pp) / (dp * cp if row.inputs.get("sharding") not in (None, "none") else 1.0)
    tokens = row.number("seq") * row.optional("micro_batch", 1.0) / (tp * cp)
    kept = _KEPT[str(row.inputs.get("recompute") or "none")] * tokens * row.number("hidden") * row.number("layers")
    return state + kept  # a first stage keeps as many micro-batches as there are stages


def _power(inputs: Inputs) -> float:
    if inputs["quantity"] != "device_power_fraction":
        raise Unsupported("no power of devices")
    return 1.0


def pool(row: Row, side: str) -> tuple[float, float]:
    """Devices of all replicas of a pool, and its replicas."""
    degree = [row.optional(f"{side}{name}", 1.0) for name in ("tp", "moe_tp", "moe_ep")]
    attention_dp = row.number(f"{side}attention_dp") if row.has(f"{side}attention_dp") else None
    workers = row.optional(f"{side}workers", 1.0)
    return workers * serving.degrees_of(degree[0], attention_dp, *degree[1:]).devices, workers


def _format(row: Row, device: Device) -> tuple[float, str]:
    """Bytes of a weight, and what products run in."""
    each, products = _FORMATS[domain_of("serving_tpot", row.inputs)["precision"]]
    return each, products if device.has(f"peak_flops.{products}") else "bf16"


def _prompt(row: Row, prefix: str) -> float:
    """Seconds of one prompt on all devices of a pool."""
    model, device = checkpoint(str(row.need("model")))[0], catalog.device(str(row.need("device")))
    work = float(flops.forward_matmul_flops(flops.active_parameters(model))) * row.number("input_len")
    return work / (_PROMPTS * device.peak_flops[_format(row, device)[1]] * pool(row, prefix)[0])


def _prefix(row: Row, pool: str) -> str:
    return f"{pool}_" if "disagg" in str(row.need("mode")) else ""


def _tpot(inputs: Inputs) -> float:
    row = Row(inputs)
    model, device, prefix = (
        checkpoint(str(row.need("model")))[0],
        catalog.device(str(row.need("device"))),
        _prefix(row, "decode"),
    )
    (devices, replicas), (each, _) = pool(row, prefix), _format(row, device)
    batch, answer = row.number("concurrency") / replicas, row.number("output_len")
    weights = min(flops.matmul_parameters(model), batch * flops.active_parameters(model)) * each
    cache = float(memory.kv_cache_of(model, batch, row.number("input_len") + answer / 2.0))
    reading = (weights + cache) * replicas / (_BYTES * device.memory_bandwidth * devices)
    return _STEP + reading + (0.0 if prefix else batch * _prompt(row, prefix) / answer)


def _ttft(inputs: Inputs) -> float:
    row = Row(inputs)
    return _FIRST + _prompt(row, _prefix(row, "prefill"))


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "training_step": Rule(
            "one MFU per generation, attention counted", lambda r: model_time(step_of(Row(r))), fitted=True
        ),
        "inference": Rule(
            "bytes at 70 % of the bandwidth, products at half the peak",
            lambda r: roofline("inference", _at(r, 0.5, _BYTES)),
        ),
        "gemm": Rule("roofline over 0.64, and 4 µs", lambda r: roofline("gemm", _filled(r)) / 0.64 + 4e-6),
        "attention": Rule("roofline over 0.70", lambda r: roofline("attention", _filled(r)) / 0.70),
        "collective": Rule("5 µs a hop, and 0.9 of the link", _collective),
        "memory": Rule("16 bytes a parameter and 34 a kept feature, or weights and cache", _memory),
        "scalar": Rule("one share of the design power", _power, fitted=True),
        "serving_tpot": Rule("bytes at 70 %, prompts at 40 %, and 6 ms a step", _tpot),
        "serving_ttft": Rule("0.1 s, and the prompt at 40 % of the peak", _ttft),
    }
)


def says(name: str, inputs: Inputs) -> float | None:
    """What the rule of a class says of a row, before any share; nothing where it says nothing.

    >>> says("scalar", {"quantity": "mtbf"}), says("scalar", {"quantity": "device_power_fraction"})
    (None, 1.0)
    """
    try:
        found = float(RULES[name].says(inputs))
    except (KeyError, TypeError, ValueError, MlsysimError):
        return None
    return found if found > 0 else None


@dataclass(frozen=True)
class RuleScore(Result):
    """The simplest rule of a class beside ours, each without the row's source, on the rows of which the rule says something."""

    text: str
    share: str  # where its share is from
    rows: int
    error: float | None = None  # nothing where the rule says nothing
    ours: float | None = None

    def line(self) -> str:
        """The rule, its error and ours; nothing where it says nothing."""
        if self.error is None or self.ours is None:
            return ""
        errors = [units.percent(e, signed=False) for e in (self.error, self.ours)]
        return f"simplest rule: {errors[0]} where ours is {errors[1]}, on {self.rows} rows ({self.text}; {self.share})"


class Beside(NamedTuple):
    """The simplest rule of a class beside ours, on the rows of which the rule says something."""

    simple: Summary
    ours: Summary


def score_rule(file: CaseFile, ours: Report) -> Beside | None:
    """The rule of a class and our scored rows of the same file; nothing where the rule says nothing.

    A share is the median of measured over said in the other sources, those of the same generation where there are any. Without
    another source a rule with a share says nothing.
    """
    name = file.case_class.name
    rule = RULES[name]
    said = [(c, value) for c in file.cases if (value := says(name, c.inputs)) is not None]
    places = {c.id: domain_of(name, c.inputs)["generation"] for c, _ in said}
    rows = []
    for case, value in said:
        others = [(c, v) for c, v in said if c.group != case.group]
        if rule.fitted and not others:
            continue
        alike = [(c, v) for c, v in others if places[c.id] == places[case.id]] or others
        predicted = value * statistics.median(c.measured / v for c, v in alike) if rule.fitted else value
        error = float(signed_error(predicted, case.measured))
        rows.append(ScoredRow(case.id, case.group, case.measured, predicted, error, True, "", ()))
    if not rows:
        return None
    by_id, tolerances = {r.id: r for r in ours.rows}, {c.id: c.tolerance for c in file.cases}
    kept = [tolerances[r.id] for r in rows]
    return Beside(summarise(rows, kept), summarise([by_id[r.id] for r in rows], kept))


def rule_score(name: str, found: Beside | None) -> RuleScore:
    """Both errors of a class and what the rule is."""
    rule = RULES[name]
    if found is None:
        return RuleScore(rule.text, rule.share, 0)
    errors = [round(s.mape_mean_over_groups, _DIGITS) for s in found]
    return RuleScore(rule.text, rule.share, found.simple.n, *errors)
