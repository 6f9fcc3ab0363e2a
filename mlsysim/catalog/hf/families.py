"""Families whose layers hold attention with groups of heads, or latent attention, and an MLP or experts: a row of keys each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlsysim.catalog.hf.config import Config
from mlsysim.catalog.hf.decoder import (
    FULL,
    NEAR,
    Family,
    Plan,
    Sparse,
    Widths,
    every,
    leading,
    nth,
    plan,
    rows,
    vector,
    widths,
    window,
)
from mlsysim.errors import InputError

TIED = ("tie_word_embeddings", True)  # PretrainedConfig's default, which most families turn round
NEXT = ("num_nextn_predict_layers", "mtp_num_hidden_layers", 0)
EXPERTS, ROUTED = ("num_local_experts", "num_experts"), "n_routed_experts"
SHARED = ("n_shared_experts", "num_shared_experts", 0)


def biased(how: Any) -> dict[str, Any]:
    return dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias"), how)


def others(i: int) -> bool:
    """The second of every two layers."""
    return i % 2 == 1


def first(count: int) -> Callable[[int], bool]:
    """Of every so many layers the first one."""
    return lambda i: i % count == 0


def qwen_window(near: Callable[[int, int], bool]) -> Widths:
    """``near`` says of a layer whether it has a window, given ``max_window_layers``; the classes do it in three ways."""

    def read(c: Config, layers: int) -> list[int]:
        if not c.flag("use_sliding_window", False):
            return [0] * layers
        above = c.size("max_window_layers", default=28, least=0)
        return widths(c, layers, c.size("sliding_window", default=4096), lambda i: not near(i, above))

    return read


def phi_window(c: Config, layers: int) -> list[int]:
    width = c.size("sliding_window", default=0)  # a window as long as the text is none
    return [width if width < c.size("max_position_embeddings", default=0) else 0] * layers


def exaone_window(c: Config, layers: int) -> list[int]:
    pattern = c.raw.get("sliding_window_pattern")  # letters, or how many layers there are to one that sees all
    count = len(pattern) if isinstance(pattern, str) else pattern
    return window(0, nth(count if type(count) is int and count > 0 else 4))(c, layers)


def qwen_sparse(c: Config, layers: int) -> list[bool]:
    only = [] if c.raw.get("mlp_only_layers") is None else c.raw["mlp_only_layers"]
    if not isinstance(only, list) or any(type(i) is not int or not 0 <= i < layers for i in only):
        c.fail("mlp_only_layers", f"must list layers below {layers} that have a dense MLP")
    step, dense = c.size("decoder_sparse_step", default=1), set(only)
    return [i not in dense and (i + 1) % step == 0 for i in range(layers)]


def deepseek_sparse(c: Config, layers: int) -> list[bool]:
    if ROUTED in c.raw and not c.has(ROUTED):  # null: a dense model; absent: an error
        return [False] * layers
    return leading(None)(c, layers)


def ernie_sparse(c: Config, layers: int) -> list[bool]:
    start, step = c.size("moe_layer_start_index", default=1, least=0), c.size("moe_layer_interval", default=1)
    last = c.raw.get("moe_layer_end_index", -1)
    if type(last) is not int or not -1 <= last < layers:
        c.fail("moe_layer_end_index", f"must lie in [-1, {layers - 1}]; -1 says the last layer")
    return [(i + 1) % step == 0 and start <= i <= last % layers for i in range(layers)]


def flint_sparse(c: Config, layers: int) -> list[bool]:
    return qwen_sparse(c if c.has("mlp_only_layers") else c.but(mlp_only_layers=[0, 1]), layers)


def cohere_window(c: Config, layers: int) -> list[int]:
    dense = leading()(c, layers).count(False)
    begin = c.size("prefix_dense_sliding_window_pattern", default=1)
    step = c.size("sliding_window_pattern", "_sliding_window_pattern", default=4)
    return window(4096, lambda i: nth(begin)(i) if i < dense else nth(step)(i - dense))(c, layers)


def falcon_heads(c: Config, heads: int) -> int:
    if c.flag("new_decoder_architecture", False):  # FalconConfig: as many KV heads as heads when null
        return c.kv_heads(heads, "num_kv_heads", "n_head_kv")
    return 1 if c.flag("multi_query", True) else heads


def falcon_norms(c: Config) -> int:
    if not c.flag("new_decoder_architecture", False):
        return 1 if c.flag("parallel_attn", True) else 2
    norms = c.size("num_ln_in_parallel_attn", default=2)
    if norms > 2:
        c.fail("num_ln_in_parallel_attn", "must be 1 or 2")
    return norms


def wide(*keys: str, hidden: tuple[str, ...], times: int = 4) -> Callable[[Config], int]:
    """The width of an MLP, which is a multiple of hidden where no key says it."""
    return lambda c: c.size(*keys, default=times * c.size(*hidden)) if keys else times * c.size(*hidden)


def half(c: Config) -> int:
    width = c.size("intermediate_size")
    if width % 2:
        c.fail("intermediate_size", "must be even; the two matrices of its gate share it")
    return width // 2


def granite_shared(c: Config) -> int:
    return int(c.size("shared_intermediate_size", default=0, least=0) > 0)


def axk1(p: Plan) -> None:
    p.more = [(vector("norm", p.hidden),) if sparse else () for sparse in p.sparse]  # behind each mixture


def gpt_neo_window(c: Config, layers: int) -> list[int]:
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
    width = c.size("window_size", default=256)
    return [width if kind == "local" else 0 for kind in kinds]


def neox_japanese(p: Plan) -> None:
    p.more = [()] * (p.layers - 1) + [(vector("bias", p.hidden),)]  # which the last layer alone has


def dbrx(p: Plan) -> None:
    ffn = p.c.inner("ffn_config")
    n = ffn.size("moe_num_experts", default=4)
    picked = ffn.top_k(n, "moe_top_k") if ffn.has("moe_top_k") else 1
    p.experts = {"n": n, "top_k": picked, "width": ffn.size("ffn_hidden_size", default=3584)}
    p.sparse = [True] * p.layers


def llama4_sparse(c: Config, layers: int) -> list[bool]:
    step, listed = (
        c.size("interleave_moe_layer_step", default=1),
        c.raw.get("moe_layers"),
    )  # newer configs list them as well
    if listed is not None and listed != list(range(step - 1, layers, step)):
        c.fail("moe_layers", f"is not what interleave_moe_layer_step = {step} gives; correct one of them")
    return [nth(step)(i) for i in range(layers)]


def minimax_m2(p: Plan) -> None:
    # The modules for multi-token prediction (num_mtp_modules) are not published.
    if p.c.has("attn_type_list") and p.c.raw["attn_type_list"] != [1] * p.layers:
        p.c.fail("attn_type_list", "is not supported; only 1, softmax attention, in every layer")


def _alike(c: Config, key: str) -> int:
    """A size that some configs give as a list with one entry for each layer, all equal."""
    value = c.raw.get(key)
    if isinstance(value, list) and value and all(v == value[0] for v in value):
        c = c.but(**{key: value[0]})
    return c.size(key)


def hunyuan_moe(p: Plan) -> None:
    """Experts all of whose numbers may stand in lists; of one expert it is dense."""
    c, n = p.c, p.c.size("num_experts")
    if n == 1:
        return
    width = _alike(c, "moe_intermediate_size") if c.has("moe_intermediate_size") else p.mlp["width"]
    shared = _alike(c, "num_shared_expert") if c.has("num_shared_expert") else 1
    p.experts = {"n": n, "top_k": c.but(moe_topk=_alike(c, "moe_topk")).top_k(n, "moe_topk"), "width": width}
    p.experts |= {"shared": shared, "shared_width": p.mlp["width"]}
    p.sparse = [True] * p.layers


def one_for_all(key: str) -> Sparse:
    """A list of 0 and 1, one for each layer; one number stands for all of them."""

    def read(c: Config, layers: int) -> list[bool]:
        given = c.raw.get(key)
        listed = [given] * layers if type(given) is int else given
        return [v == 1 for v in c.but(**{key: listed}).numbers(key, layers, 0, 1)]

    return read


def mimo_v2(p: Plan) -> None:
    c, width, far = p.c, p.c.size("sliding_window", "sliding_window_size"), p.attention
    p.windows = [width * near for near in one_for_all("hybrid_layer_pattern")(c, p.layers)]
    far["value_dim"] = c.size("v_head_dim")
    p.near = {
        "heads": c.size("swa_num_attention_heads", default=far["heads"]),
        "kv_heads": c.size("swa_num_key_value_heads", default=far["kv_heads"]),
        "head_dim": c.size("swa_head_dim", default=far["head_dim"]),
        "value_dim": c.size("swa_v_head_dim", default=far["value_dim"]),
    }


def _step_layers(c: Config, key: str, layers: int) -> Config:
    """The config without the modules for multi-token prediction, which a list of it holds too."""
    return c.but(**{key: c.raw[key][:layers]}) if isinstance(c.raw.get(key), list) else c


def step_sparse(c: Config, layers: int) -> list[bool]:
    listed = c.raw.get("moe_layers_enum")
    if not isinstance(listed, str):
        return leading()(_step_layers(c, "mlp_layer_types", layers), layers)
    mixed = {int(x) for x in listed.split(",") if x.strip().isdigit()}
    return [i in mixed for i in range(layers)]


def step3p5(p: Plan) -> None:
    """Step 3.5: layers with a window have more heads than the others; a gate for each head."""
    other, far = p.c.inner("attention_other_setting"), p.attention
    p.attention["gate"] = "head" if p.c.flag("use_head_wise_attn_gate", True) else ""
    kinds = _step_layers(p.c, "layer_types", p.layers).kinds(p.layers, lambda i: FULL)
    p.windows = [p.c.size("sliding_window") if kind == NEAR else 0 for kind in kinds]
    more = p.c.size("num_sliding_attention_heads", default=far["heads"])
    p.near = {
        "heads": other.size("num_attention_heads", default=more),
        "kv_heads": other.size("num_attention_groups", default=far["kv_heads"]),
        "head_dim": other.size("head_dim", default=far["head_dim"]),
    }


def laguna(p: Plan) -> None:
    """A gate for each head; each layer may have heads of its own number."""
    p.attention["gate"] = "head" if p.c.raw.get("gating", True) in (True, "per-head") else "full"
    if p.c.has("num_attention_heads_per_layer"):
        heads = p.c.numbers("num_attention_heads_per_layer", p.layers)
        p.mixers = [p.attend(width, heads=n) for width, n in zip(p.windows, heads, strict=True)]


def chatglm_heads(c: Config, heads: int) -> int:
    return c.kv_heads(heads, "multi_query_group_num") if c.flag("multi_query_attention", False) else heads


def chatglm_bias(c: Config) -> bool:
    return c.flag("add_bias_linear", False) or c.flag("add_qkv_bias", False)


def opt_width(c: Config) -> int:
    width = c.size("word_embed_proj_dim", default=c.size("hidden_size"))
    return 0 if width == c.size("hidden_size") else width


# fmt: off
# Attention with groups of heads and a gated MLP; Llama has biases of MLPs too.
GROUPED = Family()
LLAMA = Family(mlp_bias=("mlp_bias", False))
MISTRAL = Family(kv_heads=8, qkv_bias=False, output_bias=False, window=window(4096))  # MistralConfig
OLMO_2 = replace(LLAMA, qk_norm="full")  # two norms a layer, behind attention and MLP
COHERE = replace(LLAMA, norms=1, parallel=True, tied=TIED, qk_norm=("use_qk_norm", False, "full"))
GEMMA = Family(kv_heads=16, head_dim=256, tied=TIED)  # GemmaConfig: whatever hidden / heads is
GEMMA_3 = replace(
    GEMMA, kv_heads=4, norms=4, qk_norm="head", window=every(4096, 6, "sliding_window_pattern"),  # Gemma3TextConfig
    absent={"num_hidden_layers": 26, "hidden_size": 2304, "num_attention_heads": 8, "intermediate_size": 9216, "vocab_size": 262_208})
QWEN_2 = Family(kv_heads=32, qkv_bias=True, output_bias=False, window=qwen_window(lambda i, above: i >= above))
QWEN_3 = Family(kv_heads=32, head_dim=128, qk_norm="head", window=QWEN_2.window)
GLM = Family(kv_heads=2, head_dim=128, qkv_bias=("attention_bias", True), output_bias=False)
GLM_4 = replace(GLM, norms=4)
PHI_3 = replace(LLAMA, window=phi_window)

# Layer norms and a plain MLP, with biases everywhere or as a key says
PLAIN = Family(gated=False, norm_bias=True, kv_heads="", tied=TIED, **biased(True))
WIDTH = ("n_embd", "hidden_size")
GPT = replace(PLAIN, layers=("n_layer", "num_hidden_layers"), hidden=WIDTH, heads=("n_head", "num_attention_heads"))
GPT_2 = replace(GPT, positions=("n_positions", "max_position_embeddings"), ffn=wide("n_inner", hidden=WIDTH))
GPT_J = replace(
    GPT_2, positions=0, qkv_bias=False, output_bias=False, norms=1, parallel=True, head_bias=True, tied=GROUPED.tied)
BLOOM = replace(GPT, hidden=("hidden_size", "n_embed"), ffn=wide(hidden=("hidden_size", "n_embed")))

# Experts under the names of Mixtral, Qwen and DeepSeek
MIXTRAL = replace(MISTRAL, window=window(0), n_experts=EXPERTS, expert_ffn="intermediate_size")
LOCAL = Family(n_experts="num_local_experts", expert_ffn="intermediate_size")
QWEN_2_MOE = Family(
    kv_heads=16, qkv_bias=("qkv_bias", True), output_bias=False, n_experts=EXPERTS[::-1], sparse=qwen_sparse,
    shared=1, shared_ffn="shared_expert_intermediate_size", shared_gate=True,
    window=qwen_window(lambda i, above: i < above and i % 2 == 0))
QWEN_3_MOE = Family(
    kv_heads=4, qk_norm="head", n_experts=EXPERTS[::-1], sparse=qwen_sparse, window=qwen_window(lambda i, above: True))
DEEP = Family(n_experts=ROUTED, sparse=leading(), shared=SHARED, router_bias=True)
GLM_4_MOE = replace(
    DEEP, kv_heads=8, output_bias=False, qk_norm=("use_qk_norm", False, "head"), sparse=leading(None), modules=NEXT)
_LATENT_ONLY = (
    ("attention_bias", False, "biases of the latent projections"), ("mlp_bias", False, "biases of the experts"),
    ("moe_layer_freq", 1, "mixtures in every n-th layer"))
DEEPSEEK = Family(
    latent=True, refused=_LATENT_ONLY, n_experts=(ROUTED, "num_routed_experts", *EXPERTS), sparse=deepseek_sparse,
    # null: none; absent: an error, because the classes of V2 and V3 have different defaults
    shared=lambda c: c.size(*SHARED[:2], default=0 if "n_shared_experts" in c.raw else None, least=0))
DEEPSEEK_V3 = replace(DEEPSEEK, router_bias=True, modules=NEXT)  # a bias in the router balances its experts
LATENT = Family(latent=True, refused=_LATENT_ONLY)  # before a dense MLP
ERNIE = Family(
    kv_heads=4, **biased(("use_bias", False)), tied=TIED, n_experts="moe_num_experts", top_k=("moe_k",),
    sparse=ernie_sparse, shared=("moe_num_shared_experts", 0), router_bias=("moe_use_aux_free", True), modules=NEXT)
BAILING = Family(
    qkv_bias=("use_qkv_bias", False), output_bias=("use_bias", False), qk_norm=("use_qk_norm", False, "head"),
    n_experts="num_experts", sparse=leading(), shared=SHARED,
    shared_ffn=lambda c: c.size("moe_shared_expert_intermediate_size", default=c.size("moe_intermediate_size")),
    router_bias=("moe_router_enable_expert_bias", False),
    refused=(("multi_gate", False, "gates of their own for images and sound"), ("moe_layer_freq", 1, "mixtures in every n-th layer"),),
    modules=NEXT[::2])
SINKS_AND_WINDOW: dict[str, Any] = {"sinks": True, "window": window(128, first(4))}
OWN_SHARED: dict[str, Any] = {"shared": 1, "shared_ffn": "shared_expert_intermediate_size"}
GRANITE_MOE = replace(LOCAL, shared=granite_shared, shared_ffn="shared_intermediate_size")

DENSE: dict[str, Family] = {
    "apertus": replace(LLAMA, gated=False, qk_norm="head", then=lambda p: p.add(vector("activation", 2))),
    "arcee": replace(LLAMA, gated=False),
    "biogpt": replace(PLAIN, positions=lambda c: c.size("max_position_embeddings") + 2),
    # a norm behind the heads and one inside the MLP
    "bitnet": replace(LLAMA, then=lambda p: p.add(vector("norms", p.hidden + p.mlp["width"]))),
    "bloom": replace(BLOOM, embedding_norm=True),
    "codegen": GPT_J,
    # ChatGLM 2 and 3 and the first GLM-4, with few heads of keys and values
    "chatglm": Family(
        layers=("num_layers", "num_hidden_layers"), vocab=("padded_vocab_size", "vocab_size"), kv_heads=chatglm_heads,
        head_dim=lambda c, hidden, heads: c.size("kv_channels", default=128), ffn="ffn_hidden_size",
        **biased(("add_bias_linear", False)) | {"qkv_bias": chatglm_bias},
        refused=(
            ("rmsnorm", True, "layer norms"), ("post_layer_norm", True, "no norm behind the layers"),
            ("apply_residual_connection_post_layernorm", False, "sums behind the norms"))),
    "cohere": COHERE,
    "cohere2": replace(COHERE, window=every(4096, 4, "sliding_window_pattern", "_sliding_window_pattern")),
    "ctrl": replace(GPT, ffn="dff", head_bias=True),
    "cwm": replace(LLAMA, window=window(8192, first(4))),
    "ernie4_5": replace(LLAMA, **biased(("use_bias", False)), tied=TIED),
    "exaone": replace(LLAMA, layers=("num_layers", "num_hidden_layers")),  # Llama under other names
    "exaone4": replace(LLAMA, qk_norm="head", window=exaone_window),
    "falcon": replace(
        PLAIN, layers=("num_hidden_layers", "n_layer"), hidden=("hidden_size", "n_embed"),
        heads=("num_attention_heads", "n_head"), kv_heads=falcon_heads, **biased(("bias", False)),
        ffn=wide("ffn_hidden_size", hidden=("hidden_size", "n_embed")), norms=falcon_norms,
        parallel=("parallel_attn", True)),
    "gemma": GEMMA,
    "gemma2": replace(GEMMA, kv_heads=4, norms=4, window=window(4096, others)),
    "gemma3_text": GEMMA_3,
    "glm": GLM,
    "glm4": GLM_4,
    "gpt2": replace(GPT_2, refused=(("add_cross_attention", False, "cross-attention"),)),
    "gpt_bigcode": replace(GPT_2, kv_heads=lambda c, heads: 1 if c.flag("multi_query", True) else heads),
    "gpt_neo": replace(
        PLAIN, layers=("num_layers", "num_hidden_layers"), heads=("num_heads", "num_attention_heads"), qkv_bias=False,
        ffn=wide("intermediate_size", hidden=("hidden_size",)), positions="max_position_embeddings",
        window=gpt_neo_window),
    "gpt_neox": replace(
        PLAIN, **biased(("attention_bias", True)) | {"mlp_bias": True}, tied=GROUPED.tied,
        parallel=("use_parallel_residual", True)),
    "gpt_neox_japanese": replace(
        PLAIN, **biased(False), then=neox_japanese,
        ffn=lambda c: c.size("intermediate_multiple_size", default=4) * c.size("hidden_size")),
    "gptj": GPT_J,
    "granite": LLAMA,
    "granite_swa": replace(LLAMA, **SINKS_AND_WINDOW),
    "helium": LLAMA,
    "hunyuan_v1_dense": replace(GROUPED, qk_norm=("use_qk_norm", True, "head"), ignored=True),
    "hyperclovax": replace(LLAMA, norms=lambda c: 4 if c.flag("use_post_norm", False) else 2),
    "internlm2": replace(LLAMA, **biased(("bias", False)) | {"mlp_bias": False}),
    "internlm3": replace(LLAMA, **biased(("bias", False)) | {"qkv_bias": ("qkv_bias", False)}),
    "iquestcoder": LLAMA,
    "jais2": replace(
        LLAMA, gated=False, norm_bias=True, **biased(("attention_bias", True)) | {"mlp_bias": ("mlp_bias", True)}),
    "llama": LLAMA,
    "mimo": replace(QWEN_2, qkv_bias=("attention_bias", True), modules=NEXT),
    "minicpm3": LATENT,
    "ministral": MISTRAL,
    "ministral3": replace(MISTRAL, window=window(0)),
    "mistral": MISTRAL,
    "nanochat": replace(LLAMA, gated=False, norms=0, final_norm=False),  # its norms have no weights
    "nemotron": replace(LLAMA, gated=False, norm_bias=True),
    "olmo": replace(LLAMA, norms=0, final_norm=False),  # the same
    "olmo2": OLMO_2,
    "olmo3": replace(OLMO_2, window=window(4096, nth(4))),
    "openai-gpt": replace(GPT_2, ffn=wide(hidden=WIDTH), final_norm=False),
    "opt": replace(
        PLAIN, **biased(("enable_bias", True)),
        refused=(("layer_norm_elementwise_affine", True, "norms without weights"),), ffn="ffn_dim",
        positions=lambda c: c.size("max_position_embeddings") + 2,  # two rows in front, for padding
        embedding_width=opt_width,
        final_norm=lambda c: c.flag("do_layer_norm_before", True) and not c.flag("_remove_final_layer_norm", False)),
    "persimmon": replace(PLAIN, qk_norm=("qk_layernorm", True, "head"), tied=GROUPED.tied),
    "phi": replace(
        PLAIN, kv_heads=None, norms=1, parallel=True, head_bias=True, tied=GROUPED.tied,
        refused=(("qk_layernorm", False, "a norm on queries and keys"),)),
    "phi3": PHI_3,
    # the first Qwen: biases of queries, keys and values alone, and an MLP half as wide as its config says
    "qwen": replace(
        LLAMA, kv_heads="", **biased(lambda c: not c.flag("no_bias", True)) | {"qkv_bias": True},
        head_dim=lambda c, hidden, heads: c.size("kv_channels", default=c.head_dim(hidden, heads)), ffn=half),
    "qwen2": QWEN_2,
    "qwen3": QWEN_3,
    "seed_oss": replace(
        LLAMA, kv_heads=8, head_dim=128, qkv_bias=("attention_bias", True), output_bias=("attention_out_bias", False)),
    "smollm3": LLAMA,
    "stablelm": replace(
        LLAMA, norm_bias=True, parallel=("use_parallel_residual", False),
        norms=lambda c: 1 if c.flag("use_parallel_residual", False) else 2, qkv_bias=("use_qkv_bias", False),
        output_bias=False, refused=(("qk_layernorm", False, "norms of each head"),)),
    "starcoder2": replace(PLAIN, kv_heads=2, **biased(("use_bias", True)), window=window(0)),
    "vaultgemma": replace(GEMMA, kv_heads=4, window=window(4096, others)),
    "xglm": replace(
        PLAIN, layers=("num_layers", "num_hidden_layers"), hidden=("d_model", "hidden_size"),
        heads=("attention_heads", "num_attention_heads"), ffn="ffn_dim"),
    "youtu": replace(LATENT, tied=TIED),
}
MIXTURES: dict[str, Family] = {
    "afmoe": replace(
        DEEP, qk_norm="head", gate="full", norms=4, n_experts="num_experts", shared=("num_shared_experts", 0),
        sparse=leading(1, "num_dense_layers"),
        window=lambda c, layers: window(1024, nth(c.size("global_attn_every_n_layers", default=4)))(c, layers)),
    "aria_text": replace(LOCAL, n_experts="moe_num_experts", top_k=("moe_topk",), shared=("moe_num_shared_experts", 2)),
    "axk1": replace(DEEPSEEK_V3, then=axk1),
    "bailing_moe": BAILING,
    "bailing_moe_v2": BAILING,
    "cohere2_moe": replace(
        DEEP, norms=1, parallel=True, tied=TIED, refused=(("use_qk_norm", False, "norms on queries and keys"),),
        n_experts="num_experts",
        expert_ffn=lambda c: c.size("moe_intermediate_size", default=c.size("intermediate_size")),
        shared=("num_shared_experts", 0), router_bias=False, window=cohere_window),
    "dbrx": Family(
        layers=("n_layers", "num_hidden_layers"), hidden=("d_model", "hidden_size"),
        heads=("n_heads", "num_attention_heads"), qkv_bias=False, output_bias=False, ffn=1, norm_bias=False, then=dbrx,
        kv_heads=lambda c, heads: c.inner("attn_config").kv_heads(heads, "kv_n_heads", default=1)),
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK_V3,
    "dots1": replace(DEEP, qk_norm="head", window=window(0, lambda i: True)),
    "ernie4_5_moe": ERNIE,
    "exaone_moe": replace(DEEP, qk_norm="head", n_experts="num_experts", window=window(0, nth(4)), modules=NEXT),
    "flex_olmo": replace(OLMO_2, n_experts="num_experts", expert_ffn="intermediate_size"),
    "flint": replace(
        QWEN_3_MOE, sinks=True, sparse=flint_sparse, **OWN_SHARED,
        window=lambda c, n: window(513, lambda i: i < 2 or i % 4 == 1 or i == n - 1)(c, n)),
    "glm4_moe": GLM_4_MOE,
    "glm4_moe_lite": DEEPSEEK_V3,
    "gpt_oss": replace(
        LOCAL, kv_heads=8, head_dim=64, **biased(("attention_bias", True)) | {"mlp_bias": True}, n_experts=EXPERTS,
        router_bias=True, sinks=True, window=window(128, others, null=128)),
    "granitemoe": GRANITE_MOE,
    "granitemoe_swa": replace(GRANITE_MOE, **SINKS_AND_WINDOW),
    "granitemoeshared": GRANITE_MOE,
    "hunyuan_v1_moe": replace(
        GROUPED, qk_norm=("use_qk_norm", True, "head"), then=hunyuan_moe, ignored=True),
    "hy_v3": replace(
        DEEP, kv_heads=8, head_dim=128, qk_norm="head", n_experts="num_experts",
        expert_ffn=("moe_intermediate_size", "expert_hidden_dim"), sparse=leading(1),
        shared=("num_shared_experts", 1), modules=NEXT),
    "kimi_k2": DEEPSEEK_V3,
    "kolibri1": replace(
        DEEP, kv_heads=4, head_dim=128, qk_norm="head", norms=4, n_experts=EXPERTS, sparse=Family.sparse,
        **OWN_SHARED, window=window(513, nth(5))),
    "laguna": replace(
        DEEP, kv_heads=8, head_dim=128, qk_norm="head", n_experts="num_experts", sparse=leading(1), **OWN_SHARED,
        window=window(512, lambda i: True), then=laguna),
    "llada2_moe": BAILING,
    "llama4_text": replace(
        LOCAL, kv_heads=8, ffn="intermediate_size_mlp", sparse=llama4_sparse, shared=1,  # as wide as a routed expert
        head_dim=lambda c, h, n: c.head_dim(h, n, default=None if "head_dim" in c.raw else 128)),
    "mellum": replace(
        DEEP, kv_heads=4, head_dim=128, qk_norm="head", n_experts=EXPERTS, shared=0, router_bias=False,
        window=window(1024, lambda i: True), modules=("num_mtp_layers", 0)),
    "mimo_v2_flash": replace(DEEP, output_bias=False, sparse=one_for_all("moe_layer_freq"), then=mimo_v2),
    "mistral4": DEEPSEEK,
    "mixtral": MIXTRAL,
    "olmoe": replace(LOCAL, qk_norm="full", n_experts="num_experts"),
    "phimoe": replace(LOCAL, kv_heads=8, norm_bias=True, head_bias=("lm_head_bias", False), window=window(0)),
    "qwen2_moe": QWEN_2_MOE,
    "qwen3_moe": QWEN_3_MOE,
    "sarvam_moe": BAILING,
    "solar_open": replace(DEEP, kv_heads=8, head_dim=128),
    "step3p5": replace(
        DEEP, kv_heads=lambda c, heads: c.size("num_attention_groups", "num_key_value_heads"), qkv_bias=False,
        output_bias=False, qk_norm="head", n_experts=("moe_num_experts", "num_experts", ROUTED), sparse=step_sparse,
        top_k=("moe_top_k", "num_experts_per_tok"), shared=1, shared_ffn=("share_expert_dim", "share_expert_dims"),
        router_bias=("use_moe_router_bias", True), modules=NEXT, then=step3p5),
}
# fmt: on


_MPT_NORMS = ("low_precision_layernorm", "layernorm", "low_precision_rmsnorm", "rmsnorm")


def mpt(c: Config) -> Plan:
    attention, mlp = c.inner("attn_config"), c.inner("ffn_config")
    for key in ("qk_ln", "qk_gn"):
        attention.must_be(key, False, "a norm on queries and keys")
    mlp.must_be("ffn_type", "mptmlp", "a gated MLP")
    kind = attention.text("attn_type", "multihead_attention")
    kinds = ("multihead_attention", "multiquery_attention", "grouped_query_attention")
    if kind not in kinds:
        attention.fail("attn_type", f"must be one of {', '.join(kinds)}")
    norm = c.text("norm_type", "low_precision_layernorm").lower()
    if norm not in _MPT_NORMS:
        c.fail("norm_type", f"must be one of {', '.join(_MPT_NORMS)}")
    bias = not c.flag("no_bias", True)  # MptConfig: no biases when absent, not even in the norms
    learned = c.flag("learned_pos_emb", True) and not attention.flag("alibi", True)  # ALiBi replaces them
    hidden = ("d_model", "hidden_size")
    f = replace(
        PLAIN,
        layers=("n_layers", "num_hidden_layers"),
        hidden=hidden,
        heads=("n_heads", "num_attention_heads"),
        kv_heads=lambda c, heads: {kinds[0]: heads, kinds[1]: 1}.get(kind) or attention.kv_heads(heads, "kv_n_heads"),
        **biased(bias),
        ffn=wide(hidden=hidden, times=c.size("expansion_ratio", default=4)),
        norm_bias=bias and norm.endswith("layernorm"),
        positions="max_seq_len" if learned else 0,
    )
    return plan(c, f)


def llama4(c: Config) -> Plan:
    """The text part, which this type nests."""
    if not c.has("text_config"):
        raise InputError(f"{c.file}: no text_config; model_type 'llama4' keeps the text model there")
    return plan(c.inner("text_config"), MIXTURES["llama4_text"])


MINIMAX_M2 = replace(
    LOCAL, kv_heads=8, head_dim=128, qkv_bias=False, output_bias=False, n_experts=EXPERTS, then=minimax_m2,
    qk_norm=("use_qk_norm", True, "full"), router_bias=("use_routing_bias", True),
)  # fmt: skip
READERS = {**rows(DENSE | MIXTURES), **rows({"minimax_m2": MINIMAX_M2}, plain=False), "mpt": mpt}
