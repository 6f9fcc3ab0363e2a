"""The hypotheses on measured runs: the numbers that their acceptance criteria ask for, and those that explain them."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlsysim import catalog
from mlsysim._numeric import Num
from mlsysim.evidence.hypotheses.hypotheses import Hypothesis
from mlsysim.evidence.hypotheses.sweeps import jumps_over, lookup_times
from mlsysim.evidence.measured.serving_runs import ServingRun, serving_runs
from mlsysim.evidence.metrics import signed_error
from mlsysim.evidence.studies.ladder import LadderScore, RunScore, alone, deployment_of, score
from mlsysim.inference import Deployment
from mlsysim.results import Result
from mlsysim.serving_steps import BASELINE, Batch, Rates, StepOptions, step_model
from mlsysim.serving_steps.comparisons import layer_residual
from mlsysim.serving_steps.step import StepModel

SEEDS = (0, 1, 2)
SPLITS = range(5)
CONSTANTS = tuple(i * 1e-3 for i in range(11))  # s; H2 sweeps by 1 ms
DECODE_HEAVY = ("chat", "train")  # by the workload's name: answers of hundreds of tokens
PAIRS = {
    "itl": ("itl", "itl"),
    "e2e_per_token": ("e2e_per_token", "e2e_per_token"),
    "mixed": ("itl", "e2e_per_token"),  # predicted the one, measured the other
}


def sides(hypothesis: Hypothesis, on: StepOptions = BASELINE) -> tuple[StepOptions, StepOptions]:
    """Rungs of the baseline and of the treatment, on top of others."""
    return replace(on, **hypothesis.baseline), replace(on, **hypothesis.treatment)


def synchronous() -> list[ServingRun]:
    """The runs with one request at a time."""
    return [r for r in serving_runs().values() if r.regime == "synchronous"]


def with_seeds(options: StepOptions, seeds: Sequence[int] = SEEDS) -> list[LadderScore]:
    """Scores by seed. Only runs whose requests are not known have chance in them; the others are computed once."""
    first = score(options, seed=seeds[0])
    drawn = [r.run for r in first.runs if r.run.stages]
    found = [first]
    for seed in seeds[1:]:
        again = {r.run.name: r for r in score(options, drawn, seed=seed).runs}
        found.append(LadderScore(options, tuple(again.get(r.run.name, r) for r in first.runs)))
    return found


def mape(scored: Sequence[RunScore], metric: str = "e2e") -> float:
    """Mean absolute error over some runs."""
    return statistics.fmean(abs(r.error(metric)) for r in scored)


# H1


def workload(run: ServingRun) -> str:
    """Whether answers or prompts take most of the time of a synchronous run."""
    return "decode-heavy" if any(w in run.name for w in DECODE_HEAVY) else "prefill-heavy"


def paired_error(scored: RunScore, pair: str) -> float:
    """Error of a run where the two metrics need not be the same one."""
    predicted, measured = PAIRS[pair]
    return float(signed_error(scored.predicted[predicted], scored.run.mean(measured)))


def gains(before: LadderScore, after: LadderScore, pair: str = "itl") -> dict[str, float]:
    """How much better the mean absolute error of synchronous runs becomes, as a fraction, by workload and overall."""
    found: dict[str, list[float]] = {"all": []}
    for b, a in zip(before.chosen("synchronous"), after.chosen("synchronous"), strict=True):
        gain = abs(paired_error(b, pair)) - abs(paired_error(a, pair))
        found["all"].append(gain)
        found.setdefault(workload(b.run), []).append(gain)
    return {k: statistics.fmean(v) for k, v in found.items()}


# H2


@dataclass(frozen=True)
class Split(Result):
    """A constant chosen on some runs and tried on others; gains are fractions."""

    constant: float  # s
    train_gain: float
    held_out_gain: float
    ttft_loss: float


def constant_splits(base: LadderScore, splits: Sequence[int] = SPLITS, held_out: int = 2) -> list[Split]:
    """H2 as it was designed: a constant added to every step, chosen on most runs, tried on those held out.

    In a synchronous run a constant per step adds to the time between tokens, and to the time to the first token once
    (a prompt within the budget of a step is one step).
    """
    runs = base.chosen("synchronous")

    def error(some: Sequence[RunScore], metric: str, constant: float) -> float:
        return statistics.fmean(abs(signed_error(r.predicted[metric] + constant, r.run.mean(metric))) for r in some)

    found = []
    for seed in splits:
        out = random.Random(seed).sample(range(len(runs)), held_out)
        train, test = [r for i, r in enumerate(runs) if i not in out], [runs[i] for i in out]
        best = min(CONSTANTS, key=lambda c: error(train, "itl", c))
        found.append(
            Split(
                best,
                error(train, "itl", 0.0) - error(train, "itl", best),
                error(test, "itl", 0.0) - error(test, "itl", best),
                error(test, "ttft", best) - error(test, "ttft", 0.0),
            )
        )
    return found


def residuals(efficiency: float | None = None) -> dict[str, float]:
    """Time per layer that a decode step takes beyond its kernels' work (eq-layer-residual), s, by synchronous run.

    ``efficiency`` is the share of the datasheet bandwidth of every kernel; the measured ones by default.
    """
    found = {}
    for run in synchronous():
        d = deployment_of(run)
        model = step_model(d, StepOptions(overhead="none"))
        if efficiency is not None:
            model = step_model(d, model.options, _at(model, efficiency))
        prompt, output = round(run.input_len), run.output_len
        _, itl = alone(model, prompt, output)
        found[run.name] = float(layer_residual(run.mean("itl"), itl, float(d.model.n_layers)))
    return found


def _at(model: StepModel, efficiency: float) -> Rates:
    names = ("products_16bit", "products_8bit", "prefill_attention", "decode_attention")
    return replace(model.rates, **{n: replace(getattr(model.rates, n), memory=efficiency) for n in names})


def overhead_errors(per_step: float = 0.0, per_layer: float = 0.0, divided: bool = False) -> dict[str, float]:
    """Signed errors of the time between tokens with an overhead of one's own, by synchronous run."""
    found = {}
    for run in synchronous():
        d = deployment_of(run)
        _, itl = alone(step_model(d, StepOptions(overhead="none")), round(run.input_len), run.output_len)
        share = d.model.n_layers / (run.tp if divided else 1)
        found[run.name] = float(signed_error(itl + per_step + per_layer * share, run.mean("itl")))
    return found


# H3, and the causal factor


class CausalFactor:
    """Step times whose prompts count s^2 / factor query-key pairs instead of the half square that a causal mask leaves.

    InferSim takes 1.8 [attn.py]; the exact count of a whole prompt is s (s + 1) / 2.
    """

    def __init__(self, steps: StepModel, factor: float = 1.8) -> None:
        self.steps, self.factor = steps, factor

    def time(self, batch: Batch) -> Num:
        scale = 2.0 / self.factor
        return self.steps.time(
            replace(batch, prefill_pairs=batch.prefill_pairs * scale, windowed_pairs=batch.windowed_pairs * scale)
        )


def grouped(run: ServingRun) -> bool:
    """Whether several query heads of the model share keys and values."""
    m = catalog.model(run.model)
    return bool(m.kv_heads < m.heads)


# H5


def concurrency(run: ServingRun) -> float:
    """Requests in the server at a time, on average (eq-little)."""
    if not run.requests:
        return sum(rate * seconds for rate, seconds in run.stages) / sum(s for _, s in run.stages) * run.mean("e2e")
    span = max(r.arrival_s + r.e2e_s for r in run.requests) - run.requests[0].arrival_s
    return sum(r.e2e_s for r in run.requests) / span


def by_load(before: LadderScore, after: LadderScore) -> list[tuple[ServingRun, float, float, float]]:
    """Loaded runs from light to heavy: the run, its concurrency, and the errors of latency before and after."""
    rows = [
        (b.run, concurrency(b.run), b.error("e2e"), a.error("e2e"))
        for b, a in zip(before.chosen("loaded"), after.chosen("loaded"), strict=True)
    ]
    return sorted(rows, key=lambda row: row[1])


def load_lead(before: LadderScore, after: LadderScore) -> float:
    """Gain on the heavier half of the loaded runs, less that on the lighter half."""
    gain = [abs(b) - abs(a) for _, _, b, a in by_load(before, after)]
    half = len(gain) // 2
    return statistics.fmean(gain[-half:]) - statistics.fmean(gain[:half])


# H6


def spread(scored: LadderScore) -> float:
    """Variance of the errors of single requests, inside their runs: a mean over the runs that keep them."""
    return statistics.fmean(statistics.pvariance(r.request_errors) for r in scored.runs if len(r.request_errors) > 1)


def jumps_by_lookup(
    deployment: Deployment, lookups: Sequence[str] = ("nearest", "bilinear", "rates")
) -> dict[str, int]:
    """H6, part A: jumps over both axes together, by how efficiencies are looked up."""
    found = {}
    for lookup in lookups:
        times = lookup_times(deployment, lookup)
        found[lookup] = sum(len(jumps_over(axis, t)) for axis, t in times.items())
    return found
