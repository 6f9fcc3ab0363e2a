"""Waiting times of queued requests: mean, tail and quantile, and the cost of unequal service times."""

import math

from mlsysim._numeric import Num, exp, expm1, log, maximum, minimum, where
from mlsysim.capacity.queues import BELOW_ONE, SHARE
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation

_WAITING_DOMAIN = {"delayed": SHARE, "capacity": POSITIVE, "utilisation": BELOW_ONE}


@equation("eq-mean-wait", formula="delayed / (capacity * (1 - utilisation))", domain=_WAITING_DOMAIN)
def mean_wait(delayed: Num, capacity: Num, utilisation: Num) -> Num:
    """Mean time in the queue, over all requests, those that do not wait included.

    Formula: W = C / (X (1 - rho)).

    Parameters
    ----------
    delayed : float or array, 1
        Share of the requests that wait.
    capacity : float or array, 1/s
        Requests per second that the full system completes.
    utilisation : float or array, 1
        Arrival rate over capacity, below 1.

    Returns
    -------
    float or array, s

    Assumptions: those of eq-erlang-c; any order of service that does not look at lengths.

    >>> round(mean_wait(0.8, 10.0, 0.8), 6)
    0.4

    Source: cooper1981queueing, Erlang delay model.
    """
    return delayed / (capacity * (1 - utilisation))


@equation(
    "eq-wait-tail",
    formula="exp(-wait / own) + delayed * (exp(-capacity * (1 - utilisation) * wait) - exp(-wait / own))"
    " / (1 - capacity * (1 - utilisation) * own)",
    domain=_WAITING_DOMAIN,
)
def wait_tail(delayed: Num, capacity: Num, utilisation: Num, wait: Num, own: Num = 0.0) -> Num:
    """Share of the requests that wait longer than so long, or that wait and are then served longer than so long.

    Formula: P(W + E > t) = exp(-t / s) + C (exp(-d t) - exp(-t / s)) / (1 - d s), with d = X (1 - rho) and an
    exponential E of mean s. Without E, with s = 0, it is P(W > t) = C exp(-d t).

    Parameters
    ----------
    delayed : float or array, 1
        Share of the requests that wait.
    capacity : float or array, 1/s
        Requests per second that the full system completes.
    utilisation : float or array, 1
        Arrival rate over capacity, below 1.
    wait : float or array, s
        The time t that is compared with.
    own : float or array, s
        Mean s of an exponential time that follows the wait: a request's own prompt. 0 (the default) is the wait alone.

    Returns
    -------
    float or array, 1

    Assumptions: those of eq-erlang-c, and service in order of arrival. What follows the wait does not depend on it.

    >>> wait_tail(0.8, 10.0, 0.8, 0.0)
    0.8
    >>> round(wait_tail(0.8, 10.0, 0.8, 1.0, own=0.1), 4)  # one server: the time inside is exponential again
    0.1353

    Source: cooper1981queueing, Erlang delay model.
    """
    drain, none = capacity * (1 - utilisation), own == 0
    waits, serves = drain * wait, where(none, math.inf, wait / where(none, 1.0, own))
    # The difference of the two exponentials, divided: written so that neither equal nor very unequal rates lose digits.
    apart, corner = abs(1 - drain * own), drain * own == 1
    both = where(corner, serves, -expm1(-abs(waits - serves)) / where(corner, 1.0, apart))
    return exp(-serves) + delayed * exp(-minimum(waits, serves)) * both


@equation(
    "eq-wait-quantile",
    formula="log(max(delayed, 1 - quantile) / (1 - quantile)) / (capacity * (1 - utilisation))",
    domain={**_WAITING_DOMAIN, "quantile": BELOW_ONE},
)
def wait_quantile(delayed: Num, capacity: Num, utilisation: Num, quantile: Num) -> Num:
    """The wait that a share of the requests does not exceed: eq-wait-tail without a time of its own, solved for the time.

    Formula: t_q = ln(C / (1 - q)) / (X (1 - rho)), or 0 when fewer than 1 - q wait at all.

    Parameters
    ----------
    delayed : float or array, 1
        Share of the requests that wait.
    capacity : float or array, 1/s
        Requests per second that the full system completes.
    utilisation : float or array, 1
        Arrival rate over capacity, below 1.
    quantile : float or array, 1
        The share q, below 1: 0.99 for the p99.

    Returns
    -------
    float or array, s

    Assumptions: those of eq-wait-tail.

    >>> round(wait_quantile(0.8, 10.0, 0.8, 0.99), 3)
    2.191

    Source: cooper1981queueing, Erlang delay model.
    """
    rare = 1 - quantile
    return log(maximum(delayed, rare) / rare) / (capacity * (1 - utilisation))


@equation(
    "eq-mg1-wait",
    formula="utilisation / (1 - utilisation) * (1 + variation**2) / 2 * service_time",
    domain={"utilisation": BELOW_ONE},
)
def mg1_wait(service_time: Num, utilisation: Num, variation: Num = 1.0) -> Num:
    """Mean time in the queue of one server whose service times are as unequal as you say.

    Formula: W = rho / (1 - rho) x (1 + c_S^2) / 2 x S.

    Parameters
    ----------
    service_time : float or array, s
        Mean service time.
    utilisation : float or array, 1
        Arrival rate times service time, below 1.
    variation : float or array, 1
        Coefficient of variation of the service times, standard deviation over mean: 0 when all are equal, 1 when
        they are exponential.

    Returns
    -------
    float or array, s

    Assumptions: Poisson arrivals, one server, one request at a time; an order that does not look at lengths.

    >>> mg1_wait(0.1, 0.5), mg1_wait(0.1, 0.5, variation=0.0)
    (0.1, 0.05)

    Source: cooper1981queueing, Pollaczek-Khintchine formula.
    """
    return utilisation / (1 - utilisation) * (1 + variation**2) / 2 * service_time


@equation(
    "eq-dealt-share",
    formula="(1 + (1 - delayed) / (replicas * utilisation)) ** -replicas",
    domain={"delayed": SHARE, "utilisation": "(0, 1)", "replicas": AT_LEAST_ONE},
)
def dealt_share(delayed: Num, utilisation: Num, replicas: Num) -> Num:
    """Share of the requests that find their replica busy when requests are dealt out in turn, from a first guess of it.

    Formula: C = (1 + (1 - C) / (m rho))^(-m), whose root below 1 is the share; put what comes out in again.

    Parameters
    ----------
    delayed : float or array, 1
        The guess C.
    utilisation : float or array, 1
        Share of the time for which a replica is busy, below 1.
    replicas : float or array, 1
        Replicas m, each of which gets every m-th request of a Poisson process.

    Returns
    -------
    float or array, 1

    Assumptions: one server each, and exponential service times. For m = 1 the root is the utilisation itself.

    >>> guess = 0.8
    >>> for _ in range(60):
    ...     guess = dealt_share(guess, utilisation=0.8, replicas=9)
    >>> round(guess, 4)
    0.6608

    Source: cooper1981queueing, the queue GI/M/1; with the transform of a sum of m exponential times.
    """
    return (1 + (1 - delayed) / (replicas * utilisation)) ** -replicas


@equation(
    "eq-dealt-wait",
    formula="delayed / (1 - delayed) * (1 / replicas + variation**2) / (1 / replicas + 1) * service_time",
    domain={"delayed": BELOW_ONE, "replicas": AT_LEAST_ONE},
)
def dealt_wait(service_time: Num, delayed: Num, variation: Num, replicas: Num) -> Num:
    """Mean time in the queue of one of m servers to which requests are dealt out in turn.

    Formula: W = C / (1 - C) x (1/m + c_S^2) / (1/m + 1) x S.

    Parameters
    ----------
    service_time : float or array, s
        Mean service time S.
    delayed : float or array, 1
        Share C that finds its server busy, below 1 (eq-dealt-share).
    variation : float or array, 1
        Coefficient of variation of the service times.
    replicas : float or array, 1
        Servers m.

    Returns
    -------
    float or array, s

    Assumptions: those of eq-dealt-share; other service times by the factor that holds for a busy server. For m = 1 it is
    eq-mg1-wait, and exact.

    >>> round(dealt_wait(0.1, 0.5, variation=0.0, replicas=1), 3), round(dealt_wait(0.1, 0.5, variation=1.0, replicas=9), 3)
    (0.05, 0.1)

    Source: whitt1993approximations, the factor for varied arrivals and lengths; here it is put on the exact wait of exponential times.
    """
    return delayed / (1 - delayed) * (1 / replicas + variation**2) / (1 / replicas + 1) * service_time


@equation("eq-general-wait", formula="(arrival_variation**2 + variation**2) / 2 * exponential_wait")
def general_wait(exponential_wait: Num, variation: Num, arrival_variation: Num = 1.0) -> Num:
    """Mean time in the queue of c servers with unequal service times and uneven arrivals, approximately.

    Formula: W = (c_A^2 + c_S^2) / 2 x W of M/M/c.

    Parameters
    ----------
    exponential_wait : float or array, s
        Mean wait of M/M/c at the same utilisation.
    variation : float or array, 1
        Coefficient of variation of the service times.
    arrival_variation : float or array, 1
        Coefficient of variation of the times between arrivals: 1 for a Poisson process.

    Returns
    -------
    float or array, s

    Assumptions: arrivals one after the other and independent. Exact for M/M/c and M/G/1; elsewhere an approximation,
    good when the system is busy.

    >>> general_wait(0.4, variation=2.0)
    1.0

    Source: whitt1993approximations, abstract; the formula is older: for M/G/c it is Lee and Longton's of 1959.
    """
    return (arrival_variation**2 + variation**2) / 2 * exponential_wait
