"""Runs that other tools measured: what their files say about the question, and the figures in them."""

from mlsysim.runs.reading import FORMATS, read_run
from mlsysim.runs.run import KINDS, QUANTITIES, Figure, Measured

__all__ = ["FORMATS", "KINDS", "QUANTITIES", "Figure", "Measured", "read_run"]


def __dir__() -> list[str]:
    return __all__
