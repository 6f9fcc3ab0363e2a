"""What a training step is made of: the work of a layer, the messages around it, the bubble, the tail of the step.

:func:`step_terms` takes plain numbers or arrays (a plan per element) and splits the step into terms that sum to it. It
holds no formula of its own: each is a registered equation, here only given its numbers. Every efficiency is a named field
of :class:`~mlsysim.training.parts.Efficiencies`.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from mlsysim import collectives, experts, flops, kernels, parallelism, roofline
from mlsysim._numeric import Num, concatenate, even_share, is_array, maximum, minimum, where, whole
from mlsysim.equations import REGISTRY, signature_of
from mlsysim.results import Term
from mlsysim.training import equations
from mlsysim.training.parts import Efficiencies, Layout, Machine, StepTerms, Work

_BLOCK = 8192  # plans evaluated at a time
_LABELS = {e.function: label for label, e in REGISTRY.items()}
ELEMENT_BYTES = 2.0  # activations and working weights are 16-bit, also when the products run in FP8
GRADIENT_BYTES = 4.0  # gradients of whole weights are added up in FP32, those of sharded weights in 16 bits
FLASH_BACKWARD = 2.5  # products of an attention backward over those of its forward: 5 against 2
UNSPLIT_TRAFFIC = 10 / 34  # of a layer's activations, without sequence parallelism (korthikanti2022recompute, eq. 2)


class _Ledger:
    """Evaluates equations; when asked to, writes down each with its numbers, for ``explain()``."""

    def __init__(self, bare: bool, terms: list[Term] | None = None) -> None:
        self.bare = bare
        self.terms = terms

    def __call__(self, name: str, function: Callable[..., Num], **arguments: Num) -> Num:
        # The one place where the registry's checks are passed over: on arrays of plans they cost more than the equations,
        # and each block would repeat them. Plan and catalogue have checked what comes in.
        value = getattr(function, "__wrapped__", function)(**arguments) if self.bare else function(**arguments)
        if self.terms is not None and not _absent(value, arguments):
            given = signature_of(function).bind(**arguments)
            given.apply_defaults()
            self.terms.append(Term(name, value, _LABELS[function], given.arguments))
        return value

    def lacks(self, number: Num) -> bool:
        """Whether a single plan lacks what there are so many of: that takes no time, and nobody need work it out."""
        return not self.bare and bool(number == 0)


def _absent(value: Num, arguments: dict[str, Num]) -> bool:
    """Whether a term says nothing: a message that nobody sends and its hiding, a part that the model does not have."""
    return not is_array(value) and value == 0 and not arguments.get("communication", 0)


def step_terms(work: Work, layout: Layout, machine: Machine, eff: Efficiencies) -> StepTerms:
    """Split one training step into terms.

    Groups lie where ``parallelism.placement`` puts them for the layout's order of ranks. Any field may be a vector; all
    vectors have the same length. Long ones are evaluated in blocks that stay in the processor's cache.
    """
    parts = (work, layout, machine, eff)
    size = max((len(v) for part in parts for v in vars(part).values() if is_array(v)), default=0)
    if size <= _BLOCK:
        return _terms(work, layout, machine, eff, _Ledger(bare=size > 0))

    def cut(part: Any, start: int) -> Any:
        vectors = {k: v[start : start + _BLOCK] for k, v in vars(part).items() if is_array(v)}
        return replace(part, **vectors)

    bare = _Ledger(bare=True)
    starts = range(0, size, _BLOCK)
    blocks = [_terms(cut(work, i), cut(layout, i), cut(machine, i), cut(eff, i), bare) for i in starts]
    return StepTerms(*(concatenate([getattr(b, f.name) for b in blocks]) for f in fields(StepTerms)))


def explained(work: Work, layout: Layout, machine: Machine, eff: Efficiencies) -> list[Term]:
    """Every equation that :func:`step_terms` evaluates, in its order, with the numbers in it."""
    found: list[Term] = []
    parts = (work, layout, machine, eff)
    bare = any(is_array(v) for part in parts for v in vars(part).values())
    _terms(work, layout, machine, eff, _Ledger(bare, found))
    return found


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


class _Links:
    """The bandwidth that each group of a layout reaches, from where its ranks lie."""

    def __init__(self, layout: Layout, machine: Machine, eff: Efficiencies) -> None:
        axes = tuple(a for a in layout.order.split("-") if a != "ep")
        sizes = {name: getattr(layout, name) for name in (*parallelism.AXES, "ep")}
        self.place = parallelism.place(sizes, axes, machine.domain)
        self.node = eff.link * machine.intra_bandwidth
        self.network = where(eff.network > 0, eff.network, eff.link) * machine.inter_bandwidth

    def ring(self, name: str) -> Num:
        """Per rank, for a ring over a whole group."""
        return self.between(self.place.inside[name], self.place.leaves[name])

    def between(self, inside: Num, leaves: Any) -> Num:
        """Per rank, for a ring over a group with so many ranks in a domain."""
        return where(leaves, collectives.ring_bandwidth(inside, self.node, self.network), self.node)

    def hop(self, name: str) -> Num:
        """From a rank to its neighbour in the group: over a boundary it has its own device's share of the adapters.

        A library's rings enter each node through another adapter, all at once. A message between two devices cannot.
        """
        return where(self.place.leaves[name], minimum(self.node, self.network), self.node)


def _context_parallel(
    w: Work, p: Layout, e: Efficiencies, links: _Links, attend: Num, call: _Ledger
) -> tuple[tuple[Num, Num], tuple[Num, Num]]:
    """Keys and values of other ranks' tokens: what a layer waits for them and what its attention hides, each forward and later.

    Round the ring a block travels while the attention with the block before it is computed, so each of the CP - 1 hops has
    one block's arithmetic to hide behind, whatever the other hops leave. A gathering comes before all attention.
    """
    if call.lacks(p.cp - 1):
        return (0.0, 0.0), (0.0, 0.0)
    again = p.recompute_full + p.recompute_selective
    if p.cp_swap:
        swapped = call(
            "CP swap of tokens and heads, one pass",
            parallelism.ulysses_bytes,
            seq=p.seq,
            micro_batch=p.micro_batch,
            heads=w.heads / p.tp,
            kv_heads=maximum(1.0, w.kv_heads / p.tp),
            qk_dim=w.qk_dim,
            v_dim=w.v_dim,
            layers=1.0,
            cp=p.cp,
            element_bytes=ELEMENT_BYTES,
        )
        # Each pass has one swap before the attention and one after it; a partner in the same domain has the fast link
        near = links.place.inside["cp"]
        far = (p.cp - near) / maximum(1.0, p.cp - 1.0)
        passed = call(
            "CP swap",
            collectives.transfer_time,
            bytes=swapped,
            bandwidth=where(far > 0, minimum(links.network / where(far > 0, far, 1.0), links.node), links.node),
            latency=where(p.cp > 1, 2.0 * e.cp_start, 0.0),
        )
        return (passed, passed * (1.0 + again)), (0.0, 0.0)
    keys = call(
        "CP keys and values, one pass",
        parallelism.cp_exchange_bytes,
        seq=p.seq,
        micro_batch=p.micro_batch,
        kv_heads=maximum(1.0, w.kv_heads / p.tp),
        head_dim=(w.qk_dim + w.v_dim) / 2.0,
        layers=1.0,
        cp=p.cp,
        passes=1.0,
        element_bytes=ELEMENT_BYTES,
    )
    others = maximum(1.0, p.cp - 1.0)
    gather = where(p.cp_gather > 0, where(p.cp > 1, 1.0, 0.0), 0.0)
    ring = where(p.cp > 1, 1.0 - gather, 0.0)
    start = e.cp_start + where(links.place.leaves["cp"], e.ring_network_step, e.ring_node_step)
    waits: list[Num] = []
    hidden: list[Num] = []
    # Backward the blocks go round again, and their gradients with them.
    for way, tensors, work in (("forward", 1.0, 1.0), ("backward", 2.0, FLASH_BACKWARD)):
        hop = call(
            f"CP hop, {way}",
            collectives.transfer_time,
            bytes=ring * tensors * keys / others,
            bandwidth=links.hop("cp"),
            latency=ring * start,
        )
        left = call(
            f"exposed CP hop, {way}", equations.exposed_time, communication=hop, behind=ring * work * attend / p.cp
        )
        waits.append((p.cp - 1.0) * left)
        hidden.append((p.cp - 1.0) * (hop - left))
    step = collectives.ring_latency(p.cp, links.place.inside["cp"], e.ring_node_step, e.ring_network_step)
    gathering = call(
        "CP gathering",
        collectives.ring_all_gather,
        bytes=gather * keys * p.cp / others,
        ranks=p.cp,
        bandwidth=links.ring("cp"),
        latency=gather * step,
    )
    gathered = call(
        "exposed CP gathering", equations.exposed_time, communication=gathering + gather * e.cp_start, behind=0.0
    )
    later = again * waits[0] + waits[1] + (2.0 + again) * gathered
    return (waits[0] + gathered, later), (hidden[0], again * hidden[0] + hidden[1])


def _per_rank(numbers: Num, hidden: Num, tp: Num) -> Num:
    """Numbers that a tensor-parallel rank reads or writes: of two hidden-sized tensors all, of the others its part."""
    whole_ones = minimum(numbers, 2.0 * hidden)
    return (numbers - whole_ones) / tp + whole_ones


def _routed(w: Work, p: Layout, m: Machine, e: Efficiencies, tokens: Num, local: Num, call: _Ledger) -> Num:
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
    call: _Ledger,
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


def _terms(w: Work, p: Layout, m: Machine, e: Efficiencies, call: _Ledger) -> StepTerms:
    """:func:`step_terms` on one block."""
    links = _Links(p, m, e)
    tokens = p.micro_batch * p.seq / p.cp
    micro_batches = maximum(
        1.0,
        call(
            "micro-batches",
            parallelism.micro_batches,
            global_batch=p.global_batch,
            dp=p.dp,
            micro_batch=p.micro_batch,
        ),
    )
    stage_layers = -(-w.layers // p.pp)  # the fullest stage binds
    # The pipeline fills by whole chunks: unequal ones are as good as fewer equal ones of the largest size.
    chunks = stage_layers / -(-w.layers // (p.pp * p.virtual_stages))
    bandwidth = call(
        "memory bandwidth",
        roofline.effective_bandwidth,
        memory_bandwidth=m.memory_bandwidth,
        memory_efficiency=e.memory,
    )
    again = p.recompute_full + p.recompute_selective
    sharded = p.weight_shards > 1

    # Arithmetic of one layer and micro-batch: forward, then everything else
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
    core = call(
        "attention FLOPs of a token",
        flops.attention_core_flops,
        layers=1.0,
        context=p.attended,
        heads=w.heads,
        qk_dim=w.qk_dim,
        v_dim=w.v_dim,
    )
    attend = call(
        "attention",
        roofline.compute_time,
        flops=core * tokens / p.tp,
        peak_flops=m.half_peak_flops,
        efficiency=where(sharded & (e.attention_sharded > 0), e.attention_sharded, e.attention),
    )
    if p.cp_contiguous:
        attend = attend * call("causal imbalance", parallelism.causal_imbalance, pieces=p.cp)
    attention = attend * (1.0 + FLASH_BACKWARD + again)
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
    overhead = call(
        "launches",
        equations.launching_time,
        layer=e.layer_overhead,
        expert=e.expert_overhead,
        experts=w.experts / p.ep,
    ) * (1.0 + p.recompute_full / 3.0)

    # Messages inside the layer
    all_reduces = where(p.tp > 1, 4.0 + 2.0 * p.recompute_full, 0.0)
    message = call(
        "TP message",
        parallelism.tp_allreduce_bytes,
        seq=p.seq / p.cp,
        micro_batch=p.micro_batch,
        hidden=w.hidden,
        layers=1.0,
        all_reduces=all_reduces,
        element_bytes=ELEMENT_BYTES,
    )
    added = call(
        "TP all-reduce",
        collectives.ring_all_reduce,
        bytes=message,
        ranks=p.tp,
        bandwidth=links.ring("tp"),
        latency=all_reduces
        * collectives.ring_latency(p.tp, links.place.inside["tp"], e.ring_node_step, e.ring_network_step),
    )
    tensor = added * (1.0 - e.tp_overlap)
    shown, hidden = _context_parallel(w, p, e, links, attend, call)
    context = shown[0] + shown[1]
    near_experts = links.place.inside["ep"]
    dispatch: Num = 0.0
    if not call.lacks(w.top_k):
        dispatch = call(
            "expert dispatch",
            collectives.moe_dispatch,
            tokens=tokens,
            token_bytes=ELEMENT_BYTES * w.hidden / p.tp,
            remote_nodes=call(
                "other nodes of a token",
                parallelism.limited_nodes,
                top_k=w.top_k,
                nodes=p.ep / near_experts,
                limit=p.node_limit,
            )
            if p.node_limit
            else collectives.nodes_reached(w.top_k, p.ep / near_experts),
            local_copies=w.top_k * (near_experts - 1.0) / near_experts,
            network_bandwidth=links.network,
            node_bandwidth=links.node,
        )
    # They get the share of the others inside a layer: a share of their own does not predict sources left out any better.
    # Out in the format of the plan, back in 16 bits; forward, backward, and forward again.
    there_and_back = 1.0 + p.dispatch_bytes / ELEMENT_BYTES
    expert = dispatch * (2.0 + p.recompute_full) * there_and_back * (1.0 - e.tp_overlap)

    # Weights gathered layer by layer (twice, or once when they stay) and gradients scattered, behind the arithmetic of
    # that layer. A pipeline that keeps the weights gathers them for one of its micro-batches; its gradients wait for the tail
    whole_step = where((p.keeps_gathered > 0) & (p.pp > 1), 1.0, 0.0)
    first = forward + attend + touch
    busy = gemm + attention + elementwise - first
    shards = maximum(1.0, p.weight_shards)
    expert_shards = maximum(1.0, shards / p.ep)
    data = links.place.inside["data"]
    near = even_share(whole(shards), data)
    shard_link = links.between(near, near < shards)
    apart = maximum(1.0, near / near_experts)  # ranks of a domain that share an expert's shards
    expert_link = links.between(apart, apart < expert_shards)
    exposed: Num = 0.0
    if not call.lacks(shards - 1):
        # Every layer is gathered anew, so a ring of many devices shows its steps; gradients are sent once.
        gather = call(
            "gathering weights",
            collectives.ring_all_gather,
            bytes=ELEMENT_BYTES * w.dense_params / p.tp,
            ranks=shards,
            bandwidth=shard_link,
            latency=collectives.ring_latency(shards, near, e.ring_node_step, e.ring_network_step),
        ) + call(
            "gathering experts",
            collectives.ring_all_gather,
            bytes=ELEMENT_BYTES * routed_params,
            ranks=expert_shards,
            bandwidth=expert_link,
            latency=where(
                w.expert_params > 0,
                collectives.ring_latency(
                    expert_shards, minimum(apart, expert_shards), e.ring_node_step, e.ring_network_step
                ),
                0.0,
            ),
        )
        # While keys and values are on the same links, they carry no weights; on other links they travel at the same time.
        same_links = where(links.place.leaves["cp"], near < shards, near >= shards)
        beside = [where(same_links, -covered, open) for covered, open in zip(hidden, shown, strict=True)]
        exposed = call(
            "exposed gathering, forward",
            equations.exposed_time,
            communication=gather,
            behind=first + beside[0],
        ) + call(
            "exposed gathering, backward",
            equations.exposed_time,
            communication=(1.0 - p.keeps_gathered + p.weight_gradients * (1.0 - whole_step)) * gather,
            behind=busy + beside[1],
        )
        times = 2.0 - p.keeps_gathered + p.weight_gradients * (1.0 - whole_step)
        alone = where(expert_shards > 1, routed_params, 0.0) + where(sharded, local, 0.0)
        exposed = exposed + call(
            "contention",
            equations.contention_time,
            hidden=maximum(0.0, times * gather - exposed),
            moved=times * ELEMENT_BYTES * alone / links.node,
            contention=e.contention,
        )
        exposed = exposed / where(whole_step > 0, micro_batches, 1.0)

    # One micro-batch on the fullest stage, and the head
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
    unpaired: Num = 1.0
    pair_gemm, pair_attention, pair_expert = gemm, attention, expert
    if p.schedule == "dualpipe":
        # Beside products run the messages of another micro-batch, on multiprocessors that the products then lack. The first and
        # last P + 1 passes have no partner: their messages stay in sight.
        unpaired = minimum(1.0, (p.pp + 1.0) / micro_batches)
        left = 1.0 - e.messengers
        pair_gemm, pair_attention = gemm / left, attention / left
        pair_expert = call(
            "exposed expert messages of a pair",
            equations.exposed_time,
            communication=expert,
            behind=pair_gemm + pair_attention + elementwise + overhead,
        )
        gemm, attention, expert = (
            unpaired * single + (1.0 - unpaired) * pair
            for single, pair in ((gemm, pair_gemm), (attention, pair_attention), (expert, pair_expert))
        )
    host: Num = 0.0
    if not call.lacks(p.offload_activations):
        # Out behind the forward pass, and in again behind the backward pass, each way on its own lanes
        moved = call(
            "activations to the host",
            collectives.transfer_time,
            bytes=p.offload_activations * tokens,
            bandwidth=where(m.host_bandwidth > 0, m.host_bandwidth, m.memory_bandwidth),
        )
        host = call(
            "exposed offloading, forward", equations.exposed_time, communication=moved, behind=forward + attend + touch
        ) + call(
            "exposed offloading, backward",
            equations.exposed_time,
            communication=moved,
            behind=gemm + attention + elementwise - forward - attend - touch,
        )
    layer = gemm + attention + elementwise + overhead + tensor + context + expert + exposed + host
    hop: Num = 0.0
    wait: Num = 0.0
    if not call.lacks(p.pp - 1):
        handed = call(
            "PP message",
            parallelism.pp_transfer_bytes,
            seq=p.seq / p.cp,
            micro_batch=p.micro_batch,
            hidden=w.hidden,
            micro_batches=1.0,
            virtual_stages=p.virtual_stages,
            directions=where(p.pp > 1, 2.0, 0.0),
            shards=p.tp,  # every rank of a tensor-parallel group sends its part
            element_bytes=ELEMENT_BYTES,
        )
        pp_link = where(links.place.leaves["pp"], links.network, links.node)
        hop = call("PP transfer", collectives.transfer_time, bytes=handed, bandwidth=pp_link) * unpaired
        if p.schedule == "1f1b":
            wait = call("bubble", parallelism.bubble_ratio, pp=p.pp, micro_batches=micro_batches, virtual_stages=chunks)
    # Where layers do not divide evenly, the last stage, which has the head, has one less
    spare = where(p.pp > 1, stage_layers - w.layers // p.pp, 0.0)
    slots = stage_layers * p.pp - w.layers
    fewest = minimum(2.0, slots)
    if not call.lacks(p.mtp):
        # Behind the last layer: two streams projected to one, a layer more, and the head and its loss again. Whoever cuts the
        # model makes room for that where the layers allow it.
        fewest = where(p.mtp > 0, minimum(2.0 * stage_layers, slots), fewest)
        spare = where((p.mtp > 0) & (p.pp > 1), minimum(stage_layers, slots), spare)
        projection = call(
            "MTP projection",
            roofline.compute_time,
            flops=call("MTP projection of a token", flops.forward_matmul_flops, parameters=2.0 * w.hidden**2)
            * tokens
            / p.tp
            * (2.0 + p.weight_gradients),
            peak_flops=m.peak_flops,
            efficiency=e.gemm,
        )
        head = head + p.mtp * (head + layer + projection)
    if p.schedule == "dualpipe":  # the device of both ends has its two stages in turn
        spare = where(p.pp > 1, fewest, 0.0) / 2.0
        head = head / 2.0
    head = maximum(0.0, head - spare * layer)
    stage = call("stage", equations.stage_time, layers=stage_layers, layer=layer, extra=head + hop)

    idle: Num = 0.0
    if p.schedule != "1f1b":
        ready = stage_layers * (forward + attend + touch + overhead / 2.0)
        weights = stage_layers * forward * p.weight_gradients
        if p.schedule == "dualpipe":
            pair = stage_layers * (
                pair_gemm + pair_attention + elementwise + overhead + tensor + context + pair_expert + host
            )
            idle = call(
                "bubble",
                parallelism.dualpipe_bubble,
                pp=p.pp,
                pair=pair,
                backward_input=maximum(0.0, pair - ready - weights),
                backward_weight=weights,
            )
        else:
            idle = call(
                "bubble",
                parallelism.split_backward_bubble if p.schedule == "zb-h1" else parallelism.v_shape_bubble,
                pp=p.pp,
                forward=ready,
                backward_input=maximum(0.0, stage - ready - weights),
                backward_weight=weights,
            )

    # The tail: gradients that the last backward does not hide, then the optimizer
    both = 2.0 if p.schedule == "dualpipe" else 1.0  # stages of a device, and copies of a stage
    all_layers = w.layers + p.mtp
    own_matrices = w.embedding_params + p.mtp * 2.0 * w.hidden**2
    dense = (all_layers * w.dense_params + own_matrices) * p.weight_gradients
    routed = all_layers * w.expert_params / p.ep * p.weight_gradients
    group = p.dp * p.cp
    copies, expert_copies = group / shards, maximum(1.0, group / (p.ep * expert_shards))
    tail = where(sharded, links.between(data / near, data / near < copies), links.ring("data"))
    alike = data / near_experts  # ranks of a domain that hold the same experts
    expert_tail = where(sharded, tail, links.between(alike, alike < expert_copies))
    scattered = where(sharded, ELEMENT_BYTES, GRADIENT_BYTES)
    returned = where(p.optimizer_shards > 1, ELEMENT_BYTES, GRADIENT_BYTES)  # new weights, or the summed gradients
    sent: Num = 0.0
    for kind, parameters, ranks, link in (
        ("DP", both * dense / shards, both * copies, tail),
        ("expert DP", both * routed / expert_shards, both * expert_copies, expert_tail),
    ):
        if call.lacks(parameters) or call.lacks(ranks - 1):
            continue
        for what, collective, size in (
            ("gradients", collectives.ring_reduce_scatter, scattered),
            ("results", collectives.ring_all_gather, returned),
        ):
            part = call(
                f"{kind} {what}",
                parallelism.dp_gradient_bytes,
                parameters=parameters,
                tp=p.tp,
                pp=p.pp,
                grad_bytes=size,
            )
            sent = sent + call(f"sending {kind} {what}", collective, bytes=part, ranks=ranks, bandwidth=link)
    for kind, parameters, ranks, link in (
        ("whole", dense * whole_step, shards, shard_link),
        ("whole expert", routed * whole_step, expert_shards, expert_link),
    ):
        if call.lacks(parameters) or call.lacks(ranks - 1):
            continue
        part = call(
            f"{kind} gradients",
            parallelism.dp_gradient_bytes,
            parameters=parameters,
            tp=p.tp,
            pp=p.pp,
            grad_bytes=GRADIENT_BYTES,
        )
        sent = sent + call(
            f"scattering {kind} gradients", collectives.ring_reduce_scatter, bytes=part, ranks=ranks, bandwidth=link
        )
    gradients = call(
        "exposed DP", equations.exposed_time, communication=sent, behind=stage * 2.0 / 3.0, overlap=e.dp_overlap
    )
    owners = maximum(p.optimizer_shards, shards)
    owned = (dense / owners + routed / maximum(1.0, owners / p.ep)) / (p.tp * p.pp)
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
    step = call(
        "step",
        equations.pipelined_step,
        stage=stage,
        micro_batches=micro_batches,
        pp=p.pp if p.schedule == "1f1b" else 1,
        virtual_stages=chunks if p.schedule == "1f1b" else 1,
        gradients=gradients + idle,
        optimizer=update,
    )
    slowest = call(
        "slowest device",
        equations.straggler_time,
        mean=step,
        variation=e.variation,
        devices=call("devices", parallelism.devices, tp=p.tp, pp=p.pp, cp=p.cp, dp=p.dp),
    )

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
