"""Everybody to everybody, and tokens to their experts."""

from math import ceil

from mlsysim._numeric import Num, is_array, maximum, minimum, where
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation

_RANKS = "[1, inf)"
_DOMAIN = {"ranks": _RANKS, "bandwidth": POSITIVE}


@equation(
    "eq-all-to-all",
    formula="(ranks - 1) / ranks * bytes / bandwidth + ceil((ranks - 1) / together) * latency + (nodes - 1) * post",
    domain={**_DOMAIN, "together": AT_LEAST_ONE, "nodes": AT_LEAST_ONE},
    relations=("nodes <= ranks",),
)
def all_to_all(
    bytes: Num,
    ranks: Num,
    bandwidth: Num,
    latency: Num = 0.0,
    together: Num = 1.0,
    nodes: Num = 1.0,
    post: Num = 0.0,
) -> Num:
    """Every rank sends a different N-th of its buffer to every other rank, to several of them at a time.

    Formula: T = (N - 1) / N x M / bandwidth + ceil((N - 1) / c) latency + (n - 1) post.

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the buffer that each rank sends from, its own piece included.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Of one message, whatever its size.
    together : float or array, 1
        Partners c that a rank sends to at a time; 1: one after the other.
    nodes : float or array, 1
        Nodes n that the ranks lie on: the host hands its adapter one order for each of the others.
    post : float or array, s
        What such an order costs the host.

    Returns
    -------
    float or array, s

    Assumptions: messages of a round share the bandwidth and wait together; rounds and orders follow one another; all messages
    for a node go in one order, however many devices of this node they come from. On a ring the pieces travel through
    neighbours and it takes longer.

    >>> all_to_all(8e9, 8, 400e9)
    0.0175
    >>> round(all_to_all(0.0, 1024, 50e9, 14e-6, together=128, nodes=128, post=3e-6) * 1e6)
    493

    Source: nccl2026p2p, src/enqueue.cc and src/init.cc; for the rounds, and for messages that are joined by node.
    """
    rounds = -(-(ranks - 1) // together)
    return (ranks - 1) / ranks * bytes / bandwidth + rounds * latency + (nodes - 1) * post


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
        Copies of a token that go to other nodes, on average: one to each, or one for every expert there (``copies_sent``).
    local_copies : float or array, 1
        Copies of a token that cross the link inside a node, on average.
    network_bandwidth : float or array, byte/s
        Per device and one way, between nodes.
    node_bandwidth : float or array, byte/s
        Per device and one way, inside a node.
    latency : float or array, s
        Of the call and its messages.

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


def _all_elsewhere(experts: Num, top_k: Num, owners: Num) -> Num:
    """Chance that none of a token's experts lies in one place of so many."""
    own, missed = experts / owners, 1.0
    most = float(top_k.max()) if is_array(top_k) else float(top_k)
    for drawn in range(ceil(most)):
        left = maximum(0.0, experts - own - drawn) / maximum(1.0, experts - drawn)
        missed = missed * where(top_k > drawn, left, 1.0)
    return missed


@equation(
    "eq-places-reached",
    formula="owners * (1 - all_elsewhere(experts, top_k, owners))",
    domain={"experts": AT_LEAST_ONE, "top_k": "[0, 1024]", "owners": AT_LEAST_ONE},
    relations=("top_k <= experts", "owners <= experts"),
)
def places_reached(experts: Num, top_k: Num, owners: Num) -> Num:
    """Different nodes, or different devices, that the experts of a token lie on, on average.

    Formula: D = n (1 - (E - E/n)/E x (E - E/n - 1)/(E - 1) x ...), with k factors.

    Parameters
    ----------
    experts : float or array, 1
        Routed experts E of the layer.
    top_k : float or array, 1
        Experts k of a token, all different.
    owners : float or array, 1
        Nodes or devices n that the experts are spread over evenly, at most E.

    Returns
    -------
    float or array, 1

    Assumptions: every set of k experts is equally likely. Of all places one is the token's own, so that (n - 1) / n of this
    number is elsewhere.

    >>> round(places_reached(256, 8, 8), 2), round(places_reached(256, 8, 64), 2), places_reached(8, 2, 8)
    (5.29, 7.68, 2.0)

    Source: deepep2025, README; for sending one copy to a place; the mean is derived in the chapter.
    """
    return owners * (1 - _all_elsewhere(experts, top_k, owners))


def copies_sent(
    experts: Num, top_k: Num, ranks: Num, ranks_per_node: Num, once: Num, limit: Num = 0.0
) -> tuple[Num, Num]:
    """Copies of a token that cross the network, and copies that cross links inside nodes: what eq-moe-dispatch asks for.

    With ``once`` a token travels once to every other node with experts of its, to the device there that has its own device's
    number, and from that to each other device with one of them (DeepEP's normal kernels, HybridEP). Otherwise a copy
    goes to every expert on its own (an all-to-all of copies, DeepEP's low-latency kernels). A ``limit`` above 0 is the
    number of nodes that the router may choose experts on.

    >>> [round(x, 2) for x in copies_sent(256, 8, 64, 8, once=1.0)], copies_sent(256, 8, 64, 8, once=0.0)
    ([4.63, 6.72], (7.0, 0.875))
    """
    nodes = ranks / ranks_per_node
    among = where(limit > 0, minimum(limit, nodes), nodes)
    chosen, held = experts * among / nodes, ranks * among / nodes  # experts to choose among, and devices that hold them
    apart, beside = (nodes - 1.0) / nodes, (ranks_per_node - 1.0) / ranks_per_node
    reached, spread = places_reached(chosen, top_k, among), places_reached(chosen, top_k, held)
    return (
        where(once > 0, reached, top_k) * apart,
        where(once > 0, spread, top_k / nodes) * beside,
    )
