"""Prefixes that are in the cache count in ``serve`` as they do in ``simulate``; what cannot count is refused."""

import math
import random
from typing import Any

import pytest

import mlsysim
from mlsysim import SLO, cli, inference
from mlsysim.api.prefixes import Prefixes
from mlsysim.errors import MlsysimError
from mlsysim.serving_steps import Batch, step_model

independent = pytest.mark.independent
GOAL = SLO(ttft=1.5, itl=0.03, quantile=0.95)
ASKED: dict[str, Any] = {"rate": 40, "input_len": 6000, "output_len": 700, "slo": GOAL}


@independent
def test_a_cached_prefix_is_not_computed_again() -> None:
    """It was ignored as soon as there was a rate or a target: the answer was the same byte for byte (J1)."""
    plain, found = (mlsysim.serve("gpt-oss-120B", "B200", **ASKED, **more) for more in ({}, {"cached_len": 4000}))
    assert found.devices < plain.devices
    d, r = found.deployment, found.load.replica  # type: ignore[union-attr]
    assert r.prefill_time == pytest.approx(float(inference.prefill(d, input_len=6000, cached_len=4000).time))
    half = mlsysim.serve("gpt-oss-120B", "B200", **ASKED, cached_len=4000, hit_rate=0.5)
    assert found.devices <= half.devices <= plain.devices
    mean = half.load.replica.prefill_time  # type: ignore[union-attr]
    assert mean == pytest.approx((r.prefill_time + float(inference.prefill(d, input_len=6000).time)) / 2)


@independent
def test_a_shared_prefix_is_held_once() -> None:
    asked = {"rate": 30, "input_len": 30_000, "output_len": 300, "slo": SLO(ttft=3.0), "tp": 2}
    own, shared = (
        mlsysim.serve("Qwen3-32B", "H200", **asked, **{name: 28_000}).load.replica  # type: ignore[union-attr]
        for name in ("cached_len", "shared_len")
    )
    assert own.prefill_time == shared.prefill_time and own.prompt_variation == pytest.approx(
        shared.prompt_variation, rel=0.1
    )
    assert shared.max_running > 5 * own.max_running or shared.max_running == 256  # what the server runs at most
    assert own.step_times[0] == shared.step_times[0]  # a step reads it all the same


@independent
def test_what_idle_conversations_leave_fills_the_cache() -> None:
    """The room is what arrives in the characteristic time: played as a queue of tokens, the oldest first."""
    p = Prefixes(5000.0, 200.0, 4700.0, 1.0, 500.0, turns=4.0, pause=20.0)
    rate, room = 2.0, 150_000.0
    time = -20.0 * math.log(1 - p.kept(rate, room))
    steps = 200_000
    dt = time / steps
    there = sum(0.75 * math.exp(-(i + 0.5) * dt / 20.0) + 0.25 for i in range(steps)) * dt
    assert rate * 4700 * there == pytest.approx(room, rel=1e-3)
    assert p.kept(rate, 0.0) == 0.0 and p.kept(rate, 1e12) == pytest.approx(1.0)


@independent
def test_a_prompt_costs_answers_what_it_adds_to_their_steps() -> None:
    """It was priced at its pass alone, which reads all experts that the answers of its step read anyway."""
    s = mlsysim.serve(
        "Qwen3-30B-A3B",
        "H100",
        rate=40,
        input_len=300,
        output_len=100,
        slo=SLO(ttft=1.0, itl=0.04),
        length_variation=0.0,
    )
    r: Any = s.load.replica  # type: ignore[union-attr]
    steps, n = step_model(s.deployment), r.max_running
    answers = [350.0] * n
    alone, bare, both = (
        float(steps.time(Batch.of(steps.model, prompts, decodes)))
        for prompts, decodes in (([(300, 0)], []), ([], answers), ([(300, 0)], answers))
    )
    assert r.prefill_time == pytest.approx(alone) and r.added_times[-1] == pytest.approx(both - bare, rel=0.02)
    assert r.added_times[-1] < alone / 5 and r.prompt_steps == 1
    assert r.itl(n) == pytest.approx(bare + (n - 1) * (both - bare) / 100)
    asked = {"rate": 4, "output_len": 100, "slo": SLO(ttft=20.0)}
    whole, chunked = (mlsysim.serve("Qwen3-30B-A3B", "H100", input_len=n, **asked).load.replica for n in (8000, 24_000))  # type: ignore[union-attr]
    assert whole.prompt_steps == 1 and chunked.prompt_steps == pytest.approx(24_000 / 8192)


@independent
def test_turns_are_lost_while_conversations_hold_more_than_the_cache() -> None:
    """Agents were said to find everything as long as those of an average hour fit; their number and their lengths are chance."""
    turns, added, pause, rate, running = 20.0, 1000.0, 0.001, 1.0, 200_000.0
    p = Prefixes(4000 + 19 * added + 800, 200.0, 4000 + 19 * added, 1.0, 4000.0, turns=turns, pause=pause)
    context, rng, weights, fits = 20 * added, random.Random(2), 0.0, {250_000.0: 0.0, 350_000.0: 0.0, 600_000.0: 0.0}
    for _ in range(20_000):  # conversations under way: a Poisson number, each at some turn of its own
        number, left = 0, rng.expovariate(running / context)
        while left < 1:
            number, left = number + 1, left + rng.expovariate(running / context)
        held = sum(added * (1 + int(math.log(1 - rng.random()) / math.log(1 - 1 / turns))) for _ in range(number))
        weights += held
        for room in fits:
            fits[room] += held * (held < room)
    for room, kept in fits.items():
        assert p.hits(rate, room, running) == pytest.approx(kept / weights, abs=0.03)
    assert 0.25 < p.hits(rate, 250_000.0, running) < 0.6 and p.hits(rate, 600_000.0, running) > 0.95


@independent
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("replicas", "holds"), [(10, False), (12, True)])
def test_agents_fill_the_cache_in_hours_where_the_answer_says_so(replicas: int, holds: bool) -> None:
    """In 20,000 turns; in 2,000 of them, as were played before, ten replicas seemed to do."""
    asked: dict[str, Any] = {"slo": SLO(ttft=1.0, itl=0.03, quantile=0.9), "traffic": "agents", "tp": 1}
    s = mlsysim.serve("Llama-3.1-8B", "H100", rate=20, **asked)
    assert (s.replicas <= replicas) == holds
    found = mlsysim.simulate(
        "Llama-3.1-8B", "H100", rate=20 / replicas, requests=20_000, seed=7, prefix_tree=True,
        max_num_seqs=s.load.replica.max_running, **asked,  # type: ignore[union-attr]
    )  # fmt: skip
    assert found.mean("met") > 0.9 if holds else found.mean("met") < 0.5


@independent
@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{"cached_len": 4000}, {"shared_len": 4000}, {"cached_len": 4000, "hit_rate": 0.5}], ids=str
)
def test_the_simulator_finds_the_same_prefix(more: dict[str, Any]) -> None:
    s = mlsysim.serve("gpt-oss-120B", "B200", **ASKED, **more)
    load: Any = s.load
    played = mlsysim.simulate(
        "gpt-oss-120B", "B200", **ASKED, **more, requests=3000, replicas=s.replicas, tp=s.deployment.split.tp,
        max_num_seqs=load.replica.max_running,
    )  # fmt: skip
    run: Any = played.simulation
    computed = run.prefill_tokens / sum(r.request.input_len for r in run.records)
    assert computed == pytest.approx(1 - 4 / 6 * more.get("hit_rate", 1.0), abs=0.01)
    late = sorted(r.ttft_s for r in run.records)[int(0.95 * 3000)]
    assert late == pytest.approx(load.ttft_quantile, rel=0.35)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"hit_rate": 0.5}, "hit_rate is of cached_len"),
        ({"cached_len": 6000}, "one token is new"),
        ({"cached_len": 1000, "shared_len": 2000}, "counts the shared_len"),
        ({"traffic": "chats"}, "grow by added_len"),
        ({"turns": 3}, "turns needs traffic"),
        ({"traffic": "talks", "input_len": None}, "talks"),
        ({"batch": 4}, "batch = 4 is of a static batch"),
    ],
)
def test_what_cannot_count_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(MlsysimError, match=says):
        mlsysim.serve("Llama-3.1-8B", "H100", **(ASKED | more))


@pytest.mark.parametrize("more", [{"shared_len": 10}, {"hit_rate": 0.5, "cached_len": 10}, {"length_variation": 1.0}])
def test_a_static_batch_refuses_what_is_of_a_load(more: dict[str, Any]) -> None:
    with pytest.raises(MlsysimError, match="rate or targets"):
        mlsysim.serve("Llama-3.1-8B", "H100", **more)


def test_conversations_are_sized() -> None:
    asked: dict[str, Any] = {"rate": 40, "slo": SLO(ttft=1.0)}
    for kind, said in (("chats", 3 * (200 + 256) + 500), ("agents", 19 * (800 + 256) + 4000)):
        found = mlsysim.serve("Llama-3.1-8B", "H100", **asked, traffic=kind)
        assert "--routing prefix" in " ".join(found.assumed) and found.question.kept.found == said
        whole = said + (200 if kind == "chats" else 800)
        assert found.question.input_len == whole
        assert found.devices <= mlsysim.serve("Llama-3.1-8B", "H100", **asked, input_len=whole).devices


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("serve --rate 1 --quantile 0.9", "--quantile is the share"),
        ("serve --rate 1 --hit-rate 0.5", "--hit-rate is of --cached-len"),
        ("simulate --concurrency 2 --arrival-variation 2", "--arrival-variation is of random requests"),
        ("simulate --rate 1 --requests 9 --shared-len 4000", "--shared-len = 4000 must lie below --input-len"),
    ],
)
def test_the_command_refuses_by_its_own_names(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A Python name stood for a flag in "shared_len is for traffic='chats'" (J7); --quantile counted for nothing without a target."""
    command, *more = words.split()
    assert cli.main([command, "--model", "Llama-3.1-8B", "--device", "H100", *more]) == 2
    assert says in capsys.readouterr().err
