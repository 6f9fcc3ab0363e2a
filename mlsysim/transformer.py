"""Counting a transformer: parameters, FLOPs and bytes, exactly, from its shape."""

from dataclasses import asdict, dataclass

from mlsysim import catalog
from mlsysim.catalog.shapes import Model


@dataclass(frozen=True)
class ParameterCount:
    """Parameters of a model by part; all layers together."""

    embedding: int
    positions: int
    attention: int
    dense_mlp: int
    experts: int
    shared_experts: int
    router: int
    norms: int
    lm_head: int

    @property
    def total(self) -> int:
        return sum(asdict(self).values())


def attention_parameters(m: Model) -> int:
    """Parameters of one layer's attention, biases included, norms on queries and keys not."""
    v_dim = m.v_head_dim or m.head_dim
    if m.is_mla:
        qk = m.head_dim + m.qk_rope_head_dim
        queries = m.hidden * m.q_lora_rank + m.q_lora_rank * m.heads * qk if m.q_lora_rank else m.hidden * m.heads * qk
        latent = m.hidden * (m.kv_lora_rank + m.qk_rope_head_dim)
        expand = m.kv_lora_rank * m.heads * (m.head_dim + v_dim)
        return queries + latent + expand + m.heads * v_dim * m.hidden
    q, kv = m.heads * m.head_dim, m.kv_heads * m.head_dim
    biases = m.qkv_bias * (q + 2 * kv) + m.output_bias * m.hidden
    return m.hidden * (q + 2 * kv) + q * m.hidden + biases


def mlp_parameters(m: Model, width: int) -> int:
    """Parameters of one MLP of a given width, gated or not."""
    up = 2 if m.gated_mlp else 1
    return (up + 1) * m.hidden * width + m.mlp_bias * (up * width + m.hidden)


def norm_parameters(m: Model) -> int:
    """Parameters of all norms of the model, those inside the attention included."""
    size = 2 if m.norm == "layernorm" else 1
    per_layer = size * m.norms_per_layer * m.hidden
    if m.is_mla:
        per_layer += m.q_lora_rank + m.kv_lora_rank
    if m.qk_norm == "head":
        per_layer += size * 2 * m.head_dim
    elif m.qk_norm == "full":
        per_layer += size * (m.heads + m.kv_heads) * m.head_dim
    return m.layers * per_layer + size * m.hidden * (m.final_norm + m.embedding_norm)


def parameter_count(model: Model | str) -> ParameterCount:
    """Exact parameters by part, from the shape alone."""
    m = catalog.model(model)
    shared = m.n_shared_experts * mlp_parameters(m, m.shared_ffn or m.moe_ffn) + m.shared_gate * m.hidden
    return ParameterCount(
        embedding=m.vocab * m.hidden,
        positions=m.learned_positions * m.hidden,
        attention=m.layers * attention_parameters(m),
        dense_mlp=(m.layers - m.n_moe_layers) * mlp_parameters(m, m.ffn),
        experts=m.n_moe_layers * m.n_experts * mlp_parameters(m, m.moe_ffn),
        shared_experts=m.n_moe_layers * shared,
        router=m.n_moe_layers * (m.hidden * m.n_experts + m.router_bias * m.n_experts),
        norms=norm_parameters(m),
        lm_head=(0 if m.tied_embeddings else m.vocab * m.hidden) + m.head_bias * m.vocab,
    )
