"""The rows that ship: whole, each with a source, read from the package alone, and told as they are."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fit_all
import make_dataset
import pytest

import mlsysim
from mlsysim import cli
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import rows, serving_runs
from mlsysim.evidence.cases import CLASSES

independent = pytest.mark.independent
FOLDER = Path(rows.__file__).parent


@independent
@pytest.mark.parametrize("name", list(CLASSES))
def test_every_row_says_where_it_comes_from(name: str) -> None:
    file = rows.cases(name)
    assert len({c.id for c in file.cases}) == len(file.cases)
    for c in file.cases:
        assert c.set in rows.SETS and c.source in rows.sources() and c.read in ("primary", "secondary", "derived")
        assert c.group and c.measured > 0 and c.tolerance


@independent
def test_every_source_has_rows_and_what_it_cites_is_in_the_bibliography(root: Path) -> None:
    keys = set(re.findall(r"^@\w+\{([^,\s]+)", (root / "references.bib").read_text("utf-8"), re.M))
    used = {row["source"] for name in rows.TABLES for row in rows.row_table(name) if "source" in row}
    assert set(rows.sources()) == used
    for s in rows.sources().values():
        assert s.title and (s.cite in keys or not s.cite), s.name
        assert s.address.startswith("https://") or s.name in ("A3MEGA", "TP3", "SEED1"), s.name
    assert {r.source for of in rows.SETS for r in serving_runs(of).values()} <= keys


@independent
def test_tables_hold_numbers_where_numbers_belong() -> None:
    """Of every table each column is declared; a number reads as one; no table stands in the folder unread."""
    for name, kind in rows.TABLES.items():
        first = next(rows.row_table(name))
        known = {
            "id",
            "set",
            "source",
            "group",
            "where",
            "read",
            "note",
            "tolerance",
            "params",
            "active_params",
            "model",
            kind.measured,
        }
        known |= {"measured_tpot_s", "measured_ttft_s"}
        assert {c for c in first if not kind.kind_of(c)} <= known, name
        assert kind.measured in first
    files = {rows._FILES.get(name, name) for name in rows.TABLES} | {"sources", "shapes", "withdrawn"}
    assert {p.stem for p in FOLDER.glob("*.csv")} == files


@independent
def test_no_column_says_what_others_say() -> None:
    """No column repeats another."""
    for name in ("gemm", "attention", "collective", "training_step", "inference", "serving_tpot", "kernel_attention"):
        table = list(rows.row_table(name))
        agreeing = ("kv_precision", "hidden", "top_k")  # inputs of which no open row says otherwise
        columns = {c: tuple(r[c] for r in table) for c in table[0] if c not in agreeing}
        alike = [(a, b) for a in columns for b in columns if a < b and columns[a] == columns[b] and any(columns[a])]
        assert not alike, (name, alike)


@independent
def test_shapes_are_joined_by_model_and_where_a_source_differs_by_source() -> None:
    """GPT 1.7B is 24 layers of 2304 in Narayanan et al. and 2048 in Megatron's README."""
    widths = {
        c.source: (c.inputs["hidden"], c.inputs["heads"]) for c in rows.cases("training_step", model="GPT 1.7B").cases
    }
    assert widths == {"SC21": (2304.0, 24.0), "MLMrepo": (2048.0, 16.0)}
    dense = rows.cases("training_step", source="SC21").cases[0].inputs
    assert dense["active_params"] == dense["params"]
    mixture = rows.cases("inference", source="DSPROF").cases[0].inputs
    assert mixture["active_params"] < 0.1 * mixture["params"]


@pytest.mark.published
def test_figures_as_their_sources_print_them() -> None:
    """By hand: 1.7B trains 512 sequences of 2,048 at 137 TFLOP/s on each of 32 A100; DeepGEMM and InferSim print times."""
    (row,) = rows.cases("training_step", source="SC21", model="GPT 1.7B").cases
    b, s, layers, h, v = 512, 2048, 24, 2304, 51200
    flops = 96 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    assert row.measured == pytest.approx(flops / (32 * 137e12), rel=1e-4)
    first = next(rows.row_table("kernel_products"))
    assert (first["m"], first["n"], first["k"], first["measured_time_s"]) == (16.0, 6144.0, 2048.0, 10.63e-6)
    share = 2 * 16 * 6144 * 2048 / (first["measured_time_s"] * 296e12)
    assert share == pytest.approx(first["printed_mfu"], rel=1e-3)


@independent
def test_rows_are_selected_by_any_column() -> None:
    both = rows.cases("gemm", set=("first", "second"))
    assert len(both.cases) == sum(len(rows.cases("gemm", set=s).cases) for s in ("first", "second"))
    assert {c.inputs["device"] for c in rows.cases("gemm", device="MI300X").cases} == {"MI300X"}
    head, *_ = both.frame_rows()
    assert {"set", "source", "where", "m", "n", "k", "measured_time_s"} <= set(head)
    assert "rows of gemm" in str(both)
    with pytest.raises(UnknownNameError, match="did you mean 'device'"):
        rows.cases("gemm", devise="MI300X")
    with pytest.raises(UnknownNameError, match="device of gemm 'MI300'"):
        rows.cases("gemm", device="MI300")
    with pytest.raises(InputError, match="no row has set = third, source = AZURE"):
        rows.cases("gemm", set="third", source="AZURE")
    with pytest.raises(UnknownNameError, match="class of cases"):
        rows.cases("../gemm")
    with pytest.raises(UnknownNameError, match="table of rows"):
        list(rows.row_table("../../intervals"))


@independent
def test_the_data_sheet_counts_the_rows() -> None:
    """Run scripts/maintain/fit_all.py when rows came; by hand: lines of each file but the first."""
    text = fit_all.DATA_SHEET.read_text(encoding="utf-8")
    assert fit_all.data_sheet(text) == text
    for c in rows.counts():
        file = FOLDER / f"{rows._FILES.get(c.name, c.name)}.csv"
        out = len(rows.withdrawn().get(file.stem, ()))
        assert c.rows == sum(c.sets.values()) == file.read_text(encoding="utf-8").count("\n") - 1 - out


@independent
def test_every_class_is_fitted_after_those_that_it_reads() -> None:
    """A training step and a server ask the collectives, a first token the steps."""
    order = [name for stage in fit_all.STAGES for name in stage]
    assert sorted(order) == sorted(CLASSES)
    for first, then in (("collective", "training_step"), ("collective", "inference"), ("inference", "serving_tpot")):
        assert order.index(first) < order.index(then)
    (tpot,) = (i for i, stage in enumerate(fit_all.STAGES) if "serving_tpot" in stage)
    assert "serving_ttft" in fit_all.STAGES[tpot + 1]


@independent
def test_the_command_lists_and_scores_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--list"]) == 0
    assert re.search(r"gemm +153 ", capsys.readouterr().out)
    assert cli.main(["validate", "--list", "--class", "gemm", "--set", "third", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) == len(rows.cases("gemm", set="third").cases) and {r["set"] for r in listed} == {"third"}
    assert cli.main(["validate", "--set", "third", "--class", "collective"]) == 0
    assert "of 27 rows supported" in capsys.readouterr().out
    assert cli.main(["validate", "--set", "third", "--cases", "mine.csv"]) == 2
    assert "give one of the two" in capsys.readouterr().err


@independent
def test_a_run_that_ships_calibrates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "fitted.json"
    asked = ["--trace", "llama-3.1-8b-sharegpt", "--model", "Llama-3.1-8B", "--device", "RTX-PRO-6000"]
    assert (
        cli.main(["calibrate", *asked, "--max-num-batched-tokens", "2048", "--max-num-seqs", "128", "-o", str(output)])
        == 0
    )
    assert "300 requests of Llama-3.1-8B on RTX-PRO-6000" in capsys.readouterr().out


@independent
def test_nothing_in_the_repository_reads_rows_from_outside_it(root: Path) -> None:
    """Runs of other programs and our own exported programs may lie beside the checkout; rows do not."""
    if not (root / ".git").exists():
        pytest.skip("an installed package has no repository around it")
    outside = re.compile(
        r"cases_(second|third)|\.open\.csv|\"shared\" / \"reference\" / \"(?!infersim|blis|astrasim|hespas|stablehlo)"
    )
    found = [
        f"{p.relative_to(root)}: {line.strip()[:80]}"
        for folder in ("mlsysim", "scripts", "tests", "book", "notebooks")
        for p in (root / folder).rglob("*")
        if p.suffix in (".py", ".qmd", ".ipynb") and p.name != Path(__file__).name
        for line in p.read_text(encoding="utf-8").splitlines()
        if outside.search(line)
    ]
    assert found == []
    assert mlsysim.__file__


@independent
def test_a_withdrawn_row_stays_in_its_file_and_is_read_by_nobody() -> None:
    out = rows.withdrawn()["serving"]
    with (FOLDER / "serving.csv").open(encoding="utf-8", newline="") as file:
        whole = list(csv.DictReader(file))
    ids = [r["id"] for r in whole]
    assert set(out) <= set(ids) and len(out) == 134
    for name in ("serving_tpot", "serving_ttft"):
        assert {c.id for c in rows.cases(name).cases} == set(ids) - set(out)
    assert not {r["id"] for r in rows.row_table("serving_tpot")} & set(out)
    # the rule takes all points of a layout at once, fast and slow ones: every length and number of users of its recipe
    gone = [
        r for r in whole if r["id"] in out and r["model"] == "Qwen3.5-397B-A17B" and r["where"].startswith("2026-04-06")
    ]
    assert len(gone) == 21 == 3 * len({r["concurrency"] for r in gone})


@independent
def test_others_read_the_tables_without_us(tmp_path: Path) -> None:
    """The folder alone, an interpreter without packages; types and rows are those that we read, and a changed file is refused."""
    folder = tmp_path / "rows"
    shutil.copytree(FOLDER, folder)
    script = "from read_rows import read; import json; r = read('serving'); print(json.dumps([len(r), r[0]]))"

    def alone(what: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {what}"]
        return subprocess.run(command, capture_output=True, text=True)

    count, first = json.loads(alone(script).stdout)
    assert count == len(rows.cases("serving_tpot").cases)
    mine = next(iter(rows.row_table("serving_tpot")))
    assert (
        first["id"] == mine["id"]
        and first["measured_tpot_s"] == mine["measured_tpot_s"]
        and first["poll_steps"] is None
    )
    (folder / "gemm.csv").write_text("id\n", encoding="utf-8")
    assert "sha256 differs" in alone("from read_rows import read; read('gemm')").stderr


@pytest.mark.regression
def test_the_metadata_are_those_of_the_tables() -> None:
    """Run scripts/maintain/make_dataset.py when a table has changed."""
    assert make_dataset.OUTPUT.read_text(encoding="utf-8") == make_dataset.croissant()
    said = json.loads(make_dataset.croissant())
    assert {r["@id"] for r in said["recordSet"]} >= {"serving", "training_step", "sources", "withdrawn"}
