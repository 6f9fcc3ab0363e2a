"""Chapter 22, case studies: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options
from mlsysim.validation.metrics import signed_error
from mlsysim.validation.scoring import comparing

SLUG = "22-case-studies"
_BOUND = "Put a roofline beside a printed measurement, and say how much its rounding leaves open."
_SPEEDUP = "Predict a speed-up between generations, and say why its error is not the error of the times."
_PEAK = "Say what a peak that is taken too high does to a predicted time and to a speed-up."
_SCALE = "Compare what a device does in a small system with what it does in a large one."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_BOUND, "22.2"),
    (_SPEEDUP, "22.4"),
    (_PEAK, "22.6"),
    (_SCALE, "22.7"),
)


# 22.1 and 22.2 printed figures

_E1 = Exercise(
    id="22.1",
    slug=SLUG,
    title="The last digit",
    objective=_BOUND,
    points=1,
    prompt="A paper prints a step time of {printed}. One unit of the last printed digit is {last_digit}. By which share may "
    "the figure differ from the time that was rounded?",
    unit="1",
    options={
        "printed": Options((0.04, 0.07, 0.09, 0.14, 0.17, 0.28, 0.39, 0.05), "s", "step time as printed"),
        "last_digit": Options((0.01, 0.005, 0.002, 0.001), "s", "one unit of its last digit"),
    },
    solve=lambda g: comparing.rounding_share(g["printed"], g["last_digit"]),
    mistakes=(
        Mistake(
            "whole-digit",
            "You took a whole unit of the last digit. Rounding to the nearest moves a figure by half of it at most.",
            (lambda g: g["last_digit"] / g["printed"],),
        ),
        Mistake(
            "absolute",
            "That is the half unit in seconds. A share is taken of the printed time.",
            (lambda g: g["last_digit"] / 2,),
        ),
        Mistake(
            "standard-deviation",
            "That is the standard deviation of a rounding error that is equally likely everywhere. The question asks for "
            "the largest.",
            (lambda g: g["last_digit"] / 12**0.5 / g["printed"],),
        ),
    ),
    nudge="Half a unit of the last digit, over the printed time.",
    solution="""\
g = inputs("22.1", seed=SEED)
answer = g["last_digit"] / 2 / g["printed"]""",
)


def _against(g: Inputs, side: float) -> Num:
    rho = comparing.rounding_share(g["printed"], g["last_digit"])
    return signed_error(g["predicted"], g["printed"] * (1 + side * rho))


_E2 = Exercise(
    id="22.2",
    slug=SLUG,
    title="The best that a roofline may have done",
    objective=_BOUND,
    points=2,
    prompt="A roofline predicts {predicted} for a step whose measured time is printed as {printed}; one unit of its last "
    "digit is {last_digit}. What is the signed error of the roofline if the measured time was the shortest that rounds to "
    "this figure?",
    unit="1",
    options={
        "predicted": Options((0.024, 0.021, 0.0265, 0.0195, 0.0225, 0.0255), "s", "roofline"),
        "printed": Options((0.04, 0.05, 0.06), "s", "step time as printed"),
        "last_digit": Options((0.01, 0.008), "s", "one unit of its last digit"),
    },
    solve=lambda g: _against(g, -1.0),
    mistakes=(
        Mistake(
            "as-printed",
            "That is the error against the figure as printed. The shortest time that rounds to it is half a digit less.",
            (lambda g: _against(g, 0.0),),
        ),
        Mistake(
            "other-end",
            "You took the longest time that rounds to the figure. It gives the largest error, not the smallest.",
            (lambda g: _against(g, 1.0),),
        ),
        Mistake(
            "unsigned",
            "A signed error is predicted over measured, minus one: a roofline that is too short has a negative one.",
            (lambda g: -_against(g, -1.0),),
        ),
    ),
    nudge="The shortest time is printed minus half a digit; the error is predicted over that, minus one.",
    solution="""\
g = inputs("22.2", seed=SEED)
shortest = g["printed"] - g["last_digit"] / 2
answer = g["predicted"] / shortest - 1""",
)


# 22.3 and 22.4 speed-ups


def _ends(g: Inputs, old: float, new: float) -> Num:
    half = g["last_digit"] / 2
    return comparing.speedup(g["old"] + old * half, g["new"] + new * half)


_E3 = Exercise(
    id="22.3",
    slug=SLUG,
    title="A speed-up of two printed times",
    objective=_SPEEDUP,
    points=2,
    prompt="The same step is printed as {old} on one machine and as {new} on the next, both with a last digit of "
    "{last_digit}. What is the largest speed-up that these figures allow?",
    unit="1",
    options={
        "old": Options((0.09, 0.17, 0.39, 0.12, 0.14), "s", "step time on the old machine, as printed"),
        "new": Options((0.04, 0.07, 0.06, 0.05), "s", "step time on the new machine, as printed"),
        "last_digit": Options((0.01, 0.008), "s", "one unit of the last digit"),
    },
    solve=lambda g: _ends(g, 1.0, -1.0),
    mistakes=(
        Mistake(
            "as-printed",
            "That is the speed-up of the figures as printed. Both may be off by half a digit.",
            (lambda g: _ends(g, 0.0, 0.0),),
        ),
        Mistake(
            "smallest",
            "That is the smallest. For the largest, the old time is as long and the new one as short as they may be.",
            (lambda g: _ends(g, -1.0, 1.0),),
        ),
        Mistake(
            "whole-digits",
            "You moved both by a whole unit of the last digit. Rounding to the nearest moves a figure by half of it.",
            (lambda g: _ends(g, 2.0, -2.0),),
        ),
    ),
    nudge="The longest old time over the shortest new one; each is half a digit away from what is printed.",
    solution="""\
g = inputs("22.3", seed=SEED)
half = g["last_digit"] / 2
answer = (g["old"] + half) / (g["new"] - half)""",
)

_E4 = Exercise(
    id="22.4",
    slug=SLUG,
    title="Wrong twice, and nearly right",
    objective=_SPEEDUP,
    points=2,
    prompt="A model is {old_short} too fast on the old machine and {new_short} too fast on the new one. What is the signed "
    "error of the speed-up that it predicts?",
    unit="1",
    options={
        "old_short": Options((0.45, 0.5, 0.4, 0.36, 0.55, 0.48), "1", "share that is missing, old machine"),
        "new_short": Options((0.3, 0.25, 0.2, 0.28, 0.1, 0.15), "1", "share that is missing, new machine"),
    },
    solve=lambda g: comparing.speedup_error(-g["old_short"], -g["new_short"]),
    mistakes=(
        Mistake(
            "difference",
            "You subtracted the errors. A speed-up is a quotient, so what is left of the times is divided.",
            (lambda g: g["new_short"] - g["old_short"],),
        ),
        Mistake(
            "upside-down",
            "You divided the new machine by the old one. A speed-up is old time over new time.",
            (lambda g: comparing.speedup_error(-g["new_short"], -g["old_short"]),),
        ),
        Mistake(
            "too-slow",
            "You took the shares as times that are too long. Too fast is a negative error.",
            (lambda g: comparing.speedup_error(g["old_short"], g["new_short"]),),
        ),
    ),
    nudge="The predicted times are (1 - share) of the measured ones. Divide what is left on the old machine by what is left "
    "on the new one.",
    solution="""\
g = inputs("22.4", seed=SEED)
answer = (1 - g["old_short"]) / (1 - g["new_short"]) - 1""",
)


# 22.5 and 22.6 a peak that is too high

_E5 = Exercise(
    id="22.5",
    slug=SLUG,
    title="A sparse peak under a dense program",
    objective=_PEAK,
    points=2,
    prompt="A roofline predicts a step of {time} from dense peaks; {share} of that time is bounded by arithmetic at this "
    "peak, the rest by memory. Somebody reads the peak with sparsity, {factor} times as high. What does the roofline then "
    "predict, if no bound changes hands?",
    unit="s",
    options={
        "time": Options((0.05, 0.08, 0.03, 0.12), "s", "prediction from dense peaks"),
        "share": Options((0.4, 0.3, 0.6, 0.7), "1", "share bounded by arithmetic"),
        "factor": Options((2.0, 4.0), "1", "the peak taken over the right one"),
    },
    solve=lambda g: g["time"] * comparing.wrong_peak_time(g["share"], g["factor"]),
    mistakes=(
        Mistake(
            "all-of-it",
            "You shortened the whole step. What memory bounds takes as long as before.",
            (lambda g: g["time"] / g["factor"],),
        ),
        Mistake(
            "vanished",
            "You took the arithmetic away. It takes one over the factor of its time.",
            (lambda g: g["time"] * (1 - g["share"]),),
        ),
        Mistake(
            "other-share",
            "You shortened the part that memory bounds.",
            (lambda g: g["time"] * comparing.wrong_peak_time(1 - g["share"], g["factor"]),),
        ),
    ),
    nudge="Keep what memory bounds, divide what arithmetic bounds by the factor, and add.",
    solution="""\
g = inputs("22.5", seed=SEED)
answer = g["time"] * (1 - g["share"] + g["share"] / g["factor"])""",
)


def _printed_speedup(g: Inputs, old: bool = False) -> Num:
    shrunk = comparing.wrong_peak_time(g["share"], 2.0)
    return comparing.speedup(g["old_time"] * (shrunk if old else 1.0), g["new_time"] * shrunk)


_E6 = Exercise(
    id="22.6",
    slug=SLUG,
    title="Twice the peak, how much of the speed-up?",
    objective=_PEAK,
    points=3,
    prompt="From dense peaks a roofline predicts {old_time} on the old device and {new_time} on the new one, where {share} "
    "of the time is bounded by arithmetic. A table prints the dense peak for the old device and twice the dense peak for "
    "the new one. Which speed-up does the roofline predict from that table, if no bound changes hands?",
    unit="1",
    options={
        "old_time": Options((0.05, 0.06, 0.08, 0.1), "s", "old device, dense peak"),
        "new_time": Options((0.022, 0.025, 0.03), "s", "new device, dense peak"),
        "share": Options((0.4, 0.5, 0.7), "1", "share bounded by arithmetic on the new device"),
    },
    solve=_printed_speedup,
    mistakes=(
        Mistake(
            "dense",
            "That is the speed-up from dense peaks. The table makes the new device look faster.",
            (lambda g: comparing.speedup(g["old_time"], g["new_time"]),),
        ),
        Mistake(
            "twice",
            "You doubled the speed-up. Only the share that arithmetic bounds gets shorter.",
            (lambda g: 2 * comparing.speedup(g["old_time"], g["new_time"]),),
        ),
        Mistake(
            "wrong-way",
            "You made the new device slower. A peak that is too high makes the predicted time too short.",
            (lambda g: comparing.speedup(g["old_time"], g["new_time"]) * comparing.wrong_peak_time(g["share"], 2.0),),
        ),
    ),
    nudge="First the new device's time with the doubled peak: 1 - c + c / 2 of it is left. Then old over new.",
    solution="""\
g = inputs("22.6", seed=SEED)
new_time = g["new_time"] * (1 - g["share"] + g["share"] / 2)
answer = g["old_time"] / new_time""",
)


# 22.7 scale


def _efficiency(g: Inputs, batches: bool = True, devices: bool = False) -> Num:
    small = 16.0 * (g["small_batch"] if batches else 1.0)
    large = float(g["devices"])
    return comparing.relative_efficiency(
        small, 16.0, g["small_time"], large, 16.0 if devices else large, g["large_time"]
    )


_E7 = Exercise(
    id="22.7",
    slug=SLUG,
    title="From one row to many",
    objective=_SCALE,
    points=3,
    prompt="A data-parallel step takes {small_time} on 16 devices with {small_batch} sequences each, and {large_time} on "
    "{devices} devices with one sequence each. What does a device of the large system do per second, over a device of the "
    "small one?",
    unit="1",
    options={
        "small_time": Options((1.0, 0.9, 1.1), "s", "step on 16 devices"),
        "small_batch": Options((2, 3), "1", "sequences per device, small system"),
        "large_time": Options((0.8, 0.75), "s", "step on the large system"),
        "devices": Options((128, 192, 256), "1", "devices of the large system"),
    },
    solve=_efficiency,
    mistakes=(
        Mistake(
            "times-only",
            "You compared the times alone. Each device of the small system works through {small_batch} sequences in its "
            "step.",
            (lambda g: _efficiency(g, batches=False),),
        ),
        Mistake(
            "whole-system",
            "That compares the two systems. The question is about one device of each.",
            (lambda g: _efficiency(g, devices=True),),
        ),
        Mistake(
            "upside-down",
            "You divided the small system by the large one.",
            (lambda g: 1 / _efficiency(g),),
        ),
    ),
    nudge="Sequences of the whole step, over devices times seconds, on each side; then large over small.",
    solution="""\
g = inputs("22.7", seed=SEED)
small = 16 * g["small_batch"] / (16 * g["small_time"])
large = g["devices"] / (g["devices"] * g["large_time"])
answer = large / small""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7)
