"""Reinforcement learning: time to generate a batch of rollouts, dependencies, staleness and weights of the rollouts."""

import math

from mlsysim._numeric import Num, exp, log, log1p, maximum, minimum, sqrt
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation

_STEP, _LOW, _HIGH = 0.05, -9.0, 15.0  # of the quadrature, in standard deviations of the logarithm


def _normal(z: float) -> tuple[float, float]:
    """Logarithms of the density and of the distribution of a standard normal variable."""
    density = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    tail = 0.5 * math.erfc(abs(z) / math.sqrt(2))
    return density, math.log1p(-tail) if z > 0 else math.log(tail)


_GRID = [(z, *_normal(z)) for z in (_LOW + _STEP * n for n in range(round((_HIGH - _LOW) / _STEP) + 1))]


@equation(
    "eq-longest-rollout",
    formula="mean * lognormal_maximum(variation, samples)",
    domain={"variation": "[0, 4]", "samples": "[1, 1e7]"},
)
def longest_rollout(mean: Num, variation: Num, samples: Num) -> Num:
    """Length of the longest of many answers, on average, when lengths are lognormal.

    Formula: E[max] = L integral of e^(s z - s^2/2) d(Phi(z)^N), with s^2 = ln(1 + c^2).

    Parameters
    ----------
    mean : float or array, 1
        Mean length L, in tokens.
    variation : float or array, 1
        Standard deviation over mean, c.
    samples : float or array, 1
        Answers N that wait for each other.

    Returns
    -------
    float or array, 1

    Assumptions: independent, lognormal lengths, and no limit that cuts answers off. Answers to one prompt are more alike
    than that, and a limit ends the tail: min(E[max], limit) is then an upper bound.

    >>> round(longest_rollout(mean=1000, variation=1.0, samples=512))
    9385

    Source: weisstein1999extreme, equations 1 and 2; the largest of N has the distribution F^N, and its mean follows.
    """
    spread = sqrt(log1p(variation * variation))
    start = log(samples) - 0.5 * spread * spread + math.log(_STEP)
    total = 0.0
    for z, density, below in _GRID:  # the trapezoidal rule, which converges geometrically for so smooth a bell
        total = total + exp(start + density + (samples - 1) * below + spread * z)
    return mean * total


@equation("eq-rollout-time", formula="steps * step + samples * mean * token")
def rollout_time(steps: Num, mean: Num, samples: Num, step: Num, token: Num) -> Num:
    """Time to generate a batch of answers of different lengths.

    Formula: T = S t_0 + N L t_1.

    Parameters
    ----------
    steps : float or array, 1
        Decode steps S: the tokens of the longest answer when all begin together, L N / K when K are kept going.
    mean : float or array, 1
        Tokens of an answer on average, L.
    samples : float or array, 1
        Answers N of one replica.
    step : float or array, s
        What a decode step takes however few answers are left, t_0: above all the reading of the weights.
    token : float or array, s
        What each answer that is still being written adds to a step, t_1: its cache, its share of the products.

    Returns
    -------
    float or array, s

    Assumptions: the time of a decode step is a straight line in the answers that are left; all fit at the same time;
    prompts are left out.

    >>> rollout_time(steps=8000, mean=1000, samples=64, step=0.01, token=0.0001)
    86.4

    Source: kwon2023vllm, for batches that shrink as answers end; the sum over steps is derived in the chapter.
    """
    return steps * step + samples * mean * token


@equation(
    "eq-useful-groups",
    formula="1 - pass_rate ** group - (1 - pass_rate) ** group",
    domain={"pass_rate": "[0, 1]", "group": AT_LEAST_ONE},
)
def useful_groups(pass_rate: Num, group: Num) -> Num:
    """Share of prompts whose answers are neither all right nor all wrong, and which therefore teach something.

    Formula: u = 1 - p^g - (1 - p)^g.

    Parameters
    ----------
    pass_rate : float or array, 1
        Chance p that an answer is right.
    group : float or array, 1
        Answers g to one prompt.

    Returns
    -------
    float or array, 1

    Assumptions: the reward is right or wrong, the answers are independent, and prompts are equally hard; a mixture of
    hard and easy ones keeps less.

    >>> useful_groups(pass_rate=0.5, group=2), round(useful_groups(0.9, 16), 3)
    (0.5, 0.815)

    Source: areal2025blog, Filtering Strategy; questions with only right or only wrong answers are left out.
    """
    return 1 - pass_rate**group - (1 - pass_rate) ** group


@equation("eq-two-pools", formula="max(generation / share, training / (1 - share))", domain={"share": "(0, 1)"})
def two_pools_step(generation: Num, training: Num, share: Num) -> Num:
    """Time of a step when some devices generate while the others train.

    Formula: T = max(G / x, W / (1 - x)).

    Parameters
    ----------
    generation : float or array, s
        What generating the answers of a step would take on all devices, G, none of them idle.
    training : float or array, s
        What training on them would take on all devices, W.
    share : float or array, 1
        Share x of the devices that generate.

    Returns
    -------
    float or array, s

    Assumptions: each half scales with its devices; the pools wait for nothing but each other. With x = G / (G + W) both
    take G + W.

    >>> two_pools_step(generation=60.0, training=40.0, share=0.6), two_pools_step(60.0, 40.0, 0.5)
    (100.0, 120.0)

    Source: verl2025async, Parameter Tuning Recommendations; the best split makes both times equal.
    """
    return maximum(generation / share, training / (1 - share))


@equation("eq-rollout-staleness", formula="(concurrency + waiting) / samples", domain={"samples": POSITIVE})
def rollout_staleness(concurrency: Num, samples: Num, waiting: Num = 0.0) -> Num:
    """Staleness: updates between the weights that began a rollout and those trained on it.

    Formula: eta = (K + Q) / N.

    Parameters
    ----------
    concurrency : float or array, 1
        Answers K that are being written at a time, over all replicas.
    samples : float or array, 1
        Answers N that a training step takes.
    waiting : float or array, 1
        Finished answers Q that wait for the trainer.

    Returns
    -------
    float or array, 1

    Assumptions: steady state, on average over answers; a long answer is older in proportion to its length.

    >>> rollout_staleness(concurrency=1024, samples=512)
    2.0

    Source: areal2025blog, Solution 1; the notion is theirs, the form is Little's law with the training step as its clock.
    """
    return (concurrency + waiting) / samples


@equation("eq-effective-share", formula="exp(-tokens * deviation * deviation)", domain={"tokens": POSITIVE})
def effective_share(tokens: Num, deviation: Num) -> Num:
    """Share of the answers that count when each is weighted by how much likelier the trained policy makes it.

    Formula: u = e^(-n s^2).

    Parameters
    ----------
    tokens : float or array, 1
        Tokens n of which a weight is the product: all of an answer, 1 for a weight of each token, 1 / n for their geometric mean.
    deviation : float or array, 1
        Standard deviation s of the logarithm of a token's ratio: trained policy over the one that wrote it.

    Returns
    -------
    float or array, 1

    Assumptions: the logarithms are normal and independent from token to token, and the weights have the mean 1.

    >>> round(effective_share(tokens=100, deviation=0.1), 3), round(effective_share(1, 0.1), 3)
    (0.368, 0.99)

    Source: swift2025mismatch, Effective Sample Size; its value for a lognormal weight is derived in the chapter.
    """
    return exp(-tokens * deviation * deviation)


@equation(
    "eq-weight-sync",
    formula="weight_bytes / min(bandwidth, senders * adapter) + setup",
    domain={"bandwidth": POSITIVE, "senders": AT_LEAST_ONE, "adapter": POSITIVE},
)
def weight_sync(weight_bytes: Num, bandwidth: Num, senders: Num, adapter: Num, setup: Num = 0.0) -> Num:
    """Time until the devices that generate have the weights that were just trained.

    Formula: T = V / min(B, n a) + t_s.

    Parameters
    ----------
    weight_bytes : float or array, byte
        The model as it is served.
    bandwidth : float or array, byte/s
        What the software that hands the weights over reaches, however many devices send.
    senders : float or array, 1
        Devices that send at a time: one in a broadcast by turns, all that have a part of the weights in point-to-point writes.
    adapter : float or array, byte/s
        What one of them sends, at most its network adapter's rate.
    setup : float or array, s
        What is agreed on before the first byte.

    Returns
    -------
    float or array, s

    Assumptions: replicas listen to the same broadcast, or share the weights; where each is sent a copy of its own, V is all copies.

    >>> weight_sync(weight_bytes=140e9, bandwidth=70e9, senders=8, adapter=50e9, setup=0.5)
    2.5
    >>> weight_sync(weight_bytes=140e9, bandwidth=700e9, senders=8, adapter=12.5e9)
    1.4

    Source: moonshot2025checkpoint, README, Benchmark; perplexity2025transfer for writes by every device that trains.
    """
    return weight_bytes / minimum(bandwidth, senders * adapter) + setup


@equation(
    "eq-evaluation-share",
    formula="evaluation_tokens / (evaluation_tokens + interval * step_tokens)",
    domain={"interval": POSITIVE, "step_tokens": POSITIVE},
)
def evaluation_share(evaluation_tokens: Num, interval: Num, step_tokens: Num) -> Num:
    """Share of all generated tokens that is written for evaluations.

    Formula: e = E / (E + k D).

    Parameters
    ----------
    evaluation_tokens : float or array, 1
        Tokens E of one evaluation: problems x answers to each x mean length.
    interval : float or array, 1
        Training steps k between two evaluations.
    step_tokens : float or array, 1
        Tokens D that are generated for one training step.

    Returns
    -------
    float or array, 1

    Assumptions: a token costs the same in both; whoever waits for the evaluation's longest answer pays more.

    >>> evaluation_share(evaluation_tokens=1e6, interval=3, step_tokens=3e6)
    0.1

    Source: verl2025async, Experiments; there test_freq is the interval, and the form is derived in the chapter.
    """
    return evaluation_tokens / (evaluation_tokens + interval * step_tokens)
