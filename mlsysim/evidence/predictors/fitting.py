"""Fitting a few constants to many rows without SciPy: least squares of the log error.

Over fixed grids where constants are few: coarse on purpose (two digits are all that such rows can bear), and exactly
repeatable. By Gauss-Newton where there are more.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any


def stacked(parts: Sequence[Any]) -> Any:
    """Records of one kind as one record of arrays; a text (a name, a source) is the first one's. Needs NumPy."""
    import numpy as np

    def column(values: list[Any]) -> Any:
        if is_dataclass(values[0]):
            return stacked(values)
        return values[0] if isinstance(values[0], str) else np.array(values, float)

    return replace(parts[0], **{f.name: column([getattr(p, f.name) for p in parts]) for f in fields(parts[0])})


def picked(every: Any, which: Any) -> Any:
    """Some of the rows of what :func:`stacked` made, in an order, with repetition; a text stays."""

    def column(v: Any) -> Any:
        return picked(v, which) if is_dataclass(v) else v if isinstance(v, str) else v[which]

    return replace(every, **{f.name: column(getattr(every, f.name)) for f in fields(every)})


def nested(names: Sequence[tuple[str, str]], values: Sequence[float]) -> dict[str, dict[str, float]]:
    """Fitted values by group and name.

    >>> nested([("host", "start"), ("host", "sequence")], [0.5, 0.25])
    {'host': {'start': 0.5, 'sequence': 0.25}}
    """
    found: dict[str, dict[str, float]] = {}
    for (group, name), value in zip(names, values, strict=True):
        found.setdefault(group, {})[name] = value
    return found


def log_size(predicted: float, measured: float) -> float:
    """Size of the log error: an outlier counts once, not squared.

    >>> log_size(2.0, 1.0) == log_size(1.0, 2.0)
    True
    """
    return abs(math.log(predicted / measured))


def votes(groups: Sequence[Hashable], least: int = 1) -> list[float]:
    """Weight of each row such that every group has one vote, however many rows it brings; of fewer than ``least``, a part of one.

    >>> votes(["a", "a", "b"]), votes(["a", "a", "b"], least=2)
    ([0.5, 0.5, 1.0], [0.5, 0.5, 0.5])
    """
    size = Counter(groups)
    return [1.0 / max(size[group], least) for group in groups]


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


def gauss_newton(
    ranges: Sequence[tuple[float, float, float]],
    log_errors: Callable[[Any], Any],
    groups: Sequence[Hashable],
    soft: float = 0.1,
    pull: float = 0.05,
    ties: Sequence[tuple[int, int]] = (),
    strength: float = 1.0,
    least: int = 1,
) -> list[float]:
    """Constants that make the log errors of many rows small, to three digits; needs NumPy.

    Each constant is the logistic of a free number between the ends of its physical range, with a weak pull to where it
    starts; every group of rows has one vote; an error beyond ``soft`` counts linearly.

    Parameters
    ----------
    ranges : sequence
        Lowest value, highest value and start of each constant.
    log_errors : callable
        Log of predicted over measured of every row, for an array of constants.
    groups : sequence
        Which rows belong together.
    soft, pull : float
        Log error from which a row counts linearly; width of the pull to the start, in logits.
    ties : sequence of pairs
        Constants that belong together, as a generation's and its family's: the first is drawn to the second.
    strength : float
        How many sources a tie counts as: its squared log ratio is added that many times, which is eq-pooled-share.
    least : int
        Rows of a group that make a whole vote.
    """
    import numpy as np

    low, high, start = (np.array(x) for x in zip(*ranges, strict=True))
    weight = np.array(votes(groups, least)) ** 0.5
    share = (start - low) / (high - low)
    origin = np.log(share / (1.0 - share))

    def values(z: Any) -> Any:
        return low + (high - low) / (1.0 + np.exp(-z))

    def residuals(z: Any) -> Any:
        return log_errors(values(z))

    first, second = (np.array([pair[i] for pair in ties], dtype=int) for i in (0, 1))

    def apart(z: Any) -> Any:
        logs = np.log(values(z))
        return strength**0.5 * (logs[first] - logs[second])

    def loss(z: Any) -> float:
        robust = 2.0 * soft**2 * (np.sqrt(1.0 + (residuals(z) / soft) ** 2) - 1.0)
        return float(np.sum(weight**2 * robust) + np.sum((pull * (z - origin)) ** 2) + np.sum(apart(z) ** 2))

    z, damping, now = origin, 1e-2, loss(origin)
    unit = np.eye(len(z))
    for _ in range(40):
        r = residuals(z)
        w = weight * (1.0 + (r / soft) ** 2) ** -0.25
        jacobian = np.stack([(residuals(z + 1e-4 * u) - r) / 1e-4 for u in unit], axis=1) * w[:, None]
        gradient = jacobian.T @ (r * w) + pull**2 * (z - origin)
        curvature = jacobian.T @ jacobian
        if ties:
            d = apart(z)
            bound = np.stack([(apart(z + 1e-4 * u) - d) / 1e-4 for u in unit], axis=1)
            gradient, curvature = gradient + bound.T @ d, curvature + bound.T @ bound
        gain = 0.0
        while damping < 1e6:
            move = -np.linalg.solve(curvature + (pull**2 + damping) * unit, gradient)
            new = z + np.clip(move, -2.0, 2.0)
            if loss(new) < now:
                gain, z, damping = now - loss(new), new, damping / 5.0
                now -= gain
                break
            damping *= 5.0
        if gain < 1e-5:
            break
    return [float(f"{value:.3g}") for value in values(z)]
