"""Benchmarks of servers: ``vllm bench serve``, ``sglang.bench_serving``, ``trtllm-bench``, GenAI-Perf and AIPerf.

Keys and units are those that the tools write: vllm/benchmarks/serve.py (0.6 to 0.15), python/sglang/bench_serving.py (0.4 to 0.5),
tensorrt_llm/bench/dataclasses/reporting.py (1.0), genai_perf/export_data and aiperf/exporters (0.0.16 and 0.2). A time per output
token leaves out the first, as TPOT of vLLM, TensorRT-LLM's TPOT and the inter-token latency of GenAI-Perf do.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlsysim.errors import InputError
from mlsysim.runs.document import Document, to_number
from mlsysim.runs.run import Figure, Measured, error_of_mean, positive

# By the names of vLLM's and SGLang's files: ours, and what makes SI units of theirs.
_BENCH = {
    "mean_ttft_ms": ("ttft_s", 1e-3),
    "mean_tpot_ms": ("itl_s", 1e-3),
    "mean_e2el_ms": ("e2e_s", 1e-3),
    "mean_e2e_latency_ms": ("e2e_s", 1e-3),
    "request_throughput": ("requests_per_s", 1.0),
    "output_throughput": ("tokens_per_s", 1.0),
}
# The same in what they print.
_PRINTED = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Request rate configured (RPS)": "request_rate",
    "Traffic request rate": "request_rate",
    "Benchmark duration (s)": "duration",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput (req/s)": "request_throughput",
    "Output token throughput (tok/s)": "output_throughput",
    "Mean TTFT (ms)": "mean_ttft_ms",
    "Mean TPOT (ms)": "mean_tpot_ms",
    "Mean E2EL (ms)": "mean_e2el_ms",
    "Mean E2E Latency (ms)": "mean_e2e_latency_ms",
}
# GenAI-Perf and AIPerf, by the key of their JSON; their tables and CSV have the same words with spaces and a unit.
_GENAI = {
    "time_to_first_token": "ttft_s",
    "inter_token_latency": "itl_s",
    "request_latency": "e2e_s",
    "request_throughput": "requests_per_s",
    "output_token_throughput": "tokens_per_s",
}
_GENAI_SIZES = ("input_sequence_length", "output_sequence_length", "request_count")
_FACTOR = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}  # no unit, or a rate: as printed


def _run(doc: Document, tool: str, asked: Mapping[str, Any], figures: list[Figure], notes: list[str]) -> Measured:
    """The run, where it has figures; a concurrency is said where requests all come at once."""
    if not figures:
        doc.fail(1, f"{tool}: none of the figures that we read ({', '.join(_BENCH)}); was any request answered?")
    known = {name: value for name, value in asked.items() if value is not None}
    if "concurrency" not in known and "rate" not in known and known.get("requests"):
        known["concurrency"] = known["requests"]
        notes.append("no rate and no limit of requests in flight: all were sent at once")
    if "concurrency" in known and "rate" in known:
        notes.append(
            f"a rate of {known.pop('rate'):g}/s under a limit of requests in flight: compared as that many in flight"
        )
    value = {f.name: f.value for f in figures}
    if "requests_per_s" in value and "tokens_per_s" in value:  # the same but for the length of the answers
        figures = [f for f in figures if f.name != "requests_per_s"]
        time = value.get("e2e_s") or value.get("ttft_s", 0.0) + (known.get("output_len", 1.0) - 1.0) * value.get(
            "itl_s", 0.0
        )
        inside, most = value["requests_per_s"] * time, known.get("concurrency")
        if most and "itl_s" in value and not 0.8 * most < inside < 1.25 * most:
            notes.append(
                f"requests/s times their time is {inside:.3g} in flight on average, not {most}: the run is mostly beginning and end, or the "
                "client does not keep up; tokens/s of such a run are too few"
            )
    return Measured(doc.file, tool, "serving", known, tuple(figures), tuple(notes))


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and 1 <= value < 1e9 else None


def _rate(value: Any) -> float | None:
    """A rate; none where it is infinite, which the tools write as a number or a word."""
    return float(value) if isinstance(value, (int, float)) and 0 < value < 1e9 else None


def is_bench(doc: Document) -> bool:
    """Whether it is what ``vllm bench serve`` or ``sglang.bench_serving`` wrote or printed."""
    return "Serving Benchmark Result" in doc.text or any(
        "mean_ttft_ms" in one and "total_output_tokens" in one for _, one in doc.objects[:1]
    )


def read_bench(doc: Document) -> Measured:
    """A run of ``vllm bench serve`` or ``sglang.bench_serving``: its JSON, its JSON lines (the last one), or what it prints."""
    places: dict[str, str] = {}
    notes: list[str] = []
    if doc.objects:
        line, found = doc.objects[-1]
        if len(doc.objects) > 1:
            notes.append(f"{len(doc.objects)} runs in the file: the last is read, line {line}")
    else:
        found = {}
        for i, text in enumerate(doc.lines):
            key, _, value = text.strip().partition(":")
            if (name := _PRINTED.get(key.strip())) and name not in found and (known := to_number(value)) is not None:
                found[name], places[name] = known, f"line {i + 1}"
        found["model_id"] = _named(doc.text, r"--model[= ]+[\"']?([\w./-]+)") or _named(doc.text, r"model='([\w./-]+)'")
    server = doc.part(found, "server_info")
    sglang = (
        bool(server)
        or "mean_e2e_latency_ms" in found
        or "sglang" in str(found.get("backend", ""))
        or "#Input tokens" in doc.text
    )
    count = doc.number(found, "completed")
    if not count:
        where = places.get("completed", doc.where("completed"))
        raise InputError(f"{doc.file}, {where}: no request was completed; nothing was measured")
    figures = []
    for key, (name, factor) in _BENCH.items():
        number = doc.number(found, key)
        if number is None or (name == "itl_s" and number == 0):  # answers of one token have no second
            continue
        where = places.get(key, doc.where(key))
        spread = doc.number(found, key.replace("mean_", "std_")) if key.startswith("mean_") else None
        figures.append(
            Figure(name, positive(doc.file, where, number * factor), where, error_of_mean(number, spread, count))
        )
    if (failed := doc.number(found, "failed")) is not None and failed > 0:
        notes.append(f"{failed:g} requests failed and are in no figure")
    if any(k.startswith("spec_decode") for k in found) or (doc.number(found, "accept_length") or 1.0) > 1.0:
        notes.append("tokens were drafted (speculative decoding), which the prediction leaves out")
    asked = {
        "model": found.get("model_id") or server.get("model_path") or server.get("model"),
        "tp": _whole(server.get("tp_size") or found.get("tensor_parallel_size") or found.get("tp")),
        "ep": _whole(server.get("ep_size")),
        "kv": {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8": "fp8"}.get(str(server.get("kv_cache_dtype"))),
        "precision": {"fp8": "fp8"}.get(str(server.get("quantization"))),
        "requests": int(count),
        "input_len": (doc.number(found, "total_input_tokens") or 0.0) / count or None,
        "output_len": (doc.number(found, "total_output_tokens") or 0.0) / count or None,
        "concurrency": _whole(found.get("max_concurrency")),
        "rate": _rate(found.get("request_rate")),
    }
    return _run(doc, "sglang.bench_serving" if sglang else "vllm bench serve", asked, figures, notes)


def _named(text: str, pattern: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None


_TRT = {
    "avg_ttft_ms": ("ttft_s", 1e-3),
    "avg_tpot_ms": ("itl_s", 1e-3),
    "avg_request_latency_ms": ("e2e_s", 1e-3),
    "request_throughput_req_s": ("requests_per_s", 1.0),
    "system_output_throughput_tok_s": ("tokens_per_s", 1.0),
}
_TRT_PRINTED = {
    "Average time-to-first-token [TTFT] (ms)": "avg_ttft_ms",
    "Average time-per-output-token [TPOT] (ms)": "avg_tpot_ms",
    "Average request latency (ms)": "avg_request_latency_ms",
    "Request Throughput (req/sec)": "request_throughput_req_s",
    "Total Output Throughput (tokens/sec)": "system_output_throughput_tok_s",
    "Number of requests": "num_requests",
    "Number of concurrent requests": "avg_num_concurrent_requests",
    "Average Input Length (tokens)": "avg_input_length",
    "Average Output Length (tokens)": "avg_output_length",
    "TP Size": "tp_size",
    "PP Size": "pp_size",
    "EP Size": "ep_size",
}
_TRT_WORDS = {
    "Model": "model",
    "Quantization": "quantization",
    "KV Cache Dtype": "kv_cache_dtype",
    "TensorRT LLM Version": "version",
    "TensorRT-LLM Version": "version",
}
_FORMATS = {"FP8": "fp8", "FP8_BLOCK_SCALES": "fp8", "NVFP4": "fp4", "None": None, "W4A16_AWQ": None}


def is_trtllm(doc: Document) -> bool:
    """Whether ``trtllm-bench`` wrote or printed it."""
    return "= PERFORMANCE OVERVIEW" in doc.text or any(
        "engine" in one and "performance" in one for _, one in doc.objects[:1]
    )


def read_trtllm(doc: Document) -> Measured:
    """A run of ``trtllm-bench``: its report in JSON, or what it prints. Its concurrency is the mean number of requests in flight."""
    found: dict[str, Any] = {}
    places: dict[str, str] = {}
    if doc.objects:
        whole = doc.objects[0][1]
        for part in ("performance", "streaming_metrics", "request_info", "world_info", "engine"):
            found |= doc.part(whole, part)
        found["device"] = doc.part(whole, "machine").get("name")
    else:
        for i, text in enumerate(doc.lines):
            key, _, value = text.strip().partition(":")
            if (name := _TRT_PRINTED.get(key.strip())) and (known := to_number(value)) is not None:
                found[name], places[name] = known, f"line {i + 1}"
            elif word := _TRT_WORDS.get(key.strip()):
                found[word] = value.strip()
            elif "MACHINE DETAILS" in text and i + 2 < len(doc.lines):
                found["device"] = doc.lines[i + 2].partition(", memory")[0].strip()
    figures = []
    for key, (name, factor) in _TRT.items():
        if (number := doc.number(found, key)) is not None:
            where = places.get(key, doc.where(key))
            figures.append(Figure(name, positive(doc.file, where, number * factor), where))
    quantized = str(found.get("quantization"))
    notes = [] if quantized in _FORMATS else [f"quantization {quantized[:40]!r}: give --precision and --weights"]
    if quantized == "W4A16_AWQ":
        found["weights"] = "int4-g128"
    running, requests = doc.number(found, "avg_num_concurrent_requests"), doc.number(found, "num_requests")
    asked = {
        "model": found.get("model"), "device": found.get("device"), "tp": _whole(found.get("tp_size")), "pp": _whole(found.get("pp_size")),
        "ep": _whole(found.get("ep_size")), "precision": _FORMATS.get(quantized), "weights": found.get("weights"), "kv": _FORMATS.get(str(found.get("kv_cache_dtype"))),
        "requests": _whole(requests), "concurrency": _whole(running and round(running)), "input_len": doc.number(found, "avg_input_length"),
        "output_len": doc.number(found, "avg_output_length"), "server": f"TensorRT-LLM {found['version']}" if found.get("version") else None,
    }  # fmt: skip
    return _run(doc, "trtllm-bench", asked, figures, notes)


def is_genai(doc: Document) -> bool:
    """Whether GenAI-Perf or AIPerf wrote or printed it."""
    if doc.objects:
        return isinstance(doc.objects[0][1].get("request_throughput"), dict)
    return "| LLM Metrics" in doc.text or bool(re.search(r"^Metric,(avg|Value)", doc.text, re.MULTILINE))


def read_genai(doc: Document) -> Measured:
    """An export of GenAI-Perf or AIPerf: JSON, CSV, or the table on the console."""
    rows = dict(_genai_objects(doc)) if doc.objects else dict(_genai_rows(doc))
    count = rows.get("request_count", (0.0, "", None))[0]
    figures = [
        Figure(name, positive(doc.file, where, value), where, error_of_mean(value, deviation, count))
        for key, name in _GENAI.items()
        if key in rows
        for value, where, deviation in [rows[key]]
    ]
    sizes = {key: rows[key][0] for key in _GENAI_SIZES if key in rows}
    config = doc.part(doc.objects[0][1], "input_config") if doc.objects else {}
    load = doc.part(config, "loadgen")
    stimulus = doc.part(doc.part(config, "perf_analyzer"), "stimulus")
    model = (
        config.get("model_names")
        or doc.part(config, "endpoint").get("model_names")
        or _named(doc.text, r"-m(?:odel)?[= ]+([\w./-]+)")
    )
    model = model[0] if isinstance(model, list) and model else model
    concurrency = (
        load.get("concurrency")
        or stimulus.get("concurrency")
        or to_number(_named(doc.text, r"--concurrency[= ]+(\d+)") or "")
    )
    rate = (
        load.get("request_rate")
        or stimulus.get("request_rate")
        or to_number(_named(doc.text, r"--request-rate[= ]+([\d.]+)") or "")
    )
    asked = {
        "model": model,
        "requests": _whole(sizes.get("request_count")),
        "input_len": sizes.get("input_sequence_length"),
        "output_len": sizes.get("output_sequence_length"),
        "concurrency": _whole(concurrency),
        "rate": _rate(rate),
    }
    notes = []
    if asked["concurrency"] is None and asked["rate"] is None:  # nothing says that all came at once
        known = {f.name: f.value for f in figures}
        if "requests_per_s" in known and "e2e_s" in known:
            asked["concurrency"] = max(1, round(known["requests_per_s"] * known["e2e_s"]))
            notes.append(
                f"the file has no concurrency: {asked['concurrency']} in flight by Little's law, requests/s times their time"
            )
    return _run(
        doc,
        "GenAI-Perf" if "GenAI" in doc.text or "genai" in doc.text else "GenAI-Perf or AIPerf",
        asked,
        figures,
        notes,
    )


_Row = tuple[str, tuple[float, str, float | None]]


def _genai_objects(doc: Document) -> Iterator[_Row]:
    whole = doc.objects[0][1]
    for key in (*_GENAI, *_GENAI_SIZES):
        one = doc.part(whole, key)
        value = doc.number(one, "avg")
        if value is not None:
            factor = _FACTOR.get(str(one.get("unit")), 1.0)
            spread = doc.number(one, "std")
            yield key, (value * factor, doc.where(key), None if spread is None else spread * factor)


def _genai_rows(doc: Document) -> Iterator[_Row]:
    head: list[str] = []
    for i, text in enumerate(doc.lines):
        cells = (
            [c.strip() for c in re.split("[│┃|]", text)[1:-1]]
            if "│" in text or "┃" in text
            else next(csv.reader([text]), [])
        )
        if cells and cells[0] in ("Metric", "Statistic"):
            head = [c.lower() for c in cells]
        elif head and len(cells) >= 2:
            words, _, unit = cells[0].lower().partition(" (")
            key = words.strip().replace(" ", "_")
            value = to_number(cells[1])
            if key in (*_GENAI, *_GENAI_SIZES) and value is not None:
                factor = _FACTOR.get(unit.rstrip(")"), 1.0)
                spread = to_number(cells[head.index("std")]) if "std" in head and len(cells) == len(head) else None
                yield key, (value * factor, f"line {i + 1}", None if spread is None else spread * factor)
