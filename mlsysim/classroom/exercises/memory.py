"""Chapter 03, memory: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from collections.abc import Mapping
from typing import Any

from mlsysim import memory
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Given, Inputs, Mistake, Options

SLUG = "03-memory"
_STATE = "Add up the training state of a model from its components and their number formats."
_SHARD = "Shard a training state with ZeRO, FSDP or hybrid sharding and say what stays on each device."
_ACTIVATIONS = "Work out the activations of a layer and of a pipeline stage, with parallelism and recomputation."
_CACHE = "Size a key-value cache for every kind of attention."
_FIT = "Decide whether a run fits on a device, and judge a published size."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_STATE, "03.1"),
    (_SHARD, "03.2"),
    (_ACTIVATIONS, "03.4"),
    (_CACHE, "03.6"),
    (_FIT, "03.9"),
)

_PARAMETERS = (70e9, 7e9, 8e9, 13e9, 14e9, 24e9, 27e9, 32e9, 34e9, 40e9, 65e9, 72e9, 104e9, 110e9)


# 03.1 the training state

_GRADIENTS = {  # how the prompt names them: recipe with these formats
    "bf16": "zero-fp16",
    "fp32 (accumulated there, no 16-bit copy)": "megatron-bf16",
    "bf16, with an fp32 copy to accumulate in": "ultrascale-bf16",
}


def _state(g: Inputs, **changed: float) -> Num:
    components = dict(memory.recipe(_GRADIENTS[g["gradients"]]).components)
    return memory.training_state(g["parameters"], **(components | changed))


_E1 = Exercise(
    id="03.1",
    slug=SLUG,
    title="What does Adam need?",
    objective=_STATE,
    points=2,
    prompt="A model of {parameters} parameters is trained with AdamW in mixed precision on a single device: bf16 "
    "weights with an fp32 master copy, both moments in fp32, and gradients in {gradients}. How many bytes is the model "
    "state, activations aside (or as text, like '1.5 TB')?",
    unit="byte",
    options={
        "parameters": Options(_PARAMETERS, "1", "parameters of the model"),
        "gradients": Options(tuple(_GRADIENTS), "", "number format of the gradients"),
    },
    solve=_state,
    mistakes=(
        Mistake(
            "component-missing",
            "Something is missing. Six things can stand in the sum: the 16-bit weight, its fp32 master copy, the "
            "gradient, perhaps a second gradient, and two moments.",
            (
                lambda g: _state(g, master_bytes=0),
                lambda g: _state(g, gradient_bytes=0, gradient_copy_bytes=0),
            ),
        ),
        Mistake(
            "no-moments",
            "You left the optimizer's moments out: Adam keeps a momentum and a variance for every parameter.",
            (lambda g: _state(g, momentum_bytes=0, variance_bytes=0),),
        ),
        Mistake(
            "weights-only",
            "Those are the 16-bit weights alone, as for inference. Training keeps more.",
            (lambda g: memory.checkpoint_bytes(g["parameters"], 2),),
        ),
        Mistake(
            "bits",
            "You seem to have counted bits: fp32 is 4 bytes and bf16 is 2.",
            (lambda g: 8 * _state(g),),
        ),
    ),
    nudge="Write one line per component with its bytes, add the lines, multiply by {parameters}.",
    solution=f"""\
g = inputs("03.1", seed=SEED)
recipe = {dict(_GRADIENTS)!r}[g["gradients"]]
answer = memory.model_state_memory(g["parameters"], recipe).total""",
)


# 03.2 what ZeRO leaves

_STAGES = {1: memory.zero_1, 2: memory.zero_2, 3: memory.zero_3}


def _zero(g: Inputs, stage: int | None = None, ranks: int | None = None) -> Num:
    function = _STAGES[g["stage"] if stage is None else stage]
    return function(g["parameters"], 2, 2, 12, g["ranks"] if ranks is None else ranks)


_E2 = Exercise(
    id="03.2",
    slug=SLUG,
    title="What does ZeRO leave?",
    objective=_SHARD,
    points=2,
    prompt="{ranks} data-parallel devices train a model of {parameters} parameters: 2 bytes of weight, 2 of gradient "
    "and 12 of optimizer state per parameter. They use ZeRO stage {stage}. How many bytes of model state does each "
    "device hold (or as text, like '1.5 GB')?",
    unit="byte",
    options={
        "parameters": Options(_PARAMETERS, "1", "parameters of the model"),
        "ranks": Options((64, 8, 16, 32, 128, 256), "1", "data-parallel devices"),
        "stage": Options((2, 1, 3), "1", "stage of ZeRO"),
    },
    solve=_zero,
    mistakes=(
        Mistake(
            "unsharded",
            "That is the whole state, or what all {ranks} devices hold together. What does stage {stage} leave on one?",
            (lambda g: _zero(g, ranks=1), lambda g: g["ranks"] * _zero(g)),
        ),
        Mistake(
            "other-stage",
            "That is another stage. Stage 1 divides the optimizer state, stage 2 the gradients as well, stage 3 the "
            "weights as well.",
            (lambda g: _zero(g, g["stage"] % 3 + 1), lambda g: _zero(g, (g["stage"] + 1) % 3 + 1)),
        ),
    ),
    nudge="Per parameter: what is whole on every device, plus what is divided over {ranks}.",
    solution="""\
g = inputs("03.2", seed=SEED)
answer = memory.model_state_memory(g["parameters"], "zero-fp16", f"zero{g['stage']}", g["ranks"]).total""",
)


# 03.3 hybrid sharding, and what is gathered


def _replicas(g: Inputs) -> float:
    return float(g["devices"] / g["group"])


def _hybrid(g: Inputs, replicas: float | None = None, units: float = 2.0) -> Num:
    rests = memory.hsdp(g["parameters"], 4, 4, 8, g["devices"], _replicas(g) if replicas is None else replicas)
    return rests + memory.gathered_units(g["unit"], 2, units)


_E3 = Exercise(
    id="03.3",
    slug=SLUG,
    title="A replica per node",
    objective=_SHARD,
    points=2,
    prompt="{devices} devices train a model of {parameters} parameters with hybrid sharding: groups of {group} devices "
    "hold one replica each and shard everything inside the group (fp32 weights, gradients and moments, 16 bytes per "
    "parameter). To compute, two units of {unit} parameters are gathered at a time, in bf16. How many bytes does each "
    "device hold for that, activations aside?",
    unit="byte",
    options={
        "parameters": Options((8e9, 13e9, 14e9, 24e9, 32e9), "1", "parameters of the model"),
        "devices": Options((128, 256, 512), "1", "devices"),
        "group": Options((8, 4), "1", "devices that share one replica"),
        "unit": Options((1.0e9, 0.8e9, 1.2e9), "1", "parameters of the largest unit"),
    },
    solve=_hybrid,
    mistakes=(
        Mistake(
            "over-all-devices",
            "You divided by all {devices} devices. A replica is shared inside its group only.",
            (lambda g: _hybrid(g, replicas=1),),
        ),
        Mistake(
            "by-replicas",
            "You divided by the number of replicas. More replicas make no shard smaller: divide by the size of a group.",
            (lambda g: _hybrid(g, replicas=g["group"]),),
        ),
        Mistake(
            "not-gathered",
            "Those are the shards. A layer cannot compute with a shard: add the units that are gathered.",
            (lambda g: _hybrid(g, units=0),),
        ),
        Mistake(
            "one-unit",
            "One unit computes while the next is already being gathered. How many stand there at a time?",
            (lambda g: _hybrid(g, units=1),),
        ),
        Mistake(
            "gathered-in-fp32",
            "The gathered copies are bf16, whatever the shards are kept in.",
            (lambda g: _hybrid(g, units=4),),
        ),
    ),
    nudge="16 bytes per parameter over the size of a group, plus two whole units at 2 bytes per parameter.",
    solution="""\
g = inputs("03.3", seed=SEED)
shards = memory.hsdp(g["parameters"], 4, 4, 8, g["devices"], replicas=g["devices"] / g["group"])
answer = shards + memory.gathered_units(g["unit"], compute_bytes=2)""",
)


# 03.4 activations of a layer

_SHAPES = ((12288, 96), (6144, 64), (8192, 64), (20480, 128), (5120, 40))
_FORMS = (
    "tensor parallelism alone, everything stored",
    "tensor and sequence parallelism, everything stored",
    "tensor and sequence parallelism, attention scores recomputed",
)


def _sizes(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    hidden, heads = chosen["shape"]
    return {"shape": None, "hidden": Given(hidden, "1", "hidden size"), "heads": Given(heads, "1", "attention heads")}


def _layer(g: Inputs, form: int | None = None, element_bytes: float = 2.0) -> Num:
    shape = {"seq": g["seq"], "micro_batch": g["micro_batch"], "hidden": g["hidden"]}
    form = _FORMS.index(g["form"]) if form is None else form
    if form == 2:
        return memory.activation_memory_selective(
            **shape, tp=g["tp"], sequence_shards=g["tp"], element_bytes=element_bytes
        )
    function = memory.activation_memory_sp if form else memory.activation_memory_tp
    return function(**shape, heads=g["heads"], tp=g["tp"], element_bytes=element_bytes)


def _one_device(g: Inputs) -> Num:
    return memory.activation_memory(g["seq"], g["micro_batch"], g["hidden"], g["heads"])


_E4 = Exercise(
    id="03.4",
    slug=SLUG,
    title="What the forward pass leaves behind",
    objective=_ACTIVATIONS,
    points=2,
    prompt="A GPT-like layer (hidden size {hidden}, {heads} heads, an MLP of four times the hidden size, dropout, "
    "scores written to memory) runs on {tp} devices with {form}. A micro-batch has {micro_batch} sequences of {seq} "
    "tokens; activations are 16-bit, masks one byte. How many bytes of activations does each device keep for this "
    "layer (or as text, like '1.5 GB')?",
    unit="byte",
    options={
        "shape": Options(_SHAPES, "", "hidden size and heads"),
        "seq": Options((2048, 3072, 6144), "1", "tokens per sequence"),
        "micro_batch": Options((2, 3), "1", "sequences per micro-batch"),
        "tp": Options((8, 4), "1", "tensor-parallel devices"),
        "form": Options(_FORMS, "", "parallelism and recomputation"),
    },
    derive=_sizes,
    solve=_layer,
    mistakes=(
        Mistake(
            "one-device",
            "That is the layer on one device. What do {tp} devices divide?",
            (_one_device,),
        ),
        Mistake(
            "other-form",
            "That is another combination. Tensor parallelism alone leaves norms, dropouts and inputs whole; sequence "
            "parallelism divides them too; recomputing the scores removes what grows with the square of the sequence.",
            (
                lambda g: _layer(g, (_FORMS.index(g["form"]) + 1) % 3),
                lambda g: _layer(g, (_FORMS.index(g["form"]) + 2) % 3),
            ),
        ),
        Mistake(
            "full-recompute",
            "That is full recomputation, which keeps the layer's input alone.",
            (lambda g: memory.activation_memory_full(g["seq"], g["micro_batch"], g["hidden"]),),
        ),
    ),
    nudge="In units of sequence x batch x hidden: 10 bytes outside the split matrices, 24 inside, 5 x heads x sequence "
    "/ hidden for the scores. Which of them are divided by {tp}, and which are kept at all?",
    solution="""\
g = inputs("03.4", seed=SEED)
shape = g["seq"], g["micro_batch"], g["hidden"]
if "recomputed" in g["form"]:
    answer = memory.activation_memory_selective(*shape, tp=g["tp"], sequence_shards=g["tp"])
elif "sequence" in g["form"]:
    answer = memory.activation_memory_sp(*shape, g["heads"], g["tp"])
else:
    answer = memory.activation_memory_tp(*shape, g["heads"], g["tp"])""",
)


# 03.5 the first pipeline stage


def _stage(g: Inputs, **changed: float) -> Num:
    arguments = {name: g[name] for name in ("layer_bytes", "layers", "pp", "virtual_stages", "micro_batches")}
    return memory.activation_memory_pipeline(**(arguments | changed))


_E5 = Exercise(
    id="03.5",
    slug=SLUG,
    title="The first stage waits",
    objective=_ACTIVATIONS,
    points=2,
    prompt="A model of {layers} layers runs on {pp} pipeline stages with the interleaved 1F1B schedule, "
    "{virtual_stages} chunks per stage and {micro_batches} micro-batches per step. One layer keeps {layer_bytes} of "
    "activations per micro-batch and device. How many bytes of activations does the first stage hold at its peak?",
    unit="byte",
    options={
        "layers": Options((96, 144, 192), "1", "layers of the model"),
        "pp": Options((8, 4), "1", "pipeline stages"),
        "virtual_stages": Options((3, 2, 6), "1", "chunks per stage"),
        "micro_batches": Options((64, 128), "1", "micro-batches per step"),
        "layer_bytes": Options((100e6, 150e6, 250e6), "byte", "activations of one layer"),
    },
    solve=_stage,
    mistakes=(
        Mistake(
            "one-micro-batch",
            "Those are the layers of one stage for one micro-batch. How many micro-batches have gone forward before the "
            "first comes back?",
            (lambda g: _stage(g, virtual_stages=1, micro_batches=1),),
        ),
        Mistake(
            "plain-1f1b",
            "That is plain 1F1B. Interleaving keeps more chunks in flight: pp x v + pp - 1 of them.",
            (lambda g: _stage(g, virtual_stages=1),),
        ),
        Mistake(
            "all-micro-batches",
            "That holds every micro-batch of the step, as GPipe does. 1F1B starts to free as soon as the first comes "
            "back.",
            (lambda g: g["layer_bytes"] * g["layers"] / g["pp"] * g["micro_batches"],),
        ),
        Mistake(
            "factor-without-chunks",
            "Close to it: the share on top is (pp - 1) chunks out of pp x v. You divided by pp alone.",
            (lambda g: g["layer_bytes"] * g["layers"] * (1 + (g["pp"] - 1) / g["pp"]),),
        ),
    ),
    nudge="A chunk has layers / (pp x v) layers. How many chunks are in flight on the first stage?",
    solution="""\
g = inputs("03.5", seed=SEED)
answer = memory.activation_memory_pipeline(
    g["layer_bytes"], g["layers"], g["pp"], g["virtual_stages"], g["micro_batches"]
)""",
)


# 03.6 the key-value cache

_ATTENTIONS = ((80, 64, 8), (32, 32, 8), (60, 56, 8), (36, 32, 4), (64, 64, 4))


def _attention(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    layers, heads, kv_heads = chosen["attention"]
    return {
        "attention": None,
        "layers": Given(layers, "1", "layers"),
        "heads": Given(heads, "1", "query heads"),
        "kv_heads": Given(kv_heads, "1", "key-value heads"),
    }


def _cache(g: Inputs, **changed: float) -> Num:
    arguments = {"layers": g["layers"], "batch": g["batch"], "tokens": g["tokens"], "kv_heads": g["kv_heads"]}
    return memory.kv_cache(**(arguments | {"head_dim": 128.0} | changed))


_E6 = Exercise(
    id="03.6",
    slug=SLUG,
    title="How much does a conversation weigh?",
    objective=_CACHE,
    points=2,
    prompt="A model has {layers} layers, {heads} query heads and {kv_heads} key-value heads of size 128. It serves "
    "{batch} sequences of {tokens} tokens at once, with a bf16 cache. How many bytes is the cache (or as text, like "
    "'1.5 GB')?",
    unit="byte",
    options={
        "attention": Options(_ATTENTIONS, "", "layers, heads, key-value heads"),
        "batch": Options((16, 12, 24, 48), "1", "sequences at once"),
        "tokens": Options((8192, 4096, 16384, 32768), "1", "tokens per sequence"),
    },
    derive=_attention,
    solve=_cache,
    mistakes=(
        Mistake(
            "query-heads",
            "You counted the query heads. Queries are never cached; only {kv_heads} heads have keys and values.",
            (lambda g: _cache(g, kv_heads=g["heads"]),),
        ),
        Mistake(
            "half",
            "You have half of it. Two slips do that: keys without values, or one byte for a bf16 element.",
            (lambda g: _cache(g, element_bytes=1.0),),
        ),
        Mistake(
            "one-layer",
            "That is one layer. Each of the {layers} layers has a cache of its own.",
            (lambda g: _cache(g, layers=1),),
        ),
        Mistake("one-sequence", "That is one sequence. {batch} are served at once.", (lambda g: _cache(g, batch=1),)),
    ),
    nudge="Keys and values, for every layer, sequence, token, key-value head and channel, two bytes each.",
    solution="""\
g = inputs("03.6", seed=SEED)
answer = memory.kv_cache(g["layers"], g["batch"], g["tokens"], g["kv_heads"], head_dim=128)""",
)


# 03.7 a sliding window


def _windowed(g: Inputs, full: float | None = None, window_layers: float | None = None) -> Num:
    return memory.kv_cache_window(
        g["full_layers"] if full is None else full,
        g["window_layers"] if window_layers is None else window_layers,
        g["window"],
        g["batch"],
        g["tokens"],
        kv_heads=8,
        head_dim=128,
    )


_E7 = Exercise(
    id="03.7",
    slug=SLUG,
    title="Looking back over a window",
    objective=_CACHE,
    points=1,
    prompt="A model with 8 key-value heads of size 128 has {full_layers} layers that attend to everything and "
    "{window_layers} that look back over {window} tokens, with a rolling buffer. How many bytes is its bf16 cache for "
    "{batch} sequences of {tokens} tokens?",
    unit="byte",
    options={
        "full_layers": Options((6, 8, 12), "1", "layers that keep every token"),
        "window_layers": Options((30, 24, 40), "1", "layers with a window"),
        "window": Options((1024, 4096, 2048), "1", "tokens in the window"),
        "batch": Options((4, 3, 7), "1", "sequences at once"),
        "tokens": Options((32768, 65536, 131072), "1", "tokens per sequence"),
    },
    solve=_windowed,
    mistakes=(
        Mistake(
            "no-window",
            "You kept every token in every layer. {window_layers} layers overwrite what left their window.",
            (lambda g: memory.kv_cache(g["full_layers"] + g["window_layers"], g["batch"], g["tokens"], 8, 128),),
        ),
        Mistake(
            "all-windowed",
            "You gave every layer a window. {full_layers} of them keep every token.",
            (lambda g: _windowed(g, full=0, window_layers=g["full_layers"] + g["window_layers"]),),
        ),
        Mistake(
            "only-full",
            "You left the window layers out. They still keep {window} tokens each.",
            (lambda g: _windowed(g, window_layers=0),),
        ),
    ),
    nudge="Count the tokens that are kept in each kind of layer first; then two times heads, size and bytes.",
    solution="""\
g = inputs("03.7", seed=SEED)
answer = memory.kv_cache_window(
    g["full_layers"], g["window_layers"], g["window"], g["batch"], g["tokens"], kv_heads=8, head_dim=128
)""",
)


# 03.8 a latent, in blocks


def _latent(g: Inputs, block: int | None = None, rope: int | None = None) -> Num:
    token = memory.kv_cache_mla(g["layers"], 1, 1, g["rank"], g["rope"] if rope is None else rope)
    return memory.kv_cache_paged(g["tokens"], g["block"] if block is None else block, g["batch"], token)


_E8 = Exercise(
    id="03.8",
    slug=SLUG,
    title="A latent in blocks",
    objective=_CACHE,
    points=2,
    prompt="Multi-head latent attention caches, per token and layer, a latent of {rank} numbers and one rotary key of "
    "{rope}. The model has {layers} layers, the cache is bf16 and is handed out in blocks of {block} tokens. How many "
    "bytes do {batch} sequences of {tokens} tokens take?",
    unit="byte",
    options={
        "layers": Options((61, 27, 60), "1", "layers"),
        "rank": Options((512, 448), "1", "size of the latent"),
        "rope": Options((64, 96), "1", "size of the rotary key"),
        "block": Options((64, 128), "1", "tokens per block"),
        "batch": Options((100, 33, 250), "1", "sequences at once"),
        "tokens": Options((330, 200, 290, 1350), "1", "tokens per sequence"),
    },
    solve=_latent,
    mistakes=(
        Mistake(
            "two-times",
            "You counted keys and values. Both are made from the same latent, which is cached once.",
            (lambda g: 2 * _latent(g),),
        ),
        Mistake(
            "no-rotary-key",
            "You left the rotary key out: it carries the position, and is cached beside the latent.",
            (lambda g: _latent(g, rope=0),),
        ),
        Mistake(
            "not-rounded",
            "That is the cache without blocks. A sequence fills whole blocks of {block} tokens, the last one in part.",
            (lambda g: _latent(g, block=1),),
        ),
    ),
    nudge="Bytes per token: layers x (latent + rotary key) x 2. Then round the tokens of each sequence up to blocks.",
    solution="""\
g = inputs("03.8", seed=SEED)
token = memory.kv_cache_mla(g["layers"], 1, 1, g["rank"], g["rope"])
answer = memory.kv_cache_paged(g["tokens"], g["block"], g["batch"], token)""",
)


# 03.9 does it fit


def _run(g: Inputs, **changed: Any) -> memory.TrainingMemory:
    plan = {"seq": g["seq"], "micro_batch": g["micro_batch"], "dp": g["ranks"], "sharding": "fsdp"}
    plan |= {"recipe": "fsdp-mixed", "recompute": "full"}
    return memory.training_memory(g["model"], "H100-SXM5-80GB", **(plan | changed))


_E9 = Exercise(
    id="03.9",
    slug=SLUG,
    title="Will it fit?",
    objective=_FIT,
    points=3,
    prompt="{ranks} GPUs train {model} with FSDP (recipe 'fsdp-mixed': 16 bytes per parameter in fp32, computed in "
    "bf16, two units gathered), micro-batches of {micro_batch} sequences of {seq} tokens, every layer recomputed, "
    "fused attention and MLP, no dropout, 4 bytes per logit. Count the model state, the gathered units, the kept "
    "activations, and the larger of what the loss and a recomputed layer hold. How many bytes does a GPU need at its "
    "peak? Then compare with what the driver of an 80 GB H100 reports, 79.11 GiB.",
    unit="byte",
    options={
        "model": Options(("Llama-3.1-8B", "Llama-3.2-3B", "Qwen2.5-7B"), "", "model of the catalogue"),
        "ranks": Options((16, 24, 32), "1", "data-parallel GPUs"),
        "seq": Options((8192, 16384), "1", "tokens per sequence"),
        "micro_batch": Options((2, 4), "1", "sequences per micro-batch"),
    },
    solve=lambda g: _run(g).total,
    mistakes=(
        Mistake(
            "not-sharded",
            "You kept the whole state on every GPU. FSDP divides it over {ranks}.",
            (lambda g: _run(g, sharding="none").total,),
        ),
        Mistake(
            "not-gathered",
            "You left the gathered units out: a shard cannot compute.",
            (lambda g: _run(g, units_in_flight=0).total,),
        ),
        Mistake(
            "stored",
            "You kept more than the layers' inputs: that is a run without recomputation, or with a milder policy.",
            (lambda g: _run(g, recompute="none").total, lambda g: _run(g, recompute="matmuls").total),
        ),
        Mistake(
            "no-logits",
            "You left the logits out. With a vocabulary of this size they are the largest tensor of the step.",
            (lambda g: _run(g, logit_bytes=0.0).total,),
        ),
        Mistake(
            "both-loads",
            "The loss and a recomputed layer never stand side by side: the logits are gone before the first layer runs "
            "again. Take the larger one.",
            (lambda g: _run(g).total + _run(g).recomputed,),
        ),
    ),
    nudge="Five numbers: 16 bytes per parameter over {ranks}, two units in bf16, 2 bytes per channel and layer of every "
    "token, the logits, and one layer's activations. The last two do not stand side by side.",
    solution="""\
g = inputs("03.9", seed=SEED)
plan = memory.training_memory(
    g["model"], "H100", seq=g["seq"], micro_batch=g["micro_batch"], dp=g["ranks"], sharding="fsdp",
    recipe="fsdp-mixed", recompute="full",
)
answer = plan.total""",
)


# 03.10 a published checkpoint


def _claimed(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    return {"claimed": Given(2 * chosen["parameters"], "byte", "what the page says a checkpoint weighs")}


def _resumable(g: Inputs, **changed: float) -> Num:
    parts = {"weight_bytes": 2.0, "master_bytes": 4.0, "momentum_bytes": 4.0, "variance_bytes": 4.0}
    return memory.checkpoint_bytes(g["parameters"], **(parts | changed))


_E10 = Exercise(
    id="03.10",
    slug=SLUG,
    title="Is that a checkpoint?",
    objective=_FIT,
    points=1,
    prompt="A page says that training a model of {parameters} parameters writes checkpoints of {claimed}. Training can "
    "only go on from a checkpoint that holds the bf16 weights, the fp32 master weights and both moments of Adam in "
    "fp32. How many bytes is that? Then judge the page.",
    unit="byte",
    options={"parameters": Options(tuple(float(n) * 1e9 for n in range(30, 110, 2)), "1", "parameters of the model")},
    derive=_claimed,
    solve=_resumable,
    mistakes=(
        Mistake(
            "weights-only",
            "Those are the 16-bit weights, good for serving. Where would the optimizer go on from?",
            (lambda g: g["claimed"],),
        ),
        Mistake(
            "with-gradients",
            "You wrote the gradients too. Between two steps nobody needs their values, whether or not their memory is kept.",
            (lambda g: _resumable(g) + 2 * g["parameters"], lambda g: _resumable(g) + 4 * g["parameters"]),
        ),
        Mistake(
            "one-moment",
            "Something is missing: two moments, the master weights and the 16-bit weights.",
            (lambda g: _resumable(g, variance_bytes=0.0), lambda g: _resumable(g, weight_bytes=0.0)),
        ),
    ),
    nudge="One line per component that is written, in bytes per parameter; add, and multiply.",
    solution="""\
g = inputs("03.10", seed=SEED)
answer = memory.checkpoint_bytes(g["parameters"], 2, 4, 4, 4)""",
)

EXERCISES = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10)
