"""The worked route of an exercise: which relations it uses, and its solution step by step with a reader's numbers."""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlsysim import units
from mlsysim.course.exercises import tasks
from mlsysim.course.exercises.definitions import Exercise, Inputs
from mlsysim.course.exercises.running import space_of
from mlsysim.equations import REGISTRY, recording


@dataclass(frozen=True, repr=False)
class Step:
    """One statement of a solution and what it gives."""

    code: str
    values: Mapping[str, str]

    def __repr__(self) -> str:
        given = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"{self.code}  # {given}" if given and "\n" not in self.code else self.code


@dataclass(frozen=True, repr=False)
class Route:
    """A solution, worked. Prints as code with its numbers beside it.

    Attributes
    ----------
    relations : tuple of str
        Formulas of the equations that it evaluates.
    steps : tuple of Step
        Its statements in order.
    answer : str
        What comes out, as a person writes it; empty where the last step is left to the reader.
    """

    exercise: str
    relations: tuple[str, ...]
    steps: tuple[Step, ...]
    answer: str

    def __repr__(self) -> str:
        return "\n".join([*map(repr, self.steps), *([f"# {self.answer}"] if self.answer else [])])

    __str__ = __repr__


def route(exercise: Exercise, g: Inputs, whole: bool = True) -> Route:
    """The worked route with a reader's numbers.

    Parameters
    ----------
    exercise : Exercise
        The question.
    g : Inputs
        The reader's numbers.
    whole : bool
        With the last number too; False leaves the last step to the reader.
    """
    space = space_of(dict(g), exercise.code)
    lines = exercise.code.strip("\n").splitlines()
    steps = []
    tree = ast.parse("\n".join(lines)).body
    with recording() as called:
        for at, node in enumerate(tree):
            last = at == len(tree) - 1
            code = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            exec(compile(ast.Module([node], []), "<route>", "exec"), space)
            names = [
                n.id
                for target in (node.targets if isinstance(node, ast.Assign) else [])
                for n in ast.walk(target)
                if isinstance(n, ast.Name)
            ]
            shown = {n: _number(space[n]) for n in names if _number(space[n]) and n != "answer"}
            if not last or whole:
                steps.append(Step(code, shown))
    formulas = tuple(REGISTRY[label].formula for label in sorted(called) if label in REGISTRY)
    return Route(exercise.id, formulas[:6], tuple(steps), _answer(exercise, g) if whole else "")


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return ""
    return f"{value:.6g}"


def _answer(exercise: Exercise, g: Inputs) -> str:
    found: Any = exercise.solve(g)
    if exercise.form == "word":
        return str(found)
    if exercise.form == "number":
        return f"{found:.0f}" if exercise.whole else units.format(found, exercise.unit)
    if exercise.form == "function":
        case = tasks.cases(exercise)[0]
        return f"with {', '.join(map(_brief, case))} it gives {_brief(tasks.plain(found(*case)))}"
    return _brief(tasks.plain(found))


def _brief(value: Any) -> str:
    """Data to be read: numbers in six digits, and of a long list its first three and how many there are."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_brief(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, (list, tuple)):
        first, last = ("(", ")") if isinstance(value, tuple) else ("[", "]")
        more = [f"… {len(value)} in all"] if len(value) > 6 else []
        return f"{first}{', '.join([*map(_brief, value[: 3 if more else 6]), *more])}{last}"
    return _number(value) if isinstance(value, float) and math.isfinite(value) else repr(value)
