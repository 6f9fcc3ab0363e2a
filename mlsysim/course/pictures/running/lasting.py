"""Failures and what one does about them: rates that add, a failure step by step, two losses, a cycle, copies, spares."""

from collections.abc import Sequence
from random import Random

from mlsysim import reliability
from mlsysim.drawing.scenes import Arrow, Box, Curve, Frames, Scene, Shape, Stretch, Words, tracks
from mlsysim.errors import InputError


def failures_add(nodes: int = 6, seed: int = 273) -> Scene:
    """Nodes that fail about once each in the time drawn, and the job that stops whenever one of them does.

    Parameters
    ----------
    nodes : int
        2 to 8; each fails at random, at the rate of one in the time drawn.
    seed : int
        Of the draws.
    """
    if not 2 <= nodes <= 8:
        raise InputError(f"nodes = {nodes}; draw 2 to 8")
    rng = Random(seed)
    rows: list[list[float]] = []
    for _ in range(nodes):
        times, now = [], rng.expovariate(1.0)
        while now < 1.0:
            times.append(now)
            now += rng.expovariate(1.0)
        rows.append(times)
    left, wide = 70.0, 318.0
    shapes: list[Shape] = []
    for i, times in enumerate([*rows, sorted(t for row in rows for t in row)]):
        job = i == nodes
        y = 6 + 22 * i + (10 if job else 0)
        shapes.append(Words(left - 8, y + 9, "the job" if job else f"node {i + 1}", "end", 12, bold=job))
        shapes.append(Box(left, y, wide, 18, kind="compute"))
        shapes += [Box(left + t * wide - 2, y, 4, 18, kind="network", full=True) for t in times]
    stops = sum(map(len, rows))
    shapes.append(Words(left, 22 * nodes + 46, f"{stops} failures, and each stops the job", "start", 12))
    return Scene(
        shapes,
        f"{nodes} lines of time with a failure now and then; the line of the job below has the failures of all, {stops}.",
    )


def _run(interval: float, save: float, fails_at: float, restart: float) -> list[Stretch]:
    """What a job does until it has done its lost work again."""
    found, now = [], 0.0
    while now + interval + save <= fails_at:
        found += [
            Stretch(now, now + interval, "work", "compute"),
            Stretch(now + interval, now + interval + save, "", "memory", True),
        ]
        now += interval + save
    lost, again = fails_at - now, fails_at + restart
    return [
        *found,
        Stretch(now, fails_at, "lost", "network"),
        Stretch(fails_at, again, "restart", "waiting"),
        Stretch(again, again + lost, "again", "network"),
        Stretch(again + lost, again + interval, "work", "compute"),
    ]


def failure_step_by_step(
    interval: float = 4.0, save: float = 0.6, fails_at: float = 11.2, restart: float = 2.6
) -> Frames:
    """A failure as it happens: work, checkpoint, failure, restart, and the same work again."""
    if min(interval, save, restart) <= 0 or not interval + save < fails_at < 40:
        raise InputError(
            f"failure_step_by_step: interval = {interval:g}, fails_at = {fails_at:g}; the failure must come after a checkpoint"
        )
    run = _run(interval, save, fails_at, restart)
    first = interval
    saved = max(s.end for s in run if s.kind == "memory")
    end = run[-1].end
    stops = [
        (first, "The job works. Nothing of it is safe yet."),
        (first + save, "It stands still and writes a checkpoint (green). From now on this work lasts."),
        (fails_at, "It has saved twice and works on, when a node fails. What came after the last checkpoint is lost."),
        (fails_at + restart, "It restarts: notice, swap the node, load the checkpoint."),
        (
            end - (interval - (fails_at - saved)),
            "It does the lost part again. Only now is it where it was when it failed.",
        ),
        (end, "It works on. One failure has cost the lost part and the restart."),
    ]
    scenes = []
    scale = 392 / end
    for stop, _ in stops:
        row = []
        for s in run:
            if s.start >= stop:
                break
            text = s.text if s.text != "lost" or stop >= fails_at else "work"
            row.append(Stretch(s.start, min(s.end, stop), text, s.kind, s.full))
        shapes = [*tracks(4, 40, 392, [("", row)], until=end, names=0.0, height=36)]
        if stop >= fails_at:
            x = 4 + fails_at * scale
            shapes.append(Arrow([(x, 20), (x, 40)], "fails", "network", 2, beside=(0, -20)))
        if stop == fails_at + restart:
            x, back = 4 + fails_at * scale, 4 + saved * scale
            shapes.append(
                Arrow(
                    [(x, 76), (x, 96), (back, 96), (back, 78)], "back to the last checkpoint", "memory", beside=(0, 13)
                )
            )
        scenes.append(Scene(shapes, f"A line of time up to {stop:g}: {row[-1].text or 'a checkpoint'}.", tall=122))
    return Frames(scenes, [says for _, says in stops], "A job that saves, fails, restarts and does lost work again")


def two_losses(write: float, mtbf: float) -> Scene:
    """The loss by writing falls with the interval, the loss by rework rises; their sum is least where they are equal."""
    best = float(reliability.young_interval(write, mtbf))
    top, base, left, right = 30.0, 176.0, 30.0, 380.0
    taus = [best * (0.22 + 0.04 * i) for i in range(70)]
    saving = [float(reliability.checkpoint_overhead(write, t)) for t in taus]
    again = [t / (2 * mtbf) for t in taus]
    most = max(s + a for s, a in zip(saving, again, strict=True))

    def line(ys: Sequence[float]) -> list[tuple[float, float]]:
        return [
            (left + (right - left) * t / taus[-1], base - (base - top) * y / most)
            for t, y in zip(taus, ys, strict=True)
        ]

    x = left + (right - left) * best / taus[-1]
    low = base - (base - top) * 2 * best / (2 * mtbf) / most
    shapes: list[Shape] = [
        Arrow([(left, base), (left, 10)], width=1),
        Arrow([(left, base), (392, base)], width=1),
        Curve(line(saving), "memory", 2),
        Curve(line(again), "network", 2),
        Curve(line([s + a for s, a in zip(saving, again, strict=True)]), "compute", 2.5),
        Curve([(x, low), (x, base)], "plain", 1, True),
        Words(left + 8, 14, "share of the time lost", "start", 12),
        Words(right + 8, line(saving)[-1][1] - 10, "writing", "end", 12, "memory"),
        Words(right + 8, line(again)[-1][1] + 22, "rework", "end", 12, "network"),
        Words(
            right - 60,
            line([s + a for s, a in zip(saving, again, strict=True)])[-1][1] - 12,
            "both",
            "middle",
            12,
            "compute",
        ),
        Words(x, base + 14, "least where the two are equal", size=12, bold=True),
        Words(392, base + 30, "work between two checkpoints", "end", 12),
    ]
    return Scene(
        shapes,
        "Three curves against the work between two checkpoints: the loss by writing falls, the loss by rework rises in a straight line, and their sum is least where they cross.",
    )


def one_cycle() -> Scene:
    """From one failure to the next that finds the job at work: restarts, then checkpoints until the end comes."""
    row = [
        Stretch(0.0, 1.4, "", "waiting"),
        Stretch(1.4, 3.8, "restart", "waiting"),
        Stretch(3.8, 5.8, "work", "compute"),
        Stretch(5.8, 6.2, "", "memory", True),
        Stretch(6.2, 8.2, "work", "compute"),
        Stretch(8.2, 8.6, "", "memory", True),
        Stretch(8.6, 10.2, "lost", "network"),
    ]
    scale = 384 / 10.2

    def at(t: float) -> float:
        return 8 + t * scale

    shapes = tracks(8, 50, 384, [("", row)], names=0.0, height=34)
    for t, text in ((0.0, "fails"), (1.4, "fails again"), (10.2, "fails")):
        anchor = "start" if t == 0 else "end" if t > 10 else "middle"
        shapes.append(Arrow([(at(t), 28), (at(t), 50)], kind="network", width=2))
        shapes.append(Words(at(t) + (12 if t == 1.4 else 0), 18, text, anchor, 12, "network"))
    shapes += [
        Arrow([(at(0), 98), (at(3.8), 98)], kind="waiting", width=1, both=True),
        Words(at(1.9), 114, "coming back", size=12),
        Arrow([(at(3.8), 98), (at(10.2), 98)], kind="compute", width=1, both=True),
        Words(at(7.0), 114, "up, M on average", size=12, kind="compute"),
        Arrow([(at(3.8), 134), (at(6.2), 134)], width=1, both=True),
        Words(at(5.0), 148, "L = τ + δ", size=12),
    ]
    return Scene(
        shapes,
        "One cycle in time: a failure, a restart that fails and is begun anew, two segments of work and checkpoint, a part that is lost, the next failure.",
    )


def checkpoint_behind(work: float = 6.0, write: float = 3.0, copy: float = 0.5) -> Scene:
    """Two ways to save: training waits for the write, or for a copy to the host only, which then writes."""
    if not 0 < copy < write < work:
        raise InputError(
            f"checkpoint_behind: copy = {copy:g}, write = {write:g}, work = {work:g}; give copy < write < work"
        )
    waits = [
        Stretch(0, work, "work", "compute"),
        Stretch(work, work + write, "write", "memory"),
        Stretch(work + write, 2 * work + write, "work", "compute"),
    ]
    stall = float(reliability.stall_time(copy, write, work))
    behind = [
        Stretch(0, work, "work", "compute"),
        Stretch(work, work + stall, "", "memory", True),
        Stretch(work + stall, 2 * work + stall, "work", "compute"),
    ]
    host = [Stretch(work + stall, work + stall + write, "write", "memory")]
    until = 2 * work + write
    scale = 312 / until
    counts = 80 + (work + stall + write) * scale
    shapes: list[Shape] = [Words(8, 12, "training waits", "start", 12, bold=True)]
    shapes += tracks(4, 22, 388, [("training", waits)], until=until, names=76, height=26)
    shapes.append(Words(8, 74, "training copies, the host writes", "start", 12, bold=True))
    shapes += tracks(4, 84, 388, [("training", behind), ("host", host)], until=until, names=76, height=26)
    shapes += [
        Arrow([(counts, 160), (counts, 142)], kind="memory"),
        Words(counts, 170, "counts from here", size=12, kind="memory"),
    ]
    return Scene(
        shapes,
        "Tracks of time: above, training stops while a checkpoint is written; below, it stops for a short copy only and the host writes beside it, so the checkpoint counts later.",
    )


def spare_nodes(nodes: int = 8, spares: int = 2) -> Scene:
    """A job, one node that is away for repair, the spare that stands in for it, and one that waits."""
    if not 2 <= nodes <= 10 or not 1 <= spares <= 3:
        raise InputError(f"spare_nodes: nodes = {nodes}, spares = {spares}; draw 2 to 10 and 1 to 3")
    side = 384 / (nodes + spares)
    shapes: list[Shape] = []
    away = nodes - 3 if nodes > 4 else 1
    for i in range(nodes + spares):
        x = 8 + i * side + (6 if i >= nodes else 0)
        kind = "network" if i == away else "compute" if i <= nodes else "waiting"
        shapes.append(Box(x, 40, side - 6, 40, kind=kind, dashed=i == away, rounded=True))
    here, there = 8 + away * side + (side - 6) / 2, 8 + nodes * side + 6 + (side - 6) / 2
    shapes += [
        Arrow([(there, 40), (there, 22), (here, 22), (here, 40)], kind="compute"),
        Words((here + there) / 2, 10, "stands in", size=12, kind="compute"),
        Words(here, 94, "in repair", size=12, kind="network"),
        Words(8, 94, f"{nodes} nodes needed", "start", 12),
        Words(394, 94, "spares", "end", 12),
    ]
    return Scene(
        shapes,
        f"A row of {nodes} nodes and {spares} spares; one node is away for repair, the first spare stands in for it.",
    )


def counted_causes(causes: Sequence[tuple[str, float]], duration: float) -> Scene:
    """What stopped a job, cause by cause, to scale: how often, and how far apart this cause alone would stop it.

    Parameters
    ----------
    causes : sequence of (name, count)
        In any order; the most frequent is drawn first.
    duration : float, s
        Watched for so long.
    """
    known = sorted(causes, key=lambda c: -c[1])
    if not 2 <= len(known) <= 9 or known[-1][1] <= 0:
        raise InputError(f"counted_causes: {len(known)} causes; give 2 to 9, each counted at least once")
    shapes: list[Shape] = [
        Words(162, 12, "count", "start", 12, bold=True),
        Words(392, 12, "alone, one every", "end", 12, bold=True),
    ]
    for i, (name, count) in enumerate([*known, ("all", sum(c for _, c in known))]):
        y = 24 + 22 * i + (6 if name == "all" else 0)
        alone = float(reliability.observed_mtbf(duration, count)) / 3600
        if name != "all":
            wide = 110 * count / known[0][1]
            shapes.append(Box(162, y, wide, 16, kind="network"))
            shapes.append(Words(168 + wide, y + 8, f"{count:g}", "start", 12))
        else:
            shapes.append(Words(162, y + 8, f"{count:g}", "start", 12, bold=True))
        shapes.append(Words(154, y + 8, name, "end", 12, bold=name == "all"))
        shapes.append(
            Words(392, y + 8, f"{alone:.0f} h" if alone >= 10 else f"{alone:.1f} h", "end", 12, bold=name == "all")
        )
    return Scene(shapes, "Causes by count: " + ", ".join(f"{name} {count:g}" for name, count in known) + ".")
