"""The synthetic sweeps of the hypotheses: whole curves of step times, with one form of the model and with another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from mlsysim.inference import Deployment
from mlsysim.results import Result
from mlsysim.serving_steps.batches import Batch
from mlsysim.serving_steps.comparisons import jump
from mlsysim.serving_steps.step import StepModel, step_model
from mlsysim.serving_steps.step_options import TIER_0, StepOptions

CONTEXTS = tuple(range(128, 8193, 64))  # tam2026, H4 and H6
BATCHES = tuple(range(1, 257))  # H6
SHARES = tuple(n / 64 for n in range(65))  # H5
JUMP = 0.05  # H6


@dataclass(frozen=True)
class TimeCurve(Result):
    """Step times of two forms over one axis, s."""

    x: tuple[float, ...]
    baseline: tuple[float, ...]
    treatment: tuple[float, ...]

    @property
    def gaps(self) -> tuple[float, ...]:
        """Treatment over baseline, less one, signed."""
        return tuple(t / b - 1 for b, t in zip(self.baseline, self.treatment, strict=True))


def _models(deployment: Deployment, options: StepOptions, name: str, *values: str) -> list[StepModel]:
    return [step_model(deployment, replace(options, **{name: v})) for v in values]


def decode_batch(sequences: float, context: float) -> Batch:
    """Running sequences that all attend to so many tokens."""
    seen = sequences * context
    return Batch(decodes=sequences, context=seen, windowed_context=seen)


def prompt_batch(tokens: float, sequences: float = 0.0, context: float = 0.0) -> Batch:
    """One whole prompt, or none of zero tokens, beside running sequences."""
    seen, pairs = sequences * context, tokens * (tokens + 1) / 2
    return Batch(tokens, pairs, tokens, float(tokens > 0), sequences, seen, pairs, tokens, seen)


def granularity_curve(
    deployment: Deployment, sequences: float, contexts: Sequence[float] = CONTEXTS, options: StepOptions = TIER_0
) -> TimeCurve:
    """H4, part A: decode steps over the context, with one maximum a step and with one a kernel.

    >>> from mlsysim.inference import deploy
    >>> curve = granularity_curve(deploy("Llama-2-7B", "H100"), 1, [128, 8192])
    >>> min(curve.gaps) >= 0
    True
    """
    models = _models(deployment, options, "granularity", "step", "kernel")
    times = [tuple(float(m.time(decode_batch(sequences, c))) for c in contexts) for m in models]
    return TimeCurve(tuple(map(float, contexts)), *times)


def mixing_curve(
    deployment: Deployment,
    tokens: float = 512,
    context: float = 1024,
    shares: Sequence[float] = SHARES,
    options: StepOptions = TIER_0,
    mixing: tuple[str, str] = ("blend", "additive"),
) -> TimeCurve:
    """H5, part A: steps of so many tokens over the share of them that belongs to a prompt.

    >>> from mlsysim.inference import deploy
    >>> curve = mixing_curve(deploy("Llama-2-7B", "H100"), shares=[0.0, 0.5, 1.0])
    >>> [round(g, 2) + 0.0 for g in curve.gaps][0::2]
    [0.0, 0.0]
    """
    models = _models(deployment, options, "mixing", *mixing)
    batches = [prompt_batch(s * tokens, (1 - s) * tokens, context) for s in shares]
    times = [tuple(float(m.time(b)) for b in batches) for m in models]
    return TimeCurve(tuple(map(float, shares)), *times)


def reversals(values: Sequence[float]) -> int:
    """How often a curve turns around.

    >>> reversals([1.0, 2.0, 2.0, 3.0]), reversals([1.0, 2.0, 1.5, 3.0])
    (0, 2)
    """
    signs = [b > a for a, b in pairwise(values) if b != a]
    return sum(a != b for a, b in pairwise(signs))


def lookup_times(deployment: Deployment, lookup: str, options: StepOptions = TIER_0) -> dict[str, tuple[float, ...]]:
    """H6, part A: decode steps over the batch at a context of 1,024, and steps of one prompt over its length, s."""
    (model,) = _models(deployment, options, "lookup", lookup)
    return {
        "batch": tuple(float(model.time(decode_batch(float(b), 1024.0))) for b in BATCHES),
        "prompt": tuple(float(model.time(prompt_batch(float(s)))) for s in CONTEXTS),
    }


AXES = {"batch": BATCHES, "prompt": CONTEXTS}


def jumps_over(axis: str, times: Sequence[float], threshold: float = JUMP) -> tuple[float, ...]:
    """Where a curve of :func:`lookup_times` jumps by at least the threshold (eq-jump): the larger of each two x.

    >>> jumps_over("batch", [1.0, 0.9, 1.6])
    (2.0, 3.0)
    """
    x = AXES[axis]
    return tuple(
        float(after)
        for before, after, s, t in zip(x, x[1:], times, times[1:], strict=False)
        if jump(s, t, float(before), float(after)) >= threshold
    )


def changes_over(times: Sequence[float], threshold: float = JUMP) -> int:
    """The count as H6 words it: neighbours that differ by the threshold, whatever the work between them.

    >>> changes_over([1.0, 1.5, 1.51, 1.2])
    2
    """
    return sum(abs(b / a - 1) >= threshold for a, b in pairwise(times))
