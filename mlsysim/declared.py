"""One declaration per parameter: what a public function's signature and docstring say, read once for everything that needs it.

Options of the command line, fields of a form, axes of a sweep, descriptions in JSON schemas and the values that a fuzzer tries are
all made from it. An entry of a docstring is ``name, name : type[, unit][, range][, one of NAME][, optional]`` with its text below.
``NAME`` is a tuple or mapping of words that the function's module knows; a whole number is at least 1 unless a range says otherwise.
The first sentence of the text is the help. ``As in :func:`other``` takes everything but the default from there.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from mlsysim import units

_HEADING = re.compile(r"^(?:Parameters|Attributes)\n-+\n", re.M)
_END = re.compile(r"^(?:\w[^\n]*\n-{3,}\n|(?:Assumptions|Source|Formula):|>>>)", re.M)
_ENTRY = re.compile(r"^([\w*]+(?:, [\w*]+)*) : ?(.*)\n((?:(?:    .*)?\n)*)", re.M)
_RANGE = re.compile(r"[\[(][\w.+-]+, [\w.+-]+[\])]")
_ELSEWHERE = re.compile(r"As (?:in|for|of) :(?:func|class):`~?(?:mlsysim\.)?([\w.]+)`")
_SENTENCE = re.compile(r"\.(?=\s+[A-Z0-9`\"])")


class Parameter(NamedTuple):
    """What one parameter is."""

    name: str
    kind: str  # flag, whole, number or text; wholes, numbers or texts where it takes several
    unit: str  # of a number
    range: str  # an interval; empty: any number
    choices: tuple[str, ...]
    default: Any  # None also where it must be given
    required: bool
    text: str  # all that the docstring says, in plain words

    @property
    def help(self) -> str:
        """The first sentence, as a line of help begins."""
        line = _SENTENCE.split(self.text, maxsplit=1)[0].removesuffix(".")
        return line[:1].lower() + line[1:] if line[1:2].islower() or line[1:2] == " " else line

    @property
    def label(self) -> str:
        """What a form calls it: the help up to its first aside."""
        line = re.split(r"[:;,]? \(|[:;,] ", self.help, maxsplit=1)[0]
        return line[:1].upper() + line[1:]

    @property
    def values(self) -> tuple[str, ...]:
        """Some values that it may have, as text: its words, those that the text quotes, the default, the ends of its range."""
        quoted = tuple(re.findall(r'"([^"]+)"', self.text))
        ends = tuple(end for end in re.findall(r"[^\[\](), ]+", self.range) if end != "inf")
        default = () if self.default in (None, "") or isinstance(self.default, (bool, tuple)) else (str(self.default),)
        return (*self.choices, *quoted, *default, *ends)


@cache
def parameters(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    """The parameters of a function, or the fields of a class, by name.

    Parameters
    ----------
    function : callable
        A public function or class whose docstring lists its parameters.

    Returns
    -------
    mapping of str to Parameter
        In the order of the signature. What the docstring does not name is left out.

    >>> from mlsysim.roofline import kernel_time
    >>> p = parameters(kernel_time)["launch_overhead"]
    >>> p.kind, p.unit, p.default
    ('number', 's', 0.0)
    """
    plain = inspect.unwrap(function)
    said = dict(_entries(inspect.getdoc(plain) or ""))
    return MappingProxyType(
        {
            name: _parameter(plain, declared, *said[name])
            for name, declared in inspect.signature(plain).parameters.items()
            if name in said and declared.kind is not declared.VAR_KEYWORD
        }
    )


def in_si(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as a function takes them: text of a number with a declared unit, such as ``"400 Gbit/s"``, becomes that number in SI units.

    >>> from mlsysim.roofline import kernel_time
    >>> in_si(kernel_time, {"launch_overhead": "10 us", "kernels": 2})
    {'launch_overhead': 1e-05, 'kernels': 2}
    """
    if not any(isinstance(value, str) for value in given.values()):
        return dict(given)
    known = parameters(function)
    return {
        name: units.parse(value, known[name].unit, f"{function.__name__}: {name}")
        if isinstance(value, str) and name in known and known[name].kind == "number" and known[name].unit != "1"
        else value
        for name, value in given.items()
    }


def _entries(doc: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name, type and text of each entry."""
    head = _HEADING.search(doc)
    if head is None:
        return
    end = _END.search(doc, head.end())
    for names, kind, text in _ENTRY.findall(doc[head.end() : end.start() if end else None] + "\n"):
        yield from ((name, (kind, text)) for name in names.split(", "))


def _parameter(function: Callable[..., Any], declared: inspect.Parameter, kind: str, text: str) -> Parameter:
    required = declared.default is declared.empty
    default = None if required else declared.default
    if elsewhere := _ELSEWHERE.match(text.strip()):
        other = parameters(_found(elsewhere[1])).get(declared.name)
        if other is not None:
            return other._replace(default=default, required=required)
    span = _RANGE.search(kind)
    first, *facts = [word.strip() for word in _RANGE.sub("", kind).split(",")]
    choices = next((_words(function, fact.removeprefix("one of ")) for fact in facts if fact.startswith("one of ")), ())
    unit = next((fact for fact in facts if fact not in ("", "optional") and not fact.startswith("one of ")), "1")
    sorts = {"bool": "flag", "int": "whole", "float": "number"}
    many = re.match(r"(?:tuple|sequence) of (\w+)", first)
    sort = f"{sorts.get(many[1], 'text')}s" if many else sorts.get(first.partition(" ")[0], "text")
    within = span[0] if span else "[1, inf)" if sort == "whole" else ""
    return Parameter(declared.name, sort, unit, within, choices, default, required, _plain(text))


def _plain(text: str) -> str:
    """A docstring's text without its marks, in one line."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"\1", text)
    return " ".join(text.replace("`", "").split())


def _words(function: Callable[..., Any], name: str) -> tuple[str, ...]:
    """The words of a tuple or mapping: of the function's own module, or by its place below ``mlsysim``."""
    return tuple(_found(name) if "." in name else vars(sys.modules[function.__module__])[name])


def _found(dotted: str) -> Any:
    """What stands at a place below ``mlsysim``."""
    module, _, name = f"mlsysim.{dotted}".rpartition(".")
    return getattr(import_module(module), name)
