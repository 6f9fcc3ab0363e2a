"""Readers of further families whose layers hold attention and an MLP or experts in the usual way."""

from collections.abc import Callable
from typing import Any

from mlsysim.catalog.hf.config import Config, Shape
from mlsysim.catalog.hf.dense import PLAIN, biases, gemma, gpt, granite, llama, olmo2, sliding
from mlsysim.catalog.hf.mixtures import deepseek, deepseek_v3, dense_first, further, qwen3_moe

# Models before rotary positions were usual, and those made from them


def _gptj(c: Config) -> Shape:
    """One norm before attention and MLP side by side; biases in the MLP and the head."""
    s = gpt(c, "n_embd", "hidden_size")
    bare = {"qkv_bias": False, "output_bias": False, "norms_per_layer": 1, "parallel_block": True, "head_bias": True}
    return (
        s | bare | {"ffn": c.size("n_inner", default=s["ffn"]), "tied_embeddings": c.flag("tie_word_embeddings", False)}
    )


def _gpt_bigcode(c: Config) -> Shape:
    s = gpt(c, "n_embd", "hidden_size")
    return s | {
        "kv_heads": 1 if c.flag("multi_query", True) else s["heads"],
        "ffn": c.size("n_inner", default=s["ffn"]),
        "learned_positions": c.size("n_positions", "max_position_embeddings"),
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }


def _openai_gpt(c: Config) -> Shape:
    positions = c.size("n_positions", "max_position_embeddings")
    tied = c.flag("tie_word_embeddings", True)
    return gpt(c, "n_embd", "hidden_size") | {
        "learned_positions": positions,
        "final_norm": False,
        "tied_embeddings": tied,
    }


def _gpt_neo(c: Config) -> Shape:
    hidden, heads = c.size("hidden_size"), c.heads("num_heads", "num_attention_heads")
    layers = c.size("num_layers", "num_hidden_layers")
    kinds = c.raw.get("attention_layers")
    if kinds is None:  # GPTNeoConfig: written as [[["global", "local"], 12]]
        pairs = c.raw.get("attention_types", [[["global", "local"], layers // 2]])
        whole = isinstance(pairs, list) and all(
            isinstance(p, list) and len(p) == 2 and isinstance(p[0], list) for p in pairs
        )
        if not whole or not all(type(p[1]) is int and 0 <= p[1] <= layers for p in pairs):
            c.fail("attention_types", "must list pairs of names and how often they repeat")
        kinds = [name for names, times in pairs for name in names * times]
    if not isinstance(kinds, list) or len(kinds) != layers:
        c.fail("attention_layers", f"must list {layers} names, one for each layer")
    return {
        **PLAIN,
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": c.head_dim(hidden, heads, "num_heads"),
        "ffn": c.size("intermediate_size", default=4 * hidden),
        "vocab": c.size("vocab_size"),
        "output_bias": True,
        "mlp_bias": True,
        "learned_positions": c.size("max_position_embeddings"),
        "tied_embeddings": c.flag("tie_word_embeddings", True),
        **sliding(layers, c.size("window_size", default=256), sum(kind == "local" for kind in kinds)),
    }


def _biogpt(c: Config) -> Shape:
    s = c.base()
    return s | {
        **PLAIN,
        **biases(True),
        "kv_heads": s["heads"],
        "head_dim": c.head_dim(s["hidden"], s["heads"]),
        "ffn": c.size("intermediate_size"),
        "learned_positions": c.size("max_position_embeddings") + 2,  # two rows in front, for padding
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }


def _xglm(c: Config) -> Shape:
    hidden, heads = c.size("d_model", "hidden_size"), c.heads("attention_heads", "num_attention_heads")
    return {
        **PLAIN,
        **biases(True),
        "layers": c.size("num_layers", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": c.head_dim(hidden, heads, "attention_heads"),
        "ffn": c.size("ffn_dim"),
        "vocab": c.size("vocab_size"),
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }


def _ctrl(c: Config) -> Shape:
    return gpt(c, "n_embd", "hidden_size") | {
        "ffn": c.size("dff"),
        "head_bias": True,
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }


def _neox_japanese(c: Config) -> Shape:
    s = c.base()
    return s | {
        **PLAIN,
        "kv_heads": s["heads"],
        "head_dim": c.head_dim(s["hidden"], s["heads"]),
        "ffn": c.size("intermediate_multiple_size", default=4) * s["hidden"],
        "other_vectors": s["hidden"],  # a bias that the last layer alone has
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }


def persimmon(c: Config) -> Shape:
    s = c.base()
    return s | {
        **PLAIN,
        **biases(True),
        "kv_heads": s["heads"],
        "head_dim": c.head_dim(s["hidden"], s["heads"]),
        "ffn": c.size("intermediate_size"),
        "qk_norm": "head" if c.flag("qk_layernorm", True) else "",
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def _fuyu(c: Config) -> Shape:
    """Patches of an image enter through one matrix; there is no tower."""
    text = c.inner("text_config") if c.has("text_config") else c
    patch, channels = c.size("patch_size", default=30), c.size("num_channels", default=3)
    s = persimmon(text)
    if c.has("text_config") and c.has("tie_word_embeddings"):
        s |= {"tied_embeddings": c.flag("tie_word_embeddings", False)}
    return s | {"tower_parameters": (patch**2 * channels + 1) * s["hidden"]}


# Dense families of the years since


def _every(c: Config, layers: int, full: int, default: int | None) -> Shape:
    """A window in the layers that ``layer_types`` lists, or in all but ``full`` of them."""
    width = c.size("sliding_window", default=0 if "sliding_window" in c.raw else default)
    return sliding(layers, width, c.windowed_layers(layers, layers - full))


def _cwm(c: Config) -> Shape:
    s = llama(c)
    return s | _every(c, s["layers"], -(-s["layers"] // 4), 8192)


def _granite_swa(c: Config) -> Shape:
    s = granite(c) | {"attention_sinks": True}
    return s | _every(c, s["layers"], -(-s["layers"] // 4), 128)


def _bitnet(c: Config) -> Shape:
    s = llama(c)  # a norm behind the heads and one inside the MLP
    return s | {"other_vectors": s["layers"] * (s["hidden"] + s["ffn"])}


def _hyperclovax(c: Config) -> Shape:
    return llama(c) | {"norms_per_layer": 4 if c.flag("use_post_norm", False) else 2}


def _jais2(c: Config) -> Shape:
    s = llama(c) | PLAIN
    return s | {
        "qkv_bias": c.flag("attention_bias", True),
        "output_bias": c.flag("attention_bias", True),
        "mlp_bias": c.flag("mlp_bias", True),
    }


def _nanochat(c: Config) -> Shape:
    return llama(c) | {"gated_mlp": False, "norms_per_layer": 0, "final_norm": False}  # its norms have no weights


def _vaultgemma(c: Config) -> Shape:
    s = gemma(c, kv_default=4)
    return s | _every(c, s["layers"], s["layers"] // 2, 4096)


def _latent(c: Config) -> Shape:
    """Latent attention before a dense MLP."""
    return deepseek(Config({**c.raw, "n_routed_experts": None}, c.file))


def _youtu(c: Config) -> Shape:
    return _latent(c) | {"tied_embeddings": c.flag("tie_word_embeddings", True)}


# Mixtures of experts


def _listed_dense(c: Config, layers: int, key: str = "first_k_dense_replace", default: int = 0) -> int:
    return dense_first(
        Config({"first_k_dense_replace": c.raw.get(key), **{k: c.raw.get(k) for k in ("mlp_layer_types",)}}, c.file),
        layers,
        default,
    )


def _grouped(c: Config, kv_heads: int | None = None, head_dim: int | None = None) -> Shape:
    s = c.base()
    bias = c.flag("attention_bias", False)
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=kv_heads),
        "head_dim": c.head_dim(s["hidden"], s["heads"], default=head_dim),
        "qkv_bias": bias,
        "output_bias": bias,
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def _experts(
    c: Config, s: Shape, n: int, width: int, dense: int, picked: str = "num_experts_per_tok", **more: Any
) -> Shape:
    found = {"n_experts": n, "top_k": c.top_k(n, picked), "moe_ffn": width, "n_dense_layers": dense}
    return found | {"ffn": c.size("intermediate_size") if dense else 0} | more


def _afmoe(c: Config) -> Shape:
    s = _grouped(c) | {"qk_norm": "head", "attention_gate": "full", "norms_per_layer": 4}
    n, shared = c.size("num_experts"), c.size("num_shared_experts", default=0, least=0)
    s |= _experts(c, s, n, c.size("moe_intermediate_size"), c.size("num_dense_layers", default=1, least=0))
    s |= {"n_shared_experts": shared, "router_bias": True}
    every = c.size("global_attn_every_n_layers", default=4)
    return s | _every(c, s["layers"], s["layers"] // every, 1024)


def _aria_text(c: Config) -> Shape:
    s, n = _grouped(c), c.size("moe_num_experts")
    s |= _experts(c, s, n, c.size("intermediate_size"), 0, "moe_topk")
    return s | {"n_shared_experts": c.size("moe_num_shared_experts", default=2, least=0)}


def _cohere2_moe(c: Config) -> Shape:
    s = _grouped(c) | {"norm": "layernorm", "norm_bias": False, "norms_per_layer": 1, "parallel_block": True}
    c.must_be("use_qk_norm", False, "norms on queries and keys")
    n, dense = c.size("num_experts"), _listed_dense(c, s["layers"])
    first = c.size("prefix_dense_sliding_window_pattern", default=1)
    every = c.size("sliding_window_pattern", "_sliding_window_pattern", default=4)
    s |= _experts(
        c,
        s,
        n,
        c.size("moe_intermediate_size", "intermediate_size")
        if not dense
        else c.size("moe_intermediate_size", default=c.size("intermediate_size")),
        dense,
    )
    s |= {
        "n_shared_experts": c.size("num_shared_experts", default=0, least=0),
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }
    return s | _every(c, s["layers"], dense // first + (s["layers"] - dense) // every, 4096)


def _dbrx(c: Config) -> Shape:
    hidden, heads = c.size("d_model", "hidden_size"), c.heads("n_heads", "num_attention_heads")
    attention, ffn = c.inner("attn_config"), c.inner("ffn_config")
    n = ffn.size("moe_num_experts", default=4)
    return {
        "layers": c.size("n_layers", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": attention.kv_heads(heads, "kv_n_heads", default=1),
        "head_dim": c.head_dim(hidden, heads, "n_heads"),
        "ffn": 0,
        "vocab": c.size("vocab_size"),
        "norm": "layernorm",
        "norm_bias": False,
        "n_experts": n,
        "top_k": ffn.top_k(n, "moe_top_k") if ffn.has("moe_top_k") else 1,
        "moe_ffn": ffn.size("ffn_hidden_size", default=3584),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def _flex_olmo(c: Config) -> Shape:
    n = c.size("num_experts")
    s = olmo2(Config({k: v for k, v in c.raw.items() if k != "num_experts"}, c.file))
    return s | {"ffn": 0, "n_experts": n, "top_k": c.top_k(n), "moe_ffn": c.size("intermediate_size")}


def _flint(c: Config) -> Shape:
    first = c.raw.get("mlp_only_layers")
    given = {"use_sliding_window": False, "mlp_only_layers": [0, 1] if first is None else first}
    s = qwen3_moe(Config({**c.raw, **given}, c.file))
    layers = s["layers"]
    full = sum(i < 2 or i % 4 == 1 or i == layers - 1 for i in range(layers))
    s |= {"attention_sinks": True, "n_shared_experts": 1, "shared_ffn": c.size("shared_expert_intermediate_size")}
    return s | _every(c, layers, full, 513)


def _granitemoe_swa(c: Config) -> Shape:
    s, n = _grouped(c), c.size("num_local_experts")
    shared = c.size("shared_intermediate_size", default=0, least=0)
    s |= _experts(c, s, n, c.size("intermediate_size"), 0) | {"attention_sinks": True}
    s |= {"n_shared_experts": 1, "shared_ffn": shared} if shared else {}
    return s | _every(c, s["layers"], -(-s["layers"] // 4), 128)


def _hy_v3(c: Config) -> Shape:
    s = _grouped(c, kv_heads=8, head_dim=128) | {"qk_norm": "head"}
    dense = _listed_dense(c, s["layers"], default=1)
    s |= _experts(c, s, c.size("num_experts"), c.size("moe_intermediate_size", "expert_hidden_dim"), dense)
    return s | {"n_shared_experts": c.size("num_shared_experts", default=1, least=0), "router_bias": True, **further(c)}


def _kolibri1(c: Config) -> Shape:
    s = _grouped(c, kv_heads=4, head_dim=128) | {"qk_norm": "head", "norms_per_layer": 4, "router_bias": True}
    s |= _experts(c, s, c.size("num_local_experts", "num_experts"), c.size("moe_intermediate_size"), 0)
    s |= {"n_shared_experts": 1, "shared_ffn": c.size("shared_expert_intermediate_size")}
    return s | _every(c, s["layers"], s["layers"] // 5, 513)


def _mellum(c: Config) -> Shape:
    s = _grouped(c, kv_heads=4, head_dim=128) | {"qk_norm": "head"}
    s |= _experts(
        c, s, c.size("num_local_experts", "num_experts"), c.size("moe_intermediate_size"), _listed_dense(c, s["layers"])
    )
    return s | _every(c, s["layers"], s["layers"], 1024) | further(c, "num_mtp_layers")


def _laguna(c: Config) -> Shape:
    """A gate for each head; layers with a window may have more heads than the others."""
    s = _grouped(c, kv_heads=8, head_dim=128) | {"qk_norm": "head", "router_bias": True}
    s |= {"attention_gate": "head" if c.raw.get("gating", True) in (True, "per-head") else "full"}
    s |= _experts(
        c, s, c.size("num_experts"), c.size("moe_intermediate_size"), _listed_dense(c, s["layers"], default=1)
    )
    s |= {"n_shared_experts": 1, "shared_ffn": c.size("shared_expert_intermediate_size")}
    s |= _every(c, s["layers"], s["layers"], 512)
    heads, kinds = (
        c.raw.get("num_attention_heads_per_layer"),
        c.raw.get("layer_types") or ["full_attention"] * s["layers"],
    )
    if heads is None:
        return s
    if not isinstance(heads, list) or len(heads) != len(kinds) or any(type(h) is not int or h < 1 for h in heads):
        c.fail("num_attention_heads_per_layer", f"must list {s['layers']} numbers of heads, one for each layer")
    far, near = (
        {h for h, kind in zip(heads, kinds, strict=True) if (kind == "sliding_attention") is is_near}
        for is_near in (False, True)
    )
    if len(far) > 1 or len(near) > 1:
        c.fail("num_attention_heads_per_layer", "is not supported; layers with a window alike, and the others alike")
    return (
        s
        | {"heads": (far or near or {s["heads"]}).pop()}
        | ({"window_heads": near.pop()} if near and s.get("n_windowed_layers") else {})
    )


def _axk1(c: Config) -> Shape:
    s = deepseek_v3(c)  # one more norm behind each mixture
    return s | {"other_vectors": s["hidden"] * (s["layers"] - s.get("n_dense_layers", 0))}


READERS: dict[str, Callable[[Config], Shape]] = {
    "afmoe": _afmoe,
    "aria_text": _aria_text,
    "axk1": _axk1,
    "biogpt": _biogpt,
    "bitnet": _bitnet,
    "codegen": _gptj,
    "cohere2_moe": _cohere2_moe,
    "ctrl": _ctrl,
    "cwm": _cwm,
    "dbrx": _dbrx,
    "flex_olmo": _flex_olmo,
    "flint": _flint,
    "fuyu": _fuyu,
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neo": _gpt_neo,
    "gpt_neox_japanese": _neox_japanese,
    "gptj": _gptj,
    "granite_swa": _granite_swa,
    "granitemoe_swa": _granitemoe_swa,
    "helium": llama,
    "hy_v3": _hy_v3,
    "hyperclovax": _hyperclovax,
    "iquestcoder": llama,
    "jais2": _jais2,
    "kolibri1": _kolibri1,
    "laguna": _laguna,
    "mellum": _mellum,
    "minicpm3": _latent,
    "mistral4": deepseek,
    "nanochat": _nanochat,
    "openai-gpt": _openai_gpt,
    "persimmon": persimmon,
    "vaultgemma": _vaultgemma,
    "xglm": _xglm,
    "youtu": _youtu,
}
