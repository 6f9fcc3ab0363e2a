"""Work of one token: weight matrices, attention core, what is done twice, and a whole run."""

from mlsysim._numeric import Num, minimum
from mlsysim.equations import AT_LEAST_ONE, equation


@equation("eq-forward-flops", formula="parameters * flops_per_mac")
def forward_matmul_flops(parameters: Num, flops_per_mac: Num = 2.0) -> Num:
    """Work of one token in the weight matrices, forward.

    Formula: F = 2 N.

    Parameters
    ----------
    parameters : float or array, 1
        Weights that the token is multiplied with; an embedding that is only looked up is not one of them.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: each weight meets each token once; biases, norms and activations are not counted; no attention core.

    >>> forward_matmul_flops(7.5e9)
    15000000000.0

    Source: kaplan2020scaling, sec. 2.1.
    """
    return parameters * flops_per_mac


@equation("eq-flops-per-token", formula="parameters * flops_per_mac * (1 + gradients)")
def matmul_flops_per_token(parameters: Num, flops_per_mac: Num = 2.0, gradients: Num = 2.0) -> Num:
    """Work of one token in the weight matrices, forward and backward: the famous 6 N.

    Formula: F = 2 N (1 + 2) = 6 N.

    Parameters
    ----------
    parameters : float or array, 1
        Weights that the token is multiplied with; in a mixture of experts only the active ones.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.
    gradients : float or array, 1
        Products of the same size in the backward pass: one for the gradient of the input, one for that of the weight.

    Returns
    -------
    float or array, FLOP

    Assumptions: those of the forward pass; nothing is recomputed; the optimiser's own work is not counted.

    >>> matmul_flops_per_token(175e9)
    1050000000000.0

    Source: brown2020gpt3, app. D.
    """
    return parameters * flops_per_mac * (1 + gradients)


@equation(
    "eq-attention-context",
    formula="min(window, seq) - min(window, seq) * (min(window, seq) - 1) / (2 * seq)",
    domain={"seq": AT_LEAST_ONE, "window": AT_LEAST_ONE},
)
def attention_context(seq: Num, window: Num) -> Num:
    """Keys that a query sees under a causal mask, on average over the sequence.

    Formula: c = w - w (w - 1) / (2 s), with w = min(window, s); without a window c = (s + 1) / 2.

    Parameters
    ----------
    seq : float or array, 1
        Tokens of the sequence.
    window : float or array, 1
        Last tokens that a query may see, itself included; give seq (or more) for no window.

    Returns
    -------
    float or array, 1

    Assumptions: position i sees min(i, w) keys; kernels do no work on masked blocks. Full attention has c = s.

    >>> attention_context(seq=8192, window=8192)
    4096.5

    Source: dao2023flashattention2, sec. 4.1; it halves for a causal mask; the window is jiang2023mistral, sec. 2.
    """
    width = minimum(window, seq)
    return width - width * (width - 1) / (2 * seq)


@equation("eq-attention-flops", formula="layers * context * heads * (qk_dim + v_dim) * flops_per_mac")
def attention_core_flops(
    layers: Num, context: Num, heads: Num, qk_dim: Num, v_dim: Num, flops_per_mac: Num = 2.0
) -> Num:
    """Work of one token in the attention core, forward: scores and their sum over values.

    Formula: F = 2 L c H (d_qk + d_v), which is 4 L s H d when every key counts and both sizes are d.

    Parameters
    ----------
    layers : float or array, 1
        Layers with this attention.
    context : float or array, 1
        Keys per query: the sequence length when all are counted, the mean under a causal mask or a window otherwise.
    heads : float or array, 1
        Query heads; sharing keys and values saves bytes, not work.
    qk_dim, v_dim : float or array, 1
        Size of a query (and key) and of a value of one head.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: matrix products only (the softmax is not counted); the backward pass costs twice as much.

    >>> attention_core_flops(layers=32, context=4096.5, heads=32, qk_dim=128, v_dim=128)
    2147745792.0

    Source: chowdhery2022palm, app. B.
    """
    return layers * context * heads * (qk_dim + v_dim) * flops_per_mac


@equation("eq-recompute-flops", formula="layer_share * layers_forward + core_share * core_forward")
def recompute_flops(layers_forward: Num, core_forward: Num, layer_share: Num, core_share: Num) -> Num:
    """Work of one token that is done a second time because its activations were not kept.

    Formula: F = a F_layers + b F_core; full recomputation has a = b = 1, selective a = 0 and b = 1.

    Parameters
    ----------
    layers_forward : float or array, FLOP
        Forward work in the weight matrices of the layers, without the LM head.
    core_forward : float or array, FLOP
        Forward work of the attention core.
    layer_share : float or array, 1
        Share of the layers' matrix work that is done again.
    core_share : float or array, 1
        Share of the attention core that is done again.

    Returns
    -------
    float or array, FLOP

    Assumptions: the LM head is never recomputed; a fused attention kernel recomputes its scores whatever one asks for
    (not counted here, as in every published convention).

    >>> recompute_flops(2e9, 1e8, layer_share=0, core_share=1)
    100000000.0

    Source: korthikanti2022recompute, app. A.
    """
    return layer_share * layers_forward + core_share * core_forward


@equation("eq-train-flops-per-token", formula="matmul + core_forward * (1 + gradients) + recomputed")
def train_flops_per_token(matmul: Num, core_forward: Num, recomputed: Num = 0.0, gradients: Num = 2.0) -> Num:
    """Work of one token in a training step, exactly: 6 N + 12 L s H d, and whatever is done twice.

    Formula: F = F_matmul + 3 F_core + F_recomputed.

    Parameters
    ----------
    matmul : float or array, FLOP
        Forward and backward work in the weight matrices.
    core_forward : float or array, FLOP
        Forward work of the attention core.
    recomputed : float or array, FLOP
        Work done a second time: 0 gives model FLOPs, anything else hardware FLOPs.
    gradients : float or array, 1
        Products of the same size in the backward pass of the core, two for each of its two products.

    Returns
    -------
    float or array, FLOP

    Assumptions: matrix products only; the optimiser's own work is not counted.

    >>> train_flops_per_token(matmul=6e9, core_forward=1e9)
    9000000000.0

    Source: chowdhery2022palm, app. B.
    """
    return matmul + core_forward * (1 + gradients) + recomputed


@equation("eq-lora-flops", formula="(2 * frozen + 3 * adapters) * flops_per_mac")
def lora_flops(frozen: Num, adapters: Num, flops_per_mac: Num = 2.0) -> Num:
    """Work of one token in the weight matrices when most of them are frozen.

    Formula: F = 4 N_frozen + 6 N_adapters.

    Parameters
    ----------
    frozen : float or array, 1
        Frozen weights that the token is multiplied with.
    adapters : float or array, 1
        Trainable weights beside them.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: a frozen weight needs no gradient of its own, but passes the gradient of its input on; adapters are
    present down to the first layer, so the backward pass goes all the way.

    >>> lora_flops(frozen=8e9, adapters=0) / matmul_flops_per_token(8e9)
    0.6666666666666666

    Source: hu2021lora, sec. 4.2.
    """
    return (2 * frozen + 3 * adapters) * flops_per_mac


@equation("eq-total-flops", formula="flops_per_token * tokens")
def total_flops(flops_per_token: Num, tokens: Num) -> Num:
    """Work of a whole training run: 6 N D when a token costs 6 N.

    Formula: C = F_token D.

    Parameters
    ----------
    flops_per_token : float or array, FLOP
        Work of one token.
    tokens : float or array, 1
        Tokens seen, repeated ones counted each time.

    Returns
    -------
    float or array, FLOP

    Assumptions: the sequence length does not change during the run; restarts and evaluation are not counted.

    >>> total_flops(matmul_flops_per_token(175e9), 300e9)
    3.15e+23

    Source: brown2020gpt3, app. D.
    """
    return flops_per_token * tokens
