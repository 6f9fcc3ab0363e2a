"""A simulated server: requests in, latencies out."""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, overload

from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Report, Shown, plain
from mlsysim.serving import engine
from mlsysim.serving import shown as showing
from mlsysim.serving.config import Config, Limits, StepTimes, limits
from mlsysim.serving.equations import sample_quantile
from mlsysim.serving.requests import Request
from mlsysim.serving_steps import StepModel

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# Latencies of a request from when it was scheduled, got its first token and was finished, s
_LATENCY: Mapping[str, Callable[[Request, float, float, float], float | None]] = {
    "ttft_s": lambda r, scheduled, first, finished: first - r.arrival,
    "itl_s": lambda r, scheduled, first, finished: (
        (finished - first) / (r.output_len - 1) if r.output_len > 1 else None
    ),
    "e2e_s": lambda r, scheduled, first, finished: finished - r.arrival,
    "e2e_per_token_s": lambda r, scheduled, first, finished: (finished - r.arrival) / r.output_len,
    "queue_s": lambda r, scheduled, first, finished: scheduled - r.arrival,
    "prefill_s": lambda r, scheduled, first, finished: first - scheduled,
}
# Latencies of a request that are counted, of which quantiles are given.
METRICS = tuple(_LATENCY)
_NEVER = math.nan


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one request; times of the simulation, s. A rejected one has a reason and no times."""

    request: Request
    replica: int = -1
    scheduled: float = _NEVER  # when a step first worked on it
    first_token: float = _NEVER
    finished: float = _NEVER
    preemptions: int = 0
    rejected: str = ""

    @property
    def ttft_s(self) -> float | None:
        """From its arrival to its first token."""
        return self._latency("ttft_s")

    @property
    def itl_s(self) -> float | None:
        """Mean time between its tokens; none with a single token."""
        return self._latency("itl_s")

    @property
    def e2e_s(self) -> float | None:
        """From its arrival to its last token."""
        return self._latency("e2e_s")

    @property
    def e2e_per_token_s(self) -> float | None:
        """The same over its tokens: also called TPOT, but not the time between tokens."""
        return self._latency("e2e_per_token_s")

    @property
    def queue_s(self) -> float | None:
        """From its arrival to the start of the first step that works on it."""
        return self._latency("queue_s")

    @property
    def prefill_s(self) -> float | None:
        """From there to its first token."""
        return self._latency("prefill_s")

    def _latency(self, metric: str) -> float | None:
        if self.rejected:
            return None
        return _LATENCY[metric](self.request, self.scheduled, self.first_token, self.finished)

    def to_dict(self) -> dict[str, Any]:
        """Its latencies, and the reason of a rejection."""
        found: dict[str, Any] = {name: getattr(self, name) for name in METRICS}
        return found | ({"rejected": self.rejected} if self.rejected else {})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Records(Sequence[Record]):
    """A :class:`Record` per request, made when it is asked for: a million of them are kept as columns of numbers."""

    requests: Sequence[Request]
    replica: "array[int]"
    scheduled: "array[float]"
    first_token: "array[float]"
    finished: "array[float]"
    preemptions: "array[int]"
    rejected: Mapping[int, str] = field(default_factory=dict)  # reasons, by place

    @classmethod
    def open(cls, requests: Sequence[Request], rejected: Mapping[int, str]) -> "Records":
        """Of requests that nobody has worked on yet."""
        n, never = len(requests), array("d", [_NEVER])
        return cls(requests, array("l", [-1]) * n, never * n, never * n, never * n, array("l", [0]) * n, rejected)

    def book(self, done: engine.Sequence, replica: int) -> None:
        """Write down what became of a request."""
        at = done.index
        self.replica[at], self.preemptions[at] = replica, done.preemptions
        self.scheduled[at], self.first_token[at], self.finished[at] = done.scheduled, done.first, done.finished

    def served(self) -> Iterator[tuple[Request, float, float, float]]:
        """Every request that was served, with when it was scheduled, got its first token and was finished."""
        rows = zip(self.requests, self.scheduled, self.first_token, self.finished, strict=True)
        return (row for at, row in enumerate(rows) if at not in self.rejected) if self.rejected else rows

    @property
    def makespan(self) -> float:
        """From the first arrival of a request that was served to the last token, s; zero when none was."""
        last = max((finished for _, _, _, finished in self.served()), default=0.0)
        return last - min((request.arrival for request, *_ in self.served()), default=0.0)

    def _one(self, at: int) -> Record:
        if why := self.rejected.get(at):
            return Record(self.requests[at], rejected=why)
        times = self.scheduled[at], self.first_token[at], self.finished[at]
        return Record(self.requests[at], self.replica[at], *times, self.preemptions[at])

    def __len__(self) -> int:
        return len(self.requests)

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Record, ...]: ...
    def __getitem__(self, at: int | slice) -> Record | tuple[Record, ...]:
        places = range(len(self))[at]
        return self._one(places) if isinstance(places, int) else tuple(map(self._one, places))

    def __iter__(self) -> Iterator[Record]:
        return map(self._one, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Records, tuple)) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one replica, for those who want to look inside."""

    replica: int
    start: float
    duration: float
    running: int
    waiting: int
    blocks: int  # in use while it runs
    prefill_tokens: int
    decode_tokens: int


@dataclass(frozen=True)
class Simulation(Shown):
    """What :func:`simulate` returns: a record per request, in the order of the requests."""

    records: Records
    limits: Limits
    replicas: int
    busy: tuple[float, ...]  # s, of each replica
    steps: int
    prefill_tokens: int  # worked on in prompt passes, those of preempted sequences again
    decode_tokens: int
    preemptions: int
    most_blocks: int  # in use at a time on one replica
    clock: float = 0.0  # s, from the first arrival to the end of the last step as they were played
    log: tuple[Step, ...] = ()
    server: str = ""  # whose steps they are, in words

    @property
    def served(self) -> tuple[Record, ...]:
        return tuple(r for r in self.records if not r.rejected)

    @property
    def makespan(self) -> float:
        """From the first arrival to the last token, s."""
        return self.records.makespan

    @property
    def utilisation(self) -> float:
        """Share of the time from the first arrival to the last token in which a replica has a step under way.

        The mean over the replicas, of the steps as they were played: a correction of the latencies leaves it alone.
        """
        return math.fsum(self.busy) / (self.replicas * self.clock) if self.clock else 0.0

    @property
    def requests_per_s(self) -> float:
        return self._per_second(sum(1 for _ in self.records.served()))

    @property
    def tokens_per_s(self) -> float:
        """Output tokens of all replicas."""
        return self._per_second(sum(r.output_len for r, *_ in self.records.served()))

    def _per_second(self, count: int) -> float:
        return count / self.makespan if count else 0.0

    @property
    def mean_batch(self) -> float:
        """Sequences that decode in a step, on average over the steps."""
        return self.decode_tokens / self.steps if self.steps else 0.0

    def values(self, metric: str) -> list[float]:
        """A metric of every request that has it."""
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
        latency = _LATENCY[metric]
        return [v for row in self.records.served() if (v := latency(*row)) is not None]

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Mean and percentiles of every metric over the requests that were served; none where there is no value."""
        return {metric: dict(found) for metric, found in self._summary.items()}

    @cached_property
    def _summary(self) -> dict[str, dict[str, float | None]]:
        return {metric: summarise(self.values(metric)) for metric in METRICS}

    def corrected(self, apply: Callable[[float, float, Mapping[str, float]], Mapping[str, float]]) -> "Simulation":
        """The same with other times to the first and the last token: tier 1 of the ladder.

        Parameters
        ----------
        apply : function
            ``apply(input_len, output_len, {"ttft_s": ..., "e2e_s": ...})`` returns the same two, corrected. Its
            queueing time a request keeps.
        """

        old = self.records
        new = replace(old, first_token=old.first_token[:], finished=old.finished[:])
        for place, (r, first, finished) in enumerate(zip(old.requests, old.first_token, old.finished, strict=True)):
            if place not in old.rejected:
                times = {"ttft_s": first - r.arrival, "e2e_s": finished - r.arrival}
                found = apply(float(r.input_len), float(r.output_len), times)
                new.first_token[place], new.finished[place] = r.arrival + found["ttft_s"], r.arrival + found["e2e_s"]
        return replace(self, records=new)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        return {"requests": [r.to_dict() for r in self.records], "summary": self.summary()}

    def _lines(self) -> list[str]:
        return showing.lines(self)

    def parts(self) -> list[tuple[str, str]]:
        """What else there is to tell, by name: nothing of plain servers."""
        return []

    def chart(self) -> "Drawing | None":
        """Requests in the server over time, and distributions of their latencies."""
        return showing.chart(self)

    def explain(self) -> Report:
        """What bound the server, where the time of a request went, what the limits were, and whose the steps are."""
        return showing.explained(self)

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per request: what it asked for, when it came, where it went, and its latencies."""
        return [
            {
                "arrival_s": r.request.arrival,
                "input_len": r.request.input_len,
                "output_len": r.request.output_len,
                "replica": r.replica,
                "preemptions": r.preemptions,
                **plain(r.to_dict()),
            }
            for r in self.records
        ]


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of a sample, between two of its values where it has to be (eq-sample-quantile).

    >>> quantile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.5
    """
    if not values:
        raise InputError("quantile: no values; a quantile needs at least one")
    if not 0 <= share <= 1:
        raise InputError(f"quantile: share = {share!r} must lie between 0 and 1")
    return _quantile(sorted(values), share)


def _quantile(ordered: Sequence[float], share: float) -> float:
    rank = share * (len(ordered) - 1)
    below = int(rank)
    return float(sample_quantile(rank, ordered[below], ordered[min(below + 1, len(ordered) - 1)]))


def summarise(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, p50, p90 and p99; all none of nothing.

    >>> summarise([1.0, 2.0, 3.0])["mean"]
    2.0
    """
    if not values:
        return dict.fromkeys(("mean", "p50", "p90", "p99"))
    ordered = sorted(values)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {"mean": math.fsum(ordered) / len(ordered), **{k: _quantile(ordered, q) for k, q in shares.items()}}


# Routing: which replica takes a request, from what a router can see when it comes


def _round_robin(engines: Sequence[engine.Engine], count: int) -> int:
    return count % len(engines)


def _least_loaded(engines: Sequence[engine.Engine], count: int) -> int:
    return min(range(len(engines)), key=lambda i: len(engines[i].running) + len(engines[i].waiting))


def _fewest_queued(engines: Sequence[engine.Engine], count: int) -> int:
    return min(range(len(engines)), key=lambda i: (len(engines[i].waiting), len(engines[i].running)))


# Ways to choose the replica of a request, by name.
ROUTING: Mapping[str, Callable[[Sequence[engine.Engine], int], int]] = {
    "round-robin": _round_robin,  # in turn
    "least-loaded": _least_loaded,  # fewest requests in it, running or waiting
    "fewest-queued": _fewest_queued,  # fewest waiting, then fewest running
}


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
        Which replica takes a request: ``round-robin``, ``least-loaded`` or ``fewest-queued``.
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
    (12.0, 6.24)
    """
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise InputError(f"simulate: replicas = {replicas!r} must be a whole number of at least 1")
    if routing not in ROUTING:
        raise unknown_name("routing", routing, ROUTING)
    bounds = limits(config or Config(), step_times)
    asked: list[Request] = []
    if concurrency is not None:
        requests = asked = _closed(requests, concurrency, replicas, routing, keep_steps)
    engines = [engine.Engine(step_times, bounds) for _ in range(replicas)]
    rejected = {i: why for i, r in enumerate(requests) if (why := bounds.refusal(r.input_len, r.output_len))}
    records = Records.open(requests, rejected)
    come = sorted((i for i in range(len(requests)) if i not in rejected), key=lambda i: requests[i].arrival)
    log: list[Step] = []
    with progress_bar(progress, len(come)) as advance:
        if concurrency is not None:
            _loop(engines, asked, come, records, concurrency, advance)
        else:
            _play(engines, come, records, ROUTING[routing], log if keep_steps else None, advance)
    return Simulation(
        records=records,
        limits=bounds,
        replicas=replicas,
        busy=tuple(e.busy for e in engines),
        steps=sum(e.step for e in engines),
        prefill_tokens=sum(e.prefill_tokens for e in engines),
        decode_tokens=sum(e.decode_tokens for e in engines),
        preemptions=sum(e.preemptions for e in engines),
        most_blocks=max(e.most_blocks for e in engines),
        clock=records.makespan,
        log=tuple(log),
        server=str(getattr(step_times, "words", type(step_times).__name__)),
    )


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


def _loop(
    engines: Sequence[engine.Engine],
    requests: list[Request],
    come: Sequence[int],
    records: Records,
    concurrency: int,
    advance: Callable[[int], Any],
) -> None:
    """The loop over ends of requests: as many others come at that time. Replicas share nothing but the list of what is left."""
    left = iter(come)

    def submit(place: int, now: float) -> None:
        if (index := next(left, None)) is not None:
            requests[index] = replace(requests[index], arrival=now)
            engines[place].submit(engine.Sequence(requests[index], index))

    for turn in range(concurrency):
        submit(turn % len(engines), 0.0)
    ends = [(e.finish(0.0), place) for place, e in enumerate(engines)]
    heapify(ends)
    while ends and ends[0][0] < math.inf:
        now, place = heappop(ends)
        e = engines[place]
        done = len(e.finished)
        for sequence in e.finished:
            records.book(sequence, place)
        e.finished.clear()
        advance(done)
        for _ in range(done):
            submit(place, now)
        heappush(ends, (e.finish(now), place))


def _play(
    engines: Sequence[engine.Engine],
    come: Sequence[int],
    records: Records,
    route: Callable[[Sequence[engine.Engine], int], int],
    log: list[Step] | None,
    advance: Callable[[int], Any],
) -> None:
    """The loop over events: arrivals, and ends of steps. A request that comes at the end of a step is in the next one.

    Between two arrivals a replica plays its steps by itself. With step times of somebody's own it stops at the next end of
    another's step, so that they are asked for in the order in which the steps begin; for a log steps are taken one by one.
    """
    timeless = type(engines[0].steps) is StepModel  # whose times depend on nothing that was asked before
    ends: list[tuple[float, int]] = []  # of the steps under way
    active = [False] * len(engines)
    requests, at = records.requests, 0

    def begin(place: int, now: float, until: float) -> float:
        e = engines[place]
        if log is None:
            return e.play(now, until)
        before = (e.prefill_tokens, e.decode_tokens)
        duration = e.begin(now)
        tokens = (e.prefill_tokens - before[0], e.decode_tokens - before[1])
        log.append(Step(place, now, duration, len(e.running), len(e.waiting), e.limits.blocks - e.free, *tokens))
        return now + duration

    def book(place: int) -> None:
        if done := engines[place].finished:
            for sequence in done:
                records.book(sequence, place)
            advance(len(done))
            done.clear()

    arrival = requests[come[0]].arrival if come else math.inf
    while at < len(come) or ends:
        now = ends[0][0] if ends else math.inf
        woken = set()
        while arrival <= now:
            index = come[at]
            place = route(engines, at)
            engines[place].submit(engine.Sequence(requests[index], index))
            if not active[place]:  # it begins at once, with whatever else comes at this time
                now = arrival
                woken.add(place)
            at += 1
            arrival = requests[come[at]].arrival if at < len(come) else math.inf
        while ends and ends[0][0] <= now:
            _, place = heappop(ends)
            engines[place].end(now)
            book(place)
            active[place] = False
            woken.add(place)
        for place in sorted(woken):
            if engines[place].idle:
                continue
            until = arrival
            if not timeless:  # beside others that begin now a step at a time
                until = now if len(woken) > 1 else min(arrival, ends[0][0] if ends else math.inf)
            end = begin(place, now, until)
            book(place)
            if end < math.inf:
                active[place] = True
                heappush(ends, (end, place))


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
