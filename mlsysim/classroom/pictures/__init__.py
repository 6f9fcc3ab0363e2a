"""Drawings of things, made from the objects that the library computes with: what is drawn cannot contradict what is timed."""

from importlib import import_module
from typing import Any

_HOMES = {
    "all_to_all": "messages",
    "attention_heads": "models",
    "batch_in_time": "serving",
    "checkpoint_behind": "lasting",
    "conformal_range": "operations",
    "context_parallel": "splits",
    "continuous_batching": "serving",
    "counted_causes": "lasting",
    "data_parallel": "splits",
    "disaggregated": "serving",
    "expert_parallel": "splits",
    "failure_and_rework": "operations",
    "failure_step_by_step": "lasting",
    "failures_add": "lasting",
    "gaps_between": "judging",
    "grid_of_ranks": "splits",
    "half_and_twice": "judging",
    "halving": "judging",
    "hierarchical_all_reduce": "messages",
    "honesty_ladder": "judging",
    "hours_paid": "burning",
    "in_switch_all_reduce": "messages",
    "journey": "whole",
    "latent_cache": "models",
    "leave_one_source_out": "judging",
    "list_scheduling": "programs",
    "machine_worn_off": "burning",
    "memory_levels": "devices",
    "message_life": "messages",
    "nested_boundaries": "burning",
    "one_cycle": "lasting",
    "one_request": "serving",
    "one_vote": "judging",
    "overlap": "splits",
    "own_or_rent_by_hand": "burning",
    "paged_cache": "serving",
    "path_of_a_dollar": "operations",
    "path_of_a_watt": "operations",
    "pipeline_1f1b": "splits",
    "pipeline_in_time": "splits",
    "pipeline_stages": "splits",
    "pooled_on_a_line": "judging",
    "prefix_tree": "serving",
    "program_to_time": "programs",
    "purchase_as_rate": "burning",
    "queue_and_server": "serving",
    "ranks_on_nodes": "splits",
    "ring_all_reduce": "messages",
    "roofline_by_hand": "devices",
    "search_landscape": "operations",
    "sources_and_range": "judging",
    "spare_nodes": "lasting",
    "speculation": "serving",
    "step_contents": "serving",
    "systolic_frame": "programs",
    "systolic_wave": "programs",
    "tensor_parallel": "splits",
    "tiles_and_waves": "programs",
    "training_memory_bar": "memory",
    "transformer_block": "models",
    "tree_all_reduce": "messages",
    "two_batch_overlap": "programs",
    "two_losses": "lasting",
    "two_waters": "burning",
    "winners_luck": "judging",
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
