"""Memory in training: who holds which share of the state, and what fills a device."""

from mlsysim import memory, units
from mlsysim.classroom.pictures.devices import said
from mlsysim.drawing.scenes import Box, Piece, Scene, Shape, Words, bar
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
    shapes: list[Shape] = [Words(200, 12, f"{name}: {said(need, 'byte')} of {said(have, 'byte')}", bold=True)]
    shapes += bar(24, 28, 300, 96, pieces, max(have, need), upright=True)
    done, last = 0.0, 1e9
    for part, value in parts.items():
        at = 328 - 300 * (done + value / 2) / max(have, need)
        at = min(at, last - 17)
        shapes.append(Words(132, at, f"{part}, {units.format(value, 'byte', 2)}", "start"))
        done, last = done + value, at
    line = 328 - 300 * have / max(have, need)
    shapes.append(Box(18, line - 1, 108, 2, full=True))
    alt = f"A bar to scale of what {name} holds: " + ", ".join(f"{p} {said(v, 'byte')}" for p, v in parts.items())
    return Scene(shapes, f"{alt}; it has {said(have, 'byte')}.", tall=344)
