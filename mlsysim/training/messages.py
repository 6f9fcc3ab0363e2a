"""Messages of a training step: inside a layer, of weights that are gathered for it, of gradients behind the last of them."""

from typing import Any, NamedTuple

from mlsysim import collectives, parallelism
from mlsysim._numeric import Num, even_share, maximum, minimum, where, whole
from mlsysim.training import equations
from mlsysim.training.ledger import ELEMENT_BYTES, FLASH_BACKWARD, GRADIENT_BYTES, Ledger
from mlsysim.training.parts import Efficiencies, Layout, Machine, Work

_MANY_EXPERTS = 1e6  # of a model that does not count them: a token's lie anywhere


class Links:
    """The bandwidth that each group of a layout reaches, from where its ranks lie."""

    def __init__(self, layout: Layout, machine: Machine, eff: Efficiencies) -> None:
        axes = tuple(a for a in layout.order.split("-") if a != "ep")
        sizes = {name: getattr(layout, name) for name in (*parallelism.AXES, "folded")}
        sizes["ep"] = layout.ep * layout.folded
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


def _swapped(w: Work, p: Layout, e: Efficiencies, links: Links, call: Ledger) -> Num:
    """What a layer waits in a pass for tokens swapped for heads, and back."""
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
    return passed


def _gathered_keys(p: Layout, e: Efficiencies, links: Links, gather: Num, moved: Num, call: Ledger) -> Num:
    """What a layer waits in a pass for keys and values that are gathered at once."""
    step = collectives.ring_latency(p.cp, links.place.inside["cp"], e.ring_node_step, e.ring_network_step)
    gathering = call(
        "CP gathering",
        collectives.ring_all_gather,
        bytes=moved,
        ranks=p.cp,
        bandwidth=links.ring("cp"),
        latency=gather * step,
    )
    return call(
        "exposed CP gathering", equations.exposed_time, communication=gathering + gather * e.cp_start, behind=0.0
    )


def context_parallel(
    w: Work, p: Layout, e: Efficiencies, links: Links, attend: Num, call: Ledger
) -> tuple[tuple[Num, Num], tuple[Num, Num]]:
    """Keys and values of other ranks' tokens: what a layer waits for them and what its attention hides, each forward and later.

    Round the ring a block travels while the attention with the block before it is computed, so each of the CP - 1 hops has
    one block's arithmetic to hide behind, whatever the other hops leave, and what hides slows it. A gathering comes before all attention.
    """
    if call.lacks(p.cp - 1):
        return (0.0, 0.0), (0.0, 0.0)
    again = p.recompute_full + p.recompute_selective
    if p.cp_swap:
        passed = _swapped(w, p, e, links, call)
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
    for way, tensors, work in (("forward", 1.0, 1.0), ("backward", 2.0, FLASH_BACKWARD / e.attention_backward)):
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
        stopped = call(
            f"contention of a CP hop, {way}",
            equations.contention_time,
            hidden=hop - left,
            moved=ring * tensors * keys / others / links.node,
            contention=e.contention,
        )
        waits.append((p.cp - 1.0) * (left + stopped))
        hidden.append((p.cp - 1.0) * (hop - left))
    gathered = _gathered_keys(p, e, links, gather, gather * keys * p.cp / others, call)
    later = again * waits[0] + waits[1] + (2.0 + again) * gathered
    return (waits[0] + gathered, later), (hidden[0], again * hidden[0] + hidden[1])


def tensor_parallel(w: Work, p: Layout, e: Efficiencies, links: Links, call: Ledger) -> Num:
    """All-reduces inside a layer that nothing hides."""
    # Of attention and of the MLP; where experts are whole, an MLP of theirs alone needs none
    parts = 1.0 + where(p.folded > 1, w.cut_mlp, 1.0)
    all_reduces = where(p.tp > 1, (2.0 + p.recompute_full) * parts, 0.0)
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
    return added * (1.0 - e.tp_overlap)


def expert_parallel(w: Work, p: Layout, e: Efficiencies, links: Links, tokens: Num, call: Ledger) -> Num:
    """Tokens to their experts and back, in a layer on average over those with experts and those without."""
    near, ep = links.place.inside["ep"], p.ep * p.folded
    nodes, routing = ep / near, where(w.routing > 0, w.routing, 1.0)
    top_k = w.top_k / routing
    dispatch: Num = 0.0
    if not call.lacks(w.top_k):
        experts = maximum(maximum(top_k, ep), where(w.experts > 0, w.experts / routing, _MANY_EXPERTS))
        reached = {
            name: call(name, collectives.places_reached, experts=experts * among / places, top_k=top_k, owners=among)
            for name, places, among in (
                ("nodes of a token", nodes, minimum(nodes, p.node_limit) if p.node_limit else nodes),
                ("devices of a token", ep, minimum(ep, p.node_limit * near) if p.node_limit else ep),
            )
            if not call.lacks(1.0 - p.every_copy)
        } or {"nodes of a token": top_k, "devices of a token": top_k}
        copies, forwarded = (
            where(p.every_copy > 0, every, once)
            for every, once in ((top_k, reached["nodes of a token"]), (top_k / nodes, reached["devices of a token"]))
        )
        dispatch = call(
            "expert dispatch",
            collectives.moe_dispatch,
            tokens=routing * tokens,
            token_bytes=ELEMENT_BYTES * where(w.routed_hidden > 0, w.routed_hidden, w.hidden) / p.tp,
            remote_nodes=copies * (nodes - 1.0) / nodes,
            local_copies=forwarded * (near - 1.0) / near,
            network_bandwidth=links.network,
            node_bandwidth=links.node,
        )
    # They get the share of the others inside a layer: a share of their own does not predict sources left out any better.
    # Out in the format of the plan, back in 16 bits; forward, backward, and forward again.
    there_and_back = 1.0 + p.dispatch_bytes / ELEMENT_BYTES
    return dispatch * (2.0 + p.recompute_full) * there_and_back * (1.0 - e.tp_overlap)


class Shards(NamedTuple):
    """Where the shards of weights lie: how many there are, and what a ring over them reaches."""

    whole_step: Num  # 1 where a pipeline keeps gathered weights for all micro-batches
    dense: Num
    expert: Num
    near: Num  # of them in a domain
    apart: Num  # ranks of a domain that share an expert's shards
    link: Num
    expert_link: Num


def shards_of(p: Layout, links: Links) -> Shards:
    """The shards of a layout."""
    whole_step = where((p.keeps_gathered > 0) & (p.pp > 1), 1.0, 0.0)
    shards = maximum(1.0, p.weight_shards)
    expert_shards = where(
        shards > 1, maximum(1.0, shards / p.ep), 1.0
    )  # whole weights are not shared, however many copies
    data = links.place.inside["data"]
    near = even_share(whole(shards), data)
    shard_link = links.between(near, near < shards)
    apart = maximum(1.0, near * p.folded / links.place.inside["ep"])
    expert_link = links.between(apart, apart < expert_shards)
    return Shards(whole_step, shards, expert_shards, near, apart, shard_link, expert_link)


def _gathered_weights(w: Work, p: Layout, e: Efficiencies, own: Shards, call: Ledger) -> Num:
    """How long the weights of a layer and of its experts travel."""
    _, shards, expert_shards, near, apart, shard_link, expert_link = own
    # Every layer is gathered anew, so a ring of many devices shows its steps; gradients are sent once.
    return call(
        "gathering weights",
        collectives.ring_all_gather,
        bytes=ELEMENT_BYTES * w.dense_params / p.tp,
        ranks=shards,
        bandwidth=shard_link,
        latency=collectives.ring_latency(shards, near, e.ring_node_step, e.ring_network_step),
    ) + call(
        "gathering experts",
        collectives.ring_all_gather,
        bytes=ELEMENT_BYTES * w.expert_params / (p.ep * p.tp),
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


def gathering(
    w: Work,
    p: Layout,
    e: Efficiencies,
    links: Links,
    own: Shards,
    keys: tuple[tuple[Num, Num], tuple[Num, Num]],
    first: Num,
    busy: Num,
    micro_batches: Num,
    call: Ledger,
) -> Num:
    """What a layer waits for its weights: behind its first pass, behind the others, and as contention.

    They are gathered layer by layer (twice, or once when they stay) and gradients scattered, behind the arithmetic of that
    layer. A pipeline that keeps the weights gathers them for one of its micro-batches; its gradients wait for the tail.
    """
    whole_step, shards, expert_shards, near, *_ = own
    if call.lacks(shards - 1):
        return 0.0
    shown, hidden = keys
    local, routed_params = w.dense_params / p.tp, w.expert_params / (p.ep * p.tp)
    gather = _gathered_weights(w, p, e, own, call)
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
    alone = where(expert_shards > 1, routed_params, 0.0) + where(p.weight_shards > 1, local, 0.0)
    exposed = exposed + call(
        "contention",
        equations.contention_time,
        hidden=maximum(0.0, times * gather - exposed),
        moved=times * ELEMENT_BYTES * alone / links.node,
        contention=e.contention,
    )
    return exposed / where(whole_step > 0, micro_batches, 1.0)


def sending(p: Layout, links: Links, own: Shards, dense: Num, routed: Num, call: Ledger) -> tuple[Num, Num]:
    """Time to send the gradients of so many parameters and what comes back, and what a ring over the copies reaches."""
    whole_step, shards, expert_shards, near, _, shard_link, expert_link = own
    near_experts, data, sharded = links.place.inside["ep"], links.place.inside["data"], p.weight_shards > 1
    both = 2.0 if p.schedule == "dualpipe" else 1.0  # stages of a device, and copies of a stage
    group = p.dp * p.cp
    copies, expert_copies = group / shards, maximum(1.0, group / (p.ep * expert_shards))
    tail = where(sharded, links.between(data / near, data / near < copies), links.ring("data"))
    alike = data * p.folded / near_experts  # ranks of a domain that hold the same experts
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
    return sent, tail
