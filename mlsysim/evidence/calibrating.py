"""Tier 1, fitted: the residuals of a prediction on one measured trace, and how far such a fit may be trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from types import MappingProxyType

from mlsysim.errors import InputError
from mlsysim.results import Result
from mlsysim.serving_steps.calibration import LEAST_REQUESTS, METRICS, Calibration, Coefficients, Subject
from mlsysim.serving_steps.residuals import residual_constant

OVERFITTED, STALE = 2.0, 0.30  # tam2026, sec. 2
FOLDS = 5


@dataclass(frozen=True)
class Request:
    """One measured request beside its Tier 0 prediction. Times in s."""

    input_len: float
    output_len: float
    measured: Mapping[str, float]  # by metric
    predicted: Mapping[str, float]


def mean_error(measured: Sequence[float], predicted: Sequence[float]) -> float:
    """Mean absolute error relative to the measurement (MAPE, as a fraction).

    >>> mean_error([1.0, 2.0], [1.1, 1.8])
    0.1
    """
    if not measured or len(measured) != len(predicted):
        raise InputError(f"mean_error: {len(measured)} measurements and {len(predicted)} predictions")
    return round(sum(abs(p / m - 1) for m, p in zip(measured, predicted, strict=True)) / len(measured), 15)


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with pivoting, for the few normal equations of a fit."""
    n = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        if abs(rows[i][i]) < 1e-12:
            raise InputError(
                "the trace cannot tell its sizes apart (all prompts or all answers have one length, or one follows "
                "from the other); fit the constant alone, or measure requests of mixed lengths"
            )
        for r in range(i + 1, n):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    found = [0.0] * n
    for i in reversed(range(n)):
        found[i] = (rows[i][n] - sum(rows[i][j] * found[j] for j in range(i + 1, n))) / rows[i][i]
    return found


def least_squares(
    output_len: Sequence[float],
    input_len: Sequence[float],
    residuals: Sequence[float],
    weights: Sequence[float] | None = None,
    slopes: bool = True,
) -> Coefficients:
    """Fit residual = a n_out + b n_in + d; without slopes the constant alone.

    The two slopes solve the normal equations of sizes counted from their means and in standard deviations (that keeps
    them well conditioned), and the constant is eq-residual-constant. Weights count a request more or less than once.

    >>> fit = least_squares([1, 2, 3, 4], [5, 1, 4, 2], [6.0, 4.0, 9.0, 9.0])
    >>> [round(v, 9) for v in (fit.per_output, fit.per_prompt, fit.constant)]
    [2.0, 1.0, -1.0]
    """
    n = len(residuals)
    w = [1.0] * n if weights is None else list(weights)
    if n == 0 or not len(output_len) == len(input_len) == len(w) == n:
        raise InputError(
            f"least_squares: {len(output_len)} answers, {len(input_len)} prompts, {n} residuals and {len(w)} "
            "weights; give one of each per request"
        )
    total = sum(w)
    outputs, prompts, rest = (
        sum(v * x for v, x in zip(w, values, strict=True)) / total for values in (output_len, input_len, residuals)
    )
    if not slopes:
        return Coefficients(0.0, 0.0, float(residual_constant(rest, outputs, prompts)))
    columns, scales = [], []
    for values, mean in ((output_len, outputs), (input_len, prompts)):
        scale = sqrt(sum(v * (x - mean) ** 2 for v, x in zip(w, values, strict=True)) / total) or 1.0
        columns.append([(x - mean) / scale for x in values])
        scales.append(scale)

    def product(p: Sequence[float], q: Sequence[float]) -> float:
        return sum(v * x * y for v, x, y in zip(w, p, q, strict=True)) / total

    right = [product(c, [r - rest for r in residuals]) for c in columns]
    solved = _solve([[product(p, q) for q in columns] for p in columns], right)
    per_output, per_prompt = (slope / scale for slope, scale in zip(solved, scales, strict=True))
    return Coefficients(
        per_output, per_prompt, float(residual_constant(rest, outputs, prompts, per_output, per_prompt))
    )


def _fit_one(requests: Sequence[Request], metric: str, slopes: bool, relative: bool) -> Coefficients:
    return least_squares(
        [r.output_len for r in requests],
        [r.input_len for r in requests],
        [r.measured[metric] - r.predicted[metric] for r in requests],
        [r.measured[metric] ** -2 if relative else 1.0 for r in requests],
        slopes,
    )


def _errors(fit: Coefficients, requests: Sequence[Request], metric: str) -> float:
    after = [r.predicted[metric] + fit.residual(r.output_len, r.input_len) for r in requests]
    return mean_error([r.measured[metric] for r in requests], after)


def fit_metric(requests: Sequence[Request], metric: str, slopes: bool = True, relative: bool = True) -> Coefficients:
    """Fit one metric, and say how the fit does on requests left out of it; no guard decides anything here.

    Parameters
    ----------
    requests : sequence of Request
    metric : str
        A key of their measurements and predictions.
    slopes : bool
        False fits the constant alone.
    relative : bool
        Least squares of relative errors, which are what a score counts; False takes seconds, so that the slowest
        requests decide.
    """
    found = _fit_one(requests, metric, slopes, relative)
    held = 0.0
    for fold in range(FOLDS):
        others = [r for i, r in enumerate(requests) if i % FOLDS != fold]
        mine = [r for i, r in enumerate(requests) if i % FOLDS == fold]
        held += len(mine) * _errors(_fit_one(others, metric, slopes, relative), mine, metric)
    left = [r.measured[metric] - r.predicted[metric] - found.residual(r.output_len, r.input_len) for r in requests]
    return replace(
        found,
        tier0_error=mean_error([r.measured[metric] for r in requests], [r.predicted[metric] for r in requests]),
        training_error=_errors(found, requests, metric),
        validation_error=held / len(requests),
        spread=sqrt(sum(v * v for v in left) / max(1, len(left) - (3 if slopes else 1))),
    )


@dataclass(frozen=True)
class Freshness(Result):
    """Whether a calibration still holds on a new trace."""

    tier0_error: float
    error: float
    stale: bool
    worse: bool  # than no calibration at all

    def __str__(self) -> str:
        word = "stale: fit again" if self.stale else "worse than Tier 0: do not use it here" if self.worse else "holds"
        return f"Tier 0 errs by {self.tier0_error:.1%}, Tier 1 by {self.error:.1%}; {word}"


def verdict(calibration: Calibration, requests: Sequence[Request], metric: str = "e2e_s") -> Freshness:
    """Hold a calibration against a new trace; stale above an error of 30 %, as tam2026 has it."""
    before = mean_error([r.measured[metric] for r in requests], [r.predicted[metric] for r in requests])
    after = _errors(calibration.metrics[metric], requests, metric)
    return Freshness(before, after, after > STALE, after > before)


def fit(requests: Sequence[Request], subject: Subject, slopes: bool = True, relative: bool = True) -> Calibration:
    """Fit the residuals of TTFT and E2E on one measured trace.

    A metric that the fit does not improve on requests left out of it keeps its Tier 0 prediction: its coefficients are
    zero. (The guard of tam2026 alone would let it pass, since a useless fit is as bad on the requests that it has seen.)

    Parameters
    ----------
    requests : sequence of Request
        At least 100, all of one server.
    subject : Subject
        That server.
    slopes, relative : bool
        As for :func:`fit_metric`.

    Raises
    ------
    InputError
        Too few requests, a measurement that is not positive, sizes that cannot be told apart, a fit that is more
        than twice as wrong on requests that it has not seen, or one that improves nothing.
    """
    if len(requests) < LEAST_REQUESTS:
        raise InputError(
            f"{len(requests)} measured requests are too few for a calibration; give at least {LEAST_REQUESTS}, or stay "
            "at Tier 0"
        )
    for i, r in enumerate(requests):
        for m in METRICS:
            if not r.measured[m] > 0:
                raise InputError(f"request {i}: measured {m} = {r.measured[m]!r} must be greater than zero")
    found = {}
    for m in METRICS:
        c = fit_metric(requests, m, slopes, relative)
        if c.overfitting > OVERFITTED:
            raise InputError(
                f"{m}: the fit errs by {c.validation_error:.1%} on requests left out and by {c.training_error:.1%} on its "
                f"own, more than {OVERFITTED:g} times as much; stay at Tier 0"
            )
        found[m] = c if c.helps else replace(c, per_output=0.0, per_prompt=0.0, constant=0.0)
    if not any(c.helps for c in found.values()):
        raise InputError(
            "the fit improves neither TTFT nor E2E on requests left out of it: "
            + ", ".join(f"{m} {c.tier0_error:.1%} before, {c.validation_error:.1%} after" for m, c in found.items())
            + "; stay at Tier 0"
        )
    prompts, outputs = [r.input_len for r in requests], [r.output_len for r in requests]
    return Calibration(
        subject,
        len(requests),
        (min(prompts), max(prompts)),
        (min(outputs), max(outputs)),
        MappingProxyType(found),
    )
