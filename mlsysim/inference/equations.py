"""The closed forms of serving: the prompt pass, the decode step, and what a request sees of both."""

import math

from mlsysim._numeric import Num, maximum, minimum, where
from mlsysim.equations import AT_LEAST_ONE, FRACTION, POSITIVE, equation


@equation(
    "eq-prefill-flops",
    formula="flops_per_mac * batch * (layer_parameters * (input_len - cached_len) + head_parameters "
    "+ attention_width * (input_len - cached_len) * (input_len + cached_len + 1) / 2)",
    relations=("cached_len <= input_len",),
)
def prefill_flops(
    batch: Num,
    input_len: Num,
    layer_parameters: Num,
    head_parameters: Num,
    attention_width: Num,
    cached_len: Num = 0.0,
    flops_per_mac: Num = 2.0,
) -> Num:
    """Work of the prompt pass: matrices, one row of logits per sequence, and causal attention.

    Formula: F = 2 b (N_layers (s - p) + N_head + w (s - p)(s + p + 1) / 2), with w = L H (d_qk + d_v).

    Parameters
    ----------
    batch : float or array, 1
        Sequences b.
    input_len : float or array, 1
        Tokens s of the prompt.
    layer_parameters, head_parameters : float or array, 1
        Weights that one token meets in all layers, and in the LM head, which only the last token of the prompt needs.
    attention_width : float or array, 1
        Multiply-accumulates of one query with one key and its value: layers x heads x (query size + value size).
    cached_len : float or array, 1
        Leading tokens p whose keys and values are already cached, at most s.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: full causal attention in every layer; a query sees itself and all that precede it.

    >>> prefill_flops(1, 2048, 7.0e9, 0.5e9, 32 * 32 * 256) / 1e12  # attention is 3.7 % of it
    29.773048498688

    Source: pope2023inference, inference cost tradeoffs; 2 N per token; the causal core is eq-attention-flops.
    """
    new = input_len - cached_len
    pairs = new * (input_len + cached_len + 1) / 2
    return flops_per_mac * batch * (layer_parameters * new + head_parameters + attention_width * pairs)


@equation(
    "eq-ttft",
    formula="flops / (devices * peak_flops * efficiency) + overhead",
    domain={"peak_flops": POSITIVE, "devices": AT_LEAST_ONE, "efficiency": "(0, 1]"},
)
def time_to_first_token(
    flops: Num, peak_flops: Num, devices: Num = 1.0, efficiency: Num = 1.0, overhead: Num = 0.0
) -> Num:
    """Time to the first token of a compute-bound prompt pass.

    Formula: TTFT = F / (n P eta) + T_overhead.

    Parameters
    ----------
    flops : float or array, FLOP
        Work of the prompt pass, as from :func:`prefill_flops`.
    peak_flops : float or array, FLOP/s
        Dense peak of one device.
    devices : float or array, 1
        Devices that share the work without loss.
    efficiency : float or array, 1
        Share of the peak that is reached; 1 gives the bound.
    overhead : float or array, s
        What the host and the messages add.

    Returns
    -------
    float or array, s

    Assumptions: the pass is compute-bound and nothing waits in a queue.

    >>> time_to_first_token(100e12, 1000e12, efficiency=0.5)
    0.2

    Source: reddi2026mathpage, sec. 3.1.
    """
    return flops / (devices * peak_flops * efficiency) + overhead


@equation(
    "eq-experts-hit",
    formula="experts * (1 - (1 - top_k / experts) ** tokens)",
    domain={"experts": AT_LEAST_ONE},
    relations=("top_k <= experts",),
)
def experts_hit(experts: Num, top_k: Num, tokens: Num) -> Num:
    """Expected number of different experts that a batch of tokens meets in one layer.

    Formula: E_hit = E (1 - (1 - k / E)^T).

    Parameters
    ----------
    experts : float or array, 1
        Routed experts E of the layer.
    top_k : float or array, 1
        Experts k per token, at most E.
    tokens : float or array, 1
        Tokens T that are routed together.

    Returns
    -------
    float or array, 1

    Assumptions: every token picks k different experts, each set equally likely, independently of other tokens. Real
    routing is uneven and hits fewer.

    >>> experts_hit(8, 2, 1), experts_hit(8, 2, 2)
    (2.0, 3.5)

    Source: jiang2024mixtral, sec. 2.1; for the routing; the expectation is derived in the chapter.
    """
    missed = (1 - top_k / experts) ** tokens
    return experts * (1 - missed)


@equation("eq-decode-bytes", formula="weight_bytes + batch * context * token_bytes")
def decode_bytes(weight_bytes: Num, batch: Num, context: Num, token_bytes: Num) -> Num:
    """What one decode step reads: the weights once, and the cache of every sequence.

    Formula: M = W + b c kappa.

    Parameters
    ----------
    weight_bytes : float or array, byte
        Weights that the step meets: all but the input embedding, and of the experts those that are hit.
    batch : float or array, 1
        Sequences b that decode together.
    context : float or array, 1
        Cached tokens c per sequence.
    token_bytes : float or array, byte
        Cache of one token over all layers.

    Returns
    -------
    float or array, byte

    Assumptions: weights are read once for the whole batch; activations stay on the chip.

    >>> decode_bytes(16e9, batch=8, context=1000, token_bytes=131072) / 1e9
    17.048576

    Source: pope2023inference, inference cost tradeoffs.
    """
    return weight_bytes + batch * context * token_bytes


@equation(
    "eq-itl",
    formula="max(bytes / (devices * memory_bandwidth), flops / (devices * peak_flops)) + overhead",
    domain={"memory_bandwidth": POSITIVE, "peak_flops": POSITIVE, "devices": AT_LEAST_ONE},
)
def inter_token_latency(
    bytes: Num, flops: Num, memory_bandwidth: Num, peak_flops: Num, devices: Num = 1.0, overhead: Num = 0.0
) -> Num:
    """Time of one decode step, which is the time between two tokens of a sequence.

    Formula: ITL = max(M / (n BW), F / (n P)) + T_overhead.

    Parameters
    ----------
    bytes : float or array, byte
        Weights and cache that the step reads, as from :func:`decode_bytes`.
    flops : float or array, FLOP
        Its work: about 2 N per sequence.
    memory_bandwidth : float or array, byte/s
        Of one device.
    peak_flops : float or array, FLOP/s
        Dense peak of one device.
    devices : float or array, 1
        Devices that share the bytes and the work without loss.
    overhead : float or array, s
        What the host and the messages add.

    Returns
    -------
    float or array, s

    Assumptions: one maximum over the whole step; the solver takes it component by component, which is never less.

    >>> inter_token_latency(140e9, 140e9, 3.35e12, 989e12, devices=2)
    0.020895522388059702

    Source: reddi2026mathpage, sec. 3.2; it has the memory term alone.
    """
    return maximum(bytes / (devices * memory_bandwidth), flops / (devices * peak_flops)) + overhead


@equation(
    "eq-decode-batch-crossover",
    formula="weight_bytes / (flops_per_token * memory_bandwidth / peak_flops - cache_bytes)"
    " if flops_per_token * memory_bandwidth / peak_flops > cache_bytes else inf",
    domain={"memory_bandwidth": POSITIVE, "peak_flops": POSITIVE, "flops_per_token": POSITIVE},
    may_be_infinite=True,
)
def decode_batch_crossover(
    weight_bytes: Num, flops_per_token: Num, cache_bytes: Num, memory_bandwidth: Num, peak_flops: Num
) -> Num:
    """Batch from which on the arithmetic of a decode step, or of a part of it, takes longer than its traffic.

    Formula: b* = W / (F BW / P - kappa c) where that is positive, and infinite where it is not.

    Parameters
    ----------
    weight_bytes : float or array, byte
        Weights that are read once for the whole batch.
    flops_per_token : float or array, FLOP
        Work of one sequence in one step: 2 per weight for the products, with attention for a step as a whole.
    cache_bytes : float or array, byte
        Cache of one sequence at this context for a step as a whole; 0 for its products with weights, which read none.
    memory_bandwidth : float or array, byte/s
    peak_flops : float or array, FLOP/s
        Dense peak.

    Returns
    -------
    float or array, 1
        Infinite when reading the cache of one more sequence takes as long as computing its token, or longer: then the
        arithmetic never overtakes the traffic, however large the batch.

    Assumptions: every weight is read whatever the batch (no experts are skipped). For a step as a whole also those of
    eq-itl: one maximum for all of it. The products alone cross over whatever the context.

    >>> round(decode_batch_crossover(16e9, 16e9, 0, 3.35e12, 989.4e12))
    295
    >>> decode_batch_crossover(16e9, 16e9, 1e9, 3.35e12, 989.4e12)
    inf

    Source: pope2023inference, inference cost tradeoffs; weights are shared by the batch, the cache is not.
    """
    left = flops_per_token * memory_bandwidth / peak_flops - cache_bytes
    return where(left > 0, weight_bytes / where(left > 0, left, 1.0), math.inf)


@equation(
    "eq-host-overhead",
    formula="step_overhead + sequences * sequence_overhead + layers * layer_overhead"
    " + max(0, layers * launch_time - device_time)",
)
def host_overhead(
    layers: Num,
    layer_overhead: Num,
    step_overhead: Num = 0.0,
    launch_time: Num = 0.0,
    device_time: Num = 0.0,
    sequences: Num = 0.0,
    sequence_overhead: Num = 0.0,
) -> Num:
    """What a pass takes beyond its work: a part per pass, sequence and layer, and launches that the device waits for.

    Formula: T = t_step + b t_seq + L t_layer + max(0, L t_launch - T_device).

    Parameters
    ----------
    layers : float or array, 1
        Layers that the pass goes through; tensor parallelism does not divide them.
    layer_overhead : float or array, s
        Start and tail of the kernels of one layer, on the device.
    step_overhead : float or array, s
        Scheduler, sampling, detokenising: what stands between two passes.
    launch_time : float or array, s
        Time of the host to launch the kernels of one layer. Launches run ahead of the device, which waits only when it
        is the faster of the two; a captured graph needs none.
    device_time : float or array, s
        Time of the pass on the device, its kernels' starts and tails included.
    sequences : float or array, 1
        Sequences b of the pass.
    sequence_overhead : float or array, s
        What the host does for each of them in turn: choosing it, sampling its token, handing it on.

    Returns
    -------
    float or array, s

    Assumptions: every device of a tensor-parallel group launches the same kernels, so their number stays.

    >>> host_overhead(80, 50e-6), host_overhead(80, 0, launch_time=400e-6, device_time=0.012)
    (0.004, 0.02)

    Source: fernandez2023framework, execution bound by the framework; that launches run ahead and count layers is derived in the chapter.
    """
    host = step_overhead + sequences * sequence_overhead
    return host + layers * layer_overhead + maximum(0, layers * launch_time - device_time)


@equation("eq-layer-starts", formula="kernels * kernel_start + grouped * grouped_start + attentions * attention_start")
def layer_starts(
    kernels: Num, kernel_start: Num, grouped: Num, grouped_start: Num, attentions: Num, attention_start: Num
) -> Num:
    """What the kernels of one layer take to start and to end, however little they work on.

    Formula: t_layer = k t_k + g t_g + a t_a.

    Parameters
    ----------
    kernels : float or array, 1
        Kernels k of the layer: products, norms, the rotation, the write into the cache, the activation.
    kernel_start : float or array, s
        Time of such a kernel with the smallest work of its table.
    grouped : float or array, 1
        Grouped products g of experts.
    grouped_start : float or array, s
    attentions : float or array, 1
        Attention kernels a: one, or two where prompts and answers share a step.
    attention_start : float or array, s

    Returns
    -------
    float or array, s

    Assumptions: one kernel after the other, and no start hides behind the kernel before.

    >>> round(layer_starts(9, 4e-6, 0, 0.0, 1, 17e-6) * 1e6)  # us
    53

    Source: fernandez2023framework, execution bound by the framework; that it counts kernels is derived in the chapter.
    """
    return kernels * kernel_start + grouped * grouped_start + attentions * attention_start


@equation("eq-unpack", formula="operations / vector_flops", domain={"vector_flops": POSITIVE})
def unpack_time(operations: Num, vector_flops: Num) -> Num:
    """Time to make a number of a stored weight that is narrower than the product's operands.

    Formula: t_unpack = f / V.

    Parameters
    ----------
    operations : float or array, FLOP
        Vector operations f per weight: taking the zero point off and multiplying with the scale are two.
    vector_flops : float or array, FLOP/s
        Rate V of the vector units, which the products' units do not help.

    Returns
    -------
    float or array, s

    Assumptions: nothing hides it, and the weight is unpacked once for the whole batch.

    >>> unpack_time(2.0, 19.5e12) * 7e9 < 1e-3  # seven billion weights on an A100
    True

    Source: lin2024awq, sec. 4.2; dequantisation by vector units; the count is derived in the chapter.
    """
    return operations / vector_flops


@equation(
    "eq-cache-readings", formula="1 + ungrouped * (group - 1)", domain={"group": AT_LEAST_ONE, "ungrouped": "[0, 1]"}
)
def cache_readings(group: Num, ungrouped: Num = 0.0) -> Num:
    """How often decode attention reads the cache of a key-value head.

    Formula: r = 1 + u (g - 1).

    Parameters
    ----------
    group : float or array, 1
        Query heads g of a device that share the key-value head.
    ungrouped : float or array, 1
        Share u of the others that read it again: 0 for kernels that work on a group together.

    Returns
    -------
    float or array, 1

    Assumptions: what one head has read is found in the cache of the chip by a share 1 - u of the others.

    >>> cache_readings(8.0), cache_readings(8.0, 1.0)
    (1.0, 8.0)

    Source: ainslie2023gqa, sec. 2.2; sharing saves reading only where the kernel shares it.
    """
    return 1 + ungrouped * (group - 1)


@equation(
    "eq-switched-allreduce",
    formula="2 * min(min(1, ranks - 1) * latency + (ranks - 1) / ranks * bytes / (short_share * bandwidth),"
    " min(1, ranks - 1) * (latency + switch_time) + (ranks - 1) / ranks * bytes / (long_share * bandwidth))",
    domain={
        "ranks": AT_LEAST_ONE,
        "bandwidth": POSITIVE,
        "short_share": FRACTION,
        "long_share": FRACTION,
    },
)
def switched_all_reduce(
    bytes: Num,
    ranks: Num,
    bandwidth: Num,
    latency: Num = 0.0,
    short_share: Num = 1.0,
    long_share: Num = 1.0,
    switch_time: Num = 0.0,
) -> Num:
    """All-reduce of a library with two protocols: one that starts at once, and one that moves bytes faster.

    Formula: T = 2 min(alpha + (N - 1)/N M/(x_s BW), alpha + t_switch + (N - 1)/N M/(x_l BW)) (nothing for N = 1).

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Cost of one of the two steps, whatever its size.
    short_share, long_share : float or array, 1
        Share of the bandwidth that each protocol reaches.
    switch_time : float or array, s
        What the faster protocol takes more to start a step.

    Returns
    -------
    float or array, s

    Assumptions: the library knows the better of the two for every size; both send the bytes of eq-direct-allreduce.

    >>> round(switched_all_reduce(1e6, 8, 300e9, 5e-6, 0.1, 0.8, 50e-6) * 1e6, 1)  # us; the long protocol alone takes 117.3
    68.3

    Source: nccl2026tuning, function ncclTopoTuneModel; latency and bandwidth by protocol; the two straight lines are ours.
    """
    apart, part = minimum(1, ranks - 1), (ranks - 1) / ranks * bytes / bandwidth
    short = apart * latency + part / short_share
    long = apart * (latency + switch_time) + part / long_share
    return 2 * minimum(short, long)


@equation("eq-request-latency", formula="ttft + (output_len - 1) * itl", domain={"output_len": AT_LEAST_ONE})
def request_latency(ttft: Num, output_len: Num, itl: Num) -> Num:
    """Latency of a whole answer: the prompt pass makes its first token, a decode step each of the others.

    Formula: E2E = TTFT + (n - 1) ITL.

    Parameters
    ----------
    ttft : float or array, s
        Time to the first token.
    output_len : float or array, 1
        Tokens n of the answer, at least 1.
    itl : float or array, s
        Mean time between tokens.

    Returns
    -------
    float or array, s

    Assumptions: the batch stays together from the first token to the last.

    >>> request_latency(0.5, 101, 0.02)
    2.5

    Source: patel2024splitwise, abstract, the two phases; the sum is derived in the chapter.
    """
    return ttft + (output_len - 1) * itl


@equation("eq-quantised-bits", formula="bits + scale_bits / group", domain={"bits": POSITIVE, "group": AT_LEAST_ONE})
def quantised_bits(bits: Num, scale_bits: Num, group: Num) -> Num:
    """Bits that a weight really takes in a format with a scale per group of weights.

    Formula: bits = b + b_scale / g.

    Parameters
    ----------
    bits : float or array, 1
        Bits of one element.
    scale_bits : float or array, 1
        Bits of what a group shares: a scale, and a zero point where there is one.
    group : float or array, 1
        Weights in a group.

    Returns
    -------
    float or array, 1

    Assumptions: no padding. Weights that stay in 16 bits (embedding, head, norms) are counted apart.

    >>> quantised_bits(4, 8, 32), quantised_bits(4, 32, 32)  # MXFP4; int4 with a 16-bit scale and zero per 32
    (4.25, 5.0)

    Source: ocp2023mx, concrete MX formats: blocks of 32, scale of 8 bits.
    """
    return bits + scale_bits / group
