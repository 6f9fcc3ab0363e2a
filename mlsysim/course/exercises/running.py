"""Runs the code of an exercise: its solution with a reader's numbers, and what a slip does otherwise.

The code is data of this package, shown to instructors as it stands; nothing that a reader types comes here.
"""

import ast
import math
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

import mlsysim
from mlsysim.equations import is_tracing
from mlsysim.errors import InputError

Step = tuple[frozenset[str], CodeType]


@cache
def _steps(text: str) -> tuple[Step, ...]:
    """The statements of a text with the names that each assigns; an expression assigns ``answer``."""
    steps = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Expr):
            node = ast.copy_location(ast.Assign([ast.Name("answer", ast.Store())], node.value), node)
        names = frozenset(
            n.id
            for target in (node.targets if isinstance(node, ast.Assign) else [])
            for n in ast.walk(target)
            if isinstance(n, ast.Name)
        )
        module = ast.fix_missing_locations(ast.Module([node], []))
        steps.append((names, compile(module, "<exercise>", "exec")))
    return tuple(steps)


@cache
def _modules(text: str) -> dict[str, Any]:
    """The modules of which a text takes something: ``roofline`` in ``roofline.iron_law``, or ``math``."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(text)):
        top, *path = ast.unparse(node).split(".") if isinstance(node, ast.Attribute) else [""]
        if top == "math":
            found[top] = math
        elif top in mlsysim.__all__ and find_spec(f"mlsysim.{top}"):
            module = found[top] = import_module(f"mlsysim.{top}")
            for part in path:  # a module within a package may have to be loaded first
                if not isinstance(module, ModuleType) or not part.isidentifier():
                    break
                if not hasattr(module, part):
                    import_module(f"{module.__name__}.{part}")
                module = getattr(module, part)
    return found


def _execute(given: Mapping[str, Any], solution: str, changes: tuple[Step, ...], way: str) -> dict[str, Any]:
    space = {**space_of(given, solution), **_modules(way)}
    for names, code in _steps(solution):
        exec(code, space)
        for changed, change in changes:
            if changed & names:
                exec(change, space)
    return space


def space_of(given: Mapping[str, Any], code: str) -> dict[str, Any]:
    """The names that a code finds when it begins: its inputs, by name and as ``g``, and the modules that it uses."""
    return {**given, **_modules(code), "g": dict(given)}


def fresh(given: Mapping[str, Any], code: str) -> Any:
    """The answer of a code that is run for this once; nothing of it is kept.

    >>> fresh({"given": [1, 2]}, "answer = sum(given)")
    3
    """
    return _execute(given, code, (), "")["answer"]


@lru_cache(maxsize=16)
def _solved(given: tuple[tuple[str, Any], ...], solution: str) -> dict[str, Any]:
    return _execute(dict(given), solution, (), "")


def run(given: Mapping[str, Any], solution: str, way: str = "") -> Any:
    r"""The answer of a solution, or of a way to go wrong in it.

    A way is a line of Python. An expression takes the place of the answer: ``answer / 2``, ``price / lifetime``. An
    assignment changes an input before the solution runs (``pue = 1``), or else a variable of the solution where it is
    set (``flops = flops / 2``). An arrow writes something else into the solution: ``links=2 -> links=1``. Inputs are
    known by their names, and as ``g["name"]`` where a module or a variable of the solution has that name.

    >>> solution = 'rate = g["devices"] * g["rental"]; answer = rate * g["hours"]'
    >>> given = {"devices": 8, "rental": 2.5, "hours": 10}
    >>> run(given, solution), run(given, solution, "devices = 1"), run(given, solution, "rate = 2 * rate")
    (200.0, 25.0, 400.0)
    >>> run(given, solution, "hours = 1; answer / devices"), run(given, solution, '* g["hours"] -> * 60')
    (2.5, 1200.0)
    """
    if " -> " in way:
        old, new = way.split(" -> ")
        if old not in solution:
            raise InputError(f"{way!r} changes what the solution does not say: {solution}")
        return run(given, solution.replace(old, new))
    steps, set_in_solution = _steps(way), {n for names, _ in _steps(solution) for n in names} - {"answer"}
    before = [s for s in steps if s[0] <= given.keys()]
    inside = tuple(s for s in steps if s not in before and s[0] & set_in_solution)
    if before:
        space = {**given, **_modules(solution), **_modules(way), "g": given}
        for _, code in before:
            exec(code, space)
        given = {**given, **{name: space[name] for names, _ in before for name in names}}
    if inside or is_tracing():  # what is kept would show no equation
        space = _execute(given, solution, inside, way)
    else:
        space = {**_solved(tuple(given.items()), solution), **_modules(way)}
    for step in steps:
        if step not in before and step not in inside:
            exec(step[1], space)
    return space["answer"]
