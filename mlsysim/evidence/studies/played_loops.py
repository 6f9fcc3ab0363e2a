"""A closed loop played prompt by prompt: users, one server for their prompts, and nothing else, beside the closed form."""

import heapq
import random
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mlsysim.errors import named
from mlsysim.serving import disorder, queue_wait

# How answers differ: the standard deviation of their times over the mean, and how a factor of the mean is drawn.
KINDS: dict[str, tuple[float, Callable[[random.Random], float]]] = {
    "alike": (0.0, lambda rng: 1.0),
    "within 20 %": (0.2 / 3.0**0.5, lambda rng: rng.uniform(0.8, 1.2)),
    "exponential": (1.0, lambda rng: rng.expovariate(1.0)),
}
LOADS = (0.6, 0.8, 0.9, 0.95, 1.0, 1.1)
USERS = (16, 64, 256)
_REQUESTS = 40_000  # of a play; twice that among many users, who take long to forget how they began


@dataclass(frozen=True)
class PlayedLoop:
    """Mean wait of a prompt for the prompts before it, in s: played, and as the closed form has it."""

    users: int
    load: float
    kind: str
    played: float
    wait: float


def answer_time_at(load: float, users: int, prompt_time: float) -> float:
    """Time of an answer at which the prompts of all others are this load: their time over that of a prompt and its answer."""
    return (users - 1) * prompt_time / load - prompt_time


def play(users: int, prompt_time: float, answer_time: float, kind: str, seed: int = 1) -> float:
    """Mean wait of a prompt in a loop of so many users, who begin spread over an answer; the first half is left out.

    Parameters
    ----------
    users : int
        Requests in flight.
    prompt_time, answer_time : float, s
        Of each prompt, and of an answer on average.
    kind : str
        How answers differ: ``alike``, ``within 20 %`` or ``exponential``.
    seed : int
        Of the draws.

    >>> round(play(64, 0.05, 10.0, "alike"), 12)
    0.0
    """
    draw, rng = named("kind", kind, KINDS)[1], random.Random(seed)
    comes = [(rng.uniform(0.0, answer_time), user) for user in range(users)]
    heapq.heapify(comes)
    free, waits = 0.0, []
    for _ in range(_REQUESTS * (2 if users > 100 else 1)):
        at, user = heapq.heappop(comes)
        waits.append(max(0.0, free - at))
        free = max(free, at) + prompt_time
        heapq.heappush(comes, (free + answer_time * draw(rng), user))
    return statistics.fmean(waits[len(waits) // 2 :])


def played_loops(
    users: Iterable[int] = USERS,
    loads: Iterable[float] = LOADS,
    kinds: Iterable[str] = tuple(KINDS),
    prompt_time: float = 0.05,
) -> tuple[PlayedLoop, ...]:
    """Loops of every kind, size and load beside the closed form.

    >>> found = played_loops(users=[64], loads=[0.9], kinds=["within 20 %"])[0]
    >>> round(found.played, 2), round(found.wait, 2)
    (0.1, 0.09)
    """
    loads, kinds = tuple(loads), tuple(kinds)
    found = []
    for n in users:
        for load in loads:
            answer = answer_time_at(load, n, prompt_time)
            for kind in kinds:
                order = disorder(named("kind", kind, KINDS)[0] * answer, answer, prompt_time)
                wait = queue_wait((n - 1) * prompt_time, answer, prompt_time, order)
                found.append(PlayedLoop(n, load, kind, play(n, prompt_time, answer, kind), float(wait)))
    return tuple(found)
