"""How a simulation shows itself: what bound the server, where the time of a request went, and when it was crowded."""

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

from mlsysim import units
from mlsysim.results import Report, labelled, share, shown
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing
    from mlsysim.serving.simulation import Simulation

_FULL, _NOTICED = 0.9, 0.05  # of a limit; of a request's time
_POINTS = 200


def parts(s: "Simulation") -> dict[str, float]:
    """Mean seconds of a served request: waiting, until its prompt is done, and from the first token to the last."""
    done = s.served
    if not done:
        return {}
    waiting, prompt = (math.fsum(s.values(name)) / len(done) for name in ("queue_s", "prefill_s"))
    answer = math.fsum(r.finished - r.first_token for r in done) / len(done)
    return {"waiting": waiting, "prompt": prompt, "answer": answer}


def bound(s: "Simulation") -> str:
    """What kept the server from being faster, in a sentence."""
    if not s.served:
        return "nothing was served"
    found, limits = parts(s), s.limits
    waited = found["waiting"] > _NOTICED * sum(found.values())
    blocks, tokens = s.most_blocks / limits.blocks, (s.prefill_tokens + s.decode_tokens) / s.steps
    if s.preemptions:
        return f"memory: the cache ran out of blocks, and {s.preemptions:,} times a sequence was thrown out"
    if waited and s.mean_batch >= _FULL * limits.sequences:
        return f"places: {s.mean_batch:.4g} of {limits.sequences} sequences decode in a mean step, others wait"
    if waited and blocks >= _FULL:
        return f"memory: up to {share(blocks)} of the cache in use, and requests wait"
    if waited and tokens >= _FULL * limits.tokens:
        return f"the budget of a step: {tokens:.4g} of {limits.tokens} tokens in a mean one, and requests wait"
    if s.utilisation >= _FULL:
        kind = "prompts" if s.prefill_tokens > limits.tokens * s.steps / 2 else "decode steps"
        queue = "requests wait for them" if waited else "hardly anything waits"
        return f"the time of its steps, mostly {kind}: one is under way {share(s.utilisation)} of the time, {queue}"
    return f"the load: no step is under way {share(1 - s.utilisation)} of the time"


def cache(s: "Simulation") -> str:
    """Prompt tokens asked for and worked on."""
    asked = sum(r.request.input_len for r in s.served)
    if not asked:
        return ""
    text = f"{asked:,} prompt tokens asked for, {s.prefill_tokens:,} computed"
    if s.prefill_tokens < asked:
        return f"{text}: {share(1 - s.prefill_tokens / asked)} found in the cache"
    return text + (f", {s.preemptions:,} sequences again" if s.prefill_tokens > asked else "")


def lines(s: "Simulation") -> list[str]:
    """At most a dozen lines, the latencies first."""
    done, rejected = s.served, [r for r in s.records if r.rejected]
    if not done:
        why = f"; {rejected[0].rejected}" if rejected else ""
        return labelled(f"no request served, {len(rejected)} rejected{why}", ("steps of", s.server))
    rows = s.summary()

    def spread(metric: str) -> str:
        found = rows[metric]
        if found["mean"] is None:
            return ""
        said = (f"{name} {shown(found[name], 's')}" for name in ("p50", "p90", "p99"))
        return f"mean {shown(found['mean'], 's')}, {', '.join(said)}"

    found = parts(s)
    whole = sum(found.values()) or 1.0
    mean, late = rows["ttft_s"]["mean"], rows["ttft_s"]["p99"]
    more = s.parts()
    refused = f", {len(rejected)} REJECTED: {rejected[0].rejected}" if rejected else ""
    return labelled(
        f"{len(done):,} requests in {shown(s.makespan, 's')}: first token after {shown(mean, 's')}, 99 % within {shown(late, 's')}"
        f"{refused}",
        ("binds", bound(s)),
        ("first token", spread("ttft_s")),
        ("between tokens", spread("itl_s")),
        ("end to end", spread("e2e_s")),
        ("of a request's time", ", ".join(f"{name} {share(t / whole)}" for name, t in found.items())),
        ("rate", f"{s.requests_per_s:.4g} requests/s, {shown(s.tokens_per_s, 'token/s')} of {s.replicas} replica(s)"),
        (
            "server",
            f"busy {share(s.utilisation)} of the time, {s.mean_batch:.4g} decode in a step, {s.preemptions} preemptions",
        ),
        *(more or [("cache", f"{share(s.most_blocks / s.limits.blocks)} in use at most; {cache(s)}")]),
        ("steps of", s.server),
        (
            "range",
            "none: no measured run of a fleet is behind it"
            if more
            else "none: errors of simulated latencies are told run by run (evidence.studies.ladder)",
        ),
    )


def chart(s: "Simulation") -> "Drawing | None":
    """Requests that wait and that run over time; then distributions of the latencies."""
    from mlsysim.drawing import DASHES, PALETTE, Chart, Line, Panels
    from mlsysim.drawing.shapes import distribution, readable

    done = s.served
    if not done:
        return None
    begin, end = min(r.request.arrival for r in done), max(r.finished for r in done)
    came, began, left = (
        sorted(values)
        for values in ([r.request.arrival for r in done], [r.scheduled for r in done], [r.finished for r in done])
    )
    times = [begin + i / _POINTS * (end - begin) for i in range(_POINTS + 1)]
    waiting = [float(max(0, bisect_right(came, t) - bisect_right(began, t))) for t in times]
    running = [float(max(0, bisect_right(began, t) - bisect_right(left, t))) for t in times]
    factor, unit = readable(end - begin, "s")
    x = [factor * (t - begin) for t in times]
    crowd = Chart(
        f"time ({unit})",
        "requests",
        [Line(x, running, "running", PALETTE[0], DASHES[0]), Line(x, waiting, "waiting", PALETTE[1], DASHES[1])],
        title="requests in the server",
        x_log=False,
        y_log=False,
        y_range=(0.0, 1.05 * max([1.0, *running, *waiting])),
    )
    first = distribution(
        "until the first token", {"first token": s.values("ttft_s"), "in the queue": s.values("queue_s")}, "time", "s"
    )
    pace = distribution("between tokens", {"mean of a request": s.values("itl_s")}, "time", "s")
    return Panels(crowd, *(panel for panel in (first, pace) if panel is not None))


def explained(s: "Simulation") -> Report:
    """What bound the server, where the time went, what the limits were, and whose the steps are."""
    found, limits = parts(s), s.limits
    whole = sum(found.values()) or 1.0
    latencies = [
        (name.removesuffix("_s"), *("-" if v is None else units.format(v, "s") for v in row.values()))
        for name, row in s.summary().items()
    ]
    went = [(name, units.format(t, "s"), share(t / whole)) for name, t in found.items()]
    steps = s.steps or 1
    each = [share(busy / s.clock) if s.clock else "0 %" for busy in s.busy]
    per_step = (s.prefill_tokens + s.decode_tokens) / steps
    server = [
        ("steps", f"{s.steps:,}", f"busy {', '.join(each[:8])}{' …' if len(each) > 8 else ''} of the time"),
        ("tokens of a step", f"{per_step:.4g}", f"at most {limits.tokens}"),
        ("decoding in a step", f"{s.mean_batch:.4g}", f"at most {limits.sequences} run"),
        ("blocks of cache", f"{s.most_blocks:,}", f"of {limits.blocks:,} at most, {limits.block_tokens} tokens each"),
        ("preemptions", f"{s.preemptions:,}", "a sequence loses its blocks and waits again"),
    ]
    refused: dict[str, int] = {}
    for r in s.records:
        if r.rejected:
            refused[r.rejected] = refused.get(r.rejected, 0) + 1
    return Report(
        f"bound by {bound(s)}" if s.served else "nothing was served",
        (
            table(("Metric", "Mean", "p50", "p90", "p99"), latencies),
            table(("A request's mean time", "Seconds", "Share"), went),
            table(("Server", "Found", "Limit"), server),
        ),
        [
            f"steps of {s.server}" if s.server else "",
            cache(s),
            *(f"rejected {n} x: {why}" for why, n in list(refused.items())[:5]),
        ],
    )
