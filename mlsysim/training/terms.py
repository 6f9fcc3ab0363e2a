"""What a training step is made of: the work of a layer, the messages around it, the bubble, the tail of the step.

:func:`step_terms` takes plain numbers or arrays (a plan per element) and splits the step into terms that sum to it. It
holds no formula of its own: each is a registered equation, here only given its numbers. Every efficiency is a named field
of :class:`~mlsysim.training.parts.Efficiencies`.
"""

from dataclasses import fields, replace
from typing import Any

from mlsysim import collectives, experts, flops, kernels, parallelism, roofline
from mlsysim._numeric import Num, concatenate, is_array, maximum, minimum, where
from mlsysim.training import equations
from mlsysim.training.ledger import ELEMENT_BYTES, FLASH_BACKWARD, Ledger
from mlsysim.training.messages import (
    Links,
    Shards,
    context_parallel,
    expert_parallel,
    gathering,
    sending,
    shards_of,
    tensor_parallel,
)
from mlsysim.training.parts import Efficiencies, Layout, Machine, StepTerms, Work

_BLOCK = 8192  # plans evaluated at a time
_PAIRED = {"dualpipe": 1, "dualpipe-v": 2}  # schedules that pair passes, and the chunks of a direction on a device
UNSPLIT_TRAFFIC = 10 / 34  # of a layer's activations, without sequence parallelism (korthikanti2022recompute, eq. 2)


def step_terms(work: Work, layout: Layout, machine: Machine, eff: Efficiencies) -> StepTerms:
    """Split one training step into terms.

    Groups lie where ``parallelism.placement`` puts them for the layout's order of ranks. Any field may be a vector; all
    vectors have the same length. Long ones are evaluated in blocks that stay in the processor's cache.
    """
    parts = (work, layout, machine, eff)
    size = max((len(v) for part in parts for v in vars(part).values() if is_array(v)), default=0)
    if size <= _BLOCK:
        return _terms(work, layout, machine, eff, Ledger(bare=size > 0))

    def cut(part: Any, start: int) -> Any:
        vectors = {k: v[start : start + _BLOCK] for k, v in vars(part).items() if is_array(v)}
        return replace(part, **vectors)

    bare = Ledger(bare=True)
    starts = range(0, size, _BLOCK)
    blocks = [_terms(cut(work, i), cut(layout, i), cut(machine, i), cut(eff, i), bare) for i in starts]
    return StepTerms(*(concatenate([getattr(b, f.name) for b in blocks]) for f in fields(StepTerms)))


def repeated_share(work: Work, layout: Layout, eff: Efficiencies) -> Num:
    """Share of a layer's products that recomputation does again.

    Nobody needs a layer's output twice: PyTorch's checkpointing stops before the last product, and XLA removes it.
    Megatron, which does not shard weights, runs the whole forward pass. Its selective recomputation repeats the attention
    core alone; with sharded weights the same word means some of the products.
    """
    sharded = layout.weight_shards > 1
    skipped = where(sharded, work.last_params / (work.dense_params + work.active_expert_params), 0.0)
    some = where(sharded, eff.selective_recompute, 0.0)
    return layout.recompute_full * (1.0 - skipped) + layout.recompute_selective * some + layout.repeated_products


def _per_rank(numbers: Num, hidden: Num, tp: Num) -> Num:
    """Numbers that a tensor-parallel rank reads or writes: of two hidden-sized tensors all, of the others its part."""
    whole_ones = minimum(numbers, 2.0 * hidden)
    return (numbers - whole_ones) / tp + whole_ones


def _routed(w: Work, p: Layout, m: Machine, e: Efficiencies, tokens: Num, local: Num, call: Ledger) -> Num:
    """Forward products of a layer's routed experts on one device, as in serving."""
    if call.lacks(w.top_k):
        return 0.0
    one = w.active_expert_params / where(w.top_k > 0, w.top_k, 1.0)
    counted = w.experts > 0
    rows = call(
        "tokens per expert",
        experts.tokens_per_expert,
        tokens=tokens * p.ep,
        top_k=w.top_k,
        experts=where(counted, w.experts, 1.0),
    )
    share = call(
        "share of the peak",
        experts.grouped_share,
        rows=where(counted & (rows > 0), rows, 1.0),
        sustained=e.gemm,
        tile=where(counted, e.tile, 0.0),
    )
    return call(
        "routed experts",
        experts.grouped_time,
        pairs=tokens * w.top_k / p.tp,
        expert_params=one,
        experts_hit=local / where(one > 0, one, 1.0),
        weight_bytes=ELEMENT_BYTES,
        peak_flops=m.peak_flops,
        memory_bandwidth=m.memory_bandwidth,
        compute_share=share,
        memory_share=e.memory,
    )


def _orthogonal(
    w: Work,
    p: Layout,
    m: Machine,
    e: Efficiencies,
    owners: Num,
    dense: Num,
    routed: Num,
    link: Num,
    call: Ledger,
) -> Num:
    """Muon beside its pass through memory: whole matrices gathered where they are shared, and their products."""
    iterations = 5.0
    share = p.tp * p.pp * owners
    work = (
        iterations
        * (w.layers + p.mtp)
        * (w.muon_flops / share + w.muon_expert_flops / (p.tp * p.pp * maximum(owners, p.ep)))
    )
    products = call(
        "Muon's products", roofline.compute_time, flops=work, peak_flops=m.half_peak_flops, efficiency=e.gemm
    )
    moments = ELEMENT_BYTES * (dense + routed) / (p.tp * p.pp)
    gathered = call(
        "gathering Muon's matrices", collectives.ring_all_gather, bytes=moments, ranks=owners, bandwidth=link
    )
    return products + gathered


def _products(
    w: Work, p: Layout, m: Machine, e: Efficiencies, tokens: Num, bandwidth: Num, call: Ledger
) -> tuple[Num, Num]:
    """Matrix products of a layer: those of its forward pass, and all."""
    local, routed_params = w.dense_params / p.tp, w.expert_params / (p.ep * p.tp)
    reads, writes = (_per_rank(numbers, w.hidden, p.tp) for numbers in (w.inputs, w.outputs))
    products = call("forward FLOPs of a token", flops.forward_matmul_flops, parameters=w.dense_params)
    dense_time = call(
        "products",
        kernels.measured_kernel_time,
        flops=products * tokens / p.tp,
        bytes=ELEMENT_BYTES * local,
        peak_flops=m.peak_flops,
        memory_bandwidth=m.memory_bandwidth,
        compute_efficiency=e.gemm,
        memory_efficiency=e.memory,
        unhidden_bytes=e.written * ELEMENT_BYTES * tokens * writes,
    )
    repeat = repeated_share(w, p, e)
    routed_time = _routed(w, p, m, e, tokens, routed_params, call)
    forward = dense_time + routed_time
    gemm = forward * (2.0 + p.weight_gradients + repeat)
    if not call.lacks(e.cast_bytes):
        there, back = (
            call(f"casts, {way}", equations.cast_time, numbers=tokens * n, cast_bytes=e.cast_bytes, bandwidth=bandwidth)
            for way, n in (("forward", reads), ("backward", writes))
        )
        gemm = gemm + there * (1.0 + repeat) + back
    return forward, gemm


def _attention(
    w: Work, p: Layout, m: Machine, e: Efficiencies, tokens: Num, bandwidth: Num, call: Ledger
) -> tuple[Num, Num]:
    """Attention of a layer: its forward pass, and all."""
    again, sharded = p.recompute_full + p.recompute_selective, p.weight_shards > 1
    core = call(
        "attention FLOPs of a token",
        flops.attention_core_flops,
        layers=1.0,
        context=p.attended,
        heads=w.heads,
        **{
            name: call(f"{name} in the matrix unit", kernels.tile_padding, size=size, tile=e.array)
            for name, size in (("qk_dim", w.qk_dim), ("v_dim", w.v_dim))
        },
    )
    attend = call(
        "attention",
        roofline.compute_time,
        flops=core * tokens / p.tp,
        peak_flops=m.half_peak_flops,
        efficiency=call(
            "attention's share",
            kernels.softmax_share,
            share=where(sharded & (e.attention_sharded > 0), e.attention_sharded, e.attention),
            pair_flops=where(w.heads > 0, 2.0 * (w.qk_dim + w.v_dim), 1.0),
            exponential_flops=e.exponential,
        ),
    )
    if p.cp_contiguous:
        attend = attend * call("causal imbalance", parallelism.causal_imbalance, pieces=p.cp)
    attention = attend * (1.0 + FLASH_BACKWARD / e.attention_backward + again)
    if not (call.lacks(p.cp - 1) or call.lacks(e.joined) or p.cp_swap):
        # Each block of keys that came round the ring gives a part of the result, and backward of the gradients, that is added
        # to what is there: it is read, and the sum is read and written.
        parts = where(p.cp_gather > 0, 0.0, e.joined * (p.cp - 1.0)) * tokens
        joined = w.heads * (w.v_dim * (1.0 + again) + w.qk_dim) + w.kv_heads * (w.qk_dim + w.v_dim)
        attention = attention + call(
            "CP parts joined",
            equations.elementwise_time,
            tokens=parts,
            hidden=joined / p.tp,
            passes=3.0,
            bandwidth=bandwidth,
            element_bytes=ELEMENT_BYTES,
        )
    return attend, attention


def _elementwise(w: Work, p: Layout, e: Efficiencies, tokens: Num, bandwidth: Num, call: Ledger) -> tuple[Num, Num]:
    """What passes over memory between the products of a layer: its forward pass, and all."""
    again = p.recompute_full + p.recompute_selective
    split = where(p.sequence_parallel > 0, 1.0 / p.tp, UNSPLIT_TRAFFIC + (1.0 - UNSPLIT_TRAFFIC) / p.tp)
    touch = call(
        "elementwise",
        equations.elementwise_time,
        tokens=tokens,
        hidden=where(w.width > 0, w.width, w.hidden) * split,
        passes=e.elementwise,
        bandwidth=bandwidth,
        element_bytes=ELEMENT_BYTES,
    )
    elementwise = touch * (2.0 + again)
    if not call.lacks(p.repeated_numbers):
        elementwise = elementwise + call(
            "modules again",
            equations.elementwise_time,
            tokens=tokens,
            hidden=p.repeated_numbers * split,
            passes=1.0,
            bandwidth=bandwidth,
            element_bytes=ELEMENT_BYTES,
        )
    return touch, elementwise


def _head(w: Work, p: Layout, m: Machine, e: Efficiencies, tokens: Num, bandwidth: Num, call: Ledger) -> Num:
    """The head and its loss, for one micro-batch."""
    head = call(
        "LM head",
        roofline.compute_time,
        flops=call("head FLOPs of a token", flops.forward_matmul_flops, parameters=w.head_params)
        * tokens
        / p.tp
        * (2.0 + p.weight_gradients),
        peak_flops=m.half_peak_flops,
        efficiency=e.head,
    )
    if not call.lacks(e.loss_passes):
        head = head + call(
            "loss",
            equations.elementwise_time,
            tokens=tokens,
            hidden=w.head_params / w.hidden / p.tp,
            passes=e.loss_passes,
            bandwidth=bandwidth,
            element_bytes=ELEMENT_BYTES,
        )
    return head


def _offloaded(p: Layout, m: Machine, tokens: Num, forward: Num, rest: Num, call: Ledger) -> Num:
    """What a layer waits for activations that go to the host's memory behind its forward pass and come back behind the rest."""
    if call.lacks(p.offload_activations):
        return 0.0
    # Each way on its own lanes
    moved = call(
        "activations to the host",
        collectives.transfer_time,
        bytes=p.offload_activations * tokens,
        bandwidth=where(m.host_bandwidth > 0, m.host_bandwidth, m.memory_bandwidth),
    )
    return call("exposed offloading, forward", equations.exposed_time, communication=moved, behind=forward) + call(
        "exposed offloading, backward", equations.exposed_time, communication=moved, behind=rest
    )


def _idle(p: Layout, stage: Num, ready: Num, weights: Num, pair: Num, call: Ledger) -> Num:
    """The bubble of a schedule that takes the backward pass apart, in seconds of a step."""
    if p.schedule in _PAIRED:
        chunks = _PAIRED[p.schedule]  # each a part of a device's work; cut in half there are twice as many
        return call(
            "bubble",
            parallelism.dualpipe_bubble,
            pp=chunks * p.pp,
            pair=pair / chunks,
            backward_input=maximum(0.0, pair - ready - weights) / chunks,
            backward_weight=weights / chunks,
        )
    return call(
        "bubble",
        parallelism.split_backward_bubble if p.schedule == "zb-h1" else parallelism.v_shape_bubble,
        pp=p.pp,
        forward=ready,
        backward_input=maximum(0.0, stage - ready - weights),
        backward_weight=weights,
    )


def _launches(w: Work, p: Layout, e: Efficiencies, call: Ledger) -> Num:
    """Host time of a layer, forward and backward."""
    return call(
        "launches",
        equations.launching_time,
        layer=e.layer_overhead + where(p.cp_gather > 0, 0.0, p.cp - 1.0) * e.hop_overhead * (not p.cp_swap),
        expert=e.expert_overhead,
        experts=w.experts / (p.ep * p.folded),
    ) * (1.0 + p.recompute_full / 3.0)


def _terms(w: Work, p: Layout, m: Machine, e: Efficiencies, call: Ledger) -> StepTerms:
    """:func:`step_terms` on one block."""
    links = Links(p, m, e)
    tokens = p.micro_batch * p.seq / p.cp
    shares = {"global_batch": p.global_batch, "dp": p.dp, "micro_batch": p.micro_batch}
    micro_batches = maximum(1.0, call("micro-batches", parallelism.micro_batches, **shares))
    stage_layers = -(-w.layers // p.pp)  # the fullest stage binds
    # The pipeline fills by whole chunks: unequal ones are as good as fewer equal ones of the largest size.
    chunks = stage_layers / -(-w.layers // (p.pp * p.virtual_stages))
    bandwidth = call(
        "memory bandwidth",
        roofline.effective_bandwidth,
        memory_bandwidth=m.memory_bandwidth,
        memory_efficiency=e.memory,
    )

    # Arithmetic of one layer and micro-batch: forward, then everything else
    forward, gemm = _products(w, p, m, e, tokens, bandwidth, call)
    attend, attention = _attention(w, p, m, e, tokens, bandwidth, call)
    touch, elementwise = _elementwise(w, p, e, tokens, bandwidth, call)
    overhead = _launches(w, p, e, call)

    # Messages inside the layer
    tensor = tensor_parallel(w, p, e, links, call)
    keys = context_parallel(w, p, e, links, attend, call)
    context = keys[0][0] + keys[0][1]
    expert = expert_parallel(w, p, e, links, tokens, call)
    own = shards_of(p, links)
    first = forward + attend + touch
    busy = gemm + attention + elementwise - first
    exposed = gathering(w, p, e, links, own, keys, first, busy, micro_batches, call)

    # One micro-batch on the fullest stage, and the head
    head = _head(w, p, m, e, tokens, bandwidth, call)
    alone, rest = (gemm, attention, expert), elementwise + overhead
    (gemm, attention, expert), pair, unpaired = _paired(p, e, micro_batches, alone, rest, call)
    host = _offloaded(p, m, tokens, first, gemm + attention + elementwise - forward - attend - touch, call)
    layer = gemm + attention + elementwise + overhead + tensor + context + expert + exposed + host
    hop, wait = _handed(w, p, links, micro_batches, chunks, unpaired, call)
    head = _last(w, p, m, e, tokens, head, layer, stage_layers, call)
    stage = call("stage", equations.stage_time, layers=stage_layers, layer=layer, extra=head + hop)
    idle: Num = 0.0
    if p.schedule != "1f1b":
        ready = stage_layers * (forward + attend + touch + overhead / 2.0)
        weights = stage_layers * forward * p.weight_gradients
        both = pair[0] + pair[1] + elementwise + overhead + tensor + context + pair[2] + host
        idle = _idle(p, stage, ready, weights, stage_layers * both, call)
    gradients, update = _update(w, p, m, e, links, own, stage, bandwidth, call)
    step, slowest = _step(p, e, stage, micro_batches, chunks, gradients + idle, update, call)
    n = stage_layers * micro_batches
    return StepTerms(
        gemm=n * gemm,
        attention=n * attention,
        elementwise=n * elementwise,
        head=micro_batches * head,
        overhead=n * (overhead + host),
        tensor_parallel=n * tensor,
        context_parallel=n * context,
        expert_parallel=n * expert,
        weight_gather=n * exposed,
        pipeline_transfer=micro_batches * hop,
        bubble=wait * micro_batches * stage + idle,
        data_parallel=gradients,
        optimizer=update,
        straggler=slowest - step,
    )


def _step(
    p: Layout, e: Efficiencies, stage: Num, micro_batches: Num, chunks: Num, gradients: Num, update: Num, call: Ledger
) -> tuple[Num, Num]:
    """Time of a step on devices of one speed, and with the slowest of so many."""
    step = call(
        "step",
        equations.pipelined_step,
        stage=stage,
        micro_batches=micro_batches,
        pp=p.pp if p.schedule == "1f1b" else 1,
        virtual_stages=chunks if p.schedule == "1f1b" else 1,
        gradients=gradients,
        optimizer=update,
    )
    slowest = call(
        "slowest device",
        equations.straggler_time,
        mean=step,
        variation=e.variation,
        devices=call("devices", parallelism.devices, tp=p.tp, pp=p.pp, cp=p.cp, dp=p.dp),
    )
    return step, slowest


Triple = tuple[Num, Num, Num]


def _paired(
    p: Layout, e: Efficiencies, micro_batches: Num, alone: Triple, rest: Num, call: Ledger
) -> tuple[Triple, Triple, Num]:
    """Products, attention and expert messages of a layer: on average, beside another micro-batch, and the share without one.

    Beside products run the messages of another micro-batch, on multiprocessors that the products then lack. The first and
    last P + 1 passes have no partner: their messages stay in sight.
    """
    if p.schedule not in _PAIRED and not p.overlap_experts:
        return alone, alone, 1.0
    gemm, attention, expert = alone
    chunks = _PAIRED.get(p.schedule, 1)
    unpaired = minimum(1.0, (chunks * p.pp + 1.0) / (chunks * micro_batches))
    left = 1.0 - where(expert > 0, e.messengers, 0.0)  # a dense model sends nothing to experts
    pair_gemm, pair_attention = gemm / left, attention / left
    pair_expert = call(
        "exposed expert messages of a pair",
        equations.exposed_time,
        communication=expert,
        behind=pair_gemm + pair_attention + rest,
    )
    pair = (pair_gemm, pair_attention, pair_expert)
    mean = tuple(unpaired * one + (1.0 - unpaired) * two for one, two in zip(alone, pair, strict=True))
    return (mean[0], mean[1], mean[2]), pair, unpaired


def _handed(
    w: Work, p: Layout, links: Links, micro_batches: Num, chunks: Num, unpaired: Num, call: Ledger
) -> tuple[Num, Num]:
    """What stages hand each other takes, and the bubble over the work of a stage."""
    if call.lacks(p.pp - 1):
        return 0.0, 0.0
    handed = call(
        "PP message",
        parallelism.pp_transfer_bytes,
        seq=p.seq / p.cp,
        micro_batch=p.micro_batch,
        hidden=w.hidden,
        micro_batches=1.0,
        virtual_stages=2.0 if p.schedule.endswith("-v") else p.virtual_stages,
        directions=where(p.pp > 1, 2.0, 0.0),
        shards=p.tp,  # every rank of a tensor-parallel group sends its part
        element_bytes=ELEMENT_BYTES,
    )
    link = where(links.place.leaves["pp"], links.network, links.node)
    hop = call("PP transfer", collectives.transfer_time, bytes=handed, bandwidth=link)
    if p.schedule == "1f1b":
        return hop, call(
            "bubble", parallelism.bubble_ratio, pp=p.pp, micro_batches=micro_batches, virtual_stages=chunks
        )
    return hop * (unpaired if p.schedule in _PAIRED else 1.0), 0.0


def _last(
    w: Work, p: Layout, m: Machine, e: Efficiencies, tokens: Num, head: Num, layer: Num, stage_layers: Num, call: Ledger
) -> Num:
    """What the fullest stage does beside its layers: head, loss and modules, less the layers that the last stage lacks."""
    # Where layers do not divide evenly, the last stage, which has the head, has one less
    spare = where(p.pp > 1, stage_layers - w.layers // p.pp, 0.0)
    slots = stage_layers * p.pp - w.layers
    fewest = minimum(2.0, slots)
    if not call.lacks(p.mtp):
        # Behind the last layer: two streams projected to one, a layer more, and the head and its loss again. Whoever cuts the
        # model makes room for that where the layers allow it.
        fewest = where(p.mtp > 0, minimum(2.0 * stage_layers, slots), fewest)
        spare = where((p.mtp > 0) & (p.pp > 1), minimum(stage_layers, slots), spare)
        one = call("MTP projection of a token", flops.forward_matmul_flops, parameters=2.0 * w.hidden**2)
        projection = call(
            "MTP projection",
            roofline.compute_time,
            flops=one * tokens / p.tp * (2.0 + p.weight_gradients),
            peak_flops=m.peak_flops,
            efficiency=e.gemm,
        )
        head = head + p.mtp * (head + layer + projection)
    if p.schedule == "dualpipe":  # the device of both ends has its two stages in turn
        spare = where(p.pp > 1, fewest, 0.0) / 2.0
        head = head / 2.0
    return maximum(0.0, head - spare * layer)


def _update(
    w: Work, p: Layout, m: Machine, e: Efficiencies, links: Links, own: Shards, stage: Num, bandwidth: Num, call: Ledger
) -> tuple[Num, Num]:
    """The tail: gradients that the last backward does not hide, then the optimizer."""
    all_layers = w.layers + p.mtp
    own_matrices = w.embedding_params + p.mtp * 2.0 * w.hidden**2
    dense = (all_layers * w.dense_params + own_matrices) * p.weight_gradients
    routed = all_layers * w.expert_params / p.ep * p.weight_gradients
    sent, tail = sending(p, links, own, dense, routed, call)
    gradients = call(
        "exposed DP", equations.exposed_time, communication=sent, behind=stage * 2.0 / 3.0, overlap=e.dp_overlap
    )
    owners = maximum(p.optimizer_shards, own.dense)
    owned = (dense / owners + routed / where(owners > 1, maximum(1.0, owners / p.ep), 1.0)) / (p.tp * p.pp)
    update = call(
        "optimizer",
        equations.optimizer_time,
        parameters=owned,
        bandwidth=bandwidth,
        bytes_per_parameter=e.optimizer_bytes - 2.0 * (8.0 - p.moment_bytes),
    )
    if p.muon:
        update = update + _orthogonal(w, p, m, e, owners, dense, routed, tail, call)
    if p.offload_states:
        states = call(
            "states from the host",
            collectives.transfer_time,
            bytes=owned * (4.0 + p.moment_bytes),
            bandwidth=where(m.host_bandwidth > 0, m.host_bandwidth, m.memory_bandwidth),
        )
        update = maximum(update, 2.0 * states)  # in and out in turn, behind the update of what has come
    return gradients, update
