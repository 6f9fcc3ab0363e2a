"""A question as a run that can be played with any seed, and the part of it that counts."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlsysim import serving
from mlsysim.api.asked import Asked
from mlsysim.api.fleets import FleetSpec, talks_of
from mlsysim.api.targets import SLO
from mlsysim.catalog import Model
from mlsysim.serving import METRICS, Config, Record, Request, Simulation
from mlsysim.serving.fleet import Conversation, FleetResult, run
from mlsysim.serving_steps import StepModel, step_model
from mlsysim.serving_steps.calibration import Calibration

LONG = 20.0  # residence times of a run in its steady part
RAMP = 3.0  # residence times until as many are inside as always
_TALKS = 5.0  # the same of conversations, in their mean lengths
_PARTS = 10  # of a run, whose spread is that of its percentiles
_OTHERS = ("requests_per_s", "tokens_per_s", "utilisation", "mean_batch", "preemptions")


def _per(count: float, time: float) -> float:
    return count / time if time else 0.0


@dataclass(frozen=True)
class Window:
    """The part of a run that counts: its requests in order, from when to when they came, and how many residence times that is."""

    records: tuple[Record, ...]
    begin: float
    end: float
    residences: float
    trimmed: bool

    def spread(self, metric: str) -> tuple[dict[str, float | None], dict[str, float]]:
        """Mean and percentiles, and the standard error of each by the spread over parts of the run."""
        values = [v for r in self.records if (v := getattr(r, metric)) is not None]  # in the order of their arrival
        found, each = serving.summarise(values), max(1, len(values) // _PARTS)
        parts = (
            [serving.summarise(values[k * each : (k + 1) * each]) for k in range(_PARTS)]
            if len(values) >= _PARTS**2
            else []
        )
        return found, {name: error_of_mean([part[name] or 0.0 for part in parts]) for name in found}

    def error(self, share: Callable[[Sequence[Record]], float]) -> float:
        """Standard error of a share of the requests, by the spread over parts of the run."""
        each = len(self.records) // _PARTS
        return (
            error_of_mean([share(self.records[k * each : (k + 1) * each]) for k in range(_PARTS)])
            if each >= _PARTS
            else math.nan
        )


def error_of_mean(values: Sequence[float]) -> float:
    """Standard error of the mean of values; nan of fewer than two."""
    if len(values) < 2:
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))


@dataclass(frozen=True, kw_only=True)
class Run(Asked):
    """A question, ready to be played with any seed; found again by name, so that a cluster and a store can hold it."""

    tp: int
    config: Config
    routing: str
    trace: tuple[Request, ...] | tuple[Conversation, ...] | None
    rate: float
    requests: int
    input_len: float
    output_len: float
    arrival_variation: float
    length_variation: float
    calibration: Calibration | None
    replicas: int = 1
    concurrency: int | None = None
    cached_len: int = 0
    hit_rate: float = 1.0
    parts: FleetSpec = field(default_factory=FleetSpec)

    def steps(self) -> StepModel:
        """The step times of one replica."""
        return self.steps_of(self.model)

    def steps_of(self, model: Model | str) -> StepModel:
        """The same of any model on the same devices."""
        deployed = self.deployed(self.tp, model=model, dp=self.parts.dp)
        return step_model(deployed, efficiencies=self.efficiencies)

    @property
    def devices(self) -> int:
        """Of all servers, as many as there are at the beginning."""
        return (self.replicas + (self.parts.prefill_replicas or 0)) * self.tp * self.parts.dp

    def drawn(self, seed: int) -> tuple[Request, ...]:
        """The requests: those of the trace, or random ones."""
        if self.trace is not None:
            return tuple(r for r in self.trace if isinstance(r, Request))
        n, cv = self.requests, self.arrival_variation
        if self.concurrency is not None:
            arrivals: tuple[float, ...] = (0.0,) * n  # written down when they come
        else:
            arrivals = serving.poisson(self.rate, n, seed) if cv == 1 else serving.gamma(self.rate, n, cv, seed)
        old = max(self.cached_len, self.parts.shared_len or 0)  # what is new varies
        new = serving.lengths(self.input_len - old, n, self.length_variation, seed + 1)
        draw = random.Random(seed + 1)
        hits = [self.cached_len if self.hit_rate == 1 or draw.random() < self.hit_rate else 0 for _ in range(n)]
        answers = serving.lengths(self.output_len, n, self.length_variation, seed + 2)
        return serving.load(arrivals, [old + one for one in new], answers, hits)

    def talks(self, seed: int) -> tuple[Conversation, ...]:
        """The conversations: those of the trace, or random ones, dealt among the models."""
        names = [self.model.name, *self.parts.also_models]
        if self.trace is not None:
            return talks_of(self.trace, names)
        if self.parts.traffic != "requests":
            rate = None if self.concurrency is not None else self.rate
            return self.parts.drawn(rate, self.requests, self.output_len, self.length_variation, names, seed)
        found = talks_of(self.drawn(seed), names)
        if shared := self.parts.shared_len:
            found = tuple(replace(c, shared="text", shared_len=shared) for c in found)
        return tuple(replace(c, model=names[i % len(names)]) for i, c in enumerate(found))

    def play(
        self,
        seed: int,
        progress: bool = False,
        steps: StepModel | None = None,
        drawn: tuple[Request, ...] | None = None,
    ) -> Simulation:
        """One run, of requests that were drawn before where they are given."""
        if not self.parts.plain or self.routing == "prefix":
            others = {name: self.steps_of(name) for name in self.parts.also_models}
            fleet = self.parts.fleet(steps or self.steps(), others, self.config, self.replicas, self.routing)
            played: Simulation = run(fleet, self.talks(seed), concurrency=self.concurrency, progress=progress)
            return played if self.calibration is None else played.corrected(self.calibration.apply)
        found = serving.simulate(
            steps or self.steps(),
            self.drawn(seed) if drawn is None else drawn,
            self.config,
            replicas=self.replicas,
            routing=self.routing,
            progress=progress,
            concurrency=self.concurrency,
        )
        return found if self.calibration is None else found.corrected(self.calibration.apply)

    def _ramp(self, found: Simulation) -> tuple[float, float]:
        """Until as many are inside as always, and how long one stays, s: a request, or a fourth of a conversation if that is longer."""
        times = [r.finished - r.request.arrival for r in found.records if not r.rejected]
        stays = math.fsum(times[len(times) // 2 :]) / max(1, len(times) - len(times) // 2)  # not of the ramp
        if self.parts.traffic == "requests":
            return RAMP * stays, stays
        talk = (
            self.parts.pauses + self.parts.mean_turns * stays
        )  # long ones count most, as they ask most and remember most
        return _TALKS * talk, max(stays, talk / 4.0)

    def needed(self, found: Simulation) -> float:
        """Seconds for which requests must come, so that the run is steady, by how long they stay in this one."""
        ramp, stays = self._ramp(found)
        return ramp + (LONG + 1.0) * stays

    def window(self, found: Simulation) -> Window:
        """The steady part of a run: without the ramp at its beginning and the drain at its end; all of a trace and of a loop."""
        ordered = sorted(found.records, key=lambda r: r.request.arrival)
        whole = Window(tuple(ordered), 0.0, found.makespan, math.inf, False)
        if self.trace is not None or not ordered:
            return whole
        if self.concurrency is not None:
            return replace(whole, residences=len(ordered) / self.concurrency)
        ramp, stays = self._ramp(found)
        if not stays:
            return replace(whole, residences=0.0)
        begin, end = ordered[0].request.arrival + ramp, self.requests / self.rate - stays
        inside = tuple(r for r in ordered if begin <= r.request.arrival < end)
        if len(inside) < _PARTS**2:
            return replace(whole, residences=max(0.0, end - begin) / stays)
        return Window(inside, begin, end, (end - begin) / stays, True)

    def row(self, found: Simulation) -> dict[str, float]:
        """A run in numbers: every metric's mean and percentiles, and what the server did; of its steady part."""
        row: dict[str, float] = {}
        window = self.window(found)
        for metric in METRICS:
            of_all, error = window.spread(metric)
            row |= {f"{metric}.{name}": math.nan if v is None else float(v) for name, v in of_all.items()}
            row |= {f"{metric}.{name}.error": v for name, v in error.items()}
        met = self.met(window.records)
        row |= {name: float(getattr(found, name)) for name in _OTHERS}
        if window.trimmed:
            done = [r for r in found.records if window.begin <= r.finished < window.end]
            row["requests_per_s"] = len(done) / (window.end - window.begin)
            row["tokens_per_s"] = sum(r.request.output_len for r in done) / (window.end - window.begin)
        row |= {
            "residences": window.residences,
            "trimmed": float(window.trimmed),
            "met.error": window.error(lambda part: self.met(part)),
        }
        if isinstance(found, FleetResult) and self.parts.autoscaler is not None:
            row["servers"] = found.server_seconds / found.clock if found.clock else 0.0
        return row | {
            "rejected": float(len(found.rejected)),
            "met": met,
            "goodput_per_s": met * row["requests_per_s"]
            if window.trimmed
            else _per(met * len(found.records), found.makespan),
        }

    def met(self, records: Sequence[Record]) -> float:
        """Share of the requests that meet every target; a rejected one meets none. All of them without targets."""
        targets = (self.slo or SLO()).targets
        if not records or not targets:
            return 1.0

        def good(r: Record) -> bool:
            times = [(getattr(r, f"{name}_s"), target) for name, target in targets.items()]
            return not r.rejected and all(t is None or t <= target for t, target in times)

        return sum(map(good, records)) / len(records)

    def __call__(self, seed: Any) -> Mapping[str, Any]:
        """As a sweep asks: a vector of seeds, and a vector of every number."""
        import numpy as np

        steps = self.steps()
        rows = [self.row(self.play(int(s), steps=steps)) for s in seed]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@dataclass(frozen=True)
class Played:
    """A question that was played: ``simulation`` is that of a single run; ``rows`` has the numbers of each run."""

    run: Run
    seeds: tuple[int, ...]
    rows: Mapping[str, Sequence[float]]
    simulation: Simulation | None
