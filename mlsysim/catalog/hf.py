"""Reading a Hugging Face ``config.json`` into a model shape. The file is untrusted: JSON only, bounded, never run.

Sizes must be given; where a family's code derives one from another (the MLP of GPT-2 is four times hidden) so does this
module. A key that is absent or null otherwise has the default that ``transformers`` gives it in that family.
"""

import json
import math
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from mlsysim.catalog.shapes import Model
from mlsysim.errors import InputError, unknown_name
from mlsysim.files import read_text

MAX_CONFIG_BYTES = 1_000_000
_MAX_SIZE = 10**7  # of any one dimension; the largest vocabulary in use is below 300,000
_MAX_DIGITS = 20
_PRINTABLE = set(string.ascii_letters + string.digits + "-._ ")
_EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "num_routed_experts")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:40]!r} stands twice in one object")
    return found


def _bounded_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _bounded_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not finite")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")


def _read_json(path: Path) -> Any:
    text = read_text(path, MAX_CONFIG_BYTES, "the path of a model's config.json", "a config.json is far smaller")
    try:
        return json.loads(
            text,
            object_pairs_hook=_refuse_duplicates,
            parse_int=_bounded_int,
            parse_float=_bounded_float,
            parse_constant=_no_constant,
        )
    except ValueError as error:
        raise InputError(f"{path.name}: not valid JSON: {error}; give the config.json as it was published") from error
    except RecursionError as error:
        raise InputError(f"{path.name}: nested too deeply; a config.json has two or three levels") from error


class _Config:
    """Typed access to a configuration; every complaint names file, key, value and what to do."""

    def __init__(self, raw: Any, file: str) -> None:
        if not isinstance(raw, Mapping):
            raise InputError(f"{file}: holds {_short(raw)}, not an object; give a model's config.json")
        self.raw, self.file = raw, file

    def fail(self, key: str, why: str) -> NoReturn:
        raise InputError(f"{self.file}: {key} = {_short(self.raw.get(key))} {why}")

    def has(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def _given(self, keys: tuple[str, ...]) -> str | None:
        """Which of several names of one thing is used; two that disagree are refused."""
        used = [key for key in keys if self.has(key)]
        for other in used[1:]:
            if self.raw[other] != self.raw[used[0]]:
                self.fail(other, f"contradicts {used[0]} = {_short(self.raw[used[0]])}; keep one of them")
        return used[0] if used else None

    def size(self, *keys: str, default: int | None = None, least: int = 1, most: int = _MAX_SIZE) -> int:
        """A whole number under any of its names."""
        key = self._given(keys)
        if key is None:
            if default is None:
                raise InputError(f"{self.file}: no {keys[0]}; add it, or give the config.json as it was published")
            return default
        value = self.raw[key]
        if type(value) is not int:
            self.fail(key, "must be a whole number")
        if not least <= value <= most:
            self.fail(key, f"must lie in [{least}, {most:,}]")
        return value

    def flag(self, key: str, default: bool) -> bool:
        if not self.has(key):
            return default
        value = self.raw[key]
        if type(value) is not bool:
            self.fail(key, "must be true or false")
        return value

    def text(self, key: str, default: str = "") -> str:
        if not self.has(key):
            return default
        value = self.raw[key]
        if not isinstance(value, str):
            self.fail(key, "must be text")
        return value

    def inner(self, key: str) -> "_Config":
        """A nested object; an absent one is empty."""
        value = self.raw.get(key)
        return _Config({} if value is None else value, f"{self.file}, {key}")

    def must_be(self, key: str, allowed: Any, why: str) -> None:
        """Refuse a variant that the shape cannot express rather than count it wrongly."""
        if self.has(key) and (type(self.raw[key]) is not type(allowed) or self.raw[key] != allowed):
            self.fail(key, f"is not supported ({why}); only {_short(allowed)} is")

    def heads(self, *keys: str) -> int:
        return self.size(*(keys or ("num_attention_heads",)))

    def head_dim(self, hidden: int, heads: int, key: str = "num_attention_heads", default: int | None = None) -> int:
        """Given, or the default, or hidden / heads (what transformers does in most families)."""
        if self.has("head_dim") or default is not None:
            return self.size("head_dim", default=default)
        if hidden % heads:
            used = key if self.has(key) else "n_head"
            self.fail(used, f"does not divide hidden = {hidden} and there is no head_dim; add head_dim or correct one")
        return hidden // heads

    def kv_heads(self, heads: int, *keys: str, default: int | None = None) -> int:
        names = keys or ("num_key_value_heads",)
        # An explicit null means as many as heads; only an absent key has the family's default.
        absent = not any(name in self.raw for name in names)
        kv = self.size(*names, default=default if absent and default else heads)
        if heads % kv:
            raise InputError(f"{self.file}: {names[0]} = {kv} must divide the number of heads, {heads}; correct one")
        return kv

    def top_k(self, experts: int) -> int:
        k = self.size("num_experts_per_tok")
        if k > experts:
            self.fail("num_experts_per_tok", f"must not exceed the number of experts, {experts}")
        return k

    def no_experts(self) -> None:
        for key in _EXPERT_KEYS:
            if self.has(key) and self.raw[key] not in (0, 1):
                self.fail(key, f"contradicts model_type {self.text('model_type')!r}, which has no experts; correct one")

    def base(self) -> dict[str, Any]:
        """Sizes under the names that most families use."""
        return {
            "layers": self.size("num_hidden_layers"),
            "hidden": self.size("hidden_size"),
            "heads": self.heads(),
            "vocab": self.size("vocab_size"),
        }

    def windowed_layers(self, layers: int, otherwise: int) -> int:
        """Layers with a sliding window, counted in ``layer_types`` where a newer config lists them."""
        kinds = self.raw.get("layer_types")
        if kinds is None:
            return otherwise
        if not isinstance(kinds, list) or len(kinds) != layers or not all(isinstance(k, str) for k in kinds):
            self.fail("layer_types", f"must be a list of {layers} names, one for each layer")
        return sum(k == "sliding_attention" for k in kinds)


def _short(value: Any) -> str:
    """Few characters of a value that may be anything, without walking all of it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, int):
        return str(value) if abs(value) < 10**_MAX_DIGITS else "a huge number"
    if isinstance(value, float):
        return repr(value)
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "something else"


_Shape = dict[str, Any]


def _window(layers: int, window: int, windowed: int) -> _Shape:
    return {"attn_window": window, "n_windowed_layers": windowed} if window and windowed else {}


def _llama(c: _Config) -> _Shape:
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


def _mistral_attention(c: _Config, window: int | None) -> _Shape:
    s = c.base()
    s |= {
        "kv_heads": c.kv_heads(s["heads"], default=8),  # MistralConfig and MixtralConfig: 8 when absent
        "head_dim": c.head_dim(s["hidden"], s["heads"]),
        "tied_embeddings": c.flag("tie_word_embeddings", False),
    }
    default = window if "sliding_window" not in c.raw else None
    width = c.size("sliding_window", default=default or 0)
    return s | _window(s["layers"], width, c.windowed_layers(s["layers"], s["layers"]))


def _mistral(c: _Config) -> _Shape:
    c.no_experts()
    return _mistral_attention(c, window=4096) | {"ffn": c.size("intermediate_size")}  # MistralConfig: 4096 when absent


def _mixtral(c: _Config) -> _Shape:
    experts = c.size("num_local_experts", "num_experts")
    width = c.size("intermediate_size")
    return _mistral_attention(c, window=None) | {
        "ffn": 0,
        "n_experts": experts,
        "top_k": c.top_k(experts),
        "moe_ffn": width,
    }


def _qwen_window(c: _Config, layers: int, windowed: Callable[[int], int]) -> _Shape:
    """``windowed`` counts the layers with a window from ``max_window_layers``; the classes do it in three ways."""
    if not c.flag("use_sliding_window", False):
        return {}
    above = min(c.size("max_window_layers", default=28, least=0), layers)
    return _window(layers, c.size("sliding_window", default=4096), c.windowed_layers(layers, windowed(above)))


def _qwen2(c: _Config) -> _Shape:
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
        | _qwen_window(c, s["layers"], lambda above: s["layers"] - above)  # Qwen2Config: from that layer on
    )


def _qwen_experts(c: _Config, layers: int) -> _Shape:
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


def _qwen2_moe(c: _Config) -> _Shape:
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
        | _qwen_experts(c, s["layers"])
        | _qwen_window(c, s["layers"], lambda above: (above + 1) // 2)  # Qwen2MoeConfig: every other one below it
    )


def _qwen3_attention(c: _Config, kv_default: int, head_dim: int | None) -> _Shape:
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


def _qwen3(c: _Config) -> _Shape:
    c.no_experts()
    s = _qwen3_attention(c, kv_default=32, head_dim=128)  # Qwen3Config: 32 and 128 when absent
    s |= _qwen_window(c, s["layers"], lambda above: s["layers"] - above)
    return s | {"ffn": c.size("intermediate_size")}


def _qwen3_moe(c: _Config) -> _Shape:
    s = _qwen3_attention(c, kv_default=4, head_dim=None)  # Qwen3MoeConfig: 4 when absent, head_dim hidden / heads
    return s | _qwen_experts(c, s["layers"]) | _qwen_window(c, s["layers"], lambda above: s["layers"])  # in all layers


def _deepseek(c: _Config) -> _Shape:
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
    dense = c.size("first_k_dense_replace", least=0)
    if dense > s["layers"]:
        c.fail("first_k_dense_replace", f"must not exceed num_hidden_layers = {s['layers']}")
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


def _deepseek_v3(c: _Config) -> _Shape:
    # V3 balances its experts with a bias in the router. The module for multi-token prediction is not counted.
    s = _deepseek(c)
    return s | {"router_bias": "n_experts" in s}


def _llama4(c: _Config) -> _Shape:
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


_PLAIN: _Shape = {"gated_mlp": False, "norm": "layernorm"}


def _biases(on: bool) -> _Shape:
    return {"qkv_bias": on, "output_bias": on, "mlp_bias": on}


def _gpt(c: _Config, *width: str) -> _Shape:
    """Multi-head attention, biases everywhere, and an MLP of four times the width."""
    hidden, heads = c.size(*width), c.heads("n_head", "num_attention_heads")
    return {
        **_PLAIN,
        **_biases(True),
        "layers": c.size("n_layer", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": c.head_dim(hidden, heads, "n_head"),
        "ffn": 4 * hidden,
        "vocab": c.size("vocab_size"),
    }


def _gpt2(c: _Config) -> _Shape:
    c.must_be("add_cross_attention", False, "cross-attention")
    s = _gpt(c, "n_embd", "hidden_size")
    return s | {
        "ffn": c.size("n_inner", default=s["ffn"]),  # GPT2Config: four times hidden when null
        "learned_positions": c.size("n_positions", "max_position_embeddings"),
        "tied_embeddings": c.flag("tie_word_embeddings", True),  # PretrainedConfig's default
    }


def _gpt_neox(c: _Config) -> _Shape:
    s = c.base()
    return (
        s
        | _PLAIN
        | _biases(c.flag("attention_bias", True))
        | {
            "mlp_bias": True,
            "kv_heads": s["heads"],
            "head_dim": c.head_dim(s["hidden"], s["heads"]),
            "ffn": c.size("intermediate_size"),
            "tied_embeddings": c.flag("tie_word_embeddings", False),
            "parallel_block": c.flag("use_parallel_residual", True),
        }
    )


def _falcon(c: _Config) -> _Shape:
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
        **_PLAIN,
        **_biases(c.flag("bias", False)),
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


def _gemma(c: _Config, kv_default: int = 16) -> _Shape:
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


def _gemma2(c: _Config) -> _Shape:
    s = _gemma(c, kv_default=4)  # Gemma2Config: 4 when absent
    window = c.size("sliding_window", default=0 if "sliding_window" in c.raw else 4096)
    every_other = c.windowed_layers(s["layers"], (s["layers"] + 1) // 2)  # beginning with the first layer
    return s | {"norms_per_layer": 4} | _window(s["layers"], window, every_other)


def _opt(c: _Config) -> _Shape:
    s = c.base()
    c.must_be("layer_norm_elementwise_affine", True, "norms without weights")
    before = c.flag("do_layer_norm_before", True)
    width = c.size("word_embed_proj_dim", default=s["hidden"])
    return (
        s
        | _PLAIN
        | _biases(c.flag("enable_bias", True))
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


def _bloom(c: _Config) -> _Shape:
    tied = c.flag("tie_word_embeddings", True)
    return _gpt(c, "hidden_size", "n_embed") | {"embedding_norm": True, "tied_embeddings": tied}


_MPT_NORMS = {
    "low_precision_layernorm": "layernorm",
    "layernorm": "layernorm",
    "low_precision_rmsnorm": "rmsnorm",
    "rmsnorm": "rmsnorm",
}


def _mpt(c: _Config) -> _Shape:
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
        **_PLAIN,
        **_biases(bias),
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


def _granite(c: _Config) -> _Shape:
    return _llama(c) | {"tied_embeddings": c.flag("tie_word_embeddings", False)}


def _phi(c: _Config) -> _Shape:
    s = c.base()
    c.must_be("qk_layernorm", False, "a norm on queries and keys")
    return (
        s
        | _PLAIN
        | _biases(True)
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


def _phi3(c: _Config) -> _Shape:
    s = _llama(c) | {"tied_embeddings": c.flag("tie_word_embeddings", False)}
    window = c.size("sliding_window", default=0)
    reaches = window and window < c.size("max_position_embeddings", default=0)  # a window as long as the text is none
    return s | (_window(s["layers"], window, s["layers"]) if reaches else {})


def _gemma3_text(c: _Config) -> _Shape:
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
        "norms_per_layer": 4,
        "qk_norm": "head",
        "tied_embeddings": c.flag("tie_word_embeddings", True),
    } | _window(layers, c.size("sliding_window", default=4096), c.windowed_layers(layers, layers - layers // every))


def _gpt_oss(c: _Config) -> _Shape:
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
            **_biases(True),
            "router_bias": True,
            "attention_sinks": True,
            "tied_embeddings": c.flag("tie_word_embeddings", False),
        }
        | _window(s["layers"], c.size("sliding_window", default=128), c.windowed_layers(s["layers"], s["layers"] // 2))
    )


def _vision(hidden: int, ffn: int, layers: int, patch: int, positions: int) -> int:
    """Parameters of a tower of plain layers with biases and layer norms: SigLIP and what was made from it."""
    layer = 4 * (hidden * hidden + hidden) + 2 * hidden * ffn + ffn + hidden + 4 * hidden
    return patch * hidden + hidden + positions * hidden + layers * layer


def _tower(c: _Config, *names: str, **defaults: int) -> list[int]:
    inner = c.inner("vision_config")
    return [inner.size(name, default=defaults.get(name)) for name in names]


def _nested(c: _Config, read: Callable[[_Config], _Shape]) -> _Shape:
    """The text part, which newer multimodal configs keep in ``text_config`` and older ones beside the rest."""
    text = c.inner("text_config") if c.has("text_config") else c
    shape = read(text)
    if c.has("text_config") and c.has("tie_word_embeddings") and not text.has("tie_word_embeddings"):
        shape |= {"tied_embeddings": c.flag("tie_word_embeddings", False)}
    return shape


def _gemma3(c: _Config) -> _Shape:
    s = _nested(c, _gemma3_text)
    siglip = {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "patch_size": 14,
        "image_size": 896,
    }
    h, f, layers, patch, image = _tower(c, *siglip, **siglip)
    tower = _vision(h, f, layers, 3 * patch**2, (image // patch) ** 2) + 2 * h
    return s | {"tower_parameters": tower + h + h * s["hidden"]}


def _mistral3(c: _Config) -> _Shape:
    s = _nested(c, lambda text: _mistral(text) | {"attn_window": 0, "n_windowed_layers": 0})
    pixtral = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 14}
    h, f, layers, patch = _tower(c, *pixtral, **pixtral)
    merge = c.size("spatial_merge_size", default=2) ** 2
    tower = 3 * patch**2 * h + h + layers * (4 * h * h + 3 * h * f + 2 * h)
    return s | {"tower_parameters": tower + h + merge * h * h + h * s["hidden"] + s["hidden"] ** 2}


def _qwen2_5_vl(c: _Config) -> _Shape:
    s = _nested(c, _qwen2)
    given = {"hidden_size": 1280, "intermediate_size": 3420, "depth": 32, "patch_size": 14, "spatial_merge_size": 2}
    h, f, layers, patch, side = _tower(c, *given, **given)
    wide = h * side**2
    layer = 4 * (h * h + h) + 3 * h * f + 2 * f + h + 2 * h
    merger = h + wide * wide + wide + wide * s["hidden"] + s["hidden"]
    return s | {"tower_parameters": 3 * 2 * patch**2 * h + layers * layer + merger}


def _qwen3_vl(c: _Config) -> _Shape:
    s = _nested(c, _qwen3)
    given = {"hidden_size": 1152, "intermediate_size": 4304, "depth": 27, "patch_size": 16, "spatial_merge_size": 2}
    h, f, layers, patch, side = _tower(c, *given, **given)
    (places,) = _tower(c, "num_position_embeddings", num_position_embeddings=2304)
    taken = c.inner("vision_config").raw.get("deepstack_visual_indexes") or []
    wide = h * side**2
    merger = wide * wide + wide + wide * s["hidden"] + s["hidden"]
    mergers = 2 * h + merger + len(taken) * (2 * wide + merger)
    return s | {"tower_parameters": _vision(h, f, layers, 3 * 2 * patch**2, places) + mergers}


def _kimi_vl(c: _Config) -> _Shape:
    s = _nested(c, _deepseek_v3)
    given = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14}
    given |= {"init_pos_emb_height": 64, "init_pos_emb_width": 64}
    h, f, layers, patch, high, wide = _tower(c, *given, **given)
    both = 4 * h
    tower = _vision(h, f, layers, 3 * patch**2, high * wide) + 2 * h
    return s | {"tower_parameters": tower + 2 * h + both * both + both + both * s["hidden"] + s["hidden"]}


def _glm4_moe(c: _Config) -> _Shape:
    # The module for multi-token prediction (num_nextn_predict_layers) is not counted, as in DeepSeek-V3.
    s = c.base()
    experts = c.size("n_routed_experts")
    dense = c.size("first_k_dense_replace", least=0)
    if dense > s["layers"]:
        c.fail("first_k_dense_replace", f"must not exceed num_hidden_layers = {s['layers']}")
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
    }


def _minimax_m2(c: _Config) -> _Shape:
    s = c.base()
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


def _olmo2(c: _Config) -> _Shape:
    return _llama(c) | {"qk_norm": "full"}  # two norms a layer, behind attention and MLP


def _olmo3(c: _Config) -> _Shape:
    s = _olmo2(c)
    width = c.size("sliding_window", default=0 if "sliding_window" in c.raw else 4096)
    return s | _window(s["layers"], width, c.windowed_layers(s["layers"], s["layers"] - s["layers"] // 4))


_UNROTATED = {"bloom", "gpt2", "mpt", "opt"}  # families without rotary positions
_GEMMA_3 = {"gemma3", "gemma3_text"}  # a second table for the layers with a window
_MAX_ROWS = 10**8  # positions; the longest context in use is ten million
_QUANTISED = {
    ("float", 8): "fp8",
    ("int", 8): "int8",
    ("int", 4): "int4",
    ("float", 4): "nvfp4",
}


def _rotary(c: _Config, kind: str, shape: _Shape) -> _Shape:
    """Rows and width of the tables of sines and cosines that a server makes."""
    text = c.inner("text_config") if c.has("text_config") else c
    if kind in _UNROTATED or shape.get("learned_positions"):
        return {}
    # Gemma3TextConfig: 131,072 positions when absent
    rows = text.size("max_position_embeddings", default=131_072 if kind in _GEMMA_3 else 0, least=0, most=_MAX_ROWS)
    scaling = text.inner("rope_scaling") if text.has("rope_scaling") else None
    if scaling is not None and rows:
        factor: Any = scaling.raw.get("factor")
        way = scaling.text("rope_type") or scaling.text("type")
        if way in ("linear", "dynamic", "yarn") and type(factor) in (int, float) and 1 <= factor <= _MAX_SIZE:
            first = scaling.size("original_max_position_embeddings", default=rows) if way == "yarn" else rows
            rows = round(first * factor) + (rows if kind in _GEMMA_3 else 0)
    elif kind in _GEMMA_3:
        rows *= 2
    rows = min(rows, _MAX_ROWS)
    share = text.raw.get("partial_rotary_factor", text.raw.get("rotary_pct"))
    part = round(share * shape["head_dim"]) if type(share) is float and 0 < share < 1 else 0
    return ({"rotary_rows": rows} if rows else {}) | ({"rotary_dim": part} if part else {})


def _stored(c: _Config) -> str:
    """The number format of the checkpoint's matrices; a method that this module does not know stands as it is called."""
    text = c.inner("text_config") if c.has("text_config") else c
    holder = c if c.has("quantization_config") else text
    if not holder.has("quantization_config"):
        return ""
    q = holder.inner("quantization_config")
    method = q.text("quant_method", q.text("quant_algo"))[:40]
    if method == "fp8":
        return "fp8-block" if q.has("weight_block_size") else "fp8"
    if method in ("gptq", "awq", "auto-round"):
        return _QUANTISED.get(("int", q.size("bits", "w_bit", default=4)), method)
    if method == "modelopt":
        return {"FP8": "fp8", "NVFP4": "nvfp4"}.get(q.text("quant_algo"), method)
    if method == "compressed-tensors":
        groups = q.inner("config_groups")
        for name in groups.raw:
            weights = groups.inner(name).inner("weights")
            form = _QUANTISED.get((weights.text("type"), weights.size("num_bits", default=8)), method)
            return "fp8-block" if form == "fp8" and weights.text("strategy") == "block" else form
    return {"mxfp4": "mxfp4", "fbgemm_fp8": "fp8"}.get(method, method)


_READERS: dict[str, Callable[[_Config], _Shape]] = {
    "bloom": _bloom,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek_v3,
    "falcon": _falcon,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3_text,
    "glm4_moe": _glm4_moe,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "granite": _granite,
    "kimi_k2": _deepseek_v3,
    "kimi_vl": _kimi_vl,
    "llama": _llama,
    "llama4": _llama4,
    "llama4_text": _llama4,
    "minimax_m2": _minimax_m2,
    "mistral": _mistral,
    "mistral3": _mistral3,
    "mixtral": _mixtral,
    "mpt": _mpt,
    "olmo2": _olmo2,
    "olmo3": _olmo3,
    "opt": _opt,
    "phi": _phi,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl": _qwen3_vl,
}
FAMILIES = tuple(_READERS)

# Parts that no field of a shape expresses: which key of a config tells of them, and what a shape would need to say.
_INDEXER = "the indexer of sparse attention: its heads, their width and how many tokens it picks"
_LINEAR = (
    "layers of linear attention: how many, their key and value heads and widths, and the width of their convolution"
)
_STATE = "layers of a state space: how many, their inner width, state, heads, groups and convolution"
_NO_FIELD: Mapping[str, str] = {
    "index_n_heads": _INDEXER,
    "index_topk": _INDEXER,
    "linear_num_value_heads": _LINEAR,
    "linear_attn_config": _LINEAR,
    "attn_type_list": _LINEAR,
    "ssm_cfg": _STATE,
    "state_size": _STATE,
    "mamba_d_state": _STATE,
    "ssm_state_size": _STATE,
}
_KNOWN_PARTS: Mapping[str, str] = {
    "deepseek_v32": _INDEXER,
    "glm_moe_dsa": _INDEXER,
    "kimi_linear": _LINEAR,
    "minimax": _LINEAR,
    "minimax_text_01": _LINEAR,
    "qwen3_next": _LINEAR,
    "qwen3_5_moe": _LINEAR,
    "mamba": _STATE,
    "mamba2": _STATE,
    "nemotron_h": _STATE,
}


def _inexpressible(c: _Config, kind: str) -> str:
    """What a config has that no field of a shape says; empty without."""
    text = c.inner("text_config") if isinstance(c.raw.get("text_config"), Mapping) else c
    found = [part for key, part in _NO_FIELD.items() if text.has(key)]
    kinds = text.raw.get("layer_types")
    if isinstance(kinds, list) and "linear_attention" in kinds:
        found.append(_LINEAR)
    return _KNOWN_PARTS.get(kind) or (found[0] if found else "")


def _refuse(c: _Config, kind: str) -> NoReturn:
    """Say of an unknown type which field it would need, and how to write a shape by hand."""
    by_hand = (
        "write its sizes by hand with catalog.define('model', ...), or in a file for catalog.load_models (the page Your own "
        "shows how)"
    )
    if part := _inexpressible(c, kind):
        raise InputError(
            f"{c.file}: model_type {kind[:40]!r} has what no field of a shape says yet, {part}; read as plain attention its "
            f"parameters, cache and work would all be wrong. For an estimate without that part, {by_hand}"
        )
    raise InputError(f"{c.file}: {unknown_name('model_type', kind, FAMILIES)}; or {by_hand}")


def _name(c: _Config, file: str) -> str:
    """The last part of ``_name_or_path``, reduced to harmless characters; else the model_type."""
    given = c.raw.get("_name_or_path")
    text = given[-200:].rstrip("/").rsplit("/", 1)[-1] if isinstance(given, str) else ""
    return "".join(ch for ch in text if ch in _PRINTABLE).strip()[:80] or f"{c.text('model_type')} model of {file}"


def from_hf_config(source: str | Path | Mapping[str, Any]) -> Model:
    """The shape that a Hugging Face ``config.json`` describes.

    Parameters
    ----------
    source : path or mapping
        Path of the file, or its content already parsed.

    Returns
    -------
    Model
        Not in the catalogue, with no published count; ``source`` is the name of the file.

    Raises
    ------
    InputError
        Naming file, key and value, and how to mend it: a ``model_type`` this module does not know, a size that is
        missing, of the wrong type or out of range, keys that contradict each other, a variant the shape cannot express.

    >>> from_hf_config({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    ...                 "intermediate_size": 128, "vocab_size": 1000}).head_dim
    16
    """
    if isinstance(source, str | Path):
        path = Path(source)
        raw, file = _read_json(path), path.name
    else:
        raw, file = source, "config"
    c = _Config(raw, file)
    kind = c.text("model_type")
    if not kind:
        raise InputError(f"{file}: no model_type; this reader knows {', '.join(FAMILIES)}")
    if kind not in _READERS or _inexpressible(c, kind):
        _refuse(c, kind)
    shape = _READERS[kind](c)
    shape |= _rotary(c, kind, shape) | {"stored": _stored(c)}
    try:
        return Model(name=_name(c, file), family=kind, source=file, where="read by from_hf_config", **shape)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
