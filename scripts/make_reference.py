"""Write the reference pages of the book: the library by its docstrings, the command line by its parsers, JSON by its schemas.

    python scripts/make_reference.py [--check]

Writes ``book/reference/*.qmd``; ``scripts/make_book_parts.py`` does so too. ``--check`` fails if one of them is not what the
library says today.
"""

import argparse
import re
import sys
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = texts()
    known = {p.relative_to(ROOT).as_posix() for p in (ROOT / pages.FOLDER).glob("*.qmd")}
    stale = sorted(known - set(made))
    for name in stale if not check else []:
        (ROOT / name).unlink()
    for name, text in made.items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if stale:
        print(("not what the library says today: " if check else "written: ") + ", ".join(stale), file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
