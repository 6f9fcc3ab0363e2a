"""A device: what it remembers and how fast, and how its roofline is read by hand."""

from mlsysim import catalog, roofline, units
from mlsysim.catalog import Device
from mlsysim.drawing.scenes import Arrow, Box, Curve, Scene, Shape, Words


def format_quantity(value: float, unit: str, digits: int = 2) -> str:
    """A figure as a drawing says it: two digits, no more than the eye takes in.

    >>> format_quantity(3.35e12, "byte/s")
    '3.4 TB/s'
    """
    return units.format(value, unit, digits)


def memory_levels(device: Device | str, link: float | None = None) -> Scene:
    """Where a byte can be, from the arithmetic outwards: each level larger, and the arrow to it narrower.

    Parameters
    ----------
    device : Device or str
        With memory, bandwidth and, unless ``link`` is given, a scale-up link.
    link : float, optional
        byte/s, one way, to the other devices.
    """
    d = catalog.device(device)
    away = d.scale_up_bandwidth if link is None else link
    peak = d.peak_flops["bf16"]
    rate, room = d.memory_bandwidth, d.memory_capacity
    far = rate / away
    shapes: list[Shape] = [
        Box(8, 8, 384, 126, rounded=True),
        Words(18, 22, d.name, "start", bold=True),
        Box(24, 44, 110, 76, f"arithmetic\n{format_quantity(peak, 'FLOP/s')}", "compute"),
        Box(250, 38, 126, 88, f"memory\n{format_quantity(room, 'byte')}", "memory"),
        Arrow([(250, 82), (134, 82)], format_quantity(rate, "byte/s"), "memory", 14, beside=(4, -18)),
        Words(192, 110, "every weight,\nevery step", size=12),
        Arrow(
            [(313, 190), (313, 126)],
            format_quantity(away, "byte/s"),
            "network",
            max(1.5, 14 / far),
            beside=(10, 4),
            anchor="start",
        ),
        Box(250, 190, 126, 44, "other devices", "network", rounded=True),
        Words(24, 212, f"{far:.0f} times slower to ask", "start", size=12),
    ]
    alt = (
        f"A device, {d.name}: arithmetic of {format_quantity(peak, 'FLOP/s')}, fed by a wide arrow of {format_quantity(rate, 'byte/s')} from a memory of "
        f"{format_quantity(room, 'byte')}; a narrow arrow of {format_quantity(away, 'byte/s')} from other devices, {far:.0f} times slower."
    )
    return Scene(shapes, alt)


def roofline_by_hand(device: Device | str, precision: str = "bf16") -> Scene:
    """A roofline with its two lines, their meaning, and the ridge between them."""
    d = catalog.device(device)
    peak, rate = d.peak_flops[precision], d.memory_bandwidth
    ridge = roofline.ridge_point(peak, rate)
    left, bottom, corner, top, right = 56.0, 208.0, 214.0, 62.0, 384.0
    shapes: list[Shape] = [
        Arrow([(left, bottom), (left, 24)], width=1),
        Arrow([(left, bottom), (right + 8, bottom)], width=1),
        Words(left - 6, 14, "FLOP/s", "start", 12),
        Words(right + 8, bottom + 15, "FLOP per byte", "end", 12),
        Curve([(left, bottom - 8), (corner, top)], "memory", 4),
        Curve([(corner, top), (right, top)], "compute", 4),
        Words(64, 84, f"memory gives\n{format_quantity(rate, 'byte/s')}\nand no more", "start", 12, "memory"),
        Words(
            (corner + right) / 2 + 8,
            top - 22,
            f"arithmetic ends at\n{format_quantity(peak, 'FLOP/s')}",
            size=12,
            kind="compute",
        ),
        Curve([(corner, top), (corner, bottom)], "plain", 1, True),
        Words(corner, bottom + 15, f"ridge: {ridge:.0f}", bold=True),
        Words(corner + 14, 150, "right of it: waiting\nfor arithmetic", "start", 12),
        Words(corner - 10, 184, "left of it: waiting\nfor memory", "end", 12),
    ]
    alt = (
        f"The roofline of {d.name} as a sketch. Up to {ridge:.0f} FLOP per byte a rising line: memory gives {format_quantity(rate, 'byte/s')}. "
        f"From there on a flat one: arithmetic ends at {format_quantity(peak, 'FLOP/s')}. The bend between them is the ridge."
    )
    return Scene(shapes, alt)
