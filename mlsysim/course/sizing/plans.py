"""A plan for a training run where there is no NumPy: the ordinary plans one by one, with the solver that mlsysim.api calls.

``mlsysim.plan`` compares far more of them at once; what is left out here is said with the answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from mlsysim import intervals, training
from mlsysim.api.arguments import Defaults
from mlsysim.api.asked import networked
from mlsysim.catalog import Machines, Model
from mlsysim.errors import InputError
from mlsysim.parallelism import RECOMPUTES, Plan
from mlsysim.results import Result
from mlsysim.training import TrainingStep

MOST_PLANS = 4000
TIE = 1e-3  # of a step: plans closer than that are equally fast, and the one with the fewest ways to split comes first
LEFT_OUT = "Splits in powers of two; recomputation of all layers or none; no groups of shards; context parallelism of two at most, and none of a mixture, unless you give it."


@dataclass(frozen=True)
class Tried(Result):
    """The best of the plans that were tried, and how many there were."""

    plan: Plan
    step: TrainingStep
    tried: int
    fitting: int


def _powers(most: int) -> list[int]:
    return [2**k for k in range(most.bit_length()) if 2**k <= most]


def _chunks(model: Model, pp: int, micro_batches: int) -> list[int]:
    """Chunks of layers per stage, as the search of all plans has them, in powers of two."""
    if pp == 1 or micro_batches % pp:
        return [1]
    most = max(1, (model.n_layers + 2) // pp)
    return [v for v in (1, 2, 4, 8) if v == 1 or (v <= most and -model.n_layers % (pp * v) <= 2)]


def candidates(model: Model, machines: Machines, global_batch: int, given: Mapping[str, Any]) -> Iterator[Plan]:
    """Plans that use every device and that model and batch allow, the least recomputation first; what is given stays."""
    n, domain = machines.devices, max(1, machines.domain)

    def of(name: str, otherwise: list[Any]) -> list[Any]:
        return [given[name]] if name in given else otherwise

    splits = product(
        of("tp", _powers(min(domain, n, 64))),
        of("pp", _powers(min(64, model.n_layers, n))),
        of("cp", [1] if model.is_moe else [1, 2]),
    )
    for tp, pp, cp in splits:
        if n % (tp * pp * cp):
            continue
        dp = n // (tp * pp * cp)
        experts = _powers(min(model.n_experts, dp * cp)) if model.is_moe else [1]
        for ep, size in product(of("ep", experts), of("micro_batch", [1, 2, 4])):
            if global_batch % (dp * size):
                continue
            chunks = _chunks(model, pp, global_batch // (dp * size))
            ways = (of("virtual_stages", chunks), of("sharding", ["zero1", "fsdp"]), of("recompute", list(RECOMPUTES)))
            for virtual, sharding, recompute in product(*ways):
                degrees = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "ep": ep, "virtual_stages": virtual}
                plan = Plan(**degrees, micro_batch=size, sharding=sharding, recompute=recompute)
                try:
                    yield plan.check(model, n, global_batch)
                except InputError:
                    continue


def best(
    model: Model, machines: Machines, *, global_batch: int, seq: int, precision: str, given: Mapping[str, Any]
) -> Tried:
    """Of the plans that fit and that the error cannot tell from the fastest, the simplest, as ``mlsysim.plan`` recommends; else the smallest.

    Raises
    ------
    InputError
        No plan splits this model and batch over these devices.
    """
    found: list[tuple[float, float, TrainingStep]] = []
    tried, held = 0, set()
    for plan in candidates(model, machines, global_batch, given):
        split = replace(plan, recompute="none")
        if split in held:  # what fits with less recomputation is faster than with more
            continue
        tried += 1
        if tried > MOST_PLANS:
            raise InputError(f"more than {MOST_PLANS:,} plans; give tp, pp or the sharding, or use mlsysim.plan")
        step = training.training_step(model, plan, machines, global_batch=global_batch, seq=seq, precision=precision)
        found.append((float(step.time), float(step.memory.total), step))
        if step.memory.leaves_room:
            held.add(split)
    if not found:
        said = ", ".join(f"{n} = {v}" for n, v in given.items()) or "any split in powers of two"
        raise InputError(
            f"no plan with {said} splits {model.name} and {global_batch:,} sequences over {machines.devices:,} devices; "
            "give another number of devices or of sequences in a step, one that the devices divide"
        )
    fitting = [row for row in found if row[2].memory.leaves_room]
    if not fitting:
        step = min(found, key=lambda row: row[1])[2]
        return Tried(step.plan, step, tried, 0)
    first = min(fitting, key=lambda row: row[0])
    clear = first[2].interval().told_apart(intervals.checks("training_step").get("shared_plans", 0.0))
    near = [row for row in fitting if row[0] <= first[0] * max(1 + TIE, clear)]
    least = min(_ways(row[2].plan) for row in near)
    simple = [row for row in near if _ways(row[2].plan) == least]
    fastest = min(time for time, _, _ in simple)
    alike = [row for row in simple if row[0] <= fastest * (1 + TIE)]
    step = min(alike, key=lambda row: (_product(row[2].plan), row[1], row[0]))[2]
    return Tried(step.plan, step, tried, len(fitting))


def _ways(plan: Plan) -> int:
    return sum(d > 1 for d in (plan.tp, plan.pp, plan.cp, plan.ep))


def _product(plan: Plan) -> tuple[int, int]:
    return plan.tp * plan.pp * plan.cp * plan.ep, RECOMPUTES.index(plan.recompute)


def more_devices(
    model: Model, machines: Machines, *, global_batch: int, seq: int, precision: str, given: Mapping[str, Any]
) -> Machines | None:
    """The fewest machines, in doublings, on which a plan fits; None below 64 times as many."""
    for times in (2, 4, 8, 16, 32, 64):
        bigger = networked(replace(machines, count=times * machines.devices), Defaults())
        for plan in candidates(model, bigger, -(-global_batch // times) * times, given):
            memory = training.training_memory(
                model, plan, bigger.device, seq=seq, global_batch=-(-global_batch // times) * times
            )
            if memory.leaves_room:
                return bigger
    return None
