"""What printed a number of the prose: its expression, the inputs of that, equations, sources, and the tests that hold it."""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mlsysim import catalog, equations, evidence

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scripts" / "chapter_numbers"
MOST = 700  # characters of one piece of code
FRESH = "scripts/make_book_parts.py prints it anew at every build"
Definitions = dict[str, ast.stmt]


class Module:
    """The module of a chapter's numbers, as text and as a tree."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / f"{name}.py"
        text = self.path.read_text(encoding="utf-8")
        self.lines = text.encode().split(b"\n")  # a tree counts columns in bytes
        tree = ast.parse(text)
        (numbers,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "numbers"]
        self.outer = _defined([n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom))])
        self.inner = _defined(numbers.body)
        (self.made,) = [n.value for n in numbers.body if isinstance(n, ast.Return) and n.value is not None]

    def source(self, node: ast.AST) -> str:
        """The text of a node, its lines moved to the left."""
        lines = self._segment(node)
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        text = "\n".join(line[margin:] for line in lines)
        return text if len(text) <= MOST else text[:MOST] + " …"

    def _segment(self, node: ast.AST) -> list[str]:
        """The lines of a node. ``ast.get_source_segment`` splits the whole module at every call."""
        first, last, start, end = node.lineno - 1, node.end_lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        lines = self.lines[first:last]
        lines[-1] = lines[-1][:end]
        lines[0] = b" " * len(lines[0][:start].decode()) + lines[0][start:] if len(lines) > 1 else lines[0][start:]
        return [line.decode() for line in lines]

    def expression(self, path: list[str]) -> ast.expr:
        """The expression at a path of keys, or the innermost one around it that is written down."""
        node: ast.expr = self.made
        for key in path:
            while isinstance(node, ast.Name) and isinstance(self.inner.get(node.id), ast.Assign):
                node = self.inner[node.id].value  # type: ignore[attr-defined]
            if not isinstance(node, ast.Dict):
                return node
            found = [
                v
                for k, v in zip(node.keys, node.values, strict=True)
                if isinstance(k, ast.Constant) and str(k.value) == key
            ]
            spread = [v for k, v in zip(node.keys, node.values, strict=True) if k is None]
            if not found and len(spread) == 1:
                found = spread
            if not found:
                return node
            node = found[0]
        return node

    def behind(self, node: ast.AST) -> list[ast.stmt]:
        """The definitions that an expression rests on, nearest first."""
        kept: list[ast.stmt] = []
        todo = [node]
        while todo:
            for name in _names(todo.pop(0)):
                definition = self.inner.get(name) or self.outer.get(name)
                if definition is not None and definition not in kept:
                    kept.append(definition)
                    todo.append(definition)
        return kept


def _defined(body: list[ast.stmt]) -> Definitions:
    found: Definitions = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.For, ast.With)):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    found.setdefault(inner.id, node)
    return found


def _names(node: ast.AST) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


@cache
def module(name: str) -> Module:
    """The module of that name, read once."""
    return Module(name)


@cache
def _places() -> dict[str, str]:
    """Where each equation is derived: its label, and the page and anchor."""
    found = {}
    for path in sorted((ROOT / "book").glob("[0-9]*.qmd")):
        for label in re.findall(r"\{#(eq-[\w-]+)\}", path.read_text(encoding="utf-8")):
            found[label] = f"{path.stem}.html#{label}"
    return found


@cache
def _by_name() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for equation in equations.registered().values():
        found.setdefault(equation.name, []).append(equation)
    return found


@cache
def _mutations() -> list[dict[str, Any]]:
    return list(tomllib.loads((ROOT / "tests" / "mutations.toml").read_text(encoding="utf-8")).values())


@cache
def _calls() -> dict[str, list[str]]:
    """The tests that call a function of some name, marked as independent or published first."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                where = f"{path.relative_to(ROOT).as_posix()}::{node.name}"
                first = any(
                    "independent" in ast.unparse(d) or "published" in ast.unparse(d) for d in node.decorator_list
                )
                for name in {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)} | set(_names(node)):
                    found.setdefault(name, []).insert(0, where) if first else found.setdefault(name, []).append(where)
    return found


@cache
def _tests_of(label: str) -> tuple[str, ...]:
    """The tests that notice a mistake planted in an equation's function."""
    equation = equations.lookup(label)
    function = inspect.unwrap(equation.function)
    path, text = Path(inspect.getfile(function)), inspect.getsource(function)
    made = []
    for row in _mutations():
        if path.as_posix().endswith(row["file"]) and row["old"].split("\n")[0] in text:
            made += row["tests"] if isinstance(row["tests"], list) else [row["tests"]]
    return tuple(dict.fromkeys([*made, *_calls().get(equation.name, [])[:2]]))


def places() -> dict[str, str]:
    """The address of every equation, by its label."""
    return dict(_places())


@cache
def _works() -> dict[str, str]:
    """Every work of the bibliography as a reader knows it: its title and year, by key."""
    text = (ROOT / "references.bib").read_text(encoding="utf-8")
    found = {}
    for key, entry in re.findall(r"^@\w+\{([^,\s]+),\n(.*?)^\}", text, re.M | re.S):
        title, year = (re.search(rf"^\s*{name}\s*=\s*\{{(.*?)\}},?$", entry, re.M | re.S) for name in ("title", "year"))
        if title:
            words = " ".join(re.sub(r"[{}]|\\[&%$#_](?=.)", lambda m: m[0][1:], title[1]).split())
            found[key] = f"{words} ({year[1]})" if year else words
    return found


def works(text: str) -> dict[str, str]:
    """The titles of the works whose keys stand in a text."""
    return {key: _works()[key] for key in re.findall(r"\b[a-z][a-z0-9]*\d{4}\w*", text) if key in _works()}


def cited(text: str, known: Mapping[str, str] | None = None) -> str:
    """A text with the keys of works replaced by their titles."""
    known = works(text) if known is None else known
    return re.sub(r"\b[a-z][a-z0-9]*\d{4}\w*", lambda m: known.get(m[0], m[0]), text)


def _sources(node: ast.AST) -> Iterator[str]:
    """The sources of what an expression looks up by name: measurements and devices."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value in evidence.measurements():
            yield str(evidence.measurement(inner.value).sourced)
        if (
            isinstance(inner, ast.Call)
            and ast.unparse(inner.func) == "catalog.device"
            and isinstance(inner.args[0], ast.Constant)
        ):
            device = catalog.device(str(inner.args[0].value))
            keys = sorted({s.source for s in device.fields.values()})
            yield f"{device.name} in the catalogue of devices ({', '.join(keys)})"


def origin(key: str) -> dict[str, Any]:
    """What a page says of one number."""
    name, *path = key.split(".")
    home = module(name)
    node = home.expression(path)
    behind = home.behind(node)
    called = {
        n.attr if isinstance(n, ast.Attribute) else n.id
        for part in (node, *behind)
        for n in ast.walk(part)
        if isinstance(n, (ast.Attribute, ast.Name))
    }
    found = [e for n in sorted(called) for e in _by_name().get(n, [])]
    tests = [t for e in found for t in _tests_of(e.label)]
    return {
        "expression": home.source(node),
        "inputs": [home.source(n) for n in behind[:8]],
        "file": f"scripts/chapter_numbers/{name}.py, line {node.lineno}",
        "equations": [
            {
                "label": e.label,
                "name": e.qualified_name,
                "formula": e.formula,
                "source": cited(f"{e.source}, {e.where}"),
                "href": _places().get(e.label, "equations.html"),
            }
            for e in found
        ],
        "sources": list(dict.fromkeys(cited(s) for part in (node, *behind) for s in _sources(part)))[:8],
        "tests": [*dict.fromkeys(tests), FRESH][:6],
    }
