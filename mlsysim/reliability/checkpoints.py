"""What a checkpoint costs, what a failure costs, and how much of the time is left for work.

A job alternates between work and writing: ``interval`` seconds of work, then ``write_time`` seconds in which it stands still.
A failure, Poisson with mean ``mtbf``, throws it back to the last checkpoint that was complete; ``restart`` seconds later
it runs again. A checkpoint that is written in the background is complete only ``lag`` seconds after it was taken.
"""

from mlsysim._numeric import Num, exp, expm1, maximum, minimum, where
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation


@equation(
    "eq-checkpoint-write",
    formula="bytes / min(writers * writer_bandwidth, storage_bandwidth)",
    domain={"writers": AT_LEAST_ONE, "writer_bandwidth": POSITIVE, "storage_bandwidth": POSITIVE},
)
def write_time(bytes: Num, writers: Num, writer_bandwidth: Num, storage_bandwidth: Num) -> Num:
    """Time to write a checkpoint, limited by the writers or by the storage.

    Formula: T = bytes / min(writers x writer bandwidth, storage bandwidth).

    Parameters
    ----------
    bytes : float or array, byte
        Size of the whole checkpoint.
    writers : float or array, 1
        Nodes or ranks that write their own part at the same time.
    writer_bandwidth : float or array, byte/s
        What one of them can write.
    storage_bandwidth : float or array, byte/s
        What the storage takes in altogether.

    Returns
    -------
    float or array, s

    Assumptions: equal parts, nobody else on the storage, no metadata.

    >>> write_time(2.3e12, 48, 5e9, 57.5e9)
    40.0

    Source: grattafiori2024llama3, sec. 3.3.1.
    """
    return bytes / minimum(writers * writer_bandwidth, storage_bandwidth)


@equation("eq-checkpoint-stall", formula="copy_time + max(0, write_time - interval)")
def stall_time(copy_time: Num, write_time: Num, interval: Num) -> Num:
    """How long training stands still for a checkpoint that is written in the background.

    Formula: stall = copy + max(0, write - interval).

    Parameters
    ----------
    copy_time : float or array, s
        Time to copy the state out of the devices, into the host's memory.
    write_time : float or array, s
        Time to write it on from there.
    interval : float or array, s
        Work between two checkpoints.

    Returns
    -------
    float or array, s

    Assumptions: the host holds one copy, so the next one waits until it is written; writing slows nothing else down.

    >>> stall_time(2.0, 40.0, 600.0), stall_time(2.0, 40.0, 30.0)
    (2.0, 12.0)

    Source: mohan2021checkfreq, two-phase checkpoints.
    """
    return copy_time + maximum(0 * write_time, write_time - interval)


@equation("eq-checkpoint-overhead", formula="write_time / interval", domain={"interval": POSITIVE})
def checkpoint_overhead(write_time: Num, interval: Num) -> Num:
    """Time spent on checkpoints, over the time spent on work.

    Formula: overhead = delta / tau.

    Parameters
    ----------
    write_time : float or array, s
        Time that a checkpoint keeps the job from working.
    interval : float or array, s
        Work between two checkpoints.

    Returns
    -------
    float or array, 1

    Assumptions: the interval is counted from the end of one checkpoint to the beginning of the next.

    >>> round(checkpoint_overhead(40.0, 3 * 3600.0), 4)
    0.0037

    Source: bekman2026mlengineering, training/fault-tolerance.
    """
    return write_time / interval


@equation(
    "eq-lost-work",
    formula="mtbf - (interval + write_time) * exp(-(lag + interval + write_time) / mtbf) / -expm1(-(interval + write_time) / mtbf)",
    domain={"interval": POSITIVE, "mtbf": POSITIVE},
)
def lost_work(interval: Num, write_time: Num, mtbf: Num, lag: Num = 0.0) -> Num:
    """Time between the last complete checkpoint and a failure: what has to be done again, on average.

    Formula: lost = M - L e^(-lag/M) / (e^(L/M) - 1), with L = tau + delta; about L/2 + lag when both are far below M.

    Parameters
    ----------
    interval : float or array, s
        Work tau between two checkpoints.
    write_time : float or array, s
        Time delta that a checkpoint keeps the job from working.
    mtbf : float or array, s
        Mean time M between failures of the whole job.
    lag : float or array, s
        Time from the end of that until the checkpoint is complete; 0 when the job waits for it.

    Returns
    -------
    float or array, s

    Assumptions: Poisson failures; a checkpoint that was being written is lost.

    >>> round(lost_work(7000.0, 200.0, 1e7)), round(lost_work(7000.0, 200.0, 1e7, lag=300.0))
    (3600, 3899)

    Source: daly2006higher, complete cost function.
    """
    segment = (interval + write_time) / mtbf
    square = segment * segment
    # M - L/(e^(L/M) - 1) over M: a series of Bernoulli numbers where the difference would cancel
    small = segment / 2 - square * (1 / 12 - square * (1 / 720 - square * (1 / 30240 - square / 1209600)))
    large = 1 - segment * exp(-segment) / -expm1(-segment)
    lost = where(segment < 0.1, small, large)
    return mtbf * (lost * exp(-lag / mtbf) - expm1(-lag / mtbf))


@equation("eq-restart-share", formula="1 - exp(-restart / mtbf)", domain={"mtbf": POSITIVE})
def restart_share(restart: Num, mtbf: Num) -> Num:
    """Share of the time that goes into coming back after failures.

    Formula: share = 1 - e^(-R/M).

    Parameters
    ----------
    restart : float or array, s
        Time R from a failure until the job works again: notice it, replace the node, load the checkpoint, warm up.
    mtbf : float or array, s
        Mean time M between failures of the whole job.

    Returns
    -------
    float or array, 1

    Assumptions: a failure during the restart begins it anew, so a restart takes M (e^(R/M) - 1) on average.

    >>> round(restart_share(600.0, 3 * 3600.0), 4)
    0.054

    Source: daly2006higher, complete cost function.
    """
    return -expm1(-restart / mtbf)


@equation(
    "eq-goodput-checkpoint",
    formula="1 - write_time / interval - (interval / 2 + restart + lag) / mtbf",
    domain={"interval": POSITIVE, "mtbf": POSITIVE},
    relations=("write_time / interval + (interval / 2 + restart + lag) / mtbf <= 1",),
)
def first_order_goodput(interval: Num, write_time: Num, mtbf: Num, restart: Num = 0.0, lag: Num = 0.0) -> Num:
    """Share of the time that is work that lasts, to first order; refused where the losses would take all of the time.

    Formula: G = 1 - delta/tau - (tau/2 + R + lag)/M.

    Parameters
    ----------
    interval : float or array, s
        Work tau between two checkpoints.
    write_time : float or array, s
        Time delta that a checkpoint keeps the job from working.
    mtbf : float or array, s
        Mean time M between failures of the whole job.
    restart : float or array, s
        Time R from a failure until the job works again.
    lag : float or array, s
        Time from the end of a checkpoint's stall until it is complete; 0 when the job waits for it.

    Returns
    -------
    float or array, 1

    Raises
    ------
    InputError
        A value that is not finite or lies outside its range; losses that add up to more than the whole time. The form
        holds for write_time << interval << mtbf; use exact_goodput beyond.

    Assumptions: delta far below tau far below M, and at most one failure at a time. Nothing is clipped at zero.

    >>> round(first_order_goodput(1000.0, 10.0, 50_000.0, restart=500.0), 4)
    0.97

    Source: young1974first, pp. 530-531; with restart and lag added.
    """
    return 1 - write_time / interval - (interval / 2 + restart + lag) / mtbf


@equation(
    "eq-goodput-exact",
    formula="interval / mtbf * exp(-(restart + lag + interval + write_time) / mtbf) / -expm1(-(interval + write_time) / mtbf)",
    domain={"interval": POSITIVE, "mtbf": POSITIVE},
)
def exact_goodput(interval: Num, write_time: Num, mtbf: Num, restart: Num = 0.0, lag: Num = 0.0) -> Num:
    """Share of the time that is work that lasts, exactly, for Poisson failures.

    Formula: G = tau / (M e^((R + lag)/M) (e^((tau + delta)/M) - 1)).

    Parameters
    ----------
    interval : float or array, s
        Work tau between two checkpoints.
    write_time : float or array, s
        Time delta that a checkpoint keeps the job from working.
    mtbf : float or array, s
        Mean time M between failures of the whole job.
    restart : float or array, s
        Time R from a failure until the job works again.
    lag : float or array, s
        Time from the end of a checkpoint's stall until it is complete; 0 when the job waits for it.

    Returns
    -------
    float or array, 1

    Assumptions: failures at a constant rate at all times, restarts and checkpoints included; the long run.

    >>> round(exact_goodput(1000.0, 10.0, 50_000.0, restart=500.0), 4)
    0.9704

    Source: daly2006higher, complete cost function; the lag is derived in the chapter.
    """
    segment = (interval + write_time) / mtbf
    return interval / mtbf * exp(-(restart + lag) / mtbf - segment) / -expm1(-segment)
