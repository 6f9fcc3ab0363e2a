"""Class attention: one attention kernel of one layer, prefill or decode, grouped-query or latent (MLA).

The time is that of ``kernel_times.attention_time``. What H100 sustains in a table of other authors, and what the makers of
the latent kernels report, is where every share begins; the rows draw four constants away from there, and the published
figures count as much as one source of rows. A part whose arithmetic was cut loses the same time per multiprocessor
(eq-share-of-cut): an H20 has the memory of an H100 and a seventh of its arithmetic, so neither share carries over as it is.
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

from mlsysim import catalog, kernels
from mlsysim.efficiencies import measured_share
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
from mlsysim.evidence.predictors.fitting import coordinate_descent, log_loss, steps, votes
from mlsysim.kernel_times import ROW_TILE, SHARPNESS, CallTime, attention_time
from mlsysim.serving_steps.rates import shipped_rates

_MIN_ROWS = 4  # no constant may rest on a single row
_ALL = "any"
_TABLE = "H100-SXM5-80GB"  # whose table of kernels is not by the authors of any row (inferencesim2026kernels)
# A generation whose own instructions the kernels of decoding do not use, but those of the generation before it.
_OLDER_ON = "Hopper"
NAMES = ("startup_s", "memory_efficiency", "compute_efficiency", "latent_compute_efficiency")


@cache
def published() -> Mapping[str, float]:
    """Where the constants begin: H100's table of kernels, and what FlashMLA's authors report of their best product."""
    table = shipped_rates()[_TABLE]
    latent = measurement("flashmla-h800-decode-compute")
    return {
        "startup_s": float(table["decode_attention"].start),
        "memory_efficiency": float(table["decode_attention"].memory),
        "compute_efficiency": float(table["prefill_attention"].compute),
        "latent_compute_efficiency": latent.value / catalog.device(latent.device).peak_flops["bf16"],
    }


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
    """An attention kernel, and how far its device's shares lie from those of the family."""

    row: Row
    given: Mapping[str, Any]  # arguments of attention_time
    share_name: str  # of the arithmetic; empty for kernels of an older generation's instructions
    behind: float  # products of its maker over those of the measured makers

    def _compute(self, c: Mapping[str, float]) -> float:
        if not self.share_name:
            share, allowed = older_kernels()
            return silicon.cut(share, self.row, "peak_flops.bf16", allowed)
        return silicon.cut(c[self.share_name] * self.behind, self.row, "peak_flops.bf16")

    def shares(self, c: Mapping[str, float]) -> dict[str, float]:
        return {
            "compute_efficiency": self._compute(c),
            "memory_efficiency": silicon.cut(c["memory_efficiency"], self.row, "memory_bandwidth"),
            "startup_time": c["startup_s"],
        }


def _share_name(row: Row, kind: str, phase: str) -> str:
    """Which share of the arithmetic a kernel has."""
    if kind == "mla_absorbed":
        return "latent_compute_efficiency"
    return "" if (kind, phase, silicon.generation(row)) == ("gqa", "decode", _OLDER_ON) else "compute_efficiency"


def _work(row: Row) -> AttentionWork:
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
    own = silicon.makers_share(row, "bf16")
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
            "element_bytes": element_bytes(precision),
            "kv_element_bytes": element_bytes(kv_precision),
            "row_tile": ROW_TILE,
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
        row.assume("shares", _TABLE, "published figures; nothing is fitted to rows")
    elif f"seen: {row.line[0]}" not in constants:
        row.assume("shares", "those of all devices", f"no row ran on {row.line[0]}")
    whence = "published figures" if own is None else "fitted to published calls and figures"
    origins = dict.fromkeys(("compute_efficiency", "memory_efficiency", "startup_time"), whence)
    return attention_time(**work.given, **work.shares(own or published()), origins=origins), tuple(row.assumptions)


def bound_call(inputs: Mapping[str, Any]) -> CallTime:
    """The same call with every resource at its printed rate and masked pairs skipped one by one."""
    given = {k: value for k, value in _work(Row(inputs)).given.items() if k not in ("sharpness", "row_tile")}
    return attention_time(**given, mask_tile=1.0)


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class attention in seconds."""
    call, assumptions = predicted_call(inputs, constants)
    return Prediction(float(call.time), assumptions=assumptions)


def _seconds(work: AttentionWork, bare: CallTime, c: Mapping[str, float]) -> float:
    """As the time with these constants, of a kernel whose clocks at full rates are known."""
    shares = work.shares(c)
    compute = bare.compute_time / shares["compute_efficiency"]
    memory = bare.memory_time / shares["memory_efficiency"]
    return float(kernels.rounded_roof(compute, memory) + shares["startup_time"])


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Four constants over all devices, drawn to the published ones as to one more source."""
    works = [(_work(Row(inputs)), measured, group) for inputs, measured, group in rows]
    if len(works) < _MIN_ROWS:
        return {}
    shares = votes([g for _, _, g in works])
    weighted = [(w, attention_time(**w.given), t, v) for (w, t, _), v in zip(works, shares, strict=True)]
    begin = published()

    def loss(c: Mapping[str, float]) -> float:
        apart = sum(math.log(c[name] / begin[name]) ** 2 for name in NAMES) / len(NAMES)
        return apart + sum(vote * log_loss(_seconds(w, bare, c), t) for w, bare, t, vote in weighted)

    grids = {"startup_s": steps(1e-6, 25e-6, 1e-6), **dict.fromkeys(NAMES[1:], steps(0.4, 1.0, 0.02))}
    fitted = {_ALL: dict(coordinate_descent(loss, grids))}
    for name in sorted({w.row.line[0] for w, _, _ in works}):
        fitted[f"seen: {name}"] = {"rows": float(sum(w.row.line[0] == name for w, _, _ in works))}
    return fitted


PREDICTOR = Predictor(
    predict,
    fit,
    method="least squares of the log error on a grid of two digits; every group of rows, and the published figures, have one vote",
)
