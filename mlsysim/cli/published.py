"""What ``mlsysim validate`` prints when it is given no file: our own table of published figures."""

import argparse
from collections import Counter
from collections.abc import Sequence

from mlsysim.cli.arguments import print_json, shown_share
from mlsysim.evidence import reality
from mlsysim.evidence.cases import TABLED
from mlsysim.evidence.reality import CheckedRow, ClassCheck
from mlsysim.evidence.scoring import Summary
from mlsysim.tables import table


def _means(name: str, s: Summary | None, in_sample: int) -> list[list[str]]:
    if s is None:
        return []
    means = (s.mape_mean_over_groups, s.within_tolerance_mean_over_groups)
    return [
        [
            name,
            str(s.n),
            str(in_sample),
            shown_share(s.bias_mean_over_groups, True),
            shown_share(means[0]),
            shown_share(means[1]),
        ]
    ]


def _print_class(check: ClassCheck) -> None:
    s = check.summary
    print(f"\n{check.name}: {s.supported} of {s.n} published figures predicted, in {len(s.groups)} groups")
    rows = [
        [
            name,
            str(g.n),
            str(check.in_sample(name)),
            shown_share(g.bias, True),
            shown_share(g.mape),
            shown_share(g.within),
        ]
        for name, g in s.groups.items()
    ]
    total = sum(r.in_sample for r in check.rows)
    rows += _means("mean over groups", s, total)
    if total:
        rows += _means("  rows in the fit", check.inside, total)
        rows += _means("  rows outside it", check.outside, 0)
    print(table(["group", "rows", "in fit", "bias", "MAPE", "within"], rows))
    if unseen := check.unseen():
        held, n = (sum(side) for side in zip(*unseen.values(), strict=True))
        sources = sum(h / rows for h, rows in unseen.values()) / len(unseen)
        print(
            f"80 % range: holds {held} of the {n} rows outside the fit ({shown_share(held / n)}); {shown_share(sources)} where "
            f"each of their {len(unseen)} groups has one vote"
        )
    for r in check.worst():
        print(f"furthest off: {_line(r)} ({r.reason})")
    for why, n in Counter(r.score.reason for r in check.rows if not r.score.supported).most_common(3):
        print(f"unsupported: {n} rows: {why}")


def _line(r: CheckedRow) -> str:
    device = r.row.case.inputs.get("device") or ""
    return f"{r.row.case.id}, {r.row.model} {device}".rstrip() + f": {shown_share(r.score.error, True)}"


def _print_categories(checks: Sequence[ClassCheck]) -> None:
    print("\nThe ten categories of rooflinepage2026, sec. 6")
    rows = []
    for name, found in reality.by_category(checks).items():
        errors = [r.score.error for r in found if r.score.error is not None]
        span = f"{shown_share(min(errors), True)} to {shown_share(max(errors), True)}" if errors else "-"
        rows.append([name, str(len(found)), str(len(errors)), span])
    print(table(["category", "rows", "predicted", "signed error"], rows))


def run(args: argparse.Namespace) -> None:
    """Predict and score the published figures that ship with the package."""
    names = [args.class_name] if args.class_name else list(TABLED)
    checks = [reality.check_class(name, args.mode, args.leave_one_group_out) for name in names]
    if args.json:
        categories = {
            name: [{"id": r.row.case.id, "error": r.score.error} for r in found]
            for name, found in reality.by_category(checks).items()
            if found
        }
        print_json({"mode": args.mode, "classes": [c.to_dict() for c in checks], "categories": categories})
        return
    total = sum(c.summary.n for c in checks)
    print(f"{total} published figures that ship with mlsysim, mode {args.mode}; each group has one vote, and a figure")
    print(
        "without a prediction counts as 100 % wrong. 'in fit': rows of groups that a constant they use was fitted on."
    )
    for check in checks:
        _print_class(check)
    if not args.class_name:
        _print_categories(checks)
