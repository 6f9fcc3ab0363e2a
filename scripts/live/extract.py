"""From a notebook to its views: for each ``explore`` call the cells' statements that it needs, and no others."""

import ast
import json
import symtable
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
            found.add(inner.id)
        elif isinstance(inner, (ast.Attribute, ast.Subscript)) and isinstance(inner.ctx, ast.Store):
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


def read(path: Path) -> list[Found]:
    """The views of a notebook's file."""
    return views(json.loads(path.read_text(encoding="utf-8")))
