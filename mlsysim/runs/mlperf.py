"""MLPerf: the result log of a training submission, and mlperf_log_summary.txt and mlperf_log_detail.txt of inference.

Keys are those of mlperf_logging (training 3.0 to 6.0) and of loadgen's results.cc (inference 4.0 to 6.0); times of loadgen are
nanoseconds, those of training milliseconds of the clock.
"""

import json
import re
from typing import Any

from mlsysim.runs.document import Document, to_number
from mlsysim.runs.run import Figure, Measured, positive
from mlsysim.runs.steps import steady

_LINE = re.compile(r":::MLLOG (\{.*)$")
_MOST_LINES = 2_000_000
_SUMMARY = {
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Tokens per second": "result_tokens_per_second",
    "Mean First Token latency (ns)": "result_first_token_mean_latency_ns",
    "Mean Time to Output Token (ns)": "result_time_to_output_token_mean",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Samples per second": "result_samples_per_second",
    "Mean latency (ns)": "result_mean_latency_ns",
}
_FIGURES = {
    "result_first_token_mean_latency_ns": ("ttft_s", 1e-9),
    "result_time_to_output_token_mean": ("itl_s", 1e-9),
    "result_completed_tokens_per_second": ("tokens_per_s", 1.0),
    "result_tokens_per_second": ("tokens_per_s", 1.0),
    "result_completed_samples_per_sec": ("requests_per_s", 1.0),
    "result_samples_per_second": ("requests_per_s", 1.0),
}
# Benchmarks of training, and the models of our catalogue that they train.
_MODELS = {
    "llama31_405b": ("Llama-3.1-405B", "pretrain"), "llama31_8b": ("Llama-3.1-8B", "pretrain"), "llama2_70b_lora": ("Llama-2-70B", "lora"),
    "gpt3": ("GPT-3-175B", "pretrain"), "deepseekv3_671b": ("DeepSeek-V3", "pretrain"),
}  # fmt: skip


def is_mlperf(doc: Document) -> bool:
    """Whether it is a log of MLPerf, of training or of inference."""
    return ":::MLLOG" in doc.text or "MLPerf Results Summary" in doc.text


def read_mlperf(doc: Document) -> Measured:
    """The run of an MLPerf log."""
    if ":::MLLOG" not in doc.text:
        return _inference(doc, _summary(doc))
    events = list(_events(doc))
    if any(e["key"].startswith("result_") for _, e in events):
        return _inference(doc, {e["key"]: (e.get("value"), f"line {i}") for i, e in events})
    return _training(doc, events)


def _events(doc: Document) -> Any:
    for i, text in enumerate(doc.lines[:_MOST_LINES]):
        if m := _LINE.search(text):
            try:
                one = json.loads(m[1])
            except (ValueError, RecursionError):
                doc.fail(i + 1, "a line of :::MLLOG that is no JSON; was it cut?")
            if isinstance(one, dict) and isinstance(one.get("key"), str):
                yield i + 1, one


def _summary(doc: Document) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    for i, text in enumerate(doc.lines):
        key, _, value = text.partition(":")
        if name := _SUMMARY.get(" ".join(key.split())):
            found.setdefault(name, (to_number(value), f"line {i + 1}"))
        elif key.strip() == "Scenario":
            found["effective_scenario"] = (value.strip(), f"line {i + 1}")
        elif key.strip() == "Result is":
            found["result_validity"] = (value.strip(), f"line {i + 1}")
        elif key.strip() in ("max_query_count", "server_target_qps"):
            found[key.strip()] = (to_number(value), f"line {i + 1}")
    return found


def _inference(doc: Document, found: dict[str, tuple[Any, str]]) -> Measured:
    figures: dict[str, Figure] = {}
    for key, (name, factor) in _FIGURES.items():
        value, where = found.get(key, (None, ""))
        if isinstance(value, (int, float)) and value and name not in figures:
            figures[name] = Figure(name, positive(doc.file, where, value * factor), where)
    if not figures:
        doc.fail(
            1,
            f"MLPerf inference: none of {', '.join(_FIGURES)}; only mlperf_log_summary.txt and mlperf_log_detail.txt have them",
        )
    scenario = str(found.get("effective_scenario", ("", ""))[0])
    notes = [f"scenario {scenario}"] if scenario else []
    if (valid := str(found.get("result_validity", ("VALID", ""))[0])) != "VALID":
        notes.append(f"the run is {valid}")
    if "tokens_per_s" not in figures:
        notes.append("samples, not tokens: of a language model a sample is a request")
    asked: dict[str, Any] = {}
    if scenario == "Server" and "requests_per_s" in figures:
        asked["rate"] = figures["requests_per_s"].value
    return Measured(doc.file, "MLPerf inference", "serving", asked, tuple(figures.values()), tuple(notes))


def _training(doc: Document, events: list[tuple[int, dict[str, Any]]]) -> Measured:
    value = {e["key"]: e.get("value") for _, e in events}
    batch = value.get("global_batch_size")
    if isinstance(batch, bool) or not isinstance(batch, (int, float)) or not 1 <= batch < 1e9:
        doc.fail(1, "MLPerf training: no global_batch_size in the log")
    model, task = _MODELS.get(str(value.get("submission_benchmark")), (None, None))
    asked: dict[str, Any] = {
        "model": model,
        "global_batch": int(batch),
        "seq": _whole(value.get("max_sequence_length")),
        "task": task,
    }
    for theirs, ours in (
        ("tensor_parallel_size", "tp"),
        ("pipeline_parallel_size", "pp"),
        ("context_parallel_size", "cp"),
        ("micro_batch_size", "micro_batch"),
    ):
        asked[ours] = _whole(value.get(theirs) or value.get(theirs.replace("parallel", "model_parallel")))
    notes = [str(value.get("submission_platform"))] if value.get("submission_platform") else []
    rates = [
        (i, float(batch) / positive(doc.file, f"line {i}, throughput", e["value"]["throughput"]))
        for i, e in events
        if e["key"] == "tracked_stats" and isinstance(e.get("value"), dict) and "throughput" in e["value"]
    ]
    if len(rates) > 1:
        middle, noise, where = steady(rates)
        figure = Figure("step_s", middle, where, noise, "median")
    else:
        figure = _between(doc, events, float(batch))
        notes.append("time between two counts of samples, evaluation included")
    return Measured(
        doc.file, "MLPerf training", "step", {k: v for k, v in asked.items() if v is not None}, (figure,), tuple(notes)
    )


def _between(doc: Document, events: list[tuple[int, dict[str, Any]]], batch: float) -> Figure:
    """Time of a step from the first to the last count of samples."""
    counts = []
    for i, e in events:
        metadata = e.get("metadata")
        samples = metadata.get("samples_count") if isinstance(metadata, dict) else None
        if (
            isinstance(samples, (int, float))
            and isinstance(e.get("time_ms"), (int, float))
            and e["key"] in ("train_loss", "eval_accuracy", "block_start")
        ):
            counts.append((i, float(samples), float(e["time_ms"])))
    if len(counts) < 2 or counts[-1][1] <= counts[0][1]:
        doc.fail(
            events[-1][0],
            "MLPerf training: neither tracked_stats with a throughput nor two counts of samples; the log says nothing of a step",
        )
    (first, begun, start), (last, done, end) = counts[0], counts[-1]
    time = (end - start) * 1e-3 * batch / (done - begun)
    return Figure("step_s", positive(doc.file, f"lines {first} to {last}", time), f"lines {first} to {last}")


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 1 <= value < 1e9 else None
