"""The ladder of accuracy on measured runs: what each rung of a step model predicts for them, and how wrong it is.

Synchronous runs have one request in the server at a time, so a request is its prompt passes and then its decode steps.
Loaded runs are replayed by the simulator of :mod:`mlsysim.serving`. A run is scored by the clock it was measured by,
over every request, the first included.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mlsysim import serving
from mlsysim._numeric import Num
from mlsysim.errors import InputError
from mlsysim.evidence.measured.serving_runs import METRICS, ServingRun, serving_runs
from mlsysim.evidence.metrics import signed_error
from mlsysim.inference import Deployment, deploy, request_latency
from mlsysim.memory.serving import BLOCK_TOKENS
from mlsysim.results import Result
from mlsysim.serving_steps import TIER_0, Batch, StepModel, StepOptions, blended_step, step_model

STAGE_SECONDS = 60.0  # of each stage of a run whose requests are not known; it lasts twenty times as long as a request
_GRAIN = 512  # tokens of a context between which the time of a decode step is taken to be straight


@dataclass(frozen=True)
class RunScore(Result):
    """One run beside its prediction: means and medians over its requests, s, and each request's error in latency."""

    run: ServingRun
    predicted: Mapping[str, float]
    predicted_median: Mapping[str, float] = field(default_factory=dict)
    request_errors: tuple[float, ...] = ()

    def error(self, metric: str) -> float:
        """Signed error of the mean."""
        return float(signed_error(self.predicted[metric], self.run.mean(metric)))


@dataclass(frozen=True)
class LadderScore(Result):
    """Every run with one choice of rungs."""

    options: StepOptions
    runs: tuple[RunScore, ...]

    def chosen(self, regime: str = "", clock: str = "") -> list[RunScore]:
        """The runs of one regime, or of one clock."""
        return [r for r in self.runs if regime in ("", r.run.regime) and clock in ("", r.run.clock)]

    def mape(self, metric: str, regime: str = "", clock: str = "") -> float:
        """Mean absolute error over runs, a fraction."""
        return statistics.fmean(abs(r.error(metric)) for r in self._some(regime, clock))

    def bias(self, metric: str, regime: str = "", clock: str = "") -> float:
        """Mean signed error over runs, a fraction: negative when too fast."""
        return statistics.fmean(r.error(metric) for r in self._some(regime, clock))

    def _some(self, regime: str, clock: str) -> list[RunScore]:
        found = self.chosen(regime, clock)
        if not found:
            raise InputError(f"score: no run with regime {regime!r} and clock {clock!r} among those that were scored")
        return found


def score(
    options: StepOptions = TIER_0,
    runs: Iterable[ServingRun] | None = None,
    *,
    seed: int = 0,
    wrap: Callable[[StepModel], serving.StepTimes] | None = None,
) -> LadderScore:
    """Predict measured runs with a choice of rungs.

    Parameters
    ----------
    options : Rungs
        Which form of each part of the step model.
    runs : iterable of ServingRun, optional
        All that ship by default.
    seed : int
        Of the arrivals of loaded runs whose requests are not known.
    wrap : callable, optional
        What makes step times of a step model, to add something to it.

    >>> from mlsysim.evidence import serving_run
    >>> round(score(runs=[serving_run("llama-2-7b-tp1-chat")]).mape("itl"), 2)
    0.01
    """
    chosen = serving_runs().values() if runs is None else runs
    return LadderScore(options, tuple(_score_run(run, options, seed, wrap) for run in chosen))


def deployment_of(run: ServingRun) -> Deployment:
    """The model on the device, as the run had it."""
    return deploy(run.model, run.device, tp=run.tp, precision=run.precision)


def _score_run(
    run: ServingRun, options: StepOptions, seed: int, wrap: Callable[[StepModel], serving.StepTimes] | None
) -> RunScore:
    model = step_model(deployment_of(run), options)
    steps = model if wrap is None else wrap(model)
    rows = list(_alone(run, model, steps) if run.regime == "synchronous" else _replayed(run, model, steps, seed))
    columns = {m: [v for row in rows if (v := row[m]) is not None] for m in METRICS}
    predicted = MappingProxyType({m: statistics.fmean(v) for m, v in columns.items()})
    middle = MappingProxyType({m: statistics.median(v) for m, v in columns.items()})
    measured = run.values("e2e")
    errors = [float(signed_error(row["e2e"], v)) for row, v in zip(rows, measured, strict=True)] if measured else []
    return RunScore(run, predicted, middle, tuple(errors))


# One request at a time


def alone(
    steps: serving.StepTimes, input_len: int, output_len: float, cached_len: int = 0, budget: int = 8192
) -> tuple[float, float]:
    """Time to the first token, and mean time between tokens, of a request that has the server to itself, s.

    A prompt longer than the budget of a step takes several. ``output_len`` may be a mean over requests.

    >>> ttft, itl = alone(step_model(deploy("Llama-2-7B", "H100"), TIER_0), 482, 100)
    >>> round(ttft * 1e3, 1), round(itl * 1e3, 2)
    (13.2, 6.25)
    """
    ttft = 0.0
    while cached_len < input_len:
        new = min(budget, input_len - cached_len)
        pairs = new * cached_len + new * (new + 1) / 2
        ttft += float(
            steps.time(Batch(new, pairs, cached_len + new, 1.0, windowed_pairs=pairs, windowed_read=cached_len + new))
        )
        cached_len += new
    last = input_len + max(1, round(output_len) - 1)
    return ttft, _mean_step(steps, input_len + 1, last)


def _mean_step(steps: serving.StepTimes, first: int, last: int) -> float:
    """Mean time of the decode steps of one sequence, its context growing by one: straight between every grain."""
    at = list(range(first, last, _GRAIN)) + [last]
    times = [_decode(steps, 1.0, c) for c in at]
    if first == last:
        return times[0]
    pieces = [(b - a) * (s + t) / 2 for a, b, s, t in zip(at, at[1:], times, times[1:], strict=False)]
    return (sum(pieces) + (times[0] + times[-1]) / 2) / (last - first + 1)


def _decode(steps: serving.StepTimes, sequences: float, context: float) -> float:
    return float(steps.time(Batch(decodes=sequences, context=context, windowed_context=context)))


Row = dict[str, float | None]


def _alone(run: ServingRun, model: StepModel, steps: serving.StepTimes) -> Iterator[Row]:
    budget = run.max_num_batched_tokens or serving.limits(serving.Config(kv_blocks=1), model).tokens
    asked = [(r.input_len, float(r.output_len), r.cached_len) for r in run.requests] or [
        (round(run.input_len), run.output_len, run.cached_len)
    ]
    for prompt, output, prefix in asked:
        cached_len = min(prefix, prompt - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        ttft, itl = alone(steps, prompt, output, cached_len, budget)
        e2e = float(request_latency(ttft, output, itl))
        yield {"ttft": ttft, "itl": itl if output > 1 else None, "e2e": e2e, "e2e_per_token": e2e / output}


# Many requests


class _Straight:
    """Step times whose decode steps are read between a few: with so many sequences their time is straight in the context.

    It is so exactly, but for the one place where arithmetic and traffic of attention change places. How kinds are mixed
    does not matter to a step of one kind, so the quickest form of it serves there.
    """

    def __init__(self, model: StepModel, steps: serving.StepTimes) -> None:
        self.deployment, self.steps = model.deployment, steps
        own = steps is model
        self._pure = step_model(model.deployment, replace(model.options, mixing="additive")) if own else steps
        self._blends = own and model.options.mixing == "blend"
        self._met: dict[tuple[float, int], float] = {}
        self._prompts: dict[tuple[float, ...], float] = {}

    def time(self, batch: Batch) -> Num:
        if not batch.prefills:
            return self._running(batch)
        if not self._blends:
            return self.steps.time(batch)
        alone = self._prompt(batch)
        if not batch.decodes:
            return alone
        return float(blended_step(alone, self._running(batch), batch.prefill_tokens, batch.decodes))

    def _prompt(self, batch: Batch) -> float:
        """The prompts of a batch alone; requests whose lengths are not known all have the same."""
        key = (batch.prefill_tokens, batch.prefill_pairs, batch.prefill_read, batch.prefills)
        if key not in self._prompts:
            prompts = replace(batch, decodes=0.0, context=0.0, windowed_context=0.0)
            self._prompts[key] = float(self._pure.time(prompts))
        return self._prompts[key]

    def decoding(self, decodes: float) -> Callable[[float, float], float]:
        """Times of steps in which so many sequences decode and no prompt runs, by the tokens in their caches."""
        grain, node, met = _GRAIN * decodes, self._node, self._met

        def seconds(context: float, near: float) -> float:
            place = context / grain
            below = int(place)
            if (low := met.get((decodes, below))) is None:
                low = node(decodes, below)
            if (high := met.get((decodes, below + 1))) is None:
                high = node(decodes, below + 1)
            return low + (place - below) * (high - low)

        return seconds

    def _running(self, batch: Batch) -> float:
        return self.decoding(batch.decodes)(batch.context, batch.windowed_context)

    def _node(self, sequences: float, index: int) -> float:
        if (sequences, index) not in self._met:
            self._met[sequences, index] = _decode(self._pure, sequences, index * _GRAIN * sequences)
        return self._met[sequences, index]


def requests_of(run: ServingRun, seed: int = 0) -> tuple[serving.Request, ...]:
    """What was sent: the measured requests, or Poisson arrivals at the rates of its stages and prompts of mean length."""
    if run.requests:
        start = run.requests[0].arrival_s
        return tuple(
            serving.Request(r.arrival_s - start, r.input_len, r.output_len, r.cached_len) for r in run.requests
        )
    arrivals: list[float] = []
    for i, (rate, seconds) in enumerate(run.stages):
        stage = min(seconds, STAGE_SECONDS)
        start = i * STAGE_SECONDS
        arrivals += [start + t for t in serving.poisson(rate, round(2 * rate * stage), seed + 1000 * i) if t < stage]
    return serving.load(arrivals, round(run.input_len), round(run.output_len), run.cached_len)


def config_of(run: ServingRun) -> serving.Config:
    """The server's options, and its cache where its log tells it."""
    block = BLOCK_TOKENS
    return serving.Config(
        max_num_batched_tokens=run.max_num_batched_tokens,
        max_num_seqs=run.max_num_seqs,
        kv_blocks=None if run.cache_tokens is None else run.cache_tokens // block,
    )


def _replayed(run: ServingRun, model: StepModel, steps: serving.StepTimes, seed: int) -> Iterator[Row]:
    found = serving.simulate(_Straight(model, steps), requests_of(run, seed), config_of(run))
    for record in found.records:
        yield {m: getattr(record, f"{m}_s") for m in METRICS}
