"""The bytes of a trace: messages one after another, each behind its length; and a reader that trusts nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

from mlsysim.errors import InputError
from mlsysim.hlo.chakra.nodes import Node, Trace, Value
from mlsysim.hlo.chakra.schema import ATTRIBUTES, NODE_TYPES, SECONDS, message_class, protobuf
from mlsysim.hlo.reader.limits import check

MAX_BYTES = 256 * 2**20  # of a file
MAX_MESSAGE = 2**20
MAX_NODES = 1_000_000
MAX_ATTRIBUTES = 64  # of a node
MAX_DEPS = 100_000  # of a node
_LENGTH_BYTES = 5  # a length of 32 bit


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _framed(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    check(len(data), MAX_MESSAGE, "the size of one node in bytes", "use the linear split, which has fewer dependencies")
    return _varint(len(data)) + data


def _type_of(name: str, value: Value) -> str:
    if name in ATTRIBUTES:
        return ATTRIBUTES[name]
    for kind, scalar in ((bool, "bool"), (int, "int64"), (float, "double"), (str, "string")):
        if isinstance(value, kind):
            return scalar
    raise InputError(f"attribute {name[:40]!r}: a value of type {type(value).__name__} is not written")


def _add(target: Any, attributes: Mapping[str, Value]) -> None:
    for name, value in attributes.items():
        scalar = _type_of(name, value)
        try:
            target.add(name=name, **{f"{scalar}_val": value})
        except (TypeError, ValueError):
            raise InputError(f"attribute {name[:40]!r} = {value!r:.40} is not a {scalar}") from None


def encode(trace: Trace) -> Iterator[bytes]:
    """A trace in pieces that follow one another in a file."""
    metadata = message_class("GlobalMetadata")(version=trace.version)
    _add(metadata.attr, trace.attributes)
    yield _framed(metadata)
    made = message_class("Node")
    for node in trace.nodes:
        try:
            message = made(
                id=node.id,
                name=node.name,
                type=NODE_TYPES.index(node.type),
                duration_micros=node.duration_us,
                ctrl_deps=node.ctrl_deps,
                data_deps=node.data_deps,
            )
        except (TypeError, ValueError) as error:
            raise InputError(f"node {node.id}: cannot be written ({str(error)[:80]})") from None
        _add(message.attr, node.attributes)
        yield _framed(message)


def _messages(data: bytes, name: str) -> Iterator[bytes]:
    """The bytes of each message."""
    at = 0
    while at < len(data):
        length = shift = 0
        for i in range(_LENGTH_BYTES + 1):
            if at + i >= len(data) or i == _LENGTH_BYTES:
                raise InputError(f"{name}: no length of a message at byte {at}; the file is cut, or is not a trace")
            length |= (data[at + i] & 0x7F) << shift
            shift += 7
            if data[at + i] < 0x80:
                break
        start, at = at, at + i + 1
        check(length, MAX_MESSAGE, f"{name}: the size of the message at byte {start}", "it is not a trace of ours")
        if at + length > len(data):
            raise InputError(f"{name}: the message at byte {start} ends after the file; the file is cut")
        yield data[at : at + length]
        at += length


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.package = protobuf()

    def parse(self, kind: str, data: bytes) -> Any:
        message = message_class(kind)()
        try:
            message.ParseFromString(data)
        except (self.package.message.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            raise InputError(f"{self.name}: a message is not a {kind} of Chakra's schema") from None
        self.known(message, kind)
        return message

    def known(self, message: Any, kind: str) -> None:
        if len(self.package.unknown_fields.UnknownFieldSet(message)):
            raise InputError(f"{self.name}: a {kind} has fields that Chakra's schema does not have")

    def attributes(self, found: Any, where: str) -> dict[str, Value]:
        check(len(found), MAX_ATTRIBUTES, f"{self.name}: the number of attributes of {where}", "it is not a trace")
        values: dict[str, Value] = {}
        for attribute in found:
            self.known(attribute, "AttributeProto")
            kind = attribute.WhichOneof("value")
            if kind is None or not attribute.name or attribute.name in values:
                raise InputError(f"{self.name}: {where} has an attribute without a value, without a name, or twice")
            value = getattr(attribute, kind)
            if kind.endswith("_list"):
                self.known(value, kind)
                value = tuple(value.values)
            wanted = ATTRIBUTES.get(attribute.name, "double" if attribute.name == SECONDS else None)
            if wanted and not _fits(value, wanted):
                raise InputError(f"{self.name}: {attribute.name!r} of {where} is a {kind}, where a {wanted} should be")
            values[attribute.name] = value
        return values

    def node(self, data: bytes) -> Node:
        message = self.parse("Node", data)
        where = f"node {message.id}"
        for info in ("inputs", "outputs"):
            if message.HasField(info):
                self.known(getattr(message, info), "IOInfo")
        if not 0 < message.type < len(NODE_TYPES):
            raise InputError(f"{self.name}: {where} is of type {message.type}, which is none of a trace")
        for deps in (message.data_deps, message.ctrl_deps):
            check(len(deps), MAX_DEPS, f"{self.name}: the number of dependencies of {where}", "it is not a trace")
        return Node(
            message.id,
            message.name,
            NODE_TYPES[message.type],
            message.duration_micros,
            tuple(message.data_deps),
            tuple(message.ctrl_deps),
            self.attributes(message.attr, where),
        )


def _fits(value: Value, scalar: str) -> bool:
    """Whether ASTRA-sim's feeder takes the value for that type: any integer for an integer, never text for a number."""
    if scalar == "string":
        return isinstance(value, str)
    if scalar == "double":
        return isinstance(value, float) and 0 <= value < float("inf")
    return isinstance(value, int) and value >= 0


def decode(data: bytes, name: str = "trace") -> Trace:
    """The trace that bytes hold.

    Raises
    ------
    InputError
        Naming what is wrong, for bytes that are no trace: cut, with fields or types that the schema does not have, with a node
        twice, with a dependency on none, or too large. Whether nodes wait for each other in a circle is found when they run.
    """
    check(len(data), MAX_BYTES, f"{name}: its size in bytes", "it is not a trace of ours")
    reader = _Reader(name)
    messages = _messages(data, name)
    try:
        metadata = reader.parse("GlobalMetadata", next(messages))
    except StopIteration:
        raise InputError(f"{name}: empty; a trace begins with its metadata") from None
    nodes: list[Node] = []
    for message in messages:
        check(len(nodes), MAX_NODES, f"{name}: the number of nodes", "it is too long to replay")
        nodes.append(reader.node(message))
    ids = {node.id for node in nodes}
    if len(ids) != len(nodes):
        raise InputError(f"{name}: two nodes have one id")
    for node in nodes:
        missing = next((d for d in node.after if d not in ids), None)
        if missing is not None:
            raise InputError(f"{name}: node {node.id} waits for {missing}, which is not there")
    return Trace(tuple(nodes), reader.attributes(metadata.attr, "the metadata"), metadata.version)
