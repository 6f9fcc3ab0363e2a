"""An execution trace as data: one node per region that runs on one rank, without the encoding."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from mlsysim.hlo.chakra.schema import COLLECTIVES, SECONDS, VERSION
from mlsysim.results import Report, Result, format_rows, format_value
from mlsysim.tables import table

Value = bool | int | float | str | bytes | tuple[bool | int | float | str | bytes, ...]
Groups = Mapping[int, tuple[int, ...]]  # number of a communicator: its ranks


@dataclass(frozen=True, slots=True)
class Node:
    """One node. ``attributes`` are those of the trace, by name; ``type`` is one of ``schema.NODE_TYPES``."""

    id: int
    name: str
    type: str
    duration_us: int = 0
    data_deps: tuple[int, ...] = ()
    ctrl_deps: tuple[int, ...] = ()
    attributes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def after(self) -> tuple[int, ...]:
        """All that must end before it starts, each once."""
        return tuple(dict.fromkeys((*self.data_deps, *self.ctrl_deps)))

    @property
    def seconds(self) -> float:
        """The time before it was cut to whole microseconds, where the trace has it."""
        exact = self.attributes.get(SECONDS)
        return exact if isinstance(exact, float) else self.duration_us * 1e-6

    @property
    def collective(self) -> str:
        """Name of its collective in StableHLO, as ``all_gather``; empty for another node."""
        number = self.attributes.get("comm_type")
        if self.type != "COMM_COLL_NODE" or not isinstance(number, int) or not 0 <= number < len(COLLECTIVES):
            return ""
        return COLLECTIVES[number].lower()

    @property
    def group(self) -> int:
        """Number of its communicator; 0 is everybody."""
        name = self.attributes.get("pg_name", "")
        return int(name) if isinstance(name, str) and name.isdecimal() else 0


@dataclass(frozen=True)
class Trace(Result):
    """What one rank runs."""

    nodes: tuple[Node, ...]
    attributes: Mapping[str, Value] = field(default_factory=dict)
    version: str = VERSION

    def summary(self) -> list[str]:
        kinds = Counter(n.type for n in self.nodes)
        return format_rows(
            f"trace of a rank: {len(self.nodes):,} nodes, {format_value(fsum(n.seconds for n in self.nodes), 's')} one after another",
            ("nodes", ", ".join(f"{n} x {kind}" for kind, n in kinds.most_common(5))),
        )

    def explain(self) -> Report:
        """The nodes that take longest."""
        longest = sorted(self.nodes, key=lambda n: -n.seconds)[:12]
        rows = [(str(n.id), n.name[:40], n.type, format_value(n.seconds, "s"), str(len(n.after))) for n in longest]
        return Report(self.summary()[0], (table(("Node", "Name", "Type", "Time", "Waits for"), rows),))

    def to_dict(self) -> dict[str, Any]:
        """How many nodes of which kind, and their time, for JSON."""
        return {
            "nodes": len(self.nodes),
            "types": dict(Counter(n.type for n in self.nodes)),
            "seconds": fsum(n.seconds for n in self.nodes),
        }


@dataclass(frozen=True)
class TraceSet(Result):
    """The traces of all ranks, by rank, and the communicators that they name."""

    name: str
    ranks: tuple[Trace, ...]
    groups: Groups

    def summary(self) -> list[str]:
        d = self.to_dict()
        nodes = f"{d['compute_nodes']:,} that compute, {format_value(d['compute_s'], 's')}; {d['comm_nodes']:,} that communicate"
        return format_rows(
            f"{self.name}: traces of {d['ranks']} ranks, {d['distinct']} of them different",
            ("nodes of rank 0", nodes),
            ("groups", f"{d['groups']} communicators"),
        )

    def explain(self) -> Report:
        """Each rank's nodes by kind, of the first sixteen."""
        kinds = sorted({n.type for trace in self.ranks[:16] for n in trace.nodes})
        rows = [
            (
                str(i),
                *(str(sum(n.type == k for n in t.nodes)) for k in kinds),
                format_value(fsum(n.seconds for n in t.nodes), "s"),
            )
            for i, t in enumerate(self.ranks[:16])
        ]
        return Report(self.summary()[0], (table(("Rank", *kinds, "Time"), rows),))

    def to_dict(self) -> dict[str, Any]:
        """What the traces hold, for JSON; times are those of rank 0."""
        compute = [n for n in self.ranks[0].nodes if n.type == "COMP_NODE"]
        return {
            "name": self.name,
            "ranks": len(self.ranks),
            "distinct": len({id(trace) for trace in self.ranks}),
            "groups": len(self.groups),
            "compute_nodes": len(compute),
            "comm_nodes": len(self.ranks[0].nodes) - len(compute),
            "compute_s": fsum(n.seconds for n in compute),
            "compute_us": sum(n.duration_us for n in compute),
        }
