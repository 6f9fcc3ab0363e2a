"""What formulas of equations call by name, each derived a second time: for tests that evaluate a formula as it is printed."""

import math
from statistics import NormalDist


def lambert_w(x: float) -> float:
    """Principal branch below zero by bisection: the w in [-1, 0] with w e^w = x."""
    low, high = -1.0, 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.exp(middle) < x else (low, middle)
    return low


def binomial_cdf(successes: float, trials: float, probability: float) -> float:
    """At most so many of the trials succeed; each summand by its own logarithm."""
    log_of = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(probability) + (trials - k) * math.log1p(-probability)
        for k in range(int(successes) + 1)
    ]  # fmt: skip
    return math.fsum(map(math.exp, log_of))


def lognormal_maximum(variation: float, samples: float) -> float:
    """Mean of the largest of so many lognormal variables of mean 1: over its own distribution, by tanh-sinh quadrature."""
    spread, normal, total, step = math.sqrt(math.log1p(variation**2)), NormalDist(), 0.0, 1 / 64
    for n in range(-220, 221):
        inner = math.pi / 2 * math.sinh(n * step)
        below = -math.expm1(-math.log1p(math.exp(-2 * inner)) / samples)  # 1 - u^(1/N), of u = 1 / (1 + e^(-2 inner))
        if 0 < below < 1:
            z = -normal.inv_cdf(below)
            weight = step * math.pi / 4 * math.cosh(n * step) / math.cosh(inner) ** 2
            total += weight * math.exp(spread * z - spread**2 / 2)
    return total


def first_passage(time: float, mean: float, deviation: float) -> float:
    """The distribution of the inverse Gaussian by its density over the logarithm of the time, by tanh-sinh quadrature."""
    shape = (mean / deviation) ** 2
    end = math.log(time / mean)
    begin = min(end, -2 * math.asinh(math.sqrt(400 / shape))) - 1e-9  # before it: nothing that a double could hold
    end, total, step = min(end, 2 * math.asinh(math.sqrt(400 / shape))), 0.0, 1 / 256
    for n in range(-900, 901):
        inner = math.pi / 2 * math.sinh(n * step)
        x = begin + (end - begin) / (1 + math.exp(-2 * inner))
        weight = step * math.pi / 4 * math.cosh(n * step) / math.cosh(inner) ** 2 * (end - begin)
        total += weight * math.exp(-x / 2 - 2 * shape * math.sinh(x / 2) ** 2) * math.sqrt(shape / (2 * math.pi))
    return total


def all_elsewhere(experts: float, top_k: float, places: float) -> float:
    """Chance that k of E experts all lie among those of the other places, by counting."""
    left, k = experts - experts / places, math.ceil(top_k)
    return math.prod(max(0.0, left - drawn) / max(1.0, experts - drawn) for drawn in range(k))


def fading_run(acceptance: float, fading: float, draft_len: float) -> float:
    """Guesses that hold, each length of the run by its own product."""
    return math.fsum(
        math.prod(acceptance * fading**place for place in range(length)) for length in range(1, int(draft_len) + 1)
    )


PRINTED = {
    "inf": math.inf,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "ceil": math.ceil,
    "log": math.log,
    "exp": math.exp,
    "expm1": math.expm1,
    "log1p": math.log1p,
    "sin": math.sin,
    "pi": math.pi,
    "lambert_w": lambert_w,
    "binomial_cdf": binomial_cdf,
    "lognormal_maximum": lognormal_maximum,
    "first_passage": first_passage,
    "all_elsewhere": all_elsewhere,
    "fading_run": fading_run,
}
# An independent sum of many logarithms keeps fewer digits than one expression.
PRINTED_DIGITS = {"eq-in-time": 1e-8, "eq-spares": 1e-8, "eq-longest-rollout": 1e-8}
