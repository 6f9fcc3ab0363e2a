"""Fitting a few constants to many rows without SciPy: least squares of the log error, over fixed grids.

The grids are coarse on purpose (two digits are all that such rows can bear) and make the result exactly repeatable.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence


def log_loss(predicted: float, measured: float) -> float:
    """Squared log error: too slow by a factor counts as much as too fast by that factor.

    >>> log_loss(2.0, 1.0) == log_loss(1.0, 2.0)
    True
    """
    return math.log(predicted / measured) ** 2


def votes(groups: Sequence[Hashable]) -> list[float]:
    """Weight of each row such that every group has one vote, however many rows it brings.

    >>> votes(["a", "a", "b"])
    [0.5, 0.5, 1.0]
    """
    size = Counter(groups)
    return [1.0 / size[group] for group in groups]


def steps(low: float, high: float, step: float) -> tuple[float, ...]:
    """Grid values from low to high, rounded so that they print as they are.

    >>> steps(0.5, 0.52, 0.01)
    (0.5, 0.51, 0.52)
    """
    return tuple(round(low + i * step, 12) for i in range(round((high - low) / step) + 1))


def coordinate_descent(
    loss: Callable[[Mapping[str, float]], float], grids: Mapping[str, Sequence[float]], rounds: int = 20
) -> dict[str, float]:
    """Smallest loss on a grid, one constant after the other until none moves; ties go to the smaller value.

    >>> coordinate_descent(lambda c: (c["x"] - 2) ** 2 + (c["y"] - c["x"]) ** 2, {"x": range(5), "y": range(5)})
    {'x': 2, 'y': 2}
    """
    now = {name: grid[len(grid) // 2] for name, grid in grids.items()}
    for _ in range(rounds):
        before = dict(now)
        for name, grid in grids.items():
            now[name] = min(grid, key=lambda value: (loss({**now, name: value}), value))
        if now == before:
            break
    return now
