"""A small discrete-event simulation of the ranks of a collective and, where they are shared, of the links between them.

Every chunk of the buffer passes the phases in order. A dimension works on so many chunks at once (active chunks), first come first
served. Congestion-unaware: a message waits for nobody, and where every rank sees the same wiring one rank stands for all. Congestion-aware:
a link carries one message at a time, first come first served.
"""

import heapq
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlsysim.errors import InputError
from mlsysim.network.costs import Exact
from mlsysim.network.schedules import Exchange, Phase, Tree, exchange, message_count, tree
from mlsysim.network.topology import Topology

MAX_MESSAGES = 500_000  # sent over a link, in one simulation: some ten seconds

Delivery = tuple[Callable[..., None], tuple[Any, ...]]  # what happens when a message has arrived


class Clock:
    """Events in the order of their times, and of their making where the times are equal."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0

    def at(self, time: float, what: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self._heap, (time, self._made, what, args))
        self._made += 1

    def run(self) -> None:
        while self._heap:
            self.now, _, what, args = heapq.heappop(self._heap)
            what(*args)


class Links(dict[tuple[int, int, int, int], int]):
    """Links by dimension, group, from and to: a number each when it is first asked for, when it is free, and how long it was busy."""

    def __init__(self) -> None:
        self.free: list[float] = []
        self.busy: list[float] = []

    def __missing__(self, key: tuple[int, int, int, int]) -> int:
        self[key] = len(self)
        self.free.append(0.0)
        self.busy.append(0.0)
        return self[key]

    def busiest(self) -> dict[int, float]:
        """How long the busiest link of each dimension was busy."""
        found: dict[int, float] = {}
        for (dimension, *_), link in self.items():
            found[dimension] = max(found.get(dimension, 0.0), self.busy[link])
        return found


@dataclass
class Outcome:
    """When everything was over, when each phase had its first start and last end, and what went over the links."""

    time: float = 0.0
    starts: dict[int, float] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)
    aware: bool = True
    link_busy: dict[int, float] = field(default_factory=dict)  # of the busiest link of each dimension


class Simulation:
    """All that runs: the ranks, the links, the clock."""

    def __init__(
        self, topology: Topology, plan: Sequence[Phase], chunks: int, active: int, costs: Exact, aware: bool
    ) -> None:
        self.topology, self.plan, self.chunks, self.costs, self.aware = topology, plan, chunks, costs, aware
        self.active = active
        self.clock = Clock()
        self.outcome = Outcome(aware=aware)
        self.alone = _one_stands_for_all(topology, plan, aware)
        ranks = range(1 if self.alone else topology.ranks)
        self._check_size(len(ranks))
        self.moves = [None if p.algorithm == "double_binary_tree" else exchange(p, costs) for p in plan]
        self.strides = [topology.stride(i) for i in range(len(topology.shape))]
        self.balance: dict[tuple[int, int, int, int], int] = {}  # chunk, step, from, to
        self.links = Links()
        self.routes: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self.trees: dict[tuple[int, int], Tree] = {}
        self.ranks = {r: _Rank(self, r) for r in ranks}

    def _check_size(self, ranks: int) -> None:
        messages = 0
        for phase in self.plan:
            # half of the longest route is a fair mean
            hops = max(1, self.topology.dimensions[phase.dimension].diameter // 2) if self.aware else 1
            messages += message_count(phase) * hops * ranks * self.chunks
        if messages > MAX_MESSAGES:
            raise InputError(
                f"collective: about {messages:.3g} messages over links; at most {MAX_MESSAGES:,} are simulated; use congestion = "
                "unaware, fewer splits, fewer ranks, or another algorithm"
            )

    def run(self) -> Outcome:
        """Simulate from the start of the collective until the last rank has finished it."""
        for rank in self.ranks.values():
            rank.start()
        self.clock.run()
        self.outcome.link_busy = self.links.busiest()
        return self.outcome

    def tree(self, step: int, chunk: int) -> Tree:
        key = (step, chunk % 2)
        if key not in self.trees:
            self.trees[key] = tree(self.plan[step], chunk)
        return self.trees[key]

    def route(self, dimension: int, base: int, source: int, destination: int) -> tuple[int, ...]:
        """Links that a message passes inside a group; ``base`` is the rank of the group whose address in the dimension is 0."""
        key = (dimension, base + source * self.strides[dimension], destination)
        if key not in self.routes:
            way = self.topology.dimensions[dimension].route(source, destination)
            self.routes[key] = tuple(self.links[dimension, base, a, b] for a, b in pairwise(way))
        return self.routes[key]

    def send(self, sender: "_Work", destination: int, size: float) -> None:
        """Send from a rank to another of its group in the phase's dimension; both are addresses in that dimension."""
        dimension, source = sender.phase.dimension, sender.place
        base = sender.rank.number - source * sender.stride
        if self.alone:  # what it sends stands for what it gets
            delivery: Delivery = (sender.receive, ())
        else:
            to = base + destination * sender.stride
            delivery = (self.arrive, (sender.chunk, sender.step, sender.rank.number, to))
        if self.aware:
            way = self.route(dimension, base, source, destination)
            self._pass(way, 0, self.costs.link(dimension, size), delivery)
            return
        hops = self.topology.dimensions[dimension].hops(source, destination)
        self.clock.at(self.clock.now + self.costs.free_path(dimension, hops, size), delivery[0], *delivery[1])

    def _pass(self, way: tuple[int, ...], index: int, times: tuple[float, float, float], delivery: Delivery) -> None:
        link = way[index]
        busy, ahead, through = times
        start = max(self.clock.now, self.links.free[link])
        self.links.free[link] = start + busy
        self.links.busy[link] += busy
        if index + 1 < len(way):
            self.clock.at(start + ahead, self._pass, way, index + 1, times, delivery)
        else:
            self.clock.at(start + through, delivery[0], *delivery[1])

    # A message is received when it has arrived and the receiver has asked for it, whichever comes last. Per sender and receiver the
    # balance counts what has arrived, less what was asked for.

    def arrive(self, chunk: int, step: int, source: int, destination: int) -> None:
        key = (chunk, step, source, destination)
        balance = self.balance.pop(key, 0) + 1
        if balance:
            self.balance[key] = balance
        if balance <= 0:
            self.ranks[destination].working[chunk, step].receive()

    def expect(self, receiver: "_Work", source: int) -> None:
        """A rank asks for a message of another; ``source`` is its address in the phase's dimension."""
        if self.alone:
            return
        number = receiver.rank.number
        key = (receiver.chunk, receiver.step, number + (source - receiver.place) * receiver.stride, number)
        balance = self.balance.pop(key, 0) - 1
        if balance:
            self.balance[key] = balance
        if balance >= 0:
            self.clock.at(self.clock.now, receiver.receive)


def _one_stands_for_all(topology: Topology, plan: Sequence[Phase], aware: bool) -> bool:
    """Whether all ranks do the same at the same times: no place differs, and no link carries messages of two ranks."""
    for phase in plan:
        if not topology.dimensions[phase.dimension].rotates or phase.algorithm == "double_binary_tree":
            return False
        if aware and phase.algorithm != "ring":
            return False
    return True


class _Rank:
    """A rank: its queue in every dimension, and its memory."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self.simulation, self.number = simulation, number
        self.waiting: dict[int, deque[_Work]] = defaultdict(deque)
        self.running: dict[int, int] = defaultdict(int)
        self.working: dict[tuple[int, int], _Work] = {}  # by chunk and step
        self.memory_free = 0.0

    def start(self) -> None:
        if self.simulation.plan:
            for chunk in range(self.simulation.chunks):
                self.queue(chunk, 0)

    def queue(self, chunk: int, step: int) -> None:
        algorithm = self.simulation.plan[step].algorithm
        work = (_TreeWork if algorithm == "double_binary_tree" else _ExchangeWork)(self, chunk, step)
        self.waiting[work.phase.dimension].append(work)
        self.start_next(work.phase.dimension)

    def start_next(self, dimension: int) -> None:
        while self.waiting[dimension] and self.running[dimension] < self.simulation.active:
            self.running[dimension] += 1
            work = self.waiting[dimension].popleft()
            self.working[work.chunk, work.step] = work
            self.simulation.outcome.starts.setdefault(work.step, self.simulation.clock.now)
            work.start()

    def finished(self, work: "_Work") -> None:
        now = self.simulation.clock.now
        self.simulation.outcome.ends[work.step] = now
        self.simulation.outcome.time = now
        del self.working[work.chunk, work.step]
        self.running[work.phase.dimension] -= 1
        self.start_next(work.phase.dimension)
        if work.step + 1 < len(self.simulation.plan):
            self.queue(work.chunk, work.step + 1)


class _Work(ABC):
    """What a rank does for one chunk in one phase."""

    def __init__(self, rank: _Rank, chunk: int, step: int) -> None:
        self.rank, self.chunk, self.step = rank, chunk, step
        self.simulation = rank.simulation
        self.phase = self.simulation.plan[step]
        self.stride = self.simulation.strides[self.phase.dimension]
        self.place = rank.number // self.stride % self.phase.ranks

    def after_endpoint(self, then: Callable[[], None], reduced: float = 0.0) -> None:
        """Go on after the delay of the end point and, where a piece is added up, the reduction."""
        clock, costs = self.simulation.clock, self.simulation.costs
        ready = clock.now + costs.endpoint
        if not reduced or not costs.memory_bandwidth:
            clock.at(ready, then)
        elif costs.shares_memory:
            clock.at(ready, self._reduce, reduced, then)
        else:
            clock.at(ready + costs.reduction(reduced), then)

    def _reduce(self, size: float, then: Callable[[], None]) -> None:
        clock = self.simulation.clock
        self.rank.memory_free = max(clock.now, self.rank.memory_free) + self.simulation.costs.reduction(size)
        clock.at(self.rank.memory_free, then)

    @abstractmethod
    def start(self) -> None:
        """Send what can be sent before anything has come."""

    @abstractmethod
    def receive(self) -> None:
        """Take in a message, and send what it allows."""


class _ExchangeWork(_Work):
    """Messages in a fixed order, each with a credit: ``width`` credits at the start, and one for each message received."""

    def __init__(self, rank: _Rank, chunk: int, step: int) -> None:
        super().__init__(rank, chunk, step)
        moves = self.simulation.moves[step]
        assert moves is not None
        self.moves: Exchange = moves
        self.total = len(moves.sizes)
        self.credits = self.sent = self.received = 0

    def start(self) -> None:
        for _ in range(self.moves.width):
            self.after_endpoint(self.credit)

    def credit(self) -> None:
        self.credits += 1
        barrier = self.moves.barrier
        while self.credits and self.sent < self.total and (self.sent < barrier or self.received >= barrier):
            self.credits -= 1
            to, source = self.moves.partners(self.place, self.sent, self.phase.ranks)
            size = self.moves.sizes[self.sent]
            self.sent += 1
            self.simulation.send(self, to, size)
            self.simulation.expect(self, source)
        if self.sent == self.total and self.credits == self.moves.width:  # as many as at the start: all are in
            self.rank.finished(self)

    def receive(self) -> None:
        reductions = self.moves.reductions
        reduced = reductions[self.received] if self.received < len(reductions) else 0.0
        self.received += 1
        self.after_endpoint(self.credit, reduced)


class _TreeWork(_Work):
    """Up a tree with sums, down with the result."""

    def __init__(self, rank: _Rank, chunk: int, step: int) -> None:
        super().__init__(rank, chunk, step)
        self.tree = self.simulation.tree(step, chunk)
        self.parent, self.children = self.tree.parents[self.place], self.tree.children[self.place]
        self.missing = len(self.children)  # sums that have not come in
        self.unsummed = self.missing

    def start(self) -> None:
        for child in self.children:
            self.simulation.expect(self, child)
        if not self.children:
            self.after_endpoint(self._up)

    def receive(self) -> None:
        if self.unsummed:
            self.unsummed -= 1
            self.after_endpoint(self._summed, self.tree.size)
        else:  # the result, from the parent
            pays = self.simulation.costs.tree_down_reduces and self.children
            self.after_endpoint(self._down, self.tree.size if pays else 0.0)

    def _summed(self) -> None:
        self.missing -= 1
        if not self.missing:
            self._up() if self.parent >= 0 else self._down()

    def _up(self) -> None:
        self.simulation.send(self, self.parent, self.tree.size)
        self.simulation.expect(self, self.parent)

    def _down(self) -> None:
        for child in self.children:
            self.simulation.send(self, child, self.tree.size)
        self.rank.finished(self)
