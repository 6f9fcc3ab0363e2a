"""The matrix products that a layer really runs: their shapes on one rank of a tensor-parallel group."""

from dataclasses import dataclass

from mlsysim.catalog.shapes import Model
from mlsysim.serving_steps.equations import fused_width
from mlsysim.transformer import recurrence_matrices


@dataclass(frozen=True)
class Product:
    """Rows x k times k x n. ``rows`` is what the batch gives; ``layers`` is how many layers run it."""

    name: str
    k: float
    n: float
    layers: int
    rows: str = "tokens"  # or "sequences", of the head
    part: str = "projections"  # term of the step that it belongs to


def layer_products(model: Model, tp: int = 1, fused: bool = True) -> tuple[Product, ...]:
    """Products of a pass of a model, those of its experts left out. ``fused``: queries, keys and values in one.

    >>> from mlsysim import catalog
    >>> [(p.name, p.k, p.n) for p in layer_products(catalog.model("Llama-3.1-8B"))][:2]
    [('qkv', 4096, 6144.0), ('output', 4096.0, 4096)]
    """
    m = model
    m.check_whole("layer_products")
    h, every, read = m.hidden, m.n_attention_layers, m.attention_width or m.hidden
    value = m.v_head_dim or m.head_dim
    found: list[Product] = []
    if m.is_mla:
        query = m.heads * (m.head_dim + m.qk_rope_head_dim) / tp
        if m.q_lora_rank:
            found += [Product("q_down", h, m.q_lora_rank, every), Product("q_up", m.q_lora_rank, query, every)]
        else:
            found += [Product("q", h, query, every)]
        found += [
            Product("kv_down", h, m.kv_lora_rank + m.qk_rope_head_dim, every),
            # decode absorbs it into the queries and the results, which is the same work and the same weights
            Product("kv_up", m.kv_lora_rank, m.heads * (m.head_dim + value) / tp, every),
        ]
        found += [Product("output", m.heads * value / tp, h, every)]
    else:
        alike: dict[tuple[int, ...], int] = {}  # layers whose products have the same sizes, with a window or without
        for kind in m.attention_kinds:
            alike[kind[1:5]] = alike.get(kind[1:5], 0) + kind.own
        borrowed = [
            (kind.layers - kind.own, kind.heads * kind.size, kind.heads * kind.value) for kind in m.attention_kinds
        ]
        for count, asked, results in borrowed:  # which read the keys that another layer has cached
            if count:
                found += [Product("q", read, asked / tp, count), Product("output", results / tp, h, count)]
        for (heads, kv_heads, size, value), layers in alike.items():
            if fused:
                found += [Product("qkv", read, fused_width(heads, kv_heads, (size + value) / 2, tp), layers)]
            else:
                queries, shared = heads * size / tp, max(1.0, kv_heads / tp)
                found += [Product("q", read, queries, layers)]
                found += [Product("k", read, shared * size, layers), Product("v", read, shared * value, layers)]
            found += [Product("output", heads * value / tp, h, layers)]
    if m.attention_gate:
        of = m.heads * (value if m.attention_gate == "full" else 1)
        found += [Product("gate", h, of / tp, every)]
    if m.n_indexed_layers:
        queries, layers = m.index_heads * m.index_head_dim, m.n_indexers or m.n_indexed_layers
        found += [
            Product("index_q", m.q_lora_rank or h, queries, layers),
            Product("index_k", h, m.index_head_dim + m.index_heads, layers),
        ]
    if m.n_recurrent_layers:
        inner = m.recurrent_heads * m.recurrent_head_dim
        width = (recurrence_matrices(m) - m.recurrent_conv * m.conv_channels) / h - inner
        found += [Product("recurrence_in", h, width / tp, m.n_recurrent_layers)]
        found += [Product("recurrence_out", inner / tp, h, m.n_recurrent_layers)]
    gates = 2 if m.gated_mlp else 1
    if dense := m.n_mlp_layers - m.n_moe_layers:
        found += [
            Product("up", h, gates * m.ffn / tp, dense, part="mlp"),
            Product("down", m.ffn / tp, h, dense, part="mlp"),
        ]
    if m.n_moe_layers:
        found += [Product("router", h, m.n_experts + m.n_zero_experts, m.n_moe_layers, part="mlp")]
        if m.moe_hidden:  # routed experts are narrower than the residual stream
            found += [Product("to experts", h, m.moe_hidden, m.n_moe_layers, part="mlp")]
            found += [Product("from experts", m.moe_hidden, h, m.n_moe_layers, part="mlp")]
        if m.n_shared_experts:
            width = m.n_shared_experts * (m.shared_ffn or m.moe_ffn)
            found += [
                Product("shared up", h, gates * width / tp, m.n_moe_layers, part="mlp"),
                Product("shared down", width / tp, h, m.n_moe_layers, part="mlp"),
            ]
    if m.other_matrices:
        found += [Product("other", h, m.other_matrices / (h * m.layers * tp), m.layers, part="mlp")]
    width = m.embedding_width or h
    return (*found, Product("head", width, m.vocab / tp, 1, rows="sequences", part="head"))
