"""Measured communication beside three predictions: the wire's bound, the ring on the wire, and the library's own plan."""

from collections.abc import Mapping
from typing import Any

from mlsysim import catalog, collectives, communication
from mlsysim.evidence.measured.measurements import Check, Measurement


def _inside(row: Measurement, i: Mapping[str, Any]) -> Check:
    """An all-reduce inside one node, by the library's plan.

    Beside it ``bound``: no algorithm that this node can run is faster (full wire, no latency); and ``ring``: a ring at the full
    wire, which drops alpha and the switch.
    """
    node, ranks, size = catalog.node(i["node"]), i["ranks"], i["bytes"]
    reduces = bool(i["in_switch"] and node.scale_up and node.scale_up.has("in_switch_efficiency"))
    ring = collectives.ring_all_reduce(size, ranks, node.scale_up_bandwidth)
    in_switch = collectives.in_switch_all_reduce(size, ranks, node.scale_up_bandwidth)
    plan = communication.fastest_all_reduce(size, ranks, node, in_switch=reduces)
    return _timed(row, plan, bound=min(ring, in_switch) if reduces else ring, ring=ring)


def _over_nodes(row: Measurement, i: Mapping[str, Any]) -> Check:
    """An all-reduce over several nodes, by NCCL's own plan with its latencies, and what brackets it without a latency.

    ``flat``: one ring over all ranks, what leaves a node leaves by one adapter. ``rings``: as many rings as a node has devices,
    each leaving by its own adapter. ``hierarchical``: eq-hierarchical-allreduce, the phases follow each other. ``overlapped``:
    only the longer of the phases in the node and of the one between nodes.
    """
    node, ranks, size = catalog.node(i["node"]), i["ranks"], i["bytes"]
    inside, outside = node.scale_up_bandwidth, node.scale_out_bandwidth
    count = ranks // node.devices
    return _timed(
        row,
        communication.fastest_all_reduce(size, ranks, node),
        flat=collectives.ring_all_reduce(size, ranks, outside),
        rings=collectives.ring_all_reduce(size, ranks, min(node.devices * outside, inside)),
        hierarchical=collectives.hierarchical_all_reduce(size, node.devices, count, inside, outside),
        overlapped=max(
            collectives.ring_all_reduce(size, node.devices, inside),
            collectives.ring_all_reduce(size / node.devices, count, outside),
        ),
    )


def _timed(row: Measurement, plan: communication.CollectiveTime, **others: float) -> Check:
    return Check(row, float(plan.time), _seconds(row), others, plan)


def printed_range(row: Measurement) -> tuple[float, float]:
    """Shortest and longest time that the source's bus bandwidth, printed to a hundredth of a GB/s, can stand for."""
    half = 0.005e9
    return _seconds(row, half), _seconds(row, -half)


def _seconds(row: Measurement, more: float = 0.0) -> float:
    """The time behind a printed bus bandwidth, or behind one that is so much larger: nccl-tests' definition, read backwards."""
    ranks = row.inputs["ranks"]
    return float(2 * (ranks - 1) / ranks * row.inputs["bytes"] / (row.value + more))


RULES = {"all_reduce": _inside, "all_reduce_nodes": _over_nodes}
