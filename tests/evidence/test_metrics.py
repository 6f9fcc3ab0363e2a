"""What a score is worth, and how a printed figure becomes a number: the equations of chapter 12 and the conversions, by hand."""

import random
from typing import Any

import pytest

from mlsysim import evidence
from mlsysim.course import check, inputs
from mlsysim.course.exercises import EXERCISES
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.reality import measured, simple

# Equations of the chapter


@pytest.mark.independent
def test_errors_and_factors_by_hand() -> None:
    assert evidence.signed_error(8.0, 10.0) == pytest.approx(-0.2)
    assert evidence.signed_error(10.0, 8.0) == pytest.approx(0.25), "the base is the measurement"
    assert evidence.error_factor(5.0, 10.0) == evidence.error_factor(10.0, 5.0) == 2.0
    assert evidence.error_factor(3.0, 3.0) == 1.0


@pytest.mark.independent
def test_what_correlated_rows_are_worth() -> None:
    assert evidence.effective_rows(120.0, 8.0, 0.0) == 120.0, "independent rows count in full"
    assert evidence.effective_rows(120.0, 8.0, 1.0) == 15.0, "equal rows count once per group"
    assert evidence.effective_rows(120.0, 1.0, 1.0) == 120.0
    assert evidence.effective_rows(120.0, 8.0, 0.5) == pytest.approx(120 / 4.5)
    assert evidence.effective_rows(10.0, 10.0, 1.0) == 1.0, "one group of equal rows is one row, and never less"
    with pytest.raises(InputError, match="it needs per_group <= rows"):
        evidence.effective_rows(10.0, 100.0, 0.5)


@pytest.mark.independent
def test_optimism_is_what_a_simulated_fit_shows() -> None:
    """The mean of n noisy numbers is a fit of one constant: its errors in and out of sample differ by 2 s^2 / n."""
    rng, n, sigma, gaps = random.Random(12), 5, 2.0, []
    for _ in range(20_000):
        seen, new = ([rng.gauss(0.0, sigma) for _ in range(n)] for _ in range(2))
        fitted = sum(seen) / n
        gaps.append(sum((y - fitted) ** 2 for y in new) / n - sum((y - fitted) ** 2 for y in seen) / n)
    assert evidence.optimism(1.0, sigma**2, n) == pytest.approx(2 * 4 / 5)
    assert sum(gaps) / len(gaps) == pytest.approx(evidence.optimism(1.0, sigma**2, n), rel=0.05)
    assert evidence.optimism(3.0, 0.01, 60.0) == pytest.approx(3 * evidence.optimism(1.0, 0.01, 60.0))


@pytest.mark.independent
def test_skill_limits() -> None:
    assert evidence.skill(0.0, 0.3) == 1.0
    assert evidence.skill(0.3, 0.3) == 0.0
    assert evidence.skill(0.6, 0.3) == -1.0
    assert evidence.skill(0.1, 0.4) == pytest.approx(0.75)


# Conversions, by hand

STEP = {"global_batch": 256.0, "seq": 4096.0, "n_devices": 64.0}
BATCH = {"batch": 16.0, "input_len": 1000.0, "output_len": 50.0, "n_devices": 4.0}


@pytest.mark.independent
@pytest.mark.parametrize(
    ("metric", "printed", "inputs", "seconds"),
    [
        ("tokens/s", 2.0**20, STEP, 1.0),
        ("tokens/s/device", 2.0**14, STEP, 1.0),
        ("samples/s", 128.0, STEP, 2.0),
        ("days for 600,000 steps", 4.0, STEP, 0.576),
        ("output tokens/s", 400.0, BATCH, 2.0),
        ("output tokens/s/device", 100.0, BATCH, 2.0),
        ("prompt tokens/s/device", 1000.0, BATCH, 4.0),
        ("decode tokens/s", 320.0, BATCH, 0.05),
        ("decode tokens/s/device", 80.0, BATCH, 0.05),
        ("s for 64 steps", 1.82, BATCH, 0.0284375),
        ("ms", 79.67, BATCH, 0.07967),
        ("TFLOP/s", 500.0, {"groups": 2.0, "m": 5000.0, "n": 5000.0, "k": 5000.0}, 1e-3),
        ("GB/s bus", 350.0, {"op": "all_reduce", "n_ranks": 8.0, "bytes": 2e9}, 0.01),
        ("GB/s bus", 350.0, {"op": "all_gather", "n_ranks": 8.0, "bytes": 4e9}, 0.01),
        ("GiB", 1.0, {}, 1073741824.0),
        ("g/kWh", 360.0, {}, 1e-7),
        ("% of throughput lost", 20.0, {}, 1.25),
    ],
)
def test_conversions_by_hand(metric: str, printed: float, inputs: dict[str, Any], seconds: float) -> None:
    assert measured(metric, printed, inputs) == pytest.approx(seconds, rel=1e-12)


def test_an_unknown_metric_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'tokens/s'"):
        measured("token/s", 1.0, STEP)


# Estimates without structure


@pytest.mark.independent
@pytest.mark.parametrize(
    ("name", "inputs", "seconds"),
    [
        # 6 x 1e9 x 1e6 tokens over 8 x 1e15
        ("training_step", {"active_params": 1e9, "global_batch": 1000.0, "seq": 1000.0, "peak_flops": 1e15, "n_devices": 8.0}, 0.75),
        # 1e9 weights of 2 bytes over 2e12
        (
            "inference",
            {
                "phase": "decode_step",
                "active_params": 1e9,
                "batch": 1.0,
                "n_devices": 1.0,
                "kv_heads": 1.0,
                "head_dim": 1.0,
                "layers": 1.0,
                "peak_flops": 1e15,
                "hbm_bandwidth": 2e12,
            },
            1e-3,
        ),
        (
            "gemm",
            {
                "groups": 2.0,
                "m": 4000.0,
                "n": 4000.0,
                "k": 4000.0,
                "precision": "bf16",
                "peak_flops": 1e15,
                "hbm_bandwidth": 1e13,
            },
            2 * 2 * 4000**3 / 1e15,
        ),
        ("collective", {"op": "all_reduce", "n_ranks": 8.0, "bytes": 8e9, "intra_node_bandwidth": 1e11}, 0.14),
        (
            "collective",
            {
                "op": "moe_dispatch",
                "n_ranks": 16.0,
                "ranks_per_node": 8.0,
                "bytes": 5e6,
                "intra_node_bandwidth": 1e11,
                "inter_node_bandwidth": 5e10,
            },
            1e-4,
        ),
    ],
)  # fmt: skip
def test_rooflines_by_hand(name: str, inputs: dict[str, Any], seconds: float) -> None:
    assert simple.roofline(name, inputs) == pytest.approx(seconds, rel=1e-12)


# The exercises of the chapter, by hand


@pytest.mark.independent
@pytest.mark.parametrize(
    ("id", "by_hand"),
    [
        # 8 x 18.4e9 x 3,145,728 over 256 x 138e12 is 13.107 s; the demo predicts 10.5 s
        ("12.1", 10.5 / (8 * 18.4e9 * 3145728 / (256 * 138e12)) - 1),
        ("12.2", (0.10 + 0.05 + 0.30) / 3),
        ("12.3", 5.0 / 2.0),
        ("12.4", 120 / (1 + 7 * 0.5)),
        ("12.5", (0.09**2 + 2 * 14 * 0.1**2 / 40) ** 0.5),
        ("12.6", 1 - 0.10 / 0.30),
    ],
)
def test_demo_answers_by_hand(id: str, by_hand: float) -> None:
    assert check(id, by_hand).correct
    assert EXERCISES[id].solve(inputs(id)) == pytest.approx(by_hand, rel=1e-12)
