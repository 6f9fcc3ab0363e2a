"""Readers of mixtures of experts, those with latent attention among them."""

from collections.abc import Callable

from mlsysim.catalog.hf.config import Config, Shape
from mlsysim.catalog.hf.dense import biases, mistral_attention, qwen2, qwen3_attention, qwen_window, sliding
from mlsysim.errors import InputError


def mixtral(c: Config) -> Shape:
    experts = c.size("num_local_experts", "num_experts")
    width = c.size("intermediate_size")
    return mistral_attention(c, window=None) | {
        "ffn": 0,
        "n_experts": experts,
        "top_k": c.top_k(experts),
        "moe_ffn": width,
    }


def qwen_experts(c: Config, layers: int) -> Shape:
    experts = c.size("num_experts", "num_local_experts")
    step = c.size("decoder_sparse_step", default=1)
    only = c.raw.get("mlp_only_layers")
    only = [] if only is None else only
    if not isinstance(only, list) or only != list(range(len(only))) or len(only) > layers or (only and step > 1):
        c.fail("mlp_only_layers", "is not supported; only leading dense layers [0, 1, ...] without decoder_sparse_step")
    dense = len(only) or step > 1
    return {
        "n_experts": experts,
        "top_k": c.top_k(experts),
        "moe_ffn": c.size("moe_intermediate_size"),
        "moe_every": step,
        "n_dense_layers": len(only),
        "ffn": c.size("intermediate_size") if dense else 0,  # the key stands there even if no layer uses it
    }


def qwen2_moe(c: Config) -> Shape:
    s = c.base()
    return (
        s
        | {
            "kv_heads": c.kv_heads(s["heads"], default=16),  # Qwen2MoeConfig: 16 when absent
            "head_dim": c.head_dim(s["hidden"], s["heads"]),
            "qkv_bias": c.flag("qkv_bias", True),
            "n_shared_experts": 1,
            "shared_ffn": c.size("shared_expert_intermediate_size"),
            "shared_gate": True,
            "tied_embeddings": c.flag("tie_word_embeddings", False),
        }
        | qwen_experts(c, s["layers"])
        | qwen_window(c, s["layers"], lambda above: (above + 1) // 2)  # Qwen2MoeConfig: every other one below it
    )


def qwen3_moe(c: Config) -> Shape:
    s = qwen3_attention(c, kv_default=4, head_dim=None)  # Qwen3MoeConfig: 4 when absent, head_dim hidden / heads
    return s | qwen_experts(c, s["layers"]) | qwen_window(c, s["layers"], lambda above: s["layers"])  # in all layers


def dense_first(c: Config, layers: int, default: int | None = None) -> int:
    """Leading layers with a dense MLP, as a number or, in newer configs, in a list of all layers."""
    kinds = c.raw.get("mlp_layer_types")
    if kinds is None or c.has("first_k_dense_replace"):
        dense = c.size("first_k_dense_replace", default=default, least=0)
        if dense > layers:
            c.fail("first_k_dense_replace", f"must not exceed num_hidden_layers = {layers}")
        return dense
    dense = sum(kind == "dense" for kind in kinds) if isinstance(kinds, list) else 0
    if kinds != ["dense"] * dense + ["sparse"] * (layers - dense):
        c.fail(
            "mlp_layer_types", f"is not supported; only leading 'dense' layers before 'sparse' ones, {layers} in all"
        )
    return dense


def deepseek(c: Config) -> Shape:
    s = c.base()
    c.must_be("attention_bias", False, "biases of the latent projections")
    c.must_be("mlp_bias", False, "biases of the experts")
    c.must_be("moe_layer_freq", 1, "mixtures in every n-th layer")
    c.kv_heads(s["heads"], default=s["heads"])  # there are no KV heads in latent attention, but the key must make sense
    s |= {
        "kv_heads": s["heads"],
        "head_dim": c.size("qk_nope_head_dim"),
        "qk_rope_head_dim": c.size("qk_rope_head_dim"),
        "v_head_dim": c.size("v_head_dim"),
        "kv_lora_rank": c.size("kv_lora_rank"),
        # null: queries are not compressed (V2-Lite); absent: 1536 in both config classes
        "q_lora_rank": c.size("q_lora_rank", default=0 if "q_lora_rank" in c.raw else 1536),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }
    if "n_routed_experts" in c.raw and not c.has("n_routed_experts"):  # null: a dense model; absent: an error
        return s | {"ffn": c.size("intermediate_size")}
    experts = c.size("n_routed_experts", "num_routed_experts", "num_local_experts", "num_experts")
    dense = dense_first(c, s["layers"])
    return s | {
        "ffn": c.size("intermediate_size") if dense else 0,
        "n_experts": experts,
        "top_k": c.top_k(experts),
        "moe_ffn": c.size("moe_intermediate_size"),
        # null: none; absent: an error, because the classes of V2 and V3 have different defaults
        "n_shared_experts": c.size(
            "n_shared_experts", "num_shared_experts", default=0 if "n_shared_experts" in c.raw else None, least=0
        ),
        "n_dense_layers": dense,
    }


def deepseek_v3(c: Config) -> Shape:
    # V3 balances its experts with a bias in the router. The module for multi-token prediction is not counted.
    s = deepseek(c)
    return s | {"router_bias": "n_experts" in s} | further(c)


def further(c: Config, *names: str, default: int = 0) -> Shape:
    """Modules for multi-token prediction."""
    keys = names or ("num_nextn_predict_layers", "mtp_num_hidden_layers")
    count = c.size(*keys, default=default, least=0, most=100)
    return {"n_mtp_layers": count} if count else {}


def deepseek_v32(c: Config) -> Shape:
    s = deepseek_v3(c)
    kinds = c.raw.get("indexer_types")  # GLM-5.2: "shared" layers take the keys that the indexer of another has picked
    if kinds is not None and not (isinstance(kinds, list) and len(kinds) == s["layers"]):
        c.fail("indexer_types", f"must be a list of {s['layers']} names, one for each layer")
    own = s["layers"] if kinds is None else sum(kind == "full" for kind in kinds)
    return s | {
        "n_indexed_layers": s["layers"],
        "n_indexers": own if own < s["layers"] else 0,
        "index_heads": c.size("index_n_heads"),
        "index_head_dim": c.size("index_head_dim"),
        "index_top_k": c.size("index_topk"),
    }


def llama4(c: Config) -> Shape:
    """The text part; ``model_type`` llama4 nests it."""
    if c.text("model_type") == "llama4" and not c.has("text_config"):
        raise InputError(f"{c.file}: no text_config; model_type 'llama4' keeps the text model there")
    if c.has("text_config"):
        c = c.inner("text_config")
    s = c.base()
    experts = c.size("num_local_experts")
    every = c.size("interleave_moe_layer_step", default=1)
    listed = c.raw.get("moe_layers")  # newer configs list them as well
    regular = isinstance(listed, list) and listed == [*range(every - 1, every * len(listed), every)]
    if listed is not None and not (regular and len(listed) == s["layers"] // every):
        c.fail("moe_layers", f"is not what interleave_moe_layer_step = {every} gives; correct one of them")
    bias = c.flag("attention_bias", False)
    width = c.size("intermediate_size")  # of an expert, and of the one shared expert
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=8),  # Llama4TextConfig: 8 and 128 when absent
        "head_dim": c.head_dim(s["hidden"], s["heads"], default=None if "head_dim" in c.raw else 128),
        "ffn": c.size("intermediate_size_mlp"),
        "n_experts": experts,
        "top_k": c.top_k(experts),
        "moe_ffn": width,
        "n_shared_experts": 1,
        "moe_every": every,
        "qkv_bias": bias,
        "output_bias": bias,
        "tied_embeddings": c.flag("tie_word_embeddings", False),  # the norm on queries and keys has no weights
    }


def gpt_oss(c: Config) -> Shape:
    s = c.base()
    experts = c.size("num_local_experts", "num_experts")
    return (
        s
        | {
            "kv_heads": c.kv_heads(s["heads"], default=8),
            "head_dim": c.size("head_dim", default=64),
            "ffn": 0,
            "n_experts": experts,
            "top_k": c.top_k(experts),
            "moe_ffn": c.size("intermediate_size"),
            **biases(c.flag("attention_bias", True)),
            "mlp_bias": True,
            "router_bias": True,
            "attention_sinks": True,
            "tied_embeddings": c.flag("tie_word_embeddings", False),
        }
        | sliding(s["layers"], c.size("sliding_window", default=128), c.windowed_layers(s["layers"], s["layers"] // 2))
    )


def glm4_moe(c: Config) -> Shape:
    s = c.base()
    experts = c.size("n_routed_experts")
    dense = dense_first(c, s["layers"])
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=8),  # Glm4MoeConfig: 8 when absent
        "head_dim": c.head_dim(s["hidden"], s["heads"]),
        "ffn": c.size("intermediate_size") if dense else 0,
        "n_experts": experts,
        "top_k": c.top_k(experts),
        "moe_ffn": c.size("moe_intermediate_size"),
        "n_shared_experts": c.size("n_shared_experts", default=0, least=0),
        "n_dense_layers": dense,
        "router_bias": True,
        "qkv_bias": c.flag("attention_bias", False),  # the output projection has none
        "qk_norm": "head" if c.flag("use_qk_norm", False) else "",
        "tied_embeddings": c.flag("tie_word_embeddings", False),
        **further(c),
    }


def minimax_m2(c: Config) -> Shape:
    # The modules for multi-token prediction (num_mtp_modules) are not published.
    s = c.base()
    kinds = c.raw.get("attn_type_list")
    if kinds is not None and kinds != [1] * s["layers"]:
        c.fail("attn_type_list", "is not supported; only 1, softmax attention, in every layer")
    experts = c.size("num_local_experts", "num_experts")
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=8),  # MiniMaxM2Config: 8 and 128 when absent
        "head_dim": c.size("head_dim", default=128),
        "ffn": 0,
        "n_experts": experts,
        "top_k": c.top_k(experts),
        "moe_ffn": c.size("intermediate_size"),
        "qk_norm": "full" if c.flag("use_qk_norm", True) else "",
        "router_bias": c.flag("use_routing_bias", True),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def routed(
    c: Config, s: Shape, *, router_bias: bool, experts: str = "n_routed_experts", picked: str = "num_experts_per_tok"
) -> Shape:
    """Experts under DeepSeek's names: leading dense layers, shared experts, and the rest in every layer."""
    n, dense = c.size(experts), dense_first(c, s["layers"], default=0)
    return {
        "ffn": c.size("intermediate_size") if dense else 0,
        "n_experts": n,
        "top_k": c.top_k(n, picked),
        "moe_ffn": c.size("moe_intermediate_size"),
        "n_shared_experts": c.size("n_shared_experts", "num_shared_experts", default=0, least=0),
        "n_dense_layers": dense,
        "router_bias": router_bias,
    }


def _grouped(c: Config, **defaults: int | None) -> Shape:
    """Attention with groups of heads and no more than that."""
    s = c.base()
    bias = c.flag("attention_bias", False)
    return s | {
        "kv_heads": c.kv_heads(s["heads"], default=defaults.get("kv_heads")),
        "head_dim": c.head_dim(s["hidden"], s["heads"], default=defaults.get("head_dim")),
        "qkv_bias": bias,
        "output_bias": bias,
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }


def _dots1(c: Config) -> Shape:
    s = _grouped(c)
    return s | {"qk_norm": "head"} | routed(c, s, router_bias=True) | dots_window(c, s["layers"])


def dots_window(c: Config, layers: int) -> Shape:
    kinds = c.raw.get("layer_types")
    return (
        sliding(layers, c.size("sliding_window", default=0), c.windowed_layers(layers, 0)) if kinds is not None else {}
    )


def _solar_open(c: Config) -> Shape:
    s = _grouped(c, kv_heads=8, head_dim=128)
    return s | routed(c, s, router_bias=True)


def _exaone_moe(c: Config) -> Shape:
    s = _grouped(c)
    width, kinds = c.size("sliding_window", default=0), c.raw.get("layer_types")
    near = c.windowed_layers(s["layers"], s["layers"] - s["layers"] // 4) if kinds is not None or width else 0
    return (
        s
        | {"qk_norm": "head"}
        | routed(c, s, router_bias=True, experts="num_experts")
        | sliding(s["layers"], width, near)
        | further(c)
    )


def _ernie4_5_moe(c: Config) -> Shape:
    s = c.base()
    bias = c.flag("use_bias", False)
    first, every = c.size("moe_layer_start_index", default=1, least=0), c.size("moe_layer_interval", default=1)
    last = c.raw.get("moe_layer_end_index", -1)
    if type(last) is not int or not -1 <= last < s["layers"]:
        c.fail("moe_layer_end_index", f"must lie in [-1, {s['layers'] - 1}]; -1 says the last layer")
    mixed = sum((i + 1) % every == 0 and first <= i <= last % s["layers"] for i in range(s["layers"]))
    n = c.size("moe_num_experts")
    return s | {
        **biases(bias),
        "kv_heads": c.kv_heads(s["heads"], default=4),
        "head_dim": c.head_dim(s["hidden"], s["heads"]),
        "ffn": c.size("intermediate_size"),
        "n_experts": n,
        "top_k": c.top_k(n, "moe_k"),
        "moe_ffn": c.size("moe_intermediate_size"),
        "n_shared_experts": c.size("moe_num_shared_experts", default=0, least=0),
        "n_dense_layers": s["layers"] - mixed,
        "router_bias": c.flag("moe_use_aux_free", True),
        "tied_embeddings": c.flag("tie_word_embeddings", True),
        **further(c),
    }


def _granitemoe(c: Config) -> Shape:
    s, n = _grouped(c), c.size("num_local_experts")
    shared = c.size("shared_intermediate_size", default=0, least=0)
    beside = {"n_shared_experts": 1, "shared_ffn": shared} if shared else {}
    return s | {
        "ffn": 0,
        "output_bias": s["qkv_bias"],
        "n_experts": n,
        "top_k": c.top_k(n),
        "moe_ffn": c.size("intermediate_size"),
        **beside,
    }


def _olmoe(c: Config) -> Shape:
    s, n = _grouped(c), c.size("num_experts")
    return s | {
        "ffn": 0,
        "qk_norm": "full",
        "n_experts": n,
        "top_k": c.top_k(n),
        "moe_ffn": c.size("intermediate_size"),
    }


def _phimoe(c: Config) -> Shape:
    s, n = _grouped(c, kv_heads=8), c.size("num_local_experts")
    experts = {"ffn": 0, "n_experts": n, "top_k": c.top_k(n), "moe_ffn": c.size("intermediate_size")}
    width = c.size("sliding_window", default=0)
    return (
        s
        | experts
        | {"norm": "layernorm", "head_bias": c.flag("lm_head_bias", False)}
        | sliding(s["layers"], width, s["layers"])
    )


def _one(c: Config, key: str) -> int:
    """A size that some configs give as a list with one entry for each layer, all equal."""
    value = c.raw.get(key)
    if (
        isinstance(value, list)
        and value
        and all(v == value[0] for v in value)
        and type(value[0]) is int
        and value[0] > 0
    ):
        return value[0]
    return c.size(key)


def _hunyuan_moe(c: Config) -> Shape:
    s = _grouped(c)
    n = c.size("num_experts")
    shape = s | {"qk_norm": "head" if c.flag("use_qk_norm", True) else "", "ffn": c.size("intermediate_size")}
    if n == 1:
        return shape
    shared = c.raw.get("num_shared_expert", 1)
    return shape | {
        "ffn": 0,
        "n_experts": n,
        "top_k": _one(c, "moe_topk"),
        "moe_ffn": _one(c, "moe_intermediate_size") if c.has("moe_intermediate_size") else c.size("intermediate_size"),
        "n_shared_experts": _one(c, "num_shared_expert") if shared != 1 else 1,
        "shared_ffn": c.size("intermediate_size"),
    }


def _listed(c: Config, key: str, layers: int) -> list[int]:
    """A list of 0 and 1, one for each layer; one number stands for all of them."""
    value = c.raw.get(key)
    if type(value) is int and value in (0, 1):
        return [value] * layers
    if not isinstance(value, list) or len(value) != layers or any(type(v) is not int or v not in (0, 1) for v in value):
        c.fail(key, f"must be a list of {layers} numbers 0 or 1, one for each layer")
    return value


def _mimo_v2(c: Config) -> Shape:
    s = _grouped(c)
    near = sum(_listed(c, "hybrid_layer_pattern", s["layers"]))
    mixed = _listed(c, "moe_layer_freq", s["layers"])
    dense = s["layers"] - sum(mixed)
    if mixed != [0] * dense + [1] * (s["layers"] - dense):
        c.fail("moe_layer_freq", "is not supported; only leading dense layers")
    n = c.size("n_routed_experts")
    return s | {
        "output_bias": False,
        "v_head_dim": c.size("v_head_dim"),
        "window_heads": c.size("swa_num_attention_heads", default=s["heads"]),
        "window_kv_heads": c.size("swa_num_key_value_heads", default=s["kv_heads"]),
        "window_head_dim": c.size("swa_head_dim", default=s["head_dim"]),
        "window_v_head_dim": c.size("swa_v_head_dim", default=c.size("v_head_dim")),
        "ffn": c.size("intermediate_size"),
        "n_experts": n,
        "top_k": c.top_k(n),
        "moe_ffn": c.size("moe_intermediate_size"),
        "n_shared_experts": c.size("n_shared_experts", default=0, least=0),
        "n_dense_layers": dense,
        "router_bias": True,
        **sliding(s["layers"], c.size("sliding_window", "sliding_window_size"), near),
    }


def _step3p5(c: Config) -> Shape:
    """Step 3.5: layers with a window have more heads than the others; a gate for each head."""
    s = c.base() | {"kv_heads": c.size("num_attention_groups", "num_key_value_heads"), "head_dim": c.size("head_dim")}
    other = c.inner("attention_other_setting")
    kinds = c.raw.get("layer_types")
    if isinstance(kinds, list) and len(kinds) > s["layers"]:  # the modules for multi-token prediction are listed too
        c = Config({**c.raw, "layer_types": kinds[: s["layers"]]}, c.file)
    near = c.windowed_layers(s["layers"], 0)
    listed = c.raw.get("moe_layers_enum")
    mixed = [int(x) for x in listed.split(",") if x.strip().isdigit()] if isinstance(listed, str) else None
    of_mlps = c.raw.get("mlp_layer_types")
    if isinstance(of_mlps, list):
        c = Config({**c.raw, "mlp_layer_types": of_mlps[: s["layers"]]}, c.file)
    dense = s["layers"] - len(mixed) if mixed is not None else dense_first(c, s["layers"], default=0)
    if mixed is not None and mixed != list(range(dense, s["layers"])):
        c.fail("moe_layers_enum", "is not supported; only leading dense layers")
    wider = c.size("num_sliding_attention_heads", default=s["heads"])
    apart = {
        "window_heads": other.size("num_attention_heads", default=wider),
        "window_kv_heads": other.size("num_attention_groups", default=s["kv_heads"]),
        "window_head_dim": other.size("head_dim", default=s["head_dim"]),
    }
    n = c.size("moe_num_experts", "num_experts", "n_routed_experts")
    return s | {
        "qk_norm": "head",
        "attention_gate": "head" if c.flag("use_head_wise_attn_gate", True) else "",
        **(apart if near else {}),
        "ffn": c.size("intermediate_size"),
        "n_experts": n,
        "top_k": c.top_k(n, "moe_top_k" if c.has("moe_top_k") else "num_experts_per_tok"),
        "moe_ffn": c.size("moe_intermediate_size"),
        "n_shared_experts": 1,
        "shared_ffn": c.size("share_expert_dim", "share_expert_dims"),
        "n_dense_layers": dense,
        "router_bias": c.flag("use_moe_router_bias", True),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
        **sliding(s["layers"], c.size("sliding_window", default=None if near else 0), near),
        **further(c),
    }


def _mimo(c: Config) -> Shape:
    return qwen2(c) | {"qkv_bias": c.flag("attention_bias", True)} | further(c)


READERS: dict[str, Callable[[Config], Shape]] = {
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek_v3,
    "deepseek_v32": deepseek_v32,
    "dots1": _dots1,
    "ernie4_5_moe": _ernie4_5_moe,
    "exaone_moe": _exaone_moe,
    "glm4_moe": glm4_moe,
    "glm4_moe_lite": deepseek_v3,
    "glm_moe_dsa": deepseek_v32,
    "gpt_oss": gpt_oss,
    "granitemoe": _granitemoe,
    "granitemoeshared": _granitemoe,
    "hunyuan_v1_moe": _hunyuan_moe,
    "kimi_k2": deepseek_v3,
    "llama4_text": llama4,
    "mimo": _mimo,
    "mimo_v2_flash": _mimo_v2,
    "minimax_m2": minimax_m2,
    "mixtral": mixtral,
    "olmoe": _olmoe,
    "phimoe": _phimoe,
    "qwen2_moe": qwen2_moe,
    "qwen3_moe": qwen3_moe,
    "solar_open": _solar_open,
    "step3p5": _step3p5,
}
