"""Drawings of things, made from the objects that the library computes with: what is drawn cannot contradict what is timed."""

from importlib import import_module
from typing import Any

_HOMES = {
    "all_to_all": "messages",
    "attention_heads": "models",
    "batch_in_time": "serving",
    "bytes_of_a_step": "answers",
    "conformal_range": "operations",
    "context_parallel": "splits",
    "continuous_batching": "serving",
    "counted_work": "schedules",
    "data_parallel": "splits",
    "disaggregated": "serving",
    "expert_parallel": "splits",
    "experts_on_ranks": "schedules",
    "failure_and_rework": "operations",
    "four_cuts": "schedules",
    "full_cache": "answers",
    "grid_of_ranks": "splits",
    "hidden_messages": "schedules",
    "hierarchical_all_reduce": "messages",
    "in_switch_all_reduce": "messages",
    "journey": "whole",
    "latent_cache": "models",
    "list_scheduling": "programs",
    "littles_area": "answers",
    "memory_levels": "devices",
    "message_life": "messages",
    "naive_generation": "answers",
    "one_query_many_keys": "answers",
    "one_request": "serving",
    "overlap": "splits",
    "paged_cache": "serving",
    "partners": "schedules",
    "path_of_a_dollar": "operations",
    "path_of_a_watt": "operations",
    "pipeline_1f1b": "splits",
    "pipeline_in_time": "splits",
    "pipeline_orders": "schedules",
    "pipeline_stages": "splits",
    "preemption": "answers",
    "prefix_tree": "serving",
    "program_to_time": "programs",
    "prompt_among_answers": "answers",
    "prompts_stop_answers": "answers",
    "queue_and_server": "serving",
    "ranks_on_nodes": "splits",
    "ring_all_reduce": "messages",
    "ring_attention": "schedules",
    "roofline_by_hand": "devices",
    "search_landscape": "operations",
    "sequence_parallel": "schedules",
    "slowest_of": "schedules",
    "speculation": "serving",
    "speculation_in_time": "answers",
    "states_chain": "answers",
    "step_contents": "serving",
    "systolic_frame": "programs",
    "systolic_wave": "programs",
    "tensor_parallel": "splits",
    "tiles_and_waves": "programs",
    "training_memory_bar": "memory",
    "transformer_block": "models",
    "tree_all_reduce": "messages",
    "two_batch_overlap": "programs",
    "who_is_met": "answers",
    "whole_step": "schedules",
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
