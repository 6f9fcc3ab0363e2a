"""Random calls of the command line that mostly have an answer, for the JSON that they print: ``maintain/fuzz.py`` is for what has none.

    python scripts/calls.py [--seed 1] [--calls 20]

prints some. A call is made from the seed and its number alone.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mlsysim import cli, hlo
from mlsysim.api import confirming

confirming._STEPS = 15_000  # what serve() plays of its answer takes seconds, and thousands of calls are made here

DEVICES = ("H100", "A100", "H200", "B200", "MI350X", "TPU-v4", "GB200", "L4", "V100", "2xH100", "8xH200")
ONE = tuple(d for d in DEVICES if "x" not in d.lower()[:2])
MODELS = (
    "Llama-3.1-8B", "Llama-3.1-70B", "Mixtral-8x7B", "DeepSeek-V3", "Qwen3-235B-A22B", "Gemma-2-9B", "gpt2", "Llama-3.1-405B",
)  # fmt: skip
SLO = {"ttft": "450 ms|2 s", "itl": "40 ms|20 ms", "e2e": "8 s|30 s", "quantile": "0.9|0.5"}
BILL = {"price": "2.5 USD/h|6 USD/h", "pue": "1.1|1.3"}
WORDS = {"efficiencies": "calibrated|datasheet|bound"}
SPLIT: dict[str, str] = {
    "tp": "1|2|4|8", "pp": "1|2|4", "cp": "1|2", "ep": "1|2", "virtual-stages": "1|2", "micro-batch": "1|2|4",
    "sharding": "none|zero1|zero2|fsdp", "recompute": "none|selective|full", "task": "pretrain|sft|lora",
}  # fmt: skip
NETWORK = {
    "splits": "1|4", "active-chunks": "1|2", "endpoint-delay": "1 us", "optimization": "localBWAware|baseline", "congestion": "aware|unaware",
}  # fmt: skip
ENGINE = {
    "max-num-seqs": "64|256",
    "max-num-batched-tokens": "2048|8192",
    "gpu-memory-utilization": "0.9|0.8",
    "engine-version": "0.11.0|0.19.0",
}

# What must stand there, and what may, by command; choices are parted by "|", and {name} is a file.
CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "devices": ("", {"device-file": "{mine.toml}"}),
    "models": ("", {}),
    "grids": ("", {"kind": "country|source|region|site"}),
    "prices": ("", {"kind": "rental|purchase|electricity|rule"}),
    "params": ("--model MODEL", {}),
    "roofline": (
        "--device ONE --flops WORK --bytes NUMBER",
        {"precision": "bf16|fp16|fp8", "efficiency": "0.5|0.9|mlsysim-page-training", "memory-efficiency": "0.8", "kernels": "1|100", "launch-overhead": "10 us"},
    ),
    "kernel product": (
        "--device ONE --m SIZE --n SIZE --k SIZE",
        WORDS | {"precision": "bf16|fp8", "groups": "1|8", "weight-precision": "bf16|int4", "out-precision": "bf16|fp32"},
    ),
    "kernel attention": (
        "--device ONE --heads HEADS --cached-len CACHED",
        WORDS | {"precision": "bf16", "kind": "gqa|mla|mla_absorbed", "batch": "1|16", "kv-heads": "8", "head-dim": "64|128", "v-head-dim": "128", "kv-lora-rank": "512", "rope-dim": "64", "q-len": "1|512", "kv-precision": "bf16|fp8"},
    ),
    "collective": ("--op OP --bytes NUMBER PLACE", {"efficiencies": "calibrated|datasheet", "overhead": "10 us"}),
    "train": (
        "--model MODEL DEVICES --global-batch BATCH --seq SEQ",
        SPLIT | WORDS | BILL | {"measured": "{steps.log}", "attn-len": "1024", "precision": "bf16|fp8", "inter-bandwidth": "50 GB/s", "variation": "0.05", "tokens": "1e12|15e12", "reshard-after-forward": "yes|no"},
    ),
    "memory": ("TRAINING", SPLIT | {"recipe": "megatron-bf16|fsdp-mixed|zero-fp16", "capacity": "80 GB"}),
    "memory --serve": ("--serve --model MODEL --device ONE", ENGINE | {"tp": "1|2|8", "weights": "fp8|int8", "head": "fp8|int8", "kv": "fp8", "max-model-len": "4096|8192", "dtype": "bf16"}),
    "serve": (
        "--model MODEL --device DEVICE",
        SLO | BILL | WORDS | {"measured": "{bench.json}", "tp": "1|2|8", "pp": "1|2", "dp": "1|2", "ep": "1|8", "batch": "1|32", "input-len": "100|4000", "output-len": "1|500", "cached-len": "50", "precision": "bf16|fp8", "weights": "fp8|int4-g128", "kv": "fp8", "inter-bandwidth": "50 GB/s", "server": "vLLM 0.11|TensorRT-LLM 0.6.1", "rate": "0.5|5|50", "prompt-variation": "0.5"},
    ),
    "simulate": (
        "--model MODEL --device DEVICE LOAD",
        SLO | BILL | WORDS | {k: v for k, v in ENGINE.items() if k != "engine-version"} | {"measured": "{bench.json}", "tp": "1|2|8", "precision": "bf16|fp8", "weights": "fp8", "kv": "fp8", "kv-blocks": "4000", "replicas": "1|2", "routing": "round-robin|least-loaded", "arrival-variation": "0.5|2", "length-variation": "0.5", "seed": "1|7", "runs": "2", "server": "vLLM 0.11"},
    ),
    "energy": (
        "--devices COUNT --time TIME DRAWN",
        {"utilisation": "0.5", "network-power": "200 W", "pue": "1.2", "wue": "1.8 L/kWh", "grid": "France|Poland", "carbon-intensity": "0.4 kg/kWh", "water-intensity": "3 L/kWh", "covered": "0.5", "residual-intensity": "0.5 kg/kWh", "device-embodied": "150", "lifetime": "5 year", "token-rate": "1000"},
    ),
    "cost": (
        "--devices COUNT --time TIME PAID",
        {"utilisation": "0.5", "interest": "0.08", "salvage": "1000", "network": "2000", "cooling": "0.3", "building": "1000", "plant-lifetime": "15 year", "devices-per-engineer": "500", "salary": "200000 USD/year", "rule": "roofline-page", "token-rate": "1000", "idle-power": "100 W"},
    ),
    "reliability": (
        "--nodes COUNT FAILING --restart 10 min --storage-bandwidth 100 GB/s STATE",
        {"writer-bandwidth": "2 GB/s", "writers": "8", "interval": "1 h", "method": "waits", "spares": "2", "repair": "1 day", "duration": "30 day"},
    ),
    "hlo estimate": (
        "{program.json} --device ONE ESTIMATED",
        {"split": "linear|dependency", "efficiency": "0.5", "memory-efficiency": "0.8", "run-as": "f32=bf16"},
    ),
    "hlo chakra": ("{program.json} --device ONE -o {trace} --force", {"split": "linear|dependency", "efficiency": "0.5", "rounding": "nearest|carried"}),
    "plan": (
        "--model MODEL --node NODE --nodes NODES --global-batch BATCH --seq SEQ",
        WORDS | {"precision": "bf16|fp8", "micro-batch": "1|2", "max-tp": "8", "max-pp": "4", "max-cp": "2", "max-ep": "2", "sharding": "zero1|fsdp", "recompute": "none|full", "capacity": "60 GB", "count": "1|5", "tp": "8"},
    ),
    "frontier": (
        "--model FRONTED --device H100 --max-devices 8",
        {"price": "2.5 USD/h", "input-len": "512|1024", "output-len": "256", "rate": "20|200", "quantile": "0.9", "ttft": "2 s", "itl": "40 ms|1 ms", "precision": "bf16|fp8", "mode": "together|apart|both", "acceptance": "0.7", "drafted": "2"},
    ),
    "sweep": ("SWEPT", {"chunk": "1000"}),
    "compare": ("COMPARED", {}),
}  # fmt: skip
WORD = {
    "MODEL": MODELS, "DEVICE": DEVICES, "ONE": ONE, "COUNT": ("1", "8", "1024"), "TIME": ("1 h", "30 day", "1 year"), "WORK": ("1e6", "1 TFLOP", "1e15"), "SIZE": ("1", "128", "4096", "8192"),
    "CACHED": ("0", "100", "4096"), "HEADS": ("8", "32", "128"), "SEQ": ("512", "4096", "8192"), "BATCH": ("16", "256", "1024"), "NODE": ("DGX-H100", "DGX-A100", "DGX-H200"), "NODES": ("1", "2", "4", "8"),
    "NUMBER": ("1e6", "1e9", "1e12", "64 kB"), "OP": ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    "PLACE": (
        "--ranks 8 --bandwidth 50e9 --latency 1e-6 --algorithm ALGORITHM", "--node DGX-H100 --ranks 8", "--node DGX-H100 --ranks 16", "--node DGX-A100 --ranks 64",
        "--node DGX-H100 --ranks 16 --algorithm ring", "--ranks 16 --bandwidth 50e9 --latency 1e-6 --ranks-per-node 8 --node-latency 5e-6 --algorithm ring",
        "--topology ring:8 --bandwidth 50e9 --latency 1e-6 --algorithm ring", "--topology ring:4xswitch:2 --bandwidth 50e9,10e9 --latency 1e-6,2e-6 --algorithm ring,direct --splits 4",
        "--topology fullyconnected:4 --bandwidth 50e9 --latency 1e-6 --algorithm direct --congestion unaware",
    ),
    "ALGORITHM": ("ring", "tree", "pairwise", "direct", "halving-doubling"),
    "DEVICES": ("--device H100 --devices 8", "--node DGX-H100 --nodes 2", "--node DGX-H100 --nodes 16", "--node DGX-A100 --nodes 8", "--device 8xH200", "--device B200 --devices 64"),
    "TRAINING": ("--model MODEL --device ONE --devices 8 --seq SEQ --global-batch BATCH", "--model MODEL --device ONE --devices 64 --seq SEQ --global-batch BATCH"),
    "LOAD": ("--rate 1 --requests 20 --input-len 100 --output-len 20", "--rate 20 --requests 50 --input-len 1000 --output-len 50", "--trace {trace.csv}",
        "--rate 5 --requests 30 --traffic agents --turns 5 --prefix-tree --prefill-replicas 1 --acceptance 0.8,0.5", "--rate 5 --requests 30 --autoscaler 1:2 --target 2 --start-up 1 s --every 1 s"),
    "DRAWN": ("--device H100 --pue 1.2", "--device A100 --facility Google-2025", "--peak-power 700 --idle-power 100 --pue 1.1", "--device H100 --pue 1.2 --nodes 2 --host-power 1500"),
    "PAID": ("--rental-rate 2.5 USD/h", "--rental-rate 2 USD/h", "OWNED", "OWNED"),
    "ESTIMATED": ("", "", "--topology ring:8 --bandwidth 50e9 --latency 1e-6 --algorithm ring --splits 4", "--estimator systolic --array 128x128 --clock 940 MHz"),
    "FRONTED": ("Llama-3.1-8B", "gpt-oss-120B", "Llama-3.1-405B"),
    "STATE": ("--model Llama-3.1-8B", "--checkpoint-bytes 1 TB"),
    "OWNED": (
        "--price 30000 --power 700 --lifetime 5 year --pue 1.2 --electricity-price 0.08 USD/kWh --cooling 0.3 --building 1000 --plant-lifetime 15 year --devices-per-engineer 500 --salary 200000 USD/year --network 2000",
    ),
    "FAILING": ("--node-mtbf 1 year", "--node-mtbf 1 year --method background --copy-bandwidth 10 GB/s", "--failures 400 --watched 54 day --watched-nodes 2048", "--node-mtbf 5 year"),
    "COMPARED": ("{bench.json} --model MODEL --device ONE", "{bench.json} --device H100", "{bench.json}", "{steps.log} --model Llama-3.1-8B --device H100",
        "{nccl.txt}", "{llama.md} --model Llama-3.1-8B --device RTX-4090", "{kineto.json} --model Llama-3.1-8B --phase decode --batch 1 --input-len 100"),
    "SWEPT": (
        "eq-ridge-point peak_flops=1e12:1e15:4 memory_bandwidth=1e12", "train model=Llama-3.1-8B node=DGX-H100 nodes=1,2 global_batch=64 seq=4096",
        "serve model=Llama-3.1-8B device=H100 batch=1,8 input_len=100 output_len=10",
        "energy devices=8 time=3600 device=H100 pue=1.1,1.2", "cost devices=8 time=3600 rental_rate=2.5USD/h",
    ),
}  # fmt: skip


# Every command with --json; those that are not above measure, need a trace of measured requests, or score all rows.
COMMANDS = [*dict.fromkeys(c.removesuffix(" --serve") for c in CALLS), "calibrate", "bench-device", "validate"]


def fixed(command: str) -> list[list[str]]:
    """Calls that are no random ones."""
    if command == "calibrate":
        return [
            [
                "calibrate",
                "--model",
                "Llama-3.1-8B",
                "--device",
                "H100",
                "--trace",
                files()["steps.csv"],
                "--engine-version",
                "0.11.0",
                "--json",
            ]
            + ["-o", files()["trace"] + ".json", flag]
            for flag in ("--slopes", "--no-slopes")
        ]
    if command == "bench-device":
        return [["bench-device", "--quick", "--platform", "cpu", "--json", "-o", files()["trace"] + ".json"]]
    if command == "validate":
        return [
            ["validate", "--json", "--class", name, "--efficiencies", word]
            for name in ("scalar", "memory", "inference")
            for word in ("calibrated", "datasheet")
        ]
    return []


def _runs() -> dict[str, str]:
    """What other tools would have written."""
    bench = {
        "model_id": "meta-llama/Llama-3.1-8B-Instruct", "request_rate": "inf", "max_concurrency": 4, "completed": 20, "total_input_tokens": 4000,
        "total_output_tokens": 1000, "mean_ttft_ms": 40.0, "mean_tpot_ms": 11.0, "output_throughput": 330.0, "request_throughput": 6.6,
    }  # fmt: skip
    steps = "".join(
        f" iteration {i:8d}/ 100 | elapsed time per iteration (ms): 3000.0 | global batch size: 64 |\n"
        for i in range(1, 6)
    )
    given = "  seq_length .................. 4096\n  world_size .................. 8\n  tensor_model_parallel_size .................. 2\n"
    nccl = "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    who = "".join(f"#  Rank  {i} Pid 1 on one device  {i} [0x1b] NVIDIA H100 80GB HBM3\n" for i in range(8))
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 5000, "args": {"device": 0}}
    return {
        "bench.json": json.dumps(bench),
        "steps.log": given + steps,
        "nccl.txt": f"# all_reduce_perf\n{who}{nccl}  1048576 262144 float sum -1 40.0 26 45 0 41.0 26 45 0\n",
        "llama.md": "| model | ngl | test | t/s |\n| - | - | - | - |\n| llama 8B Q4_0 | 99 | tg128 | 120.0 ± 1.0 |\n",
        "kineto.json": json.dumps({"deviceProperties": [{"name": "NVIDIA H100 80GB HBM3"}], "traceEvents": [event]}),
    }


@cache
def files() -> dict[str, str]:
    """The files that calls name, in a folder of their own."""
    folder = Path(tempfile.mkdtemp(prefix="mlsysim-calls-"))
    text = {
        "trace.csv": "arrival_s,input_len,output_len\n0,100,10\n0.5,200,20\n1,50,5\n",
        "mine.toml": '["Mine"]\nmemory_bandwidth = "2 TB/s"\nmemory_capacity = "80 GB"\npeak_flops.bf16 = "100 TFLOP/s"\n',
        "program.json": hlo.to_json(hlo.sample("tf1l_train_dp8.spmd")),
    }
    text |= _runs()
    rows = [f"{i * 0.5},{100 + 37 * i % 900},{20 + 13 * i % 80}" for i in range(120)]
    seen = [
        f"{row},{0.02 + 1e-5 * (100 + 37 * i % 900)},0.01,{0.5 + 0.01 * (20 + 13 * i % 80)}"
        for i, row in enumerate(rows)
    ]
    text["steps.csv"] = "\n".join(["arrival_s,input_len,output_len,ttft_s,itl_s,e2e_s", *seen]) + "\n"
    for name, content in text.items():
        (folder / name).write_text(content, encoding="utf-8")
    return {name: str(folder / name) for name in [*text, "trace"]}


def _filled(rng: random.Random, text: str) -> list[str]:
    """Words of a template; a value with a space in it stays one word behind its option."""
    out: list[str] = []
    for part in text.split(" "):
        if part in WORD:
            out += _filled(rng, rng.choice(WORD[part]))
        elif part.startswith("{"):
            out.append(files()[part[1:-1]])
        elif out and out[-1] and not part.startswith("-") and out[-1][0].isdigit() and part[:1].isalpha():
            out[-1] += f" {part}"  # a unit
        elif part:
            out.append(part)
    return out


def plainly(rng: random.Random, command: str) -> list[str]:
    """One call with what must stand there alone."""
    return [*command.removesuffix(" --serve").split(), *_filled(rng, CALLS[command][0])]


def make(rng: random.Random, commands: Sequence[str] = ()) -> list[str]:
    """One call, with ``--json``."""
    command = rng.choice(list(commands or CALLS))
    words, may = plainly(rng, command), CALLS[command][1]
    share = rng.choice((0.0, 0.1, 0.3))
    for option, values in may.items():
        if rng.random() < share and f"--{option}" not in words:
            value = rng.choice(values.split("|"))
            words += [f"--{option}", files()[value[1:-1]] if value.startswith("{") else value]
    return [*words, "--json"]


def name(words: Sequence[str]) -> str:
    """Which command a call is of: two words where the first has commands below it."""
    return " ".join(words[: 2 if words[0] in ("kernel", "hlo") else 1])


def run(words: Sequence[str]) -> tuple[int, Any, str]:
    """Exit status, the JSON printed, and what stands on standard error.

    What measures this machine runs in a process of its own, which loads NumPy with one thread.
    """
    if words[0] == "bench-device":
        command = [sys.executable, "-m", "mlsysim.cli", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(words)
    return code, json.loads(out.getvalue()) if code in (0, 3) else None, err.getvalue()


def answers(seed: int | str, count: int, commands: Sequence[str] = ()) -> Iterator[tuple[list[str], Any]]:
    """So many calls that printed JSON, and it; the last may need more tries than ten a call."""
    found = 0
    for number in range(10 * count):
        words = make(random.Random(f"{seed} {number}"), commands)
        code, printed, _ = run(words)
        if code in (0, 3):
            yield words, printed
            found += 1
            if found == count:
                return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--calls", type=int, default=20)
    given = parser.parse_args()
    for number in range(given.calls):
        words = make(random.Random(f"{given.seed} {number}"))
        code, _, error = run(words)
        print(code, "mlsysim", shlex.join(words), error.strip()[:150] if code not in (0, 3) else "")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
