"""Domains, several files at once, the log of variants, and relatives of a device that no row ran on."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT

from mlsysim import catalog, efficiencies
from mlsysim.efficiencies import lineage, parents, pooled, pooled_share
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.cases import CLASSES, TABLED, Case, CaseFile, read_cases
from mlsysim.evidence.predictors import shipped_constants
from mlsysim.evidence.predictors.fitting import gauss_newton
from mlsysim.evidence.scoring import Report, ScoredRow, domains, leaving, report, rules, scores, summarise, tried
from mlsysim.intervals import KNOWN, NEW

GEMM = "id,group,device,precision,m,n,k,measured_time_s\n"


def _file(path: Path, *rows: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(GEMM + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


# Several files


def test_rows_of_two_files_are_read_as_one(tmp_path: Path) -> None:
    one = _file(tmp_path / "a" / "gemm.csv", "1,X,H100,bf16,8,8,8,1e-5", "2,X,H100,bf16,8,8,8,1e-5")
    two = _file(tmp_path / "b" / "gemm.csv", "3,X,H100,bf16,8,8,8,1e-5")
    both = read_cases([one, two])
    assert [c.id for c in both.cases] == ["1", "2", "3"] and {c.group for c in both.cases} == {"X"}
    assert both.name == "a/gemm.csv + b/gemm.csv"
    assert read_cases([one]) == read_cases(one)
    with pytest.raises(InputError, match=r"b/gemm.csv: id '1' stands in a/gemm.csv too"):
        read_cases([one, _file(two, "1,Y,H100,bf16,8,8,8,1e-5")])
    with pytest.raises(InputError, match="at least one"):
        read_cases([])
    other = tmp_path / "c.csv"
    other.write_text("id,group,op,n_ranks,bytes,measured_time_s\n1,X,all_reduce,8,1e6,1e-4\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"c.csv holds rows of class collective"):
        read_cases([one, other])


# Relatives


def test_the_nearest_relatives_come_first() -> None:
    assert lineage("GB300") == ("Blackwell Ultra", "Blackwell", "NVIDIA gpu", "gpu", "any")
    assert lineage("GH200") == lineage("H100") == ("Hopper", "NVIDIA gpu", "gpu", "any")
    assert lineage(catalog.device("TPU-v6e")) == ("Trillium", "Google tpu", "tpu", "any")
    assert lineage("H20")[:2] == ("Hopper, cut to 150 TFLOP/s", "Hopper")
    assert lineage(None) == ("any",)


def test_no_part_of_a_name_decides() -> None:
    """A name beside the table has no relatives, whatever it contains; written otherwise it is the same name."""
    assert lineage("RTX-4080") == lineage("rtx 4080") == ("Ada Lovelace", "NVIDIA gpu", "gpu", "any")
    for name in ("RTX-4090-of-mine", "my H100", "NVIDIA gpu", "Trainium"[:-1]):
        assert lineage(name) == ("any",)


def test_a_name_that_nobody_knows_is_known_by_its_figures() -> None:
    h100 = catalog.device("H100")
    figures = h100.peak_flops["bf16"], h100.memory_bandwidth
    assert lineage("a part of ours", *figures) == lineage("H100")
    assert lineage("a part of ours", figures[0], figures[1] * 1.5) == ("any",)
    assert lineage("a part of ours", figures[0]) == ("any",)


@pytest.mark.parametrize("device", catalog.devices().values(), ids=lambda d: d.name)
def test_every_device_has_relatives_up_to_all(device: catalog.Device) -> None:
    line = lineage(device)
    assert line[-1] == "any" and len(line) == len(set(line)) >= 4
    assert lineage(device.name) == line


def test_constants_are_taken_from_the_nearest_who_have_them() -> None:
    fitted = {"any": {"gemm": 0.5, "link": 0.9}, "NVIDIA gpu": {"gemm": 0.6}, "Hopper": {"gemm": 0.7, "link": 0.8}}
    own, near, far = (pooled(fitted, lineage(name)) for name in ("H100", "GB300", "MI300X"))
    assert own and near and far
    assert dict(own.values) == {"gemm": 0.7, "link": 0.8} and own.own and own.describe() == ""
    assert dict(near.values) == {"gemm": 0.6, "link": 0.9} and near.whose == "any"
    assert pooled({"NVIDIA gpu": {"gemm": 0.6}}, lineage("GB300")).describe() == (  # type: ignore[union-attr]
        "constants of NVIDIA GPUs: no row ran on Blackwell Ultra"
    )
    assert far.values["gemm"] == 0.5 and far.describe() == "constants of all devices: no row ran on CDNA 3"
    assert pooled({"8-bit, any": {"gemm": 0.4}}, lineage("H100"), "8-bit, ").values == {"gemm": 0.4}  # type: ignore[union-attr]
    assert pooled({"Hopper": {"gemm": 0.7}}, lineage("MI300X")) is None
    assert parents([lineage("H100"), lineage("TPU-v4")])["Google tpu"] == "tpu"


@pytest.mark.independent
def test_pooling_is_a_mean_of_votes() -> None:
    """Without sources the family's, with many the own; n sources at one value and kappa at another, averaged by hand."""
    assert pooled_share(0.8, 0.5, 0, 3.0) == pytest.approx(0.5)
    assert pooled_share(0.8, 0.5, 1e9, 3.0) == pytest.approx(0.8)
    by_hand = math.exp(np.mean([math.log(0.8)] * 4 + [math.log(0.5)] * 3))
    assert pooled_share(0.8, 0.5, 4, 3.0) == pytest.approx(by_hand)


@pytest.mark.independent
def test_a_tied_fit_is_the_pooled_share() -> None:
    """Rows whose error is the log of a share: the fit with a tie lands where eq-pooled-share does."""
    shares = np.array([0.62, 0.58, 0.60])  # three sources of one generation; a fourth pins the family at 0.4

    def errors(c: np.ndarray) -> np.ndarray:
        return np.concatenate([np.log(c[0] / shares), 1e3 * np.log(c[1:] / 0.4)])

    own, family = gauss_newton(
        [(0.1, 0.9, 0.5)] * 2, errors, ["a", "b", "c", "d"], soft=100.0, pull=1e-4, ties=[(0, 1)], strength=2.0
    )
    assert family == pytest.approx(0.4, rel=0.01)
    assert own == pytest.approx(pooled_share(float(np.exp(np.log(shares).mean())), 0.4, 3, 2.0), rel=0.01)


# Domains


def _case(name: str, group: str, **inputs: object) -> Case:
    return Case(name, group, 1.0, 0.1, {"device": "H100", "precision": "bf16", **inputs})


def test_a_domain_is_known_when_another_source_saw_each_part() -> None:
    cases = [
        _case("1", "A"),
        _case("2", "B", precision="fp8"),
        _case("3", "C", precision="fp8", device="GB200"),
        _case("4", "C", device="GB200", precision="fp8"),
        _case("5", "D", n_experts=8.0),
        _case("6", "E", precision="fp8", n_experts=8.0),
    ]
    assert domains.grounds("training_step", cases) == [KNOWN, KNOWN, NEW, NEW, KNOWN, KNOWN]
    assert dict(domains.domain_of("training_step", cases[0].inputs)) == {
        "generation": "Hopper",
        "kind": "dense",
        "precision": "16-bit",
        "phase": "pretrain",
    }
    left = domains.domains_left_out("training_step", cases)
    assert [c.id for c in left["generation: Blackwell"]] == ["3", "4"]
    assert "phase: pretrain" not in left  # it is all there is


def test_every_class_has_domains() -> None:
    for name in CLASSES:
        assert set(domains.domain_of(name, {})) == set(domains.PARTS)
    with pytest.raises(UnknownNameError):
        domains.domain_of("weather", {})


def test_one_standard_error_is_counted_over_groups() -> None:
    from mlsysim.evidence.scoring import GroupScore, Summary

    def of(*errors: float) -> Summary:
        groups = {str(i): GroupScore(1, e, e, 0.0) for i, e in enumerate(errors)}
        return Summary(len(errors), len(errors), 0.0, 0.0, 0.0, groups)

    gain, spread = leaving.standard_error(of(0.1, 0.1, 0.1), of(0.1, 0.2, 0.3))
    assert gain == pytest.approx(0.1) and spread == pytest.approx(0.1 / math.sqrt(3))


# The log


@pytest.mark.parametrize("name", tried.logged())
def test_every_line_of_every_log_is_complete(name: str) -> None:
    lines = tried.read_log(name)
    assert lines and any(line.kept for line in lines)
    assert len({(line.variant, line.date, line.rows) for line in lines}) == len(lines)
    for line in lines:
        assert line.rows >= line.groups >= 1


def test_an_incomplete_log_is_an_error(tmp_path: Path) -> None:
    line = tried.Tried("2026-11-22", "gemm", "a, b", 3, 10, 2, 0.1, 0.2, float("nan"), False, "no gain")
    tried.append(line, tmp_path)
    tried.append(line, tmp_path)
    read = tried.read_log("gemm", tmp_path)
    assert len(read) == 2 and read[0].variant == "a, b" and math.isnan(read[1].left_out_domain)
    text = (tmp_path / "gemm.csv").read_text(encoding="utf-8")
    for bad, message in (
        (text.replace("no gain", ""), "no why"),
        (text.replace(",no,", ",perhaps,"), "neither yes nor no"),
        (text.replace("0.2", "a fifth"), "errors fractions"),
        (text.replace(",gemm,", ",memory,"), "stands in the log of gemm"),
        (text.replace("date,", "day,"), "the columns are"),
    ):
        (tmp_path / "gemm.csv").write_text(bad, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            tried.read_log("gemm", tmp_path)
    with pytest.raises(UnknownNameError):
        tried.read_log("weather", tmp_path)


def test_the_room_says_what_it_has() -> None:
    assert {"lineage", "pooled", "pooled_share"} <= set(dir(efficiencies))


# What is left out is left out


def _timed(*rows: tuple[str, str, str, float]) -> CaseFile:
    """A product of 4,096 by id, source, device and time."""
    size = {"precision": "bf16", "m": 4096.0, "n": 4096.0, "k": 4096.0}
    return CaseFile("x.csv", CLASSES["gemm"], tuple(Case(i, g, t, 0.1, {"device": d} | size) for i, g, d, t in rows))


def _products() -> CaseFile:
    """Two generations in two sources, one in a third of its own."""
    devices = [("A", "H100"), ("A", "A100"), ("B", "H100"), ("B", "A100"), ("C", "B200")]
    return _timed(*((f"{g}{d}{i}", g, d, 1e-4 * (i + 1)) for g, d in devices for i in range(2)))


@pytest.mark.independent
def test_on_new_ground_neither_the_domain_nor_the_source_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[str]] = []
    monkeypatch.setattr(leaving, "fit", lambda name, cases: asked.append({c.id for c in cases}) or {})
    places = [("1", "A", "H100"), ("2", "A", "A100"), ("3", "B", "A100"), ("4", "C", "H100"), ("5", "C", "B200")]
    found = leaving.on_new_ground(_timed(*((*place, 1e-3) for place in places)))
    assert {label: {r.id for r in report.rows} for label, report in found.items()} == {
        "generation: Hopper": {"1", "4"},
        "generation: Ampere": {"2", "3"},
        "generation: Blackwell": {"5"},
    }
    # Blackwell is C's: neither its row nor the rest of C; Ampere without A and without B; Hopper without A and without C
    assert sorted(map(sorted, asked)) == [["1", "2", "3"], ["1", "4", "5"], ["2", "3"], ["3", "5"], ["4", "5"]]


@pytest.mark.independent
def test_the_rungs_are_the_same_rows_with_the_same_weights() -> None:
    """Errors of 1, 3, 1 and 2 % on Hopper (A, A, B) and Ampere (B): (mean of 2 and 1, and 2) / 2, whatever the rung; a row of no
    domain that can be left out, of 90 %, counts in none."""
    errors = {"1": 0.01, "2": 0.03, "3": 0.01, "4": 0.02, "5": 0.90}
    source = dict(zip(errors, "AABBC", strict=True))

    def report(factor: float, ids: str) -> Report:
        rows = tuple(ScoredRow(i, source[i], 1.0, 1.0, factor * errors[i], True, "", ()) for i in ids)
        return Report("gemm", "calibrated", rows, summarise(rows, [None] * len(rows)))

    domains_ = {"generation: Hopper": report(5, "312"), "generation: Ampere": report(5, "4")}
    found = leaving.Leaving(_products(), {}, report(1, "12345"), report(2, "54321"), report(2, "54321"), domains_)
    assert found.ladder == pytest.approx((0.0175, 0.035, 0.0875))
    assert found.inside.summary.mape_mean_over_groups > 0.3  # each source one vote, over all rows
    assert math.isnan(replace(found, domains={}).ladder.new_ground)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_without_a_row_nothing_is_fitted(name: str) -> None:
    """Of two sources on one kind of machine, neither domain and source leave a row."""
    assert report.fit(name, ()) == {}


def test_every_way_to_leave_out_is_scored() -> None:
    found = leaving.leave_out(_products())
    assert found.ladder.new_ground == pytest.approx(
        sum(r.summary.mape_mean_over_groups for r in found.domains.values()) / 3
    )
    assert leaving.count_constants(found.constants) == sum(
        len(v) for k, v in found.constants.items() if not k.startswith("seen: ")
    )
    assert found.sources.summary.n == 10 and set(found.sources.summary.groups) == {"A", "B", "C"}


def _beside(name: str, *rows: tuple[str, float, dict[str, Any]]) -> rules.Beside | None:
    cases = tuple(Case(str(i), group, m, 0.1, inputs) for i, (group, m, inputs) in enumerate(rows))
    scored = tuple(ScoredRow(c.id, c.group, c.measured, c.measured, 0.0, True, "", ()) for c in cases)
    ours = Report(name, "calibrated", scored, summarise(scored, [0.1] * len(scored)))
    return rules.score_rule(CaseFile("x", CLASSES[name], cases), ours)


@pytest.mark.independent
def test_a_rule_takes_its_share_from_other_sources_of_the_same_generation() -> None:
    """Shares of the design power: H100s of A and B judge each other's, C's A100 and D's other quantity none; alone nobody is judged."""

    def power(device: str) -> dict[str, Any]:
        return {"quantity": "device_power_fraction", "inputs": {"device": device}}

    rows = [("A", 0.5, power("H100")), ("B", 0.8, power("H100")), ("D", 0.9, {"quantity": "mtbf", "inputs": {}})]
    found = _beside("scalar", *rows)
    assert found is not None and (found.simple.n, found.ours.n) == (2, 2) and found.ours.mape_mean_over_groups == 0.0
    assert found.simple.groups["A"].mape == pytest.approx(0.8 / 0.5 - 1)
    assert found.simple.groups["B"].mape == pytest.approx(1 - 0.5 / 0.8)
    assert _beside("scalar", rows[0]) is None and _beside("scalar", rows[2]) is None
    assert "one share of the design power; median of the other sources" in rules.rule_score("scalar", found).line()
    assert rules.rule_score("scalar", None).line() == ""


@pytest.mark.independent
def test_rules_that_are_fixed_beforehand_by_hand() -> None:
    """Each by its own words, from the figures of the row."""
    machine = {"peak_flops": 1e15, "hbm_bandwidth": 2e12}
    product = machine | {"precision": "bf16", "m": 4096.0, "n": 4096.0, "k": 4096.0}
    assert rules.says("gemm", product) == pytest.approx(2 * 4096**3 / 1e15 / 0.64 + 4e-6)
    ring = {"op": "all_reduce", "n_ranks": 8.0, "bytes": 1e9, "intra_node_bandwidth": 1e11}
    assert rules.says("collective", ring) == pytest.approx(14 * (1e9 / 8 / 0.9e11 + 5e-6))
    assert rules.says("collective", {**ring, "ranks_per_node": 4.0, "inter_node_bandwidth": 1e10}) == pytest.approx(
        14 * (1e9 / 8 / 0.9e10 + 5e-6)
    )
    shape = {"params": 8e9, "layers": 32.0, "hidden": 4096.0, "kv_heads": 8.0, "head_dim": 128.0}
    step = machine | shape | {"phase": "decode_step", "batch": 1.0, "context_len": 0.0}
    assert rules.says("inference", step) == pytest.approx(16e9 / (0.7 * 2e12))
    assert rules.says("inference", step | {"phase": "prefill", "input_len": 8192.0}) == pytest.approx(
        2 * 8e9 * 8192 / 0.5e15
    )
    served = {"kind": "inference_total", "inputs": shape | {"input_len": 100.0, "output_len": 28.0}}
    assert rules.says("memory", served) == pytest.approx(16e9 + 2 * 32 * 128 * 8 * 128 * 2)
    assert rules.says("memory", {"kind": "checkpoint", "inputs": {"params": 1e9}}) == 14e9
    peak = shape | {"seq": 2048.0, "tp": 2.0, "dp": 4.0, "sharding": "fsdp", "recompute": "full"}
    by_hand = 8e9 * 16 / 8 + 2 * 1024 * 4096 * 32
    assert rules.says("memory", {"kind": "training_peak", "inputs": peak}) == pytest.approx(by_hand)
    assert rules.says("memory", {"kind": "kv_cache", "inputs": shape}) is None  # the same equation as ours
    loop = {
        "model": "Llama-3.1-8B",
        "device": "H100",
        "mode": "agg",
        "precision": "bf16",
        "tp": 2.0,
        "concurrency": 4.0,
    }
    loop |= {"backend": "vllm", "input_len": 1000.0, "output_len": 100.0}
    prompt = 2 * 8.03e9 * 1000 / (0.4 * 989e12 * 2)
    assert rules.says("serving_ttft", loop) == pytest.approx(0.1 + prompt, rel=0.01)
    reading = (7.5e9 * 2 + 4 * 1050 * 131072) / (0.7 * 3.35e12 * 2)
    assert rules.says("serving_tpot", loop) == pytest.approx(6e-3 + reading + 4 * prompt / 100, rel=0.01)
    apart = loop | {
        "mode": "disagg",
        "decode_workers": 2.0,
        "decode_tp": 1.0,
        "prefill_workers": 1.0,
        "prefill_tp": 4.0,
    }
    reading = (7.5e9 * 2 + 2 * 1050 * 131072) / (0.7 * 3.35e12)
    assert rules.says("serving_tpot", apart) == pytest.approx(6e-3 + reading, rel=0.01)
    assert rules.says("serving_ttft", apart) == pytest.approx(0.1 + prompt / 2, rel=0.01)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_class_has_a_rule_and_its_sheet_prints_it(name: str) -> None:
    rule, sheet = rules.RULES[name], scores.shipped_scores(name)
    assert (sheet.rule.text, sheet.rule.share) == (rule.text, rule.share)
    assert rule.share == ("median of the other sources" if name in ("training_step", "scalar") else "fixed beforehand")
    assert (sheet.rule.error is None) == (sheet.rule.ours is None) == (sheet.rule.rows == 0)


MOST_CONSTANTS = {
    ("training_step",): 20,
    ("inference",): 12,
    ("collective",): 8,
    ("gemm", "attention"): 8,
    ("memory",): 3,
    ("inference", "serving_tpot", "serving_ttft"): 20,  # eight more than inference may have
}


@pytest.mark.parametrize("names", MOST_CONSTANTS, ids=lambda names: names[0])
def test_no_class_has_more_constants_than_it_may(names: tuple[str, ...]) -> None:
    assert sum(scores.count_constants(shipped_constants(name)) for name in names) <= MOST_CONSTANTS[names]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_sheet_says_what_the_constants_had_seen(name: str) -> None:
    sheet = scores.shipped_scores(name)
    assert sheet.fit.n <= sheet.rows and sheet.domains and sheet.groups
    assert sheet.ladder.new_ground == pytest.approx(
        sum(s.mape for s in sheet.domains.values()) / len(sheet.domains), abs=1e-5
    )
    for n, ours, simple in sheet.worse.values():
        assert n > 5 and simple < ours  # of the rows of which the rule says something
    assert scores.never_seen(name).third is not None
    assert not set(scores.known_causes().get(name, {})) - set(sheet.groups)


def test_the_readme_prints_the_shipped_errors() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in TABLED:
        sheet = scores.shipped_scores(name)
        row = next(line for line in text.splitlines() if line.startswith(f"| {name.replace('_', ' ')} |"))
        assert f"| {sheet.rows} ({len(sheet.groups)}) |" in row
        for error in sheet.ladder:
            assert f" {100 * error:.1f} % |" in row
