"""Class attention: one attention kernel of one layer, prefill or decode, grouped-query or latent (MLA).

The time is that of ``kernel_times.attention_time``. Two constants are fitted, over all devices: the shares of the peak that
products reach in attention, and in decoding on a latent cache; the authors' own figures of FlashAttention-3 and FlashMLA count
as much as one source of rows. Everything else comes from elsewhere: the share of the bandwidth is STREAM's, the start that of
a product for each kernel of the call, and exponentials come at the rate of the hardware
(eq-softmax-share), which 8-bit products do not change.
A part whose arithmetic was cut loses the same time per multiprocessor (eq-share-of-cut): an H20 has the memory of an H100 and
a seventh of its arithmetic, so neither share carries over as it is.
Decoding with grouped queries runs on Hopper in kernels of Ampere's instructions, whose share of the peak two publications
print; and an instruction multiplies at least sixteen rows, so that fewer queries to a key cost as much as sixteen. Neither is
fitted.
On the devices of another maker attention falls behind as that maker's products do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlsysim import catalog
from mlsysim.efficiencies import kernel_shares, measured_share
from mlsysim.evidence.measured.measurements import measurement
from mlsysim.evidence.predictors import silicon
from mlsysim.evidence.predictors.base import (
    Constants,
    Prediction,
    Predictor,
    Row,
    Sample,
    Unsupported,
    element_bytes,
)
from mlsysim.evidence.predictors.fitting import coordinate_descent, steps, votes
from mlsysim.kernel_times import ROW_TILE, SHARPNESS, CallTime, attention_time

_MIN_ROWS = 4  # no constant may rest on a single row
_ALL = "any"
# A generation whose own instructions the kernels of decoding do not use, but those of the generation before it.
_OLDER_ON = "Hopper"
# Kernels of a call: decoding attends to parts of the cache, and combines what they gave. On a latent one a kernel before them plans
# how it is cut (deepseek2025flashmla, README: get_mla_metadata).
_KERNELS = {"prefill": 1.0, "decode": 2.0}
_PLANNED = "mla_absorbed"
NAMES = ("compute_efficiency", "latent_compute_efficiency")


@cache
def published() -> Mapping[str, float]:
    """Where the constants begin: what the authors of FlashAttention-3 and of FlashMLA report of their best calls."""
    found = {}
    for name, row in zip(NAMES, ("flashattention3-h100-forward", "flashmla-h800-decode-compute"), strict=True):
        best = measurement(row)
        found[name] = best.value / catalog.device(best.device).peak_flops[best.precision]
    return found


@cache
def older_kernels() -> tuple[float, float]:
    """What kernels of Ampere's instructions reach on Hopper: share of the whole part's peak, and what the instructions allow.

    The second is what a whole part (H100) and a cut one (H20), measured by others than the authors of any row, leave by
    eq-share-of-cut.

    >>> [round(share, 2) for share in older_kernels()]
    [0.35, 0.71]
    """
    part = measurement("flashattention2-h20-forward")
    whole, cut = measurement("flashattention2-h100-forward").value, catalog.device(part.device)
    lost = silicon.rate_ratio(Row({"device": cut.name}), "peak_flops.bf16")
    return whole, (1 - lost) / (cut.peak_flops[part.precision] / part.value - lost / whole)


@dataclass(frozen=True)
class AttentionWork:
    """An attention kernel, and how far its device's share lies from that of the family."""

    row: Row
    given: Mapping[str, Any]  # arguments of attention_time, without the share of the peak
    share_name: str  # of the arithmetic; empty for kernels of an older generation's instructions
    behind: float  # products of its maker over those of the measured makers

    def share(self, c: Mapping[str, float]) -> float:
        """Of the peak, for products alone."""
        if not self.share_name:
            share, allowed = older_kernels()
            return silicon.cut(share, self.row, "peak_flops.bf16", allowed)
        return silicon.cut(c[self.share_name] * self.behind, self.row, "peak_flops.bf16")


def _share_name(row: Row, kind: str, phase: str) -> str:
    """Which share of the arithmetic a kernel has."""
    if kind == "mla_absorbed":
        return "latent_compute_efficiency"
    return "" if (kind, phase, silicon.generation(row)) == ("gqa", "decode", _OLDER_ON) else "compute_efficiency"


def _work(row: Row) -> AttentionWork:
    kind, phase = row.need("kind"), row.need("phase")
    if kind not in ("gqa", "mla", "mla_absorbed") or phase not in _KERNELS:
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
    own = silicon.makers_share(row, "bf16")
    alone = kernel_shares(row.line).values
    size = element_bytes(precision)
    return AttentionWork(
        row,
        {
            "batch": batch,
            "heads": heads,
            "q_len": q_len,
            "cached_len": kv_len - q_len,
            "qk_dim": qk_dim,
            "v_dim": v_dim,
            "kv_heads": kv_heads,
            "kv_width": kv_width,
            "peak_flops": row.rate("peak_flops", f"peak_flops.{precision}"),
            "memory_bandwidth": silicon.bandwidth(row),
            "causal": 1.0 if causal else 0.0,
            "element_bytes": size,
            "kv_element_bytes": element_bytes(kv_precision),
            "row_tile": ROW_TILE,
            "memory_efficiency": silicon.stream_share(row),
            "startup_time": (_KERNELS[phase] + (kind == _PLANNED)) * alone["start"],
            # products of 8 bits take half the time of those of 16, and exponentials as long as ever
            "exponential_flops": alone.get("exponential", 0.0) * 2.0 / size,
            "sharpness": SHARPNESS,
        },
        _share_name(row, kind, phase),
        1.0 if own is None else min(1.0, own[0] / measured_share("gemm", "Ampere")),
    )


def predicted_call(inputs: Mapping[str, Any], constants: Constants) -> tuple[CallTime, tuple[str, ...]]:
    """The time of one row with all its terms, and what was assumed for it."""
    row = Row(inputs)
    work = _work(row)
    own = constants.get(_ALL)
    if own is None:
        row.assume("compute_efficiency", "published", "figures of authors; nothing is fitted to rows")
    elif f"seen: {row.line[0]}" not in constants:
        row.assume("compute_efficiency", "that of all devices", f"no row ran on {row.line[0]}")
    origins = {
        "compute_efficiency": "figures of authors" if own is None else "fitted to published calls and figures",
        "memory_efficiency": "STREAM triad",
        "startup_time": "kernels.toml: products, one for each kernel of the call",
    }
    share = work.share(own or published())
    return attention_time(**work.given, compute_efficiency=share, origins=origins), tuple(row.assumptions)


_NOT_BOUND = ("sharpness", "row_tile", "memory_efficiency", "startup_time", "exponential_flops")


def bound_call(inputs: Mapping[str, Any]) -> CallTime:
    """The same call with every resource at its printed rate, masked pairs skipped one by one, and exponentials hidden."""
    given = {k: value for k, value in _work(Row(inputs)).given.items() if k not in _NOT_BOUND}
    return attention_time(**given, mask_tile=1.0)


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class attention in seconds."""
    call, assumptions = predicted_call(inputs, constants)
    return Prediction(float(call.time), assumptions=assumptions)


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Two constants over all devices, drawn to the published ones as to one more source; needs NumPy."""
    import numpy as np

    works = [_work(Row(inputs)) for inputs, _, _ in rows]
    if len(works) < _MIN_ROWS:
        return {}
    given = {name: np.array([w.given[name] for w in works]) for name in works[0].given}
    weight, measured = np.array(votes([g for _, _, g in rows])), np.array([t for _, t, _ in rows])
    begin = published()

    def loss(c: Mapping[str, float]) -> float:
        apart = sum(abs(math.log(c[name] / begin[name])) for name in NAMES) / len(NAMES)
        share = np.array([w.share(c) for w in works])
        time = attention_time(**given | {"sharpness": SHARPNESS}, compute_efficiency=share).time
        return apart + float((weight * np.abs(np.log(time / measured))).sum())

    fitted = {_ALL: dict(coordinate_descent(loss, dict.fromkeys(NAMES, steps(0.4, 1.0, 0.01))))}
    for name in sorted({w.row.line[0] for w in works}):
        fitted[f"seen: {name}"] = {"rows": float(sum(w.row.line[0] == name for w in works))}
    return fitted


PREDICTOR = Predictor(
    predict,
    fit,
    method="least absolute log error on a grid of two digits; every group of rows, and the published figures, have one vote",
)
