"""Tasks that ask for something made: built functions on hidden inputs, figures by their data, measurements, designs, broken claims."""

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import make_exercises  # a script, not a package
import pytest
from support import ROOT

from mlsysim.course import check, inputs
from mlsysim.course.exercises import EXERCISES, OBJECTIVES, Exercise, assignment, judging, tasks
from mlsysim.course.live import built, checked, handed_in
from mlsysim.course.views import log_space

TASKS = [e for e in EXERCISES.values() if e.form in ("function", "data")]
SEEDS = ["", *(f"student-{i}" for i in range(12))]


def by_id(e: Exercise) -> str:
    return e.id


def test_every_chapter_asks_for_something_made_and_every_kind_is_asked_often_enough() -> None:
    assert len(TASKS) >= 40
    kinds = [e.kind for e in TASKS]
    assert {kind: kinds.count(kind) >= least for kind, least in KINDS.items()} == dict.fromkeys(KINDS, True)
    for slug in OBJECTIVES:
        assert any(e in TASKS for e in assignment(slug)), slug


KINDS = {"build": 15, "plot": 7, "measure": 4, "design": 7, "find-error": 7}


@pytest.mark.slow
@pytest.mark.parametrize("e", TASKS, ids=by_id)
def test_its_solution_is_right_on_public_and_on_hidden_cases(e: Exercise) -> None:
    for seed, word in itertools.product(SEEDS, ("", "hidden", "other")):
        feedback = check(e.id, e.solve(e.draw(seed)), seed, cases=word)
        assert (feedback.correct, feedback.points) == (True, e.points), (seed, word, feedback)


@pytest.mark.slow
@pytest.mark.parametrize("e", TASKS, ids=by_id)
def test_each_named_mistake_gets_its_own_hint(e: Exercise) -> None:
    assert len(e.mistakes) >= 2
    seen: set[str] = set()
    for seed in SEEDS:
        g = e.draw(seed)
        for m, way in [(mistake, way) for mistake in e.mistakes for way in mistake.ways]:
            feedback = check(e.id, way(g), seed)
            if feedback.mistake == m.name:
                assert feedback.message == f"Not yet. {m.hint.format_map(g.texts())}"
                assert feedback.points < e.points
                seen.add(m.name)
            elif (
                e.form == "function"
            ):  # a function that is made wrong is never right; a choice may be right for another reason
                assert not check(e.id, way(g), seed, cases="hidden"), m.name
    assert seen == {m.name for m in e.mistakes}


@pytest.mark.parametrize("e", [e for e in TASKS if e.form == "function"], ids=by_id)
def test_hidden_cases_are_others_and_who_learns_the_public_ones_by_heart_fails(e: Exercise) -> None:
    public, hidden = tasks.cases(e), tasks.cases(e, "a word")
    assert len(public) >= 10
    assert public == tasks.cases(e)
    assert public != hidden
    g = inputs(e.id, "ada")
    known = {json.dumps(case): out for case, out in zip(public, tasks.outputs(e.solve(g), public), strict=True)}

    def by_heart(*case: Any) -> Any:
        return known.get(json.dumps(case), 0)

    assert check(e.id, by_heart, "ada").correct
    assert not check(e.id, by_heart, "ada", cases="a word").correct


@pytest.mark.parametrize("e", TASKS, ids=by_id)
def test_what_is_no_answer_gets_a_sentence(e: Exercise) -> None:
    class Evil:
        def __call__(self, *a: object) -> object:
            raise RuntimeError("x" * 10_000)

        def __iter__(self) -> Any:
            raise RuntimeError

    def endless(*a: object) -> Any:
        x: list[Any] = []
        x.append(x)
        return x

    wrong = (
        None,
        ...,
        "",
        3,
        "text",
        [],
        {},
        [[]],
        object(),
        Evil(),
        endless,
        {"points": "no"},
        {"rows": [[1]]},
        math.nan,
        [10**5000],
    )
    for answer in wrong:
        feedback = check(e.id, answer, "ada")
        assert not feedback.correct, answer
        assert 10 < len(feedback.message) < 1200


# By hand: what some of the functions must give, from their definition


@pytest.mark.independent
def test_functions_that_were_asked_for_agree_with_other_ways_to_know() -> None:
    def solved(id: str) -> tuple[Callable[..., Any], Any]:
        g = inputs(id, "ada")
        return EXERCISES[id].solve(g), g

    ring, g = solved("04.12")
    data = [[float(10 * r + i) for i in range(12)] for r in range(4)]
    result, sent, seconds = ring(data)
    assert result == [sum(column) for column in zip(*data, strict=True)]
    assert sent == 2 * 3 * 3
    assert seconds == pytest.approx(6 * (g["latency"] + 3 * g["number"]))
    schedule, _ = solved("05.12")
    assert schedule(4, 3, 3) == ["F0", "B0", "F1", "B1", "F2", "B2"]
    assert schedule(4, 5, 0)[:5] == ["F0", "F1", "F2", "F3", "B0"]
    for pp, m, stage in itertools.product(range(1, 6), range(1, 8), range(5)):
        if stage < pp:
            order = schedule(pp, m, stage)
            held = list(itertools.accumulate(1 if o[0] == "F" else -1 for o in order))
            assert max(held) == min(m, pp - stage)  # what 1F1B is for
            assert sorted(order) == sorted([*(f"F{i}" for i in range(m)), *(f"B{i}" for i in range(m))])
    waits, g = solved("17.13")
    assert waits([0.0, 0.1], [1.0, 1.0]) == [0.0, pytest.approx(0.9 + g["setup"])]
    run, g = solved("11.13")
    assert run(1000.0, 300.0, []) == 1000 + 3 * g["write"]
    assert run(100.0, 300.0, [50.0]) == 50 + g["restart"] + 100
    finish, g = solved("08.15")
    assert finish([1.0], [3], 4) == [pytest.approx(1 + 3 * (g["fixed"] + g["each"]))]
    parameters, _ = solved("02.10")
    assert (
        parameters(1, 1, 1, 1, 1, 1, True) - parameters(0, 1, 1, 1, 1, 1, True)
        == 4 + 3 + 2 + inputs("02.10", "ada")["norms"]
    )
    count, _ = solved("19.10")
    loop = {"op": "while", "start": 0, "limit": 7, "step": 2, "body": [{"op": "elementwise", "size": 5}]}
    assert count([loop]) == 20
    front, _ = solved("13.11")
    assert front([[1.0, 10.0, 5.0], [2.0, 10.0, 4.0], [2.0, 11.0, 5.0]]) == [0, 1]
    state, g = solved("03.11")
    assert state(7, 4, 3) == 2 * (g["weight"] + g["gradient"] + g["optimizer"])


# Figures


class Line:
    def __init__(self, points: list[tuple[float, float]]) -> None:
        self.points = points

    def get_data(self) -> tuple[list[float], list[float]]:
        return [x for x, _ in self.points], [y for _, y in self.points]


class Axes:
    """What matplotlib's axes offer of it."""

    def __init__(self, *lines: list[tuple[float, float]]) -> None:
        self.lines = [Line(p) for p in lines]

    def get_lines(self) -> list[Line]:
        return self.lines


class Figure:
    def __init__(self, axes: Axes) -> None:
        self.axes = axes

    def get_axes(self) -> list[Axes]:
        return [self.axes]


def test_a_figure_is_looked_at_by_its_data() -> None:
    e = EXERCISES["01.13"]
    best = e.solve(e.draw("ada"))
    points = best["points"][::8]
    for given in (points, Axes(points), Figure(Axes([(1.0, 1.0)], points))):
        assert check("01.13", {"points": given, "reading": best["reading"]}, "ada").correct
    half = check("01.13", {"points": points, "reading": 3 * best["reading"]}, "ada")
    assert (half.correct, half.points, half.mistake) == (False, e.points / 2, "reading")
    few = check("01.13", {"points": points[:6], "reading": best["reading"]}, "ada")
    assert few.mistake == "range"
    bent = [(x, y * (1.2 if x > 1000 else 1)) for x, y in points]
    assert check("01.13", {"points": bent, "reading": best["reading"]}, "ada").mistake == "off-curve"


def test_matplotlib_axes_are_read() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    e = EXERCISES["14.11"]
    assert e.kind == "measure"
    best = EXERCISES["17.14"].solve(inputs("17.14", "ada"))
    figure, axes = plt.subplots()
    axes.plot(*zip(*best["points"], strict=True))
    for given in (axes, figure):
        assert check("17.14", {"points": given, "reading": best["reading"]}, "ada").correct
    plt.close(figure)


# Measurements


def test_a_fit_is_checked_against_its_own_rows() -> None:
    g = inputs("01.14", "ada")
    sizes = list(log_space(g["first"], g["last"], 12))
    made = [(s, 2e-7 + 2 * s / 8e9) for s in sizes]
    right = {"rows": made, "rate": 8e9, "start": 2e-7}
    assert check("01.14", right, "ada").correct
    for change, name in (
        ({"rate": 8.0}, "bare-giga"),
        ({"rate": 4e9}, "work"),
        ({"start": 1e-3}, "start"),
        ({"rows": made[:2]}, "range"),
        ({"rate": 1e9}, "not-fitted"),
    ):
        assert check("01.14", right | change, "ada").mistake == name


@pytest.mark.independent
def test_the_line_of_a_fit() -> None:
    rows = [(x, 3e-6 + 2e-9 * x) for x in (10, 1e3, 1e4, 1e6)]
    assert judging.fitted(rows) == (pytest.approx(3e-6), pytest.approx(2e-9))
    numpy = pytest.importorskip("numpy")
    rough = [(float(x), float(y)) for x, y in zip(range(1, 9), (3, 5, 8, 9, 12, 12, 16, 17), strict=True)]
    slope, start = numpy.polyfit([x for x, _ in rough], [y for _, y in rough], 1, w=[1 / y for _, y in rough])
    assert judging.fitted(rough) == (pytest.approx(start), pytest.approx(slope))


# Designs


@pytest.mark.parametrize("e", [e for e in TASKS if e.kind == "design"], ids=by_id)
def test_a_design_has_a_rubric_and_points_for_what_is_nearly_best(e: Exercise) -> None:
    assert len(e.rubric) >= 2
    assert all(line.startswith("1 point: ") for line in e.rubric)
    feedback = check(e.id, e.solve(e.draw("ada")), "ada")
    assert "of the best" in feedback.message


@pytest.mark.independent
def test_no_choice_of_hours_is_better_than_the_one_found() -> None:
    e = EXERCISES["09.10"]
    for seed in ("ada", "bob"):
        g = e.draw(seed)
        forecast = [float(x) for x in g["forecast"].split(", ")]

        def carbon(hours: tuple[int, ...], g: Any = g, forecast: list[float] = forecast) -> float:
            again = [h for h in hours[1:] if h - 1 not in hours]
            return (
                sum(forecast[h] for h in hours) * g["power"] / 1e3
                + sum(forecast[h] for h in again) * g["restart"] / 3.6e6
            )

        cleanest = sorted(range(24), key=forecast.__getitem__)[:15]
        best = min(carbon(tuple(sorted(c))) for c in itertools.combinations(cleanest, g["hours"]))
        assert carbon(tuple(e.solve(g))) <= best * (1 + 1e-9)


def test_points_between() -> None:
    answer, why, said = judging.plan(lambda x: float(x), 0.9, 1.0)
    assert (answer, why) == (0.8, "slower")
    assert "90 %" in said
    assert judging.plan(lambda x: None if x > 1 else x, 2.0, 1.0)[:2] == (0.0, "not-allowed")


# Data


def test_plain_data_is_bounded() -> None:
    for wrong in ([[0] * 200] * 200, [[[[[[[[1]]]]]]]], [10**1000]):
        with pytest.raises(ValueError, match=r"more than|large"):
            tasks.plain(wrong)
    assert tasks.plain(range(3)) == [0, 1, 2]
    assert tasks.plain("x" * 10_000) == "x" * 2000


# On the page, and in what is handed in

KERNEL = """def kernel_time(flops, bytes):
    g = inputs("01.12", seed=STUDENT)
    return max(flops / (g["peak"] * g["efficiency"]), bytes / (g["bandwidth"] * g["memory_efficiency"]), g["least"])"""


def test_a_page_takes_code_and_hands_it_in() -> None:
    code = KERNEL.replace("inputs(", "__import__('mlsysim.course', fromlist=['x']).inputs(").replace("STUDENT", "'ada'")
    assert checked("01.12", code, "ada")["correct"]
    assert (
        "SyntaxError" in checked("01.12", "def f(:", "ada")["message"]
        or "invalid syntax" in checked("01.12", "def f(:", "ada")["message"]
    )
    plan = EXERCISES["03.12"].solve(inputs("03.12", "ada"))
    assert checked("03.12", repr(plan), "ada")["correct"]
    assert built("answer = [1, 2]") == [1, 2]
    notebook = (ROOT / "exercises" / "01-iron-law" / "student.ipynb").read_text(encoding="utf-8")
    made = json.loads(handed_in(notebook, "ada", {"01.12": KERNEL}))
    space: dict[str, Any] = {}
    for c in made["cells"]:
        text = "".join(c["source"])
        if c["cell_type"] == "code" and "%pip" not in text:
            exec(text, space)
    assert check("01.12", space["answer_12"], "ada", cases="hidden")


def test_a_reason_written_in_a_page_is_handed_in() -> None:
    from mlsysim.course.grading.reasons import UNTOUCHED, written
    from mlsysim.course.live import question as shown

    assert UNTOUCHED in shown("03.12")["starter"]
    notebook = (ROOT / "exercises" / "03-memory" / "student.ipynb").read_text(encoding="utf-8")
    plan = 'answer = {"stage": 1, "micro_batch": 2, "recompute": True}'
    for said, kept in (
        ('reason = "Memory binds."', "Memory binds."),
        ("reason = 1 /", ""),
        (f"reason = {UNTOUCHED!r}", ""),
    ):
        made = json.loads(handed_in(notebook, "ada", {"03.12": f"{plan}\n{said}"}))
        code = ["".join(c["source"]) for c in made["cells"] if c["cell_type"] == "code"]
        assert written(code, assignment("03-memory")) == {"03.12": kept}
        assert any(plan in c and "answer_12 = answer" in c for c in code)


def test_what_was_made_is_graded_outside_of_the_process_that_ran_it(tmp_path: Path) -> None:
    from mlsysim.course.grading.marks import grade_one
    from mlsysim.course.grading.submissions import Submission

    exercises = assignment("03-memory")
    notebook = json.loads(make_exercises.student("03-memory"))
    solved = {
        e.id: make_exercises.named(e.solution.replace("SEED", "STUDENT"), make_exercises.answer_name(e))
        for e in exercises
    }
    for cell in notebook["cells"]:
        text = "".join(cell["source"]).replace('"your-id"', '"ada"')
        for e in exercises:
            if cell["cell_type"] == "code" and f'= inputs("{e.id}"' in text and "answer_" in text:
                text = solved[e.id]
        cell["source"] = text.splitlines(keepends=True)
    (tmp_path / "ada.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    row = grade_one(Submission(tmp_path / "ada.ipynb", "ada"), exercises, sandboxed=False, timeout=300, word="secret")
    assert {id: p for id, p in row.points.items() if p < EXERCISES[id].points} == {}
    assert row.score == row.max_score


# What is nearly an answer


@pytest.mark.regression
@pytest.mark.parametrize(
    ("id", "answer", "name", "says"),
    [
        ("02.10", lambda *a: None, "no-answer", "hands its result back with `return`"),
        ("02.10", lambda *a: "3", "not-read", "it gives '3', a text, where a number is asked for"),
        ("02.10", lambda *a: 3, None, "it gives 3. Which"),
        ("02.11", {"bound": ..., "factor": ...}, "no-answer", "No answer yet"),
        ("11.14", {"points": [...], "reading": ...}, "no-answer", "No answer yet"),
        ("02.11", {"bound": "peak", "factor": ...}, "not-read", "'factor' is missing or holds dots still"),
        ("02.11", {"bound": "peak", "factor": "4 s"}, "not-read", "'factor': '4 s' is not read"),
        (
            "02.11",
            ("peak", 4.0),
            "not-read",
            "The answer is a list, where a dictionary is asked for: write it as `answer = {",
        ),
        ("02.11", {"bound": "peak", "factor": math.nan}, "not-read", "not finite"),
        ("01.14", {"rows": [[1, 1]], "rate": math.nan, "start": 0.0}, "not-read", "not finite"),
    ],
)
def test_what_is_no_answer_is_told_in_words(id: str, answer: Any, name: str | None, says: str) -> None:
    feedback = check(id, answer, "ada")
    assert (feedback.correct, feedback.points, feedback.mistake) == (False, 0, name)
    assert says in feedback.message
    assert "Error" not in feedback.message


@pytest.mark.regression
def test_texts_that_are_numbers_are_read_as_numbers() -> None:
    best = EXERCISES["02.11"].solve(inputs("02.11", "ada"))
    assert check("02.11", {**best, "factor": f"{100 * best['factor']:.6g} %"}, "ada").correct


@pytest.mark.regression
def test_failures_during_a_restart_and_points_in_minutes_are_named() -> None:
    e = EXERCISES["11.13"]
    way = next(m for m in e.mistakes if m.name == "restart-not-struck").ways[0]
    for word in ("", "hidden", "other"):
        assert check("11.13", way(inputs("11.13", "ada")), "ada", cases=word).mistake == "restart-not-struck"
    best = EXERCISES["11.14"].solve(inputs("11.14", "ada"))
    minutes = {"points": [(t / 60, y) for t, y in best["points"]], "reading": best["reading"] / 60}
    assert (
        "You have 401 points from 1 to 120; it takes at least 12 from 60 to 7200"
        in check("11.14", minutes, "ada").message
    )


CLAIMS = [e for e in TASKS if e.kind == "find-error" and "bound" in e.starter]


@pytest.mark.regression
@pytest.mark.parametrize("e", CLAIMS, ids=by_id)
def test_a_claim_that_breaks_nothing_is_never_said_to_break_another_bound(e: Exercise) -> None:
    """Every choice is tried on every truth, "none" and "possible" among them."""
    seeds = [f"q{i}" for i in range(24)]
    truths = {s: e.solve(e.draw(s)) for s in seeds}
    choices = {t["bound"] for t in truths.values()}
    for seed, best in truths.items():
        named = {m.name for m in e.mistakes}
        for bound, factor in itertools.product(choices, (best["factor"], 3.3 * best["factor"])):
            feedback = check(e.id, {"bound": bound, "factor": factor}, seed)
            if feedback.correct or feedback.mistake in named:
                continue
            if bound == best["bound"]:
                assert f"'{bound}' is right. The factor is not" in feedback.message
            else:
                assert "set the claim beside each bound that the question names" in feedback.message
            assert "broken" not in feedback.message


def test_a_choice_without_a_finite_score_gets_nothing() -> None:
    assert judging.plan(lambda x: float(x), math.nan, 1.0)[:2] == (0.0, "not-allowed")


def test_an_input_that_is_not_there_is_told_with_those_that_are() -> None:
    g = inputs("02.1", "ada")
    with pytest.raises(KeyError, match=r"unknown input of 02\.1 'layer'; did you mean 'layers'"):
        g["layer"]
    assert g.get("layer", 3) == 3
    assert "layer" not in g
