"""``mlsysim sweep``: lists and ranges reach the solver, rows are its answers, and what is refused is said."""

import csv
import io
import json
import math
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

import mlsysim
from mlsysim import catalog, cli, inference, roofline, training
from mlsysim.cli import solvers as swept
from mlsysim.equations import REGISTRY, registered
from mlsysim.parallelism import Plan

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
    for label in registered():
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
            efficiencies="calibrated",
        )
        assert float(r["time_s"]) == pytest.approx(step.time, rel=1e-12)
        assert float(r["memory_bytes"]) == pytest.approx(step.memory.total, rel=1e-12)
        assert r["fits"] == str(step.fits)
    assert {float(r["inter_bandwidth"]) for r in rows} == {12.5e9, 50e9}


@pytest.mark.independent
def test_all_ways_of_context_parallelism_can_be_swept(run: Any) -> None:
    """A ring over two nodes shows its hops; a gathering has every adapter."""
    words = ("model=Llama-3.1-8B", "node=DGX-H100", "nodes=2", "global_batch=16", "seq=8192", "cp=16")
    out, err, _ = run("sweep", "train", *words, "cp_comm_type=p2p,all_gather,a2a,ring")
    rows = table(out)
    assert [r["cp_comm_type"] for r in rows] == ["p2p", "all_gather", "a2a"]
    assert float(rows[0]["time_s"]) > float(rows[1]["time_s"])
    assert "cp_comm_type = 'ring' is not one of p2p, all_gather, a2a" in err


def test_serving_with_all_three_words(run: Any) -> None:
    out, _, _ = run(
        "sweep", "serve", "model=Llama-3.1-8B", "device=H100", "efficiencies=bound,datasheet,calibrated", "tp=1,2",
        "input_len=1024", "output_len=128", "batch=1,32", "--json",
    )  # fmt: skip
    c = json.loads(out)["columns"]
    assert c["tp"] == [1, 1, 2, 2] * 3
    for i, word in enumerate(c["efficiencies"]):
        served = inference.deploy("Llama-3.1-8B", "H100", tp=c["tp"][i], efficiencies=word)
        one = inference.generate(served, input_len=1024, output_len=128, batch=c["batch"][i])
        assert c["e2e_s"][i] == pytest.approx(one.e2e, rel=1e-12)
        assert c["ttft_s"][i] == pytest.approx(one.ttft, rel=1e-12)
        known = one.interval().ends if word == "calibrated" else (None, None)
        assert (c["efficiencies_used"][i], c["low_s"][i], c["high_s"][i]) == (word, *known)


@pytest.mark.independent
def test_energy_over_places_and_times(run: Any) -> None:
    """Watts times seconds times PUE by hand, and grams by hand; 56.039 and 661.926 g/kWh stand in the catalogue."""
    out, _, code = run(
        "sweep", "energy", "device=H100", "devices=8,16", "time=1 day,2 day", "pue=1.25", "grid=France,Poland",
        "token_rate=5000 token/s", "device_embodied=100 kg", "lifetime=1000 day",
    )  # fmt: skip
    rows = table(out)
    assert (code, len(rows)) == (0, 8)
    for r in rows:
        kwh = float(r["devices"]) * 0.7 * float(r["time"]) / 3600 * 1.25
        assert float(r["energy_j"]) == pytest.approx(kwh * 3.6e6)
        assert float(r["carbon_location_kg"]) == pytest.approx(
            kwh * {"France": 56.039, "Poland": 661.926}[r["grid"]] / 1e3
        )
        assert float(r["energy_per_token_j"]) == pytest.approx(float(r["devices"]) * 700 * 1.25 / 5000)
        made = 100 * float(r["devices"]) * float(r["time"]) / 86.4e6
        assert float(r["carbon_embodied_kg"]) == pytest.approx(made)
    assert "water_site_l" not in rows[0], "nothing was given for it"
    out, _, _ = run(
        "sweep", "energy", "peak_power=1 kW", "devices=1", "time=1 h", "pue=1", "nodes=1,2", "host_power=1 kW,3 kW"
    )
    assert [float(r["energy_j"]) / 3.6e6 for r in table(out)] == [2.0, 4.0, 3.0, 7.0]


@pytest.mark.independent
def test_cost_of_rent_and_purchase(run: Any) -> None:
    """One device, everything free but the purchase: 8,766 USD over a year is 1 USD/h, so the break-even share is 1 over the rent."""
    free = ["power=0", "pue=1", "electricity_price=0", "cooling=0", "building=0", "plant_lifetime=1 year", "salary=0"]
    rest = [*free, "devices_per_engineer=1", "network=0", "lifetime=1 year", "price=8766"]
    asked = ["sweep", "cost", "devices=10", "time=1 year", "rental_rate=2 USD/h:4 USD/h:3", "utilisation=0.25,1"]
    out, _, code = run(*asked, *rest)
    assert code == 0
    for r in table(out):
        rent = float(r["rental_rate"]) * 3600
        assert float(r["owned_usd"]) == pytest.approx(87_660)
        assert float(r["rented_usd"]) == pytest.approx(87_660 * rent * float(r["utilisation"]))
        assert float(r["break_even_utilisation"]) == pytest.approx(1 / rent)
        assert r["cheaper"] == ("own" if rent * float(r["utilisation"]) > 1 else "rent")
    named = table(run("sweep", "cost", "devices=1", "time=1 h", "rental_rate=H100-AWS-block-2024,2 USD/h")[0])
    assert [float(r["rented_usd"]) for r in named] == pytest.approx([4.916, 2.0])
    assert set(named[0]) == {"devices", "time", "rental_rate", "rented_usd"}


def test_a_break_even_that_never_comes_is_null(run: Any) -> None:
    parts = ["power=1 kW", "pue=1", "electricity_price=1 USD/kWh", "cooling=0", "building=0", "plant_lifetime=1 year"]
    parts += ["salary=0", "devices_per_engineer=1", "network=0", "lifetime=1 year", "price=8766", "idle_power=0"]
    out, _, _ = run("sweep", "cost", "devices=1", "time=1 year", "rental_rate=0.5 USD/h,3 USD/h", *parts, "--json")
    columns = json.loads(out)["columns"]
    assert columns["break_even_utilisation"] == [None, pytest.approx(0.5)]
    assert columns["break_even_time_s"][0] is None


@pytest.mark.independent
def test_reliability_over_sizes(run: Any) -> None:
    """The time between failures by division, and the goodput by Daly's complete cost function, written out here."""
    out, _, code = run(
        "sweep", "reliability", "nodes=100,1000", "node_mtbf=100 day", "restart=10 min", "checkpoint_bytes=1 TB",
        "storage_bandwidth=100 GB/s", "writer_bandwidth=5 GB/s", "interval=30 min,1 h", "duration=30 day",
    )  # fmt: skip
    assert (code, len(table(out))) == (0, 4)
    for r in table(out):
        mtbf, tau = 100 * 86400 / float(r["nodes"]), float(r["interval"])
        assert float(r["mtbf_s"]) == pytest.approx(mtbf)
        assert float(r["write_time_s"]) == pytest.approx(10.0)
        wanted = tau / (mtbf * math.exp(600 / mtbf) * (math.exp((tau + 10) / mtbf) - 1))
        assert float(r["goodput"]) == pytest.approx(wanted, rel=1e-9)
        assert float(r["expected_failures"]) == pytest.approx(30 * 86400 / mtbf)
    best = table(run(
        "sweep", "reliability", "nodes=100", "node_mtbf=100 day", "restart=0", "model=Llama-3.1-70B,Llama-3.1-8B",
        "storage_bandwidth=1 TB/s", "method=waits",
    )[0])  # fmt: skip
    assert float(best[0]["write_time_s"]) > float(best[1]["write_time_s"])


def test_only_the_number_at_fault_is_left_out(run: Any) -> None:
    """A vector with one bad value costs the others nothing, and the reason names the value."""
    out, err, code = run(*TRAIN[:-1], "seq=0,4096,8192", "tp=1,8")
    good = table(run(*TRAIN[:-1], "seq=4096,8192", "tp=1,8")[0])
    assert code == 0
    assert table(out) == good
    assert "left out 2 of 6 combinations: " in err and "seq = 0.0 is outside" in err
    assert err.count("\n") == 1
    many = run(*TRAIN[:-1], "seq=-3:4:8", "tp=1,8", "--chunk", "3")
    assert len(table(many[0])) == 8 and "left out 8 of 16 combinations in all" not in many[1]


@pytest.mark.parametrize("name", ["tp", "pp", "cp", "ep", "virtual_stages", "micro_batch", "nodes", "global_batch"])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_degree_below_one_is_refused_in_one_line(run: Any, name: str, value: str) -> None:
    asked = [word for word in TRAIN if not word.startswith(name)]
    out, err, code = run(*asked, f"{name}={value}")
    assert (out, code) == ("", 2)
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize("chunk", ["1", "7", "1000"])
def test_chunks_change_nothing(run: Any, chunk: str, tmp_path: Path) -> None:
    asked = ("sweep", "eq-compute-time", "flops=1e9:1e12:10", "peak_flops=1e14,9e14", "efficiency=0.5,1")
    whole, _, _ = run(*asked)
    assert run(*asked, "--chunk", chunk, "--output", str(tmp_path / "t.csv"))[0] == ""
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
        (["serve", "model=Llama-3.1-8B", "device=H100", "measured=x"], "unknown argument of serve 'measured'"),
        (["train", "seq=4096"], "train needs model, node, global_batch; add for example model=..."),
        ([*TRAIN[1:], "seq=8192"], "seq stands there twice"),
        ([*TRAIN[1:], "tp=1.5"], "tp = 1.5 must be a whole number"),
        ([*TRAIN[1:], "tp=1:8"], "tp = '1:8' is not FROM:TO:COUNT"),
        ([*TRAIN[1:], "tp=1:8:1"], "the count '1' of tp must be a whole number in [2, 10,000,000]"),
        ([*TRAIN[1:], "variation=0:1:3:log"], "must start and end above zero"),
        ([*TRAIN[1:], "inter_bandwidth=3 s"], "inter_bandwidth"),
        ([*TRAIN[1:], "tp=3"], "every combination was refused; the first: plan: tp"),
        ([*TRAIN[1:], "efficiencies=fast"], "unknown kind of efficiencies 'fast'"),
        ([*TRAIN[1:], "--best", "3"], "--best and --by belong together"),
        ([*TRAIN[1:], "--best", "0", "--by", "time_s"], "--best 0 must be at least 1"),
        ([*TRAIN[1:], "--best", "3", "--by", "time"], "unknown column 'time'; did you mean 'time_s'"),
        (["kernel", "device=H100", "flops=1", "bytes=1", "--fitting"], "--fitting needs a solver that says what fits"),
        ([*TRAIN[1:], "--chunk", "0"], "chunk = 0 must be a whole number of at least 1"),
        ([*TRAIN[1:], "--output", "no-such-folder/x.csv"], "cannot be written"),
        (["eq-compute-time", "flops=1", "peak_flops=1", "efficiency=0.5,2"], "efficiency"),
        (["eq-compute-time", "flops=1:2:1000000", "peak_flops=1,2", "--json"], "2,000,000 rows are too many for JSON"),
        (["eq-compute-time", "flops=1:9:9", "peak_flops=1e12,0", "efficiency=0.5"], "peak_flops = 0.0 is outside (0, inf)"),
        (["eq-queue-wait", "arrival_rate=1:9:9", "service_time=0.5", "servers=4"], "queue"),
        ([*TRAIN[1:], "tp=inf"], "tp"),
        ([*TRAIN[1:], "tp=1e999"], "tp"),
        (["cost", "devices=1", "time=1 h"], "cost needs price to own, rental_rate to rent"),
        (["cost", "devices=1", "time=1 h", "rental_rate=1 USD/h", "utilisation=0.5,1.2"], "utilisation = 1.2 is outside [0, 1]"),
        (["cost", "devices=1", "time=1 h", "rental_rate=H100-purchase-2023-high"], "is a price in USD, not in USD/s"),
        (["cost", "devices=1", "time=1 h", "rental_rate=1 USD/h", "pue=1.2"], "pue belongs to owning"),
        (["cost", "devices=1", "time=1 h", "price=1", "pue=1.2"], "owning needs lifetime"),
        (["energy", "devices=1", "time=1 h", "device=H100"], "give pue"),
        (["energy", "devices=1", "time=1e308", "pue=1.2", "peak_power=1e3", "--json"], "larger than any float"),
        (["reliability", "nodes=1", "node_mtbf=1 h", "restart=0", "storage_bandwidth=1"], "either model or checkpoint_bytes"),
        (["reliability", "nodes=8,9", "node_mtbf=-1,3", "restart=0", "storage_bandwidth=1", "checkpoint_bytes=1"],
         "node_mtbf = -1.0 is outside (0, inf)"),
        (["serve", "model=Gemma-2-9B", "device=H100", "mean_rate=1", "input_len=1,4", "output_len=512"], "unknown argument of serve 'mean_rate'"),
        (["serve", "model=Gemma-2-9B", "device=H100", "measured=run.json", "input_len=1", "output_len=512"], "unknown argument of serve 'measured'"),
        (["kernel", "device=H1000", "flops=1", "bytes=1"], "unknown device 'H1000'"),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong_and_how_to_mend_it(run: Any, words: list[str], says: str) -> None:
    out, err, code = run("sweep", *words)
    assert (out, code) == ("", 2)
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.independent
def test_a_batch_is_swept_in_the_formats_in_which_serve_asks_for_it(run: Any) -> None:
    out, _, _ = run(
        "sweep", "serve", "model=gpt-oss-120B", "device=B200,H200", "input_len=1000", "output_len=500", "batch=8"
    )
    for row in table(out):
        one = mlsysim.serve("gpt-oss-120B", row["device"], input_len=1000, output_len=500, batch=8)
        assert float(row["e2e_s"]) == pytest.approx(float(one.generation.e2e), rel=1e-12)


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


@pytest.mark.parametrize("endless", [(), ("y",)])
def test_an_answer_that_no_float_holds_is_refused_where_it_may_not_be(
    endless: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    solver = swept.Swept(lambda x: {"y": x * math.inf}, {"x": "1"}, ("y",), endless=endless)
    monkeypatch.setitem(swept.SOLVERS, "endless", solver)
    assert cli.main(["sweep", "endless", "x=1,2", "--json"]) == (0 if endless else 2)
    said = capsys.readouterr()
    assert ("y is larger than any float" in said.err) == (not endless)
    assert "nfinity" not in said.out
