"""A multi-layer perceptron with ReLU and plain SGD. Tensor parallelism splits its layers in turn by columns and by rows."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mlsysim.hlo.export.layout import Layout, cross_entropy
from mlsysim.hlo.export.recipe import Recipe
from mlsysim.hlo.export.training import Trained, sgd


class Mlp(Trained):
    """Shapes, placement and loss of a recipe's perceptron."""

    def __init__(self, recipe: Recipe, layout: Layout) -> None:
        super().__init__(recipe, layout)
        self.pairs = list(zip(recipe.widths[:-1], recipe.widths[1:], strict=True))

    def _paired(self, i: int) -> bool:
        """Whether layer i is one of a pair that tensor parallelism splits; an odd last layer stays whole."""
        return i // 2 * 2 + 1 < len(self.pairs)

    def parameters(self) -> Any:
        return [
            {"w": jax.ShapeDtypeStruct((m, n), self.dtype), "b": jax.ShapeDtypeStruct((n,), self.dtype)}
            for m, n in self.pairs
        ]

    def specs(self) -> Any:
        found = []
        for i, (m, n) in enumerate(self.pairs):
            columns = i % 2 == 0
            dims = (int(columns), 0 if columns else None) if self._paired(i) else (None, None)
            found.append({"w": self.layout.spec((m, n), dims[0]), "b": self.layout.spec((n,), dims[1])})
        return found

    def batch(self, samples: int) -> Any:
        return {
            "x": jax.ShapeDtypeStruct((samples, self.recipe.widths[0]), self.dtype),
            "labels": jax.ShapeDtypeStruct((samples,), jnp.int32),
        }

    def update(self, parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        return sgd(parameters, gradients, state, rate=0.1)

    def loss(self, parameters: Any, statistics: Any, batch: Any) -> tuple[Any, Any]:
        x = batch["x"]
        for i, (held, specs) in enumerate(zip(parameters, self.specs(), strict=True)):
            x = self.layout.layer(partial(self.dense, i), specs)(x, held)
        whole = Layout(self.layout.kind, self.layout.devices)  # every device has all the classes
        return cross_entropy(x, batch["labels"], whole), statistics

    def dense(self, i: int, x: Any, weights: Any) -> Any:
        """Layer ``i``, with its collectives, bias and, but for the last, its ReLU."""
        if not self._paired(i):
            y = x @ weights["w"]
        elif i % 2 == 0:
            y = self.layout.enter(x) @ weights["w"]
        else:
            y = self.layout.leave(x @ weights["w"])
        y = y + weights["b"]
        return y if i == len(self.pairs) - 1 else jax.nn.relu(y)
