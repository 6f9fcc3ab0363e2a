"""Runs traces on the two-stream scheduler: the schedule that ASTRA-sim makes of the same nodes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mlsysim import network
from mlsysim.errors import InputError, unknown_name
from mlsysim.hlo.chakra.nodes import Node, TraceSet
from mlsysim.hlo.estimate import Network
from mlsysim.hlo.fusing.items import Collective
from mlsysim.network import StreamSchedule, Task

TIMES = ("exact", "micros", "astrasim")
_MESSAGES = ("COMM_SEND_NODE", "COMM_RECV_NODE")
_LEAST = 1e-9  # ASTRA-sim runs a node of 0 us for one nanosecond


def replay(traces: TraceSet, wire: Network, times: str = "exact", ranks: Sequence[int] | None = None) -> StreamSchedule:
    """When the nodes of a set of traces run.

    Nodes that are ready start in the order of their numbers, one at a time on each stream of a rank, as in ASTRA-sim. The
    messages of a permute are one task of their rank and take the time of one; nobody waits for the other end.

    Parameters
    ----------
    traces : TraceSet
    wire : callable
        Time of a collective in s, as for :func:`mlsysim.hlo.estimate`.
    times : str
        Of compute nodes: ``exact`` where the trace has it, whole microseconds (``micros``), or those with one nanosecond in
        place of zero (``astrasim``).
    ranks : sequence of int, optional
        Ranks to run; by default all. A collective waits for those of its group that are run.

    Raises
    ------
    InputError, UnknownNameError
        A collective that some rank of its group never reaches, nodes that wait for each other in a circle, a node that
        neither computes nor communicates.
    """
    if times not in TIMES:
        raise unknown_name("times", times, TIMES)
    chosen = tuple(range(len(traces.ranks))) if ranks is None else tuple(ranks)
    if not chosen or len(set(chosen)) < len(chosen) or any(not 0 <= r < len(traces.ranks) for r in chosen):
        raise InputError(f"ranks: give different ones of 0 to {len(traces.ranks) - 1}")
    return _Replay(traces, wire, times, chosen).run()


class _Replay:
    def __init__(self, traces: TraceSet, wire: Network, times: str, ranks: tuple[int, ...]) -> None:
        self.traces, self.wire, self.times, self.chosen = traces, wire, times, ranks
        self.tasks: dict[str, Task] = {}
        self.place: dict[str, int] = {}  # in the order of the rank that met it first
        self.known: dict[tuple[str, int, int], float] = {}
        self.members: dict[str, tuple[int, ...]] = {}  # of a collective

    def run(self) -> StreamSchedule:
        for rank in self.chosen:
            nodes = sorted(self.traces.ranks[rank].nodes, key=lambda n: n.id)
            met: Counter[int] = Counter()
            names = {}
            for node in nodes:
                names[node.id] = self.name(node, rank, met)
            for position, node in enumerate(nodes):
                own = names[node.id]
                self.join(own, node, rank, [names[d] for d in node.after if names[d] != own], position)
        for name, members in self.members.items():
            late = set(members).intersection(self.chosen).difference(self.tasks[name].ranks)
            if late:
                raise InputError(f"rank {min(late)} never reaches collective {name}, which others of its group wait in")
        return network.schedule(sorted(self.tasks.values(), key=lambda t: self.place[t.name]))

    def group(self, node: Node) -> tuple[int, ...]:
        if not node.group:
            return tuple(range(len(self.traces.ranks)))
        if node.group not in self.traces.groups:
            raise InputError(f"node {node.id} names communicator {node.group}, which is not listed")
        return self.traces.groups[node.group]

    def name(self, node: Node, rank: int, met: Counter[int]) -> str:
        if node.type == "COMP_NODE":
            return f"rank {rank} node {node.id}"
        if node.type in _MESSAGES:
            return f"rank {rank} permute {node.attributes.get('comm_tag', f'node {node.id}')!r}"
        if node.type == "COMM_COLL_NODE":
            met[node.group] += 1
            name = f"communicator {node.group} turn {met[node.group]}"
            self.members[name] = self.group(node)
            return name
        raise InputError(f"node {node.id} is a {node.type}; only nodes that compute or communicate are replayed")

    def join(self, name: str, node: Node, rank: int, after: Sequence[str], position: int) -> None:
        known = self.tasks.get(name)
        if known is None:
            stream = "compute" if node.type == "COMP_NODE" else "communication"
            self.tasks[name] = Task(name, stream, self.seconds(node), tuple(dict.fromkeys(after)), (rank,))
            self.place[name] = position
            return
        self.tasks[name] = replace(
            known,
            after=tuple(dict.fromkeys((*known.after, *after))),
            ranks=tuple(dict.fromkeys((*known.ranks, rank))),
        )

    def seconds(self, node: Node) -> float:
        if node.type == "COMP_NODE":
            if self.times == "exact":
                return node.seconds
            return node.duration_us * 1e-6 if node.duration_us or self.times == "micros" else _LEAST
        size = node.attributes.get("comm_size")
        if not isinstance(size, int):
            raise InputError(f"node {node.id} communicates, but has no comm_size")
        group = () if node.type in _MESSAGES else self.group(node)
        op = "collective_permute" if node.type in _MESSAGES else node.collective
        if not op:
            raise InputError(f"node {node.id} is a collective without a comm_type of Chakra's schema")
        key = (op, size, node.group)
        if key not in self.known:
            self.known[key] = self.wire(_collective(op, size, group))
        return self.known[key]


def _collective(op: str, size: int, group: tuple[int, ...]) -> Collective:
    """The collective with so many bytes going in on one rank."""
    ranks = len(group) if group else 2
    out = {"all_gather": size * ranks, "reduce_scatter": size // ranks}.get(op, size)
    name = {"broadcast": "collective_broadcast"}.get(op, op)
    return Collective(name, (), (), size, out, (group,) if group else (), ranks)
