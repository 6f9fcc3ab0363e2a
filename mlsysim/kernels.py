"""Counting the work and the traffic of single kernels. (Their measured efficiencies will live here too.)"""

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation

_SHAPE = {"m": "1", "n": "1", "k": "1"}


@equation(
    "eq-gemm-flops",
    formula="m * n * k * flops_per_mac",
    units={**_SHAPE, "flops_per_mac": "FLOP", "return": "FLOP"},
    source="golub2013matrix",
    where="sec. 1.1.15",
)
def gemm_flops(m: Num, n: Num, k: Num, flops_per_mac: Num = 2.0) -> Num:
    """Work of a matrix product C = A B, with A of shape (m, k) and B of shape (k, n).

    Formula: FLOPs = 2 m n k.

    Parameters
    ----------
    m, n, k : float or array, 1
        Rows of A, columns of B, and the shared dimension.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Raises
    ------
    InputError
        A value that is not finite or negative.

    Assumptions: dense operands and the schoolbook algorithm.

    >>> gemm_flops(4096, 4096, 4096)
    137438953472.0

    Source: golub2013matrix, sec. 1.1.15.
    """
    return m * n * k * flops_per_mac


@equation(
    "eq-gemm-bytes",
    formula="(m * k + k * n + m * n) * element_bytes",
    units={**_SHAPE, "element_bytes": "byte", "return": "byte"},
    domain={"element_bytes": POSITIVE},
    source="nvidia2023matmul",
    where="sec. 2",
)
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

    Raises
    ------
    InputError
        A value that is not finite or lies outside its range.

    Assumptions: operands come from main memory and tiles are reused perfectly on chip; C is not read.

    >>> gemm_bytes(4096, 4096, 4096, 2)
    100663296

    Source: nvidia2023matmul, sec. 2.
    """
    return (m * k + k * n + m * n) * element_bytes
