"""``mlsysim train`` and ``mlsysim memory``: options reach the solvers, keys and units stay."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlsysim import catalog, training
from mlsysim.parallelism import Plan

TRAIN = "train --model Llama-3.1-8B --device H100 --devices 16 --tp 2 --global-batch 64 --seq 8192"
NETWORK = ("--inter-bandwidth", "50 GB/s")
MEMORY = "memory --model Llama-3.1-8B --device H100 --devices 8 --seq 8192"
GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_layer": 12,
    "n_embd": 768,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}


@pytest.mark.independent
def test_train_prints_the_solver(run: Any) -> None:
    out = run(TRAIN, *NETWORK, "--tokens", "1e12", "--json")
    ours = training.training_step(
        "Llama-3.1-8B", Plan(tp=2, dp=8), "H100", global_batch=64, seq=8192, inter_bandwidth=50e9
    )
    assert out["efficiencies"] == "calibrated" and out["interval_s"] == pytest.approx(list(ours.interval().ends))
    assert out["time_s"] == ours.time == pytest.approx(sum(out["terms_s"].values()))
    assert out["time_to_train_s"] == pytest.approx(1e12 / (64 * 8192) * ours.time)
    assert out["fits"] is True and out["memory_bytes"] == ours.memory.total
    assert {"mfu", "hfu", "binding", "devices", "tokens_per_s", "rates", "reason"} <= set(out)
    text = run(TRAIN, *NETWORK)
    assert "MFU" in text and "step" in text and "fits" in text
    assert "eq-pipelined-step" in run(TRAIN, *NETWORK, "--explain")


@pytest.mark.independent
def test_train_runs_on_a_cluster(run: Any) -> None:
    command = "train --model Llama-3.1-8B --node DGX-H100 --nodes 2 --tp 2 --global-batch 64 --seq 8192"
    assert run(command, "--json")["time_s"] == run(TRAIN, *NETWORK, "--json")["time_s"]
    assert "--node" in run(command + " --device H100")
    assert "--node" in run("train --model Llama-3.1-8B --global-batch 64 --seq 8192")
    assert "17" in run(TRAIN.replace("16", "17", 1))


@pytest.mark.independent
@pytest.mark.parametrize(
    ("options", "change"),
    [
        ("--sharding hsdp --hsdp-group 4", {"plan": Plan(tp=2, dp=8, sharding="hsdp", hsdp_group=4)}),
        ("--sharding fsdp --recompute full", {"plan": Plan(tp=2, dp=8, sharding="fsdp", recompute="full")}),
        (
            "--sharding fsdp --reshard-after-forward no --efficiencies bound",
            {"plan": Plan(tp=2, dp=8, sharding="fsdp", reshard_after_forward=False), "efficiencies": "bound"},
        ),
        ("--order dp-cp-tp-pp", {"plan": Plan(tp=2, dp=8, order="dp-cp-tp-pp")}),
        ("--no-sequence-parallel", {"plan": Plan(tp=2, dp=8, sequence_parallel=False)}),
        (
            "--micro-batch 2 --pp 2 --virtual-stages 2",
            {"plan": Plan(tp=2, pp=2, dp=4, micro_batch=2, virtual_stages=2)},
        ),
        ("--cp 2 --attn-len 1000", {"plan": Plan(tp=2, cp=2, dp=4), "attn_len": 1000.0}),
        ("--cp 8 --cp-comm-type all_gather", {"plan": Plan(tp=2, cp=8, dp=1, cp_comm_type="all_gather")}),
        ("--task lora", {"task": "lora"}),
        ("--variation 0.01", {"variation": 0.01}),
        ("--precision fp8", {"precision": "fp8"}),
        ("--efficiencies bound", {"efficiencies": "bound"}),
        ("--efficiencies datasheet --precision fp8", {"efficiencies": "datasheet", "precision": "fp8"}),
    ],
)
def test_every_option_of_train_reaches_the_solver(run: Any, options: str, change: dict[str, Any]) -> None:
    plan = change.pop("plan", Plan(tp=2, dp=8))
    ours = training.training_step(
        "Llama-3.1-8B", plan, "H100", global_batch=64, seq=8192, inter_bandwidth=50e9, **change
    )
    out = run(TRAIN, *NETWORK, *options.split(), "--json")
    assert out["time_s"] == ours.time
    plain = run(TRAIN, *NETWORK, "--json")
    assert out["time_s"] != plain["time_s"]


@pytest.mark.independent
def test_memory_prints_the_solver(run: Any) -> None:
    out = run(MEMORY, "--json")
    ours = training.training_memory("Llama-3.1-8B", Plan(dp=8), "H100", seq=8192)
    assert out["total_bytes"] == ours.total
    parts = ("weights", "gradients", "optimizer", "gathered", "activations", "passing")
    assert out["total_bytes"] == pytest.approx(sum(out[f"{name}_bytes"] for name in parts))
    assert out["fits"] == ours.fits and out["capacity_bytes"] == pytest.approx(79.11 * 2**30)
    assert "eq-training-memory" in run(MEMORY, "--explain")
    assert run(MEMORY, "--capacity", "40 GB", "--json")["fits"] is False
    assert run(MEMORY, "--capacity", "1e12", "--json")["capacity_bytes"] == 1e12


@pytest.mark.independent
@pytest.mark.parametrize(
    "options",
    [
        "--sharding fsdp",
        "--sharding hsdp --hsdp-group 4",
        "--recompute full",
        "--recipe zero-fp16",
        "--micro-batch 2",
        "--tp 2",
        "--pp 2 --global-batch 4",
        "--task lora",
        "--no-fused-attention",
        "--dropout",
    ],
)
def test_every_option_of_memory_matters(run: Any, options: str) -> None:
    changed, plain = run(MEMORY, *options.split(), "--json"), run(MEMORY, "--json")
    assert changed["total_bytes"] != plain["total_bytes"]


@pytest.mark.independent
def test_what_stays_gathered_is_an_option_of_sharded_weights(run: Any) -> None:
    fsdp = ("--sharding", "fsdp")
    kept, freed, rule = (
        run(MEMORY, *fsdp, *more, "--json")["gathered_bytes"]
        for more in (("--reshard-after-forward", "no"), ("--reshard-after-forward", "yes"), ())
    )
    assert kept == 2 * 8_030_261_248 and freed == rule < kept
    assert "belongs to sharding 'fsdp' or 'hsdp'" in run(MEMORY, "--reshard-after-forward", "yes")
    for nothing in ("-80 GB", "0 GB"):
        assert "capacity" in run(MEMORY, f"--capacity={nothing}")


@pytest.mark.independent
def test_a_config_file_stands_in_for_a_name(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GPT2))
    one = run(f"memory --model {path} --device A100 --seq 1024", "--json")
    assert one["weights_bytes"] == 2 * 124_439_808
    step = run(f"train --model {path} --device A100 --tp 1 --global-batch 8 --seq 1024", "--json")
    model = catalog.from_hf_config(path)
    assert step["time_s"] == training.training_step(model, Plan(), "A100", global_batch=8, seq=1024).time


@pytest.mark.independent
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (TRAIN + " --hsdp-group 4", "hsdp"),
        (TRAIN + " --tp 3", "tp"),
        (TRAIN.replace("H100", "MI325X"), "inter_bandwidth"),
        (TRAIN + " --efficiencies dream", "bound"),
        (TRAIN + " --order tp-dp", "order"),
        ("memory --model Llama-3.1-8B --device H100 --seq 0", "seq"),
        ("memory --model Llama-3.1-8 --device H100 --seq 1", "Llama-3.1-8B"),
        ("memory --model Llama-3.1-8B --device H100 --devices 3 --tp 2 --seq 1", "3"),
    ],
)
def test_an_error_is_one_sentence(run: Any, command: str, says: str) -> None:
    message = run(command)
    assert message.startswith("mlsysim: ") and says in message and "Traceback" not in message
