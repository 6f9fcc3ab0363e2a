"""Predictions against published measurements."""

from mlsysim.validation.measurements import Measurement, measurement, measurements
from mlsysim.validation.scoring import signed_error

__all__ = ["Measurement", "measurement", "measurements", "signed_error"]
