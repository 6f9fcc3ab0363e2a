"""A list scheduler: tasks with dependencies on a compute and a communication stream per rank.

A stream runs one task at a time. Of the tasks that are ready it takes the one that stands first in the list, and a task of several
ranks (a collective) starts when it is first on all of them and all are free, as a library would launch it in order.
List scheduling: Graham, Bounds on Multiprocessing Timing Anomalies (1969).
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Report, Result, format_rows, format_value, share
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# What a device does at the same time: one of each.
STREAMS = ("compute", "communication")
MAX_TASKS = 1_000_000
_LONGEST_TABLE = 32  # ranks


@dataclass(frozen=True)
class Task:
    """Something that takes a stream of its ranks for a while, once the tasks named in ``after`` have ended."""

    name: str
    stream: str
    duration: float
    after: tuple[str, ...] = ()
    ranks: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class RankTime(Result):
    """One rank: seconds of each stream, of both at once, of communication alone, and of neither until the end of all."""

    NUMBERS = "rank compute_s comm_s=communication overlap_s exposed_comm_s=exposed idle_s"

    rank: int
    compute: float
    communication: float
    overlap: float
    idle: float

    @property
    def exposed(self) -> float:
        """Communication that no compute hides."""
        return self.communication - self.overlap


@dataclass(frozen=True)
class StreamSchedule(Result):
    """What :func:`schedule` returns: when every task runs, and how each rank spends the time. SI units.

    For every rank compute + exposed + idle is the time.
    """

    NUMBERS = "compute_s comm_s=communication overlap_s exposed_comm_s=exposed total_s=time ranks"

    time: float
    starts: dict[str, float]
    ends: dict[str, float]
    ranks: tuple[RankTime, ...]

    def _most(self, name: str) -> float:
        return max((getattr(r, name) for r in self.ranks), default=0.0)

    @property
    def compute(self) -> float:
        """Seconds of the compute stream on the rank that has most."""
        return self._most("compute")

    @property
    def communication(self) -> float:
        """Seconds of the communication stream on the rank that has most."""
        return self._most("communication")

    @property
    def overlap(self) -> float:
        """Seconds in which both streams work, on the rank that has most."""
        return self._most("overlap")

    @property
    def exposed(self) -> float:
        """Seconds of communication that nothing hides, on the rank that has most."""
        return self._most("exposed")

    def summary(self) -> list[str]:
        def of(seconds: float) -> str:
            return share(seconds / self.time) if self.time else "0 %"

        binds = "communication that nothing hides" if self.exposed > self.compute else "computing"
        return format_rows(
            f"{len(self.starts)} tasks on {len(self.ranks)} rank(s): {format_value(self.time, 's')}",
            ("binds", binds if self.time else ""),
            (
                "computing",
                f"{format_value(self.compute, 's')}, {of(self.compute)} of the time, on the rank that has most",
            ),
            (
                "communicating",
                f"{format_value(self.communication, 's')}; {format_value(self.exposed, 's')} ({of(self.exposed)}) not hidden",
            ),
        )

    def chart(self) -> "Drawing | None":
        """How each rank spends the time: at most sixteen of them."""
        from mlsysim.drawing import shapes

        rows = {
            f"rank {r.rank}": {"compute": r.compute, "exposed communication": r.exposed, "idle": r.idle}
            for r in shapes.sampled(self.ranks, 16)
        }
        return shapes.stack("where the time goes", rows, "time", "s") if rows and self.time else None

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per rank."""
        return list(self.to_dict()["ranks"])

    def explain(self) -> Report:
        """Time of every rank, split."""
        rows = [
            (str(r.rank), *(units.format(x, "s") for x in (r.compute, r.communication, r.overlap, r.exposed, r.idle)))
            for r in self.ranks[:_LONGEST_TABLE]
        ]
        left = len(self.ranks) - len(rows)
        return Report(
            f"{len(self.starts)} tasks on {len(self.ranks)} ranks: {units.format(self.time, 's')}",
            (table(("Rank", "Compute", "Communication", "Overlap", "Exposed", "Idle"), rows),),
            [f"and {left} more ranks"] * bool(left) + ["on every rank compute + exposed + idle = time"],
        )


def schedule(tasks: Iterable[Task]) -> StreamSchedule:
    """Run tasks as early as their dependencies, their streams and their order in the list allow.

    Parameters
    ----------
    tasks : iterable of Task
        In the order in which a program would launch them; the order matters only where several are ready. ``after`` may name
        tasks that come later in the list.

    Raises
    ------
    InputError, UnknownNameError
        A name twice, an unknown dependency, a cycle, a negative duration, more than a million tasks.

    >>> step = schedule([Task("forward", "compute", 2.0), Task("backward", "compute", 4.0, ("forward",)),
    ...                  Task("reduce", "communication", 3.0, ("forward",)), Task("update", "compute", 1.0, ("backward", "reduce"))])
    >>> step.time, step.compute, step.overlap, step.exposed
    (7.0, 7.0, 3.0, 0.0)
    """
    listed = _checked(tasks)
    place = {t.name: i for i, t in enumerate(listed)}
    missing = [len(t.after) for t in listed]
    followers: list[list[int]] = [[] for _ in listed]
    for i, t in enumerate(listed):
        for name in t.after:
            if name not in place:
                raise unknown_name(f"task that {t.name!r} waits for", name, place)
            followers[place[name]].append(i)
    ready: dict[tuple[int, str], list[int]] = {(r, t.stream): [] for t in listed for r in t.ranks}
    busy: set[tuple[int, str]] = set()
    running: list[tuple[float, int]] = []
    starts, ends = [-1.0] * len(listed), [-1.0] * len(listed)

    def offer(i: int) -> list[tuple[int, str]]:
        streams = [(r, listed[i].stream) for r in listed[i].ranks]
        for s in streams:
            heapq.heappush(ready[s], i)
        return streams

    def start(candidates: Iterable[tuple[int, str]], now: float) -> None:
        for stream in candidates:
            if stream in busy or not ready[stream]:
                continue
            i = ready[stream][0]
            needs = [(r, listed[i].stream) for r in listed[i].ranks]
            if any(s in busy or ready[s][0] != i for s in needs):
                continue  # its turn comes when the last of them is free, or when it is first there
            for s in needs:
                heapq.heappop(ready[s])
                busy.add(s)
            starts[i] = now
            heapq.heappush(running, (now + listed[i].duration, i))

    start([s for i, n in enumerate(missing) if n == 0 for s in offer(i)], 0.0)
    now = 0.0
    while running:
        now = running[0][0]
        changed: list[tuple[int, str]] = []
        while running and running[0][0] == now:
            _, i = heapq.heappop(running)
            ends[i] = now
            for r in listed[i].ranks:
                busy.discard((r, listed[i].stream))
                changed.append((r, listed[i].stream))
            for j in followers[i]:
                missing[j] -= 1
                if missing[j] == 0:
                    changed += offer(j)
        start(changed, now)
    stuck = [t.name for t, s in zip(listed, starts, strict=True) if s < 0]
    if stuck:
        raise InputError(
            f"schedule: {len(stuck)} tasks wait for each other in a circle, {stuck[0][:40]!r} among them or behind it; remove one "
            "of the dependencies"
        )
    return StreamSchedule(
        time=now,
        starts={t.name: s for t, s in zip(listed, starts, strict=True)},
        ends={t.name: e for t, e in zip(listed, ends, strict=True)},
        ranks=_rank_times(listed, starts, ends, now),
    )


def _checked(tasks: Iterable[Task]) -> list[Task]:
    listed = list(tasks)
    if len(listed) > MAX_TASKS:
        raise InputError(f"schedule: {len(listed):,} tasks; give at most {MAX_TASKS:,}")
    seen: set[str] = set()
    for t in listed:
        if t.name in seen:
            raise InputError(f"schedule: two tasks are called {t.name[:40]!r}; names must differ")
        seen.add(t.name)
        if t.stream not in STREAMS:
            raise unknown_name(f"stream of task {t.name!r}", t.stream, STREAMS)
        if not isfinite(t.duration) or t.duration < 0:
            raise InputError(
                f"schedule: duration = {t.duration} of task {t.name[:40]!r} must be finite and at least 0 s"
            )
        if not t.ranks or len(set(t.ranks)) != len(t.ranks):
            raise InputError(f"schedule: ranks of task {t.name[:40]!r} must be different numbers, at least one")
    return listed


def _rank_times(
    tasks: Sequence[Task], starts: Sequence[float], ends: Sequence[float], total: float
) -> tuple[RankTime, ...]:
    spans: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for t, s, e in zip(tasks, starts, ends, strict=True):
        for r in t.ranks:
            spans.setdefault(r, {name: [] for name in STREAMS})[t.stream].append((s, e))
    found = []
    for r in sorted(spans):
        compute, communication = (sorted(spans[r][name]) for name in STREAMS)
        both = _common(compute, communication)
        worked, sent = (sum(e - s for s, e in x) for x in (compute, communication))
        found.append(RankTime(r, worked, sent, both, total - (worked + sent - both)))
    return tuple(found)


def _common(a: Sequence[tuple[float, float]], b: Sequence[tuple[float, float]]) -> float:
    """Length of the time in both of two lists of disjoint spans in order."""
    i = j = 0
    total = 0.0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return total
