"""The iron law of one device: work takes the longer of computing and moving bytes, plus what launching it adds.

Everything here takes a float or an array (broadcasting) in SI units and returns the same.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, units
from mlsysim._numeric import Num, all_true, is_array, maximum, minimum, where, widening
from mlsysim.catalog import Device
from mlsysim.equations import COUNT, FRACTION, POSITIVE, equation
from mlsysim.results import CALLER, Explanation, Input, Result, Terms, format_rows, format_value, share

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

_FAR = 1e9  # FLOP/byte: further to the right no roofline is drawn
__all__ = [
    "KernelTime",
    "arithmetic_intensity",
    "attainable_flops",
    "compute_time",
    "dispatch_time",
    "effective_bandwidth",
    "iron_law",
    "kernel_time",
    "memory_time",
    "ridge_point",
]


def __dir__() -> list[str]:
    return __all__


_TIME_DOMAIN = {"peak_flops": POSITIVE, "memory_bandwidth": POSITIVE, "efficiency": FRACTION}


@equation(
    "eq-compute-time",
    formula="flops / (peak_flops * efficiency)",
    domain={"peak_flops": POSITIVE, "efficiency": FRACTION},
)
def compute_time(flops: Num, peak_flops: Num, efficiency: Num = 1.0) -> Num:
    """Time to do the arithmetic alone.

    Formula: T_compute = FLOPs / (peak x efficiency).

    Parameters
    ----------
    flops : float or array, FLOP
        Floating-point operations; a multiply-add counts as 2.
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that runs.
    efficiency : float or array, 1
        Fraction of the peak that the kernel reaches, in (0, 1].

    Returns
    -------
    float or array, s

    Assumptions: a constant efficiency; no work is skipped (dense arithmetic).

    >>> compute_time(2 * 8192**3, 312e12)
    0.0035240757300512822

    Source: williams2009roofline, sec. 3.
    """
    return flops / (peak_flops * efficiency)


@equation("eq-memory-time", formula="bytes / memory_bandwidth", domain={"memory_bandwidth": POSITIVE})
def memory_time(bytes: Num, memory_bandwidth: Num) -> Num:
    """Time to move the bytes alone.

    Formula: T_memory = bytes / bandwidth.

    Parameters
    ----------
    bytes : float or array, byte
        Traffic between the device and its main memory, read and written.
    memory_bandwidth : float or array, byte/s
        Bandwidth of that memory.

    Returns
    -------
    float or array, s

    Assumptions: every byte crosses once, at full bandwidth; caches only matter through the count of bytes.

    >>> memory_time(3.35e12, 3.35e12)
    1.0

    Source: williams2009roofline, sec. 3.
    """
    return bytes / memory_bandwidth


@equation(
    "eq-effective-bandwidth",
    formula="memory_bandwidth * memory_efficiency",
    domain={"memory_bandwidth": POSITIVE, "memory_efficiency": FRACTION},
)
def effective_bandwidth(memory_bandwidth: Num, memory_efficiency: Num) -> Num:
    """Bandwidth that a real access pattern sustains.

    Formula: BW_eff = bandwidth x memory efficiency.

    Parameters
    ----------
    memory_bandwidth : float or array, byte/s
        Datasheet bandwidth.
    memory_efficiency : float or array, 1
        Fraction of it that is sustained, in (0, 1]; measured with STREAM, not fitted to the case at hand.

    Returns
    -------
    float or array, byte/s

    Assumptions: one factor for all traffic; scattered access sustains less.

    >>> effective_bandwidth(2e12, 0.5)
    1000000000000.0

    Source: mccalpin1995stream, STREAM benchmark.
    """
    return memory_bandwidth * memory_efficiency


@equation(
    "eq-dispatch",
    formula="launch_overhead + (kernels - 1) * max(0, launch_overhead - device_time / kernels)",
    domain={"kernels": COUNT},
)
def dispatch_time(kernels: Num, launch_overhead: Num, device_time: Num = 0.0) -> Num:
    """What launching kernels adds to their time on the device, when the host runs ahead through a queue.

    Formula: T_dispatch = t_0 + (n - 1) max(0, t_0 - T_device / n).

    Parameters
    ----------
    kernels : float or array, 1
        Number of kernels launched one after the other: whole, at least 1. A captured graph is one launch.
    launch_overhead : float or array, s
        Host time per launch; 1e-5 to 1e-4 s is the range that the source gives.
    device_time : float or array, s
        Time of all the kernels on the device. With 0 (the default) nothing hides a launch, and the result is the
        host's own time, kernels x launch overhead: that of a program which waits for every kernel.

    Returns
    -------
    float or array, s

    Assumptions: kernels of equal length in one stream; the queue never fills, and nothing makes the host wait. Of a
    single kernel the launch shows whole, since nothing runs that could hide it.

    >>> dispatch_time(100, 1e-5)  # nothing to hide behind
    0.001
    >>> dispatch_time(100, 1e-5, device_time=0.002)  # kernels of 20 us: all launches but the first hide
    1e-05

    Source: reddi2026mathpage, sec. 1; for the time of a launch; the queue is derived in the chapter.
    """
    return launch_overhead + (kernels - 1) * maximum(0, launch_overhead - device_time / kernels)


@equation(
    "eq-iron-law",
    formula="max(flops / (peak_flops * efficiency), bytes / memory_bandwidth) + dispatch",
    domain=_TIME_DOMAIN,
)
def iron_law(
    flops: Num, bytes: Num, peak_flops: Num, memory_bandwidth: Num, efficiency: Num = 1.0, dispatch: Num = 0.0
) -> Num:
    """Time of a kernel, or of any chunk of work, on one device.

    Formula: T = max(FLOPs / (peak x efficiency), bytes / bandwidth) + dispatch.

    Parameters
    ----------
    flops : float or array, FLOP
        Floating-point operations.
    bytes : float or array, byte
        Bytes moved to and from memory.
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that runs.
    memory_bandwidth : float or array, byte/s
        Memory bandwidth.
    efficiency : float or array, 1
        Fraction of the peak that the kernel reaches, in (0, 1]; 1 gives the bound.
    dispatch : float or array, s
        What launching adds: the whole launch of a single kernel, of many what eq-dispatch leaves of their launches.

    Returns
    -------
    float or array, s

    Assumptions: arithmetic and data movement overlap perfectly.

    >>> iron_law(flops=2e12, bytes=1e9, peak_flops=1e15, memory_bandwidth=2e12)
    0.002

    Source: williams2009roofline, sec. 3; the dispatch term is reddi2026mathpage, sec. 1.
    """
    return maximum(compute_time(flops, peak_flops, efficiency), memory_time(bytes, memory_bandwidth)) + dispatch


@equation("eq-arithmetic-intensity", formula="flops / bytes", domain={"bytes": POSITIVE})
def arithmetic_intensity(flops: Num, bytes: Num) -> Num:
    """Work done per byte moved: a property of the algorithm and its precision, not of the device.

    Formula: I = FLOPs / bytes.

    Parameters
    ----------
    flops : float or array, FLOP
        Floating-point operations.
    bytes : float or array, byte
        Bytes moved to and from memory, more than zero.

    Returns
    -------
    float or array, FLOP/byte

    Assumptions: those of the byte count; traffic to main memory, not to a cache.

    >>> arithmetic_intensity(flops=2e12, bytes=1e10)
    200.0

    Source: williams2009roofline, sec. 3; "operational intensity".
    """
    return flops / bytes


@equation("eq-ridge-point", formula="peak_flops / memory_bandwidth", domain={"memory_bandwidth": POSITIVE})
def ridge_point(peak_flops: Num, memory_bandwidth: Num) -> Num:
    """Intensity at which a device turns from memory-bound to compute-bound.

    Formula: I* = peak / bandwidth. Compute-bound if and only if I > I*.

    Parameters
    ----------
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that runs (times an efficiency, for the ridge of a real kernel).
    memory_bandwidth : float or array, byte/s
        Memory bandwidth.

    Returns
    -------
    float or array, FLOP/byte

    Assumptions: dense peak; a peak with 2:4 sparsity doubles the answer and misleads.

    >>> round(ridge_point(989.5e12, 3.35e12))
    295

    Source: williams2009roofline, sec. 3.
    """
    return peak_flops / memory_bandwidth


@equation("eq-attainable", formula="min(peak_flops * efficiency, intensity * memory_bandwidth)", domain=_TIME_DOMAIN)
def attainable_flops(intensity: Num, peak_flops: Num, memory_bandwidth: Num, efficiency: Num = 1.0) -> Num:
    """Highest rate that work of a given intensity can reach: the roofline itself.

    Formula: P = min(peak x efficiency, I x bandwidth).

    Parameters
    ----------
    intensity : float or array, FLOP/byte
        Arithmetic intensity of the work.
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that runs.
    memory_bandwidth : float or array, byte/s
        Memory bandwidth.
    efficiency : float or array, 1
        Fraction of the peak that the kernel reaches, in (0, 1].

    Returns
    -------
    float or array, FLOP/s

    Assumptions: no dispatch; perfect overlap of arithmetic and data movement.

    >>> attainable_flops(100.0, 312e12, 2e12)
    200000000000000.0

    Source: williams2009roofline, sec. 3.
    """
    return minimum(peak_flops * efficiency, intensity * memory_bandwidth)


def _bound_in_words(bound: Any) -> str:
    if not is_array(bound):
        return f"{bound}-bound"
    counts = {b: int((bound == b).sum()) for b in ("compute", "memory", "dispatch")}
    return ", ".join(f"{n} {b}-bound" for b, n in counts.items() if n)


def _origin(value: Num, default: float, meaning: str) -> str:
    return f"default: {meaning}" if all_true(value == default) else CALLER


@dataclass(frozen=True)
class KernelTime(Result):
    """What :func:`kernel_time` returns; SI units, floats or arrays."""

    NUMBERS = (
        "device=device.name precision flops bytes efficiency memory_efficiency kernels launch_overhead_s "
        "peak_flops_per_s memory_bandwidth_bytes_per_s=device.memory_bandwidth compute_time_s memory_time_s "
        "dispatch_time_s time_s bound intensity_flop_per_byte ridge_point_flop_per_byte attainable_flops_per_s "
        "achieved_flops_per_s peak_fraction"
    )

    device: Device
    precision: str
    flops: Num
    bytes: Num
    efficiency: Num
    memory_efficiency: Num
    kernels: Num
    launch_overhead: Num
    compute_time: Num
    memory_time: Num
    dispatch_time: Num  # what the launches add
    time: Num
    bound: Any  # "compute", "memory" or "dispatch"; an array of them for an array
    intensity: Num
    ridge_point: Num
    attainable_flops: Num

    @property
    def achieved_flops(self) -> Num:
        """FLOP/s over the whole time, dispatch included."""
        return self.flops / self.time

    @property
    def peak_flops(self) -> float:
        """The device's, in this precision, FLOP/s."""
        return self.device.peak_flops[self.precision]

    @property
    def peak_fraction(self) -> Num:
        """Achieved FLOP/s over the dense peak."""
        return self.achieved_flops / self.peak_flops

    def summary(self) -> list[str]:
        terms = {"computing": self.compute_time, "moving bytes": self.memory_time, "dispatch": self.dispatch_time}
        bound = all_true(self.efficiency == 1.0) and all_true(self.memory_efficiency == 1.0)
        reached = f"compute {share(self.efficiency)}, memory {share(self.memory_efficiency)} of the datasheet"
        return format_rows(
            f"{self.device.name}, {self.precision}: {format_value(self.time, 's')}, {_bound_in_words(self.bound)}",
            ("terms", ", ".join(f"{name} {format_value(t, 's')}" for name, t in terms.items() if not all_true(t == 0))),
            (
                "reached",
                f"{format_value(self.achieved_flops, 'FLOP/s')}, {share(self.peak_fraction)} of the dense peak",
            ),
            (
                "intensity",
                f"{format_value(self.intensity, 'FLOP/byte')}; the ridge point lies at {format_value(self.ridge_point, 'FLOP/byte')}",
            ),
            ("efficiencies", "bound: every resource at its datasheet rate" if bound else reached),
        )

    def chart(self) -> "Drawing":
        """The roofline, and the kernel on or below it."""
        from mlsysim.drawing import PALETTE, Chart, Line, Marks, log_space
        from mlsysim.drawing.shapes import sampled

        every = [v.ravel().tolist() if is_array(v) else [float(v)] for v in (self.intensity, self.achieved_flops)]
        n = max(map(len, every))
        x, y = (sampled(v * (n if len(v) < n else 1)) for v in every)
        placed = [(a, b) for a, b in zip(x, y, strict=True) if 0 < a < _FAR and b > 0]
        peak = self.peak_flops
        ridge = peak / self.device.memory_bandwidth
        low, high = (f([ridge, *(a for a, _ in placed)]) for f in (min, max))
        xs = sorted({*log_space(low / 10, high * 10), ridge})
        roof = [min(peak, a * self.device.memory_bandwidth) / units.TFLOP for a in xs]
        marks = Marks([a for a, _ in placed], [b / units.TFLOP for _, b in placed], "this", (), PALETTE[1])
        return Chart(
            "arithmetic intensity (FLOP/byte)",
            "reached (TFLOP/s)",
            [Line(xs, roof, f"{self.device.name}, {self.precision}", PALETTE[0])],
            [marks] if placed else [],
        )

    def explain(self) -> Explanation:
        """Every term with its equation, the numbers in it, and the source of each input."""
        device, precision = self.device, self.precision
        peak, bandwidth = (
            device.peak_flops[precision],
            effective_bandwidth(device.memory_bandwidth, self.memory_efficiency),
        )
        work = {"flops": self.flops, "peak_flops": peak, "efficiency": self.efficiency}
        moved = {"bytes": self.bytes, "memory_bandwidth": bandwidth}
        rates = {"peak_flops": peak, "memory_bandwidth": bandwidth}
        starts = {"kernels": self.kernels, "launch_overhead": self.launch_overhead}
        read = {"memory_bandwidth": device.memory_bandwidth, "memory_efficiency": self.memory_efficiency}
        busy, terms = maximum(self.compute_time, self.memory_time), Terms()
        terms("compute time", compute_time, self.bound == "compute", **work)
        terms("memory time", memory_time, self.bound == "memory", **moved)
        terms("dispatch time", dispatch_time, self.bound == "dispatch", **starts, device_time=busy)
        terms("time", iron_law, **work, **moved, dispatch=self.dispatch_time)
        terms("intensity", arithmetic_intensity, flops=self.flops, bytes=self.bytes)
        terms("ridge point", ridge_point, **rates)
        terms("effective bandwidth", effective_bandwidth, **read)
        terms("attainable", attainable_flops, intensity=self.intensity, efficiency=self.efficiency, **rates)
        usual = (
            ("efficiency", "1", 1.0, "the bound"),
            ("memory_efficiency", "1", 1.0, "the bound"),
            ("kernels", "1", 1, "one kernel"),
            ("launch_overhead", "s", 0.0, "launches are hidden"),
        )
        inputs = (
            Input("flops", self.flops, "FLOP"),
            Input("bytes", self.bytes, "byte"),
            Input("peak_flops", peak, "FLOP/s", device.origin(f"peak_flops.{precision}")),
            Input("memory_bandwidth", device.memory_bandwidth, "byte/s", device.origin("memory_bandwidth")),
            *(Input(n, getattr(self, n), unit, _origin(getattr(self, n), least, who)) for n, unit, least, who in usual),
        )
        return Explanation(f"{device.name}, {precision}: {_bound_in_words(self.bound)}", tuple(terms), inputs)


@widening
def kernel_time(
    device: Device | str,
    flops: Num,
    bytes: Num,
    precision: str = "bf16",
    efficiency: Num = 1.0,
    memory_efficiency: Num = 1.0,
    kernels: Num = 1,
    launch_overhead: Num = 0.0,
) -> KernelTime:
    """Time of a kernel, or of several in one stream, on a catalogue device, and what bounds it.

    Formula: eq-iron-law with eq-dispatch, on the device's dense peak and memory bandwidth.

    Parameters
    ----------
    device : Device or str
        A catalogue entry or its name.
    flops : float or array, FLOP
        Floating-point operations, as in ``"1 TFLOP"``.
    bytes : float or array, byte
        Bytes moved to and from memory, more than zero, as in ``"1 GB"``.
    precision : str
        Number format of the inputs; the device must list a dense peak for it.
    efficiency : float or array, 1
        Fraction of the dense peak that the kernel reaches (default: 1, the bound).
    memory_efficiency : float or array, 1
        Fraction of the memory bandwidth that the kernel reaches (default: 1, the bound).
    kernels : float or array, 1
        Kernels that share the work equally, launched one after the other: whole, at least 1.
    launch_overhead : float or array, s
        Host time per launch, as in ``"10 us"``. The host runs ahead of the device, so that of several launches only the first
        shows, and what launching takes longer than the kernels do.

    Returns
    -------
    KernelTime
        Frozen result with ``time``, its terms, ``bound`` and ``explain()``. ``bound`` is "dispatch" where all the
        launches take longer than all the work.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown device; a precision the device does not list.

    Assumptions: those of eq-iron-law.

    >>> r = kernel_time("H100-SXM5-80GB", flops=2 * 8192**3, bytes=3 * 2 * 8192**2)
    >>> r.bound
    'compute'

    Source: williams2009roofline, sec. 3.
    """
    device = catalog.device(device)
    peak = device.peak_flops[precision]
    bandwidth = effective_bandwidth(device.memory_bandwidth, memory_efficiency)
    compute, memory = compute_time(flops, peak, efficiency), memory_time(bytes, bandwidth)
    work = maximum(compute, memory)
    dispatch = dispatch_time(kernels, launch_overhead, work)
    intensity = arithmetic_intensity(flops, bytes)
    return KernelTime(
        device=device,
        precision=precision,
        flops=flops,
        bytes=bytes,
        efficiency=efficiency,
        memory_efficiency=memory_efficiency,
        kernels=kernels,
        launch_overhead=launch_overhead,
        compute_time=compute,
        memory_time=memory,
        dispatch_time=dispatch,
        time=iron_law(flops, bytes, peak, bandwidth, efficiency, dispatch),
        bound=where(kernels * launch_overhead > work, "dispatch", where(compute > memory, "compute", "memory")),
        intensity=intensity,
        ridge_point=ridge_point(peak, bandwidth),
        attainable_flops=attainable_flops(intensity, peak, bandwidth, efficiency),
    )
