"""Drawings of things, made from the objects that the library computes with: what is drawn cannot contradict what is timed."""

from importlib import import_module
from typing import Any

_HOMES = {
    "all_to_all": "messages",
    "attention_heads": "models",
    "batch_in_time": "serving",
    "binomial_tree": "messages",
    "causal_mask": "counts",
    "chunks_through_stages": "clocks",
    "conformal_range": "operations",
    "context_parallel": "splits",
    "continuous_batching": "serving",
    "data_parallel": "splits",
    "disaggregated": "serving",
    "expert_parallel": "splits",
    "failure_and_rework": "operations",
    "gather_ahead": "memory",
    "grid_of_ranks": "splits",
    "hierarchical_all_reduce": "messages",
    "in_switch_all_reduce": "messages",
    "journey": "whole",
    "kept_tensors": "memory",
    "latent_cache": "models",
    "launch_queue": "clocks",
    "list_scheduling": "programs",
    "memory_levels": "devices",
    "message_life": "messages",
    "one_request": "serving",
    "overlap": "splits",
    "paged_cache": "serving",
    "path_of_a_dollar": "operations",
    "path_of_a_watt": "operations",
    "pipeline_1f1b": "splits",
    "pipeline_in_time": "splits",
    "pipeline_stages": "splits",
    "prefix_tree": "serving",
    "program_to_time": "programs",
    "queue_and_server": "serving",
    "ranks_on_nodes": "splits",
    "ring_all_reduce": "messages",
    "roofline_by_hand": "devices",
    "routed_experts": "counts",
    "search_landscape": "operations",
    "speculation": "serving",
    "step_contents": "serving",
    "systolic_frame": "programs",
    "systolic_wave": "programs",
    "tensor_parallel": "splits",
    "three_products": "counts",
    "tiles_and_waves": "programs",
    "training_memory_bar": "memory",
    "transformer_block": "models",
    "tree_all_reduce": "messages",
    "two_batch_overlap": "programs",
    "two_clocks": "clocks",
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
