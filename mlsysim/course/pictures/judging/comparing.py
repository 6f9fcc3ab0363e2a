"""Beside a measurement: what its digits say, errors that cancel, a peak that is too high, and what is lost on the way to a time."""

from collections.abc import Sequence

from mlsysim import units
from mlsysim.drawing.scenes import Arrow, Box, Piece, Scene, Shape, Stretch, Words, bar, text_width, tracks
from mlsysim.errors import InputError
from mlsysim.evidence.scoring import comparing
from mlsysim.hlo import losses
from mlsysim.hlo.chakra.steps import MICRO, whole_micros


def printed_time(value: float, last_digit: float, predictions: Sequence[tuple[str, float]]) -> Scene:
    """A printed time as the range that it stands for, and predictions beside it."""
    share = float(comparing.rounding_share(value, last_digit))
    if not 1 <= len(predictions) <= 3 or min(t for _, t in predictions) <= 0:
        raise InputError(f"printed_time: {len(predictions)} predictions; give 1 to 3, in seconds above 0")
    low, high = value * (1 - share), value * (1 + share)
    most = 1.12 * max(high, *(t for _, t in predictions))
    scale = 384 / most
    shapes: list[Shape] = [
        Box(8 + low * scale, 44, (high - low) * scale, 60, kind="waiting"),
        Arrow([(8, 104), (392, 104)], width=1.5),
        Words(8 + value * scale, 14, f"printed {value:g} s", bold=True),
        Words(8 + value * scale, 32, f"{units.format(low, 's', 2)} to {units.format(high, 's', 2)}", size=12),
        Arrow([(8 + value * scale, 44), (8 + value * scale, 104)], width=2.5, head=False),
    ]
    for i, (name, t) in enumerate(predictions):
        x = 8 + t * scale
        text = f"{name}\n{units.format(t, 's', 3)}"
        half = text_width(max(text.split("\n"), key=len), 12) / 2
        shapes += [
            Arrow([(x, 128), (x, 106)], kind="compute" if i == 0 else "other", width=2.5),
            Words(min(max(x, half + 2), 398 - half), 146, text, size=12),
        ]
    said = ", ".join(f"{n.replace(chr(10), ' ')} {units.format(t, 's', 3)}" for n, t in predictions)
    return Scene(
        shapes,
        f"A line of time from 0. The printed {value:g} s stands for {units.format(low, 's', 2)} to {units.format(high, 's', 2)}; predictions: {said}.",
    )


def errors_that_cancel(old: float, new: float, old_error: float, new_error: float) -> Scene:
    """Measured and predicted times on two machines, and the speed-ups that they give."""
    if min(old, new) <= 0 or min(old_error, new_error) <= -1:
        raise InputError("errors_that_cancel: give times above 0 and errors above -1")
    wrong = float(comparing.speedup_error(old_error, new_error))
    right = float(comparing.speedup(old, new))
    rows = [
        ("old, measured", old, "waiting"),
        ("new, measured", new, "waiting"),
        ("old, predicted", old * (1 + old_error), "compute"),
        ("new, predicted", new * (1 + new_error), "compute"),
    ]
    scale = 160 / max(t for _, t, _ in rows)
    shapes: list[Shape] = []
    for i, (name, t, kind) in enumerate(rows):
        y = 12 + 36.0 * i + (14 if i > 1 else 0)
        shapes += [
            Words(110, y + 12, name, "end", 12),
            Box(116, y, t * scale, 24, kind=kind),
            Words(122 + t * scale, y + 12, units.format(t, "s", 2), "start", 12),
        ]
    shapes += [
        Words(352, 40, f"{right:.2f}\ntimes", bold=True),
        Words(352, 126, f"{right * (1 + wrong):.2f}\ntimes", "middle", 13, "compute", True),
    ]
    text = f"errors {units.percent(old_error, 0)} and {units.percent(new_error, 0)}; of the speed-up {units.percent(wrong, 0)}"
    shapes.append(Words(200, 186, text, size=12))
    return Scene(
        shapes,
        f"Bars of time on an old and a new machine, measured and predicted: {text}.",
    )


def peak_too_high(share: float, factor: float) -> Scene:
    """A step of which arithmetic bounds a share, and the same step with a peak that is too high by a factor."""
    if not 0 < share < 1 or not factor > 1:
        raise InputError(
            f"peak_too_high: share = {share:g}, factor = {factor:g}; give a share in (0, 1), a factor above 1"
        )
    left = float(comparing.wrong_peak_time(share, factor))
    shapes: list[Shape] = [Words(8, 12, "with the right peak", "start", 12)]
    shapes += bar(
        8, 24, 384, 34, [Piece("bound by memory", 1 - share, "memory"), Piece("arithmetic", share, "compute")], size=12
    )
    shapes.append(Words(8, 80, f"with {factor:g} times the peak", "start", 12))
    shapes += bar(
        8,
        92,
        384,
        34,
        [Piece("bound by memory", 1 - share, "memory"), Piece("", share / factor, "compute")],
        1.0,
        size=12,
    )
    shapes.append(
        Words(
            200,
            146,
            f"{share:.0%} of the step shrinks; at least {left:.0%} of its time is left".replace("%", " %"),
            size=12,
        )
    )
    return Scene(
        shapes,
        f"Two bars: of a step, arithmetic bounds {share:.0%}. With {factor:g} times the peak only that part shrinks, and {left:.0%} of the time remain.",
    )  # fmt: skip


def two_scales(rows: Sequence[tuple[str, float, float, float]]) -> Scene:
    """Steps of systems of different sizes: computing, communication behind it, and what of it shows.

    Parameters
    ----------
    rows : sequence of (name, float, float, float)
        Name; seconds of computing, of all communication, and of the part that shows.
    """
    if not 2 <= len(rows) <= 3 or any(min(a, b, c) < 0 or c > b * (1 + 1e-9) for _, a, b, c in rows):
        raise InputError("two_scales: give 2 or 3 systems, no time below 0, and no more exposed than there is")
    end = max(compute + shows for _, compute, _, shows in rows)
    shapes: list[Shape] = []
    said = []
    for i, (name, compute, comm, shows) in enumerate(rows):
        top = 12 + 104.0 * i
        hidden = comm - shows
        scale = 326 / end
        shapes.append(Words(70, top, f"{name}: {units.format(compute + shows, 's', 3)}", "start", bold=True))
        lanes = [
            ("compute", [Stretch(0.0, compute, units.format(compute, "s", 3), "compute")]),
            (
                "network",
                [
                    Stretch(compute - hidden, compute, "hidden", "network"),
                    Stretch(compute, compute + shows, "shows" if shows * scale > 40 else "", "network", True),
                ],
            ),
        ]
        shapes += tracks(0, top + 12, 396, lanes, until=end, height=28, names=70)
        said.append(
            f"{name} computes {units.format(compute, 's', 3)}, communicates {units.format(comm, 's', 3)}, of which {units.format(shows, 's', 3)} show"
            if shows > 1e-9
            else f"{name} computes {units.format(compute, 's', 3)} and hides {units.format(comm, 's', 3)} of communication behind it"
        )
    return Scene(shapes, "Steps in time: " + "; ".join(said) + ".")


def lost_on_the_way() -> Scene:
    """The representations between a model and a time, and what does not come along to the next."""
    chain = [
        ("model code", "plain"),
        ("StableHLO", "compute"),
        ("optimised program", "compute"),
        ("regions", "compute"),
        ("trace", "other"),
        ("simulated step", "network"),
    ]
    lost = [
        "how arrays are shared out,\nunless another dialect says it",
        "layouts, the order in time,\nasynchronous collectives",
        "every optimisation\nacross a cut",
        "shapes, loops, fractions\nof a microsecond",
        "more than one thing at a time\non a stream",
    ]
    shapes: list[Shape] = []
    for i, (name, kind) in enumerate(chain):
        y = 8 + 64.0 * i
        shapes.append(Box(8, y, 140, 32, name, kind, True))
        if i < len(lost):
            shapes.append(Arrow([(78, y + 32), (78, y + 64)], width=2))
            shapes.append(Arrow([(82, y + 48), (168, y + 48)], kind="waiting", width=1.5, dashed=True))
            shapes.append(Words(176, y + 48, lost[i], "start", 12))
    return Scene(
        shapes,
        "From model code over StableHLO, the optimised program, regions and a trace to a simulated step; at each arrow something stays behind: "
        + "; ".join(t.replace("\n", " ") for t in lost)
        + ".",
    )


def carried_rounding(durations: Sequence[float] = (0.4, 0.4, 0.4, 0.4, 1.4)) -> Scene:
    """Regions in microseconds, each rounded by itself, and with what was cut handed on to the next."""
    if not 2 <= len(durations) <= 8 or min(durations) <= 0 or sum(durations) > 12:
        raise InputError("carried_rounding: give 2 to 8 durations in µs, above 0, 12 in all")
    seconds = [d * MICRO for d in durations]
    ways = [
        ("exact", list(durations)),
        ("nearest", [float(v) for v in whole_micros(seconds, "nearest")]),
        ("carried", [float(v) for v in whole_micros(seconds, "carried")]),
    ]
    end = max(sum(v) for _, v in ways) + 0.3
    scale = 320 / end
    shapes: list[Shape] = []
    for tick in range(int(end) + 1):
        x = 72 + tick * scale
        shapes += [
            Arrow([(x, 8), (x, 124)], kind="waiting", width=1, head=False, dashed=True),
            Words(x, 136, f"{tick} µs" if tick else "0", size=12),
        ]
    kinds = ("compute", "memory", "network", "other", "extra")
    for i, (name, values) in enumerate(ways):
        y, now = 12 + 38.0 * i, 0.0
        shapes.append(Words(64, y + 14, name, "end", 13))
        for j, v in enumerate(values):
            if v:
                shapes.append(Box(72 + now * scale, y, v * scale, 28, f"{j + 1}", kinds[j % 5], size=12))
                now += v
    said = "; ".join(f"{name} {sum(v):g} µs" for name, v in ways)
    return Scene(shapes, f"{len(durations)} regions one after another: {said}. Rounded by itself, a short region vanishes; carried, the sum stays right.", tall=146)  # fmt: skip


def median_says(count: int = 20, median: float = 2.1) -> Scene:
    """Times in order, of which only the median is known: the upper half is at least that, the lower half may be anything."""
    if not 4 <= count <= 30 or count % 2 or not median > 0:
        raise InputError(f"median_says: {count} times with a median of {median:g}; give an even number of 4 to 30")
    wide = 384 / count
    shapes: list[Shape] = []
    for i in range(count):
        known = i >= count // 2
        x = 8 + i * wide
        shapes.append(Box(x, 40, wide - 3, 80, kind="compute" if known else "waiting", full=known, dashed=not known))
    least = float(losses.campaign_least(count, median))
    shapes += [
        Arrow([(4, 40), (396, 40)], width=1.2, head=False, dashed=True),
        Words(12, 24, f"median: {median:g} h", "start", 12),
        Words(104, 140, "may be anything below", size=12),
        Words(296, 140, f"each at least {median:g} h", size=12),
        Words(296, 160, f"so {least:g} h at least", size=13, bold=True),
    ]
    return Scene(shapes, f"{count} times in order. The lower half may be anything below the median of {median:g} h, the upper half is at least that, so all take at least {least:g} h.")  # fmt: skip


def in_and_out(ranks: int = 4) -> Scene:
    """What goes in and what comes out of collectives on one rank: equal for an all-reduce, not for its halves."""
    if not 2 <= ranks <= 8:
        raise InputError(f"in_and_out: {ranks} ranks; a drawing shows 2 to 8")
    side = 150 / ranks
    shapes: list[Shape] = [Words(90, 12, "goes in", bold=True), Words(310, 12, "comes out", bold=True)]
    rows = [("all-gather", 1, ranks), ("reduce-scatter", ranks, 1), ("all-reduce", ranks, ranks)]
    for i, (name, goes, comes) in enumerate(rows):
        y = 28 + 62.0 * i
        for x, n in ((15.0, goes), (235.0, comes)):
            for j in range(n):
                shapes.append(Box(x + j * side, y + 18, side - 3, 26, kind="memory"))
        shapes.append(Arrow([(178, y + 31), (226, y + 31)], "", "network", 4))
        shapes.append(Words(15, y + 6, name, "start", 12))
        shapes.append(Words(235, y + 6, f"{comes / goes:g} times" if goes != comes else "the same", "start", 12))
    return Scene(
        shapes,
        f"One of {ranks} ranks: an all-gather takes one shard in and gives {ranks} out, a reduce-scatter takes {ranks} and gives one, an all-reduce gives as much as it takes.",
        tall=220,
    )
