"""What ``_quarto.yml`` says about the book, read strictly: a key that is not on the list below is a mistake."""

import difflib
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

# The keys this book uses or may use, all of them keys of Quarto 1.9; Quarto itself ignores a misspelt key in silence.
KEYS = """
project.type project.output-dir project.render project.resources project.pre-render project.post-render
book.title book.subtitle book.author book.date book.description book.search book.chapters book.appendices
book.appendices.part book.appendices.chapters book.chapters.part book.chapters.chapters book.chapters.text book.chapters.href book.sidebar.style
book.sidebar.collapse-level book.site-url book.repo-url book.repo-actions book.repo-branch book.page-footer
book.favicon book.image book.image-alt book.open-graph book.page-navigation book.sharing book.downloads book.reader-mode book.license
filters.at filters.path bibliography csl lang license execute.enabled execute.echo crossref.chapters
format.html.theme.light format.html.theme.dark format.html.css format.html.html-math-method format.html.respect-user-color-scheme format.html.toc
format.html.toc-depth format.html.number-sections format.html.number-depth format.html.code-copy
format.html.code-overflow format.html.link-citations format.html.fig-cap-location format.html.tbl-cap-location
format.html.notebook-links format.html.notebook-view format.html.highlight-style format.html.include-in-header
"""
FRONT_MATTER = ("title", "subtitle", "description", "author", "date", "lang", "keywords", "toc", "toc-depth")


class Problems(list[str]):
    """Every mistake found so far, as ``file:line: message``."""

    def add(self, file: Path | str, line: int | None, message: str) -> None:
        text = f"{Path(file).as_posix()}:{line}: {message}" if line else f"{Path(file).as_posix()}: {message}"
        if text not in self:
            self.append(text)


@dataclass
class Page:
    """One file of the book: where it stands, what number it carries, and what rendering made of it."""

    source: str  # relative to the root, like every path here
    number: str = ""  # "1", "A", or "" for a page without a number
    part: str = ""
    appendix: bool = False
    title: str = ""
    body: str = ""

    @functools.cached_property
    def url(self) -> str:
        return str(Path(self.source).with_suffix(".html").as_posix())


@dataclass
class Book:
    """The whole of ``_quarto.yml`` that the preview needs."""

    root: Path
    config: dict[str, Any]
    pages: list[Page]
    variables: dict[str, tuple[str, int]]  # dotted name to its text and its line

    def get(self, dotted: str, default: Any = None) -> Any:
        """The value at ``a.b.c``, or the default."""
        value: Any = self.config
        for key in dotted.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None else value

    def paths(self, dotted: str) -> list[str]:
        """The value at a key that takes one path or a list of them."""
        value = self.get(dotted, [])
        return [str(v) for v in value] if isinstance(value, list) else [str(value)]


def did_you_mean(word: str, known: Iterator[str] | list[str]) -> str:
    """``; did you mean x?``, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def inside(root: Path, base: Path, target: str) -> Path | None:
    """The file that ``target`` names, from ``base`` or with a leading slash from the root; None outside the root."""
    path = (root / target.lstrip("/") if target.startswith("/") else base / target).resolve()
    return path if path.is_relative_to(root.resolve()) else None


def read_book(root: Path, problems: Problems) -> Book:
    """Read ``_quarto.yml`` and ``_variables.yml``; list the pages in reading order with their numbers."""
    config_file = root / "_quarto.yml"
    if not config_file.is_file():
        problems.add("_quarto.yml", None, "not found; run from the repository root")
        return Book(root, {}, [], {})
    node = compose(config_file.read_text("utf-8"), "_quarto.yml", problems)
    check_keys(node, [k.split(".") for k in KEYS.split()], "_quarto.yml", problems)
    book = Book(root, yaml.safe_load(config_file.read_text("utf-8")) if node else {}, [], {})
    chapters, appendices = 0, 0
    for source, part, appendix in _listed(book):
        if not (root / source).is_file():
            problems.add("_quarto.yml", _line_of(config_file, source), f"listed chapter {source} does not exist")
            continue
        page = Page(source, part=part, appendix=appendix)
        if source == "index.qmd" or _unnumbered((root / source).read_text("utf-8")):
            pass
        elif appendix:
            page.number, appendices = chr(ord("A") + appendices), appendices + 1
        else:
            page.number, chapters = str(chapters + 1), chapters + 1
        book.pages.append(page)
    for name in ("bibliography", "csl", "format.html.css", "project.resources"):
        for path in book.paths(name):
            if not list(root.glob(path)):
                problems.add("_quarto.yml", _line_of(config_file, path), f"{name}: {path} does not exist")
    if (root / "_variables.yml").is_file():
        node = compose((root / "_variables.yml").read_text("utf-8"), "_variables.yml", problems)
        book.variables = dict(_variables(node, "", problems))
    return book


def check_keys(node: yaml.Node | None, known: list[list[str]], file: str, problems: Problems) -> None:
    """Report keys that no entry of ``known`` (dotted keys, split) allows, and keys given twice."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            check_keys(item, known, file, problems)
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key, value in node.value:
        rest = [k[1:] for k in known if k and k[0] == key.value]
        if not rest:
            message = f"unknown key {key.value}{did_you_mean(key.value, [k[0] for k in known if k])}"
            problems.add(file, key.start_mark.line + 1, message)
        elif key.value in seen:
            problems.add(file, key.start_mark.line + 1, f"key {key.value} is given twice")
        elif any(rest):
            check_keys(value, rest, file, problems)
        seen.add(key.value)


def compose(text: str, file: str, problems: Problems) -> yaml.Node | None:
    """YAML as nodes that know their lines."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problems.add(file, line, f"not valid YAML: {error.problem}")
        return None


def _listed(book: Book) -> Iterator[tuple[str, str, bool]]:
    def walk(items: list[Any], part: str, appendix: bool) -> Iterator[tuple[str, str, bool]]:
        for item in items:
            if isinstance(item, str):
                yield item, part, appendix
            elif "part" in item:
                yield from walk(item.get("chapters", []), str(item["part"]), appendix)
            elif "href" in item:
                yield str(item["href"]), part, appendix

    yield from walk(book.get("book.chapters", []), "", False)
    yield from walk(book.get("book.appendices", []), "Appendices", True)


def _unnumbered(text: str) -> bool:
    heading = re.search(r"^# .*$", text, re.M)
    return bool(heading and re.search(r"\{[^}]*(\.unnumbered|(?<=[{ ])-(?=[ }]))[^}]*\}\s*$", heading[0]))


def _line_of(file: Path, text: str) -> int | None:
    return next((n for n, line in enumerate(file.read_text("utf-8").splitlines(), 1) if text in line), None)


def _variables(node: yaml.Node | None, prefix: str, problems: Problems) -> Iterator[tuple[str, tuple[str, int]]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _variables(value, f"{prefix}.{key.value}" if prefix else key.value, problems)
    elif isinstance(node, yaml.ScalarNode):
        line = node.start_mark.line + 1
        # Quarto prints the number, not the text: 41.80 would lose its zero, so such a value needs quotes.
        if not node.tag.endswith(":str") and not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?", node.value):
            problems.add("_variables.yml", line, f"{prefix}: {node.value} needs quotes, to be shown as it stands here")
        yield prefix, (node.value, line)
