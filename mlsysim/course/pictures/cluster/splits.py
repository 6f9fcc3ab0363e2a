"""A model on many devices: which part each one holds, who talks to whom, and when each works."""

from collections.abc import Sequence

from mlsysim import parallelism
from mlsysim.drawing.scenes import Arrow, Box, Frames, Scene, Shape, Stretch, Words, tracks
from mlsysim.errors import InputError
from mlsysim.network.streams import StreamSchedule, Task, schedule

_KINDS = ("compute", "memory", "network", "other", "extra", "waiting")


def data_parallel(dp: int = 4) -> Scene:
    """Every device holds all of the model and a part of the batch; gradients are summed."""
    if not 2 <= dp <= 5:
        raise InputError(f"data_parallel: dp = {dp}; a drawing shows 2 to 5")
    gap = 384 / dp
    shapes: list[Shape] = []
    for i in range(dp):
        x = 12 + gap * i
        shapes.append(Box(x, 50, gap - 12, 70, "", rounded=True))
        shapes.append(Box(x + 8, 60, gap - 28, 50, "all\nweights", "memory", size=12))
        shapes.append(Arrow([(x + gap / 2 - 6, 26), (x + gap / 2 - 6, 49)], width=1.5))
        shapes.append(Words(x + gap / 2 - 6, 14, f"batch {i}", size=12))
    shapes.append(
        Arrow([(20, 148), (380, 148)], "gradients: all-reduce, once per step", "network", 5, both=True, beside=(0, 18))
    )
    return Scene(
        shapes, f"{dp} devices, each with all weights and its part of the batch; below them an all-reduce of gradients."
    )


def tensor_parallel(tp: int = 2) -> Scene:
    """A pair of products: the first cut by columns, the second by rows, so that one all-reduce is enough."""
    if tp not in (2, 4):
        raise InputError(f"tensor_parallel: tp = {tp}; a drawing shows 2 or 4")
    shapes: list[Shape] = [
        Words(36, 14, "tokens", size=12),
        Words(132, 14, "cut by columns", size=12),
        Words(278, 14, "cut by rows", size=12),
        Box(12, 40, 48, 92, "x", "waiting"),
        Words(76, 86, "×", size=15),
        Words(196, 86, "→", size=15),
    ]
    wide = 92 / tp
    for i in range(tp):
        shapes.append(Box(90 + i * wide, 26, wide, 120, f"A{i}", _KINDS[i], size=12))
        shapes.append(Box(218, 26 + i * (120 / tp), 120, 120 / tp, f"B{i}", _KINDS[i], size=12))
    shapes.append(Arrow([(338, 86), (366, 86)], kind="network", width=4))
    shapes.append(Words(374, 86, "+", size=15, bold=True))
    shapes.append(Words(200, 166, "device i multiplies with Ai, then with Bi: nothing to say", size=12))
    shapes.append(Words(200, 184, "in between; at the end their results are added", size=12, kind="network"))
    return Scene(
        shapes,
        f"Two products on {tp} devices: weights of the first are cut by columns, of the second by rows; at the end an all-reduce adds.",
    )


def expert_parallel(ep: int = 4, top_k: int = 2) -> Scene:
    """Dispatch and combine: tokens go to the devices of their experts and come back."""
    if not 3 <= ep <= 5 or not 1 <= top_k < ep:
        raise InputError(
            f"expert_parallel: ep = {ep}, top_k = {top_k}; a drawing shows 3 to 5 devices, and fewer experts per token"
        )
    gap = 384 / ep
    shapes: list[Shape] = []
    for i in range(ep):
        x = 8 + gap * (i + 0.5)
        for k in range(top_k):
            to = 8 + gap * ((i + 1 + k * (ep // 2)) % ep + 0.5)
            shapes.append(Arrow([(x, 62), (to, 118)], kind="network", width=1.5))
            shapes.append(Arrow([(to, 162), (x, 218)], kind="network", width=1.5, dashed=True))
    for i in range(ep):
        x = 8 + gap * (i + 0.5)
        shapes.append(Box(x - 36, 28, 72, 34, f"tokens {i}", "compute", size=12))
        shapes.append(Box(x - 36, 118, 72, 44, f"experts\nof {i}", "memory", rounded=True, size=12))
        shapes.append(Box(x - 36, 218, 72, 34, f"sums {i}", "compute", size=12))
    shapes += [
        Words(8, 14, f"dispatch: each token to {top_k} experts", "start", 12),
        Words(8, 268, "combine: results back, weighted", "start", 12),
    ]
    return Scene(
        shapes,
        f"{ep} devices. Each token is sent to {top_k} devices that hold its experts, and the weighted results are sent back.",
    )


def context_parallel(cp: int = 4, zigzag: bool = True) -> Scene:
    """Pieces of one long sequence on each device; keys and values go round. In zig-zag, everyone has early and late tokens."""
    if not 2 <= cp <= 4:
        raise InputError(f"context_parallel: cp = {cp}; a drawing shows 2 to 4")
    pieces = 2 * cp
    side = 300 / pieces
    shapes: list[Shape] = []
    for q in range(pieces):
        for k in range(q + 1):
            own = (q if q < cp else pieces - 1 - q) if zigzag else q // 2
            shapes.append(Box(78 + k * side, 30 + q * side, side, side, f"{own}", _KINDS[own], size=12))
    shapes += [
        Words(228, 14, "keys: earlier to later", size=12),
        Words(8, 44, "queries:", "start", 12),
        Words(8, 60, "earlier", "start", 12),
        Words(8, 320, "later", "start", 12),
        Words(320, 90, f"{'equal work' if zigzag else 'unequal work'}\nfor all {cp}", bold=True),
    ]
    name = "zig-zag" if zigzag else "in order"
    return Scene(
        shapes,
        f"The triangle of causal attention in {pieces} by {pieces} pieces, {name}; the number in each is the device that computes it.",
    )


def _tasks(pp: int, micro_batches: int, backward: float) -> list[Task]:
    """One forward and one backward pass in turn (1F1B), each stage in the order that it runs them."""
    tasks: list[Task] = []
    for s in range(pp):
        ahead = min(pp - s, micro_batches)
        order: list[tuple[str, int]] = [("F", m) for m in range(ahead)]
        for m in range(micro_batches):
            order.append(("B", m))
            if m + ahead < micro_batches:
                order.append(("F", m + ahead))
        before = ""
        for kind, m in order:
            after = [before] if before else []
            if kind == "F" and s:
                after.append(f"F{s - 1}.{m}")
            if kind == "B":
                after.append(f"B{s + 1}.{m}" if s < pp - 1 else f"F{s}.{m}")
            before = f"{kind}{s}.{m}"
            tasks.append(Task(before, "compute", 1.0 if kind == "F" else backward, tuple(after), (s,)))
    return tasks


def _rows(found: StreamSchedule, tasks: Sequence[Task], pp: int, now: float) -> list[tuple[str, list[Stretch]]]:
    rows: list[tuple[str, list[Stretch]]] = [(f"stage {s}", []) for s in range(pp)]
    for task in tasks:
        kind, s, m = task.name[0], int(task.name[1 : task.name.index(".")]), task.name.partition(".")[2]
        start, end = found.starts[task.name], found.ends[task.name]
        if start < now:
            rows[s][1].append(Stretch(start, min(end, now), m, "compute" if kind == "F" else "other", full=kind == "F"))
    return rows


def pipeline_1f1b(pp: int = 4, micro_batches: int = 6, backward: float = 2.0, now: float | None = None) -> Scene:
    """A pipeline in time, one forward and one backward pass in turn, as :func:`mlsysim.network.schedule` runs it."""
    if not 2 <= pp <= 6 or not 1 <= micro_batches <= 12:
        raise InputError(
            f"pipeline_1f1b: pp = {pp}, micro_batches = {micro_batches}; a drawing shows at most 6 stages and 12 of them"
        )
    tasks = _tasks(pp, micro_batches, backward)
    found = schedule(tasks)
    rows = _rows(found, tasks, pp, found.time if now is None else now)
    share = float(parallelism.bubble_fraction(pp, micro_batches))
    shapes = tracks(4, 34, 392, rows, until=found.time, names=58, height=24)
    shapes.append(Words(62, 14, "blue: forward, by micro-batch; purple: backward", "start", 12))
    low = 34 + 30.0 * pp
    shapes.append(
        Arrow(
            [(62, low + 6), (396, low + 6)],
            f"time; blank is the bubble: {share:.0%} of each stage",
            width=1,
            beside=(0, 14),
        )
    )
    alt = (
        f"Tracks of {pp} pipeline stages with {micro_batches} micro-batches. Forward passes run down the stages, backward passes come up; "
        f"each stage is idle {share:.0%} of the time."
    )
    return Scene(shapes, alt)


def pipeline_in_time(pp: int = 4, micro_batches: int = 6) -> Frames:
    """The same pipeline as it fills, runs and drains."""
    found = schedule(_tasks(pp, micro_batches, 2.0))
    moments: list[tuple[float, str]] = [
        (1.0, "Stage 0 computes micro-batch 0. The others have nothing to do yet."),
        (float(pp), "The pipeline has filled: the last stage has its first micro-batch."),
        (
            float(pp) + 2.0,
            "The last stage goes back at once, so that it can forget what it kept: one forward, one backward, and soon all stages work.",
        ),
        (
            found.time,
            "It drains: stage 0 waits for the last gradients to come up. Blank places at both ends are the bubble.",
        ),
    ]
    scenes = [pipeline_1f1b(pp, micro_batches, now=now) for now, _ in moments]
    return Frames(
        scenes, [says for _, says in moments], f"A pipeline of {pp} stages and {micro_batches} micro-batches as it runs"
    )
