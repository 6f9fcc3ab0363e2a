"""Routing of requests to replicas: three routers, and the randomness of arrivals that each leaves.

At random, a replica sees a Poisson process of its own. In turn, it gets every N-th request, at times of which N random gaps have
evened out: with a squared coefficient of variation of 1/N. By the least load, the batches are kept equal: all replicas share
one crowd.
"""

from functools import cache

from mlsysim._numeric import Num, maximum, where
from mlsysim._numeric.traced import Made, applied
from mlsysim.capacity.pace import lengths
from mlsysim.capacity.waiting import dealt_share
from mlsysim.equations import unchecked
from mlsysim.errors import unknown_name

ROUTING = ("round-robin", "least-loaded", "random")  # names as in mlsysim.simulate, where it has them
USUAL = "round-robin"  # the default of vLLM's production stack, of simulate, and of many a load balancer
_MANY = 1e6  # tokens of an answer, of which a fraction of one counts for nothing
_HALVINGS = 60  # of an interval: more would change nothing


def check_routing(owner: str, routing: str) -> None:
    """Refuse a router that is none of ours."""
    if routing not in ROUTING:
        raise unknown_name(f"{owner}: routing", routing, ROUTING)


def sharing(routing: str, replicas: int, variation: float) -> float:
    """How many replicas have one crowd of requests in common, as far as its ups and downs go.

    The number in a replica that gets its requests in turn varies by z of what it would by chance, as in 1 / z replicas whose batches
    are kept equal: z = 1 - (1 - 1/N) E[min(S, S')] / E[S] for the times S and S' of two requests, which are inside
    together for the shorter of them, and are as unequal as their answers. Exponential ones leave (1 + 1/N) / 2, equal ones 1/N.

    >>> sharing("random", 9, 1.0), round(sharing("round-robin", 9, 1.0), 2), round(sharing("round-robin", 9, 0.0), 2)
    (1.0, 1.81, 9.0)
    """
    if routing != "round-robin":
        return {"random": 1.0, "least-loaded": float(replicas)}[routing]
    return 1.0 / (1.0 - (1.0 - 1.0 / replicas) * shorter_of_two(variation))


@cache
def shorter_of_two(variation: float) -> float:
    """Mean of the shorter of two answers over the mean answer: 1 of equal ones, 1/2 of exponential ones."""
    both = lengths(_MANY, variation)
    return sum(p * q * min(x, y) for x, p in both for y, q in both) / sum(p * x for x, p in both)


def dealt(routing: str, replicas: int) -> int:
    """N where gaps between the requests of a replica are those of N requests, else 1."""
    return 1 if routing == "random" else replicas


def found_busy(utilisation: Num, replicas: int) -> Num:
    """Share of the requests that find a prompt under way where every N-th is ours: the root of eq-dealt-share below 1."""
    if replicas == 1:
        return utilisation
    if isinstance(utilisation, Made):
        return applied(found_busy, "found_busy", utilisation, replicas)
    none, busy = utilisation == 0, maximum(utilisation, 1e-300)
    low, high, step = 0.0 * utilisation, 1.0 + 0.0 * utilisation, dealt_share
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = step(middle, busy, float(replicas)) < middle
        step = unchecked(dealt_share)
        low, high = where(above, low, middle), where(above, middle, high)
    return where(none, 0.0, low)


def work_variance(routing: str, replicas: int, busy: Num, prefill_time: float, variation: float) -> Num:
    """Variance per second of the prompts' work that comes to a replica, s.

    Where the least loaded replica is next, one that prompts have held up gets fewer: its answers end later. Of a surplus, the
    share 1 - rho_p is left of what replicas have not in common.
    """
    gaps, lengths = 1.0 / dealt(routing, replicas), variation**2
    if routing == "least-loaded":
        common = 1.0 / replicas
        return busy * prefill_time * (1.0 + lengths) * (common + (1.0 - common) * (1.0 - busy) ** 2)
    return busy * prefill_time * (gaps + lengths)
