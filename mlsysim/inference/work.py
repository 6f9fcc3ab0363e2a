"""Work of a forward pass, and its time by term. Floats or arrays; no lookups.

:func:`pass_cost` is the core. Each component of a layer takes the longer of its arithmetic and its traffic; messages
and overheads come on top. Every efficiency is a named field of :class:`Efficiencies`; the defaults are the bound's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlsysim import collectives, roofline
from mlsysim._numeric import Num, is_array, maximum, minimum, where
from mlsysim.efficiencies import name_custom
from mlsysim.experts import fullest_device, uneven_experts_hit
from mlsysim.inference.equations import cache_readings, experts_hit, host_overhead, layer_starts, switched_all_reduce
from mlsysim.kernels import softmax_share
from mlsysim.results import Result, Timed

# Share of the multiprocessors that compute while the kernels of DeepEP send tokens: 24 of 132 send (infersim2026readme, its
# run of DeepSeek-V3's prompts on H800, sm_ratio 108/132). Those of decode steps need none.
BESIDE_MESSAGES = 108.0 / 132.0
ACTIVATION_BYTES = 2.0  # activations and messages are 16-bit
_NARROW = (
    0.95  # weights of fewer bytes than so much of a product's operand are unpacked; scales of a group are below it
)
_WIDER = 1.5  # weights so much wider than what products multiply have products of their own width


@dataclass(frozen=True)
class Efficiencies:
    """How far software stays below datasheet rates. Fractions are of a peak, a bandwidth or a link.

    The defaults are the bound: printed rates, no traffic but weights and cache, and no overhead. Others without a name are
    called ``own``.
    """

    name: str = "bound"
    source: str = "every resource at its printed rate"
    gemm: Num = 1.0  # of the peak of the precision that the matrices run in
    attention: Num = 1.0  # of the 16-bit peak, its products alone
    memory: Num = 1.0  # of the memory bandwidth, for weights and activations
    cache: Num = 1.0  # of the memory bandwidth, for keys and values
    link: Num = 1.0  # of the link bandwidth, one way
    link_latency: Num = 0.0  # s per step of a message
    elementwise: Num = 0.0  # passes over a hidden-sized tensor per layer that no product does: norms, residuals
    replicated: Num = 1.0  # share of them that tensor parallelism does not cut
    layer_overhead: Num = 0.0  # s per layer on the device: kernel start and tail
    launch_time: Num = 0.0  # s per layer on the host, hidden as far as the device takes longer
    step_overhead: Num = 0.0  # s per pass: scheduler, sampling
    latent: Num = 1.0  # of the 16-bit peak, for decode attention on a latent cache
    latent_cache: Num = 1.0  # of the memory bandwidth, for a latent cache
    grouped: Num = 1.0  # of the peak, for grouped products of experts with many rows each
    grouped_memory: Num = 1.0  # of the memory bandwidth, for the weights of experts
    tile: Num = 0.0  # rows of a tile of grouped products, half of which is empty on average
    kernel_start: Num = 0.0  # s per product or small kernel of a layer, however little it works on
    grouped_start: Num = 0.0  # the same of a grouped product of experts
    attention_start: Num = 0.0  # the same of an attention kernel
    prompt_launch_time: Num = 0.0  # launch_time of a pass with prompts, which a captured graph does not hold
    sequence_overhead: Num = (
        0.0  # s per sequence of a pass: its scheduling and sampling, where a host takes them in turn
    )
    unpack_time: Num = 0.0  # s per weight that is narrower than the products: what makes it a number to multiply with
    ungrouped: Num = 0.0  # fraction of grouped-query heads that re-read the KV cache (0: perfect reuse)
    short_link: Num = 0.0  # of the link bandwidth, for the protocol of short messages; 0 where there is only one
    switch_time: Num = 0.0  # s per step of a message that the protocol of long ones takes more to start
    overlap: Num = 0.0  # share of the products' time that tensor-parallel messages hide behind
    spread: Num = 0.0  # 1 where devices beyond the key-value heads cut the cache by sequence instead of copying it
    hop_share: Num = 1.0  # of a hop's latency that all-reduces inside a domain take, where one kernel adds and sends
    prompt_pace: Num = 1.0  # time of a pass with prompts over that of its kernels
    copies: Num = 0.0  # 1 where the copies of a token, one for each of its experts, are traffic
    routing_cv2: Num = (
        0.0  # how unevenly tokens choose experts: squared variation of how popular they are; 0: all alike
    )
    score_bytes: Num = (
        0.0  # traffic of a query-key pair of a head, where attention of prompts keeps its scores in memory
    )
    network_start: Num = 0.0  # s that a message to experts takes where it leaves the domain, however short it is
    exponential: Num = 0.0  # 16-bit FLOP in the time of an exponential of the softmax; 0 hides it

    def __post_init__(self) -> None:
        name_custom(self)


# Efficiencies of a bound: every kernel at its roofline, nothing lost.
BOUND = Efficiencies()


@dataclass(frozen=True)
class Work(Result):
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
    windowed: Num = (
        0.0  # share of the attention that reaches no further than the window: layers with one, or an indexer
    )
    thinned: Num = 0.0  # share of the attention over all keys that compression leaves out
    always: Num = 0.0  # keys that a token meets whatever its context, where a small window stands beside other keys
    latent: Num = 0.0  # 1 where a decode step meets one vector of a token that is key and value of all heads
    indexing: Num = 0.0  # work of the indexers over all keys, as a share of attention over all keys
    index_reading: Num = 0.0  # what they read of the cache, as such a share
    picked: Num = (
        1.0  # work of a pair whose key an indexer picked in a prompt, over that of another: of a latent, with MLA
    )
    state_bytes: Num = 0.0  # that recurrences keep of a sequence, whatever its length
    state_macs: Num = 0.0  # multiply-adds of a token with them
    chunk_macs: Num = 0.0  # of a token of a prompt with those of its chunk, which recurrences take together
    expert_params: Num = 0.0  # one routed expert
    n_experts: Num = 0.0
    top_k: Num = 0.0
    moe: Num = 0.0  # share of the layers with experts
    routed_hidden: Num = 0.0  # numbers of a token that experts read and write; 0: the hidden size
    all_reduces: Num = 2.0  # tensor-parallel messages of a layer
    kernels: Num = (
        9.0  # of a layer, without attention and grouped products: four products, two norms, rotation, cache, activation
    )
    grouped: Num = 0.0  # grouped products of a layer
    streamed: Num = 0.0  # numbers of a token that residual streams read and write
    pair_macs: Num = 0.0  # as key_value_macs, of a layer with attention: what one exponential comes to; 0: all have it

    @property
    def far(self) -> tuple[Num, Num]:
        """Share of attention over all keys in pairs of queries and keys, and in what is read: indexers see all keys too."""
        whole = 1.0 - self.windowed - self.thinned
        return whole + self.indexing, whole + self.index_reading

    def prompt_pairs(self, pairs: Num, near: Num) -> Num:
        """Pairs of prompts over which a layer works on average, of all ``pairs`` and of those in a window or picked, ``near``.

        With MLA there is no expanded copy of what each query picks: sparse prefill works on latents, or, where that is less
        work, on all expanded keys behind a mask.
        """
        return self.far[0] * pairs + self.windowed * minimum(pairs, self.picked * near)


@dataclass(frozen=True)
class Split(Result):
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
    micro_tokens: Num = (
        0.0  # most tokens of a pipeline's micro-batch, where a server cuts only into equal parts; 0: others
    )
    # Copies of a token between domains: 1, one to every expert; 0, one to a domain; -1: as the kernels for prompts and decode send
    every_copy: Num = -1.0


@dataclass(frozen=True)
class Machine(Result):
    """One device and its links, byte/s per device and one way."""

    peak_flops: Num
    half_peak_flops: Num  # of the 16-bit formats, for attention
    memory_bandwidth: Num
    intra_bandwidth: Num
    inter_bandwidth: Num
    tp_inside: Num = 1.0  # ranks of a tensor-parallel group in one scale-up domain
    ep_inside: Num = 1.0
    pp_bandwidth: Num = 1.0  # of the link between neighbouring stages
    # Protocols of a library for all-reduces that leave a domain, or that have none: s of a call with its steps, s per byte, stages
    # that a chunk passes, and s of a chunk at each. None: a server's own kernels, with the two protocols of eq-switched-allreduce.
    plans: Any = ()


@dataclass(frozen=True)
class Terms(Timed):
    """Seconds of one pass by term; they sum to its time."""

    OF = "one pass"
    projections: Num  # queries, keys, values and output
    attention: Num
    mlp: Num  # with shared experts and router
    experts: Num
    head: Num
    elementwise: Num  # what no product does: norms, residuals, the states of recurrences
    tensor_parallel: Num
    expert_parallel: Num
    pipeline: Num
    overhead: Num


@dataclass(frozen=True)
class Component(Result):
    """Work and traffic of one kind on one device, over all layers and micro-batches of a pass."""

    flops: Num
    bytes: Num
    peak: Num  # FLOP/s that are reached
    bandwidth: Num
    compute_time: Num
    memory_time: Num
    unpack_time: Num = 0.0  # of narrow weights, which neither hides

    @property
    def time(self) -> Num:
        return maximum(self.compute_time, self.memory_time) + self.unpack_time


_MESSAGES: dict[str, Callable[..., Num]] = {
    "eq-switched-allreduce": switched_all_reduce,
    "eq-moe-dispatch": collectives.moe_dispatch,
    "eq-alpha-beta": collectives.transfer_time,
    "eq-chunked-transfer": collectives.chunked_transfer,
}


@dataclass(frozen=True)
class Message(Result):
    """All messages of one kind in a pass: the label of their equation, and its arguments for all of them together."""

    name: str
    label: str
    arguments: dict[str, Num]

    @property
    def time(self) -> Num:
        return _MESSAGES[self.label](**self.arguments)


@dataclass(frozen=True)
class PassCost(Result):
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


def _met(experts: Num, top_k: Num, tokens: Num, routing_cv2: Num) -> Num:
    """Experts that a batch meets: :func:`experts_hit`, or fewer where some of them are more popular than others.

    A token alone meets ``top_k`` of them, whatever is popular.
    """
    even = experts_hit(experts, top_k, tokens)
    if not is_array(routing_cv2) and not routing_cv2:
        return even
    chosen = where(routing_cv2 > 0, where(top_k >= 1, where(top_k < experts, 1.0, 0.0), 0.0), 0.0)  # of several, some
    skewed = uneven_experts_hit(
        where(chosen > 0, experts, 2.0), where(chosen > 0, top_k, 1.0), tokens, where(chosen > 0, routing_cv2, 1.0)
    )
    return where(chosen > 0, maximum(top_k, skewed), even)


@dataclass(frozen=True)
class _Rank:
    """What one micro-batch asks of one tensor-parallel rank: every kernel of a pass but attention, and the messages."""

    work: Work
    split: Split
    machine: Machine
    eff: Efficiencies
    runs: Num  # of a layer: layers times interleaved micro-batches

    def component(self, flops: Num, bytes: Num, rate: Num, width: Num, unpack: Num = 0.0) -> Component:
        compute, memory = roofline.compute_time(flops, rate), roofline.memory_time(bytes, width)
        return Component(flops, bytes, rate, width, compute, memory, unpack)

    def weights(self, flops: Num, count: Num, element_bytes: Num, gemm: Num, memory: Num) -> Component:
        """Products with so many weights, each read once; what is narrower than the products is unpacked first."""
        m, e = self.machine, self.eff
        narrow = where(element_bytes < _NARROW * self.split.dispatch_bytes, 1.0, 0.0)
        slowest = minimum(m.peak_flops, m.half_peak_flops)
        # a product is no narrower than its weights: of 16 bits, or of 8 where the others run in 4
        eight = minimum(m.peak_flops / 2.0, 2.0 * m.half_peak_flops)
        wider = where(element_bytes > _WIDER * self.split.dispatch_bytes, eight, m.peak_flops)
        peak = where(element_bytes >= 2.0, slowest, wider)
        rate, width = peak * gemm, m.memory_bandwidth * memory
        return self.component(flops, count * element_bytes, rate, width, narrow * count * e.unpack_time)

    def matrices(self, params: Num, rows: Num, element_bytes: Num, times: Num, some: Num = 1.0) -> Component:
        tp, e = self.split.tp, self.eff
        count = times * params / tp
        return self.weights(2.0 * count * rows, some * count, element_bytes, e.gemm, e.memory)

    def attention(self, pairs: Num, seen: Num, decode: Num, sequences: Num) -> Component:
        """Query-key pairs of all sequences, and one reading of the keys and values that they see, or several."""
        w, s, m, e, n = self.work, self.split, self.machine, self.eff, self.runs
        macs = where(decode > 0, w.absorbed_macs, w.key_value_macs)
        latent = where(decode > 0, w.latent, 0.0)
        pair = where(w.pair_macs > 0, w.pair_macs, maximum(1.0, w.key_value_macs))
        prompts = softmax_share(e.attention, 2.0 * pair, e.exponential)
        share = prompts + latent * (e.latent - prompts)
        cut = minimum(s.tp, w.kv_shards + e.spread * maximum(0.0, sequences - w.kv_shards))
        group = where(latent > 0, 1.0, maximum(1.0, w.heads / maximum(s.tp, w.kv_shards)))
        readings = where(decode > 0, cache_readings(group, e.ungrouped), 1.0)
        scores = where(decode > 0, 0.0, e.score_bytes * n * pairs * w.heads / s.tp)
        return self.component(
            n * 2.0 * pairs * w.heads * macs / s.tp,
            n * seen * w.kv_elements * s.kv_bytes / cut * readings + scores,
            m.half_peak_flops * share,
            m.memory_bandwidth * (e.cache + latent * (e.latent_cache - e.cache)),
        )

    def rest(self, tokens: Num, logits: Num, some: Num = 1.0, prompts: Num = 0.0) -> dict[str, Component]:
        """All components but attention: products, experts, and the traffic between them.

        ``some`` is 0 for an empty batch; ``prompts`` are those of the tokens that belong to prompts.
        """
        w, s, m, e, n = self.work, self.split, self.machine, self.eff, self.runs
        # the tokens of all replicas that share one set of experts
        shards = s.ep * minimum(s.tp, s.tp * s.dp / s.ep)
        pool = tokens * s.dp * minimum(1.0, s.ep / s.dp)
        shared = maximum(1.0, s.ep)
        busiest = fullest_device(
            shared, maximum(shared, w.n_experts), e.routing_cv2
        )  # chance is in the fitted variation
        hit = _met(maximum(1.0, w.n_experts), w.top_k, pool * busiest, e.routing_cv2)
        rows = maximum(1.0, pool * busiest * w.top_k / maximum(hit, 1.0))  # of a busy expert
        filled = rows / (rows + minimum(rows, e.tile / 2.0))
        passes = n * e.elementwise * w.hidden * tokens * ACTIVATION_BYTES * (e.replicated + (1.0 - e.replicated) / s.tp)
        passes = passes + n * w.streamed * tokens * ACTIVATION_BYTES  # on every tensor-parallel rank
        passes = passes + n * 2.0 * w.state_bytes * logits / s.tp  # read and written once a sequence
        passes = passes + e.copies * n * w.moe * self.copied(pool * busiest * w.top_k, shards)
        state = n * 2.0 * (w.state_macs * tokens + w.chunk_macs * prompts) / s.tp
        return {
            "projections": self.matrices(w.attention_params, tokens, s.weight_bytes, n, some),
            "mlp": self.matrices(w.dense_params, tokens, s.weight_bytes, n, some),
            "experts": self.weights(
                n * w.moe * 2.0 * pool * busiest * w.top_k * w.expert_params / shards,
                n * w.moe * hit * w.expert_params / shards,
                s.expert_bytes,
                e.grouped * filled,
                e.grouped_memory,
            ),
            "head": self.matrices(w.head_params, logits, s.head_bytes, s.interleaved, some),
            "elementwise": self.component(
                state, passes, m.half_peak_flops * e.attention, m.memory_bandwidth * e.memory
            ),
        }

    def copied(self, pairs: Num, shards: Num) -> Num:
        """Bytes of a layer's copies of tokens, one for each of their experts, beside the products' weights.

        Counted in vllm-project/vllm, fused_moe/deep_gemm_moe.py, DeepGemmExperts: hidden-sized ones are read and written in
        order of experts and read by the first product, as narrow as it multiplies; written by the second, read and written
        back in order of tokens, and read by the sum, in 16 bits. Between the products two widths are written and read, one
        is written and read, and a narrow one is written and read.
        """
        w, s = self.work, self.split
        narrow, wide, routed = s.dispatch_bytes, ACTIVATION_BYTES, routed_width(w)
        between = (
            w.expert_params / (3.0 * routed) * s.ep / shards
        )  # that tensor parallelism cuts; placed experts are whole
        return pairs / s.ep * ((3.0 * narrow + 4.0 * wide) * routed + (2.0 * narrow + 6.0 * wide) * between)

    def layer_time(self, attentions: Num) -> Num:
        """What a layer takes beside its work: starts and tails of its kernels."""
        w, e = self.work, self.eff
        starts = layer_starts(w.kernels, e.kernel_start, w.grouped, e.grouped_start, attentions, e.attention_start)
        return e.layer_overhead + starts

    def exposed(self, messages: Num, busy: Num) -> Num:
        """What tensor-parallel messages add to the products."""
        return maximum(0.0, messages - self.eff.overlap * busy)


def routed_width(w: Work) -> Num:
    """Numbers of a token that travel to experts."""
    return where(w.routed_hidden > 0, w.routed_hidden, w.hidden)


_HALVINGS = 20  # of a batch; more than any batch has


def _micro_batches(s: Split, sequences: Num, new: Num) -> Num:
    """Micro-batches of a pipeline: one per stage, or as FasterTransformer cuts a batch (``getLocalBatchSize``).

    That cuts by the stages if they divide the batch, then halves an even part as long as it has too many tokens.
    """
    usual = maximum(1.0, minimum(s.pp, sequences))
    if not is_array(s.micro_tokens) and (not s.micro_tokens or (not is_array(s.pp) and s.pp <= 1)):
        return usual
    part = where(sequences % s.pp == 0, sequences / s.pp, sequences)
    for _ in range(_HALVINGS):
        part = where(part * new > s.micro_tokens, where(part % 2 == 0, part / 2.0, part), part)
    return where(s.micro_tokens > 0, where(s.pp > 1, sequences / part, 1.0), usual)


def pass_cost(
    work: Work, split: Split, machine: Machine, eff: Efficiencies, batch: Num, new: Num, cached_len: Num, decode: Num
) -> PassCost:
    """Time of one forward pass of ``batch`` sequences over ``new`` tokens each, ``cached_len`` tokens being cached.

    ``decode`` is 1 for a step of running sequences (MLA then works on its latent cache) and 0 for a prompt. A pipeline
    cuts the batch into as many micro-batches as it has stages, if there are so many sequences, or by ``Split.micro_tokens``.
    """
    w, s, m, e = work, split, machine, eff
    layers = -(-w.layers // s.pp) * s.pp  # the fullest stage binds
    per_rank = batch / s.dp
    micro = _micro_batches(s, per_rank, new)
    b = per_rank / micro / s.interleaved  # sequences that one replica takes through a layer together
    tokens = b * new
    n = layers * s.interleaved
    # kernels that send tokens of one micro-batch to experts run beside the products of the other, in a prompt
    free = where(s.interleaved > 1, where(decode > 0, 1.0, BESIDE_MESSAGES), 1.0)
    m = replace(m, peak_flops=m.peak_flops * free, half_peak_flops=m.half_peak_flops * free)
    rank = _Rank(w, s, m, e, n)
    # Attention: pairs of queries and keys, and one reading of keys and values
    end = cached_len + new
    full = _pairs(end, end) - _pairs(cached_len, cached_len)
    window = where(w.window > 0, w.window, end)
    near = _pairs(end, window) - _pairs(cached_len, window)
    pairs = where(decode > 0, w.far[1] * full + w.windowed * near, w.prompt_pairs(full, near)) + w.always * new
    seen = w.far[1] * end + w.windowed * minimum(end, window) + w.always
    rest = rank.rest(tokens, where(decode > 0, tokens, b), prompts=where(decode > 0, 0.0 * tokens, tokens))
    core = rank.attention(b * pairs, b * seen, decode, b)
    components = {"projections": rest.pop("projections"), "attention": core, **rest}
    parts = {name: c.time for name, c in components.items()}
    tensor, expert = _tensor_messages(w, s, m, e, tokens, n), _expert_messages(w, s, m, e, tokens, n, decode)
    sent = sum((x.time for x in expert), 0.0 * tokens)
    busy = sum(parts.values())
    exposed = where(s.interleaved > 1, maximum(0.0, sent - busy), sent)
    reduced = rank.exposed(sum((x.time for x in tensor), 0.0 * tokens), busy)
    count = (s.pp - 1.0) * s.interleaved
    given = {"bytes": count * tokens * w.hidden * ACTIVATION_BYTES, "bandwidth": m.pp_bandwidth * e.link}
    hops = Message("stage to stage", "eq-alpha-beta", given | {"latency": count * e.link_latency})
    layer = rank.layer_time(1.0)
    device = busy + exposed + reduced + hops.time + n * layer
    starts = {"layers": n, "layer_overhead": layer, "step_overhead": e.step_overhead}
    starts |= {"launch_time": where(decode > 0, e.launch_time, e.prompt_launch_time), "device_time": device}
    starts |= {"sequences": per_rank, "sequence_overhead": e.sequence_overhead}
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


@dataclass(frozen=True)
class MixedCost(Result):
    """A step of a server, which prompts and answers share: seconds by term, and what stands behind them."""

    components: dict[str, Component]  # attention of prompts and of answers apart
    messages: tuple[Message, ...]
    reduced: Num  # tensor-parallel messages, as far as nothing hides them
    sent: Num  # tokens to their experts and back
    starts: dict[str, Num]  # arguments of the overhead
    overhead: Num

    @property
    def time(self) -> Num:
        return sum(c.time for c in self.components.values()) + self.reduced + self.sent + self.overhead


def mixed_cost(
    work: Work,
    split: Split,
    machine: Machine,
    eff: Efficiencies,
    *,
    tokens: Num,
    sequences: Num,
    prompts: Num,
    pairs: Num,
    read: Num,
    decodes: Num,
    seen: Num,
) -> MixedCost:
    """Time of a step in which prompts and answers share the products: what :func:`pass_cost` is, for any mixture of both.

    ``tokens`` rows of the products and ``sequences`` rows of logits; ``pairs`` and ``read`` of the prompts' attention, and
    what the decoding sequences have ``seen``, averaged over layers with and without a window (``Work.far``). One stage, one replica.
    """
    w, s, m, e = work, split, machine, eff
    rank = _Rank(w, s, m, e, w.layers)
    some, first, running = minimum(1.0, tokens), minimum(1.0, prompts), minimum(1.0, decodes)
    components = rank.rest(tokens, sequences, some, maximum(0.0, tokens - decodes))
    prompted = first * maximum(0.0, tokens - decodes)
    components["prefill_attention"] = rank.attention(
        pairs + w.always * prompted, read + w.always * prompts, 0.0, prompts
    )
    seen = seen + w.always * decodes
    components["decode_attention"] = rank.attention(seen, seen, 1.0, decodes)
    busy = sum(c.time for c in components.values())
    # a step with prompts sends tokens to experts as prompts do
    tensor = _tensor_messages(w, s, m, e, tokens, w.layers, some)
    alone = where(prompts > 0, 0.0, 1.0)
    expert = _expert_messages(w, s, m, e, tokens, w.layers * some, alone, alone)
    reduced = rank.exposed(sum((x.time for x in tensor), 0.0 * tokens), busy)
    sent = sum((x.time for x in expert), 0.0 * tokens)
    layers = some * w.layers
    layer = rank.layer_time((first + running) / maximum(some, 1e-30))
    launch = first * e.prompt_launch_time + (some - first) * e.launch_time
    starts = {"layers": layers, "layer_overhead": layer, "step_overhead": some * e.step_overhead}
    starts |= {"launch_time": launch, "device_time": busy + reduced + sent + layers * layer}
    starts |= {"sequences": sequences, "sequence_overhead": e.sequence_overhead}
    return MixedCost(components, (*tensor, *expert), reduced, sent, starts, host_overhead(**starts))


def _tensor_messages(
    w: Work, s: Split, m: Machine, e: Efficiencies, tokens: Num, n: Num, some: Num = 1.0
) -> tuple[Message, ...]:
    """All-reduces of a layer's results: by a server's kernels inside a domain, else by the quickest protocol of a library."""
    if not is_array(s.tp) and s.tp <= 1:
        return ()
    count = some * w.all_reduces * n
    bytes = w.all_reduces * n * tokens * w.hidden * ACTIVATION_BYTES
    ways = _ways(m.plans)
    if ways and not is_array(ways[0][0]) and ways[0][0] < NO_PLAN:
        return planned_messages(ways, bytes, count)
    ways = ways if ways and is_array(ways[0][0]) else []
    planned = where(ways[0][0] < NO_PLAN, 1.0, 0.0) if ways else 0.0
    own = 1.0 - planned
    given = {"short_share": where(e.short_link > 0, e.short_link, e.link), "long_share": e.link}
    share = own * where(s.tp > m.tp_inside, 1.0, e.hop_share) * count
    given |= {"latency": share * e.link_latency, "switch_time": share * e.switch_time}
    inside = {"bytes": own * bytes, "ranks": m.tp_inside, "bandwidth": m.intra_bandwidth}
    found: tuple[Message, ...] = (Message("tp inside", "eq-switched-allreduce", inside | given),)
    if is_array(s.tp) or s.tp > m.tp_inside:
        across = {"bytes": own * bytes / m.tp_inside, "ranks": s.tp / m.tp_inside, "bandwidth": m.inter_bandwidth}
        found += (Message("tp across", "eq-switched-allreduce", across | given),)
    return found + (planned_messages(ways, planned * bytes, planned * count) if ways else ())


NO_PLAN = 1e9  # s of a call that no library makes: fills up the plans of rows that are taken together
_Way = tuple[Num, Num, Num, Num]


def _ways(plans: Any) -> list[_Way]:
    """The protocols one by one; of many machines at once they lie in an array, by machine, protocol and number."""
    if is_array(plans):
        count = plans.shape[-2] if plans.size else 0
        return [tuple(plans[..., i, j] for j in range(4)) for i in range(count)]
    return list(plans)


def alike_plans(plans: Sequence[Any], least: int = 0) -> list[Any]:
    """The plans of several machines with as many protocols each, at least so many, so that they can lie in one array."""
    most = max(map(len, plans), default=least)
    return [(*p, *[(NO_PLAN, 1.0, 1.0, 0.0)] * (max(most, least) - len(p))) for p in plans]


def planned_messages(plans: Any, bytes: Num, count: Num) -> tuple[Message, ...]:
    """So many all-reduces of so many bytes together by the quickest protocol: its calls and steps, and its bytes in chunks."""
    found: list[tuple[Message, Message]] = []
    for call, each, stages, chunk in _ways(plans):
        calls = {"bytes": 0.0 * bytes, "bandwidth": 1.0 / each, "latency": count * call}
        moved = {"bytes": bytes, "bandwidth": 1.0 / each, "stages": stages, "chunk_latency": count * chunk}
        found.append((Message("tp calls", "eq-alpha-beta", calls), Message("tp bytes", "eq-chunked-transfer", moved)))
    times = [one.time + other.time for one, other in found]
    if not any(map(is_array, times)):
        return min(zip(times, found, strict=True), key=lambda x: x[0])[1]
    least: Num = times[0]
    left: Num = 1.0
    kept: list[Message] = []
    for time in times[1:]:
        least = minimum(least, time)
    for (one, other), time in zip(found, times, strict=True):
        mine = left * where(time <= least, 1.0, 0.0)
        left = left - mine
        for x, names in ((one, ("latency",)), (other, ("bytes", "chunk_latency"))):
            kept.append(Message(x.name, x.label, x.arguments | {k: mine * x.arguments[k] for k in names}))
    return tuple(kept)


def _expert_messages(
    w: Work, s: Split, m: Machine, e: Efficiencies, tokens: Num, n: Num, decode: Num, either: Num = 0.0
) -> tuple[Message, ...]:
    """Tokens to their experts and back.

    In a prompt a token crosses the network once per domain that needs it and is copied there; in a decode step every
    copy goes straight to its device, which saves a hop (the two kinds of kernels of DeepEP). Straight is quicker for few
    rows, by domain for many: where a step may take ``either``, it takes the quicker. ``Split.every_copy`` holds it to one.
    """
    if not is_array(s.ep) and s.ep <= 1:
        return ()
    count = n * w.moe * where(s.ep > 1, 1.0, 0.0)
    domains = s.ep / m.ep_inside
    experts = maximum(maximum(1.0, w.n_experts), maximum(w.top_k, s.ep))

    def sent(every: float, latency: Num) -> tuple[Message, ...]:
        remote, local = collectives.copies_sent(experts, w.top_k, s.ep, m.ep_inside, 1.0 - every)
        given = {
            "tokens": tokens / s.tp,  # tensor-parallel ranks hold the same tokens and share the sending
            "remote_nodes": remote,
            "local_copies": local,
            "network_bandwidth": m.inter_bandwidth * e.link,
            "node_bandwidth": m.intra_bandwidth * e.link,
            "latency": count * latency,
        }
        return tuple(
            Message(name, "eq-moe-dispatch", given | {"token_bytes": count * routed_width(w) * width})
            for name, width in (("dispatch", s.dispatch_bytes), ("combine", ACTIVATION_BYTES))
        )

    first = where(domains > 1.0, maximum(e.network_start, e.link_latency), e.link_latency)
    straight, grouped = sent(1.0, first), sent(0.0, first)
    direct = decode
    if is_array(either) or either:
        twice = where(domains > 1.0, first + e.link_latency, first)  # over the network, then inside the domain
        gain = sum(x.time for x in sent(0.0, twice)) - sum(x.time for x in straight)
        direct = where(either > 0, where(gain > 0, 1.0, 0.0), decode)
    direct = where(s.every_copy >= 0, s.every_copy, direct)
    if not is_array(direct):
        return straight if direct > 0 else grouped
    return tuple(
        Message(x.name, x.label, {k: where(direct > 0, v, y.arguments[k]) for k, v in x.arguments.items()})
        for x, y in zip(straight, grouped, strict=True)
    )
