"""The same question has the same answer: what is assumed, said aloud as the options that are printed, changes nothing."""

import re
import shlex
from typing import Any

import pytest

import mlsysim
from mlsysim import catalog, cli, inference
from mlsysim.cli.arguments import pick_machines, pick_model
from mlsysim.cli.options import given, pick_slo
from mlsysim.serving import Config

RATE = ["--rate", "8", "--ttft", "1 s"]
QUESTIONS = {
    "serve a rate": ["serve", "--model", "gpt-oss-120B", "--device", "H200", *RATE],
    "serve in fp4": ["serve", "--model", "gpt-oss-120B", "--device", "B200", *RATE],
    "serve in fp8": ["serve", "--model", "DeepSeek-R1", "--device", "8 H200", *RATE],
    "serve in int4": ["serve", "--model", "Qwen3-32B-AWQ", "--device", "L40S"],
    "serve as stored": ["serve", "--model", "DeepSeek-R1", "--device", "32 A100"],
    "serve chats": ["serve", "--model", "Llama-3.1-8B", "--device", "H100", *RATE, "--traffic", "chats"],
    "serve agents": ["serve", "--model", "Llama-3.1-8B", "--device", "H100", *RATE, "--traffic", "agents"],
    "serve a batch": ["serve", "--model", "Llama-3.1-8B", "--device", "H100"],
    "simulate": ["simulate", "--model", "gpt-oss-20B", "--device", "H100", "--rate", "5", "--output-len", "40"],
    "simulate a loop": [
        "simulate",
        "--model",
        "gpt-oss-20B",
        "--device",
        "B200",
        "--concurrency",
        "4",
        "--output-len",
        "40",
    ],
}


def _asked(words: list[str]) -> tuple[Any, tuple[str, ...]]:
    """The question that a command line asks, and what was assumed for it."""
    args = cli._parser("").parse_args(words)
    place = pick_model(args.model), pick_machines(args.device, None)
    if args.command == "serve":
        found = mlsysim.serve(*place, slo=pick_slo(args), **given(args, mlsysim.serve, "model", "device"))
        return found.question, found.assumed
    asked = given(args, mlsysim.simulate, "model", "device", "calibration", "store") | given(args, Config)
    played = mlsysim.simulate(*place, slo=pick_slo(args), **asked)
    return (played.run, played.rows), played.assumed


def _options(assumed: tuple[str, ...]) -> list[str]:
    text = re.sub(r" \(as the checkpoint is published\)", "", " ".join(assumed).removeprefix("assumed: ").split(";")[0])
    return shlex.split(text)


@pytest.mark.independent
@pytest.mark.parametrize("device", ["A100", "H200", "B200", "V100"])
def test_a_deployment_has_the_formats_that_serve_assumes(device: str) -> None:
    """J7.4: a step of gpt-oss-120B on B200 took 36.9 ms by inference.deploy, in 16 bits, and 17.1 ms by serve."""
    names = [m.name for m in catalog.models().values() if m.stored] + ["Qwen3-32B", "DeepSeek-R1"]
    for name in names:
        asked = mlsysim.serve(name, device, batch=1).question
        one, same = (
            inference.deploy(name, device, **how)
            for how in ({}, {f: getattr(asked, f) for f in ("precision", "weights", "experts")})
        )
        assert (one.precision, one.weights, one.split) == (same.precision, same.weights, same.split), name


@pytest.mark.independent
@pytest.mark.parametrize("name", QUESTIONS)
def test_to_say_what_is_assumed_changes_nothing(name: str) -> None:
    """--precision bf16, where that was assumed, turned 18 devices into 32 (J7)."""
    plain, assumed = _asked(QUESTIONS[name])
    options = _options(assumed)
    assert options and options[0].startswith("--")
    everything, rest = _asked([*QUESTIONS[name], *options])
    assert everything == plain and not rest
    if name.startswith("serve"):
        for pair in (options[k : k + 2] for k in range(0, len(options), 2)):  # and each of them alone
            assert _asked([*QUESTIONS[name], *pair])[0] == plain, pair


def test_both_functions_assume_the_same() -> None:
    question = ["--model", "gpt-oss-20B", "--device", "B200", "--rate", "5", "--ttft", "1 s"]
    served, played = (_options(_asked([name, *question])[1]) for name in ("serve", "simulate"))
    for name in ("--input-len", "--output-len", "--length-variation", "--precision", "--weights"):
        assert played[played.index(name) + 1] == served[served.index(name) + 1], name
