"""The drawing of the package, from its imports: ``python scripts/house.py`` writes book/assets/house.svg.

A room of the library stands on the lowest floor above all rooms that it imports, so imports point downwards unless they go
round in a circle. The wings stand on top: they import the library, and the library imports none of them.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "book" / "assets" / "house.svg"
WINGS = ("evidence", "course", "cli")  # who proves the library, who teaches with it, and its commands


@cache
def imported(path: Path) -> frozenset[str]:
    """What a file imports, anywhere in it, by full name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def needs(package: Path) -> dict[str, set[str]]:
    """Which rooms each room of a package imports."""
    rooms = {p.stem for p in package.glob("*.py")} | {p.parent.name for p in package.glob("*/__init__.py")}
    rooms.discard("__init__")
    found = {}
    for room in rooms:
        files = (package / room).rglob("*.py") if (package / room).is_dir() else [package / f"{room}.py"]
        names = {name.split(".")[1] for path in files for name in imported(path) if name.startswith("mlsysim.")}
        found[room] = names & rooms - {room}
    return found


def floors(needs: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Rooms from the ground up, each on the lowest floor above all that it imports.

    Raises
    ------
    ValueError
        Rooms that import each other in a circle, which no floor can hold.
    """
    left, found, placed = dict(needs), [], set[str]()
    while left:
        lowest = sorted(room for room, below in left.items() if set(below) <= placed)
        if not lowest:
            raise ValueError(
                f"a circle of imports among {', '.join(sorted(left))}; move what they share to a room below them"
            )
        found.append(lowest)
        placed |= set(lowest)
        left = {room: below for room, below in left.items() if room not in placed}
    return found


def circles(package: Path) -> list[list[str]]:
    """Files that import each other, directly or through others; ``__init__`` only hands on what the others have."""
    paths = {
        ".".join((package.name, *p.relative_to(package).with_suffix("").parts)): p
        for p in package.rglob("*.py")
        if p.stem != "__init__"
    }
    graph = {name: imported(path) & set(paths) - {name} for name, path in paths.items()}

    def below(name: str) -> set[str]:
        seen, todo = set[str](), [name]
        while todo:
            new = graph[todo.pop()] - seen
            seen |= new
            todo += new
        return seen

    reached = {name: below(name) for name in graph}
    found = {frozenset(o for o in reached[n] if n in reached[o]) for n in graph if n in reached[n]}
    return sorted(map(sorted, found))


_LANE, _WIDTH, _LABEL = 36, 760, 72
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1b1f24 }
  .what { fill: #57606a } .box { fill: #eef3f8; stroke: #4c78a8 } .wing { fill: #f6f1e7; stroke: #9a7b3f }
  .lane { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .what { fill: #9da7b3 } .box { fill: #1c2733; stroke: #7aa6d6 }
    .wing { fill: #2e281c; stroke: #c9a45c } .lane { stroke: #3d444d }
  }
"""


def _said(path: Path) -> tuple[str, int]:
    """The first sentence of a room's docstring, in plain text, and how many files it has."""
    file = path / "__init__.py" if path.is_dir() else path
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    text = " ".join(re.sub(r"[`:]{2,}|:\w+:|`", "", said.split("\n\n")[0]).split())
    return text, len(list(path.rglob("*.py"))) if path.is_dir() else 1


def _lanes() -> list[tuple[str, list[Path]]]:
    """What stands beside each other, from the top: the wings room by room, then the floors of the library."""
    package = ROOT / "mlsysim"
    library = {room: below for room, below in needs(package).items() if room not in WINGS}
    lanes = [(wing, sorted(p.parent for p in (package / wing).glob("*/__init__.py"))) for wing in reversed(WINGS)]
    for number, rooms in reversed(list(enumerate(floors(library)))):
        paths = [package / room if (package / room).is_dir() else package / f"{room}.py" for room in rooms]
        lanes.append((str(number or "ground"), paths))
    return lanes


def drawing() -> str:
    """The house as SVG: the top first, as one looks at a house; a long floor takes several lines."""
    alt = "The rooms of mlsysim on their floors, the wings above the library; imports point downwards only"
    parts: list[str] = []
    y = 6
    for label, rooms in _lanes():
        x, wing = _LABEL, " wing" * (label in WINGS)
        parts.append(f'<text class="what" x="4" y="{y + 23}">{label}</text>')
        for room in rooms:
            purpose, count = _said(room)
            name = room.stem if count == 1 else f"{room.stem} · {count}"
            width = 16 + 7.4 * len(name)
            if x + width > _WIDTH:
                x, y = _LABEL, y + _LANE
            parts.append(f'<g><title>{escape(purpose)}</title><rect class="box{wing}" rx="4" x="{x}" y="{y + 5}" ')
            parts.append(f'width="{width:.0f}" height="26"/><text x="{x + 8}" y="{y + 23}">{escape(name)}</text></g>')
            x += round(width) + 10
        y += _LANE
        parts.append(f'<line class="lane" x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 6}" role="img" aria-label="{alt}">'
    return "\n".join([head, f"<title>{alt}</title>", f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    OUT.write_text(drawing(), encoding="utf-8")
    print(f"written: {OUT.relative_to(ROOT)}")
