"""Measured communication beside three predictions: the wire's bound, the ring on the wire, and the library's own plan."""

from dataclasses import dataclass

from mlsysim import catalog, collectives, communication
from mlsysim.errors import InputError, named
from mlsysim.evidence.measured.measurements import Measurement
from mlsysim.evidence.measured.measurements import collectives as measured_collectives
from mlsysim.evidence.metrics import signed_error
from mlsysim.results import Result


@dataclass(frozen=True)
class CollectiveCheck(Result):
    """One measured collective inside a node; times in s, error = predicted/measured - 1."""

    measurement: Measurement
    measured: float
    bound: float  # no algorithm that this node can run is faster: full wire, no latency
    ring: float  # a ring at the full wire, no latency: what drops alpha and the switch
    plan: communication.CollectiveTime

    @property
    def bound_error(self) -> float:
        return float(signed_error(self.bound, self.measured))

    @property
    def ring_error(self) -> float:
        return float(signed_error(self.ring, self.measured))

    @property
    def plan_error(self) -> float:
        return float(signed_error(self.plan.time, self.measured))

    @property
    def bus_bandwidth(self) -> float:
        """As printed by the source."""
        return self.measurement.value


@dataclass(frozen=True)
class NodesCheck(Result):
    """One measured all-reduce over several nodes, between the two ends of overlap; times in s."""

    measurement: Measurement
    measured: float
    flat: float  # one ring over all ranks: what leaves a node leaves by one adapter
    rings: float  # as many rings as a node has devices, each leaving by its own adapter
    hierarchical: float  # eq-hierarchical-allreduce: the phases follow each other
    overlapped: float  # only the longer of the phases in the node and of the one between nodes
    plan: communication.CollectiveTime  # NCCL's own, with its latencies

    @property
    def printed_range(self) -> tuple[float, float]:
        """Shortest and longest time that the source's bus bandwidth, printed to a hundredth of a GB/s, can stand for."""
        half = 0.005e9
        return _seconds(self.measurement, half), _seconds(self.measurement, -half)


def measured_collective(name: str) -> Measurement:
    """The shipped measurement of communication of that name."""
    return named("measurement", name, measured_collectives())


def check_collective(name: str) -> CollectiveCheck:
    """Predict a measured all-reduce inside one node.

    >>> round(check_collective("azure-a100-8g").plan_error, 3)
    -0.034
    """
    row = measured_collective(name)
    if row.kind != "all_reduce":
        raise InputError(f"row: {name!r} is of kind {row.kind!r}; 'all_reduce' rows lie inside one node")
    node, ranks, size = catalog.node(row.inputs["node"]), row.inputs["ranks"], row.inputs["bytes"]
    reduces = bool(row.inputs["in_switch"]) and node.scale_up.has("in_switch_efficiency")
    ring = collectives.ring_all_reduce(size, ranks, node.scale_up_bandwidth)
    in_switch = collectives.in_switch_all_reduce(size, ranks, node.scale_up_bandwidth)
    return CollectiveCheck(
        measurement=row,
        measured=_seconds(row),
        bound=min(ring, in_switch) if reduces else ring,
        ring=ring,
        plan=communication.fastest_all_reduce(size, ranks, node, in_switch=reduces),
    )


def check_nodes(name: str) -> NodesCheck:
    """Bracket a measured all-reduce over several nodes with the links' bandwidths and no latency.

    >>> c = check_nodes("bekman-b200-4-nodes-16g")
    >>> c.overlapped < c.measured < c.hierarchical < c.flat
    True
    """
    row = measured_collective(name)
    if row.kind != "all_reduce_nodes":
        raise InputError(f"row: {name!r} is of kind {row.kind!r}; only 'all_reduce_nodes' rows span nodes")
    node, ranks, size = catalog.node(row.inputs["node"]), row.inputs["ranks"], row.inputs["bytes"]
    inside, outside = node.scale_up_bandwidth, node.scale_out_bandwidth
    count = ranks // node.devices
    return NodesCheck(
        measurement=row,
        measured=_seconds(row),
        flat=collectives.ring_all_reduce(size, ranks, outside),
        rings=collectives.ring_all_reduce(size, ranks, min(node.devices * outside, inside)),
        hierarchical=collectives.hierarchical_all_reduce(size, node.devices, count, inside, outside),
        overlapped=max(
            collectives.ring_all_reduce(size, node.devices, inside),
            collectives.ring_all_reduce(size / node.devices, count, outside),
        ),
        plan=communication.fastest_all_reduce(size, ranks, node),
    )


def _seconds(row: Measurement, more: float = 0.0) -> float:
    """The time behind a printed bus bandwidth, or behind one that is so much larger: nccl-tests' definition, read backwards."""
    ranks = row.inputs["ranks"]
    return float(2 * (ranks - 1) / ranks * row.inputs["bytes"] / (row.value + more))
