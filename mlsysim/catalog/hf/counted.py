"""Readers of families with parts whose cache and work no field of a shape says: their parameters are counted, no more."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from mlsysim.catalog.hf.config import Config, Shape
from mlsysim.catalog.hf.dense import sliding
from mlsysim.catalog.hf.mixtures import dense_first, routed
from mlsysim.catalog.hf.recurrent import delta
from mlsysim.catalog.hf.towers import of_tower, plain_tower
from mlsysim.catalog.hf.unlike import layer_kinds

_NO_HEADS = dict.fromkeys(("heads", "kv_heads", "head_dim"), 0)
_MOST_PRIMES = 512


def _is_prime(value: int) -> bool:
    return value > 1 and all(value % divisor for divisor in range(2, math.isqrt(value) + 1))


def _primes(base: int, count: int) -> list[int]:
    """The first so many primes from a number on."""
    found: list[int] = []
    while len(found) < count:
        if _is_prime(base):
            found.append(base)
        base += 1
    return found


def _ngrams(c: Config, h: int, streams: int) -> Shape:
    """Tables in which the last tokens are looked up by their hash, each head with a prime number of rows."""
    places = c.raw.get("ple_layer_ids") or []
    if not isinstance(places, list) or not all(type(p) is int for p in places):
        c.fail("ple_layer_ids", "must list the layers that have such a table")
    modules = len(set(places))
    heads = (c.size("ngram_size", default=3) - 1) * c.size("heads_per_ngram", default=8)
    if modules * heads > _MOST_PRIMES:
        c.fail("ple_layer_ids", f"times {heads} heads must not exceed {_MOST_PRIMES}")
    if not modules:
        return {}
    width, base = c.size("ple_embed_dim", default=h), c.size("ngram_vocab_size_base", default=20_000_000, most=10**9)
    multiple, kernel = (
        c.size("make_ngram_vocab_size_divisible_by", default=128),
        c.size("ple_conv_kernel_size", default=4),
    )
    primes = _primes(base, modules * heads)
    rows = [sum(primes[i * heads : (i + 1) * heads]) for i in range(modules)]
    wide = streams * h
    return {
        "table_parameters": sum(-(-r // multiple) * multiple for r in rows) * (width // heads),
        "other_matrices": modules * (wide * width + h * width + kernel * wide),
        "other_vectors": modules * 3 * wide,
    }


def qwen4_exp_text(c: Config) -> Shape:
    """Several residual streams that matrices of low rank mix, tables of n-grams, and an indexer over averaged keys."""
    s = c.base()
    h, layers, n, bias = s["hidden"], s["layers"], c.size("num_experts"), c.flag("attention_bias", False)
    s |= {"kv_heads": c.kv_heads(s["heads"], default=2), "head_dim": c.size("head_dim", default=256)}
    s |= {"qkv_bias": bias, "output_bias": bias}
    kinds = c.raw.get("layer_types")
    if isinstance(kinds, list):
        kinds = ["full_attention" if kind == "indexed_attention" else kind for kind in kinds]
    s |= delta(Config({**c.raw, "layer_types": kinds}, c.file), s)
    full = layers - s["n_recurrent_layers"]
    streams, rank = c.size("hc_count", default=4), c.size("hc_lowrank", default=320)
    indexed = c.size("indexer_n_heads", default=0, least=0)
    size = c.size("indexer_head_dim") if indexed else 0
    wide = streams * h
    tables = _ngrams(c, h, streams)
    return s | {
        "qk_norm": "head",
        "tied_embeddings": c.flag("tie_word_embeddings", False),
        "norms_per_layer": 0,
        "final_norm": False,
        "ffn": 0,
        "n_experts": n,
        "top_k": c.top_k(n),
        "moe_ffn": c.size("moe_intermediate_size"),
        "n_shared_experts": 1,
        "shared_ffn": c.size("shared_expert_intermediate_size"),
        "shared_gate": True,
        "table_parameters": tables.get("table_parameters", 0),
        "other_matrices": 2 * layers * wide * (2 * rank + streams)
        + 2 * wide * rank
        + full * (indexed + (indexed > 0)) * size * h
        + tables.get("other_matrices", 0),
        "other_vectors": s["other_vectors"]
        + (2 * layers + 1) * wide
        + full * 2 * size
        + tables.get("other_vectors", 0),
        "counts_only": "indexer over averages of keys, which picks blocks of them" if indexed else "",
    }


def inkling_text(c: Config) -> Shape:
    s = c.base()
    h, layers, n = s["hidden"], s["layers"], c.size("n_routed_experts")
    kinds = layer_kinds(c, layers, ["hybrid" if i % 6 == 5 else "hybrid_sliding" for i in range(layers)])
    near = kinds.count("hybrid_sliding")
    kernel, rel, extent = (
        c.size("conv_kernel_size", default=4),
        c.size("d_rel", default=16),
        c.size("rel_extent", default=1024),
    )
    size, window = c.size("head_dim", default=128), c.size("sliding_window_size", default=512)
    s |= {"kv_heads": c.kv_heads(s["heads"], default=8), "head_dim": size}
    heads, kv = (
        c.size("swa_num_attention_heads", default=s["heads"]),
        c.size("swa_num_key_value_heads", default=s["kv_heads"]),
    )
    size_near = c.size("swa_head_dim", default=size)
    dense, shared = dense_first(c, layers, 0), c.size("n_shared_experts", default=2, least=0)
    mixed, far = layers - dense, layers - near
    relations = h * rel * (far * s["heads"] + near * heads) + rel * (far * extent + near * min(window, extent))
    convs = kernel * 2 * (far * s["kv_heads"] * size + near * kv * size_near + layers * h)
    return s | {
        "window_heads": heads if near else 0,
        "window_kv_heads": kv if near else 0,
        "window_head_dim": size_near if near else 0,
        "qk_norm": "head",
        "embedding_norm": True,
        "ffn": c.size("intermediate_size") if dense else 0,
        "n_experts": n,
        "top_k": c.top_k(n),
        "moe_ffn": c.size("moe_intermediate_size"),
        "n_shared_experts": shared,
        "n_dense_layers": dense,
        "router_bias": True,
        "tied_embeddings": c.flag("tie_word_embeddings", False),
        "other_matrices": relations + convs + mixed * h * (shared if c.flag("shared_expert_sink", True) else 0),
        "other_vectors": mixed,
        "counts_only": "convolutions of keys and values, and positions that are learned relations",
        **sliding(layers, window, near),
    }


def dots3_note_text(c: Config) -> Shape:
    """Latent attention of two sizes: with an indexer, and with a window; a gate for each head of both."""
    s = c.base()
    h, layers = s["hidden"], s["layers"]
    kinds = layer_kinds(
        c, layers, ["indexed_attention" if i < 2 or i % 4 == 1 else "sliding_attention" for i in range(layers)]
    )
    given = c.inner("per_layer_config")
    own = {int(key): given.inner(key) for key in given.raw if key.isdigit() and len(key) < 9}
    matrices = vectors = 0
    for i, kind in enumerate(kinds):
        layer = Config({**c.raw, **(own[i].raw if i in own else {})}, c.file)
        heads, nope, rope = layer.heads(), layer.size("qk_nope_head_dim"), layer.size("qk_rope_head_dim")
        latent, rank, value = layer.size("kv_lora_rank"), layer.size("q_lora_rank"), layer.size("v_head_dim")
        matrices += h * rank + rank * heads * (nope + rope) + h * (latent + rope) + latent * heads * (nope + value)
        matrices += heads * value * h + heads * h
        vectors += rank + latent + rope
        if kind == "indexed_attention":
            index, size = layer.size("index_n_heads"), layer.size("index_head_dim")
            matrices += rank * index * size + h * (size + index)
            vectors += 2 * size
    experts = routed(Config({**c.raw, "first_k_dense_replace": dense_first(c, layers, 1)}, c.file), s, router_bias=True)
    return s | {
        **_NO_HEADS,
        **experts,
        "n_attention_free_layers": layers,
        "shared_ffn": c.size("shared_experts_intermediate_size", default=experts["moe_ffn"]),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
        "other_matrices": matrices,
        "other_vectors": vectors,
        "counts_only": "latent attention of two sizes, with a window and with an indexer",
    }


def jetmoe(c: Config) -> Shape:
    """Experts for the heads of attention too, which share their keys."""
    h, layers = c.size("hidden_size"), c.size("num_hidden_layers")
    n, kv = c.size("num_local_experts"), c.size("num_key_value_heads")
    picked, inner = c.top_k(n), c.size("kv_channels", default=128) * kv
    return {
        **_NO_HEADS,
        "layers": layers,
        "hidden": h,
        "vocab": c.size("vocab_size"),
        "ffn": 0,
        "n_experts": n,
        "top_k": picked,
        "moe_ffn": c.size("intermediate_size"),
        "n_attention_free_layers": layers,
        "tied_embeddings": c.flag("tie_word_embeddings", True),
        "other_matrices": layers * (2 * n * h * inner + n * h + 2 * h * inner),
        "other_vectors": layers * 2 * h,  # a bias behind each mixture
        "counts_only": "experts of attention, of which a token meets a few",
    }


def mllama(c: Config) -> Shape:
    """Llama 3.2 with images: some layers attend to an image alone, and have a gate of their own."""
    text = c.inner("text_config") if c.has("text_config") else c
    usual = {"hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 40, "num_attention_heads": 32}
    t = Config({**usual, "num_key_value_heads": 8, "vocab_size": 128_256, **text.raw}, text.file)
    s = t.base()
    listed = t.raw.get("cross_attention_layers", [3, 8, 13, 18, 23, 28, 33, 38])
    if not isinstance(listed, list) or len(listed) > s["layers"]:
        t.fail("cross_attention_layers", "must list layers")
    crossing, h = len(listed), s["hidden"]
    kv, size = t.kv_heads(s["heads"]), t.head_dim(h, s["heads"])
    own = 2 * h * size * (s["heads"] + kv)
    shape = s | {
        "kv_heads": kv,
        "head_dim": size,
        "ffn": t.size("intermediate_size"),
        "n_attention_free_layers": crossing,
        "table_parameters": 8 * h,  # rows for what stands for an image, which the head has not
        "other_matrices": crossing * own,
        "other_vectors": crossing * (2 * size + 2),
        "tied_embeddings": t.flag("tie_word_embeddings", False),
        "counts_only": "layers that attend to an image alone",
    }
    return shape | _mllama_tower(c, h)


def _mllama_tower(c: Config, hidden: int) -> Shape:
    if not c.has("vision_config"):
        return {}
    given = {
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "patch_size": 14,
        "image_size": 448,
    }
    given |= {"num_global_layers": 8, "max_num_tiles": 4, "vision_output_dim": 7680}
    h, f, layers, patch, image, upper, tiles, out = of_tower(c, *given, **given)
    ratios = 1 + sum(tiles // i for i in range(1, tiles + 1))  # ways to lay out so many tiles, and none
    places = (image // patch) ** 2 + 1
    layer = 4 * h * h + 2 * h * f + f + h + 4 * h
    tables = places * h + 1 + ratios * tiles * places * h + 2 * (ratios * tiles * h + 1)
    tower = h + 3 * patch**2 * h + tables + 4 * h + (layers + upper) * layer + 2 * upper
    return {"tower_parameters": tower + out * hidden + hidden}


def ernie4_5_vl_moe(c: Config) -> Shape:
    """ERNIE 4.5 with images: tokens of an image have experts of their own, which stand with the tower."""
    text = c.inner("text_config") if c.has("text_config") else c
    widths, counts = text.raw.get("moe_intermediate_size"), text.raw.get("moe_num_experts", 64)
    pairs: list[list[Any]] = [v if isinstance(v, list) and len(v) == 2 else [v, v] for v in (widths, counts)]
    for key, pair in zip(("moe_intermediate_size", "moe_num_experts"), pairs, strict=True):
        if any(type(v) is not int or not 0 < v <= 10**6 for v in pair):
            text.fail(key, "must be a number, or one for text and one for images")
    (width, sight), (n, seen) = pairs
    s = text.base()
    layers, h = s["layers"], s["hidden"]
    first, every = text.size("moe_layer_start_index", default=1, least=0), text.size("moe_layer_interval", default=1)
    mixed = sum(i >= first and (i + 1) % every == 0 for i in range(layers))
    if text.raw.get("mlp_layer_types") is not None:
        mixed = layer_kinds(text, layers, [], "mlp_layer_types").count("sparse")
    bias = text.flag("use_bias", False)
    shape = s | {
        "kv_heads": text.kv_heads(s["heads"], default=4),
        "head_dim": text.head_dim(h, s["heads"]),
        "qkv_bias": bias,
        "output_bias": bias,
        "ffn": text.size("intermediate_size"),
        "n_experts": n,
        "top_k": text.top_k(n, "moe_k"),
        "moe_ffn": width,
        "n_shared_experts": text.size("moe_num_shared_experts", default=2, least=0),
        "n_dense_layers": layers - mixed,
        "router_bias": True,
        "tied_embeddings": c.flag("tie_word_embeddings", text.flag("tie_word_embeddings", True)),
    }
    given = {"hidden_size": 1280, "intermediate_size": 5120, "depth": 32, "patch_size": 14, "spatial_merge_size": 2}
    given |= {"temporal_merge_size": 2}
    v, f, depth, patch, side, frames = of_tower(c, *given, **given)
    f = c.inner("vision_config").size("intermediate_size", default=4 * v)
    tower = plain_tower(v, f, depth, 3 * patch**2, 0) - v + 2 * v
    wide = v * side**2
    resampled = 2 * (wide * wide + wide) + 2 * wide + frames * wide * wide + wide + wide * wide + wide + 2 * wide
    resampled += wide * h + h + h
    return shape | {"tower_parameters": tower + resampled + mixed * (seen * (3 * h * sight + h + 1))}


READERS: Mapping[str, Callable[[Config], Shape]] = {
    "dots3_note_text": dots3_note_text,
    "ernie4_5_vl_moe": ernie4_5_vl_moe,
    "inkling_text": inkling_text,
    "jetmoe": jetmoe,
    "mllama": mllama,
    "qwen4_exp_text": qwen4_exp_text,
}
