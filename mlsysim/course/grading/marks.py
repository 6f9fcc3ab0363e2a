"""Marks: each submission run in its sandbox, its answers compared here, what is late, what is copied, what was graded before."""

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import mlsysim
from mlsysim.course.exercises import Exercise, assignment, normalise_seed, tasks
from mlsysim.course.exercises.chapters import digest
from mlsysim.course.grading import clerk
from mlsysim.course.grading.many import Journal, each
from mlsysim.course.grading.sandbox import Failure, check_sandbox, clean, execute
from mlsysim.course.grading.submissions import (
    Student,
    Submission,
    collect,
    latest,
    owner,
    read_bytes,
    read_roster,
    read_submission,
)
from mlsysim.errors import InputError

MAX_JOBS = 64
ALIKE = (
    0.9  # share of the runs of letters that two notebooks' answers have in common, from which on a person should look
)
_LEAST_TEXT = 80  # letters; shorter answers look alike by chance
_RUN = 6  # letters
_STANDS_BACK = "a notebook or a later attempt of the same student counts"
# What a status says of a file: 0 it counts, 1 a person decides, 2 nothing came out, 3 it is another kind of file.
_RANK = {
    "ok": 0, "seed-mismatch": 1, "unknown-student": 1, "not-compared": 1,
    "timeout": 2, "crashed": 2, "too-large": 2, "not-a-notebook": 3,
}  # fmt: skip


@dataclass(frozen=True)
class Late:
    """What lateness costs: a share of the score for each day begun, up to a number of days, then all of it."""

    due: datetime
    per_day: float = 0.1
    days: int = 5

    def __post_init__(self) -> None:
        if self.due.tzinfo is None:
            raise InputError(f"due = {self.due.isoformat()} has no time zone; write it as 2026-12-01T23:59+01:00")
        if not 0 <= self.per_day <= 1 or not 0 <= self.days <= 365:
            raise InputError(
                f"late: {self.per_day:g} a day for {self.days} days; give a share in [0, 1] and 0 to 365 days"
            )

    def factor(self, at: datetime) -> float:
        """What is left of a score that was handed in then.

        >>> rule = Late(datetime(2026, 1, 1, tzinfo=UTC), 0.25, 2)
        >>> [rule.factor(datetime(2026, 1, d, 12, tzinfo=UTC)) for d in (1, 2, 3)]
        [0.75, 0.5, 0.0]
        """
        seconds = (at - self.due).total_seconds()
        begun = max(0, -(-int(seconds) // 86_400)) if seconds > 0 else 0
        return 0.0 if begun > self.days else max(0.0, 1.0 - self.per_day * begun)


@dataclass(frozen=True)
class Remark:
    """What a student is told about one question."""

    correct: bool
    slip: str
    text: str


@dataclass(frozen=True)
class Graded:
    """One line of the table of grades."""

    student: str
    score: float
    max_score: int
    points: Mapping[str, float]
    status: str  # ok, seed-mismatch, unknown-student, not-compared, timeout, crashed, too-large, not-a-notebook, replaced, missing
    message: str
    file: str = ""
    late_days: int = 0
    remarks: Mapping[str, Remark] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)  # code of the cells with the answers
    reasons: Mapping[str, str] = field(default_factory=dict, repr=False)  # by question, for a person to read

    def __post_init__(self) -> None:
        for name in ("student", "message", "file"):
            object.__setattr__(self, name, _written(getattr(self, name)))
        object.__setattr__(self, "reasons", {id: _written(text) for id, text in self.reasons.items()})


def _written(text: str) -> str:
    """Text that any file can hold: what is no letter (half of a pair, a byte of a name in another encoding) as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def grade_one(
    submission: Submission,
    exercises: Sequence[Exercise],
    roster: Sequence[Student] = (),
    timeout: float = 60.0,
    sandboxed: bool = True,
    word: str = "",
) -> Graded:
    """Run one submission and compare its answers with the library's; a word makes the cases that functions are tried with.

    Whatever it holds, a row comes back.
    """
    nothing, known = _nothing(submission, exercises, roster)
    try:
        return _graded(submission, exercises, known, bool(roster), timeout, sandboxed, word, nothing)
    except Failure as failure:
        return replace(nothing, status=failure.status, message=failure.message)
    except Exception as error:  # a submission is anything at all, and the others are graded
        why = f"it could not be graded ({clean(f'{type(error).__name__}: {error}')}); look at it"
        return replace(nothing, status=clerk.UNDECIDED, message=why)


def _nothing(
    submission: Submission, exercises: Sequence[Exercise], roster: Sequence[Student]
) -> tuple[Graded, Student | None]:
    """A row without points, and whose it is by the roster."""
    known = owner(submission, roster) if roster else None
    student, full = known.id if known else submission.student, sum(e.points for e in exercises)
    none = dict.fromkeys((e.id for e in exercises), 0.0)
    return Graded(student, 0.0, full, none, "ok", "", submission.path.name), known


def _graded(
    submission: Submission,
    exercises: Sequence[Exercise],
    known: Student | None,
    has_roster: bool,
    timeout: float,
    sandboxed: bool,
    word: str,
    nothing: Graded,
) -> Graded:
    answers, student, slug = clerk.answer_names(exercises), nothing.student, exercises[0].slug
    made = {
        answers[e.id]: tasks.cases(e, word) if e.form == "function" else None
        for e in exercises
        if e.form in ("function", "data")
    }
    code = read_submission(submission.path)
    try:
        plain = [name for name in answers.values() if name not in made]
        found = execute(code, ["STUDENT", *plain], timeout, sandboxed, made)
    except Failure as failure:  # what was written is read all the same
        why = clerk.look(slug, code, None, "", word, timeout)["reasons"]
        return replace(nothing, status=failure.status, message=failure.message, reasons=why)
    values, notes = found["values"], []
    try:
        seed = normalise_seed(values.get("STUDENT"))
    except InputError:
        seed = ""
    status = "ok"
    if has_roster and known is None:  # whose numbers it uses says whose it may be; a person decides
        status = "unknown-student"
        notes.append(
            f"{clean(submission.name or submission.student)[:60]!r} is not one line of the roster; STUDENT is {clean(seed)[:60]!r}"
        )
    elif seed != normalise_seed(student[:200]) and (has_roster or submission.system == "folder"):
        status = "seed-mismatch"
        notes.append(f"STUDENT is {clean(seed)[:60]!r}")
    elif submission.system != "folder" and not has_roster:  # the course system's number; the id is the student's word
        student = seed or student
    seen = clerk.look(slug, code, values, seed, word, timeout)
    points = {id: mark[0] for id, mark in seen["marks"].items()}
    remarks = {id: Remark(right, slip, text) for id, (_, right, slip, text, _) in seen["marks"].items()}
    notes += [f"{id} {m.slip}" for id, m in remarks.items() if not m.correct]
    undecided = [f"{id} could not be compared ({mark[4]}); look at it" for id, mark in seen["marks"].items() if mark[4]]
    if undecided:
        status = clerk.UNDECIDED if status == "ok" else status
        notes = undecided + notes
    notes += [clean(e) for e in found.get("errors", [])[:3]] if isinstance(found.get("errors"), list) else []
    return replace(
        nothing,
        student=student,
        score=sum(points.values()),
        points=points,
        status=status,
        message="; ".join(notes),
        remarks=remarks,
        texts=seen["texts"],
        reasons=seen["reasons"],
    )


def grade_folder(
    slug: str,
    folder: str | Path,
    timeout: float = 60.0,
    jobs: int = 1,
    insecure: bool = False,
    roster: str | Path | None = None,
    late: Late | None = None,
    before: Sequence[Graded] = (),
    cluster: str | None = None,
    progress: bool = False,
    journal: Path | None = None,
) -> list[Graded]:
    """Grade every file of a download; nothing is passed over in silence: each file is a row.

    Parameters
    ----------
    slug : str
        The assignment, as in "01-iron-law".
    folder : str or Path
        As :func:`~mlsysim.course.grading.submissions.collect` reads it.
    timeout : float, s
        Wall and processor time for one submission.
    jobs : int
        Submissions run at a time.
    insecure : bool
        Run without a sandbox, as yourself. Only the time limit remains.
    roster : str or Path, optional
        CSV of the course: who is in it, and what the course system calls them. Students without a file get a row too.
    late : Late, optional
        Rule for what was handed in after a date, by the file's time or the system's word.
    before : sequence of Graded, optional
        Grades given earlier: the better of both counts, question by question, and a student who handed nothing in this time
        keeps them.
    cluster : str, optional
        Where to run instead: processes of this machine, as in ``"local:4"``, or a Dask cluster, by its scheduler's address. Its
        workers need what this machine needs, and must see the folder.
    progress : bool
        Show a progress bar.
    journal : Path, optional
        File to which each row goes when it is graded; a run that finds one goes on from it.

    Raises
    ------
    InputError, UnknownNameError
        No such folder, assignment or roster; a machine on which the sandbox does not work.
    """
    exercises = assignment(slug)
    if not 0 < timeout <= 3600:
        raise InputError(f"timeout = {timeout:g} is outside (0, 3600] s; 60 is enough for these notebooks")
    if not 1 <= jobs <= MAX_JOBS:
        raise InputError(f"jobs = {jobs} is outside [1, {MAX_JOBS}]; give the number of cores")
    if cluster is not None and jobs != 1:
        raise InputError(f"jobs = {jobs} is for this machine alone; a cluster runs as many as it has workers")
    students = read_roster(roster) if roster is not None else []
    where = Path(folder).absolute()
    current, replaced = latest(collect(where))
    check_sandbox(insecure)
    rows = _each(slug, current, students, timeout, jobs, insecure, cluster, progress, journal, str(where))
    if late is not None:
        rows = [_after(row, s, late) for row, s in zip(rows, current, strict=True)]
    rows = _one_each(rows)
    full, nothing = sum(e.points for e in exercises), dict.fromkeys((e.id for e in exercises), 0.0)
    for s in replaced:
        known = owner(s, students)
        rows.append(Graded(known.id if known else s.student, 0.0, full, nothing, "replaced", _STANDS_BACK, s.path.name))
    here = {row.student for row in rows}
    rows += [Graded(s.id, 0.0, full, nothing, "missing", "handed nothing in") for s in students if s.id not in here]
    return merged(before, rows) if before else rows


def _each(
    slug: str,
    current: Sequence[Submission],
    students: Sequence[Student],
    timeout: float,
    jobs: int,
    insecure: bool,
    cluster: str | None,
    progress: bool,
    journal: Path | None,
    folder: str,
) -> list[Graded]:
    """A row for each submission, in their order; those that ran before an interruption are taken from the journal."""
    asked = {
        "slug": slug,
        "version": mlsysim.__version__,
        "timeout": timeout,
        "insecure": insecure,
        "text": digest(slug),
    }
    kept = Journal(journal, asked)  # its word is the same for all who are graded together, and known to nobody before
    keys = [_key(s, students) for s in current]
    rows = {i: read_row(kept.rows[key]) for i, key in enumerate(keys) if key in kept.rows}
    todo = [i for i in range(len(current)) if i not in rows]
    one = partial(_grade_named, slug=slug, roster=students, timeout=timeout, sandboxed=not insecure, word=kept.word)
    for at, found in each(one, [current[i] for i in todo], jobs, cluster, progress, len(rows), (folder, insecure)):
        i = todo[at]
        if isinstance(found, Graded):
            if _RANK[found.status] < 2 and found.status != clerk.UNDECIDED:  # what did not run is tried again
                kept.add(keys[i], asdict(found))
        elif isinstance(found, Exception):  # a worker that was lost, again and again
            why = f"its worker was lost ({clean(f'{type(found).__name__}: {found}')}); look at it"
            found = replace(_nothing(current[i], assignment(slug), students)[0], status=clerk.UNDECIDED, message=why)
        else:
            raise found
        rows[i] = found
    return [rows[i] for i in range(len(current))]


def _grade_named(submission: Submission, slug: str, **how: Any) -> Graded:
    return grade_one(submission, assignment(slug), **how)


def _key(submission: Submission, roster: Sequence[Student]) -> str:
    """What a row depends on, in one submission: its bytes, its name, and whose the roster says it is."""
    try:
        data = read_bytes(submission.path)
    except Failure:
        data = b""
    known = owner(submission, roster) if roster else None
    said = (str(submission.path), submission.student, submission.system, bool(roster), known and known.id)
    return sha256(repr(said).encode() + b"\0" + data).hexdigest()


def _after(row: Graded, submission: Submission, late: Late) -> Graded:
    if submission.late is False or row.status not in ("ok", "seed-mismatch", "unknown-student", "not-compared"):
        return row
    try:
        at = datetime.fromtimestamp(os.lstat(submission.path).st_mtime, tz=UTC)
    except (OSError, ValueError, OverflowError):  # a time that no calendar has
        why = "; ".join(filter(None, ("the file has no time; decide whether it is late", row.message)))
        return replace(row, status="not-compared", message=why)
    factor = late.factor(at)
    if submission.late and factor == 1.0:  # the system says late, and the download has lost the time: one day
        factor = 1.0 - late.per_day
    if factor == 1.0:
        return row
    days = max(1, -(-int((at - late.due).total_seconds()) // 86_400))
    points = {id: p * factor for id, p in row.points.items()}
    note = f"{days} day{'s' * (days > 1)} late: {factor:.0%} of {row.score:g}"
    return replace(
        row,
        score=sum(points.values()),
        points=points,
        late_days=days,
        message="; ".join(filter(None, (note, row.message))),
    )


def _better(row: Graded, other: Graded | None) -> bool:
    """Whether a row stands for its student rather than another: what ran before what did not, then the score."""
    return other is None or (-_RANK[row.status], row.score) > (-_RANK[other.status], other.score)


def _one_each(rows: Sequence[Graded]) -> list[Graded]:
    """Several files of one student: the best counts, the others keep their row without points.

    A row about which a person decides stays.
    """
    best: dict[str, Graded] = {}
    for row in rows:
        if _better(row, best.get(row.student)):
            best[row.student] = row
    done = []
    for row in rows:
        other = best[row.student]
        if other is not row and _RANK[row.status] != 1:
            row = replace(
                row,
                score=0.0,
                points=dict.fromkeys(row.points, 0.0),
                status="replaced",
                message=f"{other.file} of the same student counts",
            )
        done.append(row)
    return done


def merged(before: Sequence[Graded], now: Sequence[Graded]) -> list[Graded]:
    """Grades of two times: the better points, question by question, and the reason that was written last.

    Who handed nothing in that ran keeps the old ones.
    """
    old: dict[str, Graded] = {}
    for row in before:
        if row.status not in ("replaced", "missing") and (row.student not in old or row.score > old[row.student].score):
            old[row.student] = row
    done, here = [], set()
    for row in now:
        earlier = old.get(row.student)
        stranger = row.status == "unknown-student" and earlier is not None and earlier.status != row.status
        if earlier is None or row.status == "replaced" or stranger:
            done.append(row)
            continue
        here.add(row.student)
        points = {id: max(p, earlier.points.get(id, 0.0)) for id, p in row.points.items()}
        kept = sum(points.values())
        note = f"{kept - row.score:g} points kept from before" if kept > row.score else ""
        status = row.status if _RANK.get(row.status, 4) < 2 else earlier.status
        why = {id: row.reasons.get(id) or earlier.reasons.get(id, "") for id in {**earlier.reasons, **row.reasons}}
        message = "; ".join(filter(None, (row.message, note)))
        said = {id: m for id, m in row.remarks.items() if earlier.points.get(id, 0.0) <= row.points.get(id, 0.0)}
        remarks = {id: said.get(id) or earlier.remarks[id] for id in points if id in said or id in earlier.remarks}
        done.append(
            replace(row, score=kept, points=points, status=status, message=message, remarks=remarks, reasons=why)
        )
    return done + [r for r in old.values() if r.student not in here]


@dataclass(frozen=True)
class Likeness:
    """Two submissions that a person should look at, and why."""

    first: str
    second: str
    share: float  # of the text of the answers that is the same
    why: str


def copies(rows: Sequence[Graded], least: float = ALIKE) -> list[Likeness]:
    """Who may have copied: another's inputs, or another's text.

    Answers are compared by their runs of letters, without spaces, comments and what stood in the notebook before. Two students
    who both write the shortest possible line look alike, so only longer answers count, and a pair is a reason to look, never a
    verdict. The work grows with the length of a text, whatever it says, and only pairs that share one of their rarest runs are compared.
    """
    ran = [r for r in rows if r.texts]
    named = [(r, r.message.partition("STUDENT is ")[2].partition(";")[0].strip("'")) for r in ran]
    found = [
        Likeness(r.student, other, 1.0, "uses the other's inputs")
        for r, other in named
        if r.status == "seed-mismatch" and other
    ]
    joined = [(r, "\n".join(t for t in r.texts.values() if len(t) > 20)) for r in ran]
    long = [(r, len(text), _runs(text)) for r, text in joined if len(text) >= _LEAST_TEXT]
    often = Counter(run for _, _, mine in long for run in mine)
    first: dict[str, list[int]] = {}  # by a rare run, who has it
    for i, (a, one, mine) in enumerate(long):
        # a share of `least` needs that of my runs in common, whatever the other's length; so one of the rarest others is, too
        needed = math.ceil(len(mine) * least / (2 - least) - 1e-9)
        rare = sorted(mine, key=lambda run: (often[run], run))[: len(mine) - needed + 1]
        for j in sorted({j for run in rare for j in first.get(run, ())}):
            b, two, theirs = long[j]
            if a.student == b.student or min(one, two) < least * max(one, two):
                continue
            share = 2 * len(mine & theirs) / (len(mine) + len(theirs))
            if share >= least:
                found.append(Likeness(b.student, a.student, share, "the same text in the answers"))
        for run in rare:
            first.setdefault(run, []).append(i)
    return found


def _runs(text: str) -> frozenset[str]:
    return frozenset(text[i : i + _RUN] for i in range(len(text) - _RUN + 1))


def read_rows(path: str | Path) -> list[Graded]:
    """Grades as :func:`~mlsysim.course.grading.table.write_json` wrote them, for grading again.

    Raises
    ------
    InputError
        Another file.
    """
    try:
        kept = json.loads(Path(path).read_text(encoding="utf-8"))
        rows = [read_row(r) for r in kept["rows"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"before: {str(path)!r} is no file of grades; give the .json that grade wrote beside its CSV"
        ) from None
    return rows


def read_row(r: Mapping[str, Any]) -> Graded:
    """A row from what JSON holds of it."""
    return Graded(
        str(r["student"]),
        float(r["score"]),
        int(r["max_score"]),
        {str(k): float(v) for k, v in r["points"].items()},
        str(r["status"]),
        str(r["message"]),
        str(r.get("file", "")),
        int(r.get("late_days", 0)),
        remarks={
            str(k): Remark(bool(m["correct"]), str(m["slip"]), str(m["text"])) for k, m in r.get("remarks", {}).items()
        },
        texts={str(k): str(v) for k, v in r.get("texts", {}).items()},
        reasons={str(k): str(v) for k, v in r.get("reasons", {}).items()},
    )
