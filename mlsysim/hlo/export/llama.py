"""A decoder-only transformer as Llama has it: RMS norms, rotary positions, grouped queries, SwiGLU; AdamW.

Weights and activations in one type (bf16), norms, softmax, loss and AdamW's moments in f32. The attention's scores are
computed and stored whole, with a causal mask: no fused attention.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from mlsysim.hlo.export.layout import Layout, cross_entropy
from mlsysim.hlo.export.recipe import Recipe
from mlsysim.hlo.export.training import Trained, adamw

# Weights of a layer: shape in the model's sizes, and the dimension that tensor parallelism splits
_ATTENTION = {"wq": ("hidden", "q"), "wk": ("hidden", "kv"), "wv": ("hidden", "kv"), "wo": ("q", "hidden")}
_MLP = {"gate": ("hidden", "ffn"), "up": ("hidden", "ffn"), "down": ("ffn", "hidden")}
_SPLIT = {"wq": 1, "wk": 1, "wv": 1, "wo": 0, "gate": 1, "up": 1, "down": 0}


class Llama(Trained):
    """Shapes, placement and loss of a recipe's transformer."""

    def __init__(self, recipe: Recipe, layout: Layout) -> None:
        super().__init__(recipe, layout)
        m = self.shape = recipe.transformer()
        self.sizes = {"hidden": m.hidden, "q": m.heads * m.head_dim, "kv": m.kv_heads * m.head_dim, "ffn": m.ffn}

    def _tree(self, leaf: Any) -> Any:
        """A tree over the parameters; ``leaf(shape, tensor_dim, stacked)``."""
        m = self.shape
        layers: Any
        shapes = {k: tuple(self.sizes[n] for n in names) for k, names in (_ATTENTION | _MLP).items()}
        shapes |= {"norm1": (m.hidden,), "norm2": (m.hidden,)}
        if self.recipe.scan:
            layers = {
                k: leaf((m.n_layers, *s), None if k not in _SPLIT else _SPLIT[k] + 1, True) for k, s in shapes.items()
            }
        else:
            layers = [{k: leaf(s, _SPLIT.get(k), False) for k, s in shapes.items()} for _ in range(m.n_layers)]
        tree = {"layers": layers, "norm": leaf((m.hidden,), None, False), "embed": leaf((m.vocab, m.hidden), 0, False)}
        if not m.tied_embeddings:
            tree["head"] = leaf((m.hidden, m.vocab), 1, False)
        return tree

    def parameters(self) -> Any:
        return self._tree(lambda shape, dim, stacked: jax.ShapeDtypeStruct(shape, self.dtype))

    def specs(self) -> Any:
        return self._tree(lambda shape, dim, stacked: self.layout.spec(shape, dim, stacked))

    def optimiser(self, parameters: Any) -> Any:
        def moments() -> Any:
            return jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, jnp.float32), parameters)

        return {"m": moments(), "v": moments(), "count": jax.ShapeDtypeStruct((), jnp.int32)}

    def optimiser_specs(self, specs: Any) -> Any:
        return {"m": specs, "v": specs, "count": PartitionSpec()}

    def batch(self, sequences: int) -> Any:
        shape = (sequences, self.recipe.seq)
        return {k: jax.ShapeDtypeStruct(shape, jnp.int32) for k in ("tokens", "labels")}

    def update(self, parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        return adamw(parameters, gradients, state, rate=3e-4)

    def loss(self, parameters: Any, statistics: Any, batch: Any) -> tuple[Any, Any]:
        specs = self.specs()
        rotation = _rotation(batch["tokens"].shape[1], self.shape.head_dim)
        x = self.embed(parameters["embed"], specs["embed"], batch["tokens"])

        def layer(specs: Any) -> Any:
            return self.layout.layer(lambda x, weights: self.decoder(x, weights, rotation), specs)

        if self.recipe.scan:
            body = layer({name: PartitionSpec(*tuple(spec)[1:]) for name, spec in specs["layers"].items()})
            x, _ = lax.scan(lambda x, held: (body(x, held), None), x, parameters["layers"])
        else:
            for held, placed in zip(parameters["layers"], specs["layers"], strict=True):
                x = layer(placed)(x, held)
        x = _norm(x, parameters["norm"])
        if self.shape.tied_embeddings:
            head = self.layout.whole(parameters["embed"], specs["embed"]).T
        else:
            head = self.layout.whole(parameters["head"], specs["head"])
        logits = self.layout.enter(x) @ head
        return cross_entropy(logits, batch["labels"], self.layout), statistics

    def embed(self, held: Any, spec: PartitionSpec, tokens: Any) -> Any:
        """Rows of the table, by a gather or by a product with one-hot rows; of a split table, each device adds its own."""
        table = self.layout.whole(held, spec)
        local = tokens - self.layout.first(table.shape[0])
        if self.recipe.embedding == "onehot":
            rows = jax.nn.one_hot(local, table.shape[0], dtype=table.dtype)
            return self.layout.leave(rows @ table)
        if self.layout.shards == 1:
            return table[tokens]
        mine = (local >= 0) & (local < table.shape[0])
        return self.layout.leave(jnp.where(mine[..., None], table[jnp.where(mine, local, 0)], 0))

    def decoder(self, x: Any, w: Any, rotation: tuple[Any, Any]) -> Any:
        """One layer: attention and MLP, each behind its norm and beside its residual."""
        lay = self.layout
        h = lay.enter(_norm(x, w["norm1"]))
        q, k, v = (_heads(h @ w[name], self.shape.head_dim) for name in ("wq", "wk", "wv"))
        core = _again if self.recipe.recompute == "attention" else _attention
        x = x + lay.leave(core(_rotate(q, rotation), _rotate(k, rotation), v) @ w["wo"])
        h = lay.enter(_norm(x, w["norm2"]))
        return x + lay.leave((jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"])


def _norm(x: Any, weight: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + 1e-5)).astype(x.dtype) * weight


def _heads(x: Any, head_dim: int) -> Any:
    return x.reshape(*x.shape[:-1], -1, head_dim)


def _rotation(sequence: int, head_dim: int) -> tuple[Any, Any]:
    positions, steps = lax.iota(jnp.float32, sequence), lax.iota(jnp.float32, head_dim // 2)
    angles = positions[:, None] * 500_000.0 ** (steps * (-2 / head_dim))
    return jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]


def _rotate(x: Any, rotation: tuple[Any, Any]) -> Any:
    cos, sin = rotation
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def _attention(q: Any, k: Any, v: Any) -> Any:
    """Causal attention; queries come in groups that share a head of keys and values. Returns (batch, sequence, heads x size)."""
    batch, sequence, heads, size = q.shape
    q = q.reshape(batch, sequence, k.shape[2], heads // k.shape[2], size)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", q, k).astype(jnp.float32) * size**-0.5
    seen = lax.broadcasted_iota(jnp.int32, scores.shape, 3) >= lax.broadcasted_iota(jnp.int32, scores.shape, 4)
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1).astype(v.dtype)
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(batch, sequence, heads * size)


def _again_backward(kept: Any, gradient: Any) -> Any:
    # The barrier keeps a compiler from seeing that the scores are known already
    return jax.vjp(_attention, *lax.optimization_barrier(kept))[1](gradient)


_again = jax.custom_vjp(_attention)  # keeps only what goes in, and computes its scores again for the backward pass
_again.defvjp(lambda q, k, v: (_attention(q, k, v), (q, k, v)), _again_backward)
