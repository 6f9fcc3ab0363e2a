"""Clocks and caps: what a device draws at a lower clock, how much slower it is, and which clock is the cheapest.

A clock is a share of the highest one. Below the knee the voltage stays at its floor, and power falls in a straight line;
above it the voltage rises with the clock, and power rises with a higher exponent.
"""

from mlsysim._numeric import Num, maximum, minimum
from mlsysim.equations import FRACTION, POSITIVE, equation

_SHARE = "[0, 1]"
_STEEP = "(1, 3]"  # with 1 the voltage never rises, with 3 it is proportional to the clock
_CURVE = {"knee": _SHARE, "exponent": _STEEP}


@equation(
    "eq-clock-power",
    formula="static + dynamic * clock * max(knee, clock) ** (exponent - 1)",
    domain={"clock": FRACTION, **_CURVE},
)
def clock_power(static: Num, dynamic: Num, clock: Num, knee: Num = 0.0, exponent: Num = 3.0) -> Num:
    """Power of a busy device at a clock below its highest.

    Formula: P = P_s + P_d x max(k, x)^(n - 1).

    Parameters
    ----------
    static : float or array, W
        What does not depend on the clock: leakage, memory, fans; of a whole server also its host.
    dynamic : float or array, W
        What comes on top at the highest clock.
    clock : float or array, 1
        Clock x over the highest one.
    knee : float or array, 1
        Clock k below which the voltage cannot be lowered any more; 0 where it always can.
    exponent : float or array, 1
        How fast power rises above the knee: 3 where voltage is proportional to the clock, less where it rises more slowly.

    Returns
    -------
    float or array, W

    Assumptions: switching takes c f V^2, and above the knee V grows with a power of the clock; temperature stays.

    >>> clock_power(100.0, 300.0, 0.5), clock_power(100.0, 300.0, 1.0)
    (137.5, 400.0)

    Source: afzal2026sweetspots, abstract: power in a part that is linear in the clock and one that is not, and a
    transition between them; the power law is ours.
    """
    return static + dynamic * clock * maximum(knee, clock) ** (exponent - 1)


@equation(
    "eq-clock-time",
    formula="time * (1 - compute_share + compute_share / clock)",
    domain={"compute_share": _SHARE, "clock": FRACTION},
)
def clock_time(time: Num, compute_share: Num, clock: Num) -> Num:
    """Time of work at a lower clock: only what waits for the arithmetic gets longer.

    Formula: T = T_1 (1 - b + b / x).

    Parameters
    ----------
    time : float or array, s
        Time T_1 at the highest clock.
    compute_share : float or array, 1
        Share b of that time which the clock sets; the rest waits for memory, network or host.
    clock : float or array, 1
        Clock x over the highest one.

    Returns
    -------
    float or array, s

    Assumptions: the memory keeps its own clock, and nothing that overlapped before comes to light.

    >>> clock_time(10.0, 0.5, 0.5)
    15.0

    Source: ma2026powercapping, abstract: decode waits for memory and loses little under a lower clock; the split is the
    roofline's.
    """
    return time * (1 - compute_share + compute_share / clock)


@equation(
    "eq-capped-clock",
    formula="min(1, (cap - static) / dynamic / max(knee, ((cap - static) / dynamic) ** (1 / exponent)) ** (exponent - 1))",
    domain={"dynamic": POSITIVE, "cap": POSITIVE, **_CURVE},
    relations=("static < cap",),
)
def capped_clock(cap: Num, static: Num, dynamic: Num, knee: Num = 0.0, exponent: Num = 3.0) -> Num:
    """The highest clock at which a busy device stays under a power cap.

    Formula: x = min(1, r / max(k, r^(1/n))^(n - 1)) with r = (cap - P_s) / P_d.

    Parameters
    ----------
    cap : float or array, W
        Power that the device may draw.
    static : float or array, W
        What does not depend on the clock; it must be below the cap.
    dynamic : float or array, W
        What comes on top at the highest clock.
    knee : float or array, 1
        Clock below which the voltage stays.
    exponent : float or array, 1
        How fast power rises above the knee.

    Returns
    -------
    float or array, 1
        1 where the cap does not bind.

    Assumptions: the controller holds the mean at the cap; steps of the clock are small.

    >>> capped_clock(137.5, 100.0, 300.0)
    0.5

    Source: chung2026zeus, power limits of the traces; the inverse of eq-clock-power.
    """
    room = (cap - static) / dynamic
    return minimum(1, room / maximum(knee, room ** (1 / exponent)) ** (exponent - 1))


@equation(
    "eq-cheapest-clock",
    formula="min(1, max(knee, (static / ((exponent - 1) * dynamic)) ** (1 / exponent)))",
    domain={"static": POSITIVE, "dynamic": POSITIVE, **_CURVE},
)
def cheapest_clock(static: Num, dynamic: Num, knee: Num = 0.0, exponent: Num = 3.0) -> Num:
    """The clock at which a piece of arithmetic takes the least energy.

    Formula: x* = min(1, max(k, (P_s / ((n - 1) P_d))^(1/n))).

    Parameters
    ----------
    static : float or array, W
        What is drawn for as long as it takes; the more, the sooner it should be over.
    dynamic : float or array, W
        What comes on top at the highest clock.
    knee : float or array, 1
        Clock below which the voltage stays: slower than that saves nothing more.
    exponent : float or array, 1
        How fast power rises above the knee.

    Returns
    -------
    float or array, 1

    Assumptions: all of the time is set by the clock (a compute share of 1); where part of it waits for memory, the cheapest
    clock is lower.

    >>> cheapest_clock(75.0, 300.0)
    0.5

    Source: afzal2026sweetspots, abstract: the transition beyond which efficiency falls; the minimum is derived in the
    chapter.
    """
    return minimum(1, maximum(knee, (static / ((exponent - 1) * dynamic)) ** (1 / exponent)))
