"""A simulated run says whether targets are met only where it is steady; its length, and what of it counts, follow from it."""

import dataclasses
import json
import statistics
from typing import Any

import pytest

import mlsysim
from mlsysim import SLO, cli, serving

independent = pytest.mark.independent
GOAL = SLO(ttft=1.5, itl=0.03, quantile=0.95)
ASKED: dict[str, Any] = {
    "rate": 40,
    "input_len": 6000,
    "output_len": 700,
    "slo": GOAL,
    "tp": 1,
    "length_variation": 0.0,
}


@independent
def test_a_run_that_never_leaves_its_ramp_has_no_verdict() -> None:
    """A thousand requests at 40/s, each of which stays 17 s, were met by 13 servers, 100.00 %, where 17 are needed (J2)."""
    short = mlsysim.simulate("gpt-oss-120B", "H200", **ASKED, replicas=13, requests=1000)
    assert not short.steady and short.met is None and short.to_dict()["slo_met"] is None
    said = " ".join(str(short).split())
    assert "NO VERDICT" in said and "not steady" in said and "\nmet:" not in str(short) and "--requests" in said


@independent
def test_a_run_is_as_long_as_its_residence_asks_for() -> None:
    found = mlsysim.simulate("gpt-oss-120B", "H200", **ASKED, replicas=13)
    run: Any = found.simulation
    stays = statistics.mean(r.finished - r.request.arrival for r in run.records)
    assert found.steady and 17 * stays < found.run.requests / 40 < 40 * stays
    assert found.met is False and f"--requests {found.run.requests}" in " ".join(str(found).split())
    # what counts: neither the ramp nor the drain
    window = found.run.window(run)
    assert window.begin >= 2 * stays and window.end <= found.run.requests / 40 - 0.5 * stays
    counted = [r.itl_s for r in window.records]
    assert found.mean("itl_s.mean") == pytest.approx(statistics.mean(counted))
    assert found.mean("requests_per_s") == pytest.approx(40, rel=0.05)  # "34.87 requests/s" of an offered 40


@independent
def test_the_explanation_is_of_what_is_printed() -> None:
    found = mlsysim.simulate("Llama-3.1-8B", "H100", rate=4, output_len=60)
    chain: Any = found.explain()
    assert chain.terms[-1].value == pytest.approx(found.mean("ttft_s.p99")) or chain.terms[0].value == pytest.approx(
        found.mean("ttft_s.p99")
    )


@independent
def test_every_percentile_has_an_interval() -> None:
    """The interval of a single run is as wide as the spread over runs with other seeds, within the error of both."""
    asked = {"rate": 12, "input_len": 1000, "output_len": 200}
    one = mlsysim.simulate("Llama-3.1-8B", "H100", **asked)
    said = str(one)
    assert all("±" in line for line in said.split("\n") if line.startswith(("ttft", "itl", "e2e ")))
    many = [mlsysim.simulate("Llama-3.1-8B", "H100", **asked, seed=s).mean("ttft_s.p90") for s in range(3, 33, 3)]
    assert 0.3 < one.error("ttft_s.p90") / statistics.stdev(many) < 3


def test_a_run_that_carries_its_rate_does_not_say_that_the_wait_grows() -> None:
    """'met ... 39.8 requests/s' stood above '8 full servers complete 38.46/s; the wait grows': an estimate that the run exceeds."""
    found = mlsysim.simulate("Llama-3.1-8B", "H100", rate=4, requests=100, input_len=500, output_len=50)
    short = serving.Saturation(offered=4.0, capacity=0.5 * found.mean("requests_per_s"), running=1.0, step_time=0.01)
    below = dataclasses.replace(found, saturation=short)
    assert short.growth > 0 and "the wait grows" not in below.binds and "complete" not in below.binds
    busy = serving.Saturation(offered=8.0, capacity=2.0 * found.mean("requests_per_s"), running=1.0, step_time=0.01)
    assert "the wait grows" in dataclasses.replace(found, saturation=dataclasses.replace(busy, offered=100.0)).binds


def test_a_loop_and_a_trace_count_whole() -> None:
    asked = {"concurrency": 8, "requests": 80, "input_len": 500, "output_len": 50}
    loop = mlsysim.simulate("Llama-3.1-8B", "H100", **asked, slo=SLO(ttft=5.0))
    assert loop.steady and loop.met and loop.run.length_variation == 0.0
    assert loop.mean("ttft_s.p90") == pytest.approx(loop.simulation.summary()["ttft_s"]["p90"])  # type: ignore[union-attr]


@pytest.mark.parametrize("words", [[], ["--concurrency", "4"], ["--runs", "2"]])
def test_an_answer_repeats_its_target_and_explains_what_the_server_did(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rate = [] if "--concurrency" in words else ["--rate", "4"]
    asked = [
        "simulate",
        "--model",
        "gpt-oss-20B",
        "--device",
        "H100",
        *rate,
        "--ttft",
        "1 s",
        "--output-len",
        "60",
        *words,
    ]
    assert cli.main(asked) == 0
    plain = capsys.readouterr().out
    assert len(plain.strip().split("\n")) <= 15 and "TTFT 1 s" in plain
    if not words:
        assert cli.main([*asked, "--explain"]) == 0
        assert "tokens a step" in (told := capsys.readouterr().out) and "Efficiencies: " in told
        assert cli.main([*asked, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["steady"] is True
