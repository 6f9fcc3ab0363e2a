"""The lecturer's kit: keys, worked solutions, question banks, tests before and after, and the two capstones."""

import csv
import io
import json
import math
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import course_plan  # scripts, not packages
import make_exercises
import make_kit
import numpy as np
import pytest
from slides import decks
from slides.deck import ANSWER, NEARLY, NoDeck
from support import ROOT

from mlsysim.course import check, question
from mlsysim.course.exercises import EXERCISES, OBJECTIVES, capstones, exercise
from mlsysim.errors import InputError, UnknownNameError

BANKED = [e for e in EXERCISES.values() if e.form in ("number", "word")]


def test_the_book_holds_the_worked_solutions_of_the_public_seed() -> None:
    text = make_kit.BOOK.read_text(encoding="utf-8")
    assert text == make_kit.folded()
    assert text.count("<details>") == len(EXERCISES)
    assert "{{< include _solutions.qmd >}}" in (ROOT / "book" / "solutions.qmd").read_text(encoding="utf-8")


@pytest.mark.slow
def test_no_printed_answer_is_cut_in_the_middle_of_its_data() -> None:
    answers = re.findall(r"^\*Answer:\* `(.*)`$", (ROOT / "book" / "_solutions.qmd").read_text("utf-8"), re.M)
    assert len(answers) > 300 and max(map(len, answers)) < 400
    assert not [a for a in answers if a.count("[") != a.count("]") or a.count("{") != a.count("}")]
    assert not [a for a in answers if re.search(r"\d\.\d{12}", a)]


def test_an_answer_sheet_is_right_for_its_seed() -> None:
    rows = make_kit.key("ada")
    assert [r[0] for r in rows[1:]] == list(EXERCISES)
    for r in rows[1:]:
        if EXERCISES[r[0]].form == "number":
            assert check(r[0], float(r[7]), "ada").correct
            assert check(r[0], r[6], "ada").correct
    assert "ada" in make_kit.solutions("ada")


@pytest.mark.slow
def test_banks_are_well_formed_and_grade_as_the_library_does() -> None:
    quiz = ElementTree.fromstring(make_kit.moodle(["ada"]))
    asked = [q for q in quiz if q.get("type") != "category"]
    assert len(asked) == len(BANKED)
    for q in asked:
        id = (q.findtext("name/text") or "").split()[0]
        answers = q.findall("answer")
        (right,) = [a for a in answers if a.get("fraction") == "100"]
        assert check(id, right.findtext("text"), "ada").correct
        for wrong in answers:
            if wrong is not right:
                assert not check(id, wrong.findtext("text"), "ada").correct
                if q.get("type") == "numerical":
                    assert abs(float(wrong.findtext("text") or 0) - float(right.findtext("text") or 0)) > float(
                        right.findtext("tolerance") or 0
                    )
    for e in BANKED:  # a bank reads numbers alone, and says nothing else
        assert not re.search("text with a unit|percentage,? such as", make_kit.bare(e, "ada")), e.id
        assert e.form == "word" or make_kit.bare(e, "ada").count("(Give the number alone") == 1
    first = make_kit.qti(["ada"])
    assert first == make_kit.qti(["ada"])
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        names = archive.namelist()
        assert len(names) == len(BANKED) + 1
        manifest = archive.read("imsmanifest.xml").decode()
        for name in names:
            ElementTree.fromstring(archive.read(name))
            assert name == "imsmanifest.xml" or f'href="{name}"' in manifest


@pytest.mark.slow
@pytest.mark.regression
def test_canvas_reads_a_range_around_every_number_and_rounds_none_of_them_away() -> None:
    """Of the QTI 2.1 bank Canvas read one text as the answer, so that 0.3562 ms was wrong where 0.3562258073 stood."""
    with zipfile.ZipFile(io.BytesIO(make_kit.canvas(["ada"]))) as archive:
        banks = [ElementTree.fromstring(archive.read(n)) for n in archive.namelist() if n != "imsmanifest.xml"]
    items = [i for bank in banks for i in bank.findall(".//{*}item")]
    assert len(banks) == len(OBJECTIVES) and len(items) == len(BANKED)
    for item in items:
        e = EXERCISES[(item.get("ident") or "").removesuffix("-ada")]
        fields = {f[0].text: f[1].text for f in item.findall(".//{*}qtimetadatafield")}
        assert fields["points_possible"] == str(e.points)
        if e.form == "word":
            right = item.findtext(".//{*}varequal")
            said = item.findtext(f".//{{*}}response_label[@ident='{right}']//{{*}}mattext")
            assert check(e.id, said, "ada").correct
            continue
        assert fields["question_type"] == "numerical_question"
        low, high = sorted(float(item.findtext(f".//{{*}}{edge}") or "nan") for edge in ("vargte", "varlte"))
        text = item.findtext(".//{*}mattext") or ""
        times, small = re.search(r"alone times 10\^(\d+)", text), re.search(r"alone, in (ms|µs|ns)\.", text)
        scale = 10 ** int(times[1]) if times else {"ms": 1e3, "µs": 1e6, "ns": 1e9}[small[1]] if small else 1
        answer = e.solve(e.draw("ada")) * scale
        typed = float(f"{answer:.4f}")  # as Canvas keeps it
        assert low <= typed <= high or abs(typed - answer) <= 1e-9 * abs(answer), e.id
        assert check(e.id, typed / scale, "ada").correct, e.id
        beyond = (low - 0.1 * (high - low)) / scale
        assert e.whole or not check(e.id, beyond, "ada").correct, e.id


_PRAIRIE = """
import importlib.util, json, sys
sys.path[:0] = sys.argv[2:0:-1]  # the question's folder, then serverFilesCourse, as PrairieLearn has them
import server
data = {"variant_seed": 7, "params": {}, "raw_submitted_answers": {}, "feedback": {}}
server.generate(data)
found = [data["params"]["prompt"]]
for answer in json.loads(sys.argv[3]):
    data["raw_submitted_answers"] = {"answer": answer}
    server.grade(data)
    found.append([data["score"], data["feedback"]["hint"]])
json.dumps(data, allow_nan=False)
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.regression
def test_a_prairielearn_question_finds_the_library_in_its_course(tmp_path: Path) -> None:
    """Its image had to have mlsysim-book, which no index has. Here a Python without packages runs a question."""
    files = make_kit.prairielearn() | make_kit.library()
    assert len(make_kit.prairielearn()) == 3 * len(BANKED)
    for name, data in files.items():
        if name.startswith(("serverFilesCourse/", "questions/mlsysim-01-7/")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    e = EXERCISES["01.7"]
    answers = [f"{e.solve(e.draw('7'))} s", "1 s", "GB"]
    command = [sys.executable, "-S", "-E", "-c", _PRAIRIE, str(tmp_path / "serverFilesCourse")]
    command += [str(tmp_path / "questions" / "mlsysim-01-7"), json.dumps(answers)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    prompt, *graded = json.loads(ran.stdout)
    assert prompt == str(question("01.7", "7"))
    assert graded == [[float(check("01.7", a, "7").correct), check("01.7", a, "7").message] for a in answers]
    assert json.loads(files["questions/mlsysim-01-7/info.json"])["type"] == "v3"


def test_the_test_before_and_the_test_after_ask_the_same_with_other_numbers() -> None:
    assert len(make_kit.TWENTY) == len({exercise(id).objective for id in make_kit.TWENTY}) == 20
    before, key_before = make_kit.twenty("before")
    after, key_after = make_kit.twenty("after")
    assert before != after
    assert "text with a unit" not in before  # there are choices, and no computer
    for text, seed in ((before, "before"), (after, "after")):
        for id in make_kit.TWENTY:
            device = exercise(id).draw(seed).texts().get("device")
            assert device is None or f"({device}: dense bf16 peak" in text
    for rows, seed in ((key_before, "before"), (key_after, "after")):
        table = list(csv.DictReader(io.StringIO(make_kit._csv(rows))))
        for id in make_kit.TWENTY:
            several = [r for r in table if r["exercise"] == id]
            assert len(several) >= 3
            assert sum(r["right"] == "1" for r in several) == 1
            assert all(r["misconception"] for r in several if r["right"] == "0")
            texts, at = make_kit.choices(id, seed)
            assert [check(id, t, seed).correct for t in texts] == [i == at for i in range(len(texts))]
            assert exercise(id).title in (before if seed == "before" else after)


@pytest.mark.parametrize(("before", "after", "gain"), [(4, 12, 0.5), (0, 20, 1.0), (10, 5, -0.5), (20, 20, 0.0)])
def test_normalised_gain(before: int, after: int, gain: float) -> None:
    assert course_plan.gain(before, after) == gain


@pytest.mark.independent
def test_an_effect_is_that_of_a_textbook(tmp_path: Path) -> None:
    """Borenstein et al. 2009, chapter 4: 50 pairs, a change of 3, a deviation of 7.1005, a correlation of 0.7."""
    rng = np.random.default_rng(4)
    first, second, _ = (
        np.linalg.qr(np.column_stack([np.ones(50), rng.normal(size=(50, 2))]))[0].T[[1, 2, 0]] * 7.0
    )  # of unit length
    made = course_plan.effect(
        (100 + 7.1005 * first).tolist(), (103 + 7.1005 * (0.7 * first + math.sqrt(1 - 0.7**2) * second)).tolist(), 200
    )
    assert made.g == pytest.approx(0.4160, abs=2e-4)
    assert (made.g_range[1] - made.g) / 1.96 == pytest.approx(math.sqrt(0.0127), rel=0.01)
    file = tmp_path / "scores.csv"
    file.write_text("student,before,after\na,4,12\nb,8,14\nc,6,\nd,10,15\ne,5,11\n", encoding="utf-8")
    found = course_plan.read(file)
    assert found.students == 4 and found.gain == pytest.approx((8 / 16 + 6 / 12 + 5 / 10 + 6 / 15) / 4)
    for wrong in (
        "student\na\n",
        "before,after\n1,2\n3,4\n",
        "before,after\n1,x\n3,4\n5,6\n",
        "before,after\n1,2\n3,99\n5,6\n",
    ):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError):
            course_plan.read(file)


def test_a_syllabus_has_the_hours_of_the_book_and_of_its_exercises() -> None:
    for weeks, count in ((course_plan.FOURTEEN, 14), (course_plan.SIX, 6)):
        rows = course_plan.syllabus(weeks).splitlines()[2:]
        assert len(rows) == count + 1
        for row, (_, what) in zip(rows, weeks, strict=False):
            cells = [c.strip() for c in row.strip("|").split("|")]
            ids = re.findall(r"`(\d\d\.\d+)`", cells[3])
            names = [x for x in what if isinstance(x, str)]
            hours = sum(EXERCISES[i].minutes for i in ids) / 60
            hours += sum(h for n in names for _, h in capstones.texts(n)["milestones"])
            assert float(cells[5]) == pytest.approx(hours, abs=0.051)
            read = len(what) - len(names)
            assert 0.4 * read <= float(cells[4]) <= 0.8 * read  # a chapter's core stays within 45 minutes
    kit = make_kit._README
    assert "course_plan.py scores.csv" in kit and "{fourteen}" in kit
    assert "{{< include _syllabi.qmd >}}" in (ROOT / "book" / "teaching.qmd").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", make_exercises.CAPSTONES)
def test_a_capstone_grades_its_own_examples_and_says_what_is_missing(name: str) -> None:
    text = capstones.texts(name)
    assert sum(points for points, _ in text["rubric"]) == 10
    points = []
    for grade in capstones.GRADES:
        found = capstones.check_report(name, capstones.sample(name, "ada", grade), "ada")
        assert found.grade(text[grade]["marks"]) == grade, (grade, found)
        assert all(0 <= m <= most for m, (most, _) in zip(text[grade]["marks"], text["rubric"], strict=True))
        points.append(found.points)
    assert points == sorted(points, reverse=True) and len(set(points)) == 3
    report = capstones.sample(name, "ada")
    if name == "training":
        assert capstones.check_report(name, report, "ada").points == capstones.check_report(name, report, "ada").full
        large = report | {"plan": {"dp": 8 * report["nodes"], "micro_batch": 2, "recompute": "none"}}
        assert capstones.check_report(name, large, "ada").points <= points[0] - 2
        with pytest.raises(InputError, match="8 devices"):
            capstones.check_report(name, report | {"plan": {"dp": 8}}, "ada")
    if name == "machine":
        copied = report | {"measured": [r[1] for r in report["ranges"]]}
        assert "no measurements" in repr(capstones.check_report(name, copied, "ada"))
    with pytest.raises(InputError, match="the parts that the brief names"):
        capstones.check_report(name, {}, "ada")
    with pytest.raises(UnknownNameError):
        capstones.brief("sailing")
    assert "**" in capstones.brief(name, "ada") != capstones.brief(name)


@pytest.mark.independent
def test_nobody_earns_more_than_by_the_range_in_which_they_believe() -> None:
    """The honesty row of the capstone, in the mean over what may be measured: bolder and more timid ranges earn less."""
    report, drawn = capstones.sample("machine", "ada"), random.Random(7)
    likely = [r[1] for r in report["ranges"]]
    worlds = [[x * math.exp(drawn.gauss(0, 0.2)) for x in likely] for _ in range(100)]
    earned = {}
    for width in (0.05, 0.5, 1.0, 2.0, 4.0):  # of the honest one, whose ends are 1.2816 deviations away
        size = width * 1.2816 * 0.2
        said = report | {"ranges": [[x * math.exp(-size), x, x * math.exp(size)] for x in likely]}
        rows = [capstones._machine(said | {"measured": world}, "ada")[-1] for world in worlds]
        earned[width] = sum(r[1] for r in rows) / len(rows)
    assert max(earned, key=lambda w: earned[w]) == 1.0, earned
    assert earned[1.0] > 0 > earned[0.05]  # sure of what one cannot know: worse than to say nothing


@pytest.mark.slow
def test_a_machine_can_be_measured_as_its_capstone_asks() -> None:
    times = capstones.measured(capstones.works("ada")[:2])
    assert len(times) == 2 and all(1e-6 < t < 10 for t in times)


def test_capstones_have_a_brief_milestones_a_rubric_and_examples() -> None:
    for name in make_exercises.CAPSTONES:
        for who in ("student", "master"):
            text = (ROOT / "exercises" / "capstones" / name / f"{who}.ipynb").read_text(encoding="utf-8")
            assert "capstones.brief(" in text and "capstones.check_report(" in text and "## Milestones" in text
            assert text.count("capstones.sample(") == (3 if who == "master" else 0)
        assert len(capstones.texts(name)["distinction"]["page"]) > 500


# Slides

PAGE = """<h1 id="sec-x"><span class="chapter-number">3</span> Will it fit? Memory</h1>
<h2 id="objectives">Objectives</h2><ol><li>Count the bytes of a state. (<code>03.1</code>)</li></ol>
<div class="callout callout-tip"><div class="callout-title">Predict before you read on</div><div class="callout-body"><p>How many?</p></div></div>
<h2 id="intuition"><span class="header-section-number">3.1</span> Intuition</h2>
<p>A model must lie somewhere, e.g. in memory. What else does? Much more.</p>
<figure id="fig-x"><p><img src="../figures/x.svg" alt="Two bars."></p><figcaption><span class="float-number">Figure 3.1</span>: Two bars of bytes. The second is longer.</figcaption></figure>
<p>Here we answer the prediction. It takes <strong>sixteen</strong>.</p>
<h2 id="derivation">Derivation</h2><p>With two bytes a weight we get</p>
<p><span id="eq-x" class="equation"><math display="block"><semantics><mi>M</mi><annotation encoding="application/x-tex">M = 2 N</annotation></semantics></math><span class="equation-number">(3.1)</span></span></p>
<h2 id="where">Where it breaks</h2><p><strong>Padding.</strong> Blocks are whole.</p>
<h2 id="takeaway">Takeaway</h2><div class="takeaway"><p>State is most of it.</p></div>
<h2 id="exercises">Exercises</h2><p>Not on a slide.</p>"""
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="5"><title>Two bars.</title></svg>'


def deck(folder: Path, page: str = PAGE) -> tuple[str, str]:
    """The source and the HTML of a small deck."""
    decks.write(folder, "03-memory", "book/03-memory.html", page, {"figures/x.svg": SVG})
    return tuple((folder / f"03-memory.{end}").read_text(encoding="utf-8") for end in ("qmd", "html"))  # type: ignore[return-value]


def test_every_chapter_says_where_it_answers_its_prediction() -> None:
    for slug in OBJECTIVES:
        page = (ROOT / "book" / f"{slug}.qmd").read_text("utf-8")
        assert ANSWER.search(page) or NEARLY.search(page), slug
    assert not ANSWER.search("To choose among so many, with the degrees they become those of the prediction.")


def test_slides_come_from_the_chapter(tmp_path: Path) -> None:
    source, html = deck(tmp_path)
    assert re.findall(r"^## (.*)", source, re.M) == [
        "After this you can",
        "Predict",
        "Two bars of bytes",
        "The answer",
        "Derivation",
        "Where it breaks",
        "Take away",
        "Now you",
    ]
    assert 'title: "Will it fit?"' in source
    assert "Memory, chapter 3 of" in source
    assert "Here we answer the prediction." in source.partition("## The answer")[2]
    notes = re.findall(r"::: notes\n(.*?)\n:::", source, re.S)
    assert "A model must lie somewhere, e.g. in memory." in notes[1]
    assert "Not on a slide" not in source
    assert "03.12 Which stage, which batch? (design" in source
    assert html.count("<section") == 9
    assert "<math" in html
    assert 'alt="Two bars."' in html
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)  # nothing is fetched
    assert [p.suffix for p in (tmp_path / "figures").iterdir()] == [".svg"]
    assert deck(tmp_path) == (source, html)
    for gone, what in (("answer the prediction", "answer"), ("Predict before", "predict"), ("fig-x", "picture")):
        with pytest.raises(NoDeck, match=what):
            deck(tmp_path, PAGE.replace(gone, "nothing"))
