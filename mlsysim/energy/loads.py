"""Load of machines on their site: power swings, shared lines, liquid cooling, and carbon-aware shifting."""

import math

from mlsysim._numeric import Num, sine, sqrt
from mlsysim.equations import AT_LEAST_ONE, FRACTION, POSITIVE, equation

_SHARE = "[0, 1]"
# Heat that a litre of water takes up for each kelvin, J/L: a calorie (4.184 J) for each gram, a kilogram to the litre.
WATER = 4184.0


@equation(
    "eq-smoothing-energy",
    formula="devices * (high_power - low_power) * period * high_share * (1 - high_share)",
    domain={"high_share": _SHARE},
    relations=("low_power <= high_power",),
)
def smoothing_energy(devices: Num, high_power: Num, low_power: Num, period: Num, high_share: Num) -> Num:
    """Energy that a store must take up and give back in each step, so that the grid sees the mean alone.

    Formula: E = N (P_hi - P_lo) T u (1 - u).

    Parameters
    ----------
    devices : float or array, 1
        Devices N that work in step.
    high_power : float or array, W
        What one draws while it computes.
    low_power : float or array, W
        What one draws while it waits for the others.
    period : float or array, s
        Time T of one step.
    high_share : float or array, 1
        Share u of the step in which it computes.

    Returns
    -------
    float or array, J

    Assumptions: two levels, all devices at the same moment, no losses in the store.

    >>> smoothing_energy(1000, 1000.0, 400.0, 2.0, 0.5)
    300000.0

    Source: choukse2025power, abstract: a phase that computes and one that communicates; the energy is derived in the chapter.
    """
    return devices * (high_power - low_power) * period * high_share * (1 - high_share)


@equation(
    "eq-hall-peak",
    formula="devices * mean + quantile * deviation * sqrt(devices * (1 + (devices - 1) * correlation))",
    domain={"devices": AT_LEAST_ONE, "correlation": _SHARE},
)
def hall_peak(devices: Num, mean: Num, deviation: Num, correlation: Num, quantile: Num = 3.0) -> Num:
    """Power that devices on one line exceed only rarely, together.

    Formula: P = N mu + z sigma sqrt(N (1 + (N - 1) r)).

    Parameters
    ----------
    devices : float or array, 1
        Devices N, or racks.
    mean : float or array, W
        What one draws on average, mu.
    deviation : float or array, W
        Standard deviation of that in time, sigma.
    correlation : float or array, 1
        Of the draws of two of them, r: 0 where each follows its own requests, 1 where all work in step.
    quantile : float or array, 1
        Standard deviations of the sum up to the peak, z; 3 leaves a thousandth of the time above it.

    Returns
    -------
    float or array, W

    Assumptions: the sum is normally distributed, and every pair is as alike as any other.

    >>> hall_peak(100, 500.0, 100.0, correlation=0.0), hall_peak(100, 500.0, 100.0, correlation=1.0)
    (53000.0, 80000.0)

    Source: patel2023polca, abstract: peaks of a cluster that serves lie far below the sum of its servers'; the sum is derived in the chapter.
    """
    return devices * mean + quantile * deviation * sqrt(devices * (1 + (devices - 1) * correlation))


@equation(
    "eq-coolant-flow",
    formula="heat / (heat_capacity * temperature_rise)",
    domain={"heat_capacity": POSITIVE, "temperature_rise": POSITIVE},
)
def coolant_flow(heat: Num, temperature_rise: Num, heat_capacity: Num = WATER) -> Num:
    """Liquid that has to flow through a rack to carry its heat away.

    Formula: flow = Q / (c dT).

    Parameters
    ----------
    heat : float or array, W
        Heat Q that the liquid takes up; what fans carry away is not in it.
    temperature_rise : float or array, 1
        How much warmer it comes out, in kelvin.
    heat_capacity : float or array, J/L
        Heat c that a litre takes up for each kelvin; mixtures with glycol take less than water.

    Returns
    -------
    float or array, L/s

    Assumptions: steady state, and the same rise in all branches.

    >>> round(60 * coolant_flow(100e3, 10.0))  # litres a minute
    143

    Source: simons2011rear, the heat that a flow of water takes up.
    """
    return heat / (heat_capacity * temperature_rise)


@equation("eq-shift-saving", formula="swing * sin(pi * share) / (pi * share)", domain={"share": FRACTION})
def shift_saving(swing: Num, share: Num) -> Num:
    """Share of the emissions that a load saves which runs in the cleanest hours of the day only.

    Formula: saving = (a / g) sin(pi u) / (pi u).

    Parameters
    ----------
    swing : float or array, 1
        How far the grid's intensity swings about its mean: half of highest less lowest, over the mean.
    share : float or array, 1
        Share u of the day in which the load runs.

    Returns
    -------
    float or array, 1

    Assumptions: one smooth wave a day, known beforehand; the same work takes the same energy at any hour.

    >>> round(shift_saving(0.2, 0.5), 4), round(shift_saving(0.2, 1.0), 12)
    (0.1273, 0.0)

    Source: wiesner2021letswait, README: load shifted in time; the bound for a wave is derived in the chapter.
    """
    return swing * sine(math.pi * share) / (math.pi * share)
