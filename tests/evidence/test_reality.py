"""Reality checks: the published rows say where they come from, convert as printed, and their scores are those committed."""

import csv
import dataclasses
import io
import json
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from mlsysim import cli, intervals
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import reality
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence.cases import CLASSES, TABLED
from mlsysim.evidence.predictors import PREDICTORS, scalar_rules
from mlsysim.evidence.predictors.base import Row
from mlsysim.evidence.reality import PublishedRow, leave_one_out, measured, simple
from mlsysim.evidence.reality import published as tables
from mlsysim.evidence.reality import report as reports
from mlsysim.evidence.scoring import predict
from mlsysim.evidence.scoring.domains import domain_of

FOLDER = ROOT / "mlsysim" / "evidence" / "reality"
MOST = {"training_step": 8, "inference": 12, "gemm": 6, "attention": 6, "collective": 8, "memory": 8, "scalar": 8}


@pytest.fixture(scope="module")
def checks() -> dict[str, reality.ClassCheck]:
    return {c.name: c for c in reality.check_all()}


def every_row() -> list[PublishedRow]:
    return [row for name in TABLED for row in reality.rows(name)]


def bibliography() -> dict[str, str]:
    text = (ROOT / "references.bib").read_text("utf-8")
    return dict(re.findall(r"^@\w+\{([^,\s]+),(.*?)^\}", text, re.M | re.S))


# What the table promises


def test_there_are_enough_rows_of_every_kind() -> None:
    found = every_row()
    assert len(found) >= 250
    assert sum(r.case_class in ("training_step", "inference") for r in found) >= 150
    assert {r.case_class for r in found} == set(TABLED)
    assert {r.category for r in found} >= set(reality.CATEGORIES), "every category of the roofline page"


def test_every_row_names_a_source_that_the_bibliography_holds() -> None:
    known = bibliography()
    for r in every_row():
        assert r.source in known, f"{r.case_class} {r.case.id}: {r.source} is not in references.bib"
        assert r.where and r.read in ("primary", "secondary")
    nameless = "rooflinepage2026"  # the page states neither author nor address, and its entry says so
    for key in {r.source for r in every_row()} - {nameless}:
        for field in ("title", "year", "url"):
            assert re.search(rf"^\s*{field}\s*=", known[key], re.M), f"{key} has no {field}"


def test_no_group_brings_more_rows_than_the_rule_allows() -> None:
    for name, most in MOST.items():
        groups = Counter(r.case.group for r in reality.rows(name))
        assert max(groups.values()) <= most, f"{name}: {groups.most_common(1)}"


def test_ids_are_unique_and_tolerances_sensible() -> None:
    for name in TABLED:
        ids = [r.case.id for r in reality.rows(name)]
        assert len(set(ids)) == len(ids)
    for r in every_row():
        assert r.case.tolerance is not None and 0 < r.case.tolerance <= 0.5
        assert r.case.measured > 0


def test_rows_have_the_columns_of_case_files() -> None:
    for r in every_row():
        kind = CLASSES[r.case_class]
        if kind.numbers or kind.objects:  # a class that is only recognised has no columns yet
            extra = {c for c in r.case.inputs if not kind.kind_of(c)}
            assert extra <= {"model", "basis"}, f"{r.case.id}: {extra}"


def test_the_data_are_small_and_read_only_when_asked_for() -> None:
    assert sum(p.stat().st_size for p in FOLDER.iterdir() if p.is_file()) < 150_000
    code = "import mlsysim, mlsysim.evidence, sys; assert 'mlsysim.evidence.reality' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=600)


# Conversions against others


@pytest.mark.published
def test_a_printed_rate_and_a_printed_time_of_one_run_agree() -> None:
    """Korthikanti, table 5: 175B takes 13.75 s a step at 51.4 % of 312 TFLOP/s, and 18.13 s where the rest is in FLOPs."""
    row = next(r for r in reality.rows("training_step") if r.case.id == "KORT-04")
    shape = reality.shapes()[row.model]
    time = measured("TFLOP/s/device, matmul-full", 0.514 * 312, row.case.inputs, shape)
    assert time == pytest.approx(row.case.measured, rel=0.002)
    hardware = measured("TFLOP/s/device, megatron", 0.514 * 312, row.case.inputs, shape)
    assert hardware / time == pytest.approx(4 / 3, rel=0.01), "a fourth pass over the layers, none over the head"


@pytest.mark.independent
@pytest.mark.parametrize("name", sorted(TABLED))
def test_the_compilation_converts_the_same_figures_to_the_same_values(name: str) -> None:
    """Somebody else's conversions, row by row, but for rows that we add and one that we read differently."""
    theirs: dict[str, list[float]] = {}
    for case in shipped_rows.cases(name, set="first").cases:
        theirs.setdefault(case.group, []).append(case.measured)
    ours = {"MTNLG-02", "MTNLG-03", "BLOOMREP-02", "SEED1-02", "SEED1-03"}
    compared = 0
    for r in reality.rows(name):
        if r.case.group not in theirs or (name == "memory" and r.case.group == "KORT") or r.case.id in ours:
            continue
        compared += 1
        nearest = min(theirs[r.case.group], key=lambda v: abs(v - r.case.measured))
        assert r.case.measured == pytest.approx(nearest, rel=1e-4), r.case.id
    assert compared >= 6


# What is in the fit


def test_a_row_is_in_the_fit_when_its_group_is_and_it_uses_a_constant(checks: dict[str, reality.ClassCheck]) -> None:
    for check in checks.values():
        for r in check.rows:
            uses = predict(check.name, r.row.case.inputs, {}).predicted != r.score.predicted
            assert r.in_sample == (uses and r.row.case.group in reports.fitted_groups(check.name))
    memory = checks["memory"]
    assert memory.in_sample("L32B") == 2 and memory.in_sample("KORT") == memory.in_sample("FT") == 0, (
        "closed forms use no constant"
    )
    fresh = {"MB2509", "MB2608"}  # in neither round of cases
    assert not fresh & reports.fitted_groups("training_step")
    assert {r.row.case.group for r in checks["training_step"].rows if not r.in_sample} >= fresh


def test_without_shipped_constants_nothing_is_in_the_fit() -> None:
    assert not any(r.in_sample for r in reality.check_class("gemm", "datasheet").rows)
    honest = reality.check_class("gemm", leave_one_group_out=True)
    assert honest.inside is None and honest.outside == honest.summary


@pytest.mark.independent
def test_the_range_is_judged_by_rows_that_no_constant_has_seen(checks: dict[str, reality.ClassCheck]) -> None:
    """Counted here by logarithms from the shipped spreads; a row of the fit, or one without a prediction, holds nothing."""
    for name in ("training_step", "inference"):
        check = checks[name]
        held: dict[str, list[bool]] = {}
        for r in check.rows:
            if not r.in_sample:
                p, m = r.score.predicted, r.score.measured
                q = intervals.interval(name, 1.0, domain_of(name, r.row.case.inputs)).quantiles
                inside = p is not None and abs(math.log(p / m)) <= q.high <= math.log(2.5)
                held.setdefault(r.row.case.group, []).append(inside)
        assert check.unseen() == {group: (sum(rows), len(rows)) for group, rows in held.items()}
        assert sum(n for _, n in check.unseen().values()) == sum(not r.in_sample for r in check.rows) >= 8
    assert reality.check_class("training_step", "datasheet").unseen() == {}


# Scores


def test_every_class_with_a_predictor_predicts_its_rows(checks: dict[str, reality.ClassCheck]) -> None:
    for name, check in checks.items():
        if name in PREDICTORS:
            lost = [f"{r.row.case.id}: {r.score.reason}" for r in check.rows if not r.score.supported]
            assert lost == []
        else:
            assert {r.score.reason for r in check.rows} == {f"{name} is not modelled yet"}


def test_what_lies_beyond_its_tolerance_among_the_worst_has_a_reason(checks: dict[str, reality.ClassCheck]) -> None:
    for check in checks.values():
        for r in check.worst():
            if abs(r.score.error or 0.0) > (r.row.case.tolerance or 0.0):
                assert r.reason != "not explained", f"{check.name} {r.row.case.id}: say why in reality/reasons.toml"


def test_reasons_are_given_for_groups_that_exist() -> None:
    for name, given in reports.reasons().items():
        assert set(given) <= {r.case.group for r in reality.rows(name)}, name


@pytest.mark.regression
def test_the_committed_summary_is_what_the_library_gives_today() -> None:
    """A changed prediction shows in a review: run scripts/make_book_parts.py and look at the difference."""
    import book_reality

    committed = list(csv.reader((ROOT / "book" / "reality-summary.csv").open(encoding="utf-8")))
    today = list(csv.reader(io.StringIO(book_reality.summary())))
    assert [row[:5] for row in committed] == [row[:5] for row in today]
    for old, new in zip(committed[1:], today[1:], strict=True):
        assert [float(c or "nan") for c in old[5:]] == pytest.approx(
            [float(c or "nan") for c in new[5:]], abs=2e-4, nan_ok=True
        ), old[:2]


# Estimates without structure


def test_a_roofline_is_a_bound_on_what_was_measured() -> None:
    """Model FLOPs at the dense peak, weights at full bandwidth: nobody is faster, but where less is done than counted."""
    for name in set(simple.ROOFLINES) - {"collective"}:  # a switch adds, and copies stay on their node
        for r in reality.rows(name):
            if r.case.inputs.get("task") == "lora":
                continue  # no gradients of frozen weights
            assert simple.roofline(name, r.case.inputs) < r.case.measured * 1.01, r.case.id
    with pytest.raises(InputError, match="'memory' has no roofline"):
        simple.roofline("memory", {})


@pytest.mark.independent
def test_no_group_grades_itself() -> None:
    """Ten times slower rows of one group leave its own one-constant error factor tenfold, not its efficiency."""
    file = reality.case_file("gemm")
    slow = dataclasses.replace(
        file,
        cases=tuple(dataclasses.replace(c, measured=10 * c.measured) if c.group == "MLE" else c for c in file.cases),
    )
    before, after = simple.score_one_constant(file), simple.score_one_constant(slow)
    assert after.groups["MLE"].bias == pytest.approx((1 + (before.groups["MLE"].bias or 0.0)) / 10 - 1)


def test_the_structured_model_beats_both_on_training() -> None:
    file = reality.case_file("training_step")
    ours = reality.honest("training_step").mape
    one, roof = simple.score_one_constant(file), simple.score_roofline(file)
    assert ours < one.mape_mean_over_groups < roof.mape_mean_over_groups
    assert simple.share_within(file, 0.5, 1e9) == 1.0
    assert simple.share_within(file, 0.5, 0.0) == 0.0


@pytest.mark.published
def test_rules_as_scalars() -> None:
    """The playbook's loss of 42.7 % from TP 8 to 16, and the roofline page's two classes."""
    found = {}
    for r in reality.rows("scalar"):
        rule = scalar_rules.QUANTITIES.get(r.case.inputs["quantity"])
        if rule:
            found[r.case.id] = rule(Row(r.case.inputs["inputs"])) / r.case.measured - 1
    assert found["ULTRA-02"] == pytest.approx(0.0, abs=0.05)
    assert found["ULTRA-01"] == pytest.approx(0.0, abs=0.1)
    assert found["SEED1-02"] == found["SEED1-03"] == 0.0


@pytest.mark.regression
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in ("training_step", "inference") else n for n in TABLED],
)
def test_the_shipped_scores_with_one_group_left_out_are_fresh(name: str) -> None:
    """Run scripts/maintain/score_reality.py when a model or a constant has changed."""
    shipped, today = reality.honest(name), leave_one_out.measure(name)
    assert (shipped.mape, shipped.within) == pytest.approx((today.mape, today.within), abs=2e-3)
    assert dict(shipped.groups) == pytest.approx(dict(today.groups), abs=5e-3)


# Tables that are not what they should be


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [[1.0, 2.0]]}, "2 cells under 1 columns"),
        ({"source": None}, "no 'source'; every row states it, or its table does"),
        ({"read": "tertiary"}, "read = 'tertiary' is not one of primary, secondary"),
        ({"metric": "parsec"}, "unknown metric 'parsec'"),
    ],
)
def test_a_malformed_table_names_file_and_row(
    change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {
        "group": "G",
        "source": "nobody2026",
        "where": "p. 1",
        "read": "primary",
        "metric": "ms",
        "tolerance": 0.1,
        "common": {"device": "H100", "precision": "bf16", "groups": 1, "m": 8, "n": 8, "k": 8},
        "columns": ["printed"],
        "rows": [[1.0]],
    }
    table = {k: v for k, v in (table | change).items() if v is not None}
    monkeypatch.setattr(tables, "_tables", lambda file: [table])
    with pytest.raises((InputError, UnknownNameError), match=re.escape(message)):
        tables.rows.__wrapped__("gemm")


def test_a_class_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'gemm'"):
        reality.rows("gem")


# The command


def test_validate_without_a_file_runs_the_reality_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate"]) == 0
    out = capsys.readouterr().out
    assert f"{len(every_row())} published figures" in out
    for name in TABLED:
        assert f"\n{name}: " in out
    for category in reality.CATEGORIES:
        assert f"\n{category}" in out
    assert "rows outside it" in out and "furthest off: " in out


def test_validate_can_be_asked_for_one_class_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--class", "collective", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert [c["class"] for c in out["classes"]] == ["collective"]
    (one,) = out["classes"]
    assert {"summary", "in_sample", "out_of_sample", "rows", "mode", "class"} == set(one)
    row = one["rows"][0]
    assert {"id", "error", "printed", "metric", "source", "where", "read", "in_sample", "assumptions"} <= set(row)
    assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)
    assert cli.main(["validate", "--class", "collectiv"]) == 2
    assert "did you mean 'collective'" in capsys.readouterr().err


def test_the_rule_stands_beside_the_data() -> None:
    rule = (FOLDER / "README.md").read_text("utf-8")
    for name, most in MOST.items():
        assert f"{name} {most}" in rule
    assert Path(FOLDER / "conversions.py").is_file()


def test_the_readme_says_how_many_of_the_figures_are_in_the_fit(checks: dict[str, reality.ClassCheck]) -> None:
    total = sum(c.summary.n for c in checks.values())
    in_fit = sum(r.in_sample for c in checks.values() for r in c.rows)
    text = (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"(\d+) published figures", text) == [str(total)] * 2
    assert re.findall(r"(\d+) of them in the fit", text) == [str(in_fit)] * 2
