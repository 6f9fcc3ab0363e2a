"""Hints that are true: the committed list of slips, three stages, attempts that are limited and logged, worked routes."""

import csv
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import score_slips  # a script, not a package
from support import ROOT

from mlsysim.classroom import Desk, check, worked
from mlsysim.classroom.exercises import EXERCISES, desk, slips
from mlsysim.errors import InputError

with (ROOT / "tests" / "book" / "slips.csv").open(newline="", encoding="utf-8") as _file:
    LIST = list(csv.DictReader(_file))


@pytest.mark.independent
@pytest.mark.slow
def test_hints_name_what_went_wrong_or_nothing() -> None:
    assert len(LIST) >= 2500
    total, by_kind = score_slips.score(LIST)
    assert len(by_kind) >= 20
    assert total["false"] <= 0.02 * len(LIST), total
    assert total["specific"] >= 0.65 * len(LIST), total


def test_a_sample_of_the_list() -> None:
    total, _ = score_slips.score(LIST[::40])
    assert total["false"] <= 0.04 * total.total()
    assert total["specific"] >= 0.65 * total.total()


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
    g = EXERCISES["04.9"].draw("ada")
    right = float(EXERCISES["04.9"].solve(g))
    found = check("04.9", right / g["hidden"], "ada")
    assert found.mistake == "one-or-all"
    assert f"“{g.given['hidden'].meaning}”" in found.message


def test_three_stages() -> None:
    e = EXERCISES["01.7"]
    g = e.draw("ada")
    first, second = check("01.7", "33 s", "ada"), check("01.7", "33 s", "ada", attempt=2)
    assert first.message == f"Not yet. {e.ask.format_map(g.texts())}"
    assert second.message == f"Not yet. {e.nudge.format_map(g.texts())}"
    assert first.mistake is second.mistake is None
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
        desk.read_log(log)
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
    from mlsysim.classroom.exercises import Exercise, routes

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
