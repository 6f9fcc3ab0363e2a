"""Dollars per second of owning machines: their price over their life, power, plant, staff; and the factor of 001's rule.

Everything recurring is in USD per second, so that nothing per year can be added to something per run.
"""

from mlsysim import units
from mlsysim._numeric import Num, expm1, log1p
from mlsysim.equations import POSITIVE, equation

PUE = "[1, inf)"


@equation(
    "eq-straight-line",
    formula="(price - salvage) / lifetime",
    domain={"lifetime": POSITIVE},
    relations=("salvage <= price",),
)
def straight_line(price: Num, lifetime: Num, salvage: Num = 0.0) -> Num:
    """What a purchase costs per second of its life, without interest.

    Formula: c = (price - salvage) / lifetime.

    Parameters
    ----------
    price : float or array, USD
        Paid at the start.
    lifetime : float or array, s
        From installing to scrapping or selling.
    salvage : float or array, USD
        What it still brings at the end.

    Returns
    -------
    float or array, USD/s

    Assumptions: money costs nothing; every second bears the same.

    >>> round(straight_line(26298.0, 3 * 365.25 * 86400) * 3600, 6)  # USD per hour
    1.0

    Source: barroso2018datacenter, depreciation of servers in the model of total cost.
    """
    return (price - salvage) / lifetime


@equation(
    "eq-capital-recovery",
    formula="price * interest / (-expm1(-lifetime / period * log1p(interest))) / period",
    domain={"lifetime": POSITIVE, "interest": "(0, 1]", "period": POSITIVE},
)
def capital_recovery(price: Num, lifetime: Num, interest: Num, period: Num = units.year) -> Num:
    """What a purchase costs per second of its life when money bears interest: equal payments that repay it.

    Formula: c = price x interest / (1 - (1 + interest)^(-lifetime/period)) / period.

    Parameters
    ----------
    price : float or array, USD
        Paid at the start.
    lifetime : float or array, s
        Over which it is repaid; nothing is left at the end.
    interest : float or array, 1
        Per period, above 0; without interest use eq-straight-line.
    period : float or array, s
        Time between payments; a year unless given.

    Returns
    -------
    float or array, USD/s

    Assumptions: payments at the end of each period, a constant interest.

    >>> year = 365.25 * 86400
    >>> round(capital_recovery(1000.0, 3 * year, 0.10) * year, 2)  # USD per year
    402.11

    Source: short1995economics, the uniform capital recovery factor.
    """
    repaid = -expm1(-lifetime / period * log1p(interest))  # 1 - (1 + i)^(-n), exact where n times i is small
    return price * interest / repaid / period


@equation("eq-power-cost", formula="it_power * pue * electricity_price", domain={"pue": PUE})
def power_cost(it_power: Num, pue: Num, electricity_price: Num) -> Num:
    """Electricity cost per second.

    Formula: c = it_power x PUE x electricity_price.

    Parameters
    ----------
    it_power : float or array, W
        Mean power of the IT equipment.
    pue : float or array, 1
        Power usage effectiveness of the facility, at least 1: the electricity of the cooling is in it.
    electricity_price : float or array, USD/J
        1 USD/kWh is 1/3.6e6 USD/J.

    Returns
    -------
    float or array, USD/s

    Assumptions: one price at all hours; no charge for the highest demand.

    >>> round(power_cost(1000.0, 1.5, 0.10 / 3.6e6) * 3600, 6)  # USD per hour
    0.15

    Source: reddi2026mathpage, sec. 5, OpEx of power.
    """
    return it_power * pue * electricity_price


@equation("eq-staff-cost", formula="devices / devices_per_engineer * salary", domain={"devices_per_engineer": POSITIVE})
def staff_cost(devices: Num, devices_per_engineer: Num, salary: Num) -> Num:
    """Staff cost per second.

    Formula: c = devices / devices_per_engineer x salary.

    Parameters
    ----------
    devices : float or array, 1
        Devices that are looked after.
    devices_per_engineer : float or array, 1
        How many one person looks after.
    salary : float or array, USD/s
        Of one person, with everything that the employer pays.

    Returns
    -------
    float or array, USD/s

    Assumptions: parts of a person can be hired.

    >>> year = 365.25 * 86400
    >>> round(staff_cost(1000, 1000, 200e3 / year) * year)  # USD per year
    200000

    Source: barroso2018datacenter, operational expenses in the model of total cost; salary and devices per engineer are arguments.
    """
    return devices / devices_per_engineer * salary


@equation("eq-tco", formula="(capital + power + cooling + building + staff + network) * time")
def total_cost(capital: Num, power: Num, cooling: Num, building: Num, staff: Num, network: Num, time: Num) -> Num:
    """Total cost of owning machines for some time, from the rates of its parts.

    Formula: TCO = (capital + power + cooling + building + staff + network) x time.

    Parameters
    ----------
    capital : float or array, USD/s
        Accelerators and servers, amortised (eq-straight-line or eq-capital-recovery).
    power : float or array, USD/s
        Electricity, that of the cooling included.
    cooling : float or array, USD/s
        The cooling plant, amortised; not its electricity.
    building : float or array, USD/s
        Building and power distribution, amortised, or rent.
    staff : float or array, USD/s
        People.
    network : float or array, USD/s
        Switches, cables and optics, amortised.
    time : float or array, s
        How long the machines are held, busy or not.

    Returns
    -------
    float or array, USD

    Assumptions: rates do not change; no taxes, no software, no insurance.

    >>> total_cost(2.0, 0.5, 0.125, 0.125, 0.125, 0.25, 8.0)
    25.0

    Source: reddi2026mathpage, sec. 5, with every part as a rate.
    """
    return (capital + power + cooling + building + staff + network) * time


@equation(
    "eq-tco-multiplier",
    formula="1 + (power * pue * electricity_price * time + payments * (cooling + building) * power) / price"
    " + staff_share * time",
    domain={"price": POSITIVE, "pue": PUE},
)
def tco_multiplier(
    price: Num,
    power: Num,
    time: Num,
    pue: Num,
    electricity_price: Num,
    cooling: Num,
    building: Num,
    staff_share: Num,
    payments: Num = 1.0,
) -> Num:
    """Total cost of owning a device over its price, as a rule of thumb puts it together.

    Formula: m = 1 + (power PUE electricity_price time + payments (cooling + building) power) / price + staff_share time.

    Parameters
    ----------
    price : float or array, USD
        Of the device.
    power : float or array, W
        Its mean power; the rule takes the thermal design power.
    time : float or array, s
        Of owning it.
    pue : float or array, 1
        Power usage effectiveness of the facility, at least 1.
    electricity_price : float or array, USD/J
        1 USD/kWh is 1/3.6e6 USD/J.
    cooling, building : float or array, USD/W
        Price of the cooling plant and of the building per watt of the device.
    staff_share : float or array, 1/s
        Cost of staff per second as a share of the price.
    payments : float or array, 1
        How often plant and building are paid in that time: once, or each year.

    Returns
    -------
    float or array, 1

    Assumptions: hosts and network are in the price or left out; no interest; a device that always draws this power.

    >>> year = 365.25 * 86400
    >>> round(tco_multiplier(30e3, 700.0, 3 * year, 1.45, 0.07 / 3.6e6, 1.5, 1.0, 0.04 / year), 3)
    1.241

    Source: barroso2018datacenter, the model of total cost; that it is one multiplier of the price is rooflinepage2026, sec. 5.
    """
    return (
        1
        + (power * pue * electricity_price * time + payments * (cooling + building) * power) / price
        + staff_share * time
    )
