"""The floors of the package, and a drawing of them: ``python scripts/house.py`` writes book/assets/house.svg.

A module may import only from floors below its own; ``tests/house/test_house.py`` holds it to that.
"""

import ast
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "book" / "assets" / "house.svg"

# From the ground up, each with what it is for.
FLOORS: list[tuple[str, set[str]]] = [
    ("errors, numbers, words", {"errors", "_numeric", "vocabulary"}),
    ("late names", {"_lazy"}),
    ("units, files", {"units", "tables", "files", "digests"}),
    ("the registry, drawings", {"equations", "drawing"}),
    ("what results share", {"results", "quantities"}),
    ("how wrong, what counts", {"intervals", "sensitivity"}),
    ("sourced facts", {"catalog"}),
    ("one kernel, one model", {"efficiencies", "roofline", "kernels", "experts", "transformer"}),
    ("counting", {"flops", "kernel_times"}),
    ("bytes, messages", {"memory", "collectives"}),
    ("collectives on a machine", {"communication"}),
    ("topologies, congestion", {"network"}),
    ("splitting a model", {"parallelism", "pipelines"}),
    ("one step, one answer", {"training", "inference", "beyond"}),
    ("after pre-training", {"posttraining"}),
    ("joules, replicas", {"energy", "capacity"}),
    ("dollars, failures", {"cost", "reliability"}),
    ("kernel by kernel", {"serving_steps"}),
    ("request by request", {"serving"}),
    ("from a program", {"hlo"}),
    ("search, sweep", {"explore"}),
    ("against measurements", {"validation"}),
    ("doors", {"doors"}),
    ("teaching", {"classroom"}),
    ("the command line", {"cli"}),
]

_LANE, _WIDTH, _LABEL = 36, 760, 190
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1b1f24 }
  .what { fill: #57606a } .box { fill: #eef3f8; stroke: #4c78a8 } .lane { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .what { fill: #9da7b3 } .box { fill: #1c2733; stroke: #7aa6d6 } .lane { stroke: #3d444d }
  }
"""


def _files(room: str) -> int:
    folder = ROOT / "mlsysim" / room
    return len(list(folder.rglob("*.py"))) if folder.is_dir() else 1


def purpose(room: str) -> str:
    """The first sentence of a room's docstring, in plain text."""
    folder = ROOT / "mlsysim" / room
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(re.sub(r"[`:]{2,}|:\w+:|`", "", said.split("\n\n")[0]).split())


def drawing() -> str:
    """The house as SVG: the top floor first, as one looks at a house."""
    height = _LANE * len(FLOORS) + 12
    alt = "The rooms of mlsysim on their floors; imports point downwards only"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{alt}">',
        f"<title>{alt}</title>",
        f"<style>{_STYLE}</style>",
    ]
    for i, (what, rooms) in enumerate(reversed(FLOORS)):
        y = 6 + i * _LANE
        parts.append(f'<line class="lane" x1="0" x2="{_WIDTH}" y1="{y + _LANE}" y2="{y + _LANE}"/>')
        parts.append(f'<text class="what" x="4" y="{y + 23}">{escape(what)}</text>')
        x = _LABEL
        for room in sorted(rooms):
            count = _files(room)
            name = room if count == 1 else f"{room} · {count} files"
            width = 16 + 7.4 * len(name)
            parts.append(f'<g><title>{escape(purpose(room))}</title><rect class="box" rx="4" x="{x}" y="{y + 5}" ')
            parts.append(f'width="{width:.0f}" height="26"/><text x="{x + 8}" y="{y + 23}">{escape(name)}</text></g>')
            x += round(width) + 10
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    OUT.write_text(drawing(), encoding="utf-8")
    print(f"written: {OUT.relative_to(ROOT)}")
