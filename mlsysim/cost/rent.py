"""What a device costs by the hour: a price that somebody says with its unit, or a dated one of the catalogue."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlsysim import catalog, units
from mlsysim.catalog import Device, Price
from mlsysim.catalog.prices import OFFERS
from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.results import Result

CALLER = "given by the caller"
_POSITIVE = Domain.of(POSITIVE)


@dataclass(frozen=True)
class Rent(Result):
    """The rental price of a device, what kind of price it is, and its seller."""

    rate: float  # USD/s of one device
    origin: str
    others: tuple[Price, ...] = ()  # the catalogue's other prices of the same device
    price: Price | None = None  # of the catalogue; None where the caller gave one

    @property
    def kind(self) -> str:
        """The kind of price in words: on demand, reserved with its term, spot, estimate; or whose it is."""
        return self.origin if self.price is None else self.price.words


def rent_of(device: Device, price: "str | Price | None") -> Rent | None:
    """The given price, or the catalogue's newest of the kind that is named, or else of the first of OFFERS; None without any.

    >>> rent_of(catalog.device("H100"), "2.5 USD/h").rate * 3600
    2.5
    >>> rent_of(catalog.device("H200"), "estimate").kind
    'estimate of a contract of 3 years, 2026-03'
    """
    if isinstance(price, str) and price[:1] in "-+.0123456789":
        rate = units.parse(price, "USD/s", "price")
        check_argument("price", "price", rate, "USD/s", _POSITIVE)
        return Rent(rate, CALLER)
    if price is not None and not isinstance(price, (str, Price)):
        raise InputError(
            f"price = {repr(price)[:40]} has no unit; write it as in '2.5 USD/h', or name a price of the catalogue or a kind of "
            f"price: {', '.join(OFFERS)}"
        )
    if price is not None and price not in OFFERS:
        named = catalog.price(price)
        if named.kind != "rental":
            raise InputError(
                f"price = {named.name!r} is one of kind {named.kind!r}; name a rental price, or write it as in '2.5 USD/h'"
            )
        return Rent(named.value, f"{named.name}, {named.date}", price=named)
    try:
        known = catalog.prices_of(device, "rental")
    except UnknownNameError:
        if price is not None:
            raise
        return None
    offer = next(o for o in OFFERS if any(p.offer == o for p in known)) if price is None else str(price)
    newest = catalog.prices_of(device, "rental", offer)[-1]
    return Rent(newest.value, f"{newest.name}, {newest.date}", tuple(p for p in known if p is not newest), newest)


def same_kind(devices: Sequence[Device]) -> str | None:
    """The first of OFFERS that the catalogue has of every device; None where they have none in common.

    >>> same_kind([catalog.device("H200"), catalog.device("MI355X")])
    'on demand'
    """
    return next((offer for offer in OFFERS if all(_sold(d, offer) for d in devices)), None)


def rents_of(devices: Sequence[Device], price: "str | Price | None" = None) -> tuple[Rent, ...] | None:
    """A rent of every device, all of one kind, and of one seller where one sells them all; None where there is no such kind.

    Parameters
    ----------
    devices : sequence of Device
        What is compared.
    price : str, optional
        A price with its unit for each of them, or a kind of price (default: the first that the catalogue has of all).
    """
    if price is not None and price not in OFFERS:
        if not (isinstance(price, str) and price[:1] in "+.0123456789"):
            raise InputError(
                f"price = {str(price)[:40]!r} is that of one device; to compare some give a kind of price ({', '.join(OFFERS)}), or one "
                "rent for all, as in '2.5 USD/h'"
            )
        return tuple(rent for d in devices if (rent := rent_of(d, price)))
    offer = str(price) if price is not None else same_kind(devices)
    if offer is None:
        return None
    lists = [catalog.prices_of(d, "rental", offer) for d in devices]
    for alike in (lambda p: (p.term, p.seller), lambda p: (p.term,)):  # of one term, and of one seller if it can be
        common = set.intersection(*(set(map(alike, found)) for found in lists))
        newest = {c: [[p for p in found if alike(p) == c][-1] for found in lists] for c in common}
        if newest:
            chosen = newest[max(common, key=lambda c: (min(p.date for p in newest[c]), c))]
            return tuple(Rent(p.value, f"{p.name}, {p.date}", price=p) for p in chosen)
    return None


def _sold(device: Device, offer: str) -> bool:
    return any(p.item == device.name and p.offer == offer for p in catalog.prices().values())
