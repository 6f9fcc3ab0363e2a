"""Published memory figures beside what our equations give for the same run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim import memory
from mlsysim.catalog.sourced import Sourced, shipped, sourced
from mlsysim.errors import named
from mlsysim.evidence.measured.measurements import Check, Measurement
from mlsysim.evidence.metrics import signed_error
from mlsysim.memory import ServerMemory
from mlsysim.results import Result


def _checkpoint(_: Measurement, i: Mapping[str, Any]) -> float:
    return float(memory.checkpoint_bytes(**i))


def _training(row: Measurement, i: Mapping[str, Any]) -> Check:
    """A published peak, or the state alone; the inputs describe the run."""
    found = memory.training_memory(device=row.device, **i)
    return Check(row, float(found.total if row.kind == "training_memory" else found.state), row.value, prediction=found)


RULES = {"training_memory": _training, "model_state": _training, "checkpoint": _checkpoint}

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
