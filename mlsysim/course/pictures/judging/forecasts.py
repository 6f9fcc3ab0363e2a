"""How wrong, and which design then: half and twice, one vote a source, a source left out, ranges, halving, a winner's luck."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

from mlsysim import evidence
from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Curve, Frames, Scene, Shape, Words
from mlsysim.efficiencies import pooled_share
from mlsysim.errors import InputError


def half_and_twice(measured: float = 10.0) -> Scene:
    """Predictions of half and of twice a measurement: lopsided as per cent, equal as factors."""
    if not measured > 0:
        raise InputError(f"half_and_twice: measured = {measured:g}; give a time above 0")
    places = {measured / 2: 60.0, measured: 200.0, 2 * measured: 340.0}
    shapes: list[Shape] = [Arrow([(10, 84), (392, 84)], width=1)]
    for value, x in places.items():
        shapes.append(Box(x - 4, 80, 8, 8, kind="compute" if value == measured else "network", full=True))
        shapes.append(Words(x, 100, f"{value:g} s", size=12, bold=value == measured))
    shapes.append(Words(200, 118, "measured", size=12, kind="compute"))
    for value, x in places.items():
        if value != measured:
            error = evidence.signed_error(value, measured)
            shapes += [
                Arrow([(200, 62), (200, 44), (x, 44), (x, 74)], kind="network"),
                Words((200 + x) / 2, 30, f"{error:+.0%}".replace("-", "−"), size=13, kind="network", bold=True),
                Words(x, 118, f"off by x{evidence.error_factor(value, measured):g}", size=12, kind="network"),
            ]
    shapes.append(Words(8, 10, "predicted, on a scale of factors", "start", 12))
    return Scene(
        shapes,
        f"A line with {measured:g} s in the middle and predictions of half and twice at equal distance: -50 and +100 per cent, and a factor of two each.",
    )


def one_vote(rows: Mapping[str, int]) -> Scene:
    """Rows of each source, to scale, and its vote: the same for all."""
    if not 2 <= len(rows) <= 6 or min(rows.values()) < 1:
        raise InputError(f"one_vote: {len(rows)} sources; give 2 to 6, each with a row at least")
    most = max(rows.values())
    shapes: list[Shape] = [
        Words(96, 12, "rows", "start", 12, bold=True),
        Words(310, 12, "votes", "start", 12, bold=True),
    ]
    for i, (name, n) in enumerate(rows.items()):
        y = 24 + 26 * i
        wide = 160 * n / most
        shapes += [
            Words(88, y + 9, name, "end", 12),
            Box(96, y, wide, 18, kind="waiting"),
            Words(102 + wide, y + 9, str(n), "start", 12),
            Box(310, y, 70, 18, "1", "compute", size=12),
        ]
    return Scene(
        shapes,
        "Two bars for each source: its rows, "
        + ", ".join(f"{k} {n}" for k, n in rows.items())
        + ", and one vote each.",
    )


def leave_one_source_out(rows: Sequence[int] = (6, 3, 1, 4, 2)) -> Frames:
    """A fit without one source after another, which is then scored with constants that have not seen it."""
    if not 3 <= len(rows) <= 6 or not all(1 <= n <= 8 for n in rows):
        raise InputError(f"leave_one_source_out: rows = {list(rows)}; draw 3 to 6 sources of 1 to 8 rows")
    side = 380 / len(rows)
    base = 18.0 * max(rows) + 24

    def scene(out: int | None, alt: str) -> Scene:
        shapes: list[Shape] = []
        for i, n in enumerate(rows):
            kind = "compute" if out is not None and i != out else "network"
            for k in range(n):
                shapes.append(Box(16 + i * side, base - 18 * (k + 1), side - 22, 16, kind=kind, full=kind == "network"))
            shapes.append(Words(16 + i * side + (side - 22) / 2, base + 10, f"source {i + 1}", size=12))
            text = ("scored" if kind == "network" else "fit") if out is not None else "scored"
            shapes.append(Words(16 + i * side + (side - 22) / 2, base + 26, text, size=12, kind=kind, bold=True))
        return Scene(shapes, alt)

    scenes, says = [], []
    for out in range(len(rows)):
        scenes.append(
            scene(out, f"Columns of rows; source {out + 1} is scored, the constants are fitted to all others.")
        )
        says.append(
            f"Fit the constants to all sources but source {out + 1}, then score its rows with them."
            if out == 0
            else f"Put it back, take source {out + 1} out, fit again, score it."
        )
    scenes.append(scene(None, "All columns are scored, each by constants that have not seen it."))
    says.append(
        "Now each source has been scored by constants that have not seen it. The mean over sources is the score."
    )
    return Frames(scenes, says, "Leaving one source out after another")


def honesty_ladder(classes: Mapping[str, Sequence[tuple[str, float]]]) -> Scene:
    """Errors of the same predictions, to scale, by what the constants had seen: each bar knows less than the one above."""
    if not 1 <= len(classes) <= 3:
        raise InputError(f"honesty_ladder: {len(classes)} classes; draw one to three")
    kinds = ("compute", "memory", "extra", "network")
    most = max(v for bars in classes.values() for _, v in bars)
    shapes: list[Shape] = []
    y = 4.0
    for name, bars in classes.items():
        shapes.append(Words(8, y + 10, name, "start", bold=True))
        y += 24
        for i, (text, value) in enumerate(bars):
            wide = 200 * value / most
            shapes += [
                Box(150, y, wide, 16, kind=kinds[i % 4], full=True),
                Words(142, y + 8, text, "end", 12),
                Words(156 + wide, y + 8, f"{value:.0%}", "start", 12, bold=True),
            ]
            y += 21
        y += 8
    return Scene(
        shapes,
        "; ".join(f"{name}: " + ", ".join(f"{t} {v:.0%}" for t, v in bars) for name, bars in classes.items()) + ".",
    )


def pooled_on_a_line(own: float, family: float, strength: float, counts: Sequence[int] = (0, 1, 3, 10)) -> Scene:
    """Where a generation's share of the peak ends up between its family's and its own, by how many sources it has."""
    if not 0 < family < own <= 1 or not strength > 0 or not 1 <= len(counts) <= 5:
        raise InputError(
            f"pooled_on_a_line: own = {own:g}, family = {family:g}, strength = {strength:g}; give family < own"
        )

    def at(share: float) -> float:
        return 50 + 300 * (share - family) / (own - family)

    shapes: list[Shape] = [
        Curve([(at(family), 38), (at(family), 92)], "waiting", 1.5, True),
        Curve([(at(own), 38), (at(own), 92)], "memory", 1.5, True),
        Words(at(family), 18, f"family\n{family:.2f}", size=12),
        Words(at(own), 18, f"its sources\n{own:.2f}", size=12, kind="memory"),
        Arrow([(30, 72), (390, 72)], width=1),
    ]
    for n in counts:
        x = at(float(pooled_share(own, family, n, strength)))
        shapes.append(Box(x - 5, 67, 10, 10, kind="compute", full=True))
        shapes.append(Words(x, 104, f"{n}", size=12, kind="compute", bold=True))
    shapes.append(Words(200, 124, "sources of its own", size=12, kind="compute"))
    return Scene(
        shapes,
        f"A line from the family's {family:.2f} to the own {own:.2f}; dots move from the first to the second as sources grow: "
        + ", ".join(f"{n} sources {float(pooled_share(own, family, n, strength)):.2f}" for n in counts)
        + ".",
    )


def gaps_between(errors: int = 4) -> Scene:
    """Past errors on a line, and the gaps between them, each as likely as any other for the next."""
    if not 2 <= errors <= 6:
        raise InputError(f"gaps_between: errors = {errors}; draw 2 to 6")
    shares = (0.2, 0.34, 0.58, 0.7, 0.84, 0.93)[:errors]
    xs = [10 + 380 * s / (shares[-1] + 0.16) for s in shares]
    shapes: list[Shape] = [Arrow([(8, 60), (392, 60)], width=1), Words(392, 78, "size of an error", "end", 12)]
    edges = [8.0, *xs, 392.0]
    for x in xs:
        shapes.append(Box(x - 4, 56, 8, 8, kind="compute", full=True))
    for a, b in pairwise(edges):
        shapes.append(Arrow([(a + 6, 40), (b - 6, 40)], kind="network", width=1, both=True))
        shapes.append(Words((a + b) / 2, 24, f"1/{errors + 1}", size=13, kind="network", bold=True))
    shapes.append(Words(8, 78, "blue: errors of the past", "start", 12, "compute"))
    shapes.append(
        Words(8, 96, f"the next one falls into each gap with probability 1/{errors + 1}", "start", 12, "network")
    )
    return Scene(
        shapes,
        f"{errors} past errors on a line leave {errors + 1} gaps; the next error is as likely to fall into any of them.",
    )


def sources_and_range(errors: Sequence[float], size: float, share: float = 0.8) -> Scene:
    """One row and one dot for each source, its error on a log scale, the range around them, and the source to come.

    Parameters
    ----------
    errors : sequence of float
        ln of predicted over measured, one for each source.
    size : float
        Of the errors at the ends of the range.
    """
    if len(errors) < 5 or not size > 0:
        raise InputError(
            f"sources_and_range: {len(errors)} sources, size = {size:g}; give five or more, and a size above 0"
        )
    far = max(size, *(abs(e) for e in errors)) * 1.05
    step = min(12.0, 190 / len(errors))

    def at(error: float) -> float:
        return 200 + 180 * error / far

    bottom = 34 + step * len(errors)
    shapes: list[Shape] = [
        Box(at(-size), 22, at(size) - at(-size), bottom - 30, kind="memory"),
        Curve([(200, 22), (200, bottom + 10)], "plain", 1, True),
        Words(200, 10, f"range, x{math.exp(-size):.2f} to x{math.exp(size):.2f}", size=12, kind="memory"),
    ]
    for i, error in enumerate(sorted(errors, key=abs)):
        inside = abs(error) <= size
        y = 30 + step * i
        shapes.append(Box(at(error) - 2.5, y - 2.5, 5, 5, kind="compute" if inside else "network", full=True))
    shapes += [
        Box(10, bottom - 5, 380, 12, kind="plain", dashed=True),
        Words(200, bottom + 22, "the source to come: somewhere on this line", size=12),
        Words(8, bottom + 40, "predicted too short", "start", 12),
        Words(392, bottom + 40, "predicted too long", "end", 12),
    ]
    out = sum(abs(e) > size for e in errors)
    return Scene(
        shapes,
        f"{len(errors)} sources, one dot each, ordered by the size of their error; a band around no error holds all but {out} of them; an empty row below stands for the next source.",
    )


def halving(low: float, high: float, answer: float, unit: str = "byte/s", steps: int = 5) -> Frames:
    """A search for an input: try the middle of the range, in ratio, and keep the half that holds the answer."""
    if not 0 < low < answer < high or not 2 <= steps <= 8:
        raise InputError(f"halving: low = {low:g}, answer = {answer:g}, high = {high:g}; give 0 < low < answer < high")
    first, last = low, high

    def at(value: float) -> float:
        return 20 + 360 * math.log(value / first) / math.log(last / first)

    scenes, says = [], []
    for i in range(steps):
        middle = math.sqrt(low * high)
        slow = middle < answer
        shapes: list[Shape] = [
            Box(20, 34, 360, 26, kind="waiting"),
            Box(at(low), 34, at(high) - at(low), 26, kind="compute"),
            Curve([(at(middle), 28), (at(middle), 66)], "network", 2.5),
            Words(
                min(max(at(middle), 50), 350),
                16,
                f"try {format_quantity(middle, unit)}",
                size=12,
                kind="network",
                bold=True,
            ),
            Words(20, 78, format_quantity(first, unit), "start", 12),
            Words(380, 78, format_quantity(last, unit), "end", 12),
        ]
        scenes.append(
            Scene(
                shapes,
                f"Range {format_quantity(low, unit)} to {format_quantity(high, unit)} of a bar; its middle is tried.",
                tall=92,
            )
        )
        says.append(
            f"{'The range' if i else 'Somewhere in here lies the answer. The range'} is {format_quantity(low, unit)} to {format_quantity(high, unit)}; "
            f"its middle, {format_quantity(middle, unit)}, is {'too little' if slow else 'more than enough'}, so the answer lies {'above' if slow else 'below'}."
        )
        low, high = (middle, high) if slow else (low, middle)
    return Frames(scenes, says, "A range that is halved until it is narrow enough")


def winners_luck(plans: int = 12, spread: float = 0.1, seed: int = 3) -> Scene:
    """Plans that all take the same time, their estimates with errors, and the one that looks best.

    Parameters
    ----------
    plans : int
        4 to 20.
    spread : float
        Standard deviation of an estimate's error, none of which is biased.
    seed : int
        Of the draws.
    """
    if not 4 <= plans <= 20 or not 0 < spread <= 0.3:
        raise InputError(
            f"winners_luck: plans = {plans}, spread = {spread:g}; draw 4 to 20 plans, a spread in (0, 0.3]"
        )
    rng = Random(seed)
    estimates = [1 + rng.gauss(0, spread) for _ in range(plans)]
    chosen = min(range(plans), key=estimates.__getitem__)
    side = 372 / plans

    def at(value: float) -> float:
        return 92 - 64 * (value - 1) / (2.6 * spread)

    shapes: list[Shape] = [Curve([(8, at(1)), (392, at(1))], "memory", 2)]
    for i, e in enumerate(estimates):
        x = 14 + (i + 0.5) * side
        best = i == chosen
        shapes.append(Box(x - 4, at(e) - 4, 8, 8, kind="network" if best else "compute", full=True))
        if best:
            shapes.append(Arrow([(x, at(e) - 6), (x, at(1) + 3)], kind="network"))
            anchor = "start" if x < 200 else "end"
            shapes.append(Words(x, at(e) + 18, f"chosen: looks {1 - e:.0%} faster", anchor, 12, "network", bold=True))
    shapes += [
        Words(8, 12, "green: what every plan takes; dots: what we estimate", "start", 12),
        Words(8, at(min(estimates)) + 40, f"{plans} plans, equally fast", "start", 12),
    ]
    return Scene(
        shapes,
        f"{plans} dots scattered around a level line, the true time of all; the lowest is chosen and will disappoint by {1 - estimates[chosen]:.0%}.",
    )
