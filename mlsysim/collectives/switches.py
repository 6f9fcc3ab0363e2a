"""All-reduce with sums in the switch: of one node, and joined by trees over several."""

from mlsysim._numeric import Num, doublings, maximum, minimum
from mlsysim.equations import POSITIVE, equation

_RANKS = "[1, inf)"
_DOMAIN = {"ranks": _RANKS, "bandwidth": POSITIVE}


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
