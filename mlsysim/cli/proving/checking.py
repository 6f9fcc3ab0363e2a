"""``mlsysim validate`` and ``grade``: the library against measurements, students against the library."""

import argparse
import statistics
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mlsysim import units
from mlsysim.cli.arguments import Commands, print_json, quantity

if TYPE_CHECKING:
    from mlsysim.evidence.scoring import Report


def _grade(args: argparse.Namespace) -> None:
    from mlsysim.course import grading  # instructors only: keep the other commands fast

    rows, alike = grading.grade(
        Path(args.assignment).resolve().name,
        args.submissions,
        args.output,
        timeout=args.timeout,
        jobs=args.jobs,
        insecure=args.insecure,
        roster=args.roster,
        due=args.due,
        late_per_day=args.late_per_day,
        late_days=args.late_days,
        before=args.before,
        import_to=args.import_to,
        feedback=args.feedback,
    )
    counts = ", ".join(f"{n} {status}" for status, n in sorted(Counter(r.status for r in rows).items()))
    print(f"{args.output}: {len(rows)} graded ({counts})")
    sheet = Path(args.output).with_suffix(".reasons.csv")
    if sheet.exists():
        print(f"reasons to read, with their rubrics: {sheet}")
    if args.import_to and (open := [r.student for r in rows if r.status not in (*grading.IMPORTED, "replaced")]):
        print(f"not in the import file, decide by hand: {', '.join(open)}")
    if alike:
        print(f"look at {len(alike)} pairs that are alike: {Path(args.output).with_suffix('.mistakes.csv')}")


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no date; write it as 2026-12-01T23:59+01:00") from None


def _ranges(report: "Report") -> list[str]:
    """How wide the 80 % ranges are in each domain, and how many of its rows lie inside."""
    lines = []
    for domain in ("known", "new"):
        own = [r for r in report.rows if r.domain == domain and r.predicted and r.low and r.high]
        if own:
            low, high = (
                statistics.median(getattr(r, end) / (r.predicted or 1.0) for r in own) for end in ("low", "high")
            )
            held = sum(bool(r.inside) for r in own)
            lines.append(
                f"80 % range, {domain} domain: x{low:.2f} to x{high:.2f} of the prediction; {held} of {len(own)} rows inside"
            )
    return lines


def _validate(args: argparse.Namespace) -> None:
    from mlsysim.cli.proving import reality  # keeps the other commands fast
    from mlsysim.evidence import cases, scoring

    if args.cases is None:
        reality.run(args)
        return
    file = cases.read_cases(args.cases, args.class_name)
    report = scoring.score(file, args.mode, args.leave_one_group_out)
    if args.json:
        print_json(report.to_dict())
        return
    s = report.summary

    def share(value: float | None, signed: bool = False) -> str:
        return "-" if value is None else units.percent(value, signed=signed)

    constants = "no fitted constants"
    if args.mode == "calibrated":
        constants = (
            "constants refitted without the group that is scored"
            if args.leave_one_group_out
            else "constants as shipped: rows that they were fitted to score too well (see --leave-one-group-out)"
        )
    print(f"{file.name}: class {report.case_class}, mode {report.mode}, {constants}")
    print(f"{s.supported} of {s.n} rows supported; a row without a prediction counts as 100 % wrong")
    print(f"{'group':<28} {'rows':>5} {'MAPE':>8} {'bias':>8} {'within':>8} {'inside':>8}  domain")
    grounds: dict[str, Counter[str]] = {name: Counter() for name in s.groups}
    for r in report.rows:
        grounds[r.group].update([r.domain] if r.domain else [])
    for name, g in s.groups.items():
        domain = ", ".join(f"{n} {word}" for word, n in sorted(grounds[name].items()))
        figures = f"{share(g.mape):>8} {share(g.bias, True):>8} {share(g.within):>8} {share(g.inside):>8}"
        print(f"{name[:28]:<28} {g.n:>5} {figures}  {domain}".rstrip())
    print(
        f"{'mean over groups':<28} {s.n:>5} {share(s.mape_mean_over_groups):>8} "
        f"{share(s.bias_mean_over_groups, True):>8} {share(s.within_tolerance_mean_over_groups):>8} {share(s.coverage):>8}"
    )
    for line in _ranges(report):
        print(line)
    for reason, n in Counter(r.reason for r in report.rows if not r.supported).most_common(5):
        print(f"unsupported: {n} rows: {reason}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser("validate", help="predict published measurements and score the predictions")
    p.add_argument(
        "--cases",
        action="append",
        metavar="FILE.csv",
        help="measurements of your own, one per row; may be given again for more rows of one class "
        "(default: those that ship with us)",
    )
    p.add_argument(
        "--class", dest="class_name", metavar="NAME", help="class of the rows (default: from the header, or all)"
    )
    p.add_argument(
        "--efficiencies",
        "--mode",
        dest="mode",
        choices=("datasheet", "calibrated"),
        default="calibrated",
        help="datasheet: sourced figures only; calibrated: with the fitted constants (default)",
    )
    p.add_argument(
        "--leave-one-group-out",
        action="store_true",
        help="refit the constants for each group on the other groups of the same rows",
    )
    p.add_argument("--json", action="store_true", help="print every row and the summary as JSON")
    p.set_defaults(run=_validate)

    p = commands.add_parser("grade", help="grade a folder of submitted notebooks, each in a sandbox, into one CSV file")
    p.add_argument("assignment", metavar="ASSIGNMENT", help="as in exercises/01-iron-law")
    p.add_argument(
        "submissions",
        metavar="FOLDER",
        help="a download of Canvas, Moodle or Gradescope, unpacked, or one STUDENT-ID.ipynb each",
    )
    p.add_argument("-o", "--output", required=True, metavar="FILE.csv", help="the table of grades")
    p.add_argument("--timeout", default=60.0, type=quantity("s"), help="for one submission (default: 60 s)")
    p.add_argument("--jobs", default=1, type=int, help="submissions run at a time (default: 1)")
    p.add_argument(
        "--roster", metavar="FILE.csv", help="the course's list, as its system exports it; who is missing gets a row"
    )
    p.add_argument(
        "--due", type=_moment, metavar="DATE", help="when it was due, with its time zone: 2026-12-01T23:59+01:00"
    )
    p.add_argument(
        "--late-per-day", type=float, default=0.1, help="share of the score that a day begun costs (default: 0.1)"
    )
    p.add_argument("--late-days", type=int, default=5, help="days after which nothing is left (default: 5)")
    p.add_argument(
        "--before", metavar="FILE.json", help="grades of an earlier run: the better points count, question by question"
    )
    p.add_argument(
        "--import-to", choices=("canvas", "moodle", "gradescope"), help="also write that system's import file"
    )
    p.add_argument("--feedback", metavar="FOLDER", help="also write one page per student with the hints in full")
    p.add_argument("--insecure", action="store_true", help="without a sandbox, as yourself: trusted code only")
    p.set_defaults(run=_grade)
