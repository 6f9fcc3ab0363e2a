"""The JSON form of a program: small, stable, and readable without jaxlib."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlsysim.errors import InputError
from mlsysim.files import read_text
from mlsysim.hlo.reader.limits import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, MAX_OPS, check
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType

FORMAT = "mlsysim-hlo 1"


def _size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_ELEMENTS


def _number(value: Any) -> bool:
    return type(value) is int and -MAX_ELEMENTS <= value <= MAX_ELEMENTS


def _list_of(each: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(each(v) for v in value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


_SIZES = _list_of(_size), "a list of whole numbers of at least 0"
_COUNT = (lambda v: _size(v) and v > 0), "a whole number of at least 1"
_ROWS = _list_of(_list_of(_size)), "a list of lists of whole numbers of at least 0"
_TEXTS = _list_of(_text), "a list of texts"
_LINE = (lambda v: _text(v) and v.isprintable()), "a text on one line"
# What is read of attributes. Any other must be plain: nothing reads it
_ATTRIBUTES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("lhs_contracting_dimensions", "rhs_contracting_dimensions", "contracting"), _SIZES),
    **dict.fromkeys(("lhs_batching_dimensions", "rhs_batching_dimensions", "dimensions", "lengths", "cost"), _SIZES),
    **dict.fromkeys(("window_dimensions", "window_strides", "window_dilations", "base_dilations"), _SIZES),
    **dict.fromkeys(("lhs_dilation", "rhs_dilation"), _SIZES),
    **dict.fromkeys(("feature_group_count", "batch_group_count"), _COUNT),
    **dict.fromkeys(("groups", "pairs"), _ROWS),
    **dict.fromkeys(("callee", "direction", "kernel", "target"), _LINE),
    "config": (_text, "a text"),
    "precision": _TEXTS,
    "layouts": (_list_of(_list_of(_text)), "a list of lists of texts"),
    "padding": (_list_of(lambda v: _list_of(_number)(v) and len(v) == 2), "a list of pairs of whole numbers"),
    "value": (_number, "a whole number"),
    "splat": ((lambda v: v is None or _number(v)), "null or a whole number"),
    "global": ((lambda v: isinstance(v, bool)), "true or false"),
    "trips": (_size, "a whole number of at least 0"),
    "index": (_size, "a whole number of at least 0"),
}


def to_json(program: Program) -> str:
    """The program as JSON text; ``from_json`` reads it back to an equal program."""

    def block(b: Block) -> list[Any]:
        return [list(b.arguments), [op(o) for o in b.ops], list(b.results)]

    def op(o: Op) -> list[Any]:
        row: list[Any] = [o.name, list(o.operands), list(o.results)]
        if o.attributes or o.blocks:
            row.append(dict(o.attributes))
        if o.blocks:
            row.append([block(b) for b in o.blocks])
        return row

    document = {
        "format": FORMAT,
        "name": program.name,
        "main": program.main,
        "partitions": program.partitions,
        "replicas": program.replicas,
        "sharded": program.sharded,
        "meshes": {name: [list(axis) for axis in axes] for name, axes in program.meshes.items()},
        "types": [[t.dtype, *t.shape] for t in program.types],
        "values": list(program.values),
        "functions": {name: block(body) for name, body in program.functions.items()},
    }
    if program.donated:
        document["donated"] = list(program.donated)
    return json.dumps(document, separators=(",", ":"))


class _Reader:
    """Turns parsed JSON into a program, and refuses anything that is not of the form."""

    def __init__(self, document: Any, name: str) -> None:
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError(f"{name}: not a program; its 'format' should be {FORMAT!r}")
        self.document, self.name, self.ops = document, name, 0

    def fail(self, what: str) -> InputError:
        return InputError(f"{self.name}: {what}; write the file with mlsysim.hlo.to_json")

    def get(self, key: str, kind: type) -> Any:
        value = self.document.get(key)
        if type(value) is not kind:
            raise self.fail(f"{key!r} should be a {kind.__name__}")
        return value

    def ids(self, value: Any, below: int) -> tuple[int, ...]:
        if isinstance(value, list):
            for v in value:  # a loop, since there are tens of thousands of lists, of two or three each
                if type(v) is not int or not 0 <= v < below:
                    break
            else:
                return tuple(value)
        raise self.fail(f"a list of values before operation {self.ops + 1} holds something that is not one")

    def block(self, value: Any, depth: int) -> Block:
        check(depth, MAX_DEPTH, f"{self.name}: the depth of regions", "no compiler writes such a program")
        if not isinstance(value, list) or len(value) != 3 or not isinstance(value[1], list):
            raise self.fail("a block is [arguments, operations, results]")
        ops = tuple([self.op(o, depth) for o in value[1]])
        return Block(self.ids(value[0], self.count), ops, self.ids(value[2], self.count))

    def op(self, value: Any, depth: int) -> Op:
        self.ops += 1
        if self.ops > MAX_OPS:
            check(self.ops, MAX_OPS, f"{self.name}: the number of operations", "split the program")
        if not isinstance(value, list) or not 3 <= len(value) <= 5 or not _LINE[0](value[0]):
            raise self.fail("an operation is [name, operands, results, attributes, blocks]")
        attributes = value[3] if len(value) > 3 else {}
        blocks = value[4] if len(value) > 4 else []
        if not isinstance(attributes, dict) or not isinstance(blocks, list):
            raise self.fail(f"operation {self.ops}, {value[0][:40]!r}: attributes are an object and blocks a list")
        for key, entry in attributes.items():
            fits, says = _ATTRIBUTES.get(key, (lambda entry: not isinstance(entry, dict | list), "no list or object"))
            if not fits(entry):
                raise self.fail(
                    f"operation {self.ops}, {value[0][:40]!r}: {key[:40]!r} = {repr(entry)[:60]} should be {says}"
                )
        return Op(
            value[0],
            self.ids(value[1], self.count),
            self.ids(value[2], self.count),
            {key: frozen(entry) for key, entry in attributes.items()} if attributes else {},
            tuple([self.block(b, depth + 1) for b in blocks]) if blocks else (),
        )

    def program(self) -> Program:
        rows = self.get("types", list)
        if any(not isinstance(row, list) or not row or not isinstance(row[0], str) for row in rows):
            raise self.fail("a type is [dtype, sizes...]")
        types = tuple(TensorType(row[0], tuple(row[1:])) for row in rows)
        values = self.ids(self.get("values", list), len(types))
        self.count = len(values)
        functions = {str(n): self.block(b, 1) for n, b in self.get("functions", dict).items()}
        meshes = self.get("meshes", dict)
        for name, axes in meshes.items():
            if not _list_of(
                lambda axis: isinstance(axis, list) and len(axis) == 2 and _text(axis[0]) and _size(axis[1])
            )(axes):
                raise self.fail(f"mesh {name[:40]!r} should be a list of [axis, size]")
        for key in ("name", "main"):
            if not self.get(key, str).isprintable() or len(self.get(key, str)) > 200:
                raise self.fail(f"{key!r} should be at most 200 characters on one line")
        for key in ("partitions", "replicas"):
            if not 1 <= self.get(key, int) <= MAX_ELEMENTS:
                raise self.fail(f"{key!r} should be a whole number of at least 1")
        return Program(
            self.get("name", str),
            types,
            values,
            functions,
            self.get("main", str),
            self.get("partitions", int),
            self.get("replicas", int),
            self.get("sharded", bool),
            {name: frozen(axes) for name, axes in meshes.items()},
            self.ids(self.get("donated", list), self.count) if "donated" in self.document else (),
        )


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down, so that attributes can be compared and hashed."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def from_json(text: str, name: str = "program") -> Program:
    """Read the JSON form.

    Raises
    ------
    InputError
        Naming what is wrong, for text that is not JSON, not of the form, too deep or too large.
    """
    check(len(text), MAX_BYTES, f"{name}: its size in bytes", "split the program")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON ({str(error)[:80]})") from None
    return _Reader(document, name).program()


def read_bounded(path: str | Path) -> str:
    """Text of a file of bounded size in UTF-8.

    Raises
    ------
    InputError
        For what is no plain file, cannot be read, is too large, is bytecode, or is not UTF-8.
    """
    path = Path(path)
    hint = "the path of a StableHLO program as text, or of its JSON form"
    try:
        return read_text(path, MAX_BYTES, hint, "split the program, or keep its loops rolled")
    except InputError as error:
        cause = error.__cause__
        if not isinstance(cause, UnicodeDecodeError):
            raise
        if cause.object[:4] == b"ML\xefR":
            raise InputError(f"{path.name}: is bytecode; give the text, as `lowered.as_text()` prints it") from None
        raise InputError(f"{path.name}: not UTF-8 text (byte {cause.start}); give the text form of StableHLO") from None
