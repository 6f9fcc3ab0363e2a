"""What InferSim would say: that tool's rules and units restated in our own code, for comparison only.

Nothing else in the package uses this module. It keeps what we would not do: a "TFLOP" of 1024e9 FLOP, bytes over 2**30
against bandwidths in decimal GB/s, a share of 0.80 inside each bandwidth, tables read without interpolation, 5 ms added
to every step and 30 ms to every prompt pass (infersim2026readme; device constants of infersim2026gpu).
"""

import math
from dataclasses import dataclass, field
from types import MappingProxyType

from mlsysim import catalog
from mlsysim.catalog.shapes import Model
from mlsysim.errors import InputError, unknown_name
from mlsysim.evidence.hypotheses.measured import NO_TABLES, Grouped, KernelTables, Product
from mlsysim.results import Result

TERA = 1024e9  # FLOP in its TFLOP
GIGA = 2.0**30  # byte in the GB of a size; those of a bandwidth are 1e9 in name only
STEP_S, PROMPT_S = 5e-3, 30e-3  # added "for the scheduler"
CAUSAL = 1.8  # what a causal mask divides attention by
PREFILL_SHARE = 0.9  # of attention over prompts without a table
FARTHEST = 1e9  # squared distance of k and n beyond which a measured product no longer answers
PROCESSORS_LEFT = 108 / 132  # by normal kernels, while two batches overlap


@dataclass(frozen=True)
class Hardware:
    """Its constants of one device: TFLOP/s, GB, and GB/s with the share of 0.80 inside."""

    half: float
    eight_bit: float
    share: float  # of the peak, where no table answers
    memory: float
    memory_bandwidth: float
    nvlink: float
    network: float


HARDWARE = MappingProxyType(
    {
        "H20": Hardware(148, 296, 0.6, 96, 4096 * 0.8, 900 * 0.8 / 2, 50 * 0.8),
        "H800": Hardware(989, 1979, 0.35, 80, 3430 * 0.8, 400 * 0.8 / 2, 50 * 0.8),
        "H200": Hardware(989, 1979, 0.4, 141, 4800 * 0.8, 900 * 0.8 / 2, 50 * 0.8),
    }
)


@dataclass(frozen=True)
class Shape:
    """A model as the tool reads it: every layer alike, and a dense MLP as one expert."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int  # of one expert
    experts: int = 1
    top_k: int = 1
    shared: int = 0
    rank: int = 0  # of the latent cache; 0 without one
    query_rank: int = 0
    rotary: int = 0
    value_dim: int = 0

    @property
    def is_moe(self) -> bool:
        return self.experts > 1

    @property
    def is_latent(self) -> bool:
        return self.rank > 0


def shape_of(model: Model | str, raw: bool = False) -> Shape:
    """A catalogue model as the tool sees it.

    The tool knows experts under the names ``num_routed_experts`` and ``num_experts`` (Qwen's) only. ``raw=True`` gives
    what it makes of a ``config.json`` as published: Mixtral's says ``num_local_experts`` and DeepSeek's
    ``n_routed_experts``, so both are read as dense models of their ``intermediate_size``. The tool brings an edited
    copy of DeepSeek's and none of Mixtral's.

    >>> shape_of("Mixtral-8x7B").experts, shape_of("Mixtral-8x7B", raw=True).experts
    (8, 1)
    """
    m = catalog.model(model)
    core = m.core
    if core is None:
        raise InputError(f"shape_of: {m.name} has no attention, and the tool knows no other layers; take another model")
    moe = m.is_moe and (not raw or m.name.startswith("Qwen"))
    return Shape(
        layers=m.n_layers,
        hidden=m.hidden,
        heads=m.heads,
        kv_heads=m.kv_heads,
        head_dim=m.head_dim,
        width=m.moe_ffn if moe else m.ffn or m.moe_ffn,
        experts=m.n_experts if moe else 1,
        top_k=m.top_k if moe else 1,
        shared=m.shared_ffn // m.moe_ffn if moe else 0,
        rank=core.latent_v,
        query_rank=m.rank("q_down"),
        rotary=core.rope_dim,
        value_dim=core.v_dim if m.is_mla else 0,
    )


@dataclass(frozen=True)
class Setup:
    """One run of the tool. ``tokens`` per device: sequences of a step, or tokens of a prompt pass."""

    shape: Shape
    device: str = "H800"
    devices: int = 1
    nodes: int = 1
    tp: int = 1
    tokens: float = 1
    input_len: int = 4096
    output_len: int = 2048
    fp8: bool = False
    fp8_cache: bool = False
    deepep: bool = False
    overlap: bool = False  # of two batches
    processors_left: float = PROCESSORS_LEFT
    tables: KernelTables = field(default=NO_TABLES, repr=False)

    def __post_init__(self) -> None:
        if self.device not in HARDWARE:
            raise unknown_name("device of InferSim", self.device, HARDWARE)
        if self.tokens <= 0:
            raise InputError(f"Setup: tokens = {self.tokens} must be above 0")

    @property
    def hardware(self) -> Hardware:
        return HARDWARE[self.device]

    @property
    def context(self) -> int:
        """Tokens that a step attends to."""
        return int(self.input_len + self.output_len / 2)

    @property
    def heads(self) -> int:
        return self.shape.heads // self.tp

    @property
    def kv_heads(self) -> int:
        return self.shape.kv_heads // self.tp

    @property
    def width(self) -> int:
        return self.shape.width // self.tp

    @property
    def expert_ranks(self) -> int:
        return self.devices // self.tp


# Counting


def expert_flops(s: Setup) -> float:
    """FLOP of one token in the MLP of one layer: routed and shared experts."""
    return 6.0 * (s.shape.shared + s.shape.top_k) * s.shape.hidden * s.width


def expert_bytes(s: Setup) -> float:
    """Weights of one expert."""
    return float(3 * s.shape.hidden * s.width * (1 if s.fp8 else 2))


def cache_bytes(s: Setup) -> float:
    """Cache of one token over all layers."""
    a = s.shape
    per_layer = a.rank + a.rotary if a.is_latent else 2 * s.kv_heads * a.head_dim
    return float(a.layers * per_layer * (1 if s.fp8_cache else 2))


# Messages


def _sent(elements: float, element_bytes: float, bandwidth: float) -> float:
    return elements * element_bytes / GIGA / bandwidth


def all_reduce_time(s: Setup) -> float:
    """Its all-reduce around the experts: the tokens of all devices over one link, once."""
    if s.devices <= 1:
        return 0.0
    link = s.hardware.network if s.nodes > 1 else s.hardware.nvlink
    return _sent(s.tokens * s.devices * s.shape.hidden, 2, link)


def deepep_time(s: Setup, element_bytes: float, mode: str) -> float:
    """Dispatch (1 byte) or combine (2 bytes)."""
    if s.devices <= 1:
        return 0.0
    elements = s.tokens * s.shape.hidden
    if mode == "normal":
        across = _sent(elements * (s.nodes - 1), element_bytes, s.hardware.network)
        return across + _sent(elements, element_bytes, s.hardware.nvlink)
    link = s.hardware.network if s.nodes > 1 else s.hardware.nvlink
    return _sent(elements * s.shape.top_k, element_bytes, link)


def tensor_time(s: Setup) -> float:
    """A ring all-reduce of tensor parallelism, always over NVLink and counted once per layer."""
    return _sent(s.tokens * s.shape.hidden * 2 * (s.tp - 1) / s.tp, 2, s.hardware.nvlink)


def expert_load_time(s: Setup) -> float:
    """Reading all experts of a device, whatever the batch."""
    return expert_bytes(s) * s.shape.experts / s.expert_ranks / GIGA / s.hardware.memory_bandwidth


# Shares of the peak, from tables


def product_share(s: Setup, rows: float, k: float, n: float) -> float:
    """Of the nearest table shape that covers k x n, the last row count that is not above the one asked for."""

    def apart(p: Product) -> float:
        return (p.k - k) ** 2 + (p.n - n) ** 2

    covering = [p for p in s.tables.products if p.k >= k and p.n >= n and apart(p) < FARTHEST]
    found = s.hardware.share
    if covering:
        near = min(covering, key=apart)
        for p in covering:
            if (p.k, p.n) == (near.k, near.n) and p.rows <= rows:
                found = p.share
    return round(found, 3)


def grouped_share(s: Setup, prefill: bool) -> float:
    """The better of the two products, at the nearest batch (steps) or the last one not above (prompts)."""
    a = s.shape
    table = s.tables.grouped_prefill if prefill else s.tables.grouped_decode
    wanted = (a.experts, s.devices, a.experts // s.expert_ranks, a.top_k, a.hidden, s.width)
    rows = [g for g in table if (g.experts, g.devices, g.local, g.top_k, g.hidden, g.width) == wanted]
    found: Grouped | None = None
    if rows and not prefill:
        found = min(rows, key=lambda g: abs(g.tokens - s.tokens))
    for g in rows if prefill else ():
        if g.tokens > s.tokens:
            break
        found = g
    return s.hardware.share if found is None else round(max(found.up_share, found.down_share), 3)


def attention_share(s: Setup, prefill: bool) -> float:
    """Of one call: the row nearest in sequences plus tokens (steps), or the last length not above (prompts)."""
    a = s.shape
    if prefill:
        key = ("MLA", s.heads, a.head_dim, a.rotary) if a.is_latent else ("MHA", s.heads, s.kv_heads, a.head_dim)
        rows = s.tables.prefill.get(key)
        if rows is None:
            return PREFILL_SHARE
        found = s.hardware.share
        for r in rows:
            if r.tokens > s.input_len:
                break
            found = r.share
        return round(found, 3)
    key = ("MLA", s.heads, a.rank, a.rotary) if a.is_latent else ("MHA", s.heads, s.kv_heads, a.head_dim)
    rows = s.tables.decode.get(key)
    if rows is None:
        return s.hardware.share
    rows = tuple(r for r in rows if r.kv == ("fp8" if s.fp8_cache else "bf16"))
    return round(min(rows, key=lambda r: abs(r.sequences - s.tokens) + abs(r.tokens - s.context)).share, 3)


# Times of one layer


def product_time(s: Setup, rows: float, k: float, n: float) -> float:
    """One matrix product, by its share alone: no traffic, no start."""
    peak = (s.hardware.eight_bit if s.fp8 else s.hardware.half) * TERA
    return 2.0 * rows * k * n / (peak * product_share(s, rows, k, n))


def projection_times(s: Setup) -> dict[str, float]:
    """The products of attention."""
    a, heads, t = s.shape, s.heads, s.tokens
    if not a.is_latent:
        shapes = {
            "qkv": (a.hidden, (heads + 2 * s.kv_heads) * a.head_dim),
            "output": (heads * a.head_dim, a.hidden),
        }
    else:
        shapes = {
            "q_down": (a.hidden, a.query_rank),
            "q_up": (a.query_rank, heads * (a.head_dim + a.rotary)),
            "kv_down": (a.hidden, a.rank + a.rotary),
            "absorb_q": (heads * a.head_dim, a.rank),
            "absorb_v": (heads * a.rank, a.value_dim),
            "output": (heads * a.value_dim, a.hidden),
        }
    return {name: product_time(s, t, k, n) for name, (k, n) in shapes.items()}


def routed_share(s: Setup, prefill: bool) -> float:
    """Of the peak, what the routed experts reach; of a dense model, its MLP."""
    a = s.shape
    return grouped_share(s, prefill) if a.is_moe else product_share(s, s.tokens, a.hidden, a.width * 2 // s.devices)


def routed_time(s: Setup, share: float) -> float:
    """The arithmetic of the routed experts at a share of the peak."""
    peak = (s.hardware.eight_bit if s.fp8 else s.hardware.half) * TERA
    routed = 6.0 * s.tokens * s.shape.top_k * s.shape.hidden * s.width
    return routed / (peak * share)


@dataclass(frozen=True)
class Answer(Result):
    """What the tool prints, in seconds; the parts are those of one layer."""

    setup: Setup
    prefill: bool
    attention_share: float
    attention_compute: float
    cache_load: float
    projections: dict[str, float]
    routed_share: float
    routed_compute: float
    experts_load: float
    shared: float
    before: float
    after: float
    tensor: float

    @property
    def attention(self) -> float:
        return max(self.attention_compute, self.cache_load)

    @property
    def routed(self) -> float:
        return max(self.routed_compute, self.experts_load)

    @property
    def experts(self) -> float:
        return self.routed + self.shared

    @property
    def layer(self) -> float:
        """One layer; of both batches when two overlap."""
        s = self.setup
        repeats = math.ceil(s.tokens / s.input_len) if self.prefill else 1
        attention = self.attention * repeats + sum(self.projections.values())
        if not s.overlap:
            return attention + self.experts + self.before + self.after + self.tensor
        if not self.prefill:  # attention of one batch beside experts and messages of the other
            return 2 * max(attention, self.experts + self.before + self.after)
        pieces = (attention / s.processors_left, self.experts / s.processors_left)
        return sum(max(piece, message) for piece in pieces for message in (self.before, self.after))

    @property
    def time(self) -> float:
        """Its TTFT or its TPOT."""
        return self.setup.shape.layers * self.layer + (PROMPT_S if self.prefill else STEP_S)

    @property
    def tokens_per_s(self) -> float:
        """Its TGS: tokens per second and device."""
        s = self.setup
        return (2 if s.overlap else 1) * s.tokens / s.tp / self.time


def answer(s: Setup, prefill: bool = False) -> Answer:
    """Run the tool's arithmetic for a step, or for a prompt pass.

    >>> from mlsysim.evidence.hypotheses.measured import kernel_tables
    >>> v3 = Setup(shape_of("DeepSeek-V3"), devices=128, nodes=16, tokens=64, output_len=1786, fp8=True, deepep=True,
    ...     overlap=True, tables=kernel_tables("H800"))
    >>> round(answer(v3).tokens_per_s)
    2675
    """
    a, hw, t = s.shape, s.hardware, s.tokens
    share = attention_share(s, prefill)
    heads = a.heads if a.is_latent else s.heads  # latent attention is not cut
    if prefill:
        per_pair = a.head_dim + a.rotary + a.value_dim if a.is_latent else 2 * a.head_dim
        pairs = s.input_len * s.input_len / CAUSAL
        read = cache_bytes(s) * s.input_len
    else:
        per_pair = 2 * a.rank + a.rotary if a.is_latent else 2 * a.head_dim
        pairs = t * s.context
        read = cache_bytes(s) * s.context * t
    routed = routed_share(s, prefill)
    shared = 0.0
    if a.shared:
        shared = product_time(s, t, a.hidden, 2 * s.width * a.shared) + product_time(s, t, s.width * a.shared, a.hidden)
    if s.deepep:
        mode = "normal" if prefill else "low-latency"
        before, after = deepep_time(s, 1, mode), deepep_time(s, 2, mode)
    else:
        before = after = all_reduce_time(s)
    return Answer(
        setup=s,
        prefill=prefill,
        attention_share=share,
        attention_compute=2.0 * heads * per_pair * pairs / (hw.half * TERA * share),
        cache_load=read / a.layers / GIGA / hw.memory_bandwidth,
        projections=projection_times(s),
        routed_share=routed,
        routed_compute=routed_time(s, routed),
        experts_load=expert_load_time(s),
        shared=shared,
        before=before,
        after=after,
        tensor=tensor_time(s) if s.tp > 1 else 0.0,
    )
