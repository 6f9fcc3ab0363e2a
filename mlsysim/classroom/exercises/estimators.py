"""Chapter 20, estimators: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options
from mlsysim.hlo.estimators import systolic

SLUG = "20-estimators"
_CYCLES = "Count the cycles of a product on a systolic array for what it holds: weights, results or inputs."
_REACHED = "Turn cycles into seconds, and say what a product reaches of the arrays' peak."
_PRICES = "Price a region by arrays and roofline together, and say what each part costs."
_SAVED = "Say what repetition and a cache save, in evaluations and in time."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_CYCLES, "20.2"),
    (_REACHED, "20.5"),
    (_PRICES, "20.7"),
    (_SAVED, "20.9"),
)

_NOT_REFILLED = "You filled the array once. What does not fit is held in parts, one after another, and the rest streams again for each."


def _folds(size: Num, extent: Num) -> Num:
    return -(-size // extent)


# 20.1 to 20.3 cycles


def _ws(g: Inputs) -> Num:
    return systolic.weight_stationary(g["m"], g["n"], g["k"], g["rows"], g["columns"])


_E1 = Exercise(
    id="20.1",
    slug=SLUG,
    title="Weights held still",
    objective=_CYCLES,
    points=1,
    prompt="An array of {rows} rows and {columns} columns holds weights. Inputs of {m} rows and {k} columns meet weights of "
    "{k} rows and {n} columns. How many cycles does the product take, if every refill waits for the one before it and loads "
    "one row of weights per cycle?",
    unit="1",
    options={
        "rows": Options((16, 64), "1", "rows of elements"),
        "columns": Options((32, 16), "1", "columns of elements"),
        "m": Options((450, 600, 200), "1", "rows of the inputs"),
        "k": Options((150, 80), "1", "columns of the inputs"),
        "n": Options((40, 90), "1", "columns of the weights"),
    },
    solve=_ws,
    mistakes=(
        Mistake("one-refill", _NOT_REFILLED, (lambda g: 2 * g["rows"] + g["columns"] + g["m"] - 3,)),
        Mistake(
            "no-loading",
            "You let the inputs start at once. The {rows} rows of weights must be in their places first.",
            (
                lambda g: (
                    _folds(g["k"], g["rows"]) * _folds(g["n"], g["columns"]) * (g["rows"] + g["columns"] + g["m"] - 2)
                    - 1
                ),
            ),
        ),
        Mistake(
            "results-held",
            "That is the count with results held. Here the weights stay, and the rows of the inputs stream.",
            (lambda g: systolic.output_stationary(g["m"], g["n"], g["k"], g["rows"], g["columns"]),),
        ),
        Mistake(
            "full-array",
            "You let every element work in every cycle. Loading, filling and draining cost cycles too.",
            (lambda g: g["m"] * g["n"] * g["k"] / (g["rows"] * g["columns"]),),
        ),
    ),
    nudge="Count the refills, ceil(K / rows) x ceil(N / columns). Each takes the loading, the stream and the skew: "
    "rows + M + (rows - 1) + (columns - 1) cycles; cycles are named from 0.",
    solution="""\
g = inputs("20.1", seed=SEED)
from mlsysim.hlo.estimators import systolic
answer = systolic.weight_stationary(g["m"], g["n"], g["k"], g["rows"], g["columns"])""",
)


def _flows(g: Inputs) -> dict[str, Num]:
    shape = g["m"], g["n"], g["k"], g["rows"], g["columns"]
    return {
        "weights": systolic.weight_stationary(*shape),
        "results": systolic.output_stationary(*shape),
        "inputs": systolic.input_stationary(*shape),
    }


_E2 = Exercise(
    id="20.2",
    slug=SLUG,
    title="What to hold",
    objective=_CYCLES,
    points=2,
    prompt="On an array of {rows} rows and {columns} columns, inputs of {m} rows and {k} columns meet weights of {k} rows and "
    "{n} columns. You may hold weights, results or inputs. How many cycles does the fastest of the three take?",
    unit="1",
    options={
        "rows": Options((32, 64), "1", "rows of elements"),
        "columns": Options((16, 48), "1", "columns of elements"),
        "m": Options((500, 50), "1", "rows of the inputs"),
        "k": Options((500, 330), "1", "columns of the inputs"),
        "n": Options((180, 350), "1", "columns of the weights"),
    },
    solve=lambda g: min(_flows(g).values()),
    mistakes=(
        Mistake(
            "slowest",
            "That is the slowest of the three.",
            (lambda g: max(_flows(g).values()),),
        ),
        Mistake(
            "middle",
            "Another choice of what to hold takes fewer cycles. Count all three.",
            (lambda g: sorted(_flows(g).values())[1],),
        ),
        Mistake(
            "full-array",
            "No schedule keeps every element at work in every cycle. Count refills, loading and skew.",
            (lambda g: g["m"] * g["n"] * g["k"] / (g["rows"] * g["columns"]),),
        ),
    ),
    nudge="Count each: weights ceil(K/R) ceil(N/C) (2R + C + M - 2) - 1, results ceil(M/R) ceil(N/C) (K + R + C - 2) - 1, inputs "
    "ceil(K/R) ceil(M/C) (2R + C + N - 2) - 1.",
    solution="""\
g = inputs("20.2", seed=SEED)
from mlsysim.hlo.estimators import systolic
shape = g["m"], g["n"], g["k"], g["rows"], g["columns"]
answer = min(flow(*shape) for flow in (
    systolic.weight_stationary, systolic.output_stationary, systolic.input_stationary))""",
)


_E3 = Exercise(
    id="20.3",
    slug=SLUG,
    title="A few rows of inputs",
    objective=_CYCLES,
    points=2,
    prompt="A server decodes {m} sequences at a time: inputs of {m} rows and {k} columns meet weights of {k} rows and {n} "
    "columns, on an array of {rows} rows and {columns} columns. How many cycles does holding the inputs save over holding "
    "the weights?",
    unit="1",
    options={
        "rows": Options((64, 32), "1", "rows of elements"),
        "columns": Options((32, 64), "1", "columns of elements"),
        "m": Options((16, 12, 8), "1", "sequences"),
        "k": Options((1000, 1500), "1", "columns of the inputs"),
        "n": Options((3000, 5000), "1", "columns of the weights"),
    },
    solve=lambda g: _flows(g)["weights"] - _flows(g)["inputs"],
    mistakes=(
        Mistake(
            "inputs-only",
            "Those are the cycles with the inputs held. How many fewer is that?",
            (lambda g: _flows(g)["inputs"],),
        ),
        Mistake(
            "weights-only",
            "Those are the cycles with the weights held. How many fewer are needed otherwise?",
            (lambda g: _flows(g)["weights"],),
        ),
        Mistake(
            "full-array",
            "You compared with an array that is never loaded or filled. Count the cycles of both.",
            (lambda g: _flows(g)["weights"] - g["m"] * g["n"] * g["k"] / (g["rows"] * g["columns"]),),
        ),
    ),
    nudge="Held weights are refilled ceil(K/R) ceil(N/C) times and stream only {m} rows each time. Held inputs are refilled "
    "ceil(K/R) ceil(M/C) times and stream the {n} columns.",
    solution="""\
g = inputs("20.3", seed=SEED)
from mlsysim.hlo.estimators import systolic
shape = g["m"], g["n"], g["k"], g["rows"], g["columns"]
answer = systolic.weight_stationary(*shape) - systolic.input_stationary(*shape)""",
)


# 20.4 to 20.6 peak, utilisation, seconds

_E4 = Exercise(
    id="20.4",
    slug=SLUG,
    title="Peak of the arrays",
    objective=_REACHED,
    points=1,
    prompt="A chip has {cores} cores, each with {arrays} arrays of {rows} rows and {columns} columns, at {clock}. Every element "
    "multiplies and adds once per cycle. What is the peak of the chip?",
    unit="FLOP/s",
    options={
        "cores": Options((4, 8), "1", "cores of the chip"),
        "arrays": Options((2, 4), "1", "arrays of a core"),
        "rows": Options((128, 256), "1", "rows of elements"),
        "columns": Options((128,), "1", "columns of elements"),
        "clock": Options((940e6, 1050e6, 700e6, 1.75e9), "Hz", "clock"),
    },
    solve=lambda g: systolic.array_peak(g["rows"], g["columns"], g["clock"], g["cores"] * g["arrays"]),
    mistakes=(
        Mistake(
            "one-flop",
            "You counted one FLOP per element and cycle. A multiply-add is two.",
            (lambda g: g["cores"] * g["arrays"] * g["rows"] * g["columns"] * g["clock"],),
        ),
        Mistake(
            "one-core",
            "That is one core's peak. The chip has {cores}.",
            (lambda g: 2 * g["arrays"] * g["rows"] * g["columns"] * g["clock"],),
        ),
        Mistake(
            "edge",
            "You counted rows and columns. The elements are their product.",
            (lambda g: 2 * g["cores"] * g["arrays"] * (g["rows"] + g["columns"]) * g["clock"],),
        ),
    ),
    nudge="Elements of all arrays, times two FLOPs, times cycles per second.",
    solution="""\
g = inputs("20.4", seed=SEED)
from mlsysim.hlo.estimators import systolic
answer = systolic.array_peak(g["rows"], g["columns"], g["clock"], g["cores"] * g["arrays"])""",
)


def _reached(g: Inputs) -> Num:
    return systolic.array_utilisation(g["m"], g["n"], g["k"], g["rows"], g["columns"], _ws(g))


_E5 = Exercise(
    id="20.5",
    slug=SLUG,
    title="What a product reaches",
    objective=_REACHED,
    points=2,
    prompt="An array of {rows} rows and {columns} columns holds weights. Inputs of {m} rows and {k} columns meet weights of {k} "
    "rows and {n} columns. What share of the array's peak does the product reach?",
    unit="1",
    options={
        "rows": Options((128, 64), "1", "rows of elements"),
        "columns": Options((128, 64), "1", "columns of elements"),
        "m": Options((400, 700), "1", "rows of the inputs"),
        "k": Options((250, 400), "1", "columns of the inputs"),
        "n": Options((200, 300), "1", "columns of the weights"),
    },
    solve=_reached,
    mistakes=(
        Mistake(
            "padding-counted",
            "You counted the elements that hold nothing as work. The last refill in each direction does not fill the array.",
            (lambda g: _folds(g["k"], g["rows"]) * _folds(g["n"], g["columns"]) * g["m"] / _ws(g),),
        ),
        Mistake(
            "filling-free",
            "You took the filling of the edges as the only loss. Loading and skew cost cycles in every refill.",
            (
                lambda g: (
                    g["n"]
                    * g["k"]
                    / (_folds(g["k"], g["rows"]) * g["rows"] * _folds(g["n"], g["columns"]) * g["columns"])
                ),
            ),
        ),
        Mistake(
            "results-held",
            "That is with results held. Here the weights stay.",
            (
                lambda g: systolic.array_utilisation(
                    g["m"], g["n"], g["k"], g["rows"], g["columns"], _flows(g)["results"]
                ),
            ),
        ),
        Mistake(
            "two-flops",
            "You counted two FLOPs in the product and one in the peak. Both count two, or both count multiply-adds.",
            (lambda g: 2 * _reached(g),),
        ),
    ),
    nudge="M x N x K multiply-adds, over rows x columns elements times the cycles of the product.",
    solution="""\
g = inputs("20.5", seed=SEED)
from mlsysim.hlo.estimators import systolic
shape = g["m"], g["n"], g["k"], g["rows"], g["columns"]
answer = systolic.array_utilisation(*shape, systolic.weight_stationary(*shape))""",
)


def _split_cycles(g: Inputs) -> Num:
    part = _folds(g["m"], g["arrays"])
    return systolic.weight_stationary(part, g["n"], g["k"], g["rows"], g["columns"])


_E6 = Exercise(
    id="20.6",
    slug=SLUG,
    title="Rows shared by several arrays",
    objective=_REACHED,
    points=2,
    prompt="A core has {arrays} arrays of {rows} rows and {columns} columns at {clock}, which hold weights. Inputs of {m} rows and "
    "{k} columns meet weights of {k} rows and {n} columns, and each array takes an equal part of the rows of the inputs. "
    "How long does the product take?",
    unit="s",
    options={
        "arrays": Options((4, 8, 2), "1", "arrays"),
        "rows": Options((128,), "1", "rows of elements"),
        "columns": Options((128, 64), "1", "columns of elements"),
        "clock": Options((940e6, 1.5e9), "Hz", "clock"),
        "m": Options((1024, 2048), "1", "rows of the inputs"),
        "k": Options((512, 1000), "1", "columns of the inputs"),
        "n": Options((600, 1024), "1", "columns of the weights"),
    },
    solve=lambda g: systolic.cycles_time(_split_cycles(g), g["clock"]),
    mistakes=(
        Mistake(
            "divided-time",
            "You divided the time of one array. Every array loads all the weights: only the stream gets shorter.",
            (lambda g: systolic.cycles_time(_ws(g), g["clock"]) / g["arrays"],),
        ),
        Mistake(
            "one-array",
            "That is one array with all the rows.",
            (lambda g: systolic.cycles_time(_ws(g), g["clock"]),),
        ),
        Mistake(
            "peak",
            "You divided the work by the peak. The arrays do not reach it.",
            (lambda g: g["m"] * g["n"] * g["k"] / (g["arrays"] * g["rows"] * g["columns"] * g["clock"]),),
        ),
    ),
    nudge="Each array runs a product with M / {arrays} rows. Count its cycles, refills and all, and divide by the clock.",
    solution="""\
g = inputs("20.6", seed=SEED)
from mlsysim.hlo.estimators import systolic
cycles = systolic.weight_stationary(
    -(-g["m"] // g["arrays"]), g["n"], g["k"], g["rows"], g["columns"])
answer = systolic.cycles_time(cycles, g["clock"])""",
)


# 20.7 prices


def _kernels(g: Inputs) -> tuple[Num, Num, Num]:
    """Cycles' time of the product, the time of its traffic, and the time of the rest's traffic."""
    return (
        systolic.cycles_time(g["cycles"], g["clock"]),
        g["product_bytes"] / g["bandwidth"],
        g["rest_bytes"] / g["bandwidth"],
    )


def _arrays_share(g: Inputs) -> Num:
    product, traffic, rest = _kernels(g)
    return max(product, traffic) / (max(product, traffic) + rest)


_E7 = Exercise(
    id="20.7",
    slug=SLUG,
    title="A region in two parts",
    objective=_PRICES,
    points=3,
    prompt="A region has two kernels, one after the other. The first is a product of {cycles} cycles at {clock} that moves "
    "{product_bytes}; a memory of {bandwidth} feeds it while it works. The second is elementwise and moves {rest_bytes}. A "
    "composite prices the first by the arrays and its memory, the second by the roofline, where memory decides. What share "
    "of the region's time is the first kernel's?",
    unit="1",
    options={
        "cycles": Options((40_000, 120_000, 60_000), "1", "cycles of the product"),
        "clock": Options((940e6, 1.5e9), "Hz", "clock"),
        "product_bytes": Options((30e6, 18e6), "byte", "traffic of the product's kernel"),
        "bandwidth": Options((450e9, 600e9), "byte/s", "bandwidth of the memory"),
        "rest_bytes": Options((15e6, 20e6), "byte", "traffic of the elementwise kernel"),
    },
    solve=_arrays_share,
    mistakes=(
        Mistake(
            "sum-in-a-kernel",
            "You added the product's cycles and its traffic. They overlap inside a kernel: the slower decides.",
            (lambda g: (_kernels(g)[0] + _kernels(g)[1]) / sum(_kernels(g)),),
        ),
        Mistake(
            "all-overlap",
            "You let the two kernels overlap. They run one after the other: their times add up.",
            (lambda g: max(_kernels(g)[:2]) / max(max(_kernels(g)[:2]), _kernels(g)[2]),),
        ),
        Mistake(
            "other-share",
            "That is the second kernel's share.",
            (lambda g: 1 - _arrays_share(g),),
        ),
    ),
    nudge="First kernel: the larger of cycles / clock and bytes / bandwidth. Second: bytes / bandwidth. The region takes their sum.",
    solution="""\
g = inputs("20.7", seed=SEED)
from mlsysim.hlo.estimators import systolic
product = systolic.cycles_time(g["cycles"], g["clock"])
first = max(product, g["product_bytes"] / g["bandwidth"])
second = g["rest_bytes"] / g["bandwidth"]
answer = first / (first + second)""",
)


# 20.8 and 20.9 what is saved

_E8 = Exercise(
    id="20.8",
    slug=SLUG,
    title="A second program",
    objective=_SAVED,
    points=1,
    prompt="A program has {regions} compute regions, {distinct} of them different. A cache on disk knows {known} of the different "
    "ones from another program. What share of the {regions} evaluations is saved?",
    unit="1",
    options={
        "regions": Options((335, 422, 160), "1", "compute regions that run"),
        "distinct": Options((107, 65, 90), "1", "different ones"),
        "known": Options((42, 30, 50, 24), "1", "different ones in the cache"),
    },
    solve=lambda g: 1 - (g["distinct"] - g["known"]) / g["regions"],
    mistakes=(
        Mistake(
            "repetition-only",
            "You left the cache on disk out: {known} of the different regions need no evaluation either.",
            (lambda g: 1 - g["distinct"] / g["regions"],),
        ),
        Mistake(
            "cache-only",
            "You counted what the cache saves of the different regions. Of the {regions} that run, repetition saves most.",
            (lambda g: g["known"] / g["distinct"],),
        ),
        Mistake(
            "evaluated",
            "That is the share that is still evaluated.",
            (lambda g: (g["distinct"] - g["known"]) / g["regions"],),
        ),
        Mistake(
            "known-once",
            "You took the known ones off the regions that run. Each of them stands for all its repetitions.",
            (lambda g: g["known"] / g["regions"],),
        ),
    ),
    nudge="Evaluations that are left: different regions that the cache does not know. The rest of {regions} is saved.",
    solution="""\
g = inputs("20.8", seed=SEED)
answer = 1 - (g["distinct"] - g["known"]) / g["regions"]""",
)


def _saved_time(g: Inputs) -> Num:
    once = g["layer_time"] + g["rest_time"]
    return 1 - once / (g["layers"] * g["layer_time"] + g["rest_time"])


_E9 = Exercise(
    id="20.9",
    slug=SLUG,
    title="Evaluations and their time",
    objective=_SAVED,
    points=2,
    prompt="A program has {layers} equal layers of {per_layer} different regions each, and {rest} regions that occur once. To "
    "compile and measure one layer's regions takes {layer_time}, the others together {rest_time}. What share of the "
    "measuring time does a cache save, if each different region is measured once?",
    unit="1",
    options={
        "layers": Options((16, 32, 24), "1", "layers"),
        "per_layer": Options((6, 9), "1", "different regions of a layer"),
        "rest": Options((8, 12), "1", "regions that occur once"),
        "layer_time": Options((20.0, 35.0), "s", "measuring the regions of one layer"),
        "rest_time": Options((150.0, 240.0), "s", "measuring those that occur once"),
    },
    solve=_saved_time,
    mistakes=(
        Mistake(
            "count",
            "That is the share of the evaluations. They do not all take the same time.",
            (lambda g: 1 - (g["per_layer"] + g["rest"]) / (g["layers"] * g["per_layer"] + g["rest"]),),
        ),
        Mistake(
            "layers-only",
            "You left out what occurs once: it is measured in both cases.",
            (lambda g: 1 - 1 / g["layers"],),
        ),
        Mistake(
            "spent",
            "That is the share of the time that is still spent.",
            (lambda g: 1 - _saved_time(g),),
        ),
    ),
    nudge="With the cache: one layer's time and the rest's. Without: {layers} times the layer's, and the rest's.",
    solution="""\
g = inputs("20.9", seed=SEED)
with_cache = g["layer_time"] + g["rest_time"]
without = g["layers"] * g["layer_time"] + g["rest_time"]
answer = 1 - with_cache / without""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
