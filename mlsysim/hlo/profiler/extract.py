"""A compute region as a StableHLO program of its own: what a profiling estimator compiles and runs.

The program as data keeps only what decides cost, so the operations are cloned from the module that the text parses to. The
graph's values tie the two together: :class:`Extractor` builds the graph once more and notes which operation made each value.
Numbering is deterministic, so a region of any estimate of the same program is understood.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlsysim.errors import InputError
from mlsysim.hlo.fusing.fusion import Kernel, LoopKernels, Piece, kernels
from mlsysim.hlo.fusing.graph import Builder
from mlsysim.hlo.fusing.items import Graph, Item, Loop, Node
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.profiler.clone import REFUSED, Made, Sources, Standalone, Writer
from mlsysim.hlo.reader import form
from mlsysim.hlo.reader.program import Block, Op, Program
from mlsysim.hlo.reader.stablehlo import _bindings, parse


def _captures(blocks: Iterable[Block]) -> Iterator[int]:
    """Values that blocks read and do not define."""
    defined: set[int] = set()
    read: list[int] = []
    stack = list(blocks)
    while stack:
        block = stack.pop()
        defined.update(block.arguments)
        read.extend(block.results)
        for op in block.ops:
            defined.update(op.results)
            read.extend(op.operands)
            stack.extend(op.blocks)
    return (v for v in dict.fromkeys(read) if v not in defined)


class _Tracer(Builder):
    """Builds the graph and notes the origin of its values."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.made: dict[int, Made] = {}

    def op(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        first = len(self.bytes)
        reads = tuple(env[v] for v in op.operands if v in env)
        super().op(op, env, into, depth)
        writes = tuple(env[v] for v in op.results)
        fresh = [v for v in writes if v >= first and v not in self.made]
        if fresh:
            captured = {v: env[v] for v in _captures(op.blocks) if v in env}
            made = Made(len(self.bytes), op, reads, writes, captured)
            self.made.update(dict.fromkeys(fresh, made))


class Extractor:
    """Takes regions out of one program."""

    def __init__(self, text: str, name: str = "program") -> None:
        self.program = parse(text, name)
        tracer = _Tracer(self.program)
        self.graph, self.made = replace(tracer.graph(), kept=frozenset()), tracer.made
        ir, context = _bindings()
        self.sources = Sources(ir, ir.Module.parse(text, context), self.made)
        for name, function in self.sources.functions.items():
            self.sources.pair(self.program.functions[name], function.regions[0].blocks[0])
        self.plans = [_Plan(kernels(self.graph, fuse)) for fuse in (True, False)]
        self.results = set(_results(self.graph))
        self._done: dict[Any, Standalone] = {}

    @classmethod
    def read(cls, path: str | Path) -> "Extractor":
        """Of the program in a file of StableHLO text."""
        path = Path(path)
        if path.suffix == ".json":
            raise InputError(f"{path.name}: the JSON form holds only what decides cost; give the StableHLO text")
        return cls(form.read_bounded(path), path.name)

    def standalone(self, region: Region) -> Standalone:
        """The region as a program whose main function takes what the region reads and returns what others read of it.

        Raises
        ------
        InputError
            For a region that does not compute, is not of this program, or holds what cannot run by itself: a custom call,
            a loop whose count follows from data, shards cut from whole arrays.
        """
        if region.kind != "compute":
            raise InputError(f"a {region.kind} region is not one that computes; only those can be compiled and run")
        made: dict[int, None] = {}  # values that the region computes, in order
        reads: set[int] = set()
        for piece in region.pieces:
            if isinstance(piece, Kernel):
                self._check(piece.nodes)
                made |= dict.fromkeys(v for node in piece.nodes for v in node.writes)
            elif isinstance(piece, LoopKernels):
                made |= dict.fromkeys(piece.writes)
            reads.update(piece.reads)
        if not made:
            raise InputError("the region holds nothing that computes a value")
        key = tuple(sorted(made))
        if key not in self._done:
            inside = made.keys() | {v for piece in region.pieces for v in _inner(piece)}
            plan = next((p for p in self.plans if p.holds(region.pieces)), self.plans[-1])
            outputs = [v for v in made if v in self.results or plan.read_outside(v, inside)]
            if not outputs:
                raise InputError("nothing reads what the region computes; a compiler would drop it")
            self._done[key] = Writer(self.sources, made, reads, outputs).run()
        return self._done[key]

    def _check(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.base == "custom_call":
                raise InputError("a custom call runs code that the program names; it is not compiled or run here")
            if not node.writes or node.base in REFUSED:
                raise InputError(f"{node.base!r} cannot run by itself; its region cannot be profiled")
            found = self.made.get(node.writes[0])
            # A constant that is one value everywhere runs as the broadcast of that value
            base = found and ("broadcast" if found.op.base == "constant" else found.op.base)
            if found is None or base != node.base.rpartition(".")[2] or found.writes != node.writes:
                raise InputError("the region is not of this program; give the text that was estimated")


class _Plan:
    """Which pieces read a value, when the program runs in these pieces. A piece goes by the first value that it writes."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces: dict[int | None, Piece] = {}
        self.readers: dict[int, list[int | None]] = {}
        stack = list(pieces)
        while stack:
            piece = stack.pop()
            first = next(iter(piece.writes), None)
            self.pieces[first] = piece
            for value in piece.reads:
                self.readers.setdefault(value, []).append(first)
            if isinstance(piece, LoopKernels):
                stack += piece.body

    def holds(self, pieces: Iterable[Piece]) -> bool:
        """Whether these are pieces of the plan."""
        return all(_same(piece, self.pieces.get(next(iter(piece.writes), None))) for piece in pieces)

    def read_outside(self, value: int, inside: Set[int]) -> bool:
        return any(first not in inside for first in self.readers.get(value, ()))


def _same(one: Piece, other: Piece | None) -> bool:
    return other is not None and set(one.reads) == set(other.reads) and set(one.writes) == set(other.writes)


def _results(graph: Graph) -> Iterator[int]:
    """What a graph and the bodies of its loops return."""
    yield from graph.results
    for item in graph.items:
        if isinstance(item, Loop):
            yield from _results(item.body)


def _inner(piece: Piece) -> Iterator[int]:
    """Values that the bodies of loops make."""
    if isinstance(piece, LoopKernels):
        for inner in piece.body:
            yield from inner.writes
            yield from _inner(inner)
            if isinstance(inner, Kernel):
                yield from (v for node in inner.nodes for v in node.writes)
