"""A learner's desk: what was answered stays from one sitting to the next, and becomes the notebook to hand in."""

import ast
import json
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import mlsysim
from mlsysim.course.exercises.chapters import SLUGS, assignment, exercise
from mlsysim.course.exercises.definitions import Exercise, normalise_seed
from mlsysim.course.exercises.engine import Feedback
from mlsysim.course.exercises.session import UNNAMED, Desk, read_log
from mlsysim.errors import InputError, unknown_name
from mlsysim.tables import Table, table

MOST_CODE = 20_000  # letters of a file that makes an answer


def usual_log() -> Path:
    """Where attempts are kept unless you say otherwise: a file below your home folder."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "mlsysim" / "learn.jsonl"


class Learner(Desk):
    """A desk whose log is a file of yours: progress, answers and the notebook to hand in all come from it.

    Parameters
    ----------
    student : str, optional
        Your id, which sets your numbers; without one, whoever answered last on this machine.
    log : str or Path, optional
        Another file for the attempts than :func:`usual_log`.

    Raises
    ------
    InputError
        No student, and nobody answered yet; a log that was changed.
    """

    def __init__(self, student: "str | None" = None, log: "str | Path | None" = None) -> None:
        path = Path(log) if log is not None else usual_log()
        if student is None and path.is_file():
            student = next((line["student"] for line in reversed(read_log(path))), None)
        name = "" if student is None else str(student).strip()
        if not normalise_seed(name) or name == UNNAMED:
            raise InputError("student is needed once: give your id, which draws your numbers, as in --student ada")
        super().__init__(name, log=path)

    def answer(self, id: str, text: str) -> Feedback:
        """Check a number or a word, as you would write it; a made thing comes from a file, with :meth:`answer_file`."""
        if (e := exercise(id)).form in ("function", "data"):
            raise InputError(
                f"{e.id} asks for something made: write a file that assigns answer, and give it with --file"
            )
        return self.check(e.id, text, code=f"answer = {text[:MOST_CODE]!r}")

    def answer_file(self, id: str, path: "str | Path") -> Feedback:
        """Run a Python file of yours and check the ``answer`` that it assigns; it finds the names of the notebook."""
        e = exercise(id)
        try:
            code = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"file = {str(path)!r} cannot be read ({error}); give a Python file") from None
        if len(code) > MOST_CODE:
            raise InputError(f"file = {str(path)!r} has {len(code):,} letters; at most {MOST_CODE:,} are taken")
        space: dict[str, Any] = {}
        try:
            exec(_names(e.slug, self.student), space)
            exec(compile(code, str(path), "exec"), space)
        except (Exception, SystemExit) as error:
            raise InputError(f"file = {str(path)!r} stops with {type(error).__name__}: {error}; mend it") from None
        if "answer" not in space:
            raise InputError(
                f"file = {str(path)!r} assigns no answer; its last line should, as in: answer = kernel_time"
            )
        return self.check(e.id, space["answer"], code=code)

    def progress(self, slug: str = "") -> Table:
        """Questions right and tried by chapter, or how each question of a chapter stands."""
        if slug:
            rows = [(e.id, e.title, e.kind, str(e.minutes), self.standing(e.id)) for e in assignment(slug)]
            return table(("question", "title", "kind", "minutes", "standing"), rows)
        counted = []
        for name in SLUGS:
            standings = [self.standing(e.id) for e in assignment(name)]
            counts = (standings.count("right"), len(standings) - standings.count(""), len(standings))
            counted.append((name, *map(str, counts)))
        return table(("chapter", "right", "tried", "questions"), counted)

    def standing(self, id: str) -> str:
        """``right``, ``not yet``, or nothing."""
        line = self.best.get(id)
        return "" if line is None else "right" if line["correct"] else "not yet"

    def notebook(self, slug: str) -> str:
        """The notebook to hand in: your id, every prompt with your numbers, and your right answers, or else the last ones."""
        cells = [_cell("markdown", f"# Exercises: {slug}"), _cell("code", _names(slug, self.student))]
        for e in assignment(slug):
            number = e.id.partition(".")[2]
            code = self.best[e.id].get("code", "") if e.id in self.best else ""
            own = named(named(code, f"answer_{number}"), f"g_{number}", "g") if code else f"answer_{number} = ..."
            cells += [_cell("markdown", str(e.question(e.draw(self.student)))), _cell("code", own)]
        for at, cell in enumerate(cells):
            cell["id"] = f"cell-{at:02d}"
        kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def chapter(text: str) -> str:
    """The chapter that a number or a name means.

    >>> chapter("1"), chapter("02"), chapter("03-memory")
    ('01-iron-law', '02-counting', '03-memory')
    """
    found = [slug for slug in SLUGS if text in (slug, slug[:2], slug[:2].lstrip("0"), slug[3:])]
    if not found:
        raise unknown_name("chapter", text, SLUGS)
    return found[0]


def modules(slug: str) -> list[str]:
    """The library's modules that the solutions of a chapter use, with the catalogue and the units."""
    code = "\n".join(e.solution for e in assignment(slug))
    used = [m for m in mlsysim.__all__ if m in ("catalog", "units") or re.search(rf"\b{m}\.", code)]
    return [m for m in used if isinstance(getattr(mlsysim, m), ModuleType)]  # a solution's `plan` is not the function


def named(code: str, name: str, old: str = "answer") -> str:
    """Code that assigns ``answer``, with the question's own name for it, wherever in it that stands."""
    lines = code.splitlines()
    places = [
        (node.lineno - 1, node.col_offset)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Name) and node.id == old
    ]
    for line, column in sorted(places, reverse=True):
        raw = lines[line].encode()  # columns count bytes
        lines[line] = (raw[:column] + name.encode() + raw[column + len(old) :]).decode()
    return "\n".join(lines)


def starter(e: Exercise) -> str:
    """What a file that makes an answer begins with."""
    return f'g = inputs("{e.id}", seed=STUDENT)\n{e.starter.strip()}'


def _names(slug: str, student: str) -> str:
    found = ", ".join(modules(slug))
    return f"from mlsysim import {found}\nfrom mlsysim.course import check, inputs, question\n\nSTUDENT = {student!r}"


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell
