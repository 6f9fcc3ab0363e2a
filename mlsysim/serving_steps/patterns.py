"""Bandwidth by access pattern: what a memory gives to blocks in random places, and to a mixture of patterns."""

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation


@equation(
    "eq-scattered-bandwidth",
    formula="bandwidth * block_bytes / (block_bytes + half_bytes)",
    domain={"block_bytes": POSITIVE},
)
def scattered_bandwidth(bandwidth: Num, block_bytes: Num, half_bytes: Num) -> Num:
    """What a memory gives to blocks that lie in random places.

    Formula: BW_scattered = BW x n / (n + n_half).

    Parameters
    ----------
    bandwidth : float or array, byte/s
        What very large blocks reach.
    block_bytes : float or array, byte
        Bytes that lie together.
    half_bytes : float or array, byte
        Block that reaches half of the bandwidth: the bytes that could have been moved while one block is found.

    Returns
    -------
    float or array, byte/s

    Assumptions: finding a block takes the same time wherever it lies, and blocks are fetched one after the other or
    with a constant number in flight.

    >>> scattered_bandwidth(12e9, block_bytes=4096, half_bytes=1024)
    9600000000.0

    Source: hockney1994communication, asymptotic rate and half-performance length.
    """
    return bandwidth * block_bytes / (block_bytes + half_bytes)


@equation(
    "eq-mixed-bandwidth",
    formula="1 / (scattered_share / scattered + (1 - scattered_share) / sequential)",
    domain={"sequential": POSITIVE, "scattered": POSITIVE, "scattered_share": "[0, 1]"},
)
def mixed_bandwidth(sequential: Num, scattered: Num, scattered_share: Num) -> Num:
    """What a memory gives when some of the bytes lie in sequence and the others in random places.

    Formula: BW = 1 / (x / BW_scattered + (1 - x) / BW_sequential).

    Parameters
    ----------
    sequential, scattered : float or array, byte/s
        What each pattern reaches alone.
    scattered_share : float or array, 1
        Share of the bytes (not of the time) that lie in random places.

    Returns
    -------
    float or array, byte/s

    Assumptions: the two patterns take turns and do not disturb each other.

    >>> mixed_bandwidth(12e9, 4e9, scattered_share=0.5)
    6000000000.0

    Source: smith1988single, harmonic mean of rates.
    """
    return 1 / (scattered_share / scattered + (1 - scattered_share) / sequential)
