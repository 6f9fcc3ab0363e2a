"""How long to work between two checkpoints: to first order, to higher order, and exactly."""

from mlsysim._numeric import Num, all_true, expm1, is_array, maximum, minimum, where
from mlsysim.equations import POSITIVE, equation


@equation("eq-young", formula="sqrt(2 * write_time * mtbf)", domain={"mtbf": POSITIVE})
def young_interval(write_time: Num, mtbf: Num) -> Num:
    """Work between two checkpoints that loses least, to first order.

    Formula: tau = sqrt(2 delta M).

    Parameters
    ----------
    write_time : float or array, s
        Time delta that a checkpoint keeps the job from working.
    mtbf : float or array, s
        Mean time M between failures of the whole job.

    Returns
    -------
    float or array, s

    Assumptions: delta far below M; a failure loses half an interval.

    >>> young_interval(5 * 60.0, 24 * 3600.0) / 60
    120.0

    Source: young1974first, pp. 530-531.
    """
    return (2 * write_time * mtbf) ** 0.5


@equation(
    "eq-daly",
    formula="sqrt(2 * write_time * mtbf) * (1 + sqrt(write_time / (2 * mtbf)) / 3 + write_time / (18 * mtbf)) - write_time "
    "if write_time < 2 * mtbf else mtbf",
    domain={"mtbf": POSITIVE},
)
def daly_interval(write_time: Num, mtbf: Num) -> Num:
    """Work between two checkpoints that loses least, to higher order.

    Formula: tau = sqrt(2 delta M) (1 + sqrt(delta/2M)/3 + delta/18M) - delta for delta < 2M, else M.

    Parameters
    ----------
    write_time : float or array, s
        Time delta that a checkpoint keeps the job from working.
    mtbf : float or array, s
        Mean time M between failures of the whole job.

    Returns
    -------
    float or array, s

    Assumptions: Poisson failures, also during writing and restarting; a series that is cut off.

    >>> round(daly_interval(5 * 60.0, 24 * 3600.0) / 60, 1)
    116.7

    Source: daly2006higher, perturbation solution.
    """
    ratio = minimum(write_time / (2 * mtbf), 1.0)  # the other branch is chosen below
    series = (2 * write_time * mtbf) ** 0.5 * (1 + ratio**0.5 / 3 + ratio / 9) - write_time
    return where(write_time < 2 * mtbf, series, mtbf)


def _exponent(dump: Num) -> Num:
    """The u > 0 with u - (1 - e^-u) = dump, by Newton's method from above: the left side is convex and rises."""
    u = dump + (2 * dump) ** 0.5
    for _ in range(12):
        small = u * u * (1 / 2 - u * (1 / 6 - u * (1 / 24 - u / 120)))  # where the difference would cancel
        u = u - (where(u < 1e-3, small, u + expm1(-u)) - dump) / -expm1(-u)
    return u


@equation(
    "eq-optimal-interval",
    formula="mtbf * (1 + lambert_w(-exp(-1 - write_time / mtbf)))",
    domain={"write_time": POSITIVE, "mtbf": POSITIVE},
)
def optimal_interval(write_time: Num, mtbf: Num) -> Num:
    """Work between two checkpoints that loses least, exactly.

    Formula: tau = M (1 + W(-e^(-1 - delta/M))), the solution of (1 - tau/M) e^(tau/M) = e^(-delta/M).

    Parameters
    ----------
    write_time : float or array, s
        Time delta that a checkpoint keeps the job from working.
    mtbf : float or array, s
        Mean time M between failures of the whole job.

    Returns
    -------
    float or array, s

    Assumptions: those of eq-goodput-exact. Restart time and lag do not move the optimum.

    >>> round(optimal_interval(5 * 60.0, 24 * 3600.0) / 60, 1)
    116.7

    Source: daly2006higher, complete cost function.
    """
    return -mtbf * expm1(-_exponent(write_time / mtbf))


def best_interval(write_time: Num, mtbf: Num, floor: Num = 0.0) -> Num:
    """The interval of eq-optimal-interval, or the floor where that is longer; 0 where a checkpoint costs nothing."""
    if is_array(write_time) or not all_true(write_time == 0):
        return maximum(optimal_interval(write_time, mtbf), floor)
    return floor
