"""A desk with a memory: hints come by stages, and where an exercise is graded, attempts are limited and logged.

The stages are a question back, the relation to use, and the worked route. On a student's own machine nothing can be enforced:
the log is a record, each line sealed with the one before, so that a line which was changed or taken out shows.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlsysim.course.exercises import answers
from mlsysim.course.exercises.chapters import exercise
from mlsysim.course.exercises.definitions import Prompt, normalise_seed
from mlsysim.course.exercises.engine import Feedback, grade
from mlsysim.course.exercises.routes import route
from mlsysim.errors import InputError

STAGES = 3
MOST_BYTES = 20_000_000  # of a log
_KEPT = {
    "student": str,
    "exercise": str,
    "answer": str,
    "correct": bool,
    "counts": bool,
    "code": str,
    "seal": str,
}  # of a line
UNNAMED = "your-id"  # what stands in a notebook before a student has written an id there
_NAME_YOURSELF = (
    "STUDENT is still 'your-id': write your own id above and run the notebook from there, since it draws your numbers."
)


def _now() -> datetime:
    return datetime.now(UTC)


class Desk:
    """Checks answers of one student and remembers how often each question was tried.

    Parameters
    ----------
    student : str
        The student id, which sets the numbers.
    graded : bool
        Attempts are limited, and the worked route comes after the deadline.
    attempts : int
        Wrong answers that count per question, when graded.
    due : datetime or str, optional
        The deadline with its time zone, as in "2026-12-01T23:59+01:00"; needed when graded.
    log : str or Path, optional
        A file to which every attempt is added; attempts in it count on.
    now : callable
        The clock.

    >>> desk = Desk("ada")
    >>> desk.check("01.7", "41 s").mistake is None, desk.stage("01.7")
    (True, 1)
    """

    def __init__(
        self,
        student: str,
        graded: bool = False,
        attempts: int = 6,
        due: "datetime | str | None" = None,
        log: "str | Path | None" = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        if not 1 <= attempts <= 100:
            raise InputError(f"attempts = {attempts} is outside [1, 100]; 6 is what we use")
        try:
            at = datetime.fromisoformat(due) if isinstance(due, str) else due
        except ValueError:
            at = None
        if (graded or due is not None) and (at is None or at.tzinfo is None):
            raise InputError(f"due = {str(due)!r} is no time with a zone; write it as 2026-12-01T23:59+01:00")
        self.student, self.graded, self.attempts, self.due, self.now = student, graded, attempts, at, now
        self.log = Path(log) if log is not None else None
        self._wrong: dict[str, list[str]] = {}
        self.best: dict[str, dict[str, Any]] = {}  # by question: the attempt that was right, or else the last
        for line in read_log(self.log) if self.log is not None and self.log.is_file() else []:
            self._keep(line)

    def left(self, id: str) -> int:
        """Attempts that are left."""
        return max(0, self.attempts - len(self._wrong.get(id, [])))

    def stage(self, id: str) -> int:
        """The hint that comes next: 0 none yet, then 1 to 3."""
        return min(STAGES, len(self._wrong.get(id, [])))

    def _keep(self, line: dict[str, Any]) -> None:
        if normalise_seed(line["student"]) != normalise_seed(self.student):
            return
        if line["counts"] and not line["correct"]:
            self._wrong.setdefault(line["exercise"], []).append(line["answer"])
        if not self.best.get(line["exercise"], {}).get("correct"):
            self.best[line["exercise"]] = line

    def check(self, id: str, answer: object, seed: object = None, code: str = "") -> Feedback:
        """Check an answer; what was not read, and the same answer again, costs nothing. The log keeps the code that made it."""
        if self.graded and not self.left(id):
            return Feedback(id, False, f"All {self.attempts} attempts are used.", "no-attempts")
        e = exercise(id)
        wrong = self._wrong.get(e.id, [])
        said = answers.describe(answer) if isinstance(answer, (str, int, float)) else type(answer).__name__
        again = said in wrong
        g = e.draw(self.student if seed is None else seed)
        feedback = grade(e, answer, g, attempt=len(wrong) + (not again))
        if self.student == UNNAMED and not self.graded:
            feedback = replace(feedback, message=f"{feedback.message} ({_NAME_YOURSELF})")
        counts = not feedback.correct and feedback.mistake not in ("no-answer", "not-read") and not again
        self._write(e.id, said, feedback, counts, code)
        return feedback

    def hint(self, id: str) -> Prompt:
        """The hint of this question's stage: a question back, the relation to use, the worked route."""
        e = exercise(id)
        g = e.draw(self.student)
        stage = self.stage(id)
        if stage == 0:
            return Prompt("Try first: a hint comes after an answer.")
        if stage == 1:
            return Prompt(e.ask.format_map(g.texts()))
        if stage == 2:
            return Prompt(e.nudge.format_map(g.texts()))
        if self.graded and self.due is not None and self.now() < self.due:
            later = f"The worked route comes after {self.due.isoformat(timespec='minutes')}."
            return Prompt(f"{e.nudge.format_map(g.texts())} {later}")
        return Prompt(route(e, g))

    def _write(self, id: str, said: str, feedback: Feedback, counts: bool, code: str) -> None:
        line: dict[str, Any] = {
            "time": self.now().isoformat(timespec="seconds"),
            "student": self.student,
            "exercise": id,
            "answer": said,
            "correct": feedback.correct,
            "mistake": feedback.mistake,
            "counts": counts,
        }
        if code:
            line["code"] = code
        self._keep(line)
        if self.log is None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        before = read_log(self.log) if self.log.is_file() else []  # another desk may have written since
        line["seal"] = _seal(before[-1]["seal"] if before else "", line)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _seal(before: str, line: dict[str, Any]) -> str:
    text = json.dumps({k: v for k, v in line.items() if k != "seal"}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(f"{before}{text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_log(path: "str | Path") -> list[dict[str, Any]]:
    """The attempts of a log, in order.

    Raises
    ------
    InputError
        A line that was changed, or one that is missing before it; a file that is no log, or a very long one.
    """
    where = f"log = {str(path)!r}"
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES:,} bytes")
        lines = [json.loads(text) for text in data.decode("utf-8").split("\n") if text]
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{where} is not read: {error}; move it away and begin another") from None
    seal = ""
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict) or any(
            type({"code": "", **line}.get(key)) is not kind for key, kind in _KEPT.items()
        ):
            raise InputError(f"{where}: line {number} is no attempt; move the file away and begin another")
        seal = _seal(seal, line)
        if line["seal"] != seal:
            raise InputError(f"{where}: line {number} was changed, or one before it is missing")
    return lines
