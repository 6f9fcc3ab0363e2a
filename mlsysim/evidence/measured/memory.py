"""Published memory figures beside what our equations give for the same run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim import memory
from mlsysim.errors import named
from mlsysim.evidence.measured.measurements import Check, Measurement
from mlsysim.evidence.metrics import signed_error
from mlsysim.evidence.rows import row_table
from mlsysim.memory import ServerMemory
from mlsysim.results import Result


def _checkpoint(_: Measurement, i: Mapping[str, Any]) -> float:
    return float(memory.checkpoint_bytes(**i))


def _training(row: Measurement, i: Mapping[str, Any]) -> Check:
    """A published peak, or the state alone; the inputs describe the run."""
    found = memory.training_memory(device=row.device, **i)
    return Check(row, float(found.total if row.kind == "training_memory" else found.state), row.value, prediction=found)


RULES = {"training_memory": _training, "model_state": _training, "checkpoint": _checkpoint}

# What a log prints, by what our answer calls it.
_LOGGED = {
    "weights_bytes": "weights_bytes",
    "activation_bytes": "peak_activation_bytes",
    "non_torch_bytes": "non_torch_bytes",
    "kv_pool_bytes": "kv_cache_bytes",
    "kv_tokens": "kv_cache_tokens",
}


@dataclass(frozen=True)
class ServerStart(Result):
    """What a server's start-up log says that it holds, with the options it was started with."""

    name: str  # of one of each kind of model; empty for the others
    model: str
    device: str
    options: Mapping[str, Any]
    logged: Mapping[str, float]  # bytes, and tokens, as the table of rows calls them
    where: str

    @property
    def prediction(self) -> ServerMemory:
        """Ours, with the same options."""
        return memory.server_memory(self.model, self.device, **self.options)

    @property
    def errors(self) -> Mapping[str, float]:
        """Ours over the log's, less one, by component."""
        found = self.prediction.to_dict()
        return {name: float(signed_error(found[name], self.logged[column])) for name, column in _LOGGED.items()}


def _start(row: Mapping[str, Any]) -> ServerStart:
    options = {
        "engine_version": row["vllm_version"],
        "tp": int(row["tp"]),
        "pp": int(row["pp"]),
        "weights": "fp8" if row["quantization"] == "fp8" else None,
        "dtype": "bf16" if row["dtype"] == "auto" else row["dtype"],
        "kv": row["kv_cache_dtype"],
        "max_num_batched_tokens": int(row["max_num_batched_tokens"] or 8192),
        "max_num_seqs": int(row["max_num_seqs"] or 1024),
        "gpu_memory_utilization": row["gpu_memory_utilization"],
    }
    logged = {k: v for k, v in row.items() if k in _LOGGED.values() or k in ("cuda_graph_bytes", "requested_bytes")}
    return ServerStart(
        row["name"] or "",
        row["model"],
        row["device"],
        MappingProxyType(options),
        MappingProxyType(logged),
        row["where"],
    )


@cache
def all_starts() -> tuple[ServerStart, ...]:
    """Every start-up log of the rows."""
    return tuple(_start(row) for row in row_table("server_starts"))


def server_starts() -> Mapping[str, ServerStart]:
    """One start-up log of each kind of model, by name.

    >>> round(server_starts()["llama-8b"].logged["weights_bytes"] / 2**30, 2)
    14.99
    """
    return MappingProxyType({s.name: s for s in all_starts() if s.name})


def server_start(name: str) -> ServerStart:
    """The start-up log of that name."""
    return named("server start", name, server_starts())
