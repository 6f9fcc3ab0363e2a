"""Predictions beside printed measurements: rounding, speed-ups and their errors, wrong peaks, scaling."""

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation


@equation("eq-rounding-share", formula="last_digit / (2 * printed)", domain={"printed": POSITIVE})
def rounding_share(printed: Num, last_digit: Num) -> Num:
    """By which share a printed figure may differ from the one that was rounded.

    Formula: rho = u / (2 v).

    Parameters
    ----------
    printed : float or array, s
        The figure as printed; any unit that both numbers share will do.
    last_digit : float or array, s
        One unit of its last printed digit: 0.01 s for "0.04 s".

    Returns
    -------
    float or array, 1

    Assumptions: rounded to the nearest, and all printed digits count.

    >>> rounding_share(0.04, last_digit=0.01)
    0.125

    Source: jcgm2008gum, resolution of an indication.
    """
    return last_digit / (2 * printed)


@equation("eq-speedup", formula="old_time / new_time", domain={"new_time": POSITIVE})
def speedup(old_time: Num, new_time: Num) -> Num:
    """How many times as fast the same step is on another machine.

    Formula: S = T_old / T_new.

    Parameters
    ----------
    old_time, new_time : float or array, s
        Times of the same work on the old and on the new machine.

    Returns
    -------
    float or array, 1

    Assumptions: both machines do the same work: the same model, batch, and number of devices.

    >>> speedup(0.39, 0.13)
    3.0

    Source: hennessy2019, sec. 1.8, n times as fast; hespas2026, sec. V-A, compares two systems so.
    """
    return old_time / new_time


@equation(
    "eq-speedup-error",
    formula="(1 + old_error) / (1 + new_error) - 1",
    domain={"old_error": "(-1, inf)", "new_error": "(-1, inf)"},
)
def speedup_error(old_error: Num, new_error: Num) -> Num:
    """Signed error of a predicted speed-up, from the signed errors of the two predicted times.

    Formula: e_S = (1 + e_old) / (1 + e_new) - 1.

    Parameters
    ----------
    old_error, new_error : float or array, 1
        Signed errors of the predicted times on the old and on the new machine.

    Returns
    -------
    float or array, 1

    Assumptions: both errors are of the same work and taken against measurements of the same kind.

    >>> speedup_error(-0.5, -0.5)
    0.0

    Source: tofallis2015accuracy, relative error; of a speedup it is hespas2026, eq. 1.
    """
    return (1 + old_error) / (1 + new_error) - 1


@equation(
    "eq-wrong-peak",
    formula="1 - bound_share + bound_share / factor",
    domain={"bound_share": "[0, 1]", "factor": "[1, inf)"},
)
def wrong_peak_time(bound_share: Num, factor: Num) -> Num:
    """Smallest share of a predicted time that is left when a peak is taken too high.

    Formula: T' / T = 1 - c + c / k.

    Parameters
    ----------
    bound_share : float or array, 1
        Share c of the predicted time in which arithmetic at that peak is the bound.
    factor : float or array, 1
        The peak that was taken over the right one.

    Returns
    -------
    float or array, 1

    Assumptions: what arithmetic bounds stays bound by it. Where memory takes over, more of the time is left.

    >>> wrong_peak_time(0.5, factor=2.0)
    0.75

    Source: amdahl1967validity, Amdahl's law.
    """
    return 1 - bound_share + bound_share / factor


@equation(
    "eq-relative-efficiency",
    formula="large_work / (large_devices * large_time) / (small_work / (small_devices * small_time))",
    domain=dict.fromkeys(("small_work", "small_devices", "small_time", "large_devices", "large_time"), POSITIVE),
)
def relative_efficiency(
    small_work: Num, small_devices: Num, small_time: Num, large_work: Num, large_devices: Num, large_time: Num
) -> Num:
    """What a device of a large system does per second, over what it does in a small one.

    Formula: E = (W_2 / (n_2 T_2)) / (W_1 / (n_1 T_1)).

    Parameters
    ----------
    small_work, large_work : float or array, token
        What a whole step works through on the small and on the large system, counted alike.
    small_devices, large_devices : float or array, 1
        Devices of each.
    small_time, large_time : float or array, s
        Time of a step on each.

    Returns
    -------
    float or array, 1

    Assumptions: a token is the same work on both systems.

    >>> relative_efficiency(32, 16, 1.0, 256, 128, 1.25)
    0.8

    Source: gustafson1988reevaluating, scaled speed-up.
    """
    return large_work / (large_devices * large_time) / (small_work / (small_devices * small_time))
