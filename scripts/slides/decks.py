"""Write the slides of the chapters: ``_slides/NN-slug.qmd`` to change and render, and ``.html`` to show, with no outside request.

    python scripts/slides [OUT] [--only SLUG ...] [--parts]

The HTML is made by pandoc with reveal.js, which comes from npm once, pinned, and lies beside the decks. The same .qmd files
render with Quarto (``quarto render 01-iron-law.qmd``), which brings a reveal.js of its own. Without npm the .qmd files are
written and no HTML.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import build_print
from bs4 import BeautifulSoup
from live.engine import Missing, modules
from printing.stills import Folder, formulas, still

from book._preview.__main__ import read_chapters
from slides.deck import Node, NoDeck, slides, tree, words

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
OUT = ROOT / "_slides"
SIZE = (1280, 720)
UPRIGHT = (720, 1240)  # on a phone, where slides stand below each other
# What a deck asks for: pandoc's page names these, and nothing else of reveal.js is copied.
PARTS = (
    "dist/reset.css",
    "dist/reveal.css",
    "dist/reveal.js",
    "plugin/notes/notes.js",
    "plugin/search/search.js",
    "plugin/zoom/zoom.js",
)
_MARKDOWN = "markdown-implicit_figures-smart-raw_attribute"


def vendored(folder: Path) -> None:
    """reveal.js and our look beside the decks."""
    source = modules(HERE) / "reveal.js"
    for name in PARTS:
        (folder / "reveal" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, folder / "reveal" / name)
    shutil.copyfile(source / "LICENSE", folder / "reveal" / "LICENSE")
    (folder / "reveal" / "dist" / "theme").mkdir(exist_ok=True)
    shutil.copyfile(HERE / "look.css", folder / "reveal" / "dist" / "theme" / "look.css")


def _picture(folder: Path) -> Callable[[str, str], Node]:
    """Images by file, as wide as their own drawing asks for."""

    def picture(source: str, alt: str) -> Node:
        about = [["fig-alt", alt], ["alt", alt]]
        return {"t": "Image", "c": [["", [], about], [], [source, ""]]}

    return picture


def _yaml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON text is a YAML text


def write(folder: Path, slug: str, url: str, body: str, files: dict[str, bytes], show: bool = True) -> int:
    """One chapter's slides into a folder; how many there are.

    Parameters
    ----------
    folder : Path
        Of all decks; their drawings go into ``figures/``.
    slug : str
        As in "01-iron-law".
    url : str
        The page's address in the site, where paths of images begin.
    body : str
        The page as the preview writes it.
    files : dict
        Drawings that the build made, by their path in the site.
    show : bool
        Also make the HTML.
    """
    kept = Folder(folder)
    page = still(kept, url, body, files, ROOT)
    if kept.problems:
        raise NoDeck("; ".join(kept.problems))
    blocks = formulas(json.loads(_pandoc(folder, str(page), "-f", "html", "-t", "json")))["blocks"]
    head = next(b for b in blocks if b["t"] == "Header")
    number, _, title = words(head["c"][2]).partition(" ")
    question, _, name = title.partition("? ")
    made = slides(blocks, slug, _picture(folder))
    text = _pandoc(folder, tree(made), "-f", "json", "-t", _MARKDOWN, "--wrap=none")
    subtitle = f"{name + ', c' if name else 'C'}hapter {number} of *mlsysim: a textbook that runs*"
    front = [
        f"title: {_yaml(question + '?' if name else title)}",
        f"subtitle: {_yaml(subtitle)}",
        "lang: en",
        "format:",
        "  revealjs:",
        f"    width: {SIZE[0]}",
        f"    height: {SIZE[1]}",
        "    slide-number: true",
        "    html-math-method: mathml",
        "    css: reveal/dist/theme/look.css",
    ]
    source = "---\n" + "\n".join(front) + "\n---\n\n" + text
    (folder / f"{slug}.qmd").write_text(source, encoding="utf-8")
    if show:
        variables = {
            "revealjs-url": "reveal",
            "theme": "look",
            "width": str(SIZE[0]),
            "height": str(SIZE[1]),
            "slideNumber": "true",
            "transition": "none",
            "hash": "true",
            "center": "false",
        }
        options = [o for pair in variables.items() for o in ("-V", "=".join(pair))]
        html = _pandoc(folder, source, "-f", _MARKDOWN, "-t", "revealjs", "-s", "--mathml", "--slide-level=2", *options)
        (folder / f"{slug}.html").write_text(_mended(html), encoding="utf-8")
    return len(made)


def _pandoc(folder: Path, text: str, *arguments: str) -> str:
    try:
        return build_print._pandoc(folder, text, *arguments)
    except SystemExit as error:
        raise NoDeck(str(error)) from None


def _mended(html: str) -> str:
    """Readers may zoom, slides stand upright on a phone, and the comments of pandoc's template go."""
    html = html.replace(", maximum-scale=1.0, user-scalable=no, minimal-ui", "")
    for side, wide, upright in zip(("width", "height"), SIZE, UPRIGHT, strict=True):
        html = html.replace(f"{side}: {wide},", f"{side}: innerWidth < 500 ? {upright} : {wide},")
    html = html.replace(
        "Reveal.initialize({",
        "Reveal.initialize({\n scrollActivationWidth: 500, scrollLayout: 'compact', scrollSnap: false,",
        1,
    )
    return re.sub(r"^ *//.*\n", "", html, flags=re.M)


def article(html: str) -> str:
    """The chapter's text of a page that the preview built."""
    found = BeautifulSoup(html, "html.parser").find("article")
    return "".join(map(str, found.contents)) if found else html


def chapters(root: Path, only: Sequence[str] = ()) -> tuple[list[tuple[str, str, str]], dict[str, bytes]]:
    """Slug, address and text of the chapters that have exercises, and the drawings that the build made."""
    from mlsysim.course.exercises import OBJECTIVES

    wanted = [s for s in OBJECTIVES if not only or s in only]
    build, pages = read_chapters(root, wanted)
    if build.problems:
        raise NoDeck("\n".join(build.problems))
    return [(Path(c.page.source).stem, c.page.url, c.page.body) for c in pages], build.files


def digest(folder: Path) -> str:
    """A short digest of all decks, to say whether two runs agree."""
    found = sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()[:12]


def make(out: Path, only: Sequence[str] = ()) -> dict[str, int]:
    """All decks into a folder, which is emptied of earlier ones; the number of slides by slug."""
    pages, files = chapters(ROOT, only)
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("*.qmd"), *out.glob("*.html")):
        old.unlink()
    shutil.rmtree(out / "figures", ignore_errors=True)
    try:
        vendored(out)
        show = True
    except Missing as error:
        print(f"slides: no HTML, only the .qmd files, since reveal.js is missing: {error}", file=sys.stderr)
        show = False
    made = {slug: write(out, slug, url, body, files, show) for slug, url, body in pages}
    (out / "index.html").write_text(_index(list(made), show), encoding="utf-8")
    return made


def _index(slugs: Sequence[str], show: bool) -> str:
    """A page that lists the decks; only the .qmd files where there is no HTML."""
    items = []
    for slug in slugs:
        title = f"{slug[:2]} {slug[3:].replace('-', ' ').capitalize()}"
        deck = f'<a href="{slug}.html">{title}</a>' if show else title
        items.append(f'<li>{deck} (<a href="{slug}.qmd">source</a>)</li>')
    style = "body{font:18px/1.5 system-ui,sans-serif;max-width:44em;margin:2em auto;padding:0 1em}"
    said = (
        "Arrow keys turn the pages, S opens the view of the speaker with what may be said, F fills the screen, and "
        "<code>?print-pdf</code> behind the address makes pages to print. The sources are for pandoc and for Quarto."
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Slides</title><style>{style}</style></head><body><h1>Slides</h1><p>{said}</p><ul>\n"
        + "\n".join(items)
        + "\n</ul></body></html>\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", default=OUT, help="folder of the decks (default: _slides)")
    parser.add_argument("--only", nargs="*", default=[], metavar="SLUG")
    parser.add_argument("--parts", action="store_true", help="first make the generated parts of the book")
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    if given.parts and (done := subprocess.run([sys.executable, "scripts/make_book_parts.py"], cwd=ROOT)).returncode:
        return done.returncode
    try:
        made = make(given.out.resolve(), given.only)
    except NoDeck as error:
        print(f"slides: {error}", file=sys.stderr)
        return 1
    size = sum(p.stat().st_size for p in given.out.rglob("*") if p.is_file()) / 1e6
    print(
        f"{len(made)} decks of {sum(made.values())} slides in {given.out}, {size:.1f} MB, {time.perf_counter() - start:.0f} s"
    )
    return 0
