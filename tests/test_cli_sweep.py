"""``mlsysim sweep``: lists and ranges reach the solver, rows are its answers, and what is refused is said."""

import csv
import io
import json
import math
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from mlsysim import catalog, cli, inference, roofline, training
from mlsysim.cli import swept
from mlsysim.equations import REGISTRY
from mlsysim.parallelism import Plan
from mlsysim.validation import calibrated, datasheet_efficiencies

TRAIN = ["sweep", "train", "model=Llama-3.1-8B", "node=DGX-H100", "global_batch=64", "seq=4096"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Output, errors and exit code of a command."""

    def call(*words: str) -> tuple[str, str, int]:
        code = cli.main(list(words))
        out = capsys.readouterr()
        return out.out, out.err, code

    return call


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.independent
def test_an_equation_over_lists_and_ranges(run: Any) -> None:
    """2 x layers x batch x tokens x heads x size x 2 bytes, every combination in order."""
    out, _, code = run(
        "sweep", "eq-kv-cache", "layers=32,80", "batch=1:64:4:log", "tokens=1024:4096:4", "kv_heads=8", "head_dim=128"
    )
    rows = table(out)
    wanted = list(product((32, 80), (1, 4, 16, 64), (1024, 2048, 3072, 4096)))
    assert code == 0
    assert [tuple(float(r[n]) for n in ("layers", "batch", "tokens")) for r in rows] == [
        pytest.approx(w) for w in wanted
    ]
    for r, (layers, batch, tokens) in zip(rows, wanted, strict=True):
        assert float(r["kv_cache"]) == pytest.approx(2 * layers * batch * tokens * 8 * 128 * 2)


def test_every_equation_can_be_swept() -> None:
    for label in REGISTRY:
        found = swept.find(label)
        assert set(found.required) <= set(found.numbers)
        assert found.answers == (REGISTRY[label].name,)


def test_words_and_units_reach_the_solver(run: Any) -> None:
    out, _, _ = run("sweep", "kernel", "device=H100,MI300X", "flops=1 TFLOP", "bytes=1 GB,4 GB", "--json")
    found = json.loads(out)
    assert (found["solver"], found["rows"], found["left_out"]) == ("kernel", 4, {})
    c = found["columns"]
    for device, size, time, bound in zip(c["device"], c["bytes"], c["time_s"], c["bound"], strict=True):
        one = roofline.kernel_time(device, flops=1e12, bytes=size)
        assert (time, bound) == (one.time, one.bound)
    assert c["bytes"] == [1e9, 4e9, 1e9, 4e9]


def test_plans_are_checked_and_timed_one_by_one(run: Any) -> None:
    out, err, code = run(
        *TRAIN, "nodes=2", "tp=2,3,8", "recompute=none,full", "inter_bandwidth=100 Gbit/s:400 Gbit/s:2"
    )
    rows = table(out)
    assert code == 0
    assert len(rows) == 8
    assert "left out 4 of 12 combinations: plan: tp x pp x cp = 3 must divide the 16 devices" in err
    for r in rows:
        step = training.training_step(
            "Llama-3.1-8B",
            Plan(tp=int(r["tp"]), dp=16 // int(r["tp"]), recompute=r["recompute"]),
            catalog.cluster("DGX-H100", 2),
            global_batch=64,
            seq=4096,
            inter_bandwidth=float(r["inter_bandwidth"]),
            efficiencies=datasheet_efficiencies("H100"),
        )
        assert float(r["time_s"]) == pytest.approx(step.time, rel=1e-12)
        assert float(r["memory_bytes"]) == pytest.approx(step.memory.total, rel=1e-12)
        assert r["fits"] == str(step.fits)
    assert {float(r["inter_bandwidth"]) for r in rows} == {12.5e9, 50e9}


@pytest.mark.independent
def test_both_ways_of_context_parallelism_can_be_swept(run: Any) -> None:
    """A ring over two nodes shows its hops; a gathering has every adapter."""
    words = ("model=Llama-3.1-8B", "node=DGX-H100", "nodes=2", "global_batch=16", "seq=8192", "cp=16")
    out, err, _ = run("sweep", "train", *words, "cp_comm_type=p2p,all_gather,a2a")
    rows = table(out)
    assert [r["cp_comm_type"] for r in rows] == ["p2p", "all_gather"]
    assert float(rows[0]["time_s"]) > float(rows[1]["time_s"])
    assert "cp_comm_type = 'a2a' is not one of p2p, all_gather" in err


def test_serving_in_both_modes(run: Any) -> None:
    out, _, _ = run(
        "sweep", "serve", "model=Llama-3.1-8B", "device=H100", "mode=datasheet,calibrated", "tp=1,2",
        "input_len=1024", "output_len=128", "batch=1,32", "--json",
    )  # fmt: skip
    c = json.loads(out)["columns"]
    assert c["tp"] == [1, 1, 2, 2] * 2
    for i, mode in enumerate(c["mode"]):
        efficiencies = calibrated("H100") if mode == "calibrated" else inference.DATASHEET
        served = inference.deploy("Llama-3.1-8B", "H100", tp=c["tp"][i], efficiencies=efficiencies)
        one = inference.generate(served, input_len=1024, output_len=128, batch=c["batch"][i])
        assert c["e2e_s"][i] == pytest.approx(one.e2e, rel=1e-12)
        assert c["ttft_s"][i] == pytest.approx(one.ttft, rel=1e-12)


@pytest.mark.parametrize("chunk", ["1", "7", "1000"])
def test_chunks_change_nothing(run: Any, chunk: str, tmp_path: Path) -> None:
    asked = ("sweep", "eq-compute-time", "flops=1e9:1e12:10", "peak_flops=1e14,9e14", "efficiency=0.5,1")
    whole, _, _ = run(*asked)
    assert run(*asked, "--chunk", chunk, "--out", str(tmp_path / "t.csv"))[0] == ""
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == whole
    assert len(table(whole)) == 40


def test_the_best_rows(run: Any) -> None:
    everything = table(run(*TRAIN, "nodes=4", "tp=1,2,4,8", "micro_batch=1,2")[0])
    best = table(
        run(*TRAIN, "nodes=4", "tp=1,2,4,8", "micro_batch=1,2", "--best", "3", "--by", "time_s", "--chunk", "1")[0]
    )
    assert best == sorted(everything, key=lambda r: float(r["time_s"]))[:3]
    found = json.loads(run(*TRAIN, "nodes=4", "tp=1,8", "--best", "1", "--by", "memory_bytes", "--json")[0])
    assert found["columns"]["tp"] == [8]


def test_only_what_fits(run: Any) -> None:
    asked = (*TRAIN, "nodes=1", "tp=1,8", "micro_batch=1,8")
    everything = table(run(*asked)[0])
    assert {r["fits"] for r in everything} == {"True", "False"}
    assert table(run(*asked, "--fitting")[0]) == [r for r in everything if r["fits"] == "True"]
    best = json.loads(run(*asked, "--fitting", "--best", "9", "--by", "time_s", "--json")[0])
    assert set(best["columns"]["fits"]) == {True}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing", "x=1"], "unknown solver 'nothing'"),
        (["eq-kv-cash", "layers=1"], "did you mean 'eq-kv-cache'"),
        (["train", "seq"], "'seq' is not NAME=VALUES"),
        (["train", "sequence=4096"], "unknown argument of train 'sequence'"),
        (["train", "seq=4096"], "train needs model, node, global_batch; add for example model=..."),
        ([*TRAIN[1:], "seq=8192"], "seq stands there twice"),
        ([*TRAIN[1:], "tp=1.5"], "tp = 1.5 must be a whole number"),
        ([*TRAIN[1:], "tp=1:8"], "tp = '1:8' is not FROM:TO:COUNT"),
        ([*TRAIN[1:], "tp=1:8:1"], "the count '1' of tp must be a whole number in [2, 10,000,000]"),
        ([*TRAIN[1:], "variation=0:1:3:log"], "must start and end above zero"),
        ([*TRAIN[1:], "inter_bandwidth=3 s"], "inter_bandwidth"),
        ([*TRAIN[1:], "tp=3"], "every combination was refused; the first: plan: tp"),
        ([*TRAIN[1:], "mode=fast"], "mode = 'fast' is not one of bound, datasheet, calibrated"),
        ([*TRAIN[1:], "--best", "3"], "--best and --by belong together"),
        ([*TRAIN[1:], "--best", "0", "--by", "time_s"], "--best 0 must be at least 1"),
        ([*TRAIN[1:], "--best", "3", "--by", "time"], "unknown column 'time'; did you mean 'time_s'"),
        (["kernel", "device=H100", "flops=1", "bytes=1", "--fitting"], "--fitting needs a solver that says what fits"),
        ([*TRAIN[1:], "--chunk", "0"], "chunk = 0 must be a whole number of at least 1"),
        ([*TRAIN[1:], "--out", "no-such-folder/x.csv"], "cannot be written"),
        (["eq-compute-time", "flops=1", "peak_flops=1", "efficiency=0.5,2"], "efficiency"),
        (["eq-compute-time", "flops=1:2:1000000", "peak_flops=1,2", "--json"], "2,000,000 rows are too many for JSON"),
        (["kernel", "device=H1000", "flops=1", "bytes=1"], "unknown device 'H1000'"),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong_and_how_to_mend_it(run: Any, words: list[str], says: str) -> None:
    out, err, code = run("sweep", *words)
    assert (out, code) == ("", 2)
    assert says in err
    assert err.count("\n") == 1


def test_a_range_has_its_ends_as_given(run: Any) -> None:
    counted, _, _ = run("sweep", "eq-compute-time", "flops=1024:131072:8:log", "peak_flops=1e14")
    assert [float(r["flops"]) for r in table(counted)] == [2.0**n for n in range(10, 18)]
    out, _, _ = run("sweep", "eq-compute-time", "flops=3:7e12:5:log", "peak_flops=1e14")
    given = [float(r["flops"]) for r in table(out)]
    assert (given[0], given[-1]) == (3.0, 7e12)
    assert all(b / a == pytest.approx(math.pow(7e12 / 3, 0.25)) for a, b in pairwise(given))


@pytest.mark.independent
def test_links_of_a_step_may_be_arrays() -> None:
    """What a sweep of bandwidths needs: the vector gives what its elements give one by one."""
    import numpy as np

    plan, job = Plan(tp=8, pp=4, dp=16), {"global_batch": 512, "seq": 8192}
    widths = np.array([10e9, 50e9, 400e9])

    def step(**links: Any) -> Any:
        return training.training_step("Llama-3.1-70B", plan, "H100", **job, **({"inter_bandwidth": 5e10} | links)).time  # type: ignore[arg-type]

    for name in ("intra_bandwidth", "inter_bandwidth"):
        assert step(**{name: widths}) == pytest.approx([step(**{name: float(w)}) for w in widths], rel=1e-12)
        assert step(**{name: widths})[0] > step(**{name: widths})[-1]
