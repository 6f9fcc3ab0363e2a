"""``mlsysim plan``: options reach the search, keys and units stay."""

import subprocess
import sys
from typing import Any

import pytest

from mlsysim import catalog, explore, training

PLAN = "plan --model Llama-3.1-8B --node DGX-H100 --nodes 2 --global-batch 32 --seq 4096"


@pytest.mark.independent
def test_the_best_plan_is_timed_by_the_solver(run: Any) -> None:
    out = run(PLAN, "--json", "--count", "3")
    cluster = catalog.cluster("DGX-H100", 2)
    assert (out["devices"], out["efficiencies"], len(out["best"])) == (16, "calibrated", 3)
    for row in out["best"]:
        plan = explore.plan_of(row)
        step = training.training_step(
            "Llama-3.1-8B",
            plan,
            cluster,
            global_batch=32,
            seq=4096,
            efficiencies="calibrated",
        )
        assert row["time_s"] == pytest.approx(step.time)
        assert sum(row["terms_s"].values()) == pytest.approx(row["time_s"])
        assert row["memory_bytes"] == pytest.approx(step.memory.total)
        assert row["memory_bytes"] <= out["capacity_bytes"]
    assert out["best"][0]["time_s"] <= out["best"][1]["time_s"] <= out["best"][2]["time_s"]
    assert out["tried"] - out["fitting"] == out["losers"].get("does not fit", 0)


def test_choices_reach_the_search(run: Any) -> None:
    choices = ("--sharding", "zero1", "--recompute", "full", "--micro-batch", "2", "--capacity", "60 GB")
    out = run(PLAN, *choices, "--count", "50", "--json")
    assert {(r["sharding"], r["recompute"], r["micro_batch"]) for r in out["best"]} == {("zero1", "full", 2)}
    assert out["capacity_bytes"] == 60e9
    assert max(r["memory_bytes"] for r in out["best"]) <= 60e9


def test_limits_reach_the_search_as_lists_and_as_maxima(run: Any) -> None:
    out = run(
        PLAN, "--tp", "1,2", "4", "--max-cp", "2", "--pp", "1", "--recompute", "none,full", "--count", "999", "--json"
    )
    rows = out["best"]
    assert {r["tp"] for r in rows} == {1, 2, 4} and {r["pp"] for r in rows} == {1} and {r["cp"] for r in rows} == {1, 2}
    assert {r["recompute"] for r in rows} == {"none", "full"}
    assert out["limits"] == {"only": {"tp": [1, 2, 4], "pp": [1]}, "most": {"cp": 2}}
    one = run(
        PLAN, "--virtual-stages", "2", "--max-dp", "4", "--ep", "1", "--sharding", "zero1", "--count", "99", "--json"
    )
    assert {(r["virtual_stages"], r["dp"] <= 4, r["sharding"]) for r in one["best"]} == {(2, True, "zero1")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tp", "3"), "tp = 3 cannot split Llama-3.1-8B with 4096 tokens on 16 devices; choose from 1, 2, 4, 8, 16"),
        (("--tp", "0"), "argument --tp: '0' is not a list of whole numbers of at least 1"),
        (("--tp", "1,x"), "argument --tp: '1,x' is not a list of whole numbers"),
        (("--max-cp", "0"), "argument --max-cp: 0 must be a whole number"),
        (("--micro-batch", "0"), "argument --micro-batch: '0' is not a list of whole numbers of at least 1"),
        (("--recompute", "most"), "'most' is not one of none, selective, some, full"),
        (("--sharding", "zero1,zero9"), "'zero9' is not one of none, zero1, zero2, fsdp, hsdp"),
        (("--count", "0"), "argument --count: 0 must be a whole number"),
        (("--nodes", str(2**50)), "devices = 9007199254740992 must be a whole number in [1, 1e+07]"),
        (("--global-batch", str(2**50)), "global_batch = 1125899906842624 must be a whole number in [1, 1e+09]"),
        (("--seq", str(2**50)), "seq = 1125899906842624 must be a whole number in [1, 1e+09]"),
        (("--nodes", str(2**63)), "argument --nodes"),
    ],
)
def test_a_refused_limit_says_what_is_allowed(run: Any, options: tuple[str, ...], message: str) -> None:
    said = run(PLAN, *options)
    assert message in said and len(said.splitlines()) == 1


def test_the_first_rank_gives_its_reason_and_its_range(run: Any) -> None:
    text = run(PLAN, "--explain")
    assert "First: " in text and ("equally fast" in text or "faster than the next" in text)
    assert "The first should take " in text and "Plans share part of their error, which cancels" in text
    assert "Recommended: " in text and "nearest published recipe" in text
    assert "Efficiencies: calibrated" in text
    bound = run(PLAN, "--efficiencies", "bound", "--explain")
    assert "whose errors are unknown" in bound and "Efficiencies: bound" in bound
    out = run(PLAN, "--json")
    low, high = out["interval_s"]
    assert low < out["best"][0]["time_s"] < high and out["alike"] > 1 and out["why_first"] in text
    assert run(PLAN, "--efficiencies", "datasheet", "--json")["interval_s"] is None


def test_text_says_what_was_tried_and_why_the_others_lose(run: Any) -> None:
    text = run(PLAN, "--count", "3")
    assert text.startswith("Llama-3.1-8B on 2 x DGX-H100: ")
    assert "Loses by" in text and "the others lose by: " in text


def test_errors_are_one_sentence(run: Any) -> None:
    assert run(PLAN.replace("8B", "405B")).startswith("DOES NOT FIT: Llama-3.1-405B on 2 x DGX-H100: none of ")
    assert "--count" in run(PLAN, "--count", "0")
    assert "no plan splits" in run(PLAN.replace("--global-batch 32", "--global-batch 1"), "--micro-batch", "2")


def test_every_key_is_documented(run: Any) -> None:
    with_help = subprocess.run([sys.executable, "-m", "mlsysim.cli", "plan", "--help"], capture_output=True, text=True)
    out = run(PLAN, "--json")
    for key in (*out, *out["best"][0]):
        assert key in with_help.stdout, key
