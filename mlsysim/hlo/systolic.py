"""Cycles of a matrix product on a systolic array, in closed form, for each dataflow.

An array of R rows and C columns holds one operand (or the result) still and streams the rest through. The product is
C = A B with A of shape (M, K) and B of shape (K, N). The forms equal the cycle counts of SCALE-Sim 3.0.0 without memory
stalls, to the cycle.
"""

from collections.abc import Callable

from mlsysim.errors import InputError, unknown_name

_LARGEST = 2**31


def _folds(size: int, extent: int) -> int:
    return -(-size // extent)


def weight_stationary(m: int, n: int, k: int, rows: int, columns: int) -> int:
    """Cycles with the weights held still: each fold loads R rows of B, then streams the M rows of A.

    Formula: ceil(K/R) ceil(N/C) (2R + C + M - 2) - 1.

    >>> weight_stationary(100, 40, 70, 16, 8)
    3449
    """
    return _folds(k, rows) * _folds(n, columns) * (2 * rows + columns + m - 2) - 1


def output_stationary(m: int, n: int, k: int, rows: int, columns: int) -> int:
    """Cycles with the results held still: each fold streams the K terms of R x C sums.

    Formula: ceil(M/R) ceil(N/C) (K + R + C - 2) - 1.

    >>> output_stationary(100, 40, 70, 16, 8)
    3219
    """
    return _folds(m, rows) * _folds(n, columns) * (k + rows + columns - 2) - 1


def input_stationary(m: int, n: int, k: int, rows: int, columns: int) -> int:
    """Cycles with the inputs held still: each fold loads R rows of A transposed, then streams the N columns of B.

    Formula: ceil(K/R) ceil(M/C) (2R + C + N - 2) - 1.

    >>> input_stationary(100, 40, 70, 16, 8)
    5069
    """
    return _folds(k, rows) * _folds(m, columns) * (2 * rows + columns + n - 2) - 1


DATAFLOWS: dict[str, Callable[[int, int, int, int, int], int]] = {
    "ws": weight_stationary,
    "os": output_stationary,
    "is": input_stationary,
}


def gemm_cycles(m: int, n: int, k: int, rows: int, columns: int, dataflow: str = "ws") -> int:
    """Cycles of one matrix product on one array.

    Parameters
    ----------
    m, n, k : int
        Rows of A, columns of B, and the shared dimension.
    rows, columns : int
        Of the array.
    dataflow : str
        ``ws``, ``os`` or ``is``: what is held still.

    Returns
    -------
    int

    Raises
    ------
    InputError, UnknownNameError
        A size that is not a positive whole number; an unknown dataflow.

    Assumptions: operands are there when they are needed; nothing stalls.

    >>> gemm_cycles(128, 128, 128, 128, 128)
    509
    """
    for name, size in (("m", m), ("n", n), ("k", k), ("rows", rows), ("columns", columns)):
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _LARGEST:
            raise InputError(f"gemm_cycles: {name} = {size!r} must be a whole number in [1, {_LARGEST}]")
    if dataflow not in DATAFLOWS:
        raise unknown_name("dataflow", dataflow, DATAFLOWS)
    return DATAFLOWS[dataflow](m, n, k, rows, columns)


def utilisation(m: int, n: int, k: int, rows: int, columns: int, dataflow: str = "ws") -> float:
    """Products made per processing element and cycle, at most 1.

    >>> round(utilisation(8192, 8192, 8192, 128, 128), 3)
    0.955
    """
    return m * n * k / (rows * columns * gemm_cycles(m, n, k, rows, columns, dataflow))
