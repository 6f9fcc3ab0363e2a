"""Kernels of a raw program: producers fused into consumers where that moves fewer bytes. No number here is fitted.

Light operations (elementwise, broadcasts, slices, transposes) can run inside whoever reads them: inside a single reader
always, inside several when they all run in one kernel anyway, or when reading their inputs once for each moves no more bytes
than reading them once, writing the value, and reading that once for each. A matrix product is a call of a library: it reads its operands from memory, transposed or sliced where
they stand, and writes its result. A reduction, a scatter or a sort writes its result too, unless its only reader is an
elementwise operation of the same size, which then runs in its epilogue.
A value runs inside its readers only if it is not worked out again and again there: see :meth:`_Fuser.find_apart`.
What reduces rows joins its only reader when that runs over the same rows, as the exponentials of a softmax do: a row stays
in the multiprocessor. Kernels that do not depend on each other, run over the same number of elements and read the same array
become one.
For a device (:mod:`mlsysim.hlo.fusing.joining`), products that share an operand run as one and are cut along their sum where their
tiles leave multiprocessors idle; what must keep its value is copied before it is updated; and after all fusion collectives
over the same groups become one message.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from mlsysim.hlo.fusing import joining
from mlsysim.hlo.fusing.items import Collective, Fused, Graph, Item, Loop, Node, Work, reads_of
from mlsysim.hlo.fusing.joining import Machine
from mlsysim.hlo.reader.opset import LAYOUT, LIBRARY, LIGHT, SAME_SIZE
from mlsysim.hlo.work.costs import Cost

# Times that a kernel works out one value at different positions, as XLA allows: kAllowedCodeDuplication in
# xla/service/fusion_node_indexing_evaluation.cc. There too, what is put together from parts runs inside once or not at all.
MAX_TIMES = 15
MAX_READS = 96  # arrays that one kernel reads; a bound on the search, and the limit of XLA's GPU compiler


_ASSEMBLING = frozenset(("pad", "concatenate"))


@dataclass(slots=True)
class Kernel:
    """Work that runs as one: what it computes, and the bytes that cross its boundary."""

    nodes: list[Node]
    reads: dict[int, float]
    writes: dict[int, float]
    space: int = 0  # elements it runs over; 0 for one that is not merged with others
    rows: int = 0  # of one that reduces rows, the elements that it reduces
    signature: tuple[int, ...] = ()
    _work: Work | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        parts = ", ".join(dict.fromkeys(node.base for node in self.nodes[:40]))
        return f"Kernel({parts[:80]}; {self.work.flops:.4g} FLOP, {self.work.bytes:.4g} bytes)"

    @property
    def work(self) -> Work:
        """What it does, summed once: of a kernel that is done."""
        if self._work is None:
            moved, flops, roots, vector = sum(self.reads.values()) + sum(self.writes.values()), 0.0, 0.0, 0.0
            matrix: dict[str, float] = {}
            for node in self.nodes:
                cost = node.cost
                moved += node.extra
                flops += cost.flops
                roots += cost.transcendentals
                vector += cost.flops - cost.matrix_flops + cost.transcendentals
                if cost.matrix_flops:
                    matrix[cost.matrix_dtype] = matrix.get(cost.matrix_dtype, 0.0) + cost.matrix_flops
            self._work = Work(moved, flops, roots, vector, matrix)
        return self._work

    @property
    def bytes(self) -> float:
        return self.work.bytes


@dataclass(slots=True)
class LoopKernels:
    """A loop, with its body in kernels."""

    body: "list[Piece]"
    count: int
    reads: dict[int, float]
    writes: dict[int, float]
    communicates: bool = field(default=False)

    def __repr__(self) -> str:
        return f"LoopKernels({self.count} x {len(self.body)} pieces)"


Piece = Kernel | Collective | LoopKernels


def is_library(node: Node) -> bool:
    """Whether a node is a call that takes its operands from memory; so is one that nothing is known of."""
    return bool(node.cost.matrix_flops) or node.base in LIBRARY or not node.cost.known


def _by_element(node: Node) -> bool:
    """Whether a part of the node's result takes the same part of its operands."""
    return (node.base in LIGHT or node.base == "reduce") and "broadcast" not in node.base


def add_reads(into: dict[int, float], value: int, part: float, whole: float) -> None:
    """Note that ``part`` bytes of a value are read; never more than the whole of it."""
    into[value] = min(whole, into.get(value, 0.0) + part) if part < whole else whole


def boundary(
    nodes: Sequence[Node], writes: Iterable[int], size: Sequence[int]
) -> tuple[dict[int, float], dict[int, float]]:
    """Bytes that a fused kernel reads and writes, by value: each array once, and of what is sliced only the slices.

    What a slice leaves out is neither computed nor read, also when the slice comes last.
    """
    made = {v: node for node in nodes for v in node.writes}
    writes = tuple(writes)
    wanted = dict.fromkeys(writes, 1.0)  # share of a value that the kernel computes
    reads: dict[int, float] = {}
    for node in reversed(nodes):
        share = min(1.0, max((wanted.get(v, 0.0) for v in node.writes), default=0.0)) or 1.0
        for position, value in enumerate(node.reads):
            whole = float(size[value])
            part = whole * share if _by_element(node) else whole
            if position == 0 and node.touch is not None:
                part = min(whole, node.touch * share)
            elif position == 0 and node.updates is not None:
                part = min(whole, 0.0 if node.base == "dynamic_update_slice" else node.updates)
            if value not in made:
                add_reads(reads, value, part, whole)
            elif position == 0 and node.updates is not None:
                wanted[value] = 1.0
            else:
                wanted[value] = wanted.get(value, 0.0) + (part / whole if whole else 1.0)
    out = {}
    for value in writes:
        producer = made.get(value)
        if producer is None:
            continue  # passed through
        most = producer.updates if producer.updates is not None and producer.reads[0] not in made else inf  # in place
        out[value] = min(float(size[value]), most)
    return reads, out


def _from_fused(item: Fused, size: Sequence[int]) -> Kernel:
    reads, writes = boundary(item.nodes, item.writes, size)
    return Kernel(item.nodes, reads, writes, signature=tuple(n.signature for n in item.nodes))


def kernels(graph: Graph, fused: bool = True, machine: Machine | None = None) -> list[Piece]:
    """The graph in kernels, in an order in which they can run.

    Parameters
    ----------
    graph : Graph
    fused : bool
        Whether to fuse operations that no compiler has fused; without, each runs as a kernel of its own.
    machine : Machine, optional
        The device, for which products and collectives are joined and products are cut, as :mod:`mlsysim.hlo.fusing.joining` says.
        Without, every operation stays as the program wrote it.
    """
    items = joining.copy_kept(graph.items, graph.bytes, graph.kept)
    if not fused:
        return _ordered([_alone(item, graph, machine, fused) for item in items])
    if machine is None:
        return _ordered(_Fuser(replace(graph, items=items)).run())
    items = joining.sum_before_reducing(items, graph.bytes)
    items = joining.cut_products(joining.join_products(items, graph.bytes), graph.bytes, machine)
    pieces = _Fuser(Graph(items, graph.results, graph.bytes), machine).run()
    return _ordered(_with_messages(pieces, joining.kept_in_slices(items), graph.bytes))


def _ordered(pieces: Sequence[Piece]) -> list[Piece]:
    return joining.ordered(pieces, lambda piece: piece.reads)


def _with_messages(pieces: list[Piece], sliced: frozenset[int], size: list[int]) -> list[Piece]:
    """Join collectives. Joined all-reduces run on one buffer, which a kernel fills before and kernels empty after:
    collectives are joined when all fusion is done."""
    into: dict[int, list[Piece]] = {}
    for members in joining.messages(pieces, sliced):
        into.update({i: [] for i in members})
        into[members[0]] = _one_message([p for p in (pieces[i] for i in members) if isinstance(p, Collective)], size)
    return [p for i, piece in enumerate(pieces) for p in into.get(i, [piece])]


def _one_message(parts: list[Collective], size: list[int]) -> list[Piece]:
    first = parts[0]
    reads = tuple(dict.fromkeys(v for p in parts for v in p.reads))
    writes = tuple(v for p in parts for v in p.writes)
    in_bytes, out_bytes = sum(p.in_bytes for p in parts), sum(p.out_bytes for p in parts)
    parts = [q for p in parts for q in p.parts or (p,)]
    one = Collective(first.op, reads, writes, in_bytes, out_bytes, first.groups, first.ranks, first.kind, tuple(parts))
    if first.op != "all_reduce":
        return [one]
    packed, reduced = len(size), len(size) + 1
    size += [in_bytes, out_bytes]
    one.reads, one.writes = (packed,), (reduced,)
    pieces: list[Piece] = [_from_fused(Fused([_copy("concatenate", reads, packed, size)], (packed,)), size), one]
    for value in writes:
        node = _copy("slice", (reduced,), value, size)
        node.touch = float(size[value])
        pieces.append(_from_fused(Fused([node], (value,)), size))
    return pieces


def _copy(base: str, reads: tuple[int, ...], value: int, size: Sequence[int]) -> Node:
    return Node(base, reads, (value,), Cost(bytes=2.0 * size[value]), -1)


def _alone(item: Item, graph: Graph, machine: Machine | None, fused: bool) -> Piece:
    if isinstance(item, Collective):
        return item
    if not isinstance(item, Loop):
        return _from_fused(Fused([item], item.writes) if isinstance(item, Node) else item, graph.bytes)
    body = kernels(item.body, fused, machine)
    communicates = any(isinstance(p, Collective) or (isinstance(p, LoopKernels) and p.communicates) for p in body)
    return LoopKernels(body, item.count, dict.fromkeys(item.reads, 0.0), dict.fromkeys(item.writes, 0.0), communicates)


class _Fuser:
    """One pass forward that decides what is written out, and one that gathers kernels."""

    def __init__(self, graph: Graph, machine: Machine | None = None) -> None:
        self.graph, self.size, self.machine = graph, graph.bytes, machine
        self.producer: dict[int, Node] = {}
        self.readers: dict[int, int] = {}
        self.only_reader: dict[int, Node] = {}
        self.must_write: set[int] = set(graph.results)
        self.inputs: dict[int, dict[int, float]] = {}  # of a value that runs inside its readers: what it reads
        self.light_made: set[int] = set()
        self.layout: set[int] = set()  # values that are only another layout of what is in memory
        self.sole: set[int] = set()  # values whose readers all run inside one kernel
        self.inside: set[int] = set()  # values that may run inside their readers, as far as these are known
        self.apart: set[int] = set()  # values that would be worked out at too many positions
        self.heavy: set[int] = set()  # values that run inside their reader but may not run twice

    def run(self) -> list[Piece]:
        for item in self.graph.items:
            if isinstance(item, Node):
                for value in item.writes:
                    self.producer[value] = item
                if is_library(item):
                    self.must_write.update(v for v in item.reads if v not in self.layout)
                elif item.base in LAYOUT and all(
                    v in self.layout or v not in self.light_made
                    for v in (item.reads[:1] if item.base == "dynamic_slice" else item.reads)  # the rest are indices
                ):
                    self.layout.update(item.writes)
                elif item.base in LIGHT:
                    self.light_made.update(item.writes)
                for value in dict.fromkeys(item.reads):
                    self.readers[value] = self.readers.get(value, 0) + 1
                    self.only_reader[value] = item
            else:
                self.must_write.update(reads_of(item))
        light = (i for i in self.graph.items if isinstance(i, Node) and i.base in LIGHT and len(i.writes) == 1)
        self.inside = {item.writes[0] for item in light} - self.must_write
        self.find_apart()
        self.find_sole()
        pieces: list[Piece] = []
        owned: set[int] = set()
        for item in self.graph.items:
            if not isinstance(item, Node):
                pieces.append(_alone(item, self.graph, self.machine, True))
                continue
            reads = self.reads_of(item)
            if self.runs_inside(item, reads):
                self.inputs[item.writes[0]] = reads
                if item.writes[0] not in self.must_write:
                    continue
            pieces.append(self.kernel(item, reads, owned))
        return _merged(_rows(pieces, set(self.graph.results)))

    def find_apart(self) -> None:
        """Find the values that their readers may not work out for themselves.

        A reader of the same shape asks for the value at its own position, so that several such readers share one evaluation. A
        slice, a pad, a transpose asks at a position of its own: two slices of a value are two evaluations, and each asks again for
        all that the value is made from. Levels of a scan by halves, which slices, adds and interleaves, would double the work
        from level to level. So a value is written out that one kernel would evaluate more than ``MAX_TIMES`` times, or more than
        once if it is put together from parts (a pad or a concatenation, or what is computed from one at the same positions).
        """
        parts: set[int] = set()
        for item in self.graph.items:
            if isinstance(item, Node) and len(item.writes) == 1 and item.base in LIGHT:
                same = item.base in SAME_SIZE and item.base != "transpose"
                if item.base in _ASSEMBLING or (same and not parts.isdisjoint(item.reads)):
                    parts.update(item.writes)
        # By value that may run inside its readers and by kernel, how often each position is asked for
        asked: dict[int, dict[int, dict[int, int]]] = {}
        inside, readers = self.inside, self.readers
        for item in reversed(self.graph.items):
            if not isinstance(item, Node):
                continue
            own = None
            value = item.writes[0] if len(item.writes) == 1 else -1
            asking = asked.pop(value, None)  # nothing further up asks for it
            if asking:
                times = max([sum(positions.values()) for positions in asking.values()])
                if times > (1 if value in parts else MAX_TIMES) and "broadcast" not in item.base:
                    self.apart.add(value)
                elif len(asking) <= MAX_READS:  # what more kernels read is written out as it is
                    own = asking
            same = item.base in SAME_SIZE and item.base != "transpose"
            for read in dict.fromkeys(item.reads):
                if read not in inside:
                    continue
                own = own or {id(item): {id(item): 1}}
                if same and readers[read] == 1:
                    asked[read] = own  # nobody adds to it
                    continue
                kernels_of = asked.setdefault(read, {})
                for kernel, positions in own.items():
                    there = kernels_of.setdefault(kernel, {})
                    if same:
                        there.update(positions)
                    else:
                        there[id(item)] = sum(positions.values())

    def find_sole(self) -> None:
        """Find the values whose readers all end up in one kernel: those run inside it, however many there are."""
        ends: dict[int, int] = {}  # by value, the kernel that its readers are in; 0 for several
        for item in reversed(self.graph.items):
            if not isinstance(item, Node):
                continue
            mine = id(item)
            if len(item.writes) == 1 and item.writes[0] in self.inside:
                only = ends.get(item.writes[0], 0)
                if only and item.writes[0] not in self.apart:
                    self.sole.add(item.writes[0])
                    mine = only
            for value in item.reads:
                if value in self.inside and ends.setdefault(value, mine) != mine:
                    ends[value] = 0

    def reads_of(self, node: Node) -> dict[int, float]:
        """What the node reads from memory, with what runs inside it."""
        size, inputs = self.size, self.inputs
        reads: dict[int, float] = {}
        library = is_library(node)
        for position, value in enumerate(node.reads):
            inside = inputs.get(value)
            if inside is not None and (not library or value in self.layout):
                cut = node.touch / size[value] if position == 0 and node.touch is not None and size[value] else 1.0
                for leaf, part in inside.items():
                    if cut < 1.0 and size[leaf] >= size[value]:
                        add_reads(reads, leaf, part * cut, size[leaf])
                    elif part >= size[leaf]:
                        reads[leaf] = part
                    else:
                        add_reads(reads, leaf, part, size[leaf])
            elif position or (node.touch is None and node.updates is None):
                reads[value] = size[value]
            elif node.touch is not None:
                add_reads(reads, value, node.touch, size[value])
            elif node.updates is not None:  # of what it writes into, it reads what it combines with
                add_reads(reads, value, 0.0 if node.base == "dynamic_update_slice" else node.updates, size[value])
        return reads

    def runs_inside(self, node: Node, reads: dict[int, float]) -> bool:
        """Whether the node's readers compute its value for themselves."""
        if len(node.writes) != 1 or len(reads) > MAX_READS or node.updates is not None:
            return False
        value = node.writes[0]
        if value in self.apart:
            return False
        readers, written = self.readers.get(value, 0), value in self.must_write
        if not readers:
            return False
        if node.base not in LIGHT or not self.heavy.isdisjoint(node.reads):
            reader = self.only_reader[value]
            # Nobody can put a reader into the code of a custom call
            alone = readers == 1 and not written and not node.cost.matrix_flops and node.base != "custom_call"
            held = {v for v in reader.reads if v in self.heavy and v != value}
            if alone and not held and reader.base in SAME_SIZE and reader.elements == node.elements:
                self.heavy.add(value)
                return True
            return False
        if value in self.sole or readers == 1:
            return True
        again, kept = (
            (readers, readers) if written else (readers - 1, readers + 1)
        )  # of its inputs, and of the value itself
        return again * sum(reads.values()) <= kept * self.size[value]

    def kernel(self, node: Node, reads: dict[int, float], owned: set[int]) -> Kernel:
        nodes, stack = [], [node]
        while stack:
            one = stack.pop()
            if id(one) in owned:
                continue
            owned.add(id(one))
            nodes.append(one)
            library = is_library(one)
            stack.extend(self.producer[v] for v in one.reads if v in self.inputs and (not library or v in self.layout))
        most = node.updates if node.updates is not None and node.reads[0] not in self.inputs else inf  # in place
        writes = {value: min(float(self.size[value]), most) for value in node.writes}
        loops = node.base in LIGHT or node.base == "reduce"
        space = 0 if not loops or any(n.cost.matrix_flops for n in nodes) else node.space
        rows = max([n.space for n in nodes if n.rows], default=0) if space else 0
        return Kernel(nodes, reads, writes, space, rows, tuple([n.signature for n in nodes]))


def _rows(pieces: list[Piece], results: set[int]) -> list[Piece]:
    """Join what reduces rows with its only reader, where that runs over the same rows: a row stays in the multiprocessor."""
    reducing = {i: piece for i, piece in enumerate(pieces) if isinstance(piece, Kernel) and piece.rows}
    maker = {v: i for i, piece in reducing.items() for v in piece.writes}
    readers: dict[int, set[int]] = {v: set() for v in maker}
    for i, piece in enumerate(pieces):
        for v in piece.reads:
            if v in maker:
                readers[v].add(i)
    gone: set[int] = set()
    for i in range(len(pieces) - 1, -1, -1):
        piece = pieces[i]
        if not isinstance(piece, Kernel) or not piece.space:
            continue
        waiting = [v for v in piece.reads if v in maker]
        while waiting:
            value = waiting.pop()
            source = maker[value]
            if source in gone:
                continue
            first = reducing[source]
            shared = any(part >= first.rows and v in piece.reads for v, part in first.reads.items())
            alone = len(first.writes) == 1 and readers[value] == {i} and value not in results
            if not (shared and alone and max(piece.rows, piece.space) == first.rows):
                continue
            gone.add(source)
            piece.nodes = first.nodes + piece.nodes
            piece.signature = first.signature + piece.signature
            del piece.reads[value]
            for v, part in first.reads.items():
                if v in maker:
                    if v not in piece.reads:
                        waiting.append(v)
                    readers[v].discard(source)
                    readers[v].add(i)
                piece.reads[v] = max(part, piece.reads.get(v, 0.0))
            piece.rows = first.rows
    return [piece for i, piece in enumerate(pieces) if i not in gone]


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Join kernels of one level (so that neither waits for the other) that run over the same elements of one array."""
    level: dict[int, int] = {}
    first: dict[tuple[int, int, int], Kernel] = {}
    joined: dict[int, Kernel] = {}
    out: list[Piece] = []
    for piece in pieces:
        mine = 1 + max([level.get(v, 0) for v in piece.reads], default=0)
        for value in piece.writes:
            level[value] = mine
        if not isinstance(piece, Kernel) or not piece.space:
            out.append(piece)
            continue
        keys = [(mine, piece.space, v) for v, part in piece.reads.items() if part >= piece.space]
        into = next((first[k] for k in keys if k in first), None)
        if into is not None and len(into.reads) + len(piece.reads) > MAX_READS:
            into = None
        if into is None:
            into = piece
            out.append(piece)
        else:
            into.nodes += piece.nodes
            into.signature += piece.signature
            for value, part in piece.reads.items():
                into.reads[value] = max(part, into.reads.get(value, 0.0))
            into.writes |= piece.writes
        joined[id(piece)] = into
        for key in keys:
            first.setdefault(key, into)
    return out
