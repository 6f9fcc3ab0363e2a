"""The closed forms of one serving step: what runs, how long each kernel starts, and how the parts add up."""

from mlsysim._numeric import Num, maximum
from mlsysim.equations import POSITIVE, equation

_SHARE = "[0, 1]"
_TERMS = (
    "projections",
    "mlp",
    "experts",
    "head",
    "prefill_attention",
    "decode_attention",
    "elementwise",
    "messages",
    "overhead",
)


@equation("eq-fused-width", formula="(heads / tp + 2 * max(1, kv_heads / tp)) * head_dim", domain={"tp": "[1, inf)"})
def fused_width(heads: Num, kv_heads: Num, head_dim: Num, tp: Num = 1.0) -> Num:
    """Columns of the one product that makes queries, keys and values, on one rank.

    Formula: n = (H / t + 2 max(1, H_kv / t)) d_h.

    Parameters
    ----------
    heads, kv_heads : float or array, 1
        Query heads and key-value heads of the layer.
    head_dim : float or array, 1
        Size of a head.
    tp : float or array, 1
        Tensor-parallel degree; a rank holds at least one key-value head.

    Returns
    -------
    float or array, 1

    Assumptions: heads are split evenly, keys and values are as wide as queries.

    >>> fused_width(32, 8, 128)
    6144.0

    Source: shoeybi2019megatron, sec. 3, heads split over ranks; the copies of key-value heads under tensor parallelism are ours.
    """
    return (heads / tp + 2 * maximum(1.0, kv_heads / tp)) * head_dim


@equation(
    "eq-chunk-pairs",
    formula="new * cached_len + new * (new + 1) / 2",
)
def chunk_pairs(new: Num, cached_len: Num) -> Num:
    """Query-key pairs of a chunk of a prompt: each new token meets what is cached, and what precedes it in the chunk.

    Formula: p = s s_past + s (s + 1) / 2.

    Parameters
    ----------
    new, cached_len : float or array, 1
        Tokens of the chunk, and tokens of its sequence whose keys and values are cached.

    Returns
    -------
    float or array, 1

    Assumptions: full causal attention; masked pairs are skipped one by one.

    >>> chunk_pairs(100, 400)
    45050.0

    Source: agrawal2024sarathi, chunked prefills; the count is derived in the chapter.
    """
    return new * cached_len + new * (new + 1) / 2


@equation(
    "eq-kernel-starts", formula="layers * (layer_kernels * start + attentions * attention_start) + last_kernels * start"
)
def kernel_starts(
    layers: Num, layer_kernels: Num, start: Num, attentions: Num, attention_start: Num, last_kernels: Num = 1.0
) -> Num:
    """What the starts of all kernels of a step add up to; no device of a tensor-parallel group starts fewer.

    Formula: T = L (k t_0 + k_a t_a) + k_e t_0.

    Parameters
    ----------
    layers : float or array, 1
    layer_kernels : float or array, 1
        Kernels of a layer other than attention: products, and the small ones between them.
    start : float or array, s
        Of such a kernel, as measured with the smallest of its table.
    attentions : float or array, 1
        Attention kernels of a layer: one, or two where a step has prompts and answers.
    attention_start : float or array, s
    last_kernels : float or array, 1
        Kernels after the last layer: the LM head.

    Returns
    -------
    float or array, s

    Assumptions: kernels run one after the other, and a kernel's start hides behind nothing.

    >>> round(kernel_starts(32, 9, 4e-6, 1, 17e-6) * 1e3, 3)
    1.7

    Source: fernandez2023framework, execution bound by the framework; that it counts kernels is derived in the chapter.
    """
    return layers * (layer_kernels * start + attentions * attention_start) + last_kernels * start


@equation(
    "eq-kernel-utilisation", formula="flops / (time * peak_flops)", domain={"time": POSITIVE, "peak_flops": POSITIVE}
)
def kernel_utilisation(flops: Num, time: Num, peak_flops: Num) -> Num:
    """Share of the peak that a kernel reached: what tables of kernels print, and a consequence of its time.

    Formula: MFU = FLOPs / (t P).

    Parameters
    ----------
    flops : float or array, FLOP
        Useful arithmetic of the kernel.
    time : float or array, s
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that the table refers to; two precisions differ by a factor of two.

    Returns
    -------
    float or array, 1

    Assumptions: none; it is a definition.

    >>> round(kernel_utilisation(2 * 8 * 2048 * 6144, 8.988e-6, 1979e12), 3)
    0.011

    Source: infersim2026bench, column mfu.
    """
    return flops / (time * peak_flops)


@equation(
    "eq-bilinear",
    formula="(1 - u) * (1 - v) * f00 + u * (1 - v) * f10 + (1 - u) * v * f01 + u * v * f11",
    domain={"u": _SHARE, "v": _SHARE},
)
def bilinear(u: Num, v: Num, f00: Num, f10: Num, f01: Num, f11: Num) -> Num:
    """Value between four corners of a table.

    Formula: f = (1 - u)(1 - v) f_00 + u (1 - v) f_10 + (1 - u) v f_01 + u v f_11.

    Parameters
    ----------
    u, v : float or array, 1
        How far the point lies from the first corner to the next one, along each axis, in [0, 1].
    f00, f10, f01, f11 : float or array, 1
        What the table holds at the corners; the first index is that of u.

    Returns
    -------
    float or array, 1

    Raises
    ------
    InputError
        A value that is not finite or lies outside its range: outside the table there are no four corners.

    Assumptions: the table varies smoothly between neighbours. It meets them, and it is continuous across cells.

    >>> round(bilinear(0.5, 0.25, 0.1, 0.3, 0.2, 0.6), 4)
    0.25

    Source: press1992recipes, sec. 3.6.
    """
    return (1 - u) * (1 - v) * f00 + u * (1 - v) * f10 + (1 - u) * v * f01 + u * v * f11


@equation(
    "eq-granularity",
    formula="(max(compute_a, memory_a) + max(compute_b, memory_b)) / max(compute_a + compute_b, memory_a + memory_b)",
)
def granularity_ratio(compute_a: Num, memory_a: Num, compute_b: Num, memory_b: Num) -> Num:
    """Time of two kernels in turn, over what one maximum for both would say.

    Formula: r = [max(c_a, m_a) + max(c_b, m_b)] / max(c_a + c_b, m_a + m_b).

    Parameters
    ----------
    compute_a, memory_a : float or array, s
        Arithmetic alone and traffic alone of the first kernel.
    compute_b, memory_b : float or array, s
        Of the second.

    Returns
    -------
    float or array, 1
        From 1, where one resource binds both, to 2, where each has one to itself.

    Assumptions: the second kernel starts when the first has ended, so neither hides the other's traffic.

    >>> granularity_ratio(3.0, 1.0, 1.0, 3.0)
    1.5

    Source: williams2009roofline, the bound of one kernel; the question is tam2026, H4, and the bounds are derived in the chapter.
    """
    apart = maximum(compute_a, memory_a) + maximum(compute_b, memory_b)
    return apart / maximum(compute_a + compute_b, memory_a + memory_b)


@equation("eq-serving-step", formula=" + ".join(_TERMS))
def serving_step_time(
    projections: Num,
    mlp: Num,
    experts: Num = 0.0,
    head: Num = 0.0,
    prefill_attention: Num = 0.0,
    decode_attention: Num = 0.0,
    elementwise: Num = 0.0,
    messages: Num = 0.0,
    overhead: Num = 0.0,
) -> Num:
    """One step of a server: products over all tokens together, attention of each kind, and what lies between them.

    Formula: T = T_proj + T_mlp + T_exp + T_head + T_pre + T_dec + T_vec + T_msg + T_0.

    Parameters
    ----------
    projections, mlp, experts : float or array, s
        Products of all layers, over the tokens of prompts and answers together.
    head : float or array, s
        LM head, one row per sequence.
    prefill_attention, decode_attention : float or array, s
        Attention of the chunks and of the running sequences: two kernels a layer.
    elementwise, messages : float or array, s
        Passes over vectors; all-reduces.
    overhead : float or array, s
        What a step takes beside its kernels.

    Returns
    -------
    float or array, s

    Assumptions: kernels follow each other on one stream; each already holds its start.

    >>> round(serving_step_time(2e-3, 4e-3, head=0.1e-3, decode_attention=0.6e-3, elementwise=0.6e-3) * 1e3, 3)
    7.3

    Source: agrawal2024sarathi, sec. 4, batches of prompt chunks and answers; tam2026, H5, names the products and the two attentions.
    """
    products = projections + mlp + experts + head
    return products + prefill_attention + decode_attention + elementwise + messages + overhead
