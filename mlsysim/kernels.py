"""Single kernels: their work, their traffic, and their time with the efficiencies that real kernels reach."""

from mlsysim._numeric import Num, maximum
from mlsysim.equations import COUNT, FRACTION, POSITIVE, equation

__all__ = [
    "attention_kernel_bytes",
    "attention_kernel_flops",
    "gemm_bytes",
    "gemm_flops",
    "measured_kernel_time",
    "tile_padding",
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
    """Length that a tiled kernel really works on: whole tiles, the last one padded.

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
    """Time of a real kernel: the iron law with one efficiency for each clock, a start, and an end nothing overlaps.

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
    "eq-attention-kernel-flops",
    formula="batch * heads * q_len * (cached_len + q_len * (1 - causal / 2) + causal / 2) * (qk_dim + v_dim) * flops_per_mac",
    domain={"causal": "[0, 1]"},
    renamed={"past_len": "cached_len"},
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
) -> Num:
    """Work of attention itself, without its projections: scores, then the weighted sum of values.

    Formula: FLOPs = c b H s (s_past + s (1 - m/2) + m/2) (d_qk + d_v), with m = 1 under a causal mask and 0 without.

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

    Returns
    -------
    float or array, FLOP

    Assumptions: masked pairs are skipped one by one (the source halves the square; a kernel skips whole tiles); the
    softmax is not counted.

    >>> attention_kernel_flops(1, 32, 1, 4095, 128, 128)
    67108864.0

    Source: dao2023flashbenchmark, function flops.
    """
    pairs = q_len * (cached_len + q_len * (1 - causal / 2) + causal / 2)
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
