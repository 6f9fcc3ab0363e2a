"""The messages of an MLCommons Chakra execution trace, described in our own table and compiled by protobuf at run time.

Names, numbers and types are facts of the public schema (Chakra, Apache-2.0 licence, mlcommons/chakra at 21585d8; astra-sim/chakra at
f37c2bb has the same): a reader of one reads the other. No line of it is copied, and no compiler of schemas is needed. Only this module
and ``encoding`` use protobuf (extra ``hlo``).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from mlsysim.errors import InputError

PACKAGE = "ChakraProtoMsg"
VERSION = "0.0.4"  # that ASTRA-sim's own examples carry

# A value of an attribute is one of these, or a list of them: number 3 is a double, 4 a list of doubles, and so on in turn.
_NUMBERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64")
SCALARS = ("double", "float", *_NUMBERS, "bool", "string", "bytes")
_FIRST_VALUE = 3

NODE_TYPES = (
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
)
COLLECTIVES = (
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
)
# What ASTRA-sim reads of a node, with the types that both of its feeders accept
ATTRIBUTES = {
    "is_cpu_op": "bool",
    "num_ops": "int64",
    "tensor_size": "uint64",
    "comm_type": "int64",
    "comm_size": "int64",
    "comm_src": "int32",
    "comm_dst": "int32",
    "comm_tag": "int32",
    "pg_name": "string",
}
SECONDS = "mlsysim_seconds"  # our own: the time before it is cut to whole microseconds. Their feeder passes over it


@dataclass(frozen=True)
class Field:
    """One field: its number on the wire, and a scalar type, a message or an enumeration."""

    name: str
    number: int
    type: str
    repeated: bool = False


def _list_name(scalar: str) -> str:
    return f"{scalar.capitalize()}List"


def _values() -> tuple[Field, ...]:
    fields = []
    for i, scalar in enumerate(SCALARS):
        fields.append(Field(f"{scalar}_val", _FIRST_VALUE + 2 * i, scalar))
        fields.append(Field(f"{scalar}_list", _FIRST_VALUE + 2 * i + 1, _list_name(scalar)))
    return tuple(fields)


VALUES = _values()  # of an attribute; one of them is set
MESSAGES: dict[str, tuple[Field, ...]] = {
    "AttributeProto": (Field("name", 1, "string"), Field("doc_string", 2, "string"), *VALUES),
    **{_list_name(s): (Field("values", 1, s, repeated=True),) for s in SCALARS},
    "GlobalMetadata": (Field("version", 1, "string"), Field("attr", 2, "AttributeProto", repeated=True)),
    "IOInfo": (Field("values", 1, "string"), Field("shapes", 2, "string"), Field("types", 3, "string")),
    "Node": (
        Field("id", 1, "uint64"),
        Field("name", 2, "string"),
        Field("type", 3, "NodeType"),
        Field("ctrl_deps", 4, "uint64", repeated=True),
        Field("data_deps", 5, "uint64", repeated=True),
        Field("start_time_micros", 6, "uint64"),
        Field("duration_micros", 7, "uint64"),
        Field("inputs", 8, "IOInfo"),
        Field("outputs", 9, "IOInfo"),
        Field("attr", 10, "AttributeProto", repeated=True),
    ),
}
ENUMS = {"NodeType": NODE_TYPES, "CollectiveCommType": COLLECTIVES}


def protobuf() -> Any:
    """The package google.protobuf, or an error that says how to get it."""
    try:
        import google.protobuf
        import google.protobuf.descriptor_pb2
        import google.protobuf.descriptor_pool
        import google.protobuf.message
        import google.protobuf.message_factory
        import google.protobuf.unknown_fields
    except ImportError:
        raise InputError(
            "Chakra traces are written and read with protobuf: install the extra 'hlo' (mlsysim-book[hlo])"
        ) from None
    return google.protobuf


@cache
def message_class(name: str) -> Any:
    """The class of a message of ``MESSAGES``, made from the table above."""
    return protobuf().message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def _pool() -> Any:
    package = protobuf()
    kind = package.descriptor_pb2.FieldDescriptorProto
    file = package.descriptor_pb2.FileDescriptorProto(name="mlsysim/chakra.proto", package=PACKAGE, syntax="proto3")
    for name, names in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(names):
            enum.value.add(name=value, number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for field in fields:
            made = message.field.add(name=field.name, number=field.number)
            made.label = kind.LABEL_REPEATED if field.repeated else kind.LABEL_OPTIONAL
            if field.type in SCALARS:
                made.type = getattr(kind, f"TYPE_{field.type.upper()}")
            else:
                made.type = kind.TYPE_ENUM if field.type in ENUMS else kind.TYPE_MESSAGE
                made.type_name = f".{PACKAGE}.{field.type}"
            if field in VALUES:
                made.oneof_index = 0
    pool = package.descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
