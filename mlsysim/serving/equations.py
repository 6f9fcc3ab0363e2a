"""What can be said of a simulated server in closed form: chunks, blocks, saturation, overload and quantiles."""

from mlsysim._numeric import Num, exp, expm1, maximum, minimum, where
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation


@equation(
    "eq-prompt-steps",
    formula="-(-tokens // (budget - running))",
    domain={"tokens": AT_LEAST_ONE, "budget": AT_LEAST_ONE},
    relations=("running < budget",),
)
def prompt_steps(tokens: Num, budget: Num, running: Num = 0.0) -> Num:
    """Steps that a prompt takes when it is worked on in chunks between the tokens of running sequences.

    Formula: k = ceil(p / (T - d)).

    Parameters
    ----------
    tokens : float or array, 1
        Tokens of the prompt that are not cached, at least 1.
    budget : float or array, 1
        Tokens of a step, more than the running sequences.
    running : float or array, 1
        Sequences that decode beside it, one token of the budget each.

    Returns
    -------
    float or array, 1

    Assumptions: no other prompt is ahead of it; as many sequences run in every one of the steps.

    >>> prompt_steps(4000.0, budget=2048.0), prompt_steps(4000.0, budget=2048.0, running=256.0)
    (2.0, 3.0)

    Source: agrawal2024sarathi, chunked prefills and stall-free schedules.
    """
    return -(-tokens // (budget - running))


@equation(
    "eq-prompt-computed",
    formula="input_len - min(cached_len, input_len - 1) // block_tokens * block_tokens",
    domain={"input_len": AT_LEAST_ONE, "block_tokens": AT_LEAST_ONE},
)
def prompt_computed(input_len: Num, cached_len: Num, block_tokens: Num = 16.0) -> Num:
    """Tokens of a prompt that a server with a prefix cache still works on.

    Formula: p' = p - floor(min(x, p - 1) / B) B.

    Parameters
    ----------
    input_len : float or array, 1
        Tokens of the prompt, at least 1.
    cached_len : float or array, 1
        Leading tokens whose keys and values are cached.
    block_tokens : float or array, 1
        Tokens in a block of cache.

    Returns
    -------
    float or array, 1

    Assumptions: only whole blocks are found again; the last token is always computed, since the answer starts from it.

    >>> prompt_computed(1000.0, 100.0), prompt_computed(1024.0, 1024.0)
    (904.0, 16.0)

    Source: vllm2025engine, KVCacheManager.get_computed_blocks.
    """
    return input_len - minimum(cached_len, input_len - 1) // block_tokens * block_tokens


@equation(
    "eq-saturation-rate",
    formula="min(running / steps, budget / (tokens + steps)) / step_time",
    domain={"steps": POSITIVE, "tokens": POSITIVE, "step_time": POSITIVE},
)
def saturation_rate(running: Num, steps: Num, budget: Num, tokens: Num, step_time: Num) -> Num:
    """Requests per second that a full server completes: what its places finish, or what the budget has tokens for.

    Formula: X = min(c / n, T / (p + n)) / t_step.

    Parameters
    ----------
    running : float or array, 1
        Sequences c that may decode at a time: places, or as many as fit into the cache.
    steps : float or array, 1
        Decode steps n of a request: its output tokens less the first.
    budget : float or array, 1
        Token budget T of a step.
    tokens : float or array, 1
        Tokens p of a prompt that are not cached.
    step_time : float or array, s
        Time t_step of the mean step, with X t_step prompts and the X t_step n sequences that decode beside them.

    Returns
    -------
    float or array, 1/s

    Assumptions: a steady state in which a new prompt follows each finished request; requests are alike; every step is.

    >>> saturation_rate(256.0, steps=200.0, budget=2048.0, tokens=1000.0, step_time=0.5)
    2.56

    >>> saturation_rate(256.0, steps=200.0, budget=2048.0, tokens=2872.0, step_time=0.5)
    1.3333333333333333

    Source: agrawal2024sarathi, chunked prefills and stall-free schedules; the batch; the rate is chapter 17's.
    """
    return minimum(running / steps, budget / (tokens + steps)) / step_time


@equation("eq-overload-wait", formula="max(0, rate / capacity - 1) * time", domain={"capacity": POSITIVE})
def overload_wait(rate: Num, capacity: Num, time: Num) -> Num:
    """Wait of the request that comes a time after an overload began.

    Formula: w(t) = max(0, lambda / X - 1) t.

    Parameters
    ----------
    rate : float or array, 1/s
        Requests that come per second.
    capacity : float or array, 1/s
        Requests that the full server completes per second.
    time : float or array, s
        When it comes, counted from the start with an empty queue.

    Returns
    -------
    float or array, s

    Assumptions: flows without chance; first come, first served. The queue has no steady state.

    >>> overload_wait(15.0, capacity=10.0, time=600.0)
    300.0

    Source: kleinrock1976queueing, fluid approximation.
    """
    return maximum(0, rate / capacity - 1) * time


@equation(
    "eq-turned-away",
    formula="blocking / ((1 - blocking) * exp(min(700, (capacity - rate) * patience)) "
    "+ blocking * (1 + capacity * (exp(min(700, (capacity - rate) * patience)) - 1) / (capacity - rate)))",
    domain={"rate": POSITIVE, "capacity": POSITIVE, "blocking": "[0, 1]"},
)
def turned_away(rate: Num, capacity: Num, blocking: Num, patience: Num) -> Num:
    """Share of the requests that a server turns away if it takes no request that would wait longer than its patience.

    Formula: R = B / ((1 - B) e^(d T) + B (1 + X (e^(d T) - 1) / d)), with d = X - lambda.

    Parameters
    ----------
    rate : float or array, 1/s
        Requests per second that come, also more than can be completed.
    capacity : float or array, 1/s
        Requests per second that the full system completes.
    blocking : float or array, 1
        Share B that would be turned away if nobody might wait (Erlang B).
    patience : float or array, s
        Longest wait T that a request is taken with.

    Returns
    -------
    float or array, 1

    Assumptions: Poisson arrivals, memoryless service; the server knows how long a request would wait. Those that it takes wait
    in order of arrival and none leaves the queue.

    >>> [round(turned_away(12.0, 10.0, 0.3, wait), 3) for wait in (0.0, 1.0, 100.0)]
    [0.3, 0.177, 0.167]

    Source: qin2024mooncake, early rejection; for who is turned away, the share is derived in the chapter.
    """
    drain = capacity - rate
    drained = minimum(drain * patience, 700.0)  # beyond, nobody is turned away
    waits = where(drain == 0, patience, expm1(drained) / where(drain == 0, 1.0, drain))
    return blocking / ((1 - blocking) * exp(drained) + blocking * (1 + capacity * waits))


@equation("eq-sample-quantile", formula="below + (rank - rank // 1) * (above - below)")
def sample_quantile(rank: Num, below: Num, above: Num) -> Num:
    """A percentile between two sorted samples.

    Formula: x_q = x_(i) + (r - i) (x_(i+1) - x_(i)), r = q (N - 1), i = floor(r), counted from zero.

    Parameters
    ----------
    rank : float or array, 1
        Place r = q (N - 1) of the quantile q among N sorted samples, from zero.
    below, above : float or array, s
        The samples at floor(r) and at the next place.

    Returns
    -------
    float or array, s

    Assumptions: linear between two samples (definition 7 of nine; the default of NumPy). Of fewer than about 100
    samples a p99 is hardly more than their maximum.

    >>> sample_quantile(rank=1.5, below=10.0, above=20.0)
    15.0

    Source: hyndman1996quantiles, definition 7.
    """
    return below + (rank - rank // 1) * (above - below)
