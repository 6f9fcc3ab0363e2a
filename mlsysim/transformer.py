"""Counting what a transformer is made of: parameters and bytes, exactly, from its shape. (Its work: ``flops``.)"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from mlsysim import catalog
from mlsysim._numeric import Num
from mlsysim.catalog.operations import (
    Convolution,
    Gather,
    Norm,
    Operation,
    Product,
    Vector,
    each,
    parameters,
    weights,
)
from mlsysim.catalog.shapes import Model
from mlsysim.equations import POSITIVE, cache_by_identity, equation
from mlsysim.results import Report, Result, format_rows, share, top_shares
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

__all__ = [
    "ParameterCount",
    "attention_matrices",
    "gpt2_parameters",
    "matrix_count",
    "mlp_matrices",
    "moe_active",
    "mtp_parameters",
    "parameter_count",
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
        return format_rows(f"{self.total:,} parameters", ("of which", top_shares(parts, len(parts))))

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


def mtp_parameters(model: Model | str) -> int:
    """Parameters of the modules for multi-token prediction, which stand beside the model; embedding and head are the model's.

    Each is one more layer with attention and experts (where the model has any), a projection of two streams to one, a norm
    on each stream and one behind the layer.

    >>> mtp_parameters("Qwen3-Next-80B-A3B")
    1650471424
    """
    modules = catalog.model(model).modules
    return sum(n * parameters(o) for n, o in each((modules,))) if modules else 0


def parameter_count(model: Model | str) -> ParameterCount:
    """Exact parameters by part: the sum over operations; towers and modules that predict further tokens stand beside it.

    >>> parameter_count("Llama-3.1-8B").total
    8030261248
    """
    return _parameters(catalog.model(model))


def matrix_count(model: Model | str) -> ParameterCount:
    """The same parts without biases and what else stands beside the matrices: what a token is multiplied with.

    >>> parameter_count("gpt-oss-20B").attention - matrix_count("gpt-oss-20B").attention  # biases, and a sink for each head
    193536
    """
    return _weights(catalog.model(model))


@cache_by_identity
def _parameters(m: Model) -> ParameterCount:
    """Counted once a shape: sliders, searches and fits ask again and again."""
    return _counted(m, parameters)


@cache_by_identity
def _weights(m: Model) -> ParameterCount:
    return _counted(m, weights)


def _counted(m: Model, of: Callable[[Operation], int]) -> ParameterCount:
    found = dict.fromkeys((part.name for part in fields(ParameterCount)), 0)
    ends = ((1, o) for o in (*m.before, *m.after) if not (isinstance(o, Product) and not o.stored and of is weights))
    for count, operation in (*each(m.layers), *ends):
        if isinstance(operation, Norm):
            found["norms"] += count * parameters(operation)
        elif isinstance(operation, Gather):
            found[operation.part] += count * parameters(operation)
        elif isinstance(operation, Convolution):
            found["recurrence"] += count * of(operation)
        elif isinstance(operation, Product | Vector):
            found[operation.part] += count * of(operation)
    return ParameterCount(**found)
