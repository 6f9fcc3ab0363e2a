"""A web page as one that stands still: no controls, nothing folded, figures as files, addresses that hold outside the site."""

import os.path
import re
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag

PLACEHOLDER = "OWNER/REPOSITORY"
MATHS = re.compile(
    r'<math display="(\w+)".*?<annotation encoding="application/x-tex">(.*?)</annotation>.*?</math>', re.S
)
KEYS = re.compile(r"\[@(eq-[\w-]+)\]")
SVG = re.compile(r"<svg\b|</svg>")
SMALLER = 0.9  # the sans-serif of print is wider than that of most screens, and words in a drawing have their room
MOVING = (
    "script, style, button, input, form, select, progress, noscript, .live-said, .live-heard, .live-hints, .live-bar"
)


@dataclass
class Folder:
    """Where the figures of one printed book lie, each once."""

    path: Path
    site: str = ""  # address of the site, with a slash at its end, or nothing
    problems: list[str] = field(default_factory=list)

    def keep(self, content: bytes, end: str) -> str:
        """The name of a file with this content."""
        name = f"figures/{sha256(content).hexdigest()[:16]}.{end}"
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_bytes(content)
        return name

    def drawing(self, svg: str) -> str:
        """An SVG as a file: well formed, with a size, its words a little smaller."""
        if "xmlns=" not in svg.partition(">")[0]:
            svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        svg = re.sub(r"""(font-family(?:=["']|:\s*))sans-serif""", r"\1DejaVu Sans, sans-serif", svg)
        svg = re.sub(r"&(?!#|amp;|lt;|gt;|quot;|apos;)(\w+);", lambda m: unescape(m[0]), svg)
        # An attribute of SVG 2, which readers of e-books may refuse: as a style it is read by those who know it.
        svg = re.sub(r"""\spaint-order=(["'])([a-z ]+)\1""", r" style=\1paint-order: \2\1", svg)
        shrink = re.compile(r"""(font-size(?:=["']|:\s*))([\d.]+)""")
        return self.keep(shrink.sub(lambda m: f"{m[1]}{float(m[2]) * SMALLER:g}", svg).encode(), "svg")


def still(folder: Folder, url: str, html: str, files: dict[str, bytes], root: Path) -> Tag:
    """The page at ``url`` of the site as a tree for print; ``files`` are figures that the build made."""
    html = _drawings(folder, html)
    html = re.sub(r"<script\b.*?</script>", "", html, flags=re.S)
    html = MATHS.sub(_maths, html)
    page: Any = BeautifulSoup(html, "html.parser")
    for view in page.select(".live-view"):
        _view(page, view)
    for questions in page.select(".live-questions"):
        _questions(page, questions)
    for node in page.select(MOVING):
        if not node.decomposed:
            node.decompose()
    for node in page.select(".live-here"):
        node.decompose()
    for node in page.select("summary:not([class])"):  # the title of what was folded
        node["class"] = "fold-title"
    for node in page.select("details, summary, section, nav"):
        node.name = "div"
        node.attrs.pop("open", None)
    for node in page.select(".chapter-links"):
        _own_links(node, folder.site)
    for node in page.select("[role], [tabindex]"):
        node.attrs.pop("role", None), node.attrs.pop("tabindex", None)
    for node in page.select("img"):
        _image(folder, node, url, files, root)
    return page  # type: ignore[no-any-return]


def _drawings(folder: Folder, html: str) -> str:
    """Every outermost SVG of a page becomes a file; its title is the alternative text."""
    out, depth, start, at = [], 0, 0, 0
    for match in SVG.finditer(html):
        if match[0] == "</svg>":
            depth -= 1
            if depth == 0:
                svg = html[start : match.end()]
                told = re.search(r"<title[^>]*>(.*?)</title>|<desc[^>]*>(.*?)</desc>", svg, re.S)
                label = re.search(r"""aria-label=(["'])(.*?)\1""", svg.partition(">")[0])
                alt = unescape(label[2] if label else (told[1] or told[2] or "") if told else "")
                out += [
                    html[at:start],
                    f'<img src="{folder.drawing(svg)}" data-kept="1" alt="{escape(alt) or "drawing"}">',
                ]
                at = match.end()
        else:
            start = start if depth else match.start()
            depth += 1
    return "".join([*out, html[at:]])


def _maths(match: re.Match[str]) -> str:
    """A formula as code, which every parser leaves alone; ``formulas`` makes it one again."""
    return f'<code class="maths {match[1]}">{match[2]}</code>'


def formulas(node: Any) -> Any:
    """Pandoc's tree with the formulas in it."""
    if isinstance(node, dict):
        if node.get("t") == "Code" and "maths" in node["c"][0][1]:
            mode = "DisplayMath" if "block" in node["c"][0][1] else "InlineMath"
            return {"t": "Math", "c": [{"t": mode}, node["c"][1]]}
        return {key: formulas(value) for key, value in node.items()}
    return [formulas(child) for child in node] if isinstance(node, list) else node


def _image(folder: Folder, node: Any, url: str, files: dict[str, bytes], root: Path) -> None:
    if node.attrs.pop("data-kept", None):
        return
    source = os.path.normpath(os.path.join(os.path.dirname(url), str(node["src"])))
    content = files.get(source)
    if content is None:
        if not (root / source).is_file():
            folder.problems.append(f"{url}: no image {source}")
            return
        content = (root / source).read_bytes()
    end = Path(source).suffix[1:]
    node["src"] = folder.drawing(content.decode()) if end == "svg" else folder.keep(content, end)


def _view(page: Any, view: Any) -> None:
    """A live view: its picture and its numbers at the starting values, which are said."""
    at = []
    for control in view.select(".live-control"):
        label, shown = control.find("label"), control.find("output")
        value = shown.get_text() if shown else control.find("option", selected=True) or control.find("option")
        value = value if isinstance(value, str) else value.get_text()
        if shown:
            shown.decompose()
        at.append(f"{label.get_text().strip()}: {value.strip()}")
    made = page.new_tag("div", attrs={"class": "live-at"})
    made.string = f"Shown for {'; '.join(at)}. On the web page these are sliders." if at else ""
    controls = view.select_one(".live-controls")
    if controls:
        controls.replace_with(made)
    for rows in view.select("dl"):
        listed = page.new_tag("ul", attrs={"class": "live-rows"})
        for term in rows.select("dt"):
            item, value = page.new_tag("li"), term.find_next_sibling("dd")
            item.append(f"{term.get_text().strip()}: ")
            strong = page.new_tag("strong")
            strong.string = value.get_text().strip() if value else ""
            item.append(strong)
            listed.append(item)
        rows.replace_with(listed) if listed.contents else rows.decompose()
    for node in view.select("figure, .live-title"):
        node.name = "div"
    for empty in view.select("p.note, .live-shown"):
        if not empty.get_text().strip() and not empty.find("img"):
            empty.decompose()


def _questions(page: Any, questions: Any) -> None:
    """The questions as they are asked; answers are typed in on the web page or in the notebook."""
    first = questions.find("p")
    if first:
        first.string = (
            "The numbers below are those of the public example. Answers are checked on the web page and in the "
            "notebook of this chapter, with numbers of your own."
        )
    for question in questions.select("h3"):
        question.name = "div"
        question["class"] = "question"


def _own_links(node: Any, site: str) -> None:
    """The row of links at the head of a chapter: those that only a site can follow go."""
    for link in node.select("a"):
        local = "://" not in str(link.get("href", ""))
        if PLACEHOLDER in str(link.get("href", "")) or (local and not site) or "lab-link" in (link.get("class") or []):
            (link.parent if link.parent.name == "p" else link).decompose()
    if not node.select("a"):
        node.decompose()


def join(folder: Folder, pages: dict[str, Any]) -> str:
    """All pages as one: ids carry their page's name, links between pages point into the book, others to the site."""
    slugs = {url: slug(url) for url in pages}
    numbers = {
        one["id"]: f"Equation {one.select_one('.equation-number').text.strip('()')}"
        for page in pages.values()
        for one in page.select(".equation[id]")
    }
    for page in pages.values():  # what a listing printed names equations by their labels
        for one in page.find_all(string=KEYS):
            one.replace_with(KEYS.sub(lambda m: numbers.get(m[1], m[1][3:].replace("-", " ")), one))
        for one in page.select("a.live-equation"):
            one.string = numbers.get(str(one["href"]).partition("#")[2], one.text)
    wanted = set()
    for url, page in pages.items():
        here = os.path.dirname(url)
        for link in page.select("a[href]"):
            parts = urlsplit(str(link["href"]))
            if parts.scheme or parts.netloc:
                if PLACEHOLDER in link["href"]:
                    link.unwrap()
                continue
            target = os.path.normpath(os.path.join(here, parts.path)) if parts.path else url
            if target in slugs:
                name = f"{slugs[target]}--{parts.fragment}" if parts.fragment else slugs[target]
                link["href"] = f"#{name}"
                wanted.add(name)
            elif folder.site and not target.startswith(".."):
                link["href"] = (
                    folder.site
                    + target
                    + (f"?{parts.query}" if parts.query else "")
                    + (f"#{parts.fragment}" if parts.fragment else "")
                )
            else:
                link.unwrap()
    for url, page in pages.items():
        for node in page.select("[id]"):
            name = f"{slugs[url]}--{node['id']}"
            if name in wanted:
                node["id"] = name
                wanted.discard(name)
            else:
                del node["id"]
        title = page.find("h1")
        if title is None:
            folder.problems.append(f"{url}: no title")
            continue
        if title.get("id"):
            title.insert_after(page.new_tag("div", id=title["id"]))
        title["id"] = slugs[url]
        wanted.discard(slugs[url])
    folder.problems += [f"no anchor {name}" for name in sorted(wanted)]
    return "\n".join(str(page) for page in pages.values())


def slug(url: str) -> str:
    """The name of a page inside the printed book.

    >>> slug("book/01-iron-law.html")
    'p-01-iron-law'
    """
    return f"p-{Path(url).stem}"
