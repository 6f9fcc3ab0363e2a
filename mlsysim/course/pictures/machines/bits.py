"""Numbers of few bits: what their bits mean, where on a line they lie, how a block shares a factor, and what casts move."""

from collections.abc import Sequence

from mlsysim.drawing.scenes import Arrow, Box, Curve, Frames, Piece, Scene, Shape, Words, bar
from mlsysim.errors import InputError
from mlsysim.memory import GRIDS, SCALINGS
from mlsysim.memory.grids import decibels, scale_of

_WIDE = ("BF16", 1, 8, 7)


def bit_layouts(names: Sequence[str] = ("e5m2", "e4m3", "e2m1", "e8m0")) -> Scene:
    """What each bit of a number says: its sign, its power of two, or the place between two powers."""
    if not 1 <= len(names) <= 5:
        raise InputError(f"bit_layouts: {len(names)} formats; a drawing shows 1 to 5 below BF16")
    rows = [_WIDE]
    for name in names:
        g = GRIDS[name]
        rows.append((name.upper(), g.bits - g.exponent_bits - g.mantissa_bits, g.exponent_bits, g.mantissa_bits))
    side, told = 24.0, []
    shapes: list[Shape] = []
    for i, (name, sign, exponent, mantissa) in enumerate(rows):
        y = 14 + 54.0 * i
        said = ", ".join(
            f"{n} {what}" for n, what in ((sign, "sign"), (exponent, "exponent"), (mantissa, "mantissa")) if n
        )
        shapes.append(Words(8, y, f"{name}: {said}", "start", 12))
        for b in range(sign + exponent + mantissa):
            letter, kind = ("s", "plain") if b < sign else ("e", "compute") if b < sign + exponent else ("m", "memory")
            shapes.append(Box(8 + b * side, y + 10, side - 2, 24, letter, kind, size=12))
        told.append(f"{name} has {said}")
    return Scene(shapes, f"Bits of formats, from the left: {'; '.join(told)}.")


def number_lines(names: Sequence[str] = ("int4", "e2m1", "e5m2", "e4m3"), most: float = 8.0) -> Scene:
    """Every number of some formats up to a size, as strokes on a line: even in integers, denser towards zero in floats."""
    if not (1 <= len(names) <= 5 and 2 <= most <= 16):
        raise InputError(f"number_lines: {len(names)} formats up to {most:g}; a drawing shows 1 to 5 up to 2 to 16")
    shapes: list[Shape] = []
    told = []
    for i, name in enumerate(names):
        y = 44 + 56.0 * i
        g = GRIDS[name]
        seen = [v for v in g.values if v <= most]
        shapes.append(Words(8, y - 30, f"{name.upper()}: {len(seen)} numbers up to {most:g}", "start", 12))
        shapes.append(Curve([(8, y), (392, y)], width=1.0))
        shapes += [Curve([(8 + 384 * v / most, y - 16), (8 + 384 * v / most, y)], "compute", 1.1) for v in seen]
        told.append(f"{name.upper()} has {len(seen)}, the largest {seen[-1]:g}")
    low = 44 + 56.0 * (len(names) - 1)
    shapes += [
        Words(8 + 384 * v / most, low + 14, f"{v:g}", "start" if v == 0 else "end" if v == most else "middle", 12)
        for v in (0, most / 4, most / 2, 3 * most / 4, most)
    ]
    return Scene(shapes, f"Numbers from 0 to {most:g} as strokes. {'; '.join(told)}.")


# Sixteen numbers of a block, in standard deviations of their tensor: small ones, as in most blocks.
_BLOCK = (0.31, -0.72, 0.11, 0.94, -0.25, 0.58, -1.13, 0.07, 0.66, -0.41, 0.17, -0.86, 1.02, -0.09, 0.48, -0.55)


def block_and_factor(tensor: float = 5.0) -> Scene:
    """The same sixteen numbers in E2M1: with the factor that fits the largest number of the tensor, and with one of their own."""
    if not tensor >= max(map(abs, _BLOCK)):
        raise InputError(f"block_and_factor: tensor = {tensor:g} is below the block's own largest number, 1.13")
    grid = GRIDS["e2m1"]
    rows = (
        ("sixteen numbers as they are", None),
        ("one factor for the tensor", scale_of(tensor, "e2m1", "exact")),
        ("a factor for this block", scale_of(max(map(abs, _BLOCK)), "e2m1", "exact")),
    )
    side, high = 384 / len(_BLOCK), 26.0
    shapes: list[Shape] = []
    told = []
    for i, (text, scale) in enumerate(rows):
        y = 62 + 104.0 * i
        values = _BLOCK if scale is None else tuple(scale * grid.rounded(v / scale) for v in _BLOCK)
        lost = sum(1 for v in values if v == 0)
        noise = sum((a - b) ** 2 for a, b in zip(values, _BLOCK, strict=True))
        power = sum(v * v for v in _BLOCK)
        shapes.append(Words(8, y - 48, text, "start", 12))
        if scale is not None:
            shapes.append(Words(392, y - 48, f"{lost} become 0; {decibels(power / noise):.0f} dB", "end", 12))
            told.append(f"with {text} {lost} of them become zero")
        shapes.append(Curve([(8, y), (392, y)], width=1.0))
        for j, v in enumerate(values):
            tall = high * abs(v) / 1.13
            if tall:
                top = y - tall if v > 0 else y
                shapes.append(
                    Box(
                        8 + j * side, top, side - 5, tall, kind="plain" if scale is None else "memory", full=bool(scale)
                    )
                )
    return Scene(shapes, f"Sixteen numbers as bars, then as E2M1 keeps them: {'; '.join(told)}.")


def cast_in_passes(name: str = "fp8-tensorwise") -> Frames:
    """A cast, pass by pass: what is read and written to bring a tensor into a narrow format, as it lies and transposed."""
    if name not in SCALINGS:
        raise InputError(f"cast_in_passes: {name!r} is no recipe; choose from {', '.join(SCALINGS)}")
    s = SCALINGS[name]
    steps = [("the largest number is sought", 2.0, 0.0, 0)] if s.readings == 2 else []
    steps += [
        ("numbers are read and rounded", 2.0, s.stored_bytes, 1),
        ("and written transposed as well", 0.0, s.stored_bytes, 2),
    ]
    scenes, says, done = [], [], 0.0
    for i, (text, read, written, places) in enumerate(steps, start=1):
        done += read + written
        shapes: list[Shape] = [
            Words(8, 14, text, "start", 13),
            Box(8, 34, 96, 62, "16 bits", "memory", size=12),
            Box(160, 34, 80, 62, "device", "compute", rounded=True, size=12),
            Box(296, 28, 96, 34, "narrow", "memory", dashed=places < 1, full=places == 1, size=12),
            Box(296, 70, 96, 34, "transposed", "memory", dashed=places < 2, full=places == 2, size=12),
        ]
        if read:
            shapes.append(Arrow([(106, 65), (158, 65)], f"{read:g} B", "memory", 3.0, beside=(0, -14)))
        if written:
            goal, below = (45, -12) if places == 1 else (87, 14)
            said = f"{s.stored_bytes:.3g} B"
            shapes.append(Arrow([(242, 65), (294, goal)], said, "memory", 1.5 * s.stored_bytes, beside=(0, below)))
        shapes.append(Words(8, 122, f"moved so far: {done:.4g} B for each number", "start", 12))
        scenes.append(Scene(shapes, f"Pass {i} of a cast: {text}; {done:.4g} bytes per number so far."))
        says.append(
            f"Pass {i}: {text}. So far {done:.4g} bytes have been moved for each number."
            if i > 1
            else f"Pass 1: {text}. Each number is two bytes wide, so {done:.4g} bytes have been moved for it."
        )
    return Frames(scenes, says, "A cast in passes")


def step_in_low_precision(linear: float = 0.8, casts: float = 0.08) -> Scene:
    """A step with its products in 16, 8 and 4 bits: the products shrink, what stays does not, and casts are new."""
    if not (0 < linear < 1 and 0 <= casts <= 0.5):
        raise InputError(
            f"step_in_low_precision: linear = {linear:g} must lie in (0, 1) and casts = {casts:g} in [0, 0.5]"
        )
    rows = (("16 bits", 1.0, 0.0), ("8 bits, twice the rate", 2.0, casts), ("4 bits, four times the rate", 4.0, casts))
    shapes: list[Shape] = [Words(8, 14, "blue: products; orange: casts; grey: all the rest", "start", 12)]
    told = []
    for i, (text, rate, cost) in enumerate(rows):
        y = 42 + 62.0 * i
        parts = [
            Piece("products", linear / rate, "compute"),
            Piece("", cost, "network"),
            Piece("rest", 1 - linear, "waiting"),
        ]
        total = sum(p.value for p in parts)
        shapes.append(Words(8, y, text, "start", 12))
        shapes.append(Words(392, y, f"{1 / total:.2g} times as fast" if i else "", "end", 12))
        shapes += bar(8, y + 12, 384, 24, [p for p in parts if p.value], max(1.0, total), size=12)
        if i:
            told.append(f"in {text} it is {1 / total:.2g} times as fast")
    return Scene(shapes, f"A step whose products take {linear:.0%} of its time in 16 bits: {'; '.join(told)}.")
