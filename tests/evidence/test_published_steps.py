"""Published training steps as shipped: rates turned into times, the cases made of them, and the shipped score sheet."""

import datetime
from dataclasses import replace
from pathlib import Path

import fit_constants  # a script, not a package
import pytest
from made import left_out
from support import ROOT

from mlsysim import catalog, evidence, training
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence import scoring
from mlsysim.evidence.cases import read_cases
from mlsysim.evidence.predictors import shipped_constants
from mlsysim.evidence.scoring import fit, score_with, scores
from mlsysim.evidence.scoring.leaving import leave_out
from mlsysim.evidence.scoring.scores import ScoreSheet, as_toml, count_constants, measure, shipped_scores
from mlsysim.evidence.studies.shipped import training_cases
from mlsysim.parallelism import Plan

# Rates and times


@pytest.mark.published
@pytest.mark.parametrize(
    ("name", "layers", "hidden", "batch", "tera", "devices"),
    [
        ("megatron-1.7b", 24, 2304, 512, 137, 32),
        ("megatron-145b", 80, 12288, 2304, 148, 1536),
        ("megatron-1t", 128, 25600, 3072, 163, 3072),
    ],
)
def test_a_rate_of_megatron_becomes_a_time(
    name: str, layers: int, hidden: int, batch: int, tera: int, devices: int
) -> None:
    """Narayanan 2021, Table 1 and eq. 3: 96 B s L h^2 (1 + s/6h + V/16Lh), repetition counted, over n X."""
    work = 96 * batch * 2048 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (16 * layers * hidden))
    row = evidence.published_plan(name)
    assert row.measured == pytest.approx(work / (devices * tera * 1e12), rel=1e-12)
    assert row.plan.devices == devices


@pytest.mark.published
def test_a_rate_of_llama_becomes_a_time() -> None:
    """Grattafiori 2024, Table 4: 430 TFLOP/s on 8,192 GPUs for 16M tokens; PaLM's count, 6 N + 12 L H d s."""
    row = evidence.published_plan("llama3-405b-8k")
    token = 6 * 405_853_388_800 + 12 * 126 * 128 * 128 * 8192
    assert row.measured == pytest.approx(token * 2048 * 8192 / (8192 * 430e12), rel=1e-3)
    assert row.tokens == pytest.approx(16e6, rel=0.05)


@pytest.mark.published
def test_the_readme_of_megatron_agrees_with_itself() -> None:
    """README, GPT-3 Example: around 32 s per iteration, 138 TFLOP/s, 1,024 GPUs, batch 1536."""
    row = evidence.published_plan("gpt3-1024")
    work = 96 * 1536 * 2048 * 96 * 12288**2 * (1 + 2048 / (6 * 12288) + 51200 / (16 * 96 * 12288))
    assert work / (1024 * row.measured) == pytest.approx(138e12, rel=0.005)


@pytest.mark.independent
def test_a_plan_with_neither_says_so() -> None:
    bare = replace(evidence.published_plan("mtnlg-280"), published_step_time=None)
    with pytest.raises(InputError, match="neither a step time nor a rate"):
        _ = bare.measured


# Cases


@pytest.mark.independent
def test_every_published_step_is_a_case_that_both_modes_predict() -> None:
    file = training_cases()
    assert {c.id for c in file.cases} == set(evidence.published_plans())
    for mode in ("datasheet", "calibrated"):
        report = scoring.score(file, mode)
        assert report.summary.supported == report.summary.n == len(file.cases)
    plain = scoring.score(file, "datasheet")
    assert all(row.error is not None and row.error < 0 for row in plain.rows), "what is left out takes time"


@pytest.mark.independent
def test_an_unstated_schedule_is_an_assumption_and_a_stated_one_is_not() -> None:
    rows = {r.id: r for r in scoring.score(training_cases(), "datasheet").rows}
    assert any("virtual_stages" in a for a in rows["llama3-405b-16k"].assumptions)
    assert not any("virtual_stages" in a for a in rows["gpt3-1024"].assumptions)


@pytest.mark.independent
def test_the_case_of_a_plan_is_the_plan() -> None:
    """The predictor's time of a case is the solver's of the plan, with the same efficiencies."""
    row = evidence.published_plan("gpt3-1024")
    case = next(c for c in training_cases().cases if c.id == row.name)
    for constants, efficiencies in (
        ({}, training.efficiencies_of(row.node.device, row.precision, efficiencies="datasheet")),
        (shipped_constants("training_step"), training.efficiencies_of(row.node.device, row.precision)),
    ):
        ours = training.training_step(
            row.shape, row.plan, catalog.cluster(row.node, 128), global_batch=1536, seq=2048, precision="fp16",
            efficiencies=efficiencies,
        )  # fmt: skip
        assert scoring.predict("training_step", case.inputs, constants).predicted == pytest.approx(ours.time, rel=1e-6)


@pytest.mark.published
def test_the_mixture_is_slower_than_its_floor() -> None:
    """DeepSeek-V3, Table 1: 2,664K H800 hours for 14.8T tokens. Its layout at printed rates, messages free, is faster."""
    run = evidence.measurements("counts")["deepseek-v3-run"]
    assert run.value == pytest.approx(2.664e6 * 3600)
    plan = Plan(pp=16, dp=128, ep=64)
    cluster = catalog.cluster("H800-node", 256)
    s = training.training_step(
        "DeepSeek-V3", plan, cluster, global_batch=15360, seq=4096, precision="fp8", intra_bandwidth=1e18,
        inter_bandwidth=1e18,
        efficiencies="bound",
    )  # fmt: skip
    assert plan.devices == run.inputs["devices"]
    assert 14.8e12 / s.tokens * s.time * 2048 / 3600 < 2.664e6
    assert training.run_time(6 * 37e9 * 14.8e12, 1, 1979e12) / 3600 == pytest.approx(0.461e6, rel=0.01)


# Scores


@pytest.mark.independent
def test_the_sheet_reads_as_it_was_written() -> None:
    sheet = shipped_scores("training_step")
    text = (ROOT / "mlsysim" / "evidence" / "scoring" / "sheets" / "training_step.toml").read_text(encoding="utf-8")
    assert as_toml(sheet) == text
    datetime.date.fromisoformat(sheet.date)
    assert sheet.rows == sum(plain.n for plain, _ in sheet.groups.values())
    mean = sum(honest.mape for _, honest in sheet.groups.values()) / len(sheet.groups)
    assert sheet.leave_one_group_out.mape == pytest.approx(mean, abs=1e-4)
    assert list(sheet.switched) == ["kernels", "step", "software"]
    assert sheet.constants == count_constants(shipped_constants("training_step"))
    assert sheet.leave_one_group_out.mape < min(sheet.baselines.values())


@pytest.mark.independent
def test_a_class_without_scores_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="class with scores"):
        shipped_scores("nothing")


@pytest.mark.slow
def test_a_sample_of_the_shipped_scores_is_that_of_the_rows() -> None:
    """Every tenth source is left out of a fit of its own; the whole sheet takes fifty fits, which the night has."""
    file, shipped = shipped_rows.cases("training_step"), shipped_scores("training_step")
    assert len(file.cases) == shipped.rows
    for group in sorted(shipped.groups)[::10]:
        rows = tuple(c for c in file.cases if c.group == group)
        constants = fit("training_step", [c for c in file.cases if c.group != group])
        honest, printed = (
            score_with(replace(file, cases=rows), constants).summary.groups[group],
            shipped.groups[group][1],
        )
        assert (honest.n, honest.mape, honest.bias) == (
            printed.n,
            pytest.approx(printed.mape, abs=2e-3),  # a fit differs in its last digit between machines
            pytest.approx(printed.bias, abs=2e-3),
        )


@pytest.mark.nightly
@pytest.mark.slow
def test_the_shipped_scores_are_those_of_the_rows(shared: Path) -> None:
    file = shipped_rows.cases("training_step")
    shipped = shipped_scores("training_step")
    again = measure(
        left_out(shared, "training_step"),
        fit_constants.baseline_errors(file),
        datetime.date.fromisoformat(shipped.date),
    )
    assert (again.cases, again.rows, again.constants) == (shipped.cases, shipped.rows, shipped.constants)
    assert again.ladder == pytest.approx(shipped.ladder, abs=2e-3)
    for ours, printed in (
        (again.datasheet, shipped.datasheet),
        (again.leave_one_group_out, shipped.leave_one_group_out),
        *((again.switched[kind], score) for kind, score in shipped.switched.items()),
        *(
            (ours, score)
            for g, pair in shipped.groups.items()
            for ours, score in zip(again.groups[g], pair, strict=True)
        ),
    ):
        assert (ours.n, ours.mape, ours.bias) == (
            printed.n,
            pytest.approx(printed.mape, abs=2e-3),  # a fit differs in its last digit between machines
            pytest.approx(printed.bias, abs=2e-3),
        )
    assert again.baselines == pytest.approx(dict(shipped.baselines), abs=1e-4)


@pytest.mark.independent
def test_a_class_without_kinds_of_constants_can_be_scored_too() -> None:
    file = read_cases(ROOT / "tests" / "data" / "gemm.small.csv")
    sheet: ScoreSheet = measure(leave_out(file), {}, datetime.date(2026, 11, 21))
    assert (sheet.switched, sheet.baselines) == ({}, {})
    assert sheet.rows == len(file.cases)
    assert scores.as_toml(sheet).startswith("# Scores on gemm.small.csv")
