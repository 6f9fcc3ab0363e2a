"""Published energies and emissions as typed data: the inputs that were printed, the result, and how it came about."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlsysim.catalog import entries
from mlsysim.catalog.entries import Entry
from mlsysim.catalog.sourced import shipped

GROUPS = ("metered", "average power", "tdp")
_UNITS = {
    "devices": "1",
    "device_time": "s",
    "time": "s",
    "batch": "1",
    "tokens": "1",
    "parameters": "1",
    "token_rate": "token/s",
    "power": "W",
    "nameplate": "W",
    "power_share": "1",
    "peak_share": "1",
    "pue": "1",
    "carbon_intensity": "kg/J",
    "energy": "J",
    "device_energy": "J",
    "idle_energy": "J",
    "device_share": "1",
    "host_share": "1",
    "idle_share": "1",
    "facility_share": "1",
    "carbon": "kg",
    "idle_carbon": "kg",
    "total_carbon": "kg",
    "water": "L",
    "servers": "1",
    "server_embodied": "kg",
    "device_embodied": "kg",
    "idle_power": "W",
    "lifetime": "s",
    "busy_share": "1",
    "requests": "1",
}


@dataclass(frozen=True, kw_only=True)
class PublishedFootprint(Entry, units=_UNITS):
    """One published footprint: ``published("energy")`` is the figure in SI units, ``method`` how it came about."""

    group: str
    model: str
    method: str

    def published(self, name: str) -> float:
        """A printed figure in SI units; one that is not printed raises."""
        return self._value(name)

    @property
    def device_time(self) -> float:
        """Device-seconds: as printed, or devices times time."""
        if self.has("device_time"):
            return self._value("device_time")
        return self._value("devices") * self._value("time")


def _footprint(name: str, raw: Any, file: str) -> PublishedFootprint:
    needed = ("group", "model", "method")
    return entries.read(PublishedFootprint, "footprints", name, raw, file, needed=needed, choices={"group": GROUPS})


@cache
def published_footprints() -> Mapping[str, PublishedFootprint]:
    """All published footprints, by name.

    >>> round(published_footprints()["gpt-3"].published("energy") / 3.6e9)  # MWh
    1287
    """
    return shipped(__package__, "footprints.toml", _footprint)


def published_footprint(name: str) -> PublishedFootprint:
    """The published footprint of that name."""
    return entries.find("published footprint", name, published_footprints())
