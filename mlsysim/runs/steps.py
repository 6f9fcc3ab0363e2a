"""Logs of training: torchtitan (0.1 to 0.2), Megatron-LM (core 0.5 to 0.15) and NeMo (2.0 to 2.4).

Megatron prints milliseconds of an iteration, NeMo seconds of a step, torchtitan tokens per second of a device that no other shares its
tokens with. The time of a step is the median of the later half: the first ones compile, and fill caches.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from mlsysim.runs.document import Document, to_number
from mlsysim.runs.run import Figure, Measured, positive

_MEGATRON = re.compile(r"\biteration\s+(\d+)/\s*\d+ \|.*?elapsed time per iteration \(ms\): ([\d.]+)")
_NEMO = re.compile(r"iteration (\d+)/\d+.*?train_step_timing in s: ([\d.eE+-]+)")
_TITAN = re.compile(r"\bstep:\s+(\d+)\s+loss:.*?\b(?:tps|wps): ([\d,]+)")
_ARGUMENT = re.compile(r"^\s*(?:\d+:\s*)?(?:\[[^\]]*\]:?)?\s*([a-z_]+) \.{3,} (\S+)\s*$")
# Arguments as Megatron lists them, by our names.
_ARGUMENTS = {
    "world_size": "devices", "tensor_model_parallel_size": "tp", "pipeline_model_parallel_size": "pp", "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep", "micro_batch_size": "micro_batch", "seq_length": "seq", "global_batch_size": "global_batch",
}  # fmt: skip
_FEWEST = 4  # steps: fewer say nothing of a step


def is_steps(doc: Document) -> bool:
    """Whether it is a log of one of the three."""
    return any(p.search(doc.text) for p in (_MEGATRON, _NEMO, _TITAN))


def steady(series: Sequence[tuple[int, float]]) -> tuple[float, float, str]:
    """Median of the later half of a series by line, its standard error over it, and where that half lies.

    >>> steady([(1, 9.0), (2, 2.0), (3, 2.0), (4, 2.0)])
    (2.0, 0.0, 'lines 3 to 4')
    """
    half = series[len(series) // 2 :]
    values = [v for _, v in half]
    middle = median(values)
    spread = 1.4826 * median(abs(v - middle) for v in values)  # of a normal distribution, from its median deviation
    return middle, spread / middle / len(values) ** 0.5, f"lines {half[0][0]} to {half[-1][0]}"


def read_steps(doc: Document) -> Measured:
    """The time of a step, and what the log says of the job."""
    asked = _asked(doc)
    for tool, pattern in (("Megatron-LM", _MEGATRON), ("NeMo", _NEMO), ("torchtitan", _TITAN)):
        found = [(i + 1, int(m[1]), to_number(m[2])) for i, text in enumerate(doc.lines) if (m := pattern.search(text))]
        if not found:
            continue
        series = [(line, positive(doc.file, f"line {line}", value)) for line, _, value in found]
        if len(series) < _FEWEST and found[0][1] < _FEWEST:
            doc.fail(
                series[-1][0],
                f"{len(series)} steps, the first of the job among them, are too few to leave out those that compile; log {_FEWEST} at least",
            )
        value, noise, where = steady(series)
        name, factor = (
            ("device_tokens_per_s", 1.0) if tool == "torchtitan" else ("step_s", 1e-3 if tool == "Megatron-LM" else 1.0)
        )
        figure = Figure(name, value * factor, where, noise, "median")
        return Measured(doc.file, tool, "step", {k: v for k, v in asked.items() if v is not None}, (figure,))
    doc.fail(1, "no line with the time of a step")


def _asked(doc: Document) -> dict[str, Any]:
    """What the log says of the job: Megatron's list of arguments, NeMo's batch, torchtitan's first lines."""
    asked: dict[str, Any] = {}
    given: dict[str, str] = {}
    for text in doc.lines:
        if m := _ARGUMENT.match(text):
            given[m[1]] = m[2]
            if (ours := _ARGUMENTS.get(m[1])) and m[2].isdecimal() and len(m[2]) < 10:
                asked[ours] = int(m[2])
    if given:
        asked |= _megatron(given)
    elif m := re.search(r"global batch size:\s*(\d{1,9})\b|global_batch_size: (\d{1,9})\b", doc.text):
        asked["global_batch"] = int(m[1] or m[2])
    for name, pattern in (
        ("device", r"(?:CUDA|HIP|GPU) capacity: (.+?) with [\d.]+GiB"),
        ("model", r"Model (\w+ \S+) size: [\d,]+ total parameters"),
    ):
        if m := re.search(pattern, doc.text):
            asked[name] = m[1]
    for ours, pattern in (
        ("seq", r"sequence length:? (\d+)"), ("global_batch", r"global batch size:? (\d+)"), ("micro_batch", r"local batch size:? (\d+)"),
        ("dp", r"dp_shard=(\d+)"), ("tp", r"\btp=(\d+)"), ("pp", r"\bpp=(\d+)"), ("cp", r"\bcp=(\d+)"), ("ep", r"\bep=(\d+)"),
    ):  # fmt: skip
        if ours not in asked and (m := re.search(pattern, doc.text)) and len(m[1]) < 10 and int(m[1]) > 0:
            asked[ours] = int(m[1])
    if m := re.search(r"Building (\d)-D device mesh with \[([^\]]*)\], \[([\d, ]+)\]", doc.text):
        names, sizes = (part.replace("'", "").split(",") for part in (m[2], m[3]))
        mesh = {n.strip(): int(s) for n, s in zip(names, sizes, strict=False) if s.strip().isdecimal() and len(s) < 8}
        asked |= {
            {"dp_shard": "dp", "dp": "dp"}.get(n, n): v
            for n, v in mesh.items()
            if n in ("dp_shard", "dp", "tp", "pp", "cp")
        }
    if "devices" not in asked and "dp" in asked:
        asked["devices"] = asked["dp"] * asked.get("tp", 1) * asked.get("pp", 1) * asked.get("cp", 1)
    return asked


def _megatron(given: Mapping[str, str]) -> dict[str, Any]:
    """What arguments say by words."""
    found: dict[str, Any] = {}
    found["recompute"] = {"full": "full", "selective": "selective", "None": "none"}.get(
        given.get("recompute_granularity", "")
    )
    if given.get("use_distributed_optimizer") in ("True", "False"):
        found["sharding"] = "zero1" if given["use_distributed_optimizer"] == "True" else "none"
    if (chunks := given.get("virtual_pipeline_model_parallel_size", "")).isdecimal() and len(chunks) < 5:
        found["virtual_stages"] = int(chunks)
    if given.get("fp8") not in (None, "None"):
        found["precision"] = "fp8"
    return found
