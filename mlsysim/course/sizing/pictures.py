"""What an answer looks like: memory to scale, cost over the load, throughput against pace with the target, devices side by side.

Every picture is a reading: the drawing, its numbers, and a sentence that says what they mean here.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from mlsysim import units
from mlsysim.api.devices import Compared
from mlsysim.api.serving import Served
from mlsysim.api.sizing import open_replica
from mlsysim.course.readings import Reading
from mlsysim.course.views import axis_text, bar, bars, dot, scatter, trail
from mlsysim.drawing.shapes import sampled
from mlsysim.drawing.small import Curves, Part, Row, Rows, Trace
from mlsysim.drawing.style import ANSWER, COMPUTE, MEMORY, NETWORK, OTHER, WAITING
from mlsysim.memory import ServerMemory
from mlsysim.memory.fit import TrainingMemory
from mlsysim.tables import Table

_COLOURS = {"weights": MEMORY, "cache": ANSWER, "activations": COMPUTE, "runtime": OTHER, "gradients": NETWORK}
_COLOURS |= {"optimizer": OTHER, "buffers": ANSWER, "free": WAITING}
_LOADS, _BATCHES, _WAYS = 24, 40, 4  # points of a curve, and curves


def _memory(name: str, parts: Mapping[str, float], have: float, said: str) -> Reading:
    """What a device holds as a bar, to its end."""
    held = sum(parts.values())
    every = {n: v for n, v in parts.items() if v > 0} | ({"free": have - held} if have > held else {})
    pieces = [Part(n, v, _COLOURS[n]) for n, v in every.items()]
    over = "" if have >= held else f" That is {units.format(held - have, 'byte')} more than it has."
    picture = Rows(
        "memory of a device", [Row(name, pieces, "")], [(f"all of it: {units.format(have, 'byte', 3)}", have)]
    )
    return Reading(picture, *((n, v, "byte") for n, v in every.items()), note=said + over)


def server_memory(held: ServerMemory, said: str = "") -> Reading:
    """Memory of a device of a server, as it takes it."""
    p, g = held.parts, held.given
    parts = {
        "weights": p["weights"],
        "activations": p["activations"],
        "runtime": p["runtime"] + p["graphs"],
        "cache": p["cache"],
    }
    share = (
        f"The server takes {g['gpu_memory_utilization']:.0%} of the device, and fills with cache what the rest leaves."
    )
    return _memory(held.device.name, parts, float(held.device.usable_memory), said or share)


def training_memory(held: TrainingMemory, name: str) -> Reading:
    """Memory of the fullest device of a training run."""
    p = {n: float(v) for n, v in held.parts.items()}
    parts = {n: p[n] for n in ("weights", "gradients", "optimizer", "activations")} | {
        "buffers": p["gathered"] + p["passing"]
    }
    most = max(parts, key=lambda n: parts[n])
    said = f"The {most} take most, {parts[most] / sum(parts.values()):.0%} of what is counted."
    return _memory(name, parts, float(held.capacity), said)


def of_served(s: Served) -> Iterator[tuple[str, Reading]]:
    """The pictures of an answer for a service, each with its title."""
    yield "Memory of a device, to scale", _served_memory(s)
    if s.answered and s.load is not None:
        yield "Cost over the load", _cost(s)
        yield "The front: tokens a second against the time between tokens", _front(s)


def _served_memory(s: Served) -> Reading:
    if s.load is None:
        p, q = s.memory.parts, s.question
        cache = float(s.deployment.kv_memory(q.batch, q.input_len + q.output_len))
        parts = {"weights": p["weights"], "activations": p["activations"], "runtime": p["runtime"], "cache": cache}
        said = f"The cache of {q.batch:g} x {q.input_len + q.output_len:g} tokens stands at the end of the answers."
        return _memory(s.memory.device.name, parts, float(s.memory.device.usable_memory), said)
    made, running = s.load.replica, float(s.load.running) / s.replicas
    taken = min(1.0, running * made.held / made.room)  # type: ignore[attr-defined]
    said = f"The {running:.3g} requests that run on a replica at a time fill {taken:.0%} of its cache."
    return server_memory(s.memory, said)


def _cost(s: Served) -> Reading:
    """The bill over the rate, in the layout of the answer; of a fixed number of devices, the cost of a token."""
    q, load = s.question, s.load
    assert load is not None
    here = float(load.rate)
    if q.rate is None:
        return _cost_of_tokens(s, here)
    priced = s.bill.cost_rate is not None

    def amount(replicas: int) -> float:
        b = s.bill_of(replicas)
        return b.cost_rate * units.hour if b.cost_rate is not None else float(b.devices)

    loads = s.loads_at(sorted({here, *(2 * here * (i + 1) / _LOADS for i in range(_LOADS))}))
    steps = [(float(one.rate), amount(one.replicas)) for one in loads]
    unit, (xs, ys) = "USD/h" if priced else "devices", ([steps[0][0]], [steps[0][1]])
    for (a, before), (b, after) in pairwise(steps):
        if before != after:  # a step stands up
            xs += [(a + b) / 2, (a + b) / 2]
            ys += [before, after]
        xs.append(b)
        ys.append(after)
    at = amount(s.replicas)
    each = at / s.replicas / load.replica.capacity
    traces = [
        Trace("this service", ys, ANSWER),
        Trace("if its replicas were full", [each * x for x in xs], WAITING, True),
    ]
    text, name = axis_text("1"), f"cost of an hour ({unit})" if priced else "devices"
    picture = Curves(name, "requests per second", xs, traces, here, text, axis_text(unit), y_log=False)
    more = f"Targets and waiting cost {at / (each * here) - 1:.0%} more than full replicas would at this rate."
    numbers = [("at the rate asked for", at, unit), ("if its replicas were full", each * here, unit)]
    numbers += [("at twice the rate", ys[-1], unit)]
    return Reading(picture, *numbers, note=more)


def _cost_of_tokens(s: Served, here: float) -> Reading:
    tokens = s.tokens_per_s / here
    rate = s.bill.cost_rate
    unit = "device-seconds" if rate is None else "USD"
    per_second = 1e6 / tokens * (float(s.devices) if rate is None else rate)
    xs = [here * (i + 1) / _LOADS for i in range(_LOADS)]
    traces = [Trace("these devices", [per_second / x for x in xs], ANSWER)]
    picture = Curves(
        f"a million output tokens ({unit})", "requests per second", xs, traces, xs[-1], axis_text("1"), axis_text(unit)
    )
    numbers = [("at the largest rate", per_second / here, unit), ("at half of it", 2 * per_second / here, unit)]
    return Reading(
        picture,
        *numbers,
        note="The devices cost the same whether they work or wait, so half the load costs twice as much a token.",
    )


def _front(s: Served) -> Reading:
    """Tokens per second of a device against the time between tokens, of every layout that was tried."""
    q, load = s.question, s.load
    assert load is not None
    tried = [o for o in s.options if o.replica is not None][:_WAYS]
    colours = dict(zip((o.tp for o in tried), (COMPUTE, MEMORY, NETWORK, OTHER), strict=False))
    items = []
    for o in tried:
        made = open_replica(q, o.deployment)
        at = sampled(range(1, made.max_running + 1), _BATCHES)
        each = [made.throughput(n) * (made.steps + 1) / o.deployment.devices for n in at]
        words = f"TP{o.tp}" + (f" PP{o.pp}" if o.pp > 1 else "")
        items.append(trail(words, [made.itl(n) for n in at], each, colours[o.tp]))
    target = q.slo.itl if q.slo is not None else None
    here, now = s.tokens_per_s / s.devices, float(load.itl)
    most = max(max(t.y) for t in items)
    lines = [] if target is None else [trail("target", [target, target], [0.0, most], WAITING)]
    numbers = [("tokens a second and device", here, "token/s"), ("time between tokens", now, "s")]
    best = max(y for t in items for x, y in zip(t.x, t.y, strict=True) if target is None or x <= target)
    numbers += [] if target is None else [("target", target, "s")]
    numbers.append(("most that any layout gives" + (" within it" if target is not None else ""), best, "token/s"))
    within = "within the target" if target is not None else "at any pace"
    said = f"Each point of a line is a number of requests that run at a time. The answer gives {here / best:.0%} of the most {within}: the rest is room for requests that come unevenly."
    return scatter(("tokens a second and device", "token/s"), ("time between tokens", "s"), *items, *lines, dot("this answer", now, here), *numbers, said)  # fmt: skip


def of_compared(c: Compared) -> tuple[Reading, Table]:
    """Devices side by side: their bills as bars, with what their difference is worth; and a row each."""
    months = {s.question.device.name: s.bill.cost_per_month if s.answered else None for s in c.answers}
    priced = {n: m for n, m in months.items() if m is not None}
    if priced:
        rows, what = [bar(n, m) for n, m in priced.items()], ("USD a month", "USD")
    else:
        rows = [bar(s.question.device.name, float(s.devices)) for s in c.answers if s.answered]
        what = ("devices", "devices")
    same = (
        f"Bills at one kind of price for all ({c.kind}), which need not be that of the answer above."
        if c.rents
        else f"Bills: {c.kind}."
    )
    note = " ".join((same, *(f"{line[:1].upper()}{line[1:]}." for line in c.words)))
    return (bars(*what, *rows, note) if rows else Reading(None, note=note)), c.rows()
