"""What a compiler joins or splits before and after it fuses, by shape and dependence alone.

Joined are products that share an operand (one product of the shared operand with the others side by side), and
collectives of one kind over the same groups (one message). Neither may wait for the other, through anything that has
been joined already: the joined program still has an order in which it can run.

A product is cut along the dimension that it sums over where its output is too small to keep the device busy. A
multiprocessor computes one tile of the output at a time and reads and multiplies at its share of the device's rates, so T
tiles on P multiprocessors run at T / P of them; what it writes it need not wait for, so writing is bound by the memory alone.
Cut in S pieces the product has S T tiles, but writes S partial results in the type that it sums in, and those are read
again and added. S is the power of two with the least time. No number is fitted to a measurement, but three choices were made
with the compiled programs in view, out of a dozen combinations: the tile, the least piece of a row, and that writing need not
be waited for. (XLA's GPU compiler decides the same question with weights that it fitted to measured kernels:
xla/backends/gpu/transforms/splitk_rewriter.cc.)
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Protocol, TypeVar

from mlsysim.errors import UnknownNameError
from mlsysim.hlo.fusing.items import Collective, Item, Node, reads_of
from mlsysim.hlo.reader.limits import MAX_BITS
from mlsysim.hlo.work.costs import Cost
from mlsysim.roofline import iron_law, memory_time

# The tile is one of cuBLAS's (NVIDIA, Matrix Multiplication Background User's Guide, Sec. 2.3) and the one that XLA's rule counted
# before it was fitted; rows of operands are best multiples of 128 bytes (Sec. 2.2)
TILE = (64, 128)  # rows and columns of the output that a multiprocessor computes at a time
LINE = 128  # bytes; no piece of a sum takes less of an operand's row
MOST_PIECES = 128
# Defaults of XLA's flags, as read in xla/debug_options_flags.cc and xla/service/collective_utils.h
PRODUCT_BYTES = 32 * 2**20  # of two joined products, one is at most so large with its operands
MESSAGE_BYTES = 30 * 2**20 + 7  # results of collectives that are joined
MESSAGE_COUNT = 256
ACCUMULATOR = 4  # bytes; a product of narrower types is summed in f32


@dataclass(frozen=True)
class Machine:
    """What decides whether a product is cut: multiprocessors (None: it is not), byte/s, and FLOP/s by type of the inputs."""

    multiprocessors: int | None
    bandwidth: float
    peak: Callable[[str], float]


@dataclass(slots=True)
class _Group:
    members: list[int]
    bits: int
    waits: int
    size: float
    keys: Sequence[Hashable] = field(default=())


class _Piece(Protocol):
    @property
    def reads(self) -> Iterable[int]: ...
    @property
    def writes(self) -> Iterable[int]: ...


T = TypeVar("T", bound=_Piece)


def ordered(pieces: Sequence[T], reads: Callable[[T], Iterable[int]]) -> list[T]:
    """The pieces in a topological order that stays close to the given one."""
    return [pieces[i] for i in in_order(sources(pieces, reads))]


def sources(pieces: Sequence[T], reads: Callable[[T], Iterable[int]]) -> list[set[int]]:
    """Of each piece, the indices of those that make what it reads."""
    maker = {value: i for i, piece in enumerate(pieces) for value in piece.writes}
    return [{maker[v] for v in reads(piece) if v in maker and maker[v] != i} for i, piece in enumerate(pieces)]


def in_order(waits_for: Sequence[Set[int]]) -> Iterator[int]:
    """Indices in a topological order, of those that may come next the smallest first."""
    left = [len(found) for found in waits_for]
    leads: list[list[int]] = [[] for _ in waits_for]
    for i, found in enumerate(waits_for):
        for source in found:
            leads[source].append(i)
    ready = [i for i, n in enumerate(left) if not n]  # in order, so it is a heap
    while ready:
        i = heappop(ready)
        yield i
        for j in leads[i]:
            left[j] -= 1
            if not left[j]:
                heappush(ready, j)


def _groups(
    pieces: Sequence[T],
    reads: Callable[[T], Sequence[int]],
    keys: Mapping[int, tuple[float, Sequence[Hashable]]],
    fits: Callable[[_Group, float], bool],
) -> list[list[int]]:
    """Indices of pieces to join: a key in common, and neither waits for the other. ``keys`` has their sizes too."""
    counts: dict[Hashable, int] = {}
    for _, names in keys.values():
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    chosen = [i for i, (_, names) in keys.items() if any(counts[n] > 1 for n in names)]
    if len(chosen) * len(pieces) > MAX_BITS:
        return []
    bit = {i: 1 << n for n, i in enumerate(chosen)}
    waits: dict[int, int] = {}  # by value, the chosen pieces that it waits for, a bit each
    latest: dict[Hashable, _Group] = {}
    joined: list[_Group] = []
    for i, piece in enumerate(pieces):
        mask = 0
        for value in reads(piece):
            mask |= waits.get(value, 0)
        if i in bit:
            size, names = keys[i]
            if any(name in latest for name in names):
                mask = _closed(mask, joined)
            for name in names:
                group = latest.get(name)
                if group is not None and not mask & group.bits and fits(group, size):
                    group.members.append(i)
                    group.bits |= bit[i]
                    group.waits |= mask
                    group.size += size
                    if len(group.members) == 2:
                        joined.append(group)
                        for other in group.keys:  # what two products share, a third must share
                            if other != name and latest.get(other) is group:
                                del latest[other]
                    break
            else:
                group = _Group([i], bit[i], mask, size, names)
                latest.update(dict.fromkeys(names, group))
            mask |= bit[i]
        if mask:
            for value in piece.writes:
                waits[value] = mask
    return [g.members for g in joined]


def _closed(mask: int, joined: Sequence[_Group]) -> int:
    """What a piece waits for once the joined pieces are one each."""
    while mask:
        wider = mask
        for group in joined:
            if wider & group.bits:
                wider |= group.bits | group.waits
        if wider == mask:
            break
        mask = wider
    return mask


def join_products(items: Sequence[Item], size: Sequence[int]) -> list[Item]:
    """Products that share an operand as one: it is read once, and their outputs are computed side by side."""
    keys: dict[int, tuple[float, Sequence[Hashable]]] = {}
    for i, item in enumerate(items):
        if isinstance(item, Node) and item.product is not None and len(item.reads) == 2 and len(item.writes) == 1:
            dims = item.product.dims
            traffic = float(sum(size[v] for v in (*item.reads, *item.writes)))
            keys[i] = (traffic, [(side, item.reads[side], dims[side]) for side in (0, 1)])
    found = _groups(items, reads_of, keys, lambda g, new: min(g.size, new) <= PRODUCT_BYTES)
    if not found:
        return list(items)
    into: dict[int, Item | None] = {}
    for members in found:
        nodes = [n for n in (items[i] for i in members) if isinstance(n, Node)]
        into.update(dict.fromkeys(members))
        into[members[0]] = _side_by_side(nodes)
    kept = [into.get(i, item) for i, item in enumerate(items)]
    return ordered([item for item in kept if item is not None], reads_of)


def _side_by_side(nodes: Sequence[Node]) -> Node:
    first = nodes[0]
    shared = 0 if all(n.reads[0] == first.reads[0] for n in nodes) else 1
    products = [n.product for n in nodes if n.product is not None]
    one = products[0]
    product = replace(one, n=sum(p.n for p in products)) if shared == 0 else replace(one, m=sum(p.m for p in products))
    costs = [n.cost for n in nodes]
    gemm = first.cost.gemm and first.cost.gemm._replace(m=product.m, n=product.n)
    cost = replace(
        first.cost,
        flops=sum(c.flops for c in costs),
        matrix_flops=sum(c.matrix_flops for c in costs),
        bytes=sum(c.bytes for c in costs),
        gemm=gemm,
    )
    reads = tuple(dict.fromkeys(v for n in nodes for v in n.reads))
    writes = tuple(v for n in nodes for v in n.writes)
    signature = hash(tuple(n.signature for n in nodes))
    return Node(first.base, reads, writes, cost, signature, elements=first.elements, product=product)


def pieces_of(node: Node, size: Sequence[int], machine: Machine) -> int:
    """Into how many pieces along its sum a product is cut."""
    product, processors = node.product, machine.multiprocessors
    if product is None or processors is None or not node.cost.matrix_flops:
        return 1
    inputs = sum(size[v] for v in node.reads)
    output = sum(size[v] for v in node.writes)
    partial = output * max(1.0, ACCUMULATOR / product.width)
    try:
        peak = machine.peak(node.cost.matrix_dtype)
    except UnknownNameError:  # whoever prices the product says so, or has a rate of his own
        return 1
    tiles = product.batch * -(-product.m // TILE[0]) * -(-product.n // TILE[1])

    def seconds(pieces: int) -> float:
        busy = min(1.0, tiles * pieces / processors)
        written = pieces * partial if pieces > 1 else output
        added = pieces * partial + output if pieces > 1 else 0.0
        whole = iron_law(node.cost.matrix_flops, inputs, peak, machine.bandwidth) / busy
        moved, adding = (memory_time(n, machine.bandwidth) for n in (inputs + written, added))
        return float(max(whole, moved) + adding)

    best, pieces = 1, 2
    while tiles * pieces // 2 < processors and pieces <= min(MOST_PIECES, product.row // LINE):
        if seconds(pieces) < seconds(best):
            best = pieces
        pieces *= 2
    return best


def cut_products(items: Sequence[Item], size: list[int], machine: Machine) -> list[Item]:
    """Products whose output does not fill the device, cut along their sum; what adds the parts is an operation apart."""
    out: list[Item] = []
    for item in items:
        pieces = pieces_of(item, size, machine) if isinstance(item, Node) else 1
        if pieces == 1 or not isinstance(item, Node) or item.product is None:
            out.append(item)
            continue
        grows = pieces * max(1.0, ACCUMULATOR / item.product.width)
        parts = tuple(range(len(size), len(size) + len(item.writes)))
        size.extend(int(size[v] * grows) for v in item.writes)
        out.append(replace(item, writes=parts))
        for part, value in zip(parts, item.writes, strict=True):
            elements = int(size[value] / item.product.width)
            cost = Cost(bytes=float(size[part] + size[value]))
            out.append(Node("sum_of_parts", (part,), (value,), cost, -1, elements=elements, space=elements))
    return out


def sum_before_reducing(items: Sequence[Item], size: list[int]) -> list[Item]:
    """A sum of two all-reduces, which nothing else reads, as one all-reduce of the sum."""
    sums = {v for i in items if isinstance(i, Collective) and i.op == "all_reduce" for v in i.writes}
    if len(sums) < 2:
        return list(items)
    readers: dict[int, int] = {}
    for item in items:
        for value in reads_of(item):
            if value in sums:
                readers[value] = readers.get(value, 0) + 1
    made: dict[int, Collective] = {}
    gone: set[int] = set()
    out: list[Item] = []
    for item in items:
        if isinstance(item, Collective) and item.op == "all_reduce" and len(item.reads) == len(item.writes) == 1:
            made[item.writes[0]] = item
        elif isinstance(item, Node) and item.base == "add" and len(set(item.reads)) == 2:
            one, other = (made.get(v) for v in item.reads)
            once = all(readers.get(v, 1) == 1 for v in item.reads)
            if once and one and other and (one.groups, one.kind) == (other.groups, other.kind):
                gone |= {id(one), id(other)}
                size.append(size[item.writes[0]])
                out.append(replace(item, reads=one.reads + other.reads, writes=(len(size) - 1,)))
                parts = (one.parts or (one,)) + (other.parts or (other,))
                made[item.writes[0]] = replace(one, reads=(len(size) - 1,), writes=item.writes, parts=parts)
                out.append(made[item.writes[0]])
                continue
        out.append(item)
    return [item for item in out if id(item) not in gone]


def copy_kept(items: Sequence[Item], size: list[int], kept: frozenset[int]) -> list[Item]:
    """What would be updated in place but must keep its value is copied first: an argument that is not donated."""
    out: list[Item] = []
    for item in items:
        if isinstance(item, Node) and item.updates is not None and item.reads[0] in kept:
            size.append(size[item.reads[0]])
            copy = len(size) - 1
            out.append(Node("copy", item.reads[:1], (copy,), Cost(bytes=2.0 * size[copy]), -1, elements=item.elements))
            item = replace(item, reads=(copy, *item.reads[1:]))
        out.append(item)
    return out


def messages(pieces: Sequence[T], sliced: frozenset[int]) -> list[list[int]]:
    """Indices of collectives to join: all-reduces and all-gathers of one kind over the same groups.

    An all-reduce of which every rank keeps a slice, ``sliced``, stays alone: it is half of a reduce-scatter.
    """
    keys: dict[int, tuple[float, Sequence[Hashable]]] = {}
    for i, piece in enumerate(pieces):
        if not isinstance(piece, Collective) or piece.op not in ("all_reduce", "all_gather"):
            continue
        if sliced.isdisjoint(piece.writes):
            keys[i] = (float(piece.out_bytes), [(piece.op, piece.groups, piece.kind)])
    return _groups(
        pieces,
        lambda p: tuple(p.reads),
        keys,
        lambda g, new: g.size + new <= MESSAGE_BYTES and len(g.members) < MESSAGE_COUNT,
    )


def kept_in_slices(items: Sequence[Item]) -> frozenset[int]:
    """Results of all-reduces that are read only through slices that depend on the rank."""
    if not any(isinstance(item, Node) and item.base == "dynamic_slice" for item in items):
        return frozenset()
    readers: dict[int, list[Item]] = {}
    for item in items:
        for value in reads_of(item):
            readers.setdefault(value, []).append(item)

    def sliced(value: int, left: int = 8) -> bool:
        """Whether every way from the value leads to a slice, through operations that only change its type or layout."""
        found = readers.get(value, [])
        return bool(found) and left > 0 and all(isinstance(r, Node) and leads(r, value, left) for r in found)

    def leads(node: Node, value: int, left: int) -> bool:
        if node.base == "dynamic_slice" and node.reads[0] == value:
            return True
        plain = node.base in ("convert", "transpose", "copy", "reduce")
        return plain and len(node.writes) == 1 and sliced(node.writes[0], left - 1)

    return frozenset(
        v for i in items if isinstance(i, Collective) and i.op == "all_reduce" for v in i.writes if sliced(v)
    )
