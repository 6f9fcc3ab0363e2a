"""Why so many replicas: their load, asked again with numbers that know where they come from."""

from dataclasses import dataclass, replace
from typing import Any

from mlsysim._numeric import sqrt
from mlsysim._numeric.traced import Made, called, made, plain
from mlsysim.capacity.batching import request_capacity
from mlsysim.capacity.queues import utilisation, waiting_share
from mlsysim.capacity.replicas import Replica
from mlsysim.capacity.routing import sharing
from mlsysim.capacity.solver import Load, _chain


@dataclass(frozen=True)
class _Known(Replica):
    """A replica with traced numbers, whose places have a reason too."""

    full: Any = None
    each: Any = None  # what a prompt adds to a step of 1, 2, … answers

    @property
    def capacity(self) -> Any:
        return self.full


def traced_replica(
    replica: Replica,
    prefill_time: Any,
    step: Any,
    steps: Any,
    variation: Any,
    slots: Any,
    shared: Any = 0.0,
    each: Any = None,
) -> _Known:
    """The replica with a traced prompt and step of its full batch; the steps of other batches follow from that one.

    ``shared`` are the steps that a prompt shares with answers, and ``each`` what it adds to those of 1, 2, … of them.
    """
    others = [made(t, "at_batch", {"x0": step, "x1": float(n)}) for n, t in enumerate(replica.step_times[:-1], 1)]
    full = request_capacity(slots, prefill_time, step, steps + shared).called("capacity of a replica")
    return _Known(
        prefill_time,
        steps,
        (*others, step),
        variation,
        replica.origins,
        replica.variation,
        prompt_steps=shared,
        full=full,
        each=each,
    )


def share_met(load: Load, r: _Known, rate: Any, replicas: Any, slots: Any, targets: dict[str, Any]) -> Any:
    """The share of the requests within the targets, or the utilisation without any, of a load whose replica has traced numbers.

    The states of the batches are one line: ``batch_full``, ``batch_mean`` and ``batch_variance`` of the birth-and-death chain
    whose throughput with n requests in the batches is that of the batch n / crowd, at most of the places (chapter 8).
    """
    before = f"with {plain(replicas)} replicas: " if replicas > 1 else "with one replica: "
    rho = utilisation(rate, (replicas * r.capacity).called(f"{before}capacity")).called(f"{before}utilisation")
    shared = sharing(load.routing, replicas, load.replica.variation)
    crowd = (rate * shared / replicas).called(f"{before}rate of a crowd") if replicas > 1 else rate
    throughputs = tuple(load.replica.throughput(n) for n in range(1, load.replica.max_running + 1))
    steps_of_all = made(load.replica.step_times, "each_batch", {"x0": r.step_times[-1]}).called("step of each batch")
    given = {"x0": r.prefill_time if r.each is None else r.each, "x1": steps_of_all, "x2": r.steps + r.prompt_steps}
    each = made(throughputs, "throughputs", given, unit="1/s").called("throughput of each batch")
    states = _chain(plain(crowd), load.replica, plain(shared))
    names = ("batch_full", "batch_mean", "batch_variance")
    full, mean, variance = (
        made(float(v), name, {"x0": crowd, "x1": each, "x2": shared}, unit="1").called(before + name.replace("_", " "))
        for v, name in zip(states[:3], names, strict=True)
    )
    delayed = waiting_share(full, rho).called(f"{before}no place free")
    beyond = (delayed * rho).called(f"{before}somebody waits")
    prompt = r.prefill_time
    if r.each is not None:
        found = {"x0": r.each, "x1": crowd, "x2": each, "x3": shared, "x4": beyond}
        prompt = made(float(load.prompt_time), "in_batches", found, unit="s").called(
            f"{before}what a prompt adds to its steps"
        )
    running = ((mean / shared * (1 - beyond) + slots * beyond) * replicas).called(f"{before}running")
    asked = replace(
        load, replica=r, rate=rate, replicas=replicas, blocking=full, utilisation=rho, delayed=delayed, running=running,
        batch_variance=variance / shared**2, prompt_time=prompt, ttft_target=targets.get("ttft"), itl_target=None,
    )  # fmt: skip
    met: Any = 1.0
    if load.ttft_target is not None:
        met = 1 - called(asked.late, f"{before}late")
    if load.itl_target is not None:
        each_one = (running / replicas - slots * beyond) / (1 - beyond)
        called_as = (
            "mean batch",
            "deviation of the batch",
            "busy with prompts",
            "variance of their work",
            "wait for prompts",
            "deviation of that wait",
        )
        numbers = (each_one, sqrt(asked.batch_variance), *asked._held_up)
        places = ("x1", "x2", "x5", "x6", "x7", "x8")
        held = {x: called(v, f"{before}{n}") for x, n, v in zip(places, called_as, numbers, strict=True)}
        given = {"x0": targets["itl"], "x3": slots, "x4": beyond, "x9": r.steps, "x10": load.replica.variation} | held
        met = (
            made(float(load.in_pace), "share_in_pace", given | {"x11": steps_of_all}, unit="1").called(
                f"{before}in pace"
            )
            * met
        )
    return called(met, f"{before}within the targets") if isinstance(met, Made) else rho
