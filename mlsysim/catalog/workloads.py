"""What servers are asked for: published traces in a few numbers, and published latency targets."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

from mlsysim._renamed import renamed
from mlsysim.catalog.sourced import Sourced, read_toml, sourced
from mlsysim.errors import unknown_name

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


@renamed(prompt="input_len", output="output_len")
@dataclass(frozen=True)
class Trace:
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
class Target:
    """Latency targets that a share of the requests must meet."""

    name: str
    note: str
    ttft: Sourced  # s
    itl: Sourced  # s


@cache
def _entries() -> dict[str, Trace | Target]:
    with as_file(files(__package__) / "workloads.toml") as path:
        found: dict[str, Trace | Target] = {}
        for name, raw in read_toml(path).items():
            fields = {
                field: sourced(raw[field], unit, f"{path.name}: {name}, {field}", path.name)
                for field, unit in _UNITS[raw["kind"]].items()
            }
            make = Trace if raw["kind"] == "trace" else Target
            found[name] = make(name=name, note=raw["note"], **fields)
        return found


def traces() -> dict[str, Trace]:
    """All traces by name.

    >>> sorted(traces())
    ['azure-code-2023', 'azure-conversation-2023']
    """
    return {name: e for name, e in _entries().items() if isinstance(e, Trace)}


def targets() -> dict[str, Target]:
    """All latency targets by name.

    >>> targets()["mlperf-llama2-70b-interactive"].ttft.value
    0.45
    """
    return {name: e for name, e in _entries().items() if isinstance(e, Target)}


def trace(name: str) -> Trace:
    """The trace of that name."""
    if name not in traces():
        raise unknown_name("trace", name, traces())
    return traces()[name]


def target(name: str) -> Target:
    """The latency target of that name."""
    if name not in targets():
        raise unknown_name("target", name, targets())
    return targets()[name]
