"""One question of memory has one answer: of serve, simulate, ``memory --serve`` and the size page, for every model of the catalogue."""

import json
import math
from typing import Any

import pytest

import mlsysim
from mlsysim import catalog, inference, memory
from mlsysim.api.sizing import splits
from mlsysim.cli import main
from mlsysim.course.sizing.answers import sized
from mlsysim.memory import ServerMemory
from mlsysim.memory.serving import cache_groups, layer_cache_bytes, state_page
from mlsysim.serving import Config, limits
from mlsysim.serving_steps import step_model
from mlsysim.transformer import parameter_count

independent, published = pytest.mark.independent, pytest.mark.published
PARTS = (
    "weights_bytes",
    "activation_bytes",
    "non_torch_bytes",
    "kv_pool_bytes",
    "kv_tokens",
    "kv_blocks",
    "block_tokens",
)
LENGTH = 384
# A device that multiplies in 8 bits, one that does not, one of another maker.
DEVICES = ("H200", "A100", "MI300X")


def _parts(held: ServerMemory) -> dict[str, float]:
    found = held.to_dict()
    return {name: found[name] for name in PARTS}


def _doors(name: str, m: catalog.Model, d: catalog.Device, tp: int) -> dict[str, dict[str, float]]:
    """What each function says that a device holds, asked for the same lengths."""
    request: dict[str, Any] = {"tp": tp, "input_len": LENGTH - 64, "output_len": 64}
    form = {"task": "fits", "model": name, "device": d.name, "tp": str(tp), "max_model_len": str(LENGTH)}
    return {
        "serve": _parts(mlsysim.serve(m, d, rate=1e-3, **request).memory),
        "simulate": _parts(mlsysim.simulate(m, d, concurrency=1, requests=1, **request).memory),
        "size page": _parts(sized(form).result),
    }


@pytest.mark.slow
@independent
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tp", [1, pytest.param(8, marks=pytest.mark.nightly)])
def test_every_model_holds_the_same_through_every_door(
    device: str, tp: int, capsys: pytest.CaptureFixture[str]
) -> None:
    differ, asked = [], 0
    for name in catalog.models():
        m = catalog.model(name)
        if not splits(m, tp, 1):
            continue
        asked += 1
        d = catalog.device(device)
        there = memory.server_memory(m, d, tp=tp, max_model_len=LENGTH)
        want = _parts(there)
        doors = _doors(name, m, d, tp)
        differ += [(name, door, found) for door, found in doors.items() if found != pytest.approx(want, rel=1e-12)]
    assert not differ and asked > 60, differ[:3]


@independent
@pytest.mark.parametrize("door", ["serve", "simulate"])
def test_json_says_what_the_command_for_memory_says(door: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--model", "DeepSeek-R1", "--device", "H200", "--tp", "8", "--json"]
    main(["memory", "--serve", *place])
    want = json.loads(capsys.readouterr().out)
    main([door, *place, "--rate", "1", *(["--requests", "3"] if door == "simulate" else [])])
    found = json.loads(capsys.readouterr().out)["memory"]
    assert {name: found[name] for name in PARTS} == {name: want[name] for name in PARTS}
    assert want["kv_tokens"] > 100_000


@independent
@pytest.mark.parametrize(
    ("model", "device", "tp"),
    [
        ("Qwen3.5-397B-A17B", "B200", 8),
        ("Nemotron-3-Nano-30B-A3B", "B200", 2),
        ("Qwen3-Next-80B-A3B", "H100", 4),
        ("Qwen3-32B", "H100", 2),
    ],
)
def test_blocks_of_the_simulator_know_their_tokens(model: str, device: str, tp: int) -> None:
    """A block of a hybrid holds a state, so 272 to 2,096 tokens: the cache is as many tokens as the server prints."""
    d = inference.deploy(model, device, tp=tp)
    held, bounds = d.server_memory(), limits(Config(), step_model(d))
    assert bounds.blocks * bounds.block_tokens == held.kv_tokens
    page = state_page(d.model, tp, 2.0)
    token = layer_cache_bytes(d.model, tp, 2.0)
    assert bounds.block_tokens == max(16, 16 * math.ceil(page / (16 * token)))
    # the pool holds that many tokens of attention's cache and a state in each block of every other group, up to a block each
    size, groups = cache_groups(d.model, d.model.n_layers)
    assert (
        held.kv_tokens * token * size * groups
        <= held.kv_pool
        < (bounds.blocks + 1) * groups * bounds.block_tokens * token * size
    )


@published
def test_gpt_oss_120b_on_one_h100_starts_where_it_did() -> None:
    """GPUStack ran it with vLLM 0.10.2 and --max-model-len 32768; the default of 131,072 tokens it left out."""
    ran = memory.server_memory("gpt-oss-120B", "H100", engine_version="0.10.2", max_model_len=32768)
    assert ran.fits and ran.kv_tokens < 32768  # its layers with a window need less than all of a long sequence
    whole = memory.server_memory("gpt-oss-120B", "H100", engine_version="0.10.2", max_model_len=131072)
    assert not whole.fits and "without a window" in whole.reason
    # Without FlashInfer's sampler (in no container, so the nine copies of 0.11.1) a log of August 2025 has 65.97 GiB of weights
    # and -2.14 GiB left for cache: 7.4 GiB of activations and runtime.
    bare = memory.server_memory("gpt-oss-120B", "H100", engine_version="0.11.1")
    assert bare.weight_memory / 2**30 == pytest.approx(65.97, rel=0.005)
    assert bare.kv_pool / 2**30 == pytest.approx(-2.14, abs=0.8)
    assert (bare.activations + bare.runtime) / 2**30 == pytest.approx(7.37, rel=0.12)
    found = mlsysim.simulate("gpt-oss-120B", "H100", concurrency=2, requests=2, input_len=500, output_len=20)
    assert found.fits and found.run.tp == 1


@independent
def test_the_name_of_a_server_says_its_release() -> None:
    asked: dict[str, Any] = {"tp": 2, "input_len": 500, "output_len": 20}
    served = mlsysim.serve("Qwen3-14B", "H100", rate=1, server="vLLM 0.16.0", **asked).memory
    played = mlsysim.simulate("Qwen3-14B", "H100", concurrency=1, requests=1, server="vLLM 0.16.0", **asked).memory
    assert served.release.version == played.release.version == "0.16.0" and served.activations == played.activations
    assert served.activations > 2 * mlsysim.serve("Qwen3-14B", "H100", rate=1, **asked).memory.activations
    told = mlsysim.simulate("Qwen3-14B", "H100", concurrency=1, requests=1, engine_version="0.16.0", **asked).memory
    assert told.activations == served.activations


@independent
def test_the_longest_sequence_by_hand() -> None:
    """gpt-oss: 18 layers with a window of 128 and 18 without; a step has 8,192 tokens, a block 16."""
    held = memory.server_memory("gpt-oss-120B", "H100", max_model_len=32768)
    assert held.longest_tokens == (32768 + 128 - 1 + 8192 + 16 + 1) // 2
    assert memory.server_memory("gpt-oss-120B", "H100", max_model_len=4096).longest_tokens == 4096
    assert memory.server_memory("Qwen3-32B", "H100", max_model_len=9999).longest_tokens == 9999


@independent
@pytest.mark.parametrize(
    ("tp", "ep", "dp", "shards"), [(1, 1, 1, 1), (8, 1, 1, 8), (8, 8, 1, 8), (8, 2, 1, 8), (2, 8, 4, 8), (4, 4, 2, 8)]
)
def test_experts_lie_once_over_all_that_share_them(tp: int, ep: int, dp: int, shards: int) -> None:
    one, many = (memory.server_memory("Mixtral-8x7B", "H200", tp=tp, ep=e, dp=k) for e, k in ((1, 1), (ep, dp)))
    experts = 2 * parameter_count("Mixtral-8x7B").experts
    assert one.weight_memory - many.weight_memory == pytest.approx(experts / tp - experts / shards, abs=1.0)
    d = inference.deploy("Mixtral-8x7B", "H200", tp=tp, ep=ep, dp=dp)
    assert d.server_memory().weight_memory == pytest.approx(many.weight_memory)
    assert d.weight_memory == pytest.approx(many.weight_memory, rel=0.02)


@independent
def test_places_are_what_the_pool_holds() -> None:
    """A replica's places by hand: the pool over the cache of a sequence that holds its prompt and half of its answer.

    Lengths of answers vary by 0.5 where nobody says, and a look at a random time finds the long ones: a quarter of the half more.
    """
    found = mlsysim.serve("Qwen3-32B", "2 H100", rate=0.1, tp=2, input_len=4000, output_len=1000)
    token = 64 * 2 * 8 / 2 * 128 * 2
    held = math.ceil((4000 + 500 * 1.25) / 16) * 16 * token
    assert found.load is not None and found.load.replica.max_running == found.memory.kv_pool // held
    assert found.memory.kv_tokens == pytest.approx(found.memory.kv_pool / token, rel=1e-3)


@independent
def test_what_would_fit_fits() -> None:
    """Asked again with what it says, the simulator runs; it never offers a token less than was asked for."""
    asked = {"concurrency": 4, "requests": 4, "input_len": 200, "output_len": 20}
    refused = mlsysim.simulate("gpt-oss-120B", "H100", max_num_seqs=8192, tp=1, **asked)
    assert not refused.fits and "activations" in refused.reason
    assert any("256 sequences at a time instead of 8192" in line for line in refused.suggestions), refused.suggestions
    assert not any("tokens in all" in line for line in refused.suggestions)
    assert mlsysim.simulate("gpt-oss-120B", "H100", max_num_seqs=256, tp=1, **asked).fits
    tight = mlsysim.serve("Llama-3.1-8B", "1 L4", input_len=60_000, output_len=1000)
    tokens = next(int(line.split()[0]) for line in tight.suggestions if "tokens in all" in line)
    assert not tight.fits and 10_000 < tokens < 61_000
    assert mlsysim.serve("Llama-3.1-8B", "1 L4", input_len=tokens - 1, output_len=1).fits


@independent
def test_eight_bits_stay_eight_where_a_device_multiplies_in_sixteen() -> None:
    found = mlsysim.serve("DeepSeek-R1", "A100", tp=8, pp=2, inter_bandwidth=25e9)
    assert (found.question.precision, found.question.weights) == ("bf16", "fp8")
    assert (
        found.memory.weight_memory
        < 0.6 * memory.server_memory("unsloth/DeepSeek-V3-BF16", "A100", tp=8, pp=2).weight_memory
    )
