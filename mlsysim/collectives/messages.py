"""One message, a buffer in chunks, and what benchmarks print: what every collective is built of."""

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation

_RANKS = "[1, inf)"


@equation("eq-alpha-beta", formula="latency + bytes / bandwidth", domain={"bandwidth": POSITIVE})
def transfer_time(bytes: Num, bandwidth: Num, latency: Num = 0.0) -> Num:
    """Time of one message between two devices.

    Formula: T = latency + bytes / bandwidth.

    Parameters
    ----------
    bytes : float or array, byte
        Size of the message.
    bandwidth : float or array, byte/s
        Bandwidth of the link in that direction.
    latency : float or array, s
        Time until the first byte arrives.

    Returns
    -------
    float or array, s

    Assumptions: one message at a time on the link; the latency overlaps with nothing.

    >>> transfer_time(1e6, 50e9, 5e-6)
    2.5e-05

    Source: nccl2026performance, sec. Time.
    """
    return latency + bytes / bandwidth


@equation("eq-half-size", formula="pieces * latency * bandwidth", domain={"bandwidth": POSITIVE, "pieces": _RANKS})
def half_size(bandwidth: Num, latency: Num, pieces: Num = 1.0) -> Num:
    """Size at which latency and bandwidth cost the same: half of the bandwidth is reached there.

    Formula: M_half = pieces x latency x bandwidth.

    Parameters
    ----------
    bandwidth : float or array, byte/s
        What one rank can send in one direction.
    latency : float or array, s
        Cost of one step, whatever its size.
    pieces : float or array, 1
        Pieces that the buffer is sent in, one step each: 1 for a message, N for a ring.

    Returns
    -------
    float or array, byte

    Assumptions: those of eq-alpha-beta; a ring cuts its buffer into one piece per rank.

    >>> round(half_size(50e9, 5e-6, pieces=8))
    2000000

    Source: nccl2026performance, sec. Time.
    """
    return pieces * latency * bandwidth


@equation(
    "eq-chunked-transfer",
    formula="(sqrt(bytes / bandwidth) + sqrt((stages - 1) * chunk_latency)) ** 2",
    domain={"bandwidth": POSITIVE, "stages": _RANKS},
)
def chunked_transfer(bytes: Num, bandwidth: Num, stages: Num = 2.0, chunk_latency: Num = 0.0) -> Num:
    """Time of a buffer through several stages, cut into chunks of the best size: small ones fill the stages, large ones cost less.

    Formula: T = (sqrt(M / bandwidth) + sqrt((stages - 1) chunk latency))^2.

    Parameters
    ----------
    bytes : float or array, byte
        Size M that passes the slowest stage.
    bandwidth : float or array, byte/s
        Of that stage.
    stages : float or array, 1
        Stages that every chunk passes, one after the other, each busy with another chunk; at least 1.
    chunk_latency : float or array, s
        Cost of a chunk at a stage, whatever its size.

    Returns
    -------
    float or array, s

    Assumptions: all stages are as fast as the slowest; chunks of any size c, of which sqrt(M x chunk latency x bandwidth /
    (stages - 1)) is the best. No other cut is faster.

    >>> round(chunked_transfer(50e6, 50e9, 2, 5e-6) * 1e6)  # 1000 us of bytes
    1146

    Source: sanders2003tradeoff, abstract, the sequential pipeline; the best cut is worked out in the chapter.
    """
    return ((bytes / bandwidth) ** 0.5 + ((stages - 1) * chunk_latency) ** 0.5) ** 2


@equation(
    "eq-bus-bandwidth",
    formula="phases * (ranks - 1) / ranks * bytes / time",
    domain={"ranks": _RANKS, "time": POSITIVE},
)
def bus_bandwidth(bytes: Num, time: Num, ranks: Num, phases: Num = 2.0) -> Num:
    """The bandwidth per rank that a ring would have needed for this time: what nccl-tests prints as busbw.

    Formula: BW_bus = phases (N - 1) / N x M / T.

    Parameters
    ----------
    bytes : float or array, byte
        Size M of the whole buffer.
    time : float or array, s
        How long the collective took.
    ranks : float or array, 1
        Number of devices N that take part, at least 1.
    phases : float or array, 1
        2 for an all-reduce; 1 for a reduce-scatter, an all-gather or an all-to-all.

    Returns
    -------
    float or array, byte/s

    Assumptions: the bytes of a ring crossed the wire; where the switch reduces they did not, and the figure may
    exceed the wire.

    >>> round(bus_bandwidth(8e9, 0.035, 8))
    400000000000

    Source: nccl2026performance, sec. Bus bandwidth.
    """
    return phases * (ranks - 1) / ranks * bytes / time


def activation_bytes(seq: Num, batch: Num, hidden: Num, element_bytes: Num = 2.0) -> Num:
    """Activations between two layers, of so many sequences: the message s b h x bytes per element that splits send.

    >>> activation_bytes(2048, 1, 12288) / 1e6
    50.331648
    """
    return seq * batch * hidden * element_bytes
