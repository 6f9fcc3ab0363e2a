"""A compute region as a StableHLO program of its own: what a profiling estimator compiles and runs.

The program as data keeps only what decides cost, so the operations are cloned from the module that the text parses to. The
graph's values tie the two together: :class:`Extractor` builds the graph once more and notes which operation made each value.
Numbering is deterministic, so a region of any estimate of the same program is understood.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlsysim.errors import InputError
from mlsysim.hlo import calls, trips
from mlsysim.hlo.fusion import Kernel, LoopKernels
from mlsysim.hlo.graph import _Builder
from mlsysim.hlo.items import Collective, Fused, Graph, Item, Loop, Node, alive, reads_of
from mlsysim.hlo.opset import COLLECTIVES, EFFECTS, FREE
from mlsysim.hlo.program import Block, Op, Program, TensorType
from mlsysim.hlo.slicing import Region
from mlsysim.hlo.stablehlo import _bindings, parse

_RUNS = frozenset(("stablehlo", "chlo", "mhlo", "func"))  # dialects whose operations XLA takes
_REFUSED = EFFECTS | COLLECTIVES | {"custom_call", "async_start", "async_done", "async_update"}
_NAMES = ("callee", "decomposition", "called_computation")  # attributes that name a function
SMALL = 2  # integers that index nothing are below this


@dataclass(frozen=True)
class Input:
    """One input: its type, and for integers the value that all must stay below (so that an index is in range)."""

    type: TensorType
    below: int = SMALL


@dataclass(frozen=True)
class Standalone:
    """A region as a program. ``reads`` and ``writes`` are the graph's values that go in and come out, in order."""

    text: str
    inputs: tuple[Input, ...]
    outputs: tuple[TensorType, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Memory of all inputs and outputs."""
        return sum(i.type.bytes for i in self.inputs) + sum(t.bytes for t in self.outputs)


@dataclass(frozen=True, slots=True)
class _Made:
    """How a value comes about: the operation, the graph's values for its operands, results and what its blocks capture."""

    op: Op
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    captured: Mapping[int, int]  # from the program's values to the graph's


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


class _Tracer(_Builder):
    """Builds the graph and notes the origin of its values."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.made: dict[int, _Made] = {}

    def op(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        first = len(self.bytes)
        reads = tuple(env[v] for v in op.operands if v in env)
        super().op(op, env, into, depth)
        writes = tuple(env[v] for v in op.results)
        fresh = [v for v in writes if v >= first and v not in self.made]
        if fresh:
            captured = {v: env[v] for v in _captures(op.blocks) if v in env}
            made = _Made(op, reads, writes, captured)
            self.made.update(dict.fromkeys(fresh, made))


def trace(program: Program) -> tuple[Graph, dict[int, _Made]]:
    """The graph, as :func:`mlsysim.hlo.graph.build` makes it, and the origin of its values."""
    tracer = _Tracer(program)
    main = program.functions[program.main]
    env: dict[int, int] = {}
    tracer.new_all(main.arguments, env)
    items: list[Item] = []
    results = tracer.block(main, env, items, 1)
    return Graph(alive(items, results), results, tracer.bytes, tracer.optimised, tracer.unknown, tracer.ops), tracer.made


class Extractor:
    """Takes regions out of one program."""

    def __init__(self, text: str, name: str = "program") -> None:
        self.program = parse(text, name)
        self.graph, self.made = trace(self.program)
        self.ir, self.context = _bindings()
        self.module = self.ir.Module.parse(text, self.context)
        self.source: dict[int, Any] = {}  # by identity of the program's operation: the module's
        self.functions: dict[str, Any] = {}
        for view in self.module.body.operations:
            function = view.operation
            if function.name == "func.func" and len(function.regions[0].blocks):
                name = function.attributes["sym_name"].value
                self.functions[name] = function
                self._pair(self.program.functions[name], function.regions[0].blocks[0])
        self.readers: dict[int, list[int | None]] = {}  # first result of each reader
        self.results: set[int] = set()
        self._note_readers(self.graph)
        self._escapes: dict[int, bool] = {}
        self._done: dict[Any, Standalone] = {}

    def _pair(self, block: Block, held: Any) -> None:
        for op, view in zip(block.ops, _body(held), strict=True):
            self.source[id(op)] = view
            if op.blocks:
                for inner, region_block in zip(op.blocks, _blocks(view), strict=True):
                    self._pair(inner, region_block)

    def _note_readers(self, graph: Graph) -> None:
        self.results.update(graph.results)
        for item in graph.items:
            for node in item.nodes if isinstance(item, Fused) else [item]:
                for value in reads_of(node):
                    self.readers.setdefault(value, []).append(node.writes[0] if node.writes else None)
            if isinstance(item, Loop) and any(True for _ in item.body.collectives()):
                self._note_readers(item.body)

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
        key = tuple(sorted(made))
        if key not in self._done:
            self._done[key] = _Writer(self, made, reads).run()
        return self._done[key]

    def _check(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.base == "custom_call":
                raise InputError("a custom call runs code that the program names; it is not compiled or run here")
            if not node.writes or node.base in _REFUSED:
                raise InputError(f"{node.base!r} cannot run by itself; its region cannot be profiled")
            found = self.made.get(node.writes[0])
            if found is None or found.op.base != node.base.rpartition(".")[2] or found.writes != node.writes:
                raise InputError("the region is not of this program; give the text that was estimated")

    def escapes(self, value: int, made: Mapping[int, None]) -> bool:
        """Whether something outside reads the value, itself or through light work that outside repeats."""
        stack, seen = [value], {value}
        while stack:
            one = stack.pop()
            if one in self.results:
                return True
            for reader in self.readers.get(one, ()):
                if reader is None or reader not in made:
                    return True
        return False


def _body(block: Any) -> list[Any]:
    """Operations of a module's block but for what ends it, as the reader lists them."""
    return [v.operation for v in block.operations if v.operation.name.partition(".")[2] != "return"]


def _blocks(op: Any) -> list[Any]:
    return [b for region in op.regions for b in region.blocks]
