"""Efficiencies of a training step as ``mlsysim validate`` uses them, for any device: fitted to published steps, or sourced."""

from mlsysim import catalog
from mlsysim.catalog import Device
from mlsysim.training import Efficiencies
from mlsysim.validation.predictors import shipped_constants, training_step
from mlsysim.validation.predictors.base import element_bytes
from mlsysim.validation.predictors.training_rows import clock_of, family_of, generation_of


def datasheet_efficiencies(device: Device | str, precision: str = "bf16") -> Efficiencies:
    """What measured products and STREAM reach on the device's generation (else on Hopper), and counted traffic.

    >>> datasheet_efficiencies("MI300X").name
    'datasheet'
    """
    return _efficiencies(device, precision, calibrated=False)


def calibrated_efficiencies(device: Device | str, precision: str = "bf16") -> Efficiencies:
    """The constants that ship with the package; a generation that none of their rows ran on has its datasheet mode.

    >>> calibrated_efficiencies("H200", "fp8").name, calibrated_efficiencies("MI300X").name
    ('calibrated', 'datasheet')
    """
    return _efficiencies(device, precision, calibrated=True)


def _efficiencies(device: Device | str, precision: str, calibrated: bool) -> Efficiencies:
    d = catalog.device(device)
    constants = shipped_constants("training_step") if calibrated else {}
    narrow = element_bytes(precision) < element_bytes("bf16")
    return training_step.efficiencies(generation_of(d), family_of(d), narrow, clock_of(d), constants)
