"""Inputs and outputs of a training step: work, layout, machine, efficiencies; seconds by term."""

from dataclasses import dataclass

from mlsysim._numeric import Num
from mlsysim.efficiencies import name_custom
from mlsysim.results import Result, Timed


@dataclass(frozen=True)
class Efficiencies:
    """How far software stays below datasheet rates. Fractions are of a peak or of a link.

    The defaults are the bound: printed rates, no traffic but that of the products, no overhead, and nothing hidden except
    gathered weights behind the arithmetic of their layer. Others without a name are called ``own``.
    """

    name: str = "bound"
    source: str = "every resource at its printed rate"
    gemm: Num = 1.0  # of the peak of the precision that the linear layers run in
    head: Num = 1.0  # of the 16-bit peak: the LM head stays 16-bit when the layers run in FP8
    attention: Num = 1.0  # of the 16-bit peak, forward
    memory: Num = 1.0  # of the memory bandwidth
    link: Num = 1.0  # of the link bandwidth, one way
    elementwise: Num = 0.0  # passes over a hidden-sized tensor per layer forward that no product does: norms, residuals
    layer_overhead: Num = 0.0  # s per layer and micro-batch that nothing hides: launches, synchronisation
    selective_recompute: Num = 0.0  # share of the products that selective recompute repeats with sharded weights
    tp_overlap: Num = 0.0  # share of tensor- and expert-parallel messages hidden behind products
    dp_overlap: Num = 0.0  # share of the last backward that gradient messages can hide behind
    joined: Num = 0.0  # of a rank's queries, those whose parts of the result are added up for each block from the ring
    hop_overhead: Num = 0.0  # s per layer, micro-batch and block from the ring that nothing hides: launches of its own
    cp_start: Num = 0.0  # s before the first byte of a context-parallel message or gathering
    ring_node_step: Num = 0.0  # s of a step of a ring, of context or of gathered weights, between devices of one domain
    ring_network_step: Num = 0.0  # s of such a step over the network
    variation: Num = 0.0  # standard deviation over mean of a device's time: a step waits for the slowest
    optimizer_bytes: Num = 30.0  # per local parameter: read gradient, master and moments, write them and the weight
    attention_backward: Num = 1.0  # of what attention reaches forward, its backward kernels
    attention_sharded: Num = 0.0  # of the 16-bit peak where weights are sharded: general kernels; 0: the same as others
    exponential: Num = 0.0  # 16-bit FLOP at the peak in the time of one exponential of the softmax; 0: they hide
    array: Num = (
        1.0  # numbers that a side of the matrix unit takes at a time: a narrower head leaves the rest of it idle
    )
    written: Num = 0.0  # share of what products write that no arithmetic hides
    cast_bytes: Num = 0.0  # read and written to bring one number to the format of the products; 0 in 16 bits
    loss_passes: Num = 0.0  # over 16-bit logits, of the loss and its gradient
    tile: Num = 0.0  # rows of a tile of an expert's products: fewer tokens than a few of these leave it half empty
    expert_overhead: Num = 0.0  # s per expert of the device, layer and micro-batch: launches of its own
    contention: Num = (
        0.0  # share of the time that hidden gatherings keep the device busy by which arithmetic gets longer
    )
    network: Num = 0.0  # of the bandwidth between domains; 0: the same share as of other links
    messengers: Num = (
        0.0  # share of a device's multiprocessors that messages take from products they run beside (DualPipe)
    )

    def __post_init__(self) -> None:
        name_custom(self)


# Efficiencies of a bound: every kernel at its roofline, nothing lost.
BOUND = Efficiencies()


@dataclass(frozen=True)
class Work(Result):
    """What a model asks for. Per layer and per token unless it says otherwise."""

    layers: Num
    hidden: Num
    dense_params: Num  # weights of the matrices that every token meets: attention, dense MLP, shared experts
    heads: Num
    qk_dim: Num  # size of a query (and key) of one head
    v_dim: Num
    kv_heads: Num
    head_params: Num  # weights of the LM head that a token is multiplied with
    embedding_params: Num  # of the whole model, the head included
    active_expert_params: Num = 0.0  # routed experts that one token meets
    expert_params: Num = 0.0  # all routed experts
    top_k: Num = 0.0  # experts that a token is sent to, on average over the layers
    last_params: Num = 0.0  # of dense_params: the matrix whose product is the layer's output
    width: Num = 0.0  # of a GPT block that keeps as many activations; the hidden size where not given
    inputs: Num = 0.0  # numbers that the products of a token read
    outputs: Num = 0.0  # numbers that they write
    experts: Num = 0.0  # routed experts of a layer, on average over the layers; 0 where they are not counted
    routing: Num = 1.0  # share of the layers that have them
    cut_mlp: Num = 1.0  # share of the layers with an MLP that every token meets: dense, or of shared experts
    routed_hidden: Num = 0.0  # numbers of a token that travel to experts; 0: the hidden size
    muon_flops: Num = 0.0  # of an iteration of Muon on all matrices of a layer but its routed experts
    muon_expert_flops: Num = 0.0  # and on those of its routed experts


@dataclass(frozen=True)
class Layout(Result):
    """How the step is split. Flags are 0 or 1, shares lie in between."""

    global_batch: Num
    seq: Num
    micro_batch: Num = 1.0
    tp: Num = 1.0
    pp: Num = 1.0
    cp: Num = 1.0
    dp: Num = 1.0
    ep: Num = 1.0  # expert-parallel ranks over folded ones: tp x ep cut the experts of a layer
    folded: Num = 1.0  # tensor-parallel ranks that groups of experts take in, so that experts stay whole
    virtual_stages: Num = 1.0
    sequence_parallel: Num = 1.0
    recompute_full: Num = 0.0
    recompute_selective: Num = 0.0
    weight_shards: Num = 1.0  # devices that share the weights (FSDP, ZeRO-3); 1: each has its own
    optimizer_shards: Num = 1.0
    keeps_gathered: Num = 0.0  # 1: gathered weights stay until the backward pass, in a pipeline until the step ends
    attended: Num = 0.0  # keys that a query meets on average: half the sequence when causal
    cp_gather: Num = 0.0  # keys and values are gathered at once, not passed round a ring
    weight_gradients: Num = 1.0  # 0 with frozen weights (LoRA)
    order: str = "tp-cp-ep-dp-pp"  # axes from neighbouring ranks outwards, as in Plan
    schedule: str = "1f1b"  # as in Plan, for all plans of an array alike, and so for the flags and the limit below
    cp_swap: bool = False  # tokens are swapped for heads (Ulysses)
    cp_contiguous: bool = False  # a context-parallel rank has one piece in a row
    node_limit: float = 0.0  # nodes that a token's experts may lie on; 0: any
    dispatch_bytes: Num = 2.0  # of a number on its way to an expert
    every_copy: Num = 0.0  # 1: a copy travels to every expert of a token, 0: one to every node that has some
    overlap_experts: bool = False  # messages to experts travel beside the products of another micro-batch
    repeated_products: Num = 0.0  # share of a layer's products that modules do again
    repeated_numbers: Num = 0.0  # of a token and layer, written and read again by modules
    moment_bytes: Num = 8.0  # of both moments of a parameter
    muon: bool = False
    offload_states: bool = False  # the optimizer's states lie in the host's memory
    offload_activations: Num = 0.0  # bytes of a layer and micro-batch that go to the host's memory and come back
    mtp: Num = 0.0  # modules for multi-token prediction that are trained, behind the last layer


# Fields of a layout that all plans of an array have in common.
SHARED_FIELDS = frozenset(
    ("order", "schedule", "cp_swap", "cp_contiguous", "node_limit", "overlap_experts", "muon", "offload_states"),
)


@dataclass(frozen=True)
class Machine(Result):
    """One device and its links, byte/s per device and one way."""

    peak_flops: Num
    half_peak_flops: Num  # of the 16-bit formats
    memory_bandwidth: Num
    intra_bandwidth: Num
    inter_bandwidth: Num
    domain: Num  # devices that intra_bandwidth joins
    host_bandwidth: Num = 0.0  # to the host's memory; 0: not known


@dataclass(frozen=True)
class StepTerms(Timed):
    """Seconds of one step by term; they sum to the step."""

    OF = "one training step"
    gemm: Num
    attention: Num
    elementwise: Num
    head: Num
    overhead: Num
    tensor_parallel: Num
    context_parallel: Num
    expert_parallel: Num
    weight_gather: Num
    pipeline_transfer: Num
    bubble: Num
    data_parallel: Num
    optimizer: Num
    straggler: Num
