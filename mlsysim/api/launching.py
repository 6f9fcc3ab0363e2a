"""The commands that do what an answer says: start a replica in vLLM or in SGLang, and measure it under its share of the load."""

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlsysim import catalog
from mlsysim.api.arguments import Defaults
from mlsysim.api.asked import formats_of
from mlsysim.catalog import Device, Model
from mlsysim.errors import UnknownNameError
from mlsysim.memory.quantised import Formats

if TYPE_CHECKING:
    from mlsysim.api.serving import Served

# What vLLM calls what we know; of SGLang only what is called otherwise.
VLLM: Mapping[str, str] = MappingProxyType({
    "tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size", "max_model_len": "max-model-len",
    "max_num_seqs": "max-num-seqs", "max_num_batched_tokens": "max-num-batched-tokens",
    "gpu_memory_utilization": "gpu-memory-utilization", "kv": "kv-cache-dtype", "weights": "quantization",
})  # fmt: skip
_SGLANG: Mapping[str, str] = MappingProxyType({
    "tp": "tp-size", "pp": "pp-size", "dp": "dp-size", "ep": "ep-size", "max_model_len": "context-length",
    "max_num_seqs": "max-running-requests", "max_num_batched_tokens": "chunked-prefill-size", "kv": "kv-cache-dtype",
    "weights": "quantization",
})  # fmt: skip
_DEGREES = ("tp", "pp", "dp", "ep")
_CACHES = ("fp8", "fp8-e4m3", "fp8-e5m2")
_WIDEST = 0.99  # of the lengths that vLLM's benchmark draws, over their mean
_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Commands:
    """Command lines, and what they cannot say. An empty one stands for what the program does not do."""

    vllm: str
    sglang: str
    measure: str = ""
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """One line each."""
        kinds = {"start": self.vllm, "or": self.sglang, "measure": self.measure}
        return [f"{kind}: {command}" for kind, command in kinds.items() if command] + list(self.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def address(model: Model, asked: str = "") -> str:
    """Where the checkpoint of a model is published: as asked for, else by the catalogue; ``MODEL`` where neither says it.

    >>> address(catalog.model("gpt-oss-120B")), address(catalog.model("Qwen3-32B"), "Qwen/Qwen3-32B-FP8")
    ('openai/gpt-oss-120b', 'Qwen/Qwen3-32B-FP8')
    """
    if _NAME.fullmatch(asked):
        return asked
    try:
        own = catalog.model(model.name).stored
    except UnknownNameError:
        return "MODEL"
    names = [a for a in model.aliases if "/" in a] if own == model.stored else []
    tails = [a for a in names if a.rpartition("/")[2].casefold() == model.name.casefold()]
    return next(iter(tails + names), "MODEL")


def start(model: Model, device: Device, formats: Formats, options: Mapping[str, Any], asked: str = "") -> Commands:
    """How to start one server, with options by our names.

    >>> from mlsysim.memory.quantised import Formats
    >>> start(catalog.model("Qwen3-32B"), catalog.device("H100"), Formats("bf16"), {"tp": 2, "max_num_seqs": 64}).vllm
    'vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --max-num-seqs 64'
    """
    given = {
        n: v
        for n, v in options.items()
        if v is not None and n not in ("weights", "kv") and not (v == 1 and n in _DEGREES)
    }
    narrow = formats.kv if formats.kv in _CACHES else ""
    notes, name = [], address(model, asked)
    if name == "MODEL":
        notes.append("MODEL: the catalogue does not know where a checkpoint in this format is published.")
    usual, stored = formats_of(model, device, None, None, Defaults()), formats.weights or formats.precision
    if (formats.precision, formats.weights) not in ((usual.precision, usual.weights), (usual.precision, None)):
        if formats.precision == stored == "fp8" and not model.stored:
            given["weights"] = "fp8"
        else:
            products = "" if stored == formats.precision else f", and products in {formats.precision}"
            notes.append(f"It takes a checkpoint whose weights are stored as {stored}{products}.")
    theirs = given | ({"kv": narrow.replace("-", "_")} if narrow else {})
    ep = given.get("ep", 1)
    vllm = ["vllm", "serve", name, *_written(VLLM, theirs), *(["--enable-expert-parallel"] if ep > 1 else [])]
    if narrow == "fp8":
        theirs["kv"] = "fp8_e4m3"
    if dp := given.get("dp"):  # attention on dp groups of the devices, which SGLang counts as tp-size in all
        theirs["tp"] = dp * given.get("tp", 1)
    sglang = ["python", "-m", "sglang.launch_server", "--model-path", name, *_written(_SGLANG, theirs)]
    return Commands(shlex.join(vllm), shlex.join(sglang + ["--enable-dp-attention"] * bool(dp)), notes=tuple(notes))


def _written(names: Mapping[str, str], given: Mapping[str, Any]) -> Iterator[str]:
    for name, option in names.items():
        if name in given:
            yield from (f"--{option}", f"{given[name]:g}" if isinstance(given[name], float) else str(given[name]))


def commands(s: "Served", asked: str = "") -> Commands:
    """What starts a replica of an answer, and what measures it.

    One replica is measured, under its share of the requests. The gaps between them vary as those that a router leaves which deals
    to so many replicas in turn: of a gamma distribution whose shape is their number.
    """
    q, split, load = s.question, s.deployment.split, s.load
    options: dict[str, Any] = {n: int(getattr(split, n)) for n in _DEGREES}
    options["max_num_seqs"] = load.replica.max_running if load else math.ceil(q.batch / split.dp)
    if load:
        options["gpu_memory_utilization"] = s.memory.given["gpu_memory_utilization"]
    made = start(q.model, q.device, q, options, asked)
    notes = list(made.notes)
    measure = ["vllm", "bench", "serve", "--model", address(q.model, asked), "--dataset-name", "random", "--ignore-eos"]
    shared = round(q.kept.shared_len)
    measure += ["--random-prefix-len", str(shared)] if shared else []
    measure += ["--random-input-len", str(round(q.input_len) - shared), "--random-output-len", str(round(q.output_len))]
    if load is None:
        measure += ["--max-concurrency", f"{q.batch:g}", "--num-prompts", f"{max(10, 4 * math.ceil(q.batch))}"]
        return Commands(made.vllm, made.sglang, shlex.join(measure), tuple(notes))
    wide = math.sqrt(3.0) * q.length_variation  # a variable between 1 - r and 1 + r has the deviation r over root 3
    if wide > _WIDEST:
        notes.append(
            f"The benchmark draws lengths evenly, so theirs vary by {_WIDEST / math.sqrt(3):.2f} at most, not by {q.length_variation:g}."
        )
    measure += ["--random-range-ratio", f"{min(wide, _WIDEST):.3g}"] if wide else []
    measure += ["--request-rate", f"{float(load.rate) / s.replicas:.4g}"]
    measure += ["--burstiness", str(s.replicas)] if q.routing == "round-robin" and s.replicas > 1 else []
    from mlsysim.api.confirming import steady_requests

    measure += [
        "--num-prompts",
        str(steady_requests(load, s.replicas, q.kept)),
        "--percentile-metrics",
        "ttft,tpot,e2el",
    ]
    measure += ["--metric-percentiles", f"{100 * load.quantile:g}"]
    if q.slo is not None and q.slo.targets:
        theirs = {"ttft": "ttft", "itl": "tpot", "e2e": "e2el"}
        measure += ["--goodput", *(f"{theirs[n]}:{1e3 * value:g}" for n, value in q.slo.targets.items())]
    if q.kept.turns is not None or q.kept.cached_len > shared:
        lost = "conversations" if q.kept.turns is not None else "what the cache holds already"
        return Commands(made.vllm, made.sglang, "", (*notes, f"vLLM's benchmark does not send {lost}."))
    return Commands(made.vllm, made.sglang, shlex.join(measure), tuple(notes))
