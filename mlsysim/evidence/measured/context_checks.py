"""What others print of models that forget, beside what our equations give for the same shape."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from mlsysim import inference, memory
from mlsysim.errors import named
from mlsysim.evidence.measured.measurements import PrintedCheck, contexts

_BLOCK = 16  # tokens that a server's blocks are multiples of


def _state_block(i: Mapping[str, Any]) -> float:
    shape = {k: i[k] for k in ("heads", "value_dim", "key_dim", "state_bytes", "conv_elements")}
    token = memory.kv_cache(1, 1, 1, i["kv_heads"], i["head_dim"])
    tokens = inference.context_crossover(memory.recurrent_state(1, 1, **shape), token)
    return float(_BLOCK * math.ceil(tokens / _BLOCK))


def _hybrid(i: Mapping[str, Any], held: bool) -> float:
    """Times less that a hybrid holds, or reads in a step, than the same layers with full attention."""
    full = inference.context_reading(i["tokens"], i["token_bytes"], i["tokens"])
    near = i["state_bytes"] if held else inference.context_reading(0, 0, 0, state_bytes=i["state_bytes"])
    return float(inference.hybrid_gain(full, near, i["full_layers"] / i["layers"]))


def _window_gain(i: Mapping[str, Any]) -> float:
    layers, window, rest = i["layers"], i["window"], (1, i["tokens"], i["kv_heads"], i["head_dim"])
    return float(memory.kv_cache(layers, *rest) / memory.kv_cache_window(0, layers, window, *rest))


def _flop_share(i: Mapping[str, Any]) -> float:
    """Of all tokens of a long answer: matrices, and attention at half its length on average."""
    half = i["tokens"] / 2
    one = 2 * i["active"] + i["full_layers"] * inference.context_work(half, i["pair_macs"], half)
    one += i["state_layers"] * inference.context_work(0, 0, 0, state_macs=i["state_macs"])
    other = 2 * i["other_active"] + i["other_layers"] * inference.context_work(half, i["other_pair_macs"], half)
    return float(one / other)


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "state-block": _state_block,
    "state-tokens": lambda i: float(inference.context_crossover(**i)),
    "window-gain": _window_gain,
    "window-crossover": lambda i: float(
        inference.context_crossover(i["window_layers"] * i["window"], i["full_layers"])
    ),
    "cache-bytes": lambda i: float(memory.kv_cache(i["layers"], 1, i["tokens"], i["kv_heads"], i["head_dim"])),
    "token-bytes": lambda i: float(memory.kv_cache_mla(1, 1, 1, **i)),
    "cache-share": lambda i: 1.0 - 1.0 / _hybrid(i, held=True),
    "reading-gain": lambda i: _hybrid(i, held=False),
    "flop-share": _flop_share,
}


def context_check(name: str) -> PrintedCheck:
    """What the equations give for a printed figure of a model that forgets; nothing is fitted to any of them.

    >>> context_check("vllm-qwen35-27b-block").predicted
    784.0
    """
    row = named("measurement", name, contexts())
    return PrintedCheck(row, _KINDS[row.kind](row.inputs))


def context_checks() -> list[PrintedCheck]:
    """Every row, in the order of the data."""
    return [context_check(name) for name in contexts()]
