"""Closed forms beside the simulation: a message over hops, what shared links and a bisection cost, dimensions, overlap.

The collectives among equal ranks stand in :mod:`mlsysim.collectives`. Everything takes a float or an array (broadcasting) in SI
units.
"""

from collections.abc import Sequence
from math import fsum

from mlsysim._numeric import Num, maximum, minimum
from mlsysim.collectives import ring_all_reduce
from mlsysim.equations import POSITIVE, equation

_RANKS = "[1, inf)"
_SEVERAL = "[2, inf)"


@equation("eq-hops-time", formula="hops * latency + bytes / bandwidth", domain={"bandwidth": POSITIVE})
def message_time(bytes: Num, hops: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """Time of a message over several links that is cut through: a node passes the head on while the rest is still coming.

    Formula: T = hops x latency + bytes / bandwidth.

    Parameters
    ----------
    bytes : float or array, byte
        Size of the message.
    hops : float or array, 1
        Links on its way.
    bandwidth : float or array, byte/s
        Of every link, one way.
    latency : float or array, s
        Of every link.

    Returns
    -------
    float or array, s

    Assumptions: the message waits for no other; links of equal bandwidth. Stored at every node it would take
    hops x (latency + bytes / bandwidth).

    >>> message_time(1e6, hops=3.0, bandwidth=50e9, latency=1e-6)
    2.3000000000000003e-05

    Source: dally2004networks, ch. 3, Performance.
    """
    return hops * latency + bytes / bandwidth


@equation("eq-ring-hops", formula="ranks ** 2 // 4 / (ranks - 1)", domain={"ranks": _SEVERAL})
def ring_hops(ranks: Num) -> Num:
    """Mean hops from a rank of a ring to another, by the shorter way.

    Formula: h = floor(N^2 / 4) / (N - 1).

    Parameters
    ----------
    ranks : float or array, 1
        Ranks N on the ring, at least 2.

    Returns
    -------
    float or array, 1

    Assumptions: links in both directions; all other ranks are partners equally often. About N / 4 for many ranks.

    >>> ring_hops(8.0)
    2.2857142857142856

    Source: dally2004networks, ch. 5, torus networks.
    """
    return ranks**2 // 4 / (ranks - 1)


@equation("eq-congestion", formula="max(1.0, messages * hops / links)", domain={"links": POSITIVE})
def congestion(messages: Num, hops: Num, links: Num) -> Num:
    """How many messages share a link on average, when every rank sends at once: by how much shared links slow them at least.

    Formula: c = max(1, messages x hops / links).

    Parameters
    ----------
    messages : float or array, 1
        That every rank sends at once, all of one size.
    hops : float or array, 1
        Links on the way of a message, on average.
    links : float or array, 1
        Links that leave a rank, each to be used one way.

    Returns
    -------
    float or array, 1

    Assumptions: the load is spread evenly over the links. The busiest link, if it carries more, slows them by more.

    >>> congestion(7.0, ring_hops(8.0), 2.0)
    8.0

    Source: dally2004networks, ch. 3, Performance.
    """
    return maximum(1.0, messages * hops / links)


@equation(
    "eq-bisection-time",
    formula="bytes * ranks / (4 * links * bandwidth)",
    domain={"ranks": _SEVERAL, "links": POSITIVE, "bandwidth": POSITIVE},
)
def bisection_time(bytes: Num, ranks: Num, links: Num, bandwidth: Num) -> Num:
    """Least time of an all-to-all across the middle of a network: half of the ranks send half of their bytes to the other half.

    Formula: T >= N M / (4 B bandwidth).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer of one rank, a piece for every rank.
    ranks : float or array, 1
        Ranks N, an even number.
    links : float or array, 1
        Links B across the middle, one way.
    bandwidth : float or array, byte/s
        Of a link, one way.

    Returns
    -------
    float or array, s

    Assumptions: the links across the middle are all used, and nothing else is in the way.

    >>> bisection_time(8e9, 8.0, links=2.0, bandwidth=50e9)
    0.16

    Source: dally2004networks, ch. 3, Performance.
    """
    return bytes * ranks / (4 * links * bandwidth)


@equation(
    "eq-dimension-allreduce",
    formula="2 * (ranks - 1) * (bytes / (inner_ranks * ranks * bandwidth) + latency)",
    domain={"inner_ranks": _RANKS, "ranks": _RANKS, "bandwidth": POSITIVE},
)
def dimension_all_reduce(bytes: Num, inner_ranks: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """What one dimension of rings adds to an all-reduce: a reduce-scatter on the way up and an all-gather on the way down.

    Formula: T_i = 2 (N_i - 1) (M / (P_i N_i bandwidth_i) + latency_i).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    inner_ranks : float or array, 1
        Product P of the ranks of the dimensions before it: the buffer has been cut into so many shards.
    ranks : float or array, 1
        Ranks N of the dimension.
    bandwidth : float or array, byte/s
        Of its links, one way.
    latency : float or array, s
        Of its links.

    Returns
    -------
    float or array, s

    Assumptions: those of eq-ring-allreduce in every dimension; the phases of one chunk follow each other.

    >>> round(dimension_all_reduce(8e9, 8.0, 4.0, 50e9), 6)
    0.03

    Source: won2023astrasim, multi-dimensional collectives.
    """
    return ring_all_reduce(bytes / inner_ranks, ranks, bandwidth, latency)


def rings_all_reduce(bytes: float, shape: Sequence[int], bandwidth: Sequence[float], latency: Sequence[float]) -> float:
    """All-reduce over a product of rings: the sum of eq-dimension-allreduce, each dimension with the shard that the inner ones leave.

    >>> round(rings_all_reduce(8e9, (8, 4), (450e9, 50e9), (0.0, 0.0)), 6)
    0.061111
    """
    inner, times = 1, []
    for n, rate, wait in zip(shape, bandwidth, latency, strict=True):
        times.append(float(dimension_all_reduce(bytes, float(inner), float(n), rate, wait)))
        inner *= n
    return fsum(times)


@equation("eq-peer-bandwidth", formula="bandwidth / (ranks - 1)", domain={"bandwidth": POSITIVE, "ranks": _SEVERAL})
def peer_bandwidth(bandwidth: Num, ranks: Num) -> Num:
    """Bandwidth between two devices when each has its links dealt out to all others.

    Formula: bandwidth_peer = bandwidth / (N - 1).

    Parameters
    ----------
    bandwidth : float or array, byte/s
        Of all links of one device, one way.
    ranks : float or array, 1
        Devices N, at least 2.

    Returns
    -------
    float or array, byte/s

    Assumptions: the same number of links to every other device, and no switch between them.

    >>> peer_bandwidth(300e9, 4.0)
    100000000000.0

    Source: dally2004networks, sec. 3.1, a channel for each pair; the machines compared are in hespas2026, Table IV.
    """
    return bandwidth / (ranks - 1)


@equation("eq-exposed-communication", formula="total - compute", relations=("compute <= total",))
def exposed_communication(total: Num, compute: Num) -> Num:
    """Time of a step in which a device computes nothing, because it waits for communication.

    Formula: E = T - C.

    Parameters
    ----------
    total : float or array, s
        Time of the step, at least that of computing.
    compute : float or array, s
        Time that the device computes.

    Returns
    -------
    float or array, s

    Assumptions: a device that does not compute waits for communication and for nothing else.

    >>> exposed_communication(0.75, 0.5)
    0.25

    Source: won2023astrasim, exposed communication.
    """
    return total - compute


@equation(
    "eq-hidden-share",
    formula="(compute + communication - total) / min(compute, communication)",
    domain={"compute": POSITIVE, "communication": POSITIVE},
    relations=("compute <= total", "communication <= total", "total <= compute + communication"),
)
def hidden_share(total: Num, compute: Num, communication: Num) -> Num:
    """How much of what could be hidden is: 0 when computing and communicating follow each other, 1 when the shorter is free.

    Formula: omega = (C + K - T) / min(C, K), for max(C, K) <= T <= C + K.

    Parameters
    ----------
    total : float or array, s
        Time T of the step.
    compute : float or array, s
        Time C that the device computes.
    communication : float or array, s
        Time K that it communicates.

    Returns
    -------
    float or array, 1

    Assumptions: one computation and one collective at a time, neither slowed by the other, and the device never waits for both.

    >>> hidden_share(0.75, compute=0.5, communication=0.5)
    0.5

    Source: won2023astrasim, exposed communication.
    """
    return (compute + communication - total) / minimum(compute, communication)
