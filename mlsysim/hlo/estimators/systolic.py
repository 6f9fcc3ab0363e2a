"""Cycles of a matrix product on a systolic array, in closed form, for each dataflow.

An array of R rows and C columns of processing elements holds one operand (or the result) still and streams the rest through.
The product is C = A B with A of shape (M, K) and B of shape (K, N). The forms equal the cycle counts of SCALE-Sim 3.0.0
without memory stalls, to the cycle.
"""

from collections.abc import Callable

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError, unknown_name

_LARGEST = 2**31
_NAMES = ("m", "n", "k", "rows", "columns")
_SIZES = dict.fromkeys(_NAMES, "[1, inf)")


@equation(
    "eq-systolic-ws", formula="-(-k // rows) * -(-n // columns) * (2 * rows + columns + m - 2) - 1", domain=_SIZES
)
def weight_stationary(m: Num, n: Num, k: Num, rows: Num, columns: Num) -> Num:
    """Cycles with the weights held still: each fold loads R rows of B, then streams the M rows of A.

    Formula: cycles = ceil(K/R) ceil(N/C) (2R + C + M - 2) - 1.

    Parameters
    ----------
    m, n, k : float or array, 1
        Rows of A, columns of B, and the dimension that the product sums over.
    rows, columns : float or array, 1
        R and C, the processing elements of the array.

    Returns
    -------
    float or array, 1
        Cycles.

    Assumptions: every fold waits for the one before it; operands are there when they are needed.

    >>> weight_stationary(100, 40, 70, 16, 8)
    3449

    Source: raj2025, cycle counts of its version 3.0.0 without memory stalls.
    """
    return -(-k // rows) * -(-n // columns) * (2 * rows + columns + m - 2) - 1


@equation("eq-systolic-os", formula="-(-m // rows) * -(-n // columns) * (k + rows + columns - 2) - 1", domain=_SIZES)
def output_stationary(m: Num, n: Num, k: Num, rows: Num, columns: Num) -> Num:
    """Cycles with the results held still: each fold streams the K terms of R x C sums.

    Formula: cycles = ceil(M/R) ceil(N/C) (K + R + C - 2) - 1.

    Parameters
    ----------
    m, n, k : float or array, 1
        Rows of A, columns of B, and the dimension that the product sums over.
    rows, columns : float or array, 1
        R and C, the processing elements of the array.

    Returns
    -------
    float or array, 1
        Cycles.

    Assumptions: the sums leave the array while the next fold fills it; operands are there when they are needed.

    >>> output_stationary(100, 40, 70, 16, 8)
    3219

    Source: raj2025, cycle counts of its version 3.0.0 without memory stalls.
    """
    return -(-m // rows) * -(-n // columns) * (k + rows + columns - 2) - 1


@equation(
    "eq-systolic-is", formula="-(-k // rows) * -(-m // columns) * (2 * rows + columns + n - 2) - 1", domain=_SIZES
)
def input_stationary(m: Num, n: Num, k: Num, rows: Num, columns: Num) -> Num:
    """Cycles with the inputs held still: each fold loads R rows of A transposed, then streams the N columns of B.

    Formula: cycles = ceil(K/R) ceil(M/C) (2R + C + N - 2) - 1.

    Parameters
    ----------
    m, n, k : float or array, 1
        Rows of A, columns of B, and the dimension that the product sums over.
    rows, columns : float or array, 1
        R and C, the processing elements of the array.

    Returns
    -------
    float or array, 1
        Cycles.

    Assumptions: every fold waits for the one before it; operands are there when they are needed.

    >>> input_stationary(100, 40, 70, 16, 8)
    5069

    Source: raj2025, cycle counts of its version 3.0.0 without memory stalls.
    """
    return -(-k // rows) * -(-m // columns) * (2 * rows + columns + n - 2) - 1


@equation(
    "eq-systolic-utilisation", formula="m * n * k / (rows * columns * cycles)", domain={**_SIZES, "cycles": POSITIVE}
)
def array_utilisation(m: Num, n: Num, k: Num, rows: Num, columns: Num, cycles: Num) -> Num:
    """Products made per processing element and cycle: the share of its peak that an array delivers.

    Formula: utilisation = M N K / (R C cycles).

    Parameters
    ----------
    m, n, k : float or array, 1
        Rows of A, columns of B, and the dimension that the product sums over.
    rows, columns : float or array, 1
        R and C, the processing elements of the array.
    cycles : float or array, 1
        That the product takes.

    Returns
    -------
    float or array, 1
        At most 1 for the cycles of a real schedule.

    Assumptions: an element makes at most one product per cycle; products with padding do not count.

    >>> round(array_utilisation(128, 128, 128, 128, 128, 509), 3)
    0.251

    Source: raj2025, overall utilisation in the report of its version 3.0.0.
    """
    return m * n * k / (rows * columns * cycles)


@equation(
    "eq-systolic-peak",
    formula="flops_per_mac * arrays * rows * columns * clock",
    domain=dict.fromkeys(("rows", "columns", "clock", "arrays", "flops_per_mac"), POSITIVE),
)
def array_peak(rows: Num, columns: Num, clock: Num, arrays: Num = 1.0, flops_per_mac: Num = 2.0) -> Num:
    """Peak of systolic arrays: every element multiplies and adds in every cycle.

    Formula: peak = 2 x arrays x R x C x clock.

    Parameters
    ----------
    rows, columns : float or array, 1
        R and C, the processing elements of one array.
    clock : float or array, 1/s
        Cycles per second.
    arrays : float or array, 1
        That work at once.
    flops_per_mac : float or array, FLOP
        Of one multiply-add.

    Returns
    -------
    float or array, FLOP/s

    Assumptions: one multiply-add per element and cycle.

    >>> round(array_peak(256, 256, 700e6) / 1e12, 1)
    91.8

    Source: jouppi2017, abstract: 65,536 multipliers at 700 MHz make 92 TOPS.
    """
    return flops_per_mac * arrays * rows * columns * clock


@equation("eq-cycles-time", formula="cycles / clock", domain={"clock": POSITIVE})
def cycles_time(cycles: Num, clock: Num) -> Num:
    """Time of some cycles at a constant clock.

    Formula: time = cycles / clock.

    Parameters
    ----------
    cycles : float or array, 1
        That the work takes.
    clock : float or array, 1/s
        Cycles per second.

    Returns
    -------
    float or array, s

    Assumptions: the clock neither throttles nor boosts.

    >>> round(1e6 * cycles_time(509, 940e6), 3)
    0.541

    Source: hennessy2019, CPU time from clock cycles and clock rate.
    """
    return cycles / clock


DATAFLOWS: dict[str, Callable[[Num, Num, Num, Num, Num], Num]] = {
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
    return int(DATAFLOWS[dataflow](m, n, k, rows, columns))


def utilisation(m: int, n: int, k: int, rows: int, columns: int, dataflow: str = "ws") -> float:
    """Products made per processing element and cycle, at most 1.

    >>> round(utilisation(8192, 8192, 8192, 128, 128), 3)
    0.955
    """
    return float(array_utilisation(m, n, k, rows, columns, gemm_cycles(m, n, k, rows, columns, dataflow)))
