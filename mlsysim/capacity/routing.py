"""Routing of requests to replicas: three routers, and the randomness of arrivals that each leaves.

At random, a replica sees a Poisson process of its own. In turn, it gets every N-th request, at times of which N random gaps have
evened out: with a squared coefficient of variation of 1/N. By the least load, the batches are kept equal: all replicas share
one crowd.
"""

from mlsysim._numeric import Num, maximum, where
from mlsysim._numeric.traced import Made, applied
from mlsysim.capacity.waiting import dealt_share
from mlsysim.equations import unchecked
from mlsysim.errors import unknown_name

ROUTING = ("round-robin", "least-loaded", "random")  # names as in mlsysim.simulate, where it has them
USUAL = "round-robin"  # the default of vLLM's production stack, of simulate, and of many a load balancer
_HALVINGS = 60  # of an interval: more would change nothing


def check_routing(owner: str, routing: str) -> None:
    """Refuse a router that is none of ours."""
    if routing not in ROUTING:
        raise unknown_name(f"{owner}: routing", routing, ROUTING)


def sharing(routing: str, replicas: int) -> float:
    """How many replicas have one crowd of requests in common, as far as its ups and downs go.

    The number in a replica that gets its requests in turn varies by (1 + 1/N) / 2 of what it would by chance: as in
    2 N / (N + 1) replicas whose batches are kept equal.

    >>> sharing("random", 9), sharing("round-robin", 9), sharing("least-loaded", 9)
    (1.0, 1.8, 9.0)
    """
    return {"random": 1.0, "round-robin": 2.0 * replicas / (replicas + 1.0), "least-loaded": float(replicas)}[routing]


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
