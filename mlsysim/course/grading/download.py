"""A download in, everything that a lecturer needs out: what ``mlsysim grade`` does."""

from datetime import datetime
from pathlib import Path

from mlsysim.course.grading.marks import Graded, Late, Likeness, copies, grade_folder, read_rows
from mlsysim.course.grading.questions import write_class, write_statistics
from mlsysim.course.grading.sheet import read_marks, write_reasons
from mlsysim.course.grading.submissions import read_roster
from mlsysim.course.grading.table import write_csv, write_feedback, write_import, write_json
from mlsysim.errors import InputError
from mlsysim.files import check_writable


def grade(
    assignment: str,
    submissions: str | Path,
    output: str | Path,
    *,
    timeout: float = 60.0,
    jobs: int = 1,
    insecure: bool = False,
    roster: str | Path | None = None,
    due: datetime | None = None,
    late_per_day: float = 0.1,
    late_days: int = 5,
    before: str | Path | None = None,
    cluster: str | None = None,
    progress: bool = False,
    import_to: str | None = None,
    feedback: str | Path | None = None,
) -> tuple[list[Graded], list[Likeness]]:
    """Grade a download and write the table, all that is known (JSON), the statistics of questions, a page of them without names, and what else is asked for.

    Where a question asks for a reason, a sheet of reasons with their rubric lies beside the table; marks that a person wrote
    into it stay there when the same is graded again, and stand on the pages of the students. A run that is interrupted leaves a
    journal beside the table (``.partial.jsonl``), and the same call goes on from there.

    Parameters
    ----------
    assignment : str
        The assignment, as in exercises/01-iron-law.
    submissions : str or Path
        A download of Canvas, Moodle or Gradescope, unpacked, or one STUDENT-ID.ipynb each.
    output : str or Path
        Table of grades, a CSV file; the others lie beside it.
    timeout : float, s, (0, 3600]
        Wall and processor time for one submission (default: 60 s).
    jobs : int
        Submissions run at a time.
    insecure : bool
        Run without a sandbox, as yourself: trusted code only.
    roster : str or Path, optional
        The course's list, as its system exports it; who is missing gets a row.
    due : datetime, optional
        When it was due, with its time zone: 2026-12-01T23:59+01:00.
    late_per_day : float, 1, [0, 1]
        Share of the score that a day begun after that costs.
    late_days : int, [0, inf)
        Days after which nothing is left.
    before : str or Path, optional
        Grades of an earlier run, JSON: the better points count, question by question.
    cluster : str, optional
        Run on processes of this machine, as in "local:4", or on a Dask cluster, by its scheduler's address (needs the extra 'scale').
    progress : bool
        Show a progress bar on standard error (needs tqdm).
    import_to : str, one of course.grading.table.SYSTEMS, optional
        Course system to write an import file for too; needs the roster.
    feedback : str or Path, optional
        Folder for one page per student with the hints in full.

    Raises
    ------
    InputError, UnknownNameError
        What cannot be read or written, a sandbox that cannot be had, an option without the one that it needs.
    """
    if import_to and not roster:
        raise InputError("import_to needs a roster: the list of the course as the system exported it")
    out = Path(output)
    check_writable(out, "output")
    read_marks(out.with_suffix(".reasons.csv"))  # another file of that name is told now, not after an hour
    late = Late(due, late_per_day, late_days) if due else None
    earlier = read_rows(before) if before else ()
    journal = out.with_suffix(".partial.jsonl")
    rows = grade_folder(
        assignment, submissions, timeout, jobs, insecure, roster, late, earlier, cluster, progress, journal
    )
    alike = copies(rows)
    write_csv(rows, out)
    write_json(rows, out.with_suffix(".json"))
    write_statistics(rows, alike, out.with_suffix(".mistakes.csv"))
    write_class(rows, out.with_suffix(".html"), assignment)
    given = write_reasons(rows, out.with_suffix(".reasons.csv"))
    if import_to and roster:
        write_import(rows, read_roster(roster), out.with_suffix(f".{import_to}.csv"), import_to, assignment)
    if feedback:
        write_feedback(rows, feedback, assignment, given)
    journal.unlink(missing_ok=True)
    return rows, alike
