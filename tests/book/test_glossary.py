"""The glossary: every term is linked where it is introduced, and every link finds its term."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import book_glossary  # noqa: E402

LINK = re.compile(r"\(glossary\.qmd#(gl-[a-z0-9-]+)\)")
CHAPTERS = sorted((ROOT / "book").glob("[0-9]*.qmd"))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda p: p.stem)
def test_links_find_their_terms_and_terms_are_linked_where_they_are_introduced(chapter: Path) -> None:
    known = {t.anchor: t for t in book_glossary.terms()}
    linked = LINK.findall(chapter.read_text(encoding="utf-8"))
    assert not [a for a in linked if a not in known]
    assert not [t.term for a, t in known.items() if t.chapter == chapter.stem and a not in linked]


def test_a_term_is_one_sentence_or_two_in_plain_words() -> None:
    for t in book_glossary.terms():
        assert t.says.endswith("."), t
        assert 5 <= len(t.says.split()) <= 60, t


@pytest.mark.parametrize(
    ("name", "written", "says"),
    [
        ("01-a.toml", '[X]\nterm = "x"\nsays = "y."\n', "small letters"),
        ("01-a.toml", '[x]\nterm = "x"\n', "unknown or missing"),
        ("01-a.toml", '[x]\nterm = "x"\nsays = "y."\nsee = "z"\n', "unknown or missing"),
        ("02-b.toml", '[roof]\nterm = "x"\nsays = "y."\n', "already in 01-iron"),
    ],
)
def test_a_wrong_entry_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, written: str, says: str
) -> None:
    (tmp_path / "glossary").mkdir()
    (tmp_path / "glossary" / "01-iron.toml").write_text('[roof]\nterm = "roof"\nsays = "Above."\n')
    (tmp_path / "glossary" / name).write_text(written)
    monkeypatch.setattr(book_glossary, "BOOK", tmp_path)
    with pytest.raises(ValueError, match=says):
        book_glossary.terms()
