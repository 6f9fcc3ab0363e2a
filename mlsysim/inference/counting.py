"""What a model of the catalogue asks for, counted in the terms of a pass."""

from mlsysim import catalog
from mlsysim.catalog.shapes import Model
from mlsysim.inference.context import CHUNKS, chunk_work
from mlsysim.inference.work import ACTIVATION_BYTES, Work
from mlsysim.memory import state_of
from mlsysim.transformer import matrix_count

_INDEX_BYTES = 1.0 + 4.0 / 128.0  # of a number that an indexer caches: 8-bit, with a scale for 128 of them
# Kernels of an indexer, counted in deepseek-ai/DeepSeek-V3.2-Exp, inference/model.py, Indexer: projections of queries, keys and
# weights, norm, rotation, two Hadamard transforms, two casts, weighting, write into the cache, scores, choice.
_INDEXER = 13.0


def work_of(model: Model | str) -> Work:
    """The work of a catalogue model (or of a shape of your own) in the terms of :func:`pass_cost`.

    >>> float(work_of("Llama-3.1-8B").kv_elements)
    2048.0
    """
    m = catalog.model(model)
    m.check_whole("work_of")
    count = matrix_count(m)
    value = m.v_head_dim or m.head_dim
    attended, recurrent, mlps = (n / m.layers for n in (m.n_attention_layers, m.n_recurrent_layers, m.n_mlp_layers))
    state, together = _recurrence_macs(m)
    query = m.head_dim + m.qk_rope_head_dim if m.is_mla else m.head_dim
    latent = m.kv_lora_rank + m.qk_rope_head_dim
    layers = max(m.n_attention_layers, 1)
    indexers, near = (m.n_indexers or m.n_indexed_layers) / layers, m.n_near_layers / layers
    macs, elements = (
        float(query + value),
        float(latent),
    )  # of a head, and cached of a token, on average over layers with attention
    if not m.is_mla:
        kinds = m.attention_kinds
        cached = [k.own * k.kv_heads * (k.size + k.value) for k in kinds]
        elements = sum(cached) / layers
        macs = sum(k.layers * k.heads * (k.size + k.value) for k in kinds) / (layers * max(m.heads, 1))
        # where layers with a window are unlike the others, they count by what they cache
        near = (
            sum(n for n, k in zip(cached, kinds, strict=True) if k.windowed) / max(sum(cached), 1)
            if m.attn_window
            else near
        )
    return Work(
        layers=m.layers,
        hidden=m.hidden,
        attention_params=(count.attention + count.recurrence + count.indexer) / m.layers,
        dense_params=(count.dense_mlp + count.shared_experts + count.router + count.other) / m.layers,
        head_params=m.vocab * (m.embedding_width or m.hidden),
        heads=m.heads,
        key_value_macs=attended * macs,
        absorbed_macs=attended * (latent + m.kv_lora_rank if m.is_mla else macs),
        kv_elements=attended * elements,
        kv_shards=1 if m.is_mla else max(1, m.kv_heads),
        window=m.reach,
        windowed=near,
        indexing=indexers * m.index_heads * m.index_head_dim / max(m.heads * macs, 1.0),
        picked=float(latent + m.kv_lora_rank) / macs if m.is_mla and m.n_indexed_layers else 1.0,
        index_reading=indexers * m.index_head_dim * _INDEX_BYTES / (ACTIVATION_BYTES * max(elements, 1.0)),
        state_bytes=state_of(m) / m.layers,
        state_macs=recurrent * state,
        chunk_macs=recurrent * together,
        expert_params=count.experts / (m.n_experts * m.n_moe_layers) if m.is_moe else 0.0,
        n_experts=m.n_experts,
        top_k=m.top_k,
        routed_hidden=m.moe_hidden,
        moe=m.n_moe_layers / m.layers,
        all_reduces=1.0 if m.parallel_block else m.n_mixed_layers / m.layers + mlps,
        kernels=kernels_of(
            m.is_mla,
            bool(m.q_lora_rank),
            m.n_moe_layers / m.layers,
            m.n_shared_experts > 0,
            attended=attended,
            recurrent=recurrent,
            mlps=mlps,
            indexers=(m.n_indexers or m.n_indexed_layers) / m.layers,
        ),
        grouped=2.0 * m.n_moe_layers / m.layers,
    )


def _recurrence_macs(m: Model) -> tuple[float, float]:
    """Multiply-adds of a token in one layer with a recurrence: with the state, and in a prompt with those of its chunk."""
    delta = m.recurrence.endswith("-delta")
    shape: dict[str, float] = {"heads": m.recurrent_heads, "key_dim": m.recurrent_state}
    shape |= {"value_dim": m.recurrent_head_dim, "touches": 3.0 if delta else 2.0}
    shape["key_heads"] = m.recurrent_heads if delta else m.recurrent_key_heads
    chunk, keys, values = CHUNKS.get(m.recurrence, (0, 1, 1))
    state = chunk_work(0.0, **shape) / 2.0
    return state, chunk_work(chunk, **shape, key_products=keys, value_products=values) / 2.0 - state


def kernels_of(
    latent: bool,
    query_rank: bool,
    moe: float,
    shared: bool,
    *,
    attended: float = 1.0,
    recurrent: float = 0.0,
    mlps: float = 1.0,
    indexers: float = 0.0,
) -> float:
    """Kernels of a layer, averaged over unlike ones, without attention and grouped products.

    Queries, keys and values in one product and the output, or the four or five products of latent attention; up and down,
    or the router and the shared experts' up and down; two norms, the rotation, the write into the cache, the activation.
    A recurrence has two products, a convolution and a gated norm; an indexer has thirteen of its own.

    >>> kernels_of(False, False, 0.0, False), kernels_of(True, True, 1.0, True)
    (9.0, 13.0)
    """
    attention = (4.0 + query_rank) if latent else 2.0
    mixing = attended * (attention + 2.0) + 4.0 * recurrent
    norms = min(1.0, attended + recurrent) + mlps
    return mixing + norms + mlps + (mlps - moe) * 2.0 + moe * (1.0 + 2.0 * shared) + indexers * _INDEXER
