"""``python -m book._preview [--out _site]``: build the preview and say where it is; ``make serve`` serves it."""

import argparse
import contextlib
import functools
import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import memo
from .check_site import ELSEWHERE, check_site
from .config import Problems, read_book
from .page import SCRIPTS, frame, style
from .render import Chapter, Label, Numbering, citation_keys, parse, resolve, write
from .source import Build, expand


def read_chapters(root: Path, only: Sequence[str] = (), without: str = "") -> tuple[Build, list[Chapter]]:
    """Every chapter of the book at ``root`` with its numbers and references, and ``page.body`` written (of all, or ``only``).

    Pages in the folder ``without`` are read, so that others may refer to them, but not written.
    """
    problems = Problems()
    build = Build(read_book(root, problems), problems)
    with no_search_for_garbage():
        return build, _read(build, only, without)


@contextlib.contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Syntax trees hold no circles, and Python would walk through all of them again and again: a third of a build's time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _read(build: Build, only: Sequence[str], without: str) -> list[Chapter]:
    sources = [expand(build, page) for page in build.book.pages]
    labels: dict[str, Label] = {}
    with ThreadPoolExecutor(4) as pool:  # pandoc is a process of its own, so threads are enough
        keys = pool.submit(citation_keys, build)
        chapters = list(pool.map(functools.partial(parse, build), sources))
        for chapter in chapters:
            Numbering(build, chapter, labels).run()
        for chapter in chapters:
            resolve(build, chapter, labels, keys.result())
        kept = [c for c in chapters if not without or not c.page.source.startswith(without)]
        wanted = [c for c in kept if not only or Path(c.page.source).stem in only]
        list(pool.map(functools.partial(write, build), wanted))
    return wanted


def build_site(root: Path, out: Path) -> Build:
    """Build the book at ``root`` into ``out``. With any problem ``out`` stays as it was."""
    build, _ = read_chapters(root)
    memo.forget()
    problems = build.problems
    if not problems:  # half a site would only repeat what is known
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".preview-") as folder:
            _write_site(build, Path(folder) / "new")
            with no_search_for_garbage():
                problems.extend(check_site(Path(folder) / "new", later=ELSEWHERE))
            if not problems:
                _replace(out, Path(folder) / "new", Path(folder) / "old")
    return build


def _replace(out: Path, new: Path, old: Path) -> None:
    """Put ``new`` in the place of ``out``; what other commands put into the site stays."""
    if out.exists():
        out.rename(old)
        for name in ELSEWHERE:
            if (old / name).exists() and not (new / name).exists():
                (old / name).rename(new / name)
    new.rename(out)


def _write_site(build: Build, site: Path) -> None:
    root, book = build.book.root, build.book
    for path in book.paths("project.resources") + book.paths("format.html.css"):
        for source in root.glob(path):
            if source.is_dir():
                shutil.copytree(source, site / source.relative_to(root), dirs_exist_ok=True)
            else:
                build.copies.add(source.relative_to(root).as_posix())
    for copy in build.copies:
        (site / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / copy, site / copy)
    files = build.files | {"site_preview/preview.css": style(book).encode()}
    files |= {f"site_preview/{script.name}": script.read_bytes() for script in SCRIPTS}
    files |= {page.url: frame(book, page).encode() for page in book.pages}
    for name, content in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(content)


def _may_replace(out: Path, root: Path) -> bool:
    """Whether ``out`` is free, empty or an earlier site, and not a folder that holds the book itself."""
    if root.is_relative_to(out):
        return False
    earlier_site = (out / "index.html").is_file() and not (out / "_quarto.yml").exists()
    return not out.exists() or not any(out.iterdir()) or earlier_site


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m book._preview", description="Build the book, strictly.")
    parser.add_argument("--out", type=Path, help="where the site goes (default: output-dir of _quarto.yml)")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the folder of _quarto.yml")
    given = parser.parse_args(arguments)
    root = given.root.resolve()
    out = (given.out or root / read_book(root, Problems()).get("project.output-dir", "_site")).resolve()
    if not _may_replace(out, root):
        print(f"{out.name} is neither empty nor an earlier site: choose another --out", file=sys.stderr)
        return 2
    start = time.perf_counter()
    build = build_site(root, out)
    if build.problems:
        summary = f"preview build: {len(build.problems)} problem(s), no site written"
        print("\n".join([*sorted(build.problems), summary]), file=sys.stderr)
        return 1
    print(f"preview build: {len(build.book.pages)} pages in {time.perf_counter() - start:.1f} s, {out}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
