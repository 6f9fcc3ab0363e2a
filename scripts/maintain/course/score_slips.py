"""Score the hints on the list of slips: how many are false, how many name what went wrong.

    python scripts/maintain/course/score_slips.py [FILE.csv]

A hint is *specific* when it names the slip that was made, or one that gives the very same number, and where it is about an input,
that input. It is *false* when it names anything else; a question back names nothing. A mistake of the exercise itself that is named
for a slip beside it is false, since the list holds no slip that an exercise names.
"""

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlsysim.classroom.exercises import EXERCISES, check

ROOT = Path(__file__).resolve().parents[3]
ABOUT_INPUTS = ("left-out", "upside-down", "complement", "off-by-one", "one-or-all", "input-unit", "swapped")


def judged(row: Mapping[str, str]) -> str:
    """What a hint is worth: specific, false or silent."""
    feedback = check(row["exercise"], float(row["answer"]), row["seed"])
    if feedback.mistake is None:
        return "silent"
    g = EXERCISES[row["exercise"]].draw(row["seed"])
    for cause in (row["slip"], *row["same"].split()):
        kind, *names = cause.split(":")
        if kind == feedback.mistake and (
            kind not in ABOUT_INPUTS or all(g.given[n].meaning in feedback.message for n in names)
        ):
            return "specific"
    return "false"


def score(rows: Sequence[Mapping[str, str]]) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """How many hints are specific, false and silent, in all and by the slip's kind."""
    total: Counter[str] = Counter()
    by_kind: dict[str, Counter[str]] = {}
    for row in rows:
        found = judged(row)
        total[found] += 1
        by_kind.setdefault(row["slip"].partition(":")[0], Counter())[found] += 1
    return total, by_kind


def main() -> int:
    parser = argparse.ArgumentParser(description="Score the hints on the list of slips.")
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "tests" / "book" / "slips.csv")
    args = parser.parse_args()
    with args.file.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    total, by_kind = score(rows)
    print(f"{'slip':16} {'count':>6} {'specific':>9} {'false':>7} {'silent':>7}")
    for kind, found in sorted(by_kind.items(), key=lambda item: -sum(item[1].values())):
        n = sum(found.values())
        print(f"{kind:16} {n:6} {found['specific'] / n:9.1%} {found['false'] / n:7.1%} {found['silent'] / n:7.1%}")
    n = sum(total.values())
    print(f"{'all':16} {n:6} {total['specific'] / n:9.1%} {total['false'] / n:7.1%} {total['silent'] / n:7.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
