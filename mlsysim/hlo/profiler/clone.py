"""Clones operations of a parsed module into a module of their own, which XLA can compile and run.

Works on jaxlib's MLIR objects, which it is given: nothing is imported from jaxlib here.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from mlsysim.errors import InputError
from mlsysim.hlo.profiler.indices import SMALL, below
from mlsysim.hlo.reader import calls, trips
from mlsysim.hlo.reader.opset import COLLECTIVES, EFFECTS, FREE
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType
from mlsysim.hlo.reader.stablehlo import parse

_RUNS = frozenset(("stablehlo", "chlo", "mhlo", "func"))  # dialects whose operations XLA takes
REFUSED = EFFECTS | COLLECTIVES | {"custom_call", "async_start", "async_done", "async_update"}
_NAMES = ("callee", "decomposition", "called_computation")  # attributes that name a function


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
class Made:
    """How values come about: the operation, the graph's values for its operands, results and what its blocks capture."""

    order: int
    op: Op
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    captured: Mapping[int, int]  # from the program's values to the graph's


def operations_of(block: Any) -> list[Any]:
    """Operations of a module's block but for what ends it, as the reader lists them."""
    return [v.operation for v in block.operations if v.operation.name.partition(".")[2] != "return"]


def blocks_of(op: Any) -> list[Any]:
    return [b for region in op.regions for b in region.blocks]


class Sources:
    """A parsed module, and how its operations make the values of the graph."""

    def __init__(self, ir: Any, module: Any, made: Mapping[int, Made]) -> None:
        self.ir, self.module, self.made = ir, module, made
        self.operations: dict[int, Any] = {}  # by identity of the program's operation: the module's
        self.functions: dict[str, Any] = {}
        for view in module.body.operations:
            function = view.operation
            if function.name == "func.func" and len(function.regions[0].blocks):
                self.functions[function.attributes["sym_name"].value] = function

    def pair(self, block: Block, held: Any) -> None:
        """Note which operation of the module is which of the program: both list them in the same order."""
        for op, view in zip(block.ops, operations_of(held), strict=True):
            self.operations[id(op)] = view
            if op.blocks:
                for inner, copy in zip(op.blocks, blocks_of(view), strict=True):
                    self.pair(inner, copy)


class Writer:
    """Writes one region as a module: the operations behind ``made``, which read ``reads``; ``outputs`` are its results."""

    def __init__(self, sources: Sources, made: Mapping[int, None], reads: Set[int], outputs: Sequence[int]) -> None:
        self.sources, self.made, self.reads, self.outputs = sources, made, reads, outputs
        ir = self.ir = sources.ir
        self.context = sources.module.context
        with self.context, ir.Location.unknown():
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
        with self.context, ir.Location.unknown():
            for made in wanted:
                self.add(made)
            results = [self.env[v] for v in self.outputs]
            with ir.InsertionPoint(self.block):
                ir.Operation.create("func.return", operands=results)
            kinds = [a.type for a in self.block.arguments], [r.type for r in results]
            self.main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
            limits = [below(value) for _, value in self.inputs]
        text = self.module.operation.get_asm(enable_debug_info=False)
        program = parse(text, "region")
        _check_loops(program)
        body = program.functions["main"]
        return Standalone(
            text,
            tuple(Input(program.type_of(v), n) for v, n in zip(body.arguments, limits, strict=True)),
            tuple(program.type_of(v) for v in body.results),
            tuple(v for v, _ in self.inputs),
            tuple(self.outputs),
        )

    def wanted(self) -> list[Made]:
        """What the module holds, in the order of the program: the region's work, and what it must repeat."""
        found: dict[int, Made] = {}
        stack = list(self.made)
        while stack:
            value = stack.pop()
            made = self.origin(value)
            if made is not None and made.order not in found:
                found[made.order] = made
                stack += [*made.reads, *made.captured.values()]
        return [found[n] for n in sorted(found)]

    def origin(self, value: int) -> Made | None:
        """The operation that makes a value here; None for an input."""
        made = self.sources.made.get(value)
        if made is None or made.op.base in COLLECTIVES:
            return None
        outside = value in self.reads and made.op.base != "constant"
        return None if outside and value not in self.made else made

    def add(self, made: Made) -> None:
        ir, op = self.ir, self.sources.operations[id(made.op)]
        for inner in _nested(op):
            _refuse(inner)
        operands = [self.value(v, op.operands[i].type) for i, v in enumerate(made.reads)]
        with ir.InsertionPoint(self.block):
            copy = op.clone().operation
        for i, value in enumerate(operands):
            copy.operands[i] = value
        if made.captured:
            self.capture(made.op.blocks, blocks_of(copy), made.captured, copy)
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
                    stack += zip(op.blocks, blocks_of(view), strict=True)
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
            ir, original = self.ir, self.sources.functions.get(name)
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
        found.extend(view.operation for block in blocks_of(one) for view in block.operations)
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
    if dialect not in _RUNS or base in REFUSED:
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
