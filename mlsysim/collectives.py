"""How long bytes travel: point to point, and the collectives that training is made of.

``bytes`` is the size M of the whole buffer: what every rank holds before an all-reduce or a reduce-scatter, and after an
all-gather. ``bandwidth`` is what one rank can send in one direction, ``latency`` the cost of one step whatever its size. Everything
takes a float or an array (broadcasting) in SI units. With one rank every collective costs nothing.
"""

from mlsysim._numeric import Num, all_true, doublings, maximum, minimum, where
from mlsysim._renamed import renamed
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError

__all__ = [
    "activation_bytes",
    "all_to_all",
    "bus_bandwidth",
    "chunked_transfer",
    "direct_all_reduce",
    "half_size",
    "halving_doubling_all_reduce",
    "hierarchical_all_reduce",
    "in_switch_all_reduce",
    "in_switch_tree_all_reduce",
    "moe_dispatch",
    "nodes_reached",
    "pipelined_tree_all_reduce",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_bandwidth",
    "ring_latency",
    "ring_reduce_scatter",
    "tensor_parallel_time",
    "transfer_time",
    "tree_all_reduce",
    "tree_bandwidth",
]


def __dir__() -> list[str]:
    return __all__


_RANKS = "[1, inf)"
_DOMAIN = {"ranks": _RANKS, "bandwidth": POSITIVE}


@equation("eq-alpha-beta", formula="latency + bytes / bandwidth", domain={"bandwidth": POSITIVE})
def transfer_time(bytes: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """Time of one message between two devices.

    Formula: T = latency + bytes / bandwidth.

    Parameters
    ----------
    bytes : float or array, byte
        Size of the message.
    bandwidth : float or array, byte/s
        Bandwidth of the link in that direction.
    latency : float or array, s
        Time until the first byte arrives.

    Returns
    -------
    float or array, s

    Assumptions: one message at a time on the link; the latency overlaps with nothing.

    >>> transfer_time(1e6, 50e9, 5e-6)
    2.5e-05

    Source: nccl2026performance, sec. Time.
    """
    return latency + bytes / bandwidth


@equation("eq-half-size", formula="pieces * latency * bandwidth", domain={"bandwidth": POSITIVE, "pieces": _RANKS})
def half_size(bandwidth: Num, latency: Num, pieces: Num = 1.0) -> Num:
    """Size at which latency and bandwidth cost the same: half of the bandwidth is reached there.

    Formula: M_half = pieces x latency x bandwidth.

    Parameters
    ----------
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Cost of one step, whatever its size.
    pieces : float or array, 1
        Pieces that the buffer is sent in, one step each: 1 for a message, N for a ring.

    Returns
    -------
    float or array, byte

    Assumptions: those of eq-alpha-beta; a ring cuts its buffer into one piece per rank.

    >>> round(half_size(50e9, 5e-6, pieces=8))
    2000000

    Source: nccl2026performance, sec. Time.
    """
    return pieces * latency * bandwidth


@equation(
    "eq-chunked-transfer",
    formula="(sqrt(bytes / bandwidth) + sqrt((stages - 1) * chunk_latency)) ** 2",
    domain={"bandwidth": POSITIVE, "stages": _RANKS},
)
def chunked_transfer(bytes: Num, bandwidth: Num, stages: Num = 2.0, chunk_latency: Num = 0.0) -> Num:
    """Time of a buffer through several stages, cut into chunks of the best size: small ones fill the stages, large ones cost less.

    Formula: T = (sqrt(M / bandwidth) + sqrt((stages - 1) chunk latency))^2.

    Parameters
    ----------
    bytes : float or array, byte
        Size M that passes the slowest stage.
    bandwidth : float or array, byte/s
        Of that stage.
    stages : float or array, 1
        Stages that every chunk passes, one after the other, each busy with another chunk; at least 1.
    chunk_latency : float or array, s
        Cost of a chunk at a stage, whatever its size.

    Returns
    -------
    float or array, s

    Assumptions: all stages are as fast as the slowest; chunks of any size c, of which sqrt(M x chunk latency x bandwidth /
    (stages - 1)) is the best. No other cut is faster.

    >>> round(chunked_transfer(50e6, 50e9, 2, 5e-6) * 1e6)  # 1000 us of bytes
    1146

    Source: sanders2003tradeoff, abstract, the sequential pipeline; the best cut is worked out in the chapter.
    """
    return ((bytes / bandwidth) ** 0.5 + ((stages - 1) * chunk_latency) ** 0.5) ** 2


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
    "eq-in-switch-allreduce",
    formula="min(1, ranks - 1) * ((ranks + 1) / ranks * bytes / bandwidth + 2 * latency)",
    domain=_DOMAIN,
)
def in_switch_all_reduce(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """All-reduce that the switch sums: every rank sends its buffer once and receives the result once.

    Formula: T = (N + 1) / N x M / bandwidth + 2 latency (nothing for N = 1).

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

    Assumptions: each rank owns an N-th of the buffer: the switch reads M from every rank and returns the owner's
    sum, M / N; the owner multicasts M / N and all receive M. Both directions carry (N + 1) / N x M.

    >>> in_switch_all_reduce(8e9, 8, 450e9)
    0.02

    Source: bekman2026mlengineering, chapter Network, SHARP; N + 1 sends for 2 N.
    """
    return minimum(1, ranks - 1) * ((ranks + 1) / ranks * bytes / bandwidth + 2 * latency)


@equation(
    "eq-in-switch-tree",
    formula="node_latency + 2 * ceil(log2(nodes)) * network_latency + max((ranks_per_node + 1) / ranks_per_node * bytes / node_bandwidth, min(2, nodes - 1) * bytes / (ranks_per_node * network_bandwidth))",
    domain={"ranks_per_node": "[2, inf)", "nodes": _RANKS, "node_bandwidth": POSITIVE, "network_bandwidth": POSITIVE},
)
def in_switch_tree_all_reduce(
    bytes: Num,
    ranks_per_node: Num,
    nodes: Num,
    node_bandwidth: Num,
    network_bandwidth: Num,
    node_latency: Num = 0.0,
    network_latency: Num = 0.0,
) -> Num:
    """All-reduce in which each node's switch sums and trees join the nodes, all in one pipeline: NCCL's NVLSTree.

    Formula: T = node latency + 2 ceil(log2 n) network latency + max((g + 1) / g x M / node, min(2, n - 1) M / (g network)).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    ranks_per_node : float or array, 1
        Devices g that a switch joins, at least 2.
    nodes : float or array, 1
        Nodes n.
    node_bandwidth : float or array, byte/s
        Per device and one way, at the switch.
    network_bandwidth : float or array, byte/s
        Per device and one way, between nodes.
    node_latency : float or array, s
        Cost of the part inside the nodes, whatever the size.
    network_latency : float or array, s
        Cost of one step between nodes.

    Returns
    -------
    float or array, s

    Assumptions: the switch leaves each device an N-th of the node's sum, which goes up and down a pair of trees: from
    three nodes on at most twice through an adapter, once with two. The slower of switch and adapters sets the pace.

    >>> round(in_switch_tree_all_reduce(8e9, 8, 2, 450e9, 50e9), 6), round(in_switch_tree_all_reduce(8e9, 8, 4, 450e9, 50e9), 6)
    (0.02, 0.04)

    Source: nccl2026tuning, tuning.cc, NVLSTree: interBw twice with two nodes, intraLat + 2 log2i(nNodes) interLat.
    """
    return (
        node_latency
        + 2 * doublings(nodes) * network_latency
        + maximum(
            (ranks_per_node + 1) / ranks_per_node * bytes / node_bandwidth,
            minimum(2, nodes - 1) * bytes / (ranks_per_node * network_bandwidth),
        )
    )


@equation("eq-all-to-all", formula="(ranks - 1) * (bytes / (ranks * bandwidth) + latency)", domain=_DOMAIN)
def all_to_all(bytes: Num, ranks: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """Every rank sends a different N-th of its buffer to every other rank.

    Formula: T = (N - 1) / N x M / bandwidth + (N - 1) latency.

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the buffer that each rank sends from, its own piece included.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Cost of one step, whatever its size.

    Returns
    -------
    float or array, s

    Assumptions: one partner after the other at the full bandwidth, as a switch allows; on a ring the pieces
    travel through neighbours and it takes longer.

    >>> all_to_all(8e9, 8, 400e9)
    0.0175

    Source: reddi2026mathpage, sec. 2.4.
    """
    return (ranks - 1) * (bytes / (ranks * bandwidth) + latency)


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

    Source: rooflinepage2026, sec. 3.2.
    """
    return (
        ring_reduce_scatter(bytes, ranks_per_node, node_bandwidth, node_latency)
        + ring_all_reduce(bytes / ranks_per_node, nodes, network_bandwidth, network_latency)
        + ring_all_gather(bytes, ranks_per_node, node_bandwidth, node_latency)
    )


@equation(
    "eq-bus-bandwidth",
    formula="phases * (ranks - 1) / ranks * bytes / time",
    domain={"ranks": _RANKS, "time": POSITIVE},
)
def bus_bandwidth(bytes: Num, time: Num, ranks: Num, phases: Num = 2.0) -> Num:
    """The bandwidth per rank that a ring would have needed for this time: what nccl-tests prints as busbw.

    Formula: BW_bus = phases (N - 1) / N x M / T.

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    time : float or array, s
        How long the collective took.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    phases : float or array, 1
        2 for an all-reduce; 1 for a reduce-scatter, an all-gather or an all-to-all.

    Returns
    -------
    float or array, byte/s

    Assumptions: the bytes of a ring crossed the wire; where the switch reduces they did not, and the figure may
    exceed the wire.

    >>> round(bus_bandwidth(8e9, 0.035, 8))
    400000000000

    Source: nccl2026performance, sec. Bus bandwidth.
    """
    return phases * (ranks - 1) / ranks * bytes / time


@equation(
    "eq-moe-dispatch",
    formula="latency + max(tokens * token_bytes * remote_nodes / network_bandwidth, tokens * token_bytes * local_copies / node_bandwidth)",
    domain={"network_bandwidth": POSITIVE, "node_bandwidth": POSITIVE},
)
def moe_dispatch(
    tokens: Num,
    token_bytes: Num,
    remote_nodes: Num,
    local_copies: Num,
    network_bandwidth: Num,
    node_bandwidth: Num,
    latency: Num = 0.0,
) -> Num:
    """Send tokens to their experts on two levels: once to every node that needs them, then on to the devices inside it.

    Formula: T = latency + max(tokens x token bytes x remote nodes / network, tokens x token bytes x local copies
    / node).

    Parameters
    ----------
    tokens : float or array, token
        Tokens that one device holds.
    token_bytes : float or array, byte/token
        Bytes of one token's activation: hidden size times bytes per element, scales included.
    remote_nodes : float or array, 1
        Other nodes that a token goes to, on average; top-k for kernels that send every copy over the network.
    local_copies : float or array, 1
        Copies of a token that cross the link inside a node, on average; 0 for those kernels.
    network_bandwidth : float or array, byte/s
        Per device and one way, between nodes.
    node_bandwidth : float or array, byte/s
        Per device and one way, inside a node.
    latency : float or array, s
        Cost of the call.

    Returns
    -------
    float or array, s

    Assumptions: balanced routing, so that every device sends as much as it receives; the two levels run as a
    pipeline; a combine is the same with the bytes of its own precision.

    >>> moe_dispatch(4096, 7168, 3, 8, 50e9, 200e9)
    0.00176160768

    Source: deepep2025, Performance, normal kernels.
    """
    return latency + maximum(
        tokens * token_bytes * remote_nodes / network_bandwidth, tokens * token_bytes * local_copies / node_bandwidth
    )


def nodes_reached(top_k: Num, nodes: Num) -> Num:
    """Other nodes that a token goes to on average, when each of its top-k experts lies on any node alike.

    A node misses all k experts with probability (1 - 1/n)^k. A token travels once to a node, however many of its experts
    are there.

    >>> round(nodes_reached(top_k=8, nodes=8), 2)
    4.59
    """
    return (nodes - 1) * (1 - (1 - 1 / nodes) ** top_k)


@renamed(sequence="seq")
def activation_bytes(seq: Num, batch: Num, hidden: Num, element_bytes: Num = 2.0) -> Num:
    """Activations between two layers, of so many sequences: the message s b h x bytes per element that splits send.

    >>> activation_bytes(2048, 1, 12288) / 1e6
    50.331648
    """
    return seq * batch * hidden * element_bytes


@equation(
    "eq-tp-allreduce",
    formula="layers * all_reduces * 2 * (ranks - 1) * (seq * batch * hidden * element_bytes / (ranks * bandwidth) + latency)",
    domain=_DOMAIN,
    renamed={"sequence": "seq"},
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
