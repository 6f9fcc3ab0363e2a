"""Live pages: what is extracted from the notebooks, what the library answers, and what the pages then hold."""

import ast
import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import make_live  # noqa: E402
from live import blocks, engine, extract, numbers, pages, plain  # noqa: E402

from mlsysim import course  # noqa: E402
from mlsysim.course import check, exercises, live  # noqa: E402
from mlsysim.course.sliders import Choice, LogSlider, Slider  # noqa: E402
from mlsysim.errors import InputError  # noqa: E402


def cell(source: str, id: str = "c") -> dict[str, object]:
    return {"cell_type": "code", "id": id, "source": source}


EXAMPLE = {
    "cells": [
        cell("%pip install something", "install"),
        cell("import math, sys\nfrom mlsysim import units, catalog\nfrom mlsysim.course import Slider, explore"),
        cell("def unused(x):\n    return x\n\n\nfactor = 2\nTABLE = {}\nfor i in range(3):\n    TABLE[i] = factor * i"),
        cell("names = [catalog for catalog in 'ab']\nfactor = 3  # what a view below sees"),
        cell(
            'def view_it(n):\n    """Objective 1: it."""\n    print(math.sqrt(TABLE[1]) * n * factor)\n\n\nexplore(view_it, n=Slider(1, 0, 5, 1))',
            "view-it",
        ),
        cell("factor = 4"),
    ]
}


@pytest.mark.independent
def test_a_view_brings_what_it_needs_and_nothing_else() -> None:
    (found,) = extract.views(EXAMPLE)
    assert (found.name, found.cell) == ("view_it", "view-it")
    assert "unused" not in found.code
    assert "catalog" not in found.code  # the name of a comprehension is not the module's
    assert "import math\n" in found.code  # and not sys
    assert "factor = 4" not in found.code
    opened = live.open_view(found.code)
    assert opened.move({"n": 3})["shown"] == '<pre class="live-text">' + str(2**0.5 * 3 * 3) + "</pre>"


def test_what_takes_long_is_shipped_as_it_was_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "LONG", 0.0)
    monkeypatch.setattr(extract, "needs_numpy", frozenset)
    (found,) = extract.views(EXAMPLE)
    kept = extract.kept(found)
    assert "pickle" in kept.code
    assert live.open_view(kept.code).move({})["shown"] == live.open_view(found.code).move({})["shown"]


@pytest.mark.slow
def test_every_view_of_every_notebook_has_its_place_and_every_chapter_its_questions() -> None:
    total = 0
    for slug in pages.slugs():
        text = (ROOT / "book" / f"{slug}.qmd").read_text(encoding="utf-8")
        placed = re.findall(r'::: \{\.live-here view="(\w+)"\}\n:::', text)
        assert sorted(placed) == sorted(v.name for v in extract.read(ROOT / "notebooks" / f"{slug}.ipynb")), slug
        assert text.count('::: {.live-here questions="all"}') == 1, slug
        total += len(placed)
    assert total >= 105


def test_the_door_answers_in_json_and_says_what_is_wrong() -> None:
    def ask(do: str, *with_: object) -> object:
        return json.loads(live.answer(json.dumps({"do": do, "with": with_})))

    (found,) = extract.views(EXAMPLE)
    spec = ask("open", "view_it", found.code)
    assert spec["title"] == "It"  # type: ignore[index]
    assert spec["sliders"]["n"] | {"kind": "range", "n": 6, "low": 0, "step": 1, "position": 1} == spec["sliders"]["n"]  # type: ignore[index]
    assert ask("move", "view_it", {"n": 5})["texts"] == {"n": "5"}  # type: ignore[index]
    assert "none of" in ask("import os")["error"]  # type: ignore[index]
    assert "exercise" in ask("check", "99.1", "1", "")["error"]  # type: ignore[index]
    assert ask("check", "01.5", "no answer", "ada")["correct"] is False  # type: ignore[index]
    right = exercises.exercise("01.5").solve(exercises.inputs("01.5", "ada"))
    assert ask("check", "01.5", repr(right), "ada")["correct"] is True  # type: ignore[index]


def test_a_listing_shows_prints_values_and_the_library_s_error() -> None:
    space: dict[str, object] = {}
    found = live.run("x = 2\nx + 1\nprint('<b>')\nNone", space)
    assert found == {"shown": '<pre class="live-text">3</pre><pre class="live-text">&lt;b&gt;</pre>', "error": ""}
    digits = live.run("0.1 + 0.2\n(2 / 3, 1.26e12, 49278130146.82692, 3.417114813236403e-36, 'a1.00000001')", space)[
        "shown"
    ]
    texts = ["0.3", "(0.666667, 1.26e+12, 4.92781e+10, 3.41711e-36, &#x27;a1.00000001&#x27;)"]
    assert digits == "".join(f'<pre class="live-text">{t}</pre>' for t in texts)
    table = live.run("from mlsysim import energy\nenergy.run(8, 60.0, device='H100', pue=1).explain()", space)["shown"]
    assert "<td>[@eq-energy]</td>" in re.sub(r"<td[^>]*>", "<td>", table)  # a page names it by its number
    title = live.run("print('**01.1 How long?** (1 point), 2**3**2')", space)["shown"]
    assert title == '<pre class="live-text"><strong>01.1 How long?</strong> (1 point), 2**3**2</pre>'
    wrong = live.run("from mlsysim import units\n\nunits.parse('3 GB', 's')", space)
    assert wrong["error"].startswith("line 3: ")
    assert "GB" in wrong["error"]
    assert "reads no keyboard" in live.run("input('? ')", {})["error"]
    assert live.run("x = ", {})["error"].startswith("line 1: ")
    assert "notebook in the lab" in live.run("raise ModuleNotFoundError(name='numpy')", {})["error"]
    much = live.run("print('x' * 50_000)", {})["shown"]
    assert len(much) < 21_000
    assert "30,001 more characters" in much
    assert (
        "figure"
        in live.run(
            "from mlsysim.course import draw, roofline_chart\ndraw(roofline_chart([('H100', 'bf16', 1, 1)]))", {}
        )["shown"]
    )


def test_choices_are_prepared_one_at_a_time_and_each_once() -> None:
    seen: list[tuple[int, str]] = []
    page = live.Page()
    page.views["view_x"] = live.View(
        lambda x, k: seen.append((x, k)), x=Slider(1, 0, 5, 1), k=Choice("q", ["p", "q", "r"])
    )
    assert [page.prepare("view_x") for _ in range(3)] == [True, False, False]
    assert seen == [(1, "p"), (1, "r")]


def test_a_page_knows_what_stands_one_choice_away_from_a_cold_start() -> None:
    card = Choice("H100", ["A100", "H100", "B200"])
    view = live.View(lambda card, n: course.Reading((("n", n), ("card", card))), card=card, n=Slider(1, 1, 4, 1))
    assert pages._answers(view) == {"card:0": view.move({"card": 0}), "card:2": view.move({"card": 2})}
    cold = "from mlsysim.explore import plan\n"
    assert [
        pages.is_kept_warm(*of) for of in (("01-iron-law", ""), ("22-case-studies", ""), ("01-iron-law", cold))
    ] == [
        True,
        False,
        False,
    ]


def test_an_impossible_position_is_a_sentence() -> None:
    def view(kind: str) -> None:
        raise InputError("fp4: the device has none")

    found = live.View(view, kind=Choice("a", ["a", "b"])).move({"kind": 1})
    assert found == {"texts": {"kind": "b"}, "error": "fp4: the device has none"}


@pytest.mark.independent
def test_positions_presets_and_texts_of_a_spec() -> None:
    view = live.View(
        lambda **_: None,
        {"more": {"x": 50}},
        x=LogSlider(10, 1, 100, unit="tokens"),
        y=Slider(0.5, 0.0, 1.0, 0.25, unit="%"),
    )
    spec = view.spec()
    assert spec["sliders"]["x"]["values"][spec["presets"]["more"]["x"]] == 50
    assert spec["sliders"]["y"] | {"n": 5, "low": 0.0, "step": 0.25, "position": 2} == spec["sliders"]["y"]
    assert view.move({"y": 3})["texts"] == {"x": "10 tokens", "y": "75.0 %"}


def test_hints_come_by_stages_and_never_with_the_last_step() -> None:
    exercise = exercises.exercise("01.1")
    assert live.marked(exercise.ask) in live.hint("01.1", 1)
    assert live.marked(exercise.nudge) in live.hint("01.1", 2)
    assert "H100-SXM5-80GB" in live.hint("01.1", 2)
    last = exercise.solution.splitlines()[-1]
    assert live.hint("01.1", 3).count("flops") >= 1
    assert last not in live.hint("01.1", 3)
    assert live.marked("a < `b` and *c*, **d**") == "a &lt; <code>b</code> and <em>c</em>, <strong>d</strong>"


def test_the_file_that_is_handed_in_gives_the_points_that_the_page_promised() -> None:
    notebook = (ROOT / "exercises" / "01-iron-law" / "student.ipynb").read_text(encoding="utf-8")
    right = exercises.exercise("01.1").solve(exercises.inputs("01.1", "Ada L."))
    made = json.loads(live.handed_in(notebook, "Ada L.", {"01.1": repr(right), "01.3": "120 TFLOP/s"}))
    space: dict[str, object] = {}
    for c in made["cells"]:
        text = "".join(c["source"])
        if c["cell_type"] == "code" and "%pip" not in text:
            exec(text, space)
    assert space["STUDENT"] == "Ada L."
    assert check("01.1", space["answer_1"], seed="Ada L.")
    assert space["answer_3"] == "120 TFLOP/s"
    assert space["answer_2"] is ...


@pytest.mark.slow
def test_every_number_of_the_prose_says_what_printed_it() -> None:
    used = {
        k
        for p in (ROOT / "book").glob("*.qmd")
        for k in re.findall(r"\{\{< var ([\w.-]+) >\}\}", p.read_text(encoding="utf-8"))
    }
    assert len(used) > 500
    named = 0
    for key in sorted(used):
        found = numbers.origin(key)
        assert found["expression"], key
        assert found["tests"], key
        ast.parse("(" + found["expression"].removesuffix(" …") + "\n)") if len(
            found["expression"]
        ) < numbers.MOST else None
        named += bool(found["equations"] or found["sources"])
    assert named > len(used) / 2
    ridge = numbers.origin("iron.h100.ridge_bf16")
    assert "eq-ridge-point" in [e["label"] for e in ridge["equations"]]
    assert any("roofline" in t for t in ridge["tests"])
    assert ridge["equations"][0]["href"] == "01-iron-law.html#eq-ridge-point"


@pytest.mark.slow
def test_the_tests_named_for_numbers_exist() -> None:
    for test in {
        t
        for key in ("iron.h100.ridge_bf16", "iron.gemm.work", "cost.choice.cheap_server")
        for t in numbers.origin(key)["tests"]
    }:
        file, _, name = test.partition("::")
        file = file.partition(" ")[0]
        assert (ROOT / file).is_file(), test
        assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_blocks_are_named_and_escaped() -> None:
    view = live.View(lambda **_: None, x=Slider(1, 0, 5, 1, label="a <b>"), k=Choice("p", ["p", "q"]))
    html = blocks.view("view_x", view.spec(), view.move({}))
    assert 'data-live-view="view_x" data-state="static"' in html
    assert "A &lt;b&gt;" in html
    assert 'type="range"' in html
    questions = blocks.questions("01-iron-law", ["01.1", "01.6"])
    assert re.findall(r'data-question="([\d.]+)"', questions) == ["01.1", "01.6"]
    assert "<select" in questions


def test_nothing_heavy_is_loaded_before_the_first_touch() -> None:
    """60 kB of script, uncompressed; the engine and the editor come later."""
    assets = ROOT / "book" / "assets"
    assert (assets / "live.js").stat().st_size < 60_000
    text = (assets / "live.js").read_text(encoding="utf-8")
    assert not re.search(r"^import ", text, re.M)  # what it needs it takes when it is touched
    assert "http:" not in text
    assert "https:" not in text


PYODIDE = """export const loadPyodide = async () => ({ FS: { mkdirTree() {}, writeFile() {} }, runPython() {}, makeMemorySnapshot: () => new Uint8Array(8) });"""


@pytest.fixture
def toolbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone below a folder whose package.json calls every .js a CommonJS module, with a Pyodide that does nothing."""
    if not shutil.which("node"):
        pytest.skip("Node is not on the PATH")
    (tmp_path / "package.json").write_text('{"type": "commonjs"}')
    source = tmp_path / "clone" / "node_modules"
    (source / "pyodide").mkdir(parents=True)
    for name in engine.CORE:
        (source / "pyodide" / name).write_text(f"export default '{engine.RESTORE}'")
    (source / "pyodide" / "pyodide.mjs").write_text(PYODIDE)
    (source / ".bin").mkdir()
    (source / ".bin" / "esbuild").write_text(
        '#!/bin/sh\nfor a; do case $a in --outfile=*) : > "${a#--outfile=}";; esac; done\n'
    )
    (source / ".bin" / "esbuild").chmod(0o755)
    wheel = tmp_path / "clone" / "x.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("mlsysim/__init__.py", "")
    monkeypatch.setattr(engine, "modules", lambda: source)
    monkeypatch.setattr(engine, "build_wheel", lambda: wheel)
    monkeypatch.setattr(engine, "CACHE", tmp_path / "clone" / "cache")
    monkeypatch.setattr(engine, "ENGINE", tmp_path / "clone" / "engine")
    return source


def test_the_engine_is_made_below_a_folder_of_commonjs(toolbox: Path) -> None:
    key = engine.make([], [])
    made = {p.name for p in engine.ENGINE.iterdir()}
    assert {"start.bin", "library.bin", "editor.js", "made", *map(engine.served, engine.CORE)} == made
    assert engine.make([], []) == key


def test_an_engine_that_cannot_be_made_ends_the_build(toolbox: Path) -> None:
    """One line was printed, the build said "no problems", and 151 views were dead."""
    (toolbox / "pyodide" / "pyodide.mjs").write_text("throw new Error('broken')")
    with pytest.raises(SystemExit, match="broken"):
        make_live.make_engine()


def test_a_number_names_works_by_their_titles() -> None:
    assert numbers.cited("williams2009roofline, sec. 3") == (
        "Roofline: An Insightful Visual Performance Model for Multicore Architectures (2009), sec. 3"
    )
    keys = re.findall(r"^@\w+\{([^,\s]+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.M)
    assert not [key for key in keys if numbers.cited(key) == key]


def test_listings_name_works_by_title() -> None:
    """``explain()`` printed ``nvidia2023h100``, which says nothing to a reader of the page."""
    code = '<div class="sourceCode" id="cb1"><pre class="sourceCode python"><code>x.explain()</code></pre></div>'
    shown = pages._listings("x", code, ["<pre>989.5 TFLOP/s  nvidia2023h100, p. 39; 1024 x a2023</pre>"], {})
    assert re.search(r"989.5 TFLOP/s  [^<]*H100[^<]* \(2023\), p. 39; 1024 x a2023", shown)
    assert "nvidia2023h100" not in shown


def test_listings_name_equations_by_number(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    link = '<a href="01-iron-law.html#eq-compute-time" class="quarto-xref"><span>Equation&nbsp;1.3</span></a>'
    (tmp_path / "book" / "equations.html").write_text(link)
    assert pages.named(tmp_path) == {"eq-compute-time": "Equation\u00a01.3"}
    shown = pages.told("<pre>1 s [@eq-compute-time] [@eq-nowhere]</pre>", {"eq-compute-time": "Equation 1.3"}, "book/")
    assert shown == (
        '<pre>1 s <a class="live-equation" href="book/01-iron-law.html#eq-compute-time">Equation 1.3</a> [@eq-nowhere]</pre>'
    )


def test_every_page_is_there_as_markdown_and_listed(tmp_path: Path) -> None:
    n = plain.put(tmp_path)
    listed = re.findall(r"\]\(([\w/.-]+\.md)\)", (tmp_path / "llms.txt").read_text(encoding="utf-8"))
    assert len(listed) == len(set(listed)) == n
    for name in listed:
        text = (tmp_path / name).read_text(encoding="utf-8")
        prose = re.sub(r"^(`{3,}).*?^\1|`[^`\n]*`", "", text, flags=re.S | re.M)
        assert (
            "{{<" not in prose and ".printed var" not in prose and not re.search(r"^:::|<svg|\.qmd[)#]", prose, re.M)
        ), name
    chapter = (tmp_path / "book" / "01-iron-law.md").read_text(encoding="utf-8")
    weights = next(
        v
        for k, v in yaml.safe_load((ROOT / "_variables.yml").read_text("utf-8"))["iron"]["toy"].items()
        if k == "weights"
    )
    assert f"Its weights are {weights} in 16 bits" in chapter
    assert "[tbl-efficiency]" in chapter and "| A100" in chapter  # a table of the notebook, with its label


def test_the_place_that_measures_a_machine_has_its_script(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    page = tmp_path / "book" / "any.html"
    page.write_text('<head></head><div class="live-here" data-machine="roofline">\n</div>', encoding="utf-8")
    pages._page(tmp_path, page, None, None, {})
    made = page.read_text(encoding="utf-8")
    assert made.count("Measure this machine") == 1
    assert all(f'src="assets/{name}.js"' in made for name in ("live", "machine"))
    assert "Measure this machine" not in pages.filled("any", '<div class="live-here" data-machine="roofline"></div>')
