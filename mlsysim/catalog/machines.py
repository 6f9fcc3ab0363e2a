"""Where something runs, from a few words: devices of one kind, or nodes with their network."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from mlsysim import units
from mlsysim.catalog import fabrics, hardware
from mlsysim.catalog.entries import names_of
from mlsysim.catalog.fabrics import Cluster, Node
from mlsysim.catalog.hardware import Device
from mlsysim.catalog.registry import fold
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.results import Result

_MOST = 10**7  # devices or nodes
_MANY = re.compile(r"\s*(\d[\d_,]*)(?:\s*[x×*]\s*|\s+)(\S.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Machines(Result):
    """Devices of one kind: so many of them, or as many as it takes, in nodes with a network or without."""

    device: Device
    count: int | None = None  # devices; None for as many as it takes
    node: Node | None = None

    @property
    def devices(self) -> int:
        """How many there are.

        Raises
        ------
        InputError
            Nobody said how many.
        """
        if self.count is None:
            nodes = nodes_with(self.device)
            node = f", or nodes with their network, as in '8 x {nodes[0].name}'" if nodes else ""
            raise InputError(f"where: how many {self.device.name}? Write for example '8 {self.device.name}'{node}")
        return self.count

    @property
    def domain(self) -> int:
        """Devices that reach each other over the scale-up link."""
        if self.cluster is not None:
            return self.cluster.domain
        most = self.device.scale_up_domain if self.device.has("scale_up_domain") else 1
        return most if self.count is None else min(most, self.count)

    @property
    def nodes(self) -> int | None:
        """Nodes; None where none is named."""
        return self.count // self.node.devices if self.node is not None and self.count is not None else None

    @property
    def cluster(self) -> Cluster | None:
        """The nodes on their network; None where none is named."""
        return Cluster(self.node, self.nodes) if self.node is not None and self.nodes is not None else None

    def __str__(self) -> str:
        if self.node is not None:
            return f"{self.nodes} x {self.node.name}"
        return self.device.name if self.count is None else f"{self.count} x {self.device.name}"


def _number(text: str, shown: str) -> int:
    digits = re.sub("[_,]", "", text)
    if len(digits) > 8 or not 1 <= int(digits) <= _MOST:
        raise InputError(f"where: {shown!r} asks for {digits[:12]} of them; give a number from 1 to {_MOST:,}")
    return int(digits)


def _near(name: str, known: list[str]) -> str:
    folded = {fold(k): k for k in known}
    close = [folded[c] for c in get_close_matches(fold(name), list(folded), n=2, cutoff=0.5)]
    return ", ".join(map(repr, close or known[:2]))


def _named(name: str) -> Device | Node | None:
    """The node or the device of that name or alias; None without one."""
    if fold(name) in names_of(fabrics.nodes()):
        return fabrics.node(name)
    known = names_of(hardware.devices())
    return hardware.device(name) if fold(name) in known or hardware.without_maker(name) in known else None


def where(machines: "str | Device | Node | Cluster | Machines") -> Machines:
    """Read where something runs.

    Parameters
    ----------
    machines : str, Device, Node, Cluster or Machines
        ``"H100"``: devices of that kind, as many as it takes; ``"64 H100"`` or ``"2xB200"``: so many; ``"DGX-H100"``: one
        node with its network; ``"8 x DGX-H100"``: so many. Objects of the catalogue are read alike.

    Returns
    -------
    Machines
        ``device``, ``count`` (of devices, or None), ``node`` and ``cluster`` (None where no node is named).

    Raises
    ------
    InputError
        A number out of range, or something else than these.
    UnknownNameError
        With the nearest devices and the nearest nodes.

    >>> where("8 x DGX-H100").count, where("2xB200").device.name, where("H100").count
    (64, 'B200-SXM-180GB', None)
    """
    if isinstance(machines, Machines):
        return machines
    if isinstance(machines, Cluster):
        return Machines(machines.node.device, machines.devices, machines.node)
    if isinstance(machines, Node):
        return Machines(machines.device, machines.devices, machines)
    if isinstance(machines, Device):
        return Machines(machines)
    if not isinstance(machines, str):
        raise InputError(
            f"where: {str(machines)[:40]!r} is no place; give a device ('H100', '64 H100'), a node ('DGX-H100', "
            "'8 x DGX-H100'), or an object of the catalogue"
        )
    many, found, name = None, _named(machines), machines
    if found is None and (parts := _MANY.fullmatch(machines)) is not None:
        many, name = _number(parts[1], machines[:40]), parts[2].strip()
        found = _named(name)
    if found is None:
        raise _unknown(name)
    if isinstance(found, Node):
        return Machines(found.device, found.devices * (many or 1), found)
    return Machines(found, many)


def _unknown(name: Any) -> UnknownNameError:
    devices = [a for d in hardware.devices().values() for a in (d.name, *d.aliases)]
    nodes = [a for n in fabrics.nodes().values() for a in (n.name, *n.aliases)]
    text = str(name)[:60]
    return UnknownNameError(
        f"unknown device or node {text!r}; nearest devices {_near(text, devices)}, nearest nodes {_near(text, nodes)}; "
        "'64 H100' are 64 devices, '8 x DGX-H100' eight nodes with their network ('mlsysim devices' lists the devices)"
    )


def nodes_with(device: Device | str) -> tuple[Node, ...]:
    """Nodes of the catalogue that hold devices of that kind, in its order.

    >>> [n.name for n in nodes_with("H100")]
    ['DGX-H100', 'P5']
    """
    name = hardware.device(device).name
    return tuple(n for n in fabrics.nodes().values() if n.device.name == name)


def no_link(owner: str, device: Device, what: str, domain: int) -> str:
    """The error of devices that nothing joins: which argument is missing, and where a typical figure stands."""
    nodes = nodes_with(device)
    node = f", or a node with its network, as in '2 x {nodes[0].name}'" if nodes else ""
    shown = ", ".join(
        f"catalog.link({name!r}).bandwidth is {units.format(fabrics.link(name).bandwidth, 'byte/s')}"
        for name in ("PCIe-4-x16", "InfiniBand-NDR")
    )
    joined = f"do not fit a domain of {domain}" if domain > 1 else f"have no scale-up link ({device.name})"
    return (
        f"{owner}: inter_bandwidth is missing, and {what} {joined}; give the bandwidth between them per device, one way, in "
        f"byte/s ({shown}){node}"
    )
