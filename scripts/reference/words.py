"""From a docstring to Markdown: sections by griffe, code and names as the book writes them, nothing that Markdown would read."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import griffe

_SECTION = re.compile(r"^[A-Z][A-Za-z ]+\n-{3,}$", re.M)
_HEAD = re.compile(r"(Formula|Assumptions|Source): (.*)", re.S)
_CODE = re.compile(r"``(.+?)``|:\w+:`~?(.+?)`|`([^`]+)`|(?<![\w-])(eq-[a-z0-9]+(?:-[a-z0-9]+)*)", re.S)
_MARKS = re.compile(r"([\\*_$<>\[\]@#~^|{}`])")
_CITED = re.compile(r"^([a-z]+\d{4}\w*)(?:, ([^;]+?))?\.?(?:;\s*(.*))?$", re.S)
Link = Callable[[str], str]  # from a name in code, or the label of an equation, to Markdown


@dataclass
class Said:
    """What a docstring says, by kind."""

    summary: str = ""
    text: list[str] = field(default_factory=list)  # further paragraphs
    formula: str = ""
    assumptions: str = ""
    examples: list[str] = field(default_factory=list)
    source: str = ""
    parameters: list[tuple[str, str, str]] = field(default_factory=list)  # name, type and unit, meaning
    returns: list[tuple[str, str, str]] = field(default_factory=list)
    raises: list[tuple[str, str]] = field(default_factory=list)


def read(docstring: str) -> Said:
    """The parts of a docstring of this house: numpydoc's sections, and paragraphs that begin with a word and a colon."""
    said, sections, inside = Said(), [], False
    for i, block in enumerate(re.split(r"\n\s*\n", docstring.strip("\n"))):
        named = _HEAD.fullmatch(block)
        if _SECTION.match(block):
            sections.append(block)
            inside = True
        elif block.startswith(">>>"):
            said.examples.append(block)
            inside = False
        elif inside and (block.startswith(" ") or re.match(r"\w[\w, *]* : ", block)):
            sections.append(block)
        elif named:
            setattr(said, named[1].lower(), " ".join(named[2].split()) if named[1] != "Formula" else named[2])
            inside = False
        elif i == 0:
            said.summary = " ".join(block.split())
        else:
            said.text.append(block)
            inside = False
    for section in griffe.Docstring("\n\n".join(sections), parser="numpy").parse(warnings=False):
        if (
            section.kind in (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.other_parameters)
            or section.kind is griffe.DocstringSectionKind.attributes
        ):
            said.parameters += [(p.name, _flat(p.annotation), _flat(p.description)) for p in section.value]
        elif section.kind is griffe.DocstringSectionKind.returns:
            said.returns += [(r.name, _flat(r.annotation), _flat(r.description)) for r in section.value]
        elif section.kind is griffe.DocstringSectionKind.raises:
            said.raises += [(_flat(r.annotation), _flat(r.description)) for r in section.value]
        elif section.kind is griffe.DocstringSectionKind.examples:
            said.examples += [text for _, text in section.value]
        elif section.value:
            raise ValueError(f"a section that the reference does not know: {section.kind.value} {section.value!r:.80}")
    return said


def _flat(text: object) -> str:
    return " ".join(str(text or "").split())


def escaped(text: str) -> str:
    """Plain text that stays plain in Markdown."""
    text = re.sub(r"(?<=\d) us\b", "\u00a0µs", text)
    return _MARKS.sub(r"\\\1", text).replace("--", "\\-\\-")


def prose(text: str, link: Link) -> str:
    """A paragraph of a docstring as Markdown: names in code become links where the reference has them."""
    out, at = [], 0
    for match in _CODE.finditer(text):
        out += [escaped(text[at : match.start()]), link(next(filter(None, match.groups())))]
        at = match.end()
    return "".join([*out, escaped(text[at:])])


def cell(text: str) -> str:
    """Markdown in a cell of a pipe table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def term(name: str, facts: list[str], meaning: str) -> str:
    """A name over what is known of it and what it means, as a definition: a table would leave no room for the meaning.

    >>> print(term("`bytes`", ["`float`", "", "default `0`"], "Size of the buffer."), end="")
    `bytes`
    :   `float`, default `0`: Size of the buffer.
    <BLANKLINE>
    """
    told = ", ".join(filter(None, facts))
    return f"{name}\n:   {': '.join(filter(None, (told, ' '.join(meaning.split())))) or '–'}\n\n"


def code(text: str) -> str:
    """Text in a code span, whatever ticks it has."""
    text = " ".join(text.split())
    ticks = "`" * (1 + max((len(t) for t in re.findall(r"`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def cited(source: str, link: Link, keys: set[str]) -> str:
    """``key, where; notes`` as a citation with its place, and the notes."""
    match = _CITED.match(source)
    if match is None or match[1] not in keys:
        return prose(source, link)
    where = (match[2] or "").replace("]", ")").replace("[", "(").replace(";", ",")
    notes = f"; {prose(match[3].rstrip('.'), link)}" if match[3] else ""
    return f"[@{match[1]}{', ' if where else ''}{where}]{notes}."
