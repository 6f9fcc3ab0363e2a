"""What others print of numbers below 16 bits, beside what our equations give; nothing is fitted to any of it."""

from collections.abc import Callable, Mapping
from typing import Any

from mlsysim import catalog, inference, memory, training
from mlsysim.catalog import Model
from mlsysim.evidence.measured.measurements import Check, Measurement
from mlsysim.flops import forward_flops
from mlsysim.memory.quantised import stored_parts
from mlsysim.transformer import parameter_count

_WIDE = "bf16"
_WIDE_BYTES = 2.0


def linear_share(model: Model | str, seq: float, part: str = "linear") -> float:
    """Share of a forward pass's FLOPs in the matrices of the layers, or in those of the MLPs alone; backward it is the same.

    Parameters
    ----------
    model : Model or str
        Dense, with attention in every layer.
    seq : float
        Tokens of a sequence, causal.
    part : str, optional
        ``linear`` or ``mlp``.

    >>> round(linear_share("Llama-3-8B", 8192), 3), round(linear_share("Llama-3-8B", 8192, "mlp"), 3)
    (0.814, 0.657)
    """
    m = catalog.model(model)
    mlp = m.n_layers * m.hidden * m.ffn * (3 if m.gated_mlp else 2)
    matrices = mlp + m.n_layers * m.hidden * m.head_dim * 2 * (m.heads + m.kv_heads)
    whole = float(forward_flops(m, seq, True))
    return float(2 * (matrices if part == "linear" else mlp) / whole)


def stored_bytes(model: Model | str, precision: str) -> float:
    """Of a checkpoint in a format, with what published ones keep wide: embedding and head, of some mixtures more.

    >>> round(stored_bytes("Llama-3.1-8B", "nvfp4") / 1e9, 2)
    6.03
    """
    m, bytes_of = catalog.model(model), inference.format_bytes
    count, parts = parameter_count(m), stored_parts(precision, m.is_moe)
    tables = count.embedding + count.lm_head
    layers = count.total - count.experts - tables
    return float(
        bytes_of(parts.head) * tables + bytes_of(parts.experts) * count.experts + bytes_of(parts.layers) * layers
    )


def rate_gain(device: str, precision: str, wide: str = _WIDE) -> float:
    """How many times faster products of a format can be than those of another, by the device's peaks.

    >>> rate_gain("B200", "mxfp8"), rate_gain("B200", "nvfp4"), rate_gain("GB300", "nvfp4", "fp8")
    (2.0, 4.0, 3.0)
    """
    peaks = catalog.device(device).peak_flops
    return float(peaks[training.PEAK_FORMAT.get(precision, precision)] / peaks[wide])


def cast_bytes(precision: str, layouts: int, calibrated: bool = False) -> float:
    """Read and written to cast one number, in as many layouts as the products need: one where nothing goes backward.

    Where the factor of the tensor was ``calibrated`` before, as in checkpoints of servers, nothing is read to find it.

    >>> cast_bytes("mxfp8", 1), cast_bytes("nvfp4", 1), cast_bytes("nvfp4", 1, calibrated=True), cast_bytes("fp8-blockwise", 2)
    (3.03125, 4.5625, 2.5625, 4.0625)
    """
    s = memory.SCALINGS[precision]
    return float(_WIDE_BYTES * (1 if calibrated else s.readings) + layouts * s.stored_bytes)


def _checkpoint(row: Measurement, i: Mapping[str, Any]) -> float:
    return stored_bytes(i["model"], row.precision)


def _cast(row: Measurement, i: Mapping[str, Any]) -> float:
    """One reading: where a second is needed, the source times it apart."""
    s = memory.SCALINGS[row.precision]
    return float(i["numbers"] * (_WIDE_BYTES + i["layouts"] * s.stored_bytes))


def _product(row: Measurement, i: Mapping[str, Any]) -> float:
    d = catalog.device(row.device)
    width = i["width"] if "width" in i else 3 / (1 / i["m"] + 1 / i["k"] + 1 / i["n"])
    gain = rate_gain(row.device, row.precision)
    wide = d.peak_flops[_WIDE]
    beta = i.get("bandwidth", d.memory_bandwidth)
    even = training.cast_break_even(cast_bytes(row.precision, i["layouts"]), beta, wide, gain * wide)
    return float(training.narrow_gain(gain, width, even))


def _cast_share(row: Measurement, i: Mapping[str, Any]) -> float:
    d = catalog.device(row.device)
    numbers = i["m"] * i["k"] + i["m"] * i["n"] + i["experts"] * i["k"] * i["n"]
    two = 2 * cast_bytes(row.precision, 1)  # by rows and by columns, each a kernel that reads
    casts = float(training.cast_time(numbers, two, d.memory_bandwidth))
    products = 3 * 2 * i["m"] * i["k"] * i["n"] / d.peak_flops[training.PEAK_FORMAT[row.precision]]
    return float(casts / (casts + products))


def _step(row: Measurement, i: Mapping[str, Any]) -> Check:
    """A ceiling and no forecast, with the share that would give what is printed, had it got faster by the full factor."""
    share = linear_share(i["model"], i["seq"], i["part"])
    gain = rate_gain(row.device, row.precision, i.get("from_format", _WIDE))
    most = float(inference.hybrid_gain(1.0, 1 / gain, 1 - share))
    implied = float(training.implied_share(row.value, gain))
    return Check(row, most, row.value, {"share": share, "implied": implied})


def _decode(row: Measurement, i: Mapping[str, Any]) -> Check:
    """Bytes that a step reads, the weights and the cache, in 16 bits over the narrow ones."""
    cache = i["sequences"] * float(memory.kv_cache_of(i["model"], 1, i["context"]))
    wide, slim = (stored_bytes(i["model"], p) for p in (_WIDE, row.precision))
    unread = _WIDE_BYTES * parameter_count(i["model"]).embedding  # a step reads a few rows of it only
    read = wide - unread + cache
    return Check(row, read / (slim - unread + cache), row.value, {"share": (wide - unread) / read})


RULES: Mapping[str, Callable[[Measurement, Mapping[str, Any]], Check | float]] = {
    "checkpoint": _checkpoint,
    "cache-bytes": lambda row, i: inference.format_bytes(row.precision) / inference.format_bytes(i["beside"]),
    "cast": _cast,
    "product": _product,
    "cast-share": _cast_share,
    "step": _step,
    "decode": _decode,
}
