"""Chapter 14, the step model: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import kernels, roofline, serving_steps
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "14-step-model"
_LIST = "List the kernels of a step: the shapes that run, and the pairs that meet."
_KERNEL = "Compute the time of a kernel from three constants, and its utilisation from the time."
_TABLE = "Read an efficiency from a table of measurements, and say what happens between its entries and outside."
_GRAIN = "Tell one maximum per kernel from one maximum per step."
_STEP = "Add up a step of prompts and answers, and say what its constants rest on."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_LIST, "14.1"),
    (_KERNEL, "14.3"),
    (_TABLE, "14.6"),
    (_GRAIN, "14.8"),
    (_STEP, "14.9"),
)


# 14.1 and 14.2 what runs


def _width(g: Inputs) -> Num:
    return serving_steps.fused_width(g["heads"], g["kv_heads"], g["head_dim"], g["tp"])


_E1 = Exercise(
    id="14.1",
    slug=SLUG,
    title="One product for three",
    objective=_LIST,
    points=2,
    prompt="A layer has {heads} query heads and {kv_heads} key-value heads of size {head_dim}. The server runs it with "
    "tensor parallelism over {tp} devices and makes queries, keys and values in one product. How many columns does that "
    "product have on one device?",
    unit="1",
    options={
        "heads": Options((64, 96, 128), "1", "query heads"),
        "kv_heads": Options((4, 2), "1", "key-value heads"),
        "head_dim": Options((96, 80, 192), "1", "size of a head"),
        "tp": Options((16, 32), "1", "tensor-parallel degree"),
    },
    solve=_width,
    mistakes=(
        Mistake(
            "part-of-a-head",
            "You gave a device a part of a key-value head. There are {kv_heads} heads for {tp} devices, so each device "
            "holds a copy of a whole one.",
            (lambda g: (g["heads"] + 2 * g["kv_heads"]) / g["tp"] * g["head_dim"],),
        ),
        Mistake(
            "one-device",
            "Those are the columns without tensor parallelism. {tp} devices share the heads.",
            (lambda g: serving_steps.fused_width(g["heads"], g["kv_heads"], g["head_dim"]),),
        ),
        Mistake(
            "queries-alone",
            "Those are the queries. Keys and values stand in the same product.",
            (lambda g: g["heads"] / g["tp"] * g["head_dim"],),
        ),
        Mistake(
            "keys-without-values",
            "You counted the keys and forgot the values, or the reverse. A token stores both.",
            (lambda g: (_width(g) + g["heads"] / g["tp"] * g["head_dim"]) / 2,),
        ),
        Mistake(
            "query-heads",
            "You made a key and a value for every query head. Groups of query heads share them.",
            (lambda g: 3 * g["heads"] / g["tp"] * g["head_dim"],),
        ),
    ),
    nudge="Query heads of this device, and two for each key-value head that it holds: at least one. Times the size of a "
    "head.",
    solution="""\
g = inputs("14.1", seed=SEED)
answer = serving_steps.fused_width(g["heads"], g["kv_heads"], g["head_dim"], g["tp"])""",
)


def _pairs(g: Inputs) -> Num:
    return serving_steps.chunk_pairs(g["new"], g["past"])


_E2 = Exercise(
    id="14.2",
    slug=SLUG,
    title="The third chunk of a prompt",
    objective=_LIST,
    points=1,
    prompt="A prompt is worked on in chunks of {new} tokens, and {past} of its tokens are cached. How many query-key pairs "
    "does the next chunk meet under a causal mask?",
    unit="1",
    options={
        "new": Options((256, 300, 384, 512, 640, 768), "1", "tokens of the chunk"),
        "past": Options((1024, 1536, 2048, 3072, 4096, 900), "1", "cached tokens of the prompt"),
    },
    solve=_pairs,
    mistakes=(
        Mistake(
            "no-past",
            "You let the chunk see only itself. Its tokens attend to the {past} cached ones as well.",
            (lambda g: serving_steps.chunk_pairs(g["new"], 0),),
        ),
        Mistake(
            "no-mask",
            "You let each token see the whole chunk. It sees itself and what precedes it.",
            (lambda g: g["new"] * (g["past"] + g["new"]),),
        ),
        Mistake(
            "past-alone",
            "Those are the pairs with cached tokens. Tokens of the chunk also see one another.",
            (lambda g: g["new"] * g["past"],),
        ),
        Mistake(
            "whole-prompt",
            "Those are the pairs of the prompt up to here. The earlier chunks have done theirs.",
            (lambda g: serving_steps.chunk_pairs(g["new"] + g["past"], 0),),
        ),
    ),
    nudge="Each of the new tokens meets all cached ones; and the first new token meets 1 new one, the last all of them.",
    solution="""\
g = inputs("14.2", seed=SEED)
answer = serving_steps.chunk_pairs(g["new"], g["past"])""",
)


# 14.3 to 14.5 one kernel


def _kernel(g: Inputs, start: float = 1.0, compute: float | None = None, memory: float | None = None) -> Num:
    return kernels.measured_kernel_time(
        kernels.gemm_flops(g["rows"], g["n"], g["k"]),
        kernels.gemm_bytes(g["rows"], g["n"], g["k"], 2.0),
        g["peak_flops"],
        g["memory_bandwidth"],
        g["compute"] if compute is None else compute,
        g["memory"] if memory is None else memory,
        start * g["start"],
    )


def _reached(g: Inputs, time: Num, peak: float = 1.0) -> Num:
    return serving_steps.kernel_utilisation(kernels.gemm_flops(g["rows"], g["n"], g["k"]), time, peak * g["peak_flops"])


_E3 = Exercise(
    id="14.3",
    slug=SLUG,
    title="Utilisation is an answer, not an input",
    objective=_KERNEL,
    points=3,
    prompt="A product of {rows} rows with a matrix of {k} x {n}, all in 16 bits, runs on a device with a dense peak of "
    "{peak_flops} and {memory_bandwidth}. Its kernels sustain {compute} of the peak or {memory} of the bandwidth, whichever "
    "takes longer, and take {start} to start. Which share of the peak does a table of measurements print for it (as a "
    "number like 0.12)?",
    unit="1",
    options={
        "rows": Options((16, 24, 32, 48), "1", "rows"),
        "k": Options((4096, 5120), "1", "shared dimension"),
        "n": Options((6144, 8192), "1", "columns"),
        "peak_flops": Options((989.5e12,), "FLOP/s", "dense peak"),
        "memory_bandwidth": Options((3.35e12, 4.8e12), "byte/s", "memory bandwidth"),
        "compute": Options((0.65,), "1", "share of the peak"),
        "memory": Options((0.8, 0.76), "1", "share of the bandwidth"),
        "start": Options((2e-6, 3e-6), "s", "start of a kernel"),
    },
    solve=lambda g: _reached(g, _kernel(g)),
    mistakes=(
        Mistake(
            "no-start",
            "The start is missing. It is part of the measured time, and counts most where the work is small.",
            (lambda g: _reached(g, _kernel(g, start=0.0)),),
        ),
        Mistake(
            "datasheet-bandwidth",
            "You let it read at the datasheet's bandwidth. It sustains {memory} of it.",
            (lambda g: _reached(g, _kernel(g, memory=1.0)),),
        ),
        Mistake(
            "the-constant",
            "{compute} is what the kernels sustain when arithmetic binds. Here the matrix takes longer to read than to "
            "multiply with.",
            (lambda g: g["compute"],),
        ),
        Mistake(
            "a-factor-of-two",
            "Half of it. A multiply-accumulate is two FLOP, and a product in 16 bits is measured against the peak of 16 "
            "bits, not that of 8.",
            (lambda g: _reached(g, _kernel(g), peak=2.0),),
        ),
    ),
    nudge="First the time: the longer of FLOPs over 0.65 peaks and bytes over the sustained bandwidth, plus the start. Then "
    "FLOPs over time and peak.",
    solution="""\
g = inputs("14.3", seed=SEED)
flops = kernels.gemm_flops(g["rows"], g["n"], g["k"])
time = kernels.measured_kernel_time(
    flops,
    kernels.gemm_bytes(g["rows"], g["n"], g["k"], 2),
    g["peak_flops"],
    g["memory_bandwidth"],
    g["compute"],
    g["memory"],
    g["start"],
)
answer = serving_steps.kernel_utilisation(flops, time, g["peak_flops"])""",
)


def _starts(g: Inputs, kernels_per_layer: float = 0.0, attentions: float = 2.0, share: float = 1.0) -> Num:
    return share * serving_steps.kernel_starts(
        g["layers"], g["layer_kernels"] + kernels_per_layer, g["start"], attentions, g["attention_start"]
    )


_E4 = Exercise(
    id="14.4",
    slug=SLUG,
    title="What starts cost",
    objective=_KERNEL,
    points=2,
    prompt="A model of {layers} layers runs {layer_kernels} kernels a layer beside attention, each with a start of {start}, and "
    "the LM head after the last layer. An attention kernel takes {attention_start} to start; this step has prompts and "
    "answers, and each kind has its own. The server uses tensor parallelism over {tp} devices. What do the starts add up "
    "to in one step?",
    unit="s",
    options={
        "layers": Options((32, 48, 80), "1", "layers"),
        "layer_kernels": Options((8, 9, 11), "1", "kernels of a layer beside attention"),
        "start": Options((4e-6, 5e-6), "s", "start of such a kernel"),
        "attention_start": Options((17e-6, 22e-6), "s", "start of an attention kernel"),
        "tp": Options((4, 8), "1", "tensor-parallel degree"),
    },
    solve=_starts,
    mistakes=(
        Mistake(
            "divided",
            "You divided by TP. Every device starts every kernel, on a smaller piece.",
            (lambda g: _starts(g, share=1 / g["tp"]),),
        ),
        Mistake(
            "one-attention",
            "You started one attention kernel a layer. Prompts and answers run in two.",
            (lambda g: _starts(g, attentions=1.0),),
        ),
        Mistake(
            "no-attention",
            "Attention kernels start as well, and take longest to do so.",
            (lambda g: _starts(g, attentions=0.0),),
        ),
        Mistake(
            "one-layer",
            "That is one layer. All {layers} run in turn.",
            (lambda g: (_starts(g) - g["start"]) / g["layers"],),
        ),
    ),
    nudge="Per layer {layer_kernels} short starts and two long ones; times the layers, and one more for the head.",
    solution="""\
g = inputs("14.4", seed=SEED)
answer = serving_steps.kernel_starts(g["layers"], g["layer_kernels"], g["start"], 2, g["attention_start"])""",
)


def _rows(g: Inputs, compute: float | None = None, memory: float | None = None, width: float | None = None) -> Num:
    c, m = (g["compute"] if compute is None else compute), (g["memory"] if memory is None else memory)
    ridge = roofline.ridge_point(c * g["peak_flops"], m * g["memory_bandwidth"])
    return ridge * (g["weight_bytes"] if width is None else width) / 2


_E5 = Exercise(
    id="14.5",
    slug=SLUG,
    title="How many rows until arithmetic binds?",
    objective=_KERNEL,
    points=2,
    prompt="Kernels sustain {compute} of a peak of {peak_flops} and {memory} of {memory_bandwidth}. A matrix has {weight_bytes} "
    "a weight, and is so large that reading it is all the traffic. From how many rows on does a product with it take as "
    "long for its arithmetic as for its reading?",
    unit="1",
    options={
        "compute": Options((0.62, 0.7, 0.81), "1", "share of the peak"),
        "memory": Options((0.88, 0.92, 0.84), "1", "share of the bandwidth"),
        "peak_flops": Options((989.5e12, 312e12, 148e12), "FLOP/s", "dense peak"),
        "memory_bandwidth": Options((3.35e12, 4.0e12), "byte/s", "memory bandwidth"),
        "weight_bytes": Options((0.5,), "byte", "size of a weight"),
    },
    solve=_rows,
    mistakes=(
        Mistake(
            "datasheet",
            "You took the printed rates. Kernels sustain shares of them, and not the same share of both.",
            (lambda g: _rows(g, compute=1.0, memory=1.0),),
        ),
        Mistake(
            "two-bytes",
            "You gave a weight two bytes. It has {weight_bytes}.",
            (lambda g: _rows(g, width=2.0),),
        ),
        Mistake(
            "macs",
            "You counted one FLOP per weight and row. A multiply-accumulate is two.",
            (lambda g: 2 * _rows(g),),
        ),
        Mistake(
            "peak-share-alone",
            "You reduced the peak and let memory run at its printed rate.",
            (lambda g: _rows(g, memory=1.0),),
        ),
    ),
    nudge="Arithmetic is 2 FLOP per weight and row, traffic the bytes of a weight. Set 2 rows / (e_c P) equal to bytes / (e_m "
    "BW).",
    solution="""\
g = inputs("14.5", seed=SEED)
ridge = roofline.ridge_point(g["compute"] * g["peak_flops"], g["memory"] * g["memory_bandwidth"])
answer = ridge * g["weight_bytes"] / 2""",
)


# 14.6 and 14.7 a table


def _corners(g: Inputs) -> tuple[float, float, float, float]:
    return g["low_small"], g["high_small"], g["low_large"], g["high_large"]


def _u(g: Inputs) -> float:
    return float((g["rows"] - 64) / 64)


def _v(g: Inputs) -> float:
    return float((g["millions"] - 24) / 16)


_SHARES = {
    "low_small": Options((0.1, 0.085), "1", "64 rows, 24 million weights"),
    "high_small": Options((0.19, 0.175), "1", "128 rows, 24 million weights"),
    "low_large": Options((0.15, 0.156), "1", "64 rows, 40 million weights"),
    "high_large": Options((0.27, 0.25), "1", "128 rows, 40 million weights"),
}

_E6 = Exercise(
    id="14.6",
    slug=SLUG,
    title="Between four measurements",
    objective=_TABLE,
    points=2,
    prompt="A table of products has shares of the peak for 64 and 128 rows, and for matrices of 24 and 40 million weights: "
    "{low_small} and {high_small} for the small matrix, {low_large} and {high_large} for the large one. What is the bilinear "
    "value for {rows} rows and a matrix of {millions} million weights?",
    unit="1",
    options={
        **_SHARES,
        "rows": Options((84, 88, 92), "1", "rows"),
        "millions": Options((34, 36, 37), "1", "million weights"),
    },
    solve=lambda g: serving_steps.bilinear(_u(g), _v(g), *_corners(g)),
    mistakes=(
        Mistake(
            "nearest",
            "That is the nearest entry of the table. All four around the point count.",
            (lambda g: g["low_large"],),
        ),
        Mistake(
            "one-axis",
            "You interpolated along the rows and took one of the matrices of the table as it is. Both axes count.",
            (
                lambda g: serving_steps.bilinear(_u(g), 0.0, *_corners(g)),
                lambda g: serving_steps.bilinear(_u(g), 1.0, *_corners(g)),
            ),
        ),
    ),
    nudge="Fractions first: (rows - 64)/64, and (millions - 24)/16. Interpolate along the rows for each matrix, then between "
    "the two.",
    solution="""\
g = inputs("14.6", seed=SEED)
u, v = (g["rows"] - 64) / 64, (g["millions"] - 24) / 16
answer = serving_steps.bilinear(u, v, g["low_small"], g["high_small"], g["low_large"], g["high_large"])""",
)


_E7 = Exercise(
    id="14.7",
    slug=SLUG,
    title="The step in a staircase",
    objective=_TABLE,
    points=2,
    prompt="A simulator takes the share of the peak from the nearest entry of its table: {low} up to {border} rows, {high} "
    "from there on. Its time is work over share and peak. By which factor does the time of a product change when a batch "
    "of {border} sequences gets one more (as a number like 0.9)?",
    unit="1",
    options={
        "border": Options((12, 24, 48, 96), "1", "rows at which the nearest entry changes"),
        "low": Options((0.05, 0.06, 0.07), "1", "share of the lower entry"),
        "high": Options((0.09, 0.11, 0.12), "1", "share of the upper entry"),
    },
    solve=lambda g: (g["border"] + 1) / g["border"] * g["low"] / g["high"],
    mistakes=(
        Mistake(
            "work-alone",
            "You let the work grow and the share stay. At the border the share jumps.",
            (lambda g: (g["border"] + 1) / g["border"],),
        ),
        Mistake(
            "share-upside-down",
            "A larger share makes the time shorter, not longer.",
            (lambda g: (g["border"] + 1) / g["border"] * g["high"] / g["low"],),
        ),
        Mistake(
            "work-forgotten",
            "One more row is also more work: {border} became one more.",
            (lambda g: g["low"] / g["high"],),
        ),
    ),
    nudge="Time = work/(share x peak). Work grows by one row in {border}; the share goes from {low} to {high}.",
    solution="""\
g = inputs("14.7", seed=SEED)
answer = (g["border"] + 1) / g["border"] * g["low"] / g["high"]""",
    tolerance=0.005,
)


# 14.8 how many maxima


def _two(g: Inputs) -> Num:
    return serving_steps.granularity_ratio(g["compute_a"], g["memory_a"], g["compute_b"], g["memory_b"])


_E8 = Exercise(
    id="14.8",
    slug=SLUG,
    title="One maximum or two",
    objective=_GRAIN,
    points=2,
    prompt="In a step the products take {compute_a} of arithmetic and {memory_a} of traffic, attention {compute_b} of "
    "arithmetic and {memory_b} of traffic. How many times as long is the step, with a maximum for each of the two, as one "
    "maximum over the whole step says?",
    unit="1",
    options={
        "compute_a": Options((9e-3, 8e-3, 7e-3), "s", "arithmetic of the products"),
        "memory_a": Options((3e-3, 4e-3), "s", "traffic of the products"),
        "compute_b": Options((0.5e-3, 0.8e-3), "s", "arithmetic of attention"),
        "memory_b": Options((4e-3, 4.5e-3, 5e-3), "s", "traffic of attention"),
    },
    solve=_two,
    mistakes=(
        Mistake(
            "upside-down",
            "You divided the other way round. The sum of two maxima is never below the maximum of two sums.",
            (lambda g: 1 / _two(g),),
        ),
        Mistake(
            "no-overlap",
            "You added arithmetic and traffic. Inside one kernel they overlap, and the longer one counts.",
            (
                lambda g: (
                    (g["compute_a"] + g["memory_a"] + g["compute_b"] + g["memory_b"])
                    / max(g["compute_a"] + g["compute_b"], g["memory_a"] + g["memory_b"])
                ),
            ),
        ),
        Mistake(
            "the-longest-alone",
            "You divided by the longest of the four. One maximum over the step compares two sums.",
            (
                lambda g: (
                    (max(g["compute_a"], g["memory_a"]) + max(g["compute_b"], g["memory_b"]))
                    / max(g["compute_a"], g["memory_b"])
                ),
            ),
        ),
    ),
    nudge="Above: the longer of the first two plus the longer of the last two. Below: the longer of the two sums.",
    solution="""\
g = inputs("14.8", seed=SEED)
answer = serving_steps.granularity_ratio(g["compute_a"], g["memory_a"], g["compute_b"], g["memory_b"])""",
)


# 14.9 and 14.10 the step


def _added(g: Inputs, products: float = 1.0, prompts: float = 1.0, answers: float = 1.0, head: float = 1.0) -> Num:
    return serving_steps.serving_step_time(
        products * g["projections"],
        products * g["mlp"],
        head=head * g["head"],
        prefill_attention=prompts * g["prefill_attention"],
        decode_attention=answers * g["decode_attention"],
        elementwise=g["elementwise"],
    )


_E9 = Exercise(
    id="14.9",
    slug=SLUG,
    title="A step with a prompt in it",
    objective=_STEP,
    points=2,
    prompt="A step works on 500 tokens of a prompt and on 64 running sequences. Over all 564 rows the projections take "
    "{projections} and the MLP {mlp}; the 65 rows of the head take {head}, passes over vectors {elementwise}. Attention "
    "takes {prefill_attention} for the prompt and {decode_attention} for the answers. How long is the step?",
    unit="s",
    options={
        "projections": Options((5.2e-3, 4.4e-3), "s", "projections"),
        "mlp": Options((10.5e-3, 9.1e-3), "s", "MLP"),
        "head": Options((0.3e-3, 0.4e-3), "s", "LM head"),
        "elementwise": Options((1.9e-3, 2.2e-3), "s", "passes over vectors"),
        "prefill_attention": Options((1.1e-3, 1.4e-3), "s", "attention of the prompt"),
        "decode_attention": Options((3.0e-3, 3.7e-3), "s", "attention of the answers"),
    },
    solve=_added,
    mistakes=(
        Mistake(
            "two-passes",
            "You ran the products twice, once for the prompt and once for the answers. They share one pass, which is why "
            "servers mix them.",
            (lambda g: _added(g, products=2.0),),
        ),
        Mistake(
            "longer-attention",
            "You took the longer of the two attentions. They are two kernels on one stream.",
            (lambda g: _added(g) - min(g["prefill_attention"], g["decode_attention"]),),
        ),
        Mistake(
            "products-alone",
            "Those are the products. Attention and the passes over vectors come on top.",
            (lambda g: g["projections"] + g["mlp"], lambda g: g["projections"] + g["mlp"] + g["head"]),
        ),
        Mistake(
            "vectors-forgotten",
            "The kernels between the products take time as well.",
            (lambda g: _added(g) - g["elementwise"],),
        ),
    ),
    nudge="Kernels follow each other: add everything once.",
    solution="""\
g = inputs("14.9", seed=SEED)
answer = serving_steps.serving_step_time(
    g["projections"],
    g["mlp"],
    head=g["head"],
    prefill_attention=g["prefill_attention"],
    decode_attention=g["decode_attention"],
    elementwise=g["elementwise"],
)""",
)


def _left(g: Inputs, share: float | None = None) -> Num:
    e = g["share"] if share is None else share
    return (g["itl"] - roofline.memory_time(g["bytes"], e * g["memory_bandwidth"])) / g["layers"]


_E10 = Exercise(
    id="14.10",
    slug=SLUG,
    title="What is left per layer",
    objective=_STEP,
    points=2,
    prompt="Decoding alone, a model of {layers} layers reads {bytes} a step from memory of {memory_bandwidth}, and {itl} were "
    "measured between tokens. Say that reading sustains {share} of the bandwidth. What is left for each layer?",
    unit="s",
    options={
        "layers": Options((32, 40, 36), "1", "layers"),
        "bytes": Options((13.2e9, 12.9e9, 13.5e9), "byte", "weights and cache that a step reads"),
        "memory_bandwidth": Options((3.35e12,), "byte/s", "memory bandwidth"),
        "itl": Options((6.3e-3, 6.5e-3, 6.8e-3), "s", "measured time between tokens"),
        "share": Options((0.85, 0.89, 0.93), "1", "share of the bandwidth"),
    },
    solve=_left,
    mistakes=(
        Mistake(
            "datasheet-bandwidth",
            "You let it read at the datasheet's bandwidth. What is left then also holds what reading really takes longer.",
            (lambda g: _left(g, share=1.0),),
        ),
        Mistake(
            "per-step",
            "That is left of the whole step. Share it among {layers} layers.",
            (lambda g: _left(g) * g["layers"],),
        ),
        Mistake(
            "share-of-the-time",
            "You multiplied the time by the share. A smaller share makes reading longer.",
            (lambda g: (g["itl"] - g["share"] * g["bytes"] / g["memory_bandwidth"]) / g["layers"],),
        ),
        Mistake(
            "everything",
            "That is the whole time per layer. Reading takes most of it.",
            (lambda g: g["itl"] / g["layers"],),
        ),
    ),
    nudge="Measured time minus bytes over sustained bandwidth, over the layers. Try another share and see how much the answer "
    "moves.",
    solution="""\
g = inputs("14.10", seed=SEED)
read = g["bytes"] / (g["share"] * g["memory_bandwidth"])
answer = (g["itl"] - read) / g["layers"]""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10)
