"""Reality checks: published figures as typed data, and how far our predictions lie from them. README.md has the rule."""

from mlsysim.validation.reality.conversions import CONVERSIONS, UNITS, measured
from mlsysim.validation.reality.rows import CATEGORIES, Row, case_file, rows, shapes

__all__ = ["CATEGORIES", "CONVERSIONS", "UNITS", "Row", "case_file", "measured", "rows", "shapes"]
