"""Serving capacity: how many sequences fit, how many requests a batch completes, how long they wait, how many replicas.

:func:`replica_of` makes a deployment a :class:`Replica`; :func:`load`, :func:`replicas_needed` and :func:`max_rate` put it
under requests. ``ASSUMPTIONS`` says what these closed forms take for granted and what a request simulator replaces.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.capacity.batching import goodput, knee_batch, loaded_itl, request_capacity
    from mlsysim.capacity.budget import concurrency, held_tokens, kv_budget
    from mlsysim.capacity.mmc import Queue, queue
    from mlsysim.capacity.pace import answer_spread, answer_time, in_time
    from mlsysim.capacity.queues import erlang_b, erlang_b_step, erlang_c, little, utilisation, waiting_share
    from mlsysim.capacity.replicas import (
        USABLE,
        Concurrency,
        Curve,
        Replica,
        replica,
        replica_of,
        sequences,
        serving_curve,
    )
    from mlsysim.capacity.routing import ROUTING
    from mlsysim.capacity.solver import ASSUMPTIONS, Load, load, max_rate, replicas_needed
    from mlsysim.capacity.waiting import (
        dealt_share,
        dealt_wait,
        general_wait,
        mean_wait,
        mg1_wait,
        wait_quantile,
        wait_tail,
    )

__all__ = [
    "ASSUMPTIONS",
    "ROUTING",
    "USABLE",
    "Concurrency",
    "Curve",
    "Load",
    "Queue",
    "Replica",
    "answer_spread",
    "answer_time",
    "concurrency",
    "dealt_share",
    "dealt_wait",
    "erlang_b",
    "erlang_b_step",
    "erlang_c",
    "general_wait",
    "goodput",
    "held_tokens",
    "in_time",
    "knee_batch",
    "kv_budget",
    "little",
    "load",
    "loaded_itl",
    "max_rate",
    "mean_wait",
    "mg1_wait",
    "queue",
    "replica",
    "replica_of",
    "replicas_needed",
    "request_capacity",
    "sequences",
    "serving_curve",
    "utilisation",
    "wait_quantile",
    "wait_tail",
    "waiting_share",
]
__getattr__, __dir__ = lazily(__name__)
