"""The same work in other people's conventions, so that a published rate or utilisation can be read."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mlsysim import catalog
from mlsysim._numeric import Num
from mlsysim.catalog.shapes import Model
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import unknown_name
from mlsysim.flops.tokens import active_parameters, training_flops_per_token
from mlsysim.flops.work import matmul_flops_per_token


@equation(
    "eq-megatron-flops",
    formula="12 * passes * batch * seq * layers * hidden**2 * flops_per_mac"
    " * (1 + seq / (6 * hidden) + vocab / (4 * passes * layers * hidden))",
    domain={"hidden": POSITIVE, "layers": POSITIVE, "passes": POSITIVE},
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


@dataclass(frozen=True)
class Convention:
    """What a printed FLOP count contains: which parameters, which keys, whether repeated work counts."""

    name: str
    parameters: str  # "all" that a token meets, or only those it is "multiplied" with
    attention: str  # "none", "full" or "causal"
    repeated: bool  # whether a full recomputation is counted: hardware FLOPs instead of model FLOPs
    used_by: str
    source: str


# Ways to count the work of a training token, by name.
CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        c.name: c
        for c in (
            Convention("6N", "all", "none", False, "training budgets, since GPT-3", "brown2020gpt3"),
            Convention("palm", "all", "full", False, "PaLM, Llama 3, MosaicML", "chowdhery2022palm"),
            Convention(
                "matmul-full",
                "multiplied",
                "full",
                False,
                "Korthikanti (MFU), MegaScale, NVIDIA NeMo and DGX Cloud, MaxText before mid-2025",
                "korthikanti2022recompute",
            ),
            Convention(
                "matmul-causal", "multiplied", "causal", False, "Megatron-Bridge, this book", "megatronbridge2026"
            ),
            Convention("megatron", "multiplied", "full", True, "Megatron-LM (SC21)", "narayanan2021megatron"),
        )
    }
)


def counted_flops(model: Model | str, seq: Num, convention: str) -> Num:
    """FLOPs of one training token as a convention counts them.

    Two utilisations of the same run stand in the ratio of these counts, since time and peak are the same.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    seq : float or array, 1
        Tokens that attend to each other.
    convention : str
        A name of ``CONVENTIONS``.

    Raises
    ------
    UnknownNameError
        An unknown model or convention.

    >>> from mlsysim.catalog import decoder
    >>> gpt = decoder("toy", 2, 64, 2, 2, 32, 256, 100, gated_mlp=False, tied_embeddings=True)
    >>> counted_flops(gpt, 8, "megatron") * 8 == megatron_flops(1, 8, 2, 64, 100)
    True
    """
    m = catalog.model(model)
    if convention not in CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTIONS)
    c = CONVENTIONS[convention]
    token = training_flops_per_token(m, seq, c.attention == "causal", "full" if c.repeated else "none")
    counted = token.hardware_flops if c.repeated else token.model_flops
    if c.attention == "none":
        counted = token.matmul
    if c.parameters == "all":
        counted += matmul_flops_per_token(active_parameters(m)) - token.matmul
    return counted
