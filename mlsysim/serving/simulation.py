"""A simulated server: requests in, latencies out."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from mlsysim import units
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Displayable, Report, format_rows, format_value, plain, share
from mlsysim.serving.blocks import Job
from mlsysim.serving.config import Limits
from mlsysim.serving.equations import sample_quantile
from mlsysim.serving.requests import Request
from mlsysim.tables import table

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
_FULL, _NOTICED = 0.9, 0.05  # of a limit; of a request's time
_POINTS = 200  # of a chart over time


@dataclass(frozen=True, slots=True)
class Record:
    """Outcome of one request; times of the simulation, s. A rejected one has a reason and no times."""

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
        """Of requests that have not started."""
        n, never = len(requests), array("d", [_NEVER])
        return cls(requests, array("l", [-1]) * n, never * n, never * n, never * n, array("l", [0]) * n, rejected)

    def book(self, done: Job, replica: int) -> None:
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
        requests, finished = self.requests, self.finished
        if self.rejected:
            requests, finished = [r for r, *_ in self.served()], array("d", [end for *_, end in self.served()])
        return max(finished, default=0.0) - min([r.arrival for r in requests], default=0.0)

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
    """One step of one replica, for inspection."""

    replica: int
    start: float
    duration: float
    running: int
    waiting: int
    blocks: int  # in use while it runs
    prefill_tokens: int
    decode_tokens: int


@dataclass(frozen=True)
class Simulation(Displayable):
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
    def rejected(self) -> tuple[Record, ...]:
        return tuple(self.records[at] for at in sorted(self.records.rejected))

    @cached_property
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
        return self._per_second(len(self.records) - len(self.records.rejected))

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

    def _times(self) -> dict[str, float]:
        """Mean seconds of a served request: waiting, until its prompt is done, and from the first token to the last."""
        done = self.served
        if not done:
            return {}
        waiting, prompt = (math.fsum(self.values(name)) / len(done) for name in ("queue_s", "prefill_s"))
        answer = math.fsum(r.finished - r.first_token for r in done) / len(done)
        return {"waiting": waiting, "prompt": prompt, "answer": answer}

    def _bound(self) -> str:
        """The bottleneck of the server, in a sentence."""
        if not self.served:
            return "nothing was served"
        found, limits = self._times(), self.limits
        waited = found["waiting"] > _NOTICED * sum(found.values())
        blocks, tokens = self.most_blocks / limits.blocks, (self.prefill_tokens + self.decode_tokens) / self.steps
        if self.preemptions:
            return f"memory: the cache ran out of blocks, and {self.preemptions:,} times a sequence was thrown out"
        if waited and self.mean_batch >= _FULL * limits.sequences:
            return f"places: {self.mean_batch:.4g} of {limits.sequences} sequences decode in a mean step, others wait"
        if waited and blocks >= _FULL:
            return f"memory: up to {share(blocks)} of the cache in use, and requests wait"
        if waited and tokens >= _FULL * limits.tokens:
            return f"the budget of a step: {tokens:.4g} of {limits.tokens} tokens in a mean one, and requests wait"
        if self.utilisation >= _FULL:
            kind = "prompts" if self.prefill_tokens > limits.tokens * self.steps / 2 else "decode steps"
            queue = "requests wait for them" if waited else "hardly anything waits"
            return (
                f"the time of its steps, mostly {kind}: one is under way {share(self.utilisation)} of the time, {queue}"
            )
        return f"the load: no step is under way {share(1 - self.utilisation)} of the time"

    def _cache(self) -> str:
        """Prompt tokens asked for and worked on."""
        asked = sum(r.request.input_len for r in self.served)
        if not asked:
            return ""
        text = f"{asked:,} prompt tokens asked for, {self.prefill_tokens:,} computed"
        if self.prefill_tokens < asked:
            return f"{text}: {share(1 - self.prefill_tokens / asked)} found in the cache"
        return text + (f", {self.preemptions:,} sequences again" if self.prefill_tokens > asked else "")

    def _lines(self) -> list[str]:
        """At most a dozen lines, the latencies first."""
        done, rejected = self.served, [r for r in self.records if r.rejected]
        if not done:
            why = f"; {rejected[0].rejected}" if rejected else ""
            return format_rows(f"no request served, {len(rejected)} rejected{why}", ("steps of", self.server))
        rows = self.summary()

        def spread(metric: str) -> str:
            found = rows[metric]
            if found["mean"] is None:
                return ""
            said = (f"{name} {format_value(found[name], 's')}" for name in ("p50", "p90", "p99"))
            return f"mean {format_value(found['mean'], 's')}, {', '.join(said)}"

        found = self._times()
        whole = sum(found.values()) or 1.0
        mean, late = rows["ttft_s"]["mean"], rows["ttft_s"]["p99"]
        more = self.parts()
        refused = f", {len(rejected)} REJECTED: {rejected[0].rejected}" if rejected else ""
        return format_rows(
            f"{len(done):,} requests in {format_value(self.makespan, 's')}: first token after {format_value(mean, 's')}, 99 % within {format_value(late, 's')}"
            f"{refused}",
            ("binds", self._bound()),
            ("first token", spread("ttft_s")),
            ("between tokens", spread("itl_s")),
            ("end to end", spread("e2e_s")),
            ("of a request's time", ", ".join(f"{name} {share(t / whole)}" for name, t in found.items())),
            (
                "rate",
                f"{self.requests_per_s:.4g} requests/s, {format_value(self.tokens_per_s, 'token/s')} of {self.replicas} replica(s)",
            ),
            (
                "server",
                f"busy {share(self.utilisation)} of the time, {self.mean_batch:.4g} decode in a step, {self.preemptions} preemptions",
            ),
            *(more or [("cache", f"{share(self.most_blocks / self.limits.blocks)} in use at most; {self._cache()}")]),
            ("steps of", self.server),
            (
                "range",
                "none: no measured run of a fleet is behind it"
                if more
                else "none: errors of simulated latencies are told run by run (evidence.studies.ladder)",
            ),
        )

    def parts(self) -> list[tuple[str, str]]:
        """What else there is to tell, by name: nothing of plain servers."""
        return []

    def chart(self) -> "Drawing | None":
        """Requests that wait and that run over time; then distributions of the latencies."""
        from mlsysim.drawing import DASHES, PALETTE, Chart, Line, Panels
        from mlsysim.drawing.shapes import distribution, readable

        done = self.served
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
            "until the first token",
            {"first token": self.values("ttft_s"), "in the queue": self.values("queue_s")},
            "time",
            "s",
        )
        pace = distribution("between tokens", {"mean of a request": self.values("itl_s")}, "time", "s")
        return Panels(crowd, *(panel for panel in (first, pace) if panel is not None))

    def explain(self) -> Report:
        """What bound the server, where the time went, what the limits were, and whose the steps are."""
        found, limits = self._times(), self.limits
        whole = sum(found.values()) or 1.0
        latencies = [
            (name.removesuffix("_s"), *("-" if v is None else units.format(v, "s") for v in row.values()))
            for name, row in self.summary().items()
        ]
        went = [(name, units.format(t, "s"), share(t / whole)) for name, t in found.items()]
        steps = self.steps or 1
        each = [share(busy / self.clock) if self.clock else "0 %" for busy in self.busy]
        per_step = (self.prefill_tokens + self.decode_tokens) / steps
        server = [
            ("steps", f"{self.steps:,}", f"busy {', '.join(each[:8])}{' …' if len(each) > 8 else ''} of the time"),
            ("tokens of a step", f"{per_step:.4g}", f"at most {limits.tokens}"),
            ("decoding in a step", f"{self.mean_batch:.4g}", f"at most {limits.sequences} run"),
            (
                "blocks of cache",
                f"{self.most_blocks:,}",
                f"of {limits.blocks:,} at most, {limits.block_tokens} tokens each",
            ),
            ("preemptions", f"{self.preemptions:,}", "a sequence loses its blocks and waits again"),
        ]
        refused: dict[str, int] = {}
        for r in self.records:
            if r.rejected:
                refused[r.rejected] = refused.get(r.rejected, 0) + 1
        return Report(
            f"bound by {self._bound()}" if self.served else "nothing was served",
            (
                table(("Metric", "Mean", "p50", "p90", "p99"), latencies),
                table(("A request's mean time", "Seconds", "Share"), went),
                table(("Server", "Found", "Limit"), server),
            ),
            [
                f"steps of {self.server}" if self.server else "",
                self._cache(),
                *(f"rejected {n} x: {why}" for why, n in list(refused.items())[:5]),
            ],
        )

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
