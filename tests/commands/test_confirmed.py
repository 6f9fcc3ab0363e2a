"""``serve`` and a steady ``simulate`` agree within a replica or 5 %, or the answer itself says why they do not."""

import os
import random
from typing import Any

import pytest

import mlsysim
from mlsysim import SLO, cli
from mlsysim.api import confirming

independent = pytest.mark.independent
MODELS = ("Llama-3.1-8B", "Qwen3-32B", "gpt-oss-120B", "Llama-3.3-70B", "Qwen3-30B-A3B")
DEVICES = ("H100", "H200", "B200", "MI300X")
DAY = int(os.environ.get("MLSYSIM_SEED") or 0)
QUESTIONS, SAMPLED = 60, 4


@pytest.fixture(autouse=True)
def full_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirming, "_STEPS", 160_000)


def question(seed: int) -> tuple[str, str, dict[str, Any]]:
    """A question drawn by its seed."""
    draw = random.Random(seed)
    model, device, prompt = draw.choice(MODELS), draw.choice(DEVICES), draw.choice((300, 1000, 3000, 6000))
    slo = SLO(
        ttft=draw.choice((0.5, 1.0, 2.0)),
        itl=draw.choice((0.02, 0.03, 0.05, 0.08)),
        quantile=draw.choice((0.9, 0.95, 0.99)),
    )
    asked = {
        "input_len": prompt, "output_len": draw.choice((100, 250, 700)), "rate": draw.choice((2, 5, 15, 40, 80)), "slo": slo,
        "length_variation": draw.choice((0.0, 0.5, 0.9)),
    }  # fmt: skip
    kinds = (
        {},
        {},
        {},
        {"cached_len": prompt // 2},
        {"shared_len": prompt // 2},
        {"traffic": "chats"},
        {"traffic": "agents"},
    )
    more = draw.choice(kinds)
    if "traffic" in more:  # whose prompts follow from their turns
        del asked["input_len"]
    return model, device, asked | more


@pytest.mark.slow
@independent
@pytest.mark.parametrize(
    "seed",
    [
        *(DAY * SAMPLED + k for k in range(SAMPLED)),
        *(pytest.param(k, marks=pytest.mark.nightly) for k in range(SAMPLED, QUESTIONS)),
    ],
)
def test_serve_and_simulate_agree_or_the_answer_says_why(seed: int) -> None:
    model, device, asked = question(seed)
    s = mlsysim.serve(model, device, **asked)
    if not s.answered:
        assert s.reason
        return
    load, found = s.load, s.simulated
    assert found is not None and load is not None, (model, device, asked)
    assert found.met is not None, "a run that is not steady"
    assert found.text in " ".join(str(s).split())
    if found.replicas is None:  # long answers, and time for one run alone
        assert found.met
        return
    if abs(found.replicas - s.replicas) <= max(1, 0.05 * s.replicas):
        assert not found.reason or (s.question.kept.turns is not None and found.replicas < s.replicas)
        return
    assert found.reason and found.reason in found.text
    ratios = [found.itl_quantile_s / float(load.itl_quantile), found.ttft_quantile_s / float(load.ttft_quantile)]
    assert max(abs(r - 1) for r in ratios) > 0.05  # the latency that is named differs indeed


@pytest.mark.slow
@independent
@pytest.mark.parametrize(("device", "more"), [("H200", {}), ("B200", {"shared_len": 4000})])
def test_one_replica_of_many_is_played_for_all(device: str, more: dict[str, Any]) -> None:
    """The whole fleet, played with its router, has the latencies of the one replica that confirms the answer."""
    asked = {"rate": 40, "input_len": 6000, "output_len": 300, "slo": SLO(ttft=1.0, itl=0.03, quantile=0.9)}
    s = mlsysim.serve("gpt-oss-120B", device, **asked, **more)
    found, load = s.simulated, s.load
    assert found is not None and load is not None
    fleet = mlsysim.simulate(
        "gpt-oss-120B", device, **asked, **more, replicas=s.replicas, tp=s.deployment.split.tp, max_num_seqs=load.replica.max_running
    )  # fmt: skip
    assert fleet.steady
    assert fleet.mean("ttft_s.p90") == pytest.approx(found.ttft_quantile_s, rel=0.15)
    assert fleet.mean("itl_s.p90") == pytest.approx(found.itl_quantile_s, rel=0.06)


def test_an_answer_repeats_its_targets(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "--rate 40 --input-len 6000 --output-len 700 --ttft 1.5s --itl 30ms --quantile 0.95"
    assert cli.main(["serve", "--model", "gpt-oss-120B", "--device", "H200", *asked.split()]) == 0
    said = capsys.readouterr().out.strip()
    assert len(said.split("\n")) <= 15
    assert "within TTFT 1.5 s, ITL 30 ms for 95 % of the requests" in " ".join(said.split())
    assert "simulated: " in said and "binds: the target for" in said


def test_a_token_every_half_minute_is_a_unit_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--model", "Llama-3.1-8B", "--device", "H100", "--rate", "1", "--itl", "30"]) == 2
    assert "write '30 ms'" in capsys.readouterr().err


def test_a_checkpoint_in_four_bits_is_multiplied_so_where_the_device_does() -> None:
    asked = {"rate": 40, "input_len": 6000, "output_len": 700, "slo": SLO(ttft=1.5, itl=0.03, quantile=0.95)}
    fast, wide = (
        mlsysim.serve("gpt-oss-120B", "B200", **asked),
        mlsysim.serve("gpt-oss-120B", "B200", **asked, precision="bf16"),
    )
    assert (fast.deployment.precision, fast.deployment.experts) == ("fp4", "mxfp4")
    assert (wide.deployment.precision, wide.deployment.experts) == ("bf16", "mxfp4")  # weights stay as published
    assert fast.devices < wide.devices
    changes = dict(fast.sensitivities)
    assert changes["bf16 products instead of fp4"].startswith(
        f"{wide.devices} devices ({wide.devices - fast.devices} more)"
    )
    assert "fp8 cache" in changes and "routing least-loaded" in changes
