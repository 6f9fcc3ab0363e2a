"""``mlsysim grade``: submitted notebooks against the library."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from mlsysim.cli.arguments import Commands
from mlsysim.cli.options import add_options, given
from mlsysim.course import grading
from mlsysim.course.grading import grade
from mlsysim.declared import parameters


def _grade(args: argparse.Namespace) -> None:
    rows, alike = grade(Path(args.assignment).resolve().name, **given(args, grade, "assignment"))
    counts = ", ".join(f"{n} {status}" for status, n in sorted(Counter(r.status for r in rows).items()))
    print(f"{args.output}: {len(rows)} graded ({counts})")
    print(f"the class and its questions, without names: {Path(args.output).with_suffix('.html')}")
    sheet = Path(args.output).with_suffix(".reasons.csv")
    if sheet.exists():
        print(f"reasons to read, with their rubrics: {sheet}")
    if args.import_to and (open := [r.student for r in rows if r.status not in (*grading.IMPORTED, "replaced")]):
        print(f"not in the import file, decide by hand: {', '.join(open)}")
    if alike:
        print(f"look at {len(alike)} pairs that are alike: {Path(args.output).with_suffix('.mistakes.csv')}")


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser("grade")
    known = parameters(grade)
    p.add_argument("assignment", metavar="ASSIGNMENT", help=known["assignment"].help)
    p.add_argument("submissions", metavar="FOLDER", help=known["submissions"].help)
    file: Any = {name: {"metavar": "FILE.csv"} for name in ("output", "roster")}
    add_options(
        p,
        grade,
        leave=("assignment", "submissions"),
        **file,
        cluster={"metavar": "WHERE"},
        before={"metavar": "FILE.json"},
        feedback={"metavar": "FOLDER"},
    )
    p.set_defaults(run=_grade)
