"""Running it: the path of a watt and of a dollar, a failure and its rework, a range that past errors give, a search."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Curve, Piece, Point, Scene, Shape, Words, bar
from mlsysim.errors import InputError

if TYPE_CHECKING:
    from mlsysim.explore.planner import PlanSearch


def path_of_a_watt(chip: float, host: float, pue: float) -> Scene:
    """From the grid to the chip, to scale: what the building takes, what the rest of the node takes, what computes.

    Parameters
    ----------
    chip, host : float
        W of the devices of a node, and of all else in it.
    pue : float, 1
        Power of the building over that of its computers, at least 1.
    """
    if min(chip, host) <= 0 or not 1.0 <= pue <= 4.0:
        raise InputError(
            f"path_of_a_watt: chip = {chip:g}, host = {host:g}, pue = {pue:g}; give watts above 0 and a PUE in [1, 4]"
        )
    inside = chip + host
    whole = inside * pue
    parts = [
        ("devices", chip, "compute"),
        ("fans, processors, adapters", host, "memory"),
        ("cooling and losses of the building", whole - inside, "waiting"),
    ]
    scale = 130 / whole
    shapes: list[Shape] = [
        Box(8, 24, 70, 130, f"grid\n{format_quantity(whole, 'W')}", "extra"),
        Arrow([(78, 89), (120, 89)], "", "extra", 6),
    ]
    y = line = 24.0
    for text, watt, kind in parts:
        tall = watt * scale
        shapes.append(Box(124, y, 46, tall, kind=kind, full=kind == "compute"))
        line = max(line, y + tall / 2 - 16)
        shapes.append(Words(180, line + 16, f"{text}\n{format_quantity(watt, 'W')}", "start", 12))
        y, line = y + tall, line + 34
    shapes.append(Words(180, line + 14, "all of it leaves as heat", "start", 12))
    return Scene(
        shapes,
        "Power from the grid, to scale: "
        + ", ".join(f"{text} {format_quantity(w, 'W')}" for text, w, _ in parts)
        + ".",
    )


def path_of_a_dollar(parts: Sequence[tuple[str, float]], total: str = "one device-hour") -> Scene:
    """What a sum is made of, to scale: the largest part first."""
    known = sorted(((name, float(v)) for name, v in parts), key=lambda p: -p[1])
    if not 2 <= len(known) <= 6 or min(v for _, v in known) < 0 or not sum(v for _, v in known) > 0:
        raise InputError(f"path_of_a_dollar: {len(known)} parts; give 2 to 6, none below 0")
    kinds = ("compute", "memory", "network", "other", "extra", "waiting")
    whole = sum(v for _, v in known)
    shapes: list[Shape] = [Words(12, 14, f"{total}: {format_quantity(whole, 'USD', 3)}", "start", bold=True)]
    shapes += bar(12, 30, 376, 44, [Piece("", v, kinds[i]) for i, (_, v) in enumerate(known)])
    for i, (name, value) in enumerate(known):
        shapes.append(Box(12, 92 + 24 * i, 14, 14, kind=kinds[i]))
        shapes.append(Words(34, 99 + 24 * i, f"{name}: {value / whole:.0%}", "start"))
    return Scene(shapes, f"A bar to scale of {total}: " + ", ".join(f"{n} {v / whole:.0%}" for n, v in known) + ".")


def search_landscape(searched: "PlanSearch", shown: int = 150) -> Scene:
    """A search over plans: what does not fit, what is slow, and the front of what nothing beats in both.

    Parameters
    ----------
    searched : PlanSearch
        What ``explore.plan`` returns.
    shown : int, 1
        About how many of its plans to draw, evenly spaced, in [10, 400]; the front is drawn whole.
    """
    if not 10 <= shown <= 400:
        raise InputError(f"search_landscape: shown = {shown}; draw 10 to 400 plans")
    room, front = searched.capacity, searched.front()
    if len(front) < 2:
        raise InputError(
            f"search_landscape: {len(front)} plans on the front; give a search that trades time for memory"
        )
    rows = zip(searched.rows["memory"].tolist(), searched.rows["time"].tolist(), strict=True)
    slowest = 2.5 * max(front["time"].tolist())
    every = [(memory, time) for memory, time in rows if memory < 1.5 * room and time < slowest]
    few = every[:: max(1, len(every) // shown)]
    best = sorted(zip(front["memory"].tolist(), front["time"].tolist(), strict=True))
    low, high = math.log(0.9 * best[-1][1]), math.log(slowest)
    width = 352 / (1.5 * room)

    def at(plan: tuple[float, float]) -> Point:
        return 36 + plan[0] * width, 16 + 190 * (high - math.log(plan[1])) / (high - low)

    edge = at((room, slowest))[0]
    steps = [at(best[0])]  # a staircase: less memory than that costs the time of the plan before
    for a, b in pairwise(best):
        steps += [at((b[0], a[1])), at(b)]
    shapes: list[Shape] = [
        Box(edge, 14, 390 - edge, 192, kind="waiting"),
        *[Box(x - 2.5, y - 2.5, 5, 5, kind="waiting", full=True) for x, y in map(at, few)],
        Curve(steps, "compute", 2.5),
        *[Box(x - 3.5, y - 3.5, 7, 7, kind="compute", full=True) for x, y in map(at, best)],
        Arrow([(34, 208), (34, 10)], width=1),
        Arrow([(34, 208), (394, 208)], width=1),
        Words((edge + 390) / 2, 32, "does not fit", size=12),
        Words(394, 222, "memory of the fullest device", "end", 12),
        Words(34, 240, f"up: time of a step; {len(every):,} of {len(searched.rows):,} plans lie here", "start", 12),
        Words(34, 258, f"the front: {len(best)} that nothing beats in both", "start", 12, "compute"),
    ]
    return Scene(
        shapes,
        f"Plans as points, memory to the right and step time upwards; a band at the right does not fit; a falling staircase joins the {len(best)} plans that no other beats in both.",
    )
