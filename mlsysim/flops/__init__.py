"""Counting the work of a transformer: exact FLOPs per token, and the conventions in which others print them.

Everything is per token unless it says otherwise. A convention (full or causal attention) is an argument without a
default wherever it changes what a published figure means.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.flops.conventions import CONVENTIONS, Convention, counted_flops, megatron_flops
    from mlsysim.flops.tokens import (
        RECOMPUTE,
        TokenFlops,
        active_parameters,
        forward_flops,
        layer_matmul_parameters,
        matmul_parameters,
        training_flops_per_token,
    )
    from mlsysim.flops.work import (
        attention_context,
        attention_core_flops,
        forward_matmul_flops,
        lora_flops,
        matmul_flops_per_token,
        recompute_flops,
        total_flops,
        train_flops_per_token,
    )

__all__ = [
    "CONVENTIONS",
    "RECOMPUTE",
    "Convention",
    "TokenFlops",
    "active_parameters",
    "attention_context",
    "attention_core_flops",
    "counted_flops",
    "forward_flops",
    "forward_matmul_flops",
    "layer_matmul_parameters",
    "lora_flops",
    "matmul_flops_per_token",
    "matmul_parameters",
    "megatron_flops",
    "recompute_flops",
    "total_flops",
    "train_flops_per_token",
    "training_flops_per_token",
]
__getattr__, __dir__ = lazily(__name__)
