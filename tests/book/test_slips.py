"""Hints that are true: shared hints judged by a person, three stages, attempts that are limited and logged, worked routes."""

import json
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import audit_hints  # a script, not a package
import pytest

from mlsysim.course import Desk, check, worked
from mlsysim.course.exercises import EXERCISES, session, slips
from mlsysim.course.exercises.engine import grade
from mlsysim.errors import InputError


@cache
def answers() -> list[Any]:
    """Wrong answers to every exercise, of eight students."""
    return list(audit_hints.answers([f"h{i}" for i in range(8)]))


@pytest.mark.independent
@pytest.mark.parametrize("count", [400, pytest.param(None, marks=[pytest.mark.slow, pytest.mark.nightly], id="all")])
def test_less_than_three_in_a_hundred_shared_hints_are_false(count: int | None) -> None:
    """Slips that the shared rules did not choose; a person judged what they say to each (``hints.csv``)."""
    found, new = audit_hints.audit(random.Random(30).sample(answers(), count := count or len(answers())))
    hints = found["true"] + found["false"] + found["new"]
    assert hints > 0.15 * count
    assert found["false"] < 0.03 * hints, found
    assert found["new"] < 0.05 * hints, (
        f"judge them: scripts/maintain/course/audit_hints.py --output ...: {sorted(new)}"
    )


def near_misses(id: str, g: Any, right: float) -> list[float]:
    """Slips that a reader made, by hand, and was told of another: see the test below."""
    n = dict(g)
    return {
        "06.2": lambda: [n["layers"] // n["pp"] * (n["arithmetic"] + n["messages"]) + n["hop"]],  # floor for ceiling
        "16.3": lambda: [
            (right - n["start"]) * f + n["start"] for f in (2, n["devices"])
        ],  # two bytes; all experts hit
        "22.3": lambda: [(n["old"] + n["last_digit"] / 2) / n["new"], n["old"] / (n["new"] - n["last_digit"] / 2)],
        "25.1": lambda: [(n["full_layers"] + n["window_layers"]) * n["window"] * n["token"]],  # every layer a window
        "25.2": lambda: [2.0 * n["heads"] * n["sizes"] * n["context"]],  # all keys, and no indexer
        "25.6": lambda: [right + 1],  # rounded up
        "27.1": lambda: [2 * right],  # bytes for numbers
        "27.2": lambda: [right - n["frozen"] * (n["bits"] - int(n["bits"])) / 8],  # four bits for 4.127
        "29.5": lambda: [
            n["steps"] * max(n["batch"] * n["one_pass"] / n["peak"], n["moved"] / n["bandwidth"]) + n["once"]
        ],  # one pass for two
    }[id]()


@pytest.mark.independent
@pytest.mark.parametrize("id", ["06.2", "16.3", "22.3", "25.1", "25.2", "25.6", "27.1", "27.2", "29.5"])
def test_a_slip_that_looks_like_another_gets_a_question(id: str) -> None:
    """Each was told of powers of 1024, of two inputs taken for each other, of one stage fewer, of rounding, of another unit."""
    e = EXERCISES[id]
    for seed in (f"h{i}" for i in range(8)):
        g = e.draw(seed)
        right = float(e.solve(g))
        for made in near_misses(id, g, right):
            feedback = check(id, made, seed)
            if not feedback.correct:
                assert feedback.mistake in {None, "factor-2", *(m.name for m in e.mistakes)}, (seed, feedback)


@pytest.mark.regression
def test_two_slips_with_one_number_are_said_with_may() -> None:
    for id, factor in (("16.5", 2.0), ("02.4", 0.5)):
        e = EXERCISES[id]
        for seed in ("h0", "h1", "h2"):
            found = check(id, factor * float(e.solve(e.draw(seed))), seed).message
            assert "More than one slip gives this number. One of them: You counted" in found or "A multiply" in found
    g = EXERCISES["01.9"].draw("eve")
    assert check("01.9", 8, "eve").mistake is None or g["kv_heads"] != g["heads"] / 8


@pytest.mark.regression
def test_zero_and_what_lies_below_it_are_told_plainly() -> None:
    for e in EXERCISES.values():
        if e.form != "number":
            continue
        right = float(e.solve(e.draw("ada")))
        zero = check(e.id, 0, "ada")
        if not any(way(e.draw("ada")) == 0 for m in e.mistakes for way in m.ways):  # "no wait at all" is one
            assert zero.mistake is None, e.id
            assert zero.message.startswith("Not yet. The answer is not zero."), e.id
        other = check(e.id, -1.2345 * right, "ada")
        if other.mistake not in {m.name for m in e.mistakes}:
            assert other.message.startswith(f"Not yet. The answer is {'above' if right > 0 else 'below'} zero."), e.id
    assert check("08.1", 0, "ada").message.endswith(
        EXERCISES["08.1"].ask.format_map(EXERCISES["08.1"].draw("ada").texts())
    )


@pytest.mark.parametrize(
    ("id", "seed", "change", "name"),
    [
        ("02.2", "h0", lambda right, g: -right, "sign"),
        ("01.2", "h0", lambda right, g: 1 / right, "upside-down"),
        ("09.5", "h0", lambda right, g: 1e6 * right, "unit-slip"),
        ("09.1", "h0", lambda right, g: 60 * right, "time-unit"),
        ("15.2", "h0", lambda right, g: 100 * right, "percent"),
        ("27.9", "h0", lambda right, g: right * g["devices"], "one-or-all"),
        ("25.5", "h0", lambda right, g: right / 2.0**30, "bare-gibibytes"),
        ("25.5", "h0", lambda right, g: right / 1e9, "bare-number"),
        ("25.5", "h0", lambda right, g: right / 1.024**2, "binary-prefix"),
    ],
)
def test_what_a_number_says_alone_is_named(id: str, seed: str, change: Any, name: str) -> None:
    e = EXERCISES[id]
    g = e.draw(seed)
    found = check(id, float(change(float(e.solve(g)), g)), seed)
    assert found.mistake == name or found.mistake in {m.name for m in e.mistakes}, found


def test_a_check_takes_some_milliseconds_of_processor_time() -> None:
    asked = [e for e in EXERCISES.values() if e.form == "number" and e.id[:2] in ("01", "06", "08", "16")]
    took = []
    for e in asked:
        right = float(e.solve(e.draw("ada")))
        check(e.id, 1.2345678 * right, "ada")  # the first time compiles
        start = time.process_time()
        check(e.id, 1.3345678 * right, "ada")
        took.append(time.process_time() - start)
    assert sorted(took)[len(took) // 2] < 0.02  # ten times what a quiet machine takes
    assert max(took) < 0.2


@pytest.mark.parametrize(("text", "tolerance"), [(12.0, 0.002), (0.0418, 0.0012), (41.79, 1.2e-4), (41.7910447, 1e-4)])
def test_how_near_a_slip_must_come(text: float, tolerance: float) -> None:
    assert slips.nearness(text) == pytest.approx(tolerance, rel=0.01)


def test_one_change_on_the_way_is_named_with_its_input() -> None:
    g = EXERCISES["06.2"].draw("ada")
    right = float(EXERCISES["06.2"].solve(g))
    e = replace(EXERCISES["06.2"], mistakes=())
    found = grade(e, right - g["hop"], g)
    assert found.mistake == "left-out"
    assert f"“{g.given['hop'].meaning}”" in found.message


def test_three_stages() -> None:
    e = EXERCISES["01.7"]
    g = e.draw("ada")
    first, second, third = (check("01.7", "33 s", "ada", attempt=n) for n in (1, 2, 3))
    assert first.message == f"Not yet. {e.ask.format_map(g.texts())}"
    assert second.message == f"Not yet. {e.ask.format_map(g.texts())} The next hint names the relation to use."
    assert third.message == f"Not yet. {e.nudge.format_map(g.texts())}"
    assert first.mistake is second.mistake is third.mistake is None
    for e in EXERCISES.values():
        assert e.ask.endswith(("?", "?.")) or "?" in e.ask, e.id
        assert e.ask != e.nudge


class Clock:
    at = datetime(2026, 11, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


def test_a_graded_desk_counts_logs_and_keeps_the_route_until_the_deadline(tmp_path: Path) -> None:
    clock, log = Clock(), tmp_path / "attempts.jsonl"
    made = Desk("ada", graded=True, attempts=3, due="2026-12-01T12:00+00:00", log=log, now=clock)
    assert made.hint("01.7").startswith("Try first")
    assert not made.check("01.7", "what?")
    assert made.left("01.7") == 3  # not read: costs nothing
    made.check("01.7", "33 s")
    made.check("01.7", "33 s")
    assert (made.left("01.7"), made.stage("01.7")) == (2, 1)
    made.check("01.7", "34 s")
    made.check("01.7", "35 s")
    assert "after 2026-12-01T12:00" in made.hint("01.7")
    assert "answer =" not in made.hint("01.7")
    refused = made.check("01.7", EXERCISES["01.7"].solve(EXERCISES["01.7"].draw("ada")))
    assert (refused.correct, refused.mistake) == (False, "no-attempts")
    clock.at += timedelta(days=2)
    assert "answer =" in made.hint("01.7")
    again = Desk("ada", graded=True, attempts=3, due="2026-12-01T12:00+00:00", log=log, now=clock)
    assert again.left("01.7") == 0  # the log remembers
    lines = log.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5
    changed = json.loads(lines[1]) | {"answer": "'1 s'"}
    log.write_text("\n".join([lines[0], json.dumps(changed), *lines[2:]]), encoding="utf-8")
    with pytest.raises(InputError, match="line 2 was changed"):
        session.read_log(log)
    log.write_text("\n".join(lines[:1] + lines[2:]), encoding="utf-8")
    with pytest.raises(InputError, match="missing"):
        Desk("ada", log=log)


@pytest.mark.parametrize("due", [None, "tomorrow", "2026-12-01T12:00", datetime(2026, 12, 1)])
def test_a_graded_desk_needs_a_deadline_with_a_zone(due: object) -> None:
    with pytest.raises(InputError, match="no time with a zone"):
        Desk("ada", graded=True, due=due)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("e", EXERCISES.values(), ids=lambda e: e.id)
def test_every_worked_route_ends_at_the_right_answer(e: "object") -> None:
    from mlsysim.course.exercises import Exercise, routes

    assert isinstance(e, Exercise)
    for seed in ("", "demo"):
        found = worked(e.id, seed)
        assert found.answer
        assert found.steps
        if e.form == "number":
            assert check(e.id, found.answer, seed).correct, found.answer
        without = routes.route(e, e.draw(seed), whole=False)
        assert len(without.steps) == len(found.steps) - 1
        assert not without.answer


def test_a_desk_says_whose_numbers_it_uses_and_shows_hints_as_they_read() -> None:
    assert "still 'your-id'" in Desk("your-id").check("01.7", "33 s").message
    made = Desk("ada")
    assert "your-id" not in made.check("01.7", "33 s").message
    assert repr(made.hint("01.7")) == made.hint("01.7") == EXERCISES["01.7"].ask
