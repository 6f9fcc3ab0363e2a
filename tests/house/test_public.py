"""What `dir()` and tab completion show: every public name, lazily loaded ones included, and nothing else."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import mlsysim

ROOMS = [name for name in mlsysim.__all__ if isinstance(getattr(mlsysim, name), ModuleType)]


def home(room: str) -> ModuleType:
    return importlib.import_module(f"mlsysim.{room}")


def test_the_first_level_shows_rooms_doors_and_nothing_else() -> None:
    assert dir(mlsysim) == sorted(mlsysim.__all__)
    assert all(getattr(mlsysim, name) is not None for name in mlsysim.__all__)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_shows_what_is_public(room: str) -> None:
    module = home(room)
    names = module.__all__
    assert dir(module) == sorted(names) and len(set(names)) == len(names)
    for name in names:
        value = getattr(module, name)
        assert not name.startswith("_")
        made = getattr(value, "__module__", None)
        if isinstance(value, ModuleType):
            assert value.__name__.startswith("mlsysim."), f"{room}.{name} is a module of somebody else"
        elif callable(value) and isinstance(made, str) and not hasattr(value, "__origin__"):
            assert made.startswith("mlsysim"), f"{room}.{name} comes from {made}: a helper, not ours"


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_public_is_hidden(room: str) -> None:
    """Functions and classes that a module defines, and names that a package takes in from its own modules."""
    module = home(room)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    found = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    if hasattr(module, "__path__"):
        found |= {
            alias.asname or alias.name
            for node in ast.walk(tree)  # those for type checkers, too, which come later
            if isinstance(node, ast.ImportFrom) and re.match(rf"mlsysim\.{room}\.[a-z]", node.module or "")
            for alias in node.names
        }
    hidden = {n for n in found if not n.startswith("_")} - set(module.__all__)
    assert not hidden, f"mlsysim.{room}: {hidden} are neither in __all__ nor underscored"


@pytest.mark.parametrize(
    "path", sorted(Path(str(mlsysim.__file__)).parent.rglob("__init__.py")), ids=lambda p: p.parent.name
)
def test_every_room_says_its_purpose_in_a_sentence(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    first = (text or "").split("\n\n")[0]
    assert first.endswith(".") and 20 < len(first) < 260, f"{path}: {first!r}"


def test_every_public_callable_has_a_docstring() -> None:
    bare = [
        f"{room}.{name}"
        for room in ROOMS
        for name in home(room).__all__
        if callable(value := getattr(home(room), name)) and not inspect.getdoc(value)
    ]
    assert not bare
