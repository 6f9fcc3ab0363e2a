"""From a program to a time: operations, regions and their schedule, an array of multipliers, tiles and waves."""

import math

from mlsysim.drawing.scenes import Arrow, Box, Scene, Shape, Stretch, Words, tracks
from mlsysim.errors import InputError
from mlsysim.network.streams import Task, schedule


def program_to_time() -> Scene:
    """What becomes of a program on the way to a number."""
    steps = [
        ("program", "StableHLO: operations\nwith shapes", "plain"),
        ("regions", "fused: what runs\nas one kernel", "compute"),
        ("times", "each region by\nan estimator", "other"),
        ("schedule", "what waits\nfor what", "network"),
    ]
    shapes: list[Shape] = []
    for i, (name, text, kind) in enumerate(steps):
        x, y = 12 + (i % 2) * 200, 20 + (i // 2) * 100
        shapes.append(Box(x, y, 176, 70, f"{name}\n{text}", kind, True))
    shapes += [
        Arrow([(188, 55), (211, 55)], width=2),
        Arrow([(300, 90), (300, 104), (100, 104), (100, 119)], width=2),
        Arrow([(188, 155), (211, 155)], width=2),
        Arrow([(300, 190), (300, 212)], "one time", width=2, beside=(0, 22)),
    ]
    return Scene(
        shapes,
        "A program becomes regions, each region gets a time from an estimator, and a schedule of the regions gives one time.",
    )


def tiles_and_waves(rows: int = 5, columns: int = 5, processors: int = 8) -> Scene:
    """A product cut into tiles, dealt out to multiprocessors in waves; the last wave is not full."""
    if not (1 <= rows <= 8 and 1 <= columns <= 10 and 2 <= processors <= 40):
        raise InputError(
            f"tiles_and_waves: {rows} by {columns} tiles on {processors}; a drawing shows up to 8 by 10 on 2 to 40"
        )
    side = min(28.0, 200 / rows)
    kinds = ("compute", "memory", "network", "other", "extra", "waiting")
    waves = math.ceil(rows * columns / processors)
    shapes: list[Shape] = [Words(12, 14, f"{rows * columns} tiles of the result", "start", 12)]
    for i in range(rows * columns):
        wave = i // processors
        shapes.append(
            Box(
                12 + (i % columns) * side,
                28 + (i // columns) * side,
                side - 2,
                side - 2,
                str(wave + 1),
                kinds[wave % 6],
                size=12,
            )
        )
    x = 12 + columns * side + 24
    for wave in range(waves):
        count = min(processors, rows * columns - wave * processors)
        width = (388 - x) / processors
        y = 40 + 26.0 * wave
        for p in range(processors):
            used = p < count
            shapes.append(
                Box(x + p * width, y, width - 2, 18, kind=kinds[wave % 6] if used else "plain", dashed=not used)
            )
    idle = waves * processors - rows * columns
    shapes.append(Words(x, 14, f"{waves} waves on {processors}", "start", 12))
    low = 28 + max(rows * side, 26.0 * waves + 12) + 14
    shapes.append(Words(12, low, f"{idle} multiprocessors wait in the last wave", "start", 12))
    return Scene(
        shapes,
        f"{rows * columns} tiles on {processors} multiprocessors need {waves} waves; in the last one {idle} have nothing to do.",
    )


def list_scheduling() -> Scene:
    """Tasks with dependencies on two streams: each starts when what it waits for is done and its stream is free."""
    tasks = [
        Task("a", "compute", 2.0),
        Task("b", "compute", 3.0, ("a",)),
        Task("send a", "communication", 4.0, ("a",)),
        Task("c", "compute", 2.0, ("send a",)),
        Task("send b", "communication", 2.0, ("b",)),
        Task("d", "compute", 2.0, ("send b", "c")),
    ]
    found = schedule(tasks)
    rows: list[tuple[str, list[Stretch]]] = [("compute", []), ("network", [])]
    for t in tasks:
        here = t.stream == "compute"
        rows[not here][1].append(
            Stretch(found.starts[t.name], found.ends[t.name], t.name, "compute" if here else "network")
        )
    shapes = tracks(4, 20, 392, rows, names=64, height=34)
    shapes.append(Arrow([(68, 108), (396, 108)], "time; blank: waits for the other stream", width=1, beside=(0, 14)))
    return Scene(
        shapes,
        f"Six tasks on two streams, as scheduled: they end at {found.time:g}; gaps are waits for the other stream.",
    )


def two_batch_overlap() -> Scene:
    """Two half batches in turn: while one's tokens travel to the experts, the other computes."""
    rows: list[tuple[str, list[Stretch]]] = [("compute", []), ("network", [])]
    names = ("attend", "expert")
    for i in range(6):
        half = i % 2
        rows[0][1].append(
            Stretch(2.0 * i, 2.0 * i + 2.0, f"{names[i // 2 % 2]} {'AB'[half]}", "compute" if half == 0 else "other")
        )
        if i:
            rows[1][1].append(Stretch(2.0 * i, 2.0 * i + 1.7, f"{'AB'[1 - half]} goes", "network"))
    shapes = tracks(4, 20, 392, rows, until=12.0, names=64, height=34, size=12)
    shapes.append(Arrow([(68, 108), (396, 108)], "time", width=1, beside=(0, 14)))
    return Scene(
        shapes, "Two half batches A and B take turns: while A's tokens travel, B computes, and the other way round."
    )
