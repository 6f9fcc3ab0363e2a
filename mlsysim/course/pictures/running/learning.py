"""After pre-training: an adapter beside a frozen matrix, what fine-tuning keeps, answers that wait for the longest, pools."""

from collections.abc import Sequence

from mlsysim import posttraining
from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Frames, Piece, Scene, Shape, Stretch, Words, bar, tracks
from mlsysim.errors import InputError

# Tokens of eight answers, as a reader could have drawn them: most are short and one is long.
LENGTHS = (3, 4, 2, 5, 3, 16, 4, 7)


def adapter_beside(size: int = 4096, rank: int = 8) -> Scene:
    """A frozen matrix and the two thin factors that are trained beside it, with their numbers."""
    if not (64 <= size <= 65536 and 1 <= rank < size / 2):
        raise InputError(f"adapter_beside: size = {size}, rank = {rank}; draw 64 to 65,536 and a rank below half of it")
    own = posttraining.adapter_parameters(rank, 1, size, size)
    shapes: list[Shape] = [
        Words(196, 14, "the same input goes both ways", "middle", 12),
        Arrow([(150, 24), (84, 42)], width=1.2),
        Arrow([(242, 24), (307, 42)], width=1.2),
        Box(14, 46, 140, 140, f"frozen matrix\n{size:,} by {size:,}\n{size * size / 1e6:.3g} million", size=12),
        Box(248, 46, 120, 24, f"{rank} by {size:,}", "compute", full=True, size=12),
        Arrow([(308, 72), (308, 90)], width=1.2),
        Words(316, 81, f"{rank} numbers", "start", 12),
        Box(248, 92, 120, 24, f"{size:,} by {rank}", "compute", full=True, size=12),
        Words(308, 138, f"trained: {own:,.0f}", "middle", 12, "compute", bold=True),
        Words(308, 156, f"that is 1 in {size * size / own:,.0f}", "middle", 12),
        Arrow([(84, 188), (170, 214)], width=1.2),
        Arrow([(308, 166), (222, 214)], width=1.2),
        Words(196, 226, "and both results are added", "middle", 12),
    ]
    return Scene(
        shapes,
        f"A frozen matrix of {size:,} by {size:,} numbers, and beside it two factors of rank {rank} with {own:,.0f} numbers that "
        "are trained. Input goes through both, and the results are added.",
    )


def what_tuning_keeps(parameters: float = 8e9, trained: float = 20e6, quantised: float = 0.516) -> Scene:
    """Weights, gradients and optimizer of three ways to fine-tune, to scale."""
    if not 0 < trained < parameters:
        raise InputError(f"what_tuning_keeps: trained = {trained:g} must lie between 0 and parameters = {parameters:g}")
    state = posttraining.fine_tuning_state
    whole = float(state(0.0, parameters))
    rows = (
        ("all weights trained", [Piece("weights", 2 * parameters, "memory"), Piece("gradients", 2 * parameters, "network"), Piece("master copy, moments", 12 * parameters, "compute")], whole),
        ("an adapter (LoRA)", [Piece("weights", 2 * parameters, "memory"), Piece("", 16 * trained, "compute")], float(state(parameters, trained))),
        ("an adapter on 4 bits (QLoRA)", [Piece("", quantised * parameters, "memory"), Piece("", 16 * trained, "compute")], float(state(parameters, trained, quantised))),
    )  # fmt: skip
    shapes: list[Shape] = []
    for i, (name, pieces, total) in enumerate(rows):
        y = 14 + 58.0 * i
        shapes.append(Words(8, y, name, "start", 12))
        shapes.append(Words(392, y, format_quantity(total, "byte", 3), "end", 12, bold=True))
        shapes += bar(8, y + 12, 384, 26, pieces, whole, size=12)
    shapes.append(Words(8, 194, "green: weights; orange: gradients; blue: optimizer", "start", 12))
    told = "; ".join(f"{name} {format_quantity(total, 'byte', 3)}" for name, _, total in rows)
    return Scene(
        shapes, f"Memory of weights, gradients and optimizer for {parameters / 1e9:.3g} billion parameters: {told}."
    )


def answers_waiting(lengths: Sequence[int] = LENGTHS, stills: int = 5) -> Frames:
    """A batch of answers that all begin together: row by row they end, and the longest holds everyone."""
    if not (3 <= len(lengths) <= 8 and min(lengths) >= 1 and max(lengths) <= 40 and 2 <= stills <= 8):
        raise InputError("answers_waiting: draw 3 to 8 answers of 1 to 40 tokens, in 2 to 8 stills")
    longest, mean = max(lengths), sum(lengths) / len(lengths)
    unit = 300.0 / longest
    moments = sorted({round(longest * (n + 1) / stills) for n in range(stills)})
    scenes, says = [], []
    for now in moments:
        left = sum(n > now for n in lengths)
        busy = sum(min(n, now) for n in lengths) / (len(lengths) * now)
        shapes: list[Shape] = [Words(8, 14, f"after {now} decode steps", "start", 13, bold=True)]
        for i, n in enumerate(lengths):
            y = 30 + 22.0 * i
            shapes.append(Words(72, y + 8, f"answer {i + 1}", "end", 12))
            shapes.append(Box(80, y, unit * min(n, now), 16, kind="compute", full=n > now))
            if n < now:
                shapes.append(Box(80 + unit * n, y, unit * (now - n), 16, kind="waiting"))
        low = 30 + 22.0 * len(lengths) + 10
        shapes.append(Words(8, low, f"places at work so far: {100 * busy:.0f} %", "start", 12))
        scenes.append(
            Scene(
                shapes,
                f"After {now} of {longest} decode steps {left} of {len(lengths)} answers are still written.",
                tall=low + 14,
            )
        )
        if left > 1:
            says.append(f"After {now} steps {left} answers are still being written, and the places of the others wait.")
        elif left == 1:
            says.append(f"After {now} steps one answer is left. Each step reads all weights of the model for its sake.")
        else:
            says.append(
                f"Step {now} was the last: {longest / mean:.1f} times as many steps as the mean answer needed, and training may begin."
            )
    return Frames(scenes, says, "A batch of answers waits for its longest")


def one_after_the_other(generation: float = 4.0, tail: float = 4.0, training: float = 4.0, steps: int = 2) -> Scene:
    """All devices generate and then train, above two pools that do both at a time: the same work, without the wait."""
    if not (min(generation, training) > 0 and tail >= 0 and 1 <= steps <= 3):
        raise InputError("one_after_the_other: generation and training must be above 0, tail at least 0, steps 1 to 3")
    share = generation / (generation + training)
    pooled = float(posttraining.two_pools_step(generation, training, share))
    alone = generation + tail + training
    until = alone * steps
    together: list[Stretch] = []
    for n in range(steps):
        now = n * alone
        together += [
            Stretch(now, now + generation, "write", "compute", True),
            Stretch(now + generation, now + generation + tail, "wait", "waiting"),
            Stretch(now + generation + tail, now + alone, "train", "memory", True),
        ]
    count = int(until / pooled + 1e-9)
    writers = [Stretch(n * pooled, (n + 1) * pooled, f"{n + 1}", "compute", True) for n in range(count)]
    learners = [Stretch(0, pooled, "", "waiting")]
    learners += [Stretch(n * pooled, (n + 1) * pooled, f"{n}", "memory", True) for n in range(1, count)]
    shapes: list[Shape] = [Words(8, 12, f"one after the other, on all devices: {steps} steps", "start", 12, bold=True)]
    shapes += tracks(8, 24, 384, [("all", together)], until=until, names=62)
    shapes.append(Words(8, 72, f"two pools: {count - 1} steps, and the next begun", "start", 12, bold=True))
    shapes += tracks(8, 84, 384, [("writers", writers), ("learners", learners)], until=until, names=62)
    shapes.append(Words(8, 152, "learners train on what writers wrote one step before", "start", 12))
    return Scene(
        shapes,
        f"Two timelines. Above, all devices write, wait and train in turn, {steps} steps. Below, {100 * share:.0f} % of the devices "
        f"write and the others train on what was written a step before; in the same time they begin {count} steps.",
    )


def bytes_eaten(rates: Sequence[tuple[str, float]]) -> Scene:
    """What a device reads per second, by what it learns from, to scale."""
    if not (2 <= len(rates) <= 6 and all(rate > 0 for _, rate in rates)):
        raise InputError("bytes_eaten: give 2 to 6 names with rates above 0")
    most = max(rate for _, rate in rates)
    shapes: list[Shape] = []
    for i, (name, rate) in enumerate(rates):
        y = 14 + 50.0 * i
        shapes.append(Words(8, y, name, "start", 12))
        shapes.append(Words(392, y, format_quantity(rate, "byte/s"), "end", 12, bold=True))
        shapes.append(Box(8, y + 12, max(1.0, 384 * rate / most), 20, kind="network", full=True))
    low = 14 + 50.0 * len(rates)
    shapes.append(Words(8, low, "to scale", "start", 12))
    told = "; ".join(f"{name} {format_quantity(rate, 'byte/s')}" for name, rate in rates)
    return Scene(shapes, f"Bytes per second that one device reads: {told}.")
