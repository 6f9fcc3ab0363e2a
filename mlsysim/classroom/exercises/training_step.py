"""Chapter 06, the training step: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

import math

from mlsysim import catalog, collectives, flops, parallelism, training
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "06-training-step"
_BUILD = "Build the time of a step from its terms."
_HIDE = "Tell what hides behind arithmetic from what does not."
_USE = "Turn a step time into a utilisation, in a named convention."
_SLOW = "Say what waiting for the slowest device costs."
_RUN = "Predict how long a run takes, and check somebody else's prediction."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_BUILD, "06.3"),
    (_HIDE, "06.5"),
    (_USE, "06.7"),
    (_SLOW, "06.10"),
    (_RUN, "06.11"),
)

_ADAM = 30.0  # bytes moved per parameter: eq-optimizer-time
_PERCENT = "That is the percentage taken as a plain number. Write the fraction, or text with a % sign."
_SPARSE = (
    "You divided by the peak with 2:4 sparsity, which is twice the dense one. Nobody trains with half the weights gone."
)


# 06.1 to 06.4 the terms


def _touch(g: Inputs, ranks: float = 1.0, passes: float | None = None, element_bytes: float = 2.0) -> Num:
    width = g["hidden"] / g["tp"] * ranks
    count = g["passes"] if passes is None else passes
    return training.elementwise_time(g["tokens"], width, count, g["bandwidth"], element_bytes)


_E1 = Exercise(
    id="06.1",
    slug=SLUG,
    title="Everything that is no product",
    objective=_BUILD,
    points=1,
    prompt="Norms, residuals, dropout and the activation function of a layer read or write a tensor of width {hidden} "
    "{passes} times in a forward pass. A micro-batch has {tokens} tokens, its numbers are BF16, and sequence parallelism "
    "cuts the tensors over {tp} devices. Memory delivers {bandwidth}. How long does this take per layer and micro-batch?",
    unit="s",
    options={
        "hidden": Options((12288, 8192, 16384), "1", "width of the residual stream"),
        "passes": Options((34, 40), "1", "times that a tensor of that width is read or written"),
        "tokens": Options((2048, 4096, 8192), "1", "tokens of a micro-batch"),
        "tp": Options((4, 8), "1", "tensor-parallel degree"),
        "bandwidth": Options((2.039e12, 3.35e12), "byte/s", "bandwidth of the device memory"),
    },
    solve=_touch,
    mistakes=(
        Mistake(
            "not-cut",
            "You gave each device the whole width. With sequence parallelism the tensors are cut over {tp} devices.",
            (lambda g: _touch(g, ranks=g["tp"]),),
        ),
        Mistake(
            "one-pass",
            "That is a single pass. The tensor is read or written {passes} times.",
            (lambda g: _touch(g, passes=1),),
        ),
        Mistake(
            "bytes-forgotten",
            "You counted numbers, not bytes. A BF16 number has two.",
            (lambda g: _touch(g, element_bytes=1),),
        ),
        Mistake(
            "four-bytes",
            "You gave each number four bytes. Activations are BF16 here.",
            (lambda g: _touch(g, element_bytes=4),),
        ),
    ),
    nudge="Passes x tokens x width on this device x bytes per number, over the bandwidth.",
    solution="""\
g = inputs("06.1", seed=SEED)
answer = training.elementwise_time(g["tokens"], g["hidden"] / g["tp"], g["passes"], g["bandwidth"])""",
)


def _stage(g: Inputs, layers: float | None = None, messages: float = 1.0, hops: float = 1.0) -> Num:
    held = math.ceil(g["layers"] / g["pp"]) if layers is None else layers
    return training.stage_time(held, g["arithmetic"] + messages * g["messages"], hops * g["hop"])


_E2 = Exercise(
    id="06.2",
    slug=SLUG,
    title="The beat",
    objective=_BUILD,
    points=1,
    prompt="A model of {layers} equal layers lies on {pp} pipeline stages, as evenly as whole layers allow. Per layer and "
    "micro-batch, forward and backward take {arithmetic} of arithmetic and {messages} of tensor-parallel messages, which "
    "the next product waits for. Handing a micro-batch on takes a stage {hop}. How long does the fullest stage need per "
    "micro-batch?",
    unit="s",
    options={
        "layers": Options((94, 100, 52, 118), "1", "layers of the model"),
        "pp": Options((8, 12), "1", "pipeline stages"),
        "arithmetic": Options((10e-3, 8e-3), "s", "arithmetic per layer and micro-batch"),
        "messages": Options((4e-3, 5e-3), "s", "messages per layer and micro-batch"),
        "hop": Options((18e-3, 30e-3), "s", "transfer per micro-batch and stage"),
    },
    solve=_stage,
    mistakes=(
        Mistake(
            "average-stage",
            "You gave the stage the average number of layers. Layers come whole, and the fullest stage sets the beat.",
            (lambda g: _stage(g, layers=g["layers"] / g["pp"]),),
        ),
        Mistake(
            "messages-hidden",
            "You let the tensor-parallel messages hide. The next product needs the sum they bring, so it waits.",
            (lambda g: _stage(g, messages=0),),
        ),
        Mistake(
            "hop-per-layer",
            "You handed the micro-batch on after every layer. It leaves a stage once.",
            (lambda g: _stage(g, hops=math.ceil(g["layers"] / g["pp"])),),
        ),
        Mistake("no-hop", "You left out the transfer to the next stage.", (lambda g: _stage(g, hops=0),)),
        Mistake(
            "whole-model",
            "That is the whole model. A stage holds a part of its layers.",
            (lambda g: _stage(g, layers=g["layers"]),),
        ),
    ),
    nudge="Layers of the fullest stage x (arithmetic + messages), and one transfer.",
    solution="""\
g = inputs("06.2", seed=SEED)
fullest = -(-g["layers"] // g["pp"])
answer = training.stage_time(fullest, g["arithmetic"] + g["messages"], g["hop"])""",
)


def _whole(g: Inputs, pp: float | None = None, virtual: float | None = None, tails: float = 1.0) -> Num:
    update = training.optimizer_time(g["parameters"], g["bandwidth"])
    return training.pipelined_step(
        g["stage"],
        g["micro_batches"],
        g["pp"] if pp is None else pp,
        g["virtual_stages"] if virtual is None else virtual,
        tails * g["gradients"],
        tails * update,
    )


def _too_short(g: Inputs) -> Num:
    """The wait that holds from as many micro-batches as stages on."""
    return _whole(g, pp=1) + (g["pp"] - 1) / g["virtual_stages"] * g["stage"]


_E3 = Exercise(
    id="06.3",
    slug=SLUG,
    title="The whole step",
    objective=_BUILD,
    points=3,
    prompt="Each of {pp} equal pipeline stages needs {stage} per micro-batch, forward and backward, messages included. A "
    "step has {micro_batches} micro-batches, interleaved with {virtual_stages} chunks per device. After the last backward "
    "pass {gradients} of gradient messages are still to see, and then each device updates {parameters} parameters of its "
    "own with Adam, {optimizer_bytes} read and written for each, at {bandwidth}. How long is the step?",
    unit="s",
    options={
        "pp": Options((20, 24), "1", "pipeline stages"),
        "stage": Options((80e-3, 60e-3), "s", "time per micro-batch and stage"),
        "micro_batches": Options((8, 10), "1", "micro-batches per step"),
        "virtual_stages": Options((2, 3), "1", "model chunks per device"),
        "gradients": Options((0.1, 0.14), "s", "gradient messages that nothing hides"),
        "parameters": Options((4e9, 5e9), "1", "parameters that a device updates"),
        "optimizer_bytes": Options((_ADAM,), "byte", "moved per parameter"),
        "bandwidth": Options((2.039e12,), "byte/s", "bandwidth of the device memory"),
    },
    solve=_whole,
    mistakes=(
        Mistake(
            "no-bubble",
            "You left out the wait: the pipeline has to fill and to drain.",
            (lambda g: _whole(g, pp=1),),
        ),
        Mistake(
            "not-interleaved",
            "That is the wait without interleaving. With {virtual_stages} chunks the pipeline fills in shorter steps.",
            (lambda g: _whole(g, virtual=1),),
        ),
        Mistake(
            "below-the-critical-path",
            "You let the wait shrink by V although there are fewer micro-batches than stages. The first micro-batch then comes "
            "round too late: each device waits P - m stage times more, less a V-th of them.",
            (_too_short,),
        ),
        Mistake(
            "tail-forgotten",
            "You stopped at the last backward pass. Gradients and the optimizer follow it.",
            (lambda g: _whole(g, tails=0),),
        ),
        Mistake(
            "tail-per-micro-batch",
            "You sent and applied gradients after every micro-batch. They are accumulated, and sent and applied once.",
            (lambda g: _whole(g, tails=g["micro_batches"]),),
        ),
        Mistake(
            "optimizer-forgotten",
            "You left out the optimizer: {optimizer_bytes} for each of {parameters} parameters pass through memory.",
            (
                lambda g: training.pipelined_step(
                    g["stage"], g["micro_batches"], g["pp"], g["virtual_stages"], g["gradients"]
                ),
            ),
        ),
    ),
    nudge="m stage times and the wait: (P - 1)/V of them, and more because m is below P; then what is left of the gradients, then "
    "parameters x bytes over bandwidth.",
    solution="""\
g = inputs("06.3", seed=SEED)
update = training.optimizer_time(g["parameters"], g["bandwidth"], g["optimizer_bytes"])
answer = training.pipelined_step(
    g["stage"], g["micro_batches"], g["pp"], g["virtual_stages"], g["gradients"], update
)""",
)


def _update(g: Inputs, shards: float | None = None, pp: float | None = None, moved: float = _ADAM) -> Num:
    cut = g["tp"] * (g["pp"] if pp is None else pp) * (g["dp"] if shards is None else shards)
    return training.optimizer_time(g["parameters"] / cut, g["bandwidth"], moved)


_E4 = Exercise(
    id="06.4",
    slug=SLUG,
    title="Whose parameters?",
    objective=_BUILD,
    points=1,
    prompt="{parameters} parameters are cut by TP {tp} and PP {pp}; the optimizer's state is cut over {dp} data-parallel "
    "ranks as well (ZeRO-1). Adam in FP32 reads gradient, master weight and two moments and writes the last three and a "
    "BF16 weight. Memory delivers {bandwidth}. How long does a device's update take?",
    unit="s",
    options={
        "parameters": Options((70e9, 175e9, 405e9, 530e9), "1", "parameters of the model"),
        "tp": Options((8, 4), "1", "tensor-parallel degree"),
        "pp": Options((4, 16), "1", "pipeline stages"),
        "dp": Options((8, 64), "1", "data-parallel degree"),
        "bandwidth": Options((3.35e12, 2.039e12), "byte/s", "bandwidth of the device memory"),
    },
    solve=_update,
    mistakes=(
        Mistake(
            "not-sharded",
            "You let every replica update everything it holds. With ZeRO-1 each updates its own {dp}th part.",
            (lambda g: _update(g, shards=1),),
        ),
        Mistake(
            "stages-forgotten",
            "You cut by TP and DP only. A device holds the parameters of its own pipeline stage.",
            (lambda g: _update(g, pp=1),),
        ),
        Mistake(
            "reads-only",
            "You counted what is read: gradient, master weight and two moments. The results are written too.",
            (lambda g: _update(g, moved=16),),
        ),
        Mistake(
            "state-size",
            "You took the size of the training state (18 bytes per parameter). What counts is traffic: most of the state "
            "is read and written.",
            (lambda g: _update(g, moved=18),),
        ),
    ),
    nudge="Own parameters = all over TP x PP x DP. Bytes moved for each: four FP32 numbers in, three and a BF16 one out.",
    solution="""\
g = inputs("06.4", seed=SEED)
own = g["parameters"] / (g["tp"] * g["pp"] * g["dp"])
answer = training.optimizer_time(own, g["bandwidth"], 4 * 4 + 3 * 4 + 2)""",
)


# 06.5 and 06.6 what hides


def _ring(g: Inputs) -> Num:
    return collectives.ring_all_reduce(g["message"], g["dp"], g["bandwidth"])


_E5 = Exercise(
    id="06.5",
    slug=SLUG,
    title="Behind the last backward pass",
    objective=_HIDE,
    points=2,
    prompt="Each device has {message} of gradients to add up over {dp} replicas with a ring at {bandwidth} per device and "
    "direction. Gradients are accumulated, so only the last backward pass can hide this: it takes {backward}, and a share "
    "of {overlap} of it can. How long do you still see the messages?",
    unit="s",
    options={
        "message": Options((11e9, 14e9, 10e9), "byte", "gradients of a device"),
        "dp": Options((64, 128, 16), "1", "data-parallel degree"),
        "bandwidth": Options((50e9, 40e9), "byte/s", "of the network, per device and one way"),
        "backward": Options((0.2, 0.18), "s", "the last backward pass"),
        "overlap": Options((0.8,), "1", "share of it that can hide messages"),
    },
    solve=lambda g: training.exposed_time(_ring(g), g["backward"], g["overlap"]),
    mistakes=(
        Mistake(
            "share-of-message",
            "You hid a share of the *messages*. What can hide them is arithmetic, and the share is of its time.",
            (lambda g: (1 - g["overlap"]) * _ring(g),),
        ),
        Mistake(
            "all-of-it",
            "You used the whole backward pass. Only a share of {overlap} of it can hide messages.",
            (lambda g: training.exposed_time(_ring(g), g["backward"]),),
        ),
        Mistake("nothing", "You hid nothing. Messages of the last layers travel while others still compute.", (_ring,)),
        Mistake(
            "half-a-ring",
            "You counted one half of the all-reduce. Sums come back as well: reduce-scatter and all-gather.",
            (
                lambda g: training.exposed_time(
                    collectives.ring_reduce_scatter(g["message"], g["dp"], g["bandwidth"]), g["backward"], g["overlap"]
                ),
            ),
        ),
    ),
    nudge="The ring's time, less the share of the last backward pass that can cover it.",
    solution="""\
g = inputs("06.5", seed=SEED)
ring = collectives.ring_all_reduce(g["message"], g["dp"], g["bandwidth"])
answer = training.exposed_time(ring, g["backward"], g["overlap"])""",
)


def _wait(g: Inputs) -> Num:
    return parallelism.bubble_ratio(g["pp"], g["micro_batches"]) * g["compute"]


_E6 = Exercise(
    id="06.6",
    slug=SLUG,
    title="Does a bubble hide?",
    objective=_HIDE,
    points=2,
    prompt="A device computes {compute} per step and sends messages for {communication}; a share of {overlap} of the "
    "shorter of the two hides behind the longer. It stands in a pipeline of {pp} equal stages with {micro_batches} "
    "micro-batches, not interleaved. How long is the step?",
    unit="s",
    options={
        "compute": Options((8.0, 6.0, 10.0), "s", "arithmetic of a device"),
        "communication": Options((2.0, 2.5), "s", "its messages"),
        "overlap": Options((0.8, 0.75), "1", "share of the shorter that hides"),
        "pp": Options((8, 7), "1", "pipeline stages"),
        "micro_batches": Options((16, 20, 12), "1", "micro-batches per step"),
    },
    solve=lambda g: training.step_time(g["compute"], g["communication"], _wait(g), g["overlap"]),
    mistakes=(
        Mistake(
            "bubble-hides",
            "You added the bubble to the messages and let most of it hide. A device that waits has nothing to hide behind.",
            (lambda g: training.step_time(g["compute"], g["communication"] + _wait(g), overlap=g["overlap"]),),
        ),
        Mistake(
            "no-bubble",
            "You left out the wait of the pipeline.",
            (lambda g: training.step_time(g["compute"], g["communication"], overlap=g["overlap"]),),
        ),
        Mistake(
            "nothing-hides",
            "You hid nothing. A share of {overlap} of the messages travels while the device computes.",
            (lambda g: g["compute"] + g["communication"] + _wait(g),),
        ),
        Mistake(
            "all-hides",
            "You hid all of the messages. A share of {overlap} of them hides.",
            (lambda g: g["compute"] + _wait(g),),
        ),
    ),
    nudge="The longer of the two, what is left of the shorter, and the bubble in full.",
    solution="""\
g = inputs("06.6", seed=SEED)
bubble = parallelism.bubble_ratio(g["pp"], g["micro_batches"]) * g["compute"]
answer = training.step_time(g["compute"], g["communication"], bubble, g["overlap"])""",
)


# 06.7 to 06.9 utilisation


def _peak(g: Inputs) -> float:
    return catalog.device(g["device"]).peak_flops["bf16"]


def _used(g: Inputs, per_token: Num, peaks: float = 1.0) -> Num:
    """MFU from tokens per second and device: one second of one device."""
    return training.mfu(per_token * g["token_rate"], 1.0, 1, peaks * _peak(g))


_E7 = Exercise(
    id="06.7",
    slug=SLUG,
    title="From tokens to utilisation",
    objective=_USE,
    points=2,
    prompt="A dense model multiplies each token with {parameters} parameters. It trains at {token_rate} tokens per second "
    "and GPU on {devices} x {device}, in BF16, with full recomputation. What is the MFU at 6 FLOP per parameter and token, "
    "attention left out (a fraction, or text like '25 %')?",
    unit="1",
    options={
        "device": Options(("H100-SXM5-80GB", "A100-SXM4-80GB"), "", "device of the catalogue"),
        "parameters": Options((8e9, 13e9, 7e9, 34e9), "1", "parameters that a token is multiplied with"),
        "token_rate": Options((2500, 3100, 1900, 2200), "1", "tokens per second and GPU"),
        "devices": Options((512, 256, 768), "1", "GPUs of the job"),
    },
    solve=lambda g: _used(g, 6 * g["parameters"]),
    mistakes=(
        Mistake(
            "repetition-counted",
            "You counted the repeated forward pass (8 FLOP per parameter). That is hardware utilisation; model FLOPs count "
            "nothing twice.",
            (lambda g: _used(g, 8 * g["parameters"]),),
        ),
        Mistake("sparse-peak", _SPARSE, (lambda g: _used(g, 6 * g["parameters"], 2),)),
        Mistake(
            "forward-only",
            "You counted the forward pass. The backward pass has twice as much.",
            (lambda g: _used(g, 2 * g["parameters"]),),
        ),
        Mistake(
            "divided-twice",
            "You divided by the number of GPUs, but the rate is per GPU already.",
            (lambda g: _used(g, 6 * g["parameters"]) / g["devices"],),
        ),
        Mistake("percent", _PERCENT, (lambda g: 100 * _used(g, 6 * g["parameters"]),)),
    ),
    nudge="FLOPs per token x tokens per second and GPU, over the dense peak of one GPU.",
    solution="""\
g = inputs("06.7", seed=SEED)
peak = catalog.device(g["device"]).peak_flops["bf16"]
answer = training.mfu(6 * g["parameters"] * g["token_rate"], time=1.0, devices=1, peak_flops=peak)""",
)


def _hardware(g: Inputs, repeated: float = 1 / 3, model: float = 1.0, devices: float | None = None) -> Num:
    n = g["devices"] if devices is None else devices
    return training.hfu(model * g["model_flops"], repeated * g["model_flops"], g["time"], n, _peak(g))


_E8 = Exercise(
    id="06.8",
    slug=SLUG,
    title="What the hardware did",
    objective=_USE,
    points=1,
    prompt="A step of {model_flops} (model FLOPs, forward and backward) takes {time} on {devices} x {device}, in BF16. "
    "Full recomputation runs the forward pass, a third of these FLOPs, once more. What is the hardware utilisation, HFU?",
    unit="1",
    options={
        "device": Options(("A100-SXM4-80GB", "H100-SXM5-80GB"), "", "device of the catalogue"),
        "model_flops": Options((3.5e18, 4.2e18, 2.8e18), "FLOP", "model FLOPs of a step"),
        "time": Options((32.0, 27.0, 36.0), "s", "time of a step"),
        "devices": Options((1024, 768), "1", "GPUs of the job"),
    },
    solve=_hardware,
    mistakes=(
        Mistake(
            "mfu",
            "That is the MFU. The hardware did the forward pass twice, and HFU counts it twice.",
            (lambda g: _hardware(g, repeated=0),),
        ),
        Mistake(
            "wrong-way",
            "You took the repeated pass out of the model FLOPs. They do not contain it; add it.",
            (lambda g: _hardware(g, repeated=0, model=3 / 4),),
        ),
        Mistake(
            "backward-too",
            "You repeated everything. Recomputation repeats the forward pass, a third of forward and backward together.",
            (lambda g: _hardware(g, repeated=1),),
        ),
        Mistake("sparse-peak", _SPARSE, (lambda g: _hardware(g) / 2,)),
        Mistake("percent", _PERCENT, (lambda g: 100 * _hardware(g),)),
    ),
    nudge="Model FLOPs and a third of them, over GPUs x dense peak x time.",
    solution="""\
g = inputs("06.8", seed=SEED)
peak = catalog.device(g["device"]).peak_flops["bf16"]
answer = training.hfu(g["model_flops"], g["model_flops"] / 3, g["time"], g["devices"], peak)""",
)


def _counted(g: Inputs, convention: str = "matmul-causal") -> Num:
    return _used(g, flops.counted_flops(g["model"], g["seq"], convention))


_E9 = Exercise(
    id="06.9",
    slug=SLUG,
    title="Where 6N ends",
    objective=_USE,
    points=2,
    prompt="{model} trains on sequences of {seq} tokens at {token_rate} tokens per second and GPU on {device}, in BF16. What "
    "is the MFU when the products with weights and the causal attention core count, nothing twice "
    "(`flops.counted_flops` knows this convention as 'matmul-causal')?",
    unit="1",
    options={
        "model": Options(("Llama-3.1-8B", "Qwen3-8B"), "", "model of the catalogue"),
        "seq": Options((65536, 98304, 131072), "1", "tokens per sequence"),
        "token_rate": Options((2700, 3100, 2300), "1", "tokens per second and GPU"),
        "device": Options(("H100-SXM5-80GB", "H200-SXM-141GB", "H800-SXM"), "", "device of the catalogue"),
    },
    solve=_counted,
    mistakes=(
        Mistake(
            "no-attention",
            "You counted 6 FLOP per parameter alone. At this length the attention core is no small term.",
            (lambda g: _used(g, 6 * flops.matmul_parameters(g["model"])), lambda g: _counted(g, "6N")),
        ),
        Mistake(
            "full-attention",
            "You counted every key for every query. Under a causal mask a query meets half of them on average.",
            (lambda g: _counted(g, "matmul-full"), lambda g: _counted(g, "palm")),
        ),
        Mistake(
            "repetition-counted",
            "You counted a repeated forward pass.",
            (lambda g: _counted(g, "megatron"),),
        ),
        Mistake("percent", _PERCENT, (lambda g: 100 * _counted(g),)),
    ),
    nudge="FLOPs per token in that convention, times tokens per second and GPU, over the dense peak.",
    solution="""\
g = inputs("06.9", seed=SEED)
per_token = flops.counted_flops(g["model"], g["seq"], "matmul-causal")
peak = catalog.device(g["device"]).peak_flops["bf16"]
answer = training.mfu(per_token * g["token_rate"], time=1.0, devices=1, peak_flops=peak)""",
)


# 06.10 the slowest


def _excess(g: Inputs, spread: float | None = None) -> Num:
    if spread is not None:
        return g["mean"] * g["variation"] * spread
    return training.straggler_time(g["mean"], g["variation"], g["devices"]) - g["mean"]


_E10 = Exercise(
    id="06.10",
    slug=SLUG,
    title="Waiting for the slowest",
    objective=_SLOW,
    points=2,
    prompt="A device takes {mean} per step on average, with a standard deviation of {variation} of that, at random and "
    "independently. {devices} devices wait for each other in every step. By how much does the average step get longer than "
    "{mean}, at most?",
    unit="s",
    options={
        "mean": Options((8.0, 6.0, 10.0, 12.0), "s", "mean time of a device"),
        "variation": Options((0.02, 0.01, 0.03), "1", "standard deviation over mean"),
        "devices": Options((16384, 1024, 2048, 4096), "1", "devices that wait for each other"),
    },
    solve=_excess,
    mistakes=(
        Mistake(
            "one-deviation",
            "That is one standard deviation. The slowest of {devices} lies several above the mean.",
            (lambda g: _excess(g, 1),),
        ),
        Mistake(
            "grows-as-root-n",
            "You let the wait grow with the square root of the number of devices. It grows with the root of its logarithm.",
            (lambda g: _excess(g, math.sqrt(g["devices"])),),
        ),
        Mistake(
            "mean-of-many",
            "You computed how well {devices} devices determine a *mean*. A synchronous step waits for the maximum.",
            (lambda g: _excess(g, 1 / math.sqrt(g["devices"])),),
        ),
        Mistake(
            "two-forgotten",
            "You forgot the 2 under the root.",
            (lambda g: _excess(g, math.sqrt(math.log(g["devices"]))),),
        ),
        Mistake(
            "log10",
            "You took the logarithm to the base 10. The bound has the natural one.",
            (lambda g: _excess(g, math.sqrt(2 * math.log10(g["devices"]))),),
        ),
        Mistake(
            "whole-step",
            "That is the step. The question asks for what it is longer than the mean.",
            (lambda g: g["mean"] + _excess(g),),
        ),
    ),
    nudge="The slowest of n lies at most sqrt(2 ln n) standard deviations above the mean.",
    solution="""\
g = inputs("06.10", seed=SEED)
answer = training.straggler_time(g["mean"], g["variation"], g["devices"]) - g["mean"]""",
)


# 06.11 and 06.12 a run


def _days(g: Inputs, per_parameter: float = 8.0, rate: float | None = None, devices: float | None = None) -> Num:
    work = flops.total_flops(per_parameter * g["parameters"], g["tokens"])
    return training.run_time(work, g["devices"] if devices is None else devices, g["rate"] if rate is None else rate)


_E11 = Exercise(
    id="06.11",
    slug=SLUG,
    title="Which FLOPs?",
    objective=_RUN,
    points=2,
    prompt="A paper reports {rate} per GPU for {parameters} parameters on {devices} GPUs, with full recomputation and the "
    "repeated forward pass counted: 8 FLOP per parameter and token. How long does it take to train on {tokens} tokens at "
    "that rate (in seconds, or text like '34 days')?",
    unit="s",
    options={
        "parameters": Options((175e9, 145e9, 530e9, 310e9), "1", "parameters of the model"),
        "tokens": Options((300e9, 270e9, 450e9), "1", "tokens to train on"),
        "devices": Options((1024, 1536, 3072), "1", "GPUs of the job"),
        "rate": Options((140e12, 148e12, 163e12), "FLOP/s", "achieved per GPU, repetition counted"),
    },
    solve=_days,
    mistakes=(
        Mistake(
            "model-flops",
            "You took 6 FLOP per parameter and token. The rate counts the repeated forward pass, so the work must too.",
            (lambda g: _days(g, 6),),
        ),
        Mistake(
            "forward-only",
            "You counted the forward pass alone.",
            (lambda g: _days(g, 2),),
        ),
        Mistake(
            "twice-recomputed",
            "You added the repeated pass to the 8. It is in there: 2 forward, 2 again, 4 backward.",
            (lambda g: _days(g, 10),),
        ),
        Mistake(
            "one-gpu",
            "That is the time on a single GPU.",
            (lambda g: _days(g, devices=1),),
        ),
        Mistake(
            "peak-rate",
            "You let the GPUs run at the peak of an A100, 312 TFLOP/s. They achieve {rate}.",
            (lambda g: _days(g, rate=312e12),),
        ),
    ),
    nudge="FLOPs of the run in the convention of the rate, over GPUs x rate.",
    solution="""\
g = inputs("06.11", seed=SEED)
work = flops.total_flops(8 * g["parameters"], g["tokens"])
answer = training.run_time(work, g["devices"], g["rate"])""",
)


def _scaled(g: Inputs, waits: float | None = None) -> Num:
    """The run on twice the devices: the same batch, so half the micro-batches per replica."""
    before = parallelism.pipeline_time(1.0, g["pp"] - 1.0, g["micro_batches"])
    stage = g["step"] / before
    m = g["micro_batches"] / 2
    step = training.pipelined_step(stage, m, g["pp"]) if waits is None else (m + waits) * stage
    return training.time_to_train(g["tokens"], g["tokens_per_step"], step)


_E12 = Exercise(
    id="06.12",
    slug=SLUG,
    title="Twice the devices",
    objective=_RUN,
    points=3,
    prompt="A job of {pp} equal pipeline stages, not interleaved, works through {micro_batches} micro-batches per replica in "
    "a step of {step}; a step has {tokens_per_step} tokens. You double the number of replicas and keep the batch, so each "
    "gets half the micro-batches. Nothing but the pipeline matters. How long does training on {tokens} tokens take now "
    "(in seconds, or text like '34 days')?",
    unit="s",
    options={
        "pp": Options((16, 12, 8), "1", "pipeline stages"),
        "micro_batches": Options((32, 48, 24), "1", "micro-batches per replica before"),
        "step": Options((12.0, 16.0, 20.0), "s", "time of a step before"),
        "tokens_per_step": Options((4e6, 16e6), "1", "tokens of a step"),
        "tokens": Options((1e12, 2e12, 15e12), "1", "tokens to train on"),
    },
    solve=_scaled,
    mistakes=(
        Mistake(
            "perfect-scaling",
            "You halved the time. With half the micro-batches the pipeline waits as long as before, for half as much work.",
            (lambda g: training.time_to_train(g["tokens"], g["tokens_per_step"], g["step"]) / 2,),
        ),
        Mistake(
            "nothing-gained",
            "That is the run before. Each replica has half as many micro-batches now.",
            (lambda g: training.time_to_train(g["tokens"], g["tokens_per_step"], g["step"]),),
        ),
        Mistake(
            "wait-halved",
            "You let the wait shrink with the number of micro-batches. Filling takes P - 1 micro-batches, however many "
            "there are; or did you leave it out?",
            (lambda g: _scaled(g, 0.0), lambda g: _scaled(g, (g["pp"] - 1) / 4)),
        ),
        Mistake(
            "batch-doubled",
            "You doubled the tokens of a step as well. The batch stays: that is what makes this strong scaling.",
            (lambda g: _scaled(g) / 2,),
        ),
    ),
    nudge="One stage time = step/(m + P - 1). The new step is (m/2 + P - 1) of them; the number of steps stays.",
    solution="""\
g = inputs("06.12", seed=SEED)
stage = g["step"] / (g["micro_batches"] + g["pp"] - 1)
step = training.pipelined_step(stage, g["micro_batches"] / 2, g["pp"])
answer = training.time_to_train(g["tokens"], g["tokens_per_step"], step)""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10, _E11, _E12)
