"""Chapter 17, request simulation: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import capacity, serving
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "17-request-simulation"
_PROMPT = "Follow a prompt through the token budget of a server's steps."
_CACHE = "Count the blocks of cache that a server has, and those that a sequence takes."
_LOAD = "Compute the rate at which a server saturates, and what the queue does beyond it."
_READ = "Read latencies: percentiles of a sample, and the two times per token."

OBJECTIVES: tuple[tuple[str, str], ...] = ((_PROMPT, "17.1"), (_CACHE, "17.4"), (_LOAD, "17.6"), (_READ, "17.9"))

# 17.1 to 17.3 a prompt's way through the steps

_BUDGET = {
    "tokens": Options((7100, 9250, 11050, 12550), "1", "tokens of the prompt"),
    "budget": Options((640, 768, 896), "1", "tokens of a step"),
    "running": Options((160, 192, 224), "1", "sequences that decode"),
}


def _steps(g: Inputs, running: float | None = None) -> Num:
    return serving.prompt_steps(g["tokens"], g["budget"], g["running"] if running is None else running)


_E1 = Exercise(
    id="17.1",
    slug=SLUG,
    title="In how many steps?",
    objective=_PROMPT,
    points=1,
    prompt="A server's steps have a budget of {budget} tokens, and {running} sequences decode. A prompt of {tokens} "
    "tokens comes; no other prompt is ahead of it. In how many steps is it worked on?",
    unit="1",
    options=_BUDGET,
    solve=_steps,
    mistakes=(
        Mistake(
            "whole-budget",
            "You gave the prompt the whole budget. The {running} sequences that decode take a token each first.",
            (lambda g: _steps(g, 0.0),),
        ),
        Mistake(
            "in-one", "One step is what an unchunked prompt takes; here no step has room for it.", (lambda g: 1.0,)
        ),
        Mistake(
            "fraction",
            "A step is whole: what is left over needs one more.",
            (lambda g: g["tokens"] / (g["budget"] - g["running"]), lambda g: _steps(g) - 1),
        ),
    ),
    nudge="What the budget leaves after one token for each running sequence is the size of a chunk; then round up.",
    solution="""\
g = inputs("17.1", seed=SEED)
answer = serving.prompt_steps(g["tokens"], g["budget"], g["running"])""",
    tolerance=0.005,
)

_E2 = Exercise(
    id="17.2",
    slug=SLUG,
    title="What the cache saves",
    objective=_PROMPT,
    points=1,
    prompt="A prompt has {tokens} tokens, of which the first {prefix} are in the prefix cache of a server with blocks of "
    "{block} tokens. How many of its tokens does the server work on?",
    unit="1",
    options={
        "tokens": Options((260, 300, 340, 380), "1", "tokens of the prompt"),
        "prefix": Options((205, 220, 239), "1", "leading tokens that are cached"),
        "block": Options((32, 64, 128), "1", "tokens in a block"),
    },
    solve=lambda g: serving.prompt_computed(g["tokens"], g["prefix"], g["block"]),
    mistakes=(
        Mistake(
            "token-by-token",
            "You saved every cached token. Only whole blocks of {block} tokens are found again.",
            (lambda g: float(g["tokens"] - g["prefix"]),),
        ),
        Mistake(
            "rounded-up",
            "You counted the last, partly filled block as cached too.",
            (lambda g: g["tokens"] - -(-g["prefix"] // g["block"]) * g["block"],),
        ),
        Mistake(
            "what-is-cached",
            "That is what the cache saves. The rest is what is worked on.",
            (lambda g: g["tokens"] - serving.prompt_computed(g["tokens"], g["prefix"], g["block"]),),
        ),
        Mistake("all-of-it", "That is the whole prompt, as without a cache.", (lambda g: float(g["tokens"]),)),
    ),
    nudge="Whole blocks in the cached prefix, times the block; take that off the prompt.",
    solution="""\
g = inputs("17.2", seed=SEED)
answer = serving.prompt_computed(g["tokens"], g["prefix"], g["block"])""",
    tolerance=0.002,
)


def _first(g: Inputs, steps: Num) -> Num:
    return g["queue"] + steps * g["step_time"]


_E3 = Exercise(
    id="17.3",
    slug=SLUG,
    title="The first token",
    objective=_PROMPT,
    points=2,
    prompt="A prompt of {tokens} tokens waits {queue} for its first step. Each step has a budget of {budget} tokens, "
    "{running} sequences decode, and a full step takes {step_time}. When does its first token come, counted from its "
    "arrival, if every step up to then is full?",
    unit="s",
    options={
        **_BUDGET,
        "queue": Options((0.34, 0.57), "s", "wait"),
        "step_time": Options((45e-3, 60e-3), "s", "time of a full step"),
    },
    solve=lambda g: _first(g, _steps(g)),
    mistakes=(
        Mistake(
            "queue-forgotten",
            "That is the time of its prompt. The {queue} before count as well.",
            (lambda g: _steps(g) * g["step_time"],),
        ),
        Mistake(
            "whole-budget",
            "The sequences that decode take their tokens of each step first, so the chunks are smaller.",
            (lambda g: _first(g, _steps(g, 0.0)),),
        ),
        Mistake(
            "one-more-step",
            "No further step is needed: the step that ends the prompt makes the first token.",
            (lambda g: _first(g, _steps(g) + 1),),
        ),
    ),
    nudge="Wait, plus steps times the time of a step; the last of them makes the first token.",
    solution="""\
g = inputs("17.3", seed=SEED)
answer = g["queue"] + serving.prompt_steps(g["tokens"], g["budget"], g["running"]) * g["step_time"]""",
    tolerance=0.005,
)

# 17.4 and 17.5 blocks of cache


def _blocks(
    g: Inputs, usable: float | None = None, reserve: float | None = None, token: float = 1.0, block: float = 16.0
) -> Num:
    kept = g["reserve"] if reserve is None else reserve
    budget = capacity.kv_budget(g["capacity"], g["weights"], 1.0, g["usable"] if usable is None else usable, kept)
    return budget // (block * token * g["token_bytes"])


_E4 = Exercise(
    id="17.4",
    slug=SLUG,
    title="How many blocks?",
    objective=_CACHE,
    points=2,
    prompt="A device reports {capacity} of memory; a server takes {usable} of it. The weights need {weights}, activations "
    "{reserve}. The cache takes {token_bytes} per token, in blocks of 16 tokens. How many whole blocks are there?",
    unit="1",
    options={
        "capacity": Options((84.9e9, 95e9, 150e9), "byte", "memory that the driver reports"),
        "usable": Options((0.9, 0.85), "1", "share that the server takes"),
        "weights": Options((27e9, 33e9, 41e9), "byte", "weights"),
        "reserve": Options((2.1e9, 3.4e9), "byte", "activations"),
        "token_bytes": Options((131072.0, 196608.0), "byte", "cache of one token"),
    },
    solve=_blocks,
    mistakes=(
        Mistake(
            "everything-usable",
            "You gave the server all the memory; it takes a share of {usable}.",
            (lambda g: _blocks(g, usable=1.0),),
        ),
        Mistake(
            "reserve-forgotten",
            "Activations lie in the same share: take {reserve} off.",
            (lambda g: _blocks(g, reserve=0.0),),
        ),
        Mistake("tokens", "That is the number of tokens. A block holds sixteen.", (lambda g: _blocks(g, block=1.0),)),
        Mistake(
            "keys-and-values-again",
            "The cache of a token already counts its keys and its values; do not double it.",
            (lambda g: _blocks(g, token=2.0),),
        ),
    ),
    nudge="Share x capacity, less weights and activations, over 16 x the cache of a token; then round down.",
    solution="""\
g = inputs("17.4", seed=SEED)
budget = capacity.kv_budget(g["capacity"], g["weights"], 1.0, g["usable"], g["reserve"])
answer = budget // (16 * g["token_bytes"])""",
    tolerance=0.005,
)


def _reserve(g: Inputs, tokens: float = 1.0, ffn: float = 1.0, logits: float = 1.0) -> Num:
    return serving.activation_reserve(
        tokens * g["tokens"], g["hidden"], ffn * g["ffn"], logits * g["sequences"], g["vocab"]
    )


_E5 = Exercise(
    id="17.5",
    slug=SLUG,
    title="Room for the largest step",
    objective=_CACHE,
    points=1,
    prompt="A server runs steps of up to {tokens} tokens with up to {sequences} sequences. Its model is {hidden} wide, with "
    "an MLP of {ffn} and a vocabulary of {vocab}, on one device. By this chapter's count, how much memory do the "
    "activations of the largest step need?",
    unit="byte",
    options={
        "tokens": Options((2048, 4096, 8192), "1", "token budget of a step"),
        "sequences": Options((256, 512), "1", "sequences"),
        "hidden": Options((4096, 5120), "1", "width"),
        "ffn": Options((13824, 17408), "1", "width of the MLP"),
        "vocab": Options((128256, 151936), "1", "vocabulary"),
    },
    solve=_reserve,
    mistakes=(
        Mistake(
            "no-mlp",
            "You left out the MLP: gate, up and their product, three times {ffn}.",
            (lambda g: _reserve(g, ffn=0.0),),
        ),
        Mistake("no-logits", "Every sequence has logits over the vocabulary.", (lambda g: _reserve(g, logits=0.0),)),
        Mistake(
            "logits-for-every-token",
            "Logits are needed for {sequences} sequences, not for every token of the step.",
            (lambda g: _reserve(g, logits=g["tokens"] / g["sequences"]),),
        ),
    ),
    nudge="2 bytes x tokens x (2 widths + 3 MLP widths), and 8 bytes x sequences x vocabulary.",
    solution="""\
g = inputs("17.5", seed=SEED)
answer = serving.activation_reserve(g["tokens"], g["hidden"], g["ffn"], g["sequences"], g["vocab"])""",
)

# 17.6 to 17.8 saturation


def _saturated(g: Inputs, budget: float | None = None, steps: float = 0.0) -> Num:
    return serving.saturation_rate(
        g["running"], g["output"] - 1 + steps, g["budget"] if budget is None else budget, g["prompt"], g["step_time"]
    )


_E6 = Exercise(
    id="17.6",
    slug=SLUG,
    title="Where it saturates",
    objective=_LOAD,
    points=2,
    prompt="A full server runs steps of {step_time} with {running} sequences that decode and a budget of {budget} tokens. "
    "Requests have prompts of {prompt} and answers of {output} tokens. How many requests per second does it complete?",
    unit="1/s",
    options={
        "step_time": Options((40e-3, 50e-3, 64e-3), "s", "time of a step"),
        "running": Options((96, 128), "1", "sequences that decode"),
        "budget": Options((512, 640), "1", "tokens of a step"),
        "prompt": Options((2000, 3000, 4500), "1", "tokens of a prompt"),
        "output": Options((41, 57), "1", "tokens of an answer"),
    },
    solve=_saturated,
    mistakes=(
        Mistake(
            "answers-only",
            "So many answers could be finished, but the prompts of the next requests must come in too, and the budget "
            "leaves little for them.",
            (lambda g: _saturated(g, budget=1e9),),
        ),
        Mistake(
            "whole-budget-for-prompts",
            "The sequences that decode take {running} tokens of every budget first.",
            (lambda g: g["budget"] / g["prompt"] / g["step_time"],),
        ),
        Mistake(
            "one-request-per-step-time",
            "That is one request at a time: a step works on many.",
            (lambda g: 1 / (g["output"] * g["step_time"]),),
        ),
    ),
    nudge="Two limits: sequences over decode steps, and what the budget leaves over the prompt. The smaller, per step.",
    solution="""\
g = inputs("17.6", seed=SEED)
answer = serving.saturation_rate(g["running"], g["output"] - 1, g["budget"], g["prompt"], g["step_time"])""",
)

_E7 = Exercise(
    id="17.7",
    slug=SLUG,
    title="An hour of overload",
    objective=_LOAD,
    points=1,
    prompt="A server completes requests at {capacity}. From nine o'clock on they come at {rate}, and the queue was empty. "
    "How long does the request wait that comes {time} later?",
    unit="s",
    options={
        "capacity": Options((10.0, 12.0, 16.0), "1/s", "requests per second completed"),
        "rate": Options((18.0, 21.0, 25.0), "1/s", "requests per second that come"),
        "time": Options((600.0, 900.0, 1500.0, 2400.0), "s", "time since the overload began"),
    },
    solve=lambda g: serving.overload_wait(g["rate"], g["capacity"], g["time"]),
    mistakes=(
        Mistake(
            "share-of-arrivals",
            "You divided the surplus by what comes. The queue drains at {capacity}.",
            (lambda g: (1 - g["capacity"] / g["rate"]) * g["time"],),
        ),
        Mistake(
            "length-of-the-queue",
            "That is how many are in front of it. Each takes its turn at {capacity}.",
            (lambda g: (g["rate"] - g["capacity"]) * g["time"],),
        ),
        Mistake(
            "ratio",
            "That counts the time that has passed as part of the wait.",
            (lambda g: g["rate"] / g["capacity"] * g["time"],),
        ),
    ),
    nudge="Requests in front of it, (rate - capacity) x time, over the capacity.",
    solution="""\
g = inputs("17.7", seed=SEED)
answer = serving.overload_wait(g["rate"], g["capacity"], g["time"])""",
)


def _alone(g: Inputs, variation: float = 0.0) -> Num:
    return capacity.mg1_wait(g["step_time"], g["rate"] * g["step_time"], variation)


_E8 = Exercise(
    id="17.8",
    slug=SLUG,
    title="The check with a known answer",
    objective=_LOAD,
    points=1,
    prompt="To test a simulator you let it run one sequence at a time, with answers of one token and steps of exactly "
    "{step_time}. Requests arrive as a Poisson process, at {rate} on average. Which mean wait must it report?",
    unit="s",
    options={
        "step_time": Options((0.1, 0.11, 0.12, 0.13), "s", "time of every step"),
        "rate": Options((4.0, 4.7, 5.4, 6.2, 6.8, 7.2, 3.3, 2.9), "1/s", "requests per second"),
    },
    solve=_alone,
    mistakes=(
        Mistake(
            "exponential", "That is the wait behind exponential times. Here all are equal.", (lambda g: _alone(g, 1.0),)
        ),
        Mistake(
            "with-its-own-step",
            "You added the request's own step. The wait ends when it begins.",
            (lambda g: _alone(g) + g["step_time"],),
        ),
        Mistake("no-wait", "Arrivals are random: some meet a step under way, or others that wait.", (lambda g: 0.0,)),
    ),
    nudge="M/D/1: rho/(1 - rho) times half a step.",
    solution="""\
g = inputs("17.8", seed=SEED)
answer = capacity.mg1_wait(g["step_time"], g["rate"] * g["step_time"], 0.0)""",
)

# 17.9 and 17.10 reading latencies

_E9 = Exercise(
    id="17.9",
    slug=SLUG,
    title="Between two samples",
    objective=_READ,
    points=1,
    prompt="Of {count} first tokens, sorted, the two largest came after {below} and {above}. What is the 99th "
    "percentile, in a straight line between neighbours (NumPy's default)?",
    unit="s",
    options={
        "count": Options((41, 61, 71, 81), "1", "samples"),
        "below": Options((0.4, 0.5, 0.6), "s", "the largest but one"),
        "above": Options((2.1, 2.7, 3.3), "s", "the largest"),
    },
    solve=lambda g: serving.sample_quantile(0.99 * (g["count"] - 1), g["below"], g["above"]),
    mistakes=(
        Mistake("maximum", "That is the maximum. The rank lies between the two.", (lambda g: g["above"],)),
        Mistake("below", "That is the next sample below.", (lambda g: g["below"],)),
        Mistake(
            "half-way",
            "That is half-way between the two. Where does the rank lie?",
            (lambda g: (g["below"] + g["above"]) / 2,),
        ),
        Mistake(
            "rank-of-count",
            "You counted ranks to {count}. From zero they end one earlier.",
            (lambda g: g["below"] + (0.99 * g["count"] % 1) * (g["above"] - g["below"]),),
        ),
    ),
    nudge="Rank 0.99 x (count - 1), from zero; its fraction is the way from one sample to the next.",
    solution="""\
g = inputs("17.9", seed=SEED)
answer = serving.sample_quantile(0.99 * (g["count"] - 1), g["below"], g["above"])""",
    tolerance=0.005,
)


_E10 = Exercise(
    id="17.10",
    slug=SLUG,
    title="Two times per token",
    objective=_READ,
    points=1,
    prompt="A request's first token comes after {ttft}, its last of {output} after {e2e}. A report needs the time "
    "*between* its tokens. What is it?",
    unit="s",
    options={
        "ttft": Options((0.9, 1.2, 1.5), "s", "first token"),
        "e2e": Options((3.1, 3.7, 4.3, 5.1), "s", "last token"),
        "output": Options((21, 26, 31, 36), "1", "output tokens"),
    },
    solve=lambda g: (g["e2e"] - g["ttft"]) / (g["output"] - 1),
    mistakes=(
        Mistake(
            "per-token",
            "That is the whole time over the tokens, e2e_per_token: the first token's wait is in it.",
            (lambda g: g["e2e"] / g["output"],),
        ),
        Mistake(
            "one-interval-too-many",
            "{output} tokens have one interval fewer between them.",
            (lambda g: (g["e2e"] - g["ttft"]) / g["output"],),
        ),
    ),
    nudge="From the first token to the last, over the intervals between them.",
    solution="""\
g = inputs("17.10", seed=SEED)
answer = (g["e2e"] - g["ttft"]) / (g["output"] - 1)""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10)
