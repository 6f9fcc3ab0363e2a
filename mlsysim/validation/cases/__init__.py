"""Case files: tables of published measurements with the columns of one class, read strictly and with bounds."""

from mlsysim.validation.cases.reader import CLASSES, Case, CaseClass, CaseFile, read_cases, recognise

__all__ = ["CLASSES", "Case", "CaseClass", "CaseFile", "read_cases", "recognise"]
