"""What Quarto's pages lack for readers who do not see or do not point: roles, names, a way past the menu.

    python scripts/access.py SITE        mend the pages of a rendered site in place

Tables get the same boxes as in the preview build (``book/_preview/tables.py``), so that none makes a page wider than its window.
Quarto makes the header of a box that folds a ``div`` with ``aria-expanded`` that no keyboard reaches, calls what folds the menu a
landmark, gives the links to the
neighbouring chapters other names than their words, leaves landmarks without names, and has no link past its menu. What depends on
the width of a window (which boxes scroll) is done by ``book/assets/access.js`` in both builds.
"""

import os
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from book._preview.tables import framed

SCRIPTS = ("book/assets/access.js", "book/assets/reader.js")
SKIP = '<a class="skip-link" href="#quarto-document-content">Skip to the text</a>'
NAMES = {
    '<nav class="quarto-secondary-nav"': "Menu",
    '<nav id="quarto-sidebar"': "Chapters",
    '<nav id="TOC"': "On this page",
    '<nav class="page-navigation"': "Previous and next chapter",
}
FOLDING = re.compile(r'<div class="callout-header[^>]*data-bs-toggle="collapse"[^>]*>')
NEIGHBOUR = re.compile(r'(<a href="[^"]*" class="pagination-link")\s+aria-label="[^"]*"')
TOGGLE = re.compile(r'<a [^>]*role="navigation"[^>]*>')  # what folds a part of the menu is no landmark
EMPTY_HEAD = re.compile(r"<th([^>]*)>\s*</th>")
CRUMBS = re.compile(
    r'(<nav class="quarto-page-breadcrumbs"[^>]*) aria-label="breadcrumb"'
)  # in the bar of small windows
HEADING = re.compile(r"<h1\b(.*?)</h1>", re.S)


def folding(match: re.Match[str]) -> str:
    """The header of a box that folds, as a button: its words are its name."""
    tag = re.sub(r'\s+aria-label="[^"]*"', "", match[0])
    return tag if "role=" in tag else tag.replace("<div ", '<div role="button" tabindex="0" ', 1)


def toggle(match: re.Match[str]) -> str:
    """A link without an address that folds something, as the button that it is."""
    tag = match[0].replace('role="navigation"', 'role="button"')
    return tag if "tabindex=" in tag or "href=" in tag else tag.replace("<a ", '<a tabindex="0" ', 1)


def empty_head(match: re.Match[str]) -> str:
    """A cell that heads nothing."""
    return "<td" + re.sub(r'\s+scope="[^"]*"', "", match[1]) + "></td>"


def one_title(text: str) -> str:
    """The first heading of level 1 stays; others are a level below."""
    first = True

    def keep(match: re.Match[str]) -> str:
        nonlocal first
        kept, first = first, False
        return match[0] if kept else f"<h2{match[1]}</h2>"

    return HEADING.sub(keep, text)


def mended(text: str, up: str) -> str:
    """A page of Quarto with what it lacks; a second time changes nothing."""
    text = FOLDING.sub(folding, text)
    text = TOGGLE.sub(toggle, text)
    text = NEIGHBOUR.sub(r"\1", text)
    text = EMPTY_HEAD.sub(empty_head, text)
    text = CRUMBS.sub(r'\1 aria-label="where this page stands"', text)
    for start, name in NAMES.items():
        text = re.sub(re.escape(start) + r"(?! aria-label)(?![^>]* aria-label=)", f'{start} aria-label="{name}"', text)
    if SKIP not in text:
        text = re.sub(r"(<body[^>]*>)", rf"\1\n{SKIP}", text, count=1)
        text = text.replace('<main class="content', '<main tabindex="-1" class="content', 1)
        scripts = "".join(f'<script src="{up}{script}" defer></script>\n' for script in SCRIPTS)
        text = text.replace("</head>", f"{scripts}</head>", 1)
    return framed(one_title(text))


def mend(site: Path) -> int:
    """Mend every page that Quarto wrote; how many changed."""
    changed = 0
    for page in site.rglob("*.html"):
        where = page.relative_to(site)
        if where.parts[0] in ("lab", "site_libs"):
            continue
        text = page.read_text(encoding="utf-8")
        new = mended(text, os.path.relpath(site, page.parent) + "/" if len(where.parts) > 1 else "")
        if new != text:
            page.write_text(new, encoding="utf-8")
            changed += 1
    return changed


if __name__ == "__main__":
    print(f"access: {mend(Path(sys.argv[1]))} pages mended")
