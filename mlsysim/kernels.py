"""Single kernels: their work, their traffic, and their time with the efficiencies that real kernels reach."""

from mlsysim._numeric import Num, maximum, minimum
from mlsysim.equations import COUNT, FRACTION, POSITIVE, equation

__all__ = [
    "attention_kernel_bytes",
    "attention_kernel_flops",
    "chain_time",
    "gemm_bytes",
    "gemm_flops",
    "last_wave_bytes",
    "measured_kernel_time",
    "partial_sum_bytes",
    "rounded_roof",
    "share_of_cut",
    "softmax_share",
    "tile_padding",
    "wave_share",
]


def __dir__() -> list[str]:
    return __all__


@equation("eq-gemm-flops", formula="m * n * k * flops_per_mac")
def gemm_flops(m: Num, n: Num, k: Num, flops_per_mac: Num = 2.0) -> Num:
    """Work of a matrix product C = A B, with A of shape (m, k) and B of shape (k, n).

    Formula: FLOPs = 2 m n k.

    Parameters
    ----------
    m, n, k : float or array, 1
        Rows of A, columns of B, and the shared dimension. The count is linear in each, so a mean over products (rows
        per expert, say) may stand in for a whole number.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: dense operands and the schoolbook algorithm.

    >>> gemm_flops(4096, 4096, 4096)
    137438953472.0

    Source: golub2013matrix, sec. 1.1.15.
    """
    return m * n * k * flops_per_mac


@equation("eq-gemm-bytes", formula="(m * k + k * n + m * n) * element_bytes", domain={"element_bytes": POSITIVE})
def gemm_bytes(m: Num, n: Num, k: Num, element_bytes: Num) -> Num:
    """Least traffic of a matrix product: read A and B once, write C once.

    Formula: bytes = (m k + k n + m n) x bytes per element.

    Parameters
    ----------
    m, n, k : float or array, 1
        Rows of A, columns of B, and the shared dimension.
    element_bytes : float or array, byte
        Size of one element (2 for BF16), the same for A, B and C.

    Returns
    -------
    float or array, byte

    Assumptions: operands come from main memory and tiles are reused perfectly on chip; C is not read.

    >>> gemm_bytes(4096, 4096, 4096, 2)
    100663296

    Source: nvidia2023matmul, sec. 2.
    """
    return (m * k + k * n + m * n) * element_bytes


@equation("eq-tile-padding", formula="-(-size // tile) * tile", domain={"size": "[0, inf) whole", "tile": COUNT})
def tile_padding(size: Num, tile: Num) -> Num:
    """Padded length of a tiled kernel: whole tiles, the last one padded.

    Formula: padded = ceil(size / tile) x tile.

    Parameters
    ----------
    size : float or array, 1
        Rows or columns of the result.
    tile : float or array, 1
        Rows or columns of one tile, 128 for instance.

    Returns
    -------
    float or array, 1

    Assumptions: one size of tile; a partly filled tile costs as much as a full one.

    >>> tile_padding(2145, 128)
    2176

    Source: nvidia2023matmul, sec. 3.1.
    """
    return -(-size // tile) * tile


@equation(
    "eq-kernel-time",
    formula="max(flops / (compute_efficiency * peak_flops), bytes / (memory_efficiency * memory_bandwidth))"
    " + unhidden_bytes / (memory_efficiency * memory_bandwidth) + startup_time",
    domain={
        "peak_flops": POSITIVE,
        "memory_bandwidth": POSITIVE,
        "compute_efficiency": FRACTION,
        "memory_efficiency": FRACTION,
    },
)
def measured_kernel_time(
    flops: Num,
    bytes: Num,
    peak_flops: Num,
    memory_bandwidth: Num,
    compute_efficiency: Num = 1.0,
    memory_efficiency: Num = 1.0,
    startup_time: Num = 0.0,
    unhidden_bytes: Num = 0.0,
) -> Num:
    """Time of a real kernel: the iron law with one efficiency for each clock, a start, and an end that is not overlapped.

    Formula: t = max(FLOPs / (e_c P), bytes / (e_m BW)) + unhidden bytes / (e_m BW) + t_s.

    Parameters
    ----------
    flops : float or array, FLOP
        Arithmetic of the kernel, padded tiles included.
    bytes : float or array, byte
        Traffic that overlaps with the arithmetic.
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that runs.
    memory_bandwidth : float or array, byte/s
        Datasheet bandwidth.
    compute_efficiency, memory_efficiency : float or array, 1
        Shares of the two that the kernels of a library sustain, in (0, 1].
    startup_time : float or array, s
        Time before the first tile and after the last, however small the work.
    unhidden_bytes : float or array, byte
        Traffic with no arithmetic left to overlap it: a result written after the last multiply-add of its tile.

    Returns
    -------
    float or array, s

    Assumptions: three constants for all shapes of one precision on one device generation. The maximum is
    williams2009roofline's; the start and the unhidden end are additions, judged by the tables they reproduce.

    >>> measured_kernel_time(2e12, 1e9, 1e15, 2e12, compute_efficiency=0.8, startup_time=5e-6)
    0.002505

    Source: williams2009roofline, sec. 3.
    """
    sustained = memory_efficiency * memory_bandwidth
    work = maximum(flops / (compute_efficiency * peak_flops), bytes / sustained)
    return work + unhidden_bytes / sustained + startup_time


@equation(
    "eq-wave-share",
    formula="tiles / (-(-tiles // multiprocessors) * multiprocessors)",
    domain={"tiles": COUNT, "multiprocessors": COUNT},
)
def wave_share(tiles: Num, multiprocessors: Num) -> Num:
    """Share of the multiprocessors that have a tile, over all waves of a kernel.

    Formula: u = T / (ceil(T / S) S).

    Parameters
    ----------
    tiles : float or array, 1
        Tiles of the result, over all groups of a grouped product.
    multiprocessors : float or array, 1
        Multiprocessors (compute units) of the device, each of which computes one tile at a time.

    Returns
    -------
    float or array, 1

    Assumptions: tiles of one size, handed out a wave at a time; nobody begins the next wave before the last is done.

    >>> wave_share(128, 108), wave_share(20, 304)
    (0.5925925925925926, 0.06578947368421052)

    Source: nvidia2023matmul, sec. 3.2.
    """
    return tiles / (-(-tiles // multiprocessors) * multiprocessors)


@equation(
    "eq-last-wave",
    formula="result_bytes * min(1.0, multiprocessors / tiles)",
    domain={"tiles": COUNT, "multiprocessors": COUNT},
)
def last_wave_bytes(result_bytes: Num, tiles: Num, multiprocessors: Num) -> Num:
    """Bytes that the last wave of tiles writes, which no arithmetic is left to overlap.

    Formula: B_u = B_C min(1, S / T).

    Parameters
    ----------
    result_bytes : float or array, byte
        Size of the whole result.
    tiles, multiprocessors : float or array, 1
        Tiles of the result, and those that are computed at a time.

    Returns
    -------
    float or array, byte

    Assumptions: a tile is written while the next wave computes; the last wave has none after it.

    >>> last_wave_bytes(1e9, 1320, 132), last_wave_bytes(1e6, 20, 132)
    (100000000.0, 1000000.0)

    Source: nvidia2023matmul, sec. 3.2; the overlap with the next wave is ours, judged by the tables of chapter 12.
    """
    return result_bytes * minimum(1.0, multiprocessors / tiles)


@equation(
    "eq-partial-sums",
    formula="2 * (parts - 1) * m * n * sum_bytes",
    domain={"parts": COUNT, "sum_bytes": POSITIVE},
)
def partial_sum_bytes(m: Num, n: Num, parts: Num, sum_bytes: Num = 4.0) -> Num:
    """Traffic of a product whose shared dimension is cut into parts (split-K), beside that of the product itself.

    Formula: B_s = 2 (n_p - 1) m n e_s.

    Parameters
    ----------
    m, n : float or array, 1
        Rows and columns of the result.
    parts : float or array, 1
        Parts of the shared dimension, each of which makes a sum for every number of the result.
    sum_bytes : float or array, byte
        Size of one sum before it is rounded to the result: 4 for FP32.

    Returns
    -------
    float or array, byte

    Assumptions: all sums but one are written to memory and read again; no arithmetic is left to hide that.

    >>> partial_sum_bytes(512, 512, 8)  # a result of 0.5 MB costs 14.7 MB of sums
    14680064.0

    Source: nvidia2023matmul, sec. 3.2; the traffic of the sums is ours, judged by infersim2026bench, bench_data/gemm/h800.
    """
    return 2 * (parts - 1) * m * n * sum_bytes


@equation("eq-chain-time", formula="depth * element_bytes * byte_time", domain={"element_bytes": POSITIVE})
def chain_time(depth: Num, element_bytes: Num, byte_time: Num) -> Num:
    """Time of one multiprocessor to work along the shared dimension of its tile, however narrow the tile is.

    Formula: t_k = k e tau.

    Parameters
    ----------
    depth : float or array, 1
        The shared dimension, k.
    element_bytes : float or array, byte
        Size of one element of the inputs.
    byte_time : float or array, s/byte
        Time per byte of one row along the shared dimension: a round trip over the stages in flight.

    Returns
    -------
    float or array, s

    Assumptions: nobody splits the shared dimension among multiprocessors, as kernels with scales per block do not.

    >>> round(chain_time(65536, 1, 0.884e-9) * 1e6, 1)  # us; 61 were measured for 64 x 128 x 65536
    57.9

    Source: infersim2026bench, bench_data/gemm/h800/data.csv; the slope of its narrow products in k.
    """
    return depth * element_bytes * byte_time


@equation(
    "eq-rounded-roof",
    formula="(compute_time ** sharpness + memory_time ** sharpness + chain_time ** sharpness) ** (1 / sharpness)",
    domain={"compute_time": POSITIVE, "sharpness": "[1, 16]"},
)
def rounded_roof(compute_time: Num, memory_time: Num, chain_time: Num = 0.0, sharpness: Num = 3.0) -> Num:
    """Time of a kernel whose compute and memory times interfere where they are close: a smoothed roofline.

    Formula: t = (t_c^p + t_m^p + t_k^p)^(1/p).

    Parameters
    ----------
    compute_time, memory_time, chain_time : float or array, s
        What each clock would take by itself.
    sharpness : float or array, 1
        The exponent p: 1 adds the clocks, a large one takes the longest.

    Returns
    -------
    float or array, s

    Assumptions: one roundness for all kernels.

    >>> round(rounded_roof(3.0, 4.0, sharpness=2.0), 12), round(rounded_roof(1.0, 1.0), 3)
    (5.0, 1.26)

    Source: williams2009roofline, sec. 3; the sum of powers instead of the maximum is ours.
    """
    longest = maximum(compute_time, memory_time, chain_time)
    parts = ((t / longest) ** sharpness for t in (compute_time, memory_time, chain_time))
    return longest * sum(parts) ** (1 / sharpness)


@equation(
    "eq-share-of-cut",
    formula="1 / (1 / ceiling + (1 / share - 1 / ceiling) * rate_ratio)",
    domain={"share": FRACTION, "rate_ratio": POSITIVE, "ceiling": FRACTION},
    relations=("share <= ceiling",),
)
def share_of_cut(share: Num, rate_ratio: Num, ceiling: Num = 1.0) -> Num:
    """Efficiency of a device with another rate per multiprocessor than a measured relative: it loses the same time.

    Formula: e' = 1 / (1/c + (1/e - 1/c) r).

    Parameters
    ----------
    share : float or array, 1
        Share that the measured relative sustains, in (0, 1].
    rate_ratio : float or array, 1
        Rate per multiprocessor of the part over that of the relative: 0.25 for a part cut to a quarter.
    ceiling : float or array, 1
        Share of the peak that the kernel's instructions allow by themselves, on every part: 1 for those of the generation.

    Returns
    -------
    float or array, 1

    Assumptions: what a multiprocessor loses to feeding, scaling and softmax takes the same time on both parts.

    >>> round(share_of_cut(0.72, 0.253), 3)  # attention of an H100 on an H20
    0.91

    Source: infersim2026bench, bench_data/mha/prefill/h20; the rule is ours and foretells that table from H100's.
    """
    return 1 / (1 / ceiling + (1 / share - 1 / ceiling) * rate_ratio)


@equation(
    "eq-softmax-share",
    formula="(share ** -sharpness + (exponential_flops / pair_flops) ** sharpness) ** (-1 / sharpness)",
    domain={"share": FRACTION, "pair_flops": POSITIVE, "exponential_flops": "[0, inf)", "sharpness": "[1, 16]"},
)
def softmax_share(share: Num, pair_flops: Num, exponential_flops: Num = 0.0, sharpness: Num = 3.0) -> Num:
    """Share of the peak that attention reaches with the exponentials of its softmax: one for each pair of query and key.

    Formula: e_x = (e_c^-p + (x / f)^p)^(-1/p).

    Parameters
    ----------
    share : float or array, 1
        Share that the products of attention sustain by themselves, in (0, 1].
    pair_flops : float or array, FLOP
        Arithmetic of a pair of query and key: 2 (d_qk + d_v) forward.
    exponential_flops : float or array, FLOP
        What the matrix units of a multiprocessor do, in the format that computes, in the time of one exponential; 0 hides them.
    sharpness : float or array, 1
        The exponent p of eq-rounded-roof: exponentials are one more clock.

    Returns
    -------
    float or array, 1

    Assumptions: one exponential for a pair, in units of their own beside the matrix units.

    >>> [round(softmax_share(0.75, 4 * head, 512), 2) for head in (64, 128)]  # 8,192 FLOP and 16 exponentials a clock: a B200
    [0.46, 0.67]
    >>> round(softmax_share(0.75, 4 * 64, 256), 2)  # twice the exponentials: a GB300
    0.67

    Source: together2026fa4, sec. 2; the corner is eq-rounded-roof's.
    """
    return (share**-sharpness + (exponential_flops / pair_flops) ** sharpness) ** (-1 / sharpness)


@equation(
    "eq-attention-kernel-flops",
    formula="batch * heads * q_len * (cached_len + q_len - causal / 2 * (q_len - min(mask_tile, q_len)))"
    " * (qk_dim + v_dim) * flops_per_mac",
    domain={"causal": "[0, 1]", "mask_tile": COUNT},
)
def attention_kernel_flops(
    batch: Num,
    heads: Num,
    q_len: Num,
    cached_len: Num,
    qk_dim: Num,
    v_dim: Num,
    causal: Num = 1.0,
    flops_per_mac: Num = 2.0,
    mask_tile: Num = 1.0,
) -> Num:
    """Work of attention itself, without its projections: scores, then the weighted sum of values.

    Formula: FLOPs = c b H s (s_past + s - m/2 (s - min(tau, s))) (d_qk + d_v), with m = 1 under a causal mask and 0
    without.

    Parameters
    ----------
    batch, heads : float or array, 1
        Sequences, and query heads of the layer.
    q_len, cached_len : float or array, 1
        New tokens per sequence, and tokens that the cache already holds; decode has q_len = 1.
    qk_dim, v_dim : float or array, 1
        Width of a query (or key) and of a value. In decode with absorbed MLA: rank + rotary part, and rank.
    causal : float or array, 1
        1 when a new token sees itself and what precedes it, 0 when it sees every token.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.
    mask_tile : float or array, 1
        Tokens along the side of the tiles that a kernel can skip: 1 counts the pairs, 128 what a kernel computes.

    Returns
    -------
    float or array, FLOP

    Assumptions: whole tiles beyond the mask are skipped (the source halves the square); the softmax is not counted.

    >>> attention_kernel_flops(1, 32, 1, 4095, 128, 128)
    67108864.0

    Source: dao2023flashbenchmark, function flops.
    """
    pairs = q_len * (cached_len + q_len - causal / 2 * (q_len - minimum(mask_tile, q_len)))
    return batch * heads * pairs * (qk_dim + v_dim) * flops_per_mac


@equation(
    "eq-attention-kernel-bytes",
    formula="batch * (q_len * heads * (qk_dim + v_dim) * element_bytes + kv_len * kv_heads * kv_width * kv_element_bytes)",
    domain={"element_bytes": POSITIVE, "kv_element_bytes": POSITIVE},
)
def attention_kernel_bytes(
    batch: Num,
    heads: Num,
    q_len: Num,
    kv_len: Num,
    qk_dim: Num,
    v_dim: Num,
    kv_heads: Num,
    kv_width: Num,
    element_bytes: Num = 2.0,
    kv_element_bytes: Num = 2.0,
) -> Num:
    """Least traffic of fused attention: queries in, results out, and every cached token once.

    Formula: bytes = b (s H (d_qk + d_v) e + s_kv H_kv w e_kv).

    Parameters
    ----------
    batch, heads : float or array, 1
        Sequences, and query heads of the layer.
    q_len, kv_len : float or array, 1
        New tokens per sequence, and tokens whose keys and values are read (the new ones included).
    qk_dim, v_dim : float or array, 1
        Width of a query and of a result.
    kv_heads, kv_width : float or array, 1
        Heads of the cache and numbers stored per token and head: key and value, or one latent vector (MLA).
    element_bytes, kv_element_bytes : float or array, byte
        Size of one element of queries and results, and of the cache.

    Returns
    -------
    float or array, byte

    Assumptions: the scores never leave the chip, and all query heads of a group share one reading of their key-value
    head.

    >>> attention_kernel_bytes(1, 32, 1, 4096, 128, 128, 8, 256)
    16793600.0

    Source: dao2022flashattention, abstract.
    """
    queries = q_len * heads * (qk_dim + v_dim) * element_bytes
    return batch * (queries + kv_len * kv_heads * kv_width * kv_element_bytes)
