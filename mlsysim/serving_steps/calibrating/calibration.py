"""Tier 1: what one measured trace says about the requests that a simulation gets wrong.

A calibration belongs to one model, device, tensor-parallel degree, engine and version of that engine, and says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Result
from mlsysim.serving_steps import documents
from mlsysim.serving_steps.calibrating.residuals import overfitting_ratio, residual_constant, residual_time

KIND, VERSION = "mlsysim-calibration", 1
LEAST_REQUESTS = 100  # tam2026, sec. 2: "one trace (>= 100 requests)"
OVERFITTED, STALE = 2.0, 0.30  # tam2026, sec. 2
FOLDS = 5
METRICS = ("ttft_s", "e2e_s")


@dataclass(frozen=True)
class Subject:
    """What a calibration was fitted on, and the only thing that it may be used for."""

    model: str
    device: str
    tp: int
    engine: str
    engine_version: str


@dataclass(frozen=True)
class Request:
    """One measured request beside its Tier 0 prediction. Times in s."""

    input_len: float
    output_len: float
    measured: Mapping[str, float]  # by metric
    predicted: Mapping[str, float]


@dataclass(frozen=True)
class Coefficients(Result):
    """The residual of one metric, and how the fit did."""

    per_output: float  # s/token
    per_prompt: float  # s/token
    constant: float  # s
    tier0_error: float = 0.0  # mean absolute relative error on the trace, before
    training_error: float = 0.0  # after
    validation_error: float = 0.0  # on folds left out of the fit, each in turn
    spread: float = 0.0  # s, standard deviation of what is left

    def residual(self, output_len: float, input_len: float) -> float:
        """eq-tier1-residual, s."""
        return float(residual_time(output_len, input_len, self.per_output, self.per_prompt, self.constant))

    @property
    def helps(self) -> bool:
        """Whether requests left out of the fit are predicted better than at Tier 0."""
        return self.validation_error < self.tier0_error

    @property
    def overfitting(self) -> float:
        """eq-overfitting-ratio; 1 where the fit is exact on both sides."""
        if self.training_error == 0:
            return 1.0 if self.validation_error == 0 else float("inf")
        return float(overfitting_ratio(self.validation_error, self.training_error))


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


@dataclass(frozen=True)
class Calibration(Result):
    """Fitted residuals of one subject. Made by :func:`fit` or read by :func:`load_calibration`."""

    subject: Subject
    requests: int
    prompt_range: tuple[float, float]
    output_range: tuple[float, float]
    metrics: Mapping[str, Coefficients]

    def check(self, **server: object) -> None:
        """Refuse another ``model``, ``device``, ``tp``, ``engine`` or ``engine_version``; what is None is not compared.

        Raises
        ------
        InputError
            Naming every difference.
        """
        mine = asdict(self.subject)
        for name in server:
            if name not in mine:
                raise unknown_name("property of a server", name, mine)
        different = [f"{n} is {v!r} and was {mine[n]!r}" for n, v in server.items() if v is not None and v != mine[n]]
        if different:
            raise InputError(f"this calibration belongs to another server: {'; '.join(different)}; calibrate again")

    def inside(self, input_len: float, output_len: float) -> bool:
        """Whether a request lies among the sizes that were fitted."""
        return (
            self.prompt_range[0] <= input_len <= self.prompt_range[1]
            and self.output_range[0] <= output_len <= self.output_range[1]
        )

    def apply(self, input_len: float, output_len: float, predicted: Mapping[str, float]) -> dict[str, float]:
        """Tier 1 times of a request from its Tier 0 times ``ttft_s`` and ``e2e_s``; the others follow from them.

        Raises
        ------
        InputError
            A corrected time that cannot be: not positive, or an answer that ends before it begins.
        """
        after = {m: predicted[m] + c.residual(output_len, input_len) for m, c in self.metrics.items()}
        ttft, e2e = after["ttft_s"], after["e2e_s"]
        if output_len == 1:  # the first token is the answer; two fits would contradict each other
            ttft = e2e
        if not 0 < ttft <= e2e:
            raise InputError(
                f"Tier 1 gives TTFT {ttft:.4g} s and E2E {e2e:.4g} s for a request of {input_len:g} + "
                f"{output_len:g} tokens; the calibration was fitted on {self.prompt_range[0]:g} to "
                f"{self.prompt_range[1]:g} + {self.output_range[0]:g} to {self.output_range[1]:g}: calibrate on requests "
                "like these"
            )
        found = {"ttft_s": ttft, "e2e_s": e2e, "e2e_per_token_s": e2e / output_len}
        return found | ({"itl_s": (e2e - ttft) / (output_len - 1)} if output_len > 1 else {})

    def verdict(self, requests: Sequence[Request], metric: str = "e2e_s") -> Freshness:
        """Hold the calibration against a new trace; stale above an error of 30 %, as tam2026 has it."""
        before = mean_error([r.measured[metric] for r in requests], [r.predicted[metric] for r in requests])
        after = _errors(self.metrics[metric], requests, metric)
        return Freshness(before, after, after > STALE, after > before)

    def to_dict(self) -> dict[str, Any]:
        """The calibration as it stands in its file."""
        return {
            "subject": asdict(self.subject),
            "requests": self.requests,
            "input_len": list(self.prompt_range),
            "output_len": list(self.output_range),
            "metrics": {n: asdict(c) for n, c in self.metrics.items()},
        }

    def save(self, path: str | Path) -> None:
        """Write the calibration as JSON."""
        documents.write(path, KIND, VERSION, self.to_dict())


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


def load_calibration(path: str | Path) -> Calibration:
    """Read a calibration file; every field is checked.

    Raises
    ------
    InputError
        Naming the file and the field.
    """
    f = documents.read(path, KIND, VERSION)
    f.only("format", "version", "subject", "requests", "input_len", "output_len", "metrics")
    s = f.object("subject").only(*Subject.__dataclass_fields__)
    subject = Subject(s.text("model"), s.text("device"), s.whole("tp", 1), s.text("engine"), s.text("engine_version"))
    metrics = f.object("metrics").only(*METRICS)
    found = {}
    for name in METRICS:
        one = metrics.object(name).only(*Coefficients.__dataclass_fields__)
        found[name] = Coefficients(**{n: one.number(n, -1e6, 1e6) for n in Coefficients.__dataclass_fields__})
    return Calibration(
        subject,
        f.whole("requests", LEAST_REQUESTS),
        f.pair("input_len"),
        f.pair("output_len"),
        MappingProxyType(found),
    )
