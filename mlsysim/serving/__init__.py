"""A server, request by request: continuous batching, chunked prefill, paged cache, preemption and queues.

:func:`simulate` plays requests on a step model; what :mod:`mlsysim.capacity` takes for granted, it does.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

# What shares its name with a module cannot come later: the module would stand in its place.
from mlsysim.serving.saturation import Saturation, saturation

if TYPE_CHECKING:
    from mlsysim.memory.server import activation_reserve
    from mlsysim.serving.arrivals import constant, gamma, lengths, load, poisson
    from mlsysim.serving.closed import (
        ADAPTER,
        REQUESTS_PER_USER,
        SLOW_BLOCKS,
        SPREAD,
        Loop,
        Pool,
        ServerOverheads,
        answers,
        closed_loop,
        drawn,
        in_blocks,
        served,
        server_constants,
        ttft_constants,
    )
    from mlsysim.serving.config import Config, Limits, StepTimes, device_memory, limits
    from mlsysim.serving.equations import (
        overload_wait,
        prompt_computed,
        prompt_steps,
        sample_quantile,
        saturation_rate,
        turned_away,
    )
    from mlsysim.serving.fleet.simulator import ROUTING, simulate
    from mlsysim.serving.loops import disorder, loop_rate, pools_rate, queue_wait, run_wait, shared_itl
    from mlsysim.serving.requests import Request, number, read_trace, rows
    from mlsysim.serving.simulation import METRICS, Record, Simulation, Step, quantile, summarise

__all__ = [
    "ADAPTER",
    "METRICS",
    "REQUESTS_PER_USER",
    "ROUTING",
    "SLOW_BLOCKS",
    "SPREAD",
    "Config",
    "Limits",
    "Loop",
    "Pool",
    "Record",
    "Request",
    "Saturation",
    "ServerOverheads",
    "Simulation",
    "Step",
    "StepTimes",
    "activation_reserve",
    "answers",
    "closed_loop",
    "constant",
    "device_memory",
    "disorder",
    "drawn",
    "gamma",
    "in_blocks",
    "lengths",
    "limits",
    "load",
    "loop_rate",
    "number",
    "overload_wait",
    "poisson",
    "pools_rate",
    "prompt_computed",
    "prompt_steps",
    "quantile",
    "queue_wait",
    "read_trace",
    "rows",
    "run_wait",
    "sample_quantile",
    "saturation",
    "saturation_rate",
    "served",
    "server_constants",
    "shared_itl",
    "simulate",
    "summarise",
    "ttft_constants",
    "turned_away",
]
__getattr__, __dir__ = lazily(__name__)
