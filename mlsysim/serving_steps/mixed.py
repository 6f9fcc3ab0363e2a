"""Steps by the one model of passes: what ``serve``, ``simulate`` and ``validate`` share, for any mixture of prompts and answers."""

from dataclasses import dataclass
from functools import cached_property

from mlsysim._numeric import Num, all_true, is_array
from mlsysim.inference import Deployment, Efficiencies
from mlsysim.inference.work import MixedCost, mixed_cost
from mlsysim.results import CALLER, Explanation, Input, Term
from mlsysim.serving_steps.batches import Batch
from mlsysim.serving_steps.shortcut import ShortCut
from mlsysim.serving_steps.terms import StepTerms


@dataclass(frozen=True)
class MixedSteps:
    """Step times of a deployment by ``inference.work.mixed_cost``, which a prompt pass and a decode step are cases of."""

    deployment: Deployment
    efficiencies: Efficiencies

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

    def time(self, batch: Batch) -> Num:
        """Seconds of the step, at the pace of one's own runs where there are any."""
        return self.deployment.pace * self.cost(batch).time

    def terms(self, batch: Batch) -> StepTerms:
        """Seconds by term."""
        found = self.cost(batch)
        return StepTerms(
            **{name: c.time for name, c in found.components.items()},
            messages=found.reduced + found.sent,
            overhead=found.overhead,
        ).scaled(self.deployment.pace)

    @cached_property
    def short(self) -> ShortCut | None:
        """The short way to the same times; none where messages hide behind attention, so that not all else goes by counts of rows."""
        e, w = self.efficiencies, self.deployment.work
        if is_array(e.overlap) or e.overlap or is_array(e.spread) or e.spread:
            return None
        bare = MixedSteps(ShortCut.bare(self.deployment), e) if w.always else self
        parts, pace = bare.cost(ShortCut.unit(w)).components, self.deployment.pace
        prompts, answers = (parts[f"{name}_attention"] for name in ("prefill", "decode"))
        return ShortCut(
            w,
            (pace * prompts.compute_time, pace * prompts.memory_time, 0.0),
            (pace * answers.compute_time, pace * answers.memory_time, 0.0),
            bare._rest,
            self.time,
            parts=False,
        )

    def _rest(self, counts: Batch) -> tuple[float, float, float]:
        """Seconds on the device beside attention, on the host beside launches, and of the launches."""
        s = self.cost(counts).starts
        host, pace = s["step_overhead"] + s["sequences"] * s["sequence_overhead"], self.deployment.pace
        return float(pace * s["device_time"]), float(pace * host), float(pace * s["layers"] * s["launch_time"])

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
