"""One server of a fleet: for each model its ranks, which step together; and which server or rank takes a request."""

import math
import random
from array import array
from collections.abc import Sequence
from typing import Any

from mlsysim.serving.blocks import Job
from mlsysim.serving.fleet.config import Router, Servers
from mlsysim.serving.scheduler import Rank
from mlsysim.serving.simulation import Step


class Server:
    """One server: for each model its ranks, which step together; of several models one steps at a time."""

    def __init__(
        self, place: int, servers: Servers, units: Sequence[Sequence[Rank]], since: float, log: list[Step] | None = None
    ) -> None:
        self.place, self.servers, self.units = place, servers, units
        self.ranks = [rank for unit in units for rank in unit]
        self.since, self.until = since, math.inf
        self.active = False  # a step or a swap is under way
        self.draining = False
        self.swaps = 0
        self.log = log  # of steps, each of which is planned by itself then
        self._only = self.ranks[0] if len(self.ranks) == 1 and log is None else None
        self._under: Sequence[Rank] = ()
        self._inside = self._turn = 0  # the model whose weights are in; the one whose step comes next
        self._worked = True  # whether that one has made a step since it came in: it makes one before it goes
        self._asked: dict[int, float] = {}  # since when a model that is not in has something to do
        self._counts = [0] * len(units)
        self._edges = array("d")  # where the periods without rest begin (negative) and end

    @property
    def load(self) -> int:
        return sum([r.load for r in self.ranks])

    @property
    def queue(self) -> tuple[int, int]:
        return sum(len(r.waiting) for r in self.ranks), sum(len(r.running) for r in self.ranks)

    @property
    def empty(self) -> bool:
        return not (self.load or any(r.held for r in self.ranks))

    @property
    def busy(self) -> float:
        """Time with a step under way, s: rounded once, so that it never exceeds the time from first to last."""
        return math.fsum(self._edges)

    def keeps(self, job: Job) -> int:
        """Leading blocks of a prompt that one of its ranks has."""
        return max(r.keeps(job) for r in self.ranks)

    def submit(self, job: Job, router: Router, now: float) -> None:
        """Give it to one of its model's ranks."""
        if self._only is not None:
            self._only.waiting.append(job)
            return
        model = job.model
        unit = self.units[model]
        rank = unit[choose(unit, router, job, self._counts[model])] if len(unit) > 1 else unit[0]
        self._counts[model] += 1
        rank.waiting.append(job)
        if model != self._inside:
            self._asked.setdefault(model, now)

    def begin(self, now: float, until: float, through: bool) -> float | None:
        """Begin a step; a lone rank goes on as long as steps end before ``until``, with ``through`` also when somebody is done.

        Returns
        -------
        float or None
            When the step ends, or the last of them has ended; None where there is none to take.
        """
        if (rank := self._only) is not None:
            end = rank.play(now, until, through)
            return None if end is None else self._run(now, end, self.ranks)
        n, order = len(self.units), [self._inside]
        if self.servers.weights == "swapped" and n > 1:
            if (swap := self._swap(now)) is not None:
                return self._run(now, now + swap, ())
        else:
            order = [(self._turn + k) % n for k in range(n)]
        for model in order:
            planned = [r for r in self.units[model] if not r.idle and r.plan(now)]
            if planned:
                self._turn, self._worked = model + 1, True
                duration = max([r.seconds() for r in planned])
                for rank in planned:
                    rank.commit()
                if self.log is not None:
                    self.log.append(planned[0].log(self.place, now, duration))
                return self._run(now, now + duration, planned)
        return None

    def _run(self, now: float, end: float, ranks: Sequence[Rank]) -> float:
        edges = self._edges
        if edges and edges[-1] == now:
            edges[-1] = end
        else:
            edges.append(-now)
            edges.append(end)
        self._under, self.active = ranks, True
        return end

    def _swap(self, now: float) -> float | None:
        """Seconds of a swap that begins now; nothing where the weights that are in stay."""
        waiting = [
            (t, m) for m, t in self._asked.items() if m != self._inside and any(not r.idle for r in self.units[m])
        ]
        if not waiting:
            return None
        since, model = min(waiting)
        inside = self.units[self._inside]
        finished = all(r.idle and not r.loading for r in inside)
        if self._worked and now - since >= self.servers.patience:
            for rank in inside:
                rank.closed = True
        drained = all(r.closed and not (r.running or r.loading) for r in inside)
        if not (finished or drained):
            return None
        for rank in inside:
            rank.closed = False
        self._asked.pop(model)
        if not finished:
            self._asked[self._inside] = now + self.servers.hosted[model].swap_time
        self._inside, self._worked = model, False
        self.swaps += 1
        return self.servers.hosted[model].swap_time

    @property
    def under_way(self) -> bool:
        """Whether a step is, of a lone rank that played."""
        return self._only is None or self._only.under_way

    def end(self, now: float) -> None:
        """Book the step that ends now, unless that is done."""
        self.active = False
        for rank in self._under:
            if rank.under_way:
                rank.end(now)

    def take(self) -> list[Job]:
        """Those that are done."""
        done: list[Job] = []
        for rank in self._under:
            if rank.done:
                done += rank.done
                rank.done = []
        return done


def choose(members: Sequence[Any], router: Router, job: Job, count: int) -> int:
    """The place of the server, or of the rank, that takes a request."""
    if len(members) == 1:
        return 0
    if router.policy == "round-robin":
        return count % len(members)
    if router.policy == "random":
        return random.Random(count).randrange(len(members))  # the same in every run, as requests come in one order
    if router.policy == "fewest-queued":
        queues = [m.queue for m in members]
        return queues.index(min(queues))
    loads = [m.load for m in members]
    least = min(loads)
    if router.policy == "prefix":
        kept = [m.keeps(job) for m in members]
        best = max(kept)
        if best:
            place = min((load, i) for i, load in enumerate(loads) if kept[i] == best)[1]
            if loads[place] - least <= router.imbalance:
                return place
    return loads.index(least)
