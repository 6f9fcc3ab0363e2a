"""What a forward pass asks for, and how its time splits into terms. Floats or arrays, nothing looked up.

:func:`pass_cost` is the core. Each component of a layer takes the longer of its arithmetic and its traffic; messages
and overheads come on top. Every efficiency is a named field of :class:`Efficiencies`; the defaults are the bound's.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlsysim import catalog, collectives, roofline
from mlsysim._numeric import Num, maximum, minimum, where
from mlsysim.catalog.shapes import Model
from mlsysim.efficiencies import own
from mlsysim.inference.equations import experts_hit, host_overhead
from mlsysim.results import Listed, Timed
from mlsysim.transformer import parameter_count

ACTIVATION_BYTES = 2.0  # activations and messages are 16-bit


@dataclass(frozen=True)
class Efficiencies:
    """How far software stays behind the printed rates. Fractions are of a peak, a bandwidth or a link.

    The defaults are the bound: printed rates, no traffic but weights and cache, and no overhead. Others without a name are
    called ``own``.
    """

    name: str = "bound"
    source: str = "every resource at its printed rate"
    gemm: Num = 1.0  # of the peak of the precision that the matrices run in
    attention: Num = 1.0  # of the 16-bit peak
    memory: Num = 1.0  # of the memory bandwidth, for weights and activations
    cache: Num = 1.0  # of the memory bandwidth, for keys and values
    link: Num = 1.0  # of the link bandwidth, one way
    link_latency: Num = 0.0  # s per step of a message
    elementwise: Num = 0.0  # passes over a hidden-sized tensor per layer that no product does: norms, residuals
    replicated: Num = 1.0  # share of them that tensor parallelism does not cut
    layer_overhead: Num = 0.0  # s per layer on the device: kernel start and tail
    launch_time: Num = 0.0  # s per layer on the host, hidden as far as the device takes longer
    step_overhead: Num = 0.0  # s per pass: scheduler, sampling

    def __post_init__(self) -> None:
        own(self)


BOUND = Efficiencies()


@dataclass(frozen=True)
class Work(Listed):
    """What a model asks for; per layer unless it says otherwise, averaged over unlike layers."""

    layers: Num
    hidden: Num
    attention_params: Num
    dense_params: Num  # dense MLP, shared experts and router
    head_params: Num  # of the model
    heads: Num
    key_value_macs: Num  # per query head and key: query size + value size
    absorbed_macs: Num  # the same in decode: of the latent vector, where the cache holds one (MLA)
    kv_elements: Num  # cached numbers of one token
    kv_shards: Num  # devices over which tensor parallelism can cut the cache: key-value heads, 1 for MLA
    window: Num = 0.0
    windowed: Num = 0.0  # share of the layers with a window
    expert_params: Num = 0.0  # one routed expert
    n_experts: Num = 0.0
    top_k: Num = 0.0
    moe: Num = 0.0  # share of the layers with experts
    all_reduces: Num = 2.0  # tensor-parallel messages of a layer


@dataclass(frozen=True)
class Split(Listed):
    """Formats and parallel degrees of one replica of a model."""

    tp: Num = 1.0
    pp: Num = 1.0
    dp: Num = 1.0  # attention replicas, each with its share of the batch
    ep: Num = 1.0  # devices that share the experts; made of tp and dp ranks
    weight_bytes: Num = 2.0  # per weight
    expert_bytes: Num = 2.0
    head_bytes: Num = 2.0
    kv_bytes: Num = 2.0
    dispatch_bytes: Num = 2.0  # per element of a token on its way to an expert; it returns in 16 bits
    interleaved: Num = 1.0  # micro-batches whose messages and products hide each other


@dataclass(frozen=True)
class Machine(Listed):
    """One device and its links, byte/s per device and one way."""

    peak_flops: Num
    half_peak_flops: Num  # of the 16-bit formats, for attention
    memory_bandwidth: Num
    intra_bandwidth: Num
    inter_bandwidth: Num
    tp_inside: Num = 1.0  # ranks of a tensor-parallel group in one scale-up domain
    ep_inside: Num = 1.0
    pp_bandwidth: Num = 1.0  # of the link between neighbouring stages


@dataclass(frozen=True)
class Terms(Timed):
    """Seconds of one pass by term; they sum to its time."""

    OF = "one pass"
    projections: Num  # queries, keys, values and output
    attention: Num
    mlp: Num  # with shared experts and router
    experts: Num
    head: Num
    elementwise: Num
    tensor_parallel: Num
    expert_parallel: Num
    pipeline: Num
    overhead: Num


@dataclass(frozen=True)
class Component(Listed):
    """Work and traffic of one kind on one device, over all layers and micro-batches of a pass."""

    flops: Num
    bytes: Num
    peak: Num  # FLOP/s that are reached
    bandwidth: Num
    compute_time: Num
    memory_time: Num

    @property
    def time(self) -> Num:
        return maximum(self.compute_time, self.memory_time)


_MESSAGES: dict[str, Callable[..., Num]] = {
    "eq-direct-allreduce": collectives.direct_all_reduce,
    "eq-moe-dispatch": collectives.moe_dispatch,
    "eq-alpha-beta": collectives.transfer_time,
}


@dataclass(frozen=True)
class Message(Listed):
    """All messages of one kind in a pass: the label of their equation, and its arguments for all of them together."""

    name: str
    label: str
    arguments: dict[str, Num]

    @property
    def time(self) -> Num:
        return _MESSAGES[self.label](**self.arguments)


@dataclass(frozen=True)
class PassCost(Listed):
    """A pass in terms, and what stands behind them: work and traffic of one micro-batch on one tensor-parallel rank."""

    terms: Terms
    components: dict[str, Component]
    messages: tuple[Message, ...]
    filling: Num  # micro-batches in flight over pipeline stages
    starts: dict[str, Num]  # arguments of the overhead

    @property
    def time(self) -> Num:
        return self.terms.time

    @property
    def compute_time(self) -> Num:
        """Arithmetic of all components, as if memory were free."""
        return sum(c.compute_time for c in self.components.values())

    @property
    def memory_time(self) -> Num:
        """Traffic of all components, as if arithmetic were free."""
        return sum(c.memory_time for c in self.components.values())

    @property
    def device_flops(self) -> Num:
        """Work of one device."""
        return self.filling * sum(c.flops for c in self.components.values())

    @property
    def device_bytes(self) -> Num:
        """Traffic of one device."""
        return self.filling * sum(c.bytes for c in self.components.values())


def _pairs(tokens: Num, window: Num) -> Num:
    """Query-key pairs of a causal sequence in which a query sees at most so many keys, itself included."""
    seen = minimum(tokens, window)
    return seen * tokens - seen * (seen - 1) / 2


def pass_cost(
    work: Work, split: Split, machine: Machine, eff: Efficiencies, batch: Num, new: Num, cached_len: Num, decode: Num
) -> PassCost:
    """Time of one forward pass of ``batch`` sequences over ``new`` tokens each, ``cached_len`` tokens being cached.

    ``decode`` is 1 for a step of running sequences (MLA then works on its latent cache) and 0 for a prompt. A pipeline
    cuts the batch into as many micro-batches as it has stages, if there are so many sequences.
    """
    w, s, m, e = work, split, machine, eff
    layers = -(-w.layers // s.pp) * s.pp  # the fullest stage binds
    per_rank = batch / s.dp
    micro = maximum(1.0, minimum(s.pp, per_rank))
    b = per_rank / micro / s.interleaved  # sequences that one replica takes through a layer together
    tokens = b * new
    n = layers * s.interleaved
    bandwidth, peak = m.memory_bandwidth * e.memory, m.peak_flops * e.gemm

    def component(flops: Num, bytes: Num, rate: Num = peak, width: Num = bandwidth) -> Component:
        compute, memory = roofline.compute_time(flops, rate), roofline.memory_time(bytes, width)
        return Component(flops, bytes, rate, width, compute, memory)

    def matrices(params: Num, rows: Num, element_bytes: Num, times: Num) -> Component:
        return component(times * 2.0 * params * rows / s.tp, times * params * element_bytes / s.tp)

    # Attention: pairs of queries and keys, and one reading of keys and values
    end = cached_len + new
    full = _pairs(end, end) - _pairs(cached_len, cached_len)
    window = where(w.window > 0, w.window, end)
    pairs = full + w.windowed * (_pairs(end, window) - _pairs(cached_len, window) - full)
    seen = end + w.windowed * (minimum(end, window) - end)
    macs = where(decode > 0, w.absorbed_macs, w.key_value_macs)
    core = component(
        n * 2.0 * b * pairs * w.heads * macs / s.tp,
        n * b * seen * w.kv_elements * s.kv_bytes / minimum(s.tp, w.kv_shards),
        m.half_peak_flops * e.attention,
        m.memory_bandwidth * e.cache,
    )
    # Experts: the tokens of all replicas that share one set of them
    shards = s.ep * minimum(s.tp, s.tp * s.dp / s.ep)
    pool = tokens * s.dp * minimum(1.0, s.ep / s.dp)
    hit = experts_hit(maximum(1.0, w.n_experts), w.top_k, pool)
    experts = component(
        n * w.moe * 2.0 * pool * w.top_k * w.expert_params / shards,
        n * w.moe * hit * w.expert_params * s.expert_bytes / shards,
    )
    passes = n * e.elementwise * w.hidden * tokens * ACTIVATION_BYTES * (e.replicated + (1.0 - e.replicated) / s.tp)
    components = {
        "projections": matrices(w.attention_params, tokens, s.weight_bytes, n),
        "attention": core,
        "mlp": matrices(w.dense_params, tokens, s.weight_bytes, n),
        "experts": experts,
        "head": matrices(w.head_params, where(decode > 0, tokens, b), s.head_bytes, s.interleaved),
        "elementwise": component(0.0 * passes, passes),
    }
    parts = {name: c.time for name, c in components.items()}
    tensor, expert = _tensor_messages(w, s, m, e, tokens, n), _expert_messages(w, s, m, e, tokens, n, decode)
    sent = sum(x.time for x in expert)
    busy = sum(parts.values())
    exposed = where(s.interleaved > 1, maximum(0.0, sent - busy), sent)
    reduced = sum(x.time for x in tensor)
    count = (s.pp - 1.0) * s.interleaved
    given = {"bytes": count * tokens * w.hidden * ACTIVATION_BYTES, "bandwidth": m.pp_bandwidth * e.link}
    hops = Message("stage to stage", "eq-alpha-beta", given | {"latency": count * e.link_latency})
    device = busy + exposed + reduced + hops.time + n * e.layer_overhead
    starts = {"layers": n, "layer_overhead": e.layer_overhead, "step_overhead": e.step_overhead}
    starts |= {"launch_time": e.launch_time, "device_time": device}
    overhead = host_overhead(**starts)
    # The last of several micro-batches of a prompt starts when the others have left the first stage.
    stage = (busy + exposed + reduced + overhead) / s.pp
    waiting = where(decode > 0, 0.0 * stage, (micro - 1.0) * stage)
    terms = Terms(
        **parts,
        tensor_parallel=reduced,
        expert_parallel=exposed,
        pipeline=hops.time + waiting,
        overhead=overhead,
    )
    return PassCost(terms, components, (*tensor, *expert, hops), micro / s.pp, starts)


def _tensor_messages(w: Work, s: Split, m: Machine, e: Efficiencies, tokens: Num, n: Num) -> tuple[Message, ...]:
    """All-reduces of a layer's results: direct, for decode messages are short; in two tiers when tp leaves a domain."""
    count = w.all_reduces * n
    bytes = count * tokens * w.hidden * ACTIVATION_BYTES
    given = {"bytes": bytes, "ranks": m.tp_inside, "bandwidth": m.intra_bandwidth * e.link}
    outer = {"bytes": bytes / m.tp_inside, "ranks": s.tp / m.tp_inside, "bandwidth": m.inter_bandwidth * e.link}
    latency = {"latency": count * e.link_latency}
    return (
        Message("tp inside", "eq-direct-allreduce", given | latency),
        Message("tp across", "eq-direct-allreduce", outer | latency),
    )


def _expert_messages(
    w: Work, s: Split, m: Machine, e: Efficiencies, tokens: Num, n: Num, decode: Num
) -> tuple[Message, ...]:
    """Tokens to their experts and back.

    In a prompt a token crosses the network once per domain that needs it and is copied there; in a decode step every
    copy goes straight to its device, which saves a hop (the two kinds of kernels of DeepEP).
    """
    count = n * w.moe * where(s.ep > 1, 1.0, 0.0)
    domains = s.ep / m.ep_inside
    others = (domains - 1.0) / domains
    given = {
        "tokens": tokens / s.tp,  # tensor-parallel ranks hold the same tokens and share the sending
        "remote_nodes": others * where(decode > 0, w.top_k, experts_hit(domains, 1.0, w.top_k)),
        "local_copies": w.top_k * (m.ep_inside - 1.0) / where(decode > 0, s.ep, m.ep_inside),
        "network_bandwidth": m.inter_bandwidth * e.link,
        "node_bandwidth": m.intra_bandwidth * e.link,
        "latency": count * e.link_latency,
    }
    return tuple(
        Message(name, "eq-moe-dispatch", given | {"token_bytes": count * w.hidden * width})
        for name, width in (("dispatch", s.dispatch_bytes), ("combine", ACTIVATION_BYTES))
    )


def work_of(model: Model | str) -> Work:
    """The work of a catalogue model (or of a shape of your own) in the terms of :func:`pass_cost`.

    >>> work_of("Llama-3.1-8B").kv_elements
    2048
    """
    m = catalog.model(model)
    count = parameter_count(replace(m, qkv_bias=False, output_bias=False, mlp_bias=False, router_bias=False))
    value = m.v_head_dim or m.head_dim
    query = m.head_dim + m.qk_rope_head_dim if m.is_mla else m.head_dim
    latent = m.kv_lora_rank + m.qk_rope_head_dim
    return Work(
        layers=m.layers,
        hidden=m.hidden,
        attention_params=count.attention / m.layers,
        dense_params=(count.dense_mlp + count.shared_experts + count.router) / m.layers,
        head_params=m.vocab * (m.embedding_width or m.hidden),
        heads=m.heads,
        key_value_macs=query + value,
        absorbed_macs=latent + m.kv_lora_rank if m.is_mla else query + value,
        kv_elements=latent if m.is_mla else m.kv_heads * (query + value),
        kv_shards=1 if m.is_mla else m.kv_heads,
        window=m.attn_window,
        windowed=m.n_windowed_layers / m.layers,
        expert_params=count.experts / (m.n_experts * m.n_moe_layers) if m.is_moe else 0.0,
        n_experts=m.n_experts,
        top_k=m.top_k,
        moe=m.n_moe_layers / m.layers,
        all_reduces=1.0 if m.parallel_block else 2.0,
    )
