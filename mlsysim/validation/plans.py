"""Published training plans: how real jobs were split, and how long a step took where the source says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType

from mlsysim.catalog.sourced import Sourced, read_toml, sourced
from mlsysim.errors import InputError, unknown_name
from mlsysim.parallelism import Plan


@dataclass(frozen=True)
class PublishedPlan:
    """A plan as printed; ``devices`` is the source's own count, not the product of the degrees."""

    name: str
    model: str
    layers: int
    plan: Plan
    devices: Sourced
    global_batch: int
    seq: int
    published_step_time: Sourced | None = None

    @property
    def micro_batches(self) -> int:
        return int(self.plan.micro_batches(self.global_batch))

    @property
    def step_time(self) -> Sourced:
        if self.published_step_time is None:
            raise InputError(f"{self.name}: the source prints no step time for this plan; ask for another")
        return self.published_step_time


@cache
def published_plans() -> Mapping[str, PublishedPlan]:
    """All published plans, by name.

    >>> published_plans()["llama3-405b-16k"].micro_batches
    16
    """
    with as_file(files(__package__) / "plans.toml") as path:
        return MappingProxyType(
            {
                name: PublishedPlan(
                    name=name,
                    model=raw["model"],
                    layers=raw["layers"],
                    plan=Plan(**raw["degrees"]),
                    devices=sourced(raw["devices"], "1", f"{path.name}: {name}, devices", path.name),
                    global_batch=raw["global_batch"],
                    seq=raw["seq"],
                    published_step_time=sourced(raw["step_time"], "s", f"{path.name}: {name}, step_time", path.name)
                    if "step_time" in raw
                    else None,
                )
                for name, raw in read_toml(path).items()
            }
        )


def published_plan(name: str) -> PublishedPlan:
    """The published plan of that name."""
    if name not in published_plans():
        raise unknown_name("published plan", name, published_plans())
    return published_plans()[name]
