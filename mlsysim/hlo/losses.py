"""What is lost between a program, its traces and its simulators, in formulas: rounding, sizes, loops, hours, and brackets."""

from mlsysim._numeric import Num
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation

_ANY = "(-inf, inf)"


@equation(
    "eq-rounding-bound",
    formula="regions * resolution / 2",
    domain={"regions": AT_LEAST_ONE, "resolution": POSITIVE},
)
def rounding_bound(regions: Num, resolution: Num) -> Num:
    """The most by which a sum of times changes when each is rounded to the nearest step of a resolution.

    Formula: E = n u / 2.

    Parameters
    ----------
    regions : float or array, 1
        Times that are added.
    resolution : float or array, s
        One step.

    Returns
    -------
    float or array, s

    Assumptions: times follow one another, so that their sum is what counts.

    >>> rounding_bound(51, 1e-6)
    2.55e-05

    Source: jcgm2008gum, sec. F.2.2.1; a value lies anywhere within half a step of what is displayed.
    """
    return regions * resolution / 2


@equation(
    "eq-rounding-spread",
    formula="resolution * (regions / 12) ** 0.5",
    domain={"regions": AT_LEAST_ONE, "resolution": POSITIVE},
)
def rounding_spread(regions: Num, resolution: Num) -> Num:
    """The standard deviation of the error of a sum whose terms were rounded.

    Formula: s = u sqrt(n / 12).

    Parameters
    ----------
    regions : float or array, 1
        Times that are added.
    resolution : float or array, s
        One step.

    Returns
    -------
    float or array, s

    Assumptions: every time is many steps long, and where in a step it ends has nothing to do with the other times.

    >>> round(rounding_spread(48, 1e-6) * 1e6, 9)
    2.0

    Source: jcgm2008gum, sec. F.2.2.1; one rounding has the variance u^2 / 12; variances of independent terms add up.
    """
    return resolution * (regions / 12) ** 0.5


@equation("eq-unrolled-nodes", formula="outside + turns * body")
def unrolled_nodes(outside: Num, turns: Num, body: Num) -> Num:
    """Nodes of a trace of a program with a loop that communicates.

    Formula: N = n_out + k n_body.

    Parameters
    ----------
    outside : float or array, 1
        Regions outside of the loop.
    turns : float or array, 1
        Times that the loop runs.
    body : float or array, 1
        Regions of its body.

    Returns
    -------
    float or array, 1

    Assumptions: a trace is a graph without cycles, so every turn is written out. A loop that does not communicate stays one region.

    >>> unrolled_nodes(27, 7, 76)
    559

    Source: mlcommons2026chakra, schema of a node (commit 21585d8); a node names those before it, and has no count of
    turns.
    """
    return outside + turns * body


@equation(
    "eq-wrong-size",
    formula="(latency + factor * transfer) / (latency + transfer)",
    domain={"transfer": POSITIVE, "factor": POSITIVE},
)
def wrong_size_factor(latency: Num, transfer: Num, factor: Num) -> Num:
    """By what a message's time is wrong when its size is.

    Formula: T' / T = (t_0 + k t_w) / (t_0 + t_w).

    Parameters
    ----------
    latency : float or array, s
        The part of its time that does not depend on its size.
    transfer : float or array, s
        The part that grows with its size, at the right size.
    factor : float or array, 1
        The wrong size over the right one.

    Returns
    -------
    float or array, 1

    Assumptions: time is a constant and a share that grows with the size.

    >>> wrong_size_factor(10e-6, 30e-6, 8)
    6.25

    Source: hockney1994communication, start-up time and asymptotic rate.
    """
    return (latency + factor * transfer) / (latency + transfer)


@equation(
    "eq-campaign-least",
    formula="kernels * median_time / 2",
    domain={"kernels": AT_LEAST_ONE},
)
def campaign_least(kernels: Num, median_time: Num) -> Num:
    """The least that a campaign of simulations takes, given the median of their times.

    Formula: T >= n m / 2.

    Parameters
    ----------
    kernels : float or array, 1
        Simulations, one after another.
    median_time : float or array, s
        Half of them take at least so long.

    Returns
    -------
    float or array, s

    Assumptions: no time is negative, and nothing more is known of the slower half than that it is slower.

    >>> campaign_least(20, 7560.0) / 3600
    21.0

    Source: hyndman1996quantiles, definition of a sample median; number and median are printed in hespas2026, sec. VI-A.
    """
    return kernels * median_time / 2


@equation("eq-bracket-position", formula="(measured - low) / (high - low)", relations=("low != high",))
def bracket_position(measured: Num, low: Num, high: Num) -> Num:
    """Where a measurement stands between two predictions: 0 at the first, 1 at the second.

    Formula: x = (t - t_low) / (t_high - t_low).

    Parameters
    ----------
    measured : float or array, s
        What was measured.
    low, high : float or array, s
        The two predictions, which differ.

    Returns
    -------
    float or array, 1

    Assumptions: none; a position outside of [0, 1] says that the two do not hold the measurement between them.

    >>> bracket_position(0.75, 0.5, 1.0)
    0.5

    Source: press1992recipes, sec. 3.1, linear interpolation solved for its weight; hespas2026, sec. V-B, finds measurements between two predictions.
    """
    return (measured - low) / (high - low)
