"""Charts that chapters share, and the few words in which a view says what it shows; every number comes from a library function."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mlsysim import catalog, units
from mlsysim.catalog import Device
from mlsysim.course.readings import Reading, against, changed, written
from mlsysim.course.sliders import Control, LogSlider
from mlsysim.drawing import DASHES, PALETTE, Chart, Line, Marks, log_space
from mlsysim.drawing.small import Curves, Dot, Part, Row, Rows, Scatter, Stretch, Timeline, Trace
from mlsysim.drawing.style import ANSWER, COMPUTE, MEMORY, NETWORK, OTHER, PLAIN, WAITING
from mlsysim.roofline import attainable_flops, effective_bandwidth, ridge_point


def roofline_chart(
    roofs: Sequence[tuple[Device | str, str, float, float]],
    points: Sequence[tuple[str, float, float]] = (),
    title: str = "",
    intensities: tuple[float, float] = (0.3, 1e4),
) -> Chart:
    """A roofline plot.

    Parameters
    ----------
    roofs : sequence of (device, precision, efficiency, memory efficiency)
        One roof each; efficiencies below 1 give lower ceilings of the same device. Several of one device are named by their
        precisions alone.
    points : sequence of (text, intensity in FLOP/byte, achieved FLOP/s)
        Measured or predicted kernels.
    """
    lines = []
    alike = len(roofs) > 1 and len({catalog.device(name).name for name, *_ in roofs}) == 1
    for i, (name, precision, efficiency, memory_efficiency) in enumerate(roofs):
        device = catalog.device(name)
        bandwidth = effective_bandwidth(device.memory_bandwidth, memory_efficiency)
        corner = ridge_point(device.peak_flops[precision] * efficiency, bandwidth)
        xs = sorted({*log_space(*intensities), corner})
        ys = [attainable_flops(x, device.peak_flops[precision], bandwidth, efficiency) / units.TFLOP for x in xs]
        label = precision if alike else f"{device.name}, {precision}"
        if (efficiency, memory_efficiency) != (1.0, 1.0):
            label += f", {efficiency:g} of peak, {memory_efficiency:g} of bandwidth"
        lines.append(Line(xs, ys, label, PALETTE[i % len(PALETTE)], DASHES[i % len(DASHES)]))
    marks = []
    if points:
        texts, x, y = zip(*points, strict=True)
        marks.append(Marks(x, [v / units.TFLOP for v in y], "kernels", texts, PALETTE[1], "o"))
    return Chart("arithmetic intensity (FLOP/byte)", "attainable performance (TFLOP/s)", lines, marks, title)


__all__ = [
    "ANSWER",
    "COMPUTE",
    "MEMORY",
    "NETWORK",
    "OTHER",
    "WAITING",
    "bar",
    "bars",
    "bound",
    "corner",
    "curve",
    "dot",
    "lanes",
    "line",
    "part",
    "roofline_chart",
    "row",
    "scatter",
    "span",
    "tens",
    "trail",
]


class Shown(NamedTuple):
    """A value that a view draws: a line that a slider sweeps, a bound across it, or a corner along the axis."""

    label: str
    value: float | None
    color: str = PLAIN
    kind: str = "line"
    unit: str | None = None
    hidden: bool = False


Item = Shown | Sequence[Any] | str


def line(label: str, value: float | None, color: str = ANSWER) -> Shown:
    """A curve: its value here; the slider's sweep draws the rest."""
    return Shown(label, value, color)


def bound(label: str, value: float | None) -> Shown:
    """What cannot be passed, or what should be reached: dashed."""
    return Shown(label, value, PLAIN, "bound")


def corner(label: str, value: float | None, unit: str = "1") -> Shown:
    """A place on the slider's axis where something changes."""
    return Shown(label, value, PLAIN, "corner", unit)


def _told(items: Sequence[Item]) -> tuple[list[Any], str]:
    """The numbers and the sentence among what a view returns."""
    numbers = [i for i in items if not isinstance(i, (str, Shown))]
    return numbers, " ".join(i for i in items if isinstance(i, str))


def _beside(amounts: Sequence[tuple[str, float | None]]) -> str:
    """What the first of some amounts is against the second, by the names that the picture has for them."""
    known = [(label, v) for label, v in amounts if v is not None and math.isfinite(v)][:2]
    if len(known) < 2 or min(v for _, v in known) <= 0:
        return ""
    (a, x), (b, y) = known if known[0][1] >= known[1][1] else reversed(known)
    return f"“{a}” is {against(x, y)} “{b}”."


def _moved(
    slider: Control, name: str, xs: Sequence[float], at: float, by_label: Sequence[Mapping[str, float | None]]
) -> str:
    """What twice the value of the slider does, or half of it where there is no more, to the line that it changes most."""
    near = [x for x in xs if x >= 1.4 * at] or [x for x in xs if 0 < x <= at / 1.4]
    if at <= 0 or not near:
        return ""
    there = min(near, key=lambda x: abs(math.log(x / at) - math.copysign(math.log(2.0), x - at)))
    here, then = by_label[xs.index(at)], by_label[xs.index(there)]
    pairs = {label: (a, then.get(label)) for label, a in here.items()}
    known = {label: b / a for label, (a, b) in pairs.items() if a is not None and b is not None and a > 0 and b > 0}
    known = {label: ratio for label, ratio in known.items() if 0 < ratio < math.inf}
    if not known:
        return ""
    most = max(known, key=lambda label: abs(math.log(known[label])))
    return f"Move “{slider.words(name)}” from {slider.text(at)} to {slider.text(there)}, and “{most}” {changed(known[most])}."


def _finite(value: Any) -> bool:
    return value is not None and math.isfinite(value)


_ON_TICKS = ("s", "byte", "J", "W", "L")  # units that are short enough to stand at every value of an axis


def axis_text(unit: str) -> Callable[[float], str]:
    """How the values on an axis are written; a longer unit stands once, in the axis's name.

    >>> [axis_text(u)(v) for u, v in (("s", 0.002), ("%", 0.25), ("tokens", 8192), ("1", 2e6), ("FLOP/s", 1e15))]
    ['2 ms', '25 %', '8,192', '2 M', '1 P']
    """

    def text(value: float) -> str:
        if unit == "%":
            return f"{100 * value:{',.0f' if abs(value) >= 10 else '.3g'}} %".replace("-", "−")
        if unit in _ON_TICKS:
            return units.format(value, unit, 3)
        if abs(value) >= 1e18:
            return f"10{str(round(math.log10(abs(value)))).translate(_RAISED)}"
        for power, sign in ((1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
            if abs(value) >= max(power, 1e4) * (1 - 1e-9):
                return f"{value / power:.3g}{sign}".replace("-", "−")
        return f"{value:,.0f}".replace("-", "−") if abs(value) >= 1000 else f"{value:.3g}".replace("-", "−")

    return text


def axis_name(words: str, unit: str) -> str:
    """What an axis shows, and its unit where its values do not say it."""
    return words if unit in ("", "1", "%", *_ON_TICKS) or unit in words else f"{words} ({unit})"


def tens(value: float, unit: str) -> str:
    """A value far beyond the prefixes.

    >>> tens(3.19e23, "FLOP")
    '3.19 × 10²³ FLOP'
    """
    power = math.floor(math.log10(value))
    return f"{value / 10.0**power:.2f} × 10{str(power).translate(_RAISED)} {unit}"


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def curve(
    quantity: str, unit: str, points: int = 33, log: bool | None = None, **along: Control
) -> Callable[[Callable[..., Sequence[Item]]], Callable[..., Reading]]:
    """A view that is drawn over the range of one of its sliders: the view is asked again at points of that range.

    The view returns what holds at its sliders: :func:`line` and :func:`bound` (drawn), :func:`corner` (a place on the axis),
    ``(label, value, unit)`` (a number beside the picture) and a sentence. So a point on a curve is the number printed beside it.

    Parameters
    ----------
    quantity : str
        What the lines show, in words.
    unit : str
        The unit of all lines and bounds.
    points : int
        How many points of the range are asked for at most; fewer where the view takes long.
    log : bool, optional
        Whether the lines stand on a logarithmic axis; left out, whether they differ by more than a factor of 20.
    along : Slider or LogSlider
        The argument that is swept, and its slider, the same object that :func:`explore` gets.
    """
    ((name, slider),) = along.items()
    offered = slider.values()
    at_most = min(points, len(offered))
    grid = {offered[round(i * (len(offered) - 1) / max(at_most - 1, 1))] for i in range(at_most)}
    ends = axis_text(slider.unit or "1")
    logarithmic = isinstance(slider, LogSlider)
    if not logarithmic and offered[-1] > 20 * offered[0] > 0:  # a curve bends most near zero, between two even points
        grid.update(v for v in (offered[0] * 2**k for k in range(1, 9)) if v in offered and v < offered[-1] / 8)

    def decorate(view: Callable[..., Sequence[Item]]) -> Callable[..., Reading]:
        signature = inspect.signature(view)
        seen: dict[Any, Sequence[Item] | None] = {}

        def asked(values: dict[str, Any]) -> Sequence[Item] | None:
            """The view there, or nothing where it cannot be."""
            key = tuple(values.values())
            if key not in seen:
                if len(seen) > 4096:
                    seen.clear()
                try:
                    seen[key] = view(**values)
                except (ValueError, KeyError, ArithmeticError):
                    seen[key] = None
            return seen[key]

        @functools.wraps(view)
        def shown(*args: Any, **kwargs: Any) -> Reading:
            values = dict(signature.bind(*args, **kwargs).arguments)
            here = seen.get(tuple(values.values()))
            if here is None:  # not asked yet, or impossible: then this raises what the library says
                here = seen[tuple(values.values())] = view(**values)
            at = values[name]
            xs = sorted({*grid, at})
            sweep = [here if x == at else asked({**values, name: x}) for x in xs]
            by_label = [
                {i.label: i.value for i in items or () if isinstance(i, Shown) and i.kind != "corner"}
                for items in sweep
            ]
            drawn = [i for i in here if isinstance(i, Shown) and i.kind != "corner"]
            corners = [i for i in here if isinstance(i, Shown) and i.kind == "corner" and _finite(i.value)]
            traces = [Trace(i.label, [m.get(i.label) for m in by_label], i.color, i.kind == "bound") for i in drawn]
            picture = Curves(
                axis_name(quantity, unit),
                axis_name(slider.words(name), slider.unit),
                xs,
                traces,
                at,
                ends,
                axis_text(unit),
                x_log=logarithmic,
                y_log=log,
                corners=[(c.label, c.value) for c in corners if c.value is not None],
            )
            numbers, note = _told(here)
            own = [(i.label, i.value, i.unit or unit) for i in here if isinstance(i, Shown) and i.value is not None]
            told = [_beside([(i.label, i.value) for i in drawn]), _moved(slider, name, xs, at, by_label)]
            return Reading(picture, *own, *numbers, note=note, meaning=" ".join(filter(None, told)))

        return shown

    return decorate


def part(label: str, value: float, color: str) -> Part:
    """A piece of a bar."""
    return Part(label, value, color)


def bar(label: str, value: float, color: str = ANSWER) -> Row:
    """A bar of one piece."""
    return Row(label, (Part("", value, color),), "")


def row(label: str, *parts: Part) -> Row:
    """A bar of several pieces, from the left."""
    return Row(label, parts, "")


def bars(quantity: str, unit: str, *items: Item | Row, cascade: bool = False) -> Reading:
    """Amounts beside each other.

    Parameters
    ----------
    quantity, unit : str
        What is compared, and its unit.
    items : from bar, row, bound; (label, value, unit); str
        The bars with their numbers, lines that no bar should pass, further numbers, and a sentence.
    cascade : bool
        Each bar begins where the one before ends: parts of a whole.
    """
    rows = [i for i in items if isinstance(i, Row)]
    rest = [i for i in items if not isinstance(i, Row)]
    sums = [sum(p.value for p in r.parts) for r in rows]
    numbers, note = _told(rest)
    limits = [(i.label, i.value) for i in rest if isinstance(i, Shown) and i.value is not None]
    picture = Rows(
        quantity,
        [Row(r.label, r.parts, written(s, unit)) for r, s in zip(rows, sums, strict=True)],
        [(label, value) for label, value in limits if _finite(value)],
        cascade=cascade,
    )
    amounts = [(r.label, s, unit) for r, s in zip(rows, sums, strict=True)]
    several = [(r.label, s) for r, s in zip(rows, sums, strict=True) if s > 0]
    if cascade and several:
        most = max(several, key=lambda one: one[1])
        said = f"“{most[0]}” is the largest part, {most[1] / sum(s for _, s in several):.0%} of all.".replace("%", " %")
    else:
        said = _beside([*several, *limits])
    return Reading(
        picture, *amounts, *((label, value, unit) for label, value in limits), *numbers, note=note, meaning=said
    )


def span(lane: str, start: float, end: float, color: str, text: str = "") -> Stretch:
    """From when to when something runs in a lane."""
    return Stretch(lane, start, end, color, text)


def lanes(quantity: str, unit: str, *items: Item | Stretch) -> Reading:
    """What runs when; ``items`` from :func:`span`, ``(label, value, unit)`` and a sentence."""
    numbers, note = _told([i for i in items if not isinstance(i, Stretch)])
    picture = Timeline(quantity, [i for i in items if isinstance(i, Stretch)], axis_text(unit))
    said = _beside([(label, value) for label, value, of, *_ in numbers if of == unit])
    return Reading(picture, *numbers, note=note, meaning=said)


def dot(label: str, x: float, y: float, color: str = ANSWER) -> Dot:
    """A point with its name."""
    return Dot(label, x, y, color)


class Trail(NamedTuple):
    """A line through points that are given, not swept."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    color: str


def trail(label: str, x: Sequence[float], y: Sequence[float], color: str = PLAIN) -> Trail:
    """A line through points: a roof, a front."""
    return Trail(label, x, y, color)


def scatter(
    y: tuple[str, str], x: tuple[str, str], *items: Item | Dot | Trail, x_log: bool = False, y_log: bool = False
) -> Reading:
    """Points and lines on two axes, each with a name and a unit; ``items`` from :func:`dot`, :func:`trail`, numbers, a sentence."""
    numbers, note = _told([i for i in items if not isinstance(i, (Dot, Trail))])
    picture = Scatter(
        axis_name(*y),
        axis_name(*x),
        [i for i in items if isinstance(i, Dot)],
        axis_text(x[1]),
        axis_text(y[1]),
        [(i.label, i.x, i.y, i.color) for i in items if isinstance(i, Trail)],
        x_log=x_log,
        y_log=y_log,
    )
    return Reading(picture, *numbers, note=note)
