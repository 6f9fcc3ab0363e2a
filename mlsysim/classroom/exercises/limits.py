"""Chapter 23, limits: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options
from mlsysim.hlo import losses

SLUG = "23-limits"
_ROUNDING = "Bound what rounding does to a trace, and say what is typical."
_TRACE = "Say what wrong sizes and written-out loops make of a program."
_COST = "Say what a campaign of simulations costs at least, and what it leaves out."
_BRACKET = "Test whether two predictions hold a measurement between them."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_ROUNDING, "23.2"),
    (_TRACE, "23.4"),
    (_COST, "23.6"),
    (_BRACKET, "23.8"),
)
_HOUR = 3600.0


# 23.1 and 23.2 rounding

_E1 = Exercise(
    id="23.1",
    slug=SLUG,
    title="At worst",
    objective=_ROUNDING,
    points=1,
    prompt="A trace has {regions} compute regions, one after another, of {step} together. Its format holds whole multiples of "
    "{resolution}, and each time is rounded to the nearest by itself. By how much can the sum be off, at most?",
    unit="s",
    options={
        "regions": Options((51, 160, 335, 749), "1", "compute regions"),
        "step": Options((2e-3, 5e-3, 20e-3), "s", "their time together"),
        "resolution": Options((1e-6, 2e-6, 5e-6), "s", "one step of the format"),
    },
    solve=lambda g: losses.rounding_bound(g["regions"], g["resolution"]),
    mistakes=(
        Mistake(
            "whole-step",
            "You took a whole step per region. That is the bound of cutting off; rounding to the nearest is off by half.",
            (lambda g: g["regions"] * g["resolution"],),
        ),
        Mistake(
            "one-region",
            "That is the bound of one region. At worst all of them are off the same way.",
            (lambda g: g["resolution"] / 2,),
        ),
        Mistake(
            "typical",
            "That is the typical error of independent times. At worst they are all off the same way.",
            (lambda g: losses.rounding_spread(g["regions"], g["resolution"]),),
        ),
    ),
    nudge="Half a step per region, and at worst they add up.",
    solution="""\
g = inputs("23.1", seed=SEED)
answer = hlo.losses.rounding_bound(g["regions"], g["resolution"])""",
)

_E2 = Exercise(
    id="23.2",
    slug=SLUG,
    title="Typically",
    objective=_ROUNDING,
    points=2,
    prompt="A trace has {regions} compute regions, each many times longer than {resolution} and no two alike. Each time is "
    "rounded to the nearest multiple of {resolution}. What is the standard deviation of the error of their sum?",
    unit="s",
    options={
        "regions": Options((27, 108, 300, 675, 1200, 2700), "1", "compute regions"),
        "resolution": Options((1e-6, 2e-6, 5e-6, 1e-5, 1e-4, 1e-3), "s", "one step of the format"),
    },
    solve=lambda g: losses.rounding_spread(g["regions"], g["resolution"]),
    mistakes=(
        Mistake(
            "bound",
            "That is the bound, which needs all of them to be off the same way. Independent errors cancel in part.",
            (lambda g: losses.rounding_bound(g["regions"], g["resolution"]),),
        ),
        Mistake(
            "deviations-added",
            "You added standard deviations. Of independent errors the variances add up, so the deviation grows with the "
            "root of {regions}.",
            (lambda g: g["regions"] * losses.rounding_spread(1, g["resolution"]),),
        ),
        Mistake(
            "half-step-each",
            "You took half a step as the deviation of one rounding. Half a step is its bound; the deviation of an error "
            "that is anywhere between is the step over the root of 12.",
            (lambda g: g["resolution"] / 2 * g["regions"] ** 0.5,),
        ),
    ),
    nudge="One rounding has the variance u^2 / 12. Variances add up; take the root at the end.",
    solution="""\
g = inputs("23.2", seed=SEED)
answer = hlo.losses.rounding_spread(g["regions"], g["resolution"])""",
)


# 23.3 and 23.4 traces

_E3 = Exercise(
    id="23.3",
    slug=SLUG,
    title="A loop, written out",
    objective=_TRACE,
    points=1,
    prompt="A step on {ranks} ranks has {outside} regions outside of a loop of {turns} turns, whose body is {body} regions, "
    "collectives among them. How many nodes has the trace of one rank?",
    unit="1",
    options={
        "ranks": Options((4, 8, 16), "1", "ranks"),
        "outside": Options((27, 41, 60), "1", "regions outside of the loop"),
        "turns": Options((7, 12, 32), "1", "turns"),
        "body": Options((25, 51, 76), "1", "regions of the body"),
    },
    solve=lambda g: losses.unrolled_nodes(g["outside"], g["turns"], g["body"]),
    mistakes=(
        Mistake(
            "rolled",
            "You counted the program. A trace has no loop: the body stands in it once per turn.",
            (lambda g: losses.unrolled_nodes(g["outside"], 1, g["body"]),),
        ),
        Mistake(
            "all-repeated",
            "You repeated the regions outside of the loop as well. They run once.",
            (lambda g: g["turns"] * (g["outside"] + g["body"]),),
        ),
        Mistake(
            "all-ranks",
            "That is the number over all ranks. Every rank has a file of its own.",
            (lambda g: g["ranks"] * losses.unrolled_nodes(g["outside"], g["turns"], g["body"]),),
        ),
    ),
    nudge="Outside once, the body once per turn.",
    solution="""\
g = inputs("23.3", seed=SEED)
answer = hlo.losses.unrolled_nodes(g["outside"], g["turns"], g["body"])""",
)


def _gather(g: Inputs, factor: Num, steps_of_latency: Num) -> Num:
    transfer = (g["ranks"] - 1) * g["shard"] / g["bandwidth"]
    return losses.wrong_size_factor(steps_of_latency * g["latency"], transfer, factor)


_E4 = Exercise(
    id="23.4",
    slug=SLUG,
    title="The size of an all-gather",
    objective=_TRACE,
    points=2,
    prompt="A ring of {ranks} gathers shards of {shard}, one per rank, over links of {bandwidth} with a latency of {latency} "
    "per step. The simulator wants the shard as the size; the trace gives the whole gathered array. How many times as long "
    "as it should is the simulated all-gather?",
    unit="1",
    options={
        "ranks": Options((4, 8, 16), "1", "ranks"),
        "shard": Options((1e6, 1.5e6, 2e6), "byte", "of each rank"),
        "bandwidth": Options((100e9, 300e9), "byte/s", "of a link"),
        "latency": Options((10e-6, 20e-6), "s", "of one step"),
    },
    solve=lambda g: _gather(g, g["ranks"], g["ranks"] - 1),
    mistakes=(
        Mistake(
            "no-latency",
            "You multiplied the whole time. The latency of the steps does not grow with the size.",
            (lambda g: g["ranks"],),
        ),
        Mistake(
            "latency-once",
            "You paid the latency once. The ring has {ranks} - 1 steps, and each pays it.",
            (lambda g: _gather(g, g["ranks"], 1),),
        ),
        Mistake(
            "too-small",
            "You made the size too small. That happens to a reduce-scatter, whose result is the shard.",
            (lambda g: _gather(g, 1 / g["ranks"], g["ranks"] - 1),),
        ),
    ),
    nudge="Split the time of the ring into latency and transfer. Only the transfer is {ranks} times as long.",
    solution="""\
g = inputs("23.4", seed=SEED)
latency = (g["ranks"] - 1) * g["latency"]
transfer = (g["ranks"] - 1) * g["shard"] / g["bandwidth"]
answer = hlo.losses.wrong_size_factor(latency, transfer, g["ranks"])""",
)


# 23.5 and 23.6 cost

_E5 = Exercise(
    id="23.5",
    slug=SLUG,
    title="What a median says of a sum",
    objective=_COST,
    points=1,
    prompt="Of {kernels} kernels {simulated} could be simulated, one after another, in a median time of {median}. Nothing "
    "else is known. How long did that take, at the least?",
    unit="s",
    options={
        "kernels": Options((42, 84, 120), "1", "kernels"),
        "simulated": Options((20, 30, 36), "1", "kernels simulated"),
        "median": Options((2.1 * _HOUR, 0.5 * _HOUR, 5 * _HOUR, 15 * _HOUR), "s", "median time of one"),
    },
    solve=lambda g: losses.campaign_least(g["simulated"], g["median"]),
    mistakes=(
        Mistake(
            "median-as-mean",
            "You took the median as the mean. The faster half may have taken no time at all.",
            (lambda g: g["simulated"] * g["median"],),
        ),
        Mistake(
            "all-kernels",
            "You counted kernels that were never simulated. Only {simulated} took time.",
            (lambda g: losses.campaign_least(g["kernels"], g["median"]),),
        ),
        Mistake(
            "one",
            "That is the time of one kernel in the middle. There are {simulated} of them.",
            (lambda g: g["median"],),
        ),
    ),
    nudge="Half of them took at least the median each.",
    solution="""\
g = inputs("23.5", seed=SEED)
answer = hlo.losses.campaign_least(g["simulated"], g["median"])""",
)

_E6 = Exercise(
    id="23.6",
    slug=SLUG,
    title="A step, kernel by kernel",
    objective=_COST,
    points=2,
    prompt="A training step runs {regions} regions, {distinct} of them different. A simulator takes a median of {median} per "
    "region, and {machines} machines share the work evenly. How long does the step take to simulate, at the least, when no "
    "region is simulated twice?",
    unit="s",
    options={
        "regions": Options((268, 374, 502), "1", "regions that run"),
        "distinct": Options((82, 55, 120), "1", "of them different"),
        "median": Options((2.1 * _HOUR, 0.5 * _HOUR), "s", "median time of one"),
        "machines": Options((8, 16, 32), "1", "machines"),
    },
    solve=lambda g: losses.campaign_least(g["distinct"], g["median"]) / g["machines"],
    mistakes=(
        Mistake(
            "every-region",
            "You simulated every region. Equal regions take equal times, so a cache needs {distinct} only.",
            (lambda g: losses.campaign_least(g["regions"], g["median"]) / g["machines"],),
        ),
        Mistake(
            "median-as-mean",
            "You took the median as the mean. Only half of the regions are known to take so long.",
            (lambda g: g["distinct"] * g["median"] / g["machines"],),
        ),
        Mistake(
            "one-machine",
            "That is the time on one machine.",
            (lambda g: losses.campaign_least(g["distinct"], g["median"]),),
        ),
    ),
    nudge="Half of the distinct regions take at least the median; share the sum among the machines.",
    solution="""\
g = inputs("23.6", seed=SEED)
answer = hlo.losses.campaign_least(g["distinct"], g["median"]) / g["machines"]""",
)


# 23.7 and 23.8 brackets

_E7 = Exercise(
    id="23.7",
    slug=SLUG,
    title="Where between?",
    objective=_BRACKET,
    points=1,
    prompt="A roofline says {low}, the profile of the regions {high}, and the step took {measured}. Where does the "
    "measurement stand, when the roofline is 0 and the profile 1?",
    unit="1",
    options={
        "low": Options((48e-3, 40e-3, 30e-3), "s", "roofline"),
        "high": Options((106e-3, 120e-3, 150e-3, 160e-3), "s", "profile of the regions"),
        "measured": Options((85e-3, 66e-3, 98e-3), "s", "measured"),
    },
    solve=lambda g: losses.bracket_position(g["measured"], g["low"], g["high"]),
    mistakes=(
        Mistake(
            "from-zero",
            "You divided by the profile. The roofline is the zero, not no time at all.",
            (lambda g: g["measured"] / g["high"],),
        ),
        Mistake(
            "from-the-profile",
            "You measured from the profile. That is one minus the position.",
            (lambda g: losses.bracket_position(g["measured"], g["high"], g["low"]),),
        ),
        Mistake(
            "over-the-roofline",
            "You divided by the roofline. The distance is to be a share of the distance between the two.",
            (lambda g: (g["measured"] - g["low"]) / g["low"],),
        ),
    ),
    nudge="The distance from the roofline over the distance between the two.",
    solution="""\
g = inputs("23.7", seed=SEED)
answer = hlo.losses.bracket_position(g["measured"], g["low"], g["high"])""",
)


def _digit(g: Inputs) -> Num:
    position = losses.bracket_position(g["measured"], g["low"], g["high"])
    return 2 * min(position, 1 - position) * (g["high"] - g["low"])


_E8 = Exercise(
    id="23.8",
    slug=SLUG,
    title="How many digits prove it?",
    objective=_BRACKET,
    points=2,
    prompt="A roofline says {low}, the profile of the regions {high}, and a paper prints {measured}, rounded to some last "
    "digit. How large may one unit of that digit be, at most, for the measurement to be surely between the two?",
    unit="s",
    options={
        "low": Options((20.5e-3, 15e-3, 10e-3), "s", "roofline"),
        "high": Options((43.3e-3, 44e-3, 46e-3, 50e-3), "s", "profile of the regions"),
        "measured": Options((40e-3, 41e-3, 42e-3), "s", "measured, as printed"),
    },
    solve=_digit,
    mistakes=(
        Mistake(
            "half-forgotten",
            "You let it be off by a whole unit. A rounded figure is off by at most half a unit of its last digit.",
            (lambda g: _digit(g) / 2,),
        ),
        Mistake(
            "far-end",
            "You took the farther end. The nearer one is crossed first.",
            (lambda g: 2 * max(g["measured"] - g["low"], g["high"] - g["measured"]),),
        ),
        Mistake(
            "width",
            "That is the distance between the two predictions. The measurement does not stand in their middle.",
            (lambda g: g["high"] - g["low"],),
        ),
    ),
    nudge="The distance to the nearer end is half of the unit.",
    solution="""\
g = inputs("23.8", seed=SEED)
position = hlo.losses.bracket_position(g["measured"], g["low"], g["high"])
answer = 2 * min(position, 1 - position) * (g["high"] - g["low"])""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8)
