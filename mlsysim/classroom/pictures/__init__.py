"""Drawings of things, made from the objects that the library computes with: what is drawn cannot contradict what is timed."""

from importlib import import_module
from typing import Any

_HOMES = {
    "all_to_all": "messages",
    "attention_heads": "models",
    "batch_in_time": "serving",
    "blocks_in_memory": "batches",
    "climb_of_a_step": "steps",
    "conformal_range": "operations",
    "constant_or_slope": "batches",
    "context_parallel": "splits",
    "continuous_batching": "serving",
    "convoys": "batches",
    "data_parallel": "splits",
    "disaggregated": "serving",
    "expert_parallel": "splits",
    "experts_filling": "batches",
    "experts_read": "batches",
    "failure_and_rework": "operations",
    "first_in_a_mean": "steps",
    "grid_of_ranks": "splits",
    "hierarchical_all_reduce": "messages",
    "in_switch_all_reduce": "messages",
    "journey": "whole",
    "latent_cache": "models",
    "leave_one_run_out": "batches",
    "list_scheduling": "programs",
    "memory_levels": "devices",
    "message_life": "messages",
    "mixed_step": "steps",
    "one_or_many_maxima": "steps",
    "one_request": "serving",
    "overlap": "splits",
    "paged_cache": "serving",
    "pairs_of_a_chunk": "steps",
    "path_of_a_dollar": "operations",
    "path_of_a_watt": "operations",
    "pipeline_1f1b": "splits",
    "pipeline_in_time": "splits",
    "pipeline_stages": "splits",
    "preemption": "batches",
    "prefix_tree": "serving",
    "program_to_time": "programs",
    "queue_and_server": "serving",
    "ranks_on_nodes": "splits",
    "ring_all_reduce": "messages",
    "roofline_by_hand": "devices",
    "rows_in_tiles": "batches",
    "rows_of_a_step": "steps",
    "rule_to_verdict": "steps",
    "search_landscape": "operations",
    "server_memory_bar": "batches",
    "speculation": "serving",
    "step_contents": "serving",
    "steps_side_by_side": "steps",
    "systolic_frame": "programs",
    "systolic_wave": "programs",
    "tensor_parallel": "splits",
    "tiles_and_waves": "programs",
    "training_memory_bar": "memory",
    "transformer_block": "models",
    "tree_all_reduce": "messages",
    "two_batch_overlap": "programs",
    "two_largest": "batches",
    "where_to_measure": "batches",
    "wiring": "messages",
    "with_and_without_cache": "serving",
    "zero_stages": "memory",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
