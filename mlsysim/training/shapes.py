"""Models of the catalogue and plans, in the terms of a training step."""

from dataclasses import replace
from typing import Any

from mlsysim import catalog, flops
from mlsysim._numeric import Num
from mlsysim.catalog.shapes import Model
from mlsysim.equations import remembered
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


@remembered
def _work(m: Model) -> Work:
    m.check_whole("work_of")
    count = matrix_count(m)
    routed = count.experts / m.layers
    mixed = m.n_moe_layers / m.layers
    moved = activations(
        hidden=m.hidden,
        heads=m.heads,
        kv_heads=m.heads if m.is_mla else m.kv_heads,
        qk_dim=m.head_dim + m.qk_rope_head_dim if m.is_mla else m.head_dim,
        v_dim=m.v_head_dim or m.head_dim,
        ranks=m.q_lora_rank + m.kv_lora_rank if m.is_mla else 0.0,
        matrices=3.0 if m.gated_mlp else 2.0,
        ffn=(m.n_mlp_layers / m.layers - mixed) * m.ffn + mixed * m.n_shared_experts * (m.shared_ffn or m.moe_ffn),
        copies=mixed * m.top_k,
        expert_ffn=m.moe_ffn,
        routed_hidden=m.moe_hidden,
    )
    return Work(
        layers=m.layers,
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
        / m.layers,
        heads=m.heads,
        qk_dim=m.head_dim + m.qk_rope_head_dim if m.is_mla else m.head_dim,
        v_dim=m.v_head_dim or m.head_dim,
        kv_heads=m.heads if m.is_mla else m.kv_heads,
        head_params=flops.matmul_parameters(m) - flops.layer_matmul_parameters(m),
        embedding_params=count.embedding + count.lm_head,
        active_expert_params=routed * m.top_k / m.n_experts if m.is_moe else 0.0,
        expert_params=routed,
        top_k=m.top_k * m.n_moe_layers / m.layers,
        last_params=(m.n_mlp_layers - m.n_moe_layers) / m.layers * m.hidden * m.ffn,
        experts=mixed * m.n_experts,
        routing=mixed if m.is_moe else 1.0,
        routed_hidden=m.moe_hidden,
        muon_flops=_muon(m, False) / m.layers,
        muon_expert_flops=_muon(m, True) / m.layers,
        **moved,
    )


def _muon(m: Model, experts: bool) -> float:
    """Arithmetic of an iteration of Muon on the matrices of all layers: those of routed experts, or all others.

    Attention without latent vectors and MLPs are counted matrix by matrix; recurrences and indexers, which few models have, are
    left to AdamW.
    """
    gates = 2.0 if m.gated_mlp else 1.0

    def of(rows: float, columns: float) -> float:
        return muon_flops(min(rows, columns), max(rows, columns), 1.0) if rows and columns else 0.0

    def mlp(width: float) -> float:
        return (gates + 1.0) * of(m.hidden, width)

    if experts:
        return m.n_moe_layers * m.n_experts * mlp(m.moe_ffn) if m.is_moe else 0.0
    values = m.heads * (m.v_head_dim or m.head_dim)
    if m.is_mla:
        queries = m.heads * (m.head_dim + m.qk_rope_head_dim)
        attention = of(m.hidden, m.q_lora_rank) + of(m.q_lora_rank or m.hidden, queries)
        attention += of(m.hidden, m.kv_lora_rank + m.qk_rope_head_dim)
        attention += of(m.kv_lora_rank, m.heads * (m.head_dim + (m.v_head_dim or m.head_dim))) + of(values, m.hidden)
    else:
        attention = (
            of(m.hidden, m.heads * m.head_dim) + 2.0 * of(m.hidden, m.kv_heads * m.head_dim) + of(values, m.hidden)
        )
    shared = m.n_moe_layers * m.n_shared_experts * mlp(m.shared_ffn or m.moe_ffn) if m.is_moe else 0.0
    return m.n_attention_layers * attention + (m.n_mlp_layers - m.n_moe_layers) * mlp(m.ffn) + shared


def repeated(m: Model, modules: tuple[str, ...], work: Work) -> tuple[float, float]:
    """What modules of a layer cost when they are computed again: their share of its products, and numbers written and read.

    Norms read and write their stream, an activation function reads what goes into it and writes what comes out.
    """
    products = numbers = 0.0
    if "layernorm" in modules:
        numbers += 4.0 * m.hidden
    if "mla_up_proj" in modules and m.is_mla:
        queries = m.heads * (m.head_dim + m.qk_rope_head_dim)
        values = m.heads * (m.head_dim + (m.v_head_dim or m.head_dim))
        products = (m.q_lora_rank * queries + m.kv_lora_rank * values) / float(
            work.dense_params + work.active_expert_params
        )
    if "moe_act" in modules:
        moe = m.n_moe_layers / m.layers
        width = (m.n_mlp_layers / m.layers - moe) * m.ffn
        width += moe * (m.top_k * m.moe_ffn + m.n_shared_experts * (m.shared_ffn or m.moe_ffn))
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
    full = flops.attention_context(seq, seq)
    if not model.n_near_layers:
        return full * (model.n_attention_layers / model.layers)
    share = model.n_near_layers / model.layers
    return full * (model.n_attention_layers / model.layers - share) + share * flops.attention_context(seq, model.reach)


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
            asked["recompute_full"] = plan.recompute_layers / plan.slowest_stage_layers(m.layers)
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
        ep=plan.ep,
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
