"""Blocks of layers as operations: attention in its kinds, recurrences, MLPs, mixtures of experts.

A block is a tuple of operations. Those of the catalogue, of a ``config.json`` and of a shape written by hand are all made here,
and nothing else knows by which options they were made.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mlsysim.catalog.operations import (
    Attention,
    Compressor,
    Convolution,
    Gather,
    Indexer,
    Layer,
    Message,
    Norm,
    Operation,
    Product,
    Scan,
    Streams,
    Vector,
    alike,
)
from mlsysim.errors import InputError

Block = tuple[Operation, ...]
_LARGEST = 10**7  # of any one size
WITHOUT_KEYS = ("mamba", "rg-lru", "short-conv")  # recurrences whose convolutions see values alone


def _check(least: int = 1, **sizes: int) -> None:
    for name, value in sizes.items():
        if not least <= value <= _LARGEST:
            raise InputError(f"{name} = {value!r} must lie in [{least}, {_LARGEST:,}]")


def _divides(name: str, value: int, whole: str, of: int) -> None:
    if of % value:
        raise InputError(f"{name} = {value} must divide {whole} = {of}")


def _one_of(name: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise InputError(f"{name} = {value!r} must be one of {', '.join(map(repr, choices))}")


def attention(
    hidden: int,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    value_dim: int = 0,
    width: int = 0,
    window: int = 0,
    qkv_bias: bool = False,
    output_bias: bool = False,
    qk_norm: str = "",
    norm_bias: bool = False,
    gate: str = "",
    sinks: bool = False,
    shared_kv: bool = False,
    reuses: bool = False,
    picked: int = 0,
    indexer: Block = (),
) -> Block:
    """Multi-head, grouped-query or multi-query attention over all keys, a window, or those that an indexer picks.

    Parameters
    ----------
    hidden, heads, kv_heads, head_dim : int
        Width of the residual stream, query heads, key and value heads, numbers of a query or key of one head.
    value_dim : int
        Numbers of a value of one head; 0: as of a key.
    width : int
        Numbers that queries, keys and values are made from; 0: hidden.
    window : int
        Keys that a query meets at most; 0: all.
    qk_norm : str
        Weights of a norm on queries and keys: ``"head"`` (a vector of head_dim each), ``"full"`` (of all heads), or none.
    gate : str
        A gate on the results: ``"full"`` (for each number), ``"head"`` (one a head), or none.
    sinks : bool
        A learned score a head that takes no value.
    shared_kv : bool
        Values are the keys.
    reuses : bool
        Reads the keys and values that another layer has cached, and has no matrices for them.
    picked : int
        Keys that an indexer picks; ``indexer`` is its own, of a layer that has one.
    """
    _check(heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    _divides("kv_heads", kv_heads, "heads", heads)
    _one_of("qk_norm", qk_norm, ("", "head", "full"))
    value, read = value_dim or head_dim, width or hidden
    queries, keys, values = heads * head_dim, kv_heads * head_dim, kv_heads * value
    found: list[Operation] = [Product("attention", "q", read, queries, "n", qkv_bias * queries)]
    if not reuses:
        found += [Product("attention", "k", read, keys, "n", qkv_bias * keys)]
        found += [] if shared_kv else [Product("attention", "v", read, values, "n", qkv_bias * values)]
    if qk_norm:
        normed = (head_dim, head_dim) if qk_norm == "head" else (queries, keys)
        found += [Norm(size, norm_bias, inner=True) for size in normed[: 1 if reuses else 2]]
    cached = 0 if reuses else keys + values
    found += [*indexer, Attention(heads, kv_heads, head_dim, value, cached, window, picked)]
    return (*found, *_results(hidden, heads, value, output_bias, gate, sinks))


def latent_attention(
    hidden: int,
    *,
    heads: int,
    head_dim: int,
    kv_rank: int,
    rope_dim: int,
    q_rank: int = 0,
    value_dim: int = 0,
    window: int = 0,
    gate: str = "",
    sinks: bool = False,
    picked: int = 0,
    indexer: Block = (),
) -> Block:
    """Multi-head latent attention: keys and values are made from ``kv_rank`` numbers of a token, which alone are cached.

    ``head_dim`` is a key's part without position, ``rope_dim`` the rotary part that all heads share (0: none); queries come from
    ``q_rank`` numbers (0: from the residual stream).
    """
    _check(heads=heads, head_dim=head_dim, kv_rank=kv_rank)
    _check(0, rope_dim=rope_dim)
    value, query = value_dim or head_dim, head_dim + rope_dim
    found: list[Operation] = []
    if q_rank:
        found += [Product("attention", "q_down", hidden, q_rank), Norm(q_rank, inner=True)]
        found += [Product("attention", "q_up", q_rank, heads * query, "n")]
    else:
        found += [Product("attention", "q", hidden, heads * query, "n")]
    found += [Product("attention", "kv_down", hidden, kv_rank + rope_dim), Norm(kv_rank, inner=True)]
    found += [Product("attention", "kv_up", kv_rank, heads * (head_dim + value), "n"), *indexer]
    latent = kv_rank + rope_dim
    found += [Attention(heads, heads, query, value, latent, window, picked, latent_qk=latent, latent_v=kv_rank)]
    return (*found, *_results(hidden, heads, value, False, gate, sinks))


def compressed_attention(
    hidden: int,
    *,
    heads: int,
    head_dim: int,
    q_rank: int,
    groups: int,
    output_rank: int,
    window: int,
    ratio: int = 0,
    overlap: bool = False,
    picked: int = 0,
    index_heads: int = 0,
    index_dim: int = 0,
) -> Block:
    """Attention over a window and over compressed keys, each of which is the value too and stands for all heads (DeepSeek-V4).

    Parameters
    ----------
    heads, head_dim, q_rank : int
        Query heads, numbers of a query and of a key, numbers that queries are made from.
    groups, output_rank : int
        Groups of heads whose results are compressed to so many numbers each on the way to the residual stream.
    window : int
        Tokens whose keys are met as they are.
    ratio : int
        Tokens of which one compressed key is made; 0: none, the window is all.
    overlap : bool
        A compressed key is made of the tokens of the one before it too.
    picked : int
        Compressed keys that an indexer picks; 0: all are met.
    index_heads, index_dim : int
        Of that indexer, which compresses keys of its own in the same way.
    """
    _check(heads=heads, head_dim=head_dim, q_rank=q_rank, output_rank=output_rank, window=window)
    _divides("groups", groups, "heads", heads)
    twice = 1 + overlap
    found: list[Operation] = [Product("attention", "q_down", hidden, q_rank), Norm(q_rank, inner=True)]
    found += [Product("attention", "q_up", q_rank, heads * head_dim, "n")]
    found += [Product("attention", "kv", hidden, head_dim), Norm(head_dim, inner=True)]

    def compressor(part: str, size: int) -> Block:
        """Keys and their weights, a place for each token of a group, a norm."""
        width = 2 * twice * size
        made = (Product(part, "compress", hidden, width), Vector(part, "places", ratio * twice * size))
        return (*made, Vector(part, "compressed norm", size), Compressor(ratio, twice * ratio, width))

    if ratio:
        found += compressor("attention", head_dim)
    if picked:
        _check(index_heads=index_heads, index_dim=index_dim, ratio=ratio)
        found += compressor("indexer", index_dim)
        found += [Product("indexer", "index_q", q_rank, index_heads * index_dim)]
        found += [Product("indexer", "index_weights", hidden, index_heads), Indexer(index_heads, index_dim, ratio)]
    found += [Attention(heads, 1, head_dim, head_dim, head_dim, window, picked, ratio=ratio)]
    found += [Vector("attention", "sinks", heads)]
    # a group has a matrix of its own, which goes with its heads
    found += [Product("attention", "output_down", heads * head_dim // groups, output_rank, "n", 0, groups, groups)]
    return (*found, Product("attention", "output", groups * output_rank, hidden, "k"), Message(hidden))


def streams(hidden: int, *, count: int, full: bool = True) -> Block:
    """Hyper-connections before attention or an MLP: a matrix says how ``count`` residual streams are summed, spread and mixed.

    ``full``: how they are mixed comes out of the matrix as well (manifold-constrained hyper-connections).
    """
    _check(count=count)
    outputs = (2 + count * full) * count
    made = (Product("other", "streams", count * hidden, outputs), Vector("other", "streams", outputs + 2 + full))
    return (*made, Streams(count, hidden))


def summed(hidden: int, count: int) -> Block:
    """What makes one stream of several behind all layers."""
    return Product("other", "streams", count * hidden, count), Vector("other", "streams", count + 1)


def _results(hidden: int, heads: int, value: int, bias: bool, gate: str, sinks: bool) -> Block:
    """What stands behind the core of attention: gate, sinks, output."""
    _one_of("gate", gate, ("", "full", "head"))
    found: list[Operation] = []
    if gate:
        found += [Product("attention", "gate", hidden, heads * (value if gate == "full" else 1), "n")]
    if sinks:
        found += [Vector("attention", "sinks", heads)]
    return (*found, Product("attention", "output", heads * value, hidden, "k", bias * hidden), Message(hidden))


def indexer(hidden: int, *, heads: int, size: int, q_rank: int = 0, weights: bool = True, pool: int = 0) -> Block:
    """What picks the keys that attention reads (DeepSeek-V3.2): queries, one key with a layer norm, a weight a head.

    ``pool``: so many tokens share a key, which is their mean by learned weights (GLM-5-Next); 0: each has its own.
    """
    _check(heads=heads, size=size)
    found: Block = (
        Product("indexer", "index_q", q_rank or hidden, heads * size),
        Product("indexer", "index_k", hidden, size),
        Vector("indexer", "index_norm", 2 * size),
    )
    weighted: Block = (Product("indexer", "index_weights", hidden, heads),) if weights else ()
    pooled: Block = ()
    if pool:
        pooled = (Product("indexer", "index_gate", hidden, size), Vector("indexer", "index places", pool * size))
        pooled += (Compressor(pool, pool, 2 * size),)
    return (*found, *weighted, *pooled, Indexer(heads, size, pool or 1))


def _parts(kind: str, part: Mapping[str, int]) -> tuple[Mapping[str, tuple[int, int]], Mapping[str, int]]:
    """Products (k, n) and vectors of a recurrence, from its sizes."""
    h, inner, keys, heads, rank = (part[name] for name in ("hidden", "inner", "keys", "heads", "rank"))
    norm, bias, head_dim, state = (part[name] for name in ("norm", "bias", "head_dim", "state"))
    low = {"low": (h, 2 * rank), "up": (rank, keys + inner)} if rank else {"low": (h, keys + inner)}
    if part["full_gate"]:
        low = {"low": (h, rank + inner), "up": (rank, keys)}
    biased = bias * (2 * inner + h)
    table: dict[str, tuple[dict[str, tuple[int, int]], dict[str, int]]] = {
        # queries, keys, values, a gate as wide as values; decay and rate of each head
        "gated-delta": (
            {"in": (h, 2 * keys + 2 * inner + 2 * heads)},
            {"decay": 2 * heads, "norm": norm * head_dim},
        ),
        # the decay of each key channel and the gate come from low ranks
        "kimi-delta": (
            {"in": (h, 2 * keys + inner + heads), **low},
            {"decay": heads + keys, "norm": norm * head_dim},
        ),
        # queries, keys, values, a gate; an input and a forget gate a head
        "mlstm": ({"in": (h, 2 * keys + 2 * inner + 2 * heads)}, {"gates": 2 * heads, "norm": norm * inner}),
        # a branch and its gate; two gates in blocks along the diagonal
        "rg-lru": (
            {"in": (h, 2 * inner), "gates": (inner // max(part["key_heads"], 1), 2 * inner)},
            {"gates": 3 * inner, "bias": biased},
        ),
        "lightning": ({"in": (h, 2 * keys + 2 * inner)}, {"norm": norm * inner}),  # queries, keys, values, a gate
        # values and a gate, keys and queries of the groups, a step size a head
        "mamba2": (
            {"in": (h, 2 * inner + 2 * keys + heads)},
            {"skip": 3 * heads, "norm": norm * inner, "bias": bias * (2 * inner + 2 * keys + heads + h)},
        ),
        # keys, queries and the factorised step size are made from the values
        "mamba": (
            {"in": (h, 2 * inner), "step": (inner, 2 * state + rank), "step_up": (rank, inner)},
            {"skip": inner * (state + 2), "norm": norm * (rank + 2 * state), "bias": biased},
        ),
        "short-conv": ({"in": (h, 3 * inner)}, {"bias": bias * (3 * inner + h)}),  # two gates around a convolution
    }
    return table[kind]


RECURRENCES = ("gated-delta", "kimi-delta", "lightning", "mamba", "mamba2", "mlstm", "rg-lru", "short-conv")
_NEEDED = (
    dict.fromkeys(RECURRENCES, ("conv", "state"))
    | {"short-conv": ("conv",)}
    | dict.fromkeys(("lightning", "mlstm"), ("state",))
)


def recurrence(
    hidden: int,
    *,
    kind: str,
    heads: int,
    head_dim: int,
    key_heads: int = 0,
    state: int = 0,
    conv: int = 0,
    rank: int = 0,
    bias: bool = False,
    conv_bias: bool = False,
    norm: bool = True,
    full_gate: bool = False,
    state_bits: int = 0,
) -> Block:
    """A linear attention or a state space: products, a short convolution, and a state of constant size.

    Parameters
    ----------
    kind : str
        One of ``RECURRENCES``.
    heads, head_dim : int
        States of a layer, and rows of each: value heads and the size of a value.
    key_heads, state : int
        Heads of keys and queries that the states share, and columns of a state: the size of a key.
    conv : int
        Width of the causal convolution before it; 0: none.
    rank : int
        Of the factorised step size (Mamba) or gates (Kimi).
    full_gate : bool
        The gate on the results is a matrix of full rank, and ``rank`` that of the decays alone (Kimi K3).
    """
    _one_of("kind", kind, RECURRENCES)
    _check(heads=heads, head_dim=head_dim)
    _check(**{name: size for name, size in {"conv": conv, "state": state}.items() if name in _NEEDED.get(kind, ())})
    _one_of("state_bits", str(state_bits), ("0", "16", "32"))
    if key_heads:
        _divides("key_heads", key_heads, "heads", heads)
    inner, keys = heads * head_dim, key_heads * state
    sizes = {"hidden": hidden, "inner": inner, "keys": keys, "heads": heads, "rank": rank, "norm": norm}
    sizes["full_gate"] = full_gate
    products, vectors = _parts(
        kind, sizes | {"bias": bias, "head_dim": head_dim, "state": state, "key_heads": key_heads}
    )
    channels = inner + (0 if kind in WITHOUT_KEYS else 2 * keys)
    found: list[Operation] = [Product("recurrence", name, *shape, "n") for name, shape in products.items()]
    found += [Convolution(conv, channels, conv_bias)] if conv else []
    found += [Vector("recurrence", name, size) for name, size in vectors.items() if size]
    found += [Scan(kind, heads, head_dim, state, key_heads, state_bits)]
    return (*found, Product("recurrence", "out", inner, hidden, "k"), Message(hidden))


def mlp(hidden: int, *, width: int, gated: bool = True, bias: bool = False) -> Block:
    """Up (with a gate of the same width, where there is one) and down."""
    _check(width=width)
    return (*_matrices("dense_mlp", hidden, width, gated, bias), Message(hidden))


def experts(
    hidden: int,
    *,
    n: int,
    top_k: int,
    width: int,
    gated: bool = True,
    bias: bool = False,
    narrow: int = 0,
    shared: int = 0,
    shared_width: int = 0,
    shared_gate: bool = False,
    zero: int = 0,
    router_bias: bool = False,
) -> Block:
    """A router, ``n`` experts of which a token meets ``top_k``, and ``shared`` ones that every token meets.

    Parameters
    ----------
    width, shared_width : int
        Of a routed and of a shared expert; ``shared_width`` 0: the same.
    narrow : int
        Numbers that routed experts read and write, projected from the residual stream and back; 0: hidden.
    shared_gate : bool
        A learned gate on the shared expert.
    zero : int
        Further experts without weights, which return a token as it came; ``top_k`` does not count them.
    """
    _check(n=n, top_k=top_k, width=width)
    if top_k > n:
        raise InputError(f"top_k = {top_k} must lie in [1, {n}], the number of experts")
    found: list[Operation] = [Product("router", "router", hidden, n + zero, "", router_bias * (n + zero))]
    if narrow:
        found += [Product("shared_experts", "to experts", hidden, narrow)]
    found += _matrices("experts", narrow or hidden, width, gated, bias, n, top_k)
    if narrow:
        found += [Product("shared_experts", "from experts", narrow, hidden)]
    if shared:
        found += _matrices("shared_experts", hidden, shared_width or width, gated, bias, shared, shared)
    if shared_gate:
        found += [Product("shared_experts", "gate", hidden, 1)]
    return (*found, Message(hidden))


def _matrices(
    part: str, hidden: int, width: int, gated: bool, bias: bool, copies: int = 1, used: int = 1
) -> tuple[Product, Product]:
    up = (1 + gated) * width
    return (
        Product(part, "up", hidden, up, "n", bias * up, copies, used),
        Product(part, "down", width, hidden, "k", bias * hidden, copies, used),
    )


def norms(hidden: int, count: int, bias: bool = False) -> Block:
    """``count`` norms of the residual stream."""
    return (Norm(hidden, bias),) * count


def embedding(
    hidden: int,
    vocab: int,
    *,
    width: int = 0,
    positions: int = 0,
    tables: int = 0,
    norm: bool = False,
    norm_bias: bool = False,
) -> Block:
    """What a token passes before the layers: its row of the embedding, a learned position, further tables, a norm.

    ``width`` is that of an embedding narrower than the residual stream, which a projection widens (0: hidden); ``positions``
    the learned ones; ``tables`` the parameters of further tables that a token looks rows up in.
    """
    found: list[Operation] = [Gather("embedding", vocab, width or hidden)]
    found += [Product("embedding", "embedding_up", width, hidden)] if width else []
    found += [Gather("positions", positions, hidden)] if positions else []
    found += [Gather("embedding", tables, 1)] if tables else []
    return (*found, *norms(hidden, int(norm), norm_bias))


def head(
    hidden: int,
    vocab: int,
    *,
    width: int = 0,
    tied: bool = False,
    bias: bool = False,
    norm: bool = True,
    norm_bias: bool = False,
) -> Block:
    """What follows the layers: a norm and the LM head; ``tied``: its matrix is the embedding's."""
    down: Block = (Product("lm_head", "head_down", hidden, width),) if width else ()
    out = Product("lm_head", "head", width or hidden, vocab, "n", bias * vocab, stored=not tied)
    return (*norms(hidden, int(norm), norm_bias), *down, out)


def joined(mixer: Block, mlp: Block, parallel: bool = False) -> Block:
    """A layer of both; ``parallel``: they read the same input, and one message carries the sum of their results."""
    if parallel and mixer and mlp:
        mixer = tuple(o for o in mixer if not isinstance(o, Message))
    return (*mixer, *mlp)


def beside(first: Block, second: Block) -> Block:
    """Two mixers of one layer, attention and a recurrence, whose results one message carries."""
    return joined(first, second, parallel=True)


def elsewhere(block: Block) -> Block:
    """The same block with the weights of another layer."""
    return tuple(replace(o, stored=False, bias=0) if isinstance(o, Product) else o for o in block)


def module(hidden: int, layer: Block, count: int = 1) -> Layer:
    """Modules that predict further tokens (DeepSeek-V3): a layer, a projection of two streams to one, a norm on each."""
    return Layer(count, (*layer, Product("other", "join", 2 * hidden, hidden), Norm(hidden), Norm(hidden)))


def stacked(made: Iterable[Block]) -> tuple[Layer, ...]:
    """Layers one after the other, equal ones counted together in the order in which they first come.

    >>> [layer.count for layer in stacked([(Norm(8),), (Norm(4),), (Norm(8),)])]
    [2, 1]
    """
    return tuple(Layer(count, block) for count, block in alike((1, block) for block in made))


BLOCKS: Mapping[str, Callable[..., Block]] = {
    "attention": attention,
    "latent_attention": latent_attention,
    "compressed_attention": compressed_attention,
    "recurrence": recurrence,
    "mlp": mlp,
    "experts": experts,
    "streams": streams,
}
