"""Collectives in fewer steps than a ring: trees, halving and doubling, directly, and gathering along trees side by side."""

from mlsysim._numeric import Num, doublings, minimum, where
from mlsysim.collectives.rings import ring_bandwidth
from mlsysim.equations import POSITIVE, equation

_RANKS = "[1, inf)"
_DOMAIN = {"ranks": _RANKS, "bandwidth": POSITIVE}


@equation("eq-tree-allreduce", formula="2 * ceil(log2(ranks)) * (latency + bytes / bandwidth)", domain=_DOMAIN)
def tree_all_reduce(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """All-reduce as a reduction up a binomial tree and a broadcast down: few steps, each with the whole buffer.

    Formula: T = 2 ceil(log2 N) (latency + M / bandwidth).

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

    Assumptions: the buffer is not cut into chunks; the addition is free. Three ranks need as many steps as four: every
    step at most doubles how many ranks a sum is made of.

    >>> [round(tree_all_reduce(1e6, n, 50e9, 5e-6), 9) for n in (5, 8)]
    [0.00015, 0.00015]

    Source: mpich2016collectives, reduce.c, MPIR_Reduce_binomial; for one of the two passes.
    """
    return 2 * doublings(ranks) * (latency + bytes / bandwidth)


@equation(
    "eq-pipelined-tree-allreduce",
    formula="2 * (ceil(log2(ranks)) * latency + (chain - 1) * chain_latency + min(1, ranks * chain - 1) * bytes / bandwidth)",
    domain={**_DOMAIN, "chain": _RANKS},
)
def pipelined_tree_all_reduce(
    bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0, chain: Num = 1.0, chain_latency: Num = 0.0
) -> Num:
    """All-reduce on trees with the buffer cut so finely that all levels work at once: NCCL's pair of binary trees.

    Formula: T = 2 (ceil(log2 n) latency + (g - 1) chain latency + M / bandwidth) (nothing for one device).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    ranks : float or array, 1
        Members n of the tree, at least 1: NCCL's are nodes, not devices.
    bandwidth : float or array, byte/s
        What one member can send in one direction.
    latency : float or array, s
        Cost of one step between members, whatever its size.
    chain : float or array, 1
        Devices g behind each member, which hand the buffer on one after the other; 1 when the members are devices.
    chain_latency : float or array, s
        Cost of one step along that chain.

    Returns
    -------
    float or array, s

    Assumptions: chunks so small that filling the pipeline costs only the latencies; two trees share the links, so that
    every member sends M up and M down. NCCL rounds the logarithm down; its trees are as deep as the logarithm rounded
    up says.

    >>> round(pipelined_tree_all_reduce(1e6, 8, 50e9, 5e-6), 9)
    7e-05
    >>> round(pipelined_tree_all_reduce(0, 128, 50e9, 14e-6, chain=8, chain_latency=4e-6) * 1e6)  # 1024 devices
    252

    Source: nccl2026tuning, tuning.cc, latency and bandwidth of the tree.
    """
    return 2 * (
        doublings(ranks) * latency + (chain - 1) * chain_latency + minimum(1, ranks * chain - 1) * bytes / bandwidth
    )


def tree_bandwidth(ranks_per_node: Num, nodes: Num, node_bandwidth: Num, network_bandwidth: Num) -> Num:
    """What each member can send on a pair of trees over nodes: the bandwidth to give to the pipelined tree there.

    As for a ring, the ranks of a node use their adapters side by side. Of two nodes each is the root of one tree and the leaf of
    the other, so that half of the buffer goes up and half comes down: their adapters carry M and not 2 M, and count twice.

    Parameters
    ----------
    ranks_per_node, nodes : float or array, 1
        Ranks of the group in one node, and how many nodes there are.
    node_bandwidth, network_bandwidth : float or array, byte/s
        Per device and one way, inside the node and between nodes.

    >>> [tree_bandwidth(8, n, 300e9, 25e9) / 1e9 for n in (2, 4)]
    [300.0, 200.0]
    """
    return ring_bandwidth(ranks_per_node, node_bandwidth, where(nodes == 2, 2.0, 1.0) * network_bandwidth)


@equation(
    "eq-halving-doubling",
    formula="2 * (ceil(log2(ranks)) * latency + (ranks - 1) / ranks * bytes / bandwidth)",
    domain=_DOMAIN,
)
def halving_doubling_all_reduce(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """All-reduce by recursive halving and doubling: partners at distance 1, 2, 4 … exchange a half, a quarter, an eighth …

    Formula: T = 2 (ceil(log2 N) latency + (N - 1) / N x M / bandwidth).

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

    Assumptions: N is a power of two, and ``communication.collective`` refuses another; for other N this is what no
    all-reduce of two halves goes below. Every pair of ranks has a free path at the full bandwidth; the addition is free.

    >>> halving_doubling_all_reduce(8e9, 8, 400e9)
    0.035

    Source: mpich2016collectives, allreduce.c, power-of-two case; Rabenseifner's algorithm.
    """
    return 2 * (doublings(ranks) * latency + (ranks - 1) / ranks * bytes / bandwidth)


@equation(
    "eq-direct-allreduce",
    formula="2 * (min(1, ranks - 1) * latency + (ranks - 1) / ranks * bytes / bandwidth)",
    domain=_DOMAIN,
)
def direct_all_reduce(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """All-reduce in two steps: send each rank its piece directly, sum, and send the result to each directly.

    Formula: T = 2 (latency + (N - 1) / N x M / bandwidth) (nothing for N = 1).

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

    Assumptions: a switch or full mesh; a rank sends its N - 1 pieces at once, sharing its bandwidth, for one latency.

    >>> round(direct_all_reduce(8e9, 8, 400e9, 1e-6), 9)
    0.035002

    Source: austin2025scalingbook, Ch. GPUs, quiz 2, question 3; for one of the two steps.
    """
    return 2 * (minimum(1, ranks - 1) * latency + (ranks - 1) / ranks * bytes / bandwidth)


@equation(
    "eq-logarithmic-gather",
    formula="ceil(log2(ranks)) * latency + min(1, ranks - 1) * ranks * rank_latency + (ranks - 1) / ranks * bytes / bandwidth",
    domain=_DOMAIN,
)
def logarithmic_gather(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0, rank_latency: Num = 0.0) -> Num:
    """All-gather, or reduce-scatter, along as many binomial trees as ranks, all in the same steps (PAT).

    Formula: T = ceil(log2 N) latency + N rank latency + (N - 1) / N x M / bandwidth (nothing for one rank).

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
    rank_latency : float or array, s
        Cost of every rank's piece, whatever its size: to pack it and to tell the receiver.

    Returns
    -------
    float or array, s

    Assumptions: the buffers between receiving and sending hold all pieces of a step; where they do not, there are more steps.
    The farthest step carries one piece and the nearest half of all, so that hardly anything travels far.

    >>> [round(logarithmic_gather(1e6, n, 50e9, 5e-6) * 1e6, 1) for n in (2, 64)]
    [15.0, 49.7]

    Source: jeaugey2025pat, abstract; for the steps, the cost of a rank's piece is in nccl2026tuning, src/graph/tuning.cc.
    """
    of_ranks = minimum(1, ranks - 1) * ranks * rank_latency
    return doublings(ranks) * latency + of_ranks + (ranks - 1) / ranks * bytes / bandwidth
