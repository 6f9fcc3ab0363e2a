"""Stamp the addresses of pyproject's ``[tool.mlsysim]`` into what is published; the publishing workflow calls it.

    python scripts/stamp.py [OWNER/REPOSITORY] FOLDER_OR_FILE ...

In pages, ``OWNER/REPOSITORY`` becomes the repository (until then a stylesheet hides the Colab links) and
``https://OWNER.github.io/REPOSITORY`` the site. In notebooks, the install cell takes the distribution from that repository
until it is on the package index. A citation file gets the repository, the site and, where there is one, the DOI. A
repository given here wins over the one in pyproject, so that a fork stamps its own.
"""

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = "OWNER/REPOSITORY"
SITE = "https://OWNER.github.io/REPOSITORY"
INSTALL = re.compile(r"( {4}%pip install -q )mlsysim-book(?=\\n|\")")


@dataclass(frozen=True)
class Addresses:
    """Where the book, its repository and its distribution are."""

    repository: str = ""
    site_url: str = ""
    colab_branch: str = "colab"
    index_name: str = "mlsysim-book"
    on_index: bool = False
    doi: str = ""

    @property
    def site(self) -> str:
        """The address of the site, without a slash at its end.

        >>> Addresses("a/b").site, Addresses().site
        ('https://a.github.io/b', '')
        """
        owner, _, name = self.repository.partition("/")
        return self.site_url.rstrip("/") or (f"https://{owner}.github.io/{name}" if name else "")


def addresses(repository: str = "", pyproject: Path = ROOT / "pyproject.toml") -> Addresses:
    """What pyproject says, with another repository if one is given."""
    said = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("tool", {}).get("mlsysim", {})
    known = {key.replace("-", "_"): value for key, value in said.items()}
    if repository and repository != known.get("repository"):
        known |= {"repository": repository, "site_url": ""}
    return Addresses(**known)


def stamp(text: str, to: Addresses, is_notebook: bool = False) -> str:
    """The text of a page, a notebook or a form with the addresses in it."""
    text = text.replace(SITE, to.site or SITE).replace(PLACEHOLDER, to.repository)
    text = text.replace(f"{to.repository}/blob/colab/", f"{to.repository}/blob/{to.colab_branch}/")
    if is_notebook:
        source = f"{to.index_name}[plot,widgets]" + (
            "" if to.on_index else f" @ git+https://github.com/{to.repository}"
        )
        text = INSTALL.sub(lambda m: f'{m[1]}\\"{source}\\"', text)
    return text


def cite(text: str, to: Addresses) -> str:
    """A citation file with the addresses in it; a second time changes nothing."""
    fields = {"repository-code": f"https://github.com/{to.repository}", "url": to.site, "doi": to.doi}
    for key, value in fields.items():
        text = re.sub(rf"^{key}:.*\n", "", text, flags=re.M)
        if value:
            text = re.sub(r"^(license:)", rf'{key}: "{value}"\n\1', text, count=1, flags=re.M)
    return text


def main(arguments: list[str]) -> int:
    given = (
        arguments[:1]
        if arguments and re.fullmatch(r"[\w.-]+/[\w.-]+", arguments[0]) and not Path(arguments[0]).exists()
        else []
    )
    to, places = addresses("".join(given)), arguments[len(given) :]
    if not to.repository or not places:
        print(
            f"stamp: give OWNER/REPOSITORY (or set it in pyproject) and a folder or file, not {arguments!r}",
            file=sys.stderr,
        )
        return 2
    changed = 0
    for place in map(Path, places):
        files = (
            [p for end in ("html", "ipynb", "yml", "md") for p in place.rglob(f"*.{end}")]
            if place.is_dir()
            else [place]
        )
        for path in sorted(files):
            before = path.read_text(encoding="utf-8")
            after = cite(before, to) if path.suffix == ".cff" else stamp(before, to, path.suffix == ".ipynb")
            if after != before:
                path.write_text(after, encoding="utf-8")
                changed += 1
    print(f"stamped {to.repository} into {changed} files")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
