"""A replica that batches: what it completes, how slowly its tokens come, and where the curve of the two bends.

``steps`` are the decode steps of a request: its output tokens less the first, which the prompt pass makes.
"""

from mlsysim._numeric import Num
from mlsysim.capacity.queues import SHARE
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation

_CYCLE_DOMAIN = {"batch": AT_LEAST_ONE, "step_time": POSITIVE, "steps": POSITIVE}


@equation("eq-request-capacity", formula="batch / (batch * prefill_time + steps * step_time)", domain=_CYCLE_DOMAIN)
def request_capacity(batch: Num, prefill_time: Num, step_time: Num, steps: Num) -> Num:
    """Requests per second that a replica completes while it keeps so many in its batch.

    Formula: X(b) = b / (b t_p + n t(b)).

    Parameters
    ----------
    batch : float or array, 1
        Requests in the batch, at least 1.
    prefill_time : float or array, s
        Time of one prompt pass, during which the others do not decode.
    step_time : float or array, s
        Time of a decode step of that batch.
    steps : float or array, 1
        Decode steps of a request, more than zero.

    Returns
    -------
    float or array, 1/s

    Assumptions: a finished request is replaced at once; prompt passes and decode steps take turns on the same
    devices; nothing runs beside them.

    >>> request_capacity(batch=32, prefill_time=0.05, step_time=0.02, steps=200)
    5.714285714285714

    Source: yu2022orca, iteration-level scheduling; a batch that requests join and leave between steps.
    """
    return batch / (batch * prefill_time + steps * step_time)


@equation("eq-loaded-itl", formula="step_time + (batch - 1) * prefill_time / steps", domain=_CYCLE_DOMAIN)
def loaded_itl(batch: Num, prefill_time: Num, step_time: Num, steps: Num) -> Num:
    """Mean time between the tokens of a request whose batch also takes in the prompts of the others.

    Formula: ITL(b) = t(b) + (b - 1) t_p / n.

    Parameters
    ----------
    batch : float or array, 1
        Requests in the batch, at least 1.
    prefill_time : float or array, s
        Time of one prompt pass, during which the others do not decode.
    step_time : float or array, s
        Time of a decode step of that batch.
    steps : float or array, 1
        Decode steps of a request, more than zero.

    Returns
    -------
    float or array, s

    Assumptions: those of eq-request-capacity; while a request decodes, each of the other places of the batch is
    refilled once. Chunked prefill spreads the same time more evenly.

    >>> round(loaded_itl(batch=32, prefill_time=0.05, step_time=0.02, steps=200), 5)
    0.02775

    Source: agrawal2024sarathi, generation stalls; the effect; the mean is chapter 8's.
    """
    return step_time + (batch - 1) * prefill_time / steps


@equation(
    "eq-knee",
    formula="fixed_time / (time_per_sequence + prefill_time / steps)",
    domain={"time_per_sequence": POSITIVE, "steps": POSITIVE},
)
def knee_batch(fixed_time: Num, time_per_sequence: Num, prefill_time: Num = 0.0, steps: Num = 1.0) -> Num:
    """Batch at the knee: half of the largest throughput, at twice the shortest residence.

    Formula: b* = t_0 / (t_1 + t_p / n).

    Parameters
    ----------
    fixed_time : float or array, s
        The part of a decode step that does not grow with the batch: reading the weights.
    time_per_sequence : float or array, s
        What each sequence adds to a step, more than zero: reading its cache.
    prefill_time : float or array, s
        Time of one prompt pass.
    steps : float or array, 1
        Decode steps of a request, more than zero.

    Returns
    -------
    float or array, 1

    Assumptions: a decode step of b sequences takes t_0 + b t_1: true as long as it is memory-bound.

    >>> knee_batch(fixed_time=0.01, time_per_sequence=40e-6, prefill_time=0.05, steps=500)
    71.42857142857142

    Source: kleinrock2018power, power metric; the knee is where throughput over delay is largest.
    """
    return fixed_time / (time_per_sequence + prefill_time / steps)


@equation("eq-goodput", formula="rate * (1 - late) * in_pace", domain={"late": SHARE, "in_pace": SHARE})
def goodput(rate: Num, late: Num, in_pace: Num = 1.0) -> Num:
    """Requests per second that meet both targets: the first token in time, and the others at the pace.

    Formula: G = lambda (1 - P(late)) P(in pace).

    Parameters
    ----------
    rate : float or array, 1/s
        Requests per second that come (and, in a stable system, leave).
    late : float or array, 1
        Share whose first token comes after its target.
    in_pace : float or array, 1
        Share whose time between tokens meets its target.

    Returns
    -------
    float or array, 1/s

    Assumptions: the two are independent. They are not quite: a full batch makes both worse, so that the true
    share lies above the product.

    >>> goodput(10.0, late=0.05, in_pace=0.9)
    8.55

    Source: zhong2024distserve, abstract.
    """
    return rate * (1 - late) * in_pace
