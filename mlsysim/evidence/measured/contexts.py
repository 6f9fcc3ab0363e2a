"""What others print of models that forget, beside what our equations give for the same shape."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from mlsysim import inference, memory
from mlsysim.evidence.measured.measurements import Measurement

_BLOCK = 16  # tokens that a server's blocks are multiples of


def _state_block(_: Measurement, i: Mapping[str, Any]) -> float:
    shape = {k: i[k] for k in ("heads", "value_dim", "key_dim", "state_bytes", "conv_elements")}
    token = memory.kv_cache(1, 1, 1, i["kv_heads"], i["head_dim"])
    tokens = inference.context_crossover(memory.recurrent_state(1, 1, **shape), token)
    return float(_BLOCK * math.ceil(tokens / _BLOCK))


def _hybrid(i: Mapping[str, Any], held: bool) -> float:
    """Times less that a hybrid holds, or reads in a step, than the same layers with full attention."""
    full = inference.context_reading(i["tokens"], i["token_bytes"], i["tokens"])
    near = i["state_bytes"] if held else inference.context_reading(0, 0, 0, state_bytes=i["state_bytes"])
    return float(inference.hybrid_gain(full, near, i["full_layers"] / i["layers"]))


def _window_gain(_: Measurement, i: Mapping[str, Any]) -> float:
    layers, window, rest = i["layers"], i["window"], (1, i["tokens"], i["kv_heads"], i["head_dim"])
    return float(memory.kv_cache(layers, *rest) / memory.kv_cache_window(0, layers, window, *rest))


def _flop_share(_: Measurement, i: Mapping[str, Any]) -> float:
    """Of all tokens of a long answer: matrices, and attention at half its length on average."""
    half = i["tokens"] / 2
    one = 2 * i["active"] + i["full_layers"] * inference.context_work(half, i["pair_macs"], half)
    one += i["state_layers"] * inference.context_work(0, 0, 0, state_macs=i["state_macs"])
    other = 2 * i["other_active"] + i["other_layers"] * inference.context_work(half, i["other_pair_macs"], half)
    return float(one / other)


RULES: Mapping[str, Callable[[Measurement, Mapping[str, Any]], float]] = {
    "state-block": _state_block,
    "state-tokens": lambda _, i: float(inference.context_crossover(**i)),
    "window-gain": _window_gain,
    "window-crossover": lambda _, i: float(
        inference.context_crossover(i["window_layers"] * i["window"], i["full_layers"])
    ),
    "cache-bytes": lambda _, i: float(memory.kv_cache(i["layers"], 1, i["tokens"], i["kv_heads"], i["head_dim"])),
    "token-bytes": lambda _, i: float(memory.kv_cache_mla(1, 1, 1, **i)),
    "cache-share": lambda _, i: 1.0 - 1.0 / _hybrid(i, held=True),
    "reading-gain": lambda _, i: _hybrid(i, held=False),
    "flop-share": _flop_share,
}
