"""Chapter 12, reality checks: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from collections.abc import Mapping
from typing import Any

from mlsysim import flops, validation
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Given, Inputs, Mistake, Options

SLUG = "12-reality-checks"
_READ = "Turn a published figure into the quantity you predict, and state the error with its sign."
_SCORE = "Score a model by group, and say what each way of averaging hides."
_HONEST = "Tell the score on the rows of a fit from the score on new ones."
_JUDGE = "Judge a model beside an estimate that has no structure."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_READ, "12.1"),
    (_SCORE, "12.2"),
    (_HONEST, "12.5"),
    (_JUDGE, "12.6"),
)

_HARDWARE, _MODEL = 8.0, 6.0  # FLOPs per parameter and token: with the forward pass repeated, and without


# 12.1 a published rate


def _step(g: Mapping[str, Any], per_token: float = _HARDWARE) -> float:
    """Step time behind the printed rate."""
    work = flops.total_flops(per_token * g["parameters"], g["tokens"])
    return float(work / (g["devices"] * g["rate"]))


def _predicted(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    """What the model says, to three digits; the factor behind it is not shown."""
    value = float(f"{chosen['factor'] * _step(chosen):.3g}")
    return {"predicted": Given(value, "s", "step time that a model predicts"), "factor": None}


_E1 = Exercise(
    id="12.1",
    slug=SLUG,
    title="Whose FLOPs?",
    objective=_READ,
    points=2,
    prompt="A paper trains {parameters} parameters on {devices} GPUs with {tokens} tokens per step and full recomputation. "
    "It prints {rate} per GPU and counts the repeated forward pass: 8 FLOPs per parameter and token. Your model "
    "predicts {predicted} per step. What is its signed error (a fraction, or text like '-25 %')?",
    unit="1",
    options={
        "parameters": Options((18.4e9, 39.1e9, 145.6e9), "1", "parameters of the model"),
        "devices": Options((256, 512), "1", "GPUs"),
        "tokens": Options((3145728, 4718592), "1", "tokens per step"),
        "rate": Options((138e12, 148e12), "FLOP/s", "printed rate per GPU"),
        "factor": Options((0.8, 1.25, 1.3, 0.7), "1", "hidden: predicted over measured"),
    },
    derive=_predicted,
    solve=lambda g: validation.signed_error(g["predicted"], _step(g)),
    mistakes=(
        Mistake(
            "model-flops",
            "You counted 6 FLOPs per parameter and token. The paper's rate contains the repeated forward pass: its step "
            "took 8/6 as long as you think.",
            (lambda g: validation.signed_error(g["predicted"], _step(g, _MODEL)),),
        ),
        Mistake(
            "relative-to-prediction",
            "You divided by the prediction. The measurement is the base.",
            (lambda g: -validation.signed_error(_step(g), g["predicted"]),),
        ),
        Mistake(
            "reversed",
            "You took the measurement for the prediction. Predicted over measured, minus one: too fast is negative.",
            (lambda g: validation.signed_error(_step(g), g["predicted"]),),
        ),
        Mistake(
            "ratio",
            "That is predicted over measured. The error is that minus one.",
            (lambda g: g["predicted"] / _step(g),),
        ),
    ),
    nudge="First the measured time: 8 x parameters x tokens over GPUs x rate. Then predicted over measured, minus one.",
    solution="""\
g = inputs("12.1", seed=SEED)
work = flops.total_flops(8 * g["parameters"], g["tokens"])
answer = validation.signed_error(g["predicted"], work / (g["devices"] * g["rate"]))""",
)


# 12.2 and 12.3 scores


def _by_group(g: Inputs) -> Num:
    return (g["first"] + g["second"] + g["third"]) / 3


def _pooled(g: Inputs) -> Num:
    rows = g["rows_first"] + g["rows_second"] + g["rows_third"]
    errors = g["rows_first"] * g["first"] + g["rows_second"] * g["second"] + g["rows_third"] * g["third"]
    return errors / rows


_E2 = Exercise(
    id="12.2",
    slug=SLUG,
    title="One vote per source",
    objective=_SCORE,
    points=1,
    prompt="A model is scored on three sources. The first brings {rows_first} rows with a mean absolute error of {first}, "
    "the second {rows_second} rows with {second}, the third {rows_third} rows with {third}. Rows of one source are "
    "alike, so every source has one vote. What is the score (a fraction, or text like '25 %')?",
    unit="1",
    options={
        "rows_first": Options((8, 12), "1", "rows of the first source"),
        "first": Options((0.10, 0.12), "%", "mean absolute error there"),
        "rows_second": Options((174, 130), "1", "rows of the second source"),
        "second": Options((0.05, 0.06), "%", "mean absolute error there"),
        "rows_third": Options((2, 4), "1", "rows of the third source"),
        "third": Options((0.30, 0.36), "%", "mean absolute error there"),
    },
    solve=_by_group,
    mistakes=(
        Mistake(
            "pooled",
            "You gave every row a vote, so the largest source decides alone. Average inside each source first.",
            (_pooled,),
        ),
        Mistake(
            "outlier-dropped",
            "You left the worst source out. That it has few rows is no reason: it may be the only one of its kind.",
            (lambda g: (g["first"] + g["second"]) / 2,),
        ),
        Mistake(
            "best-of",
            "That is the score of the largest source alone.",
            (lambda g: g["second"],),
        ),
    ),
    nudge="Three numbers, one per source, equally weighted; how many rows stand behind each does not matter.",
    solution="""\
g = inputs("12.2", seed=SEED)
answer = (g["first"] + g["second"] + g["third"]) / 3""",
)

_E3 = Exercise(
    id="12.3",
    slug=SLUG,
    title="Too fast by how much?",
    objective=_SCORE,
    points=1,
    prompt="A model predicts {predicted} for a decode step that took {measured}. By which factor is it off?",
    unit="1",
    options={
        "predicted": Options((2.0e-3, 2.4e-3, 1.6e-3, 2.2e-3, 1.8e-3, 2.6e-3), "s", "predicted time"),
        "measured": Options((5.0e-3, 6.0e-3, 7.0e-3, 5.5e-3, 6.5e-3, 7.5e-3), "s", "measured time"),
    },
    solve=lambda g: validation.error_factor(g["predicted"], g["measured"]),
    mistakes=(
        Mistake(
            "one-sided",
            "That is predicted over measured, below one because the prediction is too small. The factor is the larger of "
            "the two quotients: half the time is as wrong as twice the time.",
            (lambda g: g["predicted"] / g["measured"],),
        ),
        Mistake(
            "one-plus-error",
            "You added the relative error to one. That works for predictions that are too large; one that is too small can "
            "never look worse than 2 that way.",
            (lambda g: 1 + abs(validation.signed_error(g["predicted"], g["measured"])),),
        ),
        Mistake(
            "relative-error",
            "That is the size of the relative error, not a factor.",
            (lambda g: abs(validation.signed_error(g["predicted"], g["measured"])),),
        ),
    ),
    nudge="The larger of predicted/measured and measured/predicted.",
    solution="""\
g = inputs("12.3", seed=SEED)
answer = validation.error_factor(g["predicted"], g["measured"])""",
)


# 12.4 and 12.5 what rows are worth


_E4 = Exercise(
    id="12.4",
    slug=SLUG,
    title="How many rows is that?",
    objective=_HONEST,
    points=1,
    prompt="A table has {rows} rows in groups of {per_group}. Inside a group the errors of two rows correlate with "
    "{correlation}; between groups not at all. How many independent rows would tell as much?",
    unit="1",
    options={
        "rows": Options((120, 240, 360, 480), "1", "rows"),
        "per_group": Options((8, 12, 6, 10), "1", "rows of one group"),
        "correlation": Options((0.5, 0.6, 0.4), "1", "correlation of two errors of a group"),
    },
    solve=lambda g: validation.effective_rows(g["rows"], g["per_group"], g["correlation"]),
    mistakes=(
        Mistake(
            "groups-only",
            "You counted the groups. That is right when the errors of a group are all the same; here they agree in part.",
            (lambda g: g["rows"] / g["per_group"],),
        ),
        Mistake(
            "itself-counted",
            "You let a row correlate with itself as well. It has one fewer companions than its group has rows.",
            (lambda g: g["rows"] / (1 + g["per_group"] * g["correlation"]),),
        ),
        Mistake(
            "multiplied",
            "You multiplied. Correlation makes rows worth less, not more.",
            (lambda g: g["rows"] * (1 + (g["per_group"] - 1) * g["correlation"]),),
        ),
    ),
    nudge="Divide the rows by 1 + (rows per group - 1) x correlation.",
    solution="""\
g = inputs("12.4", seed=SEED)
answer = validation.effective_rows(g["rows"], g["per_group"], g["correlation"])""",
)


def _honest(g: Inputs, rows: float | None = None, variance: float | None = None, half: float = 1.0) -> float:
    """Root mean squared error to expect on new rows of the same kind."""
    variance = g["noise"] ** 2 if variance is None else variance
    gap = half * validation.optimism(g["constants"], variance, g["effective"] if rows is None else rows)
    return float((g["in_fit"] ** 2 + gap) ** 0.5)


_E5 = Exercise(
    id="12.5",
    slug=SLUG,
    title="Before the rows are new",
    objective=_HONEST,
    points=2,
    prompt="A model with {constants} fitted constants has a root mean squared log error of {in_fit} on the {rows} rows of "
    "its fit, which tell as much as {effective} independent ones. Measurements of one configuration scatter with a "
    "standard deviation of {noise}. Which root mean squared error do you expect on new measurements of the same kind?",
    unit="1",
    options={
        "constants": Options((14, 16, 18), "1", "fitted constants"),
        "in_fit": Options((0.09, 0.08), "1", "root mean squared log error in the fit"),
        "rows": Options((340, 420), "1", "rows of the fit"),
        "effective": Options((40, 36, 32), "1", "independent rows that tell as much"),
        "noise": Options((0.1,), "1", "standard deviation of the log of a measurement"),
    },
    solve=_honest,
    mistakes=(
        Mistake(
            "all-rows",
            "You divided by all rows. Those of one source repeat each other; only the independent ones hold a constant "
            "in its place.",
            (lambda g: _honest(g, rows=g["rows"]),),
        ),
        Mistake(
            "once",
            "You counted the constants once. The fit bends towards its rows, and it bends away from the new ones: twice.",
            (lambda g: _honest(g, half=0.5),),
        ),
        Mistake(
            "not-squared",
            "You used the standard deviation where the variance belongs.",
            (lambda g: _honest(g, variance=g["noise"]),),
        ),
        Mistake(
            "added",
            "You added the gap to the root. It belongs to the mean square: add there, then take the root.",
            (lambda g: g["in_fit"] + validation.optimism(g["constants"], g["noise"] ** 2, g["effective"]),),
        ),
        Mistake(
            "in-fit",
            "That is the error on rows that the constants have seen.",
            (lambda g: g["in_fit"],),
        ),
    ),
    nudge="Square the error, add 2 x constants x variance over the independent rows, take the root.",
    solution="""\
g = inputs("12.5", seed=SEED)
gap = validation.optimism(g["constants"], g["noise"] ** 2, g["effective"])
answer = (g["in_fit"] ** 2 + gap) ** 0.5""",
)


# 12.6 beside something simple


_E6 = Exercise(
    id="12.6",
    slug=SLUG,
    title="Worth its constants?",
    objective=_JUDGE,
    points=1,
    prompt="On the same rows a model errs by {error} on average, and one efficiency per device by {reference}. Which share of "
    "the simple estimate's error does the model take away (a fraction, or text like '25 %')?",
    unit="1",
    options={
        "error": Options((0.10, 0.12, 0.16, 0.08, 0.14, 0.18), "%", "mean absolute error of the model"),
        "reference": Options((0.30, 0.38, 0.44, 0.27, 0.33, 0.50), "%", "mean absolute error of the simple estimate"),
    },
    solve=lambda g: validation.skill(g["error"], g["reference"]),
    mistakes=(
        Mistake(
            "what-is-left",
            "That is the share which is left. Taken away is the rest.",
            (lambda g: g["error"] / g["reference"],),
        ),
        Mistake(
            "difference",
            "You subtracted the errors. Divide the difference by the simple estimate's error to get a share.",
            (lambda g: g["reference"] - g["error"],),
        ),
        Mistake(
            "upside-down",
            "You divided by the model's own error. The simple estimate is the base.",
            (lambda g: validation.skill(g["reference"], g["error"]),),
        ),
    ),
    nudge="One minus the model's error over the simple estimate's.",
    solution="""\
g = inputs("12.6", seed=SEED)
answer = validation.skill(g["error"], g["reference"])""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6)
