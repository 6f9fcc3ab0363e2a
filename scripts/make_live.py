"""Make the pages of a rendered site live: views, listings, questions and numbers, answered by the library itself.

    python scripts/make_live.py _site            put the live parts into the pages
    python scripts/make_live.py --engine         make the engine alone (before rendering, which copies it)

The engine (Python for the browser, pinned in book/_live/package-lock.json) comes from npm; where npm or Node is missing
the pages stay as they were printed, and say so. Where both are there, an engine that cannot be made is an error.
"""

import argparse
import sys
import time
from pathlib import Path

from live import engine, pages, plain, search
from live.engine import ROOT
from live.extract import kept, read, searches


def imports() -> list[str]:
    """What the views of all notebooks import."""
    lines = {
        line
        for slug in pages.slugs()
        for found in read(ROOT / "notebooks" / f"{slug}.ipynb")
        for line in found.code.splitlines()
        if line.startswith(("from ", "import "))
    }
    return sorted(lines)


def programs() -> list[str]:
    """The views that move once before the engine's memory is kept, so that a reader's first move finds all warm."""
    found = ((slug, f) for slug in pages.slugs() for f in read(ROOT / "notebooks" / f"{slug}.ipynb"))
    shipped = ((slug, kept(f).code if searches(f.code) else f.code) for slug, f in found)
    return [code for slug, code in shipped if pages.is_kept_warm(slug, code)]


def make_engine() -> str | None:
    """The engine's digest, or None with a line that says what is missing."""
    try:
        return engine.make(imports(), programs())
    except engine.Missing as reason:
        print(f"live: no engine, so pages stay as they are printed: {reason}", file=sys.stderr)
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, nargs="?", help="the folder of the rendered site")
    parser.add_argument("--engine", action="store_true", help="make the engine alone")
    parser.add_argument("--only", metavar="SLUG", help="run what one chapter shows; the others keep their places empty")
    asked = parser.parse_args()
    start = time.perf_counter()
    if asked.engine or asked.site is None:
        made = make_engine()
        print(f"live: engine {made} in {time.perf_counter() - start:.0f} s")
        return
    counts = pages.put(
        asked.site.resolve(),
        pages.engine_of(asked.site),
        [asked.only] if asked.only else None,
    )
    counts["pages as Markdown"] = plain.put(asked.site.resolve())
    if (asked.site / "site_preview").is_dir():
        counts["sections to search"] = search.put(asked.site.resolve())
    print(f"live: {', '.join(f'{n} {kind}' for kind, n in counts.items())} in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
