"""What a layer keeps of the tokens before: all of them, a window, the picked ones, compressed ones, or a state that is written over."""

from collections.abc import Sequence

from mlsysim import inference
from mlsysim.catalog import Model
from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Frames, Piece, Scene, Shape, Words, bar
from mlsysim.errors import InputError
from mlsysim.memory import kv_cache_of, state_of

_MOST = 16  # tokens that a phone can show in a row


def _cells(x: float, y: float, side: float, count: int, kept: Sequence[int]) -> list[Shape]:
    """Tokens in a row: filled where they are kept, dashed where they are forgotten."""
    held = set(kept)
    return [
        Box(
            x + i * side, y, side - 3, 22, kind="memory" if i in held else "plain", full=i in held, dashed=i not in held
        )
        for i in range(count)
    ]


def five_memories(tokens: int = 12, window: int = 4, picked: Sequence[int] = (1, 4, 9, 11), ratio: int = 3) -> Scene:
    """The same tokens behind a layer, and what each of five kinds of layers still has of them."""
    fits = 1 <= window < tokens and all(0 <= p < tokens for p in picked) and 2 <= ratio <= tokens
    if not (4 <= tokens <= _MOST and fits):
        raise InputError(
            f"five_memories: {tokens} tokens, window {window}, picked {list(picked)}, ratio {ratio}; a drawing shows 4 to {_MOST} "
            "tokens, a window below that, picks among them, and 2 or more of them in a compressed key"
        )
    side = 384 / tokens
    rows = (
        ("full attention reads every key and value", range(tokens)),
        (f"a window of {window} reads the last ones", range(tokens - window, tokens)),
        (f"sparse attention picks {len(picked)}, and scores all", picked),
    )
    shapes: list[Shape] = []
    for i, (text, kept) in enumerate(rows):
        y = 14 + 58.0 * i
        shapes += [Words(8, y, text, "start", 12), *_cells(8, y + 12, side, tokens, list(kept))]
    low = 14 + 58.0 * len(rows)
    shapes.append(Words(8, low, f"compression makes one key of every {ratio} tokens", "start", 12))
    shapes += [
        Box(8 + i * side, low + 12, ratio * side - 3, 22, kind="memory", full=True)
        for i in range(0, tokens - ratio + 1, ratio)
    ]
    low += 58.0
    shapes.append(Words(8, low, "a state of constant size has a blend of all", "start", 12))
    shapes += [
        Box(8, low + 12, 384 - 3 - 96, 22, "every token, added up", dashed=True, size=12),
        Arrow([(296, low + 23), (318, low + 23)], width=1.2),
        Box(320, low + 12, 69, 22, "state", "memory", full=True, size=12),
    ]
    return Scene(
        shapes,
        f"{tokens} tokens behind five layers. Full attention keeps all, a window the last {window}, sparse attention reads the "
        f"{len(picked)} that its indexer picks after scoring all, compression keeps one key for every {ratio}, and a recurrence keeps one state of constant size.",
    )


def window_sliding(tokens: int = 6, window: int = 3) -> Frames:
    """A window that moves on with every token: the cache fills, and then each new token takes the place of the oldest."""
    if not (2 <= tokens <= 10 and 1 <= window < tokens):
        raise InputError(
            f"window_sliding: {tokens} tokens, window {window}; a drawing shows 2 to 10 and a smaller window"
        )
    side, scenes, says = 384 / tokens, [], []
    for now in range(1, tokens + 1):
        seen = range(max(0, now - window), now)
        shapes: list[Shape] = [Words(8, 14, f"token {now} is made", "start", 13, bold=True)]
        for i in range(tokens):
            text = str(i + 1) if i < now else ""
            held = i in seen
            shapes.append(
                Box(8 + i * side, 32, side - 4, 30, text, "memory" if held else "plain", dashed=not held, size=13)
            )
        shapes.append(Words(8, 84, f"rolling buffer of {window} places", "start", 12))
        for place in range(window):
            inside = [i for i in seen if i % window == place]
            text = str(inside[0] + 1) if inside else ""
            shapes.append(
                Box(
                    8 + place * side,
                    98,
                    side - 4,
                    30,
                    text,
                    "memory" if inside else "plain",
                    dashed=not inside,
                    size=13,
                )
            )
        read = int(inference.context_reading(now, 1.0, window))
        assert read == len(seen)
        shapes.append(Words(392, 113, f"reads {read}", "end", 13))
        scenes.append(Scene(shapes, f"Token {now}: the layer reads {read} of {now} tokens, the last ones."))
        if now <= window:
            says.append(f"Token {now} finds room in the buffer, and the layer reads every token so far: {read}.")
        else:
            says.append(f"Token {now} takes the place of token {now - window}, which this layer will not see again.")
    return Frames(scenes, says, "A window that slides over the tokens")


_KEYS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0))
_VALUES = ((4, 2), (8, 4), (2, 6), (6, 8))


def state_updated(decay: float = 0.5, delta: bool = True) -> Frames:
    """A state, token by token: what was there fades, and a new pair of key and value is written in."""
    if not 0 < decay <= 1:
        raise InputError(f"state_updated: decay = {decay} must lie in (0, 1]")
    state = [[0.0] * 3 for _ in range(2)]
    scenes, says = [], []
    for n, (k, v) in enumerate(zip(_KEYS, _VALUES, strict=True), start=1):
        faded = [[decay * x for x in row] for row in state]
        found = [sum(x * y for x, y in zip(row, k, strict=True)) for row in faded]
        written = [v[r] - found[r] if delta else float(v[r]) for r in range(2)]
        state = [[faded[r][c] + written[r] * k[c] for c in range(3)] for r in range(2)]
        shapes: list[Shape] = [Words(8, 14, f"token {n}", "start", 13, bold=True)]
        column = k.index(1)
        shapes.append(Words(40, 44, "value", "middle", 12))
        shapes.append(Words(230, 30, "key", "middle", 12))
        for c in range(3):
            shapes.append(Box(130 + 66 * c, 42, 60, 26, str(k[c]), "compute", full=bool(k[c]), size=13))
        for r in range(2):
            shapes.append(Box(12, 78 + 38 * r, 56, 30, str(v[r]), "compute", full=True, size=13))
            for c in range(3):
                shapes.append(
                    Box(130 + 66 * c, 78 + 38 * r, 60, 30, f"{state[r][c]:g}", "memory", full=c == column, size=13)
                )
        shapes.append(Arrow([(72, 112), (124, 112)], width=1.2))
        shapes.append(Words(360, 112, "state", "middle", 12))
        shapes.append(Words(8, 170, f"all else fades to {decay:g} of itself", "start", 12))
        scenes.append(Scene(shapes, f"Token {n} writes its value into column {column + 1} of the state."))
        again = column in [key.index(1) for key in _KEYS[: n - 1]]
        if again and delta:
            says.append(
                f"Token {n} has a key that was there before: the delta rule takes the old value out and writes the new."
            )
        elif again:
            says.append(f"Token {n} has a key that was there before: its value is added on what is left of the old.")
        else:
            faded_too = "; what other tokens wrote has faded" if n > 1 else ""
            says.append(f"Token {n} writes its value where its key points{faded_too}.")
    return Frames(scenes, says, "A state that is updated token by token")


_SCORES = (2, 9, 1, 3, 7, 1, 2, 4, 1, 8, 3, 6)


def indexer_picks(top: int = 4) -> Scene:
    """An indexer gives every key a small score; attention reads only the keys with the largest."""
    if not 1 <= top <= 6:
        raise InputError(f"indexer_picks: top = {top} must lie in 1 to 6")
    best = sorted(range(len(_SCORES)), key=lambda i: -_SCORES[i])[:top]
    side = 384 / len(_SCORES)
    shapes: list[Shape] = [Words(8, 14, "the indexer scores every cached key: cheap, but all of them", "start", 12)]
    for i, score in enumerate(_SCORES):
        high = 6.0 * score
        chosen = i in best
        shapes.append(Box(8 + i * side, 88 - high, side - 5, high, kind="compute", full=chosen))
    shapes.append(Words(8, 106, f"the {top} best are read and attended to, with all heads", "start", 12))
    shapes += _cells(8, 120, side, len(_SCORES), best)
    shapes += [Arrow([(8 + (i + 0.45) * side, 146), (200, 176)], width=1.0) for i in sorted(best)]
    shapes.append(Box(130, 178, 140, 28, "attention", "memory", rounded=True, size=13))
    return Scene(
        shapes,
        f"Twelve cached keys. An indexer gives each a score, drawn as a bar; attention then reads the {top} with the highest and "
        "leaves the others unread.",
    )


def compressed_keys(ratio: int = 4, window: int = 4, picked: Sequence[int] = (0, 2)) -> Scene:
    """Tokens that become compressed keys, of which some are picked, beside a window of tokens as they are."""
    tokens = 16
    groups = tokens // ratio if 2 <= ratio <= 8 else 0
    if not (groups and 1 <= window < tokens and all(0 <= p < groups for p in picked)):
        raise InputError(
            f"compressed_keys: ratio {ratio}, window {window}, picked {list(picked)}; a drawing shows 2 to 8 of {tokens} tokens in a "
            "compressed key, a window below that, and picks among those keys"
        )
    side = 384 / tokens
    shapes: list[Shape] = [Words(8, 14, f"every {ratio} tokens become one key, which is their value too", "start", 12)]
    shapes += _cells(8, 26, side, tokens, range(tokens - window, tokens))
    for g in range(groups):
        x, wide = 8 + g * ratio * side, ratio * side - 3
        shapes.append(Arrow([(x + wide / 2, 50), (x + wide / 2, 72)], width=1.0))
        shapes.append(Box(x + wide / 4, 74, wide / 2, 22, kind="memory", full=g in picked, dashed=g not in picked))
        if g in picked:
            shapes.append(Arrow([(x + wide / 2, 98), (196, 132)], width=1.0))
    shapes.append(Arrow([(392 - window * side / 2, 50), (270, 146)], width=1.0))
    shapes.append(Box(130, 134, 138, 28, "attention", "memory", rounded=True, size=13))
    shapes.append(Words(8, 184, f"read: {len(picked)} of {groups} keys, and a window of {window}", "start", 12))
    read = inference.compressed_reading(tokens, 1.0, window, ratio, len(picked))
    assert read == len(picked) + window
    return Scene(
        shapes,
        f"{tokens} tokens, of which every {ratio} become one compressed key. Attention reads {len(picked)} of the {groups} keys, which an "
        f"indexer picks, and the last {window} tokens as they are.",
    )


def chunked_prompt(chunks: int = 4, size: int = 3) -> Scene:
    """A prompt in a recurrence: squares of tokens that meet inside a chunk, and a state that goes from chunk to chunk."""
    if not (2 <= chunks <= 5 and 2 <= size <= 4):
        raise InputError(f"chunked_prompt: {chunks} chunks of {size}; a drawing shows 2 to 5 of 2 to 4")
    n = chunks * size
    side = 216 / n
    shapes: list[Shape] = [Words(8, 14, "queries down, keys across", "start", 12)]
    for q in range(n):
        for k in range(q + 1):
            same = q // size == k // size
            shapes.append(
                Box(8 + k * side, 28 + q * side, side - 2, side - 2, kind="compute", full=same, dashed=not same)
            )
    for c in range(chunks):
        y = 28 + (c + 0.5) * size * side
        shapes.append(Box(272, y - 12, 56, 24, "state", "memory", size=12))
        if c:
            before = 28 + (c - 0.5) * size * side
            shapes.append(Arrow([(300, before + 13), (300, y - 14)], width=1.2))
    shapes.append(Words(336, 28 + 0.5 * size * side, "empty", "start", 12))
    low = 28 + n * side + 18
    shapes.append(Words(8, low, "blue: multiplied; dashed: told by the state alone", "start", 12))
    return Scene(
        shapes,
        f"A prompt of {n} tokens in {chunks} chunks of {size}. Inside a chunk every query meets the keys before it, as in attention; "
        "all that came before the chunk arrives as one state, which each chunk hands to the next.",
    )


def layers_that_forget(models: Sequence[Model], tokens: float = 131072.0) -> Scene:
    """Of some models: which layers keep everything, and how much of a full cache is left at a long context."""
    if not 2 <= len(models) <= 5:
        raise InputError(f"layers_that_forget: {len(models)} models; a drawing shows 2 to 5")
    shapes: list[Shape] = [Words(8, 14, "green: layers that keep all; dashed: that forget", "start", 12)]
    told = []
    for i, m in enumerate(models):
        y = 42 + 66.0 * i
        full = sum(n for n, core in m.cores if not core.window)
        mixed = max(1, m.n_mixed_layers)
        held = float(kv_cache_of(m, 1, tokens)) + float(state_of(m))
        shapes.append(Words(8, y, f"{m.name}: {full} of {mixed} layers", "start", 12))
        shapes += bar(8, y + 12, 384, 20, [Piece("", full / mixed, "memory")], 1.0)
        shapes.append(Words(392, y, format_quantity(held, "byte"), "end", 12))
        told.append(f"{m.name} {full} of {mixed}, {format_quantity(held, 'byte')}")
    return Scene(
        shapes,
        f"Layers that keep every token, and what a sequence of {tokens:,.0f} tokens takes: {'; '.join(told)}.",
    )
