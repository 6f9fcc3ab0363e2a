"""What a model is made of: layers, and the operations of a layer.

A model is a list of layers, a layer is a count and a list of operations. An operation knows its shape, the part of the model
that it belongs to and what tensor parallelism divides; parameters, work, cache and messages are sums over the list.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

__all__ = [
    "Attention",
    "Compressor",
    "Convolution",
    "Gather",
    "Indexer",
    "Layer",
    "Message",
    "Norm",
    "Operation",
    "Product",
    "Scan",
    "Streams",
    "Vector",
    "alike",
    "each",
    "parameters",
    "weights",
]


@dataclass(frozen=True, slots=True)
class Product:
    """Rows of ``k`` numbers times a matrix of ``k`` by ``n``."""

    part: str  # of the model: attention, recurrence, indexer, dense_mlp, experts, shared_experts, router, embedding, head, other
    name: str
    k: int
    n: int
    split: str = ""  # what tensor parallelism divides: "n" its columns, "k" its rows; "": every rank has all of it
    bias: int = 0  # numbers added to a result
    copies: int = 1  # matrices of the shape in a layer: experts
    used: int = 1  # those of them that a token is multiplied with
    stored: bool = (
        True  # False: the weights stand elsewhere, as of a head that is the embedding, or of a block that layers share
    )


@dataclass(frozen=True, slots=True)
class Attention:
    """Scores of queries and keys, and the mean of values that they weigh."""

    heads: int
    kv_heads: int
    qk_dim: int  # numbers of a query and a key of one head, the rotary part included
    v_dim: int
    cached: int  # numbers that a token leaves in the cache of a layer; 0: the layer reads another's
    window: int = 0  # keys that a query meets at most; 0: all before it
    picked: int = 0  # keys that an indexer picks for a query; 0: none picks
    latent_qk: int = (
        0  # numbers of a query and a key where a decode step works on compressed keys and values; 0: it does not
    )
    latent_v: int = 0
    ratio: int = 0  # tokens that a compressed key stands for, which stand beside a window and are picked; 0: none does

    @property
    def met(self) -> tuple[tuple[int, int], ...]:
        """The keys that a query meets: tokens that one stands for, and how many at most (0: all).

        >>> Attention(8, 1, 64, 64, 64, window=128, picked=512, ratio=4).met
        ((1, 128), (4, 512))
        """
        if self.ratio:
            return (1, self.window), (self.ratio, self.picked)
        return ((1, self.window or self.picked),)

    @property
    def rope_dim(self) -> int:
        """Numbers of a query and a key of latent attention that are rotated."""
        return self.latent_qk - self.latent_v


@dataclass(frozen=True, slots=True)
class Indexer:
    """Scores that decide which keys a query meets."""

    heads: int
    size: int  # numbers of a query of one head and of the key, which is all that it caches of a token
    ratio: int = 1  # tokens that a key stands for


@dataclass(frozen=True, slots=True)
class Compressor:
    """Makes one key of ``ratio`` tokens, which wait for it as ``rows`` rows of ``width`` 32-bit numbers: what is summed, and weights."""

    ratio: int
    rows: int
    width: int


@dataclass(frozen=True, slots=True)
class Streams:
    """Residual streams: their weighted sum goes into attention or an MLP, and its result is spread over them, mixed anew."""

    count: int
    width: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """A causal convolution of each channel for itself, over the last ``width`` tokens."""

    width: int
    channels: int
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """A recurrence: ``heads`` states of ``rows`` by ``columns`` numbers a sequence, written and read by every token."""

    kind: str
    heads: int
    rows: int  # of a state: the size of a value
    columns: int  # of a state: the size of a key
    key_heads: int = 0  # heads of keys and queries that the states share
    state_bits: int = 0  # of a number of a state, where a server keeps it wider than what it computes in; 0: the same


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation of ``size`` numbers, with a weight for each and, in a layer norm with a bias, a second one."""

    size: int
    bias: bool = False
    inner: bool = False  # within attention, on queries, keys or what they are made from


@dataclass(frozen=True, slots=True)
class Vector:
    """Numbers that nothing is multiplied with as a matrix: sinks, decays, skips, scales."""

    part: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Gather:
    """A table of which a token takes a row: the embedding, learned positions."""

    part: str
    rows: int
    width: int


@dataclass(frozen=True, slots=True)
class Message:
    """What the ranks of a tensor-parallel group send each other: the sum of their results, once for each token."""

    width: int


Operation: TypeAlias = (
    Product | Attention | Indexer | Compressor | Streams | Convolution | Scan | Norm | Vector | Gather | Message
)


@dataclass(frozen=True, slots=True)
class Layer:
    """``count`` alike layers, and what each runs."""

    count: int
    operations: tuple[Operation, ...]


def weights(operation: Operation) -> int:
    """Numbers of an operation that a token is multiplied with, those of all its copies.

    >>> weights(Product("experts", "up", 8, 32, copies=4, used=2))
    1024
    """
    if isinstance(operation, Product):
        return operation.k * operation.n * operation.copies
    return operation.width * operation.channels if isinstance(operation, Convolution) else 0


def parameters(operation: Operation) -> int:
    """All parameters of an operation: matrices, biases, norms, tables.

    >>> parameters(Product("attention", "q", 8, 8, bias=8)), parameters(Norm(8, bias=True))
    (72, 16)
    """
    match operation:
        case Product():
            return (
                (operation.k * operation.n + operation.bias) * operation.copies if operation.stored else operation.bias
            )
        case Convolution():
            return operation.width * operation.channels + operation.bias * operation.channels
        case Norm():
            return operation.size * (1 + operation.bias)
        case Vector():
            return operation.size
        case Gather():
            return operation.rows * operation.width
        case _:
            return 0


def each(layers: Iterable[Layer]) -> Iterator[tuple[int, Operation]]:
    """Every operation of some layers, with how many of them run it."""
    for layer in layers:
        for operation in layer.operations:
            yield layer.count, operation


def described(operation: Operation) -> dict[str, Any]:
    """An operation for JSON: its kind, and the sizes that are not those of their default.

    >>> described(Norm(8))
    {'operation': 'norm', 'size': 8}
    """
    given = {f.name: getattr(operation, f.name) for f in fields(operation) if getattr(operation, f.name) != f.default}
    return {"operation": type(operation).__name__.lower(), **given}


Kind = TypeVar("Kind")


def alike(counted: Iterable[tuple[int, Kind]]) -> tuple[tuple[int, Kind], ...]:
    """Equal things counted together, in the order in which they first come.

    >>> alike([(2, "a"), (1, "b"), (3, "a")])
    ((5, 'a'), (1, 'b'))
    """
    found: dict[Kind, int] = {}
    for count, kind in counted:
        found[kind] = found.get(kind, 0) + count
    return tuple((count, kind) for kind, count in found.items())
