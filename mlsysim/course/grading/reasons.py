"""Reasons: what students wrote beside a design, read from the notebook's text for the person who judges it."""

import ast
import re
from collections.abc import Sequence

from mlsysim.course.exercises import Exercise

MOST_LETTERS = 4000  # of one reason
UNTOUCHED = "Why? A few sentences, with numbers."  # what stands in the cell before anybody wrote there


def asked(exercises: Sequence[Exercise]) -> dict[str, str]:
    """The variables that hold reasons, by the questions that ask for one: reason_12 for 03.12."""
    return {e.id: f"reason_{e.id.partition('.')[2]}" for e in exercises if e.rubric}


def written(code: Sequence[str], exercises: Sequence[Exercise]) -> dict[str, str]:
    """Each reason as it stands in a notebook. It is read and not run, so that a notebook that crashes keeps it.

    Parameters
    ----------
    code : sequence of str
        The code cells.
    exercises : sequence of Exercise
        Of the assignment.
    """
    found = {}
    for id, name in asked(exercises).items():
        texts = [t for cell_ in code for t in _assigned(cell_, name)]
        kept = [t for t in texts if t and t != UNTOUCHED]
        found[id] = kept[-1][:MOST_LETTERS] if kept else ""
    return found


def _assigned(code: str, name: str) -> list[str]:
    """The texts that a cell assigns to a name; where Python cannot read the cell, all that follows the name."""
    if name not in code:
        return []
    try:
        nodes = ast.parse(re.sub(r"^([ \t]*)[%!].*$", r"\1pass", code, flags=re.M)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        rest = re.search(rf"^[ \t]*{name}[ \t]*=(.*)", code, re.M | re.S)
        return [rest[1].strip().strip("\"'").strip()] if rest else []
    values = [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    texts = []
    for value in values:
        try:
            said = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            said = ast.unparse(value)  # put together from parts: a person reads the code
        texts.append(str(said).strip() if said is not ... and said is not None else "")
    return texts
