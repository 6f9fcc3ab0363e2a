"""Runs that other tools measured: what their files say about the question, and the figures in them."""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.runs.reading import FORMATS, read_run
    from mlsysim.runs.run import KINDS, QUANTITIES, Figure, Measured

__all__ = ["FORMATS", "KINDS", "QUANTITIES", "Figure", "Measured", "read_run"]
__getattr__, __dir__ = lazily(__name__)
