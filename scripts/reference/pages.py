"""One page of the book per room: every public name with its signature, meaning, equation, units, example and source."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import griffe

from mlsysim.errors import UnknownNameError
from reference import surface, words
from reference.surface import Name

FOLDER = "book/reference"
_LONGEST = 160  # characters of a value
_INHERITED = {
    "Result",
    "Shown",
    "Timed",
    "Report",
    "Explanation",
}  # classes of results, whose methods stand once


class Pages:
    """The pages, given what the book knows: LaTeX by label, and keys of the bibliography."""

    def __init__(self, latex: Mapping[str, str], keys: set[str]) -> None:
        surface.load_all()
        self.latex, self.keys = latex, keys

    def files(self) -> dict[str, str]:
        """Text by path."""
        found = {f"{FOLDER}/{room}.qmd": self.page(room) for room in surface.rooms()}
        return found | {f"{FOLDER}/index.qmd": self.index()}

    def index(self) -> str:
        """The first page: how to read the others, the rooms, and what the first level has."""
        rows = []
        for room in surface.rooms():
            here = [n for m in surface.modules(room) for n in surface.names(m)]
            equations = sum(n.equation is not None for n in here)
            said = words.prose(self._purpose(room), self._link("", None))
            rows.append(f"| [`mlsysim.{room}`]({room}.qmd) | {words.cell(said)} | {len(here)} | {equations or '–'} |\n")
        head = "| Room | What it is for | Names | Equations |\n|:---|:---------|--:|--:|\n"
        return (
            "# Reference {#sec-reference}\n\n"
            "Every public name of the library, made from its docstring and its signature. Numbers are floats or arrays in SI "
            "units unless a parameter says otherwise, every argument is checked against its range, and a refusal is an "
            "`InputError` that names the argument, the value, the range and the fix. The examples are run as tests of the "
            "library, so that what you read here is what they print. A function that is an equation of the book links to the "
            "place that derives it, and @sec-equations links back. @sec-command-line has the same for the shell.\n\n"
            f"{head}{''.join(rows)}\n: The rooms of the library, with the number of their public names and of their equations. "
            "{#tbl-reference-rooms}\n\n## The first level\n\n"
            + "".join(self._entry(name, 3) for name in surface.names(""))
        )

    def page(self, room: str) -> str:
        """All names of a room and of the packages below it."""
        parts = [f"# mlsysim.{room} {{#sec-reference-{room.replace('_', '-')} .unnumbered}}\n\n"]
        for module in surface.modules(room):
            if module != room:
                parts.append(f"## mlsysim.{module} {{#{module} .unnumbered}}\n\n")
            parts.append(self._about(module))
            names = surface.names(module)
            for kind, title in (("class", "Classes"), ("function", "Functions"), ("value", "Values")):
                here = [n for n in names if n.kind == kind]
                if here:
                    below = "##" if module == room else "###"
                    parts.append(f"{below} {title} {{#{module}--{title.lower()} .unnumbered}}\n\n")
                    parts += [self._entry(n, len(below) + 1) for n in here]
        return "".join(parts)

    def _purpose(self, module: str) -> str:
        text = inspect.getdoc(importlib.import_module(f"mlsysim.{module}")) or ""
        return " ".join(text.split("\n\n")[0].split())

    def _about(self, module: str) -> str:
        text = inspect.getdoc(importlib.import_module(f"mlsysim.{module}")) or ""
        link = self._link(module.partition(".")[0], None)
        return "".join(f"{self._block(block, link)}\n\n" for block in re.split(r"\n\s*\n", text) if block.strip())

    def _block(self, block: str, link: words.Link) -> str:
        """A paragraph; an example or a list of a docstring stays as it stands."""
        if block.lstrip().startswith((">>>", "    ")) or re.match(r"^(\s{2,}|- )", block):
            return f"```python\n{block}\n```" if ">>>" in block else f"```text\n{block}\n```"
        return words.prose(" ".join(block.split()), link)

    def _link(self, page: str, near: Name | None) -> words.Link:
        def link(text: str) -> str:
            if text in self.latex:
                return f"@{text}"
            found = surface.find(text, near)
            if found is None or (near is not None and found.dotted == near.dotted):
                return words.code(text)
            where = f"#{found.dotted}" if found.page == page else f"{address(found)}"
            return f"[{words.code(text)}]({where})"

        return link

    # One name

    def _entry(self, name: Name, level: int) -> str:
        link = self._link(name.page if name.module else "index", name)
        head = f"{'#' * level} {words.escaped(name.name)} {{#{name.dotted} .unnumbered}}\n\n"
        other = surface.of(name.value) if name.kind != "value" else None
        if other and other.dotted != name.dotted:
            return f"{head}The same as {link(other.dotted)}.\n\n"
        if name.kind == "value":
            return head + self._value(name, link)
        parts = [head]
        if not isinstance(name.value, type) or inspect.getattr_static(
            name.value, "__init__"
        ) is not inspect.getattr_static(object, "__init__"):
            parts.append(f"```python\n{self._signature(name)}\n```\n\n")
        parts += self._documented(name, inspect.getdoc(name.value) or "", link)
        if isinstance(name.value, type):
            parts += self._class(name, link)
        return "".join(parts)

    def _documented(self, name: Name, docstring: str, link: words.Link) -> Iterator[str]:
        if re.match(rf"^{re.escape(name.name)}\(", docstring):  # what a dataclass writes where nobody wrote anything
            docstring = ""
        said = words.read(docstring)
        if said.summary:
            yield f"{words.prose(said.summary, link)}\n\n"
        equation = name.equation
        if equation is not None:
            latex = self.latex.get(equation.label)
            if latex is None:
                raise KeyError(f"{equation.label}: no chapter defines it")
            yield f"$$\n{latex}\n$$\n\nDerived as @{equation.label}; in code `{equation.formula}`.\n\n"
        elif said.formula:
            yield f"Formula: {words.prose(' '.join(said.formula.split()), link)}\n\n"
        for block in said.text:
            yield f"{self._block(block, link)}\n\n"
        if said.parameters:
            yield self._parameters(name, said, link)
        if said.returns:
            told = "; ".join(
                ": ".join(filter(None, (words.code(kind), words.prose(text, link)))) for _, kind, text in said.returns
            )
            yield f"Returns {told.rstrip('.')}.\n\n"
        for kind, text in said.raises:
            yield f"Raises {words.code(kind)}: {words.prose(text, link)}\n\n"
        if said.assumptions:
            yield f"Assumptions: {words.prose(said.assumptions, link)}\n\n"
        if said.examples:
            shown = "\n\n".join(said.examples)
            yield f"```python\n{shown}\n```\n\n"
        if said.source:
            yield f"Source: {words.cited(said.source, link, self.keys)}\n\n"

    def _parameters(self, name: Name, said: words.Said, link: words.Link) -> str:
        defaults, out = self._defaults(name), []
        for which, kind, text in said.parameters:
            domain = name.equation.domains.get(which) if name.equation is not None else None
            facts = [words.code(kind.removesuffix(", optional")) if kind else ""]
            facts.append(f"in {words.code(domain.text)}" if domain else "")
            facts.append(f"default {words.code(defaults[which])}" if defaults.get(which) else "")
            out.append(words.term(words.code(which), facts, words.prose(text, link)))
        return "".join(out)

    def _defaults(self, name: Name) -> dict[str, str]:
        read = self._griffe(name)
        given = getattr(read, "parameters", None) or []
        return {p.name: str(p.default) for p in given if p.default is not None}

    def _griffe(self, name: Name) -> griffe.Object | None:
        return surface.read(name.value)

    def _signature(self, name: Name) -> str:
        """The call as one writes it, with defaults as the source has them; wrapped when long."""
        read = self._griffe(name)
        if isinstance(name.value, type) and not dataclasses.is_dataclass(name.value):
            read = (
                surface.read(inspect.getattr_static(name.value, "__init__")) if "__init__" in vars(name.value) else None
            )
        items = list(_arguments(read)) if read is not None and read.is_function else _runtime(name.value)
        called = name.dotted if name.module else f"mlsysim.{name.name}"
        line = f"{called}({', '.join(items)})"
        if len(line) <= 88:
            return line
        body = "".join(f"    {item},\n" for item in items)
        return f"{called}(\n{body})"

    # Classes and values

    def _class(self, name: Name, link: words.Link) -> Iterator[str]:
        value, read = name.value, self._griffe(name)
        if read is None:
            return
        inherited = [
            b for b in value.__mro__[1:] if b.__module__.startswith("mlsysim") and not b.__name__.startswith("_")
        ]
        bases = [found for b in inherited if (found := surface.of(b))]
        if bases:
            told = ", ".join(f"[`{b.name}`]({'#' + b.dotted if b.page == name.page else address(b)})" for b in bases)
            yield f"Is a {told}, whose methods it has.\n\n"
        bare = [b for b in inherited if not surface.of(b) and b.__module__ not in ("mlsysim.results",)]
        rows, seen = [], set()
        for whole in (read, *filter(None, map(surface.read, bare))):  # bases without a page stand here
            path = Path(str(whole.filepath))
            for member in whole.members.values():
                if member.name.startswith("_") or member.is_alias or member.name in seen:
                    continue
                seen.add(member.name)
                rows.append(self._member(path, member, link))
        for called, kind, text in rows:
            yield words.term(called, [kind], text)

    def _member(self, path: Path, member: Any, link: words.Link) -> tuple[str, str, str]:
        text = ""
        if member.docstring:
            text = words.read(inspect.cleandoc(member.docstring.value)).summary
        if member.is_function:
            call = f"{member.name}({', '.join(a for a in _arguments(member) if a not in ('self', 'cls'))})"
            return (
                words.code(call),
                words.code(str(member.returns or "")) if member.returns else "",
                words.prose(text, link),
            )
        kind = str(member.annotation or "")
        if not text and member.lineno:
            text = (
                surface.comment(path, member.lineno, member.endlineno or member.lineno)
                if "property" not in member.labels
                else ""
            )
        return words.code(member.name), words.code(kind) if kind else "", words.prose(text, link)

    def _value(self, name: Name, link: words.Link) -> str:
        home, text = surface.assigned(name)
        value = name.value
        if name.page == "units" and isinstance(value, float):
            text = f"1 ``{name.name}`` in SI units{'; ' + text if text else ''}"
        if not text:
            raise UnknownNameError(f"{name.dotted}: no comment says what this value is; write one behind it in {home}")
        shown = _short(value)
        return f"{words.prose(text[0].upper() + text[1:], link).rstrip('.')}.\n\n```python\n{shown}\n```\n\n"


def _short(value: Any) -> str:
    """A value as Python writes it, cut; of a mapping its keys."""
    if isinstance(value, (dict, MappingProxyType)) and len(repr(dict(value))) > _LONGEST:
        keys = ", ".join(repr(k) for k in sorted(value, key=str))
        text = f"{len(value)} entries: {keys}"
    elif isinstance(value, (set, frozenset)):  # whose order changes from run to run
        text = "{" + ", ".join(sorted(map(repr, value))) + "}"
    else:
        text = repr(dict(value)) if isinstance(value, MappingProxyType) else repr(value)
    if " at 0x" in text:
        text = f"a {type(value).__name__.strip('_')}"
    return text if len(text) <= 4 * _LONGEST else text[: 4 * _LONGEST] + "…"


def _arguments(function: Any) -> Iterator[str]:
    star = False
    for p in function.parameters:
        kind = p.kind.value if p.kind else ""
        if kind == "keyword-only" and not star:
            star = True
            yield "*"
        if kind == "variadic positional":
            star = True
            yield f"*{p.name}"
        elif kind == "variadic keyword":
            yield f"**{p.name}"
        elif p.name not in ("self", "cls"):
            yield f"{p.name}={p.default}" if p.default is not None else p.name


def _runtime(value: Any) -> list[str]:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ["..."]
    items = []
    for p in signature.parameters.values():
        text = p.name
        if p.default is not p.empty:
            shown = repr(p.default)
            text += f"={'...' if len(shown) > 60 or ' at 0x' in shown or '<' in shown else shown}"
        if p.kind is p.VAR_POSITIONAL:
            text = f"*{text}"
        items.append(f"**{p.name}" if p.kind is p.VAR_KEYWORD else text)
    return items


def address(name: Name) -> str:
    """A link to a name, from another page of the reference."""
    return f"{name.page if name.module else 'index'}.qmd#{name.dotted}"
