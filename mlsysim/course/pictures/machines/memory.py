"""Memory in training: who holds which share of the state, which tensors of a layer wait, and what fills a device."""

from mlsysim import catalog, memory, units
from mlsysim.catalog import Model
from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Piece, Scene, Shape, Stretch, Words, bar, tracks
from mlsysim.errors import InputError
from mlsysim.memory import TrainingMemory


def zero_stages(shards: int = 4, recipe: str = "zero-fp16") -> Scene:
    """Bytes per parameter on each device, as ZeRO divides optimizer, gradients and weights one after another."""
    kinds = {"weights": "compute", "gradients": "network", "optimizer": "memory"}
    rows = [("all on each", "none"), ("ZeRO-1", "zero1"), ("ZeRO-2", "zero2"), ("ZeRO-3", "zero3")]
    states = [(name, memory.model_state_memory(1.0, recipe, sharding, shards)) for name, sharding in rows]
    whole = float(states[0][1].total)
    shapes: list[Shape] = [Words(100, 14, f"bytes per parameter on each of {shards} devices", "start", 12)]
    for i, (name, state) in enumerate(states):
        y = 30.0 + 44.0 * i
        parts = [(part, float(getattr(state, part))) for part in kinds]
        shapes.append(Words(92, y + 16, name, "end"))
        pieces = [Piece(part if i == 0 else "", value, kinds[part]) for part, value in parts]
        shapes += bar(100, y, 240, 32, pieces, whole, size=12)
        shapes.append(Words(348, y + 16, f"{float(state.total):.3g} B", "start", bold=True))
    low = 30.0 + 44.0 * len(rows) + 6
    for x, part in zip((100, 164, 240), kinds, strict=True):
        shapes.append(Words(x, low, part, "start", 12, kinds[part], bold=True))
    alt = (
        f"Four bars to scale, bytes per parameter on each of {shards} devices: "
        + "; ".join(f"{name} {float(state.total):.3g}" for name, state in states)
        + ". First the optimizer is divided, then the gradients, then the weights."
    )
    return Scene(shapes, alt)


def training_memory_bar(found: TrainingMemory, name: str = "one device") -> Scene:
    """What fills a device in training, to scale beside what it has."""
    kinds = {
        "weights": "compute",
        "gradients": "network",
        "optimizer": "memory",
        "activations": "other",
        "passing": "extra",
    }
    parts = {part.replace("_", " "): float(value) for part, value in found.parts.items() if value}
    have = float(found.capacity)
    need = sum(parts.values())
    pieces = [Piece("", value, kinds.get(part, "waiting")) for part, value in parts.items()]
    shapes: list[Shape] = [
        Words(200, 12, f"{name}: {format_quantity(need, 'byte')} of {format_quantity(have, 'byte')}", bold=True)
    ]
    top, tall = 44.0, 290.0
    shapes += bar(24, top, tall, 96, pieces, max(have, need), upright=True)
    done, last = 0.0, 1e9
    for part, value in parts.items():
        at = top + tall - tall * (done + value / 2) / max(have, need)
        at = min(at, last - 17)
        shapes.append(Words(132, at, f"{part}, {units.format(value, 'byte', 2)}", "start"))
        done, last = done + value, at
    line = top + tall - tall * have / max(have, need)
    shapes.append(Box(18, line - 1, 108, 2, full=True))
    shapes.append(Words(394, line, "the device ends here", "end", 12, bold=True))
    alt = f"A bar to scale of what {name} holds: " + ", ".join(
        f"{p} {format_quantity(v, 'byte')}" for p, v in parts.items()
    )
    return Scene(shapes, f"{alt}; it has {format_quantity(have, 'byte')}.", tall=348)


def kept_of_layer(model: Model | str, tokens: int) -> list[tuple[str, float, str]]:
    """The tensors that a GPT layer keeps for its backward pass: name, bytes per token and channel, and who divides them.

    "whole" is kept by every tensor-parallel rank, "divided" only in part, "scores" too unless they are computed again.

    >>> sum(value for _, value, who in kept_of_layer("GPT-3-175B", 2048) if who != "scores")
    34.0
    """
    m = catalog.model(model)
    if m.gated_mlp or m.n_experts or m.ffn != 4 * m.hidden or m.kv_heads != m.heads:
        raise InputError(f"kept_of_layer: {m.name} is no GPT; give a model with a plain MLP of 4 times its width")
    scores = 5.0 * m.heads * tokens / m.hidden
    return [
        ("input of the norm", 2.0, "whole"),
        ("input of Q, K, V", 2.0, "whole"),
        ("queries", 2.0, "divided"),
        ("keys", 2.0, "divided"),
        ("values", 2.0, "divided"),
        ("scores", scores, "scores"),
        ("output of the heads", 2.0, "divided"),
        ("dropout mask", 1.0, "whole"),
        ("input of the norm", 2.0, "whole"),
        ("input of the MLP", 2.0, "whole"),
        ("before GeLU, 4 times wide", 8.0, "divided"),
        ("after GeLU, 4 times wide", 8.0, "divided"),
        ("dropout mask", 1.0, "whole"),
    ]


def kept_tensors(model: Model | str = "GPT-3-175B", tokens: int = 2048) -> Scene:
    """One layer from top to bottom: each tensor that waits for the backward pass, its bytes to scale, and who divides it."""
    kept = kept_of_layer(model, tokens)
    kinds = {"whole": "other", "divided": "compute", "scores": "waiting"}
    sums = {who: sum(value for _, value, w in kept if w == who) for who in kinds}
    shapes: list[Shape] = [
        Words(176, 12, "bytes per token and channel", "start", 12),
        Words(8, 12, "kept of one layer", "start", bold=True),
    ]
    y = 26.0
    for i, (name, value, who) in enumerate(kept):
        if i == 8:
            y += 10.0
        wide = 12.0 * min(value, 11.0)
        shapes.append(Words(168, y + 9, name, "end", 12))
        shapes.append(Box(176, y, wide, 18, kind=kinds[who], dashed=who == "scores"))
        text = f"{value:g}" if who != "scores" else f"{value:.0f}, cut off"
        shapes.append(Words(176 + wide + 6, y + 9, text, "start", 12))
        y += 22.0
    shapes += [
        Words(8, 26 + 22 * 3 + 9, "attention", "start", 12, bold=True),
        Words(8, 26 + 22 * 12 + 19, "MLP", "start", 12, bold=True),
        Words(392, y + 10, f"blue: divided by tensor parallelism, {sums['divided']:g}", "end", 12, "compute"),
        Words(392, y + 28, f"purple: every rank keeps all, {sums['whole']:g}", "end", 12, "other"),
        Words(392, y + 46, f"grey: not kept by fused attention, {sums['scores']:.0f}", "end", 12),
    ]
    alt = (
        f"The tensors that a layer of {catalog.model(model).name} keeps, as bars of bytes per token and channel: "
        + ", ".join(f"{name} {value:g}" for name, value, _ in kept)
        + f". {sums['divided']:g} are divided by tensor parallelism, {sums['whole']:g} are not; the scores are {sums['scores']:.0f}."
    )
    return Scene(shapes, alt, tall=y + 58)


def gather_ahead(units_: int = 4, gather: float = 0.7) -> Scene:
    """Sharded weights in time: while one layer computes the next is gathered, so two are whole at once; then each is freed."""
    if not (2 <= units_ <= 6 and 0 < gather <= 1):
        raise InputError(
            f"gather_ahead: {units_} layers, gather = {gather:g}; take 2 to 6, and a gather of at most one layer's time"
        )
    starts = [gather + i for i in range(units_)]
    fetch = [Stretch(0.0, gather, "0", "network")]
    fetch += [Stretch(starts[i - 1], starts[i - 1] + gather, str(i), "network") for i in range(1, units_)]
    work = [Stretch(s, s + 1, str(i)) for i, s in enumerate(starts)]
    rows = [("gather", fetch), ("compute", work)]
    rows += [
        (f"layer {i} whole", [Stretch(f.start, w.end, "", "memory")])
        for i, (f, w) in enumerate(zip(fetch, work, strict=True))
    ]
    shapes = tracks(8, 8, 384, rows, height=20, gap=5, names=96, size=12)
    low = 8 + 25.0 * len(rows) + 6
    shapes.append(Arrow([(104, low), (392, low)], "time", width=1, beside=(0, 12)))
    most = max(sum(f.start <= w.start < v.end for f, v in zip(fetch, work, strict=True)) for w in work)
    alt = (
        f"Tracks of time: layer by layer, weights are gathered while the layer before computes, and freed after their own use. "
        f"At most {most} layers are whole at any moment."
    )
    return Scene(shapes, alt, tall=low + 26)
