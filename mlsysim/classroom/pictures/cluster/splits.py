"""A model on many devices: which part each one holds, who talks to whom, and when each works."""

from collections.abc import Callable, Sequence

from mlsysim import parallelism
from mlsysim.drawing.scenes import Arrow, Box, Frames, Scene, Shape, Stretch, Words, tracks
from mlsysim.errors import InputError
from mlsysim.network.streams import StreamSchedule, Task, schedule
from mlsysim.parallelism import Plan

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


def pipeline_stages(pp: int = 4, layers: int = 32) -> Scene:
    """Consecutive layers on consecutive devices; activations travel between them."""
    if not 2 <= pp <= 5 or layers % pp:
        raise InputError(f"pipeline_stages: pp = {pp}, layers = {layers}; a drawing shows 2 to 5 equal stages")
    gap = 384 / pp
    shapes: list[Shape] = []
    for i in range(pp):
        x = 8 + gap * i
        first, last = i * layers // pp, (i + 1) * layers // pp - 1
        shapes.append(Box(x, 30, gap - 28, 70, f"layers\n{first} to {last}", "memory", rounded=True, size=12))
        if i < pp - 1:
            shapes.append(Arrow([(x + gap - 28, 52), (x + gap, 52)], kind="network", width=2))
            shapes.append(Arrow([(x + gap, 80), (x + gap - 28, 80)], kind="network", width=2, dashed=True))
        shapes.append(Words(x + gap / 2 - 14, 14, f"device {i}", size=12))
    shapes.append(Words(200, 120, "activations forward, their gradients back (dashed)", size=12))
    return Scene(
        shapes, f"{pp} devices with {layers // pp} layers each; activations go to the next, gradients come back."
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


def ranks_on_nodes(plan: Plan, domain: int = 8) -> Scene:
    """Which part of the model each rank holds, node by node: tensor-parallel ranks stand beside each other."""
    count = int(plan.devices)
    if count > 32 or not 2 <= domain <= 8:
        raise InputError(
            f"ranks_on_nodes: {count} devices in domains of {domain}; a drawing shows at most 32, in domains of 2 to 8"
        )
    tp, pp = int(plan.tp), int(plan.pp)
    others = count // (tp * pp)
    shapes: list[Shape] = []
    per, side = domain, 300 / domain
    for rank in range(count):
        node, place = divmod(rank, per)
        t, d, p = rank % tp, rank // tp % others, rank // (tp * others)
        y = 14 + 62.0 * node
        if place == 0:
            shapes.append(Box(72, y, min(per, count - rank) * side + 12, 52, rounded=True))
            shapes.append(Words(8, y + 26, f"node {node}", "start", 12))
        lines = [f"t{t}"] if tp > 1 else []
        lines += [f"d{d}"] if others > 1 else []
        shapes.append(Box(78 + place * side, y + 7, side - 3, 38, "\n".join(lines), _KINDS[p % 6], size=12))
    if pp > 1:
        low = 14 + 62.0 * -(-count // per)
        shapes.append(Words(72, low + 8, f"colour: pipeline stage, {pp} of them", "start", 12))
    return Scene(shapes, f"{count} ranks of a plan with tp {tp}, pp {pp} and {others} replicas, on nodes of {domain}.")


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
            "The last stage goes back at once, so that it can forget what it kept: one forward, one backward.",
        ),
        (found.time - 3.0 * (pp - 1), "All stages work; nobody waits until forward passes run out."),
        (
            found.time,
            "It drains: stage 0 waits for the last gradients to come up. Blank places at both ends are the bubble.",
        ),
    ]
    scenes = [pipeline_1f1b(pp, micro_batches, now=now) for now, _ in moments]
    return Frames(
        scenes, [says for _, says in moments], f"A pipeline of {pp} stages and {micro_batches} micro-batches as it runs"
    )


def overlap(compute: float = 6.0, communication: float = 4.0, start: float = 2.0) -> Scene:
    """A message behind arithmetic: what is hidden and what is left over."""
    tasks = [
        Task("first", "compute", start),
        Task("rest", "compute", compute - start, ("first",)),
        Task("send", "communication", communication, ("first",)),
    ]
    found = schedule(tasks)
    left = max(0.0, found.ends["send"] - found.ends["rest"])
    rows = [
        (
            "compute",
            [Stretch(0, start, "layer 2", "compute"), Stretch(start, compute, "layer 1 and before", "compute")],
        ),
        ("network", [Stretch(start, found.ends["rest"] if left else found.ends["send"], "hidden", "network")]),
    ]
    if left:
        rows[1][1].append(Stretch(found.ends["rest"], found.ends["send"], "left", "network", True))
    shapes = tracks(4, 20, 392, rows, until=found.time, names=64, height=34)
    shapes.append(Arrow([(68, 108), (396, 108)], "time", width=1, beside=(0, 14)))
    return Scene(
        shapes,
        f"Two tracks: arithmetic for {compute:g}, a message for {communication:g} that starts at {start:g}; {left:g} of it is not hidden.",
    )


def grid_of_ranks(tp: int = 2, pp: int = 2, dp: int = 2) -> Scene:
    """Three ways of cutting at once: each rank has a place along every axis."""
    if max(tp, pp, dp) > 4 or min(tp, pp, dp) < 1:
        raise InputError(f"grid_of_ranks: tp = {tp}, pp = {pp}, dp = {dp}; a drawing shows at most 4 each")
    Place = Callable[[int, int, int], tuple[float, float]]
    place: Place = lambda t, p, d: (40 + 74.0 * t + 26.0 * d, 96 + 66.0 * p - 26.0 * d)  # noqa: E731
    cells = [(t, p, d) for d in reversed(range(dp)) for p in range(pp) for t in range(tp)]
    shapes: list[Shape] = [
        Box(*place(t, p, d), 66, 40, f"t{t} p{p} d{d}", _KINDS[p], rounded=True, size=12) for t, p, d in cells
    ]
    right = 40 + 74.0 * tp + 26 * (dp - 1) + 8
    shapes += [
        Arrow([(40, 96 + 66.0 * pp), (106, 96 + 66.0 * pp)], "tensor", "network", 5, beside=(40, 2), anchor="start"),
        Arrow([(22, 100), (22, 150)], "", "network", 1.5),
        Words(4, 84, "pipeline", "start", 12, "network"),
        Words(right, 60, "data: behind\neach other", "start", 12, "network"),
    ]
    return Scene(
        shapes,
        f"{tp * pp * dp} ranks in a block of {tp} by {pp} by {dp}: tensor ranks beside, stages below, replicas behind each other.",
    )
