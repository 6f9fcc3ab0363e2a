"""Build the in-browser lab: a static JupyterLite site with every notebook, our wheel and ipywidgets.

    python scripts/build_lab.py [--offline] [--out _lab]
    python scripts/build_lab.py --wheel                       our wheel alone; prints where it is

The default site takes Pyodide with NumPy and matplotlib from its CDN when a reader opens it. The offline site makes
no outside request: Pyodide's core comes from npm, the pure-Python wheels it needs from the package index, and charts
are drawn as SVG because NumPy and matplotlib do not exist there. Any web server can serve the folder;
index.html?path=01-iron-law.ipynb opens a notebook, lab/index.html all of JupyterLab.

A second run with the same library, notebooks and tools changes nothing and takes a second.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "lab"
STAMP = "mlsysim-lab.json"  # in the site: what it was built from
EPOCH = "1577836800"  # 2020-01-01, hatchling's own default: the same input gives the same bytes
KERNEL = "@jupyterlite/pyodide-kernel-extension"
EXTENSIONS = (KERNEL, "@jupyter-widgets/jupyterlab-manager")  # and none of the others that this environment may hold
TOOLS = ("jupyterlite-core", "jupyterlite-pyodide-kernel", "ipywidgets", "jupyterlab-widgets", "comm")
LOCAL_WHEELS = ("ipywidgets", "jupyterlab-widgets", "comm")  # as installed here, so Python and JavaScript sides match
OFFLINE_ROOTS = ("micropip", "ipython", "jedi")  # what the kernel starts with; their dependencies follow from the lock
CORE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")

# The site's front door. JupyterLite's own forgets ?path=, which the book's links carry; the apps read the first script.
DOOR = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>mlsysim lab</title>
<script id="jupyter-config-data" type="application/json" data-jupyter-lite-root=".">{}</script>
<script>
const path = new URLSearchParams(location.search).get("path");
location.replace(path ? "notebooks/index.html?path=" + encodeURIComponent(path) : "lab/index.html");
</script>
<noscript>The lab runs Python in your browser and needs JavaScript.</noscript>
</html>
"""


class LabError(SystemExit):
    """Something outside this script is missing; the message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(f"build_lab: {message}")


def run(command: list[str], what: str, cwd: Path = ROOT, **environment: str) -> str:
    """Run a program; its output appears only when it fails."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600
        )
    except FileNotFoundError as error:
        raise LabError(f"{what}: {command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{what}: no end after 600 s; is the network up?") from error
    if done.returncode:
        raise LabError(f"{what} failed ({' '.join(command[:4])} …):\n{(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def tool_versions() -> dict[str, str]:
    """Versions of what the site is made from."""
    try:
        return {name: version(name) for name in TOOLS}
    except PackageNotFoundError as error:
        raise LabError(f"{error.name} is not installed; run: make setup (the extra 'book' has it)") from error


def digest(files: Iterable[Path], *more: str) -> str:
    """A short hash of files (by relative path and content) and texts."""
    total = hashlib.sha256("\0".join(more).encode())
    for file in sorted(files):
        total.update(f"\0{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def package_files() -> list[Path]:
    """Everything the wheel is made of."""
    beside = [ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-text")]
    return [f for f in [*(ROOT / "mlsysim").rglob("*"), *beside] if f.is_file() and f.suffix != ".pyc"]


def build_wheel() -> Path:
    """Our wheel, built once per content."""
    folder = CACHE / "wheel" / digest(package_files())
    if not list(folder.glob("*.whl")):
        installer = ["--installer", "uv"] if shutil.which("uv") else []
        with tempfile.TemporaryDirectory() as made:
            command = [sys.executable, "-m", "build", "--wheel", *installer, "--outdir", made, str(ROOT)]
            run(command, "building the wheel", SOURCE_DATE_EPOCH=EPOCH)
            shutil.rmtree(folder.parent, ignore_errors=True)
            shutil.copytree(made, folder)
    return next(folder.glob("*.whl"))


def pip() -> list[str]:
    """pip, which a uv environment lacks, as a command."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if shutil.which("uv"):
        return ["uv", "tool", "run", "--quiet", "pip"]
    raise LabError("neither pip nor uv is here to fetch wheels; install one of them")


def download(pins: dict[str, str]) -> list[Path]:
    """Pure-Python wheels from the package index, kept in the cache."""
    folder = CACHE / "wheels"
    folder.mkdir(parents=True, exist_ok=True)

    def have(name: str) -> Path | None:
        for file in folder.glob("*-none-any.whl"):
            found, release, *_ = parse_wheel_filename(file.name)
            if (found, str(release)) == (canonicalize_name(name), pins[name]):
                return file
        return None

    missing = [f"{n}=={v}" for n, v in pins.items() if not have(n)]
    if missing:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version", "3.14", "--dest"]
        run(
            [*pip(), "download", *options, str(folder), *missing],
            "fetching wheels from the package index (this needs network once)",
        )
    wheels = {name: have(name) for name in pins}
    lacking = [name for name, wheel in wheels.items() if wheel is None]
    if lacking:
        raise LabError(f"the package index has no pure-Python wheel of {', '.join(f'{n} {pins[n]}' for n in lacking)}")
    return [wheel for wheel in wheels.values() if wheel]


def pyodide_core(into: Path) -> None:
    """Pyodide's core from npm and, beside it, the wheels its kernel starts with."""
    release = import_module("jupyterlite_pyodide_kernel.constants").PYODIDE_VERSION
    archive = CACHE / f"pyodide-{release}.tgz"
    if not archive.exists():
        if not shutil.which("npm"):
            raise LabError("--offline takes Pyodide's core from npm, which is not installed: install Node.js")
        patience = ["--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
        command = ["npm", "pack", f"pyodide@{release}", "--pack-destination", str(CACHE), *patience]
        run(command, "fetching Pyodide from npm (this needs network once)", cwd=CACHE)
    into.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        for name in CORE_FILES:
            member = tar.extractfile(f"package/{name}")
            if member is None:
                raise LabError(f"{archive.name} holds no {name}; delete it and build again")
            (into / name).write_bytes(member.read())

    lock = json.loads((into / "pyodide-lock.json").read_text())
    packages: dict[str, Any] = lock["packages"]
    wanted: dict[str, Any] = {}
    todo = list(OFFLINE_ROOTS)
    while todo:
        name = todo.pop()
        if name not in wanted:
            entry = next(p for key, p in packages.items() if name in (key, p["name"]))
            wanted[name] = entry
            todo += entry["depends"]
    for entry, wheel in zip(wanted.values(), download({p["name"]: p["version"] for p in wanted.values()}), strict=True):
        # Pyodide rebuilds some pure wheels, so the index's bytes can differ from those that its lock expects.
        content = wheel.read_bytes()
        entry["sha256"], entry["file_name"] = hashlib.sha256(content).hexdigest(), wheel.name
        (into / wheel.name).write_bytes(content)
    # Only what is served stays in the lock: importing anything else is an ImportError, not a failed request.
    lock["packages"] = {key: p for key, p in packages.items() if any(p is w for w in wanted.values())}
    (into / "pyodide-lock.json").write_text(json.dumps(lock, sort_keys=True))


def notebooks() -> dict[str, Path]:
    """Notebooks by the path a reader opens."""
    found = {n.name: n for n in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    return found | {f"exercises/{n.parent.name}.ipynb": n for n in sorted((ROOT / "exercises").glob("*/student.ipynb"))}


def copy_notebook(source: Path, target: Path) -> None:
    """A copy that asks for the browser's kernel, so that no dialog comes up, with links as the lab lays files out."""
    text = re.sub(r"\.\./exercises/([\w-]+)/student\.ipynb", r"exercises/\1.ipynb", source.read_text(encoding="utf-8"))
    content = json.loads(text.replace("../../notebooks/", "../"))
    kernel = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
    content.setdefault("metadata", {})["kernelspec"] = kernel
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def stage(folder: Path, wheel: Path, offline: bool) -> None:
    """Lay out what JupyterLite builds from."""
    for path, source in notebooks().items():
        copy_notebook(source, folder / "content" / path)
    wheels = folder / "pypi"
    wheels.mkdir()
    for file in [wheel, *download({n: version(n) for n in LOCAL_WHEELS})]:
        shutil.copy(file, wheels)
    for name in EXTENSIONS:
        source = Path(sys.prefix) / "share/jupyter/labextensions" / name
        if not source.is_dir():
            raise LabError(f"the JupyterLab extension {name} is not in this environment; run: make setup")
        shutil.copytree(source, folder / "labextensions" / name)
    kernel: dict[str, Any] = {"disablePyPIFallback": offline}
    if offline:
        pyodide_core(folder / "static" / "pyodide")
    else:
        kernel["loadPyodideOptions"] = {"packages": ["numpy", "matplotlib"]}
    site = {
        "jupyter-lite-schema-version": 0,
        "jupyter-config-data": {"appName": "mlsysim lab", "litePluginSettings": {f"{KERNEL}:kernel": kernel}},
    }
    (folder / "jupyter-lite.json").write_text(json.dumps(site, indent=2))
    build = {
        "LiteBuildConfig": {
            "apps": ["lab", "notebooks", "tree"],
            "contents": ["content"],
            "ignore_sys_prefix": ["federated_extensions"],
            "no_sourcemaps": True,
            "no_unused_shared_packages": True,
        },
        "FederatedExtensionAddon": {"extra_labextensions_path": [str(folder / "labextensions")]},
    }
    (folder / "jupyter_lite_config.json").write_text(json.dumps(build, indent=2))


def build_lab(out: Path, offline: bool) -> bool:
    """Build the site; False when it is already there."""
    tools = tool_versions()
    if not notebooks():
        raise LabError("notebooks/ holds no notebook yet, so there is nothing to show")
    inputs = [*package_files(), *notebooks().values(), Path(__file__).resolve()]
    key = digest(inputs, json.dumps(tools, sort_keys=True), str(offline))
    stamp = out / STAMP
    if stamp.exists() and json.loads(stamp.read_text()).get("key") == key:
        return False
    if out.exists() and any(out.iterdir()) and not stamp.exists():
        raise LabError(f"{out} is not empty and no lab; give another --out or empty it")
    CACHE.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        stage(folder, wheel, offline)
        # With SOURCE_DATE_EPOCH the builder stamps everything in the *parent* of its output: give it one of its own.
        site = folder / "made" / "site"
        command = [sys.executable, "-m", "jupyterlite_core", "build", "--output-dir", str(site)]
        run(command, "jupyter lite build", cwd=folder, SOURCE_DATE_EPOCH=EPOCH)
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(site, out)
    (out / "index.html").write_text(DOOR, encoding="utf-8")
    stamp.write_text(json.dumps({"key": key, "offline": offline, **tools}, indent=2) + "\n")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="a site that makes no outside request")
    parser.add_argument("--out", type=Path, default=ROOT / "_lab", help="folder of the site (default: _lab)")
    parser.add_argument("--wheel", action="store_true", help="build our wheel alone and print where it is")
    options = parser.parse_args()
    if options.wheel:
        print(build_wheel())
        return
    out: Path = options.out.resolve()
    fresh = build_lab(out, options.offline)
    print(f"{'built' if fresh else 'already current:'} {out} ({len(notebooks())} notebooks)")
    print(f"see it: python -m http.server -d {out}, then /index.html?path=<notebook>")


if __name__ == "__main__":
    main()
