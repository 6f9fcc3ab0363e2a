"""A rack as one machine: its trays, its watts in time, its joules against the clock, and checkpoints near and far."""

from mlsysim import catalog, energy, reliability, units
from mlsysim.catalog import Node
from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Curve, Frames, Point, Scene, Shape, Stretch, Words, tracks
from mlsysim.errors import InputError


def rack_of_trays(node: Node | str = "GB200-NVL72", per_tray: int = 4, failed: int = 5) -> Scene:
    """A rack that is one scale-up domain, tray by tray, with one tray that failed; the network leaves it by its adapters."""
    n = catalog.node(node)
    trays, rest = divmod(n.devices, per_tray)
    if rest or not 2 <= trays <= 20 or not 1 <= failed <= trays:
        raise InputError(
            f"rack_of_trays: {n.devices} devices in trays of {per_tray}, tray {failed} failed; draw 2 to 20 full trays and one of them"
        )
    high = 13.0
    shapes: list[Shape] = []
    middle = trays // 2
    shapes.append(Box(4, 4, 250, high * (trays + 3) + 8, kind="waiting", rounded=True))
    y = switches = 10.0
    places: list[float] = []
    for tray in range(1, trays + 1):
        if tray == middle + 1:
            shapes.append(Box(10, y, 238, 2.4 * high, "switches: every pair", "network", size=12))
            switches = y + 1.2 * high
            y += 2.8 * high
        for i in range(per_tray):
            gone = tray == failed
            shapes.append(
                Box(
                    10 + i * 238 / per_tray,
                    y,
                    238 / per_tray - 4,
                    high - 3,
                    kind="plain" if gone else "compute",
                    full=not gone,
                    dashed=gone,
                )
            )
        places.append(y + (high - 3) / 2)
        y += high
    out = places[failed - 1]
    device = catalog.device(n.device)
    shapes += [
        Arrow([(296, out), (256, out)], kind="network", width=1.4),
        Words(300, out, "a tray fails", "start", 12, kind="network"),
        Words(262, 20, f"{n.devices} x {format_quantity(device.tdp, 'W')}", "start", 12, bold=True),
        Words(262, switches - 9, "inside, each", "start", 12),
        Words(262, switches + 9, format_quantity(n.scale_up_bandwidth, "byte/s"), "start", 12, bold=True),
        Arrow([(256, places[-2]), (388, places[-2])], kind="network", width=1.4),
        Words(262, places[-1] + 5, f"out, each {format_quantity(n.scale_out_bandwidth, 'byte/s')}", "start", 12),
    ]
    return Scene(
        shapes,
        f"{n.name}: {trays} trays of {per_tray} devices around the switches in the middle, {n.devices} devices in one domain. One tray has "
        "failed and is dashed. An arrow leaves the rack to the right, through the adapters.",
    )


def _wave(levels: list[tuple[float, float]], left: float, wide: float, base: float, unit: float) -> list[Point]:
    """A line that jumps from level to level; each lasts its share of the width."""
    points: list[Point] = []
    x, whole = left, sum(long for long, _ in levels)
    for long, level in levels:
        y = base - level * unit
        points += [(x, y), (x + wide * long / whole, y)]
        x += wide * long / whole
    return points


def power_in_step(
    devices: int = 10_000, high_power: float = 1e3, low_power: float = 400, period: float = 4, high_share: float = 0.75
) -> Frames:
    """Power of a synchronous job over three steps: one device, all of them out of step, all in step, and with a store."""
    if not (devices >= 2 and 0 < low_power < high_power and 0.2 <= high_share <= 0.8):
        raise InputError(
            f"power_in_step: {devices} devices, {low_power:g} to {high_power:g} W, high share {high_share:g}; give two or more, a "
            "lower power below the higher, and a share of 0.2 to 0.8"
        )
    mean = high_power * high_share + low_power * (1 - high_share)
    store = float(energy.smoothing_energy(devices, high_power, low_power, period, high_share))
    left, wide, base, unit = 84.0, 308.0, 150.0, 112.0 / high_power
    step = [(high_share, high_power), (1 - high_share, low_power)]
    high, low, flat = (format_quantity(devices * p, "W") for p in (high_power, low_power, mean))
    one_high, one_low = (format_quantity(p, "W") for p in (high_power, low_power))
    moved = format_quantity(store, "J")
    swinging = Curve(_wave(step * 3, left, wide, base, unit), "compute")
    level = Curve([(left, base - mean * unit), (left + wide, base - mean * unit)], "memory", 3.0)
    heights = (base - high_power * unit, base - mean * unit, base - low_power * unit)
    shares = [s for i in range(3) for s in _moved(left + wide * i / 3, wide / 3, high_share, heights)]
    stages: list[tuple[str, str, str, list[Shape], str, str]] = [
        (
            "one device",
            one_high,
            one_low,
            [swinging],
            "The power of one device: high while it computes, low while it waits.",
            f"One device draws {one_high} while it computes and {one_low} while it waits for the others.",
        ),
        (
            f"{devices:,} devices, each when it likes",
            high,
            low,
            [level, Words(left + 8, base - mean * unit + 14, flat, "start", 12, kind="memory")],
            f"The sum of many devices that are not in step is a flat line at {flat}.",
            f"If each of {devices:,} devices had its own rhythm, their sum would be flat, at {flat}.",
        ),
        (
            f"{devices:,} devices in step",
            high,
            low,
            [swinging],
            f"The sum of devices in step swings between {high} and {low}.",
            f"A synchronous job has one rhythm, so that the whole site swings by {format_quantity(devices * (high_power - low_power), 'W')}.",
        ),
        (
            "in step, with a store",
            high,
            low,
            [*shares, level, Words(392, 12, f"grid: {flat}", "end", 12, kind="memory")],
            f"A store gives what is above the mean and takes what is below it, {moved} in each step; the grid sees {flat}.",
            f"A store that gives above the mean and takes below it moves {moved} each way in a step, and the grid sees the mean.",
        ),
    ]
    scenes = []
    for text, top, bottom, shown, alt, _ in stages:
        at = (heights[0], heights[2], base)
        ground = _three_steps(text, top, bottom, at, f"three steps of {format_quantity(period, 's')}", left, wide)
        scenes.append(Scene([*ground, *shown], alt, tall=176.0))
    return Frames(scenes, [says for *_, says in stages], "Power of a synchronous job over three steps")


def _moved(x: float, wide: float, high_share: float, heights: tuple[float, float, float]) -> list[Shape]:
    """What a store gives above the mean and takes below it in one step."""
    high, mean, low = heights
    return [
        Box(x, high, wide * high_share, mean - high, kind="compute"),
        Box(x + wide * high_share, mean, wide * (1 - high_share), low - mean, kind="memory"),
    ]


def _three_steps(
    text: str, top: str, bottom: str, at: tuple[float, float, float], below: str, left: float, wide: float
) -> list[Shape]:
    """Title, the names of both powers at their heights, and the axis."""
    high, low, base = at
    return [
        Words(8, 12, text, "start", 13, bold=True),
        Words(left - 6, high, top, "end", 12),
        Words(left - 6, low, bottom, "end", 12),
        Curve([(left, base), (left + wide, base)], width=1.0),
        Words(left + wide, base + 14, below, "end", 12),
    ]


def joules_by_clock(static: float = 100.0, dynamic: float = 300.0, knee: float = 0.0, exponent: float = 3.0) -> Scene:
    """Energy of one piece of arithmetic at several clocks: what is drawn for as long as it takes, and what switching takes."""
    clocks = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    parts = []
    for x in clocks:
        power = float(energy.clock_power(static, dynamic, x, knee, exponent))
        parts.append((static / x, (power - static) / x))
    most = max(a + b for a, b in parts)
    best = min(range(len(clocks)), key=lambda i: sum(parts[i]))
    side, base, tall = 384 / len(clocks), 190.0, 140.0
    shapes: list[Shape] = [
        Words(8, 12, "joules of the same work: grey for waiting,", "start", 12),
        Words(8, 28, "blue for switching", "start", 12),
    ]
    for i, (x, (waits, works)) in enumerate(zip(clocks, parts, strict=True)):
        left, low, high = 8 + i * side, tall * waits / most, tall * works / most
        shapes.append(Box(left, base - low, side - 8, low, kind="waiting", full=i == best))
        shapes.append(Box(left, base - low - high, side - 8, high, kind="compute", full=i == best))
        shapes.append(Words(left + (side - 8) / 2, base + 12, f"{x:g}", size=12, bold=i == best))
    shapes.append(Words(392, base + 30, "clock over the highest", "end", 12))
    exact = float(energy.cheapest_clock(static, dynamic, knee, exponent))
    return Scene(
        shapes,
        f"Bars for the clocks from {clocks[0]:g} to {clocks[-1]:g} of the highest. The grey part, {static:g} W for as long as the work "
        f"takes, shrinks to the right; the blue part grows. The shortest bar stands at {clocks[best]:g}; the exact minimum is at {exact:.2f}.",
    )


def two_tiers(near: float = 2.0, far: float = 12.0, near_stall: float = 0.25, far_stall: float = 1.0) -> Scene:
    """Frequent copies in other hosts' memory and rare ones in storage, and how far back each kind of failure throws the job."""
    if not 0 < near_stall < near < far or far_stall <= 0:
        raise InputError(
            f"two_tiers: near {near:g} with {near_stall:g}, far {far:g} with {far_stall:g}; give stall < near < far"
        )
    until = 1.75 * far
    row: list[Stretch] = []
    t, last_far, nears = 0.0, 0.0, []
    following = far
    while t < until:
        row.append(Stretch(t, min(t + near, until), "", "compute"))
        t += near
        if t >= following and t + far_stall < until:
            row.append(Stretch(t, t + far_stall, "", "network", True))
            t += far_stall
            last_far, following = t, t + far
        elif t + near_stall < until:
            row.append(Stretch(t, t + near_stall, "", "memory", True))
            t += near_stall
            nears.append(t)
    failed = until - 0.4 * near
    last_near = max(x for x in nears if x < failed)
    names, wide = 8.0, 380.0

    def at(s: float) -> float:
        return 4 + names + s * (wide - names) / until

    shapes: list[Shape] = [
        Words(8, 12, "green: a copy to peers; orange: a write to storage", "start", 12),
        *tracks(4, 26, wide, [("", row)], until=until, names=names, height=28),
        Arrow([(at(failed), 62), (at(failed), 56)], kind="other", width=1.4),
        Words(at(failed), 72, "failure", "end", 12, kind="other"),
        Arrow([(at(failed), 90), (at(last_near), 90)], kind="memory", width=1.6),
        Words(
            8,
            90,
            f"peers alive: {format_quantity(failed - last_near, '1')} units of work again",
            "start",
            12,
            kind="memory",
        ),
        Arrow([(at(failed), 112), (at(last_far), 112)], kind="network", width=1.6),
        Words(8, 112, f"peers gone too: {format_quantity(failed - last_far, '1')} units", "start", 12, kind="network"),
    ]
    share = float(reliability.checkpoint_overhead(near_stall, near))
    return Scene(
        shapes,
        f"A track of work with a short green copy after every {near:g} units of it, {units.percent(share, signed=False)} of the work, and one long orange write. "
        "After a failure one arrow goes back a little, to the last copy, and another far back, to the last write.",
    )


def wait_or_go_on(repair: float = 10.0, reconfigure: float = 1.0, lost_share: float = 0.125) -> Scene:
    """A part fails: a job that waits for it, and one that goes on with fewer until it is back."""
    if not 0 < 2 * reconfigure < repair or not 0 < lost_share < 1:
        raise InputError(
            f"wait_or_go_on: repair {repair:g}, reconfigure {reconfigure:g}, lost {lost_share:g}; give twice the reconfiguration below "
            "the repair and a share between 0 and 1"
        )
    lost = float(reliability.elastic_loss(repair, reconfigure, lost_share))
    until = repair + 5.0 + reconfigure
    scale = 316.0 / until
    begin = 76.0

    def line(y: float, pieces: list[tuple[float, float, str, str]]) -> list[Shape]:
        shapes: list[Shape] = []
        x = begin
        for long, part, kind, text in pieces:
            wide = long * scale
            shapes.append(
                Box(x, y + 34 * (1 - part), wide - 1, 34 * part, text, kind, dashed=kind == "waiting", size=12)
            )
            x += wide
        return shapes

    rest = 3.0 + reconfigure
    shapes: list[Shape] = [
        Words(8, 32, "waits", "start", 12),
        *line(16, [(2.0, 1.0, "compute", "all"), (repair, 1.0, "waiting", "repair"), (rest, 1.0, "compute", "all")]),
        Words(8, 92, "goes on", "start", 12),
        *line(
            76,
            [
                (2.0, 1.0, "compute", "all"),
                (reconfigure, 1.0, "waiting", ""),
                (repair - reconfigure, 1 - lost_share, "compute", "fewer"),
                (reconfigure, 1.0, "waiting", ""),
                (3.0, 1.0, "compute", "all"),
            ],
        ),
        Words(8, 130, f"lost: {repair:g} units of time above, {lost:.2g} below", "start", 12, bold=True),
    ]
    return Scene(
        shapes,
        f"Two tracks. Above, a job stands still for the {repair:g} units of a repair. Below, it stands still for {reconfigure:g} to leave the "
        f"part out, works at {units.percent(1 - lost_share, signed=False)} of its pace, and stands still for {reconfigure:g} again; it loses {lost:.2g}.",
    )
