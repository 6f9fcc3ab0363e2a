"""The engine of live pages: Python for the browser from npm, our library in one file, Python's memory after its imports.

All of it is fetched or made at build time into ``book/assets/vendor/engine/``, which git ignores. Without npm or Node a
page stays as it was printed, and says so.
"""

import gzip
import json
import shutil
import struct
import subprocess
import zipfile
from hashlib import sha256
from pathlib import Path

from build_lab import CACHE as LAB
from build_lab import build_wheel

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "book" / "_live"
ENGINE = ROOT / "book" / "assets" / "vendor" / "engine"
CACHE = LAB.parent / "live"
CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
SITE = "/lib/site"  # where the library lies in the worker's file system
_ROWS = [
    f"mlsysim/evidence/rows/{table}" for table in ("training_step.", "inference.", "kernel_")
]  # a megabyte
LEFT_OUT = (".dist-info/", "mlsysim/cli/", *_ROWS)  # what no page asks for
# Pyodide starts with 30 MiB; a snapshot of a larger memory needs that much before it is put back.
RESTORE = "return Module.HEAP8.set(t),l}"
GROWN = "return t.length>Module.HEAP8.length&&Module.growMemory(t.length),Module.HEAP8.set(t),l}"


class Missing(Exception):
    """What the engine is made with is not here."""


class Failed(SystemExit):
    """What the engine is made with is here, and the engine could not be made; the message says where."""


def _run(*command: str | Path, cwd: Path) -> None:
    try:
        done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"live: {command[0]}: {error}") from error
    if done.returncode:
        raise Failed(f"live: {' '.join(map(str, command[:3]))}: {(done.stdout + done.stderr)[-600:]}")


def modules(pinned: Path = HERE) -> Path:
    """The packages that a folder's package-lock.json pins, checked by their digests, fetched once."""
    lock = (pinned / "package-lock.json").read_bytes() + (pinned / "package.json").read_bytes()
    folder = CACHE / f"npm-{sha256(lock).hexdigest()[:12]}"
    if not (folder / "done").exists():
        if not shutil.which("npm") or not shutil.which("node"):
            raise Missing("npm and Node are not installed")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(pinned / name, folder)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
        _run("npm", "ci", *quiet, cwd=folder)
        (folder / "done").touch()
    return folder / "node_modules"


def served(name: str) -> str:
    """A part's name in the engine: not every server knows .mjs, and a browser takes a module from one that does."""
    return name.replace(".mjs", ".js")


def packed(wheel: Path) -> bytes:
    """The files of our wheel in one piece, as live-unpack.js reads it."""
    table, parts = [], []
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith("/") and not any(part in name for part in LEFT_OUT):
                parts.append(archive.read(name))
                table.append([f"{SITE}/{name}", len(parts[-1])])
    head = json.dumps(table, separators=(",", ":")).encode()
    return gzip.compress(struct.pack("<I", len(head)) + head + b"".join(parts), 9, mtime=0)


def prelude(imports: list[str], programs: list[str]) -> str:
    """What runs before the snapshot: the imports of every view, what every page reads, and the first move of these programs."""
    lines = [f"import sys\nsys.path.insert(0, {SITE!r})", "from mlsysim.course.live import answer"]
    for line in imports:  # what needs NumPy is not there in a page
        lines.append(f"try:\n    {line}\nexcept ImportError:\n    pass")
    lines += [
        "from mlsysim import catalog",
        "catalog.nodes()",
        "for name in catalog.devices(): catalog.device(name)",
        "for name in catalog.models(): catalog.model(name)",
        "from mlsysim.course.live import Page, open_view",
        "from mlsysim.course.sizing.showing import EXAMPLE",
        "Page().size(EXAMPLE)",  # the page that sizes a job finds its tables read
        f"for code in {programs!r}:",
        "    try:\n        open_view(code).move({})\n    except ImportError:\n        pass",
        "import gc; gc.collect(); gc.freeze()",  # what is there from the start is never looked through again
    ]
    return "\n".join(lines) + "\n"


def make(imports: list[str], programs: list[str]) -> str:
    """Make the engine, or raise Missing without npm and Node; returns a short digest of all that it holds."""
    source, wheel = modules(), build_wheel()
    unpacker = ROOT / "book" / "assets" / "live-unpack.js"
    before = prelude(imports, programs)
    editor, snapshot = HERE / "editor.mjs", HERE / "snapshot.mjs"
    parts = [GROWN, str(source.parent), wheel.parent.name, before, *LEFT_OUT, *map(served, CORE)]
    parts += [p.read_text(encoding="utf-8") for p in (editor, snapshot, unpacker)]
    key = sha256("\0".join(parts).encode()).hexdigest()[:12]
    if (ENGINE / "made").is_file() and (ENGINE / "made").read_text() == key:
        return key
    made = CACHE / f"engine-{key}"
    if not (made / "made").is_file():
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        for name in CORE:
            shutil.copyfile(source / "pyodide" / name, made / name)
        loader = (made / "pyodide.asm.mjs").read_text(encoding="utf-8")
        if loader.count(RESTORE) != 1:
            raise Failed(
                "live: this Pyodide restores its memory in another way: mend RESTORE in scripts/live/engine.py"
            )
        (made / "pyodide.asm.mjs").write_text(loader.replace(RESTORE, GROWN), encoding="utf-8")
        shutil.copyfile(unpacker, made / "unpack.mjs")  # .js would mean what a package.json above this folder says
        (made / "library.bin").write_bytes(packed(wheel))
        (made / "prelude.py").write_text(before, encoding="utf-8")
        _run("node", snapshot, made, made / "library.bin", made / "start.bin", made / "prelude.py", cwd=source.parent)
        shutil.copyfile(editor, source.parent / "editor.mjs")
        bundle = ("--bundle", "--minify", "--format=esm", "--legal-comments=inline", f"--outfile={made / 'editor.js'}")
        _run(source / ".bin" / "esbuild", "editor.mjs", *bundle, cwd=source.parent)
        (made / "prelude.py").unlink()
        (made / "unpack.mjs").unlink()
        for name in CORE:
            (made / name).rename(made / served(name))
        (made / "made").write_text(key)
    shutil.rmtree(ENGINE, ignore_errors=True)
    shutil.copytree(made, ENGINE)
    return key
