"""Chapter 16, mixture of experts: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import inference
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options
from mlsysim.serving_steps import experts

SLUG = "16-mixture-of-experts"
_FULL = "Count the tokens that an expert gets, and what that makes of its products."
_TIME = "Compute the time of a layer of experts from its arithmetic and from the weights it really reads."
_CROSS = "Find the batch from which experts are bound by arithmetic, and say when there is one."
_SHARED = "Weigh a shared expert by its work and by its time."
_SEND = "Compare what dispatch and combine send with all-reduces, and hide it behind a second batch."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_FULL, "16.1"),
    (_TIME, "16.3"),
    (_CROSS, "16.5"),
    (_SHARED, "16.6"),
    (_SEND, "16.8"),
)


# 16.1 and 16.2 how full an expert is


def _pool(g: Inputs) -> float:
    return float(g["devices"] * g["tokens"])


def _rows(g: Inputs, pool: float | None = None, top_k: float = 0.0, hit: bool = True) -> Num:
    t = _pool(g) if pool is None else pool
    k = top_k or g["top_k"]
    spread = inference.experts_hit(g["experts"], g["top_k"], t) if hit else g["experts"]
    return experts.tokens_per_expert(t, k, spread)


_E1 = Exercise(
    id="16.1",
    slug=SLUG,
    title="Rows of a busy expert",
    objective=_FULL,
    points=2,
    prompt="A layer has {experts} experts, of which each token goes to {top_k}, chosen evenly. {devices} devices share "
    "the experts and bring {tokens} tokens each. How many rows does the product of an expert have on average, among the "
    "experts that get any?",
    unit="1",
    options={
        "experts": Options((256, 128, 160), "1", "routed experts"),
        "top_k": Options((8, 6), "1", "experts per token"),
        "devices": Options((4, 2, 8), "1", "devices that share the experts"),
        "tokens": Options((3, 4, 5), "1", "tokens of one device"),
    },
    solve=_rows,
    mistakes=(
        Mistake(
            "all-experts",
            "You spread the tokens over all experts. With so few tokens many experts get none; the others have more.",
            (lambda g: _rows(g, hit=False),),
        ),
        Mistake(
            "one-device",
            "You routed the tokens of one device. An expert gets tokens from all {devices} devices.",
            (lambda g: _rows(g, pool=g["tokens"]),),
        ),
        Mistake(
            "one-copy",
            "You let a token go to one expert. It goes to {top_k}.",
            (lambda g: _rows(g, top_k=1.0),),
        ),
    ),
    nudge="Tokens of all devices x experts per token, over the experts that are hit.",
    solution="""\
g = inputs("16.1", seed=SEED)
pool = g["devices"] * g["tokens"]
hit = inference.experts_hit(g["experts"], g["top_k"], pool)
answer = serving_steps.experts.tokens_per_expert(pool, g["top_k"], hit)""",
    tolerance=0.005,
)


_E2 = Exercise(
    id="16.2",
    slug=SLUG,
    title="Half a tile for nothing",
    objective=_FULL,
    points=1,
    prompt="A grouped product sustains {sustained} of the peak when its experts have many rows. Its tiles are {tile} rows "
    "high, and the last tile of an expert is half empty on average. Which share of the peak does its arithmetic reach at "
    "{rows} rows per expert?",
    unit="1",
    options={
        "sustained": Options((0.63, 0.7, 0.58), "1", "share of the peak with many rows"),
        "tile": Options((128, 64), "1", "rows of a tile"),
        "rows": Options((48, 96, 160, 224, 80), "1", "rows per expert"),
    },
    solve=lambda g: experts.grouped_share(g["rows"], g["sustained"], g["tile"]),
    mistakes=(
        Mistake(
            "no-tiles",
            "That is the share with many rows. At {rows} rows the padding of the last tile counts.",
            (lambda g: g["sustained"],),
        ),
        Mistake(
            "a-whole-tile",
            "You wasted a whole tile per expert. The last one is half empty on average.",
            (lambda g: g["sustained"] * g["rows"] / (g["rows"] + g["tile"]),),
        ),
        Mistake(
            "share-of-padding",
            "You gave the share that is padding. Asked is the share of the peak that useful rows reach.",
            (lambda g: g["sustained"] * (g["tile"] / 2) / (g["rows"] + g["tile"] / 2),),
        ),
    ),
    nudge="The useful rows over the rows worked on, times what the kernel sustains.",
    solution="""\
g = inputs("16.2", seed=SEED)
answer = serving_steps.experts.grouped_share(g["rows"], g["sustained"], g["tile"])""",
)


# 16.3 and 16.4 the time


def _params(g: Inputs) -> float:
    return float(3 * g["hidden"] * g["width"])


def _layer(g: Inputs, hit: float | None = None, start: float = 1.0, pool: float | None = None) -> Num:
    t = _pool(g) if pool is None else pool
    found = inference.experts_hit(g["experts"], g["top_k"], t) if hit is None else hit
    return experts.grouped_time(
        g["tokens"] * g["top_k"],
        _params(g),
        found / g["devices"],
        1.0,
        g["peak_flops"],
        g["memory_bandwidth"],
        0.3,
        g["memory_share"],
        start * g["start"],
    )


_E3 = Exercise(
    id="16.3",
    slug=SLUG,
    title="Reading what is hit",
    objective=_TIME,
    points=3,
    prompt="A layer has {experts} experts of three matrices {hidden} x {width}, stored in one byte per weight, and "
    "sends each token to {top_k}. {devices} devices share the experts and bring {tokens} tokens each. A device has "
    "{memory_bandwidth}, of which {memory_share} is reached, and {peak_flops}, of which 0.3 is reached; the kernels start "
    "in {start}. How long do the routed experts take, activations left out?",
    unit="s",
    options={
        "experts": Options((256, 192), "1", "routed experts"),
        "hidden": Options((7168, 6144), "1", "hidden size"),
        "width": Options((2048, 1536), "1", "width of an expert"),
        "top_k": Options((8, 6), "1", "experts per token"),
        "devices": Options((8, 4), "1", "devices that share the experts"),
        "tokens": Options((2, 3), "1", "tokens of one device"),
        "memory_bandwidth": Options((3.35e12, 4.8e12), "byte/s", "memory bandwidth of a device"),
        "memory_share": Options((0.85,), "1", "share of it that is reached"),
        "peak_flops": Options((1979e12,), "FLOP/s", "dense peak of a device"),
        "start": Options((25e-6,), "s", "start of the kernels"),
    },
    solve=_layer,
    mistakes=(
        Mistake(
            "all-read",
            "You read all experts of the device. With so few tokens some get none, and those stay unread.",
            (lambda g: _layer(g, hit=g["experts"]),),
        ),
        Mistake(
            "one-device",
            "You routed the tokens of one device alone. The experts of a device serve the tokens of all {devices}.",
            (lambda g: _layer(g, pool=g["tokens"]),),
        ),
        Mistake(
            "no-start",
            "The kernels start in {start}, however little they do.",
            (lambda g: _layer(g, start=0.0),),
        ),
        Mistake(
            "one-matrix",
            "You read one matrix per expert. A gated expert has three.",
            (lambda g: (_layer(g, start=0.0)) / 3 + g["start"],),
        ),
    ),
    nudge="Experts hit by the tokens of all devices, a device's share of them, three matrices each, over the bandwidth "
    "that is reached; plus the start. Check that the arithmetic is shorter.",
    solution="""\
g = inputs("16.3", seed=SEED)
hit = inference.experts_hit(g["experts"], g["top_k"], g["devices"] * g["tokens"])
params = 3 * g["hidden"] * g["width"]
answer = serving_steps.experts.grouped_time(
    g["tokens"] * g["top_k"], params, hit / g["devices"], 1, g["peak_flops"], g["memory_bandwidth"],
    0.3, g["memory_share"], g["start"],
)""",
    tolerance=0.004,
)


def _full(g: Inputs, share: float | None = None, macs: float = 2.0, start: float = 1.0) -> Num:
    e = experts.grouped_share(g["rows"], 0.63) if share is None else share
    return experts.grouped_time(
        g["rows"] * g["local"],
        g["params"],
        g["local"],
        1.0,
        g["peak_flops"],
        3.35e12,
        e,
        1.0,
        start * g["start"],
        flops_per_mac=macs,
    )


_E4 = Exercise(
    id="16.4",
    slug=SLUG,
    title="Many rows",
    objective=_TIME,
    points=2,
    prompt="A device holds {local} experts of {params} weights each, and each gets {rows} rows. The grouped product "
    "sustains 0.63 of {peak_flops} with many rows and loses half a tile of 128 rows per expert; reading the weights is "
    "faster than that. The kernels start in {start}. How long does it take?",
    unit="s",
    options={
        "local": Options((8, 4, 16), "1", "experts on the device"),
        "params": Options((44e6, 38e6), "1", "weights of one expert"),
        "rows": Options((1024, 640, 512, 768), "1", "rows per expert"),
        "peak_flops": Options((1979e12, 989e12), "FLOP/s", "dense peak"),
        "start": Options((22e-6, 50e-6), "s", "start of the kernels"),
    },
    solve=_full,
    mistakes=(
        Mistake(
            "full-tiles",
            "You forgot the padding: half a tile per expert is worked on for nothing.",
            (lambda g: _full(g, share=0.63),),
        ),
        Mistake(
            "macs",
            "You counted multiply-accumulates. Each is two FLOP.",
            (lambda g: _full(g, macs=1.0),),
        ),
        Mistake(
            "at-peak",
            "You ran the product at the peak. It sustains 0.63 of it, less the padding.",
            (lambda g: _full(g, share=1.0),),
        ),
        Mistake(
            "no-start",
            "The start of the kernels is missing.",
            (lambda g: _full(g, start=0.0),),
        ),
    ),
    nudge="Two FLOP per row and weight, over the peak times its share at so many rows, plus the start.",
    solution="""\
g = inputs("16.4", seed=SEED)
share = serving_steps.experts.grouped_share(g["rows"], 0.63, 128)
answer = serving_steps.experts.grouped_time(
    g["rows"] * g["local"], g["params"], g["local"], 1, g["peak_flops"], 3.35e12, share, 1, g["start"]
)""",
    tolerance=0.002,
)


# 16.5 the crossover


def _cross(
    g: Inputs, devices: float | None = None, top_k: float | None = None, macs: float = 2.0, e: float = 1.0
) -> Num:
    return experts.moe_crossover(
        e * g["experts"],
        g["top_k"] if top_k is None else top_k,
        g["devices"] if devices is None else devices,
        1.0,
        g["peak_flops"],
        g["memory_bandwidth"],
        g["compute_share"],
        0.85,
        macs,
    )


_E5 = Exercise(
    id="16.5",
    slug=SLUG,
    title="One crossover, if the share is one",
    objective=_CROSS,
    points=2,
    prompt="{devices} devices share {experts} experts; each token goes to {top_k}. Weights take one byte. At every batch "
    "the products reach {compute_share} of {peak_flops}, and reading reaches 0.85 of {memory_bandwidth}. From how many "
    "tokens per device on does the arithmetic take longer than reading all experts?",
    unit="1",
    options={
        "devices": Options((16, 4), "1", "devices that share the experts"),
        "experts": Options((256, 192), "1", "routed experts"),
        "top_k": Options((8, 6), "1", "experts per token"),
        "compute_share": Options((0.35, 0.6), "1", "share of the peak, at every batch"),
        "peak_flops": Options((1979e12,), "FLOP/s", "dense peak of a device"),
        "memory_bandwidth": Options((3.35e12, 4.8e12), "byte/s", "memory bandwidth of a device"),
    },
    solve=_cross,
    mistakes=(
        Mistake(
            "one-device",
            "You gave all experts to one device. {devices} share them, so each reads less and the crossover comes earlier.",
            (lambda g: _cross(g, devices=1.0),),
        ),
        Mistake(
            "rows-of-an-expert",
            "Those are the rows of one expert. A device has {experts} / {devices} experts, and each token brings {top_k} rows.",
            (lambda g: _cross(g, devices=1.0, top_k=1.0, e=1 / g["experts"]),),
        ),
        Mistake(
            "one-expert-per-token",
            "You let a token go to one expert. Each of its {top_k} copies is a row.",
            (lambda g: _cross(g, top_k=1.0),),
        ),
        Mistake(
            "macs",
            "You counted multiply-accumulates. Each is two FLOP.",
            (lambda g: _cross(g, macs=1.0),),
        ),
    ),
    nudge="Set 2 b k weights / (share x peak) equal to the weights of the device's experts over the bandwidth reached.",
    solution="""\
g = inputs("16.5", seed=SEED)
answer = serving_steps.experts.moe_crossover(
    g["experts"], g["top_k"], g["devices"], 1, g["peak_flops"], g["memory_bandwidth"], g["compute_share"], 0.85
)""",
)


# 16.6 and 16.7 shared experts

_E6 = Exercise(
    id="16.6",
    slug=SLUG,
    title="A shared expert's share of the work",
    objective=_SHARED,
    points=1,
    prompt="Each token goes to {top_k} of {experts} routed experts of width {expert_width}, and every token to shared "
    "experts of {shared_width} together. Which share of the layer's arithmetic do the shared ones do?",
    unit="1",
    options={
        "top_k": Options((8, 6, 4), "1", "routed experts per token"),
        "experts": Options((256, 160, 64), "1", "routed experts"),
        "expert_width": Options((2048, 1536, 1408), "1", "width of a routed expert"),
        "shared_width": Options((3072, 5632), "1", "width of the shared experts"),
    },
    solve=lambda g: experts.shared_expert_share(g["shared_width"], g["top_k"], g["expert_width"]),
    mistakes=(
        Mistake(
            "over-routed",
            "You divided by the routed work. The whole has both.",
            (lambda g: g["shared_width"] / (g["top_k"] * g["expert_width"]),),
        ),
        Mistake(
            "all-experts",
            "You counted all {experts} experts. A token meets {top_k} of them.",
            (lambda g: g["shared_width"] / (g["shared_width"] + g["experts"] * g["expert_width"]),),
        ),
        Mistake(
            "by-number",
            "You counted experts as if all had one width. Work goes with the width.",
            (lambda g: 1 / (1 + g["top_k"]),),
        ),
    ),
    nudge="Widths that a token meets: the shared one, and {top_k} routed ones.",
    solution="""\
g = inputs("16.6", seed=SEED)
answer = serving_steps.experts.shared_expert_share(g["shared_width"], g["top_k"], g["expert_width"])""",
)


def _routed(g: Inputs) -> Num:
    return experts.grouped_time(g["pairs"], 44e6, g["local"], 1.0, 1979e12, 3.35e12, 0.4, 0.85, 25e-6)


_E7 = Exercise(
    id="16.7",
    slug=SLUG,
    title="And its share of the time",
    objective=_SHARED,
    points=2,
    prompt="A device reads {local} routed experts of 44 million weights in one byte each at 0.85 of 3.35 TB/s, works on "
    "{pairs} token-expert pairs at 0.4 of 1979 TFLOP/s, and starts in 25 us; the longer of reading and arithmetic counts. "
    "The shared expert then takes {shared}. Which share of the layer's time is that?",
    unit="1",
    options={
        "local": Options((32, 8, 2, 16), "1", "experts of the device, all hit"),
        "pairs": Options((512, 256), "1", "token-expert pairs on the device"),
        "shared": Options((44e-6, 38e-6, 36e-6, 41e-6), "s", "time of the shared expert"),
    },
    solve=lambda g: g["shared"] / (g["shared"] + _routed(g)),
    mistakes=(
        Mistake(
            "share-of-work",
            "That is a share of work, one of nine experts. The routed ones read far more weights per token than the "
            "shared one.",
            (lambda g: experts.shared_expert_share(1, 8, 1),),
        ),
        Mistake(
            "over-routed",
            "You divided by the time of the routed experts. The layer takes both, one after the other.",
            (lambda g: g["shared"] / _routed(g),),
        ),
        Mistake(
            "no-start",
            "The routed experts' 25 us of start are missing.",
            (lambda g: g["shared"] / (g["shared"] + _routed(g) - 25e-6),),
        ),
    ),
    nudge="Time of the routed experts first: reading or arithmetic, whichever is longer, plus the start. Then add.",
    solution="""\
g = inputs("16.7", seed=SEED)
routed = serving_steps.experts.grouped_time(g["pairs"], 44e6, g["local"], 1, 1979e12, 3.35e12, 0.4, 0.85, 25e-6)
answer = g["shared"] / (g["shared"] + routed)""",
    tolerance=0.004,
)


# 16.8 and 16.9 messages

_E8 = Exercise(
    id="16.8",
    slug=SLUG,
    title="An all-reduce instead?",
    objective=_SEND,
    points=2,
    prompt="{ranks} devices share the experts, and each token goes to {top_k}. Tokens travel to their experts in "
    "{dispatch_bytes} per number and back in {combine_bytes}. Instead one could all-reduce the tokens of all devices "
    "twice, each time sending every token once, in 2 B per number. How many times the bytes of dispatch and combine is "
    "that?",
    unit="1",
    options={
        "ranks": Options((8, 16, 32, 28, 24), "1", "devices that share the experts"),
        "top_k": Options((8, 6, 4), "1", "experts per token"),
        "dispatch_bytes": Options((1,), "byte", "per number, on the way to an expert"),
        "combine_bytes": Options((2, 4), "byte", "per number, on the way back"),
    },
    solve=lambda g: experts.exchange_ratio(g["ranks"], g["top_k"], 2, 2, g["dispatch_bytes"], g["combine_bytes"]),
    mistakes=(
        Mistake(
            "no-way-back",
            "You counted the dispatch alone. The results come back, in {combine_bytes} per number.",
            (lambda g: experts.exchange_ratio(g["ranks"], g["top_k"], 2, 2, 0, g["dispatch_bytes"]),),
        ),
        Mistake(
            "one-copy",
            "You sent one copy of each token. It goes to {top_k} experts.",
            (lambda g: experts.exchange_ratio(g["ranks"], 1, 2, 2, g["dispatch_bytes"], g["combine_bytes"]),),
        ),
        Mistake(
            "one-all-reduce",
            "You counted one all-reduce. There are two, before and after the experts.",
            (lambda g: experts.exchange_ratio(g["ranks"], g["top_k"], 1, 2, g["dispatch_bytes"], g["combine_bytes"]),),
        ),
        Mistake(
            "own-tokens",
            "You all-reduced the tokens of one device. The devices hold different tokens: all of them must travel.",
            (lambda g: experts.exchange_ratio(1, g["top_k"], 2, 2, g["dispatch_bytes"], g["combine_bytes"]),),
        ),
    ),
    nudge="Per token and number: 2 x {ranks} x 2 bytes against {top_k} x (there + back).",
    solution="""\
g = inputs("16.8", seed=SEED)
answer = serving_steps.experts.exchange_ratio(g["ranks"], g["top_k"], 2, 2, g["dispatch_bytes"], g["combine_bytes"])""",
)


def _rate(g: Inputs, units: float | None = None) -> Num:
    share = g["compute_units"] if units is None else units
    return 2 * g["tokens"] / experts.two_batch_time(g["compute"], g["messages"], share)


_E9 = Exercise(
    id="16.9",
    slug=SLUG,
    title="Two batches in turn",
    objective=_SEND,
    points=2,
    prompt="A device takes two micro-batches of {tokens} tokens through a model in turn. The kernels of one micro-batch "
    "take {compute} on all processors, its messages {messages}; the messages occupy processors, so {compute_units} of "
    "them are left to the kernels. How many tokens per second does the device work through at best?",
    unit="1/s",
    options={
        "tokens": Options((8192, 6144, 4096), "1", "tokens of a micro-batch"),
        "compute": Options((0.5, 0.6, 0.7), "s", "kernels of a micro-batch, on all processors"),
        "messages": Options((0.3, 0.4), "s", "messages of a micro-batch"),
        "compute_units": Options((0.8, 0.75), "1", "share of the processors left to the kernels"),
    },
    solve=_rate,
    mistakes=(
        Mistake(
            "nothing-hidden",
            "You let kernels and messages follow each other. While one batch computes, the other's messages travel.",
            (lambda g: g["tokens"] / (g["compute"] / g["compute_units"] + g["messages"]),),
        ),
        Mistake(
            "all-processors",
            "You gave the kernels all processors. The messages take some: {compute_units} are left.",
            (lambda g: _rate(g, units=1.0),),
        ),
        Mistake(
            "one-batch",
            "You counted the tokens of one micro-batch against the time of both.",
            (lambda g: _rate(g) / 2,),
        ),
        Mistake(
            "messages-bind",
            "You divided by the messages. The kernels take longer here, and the longer one sets the pace.",
            (lambda g: g["tokens"] / g["messages"],),
        ),
    ),
    nudge="Both micro-batches take twice the longer of kernels (slowed by the processors they lost) and messages.",
    solution="""\
g = inputs("16.9", seed=SEED)
time = serving_steps.experts.two_batch_time(g["compute"], g["messages"], g["compute_units"])
answer = 2 * g["tokens"] / time""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
