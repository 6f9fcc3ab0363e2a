"""Audit the hints that all exercises share: which of them are false?

    python scripts/maintain/course/audit_hints.py [--sample 400] [--seeds 8] [--output FILE.csv]

A wrong answer is made by a mistake that an author of the exercise thought of, and that mistake is then hidden, so that only the
shared rules (``mlsysim/course/exercises/slips.py``) can say something. They did not choose these slips. What they say is looked
up in ``tests/book/hints.csv``, where a person wrote for each mistake and hint whether it is true of that mistake; --output writes
those that nobody has judged yet.
"""

import argparse
import csv
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mlsysim.course.exercises import EXERCISES
from mlsysim.course.exercises.engine import grade

JUDGED = Path(__file__).resolve().parents[3] / "tests" / "book" / "hints.csv"
Said = tuple[str, str, str, str]  # exercise, hidden mistake, name of the hint, what it is about


def answers(seeds: Sequence[str]) -> Iterator[tuple[str, str, str, float]]:
    """Every mistake of every question for each seed, as a person writes the number: exercise, mistake, seed, answer."""
    for e in EXERCISES.values():
        if e.form != "number":
            continue
        for m in e.mistakes:
            for at, way in enumerate(m.ways):
                for seed in seeds:
                    value = float(way(e.draw(seed)))
                    digits = random.Random(f"{e.id}{m.name}{at}{seed}").choice((4, 5, 12))
                    if math.isfinite(value):
                        yield e.id, m.name, seed, float(f"{value:.{digits - 1}e}")


def said(id: str, mistake: str, seed: str, answer: float) -> Said | None:
    """What a shared rule says to a mistake that the exercise no longer knows; None where it says nothing."""
    e = EXERCISES[id]
    left = tuple(m for m in e.mistakes if m.name != mistake)
    found = grade(replace(e, mistakes=left), answer, e.draw(seed))
    if found.correct or found.mistake is None or found.mistake in {m.name for m in left}:
        return None
    return id, mistake, found.mistake, " | ".join(re.findall("“(.*?)”", found.message))


def judged(path: Path = JUDGED) -> Mapping[Said, bool]:
    """What a person wrote of each mistake and hint: whether it is true."""
    with path.open(newline="", encoding="utf-8") as file:
        return {(r["exercise"], r["mistake"], r["hint"], r["about"]): r["true"] == "yes" for r in csv.DictReader(file)}


def audit(made: Sequence[tuple[str, str, str, float]]) -> tuple[Counter[str], set[Said]]:
    """How many of these answers got a hint that is true, false or not judged, and how many got none; what is not judged."""
    known, count, new = judged(), Counter[str](), set()
    for row in made:
        hint = said(*row)
        count["none" if hint is None else "new" if hint not in known else "true" if known[hint] else "false"] += 1
        if hint is not None and hint not in known:
            new.add(hint)
    return count, new


def main() -> int:
    parser = argparse.ArgumentParser(description="Audit the hints that all exercises share.")
    parser.add_argument("--sample", type=int, default=0, help="so many answers, drawn by chance; all by default")
    parser.add_argument("--seeds", type=int, default=8, help="readers to draw the numbers of")
    parser.add_argument("--output", type=Path, help="CSV of the hints that nobody has judged")
    args = parser.parse_args()
    made = list(answers([f"h{i}" for i in range(args.seeds)]))
    if args.sample:
        made = random.Random(30).sample(made, args.sample)
    count, new = audit(made)
    hints = count["true"] + count["false"] + count["new"]
    print(
        f"{len(made)} wrong answers: {hints} shared hints, of which {count['false']} false ({count['false'] / max(1, hints):.1%}), {count['new']} not judged"
    )
    if args.output:
        with args.output.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [("exercise", "mistake", "hint", "about", "true"), *((*row, "") for row in sorted(new))]
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
