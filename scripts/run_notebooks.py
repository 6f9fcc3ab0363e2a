"""Re-execute the notebooks and write them back in one canonical form, so that a second run changes nothing.

    python scripts/run_notebooks.py [--check] [NOTEBOOK ...]

``--check`` runs them without writing and fails if any would change. Execution is static (``MLSYSIM_STATIC=1``):
sliders show their starting values, so every figure and number in the book stands in a stored output.
"""

import argparse
import base64
import io
import os
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 600  # of the clock, and ten times what a cell takes on a quiet machine
SAME_COLOUR = 4 / 255  # processors round the edges of a line differently, by one or two steps of 255
_TEXT_CHUNKS = (b"tEXt", b"iTXt", b"zTXt", b"tIME", b"pHYs")


def strip_png(png: bytes) -> bytes:
    """Drop a PNG's metadata chunks (matplotlib writes its version into one)."""
    kept, at = [png[:8]], 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        chunk = png[at : at + 12 + length]
        if chunk[4:8] not in _TEXT_CHUNKS:
            kept.append(chunk)
        at += 12 + length
    return b"".join(kept)


def merged_streams(outputs: list[Any]) -> list[Any]:
    """One stream for prints in a row: where a kernel flushes between them is chance."""
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last is not None and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def normalise(notebook: Any) -> None:
    """Remove whatever differs between two runs of the same cells."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = merged_streams(cell.outputs)
        cell.metadata = {k: v for k, v in cell.metadata.items() if k == "tags"}
        for output in cell.get("outputs", []):
            output.pop("metadata", None)
            if output.output_type in ("display_data", "execute_result"):
                output["metadata"] = {}
                data = output["data"]
                data.pop("application/vnd.jupyter.widget-view+json", None)
                if "image/png" in data:
                    png = strip_png(base64.b64decode(data["image/png"]))
                    data["image/png"] = base64.b64encode(png).decode()


def same_picture(one: str, other: str) -> bool:
    """Whether two PNGs (base64) show the same, whichever processor drew them."""
    if one == other:
        return True
    import matplotlib.image as image

    first, second = (image.imread(io.BytesIO(base64.b64decode(png))) for png in (one, other))
    return first.shape == second.shape and bool(abs(first - second).max() <= SAME_COLOUR)


def keep_pictures(notebook: Any, stored: Any) -> None:
    """Put back each stored picture that the new one equals to the eye, so that a run elsewhere changes nothing."""
    before = {cell.id: cell.get("outputs", []) for cell in stored.cells}
    for cell in notebook.cells:
        for new, old in zip(cell.get("outputs", []), before.get(cell.id, []), strict=False):
            pngs = [output.get("data", {}).get("image/png") for output in (new, old)]
            if all(pngs) and same_picture(*pngs):
                new["data"]["image/png"] = old["data"]["image/png"]


def execute(path: Path, startup: str = "") -> Any:
    """Run a notebook in a fresh kernel, in its own folder, and return it normalised; ``startup`` runs before its cells."""
    import nbformat  # seconds to import, as nbclient: not for who only compares pictures
    from nbclient import NotebookClient

    notebook, stored = nbformat.read(path, 4), nbformat.read(path, 4)
    environment = os.environ | {
        "MLSYSIM_STATIC": "1",
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.widget_registry = {}  # no Output-widget emulation: it can stall (jupyter/nbclient issue 312)
    with tempfile.TemporaryDirectory() as history:
        before = Path(history) / "profile_default" / "startup"
        before.mkdir(parents=True)
        (before / "00-before.py").write_text(startup, encoding="utf-8")
        client.execute(env=environment | {"IPYTHONDIR": history})
    normalise(notebook)
    keep_pictures(notebook, stored)
    return notebook


def main() -> int:
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("notebooks", nargs="*", type=Path)
    args = parser.parse_args()
    stale = []
    for path in args.notebooks or sorted((ROOT / "notebooks").glob("*.ipynb")):
        start = time.perf_counter()
        text = nbformat.writes(execute(path)) + "\n"
        changed = text != path.read_text(encoding="utf-8")
        if changed and not args.check:
            path.write_text(text, encoding="utf-8")
        stale += [path.name] if changed else []
        print(f"{path.name}: {time.perf_counter() - start:.1f} s{', changed' if changed else ''}")
    if args.check and stale:
        print(f"not as committed: {', '.join(stale)}; run `make notebooks` and look at the difference", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
