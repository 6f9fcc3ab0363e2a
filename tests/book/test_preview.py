"""The preview build: what it renders from a small book, and that it stops at every kind of mistake."""

import base64
import json
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # `book` is a folder of this repository, not an installed package

from book._preview import memo  # noqa: E402
from book._preview.__main__ import main  # noqa: E402
from book._preview.check_site import check_site, strip_notebook_paths  # noqa: E402
from book._preview.config import Problems, read_book  # noqa: E402
from book._preview.page import style  # noqa: E402

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

FILES = {
    "_quarto.yml": """\
project:
  type: book
  output-dir: _site
  resources:
    - book/assets/
book:
  title: A small book
  author: Nobody
  date: "2026-11-21"
  chapters:
    - index.qmd
    - part: Part I
      chapters:
        - book/01-one.qmd
        - book/02-two.qmd
  appendices:
    - book/notation.qmd
bibliography: references.bib
format:
  html:
    css: book/assets/book.css
    html-math-method: mathml
""",
    "_variables.yml": "kv:\n  gb: '42.90'\n  n: 8\nunused: one\n",
    "references.bib": "@article{williams2009roofline, author = {Williams, Samuel}, title = {Roofline}, year = {2009}, journal = {CACM}}\n",
    "book/assets/book.css": "body { margin: 0 }\n",
    "book/assets/box.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>\n',
    "index.qmd": "# Welcome {.unnumbered}\n\n{{< include book/_hello.qmd >}}\n",
    "book/_hello.qmd": "Start with [the first chapter](book/01-one.qmd), @sec-one.\n",
    "book/01-one.qmd": """\
# One *machine* {#sec-one}

As @williams2009roofline says, and others [@williams2009roofline, sec. 3]. Memory is {{< var kv.gb >}} GB,
or $x =$ {{< var kv.n >}}, as in [the {{< var kv.n >}} links](https://example.org/).

::: {.wide}
A wide note.
:::

## Law {#sec-law}

$$
T = \\max(a, b)
$$ {#eq-law}

See @eq-law, number [-@eq-law], [Eq. @eq-law], @fig-plot, @fig-box, @tbl-rows, @tbl-cell, @sec-law.

{{< embed ../notebooks/01-one.ipynb#fig-plot >}}

{{< embed ../notebooks/01-one.ipynb#tbl-cell echo=true >}}

![A box.](assets/box.svg){#fig-box fig-alt="An empty box."}

| a | b |
|---|---|
| 1 | 2 |

: Rows by @eq-law. {#tbl-rows}

```python
x = "{{{< var kv.n >}}}"
```

::: {.callout-tip}
## Guess first
Then read.
:::

::: {.callout-note collapse="true"}
A folded note.
:::

```{=html}
<div id="raw">raw</div>
```

A1.
:   A term.[^1]

[^1]: A footnote.
""",
    "book/02-two.qmd": """\
# Two {#sec-two}

Back to @eq-law and @fig-plot in @sec-one; the symbols stand in @sec-notation.

$$ a = b $$ {#eq-two}

## Aside {.unnumbered}

## Counted

@eq-two
""",
    "book/notation.qmd": "# Notation {#sec-notation}\n\nIn @tbl-n.\n\n| a |\n|---|\n| 1 |\n\n: Names. {#tbl-n}\n",
}  # fmt: skip


def notebook() -> str:
    def code(source: str, name: str, *outputs: dict[str, Any]) -> dict[str, Any]:
        count = 1 if outputs else None
        cell = {"cell_type": "code", "execution_count": count, "id": name, "metadata": {}}
        return cell | {"source": source, "outputs": outputs}

    png = {"output_type": "display_data", "data": {"image/png": PIXEL, "text/plain": "<Figure>"}, "metadata": {}}
    html = {"output_type": "execute_result", "data": {"text/html": "<table><tr><td>7 GB</td></tr></table>"}}
    html |= {"execution_count": 1, "metadata": {}}
    figure = '#| label: fig-plot\n#| fig-cap: "A plot of $T$."\n#| fig-alt: "A line with a \\"corner\\"."\nplot()'
    cells = [
        code(figure, "plot", png),
        code("#| label: tbl-cell\n#| tbl-cap: A table.\ntable()", "cell", html),
        code("#| label: silent\nx = 1", "silent"),
        code("#| label: fig-bare\n#| fig-cap: Bare.\nplot()", "bare", png),
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in {**FILES, "notebooks/01-one.ipynb": notebook()}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("book")
    for name, text in {**FILES, "notebooks/01-one.ipynb": notebook()}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    assert main(["--root", str(root)]) == 0
    return root / "_site"


def page(site: Path, name: str) -> str:
    return (site / name).read_text("utf-8")


def words(html: str) -> str:
    """The visible text of a page, in one line."""
    html = re.sub(r"<(script|style|annotation).*?</\1>", "", html, flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", html)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "(1.1)",
        "See Equation 1.1, number 1.1, Eq. 1.1, Figure 1.1, Figure 1.2,",
        "Table 1.2, Table 1.1, Section 1.1.",
        "As Williams (2009) says, and others (Williams 2009, sec. 3).",
        "Memory is 42.90 GB",
        "the 8 links",
        "Figure 1.1: A plot of",
        "Figure 1.2: A box.",
        "Table 1.1: A table.",
        "Table 1.2: Rows by Equation 1.1.",
        'x = "{{< var kv.n >}}"',
        "Guess first",
        "table()",
        "References",
    ],
)
def test_chapter_reads(site: Path, text: str) -> None:
    assert text in words(page(site, "book/01-one.html"))


@pytest.mark.parametrize(
    "markup",
    [
        '<math display="block"',
        'alt="A line with a &quot;corner&quot;."',
        '<img src="../figures/01-one-fig-plot-1.png"',
        '<figure id="fig-plot"',
        '<figure id="tbl-cell"',
        '<details class="callout callout-note"><summary',
        '<h1 id="sec-one"><span class="chapter-number">1</span>',
        'href="#ref-williams2009roofline"',
        'id="ref-williams2009roofline"',
        '<div class="callout callout-tip" role="note"><div class="callout-title">',
        '<div id="raw">raw</div>',
        'class="table-scroll" role="group" aria-label="',
        'class="footnote-ref"',
        "<dt>A1.</dt>",
        'class="sourceCode python cell-code"',
        'aria-current="page"',
        'rel="prev" href="../index.html"',
        'rel="next" href="02-two.html"',
        '<html lang="en">',
        'href="#content">Skip',
    ],
)
def test_chapter_markup(site: Path, markup: str) -> None:
    assert markup in page(site, "book/01-one.html")


def test_option_lines_are_not_shown(site: Path) -> None:
    assert "#|" not in page(site, "book/01-one.html")


def test_references_reach_across_chapters(site: Path) -> None:
    two = page(site, "book/02-two.html")
    assert "Back to Equation 1.1 and Figure 1.1 in Chapter 1; the symbols stand in Appendix A." in words(two)
    assert 'href="01-one.html#eq-law"' in two
    assert "(2.1)" in two and "References" not in words(two)


def test_unnumbered_sections_do_not_count(site: Path) -> None:
    assert '<span class="header-section-number">2.1</span> Counted' in page(site, "book/02-two.html")
    assert ">Aside</h2>" in page(site, "book/02-two.html")


def test_appendix_has_a_letter(site: Path) -> None:
    text = words(page(site, "book/notation.html"))
    assert "Table A.1: Names." in text and "In Table A.1." in text


def test_index_is_unnumbered_and_links_to_pages(site: Path) -> None:
    index = page(site, "index.html")
    assert 'href="book/01-one.html">the first chapter' in index and "chapter-number" not in index
    assert "preview build" in index and "quarto.org" in index


def test_site_has_its_files_and_both_themes(site: Path) -> None:
    assert (site / "figures/01-one-fig-plot-1.png").read_bytes() == base64.b64decode(PIXEL)
    assert (site / "book/assets/box.svg").is_file() and (site / "book/assets/book.css").is_file()
    css = page(site, "site_preview/preview.css")
    assert "color-scheme: light dark" in css and "@media print" in css


@pytest.mark.independent
def test_the_preview_takes_its_colours_from_quartos_themes() -> None:
    """Quarto decides how a page looks: a colour of its themes is written once, there."""
    css = style(read_book(ROOT, Problems()))
    for name in ("light", "dark"):
        theme = (ROOT / "book" / "assets" / f"{name}.scss").read_text("utf-8")
        assert f"prefers-color-scheme: {name}" in css
        assert all(rule in css for rule in re.findall(r"--mls-[\w-]+: #\w+;", theme))
    assert not re.search(r"#[0-9a-f]{6}\b", (ROOT / "book/_preview/preview.css").read_text("utf-8"))


@pytest.mark.slow
def test_a_page_with_moving_drawings_steps_through_them_by_itself(small: Path) -> None:
    chapter = small / "book/01-one.qmd"
    moving = '<div class="frames" role="group"><ol><li>one</li><li>two</li></ol></div>'
    chapter.write_text(chapter.read_text("utf-8").replace('<div id="raw">raw</div>', moving), "utf-8")
    for name in ("frames.css", "frames.js"):
        (small / "book/assets" / name).write_text((ROOT / "book/assets" / name).read_text("utf-8"), "utf-8")
    assert main(["--root", str(small)]) == 0
    with_them, without = (page(small / "_site", f"book/{name}.html") for name in ("01-one", "02-two"))
    assert 'src="../book/assets/frames.js" defer' in with_them and 'href="../book/assets/frames.css"' in with_them
    assert "frames." not in without


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not re.search(r'(src|<link[^>]*href)="(https?:)?//', path.read_text("utf-8"))


MISTAKES = {
    "reference": ("book/02-two.qmd", "@eq-two", "@eq-tow", r"book/02-two.qmd:11: unresolved reference @eq-tow; did you mean eq-two\?"),
    "citation": ("book/01-one.qmd", "[@williams2009roofline", "[@williams2008roofline", r"book/01-one.qmd:3: citation key williams2008r"),
    "variable": ("book/01-one.qmd", "var kv.gb", "var kv.gib", r"book/01-one.qmd:3: unknown variable kv.gib; did you mean kv.gb\?"),
    "variable-zero": ("_variables.yml", "'42.90'", "42.90", r"_variables.yml:2: kv.gb: 42.90 needs quotes"),
    "include": ("index.qmd", "_hello.qmd", "_helo.qmd", r"index.qmd:3: included file book/_helo.qmd does not exist"),
    "include-itself": ("book/_hello.qmd", "Start", "{{< include book/_hello.qmd >}}\n\nStart", r"book/_hello.qmd:1: .*include itself"),
    "include-outside": ("index.qmd", "book/_hello.qmd", "../../etc/passwd", r"index.qmd:3: .*outside the repository"),
    "include-inline": ("index.qmd", "{{< inc", "See {{< inc", r"index.qmd:3: the include shortcode must stand alone"),
    "shortcode": ("index.qmd", "include", "includ", r"index.qmd:3: the preview knows no shortcode includ; did you mean include"),
    "shortcode-open": ("index.qmd", ">}}", ">}", r"index.qmd:3: malformed shortcode"),
    "embed-file": ("book/01-one.qmd", "ipynb#fig-plot", "ipyn#fig-plot", r"book/01-one.qmd:18: embedded notebook .* does not exist"),
    "embed-cell": ("book/01-one.qmd", "#fig-plot >", "#fig-plt >", r"book/01-one.qmd:18: .* has no cell fig-plt; did you mean fig-plot"),
    "embed-outside": ("book/01-one.qmd", "../notebooks/01-one.ipynb#fig-plot", "/../../x.ipynb#a", r"book/01-one.qmd:18: .*outside"),
    "embed-silent": ("book/01-one.qmd", "#tbl-cell echo=true", "#silent", r"book/01-one.qmd:20: .*#silent has no stored output"),
    "embed-alt": ("book/01-one.qmd", "#tbl-cell echo=true", "#fig-bare", r"book/01-one.qmd:20: .*#fig-bare has no fig-alt"),
    "alt": ("book/01-one.qmd", ' fig-alt="An empty box."', "", r"book/01-one.qmd:22: figure .* has no alternative text"),
    "duplicate": ("book/02-two.qmd", "{#eq-two}", "{#eq-law}", r"book/02-two.qmd:5: duplicate label eq-law, first in book/01-one.qmd:14"),
    "div-open": ("book/01-one.qmd", "note.\n:::", "note.", r"book/01-one.qmd:6: div opened here is not closed"),
    "div-surplus": ("book/02-two.qmd", "## Counted", ":::\n\n## Counted", r"book/02-two.qmd:9: surplus :::"),
    "div-broken": ("book/01-one.qmd", "::: {.wide}", "::: {.wide", r"book/01-one.qmd:6: this ::: neither"),
    "callout": ("book/01-one.qmd", "callout-note", "callout-nota", r"book/01-one.qmd:\d+: unknown callout callout-nota; did you mean"),
    "layout": ("book/01-one.qmd", "{.wide}", "{.column-margin}", r"book/01-one.qmd:6: the preview knows no column-margin"),
    "numbered": ("book/01-one.qmd", "{.callout-tip}", "{#tip-guess .callout-tip}", r"book/01-one.qmd:\d+: the preview knows no tip-guess"),
    "listing": ("book/01-one.qmd", "```python", "```{#lst-code .python}", r"book/01-one.qmd:\d+: the preview knows no lst-code"),
    "link": ("book/_hello.qmd", "(book/01-one.qmd)", "(book/01-on.qmd)", r"book/_hello.qmd:1: linked file book/01-on.qmd does not exist"),
    "link-partial": ("book/_hello.qmd", "(book/01-one.qmd)", "(book/_hello.qmd)", r"book/_hello.qmd:1: .* is not a page of the book"),
    "anchor": ("book/_hello.qmd", "01-one.qmd)", "01-one.qmd#sec-lw)", r"index.html:\d+: no anchor for book/01-one.html#sec-lw"),
    "raw-link": ("book/01-one.qmd", ">raw<", '><a href="nowhere.html">raw</a><', r"book/01-one.html:\d+: broken link nowhere.html"),
    "raw-load": ("book/01-one.qmd", ">raw<", '><script src="https://cdn.example/x.js"></script><', r"01-one.html:\d+: loads .* another host"),
    "raw-alt": ("book/01-one.qmd", ">raw<", '><img src="assets/box.svg"><', r"01-one.html:\d+: image .* has no alternative text"),
    "image": ("book/01-one.qmd", "assets/box.svg", "assets/bax.svg", r"book/01-one.qmd:22: image assets/bax.svg does not exist"),
    "pandoc": ("book/01-one.qmd", "\\max(a", "\\maxx{(a", r"book/01-one.qmd: pandoc: \[WARNING\] Could not convert TeX math"),
    "chapter": ("_quarto.yml", "02-two.qmd", "02-tow.qmd", r"_quarto.yml:15: listed chapter book/02-tow.qmd does not exist"),
    "key": ("_quarto.yml", "html-math-method", "html-math-methode", r"_quarto.yml:22: unknown key .*; did you mean html-math-method\?"),
    "key-twice": ("_quarto.yml", "  author", "  title: Twice\n  author", r"_quarto.yml:8: key title is given twice"),
    "key-page": ("book/02-two.qmd", "# Two", "---\ntitel: Two\n---\n\n# Two", r"book/02-two.qmd:2: unknown key titel; did you mean title\?"),
    "yaml": ("_variables.yml", "kv:", "kv: [", r"_variables.yml:\d: not valid YAML"),
    "resource": (
        "_quarto.yml",
        "    css: book/assets/book.css",
        "    css: book/assets/bok.css",
        r"_quarto.yml:21: format.html.css: .* does not exist",
    ),
    "equation-space": ("book/02-two.qmd", "$$ {#eq-two}", "$${#eq-two}", r"book/02-two.qmd:5: equation label must read"),
    "equation-label": ("book/02-two.qmd", "{#eq-two}", "{eq-two}", r"book/02-two.qmd:5: equation label must read"),
    "equation-open": ("book/02-two.qmd", "b $$ {", "b {", r"book/02-two.qmd:5: \$\$ is not closed before a blank line"),
    "shortcode-in-maths": (
        "book/02-two.qmd",
        "## Counted",
        "The count is $u = {{< var kv.gb >}}$ bytes.\n\n## Counted",
        r"book/02-two.qmd:9: shortcode inside maths",
    ),
    "label-in-text": (
        "book/02-two.qmd",
        "## Counted",
        "By eq-two it is so.\n\n## Counted",
        r"book/02-two.html:\d+: raw id left in the text: 'eq-two it",
    ),
    "execute": ("book/02-two.qmd", "## Counted", "```{python}\n1\n```\n\n## Counted", r"book/02-two.qmd:9: a chapter executes no code"),
    "fence": ("book/02-two.qmd", "## Counted", "```python\n1\n", r"book/02-two.qmd:9: code block is not closed"),
    "title": ("book/02-two.qmd", "# Two {#sec-two}", "", r"book/02-two.qmd:1: no `# Title`"),
    "title-twice": ("book/02-two.qmd", "## Counted", "# Counted", r"book/02-two.qmd:9: second level-1 heading 'Counted'"),
    "leftover": ("book/02-two.qmd", "## Counted", "Text ::: more\n\n## Counted", r"book/02-two.html:\d+: div fence left in the text"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_stops_the_build(mistake: str, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, old, new, message = MISTAKES[mistake]
    text = (small / file).read_text("utf-8")
    assert old in text
    (small / file).write_text(text.replace(old, new, 1), "utf-8")
    assert main(["--root", str(small)]) == 1
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert not (small / "_site").exists()
    assert str(small) not in error  # messages name files as the repository does


@pytest.mark.slow
def test_failed_build_leaves_the_earlier_site_alone(small: Path) -> None:
    assert main(["--root", str(small)]) == 0
    (small / "_site/lab").mkdir()
    (small / "_site/lab/index.html").write_text("made by another command", "utf-8")
    before = sorted(p.name for p in (small / "_site").rglob("*"))
    (small / "index.qmd").write_text("# Welcome\n\n@fig-none\n", "utf-8")
    assert main(["--root", str(small)]) == 1
    assert sorted(p.name for p in (small / "_site").rglob("*")) == before
    (small / "index.qmd").write_text("# Welcome\n", "utf-8")
    assert main(["--root", str(small)]) == 0
    assert (small / "_site/lab/index.html").is_file()
    assert not list(small.glob(".preview-*"))


@pytest.mark.parametrize("out", [".", "book", ".."])
def test_build_replaces_only_a_site(out: str, small: Path) -> None:
    assert main(["--root", str(small), "--out", str(small / out)]) == 2
    assert (small / "book/01-one.qmd").is_file()


@pytest.mark.slow
def test_build_is_reproducible(small: Path) -> None:
    assert main(["--root", str(small), "--out", str(small / "a")]) == 0
    assert main(["--root", str(small), "--out", str(small / "b")]) == 0
    for path in (small / "a").rglob("*.html"):
        assert path.read_bytes() == (small / "b" / path.relative_to(small / "a")).read_bytes()


def test_a_page_is_set_again_when_an_entry_it_cites_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only then: an entry that another page cites, or a new one, leaves it as it is kept."""
    monkeypatch.setattr(memo, "KEPT", tmp_path / "kept")
    calls = tmp_path / "calls"
    command = ["/bin/sh", "-c", f"echo x >> {calls}; cat", "--bibliography=refs.bib", "--csl=style.csl"]
    refs, style = tmp_path / "refs.bib", tmp_path / "style.csl"

    def runs(bibliography: str, text: str = "As [@one] says.") -> int:
        refs.write_text(bibliography, "utf-8")
        calls.write_text("", "utf-8")
        assert memo.remember(tmp_path, command, text) == (text, "")
        return len(calls.read_text("utf-8").split())

    one, two, three = (f"@misc{{{key},\n title = {{{key.title()}}},\n}}\n\n" for key in ("one", "two", "three"))
    style.write_text("a", "utf-8")
    assert [runs(one + two), runs(one + two), runs(one + two + three), runs(one)] == [1, 0, 0, 0]
    assert [runs(one.replace("One", "Another") + two), runs(two)] == [1, 1]
    assert runs(one + two, "nocite: all") == runs(one, "nocite: all") == 1
    style.write_text("b", "utf-8")
    assert runs(one + two) == 1


def test_check_site_finds_what_quarto_leaves(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<p><strong>?@eq-x</strong> <strong>key2020?</strong> <code>{{< var x >}}</code> {{< var y >}}</p>'
        '<div data-notebook="/home/someone/book/x.ipynb" data-notebook-title="x"></div><img src="a.png">'
        '<a href="lab/index.html">lab</a><a href="#nowhere">there</a>'
        "<p>u = b58fc729-690b-4000-b19f-365a4093b2ff;7B7B</p><td>by eq-congestion</td><figcaption>time (us)</figcaption>"
        "<code>eq-code, 3 us</code><p>it takes us 3 days, and 4 µs</p><td>7.5\u00a0us</td>",
        "utf-8",
    )  # fmt: skip
    assert "broken link lab/index.html" in "\n".join(check_site(tmp_path))
    found = "\n".join(check_site(tmp_path, later=("lab",)))
    for text in (
        "'?@eq-x'",
        "'key2020?'",
        "'{{< var y >}}",
        "absolute path",
        "no alternative text",
        "broken link a.png",
        "'b58fc729-690b-4000-b19f-365a4093b2ff",
        "'eq-congestion'",
        "'(us)'",
        "'5\\xa0us'",
    ):
        assert text in found
    assert "eq-code" not in found and found.count("us for µs") == 2
    assert "#nowhere" in found
    assert "var x" not in found and "lab" not in found
    assert strip_notebook_paths(tmp_path) == 1
    assert "someone" not in (tmp_path / "index.html").read_text("utf-8")
    assert "absolute path" not in "\n".join(check_site(tmp_path))


def test_check_site_needs_pages(tmp_path: Path) -> None:
    assert check_site(tmp_path) == [f"{tmp_path.name}: no HTML page"]
