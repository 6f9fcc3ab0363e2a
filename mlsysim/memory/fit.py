"""Will it fit? Everything that one device holds in training, term by term, against what it has."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mlsysim import catalog, transformer, units
from mlsysim._numeric import Num, all_true, is_array, maximum, minimum, where, widening
from mlsysim.catalog import Device, Model
from mlsysim.equations import AT_LEAST_ONE, COUNT, POSITIVE, Domain, check_argument, equation, lookup
from mlsysim.errors import InputError, unknown_name
from mlsysim.memory.activations import (
    activation_memory,
    activation_memory_full,
    activation_memory_matmuls,
    activation_memory_pipeline,
    block_activations,
    output_activations,
    stored_activations,
)
from mlsysim.memory.cache import kv_cache, kv_cache_compressed, kv_cache_mla, kv_cache_window
from mlsysim.memory.formats import SCALINGS, Scaling
from mlsysim.memory.recurrent import recurrent_state
from mlsysim.memory.states import OPTIMIZERS, Recipe, gathered_units, hsdp, training_state, zero_1, zero_2, zero_3
from mlsysim.memory.states import recipe as _recipe
from mlsysim.results import CALLER, Explanation, Input, Result, Term, format_rows, format_value, plain, top_shares

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# Ways to shard the training state over data-parallel ranks.
SHARDINGS = ("none", "zero1", "zero2", "zero3", "fsdp", "hsdp")
GATHERED = ("zero3", "fsdp", "hsdp")  # those that divide the weights, which are gathered to compute with
# Ways to keep or compute again what the backward pass needs.
RECOMPUTE = ("none", "selective", "matmuls", "full")
# Parts of a layer that selective recomputation can compute again, as Megatron names them: the scores of attention, both norms,
# the up-projections of latent attention, and the activation function of the MLP or of the experts.
MODULES = ("core_attn", "layernorm", "mla_up_proj", "moe_act")
# What the account of memory leaves out, in a sentence.
LEFT_OUT = (
    "Left out: the CUDA context, workspaces of libraries, communication buffers, and what the allocator reserves but "
    "cannot use. A measured peak lies above this number."
)
# Of a device, what may be counted where buffers, workspaces and fragments of the allocator are not: in fujii2024memory (abstract)
# none of 454 runs with Megatron on A100 and H100 went out of memory below it.
COUNTED_SHARE = 0.8
_COUNT, _LENGTH, _CAPACITY = Domain.of(COUNT), Domain.of(AT_LEAST_ONE), Domain.of(POSITIVE)


@equation(
    "eq-training-memory", formula="weights + gradients + optimizer + gathered + activations + max(output, recomputed)"
)
def peak_memory(
    weights: Num, gradients: Num, optimizer: Num, gathered: Num, activations: Num, output: Num, recomputed: Num
) -> Num:
    """Peak memory of one device: what stays, what waits for the backward pass, and the larger of two passing loads.

    Formula: M = weights + gradients + optimizer + gathered + activations + max(output, recomputed layer).

    Parameters
    ----------
    weights, gradients, optimizer : float or array, byte
        Model state on the device after sharding.
    gathered : float or array, byte
        Whole weights gathered to compute with.
    activations : float or array, byte
        Activations kept for the backward pass.
    output : float or array, byte
        Logits and what else the loss holds, gone before a layer is recomputed.
    recomputed : float or array, byte
        Activations of the one layer that is being recomputed.

    Returns
    -------
    float or array, byte

    Assumptions: the peak lies at the start of the backward pass, when all activations are held; gradients exist then
    (from the second micro-batch on they do).

    >>> peak_memory(1.0, 2.0, 3.0, 0.5, 4.0, output=2.0, recomputed=1.0)
    12.5

    Source: rajbhandari2020zero, sec. 3; model state and residual state.
    """
    return weights + gradients + optimizer + gathered + activations + maximum(output, recomputed)


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known)


def _state_term(name: str, group: str, parameters: Num, r: Recipe, sharding: str, ranks: Num, replicas: Num) -> Term:
    """One of weights, gradients and optimizer: the sharding's equation with the other two at zero."""
    if sharding == "none":
        of_optimizer = ("master_bytes", "gradient_copy_bytes", "momentum_bytes", "variance_bytes")
        mine = of_optimizer if group == "optimizer" else (f"{group}_bytes",)
        parts = {part: (size if part in mine else 0.0) for part, size in r.components.items()}
        arguments: dict[str, Num] = {"parameters": parameters, **parts}
        return Term(name, training_state(**arguments), "eq-training-state", arguments)
    sizes = {f"{g}_bytes": (getattr(r, g) if g == group else 0.0) for g in ("weight", "gradient", "optimizer")}
    if sharding == "hsdp":
        arguments = {"parameters": parameters, **sizes, "devices": ranks, "replicas": replicas}
        return Term(name, hsdp(**arguments), "eq-hsdp", arguments)
    function = {"zero1": zero_1, "zero2": zero_2, "zero3": zero_3, "fsdp": zero_3}[sharding]
    arguments = {"parameters": parameters, **sizes, "shards": ranks}
    label = {"zero1": "eq-zero-1", "zero2": "eq-zero-2"}.get(sharding, "eq-zero-3")
    return Term(name, function(**arguments), label, arguments)


@dataclass(frozen=True)
class ModelState(Result):
    """What :func:`model_state_memory` returns; bytes on one device."""

    NUMBERS = (
        "parameters recipe=recipe.name bytes_per_parameter=recipe.bytes_per_parameter sharding ranks replicas "
        "weights_bytes gradients_bytes optimizer_bytes total_bytes"
    )

    parameters: Num
    recipe: Recipe
    sharding: str
    ranks: Num
    replicas: Num
    terms: tuple[Term, ...]

    def _value(self, name: str) -> Num:
        return next(t.value for t in self.terms if t.name == name)

    @property
    def weights(self) -> Num:
        return self._value("weights")

    @property
    def gradients(self) -> Num:
        return self._value("gradients")

    @property
    def optimizer(self) -> Num:
        return self._value("optimizer")

    @property
    def total(self) -> Num:
        return self.weights + self.gradients + self.optimizer

    @property
    def _parts(self) -> dict[str, Num]:
        return {"weights": self.weights, "gradients": self.gradients, "optimizer": self.optimizer}

    def summary(self) -> list[str]:
        shared = f" over {format_value(self.ranks, '1')} ranks" if self.sharding != "none" else ""
        return format_rows(
            f"model state of {format_value(self.parameters, '1', 4)} parameters: {format_value(self.total, 'byte')} per device",
            ("parts", top_shares(self._parts)),
            ("sharding", f"{self.sharding}{shared}"),
            ("formats", f"{self.recipe.bytes_per_parameter:g} bytes a parameter; {self.recipe}"),
        )

    def chart(self) -> "Drawing | None":
        """Its parts as a stack."""
        from mlsysim.drawing import shapes

        return shapes.stack("model state per device", {self.sharding: self._parts}, "memory", "byte")

    def explain(self) -> Explanation:
        """Every term with its equation, the numbers in it, and where the number formats come from."""
        return Explanation(
            title=f"model state, {self.sharding}: {units.format(self.total, 'byte')} per device",
            terms=self.terms,
            inputs=(
                Input("parameters", self.parameters, "1"),
                Input("bytes/parameter", self.recipe.bytes_per_parameter, "byte", str(self.recipe)),
                Input("ranks", self.ranks, "1"),
                Input("replicas", self.replicas, "1"),
            ),
            notes=("Activations and gathered units come on top.",),
        )


@widening
def model_state_memory(
    parameters: Num | Model | str,
    recipe: Recipe | str = "megatron-bf16",
    sharding: str = "none",
    ranks: Num = 1,
    replicas: Num = 1,
) -> ModelState:
    """Weights, gradients and optimizer state on one device.

    Formula: eq-training-state, eq-zero-1, eq-zero-2, eq-zero-3 or eq-hsdp, one group of components at a time.

    Parameters
    ----------
    parameters : float, array, Model or str
        How many the device would hold alone, or a model of the catalogue.
    recipe : Recipe or str
        Number formats: one of RECIPES, or your own.
    sharding : str
        none, zero1, zero2, zero3 (fsdp is the same) or hsdp.
    ranks : float or array, 1
        Data-parallel ranks that share.
    replicas : float or array, 1
        Only with hsdp: whole copies among the ranks.

    Returns
    -------
    ModelState
        Frozen result with ``weights``, ``gradients``, ``optimizer``, ``total`` and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown recipe, sharding or model.

    Assumptions: equal shards.

    >>> round(model_state_memory(7.5e9, "zero-fp16", "zero2", ranks=64).total / 1e9, 1)
    16.6

    Source: rajbhandari2020zero, sec. 5; zhao2023fsdp, sec. 3.2.
    """
    _check_choice("sharding", sharding, SHARDINGS)
    if isinstance(parameters, (Model, str)):
        parameters = transformer.parameter_count(parameters).total
    for name, value in (("ranks", ranks), ("replicas", replicas)):
        check_argument("model_state_memory", name, value, "1", _COUNT)
    if sharding == "hsdp":
        if not all_true(replicas <= ranks):
            raise InputError(f"replicas = {replicas} must not exceed ranks = {ranks}: every replica needs a rank")
    elif not all_true(replicas == 1):
        raise InputError(f"replicas = {replicas} needs sharding='hsdp'; {sharding!r} has no groups")
    r = _recipe(recipe)
    groups = {"weights": "weight", "gradients": "gradient", "optimizer": "optimizer"}
    terms = tuple(_state_term(n, g, parameters, r, sharding, ranks, replicas) for n, g in groups.items())
    return ModelState(parameters, r, sharding, ranks, replicas, terms)


@widening
def kv_cache_of(model: Model | str, batch: Num, tokens: Num, element_bytes: Num = 2.0) -> Num:
    """Key-value cache of a model of the catalogue, over all its devices together; its :func:`state_of` comes on top.

    Formula: eq-kv-cache, eq-kv-window, eq-kv-cache-mla or eq-kv-compressed, as the model's attention asks for. What an indexer
    keeps of a token is a latent vector like that of eq-kv-cache-mla; what waits to be compressed has 32 bits.

    >>> kv_cache_of("Llama-2-70B", batch=16, tokens=8192) / 1e9
    42.94967296
    """
    m = catalog.model(model)
    m.check_whole("kv_cache_of")
    size = element_bytes
    total: Num = sum(kv_cache_mla(n, batch, tokens / one.ratio, one.size, 0, size) for n, one in m.indexers)
    total = total + sum(n * batch * minimum(tokens, one.rows) * one.width * 4.0 for n, one in m.compressors)
    for layers, core in m.cores:
        if not core.cached:
            continue
        mean = core.cached / (2 * core.kv_heads)  # values need not be as wide as keys, or may be the keys
        if core.ratio:
            total = total + kv_cache_compressed(layers, batch, tokens, core.window, core.ratio, core.cached, 0.0, size)
        elif core.latent_v:
            met = minimum(tokens, core.window) if core.window else tokens
            total = total + kv_cache_mla(layers, batch, met, core.latent_v, core.rope_dim, size)
        elif core.window:
            total = total + kv_cache_window(0, layers, core.window, batch, tokens, core.kv_heads, mean, size)
        else:
            total = total + kv_cache(layers, batch, tokens, core.kv_heads, mean, size)
    return total


def token_cache(model: Model | str, element_bytes: float = 2.0) -> float:
    """Cache that a further token takes: of a model with windows, one inside the window; with compressed keys, one beyond it.

    >>> token_cache("Llama-3.1-8B")
    131072.0
    """
    m = catalog.model(model)
    beyond = m.reach if m.compresses else 0
    two = (float(kv_cache_of(m, 1, beyond + tokens, element_bytes)) for tokens in (1, 0))
    return next(two) - next(two)


def state_of(model: Model | str, batch: Num = 1, element_bytes: Num = 2.0) -> Num:
    """Bytes that the recurrences of a model keep of every sequence, however long it is: states and last inputs.

    Formula: M = L_rec b (H d_v d_k x bytes of a state + (w - 1) c x bytes of an input), with c channels before a convolution
    of width w. The state has the bytes of the shape (``state_bits``) where that says some.

    >>> state_of("Llama-3.1-8B", batch=8), round(state_of("Qwen3-Next-80B-A3B") / 1e6, 1)
    (0.0, 39.5)
    """
    m = catalog.model(model)
    m.check_whole("state_of")
    total: Num = 0.0 * batch
    for layers, scan, conv in m.recurrences:
        state = scan.state_bits / 8 if scan.state_bits else element_bytes
        kept = max(conv.width - 1, 0) * conv.channels  # its last inputs
        shape = (scan.heads, scan.rows, scan.columns)
        total = total + recurrent_state(layers, batch, *shape, state, kept, element_bytes)
    return total


_DEGREES = ("tp", "pp", "cp", "dp", "ep", "micro_batch")
_DEFAULTS = {"logit_bytes": (4.0, "one FP32 copy of the logits"), "micro_batch": (1, "one sequence")}
_DEFAULTS |= dict.fromkeys(("tp", "pp", "cp", "dp", "ep", "virtual_stages", "replicas"), (1, "not split"))


def _origin(name: str, value: Num) -> str:
    default, meaning = _DEFAULTS.get(name, (None, ""))
    return f"default: {meaning}" if default is not None and all_true(value == default) else CALLER


@dataclass(frozen=True)
class TrainingMemory(Result):
    """What :func:`training_memory` returns: bytes on the device that holds most, floats or arrays."""

    model: Model
    device: Device
    recipe: Recipe
    sharding: str
    recompute: str
    stage: Any  # "first" or "last" pipeline stage ("ends" or "middle" with DualPipe); an array of them for an array
    terms: tuple[Term, ...]
    total: Num
    capacity: float
    given: Mapping[str, Num]
    assumed: tuple[str, ...] = ()
    capacity_origin: str = CALLER

    def _value(self, name: str) -> Num:
        return next(t.value for t in self.terms if t.name == name)

    @property
    def weights(self) -> Num:
        return self._value("weights")

    @property
    def gradients(self) -> Num:
        return self._value("gradients")

    @property
    def optimizer(self) -> Num:
        return self._value("optimizer")

    @property
    def gathered(self) -> Num:
        return self._value("gathered")

    @property
    def activations(self) -> Num:
        return self._value("activations")

    @property
    def output(self) -> Num:
        return self._value("output")

    @property
    def recomputed(self) -> Num:
        return self._value("recomputed")

    @property
    def passing(self) -> Num:
        """The larger of the loss's and the recomputed layer's activations: they never stand side by side."""
        return maximum(self.output, self.recomputed)

    @property
    def state(self) -> Num:
        """Weights, gradients and optimizer state."""
        return self.weights + self.gradients + self.optimizer

    @property
    def parts(self) -> dict[str, Num]:
        """What adds up to the total."""
        names = ("weights", "gradients", "optimizer", "gathered", "activations", "passing")
        return {name: getattr(self, name) for name in names}

    @property
    def headroom(self) -> Num:
        """Capacity minus need: negative when it does not fit."""
        return self.capacity - self.total

    @property
    def fits(self) -> Any:
        """Whether the device can hold it; an array of truths for an array."""
        return self.total <= self.capacity

    @property
    def leaves_room(self) -> Any:
        """Whether it fits and leaves what frameworks need beside what is counted (``COUNTED_SHARE``); of an array, an array of truths."""
        return self.total <= COUNTED_SHARE * self.capacity

    @property
    def reason(self) -> str:
        """Why it fits, or what is in the way, in a sentence."""
        if is_array(self.total):
            return f"{int(self.fits.sum())} of {self.fits.size} fit into {units.format(self.capacity, 'byte')}"
        largest = max(self.parts, key=lambda name: float(self.parts[name]))
        need = f"{units.format(self.total, 'byte')} of {units.format(self.capacity, 'byte')}"
        if self.fits:
            less = "" if self.leaves_room else f", less than the {1.0 - COUNTED_SHARE:.0%} that frameworks may need"
            return f"fits: {need}, {units.format(self.headroom, 'byte')} left for what is not counted{less}"
        return (
            f"does not fit: {need}, {units.format(-self.headroom, 'byte')} too much; the largest part is {largest} "
            f"with {units.format(self.parts[largest], 'byte')}"
        )

    def summary(self) -> list[str]:
        degrees = ", ".join(
            f"{n} {format_value(self.given[n], '1')}" for n in _DEGREES if not all_true(self.given[n] == 1)
        )
        stage = "" if is_array(self.stage) else f", {self.stage} pipeline stage"
        return format_rows(
            f"{self.model.name} on {self.device.name}: {self.reason}",
            ("parts", top_shares(self.parts, 6)),
            ("split", f"{degrees or 'one device'}{stage}; sharding {self.sharding}, recompute {self.recompute}"),
            ("formats", f"{self.recipe.bytes_per_parameter:g} bytes a parameter; {self.recipe}"),
            ("capacity", f"{format_value(self.capacity, 'byte', 4)}: {self.capacity_origin}"),
            ("left out", LEFT_OUT.removeprefix("Left out: ")),
        )

    def chart(self) -> "Drawing | None":
        """What the device must hold as a stack, beside what it has."""
        from mlsysim.drawing import shapes

        title = f"{self.model.name} on {self.device.name}"
        return shapes.stack(title, {"a device": self.parts}, "memory", "byte", (self.capacity, "capacity"))

    def explain(self) -> Explanation:
        """Every term with its equation, the numbers in it, the source of each input, and what is left out."""
        named = {
            name: t.value for name, t in ((t.name, t) for t in self.terms) if name in lookup("eq-training-memory").units
        }
        total = Term(
            "total", self.total, "eq-training-memory", named, ~self.fits if is_array(self.fits) else not self.fits
        )
        where_from = str(self.recipe)
        stage = self.stage if not is_array(self.stage) else "heavier"
        return Explanation(
            title=f"{self.model.name} on {self.device.name}, {stage} stage: {self.reason}",
            terms=(*self.terms, total),
            inputs=(
                Input("capacity", self.capacity, "byte", self.capacity_origin),
                Input("bytes/parameter", self.recipe.bytes_per_parameter, "byte", where_from),
                *(Input(n, v, "byte" if n == "logit_bytes" else "1", _origin(n, v)) for n, v in self.given.items()),
            ),
            notes=(f"Sharding {self.sharding}, recompute {self.recompute}. {' '.join(self.assumed)}", LEFT_OUT),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        found = {
            "model": self.model.name,
            "device": self.device.name,
            "recipe": self.recipe.name,
            "sharding": self.sharding,
            "recompute": self.recompute,
            **dict(self.given),
            **{f"{name}_bytes": value for name, value in self.parts.items()},
            "total_bytes": self.total,
            "capacity_bytes": self.capacity,
            "fits": self.fits,
            "stage": self.stage,
            "reason": self.reason,
        }
        return dict(plain(found))


def keeps_gathered(pp: Num, reshard_after_forward: bool | None = None) -> Num:
    """1 where weights that were gathered for a forward pass stay until the backward pass, 0 where they are freed.

    The rule, when nothing is given, is torchtitan's (``torchtitan/distributed/fsdp.py``): freed without a pipeline, kept
    in one.

    >>> keeps_gathered(pp=8), keeps_gathered(pp=1), keeps_gathered(pp=8, reshard_after_forward=True)
    (1, 0, 0)
    """
    if reshard_after_forward is None:
        return where(pp > 1, 1, 0)
    return where(pp >= 1, 0 if reshard_after_forward else 1, 0)


def _resharding(sharding: str, kept: Num, alone: Num) -> tuple[str, ...]:
    """What becomes of gathered weights, in words, for ``explain()``."""
    if sharding not in GATHERED or is_array(kept) or is_array(alone):
        return ()
    if not kept:
        return ("Gathered weights are freed after each pass.",)
    return (
        "Gathered weights stay until the backward pass"
        + ("." if alone else ", and gradients are whole until it ends."),
    )


def _beside(schedule: str, optimizer: str, offload: str) -> tuple[str, ...]:
    """What few plans ask for, in words, for ``explain()``."""
    said = []
    if schedule != "1f1b":
        said.append(
            f"Schedule {schedule}{': two stages on a device, one of each direction' * (schedule == 'dualpipe')}."
        )
    if optimizer != "adamw":
        said.append(f"Optimizer {optimizer}: {OPTIMIZERS[optimizer].source}, {OPTIMIZERS[optimizer].where}.")
    if offload != "none":
        said.append(f"In the host's memory: {'optimizer and activations' if offload == 'both' else offload}.")
    return tuple(said)


@dataclass(frozen=True)
class _Widths:
    """The widths of a model's tensors that activations are counted with; averages over unlike layers."""

    query: float
    kv: float
    mlp: float
    mlp_inputs: int

    @classmethod
    def of(cls, m: Model) -> "_Widths":
        parts = ("dense_mlp", "experts", "shared_experts")
        mlp = sum(n * o.k * o.used for part in parts for n, o in m.products(part, "down")) / m.n_layers
        inputs = 2 if m.gated_mlp else 1
        core = m.core
        if core is None:
            return cls(0.0, 0.0, mlp, inputs)
        if core.latent_v:  # keys and queries carry the rotary part, values their own size
            both = core.heads * (core.qk_dim + core.v_dim) / 2
            return cls(both, both, mlp, inputs)
        return cls(core.heads * core.qk_dim, core.kv_heads * core.qk_dim, mlp, inputs)


@dataclass(frozen=True)
class _Kept:
    """Numbers of a token that a layer keeps, by what cuts them and how they are kept; and those that it computes again."""

    whole_wide: float
    whole_narrow: float
    cut_wide: float
    cut_narrow: float
    again: float  # of those that are cut, computed once more for the backward pass

    @classmethod
    def of(cls, m: Model, w: _Widths, modules: tuple[str, ...], narrow: bool, fused_mlp: bool) -> "_Kept":
        moe = m.n_moe_layers / m.n_layers
        gates = w.mlp_inputs if fused_mlp or not m.gated_mlp else w.mlp_inputs + 1
        norms = 0.0 if "layernorm" in modules else 2.0 * m.hidden
        cut_wide, cut_narrow, again = 2.0 * (w.query + w.kv), moe * m.top_k * m.hidden, 0.0
        if "mla_up_proj" in modules:
            core = m.core
            if core is None or not core.latent_v:
                raise InputError(
                    f"recompute_modules: 'mla_up_proj' needs latent attention; {m.name} has none, leave it out"
                )
            again = core.heads * (2.0 * core.qk_dim + core.v_dim)
            cut_wide += m.rank("q_down") + core.latent_qk - again
        act = "moe_act" in modules
        if act:
            again += w.mlp
        # With its activation function computed again, an MLP keeps what goes into that, as narrow as other inputs
        wide_gates = 0.0 if act and narrow else gates * w.mlp
        return cls(
            whole_wide=2.0 * m.hidden,
            whole_narrow=norms,
            cut_wide=cut_wide + wide_gates,
            cut_narrow=cut_narrow + gates * w.mlp - wide_gates + (0.0 if act else w.mlp),
            again=again,
        )


@dataclass(frozen=True)
class _Weights:
    """Parameters of a model by where pipeline, tensor and expert parallelism put them."""

    layer: float  # one layer, without its routed experts
    layer_experts: float
    first: float  # what stands before the layers
    last: float  # what stands behind them
    tied: float  # an embedding that the last stage needs a copy of
    module: float  # of all modules for multi-token prediction, without their routed experts
    module_experts: float

    @classmethod
    def of(cls, m: Model, modules: int) -> "_Weights":
        count = transformer.parameter_count(m)
        before = count.embedding + count.positions
        layers = count.total - before - count.lm_head - count.experts
        tied = count.embedding if m.tied_embeddings else 0
        experts = modules * count.experts / m.n_moe_layers if m.is_moe else 0.0
        module = modules * transformer.mtp_parameters(m) / max(1, m.n_mtp_layers) - experts
        return cls(layers / m.n_layers, count.experts / m.n_layers, before, count.lm_head, tied, module, experts)


@widening
def training_memory(
    model: Model | str,
    device: Device | str,
    *,
    seq: Num,
    micro_batch: Num = 1,
    tp: Num = 1,
    pp: Num = 1,
    cp: Num = 1,
    dp: Num = 1,
    ep: Num = 1,
    etp: Num | None = None,
    replicas: Num = 1,
    recipe: Recipe | str = "megatron-bf16",
    sharding: str = "none",
    recompute: str = "none",
    seq_parallel: bool = True,
    virtual_stages: Num = 1,
    micro_batches: Num | None = None,
    fused_attention: bool = True,
    fused_mlp: bool = True,
    dropout: bool = False,
    logit_bytes: Num = 4.0,
    units_in_flight: Num = 2,
    reshard_after_forward: bool | None = None,
    schedule: str = "1f1b",
    recompute_layers: int | None = None,
    recompute_modules: tuple[str, ...] = (),
    precision: str = "bf16",
    optimizer: str = "adamw",
    offload: str = "none",
    mtp: bool = False,
    capacity: float | None = None,
) -> TrainingMemory:
    """Memory that training needs on the device that holds most, and whether the device has it.

    Formula: eq-training-memory, on the heavier of the first and the last pipeline stage.

    Parameters
    ----------
    model : Model or str
        A catalogue entry or its name.
    device : Device or str
        A catalogue entry or its name.
    seq, micro_batch : float or array, 1
        Tokens per sequence; sequences per micro-batch of one data-parallel rank.
    tp, pp, cp, dp : float or array, 1
        Tensor-, pipeline-, context- and data-parallel degrees.
    ep : float or array, 1
        Expert-parallel degree, nested inside dp x cp, or with etp 1 inside tp x dp x cp.
    etp : float or array, 1, optional
        Tensor-parallel ranks that cut an expert: 1 or tp (default: tp).
    replicas : float or array, 1
        Only with hsdp: whole copies among the dp x cp ranks.
    recipe : Recipe or str, one of memory.RECIPES
        Number formats of weights, gradients and optimizer states; or a recipe of your own.
    sharding : str
        none, zero1, zero2, zero3 (fsdp is the same) or hsdp, over the dp x cp ranks.
    recompute : str
        none; selective (attention scores, as Megatron); matmuls (all but every second matrix product, as torchtitan);
        full (all but the layers' inputs).
    seq_parallel : bool
        Whether tensor-parallel ranks split the sequence where they do not split matrices.
    virtual_stages : float or array, 1
        Model chunks per pipeline stage; more than 1 means interleaved.
    micro_batches : float or array, 1, optional
        Per step; enough to fill the pipeline when not given.
    fused_attention : bool
        Attention scores stay on the chip; otherwise they are written to memory.
    fused_mlp : bool
        One kernel gates the MLP.
    dropout : bool
        Dropout masks are kept.
    logit_bytes : float or array, byte
        Bytes that the loss holds per logit (see LOGIT_BYTES).
    units_in_flight : float or array, 1
        Units gathered at a time by zero3, fsdp and hsdp.
    reshard_after_forward : bool, optional
        Only with zero3, fsdp and hsdp: whether a gathered unit is freed again after its forward pass. When it is not, the
        device holds the whole weights of all its layers until the backward pass, and in a pipeline, where gradients are
        sent once a step, the whole gradients too. When not given: as torchtitan does it, freed without a pipeline and
        kept in one, where each micro-batch would gather again.
    schedule : str
        Order of the pipeline: 1f1b; zb-h1, zb-v (as many micro-batches in flight on every device as there are stages);
        dualpipe (one more, and two stages on every device); dualpipe-v (half of one more, and a stage in two chunks).
    recompute_layers : int, optional
        Only with full: so many layers of a stage; all of them when not given.
    recompute_modules : tuple of str
        Only with selective: parts of a layer, of MODULES. The attention core alone when not given.
    precision : str
        Number format of the matrix products. With a word of SCALINGS (fp8-blockwise, mxfp8, ...) inputs of products are kept in that format; with
        any other in 16 bits.
    optimizer : str
        One of OPTIMIZERS: what it keeps beside the recipe's master weight.
    offload : str
        none; optimizer (its states lie in the host's memory); activations (all but those of one micro-batch do); both.
    mtp : bool
        Whether the modules for multi-token prediction that the model has are trained, behind the last stage: each a layer, a
        projection, and a loss of its own.
    capacity : float, byte, (0, inf), optional
        Memory of a device that must suffice, as in ``"80 GB"`` (default: what its driver reports).

    Returns
    -------
    TrainingMemory
        Frozen result with every part, ``total``, ``fits``, ``reason``, ``headroom`` and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown model, device, recipe, sharding or recompute.

    Assumptions: those of the equations; stages of equal layers, rounded up; unlike layers (dense and experts) are
    averaged; experts get equally many tokens.

    >>> r = training_memory("Llama-2-70B", "H100", seq=4096, tp=8, pp=4, dp=4, sharding="zero1")
    >>> r.fits
    True

    Source: rajbhandari2020zero, korthikanti2022recompute, zhao2023fsdp.
    """
    m, d = catalog.model(model), catalog.where(device).device
    _check_choice("optimizer", optimizer, tuple(OPTIMIZERS))
    r = OPTIMIZERS[optimizer].of(_recipe(recipe))
    _check_choice("sharding", sharding, SHARDINGS)
    _check_choice("recompute", recompute, RECOMPUTE)
    if reshard_after_forward not in (None, True, False):
        raise InputError(f"reshard_after_forward = {reshard_after_forward!r} must be True, False or None (by the rule)")
    if reshard_after_forward is not None and sharding not in GATHERED:
        raise InputError(
            f"reshard_after_forward = {reshard_after_forward} needs weights that are sharded; {sharding!r} keeps them "
            f"whole, so leave it out or use one of {', '.join(GATHERED)}"
        )
    m.check_length("training_memory", seq)
    counts = {"seq": seq, "micro_batch": micro_batch, "tp": tp, "pp": pp, "cp": cp, "dp": dp, "ep": ep}
    counts |= {"virtual_stages": virtual_stages} | ({} if micro_batches is None else {"micro_batches": micro_batches})
    folded = tp * 0 + 1 if etp is None else tp / etp  # tensor-parallel ranks with whole experts
    _check_counts(m, counts, folded, capacity)
    modules = m.n_mtp_layers if mtp else 0
    shape = {"seq": seq / cp, "micro_batch": micro_batch, "hidden": m.hidden}
    held = _layer_activations(
        m,
        shape,
        {"tp": tp, "sequence_shards": tp if seq_parallel else 1},
        recompute=recompute,
        layers=recompute_layers,
        modules=recompute_modules,
        stage_layers=-(-m.n_layers // pp),
        scaling=SCALINGS.get(precision),
        fused_attention=fused_attention,
        fused_mlp=fused_mlp,
        dropout=dropout,
    )
    stages = _Stages(
        m,
        r,
        _Weights.of(m, modules),
        held,
        shape=shape,
        sharding=sharding,
        tp=tp,
        pp=pp,
        ep=ep if etp is None else ep / folded,
        ranks=dp * cp,
        replicas=replicas,
        virtual_stages=virtual_stages,
        micro_batches=2 * pp if micro_batches is None else micro_batches,
        kept=keeps_gathered(pp, reshard_after_forward) if sharding in GATHERED else 0,
        units_in_flight=units_in_flight,
        schedule=schedule,
        offload=offload,
        modules=modules,
        logit_bytes=logit_bytes,
        repeats=recompute in ("matmuls", "full"),
    )
    both = [stages.terms(last) for last in (False, True)]
    first, last = (peak_memory(**{t.name: t.value for t in terms}) for terms in both)
    heavier = last > first
    terms = tuple(
        Term(a.name, where(heavier, b.value, a.value), a.label, (b if all_true(heavier) else a).arguments)
        for a, b in zip(*both, strict=True)
    )
    return TrainingMemory(
        model=m,
        device=d,
        recipe=r,
        sharding=sharding,
        recompute=recompute,
        stage=where(heavier, "middle" if stages.both_ends else "last", "ends" if stages.both_ends else "first"),
        terms=terms,
        total=maximum(first, last),
        capacity=d.usable_memory if capacity is None else capacity,
        capacity_origin=d.origin("usable_memory") if capacity is None else CALLER,
        given={**counts, "replicas": replicas, "logit_bytes": logit_bytes},
        assumed=(
            "Attention scores stay on chip." if fused_attention else "Attention scores are written to memory.",
            "The sequence is split among tensor-parallel ranks." if seq_parallel else "No sequence parallelism.",
            "Dropout masks are kept." if dropout else "No dropout.",
            *_beside(schedule, optimizer, offload),
            *(("Modules for multi-token prediction are trained behind the last layer.",) if modules else ()),
            *_resharding(sharding, stages.kept, stages.alone),
        ),
    )


def _check_counts(m: Model, counts: Mapping[str, Num], folded: Num, capacity: float | None) -> None:
    """Raise an InputError for a count out of range, or a split that the model cannot have."""
    for name, value in counts.items():  # a length may be a mean; the others are counted
        check_argument("training_memory", name, value, "1", _LENGTH if name == "seq" else _COUNT)
    if capacity is not None:
        check_argument("training_memory", "capacity", capacity, "byte", _CAPACITY)
    pp, ep, ranks = counts["pp"], counts["ep"], counts["dp"] * counts["cp"] * folded
    inside = "dp x cp" if all_true(folded == 1) else "tp x dp x cp"
    if not all_true(pp <= m.n_layers):
        raise InputError(f"pp = {pp} must not exceed the {m.n_layers} layers of {m.name}")
    if not all_true(ep <= ranks):
        raise InputError(f"ep = {ep} must not exceed {inside} = {ranks}: expert parallelism is nested in it")
    if not all_true(ranks % ep == 0):
        raise InputError(f"ep = {ep} must divide {inside} = {ranks}, whose ranks share the experts; choose a divisor")
    if not m.is_moe and not all_true(ep == 1):
        raise InputError(f"ep = {ep} needs a mixture of experts; {m.name} is dense")


class _Activations(NamedTuple):
    """Bytes of a micro-batch on a device: kept of a layer, and computed again at a time, with the equation of the latter."""

    layer: Num
    again: Num
    label: str
    arguments: Mapping[str, Any]


def _layer_activations(
    m: Model,
    shape: Mapping[str, Num],
    split: Mapping[str, Num],
    *,
    recompute: str,
    layers: int | None,
    modules: tuple[str, ...],
    stage_layers: Num,
    scaling: Scaling | None,
    fused_attention: bool,
    fused_mlp: bool,
    dropout: bool,
) -> _Activations:
    """What one micro-batch leaves on a device in a layer, by the way of recomputing."""
    w, (tokens, micro_batch) = _Widths.of(m), (shape["seq"], shape["micro_batch"])
    widths = {"query_width": w.query, "kv_width": w.kv, "mlp_width": w.mlp}
    tensors = w.mlp_inputs + 1 if fused_mlp or not m.gated_mlp else 4
    sizes = {"element_bytes": 2.0, "mask_bytes": 1.0}
    block: dict[str, Any] = {**shape, **widths, "mlp_tensors": tensors, "masks": 2 * dropout, **split, **sizes}
    whole = block_activations(**block)
    # Without dropout only the softmax's output is kept: half of the two tensors of eq-activation-memory.
    formats = sizes if dropout else {"element_bytes": 1.0, "mask_bytes": 0.0}
    scores = 0.0 if fused_attention else activation_memory(tokens, micro_batch, 0, m.heads, **formats) / split["tp"]
    if recompute == "matmuls":
        layer = activation_memory_matmuls(**shape, **widths, mlp_inputs=w.mlp_inputs, **split)
    elif recompute == "full":
        layer = activation_memory_full(**shape, sequence_shards=split["sequence_shards"])
    else:
        layer = whole + (scores if recompute == "none" else 0.0)
    block["layers"] = 1 if recompute in ("matmuls", "full") else 0  # how many are computed again at a time
    repeated = 0.0 if recompute == "none" else scores
    found = _Activations(layer, block_activations(**block) + repeated, "eq-activation-block", block)
    counted = m.is_moe or bool(modules) or scaling is not None  # tensor by tensor, and in which format
    if counted and (recompute in ("none", "selective") or layers is not None):
        parts = _Kept.of(m, w, modules, scaling is not None, fused_mlp)
        cut = {**split, "narrow_bytes": 2.0 if scaling is None else scaling.stored_bytes}
        numbers = {name: getattr(parts, name) for name in ("whole_wide", "whole_narrow", "cut_wide", "cut_narrow")}
        masks = 2.0 * dropout * tokens * micro_batch * m.hidden / split["sequence_shards"]
        whole = stored_activations(tokens, micro_batch, **numbers, **cut) + masks
        if layers is None:
            numbers = dict.fromkeys(numbers, 0.0) | {"cut_wide": parts.again}
            again = stored_activations(tokens, micro_batch, **numbers, **cut) + repeated
            arguments = {"seq": tokens, "micro_batch": micro_batch, **numbers, **cut}
            kept = whole + (scores if recompute == "none" else 0.0)
            return _Activations(kept, again, "eq-activation-stored", arguments)
    if layers is None:
        return found
    if not all_true(layers <= stage_layers):
        raise InputError(f"recompute_layers = {layers} must not exceed the {stage_layers} layers of a stage")
    return found._replace(layer=(layers * layer + (stage_layers - layers) * (whole + scores)) / stage_layers)


@dataclass(frozen=True)
class _Stages:
    """Both candidates for the heaviest stage; the last one holds fewer micro-batches, and the loss."""

    model: Model
    recipe: Recipe
    weights: _Weights
    held: _Activations
    _: KW_ONLY
    shape: Mapping[str, Num]
    sharding: str
    tp: Num
    pp: Num
    ep: Num
    ranks: Num
    replicas: Num
    virtual_stages: Num
    micro_batches: Num
    kept: Num
    units_in_flight: Num
    schedule: str
    offload: str
    modules: int
    logit_bytes: Num
    repeats: bool  # products run again in the backward pass, with the weights of one unit

    @property
    def both_ends(self) -> bool:
        """Whether a device has a stage of each direction; the ends' devices may have fewer layers."""
        return self.schedule == "dualpipe"

    @property
    def alone(self) -> Num:
        return where(self.pp == 1, 1, 0)

    @property
    def unsent(self) -> Num:
        """1 where a pipeline adds gradients up, whole, and sends them after the last micro-batch."""
        return self.kept * (1 - self.alone)

    def _share(self, last: bool) -> tuple[Num, Num, Num, Num]:
        """Layers of a device, its parameters without and of routed experts, and those of its ends."""
        p, pp, alone = self.weights, self.pp, self.alone
        each = -(-self.model.n_layers // pp)
        slots = each * pp - self.model.n_layers  # layers that the fullest stage has and others need not have
        ends = p.first + alone * p.last if not last else p.last + alone * p.first + (1 - alone) * p.tied
        layers = each * (2 if self.both_ends else 1)
        if self.both_ends:  # the device of both ends, then one in the middle
            spare = minimum(2 * each if self.modules else 2, slots)
            ends, layers = (0, layers) if last else (p.first + p.last, layers - spare)
        dense, experts = layers * p.layer + ends, layers * p.layer_experts
        if self.modules:  # behind the last layer, which has fewer others beside it where the layers leave room for that
            behind = where(last, 1, alone) if not self.both_ends else 1 - last
            fewer = (1 - alone) * last * minimum(each, slots) if not self.both_ends else 0
            # each module embeds what comes next
            copied = (1 - alone) * last * (p.first - p.tied) if not self.both_ends else 0
            layers = layers + behind * self.modules - fewer
            dense = dense - fewer * p.layer + behind * p.module + copied
            experts = experts - fewer * p.layer_experts + behind * p.module_experts
        return layers, dense / self.tp, experts / (self.tp * self.ep), ends

    def _states(self, dense: Num, experts: Num) -> tuple[Term, ...]:
        """Weights, gradients and states of the optimizer, those of routed experts among them."""
        r, sharding, unsent, ranks = self.recipe, self.sharding, self.unsent, self.ranks
        held = 2 if self.both_ends else 1
        of_gradients = {"ranks": where(unsent > 0, 1, ranks), "replicas": where(unsent > 0, 1, self.replicas)}
        states = [model_state_memory(dense, r, sharding, ranks * held if sharding != "none" else ranks, self.replicas)]
        gradients = [model_state_memory(dense, r, sharding, **of_gradients)]
        if self.model.is_moe:
            copies = (
                ranks * held / self.ep
            )  # of an expert, before any sharding: there cannot be more whole ones than that
            states.append(model_state_memory(experts, r, sharding, copies, minimum(self.replicas, copies)))
            of_experts = {k: where(unsent > 0, 1, minimum(v, copies)) for k, v in of_gradients.items()}
            gradients.append(model_state_memory(experts, r, sharding, **of_experts))
        state = {t.name: t for t in (*states[0].terms, gradients[0].terms[1])}
        sums = {name: sum(s._value(name) for s in (gradients if name == "gradients" else states)) for name in state}
        if self.offload in ("optimizer", "both"):
            sums["optimizer"] = 0 * sums["optimizer"]
        return tuple(Term(t.name, sums[t.name], t.label, t.arguments) for t in state.values())

    def terms(self, last: bool) -> tuple[Term, ...]:
        """All that a device of the first or of the last stage holds."""
        p, m = self.weights, self.model
        layers, dense, experts, ends = self._share(last)
        pipeline = {
            "layer_bytes": self.held.layer,
            "layers": layers / (2 if self.both_ends else 1) * self.pp,
            "pp": self.pp,
            "virtual_stages": self.virtual_stages,
            "micro_batches": self.micro_batches,
            "position": 1 if last and self.schedule == "1f1b" else 0,
            "extra": {"dualpipe": 1, "dualpipe-v": 0.5}.get(self.schedule, 0),
        }
        if self.offload in ("activations", "both"):  # those of one micro-batch at a time
            pipeline |= {"micro_batches": self.virtual_stages * 0 + 1, "extra": 0}
        output = {**self.shape, "vocab": m.vocab * (1 + self.modules), "tp": self.tp, "logit_bytes": self.logit_bytes}
        # only the last stage computes the loss
        output |= {"element_bytes": 2.0, "seq": self.shape["seq"] * (1 if last != self.both_ends else self.alone)}
        unit = maximum((p.layer + p.layer_experts / self.ep) / self.tp, ends / self.tp)
        flying = where(self.kept > 0, 1, self.units_in_flight) if self.sharding in GATHERED else 0
        unit = where(self.kept > 0, dense + experts, unit)  # all that the device has is one unit, gathered once
        gather = {"unit_parameters": unit, "compute_bytes": self.recipe.compute, "units_in_flight": flying}
        if self.recipe.copy and self.sharding in GATHERED:
            copied = unit if self.repeats else dense + experts
            gather |= {"copied_parameters": copied, "copy_bytes": self.recipe.copy}
        return (
            *self._states(dense, experts),
            Term("gathered", gathered_units(**gather), "eq-fsdp-gathered", gather),
            Term("activations", activation_memory_pipeline(**pipeline), "eq-activation-pipeline", pipeline),
            Term("output", output_activations(**output), "eq-activation-output", output),
            Term("recomputed", self.held.again, self.held.label, self.held.arguments),
        )
