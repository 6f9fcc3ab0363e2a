"""Three words for what software reaches: one meaning and one default everywhere, and every answer says which it used."""

import inspect
import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from support import ROOT

from mlsysim import capacity, catalog, cli, efficiencies, evidence, explore, inference, serving_steps, training
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.parallelism import Plan
from mlsysim.serving_steps import Batch, step_model

JOB: dict[str, Any] = {"global_batch": 16, "seq": 4096}
WORDS = ("bound", "datasheet", "calibrated")


def step(device: Any = "H100", **options: Any) -> training.TrainingStep:
    return training.training_step("Llama-3.1-8B", Plan(tp=8), device, **JOB, **options)


def answer(device: Any = "H100", **options: Any) -> inference.Generation:
    return inference.generate(inference.deploy("Llama-3.1-8B", device, **options), input_len=1000, output_len=100)


# One default, one meaning


@pytest.mark.parametrize(
    "solver",
    [
        training.training_step,
        training.efficiencies_of,
        inference.deploy,
        inference.efficiencies_of,
        explore.plan,
    ],
)
def test_the_default_is_the_same_everywhere(solver: Callable[..., Any]) -> None:
    assert inspect.signature(solver).parameters["efficiencies"].default == "calibrated" == efficiencies.DEFAULT


def test_the_table_has_every_word_and_no_other() -> None:
    assert set(efficiencies.MODES) == set(WORDS)
    for word in WORDS:
        assert f"``{word}``" in (efficiencies.__doc__ or "")


@pytest.mark.independent
@pytest.mark.parametrize("room", [training, inference])
def test_the_bound_measures_nothing(room: Any) -> None:
    """Shares of 1 and costs of 0, by hand."""
    bound = room.efficiencies_of("H100", efficiencies="bound")
    assert bound is room.BOUND and bound.name == "bound"
    shares = (
        "gemm",
        "head",
        "attention",
        "attention_backward",
        "array",
        "memory",
        "cache",
        "link",
        "replicated",
        "latent",
        "latent_cache",
        "grouped",
        "grouped_memory",
        "hop_share",
        "prompt_pace",
    )
    free = {"optimizer_bytes": 30.0}  # counted, not measured
    for f in fields(bound):
        if f.name not in ("name", "source"):
            assert getattr(bound, f.name) == (1.0 if f.name in shares else free.get(f.name, 0.0)), f.name


@pytest.mark.independent
@pytest.mark.parametrize("device", ["A100", "H100", "H200", "B200", "MI300X"])
def test_nothing_beats_the_bound(device: str) -> None:
    """On one device, where no message hides behind anything."""
    one: dict[str, Any] = {"global_batch": 1, "seq": 2048}

    def times(word: str) -> tuple[float, ...]:
        served = inference.deploy("Llama-3.1-8B", device, efficiencies=word)
        steps = step_model(served, efficiencies=word)
        return (
            training.training_step("GPT-2-124M", Plan(), device, **{**one, "seq": 1024}, efficiencies=word).time,
            inference.prefill(served, input_len=2048).time,
            inference.decode_step(served, context=2048, batch=8).time,
            steps.time(Batch.of(steps.model, prefills=[(512, 0)], decodes=[1000] * 8)),
        )

    least = times("bound")
    for word in ("datasheet", "calibrated"):
        assert all(b < t for b, t in zip(least, times(word), strict=True))


@pytest.mark.independent
@pytest.mark.parametrize("rungs", [None, serving_steps.StepOptions()], ids=["as served", "kernel by kernel"])
def test_the_bound_of_a_served_step_has_whole_links_and_no_counted_traffic(
    rungs: serving_steps.StepOptions | None,
) -> None:
    served = inference.deploy("Llama-3.1-8B", "H100", tp=2)
    b = Batch(decodes=4.0, context=4000.0)
    bound, printed = (step_model(served, rungs, e) for e in ("bound", serving_steps.PRINTED))
    assert bound.terms(b).elementwise == 0.0 < printed.terms(b).elementwise
    assert bound.terms(b).messages == pytest.approx(0.8 * printed.terms(b).messages)
    assert "bound" in bound.rates_used and "given by the caller" in printed.rates_used


@pytest.mark.independent
@pytest.mark.parametrize(("generation", "short"), [("Ampere", "a100"), ("Hopper", "h100"), ("CDNA 3", "h100")])
def test_measured_shares_are_those_of_the_measurements(generation: str, short: str) -> None:
    assert efficiencies.measured_share("gemm", generation) == evidence.gemm_efficiency(short)
    assert efficiencies.measured_share("memory", generation) == evidence.stream_efficiency(short, "triad")


@pytest.mark.regression
def test_the_file_of_measured_shares_is_what_the_script_writes() -> None:
    measured_shares = pytest.importorskip("measured_shares", reason="the scripts are not beside the tests")
    written = (ROOT / "mlsysim" / "efficiencies" / "measured.toml").read_text(encoding="utf-8")
    assert written == measured_shares.as_toml()


@pytest.mark.independent
def test_the_datasheets_efficiencies_hold_nothing_fitted() -> None:
    """Each is one of the measured shares, a counted figure or a printed one; none is a constant of a fit."""
    gemm, memory = evidence.gemm_efficiency("h100"), evidence.stream_efficiency("h100", "triad")
    t = training.efficiencies_of("H100", efficiencies="datasheet")
    assert (t.gemm, t.head, t.attention, t.memory) == (gemm, gemm, gemm, memory)
    assert (t.elementwise, t.link, t.tp_overlap, t.layer_overhead) == (34.0, 1.0, 0.0, 0.0)
    i = inference.efficiencies_of("H100", efficiencies="datasheet")
    assert (i.gemm, i.attention, i.memory, i.cache) == (gemm, gemm, memory, memory)
    assert (i.elementwise, i.link, i.layer_overhead, i.launch_time) == (32.0, 0.8, 0.0, 0.0)
    assert inference.efficiencies_of("H100", "bf16", "datasheet", framework="transformers").launch_time > 0


# Devices of one's own, arrays, devices without rows


@pytest.mark.independent
def test_a_device_of_ones_own_is_judged_by_itself_and_not_by_its_name() -> None:
    h100 = catalog.device("H100")
    slow = replace(h100, fields={**h100.fields, "peak_flops.bf16": catalog.device("H20").fields["peak_flops.bf16"]})
    alike = replace(h100, name="Chip-X", aliases=())
    assert step(alike, efficiencies="calibrated").time == step().time
    assert step(alike).efficiencies.name == "calibrated"
    assert "no row ran on Hopper, cut to 150 TFLOP/s" in step(slow).rates  # an H100 by name that computes as an H20
    assert step().efficiencies.name == "calibrated"  # and the real one is what it was
    unknown = replace(h100, name="Chip-Y", architecture="", fields=dict(h100.fields))
    assert "kernels of NVIDIA GPUs" in step(unknown).rates or "kernels of all devices" in step(unknown).rates
    assert answer(unknown).prefill.deployment.efficiencies.name == "calibrated"


@pytest.mark.independent
def test_arrays_of_plans_and_links_take_the_words() -> None:
    links = np.array([12.5e9, 50e9])
    many = training.training_step("Llama-3.1-8B", Plan(tp=8, dp=2), "H100", inter_bandwidth=links, **JOB)
    low, high = many.interval().ends
    for i, link in enumerate(links):
        one = training.training_step("Llama-3.1-8B", Plan(tp=8, dp=2), "H100", inter_bandwidth=float(link), **JOB)
        assert many.time[i] == pytest.approx(one.time)
        assert (low[i], high[i]) == pytest.approx(one.interval().ends)


@pytest.mark.independent
def test_a_device_without_rows_takes_its_relatives_constants_says_whose_and_has_a_wider_range() -> None:
    found = step("H20")
    assert found.to_dict()["efficiencies"] == "calibrated"
    assert "no row ran on Hopper, cut to 150 TFLOP/s: kernels of Hopper, cut to 150 TFLOP/s" in str(found.explain())
    known = step("H100").interval().ends
    near, far = (ends[1] / ends[0] for ends in (known, found.interval().ends))
    assert near <= far
    asked = step("H20", efficiencies="datasheet")
    assert asked.to_dict()["interval_s"] is None and "no row ran" not in asked.rates


# Every answer says which


@pytest.mark.parametrize("word", WORDS)
def test_every_result_says_which_it_used(word: str) -> None:
    served = inference.deploy("Llama-3.1-8B", "H100", efficiencies=word)
    steps = step_model(served, efficiencies=word)
    searched = explore.plan("GPT-2-124M", catalog.cluster("DGX-H100", 1), global_batch=8, seq=1024, efficiencies=word)
    texts = [
        str(step(efficiencies=word).explain()),
        *(str(x.explain()) for x in (answer(efficiencies=word), answer(efficiencies=word).prefill)),
        searched.rates,
    ]
    for text in texts:
        assert f"Efficiencies: {word} (" in text
    assert f"Efficiencies: {word} (" in str(steps.explain(Batch(decodes=1.0, context=100.0)))
    assert step_model(served).efficiencies == word  # of the deployment, unless said
    for found in (step(efficiencies=word).to_dict(), answer(efficiencies=word).to_dict()):
        assert found["efficiencies"] == word and (found["interval_s"] is not None) == (word == "calibrated")
    assert capacity.replica_of(served, input_len=1000, output_len=100).origins["step_time"].endswith(word)


def test_your_own_are_not_called_the_bound() -> None:
    for room in (training, inference):
        own = room.Efficiencies(gemm=0.5)
        assert (own.name, own.source) == ("own", "given by the caller")
        assert replace(room.BOUND, memory=np.array([0.5, 1.0])).name == "own"
        assert room.Efficiencies(gemm=0.5, name="mine").name == "mine"
        assert room.efficiencies_of("H100", efficiencies=own) is own
    assert step(efficiencies="bound", variation=0.01).efficiencies.name == "bound"
    with pytest.raises(InputError, match='efficiencies="calibrated"'):
        step(efficiencies=training.Efficiencies(gemm=0.5)).interval()


def test_another_word_is_refused() -> None:
    for solver in (step, answer):
        with pytest.raises(UnknownNameError, match=r"kind of efficiencies 'datashet'; did you mean 'datasheet'"):
            solver(efficiencies="datashet")
        with pytest.raises(InputError, match="neither one of calibrated, datasheet, bound nor"):
            solver(efficiencies=0.5)
    with pytest.raises(InputError, match=r"nor serving_steps.Rates"):
        step_model(inference.deploy("Llama-3.1-8B", "H100"), efficiencies=training.BOUND)  # type: ignore[arg-type]


SERVE = ["serve", "--model", "Llama-3.1-8B", "--device", "H100", "--input-len", "2000", "--output-len", "100"]


def test_serve_and_simulate_say_why_they_differ(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    trace = tmp_path / "one.csv"
    trace.write_text("arrival_s,input_len,output_len\n0,2000,100\n")
    simulate = ["simulate", "--model", "Llama-3.1-8B", "--device", "H100", "--trace", str(trace)]
    for command, other, word in ((SERVE, "simulate", "calibrated"), (simulate, "serve", "calibrated")):
        assert cli.main([*command, "--explain"]) == 0
        text = capsys.readouterr().out
        assert f"Efficiencies: {word} (" in text
        line = next(
            x for x in reversed(text.splitlines()) if x.strip().startswith("Method: ")
        )  # below the equations, whole
        assert f"'{other}'" in line and "differ" in line
        assert cli.main([*command, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["efficiencies"], found["method"]) == (word, line.strip())
    assert cli.main([*simulate, "--efficiencies", "bound", "--json"]) == 0
    fast = json.loads(capsys.readouterr().out)
    assert fast["efficiencies"] == "bound" and fast["requests"][0]["ttft_s"] < found["requests"][0]["ttft_s"]
