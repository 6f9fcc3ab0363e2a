"""Variation of the time per token between answers: the time of an answer that others' prompts interrupt, and its spread.

An answer of n steps is work of n t, in front of which the prompts of others go. The time until it is done is that of a walk
which the prompts push back and the devices carry on: the first time at which it has covered the way.
"""

import math
from collections.abc import Callable
from functools import cache

from mlsysim._numeric import Num, elementwise, exp, maximum, minimum, sqrt, where
from mlsysim.capacity.queues import BELOW_ONE
from mlsysim.equations import POSITIVE, equation

_FAR = 30.0  # standard deviations, from which the tail of the normal distribution is its series
# Nodes and weights of Gauss and Hermite for the mean over a normal variable.
_NORMAL = ((0.0, 0.45714285714285713), *((sign * z, w) for z, w in ((1.1544053947399682, 0.24012317860501272), (2.366759410734541, 0.030757123967586498), (3.750439717725742, 0.0005482688559722179)) for sign in (-1, 1)))  # fmt: skip
_LENGTHS = 40  # of answers, from the shortest to the longest
# Of prompts and answers, standard deviation over mean, where nobody says: between those of a benchmark, which hardly differ, and
# those of a conversation service (catalog.trace: 0.96 and 0.77).
LENGTH_VARIATION = 0.5


@equation("eq-answer-time", formula="(steps * step_time + wait) / (1 - busy)", domain={"busy": BELOW_ONE})
def answer_time(steps: Num, step_time: Num, busy: Num, wait: Num = 0.0) -> Num:
    """Mean time from the first token of an answer to its last, while the prompts of others go first.

    Formula: D = (n t + W) / (1 - rho_p).

    Parameters
    ----------
    steps : float or array, 1
        Decode steps n of the answer.
    step_time : float or array, s
        Time t of a decode step of its batch.
    busy : float or array, 1
        Share rho_p of the time for which prompts keep the devices busy, below 1.
    wait : float or array, s
        Mean time W of the prompts that came while its own was computed: as long as those that it found itself.

    Returns
    -------
    float or array, s

    Assumptions: prompts stop the answer for their whole time and come as often while it runs as at any other time.

    >>> answer_time(steps=200, step_time=0.015, busy=0.5)
    6.0

    Source: cooper1981queueing, delay busy period; the decode steps are the delay.
    """
    return (steps * step_time + wait) / (1 - busy)


@equation(
    "eq-answer-spread", formula="(time * spread + wait_spread**2) ** 0.5 / (1 - busy)", domain={"busy": BELOW_ONE}
)
def answer_spread(time: Num, spread: Num, busy: Num, wait_spread: Num = 0.0) -> Num:
    """Standard deviation of the time of an answer that the prompts of others stop.

    Formula: s_D = sqrt(D v + s_W^2) / (1 - rho_p).

    Parameters
    ----------
    time : float or array, s
        Mean time D of the answer (eq-answer-time).
    spread : float or array, s
        Variance v of the prompts' work that comes, per second.
    busy : float or array, 1
        Share rho_p of the time for which prompts keep the devices busy, below 1.
    wait_spread : float or array, s
        Standard deviation s_W of the time of the prompts that came while its own was computed.

    Returns
    -------
    float or array, s

    Assumptions: those of eq-answer-time; what comes in one second has nothing to do with what comes in the next.

    >>> round(answer_spread(time=6.0, spread=0.06, busy=0.5), 3)
    1.2

    Source: cooper1981queueing, delay busy period; for prompts that come at random, exactly.
    """
    return (time * spread + wait_spread**2) ** 0.5 / (1 - busy)


@equation(
    "eq-in-time",
    formula="first_passage(time, mean, deviation)",
    domain={"time": POSITIVE, "mean": POSITIVE},
)
def in_time(time: Num, mean: Num, deviation: Num) -> Num:
    """Share of the answers that are done by a time, when the time of an answer is that of a walk's first passage.

    Formula: P(D <= T) = Phi(a (T/m - 1)) + e^(2 (m/s)^2) Phi(-a (T/m + 1)), with a = m/s sqrt(m/T).

    Parameters
    ----------
    time : float or array, s
        The time T.
    mean : float or array, s
        Mean time m of an answer.
    deviation : float or array, s
        Its standard deviation s.

    Returns
    -------
    float or array, 1

    Assumptions: so many prompts stop the answer that their work is a Brownian motion with a drift; the first passage of
    one has the inverse Gaussian distribution.

    >>> round(in_time(6.0, mean=6.0, deviation=1.2), 4), round(in_time(8.0, mean=6.0, deviation=1.2), 4)
    (0.5395, 0.9393)

    Source: folks1978inverse, distribution function.
    """
    sure = deviation == 0
    a = mean / where(sure, 1.0, deviation) * sqrt(mean / time)
    below, beyond = a * (time / mean - 1), a * (time / mean + 1)
    # Of a normal variable, the tail over the density: by its series where both would vanish.
    near, far = minimum(beyond, _FAR), 1 / (beyond * beyond)
    tail = where(
        beyond < _FAR,
        exp(near * near / 2) * _normal(-near),
        (1 - far * (1 - 3 * far * (1 - 5 * far))) / (beyond * math.sqrt(2 * math.pi)),
    )
    found = minimum(1.0, _normal(below) + exp(-below * below / 2) * tail)
    return where(sure, 1.0 * (time >= mean), found)


def _normal(z: Num) -> Num:
    """Distribution function of a standard normal variable."""
    return elementwise(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), z)


@cache
def lengths(mean: float, variation: float) -> tuple[tuple[float, float], ...]:
    """Lengths of answers with a gamma distribution, and how much each counts: at even steps of the logarithm.

    >>> lengths(200.0, 0.0)
    ((200.0, 1.0),)
    """
    if variation < 1e-3:
        return ((mean, 1.0),)
    shape, c = variation**-2, variation
    low, high = -5 * c - 6 * c * c, min(5 * c, 1 + 1.7 * c)  # beyond them less than one in 100,000
    steps = [low + (high - low) * (i + 0.5) / _LENGTHS for i in range(_LENGTHS)]
    counts = [math.exp(shape * (x + 1 - math.exp(x))) for x in steps]
    total = math.fsum(counts)
    return tuple((max(1.0, mean * math.exp(x)), n / total) for x, n in zip(steps, counts, strict=True))


def share_in_pace(
    itl: float,
    step_of: Callable[[Num], Num],
    answers: tuple[float, float],
    batch: tuple[Num, Num, float, Num],
    prompts: tuple[Num, Num, Num, Num],
) -> Num:
    """Share of answers within a target time per token, over their lengths and the batches that they meet.

    ``answers`` are mean and variation of their decode steps; ``batch`` mean, deviation and most of the batch, and the share of the
    time for which it is full; ``prompts`` how busy they keep the devices, the variance of their work per second, and mean and
    deviation of the wait for them.
    """
    busy, spread, wait, wait_spread = prompts
    size, deviation, most, full = batch

    def meets(size: Num) -> Num:
        step, found = step_of(size), 0.0
        for steps, share in lengths(*answers):
            time = answer_time(steps, step, busy, wait)
            found = found + share * in_time(steps * itl, time, answer_spread(time, spread, busy, wait_spread))
        return found

    open_ = sum(w * meets(maximum(1.0, minimum(most, size + z * deviation))) for z, w in _NORMAL)
    return open_ * (1 - full) + meets(most) * full
