"""What a server holds, by component and release: weights, activations, runtime, graphs, the pool of the cache and its tokens."""

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, transformer, units
from mlsysim.catalog import Device, Model
from mlsysim.catalog.operations import Gather
from mlsysim.catalog.operations import weights as numbers
from mlsysim.catalog.shapes import asked_for
from mlsysim.catalog.sourced import Sourced, shipped_toml, sourced
from mlsysim.errors import InputError, unknown_name
from mlsysim.intervals import KNOWN, NEW, Interval, interval_end, log_error
from mlsysim.memory.fit import state_of, token_cache
from mlsysim.memory.quantised import experts_alone
from mlsysim.memory.server import activation_reserve, server_pool, server_tokens, server_weights
from mlsysim.memory.server_ranges import server_place, server_quantiles, server_unseen
from mlsysim.results import Explanation, Input, Result, Term, format_rows, plain, top_shares

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# Servers whose memory is known part by part.
ENGINES = ("vllm",)
# Version of the server that is meant where nobody says.
RELEASE = "0.19.0"
BLOCK_TOKENS = 16  # vLLM's default block_size
_PADDING = 64  # rows that vocabularies are filled up to
_LARGE = 70 * 2**30  # vLLM's EngineArgs: devices with so much memory, A100 excepted, have larger defaults
LARGE_LIMITS, _SMALL_LIMITS = (8192, 1024), (2048, 256)
_GROUPED = 1.25  # kinds of layers that differ in number by less than this share the longer group
_INDEX_BYTES = 1.0 + 4.0 / 128.0  # of a number that an indexer caches: 8-bit, a scale for 128 of them
_WORKSPACE = 2**25  # of the matrix library on Hopper, bytes
_RELEASE_UNITS = {
    "float_tensors": "1",
    "runtime_alone": "byte",
    "runtime_pipeline": "byte",
    "runtime_parallel": "byte",
    "runtime_rank": "byte",
    "graph_fixed": "byte",
    "graph_layer": "byte",
}


@dataclass(frozen=True)
class Format:
    """How a checkpoint stores the matrices of its layers."""

    bits: float  # of one number
    shared_bits: float = 0.0  # scale and zero point of a group
    group: int = 1
    multiple: tuple[int, int] = (1, 1)  # what an expert's width on a device and the hidden size are filled up to

    @property
    def element_bytes(self) -> float:
        return (self.bits + self.shared_bits / self.group) / 8


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "bf16": Format(16),
        "fp16": Format(16),
        "fp32": Format(32),
        "fp8": Format(8),
        "fp8-block": Format(8, 32, 128 * 128),
        "int8": Format(8),
        "int4": Format(
            4, 16 + 4, 128
        ),  # groups of 128 with a 16-bit scale and a packed zero point, as GPTQ and AWQ store them
        "int4-g128": Format(4, 16 + 16, 128),
        "int4-g32": Format(4, 16 + 16, 32),
        "int4-sym-g32": Format(4, 16, 32),
        "fp4": Format(4),
        "mxfp4": Format(4, 8, 32, multiple=(128, 256)),
        "mxfp8": Format(8, 8, 32),
        "nvfp4": Format(4, 8, 16),
    }
)
# What has a range, by its name in JSON, and whose errors it is made of: the cache's is what the rest leaves.
RANGED: Mapping[str, str] = MappingProxyType(
    {
        "weights_bytes": "weights",
        "activation_bytes": "activations",
        "non_torch_bytes": "runtime",
        "graphs_bytes": "graphs",
        "kv_pool_bytes": "taken",
        "kv_tokens": "taken",
    }
)
# What checkpoints and servers call them.
_ALSO = {
    "none": "bf16",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "w8a8": "int8",
    "w8a16": "int8",
    "w4a16": "int4",
    "gptq": "int4",
    "gptq-marlin": "int4",
    "awq": "int4",
    "awq-marlin": "int4",
    "fp8-dynamic": "fp8",
    "fbgemm-fp8": "fp8",
    "modelopt-fp4": "nvfp4",
}
_READ_ON = "NVIDIA"  # whose devices every start-up log behind the figures of a release ran on
# Published checkpoints are called by the model's name and one of these; the format follows from it.
SUFFIXES = MappingProxyType(
    {
        "-fp8-dynamic": "fp8",
        "-fp8-block": "fp8-block",
        "-fp8": "fp8",
        "-fp8-kv": "fp8",
        "-bf16": "bf16",
        "-w8a8": "int8",
        "-w8a16": "int8",
        "-w4a16": "int4",
        "-int8": "int8",
        "-int4": "int4",
        "-quantized.w8a8": "int8",
        "-quantized.w8a16": "int8",
        "-quantized.w4a16": "int4",
        "-awq": "int4",
        "-awq-int4": "int4",
        "-gptq": "int4",
        "-gptq-int4": "int4",
        "-gptq-int8": "int8",
        "-nvfp4": "nvfp4",
        "-nvfp4-v2": "nvfp4",
        "-fp4": "nvfp4",
        "-fp4-v2": "nvfp4",
        "-mxfp4": "mxfp4",
        "-mxfp4-preview": "mxfp4",
    }
)
KV_FORMATS = MappingProxyType({"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8-e4m3": 1.0, "fp8-e5m2": 1.0})


def checkpoint(name: Model | str) -> tuple[Model, str]:
    """A model and the format that its checkpoint's name or its catalogue entry says; empty when neither does.

    >>> found, stored = checkpoint("Qwen2.5-7B-Instruct-FP8-dynamic")
    >>> found.name, stored
    ('Qwen2.5-7B', 'fp8')
    """
    found, stored = _published(name)
    return (found if isinstance(name, Model) else catalog.model(found.name)), stored


def _published(name: Model | str) -> tuple[Model, str]:
    """The same, with the model under the name that was asked for."""
    overrides = ""
    if isinstance(name, str):  # also of a name that the catalogue has: "GLM-5-FP8" is an alias of the model in 16 bits
        for suffix, stored in SUFFIXES.items():
            if name.lower().endswith(suffix):
                overrides = stored
                if (known := _known(name[: -len(suffix)])) is not None:
                    return known, stored
    found = asked_for(name)
    return found, overrides or found.stored


def as_published(name: Model | str) -> Model:
    """A model, with the format that its checkpoint's name says in the place of its entry's.

    It is called what it was asked for by.

    >>> as_published("Qwen/Qwen3-32B-FP8").stored, as_published("Qwen3-32B").stored, as_published("DeepSeek-R1").name
    ('fp8', '', 'DeepSeek-R1')
    """
    found, stored = _published(name)
    return found if stored == found.stored else replace(found, stored=stored)


def _known(name: str) -> Model | None:
    try:
        return asked_for(name)
    except KeyError:
        return None


def weight_format(name: str) -> tuple[str, Format]:
    """The canonical name of a format of weights, and the format.

    >>> weight_format("w4a16")[0]
    'int4'
    """
    folded = name.lower().replace("_", "-") if isinstance(name, str) else ""
    folded = _ALSO.get(folded, folded)
    if folded not in FORMATS:
        raise unknown_name("number format of weights", name, FORMATS)
    return folded, FORMATS[folded]


@dataclass(frozen=True)
class ServerRelease(Result):
    """What one release of an engine holds beside weights, activations and cache, each figure with its source."""

    engine: str
    version: str  # that was asked for
    since: str  # the release whose figures these are
    figures: Mapping[str, Sourced]
    notes: tuple[str, ...] = ()
    newer: bool = False  # than any release that was measured

    def __getattr__(self, name: str) -> float:
        if name in _RELEASE_UNITS:
            return float(self.figures[name].value)
        raise AttributeError(name)

    def runtime(self, tp: int, pp: int) -> float:
        """Bytes outside the tensors on one device."""
        if tp > 1:
            return self.runtime_parallel + self.runtime_rank * (tp - 2)
        return self.runtime_pipeline if pp > 1 else self.runtime_alone


@cache
def _releases(engine: str) -> tuple[tuple[str, Mapping[str, Sourced]], ...]:
    """Releases in order; what one does not say is as before it, or as the first after it that does."""
    known: dict[str, Sourced] = {}
    found: list[tuple[str, dict[str, Sourced]]] = []
    raw = shipped_toml(__package__, "releases.toml")[engine]
    for entry in raw:
        where = f"releases.toml: {engine} {entry['from']}"
        given = {
            k: sourced(v, _RELEASE_UNITS[k], f"{where}, {k}", "releases.toml") for k, v in entry.items() if k != "from"
        }
        known = known | given
        found.append((str(entry["from"]), known))
    later: dict[str, Sourced] = {}
    for _, figures in reversed(found):
        figures |= later | figures
        later = dict(figures)
    return tuple((since, MappingProxyType(figures)) for since, figures in found)


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.removeprefix("v").split(".")
    try:
        return tuple(int(part) for part in parts[:3])
    except ValueError:
        raise InputError(f"engine_version = {version[:20]!r} is not a release; give numbers, as in {RELEASE}") from None


def release_of(server: str) -> str:
    """The release that the name of a server says; the usual one where it says none, or is no engine whose memory is known.

    >>> release_of("vLLM 0.11.0"), release_of("TensorRT-LLM 1.0") == RELEASE
    ('0.11.0', True)
    """
    found = re.match(r"vllm[ -]v?(\d+(?:\.\d+){1,2})\b", server, re.IGNORECASE)
    return found.group(1) if found else RELEASE


def release(engine: str = "vllm", version: str = RELEASE) -> ServerRelease:
    """The constants of an engine's release: those of the last measured release before it.

    >>> release("vllm", "0.16.2").since
    '0.15.0'
    """
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    asked, known = _numbers(str(version)), _releases(engine)
    before = [entry for entry in known if _numbers(entry[0]) <= asked]
    since, figures = before[-1] if before else known[0]
    notes: tuple[str, ...] = ()
    if not before:
        notes = (f"{engine} {version} is older than any release that was measured; the figures are those of {since}.",)
    elif asked[:2] > _numbers(RELEASE)[:2]:
        notes = (
            f"{engine} {version} is newer than any release that was measured ({RELEASE}); it may hold something else.",
        )
    return ServerRelease(engine, str(version), since, figures, notes, bool(before and notes))


def server_limits(device: Device) -> tuple[int, int]:
    """Tokens of a step and sequences that run at a time when a server is not told: vLLM's defaults for its API server.

    >>> server_limits(catalog.device("H100"))
    (8192, 1024)
    """
    large = device.usable_memory >= _LARGE and not device.name.startswith("A100")
    return LARGE_LIMITS if large else _SMALL_LIMITS


def stage_layers(layers: int, pp: int) -> tuple[int, ...]:
    """Layers of every pipeline stage: what is left over goes to the last stages but one.

    >>> stage_layers(62, 4)
    (15, 16, 16, 15)
    """
    each, rest = divmod(layers, pp)
    found = [each] * pp
    for i in range(2, rest + 2):
        found[-i] += 1
    return tuple(found)


def cache_groups(m: Model, layers: int) -> tuple[int, int]:
    """Layers of a group, and how many groups: one group unless layers keep unlike things, some a window or a state.

    >>> cache_groups(catalog.model("Gemma-3-27b"), 62)
    (10, 7)
    >>> cache_groups(catalog.model("Qwen3-Next-80B-A3B"), 48)  # 12 layers with attention, 36 with a state
    (12, 4)
    """
    if m.compresses:  # a block of each kind for the same tokens
        return layers, 1
    kinds = (*(n for n, core in m.cores if core.cached), m.n_recurrent_layers)
    counts = sorted(n for n in (round(kind * layers / m.n_layers) for kind in kinds) if n)
    if len(counts) < 2:
        return (counts or [layers])[0], 1
    size = counts[-1] if counts[-1] < counts[0] * _GROUPED else counts[0]
    return size, sum(math.ceil(n / size) for n in counts)


def layer_cache_bytes(m: Model, tp: int, element_bytes: float) -> float:
    """Cache of one token in one layer on one device; latent attention, and heads that are too few, are copied."""
    m.check_whole("layer_cache_bytes")
    if m.compresses:  # pools of their own for each ratio
        return token_cache(m, element_bytes) / m.n_attention_layers
    indexed = sum(n * one.size for n, one in m.indexers) / max(m.n_attention_layers, 1) * _INDEX_BYTES
    of = [
        (core.cached if core.latent_v else max(1.0, core.kv_heads / tp) * (core.qk_dim + core.v_dim)) * element_bytes
        for _, core in m.cores
    ]
    return max(of, default=0.0) + indexed  # pages are filled up to the largest


def state_page(m: Model, tp: int, element_bytes: float) -> float:
    """What a recurrence keeps of one sequence in one layer on one device."""
    return state_of(m, 1, element_bytes) / m.n_recurrent_layers / tp if m.n_recurrent_layers else 0.0


def state_block(m: Model, tp: int, token_bytes: float, element_bytes: float, block_tokens: int = BLOCK_TOKENS) -> int:
    """Tokens in a block where the cache of attention and states share a pool: so many that a block holds a state.

    >>> state_block(catalog.model("Qwen3-Next-80B-A3B"), 1, 2048.0, 2.0)  # the log of a server says 544
    544
    """
    page = state_page(m, tp, element_bytes)
    if not page or not token_bytes:
        return block_tokens
    return max(block_tokens, BLOCK_TOKENS * math.ceil(page / (BLOCK_TOKENS * token_bytes)))


def _filled(size: float, multiple: int) -> float:
    return math.ceil(size / multiple) * multiple


def _stage_weights(
    m: Model, f: "_Formats", layers: int, first: bool, last: bool, split: Mapping[str, int]
) -> dict[str, float]:
    """Parameters of a stage by what becomes of them, as eq-server-weights asks for them."""
    tp, ep = split["tp"], split["ep"]
    shards = ep * max(1, min(tp, tp * split["dp"] // ep))  # devices that the experts are divided over
    count = transformer.parameter_count(m)
    part = layers / m.n_layers
    vocab = _filled(m.vocab, _PADDING) * m.head.k
    attention = (count.attention + count.recurrence + count.indexer) * part
    dense = (count.dense_mlp + count.shared_experts + count.other) * part
    experts = count.experts * part
    if experts:
        width, hidden = f.experts.multiple
        share = m.moe_ffn * ep / shards
        experts *= _filled(share, width) / share * _filled(m.hidden, hidden) / m.hidden
        experts *= tp / shards  # below, all is divided by tp
    core = m.core
    rotated = m.rotary_dim or (core.rope_dim or core.qk_dim if core else 0)
    copied = (count.norms + count.router) * part + m.rotary_rows * rotated
    tables = vocab * (first + (last and (not m.tied_embeddings or not first)))
    whole = 0.0 if f.head else tables
    further = (
        sum(o.rows * o.width for o in m.before if isinstance(o, Gather) and o.part == "embedding") - m.vocab * m.head.k
    )
    whole += (count.positions + m.tower_parameters + further) * first
    # compressed queries and keys are not divided; what expands keys and values is kept a second time, 16-bit
    for name in ("q_down", "kv_down", "kv", "compress"):
        attention += sum(n * numbers(o) for n, o in m.products("attention", name)) * part * (tp - 1)
    if m.is_mla or m.compresses:
        attention += count.indexer * part * (tp - 1)
    whole += sum(n * numbers(o) for n, o in m.products("attention", "kv_up")) * part
    for n, one in m.cores:
        if tp > one.kv_heads and not one.latent_v and not m.compresses:  # every rank has a head at least
            attention += m.hidden * (one.qk_dim + one.v_dim) * (tp - one.kv_heads) * n * part
    narrow = [(experts, f.experts.element_bytes)]
    if f.alone:
        whole += attention + dense
    else:
        narrow.append((attention + dense, f.matrices.element_bytes))
    if f.head:
        narrow.append((tables, f.head.element_bytes))
    quantised = sum(size for size, _ in narrow)
    mean = sum(size * each for size, each in narrow) / quantised if quantised else f.matrices.element_bytes
    return {"quantised": quantised, "quantised_bytes": mean, "whole": whole, "copied": copied, "tp": tp}


@dataclass(frozen=True)
class ServerMemory(Result):
    """What :func:`server_memory` returns: bytes on a device of the first pipeline stage, as a server logs them."""

    model: Model
    device: Device
    release: ServerRelease
    weights: str  # number format
    kv: str
    given: Mapping[str, Any]
    terms: tuple[Term, ...]  # of the first stage
    stages: tuple[Mapping[str, float], ...]
    graphs: float
    kv_tokens: int  # of the stage that holds fewest
    notes: tuple[str, ...] = ()
    place: Mapping[str, str] = field(default_factory=dict)  # where it lies among the starts that were logged
    overrides: tuple[str, ...] = ()  # parts that the caller knew

    def _value(self, name: str) -> float:
        return float(next(t.value for t in self.terms if t.name == name))

    @property
    def weight_memory(self) -> float:
        return self._value("weights")

    @property
    def activations(self) -> float:
        return self._value("activations")

    @property
    def runtime(self) -> float:
        """What stands outside the tensors: the driver's context, buffers of the collectives."""
        return self.stages[0]["non_torch_bytes"]

    @property
    def kv_pool(self) -> float:
        """Bytes for cache; negative when nothing is left for it."""
        return self.stages[0]["kv_pool_bytes"]

    @property
    def requested(self) -> float:
        """The server's share of the device."""
        return float(self.given["gpu_memory_utilization"] * self.device.usable_memory)

    @property
    def no_range(self) -> str:
        """Why there is no range, in a sentence; empty where there is one."""
        if missing := server_unseen(self.place):
            return f"the start-up logs of fewer than two models have {' or '.join(missing)}"
        return f"{' and '.join(self.overrides)} as the caller says" if self.overrides else ""

    def _ends(self, part: str) -> tuple[float, float]:
        """Both ends of a part of :data:`RANGED`; those of the cache from what all else may come to."""
        q, value = server_quantiles(RANGED[part]), float(self._values[part])
        if RANGED[part] != "taken":
            return float(interval_end(value, q.high)), float(interval_end(value, q.low))
        pool = [self.requested - float(interval_end(self.requested - self.kv_pool, x)) for x in (q.low, q.high)]
        if part == "kv_pool_bytes":
            return pool[0], pool[1]
        if self.kv_pool <= 0:
            return 0.0, 0.0
        blocks = next(t.arguments for t in self.terms if t.name == "tokens")
        low, high = (float(server_tokens(**{**blocks, "pool": max(0.0, x)})) for x in pool)
        return low, high

    def interval(self, part: str = "kv_tokens") -> Interval:
        """The range in which a server's own log is expected to lie, from the errors of starts that no figure was read from.

        Parameters
        ----------
        part : str
            One of ``weights_bytes``, ``activation_bytes``, ``non_torch_bytes``, ``graphs_bytes``, ``kv_pool_bytes`` and
            ``kv_tokens``.

        Raises
        ------
        InputError, UnknownNameError
            A part that is not there; a device, a kind of model, a format, a split or a release that the starts of fewer than
            two models have; nothing left for the cache.

        >>> held = server_memory("Llama-3.1-8B", "H100").interval()
        >>> held.low < held.value < held.high
        True
        """
        if part not in RANGED:
            raise unknown_name("part of a server's memory", part, RANGED)
        if self.no_range:
            raise InputError(f"interval: {self.no_range}, so nobody knows how far off the memory is there")
        value = float(self._values[part])
        if value <= 0:
            raise InputError(f"interval: {part} = {value:g} has no range; it needs a value above zero")
        (low, high), q = self._ends(part), server_quantiles(RANGED[part])
        if RANGED[part] == "taken":  # the same two ends as errors of the cache itself
            q = replace(
                q, low=float(log_error(value, high)), high=float(log_error(value, low)) if low > 0 else math.inf
            )
        return Interval(value, max(0.0, low), high, q)

    @property
    def _values(self) -> dict[str, float]:
        return {
            "weights_bytes": self.weight_memory,
            "activation_bytes": self.activations,
            "non_torch_bytes": self.runtime,
            "graphs_bytes": self.graphs,
            "kv_pool_bytes": self.kv_pool,
            "kv_tokens": float(self.kv_tokens),
        }

    def _ranges(self) -> list[str]:
        """The ranges in words, or why there are none."""
        if self.no_range:
            return [f"No range: {self.no_range}."]
        q, held = server_quantiles("taken"), []
        for name, value in self._values.items():
            if value > 0:
                low, high = (max(0.0, end) for end in self._ends(name))
                unit = "byte" if name.endswith("bytes") else "token"
                words = [f"{x:,.0f}" if unit == "token" else units.format(x, "byte", 3) for x in (low, high)]
                held.append(f"{name.removesuffix('_bytes').replace('_', ' ')} {words[0]} to {words[1]}")
        return [
            f"{q.nominal:.0%} of logs are expected within: {'; '.join(held)} ({q.rows} starts of {q.groups} models that no "
            f"figure was read from; {q.coverage:.0%} of what is no cache held, each model judged by the others)."
        ]

    @property
    def block_tokens(self) -> int:
        """Tokens in a block: many more than asked for where a block must hold a recurrence's state."""
        return int(self.given["block_tokens"])

    @property
    def blocks(self) -> int:
        """Blocks of cache that one sequence after the other can fill."""
        return self.kv_tokens // self.block_tokens

    @property
    def longest_tokens(self) -> int:
        """Tokens of cache, in every layer alike, that take as much as one sequence of ``max_model_len`` does.

        Layers with a window keep what it and one step hold, so of a long sequence they need less (``SlidingWindowSpec`` of vLLM).
        """
        longest: int = self.given["max_model_len"] or 1
        m, layers = self.model, int(self.stages[0]["layers"])
        windows = [(n, core.window) for n, core in m.cores if core.window]
        if not windows or m.compresses:
            return longest
        widest, step = max(window for _, window in windows), self.given["max_num_batched_tokens"]
        near = min(longest, widest - 1 + step) + self.block_tokens
        groups = cache_groups(m, layers)[1]
        windowed = min(groups, round(groups * sum(n for n, _ in windows) / m.n_attention_layers))
        return int(min(longest, math.ceil(((groups - windowed) * longest + windowed * near) / groups)))

    @property
    def fits(self) -> bool:
        """Whether the weights fit and a sequence of the longest length has its cache."""
        return self.kv_tokens >= max(1, self.longest_tokens)

    @property
    def parts(self) -> dict[str, float]:
        """What a device holds, in the order in which a server takes it."""
        return {
            "weights": self.weight_memory,
            "activations": self.activations,
            "runtime": self.runtime,
            "cache": max(0.0, self.kv_pool),
            "graphs": self.graphs,
        }

    @property
    def reason(self) -> str:
        if self.fits:
            return f"fits: {self.kv_tokens:,} tokens of cache"
        if min(s["kv_pool_bytes"] for s in self.stages) <= 0:
            held = units.format(self.weight_memory + self.activations + self.runtime, "byte")
            share = units.format(self.requested, "byte")
            return f"does not fit: {held} of {share} are taken before any cache; use more devices or smaller weights"
        longest, need = self.given["max_model_len"], self.longest_tokens
        as_much = "" if need == longest else f", which take as much as {need:,} without a window"
        return f"does not fit: the cache holds {self.kv_tokens:,} tokens, and a sequence may have {longest:,}{as_much}"

    def summary(self) -> list[str]:
        g = self.given
        split = ", ".join(f"{n} {g[n]}" for n in ("tp", "pp", "dp", "ep") if g[n] != 1) or "one device"
        return format_rows(
            f"{self.model.name} on {g['tp'] * g['pp'] * g['dp']} x {self.device.name} under {self.release.engine} "
            f"{self.release.version}: {self.reason}",
            ("per device", top_shares({k: v for k, v in self.parts.items() if v})),
            ("formats", f"weights {self.weights}, cache {self.kv}"),
            ("split", split + ("; figures of the first stage, tokens of the smallest" if g["pp"] > 1 else "")),
            ("limits", f"{g['max_num_batched_tokens']:,} tokens a step, {g['max_num_seqs']:,} sequences"),
            ("release", f"figures since {self.release.since}"),
            ("notes", " ".join(self.notes)),
        )

    def chart(self) -> "Drawing | None":
        """What a device holds, as a stack, against its memory."""
        from mlsysim.drawing import shapes

        title = f"{self.model.name} under {self.release.engine} {self.release.version}"
        return shapes.stack(title, {"device": self.parts}, "memory", "byte", (self.device.usable_memory, "capacity"))

    def explain(self) -> Explanation:
        """Every term with its equation and the numbers in it, and where the figures of the release come from."""
        figures = [
            Input("runtime", self.runtime, "byte", "of this deployment, from the figures below unless given"),
            Input("graphs", self._values["graphs_bytes"], "byte", "the same"),
            *(Input(n.replace("_", " "), f.value, f.unit, str(f)) for n, f in self.release.figures.items()),
        ]
        inputs = [Input("capacity", self.device.usable_memory, "byte", self.device.origin("usable_memory")), *figures]
        lines = ("Captured graphs come on top of the server's share of the memory.", *self._ranges(), *self.notes)
        return Explanation(self.summary()[0], self.terms, inputs, lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON; bytes are those of a device of the first stage."""
        found = {
            "model": self.model.name,
            "device": self.device.name,
            "engine": self.release.engine,
            "engine_version": self.release.version,
            "release_since": self.release.since,
            "weights": self.weights,
            "kv": self.kv,
            **dict(self.given),
            "requested_bytes": self.requested,
            **self._values,
            "kv_tokens": self.kv_tokens,
            "kv_blocks": self.blocks,
            "fits": self.fits,
            "reason": self.reason,
            "stages": [dict(s) for s in self.stages],
            "low": None,
            "high": None,
            "domain": NEW if server_unseen(self.place) else KNOWN,
            "notes": [*self.notes, *(self._ranges() if self.no_range else ())],
        }
        if not self.no_range:
            ends = {name: self._ends(name) for name in RANGED}
            found |= {"low": {n: e[0] for n, e in ends.items()}, "high": {n: e[1] for n, e in ends.items()}}
        return dict(plain(found))


def server_memory(
    model: Model | str,
    device: Device | str,
    *,
    engine: str = "vllm",
    engine_version: str = RELEASE,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    weights: str | None = None,
    experts: str | None = None,
    head: str | None = None,
    dtype: str = "bf16",
    kv: str = "auto",
    max_model_len: int | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    gpu_memory_utilization: float = 0.9,
    block_tokens: int = BLOCK_TOKENS,
    graphs: bool = True,
    activations: float | None = None,
    runtime: float | None = None,
) -> ServerMemory:
    """What a server of a language model holds on each device, and how many tokens of cache that leaves.

    Formula: eq-server-weights, eq-activation-reserve, eq-server-pool and eq-server-tokens, stage by stage.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or the name of one of its published checkpoints ("...-FP8-dynamic").
    device : Device or str
        A catalogue entry or its name.
    engine : str, one of ENGINES
        Server whose account of memory is taken.
    engine_version : str
        Release of that server.
    tp, pp, ep, dp : int
        Tensor-parallel ranks, pipeline stages, devices that share the experts whole (1: every expert is sliced), and ranks with
        an attention and a cache of their own, of which this is one; ep divides tp x dp.
    weights : str, one of FORMATS, optional
        Number format in which the checkpoint stores the matrices (default: as published). Embedding,
        head, norms, routers and towers stay 16-bit, and of a mixture in ``mxfp4``, ``nvfp4``, ``fp4`` or ``int4-sym-g32``
        everything but the routed experts (``memory.quantised``).
    experts : str, one of FORMATS, optional
        Number format of a mixture's routed experts as stored, where it differs from the other weights.
    head : str, one of FORMATS, optional
        Number format of embedding and output head as stored, where it differs from the other weights.
    dtype : str
        Number format of the arithmetic: bf16, fp16 or fp32.
    kv : str
        Number format of the KV cache; auto is the dtype.
    max_model_len : int, optional
        Longest sequence in tokens; it must fit.
    max_num_batched_tokens : int, optional
        Tokens of a step, at most (default: the engine's for the device).
    max_num_seqs : int, optional
        Sequences that run at a time, at most (default: the engine's for the device).
    gpu_memory_utilization : float, 1, (0, 1]
        Share of the device memory that the server takes.
    block_tokens : int
        Tokens in a block of cache.
    graphs : bool
        Steps are captured as graphs; False is what ``--enforce-eager`` does.
    activations, runtime : float, byte, optional
        The peak of the trial step and what stands outside the tensors, where they are known; by eq-activation-reserve and
        from the release unless given.

    Returns
    -------
    ServerMemory

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown model, device, engine or format.

    >>> r = server_memory("Llama-3.1-8B", "H100", gpu_memory_utilization=0.95)
    >>> round(r.weight_memory / 2**30, 2), round(r.kv_tokens / 1000)  # the log says 14.99 GiB and 476,016 tokens
    (14.99, 476)

    Source: vllm2025engine, planner2026starts.
    """
    m, stored = checkpoint(model)
    d, found = catalog.where(device).device, release(engine, engine_version)
    split = {"tp": tp, "pp": pp, "ep": ep, "dp": dp}
    limits = {
        "max_model_len": max_model_len,
        "max_num_batched_tokens": max_num_batched_tokens,
        "max_num_seqs": max_num_seqs,
    }
    for option, value in (split | {"block_tokens": block_tokens} | limits).items():
        if value is not None:
            _whole(option, value)
    _check_split(m, gpu_memory_utilization, tp, pp, ep)
    if weights is None and stored == m.stored:
        experts = experts or m.stored_experts or None
    f = _Formats.of(m, weights, stored, experts, head, dtype, kv)
    tokens, sequences = _step_limits(d, max_num_batched_tokens, max_num_seqs)
    runtime_bytes = found.runtime(tp, pp) if runtime is None else runtime
    layer_bytes, block_tokens = _page(m, f, tp, block_tokens, max_model_len)
    logit = 4.0 * found.float_tensors + (f.element if f.element < 4 else 0.0)
    stages = []
    for i, layers in enumerate(stage_layers(m.n_layers, pp)):
        first, last = i == 0, i == pp - 1
        stages.append(
            _stage(
                m,
                f,
                layers,
                weights=_stage_weights(m, f, layers, first, last, split),
                step=_step(m, tokens, sequences if last else 0, tp, pp, f.element, logit, first),
                activations=activations,
                room={"capacity": d.usable_memory, "usable": gpu_memory_utilization, "runtime": runtime_bytes},
                blocks={"layer_bytes": layer_bytes, "block_tokens": block_tokens},
                graphs=(found.graph_fixed + found.graph_layer * layers) * graphs,
            )
        )
    if found.newer:
        warnings.warn(found.notes[0], stacklevel=2)
    given: dict[str, Any] = split | {
        "dtype": f.dtype,
        **limits,
        "max_num_batched_tokens": tokens,
        "max_num_seqs": sequences,
    }
    given |= {"gpu_memory_utilization": gpu_memory_utilization, "block_tokens": block_tokens}
    bits = 8.0 * (f.experts if m.is_moe else f.matrices).element_bytes
    formats: dict[str, Any] = {"bits": bits, "dtype": f.dtype, "kv": f.kv}
    return ServerMemory(
        model=m,
        device=d,
        release=found,
        weights=f.name,
        kv=f.kv,
        given=MappingProxyType(given | {"experts": experts, "head": head}),
        terms=stages[0][0],
        stages=tuple(held for _, held in stages),
        graphs=stages[0][1]["graphs_bytes"],
        kv_tokens=int(min(held["kv_tokens"] for _, held in stages)),
        notes=(*found.notes, *_notes(m, d, int(stages[0][1]["layers"]), block_tokens)),
        place=server_place(m, d, **formats, tp=tp, pp=pp, engine=engine, since=found.since),
        overrides=tuple(n for n, v in (("activations", activations), ("runtime", runtime)) if v is not None),
    )


def _page(m: Model, f: "_Formats", tp: int, block_tokens: int, longest: int | None) -> tuple[float, int]:
    """Bytes of a token's cache in a layer on a device, and tokens in a block."""
    layer_bytes = layer_cache_bytes(m, tp, KV_FORMATS[f.kv])
    if layer_bytes:
        return layer_bytes, state_block(m, tp, layer_bytes, f.element, block_tokens)
    if longest is None:
        raise InputError(
            f"server_memory: max_model_len is missing; {m.name} keeps a state and no tokens, so only the longest sequence says "
            "how many tokens the sequences that fit have"
        )
    return state_page(m, tp, f.element) / longest, longest  # a block is the state of a sequence, whatever its length


def _check_split(m: Model, share: float, tp: int, pp: int, ep: int) -> None:
    if not 0 < share <= 1:
        raise InputError(f"server_memory: gpu_memory_utilization = {share!r} must lie above 0 and up to 1")
    if pp > m.n_layers:
        raise InputError(f"server_memory: pp = {pp} must not exceed the {m.n_layers} layers of {m.name}")
    if m.heads % tp:
        raise InputError(f"server_memory: tp = {tp} must divide the {m.heads} heads of {m.name}; choose a divisor")
    if ep > 1 and (not m.is_moe or m.n_experts % ep):
        raise InputError(
            f"server_memory: ep = {ep} must divide the {m.n_experts} experts of {m.name}; use 1 without experts"
        )


def _step_limits(d: Device, tokens: int | None, sequences: int | None) -> tuple[int, int]:
    """Tokens of a step and sequences that run at a time."""
    most, together = server_limits(d)
    if tokens is not None:
        most = tokens
    elif sequences is not None:
        most = max(most, sequences)
    return most, min(together, most) if sequences is None else sequences


@dataclass(frozen=True)
class _Formats:
    """In which formats a server holds what."""

    name: str  # of the matrices
    matrices: Format
    experts: Format
    head: Format | None  # None: as what is computed in
    alone: bool  # only routed experts are narrow
    dtype: str
    element: float  # bytes of a number that is computed with
    kv: str

    @classmethod
    def of(
        cls, m: Model, weights: str | None, stored: str, experts: str | None, head: str | None, dtype: str, kv: str
    ) -> "_Formats":
        """The formats asked for, checked against what the model has."""
        dtype, computed = weight_format(dtype)
        plain = ("bf16", "fp16", "fp32")
        if dtype not in plain:
            raise InputError(
                f"server_memory: dtype = {dtype!r} must be bf16, fp16 or fp32; quantised weights are told by weights="
            )
        name, form = weight_format(weights or stored or dtype)
        if name in plain:
            form = computed
        if name == "mxfp4" and not m.is_moe:
            raise InputError(
                f"server_memory: weights = {name!r} stores experts only, and {m.name} has none; take another format"
            )
        if experts is not None and not m.is_moe:
            raise InputError(
                f"server_memory: experts = {experts!r} is a format of routed experts, and {m.name} has none; leave it out"
            )
        if experts is not None and weights is None and experts_alone(name, m.is_moe):
            form = computed  # what is published narrow is the experts alone
        cached = dtype if kv == "auto" else kv.lower().replace("_", "-")
        if cached not in KV_FORMATS:
            raise unknown_name("number format of the cache", kv, ("auto", *KV_FORMATS))
        of_experts = form if experts is None else weight_format(experts)[1]
        of_head = None if head is None else weight_format(head)[1]
        alone = experts is None and experts_alone(name, m.is_moe)
        return cls(name, form, of_experts, of_head, alone, dtype, computed.element_bytes, cached)


def _stage(
    m: Model,
    f: _Formats,
    layers: int,
    *,
    weights: dict[str, float],
    step: dict[str, float],
    activations: float | None,
    room: dict[str, float],
    blocks: dict[str, float],
    graphs: float,
) -> tuple[tuple[Term, ...], Mapping[str, float]]:
    """What a device of a pipeline stage holds: its terms, and its bytes by part."""
    held = weights | {"element_bytes": f.element}
    weighs = Term("weights", server_weights(**held), "eq-server-weights", held)
    peak = Term("activations", activation_reserve(**step), "eq-activation-reserve", step)
    if activations is not None:
        peak = Term("activations", activations, "eq-activation-reserve", {})
    room = room | {"weights": weighs.value, "activations": peak.value}
    taken = float(weighs.value + peak.value + room["runtime"])
    share = room["usable"] * room["capacity"]
    full = taken > share
    pool = share - taken if full else float(server_pool(**room))
    size, groups = cache_groups(m, layers)
    blocks = blocks | {"pool": max(0.0, pool), "group_layers": size, "groups": groups}
    tokens = server_tokens(**blocks)
    terms: tuple[Term, ...] = (weighs, peak)
    if not full:
        terms += (Term("pool", pool, "eq-server-pool", room), Term("tokens", tokens, "eq-server-tokens", blocks))
    parts = {
        "layers": layers,
        "weights_bytes": float(weighs.value),
        "activation_bytes": float(peak.value),
        "non_torch_bytes": room["runtime"],
        "graphs_bytes": graphs,
        "kv_pool_bytes": pool,
        "kv_tokens": int(tokens),
    }
    return terms, MappingProxyType(parts)


def _notes(m: Model, d: Device, layers: int, block_tokens: int) -> list[str]:
    """What the numbers leave out or assume, in words."""
    notes = []
    if d.vendor != _READ_ON:
        notes.append(
            f"No start on a device of {d.vendor} was read: runtime, graphs and the defaults of a step are those of {_READ_ON}'s, "
            "and whether the engine runs there is not asked."
        )
    if any(core.window for _, core in m.cores) and cache_groups(m, layers)[1] > 1:
        notes.append(
            "Layers with a sliding window have blocks of their own, which a sequence frees as it leaves the window."
        )
    if m.compresses:
        notes.append(
            "Windows, and what waits to be compressed, lie beside the blocks of compressed keys, and pages of all are filled up: a start "
            "may log half as many tokens of cache."
        )
    if m.n_recurrent_layers and m.n_attention_layers:
        notes.append(
            f"Blocks hold {block_tokens:,} tokens, as many as take the bytes of one state; every sequence has a block for each "
            "group of recurrences, however short it is."
        )
    if m.modules:
        notes.append(
            f"Modules for multi-token prediction, {transformer.mtp_parameters(m) / 1e9:,.1f} B parameters, are loaded for "
            "speculation only."
        )
    if m.tower_parameters:
        notes.append(f"A tower of {m.tower_parameters / 1e6:,.0f} M parameters for images is loaded too.")
    if not m.rotary_rows and not m.learned_positions:
        notes.append("The tables of rotary sines and cosines are left out: the entry does not say how long they are.")
    return notes


def _step(
    m: Model, tokens: int, sequences: int, tp: int, pp: int, element: float, logit: float, first: bool
) -> dict[str, float]:
    """Arguments of eq-activation-reserve for a stage; only the last one draws tokens."""
    dense = (3 if m.gated_mlp else 2) * m.ffn / tp if m.ffn else 0.0
    kept = 0.0
    if m.is_moe:  # of every expert that a token meets: the wider of gate with up and the output, and their product
        each = m.moe_ffn / tp
        kept = m.top_k * (max((1 + m.gated_mlp) * each, float(m.hidden)) + each)
        shared = (2 + m.gated_mlp) * m.shared_ffn / tp
        moved = 2 * m.top_k * m.hidden  # copies of a token for its experts, and what they give back
        dense = max(dense, kept + moved + shared)
    received = 2 * (not first)  # rows of the width: residual and output of the stage before
    sent = 2 * (pp > 1)
    images = (m.tower_parameters > 0) * first  # as many as tokens
    return {
        "tokens": tokens,
        "hidden": m.hidden,
        "wide": dense + sent * m.hidden,
        "sequences": sequences,
        "vocab": m.vocab,
        "logit_bytes": logit,
        "kept": kept + (received + images) * m.hidden,
        "fixed": _WORKSPACE,
        "element_bytes": element,
    }


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"server_memory: {name} = {value!r} must be a whole number of at least 1")
