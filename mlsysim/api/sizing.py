"""Replicas for a load: which layouts hold a model, what each carries within targets, and the one that takes the fewest devices."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from mlsysim import capacity, units
from mlsysim.api.arguments import pluralize
from mlsysim.api.asked import LENGTH_VARIATION, Asked
from mlsysim.api.prefixes import Prefixes
from mlsysim.api.targets import SLO
from mlsysim.capacity import Load, Replica
from mlsysim.capacity.routing import ROUTING, USUAL
from mlsysim.catalog import Machines, Model
from mlsysim.cost.rent import Rent
from mlsysim.errors import InputError
from mlsysim.inference import Deployment
from mlsysim.inference.solver import METHOD
from mlsysim.memory import ServerMemory
from mlsysim.memory.serving import release_of
from mlsysim.parallelism import Plan
from mlsysim.results import Result, format_value

INPUT_LEN, OUTPUT_LEN = 1024, 256  # assumed where nobody says
NARROWER = {"fp32": "bf16", "bf16": "fp8", "fp16": "fp8", "fp8": "fp4"}
ROUTERS = (*ROUTING, "prefix")  # the last one of conversations
_MOST_TP, _MOST_DEVICES = 64, 1024  # of a replica: beyond, nobody splits a model so, and the search would not end
_MOST_REPLICAS = 1 << 16
_ROUNDS = 3  # of load and cache: what runs takes room from what was said before


@dataclass(frozen=True, kw_only=True)
class ServeSpec(Asked, Result):
    """All inputs of an answer, so that it can be computed again with one of them changed."""

    rate: float | None = None
    mean_rate: float | None = None  # over the day, where rate is the peak
    input_len: float
    output_len: float
    batch: float = 1
    cached_len: float = 0
    prefixes: Prefixes | None = None  # of replicas under load
    tp: int | None = None
    pp: int | None = None
    dp: int = 1
    rent: Rent | None = None
    pue: float = 1.0
    length_variation: float = LENGTH_VARIATION
    routing: str = USUAL
    options: tuple[tuple[str, Any], ...] = ()  # of the server's memory, as memory.server_memory takes them

    @property
    def kept(self) -> Prefixes:
        """What prompts find in the cache."""
        return self.prefixes or Prefixes(
            self.input_len, self.output_len, self.cached_len, variation=self.length_variation
        )

    @property
    def sized(self) -> bool:
        """Whether replicas are asked for, not a single static batch."""
        return self.rate is not None or self.slo is not None


@dataclass(frozen=True)
class Option:
    """One layout of a replica: what it can do, or why it cannot."""

    tp: int
    pp: int
    deployment: Deployment
    replica: Replica | None = None
    load: Load | None = None
    infeasible_reason: str = ""

    @property
    def devices(self) -> int:
        """Devices of all replicas; of one where no load was put on it."""
        return self.deployment.devices * (self.load.replicas if self.load else 1)


@dataclass(frozen=True)
class Sized:
    """A question with the layout that answers it best; ``fits`` says whether the model goes into memory."""

    question: ServeSpec
    option: Option
    fits: bool
    reason: str  # why there is no answer; empty where there is one
    assumed: tuple[str, ...] = ()
    options: tuple[Option, ...] = field(default=(), repr=False)  # every layout that was tried

    @property
    def answered(self) -> bool:
        return self.fits and not self.reason

    @property
    def deployment(self) -> Deployment:
        """One replica."""
        return self.option.deployment

    @cached_property
    def memory(self) -> ServerMemory:
        """What each device of a replica holds: as a server takes it, or of a static batch out of the whole memory."""
        return _held(self.question, self.deployment)

    @property
    def load(self) -> Load | None:
        """The replicas under the rate; None without a rate or targets."""
        return self.option.load

    @property
    def replicas(self) -> int:
        return self.load.replicas if self.load else 1

    @property
    def devices(self) -> int:
        return self.option.devices

    @property
    def layout(self) -> str:
        """How the devices are used, in words."""
        d = self.deployment.split
        degrees = [f"{n.upper()}{int(getattr(d, n))}" for n in ("tp", "pp", "dp", "ep") if getattr(d, n) > 1]
        each = " ".join(degrees) or "one device"
        return f"{pluralize(self.replicas, 'replica')} of {each}"

    @cached_property
    def suggestions(self) -> tuple[str, ...]:
        """What would fit: more devices, narrower weights, fewer tokens."""
        return tuple(remedies(self.question))

    @property
    def method(self) -> str:
        """The method, and why ``simulate`` may differ, in a sentence."""
        if self.load is None:
            return METHOD
        return (
            "Method: closed forms of queues around one step model. 'simulate' plays the requests one by one with the same step "
            "model, so its percentiles differ where queues interact."
        )

    @cached_property
    def replica_of_all(self) -> Replica:
        """The replica with every place that memory holds, whether in pace or not."""
        return open_replica(self.question, self.deployment)

    def load_of(self, replicas: int) -> Load:
        """The same rate on another number of replicas."""
        load: Any = self.load
        return _loaded(self.question, load.replica, float(load.rate), replicas)

    def loads_at(self, rates: Sequence[float]) -> list[Load]:
        """The fewest replicas of this layout at other rates; a rate that no number of them carries is left out."""
        found: list[Load] = []
        for rate in rates:
            with suppress(_TooManyError):
                found.append(_fewest(self.question, self.option.load.replica, rate))  # type: ignore[union-attr]
        return found


def _degrees(q: ServeSpec) -> Iterator[tuple[int, int]]:
    """Layouts of a replica to try: tensor parallelism inside the domain, and pipelines only where nothing else holds the model."""
    most = min(q.machines.count or _MOST_DEVICES, _MOST_DEVICES)
    domain = domain_of(q)
    tps = [q.tp] if q.tp is not None else [2**k for k in range(7) if 2**k <= min(domain, most, _MOST_TP)]
    for tp in tps:
        if splits(q.model, tp, q.pp or 1):
            yield tp, q.pp or 1
    if q.pp is None and _networked(q):
        tp = q.tp or max((t for t in tps if splits(q.model, t, 1)), default=1)
        for pp in (2**k for k in range(1, 7)):
            if tp * pp * q.dp <= most and splits(q.model, tp, pp):
                yield tp, pp


def domain_of(q: ServeSpec) -> int:
    d = q.device
    if q.machines.cluster is not None:
        return q.machines.cluster.domain
    domain = d.scale_up_domain if d.has("scale_up_domain") else 1
    return 8 if domain == 1 and (q.inter_bandwidth is not None or d.has("host_bandwidth")) else domain


def _networked(q: ServeSpec) -> bool:
    """Whether a replica may leave its domain."""
    return q.inter_bandwidth is not None or (q.machines.nodes or 1) > 1


def splits(model: Model, tp: int, pp: int) -> bool:
    try:
        Plan(tp=tp, pp=pp).check(model)
    except InputError:
        return False
    return True


def _deployed(q: ServeSpec, tp: int, pp: int) -> Deployment:
    return q.deployed(tp, pp=pp, dp=q.dp, efficiencies=q.efficiencies)


def _held(q: ServeSpec, d: Deployment) -> ServerMemory:
    """What each device of a deployment holds: a server's share, or of a static batch all, with as many sequences as it has."""
    options = {"engine_version": release_of(q.server), **dict(q.options)}
    if not q.sized:
        options = {"gpu_memory_utilization": 1.0, "max_num_seqs": math.ceil(q.batch / d.split.dp)} | options
    if not q.model.n_attention_layers:
        options.setdefault("max_model_len", math.ceil(q.input_len + q.output_len))
    return d.server_memory(**options)


def _pool(held: ServerMemory) -> float:
    """Bytes for cache on the fullest device; negative when nothing is left for it."""
    return min(stage["kv_pool_bytes"] for stage in held.stages)


def _room(q: ServeSpec, d: Deployment) -> str:
    """Why a deployment holds no batch of the question; empty where it does."""
    held, batch = _held(q, d), d.split.dp if q.sized else q.batch
    cache = float(d.kv_memory(batch, q.input_len + q.output_len))
    if cache <= _pool(held):
        return ""
    beside = held.activations + held.runtime
    weights, besides, kv, room = (units.format(x, "byte") for x in (held.weight_memory, beside, cache, held.requested))
    each = "the device holds" if d.devices == 1 else f"each of {d.devices} devices holds"
    share = held.requested / d.device.usable_memory
    part = "" if share == 1 else f", {share:.0%} of its memory"
    return f"{weights} of weights, {besides} of activations and runtime, and {kv} of cache, where {each} {room}{part}"


def _replica(q: ServeSpec, d: Deployment, factor: float) -> Replica:
    """The replica, its times longer by a factor; places that would miss the pace are not used."""
    key = (id(d), q.kept, q.input_len, q.output_len, q.length_variation, q.server, q.options)
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = d, _timed(q, d)  # with what its key names, so that no other deployment takes that place
    made = _known[key][1]
    times, slower = tuple(factor * t for t in made.step_times), tuple(p.slower(factor) for p in made.prompts)
    made = replace(made, step_times=times, prompts=slower).hitting(q.kept.hit_rate)
    itl = q.slo.itl if q.slo is not None else None
    pace = made.max_running if itl is None else made.batch_in_pace(itl)
    return made.with_max_running(max(1, pace))


_MOST_KNOWN = 32


_known: dict[
    tuple[Any, ...], "tuple[Deployment, _Cached]"
] = {}  # one answer asks for the same with other targets and rates


def _timed(q: ServeSpec, d: Deployment) -> "_Cached":
    """The replica with all places that memory holds, and what prompts take beside its batches."""
    held = _held(q, d)
    asked = {
        "input_len": q.input_len, "output_len": q.output_len, "variation": q.length_variation, "shared_len": q.kept.shared_len,
        "usable": held.given["gpu_memory_utilization"], "reserve": held.requested - d.weight_memory - _pool(held),
    }  # fmt: skip
    made = capacity.replica_of(d, **asked, cached_len=q.kept.found)
    fit = capacity.sequences(d, **asked)
    room = float(fit.budget / fit.token_bytes) * d.split.dp
    budget = float(held.given["max_num_batched_tokens"])
    prompts = q.kept.prompts(d, float(fit.tokens) + q.kept.shared_len, made.step_times, budget)
    known = {f.name: getattr(made, f.name) for f in fields(Replica)}
    return _Cached(**known, prefixes=q.kept, prompts=prompts, room=room, held=float(fit.tokens))


def open_replica(q: ServeSpec, d: Deployment) -> Replica:
    """A replica with every place that memory holds, whether in pace or not."""
    return _replica(replace(q, slo=None if q.slo is None else replace(q.slo, itl=None)), d, 1.0)


@dataclass(frozen=True)
class _Cached(Replica):
    """A replica whose prompts find part of themselves in its cache."""

    prefixes: Any = None
    prompts: Any = ()  # one that finds its prefix, and one that does not
    room: float = 0.0  # tokens of the whole cache, the shared text left out
    held: float = 0.0  # of them by a running sequence
    hit_rate: float = 1.0

    def hitting(self, hit_rate: float) -> "_Cached":
        """The same where so many prompts find their prefix."""
        timed: _Cached = self.prefixes.timed(self, self.prompts, hit_rate)
        return replace(timed, hit_rate=hit_rate)

    def with_max_running(self, slots: int) -> "_Cached":
        fewer: Any = super().with_max_running(slots)
        found: _Cached = fewer.hitting(self.hit_rate)
        return found


def _loaded(q: ServeSpec, made: Any, rate: float, replicas: int) -> Load:
    slo = q.slo or SLO()

    def loaded(one: Any) -> Load:
        routing = (
            "random" if q.routing == "prefix" else q.routing
        )  # a replica keeps its conversations, which begin at random
        return capacity.load(one, rate, replicas, routing=routing, ttft=slo.ttft, itl=slo.itl, quantile=slo.quantile)

    found = loaded(made)
    if made.prefixes.turns is None:
        return found
    for _ in range(_ROUNDS):
        kept = made.prefixes.hits(rate / replicas, made.room, float(found.running) / replicas * made.held)
        less = made.hitting(kept)
        if rate >= replicas * less.capacity:
            raise _OverloadError(
                f"serve: the cache of {replicas} replicas keeps too few of the conversations for {rate:g} turns/s"
            )
        found = loaded(less)
    return found


class _OverloadError(InputError):
    """More prompts are lost from the cache than the replicas can compute again."""


def _fine(q: ServeSpec, made: Replica, rate: float, replicas: int) -> Load | None:
    """The load where it meets the targets."""
    try:
        found = _loaded(q, made, rate, replicas)
    except _OverloadError:
        return None
    return found if _meets(found, q.slo) else None


def _meets(load: Load, slo: SLO | None) -> bool:
    """Whether the share of the targets meets them; the last token of a request that is as late as that, too."""
    if slo is None:
        return True
    if slo.e2e is not None and load.ttft_quantile + load.replica.steps * load.itl > slo.e2e:
        return False
    on_time = float(1 - load.late)
    return on_time >= slo.quantile and bool(on_time * load.in_pace >= slo.quantile)


def _misses(q: ServeSpec, made: Replica) -> str:
    """Which target a lone request misses on an idle replica; empty where it meets all."""
    slo = q.slo or SLO()
    if slo.itl is not None and made.itl(1) > slo.itl:
        return f"ITL of {format_value(slo.itl, 's')} is missed by a batch of one, which takes {format_value(made.itl(1), 's')}"
    alone = _loaded(q, made, 1e-6 * made.throughput(1), 1)
    if _meets(alone, slo):
        return ""
    share = f"{100 * slo.quantile:g} %"
    if slo.ttft is not None and alone.late > 1 - slo.quantile:
        return (
            f"TTFT of {format_value(slo.ttft, 's')} is missed by a lone request: {share} of the prompts take up to "
            f"{format_value(alone.ttft_quantile, 's')}"
        )
    e2e = alone.ttft_quantile + made.steps * alone.itl
    return f"end to end, {format_value(slo.e2e or 0.0, 's')} is missed by a lone request, which takes {format_value(e2e, 's')}"


class _TooManyError(InputError):
    """A rate that no number of replicas within our bounds carries."""


def _fewest(q: ServeSpec, made: Replica, rate: float) -> Load:
    """The fewest replicas that carry the rate within the targets; a lone request is known to meet them."""

    def asked(n: int) -> Load | None:
        return _fine(q, made, rate, n)

    low = int(min(rate / made.capacity, 2.0 * _MOST_REPLICAS))
    high = low + 1
    while high > _MOST_REPLICAS or (best := asked(high)) is None:
        low, high = high, 2 * high
        if high > _MOST_REPLICAS:
            raise _TooManyError(
                f"rate = {rate:g} requests/s needs more than {_MOST_REPLICAS:,} replicas of {made.capacity:.3g}/s each; "
                "give a lower rate or weaker targets"
            )
    while high - low > 1:
        middle = (low + high) // 2
        found = asked(middle)
        low, high, best = (low, middle, found) if found is not None else (middle, high, best)
    return best


def _largest(q: ServeSpec, made: Replica, replicas: int) -> Load:
    """The largest rate that so many replicas carry within the targets."""
    low, high = 0.0, replicas * made.capacity
    best = _loaded(q, made, 1e-6 * made.throughput(1), replicas)
    for _ in range(30):
        middle = (low + high) / 2
        found = _fine(q, made, middle, replicas)
        low, high, best = (middle, high, found) if found is not None else (low, middle, best)
    return best


def _tried(q: ServeSpec, tp: int, pp: int, factor: float) -> Option:
    d = _deployed(q, tp, pp)
    if infeasible_reason := _room(q, d):
        return Option(tp, pp, d, infeasible_reason=infeasible_reason)
    if not q.sized:
        return Option(tp, pp, d)
    made = _replica(q, d, factor)
    if missed := _misses(q, made):
        return Option(tp, pp, d, made, infeasible_reason=missed)
    if q.rate is None:
        return Option(tp, pp, d, made, _largest(q, made, max(1, (q.machines.count or 0) // d.devices)))
    try:
        found = Option(tp, pp, d, made, _fewest(q, made, q.rate))
    except _TooManyError as error:  # with other degrees, or at a neighbour's rate, there may be an answer
        return Option(tp, pp, d, made, infeasible_reason=str(error))
    if q.machines.count is not None and found.devices > q.machines.count:
        return replace(
            found,
            infeasible_reason=f"{found.devices} devices are needed for {q.rate:g} requests/s within the targets, and there are "
            f"{q.machines.count}",
        )
    return found


def remedies(q: ServeSpec) -> Iterator[str]:
    """What would fit: computed from the memory alone, so a network that nobody named costs nothing."""
    d, tokens = q.device, q.input_len + q.output_len
    anywhere = replace(
        q, machines=Machines(d), tp=None, pp=None, inter_bandwidth=q.inter_bandwidth or d.memory_bandwidth
    )
    sizes = sorted(
        {
            (tp * pp, pp, tp)
            for tp in (2**k for k in range(7))
            for pp in (2**k for k in range(7))
            if tp <= max(8, domain_of(q))
        }
    )
    for size, pp, tp in sizes:
        if size > 1 and splits(q.model, tp, pp) and not _room(q, _deployed(anywhere, tp, pp)):
            layout = f"TP{tp}" + (f" PP{pp}" if pp > 1 else "")
            yield f"{size} x {d.name} ({layout}), the fewest"
            break
    for precision, weights in ((NARROWER.get(q.precision), None), (q.precision, "int4-g128")):
        if (
            precision is None
            or not d.has(f"peak_flops.{precision}")
            or (precision, weights) == (q.precision, q.weights)
        ):
            continue
        found = None if q.experts else _answer_fits(replace(q, precision=precision, weights=weights))
        if found is not None:
            yield f"{weights or precision} weights, on {pluralize(found.devices, 'device')}"
    short = replace(q, input_len=1, output_len=2)
    holding = [o for o in (_deployed(q, tp, pp) for tp, pp in _degrees(q)) if not _room(short, o)]
    if holding and _room(q, holding[-1]):  # where a layout holds the question, fewer tokens are no remedy
        low, high = 3.0, tokens
        while high - low > 1:
            middle = (low + high) // 2
            fits = not _room(replace(q, input_len=middle - 1, output_len=1), holding[-1])
            low, high = (middle, high) if fits else (low, middle)
        yield f"{low:g} tokens in all instead of {tokens:g}"
    told = dict(q.options)
    for few in (256, 64, 16) if "max_num_seqs" in told else ():
        fewer = replace(q, options=tuple((told | {"max_num_seqs": few}).items()))
        found = _answer_fits(fewer) if few < told["max_num_seqs"] else None
        if found is not None:
            yield f"{few} sequences at a time instead of {told['max_num_seqs']} (max_num_seqs), on {pluralize(found.devices, 'device')}"
            break


def suggestions_of(
    model: Model,
    machines: Machines,
    tokens: float,
    precision: str,
    weights: str | None,
    kv: str,
    experts: str | None = None,
    head: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """What would hold a model with a sequence of so many tokens, in a server with these options of ``memory.server_memory``."""
    question = ServeSpec(
        model=model, machines=machines, slo=SLO(), input_len=max(1, tokens - 1), output_len=1, precision=precision,
        weights=weights, experts=experts, head=head, kv=kv, options=tuple((options or {}).items()),
    )  # fmt: skip
    yield from remedies(question)


def _answer_fits(q: ServeSpec) -> Deployment | None:
    for tp, pp in _degrees(q):
        d = _deployed(q, tp, pp)
        if not _room(q, d):
            return d
    return None


def chosen(q: ServeSpec, factor: float = 1.0) -> tuple[Option, bool, str, tuple[Option, ...]]:
    """The best layout, times longer by a factor: of those that answer the fewest devices, of equal ones the smaller replica.

    And whether the model fits, why there is no answer, and every layout that was tried.
    """
    tried: list[Option] = []
    held = False
    for tp, pp in _degrees(q):
        if held and pp > (q.pp or 1):
            break  # a pipeline only where nothing else holds the model
        option = _tried(q, tp, pp, factor)
        tried.append(option)
        held = held or option.replica is not None or not option.infeasible_reason
        if held and not q.sized:
            break
    if not tried:
        raise InputError(
            f"serve: tp = {q.tp}, pp = {q.pp} cannot split {q.model.name}; leave them out to have them chosen"
        )
    good = [o for o in tried if not o.infeasible_reason]
    kept = tuple(tried)
    if good and q.slo is not None and q.rate is None:
        best = max(good, key=lambda o: float(o.load.rate) / o.devices if o.load else 0.0)
        return best, True, "", kept
    if good:
        return min(good, key=lambda o: (o.devices, o.deployment.devices)), True, "", kept
    held_ones = [o for o in tried if o.replica is not None]
    last = min(held_ones, key=lambda o: o.devices) if any(o.load for o in held_ones) else (held_ones or tried)[-1]
    return last, bool(held_ones), last.infeasible_reason, kept
