"""A collective by name, on a link or on a catalogue node: its time, what binds it, and where every number came from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, collectives, units
from mlsysim._numeric import Num, all_true, is_array, where
from mlsysim.catalog import Node, Protocol
from mlsysim.equations import NON_NEGATIVE, Domain, check_argument
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import CALLER, Explanation, Input, Result, Term, format_rows, format_value, plain

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing


# The equation of every operation and algorithm, and how many times over its time is counted: by recursive halving or directly, a
# reduce-scatter or an all-gather is exactly half of the all-reduce.
_TABLE: Mapping[str, Mapping[str, tuple[str, Callable[..., Any], float]]] = {
    "all_reduce": {
        "ring": ("eq-ring-allreduce", collectives.ring_all_reduce, 1.0),
        "tree": ("eq-tree-allreduce", collectives.tree_all_reduce, 1.0),
        "pipelined_tree": ("eq-pipelined-tree-allreduce", collectives.pipelined_tree_all_reduce, 1.0),
        "halving_doubling": ("eq-halving-doubling", collectives.halving_doubling_all_reduce, 1.0),
        "direct": ("eq-direct-allreduce", collectives.direct_all_reduce, 1.0),
        "in_switch": ("eq-in-switch-allreduce", collectives.in_switch_all_reduce, 1.0),
    },
    "reduce_scatter": {
        "ring": ("eq-ring-reduce-scatter", collectives.ring_reduce_scatter, 1.0),
        "halving_doubling": ("eq-halving-doubling", collectives.halving_doubling_all_reduce, 0.5),
        "direct": ("eq-direct-allreduce", collectives.direct_all_reduce, 0.5),
    },
    "all_gather": {
        "ring": ("eq-ring-all-gather", collectives.ring_all_gather, 1.0),
        "halving_doubling": ("eq-halving-doubling", collectives.halving_doubling_all_reduce, 0.5),
        "direct": ("eq-direct-allreduce", collectives.direct_all_reduce, 0.5),
    },
    "all_to_all": {"pairwise": ("eq-all-to-all", collectives.all_to_all, 1.0)},
}
# Algorithms of each collective among equal ranks.
ALGORITHMS: Mapping[str, tuple[str, ...]] = {op: tuple(table) for op, table in _TABLE.items()}
# How often each collective sends the whole buffer past a rank, in the limit of many ranks.
PHASES: Mapping[str, float] = {"all_reduce": 2.0, "reduce_scatter": 1.0, "all_gather": 1.0, "all_to_all": 1.0}
_POWERS_OF_TWO = ("halving_doubling",)
_OVER_NODES = ("ring", "pipelined_tree")  # whose steps inside a node and between nodes can be charged apart
_OVERHEAD = Domain.of(NON_NEGATIVE)


@dataclass(frozen=True)
class CollectiveTime(Result):
    """What :func:`collective` returns; SI units, floats or arrays. ``latency_time + bandwidth_time + overhead == time``."""

    op: str
    algorithm: str
    bytes: Num
    ranks: Num
    bandwidth: Num
    latency: Num
    overhead: Num
    latency_time: Num
    bandwidth_time: Num
    time: Num
    bound: Any  # "latency" (with the overhead) or "bandwidth"; an array of them for an array
    origins: Mapping[str, str]
    ranks_per_node: Num = 1
    node_latency: Num = 0.0

    @property
    def algorithm_bandwidth(self) -> Num:
        """Bytes of the buffer over the time: what nccl-tests prints as algbw."""
        return self.bytes / self.time

    @property
    def bus_bandwidth(self) -> Num:
        """What nccl-tests prints as busbw."""
        return collectives.bus_bandwidth(self.bytes, self.time, self.ranks, PHASES[self.op])

    @property
    def _parts(self) -> dict[str, Num]:
        return {"latency": self.latency_time, "bandwidth": self.bandwidth_time, "call": self.overhead}

    def summary(self) -> list[str]:
        busbw = format_value(self.bus_bandwidth, "byte/s") if all_true(self.time > 0) else ""
        link = f"{format_value(self.bandwidth, 'byte/s')} and {format_value(self.latency, 's')} per step"
        return format_rows(
            f"{self.op} of {format_value(self.bytes, 'byte')} over {format_value(self.ranks, '1')} ranks, {self.algorithm}: "
            f"{format_value(self.time, 's')}, {_bound_in_words(self.bound)}",
            (
                "parts",
                ", ".join(f"{name} {format_value(t, 's')}" for name, t in self._parts.items() if not all_true(t == 0)),
            ),
            ("bus bandwidth", busbw),
            ("link", f"{link}; {self.origins.get('bandwidth', CALLER)}"),
        )

    def chart(self) -> "Drawing | None":
        """Its parts as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms(f"{self.op}, {self.algorithm}", self._parts)

    def explain(self) -> Explanation:
        """Each part with its equation, the numbers in it, and the source of each input."""
        label = _TABLE[self.op][self.algorithm][0]
        share = _TABLE[self.op][self.algorithm][2]
        given = {"bytes": self.bytes, "bandwidth": self.bandwidth} | _steps(
            self.algorithm, self.ranks, self.latency, self.ranks_per_node, self.node_latency
        )
        silent = {name: 0.0 for name in given if name.endswith("latency")}
        levels = (
            []
            if all_true(self.ranks_per_node == 1)
            else [
                ("ranks_per_node", self.ranks_per_node, "1"),
                ("node_latency", self.node_latency, "s"),
            ]
        )
        notes = [] if share == 1.0 else [f"{self.op} is {share:g} of the all-reduce by {self.algorithm}"]
        if not all_true(self.overhead == 0):
            notes.append(f"time with the overhead of the call: {units.format(self.time, 's')}")
        return Explanation(
            title=f"{self.op}, {self.algorithm}, {_count(self.ranks)} ranks: {_bound_in_words(self.bound)}",
            terms=(
                Term("latency part", self.latency_time, label, {**given, "bytes": 0.0}, self.bound == "latency"),
                Term("bandwidth part", self.bandwidth_time, label, {**given, **silent}, self.bound == "bandwidth"),
                Term("both", self.latency_time + self.bandwidth_time, label, given),
            ),
            inputs=tuple(
                Input(name, value, unit, self.origins.get(name, CALLER))
                for name, value, unit in (
                    ("bytes", self.bytes, "byte"),
                    ("ranks", self.ranks, "1"),
                    ("bandwidth", self.bandwidth, "byte/s"),
                    ("latency", self.latency, "s"),
                    *levels,
                    ("overhead", self.overhead, "s"),
                )
            ),
            notes=notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        found: dict[str, Any] = {
            "op": self.op,
            "algorithm": self.algorithm,
            "bytes": self.bytes,
            "ranks": self.ranks,
            "bandwidth_bytes_per_s": self.bandwidth,
            "latency_s": self.latency,
            "ranks_per_node": self.ranks_per_node,
            "node_latency_s": self.node_latency,
            "overhead_s": self.overhead,
            "latency_time_s": self.latency_time,
            "bandwidth_time_s": self.bandwidth_time,
            "time_s": self.time,
            "bound": self.bound,
            "algorithm_bandwidth_bytes_per_s": self.algorithm_bandwidth if all_true(self.time > 0) else None,
            "bus_bandwidth_bytes_per_s": self.bus_bandwidth if all_true(self.time > 0) else None,
        }
        return dict(plain(found))


def _count(ranks: Num) -> str:
    return "several" if is_array(ranks) else f"{ranks:g}"


def _bound_in_words(bound: Any) -> str:
    if not is_array(bound):
        return f"{bound}-bound"
    return ", ".join(f"{int((bound == b).sum())} {b}-bound" for b in ("latency", "bandwidth") if (bound == b).any())


def _steps(algorithm: str, ranks: Num, latency: Num, ranks_per_node: Num, node_latency: Num) -> dict[str, Num]:
    """Ranks and latencies as the algorithm's equation wants them, when the steps inside a node cost less than the others."""
    if all_true(ranks_per_node == 1):
        return {"ranks": ranks, "latency": latency}
    if algorithm == "ring":
        return {"ranks": ranks, "latency": collectives.ring_latency(ranks, ranks_per_node, node_latency, latency)}
    return {
        "ranks": ranks / ranks_per_node,
        "latency": latency,
        "chain": ranks_per_node,
        "chain_latency": node_latency,
    }


def collective(
    op: str,
    algorithm: str,
    bytes: Num,
    ranks: Num,
    bandwidth: Num,
    latency: Num = 0.0,
    overhead: Num = 0.0,
    origins: Mapping[str, str] | None = None,
    ranks_per_node: Num = 1,
    node_latency: Num = 0.0,
) -> CollectiveTime:
    """Time of a collective by the equation of its algorithm.

    Parameters
    ----------
    op : str
        ``all_reduce``, ``reduce_scatter``, ``all_gather`` or ``all_to_all``.
    algorithm : str
        One of ``ALGORITHMS[op]``.
    bytes : float or array, byte
        Size of the whole buffer: what each rank holds before an all-reduce, a reduce-scatter or an all-to-all, and
        after an all-gather.
    ranks : int or array of int
        Devices that take part.
    bandwidth : float or array, byte/s
        Per device and one way.
    latency : float or array, s
        Cost of one step.
    overhead : float or array, s
        Time of the call itself, added once, as in ``"10 us"``.
    origins : mapping, optional
        Where the numbers came from, by name, for ``explain()``.
    ranks_per_node : int or array of int
        Devices of a node: of a ring's or a pipelined tree's steps only those between nodes cost ``latency``, the others
        ``node_latency``.
    node_latency : float or array, s
        Latency of one step inside a node.

    Returns
    -------
    CollectiveTime
        Frozen result with ``time``, its parts, ``bound``, ``bus_bandwidth`` and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown operation or algorithm; recursive halving on a number of ranks that is not a
        power of two (a tree of five ranks needs the steps of one of eight instead); ranks that do not fill their nodes.

    Assumptions: those of the equation; nothing else uses the links.

    >>> r = collective("all_reduce", "ring", bytes=1e9, ranks=8, bandwidth=50e9, latency=500e-9)
    >>> round(r.time, 6), r.bound
    (0.035007, 'bandwidth')
    >>> r = collective("all_reduce", "ring", 1e9, 1024, 50e9, latency=14e-6, ranks_per_node=8, node_latency=3.4e-6)
    >>> round(r.latency_time, 5)
    0.00965
    """
    if op not in _TABLE:
        raise unknown_name("operation", op, _TABLE)
    if algorithm not in _TABLE[op]:
        raise unknown_name(f"algorithm of {op}", algorithm, _TABLE[op])
    _, function, share = _TABLE[op][algorithm]
    check_argument("collective", "overhead", overhead, "s", _OVERHEAD)
    _check_ranks(algorithm, ranks)
    _check_nodes(algorithm, ranks, ranks_per_node)
    check_argument("collective", "node_latency", node_latency, "s", _OVERHEAD)
    check_argument("collective", "latency", latency, "s", _OVERHEAD)
    steps = _steps(algorithm, ranks, latency, ranks_per_node, node_latency)
    silent = {name: 0.0 if name.endswith("latency") else value for name, value in steps.items()}
    bandwidth_time = share * function(bytes=bytes, bandwidth=bandwidth, **silent)
    latency_time = share * function(bytes=0.0, bandwidth=bandwidth, **steps)
    fixed = latency_time + overhead
    return CollectiveTime(
        op=op,
        algorithm=algorithm,
        bytes=bytes,
        ranks=ranks,
        bandwidth=bandwidth,
        latency=latency,
        overhead=overhead,
        latency_time=latency_time,
        bandwidth_time=bandwidth_time,
        time=fixed + bandwidth_time,
        bound=where(fixed > bandwidth_time, "latency", "bandwidth"),
        origins=dict(origins or {}),
        ranks_per_node=ranks_per_node,
        node_latency=node_latency,
    )


def _check_ranks(algorithm: str, ranks: Num, name: str = "ranks") -> None:
    """Whole numbers of at least one, and a power of two where the algorithm needs one."""
    if is_array(ranks):
        if not all_true(ranks == ranks.round()):
            raise InputError(f"collective: {name} holds a value that is not a whole number; give counts of devices")
        if not all_true(ranks >= 1):
            raise InputError(f"collective: {name} holds a value below 1; give counts of devices")
        if algorithm in _POWERS_OF_TWO and not all_true((ranks.astype(int) & (ranks.astype(int) - 1)) == 0):
            raise InputError(
                f"collective: {name} must be powers of two in an array for {algorithm}; use ring, or a tree, for others"
            )
        return
    if (
        isinstance(ranks, bool)
        or not isinstance(ranks, (int, float))
        or ranks != ranks
        or ranks != int(min(ranks, 1e9))
    ):
        raise InputError(f"collective: {name} = {str(ranks)[:20]!r} must be a whole number in [1, 1e9]")
    if ranks < 1:
        raise InputError(f"collective: {name} = {ranks} must be at least 1")
    if algorithm in _POWERS_OF_TWO and int(ranks) & (int(ranks) - 1):
        raise InputError(
            f"collective: ranks = {ranks:g} is not a power of two, which {algorithm} needs; use ring, or a tree"
        )


def _check_nodes(algorithm: str, ranks: Num, ranks_per_node: Num) -> None:
    _check_ranks("", ranks_per_node, "ranks_per_node")
    if all_true(ranks_per_node == 1):
        return
    if algorithm not in _OVER_NODES:
        raise InputError(
            f"collective: ranks_per_node = {str(ranks_per_node)[:40]} goes with {' and '.join(_OVER_NODES)}, not with "
            f"{algorithm}; leave it out, or see collectives.hierarchical_all_reduce"
        )
    if not all_true(ranks % ranks_per_node == 0):
        raise InputError(
            f"collective: ranks = {str(ranks)[:40]} must be a multiple of ranks_per_node = {str(ranks_per_node)[:40]}; "
            "give whole nodes"
        )


def library_all_reduce(bytes: Num, ranks: int, node: Node | str, protocol: Protocol | str) -> CollectiveTime:
    """All-reduce inside one node, or over whole nodes, with the latencies and bandwidths that NCCL itself plans with.

    The library's plan is its own cost model, by which it chooses between protocols: per call, per step inside a node and
    between nodes, and a share of the link. None of it is fitted to the measurements of this book.

    Parameters
    ----------
    bytes : float or array, byte
        Size of the buffer.
    ranks : int
        Devices that take part: of one scale-up domain, or all of several.
    node : Node or str
        A node of the catalogue, or its name.
    protocol : Protocol or str
        As in ``nccl-ring-simple``; ``nccl-nvls`` needs a switch that reduces, and one domain.

    Raises
    ------
    InputError, UnknownNameError
        Ranks that fill no whole number of domains; a link without a planned bandwidth or without reduction in the switch.

    Assumptions: between nodes as many rings as there are adapters, so that the narrower of a device's link and of all the
    adapters of a node binds; over nodes a ring's steps and its call are charged 1.4 times, as NCCL charges whole chunks
    over all but the smallest buffers.

    >>> library_all_reduce(1e9, 8, "DGX-A100", "nccl-ring-simple").bound
    'bandwidth'
    >>> round(library_all_reduce(1e9, 1024, "DGX-H100", "nccl-tree-simple").latency_time * 1e6)  # 128 nodes
    252
    """
    node, protocol = catalog.node(node), catalog.protocol(protocol)
    link, over_nodes = node.scale_up, ranks > node.domain
    if over_nodes and ranks % node.domain:
        raise InputError(
            f"library_all_reduce: ranks = {ranks} exceeds the {node.domain} devices of one {node.name} domain and fills no "
            f"whole number of them; give a multiple of {node.domain}"
        )
    share = protocol.payload * (link.in_switch_efficiency if link and protocol.algorithm == "in_switch" else 1.0)
    planned = link.planned_bandwidth * (node.scale_up_bandwidth / link.bandwidth) if link else inf
    origins = {
        "bandwidth": f"{link.origin('planned_bandwidth') if link else node.scale_out.origin('bandwidth')}; payload share {share:g}",
        "overhead": protocol.origin("base_latency"),
    }
    if protocol.algorithm == "in_switch":  # its one latency covers the whole call
        if over_nodes:
            raise InputError(
                f"library_all_reduce: ranks = {ranks} exceeds the {node.domain} devices of one {node.name} domain, beyond "
                "which its switch sums nothing; choose a ring or a tree"
            )
        return collective("all_reduce", "in_switch", bytes, ranks, planned * share, 0.0, protocol.base_latency, origins)
    if not over_nodes:
        origins["latency"] = protocol.origin("scale_up_step")
        chained = protocol.algorithm == "pipelined_tree"  # one node is a chain, without a tree above it
        return collective(
            "all_reduce",
            protocol.algorithm,
            bytes,
            ranks,
            planned * share,
            0.0 if chained else protocol.scale_up_step,
            protocol.base_latency,
            origins,
            ranks_per_node=ranks if chained else 1,
            node_latency=protocol.scale_up_step if chained else 0.0,
        )
    factor = protocol.network_factor if protocol.algorithm == "ring" else 1.0
    step = (
        max(protocol.scale_up_step, protocol.network_post) if protocol.algorithm == "ring" else protocol.scale_up_step
    )
    origins["latency"] = protocol.origin("scale_out_step")
    origins["node_latency"] = protocol.origin("scale_up_step")
    origins["bandwidth"] = f"{origins['bandwidth']}, of that or of all adapters of a domain"
    return collective(
        "all_reduce",
        protocol.algorithm,
        bytes,
        ranks,
        collectives.ring_bandwidth(node.domain, planned, node.scale_out_bandwidth) * share,
        factor * protocol.scale_out_step,
        factor * protocol.base_latency,
        origins,
        ranks_per_node=node.domain,
        node_latency=factor * step,
    )


def fastest_all_reduce(bytes: float, ranks: int, node: Node | str, in_switch: bool = True) -> CollectiveTime:
    """The protocol that NCCL's plan makes fastest for this size, as the library itself chooses.

    Inside a domain a ring or the switch; over several a ring or a tree.

    Parameters
    ----------
    bytes : float, byte
        Size of the buffer.
    ranks : int
        Devices that take part: of one scale-up domain, or all of several.
    node : Node or str
        A node of the catalogue, or its name.
    in_switch : bool
        Whether the switch may reduce (where it can at all); False forces a ring.

    >>> fastest_all_reduce(8e9, 8, "DGX-H100").algorithm, fastest_all_reduce(8e9, 8, "DGX-A100").algorithm
    ('in_switch', 'ring')
    >>> [fastest_all_reduce(size, 1024, "DGX-H100").algorithm for size in (1e6, 64e9)]
    ['pipelined_tree', 'ring']
    """
    node = catalog.node(node)
    allowed = ["ring"]
    if ranks > node.domain:
        allowed.append("pipelined_tree")
    elif in_switch and node.scale_up and node.scale_up.has("in_switch_efficiency"):
        allowed.append("in_switch")
    own = [p for p in catalog.protocols().values() if p.library == node.library and not p.fabric]
    names = [p for p in own if p.algorithm in allowed]
    return min((library_all_reduce(bytes, ranks, node, p) for p in names), key=lambda r: float(r.time))
