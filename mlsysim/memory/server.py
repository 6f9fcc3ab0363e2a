"""Equations of what a server of language models holds: weights, the peak of a trial step, the pool of the cache, its tokens."""

from mlsysim._numeric import Num, maximum
from mlsysim.equations import COUNT, FRACTION, POSITIVE, equation


@equation(
    "eq-server-weights",
    formula="(quantised * quantised_bytes + whole * element_bytes) / tp + copied * element_bytes",
    domain={"tp": COUNT},
)
def server_weights(
    quantised: Num, quantised_bytes: Num, whole: Num, copied: Num, tp: Num = 1.0, element_bytes: Num = 2.0
) -> Num:
    """Weights on one device of a server: the matrices in few bits, what stays 16-bit beside them, what every rank has.

    Formula: W = (N_q e_q + N_w e) / t + N_c e.

    Parameters
    ----------
    quantised : float or array, 1
        Parameters in the number format of the checkpoint: the matrices of the layers.
    quantised_bytes : float or array, byte
        Bytes of one of them, its share of the scales included.
    whole : float or array, 1
        Parameters that stay as they were: embedding and head, a tower for images.
    copied : float or array, 1
        Numbers that each tensor-parallel rank holds in full: norms, routers, tables of rotary sines and cosines.
    tp : float or array, 1
        Tensor-parallel ranks that divide the rest, at least 1.
    element_bytes : float or array, byte
        Bytes of a number that is not quantised (2).

    Returns
    -------
    float or array, byte

    Assumptions: divided evenly; biases and scales of whole rows are left out of the quantised part.

    >>> round(server_weights(6.979e9, 1, 1.051e9, 131072 * 128) / 1e9, 2)  # Llama 3.1 8B in FP8
    9.11

    Source: planner2026starts, v0.19.0/logs, Model loading took; the count is this chapter's.
    """
    return (quantised * quantised_bytes + whole * element_bytes) / tp + copied * element_bytes


@equation(
    "eq-activation-reserve",
    formula="fixed + max(element_bytes * tokens * (4 * hidden + wide), element_bytes * tokens * (2 * hidden + kept) + "
    "sequences * vocab * logit_bytes)",
)
def activation_reserve(
    tokens: Num,
    hidden: Num,
    wide: Num,
    sequences: Num,
    vocab: Num,
    logit_bytes: Num = 14.0,
    kept: Num = 0.0,
    fixed: Num = 2**25,
    element_bytes: Num = 2.0,
) -> Num:
    """Memory that a server keeps free on a device for the activations of its largest step: the larger of two moments.

    Formula: R = R_0 + max(e T (4 h + w), e T (2 h + w_k) + S V e_l).

    Parameters
    ----------
    tokens : float or array, 1
        Token budget of a step.
    hidden : float or array, 1
        Width of the model.
    wide : float or array, 1
        Numbers per token inside the MLP on one device: gate, up and their product; of experts, for all that a token meets.
    sequences : float or array, 1
        Sequences that may run at a time, each with logits.
    vocab : float or array, 1
        Vocabulary, undivided: every rank gathers all logits.
    logit_bytes : float or array, byte
        Bytes per logit while a token is drawn: the 16-bit logit and, in 32 bits, logit, probability and random number.
    kept : float or array, 1
        Of ``wide``, what an expert layer keeps for the next step while tokens are drawn; 0 without experts.
    fixed : float or array, byte
        Workspace of the matrix library (32 MiB on Hopper).
    element_bytes : float or array, byte
        Size of one activation.

    Returns
    -------
    float or array, byte

    Assumptions: the layers' moment holds four rows of the width (the residual, what the attention gave, what enters and
    what leaves the MLP), the drawing of tokens two of them (the residual, and what the last layer gave).

    >>> round(activation_reserve(8192, 4096, 3 * 14336, 1024, 128256) / 2**30, 2)  # the log says 1.89
    1.87

    Source: vllm2025engine, Worker.determine_available_memory; the trial step; the count is chapter 17's.
    """
    layers = element_bytes * tokens * (4 * hidden + wide)
    drawing = element_bytes * tokens * (2 * hidden + kept) + sequences * vocab * logit_bytes
    return fixed + maximum(layers, drawing)


@equation(
    "eq-server-pool",
    formula="usable * capacity - weights - activations - runtime",
    domain={"usable": FRACTION},
    relations=("weights + activations + runtime <= usable * capacity",),
)
def server_pool(capacity: Num, usable: Num, weights: Num, activations: Num, runtime: Num) -> Num:
    """Memory of one device that a server hands out as cache: its share of the device less all that it holds.

    Formula: M = u C - W - R - X.

    Parameters
    ----------
    capacity : float or array, byte
        Memory of the device as its driver reports it.
    usable : float or array, 1
        Share that the server takes, above 0 and up to 1.
    weights, activations : float or array, byte
        Loaded weights, and the peak of the trial step.
    runtime : float or array, byte
        What stands outside the tensors: the context of the driver, buffers of the collectives.

    Returns
    -------
    float or array, byte

    Assumptions: captured graphs come on top of the share (vLLM up to 0.19).

    >>> round(server_pool(85.03e9, 0.95, 16.1e9, 2.03e9, 0.27e9) / 1e9, 1)
    62.4

    Source: vllm2025engine, Worker.determine_available_memory.
    """
    return usable * capacity - weights - activations - runtime


@equation(
    "eq-server-tokens",
    formula="pool // (block_tokens * layer_bytes * group_layers) // groups * block_tokens",
    domain={"layer_bytes": POSITIVE, "group_layers": COUNT, "groups": COUNT, "block_tokens": POSITIVE},
)
def server_tokens(pool: Num, layer_bytes: Num, group_layers: Num, groups: Num = 1.0, block_tokens: Num = 16.0) -> Num:
    """Tokens that a pool holds when every block belongs to one group of layers, and groups are equally long.

    Formula: n = floor(floor(M / (B b L_g)) / g) B.

    Parameters
    ----------
    pool : float or array, byte
        Memory for cache on one device.
    layer_bytes : float or array, byte
        Cache of one token in one layer on that device.
    group_layers : float or array, 1
        Layers of one group: all of them, or as many as there are of the rarer kind where some have a window.
    groups : float or array, 1
        Groups that a token needs a block of each.
    block_tokens : float or array, 1
        Tokens in a block.

    Returns
    -------
    float or array, 1

    Assumptions: a token inside every window; groups that do not come out even are filled up with unused layers.

    >>> server_tokens(58_110_907_515, 2 * 8 * 256 * 2, 21, groups=2)  # Gemma 2 9B: 21 layers of each kind; the log says 168,880
    168880.0

    Source: vllm2026groups, get_kv_cache_config_from_groups.
    """
    return pool // (block_tokens * layer_bytes * group_layers) // groups * block_tokens


@equation("eq-static-workspace", formula="element_bytes * batch * seq * (15 * hidden + heads * seq)")
def static_workspace(batch: Num, seq: Num, hidden: Num, heads: Num, element_bytes: Num = 2.0) -> Num:
    """Buffers of a runtime that gives each tensor of a layer its own place for the longest batch, scores included.

    Formula: M = e b s (15 h + a s).

    Parameters
    ----------
    batch : float or array, 1
        Sequences that it was built for.
    seq : float or array, 1
        Tokens of a prompt.
    hidden : float or array, 1
        Width of the model.
    heads : float or array, 1
        Query heads, whose scores are written to memory.
    element_bytes : float or array, byte
        Size of one activation.

    Returns
    -------
    float or array, byte

    Assumptions: multi-head attention, an ungated MLP of width 4 h. Fifteen rows of the width: the product of queries, keys
    and values and its transposed copy (3 each), attention's output (1), the MLP's middle (4), input, output, and two norms.

    >>> static_workspace(64, 512, 4096, 32) / 1e9
    5.100273664

    Source: fastertransformer2023, layers of the context decoder; the count is ours.
    """
    return element_bytes * batch * seq * (15 * hidden + heads * seq)
