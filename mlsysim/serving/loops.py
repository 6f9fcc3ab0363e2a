"""A closed loop in closed form: interference of prompts with decoding, waits for the first token, and throughput."""

import math

from mlsysim._numeric import Num, maximum
from mlsysim.equations import AT_LEAST_ONE, NON_NEGATIVE, POSITIVE, equation


@equation(
    "eq-closed-loop",
    formula="concurrency / (ttft + (output_len - 1) * itl)",
    domain={"concurrency": POSITIVE, "ttft": POSITIVE, "output_len": AT_LEAST_ONE},
)
def loop_rate(concurrency: Num, ttft: Num, itl: Num, output_len: Num) -> Num:
    """Requests per second of so many users who ask again as soon as their answer ends.

    Formula: X = C / (W + (n - 1) t).

    Parameters
    ----------
    concurrency : float or array, 1
        Requests C in flight.
    ttft : float or array, s
        Mean time W to the first token: queue and prompt.
    itl : float or array, s
        Mean time t per output token after the first.
    output_len : float or array, 1
        Mean tokens n of an answer, its first included.

    Returns
    -------
    float or array, 1/s

    Assumptions: Little's law in a steady state; no pause between requests; lengths and times do not go together.

    >>> loop_rate(64.0, ttft=1.0, itl=0.02, output_len=1001.0)
    3.0476190476190474

    Source: little1961, for the law; the loop is closed as in chapter 24.
    """
    return concurrency / (ttft + (output_len - 1) * itl)


@equation(
    "eq-prompt-share",
    formula="step_time + (1 - 1 / concurrency) * decoding * prompt_time / steps",
    domain={"concurrency": AT_LEAST_ONE, "steps": POSITIVE},
)
def shared_itl(step_time: Num, prompt_time: Num, concurrency: Num, decoding: Num, steps: Num) -> Num:
    """Time per output token where the prompts of others run between the tokens of an answer.

    Formula: t = s + (1 - 1 / C) d p / (n - 1).

    Parameters
    ----------
    step_time : float or array, s
        Step s of answers alone.
    prompt_time : float or array, s
        What a prompt p adds to the steps of its replica.
    concurrency : float or array, 1
        Requests C in flight on the replica, at least 1.
    decoding : float or array, 1
        Of them, how many d decode at a time.
    steps : float or array, 1
        Decode steps n - 1 of an answer.

    Returns
    -------
    float or array, s

    Assumptions: a steady state, in which a prompt comes for every answer that ends; an answer never meets its own prompt.

    >>> round(shared_itl(0.010, 0.200, concurrency=64.0, decoding=64.0, steps=1000.0), 6)
    0.0226

    Source: agrawal2024sarathi, for prompts among answers; the share is chapter 24's.
    """
    return step_time + (1 - 1 / concurrency) * decoding * prompt_time / steps


@equation(
    "eq-answer-order",
    formula="deviation / sqrt(answer_time * (deviation + 2 * prompt_time))",
    domain={"deviation": NON_NEGATIVE, "answer_time": POSITIVE, "prompt_time": POSITIVE},
)
def disorder(deviation: Num, answer_time: Num, prompt_time: Num) -> Num:
    """How far a loop of users has lost the order in which its prompts were computed: 0 where all answers are alike.

    Formula: o = d / sqrt(Z (d + 2 p)).

    Parameters
    ----------
    deviation : float or array, s
        Standard deviation d of the time from a prompt to the next of the same user.
    answer_time : float or array, s
        Mean Z of that time.
    prompt_time : float or array, s
        Of a prompt, p.

    Returns
    -------
    float or array, 1
        Near 1 for times that spread like those of an exponential distribution, and little for those that hardly differ.

    Assumptions: the middle, by ratio, of the spread of a row where nobody returns in order and where everybody does; played
    against requests one by one.

    >>> round(disorder(9.5, answer_time=9.5, prompt_time=0.05), 2), round(disorder(0.6, answer_time=9.5, prompt_time=0.05), 2)
    (0.99, 0.23)

    Source: iglehart1965repairman, for the spread of such a row; the middle is chapter 24's.
    """
    return deviation / (answer_time * (deviation + 2 * prompt_time)) ** 0.5


@equation(
    "eq-prompt-queue",
    formula="sqrt(order / pi * (1 + variation**2) * prompt_time * backlog + (order / pi * max(answer_time + prompt_time - backlog, 0)) ** 2"
    " + max(backlog - answer_time, 0) ** 2) - order / pi * max(answer_time + prompt_time - backlog, 0)",
    domain={
        "backlog": NON_NEGATIVE, "answer_time": POSITIVE, "prompt_time": POSITIVE, "order": NON_NEGATIVE,
        "variation": NON_NEGATIVE,
    },
)  # fmt: skip
def queue_wait(backlog: Num, answer_time: Num, prompt_time: Num, order: Num = 1.0, variation: Num = 0.0) -> Num:
    """Mean wait of a prompt for the prompts before it, where each of so many users sends the next when its answer ends.

    Formula: w = sqrt(o p B (1 + c^2) / pi + b^2 + max(B - Z, 0)^2) - b with b = o max(Z + p - B, 0) / pi.

    Parameters
    ----------
    backlog : float or array, s
        Time B that the prompts of all other users take one after the other.
    answer_time : float or array, s
        Mean time Z from the end of a user's prompt to its next.
    prompt_time : float or array, s
        Of a prompt, p.
    order : float or array, 1
        Disorder o in which users come back, as of :func:`disorder`; 0 where all answers are alike.
    variation : float or array, 1
        Coefficient of variation c of the prompts' times.

    Returns
    -------
    float or array, s

    Assumptions: one prompt at a time, first come, first served; answers go on while prompts run; a steady state. Rows are
    spread as half a normal distribution at saturation.

    >>> round(queue_wait(3.15, answer_time=3.45, prompt_time=0.05), 3)  # 64 users whose answers' times are exponential
    0.139
    >>> queue_wait(3.15, answer_time=3.45, prompt_time=0.05, order=0.0), queue_wait(3.15, answer_time=3.0, prompt_time=0.05, order=0.0)
    (0.0, 0.1499999999999999)

    Source: reiser1980mva, for what a user meets; iglehart1965repairman, for the row at saturation; put together in chapter 24.
    """
    spare = order / math.pi * (maximum(answer_time + prompt_time, backlog) - backlog)
    uneven = order / math.pi * (1 + variation**2) * prompt_time * backlog
    behind = maximum(backlog, answer_time) - answer_time
    root = maximum((uneven + spare**2 + behind**2) ** 0.5, spare)  # of a square, which may be a rounding smaller
    return root - spare


@equation(
    "eq-start-wave",
    formula="start * backlog * (1 + joined) / 2 + (1 - start) * wait",
    domain={"start": "[0, 1]", "joined": "[0, 1]"},
)
def run_wait(wait: Num, backlog: Num, start: Num, joined: Num = 0.0) -> Num:
    """Mean wait of a prompt for the prompts before it over a run that begins with all users at once.

    Formula: q = s B (1 + h) / 2 + (1 - s) w.

    Parameters
    ----------
    wait : float or array, s
        Mean wait w of those who come later, as of :func:`queue_wait`.
    backlog : float or array, s
        Time B that the prompts of all other users take one after the other.
    start : float or array, 1
        Share s of the run's requests that come together at its beginning; 0 for a loop without a beginning.
    joined : float or array, 1
        Share h of all users whose prompts go through one pass and come out at its end; 0 where they run one by one.

    Returns
    -------
    float or array, s

    Assumptions: at the beginning nobody reads yet, so that each waits for half of the others, or for all where one pass takes
    all of them; who comes later finds the row of a loop without a beginning. (Where answers spread as exponential times do,
    the wave takes longer to pass: played at a load of 0.8, runs of ten requests per user wait a quarter longer.)

    >>> round(run_wait(0.01, backlog=2.0, start=0.1), 3), round(run_wait(0.01, backlog=2.0, start=0.1, joined=1.0), 3)
    (0.109, 0.209)

    Source: kleinrock1976queueing, fluid approximation; the mean over a run is chapter 24's.
    """
    return start * backlog * (1 + joined) / 2 + (1 - start) * wait


@equation(
    "eq-pools-rate",
    formula="output_len / (output_len / decode_rate + input_len / prefill_rate)",
    domain={"output_len": POSITIVE, "decode_rate": POSITIVE, "prefill_rate": POSITIVE},
)
def pools_rate(decode_rate: Num, prefill_rate: Num, input_len: Num, output_len: Num) -> Num:
    """Output tokens per second of a device where prompts and answers have pools of their own, devices of both counted.

    Formula: r = n / (n / r_d + p / r_p).

    Parameters
    ----------
    decode_rate : float or array, token/s
        Output tokens r_d per second of a device that decodes.
    prefill_rate : float or array, token/s
        Prompt tokens r_p per second of a device that prefills, cached ones counted in both or in neither.
    input_len : float or array, token
        Prompt tokens p of a request, or of a day.
    output_len : float or array, token
        Output tokens n of the same.

    Returns
    -------
    float or array, token/s

    Assumptions: as many devices in each pool as keep both busy.

    >>> pools_rate(2000.0, 8000.0, input_len=4000.0, output_len=1000.0)
    1000.0

    Source: zhong2024distserve, for the pools; the mean is chapter 24's.
    """
    return output_len / (output_len / decode_rate + input_len / prefill_rate)
