"""A layer of experts on real devices: which of them are hit, how long they take, and the messages around them.

:func:`expert_layer` answers for one layer; :func:`expert_work` and :func:`expert_messages` are what a step model adds up.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsysim import collectives, kernels, units
from mlsysim import experts as forms
from mlsysim._numeric import Num, all_true, is_array, maximum, where, widening
from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError, unknown_name
from mlsysim.inference import Deployment, experts_hit
from mlsysim.inference.work import ACTIVATION_BYTES, routed_width
from mlsysim.results import CALLER, Explanation, Input, Result, Term, format_rows, format_value, share
from mlsysim.serving_steps.rates import Rates
from mlsysim.serving_steps.rates import rates as measured_rates

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

MODES = ("low-latency", "normal")
TILE = 128.0  # rows of a tile of grouped products, on which deepgemm2025 works
LINK = 0.8  # share of the link that the kernels of deepep2025 call their maximum: 160 of 200 GB/s
NORMAL_UNITS = (
    108 / 132
)  # processors that normal kernels leave to the products: the example of deepep2025 gives them 24 of 132
LOW_LATENCY_TOKENS = 128  # tokens per device up to which low-latency kernels run: the production setting of deepep2025
_POSITIVE = Domain.of(POSITIVE)


@dataclass(frozen=True)
class ExpertWork(Result):
    """Work of the routed experts of one layer on one device."""

    pairs: Num  # tokens times experts that each goes to
    hit: Num  # experts of the device that are read
    params: float  # of one expert, as far as the device holds it
    weight_bytes: float  # per weight
    pair_bytes: float  # activations in and out, per pair
    flops: Num
    bytes: Num

    @property
    def per_expert(self) -> Num:
        """Rows of a busy expert's product, 1 at least."""
        return maximum(1.0, forms.tokens_per_expert(self.pairs, 1.0, self.hit))


@widening
def expert_work(deployment: Deployment, tokens: Num, experts: str = "hit") -> ExpertWork:
    """What ``tokens`` of one attention replica (and as many of every other) ask of one device's experts.

    ``experts``: those ``hit``, ``all`` of them read, or a ``dense`` MLP of the size of all of them.

    >>> from mlsysim.inference import deploy
    >>> work = expert_work(deploy("DeepSeek-V3", "H800", dp=8, ep=8, precision="fp8"), 64)
    >>> work.pairs, round(work.hit, 2), round(work.per_expert, 1)
    (512.0, 32.0, 16.0)
    """
    w, s = deployment.work, deployment.split
    shards = s.ep * min(s.tp, s.tp * s.dp / s.ep)
    params = w.expert_params * s.ep / shards
    pool = tokens * min(s.dp, s.ep)  # tokens that are routed among the same devices
    reached = w.n_experts if experts == "dense" else w.top_k
    hit = (experts_hit(w.n_experts, w.top_k, maximum(1.0, pool)) if experts == "hit" else w.n_experts) / s.ep
    pairs = pool * reached / s.ep
    gates = 2.0 if deployment.model.gated_mlp else 1.0
    routed = routed_width(w)
    width = params / ((gates + 1.0) * routed)
    element = s.dispatch_bytes
    pair_bytes = (routed + width) * element + (gates * width + routed) * ACTIVATION_BYTES
    read = hit * params * s.expert_bytes + pairs * pair_bytes
    return ExpertWork(pairs, hit, params, s.expert_bytes, pair_bytes, 2.0 * pairs * params, read)


@widening
def expert_message_time(deployment: Deployment, tokens: Num, link: float = LINK, latency: float = 0.0) -> Num:
    """Dispatch and combine of a layer, s, by the kernels that a server would choose for so many tokens a device."""

    def both(mode: str) -> Num:
        return sum(collectives.moe_dispatch(**x) for x in expert_messages(deployment, tokens, mode, link, latency))

    if is_array(tokens):
        return where(tokens <= LOW_LATENCY_TOKENS, both("low-latency"), both("normal"))
    return both("low-latency" if tokens <= LOW_LATENCY_TOKENS else "normal")


@widening
def expert_messages(
    deployment: Deployment, tokens: Num, mode: str = "low-latency", link: float = LINK, latency: float = 0.0
) -> tuple[dict[str, Num], dict[str, Num]]:
    """Arguments of eq-moe-dispatch for a layer: tokens to their experts, and results back.

    ``normal`` kernels send a token once to every domain that needs it, and there once to every device; ``low-latency`` ones
    send every copy straight to its device. Both are zero without expert parallelism.
    """
    if mode not in MODES:
        raise unknown_name("mode", mode, MODES)
    w, s, m = deployment.work, deployment.split, deployment.machine
    experts = max(w.n_experts, s.ep, 1.0)
    remote, local = collectives.copies_sent(experts, w.top_k, s.ep, m.ep_inside, float(mode == "normal"))
    apart = 1.0 if s.ep > 1 else 0.0
    given = {
        "tokens": apart * tokens / s.tp,  # tensor-parallel ranks hold the same tokens and share the sending
        "remote_nodes": remote,
        "local_copies": local,
        "network_bandwidth": m.inter_bandwidth * link,
        "node_bandwidth": m.intra_bandwidth * link,
        "latency": apart * latency,
    }
    there, back = s.dispatch_bytes, ACTIVATION_BYTES
    return {**given, "token_bytes": routed_width(w) * there}, {**given, "token_bytes": routed_width(w) * back}


@dataclass(frozen=True)
class ExpertLayer(Result):
    """What :func:`expert_layer` returns: one layer of experts on one device, s."""

    NUMBERS = (
        "model=deployment.model.name device=deployment.device.name devices=deployment.devices tokens mode "
        "tokens_per_expert=work.per_expert experts_hit=work.hit share_of_peak=share routed_time_s shared_time_s "
        "dispatch_time_s combine_time_s time_s bound"
    )

    deployment: Deployment
    tokens: Num
    mode: str
    rates: Rates
    tile: float
    work: ExpertWork
    shared: tuple[dict[str, Num], ...]  # arguments of eq-kernel-time, product by product
    dispatch: dict[str, Num]
    combine: dict[str, Num]

    @property
    def grouped(self) -> dict[str, Num]:
        """Arguments of eq-grouped-time."""
        m, w = self.deployment.machine, self.work
        return {
            "pairs": w.pairs,
            "expert_params": w.params,
            "experts_hit": w.hit,
            "weight_bytes": w.weight_bytes,
            "peak_flops": m.peak_flops,
            "memory_bandwidth": m.memory_bandwidth,
            "compute_share": self.share,
            "memory_share": self.rates.grouped_products.memory,
            "startup_time": 2.0 * self.rates.grouped_products.start,
            "pair_bytes": w.pair_bytes,
        }

    @property
    def share(self) -> Num:
        """Share of the peak at so many tokens per expert."""
        return forms.grouped_share(self.work.per_expert, self.rates.grouped_products.compute, self.tile)

    @property
    def routed_time(self) -> Num:
        return forms.grouped_time(**self.grouped)

    @property
    def shared_time(self) -> Num:
        return sum((kernels.measured_kernel_time(**given) for given in self.shared), 0.0 * self.tokens)

    @property
    def dispatch_time(self) -> Num:
        return collectives.moe_dispatch(**self.dispatch)

    @property
    def combine_time(self) -> Num:
        return collectives.moe_dispatch(**self.combine)

    @property
    def compute_time(self) -> Num:
        """Kernels: routed experts, then shared ones."""
        return self.routed_time + self.shared_time

    @property
    def message_time(self) -> Num:
        return self.dispatch_time + self.combine_time

    @property
    def time(self) -> Num:
        """All of it, nothing hidden."""
        return self.compute_time + self.message_time

    @property
    def reading_binds(self) -> Any:
        """Whether the weights take longer than the arithmetic."""
        m, r = self.deployment.machine, self.rates.grouped_products
        arithmetic = self.work.flops / (self.share * m.peak_flops)
        return self.work.bytes / (r.memory * m.memory_bandwidth) >= arithmetic

    @property
    def bound(self) -> Any:
        return where(self.reading_binds, "memory", "compute")

    @property
    def shared_time_share(self) -> Num:
        """Of the kernels' time, what the shared experts take."""
        return self.shared_time / self.compute_time

    @property
    def shared_work_share(self) -> float:
        """Of the kernels' arithmetic, what the shared experts do."""
        m = self.deployment.model
        return float(forms.shared_expert_share(m.shared_ffn, m.top_k, m.moe_ffn))

    @property
    def _parts(self) -> dict[str, Num]:
        return {
            "routed experts": self.routed_time,
            "shared experts": self.shared_time,
            "dispatch": self.dispatch_time,
            "combine": self.combine_time,
        }

    def summary(self) -> list[str]:
        d, bound = self.deployment, self.bound
        said = (
            f"{bound}-bound"
            if isinstance(bound, str)
            else f"memory binds in {int(self.reading_binds.sum())} of {bound.size}"
        )
        return format_rows(
            f"one expert layer, {d.model.name} on {d.devices} x {d.device.name}: {format_value(self.time, 's')}, experts {said}",
            ("parts", ", ".join(f"{n} {format_value(t, 's')}" for n, t in self._parts.items() if not all_true(t == 0))),
            (
                "tokens",
                f"{format_value(self.tokens, '1')} per device, {format_value(self.work.per_expert, '1')} per busy expert",
            ),
            ("reached", f"{share(self.share)} of the peak in grouped products"),
            ("messages", f"{self.mode}, expert parallel {d.split.ep:g}"),
            ("efficiencies", f"measured rates of kernels: {self.rates.grouped_products.origin}"),
        )

    def chart(self) -> "Drawing | None":
        """The parts as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms(f"one expert layer of {self.deployment.model.name}", self._parts)

    def explain(self) -> Explanation:
        """Each term with its equation, the numbers in it, and where the inputs came from."""
        d, w, r = self.deployment, self.work, self.rates.grouped_products
        m, s = d.work, d.split
        pool = {"tokens": self.tokens * min(s.dp, s.ep), "top_k": m.top_k, "experts": m.n_experts}
        share = {"rows": w.per_expert, "sustained": r.compute, "tile": self.tile}
        terms = [
            Term("tokens per expert", forms.tokens_per_expert(**pool), "eq-tokens-per-expert", pool),
            Term("experts hit", w.hit * s.ep, "eq-experts-hit", pool),
            Term("share of the peak", self.share, "eq-grouped-share", share),
            Term("routed experts", self.routed_time, "eq-grouped-time", self.grouped, True),
        ]
        terms += [
            Term(f"shared, {name}", kernels.measured_kernel_time(**given), "eq-kernel-time", given)
            for name, given in zip(("in", "out"), self.shared, strict=False)
        ]
        if s.ep > 1:
            terms += [
                Term("dispatch", self.dispatch_time, "eq-moe-dispatch", self.dispatch),
                Term("combine", self.combine_time, "eq-moe-dispatch", self.combine),
            ]
        peak = f"peak_flops.{d.precision}"
        inputs = (
            Input("tokens per device", self.tokens, "1"),
            Input("peak", d.machine.peak_flops, "FLOP/s", d.device.origin(peak)),
            Input("memory bandwidth", d.machine.memory_bandwidth, "byte/s", d.device.origin("memory_bandwidth")),
            Input("bytes per weight", w.weight_bytes, "byte", f"{d.experts}, {CALLER}"),
            Input("grouped, sustained", r.compute, "1", r.origin),
        )
        notes = ["several batches at once"] if is_array(self.tokens) else [f"total {units.format(self.time, 's')}"]
        return Explanation(
            title=f"one expert layer, {d.model.name} on {d.devices} x {d.device.name}, {self.mode} messages",
            terms=tuple(terms),
            inputs=inputs,
            notes=(*notes, "Left out: the router, uneven routing, and what overlaps with attention."),
        )


@widening
def expert_layer(
    deployment: Deployment,
    *,
    tokens: Num,
    mode: str = "low-latency",
    rates: Rates | None = None,
    tile: float = TILE,
    link: float = LINK,
    latency: float = 0.0,
) -> ExpertLayer:
    """One layer of experts: routed, shared, and the messages around them.

    Parameters
    ----------
    deployment : Deployment
        As from :func:`mlsysim.inference.deploy`, of a model with experts.
    tokens : float or array, 1
        Tokens of one attention replica that go through the layer together; every replica has as many.
    mode : str
        Kernels of the messages: ``low-latency`` (decoding) or ``normal`` (prompts).
    rates : Rates, optional
        What the kernels sustain; the measured rates of the device by default.
    tile : float, 1
        Rows of one tile of a grouped product.
    link : float
        Share of the links that messages reach.
    latency : float, s
        Start of one message.

    Returns
    -------
    ExpertLayer
        Frozen result with times, shares and ``explain()``.

    Raises
    ------
    InputError
        A model without experts, or tokens not above 0.

    Assumptions: balanced routing, shared experts after the routed ones (additive), and nothing hidden.

    >>> from mlsysim.inference import deploy
    >>> layer = expert_layer(deploy("DeepSeek-V3", "H800", dp=8, ep=8, precision="fp8"), tokens=64)
    >>> layer.bound, round(layer.routed_time * 1e6), round(layer.shared_time * 1e6)
    ('memory', 527, 35)
    """
    d = deployment
    if not isinstance(d, Deployment) or not d.model.is_moe:
        raise InputError(f"expert_layer: {getattr(d, 'model', d)!s:.40} has no experts; deploy a mixture of experts")
    check_argument("expert_layer", "tokens", tokens, "1", _POSITIVE)
    chosen = measured_rates(d.device) if rates is None else rates
    m, s = d.model, d.split
    r = chosen.products_8bit if d.precision in ("fp8", "int8") else chosen.products_16bit
    width = m.shared_ffn / s.tp
    gates = 2 if m.gated_mlp else 1
    shapes = ((m.hidden, gates * width), (width, m.hidden)) if width else ()
    shared = tuple(
        {
            "flops": kernels.gemm_flops(tokens, n, k),
            "bytes": k * n * s.weight_bytes + tokens * (k * s.dispatch_bytes + n * ACTIVATION_BYTES),
            "peak_flops": d.machine.peak_flops,
            "memory_bandwidth": d.machine.memory_bandwidth,
            "compute_efficiency": r.compute,
            "memory_efficiency": r.memory,
            "startup_time": r.start,
        }
        for k, n in shapes
    )
    return ExpertLayer(
        d, tokens, mode, chosen, tile, expert_work(d, tokens), shared, *expert_messages(d, tokens, mode, link, latency)
    )
