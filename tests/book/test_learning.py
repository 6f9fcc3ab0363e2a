"""``mlsysim learn`` and the desk behind it: progress that stays, a log that is not trusted, a notebook that is graded as answered."""

import json
from pathlib import Path

import pytest

from mlsysim.cli import main
from mlsysim.course import Learner
from mlsysim.course.exercises import EXERCISES, assignment, inputs, session
from mlsysim.course.exercises.learning import MOST_CODE, named
from mlsysim.course.grading.marks import grade_one
from mlsysim.course.grading.submissions import Submission
from mlsysim.errors import InputError

WRITTEN = """\
g = inputs("01.12", seed=STUDENT)


def kernel_time(flops, bytes):
    t = max(flops / (g["peak"] * g["efficiency"]), bytes / (g["bandwidth"] * g["memory_efficiency"]))
    return max(t, g["least"])


answer = kernel_time
"""


@pytest.mark.slow
@pytest.mark.independent
def test_what_was_answered_at_the_prompt_is_graded_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))

    def learn(*words: str) -> str:
        assert main(["learn", *words]) == 0
        return capsys.readouterr().out

    assert main(["learn"]) == 2
    assert "--student" in capsys.readouterr().err
    g = inputs("01.7", "ada")
    assert g.texts()["claimed"] in learn("01.7", "--student", "ada")  # her numbers, not the public ones
    assert "Not yet" in learn("01.7", "41 s", "--student", "ada")
    assert EXERCISES["01.7"].ask.format_map(g.texts()) in learn("01.7", "--hint")  # who it is, is known by now
    right = f"{EXERCISES['01.7'].solve(g):.9g} s"
    assert "Correct" in learn("01.7", right)
    learn("01.7", "42 s")  # what is right stays right
    file = tmp_path / "own.py"
    file.write_text(WRITTEN, encoding="utf-8")
    assert "Correct" in learn("01.12", "--file", str(file))
    assert "01-iron-law" in (said := learn())
    assert next(line for line in said.splitlines() if "01-iron" in line).split()[1:] == ["2", "2", "16"]
    assert next(line for line in learn("1").splitlines() if "01.12" in line).endswith("right")
    assert Learner().standing("01.7") == "right"
    book = tmp_path / "ada.ipynb"
    learn("01", "--notebook", str(book))
    row = grade_one(Submission(book, "ada"), assignment("01-iron-law"), sandboxed=False, timeout=300, word="unseen")
    assert row.status == "ok"
    assert {id for id, p in row.points.items() if p} == {"01.7", "01.12"}
    assert row.score == EXERCISES["01.7"].points + EXERCISES["01.12"].points


@pytest.mark.regression
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "3",
        '{"seal": "x"}',
        '{"student": 1, "exercise": "01.7", "answer": "", "correct": true, "counts": true, "seal": ""}',
        '{"student": "\\ud800", "exercise": "01.7", "answer": "", "correct": true, "counts": true, "seal": ""}',
        '{"student": "a", "exercise": "01.7", "answer": "", "correct": true, "counts": true, "code": 3, "seal": ""}',
        "\xff",
        " " * (session.MOST_BYTES + 1),
    ],
    ids=["deep", "number", "few", "kinds", "half", "code", "bytes", "long"],
)
def test_a_log_that_is_none_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"^log = "):
        Learner("ada", log)


@pytest.mark.regression
def test_two_desks_write_into_one_log(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log.jsonl"
    one, two = Learner("ada", log), Learner("Ada ", log)
    one.answer("01.7", "41 s")
    two.answer("01.6", "\udcff memory")  # a byte of a terminal that is no letter
    one.answer("01.7", "42 s")
    assert [line["exercise"] for line in session.read_log(log)] == ["01.7", "01.6", "01.7"]
    assert Learner(None, log).stage("01.7") == 2
    assert json.loads(Learner(None, log).notebook("01-iron-law"))["nbformat"] == 4


def test_what_cannot_be_taken_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner, file = Learner("ada", tmp_path / "log.jsonl"), tmp_path / "own.py"
    for text, said in (
        ("x = 1", "assigns no answer"),
        ("answer = ", "SyntaxError"),
        ("raise SystemExit", "SystemExit"),
        ("#" * (MOST_CODE + 1), "at most"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            learner.answer_file("01.12", file)
    with pytest.raises(InputError, match="--file"):
        learner.answer("01.12", "3")
    with pytest.raises(InputError, match="student"):
        Learner("your-id", tmp_path / "log.jsonl")
    for words in (
        ["01.7", "3", "--hint"],
        ["--hint"],
        ["01", "3"],
        ["--notebook", "x.ipynb"],
        ["01.7", "--notebook", "x"],
    ):
        assert main(["learn", "--student", "ada", "--log", str(tmp_path / "log.jsonl"), *words]) == 2
        assert "as in" in capsys.readouterr().err
    assert not (tmp_path / "log.jsonl").exists()


def test_an_answer_takes_the_question_s_own_name() -> None:
    assert named("é = 'answer'; answer = é", "answer_3") == "é = 'answer'; answer_3 = é"
