"""Runs of other tools: each format read in our own words, damaged files refused, gaps explained, and answers moved by what a run tells."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mlsysim
from mlsysim import SLO, catalog, inference, intervals, runs, serving_steps, training
from mlsysim.api.own import ALIKE, APART, MOVED
from mlsysim.api.predicting import Predicted
from mlsysim.api.runs import Row
from mlsysim.cli import main
from mlsysim.errors import InputError
from mlsysim.evidence.scoring import decisions, own_points
from mlsysim.evidence.scoring.ranges import LeftError, common_error
from mlsysim.parallelism import Plan

independent, regression = pytest.mark.independent, pytest.mark.regression

BENCH = {
    "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "request_rate": "inf", "max_concurrency": 8, "duration": 20.0, "completed": 40,
    "failed": 2, "total_input_tokens": 40_000, "total_output_tokens": 8_000, "request_throughput": 2.0, "output_throughput": 400.0,
    "mean_ttft_ms": 50.0, "std_ttft_ms": 20.0, "mean_tpot_ms": 10.0, "std_tpot_ms": 4.0, "mean_e2el_ms": 4000.0,
}  # fmt: skip
SGLANG = {
    "backend": "sglang", "request_rate": 4.0, "max_concurrency": None, "duration": 10.0, "completed": 20, "total_input_tokens": 2000, "total_output_tokens": 400,
    "request_throughput": 2.0, "output_throughput": 40.0, "mean_ttft_ms": 30.0, "mean_tpot_ms": 5.0, "mean_e2e_latency_ms": 125.0,
    "server_info": {"model_path": "Qwen/Qwen3-32B", "tp_size": 2, "ep_size": 1, "kv_cache_dtype": "fp8_e4m3"},
}  # fmt: skip
PRINTED = """vllm bench serve --model Qwen/Qwen3-8B
============ Serving Benchmark Result ============
Successful requests:                     20
Maximum request concurrency:             4
Benchmark duration (s):                  10.00
Total input tokens:                      2000
Total generated tokens:                  400
Output token throughput (tok/s):         40.00
Mean TTFT (ms):                          30.00
Mean TPOT (ms):                          5.00
==================================================
"""
TRTLLM = {
    "engine": {"model": "meta-llama/Llama-3.1-8B", "version": "1.0.0", "quantization": "FP8", "kv_cache_dtype": "FP8"},
    "machine": {"name": "NVIDIA H100 80GB HBM3"},
    "world_info": {"tp_size": 1, "pp_size": 1, "ep_size": None},
    "request_info": {
        "num_requests": 100,
        "avg_num_concurrent_requests": 31.6,
        "avg_input_length": 128.0,
        "avg_output_length": 64.0,
    },
    "performance": {
        "avg_request_latency_ms": 500.0,
        "request_throughput_req_s": 64.0,
        "system_output_throughput_tok_s": 4096.0,
    },
    "streaming_metrics": {"avg_ttft_ms": 40.0, "avg_tpot_ms": 7.0},
}
GENAI = {
    "request_throughput": {"unit": "requests/sec", "avg": 2.5}, "request_latency": {"unit": "ms", "avg": 800.0, "std": 80.0},
    "request_count": {"unit": "requests", "avg": 64}, "time_to_first_token": {"unit": "ms", "avg": 20.0}, "inter_token_latency": {"unit": "ms", "avg": 6.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 250.0}, "input_sequence_length": {"unit": "tokens", "avg": 500.0},
    "output_sequence_length": {"unit": "tokens", "avg": 100.0}, "input_config": {"endpoint": {"model_names": ["Qwen/Qwen3-8B"]}, "loadgen": {"concurrency": 2}},
}  # fmt: skip
GENAI_CSV = """Metric,avg,min,max,p99,p90,p75,std
Inter Token Latency (ms),6.00,5.0,7.0,7.0,6.5,6.2,0.60
Input Sequence Length (tokens),500.00,500,500,500,500,500,0
Output Sequence Length (tokens),100.00,100,100,100,100,100,0
Request Latency (ms),"1,800.00",700,900,890,880,850,80

Metric,Value
Request Count (requests),64.00
Request Throughput (requests/sec),2.50
"""
GENAI_TABLE = """NVIDIA AIPerf | LLM Metrics
┃                    Metric ┃  avg ┃  min ┃ std ┃
│ Time to First Token (ms) │ 20.00 │ 10.0 │ 5.0 │
│ Inter Token Latency (ms) │ 6.00 │ 5.0 │ 0.6 │
│ Output Sequence Length (tokens) │ 100.00 │ 100 │ 0 │
│ Input Sequence Length (tokens) │ 500.00 │ 500 │ 0 │
│ Request Latency (ms) │ 614.00 │ 500 │ 9 │
│ Request Throughput (requests/sec) │ 6.50 │ N/A │ N/A │
"""
LLAMA = [
    {"build_commit": "a", "gpu_info": "NVIDIA GeForce RTX 4090", "backends": "CUDA", "model_type": "llama 8B Q4_0", "n_gpu_layers": 99, "n_prompt": 512,
     "n_gen": 0, "n_depth": 0, "avg_ts": 5120.0, "stddev_ts": 51.2, "samples_ts": [5100.0, 5120.0, 5130.0, 5130.0]},
    {"build_commit": "a", "gpu_info": "NVIDIA GeForce RTX 4090", "backends": "CUDA", "model_type": "llama 8B Q4_0", "n_gpu_layers": 99, "n_prompt": 0,
     "n_gen": 128, "n_depth": 64, "avg_ts": 125.0, "stddev_ts": 0.0, "samples_ts": [125.0]},
]  # fmt: skip
LLAMA_TABLE = """| model          |     size | params | backend | ngl |          test |            t/s |
| -------------- | -------: | -----: | ------- | --: | ------------: | -------------: |
| llama 8B Q4_0  | 4.3 GiB  | 8.03 B | CUDA    |  99 |         pp512 | 5120.00 ± 51.2 |
| llama 8B Q4_0  | 4.3 GiB  | 8.03 B | CUDA    |  99 |  tg128 @ d64  |  125.00 ± 0.00 |
| llama 8B F16   | 16 GiB   | 8.03 B | CUDA    |  99 |         tg128 |   60.00 ± 0.10 |
"""
LLAMA_CSV = """build_commit,gpu_info,backends,model_type,n_gpu_layers,n_prompt,n_gen,n_depth,avg_ts,stddev_ts
"a","NVIDIA GeForce RTX 4090","CUDA","llama 8B Q4_0","99","512","0","0","5120.0","51.2"
"a","NVIDIA GeForce RTX 4090","CUDA","llama 8B Q4_0","99","0","128","64","125.0","0"
"""
NCCL = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 1 iters: 20
#  Rank  0 Group  0 Pid  1 on    one device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  1 on    one device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    20.00   52.43   52.43      0    99.00   10.59   10.59      0
     2097152        524288     float     sum      -1    30.00   69.91   69.91      0    99.00   21.18   21.18      0
"""
MEGATRON = """  context_parallel_size ........................... 1
  global_batch_size ............................... 128
  pipeline_model_parallel_size .................... 1
  recompute_granularity ........................... None
  seq_length ...................................... 8192
  tensor_model_parallel_size ...................... 8
  use_distributed_optimizer ....................... True
  world_size ...................................... 64
""" + "".join(
    f" [2025-01-10 10:00:0{i}] iteration        {i}/     100 | consumed samples:          128 | elapsed time per iteration (ms): {ms:.1f} |"
    f" learning rate: 1.0E-05 | global batch size:   128 |\n"
    for i, ms in enumerate((9000, 4000, 3000, 3000, 3100, 3000), 1)
)
NEMO = "".join(
    f"Training epoch 0, iteration {i}/99 | lr: 1e-06 | global_batch_size: 64 | global_step: {i} | reduced_train_loss: 11.9 | train_step_timing in s: {s}\n"
    for i, s in enumerate((20.0, 9.0, 5.0, 5.0))
)
TITAN = "[titan] CUDA capacity: NVIDIA H100 80GB HBM3 with 79.11GiB memory\n" + "".join(
    f"[rank0]:\x1b[31mstep: {i:2}  \x1b[32mloss:  7.1  \x1b[33mmemory: 40.00GiB(50.00%)  \x1b[34mtps: {t:,}  \x1b[35mmfu: 40.00%\x1b[39m\n"
    for i, t in enumerate((100, 5000, 6000, 6000), 1)
)


def mllog(key: str, value: Any, **more: Any) -> str:
    return f":::MLLOG {json.dumps({'namespace': '', 'time_ms': 0, 'event_type': 'POINT_IN_TIME', 'key': key, 'value': value, **more})}\n"


MLPERF = (
    mllog("submission_benchmark", "llama31_8b") + mllog("global_batch_size", 32) + mllog("max_sequence_length", 8192)
    + "".join(mllog("tracked_stats", {"throughput": t}) for t in (1.0, 2.0, 32.0, 32.0))
)  # fmt: skip
MLPERF_COUNTS = (
    mllog("submission_benchmark", "llama2_70b_lora") + mllog("global_batch_size", 8)
    + mllog("train_loss", 1.0, time_ms=1000, metadata={"samples_count": 80}) + mllog("train_loss", 0.9, time_ms=21_000, metadata={"samples_count": 160})
)  # fmt: skip
LOADGEN = """================================================
MLPerf Results Summary
================================================
SUT name : A
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 12.50
Completed tokens per second                 : 3200.0
Result is : INVALID
Mean First Token latency (ns)               : 250000000
Mean Time to Output Token (ns)              : 20000000
"""


def trace(kernels: list[tuple[str, float, float]], steps: int = 0, **more: Any) -> dict[str, Any]:
    events = [
        {"ph": "X", "cat": "kernel", "name": n, "ts": ts, "dur": d, "args": {"device": 0}} for n, ts, d in kernels
    ]
    events += [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "ts": 0, "dur": 1} for i in range(steps)
    ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        "traceEvents": events,
        **more,
    }


KINETO = trace(
    [
        ("sm90_xmma_gemm_bf16", 0, 40),
        ("ncclDevKernel_AllReduce", 50, 20),
        ("flash_fwd_kernel", 70, 10),
        ("norm", 80, 20),
    ],
    steps=2,
)

# Format, file, what it says of the question, and its figures in SI units, by hand from the text
READ: Mapping[str, tuple[str, Any, Mapping[str, Any], Mapping[str, float]]] = {
    "vllm": ("r.json", BENCH, {"model": "meta-llama/Llama-3.1-8B-Instruct", "concurrency": 8, "input_len": 1000.0, "output_len": 200.0, "requests": 40},
             {"ttft_s": 0.05, "itl_s": 0.01, "e2e_s": 4.0, "tokens_per_s": 400.0}),
    "sglang": ("r.jsonl", "\n".join([json.dumps(BENCH), json.dumps(SGLANG)]), {"model": "Qwen/Qwen3-32B", "tp": 2, "kv": "fp8", "rate": 4.0, "input_len": 100.0},
               {"ttft_s": 0.03, "itl_s": 0.005, "e2e_s": 0.125, "tokens_per_s": 40.0}),
    "printed": ("r.txt", PRINTED, {"model": "Qwen/Qwen3-8B", "concurrency": 4, "input_len": 100.0, "output_len": 20.0}, {"ttft_s": 0.03, "itl_s": 0.005, "tokens_per_s": 40.0}),
    "trtllm": ("r.json", TRTLLM, {"device": "NVIDIA H100 80GB HBM3", "precision": "fp8", "kv": "fp8", "concurrency": 32, "server": "TensorRT-LLM 1.0.0"},
               {"ttft_s": 0.04, "itl_s": 0.007, "e2e_s": 0.5, "tokens_per_s": 4096.0}),
    "genai": ("r.json", GENAI, {"model": "Qwen/Qwen3-8B", "concurrency": 2, "input_len": 500.0, "requests": 64}, {"ttft_s": 0.02, "itl_s": 0.006, "e2e_s": 0.8, "tokens_per_s": 250.0}),
    "genai csv": ("r.csv", GENAI_CSV, {"concurrency": 4, "input_len": 500.0, "output_len": 100.0}, {"itl_s": 0.006, "e2e_s": 1.8, "requests_per_s": 2.5}),  # 2.5 x 1.8
    "aiperf table": ("r.txt", GENAI_TABLE, {"concurrency": 4}, {"ttft_s": 0.02, "itl_s": 0.006, "e2e_s": 0.614, "requests_per_s": 6.5}),
    "llama json": ("r.json", LLAMA, {"device": "NVIDIA GeForce RTX 4090", "weights": "int4-sym-g32"}, {"prompt_s": 0.1, "decode_s": 0.008}),
    "llama table": ("r.md", LLAMA_TABLE, {"weights": "int4-sym-g32"}, {"prompt_s": 0.1, "decode_s": 0.008}),
    "llama csv": ("r.csv", LLAMA_CSV, {"device": "NVIDIA GeForce RTX 4090"}, {"prompt_s": 0.1, "decode_s": 0.008}),
    "nccl": ("r.txt", NCCL, {"op": "all_reduce", "ranks": 2, "hosts": 1, "device": "NVIDIA H100 80GB HBM3"}, {"time_s": 20e-6}),
    "megatron": ("r.log", MEGATRON, {"tp": 8, "devices": 64, "global_batch": 128, "seq": 8192, "recompute": "none", "sharding": "zero1"}, {"step_s": 3.0}),
    "nemo": ("r.log", NEMO, {"global_batch": 64}, {"step_s": 5.0}),
    "torchtitan": ("r.log", TITAN, {"device": "NVIDIA H100 80GB HBM3"}, {"device_tokens_per_s": 6000.0}),
    "mlperf": ("result_0.txt", MLPERF, {"model": "Llama-3.1-8B", "global_batch": 32, "seq": 8192, "task": "pretrain"}, {"step_s": 1.0}),
    "mlperf counts": ("result_0.txt", MLPERF_COUNTS, {"model": "Llama-2-70B", "task": "lora"}, {"step_s": 2.0}),  # 20 s for 10 batches of 8
    "loadgen": ("mlperf_log_summary.txt", LOADGEN, {"rate": 12.5}, {"ttft_s": 0.25, "itl_s": 0.02, "tokens_per_s": 3200.0, "requests_per_s": 12.5}),
    "kineto": ("t.json", KINETO, {"device": "NVIDIA H100 80GB HBM3"}, {"kernels_s": 20e-6}),  # 40 us of products in two steps
}  # fmt: skip


def written(tmp_path: Path, name: str, content: Any) -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@independent
@pytest.mark.parametrize("name", READ)
def test_every_format_is_read_in_si_units(tmp_path: Path, name: str) -> None:
    file, content, asked, figures = READ[name]
    found = runs.read_run(written(tmp_path, file, content))
    assert {n: found.asked[n] for n in asked} == asked
    first: dict[str, float] = {}
    for f in found.figures:
        first.setdefault(f.name, f.value)
    assert first == pytest.approx(dict(figures))
    assert str(found) and found.to_dict()["figures"]


@independent
def test_a_reader_says_what_it_leaves_aside(tmp_path: Path) -> None:
    bench = runs.read_run(written(tmp_path, "r.json", BENCH))
    assert any("2 requests failed" in n for n in bench.notes)
    assert bench.figures[1].noise == pytest.approx(4.0 / 10.0 / 40**0.5)  # of a mean of 40
    assert any("1 rows of another model" in n for n in runs.read_run(written(tmp_path, "r.md", LLAMA_TABLE)).notes)
    assert any("INVALID" in n for n in runs.read_run(written(tmp_path, "s.txt", LOADGEN)).notes)
    two = runs.read_run(written(tmp_path, "r.jsonl", READ["sglang"][1]))
    assert any("2 runs in the file" in n for n in two.notes)
    slow = {
        **BENCH,
        "request_throughput": 1.0,
        "output_throughput": 200.0,
    }  # 1 x 4 s: half of the 8 that were to be in flight
    assert any("4 in flight on average, not 8" in n for n in runs.read_run(written(tmp_path, "s.json", slow)).notes)


@independent
def test_a_trace_is_summed_by_class_and_by_step(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps(KINETO).encode()))
    found = {f.at["class"]: f.value for f in runs.read_run(path).figures}
    assert found == pytest.approx(
        {"products": 20e-6, "messages": 10e-6, "attention": 5e-6, "others": 10e-6, "gaps": 5e-6}
    )
    both = trace([("gemm_a", 0, 100), ("nccl_b", 50, 100)])  # beside each other for half
    assert any("34%" in n or "33%" in n for n in runs.read_run(written(tmp_path, "b.json", both)).notes)


DAMAGED = {
    "cut JSON": ("r.json", json.dumps(BENCH, indent=1)[:200], r"r\.json, line \d+: not valid JSON at column \d+"),
    "cut line": ("r.jsonl", json.dumps(SGLANG) + "\n" + json.dumps(SGLANG)[:50], r"line 2: not valid JSON"),
    "nested": ("r.json", '{"a":' * 100_000, "nested too deeply"),
    "no requests": ("r.json", {**BENCH, "completed": 0}, "no request was completed"),
    "not a number": (
        "r.json",
        {**BENCH, "mean_ttft_ms": "fast"},
        r"line 1, mean_ttft_ms = 'fast' must be a finite number",
    ),
    "negative": ("r.json", {**BENCH, "mean_tpot_ms": -1.0}, r"mean_tpot_ms: '-0.001' must be a finite number above 0"),
    "infinite": ("r.json", json.dumps(BENCH).replace("10.0", "1e999"), "mean_tpot_ms = 'inf' must be a finite number"),
    "csv": ("r.csv", LLAMA_CSV.rsplit(",", 1)[0], r"line 3: has 9 columns where the head has 10"),
    "llama test": ("r.md", LLAMA_TABLE.replace("pp512", "xy512"), r"line 3: test 'xy512'"),
    "nccl cut": ("r.txt", NCCL.rsplit("52", 1)[0] + "52\n", r"line 10: has \d+ columns where the head has 13"),
    "nccl other": (
        "r.txt",
        NCCL.replace("all_reduce_perf", "sendrecv_perf"),
        r"line 1: sendrecv is not among the collectives",
    ),
    "few steps": ("r.log", "\n".join(MEGATRON.splitlines()[:10]), r"line 10: 2 steps, the first of the job among them"),
    "zero step": ("r.log", NEMO.replace("5.0", "0.0"), r"line 3: '0.0' must be a finite number above 0"),
    "mllog": ("r.txt", ':::MLLOG {"key": "global_batch_size", "val', "line 1: a line of :::MLLOG that is no JSON"),
    "no kernels": ("t.json", trace([]), "a trace without a kernel"),
    "bad event": ("t.json", trace([("gemm", -5, 1)]), r"event 0 \('gemm'\): ts and dur must be microseconds"),
    "another": ("r.txt", "hello\n", "of no format that we read"),
}


@independent
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    file, content, words = DAMAGED[name]
    with pytest.raises(InputError, match=words):
        runs.read_run(written(tmp_path, file, content))


@independent
def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsysim.runs import reading

    monkeypatch.setattr(reading, "MOST_UNPACKED", 1000)
    bomb = tmp_path / "t.json.gz"
    bomb.write_bytes(gzip.compress(b" " * 2000))
    with pytest.raises(InputError, match="unpacks to more than 1,000 bytes"):
        runs.read_run(bomb)
    bomb.write_bytes(gzip.compress(b" " * 500)[:-9])
    with pytest.raises(InputError, match="ends before its end"):
        runs.read_run(bomb)
    with pytest.raises(InputError, match="not a file"):
        runs.read_run(tmp_path)


# The update


def conditional(errors: list[float], spread: float, common: float, noise: float) -> tuple[float, float]:
    """Mean and deviation of the next error of a source, from the normal distribution of all of them: by elimination, without eq-run-weight."""
    n, total = len(errors), spread**2
    rows = [
        [common * total + (i == j) * ((1 - common) * total + noise**2) for j in range(n)] + [errors[i], common * total]
        for i in range(n)
    ]
    for i in range(n):
        for r in range(n):
            if r != i:
                f = rows[r][i] / rows[i][i]
                rows[r] = [a - f * b for a, b in zip(rows[r], rows[i], strict=True)]
    mean = sum(common * total * rows[i][n] / rows[i][i] for i in range(n))
    explained = sum(common * total * rows[i][n + 1] / rows[i][i] for i in range(n))
    return mean, (total - explained) ** 0.5


@independent
@pytest.mark.parametrize(
    ("errors", "noise"), [([0.3], 0.0), ([0.3, -0.1], 0.0), ([0.2, 0.25, 0.4, 0.1, 0.3], 0.1), ([0.3], 5.0)]
)
def test_the_update_is_that_of_the_normal_distribution(errors: list[float], noise: float) -> None:
    spread, common = 0.2, 0.4
    mean, deviation = conditional(errors, spread, common, noise)
    weight = intervals.run_weight(float(len(errors)), common, noise**2 / spread**2)
    assert weight * sum(errors) / len(errors) == pytest.approx(mean)
    assert intervals.run_spread(spread, common, weight) == pytest.approx(deviation)


@independent
def test_a_noisy_point_says_less_and_a_strange_one_too() -> None:
    place = inference.deploy("Llama-3.1-8B", "H100").place("answer")
    sure, noisy, far, other = (
        intervals.recentred("inference", place, [0.4], [v], kin)
        for v, kin in ((0.0, ALIKE), (0.3, ALIKE), (0.0, APART), (0.0, MOVED))
    )
    assert sure.factor < noisy.factor < 1.0
    assert sure.narrower < far.narrower < 1.0 and sure.narrower < other.narrower
    checks = intervals.checks("inference")
    assert sure.weight == pytest.approx(checks["common"])  # of one sure point: n c / (n c + 1 - c) = c
    assert other.weight == pytest.approx(checks["shared"])
    with pytest.raises(InputError, match="no errors"):
        intervals.recentred("inference", place, [])


@independent
def test_every_time_moves_by_the_factor() -> None:
    d = inference.deploy("Qwen3-235B-A22B", "H200", tp=8)
    own = intervals.recentred("inference", d.place("answer"), [0.3])
    moved = replace(d, own=own)
    one, many = (
        serving_steps.Batch.of(d.model, decodes=[500.0] * 9),
        serving_steps.Batch.of(d.model, prefills=[(700.0, 0.0)], decodes=[300.0] * 5),
    )
    steps, slow = serving_steps.step_model(d), serving_steps.step_model(moved)
    pairs = [
        (inference.prefill(x, input_len=900, batch=2).time, inference.decode_step(x, context=900, batch=3).time)
        for x in (d, moved)
    ]
    pairs = list(zip(*pairs, strict=True)) + [(steps.time(b), slow.time(b)) for b in (one, many)]
    pairs += [
        (steps.terms(many).time, slow.terms(many).time),
        (steps.decoding(4.0)(800.0, 800.0), slow.decoding(4.0)(800.0, 800.0)),
    ]
    assert [after / before for before, after in pairs] == pytest.approx([own.factor] * len(pairs))
    low, high = inference.decode_step(moved, context=900).interval().ends
    wide = inference.decode_step(d, context=900).interval()
    assert high / low < wide.high / wide.low


@independent
def test_a_trained_step_moves_too() -> None:
    step = training.training_step("Llama-3.1-8B", Plan(tp=8), catalog.cluster("DGX-H100", 1), global_batch=8, seq=4096)
    own = intervals.recentred("training_step", step.place, [-0.2, -0.1])
    moved = step.moved(own)
    assert moved.time / step.time == pytest.approx(own.factor) and own.factor > 1
    assert moved.explain() is not None and float(moved.traced_time()[0]) == pytest.approx(float(moved.time))


@independent
def test_what_points_have_in_common_by_hand() -> None:
    errors = [
        LeftError(str(i), s, e, p)
        for i, (s, e, p) in enumerate(
            [("A", 0.1, "x"), ("A", 0.3, "x"), ("A", -0.2, "y"), ("B", 0.2, "x"), ("B", -0.2, "x")]
        )
    ]
    found = common_error(errors)
    a, b = 0.1 * 0.3 / ((0.01 + 0.09) / 2), -1.0  # the pair of A in x, and that of B
    assert found["common"] == pytest.approx(max(0.0, (a + b) / 2))
    apart = (0.1 * -0.2 + 0.3 * -0.2) / ((0.01 + 0.04) / 2 + (0.09 + 0.04) / 2)
    assert found["common_apart"] == pytest.approx(max(0.0, apart))


@regression
def test_points_of_ones_own_pay_on_the_rows_that_ship() -> None:
    for name in ("gemm", "inference", "serving_tpot", "training_step"):
        none, one, two, five = own_points.shipped()[name]
        assert none.error > one.error > two.error > five.error
        assert none.width > one.width > two.width > five.width
        assert five.held > 0.8  # and the narrower range still holds four of five
    assert "training_step" in str(own_points.table_of())


@independent
@pytest.mark.slow
def test_points_mend_a_choice_where_all_err_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions that are twice the time of each: targets are refused that could be kept, and one point tells nearly all of it."""
    twice = {
        (name, i): 2.0 * time
        for q in decisions.questions("serving")
        for c in q.candidates
        for i in c.ids
        for name, time in zip(decisions.KINDS["serving"].classes, c.times, strict=True)
    }
    monkeypatch.setattr(decisions, "blind", lambda kind: twice)
    none, one, _, five = own_points.regrets.__wrapped__("serving").values()
    assert none.regret > 0.3 and none.refused > 0
    assert one.regret < 0.02 and five.regret <= one.regret


@regression
@pytest.mark.slow
def test_what_points_are_worth_to_a_choice() -> None:
    found = own_points.regrets()
    assert abs(found[5].regret - found[0].regret) < 0.03  # they move all candidates alike
    assert "one point of each layout" in own_points.regret_told()


# Gaps


def as_run(tmp_path: Path, **figures: float) -> runs.Measured:
    told = {
        **BENCH,
        "std_ttft_ms": None,
        "std_tpot_ms": None,
        "mean_e2el_ms": None,
        "output_throughput": None,
        "request_throughput": None,
        **figures,
    }
    return runs.read_run(written(tmp_path, "r.json", {k: v for k, v in told.items() if v is not None}))


@independent
def test_a_gap_that_was_planted_is_found(tmp_path: Path) -> None:
    exact = mlsysim.compare(as_run(tmp_path), device="H100")
    ttft, itl = (1e3 * r.predicted.value for r in exact.rows)
    same = mlsysim.compare(as_run(tmp_path, mean_ttft_ms=ttft, mean_tpot_ms=itl), device="H100")
    assert same.inside and not same.reasons and same.measure_next.startswith("nothing is needed")
    queued = mlsysim.compare(as_run(tmp_path, mean_ttft_ms=3 * ttft, mean_tpot_ms=itl), device="H100")
    assert queued.reasons[0].kind == "queue" and "waiting" in queued.reasons[0].text
    slow = mlsysim.compare(as_run(tmp_path, mean_ttft_ms=ttft, mean_tpot_ms=1.6 * itl), device="H100")
    assert slow.reasons[0].kind == "term" and "decode step" in slow.reasons[0].text
    fp8 = mlsysim.compare(as_run(tmp_path), device="H100", precision="fp8", weights="fp8")
    t8, i8 = (1e3 * r.predicted.value for r in fp8.rows)
    narrow = mlsysim.compare(as_run(tmp_path, mean_ttft_ms=t8, mean_tpot_ms=i8), device="H100")
    assert any(r.kind == "setting" and "fp8 instead of bf16" in r.text for r in narrow.reasons)
    fast = mlsysim.compare(as_run(tmp_path, mean_tpot_ms=1.0), device="H100")  # 16 GB of weights in a millisecond
    assert fast.rows[1].impossible and fast.reasons[0].kind == "limit"
    assert "would speak for" in queued.measure_next
    json.dumps(fast.to_dict(), allow_nan=False)


@independent
def test_a_rate_errs_as_its_time_does() -> None:
    time = Row(runs.Figure("itl_s", 2.0, ""), Predicted(1.0))
    rate = Row(runs.Figure("tokens_per_s", 0.5, ""), Predicted(1.0))  # the same two seconds a token
    assert time.error == rate.error < 0
    known = intervals.interval("inference", 1.0, inference.deploy("Llama-3.1-8B", "H100").place("answer"))
    ends = (Row(f.figure, Predicted(1.0, interval=known)).ends for f in (time, rate))
    (low, high), (least, most) = (e for e in ends if e)
    assert (least, most) == pytest.approx((1 / high, 1 / low))


@independent
def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(
        tmp_path,
        "r.txt",
        PRINTED.replace("Maximum request concurrency:             4\n", "").replace("Qwen/Qwen3-8B", "me/mine"),
    )
    assert main(["compare", str(path)]) == 3
    said = capsys.readouterr().out
    assert "GIVE --model --device" in said and "'me/mine'" in said
    assert main(["compare", str(path), "--tp", "2", "--batch", "4"]) == 2
    assert "--batch = '4.0' does not go with a server under load" in capsys.readouterr().err
    assert main(["compare", str(path), "--model", "Qwen3-8B", "--device", "H100", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answered"] and {"ttft_s", "itl_s"} <= {f["name"] for f in told["figures"]}


@independent
def test_collectives_steps_passes_and_traces_are_compared(tmp_path: Path) -> None:
    nccl = mlsysim.compare(written(tmp_path, "n.txt", NCCL))
    assert nccl.answered and nccl.rows[0].predicted.limit is not None and nccl.rows[0].ends is not None
    job = mlsysim.compare(written(tmp_path, "m.log", MEGATRON), model="Llama-3.1-8B", device="H100")
    direct = training.training_step(
        "Llama-3.1-8B", Plan(tp=8, dp=8), catalog.cluster("DGX-H100", 8), global_batch=128, seq=8192
    )
    assert job.rows[0].predicted.value == pytest.approx(float(direct.time))
    titan = mlsysim.compare(
        written(tmp_path, "t.log", TITAN), model="Llama-3.1-8B", devices=8, global_batch=8, seq=8192, sharding="fsdp"
    )
    assert titan.rows[0].figure.is_rate and titan.rows[0].predicted.value < (titan.rows[0].predicted.limit or 0)
    llama = mlsysim.compare(written(tmp_path, "l.json", LLAMA), model="Llama-3.1-8B")
    assert [r.figure.name for r in llama.rows] == ["prompt_s", "decode_s"] and all(
        r.predicted.value > (r.predicted.limit or 0) for r in llama.rows
    )
    kernels = mlsysim.compare(
        written(tmp_path, "k.json", KINETO), model="Llama-3.1-8B", phase="decode", batch=1, input_len=1000
    )
    step = inference.decode_step(inference.deploy("Llama-3.1-8B", "H100"), context=1000)
    products = next(r for r in kernels.rows if r.figure.at["class"] == "products")
    assert products.predicted.value == pytest.approx(float(step.terms.projections + step.terms.mlp + step.terms.head))
    slowest = max(kernels.rows, key=lambda r: abs(r.figure.value - r.predicted.value))
    assert slowest.figure.words in kernels.reasons[0].text and "no range of past errors" in str(kernels)
    assert all(c.measure_next for c in (nccl, job, titan, llama, kernels))


# Answers


@independent
def test_a_run_moves_an_answer_and_both_are_shown(tmp_path: Path) -> None:
    ask: Mapping[str, Any] = {"rate": 30.0, "slo": SLO(ttft=1.0, itl=0.03)}
    file = written(tmp_path, "r.json", {**BENCH, "std_tpot_ms": 0.0, "mean_tpot_ms": 30.0})
    before, after = (
        mlsysim.serve("Llama-3.1-8B", "H100", **ask),
        mlsysim.serve("Llama-3.1-8B", "H100", measured=file, **ask),
    )
    own = after.question.own
    assert own is not None and own.kin == ALIKE and own.recentred.factor > 1.2
    assert after.devices >= before.devices and after.load is not None and before.load is not None
    assert after.interval.high / after.interval.low < before.interval.high / before.interval.low
    assert "without it: Llama-3.1-8B" in str(after) and "of that counts here" in " ".join(str(after).split())
    told = after.to_dict()
    assert told["measured"]["factor"] == pytest.approx(own.recentred.factor) and told["without_measured"]
    elsewhere = mlsysim.serve("Llama-3.1-8B", "H200", measured=mlsysim.compare(file, device="H100"))
    assert elsewhere.question.own is not None and elsewhere.question.own.kin == MOVED
    assert 1.0 < elsewhere.question.own.recentred.factor < own.recentred.factor
    played = mlsysim.simulate("Llama-3.1-8B", "H100", concurrency=4, requests=20, measured=file)
    assert played.without is not None and played.mean("itl_s.mean") / played.without.mean(
        "itl_s.mean"
    ) == pytest.approx(own.recentred.factor)
    assert "without it: TTFT" in str(played)


@independent
def test_a_training_run_moves_a_step(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "m.log",
        MEGATRON.replace(
            "world_size ...................................... 64",
            "world_size ...................................... 8",
        ),
    )
    found = mlsysim.train(
        "Llama-3.1-8B", "DGX-H100", global_batch=128, seq=8192, plan=Plan(tp=8, recompute="none"), measured=[file]
    )
    assert found.without is not None and found.question.own is not None
    assert float(found.step.time / found.without.time) == pytest.approx(found.question.own.recentred.factor)
    assert found.range is not None and "without it:" in str(found)
    assert found.to_dict()["time_without_measured_s"] == pytest.approx(float(found.without.time))


@independent
def test_what_says_nothing_of_the_question_is_refused(tmp_path: Path) -> None:
    nccl, bench = written(tmp_path, "n.txt", NCCL), written(tmp_path, "r.json", BENCH)
    with pytest.raises(InputError, match="one collective by size, which says nothing of these times"):
        mlsysim.serve("Llama-3.1-8B", "H100", measured=nccl)
    with pytest.raises(InputError, match="leave out efficiencies"):
        mlsysim.serve("Llama-3.1-8B", "H100", measured=bench, efficiencies="bound")
    with pytest.raises(InputError, match="must be the path of a run"):
        mlsysim.serve("Llama-3.1-8B", "H100", measured=3.0)
    with pytest.raises(InputError, match="does not say --input-len"):
        mlsysim.serve("Llama-3.1-8B", "H100", measured=written(tmp_path, "s.txt", LOADGEN))
