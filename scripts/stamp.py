"""Stamp a repository's own address into Colab links and install cells; the publishing workflow calls it.

    python scripts/stamp.py OWNER/REPOSITORY FOLDER [FOLDER ...]

In pages, ``OWNER/REPOSITORY`` becomes the repository (until then a stylesheet hides the Colab links). In notebooks,
the install cell takes the distribution from that repository, since it is not on the package index.
"""

import re
import sys
from pathlib import Path

PLACEHOLDER = "OWNER/REPOSITORY"
INSTALL = "    %pip install -q mlsysim-book\\n"


def stamp(text: str, repository: str, is_notebook: bool) -> str:
    """The text with the repository's address in it."""
    text = text.replace(PLACEHOLDER, repository)
    if is_notebook:
        source = f"mlsysim-book[plot,widgets] @ git+https://github.com/{repository}"
        text = text.replace(INSTALL, f'    %pip install -q \\"{source}\\"\\n').replace(
            INSTALL.removesuffix("\\n"), f'    %pip install -q \\"{source}\\"'
        )
    return text


def main(arguments: list[str]) -> int:
    if len(arguments) < 2 or not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments[0]):
        print(f"stamp: give OWNER/REPOSITORY and at least one folder, not {arguments!r}", file=sys.stderr)
        return 2
    repository, *folders = arguments
    changed = 0
    for folder in map(Path, folders):
        for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.ipynb")]):
            before = path.read_text(encoding="utf-8")
            after = stamp(before, repository, path.suffix == ".ipynb")
            if after != before:
                path.write_text(after, encoding="utf-8")
                changed += 1
    print(f"stamped {repository} into {changed} files")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
