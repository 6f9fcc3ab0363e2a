"""The time of one step of a serving engine, kernel by kernel: products, attention of prompts, attention of answers.

The engine runs the tokens of prompts and of answers through the matrices together; only attention treats them apart.
"""

from dataclasses import dataclass, field, fields, replace

from mlsysim import collectives, kernels, roofline
from mlsysim._numeric import Num, is_array, maximum, minimum, where
from mlsysim.catalog.shapes import Model
from mlsysim.errors import InputError
from mlsysim.fidelity.batches import Batch
from mlsysim.fidelity.products import layer_products
from mlsysim.fidelity.rates import Rate, Rates, rates
from mlsysim.fidelity.rungs import (
    BLEND,
    FIXED_DECODE,
    FIXED_PREFILL,
    FLAT_BANDWIDTH,
    LAYER_OVERHEAD,
    STEP_OVERHEAD,
    TIER_0,
    Rungs,
)
from mlsysim.inference import Deployment, experts_hit

ACTIVATION_BYTES = 2.0
# korthikanti2022recompute, sec. 4.1 and 4.2, without dropout: 32 readings or writings of a hidden vector, 8 of them not
# cut by tensor parallelism.
PASSES, REPLICATED = 32.0, 8.0 / 32.0
# Kernels of a layer that are neither products nor attention: two norms, the rotation, the write into the cache, the
# activation function.
SMALL_KERNELS = 5.0
LINK = 0.8  # share of the link that large messages reach on NVLink


@dataclass(frozen=True)
class Kernel:
    """One kernel on one device, run once by each of so many layers."""

    name: str
    part: str  # the term that it belongs to
    layers: Num
    flops: Num
    bytes: Num
    rate: Rate
    peak_flops: float
    memory_bandwidth: float
    starts: float = 1.0  # launches in it

    @property
    def compute_time(self) -> Num:
        """Arithmetic alone, s, over all layers."""
        return self.layers * roofline.compute_time(self.flops, self.rate.compute * self.peak_flops)

    @property
    def memory_time(self) -> Num:
        """Traffic alone, s, over all layers."""
        return self.layers * roofline.memory_time(self.bytes, self.rate.memory * self.memory_bandwidth)

    @property
    def start_time(self) -> Num:
        return self.layers * self.starts * self.rate.start

    @property
    def time(self) -> Num:
        """eq-kernel-time over all layers, s."""
        one = kernels.measured_kernel_time(
            self.flops,
            self.bytes,
            self.peak_flops,
            self.memory_bandwidth,
            self.rate.compute,
            self.rate.memory,
            self.starts * self.rate.start,
        )
        return self.layers * one


@dataclass(frozen=True)
class StepTerms:
    """Seconds of one step by term; they sum to its time."""

    projections: Num = 0.0
    mlp: Num = 0.0
    experts: Num = 0.0
    head: Num = 0.0
    prefill_attention: Num = 0.0
    decode_attention: Num = 0.0
    elementwise: Num = 0.0
    messages: Num = 0.0
    overhead: Num = 0.0

    @property
    def time(self) -> Num:
        return sum(getattr(self, f.name) for f in fields(self))


@dataclass(frozen=True)
class StepModel:
    """Step times of one deployment. Made by :func:`step_model`."""

    deployment: Deployment
    rates: Rates
    rungs: Rungs = TIER_0
    # what depends on the two counts of rows alone; a simulation meets the same counts again and again
    _known: dict[tuple[float, float], StepTerms] = field(default_factory=dict, repr=False, compare=False)

    @property
    def model(self) -> Model:
        return self.deployment.model

    def time(self, batch: Batch) -> Num:
        """Seconds of a step over the batch."""
        return self.terms(batch).time

    def terms(self, batch: Batch) -> StepTerms:
        """The same by term. Where the ladder takes one maximum for a step, only its ``overhead`` and rest are told."""
        if self.rungs.mixing == "additive":
            return self._joint(batch)
        prompts = replace(batch, decodes=0.0, context=0.0, windowed_context=0.0)
        answers = Batch(decodes=batch.decodes, context=batch.context, windowed_context=batch.windowed_context)
        first, second = self._joint(prompts), self._joint(answers)
        if self.rungs.mixing == "sum":
            weights: tuple[Num, Num] = (1.0, 1.0)
        elif self.rungs.mixing == "max":
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

    def kernels(self, batch: Batch) -> tuple[Kernel, ...]:
        """Every kernel of a step, messages left out."""
        return (*self._row_kernels(batch.tokens, batch.sequences), *self._attention_kernels(batch))

    # Sums of a step

    def _joint(self, batch: Batch) -> StepTerms:
        rows = (batch.tokens, batch.sequences)
        if self.rungs.granularity == "step":
            return self._one_maximum(batch)
        common = None if any(map(is_array, rows)) else self._known.get(rows)
        if common is None:
            parts: dict[str, Num] = {"messages": self._messages(batch.tokens)}
            for k in self._row_kernels(*rows):
                parts[k.part] = parts.get(k.part, 0.0) + k.time
            common = StepTerms(**parts)
            if not any(map(is_array, rows)):
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
            "layers": some * LAYER_OVERHEAD * self.model.layers / tp,
        }[self.rungs.overhead]

    # Kernels

    def _rate(self, rate: Rate) -> Rate:
        """The rate as the rungs would have it."""
        memory = {"measured": rate.memory, "flat": FLAT_BANDWIDTH, "datasheet": 1.0}[self.rungs.bandwidth]
        compute = 1.0 if self.rungs.lookup == "flat" else rate.compute
        return replace(
            rate, compute=compute, memory=memory, start=rate.start if self.rungs.overhead == "kernels" else 0.0
        )

    def _kernel(self, name: str, part: str, layers: Num, flops: Num, bytes: Num, rate: Rate, half: bool) -> Kernel:
        m = self.deployment.machine
        peak = m.half_peak_flops if half else m.peak_flops
        return Kernel(name, part, layers, flops, bytes, self._rate(rate), peak, m.memory_bandwidth)

    @property
    def _products(self) -> Rate:
        return self.rates.products_8bit if self.deployment.precision in ("fp8", "int8") else self.rates.products_16bit

    def _row_kernels(self, tokens: Num, sequences: Num) -> tuple[Kernel, ...]:
        """Kernels whose work is so many rows: products, experts, and the passes over vectors between them."""
        m, s = self.model, self.deployment.split
        found = []
        for p in layer_products(m, int(s.tp), self.rungs.projections == "fused"):
            rows = tokens if p.rows == "tokens" else sequences
            width = s.head_bytes if p.part == "head" else s.weight_bytes
            some = minimum(1.0, rows)
            bytes = some * p.k * p.n * width + rows * (p.k + p.n) * ACTIVATION_BYTES
            flops = kernels.gemm_flops(rows, p.n, p.k)
            found.append(self._kernel(p.name, p.part, some * p.layers, flops, bytes, self._products, False))
        if m.is_moe:
            found.append(self._experts(tokens))
        passes = PASSES * (REPLICATED + (1.0 - REPLICATED) / s.tp)
        vectors = passes * tokens * m.hidden * ACTIVATION_BYTES
        small = self._kernel(
            "vectors", "elementwise", minimum(1.0, tokens) * m.layers, 0.0, vectors, self._products, True
        )
        return (*found, replace(small, starts=SMALL_KERNELS))

    def _experts(self, tokens: Num) -> Kernel:
        """Up and down of the experts that the tokens reach, as two grouped products."""
        w, s, m = self.deployment.work, self.deployment.split, self.model
        shards = s.ep * s.tp / min(s.ep, s.tp)
        hit = experts_hit(w.n_experts, w.top_k, maximum(1.0, tokens)) if self.rungs.experts == "hit" else w.n_experts
        each = w.n_experts if self.rungs.experts == "dense" else w.top_k
        flops = 2.0 * tokens * each * w.expert_params / shards
        some = minimum(1.0, tokens)
        bytes = some * hit * w.expert_params * s.expert_bytes / shards
        one = self._kernel("experts", "experts", some * m.n_moe_layers, flops, bytes, self._products, False)
        return replace(one, starts=2.0)

    def _attention_kernels(self, batch: Batch) -> tuple[Kernel, Kernel]:
        w, s, r = self.deployment.work, self.deployment.split, self.rates
        full, near = 1.0 - w.windowed, w.windowed

        def one(name: str, rate: Rate, pairs: Num, read: Num, macs: Num, sequences: Num) -> Kernel:
            flops = 2.0 * pairs * w.heads * macs / s.tp
            bytes = read * w.kv_elements * s.kv_bytes / min(s.tp, w.kv_shards)
            return self._kernel(name, name, w.layers * minimum(1.0, sequences), flops, bytes, rate, True)

        pairs = full * batch.prefill_pairs + near * batch.windowed_pairs
        read = full * batch.prefill_read + near * batch.windowed_read
        seen = full * batch.context + near * batch.windowed_context
        return (
            one("prefill_attention", r.prefill_attention, pairs, read, w.key_value_macs, batch.prefills),
            one("decode_attention", r.decode_attention, seen, seen, w.absorbed_macs, batch.decodes),
        )

    def _messages(self, tokens: Num) -> Num:
        """Two all-reduces a layer (one in a parallel block), each a kernel of its own."""
        d, m = self.deployment, self.deployment.machine
        if d.split.tp <= 1:
            return 0.0 * tokens
        bytes = tokens * self.model.hidden * ACTIVATION_BYTES
        start = self._rate(self.rates.products_16bit).start
        outer = d.split.tp / m.tp_inside
        inside = collectives.direct_all_reduce(bytes, m.tp_inside, m.intra_bandwidth * LINK, start)
        across = collectives.direct_all_reduce(bytes / m.tp_inside, outer, m.inter_bandwidth * LINK, start)
        return minimum(1.0, tokens) * self.model.layers * d.work.all_reduces * (inside + across)


def step_model(deployment: Deployment, rungs: Rungs = TIER_0, device_rates: Rates | None = None) -> StepModel:
    """The step model of a deployment.

    Parameters
    ----------
    deployment : Deployment
        As from :func:`mlsysim.inference.deploy`, without pipeline stages.
    rungs : Rungs
        Which form of each part; the top of the ladder by default.
    device_rates : Rates, optional
        What the kernels sustain; the measured rates of the device by default.

    Raises
    ------
    InputError
        A deployment with pipeline stages.

    >>> from mlsysim.inference import deploy
    >>> model = step_model(deploy("Llama-2-7B", "H100"))
    >>> round(model.time(Batch.of(model.model, decodes=[458])) * 1e3, 2)
    6.29
    """
    if deployment.split.pp > 1:
        raise InputError(f"step_model: pp = {deployment.split.pp:g} stages are not modelled; use tp, and pp = 1")
    return StepModel(deployment, rates(deployment.device) if device_rates is None else device_rates, rungs)
