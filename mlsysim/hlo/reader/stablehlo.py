"""Reads StableHLO text through jaxlib's MLIR bindings. The only file that needs jaxlib (extra ``hlo``).

The bindings are private API of jaxlib, so everything that touches them stands here; tests run it on several versions.
"""

import re
from collections.abc import Callable
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

from mlsysim.errors import InputError, MlsysimError
from mlsysim.hlo.reader import form, groups
from mlsysim.hlo.reader.limits import MAX_BYTES, MAX_DEPTH, MAX_OPS, check, no_collection
from mlsysim.hlo.reader.opset import PLAIN
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType

_HIDDEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|//[^\n]*')  # text in which a bracket means nothing
_RESULT = re.compile(rb"%[\w$.#:-]+\s*=")
_OPENS, _CLOSES = b"([{<", b")]}>"
_STEP = {**dict.fromkeys(_OPENS, 1), **dict.fromkeys(_CLOSES, -1)}
_NOT_BRACKETS = bytes(set(range(256)) - set(_OPENS) - set(_CLOSES))
_PLACED = re.compile(r'sdy\.sharding\s*=\s*#sdy\.sharding<[^>]*\{"|sharding\s*=\s*"\{devices=|in_shardings=\[[^\n]*\{"')
_HLO = re.compile(r"\s*(?://[^\n]*\n\s*)*HloModule\b")
_DECLARED = re.compile(r'"cost_estimate"\s*:\s*\{([^{}]{0,400})\}')  # what a Pallas kernel says that it does
_COSTS = ("flops", "transcendentals", "bytes_accessed")
_TRIPS = re.compile(r"known_trip_count\W*n\W*(\d+)")


def lexical_check(text: str, name: str) -> None:
    """Refuse text that no compiler writes before the parser, which is recursive and in C++, sees it."""
    raw = text.encode("utf-8")
    check(len(raw), MAX_BYTES, f"{name}: its size in bytes", "split the program")
    hint = "split the program, or keep its loops rolled"
    check(raw.count(b"\n"), 2 * MAX_OPS, f"{name}: the number of lines", hint)
    bare = _HIDDEN.sub(b"", raw)
    brackets = bare.replace(b"->", b"").translate(None, _NOT_BRACKETS)
    deepest = max(accumulate(map(_STEP.__getitem__, brackets)), default=0)
    check(deepest, MAX_DEPTH, f"{name}: the depth of its brackets", "no compiler writes such a program")
    # An operation has results, or a type with an arrow, or both
    check(max(len(_RESULT.findall(bare)), bare.count(b"->")), MAX_OPS, f"{name}: the number of operations", hint)
    if b"affine_map" in bare or b"affine_set" in bare:
        raise InputError(f"{name}: holds affine maps, which StableHLO programs do not; lower to StableHLO")
    if b"\0" in raw:
        raise InputError(f"{name}: holds a zero byte; give the text form of StableHLO")


def _bindings() -> Any:
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo
    except ImportError:
        raise InputError(
            "reading StableHLO text needs jaxlib: install the extra 'hlo' (mlsysim-book[hlo]), "
            "or give the JSON form that mlsysim.hlo.to_json writes"
        ) from None
    registration: Any
    try:
        registration = import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    except ImportError:  # its name before jaxlib 0.7
        registration = import_module("jaxlib.mlir._mlir_libs.register_jax_dialects")
    registry = ir.DialectRegistry()
    registration.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for register in (
        stablehlo.register_dialect,
        chlo.register_dialect,
        sdy.register_dialect,
        mhlo.register_mhlo_dialect,
    ):
        register(context)
    context.allow_unregistered_dialects = True  # an op of another dialect is an unknown op, not an error
    context.enable_multithreading(False)
    return ir, context


_DONATED = ("tf.aliasing_output", "jax.buffer_donor")  # marks of an argument that the program may write over


class _Collision(Exception):
    """Two values of a program have the same key."""


class _Walker:
    """Turns a parsed module into a Program.

    Values are known by the hash that the bindings make of their address, since to keep the values themselves keeps all
    operations: three quarters of the memory. While no two have the same hash, which is counted, that is exact.
    """

    def __init__(self, ir: Any, name: str, key: Callable[[Any], Any] = hash) -> None:
        self.ir, self.name, self.key = ir, name, key
        self.types: dict[TensorType, int] = {}
        self.listed: list[TensorType] = []
        self.cached: dict[Any, dict[str, Any]] = {}
        self.type_ids: dict[Any, int] = {}
        self.ids: dict[Any, int] = {}
        self.values: list[int] = []
        self.names: dict[str, tuple[bool, Any, bool]] = {}  # ends a block, reader of attributes, holds no region
        self.meshes: dict[str, tuple[tuple[str, int], ...]] = {}
        self.groups: dict[Any, groups.Groups] = {}
        self.ops = 0
        self.at = "the module"  # what is being read

    def tensor(self, text: str) -> TensorType:
        """The type that MLIR prints as ``text``; what is no tensor has no bytes."""
        if not text.startswith("tensor<"):
            return TensorType("none")
        inner = text[7:-1]
        sizes = re.match(r"(?:(?:\d+|\?)x)*", inner)
        head = sizes[0] if sizes else ""
        dtype = inner[len(head) :].partition(", #")[0].partition(", dense")[0]
        if "?" in head:
            raise InputError(f"{self.name}: {text[:80]} has a dynamic dimension; export with static shapes")
        return TensorType(dtype, tuple(int(n) for n in head[:-1].split("x")) if head else ())

    def define(self, value: Any) -> int:
        kind = value.type
        index = self.type_ids.get(kind)
        if index is None:
            tensor = self.tensor(str(kind))
            index = self.type_ids[kind] = self.types.setdefault(tensor, len(self.types))
            if index == len(self.listed):
                self.listed.append(tensor)
        self.ids[self.key(value)] = new = len(self.values)
        self.values.append(index)
        return new

    def block(self, block: Any) -> Block:
        arguments = tuple(self.define(a) for a in block.arguments)
        ops: list[Op] = []
        results: tuple[int, ...] = ()
        ids, key, define, values, type_ids = self.ids, self.key, self.define, self.values, self.type_ids
        names = self.names
        for view in block.operations:
            op = view.operation
            name = op.name
            operands = tuple([ids[key(v)] for v in op.operands])
            known = names.get(name)
            if known is None:
                base = name.partition(".")[2]
                known = names[name] = base == "return", _READERS.get(base), base in PLAIN
            ends, read, plain = known
            if ends:
                results = operands
                continue
            self.ops += 1
            self.at = name
            made = []
            for result in op.results:
                index = type_ids.get(result.type)
                if index is None:
                    made.append(define(result))
                else:
                    ids[key(result)] = new = len(values)
                    values.append(index)
                    made.append(new)
            defined = tuple(made)
            attributes = read(self, op) if read else _NOTHING
            blocks: tuple[Block, ...] = ()
            if not plain:  # asking each op for its regions would take a third of the time
                blocks = tuple(self.block(b) for region in op.regions for b in region.blocks)
            ops.append(Op(name, operands, defined, attributes, blocks))
        check(self.ops, MAX_OPS, f"{self.name}: the number of operations", "split the program")
        return Block(arguments, tuple(ops), results)

    def module(self, module: Any, sharded: bool) -> Program:
        operations = [view.operation for view in module.body.operations]
        for op in operations:
            if op.name == "sdy.mesh":
                axes = re.findall(r'"([^"]+)"\s*=\s*(\d+)', str(op.attributes["mesh"]))
                self.meshes[op.attributes["sym_name"].value] = tuple((axis, int(size)) for axis, size in axes)
        functions = {}
        public = []
        donated: dict[str, tuple[int, ...]] = {}
        for op in operations:
            if op.name == "func.func" and len(op.regions[0].blocks):
                name = op.attributes["sym_name"].value
                functions[name] = self.block(op.regions[0].blocks[0])
                if "arg_attrs" in op.attributes:
                    marks = enumerate(op.attributes["arg_attrs"])
                    donated[name] = tuple(i for i, held in marks if any(key in held for key in _DONATED))
                if "sym_visibility" not in op.attributes or op.attributes["sym_visibility"].value == "public":
                    public.append(name)
        if len(self.ids) != len(self.values):
            raise _Collision
        counts = {}
        for key in ("num_partitions", "num_replicas"):
            held = module.operation.attributes
            counts[key] = int(held[f"mhlo.{key}"].value) if f"mhlo.{key}" in held else 1
        main = "main" if "main" in functions or len(public) != 1 else public[0]
        return Program(
            self.name,
            tuple(self.types),
            tuple(self.values),
            functions,
            main,
            counts["num_partitions"],
            counts["num_replicas"],
            sharded,
            self.meshes,
            donated.get(main, ()),
        )

    # What is read of attributes: only what decides cost, dependence or a loop's count.

    def ints(self, attribute: Any) -> tuple[int, ...]:
        text = str(attribute)
        if text.startswith("array<"):
            return tuple(int(n) for n in re.findall(r"-?\d+", text.partition(":")[2]))
        if isinstance(attribute, self.ir.DenseIntElementsAttr):
            return tuple(int(attribute[i]) for i in range(len(attribute)))
        return tuple(int(n) for n in re.findall(r"-?\d+", text.partition(" : ")[0]))

    def rows(self, attribute: Any) -> tuple[tuple[int, ...], ...]:
        flat = self.ints(attribute)
        shape = self.tensor(str(attribute.type)).shape
        width = shape[1] if len(shape) == 2 else len(flat)
        return tuple(flat[i : i + width] for i in range(0, len(flat), width)) if width else ()

    def dot(self, op: Any) -> dict[str, Any]:
        held = op.attributes
        key = tuple(held[k] for k in ("dot_dimension_numbers", "precision_config") if k in held)
        if key not in self.cached:
            self.cached[key] = self.read_dot(op)
        return self.cached[key]

    def read_dot(self, op: Any) -> dict[str, Any]:
        text = str(op.attributes["dot_dimension_numbers"]) if "dot_dimension_numbers" in op.attributes else ""
        found: dict[str, Any] = {
            key: tuple(int(n) for n in re.findall(r"\d+", dims))
            for key, dims in re.findall(r"(\w+) = \[([^\]]*)\]", text)
        }
        if "precision_config" in op.attributes:
            words = re.findall(r"precision (\w+)", str(op.attributes["precision_config"]))
            if any(word != "DEFAULT" for word in words):
                found["precision"] = tuple(words)
        return found

    def convolution(self, op: Any) -> dict[str, Any]:
        held = op.attributes
        layouts = re.findall(r"\[([^\]]*)\]", str(held["dimension_numbers"]))
        found: dict[str, Any] = {
            "layouts": tuple(tuple(n.strip() for n in layout.split(",")) for layout in layouts),
            "feature_group_count": int(held["feature_group_count"].value),
            "batch_group_count": int(held["batch_group_count"].value),
        }
        for key in ("window_strides", "lhs_dilation", "rhs_dilation"):
            if key in held:
                found[key] = self.ints(held[key])
        if "padding" in held:
            found["padding"] = self.rows(held["padding"])
        return found

    def window(self, op: Any) -> dict[str, Any]:
        held = op.attributes
        keys = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
        found: dict[str, Any] = {key: self.ints(held[key]) for key in keys if key in held}
        found["padding"] = (
            self.rows(held["padding"]) if "padding" in held else ((0, 0),) * len(found["window_dimensions"])
        )
        return found

    def collective(self, op: Any) -> dict[str, Any]:
        held = op.attributes
        found: dict[str, Any] = {}
        if "source_target_pairs" in held:
            found["pairs"] = self.rows(held["source_target_pairs"])
        if "replica_groups" in held:
            attribute = held["replica_groups"]
            if attribute not in self.groups:
                if isinstance(attribute, self.ir.DenseIntElementsAttr):
                    self.groups[attribute] = groups.listed(self.rows(attribute))
                elif "<=" in str(attribute):
                    self.groups[attribute] = groups.iota(str(attribute))
                else:
                    self.groups[attribute] = groups.from_mesh_text(str(attribute), self.meshes)
            found["groups"] = self.groups[attribute]
        if "use_global_device_ids" in held or "channel_handle" in held:
            found["global"] = True
        return found

    def constant(self, op: Any) -> dict[str, Any]:
        """The value of a whole number; of anything else, whether it is the same everywhere, and if so whether zero or one."""
        kind = self.listed[self.values[-1]]  # of its result, which was just defined
        held = op.attributes["value"]
        if kind.elements == 1 and kind.dtype[0] != "f" and isinstance(held, self.ir.DenseIntElementsAttr):
            return {"value": int(held[0])}
        if not isinstance(held, self.ir.DenseElementsAttr) or not held.is_splat:
            return _NOTHING
        if isinstance(held, self.ir.DenseFPElementsAttr | self.ir.DenseIntElementsAttr):
            everywhere = held.get_splat_value().value
            if everywhere == 0 or everywhere == 1:
                return {"splat": int(everywhere)}
        return {"splat": None} if kind.elements > 1 else _NOTHING

    def compare(self, op: Any) -> dict[str, Any]:
        if self.listed[self.values[-1]].elements != 1:
            return _NOTHING
        found = re.search(r"direction (\w+)", str(op.attributes["comparison_direction"]))
        return {"direction": found[1]} if found else _NOTHING

    def callee(self, op: Any) -> dict[str, Any]:
        for key in ("callee", "decomposition", "called_computation"):
            if key in op.attributes:
                return {"callee": op.attributes[key].value}
        return _NOTHING

    def custom_call(self, op: Any) -> dict[str, Any]:
        held = op.attributes
        found: dict[str, Any] = {"target": held["call_target_name"].value}
        for key in ("backend_config", "mhlo.backend_config"):
            if key in held:
                attribute = held[key]
                text = attribute.value if hasattr(attribute, "value") else str(attribute)
                found["config"] = text[:4096]
                if declared := _DECLARED.search(text):
                    sizes = [re.search(rf'"{key}"\s*:\s*(\d{{1,18}})\b', declared[1]) for key in _COSTS]
                    if all(sizes):
                        found["cost"] = tuple(int(size[1]) for size in sizes if size)
                if isinstance(attribute, self.ir.DictAttr) and "name" in attribute:  # of a Triton kernel
                    found["kernel"] = str(attribute["name"].value)[:200]
        if "kernel_name" in held:  # of a Pallas kernel on a TPU
            found["kernel"] = str(held["kernel_name"].value)[:200]
        return found

    def loop(self, op: Any) -> dict[str, Any]:
        held = op.attributes
        for i in range(len(held)):
            found = _TRIPS.search(str(held[i].attr).replace(r"\22", '"'))  # MLIR prints a quote in a string so
            if found:
                return {"trips": int(found[1])}
        return _NOTHING

    def dimensions(self, op: Any) -> dict[str, Any]:
        attribute = op.attributes["dimensions"]
        if attribute not in self.cached:
            self.cached[attribute] = {"dimensions": self.ints(attribute)}
        return self.cached[attribute]

    def fft(self, op: Any) -> dict[str, Any]:
        return {"lengths": self.ints(op.attributes["fft_length"])}

    def element(self, op: Any) -> dict[str, Any]:
        return {"index": int(op.attributes["index"].value)}


_NOTHING: dict[str, Any] = {}
_READERS: dict[str, Callable[[_Walker, Any], dict[str, Any]]] = {
    "dot_general": _Walker.dot,
    "dot": _Walker.dot,
    "ragged_dot": _Walker.dot,
    "convolution": _Walker.convolution,
    "reduce_window": _Walker.window,
    "select_and_scatter": _Walker.window,
    "constant": _Walker.constant,
    "compare": _Walker.compare,
    "call": _Walker.callee,
    "composite": _Walker.callee,
    "async_start": _Walker.callee,
    "custom_call": _Walker.custom_call,
    "while": _Walker.loop,
    "fft": _Walker.fft,
    "reduce": _Walker.dimensions,
    "get_tuple_element": _Walker.element,
    **dict.fromkeys(
        (
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "collective_permute",
            "collective_broadcast",
            "collective_reduce",
        ),
        _Walker.collective,
    ),
}


def parse(text: str, name: str = "program") -> Program:
    """Parse StableHLO text, pretty or generic, with sdy, mhlo and chlo.

    Raises
    ------
    InputError
        For text that does not parse, is too deep or too large, or has dynamic shapes; and without jaxlib.
    """
    if _HLO.match(text):
        raise InputError(
            f"{name}: is HLO, the compiler's own form; give StableHLO: jax.jit(f).lower(...).as_text() prints it, "
            "as_text('hlo') and compile().as_text() do not"
        )
    lexical_check(text, name)
    ir, context = _bindings()
    try:
        module = ir.Module.parse(text, context)
    except MlsysimError:
        raise
    except Exception as error:  # the bindings raise classes of their own, which differ by version
        reason = " ".join(str(error).split()).replace("Unable to parse module assembly: ", "")
        raise InputError(f"{name}: not StableHLO that parses ({reason[:200]})") from None
    sharded = bool(_PLACED.search(text))
    del text  # as much memory as a tenth of the operations
    walker = _Walker(ir, name)
    try:
        with no_collection():
            try:
                return walker.module(module, sharded)
            except _Collision:
                walker = _Walker(ir, name, key=lambda value: value)
                return walker.module(module, sharded)
    # The bindings raise a RuntimeError where an attribute is of another kind than their caller asks for
    except (KeyError, IndexError, AttributeError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        if isinstance(error, MlsysimError):
            raise
        raise InputError(
            f"{name}: operation {walker.ops}, {walker.at[:60]}, lacks what StableHLO gives it"
            f" ({type(error).__name__}: {str(error)[:200]})"
        ) from None


def read(path: str | Path) -> Program:
    """Read a program from a file: the JSON form if it ends in ``.json``, StableHLO text otherwise."""
    path = Path(path)
    make = form.from_json if path.suffix == ".json" else parse
    return make(form.read_bounded(path), path.name)  # the text has no other name, so that it can go when it was read
