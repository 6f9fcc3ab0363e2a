"""A decoder from its usual sizes: layers that are alike, or of a few sorts."""

from typing import Any

from mlsysim.catalog import blocks
from mlsysim.catalog.blocks import Block
from mlsysim.catalog.operations import Product, Vector

_KEPT = (
    "name",
    "tower_parameters",
    "counts_only",
    "rotary_rows",
    "rotary_dim",
    "stored",
    "aliases",
    "family",
    "estimated",
)
_KEPT += ("notes", "source", "where", "published")
_DEFAULTS: dict[str, Any] = {"norm": "rmsnorm", "qk_norm": "", "recurrence": "", "attention_gate": ""}
_DEFAULTS |= dict.fromkeys(("gated_mlp", "norm_bias", "final_norm", "index_weights", "recurrent_norm"), True)
_DEFAULTS |= {"norms_per_layer": 2, "moe_every": 1}


class _Sizes:
    """Flat sizes by name; what is not given has its default."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given

    def __getattr__(self, name: str) -> Any:
        return self.given.get(name, _DEFAULTS.get(name, 0))


def lower(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a Model from flat sizes and flags."""
    g = _Sizes(given)
    h, n, layernorm = g.hidden, g.layers, g.norm == "layernorm" and g.norm_bias
    attended = _attentions(g, layernorm)
    recurrent = [_recurrence(g)] * g.n_recurrent_layers if g.recurrence else []
    both = max(0, len(attended) + len(recurrent) - n)
    mixers = [*recurrent[both:], *map(blocks.beside, recurrent[:both], attended), *attended[both:]]
    mixers += [()] * (n - len(mixers))
    mixture = _mixture(g) if g.n_experts else ()
    dense = blocks.mlp(h, width=g.ffn, gated=g.gated_mlp, bias=bool(g.mlp_bias)) if g.ffn else ()
    with_mlp = n - g.n_mlp_free_layers
    n_moe = (with_mlp - g.n_dense_layers) // g.moe_every if g.n_experts else 0
    either: list[Block] = [dense] * (with_mlp - n_moe) + [mixture] * n_moe
    mlps = [()] * g.n_mlp_free_layers + (either if g.moe_every == 1 else either[::-1])
    if g.n_shared_blocks:
        mlps = [()] * (n - len(attended)) + [dense] * len(attended)
        for i in range(n - len(attended) + g.n_shared_blocks, n):
            mixers[i] = (*recurrent[:1][0], *blocks.elsewhere(attended[0])) if both else blocks.elsewhere(mixers[i])
            mlps[i] = blocks.elsewhere(mlps[i])
    normed = blocks.norms(h, g.norms_per_layer, layernorm)
    made = [(*blocks.joined(m, f, bool(g.parallel_block)), *normed) for m, f in zip(mixers, mlps, strict=True)]
    before = blocks.embedding(
        h,
        g.vocab,
        width=g.embedding_width,
        positions=g.learned_positions,
        tables=g.table_parameters,
        norm=bool(g.embedding_norm),
        norm_bias=layernorm,
    )
    if g.other_matrices:
        before += (Product("other", "other", 1, g.other_matrices, "n"),)
    if g.other_vectors:
        before += (Vector("other", "other", g.other_vectors),)
    after = blocks.head(
        h,
        g.vocab,
        width=g.embedding_width,
        tied=bool(g.tied_embeddings),
        bias=bool(g.head_bias),
        norm=g.final_norm,
        norm_bias=layernorm,
    )
    fields = {k: v for k, v in given.items() if k in _KEPT}
    if g.n_mtp_layers:
        free = ("n_windowed_layers", "n_attention_free_layers", "n_reused_layers", "n_reused_windowed", "n_indexers")
        one = _Sizes({**given, "layers": 1, **dict.fromkeys(free, 0), "n_indexed_layers": min(1, g.n_indexed_layers)})
        layer = (*blocks.joined(_attentions(one, layernorm)[0], mixture or dense, bool(g.parallel_block)), *normed)
        layer += blocks.norms(h, int(g.final_norm) + int(bool(g.embedding_norm)), layernorm)
        # a layer that holds one part only has a layer for its MLP beside that for its attention
        fields["modules"] = blocks.module(h, layer + blocks.norms(h, int(g.n_mlp_free_layers > 0)), g.n_mtp_layers)
    return {**fields, "hidden": h, "vocab": g.vocab, "layers": blocks.stacked(made), "before": before, "after": after}


def _recurrence(g: _Sizes) -> Block:
    return blocks.recurrence(
        g.hidden,
        kind=g.recurrence,
        heads=g.recurrent_heads,
        head_dim=g.recurrent_head_dim,
        key_heads=g.recurrent_key_heads,
        state=g.recurrent_state,
        conv=g.recurrent_conv,
        rank=g.recurrent_rank,
        bias=bool(g.recurrent_bias),
        conv_bias=bool(g.conv_bias),
        norm=bool(g.recurrent_norm),
        state_bits=g.state_bits,
    )


def _mixture(g: _Sizes) -> Block:
    return blocks.experts(
        g.hidden,
        n=g.n_experts,
        top_k=g.top_k,
        width=g.moe_ffn,
        gated=bool(g.gated_mlp),
        bias=bool(g.mlp_bias),
        narrow=g.moe_hidden,
        shared=g.n_shared_experts,
        shared_width=g.shared_ffn,
        shared_gate=bool(g.shared_gate),
        zero=g.n_zero_experts,
        router_bias=bool(g.router_bias),
    )


def _attentions(g: _Sizes, layernorm: bool) -> list[Block]:
    sizes = {"heads": g.index_heads, "size": g.index_head_dim, "q_rank": g.q_lora_rank}
    picks = blocks.indexer(g.hidden, **sizes, weights=bool(g.index_weights)) if g.n_indexed_layers else ()
    common = {"gate": g.attention_gate, "sinks": bool(g.attention_sinks)}
    value = g.v_head_dim or g.head_dim

    def one(windowed: bool, **found: Any) -> Block:
        reuses = found.pop("reuses")
        found |= common | {"window": g.attn_window if windowed else 0}
        if g.kv_lora_rank:
            latent = {"kv_rank": g.kv_lora_rank, "rope_dim": g.qk_rope_head_dim, "q_rank": g.q_lora_rank}
            return blocks.latent_attention(
                g.hidden, heads=g.heads, head_dim=g.head_dim, value_dim=value, **latent, **found
            )
        near = windowed and g.window_head_dim
        return blocks.attention(
            g.hidden,
            heads=(windowed and g.window_heads) or g.heads,
            kv_heads=(windowed and g.window_kv_heads) or g.kv_heads,
            head_dim=near or g.head_dim,
            value_dim=(windowed and g.window_v_head_dim) or near or value,
            width=g.attention_width,
            qkv_bias=bool(g.qkv_bias),
            output_bias=bool(g.output_bias),
            qk_norm=g.qk_norm,
            norm_bias=layernorm,
            shared_kv=bool(g.shared_kv) and not windowed,
            reuses=reuses,
            **found,
        )

    wide = g.layers - g.n_attention_free_layers - g.n_windowed_layers
    indexers = g.n_indexers or g.n_indexed_layers
    return [
        one(
            False,
            reuses=i >= wide - g.n_reused_layers,
            picked=g.index_top_k if i < g.n_indexed_layers else 0,
            indexer=picks if i < indexers else (),
        )
        for i in range(wide)
    ] + [one(True, reuses=i >= g.n_windowed_layers - g.n_reused_windowed) for i in range(g.n_windowed_layers)]
