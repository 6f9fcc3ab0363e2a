"""Workloads: published traces in a few numbers, and published latency targets."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlsysim.catalog.display import Catalogue, ShownEntry
from mlsysim.catalog.sourced import Sourced, figures, shipped
from mlsysim.errors import named

_UNITS = {
    "trace": {
        "input_len": "1",
        "output_len": "1",
        "prompt_variation": "1",
        "output_variation": "1",
        "rate": "1/s",
        "arrival_variation": "1",
        "held": "1",
    },
    "target": {"ttft": "s", "itl": "s"},
}


@dataclass(frozen=True)
class Trace(ShownEntry):
    """Requests as a service saw them. Variations are standard deviations over means."""

    name: str
    note: str
    input_len: Sourced  # mean tokens of a prompt, and of an answer
    output_len: Sourced
    prompt_variation: Sourced
    output_variation: Sourced
    rate: Sourced  # 1/s
    arrival_variation: Sourced  # of the times between arrivals: 1 for a Poisson process
    held: Sourced  # mean tokens that a running sequence holds, over time, if all steps took equally long


@dataclass(frozen=True)
class Target(ShownEntry):
    """Latency targets that a share of the requests must meet."""

    name: str
    note: str
    ttft: Sourced  # s
    itl: Sourced  # s


@cache
def _entries() -> Mapping[str, Trace | Target]:
    return shipped(__package__, "workloads.toml", _entry)


def _entry(name: str, raw: Any, file: str) -> Trace | Target:
    make = Trace if raw["kind"] == "trace" else Target
    return make(name=name, note=raw["note"], **figures(raw, _UNITS[raw["kind"]], f"{file}: {name}", file))


def traces() -> Mapping[str, Trace]:
    """All traces by name.

    >>> sorted(traces())
    ['azure-code-2023', 'azure-conversation-2023']
    """
    return Catalogue("trace", {name: e for name, e in _entries().items() if isinstance(e, Trace)})


def targets() -> Mapping[str, Target]:
    """All latency targets by name.

    >>> targets()["mlperf-llama2-70b-interactive"].ttft.value
    0.45
    """
    return Catalogue("target", {name: e for name, e in _entries().items() if isinstance(e, Target)})


def trace(name: str) -> Trace:
    """The trace of that name."""
    return named("trace", name, traces())


def target(name: str) -> Target:
    """The latency target of that name."""
    return named("target", name, targets())
