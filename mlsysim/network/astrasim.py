"""Collectives in the units and with the rounding of ASTRA-sim's analytical back ends.

What it does, from its public sources (MIT licence; astra-sim at 518bd51, astra-network-analytical at 599a047):

- 1 GB/s of a link is 2^30 byte/s (``bw_GBps_to_Bpns``), and 1 GB/s of memory 10^9 byte/s (``local-mem-bw``).
- A delay is cut to whole nanoseconds where it is computed, messages and chunks to whole bytes.
- Sizes are communication sizes: the whole buffer of an all-reduce, a reduce-scatter and an all-to-all, the input shard of an all-gather.
- The endpoint delay is paid before a rank's first message and after every message that it receives.

Three of its rules are not ours, and only this module follows them: recursive halving adds up one message fewer than it receives, a
node of a tree pays an addition for the result that it only passes down, and a switch stores a whole message before it sends it on.
Its own topologies are rings, full connections and switches, one dimension only where congestion is counted.
"""

from collections.abc import Sequence

from mlsysim.errors import InputError
from mlsysim.network.costs import AstraSim
from mlsysim.network.schedules import phases
from mlsysim.network.simulation import Simulation
from mlsysim.network.timing import NetworkTime, check_asked, check_numbers, measured, wiring
from mlsysim.network.topology import Topology

GB = 2**30  # byte
ENDPOINT_DELAY_NS = 10  # its default
MAX_BYTES = 10**18


def collective_time(
    op: str,
    size_bytes: int,
    topology: str | Topology,
    algorithm: str | Sequence[str],
    bandwidth_GBps: float | Sequence[float],
    latency_ns: float | Sequence[float] = 0.0,
    splits: int = 1,
    active_chunks: int = 1,
    endpoint_delay_ns: int = ENDPOINT_DELAY_NS,
    local_mem_bandwidth_GBps: float | None = None,
    optimization: str = "localBWAware",
    congestion: str = "unaware",
) -> NetworkTime:
    """Time of a collective as ASTRA-sim would count it; the arguments are in its units, the result is in SI units.

    Parameters
    ----------
    op : str
        ``all_reduce``, ``reduce_scatter``, ``all_gather`` or ``all_to_all``.
    size_bytes : int, byte
        Its communication size: the input shard for an all-gather, the whole buffer otherwise.
    topology, algorithm, splits, active_chunks, optimization, congestion
        As for :func:`mlsysim.network.collective_time`; its names of algorithms are understood (``halvingDoubling``).
    bandwidth_GBps : float, or one per dimension
        Of a link, in 2^30 byte/s.
    latency_ns : float, or one per dimension, ns
        Of a link.
    endpoint_delay_ns : int, ns
        Its default is 10.
    local_mem_bandwidth_GBps : float
        In 10^9 byte/s; None makes additions free.

    >>> r = collective_time("all_reduce", 268435456, "ring:2", "ring", 50, 500, local_mem_bandwidth_GBps=1600)
    >>> round(r.time * 1e9)
    5252688
    """
    check_asked(op, congestion, optimization, splits, active_chunks)
    wired, names, rates, waits = wiring(topology, algorithm, bandwidth_GBps, latency_ns)
    size = _whole("bytes", size_bytes, 1, MAX_BYTES)
    endpoint = _whole("endpoint_delay", endpoint_delay_ns, 0, MAX_BYTES)
    check_numbers(rates, waits, endpoint, local_mem_bandwidth_GBps)
    if op == "all_gather" and size < splits:
        raise InputError(f"collective: bytes = {size} is less than one per split; use at most {size} splits")
    memory = None if local_mem_bandwidth_GBps is None else local_mem_bandwidth_GBps * 1e9
    costs = AstraSim(tuple(b * GB / 1e9 for b in rates), waits, endpoint, memory)
    chunk, count = costs.chunks(op, size, splits, wired.ranks)
    plan = phases(op, wired, names, chunk, optimization, costs)
    outcome = Simulation(wired, plan, count, active_chunks, costs, congestion == "aware").run()
    return NetworkTime(
        op=op,
        topology=wired,
        algorithms=names,
        bytes=size,
        bandwidth=tuple(b * GB for b in rates),
        latency=tuple(t / 1e9 for t in waits),
        splits=splits,
        active_chunks=active_chunks,
        endpoint_delay=endpoint / 1e9,
        memory_bandwidth=memory,
        optimization=optimization,
        congestion=congestion,
        compat="astrasim",
        **measured(wired, plan, count, costs, outcome, second=1e9),
    )


def _whole(name: str, value: float, least: int, most: int) -> int:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
    if not good or value != int(value):
        raise InputError(
            f"collective: {name} = {str(value)[:40]} must be a whole number in [{least}, {most:.0e}] with compat = astrasim"
        )
    return int(value)
