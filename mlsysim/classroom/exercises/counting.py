"""Chapter 02, counting: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from collections.abc import Mapping
from typing import Any

from mlsysim import flops, transformer
from mlsysim._numeric import Num
from mlsysim.catalog import Model
from mlsysim.classroom.exercises.engine import Exercise, Given, Inputs, Mistake, Options

SLUG = "02-counting"
_COUNT = "Count the parameters of a transformer from its shape, and measure the error of a formula for another shape."
_ACTIVE = "Separate the parameters that a mixture of experts stores from those that a token meets."
_TOKEN = "Work out the FLOPs of a training token, attention included."
_CHANGE = "Predict what recomputation and frozen weights change."
_CONVERT = "Convert a published rate or utilisation from one FLOP convention into another."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_COUNT, "02.1"),
    (_ACTIVE, "02.3"),
    (_TOKEN, "02.5"),
    (_CHANGE, "02.6"),
    (_CONVERT, "02.9"),
)

_MAC = "A multiply-accumulate is two operations, a multiplication and an addition. You counted one."
_PERCENT = "That is the percentage taken as a plain number. Write the fraction, or text with a % sign."


# 02.1 and 02.2 the parameters of a shape

_SHAPES = ((4096, 32), (5120, 40), (8192, 64), (6144, 48))


def _sizes(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    hidden, heads = chosen["shape"]
    sizes = {
        "hidden": (hidden, "width of the residual stream"),
        "heads": (heads, "query heads"),
        "head_dim": (128, "size of one head"),
        "ffn": (4 * hidden, "width of the MLP"),
    }
    return {"shape": None, **{name: Given(v, "1", text) for name, (v, text) in sizes.items()}}


def _model(g: Inputs, **changes: Any) -> Model:
    sizes = {n: int(g[n]) for n in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")}
    return Model(name="yours", **(sizes | changes))


def _parameters(g: Inputs, **changes: Any) -> float:
    return float(transformer.parameter_count(_model(g, **changes)).total)


def _formula(g: Inputs) -> float:
    return float(transformer.gpt2_parameters(g["hidden"], g["vocab"], g["layers"]))


_SHAPE_OPTIONS = {
    "layers": Options((32, 40, 28, 48), "1", "layers"),
    "shape": Options(_SHAPES, "", "width and heads"),
    "kv_heads": Options((8, 4), "1", "key and value heads"),
    "vocab": Options((128256, 100352, 152064), "1", "rows of the embedding"),
}
_SHAPE = (
    "A transformer has {layers} layers of width {hidden}, {heads} query heads and {kv_heads} key and value heads of "
    "size {head_dim}, a gated MLP of width {ffn}, a vocabulary of {vocab}, an LM head of its own, RMS norms and no "
    "biases."
)

_E1 = Exercise(
    id="02.1",
    slug=SLUG,
    title="What is in it?",
    objective=_COUNT,
    points=2,
    prompt=_SHAPE + " How many parameters is that (a plain number, like 7.5e9)?",
    unit="1",
    options=_SHAPE_OPTIONS,
    derive=_sizes,
    solve=_parameters,
    mistakes=(
        Mistake(
            "every-head-its-own",
            "You gave every query head keys and values of its own. Here {heads} query heads share {kv_heads}.",
            (lambda g: _parameters(g, kv_heads=int(g["heads"])),),
        ),
        Mistake(
            "two-matrices",
            "You counted two matrices in the MLP. A gated one has three: up, gate and down.",
            (lambda g: _parameters(g, gated_mlp=False),),
        ),
        Mistake(
            "tied",
            "You counted the embedding once. The LM head is a matrix of its own here.",
            (lambda g: _parameters(g, tied_embeddings=True),),
        ),
        Mistake(
            "layers-only",
            "You counted the layers and neither the embedding nor the LM head.",
            (lambda g: _parameters(g) - 2.0 * g["vocab"] * g["hidden"],),
        ),
        Mistake(
            "gpt2-formula",
            "That is the formula of the GPT-2 shape: tied embedding, plain MLP of width 4 h, all heads with their own "
            "keys and values. Count this shape instead.",
            (_formula,),
        ),
    ),
    nudge="Per layer: h d (2 H + 2 H_kv) for attention and 3 h f for the MLP. Then twice vocabulary times width.",
    solution="""\
g = inputs("02.1", seed=SEED)
attention = transformer.attention_matrices(g["hidden"], g["heads"], g["kv_heads"], g["head_dim"])
mlp = transformer.mlp_matrices(g["hidden"], g["ffn"], 3)
norms = (2 * g["layers"] + 1) * g["hidden"]
answer = g["layers"] * (attention + mlp) + norms + 2 * g["vocab"] * g["hidden"]""",
)


def _error(g: Inputs, exact: float | None = None) -> float:
    return _formula(g) / (_parameters(g) if exact is None else exact) - 1


_E2 = Exercise(
    id="02.2",
    slug=SLUG,
    title="Within five per cent?",
    objective=_COUNT,
    points=1,
    prompt=_SHAPE + " A page offers h V + L (12 h² + 13 h) + 2 h for every dense model. What is the signed error of "
    "that formula here, formula over exact count minus one (a fraction, or text like '-3 %')?",
    unit="1",
    tolerance=0.02,
    options=_SHAPE_OPTIONS,
    derive=_sizes,
    solve=_error,
    mistakes=(
        Mistake(
            "wrong-base",
            "You divided the difference by the formula. The error of a prediction is relative to the true value.",
            (lambda g: 1 - _parameters(g) / _formula(g),),
        ),
        Mistake(
            "sign",
            "The size is right and the sign is not: predicted over true, minus one. Too small a prediction is negative.",
            (lambda g: -_error(g),),
        ),
        Mistake("percent", _PERCENT, (lambda g: 100 * _error(g),)),
        Mistake(
            "tied",
            "You compared with a count that has the embedding once. This model has an LM head of its own.",
            (lambda g: _error(g, _parameters(g, tied_embeddings=True)),),
        ),
        Mistake(
            "two-matrices",
            "You compared with a plain MLP. This one is gated and has three matrices.",
            (lambda g: _error(g, _parameters(g, gated_mlp=False)),),
        ),
    ),
    nudge="Count the model exactly (as in 02.1), evaluate the formula, and divide.",
    solution="""\
g = inputs("02.2", seed=SEED)
attention = transformer.attention_matrices(g["hidden"], g["heads"], g["kv_heads"], g["head_dim"])
mlp = transformer.mlp_matrices(g["hidden"], g["ffn"], 3)
exact = g["layers"] * (attention + mlp) + (2 * g["layers"] + 1) * g["hidden"] + 2 * g["vocab"] * g["hidden"]
answer = transformer.gpt2_parameters(g["hidden"], g["vocab"], g["layers"]) / exact - 1""",
)


# 02.3 what a token meets in a mixture of experts


def _expert(g: Inputs, matrices: int = 3, layers: int | None = None) -> float:
    """One routed expert, summed over the layers."""
    return float(
        (g["layers"] if layers is None else layers) * transformer.mlp_matrices(g["hidden"], g["ffn"], matrices)
    )


def _met(
    g: Inputs, top_k: float | None = None, expert: float | None = None, always: float = 1.0, size: float = 2
) -> Num:
    one = _expert(g) if expert is None else expert
    met = transformer.moe_active(g["always"] * always, g["top_k"] if top_k is None else top_k, one)
    return transformer.weight_bytes(met, size)


_E3 = Exercise(
    id="02.3",
    slug=SLUG,
    title="How much does a token meet?",
    objective=_ACTIVE,
    points=2,
    prompt="Every one of {layers} layers has {experts} routed experts, gated MLPs of width {ffn} on a residual stream of "
    "width {hidden}; a token goes to {top_k} of them. Attention, embeddings, shared experts and routers together have "
    "{always} parameters, which every token meets. How many bytes of bf16 weights does one token meet (a number, or "
    "text like '12 GB')?",
    unit="byte",
    options={
        "layers": Options((32, 48, 60), "1", "layers, all with experts"),
        "hidden": Options((4096, 5120, 6144), "1", "width of the residual stream"),
        "ffn": Options((14336, 8192), "1", "width of one expert"),
        "experts": Options((8, 16), "1", "routed experts per layer"),
        "top_k": Options((2, 4), "1", "routed experts per token"),
        "always": Options((1.2e9, 1e9, 1.4e9), "1", "parameters that every token meets"),
    },
    solve=_met,
    mistakes=(
        Mistake(
            "all-experts",
            "That is what the model stores. A token goes to {top_k} of the {experts} experts.",
            (lambda g: _met(g, top_k=g["experts"]),),
        ),
        Mistake(
            "one-expert",
            "You counted one expert per layer. Each token goes to {top_k}.",
            (lambda g: _met(g, top_k=1),),
        ),
        Mistake(
            "experts-only",
            "You counted the experts and not the {always} parameters that every token meets besides.",
            (lambda g: _met(g, always=0.0),),
        ),
        Mistake(
            "one-layer",
            "You counted the experts of one layer. There are {layers}.",
            (lambda g: _met(g, expert=_expert(g, layers=1)),),
        ),
        Mistake(
            "two-matrices",
            "A gated MLP has three matrices: up, gate and down. You counted two.",
            (lambda g: _met(g, expert=_expert(g, matrices=2)),),
        ),
        Mistake(
            "elements",
            "That is the number of parameters. How many bytes does each take in bf16?",
            (lambda g: _met(g, size=1),),
        ),
    ),
    nudge="Always-on parameters, plus {top_k} experts of 3 h f each in every layer; then bytes per parameter.",
    solution="""\
g = inputs("02.3", seed=SEED)
expert = g["layers"] * transformer.mlp_matrices(g["hidden"], g["ffn"], 3)
answer = transformer.weight_bytes(transformer.moe_active(g["always"], g["top_k"], expert), 2)""",
)


# 02.4 a training run of a mixture


def _run(g: Inputs, parameters: str = "active", flops_per_mac: float = 2.0, gradients: float = 2.0) -> Num:
    return flops.total_flops(flops.matmul_flops_per_token(g[parameters], flops_per_mac, gradients), g["tokens"])


_E4 = Exercise(
    id="02.4",
    slug=SLUG,
    title="What did the training take?",
    objective=_ACTIVE,
    points=1,
    prompt="A model card lists {total} parameters, {active} of them active, trained on {tokens} tokens. How many FLOPs "
    "is that by the 6 N D rule (a number, or text like '3e24 FLOP')?",
    unit="FLOP",
    options={
        "total": Options((671e9, 235e9, 141e9, 400e9), "1", "parameters stored"),
        "active": Options((37e9, 22e9, 39e9, 17e9), "1", "parameters that a token meets"),
        "tokens": Options((14.8e12, 36e12, 8e12, 22e12), "1", "training tokens"),
    },
    solve=_run,
    mistakes=(
        Mistake(
            "stored",
            "You used all {total} parameters. A token is multiplied only with the active ones.",
            (lambda g: _run(g, "total"),),
        ),
        Mistake(
            "forward-only",
            "That is the forward pass. The backward pass does two more products for each of its products.",
            (lambda g: _run(g, gradients=0.0),),
        ),
        Mistake("mac", _MAC, (lambda g: _run(g, flops_per_mac=1.0),)),
        Mistake(
            "one-gradient",
            "You counted one product in the backward pass. It needs the gradient of the input and that of the weight.",
            (lambda g: _run(g, gradients=1.0),),
        ),
    ),
    nudge="Six FLOP for each active parameter and token: two forward, four backward.",
    solution="""\
g = inputs("02.4", seed=SEED)
answer = flops.total_flops(flops.matmul_flops_per_token(g["active"]), g["tokens"])""",
)


# 02.5 a training token with its attention


def _core(g: Inputs, causal: bool = True, flops_per_mac: float = 2.0) -> Num:
    context = flops.attention_context(g["seq"], g["seq"]) if causal else g["seq"]
    return flops.attention_core_flops(g["layers"], context, g["heads"], 128, 128, flops_per_mac)


def _token(g: Inputs, causal: bool = True, core: float = 1.0, flops_per_mac: float = 2.0) -> Num:
    matmul = flops.matmul_flops_per_token(g["parameters"], flops_per_mac)
    return flops.train_flops_per_token(matmul, core * _core(g, causal, flops_per_mac))


_E5 = Exercise(
    id="02.5",
    slug=SLUG,
    title="One token, exactly",
    objective=_TOKEN,
    points=2,
    prompt="A dense model multiplies each token with {parameters} weights (its input embedding is not one of them). It "
    "has {layers} layers with {heads} query heads of size 128, and trains on sequences of {seq} tokens under a causal "
    "mask; nothing is recomputed. How many FLOPs does one training token take on average, counting only the keys that "
    "a query sees (a number, or text like '60 GFLOP')?",
    unit="FLOP",
    options={
        "parameters": Options((7.5e9, 8e9, 13e9), "1", "weights that a token is multiplied with"),
        "layers": Options((32, 40), "1", "layers"),
        "heads": Options((32, 40), "1", "query heads"),
        "seq": Options((32768, 16384, 65536), "1", "tokens per sequence"),
    },
    solve=_token,
    mistakes=(
        Mistake(
            "no-attention",
            "That is 6 N. At {seq} tokens the attention core (scores, and their sum over the values) is not small.",
            (lambda g: _token(g, core=0.0),),
        ),
        Mistake(
            "full-attention",
            "You counted every key. Under a causal mask a query sees about half of them.",
            (lambda g: _token(g, causal=False),),
        ),
        Mistake(
            "core-forward-only",
            "You counted the attention core once. Its backward pass costs twice its forward pass, like any product.",
            (lambda g: _token(g, core=1 / 3),),
        ),
        Mistake(
            "scores-only",
            "The core has two products: queries with keys, and scores with values. You counted one.",
            (lambda g: _token(g, core=1 / 2),),
        ),
        Mistake(
            "forward-only",
            "That is the forward pass alone. Training does two more products for each of its products.",
            (lambda g: flops.forward_matmul_flops(g["parameters"]) + _core(g),),
        ),
        Mistake("mac", _MAC, (lambda g: _token(g, flops_per_mac=1.0),)),
    ),
    nudge="6 N for the weights; for the core 3 x 4 L c H d, where c is the number of keys a query sees on average.",
    solution="""\
g = inputs("02.5", seed=SEED)
context = flops.attention_context(g["seq"], g["seq"])
core = flops.attention_core_flops(g["layers"], context, g["heads"], 128, 128)
answer = flops.train_flops_per_token(flops.matmul_flops_per_token(g["parameters"]), core)""",
)


# 02.6 what selective recomputation adds


def _extra(g: Inputs, layer_share: float = 0.0, core_times: float = 1.0) -> Num:
    layers = flops.forward_matmul_flops(g["parameters"])
    core = _core(g, causal=False)
    again = flops.recompute_flops(layers, core, layer_share, core_times)
    return again / flops.train_flops_per_token(flops.matmul_flops_per_token(g["parameters"]), core)


_E6 = Exercise(
    id="02.6",
    slug=SLUG,
    title="The price of forgetting",
    objective=_CHANGE,
    points=2,
    prompt="A model of {parameters} multiplied weights, {layers} layers and {heads} query heads of size 128 trains on "
    "{seq} tokens. Selective recomputation does the attention core of the forward pass a second time and nothing else. "
    "With every key counted (no causal half): which fraction do the hardware FLOPs lie above the model FLOPs (a "
    "fraction, or text like '4 %')?",
    unit="1",
    tolerance=0.015,
    options={
        "parameters": Options((22e9, 30e9, 34e9), "1", "weights that a token is multiplied with"),
        "layers": Options((48, 40, 60), "1", "layers"),
        "heads": Options((48, 40, 64), "1", "query heads"),
        "seq": Options((8192, 4096, 6144), "1", "tokens per sequence"),
    },
    solve=_extra,
    mistakes=(
        Mistake(
            "full",
            "That is full recomputation: every layer once more. Selective does only the attention core again.",
            (lambda g: _extra(g, layer_share=1.0),),
        ),
        Mistake(
            "core-three-times",
            "You charged the recomputed core three times. Only its forward pass is repeated. (A well-known paper prints "
            "this slip.)",
            (lambda g: _extra(g, core_times=3.0),),
        ),
        Mistake(
            "scores-only",
            "The core has two products: queries with keys, and scores with values. You repeated one.",
            (lambda g: _extra(g, core_times=0.5),),
        ),
        Mistake(
            "over-six-n",
            "You divided by 6 N. The model FLOPs contain the attention core, too.",
            (lambda g: _core(g, causal=False) / flops.matmul_flops_per_token(g["parameters"]),),
        ),
        Mistake(
            "ratio",
            "That is hardware over model FLOPs. The question asks for the fraction above: subtract one.",
            (lambda g: 1 + _extra(g),),
        ),
        Mistake("percent", _PERCENT, (lambda g: 100 * _extra(g),)),
    ),
    nudge="Forward core over model FLOPs: 4 L s H d over 6 N + 12 L s H d.",
    solution="""\
g = inputs("02.6", seed=SEED)
core = flops.attention_core_flops(g["layers"], g["seq"], g["heads"], 128, 128)
model = flops.train_flops_per_token(flops.matmul_flops_per_token(g["parameters"]), core)
again = flops.recompute_flops(flops.forward_matmul_flops(g["parameters"]), core, layer_share=0, core_share=1)
answer = again / model""",
)


# 02.7 frozen weights


def _gain(g: Inputs) -> Num:
    return flops.matmul_flops_per_token(g["frozen"]) / flops.lora_flops(g["frozen"], g["adapters"])


def _small_share(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    adapters = float(f"{chosen['frozen'] * chosen['share']:.3g}")
    return {"share": None, "adapters": Given(adapters, "1", "trainable parameters of the adapters")}


_E7 = Exercise(
    id="02.7",
    slug=SLUG,
    title="How much do frozen weights save?",
    objective=_CHANGE,
    points=1,
    prompt="{frozen} weights are frozen and {adapters} adapter parameters are trained beside them. Short sequences: "
    "leave the attention core aside. By what factor do the FLOPs per token fall against training all {frozen} without "
    "adapters (before over after)?",
    unit="1",
    options={
        "frozen": Options((8e9, 7e9, 13e9, 34e9, 70e9), "1", "frozen weights"),
        "share": Options((0.04, 0.03, 0.05, 0.06, 0.08, 0.1, 0.12), "1", "adapters over frozen"),
    },
    derive=_small_share,
    solve=_gain,
    mistakes=(
        Mistake(
            "adapters-forgotten",
            "That is the limit of no adapters at all. The {adapters} here are multiplied and trained as well.",
            (lambda g: 1.5,),
        ),
        Mistake(
            "no-backward",
            "You left out the backward pass of the frozen weights. They need no gradient of their own, but they pass "
            "the gradient of their input on to the layers below.",
            (lambda g: 6 * g["frozen"] / (2 * g["frozen"] + 6 * g["adapters"]),),
        ),
        Mistake(
            "adapters-only",
            "You counted only the adapters afterwards. The frozen weights are still multiplied.",
            (lambda g: g["frozen"] / g["adapters"],),
        ),
        Mistake(
            "upside-down",
            "That is after over before. The question asks for the other way round.",
            (lambda g: 1 / _gain(g),),
        ),
        Mistake(
            "saved-share",
            "That is the share that is saved. The question asks for before over after.",
            (lambda g: 1 - 1 / _gain(g),),
        ),
    ),
    nudge="6 N before; 4 N for the frozen weights and 6 for each adapter parameter after.",
    solution="""\
g = inputs("02.7", seed=SEED)
answer = flops.matmul_flops_per_token(g["frozen"]) / flops.lora_flops(g["frozen"], g["adapters"])""",
)


# 02.8 Megatron's rate


def _gpt(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    layers, hidden = chosen["size"]
    return {"size": None, "layers": Given(layers, "1", "layers"), "hidden": Given(hidden, "1", "width")}


def _without(g: Inputs) -> Num:
    """Model over hardware FLOPs, as Megatron counts both."""
    shape = (1, g["seq"], g["layers"], g["hidden"], g["vocab"])
    return flops.megatron_flops(*shape, passes=3) / flops.megatron_flops(*shape)


_E8 = Exercise(
    id="02.8",
    slug=SLUG,
    title="Whose TFLOP/s?",
    objective=_CONVERT,
    points=2,
    prompt="A run of a GPT with {layers} layers of width {hidden}, sequences of {seq} tokens and a vocabulary of {vocab} "
    "reports {rate} per GPU, by Megatron's formula 96 B s L h² (1 + s/6h + V/16Lh), which contains the recomputed "
    "forward pass of every layer. How many model FLOP/s per GPU is that, without anything recomputed (a number, or "
    "text like '90 TFLOP/s')?",
    unit="FLOP/s",
    tolerance=0.005,
    options={
        "size": Options(((24, 2048), (12, 1024), (24, 1024), (16, 1536), (12, 2048)), "", "layers and width"),
        "seq": Options((2048, 1024), "1", "tokens per sequence"),
        "vocab": Options((51200, 64000), "1", "vocabulary"),
        "rate": Options((137e12, 126e12, 142e12, 147e12), "FLOP/s", "reported rate"),
    },
    derive=_gpt,
    solve=lambda g: g["rate"] * _without(g),
    mistakes=(
        Mistake(
            "unchanged",
            "That is the reported rate. It counts work that is done twice.",
            (lambda g: g["rate"],),
        ),
        Mistake(
            "three-quarters",
            "Close: three quarters hold for the layers. The LM head is not recomputed, and in a model this small it "
            "counts: replace 96 by 72 and V/16Lh by V/12Lh.",
            (lambda g: g["rate"] * 0.75,),
        ),
        Mistake(
            "upside-down",
            "Model FLOPs are fewer than hardware FLOPs: the rate has to fall.",
            (lambda g: g["rate"] / _without(g),),
        ),
        Mistake(
            "one-third-off",
            "The recomputed pass is one of four, not one of three.",
            (lambda g: g["rate"] * 2 / 3,),
        ),
    ),
    nudge="The same steps per second, other FLOPs per step: 72 B s L h² (1 + s/6h + V/12Lh) over Megatron's formula.",
    solution="""\
g = inputs("02.8", seed=SEED)
shape = 1, g["seq"], g["layers"], g["hidden"], g["vocab"]
answer = g["rate"] * flops.megatron_flops(*shape, passes=3) / flops.megatron_flops(*shape)""",
)


# 02.9 one MFU in another convention


def _counted(g: Inputs, parameters: float, core: float) -> Num:
    matmul = flops.matmul_flops_per_token(parameters)
    return flops.train_flops_per_token(matmul, core * _core(g, causal=False))


def _multiplied(g: Inputs) -> float:
    return float(g["parameters"] - g["vocab"] * g["heads"] * 128)


def _causal(g: Inputs) -> float:
    return float(_core(g) / _core(g, causal=False))


def _converted(g: Inputs, parameters: float | None = None, core: float | None = None) -> Num:
    wanted = _counted(g, _multiplied(g) if parameters is None else parameters, _causal(g) if core is None else core)
    return g["mfu"] * wanted / _counted(g, g["parameters"], 1.0)


_E9 = Exercise(
    id="02.9",
    slug=SLUG,
    title="The same run, another number",
    objective=_CONVERT,
    points=2,
    prompt="A report prints an MFU of {mfu} in PaLM's convention: 6 N with all {parameters} parameters, and 12 L H d s "
    "with every key counted ({layers} layers, {heads} query heads of size 128, {seq} tokens). The input embedding, "
    "{vocab} rows as wide as all heads together, is only looked up (the LM head is a matrix of its own). What is the "
    "MFU when only multiplied weights and only the keys under the causal mask count (a fraction, or text like '40 %')?",
    unit="1",
    options={
        "mfu": Options((0.5, 0.42, 0.46, 0.55, 0.6), "1", "printed MFU"),
        "parameters": Options((8e9, 9e9, 7.5e9), "1", "all parameters"),
        "layers": Options((32, 36), "1", "layers"),
        "heads": Options((32,), "1", "query heads"),
        "seq": Options((8192, 16384), "1", "tokens per sequence"),
        "vocab": Options((128256, 152064), "1", "rows of the input embedding"),
    },
    solve=_converted,
    mistakes=(
        Mistake(
            "embedding-kept",
            "You halved the attention and kept the input embedding. A lookup multiplies nothing.",
            (lambda g: _converted(g, parameters=g["parameters"]),),
        ),
        Mistake(
            "attention-kept",
            "You left the embedding out and kept every key. Under the mask a query sees about half of them.",
            (lambda g: _converted(g, core=1.0),),
        ),
        Mistake(
            "attention-dropped",
            "You dropped the attention. Half of it remains.",
            (lambda g: _converted(g, core=0.0),),
        ),
        Mistake(
            "upside-down",
            "You converted the other way. Fewer counted FLOPs in the same time are a smaller utilisation.",
            (lambda g: g["mfu"] ** 2 / _converted(g),),
        ),
        Mistake("unchanged", "That is the printed number. Two things in it are not done.", (lambda g: g["mfu"],)),
        Mistake("percent", _PERCENT, (lambda g: 100 * _converted(g),)),
    ),
    nudge="MFU is FLOPs counted over FLOPs possible. The time is the same, so multiply by the ratio of the two counts.",
    solution="""\
g = inputs("02.9", seed=SEED)
full = flops.attention_core_flops(g["layers"], g["seq"], g["heads"], 128, 128)
seen = flops.attention_core_flops(g["layers"], flops.attention_context(g["seq"], g["seq"]), g["heads"], 128, 128)
printed = flops.train_flops_per_token(flops.matmul_flops_per_token(g["parameters"]), full)
multiplied = g["parameters"] - g["vocab"] * g["heads"] * 128
answer = g["mfu"] * flops.train_flops_per_token(flops.matmul_flops_per_token(multiplied), seen) / printed""",
)

EXERCISES = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
