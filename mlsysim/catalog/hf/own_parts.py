"""Families with parts of their own: borrowed keys, tables of each layer, several streams, experts or routers of another kind."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlsysim.catalog import blocks
from mlsysim.catalog.blocks import Block
from mlsysim.catalog.hf.config import Config
from mlsysim.catalog.hf.decoder import FULL, Family, Plan, Reader, leading, matrix, nth, plan, rows, vector, window
from mlsysim.catalog.hf.families import DEEP, ERNIE, GEMMA, GEMMA_3, GROUPED, LLAMA, OWN_SHARED, PLAIN, TIED, others
from mlsysim.catalog.hf.recurrent import delta
from mlsysim.catalog.operations import Product

# Gemma: borrowed keys, and embeddings of each layer


def borrowed(p: Plan) -> int:
    """The last layers read what the last layer of their kind before them has cached; how many they are."""
    shared = p.c.size("num_kv_shared_layers", default=0, least=0)
    own = p.layers - shared
    if shared and (own < 1 or set(p.windows[own:]) - set(p.windows[:own])):
        p.c.fail("num_kv_shared_layers", f"must leave layers of each kind with keys of their own among {p.layers}")
    p.mixers = [p.attend(width, reuses=i >= own) for i, width in enumerate(p.windows)]
    return shared


def layer_tables(p: Plan) -> Block:
    """Embeddings of each layer: a table, one projection to all layers with a norm, and a gate and a projection in each."""
    width, h = p.c.size("hidden_size_per_layer_input", default=0, least=0), p.hidden
    if not width:
        return ()
    p.embedding["tables"] = p.c.size("vocab_size_per_layer_input", default=p.vocab) * p.layers * width
    p.before += (matrix("to layers", h, p.layers * width), vector("norm of layers", width))
    return (matrix("layer gate", h, width), matrix("from layer", width, h))


def gemma3n(p: Plan) -> None:
    """Gemma 3n: embeddings of each layer, AltUp with several streams, LAuReL's low-rank paths, borrowed keys."""
    c, given = p.c, p.c.raw["intermediate_size"]
    given = given if isinstance(given, list) else [c.size("intermediate_size")] * p.layers
    p.mlps = [p.feed(width=width) for width in c.but(intermediate_size=given).numbers("intermediate_size", p.layers)]
    borrowed(p)
    (count, rank), h = c.sizes(altup_num_inputs=4, laurel_rank=64), p.hidden
    p.add(
        matrix("altup_router", h, count),
        matrix("altup_predict", count, count**2),
        matrix("altup_correct", count, count),
        matrix("laurel_down", h, rank),
        matrix("laurel_up", rank, h),
        *layer_tables(p),
    )
    p.before += (matrix("altup", h, h),) * (count - 1)
    p.after += (matrix("altup", h, h),) * (count - 1)


def gemma4(p: Plan) -> None:
    """Layers that see everything have fewer, wider heads, whose values are their keys; a dense MLP stands beside experts."""
    c, a, heads = p.c, p.attention, p.attention["heads"]
    # newer files write what differs layer by layer
    given = c.inner("per_layer_config")
    own = [given.inner(key) for key in given.raw]
    wider = c.size("global_head_dim", default=0, least=0)
    wider = wider or max([o.size("head_dim", default=1) for o in own], default=512)
    few = min([o.size("num_key_value_heads", default=heads) for o in own], default=heads)
    p.near = {"kv_heads": a["kv_heads"], "head_dim": a["head_dim"], "shared_kv": False}
    a["head_dim"] = a["head_dim"] if all(p.windows) else wider
    a["kv_heads"] = c.kv_heads(heads, "num_global_key_value_heads", default=min(few, a["kv_heads"]))
    a["shared_kv"] = c.flag("attention_k_eq_v", False)
    own_keys = p.layers - borrowed(p)
    if c.flag("use_double_wide_mlp", False) and p.mlp:  # in the layers that borrow their keys
        p.mlps = [p.feed(width=p.mlp["width"] * (1 if i < own_keys else 2)) for i in range(p.layers)]
    tables = layer_tables(p)
    p.norms += bool(tables)
    p.add(*tables)


def _mixed(c: Config) -> bool:
    return c.flag("enable_moe_block", False)


# Attention, experts or routers of another kind


def diffllama(p: Plan) -> None:
    """Llama whose scores are differences of two: four learned vectors for each layer's balance."""
    p.add(vector("balance", 4 * p.attention["head_dim"]))
    p.parameters_only = "differential attention, whose heads take values twice as wide"


def doge(p: Plan) -> None:
    """A mask made from the values, scales on both sums, and perhaps experts that are one row and one column each."""
    h, kv, size = p.hidden, p.attention["kv_heads"], p.attention["head_dim"]
    own: Block = (matrix("mask", kv * size, kv), vector("mask and scales", kv + 2 * h + kv * p.attention["qkv_bias"]))
    if p.c.flag("is_moe", False):
        (n,) = p.c.sizes(num_experts=16_384)
        p.embedding["tables"] = p.layers * 2 * n * h
        own += (matrix("pick", h, 2 * math.isqrt(n)),)
    p.add(*own)
    p.parameters_only = "mask that picks keys by their values"


def rwkv(p: Plan) -> None:
    """RWKV 4: a recurrence of numbers in place of attention, and an MLP with a gate of its own."""
    h = p.hidden
    inner = p.c.size("attention_hidden_size", default=h)
    mixer = (matrix("keys, values, receptance", h, 3 * inner), matrix("output", inner, h), matrix("gate", h, h))
    # decays and mixtures of two tokens; a norm in front of all layers
    p.mixers, p.attention = [(*mixer, vector("decays", 2 * inner + 5 * h))] * p.layers, {}
    p.before = (vector("norm", 2 * h),)
    p.parameters_only = "recurrence of sums that decay channel by channel"


def zaya(p: Plan) -> None:
    """Attention in a narrow space whose queries and keys two convolutions mix, and a small network as the router."""
    h, n, kv, size = p.hidden, p.experts["n"], p.attention["kv_heads"], p.attention["head_dim"]
    both = (p.attention["heads"] + kv) * size
    first, second, rank = p.c.sizes(cca_time0=2, cca_time1=2, router_hidden_size=256)
    names: tuple[tuple[str, int, int], ...] = (("down", h, rank), ("1", rank, rank), ("2", rank, rank))
    router = [Product("router", *one) for one in (*names, ("up", rank, n + 1))]
    mixed = tuple(o for o in p.feed(True) if getattr(o, "part", "") != "router")
    p.mlps = [(*router, *mixed)] * p.layers
    own: Block = (matrix("convolution", first, both), matrix("mixing convolution", both * size, second))
    own += (vector("scales", 2 * both + kv + 8 * h + 4 * rank + n + 1),)
    p.more = [own] + [(*own, vector("router state", rank))] * (p.layers - 1)
    p.after = (vector("scales", 2 * h),)
    p.parameters_only = "convolutions of queries and keys, and values half of which are of the token before"


def jetmoe(p: Plan) -> None:
    """Experts for the heads of attention too, which share their keys."""
    h, n, inner = p.hidden, p.experts["n"], p.c.size("kv_channels", default=128) * p.c.size("num_key_value_heads")
    mixer: Block = (matrix("keys and values", h, 2 * inner), matrix("router", h, n))
    mixer += (matrix("queries", h, n * inner), matrix("output", n * inner, h))
    p.mixers, p.attention = [(*mixer, vector("bias", 2 * h))] * p.layers, {}  # a bias behind each mixture
    p.parameters_only = "experts of attention, of which a token meets a few"


def inkling(p: Plan) -> None:
    """Convolutions of keys, values and both sums, and learned relations of positions."""
    c = p.c
    a, h = p.attention, p.hidden
    kernel, rel, extent, width = c.sizes(conv_kernel_size=4, d_rel=16, rel_extent=1024, sliding_window_size=512)
    kinds = c.kinds(p.layers, lambda i: "hybrid" if i % 6 == 5 else "hybrid_sliding")
    p.windows = [width if kind == "hybrid_sliding" else 0 for kind in kinds]
    p.near = {
        "heads": c.size("swa_num_attention_heads", default=a["heads"]),
        "kv_heads": c.size("swa_num_key_value_heads", default=a["kv_heads"]),
        "head_dim": c.size("swa_head_dim", default=a["head_dim"]),
    }
    sink = p.experts["shared"] if p.experts and c.flag("shared_expert_sink", True) else 0

    def own(near: int, sparse: bool) -> Block:
        one = a | p.near if near else a
        found: Block = (
            matrix("relations", h, rel * one["heads"]),
            matrix("places", rel, min(near or extent, extent)),
            matrix("convolutions", kernel, 2 * (one["kv_heads"] * one["head_dim"] + h)),
        )
        return (*found, *((matrix("sinks of experts", h, sink), vector("scale", 1)) if sparse else ()))

    p.more = [own(near, sparse) for near, sparse in zip(p.windows, p.sparse, strict=True)]
    p.parameters_only = "convolutions of keys and values, and positions that are learned relations"


def mllama(p: Plan) -> None:
    """Llama 3.2 with images: some layers attend to an image alone, and have a gate of their own."""
    c = p.c
    listed = c.raw.get("cross_attention_layers", [3, 8, 13, 18, 23, 28, 33, 38])
    if not isinstance(listed, list) or any(type(i) is not int or not 0 <= i < p.layers for i in listed):
        c.fail("cross_attention_layers", f"must list layers below {p.layers}")
    h, size = p.hidden, p.attention["head_dim"]
    queries, keys = p.attention["heads"] * size, p.attention["kv_heads"] * size
    crossing: Block = (
        matrix("queries", h, queries),
        matrix("keys and values", h, 2 * keys),
        matrix("output", queries, h),
        vector("norms and gates", 2 * size + 2),
    )
    p.mixers = [crossing if i in listed else mixer for i, mixer in enumerate(p.attended())]
    p.embedding["tables"] = 8 * h  # rows for what stands for an image, which the head has not
    p.parameters_only = "layers that attend to an image alone"


def ernie4_5_vl_text(c: Config) -> tuple[Plan, int]:
    """ERNIE 4.5 with images, and the parameters of experts that tokens of an image have, which stand with the tower.

    What differs for text and images stands in lists of two.
    """
    for key in ("moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"):
        value = c.raw.get(key)
        c = c.but(**{key: value[0]}) if isinstance(value, list) and value else c
    given = {"moe_intermediate_size": c.raw.get("moe_intermediate_size"), "moe_num_experts": c.raw.get("moe_num_experts", 64)}  # fmt: skip
    pairs: dict[str, list[Any]] = {
        key: v if isinstance(v, list) and len(v) == 2 else [v, v] for key, v in given.items()
    }
    for key, pair in pairs.items():
        if any(type(v) is not int or not 0 < v <= 10**6 for v in pair):
            c.fail(key, "must be a number, or one for text and one for images")
    (width, sight), (_, seen) = pairs.values()
    f = replace(ERNIE, mlp_bias=False, router_bias=True, modules=0, shared=("moe_num_shared_experts", 2))
    if c.has("mlp_layer_types"):
        f = replace(f, sparse=leading())
    else:
        c = c.without("moe_layer_end_index")
    p = plan(c.but(moe_intermediate_size=width, moe_num_experts=pairs["moe_num_experts"][0]), f)
    return p, sum(p.sparse) * (seen * (3 * p.hidden * sight + p.hidden + 1))


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


_MOST_PRIMES = 512


def _ngrams(p: Plan, streams: int) -> None:
    """Tables in which the last tokens are looked up by their hash, each head with a prime number of rows."""
    c, places = p.c, p.c.raw.get("ple_layer_ids") or []
    if not isinstance(places, list) or not all(type(p) is int for p in places):
        c.fail("ple_layer_ids", "must list the layers that have such a table")
    modules = len(set(places))
    heads = (c.size("ngram_size", default=3) - 1) * c.size("heads_per_ngram", default=8)
    if modules * heads > _MOST_PRIMES:
        c.fail("ple_layer_ids", f"times {heads} heads must not exceed {_MOST_PRIMES}")
    if not modules or not heads:
        return
    width, base = c.size("ple_embed_dim", default=p.hidden), c.size("ngram_vocab_size_base", default=20_000_000, most=10**9)  # fmt: skip
    multiple, kernel = c.sizes(make_ngram_vocab_size_divisible_by=128, ple_conv_kernel_size=4)
    primes, wide = _primes(base, modules * heads), streams * p.hidden
    filled = [-(-sum(primes[i * heads : (i + 1) * heads]) // multiple) * multiple for i in range(modules)]
    p.embedding["tables"] = sum(filled) * (width // heads)
    own: Block = (matrix("ngrams", width, wide), matrix("ngram gate", width, p.hidden))
    p.before += (*own, matrix("ngram convolution", kernel, wide), vector("ngram norms", 3 * wide)) * modules


def qwen4_exp(p: Plan) -> None:
    """Several residual streams that matrices of low rank mix, tables of n-grams, and an indexer over averaged keys."""
    c, kinds = p.c, p.c.raw.get("layer_types")
    if isinstance(kinds, list):
        p.c = c.but(layer_types=[FULL if kind == "indexed_attention" else kind for kind in kinds])
    delta(p)
    streams, rank = c.sizes(hc_count=4, hc_lowrank=320)
    count = c.size("indexer_n_heads", default=0, least=0)
    size, wide = c.size("indexer_head_dim") if count else 0, streams * p.hidden
    mixed: Block = (matrix("streams_down", wide, rank), matrix("streams_up", rank, wide))
    both = (*mixed, matrix("streams", wide, streams), vector("norm of streams", wide)) * 2
    index: Block = (matrix("index", p.hidden, (count + 1) * size), vector("index norms", 2 * size)) if count else ()
    attends = [any(getattr(o, "part", "") == "attention" for o in mixer) for mixer in p.mixers or []]
    more = p.more or [()] * p.layers
    p.more = [(*both, *(index if one else ()), *rest) for one, rest in zip(attends, more, strict=True)]
    p.after = (*mixed, vector("norm of streams", wide))
    _ngrams(p, streams)
    p.parameters_only = "indexer over averages of keys, which picks blocks of them" if count else ""


def muse_spark(p: Plan) -> None:
    """Experts that work in a narrower space, which has a norm at both ends; each sum has a learned scale."""
    narrow = p.experts["narrow"] = p.c.size("moe_hidden_size", default=4096)
    p.more = [(vector("norms of experts", 2 * narrow),) if sparse else () for sparse in p.sparse]


def _width(block: Config, hidden: int) -> int:
    """How wide a block's MLP is: two thirds of a multiple of the model's width, filled up to 256."""
    return -(-int(2 * block.factor("ffn_mult", None) * hidden / 3) // 256) * 256


def nemotron_nas(p: Plan) -> None:
    """Llama pruned block by block: MLPs of many widths, and blocks without attention or without an MLP."""
    c, listed = p.c, p.c.raw.get("block_configs")
    if not isinstance(listed, list) or len(listed) != p.layers:
        c.fail("block_configs", f"must list {p.layers} blocks, one for each layer")
    p.mixers, p.mlps, p.more, heads = [], [], [], p.attention["heads"]
    for one in listed:
        block = Config(one, f"{c.file}, block_configs")
        parts: Mapping[str, Block] = {"attention": (), "ffn": ()}
        for name in parts:
            inner = block.inner(name)
            if inner.flag("replace_with_linear", False):
                parts = {**parts, name: (matrix("straight", p.hidden, p.hidden),)}
            elif inner.flag("no_op", False):
                continue
            elif name == "ffn":
                parts = {**parts, name: p.feed(width=_width(inner, p.hidden))}
            else:
                group = inner.size("n_heads_in_group")
                if heads % group:
                    c.fail("block_configs", f"has {group} heads in a group, which must divide the {heads} heads")
                parts = {**parts, name: p.attend(kv_heads=heads // group)}
        kept = sum(not block.inner(name).flag("no_op", False) for name in parts)
        p.mixers.append(parts["attention"])
        p.mlps.append(parts["ffn"])
        p.more.append(blocks.norms(p.hidden, kept))


# fmt: off
MUSE = Family(  # norms of queries and keys have no weights
    kv_heads=2, head_dim=128, gate="full", norms=4, window=window(2048, nth(4), null=2048))
GEMMA_4 = replace(
    GEMMA, kv_heads=None, qkv_bias=False, output_bias=False, qk_norm="head", window=window(1024, nth(6), null=1024),
    norms=lambda c: 8 if _mixed(c) else 4,  # three more with experts, and the scale of what the router reads
    n_experts="num_experts", sparse=lambda c, layers: [_mixed(c)] * layers, top_k=("top_k_experts",), shared=1,
    shared_ffn="intermediate_size", router_bias=True, then=gemma4)  # a scale of each expert
PLAIN_TEXT: dict[str, Family] = {
    "gemma4_text": GEMMA_4,
    "gemma4_unified_text": GEMMA_4,
    "muse_glimmer_text": MUSE,
    "nemotron-nas": replace(
        LLAMA, kv_heads="", norms=0, ffn=1, then=nemotron_nas, refused=(("mlp_bias", False, "biases of MLPs"),)),
}
FAMILIES: dict[str, Family] = {
    "diffllama": replace(LLAMA, then=diffllama),
    "doge": replace(LLAMA, qk_norm="head", ignored=True, then=doge),
    "gemma3n_text": replace(
        GEMMA_3, norms=8, ffn=1, window=window(512, nth(5), null=512), then=gemma3n,  # with the embedding and the streams
        absent={
            "hidden_size": 2048, "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2,
            "vocab_size": 262_400, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262_144,
            "num_kv_shared_layers": 15, "intermediate_size": 16_384}),
    "inkling_text": replace(
        DEEP, kv_heads=8, head_dim=128, qkv_bias=False, output_bias=False, qk_norm="head", embedding_norm=True,
        shared=("n_shared_experts", 2), then=inkling),
    "jetmoe": Family(
        heads=1, kv_heads="", head_dim=1, n_experts="num_local_experts", expert_ffn="intermediate_size", tied=TIED,
        then=jetmoe),
    "muse_spark_text": replace(
        MUSE, kv_heads=16, head_dim=64, norms=5, window=window(512, others, null=512), sparse=leading(),
        n_experts=("num_local_experts", 256), expert_ffn=("moe_intermediate_size", 4096), router_bias=True,
        then=muse_spark),  # three norms, and a scale for each of the two sums
    "qwen4_exp_text": Family(
        kv_heads=2, head_dim=256, qk_norm="head", norms=0, final_norm=False, n_experts="num_experts", **OWN_SHARED,
        shared_gate=True, then=qwen4_exp),
    "rwkv": replace(
        PLAIN, heads=1, head_dim=1, qkv_bias=False, output_bias=False, mlp_bias=False, tied=GROUPED.tied, then=rwkv,
        ffn=lambda c: c.size("intermediate_size", default=4 * c.size("hidden_size"))),
    "zaya": Family(
        kv_heads=2, head_dim=128, head_bias=("lm_head_bias", False), n_experts=("num_experts", 16), tied=TIED,
        expert_ffn=("moe_intermediate_size", 2048), absent={"num_experts_per_tok": 1}, then=zaya),
}
MLLAMA = Family(
    kv_heads=8, qkv_bias=False, output_bias=False, then=mllama,
    absent={
        "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 40, "num_attention_heads": 32,
        "vocab_size": 128_256})
# fmt: on
READERS: dict[str, Reader] = {**rows(PLAIN_TEXT), **rows(FAMILIES, plain=False)}
