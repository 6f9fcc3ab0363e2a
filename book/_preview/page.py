"""The frame around a chapter: contents, previous and next, footer. How pages look, Quarto's theme decides; this follows it."""

import os.path
import re
from datetime import date
from html import escape
from pathlib import Path
from string import Template

from .config import Book, Page
from .tables import framed

HERE = Path(__file__).parent
SCRIPTS = [HERE.parent / "assets" / name for name in ("access.js", "reader.js")]  # Quarto's pages load them too


def frame(book: Book, page: Page) -> str:
    """A whole HTML page."""
    up = "../" * page.source.count("/")
    title = str(book.get("book.title", "Book"))
    position = book.pages.index(page)
    previous = book.pages[position - 1] if position else None
    following = book.pages[position + 1] if position + 1 < len(book.pages) else None
    styles = [f"{up}site_preview/preview.css", *(up + css for css in book.paths("format.html.css"))]
    moving = '<div class="frames"' in page.body  # make_live, which may come later, leaves these two alone
    if moving:
        styles.append(f"{up}book/assets/frames.css")
    return Template((HERE / "page.html").read_text("utf-8")).substitute(
        lang=escape(str(book.get("lang", "en"))),
        title=escape(title if page.source == "index.qmd" else f"{page.title} – {title}"),
        description=escape(str(book.get("book.description", ""))),
        favicon=f"{up}{book.get('book.favicon', '')}",
        book=escape(title),
        home=f"{up}index.html",
        styles="\n".join(f'<link rel="stylesheet" href="{escape(s)}">' for s in styles),
        scripts="\n".join(f'<script src="{up}site_preview/{s.name}" defer></script>' for s in SCRIPTS),
        moving=f'<script src="{up}book/assets/frames.js" defer></script>' if moving else "",
        masthead=_masthead(book) if page.source == "index.qmd" else "",
        sidebar=_sidebar(book, page),
        body=framed(page.body),
        around="".join(_neighbour(page, p, rel) for p, rel in ((previous, "prev"), (following, "next")) if p),
        author=escape(str(book.get("book.author", ""))),
        license=escape(str(book.get("book.license", book.get("license", "")))),
    )


def style(book: Book) -> str:
    """The style sheet: the colours of Quarto's themes, light and dark, and what stands in preview.css."""
    said = []
    for scheme in ("light", "dark"):
        for path in book.paths(f"format.html.theme.{scheme}"):
            if path.endswith(".scss"):
                text = (book.root / path).read_text("utf-8")
                plain = re.findall(r"^\$(body-color|link-color): (.*?);", text, re.M)
                rules = ":root {" + " ".join(f"--{name}: {value};" for name, value in plain) + "}"
                rules += "".join(re.findall(r"^:root \{.*?^\}", text, re.M | re.S))
                said.append(f"@media (prefers-color-scheme: {scheme}) {{ {rules} }}\n")
    return "".join(said) + (HERE / "preview.css").read_text("utf-8")


def _masthead(book: Book) -> str:
    subtitle = escape(str(book.get("book.subtitle", "")))
    by = " · ".join(escape(str(v)) for v in (book.get("book.author"), _date(book.get("book.date"))) if v)
    title = f'<p class="book-title">{escape(str(book.get("book.title", "")))}</p>'
    return f'<header class="masthead">{title}<p>{subtitle}</p><p class="by">{by}</p></header>'


def _date(value: object) -> str:
    try:
        day = date.fromisoformat(str(value))
        return f"{day.day} {day:%B %Y}"
    except ValueError:
        return str(value or "")


def _href(page: Page, other: Page) -> str:
    return escape(os.path.relpath(other.url, Path(page.url).parent))


def _name(page: Page) -> str:
    number = f'<span class="nav-number">{page.number}</span> ' if page.number else ""
    return f"{number}<span>{escape(page.title)}</span>"


def _sidebar(book: Book, page: Page) -> str:
    """Parts and their chapters."""
    out: list[str] = []
    part = None
    for other in book.pages:
        if other.part != part:
            heading = f"<h2>{escape(other.part)}</h2>" if other.part else ""
            out.append(f"{'</ol>' if out else ''}{heading}<ol>")
            part = other.part
        current = ' aria-current="page"' if other is page else ""
        out.append(f'<li><a href="{_href(page, other)}"{current}>{_name(other)}</a></li>')
    return "\n".join([*out, "</ol>"])


def _neighbour(page: Page, other: Page, rel: str) -> str:
    word = "Previous" if rel == "prev" else "Next"
    return f'<a class="{rel}" rel="{rel}" href="{_href(page, other)}"><small>{word}</small>{_name(other)}</a>'
