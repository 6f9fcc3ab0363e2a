"""Published costs as typed data: device-hours, the price that the source names, and the sum it prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlsysim import catalog
from mlsysim.catalog import Price, entries
from mlsysim.catalog.entries import Entry, figure
from mlsysim.catalog.sourced import shipped


@dataclass(frozen=True, kw_only=True)
class PublishedCost(Entry):
    """A published cost: device-seconds, a price of the catalogue, and USD."""

    model: str
    price: Price

    device_time = figure("s", "Device-seconds, as printed or from the printed steps.")
    cost = figure("USD", "USD, as printed.")


def _cost(name: str, raw: Any, file: str) -> PublishedCost:
    needed, made = ("model", "price", "device_time", "cost"), {"price": catalog.price}
    return entries.read(PublishedCost, "costs", name, raw, file, needed=needed, made=made)


@cache
def published_costs() -> Mapping[str, PublishedCost]:
    """All published costs, by name.

    >>> published_costs()["deepseek-v3"].cost
    5576000.0
    """
    return shipped(__package__, "costs.toml", _cost)
