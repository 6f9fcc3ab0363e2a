"""From operations to kernels to cycles: what fuses, what a window meets, what a gather touches, what an array holds and when."""

from collections.abc import Sequence

from mlsysim import hlo, units
from mlsysim.drawing.scenes import Arrow, Box, Frames, Scene, Shape, Stretch, Words, text_width, tracks
from mlsysim.errors import InputError
from mlsysim.hlo import Estimate
from mlsysim.hlo.fusing.fusion import Kernel, kernels
from mlsysim.hlo.fusing.graph import build
from mlsysim.hlo.fusing.items import Node


def fused_region(program: str = "mlp_train_dp8.spmd", which: int = 1) -> Scene:
    """A kernel of a sample program: its operations with the bytes of each by itself, and what is left when they run as one."""
    graph = build(hlo.sample(program))
    order = {id(item): i for i, item in enumerate(graph.items) if isinstance(item, Node)}
    found = [k for k in kernels(graph, True) if isinstance(k, Kernel)]
    if not 0 <= which < len(found) or not 2 <= len(found[which].nodes) <= 7:
        raise InputError(f"fused_region: kernel {which} of {program}; take one of {len(found)} that holds 2 to 7 nodes")
    kernel = found[which]
    nodes = sorted(kernel.nodes, key=lambda n: order.get(id(n), 0))
    apart = sum(n.cost.bytes for n in nodes)

    def moved(value: float) -> str:
        return units.format(value, "byte", 3)

    tall, step = 28, 46
    low = 40 + step * len(nodes)
    shapes: list[Shape] = [
        Words(12, 14, "each by itself", "start", bold=True),
        Words(232, 14, "as one kernel", "start", bold=True),
        Box(226, 34, 166, low - 34, dashed=True, rounded=True),
    ]
    for i, node in enumerate(nodes):
        y = 42 + i * step
        shapes.append(Box(8, y, 118, tall, node.base, "compute", True, size=12))
        shapes.append(Arrow([(196, y + tall / 2), (128, y + tall / 2)], kind="memory", width=2, both=True))
        shapes.append(Words(132, y + tall / 2 - 11, moved(node.cost.bytes), "start", 12))
        shapes.append(Box(250, y, 118, tall, node.base, "compute", True, size=12))
        if i:
            shapes.append(Arrow([(309, y - step + tall), (309, y)], width=1.5))
    shapes += [
        Words(12, low + 18, f"{moved(apart)} in all", "start", 13, "memory", True),
        Words(232, low + 18, f"{moved(kernel.bytes)} in all", "start", 13, "memory", True),
    ]
    names = ", ".join(n.base for n in nodes)
    return Scene(
        shapes,
        f"The operations {names} of {program}: {moved(apart)} through memory if each runs by itself, {moved(kernel.bytes)} as one kernel.",
    )


def taps_met(size: int = 5, kernel: int = 3, padding: int = 1, stride: int = 1) -> Scene:
    """Along one side of an image: the window at each place, and which of its taps meet the image and which the padding."""
    length = (size + 2 * padding - kernel) // stride + 1
    if not (2 <= size <= 9 and 1 <= kernel <= 5 and 0 <= padding <= 3 and 1 <= stride <= 3 and 1 <= length <= 7):
        raise InputError(
            f"taps_met: {size} elements, kernel {kernel}, padding {padding}, stride {stride}; a drawing shows up to 9 and 7 places"
        )
    side = min(34.0, 300 / (size + 2 * padding))
    x0 = 92.0
    shapes: list[Shape] = [Words(x0 - 10, 30, "image", "end", 12)]
    for i in range(-padding, size + padding):
        inside = 0 <= i < size
        where = (x0 + (i + padding) * side, 18, side - 3, 24)
        shapes.append(Box(*where, f"{i}" if inside else "", "memory" if inside else "waiting", dashed=not inside))
    met = 0
    for o in range(length):
        y = 58 + 27.0 * o
        shapes.append(Words(x0 - 10, y + 10, f"place {o}", "end", 12))
        for k in range(kernel):
            at = o * stride - padding + k
            hit = 0 <= at < size
            met += hit
            shapes.append(
                Box(
                    x0 + (at + padding) * side,
                    y,
                    side - 3,
                    20,
                    kind="compute" if hit else "waiting",
                    full=hit,
                    dashed=not hit,
                )
            )
    text = f"{met} of {length * kernel} pairs meet the image"
    shapes.append(Words(x0, 58 + 27.0 * length + 12, text, "start", 13, bold=True))
    return Scene(
        shapes,
        f"A window of {kernel} taps at {length} places of {size} elements padded by {padding}: {text}; the rest meets padding.",
    )


def gathered_rows(rows: int = 9, picked: Sequence[int] = (2, 6, 6)) -> Scene:
    """A table, the rows that indices name, and the result: what a gather touches."""
    if not 3 <= rows <= 12 or not 1 <= len(picked) <= 5 or not all(0 <= p < rows for p in picked):
        raise InputError(f"gathered_rows: rows {list(picked)} of a table of {rows}; show 1 to 5 rows of 3 to 12")
    tall = 216 / rows
    shapes: list[Shape] = [
        Words(75, 14, f"table: {rows} rows", size=12),
        Words(206, 14, "indices", size=12),
        Words(325, 14, "result", size=12),
    ]
    for r in range(rows):
        hit = r in picked
        shapes.append(Box(20, 28 + r * tall, 110, tall - 2, kind="memory" if hit else "plain", full=hit))
    for i, p in enumerate(picked):
        y = 60 + 46.0 * i
        shapes.append(Arrow([(130, 28 + (p + 0.5) * tall), (262, y + 13)], kind="memory", width=2))
    for i, p in enumerate(picked):
        y = 60 + 46.0 * i
        shapes += [
            Box(190, y, 32, 26, str(p), "other", size=13),
            Box(266, y, 118, 26, f"row {p}", "memory", full=True),
        ]
    text = f"{len(picked)} rows are read and {len(picked)} written; {rows - len(set(picked))} of {rows} are not touched"
    shapes.append(Words(200, 266, text, size=12))
    return Scene(shapes, f"A gather from a table of {rows} rows: {text}.")


def moved_bytes(groups: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> Scene:
    """Bars to one scale, in groups: what each form of a program moves."""
    most = max((v for _, rows in groups for _, v in rows), default=0.0)
    if not 1 <= len(groups) <= 4 or not most > 0 or min(v for _, rows in groups for _, v in rows) < 0:
        raise InputError(f"moved_bytes: {len(groups)} groups; give 1 to 4, no bytes below 0")
    kinds = ("waiting", "memory", "compute", "other")
    shapes: list[Shape] = []
    y = 12.0
    for title, rows in groups:
        shapes.append(Words(8, y, title, "start", bold=True))
        for i, (name, value) in enumerate(rows):
            y += 20
            wide = 232 * value / most
            shapes += [
                Words(96, y, name, "end", 12),
                Box(104, y - 8, wide, 16, kind=kinds[i % 4]),
                Words(110 + wide, y, units.format(value, "byte", 3), "start", 12),
            ]
        y += 30
    said = "; ".join(f"{t}: " + ", ".join(f"{n} {units.format(v, 'byte', 3)}" for n, v in rows) for t, rows in groups)
    return Scene(shapes, f"Bars of bytes moved. {said}.", tall=y - 12)


def streams_both_ways(linear: Estimate, dependent: Estimate) -> Scene:
    """One step twice: in program order, where the streams take turns, and by what waits for what, where they overlap."""
    end = max(linear.total_s, dependent.total_s)
    if not end > 0 or not linear.parts or not dependent.parts:
        raise InputError("streams_both_ways: give two estimates of a program, neither of them read from a cache")
    shapes: list[Shape] = []
    for i, (name, e) in enumerate((("in program order", linear), ("by dependence", dependent))):
        top = 14 + 116.0 * i
        rows: list[tuple[str, list[Stretch]]] = []
        for label, kind, colour in (("compute", "compute", "compute"), ("network", "comm", "network")):
            busy = sorted(s for s, r in zip(e.timeline.spans, e.parts, strict=True) if r.kind == kind)
            rows.append((label, [Stretch(*span, "", colour) for span in _joined(busy, end / 600)]))
        said = units.format(e.total_s, "s", 3)
        shapes.append(Words(70, top, f"{name}: {said}", "start", bold=True))
        shapes += tracks(0, top + 14, 396, rows, until=end, height=30)
    shapes.append(Arrow([(70, 228), (396, 228)], "time", width=1, beside=(0, 14)))
    a, b = (units.format(e.total_s, "s", 3) for e in (linear, dependent))
    return Scene(
        shapes,
        f"A step on two streams, computing and network: in program order they take turns and need {a}, by dependence they overlap and need {b}.",
    )


def _joined(spans: Sequence[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Stretches that follow one another without a gap that could be seen, as one."""
    found: list[tuple[float, float]] = []
    for start, end in spans:
        if end - start <= 0:
            continue
        if found and start - found[-1][1] <= gap:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def held_weights(rows: int, columns: int, streamed: int, cycle: int) -> Scene:
    """One cycle of an array that holds weights: they are loaded row by row, then inputs walk in from the left and sums walk down."""
    if not (2 <= rows <= 6 and 2 <= columns <= 6 and 1 <= streamed <= 8 and cycle >= 0):
        raise InputError(
            f"held_weights: {rows} by {columns}, {streamed} rows, cycle {cycle}; a drawing shows 2 to 6 by 2 to 6, up to 8 rows"
        )
    side = 200 / max(rows, columns)
    shapes: list[Shape] = []
    busy = 0
    for i in range(rows):
        for j in range(columns):
            m = cycle - rows - i - j
            works = 0 <= m < streamed
            busy += works
            held = i <= cycle
            shapes.append(
                Box(
                    110 + j * side,
                    40 + i * side,
                    side - 3,
                    side - 3,
                    f"{m + 1}" if works else ("w" if held else ""),
                    "compute" if works else ("memory" if held else "plain"),
                    full=works,
                    dashed=not held,
                    size=13,
                )
            )
    low = 40 + rows * side
    loading = cycle < rows
    text = (
        f"cycle {cycle}: a row of weights is loaded"
        if loading
        else f"cycle {cycle}: {busy} of {rows * columns} elements work"
    )
    shapes += [
        Words(200, 16, text, bold=True),
        Arrow(
            [(56, 40 + rows * side / 2), (106, 40 + rows * side / 2)],
            "rows\nof inputs",
            "memory",
            3,
            beside=(-22, -24),
        ),
        Arrow(
            [(110 + columns * side / 2, low + 2), (110 + columns * side / 2, low + 28)],
            "sums leave",
            "compute",
            3,
            beside=(12, 2),
            anchor="start",
        ),
    ]
    alt = (
        f"Cycle {cycle} of a {rows} by {columns} array that holds weights: "
        + (f"row {cycle + 1} of the weights is loaded." if loading else f"{busy} elements multiply; a number is the row of inputs they work on.")
    )  # fmt: skip
    return Scene(shapes, alt, tall=low + 36)


def weights_wave(rows: int = 4, columns: int = 4, streamed: int = 5) -> Frames:
    """One fold of an array that holds weights: loading, the wave of work, and its end."""
    last = rows + streamed - 1 + rows - 1 + columns - 1
    cycles = sorted({rows - 1, rows, rows + 1, min(rows + rows + columns - 2, last), last - 1, last})
    says = []
    for c in cycles:
        busy = sum(0 <= c - rows - i - j < streamed for i in range(rows) for j in range(columns))
        says.append(
            f"Cycle {c}: the last of {rows} rows of weights is loaded; nothing was multiplied so far."
            if c < rows
            else f"Cycle {c} of 0 to {last}: {busy} of {rows * columns} elements multiply; the number is the row of inputs on which each works."
        )
    return Frames(
        [held_weights(rows, columns, streamed, c) for c in cycles],
        says,
        f"One filling of a {rows} by {columns} array that holds weights, {streamed} rows of inputs",
    )


def folds(k: int = 70, n: int = 40, rows: int = 16, columns: int = 8) -> Scene:
    """A matrix of weights cut into pieces that an array can hold; pieces at the edge leave elements unused."""
    down, across = -(-k // rows), -(-n // columns)
    if min(k, n, rows, columns) < 1 or not 1 <= down * across <= 40 or max(down, across) > 8:
        raise InputError(
            f"folds: {k} by {n} on {rows} by {columns} is {down} by {across} pieces; a drawing shows up to 8 by 8, 40 in all"
        )
    wide, tall = min(56.0, 250 / across), min(44.0, 220 / down)
    shapes: list[Shape] = [Words(34 + across * wide / 2, 12, f"{n} columns of weights", size=12)]
    for i in range(down):
        for j in range(across):
            used = min(rows, k - i * rows) / rows, min(columns, n - j * columns) / columns
            x, y = 34 + j * wide, 24 + i * tall
            if min(used) < 1:
                shapes.append(Box(x, y, wide - 3, tall - 3, kind="waiting", dashed=True))
            shapes.append(
                Box(x, y, (wide - 3) * used[1], (tall - 3) * used[0], kind="memory" if min(used) == 1 else "network")
            )
            shapes.append(
                Words(
                    x + wide / 2 - 2, y + min(tall / 2, (tall - 3) * used[0] / 2 + 2), f"{i * across + j + 1}", size=12
                )
            )
    x = 34 + across * wide + 10
    share = k * n / (down * rows * across * columns)
    lines = [
        f"{k} rows",
        f"on {rows} by {columns}:",
        f"{down} x {across} =",
        f"{down * across} fillings,",
        f"{100 * share:.0f} % in use",
    ]
    for i, line in enumerate(lines):
        shapes.append(Words(x, 40 + 20.0 * i, line, "start", 12))
    return Scene(
        shapes,
        f"A matrix of {k} by {n} weights cut into {down} by {across} pieces of {rows} by {columns}; {share:.0%} of the elements of these fillings are in use.",
        tall=24 + down * tall + 10,
    )  # fmt: skip


def slower_decides(parts: Sequence[tuple[str, float, float]]) -> Scene:
    """Kernels one after another: in each the arrays and the memory work side by side, and the slower of the two decides.

    Parameters
    ----------
    parts : sequence of (name, float, float)
        Of each kernel its name, the seconds of its products on the arrays, and of its bytes through memory.
    """
    if not 2 <= len(parts) <= 5 or min(min(a, b) for _, a, b in parts) < 0 or not sum(a + b for _, a, b in parts) > 0:
        raise InputError(f"slower_decides: {len(parts)} kernels; give 2 to 5, no time below 0")
    rows: list[tuple[str, list[Stretch]]] = [("arrays", []), ("memory", [])]
    now, edges = 0.0, [0.0]
    for _, arrays, memory in parts:
        for row, value, kind in ((rows[0][1], arrays, "compute"), (rows[1][1], memory, "memory")):
            row.append(Stretch(now, now + value, "", kind, value == max(arrays, memory)))
        now += max(arrays, memory)
        edges.append(now)
    scale = 330 / now
    shapes = tracks(0, 50, 396, rows, height=34, names=66)
    for (name, *_), a, b in zip(parts, edges, edges[1:], strict=False):
        shapes.append(Words(66 + (a + b) / 2 * scale, 22, name, size=12))
        if text_width(max(name.split("\n"), key=len), 12) > (b - a) * scale + 8:
            raise InputError(f"slower_decides: {name!r} does not fit above its {b - a:.3g} s; shorten it")
    for edge in edges:
        shapes.append(Arrow([(66 + edge * scale, 42), (66 + edge * scale, 132)], width=1, head=False, dashed=True))
    said = units.format(now, "s", 3)
    shapes.append(Arrow([(66, 142), (396, 142)], f"time: {said} in all", width=1, beside=(0, 14)))
    alt = "; ".join(
        f"{n.replace(chr(10), ' ')}: arrays {units.format(a, 's', 2)}, memory {units.format(b, 's', 2)}"
        for n, a, b in parts
    )
    return Scene(shapes, f"Kernels one after another, in each the slower of arrays and memory decides: {alt}; {said} in all.")  # fmt: skip
