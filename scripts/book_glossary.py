"""The glossary of the book, from the terms that each chapter introduces (``book/glossary/SLUG.toml``)."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

BOOK = Path(__file__).resolve().parent.parent / "book"
KEYS = {"term", "says", "also"}


class Term(NamedTuple):
    """A word of the field: what it says and the chapter that introduces it."""

    key: str
    term: str
    says: str
    also: tuple[str, ...]
    chapter: str

    @property
    def anchor(self) -> str:
        return f"gl-{self.key}"


def terms() -> list[Term]:
    """All of them, in the order of the alphabet; one that is written twice or lacks something is an error."""
    found: dict[str, Term] = {}
    for path in sorted((BOOK / "glossary").glob("*.toml")):
        for key, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if not re.fullmatch(r"[a-z0-9-]+", key):
                raise ValueError(f"{path.name}: [{key}]: use small letters, digits and hyphens")
            if wrong := set(entry) - KEYS or {"term", "says"} - set(entry):
                raise ValueError(f"{path.name}: [{key}]: {sorted(wrong)} is unknown or missing; use {sorted(KEYS)}")
            if key in found:
                raise ValueError(f"{path.name}: [{key}] is already in {found[key].chapter}.toml")
            found[key] = Term(key, entry["term"], entry["says"], tuple(entry.get("also", ())), path.stem)
    return sorted(found.values(), key=lambda t: t.term.lower())


def text() -> str:
    """The entries, by letter, each with the chapter that introduces it."""
    parts, letter = [], ""
    for t in terms():
        first = t.term[0].upper()
        if first.isalpha() and first != letter:
            letter = first
            parts.append(f"## {letter} {{.unnumbered #gl--{letter.lower()}}}\n\n")
        also = f" (also {', '.join(t.also)})" if t.also else ""
        parts.append(f"[**{t.term}**]{{#{t.anchor}}}{also}\n: {t.says} @{_section(t.chapter)}\n\n")
    return "".join(parts)


def _section(slug: str) -> str:
    """The label of a chapter's title."""
    found = re.search(r"^# .*\{#(sec-[\w-]+)", (BOOK / f"{slug}.qmd").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise ValueError(f"book/{slug}.qmd: its title has no label {{#sec-...}}")
    return found[1]
