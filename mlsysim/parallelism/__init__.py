"""Splitting a model: which plan is possible, which link carries what, and what each kind of splitting costs.

A :class:`Plan` names the degrees and checks itself. :func:`placement` says which of its groups fit inside a scale-up
domain. Everything takes a float or an array (broadcasting) in SI units and returns the same; sizes are in bytes, and
times come from ``mlsysim.collectives``.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

# What shares its name with a module cannot come later: the module would stand in its place.
from mlsysim.parallelism.placement import Placement, TensorParallelCost, place, placement, tensor_parallel_cost

if TYPE_CHECKING:
    from mlsysim.parallelism.equations import (
        TP_PENALTY,
        bubble_fraction,
        bubble_ratio,
        causal_imbalance,
        cp_exchange_bytes,
        devices,
        dp_gradient_bytes,
        dualpipe_bubble,
        expert_replicas,
        fsdp_bytes,
        limited_nodes,
        micro_batches,
        penalised_step,
        pipeline_time,
        pp_transfer_bytes,
        scaling_efficiency,
        split_backward_bubble,
        tp_allreduce_bytes,
        tp_volume,
        ulysses_bytes,
        v_shape_bubble,
    )
    from mlsysim.parallelism.plan import (
        AXES,
        CP_BALANCES,
        CP_COMM_TYPES,
        OFFLOADS,
        RECOMPUTES,
        SCHEDULES,
        SHARDINGS,
        Plan,
    )

__all__ = [
    "AXES",
    "CP_BALANCES",
    "CP_COMM_TYPES",
    "OFFLOADS",
    "RECOMPUTES",
    "SCHEDULES",
    "SHARDINGS",
    "TP_PENALTY",
    "Placement",
    "Plan",
    "TensorParallelCost",
    "bubble_fraction",
    "bubble_ratio",
    "causal_imbalance",
    "cp_exchange_bytes",
    "devices",
    "dp_gradient_bytes",
    "dualpipe_bubble",
    "expert_replicas",
    "fsdp_bytes",
    "limited_nodes",
    "micro_batches",
    "penalised_step",
    "pipeline_time",
    "place",
    "placement",
    "pp_transfer_bytes",
    "scaling_efficiency",
    "split_backward_bubble",
    "tensor_parallel_cost",
    "tp_allreduce_bytes",
    "tp_volume",
    "ulysses_bytes",
    "v_shape_bubble",
]
__getattr__, __dir__ = lazily(__name__)
