"""A small transformer in NumPy, run for real: what a device profile predicts is held against it.

It shares no code with the micro-benchmark but the attention formula, and its times enter no rate.
"""

from functools import partial
from typing import Any

from mlsysim.catalog.shapes import decoder
from mlsysim.evidence.measuring.profiles import Point, Profile
from mlsysim.evidence.measuring.rounds import Rounds, attend, causal_mask
from mlsysim.inference import deploy
from mlsysim.serving_steps.batches import Batch
from mlsysim.serving_steps.products import layer_products
from mlsysim.serving_steps.step import StepModel, step_model

# Large enough that no cache holds its weights: 47 MB a layer
TINY = decoder(
    name="Tiny-NumPy", layers=4, hidden=1024, heads=16, kv_heads=4, head_dim=64, ffn=2816, vocab=8192, source="own"
)
CASES = ((1, 128, 128), (1, 512, 512), (1, 1, 512), (8, 1, 512), (8, 1, 2048))  # batch, new tokens, context with them


class Tiny:
    """Random weights and a cache; one call is one step of a server."""

    def __init__(self, batch: int, capacity: int) -> None:
        import numpy as np

        m, self.np = TINY, np
        rng = np.random.default_rng(0)

        def weights(rows: int, columns: int) -> Any:
            return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(rows**-0.5)

        qkv = (m.heads + 2 * m.kv_heads) * m.head_dim
        self.layers = [
            (weights(m.hidden, qkv), weights(m.heads * m.head_dim, m.hidden), weights(m.hidden, 2 * m.ffn), weights(m.ffn, m.hidden))
            for _ in range(m.n_layers)
        ]  # fmt: skip
        self.head = weights(m.hidden, m.vocab)
        self.cache = rng.standard_normal((m.n_layers, 2, batch, m.kv_heads, capacity, m.head_dim), dtype=np.float32)

    def step(self, x: Any, cached_len: int) -> Any:
        """Logits of the last token; ``x`` holds the new tokens' vectors, (batch, new, hidden)."""
        np, m = self.np, TINY
        batch, new, _ = x.shape
        mask = causal_mask(new) if new > 1 else None
        for (qkv, out, up, down), (keys, values) in zip(self.layers, self.cache, strict=True):
            heads = (self._norm(x).reshape(-1, m.hidden) @ qkv).reshape(batch, new, -1, m.head_dim).swapaxes(1, 2)
            q, k, v = np.split(heads, [m.heads, m.heads + m.kv_heads], axis=1)
            keys[:, :, cached_len : cached_len + new], values[:, :, cached_len : cached_len + new] = k, v
            seen_keys, seen_values = (c[:, :, None, : cached_len + new] for c in (keys, values))
            grouped = q.reshape(batch, m.kv_heads, m.heads // m.kv_heads, new, m.head_dim)
            if new == 1:  # the queries of a group share one reading of their keys
                grouped = grouped.swapaxes(2, 3)
            mixed = attend(grouped, seen_keys, seen_values, mask)
            if new == 1:
                mixed = mixed.swapaxes(2, 3)
            mixed = mixed.reshape(batch, m.heads, new, m.head_dim).swapaxes(1, 2).reshape(batch * new, -1)
            x = x + (mixed @ out).reshape(x.shape)
            gate, value = np.split(self._norm(x).reshape(-1, m.hidden) @ up, 2, axis=1)
            x = x + (gate / (1 + np.exp(-gate)) * value @ down).reshape(x.shape)
        return self._norm(x[:, -1]) @ self.head

    def _norm(self, x: Any) -> Any:
        return x / self.np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def add(rounds: Rounds) -> None:
    """Steps of the small transformer, to be timed among the points of a micro-benchmark."""
    import numpy as np

    for batch, new, context in CASES:
        net = Tiny(batch, context)
        x = np.random.default_rng(4).standard_normal((batch, new, TINY.hidden), dtype=np.float32)
        rounds.add(("tiny", batch, new, context), partial(net.step, x, context - new))


def checks(rounds: Rounds) -> tuple[Point, ...]:
    """Seconds of those steps."""
    return tuple(
        Point({"layers": TINY.n_layers, "batch": b, "new": n, "context": c}, rounds.seconds(("tiny", b, n, c)))
        for b, n, c in CASES
    )


def model_of(profile: Profile) -> StepModel:
    """The step model of the small transformer on a measured device."""
    deployment = deploy(TINY, profile.device, precision=profile.precision, kv=profile.precision)
    return step_model(deployment, efficiencies=profile.rates)


def batch_of(check: Point) -> Batch:
    """The step that a check measured."""
    at = check.at
    if at["new"] > 1:
        return Batch.of(TINY, prefills=[(at["new"], at["context"] - at["new"])] * int(at["batch"]))
    return Batch.of(TINY, decodes=[at["context"]] * int(at["batch"]))


def predictions(profile: Profile, check: Point) -> tuple[float, float]:
    """Seconds of a checked step by the profile's constants, and with its table of products in their place."""
    model, batch = model_of(profile), batch_of(check)
    terms = model.terms(batch)
    rows = {"tokens": float(batch.tokens), "sequences": float(batch.sequences)}
    products = sum(p.layers * profile.product_time(rows[p.rows], p.k, p.n) for p in layer_products(TINY))
    by_constants = float(terms.time)
    return by_constants, by_constants - float(terms.projections + terms.mlp + terms.head) + products
