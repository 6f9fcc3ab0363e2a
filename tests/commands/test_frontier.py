"""The frontier: nothing on it is beaten, its numbers are those of its own parts, and bad questions are refused clearly."""

import json
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsysim
from mlsysim import catalog, cli, inference, serving
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.explore import frontier, fronts

SMALL = {"input_len": 1024, "output_len": 512}


@pytest.mark.independent
def test_nothing_on_the_front_is_beaten_and_everything_else_is() -> None:
    found = frontier("gpt-oss-120B", "B200", modes=["aggregated"], **SMALL)
    ends = [(p.user_rate, p.device_rate) for p in found.points]
    assert ends == sorted(ends, key=lambda p: -p[0])
    assert [r for _, r in ends] == sorted(r for _, r in ends)
    for user, rate in found.others[::7]:
        assert any(u >= user and r >= rate for u, r in ends)
    assert len(found.points) + len(found.others) == found.tried


@pytest.mark.independent
def test_money_energy_and_rates_belong_together() -> None:
    found = frontier("Llama-3.1-70B", "H100", price="2 USD/h", **SMALL)
    tdp = catalog.device("H100").tdp
    for p in found.points:
        assert p.user_rate == pytest.approx(1.0 / p.tpot)
        assert p.cost == pytest.approx(2.0 / 3600.0 / p.device_rate * 1e6)
        assert p.energy == pytest.approx(tdp / p.device_rate * 1e6)
        assert p.device_range is None or p.device_range[0] < p.device_rate < p.device_range[1]
        stays = p.ttft + 511.0 * p.tpot  # Little: requests in flight are the rate times how long each stays
        assert p.device_rate * p.devices * stays / 512.0 == pytest.approx(p.concurrency, rel=1e-6)


@pytest.mark.independent
def test_both_pools_count() -> None:
    """Devices are those of the words: replicas times the degrees of each pool, also where both are split alike."""

    def devices(words: str) -> int:
        count, layout = words.split(" x ") if " x " in words else ("1", words)
        return int(count) * math.prod(int(d) for d in re.findall(r"(?:TP|DP)(\d+)", layout))

    found = frontier("gpt-oss-120B", "B200", **SMALL)
    apart = [p for p in found.points if p.mode == "disaggregated"]
    assert apart
    for p in found.points:
        assert p.devices == devices(p.decode) + (devices(p.prefill) if p.prefill else 0), p


@pytest.mark.independent
def test_targets_choose_among_the_points_that_meet_them() -> None:
    found = frontier("Llama-3.1-70B", "H100", ttft=2.0, itl=0.04, **SMALL)
    assert found.best is not None and found.best.ttft <= 2.0 and found.best.tpot <= 0.04
    assert all(p.ttft <= 2.0 for p in found.points)
    assert found.best.device_rate == max(p.device_rate for p in found.points if p.tpot <= 0.04)
    assert frontier("Llama-3.1-70B", "H100", itl=1e-4, **SMALL).best is None


@pytest.mark.independent
def test_a_rate_takes_whole_replicas_of_the_best_point() -> None:
    found = frontier("Llama-3.1-70B", "H100", itl=0.04, rate=300.0, **SMALL)
    best: Any = found.best
    asked, made = 300.0 * SMALL["output_len"], found.devices * best.device_rate  # type: ignore[operator]
    assert found.devices % best.devices == 0 and 0 <= made - asked < best.devices * best.device_rate  # type: ignore[operator]
    few, many = found.devices_range  # type: ignore[misc]
    assert few <= found.devices <= many and found.to_dict()["devices"] == found.devices  # type: ignore[operator]
    assert f"{found.devices:,} ({few:,} to {many:,} in that range) make the tokens of 300 requests/s" in " ".join(
        str(found).split()
    )
    assert frontier("Llama-3.1-70B", "H100", itl=0.04, **SMALL).devices is None
    with pytest.raises(InputError, match="rate = -1"):
        frontier("Llama-3.1-70B", "H100", rate=-1, **SMALL)


@pytest.mark.independent
def test_the_share_within_targets_is_that_of_a_loop_that_is_played() -> None:
    """frontier knew means alone; lengths that vary make some answers slower, as serve has it under a rate."""
    n, tokens, c = 64, (2000, 300), 0.5
    d = inference.deploy("Llama-3.1-8B", "H100")
    pool = serving.Pool(d.split, d.machine, d.efficiencies)
    sizes = dict(zip(("input_len", "output_len"), map(float, tokens), strict=True))
    loop = serving.closed_loop(
        d.work, pool, concurrency=np.array([float(n)]), spread=c, requests_per_user=math.inf, **sizes
    )
    played = mlsysim.simulate(
        "Llama-3.1-8B",
        "H100",
        concurrency=n,
        requests=1500,
        length_variation=c,
        input_len=tokens[0],
        output_len=tokens[1],
    )
    records = played.simulation.records[3 * n : -n]  # type: ignore[union-attr]
    paces, first = ([getattr(r, name) for r in records] for name in ("itl_s", "ttft_s"))
    for share in (0.5, 0.9, 0.95):
        pace = float(loop.tpot[0]) * np.quantile(paces, share) / np.mean(paces)
        assert fronts.share_within(loop, [0], tokens[1] - 1.0, itl=pace)[0] == pytest.approx(share, abs=0.05)
        time = float(loop.ttft[0]) * np.quantile(first, share) / np.mean(first)
        assert fronts.share_within(loop, [0], tokens[1] - 1.0, ttft=time)[0] == pytest.approx(share, abs=0.08)
    both = fronts.share_within(loop, [0], tokens[1] - 1.0, itl=pace, ttft=time)[0]
    assert both < min(fronts.share_within(loop, [0], tokens[1] - 1.0, itl=pace)[0], 0.95)


@pytest.mark.independent
def test_a_front_of_a_quantile_has_only_points_within_the_targets() -> None:
    asked = {"ttft": 2.0, "itl": 0.03, "modes": ["aggregated"], **SMALL}
    rates = [frontier("Llama-3.1-70B", "H100", quantile=q, **asked).best.device_rate for q in (0.5, 0.9, 0.99)]  # type: ignore[union-attr]
    assert rates == sorted(rates, reverse=True) and rates[0] > rates[-1]
    alike = frontier("Llama-3.1-70B", "H100", quantile=0.9, length_variation=0, **asked)
    assert all(p.tpot <= 0.03 for p in alike.points) and alike.to_dict()["quantile"] == 0.9
    none = frontier("Llama-3.1-70B", "H100", quantile=0.9, **{**asked, "ttft": 1e-4})
    assert none.fits and none.best is None and str(none).startswith("NO POINT MEETS TTFT 100 µs")
    for wrong, says in (({"quantile": 1.0}, "quantile = 1"), ({"length_variation": 0.5}, "give them together")):
        with pytest.raises(InputError, match=says):
            frontier("Llama-3.1-70B", "H100", **asked, **wrong)


@pytest.mark.independent
def test_more_ways_never_make_the_front_worse() -> None:
    """What can also run apart, or with speculation that is always right, reads at least as fast at any throughput."""
    plain = frontier("DeepSeek-V3", "B200", modes=["aggregated"], **SMALL)
    for more in (
        frontier("DeepSeek-V3", "B200", **SMALL),
        frontier("DeepSeek-V3", "B200", modes=["aggregated"], acceptance=0.9, **SMALL),
    ):
        for p in plain.points:
            assert any(q.user_rate >= p.user_rate and q.device_rate >= p.device_rate for q in more.points)


@pytest.mark.independent
def test_experts_in_four_bits_and_all_else_in_eight() -> None:
    """Half of what attention and shared parts read in 16 bits, at twice the rate of their products; tried where asked for."""
    four, mixed = (
        frontier("DeepSeek-V3", "B200", modes=["aggregated"], precisions=[name], **SMALL) for name in ("fp4", "fp4-fp8")
    )
    assert {p.precision for p in mixed.points} == {"fp4-fp8"} and mixed.points[-1].device_range is not None
    for p in four.points:
        assert any(q.user_rate >= p.user_rate and q.device_rate >= p.device_rate for q in mixed.points)
    assert all(p.precision != "fp4-fp8" for p in frontier("DeepSeek-V3", "B200", modes=["aggregated"], **SMALL).points)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["DeepSeek-R1", "gpt-oss-120B"])
@pytest.mark.parametrize("device", ["H100", "B200", "GB200-NVL72", "MI355X"])
def test_the_asked_fronts_exist_and_take_under_ten_seconds_of_a_processor(model: str, device: str) -> None:
    before = time.process_time()
    found = frontier(model, device)
    assert time.process_time() - before < 10.0
    assert found.fits and len(found.points) > 10
    assert found.points[0].user_rate > found.points[-1].user_rate
    assert found.chart() is not None and "tokens/s" in str(found)


def test_bad_questions_are_refused_clearly() -> None:
    for bad, what in (
        ({"input_len": 0}, "input_len = 0 must be a whole number"),
        ({"output_len": 2.5}, "output_len = 2.5 must be a whole number"),
        ({"ttft": -1.0}, "ttft = -1.0 must be a number of seconds above zero"),
        ({"itl": float("nan")}, "itl = nan"),
        ({"acceptance": 1.5}, "acceptance = 1.5 must lie between 0 and 1"),
        ({"modes": []}, "modes is empty"),
        ({"pue": 0.5}, "pue = 0.5"),
        ({"price": 2.5}, "price = 2.5 has no unit; write it as in '2.5 USD/h'"),
        ({"price": "2.5"}, "has no unit, and nobody says money in USD/s"),
        ({"price": "0 USD/h"}, "price = 0"),
        ({"max_devices": 0}, "max_devices = 0"),
        ({"precisions": ["fp4"]}, "does not multiply in fp4"),
    ):
        with pytest.raises(InputError, match=what):
            frontier("Llama-3.1-8B", "H100", **bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no routed experts"):
        frontier("Llama-3.1-8B", "B200", precisions=["fp4-fp8"])
    for unknown in ({"modes": ["beside"]}, {"precisions": ["fp3"]}):
        with pytest.raises(UnknownNameError):
            frontier("Llama-3.1-8B", "H100", **unknown)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no peak of Apple-M4-Max in 16, 8 or 4 bits"):
        frontier("Llama-3.1-8B", "M4-Max")
    assert not frontier("DeepSeek-V3", "RTX-4090", **SMALL).fits


@pytest.mark.independent
def test_what_a_token_costs_is_as_uncertain_as_how_many_a_device_makes() -> None:
    for p in frontier("Llama-3.1-70B", "H100", modes=["aggregated"], price="3.6 USD/h", **SMALL).points:
        assert p.device_range and p.cost_range and p.energy_range and p.cost and p.energy
        assert p.cost_range == pytest.approx([1e6 * 1e-3 / rate for rate in reversed(p.device_range)])
        assert p.energy_range[1] / p.energy_range[0] == pytest.approx(p.device_range[1] / p.device_range[0])
        assert p.energy_range[0] < p.energy < p.energy_range[1]


@pytest.mark.independent
def test_cards_split_a_model_over_the_slots_of_their_server() -> None:
    """70 billion parameters in 8 bits fill two cards of 48 GB; eight of them in a server, and no further."""
    found = frontier("Llama-3.1-70B", "L40S", modes=["aggregated"], **SMALL)
    assert {p.decode for p in found.points} <= {"TP2", "TP4", "TP8"} and found.points[0].decode == "TP8"


def test_the_command_prints_draws_and_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["frontier", "--model", "gpt-oss-120B", "--device", "H100", "--input-len", "1024", "--output-len", "512"]
    drawing = tmp_path / "front.svg"
    assert (
        cli.main(
            [*base, "--ttft", "2 s", "--itl", "40 ms", "--mode", "aggregated", "--chart", str(drawing), "--explain"]
        )
        == 0
    )
    assert "tokens/s a device" in capsys.readouterr().out
    assert drawing.read_text(encoding="utf-8").startswith("<svg")
    assert cli.main([*base, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"] == found["front"][-1]
    assert cli.main([*base, "--itl", "1 us"]) == 3
    capsys.readouterr()
    for option, bad in (("--ttft", "2 GB"), ("--itl", "fast"), ("--itl", "0 s")):
        assert cli.main([*base, option, bad]) == 2
        assert f"argument {option}" in capsys.readouterr().err
