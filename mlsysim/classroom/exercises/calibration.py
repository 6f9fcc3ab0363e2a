"""Chapter 18, calibration: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import serving_steps
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "18-calibration"
_PATTERN = "Say what a memory sustains by access pattern, and mix the patterns."
_PROFILE = "Predict a step from a measured device profile, and say where two constants fail."
_FIT = "Fit a residual to a measured trace, and say how many requests that takes."
_GUARD = "Decide whether a fit may be used: overfitted, useless or stale."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_PATTERN, "18.2"),
    (_PROFILE, "18.4"),
    (_FIT, "18.6"),
    (_GUARD, "18.9"),
)


# 18.1 to 18.3 patterns

_E1 = Exercise(
    id="18.1",
    slug=SLUG,
    title="Blocks in random places",
    objective=_PATTERN,
    points=1,
    prompt="A memory gives {bandwidth} to very large blocks and half of that to blocks of {half_bytes}. What does it give "
    "to blocks of {block_bytes} that lie in random places?",
    unit="byte/s",
    options={
        "bandwidth": Options((12e9, 20e9, 300e9, 3e12), "byte/s", "bandwidth of very large blocks"),
        "half_bytes": Options((2000, 3000, 1500), "byte", "block that reaches half of it"),
        "block_bytes": Options((8000, 5000, 10000), "byte", "block"),
    },
    solve=lambda g: serving_steps.scattered_bandwidth(g["bandwidth"], g["block_bytes"], g["half_bytes"]),
    mistakes=(
        Mistake(
            "lost-share",
            "That is what the finding of blocks costs. The rest of the bandwidth is what you get.",
            (lambda g: g["bandwidth"] * g["half_bytes"] / (g["block_bytes"] + g["half_bytes"]),),
        ),
        Mistake(
            "ratio",
            "You took the half size over the block as the loss. Finding a block and moving it take turns: the time is "
            "that of {half_bytes} more bytes.",
            (lambda g: g["bandwidth"] * (1 - g["half_bytes"] / g["block_bytes"]),),
        ),
        Mistake(
            "half",
            "Only blocks of {half_bytes} get half of the bandwidth; yours are larger.",
            (lambda g: g["bandwidth"] / 2,),
        ),
    ),
    nudge="A block costs the time of its own bytes and of the half size: BW x n / (n + n_half).",
    solution="""\
g = inputs("18.1", seed=SEED)
answer = serving_steps.scattered_bandwidth(g["bandwidth"], g["block_bytes"], g["half_bytes"])""",
)


def _mixed(g: Inputs) -> Num:
    return serving_steps.mixed_bandwidth(g["sequential"], g["scattered"], g["share"])


_E2 = Exercise(
    id="18.2",
    slug=SLUG,
    title="Weights in order, cache in blocks",
    objective=_PATTERN,
    points=2,
    prompt="A decode step reads weights at {sequential} and cache in scattered blocks at {scattered}. The cache is {share} "
    "of the bytes. What bandwidth does the step sustain over all its bytes?",
    unit="byte/s",
    options={
        "sequential": Options((2.9e12, 18e9, 1.7e12, 3.2e12), "byte/s", "bandwidth in order"),
        "scattered": Options((0.9e12, 6e9, 0.5e12), "byte/s", "bandwidth of scattered blocks"),
        "share": Options((0.3, 0.4, 0.6), "1", "share of the bytes that is scattered"),
    },
    solve=_mixed,
    mistakes=(
        Mistake(
            "arithmetic-mean",
            "You averaged the rates. Times add up, rates do not: the slow bytes take more than their share of the time.",
            (lambda g: g["share"] * g["scattered"] + (1 - g["share"]) * g["sequential"],),
        ),
        Mistake(
            "shares-swapped",
            "You swapped the shares: {share} of the bytes are the scattered ones.",
            (lambda g: serving_steps.mixed_bandwidth(g["scattered"], g["sequential"], g["share"]),),
        ),
        Mistake(
            "time-added",
            "You gave all bytes to both patterns. Each pattern moves its own share only.",
            (lambda g: 1 / (1 / g["sequential"] + 1 / g["scattered"]),),
        ),
    ),
    nudge="The time of one byte is its share over the rate of its pattern, summed; the bandwidth is one over it.",
    solution="""\
g = inputs("18.2", seed=SEED)
answer = serving_steps.mixed_bandwidth(g["sequential"], g["scattered"], g["share"])""",
)


def _cache_time(g: Inputs, heads: str = "kv_heads", joined: float = 1.0, parts: float = 2.0) -> Num:
    width = g[heads] * g["head_dim"] * 2.0
    rate = serving_steps.scattered_bandwidth(g["bandwidth"], joined * 16 * width, g["half_bytes"])
    return g["layers"] * parts * g["tokens"] * width / rate


_E3 = Exercise(
    id="18.3",
    slug=SLUG,
    title="Pages of a cache",
    objective=_PATTERN,
    points=3,
    prompt="A server keeps the cache in pages of 16 tokens: for each layer one block of keys and one block of values, all "
    "{kv_heads} key-value heads of size {head_dim} together, in bf16. The model has {layers} layers and {heads} query "
    "heads. The memory gives {bandwidth} to very large blocks and half of it to blocks of {half_bytes}. How long does it "
    "take to read the cache of {tokens} tokens once?",
    unit="s",
    options={
        "layers": Options((32, 48), "1", "layers"),
        "heads": Options((32, 40), "1", "query heads"),
        "kv_heads": Options((4, 8), "1", "key-value heads"),
        "head_dim": Options((128,), "1", "size of a head"),
        "bandwidth": Options((18e9, 1.5e12), "byte/s", "bandwidth of very large blocks"),
        "half_bytes": Options((12_000, 20_000), "byte", "block that reaches half of it"),
        "tokens": Options((50_000, 120_000), "1", "tokens in the cache"),
    },
    solve=_cache_time,
    mistakes=(
        Mistake(
            "in-order",
            "You read the cache as if it lay in one piece. Its blocks of 16 tokens are scattered.",
            (lambda g: g["layers"] * 2 * g["tokens"] * g["kv_heads"] * g["head_dim"] * 2 / g["bandwidth"],),
        ),
        Mistake(
            "query-heads",
            "You cached every query head. Only the {kv_heads} key-value heads are kept.",
            (lambda g: _cache_time(g, heads="heads"),),
        ),
        Mistake(
            "keys-and-values-in-one",
            "You put keys and values into one block, which makes blocks twice as long. They are two blocks.",
            (lambda g: _cache_time(g, joined=2.0),),
        ),
        Mistake("keys-only", "You read the keys and forgot the values.", (lambda g: _cache_time(g, parts=1.0),)),
    ),
    nudge="A block is 16 x key-value heads x head size x 2 bytes. Its rate is BW x n / (n + n_half). All bytes: layers x 2 "
    "x tokens x key-value heads x head size x 2.",
    solution="""\
g = inputs("18.3", seed=SEED)
width = g["kv_heads"] * g["head_dim"] * 2
rate = serving_steps.scattered_bandwidth(g["bandwidth"], 16 * width, g["half_bytes"])
answer = g["layers"] * 2 * g["tokens"] * width / rate""",
)


# 18.4 a profile


def _between(g: Inputs) -> Num:
    """Time of all products at r rows, straight between one row and eight."""
    size = 2048.0**2
    times = [2.0 * m * size / g[name] for m, name in ((1, "one_row"), (8, "eight_rows"))]
    return g["weights"] / size * (times[0] + (g["rows"] - 1) / 7 * (times[1] - times[0]))


_E4 = Exercise(
    id="18.4",
    slug=SLUG,
    title="Between two measured products",
    objective=_PROFILE,
    points=3,
    prompt="On a processor, products with a matrix of 2048 x 2048 were measured: {one_row} with one row, {eight_rows} with "
    "eight, {many_rows} with a thousand. A model has {weights} weights in its matrices. How long do the products of one "
    "decode step of {rows} sequences take, if the time of a product is straight between one row and eight and proportional "
    "to the matrix?",
    unit="s",
    options={
        "one_row": Options((9.5e9, 8e9), "FLOP/s", "rate with one row"),
        "eight_rows": Options((18e9, 15e9, 21e9), "FLOP/s", "rate with eight rows"),
        "many_rows": Options((88e9,), "FLOP/s", "rate with a thousand rows"),
        "weights": Options((50e6, 300e6), "1", "weights in the matrices"),
        "rows": Options((3, 4, 6), "1", "sequences"),
    },
    solve=_between,
    mistakes=(
        Mistake(
            "two-constants",
            "You took the longer of reading (as with one row) and arithmetic (as with a thousand). That is the roofline, "
            "and the library is far from both between them.",
            (
                lambda g: max(
                    2 * g["weights"] / g["one_row"],
                    2 * g["rows"] * g["weights"] / g["many_rows"],
                ),
            ),
        ),
        Mistake(
            "rate-of-eight",
            "You used the rate of eight rows for fewer. With fewer rows the rate is lower.",
            (lambda g: 2 * g["rows"] * g["weights"] / g["eight_rows"],),
        ),
        Mistake(
            "rates-averaged",
            "You went straight between the rates. It is the time that is straight.",
            (
                lambda g: (
                    2
                    * g["rows"]
                    * g["weights"]
                    / (g["one_row"] + (g["rows"] - 1) / 7 * (g["eight_rows"] - g["one_row"]))
                ),
            ),
        ),
    ),
    nudge="Turn each rate into the time of its product, go straight between the two times, and scale by weights over 2048 x "
    "2048.",
    solution="""\
g = inputs("18.4", seed=SEED)
one = 2 * 1 * 2048**2 / g["one_row"]
eight = 2 * 8 * 2048**2 / g["eight_rows"]
time = one + (g["rows"] - 1) / 7 * (eight - one)
answer = g["weights"] / 2048**2 * time""",
)


# 18.5 to 18.7 residuals


def _corrected(g: Inputs, output: str = "output_tokens", prompt: str = "prompt_tokens", sign: float = 1.0) -> Num:
    rest = serving_steps.residual_time(g[output], g[prompt], g["per_output"], g["per_prompt"], g["constant"])
    return g["predicted"] + sign * rest


_COEFFICIENTS = {
    "per_output": Options((0.4e-3, 0.6e-3), "s/token", "per token of the answer"),
    "per_prompt": Options((30e-6, 50e-6), "s/token", "per token of the prompt"),
    "constant": Options((0.12, 0.2), "s", "constant"),
}

_E5 = Exercise(
    id="18.5",
    slug=SLUG,
    title="A corrected request",
    objective=_FIT,
    points=1,
    prompt="Tier 0 predicts {predicted} for a request of {prompt_tokens} prompt tokens and {output_tokens} tokens of "
    "answer. A calibration adds {per_output} for each token of the answer, {per_prompt} for each token of the prompt, and "
    "{constant}. What does Tier 1 predict?",
    unit="s",
    options={
        "predicted": Options((1.6, 2.2, 2.8), "s", "prediction of Tier 0"),
        "prompt_tokens": Options((3000, 4000), "1", "tokens of the prompt"),
        "output_tokens": Options((300, 400), "1", "tokens of the answer"),
        **_COEFFICIENTS,
    },
    solve=_corrected,
    mistakes=(
        Mistake(
            "tokens-swapped",
            "You gave the coefficient of the answer to the prompt and the other way round.",
            (lambda g: _corrected(g, output="prompt_tokens", prompt="output_tokens"),),
        ),
        Mistake(
            "subtracted",
            "The residual is measured minus predicted, so it is added.",
            (lambda g: _corrected(g, sign=-1.0),),
        ),
        Mistake(
            "residual-alone",
            "That is the residual. It comes on top of what Tier 0 predicts.",
            (lambda g: _corrected(g) - g["predicted"],),
        ),
        Mistake("constant-forgotten", "The constant is missing.", (lambda g: _corrected(g) - g["constant"],)),
    ),
    nudge="Prediction + a x answer + b x prompt + constant.",
    solution="""\
g = inputs("18.5", seed=SEED)
rest = serving_steps.residual_time(g["output_tokens"], g["prompt_tokens"], g["per_output"], g["per_prompt"], g["constant"])
answer = g["predicted"] + rest""",
)


def _constant(g: Inputs, output: float = 1.0, prompt: float = 1.0) -> Num:
    return serving_steps.residual_constant(
        g["mean_measured"] - g["mean_predicted"],
        g["mean_output"],
        g["mean_prompt"],
        output * g["per_output"],
        prompt * g["per_prompt"],
    )


_E6 = Exercise(
    id="18.6",
    slug=SLUG,
    title="What is left for the constant",
    objective=_FIT,
    points=2,
    prompt="Over a trace the mean latency was {mean_measured}; Tier 0 predicted {mean_predicted}. Answers had {mean_output} "
    "tokens on average and prompts {mean_prompt}. Least squares gave slopes of {per_output} per token of the answer and "
    "{per_prompt} per token of the prompt. What is the constant of the same fit?",
    unit="s",
    options={
        "mean_measured": Options((3.4, 3.5), "s", "mean of the measurements"),
        "mean_predicted": Options((2.9, 3.0), "s", "mean of the predictions"),
        "mean_output": Options((400, 300), "1", "mean tokens of an answer"),
        "mean_prompt": Options((2000, 1500), "1", "mean tokens of a prompt"),
        "per_output": Options((0.4e-3, 0.5e-3), "s/token", "slope of the answer"),
        "per_prompt": Options((40e-6, 30e-6), "s/token", "slope of the prompt"),
    },
    solve=_constant,
    mistakes=(
        Mistake(
            "mean-residual",
            "That is the mean residual, which is the constant only where nothing else is fitted.",
            (lambda g: _constant(g, 0.0, 0.0),),
        ),
        Mistake(
            "added",
            "You added what the slopes explain. It is taken from the mean residual.",
            (lambda g: _constant(g, -1.0, -1.0),),
        ),
        Mistake(
            "prompt-forgotten",
            "You left out what the prompts explain.",
            (lambda g: _constant(g, 1.0, 0.0),),
        ),
        Mistake(
            "wrong-way",
            "The residual is measured minus predicted, not the reverse.",
            (lambda g: _constant(g) - 2 * (g["mean_measured"] - g["mean_predicted"]),),
        ),
    ),
    nudge="The fitted plane passes through the means: mean residual = a x mean answer + b x mean prompt + constant.",
    solution="""\
g = inputs("18.6", seed=SEED)
mean_residual = g["mean_measured"] - g["mean_predicted"]
answer = serving_steps.residual_constant(
    mean_residual, g["mean_output"], g["mean_prompt"], g["per_output"], g["per_prompt"]
)""",
)

_E7 = Exercise(
    id="18.7",
    slug=SLUG,
    title="How long a trace",
    objective=_FIT,
    points=2,
    prompt="Residuals scatter from request to request with a standard deviation of {spread}. How many requests does a trace "
    "need before the constant is known to within plus or minus {tolerance} with 95 % confidence (1.96 standard errors)? "
    "Give the number that the formula gives; no need to round.",
    unit="1",
    options={
        "spread": Options((0.08, 0.12, 0.15, 0.2, 0.3, 0.4), "s", "standard deviation of a residual"),
        "tolerance": Options((0.01, 0.015, 0.02, 0.025, 0.03), "s", "tolerance of the constant"),
    },
    solve=lambda g: serving_steps.calibration_requests(g["spread"], g["tolerance"]),
    mistakes=(
        Mistake(
            "not-squared",
            "You divided and did not square. The error of a mean shrinks with the square root of the requests.",
            (lambda g: 1.96 * g["spread"] / g["tolerance"],),
        ),
        Mistake(
            "one-standard-error",
            "That many requests give one standard error, which holds about two times in three. 95 % asks for 1.96.",
            (lambda g: (g["spread"] / g["tolerance"]) ** 2,),
        ),
        Mistake(
            "whole-width",
            "You took plus or minus {tolerance} for the whole width. It is half of it.",
            (lambda g: serving_steps.calibration_requests(g["spread"], g["tolerance"] / 2),),
        ),
    ),
    nudge="1.96 x spread / sqrt(n) must be the tolerance; solve for n.",
    solution="""\
g = inputs("18.7", seed=SEED)
answer = serving_steps.calibration_requests(g["spread"], g["tolerance"])""",
)


def _answer_time(g: Inputs, tokens: float = -1.0, first: float = 1.0) -> Num:
    constant = first * g["ttft_residual"] + tokens * g["itl_residual"]
    return serving_steps.residual_time(g["output_tokens"], 0.0, g["itl_residual"], 0.0, constant)


_E8 = Exercise(
    id="18.8",
    slug=SLUG,
    title="One residual, two units",
    objective=_FIT,
    points=2,
    prompt="A fit says that the time between tokens is {itl_residual} longer than predicted, whatever the request, and that "
    "the first token comes {ttft_residual} later. By how much is the whole latency of an answer of {output_tokens} tokens "
    "longer than predicted?",
    unit="s",
    options={
        "itl_residual": Options((2e-3, 3e-3, 4e-3), "s", "residual of the time between tokens"),
        "ttft_residual": Options((0.024, 0.033, 0.048), "s", "residual of the first token"),
        "output_tokens": Options((12, 16, 20, 24), "1", "tokens of the answer"),
    },
    solve=_answer_time,
    mistakes=(
        Mistake(
            "one-gap",
            "You counted one gap between tokens. An answer has as many gaps as tokens, less one.",
            (lambda g: g["itl_residual"] + g["ttft_residual"],),
        ),
        Mistake(
            "first-token-forgotten",
            "You left out that the first token is late, too.",
            (lambda g: _answer_time(g, first=0.0),),
        ),
        Mistake(
            "gap-too-many",
            "An answer of {output_tokens} tokens has one gap fewer than tokens: the first one is the TTFT.",
            (lambda g: _answer_time(g, tokens=0.0),),
        ),
    ),
    nudge="E2E = TTFT + (n - 1) x ITL holds for residuals as it does for times.",
    solution="""\
g = inputs("18.8", seed=SEED)
constant = g["ttft_residual"] - g["itl_residual"]  # n tokens have n - 1 gaps
answer = serving_steps.residual_time(g["output_tokens"], 0, g["itl_residual"], 0, constant)""",
)


# 18.9 and 18.10 guards


def _mean(g: Inputs, *names: str) -> float:
    return sum(float(g[n]) for n in names) / len(names)


_E9 = Exercise(
    id="18.9",
    slug=SLUG,
    title="The guard",
    objective=_GUARD,
    points=2,
    prompt="A fit errs by {training} on the requests that it was fitted to. On three parts of the trace that were left out "
    "of fits on the rest it errs by {first}, {second} and {third}; the parts are equally large. Tier 0 errs by {tier0}. "
    "What is the overfitting ratio that the guard looks at?",
    unit="1",
    options={
        "training": Options((0.03, 0.025), "1", "mean error on the fitted requests"),
        "first": Options((0.05, 0.06), "1", "error of the first part left out"),
        "second": Options((0.08, 0.07), "1", "error of the second part"),
        "third": Options((0.1, 0.11), "1", "error of the third part"),
        "tier0": Options((0.2, 0.15), "1", "mean error of Tier 0"),
    },
    solve=lambda g: serving_steps.overfitting_ratio(_mean(g, "first", "second", "third"), g["training"]),
    mistakes=(
        Mistake(
            "over-tier-0",
            "You divided by the error of Tier 0. That tells whether the fit helps at all, a second question that is worth "
            "asking; the guard compares with the training error.",
            (lambda g: _mean(g, "first", "second", "third") / g["tier0"],),
        ),
        Mistake(
            "worst-part",
            "You took the worst part. The parts are averaged.",
            (lambda g: g["third"] / g["training"],),
        ),
        Mistake(
            "best-part",
            "You took the best part. The parts are averaged.",
            (lambda g: g["first"] / g["training"],),
        ),
    ),
    nudge="The mean of the three errors over the error on the fitted requests.",
    solution="""\
g = inputs("18.9", seed=SEED)
validation = (g["first"] + g["second"] + g["third"]) / 3
answer = serving_steps.overfitting_ratio(validation, g["training"])""",
)

_E10 = Exercise(
    id="18.10",
    slug=SLUG,
    title="Stale, and when one is told",
    objective=_GUARD,
    points=2,
    prompt="A calibration predicts a latency of {predicted} and was exact. A new version of the server is slower, by the "
    "same factor for every request. Errors are counted as |predicted / measured - 1|, and the calibration counts as stale "
    "above {threshold}. How long must the same request take before anybody is told?",
    unit="s",
    options={
        "predicted": Options((1.2, 1.6, 2.4, 3.0, 3.6, 5.0), "s", "prediction of Tier 1"),
        "threshold": Options((0.3, 0.25, 0.2, 0.35, 0.4), "1", "error above which it is stale"),
    },
    solve=lambda g: g["predicted"] / (1 - g["threshold"]),
    mistakes=(
        Mistake(
            "of-the-prediction",
            "You took {threshold} of the prediction. The error is relative to the measurement, which has grown.",
            (lambda g: g["predicted"] * (1 + g["threshold"]),),
        ),
        Mistake(
            "faster",
            "That is a faster server, and not by {threshold} of the measurement either.",
            (lambda g: g["predicted"] * (1 - g["threshold"]),),
        ),
        Mistake(
            "faster-server",
            "That is where a server that became *faster* is flagged. Yours became slower.",
            (lambda g: g["predicted"] / (1 + g["threshold"]),),
        ),
    ),
    nudge="1 - predicted / measured must reach the threshold.",
    solution="""\
g = inputs("18.10", seed=SEED)
answer = g["predicted"] / (1 - g["threshold"])""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10)
