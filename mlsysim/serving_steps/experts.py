"""The closed forms of a layer of experts, which training uses too: those of :mod:`mlsysim.experts`."""

from mlsysim.experts import exchange_ratio as exchange_ratio
from mlsysim.experts import fullest_device as fullest_device
from mlsysim.experts import grouped_share as grouped_share
from mlsysim.experts import grouped_time as grouped_time
from mlsysim.experts import moe_crossover as moe_crossover
from mlsysim.experts import shared_expert_share as shared_expert_share
from mlsysim.experts import tokens_per_expert as tokens_per_expert
from mlsysim.experts import two_batch_time as two_batch_time
from mlsysim.experts import uneven_experts_hit as uneven_experts_hit

__all__ = [
    "exchange_ratio",
    "fullest_device",
    "grouped_share",
    "grouped_time",
    "moe_crossover",
    "shared_expert_share",
    "tokens_per_expert",
    "two_batch_time",
    "uneven_experts_hit",
]


def __dir__() -> list[str]:
    return __all__
