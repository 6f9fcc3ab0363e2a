"""Models of the catalogue and plans, in the terms of a training step."""

from dataclasses import replace
from typing import Any

from mlsysim import catalog, flops
from mlsysim._numeric import Num
from mlsysim.catalog.operations import Attention, Product, each, weights
from mlsysim.catalog.shapes import Model
from mlsysim.equations import cache_by_identity
from mlsysim.memory import OPTIMIZERS, SCALINGS
from mlsysim.parallelism import Plan
from mlsysim.training.equations import muon_flops
from mlsysim.training.parts import Layout, Work
from mlsysim.transformer import matrix_count


def work_of(model: Model | str) -> Work:
    """The work of a catalogue model (or of a shape of your own) in the terms of :func:`step_terms`.

    >>> work_of("Llama-3.1-8B").qk_dim
    128
    """
    return _work(catalog.model(model))


@cache_by_identity
def _work(m: Model) -> Work:
    m.check_whole("work_of")
    count, n = matrix_count(m), m.n_layers
    core = m.core or _NONE
    routed = count.experts / n
    kv_heads = core.heads if core.latent_v else core.kv_heads
    experts = m.experts
    moved = activations(
        hidden=m.hidden,
        heads=core.heads,
        kv_heads=kv_heads,
        qk_dim=core.qk_dim,
        v_dim=core.v_dim,
        ranks=m.rank("q_down") + core.latent_v,
        matrices=3.0 if m.gated_mlp else 2.0,
        ffn=_width(m, "dense_mlp") + _width(m, "shared_experts"),
        copies=m.n_moe_layers / n * m.top_k,
        expert_ffn=m.moe_ffn,
        routed_hidden=_narrow(m),
    )
    return Work(
        layers=n,
        hidden=m.hidden,
        dense_params=(
            count.attention
            + count.recurrence
            + count.indexer
            + count.dense_mlp
            + count.shared_experts
            + count.router
            + count.other
        )
        / n,
        heads=core.heads,
        qk_dim=core.qk_dim,
        v_dim=core.v_dim,
        kv_heads=kv_heads,
        head_params=flops.matmul_parameters(m) - flops.layer_matmul_parameters(m),
        embedding_params=count.embedding + count.lm_head,
        active_expert_params=routed * experts.used / experts.copies if experts else 0.0,
        expert_params=routed,
        top_k=m.top_k * m.n_moe_layers / n,
        last_params=sum(k * weights(o) for k, o in m.products("dense_mlp", "down")) / n,
        experts=m.n_moe_layers / n * m.n_experts,
        routing=m.n_moe_layers / n if experts else 1.0,
        cut_mlp=1.0 if count.shared_experts or not experts else 1.0 - m.n_moe_layers / n,
        routed_hidden=_narrow(m),
        muon_flops=_muon(m, False) / n,
        muon_expert_flops=_muon(m, True) / n,
        **moved,
    )


_NONE = Attention(0, 0, 0, 0, 0)


def _width(m: Model, part: str) -> float:
    """Numbers between the matrices of an MLP that a token of a layer meets, on average over unlike layers."""
    return sum(k * o.k * o.used for k, o in m.products(part, "down")) / m.n_layers


def _narrow(m: Model) -> int:
    """Numbers of a token that routed experts read and write, where not hidden; else 0."""
    return m.experts.k if m.experts and m.experts.k != m.hidden else 0


def _muon(m: Model, experts: bool) -> float:
    """Arithmetic of an iteration of Muon on the matrices of all layers: those of routed experts, or all others.

    Attention and MLPs are counted matrix by matrix, a gate apart from the way up; recurrences and indexers, which few models
    have, and what is no matrix of a layer's own, such as a gate on attention, are left to AdamW.
    """
    total = 0.0
    for layers, o in each(m.layers):
        if (
            not isinstance(o, Product)
            or (o.part == "experts") != experts
            or o.part not in _TRAINED
            or o.name in _BESIDE
        ):
            continue
        gates = 2 if o.name == "up" and m.gated_mlp else 1
        rows, columns = sorted((o.k, o.n // gates))
        total += layers * o.copies * gates * float(muon_flops(rows, columns, 1.0))
    return total


_TRAINED, _BESIDE = ("attention", "dense_mlp", "experts", "shared_experts"), ("gate", "to experts", "from experts")


def repeated(m: Model, modules: tuple[str, ...], work: Work) -> tuple[float, float]:
    """What modules of a layer cost when they are computed again: their share of its products, and numbers written and read.

    Norms read and write their stream, an activation function reads what goes into it and writes what comes out.
    """
    products = numbers = 0.0
    if "layernorm" in modules:
        numbers += 4.0 * m.hidden
    if "mla_up_proj" in modules and m.is_mla:
        up = sum(k * weights(o) for name in ("q_up", "kv_up") for k, o in m.products("attention", name))
        products = up / m.n_layers / float(work.dense_params + work.active_expert_params)
    if "moe_act" in modules:
        width = sum(_width(m, part) for part in ("dense_mlp", "experts", "shared_experts"))
        numbers += (3.0 if m.gated_mlp else 2.0) * width
    return products, numbers


def activations(
    *,
    hidden: float,
    heads: float,
    kv_heads: float,
    qk_dim: float,
    v_dim: float,
    ranks: float,
    matrices: float,
    ffn: float,
    copies: float,
    expert_ffn: float,
    routed_hidden: float = 0.0,
) -> dict[str, float]:
    """Numbers per token and layer: what products read (``inputs``) and write (``outputs``), and the ``width`` of the GPT
    block that keeps as many activations, which is its hidden size.

    A layer keeps the inputs of its norms and products, queries, keys, values and results of attention, and what lies between
    the matrices of its MLP: 16 numbers per hidden unit in a GPT block (korthikanti2022recompute, sec. 4.1, masks left out).
    Each of the ``copies`` of a token that go to experts is written before their products and after them, ``routed_hidden``
    numbers wide (0: the hidden size).

    >>> gpt = {"hidden": 8.0, "heads": 2.0, "kv_heads": 2.0, "qk_dim": 4.0, "v_dim": 4.0, "ranks": 0.0, "matrices": 2.0}
    >>> activations(**gpt, ffn=32.0, copies=0.0, expert_ffn=0.0)
    {'width': 8.0, 'inputs': 56.0, 'outputs': 72.0}
    """
    results = heads * v_dim
    projected = heads * qk_dim + kv_heads * (qk_dim + v_dim) + ranks
    inner, routed = ffn + copies * expert_ffn, copies * (routed_hidden or hidden)
    return {
        "width": (4.0 * hidden + projected + results + matrices * inner + 2.0 * routed) / 16.0,
        "inputs": 2.0 * hidden + routed + results + inner,
        "outputs": 2.0 * hidden + routed + projected + (matrices - 1.0) * inner,
    }


def mean_context(model: Model, seq: Num) -> Num:
    """Keys that a query meets under a causal mask, on average over positions and over layers: none without attention.

    >>> mean_context(catalog.model("Llama-3.1-8B"), 8191)
    4096.0
    """
    return (
        sum(n * flops.attention_context(seq, core.window or core.picked or seq) for n, core in model.cores)
        / model.n_layers
    )


def layout_of(
    plan: Plan,
    global_batch: Num,
    seq: Num,
    attn_len: Num | None = None,
    task: str = "pretrain",
    model: Model | str | None = None,
) -> Layout:
    """A plan in the terms of :func:`step_terms`; attention is causal over ``attn_len`` tokens (default: the sequence).

    The model is needed for sliding windows and for modules of multi-token prediction only.
    """
    length = seq if attn_len is None else attn_len
    return _further(plan, _usual(plan, global_batch, seq, length, task, model), model, task)


def _further(plan: Plan, layout: Layout, model: Model | str | None, task: str) -> Layout:
    """What few plans ask for, in the terms of a layout."""
    asked: dict[str, Any] = {}
    if plan.schedule != "1f1b":
        asked["schedule"] = plan.schedule
    if plan.cp_comm_type == "a2a":
        asked["cp_swap"] = True
    elif plan.cp_balance == "contiguous":
        asked["cp_contiguous"] = True
    if plan.node_limit is not None:
        asked["node_limit"] = plan.node_limit
    if plan.dispatch != "bf16":
        asked["dispatch_bytes"] = SCALINGS["fp8-blockwise"].stored_bytes
    if plan.dispatcher != "per-node":
        asked["every_copy"] = 1.0
    if plan.overlap_experts:
        asked["overlap_experts"] = True
    if plan.optimizer != "adamw":
        kept = OPTIMIZERS[plan.optimizer]
        asked |= {"moment_bytes": 8.0 - kept.saved, "muon": plan.optimizer == "muon"}
    if plan.offload in ("optimizer", "both"):
        asked["offload_states"] = True
    if model is not None and (modules := plan.modules_trained(model, task)):
        asked["mtp"] = float(modules)
    if model is not None and (plan.recompute_layers is not None or plan.recompute_modules):
        m = catalog.model(model)
        if plan.recompute_layers is not None:
            asked["recompute_full"] = plan.recompute_layers / plan.slowest_stage_layers(m.n_layers)
        else:
            products, numbers = repeated(m, plan.recompute_modules, work_of(m))
            asked |= {"repeated_products": products, "repeated_numbers": numbers}
            asked["recompute_selective"] = 1.0 if "core_attn" in plan.recompute_modules else 0.0
    return replace(layout, **asked) if asked else layout


def _usual(plan: Plan, global_batch: Num, seq: Num, length: Num, task: str, model: Model | str | None) -> Layout:
    return Layout(
        global_batch=global_batch,
        seq=seq,
        micro_batch=plan.micro_batch,
        tp=plan.tp,
        pp=plan.pp,
        cp=plan.cp,
        dp=plan.dp,
        ep=plan.ep if plan.etp is None else plan.ep / plan.folded,
        folded=plan.folded,
        virtual_stages=plan.virtual_stages,
        sequence_parallel=1.0 if plan.sequence_parallel else 0.0,
        recompute_full=1.0 if plan.recompute == "full" else 0.0,
        recompute_selective=1.0 if plan.recompute == "selective" else 0.0,
        weight_shards=plan.state_shards if plan.sharding in ("fsdp", "hsdp") else 1,
        optimizer_shards=plan.state_shards,
        keeps_gathered=plan.keeps_gathered,
        attended=flops.attention_context(length, length)
        if model is None
        else mean_context(catalog.model(model), length),
        cp_gather=1.0 if plan.cp_comm_type == "all_gather" else 0.0,
        weight_gradients=0.0 if task == "lora" else 1.0,
        order=plan.order,
    )
