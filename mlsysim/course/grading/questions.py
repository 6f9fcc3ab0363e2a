"""What a class says about its questions: how many were right, who was, which mistakes; a table, and a page without names."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import StatisticsError, correlation
from typing import Any

from mlsysim.course.exercises import EXERCISES
from mlsysim.course.grading.marks import Graded, Likeness
from mlsysim.course.grading.table import PAGE, cell, write_table
from mlsysim.drawing import Bars, Chart, Marks
from mlsysim.errors import InputError

_CLASSES = 10  # of a class's scores


def discrimination(right: Sequence[bool], others: Sequence[int]) -> float | None:
    """Whether those who do well elsewhere are right here.

    Formula: corr(right, others), Pearson's, over students; a question is no part of what it is compared with.

    Parameters
    ----------
    right : sequence of bool
        Of each student, whether this question was right.
    others : sequence of int
        Of each student, how many of the other questions were.

    Returns
    -------
    float or None
        From -1 to 1. Near 0 the question tells nothing; below 0 it, or its key, misleads those who know. None where all are alike.

    Assumptions: questions weigh the same, whatever their points.

    >>> round(discrimination([True, True, False], [2, 1, 0]), 3)
    0.866

    Source: Henrysson, Correction of item-total correlations in item analysis, Psychometrika 28 (1963).
    """
    try:
        return correlation(list(map(float, right)), list(map(float, others)))
    except StatisticsError:
        return None


def statistics(rows: Sequence[Graded]) -> list[Mapping[str, Any]]:
    """Per question: how many were right, how well it discriminates, and which mistakes were made how often, the most frequent first.

    Each student counts once.
    """
    ran = [r for r in rows if r.remarks and r.status != "replaced"]
    total = [sum(m.correct for m in r.remarks.values()) for r in ran]
    found: list[Mapping[str, Any]] = []
    for id in ran[0].points if ran else []:
        remarks = [(r.remarks[id], all_right) for r, all_right in zip(ran, total, strict=True) if id in r.remarks]
        slips = Counter(m.slip for m, _ in remarks if not m.correct)
        right = sum(m.correct for m, _ in remarks)
        found.append(
            {
                "question": id,
                "answers": len(remarks),
                "right": right / len(remarks),
                "discrimination": discrimination([m.correct for m, _ in remarks], [n - m.correct for m, n in remarks]),
                "mistakes": dict(slips.most_common()),
            }
        )
    return found


def write_statistics(rows: Sequence[Graded], alike: Sequence[Likeness], path: str | Path) -> None:
    """Write the statistics of questions, and below them who should be looked at."""
    table = [["question", "answers", "right", "discrimination", "mistakes"]]
    for s in statistics(rows):
        slips = "; ".join(f"{name} {count}" for name, count in s["mistakes"].items())
        table.append([s["question"], str(s["answers"]), f"{s['right']:.2f}", _signed(s), cell(slips, 2000)])
    if alike:
        table += [[], ["first", "second", "alike", "why"]]
        table += [[cell(a.first), cell(a.second), f"{a.share:.2f}", a.why] for a in alike]
    write_table(path, table)


def _signed(s: Mapping[str, Any]) -> str:
    return "" if s["discrimination"] is None else f"{s['discrimination']:.2f}"


def class_page(rows: Sequence[Graded], slug: str) -> str:
    """A page for the lecturer, to show in class: scores, questions and mistakes, drawn and listed. No name stands on it."""
    one_each = [r for r in rows if r.remarks and r.status != "replaced"]
    found = statistics(rows)
    parts = []
    if found:
        shares = [r.score / r.max_score if r.max_score else 0.0 for r in one_each]
        at = Counter(min(_CLASSES - 1, int(_CLASSES * share)) for share in shares)
        names = [f"{100 * i // _CLASSES} to {100 * (i + 1) // _CLASSES} %" for i in range(_CLASSES)]
        counts = [float(at[i]) for i in range(_CLASSES)]
        parts.append(Bars(names, {"students": counts}, "students", "Scores, as a share of all points").svg())
        told = [s for s in found if s["discrimination"] is not None]
        if told:
            x, y = [100 * s["right"] for s in told], [s["discrimination"] for s in told]
            dots = Marks(x, y, "questions", [s["question"] for s in told])
            parts.append(
                Chart(
                    "right (%)",
                    "discrimination",
                    marks=[dots],
                    title="How many are right, and whether those who know are",
                    x_log=False,
                    y_log=False,
                    x_range=(0, 100),
                    y_range=(min(0.0, *y) - 0.1, 1.0),
                ).svg()
            )
        parts.append(
            "<p>Discrimination compares a question with all others: near 0 it tells nothing of who knows, and below 0 it, or its "
            "key, misleads those who do. Begin with the lowest.</p>"
        )
        order = sorted(found, key=lambda s: 2.0 if s["discrimination"] is None else s["discrimination"])
        parts += [_listed(s) for s in order]
    out = Counter(r.status for r in rows)
    said = (
        f"{len(found) and len(one_each)} students; {', '.join(f'{n} {status}' for status, n in sorted(out.items()))}."
    )
    return PAGE.format(title=escape(slug), said=said, body="\n".join(parts))


def _listed(s: Mapping[str, Any]) -> str:
    title = EXERCISES[s["question"]].title if s["question"] in EXERCISES else ""
    slips = "".join(f"<li>{escape(name or 'wrong')}: {count}</li>" for name, count in s["mistakes"].items())
    told = f", discrimination {_signed(s)}" if _signed(s) else ""
    return (
        f"<h2>{escape(s['question'])} {escape(title)}</h2>\n<p>{s['right']:.0%} of {s['answers']} right{told}</p>"
        f"<ul>{slips}</ul>"
    )


def write_class(rows: Sequence[Graded], path: str | Path, slug: str) -> None:
    """Write the page of a class."""
    try:
        Path(path).write_text(class_page(rows, slug), encoding="utf-8")
    except OSError as error:
        raise InputError(f"output: {str(path)!r} cannot be written ({error.strerror}); give another file") from None
