"""Cost and power of devices, from dated prices and thermal design powers; a missing price is None, never 0."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import cost, energy, units
from mlsysim.catalog import Device, Machines, Node
from mlsysim.catalog.machines import nodes_with
from mlsysim.catalog.prices import OFFERS
from mlsysim.cost.rent import Rent

_MILLION = 1e6


@dataclass(frozen=True)
class WholeNodes:
    """The nodes that hold so many replicas, and the devices in them that idle."""

    node: Node
    count: int
    idle: int
    named: bool  # whether the question names the node: then whole nodes are rented

    @property
    def devices(self) -> int:
        return self.count * self.node.devices

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {"node": self.node.name, "nodes": self.count, "devices": self.devices, "idle": self.idle}


def whole_nodes(machines: Machines, replicas: int, each: int) -> WholeNodes | None:
    """The nodes that hold some replicas of so many devices each: those named, else the smallest of the catalogue; None without any.

    A replica that fits a node is not cut in two.

    >>> from mlsysim import catalog
    >>> found = whole_nodes(catalog.where("4 x DGX-H200"), 18, 1)
    >>> found.count, found.idle
    (3, 6)
    >>> whole_nodes(catalog.where("H200"), 5, 3).count  # two replicas of three in a node of eight
    3
    """
    node = machines.node or min(nodes_with(machines.device), key=lambda n: n.devices, default=None)
    if node is None:
        return None
    size = node.devices
    count = math.ceil(replicas / (size // each)) if each <= size else replicas * math.ceil(each / size)
    return WholeNodes(node, count, count * size - replicas * each, machines.node is not None)


@dataclass(frozen=True)
class Bill:
    """Money and energy of so many devices; None where a figure is missing."""

    device: Device
    devices: int  # that work
    rent: Rent | None
    pue: float
    token_rate: float | None = None  # of all devices together
    whole: WholeNodes | None = None

    @property
    def rented(self) -> int:
        """Devices that are paid: those of whole nodes where the question names a node."""
        return self.whole.devices if self.whole is not None and self.whole.named else self.devices

    @property
    def cost_rate(self) -> float | None:
        """USD/s of all devices that are rented."""
        return self._rate(self.rented)

    def _rate(self, devices: int) -> float | None:
        return None if self.rent is None else float(cost.rental_cost(devices, 1.0, self.rent.rate))

    @property
    def cost_per_month(self) -> float | None:
        """USD a month, which is a twelfth of a year, paid by the hour and never given back."""
        return None if self.cost_rate is None else self.cost_rate * units.month

    @property
    def power(self) -> float | None:
        """At most, W: thermal design power of the devices that work, times the PUE."""
        if not self.device.has("tdp"):
            return None
        return float(energy.facility_energy(energy.it_power(self.devices, self.device.tdp), 1.0, self.pue))

    @property
    def cost_per_token(self) -> float | None:
        """USD per token."""
        if self.cost_rate is None or not self.token_rate:
            return None
        return float(cost.cost_per_token(self.cost_rate, self.token_rate))

    @property
    def energy_per_token(self) -> float | None:
        """At most, J per token."""
        return None if self.power is None or not self.token_rate else self.power / self.token_rate

    def lines(self, of: str = "output tokens", time: float | None = None) -> Sequence[str]:
        """Cost, with the kind of its price, and energy; of replicas also the nodes that hold them."""
        money, power = "cost: the catalogue has no rental price of it; give price='2.5 USD/h'", "energy: no TDP known"
        if self.rent is not None and self.cost_rate is not None:
            hour = f"{units.rounded(self.cost_rate * units.hour)} USD/h"
            month = f", {units.rounded(self.cost_rate * units.month)} USD a month"
            total = f"{units.rounded(self.cost_rate * time)} USD in all, {hour}" if time is not None else hour + month
            per = "" if self.cost_per_token is None else f", {self.cost_per_token * _MILLION:,.3g} USD per million {of}"
            each = f"{units.rounded(self.rent.rate * units.hour)} USD/h a device"
            money = f"cost: {total}{per} ({each}, {self.rent.kind}{self._on_demand()})"
        if self.power is not None:
            total = f"{self.power * time / units.MWh:.3g} MWh in all, " if time is not None else ""
            per = (
                ""
                if self.energy_per_token is None
                else f", {self.energy_per_token * _MILLION / units.kWh:.3g} kWh per million {of}"
            )
            idle = "; of idle devices not known" if self.whole is not None and self.whole.idle else ""
            power = f"energy: at most {total}{units.format(self.power, 'W', 3)}{per} (TDP, PUE {self.pue:g}, no hosts{idle})"
        return [money, *self._node_lines(), power]

    def _on_demand(self) -> str:
        """Of a price of another kind, what it costs on demand, if anybody says."""
        if self.rent is None or self.rent.price is None or self.rent.price.offer == OFFERS[0]:
            return ""
        asked = [p.value * units.hour for p in self.rent.others if p.offer == OFFERS[0]]
        return f"; {OFFERS[0]} {units.rounded(asked[-1])}" if asked else f"; no price {OFFERS[0]} is known"

    def _node_lines(self) -> list[str]:
        """How many whole nodes hold the devices, what idles in them, and what they cost together."""
        whole = self.whole
        if whole is None or (not whole.idle and not whole.named):
            return []
        rate = self._rate(whole.devices)
        cost_of = "" if rate is None or whole.named else f": whole {units.rounded(rate * units.month)} USD a month"
        return [f"nodes: {whole.count:,} x {whole.node.name}, {whole.idle} of {whole.devices} devices idle{cost_of}"]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        return {
            "devices": self.devices,
            "rented_devices": self.rented,
            "price_usd_per_device_s": None if self.rent is None else self.rent.rate,
            "price_origin": None if self.rent is None else self.rent.origin,
            "price_kind": None if self.rent is None else self.rent.kind,
            "cost_usd_per_s": self.cost_rate,
            "cost_usd_per_month": self.cost_per_month,
            "cost_usd_per_token": self.cost_per_token,
            "power_w": self.power,
            "energy_j_per_token": self.energy_per_token,
            "pue": self.pue,
            "whole_nodes": None if self.whole is None else self.whole.to_dict(),
        }
