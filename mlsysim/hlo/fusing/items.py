"""What a graph is made of: operations with their cost, kernels that a compiler fused, collectives and loops."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

from mlsysim.hlo.reader.opset import EFFECTS
from mlsysim.hlo.work.costs import Cost


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product's sizes: (batch, m, k) times (batch, k, n). ``dims`` are, of either operand, the dimensions that
    are summed over and those of the batch; ``width`` is the bytes of an element of the result, ``row`` those that one sum takes
    from an operand."""

    batch: int
    m: int
    n: int
    k: int
    dims: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    width: float
    row: float


@dataclass(slots=True)
class Node:
    """An operation that runs. ``reads`` and ``writes`` are values of the graph; ``touch`` is what it takes of its
    first operand when that is less than all of it, or None."""

    base: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    cost: Cost
    signature: int
    touch: float | None = None
    updates: float | None = None  # bytes it writes into its first operand, which its result replaces
    elements: int = 0  # of its first result
    space: int = 0  # elements that it runs over: those of its result, or of what it reduces
    product: Product | None = None
    extra: float = 0.0  # bytes that a priced call moves beyond its operands and results; negative where it moves less
    rows: bool = False  # of a reduction: over the last dimensions, so that a row of the input gives an element


class Work(NamedTuple):
    """What a kernel does, or all of a program's. ``bytes`` cross its boundary; ``vector`` are the operations outside the matrix
    units, transcendentals included; ``matrix`` are FLOPs of products by the type of their inputs."""

    bytes: float
    flops: float
    transcendentals: float
    vector: float
    matrix: Mapping[str, float]

    @classmethod
    def total(cls, parts: Iterable[tuple["Work", int]]) -> "Work":
        """The sum of some work, each with the times that it is done."""
        listed = list(parts)
        kinds = dict.fromkeys(dtype for work, _ in listed for dtype in work.matrix)
        return cls(
            fsum(work.bytes * n for work, n in listed),
            fsum(work.flops * n for work, n in listed),
            fsum(work.transcendentals * n for work, n in listed),
            fsum(work.vector * n for work, n in listed),
            {k: fsum(work.matrix.get(k, 0.0) * n for work, n in listed) for k in kinds},
        )


@dataclass(slots=True)
class Fused:
    """A kernel that the compiler has fused: nodes that run as one."""

    nodes: list[Node]
    writes: tuple[int, ...]
    reads: tuple[int, ...] = ()


@dataclass(slots=True)
class Collective:
    """A collective with the bytes that go in and come out on one rank."""

    op: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    in_bytes: int
    out_bytes: int
    groups: tuple[tuple[int, ...], ...]
    ranks: int
    kind: str = ""  # element type, and what a reduction does with it
    parts: "tuple[Collective, ...]" = ()  # of several that were joined

    @property
    def name(self) -> str:
        """As the library's formulas name it."""
        return "all_reduce" if self.op == "cross-replica-sum" else self.op

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for collectives that take the same time on any network."""
        return self.op, self.in_bytes, self.out_bytes, self.ranks, self.groups

    @property
    def whole(self) -> int:
        """The buffer in the sense of the collective formulas: the gathered one, or the one before it is scattered."""
        return max(self.in_bytes, self.out_bytes)


@dataclass(slots=True)
class Loop:
    """A body that runs ``count`` times."""

    body: "Graph"
    count: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Loop({self.count} x {self.body})"


Item = Node | Fused | Collective | Loop


@dataclass(slots=True)
class Graph:
    """Items in program order. ``bytes`` and ``types`` are shared by a graph and the bodies of its loops."""

    items: list[Item] = field(default_factory=list)
    results: tuple[int, ...] = ()
    bytes: list[int] = field(default_factory=list)  # by value
    optimised: bool = False  # a compiler has fused it already
    unknown: Counter[str] = field(default_factory=Counter)
    ops: int = 0
    kept: frozenset[int] = frozenset()  # values that may not be written over: arguments that are not donated
    assumed: Counter[str] = field(
        default_factory=Counter
    )  # custom calls whose price was given or assumed, and on what ground

    def __repr__(self) -> str:
        return f"Graph({len(self.items)} items, {self.ops} operations)"

    def collectives(self) -> Iterator[tuple[Collective, int]]:
        """Every collective with the times it runs, those in loops included."""
        for item in self.items:
            if isinstance(item, Collective):
                yield item, 1
            elif isinstance(item, Loop):
                for inner, count in item.body.collectives():
                    yield inner, count * item.count


def reads_of(item: Item) -> tuple[int, ...]:
    if isinstance(item, Fused):
        made = {v for node in item.nodes for v in node.writes}
        return tuple(dict.fromkeys(v for node in item.nodes for v in node.reads if v not in made))
    return item.reads


def alive(items: Sequence[Item], results: Sequence[int]) -> list[Item]:
    """The items that something needs: results, effects, or each other. No compiler runs the rest."""
    needed = set(results)
    kept: list[Item] = []
    for item in reversed(items):
        effect = isinstance(item, Collective) or (isinstance(item, Node) and item.base in EFFECTS)
        if isinstance(item, Loop):
            item.body.items = alive(item.body.items, item.body.results)
            effect = any(
                isinstance(i, Collective) or (isinstance(i, Node) and i.base in EFFECTS) for i in item.body.items
            )
        if effect or not needed.isdisjoint(item.writes):
            needed.update(reads_of(item))
            kept.append(item)
    return kept[::-1]


def weigh(items: Sequence[Item]) -> tuple[float, float]:
    """Work and traffic of a list of items, to compare branches by."""
    flops = moved = 0.0
    for item in items:
        if isinstance(item, Loop):
            inner = weigh(item.body.items)
            flops, moved = flops + item.count * inner[0], moved + item.count * inner[1]
        elif not isinstance(item, Collective):
            for node in item.nodes if isinstance(item, Fused) else [item]:
                flops += node.cost.flops + node.cost.transcendentals
                moved += node.cost.bytes
        else:
            moved += item.whole
    return flops, moved
