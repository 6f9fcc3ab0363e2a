"""Random load: times of arrival and lengths, the same for the same seed."""

import math
import random
from collections.abc import Sequence

from mlsysim.errors import InputError
from mlsysim.serving.requests import MAX_ROWS, MAX_TOKENS, Request

# A coefficient of variation outside this leaves no sample that a float can hold: gaps that are all equal to the last
# digit below it, gaps of which nine in ten round to zero above it.
SPREAD = (1e-6, 100.0)


def _check(owner: str, requests: int, **positive: float) -> None:
    if isinstance(requests, bool) or not isinstance(requests, int) or requests < 0:
        raise InputError(f"{owner}: requests = {requests!r} must be a whole number, zero or more")
    if requests > MAX_ROWS:
        raise InputError(
            f"{owner}: requests = {requests if requests < 10**15 else 'more than 10^15'} is above {MAX_ROWS:,}, as many as a trace may have: each "
            "request and its record stay in memory; play fewer, and several runs with other seeds"
        )
    for name, value in positive.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{owner}: {name} = {value!r} must be a number above zero")


def _check_spread(owner: str, variation: float, others: str) -> None:
    low, high = SPREAD
    if not low <= variation <= high:  # also false for nan
        raise InputError(f"{owner}: variation = {variation!r} must lie between {low:g} and {high:g}{others}")


def constant(rate: float, requests: int) -> tuple[float, ...]:
    """Arrivals at equal distances, the first at zero, s.

    >>> constant(rate=2.0, requests=3)
    (0.0, 0.5, 1.0)
    """
    _check("constant", requests, rate=rate)
    return _finite("constant", rate, tuple(i / rate for i in range(requests)))


def poisson(rate: float, requests: int, seed: int = 0) -> tuple[float, ...]:
    """Arrivals of a Poisson process: the times between them are exponential, s.

    >>> [round(t, 3) for t in poisson(rate=2.0, requests=3, seed=1)]
    [0.072, 1.012, 1.734]
    """
    _check("poisson", requests, rate=rate)
    draw = random.Random(seed)
    return _cumulative("poisson", rate, [-math.log(1.0 - draw.random()) / rate for _ in range(requests)])


def gamma(rate: float, requests: int, variation: float, seed: int = 0) -> tuple[float, ...]:
    """Arrivals whose distances are gamma-distributed with coefficient of variation ``variation``: above 1 they come in bursts.

    >>> len(gamma(rate=2.0, requests=5, variation=3.0))
    5
    """
    _check("gamma", requests, rate=rate)
    _check_spread("gamma", variation, "; 'constant' has arrivals without spread")
    draw, shape = random.Random(seed), variation**-2
    return _cumulative("gamma", rate, [draw.gammavariate(shape, 1.0 / shape) / rate for _ in range(requests)])


def _cumulative(owner: str, rate: float, gaps: Sequence[float]) -> tuple[float, ...]:
    found, now = [], 0.0
    for gap in gaps:
        now += gap
        found.append(now)
    return _finite(owner, rate, tuple(found))


def _finite(owner: str, rate: float, times: tuple[float, ...]) -> tuple[float, ...]:
    if times and not math.isfinite(times[-1]):
        raise InputError(
            f"{owner}: rate = {rate!r} sets the last of {len(times):,} arrivals beyond any float; give a higher rate"
        )
    return times


def lengths(mean: float, requests: int, variation: float = 0.0, seed: int = 0) -> tuple[int, ...]:
    """Numbers of tokens with a mean and a coefficient of variation, gamma-distributed, whole and at least one.

    >>> lengths(mean=200, requests=3)
    (200, 200, 200)
    """
    _check("lengths", requests)
    if not 1 <= mean <= MAX_TOKENS:  # also false for nan
        raise InputError(f"lengths: mean = {mean!r} must lie between 1 and {MAX_TOKENS:,} tokens")
    if variation == 0:
        return (round(mean),) * requests
    _check_spread("lengths", variation, ", or be 0 for equal lengths")
    draw, shape = random.Random(seed), variation**-2
    found = tuple(max(1, round(draw.gammavariate(shape, mean / shape))) for _ in range(requests))
    if found and max(found) > MAX_TOKENS:
        raise InputError(
            f"lengths: mean = {mean!r} with variation = {variation!r} draws {max(found):,} tokens, above the {MAX_TOKENS:,} that a request may "
            "have; give a smaller mean or variation"
        )
    return found


def load(
    arrivals: Sequence[float],
    input_len: int | Sequence[int],
    output_len: int | Sequence[int],
    cached_len: int | Sequence[int] = 0,
) -> tuple[Request, ...]:
    """Requests from times of arrival and lengths; a single number holds for all.

    >>> load((0.0, 1.0), 100, (5, 7))[1]
    Request(arrival=1.0, input_len=100, output_len=7, cached_len=0)
    """
    columns = []
    for name, given in (
        ("input_len", input_len),
        ("output_len", output_len),
        ("cached_len", cached_len),
    ):
        column = (given,) * len(arrivals) if isinstance(given, int) else tuple(given)
        if len(column) != len(arrivals):
            raise InputError(f"load: {len(column)} {name} for {len(arrivals)} arrivals; give one for each")
        columns.append(column)
    return tuple(map(Request, arrivals, *columns))
