"""The training step: loss, gradients, their collectives, and the optimiser."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mlsysim.hlo.export.layout import Layout
from mlsysim.hlo.export.recipe import Recipe

Tree = Any


class Trained:
    """A recipe's model with its placement: shapes, specs, loss and update are the model's own; most keep nothing else."""

    def __init__(self, recipe: Recipe, layout: Layout) -> None:
        self.recipe, self.layout, self.dtype = recipe, layout, jnp.dtype(recipe.element)

    def optimiser(self, parameters: Tree) -> Tree:
        return {}

    def optimiser_specs(self, specs: Tree) -> Tree:
        return {}

    def statistics(self) -> Tree:
        return {}


def sgd(parameters: Tree, gradients: Tree, state: Tree, rate: float, decay: float = 0.0) -> tuple[Tree, Tree]:
    """Stochastic gradient descent; with momentum 0.9 when ``state`` holds velocities."""

    def step(p: Any, g: Any) -> Any:
        return (p - rate * g).astype(p.dtype)

    if decay:
        gradients = jax.tree.map(lambda g, p: g + decay * p if p.ndim > 1 else g, gradients, parameters)
    if state:
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], gradients)
        return jax.tree.map(step, parameters, velocity), {"velocity": velocity}
    return jax.tree.map(step, parameters, gradients), state


def adamw(parameters: Tree, gradients: Tree, state: Tree, rate: float, decay: float = 0.1) -> tuple[Tree, Tree]:
    """AdamW with moments in f32 beside weights of any type."""
    count = state["count"] + 1
    first, second = 0.9, 0.95
    time = count.astype(jnp.float32)
    bias = 1 - first**time, 1 - second**time
    moments = jax.tree.map(lambda m, g: first * m + (1 - first) * g.astype(jnp.float32), state["m"], gradients)
    squares = jax.tree.map(
        lambda v, g: second * v + (1 - second) * jnp.square(g.astype(jnp.float32)), state["v"], gradients
    )

    def step(p: Any, m: Any, v: Any) -> Any:
        wide = p.astype(jnp.float32)
        change = (m / bias[0]) / (jnp.sqrt(v / bias[1]) + 1e-8) + decay * wide
        return (wide - rate * change).astype(p.dtype)

    return jax.tree.map(step, parameters, moments, squares), {"m": moments, "v": squares, "count": count}


def step(
    loss: Callable[[Tree, Tree, Tree], tuple[Any, Tree]],
    update: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]],
    specs: Tree,
    layout: Layout,
) -> Callable[[Tree, Tree, Tree, Tree], tuple[Tree, Tree, Tree, Any]]:
    """(parameters, optimiser, statistics, batch) to the same three and the loss.

    ``loss(parameters, statistics, batch)`` gives the mean over the batch that it sees, and the new statistics.
    """

    def share(parameters: Tree, statistics: Tree, batch: Tree) -> tuple[Any, Tree]:
        value, new = loss(parameters, statistics, batch)
        return layout.share(value), new

    def train_step(parameters: Tree, optimiser: Tree, statistics: Tree, batch: Tree) -> tuple[Tree, Tree, Tree, Any]:
        (value, statistics), gradients = jax.value_and_grad(share, has_aux=True)(parameters, statistics, batch)
        gradients = layout.gradients(gradients, specs)
        parameters, optimiser = update(parameters, gradients, optimiser)
        return parameters, optimiser, statistics, layout.total(value)

    return train_step
