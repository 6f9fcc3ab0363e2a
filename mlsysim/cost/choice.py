"""Renting, the price of a token, and when owning is cheaper than renting."""

from mlsysim._numeric import Num
from mlsysim.equations import FRACTION, POSITIVE, equation


@equation("eq-rental", formula="devices * time * rental_rate")
def rental_cost(devices: Num, time: Num, rental_rate: Num) -> Num:
    """What rented devices cost.

    Formula: C = devices x time x rental_rate.

    Parameters
    ----------
    devices : float or array, 1
        Rented devices.
    time : float or array, s
        How long they are rented, busy or not.
    rental_rate : float or array, USD/s
        Price of one device; 1 USD/h is 1/3600 USD/s.

    Returns
    -------
    float or array, USD

    Assumptions: hosts, network and power are in the price; storage and traffic are not.

    >>> round(rental_cost(2048, 30 * 86400, 2.0 / 3600))
    2949120

    Source: deepseek2025v3, Table 1, GPU hours times a rental price.
    """
    return devices * time * rental_rate


@equation(
    "eq-cost-per-token",
    formula="cost_rate / (token_rate * busy_share)",
    domain={"token_rate": POSITIVE, "busy_share": FRACTION},
)
def cost_per_token(cost_rate: Num, token_rate: Num, busy_share: Num = 1.0) -> Num:
    """What a token costs, in serving or in training.

    Formula: c = cost_rate / (token_rate x busy_share).

    Parameters
    ----------
    cost_rate : float or array, USD/s
        Of all machines together, owned (eq-tco over its time) or rented.
    token_rate : float or array, token/s
        What they make together while they are busy.
    busy_share : float or array, 1
        Share of the paid time in which they are: quiet hours, restarts and failures are the rest.

    Returns
    -------
    float or array, USD/token

    Assumptions: the machines are paid whether they work or not; input and output tokens cost the same.

    >>> round(cost_per_token(8 * 2.0 / 3600, 2000.0, 0.5) * 1e6, 6)  # USD per million tokens
    4.444444

    Source: pope2023inference, cost in chip-seconds per token.
    """
    return cost_rate / (token_rate * busy_share)


@equation("eq-break-even-utilisation", formula="fixed_rate / saving_rate", domain={"saving_rate": POSITIVE})
def break_even_utilisation(fixed_rate: Num, saving_rate: Num) -> Num:
    """Share of the time that a device must be used for owning it to cost the same as renting it when needed.

    Formula: u = fixed_rate / saving_rate.

    Parameters
    ----------
    fixed_rate : float or array, USD/s
        What owning costs whether the device works or not.
    saving_rate : float or array, USD/s
        What each used second saves: the rental rate less what working costs the owner more than waiting (electricity).

    Returns
    -------
    float or array, 1

    Assumptions: rental by the second and always to be had; a result above 1 says that renting is always cheaper.

    >>> break_even_utilisation(1.5, 2.5)
    0.6

    Source: walker2009cpuhour, buying against leasing a processor-hour.
    """
    return fixed_rate / saving_rate


@equation("eq-break-even-time", formula="price / saving_rate", domain={"saving_rate": POSITIVE})
def break_even_time(price: Num, saving_rate: Num) -> Num:
    """How long a purchase must be held until the rent it replaces has paid for it.

    Formula: t = price / saving_rate.

    Parameters
    ----------
    price : float or array, USD
        Of everything that is bought.
    saving_rate : float or array, USD/s
        Rent that is no longer paid (at the actual use), less what running the purchase costs.

    Returns
    -------
    float or array, s

    Assumptions: no interest; rents do not fall in the meantime, though they did every year so far.

    >>> round(break_even_time(30e3, 1.5 / 3600) / 86400)  # days
    833

    Source: walker2009cpuhour, buying against leasing a processor-hour.
    """
    return price / saving_rate
