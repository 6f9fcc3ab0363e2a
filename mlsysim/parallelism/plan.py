"""A plan: the degrees of a split model and what goes with them, checked against itself and against a model."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from mlsysim import catalog, memory
from mlsysim._numeric import Num, all_true, is_array
from mlsysim.catalog import Model
from mlsysim.equations import shorten
from mlsysim.errors import InputError

# Ways to shard the training state over data-parallel ranks.
SHARDINGS = ("none", "zero1", "zero2", "fsdp", "hsdp")
# Ways to keep or compute again what the backward pass needs.
RECOMPUTES = ("none", "selective", "full")
# What a search of plans tries: beside those, some of the layers of a stage, as few as make a plan fit; from the least on.
SOME = "some"
AGAIN = (*RECOMPUTES[:-1], SOME, RECOMPUTES[-1])
# Sequences of a micro-batch that it tries, as published recipes have them.
MICRO_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16)
# How context-parallel ranks pass keys and values on; with a2a (Ulysses) they swap tokens for heads instead.
CP_COMM_TYPES = ("p2p", "all_gather", "a2a")
# Which tokens a context-parallel rank has: an early and a late piece, or one piece in a row.
CP_BALANCES = ("zigzag", "contiguous")
# Orders of a pipeline's work; 1f1b is interleaved where virtual_stages is above 1.
SCHEDULES = ("1f1b", "zb-h1", "zb-v", "dualpipe", "dualpipe-v")
# What waits in the host's memory until it is needed.
OFFLOADS = ("none", "optimizer", "activations", "both")
# Ways to split a model, from the innermost ranks outwards.
AXES = ("tp", "cp", "dp", "pp")
_ORDER = "tp-cp-ep-dp-pp"
# Who sends what to experts: DeepEP's normal kernels and HybridEP one copy to a node, which forwards it inside (deepep2025); an
# all-to-all of copies, as Megatron's "alltoall" dispatcher and DeepEP's low-latency kernels, one to every expert.
DISPATCHERS = ("per-node", "per-expert")
# Number formats of tokens on their way to experts.
DISPATCHES = ("bf16", "fp8")
_EMPTY_CHUNKS = 2  # chunks that may hold the embedding or the head and no layer
LARGEST_COUNT = 2**53  # whole numbers up to here are floats without rounding
Need: TypeAlias = tuple[Any, str, str]  # a condition, the field that breaks it, and what an error says after its value

# Words of a plan and what each may be.
_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("sharding", SHARDINGS),
    ("recompute", RECOMPUTES),
    ("cp_comm_type", CP_COMM_TYPES),
    ("schedule", SCHEDULES),
    ("cp_balance", CP_BALANCES),
    ("dispatch", DISPATCHES),
    ("dispatcher", DISPATCHERS),
    ("optimizer", tuple(memory.OPTIMIZERS)),
    ("offload", OFFLOADS),
)


def _count(value: Any) -> bool:
    if is_array(value):
        return getattr(value.dtype, "kind", "") in "iu" and not bool((value < 1).any())
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


# Of the other fields that are no degrees: what each must be.
_KINDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("recompute_layers", _count, "a whole number of at least 1, or None"),
    ("etp", _count, "a whole number of at least 1, or None"),
    ("node_limit", _count, "a whole number of at least 1, or None"),
    (
        "recompute_modules",
        lambda value: not isinstance(value, str) and set(value) <= set(memory.MODULES),
        f"a tuple of {', '.join(memory.MODULES)}",
    ),
    ("overlap_experts", lambda value: isinstance(value, bool), "True (another micro-batch computes) or False (none)"),
    ("mtp", lambda value: isinstance(value, bool), "True (the modules that the model has) or False (none)"),
    (
        "reshard_after_forward",
        lambda value: value is None or isinstance(value, bool),
        "True, False or None (by the rule)",
    ),
)


@dataclass(frozen=True)
class Plan:
    """How a training job is split. Degrees are whole numbers, or integer arrays of plans for a sweep.

    ``ep`` is nested: the expert-parallel group is made of data- and context-parallel ranks, with ``etp`` 1 of
    tensor-parallel ones too, so it multiplies no devices.

    Attributes
    ----------
    tp : int
        Tensor-parallel ranks.
    pp : int
        Pipeline stages.
    cp : int
        Context-parallel ranks.
    dp : int
        Data-parallel ranks.
    ep : int
        Expert-parallel ranks, out of cp x dp, or with etp 1 out of tp x cp x dp.
    etp : int, optional
        Tensor-parallel ranks of an expert: 1 leaves experts whole (Megatron's parallel folding); else tp (default: tp).
    virtual_stages : int
        Model chunks per device in the interleaved schedule. See ``largest_chunk_layers``.
    micro_batch : int
        Sequences in a micro-batch.
    sharding : str, one of SHARDINGS
        What data-parallel ranks share of the training state.
    hsdp_group : int
        Ranks that share one copy of the training state, with sharding hsdp.
    reshard_after_forward : bool, optional
        Whether fsdp and hsdp free gathered weights after each pass (default: yes without a pipeline, no in one).
    sequence_parallel : bool
        Tensor-parallel ranks share the sequences between products; otherwise each keeps them whole.
    recompute : str, one of RECOMPUTES
        What the backward pass computes again instead of keeping.
    cp_comm_type : str, one of CP_COMM_TYPES
        How context-parallel ranks exchange keys and values: p2p, block by block round a ring while others are computed,
        all_gather, all of them before the attention, or a2a, tokens for heads.
    order : str
        Axes from neighbouring ranks outwards; ep takes the innermost ranks of cp and dp together.
    schedule : str, one of SCHEDULES
        Order of a pipeline's work; zb-h1, zb-v, dualpipe and dualpipe-v put the gradients of weights off.
    recompute_layers : int, optional
        Layers of a stage, with recompute full, as Megatron's block method (default: all).
    recompute_modules : tuple of str, one of memory.MODULES
        Parts of a layer that are computed again, with recompute selective (default: core_attn).
    cp_balance : str, one of CP_BALANCES
        Tokens of a context-parallel rank: an early and a late piece (zigzag), or one in a row.
    node_limit : int, optional
        Nodes that a token's experts may lie on (default: any).
    dispatch : str, one of DISPATCHES
        Number format of tokens on their way to experts; combined results stay 16-bit.
    dispatcher : str, one of DISPATCHERS
        Copies of a token on the network: one to every node with experts of it, forwarded inside, as DeepEP and HybridEP
        send, or one to every expert, as an all-to-all does.
    overlap_experts : bool
        Messages to experts travel beside the products of another micro-batch.
    optimizer : str, one of memory.OPTIMIZERS
        Optimizer whose states are kept.
    offload : str, one of OFFLOADS
        What lies in the host's memory until it is needed.
    mtp : bool
        Train the modules for multi-token prediction that the model has, in pretraining.
    """

    tp: Num = 1
    pp: Num = 1
    cp: Num = 1
    dp: Num = 1
    ep: Num = 1
    etp: int | None = None
    virtual_stages: Num = 1
    micro_batch: Num = 1
    sharding: str = "zero1"
    hsdp_group: Num = 1
    reshard_after_forward: bool | None = None
    sequence_parallel: bool = True
    recompute: str = "none"
    cp_comm_type: str = "p2p"
    order: str = _ORDER
    schedule: str = "1f1b"
    recompute_layers: Num | None = None
    recompute_modules: tuple[str, ...] = ()
    cp_balance: str = "zigzag"
    node_limit: int | None = None
    dispatch: str = "bf16"
    dispatcher: str = "per-node"
    overlap_experts: bool = False
    optimizer: str = "adamw"
    offload: str = "none"
    mtp: bool = True

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "cp", "dp", "ep", "virtual_stages", "micro_batch", "hsdp_group"):
            value = getattr(self, name)
            if is_array(value):
                if getattr(value.dtype, "kind", "") not in "iu" or bool(
                    (value < 1).any() or (value > LARGEST_COUNT).any()
                ):
                    raise InputError(f"plan: {name} = {shorten(value, 60)} must hold whole numbers in [1, 2^53]")
                object.__setattr__(self, name, value.astype("int64"))
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"plan: {name} = {value!r} must be a whole number of at least 1")
        degrees = (self.tp, self.pp, self.cp, self.dp, self.micro_batch)
        if any(map(is_array, degrees)) and not all_true(prod(degrees, start=1.0) <= LARGEST_COUNT):
            raise InputError(
                "plan: tp x pp x cp x dp x micro_batch is above 2^53 somewhere in the arrays; use smaller degrees"
            )
        if self.sharding == "zero3":  # as mlsysim.memory and ZeRO's paper call it
            object.__setattr__(self, "sharding", "fsdp")
        for name, allowed in _WORDS:
            if getattr(self, name) not in allowed:
                raise InputError(f"plan: {name} = {getattr(self, name)!r} is not one of {', '.join(allowed)}")
        for name, fits, what in _KINDS:
            if not fits(getattr(self, name)):
                raise InputError(f"plan: {name} = {getattr(self, name)!r} must be {what}")
        if self.recompute_modules.__class__ is not tuple:
            object.__setattr__(self, "recompute_modules", tuple(self.recompute_modules))
        self._demand(self._agreement())

    def _demand(self, rows: Iterable[Need]) -> None:
        """Raise an InputError for the first row whose condition does not hold."""
        for holds, name, why in rows:
            if not holds:
                value = getattr(self, name)
                raise InputError(f"plan: {name} = {shorten(value, 60) if is_array(value) else repr(value)} {why}")

    def _agreement(self) -> Iterator[Need]:
        """What the words of a plan ask of each other."""
        cut = self.sharding in ("fsdp", "hsdp")
        if self.schedule != "1f1b":
            yield (
                not cut,
                "schedule",
                f"needs whole weights, which {self.sharding!r} frees before their gradients are due; use sharding none, zero1 "
                "or zero2",
            )
            yield (
                all_true(self.virtual_stages == 1),
                "virtual_stages",
                f"belongs to schedule '1f1b'; {self.schedule!r} cuts the layers by its own rule, so use 1",
            )
        if self.recompute_layers is not None:
            why = f"belongs to recompute 'full', not {self.recompute!r}"
            yield self.recompute == "full", "recompute_layers", why
        if self.recompute_modules:
            yield (
                self.recompute == "selective" and not cut,
                "recompute_modules",
                f"belong to recompute 'selective' with whole weights, not to {self.recompute!r} with {self.sharding!r}",
            )
        if self.reshard_after_forward is not None:
            why = f"belongs to sharding 'fsdp' or 'hsdp', not {self.sharding!r}; leave it out"
            yield cut, "reshard_after_forward", why
        if self.order != _ORDER:
            axes = str(self.order).split("-")
            yield (
                sorted(axes) in (sorted(AXES), sorted((*AXES, "ep"))),
                "order",
                f"must name tp, cp, dp and pp once each, and may name ep; write for example {_ORDER!r}",
            )
            inner = "ep" not in axes or axes.index("ep") < axes.index("dp")
            yield inner, "order", "puts ep outside dp, which it is part of; put it before dp"

    @property
    def devices(self) -> Num:
        return self.tp * self.pp * self.cp * self.dp

    @property
    def recomputed(self) -> tuple[str, ...]:
        """Parts of a layer that are computed again, by name: selective without further words is the attention core."""
        return (self.recompute_modules or ("core_attn",)) if self.recompute == "selective" else ()

    @property
    def data_parallel(self) -> Num:
        """Ranks that hold the same dense weights: the context-parallel group reduces gradients as well."""
        return self.dp * self.cp

    @property
    def expert_data_parallel(self) -> Num:
        """Ranks that hold the same experts."""
        return self.dp * self.cp * self.folded // self.ep

    @property
    def folded(self) -> Num:
        """Tensor-parallel ranks that have whole experts of their own: 1 where they cut each expert."""
        return self.tp if self.etp == 1 else self.tp * 0 + 1

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that multiply devices, from neighbouring ranks outwards."""
        return tuple(a for a in self.order.split("-") if a != "ep")

    @property
    def state_shards(self) -> Num:
        """Ranks over which the sharded part of the training state is cut."""
        if self.sharding == "none":
            return self.dp * self.cp * 0 + 1
        return self.hsdp_group if self.sharding == "hsdp" else self.dp * self.cp

    @property
    def keeps_gathered(self) -> Num:
        """1 where gathered weights stay until the backward pass (``memory.keeps_gathered``), 0 where they are freed."""
        if self.sharding not in ("fsdp", "hsdp"):
            return self.pp * 0
        return memory.keeps_gathered(self.pp, self.reshard_after_forward)

    def modules_trained(self, model: Model | str, task: str = "pretrain") -> int:
        """Modules for multi-token prediction that a job trains: those that the model has, in pretraining, unless ``mtp`` is False.

        >>> Plan().modules_trained("DeepSeek-V3"), Plan().modules_trained("DeepSeek-V3", "lora"), Plan().modules_trained("Llama-2-7B")
        (1, 0, 0)
        """
        return catalog.model(model).n_mtp_layers if self.mtp and task == "pretrain" else 0

    def micro_batches(self, global_batch: Num) -> Num:
        """Micro-batches per data-parallel rank and step, for a global batch in sequences."""
        return global_batch // (self.dp * self.micro_batch)

    def slowest_stage_layers(self, layers: Num) -> Num:
        """Layers on the fullest device of the pipeline; chunks take turns in receiving the left-over layers."""
        return -(-layers // self.pp)

    def largest_chunk_layers(self, layers: Num) -> Num:
        """Layers in the largest of the pp x virtual_stages chunks that the layers are dealt to.

        Every chunk holds that many or one less. Where there are more chunks than layers, the first and the last, which
        hold the embedding and the head, hold no layer.

        >>> Plan(pp=16, virtual_stages=8).largest_chunk_layers(126)  # 128 chunks, as Llama 3 405B may have had
        1
        """
        return -(-layers // (self.pp * self.virtual_stages))

    def check(self, model: Model | str, devices: int | None = None, global_batch: int | None = None) -> "Plan":
        """Return the plan itself, or raise an InputError that names the degree, its value, the range and the fix.

        >>> Plan(tp=8, pp=4).check(catalog.decoder("toy", 8, 512, 8, 8, 64, 2048, 1000)).devices  # 2 layers a stage
        32
        """
        m = catalog.model(model)
        self._demand(self._of_model(m))
        if devices is not None and self.devices != devices:
            raise InputError(
                f"plan: tp x pp x cp x dp = {self.tp} x {self.pp} x {self.cp} x {self.dp} = {self.devices} devices, "
                f"but there are {devices}; change dp so that the product is {devices}"
            )
        if global_batch is not None:
            group = self.dp * self.micro_batch
            if global_batch < group or global_batch % group:
                raise InputError(
                    f"plan: global_batch = {global_batch} must be a multiple of dp x micro_batch = {group}; "
                    "change the batch, dp or micro_batch"
                )
            self._demand(self._of_batch(global_batch // group))
        return self

    def _of_model(self, m: Model) -> Iterator[Need]:
        """What degrees and words ask of a model and of each other, in the order in which it is told."""
        for name in ("tp", "pp", "cp", "dp", "ep"):
            yield not is_array(getattr(self, name)), name, "is an array; check one plan at a time"
        yield m.heads % self.tp == 0, "tp", f"must divide the {m.heads} heads of {m.name}; choose a divisor"
        yield (
            m.is_mla or m.kv_heads % self.tp == 0 or self.tp % m.kv_heads == 0,
            "tp",
            f"must divide the {m.kv_heads} key-value heads of {m.name}, or be a multiple of them (then they are copied)",
        )
        if m.ffn:
            yield m.ffn % self.tp == 0, "tp", f"must divide the MLP width {m.ffn} of {m.name}; choose a divisor"
        chunks, most = self.pp * self.virtual_stages, m.n_layers + _EMPTY_CHUNKS
        yield self.pp <= m.n_layers, "pp", f"must lie in [1, {m.n_layers}], the layers of {m.name}; use fewer stages"
        yield self.pp > 1 or self.virtual_stages == 1, "virtual_stages", "needs a pipeline; use 1 when pp is 1"
        yield (
            chunks <= most,
            "virtual_stages",
            f"makes {chunks} chunks of {m.n_layers} layers, and only the first and the last chunk, with the embedding and "
            f"the head, may hold no layer; stay in [1, {most // self.pp}]",
        )
        if m.is_moe:
            yield m.n_experts % self.ep == 0, "ep", f"must divide the {m.n_experts} experts of {m.name}"
            yield (
                self.etp in (None, 1, self.tp),
                "etp",
                f"must be 1 (whole experts) or tp = {self.tp}; leave it out for tp",
            )
        else:
            yield self.etp is None, "etp", f"cuts experts, and {m.name} has none; leave it out"
            yield self.ep == 1, "ep", f"needs experts, and {m.name} has none; use 1"
            none = f"experts, and {m.name} has none; leave it out"
            yield self.node_limit is None, "node_limit", f"limits {none}"
            yield self.dispatch == "bf16", "dispatch", f"is of tokens to experts, and {m.name} has none; use bf16"
            yield not self.overlap_experts, "overlap_experts", f"hides messages to {none}"
        if self.schedule != "1f1b":
            yield self.pp > 1, "schedule", "needs a pipeline; use '1f1b' when pp is 1"
            yield self.schedule != "dualpipe" or self.pp % 2 == 0, "pp", "must be even with schedule 'dualpipe'"
            yield (
                not self.schedule.endswith("-v") or 2 * self.pp <= most,
                "pp",
                f"must be at most {most // 2} with schedule {self.schedule!r}, which gives every device two chunks of the "
                f"{m.n_layers} layers",
            )
        if self.cp_comm_type == "a2a" and self.cp > 1:
            yield (
                m.heads % (self.tp * self.cp) == 0,
                "cp",
                f"must divide the {m.heads // self.tp} heads of {m.name} that a tensor-parallel rank has, since with "
                "cp_comm_type 'a2a' each rank takes some of them; use fewer ranks, or p2p",
            )
        ranks = self.dp * self.cp
        why = f"must divide dp x cp = {ranks}"
        of = why if self.folded == 1 else f"must divide tp x cp x dp = {ranks * self.folded}"
        yield ranks * self.folded % self.ep == 0, "ep", f"{of}, whose ranks it is made of; choose a divisor"
        if self.sharding == "hsdp":
            yield ranks % self.hsdp_group == 0, "hsdp_group", f"{why}; choose a divisor"
        else:
            yield self.hsdp_group == 1, "hsdp_group", f"belongs to sharding 'hsdp', not {self.sharding!r}; use 1"

    def _of_batch(self, count: int) -> Iterator[Need]:
        """What schedule and chunks ask of the micro-batches of a rank and step."""
        yield (
            self.schedule != "dualpipe" or (count % 2 == 0 and count >= 2 * self.pp),
            "schedule",
            f"feeds half of the micro-batches from each end and needs an even number of at least 2 x pp = {2 * self.pp}; "
            f"there are {count}: change the batch, dp or micro_batch",
        )
        yield (
            self.schedule != "dualpipe-v" or count >= 2 * self.pp,
            "schedule",
            f"needs at least 2 x pp = {2 * self.pp} micro-batches; there are {count}: change the batch, dp or micro_batch",
        )
        yield (
            self.virtual_stages == 1 or count <= self.pp or count % self.pp == 0,
            "virtual_stages",
            f"interleaves {count} micro-batches over {self.pp} stages, and the schedule takes them in groups of {self.pp}; make "
            "them a multiple of it by the batch, dp or micro_batch, or use 1",
        )
