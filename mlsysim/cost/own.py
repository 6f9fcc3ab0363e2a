"""Owning machines, part by part, and owning against renting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsysim import energy, units
from mlsysim._numeric import Num, all_true, is_array, where, widening
from mlsysim.cost import choice, ownership
from mlsysim.equations import Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.results import (
    CALLER,
    Explanation,
    Input,
    Result,
    Term,
    Terms,
    format_rows,
    format_value,
    share,
    top_shares,
)

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# What owning a cluster is paid for.
PARTS = ("capital", "power", "cooling", "building", "staff", "network")


@dataclass(frozen=True)
class Ownership(Result):
    """What :func:`own` returns: USD per second of all devices, by part; ``rates`` sum to ``rate``."""

    NUMBERS = (
        "devices rates_usd_per_s rate_usd_per_s working_rate_usd_per_s idle_rate_usd_per_s device_rate_usd_per_s "
        "device_rate_usd_per_h=device_rate_per_h purchase_usd"
    )

    devices: Num
    rates: Mapping[str, Num]
    rate: Num  # at the utilisation that was asked for
    working_rate: Num  # while the devices work
    idle_rate: Num  # while they wait
    purchase: Num  # paid at the start
    terms: tuple[Term, ...]
    inputs: tuple[Input, ...]

    @property
    def device_rate(self) -> Num:
        """USD per second and device."""
        return self.rate / self.devices

    def cost(self, time: Num) -> Num:
        """Total cost of owning for that time, USD."""
        return ownership.total_cost(**self.rates, time=time)

    @property
    def device_rate_per_h(self) -> Num:
        """Of a device, USD/h."""
        return self.device_rate * units.hour

    def summary(self) -> list[str]:
        known = any(i.name == "idle_power" for i in self.inputs)
        return format_rows(
            f"{format_value(self.device_rate, 'USD/s')} to own a device; {format_value(self.devices, '1')} devices: {format_value(self.rate, 'USD/s')}",
            ("parts", top_shares(self.rates, 6)),
            ("at work", format_value(self.working_rate, "USD/s")),
            ("idle", format_value(self.idle_rate, "USD/s") + ("" if known else " at most: idle power not known")),
            ("purchase", f"{format_value(self.purchase, 'USD')} at the start"),
            ("a year", format_value(self.cost(units.year), "USD")),
        )

    def chart(self) -> "Drawing | None":
        """The parts of the rate as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms("cost of owning", self.rates, "cost", "USD/s")

    def explain(self) -> Explanation:
        """Each part with its equation, the numbers in it, and the source of each input."""
        hour = units.format(self.device_rate_per_h, "1")
        year = {**self.rates, "time": units.year}
        return Explanation(
            f"owned: {hour} USD per device and hour",
            (*self.terms, Term("a year of all", self.cost(units.year), "eq-tco", year)),
            self.inputs,
        )


def _inputs(figures: Sequence[Any], origins: Mapping[str, str]) -> tuple[Input, ...]:
    return tuple(
        Input(n, v, u, origins.get(n, CALLER)) for (n, u), v in zip(_GIVEN, figures, strict=True) if v is not None
    )


@widening
def ownership_cost(
    devices: Num,
    *,
    price: Num,
    lifetime: Num,
    power: Num,
    pue: Num,
    electricity_price: Num,
    cooling: Num,
    building: Num,
    plant_lifetime: Num,
    devices_per_engineer: Num,
    salary: Num,
    network: Num,
    idle_power: Num | None = None,
    utilisation: Num = 1.0,
    salvage: Num = 0.0,
    interest: Num | None = None,
    origins: Mapping[str, str] | None = None,
) -> Ownership:
    """Cost of owning devices, per second and by part. No part has a default price; pass 0 for a free one.

    Parameters
    ----------
    devices : float or array
        Devices owned.
    price : float or array, USD
        Price of a device with its share of the server.
    lifetime : float or array, s
        Time over which it is paid off, as in ``"4 year"``.
    power : float or array, W
        Power of a working device with its share of the server.
    pue : float or array
        Power usage effectiveness (facility / IT energy).
    electricity_price : float or array, USD/J
        Price of electricity, as in ``"0.08 USD/kWh"``.
    cooling : float or array, USD/W
        Price of the cooling plant per watt of IT power.
    building : float or array, USD/W
        Price of the building with its power distribution per watt of IT power.
    plant_lifetime : float or array, s
        Time over which plant and building are paid off.
    devices_per_engineer : float or array
        Devices that one person looks after.
    salary : float or array, USD/s
        Pay of that person, as in ``"200000 USD/year"``.
    network : float or array, USD
        Price of the network per device, paid off like the devices.
    idle_power : float or array, W, optional
        Power of a waiting device with its share of the server (default: the same as working).
    utilisation : float or array, 1, [0, 1]
        Share of the time in which the devices work; it moves nothing but the power.
    salvage : float or array, USD
        What a device still brings at the end (straight line only).
    interest : float or array, optional
        Interest per year: equal payments (eq-capital-recovery) instead of a straight line.
    origins : mapping, optional
        Where the numbers came from, by name, for ``explain()``.

    Returns
    -------
    Ownership

    Raises
    ------
    InputError
        A value out of range; salvage together with an interest rate, or above the price.

    >>> year = 365.25 * 86400
    >>> o = ownership_cost(8, price=30e3, lifetime=4 * year, power=1000.0, pue=1.25, electricity_price=0.08 / 3.6e6, cooling=1.5,
    ...         building=1.0, plant_lifetime=15 * year, devices_per_engineer=1000, salary=200e3 / year, network=3e3)
    >>> round(o.device_rate * 3600, 3)  # USD per hour
    1.083
    """
    if interest is not None and not all_true(salvage == 0):
        raise InputError("own: salvage goes with a straight line; with an interest rate give the price less its worth")
    if not all_true(salvage <= price):
        raise InputError(f"own: salvage = {salvage} lies above price = {price}; give what a device brings at the end")
    check_argument("own", "devices", devices, "1", Domain.of("(0, inf)"))
    rest = power if idle_power is None else idle_power
    terms = Terms()

    def paid(name: str, amount: Num, over: Num, left: Num = 0.0) -> Num:
        given = {"price": amount, "lifetime": over}
        if interest is None:
            return terms(name, ownership.straight_line, **given, salvage=left)
        return terms(name, ownership.capital_recovery, **given, interest=interest, period=units.year)

    def current(watts: Num) -> dict[str, Num]:
        return {"it_power": devices * watts, "pue": pue, "electricity_price": electricity_price}

    rates = {"capital": paid("capital", devices * price, lifetime, devices * salvage)}
    rates["power"] = electricity = terms(
        "power", ownership.power_cost, **current(energy.device_power(rest, power, utilisation))
    )
    rates["cooling"] = paid("cooling", devices * power * cooling, plant_lifetime)
    rates["building"] = paid("building", devices * power * building, plant_lifetime)
    people = {"devices": devices, "devices_per_engineer": devices_per_engineer, "salary": salary}
    rates["staff"] = terms("staff", ownership.staff_cost, **people)
    rates["network"] = paid("network", devices * network, lifetime)
    total = ownership.total_cost(**rates, time=1.0)
    figures = (
        devices, price, lifetime, power, idle_power, utilisation, pue, electricity_price, cooling, building, plant_lifetime,
        devices_per_engineer, salary, network, salvage, interest,
    )  # fmt: skip
    return Ownership(
        devices=devices,
        rates=rates,
        rate=total,
        working_rate=total - electricity + ownership.power_cost(**current(power)),
        idle_rate=total - electricity + ownership.power_cost(**current(rest)),
        purchase=devices * (price + network + power * (cooling + building)),
        terms=tuple(terms),
        inputs=_inputs(figures, origins or {}),
    )


# Name and unit of what an explanation lists as given.
_GIVEN = (
    ("devices", "1"), ("price", "USD"), ("lifetime", "s"), ("power", "W"), ("idle_power", "W"), ("utilisation", "1"), ("pue", "1"),
    ("electricity_price", "USD/J"), ("cooling", "USD/W"), ("building", "USD/W"), ("plant_lifetime", "s"),
    ("devices_per_engineer", "1"), ("salary", "USD/s"), ("network", "USD"), ("salvage", "USD"), ("interest", "1"),
)  # fmt: skip


@dataclass(frozen=True)
class OwnOrRent(Result):
    """What :func:`own_or_rent` returns, per device: rates in USD/s, the break-even use and time (inf: never)."""

    NUMBERS = (
        "owned_usd_per_s=owned_rate rented_usd_per_s=rented_rate utilisation break_even_utilisation break_even_time_s "
        "cheaper"
    )

    owned_rate: Num
    rented_rate: Num
    utilisation: Num
    break_even_utilisation: Num
    break_even_time: Num
    cheaper: Any  # "own" or "rent"; an array of them for an array
    terms: tuple[Term, ...]
    inputs: tuple[Input, ...]

    def summary(self) -> list[str]:
        said = f"{self.cheaper} is cheaper" if isinstance(self.cheaper, str) else "own against rent"
        return format_rows(
            f"{said} at a use of {share(self.utilisation)}: owned {format_value(self.owned_rate, 'USD/s')}, rented "
            f"{format_value(self.rented_rate, 'USD/s')} per device",
            ("break-even use", _share_or_never(self.break_even_utilisation)),
            ("break-even time", _or_never(self.break_even_time)),
        )

    def chart(self) -> "Drawing | None":
        """Both rates as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms("per device", {"owned": self.owned_rate, "rented": self.rented_rate}, "cost", "USD/s")

    def explain(self) -> Explanation:
        """Both rates and both break-even points, with the numbers in them."""
        said = self.cheaper if isinstance(self.cheaper, str) else "see each"
        return Explanation(f"cheaper at this use: {said}", self.terms, self.inputs)


def _or_never(time: Num) -> str:
    return "never" if not is_array(time) and time == float("inf") else format_value(time, "s")


def _share_or_never(use: Num) -> str:
    return "never: renting is cheaper at every use" if not is_array(use) and use > 1 else share(use)


@widening
def own_or_rent(owned: Ownership, rental_rate: Num, utilisation: Num = 1.0) -> OwnOrRent:
    """Compare owning with renting the same device only while it is used.

    Parameters
    ----------
    owned : Ownership
        From :func:`own`, with its working power and, if the owner saves electricity while it waits, its idle power.
    rental_rate : float or array, USD/s
        Of one device; 1 USD/h is 1/3600 USD/s.
    utilisation : float or array
        Share of the time in which a device is used.

    Returns
    -------
    OwnOrRent
        With ``inf`` where renting is cheaper at any use, or where rent saved never pays for the purchase.

    >>> year = 365.25 * 86400
    >>> o = ownership_cost(1, price=30e3, lifetime=4 * year, power=1000.0, pue=1.25, electricity_price=0.08 / 3.6e6, cooling=1.5,
    ...         building=1.0, plant_lifetime=15 * year, devices_per_engineer=1000, salary=200e3 / year, network=3e3)
    >>> c = own_or_rent(o, 2.0 / 3600, 0.5)
    >>> round(c.break_even_utilisation, 3), c.cheaper
    (0.541, 'rent')
    """
    check_argument("own_or_rent", "rental_rate", rental_rate, "USD/s", Domain.of("(0, inf)"))
    check_argument("own_or_rent", "utilisation", utilisation, "1", Domain.of("[0, 1]"))
    fixed = owned.idle_rate / owned.devices
    full = owned.working_rate / owned.devices
    extra = full - fixed  # what working costs the owner more than waiting
    saving = rental_rate - extra
    owned_rate = fixed + utilisation * extra
    terms, rental = Terms(), {"devices": 1.0, "time": utilisation, "rental_rate": rental_rate}
    rented_rate = terms("rent per second held", choice.rental_cost, **rental)
    running = owned_rate - (owned.rates["capital"] + owned.rates["network"]) / owned.devices
    running = running - (owned.rates["cooling"] + owned.rates["building"]) / owned.devices
    spare = rented_rate - running
    share = _guarded(terms, "use at break-even", choice.break_even_utilisation, "fixed_rate", fixed, saving)
    bought = owned.purchase / owned.devices
    time = _guarded(terms, "time to break-even", choice.break_even_time, "price", bought, spare)
    return OwnOrRent(
        owned_rate=owned_rate,
        rented_rate=rented_rate,
        utilisation=utilisation,
        break_even_utilisation=share,
        break_even_time=time,
        cheaper=where(owned_rate < rented_rate, "own", "rent"),
        terms=tuple(terms),
        inputs=(
            Input("rental_rate", rental_rate, "USD/s"),
            Input("utilisation", utilisation, "1"),
            Input("owned, working", full, "USD/s", "own"),
            Input("owned, waiting", fixed, "USD/s", "own"),
        ),
    )


def _guarded(terms: Terms, name: str, function: Callable[..., Num], argument: str, value: Num, saving: Num) -> Num:
    """A break-even point, and infinity where nothing is saved."""
    saves = saving > 0
    noted = terms if all_true(saves) else Terms()
    found = noted(name, function, **{argument: value}, saving_rate=where(saves, saving, 1.0))
    return where(saves, found, float("inf"))
