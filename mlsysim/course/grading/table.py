"""What comes out: the table, a file for each course system, and a page for each student."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from mlsysim.course.exercises import EXERCISES, Exercise
from mlsysim.course.grading.marks import Graded
from mlsysim.course.grading.sandbox import clean
from mlsysim.course.grading.submissions import Student
from mlsysim.errors import InputError

# Learning platforms whose tables of marks can be written.
SYSTEMS = ("canvas", "moodle", "gradescope")
# Rows whose score goes into an import file; about the others a person decides first.
IMPORTED = ("ok", "missing", "timeout", "crashed", "too-large", "not-a-notebook")


def cell(text: object, most: int = 200) -> str:
    """A cell that no spreadsheet takes for a formula."""
    line = clean(text, most)
    # the full-width forms, too: a spreadsheet may read them as the narrow ones
    return "'" + line if line[:1] in tuple("=+-@＝＋－＠") else line


def number(value: float) -> str:
    """Points without a needless fraction.

    >>> number(3.0), number(2.7)
    ('3', '2.7')
    """
    return f"{value:.4g}"


def write_table(path: str | Path, table: Sequence[Sequence[str]]) -> None:
    """Write rows as a CSV file."""
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table)
    except OSError as error:
        raise InputError(f"output: {str(path)!r} cannot be written ({error.strerror}); give another file") from None


def write_csv(rows: Sequence[Graded], path: str | Path) -> None:
    """Write the table of grades, one row per submission and per student without one."""
    questions = list(rows[0].points) if rows else []
    head = ["student", "score", "max_score", *questions, "status", "message", "file", "late_days"]
    table = [
        [
            cell(r.student),
            number(r.score),
            str(r.max_score),
            *[number(r.points.get(q, 0.0)) for q in questions],
            r.status,
            cell(r.message, 2000),
            cell(r.file),
            str(r.late_days),
        ]
        for r in rows
    ]
    write_table(path, [head, *table])


def write_json(rows: Sequence[Graded], path: str | Path) -> None:
    """Write all that is known of each row but its code, for grading again and for a person's own tools."""
    kept: list[dict[str, Any]] = []
    for r in rows:
        known = asdict(r)
        del known["texts"]
        kept.append(known)
    try:
        Path(path).write_text(json.dumps({"rows": kept}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"output: {str(path)!r} cannot be written ({error.strerror}); give another file") from None


def write_import(rows: Sequence[Graded], roster: Sequence[Student], path: str | Path, system: str, title: str) -> None:
    """Write the scores in a course system's own import format.

    Parameters
    ----------
    rows : sequence of Graded
        As graded with the roster.
    roster : sequence of Student
        Names and numbers as the system exported them.
    path : str or Path
        A CSV file.
    system : str
        ``canvas`` (gradebook upload), ``moodle`` (grade import by ID number) or ``gradescope`` (external grades by SID).
    title : str
        Name of the assignment there.

    Raises
    ------
    InputError
        Another system; nobody of the roster among the rows.
    """
    if system not in SYSTEMS:
        raise InputError(f"system = {system!r} is unknown; use one of {', '.join(SYSTEMS)}")
    counted: dict[str, Graded] = {}
    for r in rows:  # of a student's files the best, wherever it stands
        if r.status in IMPORTED and (r.student not in counted or r.score > counted[r.student].score):
            counted[r.student] = r
    known = [(s, counted[s.id]) for s in roster if s.id in counted]
    if not known:
        raise InputError("import: no row is a student of the roster; give the roster that the course system exported")
    if system == "canvas":
        head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", cell(title)]
        full = ["    Points Possible", "", "", "", "", str(known[0][1].max_score)]
        body = [[cell(s.name), cell(next(iter(s.numbers), "")), "", cell(s.id), "", number(r.score)] for s, r in known]
        write_table(path, [head, full, *body])
    elif system == "moodle":
        head = ["ID number", "Email address", cell(title), "Feedback comments"]
        write_table(
            path, [head, *[[cell(s.id), cell(s.email), number(r.score), cell(r.message, 1000)] for s, r in known]]
        )
    else:
        write_table(
            path,
            [
                ["SID", "Name", "Total Score", "Max Points"],
                *[[cell(s.id), cell(s.name), number(r.score), str(r.max_score)] for s, r in known],
            ],
        )


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}}
h2{{font-size:1.1rem;margin:1.5rem 0 .25rem}}h3{{font-size:1rem;margin:.75rem 0 .25rem}}blockquote{{white-space:pre-wrap;margin:0 1rem}}.right{{color:#00634a}}.wrong{{color:#a33c00}}</style></head>
<body><main><h1>{title}</h1><p>{said}</p>
{body}</main></body></html>
"""


def feedback_page(row: Graded, slug: str, given: Mapping[tuple[str, str], Sequence[str]] | None = None) -> str:
    """What a student gets back: each question, right or wrong, with the hint in full; a reason with its rubric and marks."""
    parts = []
    for id, p in row.points.items():
        remark = row.remarks.get(id)
        full = EXERCISES[id].points if id in EXERCISES else p
        word = "right" if remark and remark.correct else "wrong"
        text = escape(remark.text) if remark else "not graded"
        parts.append(f'<h2>{escape(id)}: <span class="{word}">{number(p)} of {number(full)}</span></h2>\n<p>{text}</p>')
        if id in EXERCISES and EXERCISES[id].rubric:
            parts.append(_reason(row, EXERCISES[id], (given or {}).get((cell(row.student), id), ())))
    title = f"{escape(slug)}: {escape(clean(row.student))}"
    late = escape(clean(row.message.partition(";")[0] if row.late_days else ""))
    return PAGE.format(
        title=title,
        said=f"{number(row.score)} of {row.max_score} points. {late}",
        body="\n".join(parts),
    )


def _reason(row: Graded, exercise: Exercise, given: Sequence[str]) -> str:
    """A student's reason, what a person looks for in it, and what that person gave."""
    said = escape(row.reasons.get(exercise.id, "")) or "You wrote no reason."
    marks = [*given, *[""] * len(exercise.rubric)]
    lines = [
        f"<li>{escape(line)}{f' <b>({escape(clean(m))})</b>' if m.strip() else ''}</li>"
        for line, m in zip(exercise.rubric, marks, strict=False)
    ]
    read = (
        "Somebody has read it; the marks stand in brackets." if any(m.strip() for m in given) else "A person reads it."
    )
    return f"<h3>Your reason</h3>\n<blockquote>{said}</blockquote>\n<p>{read} It is looked at for this:</p><ul>{''.join(lines)}</ul>"


def write_feedback(
    rows: Sequence[Graded], folder: str | Path, slug: str, given: Mapping[tuple[str, str], Sequence[str]] | None = None
) -> list[Path]:
    """One page per student, named by the id; what an id may not say in a file's name becomes a line."""
    where = Path(folder)
    written: list[Path] = []
    try:
        where.mkdir(parents=True, exist_ok=True)
        for row in rows:
            if row.status in ("replaced", "missing"):
                continue
            stem = re.sub(r"[^\w-]", "_", row.student)[:80] or "nobody"
            path = where / f"{stem}.html"
            number = 2
            while path in written:
                path = where / f"{stem}-{number}.html"
                number += 1
            path.write_text(feedback_page(row, slug, given), encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise InputError(
            f"feedback: {str(folder)!r} cannot be written ({error.strerror}); give another folder"
        ) from None
    return written
