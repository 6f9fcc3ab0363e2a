"""The drawing of the package, from its imports: ``python scripts/house.py`` writes book/assets/house.svg.

A room stands on the lowest floor above all rooms that it imports, so imports point downwards unless they go round in a circle.
"""

import ast
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "book" / "assets" / "house.svg"


def imported(path: Path) -> set[str]:
    """Rooms of the package that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("mlsysim.")}


def needs(package: Path) -> dict[str, set[str]]:
    """Which rooms each room of a package imports."""
    rooms = {p.stem for p in package.glob("*.py")} | {p.parent.name for p in package.glob("*/__init__.py")}
    files = {
        room: (package / room).rglob("*.py") if (package / room).is_dir() else [package / f"{room}.py"]
        for room in rooms
    }
    files.pop("__init__", None)
    return {room: (set().union(*map(imported, paths)) & set(files)) - {room} for room, paths in files.items()}


def floors(package: Path) -> list[list[str]]:
    """Rooms from the ground up, each on the lowest floor above all that it imports.

    Raises
    ------
    ValueError
        Rooms that import each other in a circle, which no floor can hold.
    """
    left, found, placed = needs(package), [], set[str]()
    while left:
        lowest = sorted(room for room, below in left.items() if below <= placed)
        if not lowest:
            raise ValueError(
                f"a circle of imports among {', '.join(sorted(left))}; move what they share to a room below them"
            )
        found.append(lowest)
        placed |= set(lowest)
        left = {room: below for room, below in left.items() if room not in placed}
    return found


_LANE, _WIDTH, _LABEL = 36, 760, 64
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
    """The house as SVG: the top floor first, as one looks at a house; a long floor takes several lines."""
    alt = "The rooms of mlsysim on their floors; imports point downwards only"
    parts: list[str] = []
    y = 6
    found = floors(ROOT / "mlsysim")
    for number, rooms in reversed(list(enumerate(found))):
        x = _LABEL
        parts.append(f'<text class="what" x="4" y="{y + 23}">{number if number else "ground"}</text>')
        for room in rooms:
            count = _files(room)
            name = room if count == 1 else f"{room} · {count}"
            width = 16 + 7.4 * len(name)
            if x + width > _WIDTH:
                x, y = _LABEL, y + _LANE
            parts.append(f'<g><title>{escape(purpose(room))}</title><rect class="box" rx="4" x="{x}" y="{y + 5}" ')
            parts.append(f'width="{width:.0f}" height="26"/><text x="{x + 8}" y="{y + 23}">{escape(name)}</text></g>')
            x += round(width) + 10
        y += _LANE
        parts.append(f'<line class="lane" x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 6}" role="img" aria-label="{alt}">'
    return "\n".join([head, f"<title>{alt}</title>", f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    OUT.write_text(drawing(), encoding="utf-8")
    print(f"written: {OUT.relative_to(ROOT)}")
