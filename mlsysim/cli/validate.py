"""``mlsysim validate``: the library against measurements."""

import argparse
import statistics
from collections import Counter
from typing import TYPE_CHECKING

from mlsysim.cli.arguments import Commands, print_json, shown_share

if TYPE_CHECKING:
    from mlsysim.evidence.scoring import Report


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
    from mlsysim.cli import published  # keeps the other commands fast
    from mlsysim.evidence import cases, scoring
    from mlsysim.evidence.scoring import rules

    if args.cases is None:
        published.run(args)
        return
    file = cases.read_cases(args.cases, args.class_name)
    report = scoring.score(file, args.mode, args.leave_one_group_out)
    if args.json:
        print_json(report.to_dict())
        return
    s = report.summary

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
        figures = f"{shown_share(g.mape):>8} {shown_share(g.bias, True):>8} {shown_share(g.within):>8} {shown_share(g.inside):>8}"
        print(f"{name[:28]:<28} {g.n:>5} {figures}  {domain}".rstrip())
    print(
        f"{'mean over groups':<28} {s.n:>5} {shown_share(s.mape_mean_over_groups):>8} "
        f"{shown_share(s.bias_mean_over_groups, True):>8} {shown_share(s.within_tolerance_mean_over_groups):>8} {shown_share(s.coverage):>8}"
    )
    for line in _ranges(report):
        print(line)
    if s.unknown:
        print(f"of {shown_share(s.unknown)} of the rows we do not know: the range is too wide, and holds nothing")
    if rule := rules.score_rule(file, report):
        print(rule.line())
    for reason, n in Counter(r.reason for r in report.rows if not r.supported).most_common(5):
        print(f"unsupported: {n} rows: {reason}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser("validate")
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
