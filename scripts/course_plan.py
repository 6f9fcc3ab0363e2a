"""A term's plan from the book itself: syllabi with their hours, and what a class has learned.

    python scripts/course_plan.py SCORES.csv      effect of a course: a row per student, with columns before and after

Hours of reading are those of the book's own pace, hours of exercises those of the exercises' own minutes.
"""

import argparse
import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import correlation, fmean, stdev
from typing import NamedTuple

from chapter_numbers import whole

from mlsysim.course.exercises import OBJECTIVES, Exercise, assignment, capstones
from mlsysim.errors import InputError

FULL = 20  # questions of the test
# A week: what to do in class, and its chapters by number and capstones by name.
Week = tuple[str, tuple[int | str, ...]]
FOURTEEN: tuple[Week, ...] = (
    ("predict, then measure your own memory", (1,)),
    ("count a published model by hand", (2,)),
    ("what fits, and who pays for it", (3,)),
    ("turn a ring with twelve people", (4,)),
    ("lay out a schedule on the floor", (5, 6)),
    ("clinic", ("training",)),
    ("follow one request", (7,)),
    ("queue at the door, with a stop watch", (8,)),
    ("which machine, at which interactivity", (24, 27)),
    ("read a model card against its own figures", (9, 10)),
    ("play a week of failures with dice", (11, 28)),
    ("judge a paper", (12, 13)),
    ("whose range is honest?", ("machine",)),
    ("orals", ("serving",)),
)
SIX: tuple[Week, ...] = (
    ("predict, then measure your own memory", (1, 2)),
    ("turn a ring with twelve people", (3, 4)),
    ("lay out a schedule on the floor", (5, 6)),
    ("follow one request", (7, 8)),
    ("read a model card against its own figures", (9, 10)),
    ("judge a paper", (12, "serving")),
)


def handed_in(slug: str) -> list[Exercise]:
    """What a chapter's week asks for: the exercise that grades each objective, and its largest task."""
    tasks = [e for e in assignment(slug) if e.form in ("function", "data")]
    chosen = {main for _, main in OBJECTIVES[slug]} | {e.id for e in sorted(tasks, key=lambda e: -e.minutes)[:1]}
    return [e for e in assignment(slug) if e.id in chosen]


def syllabus(weeks: Sequence[Week], links: bool = True) -> str:
    """A table of weeks: chapters, what happens in class, what is handed in, hours of reading and of exercises."""
    files = {int(c.name[:2]): c for part in whole.chapters() for c in part}
    rows, total = [], [0.0, 0.0]
    for number, (doing, what) in enumerate(weeks, 1):
        names, given, read, work = [], [], 0.0, 0.0
        for part in what:
            if isinstance(part, str):
                names.append(f"capstone: {capstones.texts(part)['title'].rstrip('?').lower()}")
                given.append(f"`capstones/{part}`")
                work += sum(h for _, h in capstones.texts(part)["milestones"])
                continue
            file, asked = files[part], handed_in(files[part].stem)
            title = file.stem[3:].replace("-", " ")
            names.append(f"[{title}]({file.name})" if links else f"{part} {title}")
            given += [f"`{e.id}`" for e in asked]
            read += whole.minutes(file.read_text(encoding="utf-8"))[0] / 60
            work += sum(e.minutes for e in asked) / 60
        total = [total[0] + read, total[1] + work]
        rows.append(f"| {number} | {', '.join(names)} | {doing} | {', '.join(given)} | {read:.1f} | {work:.1f} |")
    head = (
        "| week | chapters | in class | hand in | reading, h | exercises, h |\n| :-- | :-- | :-- | :-- | --: | --: |\n"
    )
    return head + "\n".join(rows) + f"\n| | | | | {total[0]:.0f} | {total[1]:.0f} |\n"


def book() -> str:
    """Both syllabi for the page on teaching."""
    return (
        f"{syllabus(FOURTEEN)}\n: A course of fourteen weeks, two meetings a week. {{#tbl-weeks}}\n\n"
        f"{syllabus(SIX)}\n: A course of six weeks, for half a term. {{#tbl-six-weeks}}\n"
    )


class Effect(NamedTuple):
    """What a class learned: Hedges' g and the mean normalised gain, each with the ends of its 95 % range."""

    students: int
    g: float
    g_range: tuple[float, float]
    gain: float
    gain_range: tuple[float, float]

    def __str__(self) -> str:
        return (
            f"{self.students} students sat both tests\n"
            f"Hedges' g of the change: {self.g:.2f} (95 %: {self.g_range[0]:.2f} to {self.g_range[1]:.2f})\n"
            f"normalised gain: {self.gain:.2f} (95 %: {self.gain_range[0]:.2f} to {self.gain_range[1]:.2f})"
        )


def gain(before: float, after: float, full: int = FULL) -> float:
    """Normalised gain: what was learned of what was left to learn.

    >>> gain(4, 12)
    0.5
    """
    return (after - before) / (full - before) if before < full else 0.0


def effect(before: Sequence[float], after: Sequence[float], full: int = FULL) -> Effect:
    """The change of the same students in standard deviations of a test (Borenstein et al. 2009, chapter 4, matched groups).

    The deviation is the root of the mean variance of both tests, J takes off what few students add, and the variance of g
    knows how both tests go together. There is no group without the course, so g is the change and not its cause.
    """
    n = len(before)
    if n < 3 or len(after) != n or not all(0 <= x <= full for x in (*before, *after)):
        raise InputError(
            f"effect: {n} and {len(after)} scores; give at least three students with both, from 0 to {full}"
        )
    spread = math.sqrt((stdev(before) ** 2 + stdev(after) ** 2) / 2)
    if not stdev(before) or not stdev(after):
        raise InputError(
            "effect: all scores of a test are the same, so that there is no deviation to measure a change in"
        )
    d, small = (fmean(after) - fmean(before)) / spread, 1 - 3 / (4 * (n - 1) - 1)
    error = small * math.sqrt((1 / n + d**2 / (2 * n)) * 2 * (1 - correlation(before, after)))
    gains = [gain(b, a, full) for b, a in zip(before, after, strict=True) if b < full]
    off = 1.96 * stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
    mean, g = fmean(gains) if gains else math.nan, small * d
    return Effect(n, g, (g - 1.96 * error, g + 1.96 * error), mean, (mean - off, mean + off))


def read(path: Path) -> Effect:
    """The effect on a class whose scores stand in a CSV file; who missed one of the tests is left out."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"before", "after"} <= rows[0].keys():
        raise InputError(f"{path}: no columns before and after; give a row per student, as in student,before,after")
    both = [r for r in rows if (r["before"] or "").strip() and (r["after"] or "").strip()]
    try:
        return effect([float(r["before"]) for r in both], [float(r["after"]) for r in both])
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path, help="CSV file: student,before,after")
    try:
        print(read(parser.parse_args().scores))
    except (InputError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
