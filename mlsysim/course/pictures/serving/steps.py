"""One step of a server: whose tokens which kernel sees, what two steps share, and what a test of such a model asks."""

from collections.abc import Sequence
from dataclasses import replace

from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Curve, Piece, Scene, Shape, Words, bar
from mlsysim.errors import InputError
from mlsysim.inference import Deployment
from mlsysim.serving_steps import BASELINE, TIER_0, Batch, StepModel, chunk_pairs, granularity_ratio, step_model

_TERMS = (
    ("products", "compute", ("projections", "mlp", "experts", "head")),
    ("attention", "memory", ("prefill_attention", "decode_attention")),
    ("other", "waiting", ("elementwise", "messages", "overhead")),
)


def rows_of_a_step(input_len: int = 500, answers: int = 32) -> Scene:
    """A layer of a step: products see the rows of prompt and answers as one, attention sees each alone."""
    if not 1 <= answers <= 999 or not 1 <= input_len <= 9999:
        raise InputError(
            f"rows_of_a_step: input_len = {input_len}, answers = {answers}; a drawing shows up to 9999 and 999"
        )
    shapes: list[Shape] = []

    def rows(y: float) -> None:
        shapes.append(Box(60, y, 200, 26, f"{input_len} rows of the prompt", "compute", size=12))
        shapes.append(Box(260, y, 110, 26, f"{answers} of answers", "memory", size=12))

    def product(y: float, text: str) -> None:
        shapes.append(Box(60, y, 310, 30, text, "other", rounded=True, size=12))

    def down(*xs: float, y: float) -> None:
        shapes.extend(Arrow([(x, y), (x, y + 16)], width=1.2) for x in xs)

    rows(8)
    down(215, y=35)
    product(52, "queries, keys, values: one product")
    down(160, 315, y=83)
    shapes += [
        Box(60, 100, 190, 42, "attention of the prompt\nto itself", "compute", rounded=True, size=12),
        Box(260, 100, 110, 42, "attention of\neach answer", "memory", rounded=True, size=12),
    ]
    down(160, 315, y=143)
    product(160, "output product, then the MLP's products")
    down(215, y=191)
    rows(208)
    shapes += [
        Arrow([(44, 236), (24, 236), (24, 20), (54, 20)], width=1.2),
        Words(60, 252, "and so on through every layer", "start", 12),
    ]
    return Scene(
        shapes,
        f"One layer of a step. {input_len} rows of a prompt and {answers} rows of answers go through one product for queries, keys and "
        "values, part for attention, one kernel for the prompt and one for the answers, and meet again in the products that follow.",
    )


def steps_side_by_side(model: StepModel, steps: Sequence[tuple[str, Batch]]) -> Scene:
    """Steps as bars to scale: products, attention, all else; what two steps share is what the step of both saves."""
    if not 2 <= len(steps) <= 4:
        raise InputError(f"steps_side_by_side: {len(steps)} steps; a drawing shows 2 to 4")
    found = [(name, model.terms(batch)) for name, batch in steps]
    longest = max(float(t.time) for _, t in found)
    shapes: list[Shape] = [Words(12, 14, "blue: products; green: attention; grey: all else", "start", 12)]
    for i, (name, t) in enumerate(found):
        y = 30 + 52.0 * i
        shapes.append(Words(12, y + 8, f"{name}: {format_quantity(float(t.time), 's')}", "start", 12))
        pieces = [Piece("", sum(float(getattr(t, n)) for n in names), kind) for _, kind, names in _TERMS]
        shapes += bar(12, y + 18, 376 * float(t.time) / longest, 22, pieces)
    times = ", ".join(f"{name} {format_quantity(float(t.time), 's')}" for name, t in found)
    return Scene(shapes, f"Steps as bars to scale, products, attention and all else: {times}.")


def pairs_of_a_chunk(new: int = 4, cached_len: int = 6) -> Scene:
    """Queries of a chunk against keys: a rectangle for what is cached, a triangle for the chunk itself."""
    if not (2 <= new <= 6 and 1 <= cached_len <= 9):
        raise InputError(f"pairs_of_a_chunk: new = {new}, cached_len = {cached_len}; a drawing shows 2 to 6 and 1 to 9")
    side = min(26.0, 290 / (new + cached_len))
    left, top = 92.0, 34.0
    shapes: list[Shape] = [
        Words(left + cached_len * side / 2, 16, f"{cached_len} cached keys", size=12, kind="memory"),
        Words(left + (cached_len + new / 2) * side, 16, f"{new} new", size=12, kind="compute"),
        Words(8, top + new * side / 2, f"{new} queries", "start", 12),
    ]
    met = 0
    for q in range(new):
        for k in range(cached_len + new):
            seen = k <= cached_len + q
            met += seen
            shapes.append(
                Box(
                    left + k * side,
                    top + q * side,
                    side - 2,
                    side - 2,
                    kind="memory" if k < cached_len else "compute" if seen else "plain",
                    full=seen and k >= cached_len,
                    dashed=not seen,
                )
            )
    assert met == chunk_pairs(float(new), float(cached_len))
    low = top + new * side + 14
    shapes.append(
        Words(left, low, f"{new} x {cached_len} + {new} x {new + 1} / 2 = {met} pairs", "start", 13, bold=True)
    )
    return Scene(
        shapes,
        f"{new} queries of a chunk against {cached_len} cached keys, a full rectangle, and against the keys of the chunk itself, a triangle: {met} pairs.",
    )


def one_or_many_maxima(first: tuple[float, float] = (5.0, 2.0), second: tuple[float, float] = (1.0, 4.0)) -> Scene:
    """Two kernels, each with its arithmetic and its traffic: one after the other, or as if all could hide behind all."""
    (ca, ma), (cb, mb) = first, second
    if min(*first, *second) <= 0:
        raise InputError(f"one_or_many_maxima: {first} and {second}; give times above 0")
    apart, common = max(first) + max(second), max(ca + cb, ma + mb)
    scale = 300 / apart
    at = 92 + max(first) * scale
    shapes: list[Shape] = [
        Words(8, 14, "one maximum for each kernel", "start", bold=True),
        Words(84, 42, "arithmetic", "end", 12),
        Words(84, 70, "traffic", "end", 12),
        Box(92, 30, ca * scale, 24, f"A: {ca:g}", "compute", size=12),
        Box(92, 58, ma * scale, 24, f"A: {ma:g}", "memory", size=12),
        Box(at, 30, cb * scale, 24, f"B: {cb:g}", "compute", size=12),
        Box(at, 58, mb * scale, 24, f"B: {mb:g}", "memory", size=12),
        Curve([(at, 24), (at, 88)], dashed=True, width=1),
        Words(92, 98, f"{max(first):g} + {max(second):g} = {apart:g}", "start", 12),
        Words(8, 128, "one maximum for the step", "start", bold=True),
        Words(84, 156, "arithmetic", "end", 12),
        Words(84, 184, "traffic", "end", 12),
        Box(92, 144, ca * scale, 24, "A", "compute", size=12),
        Box(92 + ca * scale, 144, cb * scale, 24, "B", "compute", size=12),
        Box(92, 172, ma * scale, 24, "A", "memory", size=12),
        Box(92 + ma * scale, 172, mb * scale, 24, "B", "memory", size=12),
        Words(92, 212, f"the longer of {ca + cb:g} and {ma + mb:g}: {common:g}", "start", 12),
    ]
    ratio = float(granularity_ratio(ca, ma, cb, mb))
    return Scene(
        shapes,
        f"Kernels A and B with arithmetic {ca:g} and {cb:g} and traffic {ma:g} and {mb:g}. One maximum each gives {apart:g}; one for both "
        f"gives {common:g}, as if A's arithmetic could hide B's traffic: {ratio:.3g} times apart.",
    )


_RUNGS = (
    ("bandwidth", "measured bandwidth"),
    ("projections", "one product for q, k, v"),
    ("granularity", "a maximum per kernel"),
    ("mixing", "sum of the parts"),
    ("lookup", "constants, no table"),
    ("overhead", "start of every kernel"),
)


def climb_of_a_step(deployment: Deployment, batch: Batch) -> Scene:
    """A ladder of corrections on one step: how long it is said to be after each rung, from the baseline to the top."""
    times = [("baseline", float(step_model(deployment, BASELINE).time(batch)))]
    rungs = BASELINE
    for rung, text in _RUNGS:
        rungs = replace(rungs, **{rung: getattr(TIER_0, rung)})
        times.append((text, float(step_model(deployment, rungs).time(batch))))
    most = max(t for _, t in times)
    shapes: list[Shape] = [Words(392, 14, "a step is said to take", "end", 12)]
    scale = 150 / most
    for i, (text, t) in enumerate(times):
        y = 30 + 28.0 * i
        before = times[i - 1][1] if i else t
        shapes.append(Words(162, y + 10, text, "end", 12))
        low, high = sorted((before, t))
        shapes.append(Box(170, y, low * scale, 20, kind="compute"))
        if high - low > 1e-9 * most:
            shapes.append(
                Box(
                    170 + low * scale,
                    y,
                    (high - low) * scale,
                    20,
                    kind="network" if t > before else "waiting",
                    full=t > before,
                    dashed=t < before,
                )
            )
        shapes.append(Words(392, y + 10, format_quantity(t, "s"), "end", 12))
    shapes.append(
        Words(12, 30 + 28.0 * len(times) + 8, "orange: what a rung adds; dashed: what it takes away", "start", 12)
    )
    return Scene(
        shapes,
        "A ladder of corrections, each rung a bar of the time that a step is said to take: "
        + ", ".join(f"{n} {format_quantity(t, 's')}" for n, t in times)
        + ".",
    )


def rule_to_verdict() -> Scene:
    """A hypothesis as it should be written: claim, experiment, rule first; then the number, and a verdict that nobody types."""
    shapes: list[Shape] = [
        Words(8, 14, "written down before", "start", 12),
        Box(8, 26, 118, 48, "claim\nand its reason", "other", rounded=True, size=12),
        Box(141, 26, 118, 48, "experiment\nand its data", "other", rounded=True, size=12),
        Box(274, 26, 118, 48, "rule: effect\nand mechanism", "other", rounded=True, size=12),
        Arrow([(127, 50), (140, 50)], width=1.5),
        Arrow([(260, 50), (273, 50)], width=1.5),
        Arrow([(200, 75), (200, 108)], "run", width=1.5, beside=(-18, 0)),
        Arrow([(333, 75), (333, 96), (262, 124)], width=1.5),
        Box(141, 108, 118, 32, "numbers", "compute", rounded=True, size=12),
        Arrow([(170, 141), (66, 172)], width=1.5),
        Arrow([(200, 141), (200, 172)], width=1.5),
        Arrow([(230, 141), (334, 172)], width=1.5),
        Box(8, 174, 118, 46, "confirmed\nall is met", "memory", rounded=True, size=12),
        Box(141, 174, 118, 46, "undecided\neffect alone", "waiting", rounded=True, size=12),
        Box(274, 174, 118, 46, "refuted\nno effect", "network", rounded=True, size=12),
    ]
    return Scene(
        shapes,
        "Before the experiment stand a claim with its reason, an experiment with its data, and a rule that asks for an effect and for a "
        "mechanism. The numbers of the run then decide: confirmed if all is met, undecided if only the effect is, refuted if there is none.",
    )


def first_in_a_mean(first: float, others: float, requests: int) -> Scene:
    """One slow first request among many: how far it draws the mean, and that the median stays."""
    if not (2 <= requests <= 60 and 0 < others < first):
        raise InputError(
            f"first_in_a_mean: first = {first:g}, others = {others:g}, requests = {requests}; give a first above the others, and 2 to 60"
        )
    mean = others + (first - others) / requests
    scale = 340 / first

    def at(value: float) -> float:
        return 24 + value * scale

    shapes: list[Shape] = [Arrow([(20, 80), (392, 80)], width=1)]
    for i in range(requests - 1):
        shapes.append(Box(at(others) - 3 + 1.2 * (i % 5 - 2), 70 - 7.0 * (i // 5), 6, 6, kind="compute", full=True))
    shapes += [
        Box(at(first) - 4, 70, 8, 8, kind="network", full=True),
        Words(at(first) - 10, 50, f"the first: {format_quantity(first, 's')}", "end", 12, "network"),
        Words(at(others) - 10, 22, f"the others, near {format_quantity(others, 's')}", "start", 12, "compute"),
        Arrow([(at(mean), 112), (at(mean), 84)], kind="network", width=1.2),
        Words(at(mean) - 10, 124, f"their mean with it {format_quantity(mean, 's')}", "start", 12, "network"),
        Words(392, 96, "time to the first token", "end", 12),
    ]
    return Scene(
        shapes,
        f"{requests} requests on a line: {requests - 1} near {format_quantity(others, 's')}, the first at {format_quantity(first, 's')}. The median stays among "
        f"the others, the mean moves to {format_quantity(mean, 's')}.",
    )


def mixed_step(prefill: float, answers: float, both: float, mean: float) -> Scene:
    """A step of prompt and answers between its bounds: longer than either alone, shorter than both in turn; a mean is neither."""
    if not (min(prefill, answers) > 0 and max(prefill, answers) <= both <= prefill + answers):
        raise InputError(
            f"mixed_step: both = {both:g} must lie between the longer of {prefill:g} and {answers:g} and their sum"
        )
    rows: list[tuple[str, list[Piece]]] = [
        ("the prompt alone", [Piece("", prefill, "compute")]),
        ("the answers alone", [Piece("", answers, "memory")]),
        ("one after the other", [Piece("", prefill, "compute"), Piece("", answers, "memory")]),
        ("the step of both", [Piece("", both, "other")]),
        ("weighted mean", [Piece("", mean, "network")]),
    ]
    scale = 200 / (prefill + answers)
    shapes: list[Shape] = []
    for i, (text, pieces) in enumerate(rows):
        y = 8 + 32.0 * i
        whole = sum(p.value for p in pieces)
        shapes.append(Words(122, y + 11, text, "end", 12))
        shapes += bar(130, y, whole * scale, 22, pieces)
        shapes.append(Words(134 + whole * scale, y + 11, format_quantity(whole, "s"), "start", 12))
    longer = 130 + max(prefill, answers) * scale
    low = 8 + 32.0 * len(rows)
    shapes += [
        Curve([(longer, 2), (longer, low + 2)], dashed=True, width=1),
        Words(12, low + 14, "the dashed line: no step of both can end before it", "start", 12),
    ]
    return Scene(
        shapes,
        f"A prompt alone takes {format_quantity(prefill, 's')}, answers alone {format_quantity(answers, 's')}, in turn {format_quantity(prefill + answers, 's')}; the step of both "
        f"{format_quantity(both, 's')}. A weighted mean says {format_quantity(mean, 's')}, less than the longer of the two.",
    )
