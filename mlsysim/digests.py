"""Content digests: the keys of stores and caches, so that different questions never share an entry.

A name covers everything that decides a result: the values of all arguments down to the last array element, the code of
every function, and this package's own sources. Nothing is pickled, and no object is asked how it wants to be shown.
"""

import enum
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from logging import Logger
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import mlsysim
from mlsysim.errors import InputError

_BY_REPR = {("decimal", "Decimal"), ("fractions", "Fraction"), ("datetime", "date"), ("datetime", "datetime")} | {
    ("datetime", "timedelta"), ("builtins", "range"), ("builtins", "slice"), ("re", "Pattern"), ("uuid", "UUID")
}  # fmt: skip
_HEAP = 1 << 9  # of a type's flags: made by a class statement


@cache
def build() -> str:
    """Version of this package and a digest of its sources and its data, so that an edited model never finds an old result."""
    found = sha256()

    def add(folder: Any) -> None:
        for entry in sorted(folder.iterdir(), key=lambda e: str(e.name)):
            if entry.is_dir():
                add(entry)
            elif entry.name.endswith((".py", ".toml")):
                found.update(entry.read_bytes())

    add(files("mlsysim"))
    return f"{mlsysim.__version__} {found.hexdigest()[:16]}"


def content(*values: Any) -> str:
    """SHA-256 of values: equal for equal content, in this process and in another one.

    Parameters
    ----------
    *values
        Numbers, texts, arrays, lists, mappings, dataclasses, objects of classes written in Python, and functions: these
        by their code, their defaults, what they enclose, and the functions and values of their module that they name.

    Raises
    ------
    InputError
        For an object whose content cannot be seen from Python, such as an open file.

    >>> content([1, 2.0, "a"]) == content([1, 2.0, "a"]) != content([1, 2.5, "a"])
    True
    >>> content(lambda x: x + 1) == content(lambda x: x + 2)
    False
    """
    writer = _Writer()
    for value in values:
        writer.add(value)
    return writer.digest.hexdigest()


class _Writer:
    """Serialises values unambiguously: every part is preceded by its kind and length."""

    def __init__(self) -> None:
        self.digest = sha256(sys.version.encode())  # bytecode belongs to one version of Python
        self.begun: dict[int, int] = {}  # objects around the one being written, by id: how deep they lie
        self.done: dict[int, tuple[bytes, Any]] = {}  # their digests, and they themselves, so that no id is used twice

    def put(self, kind: str, data: bytes = b"") -> None:
        self.digest.update(f"{kind}:{len(data)}:".encode())
        self.digest.update(data)

    def each(self, kind: str, values: Iterable[Any]) -> None:
        values = list(values)
        self.put(kind, str(len(values)).encode())
        for value in values:
            self.add(value)

    def add(self, value: Any) -> None:
        kind, key = type(value), id(value)
        if value is None or value is Ellipsis or kind in (bool, int, float, complex, str):
            self.put(kind.__name__, (hex(value) if kind is int else repr(value)).encode())
        elif key in self.begun:  # it holds itself
            self.put("around", str(self.begun[key]).encode())
        else:
            if key not in self.done:
                outer, self.digest = self.digest, sha256()
                self.begun[key] = len(self.begun)
                self._whole(value, kind, f"{kind.__module__}.{kind.__qualname__}")
                del self.begun[key]
                self.done[key] = self.digest.digest(), value
                self.digest = outer
            self.put("value", self.done[key][0])

    def _whole(self, value: Any, kind: type, name: str) -> None:
        if isinstance(value, (bytes, bytearray)):
            self.put(name, bytes(value))
        elif hasattr(value, "dtype") and hasattr(value, "tobytes") and hasattr(value, "shape"):
            self.put("array", f"{name} {value.dtype} {value.shape}".encode())
            if value.dtype.hasobject:
                self.each("objects", value.ravel().tolist())
            else:
                self.put("", value.tobytes())
        elif isinstance(value, enum.Enum):
            self.put("enum", f"{name}.{value.name}".encode())
        elif isinstance(value, (list, tuple)):
            self.each(name, value)
        elif isinstance(value, Mapping):
            self.each(name, [part for pair in value.items() for part in pair])
        elif isinstance(value, (set, frozenset)):
            self.each(name, sorted(content(v) for v in value))
        elif isinstance(value, PurePath):
            self.put("path", str(value).encode())
        elif isinstance(value, Logger):
            self.put("logger", value.name.encode())
        elif (kind.__module__, kind.__qualname__) in _BY_REPR or kind.__module__ == "numpy.dtypes":
            self.put(name, repr(value).encode())
        elif self._is_code(value):
            self._made_of_code(value)
        else:
            self._object(name, value)

    @staticmethod
    def _is_code(value: Any) -> bool:
        kinds = (FunctionType, MethodType, BuiltinFunctionType, CodeType, ModuleType, type, partial, property)
        return isinstance(value, (*kinds, staticmethod, classmethod)) or type(value).__module__ == "numpy"

    def _made_of_code(self, value: Any) -> None:
        if isinstance(value, partial):
            self.each("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, MethodType):
            self.each("method", (value.__func__, value.__self__))
        elif isinstance(value, (staticmethod, classmethod)):
            self.each(type(value).__name__, [value.__func__])
        elif isinstance(value, property):
            self.each("property", (value.fget, value.fset))
        elif isinstance(value, CodeType):
            self._code(value)
        else:
            self._named(value)

    def _named(self, value: Any) -> None:
        """A module, a class or a function: installed code by its version, the user's own by what it says."""
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
        self.put("name", f"{module}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}".encode())
        origin = _origin(module)
        if origin is not None:
            self.put("version", origin.encode())
            if "<" not in getattr(value, "__qualname__", ""):
                return  # its name says which it is; lambdas and functions made inside others share theirs
        if isinstance(value, ModuleType):
            source = getattr(value, "__file__", None)
            self.put("source", Path(source).read_bytes() if source else b"")
        elif isinstance(value, type):
            self.each("class", (value.__bases__, {k: v for k, v in vars(value).items() if _is_member(k, v)}))
        elif isinstance(value, FunctionType):
            self._function(value)
        else:
            raise _unseen(value)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        self._code(code)
        self.each("defaults", (function.__defaults__, function.__kwdefaults__))
        self.each("enclosed", [_held(cell) for cell in function.__closure__ or ()])
        known = function.__globals__
        self.each("globals", [(name, known[name]) for name in sorted(_names(code)) if name in known])

    def _code(self, code: CodeType) -> None:
        self.put("code", code.co_code)
        self.each("names", (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags))
        self.each("constants", code.co_consts)

    def _object(self, name: str, value: Any) -> None:
        self.put("object", name.encode())
        self.add(type(value))
        slots = [s for c in type(value).__mro__ for s in _slots(c) if hasattr(value, s)]
        if is_dataclass(value):
            self.each("fields", [(f.name, getattr(value, f.name, None)) for f in fields(value)])
        elif (hasattr(value, "__dict__") or slots) and type(value).__flags__ & _HEAP:
            held = {**getattr(value, "__dict__", {}), **{s: getattr(value, s) for s in slots}}
            self.each("state", sorted(held.items()))
        else:
            raise _unseen(value)


def _unseen(value: Any) -> InputError:
    return InputError(
        f"a {type(value).__qualname__} has no content that can be told from another's; give numbers, arrays, texts, lists, "
        "mappings, dataclasses or functions"
    )


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return tuple(s for s in ((slots,) if isinstance(slots, str) else slots) if s not in ("__dict__", "__weakref__"))


def _is_member(name: str, value: Any) -> bool:
    """Whether an attribute of a class decides what its methods compute."""
    if name in ("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__"):
        return False
    return not type(value).__name__.endswith("_descriptor")


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty still
        return None


def _names(code: CodeType) -> set[str]:
    """What a function may read from its module, inner functions included."""
    inner = [_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*inner)


@cache
def _origin(module: str) -> str | None:
    """The version of installed code; None for code of the user's own, which is read instead."""
    top = module.partition(".")[0]
    if top == "mlsysim":
        return build()
    if not top or top == "__main__":
        return None
    if top in sys.stdlib_module_names:
        return sys.version
    from importlib.metadata import packages_distributions, version

    found = packages_distributions().get(top)
    place = getattr(sys.modules.get(module), "__file__", None) or ""
    if not found or ("site-packages" not in place and "dist-packages" not in place):
        return None  # in a folder of the user's, or installed from there to be edited
    return f"{found[0]} {version(found[0])}"
