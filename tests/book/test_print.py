"""The book to hold: what a small book becomes, and whether real chapters pass typst's PDF/UA and epubcheck."""

import itertools
import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import build_print
import pytest
import stamp
from bs4 import BeautifulSoup
from printing.paper import Paper
from printing.stills import Folder, join, still

ROOT = Path(__file__).parents[2]
SVG = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 40 20' font-family='sans-serif' font-size='10'><title>a line that rises</title><path d='M0 20L40 0'/></svg>"
VIEW = f"""<section class="live-view" id="view-x" data-live-view="view_x"><p class="live-title">A view</p>
<div class="live-controls"><div class="live-control"><label for="a">Tokens <output for="a">256 tokens</output></label><input type="range" id="a"></div>
<div class="live-control"><label for="b">Device</label><select id="b"><option>A100</option><option selected>H100</option></select></div></div>
<div class="live-bar"><button>Reset</button></div>
<div class="live-reading"><figure class="live-figure">{SVG}</figure><dl><div><dt>time</dt><dd>3 ms</dd></div></dl><p class="note"></p></div>
<p class="live-said" role="status"></p></section>"""
COLUMNS = 16
WIDE = "\n".join(
    ["|" + "|".join(f"heading{n}" for n in range(COLUMNS)) + "|", "|" + "--|" * COLUMNS]
    + ["|" + "|".join("unbreakables" for _ in range(COLUMNS)) + "|"] * 3
)
FRAMES = "".join(f"<li><figure>{SVG}<figcaption>still {n}</figcaption></figure></li>" for n in (1, 2))
BOOK = {
    "_quarto.yml": 'project:\n  type: book\nbook:\n  title: "Small: a book"\n  subtitle: "Two chapters"\n  author: "Somebody"\n  date: "2026-11-22"\n'
    '  chapters:\n    - index.qmd\n    - part: "Part I. Both"\n      chapters:\n        - book/01-one.qmd\n        - book/02-two.qmd\nbibliography: references.bib\n',
    "references.bib": "@book{somebody2020, title={A Book}, author={Somebody, Some}, year={2020}, publisher={House}}\n",
    "index.qmd": "# Welcome {.unnumbered}\n\nSee @sec-two and [the file](data.txt) and <https://example.org/a_b>.\n",
    "data.txt": "1\n",
    "drawing.svg": SVG,
    "book/01-one.qmd": "# One {#sec-one}\n\n## Law {#sec-one-law}\n\nWith $x < \\beta$ we have\n\n$$ y = \\frac{x}{\\beta}\\! $$ {#eq-law}\n\n"
    'as @somebody2020 says.\n\n::: {.callout-note collapse="true" title="Folded"}\nInside the fold.\n:::\n\n'
    f'![Rises](../drawing.svg){{#fig-rises fig-alt="a line that rises"}}\n\n```{{=html}}\n<div class="frames" role="group"><ol>{FRAMES}</ol></div>\n```\n',
    "book/02-two.qmd": f"# Two {{#sec-two}}\n\nBy @eq-law, and @fig-rises, and @tbl-wide.\n\n```python\nprint(\"a\\\\b\")\n```\n\n{WIDE}\n\n: Wide {{#tbl-wide}}\n",
}  # fmt: skip


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in BOOK.items():
        (tmp_path / "book" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def printed(small: Path, tmp_path: Path) -> tuple[build_print.Printed, Path]:
    folder = tmp_path / "work"
    folder.mkdir()
    return build_print.read(small, folder, site="https://example.org/book"), folder


def test_a_live_view_becomes_its_picture_with_its_numbers(tmp_path: Path) -> None:
    page = still(Folder(tmp_path), "book/01-one.html", f"<h1 id='a'>A</h1>{VIEW}", {}, tmp_path)
    text = " ".join(page.get_text(" ").split())
    assert "Shown for Tokens: 256 tokens; Device: H100." in text
    assert "time: 3 ms" in text
    assert not page.select("button, input, select, form, output, label, dl")
    assert page.select_one("img")["alt"] == "a line that rises"
    assert (tmp_path / page.select_one("img")["src"]).read_text().count("font-size='9'") == 1


def test_no_drawing_has_an_attribute_that_books_refuse(tmp_path: Path) -> None:
    name = Folder(tmp_path).drawing(SVG.replace("<path", "<path paint-order='stroke'"))
    assert "<path style='paint-order: stroke' d=" in (tmp_path / name).read_text()


def test_links_hold_outside_the_site_and_names_are_told_apart(tmp_path: Path) -> None:
    pages = {
        "index.html": "<h1>W</h1><a href='book/01.html#x'>a</a><a href='notebooks/n.ipynb'>b</a><a href='https://a.org/'>c</a>",
        "book/01.html": "<h1>O</h1><p id='x'>x</p><p id='unused'>y</p><a href='https://g.com/OWNER/REPOSITORY/z'>d</a>",
    }
    folder = Folder(tmp_path, "https://s.org/")
    html = join(folder, {url: still(folder, url, text, {}, tmp_path) for url, text in pages.items()})
    assert re.findall(r'href="([^"]*)"', html) == ["#p-01--x", "https://s.org/notebooks/n.ipynb", "https://a.org/"]
    assert re.findall(r'id="([^"]*)"', html) == ["p-index", "p-01", "p-01--x"]
    assert not folder.problems
    lost = Folder(tmp_path)
    join(lost, {"a.html": still(lost, "a.html", "<h1>A</h1><a href='#no'>a</a>", {}, tmp_path)})
    assert lost.problems == ["no anchor p-a--no"]


@pytest.mark.regression
def test_what_was_printed_names_equations_by_number(tmp_path: Path) -> None:
    """The first page of the PDF had *[@eq-utilisation]*."""
    law = '<h1>L</h1><span class="equation" id="eq-law">y = x <span class="equation-number">(1.2)</span></span>'
    first = "<h1>F</h1><pre><code>4 = 2 * 2  [@eq-law]\n9 = 3  [@eq-other-law]</code></pre>"
    first += '<a class="live-equation" href="book/01-l.html#eq-law">law</a>'
    pages = {"index.html": BeautifulSoup(first, "html.parser"), "book/01-l.html": BeautifulSoup(law, "html.parser")}
    said = BeautifulSoup(join(Folder(tmp_path), pages), "html.parser")
    assert said.pre.text == "4 = 2 * 2  Equation 1.2\n9 = 3  other law"  # type: ignore[union-attr]
    assert said.a.text == "Equation 1.2"  # type: ignore[union-attr]


def test_a_small_book_becomes_typst(printed: tuple[build_print.Printed, Path], tmp_path: Path) -> None:
    book, folder = printed
    build_print.make_pdf(book, folder, tmp_path / "small.pdf")
    body = (folder / "body.typ").read_text()
    assert '#part("Part I. Both")' in body
    assert '"(1.1)"' in body and "#h(-1em)" not in body
    assert "Inside the fold." in body
    assert body.count("#drawing(") == 3 and "still 2" in body
    assert "#turned" in body and "table.header(" in body
    assert '#outward("https://example.org/book/data.txt")' in body
    assert '#inward("p-01-one--eq-law")' in body
    assert '"print(\\"a\\\\\\\\b\\")"' in body
    pdf = (tmp_path / "small.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"pdfuaid" in pdf or b"/StructTreeRoot" in pdf


@pytest.mark.slow
def test_a_small_book_becomes_an_epub(printed: tuple[build_print.Printed, Path], tmp_path: Path) -> None:
    book, folder = printed
    out = tmp_path / "small.epub"
    build_print.make_epub(book, folder, out)
    wellformed(out)
    text = pages_of(out)
    assert "<math" in text and "Inside the fold." in text
    assert text.count('alt="a line that rises"') >= 3


@pytest.mark.slow
def test_epubcheck_finds_nothing(printed: tuple[build_print.Printed, Path], tmp_path: Path) -> None:
    build_print.make_epub(*printed, tmp_path / "small.epub")
    epubcheck(tmp_path / "small.epub")


WORD = re.compile(r'<word xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)">(.*?)</word>')
FOOT, SIDE = 62.0, 40.0  # points: below the text stands the number of the page, beside it nothing


def astray(pdf: Path) -> list[str]:
    """Words beyond the text of their page, and words set over other words, as ``page: word``; the cover and signs of mathematics are left out."""
    command = shutil.which("pdftotext")
    if command is None:
        assert os.environ.get("MLSYSIM_CI") != "1", "pdftotext is missing (apt-get install poppler-utils)"
        pytest.skip("pdftotext is not on the PATH (apt-get install poppler-utils): nobody looked where the words stand")
    boxes = subprocess.run([command, "-bbox", str(pdf), "-"], capture_output=True, text=True, check=True).stdout
    found = []
    for number, page in enumerate(boxes.split("<page ")[2:], 2):
        width, height = (float(re.search(rf'{side}="([\d.]+)', page)[1]) for side in ("width", "height"))  # type: ignore[index]
        words = sorted(
            ((*map(float, w[:4]), w[4]) for w in WORD.findall(page) if re.search(r"\w", w[4])), key=lambda w: w[1]
        )
        low = [w for w in words if w[3] > height - (FOOT if width < height else SIDE)]
        out = [w for w in words if w[2] > width - SIDE or w[0] < SIDE or w[1] < 0 or w[3] > height]
        below = [itertools.takewhile(lambda b, a=a: b[1] < a[3], words[i:]) for i, a in enumerate(words, 1)]
        over = [a for a, near in zip(words, below, strict=True) if any(covers(a, b) for b in near)]
        found += [f"{number}: {w[4]}" for w in [*(low if len(low) > 1 else []), *out, *over]]
    return found


def covers(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two words stand on the same place, and not only close to each other."""
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return bool(across > 2 and down > 0.55 * min(a[3] - a[1], b[3] - b[1]))


@pytest.mark.parametrize("stills", [2, 13])
def test_a_drawing_in_steps_stays_on_its_pages(small: Path, tmp_path: Path, stills: int) -> None:
    """Two abreast; what is higher than a page breaks between two rows, and its caption comes after the last."""
    svg = SVG.replace("0 0 40 20'", "0 0 400 200' width='400'")
    steps = "".join(
        f"<li><figure>{svg}<figcaption>still number {n} of the drawing</figcaption></figure></li>"
        for n in range(1, stills + 1)
    )
    chapter = small / "book/01-one.qmd"
    figure = f'::: {{#fig-steps}}\n```{{=html}}\n<div class="frames"><ol>{steps}</ol></div>\n```\n\nThe whole drawing.\n:::\n'
    chapter.write_text(chapter.read_text() + figure)
    (tmp_path / "work").mkdir()
    build_print.make_pdf(build_print.read(small, tmp_path / "work"), tmp_path / "work", tmp_path / "small.pdf")
    assert astray(tmp_path / "small.pdf") == []
    body = (tmp_path / "work" / "body.typ").read_text()
    assert re.findall(r"frame\((\d+), ", body)[2:] == [str(n) for n in range(1, stills + 1)]


def test_a_missing_picture_stops_the_build(small: Path, tmp_path: Path) -> None:
    (small / "drawing.svg").unlink()
    (tmp_path / "work").mkdir()
    with pytest.raises(SystemExit, match="problem"):
        build_print.read(small, tmp_path / "work")


def wellformed(epub: Path) -> None:
    """Every page is XML, and nothing in it runs or waits for a click."""
    with zipfile.ZipFile(epub) as zipped:
        assert zipped.namelist()[0] == "mimetype"
        for name in zipped.namelist():
            if name.endswith((".xhtml", ".opf", ".svg")):
                found = {e.tag.rpartition("}")[2] for e in ElementTree.fromstring(zipped.read(name)).iter()}
                assert not found & {"script", "button", "input", "select", "form", "details"}, name


def pages_of(epub: Path) -> str:
    with zipfile.ZipFile(epub) as zipped:
        return "".join(zipped.read(n).decode() for n in zipped.namelist() if n.endswith(".xhtml"))


def epubcheck(epub: Path) -> None:
    """Of Debian or the package index, on the PATH."""
    command = shutil.which("epubcheck")
    if command is None:
        pytest.skip("epubcheck is not on the PATH (apt-get install epubcheck); its rules were not tried")
    done = subprocess.run([command, str(epub)], capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and not re.search(r"ERROR|FATAL", said.replace("0 errors", "")), said


@pytest.mark.slow
def test_chapters_of_this_book_can_be_printed(tmp_path: Path) -> None:
    chosen = ["index", "01-iron-law", "04-communication", "devices"]
    (tmp_path / "work").mkdir()
    book = build_print.read(ROOT, tmp_path / "work", chosen)
    assert "live-here" not in json.dumps(book.tree)
    build_print.make_pdf(book, tmp_path / "work", tmp_path / "book.pdf")
    build_print.make_epub(book, tmp_path / "work", tmp_path / "book.epub")
    wellformed(tmp_path / "book.epub")
    assert (tmp_path / "work" / "body.typ").read_text().count("#block-live-view[") >= 5
    assert astray(tmp_path / "book.pdf") == []


@pytest.mark.slow
@pytest.mark.nightly
def test_the_whole_book_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    book = build_print.read(ROOT, tmp_path / "work")
    build_print.make_pdf(book, tmp_path / "work", tmp_path / "book.pdf")
    assert astray(tmp_path / "book.pdf") == []
    build_print.make_epub(book, tmp_path / "work", tmp_path / "book.epub")
    wellformed(tmp_path / "book.epub")
    epubcheck(tmp_path / "book.epub")


def test_addresses_are_stamped_from_one_place(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.mlsysim]\nrepository = "a/b"\nsite-url = "https://s.org"\ndoi = "10.1/x"\n'
    )
    to = stamp.addresses(pyproject=tmp_path / "pyproject.toml")
    assert (to.repository, to.site, to.doi) == ("a/b", "https://s.org", "10.1/x")
    assert stamp.addresses("c/d", tmp_path / "pyproject.toml").site == "https://c.github.io/d"
    cell = json.dumps(
        {"source": ["    %pip install -q mlsysim-book\n", "    %pip install -q mlsysim-book ipywidgets\n"]}
    )
    source = json.loads(stamp.stamp(cell, to, is_notebook=True))["source"]
    assert source[0] == '    %pip install -q "mlsysim-book[plot,widgets] @ git+https://github.com/a/b"\n'
    assert source[1] == "    %pip install -q mlsysim-book ipywidgets\n"
    once = stamp.cite((ROOT / "CITATION.cff").read_text(), to)
    assert 'doi: "10.1/x"' in once and stamp.cite(once, to) == once
    assert stamp.main(["no-slash"]) == 2


def test_the_version_is_stamped_from_one_place(tmp_path: Path) -> None:
    for path in [ROOT / "CITATION.cff", *(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "exercises").rglob("*.ipynb")]:
        text = path.read_text(encoding="utf-8")
        assert stamp.versioned(text, stamp.library_version()) == text, f"{path.name}: python scripts/stamp.py --version"
    (tmp_path / "mlsysim").mkdir()
    (tmp_path / "mlsysim" / "__init__.py").write_text('__version__ = "2.3.4"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.0.0rc1\n")
    (tmp_path / "notebooks").mkdir()
    cell = 'assert mlsysim.__version__.startswith(\\"1.0.\\"), f\\"this notebook is for mlsysim-book 1.0, not 1.1\\"'
    (tmp_path / "notebooks" / "a.ipynb").write_text(cell)
    assert stamp.stamp_version(tmp_path) == 0
    assert (tmp_path / "CITATION.cff").read_text() == "cff-version: 1.2.0\nversion: 2.3.4\n"
    assert (tmp_path / "notebooks" / "a.ipynb").read_text() == cell.replace("1.0", "2.3")


@pytest.mark.regression
def test_the_last_references_of_a_chapter_stay_together() -> None:
    """One or two of them stood alone on pages 103, 186 and 696."""
    entries = [
        {"t": "Div", "c": [["", ["csl-entry"], []], [{"t": "Para", "c": [{"t": "Str", "c": f"source-{n}"}]}]]}
        for n in range(6)
    ]
    told = json.dumps(Paper({}).go([{"t": "Div", "c": [["refs", ["references"], []], entries]}]))
    before, together = told.split("#block-last-references")
    assert [f"source-{n}" in before for n in range(6)] == [True] * 2 + [False] * 4
    assert all(f"source-{n}" in together for n in range(2, 6))
    assert "block-last-references(body) = block(breakable: false" in (ROOT / "scripts/printing/look.typ").read_text()
