"""One declaration per parameter: what docstrings say is what options, axes, fields and messages are."""

import argparse
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mlsysim
from mlsysim import catalog, cli, cost, energy, training
from mlsysim.api import SLO, FleetSpec
from mlsysim.api.sizing import INPUT_LEN, OUTPUT_LEN
from mlsysim.api.training import SEQ
from mlsysim.capacity.routing import USUAL
from mlsysim.cli import options
from mlsysim.cli.solvers import SOLVERS
from mlsysim.communication import collective
from mlsysim.course.grading import grade
from mlsysim.course.sizing import FIELDS
from mlsysim.declared import in_si, parameters
from mlsysim.equations import Domain
from mlsysim.errors import InputError, unknown_name
from mlsysim.explore.fronts import frontier
from mlsysim.hlo.chakra import trace
from mlsysim.hlo.export.recipe import Recipe
from mlsysim.memory import server_memory, training_memory
from mlsysim.parallelism import Plan
from mlsysim.reliability import training_goodput
from mlsysim.roofline import kernel_time
from mlsysim.serving import Config
from mlsysim.serving.fleet import Autoscaler

# What each command asks, in its order: an option of that name is declared there, and nowhere else
SPECIFIED: dict[str, tuple[Callable[..., Any], ...]] = {
    "roofline": (kernel_time,),
    "collective": (collective,),
    "train": (mlsysim.train, training.training_step, Plan),
    "memory": (Plan, training_memory, server_memory),
    "serve": (mlsysim.serve, SLO),
    "simulate": (mlsysim.simulate, Config, FleetSpec, Autoscaler, SLO),
    "energy": (energy.run,),
    "cost": (cost.ownership_cost,),
    "reliability": (training_goodput,),
    "hlo export": (Recipe,),
    "hlo chakra": (trace,),
    "plan": (mlsysim.train, Plan),
    "frontier": (frontier,),
    "grade": (grade,),
}
# Options whose command means something narrower than the function: several values, a file, a name, a unit of another program
NARROWED = {
    *(
        f"plan {n}"
        for n in ("tp", "pp", "cp", "dp", "ep", "virtual_stages", "micro_batch", "sharding", "recompute", "schedule")
    ),
    *("memory seq", "memory global_batch", "memory devices", "train devices", "energy device", "collective algorithm"),
    *("collective bandwidth", "collective latency", "collective node_latency", "collective op", "collective bytes"),
    *(
        "reliability writer_bandwidth",
        "simulate also_models",
        "simulate calibration",
        "cost devices",
        "hlo chakra split",
    ),
    *(
        "train device",
        "plan device",
        "hlo chakra fusion",
        "hlo chakra join",
        "roofline efficiency",
        "reliability model",
        "hlo chakra name",
    ),
    *(
        "train reshard_after_forward",
        "memory reshard_after_forward",
        "simulate store",
        "simulate autoscaler",
        "plan cluster",
    ),
}
SHARED = ("model", "device", "efficiencies")  # named by hand, once for all commands


def parsers(parser: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield " ".join(words), parser
    for action in below:
        for word, one in action.choices.items():
            yield from parsers(one, (*words, word))


PARSERS = dict(parsers(cli._parser("")))


@pytest.mark.parametrize("command", SPECIFIED)
def test_an_option_says_what_its_function_declares(command: str) -> None:
    """Help, choices and default of every option whose name a function of the command declares."""
    seen = 0
    for action in PARSERS[command]._actions:
        known = [parameters(f)[action.dest] for f in SPECIFIED[command] if action.dest in parameters(f)]
        if not known or f"{command} {action.dest}" in NARROWED or action.dest in SHARED or not action.option_strings:
            continue
        p = known[0]
        seen += 1
        said = re.sub(r" \(default: [^()]*\)$", "", action.help.replace("%%", "%"))
        assert said.replace("-", "").replace("_", "") == re.sub(r" \(default: [^()]*\)$", "", p.help).replace(
            "-", ""
        ).replace("_", ""), f"{command} {action.dest}"
        if action.choices is not None:
            assert tuple(action.choices) == p.choices
        if action.default not in (None, False, p.default):
            raise AssertionError(f"{command} {action.dest}: default {action.default!r}, declared {p.default!r}")
        if p.kind == "whole" and p.range == "[1, inf)" and action.type is not None and command != "collective":
            with pytest.raises(argparse.ArgumentTypeError):
                action.type("0")
    assert seen >= 2, command


def test_every_parameter_of_a_door_has_an_option_or_a_reason() -> None:
    left = {
        "serve": {"slo"},
        "simulate": {"slo", "parts", "client"},
        "train": {"plan", "cluster", "dp"},
        "plan": set(),
    }
    for door, without in left.items():
        named = {a.dest for a in PARSERS[door]._actions}
        declared = {
            n for n, p in inspect.signature(getattr(mlsysim, door)).parameters.items() if p.kind != p.VAR_KEYWORD
        }
        assert declared - named == without, door


@pytest.mark.parametrize(
    "function",
    [f for f in dict.fromkeys(f for of in SPECIFIED.values() for f in of) if f is not trace],
    ids=lambda f: f.__qualname__,
)
def test_a_docstring_declares_every_parameter_once_and_its_defaults_lie_in_range(function: Callable[..., Any]) -> None:
    plain = inspect.unwrap(function)
    named = [n for n, p in inspect.signature(plain).parameters.items() if p.kind != p.VAR_KEYWORD]
    known = parameters(function)
    assert [*known] == named
    for p in known.values():
        assert p.text and not p.text.startswith("As "), f"{p.name}: {p.text}"
        if p.range and isinstance(p.default, (int, float)) and not isinstance(p.default, bool):
            assert Domain.of(p.range).contains(p.default), p
        if p.choices and isinstance(p.default, str):
            assert p.default in p.choices, p


@pytest.mark.independent
def test_defaults_that_a_text_names_are_those_that_are_assumed() -> None:
    for function, name, value in (
        (mlsysim.serve, "input_len", INPUT_LEN),
        (mlsysim.serve, "output_len", OUTPUT_LEN),
        (mlsysim.simulate, "input_len", INPUT_LEN),
        (mlsysim.train, "seq", SEQ),
        (mlsysim.serve, "routing", USUAL),
        (FleetSpec, "loading", "faster"),
        (Autoscaler, "start_up", "60 s"),
        (Autoscaler, "cool_down", "300 s"),
    ):
        p = parameters(function)[name]
        assert f"(default: {value})" in p.help or p.default == value
    assert Autoscaler().start_up == 60.0 and Autoscaler().cool_down == 300.0


@pytest.mark.independent
def test_text_with_a_unit_is_read_alike_everywhere() -> None:
    """400 Gbit/s are 50e9 byte/s; the option, the door and the part of a fleet say so."""
    written = mlsysim.serve("Llama-3.1-8B", "H100", tp=16, inter_bandwidth="400 Gbit/s")
    plain = mlsysim.serve("Llama-3.1-8B", "H100", tp=16, inter_bandwidth=50e9)
    assert written.question.inter_bandwidth == plain.question.inter_bandwidth == 50e9
    assert FleetSpec(prefill_replicas=1, link_bandwidth="400 Gbit/s").link_bandwidth == 50e9
    assert FleetSpec(traffic="chats", pause="2 min").pause == 120.0
    assert in_si(training.training_step, {"host_bandwidth": "50 GB/s", "task": "sft"}) == {
        "host_bandwidth": 50e9,
        "task": "sft",
    }
    fitted = mlsysim.train(
        "Llama-3.1-8B", "DGX-H100", plan=Plan(dp=8), global_batch=8, seq=512, inter_bandwidth="400 Gbit/s"
    )
    assert fitted.question.options["inter_bandwidth"] == 50e9
    with pytest.raises(InputError, match="serve: inter_bandwidth: '400 GB' is not in byte/s"):
        mlsysim.serve("Llama-3.1-8B", "H100", inter_bandwidth="400 GB")
    args = PARSERS["serve"].parse_args(["--model", "x", "--device", "y", "--inter-bandwidth", "400 Gbit/s"])
    assert args.inter_bandwidth == 50e9


@pytest.mark.parametrize("price", ["2.5", "0.5", "2.5e0", 2.5, 2, True])
def test_a_price_without_a_unit_is_refused_and_not_read_per_second(price: Any) -> None:
    for ask in (
        lambda: mlsysim.serve("Llama-3.1-8B", "H100", price=price),
        lambda: mlsysim.train("Llama-3.1-8B", "DGX-H100", plan=Plan(dp=8), global_batch=8, seq=512, price=price),
        lambda: mlsysim.simulate("Llama-3.1-8B", "H100", rate=1, requests=2, price=price),
        lambda: frontier("Llama-3.1-8B", "H100", price=price),
    ):
        with pytest.raises(InputError, match=r"has no unit.*'2.5 USD/h'"):
            ask()


def test_a_price_of_another_kind_is_refused() -> None:
    bought = next(p.name for p in catalog.prices().values() if p.kind == "purchase")
    with pytest.raises(InputError, match="is one of kind 'purchase'; name a rental price"):
        mlsysim.serve("Llama-3.1-8B", "H100", price=bought)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("serve --model Llama-3.1-8B --device H100 --price 2.5", "has no unit"),
        ("cost --devices 8 --time 1year --rental-rate 2.5", "argument --rental-rate: value: '2.5' has no unit"),
        ("sweep cost devices=8 time=3600 rental_rate=0.001", "'0.001' has no unit"),
        ("cost --devices 8 --time 1year --rental-rate roofline-page", "is a price in no unit"),
        (
            "frontier --model Llama-3.1-8B --device H100 --mode beside",
            "'beside' is not one of aggregated, disaggregated",
        ),
    ],
)
def test_a_command_says_how_to_write_it(command: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(command.split()) == 2
    assert says in capsys.readouterr().err


def test_an_hour_s_price_is_what_it_says() -> None:
    assert mlsysim.serve("Llama-3.1-8B", "H100", price="2.5 USD/h").bill.cost_rate == pytest.approx(2.5 / 3600)


def test_axes_of_a_sweep_have_the_units_that_are_declared() -> None:
    for solver, function in (
        ("kernel", kernel_time),
        ("energy", energy.run),
        ("cost", cost.ownership_cost),
        ("reliability", training_goodput),
    ):
        for name, unit in SOLVERS[solver].numbers.items():
            if name in parameters(function):
                assert unit == parameters(function)[name].unit
    assert SOLVERS["train"].numbers["inter_bandwidth"] == "byte/s"
    assert {"tp", "pp", "dp", "ep"} == set(SOLVERS["serve"].whole)


def test_fields_of_the_form_have_the_words_of_the_doors() -> None:
    for name, function in (("rate", mlsysim.serve), ("ttft", SLO), ("seq", mlsysim.train), ("virtual_stages", Plan)):
        p, field = parameters(function)[name], FIELDS[name]
        assert p.text.startswith(field.label) and field.unit == p.unit
    assert FIELDS["recompute"].choices == parameters(Plan)["recompute"].choices


def test_names_that_are_many_are_listed_or_said_where() -> None:
    assert "known: 'a0', 'a1'" in str(unknown_name("thing", "zz", [f"a{i}" for i in range(40)]))
    assert "300 are known; 'mlsysim models' lists them" in str(
        unknown_name("model", "zz", [f"a{i}" for i in range(300)])
    )


def test_words_by_hand_are_of_options_that_there_are() -> None:
    every = {(command, a.dest) for command, parser in PARSERS.items() for a in parser._actions}
    for name in options.BY_HAND:
        command, _, dest = name.rpartition(" ")
        assert any(d == dest and command in ("", c) for c, d in every), name


def test_serve_loads_few_modules() -> None:
    """As many as its question needs. It only goes down; a module more wants an import where it is used."""
    script = (
        "import io, sys, contextlib\nfrom mlsysim import cli\nwith contextlib.redirect_stdout(io.StringIO()):\n"
        "    cli.main(['serve', '--model', 'Llama-3.1-8B', '--device', 'H100', '--rate', '5', '--ttft', '500 ms'])\n"
        "print(sum(m.startswith('mlsysim') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 140  # with the simulator, which is asked to confirm the answer
