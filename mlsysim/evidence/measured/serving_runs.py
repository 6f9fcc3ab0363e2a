"""Measured runs of a serving engine: requests where the source keeps them, printed means where it does not."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import InputError, named, unknown_name
from mlsysim.evidence.rows import row_table
from mlsysim.results import Result, format_rows, format_value, plain

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

METRICS = ("ttft", "itl", "e2e", "e2e_per_token")
REGIMES = ("synchronous", "loaded")


@dataclass(frozen=True)
class MeasuredRequest(Result):
    """One request, in seconds by the server's clock; the client's are None where it kept none."""

    arrival_s: float
    input_len: int
    output_len: int
    cached_len: int
    queue_s: float | None  # where the server says it
    prefill_s: float | None
    ttft_s: float
    itl_s: float | None  # one token has no gap
    e2e_s: float
    client_ttft_s: float | None = None
    client_itl_s: float | None = None
    client_e2e_s: float | None = None

    def value(self, metric: str, clock: str = "server") -> float | None:
        """One of ``METRICS`` in s by that clock; None for the gap between tokens of a one-token answer."""
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
        at = "client_" if clock == "client" else ""
        if metric == "e2e_per_token":
            whole = getattr(self, f"{at}e2e_s")
            return None if whole is None else float(whole / self.output_len)
        value: float | None = getattr(self, f"{at}{metric}_s")
        return value


@dataclass(frozen=True)
class ServingRun(Result):
    """One run: where it was served, under which limits, and what was measured."""

    name: str
    model: str
    device: str
    tp: int
    precision: str
    regime: str
    arrivals: str
    clock: str
    quality: str
    workload: str
    defects: tuple[str, ...]
    source: str
    where: str
    set: str = "first"
    cached_len: int = 0
    server: str = ""
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    max_model_len: int | None = None
    cache_tokens: int | None = None
    stages: tuple[tuple[float, float], ...] = ()  # requests per second, for how many seconds
    printed: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    requests: tuple[MeasuredRequest, ...] = ()

    def summary(self) -> list[str]:
        latencies = []
        for metric in METRICS:
            if (values := self.values(metric)) or f"{metric}_s" in self.printed:
                latencies.append(
                    (
                        metric,
                        f"mean {format_value(self.mean(metric), 's')}"
                        + (f", {len(values)} requests" if values else ""),
                    )
                )
        limits = {
            n: getattr(self, n) for n in ("max_num_batched_tokens", "max_num_seqs", "max_model_len") if getattr(self, n)
        }
        return format_rows(
            f"measured: {self.model} on {self.tp} x {self.device}, {self.precision}, {self.regime} ({self.name})",
            *latencies,
            ("requests", f"{len(self.requests) or 'means only'}, {self.arrivals}; clock of the {self.clock}"),
            ("server", ", ".join([self.server, *(f"{k} {v}" for k, v in limits.items())]).strip(", ")),
            ("quality", self.quality),
            ("defects", "; ".join(self.defects)[:200]),
            ("source", f"{self.source}, {self.where}"[:200]),
        )

    def chart(self) -> "Drawing | None":
        """Distributions of the latencies."""
        from mlsysim.drawing import shapes

        kinds = {metric: self.values(metric) for metric in ("ttft", "e2e")}
        return shapes.distribution(self.name, kinds, "time", "s")

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per request."""
        return [dict(plain(vars(r))) for r in self.requests] or super().frame_rows()

    @property
    def input_len(self) -> float:
        """Mean over the requests."""
        return self._mean_count("input_len")

    @property
    def output_len(self) -> float:
        """Mean over the requests."""
        return self._mean_count("output_len")

    def _mean_count(self, name: str) -> float:
        if not self.requests:
            return self.printed[name]
        return statistics.fmean(getattr(r, name) for r in self.requests)

    def values(self, metric: str, clock: str = "") -> list[float]:
        """What the requests took, in s by the run's clock or the one given; nothing where only means are printed."""
        found = (r.value(metric, clock or self.clock) for r in self.requests)
        return [v for v in found if v is not None]

    def mean(self, metric: str) -> float:
        """Mean of one of ``METRICS``, s: over every request, the first included, or as printed."""
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
        return statistics.fmean(self.values(metric)) if self.requests else self.printed[f"{metric}_s"]

    def median(self, metric: str) -> float | None:
        """Median, s; None where only means are printed."""
        values = self.values(metric)
        return statistics.median(values) if values else None


@cache
def _requests() -> Mapping[str, tuple[MeasuredRequest, ...]]:
    """The requests of every run, by its name."""
    found: dict[str, list[MeasuredRequest]] = {}
    for row in row_table("requests"):
        counts = {name: int(row[name]) for name in ("input_len", "output_len", "cached_len")}
        found.setdefault(row.pop("run"), []).append(MeasuredRequest(**row | counts))
    return MappingProxyType({run: tuple(of) for run, of in found.items()})


@cache
def _all_runs() -> Mapping[str, ServingRun]:
    raw = shipped_toml("mlsysim.evidence.rows", "runs.toml")
    return MappingProxyType({name: _run(name, entry) for name, entry in raw.items()})


def serving_runs(set: str = "first") -> Mapping[str, ServingRun]:
    """The measured runs of a set, by name.

    >>> run = serving_runs()["llama-2-7b-train-0"]
    >>> run.regime, len(run.requests), round(run.mean("ttft") * 1e3, 1), round(run.median("ttft") * 1e3, 1)
    ('synchronous', 23, 56.4, 45.4)
    >>> list(serving_runs("second"))
    ['codellama-34b-train-1', 'llama-3.1-8b-sharegpt']
    """
    return MappingProxyType({name: run for name, run in _all_runs().items() if run.set == set})


def _run(name: str, raw: Mapping[str, Any]) -> ServingRun:
    own = dict(raw)
    for key in own:
        if key not in {f.name for f in fields(ServingRun)} - {"name", "requests"}:
            raise InputError(f"runs.toml: {name}: no field {key!r} of a run")
    if own["regime"] not in REGIMES:
        raise unknown_name("regime", own["regime"], REGIMES)
    own["defects"] = tuple(own["defects"])
    own["stages"] = tuple((float(rate), float(time)) for rate, time in own.get("stages", ()))
    own["printed"] = MappingProxyType(dict(own.get("printed", {})))
    return ServingRun(name=name, requests=_requests().get(name, ()), **own)


def serving_run(name: str) -> ServingRun:
    """The measured run of that name, of any set.

    >>> serving_run("llama-2-7b-tp2-chat").mean("itl")
    0.0043624
    """
    return named("run", name, _all_runs())
