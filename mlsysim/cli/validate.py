"""``mlsysim validate``: the library against measurements."""

import argparse
import statistics
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from mlsysim.cli.arguments import Commands, print_json, shown_share
from mlsysim.errors import InputError

if TYPE_CHECKING:
    from mlsysim.evidence.cases import CaseFile
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


def _print_report(file: "CaseFile", report: "Report", left_out: bool) -> None:
    from mlsysim.evidence.scoring import rules

    s = report.summary
    constants = "no fitted constants"
    if report.mode == "calibrated":
        constants = (
            "constants refitted without the group that is scored"
            if left_out
            else "constants as shipped: rows that they were fitted to score too well (see --leave-one-group-out)"
        )
    print(f"{file.name}: class {report.case_class}, mode {report.mode}, {constants}")
    print(f"{s.supported} of {s.n} rows supported; a row without a prediction counts as 100 % wrong")
    print(f"{'group':<28} {'rows':>5} {'MAPE':>8} {'bias':>8} {'within':>8} {'inside':>8}  domain")
    grounds: dict[str, Counter[str]] = {group: Counter() for group in s.groups}
    for r in report.rows:
        grounds[r.group].update([r.domain] if r.domain else [])
    for group, g in s.groups.items():
        domain = ", ".join(f"{n} {word}" for word, n in sorted(grounds[group].items()))
        figures = f"{shown_share(g.mape):>8} {shown_share(g.bias, True):>8} {shown_share(g.within):>8} {shown_share(g.inside):>8}"
        print(f"{group[:28]:<28} {g.n:>5} {figures}  {domain}".rstrip())
    print(
        f"{'mean over groups':<28} {s.n:>5} {shown_share(s.mape_mean_over_groups):>8} "
        f"{shown_share(s.bias_mean_over_groups, True):>8} {shown_share(s.within_tolerance_mean_over_groups):>8} {shown_share(s.coverage):>8}"
    )
    for line in _ranges(report):
        print(line)
    if s.unknown:
        print(f"of {shown_share(s.unknown)} of the rows we do not know: the range is too wide, and holds nothing")
    if line := rules.rule_score(report.case_class, rules.score_rule(file, report)).line():
        print(line)
    for reason, n in Counter(r.reason for r in report.rows if not r.supported).most_common(5):
        print(f"unsupported: {n} rows: {reason}")


def _list(args: argparse.Namespace) -> None:
    """How many rows ship, of which sources; of one class its sources, and in JSON its rows."""
    from mlsysim.evidence import rows
    from mlsysim.tables import table

    counted = rows.counts()
    if not args.class_name:
        if args.json:
            print_json([c.to_dict() for c in counted])
            return
        cells = [[c.name, str(c.rows), str(c.sources), *(str(c.sets.get(s, "")) for s in rows.SETS)] for c in counted]
        print(table(["table", "rows", "sources", *rows.SETS], cells))
        return
    file = rows.cases(args.class_name, **({"set": tuple(args.set)} if args.set else {}))
    if args.json:
        print_json(file.frame_rows())
        return
    found = Counter((c.source, c.set) for c in file.cases)
    known = rows.sources()
    cells = [[name, of, str(n), known[name].title[:60], known[name].address] for (name, of), n in found.items()]
    print(table(["source", "set", "rows", "title", "address"], cells))


def _validate(args: argparse.Namespace) -> None:
    from mlsysim.cli import published  # keeps the other commands fast
    from mlsysim.evidence import cases, rows, scoring
    from mlsysim.evidence.scoring import rules

    if args.list:
        _list(args)
        return
    if args.points:
        from mlsysim.evidence.scoring import own_points

        if args.json:
            raise InputError(
                "--points prints a table; leave out --json (evidence.scoring.own_points.shipped() has its numbers)"
            )
        print(own_points.table_of())
        print(own_points.regret_told())
        return
    if args.decisions:
        from mlsysim.evidence.scoring import decisions

        scored = decisions.scores()
        if args.json:
            print_json({"decisions": [asdict(s) for s in scored]})
        else:
            print(decisions.told(scored))
        return
    if args.cases and args.set:
        raise InputError("--cases scores rows of your own and --set rows that ship; give one of the two")
    if args.set:
        names = [args.class_name] if args.class_name else list(cases.CLASSES)
        whole = {c.name: set(c.sets) for c in rows.counts()}
        files = [rows.cases(n, set=tuple(args.set)) for n in names if args.class_name or whole[n] & set(args.set)]
    elif args.cases:
        files = [cases.read_cases(args.cases, args.class_name)]
    else:
        published.run(args)
        return
    reports = [(f, scoring.score(f, args.mode, args.leave_one_group_out)) for f in files]
    if args.json:
        found = [
            r.to_dict() | {"rule": asdict(rules.rule_score(r.case_class, rules.score_rule(f, r)))} for f, r in reports
        ]
        print_json(found[0] if len(found) == 1 else {"classes": found})
        return
    for i, (file, report) in enumerate(reports):
        if i:
            print()
        _print_report(file, report, args.leave_one_group_out)


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser("validate")
    p.add_argument(
        "--cases",
        action="append",
        metavar="FILE.csv",
        help="measurements of your own, one per row; may be given again for more rows of one class "
        "(default: our table of figures as printed)",
    )
    p.add_argument(
        "--set",
        action="append",
        choices=("first", "second", "third"),
        help="score the rows that ship, of this set; may be given again for more of them",
    )
    p.add_argument(
        "--list", action="store_true", help="list the rows that ship instead: how many, or with --class their sources"
    )
    p.add_argument(
        "--points",
        action="store_true",
        help="print instead what measured points of one's own are worth, on the rows that ship",
    )
    p.add_argument(
        "--decisions",
        action="store_true",
        help="print instead what first choices by blind predictions give away, on the rows that ship",
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
