"""A model: a block with its sizes, heads that share what they remember, and the latent form."""

from dataclasses import replace

from mlsysim import catalog
from mlsysim.catalog import Model
from mlsysim.drawing.scenes import Arrow, Box, Scene, Shape, Words
from mlsysim.errors import InputError


def _lower(shape: Shape, by: float) -> Shape:
    """The same thing further down."""
    if isinstance(shape, Arrow):
        return replace(shape, points=[(x, y + by) for x, y in shape.points])
    assert isinstance(shape, Box | Words)
    return replace(shape, y=shape.y + by)


def transformer_block(model: Model | str) -> Scene:
    """One block of a dense transformer from bottom to top, each product with the shape of its weights."""
    m = catalog.model(model)
    if m.n_experts:
        raise InputError(f"transformer_block: {m.name} has experts; give a dense model, as 'Llama-3.1-8B'")
    wide, heads = m.hidden, m.heads
    kv, own = m.kv_heads * m.head_dim, heads * m.head_dim
    mlp = f"{'gate and up' if m.gated_mlp else 'up'}\n{wide:,} × {m.ffn:,}{' (twice)' if m.gated_mlp else ''}"
    x, w = 70.0, 220.0
    steps = [
        ("down", f"{m.ffn:,} × {wide:,}", 20.0),
        ("mlp", mlp, 64.0),
        ("out", f"out\n{own:,} × {wide:,}", 168.0),
        ("attend", f"attention: {heads} query heads\nover {m.kv_heads} of keys and values", 212.0),
        ("qkv", f"query {wide:,} × {own:,}\nkey, value {wide:,} × {kv:,}", 256.0),
    ]
    shapes: list[Shape] = [
        Box(x - 14, 12, w + 28, 100, rounded=True),
        Box(x - 14, 160, w + 28, 140, rounded=True),
        Words(x + w + 22, 62, "MLP", "start", bold=True),
        Words(x + w + 22, 230, "attention", "start", bold=True),
    ]
    for name, text, y in steps:
        text = f"down\n{text}" if name == "down" else text
        shapes.append(Box(x, y, w, 38, text, "extra" if name == "attend" else "compute", size=12))
    shapes += [
        Box(x + 60, 122, 100, 24, "norm", size=12),
        Box(x + 60, 312, 100, 24, "norm", size=12),
        Arrow([(x + w / 2, 368), (x + w / 2, 337)], f"{wide:,} numbers per token", beside=(0, 24)),
        Arrow([(x + w / 2, 312), (x + w / 2, 301)], width=1.2),
        Arrow([(x + w / 2, 160), (x + w / 2, 147)], width=1.2),
        Arrow([(x + w / 2, 122), (x + w / 2, 113)], width=1.2),
        Arrow([(x + w / 2, 352), (34, 352), (34, 154), (x + w / 2, 154)], dashed=True, head=False, width=1.2),
        Arrow([(x + w / 2, 150), (34, 150), (34, 4), (x + w / 2, 4)], dashed=True, head=False, width=1.2),
        Words(x + w + 22, 336, "dashed:\nadded to\nthe result", "start", 12),
    ]
    shapes = [_lower(shape, 22.0) for shape in shapes]
    shapes.append(Arrow([(x + w / 2, 34), (x + w / 2, 4)]))
    shapes.append(Words(x + w / 2 + 10, 12, "to the next block", "start", 12))
    alt = (
        f"A block of {m.name}: {wide:,} numbers per token come in from below, pass a norm and attention ({heads} query heads, "
        f"{m.kv_heads} of keys and values), are added to what came in, and pass a norm and an MLP of {m.ffn:,}. There are {m.n_layers} such blocks."
    )
    return Scene(shapes, alt, tall=412)


def attention_heads(query: int = 8, groups: int = 2) -> Scene:
    """Query heads above, keys and values below: each head its own, one for all, or one per group."""
    if query % groups or not 1 < groups < query <= 8:
        raise InputError(
            f"attention_heads: query = {query}, groups = {groups}; take at most 8 heads and a whole number of them per group"
        )
    shapes: list[Shape] = []
    side, rows = 15.0, (("multi-head", query), ("grouped", groups), ("multi-query", 1))
    for row, (name, kv) in enumerate(rows):
        y = 30.0 + 84.0 * row
        shapes.append(Words(8, y + 18, name, "start", bold=True))
        shapes.append(Words(8, y + 38, f"{kv} to remember", "start", 12, "memory"))
        for i in range(query):
            x = 150 + 30.0 * i
            per = query // kv
            middle = 150 + 30.0 * ((i // per) * per + (per - 1) / 2)
            shapes.append(Arrow([(x + side / 2, y + side), (middle + side / 2, y + 36)], head=False, width=1))
            shapes.append(Box(x, y, side, side, kind="compute"))
        for j in range(kv):
            middle = 150 + 30.0 * (j * (query // kv) + (query // kv - 1) / 2)
            shapes.append(Box(middle, y + 36, side, side, kind="memory", full=True))
    shapes.append(Words(150, 14, "queries; below, keys and values", "start", 12))
    alt = (
        f"Three rows of {query} query heads. Multi-head: each has its own key-value head. Grouped: {query // groups} share one, "
        f"{groups} in all. Multi-query: all share one. The cache holds the key-value heads only."
    )
    return Scene(shapes, alt)


def latent_cache(model: Model | str) -> Scene:
    """Multi-head latent attention: one short vector per token is kept, from which keys and values are made again."""
    m = catalog.model(model)
    core = m.core
    if core is None or not core.latent_v:
        raise InputError(
            f"latent_cache: {m.name} keeps keys and values; give a model with latent attention, as 'DeepSeek-V3'"
        )
    latent, rope, heads = core.latent_v, core.rope_dim, core.heads
    shapes: list[Shape] = [
        Box(10, 86, 96, 44, f"token\n{m.hidden:,} wide", "compute", size=12),
        Arrow([(106, 108), (150, 108)]),
        Box(150, 78, 106, 60, f"kept:\n{latent} + {rope}\nnumbers", "memory", full=True),
        Arrow([(256, 98), (300, 52)]),
        Arrow([(256, 118), (300, 164)]),
        Box(300, 20, 92, 58, f"keys of\n{heads} heads", "compute", dashed=True),
        Box(300, 138, 92, 58, f"values of\n{heads} heads", "compute", dashed=True),
        Words(346, 108, "made again,\nnever kept", size=12),
        Words(203, 156, "the cache", size=12, kind="memory"),
    ]
    alt = (
        f"Latent attention of {m.name}: from a token of {m.hidden:,} numbers, {latent} and {rope} are kept; keys and values of {heads} "
        "heads are made from them when they are needed, and are not kept."
    )
    return Scene(shapes, alt)
