"""A program as data: tensor types, operations, blocks and functions, without the compiler that wrote them."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mlsysim.errors import InputError
from mlsysim.hlo.reader.limits import MAX_ELEMENTS, MAX_RANK, check
from mlsysim.results import Report, Result, format_rows
from mlsysim.tables import table

_BITS = {"i1": 8, "index": 64, "!stablehlo.token": 0, "!mhlo.token": 0, "none": 0}
_WIDTH = re.compile(r"(?:s|u|ui|si|i|f|bf|tf)(\d+)(?:E\d+M\d+\w*)?$")


def bits_of(dtype: str) -> int:
    """Bits that one element takes in memory; 0 for a token, 8 for a truth value.

    >>> [bits_of(d) for d in ("bf16", "f8E4M3FN", "i4", "complex<f32>", "i1")]
    [16, 8, 4, 64, 8]
    """
    if dtype in _BITS:
        return _BITS[dtype]
    if dtype.startswith("complex<"):
        return 2 * bits_of(dtype[8:-1])
    if dtype.startswith("!quant."):  # stored as the integer that is named first
        return bits_of(dtype[dtype.find("<") + 1 :].split(":")[0].split("<")[0])
    width = _WIDTH.match(dtype)
    if not width:
        raise InputError(f"element type {dtype[:40]!r} is not one of StableHLO's")
    return int(width[1])


@dataclass(frozen=True)
class TensorType:
    """Shape and element type of a value; a token has the shape () and no bytes."""

    dtype: str
    shape: tuple[int, ...] = ()
    elements: int = field(init=False, repr=False, compare=False)
    bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check(len(self.shape), MAX_RANK, "the rank of a tensor", "no accelerator takes it")
        if any(type(n) is not int or n < 0 for n in self.shape):
            raise InputError(f"shape {self.shape!r:.80} has a dimension that is not a size; export with static shapes")
        elements = math.prod(self.shape)
        check(
            elements, MAX_ELEMENTS, f"the size of tensor<{'x'.join(map(str, self.shape))[:60]}>", "no memory holds it"
        )
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "bytes", -(-elements * bits_of(self.dtype) // 8))

    def __str__(self) -> str:
        return "x".join((*map(str, self.shape), self.dtype))


class Op(NamedTuple):
    """One operation: its full name, the values it reads and writes, what of its attributes decides cost, and its blocks."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: Mapping[str, Any]
    blocks: tuple["Block", ...] = ()

    def __repr__(self) -> str:
        return f"Op({self.name}: {len(self.operands)} operands, {len(self.results)} results, {len(self.blocks)} blocks)"

    @property
    def base(self) -> str:
        """The name without its dialect."""
        return self.name.partition(".")[2]


class Block(NamedTuple):
    """A straight list of operations with its arguments, and the values that it returns."""

    arguments: tuple[int, ...]
    ops: tuple[Op, ...]
    results: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Block({len(self.arguments)} arguments, {len(self.ops)} operations, {len(self.results)} results)"


@dataclass(frozen=True)
class Program(Result):
    """A parsed program. ``values[v]`` is the index in ``types`` of the type of value ``v``.

    ``sharded`` says that annotations place arrays on a mesh; without a collective, the shapes are then those of the
    whole mesh. ``meshes`` maps a mesh's name to its axes and their sizes. ``donated`` are the arguments of the main function
    that it may write over, by position; the others keep their values.
    """

    name: str
    types: tuple[TensorType, ...]
    values: tuple[int, ...]
    functions: Mapping[str, Block]
    main: str = "main"
    partitions: int = 1
    replicas: int = 1
    sharded: bool = False
    meshes: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    donated: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.main not in self.functions:
            raise InputError(f"{self.name}: no function @{self.main}; a program starts there")

    def summary(self) -> list[str]:
        counts = Counter(op.name for op in self.ops())
        common = ", ".join(f"{n} x {name.removeprefix('stablehlo.')}" for name, n in counts.most_common(6))
        mesh = "; ".join(f"{name}: " + ", ".join(f"{a} {n}" for a, n in axes) for name, axes in self.meshes.items())
        spread = f"{self.partitions} partitions, {self.replicas} replicas" + (
            ", sharded arrays" if self.sharded else ""
        )
        return format_rows(
            f"program {self.name}: {counts.total():,} operations in {len(self.functions)} functions",
            ("operations", common),
            ("devices", spread),
            ("meshes", mesh[:200]),
            ("ask it", "hlo.estimate(program, device), hlo.count(program)"),
        )

    def explain(self) -> Report:
        """Every kind of operation, and how often it is written."""
        counts = Counter(op.name for op in self.ops())
        return Report(
            self.summary()[0], (table(("Operation", "Times"), [(k, str(n)) for k, n in counts.most_common()]),)
        )

    def to_dict(self) -> dict[str, Any]:
        """What the program is made of, for JSON; not the program."""
        return {
            "name": self.name,
            "operations": dict(Counter(op.name for op in self.ops()).most_common()),
            "functions": list(self.functions),
            "partitions": self.partitions,
            "replicas": self.replicas,
            "sharded": self.sharded,
        }

    def type_of(self, value: int) -> TensorType:
        return self.types[self.values[value]]

    def ops(self) -> Iterator[Op]:
        """Every operation as written, inner ones after the one that holds them."""
        stack = [op for body in self.functions.values() for op in reversed(body.ops)]
        while stack:
            op = stack.pop()
            yield op
            stack.extend(inner for block in op.blocks for inner in reversed(block.ops))
