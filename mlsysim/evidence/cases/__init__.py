"""Case files: tables of published measurements with the columns of one class, read strictly and with bounds."""

from mlsysim.evidence.cases.reader import (
    CLASSES,
    TABLED,
    Case,
    CaseClass,
    CaseFile,
    join_cases,
    read_cases,
    recognise,
)

__all__ = ["CLASSES", "TABLED", "Case", "CaseClass", "CaseFile", "join_cases", "read_cases", "recognise"]
