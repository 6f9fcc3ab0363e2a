"""What a move of a slider costs: every view of every notebook, in processor time.

    python benchmarks/slider_views.py [NOTEBOOK ...]

The cells of a notebook run once, as in a live kernel; then each view is moved, one slider at a time as by a hand, to values on
its grid that a seed draws. A move counts what a kernel does for it: the view, and the pictures that it shows.
"""

import contextlib
import io
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MOVES, LIMIT_S = 20, 0.05


def moves(sliders: dict[str, Any], seed: str) -> Iterator[dict[str, Any]]:
    """Values of all sliders after each move."""
    draw = random.Random(seed)
    now = {name: s.value for name, s in sliders.items()}
    for _ in range(MOVES):
        name = draw.choice(list(sliders))
        now[name] = draw.choice(sliders[name].values())
        yield dict(now)


def measure(notebook: Path) -> list[tuple[str, list[float]]]:
    """Seconds of every move of every view of a notebook, in the order of its views."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.core.pylabtools import select_figure_formats
    from IPython.utils.capture import capture_output

    os.environ["MLSYSIM_STATIC"] = "1"  # the cells themselves show every view once
    import matplotlib as mpl

    mpl.use("agg")
    from mlsysim import course
    from mlsysim.course import sliders

    views: list[tuple[Callable[..., Any], dict[str, Any]]] = []
    show = sliders.explore

    def explore(view: Callable[..., Any], presets: Any = None, **given: Any) -> None:
        views.append((view, given))
        show(view, presets, **given)

    sliders.explore = course.explore = explore  # type: ignore[assignment]
    os.chdir(notebook.parent)
    shell = InteractiveShell.instance()
    shell.display_formatter.active_types = shell.display_formatter.format_types  # pictures are made as in a kernel
    select_figure_formats(shell, {"png"})
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            with capture_output(), contextlib.redirect_stdout(io.StringIO()):
                result = shell.run_cell("".join(cell["source"]))
            result.raise_error()
    found = []
    for view, given in views:
        seconds = []
        for values in moves(given, f"{notebook.stem} {view.__name__}"):
            with capture_output():
                start = time.process_time()
                sliders.as_shown(view, list(given))(**values)
                seconds.append(time.process_time() - start)
        found.append((f"{notebook.stem} {view.__name__}", seconds))
    return found


def high(seconds: list[float]) -> float:
    """The 95th percentile: of twenty the last but one."""
    return sorted(seconds)[math.ceil(0.95 * len(seconds)) - 1]


def report(found: list[tuple[str, list[float]]], slowest: int = 12) -> str:
    """How many views stay below the limit, and the slowest of them, in ms of processor time."""
    rows = sorted(found, key=lambda row: -high(row[1]))
    over = [name for name, seconds in rows if high(seconds) > LIMIT_S]
    lines = [f"{len(rows)} slider views, {len(over)} above {1e3 * LIMIT_S:.0f} ms in the 95th percentile"]
    lines += [
        f"{name:60s} median {1e3 * statistics.median(s):7.1f}  95th {1e3 * high(s):7.1f}  first {1e3 * s[0]:7.1f}  max {1e3 * max(s):7.1f} ms"
        for name, s in rows[:slowest]
    ]
    return "\n".join(lines)


def everything(notebooks: list[Path]) -> list[tuple[str, list[float]]]:
    """All views; a process for every notebook, so that none warms another's caches."""
    with ProcessPoolExecutor(max_workers=1, max_tasks_per_child=1) as pool:
        return [row for rows in pool.map(measure, notebooks) for row in rows]


if __name__ == "__main__":
    given = [Path(name).resolve() for name in sys.argv[1:]] or sorted((ROOT / "notebooks").glob("*.ipynb"))
    print(report(everything(given), slowest=1000 if sys.argv[1:] else 25))
