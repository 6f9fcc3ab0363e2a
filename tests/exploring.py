"""Functions that a sweep's store and a Dask worker can find by name."""

import os
import time
from pathlib import Path
from typing import Any


def volume(length: Any, width: Any, height: Any = 1.0) -> Any:
    return length * width * height


def slow_square(x: Any, folder: str) -> dict[str, Any]:
    """Leave a mark of every run, and take so long that a worker can be killed meanwhile."""
    (Path(folder) / f"run-{int(x[0])}-{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(0.3)
    return {"square": x * x}


def ten_smallest(columns: Any) -> Any:
    return columns.smallest("value", 10)


def weighted(x: Any, weights: Any) -> Any:
    """A solver that holds an array too long to be shown whole, or an object that shows nothing of itself."""
    return x * (weights.factor if isinstance(weights, Secret) else weights[2500])


class Secret:
    """Two of them look alike."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __repr__(self) -> str:
        return "Secret()"


class Scaled:
    """A solver that is an object."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return self.factor * x
