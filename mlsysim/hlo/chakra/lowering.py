"""From a program to the traces of its ranks.

ASTRA-sim's communication size is what goes into a collective on one rank: the input shard of an all-gather, the whole input of the
others. It runs a node without a communicator over all ranks, so a rank outside of the groups of a collective gets no node for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlsysim import catalog
from mlsysim.catalog import Device
from mlsysim.errors import InputError
from mlsysim.hlo.chakra.nodes import Node, Trace, TraceSet, Value
from mlsysim.hlo.chakra.schema import COLLECTIVES, SECONDS
from mlsysim.hlo.chakra.steps import MAX_STEPS, MICRO, Step, unroll, whole_micros
from mlsysim.hlo.estimate import Links, Network, estimate
from mlsysim.hlo.estimators import Cache, CachedEstimator, Estimator, RooflineEstimator
from mlsysim.hlo.estimators.roofline import weighted
from mlsysim.hlo.fusing.items import Collective, Work
from mlsysim.hlo.reader.calls import CallPrice
from mlsysim.hlo.reader.limits import check
from mlsysim.hlo.reader.program import Program

MAX_RANKS = 4096
MAX_RECORDS = 5_000_000  # nodes of all ranks together
MAX_GROUPS = 2147  # ASTRA-sim multiplies a communicator's number by a million in 32 bit
MAX_NUMBER = 2**63 - 1
_IDLE: dict[str, Value] = {"num_ops": 1, "tensor_size": 1, SECONDS: 0.0}
_Made = tuple[str, int, dict[str, Value]]  # type of a node, its microseconds, its attributes
_TYPE = {
    "all_reduce": "ALL_REDUCE",
    "all_gather": "ALL_GATHER",
    "reduce_scatter": "REDUCE_SCATTER",
    "all_to_all": "ALL_TO_ALL",
    "ragged_all_to_all": "ALL_TO_ALL",
    "collective_broadcast": "BROADCAST",
}


def trace(
    program: Program | str | Path,
    device: Device | str,
    split: str = "dependency",
    fusion: str = "auto",
    network: Network | None = None,
    estimator: Estimator | None = None,
    rounding: str = "carried",
    max_nodes: int = MAX_STEPS,
    join: bool = False,
    custom_calls: Mapping[str, CallPrice] | None = None,
) -> TraceSet:
    """The Chakra traces of a program whose compute regions run on one kind of device.

    Parameters
    ----------
    program, device, split, fusion, network, estimator, join, custom_calls
        As for :func:`mlsysim.hlo.estimate`. The network gives the time of a broadcast, which ASTRA-sim does not simulate.
    rounding : str
        ``carried`` or ``nearest``: how times become whole microseconds.
    max_nodes : int
        Regions of a rank, with loops that communicate unrolled.

    Raises
    ------
    InputError, UnknownNameError
        A program that cannot be read, whose shapes are those of the whole mesh, that is too long when unrolled, or whose
        collectives a trace cannot name.
    """
    chip = catalog.device(device)
    # asked once for each distinct region: what the estimate paid for, the trace has
    pricing = CachedEstimator(estimator or RooflineEstimator(chip), Cache(), chip.name)
    found = estimate(program, chip, split, fusion, network, estimator=pricing, join=join, custom_calls=custom_calls)
    if found.shapes == "global":
        raise InputError(f"{found.program}: its shapes are those of the whole mesh; partition it, and trace one device")
    steps = unroll(found.parts, lambda region: pricing.get_run_time_estimate(region).seconds, max_nodes)
    times = whole_micros([s.seconds for s in steps if s.region.kind == "compute"], rounding)
    steps = tuple(replace(s, micros=next(times)) if s.region.kind == "compute" else s for s in steps)
    note = {"producer": "mlsysim", "device": chip.name, "estimator": pricing.name, "split": split, "rounding": rounding}
    wire = network or (Links(chip.scale_up_bandwidth) if chip.has("scale_up_bandwidth") else None)
    return _Ranks(found.program, steps, max(1, found.partitions), wire).traces(note)


class _Ranks:
    """Gives every rank its nodes."""

    def __init__(self, name: str, steps: Sequence[Step], ranks: int, network: Network | None) -> None:
        self.name, self.steps, self.network = name, steps, network
        self.groups: dict[tuple[int, ...], int] = {}
        self.where: dict[int, dict[int, tuple[int, ...]]] = {}  # by collective: rank to its group
        self.work: dict[int, dict[str, int]] = {}  # of a compute region
        collectives = [s.message for s in steps if s.message]
        for c in collectives:
            ranks = max([ranks, *(1 + max(g) for g in c.groups if g)])
        check(ranks, MAX_RANKS, "the number of ranks", "there is one file for each")
        check(ranks * len(steps), MAX_RECORDS, "the number of nodes over all ranks", "trace a smaller mesh")
        self.ranks = ranks
        self.permutes = [c for c in collectives if c.op == "collective_permute"]
        for c in collectives:
            if id(c) not in self.where and c.op != "collective_permute":
                self.where[id(c)] = self.register(c)

    def register(self, c: Collective) -> dict[int, tuple[int, ...]]:
        if c.name not in _TYPE:
            raise InputError(f"{self.name}: {c.op[:40]!r} has no name in Chakra's schema")
        where: dict[int, tuple[int, ...]] = {}
        for group in c.groups or (tuple(range(self.ranks)),):
            if len(group) > 1 and c.in_bytes:
                self.groups.setdefault(group, len(self.groups) + 1)
            for rank in group:
                if rank in where:
                    raise InputError(f"{self.name}: rank {rank} is in two groups of one {c.op}")
                where[rank] = group
        check(len(self.groups), MAX_GROUPS, "the number of communicators", "ASTRA-sim holds no more")
        return where

    def traces(self, note: Mapping[str, str]) -> TraceSet:
        made: dict[Any, Trace] = {}
        ranks = []
        for rank in range(self.ranks):
            role = self.role(rank)
            if role not in made:
                made[role] = Trace(self.rank(rank), note)
            ranks.append(made[role])
        return TraceSet(self.name, tuple(ranks), {n: g for g, n in self.groups.items()})

    def role(self, rank: int) -> Any:
        """Equal for ranks that run the same: their groups, and the pairs that they are in."""
        groups = tuple(where.get(rank) for where in self.where.values())
        return groups, tuple(pair for permute in self.permutes for pair in permute.groups if rank in pair)

    def rank(self, rank: int) -> tuple[Node, ...]:
        nodes: list[Node] = []
        ends: list[tuple[int, ...]] = []  # by step: the nodes that end it
        tag = 0
        for step in self.steps:
            data = tuple(dict.fromkeys(n for s in step.data for n in ends[s]))
            order = tuple(dict.fromkeys(n for s in step.order for n in ends[s]))
            deps = tuple(dict.fromkeys((*data, *order)))
            # the older of ASTRA-sim's two feeders reads data_deps only, so all stand there; the order is told apart beside
            if step.message and step.message.op == "collective_permute":
                tag += 1
                made = self.messages(step.message, rank, tag)
            elif step.message:
                made = self.collective(step.message, rank)
            else:
                made = [("COMP_NODE", step.micros, self.attributes(step))]
            start = len(nodes)
            for kind, micros, attributes in made:
                nodes.append(Node(len(nodes), step.name, kind, micros, deps, order, {"is_cpu_op": False, **attributes}))
            ends.append(tuple(range(start, len(nodes))) if made else deps)
        if not nodes:  # ASTRA-sim takes a trace without a node for one that waits in a circle
            nodes.append(Node(0, "idle", "COMP_NODE", 0, (), (), {"is_cpu_op": False, **_IDLE}))
        return tuple(nodes)

    def attributes(self, step: Step) -> dict[str, Value]:
        """Work of a region. ASTRA-sim's own roofline divides by both numbers, so neither is written as 0."""
        region = step.region
        if id(region) not in self.work:
            work = Work.total((kernel.work, n) for kernel, n in weighted(region.pieces))
            done = _whole(work.flops + work.transcendentals)
            self.work[id(region)] = {"num_ops": done, "tensor_size": _whole(work.bytes)}
        return {**self.work[id(region)], SECONDS: float(step.seconds)}

    def collective(self, c: Collective, rank: int) -> list[_Made]:
        group = self.where[id(c)].get(rank, ())
        if group not in self.groups or not c.in_bytes:
            return []  # alone, outside of all groups, or without a byte: nothing is sent
        attributes: dict[str, Value] = {
            "comm_type": COLLECTIVES.index(_TYPE[c.name]),
            "comm_size": c.in_bytes,
            "pg_name": str(self.groups[group]),
        }
        micros = round(self.network(c) / MICRO) if self.network and c.op == "collective_broadcast" else 0
        return [("COMM_COLL_NODE", micros, attributes)]

    def messages(self, c: Collective, rank: int, tag: int) -> list[_Made]:
        made: list[_Made] = []
        for pair in c.groups:
            if len(pair) != 2:
                raise InputError(f"{self.name}: a permute is a list of pairs")
            source, target = pair
            ends = {"comm_src": source, "comm_dst": target, "comm_size": c.in_bytes, "comm_tag": tag}
            if source == target or not c.in_bytes:
                continue
            if source == rank:
                made.append(("COMM_SEND_NODE", 0, dict(ends)))
            elif target == rank:
                made.append(("COMM_RECV_NODE", 0, dict(ends)))
        return sorted(made, key=lambda m: m[0], reverse=True)  # the send first: a receive takes no stream of theirs


def _whole(value: float) -> int:
    return min(MAX_NUMBER, max(1, round(value)))
