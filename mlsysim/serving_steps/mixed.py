"""Steps by the one model of passes: what ``serve``, ``simulate`` and ``validate`` share, for any mixture of prompts and answers."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from mlsysim._numeric import Num, all_true, is_array
from mlsysim.inference import Deployment, Efficiencies
from mlsysim.inference.work import MixedCost, mixed_cost
from mlsysim.results import CALLER, Explanation, Input, Term
from mlsysim.serving_steps.batches import Batch
from mlsysim.serving_steps.terms import StepTerms

_INFINITE = float("inf")
_KEPT = 1 << 16  # counts of rows whose sums are kept


@dataclass(frozen=True)
class MixedSteps:
    """Step times of a deployment by ``inference.work.mixed_cost``, which a prompt pass and a decode step are cases of."""

    deployment: Deployment
    efficiencies: Efficiencies
    _sums: dict[tuple[float, float, float, bool], tuple[float, float, float]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def cost(self, batch: Batch) -> MixedCost:
        """The step in components, messages and overheads."""
        d, w = self.deployment, self.deployment.work
        (_, all_read), near = w.far, w.windowed
        return mixed_cost(
            w,
            d.split,
            d.machine,
            self.efficiencies,
            tokens=batch.tokens,
            sequences=batch.sequences,
            prompts=batch.prefills,
            pairs=w.prompt_pairs(batch.prefill_pairs, batch.windowed_pairs),
            read=all_read * batch.prefill_read + near * batch.windowed_read,
            decodes=batch.decodes,
            seen=all_read * batch.context + near * batch.windowed_context,
        )

    def terms(self, batch: Batch) -> StepTerms:
        """Seconds by term."""
        found = self.cost(batch)
        return StepTerms(
            **{name: c.time for name, c in found.components.items()},
            messages=found.reduced + found.sent,
            overhead=found.overhead,
        )

    @cached_property
    def _slopes(self) -> tuple[tuple[float, float], float, tuple[float, float], tuple[float, float]]:
        """Shares of attention over all keys and in a window; seconds per pair and per token read, of prompts and of answers."""
        w = self.deployment.work
        pairs, read = (1.0 / (far + w.windowed) for far in w.far)
        one = Batch(
            prefill_pairs=pairs, prefill_read=read, prefills=1.0, decodes=1.0, context=read,
            windowed_pairs=pairs, windowed_read=read, windowed_context=read,
        )  # fmt: skip
        parts = self.cost(one).components
        prompts, answers = (parts[name] for name in ("prefill_attention", "decode_attention"))
        return (
            w.far,
            w.windowed,
            (prompts.compute_time, prompts.memory_time),
            (answers.compute_time, answers.memory_time),
        )

    @cached_property
    def _short(self) -> bool:
        """Whether everything but attention depends on counts of rows alone: not where messages hide behind attention."""
        e = self.efficiencies
        return not (is_array(e.overlap) or e.overlap or is_array(e.spread) or e.spread)

    def _rest(self, batch: Batch) -> tuple[float, float, float]:
        """Seconds on the device beside attention, on the host beside launches, and of the launches; kept by counts."""
        key = (batch.tokens, batch.sequences, batch.prefills, batch.decodes > 0.0)
        found = self._sums.get(key)
        if found is None:
            empty = replace(batch, prefill_pairs=0.0, prefill_read=0.0, context=0.0, windowed_pairs=0.0)
            cost = self.cost(replace(empty, windowed_read=0.0, windowed_context=0.0))
            s = cost.starts
            host = s["step_overhead"] + s["sequences"] * s["sequence_overhead"]
            found = float(s["device_time"]), float(host), float(s["layers"] * s["launch_time"])
            if len(self._sums) < _KEPT:
                self._sums[key] = found
        return found

    def time(self, batch: Batch) -> Num:
        """Seconds of a step, by a short cut for plain numbers: a count that was met before costs a look-up and three maxima."""
        if not self._short:
            return self.cost(batch).time
        try:
            device, host, launches = self._rest(batch)
            (_, all_read), near, prompts, answers = self._slopes
            if batch.prefills:
                pairs = self.deployment.work.prompt_pairs(batch.prefill_pairs, batch.windowed_pairs) * prompts[0]
                read = (all_read * batch.prefill_read + near * batch.windowed_read) * prompts[1]
                device += pairs if pairs > read else read
            if batch.decodes:
                slope = answers[0] if answers[0] > answers[1] else answers[1]
                device += (all_read * batch.context + near * batch.windowed_context) * slope
            found = host + (device if device > launches else launches)
            return found if 0.0 <= device < _INFINITE else self.cost(batch).time  # says what is wrong
        except (TypeError, ValueError):  # arrays
            return self.cost(batch).time

    def decoding(self, sequences: float) -> Callable[[float, float], float]:
        """Seconds of a step of so many answers and no prompt, by what they attend to; the rest is worked out once."""

        def long(context: float, windowed: float) -> float:
            return float(self.time(Batch(decodes=sequences, context=context, windowed_context=windowed)))

        if not self._short:
            return long
        device, host, launches = self._rest(Batch(decodes=sequences))
        (_, all_read), near, _, answers = self._slopes
        slope = max(answers)

        def short(context: float, windowed: float) -> float:
            busy = device + (all_read * context + near * windowed) * slope
            seconds = host + (busy if busy > launches else launches)
            return seconds if 0.0 <= busy < _INFINITE else long(context, windowed)

        return short

    def explain(self, batch: Batch, notes: list[str]) -> Explanation:
        """Every component and message with the numbers in it, then what comes on top."""
        d, e, m = self.deployment, self.efficiencies, self.deployment.machine
        found, terms = self.cost(batch), []
        longest = max(found.components, key=lambda name: _first(found.components[name].time))
        for name, c in found.components.items():
            if all_true(c.time == 0):
                continue
            given = {"flops": c.flops, "bytes": c.bytes, "peak_flops": c.peak, "memory_bandwidth": c.bandwidth}
            given |= {"efficiency": 1.0, "dispatch": c.unpack_time}
            terms.append(Term(name, c.time, "eq-iron-law", given, name == longest))
        for x in found.messages:
            if not all_true(x.time == 0):
                terms.append(Term(x.name, x.time, x.label, x.arguments))
        terms.append(Term("overhead", found.overhead, "eq-host-overhead", found.starts))
        step = self.terms(batch)
        terms.append(Term("step", step.time, "eq-serving-step", vars(step)))
        inputs = [
            Input("peak", m.peak_flops, "FLOP/s", d.device.origin(f"peak_flops.{d.precision}")),
            Input("memory bandwidth", m.memory_bandwidth, "byte/s", d.device.origin("memory_bandwidth")),
            Input("bytes per weight", d.split.weight_bytes, "byte", f"{d.weights}, {CALLER}"),
            Input("gemm efficiency", e.gemm, "1", f"{e.name}: {e.source}"),
            Input("memory efficiency", e.memory, "1", f"{e.name}: {e.source}"),
        ]
        title = f"One step of {d.model.name} on {d.split.tp:g} x {d.device.name}"
        return Explanation(title, terms, inputs, notes)


def _first(value: Num) -> float:
    return float(value.flat[0]) if is_array(value) else float(value)
