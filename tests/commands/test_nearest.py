"""The nearest measurement beside an answer: how points are read, which is nearest, and what is said of it."""

import dataclasses
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

import mlsysim
from mlsysim import SLO, catalog, inference
from mlsysim.explore import frontier
from mlsysim.serving.measured import MeasuredPoint, measured_points, nearest_point, points_of_rows, points_of_runs

independent = pytest.mark.independent
JOB: Mapping[str, Any] = {
    "rate": 40.0,
    "input_len": 6000,
    "output_len": 700,
    "slo": SLO(ttft=1.5, itl=0.03, quantile=0.95),
}
ROW = {
    "model": "Llama-3.1-8B", "device": "H100-SXM5-80GB", "backend": "vllm", "backend_version": "0.9", "mode": "agg",
    "precision": "bf16", "gemm_quant": "bf16", "moe_quant": "", "input_len": "2000", "output_len": "101", "length_range": "",
    "concurrency": "20", "tp": "2", "attention_dp": "", "moe_tp": "2", "moe_ep": "1", "measured_tpot_s": "0.01",
    "measured_ttft_s": "1.0", "source": "MINE", "where": "here",
}  # fmt: skip
POINT = next(points_of_rows([ROW]))


def said(found: Any) -> str:
    return " ".join("\n".join(found.summary()).split())


@independent
def test_a_row_becomes_tokens_a_second_of_a_device_by_little_s_law() -> None:
    """20 in flight, 1 s and 100 steps of 10 ms: 10 requests/s, 1,010 tokens/s, over two devices."""
    assert POINT.device_rate == pytest.approx(505.0) and POINT.server == "vLLM 0.9"
    assert POINT.user_rate == pytest.approx(50.5)
    run = {"model": "gpt-oss-120B", "device": "MI355X", "server": "vLLM", "release": "1", "weights": "mxfp4", "input_len": 3000,
           "output_len": 1000, "counted": "server", "rows": [[2, 1, 8, 4000.0]], "source": "s", "where": "w"}  # fmt: skip
    (found,) = points_of_runs({"x": run})
    assert found.device_rate == pytest.approx(500.0) and found.itl is None  # a quarter of the tokens are answers
    assert not list(points_of_runs({"x": run | {"drafted": 3}})) and not list(
        points_of_runs({"x": run | {"degrees": {"a": 1}}})
    )
    drawn = next(points_of_rows([ROW | {"length_range": "0.8"}]))
    assert drawn.mean_lengths == pytest.approx((0.9 * 2000, 0.9 * 101))


@independent
@pytest.mark.parametrize(
    "other", [{"mode": "disagg"}, {"attention_dp": "4"}, {"moe_ep": "4"}, {"gemm_quant": "w4afp8"}]
)
def test_a_row_that_is_no_replica_cut_by_tensors_is_left_out(other: Mapping[str, str]) -> None:
    assert not list(points_of_rows([ROW | other]))


@independent
def test_what_is_said_of_a_point_is_a_cycle_of_its_server() -> None:
    """In one cycle every place takes in a prompt and gives an answer: the prompts one after the other, then the steps."""
    d = inference.deploy("Llama-3.1-8B", "H100", tp=2)
    prompts = 20 * float(inference.prefill(d, input_len=2000, batch=1).time)
    steps = 100 * float(inference.decode_step(d, context=2050.5, batch=20).time)
    assert POINT.predicted() == pytest.approx(20 * 101 / (prompts + steps) / 2)
    assert POINT.error == pytest.approx(POINT.predicted() / 505.0 - 1)


@independent
def test_nearest_is_by_model_then_device_then_format_then_lengths_and_load() -> None:
    def but(**other: Any) -> MeasuredPoint:
        return dataclasses.replace(POINT, **other)

    far = but(input_len=200.0)
    fp8, h200, a100 = but(weights="fp8"), but(device="H200-SXM-141GB"), but(device="A100-SXM4-80GB")
    other = but(model="Llama-3.1-70B")
    order = [POINT, far, fp8, h200, a100, other]
    asked = (catalog.model("Llama-3.1-8B"), catalog.device("H100"), "bf16", 2000, 101, 10)
    for i, expected in enumerate(order):
        found = nearest_point(*asked, points=reversed(order[i:]))
        assert found is not None and found.point == expected
        assert found.near == (i in (0, 2))  # the one of other lengths is not near, one of another format is
    assert nearest_point(*asked, points=[]) is None
    words = nearest_point(*asked, points=[other])
    assert (
        words is not None
        and "nearest measurement, not near: Llama-3.1-70B (not Llama-3.1-8B), on H100-SXM5-80GB, " in words.words()
    )
    assert "(here" not in words.words()  # of another model it repeats nothing of what was asked


@independent
def test_the_answer_for_gpt_oss_on_b200_names_what_was_measured_there() -> None:
    """J4: the book's own measurement of the same device lay outside the printed range, and no line named it."""
    s = mlsysim.serve("gpt-oss-120B", "B200", **JOB)
    assert s.nearest is not None and s.nearest.near
    assert "TensorRT-LLM" in said(s) and "8192 + 1024 tokens (here 6000 + 700)" in said(s)
    p = s.nearest.point
    assert f"{p.device_rate:,.0f}"[:3] in said(s) and s.to_dict()["nearest_measurement"]["error"] == pytest.approx(
        p.error
    )
    assert "no measurement near" not in said(s)


@independent
def test_no_measurement_near_is_said_in_the_first_line() -> None:
    """J6: the range of a device that nobody measured looked like any other."""
    s = mlsysim.serve("Llama-3.1-405B", "MI355X", rate=1, precision="fp8")
    head = said(s).partition(" replica")[0]
    assert "no measurement near" in head and "80% range of past errors, none on CDNA 4" in head
    played = mlsysim.simulate("Llama-3.1-8B", "L4", rate=0.2, requests=5, input_len=100, output_len=10)
    assert "no measurement near" in said(played).partition("metric")[0]


@independent
def test_a_front_prints_the_range_at_the_target_and_the_nearest_point() -> None:
    found = frontier("gpt-oss-120B", "B200", input_len=6000, output_len=700, itl=0.01, modes=["aggregated"])
    best = found.best
    assert best is not None and best != found.points[-1] and best.device_range is not None
    text = said(found)
    low, high = best.device_range
    assert f"at the target 80% range of past errors: {low:.4g} to {high:.4g} tokens/s a device" in text
    assert "nearest measurement: TensorRT-LLM" in text
    free = frontier("gpt-oss-120B", "B200", input_len=6000, output_len=700, modes=["aggregated"])
    assert "last point 80% range" in said(free)


def test_an_answer_reads_the_points_and_imports_nothing_of_the_evidence() -> None:
    code = (
        "import sys, mlsysim; str(mlsysim.serve('Llama-3.1-8B', 'H100', rate=1)); "
        "print([m for m in sys.modules if m.startswith('mlsysim.evidence')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert len(measured_points()) > 30


@pytest.mark.independent
def test_prompts_that_no_device_computes_so_fast_were_in_a_cache() -> None:
    """31 billion weights by 2 FLOP, 30 prompt tokens for each of 13,800 answered a second: 26 PFLOP/s, where 4 bits have 9."""
    point = MeasuredPoint("Qwen3-32B", "B200", "TensorRT-LLM", "nvfp4", 2, 15000, 500, 416, 13_800.0, None, "x", "y")
    ask = (catalog.model("Qwen3-32B"), catalog.device("B200"), "fp4", 15000, 500, 208)
    assert nearest_point(*ask, points=[point]) is None
    assert nearest_point(*ask, points=[dataclasses.replace(point, device_rate=1_000.0)]) is not None
