"""Check a rendered site, whoever rendered it: links and anchors, alternative texts, leftovers of the source.

``python -m book._preview.check_site _site [--strip]``; ``--strip`` first removes the absolute paths that
Quarto's ``embed`` leaves in ``data-notebook`` attributes.
"""

import argparse
import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

KINDS = "fig|tbl|eq|sec|lst|thm|exm|exr|tip|nte|wrn|imp|cau"
LABEL = re.compile(rf"({KINDS})-")
LEFTOVERS = {
    "shortcode": re.compile(r"\{\{<"),
    "unresolved reference": re.compile(rf"\?@|(?<![\w@./])@(?:{KINDS})-\w"),
    "unknown variable": re.compile(r"\?var:"),
    "placeholder of a shortcode": re.compile(r"b58fc729-690b-4000-b19f-365a4093b2ff"),  # Quarto's, inside maths
    "raw id": re.compile(rf"(?<![\w/#.@-])(?:{KINDS})-[a-z][\w-]*"),
    "us for µs": re.compile(r"(?:\d[\s\u00a0\u202f]|\(|\bin )us\b(?!\.)"),
    "div fence": re.compile(r":::"),
    "equation label": re.compile(r"\{#(?:eq|fig|tbl|sec|lst)-"),
}
LOADS = dict.fromkeys(("script", "img", "iframe", "source", "video", "audio"), "src") | {"object": "data"}
NOTEBOOK_PATH = re.compile(r'\sdata-notebook=(["\'])(?:/|[A-Za-z]:[\\/]|file:).*?\1')
SUSPECT = re.compile(r"[-{?@:]|us")  # none of the above, and no citation, is without one of these
# A start tag as nearly all are written, its attributes, those that are asked for below, and elements that hold raw text.
TAG = re.compile(r"""<([a-zA-Z][\w:-]*)((?:\s+[\w:@.-]+(?:="[^"]*"|='[^']*')?)*)\s*(/?)>""")
ATTRIBUTE = re.compile(r"""([\w:@.-]+)(?:="([^"]*)"|='([^']*)')?""")
ASKED = re.compile(r"\s(?:id|name|href|src|data|rel|alt|data-notebook)\b", re.I)
NOT_TEXT = {"script", "style", "textarea", "title", "iframe", "noembed", "noframes", "noscript", "xmp", "plaintext"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


ELSEWHERE = (
    "lab",
    "print",
    "slides",
)  # folders of the site that other commands fill, perhaps later; their own pages are not ours to check


class Reader(HTMLParser):
    """What one page defines, points to, and still shows of its source."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: list[str] = []
        self.targets: list[tuple[int, str, bool]] = []  # line, address, whether the browser loads it unasked
        self.found: list[tuple[int, str]] = []
        self.stack: list[str] = []
        self.text, self.text_line = "", 1
        self.feed(text)
        self.close()
        self.end_text()

    def updatepos(self, i: int, j: int) -> int:
        """Lines only: nobody asks for columns, and counting them takes as long as all the rest."""
        self.lineno += self.rawdata.count("\n", i, j)
        return j

    def parse_starttag(self, i: int) -> int:
        """The parser's own way takes an attribute at a time, and most tags are lines of drawings that nobody points to."""
        match = TAG.match(self.rawdata, i)
        if match is None or match[1].lower() in NOT_TEXT:
            return super().parse_starttag(i)
        wanted = ATTRIBUTE.findall(match[2]) if ASKED.search(match[2]) else []
        tag = match[1].lower()
        self.handle_starttag(tag, [(name.lower(), unescape(one or other)) for name, one, other in wanted])
        if match[3]:
            self.handle_endtag(tag)
        return match.end()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.end_text()
        values, line = {k: v or "" for k, v in attrs}, self.getpos()[0]
        if tag not in VOID:
            self.stack.append(tag)
        self.ids += [values[k] for k in ("id", "name") if k in values and (k == "id" or tag == "a")]
        loads = values.get(LOADS.get(tag, ""))
        if tag == "link" and re.search(r"stylesheet|icon|preload", values.get("rel", "")):
            loads = values.get("href")
        if loads is not None:
            self.targets.append((line, loads, True))
        elif "href" in values and tag in ("a", "link", "area"):
            self.targets.append((line, values["href"], False))
        if tag == "img" and not values.get("alt", "").strip():
            self.found.append((line, f"image {values.get('src', '')[:80]} has no alternative text"))
        if re.match(r"/|[A-Za-z]:[\\/]|file:", values.get("data-notebook", "")):
            self.found.append((line, "data-notebook holds an absolute path; run with --strip"))

    def handle_endtag(self, tag: str) -> None:
        self.end_text()
        if tag in self.stack:
            while self.stack.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self.text:
            self.text_line = self.getpos()[0]
        self.text += data  # a stray `<` makes the parser hand over one text in pieces

    def end_text(self) -> None:
        text, self.text = self.text, ""
        if not SUSPECT.search(text):
            return
        if {"code", "pre", "script", "style", "annotation", "template"} & set(self.stack):
            return
        for what, pattern in LEFTOVERS.items():
            if match := pattern.search(text):
                line = self.text_line + text.count("\n", 0, match.start())
                self.found.append((line, f"{what} left in the text: {text[match.start() :][:40]!r}"))
        if self.stack[-1:] == ["strong"] and re.fullmatch(r"[\w:.-]*\d[\w:.-]*\?", text):
            self.found.append((self.text_line, f"unresolved citation left in the text: {text!r}"))


def check_site(site: Path, later: Sequence[str] = ()) -> list[str]:
    """Every problem of the pages under ``site`` as ``page:line: message``; a link into a folder of ``later`` may wait for it."""
    pages = {
        path.resolve(): Reader(path.read_text("utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.relative_to(site).parts[0] not in ELSEWHERE
    }
    problems = [] if pages else [f"{site.name}: no HTML page"]
    root = site.resolve()
    file = functools.cache(_file)  # thousands of links lead to a few hundred places
    ids = {path: set(page.ids) for path, page in pages.items()}
    for path, page in pages.items():
        name = path.relative_to(root).as_posix()
        problems += [f"{name}:{line}: {message}" for line, message in page.found]
        twice = [i for i, n in Counter(page.ids).items() if n > 1 and LABEL.match(i)]
        problems += [f"{name}: label {i} is given twice" for i in twice]
        for line, target, loads in page.targets:
            if message := _broken(root, path, target, loads, ids, file, later):
                problems.append(f"{name}:{line}: {message}")
    return problems


def _broken(
    site: Path,
    path: Path,
    target: str,
    loads: bool,
    ids: dict[Path, set[str]],
    find: Callable[[Path], tuple[Path, bool]],
    later: Sequence[str],
) -> str:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return f"loads {target[:80]} from another host" if loads and parts.scheme not in ("data", "blob") else ""
    base = site / parts.path.lstrip("/") if parts.path.startswith("/") else path.parent / unquote(parts.path)
    file, exists = find(base if parts.path else path)
    if not file.is_relative_to(site):
        return f"link {target} leaves the site"
    if not exists:
        folder = site / file.relative_to(site).parts[0]
        return "" if folder.name in later and not folder.exists() else f"broken link {target}"
    anchor = unquote(parts.fragment)
    if anchor and anchor != "top" and file in ids and anchor not in ids[file] and not anchor.startswith(":~:"):
        return f"no anchor for {target}"
    return ""


def _file(path: Path) -> tuple[Path, bool]:
    """The file that an address means, and whether it is there."""
    file = path.resolve()
    if file.is_dir():
        file /= "index.html"
    return file, file.is_file()


def strip_notebook_paths(site: Path) -> int:
    """Remove ``data-notebook`` attributes that hold an absolute path; the number of attributes removed."""
    removed = 0
    for path in site.rglob("*.html"):
        text, n = NOTEBOOK_PATH.subn("", path.read_text("utf-8"))
        if n:
            path.write_text(text, "utf-8")
            removed += n
    return removed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="check_site", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--strip", action="store_true", help="first remove absolute data-notebook paths")
    parser.add_argument("--later", nargs="*", choices=ELSEWHERE, default=(), help="folders that are made after this")
    given = parser.parse_args(arguments)
    if given.strip:
        print(f"{strip_notebook_paths(given.site)} notebook paths removed")
    problems = check_site(given.site, given.later)
    print("\n".join([*problems, f"{given.site}: {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
