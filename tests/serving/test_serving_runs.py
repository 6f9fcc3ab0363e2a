"""The measured serving runs that ship: against the source's own means, and read strictly."""

import pytest

from mlsysim.evidence import serving_run, serving_runs
from mlsysim.evidence.measured.serving_runs import METRICS


@pytest.mark.independent
def test_runs_are_whole_and_say_what_is_wrong_with_them() -> None:
    runs = serving_runs()
    assert len(runs) == 19 and not set(runs) & set(serving_runs("second"))
    assert sum(len(r.requests) for r in runs.values()) == 317
    assert {r.quality for r in runs.values()} == {"A", "B"}
    for run in runs.values():
        assert (run.quality == "A") == bool(run.requests) and run.printed
        assert run.defects
        assert [r.arrival_s for r in run.requests] == sorted(r.arrival_s for r in run.requests)
        for r in run.requests:  # a token cannot come before the queue and the prefill are over
            assert (r.queue_s or 0.0) + (r.prefill_s or 0.0) <= r.ttft_s <= r.e2e_s
            assert (r.itl_s is None) == (r.output_len == 1)
            if r.client_ttft_s is not None and r.client_e2e_s is not None:
                assert r.client_ttft_s > r.ttft_s
                assert r.client_e2e_s > r.e2e_s


@pytest.mark.published
def test_means_are_those_of_the_source() -> None:
    for run in serving_runs().values():
        for metric in METRICS:
            # the client ends its own e2e_per_token with the last token, some 0.02 ms before the request is over
            rel = 1e-3 if metric == "e2e_per_token" and run.clock == "client" else 2e-5
            assert run.mean(metric) == pytest.approx(run.printed[f"{metric}_s"], rel=rel)
            if run.requests and metric != "e2e_per_token":
                assert run.median(metric) == pytest.approx(run.printed[f"median_{metric}_s"], rel=2e-5)
        assert run.input_len == pytest.approx(run.printed["input_len"], abs=0.006)


@pytest.mark.published
def test_the_first_request_of_a_cold_server_stands_out() -> None:
    """vLLM's own record, eval/ground_truth/jan21-llama7b-train-1/traces.json: 272.02 ms for a prompt of 1,527."""
    first, *others = serving_run("llama-2-7b-train-0").requests
    assert first.prefill_s == pytest.approx(0.27202305, abs=1e-6)
    assert first.prefill_s > 2 * max(r.prefill_s for r in others)


@pytest.mark.independent
def test_a_run_that_is_none_is_refused() -> None:
    with pytest.raises(KeyError, match=r"did you mean .llama-2-7b-train-"):
        serving_run("llama-2-7b-train-9")
