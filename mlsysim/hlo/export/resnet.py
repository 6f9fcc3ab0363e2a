"""Residual networks for ImageNet (He et al. 2016), version 1.5: the 3x3 convolution of a bottleneck has the stride.

Parameters, batch norm and loss in f32, convolutions in the recipe's type: mixed precision without loss scaling. Batch
norm is in training mode; with explicit collectives each device normalises over its own images, as data parallelism
does unless told otherwise, and without them the norm is over the whole batch. SGD with momentum and weight decay.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mlsysim.hlo.export.layout import Layout, cross_entropy
from mlsysim.hlo.export.recipe import Recipe
from mlsysim.hlo.export.training import Trained, sgd


class ResNet(Trained):
    """Shapes, placement and loss of a recipe's residual network."""

    def __init__(self, recipe: Recipe, layout: Layout) -> None:
        super().__init__(recipe, layout)
        self.network = recipe.network()
        self.channels_last = recipe.image_layout == "NHWC"
        self.space = (1, 2) if self.channels_last else (2, 3)

    def _tree(self, kernel: Any, vector: Any) -> Any:
        """A tree over the parameters: ``kernel(shape)`` and ``vector(n)``."""
        tree: dict[str, Any] = {"stages": [[{} for _ in range(count)] for count in self.network.blocks]}
        for c in self.network.convolutions():
            *at, name = c.name.split(".")
            into = tree["stages"][int(at[0])][int(at[1])] if at else tree
            shape = (c.kernel, c.kernel, c.inputs, c.outputs)
            into[name] = {"w": kernel(shape), "scale": vector(c.outputs), "bias": vector(c.outputs)}
        classes = self.network.classes
        return tree | {"head": {"w": kernel((self.network.features, classes)), "bias": vector(classes)}}

    def parameters(self) -> Any:
        def f32(*shape: int) -> Any:
            return jax.ShapeDtypeStruct(shape, jnp.float32)

        return self._tree(lambda shape: f32(*shape), f32)

    def specs(self) -> Any:
        return self._tree(self.layout.spec, lambda n: self.layout.spec((n,)))

    def optimiser(self, parameters: Any) -> Any:
        return {"velocity": parameters}

    def optimiser_specs(self, specs: Any) -> Any:
        return {"velocity": specs}

    def statistics(self) -> Any:
        """Running mean and variance of each batch norm."""

        def pairs(tree: Any) -> Any:
            if isinstance(tree, list):
                return [pairs(part) for part in tree]
            if "scale" in tree:
                return {"mean": tree["scale"], "variance": tree["scale"]}
            return {name: pairs(part) for name, part in tree.items() if name != "head"}

        return pairs(self.parameters())

    def batch(self, samples: int) -> Any:
        size = self.recipe.image
        shape = (samples, size, size, 3) if self.channels_last else (samples, 3, size, size)
        return {
            "x": jax.ShapeDtypeStruct(shape, self.dtype),
            "labels": jax.ShapeDtypeStruct((samples,), jnp.int32),
        }

    def update(self, parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        return sgd(parameters, gradients, state, rate=0.1, decay=1e-4)

    def loss(self, parameters: Any, statistics: Any, batch: Any) -> tuple[Any, Any]:
        specs = self.specs()
        stem = self.layout.layer(partial(self.stem, statistics["stem"]), specs["stem"])
        x, kept = stem(batch["x"], parameters["stem"])
        new: dict[str, Any] = {"stem": kept, "stages": []}
        for stage, blocks in enumerate(parameters["stages"]):
            new["stages"].append([])
            for i, held in enumerate(blocks):
                running = statistics["stages"][stage][i]
                stride = 2 if stage > 0 and i == 0 else 1
                one = self.layout.layer(partial(self.block, stride, running), specs["stages"][stage][i])
                x, kept = one(x, held)
                new["stages"][-1].append(kept)
        x = x.astype(jnp.float32).mean(axis=self.space).astype(self.dtype)
        head = self.layout.whole(parameters["head"], specs["head"])
        logits = x @ head["w"].astype(self.dtype) + head["bias"].astype(self.dtype)
        return cross_entropy(logits, batch["labels"], self.layout), new

    def convolution(self, x: Any, kernel: Any, stride: int) -> Any:
        pad = (kernel.shape[0] - 1) // 2
        numbers = (self.recipe.image_layout, "HWIO", self.recipe.image_layout)
        kernel = kernel.astype(self.dtype)
        return lax.conv_general_dilated(x, kernel, (stride, stride), [(pad, pad)] * 2, dimension_numbers=numbers)

    def normed(self, x: Any, held: Any, running: Any, stride: int = 1) -> tuple[Any, Any]:
        """A convolution and its batch norm, with the running statistics as they become."""
        x = self.convolution(x, held["w"], stride).astype(jnp.float32)
        axes = (0, *self.space)
        mean = x.mean(axis=axes)
        variance = jnp.square(x).mean(axis=axes) - jnp.square(mean)
        scale = held["scale"] * lax.rsqrt(variance + 1e-5)
        y = (x - self.spread(mean)) * self.spread(scale) + self.spread(held["bias"])
        found = lax.stop_gradient({"mean": mean, "variance": variance})
        return y.astype(self.dtype), jax.tree.map(lambda old, now: 0.9 * old + 0.1 * now, running, found)

    def spread(self, vector: Any) -> Any:
        """A value per channel, in the shape that meets an image."""
        return vector if self.channels_last else vector[:, None, None]

    def stem(self, running: Any, x: Any, held: Any) -> tuple[Any, Any]:
        x, kept = self.normed(x, held, running, 2)
        window, strides, pads = [1] * 4, [1] * 4, [(0, 0)] * 4
        for axis in self.space:
            window[axis], strides[axis], pads[axis] = 3, 2, (1, 1)
        return lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, window, strides, pads), kept

    def block(self, stride: int, running: Any, x: Any, held: Any) -> tuple[Any, Any]:
        """A residual block; its stride is that of its first 3x3 convolution."""
        names = [name for name in ("conv1", "conv2", "conv3") if name in held]
        kept = {}
        y = x
        for name in names:
            strided = name == ("conv2" if self.network.bottleneck else "conv1")
            y, kept[name] = self.normed(y, held[name], running[name], stride if strided else 1)
            if name != names[-1]:
                y = jax.nn.relu(y)
        if "project" in held:
            x, kept["project"] = self.normed(x, held["project"], running["project"], stride)
        return jax.nn.relu(x + y), kept
