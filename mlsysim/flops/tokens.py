"""Work of one token of a given model, exactly, from its shape."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsysim import catalog
from mlsysim._numeric import Num, minimum, where
from mlsysim.catalog import operations
from mlsysim.catalog.operations import Attention, Product
from mlsysim.catalog.shapes import Model
from mlsysim.equations import cache_by_identity
from mlsysim.errors import InputError
from mlsysim.flops.work import (
    attention_context,
    attention_core_flops,
    forward_matmul_flops,
    lora_flops,
    matmul_flops_per_token,
    recompute_flops,
    train_flops_per_token,
)
from mlsysim.results import CALLER, Explanation, Input, Result, Term, format_rows, format_value, share
from mlsysim.transformer import matrix_count, moe_active, parameter_count

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# What each way of keeping activations does again: the layers' matrices, the attention core.
RECOMPUTE: dict[str, tuple[float, float]] = {"none": (0.0, 0.0), "selective": (0.0, 1.0), "full": (1.0, 1.0)}


def active_parameters(model: Model | str) -> int:
    """Parameters that one token meets: all of a dense model, shared and top-k experts of a mixture.

    Embeddings, norms and biases are counted, as in the figures that model cards print.

    >>> active_parameters(catalog.decoder("toy", 2, 4, 2, 2, 2, 0, 8, n_experts=4, top_k=1, moe_ffn=16))
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

    >>> matmul_parameters(catalog.decoder("toy", 2, 4, 2, 2, 2, 16, 8, tied_embeddings=True))
    544
    """
    m = catalog.model(model)
    # the head, and the projections of a narrower embedding into the residual stream and back
    ends = sum(operations.weights(o) for o in (*m.before, *m.after) if isinstance(o, Product) and o.part != "other")
    return layer_matmul_parameters(m) + ends


def layer_matmul_parameters(model: Model | str) -> int:
    """:func:`matmul_parameters` without the LM head: what full recomputation does again."""
    return _layer_matrices(catalog.model(model))


@cache_by_identity
def _layer_matrices(m: Model) -> int:
    count = matrix_count(m)
    always = count.attention + count.recurrence + count.indexer + count.dense_mlp + count.shared_experts + count.router
    always += count.other
    return int(moe_active(always, m.top_k, count.experts // m.n_experts)) if m.is_moe else always


@dataclass(frozen=True)
class TokenFlops(Result):
    """What :func:`training_flops_per_token` returns: FLOPs of one token, floats or arrays."""

    NUMBERS = (
        "model=model.name seq causal recompute adapters matmul_parameters forward_flops=forward matmul_flops=matmul "
        "recomputed_flops=recomputed model_flops hardware_flops attention_core_share=core_share"
    )

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

    @property
    def _parts(self) -> dict[str, Num]:
        return {
            "matrices": self.matmul,
            "attention": self.model_flops - self.matmul,
            "recomputed": self.hardware_flops - self.model_flops,
        }

    def summary(self) -> list[str]:
        trained = f", adapters of {format_value(self.adapters, '1')} parameters" if self.adapters else ""
        counted = "causal: masked keys are not counted" if self.causal else "full: masked keys are counted too"
        return format_rows(
            f"{self.model.name}, training: {format_value(self.model_flops, 'FLOP')} a token at {format_value(self.seq, '1')} tokens{trained}",
            ("forward", format_value(self.forward, "FLOP")),
            ("attention core", f"{share(self.core_share)} of the model FLOPs, {counted}"),
            ("recompute", f"{self.recompute}: the device does {format_value(self.hardware_flops, 'FLOP')} a token"),
        )

    def chart(self) -> "Drawing | None":
        """What a token costs, by kind of work."""
        from mlsysim.drawing import shapes

        return shapes.terms(f"{self.model.name}: work of a token", self._parts, "work", "FLOP")

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
            if self.causal and window is not None:
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


def _cores(m: Model, seq: Num, causal: bool) -> list[tuple[str, Num | None, dict[str, Num]]]:
    """The attention core in parts: layers that see everything, layers with a window or an indexer, what the indexer does.

    A recurrence is an attention core over as many keys as its state has columns, however long the sequence: each number of a
    state is written once and read once, and read once more before it is written by the delta rule.
    """
    parts: list[tuple[str, float, Num, tuple[int, Num, Num]]] = []
    for layers, core in m.cores:
        of = (core.heads, core.qk_dim, core.v_dim)
        if core.ratio:  # so many tokens share a key: as many layers with a key for each token
            parts.append(("windowed core", layers, core.window, of))
            parts.append(("compressed core", layers / core.ratio, core.ratio * core.picked or seq, of))
        elif core.window:
            parts.append(("windowed core", layers, core.window, of))
        elif core.picked:
            parts.append(("picked core", layers, *_picked(core, seq, causal)))
        else:
            parts.append(("core", layers, seq, of))
    parts += [("indexer", n / one.ratio, seq, (one.heads, one.size, 0)) for n, one in m.indexers]
    found = []
    for name, times, window, (heads, query, value) in parts:
        if times:
            context = _context(seq, window, causal)
            given = {"layers": times, "context": context, "heads": heads, "qk_dim": query, "v_dim": value}
            found.append((name, window, given))
    for layers, scan, _ in m.recurrences:
        if scan.columns:
            twice = 2 if scan.kind.endswith("-delta") else 1
            state = {"heads": scan.heads, "qk_dim": twice * scan.rows, "v_dim": scan.rows, "context": scan.columns}
            found.append(("state", None, {"layers": layers, **state}))
    return found


def _context(seq: Num, window: Num, causal: bool) -> Num:
    """Keys that a query meets on average."""
    return attention_context(seq, window) if causal else minimum(window, seq)


def _picked(core: Attention, seq: Num, causal: bool) -> tuple[Num, tuple[int, Num, Num]]:
    """Keys that a query of an indexed layer meets at most, and the shape of its core: heads, query and value.

    Nothing expands what each query picks. With MLA these are latents, or, where that is less work, all expanded keys behind a mask.
    """
    expanded, latent = (core.qk_dim, core.v_dim), (core.latent_qk, core.latent_v)
    if not core.latent_v:
        return core.picked, (core.heads, *expanded)
    every, few = _context(seq, seq, causal) * sum(expanded), _context(seq, core.picked, causal) * sum(latent)
    masked = where(every <= few, 1.0, 0.0)
    reach, query, value = (
        where(masked > 0, a, b) for a, b in zip((seq, *expanded), (core.picked, *latent), strict=True)
    )
    return reach, (core.heads, query, value)


def forward_flops(model: Model | str, seq: Num, causal: bool) -> Num:
    """FLOPs of one token in a forward pass over a sequence, on average over its positions.

    >>> forward_flops(catalog.decoder("toy", 2, 4, 2, 2, 2, 16, 8), seq=3, causal=True)
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

    >>> toy = catalog.decoder("toy", 2, 4, 2, 2, 2, 16, 8)
    >>> training_flops_per_token(toy, seq=3, causal=True).model_flops / forward_flops(toy, seq=3, causal=True)
    3.0
    """
    m = catalog.model(model)
    if not isinstance(causal, bool):
        raise InputError(f"training_flops_per_token: causal = {str(causal)[:40]!r} must be True or False")
    if recompute not in RECOMPUTE:
        choices = ", ".join(RECOMPUTE)
        raise InputError(f"training_flops_per_token: recompute = {str(recompute)[:40]!r} must be one of {choices}")
    m.check_whole("training_flops_per_token")
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
