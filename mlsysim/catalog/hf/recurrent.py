"""Families with recurrences: linear attention, state spaces, short convolutions, alone or beside attention."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from mlsysim.catalog import blocks
from mlsysim.catalog.blocks import Block
from mlsysim.catalog.hf.config import Config
from mlsysim.catalog.hf.decoder import FULL, LINEAR, NEAR, Family, Plan, Reader, leading, matrix, nth, plan, vector
from mlsysim.catalog.hf.families import (
    DEEP,
    EXPERTS,
    LLAMA,
    NEXT,
    OLMO_2,
    OWN_SHARED,
    QWEN_3,
    TIED,
    qwen_sparse,
)

PREFIXED = {"groups": "mamba_n_groups", "state": "mamba_d_state", "conv": "mamba_d_conv"}
BARE = {"groups": "n_groups", "state": "ssm_state_size", "conv": "conv_kernel"}
ALONE = Family(
    heads=("num_attention_heads", 1), kv_heads="", head_dim=1, ffn=1, norms=1
)  # layers that hold a recurrence and nothing else


def bits(c: Config, *keys: str) -> int:
    """Bits of a number of a state, where the config says that a server keeps it wider than what it computes in."""
    return 32 if any(c.text(key) == "float32" for key in keys) else 0


def mixed(p: Plan, recurrent: Block, attended: Iterable[bool]) -> Plan:
    """A plan with a recurrence in the layers that do not attend."""
    p.mixers = [p.attend(width) if one else recurrent for one, width in zip(attended, p.windows, strict=True)]
    return p


def alone(p: Plan, recurrent: Block) -> Plan:
    p.mixers, p.mlps, p.attention = [recurrent] * p.layers, [()] * p.layers, {}
    return p


def full_ones(c: Config, layers: int, full: Callable[[int], bool]) -> list[bool]:
    return [kind == FULL for kind in c.kinds(layers, lambda i: FULL if full(i) else LINEAR)]


# Qwen: gated delta networks, and gated attention in every fourth layer


def delta(c: Config, p: Plan, gated: bool = True) -> Plan:
    gate = gated and c.flag("attn_output_gate", True)
    p.attention["gate"] = "full" if gate else ""
    recurrent = blocks.recurrence(
        p.hidden,
        kind="gated-delta",
        heads=c.size("linear_num_value_heads"),
        head_dim=c.size("linear_value_head_dim"),
        key_heads=c.size("linear_num_key_heads"),
        state=c.size("linear_key_head_dim"),
        conv=c.size("linear_conv_kernel_dim", default=4),
        state_bits=bits(c, "mamba_ssm_dtype"),
    )
    full = full_ones(c, p.layers, nth(c.size("full_attention_interval", default=4)))
    if gate and p.attention["qkv_bias"]:  # the gate has a bias as well
        bias = vector("gate bias", p.attention["heads"] * p.attention["head_dim"])
        p.more = [(bias,) if one else () for one in full]
    return mixed(p, recurrent, full)


QWEN_3_5 = replace(QWEN_3, kv_heads=4, head_dim=256, window=None, modules=NEXT)
QWEN_MIXED = replace(QWEN_3_5, kv_heads=2, n_experts=EXPERTS[::-1], sparse=qwen_sparse, **OWN_SHARED, shared_gate=True)


def qwen3_5(c: Config) -> Plan:
    return delta(c, plan(c, QWEN_3_5))


def qwen3_5_moe(c: Config) -> Plan:
    return delta(c, plan(c, QWEN_MIXED))


def qwen3_next(c: Config) -> Plan:
    # The checkpoints hold a module for multi-token prediction of which their config says nothing.
    return qwen3_5_moe(c if c.has(NEXT[0]) or c.has(NEXT[1]) else c.but(**{NEXT[0]: 1}))


def olmo_hybrid(c: Config) -> Plan:
    return delta(c, plan(c, OLMO_2), gated=False)


# Mamba


def _auto(c: Config, key: str, size: int) -> int:
    """A size that may be called auto, or left out."""
    return size if c.raw.get(key, "auto") in ("auto", None) else c.size(key)


def inner_width(c: Config, hidden: int, key: str = "expand") -> int:
    """The inner width: a multiple of hidden, which some configs write as a fraction."""
    factor = c.factor(key, 2)
    if factor * hidden != int(factor * hidden):
        c.fail(key, "must be a number in (0, 100] that makes a whole inner width")
    return int(factor * hidden)


def mamba2(p: Plan, c: Config, keys: dict[str, str], **sizes: Any) -> Block:
    return blocks.recurrence(
        p.hidden,
        kind="mamba2",
        key_heads=c.size(keys["groups"], default=1),
        state=c.size(keys["state"]),
        conv=c.size(keys["conv"], default=4),
        state_bits=bits(c, "mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
        **sizes,
    )


def mamba1(p: Plan, c: Config, inner: int, state: str, conv: str, rank: str, **flags: bool) -> Block:
    return blocks.recurrence(
        p.hidden,
        kind="mamba",
        heads=inner,
        head_dim=1,
        state=c.size(state, default=16),
        conv=c.size(conv, default=4),
        rank=_auto(c, rank, -(-p.hidden // 16)),
        **flags,
    )


def _mamba_flags(c: Config) -> dict[str, bool]:
    return {"bias": c.flag("mamba_proj_bias", False), "conv_bias": c.flag("mamba_conv_bias", True)}


def prefixed_mamba1(p: Plan, c: Config, norm: bool) -> Block:
    keys = ("mamba_d_state", "mamba_d_conv", "mamba_dt_rank")
    return mamba1(p, c, inner_width(c, p.hidden, "mamba_expand"), *keys, norm=norm, **_mamba_flags(c))


def mamba2_alone(c: Config) -> Plan:
    p, size = plan(c.without("head_dim"), ALONE), c.size("head_dim", default=64)
    inner = inner_width(c, p.hidden)
    heads = c.size("num_heads", default=inner // size)
    if heads * size != inner:
        c.fail("num_heads", f"times head_dim = {size} must be expand x hidden_size = {inner}")
    flags = {"bias": c.flag("use_bias", False), "conv_bias": c.flag("use_conv_bias", True)}
    return alone(p, mamba2(p, c, BARE | {"state": "state_size"}, heads=heads, head_dim=size, **flags))


def mamba_alone(c: Config) -> Plan:
    names: dict[str, Any] = {"layers": ("num_hidden_layers", "n_layer"), "hidden": ("hidden_size", "d_model")}
    p = plan(c, replace(ALONE, tied=TIED, **names))
    inner = c.size("intermediate_size", default=inner_width(c, p.hidden))
    flags = {"bias": c.flag("use_bias", False), "conv_bias": c.flag("use_conv_bias", True)}
    return alone(p, mamba1(p, c, inner, "state_size", "conv_kernel", "time_step_rank", norm=False, **flags))


def original_mamba(c: Config) -> Plan:
    """The config of the ``mamba_ssm`` package, which has no ``model_type``: what it leaves out are its code's defaults."""
    ssm, multiple = c.inner("ssm_cfg"), c.size("pad_vocab_size_multiple", default=8)
    if c.raw.get("attn_layer_idx"):
        c.fail("attn_layer_idx", "is not supported; only models without attention")
    if c.size("d_intermediate", default=0, least=0):
        c.fail("d_intermediate", "is not supported; only models without MLPs")
    vocab = -(-c.size("vocab_size") // multiple) * multiple
    p = plan(c, replace(ALONE, layers="n_layer", hidden="d_model", vocab=vocab, tied=("tie_embeddings", True)))
    inner, conv_bias = inner_width(ssm, p.hidden), ssm.flag("conv_bias", True)
    if ssm.text("layer", "Mamba1") == "Mamba2":
        (size,) = ssm.sizes(headdim=64)
        keys = {"groups": "ngroups", "state": "d_state", "conv": "d_conv"}
        sizes = {"heads": inner // size, "head_dim": size, "conv_bias": conv_bias}
        return alone(p, mamba2(p, ssm.given(d_state=128), keys, **sizes))
    flags = {"bias": ssm.flag("bias", False), "conv_bias": conv_bias, "norm": False}
    return alone(p, mamba1(p, ssm, inner, "d_state", "d_conv", "dt_rank", **flags))


def nemotron_h(c: Config) -> Plan:
    """Each layer holds one thing: a Mamba (M), attention (*), a plain MLP (-) or a mixture of experts (E)."""
    pattern = c.text("hybrid_override_pattern")
    if not pattern:
        names = {"mamba": "M", LINEAR: "M", "attention": "*", FULL: "*", "mlp": "-", "moe": "E"}
        kinds = c.raw.get("layers_block_type", c.raw.get("layer_types"))
        if (
            not isinstance(kinds, list)
            or len(kinds) > 10_000
            or not all(isinstance(k, str) and k in names for k in kinds)
        ):
            c.fail("layers_block_type", f"must list each layer as one of {', '.join(names)}")
        pattern = "".join(names[kind] for kind in kinds)
    layers = len(pattern)
    if set(pattern) - set("M*-E") or c.size("num_hidden_layers", default=layers) != layers:
        c.fail("hybrid_override_pattern", "must have a letter for each layer: M, *, - or E")
    f = Family(
        layers=("num_hidden_layers", layers),
        kv_heads=8,
        head_dim=lambda c, h, n: c.size("attention_head_dim", "head_dim", default=128),
        ffn="intermediate_size" if "-" in pattern else 1,
        gated=False,
        mlp_bias=("mlp_bias", False),
        norms=1,
        n_experts="n_routed_experts" if "E" in pattern else 0,
        sparse=lambda c, layers: [letter == "E" for letter in pattern],
        shared=lambda c: int(c.size("n_shared_experts", default=1, least=0) > 0),  # their width is given for all
        shared_ffn="moe_shared_expert_intermediate_size",
        modules=NEXT,
    )
    if "*" not in pattern:
        f = replace(f, heads=("num_attention_heads", 1), kv_heads="", head_dim=1)
    p = plan(c if "E" in pattern else c.without("n_routed_experts", *EXPERTS), f)
    if p.experts:
        p.experts["narrow"] = c.size("moe_latent_size", default=0, least=0)
    flags = {"bias": c.flag("use_bias", False), "conv_bias": c.flag("use_conv_bias", True)}
    sizes = {"heads": c.size("mamba_num_heads"), "head_dim": c.size("mamba_head_dim")}
    mixers = {"M": mamba2(p, c, BARE, **sizes, **flags), "*": p.attend()}
    p.mixers = [mixers.get(letter, ()) for letter in pattern]
    p.mlps = [p.feed(letter == "E") if letter in "-E" else () for letter in pattern]
    return p


def falcon_h1(c: Config) -> Plan:
    """Attention and a Mamba side by side in every layer."""
    p = plan(c, LLAMA)
    inner = c.size("mamba_d_ssm", default=inner_width(c, p.hidden, "mamba_expand"))
    heads, norm = c.size("mamba_n_heads"), c.flag("mamba_rms_norm", False)
    size = _auto(c, "mamba_d_head", inner // heads)
    both = blocks.beside(mamba2(p, c, PREFIXED, heads=heads, head_dim=size, norm=norm, **_mamba_flags(c)), p.attend())
    p.mixers = [both] * p.layers
    return p


def _or_mamba(c: Config, p: Plan, attended: list[bool]) -> Plan:
    """A Mamba of the second kind in the layers without attention."""
    if all(attended):
        return p
    heads = c.size("mamba_n_heads")
    size = _auto(c, "mamba_d_head", inner_width(c, p.hidden, "mamba_expand") // heads)
    p.attention = p.attention if any(attended) else {}
    return mixed(p, mamba2(p, c, PREFIXED, heads=heads, head_dim=size, **_mamba_flags(c)), attended)


def bamba(c: Config) -> Plan:
    p, listed = plan(c, LLAMA), c.raw.get("attn_layer_indices")
    if not isinstance(listed, list) or any(type(i) is not int or not 0 <= i < p.layers for i in listed):
        c.fail("attn_layer_indices", "must list the layers with attention")
    return _or_mamba(c, p, [i in set(listed) for i in range(p.layers)])


def granite_hybrid(c: Config) -> Plan:
    n = c.size("num_local_experts", default=0, least=0)
    f = replace(
        LLAMA,
        ffn="shared_intermediate_size",
        n_experts=n,
        expert_ffn="intermediate_size",
        shared=1,
        shared_ffn="shared_intermediate_size",
    )
    p = plan(c if n else c.without("num_local_experts"), f)
    key = "layer_types" if c.has("layer_types") else "layers_block_type"
    return _or_mamba(c, p, [kind in ("attention", FULL) for kind in c.kinds(p.layers, lambda i: "mamba", key)])


def jamba(c: Config) -> Plan:
    n = c.size("num_experts", default=16)
    period, offset = c.size("expert_layer_period", default=2), c.size("expert_layer_offset", default=1, least=0)
    f = replace(
        LLAMA,
        kv_heads=8,
        n_experts=n if n > 1 else 0,
        expert_ffn="intermediate_size",
        sparse=lambda c, layers: [i % period == offset for i in range(layers)],
    )
    p = plan(c if n > 1 else c.without("num_experts"), f)
    every, first = c.size("attn_layer_period", default=8), c.size("attn_layer_offset", default=4, least=0)
    attended = [i >= first and (i - first) % every == 0 for i in range(p.layers)]
    return mixed(p, prefixed_mamba1(p, c, norm=True), attended)


def _shared(c: Config, p: Plan, hybrid: list[bool], recurrent: Block, stored: int, more: Block) -> Plan:
    """A recurrence in each layer; before some of them stands one of few blocks of attention and an MLP that they share."""
    block = (p.attend(), p.feed())
    norms = (vector("norms", 2 * p.hidden + p.hidden),)  # one of the stream beside the embedding
    p.mixers, p.mlps, p.more, used = [], [], [], 0
    for one in hybrid:
        again = used >= stored
        attended, fed = map(blocks.elsewhere, block) if again else block
        p.mixers.append((*recurrent, *attended) if one else recurrent)
        p.mlps.append(fed if one else ())
        # a matrix brings what the block gives to the layer
        p.more.append((matrix("to layer", p.hidden, p.hidden), *more, *(() if again else norms)) if one else ())
        used += one
    return p


def _hybrid(c: Config, layers: int, usual: Callable[[int], bool]) -> list[bool]:
    given = c.raw.get("hybrid_layer_ids")
    if c.raw.get("layers_block_type") is None and isinstance(given, list) and given:
        return [i in given for i in range(layers)]
    kinds = c.kinds(layers, lambda i: "hybrid" if usual(i) else "mamba", "layers_block_type")
    return [kind == "hybrid" for kind in kinds]


_ZAMBA = Family(
    head_dim=lambda c, hidden, heads: c.size("attention_head_dim", default=2 * hidden // heads),
    qkv_bias=False,
    output_bias=False,
    ffn=lambda c: c.size("intermediate_size", "ffn_hidden_size", default=4 * c.size("hidden_size")),
    norms=1,
    tied=TIED,
)


def zamba(c: Config) -> Plan:
    p = plan(c, _ZAMBA)
    p.attention["width"] = 2 * p.hidden
    every, first = c.size("attn_layer_period", default=6), c.size("attn_layer_offset", default=4, least=0)
    hybrid = _hybrid(c, p.layers, lambda i: i == 2 or (i > 2 and (i - 3) % every == first))
    return _shared(c, p, hybrid, prefixed_mamba1(p, c, norm=False), 1, ())


def zamba2(c: Config) -> Plan:
    p = plan(c, replace(_ZAMBA, refused=(("add_bias_linear", False, "biases of the projections"),)))
    h, wide, ffn = p.hidden, 2 * p.hidden, p.mlp["width"]
    p.attention["width"] = wide
    ids = {6, 12, 18, 24, 30, 36, 42, 47, 51}  # Zamba2Config, when it lists none
    rank, heads = c.sizes(adapter_rank=128, n_mamba_heads=8)
    more: Block = (matrix("adapter_down", h, rank), matrix("adapter_up", rank, 2 * ffn))
    if c.flag("use_shared_attention_adapter", False):
        more += (matrix("adapter_down", wide, rank), matrix("adapter_up", rank, wide)) * 3
    keys = {"groups": "mamba_ngroups", "state": "mamba_d_state", "conv": "mamba_d_conv"}
    size = inner_width(c, h, "mamba_expand") // heads
    recurrent = mamba2(p, c, keys, heads=heads, head_dim=size, conv_bias=c.flag("use_conv_bias", True))
    return _shared(c, p, _hybrid(c, p.layers, lambda i: i in ids), recurrent, c.size("num_mem_blocks", default=1), more)


# Short convolutions (Liquid), lightning attention (MiniMax) and Kimi's delta attention


LFM = replace(
    LLAMA,
    kv_heads=8,
    qkv_bias=False,
    output_bias=False,
    mlp_bias=False,
    qk_norm="head",
    tied=lambda c: c.flag("tie_embedding", c.flag("tie_word_embeddings", True)),
)


def convolved(c: Config, p: Plan) -> Plan:
    listed = c.raw.get("full_attn_idxs")
    full = listed if isinstance(listed, list) else range(p.layers)
    kinds = c.kinds(p.layers, lambda i: FULL if i in full else "conv")
    bias = c.flag("conv_bias", False)
    conv = blocks.recurrence(
        p.hidden,
        kind="short-conv",
        heads=p.hidden,
        head_dim=1,
        conv=c.size("conv_L_cache", default=3),
        bias=bias,
        conv_bias=bias,
    )
    return mixed(p, conv, [kind in (FULL, NEAR) for kind in kinds])


def lfm2(c: Config) -> Plan:
    width = c.size("block_ff_dim", "intermediate_size")
    if c.flag("block_auto_adjust_ff_dim", True):
        factor = c.factor("block_ffn_dim_multiplier", 1.0) if c.has("block_ffn_dim_multiplier") else 1.0
        multiple = c.size("block_multiple_of", default=256)
        width = multiple * -(-int(factor * int(2 * width / 3)) // multiple)
    return convolved(c, plan(c, replace(LFM, ffn=width)))


def lfm2_moe(c: Config) -> Plan:
    f = replace(
        LFM,
        n_experts="num_experts",
        sparse=leading(2, "num_dense_layers"),
        router_bias=("use_expert_bias", True),
    )
    return convolved(c, plan(c, f))


def lfm3(c: Config) -> Plan:
    gate = "head" if c.flag("use_attention_gate", True) else ""
    p = plan(c, replace(LFM, gate=gate, norms=lambda c: 4 if c.flag("use_sandwich_norm", True) else 2))
    if not c.has("layer_types"):
        c.fail("layer_types", f"must list each of {p.layers} layers")
    width = c.size("sliding_window", default=256)
    p.windows = [width if kind == NEAR else 0 for kind in c.kinds(p.layers, lambda i: FULL)]
    return convolved(c, p)


def minimax(c: Config) -> Plan:
    f = replace(LFM, qk_norm="", n_experts="num_local_experts", expert_ffn="intermediate_size", tied=LLAMA.tied)
    p, listed = plan(c, f), c.raw.get("attn_type_list")
    full = full_ones(c, p.layers, lambda i: i % 2 == 0)
    if listed is not None and not c.has("layer_types"):
        full = [one == 1 for one in c.numbers("attn_type_list", p.layers, 0, 1)]  # 0: linear, 1: softmax
    sizes = {"heads": p.attention["heads"], "head_dim": p.attention["head_dim"]}
    recurrent = blocks.recurrence(
        p.hidden, kind="lightning", key_heads=sizes["heads"], state=sizes["head_dim"], **sizes
    )
    return mixed(p, recurrent, full)


KIMI = replace(
    DEEP,
    latent=True,
    n_experts="num_experts",
    top_k=("num_experts_per_token", "num_experts_per_tok"),
    modules=NEXT,
)


def _kimi_delta(p: Plan, heads: int, size: int, conv: int, **more: int) -> Block:
    sizes = {"heads": heads, "head_dim": size, "key_heads": heads, "state": size, "conv": conv}
    return blocks.recurrence(p.hidden, kind="kimi-delta", state_bits=32, **sizes, **more)


def kimi_linear(c: Config) -> Plan:
    """Latent attention without rotation in every fourth layer, delta attention with a decay of each channel in the others."""
    for key in ("routed_expert_hidden_size", "attn_res_block_size"):
        if c.has(key):
            c.fail(key, "is not supported; only Kimi Linear itself")
    return _kimi(c)[0]


def _kimi(c: Config, full_gate: bool = False, **more: Any) -> tuple[Plan, list[bool]]:
    c.must_be("moe_layer_freq", 1, "mixtures in every n-th layer")
    p, linear = plan(c.given(q_lora_rank=None), KIMI), c.inner("linear_attn_config")
    p.attention |= more
    listed = linear.raw.get("kda_layers")  # which counts from one
    if not c.has("layer_types") and (not isinstance(listed, list) or not all(type(i) is int for i in listed)):
        linear.fail("kda_layers", "must list the layers with linear attention")
    full = full_ones(c, p.layers, lambda i: i + 1 not in (listed or []))
    if all(full):
        linear.fail("kda_layers", "must list the layers with linear attention")
    (conv,), size = linear.sizes(short_conv_kernel_size=4), linear.size("head_dim")
    delta = _kimi_delta(p, linear.size("num_heads"), size, conv, rank=size, full_gate=full_gate)
    return mixed(p, delta, full), full


def bailing_hybrid(c: Config) -> Plan:
    """Ling 2.5: delta attention with gates of full rank, and latent attention with a gate a head in every sixth layer."""
    p = plan(c.given(q_lora_rank=None), replace(KIMI, gate="head"))
    full = full_ones(c, p.layers, nth(c.size("layer_group_size", default=6)))
    heads = c.size("linear_num_heads", default=p.attention["heads"])
    size, conv = c.sizes(linear_head_dim=128, linear_conv_kernel_dim=4)
    return mixed(p, _kimi_delta(p, heads, size, conv), full)


def kimi_k3_text(c: Config) -> Plan:
    """Kimi K3: gates of full rank, experts on a narrower stream, and residuals that weigh what blocks of layers have given."""
    linear = c.inner("linear_attn_config")
    full_gate = linear.flag("use_full_rank_gate", False)
    p, full = _kimi(c, full_gate, gate="full" if c.flag("mla_use_output_gate", False) else "")
    heads, size = linear.size("num_heads"), linear.size("head_dim")
    narrow = p.experts["narrow"] = c.size("routed_expert_hidden_size", default=0, least=0)
    # its decays stand once for each channel of a head, not once for each head
    decays: Block = (vector("decays", size - heads),) if size > heads else ()
    normed: Block = (vector("norm of experts", narrow),) if c.flag("latent_moe_use_norm", False) else ()
    weighed: Block = ()
    if c.has("attn_res_block_size"):  # a norm and a query before attention and MLP, and before the head
        weighed, p.after = (vector("residuals", 4 * p.hidden),), (vector("residuals", 2 * p.hidden),)
    p.more = [
        (*weighed, *(() if one else decays), *(normed if sparse else ()))
        for one, sparse in zip(full, p.sparse, strict=True)
    ]
    return p


def recurrent_gemma(c: Config) -> Plan:
    """Griffin: real-gated linear recurrences, and attention with a window in every third layer."""
    f = Family(
        output_bias=True,
        mlp_bias=True,
        ffn=lambda c: c.size("intermediate_size", default=3 * c.size("hidden_size")) // 2,  # one half gates the other
        tied=TIED,
    )
    usual = {"num_hidden_layers": 26, "hidden_size": 2560, "num_attention_heads": 10, "vocab_size": 256_000}
    c = c.given(**usual)
    p = plan(c, f)
    pattern = c.raw.get("block_types", c.raw.get("_block_types")) or ["recurrent", "recurrent", "attention"]
    if not isinstance(pattern, list) or not all(kind in ("recurrent", "attention") for kind in pattern):
        c.fail("block_types", "must list 'recurrent' and 'attention'")
    p.windows = [c.size("attention_window_size", default=2048)] * p.layers
    recurrent = blocks.recurrence(
        p.hidden,
        kind="rg-lru",
        heads=c.size("lru_width", default=p.hidden),
        head_dim=1,
        state=1,
        key_heads=p.attention["heads"],  # blocks of its gates
        conv=c.size("conv1d_width", default=4),
        bias=True,
        conv_bias=True,
        state_bits=32,
    )
    return mixed(p, recurrent, [pattern[i % len(pattern)] == "attention" for i in range(p.layers)])


def xlstm(c: Config) -> Plan:
    f = replace(
        ALONE,
        layers=("num_hidden_layers", "num_blocks"),
        hidden=("hidden_size", "embedding_dim"),
        norms=2,
        refused=(
            ("use_bias", False, "biases of the projections"),
            ("weight_mode", "single", "projections in one matrix"),
        ),
    )
    p, heads = plan(c, f), c.size("num_heads")
    wide, multiple = p.hidden * c.factor("ffn_proj_factor", 2.667), c.size("ffn_round_up_to_multiple_of", default=64)
    p.mlp["width"] = int((wide + multiple - 1) // multiple * multiple)
    recurrent = blocks.recurrence(
        p.hidden,
        kind="mlstm",
        heads=heads,
        head_dim=int(p.hidden * c.factor("v_dim_factor", 1.0)) // heads,
        key_heads=heads,
        state=int(p.hidden * c.factor("qk_dim_factor", 0.5)) // heads,
        state_bits=bits(c, "inference_state_dtype"),
    )
    p.mixers = [recurrent] * p.layers
    p.attention = {}
    return p


READERS: dict[str, Reader] = {
    "bailing_hybrid": bailing_hybrid,
    "bamba": bamba,
    "falcon_h1": falcon_h1,
    "falcon_mamba": mamba_alone,
    "granitemoehybrid": granite_hybrid,
    "jamba": jamba,
    "kimi_linear": kimi_linear,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
    "lfm3": lfm3,
    "mamba": mamba_alone,
    "mamba2": mamba2_alone,
    "mamba_ssm": original_mamba,
    "minimax": minimax,
    "minimax_m1": minimax,
    "minimax_text_01": minimax,
    "nemotron_h": nemotron_h,
    "olmo_hybrid": olmo_hybrid,
    "qwen3_5_moe_text": qwen3_5_moe,
    "qwen3_5_text": qwen3_5,
    "qwen3_next": qwen3_next,
    "recurrent_gemma": recurrent_gemma,
    "xlstm": xlstm,
    "zamba": zamba,
    "zamba2": zamba2,
}
