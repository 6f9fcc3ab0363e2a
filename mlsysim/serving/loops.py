"""A closed loop in closed form: what prompts add to answers, who waits for the first token, and what the whole completes."""

from mlsysim._numeric import Num, maximum, minimum
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation


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
    "eq-start-wave",
    formula="backlog * max(start / 2, 1 - 1 / load) + min(load, 1) / 2 * prompt_time",
    domain={"start": "[0, 1]", "load": POSITIVE},
)
def prompt_wait(backlog: Num, load: Num, prompt_time: Num, start: Num = 0.0) -> Num:
    """Mean wait of a prompt for the prompts before it, in a closed loop that begins with all of them at once.

    Formula: q = B max(s / 2, 1 - 1 / rho) + min(rho, 1) p / 2.

    Parameters
    ----------
    backlog : float or array, s
        Time B that the prompts of all other requests in flight take one after the other.
    load : float or array, 1
        That time over the time rho from a request's first prompt token to its last answer token: above 1 prompts fall behind.
    prompt_time : float or array, s
        Of a prompt itself.
    start : float or array, 1
        Share s of the run's requests that come together at its beginning; 0 for a loop without a beginning.

    Returns
    -------
    float or array, s

    Assumptions: prompts one by one, first come, first served; at the beginning each waits for half of the others.

    >>> prompt_wait(2.0, load=0.1, prompt_time=0.03, start=0.1), prompt_wait(2.0, load=2.0, prompt_time=0.03)
    (0.1015, 1.015)

    Source: kleinrock1976queueing, fluid approximation; the wave at the beginning is chapter 24's.
    """
    return backlog * maximum(start / 2, 1 - 1 / load) + minimum(load, 1) / 2 * prompt_time


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
