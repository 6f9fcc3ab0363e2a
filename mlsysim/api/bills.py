"""Cost and power of devices, from dated prices and thermal design powers; a missing price is None, never 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import cost, energy, units
from mlsysim.catalog import Device
from mlsysim.cost.rent import Rent

_MILLION = 1e6


@dataclass(frozen=True)
class Bill:
    """Money and energy of so many devices; None where a figure is missing."""

    device: Device
    devices: int
    rent: Rent | None
    pue: float
    token_rate: float | None = None  # of all devices together

    @property
    def cost_rate(self) -> float | None:
        """USD/s of all devices."""
        return None if self.rent is None else float(cost.rental_cost(self.devices, 1.0, self.rent.rate))

    @property
    def power(self) -> float | None:
        """At most, W: thermal design power of the devices, times the PUE."""
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
        """Cost and energy in two lines."""
        money, power = "cost: the catalogue has no rental price of it; give price='2.5 USD/h'", "energy: no TDP known"
        if self.rent is not None and self.cost_rate is not None:
            total = f"{self.cost_rate * time:,.0f} USD in all, " if time is not None else ""
            per = "" if self.cost_per_token is None else f", {self.cost_per_token * _MILLION:,.4g} USD per million {of}"
            money = f"cost: {total}{self.cost_rate * 3600:.4g} USD/h{per} at {self.rent.rate * 3600:.4g} USD/h a device ({self.rent.origin})"
            if self.rent.others:
                rates = sorted(p.value * 3600 for p in self.rent.others)
                money += f"; others asked {rates[0]:.3g}" + (f" to {rates[-1]:.3g}" if len(rates) > 1 else "")
        if self.power is not None:
            total = f"{self.power * time / units.MWh:.4g} MWh in all, " if time is not None else ""
            per = (
                ""
                if self.energy_per_token is None
                else f", {self.energy_per_token * _MILLION / units.kWh:.3g} kWh per million {of}"
            )
            power = f"energy: at most {total}{units.format(self.power, 'W')}{per} (thermal design power, PUE {self.pue:g}, no hosts)"
        return money, power

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        return {
            "devices": self.devices,
            "price_usd_per_device_s": None if self.rent is None else self.rent.rate,
            "price_origin": None if self.rent is None else self.rent.origin,
            "cost_usd_per_s": self.cost_rate,
            "cost_usd_per_token": self.cost_per_token,
            "power_w": self.power,
            "energy_j_per_token": self.energy_per_token,
            "pue": self.pue,
        }
