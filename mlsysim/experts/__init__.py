"""A mixture-of-experts layer, in training and serving: rows per expert, and the time of its products and messages."""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.experts.equations import (
        exchange_ratio,
        grouped_share,
        grouped_time,
        moe_crossover,
        shared_expert_share,
        tokens_per_expert,
        two_batch_time,
    )
    from mlsysim.experts.popular import fullest_device, uneven_experts_hit

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
__getattr__, __dir__ = lazily(__name__)
