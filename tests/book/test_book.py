"""The book itself: it builds without a single complaint, and breaking it makes the build complain."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from chapter_numbers import whole
from made import Book, book

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # `book` is a folder of this repository, not an installed package

from book._preview.__main__ import main  # noqa: E402
from book._preview.check_site import ELSEWHERE, Reader, check_site  # noqa: E402

CHAPTERS = sorted(p.stem for p in (ROOT / "book").glob("[0-9][0-9]-*.qmd"))
WRITTEN = [p for p in sorted((ROOT / "book").glob("*.qmd")) if "Written by scripts" not in p.read_text("utf-8")]
SOURCES = ["index.qmd", "_quarto.yml", "_variables.yml", "references.bib", "book", "notebooks", "exercises"]


@pytest.fixture(scope="module")
def built(shared: Path) -> Book:
    return book(shared)


@pytest.fixture
def copy(tmp_path: Path, shared: Path) -> Path:
    """The sources of the book, free to be broken."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "_preview"))
        else:
            shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_every_listed_page_is_built(built: Book) -> None:
    config = yaml.safe_load((ROOT / "_quarto.yml").read_text("utf-8"))["book"]
    listed = re.findall(r"[\w/.-]+\.qmd", json.dumps([config["chapters"], config["appendices"]]))
    assert [source for source, _ in built.pages] == listed
    assert all((built.site / url).is_file() for _, url in built.pages)


@pytest.mark.slow
def test_every_chapter_is_listed(built: Book) -> None:
    listed = {source for source, _ in built.pages}
    files = {p.relative_to(ROOT).as_posix() for p in (ROOT / "book").glob("[!_]*.qmd")}
    assert files <= listed


@pytest.mark.parametrize("slug", CHAPTERS)
def test_chapter_has_its_notebook_and_exercises(slug: str) -> None:
    assert (ROOT / "notebooks" / f"{slug}.ipynb").is_file()
    assert (ROOT / "exercises" / slug).is_dir()


def test_no_notebook_or_exercise_is_without_a_chapter() -> None:
    notebooks = {p.stem for p in (ROOT / "notebooks").glob("[0-9][0-9]-*.ipynb")}
    exercises = {p.name for p in (ROOT / "exercises").glob("[0-9][0-9]-*")}
    assert notebooks | exercises == set(CHAPTERS)


@pytest.mark.parametrize("slug", CHAPTERS)
def test_a_prediction_has_fields_that_all_come_back(slug: str) -> None:
    text = (ROOT / "book" / f"{slug}.qmd").read_text(encoding="utf-8")
    box, _, after = text.partition('title="Predict before you read on"}')[2].partition("\n:::\n\n## ")
    asks = re.findall(
        r'^:{3,} \{\.guess ask="[^"]+[?]" answer="[^"]+"(?: view="\w+" axis="[xy]"(?: times="[\d.]+")?)?\}\n:{3,}$',
        box,
        re.M,
    )
    back = re.findall(r'^:{3,} \{\.guessed(?: of="([\d ]+)")?\}\n:{3,}$', after, re.M)
    assert asks and back
    shown = [int(n) for of in back for n in (of.split() or range(1, len(asks) + 1))]
    assert sorted(shown) == list(range(1, len(asks) + 1))


def test_the_core_of_a_chapter_is_read_in_a_sitting() -> None:
    words = {slug[:2]: whole.core((ROOT / "book" / f"{slug}.qmd").read_text("utf-8")) for slug in CHAPTERS}
    assert {n: read for n, read in words.items() if read > 4000} == {}


def test_a_way_through_the_book_leaves_out_nothing_that_it_needs() -> None:
    texts = {int(slug[:2]): (ROOT / "book" / f"{slug}.qmd").read_text("utf-8") for slug in CHAPTERS}
    labels = {re.search(r"\{#([\w-]+)\}", text)[1]: n for n, text in texts.items()}  # type: ignore[index]
    needs = {
        n: {labels[r] for r in re.findall(r"@([\w-]+)", text.split("::: {.reading}")[1].split(":::")[0])}
        for n, text in texts.items()
    }
    assert all(need < n for n, found in needs.items() for need in found)
    missing = {name: [n for n in route if not needs[n] <= set(route)] for name, route in whole.ROUTES.items()}
    assert not any(missing.values()), missing


@pytest.mark.slow
def test_every_variable_is_used_and_every_used_one_defined(built: Book) -> None:
    assert built.variables == built.used


@pytest.mark.slow
def test_every_image_has_alternative_text(built: Book) -> None:
    texts = [
        alt for page in built.site.rglob("*.html") for alt in re.findall(r'<img[^>]*alt="([^"]*)"', page.read_text())
    ]
    assert texts
    assert all(len(alt) > 20 for alt in texts), "an alternative text says what the figure shows"


def test_every_cited_key_is_in_the_bibliography() -> None:
    known = set(re.findall(r"^@\w+\{([^,\s]+)", (ROOT / "references.bib").read_text("utf-8"), re.M))
    for path in (ROOT / "book").glob("*.qmd"):
        prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text("utf-8"), flags=re.S)
        cited = set(re.findall(r"(?<![\w@])@([a-z]+\d{4}\w*)", prose))
        assert cited <= known, path.name


def text_after_captions(text: str) -> list[str]:
    """Lines that stand right under the caption of a table; Quarto takes them, and the label, for its text."""
    return re.findall(r"^\s*: .*\{#tbl-[\w-]+\}\n(.*\S.*)$", text, re.M)


def test_a_caption_of_a_table_is_followed_by_a_blank_line() -> None:
    for path in sorted((ROOT / "book").glob("*.qmd")):
        assert text_after_captions(path.read_text("utf-8")) == [], path.name
    assert text_after_captions("  : Symbols. {#tbl-x}\n  More.\n") == ["  More."]


def test_every_embedded_cell_exists_and_is_shown_once() -> None:
    for slug in CHAPTERS:
        text = (ROOT / "book" / f"{slug}.qmd").read_text("utf-8")
        embedded = re.findall(r"\{\{< embed \.\./notebooks/([\w-]+)\.ipynb#([\w-]+)", text)
        assert embedded
        assert len(set(embedded)) == len(embedded)
        for notebook, label in embedded:
            cells = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text("utf-8"))["cells"]
            assert any(f"#| label: {label}\n" in "".join(cell["source"]) for cell in cells), label


@pytest.mark.slow
def test_site_passes_its_own_check(built: Book) -> None:
    assert check_site(built.site, ELSEWHERE) == []


@pytest.mark.slow
def test_numbers_in_the_equation_index_are_those_of_the_chapters(built: Book) -> None:
    """The number beside each equation and the number in each link to it are written in different passes."""
    shown = {}
    for page in built.site.rglob("*.html"):
        pattern = r'<span id="(eq-[\w-]+)" class="equation">.*?<span\s+class="equation-number">\(([^)]+)\)'
        shown |= dict(re.findall(pattern, page.read_text("utf-8"), re.S))
    assert len(shown) >= 10
    for page in built.site.rglob("*.html"):
        for label, number in re.findall(
            r'#(eq-[\w-]+)" class="quarto-xref">Equation\s(\S+?)</a>', page.read_text("utf-8")
        ):
            assert number == shown[label]


@pytest.mark.slow
def test_pages_are_one_outline_each(built: Book) -> None:
    for page in built.site.rglob("*.html"):
        html = page.read_text("utf-8")
        assert len(re.findall(r"<h1[ >]", html)) == 1, page.name
        assert len(re.findall(r"<main[ >]", html)) == 1
        assert Reader(html).ids.count("content") == 1


@pytest.mark.parametrize(
    "command",
    [
        ("rumdl", "check", "--no-cache"),
        ("panache", "--no-cache", "lint"),
        ("panache", "--no-cache", "format", "--check"),
    ],
    ids=lambda c: " ".join(w for w in c if not w.startswith("--no")),
)
def test_chapters_pass_the_linters(command: tuple[str, ...]) -> None:
    tool = shutil.which(command[0], path=Path(sys.executable).parent)
    assert tool, f"{command[0]} is not installed: pip install -e '.[dev]'"
    files = [str(p.relative_to(ROOT)) for p in [ROOT / "index.qmd", *WRITTEN]]
    done = subprocess.run([tool, *command[1:], *files], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# The checks themselves: break a copy of the real book in four places and see the build name each, and nothing else.


def without_alternative_text(root: Path) -> str:
    path = root / "notebooks" / f"{CHAPTERS[0]}.ipynb"
    text, n = re.subn(r'^\s*"#\| fig-alt:.*\n', "", path.read_text("utf-8"), count=1, flags=re.M)
    assert n == 1
    path.write_text(text, "utf-8")
    return rf"{CHAPTERS[0]}\.qmd:\d+: (?:\S+#fig-[\w-]+ has no fig-alt|figure \S+ has no alternative text)"


def without_equation_label(root: Path) -> str:
    path = root / "book" / f"{CHAPTERS[0]}.qmd"
    text = path.read_text("utf-8")
    label = next(i for i in re.findall(r"\{#(eq-[\w-]+)\}", text) if re.search(rf"@{i}(?![\w-])", text))
    path.write_text(text.replace(f" {{#{label}}}", ""), "utf-8")
    return rf"\.qmd:\d+: unresolved reference @{label}(?![\w-])"


def without_bibliography_entry(root: Path) -> str:
    path = root / "references.bib"
    cited = re.findall(r"@([a-z]+\d{4}\w*)", (root / "book" / f"{CHAPTERS[0]}.qmd").read_text("utf-8"))
    path.write_text(re.sub(rf"(@\w+\{{){cited[0]},", r"\1somethingelse,", path.read_text("utf-8")), "utf-8")
    return rf"{CHAPTERS[0]}\.qmd:\d+: citation key {cited[0]} is not in the bibliography"


def without_variable(root: Path) -> str:
    path = root / "_variables.yml"
    used = re.findall(r"\{\{< var ([\w.]+) >\}\}", (root / "book" / f"{CHAPTERS[0]}.qmd").read_text("utf-8"))
    variables = yaml.safe_load(path.read_text("utf-8"))
    *parents, last = used[0].split(".")
    inner = variables
    for key in parents:
        inner = inner[key]
    del inner[last]
    path.write_text(yaml.safe_dump(variables), "utf-8")
    return rf"{CHAPTERS[0]}\.qmd:\d+: unknown variable {re.escape(used[0])}"


@pytest.mark.slow
def test_a_broken_book_does_not_build(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One build for all four: it stops at none of them. A copy in which nothing is broken has nothing else to name."""
    breaks = (without_alternative_text, without_equation_label, without_bibliography_entry, without_variable)
    messages = [break_it(copy) for break_it in breaks]
    assert main(["--root", str(copy)]) == 1
    *problems, summary = capsys.readouterr().err.splitlines()
    for message in messages:
        assert any(re.search(message, line) for line in problems), (message, problems)
    anywhere = [message.partition(r":\d+: ")[2] for message in messages]
    assert all(anywhere)
    assert [line for line in problems if not any(re.search(what, line) for what in anywhere)] == []
    assert summary == f"preview build: {len(problems)} problem(s), no site written"
    assert not (copy / "_site").exists()
