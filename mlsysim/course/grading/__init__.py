"""Grade what was handed in: each file in a sandbox of its own, each a row, and a page back for each student.

The process of a submission imports nothing of this but what it needs.
"""

from mlsysim._lazy import lazily

_HOMES = {
    "Graded": "marks",
    "IMPORTED": "table",
    "Late": "marks",
    "Likeness": "marks",
    "SYSTEMS": "table",
    "Student": "submissions",
    "Submission": "submissions",
    "class_page": "questions",
    "collect": "submissions",
    "copies": "marks",
    "discrimination": "questions",
    "feedback_page": "table",
    "grade": "download",
    "grade_folder": "marks",
    "merged": "marks",
    "read_marks": "sheet",
    "read_roster": "submissions",
    "read_rows": "marks",
    "statistics": "questions",
    "write_class": "questions",
    "write_csv": "table",
    "write_feedback": "table",
    "write_import": "table",
    "write_json": "table",
    "write_reasons": "sheet",
    "write_statistics": "questions",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = lazily(__name__, _HOMES)
