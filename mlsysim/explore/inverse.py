"""Questions asked backwards: which bandwidth, batch or price gives this answer? And where does the answer change?"""

import math
from collections.abc import Callable

from mlsysim.errors import InputError

_HALVINGS = 200  # more than a double has bits, twice over: a bracket that has not closed by then cannot


def _middle(low: float, high: float) -> float:
    """Half way by ratio where that makes sense, so that nine orders of magnitude are no obstacle."""
    return math.sqrt(low) * math.sqrt(high) if low > 0 else (low + high) / 2


def _bracket(name: str, low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"{name}: the range [{low}, {high}] must be two finite numbers, the smaller first")


def threshold(predicate: Callable[[float], bool], low: float, high: float, rtol: float = 1e-12) -> float:
    """Where a yes-or-no answer changes between ``low`` and ``high``: the value on the side of ``high``.

    Parameters
    ----------
    predicate : callable
        Takes a number, answers True or False, and changes its answer once in the range.
    low, high : float
        The range, in the unit of the number.
    rtol : float, 1
        Relative width at which to stop.

    Returns
    -------
    float
        The smallest number found that is answered as ``high`` is.

    Raises
    ------
    InputError
        When both ends are answered alike.

    Assumptions: one change. With several, one of them is found.

    >>> from mlsysim import roofline
    >>> bound = lambda bandwidth: roofline.memory_time(1e9, bandwidth) < roofline.compute_time(1e12, 989.4e12)
    >>> round(threshold(bound, 1e11, 1e13) / 1e12, 4)  # byte/s at which this kernel turns compute-bound, in TB/s
    0.9894
    """
    _bracket("threshold", low, high)
    ends = bool(predicate(low)), bool(predicate(high))
    if ends[0] == ends[1]:
        raise InputError(f"threshold: the answer is {ends[0]} at both ends of [{low:g}, {high:g}]; widen the range")
    for _ in range(_HALVINGS):
        if high - low <= rtol * abs(high):
            break
        middle = _middle(low, high)
        if not low < middle < high:
            break
        if bool(predicate(middle)) == ends[1]:
            high = middle
        else:
            low = middle
    return high


def solve_for(function: Callable[[float], float], target: float, low: float, high: float, rtol: float = 1e-12) -> float:
    """The number between ``low`` and ``high`` for which a function gives the target.

    Parameters
    ----------
    function : callable
        Takes a number and returns one; rises or falls over the whole range.
    target : float
        What it should return.
    low, high : float
        The range to search.
    rtol : float, 1
        Relative width at which to stop.

    Returns
    -------
    float

    Raises
    ------
    InputError
        When the target lies outside what the function gives at the two ends.

    Assumptions: monotone; where the function stays at the target for a while, the end of that stretch nearer ``high``
    or ``low`` is returned, whichever the search meets.

    >>> round(solve_for(lambda x: x**3, target=27.0, low=1.0, high=100.0), 9)
    3.0
    """
    _bracket("solve_for", low, high)
    first, last = float(function(low)), float(function(high))
    for end, value in ((low, first), (high, last)):
        if value == target:
            return end
    if not min(first, last) < target < max(first, last):
        raise InputError(
            f"solve_for: target = {target:g} is not reached: the function gives {first:g} at {low:g} and {last:g} at "
            f"{high:g}; choose a target between them or widen the range"
        )
    return threshold(lambda x: float(function(x)) >= target, low, high, rtol)
