"""The clerk: looks at what came out of a notebook in a process of its own, with little time and memory.

A submission's text and its answers are untrusted outside of the sandbox too: a number may make a judge count for ever. Whatever
they do to the clerk, the others are graded. What it hands over is plain data.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mlsysim
from mlsysim.course.exercises import Exercise, assignment, check, tasks
from mlsysim.course.grading import reasons
from mlsysim.course.grading.sandbox import Failure, clean, environment

LEAST_SECONDS = 60.0  # for one submission; more where the sandbox is given more
MAX_MEMORY = 4 * 2**30  # bytes of addresses
MOST_TEXT = 8_000  # letters of a submission's answers that are compared with others'
UNDECIDED = "not-compared"


def answer_names(exercises: Sequence[Exercise]) -> dict[str, str]:
    """The variables that hold answers, by question: answer_1 for 01.1."""
    return {e.id: f"answer_{e.id.partition('.')[2]}" for e in exercises}


def own_texts(code: Sequence[str], exercises: Sequence[Exercise]) -> dict[str, str]:
    """What a student wrote into the cell of each answer, without spaces, comments and the lines that stood there before."""
    found, left = {}, MOST_TEXT
    for e in exercises:
        name = answer_names([e])[e.id]
        cells = [c for c in code if re.search(rf"^[ \t]*{name}[ \t]*=", c, re.M)]
        stood = {_bare(line) for line in re.sub(r"\banswer\b", name, e.starter).splitlines()}
        lines = (_bare(line) for c in cells for line in c.splitlines())
        own = "".join(x for x in lines if x not in stood and not re.match(r"\w+=inputs\(", x))
        found[e.id] = own[:left]
        left -= len(found[e.id])
    return found


def _bare(line: str) -> str:
    return "".join(line.partition("#")[0].split())


def compared(exercises: Sequence[Exercise], values: Mapping[str, Any], seed: str, word: str) -> dict[str, Any]:
    """For each question: points, whether it is right, the mistake, what is said, and why it could not be compared."""
    found = {}
    for e in exercises:
        given = values.get(answer_names([e])[e.id])
        try:
            if e.form in ("function", "data"):
                given = tasks.plain(given, 4 * tasks.MOST_NUMBERS)
            if e.form == "function" and isinstance(given, dict):
                given = tasks.Results(given["results"])
            f = check(e.id, given, seed, attempt=3, cases=word)
            if not 0 <= f.points <= e.points:
                raise ValueError(f"{f.points} points of {e.points}")
            found[e.id] = [float(f.points), f.correct, f.mistake or ("" if f else "wrong"), str(f.message), ""]
        except Exception as error:  # the answer may be anything that JSON can say
            why = clean(f"{type(error).__name__}: {error}")
            found[e.id] = [0.0, False, UNDECIDED, "A person looks at this answer.", why]
    return found


def look(
    slug: str, code: Sequence[str], values: Mapping[str, Any] | None, seed: str, word: str, seconds: float
) -> dict[str, Any]:
    """Ask a clerk for what a person reads and compares of a notebook: reasons, own texts, and marks if there are values.

    Raises
    ------
    Failure
        It took too long or too much memory.
    """
    task = json.dumps({"slug": slug, "code": list(code), "values": values, "seed": seed, "word": word})
    seconds = max(seconds, LEAST_SECONDS)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-B", "-m", __name__],
            input=task.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(tempfile.gettempdir(), str(Path(mlsysim.__file__).parent.parent)),
            timeout=seconds,
        )
        return dict(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        raise Failure(UNDECIDED, f"its answers could not be compared within {seconds:g} s; look at them") from None
    except ValueError:
        why = f"its answers could not be compared (status {done.returncode}); look at them"
        raise Failure(UNDECIDED, why) from None


def main() -> None:
    """Look at the notebook on standard input; what comes out is JSON."""
    with suppress(ImportError, ValueError, OSError):  # where limits cannot be set, the time is one still
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    task = json.load(sys.stdin)
    exercises = assignment(task["slug"])
    found: dict[str, Any] = {
        "reasons": reasons.written(task["code"], exercises),
        "texts": own_texts(task["code"], exercises),
    }
    if task["values"] is not None:
        found["marks"] = compared(exercises, task["values"], task["seed"], task["word"])
    with out:
        json.dump(found, out)


if __name__ == "__main__":
    main()
