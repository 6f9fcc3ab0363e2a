"""Chapter 01, the iron law: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from collections.abc import Mapping
from typing import Any

from mlsysim import catalog, kernels, roofline, units
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Given, Inputs, Mistake, Options

SLUG = "01-iron-law"
_TIME = "Compute the time of a kernel and name what bounds it."
_INTENSITY = "Work out the arithmetic intensity of an operation and compare it with a ridge point."
_ATTAINABLE = "Read attainable performance off a roofline with an efficiency and an effective-bandwidth ceiling."
_LAUNCH = "Decide when launch overhead dominates."
_JUDGE = "Judge a published number against the bounds."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_TIME, "01.1"),
    (_INTENSITY, "01.2"),
    (_ATTAINABLE, "01.3"),
    (_LAUNCH, "01.4"),
    (_JUDGE, "01.5"),
)

_BF16 = 2  # bytes
_DEVICES = Options(
    ("H100-SXM5-80GB", "A100-SXM4-80GB", "B200-SXM-180GB", "MI300X", "H200-SXM-141GB"), "", "device of the catalogue"
)
_GEMM = (
    "C = A B with A of {m} × {k}, B of {k} × {n} and C of {m} × {n}, all in bf16; each matrix crosses the memory bus "
    "once"
)
_HALF = (
    "You have half of it. Two slips do that: counting a multiply-add as one FLOP (it is two), and taking the peak that "
    "is printed with 2:4 sparsity (the catalogue's peak_flops is dense)."
)
_GIBI = "Bandwidths are quoted in powers of 1000: 1 TB/s is 1e12 byte/s. You seem to have read it with powers of 1024."
_GIB_OVER_GB = units.GiB / units.GB


def _peak(g: Inputs) -> float:
    return catalog.device(g["device"]).peak_flops["bf16"]


def _bandwidth(g: Inputs) -> float:
    return catalog.device(g["device"]).memory_bandwidth


def _gemm_flops(g: Mapping[str, Any], per_multiply_add: int = 2) -> float:
    return float(kernels.gemm_flops(g["m"], g["n"], g["k"], per_multiply_add))


def _gemm_elements(g: Mapping[str, Any]) -> float:
    return float(kernels.gemm_bytes(g["m"], g["n"], g["k"], 1))


def _dimensions(m: tuple[int, ...], n: tuple[int, ...], k: tuple[int, ...]) -> dict[str, Options]:
    return {
        "m": Options(m, "1", "rows of A and C"),
        "n": Options(n, "1", "columns of B and C"),
        "k": Options(k, "1", "columns of A, rows of B"),
    }


# 01.1 the time of a GEMM


def _gemm_time(
    g: Inputs, flops: float | None = None, peak: float | None = None, efficiency: float | None = None
) -> Num:
    return roofline.iron_law(
        flops=_gemm_flops(g) if flops is None else flops,
        bytes=_BF16 * _gemm_elements(g),
        peak_flops=_peak(g) if peak is None else peak,
        memory_bandwidth=_bandwidth(g),
        efficiency=g["efficiency"] if efficiency is None else efficiency,
    )


def _gemm_memory_time(g: Inputs) -> Num:
    return roofline.memory_time(_BF16 * _gemm_elements(g), _bandwidth(g))


_E1 = Exercise(
    id="01.1",
    slug=SLUG,
    title="How long does it take?",
    objective=_TIME,
    points=2,
    prompt=f"On one {{device}}: {_GEMM}. The kernel reaches {{efficiency}} of the dense bf16 peak and all of the "
    "memory bandwidth; arithmetic and traffic overlap. How long does it take, in seconds (or as text, like '1.5 ms')?",
    unit="s",
    options={
        "device": _DEVICES,
        **_dimensions((2048, 1024), (8192, 4096), (4096, 8192)),
        "efficiency": Options((0.6, 0.65, 0.75, 0.8), "1", "fraction of the dense peak"),
    },
    solve=_gemm_time,
    mistakes=(
        Mistake(
            "half",
            _HALF,
            (lambda g: _gemm_time(g, flops=_gemm_flops(g, 1)), lambda g: _gemm_time(g, peak=2 * _peak(g))),
        ),
        Mistake(
            "sum",
            "You added the time of the arithmetic and the time of the traffic. They run at the same time; which one "
            "does the other wait for?",
            (lambda g: _gemm_time(g) + _gemm_memory_time(g),),
        ),
        Mistake(
            "smaller",
            "You have the time of one side only, and it is the shorter one. The kernel ends when both are done.",
            (_gemm_memory_time,),
        ),
        Mistake(
            "efficiency-multiplied",
            "An efficiency below one makes the kernel slower. You multiplied the time by it; it multiplies the peak.",
            (lambda g: roofline.compute_time(_gemm_flops(g), _peak(g)) * g["efficiency"],),
        ),
        Mistake(
            "efficiency-forgotten",
            "That is the time at the full peak. The kernel reaches only {efficiency} of it.",
            (lambda g: _gemm_time(g, efficiency=1.0),),
        ),
    ),
    nudge="Work out two times: FLOPs over (peak x efficiency), and bytes over bandwidth. Then ask which one the kernel "
    "waits for.",
    solution="""\
g = inputs("01.1", seed=SEED)
device = catalog.device(g["device"])
flops = 2 * g["m"] * g["n"] * g["k"]
bytes = 2 * (g["m"] * g["k"] + g["k"] * g["n"] + g["m"] * g["n"])
answer = roofline.iron_law(flops, bytes, device.peak_flops["bf16"], device.memory_bandwidth, g["efficiency"])""",
)


# 01.2 intensity against ridge


def _over_ridge(
    g: Inputs, flops: float | None = None, bytes: float | None = None, peak: float = 1.0, bandwidth: float = 1.0
) -> Num:
    intensity = roofline.arithmetic_intensity(
        _gemm_flops(g) if flops is None else flops, _BF16 * _gemm_elements(g) if bytes is None else bytes
    )
    return intensity / roofline.ridge_point(_peak(g) * peak, _bandwidth(g) * bandwidth)


_E2 = Exercise(
    id="01.2",
    slug=SLUG,
    title="Which side of the ridge?",
    objective=_INTENSITY,
    points=2,
    prompt=f"On one {{device}}: {_GEMM}. Divide the arithmetic intensity by the ridge point of the dense bf16 peak: "
    "how many times the ridge is it? (Above one means compute-bound.)",
    unit="1",
    options={"device": _DEVICES, **_dimensions((512, 1024, 2048), (4096, 8192), (4096, 8192))},
    solve=_over_ridge,
    mistakes=(
        Mistake("half", _HALF, (lambda g: _over_ridge(g, flops=_gemm_flops(g, 1)), lambda g: _over_ridge(g, peak=2.0))),
        Mistake(
            "elements",
            "You divided by the number of elements. Intensity is per byte; how many bytes does one bf16 element take?",
            (lambda g: _over_ridge(g, bytes=_gemm_elements(g)),),
        ),
        Mistake(
            "output-not-counted",
            "You counted the two inputs. The result has to be written to memory as well.",
            (lambda g: _over_ridge(g, bytes=_BF16 * float(g["m"] * g["k"] + g["k"] * g["n"])),),
        ),
        Mistake(
            "upside-down",
            "That is the ridge over the intensity; the question asks for the other way round.",
            (lambda g: 1 / _over_ridge(g),),
        ),
        Mistake(
            "intensity-alone",
            "That is the arithmetic intensity. Now compare it with the ridge point of {device}: divide.",
            (lambda g: roofline.arithmetic_intensity(_gemm_flops(g), _BF16 * _gemm_elements(g)),),
        ),
        Mistake("binary-bandwidth", _GIBI, (lambda g: _over_ridge(g, bandwidth=_GIB_OVER_GB),)),
    ),
    nudge="Intensity is FLOPs over bytes, with three matrices in the bytes; the ridge is dense peak over bandwidth.",
    solution="""\
g = inputs("01.2", seed=SEED)
device = catalog.device(g["device"])
flops = 2 * g["m"] * g["n"] * g["k"]
bytes = 2 * (g["m"] * g["k"] + g["k"] * g["n"] + g["m"] * g["n"])
ridge = roofline.ridge_point(device.peak_flops["bf16"], device.memory_bandwidth)
answer = roofline.arithmetic_intensity(flops, bytes) / ridge""",
)


# 01.3 a roofline with two ceilings


def _ceiling(g: Inputs) -> Num:
    sustained = roofline.effective_bandwidth(_bandwidth(g), g["memory_efficiency"])
    return roofline.attainable_flops(g["intensity"], _peak(g), sustained, g["efficiency"])


def _slope(g: Inputs, factor: float) -> Num:
    """The memory side of the roof with a factor that someone put there."""
    return g["intensity"] * _bandwidth(g) * factor


_E3 = Exercise(
    id="01.3",
    slug=SLUG,
    title="Under which ceiling?",
    objective=_ATTAINABLE,
    points=2,
    prompt="A kernel does {intensity} in bf16 on one {device}. It reaches at most {efficiency} of the dense peak, and "
    "STREAM sustains {memory_efficiency} of the datasheet bandwidth. What is the highest rate it can reach, in FLOP/s "
    "(or as text, like '120 TFLOP/s')?",
    unit="FLOP/s",
    options={
        "device": _DEVICES,
        "intensity": Options((40.0, 16.0, 24.0, 60.0), "FLOP/byte", "FLOPs per byte moved"),
        "efficiency": Options((0.6, 0.5, 0.7), "1", "fraction of the dense peak"),
        "memory_efficiency": Options((0.9, 0.8, 0.85), "1", "fraction of the bandwidth that is sustained"),
    },
    solve=_ceiling,
    mistakes=(
        Mistake(
            "datasheet-bandwidth",
            "That is the slope of the datasheet's bandwidth. Only {memory_efficiency} of it is sustained: draw the "
            "lower slope.",
            (lambda g: _slope(g, 1.0),),
        ),
        Mistake(
            "both-efficiencies",
            "You lowered the slope twice. Each efficiency belongs to its own ceiling: one to the peak, one to the "
            "bandwidth.",
            (lambda g: _slope(g, g["memory_efficiency"] * g["efficiency"]),),
        ),
        Mistake(
            "wrong-efficiency",
            "You multiplied the bandwidth by the efficiency of the arithmetic. Each efficiency belongs to its own "
            "ceiling.",
            (lambda g: _slope(g, g["efficiency"]),),
        ),
        Mistake(
            "efficiency-divided",
            "You divided by the efficiency. A rate gets smaller by it; only a time gets longer by dividing.",
            (lambda g: _slope(g, 1 / g["memory_efficiency"]),),
        ),
        Mistake(
            "higher-ceiling",
            "That is the flat ceiling. Which of the two ceilings is lower at {intensity}?",
            (lambda g: _peak(g) * g["efficiency"],),
        ),
        Mistake("binary-bandwidth", _GIBI, (lambda g: _slope(g, g["memory_efficiency"] * _GIB_OVER_GB),)),
    ),
    nudge="Two ceilings: peak x efficiency, and intensity x sustained bandwidth. The kernel stays under both.",
    solution="""\
g = inputs("01.3", seed=SEED)
device = catalog.device(g["device"])
sustained = roofline.effective_bandwidth(device.memory_bandwidth, g["memory_efficiency"])
answer = roofline.attainable_flops(g["intensity"], device.peak_flops["bf16"], sustained, g["efficiency"])""",
)


# 01.4 launches in a decode step


def _device_time(g: Inputs, bytes_per_parameter: float = _BF16) -> Num:
    return roofline.iron_law(
        flops=2 * g["parameters"],
        bytes=bytes_per_parameter * g["parameters"],
        peak_flops=_peak(g),
        memory_bandwidth=_bandwidth(g),
    )


def _idle(g: Inputs, kernels: float | None = None, hidden: bool = True, bytes_per_parameter: float = _BF16) -> Num:
    launched = g["layers"] * g["kernels_per_layer"] if kernels is None else kernels
    device = _device_time(g, bytes_per_parameter) if hidden else 0.0
    return roofline.dispatch_time(launched, g["launch_overhead"], device)


_E4 = Exercise(
    id="01.4",
    slug=SLUG,
    title="When do launches dominate?",
    objective=_LAUNCH,
    points=2,
    prompt="One {device} decodes one token of a model with {parameters} parameters in bf16: every weight is read once, "
    "2 FLOP per parameter, at the full bandwidth and peak. The model has {layers} layers of {kernels_per_layer} "
    "kernels of equal length. The host launches them one after the other, at {launch_overhead} each, into a queue from "
    "which the device takes them. How long, in the whole step, does the device wait for launches, in seconds (or as "
    "text, like '1.5 ms')?",
    unit="s",
    options={
        "device": _DEVICES,
        "parameters": Options((1e9, 0.8e9), "1", "parameters of the model"),
        "layers": Options((26, 24), "1", "layers"),
        "kernels_per_layer": Options((9, 8), "1", "kernels launched per layer"),
        "launch_overhead": Options((8e-6, 6e-6), "s", "host time per launch"),
    },
    solve=_idle,
    mistakes=(
        Mistake(
            "nothing-hides",
            "You counted every launch. While the host launches a kernel, the device works on those before it; it waits "
            "only for what launching takes longer than the work.",
            (
                lambda g: _idle(g, hidden=False),
                lambda g: _device_time(g) + _idle(g, hidden=False),
                lambda g: _device_time(g) + _idle(g),
            ),
        ),
        Mistake(
            "device-time",
            "That is how long the device works. How long does the host need for its launches?",
            (_device_time,),
        ),
        Mistake(
            "too-few-launches",
            "You let all launches but the first hide, or counted too few of them: {layers} layers launch "
            "{kernels_per_layer} kernels each, and the host takes longer for that than the device for its work.",
            (
                lambda g: _idle(g, kernels=g["kernels_per_layer"]),
                lambda g: _idle(g, kernels=g["layers"]),
                lambda g: g["launch_overhead"],
            ),
        ),
        Mistake(
            "elements",
            "You read one byte per parameter. How many bytes does a bf16 weight take?",
            (lambda g: _idle(g, bytes_per_parameter=1),),
        ),
    ),
    nudge="Two times run side by side: launches x overhead on the host, and the longer of arithmetic and traffic on the "
    "device. The device waits for the difference, if the host is the slower one.",
    solution="""\
g = inputs("01.4", seed=SEED)
device = catalog.device(g["device"])
peak, bandwidth = device.peak_flops["bf16"], device.memory_bandwidth
work = roofline.iron_law(2 * g["parameters"], 2 * g["parameters"], peak, bandwidth)
answer = roofline.dispatch_time(g["layers"] * g["kernels_per_layer"], g["launch_overhead"], work)""",
)


# 01.5 the efficiency behind a measured time


def _cube(n: int) -> dict[str, int]:
    return {"m": n, "n": n, "k": n}


def _measured(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    ideal = roofline.compute_time(_gemm_flops(_cube(chosen["n"])), catalog.device(chosen["device"]).peak_flops["bf16"])
    time = float(f"{ideal / chosen['reached']:.4g}")  # as a benchmark would print it
    return {"reached": None, "time": Given(time, "s", "measured time")}


def _reached(g: Inputs, per_multiply_add: int = 2, peak: float = 1.0) -> Num:
    return roofline.compute_time(_gemm_flops(_cube(g["n"]), per_multiply_add), _peak(g) * peak) / g["time"]


_E5 = Exercise(
    id="01.5",
    slug=SLUG,
    title="How good is it really?",
    objective=_JUDGE,
    points=2,
    prompt="A post reports {time} for a bf16 product of two {n} × {n} matrices on one {device}. Which fraction of the "
    "dense bf16 peak does that reach (a fraction, or text like '25 %')?",
    unit="1",
    options={
        "device": _DEVICES,
        "n": Options((4096, 8192, 16384), "1", "rows and columns of each matrix"),
        "reached": Options((0.62, 0.41, 0.47, 0.53, 0.58, 0.67, 0.71, 0.77), "1", "fraction of the peak"),
    },
    derive=_measured,
    solve=_reached,
    mistakes=(
        Mistake("half", _HALF, (lambda g: _reached(g, per_multiply_add=1), lambda g: _reached(g, peak=2.0))),
        Mistake(
            "upside-down",
            "That is the measured time over the ideal one. An efficiency compares the other way round, and stays below "
            "one.",
            (lambda g: 1 / _reached(g),),
        ),
        Mistake(
            "percent",
            "That is the percentage taken as a plain number. Write the fraction, or text with a % sign.",
            (lambda g: 100 * _reached(g),),
        ),
        Mistake(
            "binary-tera",
            "Close. A TFLOP is 1e12 FLOP; you seem to have divided by 2^40. Work and rates are counted in powers of "
            "1000.",
            (lambda g: _reached(g) * 1e12 / 2**40,),
        ),
        Mistake(
            "memory-side",
            "That is the fraction of the memory bandwidth. The question is about the arithmetic.",
            (lambda g: roofline.memory_time(_BF16 * _gemm_elements(_cube(g["n"])), _bandwidth(g)) / g["time"],),
        ),
    ),
    nudge="How many FLOPs are in the product? What would they take at the dense peak? Compare that with the measured "
    "time.",
    solution="""\
g = inputs("01.5", seed=SEED)
peak = catalog.device(g["device"]).peak_flops["bf16"]
answer = roofline.compute_time(2 * g["n"] ** 3, peak) / g["time"]""",
)


# 01.6 name what bounds it

_SHAPES = (
    (512, 8192, 8192),
    (64, 8192, 8192),
    (64, 1024, 1024),
    (1024, 8192, 8192),
    (32, 16384, 16384),
    (16, 512, 512),
)


def _shape(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    m, n, k = chosen["shape"]
    names = {"m": (m, "rows of A and C"), "n": (n, "columns of B and C"), "k": (k, "columns of A, rows of B")}
    return {"shape": None, **{name: Given(v, "1", text) for name, (v, text) in names.items()}}


def _bound(g: Inputs, flops: float = 1.0, bytes: float | None = None, overhead: float = 1.0) -> str:
    result = roofline.kernel_time(
        g["device"],
        flops=_gemm_flops(g) * flops,
        bytes=_BF16 * (_gemm_elements(g) if bytes is None else bytes),
        precision="bf16",
        launch_overhead=g["launch_overhead"] * overhead,
    )
    return str(result.bound)


_E6 = Exercise(
    id="01.6",
    slug=SLUG,
    title="What bounds it?",
    objective=_TIME,
    points=1,
    prompt=f"On one {{device}}: {_GEMM}. One kernel, at the full dense peak and bandwidth; its launch takes "
    f"{{launch_overhead}}, and nothing runs before it that could hide it. What takes the longest: 'compute', 'memory' or 'dispatch'?",
    unit="",
    answers=("compute", "memory", "dispatch"),
    options={
        "device": _DEVICES,
        "shape": Options(_SHAPES, "", "m x n x k"),
        "launch_overhead": Options((5e-6, 8e-6, 10e-6), "s", "host time of the launch"),
    },
    derive=_shape,
    solve=_bound,
    mistakes=(
        Mistake(
            "half",
            "Count again: a multiply-add is two FLOP, and the peak to compare with is the dense one. With half the "
            "arithmetic, or twice the peak, the answer flips.",
            (lambda g: _bound(g, flops=0.5),),
        ),
        Mistake(
            "weights-not-counted",
            "With few rows in A, nearly all the traffic is B. Count the bytes of all three matrices.",
            (lambda g: _bound(g, bytes=float(g["m"] * g["k"] + g["m"] * g["n"])),),
        ),
        Mistake(
            "dispatch-forgotten",
            "This kernel is small: how long does the work take beside the launch of {launch_overhead}?",
            (lambda g: _bound(g, overhead=0.0),),
        ),
        Mistake(
            "micro-for-milli",
            "The launch takes {launch_overhead}: microseconds. Put the three times side by side in the same unit.",
            (lambda g: _bound(g, overhead=1000.0),),
        ),
    ),
    nudge="Work out three times in the same unit: arithmetic at the dense peak, traffic of three matrices, and the "
    "launch.",
    solution="""\
g = inputs("01.6", seed=SEED)
flops = 2 * g["m"] * g["n"] * g["k"]
bytes = 2 * (g["m"] * g["k"] + g["k"] * g["n"] + g["m"] * g["n"])
answer = roofline.kernel_time(g["device"], flops, bytes, "bf16", launch_overhead=g["launch_overhead"]).bound""",
)


# 01.7 a claim below the floor


def _floor(g: Inputs, bytes_per_parameter: float = _BF16, bandwidth: float = 1.0) -> Num:
    return roofline.memory_time(bytes_per_parameter * g["parameters"], _bandwidth(g) * bandwidth)


def _claim(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    floor = roofline.memory_time(_BF16 * chosen["parameters"], catalog.device(chosen["device"]).memory_bandwidth)
    text = "what the table lists per token"
    return {"claimed": Given(float(f"{floor / chosen['claimed']:.2g}"), "s", text)}


_E7 = Exercise(
    id="01.7",
    slug=SLUG,
    title="Can that be true?",
    objective=_JUDGE,
    points=2,
    prompt="A published table lists {claimed} per token for a dense model of {parameters} parameters in bf16, decoded "
    "for one user on one {device}. Every weight is read once per token. Leaving aside whether the model fits: what is "
    "the shortest time per token that the memory allows, in seconds (or as text, like '1.5 ms')? Then compare.",
    unit="s",
    options={
        "device": Options(
            ("H100-SXM5-80GB", "A100-SXM4-80GB", "B200-SXM-180GB", "MI300X"), "", "device of the catalogue"
        ),
        "parameters": Options((70e9, 7e9, 8e9, 13e9, 34e9), "1", "parameters of the model"),
        "claimed": Options((10, 5, 3), "1", "how far below the floor the claim lies"),
    },
    derive=_claim,
    solve=_floor,
    mistakes=(
        Mistake(
            "half",
            "You have half of it. A bf16 weight takes two bytes, and a memory bandwidth is not counted once for each "
            "direction.",
            (lambda g: _floor(g, bytes_per_parameter=1), lambda g: _floor(g, bandwidth=2.0)),
        ),
        Mistake("bits", "bf16 has 16 bits. How many bytes is that?", (lambda g: _floor(g, bytes_per_parameter=16),)),
        Mistake("binary-bandwidth", _GIBI, (lambda g: _floor(g, bandwidth=_GIB_OVER_GB),)),
        Mistake(
            "compute-side",
            "That is the time of the arithmetic. One token does very little of it per byte: look at the other side of "
            "the roofline.",
            (lambda g: roofline.compute_time(2 * g["parameters"], _peak(g)),),
        ),
        Mistake(
            "whole-memory",
            "That is the time to read the whole memory of {device}. Only the weights have to be read.",
            (lambda g: roofline.memory_time(catalog.device(g["device"]).memory_capacity, _bandwidth(g)),),
        ),
        Mistake(
            "claim", "That is the claim itself. What does the memory of {device} allow?", (lambda g: g["claimed"],)
        ),
        Mistake(
            "node",
            "That is the time when eight devices share the reading. The claim is for one.",
            (lambda g: _floor(g, bandwidth=8.0),),
        ),
    ),
    nudge="How many bytes are the weights, and how long does {device} take to read them once?",
    solution="""\
g = inputs("01.7", seed=SEED)
answer = roofline.memory_time(2 * g["parameters"], catalog.device(g["device"]).memory_bandwidth)""",
)

# 01.8 a real kernel: whole tiles, two shares, a start

_TILE = 128


def _real_kernel(
    g: Inputs, padded: bool = True, written_last: bool = True, start: bool = True, half: bool = False
) -> Num:
    m, n = (kernels.tile_padding(g[x], _TILE) if padded else g[x] for x in ("m", "n"))
    reads, writes = _BF16 * (g["m"] + g["n"]) * g["k"], _BF16 * g["m"] * g["n"]
    return kernels.measured_kernel_time(
        flops=kernels.gemm_flops(m, n, g["k"], 1.0 if half else 2.0),
        bytes=reads if written_last else reads + writes,
        peak_flops=_peak(g),
        memory_bandwidth=_bandwidth(g),
        compute_efficiency=g["compute_efficiency"],
        memory_efficiency=g["memory_efficiency"],
        startup_time=g["startup"] if start else 0.0,
        unhidden_bytes=writes if written_last else 0.0,
    )


def _product_for_sum(g: Inputs) -> Num:
    reads = _BF16 * (g["m"] + g["n"]) * g["k"]
    return _real_kernel(g) + roofline.memory_time(reads, _bandwidth(g) * g["memory_efficiency"])


_E8 = Exercise(
    id="01.8",
    slug=SLUG,
    title="What does a real kernel take?",
    objective=_ATTAINABLE,
    points=3,
    prompt="On one {device} a library computes C = A B with A of {m} × {k} and B of {k} × {n}, all in bf16, in tiles of "
    "128 × 128 of C. Its kernels reach {compute_efficiency} of the dense bf16 peak and {memory_efficiency} of the memory "
    "bandwidth, and need {startup} however small the work is. A and B are read while the arithmetic runs; C is written "
    "when the arithmetic is done. How long does it take, in seconds (or as text, like '50 us')?",
    unit="s",
    options={
        "device": Options(("H100-SXM5-80GB",), "", "device of the catalogue"),
        **_dimensions((1030, 1160), (3100, 2060), (4096, 1024)),
        "compute_efficiency": Options((0.75, 0.7), "1", "share of the dense peak"),
        "memory_efficiency": Options((0.6, 0.7), "1", "share of the memory bandwidth"),
        "startup": Options((10e-6, 12e-6), "s", "time of a kernel without work"),
    },
    solve=_real_kernel,
    mistakes=(
        Mistake(
            "no-padding",
            "The tiles are 128 wide, and {m} by {n} does not fill the last ones. What work do they really do?",
            (lambda g: _real_kernel(g, padded=False),),
        ),
        Mistake(
            "written-too-early",
            "You let the writing of C overlap with the arithmetic. It starts when the arithmetic is done: where does its "
            "time go?",
            (lambda g: _real_kernel(g, written_last=False),),
        ),
        Mistake(
            "no-start",
            "A kernel without any work takes {startup} already.",
            (lambda g: _real_kernel(g, start=False),),
        ),
        Mistake(
            "half",
            "You have too little arithmetic: a multiply-add is two FLOP.",
            (lambda g: _real_kernel(g, half=True),),
        ),
        Mistake(
            "sum",
            "You added the reading of A and B to the arithmetic. They run at the same time; only the writing comes after.",
            (_product_for_sum,),
        ),
    ),
    nudge="Pad m and n to whole tiles for the FLOPs. Then: the longer of arithmetic and reading, plus writing C, plus the "
    "start.",
    solution="""\
g = inputs("01.8", seed=SEED)
device = catalog.device(g["device"])
m, n = -(-g["m"] // 128) * 128, -(-g["n"] // 128) * 128
sustained = device.memory_bandwidth * g["memory_efficiency"]
arithmetic = 2 * m * n * g["k"] / (device.peak_flops["bf16"] * g["compute_efficiency"])
reading = 2 * (g["m"] + g["n"]) * g["k"] / sustained
answer = max(arithmetic, reading) + 2 * g["m"] * g["n"] / sustained + g["startup"]""",
)


# 01.9 attention in decode


def _attention_intensity(
    g: Inputs, kv_heads: str = "kv_heads", work: float = 1.0, width: int = 2, size: float = 2
) -> Num:
    dim = g["head_dim"]
    flops = kernels.attention_kernel_flops(g["batch"], g["heads"], 1, g["tokens"] - 1, dim, dim)
    moved = kernels.attention_kernel_bytes(
        g["batch"], g["heads"], 1, g["tokens"], dim, dim, g[kv_heads], width * dim, size, size
    )
    return roofline.arithmetic_intensity(work * flops, moved)


_E9 = Exercise(
    id="01.9",
    slug=SLUG,
    title="What binds attention?",
    objective=_INTENSITY,
    points=2,
    prompt="Decode with a batch of {batch}: each sequence adds one token and attends to {tokens} tokens (itself among "
    "them). The layer has {heads} query heads and {kv_heads} key-value heads of {head_dim} numbers, all in bf16. The kernel reads the "
    "queries and the cache once, keeps the scores on the chip and writes one result per query head. What is its "
    "arithmetic intensity in FLOP/byte? (Leave the softmax out.)",
    unit="FLOP/byte",
    options={
        "batch": Options((16, 1, 64), "1", "sequences"),
        "tokens": Options((8192, 4096, 32768), "1", "tokens that each new token attends to"),
        "heads": Options((64, 128), "1", "query heads"),
        "kv_heads": Options((8, 4), "1", "key-value heads"),
        "head_dim": Options((128, 64), "1", "numbers per head"),
    },
    solve=_attention_intensity,
    mistakes=(
        Mistake(
            "query-heads",
            "The cache holds {kv_heads} heads, not {heads}: several query heads share the reading of one.",
            (lambda g: _attention_intensity(g, kv_heads="heads"),),
        ),
        Mistake(
            "half",
            "You have half of it. A multiply-add is two FLOP, and there are two products: queries with keys, then scores "
            "with values.",
            (lambda g: _attention_intensity(g, work=0.5),),
        ),
        Mistake(
            "double",
            "You have twice of it. The cache holds keys and values, and a bf16 number takes two bytes.",
            (lambda g: _attention_intensity(g, width=1), lambda g: _attention_intensity(g, size=1)),
        ),
        Mistake(
            "quarter",
            "You have a quarter of it. Two products, and two FLOP in each multiply-add.",
            (lambda g: _attention_intensity(g, work=0.25),),
        ),
        Mistake(
            "ridge-confused",
            "That is the share of heads the wrong way round: fewer key-value heads mean fewer bytes for the same work.",
            (lambda g: g["kv_heads"] / g["heads"],),
        ),
    ),
    nudge="Per query head and cached token: how many FLOPs? Per key-value head and cached token: how many bytes? Batch and "
    "length should nearly cancel.",
    solution="""\
g = inputs("01.9", seed=SEED)
work = g["batch"] * g["heads"] * g["tokens"] * 2 * (2 * g["head_dim"])
cache = g["batch"] * g["kv_heads"] * g["tokens"] * 2 * g["head_dim"] * 2
queries_and_results = g["batch"] * g["heads"] * 2 * g["head_dim"] * 2
answer = work / (cache + queries_and_results)""",
)

EXERCISES = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
