#!/usr/bin/env python3
"""Write the quantiles of past errors that ``mlsysim.intervals`` reads: every class scored with each source left out.

scripts/maintain/fit_intervals.py FOLDER_OF_CASES [--output FILE.toml]
"""

import argparse
import datetime
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlsysim.errors import InputError, MlsysimError
from mlsysim.intervals import interval_end
from mlsysim.validation.cases import CaseFile, read_cases
from mlsysim.validation.scoring import score
from mlsysim.validation.scoring.conformal import MIN_GROUPS, NOMINAL, GroupedErrors

OUTPUT = Path(__file__).resolve().parents[2] / "mlsysim" / "intervals.toml"
# Classes of one kind whose sources are too few apart; each class says in which pool it stands.
POOLS: Mapping[str, tuple[str, ...]] = {
    "training_step": ("training_step",),
    "inference": ("inference",),
    "memory": ("memory",),
    "scalar": ("scalar",),
    **dict.fromkeys(("gemm", "attention", "collective"), ("attention", "collective", "gemm")),
}
# Rows that somebody measured; the others are arithmetic, and ours agrees with it.
MEASURED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "memory": lambda inputs: inputs.get("kind") in ("training_peak", "inference_total", "checkpoint"),
    "scalar": lambda inputs: inputs.get("basis") == "empirical",
}


def measured(file: CaseFile) -> CaseFile:
    """The measured rows of a file."""
    keep = MEASURED.get(file.case_class.name)
    return file if keep is None else replace(file, cases=tuple(c for c in file.cases if keep(c.inputs)))


def as_toml(errors: Mapping[str, GroupedErrors], date: datetime.date) -> str:
    """The text of the file: quantiles per class, or the reason why there are none."""
    lines = ["# Quantiles of ln(predicted / measured), written by scripts/maintain/fit_intervals.py. Do not edit."]
    for name, pool in sorted(POOLS.items()):
        pooled = GroupedErrors(tuple(g for member in pool for g in errors[member].groups))
        lines += ["", f"[{name}]"]
        k = len(pooled.groups)
        try:
            if k < MIN_GROUPS:
                raise InputError(f"{k} sources, and {MIN_GROUPS} are needed")
            low, high = pooled.quantiles()
            coverage = pooled.coverage()
        except InputError as why:
            lines.append(f'refused = "{why}"')
            continue
        lines += [
            f"pool = {list(pool)!r}".replace("'", '"'),
            f"nominal = {NOMINAL}",
            f"low = {low:.4g}",
            f"high = {high:.4g}",
            f"groups = {k}",
            f"rows = {pooled.rows}",
            f"coverage = {coverage:.3g}",
            f'date = "{date.isoformat()}"',
        ]
    return "\n".join(lines) + "\n"


def summary(name: str, errors: GroupedErrors) -> str:
    """What the range of a class is, and how wide it is when a source is left out."""
    head = f"{name}: {errors.rows} rows of {len(errors.groups)} sources"
    if len(errors.groups) < MIN_GROUPS:
        return head
    low, high = errors.quantiles()
    width = statistics.median(b - a for a, b in errors.left_out())
    return (
        f"{head}, x{interval_end(1.0, high):.2f} to x{interval_end(1.0, low):.2f}; without a source the ends are "
        f"typically x{math.exp(width):.2f} apart and hold {errors.coverage():.0%} of it"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the quantiles that intervals are made of.")
    parser.add_argument("folder", type=Path, help="with one CLASS.open.csv for every class")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args(argv)
    try:
        errors = {}
        for name in POOLS:
            file = measured(read_cases(args.folder / f"{name}.open.csv", name))
            scored = [score(file, "calibrated", leave_one_group_out=True)] if file.cases else []
            errors[name] = GroupedErrors.of(*scored)
            print(summary(name, errors[name]))
    except MlsysimError as error:
        print(f"fit_intervals: {error}", file=sys.stderr)
        return 2
    args.output.write_text(as_toml(errors, datetime.date.today()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
