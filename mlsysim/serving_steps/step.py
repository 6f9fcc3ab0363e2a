"""The time of one step of a serving engine, kernel by kernel: products, attention of prompts, attention of answers.

The engine runs the tokens of prompts and of answers through the matrices together; only attention treats them apart.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mlsysim import collectives, kernels, units
from mlsysim._numeric import Num, is_array, maximum, minimum, where
from mlsysim.catalog.shapes import Model
from mlsysim.efficiencies import BOUND, OWN, OWN_SOURCE, check_mode, describe
from mlsysim.equations import is_tracing
from mlsysim.errors import InputError
from mlsysim.experts import grouped_share
from mlsysim.inference import Deployment, Efficiencies, efficiencies_of
from mlsysim.inference.shares import LINK, PASSES, REPLICATED
from mlsysim.inference.work import ACTIVATION_BYTES, planned_messages
from mlsysim.memory import state_of
from mlsysim.results import Explanation, Input, Result, Term, format_rows, format_value, plain, top_shares
from mlsysim.serving_steps.batches import Batch
from mlsysim.serving_steps.expert_layer import TILE, expert_message_time, expert_work
from mlsysim.serving_steps.mixed import MixedSteps
from mlsysim.serving_steps.products import Product, layer_products
from mlsysim.serving_steps.rates import PRINTED, Rate, Rates, rates
from mlsysim.serving_steps.shortcut import ShortCut
from mlsysim.serving_steps.step_options import (
    BLEND,
    FIXED_DECODE,
    FIXED_PREFILL,
    FLAT_BANDWIDTH,
    LAYER_OVERHEAD,
    STEP_OVERHEAD,
    TIER_0,
    StepOptions,
)
from mlsysim.serving_steps.tables import LOOKUPS, products_table
from mlsysim.serving_steps.terms import Kernel, StepTerms

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# Kernels of a layer that are neither products nor attention: two norms, the rotation, the write into the cache, the
# activation function.
SMALL_KERNELS = 5.0
KERNELS = "kernels"  # what steps are called that are taken kernel by kernel, beside the three words
_MOST_KEPT = 1 << 17  # pairs of counts of which a model keeps what it found

_TOKENS = 1000  # of the examples that a model shows itself by


@dataclass(frozen=True)
class StepModel(Result):
    """Step times of one deployment. Made by :func:`step_model`."""

    deployment: Deployment
    rates: Rates
    options: StepOptions = TIER_0
    efficiencies: str = (
        OWN  # which of the words the rates stand for; the bound has no measured link and no counted traffic
    )
    source: str = OWN_SOURCE
    mixed: MixedSteps | None = None  # the one model of passes, where the step is not taken kernel by kernel
    # what depends on the two counts of rows alone; a simulation meets the same counts again and again
    _known: dict[tuple[float, float], StepTerms] = field(default_factory=dict, repr=False, compare=False)
    _rated: dict[int, tuple[Rate, Rate]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def words(self) -> str:
        """The deployment and the source of its rates, in a line."""
        d = self.deployment
        if self.mixed is not None:
            return f"{d.model.name} on {d.devices} x {d.device.name}, {d.precision}: the model of passes, {self.efficiencies}"
        origins = {getattr(self.rates, f.name).origin for f in fields(self.rates)}
        own = any(not origin.startswith("not measured") for origin in origins)
        rates = f"measured rates of kernels, {'of this device' if own else 'of other devices'}"
        other = [f"{name} {v}" for name, v in vars(self.options).items() if v != getattr(TIER_0, name)]
        form = f"; {', '.join(other)}" if other else ""
        return f"{d.model.name} on {d.devices} x {d.device.name}, {d.precision}: {rates}{form}"

    def summary(self) -> list[str]:
        one = Batch.of(self.model, decodes=[float(_TOKENS)])
        prompt = Batch.of(self.model, prefills=[(float(_TOKENS), 0.0)])
        if self.mixed is not None:
            return self._summary_of_passes(one, prompt)
        d, rates = self.deployment, {f.name: getattr(self.rates, f.name) for f in fields(self.rates)}
        own = [name.replace("_", " ") for name, r in rates.items() if not r.origin.startswith("not measured")]
        return format_rows(
            f"{d.model.name} on {d.devices} x {d.device.name}: {format_value(self.time(one), 's')} for a token of one sequence after "
            f"{_TOKENS:,} tokens, {format_value(self.time(prompt), 's')} for a prompt of {_TOKENS:,}",
            ("binds", f"one sequence: {top_shares(vars(self.terms(one)), 3)}"),
            ("", f"a prompt: {top_shares(vars(self.terms(prompt)), 3)}"),
            ("efficiencies", "measured rates of kernels (mlsysim.serving_steps.rates)"),
            ("measured here", ", ".join(own) or "none: rates of other devices"),
            ("options", ", ".join(f"{n} {v}" for n, v in vars(self.options).items())),
            ("memory", "; ".join(self._room(one)).removeprefix("memory ")),
            ("ask it", "time(batch), terms(batch), explain(batch); serving.simulate(it, requests)"),
        )

    def _summary_of_passes(self, one: Batch, prompt: Batch) -> list[str]:
        d = self.deployment
        return format_rows(
            f"{d.model.name} on {d.devices} x {d.device.name}: {format_value(self.time(one), 's')} for a token of one sequence after "
            f"{_TOKENS:,} tokens, {format_value(self.time(prompt), 's')} for a prompt of {_TOKENS:,}",
            ("binds", f"one sequence: {top_shares(vars(self.terms(one)), 3)}"),
            ("", f"a prompt: {top_shares(vars(self.terms(prompt)), 3)}"),
            ("efficiencies", f"{self.efficiencies}: {self.source}"),
            ("memory", "; ".join(self._room(one)).removeprefix("memory ")),
            ("ask it", "time(batch), terms(batch), explain(batch); serving.simulate(it, requests)"),
        )

    def chart(self) -> "Drawing | None":
        """A decode step by the number of its sequences, at 1,000 tokens each, by term."""
        from mlsysim.drawing import Chart, Line
        from mlsysim.drawing.shapes import readable

        batches = [1, 2, 4, 8, 16, 32, 64, 128, 256]
        times = [float(self.time(Batch.of(self.model, decodes=[float(_TOKENS)] * n))) for n in batches]
        factor, unit = readable(max(times), "s")
        label = f"decode step, {_TOKENS:,} tokens each"
        line = Line([float(n) for n in batches], [factor * t for t in times], label)
        return Chart("sequences in the step", f"time ({unit})", [line], title=self.deployment.model.name, y_log=False)

    @property
    def model(self) -> Model:
        return self.deployment.model

    @property
    def rates_used(self) -> str:
        """The efficiencies behind the steps and their source, in a sentence."""
        return describe(self.efficiencies, self.source)

    def time(self, batch: Batch) -> Num:
        """Seconds of a step over the batch: what :meth:`terms` sums to, by a short cut where there is one.

        The products depend on the counts of rows alone, and attention is proportional to pairs and to what is read; so counts
        that were met before cost a look-up and three maxima.
        """
        return self._long(batch) if self._short is None else self._short.time(batch)

    def _long(self, batch: Batch) -> Num:
        return self.terms(batch).time if self.mixed is None else self.mixed.time(batch)

    def decoding(self, sequences: float) -> Callable[[float, float], float]:
        """Seconds of a step in which so many sequences decode and no prompt runs, by what they attend to.

        The function takes a batch's ``context`` and ``windowed_context`` and gives its :meth:`time`; what stays from step to
        step is worked out once.

        >>> from mlsysim.inference import deploy
        >>> model = step_model(deploy("Llama-2-7B", "H100"))
        >>> model.decoding(2.0)(800.0, 800.0) == model.time(Batch(decodes=2.0, context=800.0, windowed_context=800.0))
        True
        """

        if self._short is not None:
            return self._short.of(0.0, 0.0, sequences)
        return lambda context, windowed: float(
            self._long(Batch(decodes=sequences, context=context, windowed_context=windowed))
        )

    @cached_property
    def _short(self) -> ShortCut | None:
        """The short way, where a step is the sum of its kernels or by the model of passes."""
        if self.mixed is not None:
            return self.mixed.short
        r, w = self.options, self.deployment.work
        if not (r.mixing == "additive" and r.granularity == "kernel" and r.overhead in ("kernels", "none")):
            return None
        bare = replace(self, deployment=ShortCut.bare(self.deployment)) if w.always else self
        prompts, answers = (
            (k.compute_time, k.memory_time, k.layers * (k.rate.start * k.starts))
            for k in bare._attention_kernels(ShortCut.unit(w))
        )
        return ShortCut(w, prompts, answers, bare._rest, self._long, parts=True)

    def _rest(self, counts: Batch) -> tuple[float, float, float]:
        """The part of a step that depends on the counts of rows alone; nothing hides under the host."""
        terms = self.terms(counts)
        return float(terms.time - terms.prefill_attention - terms.decode_attention), 0.0, 0.0

    def terms(self, batch: Batch) -> StepTerms:
        """The same by term. Where the ladder takes one maximum for a step, only its ``overhead`` and rest are told."""
        if self.mixed is not None:
            return self.mixed.terms(batch)
        if self.options.mixing == "additive":
            return self._joint(batch)
        prompts = replace(batch, decodes=0.0, context=0.0, windowed_context=0.0)
        answers = Batch(decodes=batch.decodes, context=batch.context, windowed_context=batch.windowed_context)
        first, second = self._joint(prompts), self._joint(answers)
        if self.options.mixing == "sum":
            weights: tuple[Num, Num] = (1.0, 1.0)
        elif self.options.mixing == "max":
            longer = where(first.time >= second.time, 1.0, 0.0)
            weights = (longer, 1.0 - longer)
        else:
            mixed = minimum(1.0, batch.prefills) * minimum(1.0, batch.decodes)
            larger = where(batch.prefill_tokens > batch.decodes, 1.0, 0.0)
            a = larger * BLEND["prefill"][0] + (1.0 - larger) * BLEND["decode"][0]
            only = minimum(1.0, batch.prefills)  # a pure step is what it is
            weights = (mixed * a + (1.0 - mixed) * only, mixed * (1.0 - a) + (1.0 - mixed) * (1.0 - only))
        parts = [f.name for f in fields(StepTerms)]
        return StepTerms(**{n: weights[0] * getattr(first, n) + weights[1] * getattr(second, n) for n in parts})

    def memory(self, batch: Batch) -> Num:
        """Bytes on each device: weights, and the cache of all tokens that the batch reads, in every layer.

        >>> from mlsysim.inference import deploy
        >>> round(step_model(deploy("Llama-2-7B", "H100")).memory(Batch(decodes=1.0, context=1000.0)) / 1e9, 1)
        14.0
        """
        d = self.deployment
        held = batch.prefill_read + batch.context
        states = state_of(self.model, batch.prefills + batch.decodes) / d.split.tp
        return d.weight_memory + held * d.token_bytes / min(d.split.tp, d.work.kv_shards) + states

    def fits(self, batch: Batch) -> Any:
        """Whether a device has that memory. The time of a step is the same if it has not, and means nothing then."""
        return self.memory(batch) <= self.deployment.device.usable_memory

    def kernels(self, batch: Batch) -> tuple[Kernel, ...]:
        """Every kernel of a step, messages left out; for steps that are taken kernel by kernel.

        Raises
        ------
        InputError
            A model of passes, which has components instead.
        """
        if self.mixed is not None:
            raise InputError(
                "kernels: this model takes a step by components; ask explain(batch), or step_model(deployment, TIER_0) for "
                "single kernels"
            )
        return (*self._row_kernels(batch.tokens, batch.sequences), *self._attention_kernels(batch))

    def explain(self, batch: Batch | None = None) -> Explanation:
        """Every kernel with the numbers in it and where its rate came from, then the sum.

        Without a batch it is the step of one sequence that has 1,000 tokens.

        >>> from mlsysim.inference import deploy
        >>> step = step_model(deploy("Llama-2-7B", "H100"), TIER_0)
        >>> step.explain(Batch.of(step.model, decodes=[458])).rows()[0][0]
        'qkv'
        """
        batch = Batch.of(self.model, decodes=[float(_TOKENS)]) if batch is None else batch
        if self.mixed is not None:
            return self.mixed.explain(batch, [*self._room(batch), self.rates_used])
        found = [k for k in self.kernels(batch) if is_array(k.layers) or k.layers]
        terms, d = self.terms(batch), self.deployment
        times = [k.time for k in found]
        longest = None if self._arrays(batch) else times.index(max(times))
        rows = [
            Term(k.name, t / maximum(k.layers, 1.0), "eq-kernel-time", k.arguments, i == longest)
            for i, (k, t) in enumerate(zip(found, times, strict=True))
        ]
        if d.split.tp > 1:
            rows += self._message_terms(batch.tokens)
        rows.append(Term("step", terms.time, "eq-serving-step", vars(terms)))
        shares: dict[tuple[str, str], list[str]] = {}
        for k in found:
            shares.setdefault((f"{k.rate.compute}", k.rate.origin), []).append(k.name)
        inputs = [
            Input(
                f"share of peak of {', '.join(names)}",
                next(k for k in found if k.name == names[0]).rate.compute,
                "1",
                origin,
            )
            for (_, origin), names in shares.items()
        ]
        runs = ", ".join(f"{k.name} {float(k.layers):g}" for k in found if not is_array(k.layers))
        notes = [
            *self._room(batch),
            self.rates_used,
            f"runs of each kernel: {runs}",
            "a kernel's own line is one run of it; the terms of the step hold all of them",
            f"rungs: {', '.join(f'{n} {v}' for n, v in vars(self.options).items())}",
        ]
        title = f"One step of {self.model.name} on {d.split.tp:g} x {d.device.name}"
        return Explanation(title, rows, inputs, notes)

    def _room(self, batch: Batch) -> list[str]:
        """Whether weights and cache have room, in a sentence; nothing for a device of unknown memory."""
        device = self.deployment.device
        if not (device.has("usable_memory") or device.has("memory_capacity")):
            return []
        need, room = self.memory(batch), device.usable_memory
        if is_array(need):
            return [f"memory: {int(self.fits(batch).sum())} of {need.size} fit into {units.format(room, 'byte')}"]
        verdict = "fits" if need <= room else "does not fit, so this time means nothing"
        weights = units.format(self.deployment.weight_memory, "byte")
        return [f"memory {verdict}: {units.format(need, 'byte')} of {units.format(room, 'byte')} (weights {weights})"]

    def to_dict(self, batch: Batch | None = None) -> dict[str, Any]:
        """Seconds by term, and their sum, for writing to a file; without a batch, what the model is made of."""
        if batch is not None:
            return self.terms(batch).to_dict()
        if self.mixed is not None:
            known = dict(plain(vars(self.mixed.efficiencies)))
            return {"deployment": self.deployment.to_dict(), "efficiencies": known}
        rates = {f.name: plain(vars(getattr(self.rates, f.name))) for f in fields(self.rates)}
        return {"deployment": self.deployment.to_dict(), "options": dict(vars(self.options)), "rates": rates}

    @staticmethod
    def _arrays(batch: Batch) -> bool:
        return any(map(is_array, vars(batch).values()))

    # Sums of a step

    def _joint(self, batch: Batch) -> StepTerms:
        rows = (batch.tokens, batch.sequences)
        if self.options.granularity == "step":
            return self._one_maximum(batch)
        common = None if any(map(is_array, rows)) else self._known.get(rows)
        if common is None:
            parts: dict[str, Num] = {"messages": self._messages(batch.tokens)}
            for k in self._row_kernels(*rows):
                parts[k.part] = parts.get(k.part, 0.0) + k.time
            common = StepTerms(**parts)
            if not any(map(is_array, rows)) and len(self._known) < _MOST_KEPT:
                self._known[rows] = common
        attention = {k.part: k.time for k in self._attention_kernels(batch)}
        return replace(common, **attention, overhead=self._overhead(batch))

    def _one_maximum(self, batch: Batch) -> StepTerms:
        found = self.kernels(batch)
        work = maximum(sum(k.compute_time for k in found), sum(k.memory_time for k in found))
        starts = sum(k.start_time for k in found)
        return StepTerms(mlp=work, messages=self._messages(batch.tokens), overhead=starts + self._overhead(batch))

    def _overhead(self, batch: Batch) -> Num:
        some = minimum(1.0, batch.sequences)
        prompts = minimum(1.0, batch.prefills)
        tp = self.deployment.split.tp
        return {
            "kernels": 0.0,
            "none": 0.0,
            "step": some * STEP_OVERHEAD,
            "fixed": prompts * FIXED_PREFILL + (some - prompts) * FIXED_DECODE,
            "layers": some * LAYER_OVERHEAD * self.model.n_layers / tp,
        }[self.options.overhead]

    # Kernels

    def _rate(self, rate: Rate) -> Rate:
        """The rate as the rungs would have it."""
        found = self._rated.get(id(rate))
        if found is None or found[0] is not rate:
            memory = {"measured": rate.memory, "flat": FLAT_BANDWIDTH, "datasheet": 1.0}[self.options.bandwidth]
            compute = 1.0 if self.options.lookup == "flat" else rate.compute
            start = rate.start if self.options.overhead == "kernels" else 0.0
            found = self._rated[id(rate)] = rate, replace(rate, compute=compute, memory=memory, start=start)
        return found[1]

    def _kernel(self, name: str, part: str, layers: Num, flops: Num, bytes: Num, rate: Rate, half: bool) -> Kernel:
        m = self.deployment.machine
        peak = m.half_peak_flops if half else m.peak_flops
        return Kernel(name, part, layers, flops, bytes, rate, peak, m.memory_bandwidth)

    def _table_rate(self, rows: Num, p: Product) -> Rate:
        """The efficiency of the measured product nearest or around; its time holds traffic and start already."""
        table = products_table()
        share = table.efficiency(rows, p.k, p.n, self.options.lookup)
        other = "" if self.deployment.device.name == table.device else f", taken over from {table.device}"
        edge = "" if table.covers(rows, p.k, p.n) else ", outside the table: held at its edge"
        origin = f"{self.options.lookup} in the table of 8-bit products{other}{edge} ({table.origin})"
        return replace(self._rate(self._products), compute=share, start=0.0, origin=origin, rows=0, error=None)

    @property
    def _products(self) -> Rate:
        return self.rates.products_8bit if self.deployment.precision in ("fp8", "int8") else self.rates.products_16bit

    def _row_kernels(self, tokens: Num, sequences: Num) -> tuple[Kernel, ...]:
        """Kernels whose work is so many rows: products, experts, and the passes over vectors between them."""
        m, s = self.model, self.deployment.split
        found = []
        for p in layer_products(m, int(s.tp), self.options.projections == "fused"):
            rows = tokens if p.rows == "tokens" else sequences
            width = s.head_bytes if p.part == "head" else s.weight_bytes
            some = minimum(1.0, rows)
            bytes = some * p.k * p.n * width + rows * (p.k + p.n) * ACTIVATION_BYTES
            flops = kernels.gemm_flops(rows, p.n, p.k)
            rate = self._table_rate(rows, p) if self.options.lookup in LOOKUPS else self._rate(self._products)
            found.append(self._kernel(p.name, p.part, some * p.layers, flops, bytes, rate, False))
        if m.is_moe:
            found.append(self._experts(tokens))
        passes = (0.0 if self.efficiencies == BOUND else PASSES) * (REPLICATED + (1.0 - REPLICATED) / s.tp)
        w = self.deployment.work
        vectors = passes * tokens * m.hidden * ACTIVATION_BYTES
        vectors = vectors + 2.0 * w.state_bytes * sequences / s.tp  # of recurrences, read and written
        small = self._kernel(
            "vectors",
            "elementwise",
            minimum(1.0, tokens) * m.n_layers,
            2.0 * w.state_macs * tokens / s.tp,
            vectors,
            self._rate(self.rates.products_16bit),
            True,
        )
        return (*found, replace(small, starts=SMALL_KERNELS))

    def _experts(self, tokens: Num) -> Kernel:
        """Up and down of the experts that the tokens reach, as two grouped products."""
        work, m = expert_work(self.deployment, tokens, self.options.experts), self.model
        some, rate = minimum(1.0, tokens), self._rate(self.rates.grouped_products)
        rate = replace(rate, compute=grouped_share(work.per_expert, rate.compute, TILE))
        one = self._kernel("experts", "experts", some * m.n_moe_layers, work.flops, some * work.bytes, rate, False)
        return replace(one, starts=2.0)

    def _attention_kernels(self, batch: Batch) -> tuple[Kernel, Kernel]:
        w, s, r = self.deployment.work, self.deployment.split, self.rates
        (_, all_read), near = w.far, w.windowed

        def one(name: str, rate: Rate, pairs: Num, read: Num, macs: Num, sequences: Num) -> Kernel:
            flops = kernels.gemm_flops(pairs, w.heads / s.tp, macs)  # a pair costs each head so many multiply-adds
            bytes = read * w.kv_elements * s.kv_bytes / min(s.tp, w.kv_shards)
            return self._kernel(name, name, w.layers * minimum(1.0, sequences), flops, bytes, self._rate(rate), True)

        decoding = r.latent_attention if w.latent else r.decode_attention
        pairs = w.prompt_pairs(batch.prefill_pairs, batch.windowed_pairs) + w.always * batch.prefill_tokens
        read = all_read * batch.prefill_read + near * batch.windowed_read + w.always * batch.prefills
        seen = all_read * batch.context + near * batch.windowed_context + w.always * batch.decodes
        return (
            one("prefill_attention", r.prefill_attention, pairs, read, w.key_value_macs, batch.prefills),
            one("decode_attention", decoding, seen, seen, w.absorbed_macs, batch.decodes),
        )

    def _messages(self, tokens: Num) -> Num:
        """Two all-reduces a layer (one in a parallel block), each a kernel of its own; tokens to experts and back."""
        d, m = self.deployment, self.deployment.machine
        start = self._rate(self.rates.products_16bit).start
        apart = d.split.ep > 1
        sent = self.model.n_moe_layers * expert_message_time(d, tokens, self._link, start) if apart else 0.0 * tokens
        sent = minimum(1.0, tokens) * sent
        if d.split.tp <= 1:
            return sent
        runs = minimum(1.0, tokens) * self.model.n_layers * d.work.all_reduces
        if m.plans:
            whole = planned_messages(m.plans, runs * self._message(tokens)["bytes"], runs)
            return sent + sum(x.time for x in whole)
        inside = collectives.direct_all_reduce(**self._message(tokens))
        if d.split.tp == m.tp_inside:
            return sent + runs * inside
        outer, link = d.split.tp / m.tp_inside, m.inter_bandwidth * self._link
        across = collectives.direct_all_reduce(self._message(tokens)["bytes"] / m.tp_inside, outer, link, start)
        return sent + runs * (inside + across)

    @property
    def _link(self) -> float:
        return 1.0 if self.efficiencies == BOUND else LINK

    def _message(self, tokens: Num) -> dict[str, Num]:
        """Arguments of the all-reduce inside a scale-up domain."""
        m = self.deployment.machine
        return {
            "bytes": tokens * self.model.hidden * ACTIVATION_BYTES,
            "ranks": m.tp_inside,
            "bandwidth": m.intra_bandwidth * self._link,
            "latency": self._rate(self.rates.products_16bit).start,
        }

    def _message_terms(self, tokens: Num) -> list[Term]:
        arguments, m = self._message(tokens), self.deployment.machine
        if m.plans:
            return [
                Term(x.name, x.time, x.label, x.arguments) for x in planned_messages(m.plans, arguments["bytes"], 1.0)
            ]
        return [Term("all-reduce", collectives.direct_all_reduce(**arguments), "eq-direct-allreduce", arguments)]


def step_model(
    deployment: Deployment, options: StepOptions | None = None, efficiencies: Efficiencies | Rates | str | None = None
) -> StepModel:
    """The step model of a deployment: the one that ``serve``, ``simulate`` and ``validate`` share; with rungs, kernel by kernel.

    Parameters
    ----------
    deployment : Deployment
        As from :func:`mlsysim.inference.deploy`, without pipeline stages.
    options : Rungs, optional
        Take the step kernel by kernel, at the rates that were measured for each kind of kernel (``serving_steps.rates``), and which
        form of each part: from :data:`TIER_0` down the ladder of accuracy. Nobody answers with these steps; they are there to
        be compared.
    efficiencies : Efficiencies, Rates or str, optional
        Those of the deployment unless given: ``calibrated`` (default there), ``datasheet``, ``bound``, or efficiencies of a pass
        of your own. With rungs ``bound`` or rates of your own, which also mean kernel by kernel.

    Raises
    ------
    InputError
        A deployment with pipeline stages; rungs together with efficiencies of a pass.

    >>> from mlsysim.inference import decode_step, deploy
    >>> d = deploy("Llama-2-7B", "H100")
    >>> model, step = step_model(d), decode_step(d, context=458, batch=4)
    >>> abs(model.time(Batch.of(model.model, decodes=[458] * 4)) / step.time - 1) < 1e-9
    True
    >>> round(step_model(d, TIER_0).time(Batch.of(model.model, decodes=[458])) * 1e3, 2)
    6.24
    """
    asked = ("step model", options, efficiencies)
    if not isinstance(efficiencies, (str, type(None))) or is_tracing():
        return _step_model(deployment, options, efficiencies)
    if asked not in deployment.kept:
        deployment.kept[asked] = _step_model(deployment, options, efficiencies)
    made: StepModel = deployment.kept[asked]
    return made


def _step_model(
    d: Deployment, options: StepOptions | None, efficiencies: Efficiencies | Rates | str | None
) -> StepModel:
    if d.split.pp > 1:
        raise InputError(f"step_model: pp = {d.split.pp:g} stages are not modelled; use tp, and pp = 1")
    if isinstance(efficiencies, Rates):
        return StepModel(d, efficiencies, options or TIER_0)
    taken = d.efficiencies if efficiencies is None else efficiencies
    if not isinstance(taken, Efficiencies):
        check_mode("step_model", taken, "serving_steps.Rates or inference.Efficiencies")
    word = taken if isinstance(taken, str) else taken.name
    if options is None:
        if isinstance(taken, Efficiencies):
            own = taken
        elif d.efficiencies.name == word:
            own = d.efficiencies
        else:
            own = efficiencies_of(d.device, d.precision, word, d.server)
        if own.name != d.efficiencies.name:  # plans go with the efficiencies that they were made for
            d = replace(d, machine=replace(d.machine, plans=()))
        return StepModel(d, PRINTED, TIER_0, own.name, own.source, MixedSteps(d, own))
    if word == BOUND:
        return StepModel(d, PRINTED, options, BOUND)
    if efficiencies is not None:
        raise InputError(
            f"step_model: efficiencies = {word!r} are those of a pass, and rungs take it kernel by kernel; leave one of them out"
        )
    found = rates(d.device)
    whose = any(not getattr(found, f.name).origin.startswith("not measured") for f in fields(Rates))
    source = f"kernels as measured on {'it' if whose else 'other devices'}, nothing fitted to served requests"
    return StepModel(d, found, options, KERNELS, source)
