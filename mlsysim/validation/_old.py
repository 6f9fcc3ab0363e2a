"""Old names of efficiencies, for a version: the solvers take ``efficiencies="calibrated"`` and ``"datasheet"`` themselves."""

from mlsysim import inference, training
from mlsysim._renamed import warn
from mlsysim.catalog import Device


def _now(old: str, room: str, word: str) -> None:
    warn(f"validation.{old}", f'efficiencies="{word}", or {room}.efficiencies_of(device, precision, "{word}")', 4)


def datasheet_efficiencies(device: Device | str, precision: str = "bf16") -> training.Efficiencies:
    """Now ``training.efficiencies_of(device, precision, "datasheet")``."""
    _now("datasheet_efficiencies", "training", "datasheet")
    return training.efficiencies_of(device, precision, "datasheet")


def calibrated_efficiencies(device: Device | str, precision: str = "bf16") -> training.Efficiencies:
    """Now ``training.efficiencies_of(device, precision)``."""
    _now("calibrated_efficiencies", "training", "calibrated")
    return training.efficiencies_of(device, precision)


def calibrated(device: Device | str, precision: str = "bf16", framework: str = "") -> inference.Efficiencies:
    """Now ``inference.efficiencies_of(device, precision)``."""
    _now("calibrated", "inference", "calibrated")
    return inference.efficiencies_of(device, precision, framework=framework)
