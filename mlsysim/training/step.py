"""How long one training step takes: the work of a layer, the messages around it, the bubble, the tail of the step.

:func:`step_terms` is the core. It takes plain floats or arrays (a plan per element) and splits the step into terms that
sum to it. Every efficiency is a named field of :class:`Efficiencies`; the defaults are the datasheet's.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from mlsysim import catalog, units
from mlsysim._numeric import Num, all_true, concatenate, is_array, maximum, minimum, where
from mlsysim.catalog import Device
from mlsysim.catalog.shapes import Model
from mlsysim.errors import InputError
from mlsysim.parallelism import Plan
from mlsysim.tables import Table, table
from mlsysim.transformer import parameter_count

_BLOCK = 8192  # plans evaluated at a time
ELEMENT_BYTES = 2.0  # activations and working weights are 16-bit, also when the products run in FP8
FLASH_BACKWARD = 2.5  # products of an attention backward over those of its forward: 5 against 2


@dataclass(frozen=True)
class Efficiencies:
    """How far software stays behind the datasheet. Fractions are of a peak or of a link.

    The defaults are datasheet rates, no traffic but that of the products, no overhead, and nothing hidden except
    gathered weights behind the arithmetic of their layer.
    """

    name: str = "datasheet"
    source: str = "every resource at its datasheet rate"
    gemm: Num = 1.0  # of the peak of the precision that the linear layers run in
    head: Num = 1.0  # of the 16-bit peak: the LM head stays 16-bit when the layers run in FP8
    attention: Num = 1.0  # of the 16-bit peak
    memory: Num = 1.0  # of the memory bandwidth
    link: Num = 1.0  # of the link bandwidth, one way
    elementwise: Num = 0.0  # passes over a hidden-sized tensor per layer forward that no product does: norms, residuals
    elementwise_mlp: Num = 0.0  # the same over an MLP-sized tensor: activation, gate
    logit_bytes: Num = 0.0  # traffic per logit of the loss, forward and backward
    layer_overhead: Num = 0.0  # s per layer and micro-batch that nothing hides: launches, synchronisation
    selective_recompute: Num = 0.0  # share of the products that selective recompute repeats
    tp_overlap: Num = 0.0  # share of the tensor-parallel messages hidden behind products
    dp_overlap: Num = 0.0  # share of the last backward that gradient messages can hide behind
    optimizer_bytes: Num = 30.0  # per local parameter: read gradient, master and moments, write them and the weight


DATASHEET = Efficiencies()


@dataclass(frozen=True)
class Work:
    """What a model asks for. Per layer and per token unless it says otherwise."""

    layers: Num
    hidden: Num
    dense_params: Num  # weights of the matrices that every token meets: attention, dense MLP, shared experts
    mlp_width: Num  # width of the tensor between the MLP's products, active experts together
    attention_width: Num  # heads x mean of the query-key and the value size
    kv_width: Num  # keys and values of one token, elements
    vocab: Num
    embedding_params: Num  # of the whole model, the head included
    active_expert_params: Num = 0.0  # routed experts that one token meets
    expert_params: Num = 0.0  # all routed experts
    top_k: Num = 0.0


@dataclass(frozen=True)
class Layout:
    """How the step is split. Flags are 0 or 1, shares lie in between."""

    global_batch: Num
    seq: Num
    micro_batch: Num = 1.0
    tp: Num = 1.0
    pp: Num = 1.0
    cp: Num = 1.0
    dp: Num = 1.0
    ep: Num = 1.0
    virtual_stages: Num = 1.0
    sequence_parallel: Num = 1.0
    recompute_full: Num = 0.0
    recompute_selective: Num = 0.0
    weight_shards: Num = 1.0  # devices that share the weights (FSDP, ZeRO-3); 1: each has its own
    optimizer_shards: Num = 1.0
    attended: Num = 0.0  # keys that a query meets on average: half the sequence when causal
    weight_gradients: Num = 1.0  # 0 with frozen weights (LoRA)


@dataclass(frozen=True)
class Machine:
    """One device and its links, byte/s per device and one way."""

    peak_flops: Num
    half_peak_flops: Num  # of the 16-bit formats
    memory_bandwidth: Num
    intra_bandwidth: Num
    inter_bandwidth: Num
    domain: Num  # devices that intra_bandwidth joins


@dataclass(frozen=True)
class StepTerms:
    """Seconds of one step by term; they sum to the step."""

    gemm: Num
    attention: Num
    elementwise: Num
    head: Num
    overhead: Num
    tensor_parallel: Num
    context_parallel: Num
    expert_parallel: Num
    weight_gather: Num
    pipeline_transfer: Num
    bubble: Num
    data_parallel: Num
    optimizer: Num

    @property
    def time(self) -> Num:
        return sum(getattr(self, f.name) for f in fields(self))


def group_bandwidth(ranks: Num, stride: Num, machine: Machine) -> Num:
    """Bandwidth per rank of a group whose neighbours lie ``stride`` devices apart.

    Inside the domain the link. Across, the ranks that share a domain work side by side, each through its own network
    card, so the group moves min(link, ranks per domain x card).
    """
    per_domain = maximum(1.0, minimum(ranks, machine.domain // stride))
    across = minimum(machine.intra_bandwidth, machine.inter_bandwidth * per_domain)
    return where(ranks * stride <= machine.domain, machine.intra_bandwidth, across)


def step_terms(work: Work, layout: Layout, machine: Machine, eff: Efficiencies) -> StepTerms:
    """Split one training step into terms.

    Ranks are laid out as Megatron does: tensor parallel innermost, then context, data, pipeline. Any field may be a
    vector; all vectors have the same length. Long ones are evaluated in blocks that stay in the processor's cache.
    """
    parts = (work, layout, machine, eff)
    size = max((len(v) for part in parts for v in vars(part).values() if is_array(v)), default=1)
    if size <= _BLOCK:
        return _terms(*parts)

    def cut(part: Any, start: int) -> Any:
        vectors = {k: v[start : start + _BLOCK] for k, v in vars(part).items() if is_array(v)}
        return replace(part, **vectors)

    blocks = [_terms(*(cut(part, start) for part in parts)) for start in range(0, size, _BLOCK)]
    return StepTerms(*(concatenate([getattr(b, f.name) for b in blocks]) for f in fields(StepTerms)))


def _terms(work: Work, layout: Layout, machine: Machine, eff: Efficiencies) -> StepTerms:
    """:func:`step_terms` on one block."""
    p, w, m, e = layout, work, machine, eff
    tokens = p.micro_batch * p.seq / p.cp
    micro_batches = maximum(1.0, p.global_batch / (p.dp * p.micro_batch))
    stage_layers = -(-w.layers // p.pp)  # the fullest stage binds
    bandwidth = m.memory_bandwidth * e.memory
    again = p.recompute_full + p.recompute_selective

    # Arithmetic of one layer and micro-batch: forward, then everything else
    grouped = w.expert_params / p.ep
    rate = e.gemm * m.peak_flops
    load = ELEMENT_BYTES * (w.dense_params + grouped) / p.tp / bandwidth
    forward = maximum(2.0 * (w.dense_params + w.active_expert_params) * tokens / p.tp / rate, load)
    sharded = p.weight_shards > 1
    repeat = p.recompute_full + p.recompute_selective * where(sharded, e.selective_recompute, 0.0)
    gemm = forward * (2.0 + p.weight_gradients + repeat)
    attend = 4.0 * p.attended * w.attention_width * tokens / p.tp / (e.attention * m.half_peak_flops)
    attention = attend * (1.0 + FLASH_BACKWARD + again)
    split = where(p.sequence_parallel > 0, 1.0 / p.tp, 0.5 + 0.5 / p.tp)
    touched = e.elementwise * w.hidden * split + e.elementwise_mlp * w.mlp_width / p.tp
    touch = ELEMENT_BYTES * tokens * touched / bandwidth
    elementwise = touch * (2.0 + again)
    overhead = e.layer_overhead * (1.0 + p.recompute_full / 3.0)

    # Messages inside the layer
    activation = ELEMENT_BYTES * tokens * w.hidden
    tp_link = e.link * group_bandwidth(p.tp, 1.0, m)
    ring = (p.tp - 1.0) / p.tp * activation / tp_link
    tensor = 2.0 * ring * (3.0 + p.weight_gradients + 2.0 * p.recompute_full) * (1.0 - e.tp_overlap)
    cp_link = e.link * group_bandwidth(p.cp, p.tp, m)
    keys = 3.0 * ELEMENT_BYTES * tokens * w.kv_width / p.tp * (p.cp - 1.0) / cp_link
    context = maximum(0.0, keys - attention)
    ep_link = e.link * group_bandwidth(p.ep, p.tp * p.cp, m)
    dispatch = activation * w.top_k / p.tp * (p.ep - 1.0) / p.ep / ep_link
    expert = dispatch * (4.0 + 2.0 * p.recompute_full)

    # Weights gathered layer by layer (twice) and gradients scattered, behind the arithmetic of that layer
    first = forward + attend + touch
    busy = gemm + attention + elementwise - first
    shards = maximum(1.0, p.weight_shards)
    shard_link = e.link * group_bandwidth(shards, p.tp, m)
    layer_bytes = ELEMENT_BYTES * (w.dense_params + grouped) / p.tp
    gather = where(sharded, layer_bytes * (1.0 - 1.0 / shards) / shard_link, 0.0)
    exposed = maximum(0.0, gather - first) + maximum(0.0, (1.0 + p.weight_gradients) * gather - busy)

    # One micro-batch on the fullest stage, which also carries the head when there is one stage
    logits = w.vocab * tokens / p.tp
    head = logits * (
        2.0 * w.hidden * (2.0 + p.weight_gradients) / (e.head * m.half_peak_flops) + e.logit_bytes / bandwidth
    )
    layer = gemm + attention + elementwise + overhead + tensor + context + expert + exposed
    pp_link = e.link * group_bandwidth(p.pp, p.tp * p.cp * p.dp, m)
    hop = where(p.pp > 1, 2.0 * p.virtual_stages * activation * split / pp_link, 0.0)
    stage = stage_layers * layer + head + hop
    bubble = stage * (p.pp - 1.0) / p.virtual_stages

    # The tail: gradients that the last backward does not hide, then the optimizer
    local = (w.layers * (w.dense_params + grouped) + w.embedding_params) / (p.tp * p.pp) * p.weight_gradients
    group = p.dp * p.cp
    replicas = group / shards
    volume = local / shards * 6.0 * (1.0 - 1.0 / maximum(1.0, replicas))
    dp_link = e.link * where(sharded, group_bandwidth(replicas, p.tp * shards, m), group_bandwidth(group, p.tp, m))
    data = maximum(0.0, volume / dp_link - e.dp_overlap * stage * 2.0 / 3.0)
    update = local / maximum(p.optimizer_shards, shards) * e.optimizer_bytes / bandwidth

    n = stage_layers * micro_batches
    return StepTerms(
        gemm=n * gemm,
        attention=n * attention,
        elementwise=n * elementwise,
        head=micro_batches * head,
        overhead=n * overhead,
        tensor_parallel=n * tensor,
        context_parallel=n * context,
        expert_parallel=n * expert,
        weight_gather=n * exposed,
        pipeline_transfer=micro_batches * hop,
        bubble=bubble,
        data_parallel=data,
        optimizer=update,
    )


def work_of(model: Model | str) -> Work:
    """The work of a catalogue model (or of a shape of your own) in the terms of :func:`step_terms`.

    >>> work_of("Llama-3.1-8B").attention_width
    4096
    """
    m = catalog.model(model)
    count = parameter_count(replace(m, qkv_bias=False, output_bias=False, mlp_bias=False, router_bias=False))
    routed = count.experts / m.layers
    value = m.v_head_dim or m.head_dim
    query = m.head_dim + m.qk_rope_head_dim if m.is_mla else m.head_dim
    return Work(
        layers=m.layers,
        hidden=m.hidden,
        dense_params=(count.attention + count.dense_mlp + count.shared_experts + count.router) / m.layers,
        mlp_width=m.ffn,
        attention_width=m.heads * (query + value) // 2,
        kv_width=(m.heads if m.is_mla else m.kv_heads) * (query + value),
        vocab=m.vocab,
        embedding_params=count.embedding + count.lm_head,
        active_expert_params=routed * m.top_k / m.n_experts if m.is_moe else 0.0,
        expert_params=routed,
        top_k=m.top_k * (1.0 - m.n_dense_layers / m.layers) / m.moe_every if m.is_moe else 0.0,
    )


def layout_of(plan: Plan, global_batch: Num, seq: Num, attn_len: Num | None = None, task: str = "pretrain") -> Layout:
    """A plan in the terms of :func:`step_terms`; attention is causal over ``attn_len`` tokens (default: the sequence)."""
    group = plan.dp * plan.cp
    shards = {"fsdp": group, "hsdp": plan.hsdp_group}.get(plan.sharding, 1)
    return Layout(
        global_batch=global_batch,
        seq=seq,
        micro_batch=plan.micro_batch,
        tp=plan.tp,
        pp=plan.pp,
        cp=plan.cp,
        dp=plan.dp,
        ep=plan.ep,
        virtual_stages=plan.virtual_stages,
        sequence_parallel=1.0 if plan.sequence_parallel else 0.0,
        recompute_full=1.0 if plan.recompute == "full" else 0.0,
        recompute_selective=1.0 if plan.recompute == "selective" else 0.0,
        weight_shards=shards,
        optimizer_shards=1 if plan.sharding == "none" else group,
        attended=(seq if attn_len is None else attn_len) / 2.0,
        weight_gradients=0.0 if task == "lora" else 1.0,
    )


@dataclass(frozen=True)
class TrainingStep:
    """What :func:`training_step` returns. MFU counts matrix and causal attention FLOPs ("matmul-causal")."""

    terms: StepTerms
    devices: Num
    tokens: Num
    model_flops: Num
    hardware_flops: Num
    peak_flops: float
    efficiencies: Efficiencies

    @property
    def time(self) -> Num:
        return self.terms.time

    @property
    def mfu(self) -> Num:
        """Model FLOPs over what the devices could do in the step; work done twice counts once."""
        return self.model_flops / (self.time * self.devices * self.peak_flops)

    @property
    def hfu(self) -> Num:
        """The same with the repeated forward passes counted."""
        return self.hardware_flops / (self.time * self.devices * self.peak_flops)

    @property
    def binding(self) -> str:
        """The largest term of one step."""
        return max((f.name for f in fields(self.terms)), key=lambda name: float(getattr(self.terms, name)))

    def explain(self) -> Table:
        """Every term in seconds and as a share of the step; they sum to it."""
        parts = [(f.name.replace("_", " "), getattr(self.terms, f.name)) for f in fields(self.terms)]
        rows = [
            (name, units.format(value, "s"), units.percent(value / self.time, signed=False)) for name, value in parts
        ]
        return table(
            ("Term", "Time", "Share"), [*rows, ("step", units.format(self.time, "s"), units.percent(1.0, signed=False))]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        return {
            "time_s": self.time,
            "terms_s": {f.name: getattr(self.terms, f.name) for f in fields(self.terms)},
            "binding": self.binding,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "mfu_convention": "matmul-causal",
            "devices": self.devices,
            "tokens_per_step": self.tokens,
            "tokens_per_s": self.tokens / self.time,
            "model_flops": self.model_flops,
            "hardware_flops": self.hardware_flops,
            "peak_flops_per_s": self.peak_flops,
            "efficiencies": self.efficiencies.name,
        }


def training_step(
    model: Model | str,
    plan: Plan,
    device: Device | str,
    *,
    global_batch: Num,
    seq: Num,
    intra_bandwidth: float | None = None,
    inter_bandwidth: float | None = None,
    domain: int | None = None,
    precision: str = "bf16",
    efficiencies: Efficiencies = DATASHEET,
    attn_len: Num | None = None,
    task: str = "pretrain",
) -> TrainingStep:
    """One optimizer step of a model, split by a plan, on devices of one kind.

    Links and the size of the scale-up domain come from the catalogue unless given; ``inter_bandwidth`` (per device and
    one way) is needed as soon as the plan leaves one domain. A single plan is checked against the model.
    """
    m, d = catalog.model(model), catalog.device(device)
    if not any(is_array(getattr(plan, name)) for name in ("tp", "pp", "cp", "dp", "ep", "micro_batch")):
        plan.check(m, global_batch=global_batch if isinstance(global_batch, int) else None)
    size = d.scale_up_domain if domain is None else domain
    if inter_bandwidth is None and not all_true(plan.devices <= size):
        raise InputError(
            f"training_step: inter_bandwidth is missing, and the plan's devices do not fit a domain of {size}; "
            "give the bandwidth of the network per device, one way, in byte/s"
        )
    intra = d.scale_up_bandwidth if intra_bandwidth is None else intra_bandwidth
    machine = Machine(
        peak_flops=d.peak_flops[precision],
        half_peak_flops=d.peak_flops["bf16"],
        memory_bandwidth=d.memory_bandwidth,
        intra_bandwidth=intra,
        inter_bandwidth=intra if inter_bandwidth is None else inter_bandwidth,
        domain=size,
    )
    work, layout = work_of(m), layout_of(plan, global_batch, seq, attn_len, task)
    tokens = global_batch * seq
    layer = 2.0 * (work.dense_params + work.active_expert_params) * work.layers
    core = 4.0 * layout.attended * work.attention_width * work.layers
    head = 2.0 * work.vocab * work.hidden
    passes = 2.0 + layout.weight_gradients
    counted = tokens * (passes * (layer + head) + 3.0 * core)
    again = tokens * (layout.recompute_full * (layer + core) + layout.recompute_selective * core)
    return TrainingStep(
        terms=step_terms(work, layout, machine, efficiencies),
        devices=plan.devices,
        tokens=tokens,
        model_flops=counted,
        hardware_flops=counted + again,
        peak_flops=machine.peak_flops,
        efficiencies=efficiencies,
    )
