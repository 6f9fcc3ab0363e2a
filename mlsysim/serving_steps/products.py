"""The matrix products that a layer really runs: their shapes on one rank of a tensor-parallel group."""

from dataclasses import dataclass, replace

from mlsysim.catalog.operations import Attention, Layer, weights
from mlsysim.catalog.operations import Product as Matrix
from mlsysim.catalog.shapes import Model
from mlsysim.serving_steps.equations import fused_width


@dataclass(frozen=True)
class Product:
    """Rows x k times k x n. ``rows`` is what the batch gives; ``layers`` is how many layers run it."""

    name: str
    k: float
    n: float
    layers: int
    rows: str = "tokens"  # or "sequences", of the head
    part: str = "projections"  # term of the step that it belongs to


def layer_products(model: Model, tp: int = 1, fused: bool = True) -> tuple[Product, ...]:
    """Products of a pass of a model, those of its experts left out. ``fused``: queries, keys and values in one.

    >>> from mlsysim import catalog
    >>> [(p.name, p.k, p.n) for p in layer_products(catalog.model("Llama-3.1-8B"))][:2]
    [('qkv', 4096, 6144.0), ('output', 4096.0, 4096)]
    """
    model.check_whole("layer_products")
    found = [p for layer in model.layers for p in _of_layer(layer, model.hidden, tp, fused)]
    alike: dict[Product, int] = {}  # layers whose products have the same sizes, with a window or without
    for p in found:
        kind = replace(p, layers=0)
        alike[kind] = alike.get(kind, 0) + p.layers
    made = [replace(kind, layers=layers) for kind, layers in alike.items()]
    others = sum(weights(o) for o in model.before if isinstance(o, Matrix) and o.part == "other")
    if others:
        made += [
            Product("other", model.hidden, others / (model.hidden * model.n_layers * tp), model.n_layers, part="mlp")
        ]
    return (*made, Product("head", model.head.k, model.head.n / tp, 1, rows="sequences", part="head"))


_NAMES = {
    ("shared_experts", "up"): "shared up",
    ("shared_experts", "down"): "shared down",
}
_LEFT_OUT = {("experts", "up"), ("experts", "down"), ("shared_experts", "gate"), ("indexer", "index_weights")}


def _of_layer(layer: Layer, hidden: int, tp: int, fused: bool) -> list[Product]:
    """Products of one kind of layer, as kernels run them: queries, keys and values in one, a recurrence's inputs in one."""
    matrices = [o for o in layer.operations if isinstance(o, Matrix)]
    core = next((o for o in layer.operations if isinstance(o, Attention)), None)
    own = core is not None and not core.latent_v and any(o.name == "k" for o in matrices)
    inputs = [o for o in matrices if o.part == "recurrence" and o.name != "out"]
    found: list[Product] = []
    if inputs:
        width = sum(map(weights, inputs)) / hidden
        found.append(Product("recurrence_in", hidden, width / tp, layer.count))
    for o in matrices:
        name, key = _NAMES.get((o.part, o.name), o.name), (o.part, o.name)
        columns = o.n * o.copies if o.part == "attention" else o.n  # of all groups
        k, n = (o.k / tp if o.split == "k" else o.k), (columns / tp if o.split == "n" else columns)
        part = "projections" if o.part in ("attention", "indexer", "recurrence") else "mlp"
        if key in _LEFT_OUT or o in inputs or (own and o.part == "attention" and o.name in ("k", "v")):
            continue
        if own and core is not None and o.name == "q":
            values = any(one.name == "v" for one in matrices)
            found += _keys_and_queries(core, o.k, tp, fused, layer.count, values)
        elif o.part == "shared_experts" and o.name in ("up", "down"):  # all of them in one
            k, n = (o.copies * k, n) if o.name == "down" else (k, o.copies * n)
            found.append(Product(name, k, n, layer.count, part=part))
        elif o.name in ("index_k", "compress") and o.part == "indexer":  # with the weights of its heads
            heads = sum(one.n for one in matrices if one.name == "index_weights")
            found.append(Product(name, k, n + heads, layer.count, part=part))
        else:
            found.append(
                Product("recurrence_out" if key == ("recurrence", "out") else name, k, n, layer.count, part=part)
            )
    return found


def _keys_and_queries(
    core: Attention, read: int, tp: int, fused: bool, layers: int, values: bool = True
) -> list[Product]:
    """``values``: they have a matrix of their own, and are not the keys."""
    if fused:
        width = fused_width(core.heads, core.kv_heads, (core.qk_dim + core.v_dim) / 2, tp)
        width -= 0.0 if values else max(1.0, core.kv_heads / tp) * core.v_dim
        return [Product("qkv", read, width, layers)]
    shared = max(1.0, core.kv_heads / tp)
    return [
        Product("q", read, core.heads * core.qk_dim / tp, layers),
        Product("k", read, shared * core.qk_dim, layers),
        *([Product("v", read, shared * core.v_dim, layers)] if values else []),
    ]
