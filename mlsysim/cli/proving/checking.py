"""``mlsysim validate`` and ``grade``: the library against measurements, students against the library."""

import argparse
import statistics
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from mlsysim import units
from mlsysim.cli.arguments import Commands, print_json, quantity
from mlsysim.files import check_writable

if TYPE_CHECKING:
    from mlsysim.validation.scoring import Report


def _grade(args: argparse.Namespace) -> None:
    from mlsysim.classroom.grading import grade_folder, write_csv  # instructors only: keep the other commands fast

    check_writable(args.output, "--output")
    slug = Path(args.assignment).resolve().name
    rows = grade_folder(slug, args.submissions, args.timeout, args.jobs, args.insecure)
    write_csv(rows, args.output)
    counts = ", ".join(f"{n} {status}" for status, n in sorted(Counter(r.status for r in rows).items()))
    print(f"{args.output}: {len(rows)} graded ({counts})")


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
    from mlsysim.validation import cases, scoring

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
    for name, g in s.groups.items():
        grounds = Counter(r.domain for r in report.rows if r.group == name and r.domain)
        domain = ", ".join(f"{n} {word}" for word, n in sorted(grounds.items()))
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
    p.add_argument("submissions", metavar="FOLDER", help="one STUDENT-ID.ipynb each")
    p.add_argument("-o", "--output", required=True, metavar="FILE.csv", help="the table of grades")
    p.add_argument("--timeout", default=60.0, type=quantity("s"), help="for one submission (default: 60 s)")
    p.add_argument("--jobs", default=1, type=int, help="submissions run at a time (default: 1)")
    p.add_argument("--insecure", action="store_true", help="without a sandbox, as yourself: trusted code only")
    p.set_defaults(run=_grade)
