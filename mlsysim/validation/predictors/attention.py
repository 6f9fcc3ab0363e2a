"""Class attention: one attention kernel of one layer, prefill or decode, grouped-query or latent (MLA).

Three constants per device (share of the peak, share of the bandwidth, start-up). They are tied to the device and not
to its generation: an H20 has the memory of an H100 and a seventh of its arithmetic, so neither efficiency carries over.
Other devices get what the kernels' own authors report for their generation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import catalog, kernels
from mlsysim.validation.measured.measurements import measurements
from mlsysim.validation.predictors.base import (
    Constants,
    Prediction,
    Predictor,
    Row,
    Sample,
    Unsupported,
    element_bytes,
)
from mlsysim.validation.predictors.fitting import coordinate_descent, log_loss, steps, votes

_MIN_ROWS = 4  # three constants need more than three rows


@dataclass(frozen=True)
class Work:
    """An attention kernel in the terms of eq-kernel-time."""

    flops: float
    bytes: float
    peak: float
    bandwidth: float
    family: str

    def time(self, compute_efficiency: float, memory_efficiency: float, startup: float) -> float:
        return float(
            kernels.measured_kernel_time(
                self.flops, self.bytes, self.peak, self.bandwidth, compute_efficiency, memory_efficiency, startup
            )
        )


def _work(row: Row) -> Work:
    kind, phase = row.need("kind"), row.need("phase")
    if kind not in ("gqa", "mla", "mla_absorbed") or phase not in ("prefill", "decode"):
        raise Unsupported(f"kind {kind!r} in phase {phase!r} is not modelled (gqa, mla, mla_absorbed; prefill, decode)")
    batch, heads = row.number("batch"), row.number("q_heads")
    kv_len = row.number("kv_len")
    q_len = row.number_or("q_len", 1.0) if phase == "decode" else row.number("q_len")
    if not 0 < q_len <= kv_len or not min(batch, heads) > 0:
        raise Unsupported(f"{q_len:g} new tokens with {kv_len:g} to attend to; new tokens are among those")
    if kind == "mla_absorbed":
        rank, rope = row.number("kv_lora_rank"), row.number("rope_dim")
        qk_dim, v_dim, kv_heads, kv_width = rank + rope, rank, 1.0, rank + rope
    else:
        qk_dim = row.number("head_dim")
        v_dim = row.number_or("v_head_dim", qk_dim, "as head_dim")
        kv_heads = heads if kind == "mla" else row.number("kv_heads")  # the expanded latent has a head per query head
        kv_width = qk_dim + v_dim
    causal = bool(row.or_assume("causal", phase == "prefill")) and q_len > 1  # one token sees all that precede it
    precision = row.need("precision")
    kv_precision = row.or_assume("kv_precision", precision, "as precision")
    return Work(
        flops=float(
            kernels.attention_kernel_flops(batch, heads, q_len, kv_len - q_len, qk_dim, v_dim, 1.0 if causal else 0.0)
        ),
        bytes=float(
            kernels.attention_kernel_bytes(
                batch,
                heads,
                q_len,
                kv_len,
                qk_dim,
                v_dim,
                kv_heads,
                kv_width,
                element_bytes(precision),
                element_bytes(kv_precision),
            )
        ),
        peak=row.rate("peak_flops", f"peak_flops.{precision}"),
        bandwidth=row.rate("hbm_bandwidth", "memory_bandwidth"),
        family=f"{row.device.name if row.device else '?'} {element_bytes(precision) * 8:g}-bit",
    )


def sourced_efficiency(row: Row, quantity: str, name: str) -> float:
    """Best share that the kernels' authors report for the device's generation; 1, the bound, elsewhere."""
    kinds = ("mla_absorbed", "gqa") if row.need("kind") == "mla_absorbed" else ("gqa", "mla_absorbed")
    field = "memory_bandwidth" if quantity == "bandwidth" else "peak_flops.bf16"
    for kind in kinds:
        for m in measurements().values():
            device = catalog.device(m.device) if m.kind == "attention" else None
            if device and m.quantity == quantity and m.inputs["kind"] == kind and device.architecture == row.generation:
                return m.value / device.fields[field].value
    row.assume(name, 1.0, "the bound: no report for this generation in the package")
    return 1.0


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class attention in seconds."""
    row = Row(inputs)
    work = _work(row)
    own = constants.get(work.family)
    if own:
        time = work.time(own["compute_efficiency"], own["memory_efficiency"], own["startup_s"])
    else:
        compute = sourced_efficiency(row, "flop_rate", "compute_efficiency")
        time = work.time(compute, sourced_efficiency(row, "bandwidth", "memory_efficiency"), 0.0)
    return Prediction(time, assumptions=tuple(row.assumptions))


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Three constants per device and width of precision."""
    works = [(_work(Row(inputs)), measured, group) for inputs, measured, group in rows]
    fitted = {}
    for family in sorted({w.family for w, _, _ in works}):
        own = [x for x in works if x[0].family == family]
        if len(own) < _MIN_ROWS:
            continue

        weighted = [(w, t, v) for (w, t, _), v in zip(own, votes([g for _, _, g in own]), strict=True)]

        def loss(c: Mapping[str, float], rows: Sequence[tuple[Work, float, float]] = weighted) -> float:
            return sum(vote * log_loss(w.time(**c), t) for w, t, vote in rows)

        grids = {
            "startup": steps(0.0, 15e-6, 0.5e-6),
            "memory_efficiency": steps(0.4, 1.0, 0.01),
            "compute_efficiency": steps(0.4, 1.0, 0.01),
        }
        best = coordinate_descent(loss, grids)
        fitted[family] = {"startup_s": best.pop("startup"), **best}
    return fitted


PREDICTOR = Predictor(predict, fit)
