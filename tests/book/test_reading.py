"""What a chapter owes its reader: drawings before formulas, words said once."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "book").glob("[0-9]*.qmd"))
EMBED = re.compile(r"\{\{< embed \.\./notebooks/([\w-]+)\.ipynb#((?:fig|tbl)-[\w-]+) >\}\}")


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda p: p.stem)
def test_a_chapter_draws_what_it_speaks_of(chapter: Path) -> None:
    labels = [label for _, label in EMBED.findall(chapter.read_text(encoding="utf-8"))]
    assert sum(label.startswith("fig-draw-") for label in labels) >= 2


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda p: p.stem)
def test_every_drawing_is_spoken_of_and_said_in_words(chapter: Path) -> None:
    text = chapter.read_text(encoding="utf-8")
    notebook = json.loads((ROOT / "notebooks" / f"{chapter.stem}.ipynb").read_text(encoding="utf-8"))
    cells = {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}
    for _, label in EMBED.findall(text):
        if not label.startswith("fig-draw-"):
            continue
        assert f"@{label}" in text, f"{label} stands there without a word about it"
        for option in ("fig-cap", "fig-alt"):
            said = re.search(rf'^#\| {option}: "(.+)"$', cells[label], re.M)
            assert said is not None, (label, option)
            assert len(said[1].split()) >= 8, (label, option)


def test_no_formula_has_lost_its_backslashes() -> None:
    """A backslash that a program read as an escape leaves a tab, a form feed or a lone ``ight`` behind."""
    for page in sorted((ROOT / "book").glob("*.qmd")):
        text = page.read_bytes().decode("utf-8")
        assert not re.search(r"[\x00-\x08\x09\x0b\x0c\r]", text), f"{page.name}: a control character"
        for formula in re.findall(r"\$\$(.*?)\$\$", text, re.S):
            assert not re.search(r"(?<![\\a-zA-Z])(rac\{|ight\b|ext\{)", formula), f"{page.name}: {formula}"
