"""Published plans among all the plans that could have been: searched with the techniques of their time, and with all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlsysim import catalog, explore
from mlsysim.evidence.measured.plans import PublishedPlan, published_plan
from mlsysim.explore import Columns, PlanSearch
from mlsysim.parallelism import RECOMPUTES, SHARDINGS, Plan
from mlsysim.results import Result
from mlsysim.training import Efficiencies

_LAYERS_PER_CHUNK = 2  # where a source says nothing of its schedule, as in the predictor of training steps
_SIMPLER = {"none": ("none",), "zero1": ("none", "zero1")}  # ways to shard that a job's software had; otherwise all


@dataclass(frozen=True)
class Searched(Result):
    """A published plan, every plan for its job, and those that its own software could have run."""

    row: PublishedPlan
    plan: Plan  # with an assumed number of chunks where the source states none
    everything: PlanSearch
    alike: PlanSearch


def assumed_plan(row: PublishedPlan) -> Plan:
    """The plan as printed; chunks of two layers where the schedule is not stated and the micro-batches allow it."""
    p = row.plan
    if row.schedule_stated or p.pp == 1 or row.micro_batches % p.pp:
        return p
    return replace(p, virtual_stages=max(1, -(-row.layers // p.pp) // _LAYERS_PER_CHUNK))


def search_published(
    name: str, efficiencies: Efficiencies | str, micro_batches: Sequence[int] = (1, 2, 4, 8)
) -> Searched:
    """Search the plans of a published job on its own cluster.

    Alike are plans without context parallelism unless the job had it, with tensor parallelism inside a scale-up domain,
    recomputation as published where the job ran all of it again (it knew no better), and no newer sharding. All may fill the memory, as
    the published plan did.

    >>> found = search_published("megatron-1t", "calibrated")
    >>> found.alike.rank(found.plan)[0] < found.everything.rank(found.plan)[0]
    True
    """
    row = published_plan(name)
    plan = assumed_plan(row)
    everything = explore.plan(
        row.shape,
        catalog.cluster(row.node, plan.devices // row.node.devices),
        global_batch=row.global_batch,
        seq=row.seq,
        precision=row.precision,
        efficiencies=efficiencies,
        micro_batch=micro_batches,
        sharding=SHARDINGS,
        capacity=row.node.device.usable_memory,
        sequence_parallel=plan.sequence_parallel,
    )
    shardings = _SIMPLER.get(plan.sharding, SHARDINGS)
    recomputes = ("full",) if plan.recompute == "full" else RECOMPUTES

    def alike(c: Columns) -> Any:
        known = sum(c["sharding"] == s for s in shardings) * sum(c["recompute"] == r for r in recomputes)
        return (known > 0) & (c["tp"] <= row.node.domain) & ((c["cp"] == 1) | (plan.cp > 1))

    return Searched(row, plan, everything, everything.where(alike))
