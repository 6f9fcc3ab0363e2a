"""Who holds what: how a parallel training step splits arrays over the devices, and the collectives that it then needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

AXIS = "devices"


@dataclass(frozen=True)
class Layout:
    """One kind of parallelism over one mesh axis.

    ``explicit`` programs hold one device's part of each array and call collectives; otherwise arrays are whole, and a
    compiler partitions the program.
    """

    kind: str = "dp"
    devices: int = 1
    explicit: bool = False

    @property
    def splits_batch(self) -> bool:
        return self.kind != "tp"

    @property
    def shards(self) -> int:
        """Parts that one device's program sees an array split over a tensor-parallel group in."""
        return self.devices if self.explicit and self.kind == "tp" else 1

    def spec(self, shape: tuple[int, ...], tensor_dim: int | None = None, stacked: bool = False) -> PartitionSpec:
        """How a parameter of that shape is held; ``tensor_dim`` is the dimension that tensor parallelism splits.

        Fully sharded training splits the largest dimension that the devices divide; vectors (norms, biases), which
        are small, stay whole, as in common practice.
        """
        first = int(stacked)  # a stack of layers is never split by layer
        dim: int | None = None
        if self.kind == "tp":
            dim = tensor_dim
        elif self.kind == "fsdp" and len(shape) - first > 1:
            fitting = [i for i in range(first, len(shape)) if shape[i] % self.devices == 0]
            dim = max(fitting, key=lambda i: shape[i], default=None)
        return PartitionSpec(*(AXIS if i == dim else None for i in range(len(shape))))

    def batch_spec(self) -> PartitionSpec:
        return PartitionSpec(AXIS) if self.splits_batch else PartitionSpec()

    def whole(self, held: Any, specs: Any) -> Any:
        """Parameters as a layer uses them: gathered where they are split for storage only."""
        if not (self.explicit and self.kind == "fsdp"):
            return held

        def gather(part: Any, spec: PartitionSpec) -> Any:
            if AXIS not in tuple(spec):
                return part
            return lax.all_gather(part, AXIS, axis=tuple(spec).index(AXIS), tiled=True)

        return jax.tree.map(gather, held, specs)

    def layer(self, body: Callable[..., Any], specs: Any) -> Callable[..., Any]:
        """``body(x, weights)`` on the weights as they are held.

        Fully sharded, the layer drops the weights that it gathered and gathers them again for its backward pass.
        """

        def held_layer(x: Any, held: Any) -> Any:
            return body(x, self.whole(held, specs))

        if not (self.explicit and self.kind == "fsdp"):
            return held_layer
        again: Callable[..., Any] = jax.checkpoint(held_layer, policy=lambda op, *_, **__: op.name != "all_gather")
        return again

    def enter(self, x: Any) -> Any:
        """Into column-split weights: nothing forward, the sum of the gradients backward."""
        return _enter(x) if self.explicit and self.kind == "tp" else x

    def leave(self, x: Any) -> Any:
        """Out of row-split weights: the sum of the partial results forward, nothing backward."""
        return _leave(x) if self.explicit and self.kind == "tp" else x

    def maximum(self, x: Any) -> Any:
        """The largest over the group, without a gradient."""
        return lax.pmax(lax.stop_gradient(x), AXIS) if self.explicit and self.kind == "tp" else lax.stop_gradient(x)

    def first(self, n: int) -> Any:
        """Where the device's part of a dimension begins, of which it holds ``n``."""
        return lax.axis_index(AXIS) * n if self.explicit and self.kind == "tp" else 0

    def share(self, loss: Any) -> Any:
        """The device's share of the mean over the whole batch, so that gradients add up."""
        return loss / self.devices if self.explicit and self.splits_batch else loss

    def total(self, loss: Any) -> Any:
        return lax.psum(loss, AXIS) if self.explicit and self.splits_batch else loss

    def gradients(self, gradients: Any, specs: Any) -> Any:
        """Sums over the batch's parts. Of split parameters the transposed gather has made them already."""
        if not (self.explicit and self.splits_batch):
            return gradients
        return jax.tree.map(lambda g, spec: g if AXIS in tuple(spec) else lax.psum(g, AXIS), gradients, specs)


_enter = jax.custom_vjp(lambda x: x)
_enter.defvjp(lambda x: (x, None), lambda _, g: (lax.psum(g, AXIS),))
_leave = jax.custom_vjp(lambda x: lax.psum(x, AXIS))
_leave.defvjp(lambda x: (lax.psum(x, AXIS), None), lambda _, g: (g,))


def cross_entropy(logits: Any, labels: Any, layout: Layout) -> Any:
    """Mean negative log-likelihood in f32, of logits whose classes may be split over the group."""
    logits = logits.astype(jnp.float32)
    peak = layout.maximum(logits.max(axis=-1))
    total = layout.leave(jnp.exp(logits - peak[..., None]).sum(axis=-1))
    classes = lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1) + layout.first(logits.shape[-1])
    target = layout.leave(jnp.where(classes == labels[..., None], logits, 0.0).sum(axis=-1))
    return jnp.mean(jnp.log(total) + peak - target)
