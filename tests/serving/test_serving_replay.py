"""Measured serving runs, replayed: what Tier 0 says of them, by regime. Nothing here is fitted to these runs."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pytest

from mlsysim import serving
from mlsysim.evidence import serving_run, serving_runs
from mlsysim.inference import deploy
from mlsysim.serving import Config, Request, simulate
from mlsysim.serving_steps import StepModel, step_model

METRICS = {"ttft": "ttft_s", "itl": "itl_s", "e2e": "e2e_s"}


@dataclass(frozen=True)
class Point:
    """A measured run: what came, on what server, and its mean latencies in ms."""

    name: str
    regime: str
    model: StepModel
    config: Config
    requests: tuple[Request, ...]
    measured: dict[str, float]
    known: bool  # whether every request was recorded

    def play(self) -> dict[str, float]:
        """Simulated means, ms. A synchronous client sends the next request when it has the answer to the last one."""
        if self.regime == "synchronous":
            records = [simulate(self.model, [r], self.config).records[0] for r in self.requests]
        else:
            records = list(simulate(self.model, self.requests, self.config).records)
        return {
            m: 1e3 * statistics.mean(v for r in records if (v := getattr(r, f)) is not None) for m, f in METRICS.items()
        }


@pytest.mark.published
def test_a_server_whose_cache_is_too_small() -> None:
    """22 requests at once for 2,537 blocks: with the prefix cache a preempted request finds its own blocks again."""
    run = serving_run("codellama-34b-train-1")
    requests = [Request(r.arrival_s, r.input_len, r.output_len, r.cached_len) for r in run.requests]
    model = step_model(deploy("CodeLlama-34B", "H100"))
    config = Config(max_num_batched_tokens=4096, max_num_seqs=256, kv_blocks=2537)
    found = simulate(model, requests, config)
    assert found.preemptions > 0
    e2e = [(r.e2e_s, measured.e2e_s) for r, measured in zip(found.records, run.requests, strict=True)]
    assert all(ours is not None for ours, _ in e2e)
    each = [ours / theirs - 1 for ours, theirs in e2e if ours is not None]
    # All of them are about 5.0 % too quick since attention starts in 8 us instead of 17: a term of vLLM's layers is missing.
    assert mape(each) < 0.055 and max(abs(error) for error in each) < 0.10
    assert abs(sum(ours for ours, _ in e2e if ours) / sum(theirs for _, theirs in e2e) - 1) < 0.055
    # without it the server computes the same prompts again and again, and takes twice as long
    cold = simulate(model, requests, replace(config, prefix_caching=False))
    assert cold.makespan > 1.8 * found.makespan


def points() -> Iterable[Point]:
    for name, run in serving_runs().items():
        model = step_model(deploy(run.model, run.device, tp=run.tp))
        config = Config(max_num_batched_tokens=run.max_num_batched_tokens or 8192, max_num_seqs=run.max_num_seqs or 256)
        if run.requests:
            start = run.requests[0].arrival_s
            requests = tuple(
                Request(r.arrival_s - start, r.input_len, r.output_len, r.cached_len) for r in run.requests
            )
        elif run.regime == "synchronous":
            requests = (Request(0.0, round(run.input_len), round(run.output_len)),)
        else:  # thousands of requests of which only means were published, and the stages of the load
            at, begin = [], 0.0
            for rate, seconds in run.stages:
                at += [begin + t for t in serving.poisson(rate, int(seconds * rate), seed=1)]
                begin += seconds
            requests = serving.load(at, round(run.input_len), round(run.output_len))
        measured = {m: 1e3 * run.mean(m) for m in METRICS}
        yield Point(name, run.regime, model, config, requests, measured, bool(run.requests))


def errors(found: Sequence[tuple[Point, dict[str, float]]], metric: str, regime: str | None = None) -> list[float]:
    return [
        result[metric] / point.measured[metric] - 1
        for point, result in found
        if regime is None or point.regime == regime
    ]


def mape(values: Sequence[float]) -> float:
    return statistics.mean(abs(v) for v in values)


@pytest.mark.slow
@pytest.mark.independent
def test_tier_0_on_the_open_serving_points(capsys: pytest.CaptureFixture[str]) -> None:
    found = [(p, p.play()) for p in points()]
    with capsys.disabled():
        print()
        for p, result in found:
            cells = "  ".join(
                f"{m} {p.measured[m]:8.1f} {result[m]:8.1f} {result[m] / p.measured[m] - 1:+6.1%}" for m in METRICS
            )
            print(f"{p.name:<48.48} {cells}")
        for regime in ("synchronous", "loaded", None):
            cells = "  ".join(f"{m} {mape(errors(found, m, regime)):6.1%}" for m in METRICS)
            print(f"MAPE {regime or 'all':<12} {cells}  ({len(errors(found, 'e2e', regime))} points)")
    # 10.9 % and 11.0 %: steps of one card are mostly 3 to 7 % too quick (see above), and one run of two cards alone (codegen, +89 %) gives 4.7.
    assert mape(errors(found, "e2e")) <= 0.115
    assert mape(errors(found, "itl")) <= 0.115
    # of seven runs only rounded means are published, and the prompts' lengths as they were asked for: no test of a TTFT
    known = [(p, result) for p, result in found if p.known]
    assert len(known) == 12 and mape(errors(known, "ttft")) <= 0.15
