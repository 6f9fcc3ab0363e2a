"""Random load: times of arrival and lengths, the same for the same seed."""

import math
import random
from collections.abc import Sequence

from mlsysim.errors import InputError
from mlsysim.serving.requests import MAX_TOKENS, Request


def _check(owner: str, count: int, **positive: float) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InputError(f"{owner}: count = {count!r} must be a whole number, zero or more")
    for name, value in positive.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{owner}: {name} = {value!r} must be a number above zero")


def constant(rate: float, count: int) -> tuple[float, ...]:
    """Arrivals at equal distances, the first at zero, s.

    >>> constant(rate=2.0, count=3)
    (0.0, 0.5, 1.0)
    """
    _check("constant", count, rate=rate)
    return tuple(i / rate for i in range(count))


def poisson(rate: float, count: int, seed: int = 0) -> tuple[float, ...]:
    """Arrivals of a Poisson process: the times between them are exponential, s.

    >>> [round(t, 3) for t in poisson(rate=2.0, count=3, seed=1)]
    [0.072, 1.012, 1.734]
    """
    _check("poisson", count, rate=rate)
    draw = random.Random(seed)
    return _cumulative([-math.log(1.0 - draw.random()) / rate for _ in range(count)])


def gamma(rate: float, count: int, cv: float, seed: int = 0) -> tuple[float, ...]:
    """Arrivals whose distances are gamma-distributed with coefficient of variation ``cv``: above 1 they come in bursts.

    >>> len(gamma(rate=2.0, count=5, cv=3.0))
    5
    """
    _check("gamma", count, rate=rate, cv=cv)
    draw, shape = random.Random(seed), cv**-2
    return _cumulative([draw.gammavariate(shape, 1.0 / (shape * rate)) for _ in range(count)])


def _cumulative(gaps: Sequence[float]) -> tuple[float, ...]:
    found, now = [], 0.0
    for gap in gaps:
        now += gap
        found.append(now)
    return tuple(found)


def lengths(mean: float, count: int, cv: float = 0.0, seed: int = 0) -> tuple[int, ...]:
    """Numbers of tokens with a mean and a coefficient of variation, gamma-distributed, whole and at least one.

    >>> lengths(mean=200, count=3)
    (200, 200, 200)
    """
    _check("lengths", count, mean=mean)
    if not (math.isfinite(cv) and cv >= 0):
        raise InputError(f"lengths: cv = {cv!r} must be a number, zero or more")
    if cv == 0:
        return (max(1, round(mean)),) * count
    draw, shape = random.Random(seed), cv**-2
    return tuple(min(MAX_TOKENS, max(1, round(draw.gammavariate(shape, mean / shape)))) for _ in range(count))


def load(
    arrivals: Sequence[float],
    prompt_tokens: int | Sequence[int],
    output_tokens: int | Sequence[int],
    prefix_tokens: int | Sequence[int] = 0,
) -> tuple[Request, ...]:
    """Requests from times of arrival and lengths; a single number holds for all.

    >>> load((0.0, 1.0), 100, (5, 7))[1]
    Request(arrival=1.0, prompt_tokens=100, output_tokens=7, prefix_tokens=0)
    """
    columns = []
    for name, given in (
        ("prompt_tokens", prompt_tokens),
        ("output_tokens", output_tokens),
        ("prefix_tokens", prefix_tokens),
    ):
        column = (given,) * len(arrivals) if isinstance(given, int) else tuple(given)
        if len(column) != len(arrivals):
            raise InputError(f"load: {len(column)} {name} for {len(arrivals)} arrivals; give one for each")
        columns.append(column)
    return tuple(Request(t, *each) for t, *each in zip(arrivals, *columns, strict=True))
