"""What ASTRA-sim printed for collectives and for whole training steps, as typed data, and what the network model makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from mlsysim import hlo, network
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.hlo.fusing.items import Collective
from mlsysim.network import astrasim
from mlsysim.results import Result

A100 = ("switch:8", 300 * astrasim.GB, 1e-6, "ring", 1, 1, 1e-9, 1555.2e9, "localBWAware", "unaware", "astrasim")


def _numbers(text: str) -> list[float]:
    return [float(x) for x in text.split(",")]


@dataclass(frozen=True)
class CollectiveRow(Result):
    """One run of a single collective. ``text`` holds its columns, in the order that the data file names."""

    text: str

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.text.split())

    @property
    def printed(self) -> int:
        """ns, as ASTRA-sim printed it."""
        return int(self.columns[-1])

    @property
    def ours(self) -> int:
        """ns, by :func:`mlsysim.network.astrasim.collective_time`."""
        backend, op, size, topology, names, rates, waits, splits, active, endpoint, optimization, memory, _ = (
            self.columns
        )
        found = astrasim.collective_time(
            op,
            int(size),
            topology,
            names.split(","),
            _numbers(rates),
            _numbers(waits),
            int(splits),
            int(active),
            int(endpoint),
            float(memory),
            optimization,
            backend,
        )
        return round(1e9 * found.time)


@dataclass(frozen=True)
class StepRow(Result):
    """One run of a training step: (compute time in ns or None, bytes of an all-reduce or None, what it waits for) per region."""

    program: str
    split: str
    printed: int  # ns
    regions: tuple[tuple[int | None, int | None, tuple[int, ...]], ...]

    @property
    def ours(self) -> int:
        """ns, by the list scheduler and :class:`mlsysim.hlo.Fabric`."""
        return round(self.schedule().time)

    def schedule(self) -> network.StreamSchedule:
        """When every region runs; its clock counts ns."""
        fabric = hlo.Fabric(*A100)
        tasks = []
        for i, (compute, size, after) in enumerate(self.regions):
            waits_for = tuple(map(str, after))
            if size is None:
                tasks.append(network.Task(str(i), "compute", compute or 0, waits_for))
            else:
                sent = Collective("all_reduce", (), (), size, size, (tuple(range(8)),), 8)
                tasks.append(network.Task(str(i), "communication", round(1e9 * fabric(sent)), waits_for))
        return network.schedule(tasks)


@dataclass(frozen=True)
class Compared(Result):
    """The sample that ships, and how many of all runs agree: (equal to the nanosecond, compared)."""

    counts: Mapping[str, tuple[int, int]]
    collectives: tuple[CollectiveRow, ...]
    steps: tuple[StepRow, ...]


@cache
def compared() -> Compared:
    """The shipped comparison.

    >>> step = compared().steps[0]
    >>> step.printed, step.ours
    (340127, 340127)
    """
    data = shipped_toml(__package__, "astrasim.toml")
    return Compared(
        counts=MappingProxyType({name: (equal, of) for name, (equal, of) in data["counts"].items()}),
        collectives=tuple(map(CollectiveRow, data["single"]["rows"])),
        steps=tuple(
            StepRow(
                s["program"],
                s["split"],
                s["wall_ns"],
                tuple((r.get("compute_ns"), r.get("bytes"), tuple(r["after"])) for r in s["regions"]),
            )
            for s in data["step"]
        ),
    )
