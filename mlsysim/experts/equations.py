"""Closed forms of a mixture-of-experts layer, in training and serving: rows per expert, and the time of its products and messages."""

from mlsysim._numeric import Num, maximum
from mlsysim.equations import AT_LEAST_ONE, FRACTION, POSITIVE, equation

__all__ = [
    "exchange_ratio",
    "grouped_share",
    "grouped_time",
    "moe_crossover",
    "shared_expert_share",
    "tokens_per_expert",
    "two_batch_time",
]

_SHARE_OF_RATES = {"compute_share": FRACTION, "memory_share": FRACTION}


def __dir__() -> list[str]:
    return __all__


@equation("eq-tokens-per-expert", formula="tokens * top_k / experts", domain={"experts": POSITIVE})
def tokens_per_expert(tokens: Num, top_k: Num, experts: Num) -> Num:
    """Rows of an expert's product: the tokens that a balanced router sends to it.

    Formula: m = T k / E.

    Parameters
    ----------
    tokens : float or array, 1
        Tokens T that are routed together, over all devices that share the experts.
    top_k : float or array, 1
        Experts k per token.
    experts : float or array, 1
        Experts E that share them: all of them for the mean, those that are hit for the mean of the busy ones.

    Returns
    -------
    float or array, 1

    Assumptions: balanced routing.

    >>> tokens_per_expert(512, 8, 256)
    16.0

    Source: jiang2024mixtral, sec. 2.1; for the routing.
    """
    return tokens * top_k / experts


@equation(
    "eq-grouped-share", formula="sustained * rows / (rows + tile / 2)", domain={"rows": POSITIVE, "sustained": FRACTION}
)
def grouped_share(rows: Num, sustained: Num, tile: Num = 128.0) -> Num:
    """Share of the peak that a grouped product reaches when its experts hold so many rows each, a tile's worth or more.

    Formula: e_c = e_inf m / (m + tile / 2).

    Parameters
    ----------
    rows : float or array, 1
        Tokens per expert m, on average.
    sustained : float or array, 1
        Share e_inf that the kernel sustains with many rows, in (0, 1].
    tile : float or array, 1
        Rows of one tile.

    Returns
    -------
    float or array, 1

    Assumptions: every expert works on whole tiles, and the last of them is half empty on average, because the counts
    of tokens are spread over more than one tile. With fewer rows than a tile all of them lie in one, and a kernel that
    keeps tiles of that size reaches e_inf m / tile, down to half of this; kernels take smaller tiles there, and on the
    devices that this was fitted to memory decides. For the arithmetic alone.

    >>> grouped_share(64, 0.6)
    0.3

    Source: nvidia2023matmul, sec. 3.1; for the tiles; the mean is derived in the chapter.
    """
    return sustained * rows / (rows + tile / 2)


@equation(
    "eq-grouped-time",
    formula="max(flops_per_mac * pairs * expert_params / (compute_share * peak_flops), "
    "(experts_hit * expert_params * weight_bytes + pairs * pair_bytes) / (memory_share * memory_bandwidth)) + startup_time",
    domain={"peak_flops": POSITIVE, "memory_bandwidth": POSITIVE, **_SHARE_OF_RATES},
)
def grouped_time(
    pairs: Num,
    expert_params: Num,
    experts_hit: Num,
    weight_bytes: Num,
    peak_flops: Num,
    memory_bandwidth: Num,
    compute_share: Num = 1.0,
    memory_share: Num = 1.0,
    startup_time: Num = 0.0,
    pair_bytes: Num = 0.0,
    flops_per_mac: Num = 2.0,
) -> Num:
    """Time of the routed experts on one device: the longer of their arithmetic and of reading those that are hit.

    Formula: t = max(2 p P_e / (e_c P), (E_hit P_e w + p w_p) / (e_m BW)) + t_s.

    Parameters
    ----------
    pairs : float or array, 1
        Token-expert pairs p on the device.
    expert_params : float or array, 1
        Weights P_e of one expert.
    experts_hit : float or array, 1
        Experts of the device that some token reaches.
    weight_bytes : float or array, byte
        Bytes of one weight.
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that runs.
    memory_bandwidth : float or array, byte/s
        Datasheet bandwidth.
    compute_share, memory_share : float or array, 1
        Shares of the two that the kernels reach, in (0, 1].
    startup_time : float or array, s
        Starts of the kernels.
    pair_bytes : float or array, byte
        What one pair reads and writes besides the weights.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate.

    Returns
    -------
    float or array, s

    Assumptions: weights of an expert are read once, however many tokens it gets; all experts start together.

    >>> round(grouped_time(512, 44e6, 32, 1, 1979e12, 3.35e12) * 1e6)
    420

    Source: williams2009roofline, sec. 3.
    """
    arithmetic = flops_per_mac * pairs * expert_params / (compute_share * peak_flops)
    traffic = experts_hit * expert_params * weight_bytes + pairs * pair_bytes
    return maximum(arithmetic, traffic / (memory_share * memory_bandwidth)) + startup_time


@equation(
    "eq-moe-crossover",
    formula="experts * weight_bytes * compute_share * peak_flops"
    " / (devices * top_k * flops_per_mac * memory_share * memory_bandwidth)",
    domain={
        "devices": AT_LEAST_ONE,
        "top_k": POSITIVE,
        "flops_per_mac": POSITIVE,
        "memory_bandwidth": POSITIVE,
        **_SHARE_OF_RATES,
    },
)
def moe_crossover(
    experts: Num,
    top_k: Num,
    devices: Num,
    weight_bytes: Num,
    peak_flops: Num,
    memory_bandwidth: Num,
    compute_share: Num = 1.0,
    memory_share: Num = 1.0,
    flops_per_mac: Num = 2.0,
) -> Num:
    """Tokens per device at which the experts' arithmetic takes as long as reading all of their weights.

    Formula: b* = E w e_c P / (n k 2 e_m BW).

    Parameters
    ----------
    experts : float or array, 1
        Routed experts E of the layer.
    top_k : float or array, 1
        Experts k per token.
    devices : float or array, 1
        Devices n that share the experts, at least 1.
    weight_bytes : float or array, byte
        Bytes of one weight.
    peak_flops : float or array, FLOP/s
        Dense peak.
    memory_bandwidth : float or array, byte/s
        Datasheet bandwidth.
    compute_share, memory_share : float or array, 1
        Shares of the two that are reached, the same for every batch.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate.

    Returns
    -------
    float or array, 1

    Assumptions: all experts are hit, and the shares do not change with the batch; then there is one crossover.

    >>> round(moe_crossover(256, 8, 8, 1, 1979e12, 3.35e12))
    1181

    Source: williams2009roofline, the ridge point; the form follows from eq-grouped-time.
    """
    return (
        experts
        * weight_bytes
        * compute_share
        * peak_flops
        / (devices * top_k * flops_per_mac * memory_share * memory_bandwidth)
    )


@equation(
    "eq-shared-expert-share",
    formula="shared_width / (shared_width + top_k * expert_width)",
    domain={"expert_width": POSITIVE, "top_k": POSITIVE},
)
def shared_expert_share(shared_width: Num, top_k: Num, expert_width: Num) -> Num:
    """Share of an expert layer's arithmetic that its shared experts do.

    Formula: share = d_s / (d_s + k d_e).

    Parameters
    ----------
    shared_width : float or array, 1
        Inner width d_s of all shared experts together.
    top_k : float or array, 1
        Routed experts k per token.
    expert_width : float or array, 1
        Inner width d_e of one routed expert.

    Returns
    -------
    float or array, 1

    Assumptions: the same hidden size and as many matrices in both kinds; the router is left out. A share of work says
    nothing about a share of time.

    >>> round(shared_expert_share(2048, 8, 2048), 3)
    0.111

    Source: deepseek2024v3.
    """
    return shared_width / (shared_width + top_k * expert_width)


@equation(
    "eq-exchange-ratio",
    formula="passes * ranks * element_bytes / (top_k * (dispatch_bytes + combine_bytes))",
    domain={"top_k": POSITIVE, "combine_bytes": POSITIVE},
)
def exchange_ratio(
    ranks: Num,
    top_k: Num,
    passes: Num = 2.0,
    element_bytes: Num = 2.0,
    dispatch_bytes: Num = 1.0,
    combine_bytes: Num = 2.0,
) -> Num:
    """Bytes of all-reduces over all tokens, relative to those of dispatching tokens to their experts and combining the results.

    Formula: r = q n s_a / (k (s_d + s_c)).

    Parameters
    ----------
    ranks : float or array, 1
        Devices n that share the experts.
    top_k : float or array, 1
        Experts k per token.
    passes : float or array, 1
        How often q the tokens of the whole group are sent: 4 for two ring all-reduces, 2 for gathering the tokens and
        reduce-scattering the results (and for the two all-reduces of InferSim, which send everything once).
    element_bytes : float or array, byte
        Of one number in the all-reduces, s_a.
    dispatch_bytes, combine_bytes : float or array, byte
        Of one number on its way to an expert and back, s_d and s_c.

    Returns
    -------
    float or array, 1

    Assumptions: the same link carries both, the factor (n - 1)/n cancels, and every copy of a token travels.

    >>> round(exchange_ratio(8, 8), 2), round(exchange_ratio(16, 8), 2)
    (1.33, 2.67)

    Source: patarasuk2009bandwidth, least bytes of an all-reduce; the comparison is asked for by tam2026, H7e.
    """
    return passes * ranks * element_bytes / (top_k * (dispatch_bytes + combine_bytes))


@equation(
    "eq-two-batch-overlap",
    formula="2 * max(compute_time / compute_units, message_time)",
    domain={"compute_units": FRACTION},
)
def two_batch_time(compute_time: Num, message_time: Num, compute_units: Num = 1.0) -> Num:
    """Time of two micro-batches in turn: one computes while the messages of the other travel.

    Formula: T = 2 max(t_compute / u, t_messages).

    Parameters
    ----------
    compute_time : float or array, s
        Kernels of one micro-batch.
    message_time : float or array, s
        Messages of one micro-batch.
    compute_units : float or array, 1
        Share u of the device's processors that the messages leave to the kernels, in (0, 1].

    Returns
    -------
    float or array, s

    Assumptions: the pieces can be ordered so that the busier of the two resources never waits, which bounds the time
    from below; kernels slow down in proportion to the processors taken from them.

    >>> two_batch_time(3.0, 1.0), two_batch_time(3.0, 4.0)
    (6.0, 8.0)

    Source: deepseek2025infra; for the scheme.
    """
    return 2 * maximum(compute_time / compute_units, message_time)
