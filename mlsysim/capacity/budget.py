"""How many sequences run at the same time: what memory is left for cache, over what one sequence holds."""

from mlsysim._numeric import Num
from mlsysim.equations import AT_LEAST_ONE, FRACTION, POSITIVE, equation


@equation(
    "eq-kv-budget",
    formula="devices * (usable * capacity - reserve) - weights",
    domain={"devices": AT_LEAST_ONE, "usable": FRACTION},
    relations=("weights <= devices * (usable * capacity - reserve)",),
)
def kv_budget(capacity: Num, weights: Num, devices: Num = 1.0, usable: Num = 1.0, reserve: Num = 0.0) -> Num:
    """Memory that is left for cache when the weights are loaded.

    Formula: M_KV = N (u C - R) - W.

    Parameters
    ----------
    capacity : float or array, byte
        Memory of one device.
    weights : float or array, byte
        Weights on all the devices together.
    devices : float or array, 1
        Devices of one replica, at least 1.
    usable : float or array, 1
        Share of the capacity that the engine takes for itself, above 0 and up to 1.
    reserve : float or array, byte
        Activations, workspaces and contexts on each device.

    Returns
    -------
    float or array, byte

    Raises
    ------
    InputError
        A value that is not finite or lies outside its range; weights that do not fit: use more devices, or smaller weights.

    Assumptions: weights and cache are spread evenly; what the engine does not take, it never uses.

    >>> kv_budget(80e9, 140e9, devices=4, usable=0.9) / 1e9
    148.0

    Source: kwon2023vllm, fig. 1 and table 1.
    """
    return devices * (usable * capacity - reserve) - weights


@equation(
    "eq-held-tokens",
    formula="input_len + output_len / 2 * (1 + variation**2)",
)
def held_tokens(input_len: Num, output_len: Num, variation: Num = 0.0) -> Num:
    """Tokens that a running sequence holds in the cache, on average over time.

    Formula: s = s_in + s_out / 2 x (1 + c_out^2).

    Parameters
    ----------
    input_len : float or array, 1
        Tokens of the prompt.
    output_len : float or array, 1
        Tokens of the answer.
    variation : float or array, 1
        Coefficient of variation of the answers' lengths, standard deviation over mean.

    Returns
    -------
    float or array, 1

    Assumptions: the cache grows token by token and is freed at the last one; steps take equally long; the length of
    an answer has nothing to do with that of its prompt. A look at a random time finds long answers more often than
    they are sent: hence the square.

    >>> held_tokens(1000, 200), held_tokens(1000, 200, variation=1.0)
    (1100.0, 1200.0)

    Source: kwon2023vllm, sec. 3.1; a slot is taken when its token is made; the average over time is chapter 8's.
    """
    return input_len + output_len / 2 * (1 + variation**2)


@equation(
    "eq-concurrency",
    formula="budget // (-(-tokens // block_tokens) * block_tokens * token_bytes)",
    domain={"tokens": POSITIVE, "token_bytes": POSITIVE, "block_tokens": POSITIVE},
)
def concurrency(budget: Num, tokens: Num, token_bytes: Num, block_tokens: Num = 16.0) -> Num:
    """Whole sequences that fit into the memory for cache, each in whole blocks.

    Formula: c = floor(M_KV / (ceil(s / B) B tau)).

    Parameters
    ----------
    budget : float or array, byte
        Memory for cache.
    tokens : float or array, 1
        Tokens that one sequence holds, more than zero.
    token_bytes : float or array, byte
        Cache of one token over all layers, on the devices that the budget counts.
    block_tokens : float or array, 1
        Tokens in a block, more than zero (16 is vLLM's default).

    Returns
    -------
    float or array, 1

    Assumptions: every sequence holds the same number of tokens; no block is shared between sequences.

    >>> concurrency(1e9, tokens=1000, token_bytes=100e3)
    9.0

    Source: kwon2023vllm, sec. 4.1 to 4.3.
    """
    return budget // (-(-tokens // block_tokens) * block_tokens * token_bytes)
