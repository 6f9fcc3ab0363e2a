"""One word for one thing: the names of arguments, fields, options, columns and JSON keys, with their units.

The words of the whole library stand here, not the symbols of a single chapter. ``also`` lists what the same thing might be called:
a test refuses those names in signatures and options, so that nothing gets a second one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Word:
    """A name with its unit and what it means."""

    name: str
    unit: str
    meaning: str
    also: tuple[str, ...] = ()  # what it is not called here


_WORDS = (
    # What is asked of a server
    Word("input_len", "token", "tokens of a prompt", ("prompt", "prompt_len", "prompt_tokens", "in_len", "input_tokens", "isl")),
    Word("output_len", "token", "tokens of an answer", ("output", "output_tokens", "new_tokens", "out_len", "osl", "generated")),
    Word("cached_len", "token", "tokens of a sequence that are in the cache before a pass, or leading tokens of a prompt", ("past", "past_len", "prefix", "prefix_len", "prefix_tokens", "cached_tokens")),
    Word("context", "token", "tokens of a sequence that a step attends to, the new one included", ("context_len", "ctx", "ctx_len")),
    Word("new", "token", "tokens of a sequence that a pass works on"),
    Word("rate", "1/s", "requests that come per second", ("arrival_rate", "request_rate", "lam", "qps", "rps")),
    Word("requests", "1", "how many requests, or the requests themselves", ("n_requests", "num_requests")),
    Word("concurrency", "1", "requests that are worked on at a time", ("concurrent", "places", "in_flight")),
    Word("variation", "1", "standard deviation over mean", ("cv",)),
    # What a step works on
    Word("batch", "1", "sequences of a pass", ("batch_size", "bs")),
    Word("micro_batch", "1", "sequences of a micro-batch", ("microbatch", "micro_batch_size")),
    Word("micro_batches", "1", "micro-batches of a replica in a step", ("n_micro_batches", "num_micro_batches")),
    Word("global_batch", "1", "sequences of a training step over all devices", ("global_batch_size", "gbs")),
    Word("seq", "token", "tokens of a training sequence", ("sequence_length", "seq_len", "seqlen")),
    # How it is split
    Word("tp", "1", "tensor-parallel ranks", ("tp_size", "tp_degree")),
    Word("pp", "1", "pipeline stages", ("pp_size", "pp_degree", "n_stages")),
    Word("cp", "1", "context-parallel ranks", ("cp_size", "cp_degree")),
    Word("ep", "1", "expert-parallel ranks", ("ep_size", "ep_degree")),
    Word("dp", "1", "data-parallel ranks", ("dp_size", "dp_degree")),
    # On what
    Word("device", "", "an accelerator of the catalogue, or its name", ("gpu", "accelerator")),
    Word("devices", "1", "how many accelerators", ("gpus", "n_devices", "num_devices", "n_gpus")),
    Word("node", "", "a server of the catalogue with its network, or its name"),
    Word("nodes", "1", "how many servers", ("n_nodes", "num_nodes")),
    Word("ranks", "1", "devices that take part in a collective", ("world_size", "n_ranks")),
    Word("topology", "", "how ranks are wired, as in ring:8", ("topo",)),
    Word("network", "", "what gives a collective its time", ("interconnect",)),
    Word("bandwidth", "byte/s", "one way", ("bw",)),
    Word("memory_bandwidth", "byte/s", "of a device's memory", ("local_mem_bandwidth", "mem_bandwidth", "hbm_bandwidth")),
    Word("fusion", "", "whether operations are fused: auto, on or off", ("fuse",)),
    # Money
    Word("interest", "1", "per year, or per period", ("interest_rate",)),
    Word("rental_rate", "USD/s", "of a device", ("rental",)),
)  # fmt: skip
WORDS: Mapping[str, Word] = MappingProxyType({word.name: word for word in _WORDS})
INSTEAD: Mapping[str, str] = MappingProxyType({other: word.name for word in _WORDS for other in word.also})
