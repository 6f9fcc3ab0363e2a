"""How an answer is made and what stands in its way: waste without a cache, bytes of a step, guesses, long prompts, queues, full caches."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlsysim import units
from mlsysim.drawing.scenes import Arrow, Box, Frames, Piece, Scene, Shape, Stretch, Words, bar, tracks
from mlsysim.errors import InputError
from mlsysim.serving import Config, Request, Simulation, simulate


def naive_generation(tokens: int = 4, new: int = 4) -> Scene:
    """Every new token computed from the whole text again: full colour is new work, light is work done before."""
    if not (2 <= tokens <= 6 and 2 <= new <= 5):
        raise InputError(f"naive_generation: tokens = {tokens}, new = {new}; a drawing shows 2 to 6 and 2 to 5")
    side = 26.0
    shapes: list[Shape] = []
    for step in range(new):
        y = 12 + step * 36.0
        length = tokens + step
        shapes.append(Words(8, y + 13, f"pass {step + 1}", "start", 12))
        for place in range(length):
            fresh = step == 0 or place == length - 1
            shapes.append(Box(70 + place * side, y, side - 3, side, kind="compute", full=fresh))
        end = 70 + length * side
        shapes.append(Arrow([(end, y + 13), (end + 22, y + 13)], width=1.2))
        shapes.append(Box(end + 24, y, side - 3, side, "?", dashed=True, size=12))
    low = 12 + new * 36.0 + 6
    computed, needed = sum(tokens + s for s in range(new)), tokens + new - 1
    shapes += [
        Words(8, low, f"{computed} tokens computed, {needed} of them for the first time", "start", 12),
        Words(8, low + 17, "light blue: the same work as in the pass before", "start", 12, "compute"),
    ]
    return Scene(
        shapes,
        f"{new} passes over a growing text, which begins with {tokens} tokens. Each computes all tokens again: {computed} in all, of which only {needed} are new.",
    )


def one_query_many_keys(tokens: int = 6) -> Scene:
    """What a new token needs of the earlier ones: their keys and values, not their queries."""
    if not 3 <= tokens <= 8:
        raise InputError(f"one_query_many_keys: tokens = {tokens}; a drawing shows 3 to 8")
    gap = 310 / tokens
    shapes: list[Shape] = []
    for row, (name, y) in enumerate((("query", 20.0), ("key", 96.0), ("value", 130.0))):
        shapes.append(Words(8, y + 13, name, "start", 12))
        for i in range(tokens):
            last = i == tokens - 1
            x = 66 + gap * i
            if row == 0 and not last:
                shapes.append(Box(x, y, gap - 6, 26, dashed=True))
            else:
                shapes.append(Box(x, y, gap - 6, 26, kind="compute" if last else "memory", full=last or row > 0))
    newest = 66 + gap * (tokens - 1) + (gap - 6) / 2
    shapes += [Arrow([(newest, 47), (66 + gap * i + (gap - 6) / 2, 94)], width=1.1) for i in range(tokens)]
    shapes += [
        Words(8, 176, f"green: kept from the {tokens - 1} tokens before", "start", 12, "memory"),
        Words(8, 193, "blue: computed for the new token; dashed: not needed any more", "start", 12),
    ]
    return Scene(
        shapes,
        f"{tokens} tokens with a query, a key and a value each. Only the newest query is there; arrows lead from it to the keys of all {tokens} tokens.",
    )


def bytes_of_a_step(
    model: str = "Llama-3.1-8B", device: str = "H100", context: int = 1000, batches: Sequence[int] = (1, 16, 64)
) -> Scene:
    """What decode steps read, to scale: the weights once for the whole batch, a cache for each sequence."""
    from mlsysim import inference

    if not 1 <= len(batches) <= 4:
        raise InputError(f"bytes_of_a_step: {len(batches)} batches; a drawing shows 1 to 4")
    d = inference.deploy(model, device, efficiencies="bound")
    w = d.work
    weights = float((w.layers * (w.attention_params + w.dense_params) + w.head_params) * d.split.weight_bytes)
    caches = [float(inference.decode_bytes(0.0, b, context, d.token_bytes)) for b in batches]
    whole = weights + max(caches)
    shapes: list[Shape] = [Words(8, 14, f"read in a step, {context:,} tokens of context each", "start", 12)]
    for i, (b, cache) in enumerate(zip(batches, caches, strict=True)):
        y = 28 + 62.0 * i
        pieces = [
            Piece(f"weights {units.format(weights, 'byte', 2)}", weights, "memory"),
            Piece(f"caches {units.format(cache, 'byte', 2)}", cache, "extra"),
        ]
        shapes += bar(8, y, 384, 28, pieces, whole, size=12)[:2]
        each = (weights + cache) / b
        text = f"{b} sequence{'s' * (b > 1)}: {units.format(each, 'byte', 2)} for each token"
        shapes.append(Words(8, y + 41, text, "start", 12, bold=True))
    return Scene(
        shapes,
        f"Bars to scale of what a decode step of {model} reads: always {units.format(weights, 'byte', 2)} of weights, and caches of "
        f"{', '.join(units.format(c, 'byte', 2) for c in caches)} for {', '.join(map(str, batches))} sequences.",
    )


@dataclass(frozen=True)
class PaidByToken:
    """Steps of one unit, or of as many as their tokens need: a pass that reads until it has enough to compute."""

    free: float = 4.0  # tokens that a unit of time computes

    def time(self, batch: Any) -> float:
        return float(max(1.0, batch.tokens / self.free))


def prompt_among_answers(input_len: int = 24, budget: int = 6) -> Scene:
    """A long prompt comes while others read their answers: whole, and in chunks, as the simulator plays both."""
    if not (8 <= input_len <= 32 and 4 <= budget < input_len):
        raise InputError(
            f"prompt_among_answers: input_len = {input_len}, budget = {budget}; a drawing shows up to 32 and 4 or more"
        )
    requests = (Request(0.0, 2, 14), Request(0.0, 2, 14), Request(2.5, input_len, 3))
    made: list[tuple[str, Simulation]] = []
    for name, tokens in (("whole", 4096), (f"in chunks: at most {budget} tokens a step", budget)):
        config = Config(max_num_seqs=4, kv_blocks=256, max_num_batched_tokens=tokens)
        made.append((name, simulate(PaidByToken(), requests, config, keep_steps=True)))
    last = max(s.log[-1].start + s.log[-1].duration for _, s in made)
    scale = 322 / last
    shapes: list[Shape] = []
    gaps: list[float] = []
    y = 14.0
    for name, played in made:
        steps, times = [], []
        for step in played.log:
            end = step.start + step.duration
            steps.append(Stretch(step.start, end, "", "compute" if step.prefill_tokens else "memory"))
            if step.decode_tokens:
                times.append(end)
        between = [b - a for a, b in pairwise(times)]
        gaps.append(max(between))
        at = between.index(gaps[-1])
        shapes.append(Words(8, y, name, "start", 12, bold=True))
        shapes += tracks(4, y + 12, 392, [("steps", steps)], until=last, names=70, height=26)
        marks = y + 48
        shapes.append(Words(66, marks + 8, "tokens", "end", 12))
        shapes += [Box(74 + t * scale - 2.5, marks, 5, 16, kind="memory", full=True) for t in times]
        shapes.append(
            Arrow(
                [(74 + times[at] * scale, marks + 24), (74 + times[at + 1] * scale, marks + 24)], width=1.2, both=True
            )
        )
        first = played.records[2].first_token
        shapes.append(
            Words(8, marks + 41, f"longest gap {gaps[-1]:.1f}; the prompt's first token at {first:.1f}", "start", 12)
        )
        y += 114
    shapes.append(Words(8, y - 4, "blue: a step with some of the prompt; green: none", "start", 12))
    return Scene(
        shapes,
        f"Two timelines of steps, with a mark for each token of somebody else's answer. With the prompt whole the longest gap is {gaps[0]:.1f} units, in chunks {gaps[1]:.1f}.",
    )


def speculation_in_time(guesses: int = 4, accepted: int = 2) -> Frames:
    """A draft guesses, the model checks in one pass, and what is right up to the first slip is kept."""
    if not 2 <= guesses <= 5 or not 0 <= accepted < guesses:
        raise InputError(
            f"speculation_in_time: guesses = {guesses}, accepted = {accepted}; a drawing shows 2 to 5, of which fewer are right"
        )
    own = [*"abcdefg"[:accepted], "x", *"?????"][: guesses + 1]
    stages = [
        ("draft", 1, "The small draft model guesses the next token, a, in one quick pass."),
        ("draft", guesses, f"It goes on from its own guess, one after another, until there are {guesses}."),
        (
            "check",
            guesses,
            "The large model reads all guesses in one pass, like a short prompt, and says after each what it would have said next.",
        ),
        (
            "keep",
            guesses,
            f"The first {accepted} agree. At the next place the model says x instead: its own token stands, and what was built on the wrong guess is dropped.",
        ),
        (
            "next",
            guesses,
            f"One pass of the large model has made {accepted + 1} tokens. The draft starts again from there.",
        ),
    ]
    scenes = [
        Scene(
            _guessed(stage, count, guesses, accepted, own),
            f"Speculative decoding, {stage}: {count} guesses of the draft above, the model's own tokens below, the answer last.",
            tall=176,
        )
        for stage, count, _ in stages
    ]
    return Frames(
        scenes,
        [says for *_, says in stages],
        f"Speculative decoding with {guesses} guesses, of which {accepted} are right",
    )


def _guessed(stage: str, count: int, guesses: int, accepted: int, own: Sequence[str]) -> list[Shape]:
    """Rows of the draft, of the model and of the answer, as far as the stage has come."""
    side, left = 48.0, 118.0
    kept = stage in ("keep", "next")
    shapes: list[Shape] = [
        Words(8, 34, "draft, small", "start", 12),
        Words(8, 92, "model, large", "start", 12),
        Words(8, 150, "the answer", "start", 12),
    ]
    for i in range(count):
        wrong = kept and i > accepted - 1
        look = "waiting" if wrong else "extra"
        shapes.append(Box(left + i * side, 20, side - 8, 28, "abcdefg"[i], look, dashed=wrong, size=12))
    for i in range(guesses + 1) if kept or stage == "check" else ():
        late = kept and i > accepted
        text = own[i] if i < len(own) and own[i] != "?" else ""
        look = "waiting" if late else "compute"
        shapes.append(Box(left + i * side, 78, side - 8, 28, text, look, dashed=late, size=12))
    for i in range(accepted + 1) if kept else ():
        x = left + i * side
        shapes.append(Box(x, 136, side - 8, 28, own[i], "memory", full=True, size=12))
        shapes.append(Arrow([(x + side / 2 - 4, 107), (x + side / 2 - 4, 135)], width=1.2))
    if stage == "next":
        shapes.append(Box(left + (accepted + 1) * side, 136, side - 8, 28, "…", dashed=True, size=12))
    return shapes


def who_is_met(lengths: Sequence[int] = (2, 2, 2, 8)) -> Scene:
    """Look at a random moment, and you meet the long ones more often: the mean over moments is above the mean over things."""
    if not 2 <= len(lengths) <= 6 or min(lengths) < 1:
        raise InputError(f"who_is_met: lengths = {list(lengths)}; a drawing shows 2 to 6, of 1 and more")
    total, mean = sum(lengths), sum(lengths) / len(lengths)
    met = sum(x * x for x in lengths) / total
    pieces = [Piece(f"{x}", x, "memory" if x < max(lengths) else "extra") for x in lengths]
    shapes = bar(8, 44, 384, 34, pieces, size=12)
    shapes += [
        Words(8, 14, "answers one after another, by their length", "start", 12),
        *(
            Arrow([(8 + 384 * (i + 0.5) / total, 24), (8 + 384 * (i + 0.5) / total, 43)], width=1.0)
            for i in range(total)
        ),
        Words(8, 96, f"mean of the answers: {mean:.1f}", "start", 12),
        Words(8, 114, f"mean of those that a random moment meets: {met:.1f}", "start", 12, bold=True),
    ]
    return Scene(
        shapes,
        f"Answers of lengths {', '.join(map(str, lengths))} in a row, with an arrow at every moment. Their mean is {mean:.1f}; the mean of the answer that an arrow meets is {met:.1f}.",
    )


def littles_area(requests: Sequence[Request] | None = None) -> Scene:
    """Little's law as an area: the same boxes counted by request and by moment."""
    some = requests or (
        Request(0.0, 6, 5),
        Request(1.0, 6, 3),
        Request(3.0, 6, 6),
        Request(4.0, 6, 3),
        Request(7.0, 6, 3),
    )
    from mlsysim.course.pictures.serving.requests import EqualSteps

    played = simulate(EqualSteps(), some, Config(max_num_seqs=8, kv_blocks=64, max_num_batched_tokens=64))
    stays = [(r.request.arrival, r.finished) for r in played.records]
    last = max(end for _, end in stays)
    area = sum(end - start for start, end in stays)
    rows = [(f"request {i}", [Stretch(a, b, f"{b - a:g}", "memory")]) for i, (a, b) in enumerate(stays)]
    shapes = tracks(4, 26, 392, rows, until=last, names=76, height=22)
    scale = 316 / last
    inside = [sum(a <= t + 0.5 < b for a, b in stays) for t in range(int(last))]
    low = 26 + 28.0 * len(stays)
    shapes.append(Words(72, low + 8, "inside", "end", 12))
    shapes += [Words(80 + (t + 0.5) * scale, low + 8, f"{n}", size=12, bold=True) for t, n in enumerate(inside)]
    shapes += [
        Words(80, 14, "time inside, request by request", "start", 12),
        Words(8, low + 32, f"rows: {len(stays)} requests × {area / len(stays):.1f} = {area:g}", "start", 12),
        Words(
            8, low + 49, f"columns: {last:g} moments × {sum(inside) / last:.2f} inside = {sum(inside):g}", "start", 12
        ),
    ]
    return Scene(
        shapes,
        f"{len(stays)} requests as bars over {last:g} units of time. By rows they stay {area:g} units in all; by columns the numbers inside add up to {sum(inside):g} as well.",
    )


def prompts_stop_answers(batch: int = 3, steps_between: int = 2) -> Scene:
    """A full batch: in the time in which all are replaced once, each is stopped by the prompts of the others."""
    if not (2 <= batch <= 4 and 1 <= steps_between <= 3):
        raise InputError(
            f"prompts_stop_answers: batch = {batch}, steps_between = {steps_between}; a drawing shows 2 to 4 and 1 to 3"
        )
    prompt = 1.6
    rows: list[tuple[str, list[Stretch]]] = [(f"place {i}", []) for i in range(batch)]
    now = 0.0
    for turn in range(batch):
        for i in range(batch):
            kind = "compute" if i == turn else "waiting"
            rows[i][1].append(Stretch(now, now + prompt, "prompt" if i == turn else "", kind, i == turn))
        now += prompt
        for _ in range(steps_between):
            for i in range(batch):
                rows[i][1].append(Stretch(now, now + 1.0, "", "memory"))
            now += 1.0
    n = batch * steps_between
    shapes = tracks(4, 30, 392, rows, names=60, height=26)
    low = 30 + 32.0 * batch
    shapes += [
        Words(64, 14, "blue: own prompt, grey: another's, green: a token", "start", 12),
        Arrow(
            [(64, low + 4), (396, low + 4)],
            f"all {batch} replaced once: {batch} prompts and n = {n} steps",
            width=1.2,
            both=True,
            beside=(0, 14),
        ),
    ]
    return Scene(
        shapes,
        f"{batch} places over one round: {batch} prompt passes and {n} decode steps. In each prompt pass one place works and the {batch - 1} others stand still.",
    )


def states_chain(concurrency: int = 4) -> Scene:
    """Requests inside as states: arrivals move up at one rate, completions down at a rate of the state."""
    if not 2 <= concurrency <= 5:
        raise InputError(f"states_chain: concurrency = {concurrency}; a drawing shows 2 to 5")
    gap = 384 / (concurrency + 1)
    side = min(40.0, gap - 28)
    shapes: list[Shape] = [Words(8, 14, "requests inside", "start", 12)]
    for n in range(concurrency + 1):
        x = 10 + gap * n
        shapes.append(Box(x, 56, side, 34, str(n), "memory", rounded=True))
        if n < concurrency:
            a, b = x + side, x + gap
            shapes.append(Arrow([(a, 64), (b, 64)], "λ", "compute", 1.8, beside=(0, -14)))
            shapes.append(Arrow([(b, 82), (a, 82)], f"X{n + 1}", "network", 1.8, beside=(0, 14)))
    shapes += [
        Words(8, 124, "blue: one more comes; orange: one is done", "start", 12),
        Words(8, 141, "over a long time, as many moves up as down", "start", 12),
    ]
    return Scene(
        shapes,
        f"States from 0 to {concurrency} requests in a row; arrows up are marked with the arrival rate, arrows down with the completion rate of the state.",
    )


def _tight() -> tuple[Simulation, int]:
    limit = 8
    requests = (Request(0.0, 8, 8), Request(0.0, 7, 9), Request(0.0, 6, 8))
    from mlsysim.course.pictures.serving.requests import EqualSteps

    config = Config(max_num_seqs=4, kv_blocks=limit, max_num_batched_tokens=64, block_tokens=4, prefix_caching=False)
    return simulate(EqualSteps(), requests, config, keep_steps=True), limit


def full_cache(now: int | None = None) -> Scene:
    """Blocks in use step by step, as simulated, until the cache is full and somebody is thrown out."""
    played, limit = _tight()
    log = played.log
    shown = len(log) if now is None else max(1, min(now, len(log)))
    side, unit = 384 / len(log), 100 / limit
    shapes: list[Shape] = [
        Arrow([(8, 40), (392, 40)], kind="plain", width=1, head=False, dashed=True),
        Words(392, 28, f"cache full: {limit} blocks", "end", 12),
        Words(8, 14, "blocks in use, by step", "start", 12),
    ]
    for i, step in enumerate(log[:shown]):
        x, high = 8 + i * side, step.blocks * unit
        shapes.append(Box(x, 140 - high, side - 3, high, kind="memory", full=step.waiting == 0))
        shapes.append(Words(x + side / 2 - 1, 152, str(step.running), size=12))
    shapes += [
        Words(8, 170, "numbers: requests running; light: one was thrown out", "start", 12),
    ]
    waits = [i for i, s in enumerate(log) if s.waiting]
    return Scene(
        shapes,
        f"Columns of blocks in use over {shown} steps. All {limit} blocks are taken at step {waits[0] if waits else 0}; one of three requests is thrown out and starts again when others end.",
        tall=182,
    )


def preemption() -> Frames:
    """The same as it happens."""
    played, _ = _tight()
    log = played.log
    first = next(i for i, s in enumerate(log) if s.waiting)
    back = next(i for i, s in enumerate(log) if i > first and not s.waiting)
    moments = [
        (1, "Three requests start together. Each has a prompt of two blocks, and the cache has room to spare."),
        (
            first,
            "Every few steps each of them needs one more block. The cache fills, while nobody has done anything wrong.",
        ),
        (
            first + 1,
            "There is no block left for the next token. The request that came last is thrown out (preempted), its blocks are freed, and it waits.",
        ),
        (back, "The other two go on until one of them is done; nothing of theirs was lost."),
        (
            len(log),
            "Now the third comes back. Its prompt and the tokens it had are computed once more: that is the price.",
        ),
    ]
    return Frames(
        [full_cache(n) for n, _ in moments], [says for _, says in moments], "Preemption when the cache is full"
    )
