"""Published measurements as typed data: what was measured, on what, under which conditions, and where it is printed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import Sourced, shipped, sourced
from mlsysim.errors import named
from mlsysim.evidence.metrics import signed_error
from mlsysim.results import Result

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

    @property
    def value(self) -> float:
        """The figure, in SI units."""
        return self.sourced.value


@dataclass(frozen=True)
class PrintedCheck(Result):
    """One printed figure beside ours; error = predicted/printed - 1."""

    measurement: Measurement
    predicted: float

    @property
    def printed(self) -> float:
        return self.measurement.value

    @property
    def error(self) -> float:
        return float(signed_error(self.predicted, self.printed))


@cache
def measurements() -> Mapping[str, Measurement]:
    """All shipped measurements, by name.

    >>> round(measurements()["gpt-fast-llama2-7b-bf16"].value, 1)
    104.9
    """
    return _load("measurements.toml")


@cache
def counts() -> Mapping[str, Measurement]:
    """All shipped counts (FLOPs, bytes, utilisations that others printed), by name.

    >>> counts()["gpt3-175b-training"].value
    3.14e+23
    """
    return _load("counts.toml")


@cache
def collectives() -> Mapping[str, Measurement]:
    """All shipped measurements of communication (bus bandwidths as printed by nccl-tests, times), by name.

    >>> collectives()["azure-a100-8g"].inputs["ranks"]
    8
    """
    return _load("collectives.toml")


@cache
def serving() -> Mapping[str, Measurement]:
    """All shipped latencies and rates of serving, by name.

    >>> serving()["gpt-fast-7b-tp8"].inputs["tp"]
    8
    """
    return _load("serving.toml")


@cache
def cache_budgets() -> Mapping[str, Measurement]:
    """All shipped figures of how much cache a server holds, by name.

    >>> round(cache_budgets()["vllm-opt13b-slots"].value)
    15700
    """
    return _load("budgets.toml")


@cache
def contexts() -> Mapping[str, Measurement]:
    """All shipped figures of models that forget: caches, states, and what they save, by name.

    >>> contexts()["vllm-qwen35-27b-block"].value
    784.0
    """
    return _load("contexts.toml")


@cache
def racks() -> Mapping[str, Measurement]:
    """All shipped single figures of caps, load swings and quick checkpoints, by name.

    >>> racks()["async-checkpoint-copies"].value
    6.3
    """
    return _load("racks.toml")


@cache
def beyond_language() -> Mapping[str, Measurement]:
    """All shipped counts, times and rates of vision, diffusion and recommendation, by name.

    >>> beyond_language()["flux-dev-h100-compiled"].value
    4.3
    """
    return _load("beyond.toml")


@cache
def posttrainings() -> Mapping[str, Measurement]:
    """All shipped figures of fine-tuning, reinforcement learning and storage, by name.

    >>> posttrainings()["peft-mt0-large"].value
    2359296.0
    """
    return _load("posttraining.toml")


@cache
def failures() -> Mapping[str, Measurement]:
    """All shipped figures of failures, restarts and checkpoints, by name.

    >>> failures()["llama3-unexpected"].value
    419.0
    """
    return _load("failures.toml")


@cache
def narrow() -> Mapping[str, Measurement]:
    """All shipped figures of numbers below 16 bits: bytes, casts, and what they make faster, by name.

    >>> narrow()["torchao-step-b200-mxfp8"].value
    1.2
    """
    return _load("narrow.toml")


def _load(file: str) -> Mapping[str, Measurement]:
    return shipped(__package__, file, _measurement)


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
    )


def measurement(name: str) -> Measurement:
    """The measurement of that name.

    >>> measurement("azure-a100-stream-copy").sourced.unit
    'byte/s'
    """
    return named("measurement", name, measurements())
