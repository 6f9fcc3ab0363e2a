"""How people write an answer: every form that a prompt prints, in words and signs, and nothing guessed."""

import math
from typing import Any

import pytest

from mlsysim.course.exercises import EXERCISES, check
from mlsysim.course.exercises.answers import forms, read
from mlsysim.errors import InputError

PROMPT = "Requests arrive and 38 sequences run in micro-batches. How many tokens, requests?"
FORMS = [
    ("78 hours", "s", 280_800.0), ("78h", "s", 280_800.0), ("78.0 hrs", "s", 280_800.0), ("1 hour", "s", 3600.0),
    ("4687 minutes", "s", 281_220.0), ("5 min", "s", 300.0), ("3 days", "s", 259_200.0), ("2 secs", "s", 2.0),
    ("131.4 \u00b5s", "s", 131.4e-6), ("131.4 \u03bcs", "s", 131.4e-6), ("131.4 us", "s", 131.4e-6),
    ("131.4 microseconds", "s", 131.4e-6), ("9.5 milliseconds", "s", 9.5e-3), ("0,385 ms", "s", 0.385e-3),
    ("13.79 1/s", "1/s", 13.79), ("13.79/s", "1/s", 13.79), ("13.79 /s", "1/s", 13.79), ("13.79 Hz", "1/s", 13.79),
    ("13.79 per second", "1/s", 13.79), ("13.79 requests/s", "1/s", 13.79), ("13.79 requests per second", "1/s", 13.79),
    ("12288 tokens/s", "1/s", 12_288.0), ("13.79", "1/s", 13.79),
    ("38 requests", "1", 38.0), ("444 sequences", "1", 444.0), ("36 micro-batches", "1", 36.0), ("8 GPUs", "1", 8.0),
    ("1.5 1", "1", 1.5), ("3 times", "1", 3.0), ("47 %", "1", 0.47), ("47%", "1", 0.47), ("47 percent", "1", 0.47),
    ("47 per cent", "1", 0.47), ("7.5 billion", "1", 7.5e9), ("4.2 million", "1", 4.2e6), ("7.5e9", "1", 7.5e9),
    ("7.5 x 10^9", "1", 7.5e9), ("7.5\u00d710\u2079", "1", 7.5e9), ("7.5*10**9", "1", 7.5e9), ("1_000", "1", 1000.0),
    ("1'234'567", "1", 1_234_567.0), ("1.234.567", "1", 1_234_567.0), ("12\u202f345", "1", 12_345.0), ("\u22123", "1", -3.0),
    ("96,6 GB", "byte", 96.6e9), ("96,636,764,160 bytes", "byte", 96_636_764_160.0), ("96 636 764 160 B", "byte", 96_636_764_160.0),
    ("90 GiB", "byte", 90 * 2.0**30), ("90 gibibytes", "byte", 90 * 2.0**30), ("12 gigabytes", "byte", 12e9),
    ("1,234.5 GB", "byte", 1234.5e9), ("3.5 gigabytes per second", "byte/s", 3.5e9), ("400 Gbit/s", "byte/s", 50e9),
    ("8 FLOPs/byte", "FLOP/byte", 8.0), ("8 FLOP per byte", "FLOP/byte", 8.0), ("8", "FLOP/byte", 8.0),
    ("120 TFLOP/s", "FLOP/s", 120e12), ("2.5 kilowatt hours", "J", 9e6), ("3 J per token", "J/token", 3.0),
    ("$3.50", "USD", 3.5), ("3.5 dollars", "USD", 3.5), ("2 USD/h", "USD/s", 2 / 3600), ("2 dollars per hour", "USD/s", 2 / 3600),
    ("2.5 USD/Mtoken", "USD/token", 2.5e-6), ("400 g/kWh", "kg/J", 400e-3 / 3.6e6), ("35 litres", "L", 35.0), ("3.5 tonnes", "kg", 3500.0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "unit", "value"), FORMS, ids=[f[0] for f in FORMS])
def test_a_right_number_is_right_in_every_form(text: str, unit: str, value: float) -> None:
    assert len(FORMS) >= 40
    assert read(text, unit, PROMPT) == pytest.approx(value, rel=1e-12)
    assert read(f"  {text} ", unit, PROMPT) == read(text, unit, PROMPT)


@pytest.mark.parametrize(
    ("text", "unit", "says"),
    [
        ("1,234", "1", "can be 1234 or 1.234"),
        ("12,345 bytes", "byte", "can be 12345 or 12.345"),
        ("180 TFLOPS", "FLOP/s", "two meanings"),
        ("12 bananas", "1", "give a number without a unit"),
        ("12 GB", "s", "give '3.5 ms', '2 hours'"),
        ("12 s", "1/s", "give '13.8 per second'"),
        ("13.8 per hour", "1/s", "give '13.8 per second'"),
        ("about 12", "1", "give a number"),
        ("1 2", "1", "give a number"),
        ("1/0", "1", "give a number"),
        ("nan", "1", "give a number"),
        ("1e999", "1", "not finite"),
        ("12 " * 100, "1", "give a number"),
    ],
)
def test_what_is_refused_is_told_the_forms_of_this_question(text: str, unit: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(text, unit, PROMPT)


def test_arrays_of_one_are_numbers_and_others_are_not() -> None:
    numpy = pytest.importorskip("numpy")
    for one in ([3.0], (3,), numpy.array([3.0]), numpy.array(3.0), numpy.float32(3.0), [[3.0]]):
        assert read(one, "1") == 3.0
    wrong: list[Any] = [[1.0, 2.0], [], numpy.array([1.0, 2.0]), {}, True, b"3", 3j, math.nan]
    for other in wrong:
        with pytest.raises(InputError):
            read(other, "1")


@pytest.mark.slow
@pytest.mark.parametrize("e", [e for e in EXERCISES.values() if e.form == "number"], ids=lambda e: e.id)
def test_each_question_reads_its_own_answer_as_it_prints_it(e: Any) -> None:
    """With four digits and its unit, as `check` prints what is right; and every input of the prompt in its unit."""
    for seed in ("", "ada"):
        g = e.draw(seed)
        right = e.solve(g)
        printed = check(e.id, right, seed).message.removeprefix("Correct: ").removesuffix(".")
        if e.whole:
            assert check(e.id, f"{right:.0f}", seed).correct
        else:
            assert read(printed, e.unit, e.prompt) == pytest.approx(float(right), rel=1e-3)


@pytest.mark.parametrize("unit", sorted({e.unit for e in EXERCISES.values() if e.form == "number"}))
def test_the_forms_that_a_refusal_names_are_read(unit: str) -> None:
    for share in (False, True):
        for text in forms(unit, share).split("'")[1::2]:
            assert math.isfinite(read(text, unit))
