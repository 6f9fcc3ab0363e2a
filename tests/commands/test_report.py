"""A measurement on its way in: the template, what is refused of a file from anybody, and the check before it becomes a row."""

import json
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from test_runs import BENCH

import mlsysim
from mlsysim import runs
from mlsysim.cli import main
from mlsysim.course import sizing
from mlsysim.course.sizing import showing
from mlsysim.errors import InputError
from mlsysim.evidence.rows import row_table
from mlsysim.runs.reports import ASKED, read_report

check_report = pytest.importorskip("check_report", reason="the scripts are not beside the tests")


@pytest.fixture
def template(tmp_path: Path) -> str:
    (tmp_path / "r.json").write_text(json.dumps(BENCH), encoding="utf-8")
    assert main(["report", str(tmp_path / "r.json"), "--device", "H100", "-o", str(tmp_path / "r.toml")]) == 0
    return (tmp_path / "r.toml").read_text(encoding="utf-8")


def complete(text: str) -> str:
    for name in ASKED:
        text = text.replace(f'{name} = ""', f'{name} = "said"')
    return text.replace("may_publish = false", "may_publish = true")


def put(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sent.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_report_says_what_the_run_says(template: str, tmp_path: Path) -> None:
    report = read_report(put(tmp_path, complete(template)))
    run = runs.read_run(tmp_path / "r.json")
    assert report.run.figures == run.figures
    assert report.run.asked == {**run.asked, "device": "H100"}
    assert report.sent == dict.fromkeys(ASKED, "said")
    assert all(told is not None for told in report.predicted)


def test_a_run_that_says_too_little_makes_no_report(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(BENCH), encoding="utf-8")
    assert main(["report", str(tmp_path / "r.json"), "-o", str(tmp_path / "r.toml")]) == 3
    assert not (tmp_path / "r.toml").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('sender = "said"', 'sender = ""', "sender is empty"),
        ("may_publish = true", "may_publish = 1", "may_publish must be true"),
        ("value = 0.05", "value = -1.0", "must be a finite number above 0"),
        ("value = 0.05", "value = inf", "must be a finite number above 0"),
        ("value = 0.05", "value = [[1]]", "must be a finite number above 0"),
        ('name = "ttft_s"', 'name = "speed"', "unknown name 'speed'"),
        ('kind = "serving"', 'kind = "hearsay"', "unknown kind 'hearsay'"),
        ('sender = "said"', 'sender = "a\\u001b[2J"', "a text in one line"),
        ('sender = "said"', f'sender = "{"x" * 3000}"', "a text in one line"),
        ("[asked]", "[asked]\nextra = {a = 1}", "must be a text, true, false or a finite number"),
        ("[asked]", "price = 1\n[asked]", "unknown field 'price'"),
        ("[asked]", "deep = " + "[" * 5000 + "]" * 5000 + "\n[asked]", "nested too deeply"),
        ("[asked]", "#" * 1_000_001 + "\n[asked]", "larger than 1,000,000 bytes"),
    ],
)
def test_what_anybody_may_send_is_refused_by_name(template: str, tmp_path: Path, old: str, new: str, told: str) -> None:
    text = complete(template)
    assert old in text
    with pytest.raises(InputError, match=told.replace("(", r"\(")):
        read_report(put(tmp_path, text.replace(old, new, 1)))


def test_the_check_scores_and_makes_one_row_of_a_point(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_report.check(str(put(tmp_path, complete(template)))) == 0
    printed = capsys.readouterr().out
    head, row = (line.split(",") for line in printed.splitlines()[-2:])
    assert printed.count("a row of serving.csv") == 1
    cells = dict(zip(head, [*row[:3], *row[3:]], strict=False))
    assert cells["id"] == cells["set"] == ""
    assert row[head.index("measured_tpot_s") :][0:2] == ["0.01", "0.05"] or "0.01,0.05" in printed
    assert "left aside" in printed  # the end to end time


def test_the_check_refuses_what_cannot_be_and_what_is_there(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    too_fast = complete(template).replace("value = 0.01\n", "value = 0.001\n", 1)  # the weights alone take 4.5 ms
    assert check_report.check(str(put(tmp_path, too_fast))) == 1
    assert "beats what the datasheet allows" in capsys.readouterr().out
    there = next(r for r in row_table("serving_tpot") if r["model"] == "Qwen3-32B" and r["measured_tpot_s"] > 0.008)
    same = complete(template).replace("meta-llama/Llama-3.1-8B-Instruct", "Qwen3-32B")
    same = same.replace('device = "H100"', f'device = "{there["device"]}"\ntp = 1')
    same = same.replace("value = 0.01\n", f"value = {there['measured_tpot_s']!r}\n", 1)
    check_report.check(str(put(tmp_path, same)))
    assert f"ships already: serving_tpot, {there['id']}" in capsys.readouterr().out


def test_a_link_of_the_command_line_is_read_by_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["link", "memory", "--serve", "--model", "Llama-3.1-8B", "--device", "H100", "--max-model-len=8192"]) == 0
    )
    page, _, query = capsys.readouterr().out.strip().partition("#size?")
    form = dict(parse_qsl(query))
    said, version = form.pop("said"), form.pop("version")
    assert (page, version) == ("book/size-it.html", mlsysim.__version__)
    assert form == {"task": "fits", "model": "Llama-3.1-8B", "device": "H100", "max_model_len": "8192"}
    assert said == showing.heard(sizing.size(form))
    for words, told in (
        (["serve", "--model", "Llama-3.1-8B", "--device", "H100", "--engine", "x"], "engine"),
        (["plan", "--model", "X"], "takes the words of a call"),
        (["serve", "--explain", "--model", "X"], "--explain has no value"),
    ):
        assert main(["link", *words]) == 2
        assert told in capsys.readouterr().err
