"""What a function prints and what it writes as JSON is one answer: each number of the first lines stands in the dictionary, under its name."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import mlsysim
from mlsysim import SLO, intervals, units
from mlsysim.api.arguments import pluralize
from mlsysim.cli import main
from mlsysim.results import format_value

independent = pytest.mark.independent
L8, REQUESTS = "Llama-3.1-8B", {"requests": 30, "input_len": 500, "output_len": 50}

ANSWERS: Mapping[str, Callable[[], Any]] = {
    "serve a rate": lambda: mlsysim.serve(L8, "H100", rate=20),
    "serve within targets": lambda: mlsysim.serve("Qwen3-32B", "H200", slo=SLO(ttft=1.0, itl=0.05)),
    "serve on replicas": lambda: mlsysim.serve("Llama-3.3-70B", "H100", slo=SLO(ttft=2.0), rate=12),
    "serve a batch": lambda: mlsysim.serve("DeepSeek-R1", "H200", tp=8, batch=4),
    "simulate": lambda: mlsysim.simulate(L8, "H100", rate=4, **REQUESTS),
    "simulate twice": lambda: mlsysim.simulate("gpt-oss-20B", "H100", rate=4, runs=2, **REQUESTS),
    "train": lambda: mlsysim.train("Llama-3.3-70B", "8 x DGX-H100", tokens=1e9),
    "plan": lambda: mlsysim.plan(L8, "DGX-H100"),
}
TIME = r"(\d[\d.,e+]*(?: (?:ns|µs|ms|s|min|h|days|years))?)"
# What stands around a number, and where the dictionary has it.
SAID: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    rf"^TTFT {TIME} \(": lambda d: units.format(d["ttft_s"], "s", 3),
    rf"ITL {TIME} on average": lambda d: units.format(d["itl_s"], "s", 3),
    r"([\d.]+) % of requests": lambda d: f"{100 * d['quantile']:g}",
    r"(\d+)% of capacity": lambda d: f"{100 * d['utilisation']:.0f}",
    r"--max-num-seqs (\d+)$": lambda d: f"{d['max_running']}",
    r"for ([\d.]+) requests/s of": lambda d: units.rounded(d["rate_per_s"]),
    r"carry ([\d.]+) requests/s": lambda d: units.rounded(d["rate_per_s"]),
    r": (\d+ replicas?) of": lambda d: pluralize(d["layout"]["replicas"], "replica"),
    rf"first token after {TIME}": lambda d: units.format(d["ttft_s"], "s", 3),
    rf"then one every {TIME}": lambda d: units.format(d["itl_s"], "s", 3),
    rf"batch \d+: {TIME} in all": lambda d: units.format(d["e2e_s"], "s", 3),
    r"([\d.,]+) tokens/s$": lambda d: units.rounded(d["tokens_per_s"]),
    r": TTFT ([\d.]+)": lambda d: units.format(d["summary"]["ttft_s"]["p99"], "s", 3),
    r": TTFT .*?ITL ([\d.]+) .*\(p99\)": lambda d: units.format(d["summary"]["itl_s"]["p99"], "s", 3),
    r"^([\d.,]+) requests/s, ": lambda d: units.rounded(d["requests_per_s"]),
    r"^[\d.,]+ requests/s, ([\d.,]+) tokens/s": lambda d: units.rounded(d["tokens_per_s"]),
    r"([\d.]+) decoding in a step": lambda d: units.rounded(d["mean_batch"]),
    rf": {TIME} a step \(": lambda d: format_value(d["time_s"], "s"),
    r"MFU ([\d.]+ %)": lambda d: units.percent(d["mfu"], signed=False),
    rf"tokens take {TIME}": lambda d: format_value(d["time_to_train_s"], "s"),
    r"tokens a step: ([\d.e+,]+) tokens/s": lambda d: f"{d['tokens_per_s']:,.4g}",
}


def _lines(found: Any) -> list[str]:
    """The summary with its wrapped lines joined, up to the bill."""
    joined: list[str] = []
    for line in "\n".join(found.summary()).split("\n"):
        if line.startswith("    ") and joined:
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
    cost = next((i for i, line in enumerate(joined) if line.startswith("cost")), 4)
    return joined[:cost]


@independent
@pytest.mark.parametrize("name", [n for n in ANSWERS if n != "plan"])
def test_the_first_lines_are_in_the_dictionary(name: str) -> None:
    found = ANSWERS[name]()
    written, checked = found.to_dict(), 0
    for line in _lines(found):
        for pattern, where in SAID.items():
            if match := re.search(pattern, line):
                if pattern.startswith(": ") and " a step " in pattern and "plan" in line:
                    continue
                assert where(written).startswith(match[1]) or match[1].startswith(where(written)), (line, pattern)
                checked += 1
    assert checked >= (3 if name == "train" else 4), (name, checked)


@independent
@pytest.mark.parametrize("name", list(ANSWERS))
def test_a_name_means_one_number(name: str) -> None:
    """An attribute and a key of the dictionary that are called alike are the same; no NaN goes into JSON."""
    found = ANSWERS[name]()
    written = found.to_dict()
    shared = [
        k
        for k, v in written.items()
        if isinstance(v, (int, float)) and isinstance(getattr(found, k, None), (int, float))
    ]
    for key in shared:
        assert written[key] == pytest.approx(getattr(found, key)), key
    assert "fits" in shared
    assert not any(isinstance(v, float) and math.isnan(v) for v in written.values())


def test_json_of_a_rate_begins_with_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """It said 145.3 tokens/s, those of one request alone, where the text and the attribute said 5,120."""
    main(["serve", "--model", L8, "--device", "H100", "--rate", "20", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["tokens_per_s"] == pytest.approx(20 * 256) and found["rate_per_s"] == 20
    assert found["itl_s"] == found["load"]["itl_s"] and found["ttft_s"] == found["load"]["ttft_quantile_s"]
    assert found["alone"]["tokens_per_s"] < 200 and found["alone"]["itl_s"] < found["itl_s"]


@independent
@pytest.mark.parametrize("model", ["DeepSeek-R1", "Llama-3.3-70B"])
def test_answers_name_the_model_that_was_asked_for(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    tp = ["--tp", "8"]
    for words in (
        ["serve", "--model", model, "--device", "H200", "--rate", "1", *tp],
        ["simulate", "--model", model, "--device", "H200", "--concurrency", "1", "--requests", "1", *tp],
        ["memory", "--serve", "--model", model, "--device", "H200", *tp],
        ["frontier", "--model", model, "--device", "H200", "--input-len", "1000", "--output-len", "1000"],
        ["train", "--model", model, "--device", "64 x DGX-H100"],
    ):
        main(words)
        first = capsys.readouterr().out.split("\n")[0]
        assert model in first and "DeepSeek-V3" not in first and "Llama-3.1" not in first, first
    assert mlsysim.catalog.model(model).name in ("DeepSeek-V3", "Llama-3.1-70B")  # the catalogue's own name stays


@independent
def test_a_range_says_its_share_and_whose_errors_it_is_of() -> None:
    known, strange = (str(mlsysim.serve(L8, d, rate=5)) for d in ("H100", "MI355X"))
    share = f"{intervals.interval('inference', 1.0).quantiles.nominal:.0%} range of past errors"
    assert share in " ".join(known.split()) and "none on" not in known
    assert f"{share}, none on CDNA 4" in " ".join(strange.split())
    assert "80% range of past errors" in " ".join(str(ANSWERS["train"]()).split())
    blackwell = " ".join(str(mlsysim.serve(L8, "B200").explain()).split())
    assert "no kernel timed on Blackwell" in blackwell and "no row ran on" not in blackwell


@pytest.mark.parametrize("more", [["--rate", "5", "--ttft", "1 s"], []], ids=len)
def test_an_explanation_says_whose_rates_and_which_method_once(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--model", L8, "--device", "H100", "--explain", *more]) == 0
    said = capsys.readouterr().out
    assert said.count("Efficiencies: ") == said.count("Method: ") == 1
