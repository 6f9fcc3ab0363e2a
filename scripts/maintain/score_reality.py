#!/usr/bin/env python3
"""Score the published rows leaving one group out, and write the summary that ships with the package.

    python scripts/maintain/score_reality.py [--check]

Run it after scripts/maintain/fit_all.py or a change of a model; then scripts/make_book_parts.py. ``--check`` only compares.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mlsysim.evidence.cases import TABLED
from mlsysim.evidence.reality.leave_one_out import as_toml, measure

FILE = Path(__file__).resolve().parents[2] / "mlsysim" / "evidence" / "reality" / "honest.toml"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(argv).check
    text = as_toml({name: measure(name) for name in TABLED})
    stale = not FILE.exists() or FILE.read_text(encoding="utf-8") != text
    if stale and not check:
        FILE.write_text(text, encoding="utf-8")
    if stale:
        print(f"{'stale' if check else 'written'}: {FILE.name}", file=sys.stderr)
    return int(check and stale)


if __name__ == "__main__":
    raise SystemExit(main())
