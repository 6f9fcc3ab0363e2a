"""What was handed in: files as Canvas, Moodle, Gradescope or a plain folder give them, whose they are, and their code."""

import csv
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlsysim.course.grading.sandbox import Failure
from mlsysim.errors import InputError

MAX_NOTEBOOK_BYTES = 5_000_000
MAX_FILES, MAX_DEPTH = 20_000, 4
MAX_ROSTER_BYTES = 5_000_000
# Canvas: doejane_LATE_123_456_student-1.ipynb, with the family name first; Moodle: one folder "Jane Doe_1234_assignsubmission_file_";
# Gradescope: one folder "submission_123456789".
_CANVAS = re.compile(
    r"^(?P<who>[^_]+)_(?P<late>LATE_)?(?P<user>\d+)_(?P<number>\d+)_(?P<file>.+?)(?:-(?P<again>\d+))?\.\w{1,10}$"
)
_MOODLE = re.compile(r"^(?P<who>.+)_(?P<user>\d+)_assignsubmission_file_?$")
_GRADESCOPE = re.compile(r"^submission_(?P<user>\d+)$")


@dataclass(frozen=True)
class Submission:
    """A file and whose it is by its name: an id, or what a course system calls them."""

    path: Path
    student: str  # from a plain file's name, or the system's own number; resolved by a roster
    system: str = "folder"  # folder, canvas, moodle or gradescope
    name: str = ""  # as the system writes it
    late: bool | None = None  # as the system says; None where it says nothing
    number: int = 0  # of attempts at the same, the largest is the last


@dataclass(frozen=True)
class Student:
    """A line of the roster."""

    id: str
    name: str = ""
    numbers: tuple[str, ...] = ()  # in course systems
    email: str = ""


def read_bytes(path: Path) -> bytes:
    """A notebook's file, opened without following a link or waiting on a pipe.

    Raises
    ------
    Failure
        No notebook, or too large.
    """
    if path.suffix != ".ipynb":
        raise Failure("not-a-notebook", "the file name does not end in .ipynb")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        link = "a symbolic link is not followed" if path.is_symlink() else f"cannot be opened: {error.strerror}"
        raise Failure("not-a-notebook", link) from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Failure("not-a-notebook", "not a regular file")
        data = file.read(MAX_NOTEBOOK_BYTES + 1)
    if len(data) > MAX_NOTEBOOK_BYTES:
        raise Failure("too-large", f"larger than {MAX_NOTEBOOK_BYTES:,} bytes; clear its outputs")
    return data


def read_submission(path: Path) -> list[str]:
    """The code cells of a notebook; a Failure says why there are none."""
    data = read_bytes(path)
    try:
        cells = json.loads(data)["cells"]
        code = [c["source"] for c in cells if c["cell_type"] == "code"]
        return [s if isinstance(s, str) else "".join(s) for s in code]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Failure("not-a-notebook", "not a notebook in format 4; save it again in Jupyter") from None


def _files(folder: Path, depth: int = 0) -> list[Path]:
    """Every file below, links and pipes included; hidden ones and folders that are links are passed over."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__MACOSX":
            continue
        if path.is_dir() and not path.is_symlink():
            if depth == MAX_DEPTH:
                raise InputError(
                    f"submissions: {path.name!r} lies more than {MAX_DEPTH} folders deep; give the folder that was downloaded"
                )
            found += _files(path, depth + 1)
        else:
            found.append(path)
    return found


def collect(folder: str | Path) -> list[Submission]:
    """Every file of a download, with whose it is by the names that a course system gives.

    Parameters
    ----------
    folder : str or Path
        Unpacked, as it was downloaded: Canvas (all files beside each other), Moodle (a folder per student), Gradescope (a
        folder per submission), or one ``<student id>.ipynb`` each.

    Raises
    ------
    InputError
        A folder that is not there, is empty, or holds too much.
    """
    top = Path(folder)
    try:
        files = _files(top)
    except OSError as error:
        raise InputError(f"submissions: {str(folder)!r} cannot be listed ({error.strerror}); give a folder") from None
    if not files:
        raise InputError(f"submissions: {str(folder)!r} holds no file; put one NAME.ipynb per student there")
    if len(files) > MAX_FILES:
        raise InputError(f"submissions: {str(folder)!r} holds {len(files)} files; at most {MAX_FILES:,} are read")
    return [_named(path, top) for path in files]


def _named(path: Path, top: Path) -> Submission:
    inside = path.relative_to(top).parts
    if len(inside) > 1:
        for part in inside[:-1]:
            if moodle := _MOODLE.match(part):
                return Submission(path, moodle["user"], "moodle", moodle["who"])
            if scope := _GRADESCOPE.match(part):
                return Submission(path, scope["user"], "gradescope", part)
        return Submission(path, path.stem, "folder", inside[-2])
    if canvas := _CANVAS.match(path.name):
        again = int(canvas["again"] or 0)
        return Submission(path, canvas["user"], "canvas", canvas["who"], bool(canvas["late"]), again)
    return Submission(path, path.stem)


def latest(submissions: Sequence[Submission]) -> tuple[list[Submission], list[Submission]]:
    """What is graded, and what stands back: earlier attempts (Canvas numbers them) and files beside a notebook."""
    best: dict[tuple[str, str, str], tuple[bool, int]] = {}
    for s in submissions:
        best[_whose(s)] = max(_standing(s), best.get(_whose(s), (False, 0)))
    current = [s for s in submissions if _standing(s) == best[_whose(s)]]
    return current, [s for s in submissions if _standing(s) != best[_whose(s)]]


def _whose(s: Submission) -> tuple[str, str, str]:
    return s.system, s.student, s.name


def _standing(s: Submission) -> tuple[bool, int]:
    return s.path.suffix == ".ipynb", s.number


_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("sis login id", "login id", "username", "user name", "sid", "student id", "id number", "seed", "student"),
    "name": ("name", "student name", "full name", "student"),
    "number": ("id", "canvas id", "participant", "identifier", "submission id", "sis user id"),
    "email": ("email", "email address", "e-mail"),
}


def read_roster(path: str | Path) -> list[Student]:
    """Who is in the course: a CSV as Canvas, Moodle or Gradescope export it, or with a column ``student``.

    Parameters
    ----------
    path : str or Path
        With a header. The column of ids (``student``, ``SIS Login ID``, ``Username``, ``SID`` ...) holds what a student
        writes into ``STUDENT``; columns of numbers hold what the course system calls them.

    Raises
    ------
    InputError
        No such file, no column of ids, an id twice, more than 5 MB.
    """
    where = Path(path)
    try:
        with where.open("rb") as file:
            data = file.read(MAX_ROSTER_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"roster: {str(path)!r} cannot be read ({error.strerror}); give a CSV file") from None
    except UnicodeDecodeError:
        raise InputError(f"roster: {str(path)!r} is not text in UTF-8; export it as CSV UTF-8") from None
    if len(data) > MAX_ROSTER_BYTES:
        raise InputError(
            f"roster: {str(path)!r} is larger than {MAX_ROSTER_BYTES:,} bytes; give the course's list alone"
        )
    rows = csv.reader(text.splitlines())
    head = [cell.strip().lower() for cell in next(rows, [])]
    at = {kind: [head.index(c) for c in names if c in head] for kind, names in _COLUMNS.items()}
    first, last = (head.index(n) if n in head else -1 for n in ("first name", "last name"))
    at["id"] = at["id"][:1]  # the most special: Canvas calls the name of a student "Student"
    if not at["id"]:
        raise InputError(
            f"roster: {where.name!r} has no column of ids among {head[:12]}; name one of {', '.join(_COLUMNS['id'])}"
        )
    students: dict[str, Student] = {}
    for number, row in enumerate(rows, 2):
        cells = [*row, *[""] * len(head)]
        id = next((cells[i].strip() for i in (*at["id"], *at["number"]) if cells[i].strip()), "")
        names = [cells[i].strip() for i in at["name"]] + (
            [f"{cells[first]} {cells[last]}".strip()] if first >= 0 else []
        )
        name = next(filter(None, names), "")
        if not any(c.strip() for c in row) or name.lower() == "points possible":  # Canvas has the full score as a row
            continue
        if not id:
            raise InputError(
                f"roster: {where.name!r}, line {number}: {name[:60]!r} has no id; give one, or take out the line"
            )
        if id in students:
            raise InputError(
                f"roster: {where.name!r}, line {number}: {id[:60]!r} stands there twice; an id is one student's"
            )
        numbers = tuple(re.sub(r"^Participant\s+", "", cells[i].strip()) for i in at["number"] if cells[i].strip())
        students[id] = Student(id, name, numbers, next((cells[i].strip() for i in at["email"]), ""))
    if not students:
        raise InputError(f"roster: {where.name!r} lists nobody below its header")
    return list(students.values())


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def owner(submission: Submission, roster: Sequence[Student]) -> Student | None:
    """Whose file it is by the roster: by number, id, address or name; nobody's where two would do."""
    keys = {submission.student.casefold(), submission.path.stem.casefold()}
    exact = [
        s
        for s in roster
        if keys & {s.id.casefold(), *(n.casefold() for n in s.numbers)} or s.email.casefold() in keys - {""}
    ]
    if len(exact) == 1:
        return exact[0]
    name = _folded(submission.name)
    if not exact and name:
        alike = [s for s in roster if s.name and name in {_folded(s.name), _folded("".join(reversed(s.name.split())))}]
        if len(alike) == 1:
            return alike[0]
    return None
