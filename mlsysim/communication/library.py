"""A collective as a library runs it: every algorithm and protocol that its plan allows on these links, and the fastest of them.

Shares of a link, steps and what a fabric allows are the libraries' own (NCCL's, AWS's plug-in for it, RCCL's), in the catalogue.
Two numbers are fitted to published times: what a call of NCCL costs, and what a chunk costs at every stage that it passes.
A library of another maker keeps the start of its own plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, collectives, efficiencies
from mlsysim._numeric import doublings
from mlsysim.catalog import Link, Node, Protocol, fabrics
from mlsysim.catalog.fabrics import finer_or_equal, links, nodes
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Explanation, Input, Result, Term, format_rows, format_value, plain

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing


_RINGS = {
    "all_reduce": ("eq-ring-allreduce", collectives.ring_all_reduce),
    "all_gather": ("eq-ring-all-gather", collectives.ring_all_gather),
    "reduce_scatter": ("eq-ring-reduce-scatter", collectives.ring_reduce_scatter),
}
_EXPERTS = ("moe_dispatch", "moe_combine")
_SPREADING = ("all_to_all", *_EXPERTS)  # every rank sends its own bytes to all others
# Collectives that the library's own cost model knows.
OPS = (*_RINGS, *_SPREADING)
# What an algorithm may be called; auto takes the quickest, as the library does.
ALGORITHM_WORDS = ("auto", "ring", "tree", "nvls", "sharp", "pat")
_OF_WORD = {
    "ring": ("ring",),
    "tree": ("pipelined_tree",),
    "nvls": ("in_switch", "in_switch_tree"),
    "sharp": ("in_switch", "in_fabric"),  # the fabric's switches add as well: only where they are asked to
    "pat": ("aggregated_trees",),
    "auto": ("ring", "pipelined_tree", "in_switch", "in_switch_tree", "direct", "aggregated_trees"),
}
_NEAR = 0.1  # two bandwidths of an adapter that differ by less are the same
# Grouped sends (nccl2026p2p): each of 16 channels runs 8 messages at a time, as many peers as an H100 node's channels serve when
# every peer has one; up to 16 kB a peer in packets of four bytes and a flag of four.
SENDS_TOGETHER = 16 * 8
SHORT_MESSAGE = 16384.0
_PACKED = 0.5
_SHARED_BY = 1.0  # of a printed rate, where nothing is planned with less
_FITTED = "NCCL"  # the library whose small calls the published rows time


@dataclass(frozen=True)
class CallCost(Result):
    """Cost of every call beyond the library's own plan, in s, and the network assumed where none is given."""

    start: float | None  # None: what the plan itself says
    chunk: float = 0.0  # of a chunk at a stage
    unnamed: str = ""  # fabric of a network of no name; none: the library's own steps
    share: float | None = None  # of a printed rate for links without a plan; None: all of it
    library: str = ""  # whose calls the start was measured on; others keep their plan's. None named: everybody's

    def start_of(self, library: str, planned: float) -> float:
        """Start of a call of a library whose plan says so much."""
        return planned if self.start is None or self.library not in ("", library) else self.start


@dataclass(frozen=True)
class Wires(Result):
    """The links among the ranks of a collective: per device and one way, as printed."""

    ranks: float
    ranks_per_node: float
    node_bandwidth: float  # of a rank that is alone in its domain: its adapter's
    network_bandwidth: float = inf  # of no interest while the ranks stay inside one domain
    scale_up: Link | None = None
    network: Link | None = None

    def __post_init__(self) -> None:
        for name in ("ranks", "ranks_per_node", "node_bandwidth", "network_bandwidth"):
            value = getattr(self, name)
            least = 1 if name.startswith("ranks") else 0
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= least or value == 0:
                raise InputError(
                    f"wires: {name} = {str(value)[:20]} must be a number {'of at least 1' if least else 'above 0'}"
                )
        if self.ranks_per_node > self.ranks:
            raise InputError(
                f"wires: ranks_per_node = {self.ranks_per_node:g} exceeds ranks = {self.ranks:g}; give how many of the "
                "group's own ranks share a domain"
            )
        if self.nodes > 1 and not isfinite(self.network_bandwidth):
            raise InputError(
                f"wires: {self.ranks:g} ranks on {self.nodes:g} domains, but no network_bandwidth; give the bandwidth of "
                "a device's share of the adapters"
            )

    @property
    def nodes(self) -> float:
        """Domains that the ranks lie on."""
        return self.ranks / self.ranks_per_node

    @property
    def library(self) -> str:
        """Whose protocols run on the links."""
        return self.scale_up.library if self.scale_up else "NCCL"

    def planned(self, share: float | None) -> float:
        """Share of a device's links that is reached inside the domain: the plan's, and of the links only those to ranks of the group."""
        if self.ranks_per_node == 1:
            return 1.0
        link = self.scale_up
        planned = link.planned_share if link else None
        part = planned if planned is not None else share if share is not None else _SHARED_BY
        if link and link.topology == "fully connected" and link.has("links"):
            part *= min(1.0, (self.ranks_per_node - 1) / link.links)
        return part


@dataclass(frozen=True)
class Candidate(Result):
    """One protocol on these links: what its call, its steps, its bytes and the filling of its pipeline take, in s."""

    protocol: str
    algorithm: str
    start: float
    latency_time: float
    bandwidth_time: float
    fill_time: float
    label: str
    arguments: Mapping[str, float]
    stages: float = 1.0  # that a chunk passes
    waits: Mapping[str, float] | None = None  # arguments of eq-all-to-all for the steps of grouped sends

    @property
    def time(self) -> float:
        """All four."""
        return self.start + self.latency_time + self.bandwidth_time + self.fill_time


@dataclass(frozen=True)
class LibraryTime(Result):
    """What :func:`library_time` returns, in SI units: the fastest protocol, and all others that the library could take."""

    op: str
    bytes: float
    wires: Wires
    cost: CallCost
    candidates: tuple[Candidate, ...]  # the fastest first; none for a single rank

    @property
    def time(self) -> float:
        """Of the fastest protocol."""
        return self.candidates[0].time if self.candidates else 0.0

    @property
    def protocol(self) -> str:
        """Name of the fastest in the catalogue."""
        return self.candidates[0].protocol if self.candidates else ""

    @property
    def _parts(self) -> dict[str, float]:
        if not self.candidates:
            return {}
        c = self.candidates[0]
        return {"call": c.start, "steps": c.latency_time, "bytes": c.bandwidth_time, "filling": c.fill_time}

    def summary(self) -> list[str]:
        w = self.wires
        where = f"{w.ranks:g} ranks" + (f" on {w.nodes:g} domains" if w.nodes > 1 else "")
        others = ", ".join(f"{c.protocol} {format_value(c.time, 's')}" for c in self.candidates[1:4])
        return format_rows(
            f"{self.op} of {format_value(self.bytes, 'byte')} over {where}: {format_value(self.time, 's')}"
            + (f" by {self.protocol}" if self.protocol else ""),
            ("parts", ", ".join(f"{name} {format_value(t, 's')}" for name, t in self._parts.items() if t > 0)),
            ("next", others),
            ("network", _describe(w, self.cost) if w.nodes > 1 else ""),
        )

    def chart(self) -> "Drawing | None":
        """Its parts as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms(f"{self.op}, {self.protocol}", self._parts) if self.candidates else None

    def explain(self) -> Explanation:
        """The fastest protocol's equation with its numbers, what the call and the filling add, and the next protocols."""
        w = self.wires
        terms: tuple[Term, ...] = ()
        if self.candidates:
            c = self.candidates[0]
            fill = {
                "bytes": self.bytes,
                "bandwidth": self.bytes / c.bandwidth_time if c.bandwidth_time else inf,
                "stages": c.stages,
                "chunk_latency": self.cost.chunk,
            }
            if c.waits is None:
                terms = (Term("steps and bytes", c.latency_time + c.bandwidth_time, c.label, dict(c.arguments)),)
            else:
                terms = (
                    Term("latency", c.latency_time, "eq-all-to-all", dict(c.waits)),
                    Term("bytes", c.bandwidth_time, c.label, dict(c.arguments)),
                )
            if c.fill_time and c.bandwidth_time:
                first = (c.stages - 1.0) * self.cost.chunk
                terms += (
                    Term("bytes in chunks", c.bandwidth_time + c.fill_time + first, "eq-chunked-transfer", fill),
                    Term(
                        "first chunk",
                        -first,
                        "",
                        {"stages": c.stages, "chunk_latency": self.cost.chunk},
                        arithmetic="(1 - stages) * chunk_latency",
                        units={"": "s", "stages": "1", "chunk_latency": "s"},
                    ),
                )
        origin = {"scale_up": w.scale_up, "network": w.network}
        notes = [f"{name}: {link.name}" for name, link in origin.items() if link]
        if w.scale_up and not w.scale_up.has("planned_bandwidth"):
            notes.append(f"no plan of {w.scale_up.vendor} is known: the steps are NCCL's")
        notes += [f"{c.protocol}: {format_value(c.time, 's')}" for c in self.candidates]
        return Explanation(
            title=self.summary()[0],
            terms=terms,
            inputs=tuple(
                Input(name, value, unit)
                for name, value, unit in (
                    ("bytes", self.bytes, "byte"),
                    ("ranks", w.ranks, "1"),
                    ("ranks_per_node", w.ranks_per_node, "1"),
                    *((("node_bandwidth", w.node_bandwidth, "byte/s"),) if w.ranks_per_node > 1 else ()),
                    *((("network_bandwidth", w.network_bandwidth, "byte/s"),) if w.nodes > 1 else ()),
                )
            ),
            notes=notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        w, parts = self.wires, self._parts
        found: dict[str, Any] = {
            "op": self.op,
            "bytes": self.bytes,
            "ranks": w.ranks,
            "ranks_per_node": w.ranks_per_node,
            "node_bandwidth_bytes_per_s": w.node_bandwidth if w.ranks_per_node > 1 else None,
            "network_bandwidth_bytes_per_s": w.network_bandwidth if w.nodes > 1 else None,
            "protocol": self.protocol,
            "time_s": self.time,
            **{f"{name}_time_s": value for name, value in parts.items()},
            "candidates": [{"protocol": c.protocol, "time_s": c.time} for c in self.candidates],
        }
        return dict(plain(found))


def _describe(w: Wires, cost: CallCost) -> str:
    if w.network:
        return w.network.name
    return f"of no name, taken for {cost.unnamed}" if cost.unnamed else "of no name, taken as the library plans"


def call_cost(word: str = efficiencies.DEFAULT) -> CallCost:
    """The fitted cost of a call (``calibrated``), the plan's own (``datasheet``), or none (``bound``).

    >>> call_cost("datasheet").start is None, call_cost("bound").start
    (True, 0.0)
    """
    efficiencies.check_mode("call_cost", word)
    if word == efficiencies.BOUND:
        return CallCost(0.0)
    if word == efficiencies.DATASHEET:
        return CallCost(None)
    return fitted_cost(efficiencies.shipped("collective"))


def fitted_cost(constants: Mapping[str, Mapping[str, float]]) -> CallCost:
    """The cost of a call from fitted constants; where there are none, the plan's own."""
    if "call" not in constants:
        return CallCost(None)
    own = constants["call"]
    unnamed = "EFA" if constants.get("unnamed network", {}).get("efa", 0.0) >= 0.5 else ""
    return CallCost(own["startup_s"], own["chunk_s"], unnamed, _mean_plan(), _FITTED)


def _mean_plan() -> float:
    """What libraries plan with on average: for a link of a kind that none has a plan for."""
    plans = [share for link in links().values() if (share := link.planned_share) is not None]
    return sum(plans) / len(plans)


@cache
def _plans() -> Mapping[str, float]:
    """Share that a library plans with inside a domain, by architecture, of those whose links it has a plan for."""
    found: dict[str, list[float]] = {}
    for node in nodes().values():
        if node.scale_up and (share := node.scale_up.planned_share) is not None and node.scale_up.kind == "scale-up":
            found.setdefault(node.device.architecture.removeprefix("Grace "), []).append(share)
    return {name: sum(shares) / len(shares) for name, shares in found.items()}


def planned_share(line: Sequence[str]) -> float:
    """What libraries plan with of the printed rate of links inside a domain, for the nearest relative whose links have a plan.

    Where no relative has one, it is what they plan with on average.

    Parameters
    ----------
    line : sequence of str
        Generations, the device's own first, as of ``efficiencies.lineage``.

    >>> round(planned_share(("Hopper", "NVIDIA gpu")), 3), round(planned_share(("TPU v4", "Google tpu")), 3)
    (0.824, 0.785)
    """
    plans = _plans()
    return next((plans[name] for name in line if name in plans), None) or _mean_plan()


def wires(node: Node | str, ranks: int) -> Wires:
    """The links among ranks that fill domains of a catalogue node, with all their names.

    >>> wires("P5", 16).network.name, wires("P5", 8).nodes
    ('EFA-v2', 1.0)
    """
    node = catalog.node(node)
    inside = min(ranks, node.domain)
    if ranks > node.domain and ranks % node.domain:
        raise InputError(
            f"wires: ranks = {ranks} exceeds the {node.domain} devices of one {node.name} domain and fills no whole number "
            f"of them; give a multiple of {node.domain}"
        )
    outside = node.scale_out_bandwidth if ranks > inside else inf
    within = node.scale_up_bandwidth if inside > 1 else node.scale_out_bandwidth
    return Wires(ranks, inside, within, outside, node.scale_up, node.scale_out)


def likely_network(architecture: str, bandwidth: float, unnamed: str = "", device: str = "") -> Link | None:
    """The adapter of the catalogue's nodes with such devices, when the bandwidth per device tells which; else one of ``unnamed``.

    Nodes of one device may have adapters of several makers with the same rate. Then the fabric ``unnamed`` decides, where it is
    among them; without it there is none. When no node fits, those decide whose bandwidth is nearest, so that a faster network
    is not taken for a slower fabric than nodes with nearly as much have. A device that no node of the fabric ``unnamed`` has
    does not lie on it: AWS rents no H20.

    Parameters
    ----------
    architecture : str
        Of the device, as in its catalogue entry.
    bandwidth : float, byte/s
        Per device and one way, between nodes.
    unnamed : str
        Fabric to take where several fit or none does.
    device : str
        Name of the device in the catalogue, where it is known.

    >>> likely_network("Ampere", 6.25e9).name, likely_network("Hopper", 50e9), likely_network("Hopper", 50e9, "EFA").name
    ('EFA-v1', None, 'EFA-v2')
    >>> likely_network("Hopper", 50e9, "EFA", "H20") is None
    True
    """
    if device and not any(n.device.name == device and n.scale_out.fabric == unnamed for n in nodes().values()):
        unnamed = ""
    own = [n for n in nodes().values() if n.device.architecture.removeprefix("Grace ") == architecture]
    fitting = [n.scale_out for n in own if abs(n.scale_out_bandwidth / bandwidth - 1.0) < _NEAR]
    if len({link.fabric for link in fitting}) == 1:
        return fitting[0]
    if own and not fitting:
        nearest = min((n.scale_out_bandwidth for n in own), key=lambda has: max(has / bandwidth, bandwidth / has))
        fitting = [n.scale_out for n in own if abs(n.scale_out_bandwidth / nearest - 1.0) < _NEAR]
    named = [link for link in fitting or links().values() if unnamed and link.fabric == unnamed]
    return named[0] if named else None


# The link inside a domain by generation, and those of a host.
_LINKS = {
    "Volta": "NVLink-2",
    "Ampere": "NVLink-3",
    "Hopper": "NVLink-4",
    "Blackwell": "NVLink-5",
    "Blackwell Ultra": "NVLink-5",
    "CDNA 3": "Infinity-Fabric-3",
}
HOST_LINKS = ("PCIe-4-x16", "PCIe-5-x16")  # slots of the host, the slowest first
_SLACK = 1.05  # figures of one link differ by as much, as 31 and 32 GB/s


def likely_link(line: Sequence[str], bandwidth: float) -> Link | None:
    """The link between devices of one server: a slot of the host where NVIDIA's reach their peers no faster, else their generation's.

    Parameters
    ----------
    line : sequence of str
        Generations, the device's own first, as of ``efficiencies.lineage``.
    bandwidth : float, byte/s
        Per device and one way.

    >>> from mlsysim.efficiencies import lineage
    >>> likely_link(lineage("L40S"), 32e9).name, likely_link(lineage("H20"), 450e9).name
    ('PCIe-4-x16', 'NVLink-4')
    """
    if "NVIDIA gpu" in line:
        for name in HOST_LINKS:
            if bandwidth <= _SLACK * fabrics.link(name).bandwidth:
                return fabrics.link(name)
    own = next((_LINKS[name] for name in line if name in _LINKS), "")
    return fabrics.link(own) if own else None


def _protocols(w: Wires, algorithms: tuple[str, ...]) -> tuple[Protocol, ...]:
    """Those of the library that these links allow."""
    outside = w.network if w.nodes > 1 else None
    host = w.scale_up is not None and w.scale_up.kind == "host"
    fabric, writing = (outside.fabric, outside.writing) if outside else ("", "")
    return _runnable(w.library, fabric, writing, host, algorithms)


@cache
def _runnable(library: str, fabric: str, writing: str, host: bool, algorithms: tuple[str, ...]) -> tuple[Protocol, ...]:
    own = [p for p in catalog.protocols().values() if p.library == library]
    fabric = fabric if any(p.fabric == fabric for p in own) else ""
    return tuple(
        p
        for p in own
        if p.fabric == fabric
        and p.algorithm in algorithms
        and (not writing or finer_or_equal(writing, p.writing))
        and (not host or p.has("host_step"))
    )


def _step(w: Wires, protocol: Protocol) -> float:
    host = w.scale_up is not None and w.scale_up.kind == "host"
    return protocol.host_step if host else protocol.scale_up_step


_Parts = tuple[str, dict[str, float], float, float, float]  # label, arguments, steps, bytes, stages


def _crossing(w: Wires, p: Protocol) -> float:
    """A step of a ring over the network: with a single rank in each node all of it shows, and NCCL charges a tree's."""
    if w.network and p.writing == "chunks" and w.network.has("chunk_step"):
        return w.network.chunk_step
    return fabrics.protocol(p.name.replace("-ring-", "-tree-") if w.ranks_per_node == 1 else p).scale_out_step


def _ring(op: str, size: float, w: Wires, p: Protocol, reached: float) -> _Parts:
    outside = w.nodes > 1
    inside = max(_step(w, p), p.network_post) if outside and p.has("network_post") else _step(w, p)
    factor = p.network_factor if outside and op == "all_reduce" else 1.0
    between = _crossing(w, p) if outside else 0.0
    step = factor * float(collectives.ring_latency(w.ranks, w.ranks_per_node, inside, between, p.more_crossings))
    rate = p.payload * float(collectives.ring_bandwidth(w.ranks_per_node, reached, w.network_bandwidth))
    label, function = _RINGS[op]
    given = {"bytes": size, "ranks": w.ranks, "bandwidth": rate, "latency": step}
    return (
        label,
        given,
        float(function(0.0, w.ranks, rate, step)),
        float(function(size, w.ranks, rate)),
        w.ranks_per_node,
    )


def _tree(op: str, size: float, w: Wires, p: Protocol, reached: float) -> _Parts:
    rate = p.payload * float(collectives.tree_bandwidth(w.ranks_per_node, w.nodes, reached, w.network_bandwidth))
    steps = {"latency": p.scale_out_step, "chain": w.ranks_per_node, "chain_latency": _step(w, p)}
    function = collectives.pipelined_tree_all_reduce
    given = {"bytes": size, "ranks": w.nodes, "bandwidth": rate, **steps}
    silent = float(function(size, w.nodes, rate, chain=w.ranks_per_node))
    up_and_down = 2.0 * (w.ranks_per_node - 1 + doublings(w.nodes))
    return "eq-pipelined-tree-allreduce", given, float(function(0.0, w.nodes, rate, **steps)), silent, 1.0 + up_and_down


def _switch(op: str, size: float, w: Wires, p: Protocol, reached: float) -> _Parts:
    assert w.scale_up is not None
    rate = reached * w.scale_up.in_switch_efficiency
    function = collectives.in_switch_all_reduce
    given = {"bytes": size, "ranks": w.ranks, "bandwidth": rate}
    return "eq-in-switch-allreduce", given, 0.0, float(function(**given)), w.ranks


def _switches(op: str, size: float, w: Wires, p: Protocol, reached: float) -> _Parts:
    """A tree joins the switches of the nodes, or the fabric's own switches add: then each node has one neighbour, the fabric."""
    assert w.scale_up is not None
    nodes = 2.0 if p.algorithm == "in_fabric" else w.nodes
    given = {
        "ranks_per_node": w.ranks_per_node,
        "nodes": nodes,
        "node_bandwidth": reached * w.scale_up.in_switch_efficiency,
        "network_bandwidth": w.network_bandwidth,
    }
    function = collectives.in_switch_tree_all_reduce
    waits = {"network_latency": p.scale_out_step}
    steps = float(function(bytes=0.0, **given, **waits))
    stages = w.ranks_per_node + 2.0 * doublings(nodes)
    return "eq-in-switch-tree", {"bytes": size, **given, **waits}, steps, float(function(bytes=size, **given)), stages


def _spread(op: str, size: float, w: Wires, reached: float, share: float, bound: bool) -> list[Candidate]:
    """Every copy travels on its own; the copies, those of the own rank included, are spread evenly over the ranks.

    An all-to-all is grouped sends of the library, in whole chunks, or for short messages in packets. Kernels for experts
    write from the device itself, to everybody at once: one message's latency, and no orders of the host.
    """
    outside = 1.0 - w.ranks_per_node / w.ranks
    inside = (w.ranks_per_node - (op == "all_to_all")) / w.ranks
    given = {
        "tokens": 1.0,
        "remote_nodes": outside,
        "local_copies": inside,
        "network_bandwidth": share * w.network_bandwidth if outside else 1.0,  # nothing crosses it then
        "node_bandwidth": reached,
    }

    def made(name: str, p: Protocol, packed: float, **how: float) -> Candidate:
        latency = max(_step(w, p), p.scale_out_step if outside else 0.0)
        waits = {"bytes": 0.0, "ranks": w.ranks, "bandwidth": reached, "latency": latency, **how}
        sent = given | {"token_bytes": size / packed}
        steps = 0.0 if bound else float(collectives.all_to_all(**waits))
        taken = float(collectives.moe_dispatch(**sent))
        planned = 0.0 if p.library == _FITTED else p.base_latency
        return Candidate(name, "direct", planned, steps, taken, 0.0, "eq-moe-dispatch", sent, waits=waits)

    if op in _EXPERTS:
        host = w.scale_up is not None and w.scale_up.kind == "host"
        own = _runnable(w.library, "", "", host, ("ring",))
        return [made("direct", next(p for p in own if p.writing == "flags"), 1.0, together=w.ranks)]
    found = []
    for p in _protocols(w, ("ring",)):
        short = p.writing == "flags"
        if p.writing == "chunks" or (short and size / w.ranks <= SHORT_MESSAGE):
            post = p.network_post if p.has("network_post") else _posted(p)
            how = {"together": SENDS_TOGETHER, "nodes": w.nodes, "post": post if outside else 0.0}
            found.append(made(p.name.replace("-ring-", "-sends-"), p, _PACKED if short else 1.0, **how))
    return found


def _posted(p: Protocol) -> float:
    """What an order costs the host where a fabric's plan does not say: as in NCCL's own, whose proxy runs on every fabric."""
    like = fabrics.protocol(f"nccl-ring-{'ll' if p.writing == 'flags' else 'simple'}")
    return like.network_post


def _pairs(op: str, size: float, w: Wires, p: Protocol, reached: float) -> _Parts:
    given = {"bytes": size, "ranks": w.ranks, "bandwidth": p.payload * reached, "latency": _step(w, p)}
    function = collectives.direct_all_reduce
    steps, moving = (float(function(**given | silent)) for silent in ({"bytes": 0.0}, {"latency": 0.0}))
    return "eq-direct-allreduce", given, steps, moving, 2.0


def _trees(op: str, size: float, w: Wires, p: Protocol, reached: float) -> _Parts:
    rate = p.payload * w.network_bandwidth
    given = {
        "bytes": size,
        "ranks": w.ranks,
        "bandwidth": rate,
        "latency": p.scale_out_step,
        "rank_latency": p.rank_step,
    }
    function = collectives.logarithmic_gather
    steps, moving = float(function(**given | {"bytes": 0.0})), float(function(size, w.ranks, rate))
    return "eq-logarithmic-gather", given, steps, moving, 1.0  # no stages to fill


_TIMES = {
    "aggregated_trees": _trees,
    "ring": _ring,
    "pipelined_tree": _tree,
    "in_switch": _switch,
    "in_switch_tree": _switches,
    "in_fabric": _switches,
    "direct": _pairs,
}


def _possible(op: str, w: Wires, algorithm: str) -> tuple[str, ...]:
    """Algorithms that do this here: a tree joins nodes, a switch sums in one domain, and both only all-reduce.

    Inside a domain all may write to all at once. Where every node has one rank, trees side by side gather and scatter. Over nodes the switches of InfiniBand sum, and those of a network of no name.
    """
    asked = set(_OF_WORD[algorithm])
    can: set[str] = {"ring"}
    if op == "all_reduce":
        reduces = w.scale_up is not None and w.scale_up.has("in_switch_efficiency")
        if w.nodes > 1:
            can |= {"pipelined_tree"}
            if reduces and w.ranks_per_node > 1:
                sums = w.network is None or w.network.fabric == "InfiniBand"
                can |= {"in_switch_tree"} | ({"in_fabric"} if sums else set())
        else:
            can |= {"direct"} | ({"in_switch"} if reduces else set())
    elif w.nodes > 1 and w.ranks_per_node == 1:
        can |= {"aggregated_trees"}
    found = asked & can
    return tuple(sorted(found or {"ring"}))  # what cannot be had, the library replaces by a ring


def library_time(
    op: str,
    bytes: float,
    wires: Wires,
    algorithm: str = "auto",
    cost: CallCost | str = efficiencies.DEFAULT,
) -> LibraryTime:
    """Time of a collective by the protocol that its library would take: the fastest that the links allow.

    Parameters
    ----------
    op : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``, ``moe_dispatch`` or ``moe_combine``.
    bytes : float, byte
        Size of the whole buffer, as for :func:`mlsysim.communication.collective`; of a dispatch or a combine what a rank
        sends, copies that stay included.
    wires : Wires
        The links, as from :func:`wires` for a catalogue node.
    algorithm : str
        ``auto``, or ``ring``, ``tree``, ``nvls``, ``sharp`` or ``pat`` to hold the library to one; where it cannot be had, a ring is
        taken. Switches of the fabric add (``sharp``) only where they are asked to.
    cost : CallCost or str
        ``calibrated``, ``datasheet`` or ``bound``, or the cost of a call of your own.

    Returns
    -------
    LibraryTime
        Frozen result with ``time``, ``protocol``, its parts and the other ``candidates``.

    Raises
    ------
    InputError, UnknownNameError
        An unknown operation or algorithm; a size below zero.

    Assumptions: all ranks start together and nothing else uses the links; a library changes its protocol at the size from
    which another is faster; a call of NCCL, and a chunk at a stage, cost the same on all machines. A chunk passes the devices of a
    node in a ring or at a switch, the way up and down in trees; between nodes the rings hide each other's filling, and what the
    first chunk waits is in the steps. Every device has a process of its own, which AMD's library asks of its quickest way. An all-to-all is
    grouped sends, to ``SENDS_TOGETHER`` peers at a time, with an order of the host for every other node; a dispatch or a combine is
    written by the devices themselves, to all at once.

    >>> r = library_time("all_reduce", 1e9, wires("DGX-H100", 8))
    >>> r.protocol, library_time("all_reduce", 1e9, wires("DGX-A100", 8)).protocol
    ('nccl-nvls', 'nccl-ring-simple')
    >>> [library_time("all_reduce", size, wires("P4d", 16)).protocol for size in (1e3, 1e9)]
    ['efa-ring-simple', 'efa-tree-simple']

    Source: the protocols of the catalogue, each with its own; see :mod:`mlsysim.collectives` for the equations.
    """
    if op not in OPS:
        raise unknown_name("operation", op, OPS)
    if algorithm not in ALGORITHM_WORDS:
        raise unknown_name("algorithm", algorithm, ALGORITHM_WORDS)
    if isinstance(bytes, bool) or not isinstance(bytes, (int, float)) or not 0 <= bytes < inf:
        raise InputError(f"library_time: bytes = {str(bytes)[:20]} must be a finite number of at least 0")
    bound = cost == efficiencies.BOUND
    cost = call_cost(cost) if isinstance(cost, str) else cost
    if wires.ranks == 1:
        return LibraryTime(op, bytes, wires, cost, ())
    share = 1.0 if bound else wires.planned(cost.share)
    reached = share * wires.node_bandwidth
    found: list[Candidate] = []
    if op in _SPREADING:
        spread = _spread(op, bytes, wires, reached, share, bound)
        found += [replace(c, start=cost.start_of(wires.library, c.start)) for c in spread]
    else:
        for p in _protocols(wires, _possible(op, wires, algorithm)):
            if (p.has("ranks") and p.ranks != wires.ranks) or (p.has("most_bytes") and bytes > p.most_bytes):
                continue
            label, given, steps, moving, stages = _TIMES[p.algorithm](op, bytes, wires, p, reached)
            filled, first = (
                float(collectives.chunked_transfer(time, 1.0, stages, cost.chunk)) for time in (moving, 0.0)
            )
            start, waits = cost.start_of(p.library, p.base_latency), 0.0 if bound else steps
            fill = filled - first - moving
            found.append(Candidate(p.name, p.algorithm, start, waits, moving, fill, label, given, stages))
    return LibraryTime(op, bytes, wires, cost, tuple(sorted(found, key=lambda c: c.time)))
