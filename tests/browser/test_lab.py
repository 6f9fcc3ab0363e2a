"""The in-browser lab, offline: notebook 1 runs in Chromium to its end, and its slider prints the library's number."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from made import wheel
from support import once

from mlsysim import course
from mlsysim.course import Choice, Slider

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "01-iron-law.ipynb"
SITE = ROOT / ".cache" / "lab" / "offline-site"  # build_lab.py leaves it alone while nothing changed


@pytest.fixture(scope="module")
def lab(serve, needs, missing, shared) -> Iterator[str]:
    """Address of the offline lab."""
    needs("build", "ipywidgets", "jupyterlite_core", "jupyterlite_pyodide_kernel")
    if not shutil.which("npm"):
        missing("no npm on the PATH; on Debian: apt-get install npm")

    def make(stamp: Path) -> None:
        wheel(shared)
        command = [sys.executable, str(ROOT / "scripts" / "build_lab.py"), "--offline", "--out", str(SITE)]
        SITE.parent.mkdir(parents=True, exist_ok=True)
        beside = SITE.parent / "beside.txt"
        beside.write_text("not the lab's", encoding="utf-8")
        os.utime(beside, (1e9, 1e9))
        shutil.rmtree(SITE, ignore_errors=True)  # built anew: what stands beside it must stay as it was
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
        if "needs network once" in done.stderr:
            missing(f"the lab cannot be built here: {done.stderr.strip()[-300:]}")
        assert done.returncode == 0, done.stderr
        assert beside.stat().st_mtime == 1e9, "building the lab touched a file beside it"
        beside.unlink()
        stamp.touch()

    once(shared, "lab", make)
    with serve(SITE) as base:
        yield base


class Explored(NamedTuple):
    view: Callable[..., None]
    sliders: dict[str, Any]


@pytest.fixture(scope="module")
def explored() -> list[Explored]:
    """The notebook's sliders and views, run here by CPython: what the browser must print is what these print."""
    found: list[Explored] = []
    source = [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(
            course,
            "explore",
            lambda view, presets=None, **sliders: found.append(Explored(view, sliders)),
            raising=False,
        )
        patch.setattr(course, "draw", lambda chart: None, raising=False)
        names = types.ModuleType("notebook").__dict__
        for cell in source:
            exec(re.sub(r"^(\s*)%.*$", r"\1pass", cell, flags=re.M), names)
    return found


def printed(explored: Explored, **changed: float) -> str:
    values = {name: s.value for name, s in explored.sliders.items()}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        read = explored.view(**{**values, **changed})
    return " ".join(f"{out.getvalue()} {read or ''}".split())


def a_slider_that_counts(explored: Explored) -> tuple[int, list[str]]:
    """The place of a linear slider among the block's sliders, and the text before and after one and two steps up.

    A linear slider stands on its own grid, so its value after a step is known; a logarithmic one need not.
    """
    for place, (name, slider) in enumerate((n, s) for n, s in explored.sliders.items() if not isinstance(s, Choice)):
        if isinstance(slider, Slider) and slider.value + 2 * slider.step <= slider.high + 1e-9:
            texts = [printed(explored, **{name: slider.value + k * slider.step}) for k in (0, 1, 2)]
            if len(set(texts)) == 3:
                return place, texts
    raise AssertionError("no linear slider of this view moves a number that it prints")


def test_notebook_runs_and_its_slider_agrees_with_the_library(lab, page, watch, explored):
    seen = watch(page, lab)
    which = next(i for i, e in enumerate(explored) if e.view.__name__ == "view_roofline")
    place, texts = a_slider_that_counts(explored[which])

    page.goto(f"{lab}/index.html?path={NOTEBOOK.name}", wait_until="commit")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=600_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    # One block of widgets for each explore(); it holds the controls and the output of the view.
    block = page.locator(".widget-interact").nth(which)
    page.wait_for_function(
        "n => document.querySelectorAll('.widget-interact').length === n", arg=len(explored), timeout=900_000
    )
    busy = "() => ![...document.querySelectorAll('.jp-InputPrompt')].some(p => p.textContent.includes('*'))"
    page.wait_for_function(busy, timeout=600_000)

    def wait_for(expected: str) -> None:
        page.wait_for_function(
            "([e, text]) => e.textContent.replace(/\\s+/g, ' ').includes(text)",
            arg=[block.element_handle(), expected],
            timeout=200_000,
        )

    wait_for(texts[0])
    handle = block.locator(".noUi-handle").nth(place)
    for text in texts[1:]:
        handle.focus()
        handle.press("ArrowRight")
        wait_for(text)
    assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    assert page.locator("[data-mime-type='application/vnd.jupyter.stderr']").all_inner_texts() == []
    assert not seen.outside
    assert not [e for e in seen.errors if "favicon" not in e]


def test_lab_holds_every_notebook_and_our_wheel(lab):
    listed = json.loads((SITE / "api" / "contents" / "all.json").read_text(encoding="utf-8"))["content"]
    names = {entry["name"] for entry in listed}
    assert {n.name for n in (ROOT / "notebooks").glob("*.ipynb")} <= names
    index = json.loads((SITE / "pypi" / "all.json").read_text(encoding="utf-8"))
    assert {"mlsysim-book", "ipywidgets"} <= set(index)


def test_every_notebook_of_the_lab_installs_the_library_there(lab):
    """A browser starts with an empty Python, so a notebook without this cell fails on its first import."""
    for file in sorted((SITE / "files").rglob("*.ipynb")):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        first = next("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        assert re.search(r'sys\.platform == "emscripten".*%pip install -q mlsysim-book', first, re.S), file.name
