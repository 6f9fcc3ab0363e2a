"""A bounded sample of ``scripts/maintain/fuzz.py``, and the proof that it can fail: ten thousand times as many run by hand."""

import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest

fuzz = pytest.importorskip("fuzz", reason="the scripts are not beside the tests")

SAMPLE = {
    "cli": 250,
    "functions": 300,
    "equations": 3000,
    "configs": 2000,
    "devices": 200,
    "traces": 500,
    "programs": 1500,
    "mlir": 400,
    "serve": 100,
    "train": 300,
}
SCARCE = {"mlir": 1 / 80}  # few damaged texts still parse


@pytest.mark.slow
@pytest.mark.independent
@pytest.mark.parametrize("kind", SAMPLE)
def test_random_input_gives_an_answer_or_a_sentence(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "HANG", 10 * fuzz.HANG)  # a busy machine is no hang
    found = list(fuzz.fuzz(kind, seed=0, seconds=1200.0, inputs=SAMPLE[kind]))
    assert [row for row in found if row[1]] == []
    assert len(found) == SAMPLE[kind]
    good = sum(what in ("rc 0", "same", "read", "kept", "answered") for _, _, what, _ in found)
    assert good > SCARCE.get(kind, 1 / 8) * len(found), "hardly anything was legal, so hardly anything was tried"


def test_a_case_is_made_again_by_its_number() -> None:
    for name, kind in fuzz.ALL.items():
        twice = [kind.show(kind.make(random.Random(f"{name} 3 7"))) for _ in range(2)]
        assert twice[0] == twice[1]


def planted(kind: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, str, str]]:
    monkeypatch.setitem(fuzz.ALL, kind, fuzz.Kind(fuzz.ALL[kind].make, run, fuzz.ALL[kind].show))
    return [row for row in fuzz.fuzz(kind, seed=0, seconds=600.0, inputs=200) if row[1]]


def test_the_fuzzer_finds_a_crash_and_cuts_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(case: Any) -> str:
        return "kept" if all(part[0] != "hidden_size" for part in case[1:]) else str(1 / 0)

    _, wrong, _, shown = planted("configs", run, monkeypatch)[0]
    assert wrong.startswith("ZeroDivisionError at ")
    assert shown.startswith("catalog.from_hf_config({'hidden_size': ") and shown.count(":") == 1


def test_the_fuzzer_finds_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "HANG", 0.05)
    found = planted("traces", lambda case: time.sleep(0.06 if len(case) > 11 else 0) or "read", monkeypatch)
    assert found and {wrong for _, wrong, _, _ in found} == {"hang"}


@pytest.mark.parametrize(
    ("output", "code", "error", "says"),
    [
        ('{"time_s": Infinity}', 0, "", "Infinity in JSON"),
        ("{}", 1, "Traceback\n  File\nmlsysim: x", "3 lines of error"),
        ("{}", 4, "mlsysim: x", "exit code 4"),
        ("{}", 2, "mlsysim: " + "x" * 2000, "2009 characters"),
        ("time inf s", 0, "", "inf in the output"),
    ],
)
def test_the_fuzzer_judges_what_a_command_prints(
    output: str, code: int, error: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(words: list[str]) -> int:
        print(output)
        if error:
            print(error, file=sys.stderr)
        return code

    monkeypatch.setattr(fuzz.cli, "main", main)
    words = ["devices", "--json"] if output.startswith("{") else ["devices"]
    assert says in fuzz.problem(fuzz.ALL["cli"], [words])[1]


def test_the_script_exits_with_1_and_tells_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fuzz.main(["--kind", "traces", "--inputs", "20", "--seed", "0"]) == 0
    planted("traces", lambda case: str(1 / 0), monkeypatch)
    assert fuzz.main(["--kind", "traces", "--inputs", "3", "--seed", "5"]) == 1
    assert "python scripts/maintain/fuzz.py --kind traces --seed 5 --case 2" in capsys.readouterr().out
    assert fuzz.main(["--kind", "traces", "--seed", "5", "--case", "2"]) == 1
    assert capsys.readouterr().out.count("--case") == 1
    assert Path(fuzz.places()["folder"]).is_dir()
