"""Serving: the cache and its blocks, what a step works on, and the life of a request in a queue and a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim.drawing.scenes import Arrow, Box, Frames, Scene, Shape, Stretch, Words, blocks, tracks
from mlsysim.errors import InputError
from mlsysim.serving import Config, Request, Simulation, simulate
from mlsysim.serving.prefix_tree import PrefixTree


@dataclass(frozen=True)
class EqualSteps:
    """A server whose steps all last one unit of time: who is worked on when, without how long."""

    seconds: float = 1.0

    def time(self, batch: Any) -> float:
        return self.seconds


def with_and_without_cache(tokens: int = 4, new: int = 3) -> Scene:
    """Generating without a KV cache computes the whole text again for each token; with one, a token at a time."""
    if not (2 <= tokens <= 5 and 2 <= new <= 4):
        raise InputError(f"with_and_without_cache: tokens = {tokens}, new = {new}; a drawing shows 2 to 5 and 2 to 4")
    side = 20.0
    shapes: list[Shape] = [
        Words(8, 14, "without a cache", "start", bold=True),
        Words(208, 14, "with a KV cache", "start", bold=True),
    ]
    for step in range(new):
        y = 36 + step * 44.0
        for place in range(tokens + step):
            first = step == 0
            shapes.append(Box(8 + place * side, y, side - 2, side, kind="compute", full=True))
            shapes.append(Box(208 + place * side, y, side - 2, side, kind="compute" if first else "memory", full=first))
        last = tokens + step
        if step:
            shapes.append(Box(208 + (last - 1) * side, y, side - 2, side, kind="compute", full=True))
        for x in (8, 208):
            shapes.append(Arrow([(x + last * side + 2, y + 10), (x + last * side + 20, y + 10)], width=1.2))
            shapes.append(Box(x + last * side + 22, y, side - 2, side, dashed=True))
    low = 36 + new * 44.0
    again = sum(tokens + s for s in range(new))
    shapes += [
        Words(8, low, f"{again} tokens computed", "start", 12, "compute"),
        Words(208, low, f"{tokens + new - 1} computed,", "start", 12, "compute"),
        Words(208, low + 17, "green ones read from memory", "start", 12, "memory"),
    ]
    alt = (
        f"Two ways to generate {new} tokens after a prompt of {tokens}. Without a cache every step computes the whole text again, {again} "
        f"tokens in all; with a cache {tokens + new - 1} are computed, and the keys and values of the others are read."
    )
    return Scene(shapes, alt)


def paged_cache(lengths: Sequence[int] = (7, 4, 10), block_tokens: int = 4, total: int = 12) -> Scene:
    """A cache in blocks: each sequence has a table of where its blocks lie, and only the last may be half empty."""
    need = [-(-n // block_tokens) for n in lengths]
    if sum(need) > total or len(lengths) > 4 or total > 16 or not 2 <= block_tokens <= 6:
        raise InputError(
            f"paged_cache: sequences of {list(lengths)} need {sum(need)} blocks of {total}; at most 4 sequences and 16 blocks"
        )
    kinds = ("compute", "memory", "network", "other")
    # dealt out in turn, as they are when sequences grow side by side
    order = [i for k in range(max(need)) for i in range(len(lengths)) if k < need[i]]
    where: list[list[int]] = [[] for _ in lengths]
    for block, i in enumerate(order):
        where[i].append(block)
    shapes: list[Shape] = [Words(8, 14, "sequences and their block tables", "start", 12)]
    side = 30.0
    for i, n in enumerate(lengths):
        y = 28 + 34.0 * i
        shapes.append(Words(8, y + 13, f"{n} tokens", "start", 12))
        shapes += blocks(78, y, 8, (side, 26), [(str(b), kinds[i]) for b in where[i]], size=12)
    top = 28 + 34.0 * len(lengths) + 26
    shapes.append(Words(8, top - 10, f"the cache: {total} blocks of {block_tokens} tokens", "start", 12))
    wide = 384 / (total // 2)
    for block in range(total):
        x, y = 8 + (block % (total // 2)) * wide, top + (block // (total // 2)) * 46
        used = block < len(order)
        owner = order[block] if used else 0
        shapes.append(Box(x, y, wide - 4, 40, kind=kinds[owner] if used else "plain", dashed=not used))
        if used:
            k = where[owner].index(block)
            here = min(block_tokens, lengths[owner] - k * block_tokens)
            cell = (wide - 10) / block_tokens
            shapes += [Box(x + 3 + t * cell, y + 20, cell - 2, 16, kind=kinds[owner], full=True) for t in range(here)]
        shapes.append(Words(x + 4, y + 10, str(block), "start", 12))
    empty = sum(need) * block_tokens - sum(lengths)
    alt = (
        f"{len(lengths)} sequences of {', '.join(map(str, lengths))} tokens in {sum(need)} of {total} blocks of {block_tokens} tokens, in any "
        f"order; tables say where. {empty} places in last blocks are empty."
    )
    return Scene(shapes, alt)


def _played(requests: Sequence[Request], config: Config) -> Simulation:
    return simulate(EqualSteps(), requests, config, keep_steps=True)


SMALL = (Request(0.0, 6, 5), Request(0.0, 6, 3), Request(0.0, 6, 8), Request(1.0, 6, 4), Request(2.0, 6, 3))


def batch_in_time(
    requests: Sequence[Request] = SMALL, max_num_seqs: int = 3, now: float | None = None, kv_blocks: int = 64
) -> Scene:
    """Requests as a simulator served them: waiting in grey, prompts in blue, tokens in green; a place is taken as soon as it is free."""
    if not 2 <= len(requests) <= 8:
        raise InputError(f"batch_in_time: {len(requests)} requests; a drawing shows 2 to 8")
    played = _played(requests, Config(max_num_seqs=max_num_seqs, kv_blocks=kv_blocks, max_num_batched_tokens=64))
    last = played.makespan + min(r.arrival for r in requests)
    end = last if now is None else now
    rows = []
    for i, record in enumerate(played.records):
        parts = [
            Stretch(record.request.arrival, record.scheduled, "", "waiting"),
            Stretch(record.scheduled, record.first_token, "", "compute", True),
            Stretch(record.first_token, record.finished, "", "memory"),
        ]
        rows.append((f"request {i}", [s._replace(end=min(s.end, end)) for s in parts if s.start < min(s.end, end)]))
    shapes = tracks(4, 34, 392, rows, until=last, names=76, height=20)
    shapes.append(Words(80, 14, "grey: waits; blue: its prompt; green: its tokens", "start", 12))
    low = 34 + 26.0 * len(requests)
    shapes.append(
        Arrow(
            [(80, low + 4), (396, low + 4)],
            f"steps; at most {max_num_seqs} requests at a time",
            width=1,
            beside=(0, 14),
        )
    )
    waited = [r.queue_s or 0.0 for r in played.records]
    alt = f"{len(requests)} requests on a server with {max_num_seqs} places, as simulated: they wait {', '.join(f'{w:g}' for w in waited)} steps."
    return Scene(shapes, alt)


def continuous_batching() -> Frames:
    """The same, as it happens."""
    says = [
        (1.0, "Three requests come at once and take all three places: their prompts are computed together."),
        (3.0, "Each step gives each a token. Two more requests have come, and wait."),
        (4.0, "Request 1 is done. Request 3 takes its place in the very next step; nobody waits for the whole batch."),
        (6.0, "So it goes on: whoever is done makes room."),
        (20.0, "The longest answer ends last, and held up nobody."),
    ]
    scenes = [batch_in_time(now=now) for now, _ in says]
    return Frames(scenes, [text for _, text in says], "Continuous batching, step by step")


def step_contents(budget: int = 8) -> Scene:
    """What each step works on when a long prompt comes: in chunks, so that the answers of others go on."""
    requests = (Request(0.0, 2, 9), Request(0.0, 2, 9), Request(1.5, 18, 3))
    config = Config(max_num_seqs=4, kv_blocks=64, max_num_batched_tokens=budget)
    log = _played(requests, config).log
    side, unit = 384 / len(log), 120 / budget
    shapes: list[Shape] = [Words(8, 14, "tokens of each step", "start", 12)]
    for i, step in enumerate(log):
        x, y = 8 + i * side, 150.0
        decode, prompt = step.decode_tokens * unit, step.prefill_tokens * unit
        shapes.append(Box(x, y - decode, side - 4, decode, kind="memory", full=True))
        shapes.append(Box(x, y - decode - prompt, side - 4, prompt, kind="compute", full=True))
    shapes += [
        Arrow([(8, 30), (392, 30)], kind="plain", width=1, head=False, dashed=True),
        Words(392, 22, f"at most {budget}", "end", 12),
        Words(8, 170, "blue: prompts, in chunks; green: a token per answer", "start", 12),
    ]
    chunks = [s.prefill_tokens for s in log if s.prefill_tokens]
    alt = f"Steps of a server with room for {budget} tokens: a long prompt is worked on in chunks of {', '.join(map(str, chunks[1:]))} tokens beside the answers of two others."
    return Scene(shapes, alt)


def one_request(queue: float, prefill: float, decode: float, tokens: int) -> Scene:
    """A request's life and the names of its times: TTFT, ITL, end to end."""
    if min(queue, prefill, decode) <= 0 or tokens < 2:
        raise InputError(
            f"one_request: queue, prefill, decode = {queue:g}, {prefill:g}, {decode:g}, tokens = {tokens}; give times above 0 and 2 tokens"
        )
    whole = queue + prefill + decode
    scale = 372 / whole
    first = 14 + (queue + prefill) * scale
    shapes: list[Shape] = [
        Box(14, 60, queue * scale, 40, "queue", "waiting", size=12),
        Box(14 + queue * scale, 60, prefill * scale, 40, "prompt", "compute", size=12),
    ]
    gap = decode * scale / (tokens - 1)
    shapes += [Box(first + i * gap, 60, gap, 40, "", "memory") for i in range(tokens - 1)]
    shapes += [
        Arrow([(14, 44), (first, 44)], "time to first token, TTFT", width=1.2, both=True, beside=(4, -12)),
        Arrow([(first + gap, 116), (first + 2 * gap, 116)], "", width=1.2, both=True),
        Words(first + 1.5 * gap, 134, "between tokens, ITL", size=12),
        Arrow([(14, 158), (386, 158)], "end to end, E2E", width=1.2, both=True, beside=(0, 16)),
        Words(14, 112, "arrives", "start", 12),
    ]
    alt = "A request on a line of time: it waits in the queue, its prompt is computed, the first token comes (TTFT), then one token after another (ITL) to the end (E2E)."
    return Scene(shapes, alt)


def queue_and_server(waiting: int = 4, concurrency: int = 3) -> Scene:
    """Arrivals, a queue, a server with concurrency, and departures."""
    if not (0 <= waiting <= 5 and 1 <= concurrency <= 4):
        raise InputError(
            f"queue_and_server: waiting = {waiting}, concurrency = {concurrency}; a drawing shows at most 5 and 4"
        )
    shapes: list[Shape] = [
        Arrow([(8, 80), (58, 80)], "λ", width=2),
        Box(62, 56, 140, 48, "", dashed=True),
        *[Box(178 - 27 * i, 66, 20, 28, kind="waiting", full=True) for i in range(waiting)],
        Arrow([(204, 80), (240, 80)], width=2),
        Box(242, 80 - 20 * concurrency - 6, 92, 40 * concurrency + 12, "", rounded=True),
        *[
            Box(252, 80 - 20 * concurrency + 40 * i + 4, 72, 32, "serves", "compute", size=12)
            for i in range(concurrency)
        ],
        Arrow([(336, 80), (392, 80)], width=2),
        Words(132, 126, "waits W_q", size=12),
        Words(30, 112, "come", size=12),
        Words(364, 112, "go", size=12),
    ]
    return Scene(shapes, f"Requests come, {waiting} wait in a queue, {concurrency} are served at a time, and go.")


def disaggregated(prefill: int = 2, decode: int = 3) -> Scene:
    """Prompts on some devices, answers on others, and the cache that travels between."""
    if not (1 <= prefill <= 3 and 1 <= decode <= 4):
        raise InputError(f"disaggregated: {prefill} and {decode} devices; a drawing shows at most 3 and 4")
    shapes: list[Shape] = [Words(70, 14, "prefill"), Words(330, 14, "decode")]
    for i in range(prefill):
        shapes.append(Box(20, 30 + 54 * i, 100, 42, "prompts", "compute", True, size=12))
    for i in range(decode):
        shapes.append(Box(280, 30 + 54 * i, 100, 42, "answers", "memory", True, size=12))
    mid = 30 + 27 * max(prefill, decode)
    shapes.append(Arrow([(124, mid), (276, mid)], "KV cache", "network", 6, beside=(0, -16)))
    shapes.append(Words(200, mid + 18, "once per request", size=12))
    return Scene(
        shapes,
        f"{prefill} devices compute prompts, {decode} give answers; the KV cache of each request travels once between them.",
    )


def prefix_tree() -> Scene:
    """Prompts that begin alike share the blocks of their beginning."""
    shapes: list[Shape] = [
        Arrow([(92, 90), (150, 46)], width=1.2),
        Arrow([(92, 90), (150, 134)], width=1.2),
        Arrow([(252, 46), (300, 26)], width=1.2),
        Arrow([(252, 46), (300, 74)], width=1.2),
        Box(8, 70, 92, 40, "instructions", "memory", full=True, size=12),
        Box(150, 26, 102, 40, "document A", "memory", size=12),
        Box(150, 114, 102, 40, "document B", "memory", size=12),
        Box(300, 8, 92, 34, "question 1", "compute", size=12),
        Box(300, 58, 92, 34, "question 2", "compute", size=12),
        Box(300, 117, 92, 34, "question 3", "compute", size=12),
        Arrow([(252, 134), (299, 134)], width=1.2),
        Words(8, 176, "green is computed once and found again", "start", 12, "memory"),
    ]
    return Scene(
        shapes,
        "A tree of prompts: the same instructions, then one of two documents, then a question. What is shared is computed once and kept.",
    )


_TURNS = (
    ("a first question, chat A", (("instructions", 3), ("A1", 5))),
    ("a first question, chat B", (("instructions", 3), ("B1", 6))),
    ("chat A goes on", (("instructions", 3), ("A1", 5), ("A2", 7))),
    ("a first question, chat C", (("instructions", 3), ("C1", 5))),
)


def prefix_tree_grows(capacity: int = 10) -> Frames:
    """Four prompts that meet the simulator's own prefix tree: what each finds, what it computes, and what falls off."""
    if not 10 <= capacity <= 12:
        raise InputError(f"prefix_tree_grows: capacity = {capacity}; the drawing tells of 10 to 12 blocks")
    tree, scenes, says = PrefixTree(capacity), [], []
    side, rows = 32, {"i": 76, "A": 32, "B": 76, "C": 120}
    for title, path in _TURNS:
        blocks_of = path[-1][1]
        found = tree.match(path, blocks_of)
        mine = {
            (name, at)
            for (name, end), begin in zip(path, (0, *(e for _, e in path)), strict=False)
            for at in range(begin, end)
        }
        before = {(names[-1], at) for names, start, held in tree.runs() for at in range(start, start + held)}
        tree.insert(path, blocks_of)
        tree.trim()
        kept = {(names[-1], at) for names, start, held in tree.runs() for at in range(start, start + held)}
        lost = before - kept
        shapes: list[Shape] = [Words(8, 12, title, "start", 13, bold=True)]
        for name, at in sorted(kept | lost):
            x, y = 8 + side * at + (32 if at >= 3 else 0), rows[name[0]]
            new, now = (name, at) not in before, (name, at) in mine and (name, at) in kept
            gone = (name, at) in lost
            kind = "plain" if gone else "compute" if new else "memory"
            shapes.append(Box(x, y, side - 4, 28, kind=kind, full=now, dashed=gone))
        for row in sorted({name[0] for name, _ in kept | lost} - {"i"}):
            last = max(at for name, at in kept | lost if name[0] == row)
            shapes.append(Arrow([(8 + 3 * side - 2, 90), (8 + 4 * side - 2, rows[row] + 14)], width=1.2))
            shapes.append(Words(8 + side * (last + 2) + 4, rows[row] + 14, f"chat {row}", "start", 12))
        shapes.append(Words(8, 118, "instructions", "start", 12))
        shapes.append(
            Words(8, 170, f"found {found}, computed {blocks_of - found}, kept {tree.blocks} of {capacity}", "start", 12)
        )
        fallen = f", and {len(lost)} of the branch that nobody used for longest fall off" if lost else ""
        scenes.append(
            Scene(
                shapes,
                f"A tree of blocks: {title}. {found} blocks of the prompt are found and {blocks_of - found} computed.",
            )
        )
        says.append(
            f"The prompt has {blocks_of} blocks: {f'{found} are found (full green)' if found else 'none is found'}, "
            f"{blocks_of - found} are computed (blue){fallen}."
        )
    return Frames(scenes, says, "A prefix tree that grows and sheds")
