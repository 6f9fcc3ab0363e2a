"""Chapter 15, hypotheses: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import inference, validation
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options
from mlsysim.serving_steps.claims import comparisons

SLUG = "15-hypotheses"
_METRIC = "Tell the two metrics apart that go by the name of TPOT, and say what one request does to a mean."
_RULE = "State a hypothesis with a rule that a program can evaluate, and read its verdict."
_FORM = "Compare two forms of a step, and tell a jump from growth."
_LADDER = "Find the law of a residual, and say what a rung is worth alone, in company and taken away."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_METRIC, "15.1"),
    (_RULE, "15.4"),
    (_FORM, "15.6"),
    (_LADDER, "15.8"),
)


# 15.1 and 15.2 two metrics


_E1 = Exercise(
    id="15.1",
    slug=SLUG,
    title="Which TPOT?",
    objective=_METRIC,
    points=1,
    prompt="A client reports a TTFT of {ttft} and {itl} between tokens for an answer of {output_len} tokens. Its summary "
    "also has a TPOT, which it defines as latency over tokens. What stands there?",
    unit="s",
    options={
        "ttft": Options((67.1e-3, 103e-3, 155e-3, 49.9e-3), "s", "time to the first token"),
        "itl": Options((6.63e-3, 12.1e-3, 4.5e-3), "s", "mean time between tokens"),
        "output_len": Options((28, 35, 41), "1", "tokens of the answer"),
    },
    solve=lambda g: comparisons.e2e_per_token(g["ttft"], g["itl"], g["output_len"]),
    mistakes=(
        Mistake(
            "between-tokens",
            "That is the time between tokens, the other thing called TPOT. Latency over tokens has the first token in it.",
            (lambda g: g["itl"],),
        ),
        Mistake(
            "sum",
            "That is the latency. Divide it by the tokens.",
            (lambda g: inference.request_latency(g["ttft"], g["output_len"], g["itl"]),),
        ),
        Mistake(
            "gap-too-many",
            "There is one gap fewer than there are tokens: the first token is made by the prompt pass.",
            (lambda g: g["ttft"] / g["output_len"] + g["itl"],),
        ),
        Mistake(
            "tokens-less-one",
            "You divided by the gaps. This metric divides by the tokens.",
            (
                lambda g: (
                    comparisons.e2e_per_token(g["ttft"], g["itl"], g["output_len"])
                    * g["output_len"]
                    / (g["output_len"] - 1)
                ),
            ),
        ),
    ),
    tolerance=0.002,
    nudge="Add TTFT and one gap fewer than there are tokens, then divide by the tokens.",
    solution="""\
g = inputs("15.1", seed=SEED)
answer = serving_steps.e2e_per_token(g["ttft"], g["itl"], g["output_len"])""",
)

_E2 = Exercise(
    id="15.2",
    slug=SLUG,
    title="Compared with what?",
    objective=_METRIC,
    points=2,
    prompt="A simulator predicts {predicted} between tokens. The benchmark prints a latency of {e2e} and a TTFT of {ttft} for "
    "answers of {output_len} tokens. By how much is the prediction off (signed error, a fraction or text like '-12 %')?",
    unit="1",
    options={
        "predicted": Options((5.5e-3, 5.8e-3, 7.6e-3), "s", "predicted time between tokens"),
        "e2e": Options((334e-3, 345e-3, 352e-3), "s", "measured latency"),
        "ttft": Options((67e-3, 75e-3), "s", "measured time to the first token"),
        "output_len": Options((41, 43), "1", "tokens of each answer"),
    },
    solve=lambda g: validation.signed_error(g["predicted"], (g["e2e"] - g["ttft"]) / (g["output_len"] - 1)),
    mistakes=(
        Mistake(
            "mixed",
            "You compared with latency over tokens, which holds the first token too. Compare a time between tokens with a "
            "time between tokens.",
            (lambda g: validation.signed_error(g["predicted"], g["e2e"] / g["output_len"]),),
        ),
        Mistake(
            "all-gaps",
            "You divided the whole latency by the gaps. The time to the first token has to come off first.",
            (lambda g: validation.signed_error(g["predicted"], g["e2e"] / (g["output_len"] - 1)),),
        ),
        Mistake(
            "reversed",
            "You took the measurement for the prediction.",
            (lambda g: validation.signed_error((g["e2e"] - g["ttft"]) / (g["output_len"] - 1), g["predicted"]),),
        ),
        Mistake(
            "ratio",
            "That is predicted over measured. The error is that minus one.",
            (lambda g: g["predicted"] * (g["output_len"] - 1) / (g["e2e"] - g["ttft"]),),
        ),
    ),
    nudge="The measured time between tokens is latency less TTFT, over one fewer than the tokens.",
    solution="""\
g = inputs("15.2", seed=SEED)
measured = (g["e2e"] - g["ttft"]) / (g["output_len"] - 1)
answer = validation.signed_error(g["predicted"], measured)""",
)

_E3 = Exercise(
    id="15.3",
    slug=SLUG,
    title="One cold request",
    objective=_METRIC,
    points=1,
    prompt="A run of {count} requests starts on a cold server. The first has a TTFT of {first}, the others {rest} on average. "
    "Which mean does the report print?",
    unit="s",
    options={
        "count": Options((23, 24, 40, 12), "1", "requests, the first included"),
        "first": Options((274e-3, 314e-3, 420e-3), "s", "TTFT of the first"),
        "rest": Options((46e-3, 52e-3, 38e-3), "s", "mean TTFT of the others"),
    },
    solve=lambda g: g["rest"] + comparisons.outlier_shift(g["first"], g["rest"], g["count"]),
    mistakes=(
        Mistake(
            "dropped",
            "You left the first request out. It was served, and it stands in the report's mean.",
            (lambda g: g["rest"],),
        ),
        Mistake(
            "two-groups",
            "You gave the first request the weight of all others together.",
            (lambda g: (g["first"] + g["rest"]) / 2,),
        ),
        Mistake(
            "added",
            "You added the first request's share without taking it from the others: the weights sum to more than one.",
            (lambda g: g["rest"] + g["first"] / g["count"],),
        ),
    ),
    nudge="The mean moves by the distance of the one from the mean of the others, over the number of all.",
    solution="""\
g = inputs("15.3", seed=SEED)
answer = g["rest"] + serving_steps.outlier_shift(g["first"], g["rest"], g["count"])""",
)


# 15.4 and 15.5 rules


_CONSTANTS = (1e-3, 2e-3, 3e-3)


def _chosen(g: Inputs, rows: str) -> float:
    """The constant with the smallest mean absolute error on some runs."""

    def error(constant: float) -> float:
        return sum(
            abs(float(validation.signed_error(g[f"predicted_{r}"] + constant, g[f"measured_{r}"]))) for r in rows
        )

    return min(_CONSTANTS, key=error)


def _gain(g: Inputs, constant: float, rows: str = "c") -> float:
    """Points of error that a constant takes off some runs."""

    def error(added: float) -> float:
        found = [validation.signed_error(g[f"predicted_{r}"] + added, g[f"measured_{r}"]) for r in rows]
        return sum(abs(float(e)) for e in found) / len(rows)

    return error(0.0) - error(constant)


_E4 = Exercise(
    id="15.4",
    slug=SLUG,
    title="Held out",
    objective=_RULE,
    points=2,
    prompt="H2 says that a step takes a constant time beside its kernels. Candidates are 1, 2 and 3 ms. Predicted times between "
    "tokens are {predicted_a}, {predicted_b} and {predicted_c}; measured were {measured_a}, {measured_b} and "
    "{measured_c}. Choose the constant with the smallest mean absolute error on the first two runs. By how much does it "
    "better the error of the third, which was held out (in points, as a fraction: 0.05 for 5 points)?",
    unit="1",
    options={
        "predicted_a": Options((4.3e-3, 4.5e-3), "s", "predicted, first run"),
        "measured_a": Options((6.2e-3, 6.6e-3), "s", "measured, first run"),
        "predicted_b": Options((4.8e-3, 4.6e-3), "s", "predicted, second run"),
        "measured_b": Options((6.9e-3, 6.7e-3), "s", "measured, second run"),
        "predicted_c": Options((22.8e-3, 21.9e-3), "s", "predicted, run held out"),
        "measured_c": Options((26.1e-3, 26.9e-3), "s", "measured, run held out"),
    },
    solve=lambda g: _gain(g, _chosen(g, "ab")),
    mistakes=(
        Mistake(
            "peeked",
            "You let the third run have a say in the constant. Then it is not held out, and its gain is the gain of a fit.",
            (lambda g: _gain(g, _chosen(g, "c")),),
        ),
        Mistake(
            "training",
            "That is the gain on the runs that chose the constant. A rule about held-out runs asks for the third.",
            (lambda g: _gain(g, _chosen(g, "ab"), "ab"),),
        ),
        Mistake(
            "relative",
            "That is the share of the error which goes. The rule counts points: a difference of percentages.",
            (lambda g: _gain(g, _chosen(g, "ab")) / _gain(g, g["measured_c"] - g["predicted_c"]),),
        ),
    ),
    nudge="Choose by the first two runs, then take the third run's error without the constant less its error with it.",
    solution="""\
g = inputs("15.4", seed=SEED)


def error(rows, constant):
    errors = [validation.signed_error(g[f"predicted_{r}"] + constant, g[f"measured_{r}"]) for r in rows]
    return sum(abs(e) for e in errors) / len(rows)


constant = min((1e-3, 2e-3, 3e-3), key=lambda c: error("ab", c))
answer = error("c", 0.0) - error("c", constant)""",
)

_E5 = Exercise(
    id="15.5",
    slug=SLUG,
    title="Points of what?",
    objective=_RULE,
    points=1,
    prompt="Four runs err by {a}, {b}, {c} and {d} (signed) with the baseline. With a treatment every prediction becomes longer by "
    "{factor}. By how much does the MAPE fall (in points, as a fraction: 0.05 for 5 points; negative if it rises)?",
    unit="1",
    options={
        "a": Options((-0.36, -0.30, -0.42), "1", "signed error of the first run"),
        "b": Options((-0.22, -0.18), "1", "of the second"),
        "c": Options((-0.02, -0.04), "1", "of the third"),
        "d": Options((-0.28, -0.25), "1", "of the fourth"),
        "factor": Options((0.22, 0.15), "1", "by which predictions grow"),
    },
    solve=lambda g: _mape(g) - _mape(g, 1 + g["factor"]),
    mistakes=(
        Mistake(
            "bias",
            "You compared biases. Errors of both signs cancel there, and one run is too slow now.",
            (lambda g: _bias(g, 1 + g["factor"]) - _bias(g),),
        ),
        Mistake(
            "relative",
            "That is the share of the error that goes. The rule counts points: the difference of two percentages.",
            (lambda g: validation.skill(_mape(g, 1 + g["factor"]), _mape(g)),),
        ),
        Mistake(
            "factor-added",
            "You added the factor to the errors. It multiplies predictions: an error e becomes (1 + e)(1 + factor) - 1.",
            (lambda g: _mape(g) - sum(abs(g[n] + g["factor"]) for n in "abcd") / 4,),
        ),
    ),
    nudge="A prediction of 1 + e times the measurement grows by the factor. Take sizes, average, subtract.",
    solution="""\
g = inputs("15.5", seed=SEED)
predicted = [1 + g[n] for n in "abcd"]
before = sum(abs(validation.signed_error(p, 1.0)) for p in predicted) / 4
after = sum(abs(validation.signed_error(p * (1 + g["factor"]), 1.0)) for p in predicted) / 4
answer = before - after""",
)


def _errors(g: Inputs, growth: float) -> list[float]:
    return [float(validation.signed_error((1 + g[n]) * growth, 1.0)) for n in "abcd"]


def _mape(g: Inputs, growth: float = 1.0) -> float:
    return sum(map(abs, _errors(g, growth))) / 4


def _bias(g: Inputs, growth: float = 1.0) -> float:
    return sum(_errors(g, growth)) / 4


# 15.6 and 15.7 forms


def _blend(g: Inputs) -> float:
    return float(comparisons.blended_step(g["prefill_time"], g["decode_time"], g["prefill_tokens"], g["decode_tokens"]))


_E6 = Exercise(
    id="15.6",
    slug=SLUG,
    title="A mean of two steps",
    objective=_FORM,
    points=1,
    prompt="Alone, {prefill_tokens} prompt tokens take {prefill_time} and {decode_tokens} running sequences {decode_time}. A "
    "simulator weights the prefill with 0.75 and the decode step with 0.25 where prompts bring more tokens, else with "
    "0.35 and 0.65. What does it say for one step with both?",
    unit="s",
    options={
        "prefill_tokens": Options((512, 64, 384), "1", "prompt tokens"),
        "prefill_time": Options((46e-3, 30e-3, 38e-3), "s", "a step over the prompt alone"),
        "decode_tokens": Options((128, 192), "1", "running sequences, one token each"),
        "decode_time": Options((14e-3, 19e-3), "s", "a step over the answers alone"),
    },
    solve=_blend,
    mistakes=(
        Mistake(
            "other-weights",
            "You took the weights of the other case. Count which of the two brings more tokens.",
            (
                lambda g: comparisons.blended_step(
                    g["prefill_time"], g["decode_time"], g["decode_tokens"], g["prefill_tokens"]
                ),
            ),
        ),
        Mistake(
            "swapped",
            "You gave each step the weight of the other.",
            (lambda g: g["prefill_time"] + g["decode_time"] - _blend(g),),
        ),
        Mistake(
            "sum",
            "You added the steps. That reads the weights twice, and it is not what this simulator does either.",
            (lambda g: g["prefill_time"] + g["decode_time"],),
        ),
        Mistake("longer", "You took the longer of the two.", (lambda g: max(g["prefill_time"], g["decode_time"]),)),
    ),
    tolerance=0.005,
    nudge="Which kind brings more tokens? Then a weighted mean.",
    solution="""\
g = inputs("15.6", seed=SEED)
answer = serving_steps.blended_step(g["prefill_time"], g["decode_time"], g["prefill_tokens"], g["decode_tokens"])""",
)

_E7 = Exercise(
    id="15.7",
    slug=SLUG,
    title="A jump or growth?",
    objective=_FORM,
    points=1,
    prompt="A simulator gives {before} for a batch of {low} and {after} for a batch of {high}. By which fraction does that leave "
    "what more work explains: shorter than it was, or longer than in proportion to the batch (0.2 for a fifth)?",
    unit="1",
    options={
        "before": Options((15.0e-3, 12.4e-3, 17.2e-3), "s", "step time of the smaller batch"),
        "low": Options((23, 47), "1", "smaller batch"),
        "after": Options((10.4e-3, 9.8e-3, 11.1e-3), "s", "step time of the larger batch"),
        "high": Options((50, 56, 64), "1", "larger batch"),
    },
    solve=lambda g: comparisons.jump(g["before"], g["after"], g["low"], g["high"]),
    mistakes=(
        Mistake(
            "change",
            "That is the change of the time. A fall by a fraction f is a jump of f / (1 - f): the earlier time over the "
            "later one, less one.",
            (lambda g: 1 - g["after"] / g["before"], lambda g: g["after"] / g["before"] - 1),
        ),
        Mistake(
            "ratio",
            "That is the quotient of the times. Take one off.",
            (lambda g: g["before"] / g["after"],),
        ),
        Mistake(
            "work-charged",
            "You asked for growth in proportion. Nothing forces more work to take longer, so a fall counts from the time "
            "before.",
            (lambda g: g["before"] / g["after"] * g["high"] / g["low"] - 1,),
        ),
    ),
    nudge="The time fell although the work grew: earlier over later, less one.",
    solution="""\
g = inputs("15.7", seed=SEED)
answer = serving_steps.jump(g["before"], g["after"], g["low"], g["high"])""",
)


# 15.8 and 15.9 residuals


def _residual(g: Inputs) -> float:
    return float(comparisons.layer_residual(g["measured"], g["modelled"], g["layers"]))


_E8 = Exercise(
    id="15.8",
    slug=SLUG,
    title="What is left, per layer",
    objective=_LADDER,
    points=2,
    prompt="On two GPUs with tensor parallelism a decode step of a model with {layers} layers takes {measured}. Arithmetic and "
    "traffic of its kernels explain {modelled}. The same law holds on one GPU, where the kernels explain {other}. What "
    "does the step take there?",
    unit="s",
    options={
        "layers": Options((32, 40), "1", "layers"),
        "measured": Options((4.36e-3, 4.50e-3, 4.62e-3), "s", "measured step on two GPUs"),
        "modelled": Options((2.26e-3, 2.40e-3, 2.12e-3), "s", "work of its kernels on two GPUs"),
        "other": Options((3.98e-3, 5.21e-3), "s", "work of its kernels on one GPU"),
    },
    solve=lambda g: g["other"] + _residual(g) * g["layers"],
    mistakes=(
        Mistake(
            "over-tp",
            "You let the residual shrink with the number of GPUs. Every GPU runs every layer, so nothing is divided: the "
            "measured runs show the same per layer on one and on two.",
            (lambda g: g["other"] + 2 * _residual(g) * g["layers"],),
        ),
        Mistake(
            "halved",
            "You halved the residual on one GPU. It has as many layers to start as two have.",
            (lambda g: g["other"] + _residual(g) * g["layers"] / 2,),
        ),
        Mistake(
            "proportional",
            "You scaled the step by its work. What is left is added, not multiplied: it belongs to layers, not to bytes.",
            (lambda g: g["measured"] * g["other"] / g["modelled"],),
        ),
        Mistake("nothing-left", "You left the residual out.", (lambda g: g["other"],)),
    ),
    nudge="Residual per layer from the first configuration; the same per layer in the second.",
    solution="""\
g = inputs("15.8", seed=SEED)
residual = serving_steps.layer_residual(g["measured"], g["modelled"], g["layers"])
answer = g["other"] + residual * g["layers"]""",
)

_E9 = Exercise(
    id="15.9",
    slug=SLUG,
    title="Another model",
    objective=_LADDER,
    points=1,
    prompt="A decode step of a model with {layers} layers takes {measured}, of which its kernels explain {modelled}. How long is "
    "a step of a model with {deeper} layers whose kernels explain {other}, if the residual goes with the layers?",
    unit="s",
    options={
        "layers": Options((32, 40), "1", "layers of the first model"),
        "measured": Options((6.16e-3, 6.66e-3, 6.94e-3), "s", "its measured step"),
        "modelled": Options((4.52e-3, 4.79e-3), "s", "work of its kernels"),
        "deeper": Options((48, 64, 80), "1", "layers of the second model"),
        "other": Options((22.8e-3, 19.4e-3), "s", "work of its kernels"),
    },
    solve=lambda g: g["other"] + _residual(g) * g["deeper"],
    mistakes=(
        Mistake(
            "constant",
            "You added the same time to every step. The residual goes with the layers.",
            (lambda g: g["other"] + g["measured"] - g["modelled"],),
        ),
        Mistake(
            "proportional",
            "You scaled the step by its work, as if an efficiency were wrong. Here something is missing, layer by layer.",
            (lambda g: g["measured"] * g["other"] / g["modelled"],),
        ),
        Mistake("nothing-left", "You left the residual out.", (lambda g: g["other"],)),
    ),
    tolerance=0.005,
    nudge="Residual per layer of the first model, times the layers of the second, on top of its kernels.",
    solution="""\
g = inputs("15.9", seed=SEED)
residual = serving_steps.layer_residual(g["measured"], g["modelled"], g["layers"])
answer = g["other"] + residual * g["deeper"]""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
