"""Published costs as typed data: device-hours, the price that the source names, and the sum it prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any

from mlsysim import catalog
from mlsysim.catalog import Price, entries
from mlsysim.catalog.entries import Entry

_UNITS = {"device_time": "s", "cost": "USD"}


@dataclass(frozen=True, kw_only=True)
class PublishedCost(Entry):
    """A published cost: device-seconds, a price of the catalogue, and USD."""

    model: str
    price: Price

    @property
    def device_time(self) -> float:
        """Device-seconds, as printed or from the printed steps."""
        return self._value("device_time")

    @property
    def cost(self) -> float:
        """USD, as printed."""
        return self._value("cost")


def _cost(name: str, raw: Any, file: str) -> PublishedCost:
    words, aliases, fields = entries.parts(
        name, raw, file, "costs", _UNITS, ("model", "price", "notes"), ("model", "price", *_UNITS)
    )
    words_of = {key: words[key] for key in ("model", "notes")}
    return PublishedCost(
        name=name, aliases=aliases, fields=MappingProxyType(fields), price=catalog.price(words["price"]), **words_of
    )


@cache
def published_costs() -> Mapping[str, PublishedCost]:
    """All published costs, by name.

    >>> published_costs()["deepseek-v3"].cost
    5576000.0
    """
    with as_file(files(__package__) / "costs.toml") as path:
        return MappingProxyType(entries.load(path, _cost))
