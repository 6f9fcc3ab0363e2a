"""Chapter 19, StableHLO: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from collections.abc import Callable

from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options
from mlsysim.hlo.work import counts, equations

SLUG = "19-stablehlo"
_WORK = "Count an operation's FLOPs from its shapes and its dimension numbers."
_TRAFFIC = "Price the traffic of an operation, a gather and a fused region."
_LOOPS = "Count a loop by its counter, and say what a count without it leaves out."
_REGIONS = "Cut a program into regions: whose shapes they are, and what a cache saves."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_WORK, "19.2"),
    (_TRAFFIC, "19.5"),
    (_LOOPS, "19.7"),
    (_REGIONS, "19.9"),
)


# 19.1 to 19.3 work


def _scores(g: Inputs, batch: Num = 1.0) -> Num:
    return equations.dot_flops(batch * g["batch"] * g["heads"] * g["queries"] * g["keys"], g["head_dim"])


_E1 = Exercise(
    id="19.1",
    slug=SLUG,
    title="A product with batch dimensions",
    objective=_WORK,
    points=1,
    prompt="A dot_general has the operands {batch} x {heads} x {queries} x {head_dim} and {batch} x {heads} x {keys} x "
    "{head_dim}. The first two dimensions are batching, the last one is contracting. How many FLOPs is it?",
    unit="FLOP",
    options={
        "batch": Options((2, 4, 16), "1", "sequences"),
        "heads": Options((8, 16, 32), "1", "heads"),
        "queries": Options((512, 1024), "1", "queries"),
        "keys": Options((2048, 4096), "1", "keys"),
        "head_dim": Options((64, 128), "1", "size of a head"),
    },
    solve=_scores,
    mistakes=(
        Mistake(
            "one-per-product",
            "You counted a multiplication and its addition as one operation; they are two.",
            (lambda g: _scores(g) / 2,),
        ),
        Mistake(
            "batch-dropped",
            "You counted one product. There is one for each of the {batch} x {heads} batch indices.",
            (lambda g: equations.dot_flops(g["queries"] * g["keys"], g["head_dim"]),),
        ),
        Mistake(
            "batch-twice",
            "You multiplied all dimensions of both operands. The batching dimensions are the same ones on both sides.",
            (lambda g: _scores(g, g["batch"] * g["heads"]),),
        ),
    ),
    nudge="Two FLOPs for each element of the result and each contracted index. The result is batch x heads x queries x keys.",
    solution="""\
g = inputs("19.1", seed=SEED)
result = g["batch"] * g["heads"] * g["queries"] * g["keys"]
answer = hlo.equations.dot_flops(result, g["head_dim"])""",
)


def _convolved(g: Inputs, side: Num = None, groups: Num = None, out: Num = 1.0) -> Num:
    length = g["size"] - 2 if side is None else side
    return equations.convolution_flops(
        g["batch"],
        length**2 * 9,
        g["channels_in"],
        g["channels_out"] * out,
        g["groups"] if groups is None else groups,
    )


def _as_hwio(g: Inputs) -> Num:
    kernel = (g["channels_out"], g["channels_in"] // g["groups"], 3, 3)
    return counts.kernel_as_hwio_flops(kernel, (g["batch"], g["channels_out"], g["size"] - 2, g["size"] - 2))


_E2 = Exercise(
    id="19.2",
    slug=SLUG,
    title="A grouped convolution",
    objective=_WORK,
    points=2,
    prompt="A convolution takes {batch} images of {size} x {size} with {channels_in} channels to {channels_out} channels in "
    "{groups} groups, with windows of 3 x 3, stride 1 and no padding. Its kernel's dimensions are, in this order, output "
    "channels, input channels of a group, height and width. How many FLOPs is it?",
    unit="FLOP",
    options={
        "batch": Options((32, 8, 64), "1", "images"),
        "size": Options((28, 14, 56), "1", "height and width"),
        "channels_in": Options((64, 128), "1", "input channels"),
        "channels_out": Options((128, 256), "1", "output channels"),
        "groups": Options((4, 8, 16), "1", "groups"),
    },
    solve=_convolved,
    mistakes=(
        Mistake(
            "groups-forgotten",
            "You let each output channel see all input channels. It sees those of its group only.",
            (lambda g: _convolved(g, groups=1),),
        ),
        Mistake(
            "groups-twice",
            "You divided the output channels by the groups, too. All {channels_out} of them are made.",
            (lambda g: _convolved(g, out=1 / g["groups"]),),
        ),
        Mistake(
            "padded",
            "Without padding a window of 3 x 3 fits in {size} - 2 positions along each side.",
            (lambda g: _convolved(g, side=g["size"]),),
        ),
        Mistake(
            "kernel-as-hwio",
            "You read the kernel's first three dimensions as height, width and input channels. Its dimension numbers say "
            "that output channels come first.",
            (_as_hwio,),
        ),
        Mistake(
            "one-per-product",
            "You counted a multiplication and its addition as one operation; they are two.",
            (lambda g: _convolved(g) / 2,),
        ),
    ),
    nudge="2 x images x positions x 9 taps x input channels of a group x output channels.",
    solution="""\
g = inputs("19.2", seed=SEED)
pairs = (g["size"] - 2) ** 2 * 9
answer = hlo.equations.convolution_flops(
    g["batch"], pairs, g["channels_in"], g["channels_out"], g["groups"]
)""",
)


def _softmax(g: Inputs, reductions: float = 2.0, elementwise: float = 2.0, kept: float = 1.0) -> Num:
    n = g["rows"] * g["columns"]
    return reductions * equations.reduction_flops(n, kept * g["rows"]) + elementwise * n


_E3 = Exercise(
    id="19.3",
    slug=SLUG,
    title="A softmax, operation by operation",
    objective=_WORK,
    points=2,
    prompt="A router takes the softmax of each of {rows} rows of {columns}: the maximum of each row, a subtraction, "
    "exponentials, the sum of each row, and a division. How many FLOPs is that, if exponentials are counted apart?",
    unit="FLOP",
    options={
        "rows": Options((4096, 1024, 2048, 3000, 6000, 8192, 12000, 16384, 32768), "1", "rows"),
        "columns": Options((8, 12, 16, 24), "1", "columns"),
    },
    solve=_softmax,
    mistakes=(
        Mistake(
            "reduction-of-all",
            "A reduction of {columns} elements to one applies its function {columns} - 1 times.",
            (lambda g: _softmax(g, kept=0.0),),
        ),
        Mistake(
            "exponentials-counted",
            "You counted the exponentials as well; they are counted apart.",
            (lambda g: _softmax(g, elementwise=3.0),),
        ),
        Mistake(
            "maximum-is-free",
            "You left one of the two reductions out. A comparison is an operation, too.",
            (lambda g: _softmax(g, reductions=1.0),),
        ),
    ),
    nudge="Two reductions of input minus result elements, and two elementwise operations of one FLOP per element.",
    solution="""\
g = inputs("19.3", seed=SEED)
elements = g["rows"] * g["columns"]
reduction = hlo.equations.reduction_flops(elements, g["rows"])
answer = 2 * reduction + 2 * elements""",
)


# 19.4 and 19.5 traffic


def _looked_up(g: Inputs, size: float = 2.0) -> Num:
    return equations.gather_bytes(g["tokens"] * g["width"] * size, g["tokens"] * 4)


_E4 = Exercise(
    id="19.4",
    slug=SLUG,
    title="An embedding",
    objective=_TRAFFIC,
    points=2,
    prompt="An embedding table has {vocab} rows of {width} in bf16. A gather looks up {tokens} tokens, by indices of 4 bytes. "
    "How many bytes does it move?",
    unit="byte",
    options={
        "vocab": Options((128256, 32000, 151936), "1", "rows of the table"),
        "width": Options((4096, 2048, 5120), "1", "width of a row"),
        "tokens": Options((512, 64, 2048, 4096), "1", "tokens"),
    },
    solve=_looked_up,
    mistakes=(
        Mistake(
            "whole-table",
            "You read the whole table. Only the rows that are asked for are read.",
            (
                lambda g: equations.op_bytes(
                    g["vocab"] * g["width"] * 2 + g["tokens"] * 4, g["tokens"] * g["width"] * 2
                ),
            ),
        ),
        Mistake(
            "one-way",
            "Each row is read from the table and written to the result.",
            (lambda g: equations.op_bytes(g["tokens"] * 4, g["tokens"] * g["width"] * 2),),
        ),
        Mistake("four-bytes", "bf16 takes 2 bytes, not 4.", (lambda g: _looked_up(g, 4.0),)),
    ),
    nudge="Two times the rows that come out, and the indices.",
    solution="""\
g = inputs("19.4", seed=SEED)
rows = g["tokens"] * g["width"] * 2
answer = hlo.equations.gather_bytes(rows, g["tokens"] * 4)""",
)


def _swish(g: Inputs) -> Num:
    """t = a + b, u = logistic(t), y = u t: fused, only a, b and y cross the boundary."""
    size = g["rows"] * g["columns"] * g["element_bytes"]
    apart = equations.op_bytes(5 * size, 3 * size)
    return equations.fused_bytes(equations.fused_bytes(apart, size, 2), size)


def _arrays(count: float) -> tuple[Callable[[Inputs], float]]:
    return (lambda g: float(count * g["rows"] * g["columns"] * g["element_bytes"]),)


_E5 = Exercise(
    id="19.5",
    slug=SLUG,
    title="Three operations in one kernel",
    objective=_TRAFFIC,
    points=2,
    prompt="Arrays of {rows} x {columns} with {element_bytes} per element go through t = a + b, u = logistic(t), y = u t. A "
    "compiler fuses the three; t and u are needed nowhere else. How many bytes does the fused kernel move?",
    unit="byte",
    options={
        "rows": Options((2048, 1024, 4096, 8192), "1", "rows"),
        "columns": Options((4096, 2048, 5120, 11008), "1", "columns"),
        "element_bytes": Options((2, 4), "byte", "bytes per element"),
    },
    solve=_swish,
    mistakes=(
        Mistake("apart", "That is what the three move apart: 2 + 1, 1 + 1 and 2 + 1 arrays.", _arrays(8)),
        Mistake(
            "one-reader",
            "t is read by two operations, so keeping it on the chip saves one write and two reads.",
            _arrays(4),
        ),
        Mistake("only-one-kept", "You kept one of the two intermediates on the chip; both stay there.", _arrays(6)),
        Mistake("one-input", "Both a and b are read.", _arrays(2)),
    ),
    nudge="Only what crosses the boundary of the kernel is moved: a and b in, y out.",
    solution="""\
g = inputs("19.5", seed=SEED)
size = g["rows"] * g["columns"] * g["element_bytes"]
apart = hlo.equations.op_bytes(5 * size, 3 * size)
without_t = hlo.equations.fused_bytes(apart, size, readers=2)
answer = hlo.equations.fused_bytes(without_t, size)""",
)


# 19.6 and 19.7 loops

_E6 = Exercise(
    id="19.6",
    slug=SLUG,
    title="A counter",
    objective=_LOOPS,
    points=1,
    prompt="A while loop carries a counter that starts at {start}. The condition compares it with {limit} (LT), the body adds "
    "{step}. How often does the body run?",
    unit="1",
    options={
        "start": Options((33, 54, 57), "1", "first value"),
        "limit": Options((143, 164, 200, 224), "1", "limit"),
        "step": Options((7, 6, 9), "1", "what the body adds"),
    },
    solve=lambda g: equations.trip_count(g["start"], g["limit"], g["step"]),
    mistakes=(
        Mistake(
            "rounded-down",
            "You rounded down. While the counter is below the limit the body runs once more.",
            (lambda g: (g["limit"] - g["start"]) // g["step"],),
        ),
        Mistake(
            "from-zero",
            "You started at 0; this counter starts at {start}.",
            (lambda g: equations.trip_count(0, g["limit"], g["step"]),),
        ),
        Mistake("by-one", "You let the counter grow by 1.", (lambda g: g["limit"] - g["start"],)),
    ),
    nudge="The limit less the start, over the step, rounded up.",
    solution="""\
g = inputs("19.6", seed=SEED)
answer = hlo.equations.trip_count(g["start"], g["limit"], g["step"])""",
)


def _scanned(g: Inputs, outside: float = 1.0, turns: Num = None) -> Num:
    trips = equations.trip_count(0, g["layers"], 1) if turns is None else turns
    return equations.loop_flops(outside * g["outside"], trips, g["body"])


_E7 = Exercise(
    id="19.7",
    slug=SLUG,
    title="A scanned model",
    objective=_LOOPS,
    points=2,
    prompt="A model scans its {layers} equal layers: the program holds one body of {body}, and {outside} of embedding, head "
    "and loss outside the loop. How many FLOPs is the program?",
    unit="FLOP",
    options={
        "layers": Options((32, 16, 24, 40), "1", "layers"),
        "body": Options((2e12, 3e12, 5e12), "FLOP", "one turn of the body"),
        "outside": Options((4e12, 6e12, 9e12), "FLOP", "outside of the loop"),
    },
    solve=_scanned,
    mistakes=(
        Mistake(
            "once",
            "You counted the body once, as XLA's cost analysis does. It runs {layers} times.",
            (lambda g: _scanned(g, turns=1),),
        ),
        Mistake("nothing-outside", "You left out what stands outside the loop.", (lambda g: _scanned(g, outside=0.0),)),
        Mistake(
            "all-repeated",
            "You repeated everything. What stands outside the loop runs once.",
            (lambda g: g["layers"] * (g["body"] + g["outside"]),),
        ),
    ),
    nudge="Outside + turns x body.",
    solution="""\
g = inputs("19.7", seed=SEED)
turns = hlo.equations.trip_count(0, g["layers"], 1)
answer = hlo.equations.loop_flops(g["outside"], turns, g["body"])""",
)


# 19.8 and 19.9 regions


def _reused(g: Inputs, ends: int = 2) -> Num:
    return equations.reuse_share(ends + g["layers"] * g["per_layer"], ends + g["per_layer"])


_E8 = Exercise(
    id="19.8",
    slug=SLUG,
    title="What a cache saves",
    objective=_REGIONS,
    points=2,
    prompt="A program is cut into one region before its layers, {per_layer} in each of {layers} equal layers, and one after "
    "them. The regions of a layer all differ from each other and from the two at the ends. With a cache by region, which "
    "share of the evaluations is saved?",
    unit="1",
    options={
        "layers": Options((6, 4, 8, 12), "1", "layers"),
        "per_layer": Options((3, 4, 5, 6, 7, 8, 9, 10), "1", "regions of a layer"),
    },
    solve=_reused,
    mistakes=(
        Mistake(
            "share-evaluated",
            "That is the share that is evaluated. The rest is saved.",
            (lambda g: 1 - _reused(g),),
        ),
        Mistake(
            "ends-forgotten",
            "You left out the two regions at the ends, which are evaluated for one use each.",
            (lambda g: _reused(g, ends=0),),
        ),
        Mistake(
            "first-layer-saved",
            "You saved the first layer, too. It has to be evaluated once.",
            (
                lambda g: equations.reuse_share(
                    2 + g["layers"] * g["per_layer"],
                    2,
                ),
            ),
        ),
    ),
    nudge="1 - unique over all; unique are the two ends and the regions of one layer.",
    solution="""\
g = inputs("19.8", seed=SEED)
regions = 2 + g["layers"] * g["per_layer"]
answer = hlo.equations.reuse_share(regions, 2 + g["per_layer"])""",
)


def _of_one(g: Inputs, devices: Num) -> Num:
    return g["flops"] * (g["repeated"] + (1 - g["repeated"]) / devices)


_E9 = Exercise(
    id="19.9",
    slug=SLUG,
    title="Whose shapes?",
    objective=_REGIONS,
    points=2,
    prompt="An export of a train step for {data} x {tensor} devices (data x tensor parallel) has sharding annotations and no "
    "collective. Its operations count {flops}. A share of {repeated} of that, the optimiser, is done by each device in full; "
    "the rest is split evenly over all of them. How many FLOPs does one device do?",
    unit="FLOP",
    options={
        "data": Options((4, 8, 16), "1", "data-parallel devices"),
        "tensor": Options((2, 4, 8), "1", "tensor-parallel devices"),
        "flops": Options((6e15, 8e15, 2e16), "FLOP", "work as counted in the export"),
        "repeated": Options((0.01, 0.02), "1", "share that each device does in full"),
    },
    solve=lambda g: _of_one(g, g["data"] * g["tensor"]),
    mistakes=(
        Mistake(
            "global",
            "You took the count for that of one device. Annotations without collectives mean the shapes of the whole mesh.",
            (lambda g: g["flops"],),
        ),
        Mistake(
            "all-split",
            "You split everything. What each device does in full does not shrink.",
            (lambda g: g["flops"] / (g["data"] * g["tensor"]),),
        ),
        Mistake("data-only", "The tensor-parallel devices split the work, too.", (lambda g: _of_one(g, g["data"]),)),
    ),
    nudge="Work x (repeated share + split share over data x tensor devices).",
    solution="""\
g = inputs("19.9", seed=SEED)
split = (1 - g["repeated"]) / (g["data"] * g["tensor"])
answer = g["flops"] * (g["repeated"] + split)""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
