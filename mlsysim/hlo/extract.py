"""A compute region as a StableHLO program of its own: what a profiling estimator compiles and runs.

The program as data keeps only what decides cost, so the operations are cloned from the module that the text parses to. The
graph's values tie the two together: :class:`Extractor` builds the graph once more and notes which operation made each value.
Numbering is deterministic, so a region of any estimate of the same program is understood.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
    """How values come about: the operation, the graph's values for its operands, results and what its blocks capture."""

    order: int
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
            made = _Made(len(self.bytes), op, reads, writes, captured)
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


class _Writer:
    """Writes one region as a module."""

    def __init__(self, owner: Extractor, made: Mapping[int, None], reads: set[int]) -> None:
        self.owner, self.made, self.reads = owner, made, reads
        ir = self.ir = owner.ir
        with owner.context, ir.Location.unknown():
            self.module = ir.Module.create()
            empty = ir.TypeAttr.get(ir.FunctionType.get([], []))
            name = ir.StringAttr.get("main")
            with ir.InsertionPoint(self.module.body):
                self.main = ir.Operation.create(
                    "func.func", attributes={"sym_name": name, "function_type": empty}, regions=1
                )
            self.block = self.main.regions[0].blocks.append()
        self.env: dict[int, Any] = {}
        self.inputs: list[tuple[int, Any]] = []
        self.others: dict[tuple[int, str], Any] = {}  # inputs that are also read as another type
        self.called: dict[str, str] = {}

    def run(self) -> Standalone:
        wanted = self.wanted()
        ir = self.ir
        with self.owner.context, ir.Location.unknown():
            for made in wanted:
                self.add(made)
            outputs = [v for v in self.made if v in self.env and self.owner.escapes(v, self.made)]
            results = [self.env[v] for v in outputs]
            with ir.InsertionPoint(self.block):
                ir.Operation.create("func.return", operands=results)
            kinds = [a.type for a in self.block.arguments], [r.type for r in results]
            self.main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
            below = [_below(value) for _, value in self.inputs]
        text = self.module.operation.get_asm(enable_debug_info=False)
        program = parse(text, "region")
        _check_loops(program)
        body = program.functions["main"]
        return Standalone(
            text,
            tuple(Input(program.type_of(v), n) for v, n in zip(body.arguments, below, strict=True)),
            tuple(program.type_of(v) for v in body.results),
            tuple(v for v, _ in self.inputs),
            tuple(outputs),
        )

    def wanted(self) -> list[_Made]:
        """What the module holds, in the order of the program: the region's work, and what it must repeat."""
        found: dict[int, _Made] = {}
        stack = list(self.made)
        while stack:
            value = stack.pop()
            made = self.origin(value)
            if made is not None and made.order not in found:
                found[made.order] = made
                stack += [*made.reads, *made.captured.values()]
        return [found[n] for n in sorted(found)]

    def origin(self, value: int) -> _Made | None:
        """The operation that makes a value here; None for an input."""
        made = self.owner.made.get(value)
        if made is None or made.op.base in COLLECTIVES:
            return None
        outside = value in self.reads and made.op.base != "constant"
        return None if outside and value not in self.made else made

    def add(self, made: _Made) -> None:
        ir, op = self.ir, self.owner.source[id(made.op)]
        for inner in _nested(op):
            _refuse(inner)
        operands = [self.value(v, op.operands[i].type) for i, v in enumerate(made.reads)]
        with ir.InsertionPoint(self.block):
            copy = op.clone().operation
        for i, value in enumerate(operands):
            copy.operands[i] = value
        if made.captured:
            self.capture(made.op.blocks, _blocks(copy), made.captured, copy)
        self.clean(copy)
        for value, result in zip(made.writes, copy.results, strict=True):
            self.env.setdefault(value, result)  # a loop returns what it leaves unchanged, too

    def value(self, value: int, kind: Any) -> Any:
        """A value as an operand of this type: made here or an input, reshaped where the program has a free reshape."""
        held = self.env.get(value)
        if held is None:
            held = self.env[value] = self.input(value, kind)
        if held.type == kind:
            return held
        ir = self.ir
        have, want = (ir.RankedTensorType(t) for t in (held.type, kind))
        same = have.element_type == want.element_type
        if same and _elements(have) == _elements(want):
            with ir.InsertionPoint(self.block):
                return ir.Operation.create("stablehlo.reshape", results=[kind], operands=[held]).result
        if not any(value == v for v, _ in self.inputs):
            raise InputError(f"a value is made as {held.type} and read as {kind}; what shards it is not in the region")
        key = value, str(kind)
        if key not in self.others:  # a whole array for one part of the program, a shard of it for another
            self.others[key] = self.input(value, kind)
        return self.others[key]

    def input(self, value: int, kind: Any) -> Any:
        if not str(kind).startswith("tensor<"):
            raise InputError(f"the region reads a value of type {kind}, which has no data")
        made = self.block.add_argument(kind, self.ir.Location.unknown())
        self.inputs.append((value, made))
        return made

    def capture(self, blocks: Iterable[Block], copies: Iterable[Any], captured: Mapping[int, int], before: Any) -> None:
        """Give the blocks of a cloned operation the values of this module instead of those around the original."""
        stack = list(zip(blocks, copies, strict=True))
        while stack:
            block, copy = stack.pop()
            views = [v.operation for v in copy.operations]
            for op, view in zip(block.ops, (v for v in views if v.name.partition(".")[2] != "return"), strict=True):
                self.replace(op.operands, view, captured)
                if op.blocks:
                    stack += zip(op.blocks, _blocks(view), strict=True)
            for view in views:
                if view.name.partition(".")[2] == "return":
                    self.replace(block.results, view, captured)

    def replace(self, values: Iterable[int], view: Any, captured: Mapping[int, int]) -> None:
        for i, value in enumerate(values):
            if value in captured:
                view.operands[i] = self.value(captured[value], view.operands[i].type)

    def clean(self, copy: Any) -> None:
        """Drop what a compiler noted, and rename the functions that a clone calls."""
        ir = self.ir
        for inner in _nested(copy):
            if _is_alias(inner):  # a placement: its result is its operand
                for result, operand in zip(inner.results, inner.operands, strict=True):
                    result.replace_all_uses_with(operand)
                inner.erase()
                continue
            for attribute in [inner.attributes[i].name for i in range(len(inner.attributes))]:
                if "." in attribute or attribute in ("arg_attrs", "res_attrs"):
                    del inner.attributes[attribute]
            for key in _NAMES:
                if key in inner.attributes:
                    inner.attributes[key] = ir.FlatSymbolRefAttr.get(self.function(inner.attributes[key].value))

    def function(self, name: str) -> str:
        """Copy a function that a loop's body calls; its name here is its number."""
        if name not in self.called:
            self.called[name] = new = f"f{len(self.called)}"
            ir, original = self.ir, self.owner.functions.get(name)
            if original is None:
                raise InputError(f"a call of @{name[:60]}, which is not defined")
            for inner in _nested(original):
                _refuse(inner)
            with ir.InsertionPoint(self.module.body):
                copy = original.clone().operation
            copy.attributes["sym_name"] = ir.StringAttr.get(new)
            copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
            self.clean(copy)
        return self.called[name]


def _nested(op: Any) -> list[Any]:
    """An operation and all that its blocks hold."""
    found = [op]
    for one in found:
        found.extend(view.operation for block in _blocks(one) for view in block.operations)
    return found


def _is_alias(op: Any) -> bool:
    """Whether a module's operation only says where an array is placed."""
    if op.name in ("stablehlo.custom_call", "mhlo.custom_call"):
        same = len(op.results) == len(op.operands) and all(
            r.type == v.type for r, v in zip(op.results, op.operands, strict=True)
        )
        return same and calls.is_free({"target": op.attributes["call_target_name"].value})
    dialect, _, base = op.name.partition(".")
    return dialect == "sdy" and base in FREE


def _refuse(op: Any) -> None:
    """Refuse what must not or cannot run by itself."""
    dialect, _, base = op.name.partition(".")
    if _is_alias(op) or base == "return":
        return
    if base == "custom_call":
        target = op.attributes["call_target_name"].value
        raise InputError(f"calls {target[:60]!r}: a custom call runs code that the program names; it is not run here")
    if dialect not in _RUNS or base in _REFUSED:
        raise InputError(f"{op.name[:60]!r} cannot run by itself; its region cannot be profiled")


def _elements(kind: Any) -> int:
    return math.prod(kind.shape)


def _check_loops(program: Program) -> None:
    """Refuse a loop whose count does not follow from constants: with made-up data it would run another number of times."""
    chase = trips.Chase(program)
    for op in program.ops():
        if op.base == "while":
            bare = op._replace(attributes={})
            if trips.trip_count(bare, chase) is None:
                raise InputError("a while loop's count depends on data; with made-up data it would run another count")


def _below(value: Any) -> int:
    """The smallest extent that an integer input indexes, directly or through integers made of it; SMALL if it indexes nothing.

    Follows integers through the operations of the main function; an index inside a loop's body is not found, and is small.
    """
    if not _is_integer(value.type):
        return SMALL
    extents: list[int] = []
    seen, stack = {value}, [value]
    while stack:
        for use in stack.pop().uses:
            op, position = use.owner.operation, use.operand_number
            extents += _indexed(op, position)
            for result in op.results:
                if _is_integer(result.type) and result not in seen:
                    seen.add(result)
                    stack.append(result)
    return max(1, min(extents, default=SMALL))


def _is_integer(kind: Any) -> bool:
    return re.search(r"[<x]u?i(?:[2-9]|\d\d)>", str(kind)) is not None


def _indexed(op: Any, position: int) -> list[int]:
    """Sizes that this operand, if it is an index, must stay below."""
    base, shape = op.name.partition(".")[2], [int(n) for n in op.operands[0].type.shape]
    if base == "gather" and position == 1:
        slices = _ints(op.attributes["slice_sizes"])
        return [shape[d] - slices[d] + 1 for d in _dimensions(op, "start_index_map")]
    if base == "dynamic_slice" and position:
        return [shape[position - 1] - _ints(op.attributes["slice_sizes"])[position - 1] + 1]
    if base == "dynamic_update_slice" and position > 1:
        return [shape[position - 2] - int(op.operands[1].type.shape[position - 2]) + 1]
    if base == "scatter" and position == len(op.operands) // 2:
        return [shape[d] for d in _dimensions(op, "scatter_dims_to_operand_dims")]
    return []


def _ints(attribute: Any) -> list[int]:
    return [int(n) for n in re.findall(r"-?\d+", str(attribute).partition(":")[2])]


def _dimensions(op: Any, name: str) -> list[int]:
    held = op.attributes["dimension_numbers" if name == "start_index_map" else "scatter_dimension_numbers"]
    found = re.search(name + r" = \[([\d, ]*)\]", str(held))
    return [int(n) for n in re.findall(r"\d+", found[1])] if found else []
