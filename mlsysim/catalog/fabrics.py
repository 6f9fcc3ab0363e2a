"""The network catalogue: links one way, nodes of devices, clusters of nodes, and what a library adds; one source per field."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim.catalog import entries, hardware, kept
from mlsysim.catalog.entries import Entry
from mlsysim.catalog.hardware import Device
from mlsysim.errors import InputError

_KINDS = ("scale-up", "scale-out", "host")
_ALGORITHMS = ("ring", "pipelined_tree", "in_switch")
_WHOLE = ("domain", "links", "devices", "nics")


@dataclass(frozen=True, kw_only=True)
class Link(Entry):
    """A link in byte/s, one way: of one device with all its links (scale-up), or of one adapter (scale-out)."""

    vendor: str = ""
    kind: str
    topology: str = ""

    @property
    def bandwidth(self) -> float:
        """All links of one device, or one adapter, in one direction, byte/s."""
        return self._value("bandwidth")

    @property
    def link_bandwidth(self) -> float:
        """A single link in one direction, byte/s."""
        return self._value("link_bandwidth")

    @property
    def links(self) -> int:
        """Links of one device."""
        return int(self._value("links"))

    @property
    def domain(self) -> int:
        """Devices that such links can join."""
        return int(self._value("domain"))

    @property
    def latency(self) -> float:
        """Latency of the link in s, where a source gives one."""
        return self._value("latency")

    @property
    def planned_bandwidth(self) -> float:
        """What NCCL's cost model counts on, byte/s."""
        return self._value("planned_bandwidth")

    @property
    def in_switch_efficiency(self) -> float:
        """Share of the planned bandwidth that NCCL expects of a reduction inside the switch."""
        return self._value("in_switch_efficiency")


@dataclass(frozen=True, kw_only=True)
class Node(Entry):
    """Devices in one box or rack, the link that joins them, and the adapters that lead out of it."""

    vendor: str = ""
    device: Device
    scale_up: Link
    scale_out: Link

    @property
    def devices(self) -> int:
        """Devices in the node."""
        return int(self._value("devices"))

    @property
    def nics(self) -> int:
        """Adapters that carry traffic between devices of different nodes."""
        return int(self._value("nics"))

    @property
    def domain(self) -> int:
        """Devices that the scale-up link joins: those of the node, unless the entry says otherwise."""
        return int(self._value("domain")) if self.has("domain") else self.devices

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
        """How many times faster a device talks inside the domain than out of the node.

        >>> node("DGX-H100").bandwidth_ratio
        9.0
        """
        return self.scale_up_bandwidth / self.scale_out_bandwidth


@dataclass(frozen=True)
class Cluster:
    """Equal nodes on one fabric that gives every device its share of the adapters at all times (no taper)."""

    node: Node
    nodes: int

    def __post_init__(self) -> None:
        if not isinstance(self.nodes, int) or isinstance(self.nodes, bool) or self.nodes < 1:
            raise InputError(f"cluster: nodes = {str(self.nodes)[:20]!r} must be a whole number of at least 1")

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
    """How a library moves a collective: a cost per call, a cost per step on each kind of link, the share of payload."""

    algorithm: str

    @property
    def base_latency(self) -> float:
        """Cost of a call before its first byte, s."""
        return self._value("base_latency")

    @property
    def scale_up_step(self) -> float:
        """Cost of a step between devices of one domain, s."""
        return self._value("scale_up_step")

    @property
    def scale_out_step(self) -> float:
        """Cost of a step across the network, s."""
        return self._value("scale_out_step")

    @property
    def network_post(self) -> float:
        """Cost of posting a message to the network, s: no step of a ring over nodes takes less, inside a node either."""
        return self._value("network_post")

    @property
    def network_factor(self) -> float:
        """How many times the latencies of an all-reduce are charged over nodes; 1 unless the entry says otherwise."""
        return self._value("network_factor") if self.has("network_factor") else 1.0

    @property
    def payload(self) -> float:
        """Share of the planned bandwidth that carries data."""
        return self._value("payload")


_FIELDS: dict[str, dict[str, str]] = {
    "links": {
        "bandwidth": "byte/s",
        "link_bandwidth": "byte/s",
        "links": "1",
        "domain": "1",
        "latency": "s",
        "planned_bandwidth": "byte/s",
        "in_switch_efficiency": "1",
    },
    "nodes": {"devices": "1", "domain": "1", "nics": "1"},
    "protocols": {
        "base_latency": "s",
        "scale_up_step": "s",
        "scale_out_step": "s",
        "network_post": "s",
        "network_factor": "1",
        "payload": "1",
    },
}
_TEXT: dict[str, tuple[str, ...]] = {
    "links": ("vendor", "kind", "topology", "notes"),
    "nodes": ("vendor", "device", "scale_up", "scale_out", "notes"),
    "protocols": ("algorithm", "notes"),
}
_REQUIRED = {
    "links": ("kind", "bandwidth"),
    "nodes": ("device", "scale_up", "scale_out", "devices", "nics"),
    "protocols": ("algorithm", "base_latency", "payload"),
}


def _parts(name: str, raw: Any, file: str, table: str) -> entries.Parts:
    """Text, aliases and sourced figures of one entry, checked."""
    found = entries.parts(name, raw, file, table, _FIELDS[table], _TEXT[table], _REQUIRED[table], _WHOLE)
    for key in ("payload", "in_switch_efficiency"):
        if key in found[2] and found[2][key].value > 1:
            raise InputError(
                f"{file}: {name[:60]}, {key} = {found[2][key].value} is outside (0, 1]; write the share as a fraction"
            )
    return found


def read_link(name: str, raw: Any, file: str) -> Link:
    """A link from its table; errors name file, entry and field."""
    text, aliases, fields = _parts(name, raw, file, "links")
    entries.choice(text["kind"], _KINDS, "kind", f"{file}: {name[:60]}")
    return Link(name=name, aliases=aliases, fields=MappingProxyType(fields), **text)


def _protocol(name: str, raw: Any, file: str) -> Protocol:
    text, aliases, fields = _parts(name, raw, file, "protocols")
    entries.choice(text["algorithm"], _ALGORITHMS, "algorithm", f"{file}: {name[:60]}")
    return Protocol(name=name, aliases=aliases, fields=MappingProxyType(fields), **text)


def read_node(name: str, raw: Any, file: str) -> Node:
    """A node from its table; errors name file, entry and field."""
    text, aliases, fields = _parts(name, raw, file, "nodes")
    return Node(
        name=name,
        aliases=aliases,
        fields=MappingProxyType(fields),
        vendor=text["vendor"],
        notes=text["notes"],
        device=hardware.device(text["device"]),
        scale_up=link(text["scale_up"]),
        scale_out=link(text["scale_out"]),
    )


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
    return kept.joined("link", _links())


@cache
def _links() -> Mapping[str, Link]:
    return entries.shipped("networks/links.toml", read_link)


def nodes() -> Mapping[str, Node]:
    """Every node of the catalogue, by name.

    >>> nodes()["GB200-NVL72"].domain
    72
    """
    return kept.joined("node", _nodes())


@cache
def _nodes() -> Mapping[str, Node]:
    return entries.shipped("networks/nodes.toml", read_node)


@cache
def protocols() -> Mapping[str, Protocol]:
    """Every library protocol of the catalogue, by name.

    >>> sorted(protocols())[0]
    'nccl-nvls'
    """
    return entries.shipped("networks/protocols.toml", _protocol)


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
