"""Build the book to hold: ``_print/mlsysim-book.pdf`` and ``.epub``, from the same text as the site.

    python scripts/build_print.py pdf|epub|both [--out _print] [--only SLUG ...] [--root .] [--parts] [--site-url URL]

The reading is the preview's (numbers, cross-references, citations, notebook cells), so that it is the same with Quarto on
the PATH and without; pandoc writes the EPUB and the words for typst, which sets the pages. ``--parts`` first makes the
generated parts of the book, as ``make book`` does.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import pypandoc  # noqa: E402
import typst  # noqa: E402
from printing.paper import typst_tree  # noqa: E402
from printing.stills import Folder, formulas, join, slug, still  # noqa: E402

from book._preview.__main__ import read_chapters  # noqa: E402
from book._preview.render import Node, walk  # noqa: E402
from book._preview.source import Build  # noqa: E402

HERE = Path(__file__).resolve().parent / "printing"
NAME = "mlsysim-book"
LOOKED_UP = (
    "book/reference/"  # pages of the site alone: nobody reads a reference of a thousand names from front to back
)
STANDARD: Final = "ua-1"  # PDF/UA: tagged, with a title, a language and a text for every picture and formula


@dataclass(frozen=True)
class Printed:
    """The book as one tree, with what stands on its cover."""

    tree: dict[str, Any]
    parts: dict[str, str]  # of the page that begins a part: its name
    about: dict[str, str]


def _pandoc(folder: Path, text: str, *arguments: str) -> str:
    done = subprocess.run(
        [pypandoc.get_pandoc_path(), *arguments],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
    )
    if done.returncode or done.stderr.strip():
        raise SystemExit(f"build_print: pandoc: {done.stderr.strip()[:2000]}")
    return done.stdout


def _live(root: Path, page_slug: str, html: str) -> str:
    """A chapter's live parts, as its page shows them first; only the book of this repository has any."""
    if root != ROOT or "live-here" not in html:
        return html
    from live import pages  # it runs what a chapter shows, or reads it from its cache

    return pages.filled(page_slug, html)


def read(root: Path, folder: Path, only: Sequence[str] = (), site: str = "") -> Printed:
    """The book at ``root`` as one tree; its figures go into ``folder``."""
    build, chapters = read_chapters(root, only, LOOKED_UP)
    kept = Folder(folder, site or str(build.book.get("book.site-url", "")))
    kept.site += "/" if kept.site and not kept.site.endswith("/") else ""
    pages, parts, part = {}, {}, ""
    for chapter in chapters:
        page = chapter.page
        html = _live(root, Path(page.source).stem, page.body)
        pages[page.url] = still(kept, page.url, html, build.files, root)
        if page.part and page.part != part:
            parts[slug(page.url)] = page.part
        part = page.part
    html = join(kept, pages)
    problems = [*build.problems, *(p for p in kept.problems if not (only and p.startswith("no anchor")))]
    if problems:
        raise SystemExit("\n".join([*problems, f"build_print: {len(problems)} problem(s), nothing written"]))
    tree = formulas(json.loads(_pandoc(folder, html, "-f", "html", "-t", "json")))
    return Printed(tree, parts, _about(build))


def _about(build: Build) -> dict[str, str]:
    says = {key: str(build.book.get(f"book.{key}", "")) for key in ("title", "subtitle", "author", "date")}
    says["rights"] = str(build.book.get("book.license", ""))
    return says | {"lang": str(build.book.get("lang", "en")), "author": says["author"] or "unknown"}


def _fonts() -> list[str]:
    """typst brings serif and typewriter letters; the sans-serif of the drawings is the one that matplotlib brings."""
    import matplotlib

    return [str(Path(matplotlib.get_data_path()) / "fonts" / "ttf")]


def _cover(printed: Printed, folder: Path, ppi: float = 110) -> bytes:
    shutil.copyfile(HERE / "cover.typ", folder / "cover.typ")
    made = typst.compile(
        str(folder / "cover.typ"),
        format="png",
        ppi=ppi,
        sys_inputs=printed.about,
        font_paths=_fonts(),
        ignore_system_fonts=True,
    )
    return made


def make_pdf(printed: Printed, folder: Path, out: Path) -> None:
    """Set the pages with typst, tagged as PDF/UA."""
    tree = printed.tree | {"blocks": typst_tree(printed.tree["blocks"], printed.parts)}
    body = _pandoc(folder, json.dumps(tree), "-f", "json", "-t", "typst", "--wrap=preserve")
    (folder / "body.typ").write_text(f'#import "look.typ": *\n{body}', "utf-8")
    for name in ("book.typ", "look.typ", "cover.typ"):
        shutil.copyfile(HERE / name, folder / name)
    made = typst.compile(
        str(folder / "book.typ"),
        sys_inputs=printed.about,
        pdf_standards=[STANDARD],
        font_paths=_fonts(),
        ignore_system_fonts=True,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(made)


def make_epub(printed: Printed, folder: Path, out: Path) -> None:
    """Pandoc's EPUB 3, formulas as MathML, one file a chapter."""
    blocks = []
    for block in printed.tree["blocks"]:
        if block["t"] == "Header" and block["c"][0] == 1 and block["c"][1][0] in printed.parts:
            name = printed.parts[block["c"][1][0]]
            blocks.append(
                {"t": "Header", "c": [1, [f"part-{block['c'][1][0]}", ["part"], []], [{"t": "Str", "c": name}]]}
            )
        blocks.append(block)
    about = printed.about
    meta = {key: about[key] for key in ("title", "subtitle", "author", "date", "lang", "rights") if about[key]}
    (folder / "meta.json").write_text(json.dumps(meta), "utf-8")
    (folder / "cover.png").write_bytes(_cover(printed, folder))
    out.parent.mkdir(parents=True, exist_ok=True)
    options = [
        "-f",
        "json",
        "-t",
        "epub3",
        "--mathml",
        "--split-level=1",
        "--toc",
        "--toc-depth=2",
        f"--css={HERE / 'epub.css'}",
    ]
    options += ["--metadata-file=meta.json", "--epub-cover-image=cover.png", "-o", str(out.resolve())]
    _pandoc(folder, json.dumps(printed.tree | {"blocks": walk(blocks, _outer)}), *options)


def _outer(node: Node) -> list[Node] | None:
    """The name of a figure goes to a block around it: pandoc 3.9 finds no figure that links of other files mean."""
    if node["t"] != "Figure" or not node["c"][0][0]:
        return None
    (name, *attributes), *rest = node["c"]
    return [{"t": "Div", "c": [[name, [], []], [{"t": "Figure", "c": [["", *attributes], *rest]}]]}]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pdf", "epub", "both"))
    parser.add_argument("--out", type=Path, default=ROOT / "_print")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--only", nargs="*", default=[], metavar="SLUG", help="a few pages, for a trial")
    parser.add_argument("--parts", action="store_true", help="first make the generated parts of the book")
    parser.add_argument("--site-url", default="", help="address of the site, for links to what is no page of the book")
    parser.add_argument("--keep", type=Path, help="keep what pandoc and typst read, in this folder")
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    if given.parts:
        done = subprocess.run([sys.executable, "scripts/make_book_parts.py"], cwd=ROOT)
        if done.returncode:
            return done.returncode
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        printed = read(given.root.resolve(), folder, given.only, given.site_url)
        print(f"read in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        for kind, make in (("pdf", make_pdf), ("epub", make_epub)):
            if given.what in (kind, "both"):
                out = given.out / f"{NAME}.{kind}"
                make(printed, folder, out)
                print(f"{out}: {out.stat().st_size / 1e6:.1f} MB, {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
