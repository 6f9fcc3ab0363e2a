"""Families with recurrences: linear attention, state spaces, short convolutions, alone or beside attention."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlsysim.catalog import blocks
from mlsysim.catalog.blocks import Block
from mlsysim.catalog.hf.config import Config
from mlsysim.catalog.hf.decoder import (
    FULL,
    LINEAR,
    NEAR,
    Family,
    Plan,
    Reader,
    leading,
    matrix,
    nth,
    plan,
    rows,
    vector,
)
from mlsysim.catalog.hf.families import DEEP, EXPERTS, LLAMA, NEXT, OLMO_2, OWN_SHARED, QWEN_3, TIED, qwen_sparse


def bits(*keys: str) -> Callable[[Config], int]:
    """Bits of a number of a state, where the config says that a server keeps it wider than what it computes in."""
    return lambda c: 32 if any(c.text(key) == "float32" for key in keys) else 0


# Qwen: gated delta networks, and gated attention in every fourth layer


def delta(p: Plan, gated: bool = True) -> None:
    gate = gated and p.c.flag("attn_output_gate", True)
    p.attention["gate"] = "full" if gate else ""
    recurrent = p.state(
        "gated-delta", heads="linear_num_value_heads", head_dim="linear_value_head_dim",
        key_heads="linear_num_key_heads", state="linear_key_head_dim", conv=("linear_conv_kernel_dim", 4),
        state_bits=bits("mamba_ssm_dtype"),
    )  # fmt: skip
    full = p.full(nth(p.c.size("full_attention_interval", default=4)))
    if gate and p.attention["qkv_bias"]:  # the gate has a bias as well
        bias = vector("gate bias", p.attention["heads"] * p.attention["head_dim"])
        p.more = [(bias,) if one else () for one in full]
    p.mix(recurrent, full)


# Mamba


def _auto(key: str, size: Callable[[Config], int]) -> Callable[[Config], int]:
    """A size that may be called auto, or left out."""
    return lambda c: size(c) if c.raw.get(key, "auto") in ("auto", None) else c.size(key)


def inner_width(c: Config, hidden: int, key: str = "expand") -> int:
    """The inner width: a multiple of hidden, which some configs write as a fraction."""
    factor = c.factor(key, 2)
    if factor * hidden != int(factor * hidden):
        c.fail(key, "must be a number in (0, 100] that makes a whole inner width")
    return int(factor * hidden)


MAMBA_2: dict[str, Any] = {"key_heads": ("n_groups", 1), "state": "ssm_state_size", "conv": ("conv_kernel", 4)}
MAMBA_2 |= {"bias": ("use_bias", False), "conv_bias": ("use_conv_bias", True)}
MAMBA_2 |= {"state_bits": bits("mamba_ssm_cache_dtype", "mamba_ssm_dtype")}
PREFIXED: dict[str, Any] = {"key_heads": ("mamba_n_groups", 1), "state": "mamba_d_state", "conv": ("mamba_d_conv", 4)}
PREFIXED |= {"bias": ("mamba_proj_bias", False), "conv_bias": ("mamba_conv_bias", True)}
PREFIXED |= {"state_bits": MAMBA_2["state_bits"]}


def _mamba1(p: Plan, inner: int, rank: str, **settings: Any) -> Block:
    rank_of = _auto(rank, lambda c: -(-p.hidden // 16))
    return p.state("mamba", heads=inner, head_dim=1, rank=rank_of, **settings)


def prefixed_mamba1(p: Plan, norm: bool) -> Block:
    sizes = {"state": ("mamba_d_state", 16), "conv": ("mamba_d_conv", 4), "norm": norm}
    flags = {"bias": PREFIXED["bias"], "conv_bias": PREFIXED["conv_bias"]}
    return _mamba1(p, inner_width(p.c, p.hidden, "mamba_expand"), "mamba_dt_rank", **sizes, **flags)


def prefixed_mamba2(p: Plan, inner: int, **settings: Any) -> Block:
    heads = p.c.size("mamba_n_heads")
    return p.state(
        "mamba2", heads=heads, head_dim=_auto("mamba_d_head", lambda c: inner // heads), **PREFIXED | settings
    )


def _alone(p: Plan, recurrent: Block) -> None:
    """Layers that hold a recurrence and nothing else."""
    p.mixers, p.mlps, p.attention = [recurrent] * p.layers, [()] * p.layers, {}


def mamba2_alone(p: Plan) -> None:
    size, inner = p.c.size("head_dim", default=64), inner_width(p.c, p.hidden)
    heads = p.c.size("num_heads", default=inner // size)
    if heads * size != inner:
        p.c.fail("num_heads", f"times head_dim = {size} must be expand x hidden_size = {inner}")
    _alone(p, p.state("mamba2", heads=heads, head_dim=size, **MAMBA_2 | {"state": "state_size"}))


def mamba_alone(p: Plan) -> None:
    inner = p.c.size("intermediate_size", default=inner_width(p.c, p.hidden))
    sizes = {"state": ("state_size", 16), "conv": ("conv_kernel", 4), "norm": False}
    flags = {"bias": MAMBA_2["bias"], "conv_bias": MAMBA_2["conv_bias"]}
    _alone(p, _mamba1(p, inner, "time_step_rank", **sizes, **flags))


def original_mamba(p: Plan) -> None:
    """The config of the ``mamba_ssm`` package, which has no ``model_type``: what it leaves out are its code's defaults."""
    c, ssm = p.c, p.c.inner("ssm_cfg")
    if c.raw.get("attn_layer_idx"):
        c.fail("attn_layer_idx", "is not supported; only models without attention")
    if c.size("d_intermediate", default=0, least=0):
        c.fail("d_intermediate", "is not supported; only models without MLPs")
    p.c, inner = ssm, inner_width(ssm, p.hidden)
    common: dict[str, Any] = {"conv": ("d_conv", 4), "conv_bias": ("conv_bias", True)}
    if ssm.text("layer", "Mamba1") == "Mamba2":
        (size,) = ssm.sizes(headdim=64)
        sizes = {"heads": inner // size, "head_dim": size, "key_heads": ("ngroups", 1), "state": ("d_state", 128)}
        return _alone(p, p.state("mamba2", **sizes, **common))
    return _alone(p, _mamba1(p, inner, "dt_rank", state=("d_state", 16), bias=("bias", False), norm=False, **common))


def _filled_vocab(c: Config) -> int:
    multiple = c.size("pad_vocab_size_multiple", default=8)
    return -(-c.size("vocab_size") // multiple) * multiple


def nemotron_h(c: Config) -> Plan:
    """Each layer holds one thing: a Mamba (M), attention (*), a plain MLP (-) or a mixture of experts (E)."""
    pattern = c.text("hybrid_override_pattern")
    if not pattern:
        names = {"mamba": "M", LINEAR: "M", "attention": "*", FULL: "*", "mlp": "-", "moe": "E"}
        kinds = c.raw.get("layers_block_type", c.raw.get("layer_types"))
        if not isinstance(kinds, list) or not all(isinstance(kind, str) and kind in names for kind in kinds):
            c.fail("layers_block_type", f"must list each layer as one of {', '.join(names)}")
        pattern = "".join(names[kind] for kind in kinds)
    layers = len(pattern)
    if set(pattern) - set("M*-E") or c.size("num_hidden_layers", default=layers) != layers:
        c.fail("hybrid_override_pattern", "must have a letter for each layer: M, *, - or E")
    f = Family(
        layers=layers, kv_heads=8, head_dim=lambda c, h, n: c.size("attention_head_dim", "head_dim", default=128),
        ffn="intermediate_size" if "-" in pattern else 1, gated=False, mlp_bias=("mlp_bias", False), norms=1,
        n_experts="n_routed_experts" if "E" in pattern else 0, ignored=True,
        sparse=lambda c, layers: [letter == "E" for letter in pattern],
        shared=lambda c: int(c.size("n_shared_experts", default=1, least=0) > 0),  # their width is given for all
        shared_ffn="moe_shared_expert_intermediate_size", modules=NEXT,
    )  # fmt: skip
    if "*" not in pattern:
        f = replace(f, heads=1, kv_heads="", head_dim=1)
    p = plan(c, f)
    if p.experts:
        p.experts["narrow"] = c.size("moe_latent_size", default=0, least=0)
    mixers = {"M": p.state("mamba2", heads="mamba_num_heads", head_dim="mamba_head_dim", **MAMBA_2), "*": p.attend()}
    p.mixers = [mixers.get(letter, ()) for letter in pattern]
    p.mlps = [p.feed(letter == "E") if letter in "-E" else () for letter in pattern]
    return p


def falcon_h1(p: Plan) -> None:
    """Attention and a Mamba side by side in every layer."""
    inner = p.c.size("mamba_d_ssm", default=inner_width(p.c, p.hidden, "mamba_expand"))
    p.mixers = [blocks.beside(prefixed_mamba2(p, inner, norm=("mamba_rms_norm", False)), p.attend())] * p.layers


def _or_mamba(p: Plan, attended: list[bool]) -> None:
    """A Mamba of the second kind in the layers without attention."""
    if not all(attended):
        p.mix(prefixed_mamba2(p, inner_width(p.c, p.hidden, "mamba_expand")), attended)
        p.attention = p.attention if any(attended) else {}


def bamba(p: Plan) -> None:
    listed = p.c.raw.get("attn_layer_indices")
    if not isinstance(listed, list) or any(type(i) is not int or not 0 <= i < p.layers for i in listed):
        p.c.fail("attn_layer_indices", "must list the layers with attention")
    _or_mamba(p, [i in set(listed) for i in range(p.layers)])


def granite_hybrid(p: Plan) -> None:
    key = "layer_types" if p.c.has("layer_types") else "layers_block_type"
    _or_mamba(p, [kind in ("attention", FULL) for kind in p.c.kinds(p.layers, lambda i: "mamba", key)])


def jamba_sparse(c: Config, layers: int) -> list[bool]:
    period, offset = c.size("expert_layer_period", default=2), c.size("expert_layer_offset", default=1, least=0)
    return [i % period == offset and c.size("num_experts") > 1 for i in range(layers)]


def jamba(p: Plan) -> None:
    every, first = p.c.size("attn_layer_period", default=8), p.c.size("attn_layer_offset", default=4, least=0)
    attended = [i >= first and (i - first) % every == 0 for i in range(p.layers)]
    p.mix(prefixed_mamba1(p, norm=True), attended)


def _shared(p: Plan, usual: Callable[[int], bool], recurrent: Block, stored: int = 1, more: Block = ()) -> None:
    """A recurrence in each layer; before some of them stands one of few blocks of attention and an MLP that they share."""
    given, block, used = p.c.raw.get("hybrid_layer_ids"), (p.attend(width=2 * p.hidden), p.feed()), 0
    if p.c.raw.get("layers_block_type") is None and isinstance(given, list) and given:
        hybrid = [i in given for i in range(p.layers)]
    else:
        kinds = p.c.kinds(p.layers, lambda i: "hybrid" if usual(i) else "mamba", "layers_block_type")
        hybrid = [kind == "hybrid" for kind in kinds]
    more = (matrix("to layer", p.hidden, p.hidden), *more)  # brings what the block gives to the layer
    norms = (vector("norms", 2 * p.hidden + p.hidden),)  # one of the stream beside the embedding
    p.mixers, p.mlps, p.more = [], [], []
    for one in hybrid:
        again = used >= stored
        attended, fed = map(blocks.elsewhere, block) if again else block
        p.mixers.append((*recurrent, *attended) if one else recurrent)
        p.mlps.append(fed if one else ())
        p.more.append((*more, *(() if again else norms)) if one else ())
        used += one


def zamba(p: Plan) -> None:
    every, first = p.c.size("attn_layer_period", default=6), p.c.size("attn_layer_offset", default=4, least=0)
    _shared(p, lambda i: i == 2 or (i > 2 and (i - 3) % every == first), prefixed_mamba1(p, norm=False))


def zamba2(p: Plan) -> None:
    c, h, wide, ffn = p.c, p.hidden, 2 * p.hidden, p.mlp["width"]
    rank, heads, stored = c.sizes(adapter_rank=128, n_mamba_heads=8, num_mem_blocks=1)
    more: Block = (matrix("adapter_down", h, rank), matrix("adapter_up", rank, 2 * ffn))
    if c.flag("use_shared_attention_adapter", False):
        more += (matrix("adapter_down", wide, rank), matrix("adapter_up", rank, wide)) * 3
    keys = MAMBA_2 | {
        "key_heads": ("mamba_ngroups", 1),
        "state": PREFIXED["state"],
        "conv": PREFIXED["conv"],
        "bias": False,
    }
    recurrent = p.state("mamba2", heads=heads, head_dim=inner_width(c, h, "mamba_expand") // heads, **keys)
    ids = {6, 12, 18, 24, 30, 36, 42, 47, 51}  # Zamba2Config, when it lists none
    _shared(p, lambda i: i in ids, recurrent, stored, more)


# Short convolutions (Liquid), lightning attention (MiniMax) and Kimi's delta attention


def convolved(p: Plan) -> None:
    listed = p.c.raw.get("full_attn_idxs")
    full = listed if isinstance(listed, list) else range(p.layers)
    kinds = p.c.kinds(p.layers, lambda i: FULL if i in full else "conv")
    bias = {"bias": ("conv_bias", False), "conv_bias": ("conv_bias", False)}
    conv = p.state("short-conv", heads=p.hidden, head_dim=1, conv=("conv_L_cache", 3), **bias)
    p.mix(conv, [kind in (FULL, NEAR) for kind in kinds])


def lfm2_width(c: Config) -> int:
    width = c.size("block_ff_dim", "intermediate_size")
    if not c.flag("block_auto_adjust_ff_dim", True):
        return width
    factor = c.factor("block_ffn_dim_multiplier", 1.0) if c.has("block_ffn_dim_multiplier") else 1.0
    multiple = c.size("block_multiple_of", default=256)
    return multiple * -(-int(factor * int(2 * width / 3)) // multiple)


def lfm3(p: Plan) -> None:
    p.attention["gate"] = "head" if p.c.flag("use_attention_gate", True) else ""
    if not p.c.has("layer_types"):
        p.c.fail("layer_types", f"must list each of {p.layers} layers")
    convolved(p)


def minimax(p: Plan) -> None:
    full = p.full(lambda i: i % 2 == 0)
    if p.c.has("attn_type_list") and not p.c.has("layer_types"):
        full = [one == 1 for one in p.c.numbers("attn_type_list", p.layers, 0, 1)]  # 0: linear, 1: softmax
    heads, size = p.attention["heads"], p.attention["head_dim"]
    p.mix(p.state("lightning", heads=heads, head_dim=size, key_heads=heads, state=size), full)


def _kimi_delta(p: Plan, heads: int, size: int, conv: int, full: list[bool], **more: int) -> None:
    sizes = {"heads": heads, "head_dim": size, "key_heads": heads, "state": size, "conv": conv}
    p.mix(p.state("kimi-delta", state_bits=32, **sizes, **more), full)


def bailing_hybrid(p: Plan) -> None:
    """Ling 2.5: delta attention with gates of full rank, and latent attention with a gate a head in every sixth layer."""
    heads, size, conv, every = p.c.sizes(
        linear_num_heads=p.attention["heads"], linear_head_dim=128, linear_conv_kernel_dim=4, layer_group_size=6
    )
    _kimi_delta(p, heads, size, conv, p.full(nth(every)))


def kimi_linear(p: Plan) -> None:
    """Latent attention without rotation in every fourth layer, delta attention with a decay of each channel in the others."""
    for key in ("routed_expert_hidden_size", "attn_res_block_size"):
        if p.c.has(key):
            p.c.fail(key, "is not supported; only Kimi Linear itself")
    _kimi(p, False)


def _kimi(p: Plan, full_gate: bool) -> list[bool]:
    linear = p.c.inner("linear_attn_config")
    listed = linear.raw.get("kda_layers")  # which counts from one
    full = p.full(lambda i: not isinstance(listed, list) or i + 1 not in listed)
    if all(full):
        linear.fail("kda_layers", "must list the layers with linear attention")
    (conv,), size = linear.sizes(short_conv_kernel_size=4), linear.size("head_dim")
    _kimi_delta(p, linear.size("num_heads"), size, conv, full, rank=size, full_gate=full_gate)
    return full


def kimi_k3(p: Plan) -> None:
    """Kimi K3: gates of full rank, experts on a narrower stream, and residuals that weigh what blocks of layers have given."""
    c, linear = p.c, p.c.inner("linear_attn_config")
    p.attention["gate"] = "full" if c.flag("mla_use_output_gate", False) else ""
    full = _kimi(p, linear.flag("use_full_rank_gate", False))
    more = linear.size("head_dim") - linear.size("num_heads")
    narrow = p.experts["narrow"] = c.size("routed_expert_hidden_size", default=0, least=0)
    # its decays stand once for each channel of a head, not once for each head
    decays: Block = (vector("decays", more),) if more > 0 else ()
    normed: Block = (vector("norm of experts", narrow),) if c.flag("latent_moe_use_norm", False) else ()
    weighed: Block = ()
    if c.has("attn_res_block_size"):  # a norm and a query before attention and MLP, and before the head
        weighed, p.after = (vector("residuals", 4 * p.hidden),), (vector("residuals", 2 * p.hidden),)
    p.more = [
        (*weighed, *(() if one else decays), *(normed if sparse else ()))
        for one, sparse in zip(full, p.sparse, strict=True)
    ]


def recurrent_gemma(p: Plan) -> None:
    """Griffin: real-gated linear recurrences, and attention with a window in every third layer."""
    pattern = p.c.raw.get("block_types", p.c.raw.get("_block_types")) or ["recurrent", "recurrent", "attention"]
    if not isinstance(pattern, list) or not all(kind in ("recurrent", "attention") for kind in pattern):
        p.c.fail("block_types", "must list 'recurrent' and 'attention'")
    recurrent = p.state(
        "rg-lru", heads=("lru_width", p.hidden), head_dim=1, state=1, conv=("conv1d_width", 4), bias=True,
        conv_bias=True, key_heads=p.attention["heads"], state_bits=32,  # the heads are blocks of its gates
    )  # fmt: skip
    p.mix(recurrent, [pattern[i % len(pattern)] == "attention" for i in range(p.layers)])


def xlstm(p: Plan) -> None:
    c, heads, multiple = p.c, p.c.size("num_heads"), p.c.size("ffn_round_up_to_multiple_of", default=64)
    wide = p.hidden * c.factor("ffn_proj_factor", 2.667)
    p.mlp["width"] = int((wide + multiple - 1) // multiple * multiple)
    value, key = (
        int(p.hidden * c.factor(f"{of}_dim_factor", usual)) // heads for of, usual in (("v", 1.0), ("qk", 0.5))
    )
    sizes = {"heads": heads, "head_dim": value, "key_heads": heads, "state": key}
    p.mixers, p.attention = [p.state("mlstm", state_bits=bits("inference_state_dtype"), **sizes)] * p.layers, {}


# fmt: off
ALONE = Family(heads=1, kv_heads="", head_dim=1, ffn=1, norms=1)
MAMBA = replace(
    ALONE, layers=("num_hidden_layers", "n_layer"), hidden=("hidden_size", "d_model"), tied=TIED, then=mamba_alone)
ZAMBA = Family(
    head_dim=lambda c, hidden, heads: c.size("attention_head_dim", default=2 * hidden // heads), qkv_bias=False,
    output_bias=False, ffn=lambda c: c.size("intermediate_size", "ffn_hidden_size", default=4 * c.size("hidden_size")),
    norms=1, tied=TIED)
QWEN_3_5 = replace(QWEN_3, kv_heads=4, head_dim=256, window=None, modules=NEXT, then=delta)
QWEN_MIXED = replace(
    QWEN_3_5, kv_heads=2, n_experts=EXPERTS[::-1], sparse=qwen_sparse, **OWN_SHARED, shared_gate=True)
LFM = Family(
    kv_heads=8, qkv_bias=False, output_bias=False, qk_norm="head", then=convolved,
    tied=lambda c: c.flag("tie_embedding", c.flag("tie_word_embeddings", True)))
MINIMAX = replace(
    LFM, qk_norm="", n_experts="num_local_experts", expert_ffn="intermediate_size", tied=LLAMA.tied, then=minimax)
KIMI = replace(
    DEEP, latent=True, n_experts="num_experts", top_k=("num_experts_per_token", "num_experts_per_tok"), modules=NEXT,
    absent={"q_lora_rank": None}, refused=(("moe_layer_freq", 1, "mixtures in every n-th layer"),))
KIMI_K3 = replace(KIMI, then=kimi_k3)
FAMILIES: dict[str, Family] = {
    "bailing_hybrid": replace(KIMI, gate="head", refused=(), then=bailing_hybrid),
    "bamba": replace(LLAMA, then=bamba),
    "falcon_h1": replace(LLAMA, then=falcon_h1),
    "falcon_mamba": MAMBA,
    "granitemoehybrid": replace(
        LLAMA, ffn="shared_intermediate_size", n_experts="num_local_experts", expert_ffn="intermediate_size", shared=1,
        shared_ffn="shared_intermediate_size", absent={"num_local_experts": 0}, then=granite_hybrid,
        sparse=lambda c, layers: [c.size("num_local_experts", default=0, least=0) > 0] * layers),
    "jamba": replace(
        LLAMA, kv_heads=8, n_experts="num_experts", expert_ffn="intermediate_size", sparse=jamba_sparse, then=jamba,
        absent={"num_experts": 16}),
    "kimi_linear": replace(KIMI, then=kimi_linear),
    "lfm2": replace(LFM, ffn=lfm2_width),
    "lfm2_moe": replace(
        LFM, n_experts="num_experts", sparse=leading(2, "num_dense_layers"), router_bias=("use_expert_bias", True)),
    "lfm3": replace(
        LFM, norms=lambda c: 4 if c.flag("use_sandwich_norm", True) else 2, then=lfm3,
        window=lambda c, layers: [
            c.size("sliding_window", default=256) * (kind == NEAR) for kind in c.kinds(layers, lambda i: FULL)]),
    "mamba": MAMBA,
    "mamba2": replace(ALONE, head_dim=lambda c, hidden, heads: 1, then=mamba2_alone),
    "mamba_ssm": replace(
        ALONE, layers="n_layer", hidden="d_model", vocab=_filled_vocab, tied=("tie_embeddings", True),
        then=original_mamba),
    "minimax": MINIMAX,
    "minimax_m1": MINIMAX,
    "minimax_text_01": MINIMAX,
    "olmo_hybrid": replace(OLMO_2, then=lambda p: delta(p, gated=False)),
    "qwen3_5_moe_text": QWEN_MIXED,
    "qwen3_5_text": QWEN_3_5,
    # the checkpoints hold a module for multi-token prediction of which their config says nothing
    "qwen3_next": replace(QWEN_MIXED, modules=(*NEXT[:2], 1)),
    "recurrent_gemma": Family(
        output_bias=True, mlp_bias=True, tied=TIED, then=recurrent_gemma,
        ffn=lambda c: c.size("intermediate_size", default=3 * c.size("hidden_size")) // 2,  # one half gates the other
        window=lambda c, layers: [c.size("attention_window_size", default=2048)] * layers,
        absent={"num_hidden_layers": 26, "hidden_size": 2560, "num_attention_heads": 10, "vocab_size": 256_000}),
    "xlstm": replace(
        ALONE, layers=("num_hidden_layers", "num_blocks"), hidden=("hidden_size", "embedding_dim"), norms=2, then=xlstm,
        refused=(
            ("use_bias", False, "biases of the projections"), ("weight_mode", "single", "projections in one matrix"))),
    "zamba": replace(ZAMBA, then=zamba),
    "zamba2": replace(ZAMBA, then=zamba2, refused=(("add_bias_linear", False, "biases of the projections"),)),
}
# fmt: on
READERS: dict[str, Reader] = {**rows(FAMILIES, plain=False), "nemotron_h": nemotron_h}
