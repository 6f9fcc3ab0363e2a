"""Two clocks that run at once: arithmetic beside memory, a device beside the host that feeds it, stages of a pipeline of chunks."""

from collections.abc import Sequence

from mlsysim import catalog, kernels, roofline
from mlsysim.catalog import Device
from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Scene, Shape, Stretch, Words, tracks
from mlsysim.errors import InputError


def two_clocks(
    device: Device | str,
    tokens: Sequence[int] = (1, 64, 1024),
    columns: int = 57344,
    depth: int = 8192,
    precision: str = "bf16",
) -> Scene:
    """One weight matrix for more and more tokens: how long arithmetic and memory each take, to scale; the longer one decides.

    Parameters
    ----------
    device : Device or str
        Whose peak and bandwidth.
    tokens : sequence of int
        Rows of the product, from few to many; at most four.
    columns, depth : int
        Of the weight matrix.
    precision : str
        Of two bytes a number.
    """
    if not 1 <= len(tokens) <= 4:
        raise InputError(f"two_clocks: {len(tokens)} numbers of tokens; a drawing shows 1 to 4")
    d = catalog.device(device)
    times = []
    for m in tokens:
        work = kernels.gemm_flops(m, columns, depth)
        moved = kernels.gemm_bytes(m, columns, depth, 2)
        arithmetic = float(roofline.compute_time(work, d.peak_flops[precision]))
        times.append((arithmetic, float(roofline.memory_time(moved, d.memory_bandwidth))))
    last = 1.18 * max(max(pair) for pair in times)
    shapes: list[Shape] = [Words(8, 14, f"{d.name}, a matrix of {depth:,} × {columns:,}", "start", 12, bold=True)]
    parts = []
    for i, (m, (arithmetic, memory)) in enumerate(zip(tokens, times, strict=True)):
        y = 34.0 + 74.0 * i
        shapes.append(Words(8, y + 6, f"{m:,} token{'s' if m > 1 else ''}", "start", 12, bold=True))
        rows = [("arithmetic", [Stretch(0.0, arithmetic)]), ("memory", [Stretch(0.0, memory, kind="memory")])]
        shapes += tracks(8, y + 16, 384, rows, until=last, height=18, gap=4, names=82, size=12)
        for row, value in enumerate((arithmetic, memory)):
            slower = value == max(arithmetic, memory)
            kind = ("compute", "memory")[row]
            at = 90 + 302 * value / last + 6
            shapes.append(Words(at, y + 25 + 22 * row, format_quantity(value, "s"), "start", 12, kind, bold=slower))
        parts.append(
            f"{m:,} token{'s' if m > 1 else ''}: arithmetic {format_quantity(arithmetic, 's')}, memory {format_quantity(memory, 's')}"
        )
    low = 34.0 + 74.0 * len(tokens)
    shapes.append(Arrow([(90, low), (392, low)], "time", width=1, beside=(0, 12)))
    alt = f"Bars of time on {d.name}, two for each number of tokens that share a matrix. " + "; ".join(parts) + "."
    return Scene(shapes, alt, tall=low + 26)


def queue_times(
    launch: float, kernel: float, count: int
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """When the host launches each of equal kernels, and when the device runs it.

    >>> queue_times(1.0, 2.0, 2)
    ([(0.0, 1.0), (1.0, 2.0)], [(1.0, 3.0), (3.0, 5.0)])
    """
    host, device, free = [], [], 0.0
    for i in range(count):
        ready = (i + 1) * launch
        host.append((i * launch, ready))
        start = max(ready, free)
        free = start + kernel
        device.append((start, free))
    return host, device


def launch_queue(launch: float = 1.0, long: float = 2.0, short: float = 0.4, count: int = 5) -> Scene:
    """Host and device side by side: launches that long kernels hide, and launches that short ones wait for."""
    if not short < launch < long:
        raise InputError(
            f"launch_queue: short = {short:g}, launch = {launch:g}, long = {long:g}; give them in this order"
        )
    cases = [("kernels longer than a launch", long), ("kernels shorter than a launch", short)]
    until = launch + count * long
    shapes: list[Shape] = []
    waits = []
    for i, (name, kernel) in enumerate(cases):
        host, device = queue_times(launch, kernel, count)
        y = 4.0 + 116.0 * i
        shapes.append(Words(8, y + 10, name, "start", bold=True))
        rows = [
            ("host", [Stretch(a, b, str(n), "waiting") for n, (a, b) in enumerate(host)]),
            ("device", [Stretch(a, b, str(n)) for n, (a, b) in enumerate(device)]),
        ]
        shapes += tracks(8, y + 24, 384, rows, until=until, height=22, gap=6, names=52, size=12)
        wait = device[-1][1] - count * kernel
        waits.append(wait)
        text = "waits for the first launch only" if i == 0 else "waits after each kernel: the host sets the pace"
        shapes.append(Words(60, y + 88, text, "start", 12))
    shapes.append(Arrow([(60, 224), (392, 224)], "time", width=1, beside=(0, 12)))
    alt = (
        f"Two pairs of tracks of time, the host's launches above the device's {count} kernels. With long kernels the device waits "
        f"{waits[0]:g} at the start and never again; with short ones it waits for every launch, {waits[1]:g} in all."
    )
    return Scene(shapes, alt, tall=250)


def chunk_times(chunks: int, stages: int, chunk: float = 1.0) -> list[list[tuple[float, float]]]:
    """When each stage works on each chunk, if stages are alike and pass chunks on as soon as they are done.

    >>> chunk_times(2, 2)
    [[(0.0, 1.0), (1.0, 2.0)], [(1.0, 2.0), (2.0, 3.0)]]
    """
    return [[((s + c) * chunk, (s + c + 1) * chunk) for c in range(chunks)] for s in range(stages)]


def chunks_through_stages(chunks: int = 6, stages: int = 4) -> Scene:
    """A buffer whole, and cut into chunks, on its way through stages: with chunks all stages work at once."""
    if not (2 <= chunks <= 9 and 2 <= stages <= 5):
        raise InputError(f"chunks_through_stages: {chunks} chunks, {stages} stages; a drawing shows 2 to 9, and 2 to 5")
    shapes: list[Shape] = []
    ends = []
    until = float(stages)
    for i, (name, n) in enumerate((("whole", 1), (f"in {chunks} chunks", chunks))):
        times = chunk_times(n, stages, 1.0 / n)
        ends.append(times[-1][-1][1])
        y = 6.0 + (34.0 + 24.0 * stages) * i
        shapes.append(Words(8, y + 8, name, "start", bold=True))
        rows = [
            (
                f"stage {s}",
                [Stretch(a, b, str(c) if n > 1 else "the buffer", "network") for c, (a, b) in enumerate(row)],
            )
            for s, row in enumerate(times)
        ]
        shapes += tracks(8, y + 20, 384, rows, until=until, height=20, gap=4, names=60, size=12)
    low = 6.0 + 2 * (34.0 + 24.0 * stages) - 2
    shapes.append(Arrow([(68, low), (392, low)], "time", width=1, beside=(0, 12)))
    alt = (
        f"Tracks of time of {stages} stages. The whole buffer passes one stage after another and takes {ends[0]:g}; cut into "
        f"{chunks} chunks, all stages work at once and it takes {ends[1]:g}."
    )
    return Scene(shapes, alt, tall=low + 26)
