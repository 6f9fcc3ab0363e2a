"""Published memory figures beside what our equations give for the same run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim import memory
from mlsysim.catalog.sourced import Sourced, shipped, sourced
from mlsysim.errors import InputError, named
from mlsysim.evidence.measured.measurements import Measurement, measurement, measurements
from mlsysim.evidence.metrics import signed_error
from mlsysim.memory import ServerMemory, TrainingMemory
from mlsysim.results import Result

KINDS = ("training_memory", "model_state", "checkpoint")


@dataclass(frozen=True)
class MemoryCheck(Result):
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


_LOGGED = {
    "weights_bytes": "byte",
    "activation_bytes": "byte",
    "non_torch_bytes": "byte",
    "kv_pool_bytes": "byte",
    "kv_tokens": "1",
}


@dataclass(frozen=True)
class ServerStart(Result):
    """What a server's start-up log says that it holds, with the options it was started with."""

    name: str
    model: str
    device: str
    options: Mapping[str, Any]
    logged: Mapping[str, Sourced]

    @property
    def prediction(self) -> ServerMemory:
        """Ours, with the same options."""
        return memory.server_memory(
            self.model, self.device, max_num_batched_tokens=8192, max_num_seqs=1024, **self.options
        )

    @property
    def errors(self) -> Mapping[str, float]:
        """Ours over the log's, less one, by component."""
        found = self.prediction.to_dict()
        return {name: float(signed_error(found[name], figure.value)) for name, figure in self.logged.items()}


def _start(name: str, raw: Any, file: str) -> ServerStart:
    fixed = ("model", "device")
    logged = {k: sourced(raw[k], unit, f"{file}: {name}, {k}", file) for k, unit in _LOGGED.items()}
    options = {k: v for k, v in raw.items() if k not in (*fixed, *_LOGGED)}
    return ServerStart(name, raw["model"], raw["device"], MappingProxyType(options), MappingProxyType(logged))


@cache
def server_starts() -> Mapping[str, ServerStart]:
    """All shipped start-up logs, by name.

    >>> round(server_starts()["llama-8b"].logged["weights_bytes"].value / 2**30, 2)
    14.99
    """
    return shipped(__package__, "server_starts.toml", _start)


def server_start(name: str) -> ServerStart:
    """The start-up log of that name."""
    return named("server start", name, server_starts())
