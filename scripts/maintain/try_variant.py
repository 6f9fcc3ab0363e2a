#!/usr/bin/env python3
"""Score a class as the code now predicts it, with sources and domains left out, and log it.

scripts/maintain/try_variant.py CLASS [--set SET ...]                                only prints
scripts/maintain/try_variant.py CLASS [--set SET ...] --log "what" --why "why" [--kept]   appends to scoring/tried/CLASS.csv
"""

import argparse
import sys
from collections.abc import Sequence

from mlsysim.errors import MlsysimError
from mlsysim.evidence.cases import CLASSES
from mlsysim.evidence.rows import SETS, cases
from mlsysim.evidence.scoring.leaving import count_constants, leave_out, log_variant


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Score a class with sources and domains left out, and log it.")
    parser.add_argument("class_name", metavar="CLASS", choices=list(CLASSES), help="as in gemm")
    parser.add_argument("--set", nargs="+", choices=SETS, default=SETS, help="of the rows (default: all)")
    parser.add_argument("--log", metavar="VARIANT", help="what was changed, in a few words; appends a line to the log")
    parser.add_argument("--why", default="", help="why it stays or goes")
    parser.add_argument("--kept", action="store_true", help="it stays")
    args = parser.parse_args(argv)
    try:
        file = cases(args.class_name, set=tuple(args.set))
        if args.log:
            if not args.why:
                parser.error("--log needs --why: why it stays or goes")
            line = log_variant(file, args.log, args.kept, args.why)
            print(", ".join(line.cells()))
            return 0
        found = leave_out(file)
    except MlsysimError as error:
        print(f"try_variant: {error}", file=sys.stderr)
        return 2
    s, inside = found.sources.summary, found.inside.summary
    print(
        f"{file.case_class.name}: {len(file.cases)} rows of {len(inside.groups)} sources, {count_constants(found.constants)} constants"
    )
    print(f"in the fit {inside.mape_mean_over_groups:.1%}, without the source {s.mape_mean_over_groups:.1%}, ", end="")
    print(f"{s.supported} of {s.n} rows predicted")
    low, middle, high = found.ladder
    print(
        f"each domain one vote: in the fit {low:.1%}, without the source {middle:.1%}, and without the domain too {high:.1%}"
    )
    for name, g in sorted(s.groups.items(), key=lambda pair: -pair[1].mape):
        print(f"  source {name:<24} {g.n:>4} rows  {g.mape:>7.1%}  bias {g.bias or 0.0:>+7.1%}")
    for name, r in sorted(found.domains.items(), key=lambda pair: -pair[1].summary.mape_mean_over_groups):
        d = r.summary
        print(
            f"  domain {name:<44} {d.n:>4} rows  {d.mape_mean_over_groups:>7.1%}  bias {d.bias_mean_over_groups or 0.0:>+7.1%}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
