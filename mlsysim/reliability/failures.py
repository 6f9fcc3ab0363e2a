"""How often things fail: from counted failures to rates, from parts to a cluster, and what spare nodes buy."""

from mlsysim._numeric import Num, exp, is_array, log, maximum, minimum, where
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation

# Spares beyond this are a second cluster; the sum of eq-spares has one summand for each.
MAX_SPARES = 256
_SMALLEST = 1e-300  # its logarithm stands for that of a node that never fails


@equation(
    "eq-failure-rate",
    formula="failures / (parts * duration)",
    domain={"parts": AT_LEAST_ONE, "duration": POSITIVE},
)
def failure_rate(failures: Num, duration: Num, parts: Num = 1.0) -> Num:
    """Failures per part and second, from a count.

    Formula: rate = failures / (parts x duration).

    Parameters
    ----------
    failures : float or array, 1
        Failures that were counted.
    duration : float or array, s
        How long the parts were watched.
    parts : float or array, 1
        Parts that were watched: devices, nodes, or 1 for the whole.

    Returns
    -------
    float or array, 1/s

    Assumptions: parts fail alike and at a rate that does not change with age. A count n is uncertain by about its
    square root.

    >>> round(failure_rate(419, 54 * 86400.0, 16384) * 3600 * 1e9)  # FIT: failures in 1e9 hours
    19733

    Source: kokolis2024reliability, failure rates and MTTF.
    """
    return failures / (parts * duration)


@equation("eq-observed-mtbf", formula="duration / failures", domain={"failures": POSITIVE})
def observed_mtbf(duration: Num, failures: Num) -> Num:
    """Mean time between failures of whatever was watched, from a count.

    Formula: M = duration / failures.

    Parameters
    ----------
    duration : float or array, s
        How long it was watched.
    failures : float or array, 1
        Failures that were counted.

    Returns
    -------
    float or array, s

    Assumptions: a constant rate. Elapsed time counts, so the time of the repairs is inside.

    >>> round(observed_mtbf(54 * 86400.0, 419))
    11135

    Source: grattafiori2024llama3, sec. 3.3.4.
    """
    return duration / failures


@equation(
    "eq-node-mtbf",
    formula="1 / (devices * device_rate + host_rate)",
    domain={"devices": AT_LEAST_ONE, "device_rate": POSITIVE},
)
def node_mtbf(devices: Num, device_rate: Num, host_rate: Num = 0.0) -> Num:
    """Mean time between failures of a node, which fails when any of its parts does.

    Formula: M_node = 1 / (devices x device rate + host rate).

    Parameters
    ----------
    devices : float or array, 1
        Devices of the node.
    device_rate : float or array, 1/s
        Failures of one device, with its memory and its link.
    host_rate : float or array, 1/s
        Failures of everything else whose loss takes the node away: host, adapter, its share of switches.

    Returns
    -------
    float or array, s

    Assumptions: parts fail independently of each other, and each is needed.

    >>> round(node_mtbf(8, 1 / 50e3, 1 / 25e3))
    5000

    Source: kokolis2024reliability, failure rates and MTTF.
    """
    return 1 / (devices * device_rate + host_rate)


@equation(
    "eq-cluster-mtbf",
    formula="node_mtbf / nodes",
    domain={"node_mtbf": POSITIVE, "nodes": AT_LEAST_ONE},
)
def cluster_mtbf(node_mtbf: Num, nodes: Num) -> Num:
    """Mean time between failures of a job that stops when any of its nodes does.

    Formula: M = M_node / nodes.

    Parameters
    ----------
    node_mtbf : float or array, s
        Mean time between failures of one node.
    nodes : float or array, 1
        Nodes of the job.

    Returns
    -------
    float or array, s

    Assumptions: independent nodes, each at a constant rate. What the nodes share (a switch, a power feed, the software)
    is not in it.

    >>> cluster_mtbf(10_000 * 3600.0, 1_000) / 3600
    10.0

    Source: reddi2026mathpage, sec. 6.
    """
    return node_mtbf / nodes


@equation("eq-expected-failures", formula="duration / mtbf", domain={"mtbf": POSITIVE})
def expected_failures(duration: Num, mtbf: Num) -> Num:
    """How many failures a job of some length has on average.

    Formula: n = duration / M.

    Parameters
    ----------
    duration : float or array, s
        Elapsed time of the job.
    mtbf : float or array, s
        Mean time between failures of the whole job.

    Returns
    -------
    float or array, 1

    Assumptions: a constant rate; the count is then Poisson, with this mean and this variance.

    >>> expected_failures(54 * 86400.0, 3 * 3600.0)
    432.0

    Source: kokolis2024reliability, failure rates and MTTF.
    """
    return duration / mtbf


@equation("eq-unavailability", formula="repair / (node_mtbf + repair)", domain={"node_mtbf": POSITIVE})
def unavailability(node_mtbf: Num, repair: Num) -> Num:
    """Share of the time that one node is away for repair.

    Formula: u = repair / (M_node + repair).

    Parameters
    ----------
    node_mtbf : float or array, s
        Mean time that a node works before it fails.
    repair : float or array, s
        Mean time from the failure until the node can be used again.

    Returns
    -------
    float or array, 1

    Assumptions: the long run; the distribution of the repair time does not matter, its mean does.

    >>> unavailability(98 * 86400.0, 2 * 86400.0)
    0.02

    Source: barlow1975reliability, availability.
    """
    return repair / (node_mtbf + repair)


@equation(
    "eq-spares",
    formula="binomial_cdf(spares, nodes + spares, unavailability)",
    domain={"nodes": AT_LEAST_ONE, "spares": f"[0, {MAX_SPARES}]", "unavailability": "[0, 1)"},
)
def spare_availability(nodes: Num, spares: Num, unavailability: Num) -> Num:
    """Share of the time that a job finds the nodes it needs, when some stand by.

    Formula: A = sum over k = 0..spares of C(N, k) u^k (1 - u)^(N - k), with N = nodes + spares.

    Parameters
    ----------
    nodes : float or array, 1
        Nodes that the job needs.
    spares : float or array, 1
        Nodes beyond those; a fraction of one does not count.
    unavailability : float or array, 1
        Share of the time that one node is away.

    Returns
    -------
    float or array, 1

    Assumptions: nodes fail and are repaired independently of each other, spares like the others, each with its own
    repair crew; a spare may stand in for any node.

    >>> round(spare_availability(3, 1, 0.1), 4)  # at most one of four away: 0.9^4 + 4 x 0.1 x 0.9^3
    0.9477

    Source: barlow1975reliability, k-out-of-n systems.
    """
    total = nodes + spares
    log_odds = log(maximum(unavailability, _SMALLEST)) - log(1 - unavailability)
    log_term = total * log(1 - unavailability)  # none away; each further node multiplies by odds x (N - k)/(k + 1)
    share = exp(log_term)
    for k in range(int(spares.max() if is_array(spares) else spares)):
        log_term = log_term + log(maximum(total - k, _SMALLEST) / (k + 1)) + log_odds
        share = share + where(k + 1 <= spares, exp(log_term), 0.0)
    return minimum(share, 1.0)  # the sum of many terms may round to a little more
