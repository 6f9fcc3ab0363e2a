"""``mlsysim validate``: case files are read strictly, predictions see inputs only, and scores are what they say."""

import csv
import io
import json
import math
import random
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from mlsysim import catalog, cli, evidence
from mlsysim.efficiencies import kernel_shares, lineage
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence import scoring
from mlsysim.evidence.cases import CLASSES, CaseFile, read_cases, reader
from mlsysim.evidence.predictors import PREDICTORS, shipped_constants
from mlsysim.evidence.predictors.attention import bound_call, older_kernels, predicted_call
from mlsysim.evidence.scoring import ScoredRow, predict, summarise

SMALL = Path(__file__).parents[1] / "data" / "gemm.small.csv"
CONSTANTS = ROOT / "mlsysim" / "evidence" / "predictors" / "constants"
HIDDEN = ("id", "group", "source_key", "source", "notes", "verified", "tolerance")


def first_rows(name: str) -> CaseFile:
    """The shipped rows of the first set that has any of the class."""
    return shipped_rows.cases(name, set="second" if name.startswith("serving_") else "first")


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


HEAD = "id,group,precision,peak_flops,hbm_bandwidth,m,n,k,measured_time_s,tolerance"
ROW = "a,g,bf16,1e15,3e12,4096,4096,4096,2e-4,0.2"


# The small file of a fresh clone


@pytest.mark.published
def test_the_small_file_holds_the_figures_we_ship() -> None:
    file = read_cases(SMALL)
    assert file.case_class.name == "gemm"
    shipped = {m.name: m for m in evidence.measurements().values() if m.kind == "gemm"}
    assert len(file.cases) > 20
    for case in file.cases:
        m = shipped[case.id]
        assert case.measured == pytest.approx(evidence.check(m).measured, rel=1e-6)
        assert {k: case.inputs[k] for k in ("m", "n", "k")} == dict(m.inputs)


@pytest.mark.published
def test_the_small_file_scores_close_to_the_target() -> None:
    """Vidur and Azure, each predicted with the constants that the other one gives; FP8 stands in Azure's rows only."""
    report = scoring.score(read_cases(SMALL), "calibrated", leave_one_group_out=True)
    assert report.summary.supported == report.summary.n
    assert report.summary.mape_mean_over_groups <= 0.18
    plain = scoring.score(read_cases(SMALL), "datasheet").summary
    assert plain.mape_mean_over_groups > report.summary.mape_mean_over_groups
    assert plain.bias_mean_over_groups is not None and plain.bias_mean_over_groups < 0, "losses are left out"


# Scores, on the shipped rows


@pytest.mark.published
@pytest.mark.parametrize(
    ("name", "target"),
    [("gemm", 0.15), pytest.param("collective", 0.18, marks=pytest.mark.slow), ("memory", 0.15)],
)
def test_leave_one_group_out_meets_the_target(name: str, target: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--set", "first", "--class", name, "--leave-one-group-out"]) == 0
    assert cli.main(["validate", "--set", "first", "--class", name, "--mode", "datasheet"]) == 0
    print(capsys.readouterr().out)
    summary = scoring.score(first_rows(name), "calibrated", leave_one_group_out=True).summary
    assert summary.supported >= 0.95 * summary.n
    assert summary.mape_mean_over_groups <= target


@pytest.mark.published
def test_measured_memory_meets_the_target_and_arithmetic_its_tolerance() -> None:
    file = first_rows("memory")
    report = scoring.score(file, "calibrated", leave_one_group_out=True)
    measured = ("training_peak", "inference_total", "checkpoint")
    kinds = [c.inputs["kind"] for c in file.cases]
    for row, case, kind in zip(report.rows, file.cases, kinds, strict=True):
        if kind not in measured:
            assert row.error is not None and case.tolerance is not None
            assert abs(row.error) <= case.tolerance, row
    for kind in measured:
        chosen = [i for i, k in enumerate(kinds) if k == kind]
        rows = [report.rows[i] for i in chosen]
        summary = summarise(rows, [file.cases[i].tolerance for i in chosen])
        assert summary.mape_mean_over_groups <= 0.15, (kind, summary)


@pytest.mark.published
@pytest.mark.parametrize(("name", "target"), [("gemm", 0.14), ("attention", 0.15)])
@pytest.mark.slow
def test_kernels_of_a_source_that_the_fit_has_not_seen(name: str, target: float) -> None:
    """All attention rows have one source, so theirs is the error of published figures with nothing fitted."""
    summary = scoring.score(
        shipped_rows.cases(name, set=("first", "second")), "calibrated", leave_one_group_out=True
    ).summary
    assert summary.supported == summary.n
    assert summary.mape_mean_over_groups <= target


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n.startswith("serving_t") else n for n in sorted(CLASSES)]
)
def test_every_class_has_rows_that_are_scored(name: str) -> None:
    file = shipped_rows.cases(name)
    assert file.case_class.name == name
    report = scoring.score(file)
    if name not in PREDICTORS:
        assert report.summary.supported == 0
        assert report.summary.mape_mean_over_groups == 1.0
        assert report.rows[0].reason == f"{name} is not modelled yet"


@pytest.mark.regression
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow) if n == "inference" or n.startswith("serving_") else n
        for n in sorted(PREDICTORS)
    ],
)
def test_shipped_constants_are_what_the_script_fits(name: str) -> None:
    fitted = scoring.fit(name, shipped_rows.cases(name).cases)
    assert fitted == shipped_constants(name)


def test_there_are_few_constants_and_all_are_physical() -> None:
    fitted = {
        (name, entry, key): value
        for name in ("gemm", "attention", "collective", "memory")  # training steps have a test of their own
        for entry, values in shipped_constants(name).items()
        for key, value in values.items()
        if key != "rows"
    }
    allowed = {"gemm": 8, "attention": 8, "collective": 8, "memory": 3}
    for name, most in allowed.items():
        assert sum(key[0] == name for key in fitted) <= most, name
    assert sum(key[0] in ("gemm", "attention") for key in fitted) <= 8  # kernels together
    for key, value in fitted.items():
        largest = 1e-4 if key[2].endswith("_s") else 4e9 if key[0] == "memory" else 1.0  # s, byte, 1
        assert 0 <= value <= largest, key


# A prediction depends on the inputs and on nothing else


@pytest.mark.independent
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n.startswith("serving_") else n for n in sorted(PREDICTORS)]
)
def test_hidden_columns_cannot_change_a_prediction(name: str) -> None:
    file = first_rows(name)
    before = scoring.score(file)
    rng = random.Random(1)
    hidden = [{f.name: getattr(c, f.name) for f in fields(c) if f.name != "inputs"} for c in file.cases]
    for column in hidden[0]:
        values = [h[column] for h in hidden]
        rng.shuffle(values)
        for h, value in zip(hidden, values, strict=True):
            h[column] = value
    after = scoring.score(replace(file, cases=tuple(replace(c, **h) for c, h in zip(file.cases, hidden, strict=True))))
    assert [r.predicted for r in after.rows] == [r.predicted for r in before.rows]
    assert [r.assumptions for r in after.rows] == [r.assumptions for r in before.rows]


def test_no_hidden_column_reaches_a_predictor() -> None:
    for case in read_cases(SMALL).cases:
        assert not {*HIDDEN, "measured_time_s"} & set(case.inputs)


# Devices: the row wins, the catalogue fills, the rest is refused

GEMM = {"device": "H100", "precision": "bf16", "m": 4096.0, "n": 4096.0, "k": 4096.0}


def seconds(class_name: str, inputs: Mapping[str, Any], constants: Any = None) -> float:
    p = predict(class_name, inputs, shipped_constants(class_name) if constants is None else constants)
    assert p.predicted is not None, p.reason
    return p.predicted


def test_the_rows_own_figures_win_and_the_catalogue_fills_empty_cells() -> None:
    filled = predict("gemm", GEMM, {})
    assert any("peak_flops" in a and "H100-SXM5-80GB" in a for a in filled.assumptions)
    assert any("hbm_bandwidth" in a for a in filled.assumptions)
    own = predict("gemm", GEMM | {"peak_flops": 2 * 989.5e12, "hbm_bandwidth": 3.35e12}, {})
    assert not any("peak_flops" in a for a in own.assumptions)
    assert own.predicted is not None and filled.predicted is not None and own.predicted < filled.predicted


def test_an_unknown_device_is_predicted_from_its_own_figures_or_not_at_all() -> None:
    unknown = GEMM | {"device": "Chip-9000"}
    p = predict("gemm", unknown, {})
    assert p.predicted is None and "no device 'Chip-9000'" in p.reason
    given = unknown | {"peak_flops": 1e15, "hbm_bandwidth": 3e12}
    found = predict("gemm", given, shipped_constants("gemm"))
    assert found.predicted is not None and found.predicted > seconds("gemm", given, {}), "nobody has an efficiency of 1"
    assert any("constants of all devices" in text for text in found.assumptions)


def test_a_device_without_rows_takes_the_constants_of_its_kin_and_says_so() -> None:
    for name in ("L40S", "TPU-v5e", "H20"):
        row = GEMM | {"device": name, "m": 32768.0, "n": 16384.0, "k": 8192.0}
        found = predict("gemm", row, shipped_constants("gemm"))
        assert found.predicted is not None
        assert 1.05 < found.predicted / seconds("gemm", row, {}) < 1.4, "nobody reaches the peak"
        said = any("constants of all devices" in text for text in found.assumptions)
        assert said == (name != "H20"), "an H20 is of a generation that rows ran on"


def test_a_card_that_the_catalogue_lacks_has_the_bandwidth_and_multiprocessors_of_its_generation() -> None:
    row = {**GEMM, "device": "A800", "peak_flops": 312e12}
    found = predict("gemm", row, shipped_constants("gemm"))
    own = GEMM | {"device": "A100-SXM4-80GB"}
    assert found.predicted == pytest.approx(seconds("gemm", own), rel=1e-9)
    assert any("of A100-SXM4-80GB, a relative" in text for text in found.assumptions)


@pytest.mark.independent
def test_a_cut_part_loses_the_same_time_per_unit_of_work_on_a_multiprocessor() -> None:
    """1/rate beyond the peak, per multiprocessor, by hand: 132 of 989.5 TFLOP/s against 78 of 148."""
    share = shipped_constants("gemm")["16-bit, any"]["compute_efficiency"]
    lost = (1 / share - 1) / (989.5e12 / 132)
    big = {"m": 78 * 128.0 * 8, "n": 128.0 * 64, "k": 65536.0}
    work = 2 * math.prod(big.values())
    expected = work / 148e12 + lost * work / 78
    assert seconds("gemm", GEMM | big | {"device": "H20"}) == pytest.approx(expected, rel=0.005)


def test_waves_count_beyond_small_products() -> None:
    """20 tiles or 80 on the 304 compute units of an MI300X, whose kernels cut nothing, take one wave; 10,000 tiles fill them evenly.
    An H100's kernels cut 8 or 16 of its 132."""

    def of(m: float, device: str = "MI300X") -> float:
        row = {"device": device, "precision": "fp8", "out_precision": "bf16", "m": m, "n": 1280.0, "k": 8192.0}
        return seconds("gemm", row)

    assert of(1024.0) < 1.1 * of(512.0) and of(512.0) > 2.0 * of(256.0)
    assert of(131072.0) / of(65536.0) == pytest.approx(2.0, rel=0.05)
    assert of(300.0, "H100") < 0.7 * of(1600.0, "H100")


@pytest.mark.published
def test_the_makers_own_figure_serves_a_device_nobody_else_measured() -> None:
    best = evidence.measurement("amd-mi300x-gemm-bf16")
    p = seconds("gemm", {"device": "MI300X", "precision": "bf16", **{k: float(v) for k, v in best.inputs.items()}}, {})
    work = 2.0 * math.prod(best.inputs.values())
    assert work / p == pytest.approx(best.value, rel=0.02)


# Bounds and limits

EDGE = st.integers(1, 20_000)


@pytest.mark.independent
@given(m=EDGE, n=EDGE, k=EDGE, device=st.sampled_from(["H100", "A100-SXM4-80GB", "MI300X", "B200-SXM-180GB", "H20"]))
def test_a_product_is_never_faster_than_its_device(m: int, n: int, k: int, device: str) -> None:
    row = GEMM | {"device": device, "m": float(m), "n": float(n), "k": float(k)}
    bound = seconds("gemm", row, {})
    d = catalog.device(device)
    ideal = max(2.0 * m * n * k / d.peak_flops["bf16"], 2.0 * (m * k + k * n + m * n) / d.memory_bandwidth)
    assert seconds("gemm", row) >= bound >= ideal * (1 - 1e-12)
    assert seconds("gemm", row | {"k": k + 1.0}) >= seconds("gemm", row)
    assert seconds("gemm", row | {"groups": 3.0}) > seconds("gemm", row)


ATTENTION = {
    "device": "H20",
    "phase": "decode",
    "kind": "gqa",
    "batch": 8.0,
    "q_heads": 32.0,
    "kv_heads": 8.0,
    "head_dim": 128.0,
    "q_len": 1.0,
    "kv_len": 4096.0,
    "precision": "bf16",
}
LATENT = ATTENTION | {"kind": "mla_absorbed", "q_heads": 128.0, "kv_lora_rank": 512.0, "rope_dim": 64.0}


@pytest.mark.independent
@pytest.mark.parametrize("row", [ATTENTION, LATENT])
@pytest.mark.parametrize("device", ["H20", "H800-SXM", "H100", "A100-SXM4-80GB", "B200-SXM-180GB"])
def test_attention_is_monotone_and_bounded(row: dict[str, Any], device: str) -> None:
    row = row | {"device": device}
    times = [seconds("attention", row | {"kv_len": float(2**i)}) for i in range(17)]
    assert times == sorted(times)
    batches = [seconds("attention", row | {"batch": float(2**i)}) for i in range(10)]
    assert batches == sorted(batches)
    # Far beyond the rows of the fit, no faster than memory and arithmetic allow, nor slower than twice the bound.
    far = row | {"kv_len": 1e6, "batch": 512.0}
    start = seconds("attention", far | {"device": "Chip", "peak_flops": 1e30, "hbm_bandwidth": 1e30}, {})
    kernels = 3 if row["kind"] == "mla_absorbed" else 2
    assert start == pytest.approx(kernels * kernel_shares(("any",)).values["start"]), "each kernel starts"
    ideal = float(bound_call(far).time)
    assert ideal * (1 - 1e-12) <= seconds("attention", far) <= 2 * ideal


@pytest.mark.independent
def test_attention_limits() -> None:
    prefill = ATTENTION | {"phase": "prefill", "q_len": 4096.0}
    full, half = (predicted_call(prefill | {"causal": causal}, {})[0] for causal in (False, True))
    tiles = (4096 + 128) / (2 * 4096)  # half of the square, and half a tile along its diagonal
    assert half.compute_time == pytest.approx(full.compute_time * tiles)
    outside = (
        8 * 32 * 4096 * (128 + 128) * 2 / 4e12
    )  # queries and results, at the bandwidth of an H20 and STREAM's share
    assert half.unhidden_time == full.unhidden_time and 0.7 < outside / half.unhidden_time < 0.9
    assert half.startup_time == full.startup_time == kernel_shares(lineage("H20")).values["start"]
    assert seconds("attention", prefill, {}) == seconds("attention", prefill | {"causal": True}, {})
    far = ATTENTION | {"device": "H100-SXM5-80GB", "kv_len": 1e6}  # of an H20 arithmetic binds too, see below
    fp8 = seconds("attention", far | {"kv_precision": "fp8"}, {})
    assert fp8 == pytest.approx(seconds("attention", far, {}) / 2, rel=0.1)
    # 128 heads on one latent: far beyond the ridge of an H20, so arithmetic binds and not the cache.
    mla = seconds("attention", LATENT | {"kv_len": 1e5}, {})
    work = 8 * 128 * 1e5 * (576 + 512) * 2
    assert mla >= work / 148e12
    assert "new tokens are among those" in predict("attention", ATTENTION | {"q_len": 5000.0}, {}).reason


@pytest.mark.independent
def test_eight_bits_do_not_hasten_exponentials() -> None:
    """A pair of heads of 128: 512 FLOP, and an exponential in the time of 512 at 16 bits (Blackwell) or 256 (Blackwell Ultra)."""
    row = ATTENTION | {"phase": "prefill", "q_len": 4096.0, "kv_heads": 32.0, "causal": False}
    pairs = 8 * 32 * 4096**2
    for device, clock in (("B200-SXM-180GB", 512), ("GB300", 256)):
        for precision, faster in (("bf16", 1), ("fp8", 2)):
            call = predicted_call(row | {"device": device, "precision": precision}, {})[0]
            peak = catalog.device(device).peak_flops[precision]
            products, exponentials = 512 / (740 / 989.5), clock * faster
            expected = pairs / peak * (products**3 + exponentials**3) ** (1 / 3)
            assert call.compute_time == pytest.approx(expected, rel=0.002)


@pytest.mark.independent
def test_a_few_queries_to_a_key_cost_as_much_as_sixteen() -> None:
    """One instruction of a warp multiplies 16 rows: 32 heads over 8 keys, or over 2; over 1 they are 32 rows."""
    far = ATTENTION | {"kv_len": 1e6, "kv_precision": "fp8"}
    call = {heads: predicted_call(far | {"q_heads": heads}, {})[0] for heads in (8.0, 32.0, 128.0, 256.0)}
    assert call[8.0].flops == call[32.0].flops == call[128.0].flops == call[256.0].flops / 2
    assert call[128.0].flops == 8 * 128 * 1e6 * (128 + 128) * 2
    assert predicted_call(far | {"device": "A100-SXM4-80GB"}, {})[0].flops == call[32.0].flops


@pytest.mark.published
def test_an_h20_decodes_from_half_the_bytes_in_more_than_half_the_time() -> None:
    """infersim2026bench: 1,528.83 us with 16 bits, 1,065.26 us with 8. Its share of the peak: FlashAttention-2 there reaches
    83.7 of 148 TFLOP/s (flashattention2024h20), and 35 % on an H100 (shah2024flashattention3)."""
    whole, allowed = older_kernels()
    lost = (148 / 78) / (989.5 / 132)
    assert whole == 0.35 and 1 / (1 / allowed + (1 / whole - 1 / allowed) * lost) == pytest.approx(83.7 / 148, rel=1e-3)
    row = ATTENTION | {"batch": 64.0, "kv_len": 16384.0}
    call = predicted_call(row, {})[0]
    assert call.compute_time == pytest.approx(64 * 8 * 16 * 16384 * 256 * 2 / 83.7e12, rel=1e-3)
    assert call.time == pytest.approx(1528.83e-6, rel=0.15)
    assert seconds("attention", row | {"kv_precision": "fp8"}, {}) == pytest.approx(1065.26e-6, rel=0.15)


COLLECTIVE = {"device": "H100", "op": "all_reduce", "n_ranks": 8.0, "ranks_per_node": 8.0, "bytes": 1e9}


@pytest.mark.independent
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("device", ["H100", "A100-SXM4-80GB", "B200-SXM-180GB", "MI300X"])
def test_collectives_limits(op: str, device: str) -> None:
    row = COLLECTIVE | {"op": op, "device": device}
    assert seconds("collective", row | {"n_ranks": 1.0}) == 0
    times = [seconds("collective", row | {"bytes": 10.0**i}) for i in range(12)]
    assert times == sorted(times)
    bandwidth = [seconds("collective", row | {"intra_node_bandwidth": 1e9 * 2**i}) for i in range(12)]
    assert bandwidth == sorted(bandwidth, reverse=True)
    across = row | {"n_ranks": 16.0, "inter_node_bandwidth": 50e9}
    assert seconds("collective", across) > seconds("collective", row)
    assert seconds("collective", across | {"inter_node_bandwidth": 25e9}) > seconds("collective", across)


@pytest.mark.independent
def test_an_all_gather_is_half_of_a_ring_all_reduce_at_large_sizes() -> None:
    row = COLLECTIVE | {"algo": "Ring", "bytes": 1e12}
    halves = [seconds("collective", row | {"op": op}, {}) for op in ("all_gather", "reduce_scatter")]
    assert sum(halves) == pytest.approx(seconds("collective", row, {}), rel=1e-3)
    assert seconds("collective", row | {"algo": "NVLS"}) < seconds("collective", row), "the switch halves the traffic"
    assert seconds("collective", row | {"algo": "auto"}) <= seconds("collective", row | {"algo": "NVLS"})


@pytest.mark.published
def test_over_nodes_the_latencies_are_nccls() -> None:
    """nccl2026tuning, tuning.cc: small buffers over 16 nodes of eight go up and down a tree; a forced ring costs more."""
    row = COLLECTIVE | {"n_ranks": 128.0, "bytes": 8.0, "inter_node_bandwidth": 50e9}
    assert seconds("collective", row, {}) == pytest.approx(6.8e-6 + 2 * (7 * 0.6e-6 + 4 * 5e-6), rel=1e-3)
    ring = seconds("collective", row | {"algo": "Ring"}, {})
    assert ring == pytest.approx(6.6e-6 + 2 * (112 * 1e-6 + 15 * 2.7e-6), rel=1e-3)
    gather = seconds("collective", row | {"op": "all_gather"}, {})
    assert gather == pytest.approx(6.6e-6 + 112 * 1e-6 + 15 * 2.7e-6, rel=1e-3), "a tree gathers nothing"
    large = seconds("collective", row | {"algo": "Ring", "bytes": 1e11}, {})  # whole chunks
    steps = 8.4e-6 + 1.4 * 2 * (112 * 3.4e-6 + 15 * 14e-6)
    assert large == pytest.approx(steps + 2 * 127 / 128 * 1e11 / 370.8e9, rel=1e-9)


@pytest.mark.independent
def test_experts_on_more_nodes_wait_for_the_network() -> None:
    row = COLLECTIVE | {
        "op": "moe_dispatch",
        "bytes": 7.5e6,
        "intra_node_bandwidth": 200e9,
        "inter_node_bandwidth": 50e9,
    }
    ranks = [seconds("collective", row | {"n_ranks": float(8 * 2**i)}) for i in range(5)]
    assert ranks == sorted(ranks)
    limit = seconds("collective", row | {"n_ranks": 8e6}, {})
    assert limit == pytest.approx(2.7e-6 + 7.5e6 / (50e9 * 370.8 / 450), rel=1e-3), "and the latency of one message"


@pytest.mark.independent
def test_two_nodes_of_no_name_are_taken_for_the_fabric_of_the_published_rows() -> None:
    """A rate that fits InfiniBand and EFA is priced with the fabric that the constants say; a slot of the host by its own steps."""
    row = COLLECTIVE | {"n_ranks": 16.0, "bytes": 1e3, "inter_node_bandwidth": 50e9}
    call = {"call": {"startup_s": 0.0, "chunk_s": 0.0}}
    plain, aws = (seconds("collective", row, call | {"unnamed network": {"efa": x}}) for x in (0.0, 1.0))
    assert plain == pytest.approx(2 * (7 * 0.6e-6 + 5e-6), rel=1e-2) and aws == pytest.approx(
        2 * (7 * 0.6e-6 + 20e-6), rel=1e-2
    )
    told = seconds("collective", row | {"device": "A100", "inter_node_bandwidth": 6.25e9}, call)
    assert told == pytest.approx((4 * 14 + 26 * 3.4) * 1e-6, rel=1e-2), "only AWS's nodes have so little: whole chunks"
    export = seconds("collective", row | {"device": "H20"}, call | {"unnamed network": {"efa": 1.0}})
    assert export == pytest.approx(plain, rel=1e-9), "AWS rents no H20"
    alone = {"device": "DGX-Spark-GB10", "n_ranks": 2.0, "ranks_per_node": 1.0, "intra_node_bandwidth": None}
    assert seconds("collective", row | alone, call) == pytest.approx(2 * 5e-6, rel=1e-2), "a cable, and no link inside"
    slots = {"device": "L40S", "n_ranks": 2.0, "ranks_per_node": 2.0, "intra_node_bandwidth": 32e9}
    assert seconds("collective", row | slots, call) == pytest.approx(2 * 1.0e-6, rel=0.1)
    latency = seconds("collective", row | {"latency_s": 7e-6}, call)
    assert latency == pytest.approx(plain + 7e-6)


def test_reasons_for_what_is_not_modelled() -> None:
    assert "op 'broadcast'" in predict("collective", COLLECTIVE | {"op": "broadcast"}, {}).reason
    lost = COLLECTIVE | {"device": "L4", "n_ranks": 16.0, "intra_node_bandwidth": 32e9}
    assert "inter_node_bandwidth" in predict("collective", lost, {}).reason
    assert "kind 'disk'" in predict("memory", {"kind": "disk", "inputs": {}}, {}).reason
    assert (
        predict("memory", {"kind": "kv_cache", "inputs": {"layers": 2}}, {}).reason
        == "the row gives no tokens; fill it in"
    )
    assert "precision 'int3'" in predict("gemm", GEMM | {"precision": "int3"}, {}).reason
    bad = {"layers": 2, "hidden": 63, "heads": 3, "kv_heads": 2, "ffn": 8, "vocab": 9, "bytes_per_param": 2}
    assert "must divide heads" in predict("memory", {"kind": "params", "inputs": bad}, {}).reason


ROWS = {
    "gemm": GEMM,
    "attention": LATENT,
    "collective": COLLECTIVE | {"algo": "auto", "inter_node_bandwidth": 50e9},
    "memory": {
        "kind": "training_peak",
        "inputs": {
            "layers": 2,
            "hidden": 64,
            "heads": 4,
            "kv_heads": 2,
            "ffn": 128,
            "vocab": 99,
            "tp": 2,
            "pp": 1,
            "cp": 1,
            "dp": 2,
            "sharding": "zero1",
            "micro_batch": 1,
            "seq": 128,
            "recompute": None,
            "hbm_bytes": 8e10,
        },
    },
}  # fmt: skip


@given(name=st.sampled_from(sorted(ROWS)), data=st.data())
def test_strange_rows_give_a_prediction_or_a_reason(name: str, data: st.DataObject) -> None:
    row = dict(ROWS[name])
    cells: dict[str, Any] = dict(row["inputs"]) if name == "memory" else row
    for key in data.draw(st.lists(st.sampled_from(sorted(cells)), min_size=1, max_size=3, unique=True)):
        texts: list[Any] = [None, "", "x"] if isinstance(cells[key], str) or name == "memory" else [None]
        numbers = [0.0, 1e-9, 3.5, 1e29, 1e308] if not isinstance(cells[key], str) else []
        cells[key] = data.draw(st.sampled_from(texts + numbers))
    if name == "memory":
        row["inputs"] = cells
    p = predict(name, row, shipped_constants(name))
    assert (p.predicted is None) == bool(p.reason)
    assert p.predicted is None or (math.isfinite(p.predicted) and p.predicted >= 0)


@pytest.mark.published
@pytest.mark.parametrize(
    ("kind", "inputs", "expected", "tolerance"),
    [
        # ZeRO paper, figure 1 (printed 1.9 GB).
        ("model_state", {"params": 7.5e9, "dp": 64, "zero_stage": 3, "param_bytes": 2, "grad_bytes": 2, "optimizer_bytes": 12}, 1.9e9, 0.02),
        # DeepSeek-V2 paper, table 1: the latent of 512 + 64 numbers per token and layer.
        ("kv_cache", {"layers": 60, "kv_lora_rank": 512, "rope_dim": 64, "dtype_bytes": 2, "batch": 1, "tokens": 1}, 69120, 0),
    ],
)  # fmt: skip
def test_memory_kinds(kind: str, inputs: dict[str, float], expected: float, tolerance: float) -> None:
    p = predict("memory", {"kind": kind, "inputs": inputs}, {})
    assert p.predicted == pytest.approx(expected, rel=tolerance or 1e-12)


# One scoring function


def row(group: str, error: float | None) -> ScoredRow:
    predicted = None if error is None else 1.0 + error
    return ScoredRow("x", group, 1.0, predicted, error, error is not None, "", ())


@pytest.mark.independent
def test_groups_are_averaged_and_a_missing_prediction_is_wholly_wrong() -> None:
    rows = [row("a", 0.1), row("a", -0.3), row("b", None), row("b", 0.5)]
    s = summarise(rows, [0.2, 0.2, 0.2, None])
    assert (s.n, s.supported) == (4, 3)
    assert s.groups["a"].mape == pytest.approx(0.2) and s.groups["a"].bias == pytest.approx(-0.1)
    assert s.groups["b"].mape == pytest.approx(0.75) and s.groups["b"].bias == pytest.approx(0.5)
    assert s.groups["a"].within == 0.5 and s.groups["b"].within == 0.0
    assert s.mape_mean_over_groups == pytest.approx(0.475)
    assert s.within_tolerance_mean_over_groups == 0.25
    assert summarise([row("a", None)], [1.0]).bias_mean_over_groups is None


@pytest.mark.independent
def test_a_group_never_sees_its_own_rows(tmp_path: Path) -> None:
    """Ten times slower rows change the constants of the other group, not their own."""
    text = SMALL.read_text(encoding="utf-8")
    slow = []
    for i, line in enumerate(csv.reader(io.StringIO(text))):
        if i and line[1] == "azure":
            line[13] = str(10 * float(line[13]))
        slow.append(",".join(c.replace(",", ";") for c in line))
    changed = scoring.score(read_cases(write(tmp_path / "slow.csv", *slow)), leave_one_group_out=True)
    before = scoring.score(read_cases(SMALL), leave_one_group_out=True)
    for a, b in zip(before.rows, changed.rows, strict=True):
        assert (a.predicted == b.predicted) == (a.group == "azure"), a.id


# Files that are not what they should be


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([HEAD, ROW.replace("4096", "x", 1)], "bad.csv, line 2, column 'm': 'x' is not a finite number"),
        ([HEAD, ROW, "", ROW.replace("2e-4", "nan")], "line 4, column 'measured_time_s': 'nan'"),
        ([HEAD, ROW.replace("2e-4", "0")], "line 2, column 'measured_time_s': '0' must be a measurement above zero"),
        ([HEAD, ROW.replace("2e-4", "")], "column 'measured_time_s'"),
        ([HEAD, ROW.replace("4096", "-1", 1)], "column 'm'"),
        ([HEAD, ROW.replace("4096", "1_000", 1)], "column 'm'"),
        ([HEAD, ROW + ",1"], "line 2, column 11: 11 cells under 10 headings"),
        ([HEAD, '"a,g'], "not valid CSV"),
        ([HEAD + ",m", ROW], "line 1, column 'm' stands there twice"),
        ([HEAD], "line 2: no row follows the header"),
        (["a,b", "1,2"], "line 1: the header fits no classes of cases"),
        ([""], "line 1: the header fits no classes"),
        (["id,group,kind,inputs,measured_bytes", "1,g,params,{,1"], "line 2, column 'inputs': not valid JSON"),
        (["id,group,kind,inputs,measured_bytes", "1,g,params,[],1"], "is not a JSON object"),
        (["id,group,kind,inputs,measured_bytes", '1,g,params,"{""a"": -1}",1'], "'a' is not a finite number"),
        (["id,group,kind,inputs,measured_bytes", '1,g,params,"{""a"": NaN}",1'], "'a' is not a finite number"),
        (
            ["id,group,kind,inputs,measured_bytes", f'1,g,params,"{{""a"": {"9" * 400}}}",1'],
            "'a' is not a finite number",
        ),
        (["id,group,kind,inputs,measured_bytes", '1,g,params,"{""a"": 1, ""a"": 2}",1'], "'a' stands there twice"),
        ([HEAD, ROW.replace("4096", "４096", 1)], "column 'm': '４096' is not a finite number"),
    ],
)
def test_a_malformed_file_names_line_and_column(
    rows: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["validate", "--cases", str(write(tmp_path / "bad.csv", *rows))]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_a_file_may_be_written_by_a_spreadsheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = scoring.score(read_cases(write(tmp_path / "x.csv", HEAD, ROW))).rows
    head = ",".join(f" {name.upper()} " for name in HEAD.split(",")) + ",,"
    sheet = write(tmp_path / "s.csv", head, f"{ROW.replace('bf16', 'BF16')},,", "," * (HEAD.count(",") + 2), " ")
    assert scoring.score(read_cases(sheet)).rows == plain
    flagged = (
        "id,group,phase,kind,batch,q_heads,kv_heads,head_dim,q_len,kv_len,causal,precision,peak_flops,hbm_bandwidth"
    )
    cells = "a,g,prefill,gqa,1,32,8,128,512,512,{},bf16,1e15,3e12,1e-4"
    said = [
        read_cases(write(tmp_path / "f.csv", f"{flagged},measured_time_s", cells.format(word)))
        .cases[0]
        .inputs["causal"]
        for word in ("TRUE", "False", "")
    ]
    assert said == [True, False, None]
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        write(tmp_path / "m.csv", HEAD.replace(",", mark), ROW.replace(",", mark))
        assert cli.main(["validate", "--cases", str(tmp_path / "m.csv")]) == 2
        assert f"parted by {name}" in capsys.readouterr().err


def test_an_id_of_two_rows_is_told_and_both_count(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"id '.+' stands in more than one row; each row counts"):
        assert len(read_cases(write(tmp_path / "twice.csv", HEAD, ROW, ROW)).cases) == 2


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.csv", HEAD, ROW, ROW)
    monkeypatch.setattr(reader, "MAX_ROWS", 1)
    with pytest.raises(InputError, match="line 3: more than 1 rows"):
        read_cases(path)
    monkeypatch.setattr(reader, "MAX_FILE_BYTES", 10)
    with pytest.raises(InputError, match="larger than 10 bytes"):
        read_cases(path)
    (tmp_path / "b.csv").write_bytes(b"id\n\xff\n")
    monkeypatch.setattr(reader, "MAX_FILE_BYTES", 1000)
    with pytest.raises(InputError, match="line 2, column 1: not UTF-8"):
        read_cases(tmp_path / "b.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_cases(tmp_path / "missing.csv")


def test_the_class_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", HEAD, ROW)
    assert read_cases(path, "gemm").case_class.name == "gemm"
    with pytest.raises(InputError, match="a file of class memory needs a column 'measured_bytes'"):
        read_cases(path, "memory")
    with pytest.raises(UnknownNameError, match="did you mean 'gemm'"):
        read_cases(path, "gem")


# The command


def test_the_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--cases", str(SMALL), "--class", "gemm", "--mode", "datasheet", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert set(out) == {"class", "mode", "rows", "rule", "summary"}
    assert set(out["rule"]) == {"text", "share", "rows", "error", "ours"} and out["rule"]["rows"] == len(out["rows"])
    assert (out["class"], out["mode"]) == ("gemm", "datasheet")
    keys = {
        "id",
        "group",
        "measured",
        "predicted",
        "error",
        "supported",
        "reason",
        "assumptions",
        "low",
        "high",
        "domain",
    }
    assert all(set(r) == keys for r in out["rows"])
    assert set(out["summary"]) == {
        "n",
        "supported",
        "mape_mean_over_groups",
        "bias_mean_over_groups",
        "within_tolerance_mean_over_groups",
        "groups",
        "coverage",
        "unknown",
        "median_width",
    }
    assert all(
        set(g) == {"n", "mape", "bias", "within", "inside", "unknown"} for g in out["summary"]["groups"].values()
    )
    for r in out["rows"]:
        assert r["error"] == pytest.approx(r["predicted"] / r["measured"] - 1)


def test_large_errors_do_not_fail_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x.csv", HEAD, ROW.replace("2e-4", "9e9"), "b" + ROW[1:].replace("bf16", "int3"))
    assert cli.main(["validate", "--cases", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 rows supported" in out and "unsupported: 1 rows: bytes of precision 'int3'" in out
    assert cli.main(["validate", "--cases", str(path), "--json"]) == 0
    last = json.loads(capsys.readouterr().out)["rows"][1]
    assert (last["predicted"], last["error"], last["supported"]) == (None, None, False)


# Served points: what a row may leave out, and how its degrees are read

SERVED_HEAD = (
    "id,group,model,device,backend,backend_version,mode,precision,gemm_quant,moe_quant,input_len,output_len,concurrency,tp,"
    "attention_dp,moe_tp,moe_ep,prefill_workers,prefill_tp,prefill_attention_dp,prefill_moe_tp,prefill_moe_ep,decode_workers,"
    "decode_tp,decode_attention_dp,decode_moe_tp,decode_moe_ep"
)
TOGETHER = "a,g,Llama-3.1-70B,H200-SXM-141GB,vllm,0.19.0,agg,fp8,fp8,fp8,1024,1024,16,4,1,4,1,,,,,,,,,,"
APART = "b,g,DeepSeek-V3,GB300,sglang,,disagg,fp8,fp8,fp8_block,8192,1024,512,,,,,5,1,8,1,8,1,1,32,1,32"


@pytest.mark.parametrize("what", ["tpot", "ttft"])
def test_served_points_are_recognised_and_predicted_together_and_apart(what: str, tmp_path: Path) -> None:
    rows = (f"{TOGETHER},0.011", f"{APART},0.5")
    file = read_cases(write(tmp_path / "s.csv", f"{SERVED_HEAD},measured_{what}_s", *rows))
    assert file.case_class.name == f"serving_{what}"
    for mode in ("datasheet", "calibrated"):
        found = scoring.score(file, mode)
        assert found.summary.supported == 2
        assert all(r.predicted is not None and 1e-4 < r.predicted < 60.0 for r in found.rows)


@pytest.mark.filterwarnings("ignore:server")
def test_a_served_point_of_an_unknown_server_takes_the_middle_and_says_so(tmp_path: Path) -> None:
    unknown = TOGETHER.replace("vllm", "a server of mine")
    path = write(tmp_path / "s.csv", f"{SERVED_HEAD},measured_tpot_s", f"{unknown},0.011")
    (row,) = scoring.score(read_cases(path)).rows
    assert row.supported and any("not in the table of servers" in said for said in row.assumptions)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("Llama-3.1-70B", "a model of mine"), "column model: unknown model 'a model of mine'"),
        (("H200-SXM-141GB", "a device of mine"), "column device: unknown device 'a device of mine'"),
        ((",agg,", ",beside,"), "neither 'agg' nor 'disagg'"),
        (("fp8,fp8,fp8", "fp8,fp9,fp9"), "gemm_quant = 'fp9'"),
    ],
)
def test_a_served_point_that_cannot_be_has_a_reason(change: tuple[str, str], reason: str, tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", f"{SERVED_HEAD},measured_tpot_s", f"{TOGETHER.replace(*change)},0.011")
    (row,) = scoring.score(read_cases(path)).rows
    assert not row.supported and reason in row.reason


@pytest.mark.parametrize(
    "change", [(",agg,", ",AGG,"), (",agg,", ",aggregated,"), ("fp8,fp8,fp8", "FP8,FP8,FP8"), ("vllm", "dynamo-vllm")]
)
def test_a_served_point_may_be_spelled_as_people_write_it(change: tuple[str, str], tmp_path: Path) -> None:
    rows = (f"{TOGETHER},0.011", f"{TOGETHER.replace(*change).replace('a,g', 'b,g', 1)},0.011")
    plain, spelled = scoring.score(read_cases(write(tmp_path / "s.csv", f"{SERVED_HEAD},measured_tpot_s", *rows))).rows
    assert spelled.predicted == plain.predicted is not None


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("fp8_static", "fp8"),
        ("fp8_ootb", "fp8"),
        ("w4a16_nvfp4", "nvfp4_wo"),
        ("w4a16_mxfp4_cutlass", "w4a16_mxfp4"),
        ("w4a8_mxfp4_mxfp8_trtllm", "w4a8_mxfp4_mxfp8"),
    ],
)
def test_formats_are_called_as_benchmarks_call_them(change: str, same: str, tmp_path: Path) -> None:
    """The longer names are those of AIConfigurator's lists; bits and products are what the names say."""
    names = (change, same, "bf16", "sq", "w4afp8", "mxfp8")
    rows = [
        f"{APART.replace('fp8,fp8,fp8_block', f'fp8,{name},{name}').replace('b,g', f'{name},g')},0.02" for name in names
    ]
    found = scoring.score(read_cases(write(tmp_path / "s.csv", f"{SERVED_HEAD},measured_tpot_s", *rows))).rows
    times = {r.id: r.predicted for r in found}
    assert times[change] == times[same] is not None
    assert all(0 < (time or 0.0) <= (times["bf16"] or 0.0) for time in times.values())


def test_a_served_point_may_name_its_checkpoint(tmp_path: Path) -> None:
    named = APART.replace("b,g", "c,g").replace("DeepSeek-V3", "nvidia/DeepSeek-R1-0528-FP4")
    path = write(tmp_path / "s.csv", f"{SERVED_HEAD},measured_tpot_s", f"{APART},0.02", f"{named},0.02")
    plain, checkpoint = scoring.score(read_cases(path)).rows
    assert plain.predicted == checkpoint.predicted is not None and plain.low == checkpoint.low


@pytest.mark.parametrize("what", ["tpot", "ttft"])
def test_fewer_requests_than_attention_replicas_are_predicted(what: str, tmp_path: Path) -> None:
    few = APART.replace(",512,", ",4,").replace("b,g", "c,g", 1)
    file = read_cases(write(tmp_path / "s.csv", f"{SERVED_HEAD},measured_{what}_s", f"{APART},0.5", f"{few},0.5"))
    many, alone = scoring.score(file).rows
    assert alone.predicted is not None and many.predicted is not None and 0 < alone.predicted < many.predicted


@pytest.mark.independent
def test_degrees_that_were_multiplied_into_each_other_are_those_of_the_same_run() -> None:
    """The source has runs twice, under true degrees and under multiplied ones, with the same times to the last digit."""
    from mlsysim.evidence.predictors.serving import degrees_of

    assert degrees_of(16, 1, 4, 4) == degrees_of(4, 1, 1, 4)
    assert degrees_of(1, 64, 8, 8) == degrees_of(1, 8, 1, 8)
    assert degrees_of(4, 4, 1, 16) == degrees_of(4, 1, 1, 4)
    assert degrees_of(8, 1, 8, 1).devices == 8 and degrees_of(2, None, 4, 1).devices == 4
