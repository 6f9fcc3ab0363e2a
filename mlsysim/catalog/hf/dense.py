"""Readers of families whose layers have one dense MLP, and what the other readers build on."""

from collections.abc import Callable

from mlsysim.catalog.hf.config import Config, Shape

PLAIN: Shape = {"gated_mlp": False, "norm": "layernorm"}


def sliding(layers: int, window: int, windowed: int) -> Shape:
    return {"attn_window": window, "n_windowed_layers": windowed} if window and windowed else {}


def biases(on: bool) -> Shape:
    return {"qkv_bias": on, "output_bias": on, "mlp_bias": on}


def llama(c: Config) -> Shape:
    c.no_experts()
    s = c.base()
    bias = c.flag("attention_bias", False)
    return s | {
        "kv_heads": c.kv_heads(s["heads"]),  # default: as many as heads
        "head_dim": c.head_dim(s["hidden"], s["heads"]),
        "ffn": c.size("intermediate_size"),
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": c.flag("mlp_bias", False),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def mistral_attention(c: Config, window: int | None) -> Shape:
    s = c.base()
    s |= {
        "kv_heads": c.kv_heads(s["heads"], default=8),  # MistralConfig and MixtralConfig: 8 when absent
        "head_dim": c.head_dim(s["hidden"], s["heads"]),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }
    default = window if "sliding_window" not in c.raw else None
    width = c.size("sliding_window", default=default or 0)
    return s | sliding(s["layers"], width, c.windowed_layers(s["layers"], s["layers"]))


def mistral(c: Config) -> Shape:
    c.no_experts()
    return mistral_attention(c, window=4096) | {"ffn": c.size("intermediate_size")}  # MistralConfig: 4096 when absent


def qwen_window(c: Config, layers: int, windowed: Callable[[int], int]) -> Shape:
    """``windowed`` counts the layers with a window from ``max_window_layers``; the classes do it in three ways."""
    if not c.flag("use_sliding_window", False):
        return {}
    above = min(c.size("max_window_layers", default=28, least=0), layers)
    return sliding(layers, c.size("sliding_window", default=4096), c.windowed_layers(layers, windowed(above)))


def qwen2(c: Config) -> Shape:
    c.no_experts()
    s = c.base()
    return (
        s
        | {
            "kv_heads": c.kv_heads(s["heads"], default=32),  # Qwen2Config: 32 when absent
            "head_dim": c.head_dim(s["hidden"], s["heads"]),
            "ffn": c.size("intermediate_size"),
            "qkv_bias": True,  # in the code, not in the config
            "tied_embeddings": c.flag("tie_word_embeddings", False),
        }
        | qwen_window(c, s["layers"], lambda above: s["layers"] - above)  # Qwen2Config: from that layer on
    )


def qwen3_attention(c: Config, kv_default: int, head_dim: int | None) -> Shape:
    s = c.base()
    bias = c.flag("attention_bias", False)
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=kv_default),
        "head_dim": c.head_dim(s["hidden"], s["heads"], default=head_dim),
        "qkv_bias": bias,
        "output_bias": bias,
        "qk_norm": "head",
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def qwen3(c: Config) -> Shape:
    c.no_experts()
    s = qwen3_attention(c, kv_default=32, head_dim=128)  # Qwen3Config: 32 and 128 when absent
    s |= qwen_window(c, s["layers"], lambda above: s["layers"] - above)
    return s | {"ffn": c.size("intermediate_size")}


def gpt(c: Config, *width: str) -> Shape:
    """Multi-head attention, biases everywhere, and an MLP of four times the width."""
    hidden, heads = c.size(*width), c.heads("n_head", "num_attention_heads")
    return {
        **PLAIN,
        **biases(True),
        "layers": c.size("n_layer", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": c.head_dim(hidden, heads, "n_head"),
        "ffn": 4 * hidden,
        "vocab": c.size("vocab_size"),
    }


def gpt2(c: Config) -> Shape:
    c.must_be("add_cross_attention", False, "cross-attention")
    s = gpt(c, "n_embd", "hidden_size")
    return s | {
        "ffn": c.size("n_inner", default=s["ffn"]),  # GPT2Config: four times hidden when null
        "learned_positions": c.size("n_positions", "max_position_embeddings"),
        "tied_embeddings": c.flag("tie_word_embeddings", True),  # PretrainedConfig's default
    }


def gpt_neox(c: Config) -> Shape:
    s = c.base()
    return (
        s
        | PLAIN
        | biases(c.flag("attention_bias", True))
        | {
            "mlp_bias": True,
            "kv_heads": s["heads"],
            "head_dim": c.head_dim(s["hidden"], s["heads"]),
            "ffn": c.size("intermediate_size"),
            "tied_embeddings": c.flag("tie_word_embeddings", False),
            "parallel_block": c.flag("use_parallel_residual", True),
        }
    )


def falcon(c: Config) -> Shape:
    hidden = c.size("hidden_size", "n_embed")
    heads = c.heads("num_attention_heads", "n_head")
    new, parallel = c.flag("new_decoder_architecture", False), c.flag("parallel_attn", True)
    if new:  # FalconConfig: as many KV heads as heads when null
        kv, norms = c.kv_heads(heads, "num_kv_heads", "n_head_kv"), c.size("num_ln_in_parallel_attn", default=2)
        if norms > 2:
            c.fail("num_ln_in_parallel_attn", "must be 1 or 2")
    else:
        kv, norms = 1 if c.flag("multi_query", True) else heads, 1 if parallel else 2
    return {
        **PLAIN,
        **biases(c.flag("bias", False)),
        "layers": c.size("num_hidden_layers", "n_layer"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv,
        "head_dim": c.head_dim(hidden, heads),
        "ffn": c.size("ffn_hidden_size", default=4 * hidden),  # FalconConfig: four times hidden when absent
        "vocab": c.size("vocab_size"),
        "norms_per_layer": norms,
        "tied_embeddings": c.flag("tie_word_embeddings", True),  # PretrainedConfig's default
        "parallel_block": parallel,
    }


def gemma(c: Config, kv_default: int = 16) -> Shape:
    c.no_experts()
    s = c.base()
    bias = c.flag("attention_bias", False)
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=kv_default),  # GemmaConfig: 16 when absent
        "head_dim": c.size("head_dim", default=256),  # both classes: 256, whatever hidden / heads is
        "ffn": c.size("intermediate_size"),
        "qkv_bias": bias,
        "output_bias": bias,
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }


def gemma2(c: Config) -> Shape:
    s = gemma(c, kv_default=4)  # Gemma2Config: 4 when absent
    window = c.size("sliding_window", default=0 if "sliding_window" in c.raw else 4096)
    every_other = c.windowed_layers(s["layers"], (s["layers"] + 1) // 2)  # beginning with the first layer
    return s | {"norms_per_layer": 4} | sliding(s["layers"], window, every_other)


def opt(c: Config) -> Shape:
    s = c.base()
    c.must_be("layer_norm_elementwise_affine", True, "norms without weights")
    before = c.flag("do_layer_norm_before", True)
    width = c.size("word_embed_proj_dim", default=s["hidden"])
    return (
        s
        | PLAIN
        | biases(c.flag("enable_bias", True))
        | {
            "kv_heads": s["heads"],
            "head_dim": c.head_dim(s["hidden"], s["heads"]),
            "ffn": c.size("ffn_dim"),
            "learned_positions": c.size("max_position_embeddings") + 2,  # two rows in front, for padding
            "embedding_width": 0 if width == s["hidden"] else width,
            "final_norm": before and not c.flag("_remove_final_layer_norm", False),
            "tied_embeddings": c.flag("tie_word_embeddings", True),
        }
    )


def bloom(c: Config) -> Shape:
    tied = c.flag("tie_word_embeddings", True)
    return gpt(c, "hidden_size", "n_embed") | {"embedding_norm": True, "tied_embeddings": tied}


_MPT_NORMS = {
    "low_precision_layernorm": "layernorm",
    "layernorm": "layernorm",
    "low_precision_rmsnorm": "rmsnorm",
    "rmsnorm": "rmsnorm",
}


def mpt(c: Config) -> Shape:
    hidden, heads = c.size("d_model", "hidden_size"), c.heads("n_heads", "num_attention_heads")
    attention, mlp = c.inner("attn_config"), c.inner("ffn_config")
    attention.must_be("qk_ln", False, "a norm on queries and keys")
    attention.must_be("qk_gn", False, "a norm on queries and keys")
    mlp.must_be("ffn_type", "mptmlp", "a gated MLP")
    kind = attention.text("attn_type", "multihead_attention")
    kinds = ("multihead_attention", "multiquery_attention", "grouped_query_attention")
    if kind not in kinds:
        attention.fail("attn_type", f"must be one of {', '.join(kinds)}")
    kv = {kinds[0]: heads, kinds[1]: 1}.get(kind) or attention.kv_heads(heads, "kv_n_heads")
    norm = c.text("norm_type", "low_precision_layernorm")
    if norm.lower() not in _MPT_NORMS:
        c.fail("norm_type", f"must be one of {', '.join(_MPT_NORMS)}")
    bias = not c.flag("no_bias", True)  # MptConfig: no biases when absent, not even in the norms
    learned = c.flag("learned_pos_emb", True) and not attention.flag("alibi", True)  # ALiBi replaces them
    return {
        **PLAIN,
        **biases(bias),
        "layers": c.size("n_layers", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv,
        "head_dim": c.head_dim(hidden, heads, "n_heads"),
        "ffn": c.size("expansion_ratio", default=4) * hidden,
        "vocab": c.size("vocab_size"),
        "norm": _MPT_NORMS[norm.lower()],
        "norm_bias": bias,
        "learned_positions": c.size("max_seq_len") if learned else 0,
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }


def granite(c: Config) -> Shape:
    return llama(c) | {"tied_embeddings": c.flag("tie_word_embeddings", False)}


def phi(c: Config) -> Shape:
    s = c.base()
    c.must_be("qk_layernorm", False, "a norm on queries and keys")
    return (
        s
        | PLAIN
        | biases(True)
        | {
            "kv_heads": c.kv_heads(s["heads"]),
            "head_dim": c.head_dim(s["hidden"], s["heads"]),
            "ffn": c.size("intermediate_size"),
            "norms_per_layer": 1,
            "parallel_block": True,
            "head_bias": True,
            "tied_embeddings": c.flag("tie_word_embeddings", False),
        }
    )


def phi3(c: Config) -> Shape:
    s = llama(c) | {"tied_embeddings": c.flag("tie_word_embeddings", False)}
    window = c.size("sliding_window", default=0)
    reaches = window and window < c.size("max_position_embeddings", default=0)  # a window as long as the text is none
    return s | (sliding(s["layers"], window, s["layers"]) if reaches else {})


def gemma3_text(c: Config) -> Shape:
    # Gemma3TextConfig: 26 layers of 2304, 8 heads and 4 KV heads of 256, MLP 9216, vocabulary 262,208 when absent
    layers, hidden = c.size("num_hidden_layers", default=26), c.size("hidden_size", default=2304)
    heads = c.size("num_attention_heads", default=8)
    every = c.size("sliding_window_pattern", default=6)
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": c.kv_heads(heads, default=4),
        "head_dim": c.size("head_dim", default=256),
        "ffn": c.size("intermediate_size", default=9216),
        "vocab": c.size("vocab_size", default=262_208),
        "qkv_bias": c.flag("attention_bias", False),
        "output_bias": c.flag("attention_bias", False),
        "norms_per_layer": 4,
        "qk_norm": "head",
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    } | sliding(layers, c.size("sliding_window", default=4096), c.windowed_layers(layers, layers - layers // every))


def olmo2(c: Config) -> Shape:
    return llama(c) | {"qk_norm": "full"}  # two norms a layer, behind attention and MLP


def olmo3(c: Config) -> Shape:
    s = olmo2(c)
    width = c.size("sliding_window", default=0 if "sliding_window" in c.raw else 4096)
    return s | sliding(s["layers"], width, c.windowed_layers(s["layers"], s["layers"] - s["layers"] // 4))


def _exaone4(c: Config) -> Shape:
    s = llama(c) | {"qk_norm": "head"}
    pattern = c.raw.get("sliding_window_pattern")
    every = (
        len(pattern) if isinstance(pattern, str) and pattern else pattern if type(pattern) is int and pattern > 0 else 4
    )
    width = c.size("sliding_window", default=0)
    return s | sliding(s["layers"], width, c.windowed_layers(s["layers"], s["layers"] - s["layers"] // every))


def _seed_oss(c: Config) -> Shape:
    s = c.base()
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=8),
        "head_dim": c.size("head_dim", default=128),
        "ffn": c.size("intermediate_size"),
        "qkv_bias": c.flag("attention_bias", True),
        "output_bias": c.flag("attention_out_bias", False),
        "mlp_bias": c.flag("mlp_bias", False),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def _hunyuan(c: Config) -> Shape:
    s = llama(Config({k: v for k, v in c.raw.items() if k != "num_experts"}, c.file))
    return s | {"qk_norm": "head" if c.flag("use_qk_norm", True) else "", "mlp_bias": False}


def _ernie4_5(c: Config) -> Shape:
    return llama(c) | biases(c.flag("use_bias", False)) | {"tied_embeddings": c.flag("tie_word_embeddings", True)}


def _glm(c: Config, norms: int = 2) -> Shape:
    s = c.base()
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=2),
        "head_dim": c.size("head_dim", default=128),
        "ffn": c.size("intermediate_size"),
        "norms_per_layer": norms,
        "qkv_bias": c.flag("attention_bias", True),  # the output projection has none
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def glm4(c: Config) -> Shape:
    return _glm(c, norms=4)


def _arcee(c: Config) -> Shape:
    return llama(c) | {"gated_mlp": False}


def _nemotron(c: Config) -> Shape:
    return llama(c) | {"gated_mlp": False, "norm": "layernorm"}


def _starcoder2(c: Config) -> Shape:
    s = llama(c)
    kv = c.kv_heads(s["heads"], default=2)
    width = c.size("sliding_window", default=0)
    tied = c.flag("tie_word_embeddings", True)
    found = s | PLAIN | biases(c.flag("use_bias", True)) | {"kv_heads": kv, "tied_embeddings": tied}
    return found | sliding(s["layers"], width, s["layers"])


def _stablelm(c: Config) -> Shape:
    c.must_be("qk_layernorm", False, "norms of each head")
    parallel = c.flag("use_parallel_residual", False)
    bias = {"qkv_bias": c.flag("use_qkv_bias", False), "output_bias": False}
    return llama(c) | bias | {"norm": "layernorm", "parallel_block": parallel, "norms_per_layer": 1 if parallel else 2}


def _cohere(c: Config) -> Shape:
    s = llama(c) | {"norm": "layernorm", "norm_bias": False, "norms_per_layer": 1, "parallel_block": True}
    return s | {
        "qk_norm": "full" if c.flag("use_qk_norm", False) else "",
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    }


def _cohere2(c: Config) -> Shape:
    s = _cohere(c)
    every = c.size("sliding_window_pattern", "_sliding_window_pattern", default=4)
    width = c.size("sliding_window", default=4096)
    return s | sliding(s["layers"], width, c.windowed_layers(s["layers"], s["layers"] - s["layers"] // every))


def _olmo(c: Config) -> Shape:
    return llama(c) | {"norms_per_layer": 0, "final_norm": False}  # its norms have no weights


def _ministral3(c: Config) -> Shape:
    s = mistral(c)
    return s if c.has("sliding_window") else s | {"attn_window": 0, "n_windowed_layers": 0}


def _apertus(c: Config) -> Shape:
    s = llama(c)
    return s | {"gated_mlp": False, "qk_norm": "head", "other_vectors": 2 * s["layers"]}  # of its activation


def _internlm3(c: Config) -> Shape:
    bias = c.flag("bias", False)
    return llama(c) | {"qkv_bias": c.flag("qkv_bias", False), "output_bias": bias, "mlp_bias": bias}


READERS: dict[str, Callable[[Config], Shape]] = {
    "apertus": _apertus,
    "arcee": _arcee,
    "bloom": bloom,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "ernie4_5": _ernie4_5,
    "exaone4": _exaone4,
    "falcon": falcon,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3_text,
    "glm": _glm,
    "glm4": glm4,
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "granite": granite,
    "hunyuan_v1_dense": _hunyuan,
    "internlm3": _internlm3,
    "llama": llama,
    "ministral": mistral,
    "ministral3": _ministral3,
    "mistral": mistral,
    "mpt": mpt,
    "nemotron": _nemotron,
    "olmo": _olmo,
    "olmo2": olmo2,
    "olmo3": olmo3,
    "opt": opt,
    "phi": phi,
    "phi3": phi3,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "seed_oss": _seed_oss,
    "smollm3": llama,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
}
