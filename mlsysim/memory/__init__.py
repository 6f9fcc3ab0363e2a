"""Memory: model state and its sharding, activations, key-value cache, checkpoints, and whether it all fits."""

from mlsysim.memory.activations import (
    LOGIT_BYTES,
    activation_memory,
    activation_memory_full,
    activation_memory_matmuls,
    activation_memory_pipeline,
    activation_memory_selective,
    activation_memory_sp,
    activation_memory_tp,
    block_activations,
    output_activations,
)
from mlsysim.memory.cache import kv_cache, kv_cache_mla, kv_cache_paged, kv_cache_window
from mlsysim.memory.fit import (
    GATHERED,
    LEFT_OUT,
    RECOMPUTE,
    SHARDINGS,
    ModelState,
    TrainingMemory,
    keeps_gathered,
    kv_cache_of,
    model_state_memory,
    peak_memory,
    training_memory,
)
from mlsysim.memory.states import (
    RECIPES,
    Recipe,
    checkpoint_bytes,
    gathered_units,
    hsdp,
    recipe,
    training_state,
    zero_1,
    zero_2,
    zero_3,
)

__all__ = [
    "GATHERED",
    "LEFT_OUT",
    "LOGIT_BYTES",
    "RECIPES",
    "RECOMPUTE",
    "SHARDINGS",
    "ModelState",
    "Recipe",
    "TrainingMemory",
    "activation_memory",
    "activation_memory_full",
    "activation_memory_matmuls",
    "activation_memory_pipeline",
    "activation_memory_selective",
    "activation_memory_sp",
    "activation_memory_tp",
    "block_activations",
    "checkpoint_bytes",
    "gathered_units",
    "hsdp",
    "keeps_gathered",
    "kv_cache",
    "kv_cache_mla",
    "kv_cache_of",
    "kv_cache_paged",
    "kv_cache_window",
    "model_state_memory",
    "output_activations",
    "peak_memory",
    "recipe",
    "training_memory",
    "training_state",
    "zero_1",
    "zero_2",
    "zero_3",
]


def __dir__() -> list[str]:
    return __all__
