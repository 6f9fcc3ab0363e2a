#!/usr/bin/env python3
"""Choose the structure of training steps inside the folds, and write what that says of sources that had no say: a quarter of an hour.

scripts/maintain/nest_training.py [--start nothing|counted ...]

Run it after the structure of a step or its alternatives (``evidence.predictors.training_structures``) changed. A start that
is not named keeps what it has.
"""

import argparse
import datetime
import functools
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from mlsysim.errors import MlsysimError
from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring.nested import STARTS, Nested, Search, nested_of
from mlsysim.evidence.written import toml

OUTPUT = Path(__file__).resolve().parents[2] / "mlsysim" / "evidence" / "scoring" / "nested.toml"
_HEAD = (
    "# Structure of training steps chosen inside the folds, written by scripts/maintain/nest_training.py. Do not edit."
)


def as_table(nested: Nested) -> dict[str, Any]:
    """One start as it stands in the file."""
    return {f.name: getattr(nested, f.name) for f in fields(nested)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Choose the structure of training steps inside the folds.")
    parser.add_argument(
        "--start", nargs="+", default=list(STARTS), choices=list(STARTS), help="where the search begins"
    )
    args = parser.parse_args(argv)
    try:
        search = Search(cases("training_step"))
    except MlsysimError as error:
        print(f"nest_training: {error}", file=sys.stderr)
        return 2
    found: dict[str, Any] = tomllib.loads(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.is_file() else {}
    say = functools.partial(print, flush=True)
    for start in args.start:
        nested = nested_of(search, start, datetime.date.today().isoformat(), say)
        found[start] = as_table(nested)
        OUTPUT.write_text(toml(_HEAD, dict(sorted(found.items()))), encoding="utf-8")
        say(
            f"{start}: {nested.inside:.1%} with all in view, {nested.sources:.1%} without the source, {nested.domains:.1%} without the domain"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
