"""Why the answer of a door is what it is: the chain from its number down to the source of every figure in it."""

from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from mlsysim._chains import chain, traced
from mlsysim._numeric.traced import called, given, made
from mlsysim.api.playing import Played
from mlsysim.api.prefixes import timed_batches
from mlsysim.api.sizing import Sized
from mlsysim.capacity import ASSUMPTIONS, Load
from mlsysim.capacity.batching import loaded_itl
from mlsysim.capacity.budget import concurrency, held_tokens, kv_budget
from mlsysim.capacity.queues import utilisation
from mlsysim.capacity.reasons import share_met, traced_replica
from mlsysim.efficiencies import describe
from mlsysim.inference import Deployment
from mlsysim.inference.equations import request_latency
from mlsysim.inference.reasons import reasons, traced_pace, traced_pass
from mlsysim.results import CALLER, Explanation
from mlsysim.serving_steps import Batch, StepModel
from mlsysim.serving_steps.mixed import MixedSteps

_MOST_SEQS = 256  # of replica_of
_PLAYED_AGAIN = 5_000  # requests up to which a run is played once more to see its steps


def why_served(s: Sized) -> Explanation:
    """Devices, or the largest rate, or the time of a static batch, down to the step that decides and the source of every rate."""
    d, q = s.deployment, s.question
    rates = describe(d.efficiencies.name, d.efficiencies.source)
    if s.load is None:
        return chain(f"{q.model.name} on {s.devices} x {q.device.name}: {s.layout}", _answer(s), (rates, s.method))
    tried = [
        f"{o.devices} devices as {_layout(o)}{': ' + o.infeasible_reason if o.infeasible_reason else ''}"
        for o in s.options
    ]
    notes = (
        f"Layouts tried: {'; '.join(tried)}.",
        _STATES,
        rates,
        s.method,
        *(f"Assumed: {text}" for text, _ in ASSUMPTIONS),
    )
    return chain(f"{q.model.name} on {s.devices} x {q.device.name}: {s.layout}", _sized(s, s.load), notes)


_STATES = (
    "In the lines: fewest_replicas is the first number whose share within the targets suffices, fewest_below_one the first whose "
    "utilisation is below one; at_batch(step, n) and each_batch(step) are the lines of the step with another batch; batch_full, batch_mean and "
    "batch_variance are of the birth-and-death chain whose throughput with n requests in a crowd of replicas is that of batch n / crowd; "
    "last(x) is the entry of the full batch and in_batches(x) the mean of the entries over the states, weighted by their throughputs; "
    "found_busy is the root of the equation of shared arrivals; "
    "added(x, prompt, cached, tokens, batches) sums the lines of x over the parts of a prompt, each as long as the tokens of a step less "
    "the answers beside it, for each of these batches, with straight lines between them, and mixed(h, x, y) is h x + (1 - h) y; share_in_pace is the share in time over the batches and lengths of answers."
)


def _layout(option: Any) -> str:
    return f"TP{option.tp}" + (f" PP{option.pp}" if option.pp > 1 else "")


def _answer(s: Sized) -> Any:
    """The time of a static batch on one replica."""
    d, q = s.deployment, s.question
    batch, prompt = given(float(q.batch), "batch", "1", CALLER), given(float(q.input_len), "input_len", "1", CALLER)
    cached, answer = (
        given(float(q.cached_len), "cached_len", "1", CALLER),
        given(float(q.output_len), "output_len", "1", CALLER),
    )
    first = traced_pass(d, batch, prompt - cached, cached, 0.0, "prompt pass")
    step = traced_pass(d, batch, 1, prompt + answer / 2.0 - 1, 1.0, "mean decode step")
    return request_latency(first, answer, step).called("end to end")


def _sized(s: Sized, load: Load) -> Any:
    """Devices of replicas under a load, or the largest rate that so many carry."""
    d, q, slo = s.deployment, s.question, s.question.slo
    r = load.replica
    prompt, answer = (
        given(float(q.input_len), "input_len", "1", CALLER),
        given(float(q.output_len), "output_len", "1", CALLER),
    )
    shared = given(q.kept.shared_len, "shared_len", "1", CALLER) if q.kept.shared_len else None
    varied = given(q.length_variation, "length_variation", "1", CALLER)
    tokens = held_tokens(prompt if shared is None else prompt - shared, answer, varied).called("tokens held")
    ranks = d.split.dp
    batch = given(float(max(r.max_running, ranks)), "batch", "1", "the places of a replica")
    step = traced_pass(
        d, batch, 1, (tokens if shared is None else tokens + shared) - 1, 1.0, f"step of {r.max_running}"
    )
    steps = (answer - 1.0).called("decode steps")
    added: Any = None
    if r.added_times:
        added = _added(s, load, prompt, step, tokens if shared is None else tokens + shared)
        first = made(r.added_times[-1], "last", {"x0": added}, unit="s").called("what a prompt adds to a full step")
    else:
        first = _prompt(s, load, prompt)
    slots = _places(s, load, first, step, steps, tokens)
    uneven = given(
        r.prompt_variation, "variation of a prompt's time", "1", "the variation of its length, played through"
    )
    made_of = traced_replica(r, first, step, steps, uneven, slots, _shared(r), added)
    targets = {n: given(v, f"target for {n.upper()}", "s", CALLER) for n, v in (slo.targets if slo else {}).items()}
    rate = given(float(load.rate), "rate", "1/s", CALLER)

    def met(one: Load, replicas: Any) -> Any:
        return share_met(one, made_of, rate, replicas, slots, targets)

    share = given(load.quantile, "share of the requests that meet the targets", "1", CALLER)
    if q.rate is None:
        count = given(load.replicas, "replicas", "1", "as many as the devices given make, or one")
        found = {"x0": rate, "x1": met(load, count), "x2": share}
        return made(float(load.rate), "largest_rate", found, unit="1/s").called("most requests per second")
    count = given(
        load.replicas, "replicas tried", "1", "one number after the other, until they carry the rate within the targets"
    )
    found = {"x0": count, "x1": met(load, count), **({"x2": share} if targets else {})}
    if load.replicas > 1:
        fewer = given(load.replicas - 1, "one replica fewer", "1", "the number tried before")
        if rate >= (load.replicas - 1) * r.capacity:
            full = utilisation(rate, fewer * made_of.capacity)
            found["x3"] = full.called(f"with {load.replicas - 1} replicas: utilisation")
        else:
            found["x4"] = met(s.load_of(load.replicas - 1), fewer)
    rule = "fewest_replicas" if targets else "fewest_below_one"
    replicas = made(load.replicas, rule, found, unit="1").called("replicas")
    each = given(
        d.devices, "devices of a replica", "1", f"the layout {_layout(s.option)}: of those tried, the fewest devices"
    )
    return (replicas * each).called("devices")


def _prompt(s: Sized, load: Load, prompt: Any) -> Any:
    """The prompt pass: what is not in the cache, on average over prompts that find their prefix and those that do not."""
    d, p, ranks = s.deployment, s.question.kept, s.deployment.split.dp
    hit: float = getattr(load.replica, "hit_rate", 1.0)

    def of(cached_len: float, name: str) -> Any:
        if not cached_len:
            return traced_pass(d, ranks, prompt, 0.0, 0.0, name)
        cached = given(float(cached_len), "cached_len", "1", CALLER)
        return traced_pass(d, ranks, prompt - cached, cached, 0.0, name)

    if hit == 1.0 or p.found == p.shared_len:
        return of(p.found, "prompt pass")
    share = given(hit, "hit rate", "1", "what the cache keeps until the next turn" if p.turns else CALLER)
    found, lost = of(p.found, "prompt pass after a hit"), of(p.shared_len, "prompt pass without")
    return (share * found + (1 - share) * lost).called("prompt pass")


def _added(s: Sized, load: Load, prompt: Any, step: Any, context: Any) -> Any:
    """What a prompt adds to each batch: the line of one step that it shares, and how the others follow from it."""
    d, p, r = s.deployment, s.question.kept, cast("Any", load.replica)
    batches = tuple(float(n) for n in timed_batches(s.replica_of_all.max_running))
    here = max(n for n in batches if n <= r.max_running)
    budget = given(float(s.memory.given["max_num_batched_tokens"]), "tokens of a step", "1", "the server's usual")
    again = "the other parts, prompts and batches by the same lines"
    answers = given(here, "answers beside", "1", f"one of the batches that are timed; {again}")
    new = given(
        min(p.input_len - p.found, max(1.0, float(budget) - here)),
        "new tokens beside",
        "1",
        f"of a first part; {again}",
    )
    before = given(float(p.found), "cached tokens beside", "1", f"before a first part; {again}")
    chunk, answer = Batch.of(d.model, [(new, before)]), Batch.of(d.model, decodes=[context])
    seen = {n: answers * getattr(answer, n) for n in ("context", "windowed_context")}
    name = f"step of {here:.0f} and a prompt"
    both = _mixed_step(d, replace(chunk, decodes=answers, **seen), name).called(name, apart=True)
    alone = made(s.replica_of_all.step_times[int(here) - 1], "at_batch", {"x0": step, "x1": answers})
    part = (both - alone).called(f"what a prompt adds to a step of {here:.0f}")
    timed = given(batches, "batches timed", "1", "each half as large again as the one before")

    def of(times: tuple[float, ...], cached_len: float) -> Any:
        found = {
            "x0": part,
            "x1": prompt,
            "x2": given(float(cached_len), "cached_len", "1", CALLER),
            "x3": budget,
            "x4": timed,
        }
        return made(times[: r.max_running], "added", found, unit="s")

    found = of(r.prompts[0].added, p.found)
    if r.hit_rate < 1.0:
        share = given(r.hit_rate, "hit rate", "1", "what the cache keeps until the next turn" if p.turns else CALLER)
        lost = of(r.prompts[1].added, p.shared_len)
        found = made(r.added_times, "mixed", {"x0": share, "x1": found, "x2": lost}, unit="s")
    return found.called("what a prompt adds to each batch")


def _mixed_step(d: Deployment, batch: Batch, name: str) -> Any:
    """The time of a step that prompts and answers share, with all that is behind it."""
    work, split, machine, rates = reasons(d)
    cost = MixedSteps(replace(d, work=work, split=split, machine=machine), rates).cost(batch)
    parts = (called(c.time, f"{name}: {n.replace('_', ' ')}") for n, c in cost.components.items())
    return traced_pace(d) * (sum(parts) + cost.reduced + cost.sent + cost.overhead)


def _shared(r: Any) -> Any:
    """Steps that a prompt shares with answers, or none."""
    return (
        given(r.prompt_steps, "steps that a prompt shares", "1", "its tokens over those of a step")
        if r.prompt_steps
        else 0.0
    )


def _places(s: Sized, load: Load, first: Any, step: Any, steps: Any, tokens: Any) -> Any:
    """Places of a replica: what memory holds, what the server is told, and how many are in pace."""
    d, q, r = s.deployment, s.question, load.replica
    held = s.memory
    usable = given(
        float(held.given["gpu_memory_utilization"]),
        "usable share of the memory",
        "1",
        "the server's gpu_memory_utilization",
    )
    reserve = held.requested - d.weight_memory - min(stage["kv_pool_bytes"] for stage in held.stages)
    if q.kept.shared_len:
        reserve += float(d.kv_memory(d.split.dp, q.kept.shared_len))
    budget = kv_budget(
        given(d.device.usable_memory, "device memory", "byte", d.device.origin("usable_memory")),
        given(d.weight_memory, "weights", "byte", f"{d.weights}, counted from the shape of {q.model.name}"),
        1.0,
        usable,
        given(
            reserve,
            "kept back",
            "byte",
            "activations, runtime and graphs of the server, as memory.server_memory has them; the shared prefix",
        ),
    ).called("memory for cache")
    token = float(d.kv_memory(d.split.dp, float(tokens)) / (-(-float(tokens) // d.block_tokens) * d.block_tokens))
    one = given(token, "cache of a token", "byte/token", f"{d.kv}, counted from the shape of {q.model.name}")
    room = (
        concurrency(budget, tokens, one, given(float(d.block_tokens), "tokens of a block", "1", "the server's"))
        * d.split.dp
    )
    told = given(float(_MOST_SEQS), "most sequences", "1", "the server's usual --max-num-seqs")
    places: tuple[Any, ...] = (room.called("sequences in memory"), told)
    if q.slo is not None and q.slo.itl is not None and r.max_running < min(int(room), _MOST_SEQS):
        target = given(q.slo.itl, "target for ITL", "s", CALLER)
        tried = given(float(r.max_running), "places tried", "1", "one number after the other, up to the target")
        cycle = steps + _shared(r)
        pace = loaded_itl(tried, first, step, cycle).called("time between tokens, full batch")
        later = made(s.replica_of_all.step_times[r.max_running], "at_batch", {"x0": step, "x1": tried + 1})
        more = loaded_itl(tried + 1, first, later, cycle).called("the same with one place more")
        aims = {"x0": tried, "x1": pace, "x2": more, "x3": target}
        places = (*places, made(float(r.max_running), "most_in_pace", aims, unit="1").called("places in pace"))
    return made(float(r.max_running), "min", {f"x{i}": x for i, x in enumerate(places)}).called("places of a replica")


def why_simulated(s: Played, notes: tuple[str, ...]) -> Explanation:
    """The 99th percentile of the time to the first token: the requests on either side of it, and the step that one waited for."""
    values = s.rows["ttft_s.p99"]
    title = f"{s.run.model.name}: time to the first token that 99 % of the requests do not exceed"
    if s.simulation is None:
        runs = [given(float(v), f"run of seed {seed}", "s", "played") for seed, v in zip(s.seeds, values, strict=True)]
        return chain(
            title, (sum(runs) / given(float(len(runs)), "runs", "1", CALLER)).called("mean of the runs"), notes
        )
    counted = s.run.window(s.simulation).records  # without ramp and drain
    served = sorted((r for r in counted if r.ttft_s is not None), key=lambda r: r.ttft_s or 0.0)
    place = (len(served) - 1) * 0.99
    around = [served[int(place)], served[min(int(place) + 1, len(served) - 1)]]
    log = _prompt_steps(s) if s.run.parts.plain and s.run.calibration is None and len(served) <= _PLAYED_AGAIN else []
    ends = [_first_token(s, r, log) for r in around]
    part = given(place % 1, "part of the way to the next", "1", "the place of 99 % among the requests that were served")
    return chain(title, (ends[0] + (ends[1] - ends[0]) * part).called("TTFT, p99"), notes)


@dataclass(frozen=True)
class _Logged(StepModel):
    """Step times that write down the steps with prompts."""

    log: list[tuple[Batch, float]] = field(default_factory=list, repr=False, compare=False)

    def time(self, batch: Batch) -> Any:
        found = super().time(batch)
        if batch.prefills:
            self.log.append((batch, float(found)))
        return found


def _prompt_steps(s: Played) -> list[tuple[Batch, float]]:
    """The steps with prompts of the run, played once more."""
    steps = s.run.steps()
    logged = _Logged(**{f.name: getattr(steps, f.name) for f in fields(steps) if f.init})
    s.run.play(s.seeds[0], steps=logged)
    return logged.log


def _first_token(s: Played, record: Any, log: list[tuple[Batch, float]]) -> Any:
    """The time to the first token of a request: the wait, and the step in which its prompt was computed, where one was enough."""
    name = f"request at {record.request.arrival:.6g} s"
    wait = given(
        float(record.queue_s), f"{name}: wait for a step", "s", "played: steps under way and prompts before it"
    )
    batch = next((b for b, t in log if abs(t - record.prefill_s) <= 1e-9 * t), None)
    steps = s.run.steps()
    if batch is None or steps.mixed is None:
        own = given(float(record.prefill_s), f"{name}: its steps", "s", "played: the steps that computed its prompt")
        return (wait + own).called(f"{name}: TTFT")
    asked = traced(batch, f"played: what the step of the {name} works on", name=f"{name}: {{}}")
    time = _mixed_step(steps.deployment, asked, name)
    called(time, f"{name}: step of its prompt", apart=True)
    return (wait + time).called(f"{name}: TTFT")
