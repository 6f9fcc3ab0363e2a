"""Throughput of a saturated server in closed form, to compare with a simulation."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlsysim.errors import InputError
from mlsysim.results import Explanation, Input, Result, Term, format_rows, format_value
from mlsysim.serving.config import Config, Limits, StepTimes, limits
from mlsysim.serving.equations import overload_wait, prompt_computed, prompt_steps, saturation_rate
from mlsysim.serving.requests import MAX_TOKENS, Request
from mlsysim.serving.scheduler import seen
from mlsysim.serving_steps import Batch

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

_UNSEEN = 2 * MAX_TOKENS  # a window that no sequence outgrows


@dataclass(frozen=True)
class Saturation(Result):
    """A load beside the rate at which servers that are full of it complete requests."""

    offered: float  # 1/s, between the first arrival and the last; infinite when all come at once
    capacity: float  # 1/s, of all replicas (eq-saturation-rate)
    running: float  # sequences that decode in the mean step of one replica
    step_time: float  # s

    @property
    def growth(self) -> float:
        """Seconds by which the wait grows in each second of this load (eq-overload-wait)."""
        return math.inf if math.isinf(self.offered) else float(overload_wait(self.offered, self.capacity, 1.0))

    def summary(self) -> list[str]:
        offered = (
            "all requests come at once" if math.isinf(self.offered) else f"{self.offered:.4g} requests/s are offered"
        )
        grows = f"TOO MANY: the wait grows by {self.growth:.3g} s in every second that they come"
        return format_rows(
            f"full servers complete about {self.capacity:.4g} requests/s; {offered}",
            ("verdict", "" if math.isinf(self.offered) else grows if self.growth > 0 else "the load can be carried"),
            ("full server", f"{self.running:.3g} sequences decode in a step of {format_value(self.step_time, 's')}"),
        )

    def chart(self) -> "Drawing | None":
        """What is offered beside what full servers complete."""
        from mlsysim.drawing import shapes

        offered = {} if math.isinf(self.offered) else {"offered": self.offered}
        return shapes.terms(
            "requests per second", {**offered, "completed when full": self.capacity}, "rate, requests/s", "1"
        )

    def explain(self) -> Explanation:
        """How fast the wait grows, and what the rates rest on."""
        inputs = (
            Input("sequences that decode", self.running, "1", "places, blocks and budget of the server"),
            Input("step", self.step_time, "s", "of the mean batch of a full server"),
        )
        given = {"rate": self.offered, "capacity": self.capacity, "time": 1.0}
        grows = () if math.isinf(self.offered) else (Term("wait per second", self.growth, "eq-overload-wait", given),)
        return Explanation(
            self.summary()[0], grows, inputs, ("completed when full: eq-saturation-rate of the mean step",)
        )

    def to_dict(self) -> dict[str, float | None]:
        """Plain numbers in SI units, for JSON; nothing in place of infinity."""
        rates = {"offered_per_s": self.offered, "capacity_per_s": self.capacity, "wait_growth": self.growth}
        rates["rate_per_s"] = self.capacity  # its name before
        found: dict[str, float | None] = {k: v if math.isfinite(v) else None for k, v in rates.items()}
        return found | {"running": self.running, "step_time_s": self.step_time}


def saturation(
    step_times: StepTimes, requests: Sequence[Request], bounds: Limits | Config, replicas: int = 1
) -> Saturation | None:
    """The offered rate and the saturation rate of a load.

    None where nothing decodes, since all answers are single tokens.

    Parameters
    ----------
    step_times : StepModel
        Times of steps.
    requests : sequence of Request
        The load; requests that can never be served are left out.
    bounds : Limits or Config
        Of one server; of options its limits are taken, as :func:`mlsysim.serving.limits` does.
    replicas : int
        Servers of the kind.

    Raises
    ------
    InputError
        No replica.

    Assumptions: a full server decodes as many sequences as its places and its blocks allow for at the mean number of
    tokens that a running sequence holds, or as many as its budget lets in with their prompts, if those are fewer; every
    step has the mean share of prompts, in the parts that the budget cuts them into. Where the budget limits, every step
    is the mean one. Where places do, prompts come in whole, steps differ, and a played server completes less.

    >>> from mlsysim.serving_steps import step_model
    >>> from mlsysim.inference import deploy
    >>> from mlsysim.serving import Config, limits, load
    >>> model = step_model(deploy("Llama-3.1-8B", "H100"))
    >>> found = saturation(model, load((0.0, 0.1, 0.2), 1000, 200), limits(Config(max_num_seqs=64), model))
    >>> round(found.running, 6), round(found.offered, 3), round(found.capacity, 1)
    (64.0, 10.0, 23.5)
    """
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise InputError(f"saturation: replicas = {replicas!r} must be a whole number of at least 1")
    if isinstance(bounds, Config):
        bounds = limits(bounds, step_times)
    served = [r for r in requests if not bounds.refusal(r.input_len, r.output_len)]
    sizes = Counter((r.input_len, r.output_len, r.cached_len if bounds.prefix_caching else 0) for r in served)
    steps = sum(number * (answer - 1) for (_, answer, _), number in sizes.items())
    if not steps:
        return None
    count, block, window = len(served), bounds.block_tokens, bounds.window or _UNSEEN

    def decoded(width: int) -> float:
        """Tokens that the sequences attend to in all their steps of decoding."""
        return sum(n * (seen(p + answer - 1, width) - seen(p, width)) for (p, answer, _), n in sizes.items())

    # of each size: how many there are, tokens of the prompt that are computed, those that are found, and the answer's
    rows = [
        (n, new := int(float(prompt_computed(prompt, cached, block))), prompt - new, answer)
        for (prompt, answer, cached), n in sizes.items()
    ]
    most, past = max(found for _, _, found, _ in rows), sum(n * found for n, _, found, _ in rows) / count
    held = decoded(_UNSEEN) / steps  # by a sequence that decodes, on average over time
    cached = sum(n * found * (answer - 1) for n, _, found, answer in rows) / steps
    own = (held - cached) / block + (block - 1) / (2 * block)  # blocks; the last one is filled in part
    places = max(1, min(bounds.sequences, int((bounds.blocks - most // block) / own)))
    prompt, each = sum(n * new for n, new, _, _ in rows) / count, steps / count
    begun = float(saturation_rate(float(places), each, bounds.tokens, prompt, 1.0))  # prompts in a step, and ends
    running = begun * each  # by Little's law
    parts = float(prompt_steps(prompt, bounds.tokens, running))

    def read(width: int) -> float:
        """Tokens whose keys and values the parts of a prompt read, on average: each those before it, as far as it sees."""
        part = prompt / parts
        return sum(min(past + k * part, part + width) for k in range(1, int(parts) + 1))

    pairs, near = (
        begun * sum(n * (seen(new + found, w) - seen(found, w)) for n, new, found, _ in rows) / count
        for w in (_UNSEEN, window)
    )
    mean = Batch(
        prefill_tokens=begun * prompt,
        prefill_pairs=pairs,
        prefill_read=begun * read(_UNSEEN),
        prefills=begun * parts,
        decodes=running,
        context=running * held,
        windowed_pairs=near,
        windowed_read=begun * read(window),
        windowed_context=running * decoded(window) / steps,
    )
    time = float(step_times.time(mean))
    capacity = float(saturation_rate(float(places), each, bounds.tokens, prompt, time))
    first, last = min(r.arrival for r in served), max(r.arrival for r in served)
    offered = (count - 1) / (last - first) if last > first else math.inf
    return Saturation(offered, replicas * capacity, running, time)
