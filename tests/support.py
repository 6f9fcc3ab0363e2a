"""What test modules share: where the repository is, and how a missing tool is treated."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlsysim import catalog

ROOT = Path(__file__).resolve().parent.parent
BY_DAY = "01-iron-law"  # the live chapter that browsers walk by day
NIGHTLY = bool(os.environ.get("MLSYSIM_NIGHTLY"))  # `make nightly`: what `make test` samples, in full

_HLO = (ROOT / "tests" / "data" / "hlo", ROOT / "mlsysim" / "hlo" / "samples")
PROGRAMS = {p.stem: p for folder in _HLO for p in sorted(folder.glob("*.json"))}  # in JSON, those of the package too


def missing(reason: str) -> None:
    """Skip with a reason on somebody's laptop; in CI a missing tool is a failure."""
    if os.environ.get("MLSYSIM_CI"):
        pytest.fail(f"{reason}, and MLSYSIM_CI is set")
    pytest.skip(reason)


class Cell(dict[str, Any]):
    """A cell of a notebook, or a part of one: its keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def code_cells(path: Path) -> list[Any]:
    """The code cells of a notebook as it is stored; nbformat, which takes seconds to import, is for writing one."""
    cells = json.loads(path.read_text(encoding="utf-8"), object_hook=Cell)["cells"]
    for cell in cells:
        cell["source"] = "".join(cell["source"])
    return [cell for cell in cells if cell.cell_type == "code"]


def once(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """What ``make`` writes to a path, a file or a folder: made by the process that asks first, while the others wait.

    ``folder`` is the fixture ``shared``, so it is made once per session however many processes run the tests.
    """
    done, part = folder / name, folder / f"{name}.part"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(part, ignore_errors=True)  # of a process that failed
            make(part)
            part.rename(done)
    return done


def long_program(copies: int) -> str:
    """A StableHLO program with the body of a train step again and again, on the same arguments; 600 copies are 8 MB."""
    text = (ROOT / "tests" / "data" / "hlo" / "mlp_train_dp8.spmd.mlir").read_text(encoding="utf-8")
    start = text.index("func.func @main")
    head, lines = text[: text.rindex("\n", 0, start) + 1], text[start:].split("\n")
    end = next(i for i, line in enumerate(lines) if line.startswith("    return"))
    body = "\n".join(lines[1:end])
    renamed = [re.sub(r"%(?!arg\d)(\w+)", rf"%c{i}_\1", body) if i else body for i in range(copies)]
    return "\n".join([head + lines[0].replace("func.func", "  func.func", 1), *renamed, *lines[end:]])


def resized(m: catalog.Model, **sizes: Any) -> catalog.Model:
    """A dense decoder of the usual kind with the sizes of a model, but for those given."""
    own = {"layers": m.n_layers} | {
        k: getattr(m, k) for k in ("hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
    }
    own |= {"gated_mlp": m.gated_mlp, "tied_embeddings": m.tied_embeddings, "name": m.name}
    return catalog.decoder(**own | sizes)
