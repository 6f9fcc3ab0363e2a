"""Schedules: the phases of a collective over the dimensions of a topology, and the messages of every rank in a phase.

Phases: each dimension in turn for a reduce-scatter and an all-to-all, from the last to the first for an all-gather. An all-reduce is a
reduce-scatter up the dimensions, an all-reduce on the last, and an all-gather down again, so that the outer dimensions carry only a
shard (``localBWAware``); or an all-reduce of the whole buffer on each (``baseline``).

In a phase every rank sends its messages in a fixed order. It may send ``width`` of them at once, and one more for each that it has
received and, where it has to, added up. Ring: N - 1 steps to the next rank, twice for an all-reduce (Patarasuk and Yuan, Bandwidth
Optimal All-reduce Algorithms, 2009). Direct: one message to every other rank. Halving-doubling: partners at distance 1, 2, 4 …
exchange a half, a quarter, … (Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005).
Double binary tree: reduced up a binary tree and sent down again, chunks alternating between two trees (Sanders, Speck and Träff,
Two-tree algorithms, 2009).
"""

from dataclasses import dataclass

from mlsysim.errors import InputError, unknown_name
from mlsysim.network.costs import Exact
from mlsysim.network.topology import Topology

# Collectives that have a schedule.
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# Algorithms, and the collectives that each of them knows.
ALGORITHMS = {
    "ring": OPS,
    "direct": OPS,
    "halving_doubling": ("all_reduce", "all_gather", "reduce_scatter"),
    "double_binary_tree": ("all_reduce",),
}
# How the dimensions of a topology share a collective, in ASTRA-sim's words.
OPTIMIZATIONS = ("localBWAware", "baseline")


@dataclass(frozen=True)
class Phase:
    """One collective on one dimension: what a rank holds when it starts and when it ends, in bytes."""

    op: str
    algorithm: str
    dimension: int
    ranks: int
    bytes: float
    result: float


@dataclass(frozen=True)
class Exchange:
    """Messages of every rank in a phase, in order: their sizes, the distance of the partner, and what is added up on receipt."""

    sizes: tuple[float, ...]
    distances: tuple[int, ...]
    paired: bool  # the partner is rank XOR distance, and not the rank that far ahead
    width: int  # messages under way at once
    reductions: tuple[float, ...]  # sizes; messages received beyond its end are not reduced
    barrier: int = 0  # messages from this one on wait until so many have been received

    def partners(self, rank: int, message: int, ranks: int) -> tuple[int, int]:
        """To whom a rank sends this message, and from whom it receives one in turn."""
        d = self.distances[message]
        return (rank ^ d, rank ^ d) if self.paired else ((rank + d) % ranks, (rank - d) % ranks)


@dataclass(frozen=True)
class Tree:
    """A binary tree over the ranks of a phase: parent of every rank (-1 for the root) and children; the size of every message."""

    parents: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    size: float


def algorithm_name(text: str) -> str:
    """An algorithm by its name, also as ASTRA-sim writes it (``halvingDoubling``).

    >>> algorithm_name("halvingDoubling")
    'halving_doubling'
    """
    folded = {name.replace("_", ""): name for name in ALGORITHMS}
    key = str(text).strip().replace("_", "").lower()
    if key not in folded:
        raise unknown_name("algorithm", str(text).strip(), ALGORITHMS)
    return folded[key]


def phases(
    op: str, topology: Topology, algorithms: tuple[str, ...], bytes: float, optimization: str, costs: Exact
) -> tuple[Phase, ...]:
    """The phases of a collective in order. ``bytes`` is what a rank holds at the start; dimensions of one rank have none.

    >>> from mlsysim.network.topology import parse
    >>> plan = phases("all_reduce", parse("ring:4xswitch:2"), ("ring", "ring"), 8e6, "localBWAware", Exact((1.0, 1.0), (0.0, 0.0)))
    >>> [(p.op, p.dimension, p.bytes) for p in plan]
    [('reduce_scatter', 0, 8000000.0), ('all_reduce', 1, 2000000.0), ('all_gather', 0, 2000000.0)]
    """
    active = [i for i, n in enumerate(topology.shape) if n > 1]
    if op == "all_gather":
        steps = [(op, i) for i in reversed(active)]
    elif op == "all_reduce" and optimization == "localBWAware" and active:
        *inner, last = active
        steps = [("reduce_scatter", i) for i in inner] + [(op, last)] + [("all_gather", i) for i in reversed(inner)]
    else:
        steps = [(op, i) for i in active]
    plan = []
    held = bytes
    for step, i in steps:
        n, name = topology.shape[i], algorithms[i]
        _check(step, name, n, topology)
        after = {"reduce_scatter": costs.piece(held, n), "all_gather": held * n}.get(step, held)
        plan.append(Phase(step, name, i, n, held, after))
        held = after
    return tuple(plan)


def _check(op: str, algorithm: str, ranks: int, topology: Topology) -> None:
    if op not in ALGORITHMS[algorithm]:
        fit = ", ".join(name for name, ops in ALGORITHMS.items() if op in ops)
        raise InputError(
            f"collective: algorithm = {algorithm} cannot do {op}, which it has to in a dimension of {topology}; use {fit}"
        )
    if algorithm in ("halving_doubling", "double_binary_tree") and ranks & (ranks - 1):
        raise InputError(
            f"collective: algorithm = {algorithm} needs a power of two of ranks in its dimension, not {ranks}; use ring or direct"
        )


def message_count(phase: Phase) -> int:
    """Messages that a rank sends in a phase; on a tree, about so many on the mean of all ranks.

    >>> message_count(Phase("all_reduce", "direct", 0, 8, 8.0, 8.0))
    14
    """
    n, twice = phase.ranks, 2 if phase.op == "all_reduce" else 1
    if phase.algorithm == "double_binary_tree":
        return 2
    if phase.algorithm == "halving_doubling":
        return twice * (n.bit_length() - 1)
    return n * (n - 1) // 2 if (phase.algorithm, phase.op) == ("ring", "all_to_all") else twice * (n - 1)


def bytes_sent(phase: Phase, costs: Exact) -> float:
    """Bytes that a rank sends in a phase, on the mean of all ranks."""
    if phase.algorithm == "double_binary_tree":
        return 2 * (phase.ranks - 1) * phase.bytes / phase.ranks
    return sum(exchange(phase, costs).sizes)


def exchange(phase: Phase, costs: Exact) -> Exchange:
    """Messages of every rank in a phase by ring, direct or halving-doubling.

    >>> phase = Phase("reduce_scatter", "halving_doubling", 0, 8, 800.0, 100.0)
    >>> exchange(phase, Exact((1.0,), (0.0,))).sizes
    (400.0, 200.0, 100.0)
    """
    n, op = phase.ranks, phase.op
    if phase.algorithm == "halving_doubling":
        return _halving_doubling(phase, costs)
    size = phase.bytes if op == "all_gather" else costs.piece(phase.bytes, n)
    rounds = n - 1
    reductions = (size,) * rounds if op in ("all_reduce", "reduce_scatter") else ()
    if phase.algorithm == "direct":
        times = 2 if op == "all_reduce" else 1
        return Exchange(
            (size,) * (times * rounds),
            tuple(range(1, n)) * times,
            paired=False,
            width=rounds,
            reductions=reductions,
            barrier=rounds if op == "all_reduce" else 0,
        )
    if op == "all_to_all":  # a piece for the rank k ahead goes round in k steps
        rounds = n * (n - 1) // 2
    elif op == "all_reduce":
        rounds *= 2
    return Exchange((size,) * rounds, (1,) * rounds, paired=False, width=1, reductions=reductions)


def _halving_doubling(phase: Phase, costs: Exact) -> Exchange:
    levels = phase.ranks.bit_length() - 1
    down: list[float] = []
    held = phase.bytes
    for _ in range(levels if phase.op != "all_gather" else 0):
        held = costs.piece(held, 2)
        down.append(held)
    first = phase.bytes if phase.op == "all_gather" else held
    up = [first * 2**k for k in range(levels if phase.op != "reduce_scatter" else 0)]
    far = [1 << k for k in range(levels)]
    distances = (far if down else []) + (far[::-1] if up else [])
    return Exchange(tuple(down + up), tuple(distances), True, 1, costs.halving_reductions(down))


def tree(phase: Phase, chunk: int) -> Tree:
    """The binary tree of a chunk: the ranks in order of size, with the last (even chunks) or the first (odd ones) as root.

    The root has one child, the middle of the others; every inner rank has two, and each rank is a leaf of one of the two trees.

    >>> t = tree(Phase("all_reduce", "double_binary_tree", 0, 4, 8.0, 8.0), chunk=0)
    >>> t.parents
    (1, 3, 1, -1)
    """
    n = phase.ranks
    parents = [-1] * n
    shift = chunk % 2  # the others are 0 … n - 2, or 1 … n - 1
    root = 0 if shift else n - 1

    def hang(low: int, high: int, parent: int) -> None:
        middle = (low + high) // 2
        parents[middle] = parent
        if low < high:
            hang(low, middle - 1, middle)
            hang(middle + 1, high, middle)

    hang(shift, n - 2 + shift, root)
    children: list[list[int]] = [[] for _ in range(n)]
    for rank, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(rank)
    return Tree(tuple(parents), tuple(map(tuple, children)), phase.bytes)
