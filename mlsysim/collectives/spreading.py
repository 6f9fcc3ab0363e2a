"""Everybody to everybody, and tokens to their experts."""

from mlsysim._numeric import Num, maximum
from mlsysim.equations import POSITIVE, equation

__all__ = ["all_to_all", "moe_dispatch", "nodes_reached"]


def __dir__() -> list[str]:
    return __all__


_RANKS = "[1, inf)"
_DOMAIN = {"ranks": _RANKS, "bandwidth": POSITIVE}


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
