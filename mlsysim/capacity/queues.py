"""Requests inside a system: Little's law, how busy it is, and the share of the requests that find no place.

``capacity`` is the rate at which a full system completes requests, ``utilisation`` the arrival rate over it. The chain of
:func:`erlang_b_step` and :func:`waiting_share` holds for any system whose completion rate depends on how many requests it
works on: with n / S it is the queue M/M/c, with the rates of a batch it is a replica. :func:`erlang_b` and
:func:`erlang_c` run it for M/M/c.
"""

from mlsysim._numeric import Num, all_true, where
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument, equation, unchecked
from mlsysim.errors import InputError

SHARE, BELOW_ONE = "[0, 1]", "[0, 1)"


@equation("eq-little", formula="rate * time")
def little(rate: Num, time: Num) -> Num:
    """How many requests are inside, from how many come per second and how long each stays.

    Formula: L = lambda W.

    Parameters
    ----------
    rate : float or array, 1/s
        Requests per second that enter (and leave).
    time : float or array, s
        Mean time that a request spends inside.

    Returns
    -------
    float or array, 1

    Assumptions: averages over a long time of a system that neither fills up nor drains. No distribution, order of
    service or number of servers enters. Rate, time and number are of the same requests and the same boundary.

    >>> little(5.0, 8.0)
    40.0

    Source: little1961, abstract.
    """
    return rate * time


@equation("eq-utilisation", formula="rate / capacity", domain={"capacity": POSITIVE})
def utilisation(rate: Num, capacity: Num) -> Num:
    """Requests that come over requests that a full system completes; from 1 on the queue grows without end.

    Formula: rho = lambda / X.

    Parameters
    ----------
    rate : float or array, 1/s
        Requests per second that come.
    capacity : float or array, 1/s
        Requests per second that the full system completes: servers / service time for M/M/c.

    Returns
    -------
    float or array, 1

    Assumptions: the full system completes requests at a steady rate.

    >>> utilisation(8.0, 10.0)
    0.8

    Source: cooper1981queueing, Erlang delay model.
    """
    return rate / capacity


@equation(
    "eq-erlang-b",
    formula="rate * previous / (throughput + rate * previous)",
    domain={"previous": SHARE, "throughput": POSITIVE},
)
def erlang_b_step(previous: Num, rate: Num, throughput: Num) -> Num:
    """Share of the time that a system with room for n requests is full, from that of one with room for n - 1.

    Formula: B_n = lambda B_(n-1) / (X_n + lambda B_(n-1)), from B_0 = 1.

    Parameters
    ----------
    previous : float or array, 1
        The share for n - 1.
    rate : float or array, 1/s
        Requests per second that come.
    throughput : float or array, 1/s
        Requests per second that are completed while n are inside: n / S with n servers (Erlang's B formula).

    Returns
    -------
    float or array, 1

    Assumptions: requests come as a Poisson process and find the system as it is on average; the completion rate
    depends on nothing but the number inside; requests that find it full are turned away.

    >>> erlang_b_step(erlang_b_step(1.0, 2.0, 1.0), 2.0, 2.0)
    0.4

    Source: cooper1981queueing, Erlang loss model; for n / S; erlang1917 has the formula that the steps add up to.
    """
    return rate * previous / (throughput + rate * previous)


@equation(
    "eq-erlang-c",
    formula="blocking / (1 - utilisation * (1 - blocking))",
    domain={"blocking": SHARE, "utilisation": BELOW_ONE},
)
def waiting_share(blocking: Num, utilisation: Num) -> Num:
    """Share of the requests that must wait, when those that find all places taken queue instead of leaving.

    Formula: C = B / (1 - rho (1 - B)).

    Parameters
    ----------
    blocking : float or array, 1
        B of the last step: the share of the time that the system is full when nobody may wait.
    utilisation : float or array, 1
        Arrival rate over the completion rate of the full system, below 1.

    Returns
    -------
    float or array, 1

    Assumptions: those of eq-erlang-b, but the queue is endless; the completion rate stays that of the full system.

    >>> round(waiting_share(0.4, 0.99), 4)
    0.9852

    Source: cooper1981queueing, Erlang delay model; erlang1917.
    """
    return blocking / (1 - utilisation * (1 - blocking))


_SERVERS, _LOAD = Domain.of("[1, inf)"), Domain.of(NON_NEGATIVE)


def erlang_b(servers: Num, load: Num) -> Num:
    """Share of the requests that c servers turn away when nobody may wait, by the steps of eq-erlang-b.

    Parameters
    ----------
    servers : float or array, 1
        Whole number c of servers.
    load : float or array, 1
        Offered load, arrival rate times service time, in servers' worth of work (erlang).

    Raises
    ------
    InputError
        A value out of range, or servers that are not whole.

    >>> erlang_b(2, 2.0)
    0.4
    """
    check_argument("erlang_b", "servers", servers, "1", _SERVERS)
    check_argument("erlang_b", "load", load, "1", _LOAD)
    if not all_true(servers == servers // 1):
        raise InputError(f"erlang_b: servers = {servers} must be whole")
    largest = int(servers.max()) if hasattr(servers, "max") else int(servers)
    share, step = 1.0 + 0.0 * (servers + load), erlang_b_step
    for n in range(1, largest + 1):
        share = where(n <= servers, step(share, load, float(n)), share)
        step = unchecked(erlang_b_step)
    return share


def erlang_c(servers: Num, load: Num) -> Num:
    """Share of the requests that wait for one of c servers: Erlang's C formula.

    Parameters
    ----------
    servers : float or array, 1
        Whole number c of servers.
    load : float or array, 1
        Offered load, arrival rate times service time, below the number of servers.

    Raises
    ------
    InputError
        A value out of range, servers that are not whole, a load that the servers cannot carry.

    >>> round(erlang_c(3, 2.0), 4)
    0.4444
    """
    blocking = erlang_b(servers, load)
    if not all_true(load < servers):
        raise InputError(f"erlang_c: load = {load} must be below servers = {servers}, or the queue grows without end")
    return waiting_share(blocking, load / servers)
