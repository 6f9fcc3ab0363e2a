"""The transformer of a row as a model of the catalogue, by the names that cases and catalogue share.

What the library counts of a model (``work_of``, ``parameter_count``) is then what a row of any class is predicted with.
"""

from typing import Any

from mlsysim import catalog
from mlsysim.catalog import Model, decoder
from mlsysim.catalog.operations import Message
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.predictors.base import Row, Unsupported

_NEEDED = ("layers", "hidden", "heads")
# A part that the model of a row does not have is an empty cell.
_PARTS = (
    "ffn",
    "n_experts",
    "top_k",
    "n_shared_experts",
    "n_dense_layers",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "v_head_dim",
    "n_windowed_layers",
    "learned_positions",
)


def model_of(row: Row, tied: bool = True) -> Model:
    """The model of a row; whether the head of a row that does not say is ``tied`` to the embedding is the caller's guess.

    A row with a vocabulary of 0 is of layers alone. A model has a vocabulary, here of one token: the caller leaves it out.

    Raises
    ------
    Unsupported
        A cell that is missing, or that no model can have.
    """
    sizes: dict[str, Any] = {name: whole(row, name) for name in _NEEDED}
    sizes |= {name: whole(row, name, 0) for name in _PARTS}
    if not sizes["n_experts"]:
        row.need("ffn")
    hidden, heads = sizes["hidden"], max(1, sizes["heads"])  # a model without heads is refused below
    alone = row.inputs.get("attn_type") == "mqa"
    usual = (1, "multi-query") if alone else (heads, "multi-head")
    if not row.has("head_dim") and hidden % heads:
        raise Unsupported(f"the row gives no head_dim, and {heads} heads do not divide hidden = {hidden}; fill it in")
    bias = bool(row.inputs.get("bias", False))
    try:
        return decoder(
            name="the row's shape",
            **sizes,
            kv_heads=_assumed(row, "kv_heads", *usual),
            head_dim=_assumed(row, "head_dim", hidden // heads, "hidden / heads"),
            vocab=whole(row, "vocab") or 1,
            moe_ffn=_assumed(row, "moe_ffn", sizes["ffn"], "as the dense MLP") if sizes["n_experts"] else 0,
            attn_window=whole(row, "attn_window", 0) if sizes["n_windowed_layers"] else 0,
            gated_mlp=bool(row.or_assume("gated_mlp", True)),
            tied_embeddings=bool(row.or_assume("tied_embeddings", tied)),
            qkv_bias=bias,
            output_bias=bias,
            mlp_bias=bias,
            norm=str(row.inputs.get("norm") or "rmsnorm"),
            parallel_block=_parallel_block(row),
        )
    except InputError as why:
        raise Unsupported(str(why)) from None


def whole(row: Row, name: str, empty: int | None = None) -> int:
    """A count; an empty cell may mean something."""
    if empty is not None and not row.has(name):
        return empty
    value = row.number(name)
    if not value.is_integer():
        raise Unsupported(f"{name} = {value:g} must be a whole number")
    return int(value)


def _assumed(row: Row, name: str, value: int, why: str) -> int:
    """A count, or the one that stands in for an empty cell, which is written down."""
    return whole(row, name) if row.has(name) else int(row.number_or(name, value, why))


def _parallel_block(row: Row) -> bool:
    """Whether a catalogue model of the row's name adds attention and MLP at once, so that a layer has one all-reduce."""
    name = row.inputs.get("model")
    try:
        layers = catalog.model(str(name)).layers if name else ()
    except UnknownNameError:
        return False
    messages = [sum(isinstance(o, Message) for o in layer.operations) for layer in layers]
    return bool(messages) and max(messages) == 1
