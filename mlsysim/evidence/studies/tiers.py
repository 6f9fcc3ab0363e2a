"""The measured runs of a serving engine, replayed: Tier 0 beside Tier 1, each run scored by a fit on the others."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from mlsysim.evidence import calibrating
from mlsysim.evidence.measured.serving_runs import ServingRun, serving_runs
from mlsysim.inference import deploy
from mlsysim.results import Result
from mlsysim.serving import Config, Request, simulate
from mlsysim.serving_steps import TIER_0, step_model
from mlsysim.serving_steps.calibration import METRICS

EXPERIMENTS: Mapping[str, str] = MappingProxyType({"Llama-2-7B": "llama-2-7b-train", "CodeLlama-34B": "codellama-34b"})

_APART = 1000.0  # s, between requests that shall not meet


@dataclass(frozen=True)
class TierScore(Result):
    """Errors of one run: mean absolute relative error over its requests, and the relative error of the mean."""

    run: str
    regime: str
    requests: int
    metric: str
    tier0_error: float
    tier1_error: float
    tier0_mean: float
    tier1_mean: float


@cache
def replayed(name: str) -> tuple[calibrating.Request, ...]:
    """Every request of a run beside what the simulator makes of it, nothing fitted.

    The server's own log gives its limits and its blocks of cache; without them they are left to the simulator. In a
    synchronous run a request comes when the last has gone, in the replay too.
    """
    run = serving_runs()[name]
    config = Config(
        max_num_batched_tokens=run.max_num_batched_tokens,
        max_num_seqs=run.max_num_seqs,
        kv_blocks=run.cache_tokens // 16 if run.cache_tokens else None,
    )
    steps = step_model(deploy(run.model, run.device, tp=run.tp), TIER_0)
    alone = run.regime == "synchronous"
    asked = [
        Request(i * _APART if alone else r.arrival_s, r.input_len, r.output_len, r.cached_len)
        for i, r in enumerate(run.requests)
    ]
    records = simulate(steps, asked, config).records
    return tuple(
        calibrating.Request(
            r.input_len,
            r.output_len,
            MappingProxyType({m: float(r.value(m.removesuffix("_s"), run.clock) or 0.0) for m in METRICS}),
            MappingProxyType({m: float(getattr(s, m)) for m in METRICS}),
        )
        for r, s in zip(run.requests, records, strict=True)
    )


def points_of(model: str) -> tuple[ServingRun, ...]:
    """The runs of a model that keep their requests, in the order of the sweep."""
    return tuple(r for n, r in serving_runs().items() if n.startswith(EXPERIMENTS[model]) and r.requests)


def per_token(requests: Sequence[calibrating.Request]) -> tuple[calibrating.Request, ...]:
    """The same requests with the time between tokens as their metric ``itl_s``; answers of one token have none."""

    def itl(times: Mapping[str, float], tokens: float) -> Mapping[str, float]:
        return {"itl_s": (times["e2e_s"] - times["ttft_s"]) / (tokens - 1)}

    return tuple(
        calibrating.Request(r.input_len, r.output_len, itl(r.measured, r.output_len), itl(r.predicted, r.output_len))
        for r in requests
        if r.output_len > 1
    )


def leave_one_out(
    model: str, metric: str = "e2e_s", slopes: bool = True, relative: bool = True
) -> tuple[TierScore, ...]:
    """Score every run of a model by coefficients fitted on its other runs."""
    runs = points_of(model)
    of = {r.name: per_token(replayed(r.name)) if metric == "itl_s" else replayed(r.name) for r in runs}
    scores = []
    for run in runs:
        others = [q for other in runs if other.name != run.name for q in of[other.name]]
        found = calibrating.fit_metric(others, metric, slopes, relative)
        mine = of[run.name]
        measured = [q.measured[metric] for q in mine]
        before = [q.predicted[metric] for q in mine]
        after = [b + found.residual(q.output_len, q.input_len) for b, q in zip(before, mine, strict=True)]
        mean = statistics.fmean(measured)
        scores.append(
            TierScore(
                run.name,
                run.regime,
                len(mine),
                metric,
                calibrating.mean_error(measured, before),
                calibrating.mean_error(measured, after),
                statistics.fmean(before) / mean - 1,
                statistics.fmean(after) / mean - 1,
            )
        )
    return tuple(scores)
