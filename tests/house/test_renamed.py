"""Old names: they work and warn, name the new one, and are refused beside it."""

import importlib
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlsysim import capacity, catalog, cli, cost, explore, hlo, inference, kernels, serving, serving_steps, training
from mlsysim._renamed import MODULES, attributes, renamed
from mlsysim.cli.searching.swept import find
from mlsysim.equations import REGISTRY
from mlsysim.errors import InputError, UnknownNameError


def quiet(call: Callable[[], Any]) -> Any:
    """The value of a call that must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


# The tools


@renamed(prompt="input_len")
def tokens(input_len: int, output_len: int = 1) -> int:
    if input_len < 0:
        raise TypeError("of its own")
    return input_len + output_len


def test_an_old_argument_works_and_names_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"tokens\(prompt=\.\.\.\) is now input_len=") as caught:
        assert tokens(prompt=3, output_len=4) == 7  # type: ignore[call-arg]
    assert caught[0].filename == __file__  # the line that has to change
    assert quiet(lambda: tokens(3, output_len=4)) == quiet(lambda: tokens(input_len=3, output_len=4)) == 7


def test_both_names_together_are_refused() -> None:
    with pytest.raises(InputError, match="tokens: prompt is the old name of input_len; give input_len alone"):
        tokens(input_len=3, prompt=3)  # type: ignore[call-arg]


def test_other_type_errors_stay_what_they_are() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'answer'"):
        tokens(3, answer=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="of its own"):
        tokens(-1)


def test_fields_and_attributes() -> None:
    @renamed(prompt="input_len")
    @dataclass(frozen=True, slots=True)
    class Sent:
        input_len: int

    with pytest.warns(DeprecationWarning, match=r"Sent\(prompt=\.\.\.\) is now input_len="):
        old = Sent(prompt=3)  # type: ignore[call-arg]
    assert old == quiet(lambda: Sent(input_len=3))
    with pytest.warns(DeprecationWarning, match=r"Sent\.prompt is now input_len") as caught:
        assert old.prompt == 3  # type: ignore[attr-defined]
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="'Sent' object has no attribute 'answer'"):
        _ = old.answer  # type: ignore[attr-defined]


def test_an_attribute_alone() -> None:
    @attributes(past="cached_len")
    class Pass:
        cached_len = 5

    with pytest.warns(DeprecationWarning, match=r"Pass\.past is now cached_len"):
        assert Pass().past == 5  # type: ignore[attr-defined]


def test_an_old_argument_of_an_equation() -> None:
    with pytest.warns(DeprecationWarning, match=r"held_tokens\(prompt=\.\.\.\) is now input_len=") as caught:
        assert capacity.held_tokens(prompt=1000, output_len=200) == 1100.0  # type: ignore[call-arg]
    assert caught[0].filename == __file__
    with pytest.raises(InputError, match="held_tokens: prompt is the old name of input_len"):
        capacity.held_tokens(input_len=1, prompt=1, output_len=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'answer'"):
        capacity.held_tokens(1000, answer=200)  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="prompt"), pytest.raises(InputError, match="input_len = -1 is outside"):
        capacity.held_tokens(prompt=-1, output_len=1)  # type: ignore[call-arg]


def test_every_new_name_of_an_equation_is_one_of_its_arguments() -> None:
    find("eq-held-tokens")  # every equation is registered
    for label, equation in REGISTRY.items():
        assert set(equation.renamed.values()) <= set(equation.units), label
        assert not set(equation.renamed) & set(equation.units), label


# The renames: old call, and the same with new names

SERVED = inference.deploy("Llama-3.1-8B", "H100")
ARGUMENTS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "sequences": (
        lambda **a: capacity.sequences(SERVED, **a).concurrency,
        {"prompt": 100, "output": 20},
        {"input_len": 100, "output_len": 20},
    ),
    "replica": (
        lambda **a: capacity.replica(lambda n: 0.01, 4, prefill_time=0.1, **a),
        {"output": 11},
        {"output_len": 11},
    ),
    "replica_of": (
        lambda **a: capacity.replica_of(SERVED, **a).slots,
        {"prompt": 100, "output": 20, "most": 4},
        {"input_len": 100, "output_len": 20, "max_num_seqs": 4},
    ),
    "poisson": (lambda **a: serving.poisson(2.0, **a), {"count": 3}, {"requests": 3}),
    "gamma": (lambda **a: serving.gamma(2.0, **a), {"count": 3, "cv": 2.0}, {"requests": 3, "variation": 2.0}),
    "lengths": (lambda **a: serving.lengths(20, **a), {"count": 3, "cv": 0.5}, {"requests": 3, "variation": 0.5}),
    "load": (
        lambda **a: serving.load((0.0,), **a),
        {"prompt_tokens": 9, "output_tokens": 2, "prefix_tokens": 4},
        {"input_len": 9, "output_len": 2, "cached_len": 4},
    ),
    "Request": (
        lambda **a: serving.Request(0.0, **a),
        {"prompt_tokens": 9, "output_tokens": 2, "prefix_tokens": 4},
        {"input_len": 9, "output_len": 2, "cached_len": 4},
    ),
    "steady": (
        lambda **a: serving_steps.Batch.steady(**a),
        {"places": 8, "prompt": 100, "output": 11},
        {"concurrency": 8, "input_len": 100, "output_len": 11},
    ),
    "chunk_pairs": (serving_steps.chunk_pairs, {"new": 3, "past": 4}, {"new": 3, "cached_len": 4}),
    "prompt_computed": (
        serving.prompt_computed,
        {"tokens": 100.0, "prefix": 40.0},
        {"input_len": 100.0, "cached_len": 40.0},
    ),
    "saturation_rate": (
        lambda **a: serving.saturation_rate(8.0, 9.0, 64.0, step_time=0.1, **a),
        {"prompt": 100.0},
        {"tokens": 100.0},
    ),
    "residual_time": (
        lambda **a: serving_steps.residual_time(per_output=1.0, per_prompt=2.0, constant=3.0, **a),
        {"output_tokens": 4, "prompt_tokens": 5},
        {"output_len": 4, "input_len": 5},
    ),
    "attention_kernel_flops": (
        lambda **a: kernels.attention_kernel_flops(1, 8, 1, qk_dim=64, v_dim=64, **a),
        {"past_len": 7},
        {"cached_len": 7},
    ),
    "capital_recovery": (lambda **a: cost.capital_recovery(1e3, 1e8, **a), {"rate": 0.1}, {"interest": 0.1}),
    "Efficiencies": (
        training.Efficiencies,
        {"cp_node_step": 1e-6, "cp_network_step": 2e-6},
        {"ring_node_step": 1e-6, "ring_network_step": 2e-6},
    ),
    "possible_degrees": (
        lambda **a: len(explore.possible_degrees("Llama-3.1-8B", 8, 16, 4096, **a)),
        {"micro_batches": [1]},
        {"micro_batch": 1},
    ),
    "estimate": (
        lambda **a: hlo.estimate(hlo.sample("llama100m_train_fsdp4.scan"), "H100", **a).kernels,
        {"fuse": False},
        {"fusion": "off"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_old_arguments(name: str) -> None:
    call, old, new = ARGUMENTS[name]
    with pytest.warns(DeprecationWarning, match="the old name goes") as caught:
        found = call(**old)
    said = [str(w.message) for w in caught]
    for before in set(old) - set(new):
        assert any(f"({before}=...) is now " in text for text in said), before
    assert found == quiet(lambda: call(**new))
    with pytest.raises(InputError, match="is the old name of"):
        call(**(old | new))


def test_old_attributes() -> None:
    request, trace = serving.Request(0.0, 9, 2, 4), catalog.trace("azure-conversation-2023")
    fit, step = capacity.sequences(SERVED, input_len=100, output_len=20), inference.decode_step(SERVED, context=8)
    pairs = [
        (request, "prompt_tokens", "input_len"),
        (request, "output_tokens", "output_len"),
        (request, "prefix_tokens", "cached_len"),
        (trace, "prompt", "input_len"),
        (trace, "output", "output_len"),
        (fit, "sequences", "concurrency"),
        (step, "past", "cached_len"),
    ]
    for owner, old, new in pairs:
        with pytest.warns(DeprecationWarning, match=rf"\.{old} is now {new}"):
            found = getattr(owner, old)
        assert found == quiet(lambda owner=owner, new=new: getattr(owner, new))


# Modules


@pytest.mark.parametrize("old", sorted(MODULES))
def test_an_old_module_is_the_new_one(old: str) -> None:
    if old.endswith("xla_worker"):
        pytest.importorskip("jaxlib")
    sys.modules.pop(old, None)  # another test may have asked for it
    with pytest.warns(DeprecationWarning, match="the old name goes") as caught:
        module = importlib.import_module(old)
    assert any(f"{old} is now {MODULES[old]};" in str(w.message) for w in caught)
    assert module is importlib.import_module(MODULES[old]) and module.__name__ == MODULES[old]


def test_old_imports_as_people_write_them() -> None:
    """In a fresh interpreter: each warns once, at the line that has to change, and gives the one object there is."""
    code = """
import warnings
warnings.simplefilter("always")
import mlsysim.fidelity
from mlsysim.fidelity import step_model
from mlsysim.fidelity.microbench import measure
from mlsysim.hlo import systolic
from mlsysim.validation import cases
from mlsysim.validation.scores import shipped
import mlsysim.serving_steps, mlsysim.serving_steps.measuring.microbench, mlsysim.validation.scoring.scores
assert step_model is mlsysim.serving_steps.step_model and mlsysim.fidelity is mlsysim.serving_steps
assert measure is mlsysim.serving_steps.measuring.microbench.measure
assert cases.MAX_ROWS == mlsysim.validation.cases.reader.MAX_ROWS
"""
    from mlsysim.validation.scoring import scores

    name = next(n for n in dir(scores) if not n.startswith("_") and callable(getattr(scores, n)))
    done = subprocess.run(
        [sys.executable, "-c", code.replace("shipped", name)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]
    assert [line.partition("DeprecationWarning: ")[2].partition(" is now ")[0] for line in said] == [
        "mlsysim.fidelity",
        "mlsysim.fidelity.microbench",
        "mlsysim.hlo.systolic",
        "mlsysim.validation.scores",
        "mlsysim.validation.cases.MAX_ROWS",
    ]
    assert all(line.startswith("<string>:") for line in said)


def test_what_a_package_has_under_an_old_name_stays() -> None:
    """A function has the name of the module that it stood in: asking for the old module must not put the module in its place."""
    from mlsysim import validation

    kept = validation.measurements
    for old in ("mlsysim.validation.measurements", "mlsysim.fidelity.rates", "mlsysim.validation.serving_runs"):
        sys.modules.pop(old, None)
        with pytest.warns(DeprecationWarning, match=f"{old} is now"):
            importlib.import_module(old)
    assert validation.measurements is kept and callable(serving_steps.rates) and callable(validation.serving_runs)
    assert type(validation) is type(serving_steps) is type(sys)


def test_a_module_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mlsysim.fidelities")


# Options

SIMULATE = ["simulate", "--model", "Llama-3.1-8B", "--device", "H100", "--rate", "4", "--requests", "3"]
OPTIONS = {
    "simulate --prompt-tokens": (
        [*SIMULATE, "--prompt-tokens", "50", "--output-tokens=5", "--arrival-cv", "2", "--length-cv", "0.5"],
        [*SIMULATE, "--input-len", "50", "--output-len=5", "--arrival-variation", "2", "--length-variation", "0.5"],
    ),
    "memory --unfused-attention": (
        ["memory", "--model", "Llama-3.1-8B", "--device", "H100", "--seq", "4096", "--unfused-attention"],
        ["memory", "--model", "Llama-3.1-8B", "--device", "H100", "--seq", "4096", "--no-fused-attention"],
    ),
    "energy --power": (
        ["energy", "--devices", "8", "--time", "1 h", "--power", "700 W", "--pue", "1", "--embodied", "9 kg", "--lifetime", "1 year"],
        ["energy", "--devices", "8", "--time", "1 h", "--peak-power", "700 W", "--pue", "1", "--device-embodied", "9 kg", "--lifetime", "1 year"],
    ),
    "cost --rental": (
        ["cost", "--devices", "8", "--time", "1 h", "--rental", "2 USD/h"],
        ["cost", "--devices", "8", "--time", "1 h", "--rental-rate", "2 USD/h"],
    ),
    "collective --local-mem-bandwidth": (
        ["collective", "--op", "all_reduce", "--algorithm", "ring", "--bytes", "1e6", "--bandwidth", "50 GB/s", "--topology", "ring:4", "--local-mem-bandwidth", "2 TB/s"],
        ["collective", "--op", "all_reduce", "--algorithm", "ring", "--bytes", "1e6", "--bandwidth", "50 GB/s", "--topology", "ring:4", "--memory-bandwidth", "2 TB/s"],
    ),
    "sweep --out": (
        ["sweep", "eq-held-tokens", "prompt=10", "output=2"],
        ["sweep", "eq-held-tokens", "input_len=10", "output_len=2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_old_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = ([*words, "--json"] for words in OPTIONS[name])
    assert cli.main(old) == 0
    found = capsys.readouterr()
    assert cli.main(new) == 0
    wanted = capsys.readouterr()
    assert json.loads(found.out) == json.loads(wanted.out)
    assert wanted.err == ""
    gone = [w.partition("=")[0] for w in old if w.partition("=")[0] not in {x.partition("=")[0] for x in new}]
    assert len(found.err.splitlines()) == len(gone) > 0
    assert all(f"{w} is now " in found.err for w in gone)


def test_an_old_option_beside_the_new_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SIMULATE, "--input-len", "50", "--prompt-tokens", "50", "--output-len", "5"]) == 2
    assert "--prompt-tokens is the old name of --input-len; give --input-len alone" in capsys.readouterr().err
    assert cli.main(["sweep", "eq-held-tokens", "prompt=10", "input_len=10", "output_len=2"]) == 2
    assert "input_len stands there twice" in capsys.readouterr().err


def test_old_options_are_not_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["simulate", "--help"])
    text = capsys.readouterr().out
    assert "--input-len" in text and "--prompt-tokens" not in text


def test_an_old_option_may_be_shortened_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SIMULATE, "--prompt", "50", "--output-tok", "5"]) == 0
    assert "--prompt-tokens is now --input-len" in capsys.readouterr().err


def test_an_error_is_one_sentence_also_with_an_old_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SIMULATE, "--prompt-tokens", "0.2", "--output-len", "5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# Columns and JSON


def test_a_trace_may_have_the_columns_of_before(tmp_path: Path) -> None:
    old, new, both = (tmp_path / name for name in ("old.csv", "new.csv", "both.csv"))
    old.write_text("arrival_s,prompt_tokens,output_tokens,prefix_tokens\n0,64,4,16\n1,8,2,\n")
    new.write_text("arrival_s,input_len,output_len,cached_len\n0,64,4,16\n1,8,2,\n")
    assert quiet(lambda: serving.read_trace(old)) == serving.read_trace(new)
    both.write_text("arrival_s,prompt_tokens,input_len,output_len\n0,1,1,1\n")
    with pytest.raises(
        InputError, match=r"both\.csv, line 1: 'prompt_tokens' is the old name of 'input_len'; remove one"
    ):
        serving.read_trace(both)
    old.write_text("arrival_s,prompt_tokens,output_tokens\n0,1,0\n")
    with pytest.raises(InputError, match="line 2, column 'output_tokens': 0 must lie between 1"):
        serving.read_trace(old)


def test_keys_that_changed_stand_beside_the_old_ones(capsys: pytest.CaptureFixture[str]) -> None:
    fit = capacity.sequences(SERVED, input_len=100, output_len=20).to_dict()
    assert fit["concurrency"] == fit["sequences"] > 0
    assert cli.main([*SIMULATE, "--input-len", "50", "--output-len", "5", "--json"]) == 0
    full = json.loads(capsys.readouterr().out)["saturation"]
    assert full["capacity_per_s"] == full["rate_per_s"] > 0


# What an option takes when a number has no unit


def test_a_bare_bandwidth_says_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["collective", "--op", "all_reduce", "--algorithm", "ring", "--ranks", "8", "--bytes", "1e9", "--json"]
    times = []
    for words, said in (
        (["--bandwidth", "50", "--latency", "500"], ["50 has no unit: read as 50 GB/s", "500 has no unit: read as 500 ns"]),
        (["--bandwidth", "50 GB/s", "--latency", "500 ns"], []),
        (["--bandwidth", "400 Gbit/s", "--latency", "0.5 us"], []),
    ):  # fmt: skip
        assert cli.main([*asked, *words]) == 0
        found = capsys.readouterr()
        assert [line.partition(": ")[2] for line in found.err.splitlines()] == said
        times.append(json.loads(found.out)["time_s"])
    assert math.isclose(times[0], 2 * 7 / 8 * 1e9 / 50e9 + 14 * 500e-9, rel_tol=1e-12)
    assert times[0] == pytest.approx(times[1], rel=1e-12) == pytest.approx(times[2], rel=1e-12)


# Fusion and topology: a word of the command line is a word of Python


def test_fusion_has_three_words() -> None:
    program = hlo.sample("llama100m_train_fsdp4.scan")
    kernels_of = {word: hlo.estimate(program, "H100", fusion=word).kernels for word in ("auto", "on", "off")}
    assert kernels_of["auto"] == kernels_of["on"] < kernels_of["off"]
    with pytest.raises(UnknownNameError, match="unknown fusion 'yes'"):
        hlo.estimate(program, "H100", fusion="yes")


def test_a_topology_takes_the_bandwidth_of_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    """NVLink of an A100 gives 300 GB/s one way: a rank of a ring has it over two links, one on a switch in one."""
    program = hlo.sample("llama100m_train_fsdp4.scan")
    for topology, links in (("ring:4", 2), ("switch:4", 1), ("fullyconnected:4", 3)):
        ours = hlo.estimate(program, "A100", topology=topology)
        theirs = hlo.estimate(program, "A100", network=hlo.Fabric(topology, 300e9 / links))
        assert ours.comm_s == theirs.comm_s > 0
        assert any(
            "300 GB/s of scale-up bandwidth" in note and f"over {links} of a rank" in note for note in ours.notes
        )
    with pytest.raises(InputError, match="2 dimensions"):
        hlo.estimate(program, "A100", topology="ring:2xring:2")
    with pytest.raises(InputError, match="give one of them"):
        hlo.estimate(program, "A100", topology="ring:4", network=lambda c: 0.0)
