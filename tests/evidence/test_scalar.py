"""Class scalar of ``mlsysim validate``: each quantity by hand, what is fitted, and rows that are not what they should be."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import inference
from mlsysim.errors import InputError
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence import scoring
from mlsysim.evidence.cases import CaseFile, read_cases
from mlsysim.evidence.predictors import scalar, shipped_constants
from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring import predict, summarise
from mlsysim.evidence.scoring.scores import refuted


def value(quantity: str, constants: Any = None, **inputs: Any) -> float:
    row = {"quantity": quantity, "basis": "closed_form", "inputs": inputs}
    p = predict("scalar", row, {} if constants is None else constants)
    assert p.predicted is not None, p.reason
    return p.predicted


def reason(quantity: str, **inputs: Any) -> str:
    p = predict("scalar", {"quantity": quantity, "basis": "", "inputs": inputs}, {})
    assert p.predicted is None
    return p.reason


# By hand: the inputs and the arithmetic of the published statement, typed.

GPT3 = {"params": 174.6e9, "tokens": 300e9, "n_devices": 1024, "achieved_flops_per_device": 140e12}
BY_HAND: list[tuple[str, dict[str, Any], float]] = [
    ("training_time", GPT3 | {"flops_per_param_token": 8}, 8 * 174.6e9 * 300e9 / (1024 * 140e12)),
    ("training_time_from_flops", {"total_flops": 4.3e23, "n_devices": 1024, "achieved_flops_per_device": 147e12}, 4.3e23 / (1024 * 147e12)),
    ("training_time_from_throughput", {"tokens": 300e9, "tokens_per_s": 2e6}, 150e3),
    ("training_flops", {"params": 70e9, "tokens": 1, "flops_per_param_token": 6}, 420e9),
    (
        "mfu",
        {"params": 530e9, "layers": 105, "heads": 128, "head_dim": 160, "seq": 2048, "tokens_per_s": 65430}
        | {"n_devices": 2240, "peak_flops": 312e12},
        (6 * 530e9 + 12 * 105 * 128 * 160 * 2048) * 65430 / (2240 * 312e12),
    ),
    (
        "mfu",
        {"layers": 48, "hidden": 6144, "heads": 64, "vocab": 51200, "seq": 2048, "global_batch": 4}
        | {"n_devices": 8, "peak_flops": 312e12, "step_time_s": 1.1, "recompute": "selective"},
        72 * 4 * 48 * 2048 * 6144**2 * (1 + 2048 / (6 * 6144) + 51200 / (12 * 6144 * 48)) / (1.1 * 8 * 312e12),
    ),
    (
        "hfu",
        {"layers": 48, "hidden": 6144, "heads": 64, "vocab": 51200, "seq": 2048, "global_batch": 4}
        | {"n_devices": 8, "peak_flops": 312e12, "step_time_s": 1.1, "recompute": "selective"},
        72 * 4 * 48 * 2048 * 6144**2 * (1 + 2048 / (3 * 6144) + 51200 / (12 * 6144 * 48)) / (1.1 * 8 * 312e12),
    ),
    (
        "hfu",
        {"layers": 48, "hidden": 6144, "heads": 64, "vocab": 51200, "seq": 2048, "global_batch": 4}
        | {"n_devices": 8, "peak_flops": 312e12, "step_time_s": 1.4, "recompute": "full"},
        96 * 4 * 48 * 2048 * 6144**2 * (1 + 2048 / (6 * 6144) + 51200 / (16 * 6144 * 48)) / (1.4 * 8 * 312e12),
    ),
    (
        "inference_mfu",
        {"params": 540e9, "tokens": 2048, "n_devices": 64, "peak_flops": 275e12, "time_s": 0.29},
        2 * 540e9 * 2048 / (0.29 * 64 * 275e12),
    ),
    (
        "mfu_from_device_time",
        {"active_params": 37e9, "tokens": 14.8e12, "device_seconds": 1e10, "peak_flops": 1.5e15},
        6 * 37e9 * 14.8e12 / (1e10 * 1.5e15),
    ),
    ("energy", {"n_devices": 512, "duration_s": 1.728e6, "power_w_per_device": 310, "pue": 1.12}, 3.07187e11),
    ("energy", {"device_seconds": 3.6e9, "power_w_per_device": 400, "pue": 1.1}, 1.584e12),
    ("emissions", {"device_seconds": 3.6e9, "power_w_per_device": 400, "pue": 1.0, "carbon_intensity_kg_per_j": 1e-7}, 1.44e5),
    ("emissions", {"energy_j": 1.56e12, "carbon_intensity_kg_per_j": 57e-3 / 3.6e6}, 24.7e3),
    ("emissions_sum", {"a_kg": 420e3, "b_kg": 2040e3, "c_kg": 8930e3}, 11390e3),
    ("emissions_sum", {"parts_kg": [420e3, 2040e3, 8930e3]}, 11390e3),
    ("cost", {"duration_s": 5143.0, "price_usd_per_s": 14 / 3600}, 20.0),
    ("cost", {"device_seconds": 2.664e6 * 3600, "price_usd_per_device_s": 2 / 3600}, 5.328e6),
    ("cost_per_token", {"n_devices": 8, "price_usd_per_device_s": 2 / 3600, "tokens_per_s": 14800}, 3.003e-7),
    ("token_revenue", {"tokens": [1e9, 2e9], "price_usd_per_token": [1e-7, 5e-7]}, 1100.0),
    ("token_revenue", {"input_tokens": 1e9, "output_tokens": 2e9, "price_usd_per_input_token": 1e-7} | {"price_usd_per_output_token": 5e-7}, 1100.0),
    ("profit_ratio", {"revenue_usd": 562027, "cost_usd": 87072}, 5.4547),
    ("mtbf", {"duration_s": 54 * 86400, "failures": 466}, 10012.0),
    ("mttf", {"n_devices": 16384, "devices_per_node": 8, "node_failure_rate_per_s": 6.5e-3 / 86400}, 6490.4),
    ("device_failure_rate", {"failures": 419, "n_devices": 16384, "duration_s": 54 * 86400}, 419 / 16384 / 54 / 86400),
    ("checkpoint_overhead_fraction", {"interval_s": 10800, "save_time_s": 40}, 40 / 10800),
    ("ridge_point", {"peak_flops": 1979e12, "hbm_bandwidth": 3.35e12}, 590.7),
    ("critical_batch", {"peak_flops": 197e12, "hbm_bandwidth": 820e9, "weight_bytes": 1}, 120.1),
    ("weight_load_time", {"bytes": 400e9, "n_devices": 32, "hbm_bandwidth": 1.23e12}, 0.010163),
    ("memory_bound_time", {"bytes": 112e9, "n_devices": 8, "hbm_bandwidth": 810e9}, 0.017284),
    (
        "param_count",
        {"layers": 80, "hidden": 8192, "ffn": 28672, "vocab": 128256, "kv_ratio": 0.125, "gated_mlp": True}
        | {"tied_embeddings": False},
        80 * (2.25 * 8192**2 + 3 * 8192 * 28672) + 2 * 128256 * 8192,
    ),
    ("kv_cache_per_token", {"layers": 80, "kv_dim": 1024, "dtype_bytes": 1}, 163840),
    ("model_state_bytes", {"params": 13.1e9, "bytes_per_param": 10}, 131e9),
    ("activation_checkpoint_bytes", {"layers": 64, "checkpoint_width": 4096, "tokens": 1000, "dtype_bytes": 2}, 64 * 4096 * 1000 * 2),
    (
        "training_memory_total",
        {"params": 13e9, "state_bytes": 10, "layers": 40, "hidden": 5120, "tokens": 1e6}
        | {"checkpoints_per_layer": 3, "dtype_bytes": 2},
        130e9 + 40 * 5120 * 1e6 * 3 * 2,
    ),
    (
        "serving_memory",
        {"params": 70e9, "weight_bytes": 1, "batch": 32, "tokens": 8192, "layers": 80, "kv_dim": 1024}
        | {"dtype_bytes": 1},
        70e9 + 2 * 80 * 1024 * 32 * 8192,
    ),
    ("min_devices", {"bytes": 163e9, "hbm_bytes": 80e9}, 3),
    ("decode_throughput_per_device", {"batch": 32, "step_time_s": 0.02, "n_devices": 8}, 200.0),
    ("prefill_time", {"params": 70e9, "tokens": 8192, "n_devices": 16, "achieved_flops_per_device": 78.8e12}, 2 * 70e9 * 8192 / (16 * 78.8e12)),
    ("pipeline_bubble_fraction", {"pp": 8, "microbatches": 32, "virtual_stages": 1}, 7 / 39),
    ("pipeline_bubble_overhead", {"pp": 8, "microbatches": 32, "virtual_stages": 2}, 7 / 64),
    (
        "max_context_length",
        {"layers": 118, "kv_heads": 1, "head_dim": 256, "dtype_bytes": 2, "batch": 128, "n_devices": 64}
        | {"hbm_bytes": 2**35, "kv_reserve_fraction": 0.3},
        64 * 2**35 * 0.3 / (2 * 118 * 256 * 2 * 128),
    ),
    ("weight_memory_fraction", {"params": 13e9, "dtype_bytes": 2, "hbm_bytes": 40e9}, 0.65),
]  # fmt: skip


@pytest.mark.independent
@pytest.mark.parametrize(
    ("quantity", "inputs", "expected"), BY_HAND, ids=[f"{q}-{i}" for i, (q, *_) in enumerate(BY_HAND)]
)
def test_each_quantity_by_hand(quantity: str, inputs: dict[str, Any], expected: float) -> None:
    assert value(quantity, **inputs) == pytest.approx(expected, rel=5e-4)


def test_every_quantity_of_the_schema_is_modelled_and_tested() -> None:
    by_hand = {quantity for quantity, *_ in BY_HAND}
    rules = {"tp_slowdown", "bottleneck"}  # of the reality checks, tested there
    assert set(scalar.QUANTITIES) == by_hand | set(EMPIRICAL) | rules


# What inputs do not determine: bounds and directions

A100: dict[str, Any] = {"device": "A100-SXM4-80GB"}
EMPIRICAL: dict[str, dict[str, Any]] = {
    "achieved_hbm_bandwidth": A100 | {"hbm_bandwidth": 2.039e12},
    "host_to_device_bandwidth": A100 | {"link_bandwidth_one_way": 31.5e9},
    "device_to_device_bandwidth": A100 | {"nvlink_bandwidth_bidirectional": 600e9},
    "training_device_time": A100 | {"peak_flops": 312e12, "params": 7e9, "active_params": 7e9, "tokens": 1e12},
    "metered_training_energy": A100 | {"peak_flops": 312e12, "params": 7e9, "tokens": 1e12, "tdp_w": 400},
    "device_power_fraction": A100 | {"model": "Llama-2-70B", "tp": 4, "batch": 1, "input_len": 512, "output_len": 128},
    "node_power_max": A100 | {"n_devices": 8, "tdp_w": 400, "nameplate_w": 6500},
    "node_power_fraction": A100 | {"n_devices": 8, "tdp_w": 400, "nameplate_w": 6500},
    "system_power": A100 | {"n_devices": 8, "tdp_w": 400, "power_cap": "MaxQ"},
    "grid_carbon_intensity": {"country": "FRA", "year": 2023},
}


@pytest.mark.independent
@pytest.mark.parametrize("constants", [{}, shipped_constants("scalar")], ids=["datasheet", "calibrated"])
def test_what_devices_reach_stays_below_what_they_promise(constants: Any) -> None:
    def of(quantity: str, **more: Any) -> float:
        return value(quantity, constants, **EMPIRICAL[quantity] | more)

    assert 0.5 * 2.039e12 < of("achieved_hbm_bandwidth") < 2.039e12
    assert of("achieved_hbm_bandwidth", hbm_bandwidth=1e12) == pytest.approx(of("achieved_hbm_bandwidth") / 2.039)
    assert 0.5 * 31.5e9 < of("host_to_device_bandwidth") < 31.5e9
    assert 0.5 * 600e9 < of("device_to_device_bandwidth") < 600e9
    ideal = 6 * 7e9 * 1e12 / 312e12
    assert of("training_device_time") > ideal
    assert of("training_device_time", tokens=2e12) == pytest.approx(2 * of("training_device_time"))
    assert of("training_device_time", params=70e9, active_params=70e9) <= 10 * of("training_device_time")
    # in 8 bits the peak doubles and the run does not
    narrow = of("training_device_time", peak_flops=624e12, precision="fp8")
    assert of("training_device_time") / 2 < narrow < of("training_device_time")
    assert 0 < of("metered_training_energy") < 400 * of("training_device_time")
    assert value("host_to_device_bandwidth", constants, pcie_gen=5) == pytest.approx(63e9 * 12 / 15.75, rel=0.01)
    assert value("system_power", constants, device="L40S", n_devices=4, tdp_w=350) > 4 * 350
    shares = [of("device_power_fraction", tp=tp) for tp in (2, 4, 8)]
    assert 1 > shares[0] > shares[1] > shares[2] > 0.155
    assert 3200 < of("node_power_max") < 6500
    assert of("node_power_fraction") == pytest.approx(of("node_power_max") / 6500)
    assert 0 < of("system_power") < of("system_power", power_cap="none")
    assert of("system_power", power_cap=400) == pytest.approx(of("system_power", power_cap="none"))
    assert of("grid_carbon_intensity") * 3.6e9 == pytest.approx(56.0, abs=1.0)


def test_a_year_that_the_catalogue_has_not_is_said() -> None:
    p = predict("scalar", {"quantity": "grid_carbon_intensity", "inputs": {"country": "FRA", "year": 1999}}, {})
    assert p.predicted and any("year = 2023" in a for a in p.assumptions)
    assert "no grid 'Atlantis'" in reason("grid_carbon_intensity", country="Atlantis")
    assert value("grid_carbon_intensity", country="WORLD", year=2019) * 3.6e9 == pytest.approx(475, rel=1e-3)


def test_constants_are_few_and_of_classes() -> None:
    fitted = shipped_constants("scalar")
    assert {name: set(values) for name, values in fitted.items()} == {
        "memory": {"Ampere", "Blackwell", "Hopper"},
        "training run": {"Ampere", "Hopper", "size_exponent"},
    }
    assert all(0 < v < 1 for values in fitted.values() for v in values.values())


# Scores on the open cases


def _scores(file: CaseFile, report: scoring.Report, basis: str) -> scoring.Summary:
    chosen = [i for i, c in enumerate(file.cases) if c.inputs["basis"] == basis]
    return summarise([report.rows[i] for i in chosen], [file.cases[i].tolerance for i in chosen])


@pytest.mark.published
def test_shipped_rows_meet_the_targets() -> None:
    file = shipped_rows.cases("scalar", set="first")
    left_out = scoring.score(file, "calibrated", leave_one_group_out=True)
    assert left_out.summary.supported == left_out.summary.n
    for basis in ("closed_form", "reference"):
        assert _scores(file, left_out, basis).within_tolerance_mean_over_groups == 1.0
    assert _scores(file, left_out, "empirical").mape_mean_over_groups <= 0.15


# Rows that are not what they should be


def test_reasons_for_what_is_not_modelled() -> None:
    assert "quantity 'beauty' is not modelled" in reason("beauty", x=1)
    assert reason("mtbf", duration_s=1.0) == "the row gives no failures; fill it in"
    assert "failures = 0.0 is outside" in reason("mtbf", duration_s=1.0, failures=0)
    assert "is not a number" in reason("mtbf", duration_s="1 h", failures=1)
    assert "recompute 'some' is not one of" in reason(
        "mfu", layers=1, heads=1, seq=1, hidden=1, recompute="some", peak_flops=1
    )
    assert "no number of tokens belongs to" in reason("token_revenue", input_tokens=1.0, price_usd_per_cached_token=2.0)
    assert "do not pair up" in reason("token_revenue", input_tokens=1.0, output_tokens=1.0, price_per_input_token=1.0)
    assert "no parts" in reason("emissions_sum", note="nothing")
    assert "no model 'X'" in reason("device_power_fraction", **EMPIRICAL["device_power_fraction"] | {"model": "X"})
    assert "below the devices' design power" in reason("node_power_max", n_devices=8, tdp_w=700, nameplate_w=1000)


def _write(path: Path, inputs: str) -> Path:
    quoted = inputs.replace('"', '""')
    path.write_text(f'id,group,quantity,basis,inputs,value\n1,g,mtbf,closed_form,"{quoted}",1\n', encoding="utf-8")
    return path


def test_cells_may_hold_lists_of_numbers_within_bounds(tmp_path: Path) -> None:
    file = read_cases(_write(tmp_path / "a.csv", '{"tokens": [1, 2.5], "parts": {"a": 1}}'))
    assert file.cases[0].inputs["inputs"]["tokens"] == [1, 2.5]
    long = json.dumps({"a": list(range(2000))})
    for bad in ('{"a": [1, -1]}', '{"a": [[[1]]]}', '{"a": {"b": 1e40}}', long):
        with pytest.raises(InputError, match="'a' is not a finite number"):
            read_cases(_write(tmp_path / "b.csv", bad))


@given(
    case=st.sampled_from([*((q, i) for q, i, _ in BY_HAND), *EMPIRICAL.items()]),
    data=st.data(),
)
def test_strange_rows_give_a_prediction_or_a_reason(case: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    quantity, inputs = case[0], dict(case[1])
    for key in data.draw(st.lists(st.sampled_from(sorted(inputs)), min_size=1, max_size=3, unique=True)):
        inputs[key] = data.draw(st.sampled_from([None, "", "x", True, 0.0, 1e-9, 3.5, 1e29, 1e308, [], [1.0, 2.0], {}]))
    p = predict("scalar", {"quantity": quantity, "basis": "", "inputs": inputs}, shipped_constants("scalar"))
    assert (p.predicted is None) == bool(p.reason)
    assert p.predicted is None or math.isfinite(p.predicted)


@pytest.mark.published
@pytest.mark.parametrize(
    ("device", "tp", "batch", "measured"),
    [
        ("H100-SXM5-80GB", 1, 8, 0.769),
        ("B200-SXM-180GB", 1, 8, 0.860),
        ("B200-SXM-180GB", 1, 32, 0.849),
        ("H100-SXM5-80GB", 2, 32, 0.675),
    ],
)
def test_a_server_that_decodes_draws_what_was_metered(device: str, tp: int, batch: int, measured: float) -> None:
    """Qwen3-32B on vLLM, mean power over design power (ml-energy/leaderboard at 0cd52da); nothing is fitted to power.

    The model before this one, whose steps launch kernel by kernel, said 0.47 to 0.60 of these.
    """
    row = {"device": device, "tp": tp, "batch": batch, "model": "Qwen3-32B", "input_len": 250, "output_len": 637}
    assert value("device_power_fraction", {}, **row) == pytest.approx(measured, rel=0.25)


@pytest.mark.independent
def test_power_adds_the_shares_of_both_peaks() -> None:
    """By the solver's own passes here: what it multiplies and what it reads, over the time of both; at most the design power."""
    row = {
        "device": "H100-SXM5-80GB",
        "tp": 1,
        "batch": 16,
        "model": "Llama-3.1-8B",
        "input_len": 2048,
        "output_len": 64,
    }
    served = inference.deploy("Llama-3.1-8B", "H100-SXM5-80GB", domain=1)
    first, step = (
        inference.prefill(served, input_len=2048, batch=16),
        inference.decode_step(served, context=2080, batch=16),
    )
    weights = [first.time, 63 * step.time]
    busy = sum(w * (p.mfu + p.mbu) for w, p in zip(weights, (first, step), strict=True)) / sum(weights)
    found = value("device_power_fraction", {}, **row)
    assert found == pytest.approx(62 / 400 + (1 - 62 / 400) * min(1.0, busy))
    eager = value("device_power_fraction", {}, **row, server="vLLM-2023")
    assert 62 / 400 < eager < found <= 1.0


@pytest.mark.published
def test_chapter_12_says_how_far_off_the_power_of_decoding_is() -> None:
    """By source, of the rows that ship: the source that the refuted model was made with, and the third set's."""
    told = refuted()["power"]
    for source, now in (("SPLIT", told["own_now"]), ("MLENERGY", told["third_now"])):
        found = [
            c for c in cases("scalar").cases if c.group == source and c.inputs["quantity"] == "device_power_fraction"
        ]
        errors = [predict("scalar", c.inputs, {}).predicted / c.measured - 1 for c in found]  # type: ignore[operator]
        assert sum(map(abs, errors)) / len(errors) == pytest.approx(now, abs=0.02)
