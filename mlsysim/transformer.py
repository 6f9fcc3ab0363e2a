"""Counting what a transformer is made of: parameters and bytes, exactly, from its shape. (Its work: ``flops``.)"""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mlsysim import catalog
from mlsysim._numeric import Num
from mlsysim.catalog.shapes import Model
from mlsysim.equations import POSITIVE, equation, remembered
from mlsysim.results import Report, Result, labelled, largest, share
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

__all__ = [
    "ParameterCount",
    "attention_matrices",
    "attention_parameters",
    "gpt2_parameters",
    "indexer_parameters",
    "matrix_count",
    "mlp_matrices",
    "mlp_parameters",
    "moe_active",
    "mtp_parameters",
    "norm_parameters",
    "parameter_count",
    "recurrence_matrices",
    "recurrence_parameters",
    "weight_bytes",
]


def __dir__() -> list[str]:
    return __all__


@equation("eq-param-count", formula="hidden * vocab + layers * (12 * hidden**2 + 13 * hidden) + 2 * hidden")
def gpt2_parameters(hidden: Num, vocab: Num, layers: Num) -> Num:
    """Parameters of a transformer of the GPT-2 shape, and of no other.

    Formula: N = h V + L (12 h^2 + 13 h) + 2 h.

    Parameters
    ----------
    hidden : float or array, 1
        Width of the residual stream.
    vocab : float or array, 1
        Rows of the embedding, which is the LM head as well.
    layers : float or array, 1
        Layers.

    Returns
    -------
    float or array, 1

    Assumptions: tied embeddings, multi-head attention with heads x head size = h, a plain MLP of width 4 h, a bias on
    every matrix but the embedding, layer norms; learned positions are not counted. For other shapes use
    :func:`parameter_count`.

    >>> gpt2_parameters(768, 50257, 12)
    123653376

    Source: narayanan2021megatron, eq. 2; here without learned positions and with the last norm.
    """
    return hidden * vocab + layers * (12 * hidden**2 + 13 * hidden) + 2 * hidden


@equation("eq-attention-params", formula="hidden * head_dim * (2 * heads + 2 * kv_heads)")
def attention_matrices(hidden: Num, heads: Num, kv_heads: Num, head_dim: Num) -> Num:
    """Weights in the four attention matrices of one layer: queries, keys, values, output.

    Formula: N_att = h d (2 H + 2 H_kv).

    Parameters
    ----------
    hidden : float or array, 1
        Width of the residual stream.
    heads : float or array, 1
        Query heads.
    kv_heads : float or array, 1
        Key and value heads: equal to heads (multi-head), fewer (grouped-query) or 1 (multi-query).
    head_dim : float or array, 1
        Size of one head; heads x head_dim need not equal hidden.

    Returns
    -------
    float or array, 1

    Assumptions: no biases; not multi-head latent attention, which factorises these matrices.

    >>> attention_matrices(4096, 32, 8, 128)
    41943040

    Source: ainslie2023gqa, sec. 2.2.
    """
    return hidden * head_dim * (2 * heads + 2 * kv_heads)


@equation("eq-mlp-params", formula="matrices * hidden * ffn")
def mlp_matrices(hidden: Num, ffn: Num, matrices: Num) -> Num:
    """Weights in the matrices of one MLP (or of one expert).

    Formula: N_mlp = n h f, with n = 3 matrices when gated (up, gate, down) and n = 2 when plain (up, down).

    Parameters
    ----------
    hidden : float or array, 1
        Width of the residual stream.
    ffn : float or array, 1
        Width of the MLP.
    matrices : float or array, 1
        3 when gated (SwiGLU, GeGLU), 2 when plain (GELU, ReLU).

    Returns
    -------
    float or array, 1

    Assumptions: no biases.

    >>> mlp_matrices(4096, 14336, 3)
    176160768

    Source: shazeer2020glu, sec. 2.
    """
    return matrices * hidden * ffn


@equation("eq-moe-active", formula="always + top_k * expert")
def moe_active(always: Num, top_k: Num, expert: Num) -> Num:
    """Parameters that one token meets in a mixture of experts.

    Formula: N_active = N_always + k N_expert.

    Parameters
    ----------
    always : float or array, 1
        Parameters that every token meets: embeddings, attention, dense layers, shared experts, routers, norms.
    top_k : float or array, 1
        Routed experts per token.
    expert : float or array, 1
        Parameters of one routed expert, summed over the layers that have experts.

    Returns
    -------
    float or array, 1

    Assumptions: every token is routed to exactly top_k experts in every mixture layer (no token is dropped).

    >>> moe_active(always=2e9, top_k=2, expert=5e9)
    12000000000.0

    Source: jiang2024mixtral, sec. 2.1.
    """
    return always + top_k * expert


@equation("eq-weight-bytes", formula="parameters * element_bytes", domain={"element_bytes": POSITIVE})
def weight_bytes(parameters: Num, element_bytes: Num) -> Num:
    """Bytes of the weights alone, as in a checkpoint for inference.

    Formula: bytes = N x bytes per parameter.

    Parameters
    ----------
    parameters : float or array, 1
        All parameters, whether a token meets them or not.
    element_bytes : float or array, byte
        Size of one: 4 for FP32, 2 for BF16, 1 for FP8.

    Returns
    -------
    float or array, byte

    Assumptions: one format for all weights; no scales of a quantised format, no optimiser state, no cache.

    >>> weight_bytes(8030261248, 2)
    16060522496

    Source: rajbhandari2020zero, sec. 3.1, of the parameters alone.
    """
    return parameters * element_bytes


@dataclass(frozen=True)
class ParameterCount(Result):
    """Parameters of a model by part; all layers together."""

    embedding: int
    positions: int
    attention: int
    recurrence: int
    indexer: int
    dense_mlp: int
    experts: int
    shared_experts: int
    router: int
    other: int
    norms: int
    lm_head: int

    @property
    def total(self) -> int:
        return sum(asdict(self).values())

    def summary(self) -> list[str]:
        parts = asdict(self)
        return labelled(f"{self.total:,} parameters", ("of which", largest(parts, len(parts))))

    def chart(self) -> "Drawing | None":
        """Its parts as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms("parameters", asdict(self), "parameters", "1")

    def explain(self) -> Report:
        """Every part and its share."""
        rows = [
            (k.replace("_", " "), f"{v:,}", share(v / self.total) if self.total else "")
            for k, v in asdict(self).items()
        ]
        return Report(f"{self.total:,} parameters", (table(("Part", "Parameters", "Share"), rows),))

    def to_dict(self) -> dict[str, Any]:
        """Counts by part, and their total."""
        return asdict(self) | {"total": self.total}


def attention_parameters(m: Model) -> int:
    """Parameters of the attention of all layers, biases included, norms on queries and keys not."""
    if m.is_mla:
        v_dim, qk = m.v_head_dim or m.head_dim, m.head_dim + m.qk_rope_head_dim
        queries = m.hidden * m.q_lora_rank + m.q_lora_rank * m.heads * qk if m.q_lora_rank else m.hidden * m.heads * qk
        latent = m.hidden * (m.kv_lora_rank + m.qk_rope_head_dim)
        expand = m.kv_lora_rank * m.heads * (m.head_dim + v_dim)
        results = m.heads * v_dim * m.hidden * (1 + (m.attention_gate == "full"))
        results += m.heads * ((m.attention_gate == "head") * m.hidden + m.attention_sinks)
        return m.n_attention_layers * (queries + latent + expand + results)
    total = 0
    wider = m.attention_width - m.hidden if m.attention_width else 0
    for layers, heads, kv_heads, size, value, windowed, own in m.attention_kinds:
        matrices = int(attention_matrices(m.hidden, heads, kv_heads, size))
        matrices += wider * (heads * size + kv_heads * (size + value))
        matrices += m.hidden * (heads + kv_heads) * (value - size)  # values need not be as wide as keys
        if m.shared_kv and not windowed:
            matrices -= m.hidden * kv_heads * value
        gate = {"": 0, "head": heads, "full": heads * value}[m.attention_gate] * m.hidden
        biases = m.qkv_bias * (heads * size + kv_heads * (size + value)) + m.output_bias * m.hidden
        total += layers * (matrices + gate + biases + m.attention_sinks * heads)
        keys = (m.hidden + wider + m.qkv_bias) * kv_heads * (size if m.shared_kv and not windowed else size + value)
        total -= (layers - own) * keys  # layers that read the keys of others have no matrices for them
    return total * m.n_shared_blocks // m.n_attention_layers if m.n_shared_blocks else total


def indexer_parameters(m: Model) -> int:
    """Parameters of the indexer of one layer: its queries, its one key with a layer norm, a weight for each of its heads."""
    queries = (m.q_lora_rank or m.hidden) * m.index_heads * m.index_head_dim
    return queries + m.hidden * (m.index_head_dim + m.index_weights * m.index_heads) + 2 * m.index_head_dim


def recurrence_matrices(m: Model) -> int:
    """Weights in the matrices of one layer's recurrence, the convolution's included."""
    inner, keys = m.recurrent_heads * m.recurrent_head_dim, m.recurrent_key_heads * m.recurrent_state
    conv, rank = m.recurrent_conv * m.conv_channels, m.recurrent_rank
    if m.recurrence == "gated-delta":  # queries, keys, values, a gate as wide as values; decay and rate of each head
        return m.hidden * (2 * keys + 3 * inner + 2 * m.recurrent_heads) + conv
    if m.recurrence == "kimi-delta":  # the decay of each key channel and the gate come from low ranks
        low = 2 * m.hidden * rank + rank * (keys + inner) if rank else m.hidden * (keys + inner)
        return m.hidden * (2 * keys + 2 * inner + m.recurrent_heads) + low + conv
    if m.recurrence == "mlstm":  # queries, keys, values, a gate, the output; an input and a forget gate a head
        return m.hidden * (2 * keys + 3 * inner + 2 * m.recurrent_heads)
    if m.recurrence == "rg-lru":  # a branch, its gate, the output; two gates in blocks along the diagonal
        return m.hidden * 3 * inner + 2 * inner * (inner // m.recurrent_key_heads) + conv
    if m.recurrence == "lightning":  # queries, keys, values, a gate, the output
        return m.hidden * (2 * keys + 3 * inner)
    if m.recurrence == "mamba2":  # values and a gate, keys and queries of the groups, a step size a head
        return m.hidden * (3 * inner + 2 * keys + m.recurrent_heads) + conv
    if m.recurrence == "mamba":  # keys, queries and the factorised step size are made from the values
        return m.hidden * 3 * inner + inner * (2 * m.recurrent_state + 2 * rank) + conv
    return 4 * m.hidden * inner + conv if m.recurrence else 0  # two gates around a convolution


def recurrence_parameters(m: Model) -> int:
    """Parameters of one layer's recurrence: matrices, biases, decays, step sizes, skips and the norm on its results."""
    heads, inner = m.recurrent_heads, m.recurrent_heads * m.recurrent_head_dim
    keys, rank = m.recurrent_key_heads * m.recurrent_state, m.recurrent_rank
    small = {
        "": 0,
        "gated-delta": 2 * heads + m.recurrent_norm * m.recurrent_head_dim,
        "kimi-delta": heads + keys + m.recurrent_norm * m.recurrent_head_dim,
        "lightning": m.recurrent_norm * inner,
        "mlstm": 2 * heads + m.recurrent_norm * inner,
        "rg-lru": 3 * inner + m.recurrent_bias * (2 * inner + m.hidden),
        "mamba2": 3 * heads + m.recurrent_norm * inner + m.recurrent_bias * (2 * inner + 2 * keys + heads + m.hidden),
        "mamba": inner * (m.recurrent_state + 2)
        + m.recurrent_norm * (rank + 2 * m.recurrent_state)
        + m.recurrent_bias * (2 * inner + m.hidden),
        "short-conv": m.recurrent_bias * (3 * inner + m.hidden),
    }[m.recurrence]
    return recurrence_matrices(m) + small + m.conv_bias * m.conv_channels


def mlp_parameters(m: Model, width: int) -> int:
    """Parameters of one MLP of a given width, gated or not."""
    up = 2 if m.gated_mlp else 1
    return int(mlp_matrices(m.hidden, width, up + 1)) + m.mlp_bias * (up * width + m.hidden)


def norm_parameters(m: Model) -> int:
    """Parameters of all norms of the model, those inside the attention included."""
    size = 2 if m.norm == "layernorm" and m.norm_bias else 1
    total = size * m.hidden * (m.layers * m.norms_per_layer + m.final_norm + m.embedding_norm)
    if m.is_mla:
        total += m.n_attention_layers * (m.q_lora_rank + m.kv_lora_rank)
    for kind in m.attention_kinds:
        normed = {"": 0, "head": 2 * kind.size, "full": (kind.heads + kind.kv_heads) * kind.size}[m.qk_norm]
        total += size * kind.layers * normed
        keys = {"": 0, "head": kind.size, "full": kind.kv_heads * kind.size}[m.qk_norm]
        total -= size * (kind.layers - kind.own) * keys
    return total


_NOT_IN_A_MODULE = (
    *("n_attention_free_layers", "n_mlp_free_layers", "n_dense_layers", "n_indexers"),
    *("n_windowed_layers", "attn_window", "window_heads", "window_kv_heads", "window_head_dim", "window_v_head_dim"),
    *("n_recurrent_layers", "recurrent_heads", "recurrent_head_dim", "recurrent_key_heads", "recurrent_state"),
    *("recurrent_conv", "recurrent_rank", "n_reused_layers", "n_reused_windowed", "n_shared_blocks"),
    *("table_parameters", "other_matrices", "other_vectors"),
)


def mtp_parameters(model: Model | str) -> int:
    """Parameters of the modules for multi-token prediction, which stand beside the model; embedding and head are the model's.

    Each is one more layer with attention and experts (where the model has any), a projection of two streams to one, a norm
    on each stream and one behind the layer.

    >>> mtp_parameters("Qwen3-Next-80B-A3B")
    1650471424
    """
    m = catalog.model(model)
    if not m.n_mtp_layers:
        return 0
    given: dict[str, Any] = dict.fromkeys(_NOT_IN_A_MODULE, 0)
    given |= {"recurrence": "", "n_indexed_layers": min(1, m.n_indexed_layers), "moe_every": 1, "published": {}}
    one = replace(m, layers=1, **given)
    count = parameter_count(one)
    outside = count.embedding + count.positions + count.lm_head
    # a layer that holds one part only has a layer for its MLP beside that for its attention
    norms = m.hidden * (1 if m.n_mlp_free_layers else 0)
    return m.n_mtp_layers * (count.total - outside + norms + 2 * m.hidden**2 + 2 * m.hidden)


def matrix_count(model: Model | str) -> ParameterCount:
    """The same parts without biases and what else stands beside the matrices: what a token is multiplied with.

    >>> parameter_count("gpt-oss-20B").attention - matrix_count("gpt-oss-20B").attention  # biases, and a sink for each head
    193536
    """
    return _matrix_count(catalog.model(model))


@remembered
def _matrix_count(m: Model) -> ParameterCount:
    bare = replace(m, qkv_bias=False, output_bias=False, mlp_bias=False, head_bias=False, router_bias=False)
    # nothing is multiplied with a sink; a block that layers share is multiplied with in each of them
    bare = replace(bare, attention_sinks=False, other_vectors=0, n_shared_blocks=0)
    indexers = m.n_indexers or m.n_indexed_layers
    return replace(
        parameter_count(bare),
        recurrence=m.n_recurrent_layers * recurrence_matrices(m),
        indexer=indexers * (indexer_parameters(m) - 2 * m.index_head_dim),
    )


def parameter_count(model: Model | str) -> ParameterCount:
    """Exact parameters by part, from the shape alone; towers and modules that predict further tokens stand beside it."""
    return _parameter_count(catalog.model(model))


@remembered
def _parameter_count(m: Model) -> ParameterCount:
    """Counted once a shape: sliders, searches and fits ask again and again."""
    shared = m.n_shared_experts * mlp_parameters(m, m.shared_ffn or m.moe_ffn) + m.shared_gate * m.hidden
    width = m.embedding_width or m.hidden
    shared += 2 * m.moe_hidden * m.hidden  # the way to narrower experts and back
    projection = m.embedding_width * m.hidden  # once from the embedding to the residual stream, once back
    return ParameterCount(
        embedding=m.vocab * width + projection + m.table_parameters,
        positions=m.learned_positions * m.hidden,
        attention=attention_parameters(m),
        recurrence=m.n_recurrent_layers * recurrence_parameters(m),
        indexer=(m.n_indexers or m.n_indexed_layers) * indexer_parameters(m),
        dense_mlp=(m.n_shared_blocks or m.n_mlp_layers - m.n_moe_layers) * mlp_parameters(m, m.ffn),
        experts=m.n_moe_layers * m.n_experts * mlp_parameters(replace(m, hidden=m.moe_hidden or m.hidden), m.moe_ffn),
        shared_experts=m.n_moe_layers * shared,
        router=m.n_moe_layers * (m.hidden + m.router_bias) * (m.n_experts + m.n_zero_experts),
        other=m.other_matrices + m.other_vectors,
        norms=norm_parameters(m),
        lm_head=(0 if m.tied_embeddings else m.vocab * width) + projection + m.head_bias * m.vocab,
    )
