"""What each kind of splitting costs: degrees, waiting in a pipeline by schedule, and bytes that a device sends."""

from mlsysim import collectives
from mlsysim._numeric import Num, maximum, minimum
from mlsysim.catalog import Sourced
from mlsysim.equations import AT_LEAST_ONE, COUNT, POSITIVE, equation

# A printed rule of thumb: how many times as long a step takes when tensor parallelism leaves its domain.
TP_PENALTY = Sourced(
    1.40, "1", "rooflinepage2026", "sec. 3.4", retrieved="2026-11-21", printed="a fixed 1.40x multiplier on the step"
)


@equation(
    "eq-parallel-degrees", formula="tp * pp * cp * dp", domain={"tp": COUNT, "pp": COUNT, "cp": COUNT, "dp": COUNT}
)
def devices(tp: Num, pp: Num, cp: Num, dp: Num) -> Num:
    """Devices of a job: every combination of the four degrees is one device.

    Formula: devices = TP x PP x CP x DP.

    Parameters
    ----------
    tp, pp, cp, dp : float or array, 1
        Tensor-, pipeline-, context- and data-parallel degree.

    Returns
    -------
    float or array, 1

    Assumptions: expert parallelism reuses data- and context-parallel ranks, so EP divides CP x DP and adds no factor.

    >>> devices(tp=8, pp=16, cp=1, dp=128)
    16384

    Source: grattafiori2024llama3, sec. 3.3.2.
    """
    return tp * pp * cp * dp


@equation(
    "eq-expert-replicas",
    formula="devices / (tp * pp * ep)",
    domain={"devices": COUNT, "tp": COUNT, "pp": COUNT, "ep": COUNT},
)
def expert_replicas(devices: Num, tp: Num, pp: Num, ep: Num) -> Num:
    """Ranks that hold a copy of the same expert, and average its gradients.

    Formula: expert replicas = devices / (TP x PP x EP) = CP x DP / EP.

    Parameters
    ----------
    devices : float or array, 1
        Devices of the job.
    tp, pp, ep : float or array, 1
        Tensor-, pipeline- and expert-parallel degree.

    Returns
    -------
    float or array, 1

    Assumptions: experts are cut by TP as the dense layers are. The source calls this number the data-parallel degree;
    that is so for the experts only.

    >>> expert_replicas(devices=2048, tp=1, pp=16, ep=64)
    2.0

    Source: reddi2026mathpage, sec. 2.4.
    """
    return devices / (tp * pp * ep)


@equation(
    "eq-micro-batches",
    formula="global_batch / (dp * micro_batch)",
    domain={"global_batch": COUNT, "dp": COUNT, "micro_batch": COUNT},
)
def micro_batches(global_batch: Num, dp: Num, micro_batch: Num) -> Num:
    """Micro-batches that each data-parallel replica works through in a step.

    Formula: m = B / (DP x b).

    Parameters
    ----------
    global_batch : float or array, 1
        Sequences per optimiser step.
    dp : float or array, 1
        Data-parallel degree.
    micro_batch : float or array, 1
        Sequences per micro-batch.

    Returns
    -------
    float or array, 1

    Assumptions: the batch divides evenly (:meth:`Plan.check` insists on it).

    >>> micro_batches(global_batch=2048, dp=128, micro_batch=1)
    16.0

    Source: narayanan2021megatron, sec. 3.1.
    """
    return global_batch / (dp * micro_batch)


@equation(
    "eq-scaling-efficiency", formula="compute / (compute + dp_time + tp_time + bubble)", domain={"compute": POSITIVE}
)
def scaling_efficiency(compute: Num, dp_time: Num, tp_time: Num, bubble: Num) -> Num:
    """Share of perfect scaling that is left when nothing hides the costs of splitting. Never above one.

    Formula: T_compute / (T_compute + T_DP + T_TP + T_bubble).

    Parameters
    ----------
    compute : float or array, s
        Computing time of a device per step: its share of the work at the speed of one device alone.
    dp_time, tp_time : float or array, s
        Data- and tensor-parallel communication that nothing hides.
    bubble : float or array, s
        Waiting in the pipeline.

    Returns
    -------
    float or array, 1

    Assumptions: the terms add up; hidden communication counts as zero.

    >>> scaling_efficiency(compute=8.0, dp_time=0.5, tp_time=0.5, bubble=1.0)
    0.8

    Source: reddi2026mathpage, sec. 2.1.
    """
    return compute / (compute + dp_time + tp_time + bubble)


@equation(
    "eq-tp-penalty",
    formula="step_time * (1 + leaves * (penalty - 1))",
    domain={"leaves": "[0, 1]", "penalty": AT_LEAST_ONE},
)
def penalised_step(step_time: Num, leaves: Num, penalty: Num) -> Num:
    """Step time with a fixed factor for tensor parallelism that leaves the scale-up domain: a rule of thumb.

    Formula: T x (1 + [TP leaves the domain] (penalty - 1)).

    Parameters
    ----------
    step_time : float or array, s
        Step time with all tensor-parallel traffic inside the domain.
    leaves : float or array, 1
        1 when a tensor-parallel group spans several domains, else 0 (``placement(...).leaves["tp"]``).
    penalty : float or array, 1
        The factor; :data:`TP_PENALTY` names the one that the source prints.

    Returns
    -------
    float or array, s

    Assumptions: the factor depends neither on the model nor on either link. Derive the cost instead where you can.

    >>> penalised_step(10.0, leaves=1, penalty=TP_PENALTY.value)
    14.0

    Source: narayanan2021megatron, sec. 3.2, tensor parallelism within a node; the fixed factor is rooflinepage2026, sec. 3.4.
    """
    return step_time * (1 + leaves * (penalty - 1))


@equation(
    "eq-pipeline-bubble",
    formula="(pp - 1 + (virtual_stages - 1) * max(0, pp - micro_batches)) / (virtual_stages * micro_batches + pp - 1 "
    "+ (virtual_stages - 1) * max(0, pp - micro_batches))",
    domain={"pp": COUNT, "micro_batches": COUNT, "virtual_stages": AT_LEAST_ONE},
)
def bubble_fraction(pp: Num, micro_batches: Num, virtual_stages: Num = 1) -> Num:
    """Share of the **whole** step in which a pipeline's device waits.

    Formula: u / (V m + u), where u = P - 1 + (V - 1) max(0, P - m).

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages (devices in the pipeline).
    micro_batches : float or array, 1
        Micro-batches per step.
    virtual_stages : float or array, 1
        Model chunks per device; 1 is plain 1F1B or GPipe. Where chunks are unequal: a device's work over that of the
        largest chunk, at most their number.

    Returns
    -------
    float or array, 1

    Assumptions: as for :func:`bubble_ratio`.

    >>> bubble_fraction(pp=4, micro_batches=57)
    0.05

    Source: reddi2026mathpage, sec. 2.3, here with interleaving.
    """
    waits = pp - 1 + (virtual_stages - 1) * maximum(0, pp - micro_batches)
    return waits / (virtual_stages * micro_batches + waits)


@equation(
    "eq-pipeline-bubble-ratio",
    formula="(pp - 1 + (virtual_stages - 1) * max(0, pp - micro_batches)) / (virtual_stages * micro_batches)",
    domain={"pp": COUNT, "micro_batches": COUNT, "virtual_stages": AT_LEAST_ONE},
)
def bubble_ratio(pp: Num, micro_batches: Num, virtual_stages: Num = 1) -> Num:
    """Waiting time of a pipeline's device over its **ideal** computing time.

    Formula: (P - 1 + (V - 1) max(0, P - m)) / (V m). With m >= P that is (P - 1) / (V m); with fewer, no step is shorter
    than P stage times, because one micro-batch must pass every chunk.

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages (devices in the pipeline).
    micro_batches : float or array, 1
        Micro-batches per step.
    virtual_stages : float or array, 1
        Model chunks per device; 1 is plain 1F1B or GPipe. Where chunks are unequal: a device's work over that of the
        largest chunk, at most their number.

    Returns
    -------
    float or array, 1

    Assumptions: equal chunks, dealt to the devices in turn; transfers between stages are hidden. No schedule waits less, and
    one attains it: all forward passes chunk by chunk, then all backward ones. Interleaved 1F1B attains it with less memory
    where m is a multiple of P, which Megatron asks for. Tied to :func:`bubble_fraction` by fraction = ratio / (1 + ratio).

    >>> bubble_ratio(pp=5, micro_batches=16)
    0.25
    >>> bubble_ratio(pp=16, micro_batches=1, virtual_stages=4)  # alone in the pipeline, however thin its chunks
    15.0

    Source: narayanan2021megatron, sec. 2.2, here also for fewer micro-batches than stages.
    """
    return (pp - 1 + (virtual_stages - 1) * maximum(0, pp - micro_batches)) / (virtual_stages * micro_batches)


@equation(
    "eq-pipeline-time",
    formula="micro_batches * slowest_stage + other_stages / virtual_stages + (1 - 1 / virtual_stages) * "
    "max(0 * other_stages, other_stages - (micro_batches - 1) * slowest_stage)",
    domain={"micro_batches": COUNT, "virtual_stages": AT_LEAST_ONE},
)
def pipeline_time(slowest_stage: Num, other_stages: Num, micro_batches: Num, virtual_stages: Num = 1) -> Num:
    """Time of a pipelined step, bound by its slowest stage.

    Formula: T = m t_slowest + t_others / V + (1 - 1/V) max(0, t_others - (m - 1) t_slowest). The last term is there when
    the pipeline has more stages than micro-batches: the first micro-batch comes round too late for the next chunk.

    Parameters
    ----------
    slowest_stage : float or array, s
        Forward and backward time of one micro-batch on the slowest stage.
    other_stages : float or array, s
        The same, summed over all the other stages.
    micro_batches : float or array, 1
        Micro-batches per step.
    virtual_stages : float or array, 1
        Model chunks per device.

    Returns
    -------
    float or array, s

    Assumptions: every stage splits its time between forward and backward in the same proportion; transfers are hidden;
    exact for GPipe and an upper bound for 1F1B; with V > 1 the stages are equal, and what :func:`bubble_ratio` says of
    schedules holds.

    >>> pipeline_time(slowest_stage=2.0, other_stages=6.0, micro_batches=8)
    22.0
    >>> pipeline_time(slowest_stage=1.0, other_stages=1.0, micro_batches=1, virtual_stages=100)
    2.0

    Source: narayanan2021megatron, sec. 2.2, here for unequal stages.
    """
    late = maximum(0 * other_stages, other_stages - (micro_batches - 1) * slowest_stage)
    return micro_batches * slowest_stage + other_stages / virtual_stages + (1 - 1 / virtual_stages) * late


@equation(
    "eq-zero-bubble",
    formula="(pp - 1) * max(0 * forward, forward + backward_input - backward_weight)",
    domain={"pp": COUNT},
)
def split_backward_bubble(pp: Num, forward: Num, backward_input: Num, backward_weight: Num) -> Num:
    """Waiting time when weight gradients are put off to fill the drain, at the memory of 1F1B (schedule ZB-H1).

    Formula: (P - 1) max(0, t_F + t_B - t_W).

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages.
    forward : float or array, s
        Forward time of one micro-batch on one stage.
    backward_input : float or array, s
        Time of the gradient of the stage's input, which the stage before waits for.
    backward_weight : float or array, s
        Time of the gradient of the weights, which nobody waits for.

    Returns
    -------
    float or array, s

    Assumptions: equal stages, hidden transfers, enough micro-batches. With twice the activations in flight (ZB-H2) the
    weight time counts twice and, for equal times, the bubble is gone.

    >>> split_backward_bubble(pp=8, forward=1.0, backward_input=1.0, backward_weight=1.0)
    7.0

    Source: qi2024zerobubble, table 2, ZB-H1.
    """
    return (pp - 1) * maximum(0 * forward, forward + backward_input - backward_weight)


@equation(
    "eq-zb-v",
    formula="(pp - 1) * max(backward_input / 2, backward_weight / 2, forward - backward_input / 2, max(forward, backward_input) - backward_weight)",
    domain={"pp": COUNT},
)
def v_shape_bubble(pp: Num, forward: Num, backward_input: Num, backward_weight: Num) -> Num:
    """Waiting time when every device has two chunks along a V and weight gradients fill what is left (schedule ZB-V).

    Formula: (P - 1) max(t_B / 2, t_W / 2, t_F - t_B / 2, max(t_F, t_B) - t_W).

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages: devices, with two half-stage chunks each.
    forward : float or array, s
        Forward time of one micro-batch on one stage, both chunks together.
    backward_input : float or array, s
        Time of the gradient of the stage's input.
    backward_weight : float or array, s
        Time of the gradient of the weights.

    Returns
    -------
    float or array, s

    Assumptions: 2 P - 1 micro-batches or more, the memory of 1F1B, and the fixed order that ``pipelines.timed`` runs, with an update
    that all devices begin together. Exact where the gradient of the input takes the longest of the three times; else too long
    by at most half of what it takes less than another.

    >>> v_shape_bubble(pp=8, forward=1.0, backward_input=1.0, backward_weight=1.0)
    3.5

    Source: sail2024zerobubble, README, comparison of schedules; for no bubble inside; the rest is read off the order as it runs.
    """
    chunk = maximum(maximum(backward_input, backward_weight) / 2, forward - backward_input / 2)
    return (pp - 1) * maximum(chunk, maximum(forward, backward_input) - backward_weight)


@equation(
    "eq-dualpipe",
    formula="(pp / 2 - 1) * max(0 * pair, pair + backward_input - 2 * backward_weight)",
    domain={"pp": "[2, inf)"},
)
def dualpipe_bubble(pp: Num, pair: Num, backward_input: Num, backward_weight: Num) -> Num:
    """Waiting time when micro-batches enter from both ends and a forward pass runs beside a backward pass (DualPipe).

    Formula: (P/2 - 1) max(0, t_FB + t_B - 2 t_W).

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages, an even number.
    pair : float or array, s
        Forward pass of one micro-batch and whole backward pass of another on one stage, run side by side.
    backward_input : float or array, s
        Time of the gradient of the stage's input alone. The source's B is the whole backward pass, this and the next.
    backward_weight : float or array, s
        Time of the gradient of the weights.

    Returns
    -------
    float or array, s

    Assumptions: at least twice as many micro-batches as stages; transfers hidden; exact where t_B = t_W. Of every m pairs,
    P + 1 do not run side by side: their messages stay in sight.

    >>> dualpipe_bubble(pp=8, pair=3.0, backward_input=1.0, backward_weight=1.0)
    6.0

    Source: deepseek2024v3report, table 2, DualPipe.
    """
    return (pp / 2 - 1) * maximum(0 * pair, pair + backward_input - 2 * backward_weight)


@equation("eq-tp-message", formula="all_reduces * layers * seq * micro_batch * hidden * element_bytes")
def tp_allreduce_bytes(
    seq: Num, micro_batch: Num, hidden: Num, layers: Num, all_reduces: Num = 4, element_bytes: Num = 2
) -> Num:
    """Activations that tensor parallelism adds up over its group, for one micro-batch.

    Formula: M = n_AR L s b h x bytes per element.

    Parameters
    ----------
    seq : float or array, 1
        Tokens per sequence (on this rank, with context parallelism).
    micro_batch : float or array, 1
        Sequences per micro-batch.
    hidden : float or array, 1
        Width of the residual stream.
    layers : float or array, 1
        Layers on the device.
    all_reduces : float or array, 1
        Per layer: 2 forward and 2 backward; 6 when full recompute runs the forward again. Halves of an all-reduce, as
        sequence parallelism uses them, come in as many pairs.
    element_bytes : float or array, byte
        Size of an activation: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: a layer has one attention and one MLP block in sequence; embedding and loss are left out. Through
    eq-ring-allreduce it gives eq-tp-allreduce, where latency is counted as well.

    >>> tp_allreduce_bytes(seq=2048, micro_batch=1, hidden=12288, layers=1)
    201326592

    Source: shoeybi2019megatron, sec. 3.
    """
    return all_reduces * layers * collectives.activation_bytes(seq, micro_batch, hidden, element_bytes)


@equation("eq-tp-volume", formula="2 * message * (tp - 1) / tp", domain={"tp": COUNT})
def tp_volume(message: Num, tp: Num) -> Num:
    """Bytes each device of a tensor-parallel group sends to have a message added up over the group.

    Formula: 2 M (TP - 1) / TP.

    Parameters
    ----------
    message : float or array, byte
        What is to be added up, as from :func:`tp_allreduce_bytes`.
    tp : float or array, 1
        Tensor-parallel degree.

    Returns
    -------
    float or array, byte

    Assumptions: a reduce-scatter and an all-gather, each of which moves (TP - 1)/TP of the message: the bytes that
    eq-ring-allreduce divides by a bandwidth. With sequence parallelism the two stand apart and move the same.

    >>> tp_volume(message=1e9, tp=8)
    1750000000.0

    Source: narayanan2021megatron, sec. 3.2.
    """
    return 2 * message * (tp - 1) / tp


@equation(
    "eq-cp-exchange",
    formula="passes * tensors * layers * seq * micro_batch * kv_heads * head_dim * element_bytes * (cp - 1) / cp",
    domain={"cp": AT_LEAST_ONE},
)
def cp_exchange_bytes(
    seq: Num,
    micro_batch: Num,
    kv_heads: Num,
    head_dim: Num,
    layers: Num,
    cp: Num,
    passes: Num = 3,
    tensors: Num = 2,
    element_bytes: Num = 2,
) -> Num:
    """Keys and values that each device of a context-parallel group sends, for one micro-batch.

    Formula: 3 x 2 L s b H_kv d x bytes per element x (CP - 1) / CP.

    Parameters
    ----------
    seq : float or array, 1
        Tokens of the whole sequence, before it is cut.
    micro_batch : float or array, 1
        Sequences per micro-batch.
    kv_heads : float or array, 1
        Key and value heads on the device (after tensor parallelism).
    head_dim : float or array, 1
        Size of one head.
    layers : float or array, 1
        Layers on the device.
    cp : float or array, 1
        Context-parallel degree.
    passes : float or array, 1
        1 forward, and 2 backward: the blocks again, and their gradients.
    tensors : float or array, 1
        2: keys and values.
    element_bytes : float or array, byte
        Size of an element: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: every block visits every device, whether the causal mask needs it or not, in CP - 1 hops of equal size. An
    all-gather of keys and values moves the same bytes; what differs is the link that they get and what hides them.

    >>> cp_exchange_bytes(seq=131072, micro_batch=1, kv_heads=1, head_dim=128, layers=1, cp=16)
    188743680.0

    Source: liu2023ring, sec. 3.
    """
    return passes * tensors * layers * seq * micro_batch * kv_heads * head_dim * element_bytes * (cp - 1) / cp


@equation(
    "eq-causal-imbalance",
    formula="(2 * pieces - 1) / pieces",
    domain={"pieces": AT_LEAST_ONE},
)
def causal_imbalance(pieces: Num) -> Num:
    """How much longer the device with the last tokens works than the mean, when each has one piece in a row.

    Formula: (2 CP - 1) / CP.

    Parameters
    ----------
    pieces : float or array, 1
        Pieces of the sequence, one a device.

    Returns
    -------
    float or array, 1

    Assumptions: a causal mask and a long sequence; attention alone. With an early and a late piece for each device (zig-zag)
    the work is equal and the factor 1.

    >>> causal_imbalance(4)
    1.75

    Source: megatron2026cp, context_parallel package; for the balance; the factor is counted in the chapter.
    """
    return (2 * pieces - 1) / pieces


@equation(
    "eq-ulysses",
    formula="layers * seq * micro_batch * (heads * (qk_dim + v_dim) + max(kv_heads, cp) * (qk_dim + v_dim)) * element_bytes "
    "* (cp - 1) / cp**2",
    domain={"cp": AT_LEAST_ONE},
)
def ulysses_bytes(
    seq: Num,
    micro_batch: Num,
    heads: Num,
    kv_heads: Num,
    qk_dim: Num,
    v_dim: Num,
    layers: Num,
    cp: Num,
    element_bytes: Num = 2,
) -> Num:
    """What a device sends in a forward pass to swap tokens for heads before attention, and back after it (Ulysses).

    Formula: L s b (H (d_qk + d_v) + max(H_kv, CP) (d_qk + d_v)) e (CP - 1) / CP^2.

    Parameters
    ----------
    seq : float or array, 1
        Tokens of the whole sequence, before it is cut.
    micro_batch : float or array, 1
        Sequences per micro-batch.
    heads, kv_heads : float or array, 1
        Query heads and key-value heads on the device before the swap (after tensor parallelism). With fewer key-value heads
        than devices they are copied, so that everyone has one.
    qk_dim, v_dim : float or array, 1
        Size of a query or key, and of a value or result, of one head.
    layers : float or array, 1
        Layers on the device.
    cp : float or array, 1
        Context-parallel degree, which divides the heads.
    element_bytes : float or array, byte
        Size of an element: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: queries, keys, values and results each once; a backward pass sends as much. For equal heads the four tensors
    of the source, 4 N h / P, less the part that stays.

    >>> ulysses_bytes(seq=8192, micro_batch=1, heads=32, kv_heads=32, qk_dim=128, v_dim=128, layers=1, cp=8)
    29360128.0

    Source: jacobs2023ulysses, sec. 3.2 (communication analysis).
    """
    each = (heads + maximum(kv_heads, cp)) * (qk_dim + v_dim)
    return layers * seq * micro_batch * each * element_bytes * (cp - 1) / cp**2


@equation(
    "eq-node-limit",
    formula="min(limit, nodes) * (1 - (1 - 1 / min(limit, nodes))**top_k) * (nodes - 1) / nodes",
    domain={"nodes": AT_LEAST_ONE, "limit": AT_LEAST_ONE},
)
def limited_nodes(top_k: Num, nodes: Num, limit: Num) -> Num:
    """Other nodes that a token travels to on average, when the router may choose experts on so many nodes only.

    Formula: M (1 - (1 - 1/M)^k) (n - 1) / n, with M = min(limit, n).

    Parameters
    ----------
    top_k : float or array, 1
        Experts of a token.
    nodes : float or array, 1
        Nodes that the experts lie on.
    limit : float or array, 1
        Nodes that a token's experts may lie on.

    Returns
    -------
    float or array, 1

    Assumptions: the allowed nodes are chosen evenly among all, and the experts evenly among those; a token travels once to a
    node, however many of its experts are there, and not at all to its own. Without a limit, and with
    many experts on a node, it is ``collectives.places_reached`` without the own node.

    >>> round(limited_nodes(top_k=8, nodes=8, limit=4), 2), round(limited_nodes(8, 8, 8), 2)
    (3.15, 4.59)

    Source: deepseek2024v3report, sec. 2.1.2 and 3.2.2; for the rule; the mean is derived in the chapter.
    """
    among = minimum(limit, nodes)
    return among * (1 - (1 - 1 / among) ** top_k) * (nodes - 1) / nodes


@equation(
    "eq-pp-transfer",
    formula="directions * virtual_stages * micro_batches * seq * micro_batch * hidden * element_bytes / shards",
    domain={"shards": COUNT},
)
def pp_transfer_bytes(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    micro_batches: Num,
    virtual_stages: Num = 1,
    shards: Num = 1,
    directions: Num = 2,
    element_bytes: Num = 2,
) -> Num:
    """Bytes that a device in the middle of a pipeline sends to its neighbours in a step.

    Formula: 2 V m s b h x bytes per element / shards.

    Parameters
    ----------
    seq : float or array, 1
        Tokens per sequence (on this rank, with context parallelism).
    micro_batch : float or array, 1
        Sequences per micro-batch.
    hidden : float or array, 1
        Width of the residual stream.
    micro_batches : float or array, 1
        Micro-batches per step.
    virtual_stages : float or array, 1
        Model chunks per device: each ends in a transfer.
    shards : float or array, 1
        TP when each rank of a tensor-parallel group sends its own part, else 1.
    directions : float or array, 1
        2: activations forward and their gradients backward.
    element_bytes : float or array, byte
        Size of an activation: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: the ends of the pipeline send less; a pipeline of one stage sends nothing (do not ask it).

    >>> pp_transfer_bytes(seq=2048, micro_batch=1, hidden=12288, micro_batches=192, shards=8)
    2415919104.0

    Source: narayanan2021megatron, sec. 4.1.
    """
    activations = collectives.activation_bytes(seq, micro_batch, hidden, element_bytes)
    return directions * virtual_stages * micro_batches * activations / shards


@equation(
    "eq-fsdp-gather",
    formula="micro_batches * parameters * (gathers * element_bytes + grad_bytes) * (ranks - 1) / ranks",
    domain={"ranks": COUNT},
)
def fsdp_bytes(
    parameters: Num, ranks: Num, micro_batches: Num = 1, gathers: Num = 2, element_bytes: Num = 2, grad_bytes: Num = 2
) -> Num:
    """Bytes each device moves in a step when the weights themselves are sharded (ZeRO-3, FSDP).

    Formula: m N (2 x weight bytes + gradient bytes) (n - 1) / n.

    Parameters
    ----------
    parameters : float or array, 1
        Parameters that are cut over the ranks (the model's, over TP and PP).
    ranks : float or array, 1
        Ranks that share one copy.
    micro_batches : float or array, 1
        Micro-batches per step, when each gathers and reduces anew.
    gathers : float or array, 1
        All-gathers per micro-batch: 2 (forward, and again backward), or 1 when weights are kept in between.
    element_bytes, grad_bytes : float or array, byte
        Size of a gathered weight and of a reduced gradient: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: every rank needs every weight; nothing is cached between micro-batches.

    >>> fsdp_bytes(parameters=8e9, ranks=8)
    42000000000.0

    Source: rajbhandari2020zero, sec. 7.2.2.
    """
    return micro_batches * parameters * (gathers * element_bytes + grad_bytes) * (ranks - 1) / ranks


@equation("eq-dp-gradients", formula="parameters * grad_bytes / (tp * pp)", domain={"tp": COUNT, "pp": COUNT})
def dp_gradient_bytes(parameters: Num, tp: Num, pp: Num, grad_bytes: Num = 4) -> Num:
    """Gradients that a device adds up over its data-parallel group, once per step.

    Formula: M = N x bytes per gradient / (TP x PP).

    Parameters
    ----------
    parameters : float or array, 1
        Parameters of the model.
    tp, pp : float or array, 1
        Tensor- and pipeline-parallel degree: a device holds the gradients of its own share only.
    grad_bytes : float or array, byte
        Size of a gradient as it is reduced: 4 in FP32, 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: stages of equal size; experts are cut further, by EP.

    >>> dp_gradient_bytes(parameters=175e9, tp=8, pp=16)
    5468750000.0

    Source: narayanan2021megatron, sec. 3.3.
    """
    return parameters * grad_bytes / (tp * pp)
