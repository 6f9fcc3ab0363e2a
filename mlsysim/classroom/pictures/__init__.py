"""Drawings of things, made from the objects that the library computes with: what is drawn cannot contradict what is timed."""

from importlib import import_module
from typing import Any

_HOMES = {
    "all_to_all": "messages",
    "attention_heads": "models",
    "batch_in_time": "serving",
    "carried_rounding": "judging",
    "conformal_range": "operations",
    "context_parallel": "splits",
    "continuous_batching": "serving",
    "cut_through": "wires",
    "data_parallel": "splits",
    "disaggregated": "serving",
    "dragonfly_route": "wires",
    "errors_that_cancel": "judging",
    "expert_parallel": "splits",
    "failure_and_rework": "operations",
    "folds": "lowering",
    "fused_region": "lowering",
    "gathered_rows": "lowering",
    "grid_of_ranks": "splits",
    "held_weights": "lowering",
    "hierarchical_all_reduce": "messages",
    "in_and_out": "judging",
    "in_switch_all_reduce": "messages",
    "journey": "whole",
    "latent_cache": "models",
    "list_scheduling": "programs",
    "lost_on_the_way": "judging",
    "median_says": "judging",
    "memory_levels": "devices",
    "message_life": "messages",
    "moved_bytes": "lowering",
    "one_request": "serving",
    "overlap": "splits",
    "paged_cache": "serving",
    "path_of_a_dollar": "operations",
    "path_of_a_watt": "operations",
    "peak_too_high": "judging",
    "phases_in_time": "wires",
    "pipeline_1f1b": "splits",
    "pipeline_in_time": "splits",
    "pipeline_stages": "splits",
    "prefix_tree": "serving",
    "printed_time": "judging",
    "program_to_time": "programs",
    "queue_and_server": "serving",
    "ranks_on_nodes": "splits",
    "ring_all_reduce": "messages",
    "ring_distances": "wires",
    "roofline_by_hand": "devices",
    "search_landscape": "operations",
    "slower_decides": "lowering",
    "speculation": "serving",
    "step_contents": "serving",
    "streams_both_ways": "lowering",
    "systolic_frame": "programs",
    "systolic_wave": "programs",
    "taps_met": "lowering",
    "tensor_parallel": "splits",
    "tiles_and_waves": "programs",
    "training_memory_bar": "memory",
    "transformer_block": "models",
    "tree_all_reduce": "messages",
    "two_batch_overlap": "programs",
    "two_scales": "judging",
    "weights_wave": "lowering",
    "wiring": "messages",
    "wirings": "wires",
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
