"""Reality checks: published figures as typed data, and how far our predictions lie from them. README.md has the rule."""

from mlsysim.evidence.reality.conversions import CONVERSIONS, UNITS, measured
from mlsysim.evidence.reality.leave_one_out import HonestScore, honest
from mlsysim.evidence.reality.published import CATEGORIES, PublishedRow, case_file, rows, shapes
from mlsysim.evidence.reality.report import CheckedRow, ClassCheck, by_category, check_all, check_class

__all__ = [
    "CATEGORIES",
    "CONVERSIONS",
    "UNITS",
    "CheckedRow",
    "ClassCheck",
    "HonestScore",
    "PublishedRow",
    "by_category",
    "case_file",
    "check_all",
    "check_class",
    "honest",
    "measured",
    "rows",
    "shapes",
]
