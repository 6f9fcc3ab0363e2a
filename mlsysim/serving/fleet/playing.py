"""A fleet at work: events in order of time, servers that step, caches that cross, servers that come and go."""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from mlsysim.errors import InputError, unknown_name
from mlsysim.results import plain, share, shown
from mlsysim.serving.fleet.config import Autoscaler, Cache, Fleet, Hosted, Router, Servers
from mlsysim.serving.fleet.server import Channel, Job, Rank
from mlsysim.serving.fleet.traffic import Conversation
from mlsysim.serving.fleet.tree import ENDLESS, Path, PrefixTree
from mlsysim.serving.requests import Request
from mlsysim.serving.simulation import Records, Simulation, progress_bar

# What happens at one time happens in this order.
_COMES, _ENDS, _ARRIVES, _LOOK, _READY = range(5)


@dataclass(frozen=True)
class Scaled:
    """A server that came or went, or that was sent away while it started."""

    time: float  # s
    pool: str  # "serve", "prefill" or "decode"
    servers: int  # that serve from then on


@dataclass(frozen=True, repr=False)
class Played(Simulation):
    """What :func:`play` returns: a simulation, and what the parts of the fleet did."""

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
                f"{shown(self.moved_bytes, 'byte')} crossed, {shown(self.link_wait, 's')} of waiting for others"
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
                f"{shown(self.server_seconds, 's')} of servers"
                if self.scaling
                else "",
            ),
        ]
        return [(name, text) for name, text in lines if text]


class _Server:
    """One server: for each model its ranks, which step together; of several models one steps at a time."""

    def __init__(self, place: int, pool: "_Pool", units: Sequence[Sequence[Rank]], since: float) -> None:
        self.place, self.pool, self.units = place, pool, units
        self.since, self.until = since, math.inf
        self.active = False  # a step or a swap is under way
        self.draining = False
        self.swaps = 0
        self._under: list[Rank] = []
        self._inside = self._turn = 0  # the model whose weights are in; the one whose step comes next
        self._worked = True  # whether that one has made a step since it came in: it makes one before it goes
        self._asked: dict[int, float] = {}  # since when a model that is not in has something to do
        self._counts = [0] * len(units)
        self._edges = array("d")

    @property
    def load(self) -> int:
        return sum(r.load for unit in self.units for r in unit)

    @property
    def queue(self) -> tuple[int, int]:
        ranks = [r for unit in self.units for r in unit]
        return sum(len(r.waiting) for r in ranks), sum(len(r.running) for r in ranks)

    @property
    def empty(self) -> bool:
        return not (self.load or any(r.held for unit in self.units for r in unit))

    @property
    def busy(self) -> float:
        return math.fsum(self._edges)

    def submit(self, job: Job, model: int, router: Router, now: float) -> Rank:
        """Give it to one of the model's ranks."""
        unit = self.units[model]
        rank = unit[choose(unit, router, job, self._counts[model])] if len(unit) > 1 else unit[0]
        self._counts[model] += 1
        rank.submit(job)
        if model != self._inside:
            self._asked.setdefault(model, now)
        return rank

    def begin(self, now: float) -> float | None:
        """Begin a step; when it ends, or nothing where there is none to take."""
        if self.pool.servers.weights == "swapped" and len(self.units) > 1:
            if (swap := self._swap(now)) is not None:
                return self._run(now, swap)
            order: Sequence[int] = (self._inside,)
        else:
            n = len(self.units)
            if n == 1 and len(self.units[0]) == 1:  # by far the most: one model on one rank
                rank = self.units[0][0]
                if rank.idle or not rank.plan(now):
                    return None
                duration = rank.seconds()
                rank.commit()
                self._under = [rank]
                return self._run(now, duration)
            order = [(self._turn + k) % n for k in range(n)]
        for model in order:
            planned = [r for r in self.units[model] if not r.idle and r.plan(now)]
            if planned:
                self._turn, self._worked = model + 1, True
                duration = max([r.seconds() for r in planned])
                for rank in planned:
                    rank.commit()
                self._under = planned
                return self._run(now, duration)
        return None

    def _run(self, now: float, duration: float) -> float:
        if self._edges and self._edges[-1] == now:
            self._edges.pop()
        else:
            self._edges.append(-now)
        self._edges.append(now + duration)
        self.active = True
        return now + duration

    def _swap(self, now: float) -> float | None:
        """Seconds of a swap that begins now; nothing where the weights that are in stay."""
        waiting = [
            (t, m) for m, t in self._asked.items() if m != self._inside and any(not r.idle for r in self.units[m])
        ]
        if not waiting:
            return None
        since, model = min(waiting)
        inside = self.units[self._inside]
        wanted = all(r.idle and not r.loading for r in inside)
        if self._worked and now - since >= self.pool.servers.patience:
            for rank in inside:
                rank.closed = True
        drained = all(r.closed and not (r.running or r.loading) for r in inside)
        if not (wanted or drained):
            return None
        for rank in inside:
            rank.closed = False
        self._asked.pop(model)
        if not wanted:
            self._asked[self._inside] = now + self.pool.servers.hosted[model].swap_time
        self._inside, self._worked = model, False
        self.swaps += 1
        return self.pool.servers.hosted[model].swap_time

    def end(self, now: float) -> list[tuple[Job, Rank]]:
        """What the step that ends now has done."""
        self.active = False
        found = []
        for rank in self._under:
            rank.end(now)
            if rank.done:
                found += [(job, rank) for job in rank.done]
                rank.done = []
        self._under = []
        return found


def choose(members: Sequence[Any], router: Router, job: Job, count: int) -> int:
    """The place of the server, or of the rank, that takes a request."""
    if len(members) == 1:
        return 0
    if router.policy == "round-robin":
        return count % len(members)
    if router.policy == "fewest-queued":
        queues = [m.queue if isinstance(m, _Server) else (len(m.waiting), len(m.running)) for m in members]
        return queues.index(min(queues))
    loads = [m.load for m in members]
    least = min(loads)
    if router.policy == "prefix":
        kept = [_kept(m, job) for m in members]
        best = max(kept)
        if best:
            place = min((load, i) for i, load in enumerate(loads) if kept[i] == best)[1]
            if loads[place] - least <= router.imbalance:
                return place
    return loads.index(least)


def _kept(member: Any, job: Job) -> int:
    """Blocks of a prompt that it has."""
    ranks = [r for unit in member.units for r in unit] if isinstance(member, _Server) else [member]
    return max(r.keeps(job.path, job.known // r.limits.block_tokens) for r in ranks)


class _Pool:
    """Servers of one kind, those that are starting, and those that leave."""

    def __init__(self, play: "_Play", name: str, servers: Servers, count: int) -> None:
        self.play, self.name, self.servers = play, name, servers
        self.scaler: Autoscaler | None = servers.autoscaler
        self.limits = [h.limits for h in servers.hosted]
        self.serving: list[_Server] = []
        self.starting: list[float] = []  # when each is ready
        self.changed = -math.inf
        self.routed, self.started = 0, count
        for _ in range(count):
            self.serving.append(play.server(self, play.first))

    def take(self, job: Job, model: int, router: Router, now: float) -> _Server:
        """Give a request to a server."""
        server = self.serving[choose(self.serving, router, job, self.routed)]
        self.routed += 1
        server.submit(job, model, router, now)
        return server

    def look(self, now: float, scaler: Autoscaler) -> None:
        """Start servers, or send some away."""
        asked = sum(s.load for s in self.serving)
        wanted = min(scaler.most, max(scaler.least, math.ceil(asked / scaler.target)))
        have = len(self.serving) + len(self.starting)
        if wanted > have:
            for _ in range(wanted - have):
                self.starting.append(now + scaler.start_up)
                self.play.push(now + scaler.start_up, _READY, self, now)
            self.changed = now
        elif wanted < have and now - self.changed >= scaler.cool_down:
            self.changed = now
            for _ in range(have - wanted):
                if self.starting:
                    self.play.cancelled(self.starting.pop(), now, self)
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
            self.serving.append(self.play.server(self, since))
            self.note(now)

    def note(self, now: float) -> None:
        self.play.scaling.append(Scaled(now, self.name, len(self.serving)))


class _Play:
    """The state of a run."""

    def __init__(self, fleet: Fleet, traffic: Sequence[Conversation], concurrency: int | None) -> None:
        self.fleet, self.traffic, self.concurrency = fleet, traffic, concurrency
        self.heap: list[tuple[float, int, int, Any, Any]] = []
        self.serial = 0
        self.servers: list[_Server] = []
        self.scaling: list[Scaled] = []
        self.extra = 0.0  # s of servers that were sent away before they served
        self.first = 0.0 if concurrency is not None else min((c.start for c in traffic), default=0.0)
        self.stores: dict[tuple[int, int], PrefixTree] = {}
        names = fleet.servers.models
        self.model_of = {name: i for i, name in enumerate(names)}
        apart = fleet.prefill is not None
        self.pools: list[_Pool] = []
        for i, servers in enumerate(fleet.pools):
            scaler = servers.autoscaler
            count = servers.replicas if scaler is None else scaler.least
            name = ("prefill", "decode")[i] if apart else "serve"
            self.pools.append(_Pool(self, name, servers, count))
        blocks = {pool.limits[m].block_tokens for pool in self.pools for m in range(len(names))}
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

    def cancelled(self, ready: float, now: float, pool: _Pool) -> None:
        """A server that was starting is sent away."""
        assert pool.scaler is not None
        self.extra += now - (ready - pool.scaler.start_up)

    def server(self, pool: _Pool, since: float) -> _Server:
        """A new server of a pool."""
        cache, apart = self.fleet.cache, self.fleet.prefill is not None
        first = apart and pool.servers is self.fleet.prefill
        units = []
        for model, hosted in enumerate(pool.servers.hosted):
            units.append([self._rank(pool, model, hosted, cache, first, apart) for _ in range(pool.servers.ranks)])
        if cache is not None:  # a tier of a server's own is one for all its ranks
            self._tiers(cache, units)
        found = _Server(len(self.servers), pool, units, since)
        self.servers.append(found)
        for unit in units:
            for rank in unit:
                rank.home = found.place
        return found

    def _rank(self, pool: _Pool, model: int, hosted: Hosted, cache: Cache | None, first: bool, apart: bool) -> Rank:
        each, link = 0.0, None
        if apart:
            each = hosted.token_bytes(self.fleet.link.token_bytes, "Link")
        elif cache is not None and cache.tiers:
            each = hosted.token_bytes(cache.token_bytes, "Cache")
        if first:
            link = Channel(self.fleet.link.bandwidth, self.fleet.link.latency, self.fleet.link.layers)
        return Rank(hosted, pool.limits[model], cache, link, each)

    def _tiers(self, cache: Cache, units: Sequence[Sequence[Rank]]) -> None:
        for model, unit in enumerate(units):
            for at, tier in enumerate(cache.tiers):
                if tier.shared:
                    store = self.stores.setdefault((at, model), PrefixTree(tier.blocks))
                else:
                    store = PrefixTree(tier.blocks)
                channel = Channel(tier.bandwidth, tier.latency)
                for rank in unit:
                    if rank.tree is not None:
                        rank.stores.append(store)
                        rank.channels.append(channel)

    # The run

    def open(self) -> tuple[Records, list[tuple[int, int]]]:
        """A record for each turn, in the order of the conversations, and where each stands."""
        bounds = [self.pools[-1].limits[m] for m in range(len(self.model_of))]
        ahead = [self.pools[0].limits[m] for m in range(len(self.model_of))]
        requests: list[Request] = []
        rejected: dict[int, str] = {}
        at: list[tuple[int, int]] = []
        self.began: list[int] = []  # of each conversation: the index of its first turn
        for talk, c in enumerate(self.traffic):
            if c.model not in self.model_of:
                raise unknown_name("model of a conversation", c.model, tuple(self.model_of))
            model, why = self.model_of[c.model], ""
            self.began.append(len(requests))
            for turn, (size, t) in enumerate(zip(c.prompts, c.turns, strict=True)):
                index = len(requests)
                if why:
                    why = "the turn before it was refused"
                else:
                    why = bounds[model].refusal(size, t.output_len) or (
                        ahead[model].refusal(size, 1) if len(self.pools) > 1 else ""
                    )
                if why:
                    rejected[index] = why
                requests.append(Request(c.start if turn == 0 else 0.0, size, t.output_len))
                at.append((talk, turn))
        self.requests, self.rejected = requests, rejected
        return Records.open(requests, rejected), at

    def path(self, talk: int, turn: int = 0) -> Path:
        """The text of a conversation, in blocks; what was forgotten or summed up by that turn makes it another text."""
        c = self.traffic[talk]
        trunk = c.shared_len // self.block
        times = c.rewritten[turn] if c.history_len else 0
        own = (f"\n{talk}" + (f"\n{times}" if times else ""), ENDLESS)
        return ((c.shared, trunk), own) if trunk else (own,)

    def run(self, records: Records, advance: Callable[[int], Any]) -> None:
        """Event after event."""
        come = sorted(range(len(self.traffic)), key=lambda i: self.traffic[i].start)
        come = [talk for talk in come if self.began[talk] not in self.rejected]
        left = iter(come)
        self.open_talks = len(come)
        if self.concurrency is None:
            for talk in come:
                self.push(self.traffic[talk].start, _COMES, talk, 0)
        else:
            for _, talk in zip(range(self.concurrency), left, strict=False):
                self.push(0.0, _COMES, talk, 0)
        for pool in self.pools:
            if pool.scaler is not None:
                self.push(self.first + pool.scaler.every, _LOOK, pool, None)
        heap = self.heap
        while heap and self.open_talks:
            now = heap[0][0]
            woken: dict[int, _Server] = {}
            while heap and heap[0][0] == now:
                _, kind, _, one, other = heappop(heap)
                if kind == _ENDS:
                    woken[one.place] = one
                    self._ended(one, now, records, left, woken, advance)
                elif kind == _COMES:
                    server = self._comes(one, other, now)
                    woken[server.place] = server
                elif kind == _ARRIVES:
                    rank, server = one
                    rank.arrive(other)
                    woken[server.place] = server
                    self._wake(rank, woken)
                elif kind == _LOOK:
                    one.look(now, one.scaler)
                    self.push(now + one.scaler.every, _LOOK, one, None)
                else:
                    one.ready(now, other)
            while woken:
                server = woken.popitem()[1] if len(woken) == 1 else woken.pop(min(woken))
                if server.active:
                    continue
                if (end := server.begin(now)) is not None:
                    self.push(end, _ENDS, server, None, server.place)
                for unit in server.units:
                    for rank in unit:
                        if rank.loads:
                            for there, job in rank.loads:
                                self.push(there, _ARRIVES, (rank, server), job)
                            rank.loads = []
                        if rank.freed:
                            self._wake(rank, woken)
                if server.draining and server.until == math.inf and server.empty and not server.active:
                    server.until = now

    def _wake(self, rank: Rank, woken: dict[int, _Server]) -> None:
        """A cache has left the servers that computed it, which have room again."""
        for source in rank.freed:
            woken[source.home] = self.servers[source.home]
        rank.freed = []

    def _comes(self, talk: int, turn: int, now: float) -> _Server:
        c = self.traffic[talk]
        index = self.began[talk] + turn
        old = self.requests[index]
        self.requests[index] = Request(now, old.input_len, old.output_len)
        job = Job(index, now, old.input_len, old.output_len, self.path(talk, turn))
        job.talk, job.turn = talk, turn
        return self.pools[0].take(job, self.model_of[c.model], self.fleet.router, now)

    def _ended(
        self,
        server: _Server,
        now: float,
        records: Records,
        left: Iterator[int],
        woken: dict[int, _Server],
        advance: Callable[[int], Any],
    ) -> None:
        for job, _ in server.end(now):
            c = self.traffic[job.talk]
            if job.source is not None:
                target = self.pools[-1].take(job, self.model_of[c.model], self.handoff, now)
                woken[target.place] = target
                continue
            index = job.index
            records.replica[index], records.preemptions[index] = server.place, job.preemptions
            records.scheduled[index], records.first_token[index] = job.scheduled, job.first
            records.finished[index] = now
            advance(1)
            turn = job.turn + 1
            if turn < len(c.turns) and index + 1 not in self.rejected:
                self.push(now + c.turns[turn].pause, _COMES, job.talk, turn)
                continue
            self.open_talks -= 1
            if self.concurrency is not None and (talk := next(left, None)) is not None:
                self.push(now, _COMES, talk, 0)


def play(
    fleet: Fleet, traffic: Sequence[Conversation], *, concurrency: int | None = None, progress: bool = False
) -> Played:
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
    Played
        A simulation with a record for each turn, in the order of the conversations, and what each part of the fleet did. The
        same input gives the same to the last bit.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; step times that are no positive number; a conversation that asks a model which nobody runs.

    >>> from mlsysim.inference import deploy
    >>> from mlsysim.serving_steps import step_model
    >>> servers = Servers(Hosted(step_model(deploy("Llama-3.1-8B", "H100"))))
    >>> from mlsysim.serving.fleet.traffic import chats
    >>> found = play(Fleet(servers, cache=Cache()), chats(1.0, 20, seed=1))
    >>> found.found_share > 0.5
    True
    """
    if concurrency is not None and (
        isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1
    ):
        raise InputError(f"play: concurrency = {concurrency!r} must be a whole number of conversations, at least 1")
    run = _Play(fleet, traffic, concurrency)
    records, at = run.open()
    with progress_bar(progress, len(at)) as advance:
        run.run(records, advance)
    if run.open_talks:
        raise AssertionError(f"play: {run.open_talks} conversations never ended")
    ranks = [r for s in run.servers for unit in s.units for r in unit]
    clock = records.makespan
    end = run.first + clock if concurrency is None else max((f for f in records.finished if f == f), default=0.0)
    return Played(
        records=records,
        limits=run.pools[-1].limits[0],
        replicas=sum(p.started for p in run.pools),
        busy=tuple(s.busy for s in run.servers),
        steps=sum(r.step for r in ranks),
        prefill_tokens=sum(r.prefill_tokens for r in ranks),
        decode_tokens=sum(r.decode_tokens for r in ranks),
        preemptions=sum(r.preemptions for r in ranks),
        most_blocks=max(r.most_blocks for r in ranks),
        clock=clock,
        server=str(getattr(fleet.servers.hosted[0].steps, "words", type(fleet.servers.hosted[0].steps).__name__)),
        asked_tokens=sum(r.asked for r in ranks),
        found_tokens=sum(r.found for r in ranks),
        loaded_tokens=sum(r.loaded for r in ranks),
        evicted_blocks=sum(r.tree.evicted for r in ranks if r.tree is not None),
        moved_bytes=math.fsum(r.link.sent for r in ranks if r.link is not None),
        link_wait=math.fsum(r.link.waited for r in ranks if r.link is not None),
        drafted_tokens=sum(r.drafted for r in ranks),
        accepted_tokens=sum(r.accepted for r in ranks),
        sequence_steps=sum(r.decoded for r in ranks),
        swaps=sum(s.swaps for s in run.servers),
        server_seconds=run.extra + math.fsum(min(s.until, end) - s.since for s in run.servers),
        scaling=tuple(run.scaling),
        pools={p.name: p.started for p in run.pools},
        conversations=tuple(talk for talk, _ in at),
        turns=tuple(turn for _, turn in at),
    )
