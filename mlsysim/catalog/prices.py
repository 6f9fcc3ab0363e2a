"""Dated prices with their sources. A missing price raises an error; it never counts as 0."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mlsysim.catalog import entries, hardware, registry
from mlsysim.catalog.entries import Entry
from mlsysim.catalog.hardware import Device
from mlsysim.errors import InputError, UnknownNameError

PRICE_KINDS = ("purchase", "rental", "electricity", "rule")
OFFERS = (
    "on demand",
    "reserved",
    "spot",
    "estimate",
)  # of a rental: in which order one is taken where nobody says which
_UNITS = {
    "purchase": "USD",
    "rental": "USD/s",
    "electricity": "USD/J",
    "pue": "1",
    "cooling": "USD/W",
    "building": "USD/W",
    "staff_share": "1/s",
    "salary": "USD/s",
    "devices_per_engineer_low": "1",
    "devices_per_engineer_high": "1",
    "lifetime": "s",
    "multiplier": "1",
}


@dataclass(frozen=True, kw_only=True)
class Price(Entry, units=_UNITS):
    """A price at a date: a purchase in USD, a rental in USD/s of one device, electricity in USD/J."""

    kind: str
    date: str
    item: str = ""
    offer: str = ""  # of a rental: one of OFFERS
    term: str = ""  # of a contract
    seller: str = ""

    @property
    def words(self) -> str:
        """What one pays for: the kind of price, the contract, the seller and the date.

        >>> price("MI355X-three-years-2026").words
        'estimate of a contract of 3 years, 2026-03'
        """
        kind = self.offer or self.kind
        if self.offer == "reserved":
            kind += f" for {self.term}" if self.term else ", term not known"
        elif self.term:
            kind += f" of a contract of {self.term}"
        return ", ".join(filter(None, (kind, self.seller, self.date)))

    @property
    def value(self) -> float:
        """The price itself, in USD, USD/s or USD/J after its kind.

        >>> round(price("H100-AWS-block-2024").value * 3600, 3)  # USD per hour
        4.916
        """
        return self._value(self.kind)

    def __getitem__(self, name: str) -> float:
        """A figure of a rule, such as ``cooling``."""
        return self._value(name)


def read_price(name: str, raw: Any, file: str) -> Price:
    """A price from its table; errors name file, entry and field."""
    choices = {"kind": PRICE_KINDS} | ({"offer": OFFERS} if isinstance(raw, Mapping) and "offer" in raw else {})
    found = entries.read(Price, "prices", name, raw, file, needed=("kind", "date"), choices=choices)
    if (found.kind == "rental") != bool(found.offer):
        fix = f"say which of {', '.join(OFFERS)} it is" if found.kind == "rental" else "it is for rentals; leave it out"
        raise InputError(f"{file}: {name[:60]}: offer = {found.offer!r} of a price of kind {found.kind}; {fix}")
    if found.kind != "rule" and not found.has(found.kind):
        raise InputError(f"{file}: {name[:60]}: no {found.kind}; a price needs the figure of its kind")
    is_of_device = found.kind in ("purchase", "rental")
    return replace(found, item=hardware.device(found.item).name) if is_of_device else found


def load_prices(path: str | Path) -> dict[str, Price]:
    """Read prices from a TOML file in the catalogue's form: as data, never executed, of bounded size.

    Raises
    ------
    InputError, UnknownNameError
        Naming the file, the entry and the field, and how to mend it; a price of 0 is refused.
    """
    return entries.load(Path(path), read_price)


def prices() -> Mapping[str, Price]:
    """Every price of the catalogue, by name.

    >>> prices()["H100-purchase-2023-low"].value
    25000.0
    """
    return registry.joined("price", _prices())


@cache
def _prices() -> Mapping[str, Price]:
    return entries.LazyTable("price", "sites/prices.toml", read_price)


def price(name: str | Price) -> Price:
    """The price of that name; a Price is passed through.

    >>> price("us industrial 2023").date
    '2023'
    """
    return name if isinstance(name, Price) else entries.find("price", name, prices(), "'mlsysim prices' lists them")


def prices_of(device: str | Device, kind: str, offer: str | None = None) -> tuple[Price, ...]:
    """Every price of a device of that kind (``purchase`` or ``rental``), oldest first; of rentals also those of one offer.

    Raises
    ------
    UnknownNameError
        No such kind, or no such price: a missing price is an error, never 0.

    >>> [p.date for p in prices_of("B200", "purchase")]
    ['2024-10', '2024-10', '2026-06']
    """
    entries.choice(kind, ("purchase", "rental"), "kind of price", "prices_of")
    if offer is not None:
        entries.choice(offer, OFFERS, "offer", "prices_of")
    name = hardware.device(device).name
    every = [p for p in prices().values() if p.item == name and p.kind == kind]
    found = [p for p in every if offer in (None, p.offer)]
    if not found:
        others = f" (there are: {', '.join(dict.fromkeys(p.offer for p in every))})" if every else ""
        raise UnknownNameError(
            f"{name} has no {offer or kind} price in the catalogue{others}; give one of your own, with its date"
        )
    return tuple(sorted(found, key=lambda p: p.date))
