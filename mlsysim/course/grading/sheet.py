"""The sheet of reasons: each with its rubric, a column for each line of it, and the marks that a person wrote there."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlsysim.course.exercises import EXERCISES
from mlsysim.course.grading.marks import Graded
from mlsysim.course.grading.reasons import MOST_LETTERS
from mlsysim.course.grading.table import cell, number, write_table
from mlsysim.errors import InputError

_HEAD = ("student", "question", "answer's points", "reason", "note")
Marks = Mapping[
    tuple[str, str], Sequence[str]
]  # by student and question: what a person gave for each line of the rubric


def read_marks(path: str | Path) -> tuple[Marks, dict[tuple[str, str], str]]:
    """What a person wrote into the sheet of reasons, and the reasons that were read for it; nothing where there is no sheet.

    Raises
    ------
    InputError
        A file that is no such sheet.
    """
    where = Path(path)
    if not where.exists():
        return {}, {}
    try:
        with where.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"reasons: {where.name!r} cannot be read ({error}); move it away and grade again") from None
    if not rows or tuple(rows[0][: len(_HEAD)]) != _HEAD:
        raise InputError(f"reasons: {where.name!r} is no sheet of reasons; move it away and grade again")
    marks, texts = {}, {}
    for row in rows[1:]:
        if len(row) >= len(_HEAD):
            key = (row[0], row[1])
            marks[key], texts[key] = row[len(_HEAD) :], row[3]
    return marks, texts


def write_reasons(rows: Sequence[Graded], path: str | Path) -> Marks:
    """Write the sheet: a row for each reason, a column for each line of its rubric. Marks that stand there already stay.

    Returns
    -------
    mapping
        The marks by student and question; empty before a person has read anything.

    Raises
    ------
    InputError
        A file of that name that is no such sheet; one that cannot be written.
    """
    ids = [id for id in (rows[0].points if rows else ()) if id in EXERCISES and EXERCISES[id].rubric]
    if not ids:
        return {}
    marks, texts = read_marks(path)
    most = max(len(EXERCISES[id].rubric) for id in ids)
    table: list[list[str]] = [[*_HEAD, *(f"rubric {i + 1}" for i in range(most))]]
    for id in ids:
        table.append(["(rubric)", id, number(EXERCISES[id].points), "", "", *EXERCISES[id].rubric])
    seen = set()
    for row in rows:
        for id in ids:
            key = (cell(row.student), id)
            if row.status in ("replaced", "missing") and not row.reasons.get(id):
                continue
            reason = cell(row.reasons.get(id, ""), MOST_LETTERS)
            seen.add(key)
            given = any(m.strip() for m in marks.get(key, ()))
            note = "" if row.status == "ok" else row.status
            if given and texts.get(key, "") != reason:
                note = "; ".join(filter(None, (note, "written anew since it was marked")))
            if not reason:
                note = "; ".join(filter(None, (note, "no reason")))
            table.append([*key, number(row.points.get(id, 0.0)), reason, note, *marks.get(key, ())])
    table += [  # a mark that somebody gave is not thrown away with its row
        [*key, "", texts[key], "not in this download", *given]
        for key, given in marks.items()
        if key not in seen and key[0] != "(rubric)" and any(m.strip() for m in given)
    ]
    write_table(path, table)
    return {key: given for key, given in marks.items() if any(m.strip() for m in given)}
