"""Rings: their halves, over nodes, in two levels, and as tensor parallelism uses them."""

from mlsysim._numeric import Num, all_true, maximum, minimum
from mlsysim.collectives.messages import activation_bytes
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError

_RANKS = "[1, inf)"
_DOMAIN = {"ranks": _RANKS, "bandwidth": POSITIVE}


@equation("eq-ring-reduce-scatter", formula="(ranks - 1) * (bytes / (ranks * bandwidth) + latency)", domain=_DOMAIN)
def ring_reduce_scatter(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """Sum a buffer over all ranks and leave each with its own N-th of the result, around a ring.

    Formula: T = (N - 1) (M / (N x bandwidth) + latency).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Cost of one step, whatever its size.

    Returns
    -------
    float or array, s

    Assumptions: every rank sends to its right and receives from its left at the same time; the addition is free.

    >>> ring_reduce_scatter(8e9, 8, 400e9)
    0.0175

    Source: nccl2026performance, sec. ReduceScatter; the latency term is reddi2026mathpage, sec. 2.2.
    """
    return (ranks - 1) * (bytes / (ranks * bandwidth) + latency)


@equation("eq-ring-all-gather", formula="(ranks - 1) * (bytes / (ranks * bandwidth) + latency)", domain=_DOMAIN)
def ring_all_gather(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """Give every rank the whole buffer, of which each holds an N-th, around a ring.

    Formula: T = (N - 1) (M / (N x bandwidth) + latency).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Cost of one step, whatever its size.

    Returns
    -------
    float or array, s

    Assumptions: as for the reduce-scatter; M is the gathered buffer, so a shard of m bytes makes M = N m.

    >>> ring_all_gather(8e9, 8, 400e9)
    0.0175

    Source: nccl2026performance, sec. AllGather; the latency term is reddi2026mathpage, sec. 2.2.
    """
    return (ranks - 1) * (bytes / (ranks * bandwidth) + latency)


@equation("eq-ring-allreduce", formula="2 * (ranks - 1) * (bytes / (ranks * bandwidth) + latency)", domain=_DOMAIN)
def ring_all_reduce(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """Sum a buffer over all ranks and give the result to all, around a ring: a reduce-scatter, then an all-gather.

    Formula: T = 2 (N - 1) (M / (N x bandwidth) + latency).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Cost of one step, whatever its size.

    Returns
    -------
    float or array, s

    Assumptions: those of its halves; no two steps of the ring overlap.

    >>> ring_all_reduce(8e9, 8, 400e9)
    0.035

    Source: reddi2026mathpage, sec. 2.2; that its bandwidth term is the least possible is patarasuk2009bandwidth.
    """
    return ring_reduce_scatter(bytes, ranks, bandwidth, latency) + ring_all_gather(bytes, ranks, bandwidth, latency)


def ring_bandwidth(ranks_per_node: Num, node_bandwidth: Num, network_bandwidth: Num) -> Num:
    """What each rank can send on a ring that visits several nodes: the bandwidth to give to the ring equations there.

    Libraries run as many rings as there are adapters, each entering a node through another one. So the ranks that a group
    has in a node use their adapters side by side, and the narrower of that pipe and a device's link binds.

    Parameters
    ----------
    ranks_per_node : float or array, 1
        Ranks of the group in one node.
    node_bandwidth, network_bandwidth : float or array, byte/s
        Per device and one way, inside the node and between nodes.

    >>> ring_bandwidth(8, 300e9, 25e9) / 1e9
    200.0
    """
    return minimum(node_bandwidth, ranks_per_node * network_bandwidth)


def ring_latency(
    ranks: Num, ranks_per_node: Num, node_latency: Num, network_latency: Num, more_crossings: Num = 0.0
) -> Num:
    """Mean cost of a step of a ring that visits several nodes: the latency to give to the ring equations there.

    A ring enters each of n nodes once. While a piece goes round in N - 1 steps, the library charges the network's latency
    for n - 1 of them and the node's for the other N - n. The slowest piece crosses n times, since what it leaves out is a
    step inside a node: give one crossing more to charge for that one, as AWS's plug-in does.

    Parameters
    ----------
    ranks : float or array, 1
        Ranks N of the group.
    ranks_per_node : float or array, 1
        How many of them share a node: N / n.
    node_latency, network_latency : float or array, s
        Of a step inside a node, and between nodes.
    more_crossings : float or array, 1
        Steps between nodes beyond n - 1, where there are several nodes.

    Raises
    ------
    InputError
        More ranks per node than ranks.

    Source: nccl2026tuning, tuning.cc, nInterSteps.

    >>> round(2 * 1023 * ring_latency(1024, 8, 3.4e-6, 14e-6) * 1e3, 2)  # ms of an all-reduce
    9.65
    """
    if not all_true(ranks_per_node <= ranks):
        raise InputError(
            f"ring_latency: ranks_per_node = {str(ranks_per_node)[:40]} exceeds ranks = {str(ranks)[:40]}; give how many of "
            "the group's own ranks share a node"
        )
    crossings = ranks / ranks_per_node - 1
    crossings = crossings + more_crossings * minimum(1, crossings)
    return ((ranks - 1 - crossings) * node_latency + crossings * network_latency) / maximum(1, ranks - 1)


@equation(
    "eq-hierarchical-allreduce",
    formula="2 * (ranks_per_node - 1) * (bytes / (ranks_per_node * node_bandwidth) + node_latency) + 2 * (nodes - 1) * (bytes / (ranks_per_node * nodes * network_bandwidth) + network_latency)",
    domain={"ranks_per_node": _RANKS, "nodes": _RANKS, "node_bandwidth": POSITIVE, "network_bandwidth": POSITIVE},
)
def hierarchical_all_reduce(
    bytes: Num,
    ranks_per_node: Num,
    nodes: Num,
    node_bandwidth: Num,
    network_bandwidth: Num,
    node_latency: Num = 0.0,
    network_latency: Num = 0.0,
) -> Num:
    """All-reduce in three phases: reduce-scatter in the node, all-reduce of a shard between nodes, all-gather in the node.

    Formula: T = T_RS(M, g, node) + T_AR(M / g, n, network) + T_AG(M, g, node).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    ranks_per_node : float or array, 1
        Devices g of one scale-up domain.
    nodes : float or array, 1
        Domains n.
    node_bandwidth : float or array, byte/s
        Per device and one way, inside the domain.
    network_bandwidth : float or array, byte/s
        Per device and one way, between domains.
    node_latency : float or array, s
        Cost of one step inside the domain.
    network_latency : float or array, s
        Cost of one step between domains.

    Returns
    -------
    float or array, s

    Assumptions: the phases follow each other; all g devices of a node use the network at once, each with its own
    share of it.

    >>> round(hierarchical_all_reduce(8e9, 8, 4, 450e9, 50e9), 6)
    0.061111

    Source: cho2019blueconnect, decomposition of an all-reduce into reduce-scatters and all-gathers.
    """
    return (
        ring_reduce_scatter(bytes, ranks_per_node, node_bandwidth, node_latency)
        + ring_all_reduce(bytes / ranks_per_node, nodes, network_bandwidth, network_latency)
        + ring_all_gather(bytes, ranks_per_node, node_bandwidth, node_latency)
    )


@equation(
    "eq-tp-allreduce",
    formula="layers * all_reduces * 2 * (ranks - 1) * (seq * batch * hidden * element_bytes / (ranks * bandwidth) + latency)",
    domain=_DOMAIN,
)
def tensor_parallel_time(
    layers: Num,
    seq: Num,
    batch: Num,
    hidden: Num,
    ranks: Num,
    bandwidth: Num,
    latency: Num = 0.0,
    all_reduces: Num = 4.0,
    element_bytes: Num = 2.0,
) -> Num:
    """Communication of tensor parallelism for one micro-batch: all-reduces of the activations in every layer.

    Formula: T = layers x all-reduces x T_ring(s b h x bytes per element).

    Parameters
    ----------
    layers : float or array, 1
        Layers that the device computes.
    seq : float or array, 1
        Tokens of a sequence.
    batch : float or array, 1
        Sequences of the micro-batch.
    hidden : float or array, 1
        Width of the activations.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Cost of one step, whatever its size.
    all_reduces : float or array, 1
        All-reduces per layer, forward and backward together.
    element_bytes : float or array, byte
        Size of one element.

    Returns
    -------
    float or array, s

    Assumptions: ring all-reduces that nothing hides, of eq-tp-message together; four per layer (two forward, two backward), six with full
    recomputation. With sequence parallelism each becomes a reduce-scatter and an all-gather, which cost the same.

    >>> round(tensor_parallel_time(96, 2048, 1, 12288, 8, 300e9), 6)
    0.112743

    Source: korthikanti2022recompute, sec. 4.2.2.
    """
    message = activation_bytes(seq, batch, hidden, element_bytes)
    return layers * all_reduces * ring_all_reduce(message, ranks, bandwidth, latency)
