"""Which efficiencies a door asks the rooms with: one place, named in every answer."""

from mlsysim import inference, intervals, training
from mlsysim.catalog import Device
from mlsysim.errors import UnknownNameError, unknown_name
from mlsysim.validation import calibrated, calibrated_efficiencies, datasheet_efficiencies

NAMES = ("calibrated", "datasheet", "bound")


def for_serving(chosen: "str | inference.Efficiencies", device: Device, precision: str) -> inference.Efficiencies:
    """Efficiencies of a name for serving, or those given."""
    if isinstance(chosen, inference.Efficiencies):
        return chosen
    if chosen not in NAMES:
        raise unknown_name("efficiencies", chosen, NAMES)
    return calibrated(device, precision) if chosen == "calibrated" else inference.DATASHEET


def for_training(chosen: "str | training.Efficiencies", device: Device, precision: str) -> training.Efficiencies:
    """Efficiencies of a name for training, or those given."""
    if isinstance(chosen, training.Efficiencies):
        return chosen
    if chosen not in NAMES:
        raise unknown_name("efficiencies", chosen, NAMES)
    if chosen == "bound":
        return training.DATASHEET
    return (calibrated_efficiencies if chosen == "calibrated" else datasheet_efficiencies)(device, precision)


def spread(class_name: str, efficiencies_name: str) -> intervals.Interval | None:
    """The range of a prediction of 1; None where nobody counted the errors of such predictions."""
    if efficiencies_name != "calibrated":
        return None
    try:
        return intervals.interval(class_name, 1.0)
    except (UnknownNameError, ValueError):
        return None
