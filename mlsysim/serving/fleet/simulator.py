"""The simulator: events in order of time, servers that step, caches that cross, servers that come and go."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from mlsysim.errors import InputError, unknown_name
from mlsysim.results import format_value, plain, share
from mlsysim.serving.blocks import Blocks, FreeQueue, Job, TreeBlocks
from mlsysim.serving.config import Config, Limits, StepTimes, limits
from mlsysim.serving.fleet.config import POLICIES, Autoscaler, Fleet, ModelReplica, Router, Servers
from mlsysim.serving.fleet.servers import Server, choose
from mlsysim.serving.fleet.traffic import Conversation
from mlsysim.serving.prefix_tree import ENDLESS, Path, PrefixTree
from mlsysim.serving.requests import Request
from mlsysim.serving.scheduler import Channel, Drafting, Rank
from mlsysim.serving.simulation import Records, Simulation, Step
from mlsysim.serving_steps import StepModel

# What happens at one time happens in this order.
_COMES, _ENDS, _ARRIVES, _LOOK, _READY = range(5)
# Ways to choose the replica of a request, by name: in turn; fewest requests in it, running or waiting; fewest waiting, then fewest
# running; at random. What its cache holds of a prompt is known of fleets alone.
ROUTING = tuple(policy for policy in POLICIES if policy != "prefix")


@dataclass(frozen=True)
class Scaled:
    """A server that came or went, or that was sent away while it started."""

    time: float  # s
    pool: str  # "serve", "prefill" or "decode"
    servers: int  # that serve from then on


@dataclass(frozen=True, repr=False)
class FleetResult(Simulation):
    """What :func:`run` returns: a simulation, and what the parts of the fleet did."""

    asked_tokens: int = 0  # of prompts, when they first came in
    found_tokens: int = 0  # of them that were in the cache of the devices
    loaded_tokens: int = 0  # of those, brought in from a tier
    evicted_blocks: int = 0  # that made room
    moved_bytes: float = 0.0  # of caches, from pool to pool
    link_wait: float = 0.0  # s, that caches waited for others on a link, all of them together
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    sequence_steps: int = 0  # sequences that decode, summed over the steps
    swaps: int = 0
    server_seconds: float = 0.0  # s, from its start to its end of every server
    scaling: tuple[Scaled, ...] = ()
    pools: Mapping[str, int] = field(default_factory=dict)  # servers at the beginning, by pool
    conversations: tuple[int, ...] = ()  # of each request
    turns: tuple[int, ...] = ()

    @property
    def utilisation(self) -> float:
        """Share of the time of all servers in which a step is under way."""
        return math.fsum(self.busy) / self.server_seconds if self.server_seconds else 0.0

    @property
    def mean_batch(self) -> float:
        """Sequences that decode in a step of one rank, on average over the steps."""
        return self.sequence_steps / self.steps if self.steps else 0.0

    @property
    def found_share(self) -> float:
        """Share of the prompts' tokens that were found, those that were loaded among them."""
        return self.found_tokens / self.asked_tokens if self.asked_tokens else 0.0

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a decode step yields for each sequence in it, on average."""
        return self.decode_tokens / self.sequence_steps if self.sequence_steps else 0.0

    def fleet(self) -> dict[str, Any]:
        """Numbers of the parts, SI units."""
        return dict(
            plain(
                {
                    "pools": dict(self.pools),
                    "asked_tokens": self.asked_tokens,
                    "found_tokens": self.found_tokens,
                    "loaded_tokens": self.loaded_tokens,
                    "evicted_blocks": self.evicted_blocks,
                    "moved_bytes": self.moved_bytes,
                    "link_wait_s": self.link_wait,
                    "drafted_tokens": self.drafted_tokens,
                    "accepted_tokens": self.accepted_tokens,
                    "tokens_per_step": self.tokens_per_step,
                    "swaps": self.swaps,
                    "server_seconds": self.server_seconds,
                    "scaling": [{"time_s": s.time, "pool": s.pool, "servers": s.servers} for s in self.scaling],
                }
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        return super().to_dict() | {"fleet": self.fleet()}

    def parts(self) -> list[tuple[str, str]]:
        """What the parts of the fleet did, a line for each that did something."""
        swaps = [f"{self.swaps:,} swaps of weights"] if self.swaps else []
        lines = [
            ("pools", ", ".join([*(f"{name} {n}" for name, n in self.pools.items()), *swaps])),
            (
                "prefix cache",
                f"{share(self.found_share)} of prompt tokens found, {self.loaded_tokens:,} of them loaded, "
                f"{self.evicted_blocks:,} blocks made room"
                if self.found_tokens or self.evicted_blocks
                else "",
            ),
            (
                "link",
                f"{format_value(self.moved_bytes, 'byte')} crossed, {format_value(self.link_wait, 's')} of waiting for others"
                if self.moved_bytes
                else "",
            ),
            (
                "speculation",
                f"{share(self.accepted_tokens / self.drafted_tokens)} of drafted tokens accepted, "
                f"{self.tokens_per_step:.3g} tokens a step"
                if self.drafted_tokens
                else "",
            ),
            (
                "servers",
                f"{len(self.scaling)} changes, at most {max(s.servers for s in self.scaling)} of a pool, "
                f"{format_value(self.server_seconds, 's')} of servers"
                if self.scaling
                else "",
            ),
        ]
        return [(name, text) for name, text in lines if text]


class Pool:
    """Servers of one kind, those that are starting, and those that leave."""

    def __init__(self, loop: "EventLoop", name: str, servers: Servers, count: int) -> None:
        self.loop, self.name, self.servers = loop, name, servers
        self.scaler: Autoscaler | None = servers.autoscaler
        self.limits = [h.limits for h in servers.hosted]
        self.serving: list[Server] = []
        self.starting: list[float] = []  # when each is ready
        self.changed = -math.inf
        self.routed, self.started = 0, count
        for _ in range(count):
            self.serving.append(loop.server(self, loop.first))

    def take(self, job: Job, router: Router, now: float) -> Server:
        """Give a request to a server."""
        serving = self.serving
        server = serving[choose(serving, router, job, self.routed)] if len(serving) > 1 else serving[0]
        self.routed += 1
        server.submit(job, router, now)
        return server

    def look(self, now: float, scaler: Autoscaler) -> None:
        """Start servers, or send some away."""
        asked = sum(s.load for s in self.serving)
        wanted = min(scaler.most, max(scaler.least, math.ceil(asked / scaler.target)))
        have = len(self.serving) + len(self.starting)
        if wanted > have:
            for _ in range(wanted - have):
                self.starting.append(now + scaler.start_up)
                self.loop.push(now + scaler.start_up, _READY, self, now)
            self.changed = now
        elif wanted < have and now - self.changed >= scaler.cool_down:
            self.changed = now
            for _ in range(have - wanted):
                if self.starting:
                    self.loop.cancelled(self.starting.pop(), now, self)
                    self.note(now)
                    continue
                place = min(range(len(self.serving)), key=lambda i: (self.serving[i].load, -i))
                leaving = self.serving.pop(place)
                leaving.draining = True
                if leaving.empty and not leaving.active:
                    leaving.until = now
                self.note(now)

    def ready(self, now: float, since: float) -> None:
        """A server that was started serves."""
        if now in self.starting:
            self.starting.remove(now)
            self.serving.append(self.loop.server(self, since))
            self.note(now)

    def note(self, now: float) -> None:
        self.loop.scaling.append(Scaled(now, self.name, len(self.serving)))


class Requests:
    """Requests that come by themselves: each finds what its trace says of its prompt."""

    single = True

    def __init__(self, requests: Sequence[Request], bounds: Limits) -> None:
        self.requests = requests
        self.rejected = {i: why for i, r in enumerate(requests) if (why := bounds.refusal(r.input_len, r.output_len))}
        come = (i for i in range(len(requests)) if i not in self.rejected)
        self.come = sorted(come, key=lambda i: requests[i].arrival)

    def job(self, index: int) -> Job:
        """The request as a server has it."""
        r = self.requests[index]
        return Job(index, r.input_len, r.output_len, r.cached_len)

    def next_turn(self, index: int) -> float | None:
        """There is none."""
        return None


class Turns:
    """Conversations: a request for each turn, in their order, which finds what the cache still holds of its text."""

    def __init__(
        self, traffic: Sequence[Conversation], fleet: Fleet, bounds: Sequence[Sequence[Limits]], block: int
    ) -> None:
        self.traffic, self.block = traffic, block
        self.model_of = {name: i for i, name in enumerate(fleet.servers.models)}
        self.requests: list[Request] = []
        self.rejected: dict[int, str] = {}
        self.places: list[tuple[int, int]] = []  # of each request: its conversation, and which turn it is
        opened = []
        for conversation, c in enumerate(traffic):
            if c.model not in self.model_of:
                raise unknown_name("model of a conversation", c.model, tuple(self.model_of))
            model, why = self.model_of[c.model], ""
            opened.append(len(self.requests))
            for turn, (size, t) in enumerate(zip(c.prompts, c.turns, strict=True)):
                if why:
                    why = "the turn before it was refused"
                else:
                    why = bounds[-1][model].refusal(size, t.output_len) or (
                        bounds[0][model].refusal(size, 1) if len(bounds) > 1 else ""
                    )
                if why:
                    self.rejected[len(self.requests)] = why
                self.requests.append(Request(c.start if turn == 0 else 0.0, size, t.output_len))
                self.places.append((conversation, turn))
        self.come = sorted((i for i in opened if i not in self.rejected), key=lambda i: self.requests[i].arrival)
        self.single = len(traffic) == len(self.requests)

    def job(self, index: int) -> Job:
        """The request as a server has it."""
        r, (conversation, turn) = self.requests[index], self.places[index]
        job = Job(index, r.input_len, r.output_len)
        job.path, job.model = self.path(conversation, turn), self.model_of[self.traffic[conversation].model]
        return job

    def path(self, conversation: int, turn: int = 0) -> Path:
        """The text of a conversation, in blocks; what was forgotten or summed up by that turn makes it another text."""
        c = self.traffic[conversation]
        trunk = c.shared_len // self.block
        times = c.rewritten[turn] if c.history_len else 0
        own = (f"\n{conversation}" + (f"\n{times}" if times else ""), ENDLESS)
        return ((c.shared, trunk), own) if trunk else (own,)

    def next_turn(self, index: int) -> float | None:
        """How long after a request the next of its conversation comes."""
        conversation, turn = self.places[index]
        turns = self.traffic[conversation].turns
        if turn + 1 < len(turns) and index + 1 not in self.rejected:
            return turns[turn + 1].pause
        return None


class EventLoop:
    """The state of a run: what is to happen, by time.

    Parameters
    ----------
    sticky : bool
        Whether in a closed loop the next request comes to the server where one has ended, or to that which the router chooses.
    told : bool
        Whether the requests say what they find in the prefix cache.
    log : list, optional
        Of every step, each planned by itself; for servers of one rank.
    """

    def __init__(
        self,
        fleet: Fleet,
        first: float,
        concurrency: int | None,
        *,
        sticky: bool = False,
        told: bool = False,
        log: list[Step] | None = None,
    ) -> None:
        self.fleet, self.first, self.concurrency = fleet, first, concurrency
        self.sticky, self.told, self.log = sticky, told, log
        self.heap: list[tuple[float, int, int, Any, Any]] = []
        self.serial = 0
        self.servers: list[Server] = []
        self.scaling: list[Scaled] = []
        self.extra = 0.0  # s of servers that were sent away before they served
        self.stores: dict[tuple[int, int], PrefixTree] = {}
        self.apart = fleet.prefill is not None
        self.pools: list[Pool] = []
        for i, servers in enumerate(fleet.pools):
            scaler = servers.autoscaler
            count = servers.replicas if scaler is None else scaler.least
            name = ("prefill", "decode")[i] if self.apart else "serve"
            self.pools.append(Pool(self, name, servers, count))
        self.bounds = [pool.limits for pool in self.pools]
        blocks = {bound.block_tokens for pool in self.bounds for bound in pool}
        if len(blocks) > 1:
            raise InputError(f"Fleet: block_tokens differ, {sorted(blocks)}; give every model and pool the same")
        self.block = blocks.pop()
        self.handoff = Router(
            fleet.router.policy if fleet.router.policy == "prefix" else "least-loaded", fleet.router.imbalance
        )

    def push(self, time: float, kind: int, one: Any, other: Any, order: int | None = None) -> None:
        if order is None:
            self.serial += 1
            order = self.serial
        heappush(self.heap, (time, kind, order, one, other))

    def cancelled(self, ready: float, now: float, pool: Pool) -> None:
        """A server that was starting is sent away."""
        assert pool.scaler is not None
        self.extra += now - (ready - pool.scaler.start_up)

    def server(self, pool: Pool, since: float) -> Server:
        """A new server of a pool."""
        units = [
            [self._rank(pool, model, hosted) for _ in range(pool.servers.ranks)]
            for model, hosted in enumerate(pool.servers.hosted)
        ]
        self._tiers(units)  # a tier of a server's own is one for all its ranks
        found = Server(len(self.servers), pool.servers, units, since, self.log)
        self.servers.append(found)
        for rank in found.ranks:
            rank.home = found.place
        return found

    def _rank(self, pool: Pool, model: int, hosted: ModelReplica) -> Rank:
        bounds, cache, link, each = pool.limits[model], self.fleet.cache, None, 0.0
        if self.apart:
            each = hosted.token_bytes(self.fleet.link.token_bytes, "Link")
        elif cache is not None and cache.tiers:
            each = hosted.token_bytes(cache.token_bytes, "Cache")
        if pool.servers is self.fleet.prefill:
            link = Channel(self.fleet.link.bandwidth, self.fleet.link.latency, self.fleet.link.layers)
        blocks, loading = Blocks(bounds.blocks, bounds.block_tokens), "recompute"
        if bounds.prefix_caching and self.told:
            blocks = FreeQueue(bounds.blocks, bounds.block_tokens)
        elif bounds.prefix_caching and cache is not None and cache.blocks != 0:
            blocks, loading = TreeBlocks(bounds.blocks, bounds.block_tokens, cache.blocks), cache.loading
        parts = (hosted.steps, bounds, blocks, link, each, loading)
        if (s := hosted.speculation) is not None and s.draft_len:
            rank: Rank = Drafting(*parts, survival=s.survival, seed=s.seed, draft=s.draft, share=s.draft_share)
        else:
            rank = Rank(*parts)
        rank.stepwise = self.apart
        return rank

    def _tiers(self, units: Sequence[Sequence[Rank]]) -> None:
        for model, unit in enumerate(units):
            for at, tier in enumerate(self.fleet.cache.tiers if self.fleet.cache is not None else ()):
                store = PrefixTree(tier.blocks)
                if tier.shared:
                    store = self.stores.setdefault((at, model), store)
                channel = Channel(tier.bandwidth, tier.latency)
                for rank in unit:
                    if isinstance(rank.blocks, TreeBlocks):
                        rank.tiers.append((store, channel))

    # The run

    def play(self, traffic: Requests | Turns, advance: Callable[[int], Any]) -> Records:
        """Event after event; a record of each request.

        A server plays by itself up to the next event. What others do in between is none for servers that share nothing but the list
        of what comes: with step times of its own kind alone, since those of somebody else are asked for in the order in which steps begin.
        """
        self.traffic, self.requests, self.advance = traffic, traffic.requests, advance
        self.records = Records.open(self.requests, traffic.rejected)
        self.woken: dict[int, Server] = {}  # that may begin a step now
        self.open, closed = len(traffic.come), self.concurrency
        self.left = iter(traffic.come)
        for pool in self.pools:
            if pool.scaler is not None:
                self.push(self.first + pool.scaler.every, _LOOK, pool, None)
        cache, pools = self.fleet.cache, self.pools
        self.meet = self.apart or (cache is not None and bool(cache.tiers))
        own = all(type(h.steps) is StepModel for p in pools for h in p.servers.hosted)
        self.lonely = own and traffic.single and not (self.meet or any(p.scaler for p in pools))
        self.lonely = self.lonely and (closed is None or self.sticky)
        self.through = self.lonely and closed is None
        first = self.left if closed is None else islice(self.left, closed)
        coming = ((0.0 if closed is not None else self.requests[i].arrival, i) for i in first)
        if self.lonely and len(self.ranks) == 1 and self.log is None:
            self._solo(self.servers[0], coming)
        heap, never = self.heap, (math.inf, -1)
        arrival, index = next(coming, never)
        while self.open and (heap or index >= 0):
            now = heap[0][0] if heap and heap[0][0] < arrival else arrival
            while arrival <= now and index >= 0:
                self._comes(index, now)
                arrival, index = next(coming, never)
            while heap and heap[0][0] == now:
                self._happens(now)
            while woken := self.woken:
                server = woken.popitem()[1] if len(woken) == 1 else woken.pop(min(woken))
                if not server.active:
                    self._begin(server, now, arrival)
        return self.records

    def _solo(self, server: Server, coming: Iterator[tuple[float, int]]) -> None:
        """The same of a lone rank: no event is but its own."""
        job, never = self.traffic.job, (math.inf, -1)
        arrival, index = next(coming, never)
        now = arrival
        while now < math.inf:
            while arrival <= now:
                server.submit(job(index), self.fleet.router, now)
                arrival, index = next(coming, never)
            if (end := server.begin(now, arrival, self.through)) is None:
                now = arrival
                continue
            server.end(end)
            self._ended(server, end)
            now = end

    @property
    def ranks(self) -> list[Rank]:
        """Of all servers."""
        return [rank for server in self.servers for rank in server.ranks]

    def totals(self) -> dict[str, Any]:
        """What a simulation tells of its records and servers."""
        ranks, steps = self.ranks, self.fleet.servers.hosted[0].steps
        return {
            "records": self.records,
            "limits": self.pools[-1].limits[0],
            "replicas": sum(p.started for p in self.pools),
            "busy": tuple(s.busy for s in self.servers),
            "steps": sum(r.step for r in ranks),
            "prefill_tokens": sum(r.prefill_tokens for r in ranks),
            "decode_tokens": sum(r.decode_tokens for r in ranks),
            "preemptions": sum(r.preemptions for r in ranks),
            "most_blocks": max(r.most_blocks for r in ranks),
            "clock": self.records.makespan,
            "log": tuple(self.log or ()),
            "server": str(getattr(steps, "words", type(steps).__name__)),
        }

    def _comes(self, index: int, now: float, server: Server | None = None) -> None:
        """A request comes, to a server or to that which the router chooses."""
        if self.requests[index].arrival != now:
            self.requests[index] = replace(self.requests[index], arrival=now)  # type: ignore[index]
        job = self.traffic.job(index)
        if server is None:
            server = self.pools[0].take(job, self.fleet.router, now)
        else:
            server.submit(job, self.fleet.router, now)
        if not server.active:
            self.woken[server.place] = server

    def _happens(self, now: float) -> None:
        """The next event."""
        _, kind, _, one, other = heappop(self.heap)
        if kind == _ENDS:
            one.active = False
            self.woken[one.place] = one
            one.end(now)
            self._ended(one, now)
        elif kind == _COMES:
            self._comes(one, now)
        elif kind == _ARRIVES:
            one.arrive(other)
            self.woken[one.home] = self.servers[one.home]
            self._wake(one)
        elif kind == _LOOK:
            one.look(now, one.scaler)
            self.push(now + one.scaler.every, _LOOK, one, None)
        else:
            one.ready(now, other)

    def _begin(self, server: Server, now: float, arrival: float) -> None:
        """A server plays up to the next event, as far as nothing that it does is one."""
        until = arrival
        if not self.lonely:
            until = now if self.woken else min(arrival, self.heap[0][0]) if self.heap else arrival
        end = server.begin(now, until, self.through)
        if self.meet:
            self._meet(server)
        if end is None:
            if server.draining and server.until == math.inf and server.empty:
                server.until = now
            return
        if self.through:
            self._ended(server, end)
            if not server.under_way:  # all is done before
                server.active = False
                return
        self.push(end, _ENDS, server, None, server.place)

    def _meet(self, server: Server) -> None:
        """What a server's new step sends or receives, which others wait for."""
        for rank in server.ranks:
            if rank.loads:
                for there, job in rank.loads:
                    self.push(there, _ARRIVES, rank, job)
                rank.loads = []
            if rank.freed:
                self._wake(rank)

    def _wake(self, rank: Rank) -> None:
        """A cache has left the servers that computed it, which have room again."""
        for source in rank.freed:
            self.woken[source.home] = self.servers[source.home]
        rank.freed = []

    def _ended(self, server: Server, now: float) -> None:
        """What becomes of those that are done."""
        done = server.take()
        for job in done:
            if job.source is not None:
                target = self.pools[-1].take(job, self.handoff, now)
                self.woken[target.place] = target
                continue
            self.records.book(job, server.place)
            self.advance(1)
            if not self.traffic.single and (pause := self.traffic.next_turn(job.index)) is not None:
                self.push(now + pause, _COMES, job.index + 1, None)
                continue
            self.open -= 1
            if self.concurrency is not None and (index := next(self.left, None)) is not None:
                if self.sticky:
                    self._comes(index, now, server)
                else:
                    self.push(now, _COMES, index, None)


def run(
    fleet: Fleet, traffic: Sequence[Conversation], *, concurrency: int | None = None, progress: bool = False
) -> FleetResult:
    """Play conversations on a fleet, step by step.

    Parameters
    ----------
    fleet : Fleet
        What serves.
    traffic : sequence of Conversation
        As drawn by ``chats`` or ``agents``, read by ``read_traffic``, or made of requests by ``single``. Each begins at its time
        whatever the servers do, unless ``concurrency`` is given; its later turns come when the answer before is there.
    concurrency : int, optional
        Conversations under way at a time: the next begins when one ends, and their starts count for nothing.
    progress : bool
        Show a progress bar (needs tqdm).

    Returns
    -------
    FleetResult
        A simulation with a record for each turn, in the order of the conversations, and what each part of the fleet did. The
        same input gives the same to the last bit.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; step times that are no positive number; a conversation that asks a model which nobody runs.

    >>> from mlsysim.inference import deploy
    >>> from mlsysim.serving_steps import step_model
    >>> servers = Servers(ModelReplica(step_model(deploy("Llama-3.1-8B", "H100"))))
    >>> from mlsysim.serving.fleet import Cache, chats
    >>> found = run(Fleet(servers, cache=Cache()), chats(1.0, 20, seed=1))
    >>> found.found_share > 0.5
    True
    """
    if concurrency is not None and (
        isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1
    ):
        raise InputError(f"run: concurrency = {concurrency!r} must be a whole number of conversations, at least 1")
    first = 0.0 if concurrency is not None else min((c.start for c in traffic), default=0.0)
    loop = EventLoop(fleet, first, concurrency)
    turns = Turns(traffic, fleet, loop.bounds, loop.block)
    with progress_bar(progress, len(turns.requests)) as advance:
        records = loop.play(turns, advance)
    if loop.open:
        raise AssertionError(f"run: {loop.open} conversations never ended")
    ranks, end = loop.ranks, records.makespan
    end = loop.first + end if concurrency is None else max((f for f in records.finished if f == f), default=0.0)
    return FleetResult(
        **loop.totals(),
        asked_tokens=sum(r.asked for r in ranks),
        found_tokens=sum(r.found for r in ranks),
        loaded_tokens=sum(r.loaded for r in ranks),
        evicted_blocks=sum(r.blocks.tree.evicted for r in ranks if isinstance(r.blocks, TreeBlocks)),
        moved_bytes=math.fsum(r.link.sent for r in ranks if r.link is not None),
        link_wait=math.fsum(r.link.waited for r in ranks if r.link is not None),
        drafted_tokens=sum(r.drafted for r in ranks),
        accepted_tokens=sum(r.accepted for r in ranks),
        sequence_steps=sum(r.decoded for r in ranks),
        swaps=sum(s.swaps for s in loop.servers),
        server_seconds=loop.extra + math.fsum(min(s.until, end) - s.since for s in loop.servers),
        scaling=tuple(loop.scaling),
        pools={p.name: p.started for p in loop.pools},
        conversations=tuple(conversation for conversation, _ in turns.places),
        turns=tuple(turn for _, turn in turns.places),
    )


def simulate(
    step_times: StepTimes,
    requests: Sequence[Request],
    config: Config | None = None,
    *,
    replicas: int = 1,
    routing: str = "round-robin",
    keep_steps: bool = False,
    progress: bool = False,
    concurrency: int | None = None,
) -> Simulation:
    """Play requests on replicas of a server, step by step.

    Parameters
    ----------
    step_times : StepModel
        As from :func:`mlsysim.serving_steps.step_model`; anything with a method ``time(batch)`` serves.
    requests : sequence of Request
        In any order; they come at their times whatever the server does (an open loop), unless ``concurrency`` is given.
    config : Config, optional
        Options of the server.
    replicas : int
        Servers of the same kind, each with its own queue and cache.
    routing : str
        Which replica takes a request: ``round-robin``, ``least-loaded``, ``fewest-queued`` or ``random``.
    keep_steps : bool
        Keep a record of every step in ``log``.
    progress : bool
        Show a progress bar (needs tqdm).
    concurrency : int, optional
        Requests in flight, over all replicas (a closed loop): so many come at time zero in turn to the replicas, and each of
        the others when one has ended, on the replica where that one ran. The arrivals of the requests count for nothing then.

    Returns
    -------
    Simulation
        Frozen result with a record per request, ``summary()``, ``utilisation`` and ``to_dict()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; a step time that is no positive number.

    >>> from mlsysim.serving_steps import step_model
    >>> from mlsysim.inference import deploy
    >>> from mlsysim.serving import Request
    >>> model = step_model(deploy("Llama-2-7B", "H100"))
    >>> one = simulate(model, [Request(0.0, input_len=482, output_len=100)]).records[0]
    >>> round(1e3 * one.ttft_s, 1), round(1e3 * one.itl_s, 2)
    (11.7, 5.97)
    """
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise InputError(f"simulate: replicas = {replicas!r} must be a whole number of at least 1")
    if routing not in ROUTING:
        raise unknown_name("routing", routing, ROUTING)
    bounds = limits(config or Config(), step_times)
    if concurrency is not None:
        requests = _closed(requests, concurrency, replicas, routing, keep_steps)
    fleet = Fleet(Servers((ModelReplica(step_times, config or Config()),), replicas), router=Router(routing))
    loop = EventLoop(fleet, 0.0, concurrency, sticky=True, told=True, log=[] if keep_steps else None)
    asked = Requests(requests, bounds)
    with progress_bar(progress, len(asked.come)) as advance:
        loop.play(asked, advance)
    return Simulation(**loop.totals())


def _closed(
    requests: Sequence[Request], concurrency: int, replicas: int, routing: str, keep_steps: bool
) -> list[Request]:
    """The requests of a closed loop, whose arrivals are written down when they come."""
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < replicas:
        raise InputError(
            f"simulate: concurrency = {concurrency!r} must be a whole number of requests in flight, at least one for each of "
            f"{replicas} replicas"
        )
    if routing != "round-robin":
        raise InputError(
            f"simulate: routing = {routing!r} is for requests that come by themselves; with concurrency each client stays "
            "with its replica, so leave routing out"
        )
    if keep_steps:
        raise InputError("simulate: keep_steps is for requests that come by themselves; leave it or concurrency out")
    return [replace(r, arrival=0.0) for r in requests]


@contextmanager
def progress_bar(wanted: bool, total: int) -> Iterator[Callable[[int], Any]]:
    """A progress bar over finished requests, or none."""
    if not wanted:
        yield lambda count: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise InputError("simulate: progress=True needs tqdm; run: pip install 'mlsysim-book[scale]'") from error
    with tqdm(total=total, unit=" requests", unit_scale=True) as bar:
        yield bar.update
