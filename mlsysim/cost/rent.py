"""What a device costs by the hour: a price that somebody says with its unit, or a dated one of the catalogue."""

from dataclasses import dataclass

from mlsysim import catalog, units
from mlsysim.catalog import Device, Price
from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.results import Result

CALLER = "given by the caller"
_POSITIVE = Domain.of(POSITIVE)


@dataclass(frozen=True)
class Rent(Result):
    """The rental price of a device and its seller."""

    rate: float  # USD/s of one device
    origin: str
    others: tuple[Price, ...] = ()  # the catalogue's other prices of the same device


def rent_of(device: Device, price: "str | Price | None") -> Rent | None:
    """The given price, or else the catalogue's newest rental price of the device; None without either.

    >>> rent_of(catalog.device("H100"), "2.5 USD/h").rate * 3600
    2.5
    """
    if isinstance(price, str) and price[:1] in "-+.0123456789":
        rate = units.parse(price, "USD/s", "price")
        check_argument("price", "price", rate, "USD/s", _POSITIVE)
        return Rent(rate, CALLER)
    if price is not None and not isinstance(price, (str, Price)):
        raise InputError(
            f"price = {repr(price)[:40]} has no unit; write it as in '2.5 USD/h', or name a price of the catalogue"
        )
    if price is not None:
        named = catalog.price(price)
        if named.kind != "rental":
            raise InputError(
                f"price = {named.name!r} is one of kind {named.kind!r}; name a rental price, or write it as in '2.5 USD/h'"
            )
        return Rent(named.value, f"{named.name}, {named.date}")
    try:
        known = catalog.prices_of(device, "rental")
    except UnknownNameError:
        return None
    return Rent(known[-1].value, f"{known[-1].name}, {known[-1].date}", known[:-1])
