"""Chapter 05, splitting a model: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import collectives, parallelism
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "05-parallelism"
_FIT = "Fit the degrees of a plan to devices, experts and batch."
_WAIT = "Compute how long a pipeline waits, in both bases, interleaved and with unequal stages."
_PLACE = "Say which traffic leaves the scale-up domain, and what that costs."
_BYTES = "Count the bytes that each way of splitting moves."
_JUDGE = "Judge a rule of thumb against the cost it stands for."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_FIT, "05.1"),
    (_WAIT, "05.3"),
    (_PLACE, "05.6"),
    (_BYTES, "05.7"),
    (_JUDGE, "05.11"),
)

_BF16 = 2  # bytes
_PERCENT = "That is the percentage taken as a plain number. Write the fraction, or text with a % sign."


# 05.1 and 05.2 degrees


def _replicas(g: Inputs) -> Num:
    """Data-parallel degree: the devices over those of one replica."""
    return g["devices"] / parallelism.devices(g["tp"], g["pp"], g["cp"], 1)


def _micro_batches(g: Inputs, dp: float | None = None, micro_batch: float | None = None) -> Num:
    dp = _replicas(g) if dp is None else dp
    return parallelism.micro_batches(g["global_batch"], dp, g["micro_batch"] if micro_batch is None else micro_batch)


_E1 = Exercise(
    id="05.1",
    slug=SLUG,
    title="How many micro-batches?",
    objective=_FIT,
    points=2,
    prompt="A mixture of experts trains on {devices} devices with TP {tp}, PP {pp}, CP {cp} and EP {ep}, the experts "
    "nested in the data-parallel ranks. A step takes {global_batch} sequences, a micro-batch {micro_batch}. How many "
    "micro-batches does each replica work through in a step?",
    unit="1",
    options={
        "devices": Options((1024, 2048), "1", "devices of the job"),
        "tp": Options((4, 8), "1", "tensor-parallel degree"),
        "pp": Options((4, 8), "1", "pipeline stages"),
        "cp": Options((2,), "1", "context-parallel degree"),
        "ep": Options((4,), "1", "expert-parallel degree"),
        "global_batch": Options((1792, 2816, 2304, 3328), "1", "sequences per step"),
        "micro_batch": Options((2,), "1", "sequences per micro-batch"),
    },
    solve=_micro_batches,
    mistakes=(
        Mistake(
            "experts-take-devices",
            "You divided the devices by EP as well. Nested experts live on the data-parallel ranks: they multiply no "
            "devices, and every rank still has its own part of the batch.",
            (lambda g: _micro_batches(g, dp=_replicas(g) / g["ep"]),),
        ),
        Mistake(
            "context-forgotten",
            "You counted the ranks of a context-parallel group as replicas. They share one sequence: divide by CP too.",
            (lambda g: _micro_batches(g, dp=_replicas(g) * g["cp"]),),
        ),
        Mistake(
            "micro-batch-forgotten",
            "That is the number of sequences per replica. A micro-batch holds more than one.",
            (lambda g: _micro_batches(g, micro_batch=1),),
        ),
        Mistake(
            "one-replica",
            "You gave the whole batch to one replica. The data-parallel replicas share it.",
            (lambda g: _micro_batches(g, dp=1),),
        ),
    ),
    nudge="First the data-parallel degree: devices over TP x PP x CP. Then the batch over that degree and over the "
    "micro-batch.",
    solution="""\
g = inputs("05.1", seed=SEED)
dp = g["devices"] / parallelism.devices(g["tp"], g["pp"], g["cp"], 1)
answer = parallelism.micro_batches(g["global_batch"], dp, g["micro_batch"])""",
)


def _copies(g: Inputs, factor: float = 1.0) -> Num:
    return factor * parallelism.expert_replicas(g["devices"], g["tp"], g["pp"], g["ep"])


_E2 = Exercise(
    id="05.2",
    slug=SLUG,
    title="Who shares an expert?",
    objective=_FIT,
    points=1,
    prompt="A mixture of experts trains on {devices} devices with TP {tp}, PP {pp}, CP {cp} and EP {ep}, the experts "
    "nested in the data- and context-parallel ranks and cut by TP. Over how many ranks are the gradients of one "
    "expert averaged?",
    unit="1",
    options={
        "devices": Options((3072, 4608, 6144, 3584, 6656, 5632, 8704, 9728), "1", "devices of the job"),
        "tp": Options((2,), "1", "tensor-parallel degree"),
        "pp": Options((4, 8), "1", "pipeline stages"),
        "cp": Options((2,), "1", "context-parallel degree"),
        "ep": Options((8, 16), "1", "expert-parallel degree"),
    },
    solve=_copies,
    mistakes=(
        Mistake(
            "dense-replicas",
            "That is the data-parallel degree of the dense layers. An expert has fewer copies: EP ranks hold different "
            "ones.",
            (lambda g: _copies(g, g["ep"] / g["cp"]),),
        ),
        Mistake(
            "context-divided",
            "You divided by CP. The ranks of a context-parallel group see different tokens, so they can hold different "
            "experts or copies of one; both count.",
            (lambda g: _copies(g, 1 / g["cp"]),),
        ),
    ),
    nudge="CP x DP ranks hold the same dense weights. How many of them hold the same expert?",
    solution="""\
g = inputs("05.2", seed=SEED)
answer = parallelism.expert_replicas(g["devices"], g["tp"], g["pp"], g["ep"])""",
)


# 05.3 to 05.5 waiting


def _bubble(g: Inputs) -> Num:
    return parallelism.bubble_fraction(g["pp"], g["micro_batches"], g["virtual_stages"])


_E3 = Exercise(
    id="05.3",
    slug=SLUG,
    title="How much of the step is bubble?",
    objective=_WAIT,
    points=2,
    prompt="A pipeline of {pp} equal stages works through {micro_batches} micro-batches a step, interleaved with "
    "{virtual_stages} model chunks per device. Transfers are hidden. Which share of the **whole** step does a device "
    "wait (a fraction, or text like '25 %')?",
    unit="1",
    options={
        "pp": Options((8, 12, 16), "1", "pipeline stages"),
        "micro_batches": Options((16, 20, 24, 28), "1", "micro-batches per step"),
        "virtual_stages": Options((2, 3, 5), "1", "model chunks per device"),
    },
    solve=_bubble,
    mistakes=(
        Mistake(
            "over-ideal",
            "That is the waiting time over the ideal time. The question asks for its share of the whole step, which is "
            "longer than the ideal one: r/(1 + r).",
            (lambda g: parallelism.bubble_ratio(g["pp"], g["micro_batches"], g["virtual_stages"]),),
        ),
        Mistake(
            "not-interleaved",
            "That is the bubble without interleaving. With {virtual_stages} chunks per device the pipeline fills that "
            "many times faster.",
            (lambda g: parallelism.bubble_fraction(g["pp"], g["micro_batches"]),),
        ),
        Mistake(
            "over-ideal-not-interleaved",
            "Two things: the base is the whole step, not the ideal time, and interleaving shortens the filling.",
            (lambda g: parallelism.bubble_ratio(g["pp"], g["micro_batches"]),),
        ),
        Mistake(
            "percent",
            _PERCENT,
            (lambda g: 100 * _bubble(g),),
        ),
    ),
    nudge="Filling and draining cost P - 1 steps of one chunk; the work is V m such steps. Which share of both together "
    "is the waiting?",
    solution="""\
g = inputs("05.3", seed=SEED)
answer = parallelism.bubble_fraction(g["pp"], g["micro_batches"], g["virtual_stages"])""",
)


def _fullest(g: Inputs) -> int:
    return int(-(-g["layers"] // g["pp"]))


def _uneven(g: Inputs) -> Num:
    held = _fullest(g)
    return parallelism.pipeline_time(held * g["layer_time"], (g["layers"] - held) * g["layer_time"], g["micro_batches"])


_E4 = Exercise(
    id="05.4",
    slug=SLUG,
    title="The slowest stage",
    objective=_WAIT,
    points=2,
    prompt="{layers} equal layers are spread over {pp} pipeline stages as evenly as whole layers allow. One layer takes "
    "{layer_time} per micro-batch, forward and backward together; nothing else costs time. How long does a step of "
    "{micro_batches} micro-batches take with GPipe (in seconds, or text like '1.5 s')?",
    unit="s",
    options={
        "layers": Options((100, 70, 68, 52), "1", "layers of the model"),
        "pp": Options((16,), "1", "pipeline stages"),
        "layer_time": Options((3e-3, 4e-3, 7e-3), "s", "forward and backward time of one layer and micro-batch"),
        "micro_batches": Options((32, 24, 48), "1", "micro-batches per step"),
    },
    solve=_uneven,
    mistakes=(
        Mistake(
            "average-stage",
            "You gave every stage the average number of layers. Layers come whole, and the fullest stage sets the beat.",
            (lambda g: g["layers"] / g["pp"] * g["layer_time"] * (g["micro_batches"] + g["pp"] - 1),),
        ),
        Mistake(
            "all-slowest",
            "You let every stage be as slow as the fullest one. That is right for the beat, but a micro-batch passes "
            "each stage once at that stage's own speed while the pipeline fills.",
            (lambda g: _fullest(g) * g["layer_time"] * (g["micro_batches"] + g["pp"] - 1),),
        ),
        Mistake(
            "no-filling",
            "That is the fullest stage's own work. The pipeline has to fill and drain as well.",
            (lambda g: _fullest(g) * g["layer_time"] * g["micro_batches"],),
        ),
    ),
    nudge="The fullest stage works through all micro-batches; filling and draining add every other stage once.",
    solution="""\
g = inputs("05.4", seed=SEED)
fullest = -(-g["layers"] // g["pp"])
others = (g["layers"] - fullest) * g["layer_time"]
answer = parallelism.pipeline_time(fullest * g["layer_time"], others, g["micro_batches"])""",
)


def _split(g: Inputs) -> Num:
    return parallelism.split_backward_bubble(g["pp"], g["forward"], g["backward_input"], g["backward_weight"])


_E5 = Exercise(
    id="05.5",
    slug=SLUG,
    title="Work for the drain",
    objective=_WAIT,
    points=1,
    prompt="On each of {pp} equal stages a micro-batch takes {forward} forward, {backward_input} for the gradient of its "
    "input and {backward_weight} for that of its weights. The schedule ZB-H1 puts the weight gradients off and drains "
    "the pipeline with them. How long does a device still wait in a step?",
    unit="s",
    options={
        "pp": Options((8, 12, 16), "1", "pipeline stages"),
        "forward": Options((10e-3, 12e-3, 14e-3), "s", "forward time per micro-batch and stage"),
        "backward_input": Options((13e-3, 15e-3), "s", "time of the input's gradient"),
        "backward_weight": Options((9e-3, 8e-3), "s", "time of the weights' gradient"),
    },
    solve=_split,
    mistakes=(
        Mistake(
            "plain",
            "That is the bubble of plain 1F1B, where a stage waits for the whole backward pass of the next one.",
            (lambda g: (g["pp"] - 1) * (g["forward"] + g["backward_input"] + g["backward_weight"]),),
        ),
        Mistake(
            "weights-only-left-out",
            "You took the weight gradients out of the chain. They also fill the time that is left: subtract them once "
            "more.",
            (lambda g: (g["pp"] - 1) * (g["forward"] + g["backward_input"]),),
        ),
        Mistake(
            "one-stage-too-many",
            "The first micro-batch has to pass P - 1 other stages, not P.",
            (lambda g: g["pp"] * (g["forward"] + g["backward_input"] - g["backward_weight"]),),
        ),
    ),
    nudge="Per other stage: forward plus the input's gradient, less the weight gradients that fill the gap.",
    solution="""\
g = inputs("05.5", seed=SEED)
answer = parallelism.split_backward_bubble(g["pp"], g["forward"], g["backward_input"], g["backward_weight"])""",
)


# 05.6 placement


def _gradient_time(g: Inputs) -> Num:
    here = parallelism.placement(parallelism.Plan(tp=g["tp"], dp=g["dp"]), g["domain"])
    return collectives.hierarchical_all_reduce(
        g["message"], here.inside["dp"], here.domains["dp"], g["node_bandwidth"], g["network_bandwidth"]
    )


_E6 = Exercise(
    id="05.6",
    slug=SLUG,
    title="Which link?",
    objective=_PLACE,
    points=3,
    prompt="Nodes of {domain} devices: {node_bandwidth} per device and direction inside, {network_bandwidth} per device "
    "outside. A plan of TP {tp} (neighbouring ranks) and DP {dp} adds up {message} of gradients per device over its "
    "data-parallel group, hierarchically: reduce-scatter inside the node, all-reduce between nodes, all-gather inside. "
    "Rings, no latency. How long does that take?",
    unit="s",
    options={
        "domain": Options((8,), "1", "devices of a scale-up domain"),
        "node_bandwidth": Options((450e9, 300e9), "byte/s", "inside, per device and one way"),
        "network_bandwidth": Options((50e9, 25e9), "byte/s", "outside, per device and one way"),
        "tp": Options((2, 4), "1", "tensor-parallel degree"),
        "dp": Options((64, 128, 256), "1", "data-parallel degree"),
        "message": Options((4e9, 7e9, 10e9), "byte", "gradients of a device"),
    },
    solve=_gradient_time,
    mistakes=(
        Mistake(
            "all-inside",
            "You sent everything over the fast link. Tensor parallelism takes places in the node, so most of a "
            "data-parallel group is elsewhere.",
            (lambda g: collectives.ring_all_reduce(g["message"], g["dp"], g["node_bandwidth"]),),
        ),
        Mistake(
            "all-outside",
            "You sent everything over the network. Some ranks of the group share a node: how many places does tensor "
            "parallelism leave them?",
            (lambda g: collectives.ring_all_reduce(g["message"], g["dp"], g["network_bandwidth"]),),
        ),
        Mistake(
            "node-full-of-replicas",
            "You placed a whole node's worth of the data-parallel group in each node. Neighbouring ranks belong to the "
            "tensor-parallel group, which takes {tp} places per replica.",
            (
                lambda g: collectives.hierarchical_all_reduce(
                    g["message"], g["domain"], g["dp"] / g["domain"], g["node_bandwidth"], g["network_bandwidth"]
                ),
            ),
        ),
    ),
    nudge="Ranks of one data-parallel group per node: the node's devices over TP. Those reduce inside first; a share of "
    "the message then travels between nodes.",
    solution="""\
g = inputs("05.6", seed=SEED)
here = parallelism.placement(parallelism.Plan(tp=g["tp"], dp=g["dp"]), g["domain"])
answer = collectives.hierarchical_all_reduce(
    g["message"], here.inside["dp"], here.domains["dp"], g["node_bandwidth"], g["network_bandwidth"]
)""",
)


# 05.7 to 05.10 bytes


def _tensor_message(g: Inputs, all_reduces: int = 6, element_bytes: int = _BF16) -> Num:
    return parallelism.tp_allreduce_bytes(g["seq"], 1, g["hidden"], g["layers"], all_reduces, element_bytes)


_E7 = Exercise(
    id="05.7",
    slug=SLUG,
    title="What tensor parallelism sends",
    objective=_BYTES,
    points=2,
    prompt="A stage of {layers} layers with hidden size {hidden} is cut over TP {tp}. One sequence of {seq} tokens "
    "passes forward and backward in bf16, with **full** recompute. How many bytes does each device send in its "
    "all-reduces (rings), as in '1.5 GB'?",
    unit="byte",
    options={
        "layers": Options((6, 8, 12), "1", "layers of the stage"),
        "hidden": Options((8192, 12288, 5120), "1", "hidden size"),
        "tp": Options((8, 16), "1", "tensor-parallel degree"),
        "seq": Options((4096, 2048), "1", "tokens"),
    },
    solve=lambda g: parallelism.tp_volume(_tensor_message(g), g["tp"]),
    mistakes=(
        Mistake(
            "recompute-forgotten",
            "Four all-reduces per layer are right without recompute. Running the forward pass again runs its "
            "all-reduces again.",
            (lambda g: parallelism.tp_volume(_tensor_message(g, all_reduces=4), g["tp"]),),
        ),
        Mistake(
            "half",
            "You have half of it. An all-reduce is a reduce-scatter **and** an all-gather, and a bf16 element has two "
            "bytes: one of the two is missing.",
            (lambda g: parallelism.tp_volume(_tensor_message(g, element_bytes=1), g["tp"]),),
        ),
        Mistake(
            "message",
            "That is what is added up. A device of a ring sends 2 (TP - 1)/TP times as much.",
            (_tensor_message,),
        ),
        Mistake(
            "group-of-infinity",
            "That is the limit for a very large group. With TP {tp} a device keeps its own part of the message.",
            (lambda g: 2 * _tensor_message(g),),
        ),
    ),
    nudge="All-reduces per layer x layers x tokens x hidden x bytes, and then the ring's 2 (TP - 1)/TP.",
    solution="""\
g = inputs("05.7", seed=SEED)
message = parallelism.tp_allreduce_bytes(g["seq"], 1, g["hidden"], g["layers"], all_reduces=6)
answer = parallelism.tp_volume(message, g["tp"])""",
)


def _gradients(g: Inputs, tp: int | None = None, pp: int | None = None, grad_bytes: int = 4) -> Num:
    return parallelism.dp_gradient_bytes(
        g["parameters"], g["tp"] if tp is None else tp, g["pp"] if pp is None else pp, grad_bytes
    )


_E8 = Exercise(
    id="05.8",
    slug=SLUG,
    title="Whose gradients?",
    objective=_BYTES,
    points=1,
    prompt="A model of {parameters} parameters is cut over TP {tp} and PP {pp} and replicated by plain data "
    "parallelism. Gradients are added up in FP32. How large is the message that one device all-reduces per step?",
    unit="byte",
    options={
        "parameters": Options((175e9, 70e9, 405e9, 530e9), "1", "parameters of the model"),
        "tp": Options((8, 4), "1", "tensor-parallel degree"),
        "pp": Options((16, 12, 10, 6), "1", "pipeline stages"),
    },
    solve=_gradients,
    mistakes=(
        Mistake(
            "pipeline-forgotten",
            "You divided by TP alone. A device holds the layers of its own pipeline stage and reduces only theirs.",
            (lambda g: _gradients(g, pp=1),),
        ),
        Mistake(
            "tensor-forgotten",
            "You divided by PP alone. Within a stage each device holds one TP-th of every matrix.",
            (lambda g: _gradients(g, tp=1),),
        ),
        Mistake(
            "whole-model",
            "Those are the gradients of the whole model. A device holds its own shard of them.",
            (lambda g: _gradients(g, tp=1, pp=1),),
        ),
        Mistake(
            "half",
            "That is the size in BF16. An FP32 gradient has four bytes.",
            (lambda g: _gradients(g, grad_bytes=2),),
        ),
    ),
    nudge="Parameters on one device, times the bytes of one gradient.",
    solution="""\
g = inputs("05.8", seed=SEED)
answer = parallelism.dp_gradient_bytes(g["parameters"], g["tp"], g["pp"], grad_bytes=4)""",
)


def _sharded(g: Inputs, micro_batches: int | None = None, gathers: int = 2, grad_bytes: int = _BF16) -> Num:
    m = g["micro_batches"] if micro_batches is None else micro_batches
    return parallelism.fsdp_bytes(g["parameters"], g["ranks"], m, gathers, grad_bytes=grad_bytes)


_E9 = Exercise(
    id="05.9",
    slug=SLUG,
    title="The price of sharding the weights",
    objective=_BYTES,
    points=2,
    prompt="FSDP shards a model of {parameters} parameters over {ranks} devices. Weights and gradients travel in bf16; "
    "weights are gathered for the forward pass, freed, gathered again for the backward pass, and every one of the "
    "{micro_batches} micro-batches of a step does all of it, reduction included. How many bytes does a device send?",
    unit="byte",
    options={
        "parameters": Options((7e9, 13e9, 34e9), "1", "parameters of the model"),
        "ranks": Options((8, 16, 12), "1", "devices that share one copy"),
        "micro_batches": Options((5, 4, 7, 9), "1", "micro-batches per step"),
    },
    solve=_sharded,
    mistakes=(
        Mistake(
            "two-trips",
            "Two thirds of it. Weights are gathered twice, because they are freed after the forward pass, and gradients "
            "are reduced once: three trips, and one of yours is missing.",
            (lambda g: _sharded(g, gathers=1), lambda g: _sharded(g, grad_bytes=0)),
        ),
        Mistake(
            "once-per-step",
            "That is one micro-batch. Without caching, each of the {micro_batches} gathers and reduces anew.",
            (lambda g: _sharded(g, micro_batches=1),),
        ),
        Mistake(
            "own-shard-sent",
            "A device does not send its own shard to itself: of {ranks} shards it moves all but one.",
            (lambda g: _sharded(g) * g["ranks"] / (g["ranks"] - 1),),
        ),
    ),
    nudge="Two all-gathers of the weights and one reduce-scatter of the gradients, each (n - 1)/n of the whole, per "
    "micro-batch.",
    solution="""\
g = inputs("05.9", seed=SEED)
answer = parallelism.fsdp_bytes(g["parameters"], g["ranks"], g["micro_batches"])""",
)


def _ring_over_pipe(
    g: Inputs, heads: float | None = None, passes: int = 3, directions: int = 2, whole: bool = False
) -> Num:
    """Bytes of the key-value ring over those of the pipeline, for one micro-batch of one sequence."""
    ring = parallelism.cp_exchange_bytes(
        g["seq"], 1, g["kv_heads"] if heads is None else heads, g["head_dim"], g["layers"], g["cp"], passes
    )
    tokens = g["seq"] if whole else g["seq"] / g["cp"]
    return ring / parallelism.pp_transfer_bytes(tokens, 1, g["hidden"], 1, directions=directions)


_E10 = Exercise(
    id="05.10",
    slug=SLUG,
    title="Ring against pipe",
    objective=_BYTES,
    points=3,
    prompt="A stage in the middle of a pipeline holds {layers} layers: {heads} query heads, {kv_heads} key-value heads "
    "of size {head_dim}, hidden size {hidden}, no tensor parallelism. A sequence of {seq} tokens is cut over CP {cp}; "
    "all in bf16. For one micro-batch of one sequence, forward and backward: how many times the bytes that a device "
    "sends along the pipeline does it send round its key-value ring?",
    unit="1",
    options={
        "layers": Options((7, 9, 11), "1", "layers of the stage"),
        "heads": Options((64, 96), "1", "query heads"),
        "kv_heads": Options((8, 16), "1", "key-value heads"),
        "head_dim": Options((128,), "1", "size of a head"),
        "hidden": Options((8192, 12288), "1", "hidden size"),
        "seq": Options((131072,), "1", "tokens of the sequence"),
        "cp": Options((16, 10, 6), "1", "context-parallel degree"),
    },
    solve=_ring_over_pipe,
    mistakes=(
        Mistake(
            "query-heads",
            "You sent the query heads round. Queries stay where they are; only keys and values travel.",
            (lambda g: _ring_over_pipe(g, heads=g["heads"]),),
        ),
        Mistake(
            "forward-only",
            "You counted the ring's forward pass only. Backward the blocks go round again, and so do their gradients.",
            (lambda g: _ring_over_pipe(g, passes=1),),
        ),
        Mistake(
            "no-gradients",
            "You sent keys and values round twice, and left out their gradients, which travel with them backward.",
            (lambda g: _ring_over_pipe(g, passes=2),),
        ),
        Mistake(
            "whole-sequence",
            "You sent the whole sequence along the pipeline. Each context-parallel rank sends its own part.",
            (lambda g: _ring_over_pipe(g, whole=True),),
        ),
        Mistake(
            "pipe-forward-only",
            "Along the pipeline activations go forward and their gradients come back: two transfers.",
            (lambda g: _ring_over_pipe(g, directions=1),),
        ),
    ),
    nudge="Ring: 3 passes x 2 tensors x layers x tokens x key-value heads x head size x (CP - 1)/CP. Pipe: 2 directions "
    "x tokens/CP x hidden.",
    solution="""\
g = inputs("05.10", seed=SEED)
ring = parallelism.cp_exchange_bytes(g["seq"], 1, g["kv_heads"], g["head_dim"], g["layers"], g["cp"])
pipe = parallelism.pp_transfer_bytes(g["seq"] / g["cp"], 1, g["hidden"], 1)
answer = ring / pipe""",
)


# 05.11 the rule of thumb


def _thumb(g: Inputs, penalty: float | None = None, bubble: float | None = None) -> Num:
    """Scaling efficiency after the fixed penalty."""
    waiting = parallelism.bubble_ratio(g["pp"], g["micro_batches"]) * g["compute"] if bubble is None else bubble
    efficiency = parallelism.scaling_efficiency(g["compute"], g["dp_time"], g["tp_time"], waiting)
    step = g["compute"] / efficiency
    return g["compute"] / parallelism.penalised_step(step, 1, g["penalty"] if penalty is None else penalty)


_E11 = Exercise(
    id="05.11",
    slug=SLUG,
    title="A rule of thumb on top",
    objective=_JUDGE,
    points=2,
    prompt="A device computes {compute} per step in a pipeline of {pp} equal stages with {micro_batches} micro-batches. "
    "{dp_time} of data-parallel and {tp_time} of tensor-parallel communication hide behind nothing, all measured with "
    "TP inside the node. Now TP leaves the node, and a rule of thumb multiplies the step by {penalty}. Which scaling "
    "efficiency is left (a fraction, or text like '25 %')?",
    unit="1",
    options={
        "compute": Options((6.0, 8.0), "s", "computing time per step"),
        "pp": Options((8, 12), "1", "pipeline stages"),
        "micro_batches": Options((32, 64), "1", "micro-batches per step"),
        "dp_time": Options((0.3, 0.5), "s", "data-parallel time that nothing hides"),
        "tp_time": Options((0.6, 0.9), "s", "tensor-parallel time that nothing hides"),
        "penalty": Options((1.4,), "1", "factor of the rule"),
    },
    solve=_thumb,
    mistakes=(
        Mistake(
            "penalty-forgotten",
            "That is the efficiency inside the node. The rule makes the whole step {penalty} times as long.",
            (lambda g: _thumb(g, penalty=1.0),),
        ),
        Mistake(
            "penalty-on-efficiency",
            "You subtracted {penalty} - 1 of the efficiency. A step that is {penalty} times as long divides it.",
            (lambda g: _thumb(g, penalty=1.0) * (2 - g["penalty"]),),
        ),
        Mistake(
            "penalty-on-communication",
            "You made only the tensor-parallel time longer. That would be a derived cost; the rule multiplies the whole "
            "step.",
            (
                lambda g: parallelism.scaling_efficiency(
                    g["compute"],
                    g["dp_time"],
                    g["penalty"] * g["tp_time"],
                    parallelism.bubble_ratio(g["pp"], g["micro_batches"]) * g["compute"],
                ),
            ),
        ),
        Mistake(
            "bubble-forgotten",
            "The pipeline waits too: (P - 1)/m of the computing time.",
            (lambda g: _thumb(g, bubble=0.0),),
        ),
        Mistake("percent", _PERCENT, (lambda g: 100 * _thumb(g),)),
    ),
    nudge="Step = (compute + what nothing hides + bubble) x the rule's factor; the efficiency is compute over that.",
    solution="""\
g = inputs("05.11", seed=SEED)
bubble = parallelism.bubble_ratio(g["pp"], g["micro_batches"]) * g["compute"]
efficiency = parallelism.scaling_efficiency(g["compute"], g["dp_time"], g["tp_time"], bubble)
answer = g["compute"] / parallelism.penalised_step(g["compute"] / efficiency, 1, g["penalty"])""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10, _E11)
