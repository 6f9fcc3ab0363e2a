"""Published measurements as typed data, and the record of one beside ours: what was measured, on what, under which conditions, and where it is printed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import Sourced, shipped, sourced
from mlsysim.errors import named
from mlsysim.evidence.metrics import signed_error
from mlsysim.results import Result

# The files of rows, and what stands in each.
TABLES: Mapping[str, str] = MappingProxyType(
    {
        "measurements": "products, streams, attention, decode steps, and memory of training",
        "counts": "FLOPs, bytes and utilisations that others printed",
        "collectives": "communication: bus bandwidths as printed by nccl-tests, times",
        "serving": "latencies and rates of serving",
        "service": "whole services of large mixtures",
        "budgets": "how much cache a server holds",
        "contexts": "models that forget: caches, states, and what they save",
        "failures": "failures, restarts and checkpoints",
        "racks": "caps, load swings and quick checkpoints",
        "posttraining": "fine-tuning, reinforcement learning and storage",
        "narrow": "numbers below 16 bits: bytes, casts, and what they make faster",
        "other_workloads": "counts, times and rates of vision, diffusion and recommendation",
    }
)
_UNITS = {
    "time": "s",
    "flop_rate": "FLOP/s",
    "bandwidth": "byte/s",
    "token_rate": "token/s",
    "power": "W",
    "flops": "FLOP",
    "bytes": "byte",
    "share": "1",
    "count": "1",
    "rate": "1/s",
}


@dataclass(frozen=True)
class Measurement(Result):
    """One published figure; ``inputs`` are the numbers that describe the work."""

    name: str
    kind: str
    group: str
    device: str
    precision: str
    quantity: str
    inputs: Mapping[str, Any]
    conditions: str
    sourced: Sourced  # the figure with where it was read
    table: str = "measurements"  # of TABLES

    @property
    def value(self) -> float:
        """The figure, in SI units."""
        return self.sourced.value


@dataclass(frozen=True)
class Check(Result):
    """A published figure beside ours, both in the unit of the prediction; errors are predicted over measured less 1."""

    measurement: Any  # a Measurement, or a point of a front
    predicted: float
    measured: float
    others: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))  # more that is said of the row
    prediction: Any = None  # the result that the prediction is read from, where a solver gave one

    @property
    def error(self) -> float:
        return float(signed_error(self.predicted, self.measured))

    def error_of(self, other: str) -> float:
        """The error of one of the other predictions."""
        return float(signed_error(self.others[other], self.measured))

    @property
    def reached(self) -> float:
        """Share of the bound that was reached, where the prediction is one; of a count, printed over counted."""
        ratio = self.measured / self.predicted
        return 1.0 / ratio if self.measurement.quantity == "time" else ratio


@cache
def measurements(table: str = "measurements") -> Mapping[str, Measurement]:
    """The shipped measurements of a table, by name.

    Parameters
    ----------
    table : str, optional
        A file of rows: measurements, counts, collectives, serving, service, budgets, contexts, failures, racks,
        posttraining, narrow or beyond.

    >>> round(measurements()["gpt-fast-llama2-7b-bf16"].value, 1), measurements("counts")["gpt3-175b-training"].value
    (104.9, 3.14e+23)
    """
    named("table", table, TABLES)
    return shipped(__package__, f"{table}.toml", _measurement)


def _measurement(name: str, raw: Mapping[str, Any], file: str) -> Measurement:
    quantity = raw["quantity"]
    return Measurement(
        name=name,
        kind=raw["kind"],
        group=raw["group"],
        device=raw.get("device", ""),
        precision=raw.get("precision", ""),
        quantity=quantity,
        inputs=MappingProxyType(raw.get("inputs", {})),
        conditions=raw["conditions"],
        sourced=sourced(raw["value"], _UNITS[quantity], f"{file}: {name}", file),
        table=file.removesuffix(".toml"),
    )


@cache
def _everything() -> Mapping[str, Measurement]:
    return MappingProxyType({name: row for table in TABLES for name, row in measurements(table).items()})


def measurement(name: str) -> Measurement:
    """The measurement of that name, of whichever table.

    >>> measurement("azure-a100-stream-copy").sourced.unit
    'byte/s'
    """
    return named("measurement", name, _everything())
