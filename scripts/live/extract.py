"""From a notebook to its views: for each ``explore`` call the cells' statements that it needs, and no others."""

import ast
import base64
import copyreg
import io
import json
import pickle
import subprocess
import symtable
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim import course
from mlsysim.course.live import read_only

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
LONG = 0.1  # seconds of a processor that a statement may take before its value is shipped instead
MOST = 300_000  # characters of such a value
# What searches among thousands of plans: with NumPy quicker than a blink, in a page seconds, and tens of megabytes.
SEARCHES = frozenset({"plan", "search_published", "sweep", "frontier"})
MUTATORS = {"append", "add", "extend", "insert", "update", "setdefault", "sort", "clear", "pop", "remove"}


@dataclass(frozen=True)
class Statement:
    """A statement of a cell, the names that it binds or changes, and the names that it uses."""

    source: str
    binds: frozenset[str]
    uses: frozenset[str]
    cell: str
    node: ast.stmt


@dataclass(frozen=True)
class Found:
    """A view of a notebook: its name, its cell, and a program that defines it and calls ``explore``."""

    name: str
    cell: str
    code: str


def statements(notebook: dict[str, Any]) -> list[Statement]:
    """The statements of a notebook's code cells; a cell with commands of IPython (the one that installs) is left out."""
    made = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or any(line.lstrip().startswith(("%", "!")) for line in source.splitlines()):
            continue
        lines = source.splitlines()
        for node in ast.parse(source).body:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            text = "\n".join(lines[first - 1 : node.end_lineno])
            made.append(Statement(text, _binds(node), _uses(text), cell.get("id", ""), node))
    return made


def _binds(node: ast.stmt) -> frozenset[str]:
    """The names that a statement defines, assigns or changes in place."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return frozenset({node.name})
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return frozenset(a.asname or a.name.partition(".")[0] for a in node.names)
    table = symtable.symtable(ast.unparse(node), "<cell>", "exec")
    found = {s.get_name() for s in table.get_symbols() if s.is_assigned()}
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Attribute, ast.Subscript)) and isinstance(inner.ctx, ast.Store):
            found |= _base(inner)
        elif (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr in MUTATORS
            and isinstance(node, (ast.Expr, ast.For, ast.While, ast.If, ast.With))
        ):
            found |= _base(inner.func)
    return frozenset(found)


def _base(node: ast.expr) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _uses(source: str) -> frozenset[str]:
    """The names of the notebook that a statement uses: not those of its own functions and comprehensions."""
    found = set()
    todo = [symtable.symtable(source, "<cell>", "exec")]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        module = table.get_type() == "module"
        found |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (module or s.is_global())}
    return frozenset(found)


def _explores(node: ast.stmt) -> str | None:
    """The name of the view that a statement explores."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if isinstance(call.func, ast.Name) and call.func.id == "explore" and isinstance(call.args[0], ast.Name):
            return call.args[0].id
    return None


def needed(before: Sequence[Statement], names: Iterable[str]) -> list[Statement]:
    """The statements that bind the names, and those that these need, in their order."""
    wanted, kept = set(names), []
    for statement in reversed(before):
        if wanted & statement.binds and _explores(statement.node) is None:
            kept.append(statement)
            wanted |= statement.uses
    return kept[::-1]


def _only(statement: Statement, wanted: frozenset[str]) -> str:
    """An import of just the names that are wanted; any other statement as it stands."""
    node = statement.node
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [a for a in node.names if (a.asname or a.name.partition(".")[0]) in wanted]
        kind = ast.Import(names) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, names, node.level)
        return ast.unparse(kind)
    return statement.source


def views(notebook: dict[str, Any]) -> list[Found]:
    """Every view of a notebook, each as a program of its own."""
    made, all_statements = [], statements(notebook)
    for at, statement in enumerate(all_statements):
        if (name := _explores(statement.node)) is None:
            continue
        parts = [*needed(all_statements[:at], statement.uses), statement]
        used = frozenset().union(*(p.uses for p in parts))
        made.append(Found(name, statement.cell, "\n\n".join(_only(p, used) for p in parts) + "\n"))
    return made


@cache
def needs_numpy() -> frozenset[str]:
    """The imports of all notebooks' views that fail where NumPy is missing, as it is in a page."""
    lines = sorted({n for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")) for f in read(path) for n in _imports(f.code)})
    script = "import sys, json\nsys.modules['numpy'] = None\nfailed = []\nfor line in json.load(sys.stdin):\n    try:\n        exec(line, {})\n    except ImportError:\n        failed.append(line)\nprint(json.dumps(failed))"
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(lines), capture_output=True, text=True, check=True
    )
    return frozenset(json.loads(done.stdout))


def _imports(code: str) -> list[str]:
    """One import of one name per line."""
    made = []
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import):
            made += [ast.unparse(ast.Import([a])) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            made += [ast.unparse(ast.ImportFrom(node.module, [a], node.level)) for a in node.names]
    return made


def missing(code: str) -> list[str]:
    """The imports of a view's program that a page does not have."""
    return [line for line in _imports(code) if line in needs_numpy()]


def searches(code: str) -> bool:
    """Whether a view's program imports a search."""
    return any(name in SEARCHES for line in _imports(code) for name in _binds(ast.parse(line).body[0]))


def kept(found: Found) -> Found:
    """The same view with what takes long at the top of its cells (a table of scores, a fit) as the build computed it.

    Only values that are assigned to one name and can be pickled; functions stay code, so that the page computes what moves.
    """
    parts = statements({"cells": [{"cell_type": "code", "id": found.cell, "source": found.code}]})
    space: dict[str, Any] = {"__name__": "__live__"}
    course.explore, before = (lambda *_, **__: None), course.explore
    done = []
    absent = {n for line in missing(found.code) for n in _binds(ast.parse(line).body[0])}
    try:
        for part in parts:
            start = time.process_time()
            exec(compile(part.source, "<notebook>", "exec"), space)
            long = time.process_time() - start > LONG or bool(part.uses & (absent | SEARCHES))
            done.append(_value(part, space) if long and isinstance(part.node, ast.Assign) else part)
            if done[-1] is part and part.uses & (absent | SEARCHES):
                absent |= part.binds  # what is made of it is not to be had either
    finally:
        course.explore = before
    (last,) = [p for p in done if _explores(p.node)]
    wanted = [*needed(done[:-1], last.uses), last]
    used = frozenset().union(*(p.uses for p in wanted))
    return Found(found.name, found.cell, "\n\n".join(_only(p, used) for p in wanted) + "\n")


def pickled(value: Any) -> bytes:
    """A value as bytes, with the library's read-only mappings in it."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 4)
    pickler.dispatch_table = {**copyreg.dispatch_table, MappingProxyType: lambda m: (read_only, (dict(m),))}
    pickler.dump(value)
    return file.getvalue()


def _value(part: Statement, space: Mapping[str, Any]) -> Statement:
    """An assignment with its value written down, or the statement as it is."""
    if len(part.binds) != 1:
        return part
    (name,) = part.binds
    try:
        made = pickled(space[name])
        pickle.loads(made)
    except Exception:  # what is made of the notebook's own classes stays code
        return part
    text = base64.b85encode(zlib.compress(made, 9)).decode()
    if len(text) > MOST or b"__live__" in made:
        return part
    source = (
        f"{name} = __import__('pickle').loads(__import__('zlib').decompress(__import__('base64').b85decode({text!r})))"
    )
    return Statement(source, part.binds, frozenset(), part.cell, ast.parse(source).body[0])


def read(path: Path) -> list[Found]:
    """The views of a notebook's file."""
    return views(json.loads(path.read_text(encoding="utf-8")))
