"""What others print of models that forget, beside what our equations give for the same shape."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from mlsysim import catalog, flops, inference, memory
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


def _compressed_share(_: Measurement, i: Mapping[str, Any]) -> float:
    """Cache of two kinds of compressed layers over that of as many layers of latent attention with an index."""
    sparse, heavy, tokens, window = i["sparse_layers"], i["heavy_layers"], i["tokens"], i["window"]
    held = memory.kv_cache_compressed(sparse, 1, tokens, window, 4, i["entry"], i["index"], 1.0)
    held += memory.kv_cache_compressed(heavy, 1, tokens, window, 128, i["entry"], 0.0, 1.0)
    return float(held / memory.kv_cache_mla(i["other_layers"], 1, tokens, i["other_entry"], i["other_index"], 1.0))


def _step_flops(name: str, tokens: float, attention: float, index: float) -> float:
    """FLOPs of a token after a context: its matrices, its keys and its indexers, the last two weighed as given."""
    m = catalog.model(name)
    work = 2.0 * flops.matmul_parameters(m)
    for n, core in m.cores:
        pair = core.heads * (core.latent_qk + core.latent_v or core.qk_dim + core.v_dim)
        for ratio, most in core.met:
            work += attention * n * inference.context_work(tokens / ratio, pair, most or tokens)
    indexed = sum(n * inference.context_work(tokens / one.ratio, 0, 1, one.heads * one.size) for n, one in m.indexers)
    return float(work + index * indexed)


def step_share(
    model: str, other: str = "DeepSeek-V3.2", tokens: float = 2**20, attention: float = 1.0, index: float = 1.0
) -> float:
    """FLOPs of a token after a context over those of another model, whose indexer counts in full.

    >>> round(step_share("DeepSeek-V4-Pro"), 2)
    0.26
    """
    return _step_flops(model, tokens, attention, index) / _step_flops(other, tokens, attention, 1.0)


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
    "model-cache": lambda _, i: float(memory.kv_cache_of(i["model"], 1, i["tokens"])),
    "model-gain": lambda _, i: float(
        memory.kv_cache_of(i["other"], 1, i["tokens"]) / memory.kv_cache_of(i["model"], 1, i["tokens"])
    ),
    "compressed-share": _compressed_share,
    "step-share": lambda _, i: step_share(**i),
}
