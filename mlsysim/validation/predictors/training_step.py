"""Class training_step: one optimizer step of a dense or mixture transformer on many devices.

The time is the sum of ``training.step_terms``. Fitted are at most fifteen constants, each tied to a class: the share of
the peak that products and attention reach per generation of devices, and what software costs everywhere (traffic
between products, links, start-up per layer, overlaps). A generation without a like in the rows of the fit takes the
sourced share instead. Without constants (datasheet mode) everything is sourced, counted or the bound.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim import training
from mlsysim.training import Efficiencies, Layout, Machine, Work
from mlsysim.validation.checks import gemm_efficiency, stream_efficiency
from mlsysim.validation.fitting import gauss_newton
from mlsysim.validation.predictors.base import Constants, Prediction, Predictor, Row, Sample, Unsupported, element_bytes

_MEASURED = {"Ampere": "a100", "Hopper": "h100"}  # generations whose products and STREAM others measured
# korthikanti2022recompute, sec. 4.1: a layer keeps 34 bytes per token and hidden unit; each is written and read once,
# which makes 34 passes over 16-bit elements.
_COUNTED_PASSES = 34.0
# Layers per model chunk where a row names a pipeline but no schedule: the median of the rows that name one.
_CHUNK = 2
# Physical range of every fitted constant, and where its fit starts.
_RANGES = {
    "gemm": (0.3, 0.9, 0.7),
    "attention": (0.1, 0.75, 0.45),
    "elementwise": (5.0, 90.0, 30.0),
    "link": (0.4, 0.95, 0.8),
    "layer_overhead": (1e-6, 1e-3, 1e-4),
    "selective_recompute": (0.0, 1.0, 0.4),
    "tp_overlap": (0.0, 0.95, 0.3),
    "dp_overlap": (0.0, 1.0, 0.8),
}
_SOFTWARE = ("elementwise", "link", "layer_overhead", "selective_recompute", "tp_overlap", "dp_overlap")


@dataclasses.dataclass(frozen=True)
class _Step:
    """A row in the terms of the solver."""

    work: Work
    layout: Layout
    machine: Machine
    family: str  # whose constants apply: generation (all TPUs are one)
    products: str  # the same, by width of precision
    memory: float


def _family(row: Row) -> str:
    device = row.device
    if device is None:
        return ""
    return "TPU" if device.kind == "tpu" else row.generation


def _work(row: Row) -> Work:
    h, heads, layers = row.number("hidden"), row.number("heads"), row.number("layers")
    head = row.number("head_dim") if row.has("head_dim") else h / heads
    kv_heads = float(row.or_assume("kv_heads", heads, "multi-head"))
    ffn = float(row.inputs.get("ffn") or 0.0)
    matrices = 3.0 if row.or_assume("gated_mlp", True) else 2.0
    vocab = row.number("vocab")
    latent = float(row.inputs.get("kv_lora_rank") or 0.0)
    if latent:
        rope, rank = float(row.inputs.get("qk_rope_head_dim") or 0.0), float(row.inputs.get("q_lora_rank") or 0.0)
        query = heads * (head + rope)
        attention = (h * rank + rank * query) if rank else h * query
        attention += h * (latent + rope) + 2.0 * latent * heads * head + heads * head * h
        width, kv = heads * (head + rope / 2.0), 2.0 * heads * head
    else:
        attention, width, kv = 2.0 * h * head * (heads + kv_heads), heads * head, 2.0 * kv_heads * head
    experts = float(row.inputs.get("n_experts") or 0.0)
    one, active, routed, mixed, top_k = 0.0, 0.0, 0.0, 0.0, 0.0
    if experts:
        mixed = 1.0 - float(row.inputs.get("n_dense_layers") or 0.0) / layers
        one = matrices * h * float(row.or_assume("moe_ffn", ffn, "as the dense MLP"))
        top_k = row.number("top_k")
        active, routed = mixed * top_k * one, mixed * experts * one
    shared = float(row.inputs.get("n_shared_experts") or 0.0)
    dense = (1.0 - mixed) * matrices * h * ffn + mixed * (shared * one + h * experts)
    tables = 1.0 if row.or_assume("tied_embeddings", True) else 2.0
    return Work(
        layers=layers,
        hidden=h,
        dense_params=attention + dense,
        mlp_width=0.0,
        attention_width=width,
        kv_width=kv,
        vocab=vocab,
        embedding_params=vocab * h * tables,
        active_expert_params=active,
        expert_params=routed,
        top_k=mixed * top_k,
    )


def _layout(row: Row, layers: float) -> Layout:
    n = row.number("n_devices")
    if row.has("tp"):
        tp, pp = row.number("tp"), float(row.or_assume("pp", 1.0))
        cp, dp = float(row.or_assume("cp", 1.0)), row.inputs.get("dp")
        dp = n / (tp * pp * cp) if dp is None else float(dp)
    else:
        tp = min(n, float(row.or_assume("devices_per_node", 8.0)))
        pp, cp, dp = 1.0, 1.0, n / tp
        row.assume("tp", tp, "layout not stated: tensor parallel inside a node, data parallel across")
    if min(tp, pp, cp, dp) < 1:
        raise Unsupported("a parallel degree is below 1")
    seq, batch = row.number("seq"), row.number("global_batch")
    stages = 1.0
    if row.has("virtual_stages"):
        stages = row.number("virtual_stages")
    elif pp > 1:
        stages = max(1.0, float(math.ceil(layers / pp) // _CHUNK))
        row.assume("virtual_stages", stages, f"interleaved, {_CHUNK} layers a chunk")
    recompute = row.or_assume("recompute", "none")
    sharding = str(row.or_assume("sharding", "zero1"))
    group = dp * cp
    node = float(row.inputs.get("devices_per_node") or 8.0)
    shards = {"zero3/fsdp": group, "hsdp": min(group, node)}.get(sharding, 1.0)
    attended = float(row.inputs.get("attn_len") or seq)
    keys = attended / 2.0  # causal
    window, windowed = float(row.inputs.get("attn_window") or 0.0), float(row.inputs.get("n_windowed_layers") or 0.0)
    if 0 < window < attended:
        seen = window - window**2 / (2.0 * attended)
        keys += windowed / layers * (seen - keys)
    return Layout(
        global_batch=batch,
        seq=seq,
        micro_batch=float(row.or_assume("micro_batch", 1.0, "the usual value")),
        tp=tp,
        pp=pp,
        cp=cp,
        dp=dp,
        ep=float(row.inputs.get("ep") or 1.0),
        virtual_stages=stages,
        sequence_parallel=float(bool(row.or_assume("seq_parallel", True))),
        recompute_full=float(recompute == "full"),
        recompute_selective=float(recompute == "selective"),
        weight_shards=shards,
        optimizer_shards=1.0 if sharding == "none" else group,
        attended=keys,
        weight_gradients=0.0 if row.inputs.get("task") == "lora" else 1.0,
    )


def _machine(row: Row) -> Machine:
    precision = row.need("precision")
    peak = row.rate("peak_flops", f"peak_flops.{precision.removeprefix('mx')}")
    intra = row.rate("intra_node_bandwidth", "scale_up_bandwidth")
    inter = float(row.or_assume("inter_node_bandwidth", intra, "one network"))
    narrow = element_bytes(precision) < training.ELEMENT_BYTES
    return Machine(
        peak_flops=peak,
        half_peak_flops=peak / 2.0 if narrow else peak,
        memory_bandwidth=row.rate("hbm_bandwidth", "memory_bandwidth"),
        intra_bandwidth=intra,
        inter_bandwidth=inter,
        domain=float(row.or_assume("devices_per_node", 8.0)),
    )


def _step(row: Row) -> _Step:
    work = _work(row)
    family = _family(row)
    short = _MEASURED.get(family)
    wide = element_bytes(row.need("precision")) >= training.ELEMENT_BYTES
    return _Step(
        work=work,
        layout=_layout(row, work.layers),
        machine=_machine(row),
        family=family,
        products=family if wide else f"{family} 8-bit",
        memory=stream_efficiency(short or "h100", "triad"),
    )


def sourced_gemm_efficiency(family: str) -> float:
    """Share of the peak that a large product reaches: measured for the generation, else on Hopper, the newest measured.

    >>> 0.5 < sourced_gemm_efficiency("Ampere") < 0.9
    True
    """
    return gemm_efficiency(_MEASURED.get(family, "h100"))


def _efficiencies(step: _Step, constants: Constants) -> Efficiencies:
    """The constants of a row's classes; sourced, counted or bound values where a class has none."""
    sourced = sourced_gemm_efficiency(step.family)
    own = constants.get(step.family, {})
    gemm = constants.get(step.products, {}).get("gemm", sourced)
    software = constants.get("software", {"elementwise": _COUNTED_PASSES, "dp_overlap": 1.0})
    typical = constants.get("attention", {}).get("other", sourced)
    return Efficiencies(
        name="calibrated" if constants else "datasheet",
        source="scripts/fit_constants.py" if constants else "measured products and STREAM, counted traffic",
        gemm=gemm,
        head=own.get("gemm", sourced),
        attention=constants.get("attention", {}).get(step.family, typical),
        memory=step.memory,
        **software,
    )


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class training_step in seconds."""
    row = Row(inputs)
    step = _step(row)
    if constants and step.products not in constants:
        row.assume("gemm", sourced_gemm_efficiency(step.family), "no rows of this generation and precision in the fit")
    time = training.step_terms(step.work, step.layout, step.machine, _efficiencies(step, constants)).time
    return Prediction(float(time), assumptions=tuple(row.assumptions))


def _stack(parts: Sequence[Any]) -> Any:
    import numpy as np

    kind = type(parts[0])
    return kind(*(np.array([getattr(p, f.name) for p in parts]) for f in dataclasses.fields(kind)))


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Fit the constants; every group has one vote; needs NumPy."""
    import numpy as np

    steps = [_step(Row(inputs)) for inputs, _, _ in rows]
    measured = np.array([m for _, m, _ in rows])
    products = sorted({s.products for s in steps if s.family})
    # Attention kernels differ by generation only where both were tuned for: Ampere's own, and one for all others.
    names = [(f, "gemm") for f in products] + [("attention", "Ampere"), ("attention", "other")]
    names += [("software", n) for n in _SOFTWARE]
    ranges = [_RANGES[n if c != "attention" else "attention"] for c, n in names]
    work, layout, machine = (_stack([getattr(s, n) for s in steps]) for n in ("work", "layout", "machine"))
    memory = np.array([s.memory for s in steps])
    ampere = np.array([s.family == "Ampere" for s in steps])
    # Columns of products: which constant each row's layers, and its 16-bit head, take
    layers = np.array([products.index(s.products) if s.family else 0 for s in steps])
    heads = np.array([products.index(s.family) if s.family in products else -1 for s in steps])
    sourced = np.array([sourced_gemm_efficiency(s.family) for s in steps])
    k = len(products)

    def log_errors(c: Any) -> Any:
        eff = Efficiencies(
            gemm=c[layers],
            head=np.where(heads < 0, sourced, c[heads]),
            attention=np.where(ampere, c[k], c[k + 1]),
            memory=memory,
            **dict(zip(_SOFTWARE, c[k + 2 :], strict=True)),
        )
        return np.log(training.step_terms(work, layout, machine, eff).time / measured)

    fitted: dict[str, dict[str, float]] = {}
    found = gauss_newton(ranges, log_errors, [g for _, _, g in rows])
    for (group, name), value in zip(names, found, strict=True):
        fitted.setdefault(group, {})[name] = value
    return fitted


PREDICTOR = Predictor(
    predict, fit, "Gauss-Newton on a robust log error within physical ranges; every group of rows has one vote"
)
