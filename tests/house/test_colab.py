"""Notebook 1, live, with the package versions that Google Colab ships: ipywidgets 7.7, its kernel, its NumPy."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from made import wheel

from mlsysim import catalog, roofline

pytestmark = [pytest.mark.colab, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "01-iron-law.ipynb"
ENVIRONMENT = ROOT / ".cache" / "colab-venv"
PYTHON = "3.12"  # Colab's; another one is taken where it is missing
PACKAGES = (
    "ipywidgets==7.7.1",
    "ipykernel==6.17.1",
    "ipython==7.34.0",
    "numpy==2.0.2",
    "matplotlib==3.10.0",
    "nbclient",
    "nbformat",
    "setuptools<81",  # IPython 7 imports pkg_resources
)
RUNNER = """
import sys
import ipywidgets, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
notebook.cells.append(nbformat.v4.new_code_cell(sys.argv[4]))
client = nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3")
client.widget_registry = {}  # nbclient has no front end to talk to; without this, widgets can stall it
client.execute(cwd=sys.argv[3])
notebook.metadata["tried"] = {"ipywidgets": ipywidgets.__version__, "python": sys.version.split()[0]}
nbformat.write(notebook, sys.argv[2])
"""
# Moves a slider of view_roofline, as a reader's hand would through the front end.
MOVE = """
import ipywidgets
chosen = [w for w in ipywidgets.Widget.widgets.values() if "intensity" in getattr(w, "description", "")]
chosen[0].value = 1000.0
"""


def give_up(what: str) -> NoReturn:
    """Skip, or fail in CI, where nothing may be missing."""
    if os.environ.get("MLSYSIM_CI") == "1":
        pytest.fail(f"{what} (MLSYSIM_CI=1 forbids skipping)")
    pytest.skip(what)


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        k: v for k, v in os.environ.items() if k not in ("MLSYSIM_STATIC", "MPLBACKEND", "PYTHONPATH", "VIRTUAL_ENV")
    }
    return subprocess.run(
        [str(c) for c in command], env={**clean, **environment}, capture_output=True, text=True, timeout=1800, cwd=ROOT
    )


def works(python: str | Path) -> bool:
    try:
        return run(python, "-c", "").returncode == 0
    except OSError:
        return False


def colabs_python() -> str:
    """A Python of Colab's version: on the PATH, or one that pyenv keeps."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [f"python{PYTHON}", *map(str, sorted(kept.glob(f"{PYTHON}.*/bin/python")))]
    return next((c for c in candidates if works(c)), sys.executable)


@pytest.fixture(scope="module")
def python(shared: Path) -> Path:
    """Python of an environment with Colab's packages and our wheel, kept between runs."""
    interpreter = colabs_python()
    key = hashlib.sha256(json.dumps([PACKAGES, interpreter]).encode()).hexdigest()
    stamp, made = ENVIRONMENT / "made-from", ENVIRONMENT / "bin" / "python"
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # setup puts uv beside our Python
    uv = shutil.which("uv", path=here)
    install: list[str | Path] = [uv, "pip", "install", "--python", made] if uv else [made, "-m", "pip", "install"]
    if not stamp.exists() or stamp.read_text() != key:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        base: list[str | Path] = [uv, "venv", "--quiet", "--python", interpreter] if uv else [interpreter, "-m", "venv"]
        done = run(*base, ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        done = run(*install, "--quiet", *PACKAGES)
        if done.returncode:
            give_up(f"Colab's packages cannot be installed here: {done.stderr[-300:]}")
        stamp.write_text(key)
    again = "--reinstall" if uv else "--force-reinstall"
    done = run(*install, "--quiet", "--no-deps", again, wheel(shared))
    assert done.returncode == 0, done.stderr
    return made


def test_notebook_runs_live_with_colabs_packages(python, tmp_path):
    done = run(python, "-c", RUNNER, NOTEBOOK, tmp_path / "run.ipynb", tmp_path, MOVE, JUPYTER_PREFER_ENV_PATH="1")
    assert done.returncode == 0, done.stderr[-3000:]
    notebook = json.loads((tmp_path / "run.ipynb").read_text(encoding="utf-8"))
    assert notebook["metadata"]["tried"]["ipywidgets"] == "7.7.1"
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert all(c["execution_count"] for c in cells)
    # The cells' own outputs lose the widgets' views, since interact() clears the cell where no front end keeps apart
    # its output widget; the models are what the kernel made and sent.
    models = notebook["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"].values()
    sources = " ".join("".join(c["source"]) for c in cells)
    for kinds, asked in (
        (("FloatSlider", "IntSlider"), "Slider"),
        (("SelectionSlider",), "LogSlider"),
        (("Dropdown",), "Choice"),
    ):
        made = [m for m in models if m["model_name"] in [f"{kind}Model" for kind in kinds]]
        assert len(made) == len(re.findall(rf"\b{asked}\(", sources)) > 0
        assert {m["model_module_version"] for m in made} == {"1.5.0"}  # the one that Colab's front end speaks

    texts = "".join("".join(o.get("text", "")) for o in cells[-1]["outputs"])
    device = catalog.device("H100-SXM5-80GB")
    rate = roofline.attainable_flops(1000.0, device.peak_flops["bf16"], 0.9 * device.memory_bandwidth, 0.8)
    shown = re.search(r"your kernel: ([\d.,]+) TFLOP/s", texts)
    assert shown, f"the moved slider printed {texts[:200]!r}"
    assert float(shown[1].replace(",", "")) == pytest.approx(rate / 1e12, rel=1e-3)
    problems = [o for c in cells for o in c["outputs"] if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert not problems
