#!/usr/bin/env python3
"""Fit the constants of one class of cases to one or several case files, and write the file that ships with the package.

scripts/maintain/fit_constants.py CASES.csv [MORE.csv ...] [--class NAME] [--output FILE.toml]
scripts/maintain/fit_constants.py CASES.csv [MORE.csv ...] --scores        scores the shipped constants instead and writes the score file
"""

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from mlsysim.errors import InputError, MlsysimError
from mlsysim.evidence.cases import CaseFile, read_cases
from mlsysim.evidence.predictors import PREDICTORS, READ_BY_SOLVERS, Constants
from mlsysim.evidence.scoring import fit, scores
from mlsysim.evidence.scoring.baselines import score_baselines
from mlsysim.evidence.scoring.leaving import Leaving, leave_out
from mlsysim.evidence.written import toml

PACKAGE = Path(__file__).resolve().parents[2] / "mlsysim"
SCORES = PACKAGE / "evidence" / "scoring" / "sheets"


def as_toml(file: CaseFile, constants: Constants, date: datetime.date) -> str:
    """The text of a constants file: how the numbers came about, then the numbers."""
    name = file.case_class.name
    made = {
        "cases": file.name,
        "rows": len(file.cases),
        "groups": sorted({c.group for c in file.cases}),
        "method": PREDICTORS[name].method,
        "date": date.isoformat(),
    }
    comment = f"# Constants of class {name}, written by scripts/maintain/fit_constants.py. Do not edit."
    return toml(comment, {"fit": made} | ({"constants": constants} if constants else {}))


def baseline_errors(file: CaseFile) -> dict[str, float]:
    """Mean absolute error of each simple model beside ours, where the class has such models."""
    beside = score_baselines(file) if file.case_class.name == "training_step" else {}
    return {name: summary.mape_mean_over_groups for name, summary in beside.items()}


def write_scores(found: Leaving, date: datetime.date) -> Path:
    """Write the sheet of a class that the book prints; fit its constants first."""
    file = found.file
    path = SCORES / f"{file.case_class.name}.toml"
    path.parent.mkdir(exist_ok=True)
    sheet = scores.measure(found, baseline_errors(file), date)
    path.write_text(scores.as_toml(sheet), encoding="utf-8")
    return path


def write_constants(file: CaseFile, date: datetime.date, output: Path | None = None) -> tuple[Path, Constants]:
    """Fit the constants of a class and write the file that ships."""
    name = file.case_class.name
    constants = fit(name, file.cases)
    folder = PACKAGE / ("efficiencies" if name in READ_BY_SOLVERS else "evidence/predictors/constants")
    path = output or folder / f"{name}.toml"
    path.write_text(as_toml(file, constants, date), encoding="utf-8")
    return path, constants


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit the constants of one class of cases to case files.")
    parser.add_argument("cases", nargs="+", help="a case file, as in gemm.open.csv, or several of one class")
    parser.add_argument("--class", dest="class_name", help="class of its rows (default: from the header)")
    parser.add_argument("--output", type=Path, help="where to write (default: the package's own file)")
    parser.add_argument("--scores", action="store_true", help="write the score file instead of the constants")
    args = parser.parse_args(argv)
    try:
        file = read_cases(args.cases, args.class_name)
        name = file.case_class.name
        if name not in PREDICTORS:
            raise InputError(f"{file.name}: class {name} has no predictor, so there is nothing to fit")
        if args.scores:
            print(f"{write_scores(leave_out(file), datetime.date.today()).name}: scores of {len(file.cases)} rows")
            return 0
        output, constants = write_constants(file, datetime.date.today(), args.output)
    except MlsysimError as error:
        print(f"fit_constants: {error}", file=sys.stderr)
        return 2
    print(f"{output.name}: {len(constants)} entries fitted to {len(file.cases)} rows")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
