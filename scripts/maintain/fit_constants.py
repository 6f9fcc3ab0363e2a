"""Fit the constants of a class to the rows that ship, and write the files that follow from them (``fit_all.py`` runs it)."""

import datetime
from pathlib import Path

from mlsysim.evidence.cases import CaseFile
from mlsysim.evidence.predictors import PREDICTORS, READ_BY_SOLVERS, Constants
from mlsysim.evidence.scoring import fit, scores
from mlsysim.evidence.scoring.baselines import score_baselines
from mlsysim.evidence.scoring.leaving import Leaving
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
    comment = f"# Constants of class {name}, written by scripts/maintain/fit_all.py. Do not edit."
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


def write_constants(file: CaseFile, date: datetime.date) -> tuple[Path, Constants]:
    """Fit the constants of a class and write the file that ships."""
    name = file.case_class.name
    constants = fit(name, file.cases)
    folder = PACKAGE / ("efficiencies" if name in READ_BY_SOLVERS else "evidence/predictors/constants")
    path = folder / f"{name}.toml"
    path.write_text(as_toml(file, constants, date), encoding="utf-8")
    return path, constants
