"""Collectives in the units and with the rounding of ASTRA-sim's analytical back ends.

Sizes are its communication sizes: the whole buffer for an all-reduce, a reduce-scatter and an all-to-all, the input shard for an all-gather.
"""

from collections.abc import Sequence

from mlsysim.network.costs import AstraSim
from mlsysim.network.schedules import algorithm_name, phases
from mlsysim.network.simulation import Simulation
from mlsysim.network.topology import Topology, parse

GB = 2**30  # byte: what ASTRA-sim's network back ends take a GB to be (NetworkFunction.cpp)


def collective_ns(
    op: str,
    size_bytes: int,
    topology: str | Topology,
    algorithm: Sequence[str],
    bandwidth_GBps: Sequence[float],
    latency_ns: Sequence[float],
    splits: int = 1,
    active_chunks: int = 1,
    endpoint_delay_ns: int = 10,
    local_mem_bandwidth_GBps: float | None = None,
    optimization: str = "localBWAware",
    congestion: str = "unaware",
) -> int:
    wired = parse(topology)
    names = tuple(map(algorithm_name, algorithm))
    costs = AstraSim(
        bandwidth=tuple(b * GB / 1e9 for b in bandwidth_GBps),
        latency=tuple(latency_ns),
        endpoint=endpoint_delay_ns,
        memory_bandwidth=local_mem_bandwidth_GBps * 1e9 if local_mem_bandwidth_GBps else None,
    )
    chunk, count = costs.chunks(op, size_bytes, splits, wired.ranks)
    plan = phases(op, wired, names, chunk, optimization, costs)
    return int(Simulation(wired, plan, count, active_chunks, costs, congestion == "aware").run().time)
