"""Work of a catalogue model, in the terms of a pass."""

from mlsysim import catalog
from mlsysim.catalog.operations import Attention, Indexer, Message, Product, Scan, Streams, each, weights
from mlsysim.catalog.shapes import Model
from mlsysim.inference.context import CHUNKS, chunk_work
from mlsysim.inference.work import ACTIVATION_BYTES, Work
from mlsysim.memory import state_of
from mlsysim.transformer import matrix_count

_INDEX_BYTES = 1.0 + 4.0 / 128.0  # of a number that an indexer caches: 8-bit, with a scale for 128 of them
# Kernels of an indexer, counted in deepseek-ai/DeepSeek-V3.2-Exp, inference/model.py, Indexer: projections of queries, keys and
# weights, norm, rotation, two Hadamard transforms, two casts, weighting, write into the cache, scores, choice.
_INDEXER = 13.0
# Passes over the residual streams around attention or an MLP, and kernels: one for the matrix and the norm, one for the sum, one that
# spreads the result and mixes (deepseek-ai/DeepSeek-V4-Pro, inference/model.py, hc_pre and hc_post): read, read, read and written.
_PASSES, _STREAMS = 4, 3.0


def work_of(model: Model | str) -> Work:
    """The work of a catalogue model (or of a shape of your own) in the terms of :func:`pass_cost`.

    >>> float(work_of("Llama-3.1-8B").kv_elements)
    2048.0
    """
    m = catalog.model(model)
    m.check_whole("work_of")
    count, n = matrix_count(m), m.n_layers
    attended = m.n_attention_layers
    core = m.core or _NONE
    state, together = _recurrence_macs(m)
    # of a head, and cached of a token, on average over layers with attention
    macs = sum(k * one.heads * (one.qk_dim + one.v_dim) for k, one in m.cores) / max(attended * core.heads, 1)
    latents = sum(k * one.heads * (one.latent_qk + one.latent_v or one.qk_dim + one.v_dim) for k, one in m.cores)
    elements = sum(k * one.cached for k, one in m.cores) / max(attended, 1)
    indexing = sum(k * one.heads * one.size / one.ratio for k, one in m.indexers) / max(attended, 1)
    indexed = sum(k * one.size / one.ratio for k, one in m.indexers) / max(attended, 1)
    experts = m.products("experts", "up")
    near, thinned, always = _reached(m)
    streams = [(k, o) for k, o in each(m.layers) if isinstance(o, Streams)]
    return Work(
        layers=n,
        hidden=m.hidden,
        attention_params=(count.attention + count.recurrence + count.indexer) / n,
        dense_params=(count.dense_mlp + count.shared_experts + count.router + count.other) / n,
        head_params=weights(m.head),
        heads=m.heads,
        key_value_macs=attended / n * macs,
        pair_macs=macs,
        absorbed_macs=latents / n / max(core.heads, 1),
        kv_elements=attended / n * elements,
        kv_shards=1 if m.is_mla else max(1, m.kv_heads),
        window=m.reach,
        windowed=near,
        thinned=thinned,
        always=always,
        latent=1.0 if m.is_mla or m.compresses else 0.0,
        indexing=indexing / max(m.heads * macs, 1.0),
        picked=float(core.latent_qk + core.latent_v) / macs if core.latent_v and core.picked else 1.0,
        index_reading=indexed * _INDEX_BYTES / (ACTIVATION_BYTES * max(elements, 1.0)),
        state_bytes=state_of(m) / n,
        state_macs=state / n,
        chunk_macs=together / n,
        expert_params=count.experts / (m.n_experts * m.n_moe_layers) if experts else 0.0,
        n_experts=m.n_experts,
        top_k=m.top_k,
        routed_hidden=experts[0][1].k if experts and experts[0][1].k != m.hidden else 0,
        moe=m.n_moe_layers / n,
        all_reduces=sum(k for k, o in each(m.layers) if isinstance(o, Message)) / n,
        kernels=_kernels(m),
        grouped=2.0 * m.n_moe_layers / n,
        streamed=sum(k * (_PASSES * o.count + 2) * o.width for k, o in streams) / n,
    )


_NONE = Attention(0, 0, 0, 0, 0)


def _reached(m: Model) -> tuple[float, float, float]:
    """Shares of attention over all keys: what reaches no further than ``m.reach``, what compression leaves out; keys met in any case.

    A window that is shorter than the reach of picked keys beside it is taken as full from the first token on.
    """
    if not m.compresses:
        return _near(m), 0.0, 0.0
    near = whole = always = 0.0
    for n, core in m.cores:
        for ratio, most in core.met:
            share = n / m.n_attention_layers / ratio
            if not most:
                whole += share
            elif ratio * most == m.reach:
                near += share
            else:
                always += share * most
    return near, 1.0 - near - whole, always


def _near(m: Model) -> float:
    """Share of attention that reaches no further than a window, by what is cached, or than what an indexer picks."""
    if any(core.window for _, core in m.cores):
        cached = sum(n * core.cached for n, core in m.cores)
        return sum(n * core.cached for n, core in m.cores if core.window) / max(cached, 1)
    return sum(n for n, core in m.cores if core.picked) / max(m.n_attention_layers, 1)


def _recurrence_macs(m: Model) -> tuple[float, float]:
    """Multiply-adds of a token in all recurrences: with the states, and in a prompt with those of its chunk."""
    states = chunks = 0.0
    for n, scan, _ in m.recurrences:
        delta = scan.kind.endswith("-delta")
        shape: dict[str, float] = {"heads": scan.heads, "key_dim": scan.columns, "value_dim": scan.rows}
        shape |= {"touches": 3.0 if delta else 2.0, "key_heads": scan.heads if delta else scan.key_heads}
        chunk, keys, values = CHUNKS.get(scan.kind, (0, 1, 1))
        state = chunk_work(0.0, **shape) / 2.0
        states += n * state
        chunks += n * (chunk_work(chunk, **shape, key_products=keys, value_products=values) / 2.0 - state)
    return states, chunks


def _kernels(m: Model) -> float:
    """Kernels of a layer, averaged over unlike ones, without attention and grouped products.

    Queries, keys and values in one product and the output, or the four or five products of latent attention; up and down,
    or the router and the shared experts' up and down; two norms, the rotation, the write into the cache, the activation.
    DeepSeek-V4 has four, and one where it compresses. A recurrence has two products, a convolution and a gated norm; an indexer has thirteen of its own.
    """
    total = 0.0
    for layer in m.layers:
        ops = layer.operations
        names = {o.name for o in ops if isinstance(o, Product)}
        parts = {o.part for o in ops if isinstance(o, Product)}
        shared = any(isinstance(o, Product) and (o.part, o.name) == ("shared_experts", "up") for o in ops)
        mixed = any(isinstance(o, Attention | Scan) for o in ops)
        if any(isinstance(o, Attention) for o in ops):
            products = (
                4 + ("q_down" in names)
                if "kv_down" in names
                else 2 + 2 * ("output_down" in names) + ("compress" in names)
            )
            total += layer.count * (products + 2)
        total += layer.count * _STREAMS * sum(isinstance(o, Streams) for o in ops)
        total += layer.count * 4 * any(isinstance(o, Scan) for o in ops)
        total += layer.count * _INDEXER * any(isinstance(o, Indexer) for o in ops)
        norms = mixed + bool(parts & {"dense_mlp", "experts"})
        mlp = 3 * ("dense_mlp" in parts) + ("experts" in parts) * (2 + 2 * shared)
        total += layer.count * (norms + mlp)
    return total / m.n_layers
