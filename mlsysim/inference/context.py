"""How the cost of a token grows with its context: in full, in a window, by picking, in a state, and in a mixture of these."""

import math

from mlsysim._numeric import Num, minimum, where
from mlsysim.equations import POSITIVE, equation

# Tokens of a chunk of a prompt, and products of a chunk with itself as deep as a key and as a value, by kind of recurrence.
# Mamba-2: chunk_size of mamba_ssm/modules/mamba2.py. The delta rule: torch_chunk_gated_delta_rule. Lightning attention is
# taken as Mamba-2, and Kimi's delta rule as the gated one: their own chunks we have not looked at.
CHUNKS = {"mamba2": (256, 1, 1), "lightning": (256, 1, 1), "gated-delta": (64, 3, 2), "kimi-delta": (64, 3, 2)}


@equation("eq-context-reading", formula="token_bytes * min(tokens, reach) + index_bytes * tokens + 2 * state_bytes")
def context_reading(tokens: Num, token_bytes: Num, reach: Num, index_bytes: Num = 0.0, state_bytes: Num = 0.0) -> Num:
    """Bytes that a decode step moves for one sequence in one layer to remember what came before.

    Formula: R = c min(s, w) + c_x s + 2 S.

    Parameters
    ----------
    tokens : float or array, 1
        Context s: tokens of the sequence so far.
    token_bytes : float or array, byte
        Keys and values of one token in this layer; 0 in a layer that has only a state.
    reach : float or array, 1
        Tokens that the layer reads at most: its window, or the keys that an indexer picks; give tokens (or more) for all.
    index_bytes : float or array, byte
        What an indexer reads of every token to pick from.
    state_bytes : float or array, byte
        State S of the layer; it is read and written back.

    Returns
    -------
    float or array, byte

    Assumptions: each cached key is read once for all the query heads that share it; picked keys cost as much to read as
    neighbouring ones; writing the new key is left out.

    >>> full, window = (context_reading(131072, 4096, reach) for reach in (131072, 1024))
    >>> full / window
    128.0

    Source: deepseek2025v32exp, inference/model.py, class Indexer; it scores every cached key; the window is
    jiang2023mistral, sec. 2, the state gu2023mambarepo.
    """
    return token_bytes * minimum(tokens, reach) + index_bytes * tokens + 2 * state_bytes


@equation(
    "eq-context-work", formula="flops_per_mac * (pair_macs * min(tokens, reach) + index_macs * tokens + state_macs)"
)
def context_work(
    tokens: Num,
    pair_macs: Num,
    reach: Num,
    index_macs: Num = 0.0,
    state_macs: Num = 0.0,
    flops_per_mac: Num = 2.0,
) -> Num:
    """FLOPs of one new token in one layer to use what came before, its matrices left out.

    Formula: F = 2 (m min(s, w) + m_x s + m_S).

    Parameters
    ----------
    tokens : float or array, 1
        Context s: tokens of the sequence so far.
    pair_macs : float or array, 1
        Multiply-adds of a query with one key and its value: heads times the sizes of both.
    reach : float or array, 1
        Tokens that the layer attends to at most: its window, or the keys that an indexer picks; give tokens for all.
    index_macs : float or array, 1
        Multiply-adds of an indexer with one key: its heads times their size.
    state_macs : float or array, 1
        Multiply-adds with the states: each number is met twice, or three times with the delta rule.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-add: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: products only; the softmax, and the search for the largest scores, are not counted.

    >>> context_work(tokens=65536, pair_macs=8192, reach=65536) / context_work(65536, 8192, 1024)
    64.0

    Source: deepseek2025v32exp, inference/model.py, classes Indexer and MLA.
    """
    return flops_per_mac * (pair_macs * minimum(tokens, reach) + index_macs * tokens + state_macs)


@equation(
    "eq-compressed-reading",
    formula="token_bytes * (min(tokens, window) + min(tokens / ratio, picked)) + index_bytes * tokens / ratio",
    domain={"ratio": POSITIVE},
)
def compressed_reading(
    tokens: Num, token_bytes: Num, window: Num, ratio: Num, picked: Num = math.inf, index_bytes: Num = 0.0
) -> Num:
    """Bytes that a decode step reads for one sequence in a layer that keeps a window of tokens and compresses all of them.

    Formula: R = c (min(s, w) + min(s / m, k)) + c_x s / m.

    Parameters
    ----------
    tokens : float or array, 1
        Context s: tokens of the sequence so far.
    token_bytes : float or array, byte
        An entry, of a token in the window or of a group of tokens.
    window : float or array, 1
        Tokens w that are read as they are.
    ratio : float or array, 1
        Tokens m of which one compressed entry is made.
    picked : float or array, 1
        Compressed entries k that an indexer picks at most; all of them unless given.
    index_bytes : float or array, byte
        What an indexer reads of every compressed entry to pick from.

    Returns
    -------
    float or array, byte

    Assumptions: as for eq-context-reading; with multiply-adds in place of bytes, half the FLOPs. What waits to be compressed is left out.

    >>> compressed_reading(tokens=131072, token_bytes=1024, window=128, ratio=128) / 1024
    1152.0

    Source: transformers2026deepseekv4, modeling_deepseek_v4.py, DeepseekV4Attention with its compressors and indexer.
    """
    return token_bytes * (minimum(tokens, window) + minimum(tokens / ratio, picked)) + index_bytes * tokens / ratio


@equation("eq-context-crossover", formula="fixed / (full - growing) if full > growing else inf", may_be_infinite=True)
def context_crossover(fixed: Num, full: Num, growing: Num = 0.0) -> Num:
    """Context from which a layer that forgets is cheaper than one that keeps everything.

    Formula: s* = a / (c - c_x), infinite where a token costs it as much as the other.

    Parameters
    ----------
    fixed : float or array, byte
        What the forgetful layer pays at any length: a filled window, its picked keys, its state.
    full : float or array, byte
        What the full layer pays for every token.
    growing : float or array, byte
        What the forgetful layer still pays for every token: its index.

    Returns
    -------
    float or array, 1
        Tokens; infinite where the forgetful layer grows as fast as the full one, or faster.

    Assumptions: both grow in straight lines, beyond the window. The same rule holds for bytes held, bytes read and FLOPs.

    >>> context_crossover(fixed=2**21, full=4096)
    512.0

    Source: vllm2025hybridkv, Case 4; its attention blocks grow until one holds a state, in the same quotient.
    """
    left = full - growing
    return where(left > 0, fixed / where(left > 0, left, 1.0), math.inf)


@equation(
    "eq-chunk-work",
    formula="flops_per_mac * (chunk * (key_products * key_heads * key_dim + value_products * heads * value_dim)"
    " + touches * heads * key_dim * value_dim)",
)
def chunk_work(
    chunk: Num,
    heads: Num,
    key_heads: Num,
    key_dim: Num,
    value_dim: Num,
    key_products: Num = 1.0,
    value_products: Num = 1.0,
    touches: Num = 2.0,
    flops_per_mac: Num = 2.0,
) -> Num:
    """FLOPs of one token of a prompt in a recurrence that takes its tokens chunk by chunk.

    Formula: F = 2 (C (n_k H_k d_k + n_v H d_v) + u H d_k d_v).

    Parameters
    ----------
    chunk : float or array, 1
        Tokens C of a chunk, which attend to each other as in attention; 0 takes one token after the other, as decode does.
    heads : float or array, 1
        States H of the layer.
    key_heads : float or array, 1
        Heads H_k whose keys are multiplied with queries: the groups of Mamba-2, as many as states in the delta rule.
    key_dim, value_dim : float or array, 1
        Columns and rows of a state.
    key_products, value_products : float or array, 1
        Products of a chunk with itself that are as deep as a key and as a value: 1 and 1 for a decayed sum (Mamba-2,
        lightning attention), 3 and 2 for the gated delta rule.
    touches : float or array, 1
        Products of a chunk with the state: 2 (read, write), or 3 where the old value is read before it is replaced.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-add: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: whole squares are multiplied, the masked half too; the triangular solve of the delta rule is left out.

    >>> chunk_work(chunk=128, heads=1, key_heads=1, key_dim=128, value_dim=128)  # half in the squares, half with the state
    131072.0

    Source: gu2023mambarepo, mamba_ssm/modules/mamba2.py, chunk_size; for the delta rule we counted the products of the
    reference function torch_chunk_gated_delta_rule (hf2025qwen3next).
    """
    inside = key_products * key_heads * key_dim + value_products * heads * value_dim
    return flops_per_mac * (chunk * inside + touches * heads * key_dim * value_dim)


@equation(
    "eq-hybrid-gain",
    formula="full / (full_share * full + (1 - full_share) * near)",
    domain={"full": POSITIVE, "full_share": "[0, 1]"},
    may_be_infinite=True,
)
def hybrid_gain(full: Num, near: Num, full_share: Num) -> Num:
    """How many times less a hybrid pays for its context than a model with full attention in every layer.

    Formula: G = c / (f c + (1 - f) n), which is at most 1 / f.

    Parameters
    ----------
    full : float or array, byte
        What a layer with full attention pays at this context: bytes held, bytes read, or FLOPs.
    near : float or array, byte
        What a forgetful layer pays.
    full_share : float or array, 1
        Share f of the layers that keep full attention.

    Returns
    -------
    float or array, 1
        Infinite where no layer pays anything.

    Assumptions: all layers would otherwise be alike; weights, and what else does not depend on the context, are left out.

    >>> hybrid_gain(full=100.0, near=0.0, full_share=0.25)
    4.0

    Source: amdahl1967validity, with layers for instructions; the form is derived in the chapter.
    """
    paid = full_share * full + (1 - full_share) * near
    return where(paid > 0, full / where(paid > 0, paid, 1.0), math.inf)
