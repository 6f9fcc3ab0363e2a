"""Closed forms of what servers do beyond plain prefill and decode, each with where it holds."""

from mlsysim._numeric import Num, maximum, where
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation

_LONGEST_DRAFT = 64  # guesses of a pass


@equation(
    "eq-chunked-prefill",
    formula="chunks * weight_bytes + batch * token_bytes * input_len * (chunks - 1) / 2",
    domain={"chunks": "[1, inf) whole"},
)
def chunked_prefill_bytes(weight_bytes: Num, batch: Num, input_len: Num, token_bytes: Num, chunks: Num) -> Num:
    """What a prompt reads when it is worked through in equal chunks: the weights, and the cache so far, once per chunk.

    Formula: M = n W + b kappa s (n - 1) / 2.

    Parameters
    ----------
    weight_bytes : float or array, byte
        Weights that a pass meets.
    batch : float or array, 1
        Sequences b.
    input_len : float or array, 1
        Tokens s of the prompt.
    token_bytes : float or array, byte
        Cache of one token over all layers.
    chunks : float or array, 1
        Equal chunks n, a whole number.

    Returns
    -------
    float or array, byte

    Assumptions: chunk i reads the (i - 1) s / n tokens before it. The FLOPs are the same in any number of chunks, so
    chunking costs time only where these bytes (or the overhead of n passes) take longer than the arithmetic.

    >>> chunked_prefill_bytes(10.0, 1, 100, 0.1, chunks=1), chunked_prefill_bytes(10.0, 1, 100, 0.1, chunks=4)
    (10.0, 55.0)

    Source: agrawal2024sarathi, abstract, chunked prefills; the bytes are derived in the chapter.
    """
    return chunks * weight_bytes + batch * token_bytes * input_len * (chunks - 1) / 2


@equation(
    "eq-speculative-tokens",
    formula="(1 - acceptance ** (draft_len + 1)) / (1 - acceptance)",
    domain={"acceptance": "[0, 1]"},
)
def speculative_tokens(acceptance: Num, draft_len: Num) -> Num:
    """Expected tokens that one pass of the target model yields when a draft model guesses ahead.

    Formula: E = (1 - alpha^(gamma + 1)) / (1 - alpha), and gamma + 1 where alpha is 1.

    Parameters
    ----------
    acceptance : float or array, 1
        Probability alpha that a guessed token is accepted.
    draft_len : float or array, 1
        Guesses gamma per pass.

    Returns
    -------
    float or array, 1

    Assumptions: acceptances are independent and equally likely; the pass itself yields one token more than it accepts.

    >>> speculative_tokens(0.5, 2), speculative_tokens(1.0, 2)
    (1.75, 3.0)

    Source: leviathan2023speculative, expected tokens per pass.
    """
    return _run(acceptance, draft_len)


def _run(acceptance: Num, draft_len: Num) -> Num:
    """Terms of the geometric sum 1 + alpha + ... + alpha^gamma, added up; its limit where alpha is 1."""
    missed = where(acceptance < 1, 1 - acceptance, 1.0)
    return (1 - acceptance ** (draft_len + 1)) / missed + where(acceptance < 1, 0.0, draft_len + 1.0)


@equation(
    "eq-fading-tokens",
    formula="1 + fading_run(acceptance, fading, draft_len)",
    domain={"acceptance": "[0, 1]", "fading": "[0, 1]", "draft_len": "[0, 64] whole"},
)
def fading_tokens(acceptance: Num, fading: Num, draft_len: Num) -> Num:
    """Expected tokens of one pass of the target model when each guess is less likely right than the one before it.

    Formula: E = 1 + sum_(k=1)^gamma alpha^k rho^(k (k - 1) / 2).

    Parameters
    ----------
    acceptance : float or array, 1
        Probability alpha that the first guess is accepted.
    fading : float or array, 1
        Factor rho from the chance of one position, if all before it were accepted, to that of the next; 1 gives eq-speculative-tokens.
    draft_len : float or array, 1
        Guesses gamma per pass, a whole number.

    Returns
    -------
    float or array, 1

    Assumptions: a chain of guesses, not a tree; the same factor at every position.

    >>> fading_tokens(0.5, 1.0, 2), fading_tokens(0.8, 0.5, 2)
    (1.75, 2.12)

    Source: vllm2026acceptance, expected_acceptance_lengths_per_pos; chances by position are printed there, the factor is ours.
    """
    total, chance, run = 1.0, acceptance, 1.0
    for position in range(1, _LONGEST_DRAFT + 1):
        run = run * where(position <= draft_len, chance, 0.0)
        total, chance = total + run, chance * fading
    return total


@equation(
    "eq-speculative-speedup",
    formula="(1 - acceptance ** (draft_len + 1)) / ((1 - acceptance) * (draft_len * draft_cost + verify_cost))",
    domain={"acceptance": "[0, 1]", "verify_cost": POSITIVE},
)
def speculative_speedup(acceptance: Num, draft_len: Num, draft_cost: Num, verify_cost: Num = 1.0) -> Num:
    """How much faster decoding becomes with speculation; below 1 it becomes slower.

    Formula: S = E / (gamma c + v), with E of eq-speculative-tokens.

    Parameters
    ----------
    acceptance : float or array, 1
        Probability alpha that a guessed token is accepted.
    draft_len : float or array, 1
        Guesses gamma per pass.
    draft_cost : float or array, 1
        Time c of one step of the draft model over one of the target.
    verify_cost : float or array, 1
        Time v of a target pass over gamma + 1 tokens over that of a plain step. 1, as in the source, while the step is
        memory-bound; more at large batch.

    Returns
    -------
    float or array, 1

    Assumptions: as for eq-speculative-tokens; draft and target take turns.

    >>> round(speculative_speedup(0.8, 4, 0.05), 4)
    2.8013

    Source: leviathan2023speculative, expected improvement of the walltime; it has v = 1.
    """
    return _run(acceptance, draft_len) / (draft_len * draft_cost + verify_cost)


@equation(
    "eq-kv-transfer",
    formula="latency + max(bytes / (layers * bandwidth), bytes / bandwidth - prefill_time * (layers - 1) / layers)",
    domain={"bandwidth": POSITIVE, "layers": AT_LEAST_ONE},
)
def kv_transfer_time(bytes: Num, bandwidth: Num, layers: Num = 1.0, prefill_time: Num = 0.0, latency: Num = 0.0) -> Num:
    """What a request waits for its cache to move from the prefill to the decode machines.

    Formula: T = alpha + max(M / (L BW), M / BW - T_prefill (L - 1) / L).

    Parameters
    ----------
    bytes : float or array, byte
        Cache M of the prompt.
    bandwidth : float or array, byte/s
        All links between the two groups of devices together, one way.
    layers : float or array, 1
        Layers L that are sent as soon as each is done; 1 sends everything at the end.
    prefill_time : float or array, s
        Time of the prompt pass, which hides the transfer of all layers but the last.
    latency : float or array, s
        Cost of setting up.

    Returns
    -------
    float or array, s

    Assumptions: layers take equally long; the links are otherwise idle.

    >>> kv_transfer_time(1e9, 50e9), kv_transfer_time(1e9, 50e9, layers=80, prefill_time=0.1)
    (0.02, 0.00025)

    Source: patel2024splitwise, abstract, state transfer; the overlap is derived in the chapter.
    """
    whole = bytes / bandwidth
    return latency + maximum(bytes / (layers * bandwidth), whole - prefill_time * (layers - 1) / layers)


@equation(
    "eq-disaggregation",
    formula="prefill_time * decode_batch / ((output_len - 1) * itl)",
    domain={"output_len": "(1, inf)", "itl": POSITIVE},
)
def prefill_replicas(prefill_time: Num, decode_batch: Num, output_len: Num, itl: Num) -> Num:
    """Prefill machines that keep one decode machine busy, when the two phases run apart.

    Formula: n_p / n_d = T_prefill b / ((n - 1) ITL).

    Parameters
    ----------
    prefill_time : float or array, s
        Time that a prefill machine spends on one request.
    decode_batch : float or array, 1
        Requests b that a decode machine works on together.
    output_len : float or array, 1
        Tokens n of an answer, above 1.
    itl : float or array, s
        Time of a decode step at that batch.

    Returns
    -------
    float or array, 1

    Assumptions: steady state; both kinds fully busy; every request like the others.

    >>> prefill_replicas(0.1, 64, 201, 0.032)
    1.0

    Source: zhong2024distserve, abstract; the balance is derived in the chapter.
    """
    return prefill_time * decode_batch / ((output_len - 1) * itl)
