"""Every registered equation has its chapter, its source, its notebook cell and its exercise; comments do not count."""

import re
from pathlib import Path

import pytest
from made import executed, run
from support import ROOT

from mlsysim import catalog
from mlsysim.course import exercises
from mlsysim.equations import REGISTRY, recording, registered

registered()


def visible_prose(path: Path) -> str:
    """A chapter without comments and code."""
    text = re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def defined_in(text: str) -> list[str]:
    return re.findall(r"^\$\$(?:(?!\$\$).)*\$\$\s*\{#(eq-[\w-]+)\}", text, flags=re.S | re.M)


# The chapter that derives an equation is the one that has its label.
LABELS = {path.stem: defined_in(visible_prose(path)) for path in sorted((ROOT / "book").glob("[0-9]*.qmd"))}
SLUGS = [slug for slug, labels in LABELS.items() if labels]


def labels_of(slug: str) -> set[str]:
    return set(LABELS[slug])


def test_each_equation_is_derived_once_in_one_chapter() -> None:
    seen = [label for labels in LABELS.values() for label in labels]
    assert len(seen) == len(set(seen))
    assert set(REGISTRY) - set(seen) == set(), "derive each in the chapter of its subject: $$ ... $$ {#eq-label}"
    assert set(seen) - set(REGISTRY) == set(), "give each its function: @equation(label, ...)"


def test_each_source_is_in_the_bibliography(root: Path) -> None:
    keys = set(re.findall(r"^@\w+\{([^,]+),", (root / "references.bib").read_text(encoding="utf-8"), re.M))
    assert {e.source for e in REGISTRY.values()} <= keys
    assert {s.source for d in catalog.devices().values() for s in d.fields.values()} <= keys


def test_no_equation_rests_on_a_document_under_examination(root: Path) -> None:
    """What the book puts to the test carries nothing; and a reader can open it."""
    examined = {"rooflinepage2026", "tam2026", "hespas2026"}
    assert {e.label for e in REGISTRY.values() if e.source in examined} == set()
    entries = dict(
        re.findall(r"^@\w+\{([^,]+),(.*?)^\}", (root / "references.bib").read_text(encoding="utf-8"), re.M | re.S)
    )
    assert all("url" in entries[key] for key in examined)


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
def test_the_notebook_calls_every_equation_of_its_chapter(slug: str, root: Path, shared: Path) -> None:
    called = executed(root / "notebooks" / f"{slug}.ipynb", shared).called
    assert labels_of(slug) - set().union(*called.values()) == set(), (
        "call each in a cell; then scripts/run_notebooks.py"
    )


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
def test_the_slider_views_together_touch_every_equation(slug: str, root: Path, shared: Path) -> None:
    called = executed(root / "notebooks" / f"{slug}.ipynb", shared).called
    views = [labels for cell, labels in called.items() if cell.startswith("view-")]
    assert len(views) >= len(exercises.OBJECTIVES[slug]), "one slider view per objective"
    assert all(views), "every slider view calls the library"
    assert labels_of(slug) - set().union(*views) == set(), (
        "a slider view, a cell whose id starts with view-, calls each"
    )


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
def test_the_exercises_together_touch_every_equation(slug: str) -> None:
    with recording() as called:
        for exercise in exercises.assignment(slug):
            exercises.check(exercise.id, 1.0)
    assert labels_of(slug) - called == set(), (
        f"an exercise of mlsysim/course/exercises/chapters/{slug}.toml asks for each"
    )


def test_a_label_in_a_comment_or_in_code_does_not_count(tmp_path: Path) -> None:
    page = tmp_path / "x.qmd"
    page.write_text("<!-- $$ x $$ {#eq-iron-law} -->\n```\n$$ x $$ {#eq-ridge-point}\n```\n$$ x $$ {#eq-dispatch}\n")
    assert defined_in(visible_prose(page)) == ["eq-dispatch"]


@pytest.mark.slow
def test_a_cell_that_only_mentions_an_equation_does_not_count(tmp_path: Path) -> None:
    cells = ["from mlsysim import roofline", "# eq-iron-law\nroofline.iron_law", "roofline.ridge_point(1.0, 1.0);", "1"]
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c, id=f"c{i}") for i, c in enumerate(cells)])
    nbformat.write(notebook, tmp_path / "n.ipynb")
    called = run(tmp_path / "n.ipynb", tmp_path / "run").called
    assert called == {"c0": set(), "c1": set(), "c2": {"eq-ridge-point"}, "c3": set()}
