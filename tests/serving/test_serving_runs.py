"""The measured serving runs that ship: against the source's own means, and read strictly."""

import csv
from pathlib import Path

import pytest

from mlsysim.errors import InputError
from mlsysim.evidence import serving_run, serving_runs
from mlsysim.evidence.measured.serving_runs import METRICS, read_requests

ROOT = Path(__file__).resolve().parents[2]
POINTS = ROOT.parent / "shared" / "reference" / "blis" / "points.csv"
needs_points = pytest.mark.skipif(
    not POINTS.is_file(), reason="the open serving points are not beside this checkout (../shared/reference/blis)"
)
HEAD = "arrival_s,input_len,output_len,cached_len,queue_s,prefill_s,ttft_s,itl_s,e2e_s,client_ttft_s,client_itl_s,client_e2e_s"


@pytest.mark.independent
def test_runs_are_whole_and_say_what_is_wrong_with_them() -> None:
    runs = serving_runs()
    assert len(runs) == 19
    assert sum(len(r.requests) for r in runs.values()) == 317
    assert {r.quality for r in runs.values()} == {"A", "B"}
    for run in runs.values():
        assert (run.quality == "A") == bool(run.requests) == (not run.printed)
        assert run.defects
        assert [r.arrival_s for r in run.requests] == sorted(r.arrival_s for r in run.requests)
        for r in run.requests:  # a token cannot come before the queue and the prefill are over
            assert r.queue_s + r.prefill_s <= r.ttft_s <= r.e2e_s
            assert (r.itl_s is None) == (r.output_len == 1)
            if r.client_ttft_s is not None and r.client_e2e_s is not None:
                assert r.client_ttft_s > r.ttft_s
                assert r.client_e2e_s > r.e2e_s


@pytest.mark.published
@needs_points
def test_means_are_those_of_the_source() -> None:
    with POINTS.open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    runs = list(serving_runs().values())
    assert len(points) == len(runs)
    for point, run in zip(points, runs, strict=True):  # in the source's order
        assert run.tp == int(point["tp"])
        assert run.clock == point["side"]
        for metric in METRICS:
            # the client ends its own e2e_per_token with the last token, some 0.02 ms before the request is over
            rel = 1e-3 if metric == "e2e_per_token" and run.clock == "client" else 2e-5
            assert run.mean(metric) * 1e3 == pytest.approx(float(point[f"{metric}_ms_mean"]), rel=rel)
            if run.requests and metric != "e2e_per_token":
                assert run.median(metric) == pytest.approx(float(point[f"{metric}_ms_p50"]) / 1e3, rel=2e-5)
        assert run.input_len == pytest.approx(float(point["prompt_tokens_mean"]), abs=0.006)


@pytest.mark.published
def test_the_first_request_of_a_cold_server_stands_out() -> None:
    """vLLM's own record, eval/ground_truth/jan21-llama7b-train-1/traces.json: 272.02 ms for a prompt of 1,527."""
    first, *others = serving_run("llama-2-7b-train-0").requests
    assert first.prefill_s == pytest.approx(0.27202305, abs=1e-6)
    assert first.prefill_s > 2 * max(r.prefill_s for r in others)


@pytest.mark.independent
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: the columns must be"),
        (HEAD, "0 requests"),
        (HEAD + "\n0,1,1,0,0,0,1,,1,,", "line 2: 11 columns"),
        (HEAD + "\n0,1,1,0,0,0,x,,1,,,", "line 2, column ttft_s: 'x' is not a number"),
        (HEAD + "\n0,1.5,1,0,0,0,1,,1,,,", "line 2, column input_len: '1.5' is not a whole number"),
        (HEAD + "\n0,0,1,0,0,0,1,,1,,,", "column input_len: 0 must be finite and at least 1"),
        (HEAD + "\n0,4,1,5,0,0,1,,1,,,", "column cached_len: more than the 4 tokens"),
        (HEAD + "\n0,4,1,0,0,0,nan,,1,,,", "column ttft_s: nan must be finite"),
        (HEAD + "\n0,4,1,0,0,0,,,1,,,", "column ttft_s: '' is not a number"),
    ],
)
def test_a_bad_file_is_refused_by_line_and_column(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.csv"
    path.write_text(text + "\n" if text else "", encoding="utf-8")
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        read_requests(path)


@pytest.mark.independent
def test_a_file_that_is_none_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_requests(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"bytes\.csv, line 1, column 1: not UTF-8"):
        read_requests(tmp_path / "bytes.csv")
    with pytest.raises(KeyError, match=r"did you mean .llama-2-7b-train-"):
        serving_run("llama-2-7b-train-9")
