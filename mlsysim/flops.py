"""Counting the work of a transformer: exact FLOPs per token, and the conventions in which others print them.

Everything is per token unless it says otherwise. A convention (full or causal attention, recomputation) is an argument
without a default wherever it changes what a published figure means.
"""

from dataclasses import dataclass, replace
from typing import Any

from mlsysim import catalog
from mlsysim._numeric import Num, minimum
from mlsysim.catalog.shapes import Model
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError
from mlsysim.results import CALLER, Explanation, Input, Term
from mlsysim.transformer import moe_active, parameter_count

_AT_LEAST_ONE = "[1, inf)"


@equation(
    "eq-forward-flops",
    formula="parameters * flops_per_mac",
    units={"parameters": "1", "flops_per_mac": "FLOP", "return": "FLOP"},
    source="kaplan2020scaling",
    where="sec. 2.1",
)
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

    Raises
    ------
    InputError
        A value that is not finite or negative.

    Assumptions: each weight meets each token once; biases, norms and activations are not counted; no attention core.

    >>> forward_matmul_flops(7.5e9)
    15000000000.0

    Source: kaplan2020scaling, sec. 2.1.
    """
    return parameters * flops_per_mac


@equation(
    "eq-flops-per-token",
    formula="parameters * flops_per_mac * (1 + gradients)",
    units={"parameters": "1", "flops_per_mac": "FLOP", "gradients": "1", "return": "FLOP"},
    source="brown2020gpt3",
    where="app. D",
)
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

    Raises
    ------
    InputError
        A value that is not finite or negative.

    Assumptions: those of the forward pass; nothing is recomputed; the optimiser's own work is not counted.

    >>> matmul_flops_per_token(175e9)
    1050000000000.0

    Source: brown2020gpt3, app. D.
    """
    return parameters * flops_per_mac * (1 + gradients)


@equation(
    "eq-attention-context",
    formula="min(window, seq) - min(window, seq) * (min(window, seq) - 1) / (2 * seq)",
    units={"seq": "1", "window": "1", "return": "1"},
    domain={"seq": _AT_LEAST_ONE, "window": _AT_LEAST_ONE},
    source="dao2023flashattention2",
    where="sec. 4.1",
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

    Raises
    ------
    InputError
        A value that is not finite or below 1.

    Assumptions: position i sees min(i, w) keys; kernels do no work on masked blocks. Full attention has c = s.

    >>> attention_context(seq=8192, window=8192)
    4096.5

    Source: dao2023flashattention2, sec. 4.1, which halves for a causal mask; the window is jiang2023mistral, sec. 2.
    """
    width = minimum(window, seq)
    return width - width * (width - 1) / (2 * seq)


@equation(
    "eq-attention-flops",
    formula="layers * context * heads * (qk_dim + v_dim) * flops_per_mac",
    units={
        "layers": "1",
        "context": "1",
        "heads": "1",
        "qk_dim": "1",
        "v_dim": "1",
        "flops_per_mac": "FLOP",
        "return": "FLOP",
    },
    source="chowdhery2022palm",
    where="app. B",
)
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

    Raises
    ------
    InputError
        A value that is not finite or negative.

    Assumptions: matrix products only (the softmax is not counted); the backward pass costs twice as much.

    >>> attention_core_flops(layers=32, context=4096.5, heads=32, qk_dim=128, v_dim=128)
    2147745792.0

    Source: chowdhery2022palm, app. B.
    """
    return layers * context * heads * (qk_dim + v_dim) * flops_per_mac


@equation(
    "eq-recompute-flops",
    formula="layer_share * layers_forward + core_share * core_forward",
    units={"layers_forward": "FLOP", "core_forward": "FLOP", "layer_share": "1", "core_share": "1", "return": "FLOP"},
    source="korthikanti2022recompute",
    where="app. A",
)
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

    Raises
    ------
    InputError
        A value that is not finite or negative.

    Assumptions: the LM head is never recomputed; a fused attention kernel recomputes its scores whatever one asks for
    (not counted here, as in every published convention).

    >>> recompute_flops(2e9, 1e8, layer_share=0, core_share=1)
    100000000.0

    Source: korthikanti2022recompute, app. A.
    """
    return layer_share * layers_forward + core_share * core_forward


@equation(
    "eq-train-flops-per-token",
    formula="matmul + core_forward * (1 + gradients) + recomputed",
    units={"matmul": "FLOP", "core_forward": "FLOP", "recomputed": "FLOP", "gradients": "1", "return": "FLOP"},
    source="chowdhery2022palm",
    where="app. B",
)
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

    Raises
    ------
    InputError
        A value that is not finite or negative.

    Assumptions: matrix products only; the optimiser's own work is not counted.

    >>> train_flops_per_token(matmul=6e9, core_forward=1e9)
    9000000000.0

    Source: chowdhery2022palm, app. B.
    """
    return matmul + core_forward * (1 + gradients) + recomputed


@equation(
    "eq-megatron-flops",
    formula="12 * passes * batch * seq * layers * hidden**2 * flops_per_mac"
    " * (1 + seq / (6 * hidden) + vocab / (4 * passes * layers * hidden))",
    units={
        "batch": "1",
        "seq": "1",
        "layers": "1",
        "hidden": "1",
        "vocab": "1",
        "passes": "1",
        "flops_per_mac": "FLOP",
        "return": "FLOP",
    },
    domain={"hidden": POSITIVE, "layers": POSITIVE, "passes": POSITIVE},
    source="narayanan2021megatron",
    where="eq. 3",
)
def megatron_flops(
    batch: Num, seq: Num, layers: Num, hidden: Num, vocab: Num, passes: Num = 4.0, flops_per_mac: Num = 2.0
) -> Num:
    """Work of one training step of a GPT, as Megatron-LM's papers count it.

    Formula: F = 96 B s L h^2 (1 + s / 6h + V / 16 L h) with recomputation (4 passes), 72 B s L h^2 (1 + s / 6h + V / 12 L h)
    without (3).

    Parameters
    ----------
    batch : float or array, 1
        Sequences per step.
    seq : float or array, 1
        Tokens per sequence.
    layers : float or array, 1
        Layers.
    hidden : float or array, 1
        Width of the residual stream.
    vocab : float or array, 1
        Columns of the LM head.
    passes : float or array, 1
        Forward equivalents of the layers: 4 when each is recomputed (hardware FLOPs), 3 when not (model FLOPs).
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Raises
    ------
    InputError
        A value that is not finite or lies outside its range.

    Assumptions: the GPT shape (multi-head attention, heads x head size = h, plain MLP of width 4 h); every key counts,
    masked or not; the LM head has 3 passes.

    >>> megatron_flops(batch=1, seq=2048, layers=96, hidden=12288, vocab=51200) / 1e15
    2.936829917528064

    Source: narayanan2021megatron, eq. 3; with 3 passes korthikanti2022recompute, app. A.
    """
    return (
        12 * passes * batch * seq * layers * hidden**2 * flops_per_mac
        * (1 + seq / (6 * hidden) + vocab / (4 * passes * layers * hidden))
    )  # fmt: skip


@equation(
    "eq-lora-flops",
    formula="(2 * frozen + 3 * adapters) * flops_per_mac",
    units={"frozen": "1", "adapters": "1", "flops_per_mac": "FLOP", "return": "FLOP"},
    source="hu2021lora",
    where="sec. 4.2",
)
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

    Raises
    ------
    InputError
        A value that is not finite or negative.

    Assumptions: a frozen weight needs no gradient of its own, but passes the gradient of its input on; adapters are
    present down to the first layer, so the backward pass goes all the way.

    >>> lora_flops(frozen=8e9, adapters=0) / matmul_flops_per_token(8e9)
    0.6666666666666666

    Source: hu2021lora, sec. 4.2.
    """
    return (2 * frozen + 3 * adapters) * flops_per_mac


@equation(
    "eq-total-flops",
    formula="flops_per_token * tokens",
    units={"flops_per_token": "FLOP", "tokens": "1", "return": "FLOP"},
    source="brown2020gpt3",
    where="app. D",
)
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

    Raises
    ------
    InputError
        A value that is not finite or negative.

    Assumptions: the sequence length does not change during the run; restarts and evaluation are not counted.

    >>> total_flops(matmul_flops_per_token(175e9), 300e9)
    3.15e+23

    Source: brown2020gpt3, app. D.
    """
    return flops_per_token * tokens


# What each way of keeping activations does again: the layers' matrices, the attention core.
RECOMPUTE: dict[str, tuple[float, float]] = {"none": (0.0, 0.0), "selective": (0.0, 1.0), "full": (1.0, 1.0)}


def active_parameters(model: Model | str) -> int:
    """Parameters that one token meets: all of a dense model, shared and top-k experts of a mixture.

    Embeddings, norms and biases are counted, as in the figures that model cards print.

    >>> active_parameters(Model("toy", 2, 4, 2, 2, 2, 0, 8, n_experts=4, top_k=1, moe_ffn=16))
    628
    """
    m = catalog.model(model)
    count = parameter_count(m)
    if not m.is_moe:
        return count.total
    return int(moe_active(count.total - count.experts, m.top_k, count.experts // m.n_experts))


def matmul_parameters(model: Model | str) -> int:
    """Weights that one token is multiplied with: the N of 6 N.

    The input embedding is a lookup and drops out; tied to the LM head, it counts once, as the head. Biases, norms and
    learned positions are not matrices. Of the routed experts only the top-k count.

    >>> matmul_parameters(Model("toy", 2, 4, 2, 2, 2, 16, 8, tied_embeddings=True))
    544
    """
    m = catalog.model(model)
    head = m.vocab * (m.embedding_width or m.hidden)
    projections = 2 * m.embedding_width * m.hidden  # of a narrower embedding, into the residual stream and back
    return layer_matmul_parameters(m) + head + projections


def layer_matmul_parameters(model: Model | str) -> int:
    """:func:`matmul_parameters` without the LM head: what full recomputation does again."""
    m = catalog.model(model)
    bare = replace(m, qkv_bias=False, output_bias=False, mlp_bias=False, head_bias=False, router_bias=False)
    count = parameter_count(bare)
    always = count.attention + count.dense_mlp + count.shared_experts + count.router
    return int(moe_active(always, m.top_k, count.experts // m.n_experts)) if m.is_moe else always


@dataclass(frozen=True)
class TokenFlops:
    """What :func:`training_flops_per_token` returns: FLOPs of one token, floats or arrays."""

    model: Model
    seq: Num
    causal: bool
    recompute: str
    adapters: float
    matmul_parameters: int
    forward_matmul: Num
    forward_core: Num
    matmul: Num  # forward and backward, in the weight matrices
    recomputed: Num
    model_flops: Num  # what the mathematics needs
    hardware_flops: Num  # what the device does

    @property
    def forward(self) -> Num:
        """The forward pass alone."""
        return self.forward_matmul + self.forward_core

    @property
    def core_share(self) -> Num:
        """Share of the model FLOPs that the attention core takes."""
        return 1 - self.matmul / self.model_flops

    def explain(self) -> Explanation:
        """Every term with its equation, the numbers in it, and the source of each input."""
        m = self.model
        layers_forward = forward_matmul_flops(layer_matmul_parameters(m))
        layer_share, core_share = RECOMPUTE[self.recompute]
        backward: dict[str, Any] = {"flops_per_mac": 2.0}
        if self.adapters:
            label, arguments = "eq-lora-flops", {"frozen": self.matmul_parameters, "adapters": self.adapters}
        else:
            label, arguments = "eq-flops-per-token", {"parameters": self.matmul_parameters, "gradients": 2.0}
        spent = {"matmul": self.matmul, "core_forward": self.forward_core, "gradients": 2.0}
        cores = []
        for name, window, a in _cores(m, self.seq, self.causal):
            if self.causal:
                seen = {"seq": self.seq, "window": window}
                cores.append(Term(f"keys, {name}", a["context"], "eq-attention-context", seen))
            cores.append(Term(f"forward, {name}", attention_core_flops(**a), "eq-attention-flops", {**a, **backward}))
        attention = "causal: masked keys are not counted" if self.causal else "full: every key counts, masked or not"
        return Explanation(
            title=f"{m.name}: FLOPs per token, attention {attention}, recomputation {self.recompute}",
            terms=(
                Term(
                    "forward, matrices",
                    self.forward_matmul,
                    "eq-forward-flops",
                    {"parameters": self.matmul_parameters + self.adapters, **backward},
                ),
                *cores,
                Term("training, matrices", self.matmul, label, {**arguments, **backward}),
                Term(
                    "recomputed",
                    self.recomputed,
                    "eq-recompute-flops",
                    {
                        "layers_forward": layers_forward,
                        "core_forward": self.forward_core,
                        "layer_share": layer_share,
                        "core_share": core_share,
                    },
                ),
                Term("model FLOPs", self.model_flops, "eq-train-flops-per-token", {**spent, "recomputed": 0.0}),
                Term(
                    "hardware FLOPs",
                    self.hardware_flops,
                    "eq-train-flops-per-token",
                    {**spent, "recomputed": self.recomputed},
                ),
            ),
            inputs=(
                Input("weights multiplied", self.matmul_parameters, "1", f"shape of {m.name}: {m.source or CALLER}"),
                Input("seq", self.seq, "1"),
                Input("adapters", self.adapters, "1", CALLER if self.adapters else "default: every weight is trained"),
            ),
        )


def _cores(m: Model, seq: Num, causal: bool) -> list[tuple[str, Num, dict[str, Num]]]:
    """The attention core in one or two parts: layers that see everything, layers with a window."""
    sizes = {"heads": m.heads, "qk_dim": m.head_dim + m.qk_rope_head_dim, "v_dim": m.v_head_dim or m.head_dim}
    found = []
    for name, layers, window in (
        ("core", m.layers - m.n_windowed_layers, seq),
        ("windowed core", m.n_windowed_layers, m.attn_window),
    ):
        if layers:
            context = attention_context(seq, window) if causal else minimum(window, seq)
            found.append((name, window, {"layers": layers, "context": context, **sizes}))
    return found


def forward_flops(model: Model | str, seq: Num, causal: bool) -> Num:
    """FLOPs of one token in a forward pass over a sequence, on average over its positions.

    >>> forward_flops(Model("toy", 2, 4, 2, 2, 2, 16, 8), seq=3, causal=True)
    1152.0
    """
    return training_flops_per_token(model, seq, causal).forward


def training_flops_per_token(
    model: Model | str, seq: Num, causal: bool, recompute: str = "none", adapters: float = 0
) -> TokenFlops:
    """FLOPs of one token in a training step, exactly, from the model's shape.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    seq : float or array, 1
        Tokens that attend to each other: the sequence length, or the mean document length of packed data.
    causal : bool
        True counts the keys that a query really sees; False counts all of them, as most published MFUs do.
    recompute : str
        ``none``, ``selective`` (the attention core) or ``full`` (every layer, not the LM head).
    adapters : float
        Trainable parameters of LoRA adapters; above 0 all other weights are frozen.

    Returns
    -------
    TokenFlops
        Frozen result with ``model_flops``, ``hardware_flops``, their terms and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown model or way of recomputing.

    >>> toy = Model("toy", 2, 4, 2, 2, 2, 16, 8)
    >>> training_flops_per_token(toy, seq=3, causal=True).model_flops / forward_flops(toy, seq=3, causal=True)
    3.0
    """
    m = catalog.model(model)
    if not isinstance(causal, bool):
        raise InputError(f"training_flops_per_token: causal = {str(causal)[:40]!r} must be True or False")
    if recompute not in RECOMPUTE:
        choices = ", ".join(RECOMPUTE)
        raise InputError(f"training_flops_per_token: recompute = {str(recompute)[:40]!r} must be one of {choices}")
    weights = matmul_parameters(m)
    core: Num = sum(attention_core_flops(**a) for _, _, a in _cores(m, seq, causal))
    matmul = lora_flops(weights, adapters) if adapters else matmul_flops_per_token(weights)
    layer_share, core_share = RECOMPUTE[recompute]
    recomputed = recompute_flops(forward_matmul_flops(layer_matmul_parameters(m)), core, layer_share, core_share)
    return TokenFlops(
        model=m,
        seq=seq,
        causal=causal,
        recompute=recompute,
        adapters=adapters,
        matmul_parameters=weights,
        forward_matmul=forward_matmul_flops(weights + adapters),
        forward_core=core,
        matmul=matmul,
        recomputed=recomputed,
        model_flops=train_flops_per_token(matmul, core),
        hardware_flops=train_flops_per_token(matmul, core, recomputed),
    )
