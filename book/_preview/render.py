"""Over pandoc's syntax tree: number and label what can be referred to, then resolve references and write HTML."""

import json
import os.path
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypandoc

from . import memo
from .check_site import ELSEWHERE
from .config import Page, did_you_mean, inside
from .source import Build, Source

Node = dict[str, Any]
Where = tuple[str, int | None]

KINDS = {"fig": "Figure", "tbl": "Table", "eq": "Equation", "sec": "Section"}
CALLOUTS = {f"callout-{name.lower()}": name for name in ("Tip", "Note", "Warning", "Important", "Caution")}
# What Quarto numbers or lays out and no page of ours has: a page that begins to must be shown to read well here too.
UNKNOWN = re.compile(
    r"(?:lst|thm|lem|cor|prp|cnj|def|exm|exr|tip|nte|wrn|imp|cau)-|panel-tabset$|column-|aside$|margin-"
)
BRANCHES = (dict, list)  # below anything else of a tree is nothing
LEAVES = frozenset(("Str", "Space", "SoftBreak", "LineBreak"))  # most of a tree; nothing is below them
NUMBER_CELL = re.compile(r"<td((?: style=[^>]*)?)>([-+−]?\d[^<]{0,15})</td>")  # a number stays beside its unit
EMPTY_HEAD = re.compile(r"<th((?: style=[^>]*)?)>\s*</th>")  # a cell that heads nothing is no head
REFERENCE = re.compile(rf"({'|'.join(KINDS)})-", re.I)


@dataclass
class Label:
    """Something with a number that a reference can point to."""

    kind: str
    number: str
    url: str
    where: Where
    title: str = ""


@dataclass
class Chapter:
    """A page between parsing and writing."""

    page: Page
    source: Source
    blocks: list[Any]
    version: list[int]


def pandoc(build: Build, file: str, text: str, *arguments: str) -> str:
    """Run pandoc; every warning it prints becomes a problem of ``file``."""
    out, complaints = memo.remember(build.book.root, [pypandoc.get_pandoc_path(), *arguments], text)
    for warning in re.split(r"^(?=\[WARNING\]|Error)", complaints, flags=re.M):
        # Citation keys are checked with their line below, and unclosed divs with theirs in source.py.
        if warning.strip() and "Citeproc: citation" not in warning and "unclosed" not in warning:
            build.problems.add(file, None, f"pandoc: {' '.join(warning.split())}")
    return out


def parse(build: Build, source: Source) -> Chapter:
    """Markdown to pandoc's syntax tree."""
    text = pandoc(build, source.page.source, source.text, "-f", "markdown", "-t", "json")
    tree = json.loads(text or '{"blocks": []}')
    return Chapter(source.page, source, tree["blocks"], tree.get("pandoc-api-version", []))


def walk(node: Any, visit: Callable[[Node], list[Node] | None]) -> Any:
    """Replace each element but words and spaces by what ``visit`` returns (None: itself), then go on inside the replacement."""
    if type(node) is dict:
        return {key: walk(value, visit) if type(value) in BRANCHES else value for key, value in node.items()}
    if type(node) is not list:
        return node
    out: list[Any] = []
    for child in node:
        if type(child) is dict and (kind := child.get("t")) is not None:
            if kind in LEAVES:
                out.append(child)
            elif (new := visit(child)) is None:
                out.append(walk(child, visit))
            else:
                out += [walk(n, visit) for n in new]
        else:  # most are texts and numbers, and a call for each would be half of the time
            out.append(walk(child, visit) if type(child) in BRANCHES else child)
    return out


def plain(node: Any) -> str:
    """The text of inlines, for titles and labels; notes and references stand outside it."""
    if isinstance(node, list):
        return "".join(map(plain, node))
    if not isinstance(node, dict):
        return ""
    if node["t"] in ("Space", "SoftBreak", "LineBreak"):
        return " "
    if node["t"] in ("Str", "Code", "Math"):
        return node["c"] if node["t"] == "Str" else str(node["c"][-1])
    return "" if node["t"] in ("Note", "Cite") else plain(node.get("c", []))


def string(text: str) -> Node:
    return {"t": "Str", "c": text}


def raw(html: str) -> Node:
    return {"t": "RawBlock", "c": ["html", html]}


def span(classes: str, inlines: list[Node], id_: str = "") -> Node:
    return {"t": "Span", "c": [[id_, classes.split(), []], inlines]}


class Numbering:
    """First pass over a chapter: numbers for headings, equations and floats; callouts and floats become HTML."""

    def __init__(self, build: Build, chapter: Chapter, labels: dict[str, Label]) -> None:
        self.build, self.chapter, self.page, self.labels = build, chapter, chapter.page, labels
        self.counts: dict[str, int] = {}
        self.sections = [0] * 6
        self.depth = int(build.book.get("format.html.number-depth", 6))

    def run(self) -> None:
        self.chapter.blocks = walk(self.chapter.blocks, self.visit)
        if not self.page.title:
            self.build.problems.add(self.page.source, 1, "no `# Title` at the head of this page")

    def visit(self, node: Node) -> list[Node] | None:
        handler = getattr(self, node["t"].lower(), None)
        return handler(node["c"]) if handler else None

    def label(self, id_: str, number: str = "", title: str = "") -> str:
        """Give ``id_`` the next number of its kind, once in the whole book."""
        kind = id_.partition("-")[0]
        if not number:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            number = f"{self.page.number}.{self.counts[kind]}".lstrip(".")
        where = self.chapter.source.where(f"#{id_}")
        if id_ in self.labels:
            first = self.labels[id_].where
            self.build.problems.add(*where, f"duplicate label {id_}, first in {first[0]}:{first[1]}")
        self.labels[id_] = Label(KINDS[kind], number, f"{self.page.url}#{id_}", where, title)
        return number

    def caption(self, id_: str, inlines: list[Node]) -> list[Node]:
        number = self.label(id_)
        head = span("float-number", [string(f"{KINDS[id_.partition('-')[0]]}\u00a0{number}")])
        return [head, string(": "), *inlines] if inlines else [head]

    def header(self, c: Any) -> None:
        level, (id_, classes, _), inlines = c
        title = plain(inlines)
        if level == 1 and self.page.title:
            where = self.chapter.source.where(f"# {title}")
            self.build.problems.add(*where, f"second level-1 heading {title!r}: a page has one title")
        number = ""
        if self.page.number and "unnumbered" not in classes and level <= self.depth:
            self.sections[level - 1 :] = [self.sections[level - 1] + 1] + [0] * (6 - level)
            number = ".".join([self.page.number, *map(str, self.sections[1:level])])
            css = "header-section-number" if level > 1 else "chapter-number" + " appendix" * self.page.appendix
            c[2] = [span(css, [string(number)]), {"t": "Space"}, *inlines]
        if level == 1:
            self.page.title = self.page.title or title
        if id_.startswith("sec-"):
            self.label(id_, number or "-", title)
            if level == 1:
                self.labels[id_].kind = "Appendix" if self.page.appendix else "Chapter"

    def para(self, c: list[Any]) -> None:
        """Display equations with a label: ``Math, Space, {#eq-x}`` in pandoc's eyes."""
        for i in range(len(c) - 3, -1, -1):
            match = re.match(r"\{#(eq-[\w-]+)\}(.*)", c[i + 2]["c"]) if c[i + 2]["t"] == "Str" else None
            if match and c[i]["t"] == "Math" and c[i + 1]["t"] in ("Space", "SoftBreak"):
                rest = [string(match[2])] if match[2] else []
                c[i : i + 3] = [span("equation", [c[i]], match[1]), *rest]
        for node in c:
            if node["t"] == "Span" and node["c"][0][0].startswith("eq-"):
                node["c"][1].append(span("equation-number", [string(f"({self.label(node['c'][0][0])})")]))
        for i in range(len(c) - 2, -1, -1):  # browsers would break a line between a formula and its full stop
            if c[i]["t"] == "Math" and c[i]["c"][0]["t"] == "InlineMath" and c[i + 1]["t"] == "Str":
                c[i : i + 2] = [span("nowrap", [c[i], c[i + 1]])]

    plain = para

    def figure(self, c: Any) -> None:
        (id_, _, _), caption, _ = c
        if id_.startswith("fig-"):
            text = caption[1][0]["c"] if caption[1] else []
            caption[1] = [{"t": "Plain", "c": self.caption(id_, text)}]

        def describe(node: Node) -> None:
            if node["t"] == "Image" and not _alt(node["c"][0]):  # the caption is no alternative text
                node["c"][1] = []

        walk(c[2], describe)

    def image(self, c: Any) -> None:
        attributes, text, (target, _) = c
        where = self.chapter.source.where(target)
        alt = _alt(attributes) or plain(text)
        if not alt.strip():
            name = attributes[0] or target
            self.build.problems.add(*where, f"figure {name} has no alternative text: give it fig-alt")
        attributes[2] = [kv for kv in attributes[2] if kv[0] not in ("fig-alt", "alt")] + [["alt", alt]]
        if not re.match(r"[a-z]+:|//", target):
            c[2][0] = self.local(target, where, "image")

    def link(self, c: Any) -> None:
        """Local links: chapters become pages, other files are copied into the site."""
        target = c[2][0]
        if re.match(r"[a-z][a-z+.-]*:|//|#", target) or not target:
            return
        where = self.chapter.source.where(target)
        path, rest = re.fullmatch(r"([^?#]*)(.*)", target, re.S).groups()  # type: ignore[union-attr]
        c[2][0] = self.local(path, where, "linked file") + rest

    def local(self, target: str, where: Where, what: str) -> str:
        root, here = self.build.book.root, Path(self.page.source).parent
        path = inside(root, root / here, target)
        site = path.relative_to(root.resolve()).as_posix() if path else ""
        page = next((p for p in self.build.book.pages if site and site in (p.source, p.url)), None)
        if page:
            return os.path.relpath(page.url, here)
        if site.partition("/")[0] in ELSEWHERE:
            return target
        if site not in self.build.files and self.build.find(self.page, target, where, what):
            if site.endswith(".qmd"):
                self.build.problems.add(*where, f"{what} {target} is not a page of the book")
            self.build.copies.add(site)
        return os.path.relpath(site, here) if target.startswith("/") else target

    def table(self, c: Any) -> None:
        (id_, _, _), caption = c[0], c[1]
        if id_.startswith("tbl-"):
            caption[1] = [{"t": "Plain", "c": self.caption(id_, caption[1][0]["c"] if caption[1] else [])}]

    def known(self, attributes: Any) -> None:
        """Report names and classes that Quarto would do something with and this does not."""
        id_, classes, _ = attributes
        for name in (n for n in (id_, *classes) if UNKNOWN.match(n)):
            where = self.chapter.source.where(name)
            self.build.problems.add(
                *where, f"the preview knows no {name}; do without, or add it to book/_preview/render.py"
            )

    def codeblock(self, c: Any) -> None:
        self.known(c[0])

    def float(self, id_: str, caption: list[Node], blocks: list[Node]) -> list[Node]:
        """A numbered figure; the captions of tables stand above, those of figures below."""
        legend = [raw("<figcaption>"), {"t": "Plain", "c": caption}, raw("</figcaption>")]
        body = [{"t": "Div", "c": [["", ["float-body"], []], blocks]}]
        inner = body + legend if id_.startswith("fig-") else legend + body
        return [raw(f'<figure id="{id_}" class="float float-{id_[:3]}">'), *inner, raw("</figure>")]

    def div(self, c: Any) -> list[Node] | None:
        (id_, classes, _), blocks = c
        self.known(c[0])
        if id_.startswith(("fig-", "tbl-")):
            text = blocks.pop()["c"] if blocks and blocks[-1]["t"] in ("Para", "Plain") else []
            if not text or plain(text).strip() == "":
                self.build.problems.add(*self.chapter.source.where(id_), f"{id_} has no caption")
            return self.float(id_, self.caption(id_, text), blocks)
        callout = next((k for k in classes if k.startswith("callout-")), "")
        if callout and callout not in CALLOUTS:
            hint = did_you_mean(callout, list(CALLOUTS))
            self.build.problems.add(*self.chapter.source.where(callout), f"unknown callout {callout}{hint}")
        return self.box(c, CALLOUTS[callout]) if callout in CALLOUTS else None

    def box(self, c: Any, kind: str) -> list[Node]:
        """A callout: a title and a body; collapsible as a ``details`` element."""
        (_, classes, named), blocks = c
        attributes = dict(named)
        title = [string(attributes.get("title", kind))]
        if blocks and blocks[0]["t"] == "Header":
            title = blocks.pop(0)["c"][2]
        outer = " ".join(["callout", *classes])
        body = {"t": "Div", "c": [["", ["callout-body"], []], blocks]}
        if attributes.get("collapse") in ("true", "false"):
            state = " open" if attributes["collapse"] == "false" else ""
            opening, head, end = (
                f'<details class="{outer}"{state}><summary class="callout-title">',
                "</summary>",
                "</details>",
            )
        else:
            opening, head, end = f'<div class="{outer}" role="note"><div class="callout-title">', "</div>", "</div>"
        return [raw(opening), {"t": "Plain", "c": title}, raw(head), body, raw(end)]


def _alt(attributes: Any) -> str:
    values = dict(attributes[2])
    return str(values.get("fig-alt") or values.get("alt") or "")


def resolve(build: Build, chapter: Chapter, labels: dict[str, Label], keys: set[str]) -> None:
    """Second pass: references become links with numbers; citation keys must be in the bibliography."""
    cited = False

    def visit(node: Node) -> list[Node] | None:
        nonlocal cited
        if node["t"] != "Cite":
            return None
        references = [bool(REFERENCE.match(c["citationId"])) for c in node["c"][0]]
        if not any(references):
            cited = True
            for key in (c["citationId"] for c in node["c"][0] if c["citationId"] not in keys):
                hint = did_you_mean(key, list(keys))
                message = f"citation key {key} is not in the bibliography{hint}"
                build.problems.add(*chapter.source.where(f"@{key}"), message)
            return None
        out: list[Node] = []
        for citation, is_reference in zip(node["c"][0], references, strict=True):
            id_ = citation["citationId"]
            label = labels.get(id_[:1].lower() + id_[1:])
            if not is_reference or label is None:
                hint = did_you_mean(id_, list(labels))
                build.problems.add(*chapter.source.where(f"@{id_}"), f"unresolved reference @{id_}{hint}")
                continue
            out += [string(", ")] if out else []
            out += [_link(chapter.page, label, citation), *citation["citationSuffix"]]
        return out

    chapter.blocks = walk(chapter.blocks, visit)
    if cited:
        title = {"t": "Header", "c": [2, ["references", ["unnumbered"], []], [string("References")]]}
        chapter.blocks += [title, {"t": "Div", "c": [["refs", ["references"], []], []]}]


def _link(page: Page, label: Label, citation: Node) -> Node:
    word = [] if citation["citationMode"]["t"] == "SuppressAuthor" else [string(f"{label.kind}\u00a0")]
    if citation["citationPrefix"]:
        word = [*citation["citationPrefix"], string("\u00a0")]
    text = [*word, string(label.number)] if label.number != "-" else [string(label.title)]
    path, _, anchor = label.url.partition("#")
    url = f"#{anchor}" if path == page.url else f"{os.path.relpath(path, Path(page.url).parent)}#{anchor}"
    return {"t": "Link", "c": [["", ["quarto-xref"], []], text, [url, ""]]}


def citation_keys(build: Build) -> set[str]:
    """Every key of the bibliography."""
    keys: set[str] = set()
    for path in build.book.paths("bibliography"):
        if (build.book.root / path).is_file():
            text = (build.book.root / path).read_text("utf-8")
            entries = json.loads(pandoc(build, path, text, "-f", "biblatex", "-t", "csljson") or "[]")
            keys |= {str(entry["id"]) for entry in entries}
    return keys


def write(build: Build, chapter: Chapter) -> None:
    """The syntax tree to HTML, with citations and MathML."""
    tree = {"pandoc-api-version": chapter.version, "meta": {}, "blocks": chapter.blocks}
    files = [f"--bibliography={path}" for path in build.book.paths("bibliography")]
    files += ["-M", "link-citations=true", *(f"--csl={path}" for path in build.book.paths("csl"))]
    options = ["-f", "json", "-t", "html5", "--mathml", "--wrap=none", "--citeproc", *files]
    html = pandoc(build, chapter.page.source, json.dumps(tree), *options)
    html = EMPTY_HEAD.sub(r"<td\1></td>", html)
    chapter.page.body = NUMBER_CELL.sub(r'<td class="number"\1>\2</td>', html)
