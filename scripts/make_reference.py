"""Write the reference pages of the book: the library by its docstrings, the command line by its parsers, JSON by its schemas.

    python scripts/make_reference.py [--check]

Writes ``book/reference/*.qmd``; ``scripts/make_book_parts.py`` does so too. ``--check`` fails if one of them is not what the
library says today.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from reference import commands, pages, schemas

ROOT = Path(__file__).resolve().parent.parent
HEADER = "<!-- Written by scripts/make_reference.py from the library: change the library, not this file. -->\n"


LABELLED = re.compile(
    r"\$\$((?:(?!\$\$).)*)\$\$\s*\{#(eq-[\w-]+)\}", re.S
)  # a display without a label may stand before it


def latex_by_label() -> dict[str, str]:
    """The LaTeX of every labelled equation, from the one place it stands: its chapter."""
    found = {}
    for chapter in sorted((ROOT / "book").glob("[0-9]*.qmd")):
        for body, label in LABELLED.findall(chapter.read_text(encoding="utf-8")):
            found[label] = " ".join(body.split()).rstrip(" .,")
    return found


def bibliography() -> set[str]:
    """The keys that a docstring may cite."""
    return set(re.findall(r"^@\w+\{([^,\s]+)", (ROOT / "references.bib").read_text(encoding="utf-8"), re.M))


def texts() -> dict[str, str]:
    """Every page by its path, with its title first, as Quarto wants it."""
    found = pages.Pages(latex_by_label(), bibliography()).files()
    found[f"{pages.FOLDER}/command-line.qmd"] = commands.page()
    found[f"{pages.FOLDER}/schemas.qmd"] = schemas.page()
    return {name: text.replace("\n", f"\n\n{HEADER}", 1).rstrip("\n") + "\n" for name, text in found.items()}


def write(make: Callable[[], Mapping[str, str]]) -> int:
    """Write what differs from what stands there, and remove pages that nobody makes any more; with ``--check`` only name them."""
    parser = argparse.ArgumentParser(description="Write generated parts of the book from the library.")
    parser.add_argument("--check", action="store_true", help="fail if one of them is not what the library says today")
    check, made = parser.parse_args().check, make()
    gone = {p.relative_to(ROOT).as_posix() for p in (ROOT / pages.FOLDER).glob("*.qmd")} - set(made)
    stale = [n for n, t in made.items() if not (ROOT / n).exists() or (ROOT / n).read_text(encoding="utf-8") != t]
    if not check:
        for name in gone:
            (ROOT / name).unlink()
        for name in stale:
            (ROOT / name).write_text(made[name], encoding="utf-8")
    if found := sorted([*gone, *stale]):
        print(("not what the library says today: " if check else "written: ") + ", ".join(found), file=sys.stderr)
    return 1 if check and found else 0


if __name__ == "__main__":
    raise SystemExit(write(texts))
