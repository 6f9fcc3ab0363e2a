"""Stamp the addresses of pyproject's ``[tool.mlsysim]`` into what is published; the publishing workflow calls it.

    python scripts/stamp.py [OWNER/REPOSITORY] FOLDER_OR_FILE ...
    python scripts/stamp.py --version

The second stamps the version, which stands in ``mlsysim/__init__.py`` alone, into the citation and into every notebook, each of
which says for which series of versions it was written.

In pages, ``OWNER/REPOSITORY`` becomes the repository (until then a stylesheet hides the Colab links) and
``https://OWNER.github.io/REPOSITORY`` the site. In notebooks, the install cell takes the distribution from that repository
until it is on the package index. A citation file gets the repository, the site and, where there is one, the DOI, and
``pyproject.toml`` the addresses that an index shows. A
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
SERIES = re.compile(r"""(startswith\(\\?")\d+\.\d+(?=\.\\?"\))|(for mlsysim-book )\d+\.\d+(?=, not )""")
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


def listed(text: str, to: Addresses) -> str:
    """pyproject.toml with the addresses that an index shows; a second time changes nothing."""
    text = re.sub(r"^\[project\.urls\]\n(?:\w+ = .*\n)+\n", "", text, flags=re.M)
    code = f"https://github.com/{to.repository}"
    urls = {
        "Homepage": to.site,
        "Source": code,
        "Changelog": f"{code}/blob/main/CHANGELOG.md",
        "Issues": f"{code}/issues",
    }
    table = "[project.urls]\n" + "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    return text.replace("[project.scripts]", f"{table}\n[project.scripts]", 1)


def series(version: str) -> str:
    """The part of a version within which nothing public changes its name.

    >>> series("1.0.0rc1")
    '1.0'
    """
    return ".".join(version.split(".")[:2])


def library_version(root: Path = ROOT) -> str:
    """The version that the library says it has."""
    found = re.search(
        r'^__version__ = "([^"]+)"$', (root / "mlsysim" / "__init__.py").read_text(encoding="utf-8"), re.M
    )
    if found is None:
        raise SystemExit("stamp: mlsysim/__init__.py says no version")
    return found[1]


def versioned(text: str, version: str) -> str:
    """A citation file or a notebook with this version in it; a second time changes nothing."""
    text = re.sub(r"^version: .*$", f"version: {version}", text, flags=re.M)
    return SERIES.sub(lambda m: f"{m[1] or m[2]}{series(version)}", text)


def stamp_version(root: Path = ROOT) -> int:
    """Stamp the library's version; how many files changed."""
    version, changed = library_version(root), 0
    places = [
        root / "CITATION.cff",
        *(p for room in ("notebooks", "exercises") for p in (root / room).rglob("*.ipynb")),
    ]
    for path in places:
        before = path.read_text(encoding="utf-8")
        if (after := versioned(before, version)) != before:
            path.write_text(after, encoding="utf-8")
            changed += 1
    print(f"stamped version {version} into {changed} files")
    return 0


def main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        return stamp_version()
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
            if path.name == "pyproject.toml":
                after = listed(before, to)
            else:
                after = cite(before, to) if path.suffix == ".cff" else stamp(before, to, path.suffix == ".ipynb")
            if after != before:
                path.write_text(after, encoding="utf-8")
                changed += 1
    print(f"stamped {to.repository} into {changed} files")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
