"""Grade what was handed in: each file in a sandbox of its own, each a row, and a page back for each student."""

from mlsysim.course.grading.download import grade
from mlsysim.course.grading.marks import Graded, Late, Likeness, copies, grade_folder, merged, read_rows
from mlsysim.course.grading.questions import class_page, discrimination, statistics, write_class, write_statistics
from mlsysim.course.grading.sheet import read_marks, write_reasons
from mlsysim.course.grading.submissions import Student, Submission, collect, read_roster
from mlsysim.course.grading.table import (
    IMPORTED,
    SYSTEMS,
    feedback_page,
    write_csv,
    write_feedback,
    write_import,
    write_json,
)

__all__ = [
    "IMPORTED",
    "SYSTEMS",
    "Graded",
    "Late",
    "Likeness",
    "Student",
    "Submission",
    "class_page",
    "collect",
    "copies",
    "discrimination",
    "feedback_page",
    "grade",
    "grade_folder",
    "merged",
    "read_marks",
    "read_roster",
    "read_rows",
    "statistics",
    "write_class",
    "write_csv",
    "write_feedback",
    "write_import",
    "write_json",
    "write_reasons",
    "write_statistics",
]


def __dir__() -> list[str]:
    return __all__
