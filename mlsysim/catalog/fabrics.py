"""The network catalogue: links one way, nodes of devices, clusters of nodes, and what a library adds; one source per field."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlsysim.catalog import entries, hardware, registry
from mlsysim.catalog.entries import Entry, count, figure
from mlsysim.catalog.hardware import Device
from mlsysim.errors import InputError
from mlsysim.results import Report, Result, format_rows, format_value

_KINDS = ("scale-up", "scale-out", "host")
_ALGORITHMS = ("ring", "pipelined_tree", "in_switch", "in_switch_tree", "in_fabric", "direct", "aggregated_trees")
_WRITING = ("flags", "lines", "chunks")  # finest first: LL, LL128, Simple
_LIBRARIES = ("NCCL", "RCCL")
_SHARED: dict[str, tuple[str, ...]] = {"writing": _WRITING, "library": _LIBRARIES}


@dataclass(frozen=True, kw_only=True)
class Link(Entry):
    """A link in byte/s, one way: of one device with all its links (scale-up), or of one adapter (scale-out)."""

    vendor: str = ""
    kind: str
    topology: str = ""
    library: str = "NCCL"
    fabric: str = ""
    writing: str = "flags"

    bandwidth = figure("byte/s", "All links of one device, or one adapter, in one direction, byte/s.")
    link_bandwidth = figure("byte/s", "A single link in one direction, byte/s.")
    links = count("Links of one device.")
    domain = count("Devices that such links can join.")
    latency = figure("s", "Latency of the link in s, where a source gives one.")
    chunk_step = figure(
        "s", "Cost of a ring's step of a whole chunk across it, s, where that of its fabric is another's."
    )
    planned_bandwidth = figure("byte/s", "What NCCL's cost model counts on, byte/s.")
    in_switch_efficiency = figure(
        "1", "Share of the planned bandwidth that NCCL expects of a reduction inside the switch.", share=True
    )

    @property
    def planned_share(self) -> float | None:
        """What its library plans with over what its maker prints; None where no plan is known.

        >>> round(link("NVLink-4").planned_share, 3)
        0.824
        """
        return self.planned_bandwidth / self.bandwidth if self.has("planned_bandwidth") else None


@dataclass(frozen=True, kw_only=True)
class Node(Entry):
    """Devices in one box or rack, the link that joins them, and the adapters that lead out of it."""

    def _words(self) -> str:
        """Its device and its links."""
        inside = f", {self.scale_up.name} inside" if self.scale_up else ""
        return f"{self.devices} x {self.device.name}{inside}, {self.nics} x {self.scale_out.name} outside"

    vendor: str = ""
    device: Device
    scale_up: Link | None = None  # a single device has none
    scale_out: Link

    devices = count("Devices in the node.")
    nics = count("Adapters that carry traffic between devices of different nodes.")
    domain = count(
        "Devices that the scale-up link joins: those of the node, unless the entry says otherwise.",
        otherwise=lambda node: node.devices,
    )

    @property
    def library(self) -> str:
        """Whose protocols run on its links."""
        return self.scale_up.library if self.scale_up else Link.library

    @property
    def scale_up_bandwidth(self) -> float:
        """Per device and one way, byte/s: the device's own figure (an export part has fewer links)."""
        return self.device.scale_up_bandwidth

    @property
    def scale_out_bandwidth(self) -> float:
        """Per device and one way, byte/s: all adapters of the node shared by its devices.

        >>> node("DGX-H100").scale_out_bandwidth / 1e9
        50.0
        """
        return self.nics * self.scale_out.bandwidth / self.devices

    @property
    def bandwidth_ratio(self) -> float:
        """Bandwidth of a device inside the domain relative to that out of the node.

        >>> node("DGX-H100").bandwidth_ratio
        9.0
        """
        return self.scale_up_bandwidth / self.scale_out_bandwidth


@dataclass(frozen=True)
class Cluster(Result):
    """Equal nodes on one fabric that gives every device its share of the adapters at all times (no taper)."""

    NUMBERS = (
        "node=node.name nodes device=node.device.name devices domain "
        "scale_out_bandwidth_bytes_per_s=node.scale_out_bandwidth"
    )

    node: Node
    nodes: int

    def __post_init__(self) -> None:
        if not isinstance(self.nodes, int) or isinstance(self.nodes, bool) or self.nodes < 1:
            raise InputError(f"cluster: nodes = {str(self.nodes)[:20]!r} must be a whole number of at least 1")

    def summary(self) -> list[str]:
        node = self.node
        within = format_value(node.scale_up_bandwidth, "byte/s") if node.scale_up else ""
        inside = f"{within} a device, one way, in domains of {self.domain}"
        return format_rows(
            f"{self.nodes} x {node.name}: {self.devices} x {node.device.name}",
            ("inside", f"{inside} ({node.scale_up.name})" if node.scale_up else ""),
            (
                "outside",
                f"{format_value(node.scale_out_bandwidth, 'byte/s')} a device, one way ({node.nics} x {node.scale_out.name} a node)",
            ),
        )

    def explain(self) -> Report:
        """The node's figures, and where each was read."""
        return self.node.explain()

    @property
    def devices(self) -> int:
        """Devices of the cluster."""
        return self.nodes * self.node.devices

    @property
    def domain(self) -> int:
        """Devices that reach each other over the scale-up link."""
        return min(self.node.domain, self.devices)

    def bandwidth(self, ranks: int) -> float:
        """Per device and one way, byte/s, for a group of that many neighbours: the scale-up link while it reaches.

        >>> c = cluster("DGX-H100", 4)
        >>> c.bandwidth(8) / 1e9, c.bandwidth(9) / 1e9
        (450.0, 50.0)
        """
        if not 1 <= ranks <= self.devices:
            raise InputError(f"cluster: ranks = {ranks} must lie in [1, {self.devices}], the devices there are")
        return self.node.scale_up_bandwidth if ranks <= self.domain else self.node.scale_out_bandwidth


@dataclass(frozen=True, kw_only=True)
class Protocol(Entry):
    """Protocol of a communication library: cost per call, cost per step on each kind of link, share of payload."""

    algorithm: str
    library: str = "NCCL"
    fabric: str = ""  # the network whose steps these are; any other, where nothing stands
    writing: str = "chunks"

    base_latency = figure("s", "Cost of a call before its first byte, s.")
    scale_up_step = figure("s", "Cost of a step between devices of one domain, s.")
    scale_out_step = figure("s", "Cost of a step across the network, s.")
    rank_step = figure("s", "Cost of every rank's piece of a gather, s.")
    host_step = figure("s", "Cost of a step between devices that reach each other over PCIe, s.")
    more_crossings = figure(
        "1",
        "Steps over the network that half of a ring takes beyond one fewer than there are nodes: 1 when the slowest piece counts.",
        otherwise=lambda _: 0.0,
    )
    network_post = figure(
        "s",
        "Cost of posting a message to the network, s: no step of a ring over nodes takes less, inside a node either.",
    )
    network_factor = figure(
        "1",
        "How many times the latencies of an all-reduce are charged over nodes; 1 unless the entry says otherwise.",
        otherwise=lambda _: 1.0,
    )
    payload = figure("1", "Share of the planned bandwidth that carries data.", share=True)
    ranks = count("Devices that it is written for, where it is written for a number.")
    most_bytes = figure("byte", "Largest buffer that it is taken for, byte, where there is one.")


def finer_or_equal(finest: str, writing: str) -> bool:
    """Whether a fabric whose finest writing is the first allows the second.

    >>> finer_or_equal("flags", "chunks"), finer_or_equal("chunks", "lines")
    (True, False)
    """
    return _WRITING.index(finest) <= _WRITING.index(writing)


def read_link(name: str, raw: Any, file: str) -> Link:
    """A link from its table; errors name file, entry and field."""
    return entries.read(
        Link, "links", name, raw, file, needed=("kind", "bandwidth"), choices={"kind": _KINDS, **_SHARED}
    )


def read_protocol(name: str, raw: Any, file: str) -> Protocol:
    """A protocol from its table; errors name file, entry and field."""
    needed = ("algorithm", "base_latency", "payload")
    return entries.read(
        Protocol, "protocols", name, raw, file, needed=needed, choices={"algorithm": _ALGORITHMS, **_SHARED}
    )


def read_node(name: str, raw: Any, file: str) -> Node:
    """A node from its table; it may name devices and links of the catalogue and of the user."""
    needed = ("device", "scale_out", "devices", "nics")
    made = {"device": hardware.device, "scale_up": link, "scale_out": link}
    found = entries.read(Node, "nodes", name, raw, file, needed=needed, made=made)
    if found.scale_up is None and found.domain > 1:
        raise InputError(
            f"{file}: {name[:60]}: no scale_up, the link that joins its {found.domain} devices; name one, or give domain = 1"
        )
    return found


def load_links(path: str | Path) -> dict[str, Link]:
    """Read links from a TOML file in the catalogue's form: as data, never executed, of bounded size.

    Raises
    ------
    InputError
        Naming the file, the entry and the field, and how to mend it.
    """
    return entries.load(Path(path), read_link)


def load_nodes(path: str | Path) -> dict[str, Node]:
    """Read nodes from a TOML file in the catalogue's form; they may name the catalogue's devices and links.

    Raises
    ------
    InputError, UnknownNameError
        Naming the file, the entry and the field, and how to mend it.
    """
    return entries.load(Path(path), read_node)


def links() -> Mapping[str, Link]:
    """Every link of the catalogue, by name.

    >>> links()["NVLink-4"].bandwidth / 1e9
    450.0
    """
    return registry.joined("link", _links())


@cache
def _links() -> Mapping[str, Link]:
    return entries.LazyTable("link", "networks/links.toml", read_link)


def nodes() -> Mapping[str, Node]:
    """Every node of the catalogue, by name.

    >>> nodes()["GB200-NVL72"].domain
    72
    """
    return registry.joined("node", _nodes())


@cache
def _nodes() -> Mapping[str, Node]:
    return entries.LazyTable("node", "networks/nodes.toml", read_node)


@cache
def protocols() -> Mapping[str, Protocol]:
    """Every library protocol of the catalogue, by name.

    >>> sorted(protocols())[0]
    'efa-nvls-tree'
    """
    return entries.LazyTable("protocol", "networks/protocols.toml", read_protocol)


def link(name: str | Link) -> Link:
    """The link of that name or alias; a Link is passed through.

    >>> link("ndr").bandwidth / 1e9
    50.0
    """
    return name if isinstance(name, Link) else entries.find("link", name, links())


def node(name: str | Node) -> Node:
    """The node of that name or alias; a Node is passed through.

    >>> node("hgx h100").name
    'DGX-H100'
    """
    return name if isinstance(name, Node) else entries.find("node", name, nodes())


def protocol(name: str | Protocol) -> Protocol:
    """The protocol of that name; a Protocol is passed through.

    >>> round(protocol("nccl-ring-simple").scale_up_step * 1e6, 3)
    3.4
    """
    return name if isinstance(name, Protocol) else entries.find("protocol", name, protocols())


def cluster(node_name: str | Node, nodes: int) -> Cluster:
    """A cluster of equal nodes.

    >>> cluster("DGX-A100", 128).devices
    1024
    """
    return Cluster(node(node_name), nodes)
