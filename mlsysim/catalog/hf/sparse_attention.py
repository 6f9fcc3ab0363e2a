"""Families with latent attention of further kinds, or whose queries meet keys that an indexer picks."""

from dataclasses import replace
from typing import Any

from mlsysim.catalog import blocks
from mlsysim.catalog.blocks import Block
from mlsysim.catalog.hf.config import Config
from mlsysim.catalog.hf.decoder import FULL, NEAR, Family, Plan, Reader, latent, leading, matrix, nth, rows, vector
from mlsysim.catalog.hf.families import DEEP, DEEPSEEK_V3, EXPERTS, NEXT, others


def deepseek_v32(p: Plan) -> None:
    c = p.c
    sizes = {"heads": c.size("index_n_heads"), "size": c.size("index_head_dim"), "q_rank": p.attention["q_rank"]}
    p.attention |= {"picked": c.size("index_topk"), "indexer": blocks.indexer(p.hidden, **sizes)}
    # GLM-5.2: "shared" layers take the keys that the indexer of another has picked
    kinds = c.kinds(p.layers, lambda i: "full", "indexer_types")
    p.mixers = [p.attend() if kind == "full" else p.attend(indexer=()) for kind in kinds]


def streams(p: Plan, count: int, full: bool) -> Block:
    """Hyper-connections: several residual streams around attention and MLP, which one matrix sums behind all layers."""
    around = blocks.streams(p.hidden, count=count, full=full) * 2
    p.more = [(*around, *more) for more in p.more or [()] * p.layers]
    p.after += blocks.summed(p.hidden, count)
    return (*around, *blocks.summed(p.hidden, count))


def hy_v4(p: Plan) -> None:
    deepseek_v32(p)
    streams(p, p.c.size("hc_mult", default=4), full=False)


def axk2(p: Plan) -> None:
    """Queries and gates made together from two compressed streams, norms with a gate of low rank."""
    deepseek_v32(p)
    a, rank = p.attention, p.c.size("gated_norm_rank", default=16)
    query, gate = a["heads"] * (a["head_dim"] + a["rope_dim"]), a["heads"] * a["value_dim"]
    made: Block = (matrix("queries", a["q_rank"], query), matrix("gates", 2 * a["q_rank"], gate))
    gated: Block = (matrix("norm_down", p.hidden, rank), matrix("norm_up", rank, p.hidden))
    p.more = [(*made, *gated * (1 + sparse)) for sparse in p.sparse]


def longcat_flash(p: Plan) -> None:
    """Two blocks of latent attention, each with a dense MLP, in a layer; experts, some without weights, beside the second."""
    zero, n = p.c.size("zero_expert_num", default=0, least=0), p.experts["n"]
    p.experts |= {"zero": zero, "top_k": max(1, round(p.experts["top_k"] * n / (n + zero)))}


def minimax_sparse(c: Config, layers: int) -> list[bool]:
    if isinstance(c.raw.get("moe_layer_freq"), list):
        return [one == 1 for one in c.numbers("moe_layer_freq", layers, 0, 1)]
    return leading()(c.without("first_k_dense_replace"), layers)


def minimax_m3(p: Plan) -> None:
    """An indexer picks blocks of keys; leading dense layers before mixtures with a shared expert."""
    c, sparse = p.c, p.c.inner("sparse_attention_config")
    freq = sparse.raw.get("sparse_attention_freq")
    if not c.has("layer_types") and isinstance(freq, list):
        c = c.but(layer_types=["minimax_m3_sparse" if f else FULL for f in freq])
    indexed = [kind == "minimax_m3_sparse" for kind in c.kinds(p.layers, lambda i: FULL)]
    if not any(indexed):
        return

    def of(key: str, older: str, default: int) -> int:
        return sparse.size(older, default=c.size(key, default=default))

    picked = of("index_topk_blocks", "sparse_topk_blocks", 16) + of("index_local_blocks", "sparse_local_block", 1)
    heads, size = of("index_n_heads", "sparse_num_index_heads", 4), of("index_head_dim", "sparse_index_dim", 128)
    indexer = blocks.indexer(p.hidden, heads=heads, size=size, weights=False)
    p.attention |= {"picked": picked * of("index_block_size", "sparse_block_size", 128), "indexer": indexer}
    p.mixers = [p.attend() if one else p.attend(picked=0, indexer=()) for one in indexed]


def deepseek_v4(p: Plan) -> None:
    """Keys that are values, compressed four or 128 to one in most layers beside a window; several residual streams."""
    c, layers = p.c, p.layers
    names = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    usual = {ratio: name for name, ratio in names.items()}
    ratios = c.raw.get("compress_ratios")
    if ratios is None:
        ratios = [names.get(kind, -1) for kind in c.kinds(layers, lambda i: usual[4 if i % 2 and i > 1 else 128])]
    if not isinstance(ratios, list) or len(ratios) < layers:
        c.fail("compress_ratios", f"must list 0, 4 or 128 for each of {layers} layers")
    rates = c.but(compress_ratios=ratios[:layers]).numbers("compress_ratios", layers, 0, 4, 128)
    p.attention = {"heads": p.attention["heads"], "head_dim": c.size("head_dim"), "q_rank": c.size("q_lora_rank")}
    p.attention |= {"groups": c.size("o_groups"), "output_rank": c.size("o_lora_rank")}
    p.attention |= {"window": c.size("sliding_window", default=128)}
    index = {"index_heads": c.size("index_n_heads"), "index_dim": c.size("index_head_dim")}
    kinds: dict[int, dict[str, Any]] = {0: {}, 128: {"ratio": 128}}
    kinds[4] = {"ratio": 4, "overlap": True, "picked": c.size("index_topk", default=512)} | index
    p.mixers = [blocks.compressed_attention(p.hidden, **p.attention, **kinds[rate]) for rate in rates]
    hashed = c.size("num_hash_layers", default=3, least=0)  # which look their experts up by the token
    routers = [i >= hashed for i in range(layers)]
    if isinstance(c.raw.get("mlp_layer_types"), list):
        routers = [kind != "hash_moe" for kind in c.kinds(layers, lambda i: "", "mlp_layer_types")]
    p.mlps = [p.feed(True, router_bias=one) for one in routers]
    around = streams(p, c.size("hc_mult", default=4), full=True)
    p.module_layer = (*blocks.compressed_attention(p.hidden, **p.attention), *p.feed(True, router_bias=True), *around)


def glm5_next(p: Plan) -> None:
    """Delta attention in three of four layers, latent attention with an indexer over pooled keys in the others; several streams."""
    c = p.c
    nope, value, rank, q_rank = c.sizes(qk_nope_head_dim=256, v_head_dim=256, kv_lora_rank=512, q_lora_rank=1536)
    index, count, pool, picked, number = c.sizes(
        index_head_dim=128, index_n_heads=32, index_kpool=16, index_topk=2048, hc_mult=4
    )
    lin, size, kernel = c.sizes(linear_num_heads=64, linear_head_dim=128, linear_conv_kernel_dim=4)
    p.attention = {
        "heads": p.attention["heads"],
        "head_dim": nope,
        "value_dim": value,
        "kv_rank": rank,
        "q_rank": q_rank,
    }
    p.attention |= {"rope_dim": c.size("qk_rope_head_dim", default=0, least=0), "picked": picked}
    p.attention["indexer"] = blocks.indexer(p.hidden, heads=count, size=index, q_rank=q_rank, pool=pool)
    sizes = {"heads": lin, "head_dim": size, "key_heads": lin, "state": size, "conv": kernel, "rank": size}
    p.mix(p.state("kimi-delta", state_bits=32, **sizes), p.full(nth(4)))
    p.add(*blocks.streams(p.hidden, count=number) * 2)


# What follows is counted, and no more: no operation says how its queries meet keys


def _latent(
    h: int, heads: int, *, head_dim: int, rope_dim: int, value_dim: int, kv_rank: int, q_rank: int = 0
) -> Block:
    """Matrices and norms of latent attention, perhaps without a rotary part."""
    query = heads * (head_dim + rope_dim)
    queries: Block = (matrix("q", h, query),)
    if q_rank:
        queries = (matrix("q_down", h, q_rank), matrix("q_up", q_rank, query), vector("q_norm", q_rank))
    keys = (matrix("kv_down", h, kv_rank + rope_dim), matrix("kv_up", kv_rank, heads * (head_dim + value_dim)))
    return (*queries, *keys, vector("kv_norm", kv_rank), matrix("output", heads * value_dim, h))


def _indexer(h: int, read: int, heads: int, size: int, vectors: int = 0) -> Block:
    """Matrices of an indexer, whose queries are made from ``read`` numbers, and its norms."""
    return (
        matrix("index_q", read, heads * size),
        matrix("index_k", h, size + heads),
        vector("index", 2 * size + vectors),
    )


def mistral_large4(p: Plan) -> None:
    """Latent attention with an indexer in each layer; every fourth layer rotates nothing."""
    c = p.c
    h, layers, heads = p.hidden, p.layers, p.attention["heads"]
    turned = [int(i % 4 != 3) for i in range(layers)]
    if c.has("no_rope_layers"):
        turned = c.numbers("no_rope_layers", layers, 0, 1)
    if c.has("kv_source_layers") and c.raw["kv_source_layers"] != list(range(layers)):
        c.fail("kv_source_layers", "is not supported; only layers with keys of their own")
    nope, rope, rank, value = c.sizes(qk_nope_head_dim=64, qk_rope_head_dim=64, kv_lora_rank=512, v_head_dim=128)
    index, count = c.sizes(index_head_dim=128, index_n_heads=32)
    indexer = _indexer(h, h, count, index, 2 * (h + count + heads))  # with scales of queries and of both sums
    sizes = {"kv_rank": rank, "value_dim": value}
    bare = (*_latent(h, heads, head_dim=nope + rope, rope_dim=0, **sizes), *indexer)
    rotated = (*_latent(h, heads, head_dim=nope, rope_dim=rope, **sizes), *indexer)
    p.mixers, p.attention = [rotated if one else bare for one in turned], {}
    p.parameters_only = "latent attention with an indexer, rotated in some layers and not in others"


def dots3_note(p: Plan) -> None:
    """Latent attention of two sizes: with an indexer, and with a window; a gate for each head of both."""
    c = p.c
    kinds = c.kinds(p.layers, lambda i: FULL if i < 2 or i % 4 == 1 else NEAR)
    given = c.inner("per_layer_config")
    own = {int(key): given.inner(key).raw for key in given.raw if key.isdigit() and len(key) < 9}
    mixers = []
    for i, kind in enumerate(kinds):
        layer = c.but(**own.get(i, {}))
        sizes: dict[str, Any] = latent(layer) | {"heads": layer.size("num_attention_heads")}
        if kind == NEAR:
            reach: dict[str, Any] = {"window": c.size("sliding_window", "sliding_window_size", default=512)}
        else:
            heads, size = layer.size("index_n_heads"), layer.size("index_head_dim")
            picks = blocks.indexer(p.hidden, heads=heads, size=size, q_rank=sizes["q_rank"])
            reach = {"picked": layer.size("index_topk", default=2048), "indexer": picks}
        made = blocks.latent_attention(p.hidden, gate="head", **sizes, **reach)
        mixers.append((*made, vector("norm of rotary keys", sizes["rope_dim"])))
    p.mixers, p.attention = mixers, {}


# fmt: off
COUNTED = replace(DEEP, kv_heads="", head_dim=1, qkv_bias=False, output_bias=False)
DEEPSEEK_V32 = replace(DEEPSEEK_V3, then=deepseek_v32)
LONGCAT_FFN = ("ffn_hidden_size", "intermediate_size")
MINIMAX_M3 = replace(
    DEEP, kv_heads=4, head_dim=128, qkv_bias=False, output_bias=False, qk_norm="head", n_experts=EXPERTS,
    ffn=("dense_intermediate_size", 12_288), expert_ffn="intermediate_size", shared=("n_shared_experts", 1),
    shared_ffn=("shared_intermediate_size", 3072), sparse=minimax_sparse, modules=NEXT, then=minimax_m3)
FAMILIES: dict[str, Family] = {
    "axk2": replace(DEEPSEEK_V3, then=axk2),
    "deepseek_v32": DEEPSEEK_V32,
    "deepseek_v4": replace(
        COUNTED, kv_heads=1, sparse=Family.sparse, router_bias=False, modules=NEXT, then=deepseek_v4,  # one for all
        shared=lambda c: int(c.size("n_shared_experts", default=1, least=0) > 0)),
    "dots3_note_text": replace(
        COUNTED, sparse=leading(1), then=dots3_note,
        shared_ffn=lambda c: c.size("shared_experts_intermediate_size", default=c.size("moe_intermediate_size"))),
    "glm5_next_text": replace(COUNTED, then=glm5_next),
    "glm_moe_dsa": DEEPSEEK_V32,
    "hy_v4": replace(DEEPSEEK_V3, gate="full", sinks=True, then=hy_v4),
    "longcat_flash": replace(
        DEEPSEEK_V3, layers=lambda c: 2 * c.layers("num_layers", "num_hidden_layers"), ffn=LONGCAT_FFN, shared=1,
        expert_ffn=("expert_ffn_hidden_size", "moe_intermediate_size"), shared_ffn=LONGCAT_FFN, then=longcat_flash,
        sparse=lambda c, layers: [others(i) for i in range(layers)], top_k=("moe_topk", "num_experts_per_tok")),
    "minimax_m3": MINIMAX_M3,
    "minimax_m3_vl_text": MINIMAX_M3,
    "mistral_large4_text": replace(COUNTED, router_bias=False, then=mistral_large4),
}
# fmt: on
READERS: dict[str, Reader] = rows(FAMILIES, plain=False)
