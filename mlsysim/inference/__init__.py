"""Serving a transformer: the prompt pass, the decode step, and the closed forms of what servers add.

:func:`deploy` puts a model on devices; :func:`prefill`, :func:`decode_step` and :func:`generate` say how long it takes.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.inference.context import (
        chunk_work,
        compressed_reading,
        context_crossover,
        context_reading,
        context_work,
        hybrid_gain,
    )
    from mlsysim.inference.counting import work_of
    from mlsysim.inference.deployment import FORMATS, Deployment, deploy, format_bytes
    from mlsysim.inference.equations import (
        cache_readings,
        decode_batch_crossover,
        decode_bytes,
        experts_hit,
        host_overhead,
        inter_token_latency,
        layer_starts,
        prefill_flops,
        quantised_bits,
        request_latency,
        switched_all_reduce,
        time_to_first_token,
        unpack_time,
    )
    from mlsysim.inference.shares import efficiencies_of
    from mlsysim.inference.solver import Generation, Pass, decode_step, generate, prefill
    from mlsysim.inference.techniques import (
        chunked_prefill_bytes,
        fading_tokens,
        kv_transfer_time,
        prefill_replicas,
        speculative_speedup,
        speculative_tokens,
    )
    from mlsysim.inference.work import BOUND, Efficiencies, Machine, Split, Terms, Work, pass_cost

__all__ = [
    "BOUND",
    "FORMATS",
    "Deployment",
    "Efficiencies",
    "Generation",
    "Machine",
    "Pass",
    "Split",
    "Terms",
    "Work",
    "cache_readings",
    "chunk_work",
    "chunked_prefill_bytes",
    "compressed_reading",
    "context_crossover",
    "context_reading",
    "context_work",
    "decode_batch_crossover",
    "decode_bytes",
    "decode_step",
    "deploy",
    "efficiencies_of",
    "experts_hit",
    "fading_tokens",
    "format_bytes",
    "generate",
    "host_overhead",
    "hybrid_gain",
    "inter_token_latency",
    "kv_transfer_time",
    "layer_starts",
    "pass_cost",
    "prefill",
    "prefill_flops",
    "prefill_replicas",
    "quantised_bits",
    "request_latency",
    "speculative_speedup",
    "speculative_tokens",
    "switched_all_reduce",
    "time_to_first_token",
    "unpack_time",
    "work_of",
]
__getattr__, __dir__ = lazily(__name__)
