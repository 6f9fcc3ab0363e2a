"""Commands that start what an answer says, and measure it: read back by our own reader, and against what they draw."""

import random
import statistics
from dataclasses import replace

import pytest

import mlsysim
from mlsysim import catalog
from mlsysim.api.launching import address, commands, start
from mlsysim.course.sizing import read_command
from mlsysim.memory.quantised import Formats

GPT = {"rate": 40, "input_len": 6000, "output_len": 700, "slo": mlsysim.SLO(ttft=1.5, itl=0.03, quantile=0.95)}


def options(command: str) -> dict[str, str]:
    words = command.split()
    return {w: words[i + 1] for i, w in enumerate(words[:-1]) if w.startswith("--")}


@pytest.mark.independent
def test_one_replica_is_measured_under_its_share() -> None:
    s = mlsysim.serve("gpt-oss-120B", "H200", **GPT)
    given = options(commands(s).measure)
    assert float(given["--request-rate"]) * s.replicas == pytest.approx(40, rel=1e-3)
    draws, r = (
        random.Random(1),
        float(given["--random-range-ratio"]),
    )  # vLLM draws lengths evenly within this share of their mean
    lengths = [draws.uniform(1 - r, 1 + r) for _ in range(100_000)]
    assert statistics.pstdev(lengths) == pytest.approx(0.5, rel=0.01)
    shape = float(given["--burstiness"])  # of the gamma distribution of its gaps
    gaps = [draws.gammavariate(shape, 1 / shape) for _ in range(100_000)]
    in_turn = [
        sum(draws.expovariate(s.replicas) for _ in range(s.replicas)) for _ in range(100_000)
    ]  # every so many-th request
    assert statistics.pstdev(gaps) == pytest.approx(statistics.pstdev(in_turn), rel=0.02)
    words = commands(s).measure.split()
    assert words[words.index("--goodput") + 1 :] == ["ttft:1500", "tpot:30"]
    assert given["--metric-percentiles"] == "95"


def test_what_starts_a_replica_is_read_back_as_the_same_server() -> None:
    s = mlsysim.serve("gpt-oss-120B", "H200", kv="fp8", **GPT)
    made = commands(s)
    read = read_command(made.vllm)
    assert read["unread"] == []
    known = {
        "tp": str(s.option.tp),
        "max_num_seqs": str(s.load.replica.max_running),
        "gpu_memory_utilization": "0.9",
        "kv": "fp8",
    }
    assert read["fields"].items() >= known.items()
    assert options(made.sglang)["--tp-size"] == known["tp"]
    assert options(made.sglang)["--max-running-requests"] == known["max_num_seqs"]
    assert options(made.sglang)["--kv-cache-dtype"] == "fp8_e4m3"
    assert commands(mlsysim.serve("Qwen3-32B", "H100")).vllm == "vllm serve Qwen/Qwen3-32B --max-num-seqs 1"


def test_what_no_command_says_is_said() -> None:
    chats = commands(mlsysim.serve("Llama-3.1-8B", "H100", rate=5, traffic="chats"))
    assert not chats.measure and "does not send conversations" in chats.notes[-1]
    wide = commands(mlsysim.serve("Llama-3.1-8B", "H100", rate=5, length_variation=0.9))
    assert "vary by 0.57 at most, not by 0.9" in wide.notes[0]
    four = start(catalog.model("Qwen3-32B"), catalog.device("H100"), Formats("bf16", "int4-g128"), {})
    assert "--quantization" not in four.vllm and "stored as int4-g128" in four.notes[0]
    eight = start(catalog.model("Qwen3-32B"), catalog.device("H100"), Formats("fp8"), {})
    assert eight.vllm.endswith("--quantization fp8") and not eight.notes
    own = start(replace(catalog.model("Qwen3-32B"), name="mine"), catalog.device("H100"), Formats("bf16"), {})
    assert own.vllm == "vllm serve MODEL" and own.notes


def test_a_shared_prefix_is_sent_as_one() -> None:
    given = options(commands(mlsysim.serve("Llama-3.1-8B", "H100", rate=5, input_len=3000, shared_len=2000)).measure)
    assert (given["--random-prefix-len"], given["--random-input-len"]) == ("2000", "1000")


def test_an_address_is_no_program() -> None:
    assert address(catalog.model("Qwen3-32B"), "x/y; rm -rf /") == "Qwen/Qwen3-32B"
    assert address(catalog.model("Qwen3-32B"), "Qwen/Qwen3-32B-FP8") == "Qwen/Qwen3-32B-FP8"
