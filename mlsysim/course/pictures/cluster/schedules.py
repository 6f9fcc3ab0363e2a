"""Who waits for whom in training: orders of a pipeline, cuts of a model, messages behind arithmetic, and the slowest of many."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import NormalDist

from mlsysim import parallelism, pipelines
from mlsysim.drawing.scenes import Arrow, Box, Frames, Piece, Scene, Shape, Stretch, Words, bar, tracks
from mlsysim.errors import InputError
from mlsysim.network.streams import StreamSchedule, Task, schedule
from mlsysim.parallelism import Plan

_KINDS = ("compute", "memory", "network", "other", "extra", "waiting")
ORDERS = ("gpipe", "1f1b", "interleaved", "zero-bubble", "zb-v", "dualpipe")


def pipeline_tasks(kind: str, pp: int, micro_batches: int, virtual_stages: int = 1) -> list[Task]:
    """Tasks of a pipeline for :func:`mlsysim.network.schedule`; a stage takes one unit forward and two backward.

    >>> from mlsysim.network.streams import schedule
    >>> schedule(pipeline_tasks("gpipe", 4, 4)).time
    21.0
    """
    if kind not in ORDERS:
        raise InputError(f"kind = {kind!r}; use one of {', '.join(ORDERS)}")
    if not 2 <= pp <= 6 or not 1 <= micro_batches <= 12 or not 1 <= virtual_stages <= 4:
        raise InputError(
            f"pp = {pp}, micro_batches = {micro_batches}, virtual_stages = {virtual_stages}; a drawing shows at most 6, 12 and 4"
        )
    return pipelines.tasks("zb-h1" if kind == "zero-bubble" else kind, pp, micro_batches, virtual_stages)


def _rows(
    found: StreamSchedule, tasks: Sequence[Task], pp: int, turned: Callable[[int], bool] = lambda i: False
) -> list[tuple[str, list[Stretch]]]:
    """A row per device. Micro-batches that are ``turned`` come from the other end, and are drawn light like second chunks."""
    rows: list[tuple[str, list[Stretch]]] = [(f"device {s}", []) for s in range(pp)]
    kinds = {"F": "compute", "B": "other", "W": "memory"}
    for task in tasks:
        jobs = task.name.split("+")
        if {"B", "W"} <= {job[0] for job in jobs}:  # a whole backward pass is drawn as one
            jobs = [job for job in jobs if job[0] != "W"]
        at, end = found.starts[task.name], found.ends[task.name]
        each = (end - at) / (1 if len(jobs) == 1 else 3)
        for k, job in enumerate(jobs):
            what, (i, c) = job[0], job[1:].split(".")
            until = end if k == len(jobs) - 1 else at + each
            full = what == "F" and (int(c) // pp) % 2 == 0 and not turned(int(i))
            rows[task.ranks[0]][1].append(Stretch(at, until, i, kinds[what], full))
            at = until
    return rows


def pipeline_orders(
    first: str, second: str, pp: int = 4, micro_batches: int = 6, virtual_stages: int = 2, names: Sequence[str] = ()
) -> Scene:
    """Two orders of one pipeline on one axis of time, as :func:`mlsysim.network.schedule` runs them."""
    shapes: list[Shape] = []
    made = []
    for kind in (first, second):
        tasks = pipeline_tasks(kind, pp, micro_batches, virtual_stages if kind == "interleaved" else 1)
        made.append((kind, tasks, schedule(tasks)))
    last = max(found.time for *_, found in made)
    y = 14.0
    for (kind, tasks, found), name in zip(made, names or (first, second), strict=True):
        idle = 1 - 3 * micro_batches / found.time
        shapes.append(Words(4, y, f"{name}: {found.time:g} units, idle {idle:.0%}", "start", 12, bold=True))
        other = (lambda i: i >= micro_batches // 2) if kind == "dualpipe" else (lambda i: False)
        shapes += tracks(4, y + 14, 392, _rows(found, tasks, pp, other), until=last, names=58, height=20, size=12)
        y += 14 + 26.0 * pp + 18
    said = "blue: forward, purple: backward"
    if {"zero-bubble", "zb-v", "dualpipe"} & {first, second}:
        said += ", green: weights' gradient"
    if "interleaved" in (first, second):
        said += " (light: second chunk)"
    elif "zb-v" in (first, second):
        shapes.append(Words(4, y + 12, "light: second chunk", "start", 12))
    shapes.append(Words(4, y - 4, said, "start", 12))
    if "dualpipe" in (first, second):
        shapes.append(Words(4, y + 12, "light: enters at the other end; a pair runs side by side", "start", 12))
    times = " and ".join(
        f"{name} {found.time:g}" for (*_, found), name in zip(made, names or (first, second), strict=True)
    )
    return Scene(
        shapes,
        f"Two pipelines of {pp} devices and {micro_batches} micro-batches on one axis of time; they take {times} units, a stage one unit forward.",
    )


def four_cuts(parts: int = 2) -> Scene:
    """Where a model and its batch can be cut: matrices, sequence, layers, batch."""
    if parts not in (2, 3):
        raise InputError(f"four_cuts: parts = {parts}; a drawing shows 2 or 3")
    shapes: list[Shape] = []
    long, thick = 132.0, 66.0
    panels = [
        (24.0, 34.0, "tensor, TP: each matrix", True),
        (228.0, 34.0, "context, CP: the tokens", True),
        (24.0, 158.0, "pipeline, PP: the layers", False),
        (228.0, 158.0, "data, DP: the batch", False),
    ]
    for x, y, name, upright in panels:
        shapes.append(Words(x, y - 16, name, "start", 12, bold=True))
        for i in range(parts):
            if upright:
                box = Box(x + i * long / parts, y, long / parts, thick, f"device {i}", _KINDS[i], size=12)
            else:
                box = Box(x, y + i * thick / parts, long, thick / parts, f"device {i}", _KINDS[i], size=12)
            shapes.append(box)
    shapes += [
        Words(24, 112, "sums inside every layer", "start", 12, "network"),
        Words(228, 112, "keys and values per layer", "start", 12, "network"),
        Words(24, 236, "one tensor per hand-over", "start", 12, "network"),
        Words(228, 236, "gradients once a step", "start", 12, "network"),
    ]
    return Scene(
        shapes,
        f"Four rectangles cut among {parts} devices: a matrix by columns, a sequence by tokens, a stack by layers, a batch by sequences; under each, what must be sent.",
    )


def partners(plan: Plan, domain: int = 8, rank: int = 0) -> Scene:
    """One rank and those it talks to, on its nodes: tensor-parallel, data-parallel and pipeline partners."""
    count = int(plan.devices)
    if count > 32 or count % domain or not 2 <= domain <= 8 or not 0 <= rank < count:
        raise InputError(
            f"partners: rank {rank} of {count} devices in domains of {domain}; a drawing shows at most 32, in full domains of 2 to 8"
        )
    tp, pp = int(plan.tp), int(plan.pp)
    dp = count // (tp * pp)

    def place(r: int) -> tuple[int, int, int]:
        return r % tp, r // tp % dp, r // (tp * dp)

    own = place(rank)
    groups = {"TP": "compute", "DP": "memory", "PP": "other"}
    shapes: list[Shape] = []
    side = 316 / domain
    for r in range(count):
        node, at = divmod(r, domain)
        y = 8 + 56.0 * node
        if at == 0:
            shapes.append(Box(62, y, 328, 46, rounded=True))
            shapes.append(Words(6, y + 23, f"node {node}", "start", 12))
        same = [a == b for a, b in zip(place(r), own, strict=True)]
        text, kind = "", "waiting"
        if all(same):
            text, kind = "this", "network"
        elif sum(same) == 2:
            text = ("TP", "DP", "PP")[same.index(False)]
            kind = groups[text]
        shapes.append(Box(68 + at * side, y + 6, side - 3, 34, text, kind, full=all(same), size=12))
    low = 8 + 56.0 * (count // domain)
    inside = parallelism.placement(plan, domain).inside
    leaves = [
        name for name, axis, degree in (("TP", "tp", tp), ("DP", "dp", dp), ("PP", "pp", pp)) if inside[axis] < degree
    ]
    stays = [n for n in ("TP", "DP", "PP") if n not in leaves]
    shapes.append(
        Words(
            62,
            low + 8,
            f"in the node: {', '.join(stays) or 'none'}; over the network: {', '.join(leaves) or 'none'}",
            "start",
            12,
        )
    )
    return Scene(
        shapes,
        f"{count} devices on nodes of {domain}, tp {tp}, dp {dp}, pp {pp}. Of one device, its partners are marked; {', '.join(leaves) or 'none'} of its groups leave the node.",
    )


def experts_on_ranks(dp: int = 4, ep: int = 2, experts: int = 4) -> Scene:
    """Data-parallel ranks that hold different experts: all have the dense weights, each group of ep one copy of every expert."""
    if not (2 <= dp <= 4 and dp % ep == 0 and experts % ep == 0 and experts <= 8 and ep >= 1):
        raise InputError(
            f"experts_on_ranks: dp = {dp}, ep = {ep}, experts = {experts}; a drawing shows up to 4 ranks and 8 experts, and they divide"
        )
    gap, each = 384 / dp, experts // ep
    copies = int(parallelism.expert_replicas(dp, 1, 1, ep))
    shapes: list[Shape] = []
    for i in range(dp):
        x, group = 8 + gap * i, i % ep
        names = ", ".join(str(group * each + e) for e in range(each))
        shapes += [
            Words(x + gap / 2 - 4, 14, f"DP rank {i}", size=12),
            Box(x, 26, gap - 8, 112, rounded=True),
            Box(x + 6, 34, gap - 20, 40, "attention,\nall of it", "compute", size=12),
            Box(x + 6, 82, gap - 20, 48, f"experts\n{names}", _KINDS[1 + group], full=True, size=12),
        ]
    for g in range(dp // ep):
        left, right = 8 + gap * g * ep, 8 + gap * (g + 1) * ep - 8
        shapes.append(
            Arrow([(left, 152), (right, 152)], "all-to-all of tokens", "network", 3, both=True, beside=(0, 16))
        )
    shapes.append(Words(8, 190, f"{dp} copies of attention, {copies} of each expert", "start", 12))
    return Scene(
        shapes,
        f"{dp} data-parallel ranks, each with all of attention. Groups of {ep} hold {experts} experts between them, so that there are {copies} copies of each; tokens travel inside a group.",
    )


def sequence_parallel() -> Scene:
    """A layer on two tensor-parallel devices: between the products each keeps half of the tokens."""
    shapes: list[Shape] = []
    parts = [("norm", "tokens", 46.0), ("attention", "heads", 60.0), ("norm", "tokens", 46.0), ("MLP", "columns", 58.0)]
    x = 44.0
    for i, (name, cut, wide) in enumerate(parts):
        product = i % 2 == 1
        for d in range(2):
            shapes.append(
                Box(x, 44 + 52 * d, wide, 40, f"{name}\n{d + 1}/2", _KINDS[d] if product else "waiting", size=12)
            )
        shapes.append(Words(x + wide / 2, 30, f"by {cut}", size=12))
        gap = 34.0
        a, b = x + wide + 3, x + wide + gap - 3
        shapes.append(Arrow([(a, 64), (b, 116)], kind="network", width=1.8))
        shapes.append(Arrow([(a, 116), (b, 64)], kind="network", width=1.8))
        name_of = "reduce-\nscatter" if product else "all-\ngather"
        shapes.append(Words(x + wide + gap / 2, 160, name_of, size=12, kind="network"))
        x += wide + gap
    shapes += [Words(4, 64, "dev. 0", "start", 12), Words(4, 116, "dev. 1", "start", 12)]
    return Scene(
        shapes,
        "A layer on two devices: norms on half of the tokens each, attention on half of the heads, the MLP on half of the columns; an all-gather before each product, a reduce-scatter after it.",
    )


def ring_attention(cp: int = 4) -> Frames:
    """Queries stay, blocks of keys and values go round, a hop at a time."""
    if not 2 <= cp <= 5:
        raise InputError(f"ring_attention: cp = {cp}; a drawing shows 2 to 5")
    gap = 384 / cp
    scenes, says = [], []
    met: list[set[int]] = [set() for _ in range(cp)]
    for hop in range(cp):
        shapes: list[Shape] = []
        for i in range(cp):
            block = (i - hop) % cp
            met[i].add(block)
            x = 8 + gap * i
            shapes += [
                Box(x, 26, gap - 22, 108, rounded=True),
                Words(x + gap / 2 - 11, 14, f"device {i}", size=12),
                Box(x + 6, 34, gap - 34, 26, f"Q {i}", "plain", size=12),
                Box(x + 6, 66, gap - 34, 26, f"K, V {block}", _KINDS[block], full=True, size=12),
                Words(x + gap / 2 - 11, 114, f"met {len(met[i])} of {cp}", size=12),
            ]
            if hop < cp - 1 and i < cp - 1:
                shapes.append(Arrow([(x + gap - 21, 79), (x + gap + 4, 79)], kind="network", width=3))
        if hop < cp - 1:
            end = 8 + gap * (cp - 1) + gap / 2 - 11
            shapes.append(
                Arrow(
                    [(end, 136), (end, 152), (8 + gap / 2 - 11, 152), (8 + gap / 2 - 11, 136)], kind="network", width=3
                )
            )
        scenes.append(
            Scene(
                shapes,
                f"Hop {hop}: {cp} devices, each with its own queries; device i has the keys and values {hop} places before it.",
                tall=166,
            )
        )
        says.append(
            "Each device computes the attention of its queries to its own block, and passes that block on meanwhile."
            if hop == 0
            else (
                f"After {hop} hop{'s' * (hop > 1)} everyone works on the block of another device, and the next is on its way."
                if hop < cp - 1
                else f"After {hop} hops every query has met every key. Nobody ever held more than a block or two."
            )
        )
    return Frames(scenes, says, f"Ring attention on {cp} devices")


def hidden_messages(gather: float = 1.6, gradient: float = 2.6) -> Scene:
    """Three messages of a step and what there is to do meanwhile: nothing, the layer before, the rest of the backward pass."""
    if not (0 < gather <= 4 and 0 < gradient <= 6):
        raise InputError(f"hidden_messages: gather, gradient = {gather:g}, {gradient:g}; give up to 4 and 6 units")
    cases: list[tuple[str, list[Task]]] = [
        (
            "tensor: the next product waits",
            [
                Task("A", "compute", 3.0),
                Task("all-reduce", "communication", 1.5, ("A",)),
                Task("B", "compute", 3.0, ("all-reduce",)),
            ],
        ),
        (
            "FSDP: gather the next layer early",
            [
                Task("layer 1", "compute", 3.0),
                Task("gather 2", "communication", gather),
                Task("layer 2", "compute", 3.0, ("layer 1", "gather 2")),
            ],
        ),
        (
            "data: gradients leave as they are made",
            [
                Task("back 3", "compute", 2.0),
                Task("back 2", "compute", 2.0, ("back 3",)),
                Task("back 1", "compute", 2.0, ("back 2",)),
                Task("g3", "communication", gradient, ("back 3",)),
                Task("g2", "communication", gradient, ("back 2", "g3")),
                Task("g1", "communication", gradient, ("back 1", "g2")),
            ],
        ),
    ]
    shapes: list[Shape] = []
    found = [schedule(tasks) for _, tasks in cases]
    left: list[float] = []
    for n, ((name, tasks), plan) in enumerate(zip(cases, found, strict=True)):
        y = 12 + 100.0 * n
        rows, seen = _seen_rows(tasks, plan)
        left.append(seen)
        shapes.append(Words(4, y, f"{name}: {seen:.1f} left to see", "start", 12, bold=True))
        shapes += tracks(4, y + 12, 392, rows, until=max(f.time for f in found), names=62, height=26, size=12)
    shapes.append(Words(66, 306, "light orange: hidden; full orange: seen", "start", 12))
    return Scene(
        shapes,
        f"Three pairs of tracks, arithmetic above messages. The tensor-parallel sum is seen whole ({left[0]:g}), a gathered weight is hidden ({left[1]:g} seen), of the gradients {left[2]:.1f} are left after the backward pass.",
    )


def _seen_rows(tasks: Sequence[Task], plan: StreamSchedule) -> tuple[list[tuple[str, list[Stretch]]], float]:
    """Arithmetic above messages, which are full where nothing is computed meanwhile; and how long that is."""
    busy = [(plan.starts[t.name], plan.ends[t.name]) for t in tasks if t.stream == "compute"]
    computing, sending, seen = [], [], 0.0
    for t in tasks:
        start, end = plan.starts[t.name], plan.ends[t.name]
        if t.stream == "compute":
            computing.append(Stretch(start, end, t.name, "compute"))
            continue
        edges = sorted({start, end, *(e for pair in busy for e in pair if start < e < end)})
        pieces: list[Stretch] = []
        for a, b in pairwise(edges):
            alone = not any(s <= a and b <= e for s, e in busy)
            seen += (b - a) * alone
            if pieces and pieces[-1].full == alone:
                pieces[-1] = pieces[-1]._replace(end=b)
            else:
                pieces.append(Stretch(a, b, "" if pieces else t.name, "network", alone))
        sending += pieces
    return [("compute", computing), ("network", sending)], seen


def slowest_of(devices: int = 7, spread: float = 0.12) -> Scene:
    """Devices that take unequally long and wait for each other: the slowest sets the step."""
    if not 2 <= devices <= 8 or not 0 < spread <= 0.2:
        raise InputError(f"slowest_of: devices = {devices}, spread = {spread:g}; a drawing shows 2 to 8 and up to 0.2")
    normal = NormalDist(1.0, spread)
    times = [normal.inv_cdf((i + 0.5) / devices) for i in range(devices)]
    order = [times[(3 * i + 1) % devices] for i in range(devices)] if devices % 3 else times
    end = max(times)
    rows = [
        (f"device {i}", [Stretch(0, t, "", "compute"), *([Stretch(t, end, "", "waiting")] if t < end else [])])
        for i, t in enumerate(order)
    ]
    shapes = tracks(4, 26, 360, rows, names=62, height=18)
    scale = 298 / end
    low = 26 + 24.0 * devices
    mean = sum(times) / devices
    shapes += [
        Words(66, 14, "blue: works; grey: waits for the slowest", "start", 12),
        Arrow([(66 + mean * scale, low), (66 + mean * scale, 26)], kind="plain", width=1.2, head=False, dashed=True),
        Words(62 + mean * scale, low + 10, "mean", "end", size=12),
        Words(66 + end * scale, low + 10, "the step", size=12),
    ]
    return Scene(
        shapes,
        f"{devices} devices take unequally long; all wait until the slowest is done, {end / mean - 1:.0%} after the mean.",
    )


def counted_work(forward: float = 2.0, backward: float = 4.0, repeated: float = 2.0) -> Scene:
    """What a utilisation counts: MFU the work that the model needs, HFU the repeated forward pass as well."""
    if min(forward, backward, repeated) <= 0:
        raise InputError(f"counted_work: {forward:g}, {backward:g}, {repeated:g}; give amounts above 0")
    whole = forward + backward + repeated
    pieces = [
        Piece(f"forward\n{forward:g}", forward, "compute"),
        Piece(f"forward again\n{repeated:g}", repeated, "waiting"),
        Piece(f"backward\n{backward:g}", backward, "other"),
    ]
    shapes = bar(8, 30, 384, 44, pieces, size=12)
    one, two = 384 * forward / whole, 384 * repeated / whole
    shapes += [
        Words(8, 14, "FLOP per parameter and token, full recomputation", "start", 12),
        Arrow([(8, 88), (8 + one, 88)], kind="compute", width=3, head=False),
        Arrow([(8 + one + two, 88), (392, 88)], kind="compute", width=3, head=False),
        Words(8, 104, f"MFU counts {forward + backward:g}: what the model needs", "start", 12, "compute"),
        Arrow([(8, 122), (392, 122)], kind="plain", width=3, head=False),
        Words(8, 138, f"HFU counts {whole:g}: what the hardware did", "start", 12),
    ]
    return Scene(
        shapes,
        f"A bar of {forward:g} forward, {repeated:g} forward again and {backward:g} backward. MFU counts {forward + backward:g} of it, HFU all {whole:g}.",
    )


def whole_step(pp: int = 3, micro_batches: int = 4, gradients: float = 2.0, optimizer: float = 1.0) -> Scene:
    """A step from its first forward pass to the update: 1F1B, then what is left of the gradients, then the optimizer."""
    if not 2 <= pp <= 4 or not 0 < gradients <= 4 or not 0 < optimizer <= 4:
        raise InputError(
            f"whole_step: pp = {pp}, gradients = {gradients:g}, optimizer = {optimizer:g}; a drawing shows 2 to 4 stages and up to 4 units"
        )
    tasks = pipeline_tasks("1f1b", pp, micro_batches)
    for stage in range(pp):
        last = [t.name for t in tasks if t.ranks == (stage,)][-1]
        tasks.append(Task(f"G{stage}.{stage}", "communication", gradients, (last,), (stage,)))
        tasks.append(Task(f"O{stage}.{stage}", "compute", optimizer, (f"G{stage}.{stage}",), (stage,)))
    found = schedule(tasks)
    rows: list[tuple[str, list[Stretch]]] = [(f"device {s}", []) for s in range(pp)]
    for t in tasks:
        what = t.name[0]
        text = {"G": "grad.", "O": "opt."}.get(what, t.name[1 : t.name.index(".")])
        kind = {"F": "compute", "B": "other", "G": "network", "O": "memory"}[what]
        rows[t.ranks[0]][1].append(Stretch(found.starts[t.name], found.ends[t.name], text, kind, what == "F"))
    shapes = tracks(4, 30, 392, rows, until=found.time, names=58, height=26, size=12)
    low, scale = 30 + 32.0 * pp, 334 / found.time
    work, wait = 3.0 * micro_batches, 3.0 * (pp - 1)
    shapes += [
        Words(62, 14, "blue: forward, purple: backward, blank: waits", "start", 12),
        Arrow([(62, low + 6), (62 + (work + wait) * scale, low + 6)], width=1.2, both=True),
        Words(62 + (work + wait) * scale / 2, low + 20, f"{micro_batches} micro-batches and the bubble", size=12),
        Arrow([(62 + (work + wait) * scale, low + 6), (396, low + 6)], width=1.2, both=True),
        Words(396, low + 20, "the tail", "end", 12),
    ]
    return Scene(
        shapes,
        f"Tracks of {pp} devices: {micro_batches} micro-batches forward and backward with a bubble, then gradients for {gradients:g} units and the optimizer for {optimizer:g}; the first device ends the step after {found.time:g} units.",
    )
