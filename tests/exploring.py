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
