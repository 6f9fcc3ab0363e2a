"""Running it: the path of a watt and of a dollar, a failure and its rework, a range that past errors give, a search."""

from collections.abc import Sequence

from mlsysim.classroom.pictures.machines.devices import said
from mlsysim.drawing.scenes import Arrow, Box, Curve, Piece, Scene, Shape, Words, bar
from mlsysim.errors import InputError


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
        Box(8, 24, 70, 130, f"grid\n{said(whole, 'W')}", "extra"),
        Arrow([(78, 89), (120, 89)], "", "extra", 6),
    ]
    y = line = 24.0
    for text, watt, kind in parts:
        tall = watt * scale
        shapes.append(Box(124, y, 46, tall, kind=kind, full=kind == "compute"))
        line = max(line, y + tall / 2 - 16)
        shapes.append(Words(180, line + 16, f"{text}\n{said(watt, 'W')}", "start", 12))
        y, line = y + tall, line + 34
    shapes.append(Words(180, line + 14, "all of it leaves as heat", "start", 12))
    return Scene(
        shapes, "Power from the grid, to scale: " + ", ".join(f"{text} {said(w, 'W')}" for text, w, _ in parts) + "."
    )


def path_of_a_dollar(parts: Sequence[tuple[str, float]], total: str = "one device-hour") -> Scene:
    """What a sum is made of, to scale: the largest part first."""
    known = sorted(((name, float(v)) for name, v in parts), key=lambda p: -p[1])
    if not 2 <= len(known) <= 6 or min(v for _, v in known) < 0 or not sum(v for _, v in known) > 0:
        raise InputError(f"path_of_a_dollar: {len(known)} parts; give 2 to 6, none below 0")
    kinds = ("compute", "memory", "network", "other", "extra", "waiting")
    whole = sum(v for _, v in known)
    shapes: list[Shape] = [Words(12, 14, f"{total}: {said(whole, 'USD', 3)}", "start", bold=True)]
    shapes += bar(12, 30, 376, 44, [Piece("", v, kinds[i]) for i, (_, v) in enumerate(known)])
    for i, (name, value) in enumerate(known):
        shapes.append(Box(12, 92 + 24 * i, 14, 14, kind=kinds[i]))
        shapes.append(Words(34, 99 + 24 * i, f"{name}: {value / whole:.0%}", "start"))
    return Scene(shapes, f"A bar to scale of {total}: " + ", ".join(f"{n} {v / whole:.0%}" for n, v in known) + ".")


def search_landscape() -> Scene:
    """A search over plans: what does not fit, what is slow, and the front of what nothing beats in both."""
    front = [(70.0, 60.0), (118.0, 92.0), (190.0, 118.0), (300.0, 136.0)]
    others = [
        (110.0, 44.0),
        (160.0, 72.0),
        (210.0, 60.0),
        (240.0, 96.0),
        (290.0, 84.0),
        (340.0, 112.0),
        (340.0, 60.0),
        (270.0, 40.0),
    ]
    shapes: list[Shape] = [
        Arrow([(34, 170), (34, 14)], width=1),
        Arrow([(34, 170), (392, 170)], width=1),
        Box(36, 16, 24, 152, kind="waiting"),
        Words(66, 30, "left: does not fit", "start", 12),
        Words(392, 186, "memory used, or cost", "end", 12),
        Words(34, 202, "up: step time", "start", 12),
        Curve(front, "compute", 2.5),
        *[Box(x - 4, y - 4, 8, 8, kind="compute", full=True) for x, y in front],
        *[Box(x - 3, y - 3, 6, 6, kind="waiting", full=True) for x, y in others],
        Words(310, 152, "the front: nothing\nis better in both", size=12, kind="compute"),
    ]
    return Scene(
        shapes,
        "Plans as points, cost to the right and step time upwards; a band at the left does not fit; a falling line joins the plans that no other beats in both.",
    )
