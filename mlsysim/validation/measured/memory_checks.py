"""Published memory figures beside what our equations give for the same run."""

from dataclasses import dataclass

from mlsysim import memory
from mlsysim.errors import InputError
from mlsysim.memory import TrainingMemory
from mlsysim.results import Listed
from mlsysim.validation.measured.measurements import Measurement, measurement, measurements
from mlsysim.validation.metrics import signed_error

KINDS = ("training_memory", "model_state", "checkpoint")


@dataclass(frozen=True)
class MemoryCheck(Listed):
    """One row: bytes predicted and published; error = predicted/measured - 1."""

    measurement: Measurement
    prediction: TrainingMemory | None  # None for a checkpoint, which lies on a disk
    predicted: float

    @property
    def measured(self) -> float:
        return self.measurement.value

    @property
    def error(self) -> float:
        return float(signed_error(self.predicted, self.measured))


def memory_check(row: Measurement | str) -> MemoryCheck:
    """Predict a published peak, model state or checkpoint.

    Parameters
    ----------
    row : Measurement or str
        A measurement of one of KINDS, or its name. Its inputs describe the run; nothing is fitted to it.

    >>> round(memory_check("dgxc-8b-state").error, 3)
    -0.002
    """
    row = measurement(row) if isinstance(row, str) else row
    if row.kind not in KINDS:
        raise InputError(f"row: {row.name!r} is of kind {row.kind!r}; memory can be checked on {', '.join(KINDS)}")
    if row.kind == "checkpoint":
        return MemoryCheck(row, None, float(memory.checkpoint_bytes(**row.inputs)))
    result = memory.training_memory(device=row.device, **row.inputs)
    return MemoryCheck(row, result, float(result.total if row.kind == "training_memory" else result.state))


def memory_checks(group: str = "") -> list[MemoryCheck]:
    """Every published memory figure, or those of one group, in the order of the data."""
    rows = [m for m in measurements().values() if m.kind in KINDS and group in ("", m.group)]
    return [memory_check(row) for row in rows]
