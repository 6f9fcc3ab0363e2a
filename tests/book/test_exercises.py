"""The graded exercises: numbers by hand, every classic slip and its hint, nonsense, otter, and the sandbox."""

import ast
import csv
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import make_exercises  # a script, not a package
import pytest
from sandboxed import usable_sandbox
from support import NIGHTLY, ROOT, missing

import mlsysim
from mlsysim import roofline, units
from mlsysim.cli import main
from mlsysim.course import check, inputs, question
from mlsysim.course.exercises import (
    EXERCISES,
    OBJECTIVES,
    Exercise,
    assignment,
    chapters,
    definitions,
    engine,
    running,
    tasks,
)
from mlsysim.equations import REGISTRY, recording
from mlsysim.errors import InputError, UnknownNameError

SLUG = "01-iron-law"
NUMBERS = [e for e in EXERCISES.values() if e.form == "number"]
WORDS = [e for e in EXERCISES.values() if e.form == "word"]
TASKS = [e for e in EXERCISES.values() if e.form in ("function", "data")]
SEEDS = [f"student-{i}" for i in range(200)]


def by_id(e: Exercise) -> str:
    return e.id


def draws(e: Exercise) -> Iterator[definitions.Inputs]:
    """Every draw; of a search, which takes long, by day every fourth."""
    return itertools.islice(e.every_draw(), 0, None, 4 if e.searches and not NIGHTLY else 1)


# Numbers by hand: the public demo's inputs and the arithmetic, typed; nothing of the library stands on this side.

H100_PEAK, H100_BANDWIDTH = 989.5e12, 3.35e12
BY_HAND: dict[str, tuple[dict[str, Any], float]] = {
    "01.1": (
        {"m": 2048, "n": 8192, "k": 4096, "efficiency": 0.6, "steps": 16},
        max(
            2 * 2048 * 8192 * 4096 / (H100_PEAK * 0.6),
            2 * (2048 * 4096 + 4096 * 8192 + 2048 * 8192) / H100_BANDWIDTH,
        )
        + 16 * 2 * (4096 + 4096 * 8192 + 8192) / H100_BANDWIDTH,  # rows wait for the memory
    ),
    "01.2": ({"m": 512, "n": 4096, "k": 4096}, (2 * 512 * 4096 * 4096 / (2 * (512 * 4096 + 4096 * 4096 + 512 * 4096))) / (H100_PEAK / H100_BANDWIDTH)),
    "01.3": ({"intensity": 40.0, "efficiency": 0.6, "memory_efficiency": 0.9}, min(H100_PEAK * 0.6, 40 * 0.9 * H100_BANDWIDTH)),
    "01.4": (
        {"parameters": 1e9, "layers": 26, "kernels_per_layer": 9, "launch_overhead": 8e-6},
        234 * 8e-6 - 233 / 234 * max(2e9 / H100_PEAK, 2e9 / H100_BANDWIDTH),  # the last kernel runs after its launch
    ),
    "01.5": ({"n": 4096, "time": 224e-6}, 2 * 4096**3 / 224e-6 / H100_PEAK),
    "01.7": ({"parameters": 70e9, "claimed": 4.2e-3}, 140e9 / H100_BANDWIDTH),
}  # fmt: skip


@pytest.mark.independent
@pytest.mark.parametrize("id", BY_HAND)
def test_the_demo_agrees_with_arithmetic_by_hand(id: str) -> None:
    given, by_hand = BY_HAND[id]
    assert dict(inputs(id)) == {"device": "H100-SXM5-80GB", **given}
    assert EXERCISES[id].solve(inputs(id)) == pytest.approx(by_hand, rel=1e-12)
    feedback = check(id, by_hand)
    assert feedback.correct
    assert feedback.points == EXERCISES[id].points


@pytest.mark.independent
@pytest.mark.parametrize(
    ("m", "nk", "overhead", "device", "word"),
    [
        (512, 8192, 5e-6, "H100-SXM5-80GB", "compute"),  # 455 FLOP/byte against 295; 69 us against 5
        (64, 8192, 10e-6, "A100-SXM4-80GB", "memory"),  # 63 FLOP/byte against 153; 67 us against 10
        (64, 1024, 5e-6, "MI300X", "dispatch"),  # 2.4 MB take 0.4 us, the launch 5
        (16, 512, 8e-6, "B200-SXM-180GB", "dispatch"),
        (32, 16384, 8e-6, "H200-SXM-141GB", "memory"),
    ],
)
def test_what_bounds_it_by_hand(m: int, nk: int, overhead: float, device: str, word: str) -> None:
    e = EXERCISES["01.6"]
    want = {"m": m, "n": nk, "k": nk, "launch_overhead": overhead, "device": device}
    g = next(g for g in e.every_draw() if dict(g) == want)
    assert engine.grade(e, f" {word.upper()}-bound ", g).correct


def in_short(e: Exercise) -> str:
    """What the demo's solution gives, in few letters: a function's results for the public cases, or the data."""
    found = e.solve(e.draw())
    data = tasks.outputs(found, tasks.cases(e)) if e.form == "function" else tasks.plain(found)

    def rounded(value: Any) -> Any:
        if isinstance(value, list):
            return [rounded(v) for v in value]
        if isinstance(value, dict):
            return {k: rounded(v) for k, v in value.items()}
        return float(f"{value:.9g}") if isinstance(value, float) else value

    text = json.dumps(rounded(data), sort_keys=True)
    return text if len(text) <= 80 else f"{len(text)} letters, sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


@pytest.mark.independent
def test_right_answers_by_the_words_of_a_prompt_are_right_or_told_apart() -> None:
    """What a second reader had refused: whole passes, and rules that the prompts did not state."""
    for seed in SEEDS[:80]:
        g = inputs("07.9", seed)
        passes = math.ceil(g["input_len"] / g["chunk"])
        cached = sum(i * g["chunk"] for i in range(passes))
        assert check("07.9", passes * g["weight_bytes"] + cached * g["token_bytes"], seed).correct
        g = inputs("06.6", seed)
        late = (g["pp"] - 1) / g["micro_batches"]
        stretched = (g["compute"] + (1 - g["overlap"]) * g["communication"]) * (1 + late)
        assert check("06.6", stretched, seed).mistake == "messages-wait"
        g = inputs("16.9", seed)
        freed = g["tokens"] / (g["compute"] + (1 - g["compute_units"]) * g["messages"])
        assert check("16.9", freed, seed).mistake == "given-back"
        assert check("10.10", 0, seed).points == 0 == check("10.10", 1, seed).points
    assert "set aside for messages" in question("16.9") and "the job waits for it" in question("11.8")
    assert "at random, whatever it is doing" in question("11.8") and "named from 0" in question("20.1") + question(
        "20.2"
    )
    assert "1 where it misses the target" in question("13.14") and "embedding and head are one unit" in question("03.9")


@pytest.mark.regression
def test_no_prompt_says_a_unit_twice_or_one_of_many() -> None:
    """Prompts said "16.38 kFLOP FLOP", "You measured 1 steps", "10800 s" and "from 1.024 kB to 262,144 bytes"."""
    twice = re.compile(
        r"[kMGT]?FLOP FLOP|\b1 (?:steps|sources|published|sequences|multiples|bits)\b|\b\d{5,} s\b|\d\.\d{3} kB"
    )
    for e in EXERCISES.values():
        for seed in ("", *SEEDS[:20]):
            assert not twice.search(question(e.id, seed)), question(e.id, seed)


@pytest.mark.regression
@pytest.mark.parametrize("slug", OBJECTIVES)
def test_the_answers_of_the_demo_never_change(slug: str) -> None:
    answers = tomllib.loads((ROOT / "tests/book/demo_answers.toml").read_text(encoding="utf-8"))
    asked = assignment(slug)
    for e, answer in zip([e for e in asked if e not in TASKS], answers[slug], strict=True):
        assert e.solve(e.draw()) == (answer if e.answers else pytest.approx(answer, rel=1e-9)), e.id
    made = tomllib.loads((ROOT / "tests/book/demo_answers.toml").read_text(encoding="utf-8"))["made"]
    for e in (e for e in asked if e in TASKS):
        assert made[e.id] == in_short(e), e.id


@pytest.mark.published
def test_the_claim_of_the_published_table() -> None:
    """PITFALLS: an accuracy table lists 4.2 ms per token for 70B on one H100; the floor is 41.8 ms."""
    assert units.format(EXERCISES["01.7"].solve(inputs("01.7")), "s", 3) == "41.8 ms"
    assert "4.2 ms" in question("01.7")


# Seeds


def test_inputs_are_deterministic_and_normalised() -> None:
    for e in EXERCISES.values():
        assert dict(inputs(e.id, seed=" Ada\n")) == dict(inputs(e.id, seed="ada"))
        assert dict(inputs(e.id, seed=None)) == dict(inputs(e.id, seed="")) == dict(inputs(e.id))
    assert dict(inputs("01.1", seed=12345)) == dict(inputs("01.1", seed="12345"))


@pytest.mark.regression
def test_inputs_of_a_seed_never_change() -> None:
    """A student's numbers must be the same in every version of Python and on every machine."""
    assert dict(inputs("01.7", "ada")) == {"device": "B200-SXM-180GB", "parameters": 8e9, "claimed": 0.69e-3}


@pytest.mark.slow
def test_inputs_vary_in_a_hundred_ways_so_that_answers_cannot_be_copied() -> None:
    for e in EXERCISES.values():
        assert math.prod(len(set(o.values)) for o in e.options.values()) >= 100, e.id
        assert len({tuple(map(str, e.draw(s).values())) for s in SEEDS}) >= 60, e.id
    sheets = {tuple(str(dict(e.draw(s))) for e in EXERCISES.values()) for s in SEEDS}
    assert len(sheets) == len(SEEDS)


def test_every_exercise_says_how_hard_it_is_how_long_it_takes_and_what_it_asks() -> None:
    for e in EXERCISES.values():
        assert e.kind in definitions.KINDS
        assert e.difficulty in (1, 2, 3)
        assert 3 <= e.minutes <= 240
    for slug in OBJECTIVES:
        several = assignment(slug)
        assert len({e.difficulty for e in several}) >= 2, slug
        assert len({e.minutes for e in several}) >= 3, slug


@pytest.mark.slow
def test_a_chapter_counts_all_of_its_exercises() -> None:
    for slug in chapters.SLUGS:
        ids = [e.id for e in assignment(slug)]
        assert f"`{ids[0]}` to `{ids[-1]}`" in (ROOT / "book" / f"{slug}.qmd").read_text("utf-8"), slug


def test_a_capstone_says_how_it_is_graded() -> None:
    with pytest.raises(InputError, match=r"'serving' is a capstone.*check_report"):
        assignment("serving")


def test_measuring_tasks_bring_the_rows_that_they_speak_of() -> None:
    for e in EXERCISES.values():
        if "judging.recorded(" in e.prompt:
            assert "import judging" in e.starter, e.id


def test_prompts_say_units_as_people_say_them() -> None:
    for e in EXERCISES.values():
        for seed in ("", *SEEDS[:5]):
            # What stands in brackets, or as an example, says how to write the answer.
            text = re.sub(r"\(.*?\)|such as '[^']*'", "", question(e.id, seed=seed))
            assert not re.search(r"ktoken|token/s|\d FLOP/byte|\d USD|g/kWh|\d \w+/token|\d x \d", text), text


def test_prompts_of_communication_and_parallelism_read_as_sentences() -> None:
    """A count is not followed by its own unit, and nothing is "1 sequences"."""
    for e in (e for e in EXERCISES.values() if e.slug.startswith(("04-", "05-"))):
        for seed in SEEDS[:60]:
            assert not re.search(r"ktoken|\b1 (sequences|tokens|layers|nodes|devices)\b", question(e.id, seed=seed)), (
                e.id
            )


@pytest.mark.parametrize("seed", [["ada"], 1.5, True, "x" * 201, b"ada"])
def test_a_seed_that_is_not_a_short_text_is_refused(seed: object) -> None:
    with pytest.raises(InputError, match="student id"):
        check("01.1", 1.0, seed=seed)  # type: ignore[arg-type]


def test_inputs_print_with_units_and_as_html() -> None:
    g = inputs("01.4", "ada")
    assert re.search(r"launch_overhead +\d+ µs +host time per launch", repr(g))
    assert "<table>" in g._repr_html_()
    assert len(g) == len(list(g)) == 5


@pytest.mark.slow
def test_a_question_shows_every_number_and_no_answer() -> None:
    for e, seed in itertools.product(EXERCISES.values(), ["", *SEEDS[:20]]):
        text, g = question(e.id, seed), inputs(e.id, seed)
        assert not re.search(r"\{\w+\}", text)
        assert all(str(given) in text for given in g.given.values()), (e.id, text)
        if e.form == "number":
            answer = re.escape(units.format(float(e.solve(g)), e.unit))
            assert not re.search(rf"(?<![\d.]){answer}(?![\d.])", text), (e.id, seed)
    assert question("01.1")._repr_markdown_().startswith("**01.1")


# Classic slips


def hint(e: Exercise, name: str, g: definitions.Inputs) -> str:
    return next(m.hint for m in e.mistakes if m.name == name).format_map(g.texts())


@pytest.mark.slow
@pytest.mark.parametrize("e", [e for e in EXERCISES.values() if e.form in ("number", "word")], ids=by_id)
def test_no_named_mistake_is_right_or_another_on_any_draw(e: Exercise) -> None:
    """01.1 with four bytes or its efficiency on both sides, 01.9 as a ratio of heads, 08.7 with n tokens, 11.5 of all time.

    A wrong number is no right one, by the rule that grades, and differs from those of the other mistakes.
    """
    names = {
        "01.1": "four-bytes",
        "01.9": "heads-only",
        "08.7": "first-token-twice",
        "11.5": "of-all-time",
        "17.4": "not-rounded",
    }
    assert names.get(e.id, e.mistakes[0].name) in {m.name for m in e.mistakes}
    for g in draws(e) if not e.answers else ():  # of words, two mistakes may lead to the same
        right = e.solve(g)
        wrong = {m.name: [way(g) for way in m.ways] for m in e.mistakes}
        for name, several in wrong.items():
            assert not any(engine._same(e, one, right) for one in several), (name, dict(g))
        if e.form == "number":
            values = {"right": [float(right)], **{name: [float(x) for x in several] for name, several in wrong.items()}}
            for (a, xs), (b, ys) in itertools.combinations(values.items(), 2):
                for x, y in itertools.product(xs, ys):
                    least = 0.0 if e.whole else 1.1 * e.tolerance  # a count tells any two numbers apart
                    assert abs(x - y) > least * max(abs(x), abs(y)), (e.id, a, b, dict(g))


@pytest.mark.slow
@pytest.mark.parametrize("e", [e for e in EXERCISES.values() if e.form in ("number", "word")], ids=by_id)
def test_every_slip_gets_its_own_hint(e: Exercise) -> None:
    seen = set()
    for seed in SEEDS if NIGHTLY else SEEDS[:80]:
        g = e.draw(seed)
        right = e.solve(g)
        assert check(e.id, right, seed).correct
        for m in e.mistakes:
            for way in m.ways:
                if (wrong := way(g)) == right:
                    assert e.answers, f"{e.id} {m.name} does not change a number"
                    continue
                feedback = check(e.id, wrong, seed)
                earlier = [o.name for o in e.mistakes[: e.mistakes.index(m)] if e.answers]
                if feedback.mistake in earlier:  # two slips may lead to the same word
                    continue
                assert (feedback.correct, feedback.points, feedback.mistake) == (False, 0, m.name), dict(g)
                said = feedback.message.replace("More than one slip gives this number. One of them: ", "")
                assert said == f"Not yet. {hint(e, m.name, g)}"
                seen.add(m.name)
    assert seen == {m.name for m in e.mistakes}
    assert len({m.hint for m in e.mistakes}) == len(e.mistakes)


@pytest.mark.independent
def test_a_right_step_with_few_micro_batches_is_accepted() -> None:
    """06.3: what an event simulation finds (tests/physics/test_parallelism.py), P + (m - 1)/V stage times, and the two tails."""
    e = EXERCISES["06.3"]
    for g in e.every_draw():
        assert g["micro_batches"] < g["pp"]
        stages = g["pp"] + (g["micro_batches"] - 1) / g["virtual_stages"]
        answer = stages * g["stage"] + g["gradients"] + g["parameters"] * g["optimizer_bytes"] / g["bandwidth"]
        assert engine.grade(e, answer, g).correct
        faster = answer - (stages - g["micro_batches"] - (g["pp"] - 1) / g["virtual_stages"]) * g["stage"]
        assert engine.grade(e, faster, g).mistake == "below-the-critical-path"


def test_numbers_of_a_prompt_are_written_as_people_write_them() -> None:
    texts = {e.id: [e.question(g) for g in e.every_draw()] for e in EXERCISES.values() if e.slug[:2] in ("05", "06")}
    for id_, several in texts.items():
        for text in several:
            assert not re.search(r"\d[eE]\+?\d", text), (id_, text)
            assert "billion FLOP" not in text, (id_, text)
    assert any("16 million tokens" in text for text in texts["06.12"])
    assert any("4.2 EFLOP" in text for text in texts["06.8"])


@pytest.mark.slow
@pytest.mark.parametrize("e", NUMBERS, ids=by_id)
def test_no_hint_gives_the_answer_away(e: Exercise) -> None:
    for seed in SEEDS[: 50 if NIGHTLY else 6]:
        g = e.draw(seed)
        right = float(e.solve(g))
        for wrong in [right * f for f in (0.5, 1000, 1.0737, 1.03, 7.0)] + [w(g) for m in e.mistakes for w in m.ways]:
            message = check(e.id, wrong, seed).message
            printed = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", message.replace(",", ""))
            known = question(e.id, seed).replace(",", "") + " 1000 1024"  # what the prompt says gives nothing away
            numbers = [float(x) for x in printed if len(x) >= 3 and x not in known]
            scaled = [right * 10.0**p for p in range(-15, 16, 3)]
            assert not any(math.isclose(x, s, rel_tol=2e-3) for x in numbers for s in scaled), message


def test_a_wrong_word_always_gets_advice_and_each_word_is_right_for_someone() -> None:
    (e,) = WORDS
    assert {e.solve(e.draw(s)) for s in SEEDS} == set(e.answers)
    for seed, word in itertools.product(SEEDS, e.answers):
        feedback = check(e.id, word, seed)
        assert feedback.correct == (word == e.solve(e.draw(seed)))
        assert feedback.correct or len(feedback.message) > 40


@pytest.mark.slow
@pytest.mark.parametrize("e", NUMBERS, ids=by_id)
def test_tolerance_edges(e: Exercise) -> None:
    for seed in SEEDS[: 25 if NIGHTLY else 8]:
        right = float(e.solve(e.draw(seed)))
        if e.whole:
            assert right == int(right)
            assert check(e.id, right, seed).correct
            assert not any(check(e.id, right + slip, seed).correct for slip in (-1, -0.49, 0.01, 1))
            continue
        for sign in (1, -1):
            assert check(e.id, right * (1 + sign * e.tolerance), seed).correct
            assert not check(e.id, right * (1 + sign * e.tolerance * 1.001), seed).correct


@pytest.mark.parametrize(
    ("id", "factor", "name"),
    [
        ("01.1", -1, "sign"),
        ("01.1", 1e3, "bare-number"),
        ("01.1", 1e-3, "unit-slip"),
        ("01.3", 1e-12, "bare-number"),
        ("01.7", 60, "time-unit"),
        ("01.7", 3600, "time-unit"),
        ("03.1", 2.0**-30, "bare-gibibytes"),
        ("05.3", 1.024, None),  # nothing in it is a byte
        ("05.3", 1.05, None),  # a slip of 5 per cent is no rounding
        ("11.1", 8, "one-or-all"),  # eight devices
        ("11.1", 7, None),
        ("08.9", math.log2(10) ** -1, "base"),
        ("01.5", 0.01, "percent"),
        ("03.1", 1.024, None),  # two per cent of so many gigabytes is no prefix
        ("03.1", 1.024**3, "binary-prefix"),
        ("01.3", 2, "factor-2"),
        ("01.3", 1 / 8, None),  # nobody speaks of bits there
        ("01.1", 0.5, None),  # two of its own numbers stand in that ratio
        ("01.7", 0.5, "half"),  # the exercise's own slip wins over the general factor of two
        ("01.7", 8, "bits"),
        ("01.3", 3.3, None),
    ],
)
def test_general_slips(id: str, factor: float, name: str | None) -> None:
    right = float(EXERCISES[id].solve(inputs(id)))
    feedback = check(id, right * factor)
    assert not feedback
    assert feedback.mistake == name


def test_upside_down_without_a_slip_of_its_own() -> None:
    right = float(EXERCISES["16.1"].solve(inputs("16.1", "ada")))
    assert EXERCISES["16.1"].unit == "1"
    assert check("16.1", 1 / right, "ada").mistake == "reciprocal"
    assert (
        check("01.7", 1 / float(EXERCISES["01.7"].solve(inputs("01.7")))).mistake != "reciprocal"
    )  # seconds are no 1/s


def test_a_number_that_was_rounded_too_far_is_told_so() -> None:
    assert check("01.7", "42 ms").mistake == "rounding" or check("01.7", "42 ms").correct
    assert check("01.7", "40 ms").mistake == "rounding"
    assert check("01.7", "43 ms").mistake is None


# Reading answers


@pytest.mark.parametrize("answer", ["41.79 ms", " 41.79 ms ", "0.04179", "41790 us", 0.04179, "4.179e-2 s"])
def test_ways_to_write_a_number(answer: object) -> None:
    assert check("01.7", answer).correct


def test_numpy_scalars_and_percentages_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert check("01.7", numpy.float64(0.04179)).correct
    assert check("01.5", "62 %").correct


class Hostile:
    """An answer whose every conversion fails."""

    def __float__(self) -> float:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


@pytest.mark.parametrize("id", ["01.1", "01.6"])
@pytest.mark.parametrize("answer", [None, ..., "", "  ", "..."])
def test_no_answer_yet(id: str, answer: object) -> None:
    feedback = check(id, answer)
    assert (feedback.correct, feedback.mistake, feedback.points) == (False, "no-answer", 0)
    assert feedback.message.startswith("No answer yet: give ")


NONSENSE = [
    True, [1.0, 2.0], (), {}, {1}, b"1", 1j, object, Hostile(), math.nan, math.inf, -math.inf, 10**400, -(10**5000),
    "x" * 10**6, "1,500 ms", "3.5 GB", "3.5 TFLOPS", "nan", "1e999 s", "١ s s", "\x00", "'; DROP TABLE", "{device}",
]  # fmt: skip


@pytest.mark.parametrize("id", ["01.1", "01.6"])
@pytest.mark.parametrize("answer", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_gets_a_sentence_and_never_a_traceback(id: str, answer: object) -> None:
    feedback = check(id, answer)
    assert (feedback.correct, feedback.mistake, feedback.points) == (False, "not-read", 0)
    assert 20 < len(str(feedback)) < 300
    assert re.search("number|unit|'compute'|finite|write|give", feedback.message)


def test_a_number_for_a_word_and_a_word_for_a_number() -> None:
    assert "'compute' or 'memory' or 'dispatch'" in check("01.6", 3.5).message
    assert "is not read: give '3.5 ms'" in check("01.1", "compute").message
    assert "is not read: give '3.5 ms'" in check("01.1", "3 GB").message


def test_feedback_prints_as_one_line_and_is_true_when_right() -> None:
    feedback = check("01.7", "41.79 ms")
    assert feedback
    assert str(feedback) == repr(feedback) == "01.7: Correct: 41.79 ms."
    with pytest.raises(AttributeError):
        feedback.correct = False  # type: ignore[misc]


@pytest.mark.parametrize("id", ["1.1", "01.99", "", None, 1.1, "x" * 1000])
def test_an_unknown_exercise_raises_with_a_suggestion(id: Any) -> None:
    for call in (lambda: check(id, 1), lambda: question(id), lambda: inputs(id)):
        with pytest.raises(UnknownNameError, match="unknown exercise"):
            call()
    with pytest.raises(UnknownNameError, match=r"did you mean .*'01\.1'"):
        check("1.1", 1)


# Objectives, equations, solutions


def test_exercises_together_touch_every_equation_of_the_roofline() -> None:
    wanted = {label for label, eq in REGISTRY.items() if eq.function.__module__ == roofline.__name__}
    assert len(wanted) >= 8
    per_exercise = {}
    for e in assignment(SLUG):
        g = e.draw("ada")
        with recording() as called:
            e.solve(g)
        per_exercise[e.id] = called
    assert set().union(*per_exercise.values()) >= wanted
    computed = [per_exercise[e.id] for e in assignment(SLUG) if e.kind == "compute"]
    assert all(computed), "an exercise whose answer is not computed by the library"
    # 01.6 calls kernel_time, which calls everything: the others must cover the equations without it
    assert set().union(*(called for id, called in per_exercise.items() if id != "01.6")) >= wanted


def objective_problems(
    listed: list[tuple[str, str]], objectives: tuple[tuple[str, str], ...], exercises: Mapping[str, Exercise]
) -> list[str]:
    """What is wrong between a chapter's list of objectives, the data, and the exercises."""
    problems = []
    if listed != list(objectives):
        problems.append(f"the chapter lists {listed}, the exercises grade {list(objectives)}")
    for sentence, id in objectives:
        if id not in exercises:
            problems.append(f"objective without its exercise {id}: {sentence}")
        elif exercises[id].objective != sentence:
            problems.append(f"exercise {id} grades another objective than the list says")
        if not re.fullmatch(r"[A-Z][a-z]+ .+\.", sentence):
            problems.append(f"not a sentence that starts with a verb: {sentence}")
    known = {sentence for sentence, _ in objectives}
    problems += [f"exercise {e.id} grades no listed objective" for e in exercises.values() if e.objective not in known]
    if not 3 <= len(objectives) <= 5:
        problems.append(f"{len(objectives)} objectives; a chapter has 3 to 5")
    return problems


def chapter_objectives(text: str) -> list[tuple[str, str]]:
    """The numbered items under the heading Objectives: sentence and exercise id."""
    section = re.search(r"^#+ Objectives\b.*?\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    items = re.findall(r"^\d+\. (.+(?:\n {2,}.+)*)", section[1], re.M) if section else []
    found = []
    for item in items:
        match = re.fullmatch(r"(.+?) \(`([^`]+)`\)\.?", " ".join(item.split()))
        found.append((match[1], match[2]) if match else (item, ""))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("slug", OBJECTIVES)
def test_a_chapter_lists_the_objectives_that_its_exercises_grade(slug: str) -> None:
    listed = chapter_objectives((ROOT / "book" / f"{slug}.qmd").read_text(encoding="utf-8"))
    assert objective_problems(listed, OBJECTIVES[slug], {e.id: e for e in assignment(slug)}) == []


def test_that_check_itself() -> None:
    exercises = {e.id: e for e in assignment(SLUG)}
    data = OBJECTIVES[SLUG]
    text = (
        "## Objectives {.unnumbered}\n\nYou can\n\n"
        + "".join(f"1. {s} (`{i}`)\n" for s, i in data)
        + "\n## Next\n1. x\n"
    )
    assert objective_problems(chapter_objectives(text), data, exercises) == []
    without = {id: e for id, e in exercises.items() if id != data[0][1]}
    assert "objective without its exercise 01.1" in objective_problems(list(data), data, without)[0]
    assert objective_problems(list(data), data[1:], exercises)  # an exercise whose objective was dropped
    assert objective_problems(chapter_objectives(text.replace("`01.2`", "`01.9`")), data, exercises)
    assert objective_problems(chapter_objectives(text.replace(data[1][0], "Understand rooflines.")), data, exercises)
    assert objective_problems(chapter_objectives("## Objectives\n\n1. Compute it.\n"), data, exercises)
    assert objective_problems(chapter_objectives("no such heading"), data, exercises)


@pytest.mark.slow
@pytest.mark.parametrize("e", EXERCISES.values(), ids=by_id)
def test_the_solution_that_instructors_see_is_right(e: Exercise) -> None:
    for seed in ["", *SEEDS[: 10 if NIGHTLY else 3]]:
        space = {m: getattr(mlsysim, m) for m in make_exercises.modules(e.slug)} | {"SEED": seed, "inputs": inputs}
        exec(e.solution, space)
        assert check(e.id, space["answer"], seed).correct
        if e.form == "number":
            assert space["answer"] == pytest.approx(e.solve(e.draw(seed)), rel=1e-9)


@pytest.mark.slow
def test_solutions_import_what_they_use() -> None:
    """Each runs as in a notebook: with its chapter's modules, and before anything is checked. The last chapter first."""
    solutions = {e.id: [make_exercises.modules(e.slug), e.solution] for e in reversed(list(EXERCISES.values()))}
    code = (
        "import json, sys, mlsysim; from mlsysim.course import inputs\n"
        "for modules, code in json.load(sys.stdin).values():\n"
        "    exec(code, {m: getattr(mlsysim, m) for m in modules} | {'SEED': '', 'inputs': inputs})"
    )
    ran = subprocess.run([sys.executable, "-c", code], input=json.dumps(solutions), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_checking_needs_nothing_but_the_standard_library_and_its_own_chapter() -> None:
    code = (
        "import sys; from mlsysim.course import check, question; check('01.1', 1.0, 'ada'); question('01.2');"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'numpy', 'IPython', 'otter', 'matplotlib', 'ipywidgets'}));"
        "print(sys.modules['mlsysim.course.exercises.chapters'].read.cache_info().currsize, 'mlsysim.hlo' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["[]", "1", "False"]


# The tables: solutions, and the ways to go wrong in them

GIVEN = {"price": 12.0, "years": 4, "cost": 3.0}
SOLUTION = 'rate = g["price"] / g["years"]\nanswer = 2 * rate + g["cost"]'


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ("", 9.0),
        ("1 / answer", 1 / 9),
        ("price - rate", 9.0),
        ("cost = 0", 6.0),
        ("price = 2 * price; cost = 0", 12.0),
        ("rate = rate / 2", 6.0),
        ("years = 1; rate = rate + 1; answer - cost", 26.0),
        ("2 * rate -> rate", 6.0),
        ("paid = price / 2\npaid + cost", 9.0),
        ('cost.power_cost(g["cost"], 1.0, price)', 36.0),  # a module of that name: the input by g
    ],
)
def test_ways_to_go_wrong(way: str, answer: float) -> None:
    assert running.run(GIVEN, SOLUTION, way) == answer
    assert GIVEN == {"price": 12.0, "years": 4, "cost": 3.0}


def test_a_way_that_changes_nothing_there_is_refused_and_an_error_names_its_exercise() -> None:
    with pytest.raises(InputError, match=r"'3 \* rate -> rate' changes what the solution does not say"):
        running.run(GIVEN, SOLUTION, "3 * rate -> rate")
    with pytest.raises(NameError) as caught:
        chapters._answer("05-x.toml, exercise 05.1", SOLUTION, "nobody / 2")(GIVEN)  # type: ignore[arg-type]
    assert caught.value.__notes__ == ["05-x.toml, exercise 05.1: nobody / 2"]


def test_answers_that_are_kept_hide_no_equation() -> None:
    for _ in range(2):
        with recording() as called:
            check("01.3", 1.0)
        assert {"eq-attainable", "eq-effective-bandwidth"} <= called


ROW = {
    "title": "t", "objective": "o", "kind": "compute", "difficulty": 1, "minutes": 5, "ask": "Why?", "points": 1, "unit": "1", "prompt": "{MANY}  {a}\nof", "nudge": "n", "tolerance": 0.1,
    "solution": 'answer = g["a"]', "inputs": {"a": [[1, 2], "1", "m"], "b": "{B}"}, "mistakes": {"x": ["{MANY}", "0"]},
}  # fmt: skip
SHARED = {"MANY": "many", "B": ["x / 2 for x in (4, 6)", "s", "half"]}


def test_a_row_of_a_table() -> None:
    e = chapters._exercise("05-x", "05.1", chapters._with(SHARED, ROW), {"o": "An objective."})
    assert (e.prompt, e.objective, e.mistakes[0].hint, e.tolerance) == ("many {a} of", "An objective.", "many", 0.1)
    assert e.solution == 'g = inputs("05.1", seed=SEED)\nanswer = g["a"]'
    assert [dict(g) for g in e.every_draw()] == [{"a": a, "b": b} for a in (1, 2) for b in (2.0, 3.0)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"objective": "p"}, "objective = 'p' is none of o"),
        ({"hints": []}, "'hints' is missing, or none of title, "),
        ({"inputs": {"a": [[1], "1"]}}, "not enough values"),
    ],
)
def test_a_row_with_a_slip_is_refused(
    change: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"objectives": {"o": ["An objective.", "05.1"]}, "shared": SHARED, "05.1": ROW | change}
    monkeypatch.setattr(chapters, "_table", lambda name: dict(table) if name != "shared" else {})
    with pytest.raises(InputError, match=rf"^05-slip.toml, exercise 05.1: .*{says}"):
        chapters.read("05-slip")


# The notebooks


@pytest.mark.slow
def test_notebooks_are_fresh_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    assert make_exercises.stale(ROOT / "exercises") == []
    assert make_exercises.documents() == make_exercises.documents()
    shutil.copytree(ROOT / "exercises", tmp_path, dirs_exist_ok=True)
    assert make_exercises.stale(tmp_path) == []
    changed = tmp_path / SLUG / "student.ipynb"
    changed.write_text(changed.read_text(encoding="utf-8").replace("answer_1 = ...", "answer_1 = 1"), encoding="utf-8")
    (tmp_path / SLUG / "master.ipynb").unlink()
    assert sorted(make_exercises.stale(tmp_path)) == [f"{SLUG}/master.ipynb", f"{SLUG}/student.ipynb"]


def sources(notebook: dict[str, Any], kind: str = "code") -> list[str]:
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == kind]


def test_the_student_notebook() -> None:
    notebook = json.loads((ROOT / "exercises" / SLUG / "student.ipynb").read_text(encoding="utf-8"))
    code = sources(notebook)
    assert 'elif "google.colab" in sys.modules:' in code[0]
    assert '== "mlsysim-book"' in code[1]
    assert code[2] == 'STUDENT = "your-id"'
    assert not any("SOLUTION" in c or "BEGIN" in c or "iron_law(" in c for c in code)
    assert next(c for c in code if "answer_1" in c).endswith("answer_1 = ...")
    assert all(
        c["outputs"] == [] and c["execution_count"] is None for c in notebook["cells"] if c["cell_type"] == "code"
    )
    assert len({c["id"] for c in notebook["cells"]}) == len(notebook["cells"])
    install = re.compile(r"pip install( -\w+)* mlsysim(?!-book)")
    assert not any(install.search(c) for c in code)


def submission(student: str, answers: Mapping[str, str], extra: str = "", slug: str = SLUG) -> str:
    """A student's notebook with code in place of the stubs, and perhaps one more cell before them."""
    notebook = json.loads(make_exercises.student(slug))
    written = {}
    for id, code in answers.items():
        made = make_exercises.named(code.replace("SEED", "STUDENT"), make_exercises.answer_name(EXERCISES[id]))
        written[id] = make_exercises.named(made, make_exercises.inputs_name(EXERCISES[id]), "g")
    for cell in notebook["cells"]:
        text = "".join(cell["source"]).replace('"your-id"', repr(student))
        for id, made in written.items():
            text = text.replace(make_exercises.stub(EXERCISES[id]), made) if f'inputs("{id}"' in text else text
        cell["source"] = text.splitlines(keepends=True)
    if extra:
        cell = {
            "cell_type": "code",
            "id": "extra",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": extra,
        }
        notebook["cells"].insert(3, cell)
    return json.dumps(notebook)


SOLVED = {e.id: e.solution for e in assignment(SLUG)}
FULL = sum(e.points for e in assignment(SLUG))
# One canned wrong answer: the multiply-add counted once. Written as a student would.
HALVED = """\
d = catalog.device(g["device"])
rows = g["steps"] * 2 * (g["k"] + g["k"] * g["n"] + g["n"]) / d.memory_bandwidth
answer = g["m"] * g["n"] * g["k"] / (d.peak_flops["bf16"] * g["efficiency"]) + rows"""


@cache  # not while tests are collected
def canned() -> dict[str, str]:
    return {"ada": submission("ada", SOLVED), "bob": submission("bob", {}), "cy": submission("cy", {"01.1": HALVED})}


CANNED_POINTS = {"ada": {e.id: e.points for e in assignment(SLUG)}, "bob": {}, "cy": {}}
# One that is all three at once, for a grader that takes seconds per notebook: wrong, right, right, ..., and without an answer
# at the end.
LAST = [e.id for e in assignment(SLUG) if e.form == "number"][-1]
MIXED = {id: code for id, code in SOLVED.items() if id != LAST} | {"01.1": HALVED}
MIXED_POINTS = {id: points for id, points in CANNED_POINTS["ada"].items() if id not in ("01.1", LAST)}


# In a process of its own: otter changes directories and warns a lot. One for all, since importing otter takes seconds.
OTTER = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import make_exercises
from otter.api import grade_submission
work = Path(sys.argv[2])
zipped = make_exercises.otter_assign(work / "master" / "master.ipynb", work / "built")
found = {}
for name in sys.argv[3:]:
    graded = grade_submission(str(work / f"{name}.ipynb"), str(zipped), quiet=True)
    found[name] = {
        answer: (test.score, " ".join(str(case.message) for case in test.test_case_results))
        for answer, test in graded.results.items()
    }
print(json.dumps(found))
"""


@pytest.mark.parametrize("slug", OBJECTIVES)
def test_each_solution_of_a_master_assigns_its_answer(slug: str) -> None:
    """What `otter assign` found missing in 12 of 23: read, not run, so that it is looked at every day."""
    cells = sources(json.loads((ROOT / "exercises" / slug / "master.ipynb").read_text(encoding="utf-8")))
    for e in assignment(slug):
        name = make_exercises.answer_name(e)
        (solution,) = [c for c in cells if f"\n{make_exercises.stub(e)}\n" in c and "# BEGIN SOLUTION" in c]
        code, _, prompt = solution.partition("# END SOLUTION")
        assigned = {
            node.id
            for node in ast.walk(ast.parse(code))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        assert name in assigned
        assert "answer" not in {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        asked = make_exercises.stub(e).split()
        assert prompt.split() == ['""";', "#", "BEGIN", "PROMPT", *asked, '""";', "#", "END", "PROMPT"]
        ast.parse(solution)  # the prompt is a text to Python, and a line to fill in to otter


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("slug", OBJECTIVES)
def test_otter_takes_every_chapter(slug: str, tmp_path: Path) -> None:
    """Full marks for all solutions, none for stubs, and their sum for every second one."""
    exercises = assignment(slug)
    work = tmp_path / "master"
    work.mkdir()
    shutil.copy(ROOT / "exercises" / slug / "master.ipynb", work)
    solved = {e.id: e.solution for e in exercises}
    some = dict(list(solved.items())[::2])
    for name, answers in {"full": solved, "none": {}, "half": some}.items():
        text = submission(name, answers, slug=slug)
        (tmp_path / f"{name}.ipynb").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        OTTER,
        str(ROOT / "scripts"),
        str(tmp_path),
        "full",
        "none",
        "half",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=3000, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    results = json.loads(ran.stdout.strip().rpartition("\n")[2])
    totals = {name: sum(score for score, _ in tests.values()) for name, tests in results.items()}
    points = {e.id: e.points for e in exercises}
    assert totals == {"full": sum(points.values()), "none": 0, "half": sum(points[id] for id in some)}


@pytest.mark.slow
def test_otter_assigns_and_grades(tmp_path: Path) -> None:
    """otter assign runs the master's tests on its solutions, all of which pass; then marks, none, and the right hint in one."""
    if shutil.which("jupyter", path=str(Path(sys.executable).parent)) is None:
        missing("otter needs Jupyter in this environment")
    work = tmp_path / "master"
    work.mkdir()
    shutil.copy(ROOT / "exercises" / SLUG / "master.ipynb", work)
    (tmp_path / "mixed.ipynb").write_text(submission("cy", MIXED), encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", OTTER, str(ROOT / "scripts"), str(tmp_path), "mixed"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=3000, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    results = json.loads(ran.stdout.strip().rpartition("\n")[2])
    handed_out = json.loads((tmp_path / "built" / "student" / "master.ipynb").read_text(encoding="utf-8"))
    assert not any("iron_law" in c for c in sources(handed_out))
    with zipfile.ZipFile(tmp_path / "built" / "autograder.zip") as zipped:  # what a container installs lies in the zip
        (wheel,) = [n for n in zipped.namelist() if n.endswith(".whl")]
        assert f"- /autograder/source/{wheel}\n" in zipped.read("environment.yml").decode()
        assert "- mlsysim-book" not in zipped.read("environment.yml").decode()
    by_answer = {make_exercises.answer_name(e): e for e in assignment(SLUG)}
    points = {by_answer[answer].id: score for answer, (score, _) in results["mixed"].items() if score}
    assert points == MIXED_POINTS
    halved = EXERCISES["01.1"]
    assert hint(halved, "half", halved.draw("cy")) in results["mixed"][make_exercises.answer_name(halved)][1]
    assert "No answer yet" in results["mixed"][make_exercises.answer_name(EXERCISES[LAST])][1]


# Grading a folder


def graded(folder: Path, *options: str) -> dict[str, dict[str, str]]:
    """Run the command and read its table, by student."""
    out = folder.parent / "grades.csv"
    assert main(["grade", str(ROOT / "exercises" / SLUG), str(folder), "-o", str(out), *options]) == 0
    with out.open(newline="", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def hand_in(folder: Path, notebooks: Mapping[str, str]) -> Path:
    folder.mkdir()
    for name, text in notebooks.items():
        (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_the_table_without_a_sandbox(tmp_path: Path) -> None:
    folder = hand_in(tmp_path / "in", canned())
    broken = submission("dee", {"01.7": "raise ValueError('=cmd')\nanswer = 1", "01.6": SOLVED["01.6"]})
    (folder / "dee.ipynb").write_text(broken, encoding="utf-8")
    (folder / "eve.ipynb").write_text(canned()["ada"], encoding="utf-8")
    (folder / "=1+1.ipynb").write_text("{}", encoding="utf-8")
    (folder / "fay.ipynb").write_text("[" * 100_000, encoding="utf-8")
    (folder / "gus.txt").write_text("hello", encoding="utf-8")
    (folder / "hal.ipynb").write_bytes(b" " * 5_000_001)
    (folder / "ivy.ipynb").symlink_to(folder / "ada.ipynb")
    (folder / "jo.ipynb").write_text(submission("jo", SOLVED, "import os; os._exit(0)"), encoding="utf-8")
    (folder / ".DS_Store").write_text("x", encoding="utf-8")
    os.mkfifo(folder / "kim.ipynb")
    rows = graded(folder, "--insecure", "--jobs", "2", "--timeout", "300 s")
    head = [
        "student",
        "score",
        "max_score",
        *(e.id for e in assignment(SLUG)),
        "status",
        "message",
        "file",
        "late_days",
    ]
    assert list(next(iter(rows.values()))) == head
    assert {name: (int(r["score"]), r["status"]) for name, r in rows.items()} == {
        "ada": (FULL, "ok"),
        "bob": (0, "ok"),
        "cy": (0, "ok"),
        "dee": (EXERCISES["01.6"].points, "ok"),
        "eve": (FULL, "seed-mismatch"),
        "'=1+1": (0, "not-a-notebook"),
        "fay": (0, "not-a-notebook"),
        "gus": (0, "not-a-notebook"),
        "hal": (0, "too-large"),
        "ivy": (0, "not-a-notebook"),
        "jo": (0, "crashed"),
        "kim": (0, "not-a-notebook"),
    }
    assert {r["max_score"] for r in rows.values()} == {str(FULL)}
    assert "01.1 half" in rows["cy"]["message"]
    assert "01.1 no-answer" in rows["bob"]["message"]
    assert "ValueError: =cmd" in rows["dee"]["message"]
    assert rows["eve"]["message"] == "STUDENT is 'ada'"
    assert "symbolic link" in rows["ivy"]["message"]
    assert rows["ada"]["message"] == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["exercises/99-nothing", ".", "-o", "x.csv"], "unknown assignment"),
        (["01-iron-law", "no-such-folder", "-o", "x.csv"], "cannot be listed"),
        (["01-iron-law", ".", "-o", "x.csv", "--timeout", "0"], "--timeout: '0' must lie in (0, 3600] s"),
        (["01-iron-law", ".", "-o", "x.csv", "--timeout", "soon"], "not a quantity"),
        (["01-iron-law", ".", "-o", "x.csv", "--jobs", "0"], "--jobs: 0 must be a whole number of at least 1"),
        (["01-iron-law", "."], "-o"),
    ],
)
def test_grade_errors_are_one_sentence(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["grade", *arguments]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert not (tmp_path / "x.csv").exists()


def test_grade_refuses_without_its_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsysim.course import grading

    folder = hand_in(tmp_path / "in", {"ada": "{}"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match=r"needs (root|.*util-linux).*--insecure"):
        grading.grade_folder(SLUG, folder)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda *a, **k: None)
    with pytest.raises(InputError, match=r"unshare.*--insecure"):
        grading.grade_folder(SLUG, folder)


def test_no_cell_of_the_table_is_a_formula(tmp_path: Path) -> None:
    from mlsysim.course.grading import Graded, write_csv

    evil = ["=1+1", "\uff1d1+1", "\uff201", "+1", "-1", "@x", "\t=1", "\r\n=1", " =1", 'a"b,c', "x" * 5000, "a\x1b[31m"]
    write_csv([Graded(text, 0, 1, {"01.1": 0}, "ok", text) for text in evil], tmp_path / "g.csv")
    with (tmp_path / "g.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    assert len(rows) == len(evil)
    for row in rows:
        for cell in row:
            assert unicodedata.normalize("NFKC", cell[:1]) not in ("=", "+", "-", "@")
            assert cell.isprintable()
            assert len(cell) <= 2001


# The sandbox


@pytest.fixture
def sandbox() -> None:
    usable_sandbox()


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_the_sandbox_gives_the_same_grades(tmp_path: Path) -> None:
    rows = graded(hand_in(tmp_path / "in", canned()), "--jobs", "2")
    assert {
        n: {q: int(r[q]) for q in (e.id for e in assignment(SLUG)) if int(r[q])} for n, r in rows.items()
    } == CANNED_POINTS
    assert {r["status"] for r in rows.values()} == {"ok"}
    assert "01.1 half" in rows["cy"]["message"]


def running_commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # a process may end while we look
            found.append(path.read_bytes().decode("utf-8", "replace"))
    return found


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_hostile_submissions_end_and_cannot_score(tmp_path: Path) -> None:
    marker = f"marker-{os.getpid()}"
    run = f"run = [sys.executable, '-c', 'import time; time.sleep(1000)', '{marker}']"
    endless = {
        "loop": "while True: pass",
        "sleep": "import time; time.sleep(1000)",
        "fork": f"import os, sys\n{run}\nwhile True:\n    try:\n        if os.fork() == 0:\n"
        "            os.execv(run[0], run)\n    except OSError:\n        pass",
        "flood": "import os\nwhile True:\n    for fd in range(3, 20):\n        try:\n            os.write(fd, b'x' * 1000000)\n        except OSError:\n            pass",
    }
    attacks = {
        "daemon": f"import subprocess, sys\n{run}\nsubprocess.Popen(run, start_new_session=True)",
        "forge": "import os\nfor fd in range(3, 20):\n    try:\n        os.write(fd, b'{\"score\": 100}')\n    except OSError:\n        pass",
        "exit": "import os; os._exit(0)",
        "patch": "import mlsysim.course.exercises.engine as e; e.grade = lambda *a: 1 / 0\nimport json; json.dumps = json.dump = print",
    }
    # Those that never end get few seconds, the others many, since on a busy machine an honest one takes its time.
    folder = hand_in(tmp_path / "endless", {name: submission(name, {}, code) for name, code in endless.items()})
    rows = graded(folder, "--jobs", "2", "--timeout", "4")
    assert {(r["status"], int(r["score"])) for r in rows.values()} == {("timeout", 0)}
    assert not any(marker in command for command in running_commands())

    folder = hand_in(tmp_path / "in", {name: submission(name, {}, code) for name, code in attacks.items()})
    (folder / "ok.ipynb").write_text(submission("ok", SOLVED), encoding="utf-8")
    huge = {
        "01.1": "answer = 'x' * 10**7",
        "01.2": "answer = 10**5000",
        "01.3": "STUDENT = 'x' * 10**7\nanswer = print",
    }
    (folder / "huge.ipynb").write_text(submission("huge", huge), encoding="utf-8")
    rows = graded(folder, "--jobs", "2", "--timeout", "300")
    status = {name: r["status"] for name, r in rows.items()}
    assert {int(r["score"]) for name, r in rows.items() if name != "ok"} == {0}
    assert (status["ok"], rows["ok"]["score"]) == ("ok", str(FULL))
    assert status["exit"] == status["forge"] == status["patch"] == "crashed"
    assert status["daemon"] == "ok"
    assert status["huge"] == "seed-mismatch"
    assert not any(marker in command for command in running_commands())


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_a_python_that_others_cannot_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsysim.course.grading import grade_folder

    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "python"
    shutil.copy(os.path.realpath(sys.executable), program)
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(InputError, match=r"must be able to run .*chmod -R o\+rX"):
        grade_folder(SLUG, hand_in(tmp_path / "in", {"ada": "{}"}))
