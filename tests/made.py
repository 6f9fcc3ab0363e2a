"""What many tests look at and few may pay for, each made once per session: the built book, executed notebooks, fits.

Heavy imports stand in the functions, since a child with a planted mistake imports this too.
"""

import copyreg
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from support import ROOT, once


def read_only(values: dict[str, Any]) -> Any:
    return MappingProxyType(values)


copyreg.pickle(MappingProxyType, lambda m: (read_only, (dict(m),)))  # fitted constants cannot be pickled otherwise
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# Runs in the notebook's kernel before its first cell. The recorders are set anew for each cell and never reset: a cell is a
# task of its own, and a task has its own context.
RECORD = """
def _record():
    import json, resource
    from mlsysim import equations
    cells = []
    def before(info):
        called = set()
        equations._tracers.set((called,))
        cells.append((info.raw_cell, called))
    def after(result):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        found = {"cells": [(source, sorted(called)) for source, called in cells]}
        found["cpu_s"] = sum(u.ru_utime + u.ru_stime for u in used)
        with open(%r, "w") as file:
            json.dump(found, file)
    events = get_ipython().events
    events.register("pre_run_cell", before)
    events.register("post_run_cell", after)
_record()
del _record
"""


class Executed(NamedTuple):
    """A notebook that was run from cleared outputs in a kernel of its own, away from its folder."""

    text: str  # as scripts/run_notebooks.py would write it
    called: dict[str, set[str]]  # labels of the equations that each cell called, by the cell's id
    cpu_s: float  # processor time of the kernel


def run(path: Path, folder: Path) -> Executed:
    """Run a notebook of which ``folder`` gets a copy."""
    import nbformat
    from run_notebooks import execute

    folder.mkdir()
    cleared = nbformat.read(path, 4)
    for cell in cleared.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    copy = folder / path.name
    nbformat.write(cleared, copy)
    found = folder / "recorded.json"
    text = nbformat.writes(execute(copy, RECORD % str(found))) + "\n"
    recorded = json.loads(found.read_text(encoding="utf-8"))
    ran = [c for c in cleared.cells if c.cell_type == "code" and c.source.strip()]
    assert [c.source for c in ran] == [source for source, _ in recorded["cells"]], (
        "the cells that ran are not those here"
    )
    called = {c.id: set(labels) for c, (_, labels) in zip(ran, recorded["cells"], strict=True)}
    return Executed(text, called, recorded["cpu_s"])


def executed(path: Path, shared: Path) -> Executed:
    """A notebook of the book as it runs, once per session."""

    def make(folder: Path) -> None:
        ran = run(path, folder)
        found = [ran.text, {cell: sorted(labels) for cell, labels in ran.called.items()}, ran.cpu_s]
        (folder / "executed.json").write_text(json.dumps(found), encoding="utf-8")

    folder = once(shared, f"run-{path.stem}", make)
    text, called, cpu_s = json.loads((folder / "executed.json").read_text(encoding="utf-8"))
    return Executed(text, {cell: set(labels) for cell, labels in called.items()}, cpu_s)


def left_out(shared: Path, name: str, *sets: str) -> Any:
    """The scores of the shipped rows of a class with each group, and each domain and group, left out of the fit once: every one is a fit."""

    def make(file: Path) -> None:
        from mlsysim.evidence.rows import SETS, cases
        from mlsysim.evidence.scoring.leaving import leave_out

        file.write_bytes(pickle.dumps(leave_out(cases(name, set=sets or SETS))))

    return pickle.loads(once(shared, "-".join(["left-out", name, *sets]), make).read_bytes())


def lowered(shared: Path, name: str, recipes: Sequence[Any]) -> dict[Any, str]:
    """What mlsysim.hlo.export gives for each recipe, from one process with as many devices as any of them asks for."""

    def make(file: Path) -> None:
        devices = max(recipe.devices for recipe in recipes)
        flags = f"--xla_force_host_platform_device_count={devices}"
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests" / "export_steps.py"), "--lower"],
            input=json.dumps([recipe.to_dict() for recipe in recipes]),
            capture_output=True,
            text=True,
            timeout=9000,
            env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        file.write_text(done.stdout, encoding="utf-8")

    texts = json.loads(once(shared, f"lowered-{name}", make).read_text(encoding="utf-8"))
    return dict(zip(recipes, texts, strict=True))


class Book(NamedTuple):
    """The book as the preview builds it."""

    site: Path
    pages: list[tuple[str, str]]  # source and address
    variables: list[str]
    used: list[str]


def wheel(shared: Path) -> Path:
    """Our wheel. Built before two processes could both find that it is missing."""

    def make(file: Path) -> None:
        done = subprocess.run(
            [sys.executable, "scripts/build_lab.py", "--wheel"], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        file.write_text(done.stdout.strip(), encoding="utf-8")

    return Path(once(shared, "wheel", make).read_text(encoding="utf-8"))


def book(shared: Path) -> Book:
    """The whole book, built without a single complaint, once per session."""

    def make(folder: Path) -> None:
        sys.path.insert(0, str(ROOT))  # `book` is a folder of this repository, not an installed package
        from book._preview.__main__ import build_site

        folder.mkdir()
        build = build_site(ROOT, folder / "_site")
        assert build.problems == []
        facts: dict[str, Any] = {"pages": [(p.source, p.url) for p in build.book.pages]}
        facts |= {"variables": sorted(build.book.variables), "used": sorted(build.used)}
        (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")

    folder = once(shared, "book", make)
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return Book(folder / "_site", [(source, url) for source, url in facts["pages"]], facts["variables"], facts["used"])


def live_book(shared: Path, only: str = "") -> Path:
    """The preview's site with its pages made live: one chapter, or all of them."""

    def make(folder: Path) -> None:
        command = [sys.executable, "scripts/make_live.py"]
        subprocess.run([*command, "--engine"], cwd=ROOT, check=True)
        shutil.copytree(book(shared).site, folder)
        shutil.copytree(ROOT / "book" / "assets", folder / "book" / "assets", dirs_exist_ok=True)
        subprocess.run([*command, str(folder), *(["--only", only] if only else [])], cwd=ROOT, check=True)

    return once(shared, f"live-{only or 'all'}", make)


def published(shared: Path, only: str = "") -> Path:
    """The live site as readers get it: MLSYSIM_SITE where it names one, Quarto's where Quarto is on the PATH, else the preview's."""
    if site := os.environ.get("MLSYSIM_SITE"):
        return Path(site)
    if not shutil.which("quarto"):
        return live_book(shared, only)

    def make(folder: Path) -> None:
        command = [sys.executable, "scripts/build_book.py", "--renderer", "quarto", "--no-lab", "--out", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True)

    return once(shared, "quarto", make)
