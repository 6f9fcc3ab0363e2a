"""Many tokens, many requests, many runs: who is read, who is thrown out, who is left out."""

import math
import random
from collections.abc import Sequence

from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.course.pictures.serving.requests import EqualSteps
from mlsysim.drawing.scenes import Arrow, Box, Curve, Frames, Piece, Scene, Shape, Stretch, Words, bar, tracks
from mlsysim.errors import InputError
from mlsysim.memory import ServerMemory
from mlsysim.serving import Config, Limits, Request, quantile, simulate
from mlsysim.serving.blocks import FreeQueue, Job
from mlsysim.serving.fleet import Fleet, Link, ModelReplica, Servers, run, single
from mlsysim.serving.scheduler import Rank
from mlsysim.serving_steps import Batch, scattered_bandwidth

# Experts


def experts_read(tokens: int, experts: int = 32, top_k: int = 2, seed: int = 1) -> Scene:
    """The experts of a layer, and which of them some token of a step has to read."""
    if not (1 <= top_k <= 8 and top_k < experts <= 64 and 1 <= tokens <= 512):
        raise InputError(
            f"experts_read: tokens = {tokens}, experts = {experts}, top_k = {top_k}; a drawing shows up to 512, 64 and 8"
        )
    rng = random.Random(seed)
    rows = [0] * experts
    for _ in range(tokens):
        for e in rng.sample(range(experts), top_k):
            rows[e] += 1
    hit = sum(r > 0 for r in rows)
    side = 384 / 8
    shapes: list[Shape] = [
        Words(8, 14, f"{tokens} token{'s' * (tokens > 1)}, each to {top_k} of {experts} experts", "start", 12)
    ]
    for e, count in enumerate(rows):
        x, y = 8 + (e % 8) * side, 28 + (e // 8) * 34
        shapes.append(
            Box(
                x,
                y,
                side - 5,
                29,
                str(count) if count else "",
                "memory" if count else "plain",
                dashed=not count,
                size=12,
            )
        )
    low = 28 + math.ceil(experts / 8) * 34 + 12
    shapes.append(
        Words(8, low, f"read: {hit}; rows of each, on average: {tokens * top_k / hit:.1f}", "start", 12, "memory")
    )
    return Scene(
        shapes,
        f"{experts} experts as boxes. {tokens} tokens choose {top_k} each; {hit} experts are chosen by some token and must be read, "
        f"with {tokens * top_k / hit:.1f} rows each on average.",
    )


def experts_filling(tokens: Sequence[int] = (1, 8, 32, 128)) -> Frames:
    """The same as the batch grows: first more experts are read, then the same experts have more to do."""
    scenes = [experts_read(t) for t in tokens]
    says = []
    for t, scene in zip(tokens, scenes, strict=True):
        hit = sum(isinstance(s, Box) and not s.dashed for s in scene.shapes)
        says.append(
            f"With {t} token{'s' * (t > 1)} in the step, {hit} of 32 experts have to be read. The number in a box is its tokens."
        )
    return Frames(scenes, says, "Experts that a step reads as its batch grows")


def rows_in_tiles(rows: Sequence[int] = (16, 100, 200), tile: int = 128) -> Scene:
    """Rows of some experts' products in tiles of a fixed height: the rest of the last tile is work for nothing."""
    if not 1 <= len(rows) <= 4 or not all(1 <= r <= 3 * tile for r in rows):
        raise InputError(
            f"rows_in_tiles: {list(rows)} rows in tiles of {tile}; a drawing shows 1 to 4 experts of up to 3 tiles"
        )
    wide, most = 384 / len(rows), max(math.ceil(r / tile) for r in rows)
    tall = min(96.0, 210 / most)
    low = 28 + most * tall
    shapes: list[Shape] = [Words(8, 14, f"tiles of {tile} rows; blue: rows that a token needs", "start", 12)]
    for i, r in enumerate(rows):
        x = 8 + wide * i + 8
        for t in range(math.ceil(r / tile)):
            used = min(tile, r - t * tile) / tile
            shapes.append(Box(x, low - (t + 1) * tall, wide - 24, tall - 3, dashed=True))
            shapes.append(
                Box(x, low - t * tall - 3 - (tall - 3) * used, wide - 24, (tall - 3) * used, kind="compute", full=True)
            )
        whole = math.ceil(r / tile) * tile
        shapes.append(Words(x + (wide - 24) / 2, low + 22, f"{r} of {whole}\nrows: {r / whole:.0%}", size=12))
    return Scene(
        shapes,
        f"Experts with {', '.join(map(str, rows))} rows in tiles of {tile}: the multiplications of whole tiles are done, and the dashed rest is for nothing.",
    )


# A server's memory and its requests


def server_memory_bar(held: ServerMemory) -> Scene:
    """The memory of one device of a server as a bar to scale: what is loaded, what a step needs, what is left for the cache."""
    stage = max(held.stages, key=lambda s: s["weights_bytes"])
    capacity = held.device.usable_memory
    names = (
        ("weights", "weights_bytes", "compute"),
        ("activations of the trial step", "activation_bytes", "extra"),
        ("runtime", "non_torch_bytes", "waiting"),
        ("pool of the KV cache", "kv_pool_bytes", "memory"),
    )
    parts = [(text, float(stage[key]), kind) for text, key, kind in names]
    rest = capacity - sum(v for _, v, _ in parts)
    shapes: list[Shape] = [
        Words(12, 14, f"{held.model.name} on one device of {format_quantity(capacity, 'byte')}", "start", 12),
        *bar(12, 28, 376, 40, [Piece("", v, kind) for _, v, kind in parts], capacity),
    ]
    for i, (text, value, kind) in enumerate(parts):
        shapes.append(Box(12, 84 + 24 * i, 14, 14, kind=kind))
        shapes.append(Words(34, 91 + 24 * i, f"{text}: {format_quantity(value, 'byte')}", "start", 12))
    shapes.append(Box(12, 180, 14, 14, dashed=True))
    shapes.append(Words(34, 187, f"not taken by the server: {format_quantity(rest, 'byte')}", "start", 12))
    return Scene(
        shapes,
        "A device's memory to scale: "
        + ", ".join(f"{t} {format_quantity(v, 'byte')}" for t, v, _ in parts)
        + f", and {format_quantity(rest, 'byte')} that the server does not take.",
    )


def _held(rank: Rank, job: Job) -> int:
    """Blocks of a sequence that runs."""
    return -(-(job.base + rank.step) // rank.limits.block_tokens) if job.finish >= 0 else job.blocks


def thrown_out_and_back() -> Frames:
    """Three sequences in a small cache, as the scheduler played them: one is thrown out, and comes back when there is room."""
    limits = Limits(tokens=32, sequences=4, blocks=8, block_tokens=2)
    rank = Rank(EqualSteps(), limits, FreeQueue(limits.blocks, limits.block_tokens))
    people = [Job(i, 3, n) for i, n in enumerate((4, 6, 5))]
    rank.waiting.extend(people)
    kinds, names = ("compute", "memory", "other"), "ABC"
    now, shown = 0.0, []
    before = [p.preemptions for p in people]
    while rank.plan(now):
        rank.commit()
        held = {p.index: _held(rank, p) for p in people if p in rank.running}
        thrown = [i for i, p in enumerate(people) if p.preemptions > before[i]]
        before = [p.preemptions for p in people]
        shown.append((rank.step, held, [p.index for p in rank.waiting], thrown))
        now += 1.0
        rank.end(now)
    scenes, says = [], []
    for k, (step, held, waiting, thrown) in enumerate(shown):
        came = [i for i in held if k and i not in shown[k - 1][1]]
        if k and not thrown and not came and k + 1 < len(shown) and not (k + 1 < len(shown) and shown[k + 1][3]):
            continue
        cells = [(names[i], kinds[i]) for i in sorted(held) for _ in range(held[i])]
        shapes: list[Shape] = [Words(8, 14, f"step {step}: {len(cells)} of {limits.blocks} blocks in use", "start", 12)]
        for b in range(limits.blocks):
            text, kind = cells[b] if b < len(cells) else ("", "plain")
            shapes.append(Box(8 + 48 * b, 30, 42, 34, text, kind, dashed=b >= len(cells)))
        shapes.append(Words(8, 92, "waits:" if waiting else "nobody waits", "start", 12))
        for j, i in enumerate(waiting):
            shapes.append(Box(60 + 48 * j, 78, 42, 28, names[i], "waiting"))
        who = ", ".join(names[i] for i in sorted(held))
        scenes.append(
            Scene(
                shapes,
                f"Step {step}: {who} {'runs and holds' if len(held) == 1 else 'run and hold'} {len(cells)} of {limits.blocks} blocks.",
                tall=116,
            )
        )
        if thrown:
            says.append(
                f"Step {step}: a block is missing, so {names[thrown[0]]}, which started last, is thrown out and goes to the head of the queue."
            )
        elif came and waiting == []:
            says.append(
                f"Step {step}: there is room again, so {names[came[0]]} comes back, finds what nobody took, and computes the rest again."
            )
        elif k == 0:
            says.append(f"Step {step}: three prompts of three tokens take two blocks of two tokens each.")
        elif len(held) == 1:
            says.append(f"Step {step}: the others are done, and {who} has the cache to itself.")
        else:
            says.append(f"Step {step}: {who} run; every second token of each takes one more block.")
    return Frames(scenes, says, "A preemption, step by step")


def convoys(concurrency: int = 4, requests: int = 12, small: int = 9) -> Scene:
    """Equal requests on a full server, with a large and a small token budget: prompts in convoys, or spread over the steps."""
    if not (2 <= concurrency <= 6 and concurrency < small <= 24 and requests <= 24):
        raise InputError(
            f"convoys: concurrency = {concurrency}, requests = {requests}, small = {small}; a drawing shows 2 to 6, up to 24 and 24"
        )
    shapes: list[Shape] = []
    said_: list[str] = []
    for row, budget in enumerate((64, small)):
        log = simulate(
            EqualSteps(),
            [Request(0.0, 12, 7)] * requests,
            Config(max_num_seqs=concurrency, kv_blocks=200, max_num_batched_tokens=budget),
            keep_steps=True,
        ).log[:26]
        y = 112 + 126.0 * row
        unit = 80 / (12 * concurrency)
        side = 384 / 26
        shapes.append(Words(8, y - 98, f"a budget of {budget} tokens", "start", 12, bold=True))
        for i, step in enumerate(log):
            x, d, p = 8 + i * side, step.decode_tokens * unit, step.prefill_tokens * unit
            if d:
                shapes.append(Box(x, y - d, side - 2, d, kind="memory", full=True))
            if p:
                shapes.append(Box(x, y - d - p, side - 2, p, kind="compute", full=True))
        said_.append(
            f"with {budget} tokens {sum(s.prefill_tokens > 0 for s in log)} of {len(log)} steps hold prompt tokens"
        )
    shapes.append(Words(8, 256, "blue: tokens of prompts; green: a token per answer", "start", 12))
    return Scene(shapes, "Steps of a full server with equal requests: " + "; ".join(said_) + ".")


def two_largest(values: Sequence[float], q: float = 0.99, unit: str = "s") -> Scene:
    """A sample on a line, and where its quantile lies: of fifty, between the two largest."""
    if not 10 <= len(values) <= 100 or not 0.5 < q < 1:
        raise InputError(f"two_largest: {len(values)} values, q = {q:g}; give 10 to 100 and a quantile in (0.5, 1)")
    known = sorted(map(float, values))
    at = float(quantile(known, q))
    scale = 352 / known[-1]
    shapes: list[Shape] = [Arrow([(16, 92), (394, 92)], width=1)]
    stacked: dict[int, int] = {}
    for i, v in enumerate(known):
        place = round(v * scale / 7)
        stacked[place] = stacked.get(place, 0) + 1
        top = i >= len(known) - 2
        shapes.append(
            Box(13 + v * scale, 92 - 8.0 * stacked[place], 6, 6, kind="network" if top else "compute", full=True)
        )
    x = 16 + at * scale
    shapes += [
        Arrow([(x, 124), (x, 96)], width=1.5, kind="network"),
        Words(392, 134, f"the {q:.0%} quantile: {format_quantity(at, unit)}", "end", 12, "network"),
        Words(16, 106, "0", size=12),
    ]
    return Scene(
        shapes,
        f"{len(known)} values on a line from 0 to {format_quantity(known[-1], unit)}; the {q:.0%} quantile, {format_quantity(at, unit)}, lies between the two largest.",
    )


# Measuring and fitting


def leave_one_run_out(requests: Sequence[int]) -> Scene:
    """Runs of a measurement, one left out at a time: each is judged by a fit that has not seen it."""
    if not 3 <= len(requests) <= 8:
        raise InputError(f"leave_one_run_out: {len(requests)} runs; a drawing shows 3 to 8")
    n = len(requests)
    wide = 292 / n
    shapes: list[Shape] = [
        Words(100 + wide * n / 2, 14, f"runs, with {', '.join(map(str, requests))} requests", size=12)
    ]
    for fold in range(n):
        y = 28 + 26.0 * fold
        shapes.append(Words(92, y + 10, f"fit {fold + 1}", "end", 12))
        for place in range(n):
            out = place == fold
            text = ("test" if wide >= 40 else "?") if out else ""
            shapes.append(
                Box(100 + place * wide, y, wide - 4, 20, text, "network" if out else "compute", full=out, size=12)
            )
    low = 28 + 26.0 * n + 8
    shapes.append(Words(100, low, "blue: fitted to; orange: tested on", "start", 12))
    return Scene(
        shapes,
        f"{n} fits of {n} runs as a grid: each row leaves another run out of the fit, and that run is what the fit is tested on.",
    )


def blocks_in_memory(block: float, half: float, count: int = 4) -> Scene:
    """Reading some blocks in order and scattered, to scale: each scattered block has its own search."""
    if not 2 <= count <= 6 or min(block, half) <= 0:
        raise InputError(
            f"blocks_in_memory: block = {block:g}, half = {half:g}, count = {count}; give bytes above 0 and 2 to 6 blocks"
        )
    ordered = [Stretch(i * block, (i + 1) * block, "", "memory", True) for i in range(count)]
    apart: list[Stretch] = []
    for i in range(count):
        start = i * (block + half)
        apart += [
            Stretch(start, start + half, "search", "waiting"),
            Stretch(start + half, start + half + block, "", "memory", True),
        ]
    shapes = tracks(4, 14, 392, [("in order", ordered), ("scattered", apart)], names=76, height=32, gap=14, size=12)
    share = float(scattered_bandwidth(1.0, block, half))
    shapes.append(Arrow([(80, 108), (396, 108)], "time", width=1, beside=(0, 14)))
    shapes.append(
        Words(
            8,
            146,
            f"green: {format_quantity(block, 'byte')} move; the scattered ones get {share:.0%} of the rate",
            "start",
            12,
        )
    )
    return Scene(
        shapes,
        f"{count} blocks of {format_quantity(block, 'byte')} read one after another in order, and scattered, each after a search as long as moving "
        f"{format_quantity(half, 'byte')}: {share:.0%} of the bandwidth remain.",
    )


class _ByPrompt:
    """Step times for a drawing: a step of an answer, and more for each token of a prompt."""

    def time(self, batch: Batch) -> float:
        return 0.01 + 4e-5 * float(batch.prefill_tokens)


def pools_apart(
    prompts: Sequence[int] = (2000, 1000, 500), output_len: int = 9, bandwidth: float = 1.6e6, room: int = 10_000
) -> Scene:
    """Requests on a server that prefills and one that decodes, as a fleet played them: prompt, crossing of the cache, answer."""
    if not (1 <= len(prompts) <= 5 and 2 <= output_len <= 20 and bandwidth > 0 and all(0 < p <= 8000 for p in prompts)):
        raise InputError(
            f"pools_apart: prompts = {list(prompts)}, output_len = {output_len}, bandwidth = {bandwidth:g}; a drawing shows 1 to 5 "
            "prompts of up to 8,000 tokens, 2 to 20 tokens of answers, and a bandwidth above 0"
        )
    hosted = ModelReplica(_ByPrompt(), Config(max_num_batched_tokens=2048, kv_blocks=10_000))
    decode = ModelReplica(_ByPrompt(), Config(kv_blocks=room))
    found = run(
        Fleet(Servers((decode,)), Servers((hosted,)), Link(bandwidth, token_bytes=100.0)),
        single([Request(0.0, p, output_len) for p in prompts]),
    )
    rows = []
    for name, r in zip("ABCDE", found.records, strict=False):
        begun = r.finished - (output_len - 1) * 0.01
        rows.append(
            (
                f"{name}, {r.request.input_len:,}",
                [
                    Stretch(0.0, r.scheduled, "", "waiting"),
                    Stretch(r.scheduled, r.first_token, "prompt", "compute"),
                    Stretch(r.first_token, begun, "cache", "network"),
                    Stretch(begun, r.finished, "answer", "memory"),
                ],
            )
        )
    shapes: list[Shape] = [Words(8, 14, "each row a request, with the tokens of its prompt", "start", 12)]
    shapes += tracks(8, 30, 384, [(name, [s for s in row if s.end > s.start]) for name, row in rows], height=30, gap=10)
    shapes.append(Words(8, 30 + 40 * len(rows) + 10, f"all in {format_quantity(found.makespan, 's')}", "start", 12))
    each = "; ".join(
        f"{name} tokens: first token after {format_quantity(r.first_token, 's')}, done after {format_quantity(r.finished, 's')}"
        for (name, _), r in zip(rows, found.records, strict=True)
    )
    return Scene(
        shapes,
        f"{len(rows)} requests on two servers, one row each: a blue stretch for the prompt, then its cache crosses a link on which one goes "
        f"after the other, then a green one for the answer. {each}.",
    )


def where_to_measure() -> Scene:
    """What a simulation can be told by measurements: a benchmark enters before the kernels, a trace after the latencies."""
    shapes: list[Shape] = [
        Box(8, 88, 88, 44, "device and\nmodel", "plain", rounded=True, size=12),
        Box(132, 88, 76, 44, "kernels", "compute", rounded=True, size=12),
        Box(244, 88, 76, 44, "requests", "other", rounded=True, size=12),
        Arrow([(97, 110), (131, 110)], width=1.5),
        Arrow([(209, 110), (243, 110)], width=1.5),
        Arrow([(321, 110), (392, 110)], "latency", width=1.5, beside=(0, -10)),
        Box(96, 14, 148, 40, "benchmark of the\ndevice: Tier 2", "memory", rounded=True, size=12),
        Arrow([(170, 55), (170, 87)], "rates", "memory", 1.5, beside=(22, 0)),
        Box(244, 166, 148, 40, "trace of the\nserver: Tier 1", "network", rounded=True, size=12),
        Arrow([(356, 165), (356, 114)], "residual", "network", 1.5, beside=(-32, 4)),
        Words(8, 186, "without either: Tier 0", "start", 12),
    ]
    return Scene(
        shapes,
        "From device and model to kernels, requests and latency. A benchmark of the device gives the rates of kernels (Tier 2); a trace of "
        "the server gives what is left over at the end (Tier 1); without either it is Tier 0.",
    )


def constant_or_slope(per_token: float, tokens: Sequence[int] = (50, 200, 500)) -> Scene:
    """What a prediction misses, by the length of the answer: a slope meets all of it, one constant is too much or too little."""
    if not per_token > 0 or not 2 <= len(tokens) <= 5 or min(tokens) < 1:
        raise InputError(
            f"constant_or_slope: per_token = {per_token:g}, tokens = {list(tokens)}; give a time above 0 and 2 to 5 answers"
        )
    missing = [per_token * n for n in tokens]
    constant = sum(missing) / len(missing)
    scale = 210 / max(missing)
    shapes: list[Shape] = [Words(110, 14, "what is missing of the latency", "start", 12)]
    for i, (n, value) in enumerate(zip(tokens, missing, strict=True)):
        y = 28 + 34.0 * i
        shapes.append(Words(102, y + 12, f"{n} tokens", "end", 12))
        shapes.append(Box(110, y, value * scale, 24, kind="compute"))
        beside, line = 114 + value * scale, 110 + constant * scale
        if beside < line + 4 and line < beside + 44:
            beside = line + 6  # beside the line of the constant, not on it
        shapes.append(Words(beside, y + 12, format_quantity(value, "s"), "start", 12))
    each = [f"{format_quantity(v, 's')} for {n} tokens" for n, v in zip(tokens, missing, strict=True)]
    low = 28 + 34.0 * len(tokens)
    x = 110 + constant * scale
    shapes += [
        Curve([(x, 24), (x, low)], "network", 1.5, True),
        Words(x, low + 12, f"one constant: {format_quantity(constant, 's')}", size=12, kind="network"),
    ]
    return Scene(
        shapes,
        f"Bars of what a prediction misses: {', '.join(each)}. "
        f"One constant for all, {format_quantity(constant, 's')}, is too much for the short answers and too little for the long.",
    )
