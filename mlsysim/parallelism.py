"""Splitting a model: which plan is possible, which link carries what, and what each kind of splitting costs.

A :class:`Plan` names the degrees and checks itself. :func:`placement` says which of its groups fit inside a scale-up
domain. Everything takes a float or an array (broadcasting) in SI units and returns the same; sizes are in bytes, and
times come from ``mlsysim.collectives``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlsysim import catalog, collectives, flops, memory, roofline
from mlsysim._numeric import Num, all_true, even_share, is_array, maximum, minimum, where, whole
from mlsysim.catalog import Model, Node, Sourced
from mlsysim.equations import AT_LEAST_ONE, COUNT, POSITIVE, equation, shown
from mlsysim.errors import InputError
from mlsysim.results import Listed

__all__ = [
    "AXES",
    "CP_BALANCES",
    "CP_COMM_TYPES",
    "OFFLOADS",
    "RECOMPUTES",
    "SCHEDULES",
    "SHARDINGS",
    "TP_PENALTY",
    "Placement",
    "Plan",
    "TensorParallelCost",
    "bubble_fraction",
    "bubble_ratio",
    "causal_imbalance",
    "cp_exchange_bytes",
    "devices",
    "dp_gradient_bytes",
    "dualpipe_bubble",
    "expert_replicas",
    "fsdp_bytes",
    "limited_nodes",
    "micro_batches",
    "penalised_step",
    "pipeline_time",
    "place",
    "placement",
    "pp_transfer_bytes",
    "scaling_efficiency",
    "split_backward_bubble",
    "tensor_parallel_cost",
    "tp_allreduce_bytes",
    "tp_volume",
    "ulysses_bytes",
    "v_shape_bubble",
]


def __dir__() -> list[str]:
    return __all__


# Ways to shard the training state over data-parallel ranks.
SHARDINGS = ("none", "zero1", "zero2", "fsdp", "hsdp")
# Ways to keep or compute again what the backward pass needs.
RECOMPUTES = ("none", "selective", "full")
# How context-parallel ranks pass keys and values on; with a2a (Ulysses) they swap tokens for heads instead.
CP_COMM_TYPES = ("p2p", "all_gather", "a2a")
# Which tokens a context-parallel rank has: an early and a late piece, or one piece in a row.
CP_BALANCES = ("zigzag", "contiguous")
# Orders of a pipeline's work; 1f1b is interleaved where virtual_stages is above 1.
SCHEDULES = ("1f1b", "zb-h1", "zb-v", "dualpipe")
# What waits in the host's memory until it is needed.
OFFLOADS = ("none", "optimizer", "activations", "both")
# Ways to split a model, from the innermost ranks outwards.
AXES = ("tp", "cp", "dp", "pp")
# Who sends what to experts: DeepEP's normal kernels and HybridEP one copy to a node, which forwards it inside (deepep2025); an
# all-to-all of copies, as Megatron's "alltoall" dispatcher and DeepEP's low-latency kernels, one to every expert.
DISPATCHERS = ("per-node", "per-expert")
# Number formats of tokens on their way to experts.
DISPATCHES = ("bf16", "fp8")
_EMPTY_CHUNKS = 2  # chunks that may hold the embedding or the head and no layer
LARGEST_COUNT = 2**53  # whole numbers up to here are floats without rounding

# A printed rule of thumb: how many times as long a step takes when tensor parallelism leaves its domain.
TP_PENALTY = Sourced(
    1.40, "1", "rooflinepage2026", "sec. 3.4", retrieved="2026-11-21", printed="a fixed 1.40x multiplier on the step"
)


@dataclass(frozen=True)
class Plan:
    """How a training job is split. Degrees are whole numbers, or integer arrays of plans for a sweep.

    ``ep`` is nested: the expert-parallel group is made of data- and context-parallel ranks, so it multiplies no
    devices.

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
        Expert-parallel ranks, out of cp x dp.
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
        Order of a pipeline's work; zb-h1, zb-v and dualpipe put the gradients of weights off.
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
    virtual_stages: Num = 1
    micro_batch: Num = 1
    sharding: str = "zero1"
    hsdp_group: Num = 1
    reshard_after_forward: bool | None = None
    sequence_parallel: bool = True
    recompute: str = "none"
    cp_comm_type: str = "p2p"
    order: str = "tp-cp-ep-dp-pp"
    schedule: str = "1f1b"
    recompute_layers: int | None = None
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
                    raise InputError(f"plan: {name} = {shown(value, 60)} must hold whole numbers in [1, 2^53]")
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
        if self._plain != _PLAIN:
            self._check_words()
        if not isinstance(self.overlap_experts, bool):
            raise InputError(
                f"plan: overlap_experts = {self.overlap_experts!r} must be True (another micro-batch computes) or False (none)"
            )
        if not isinstance(self.mtp, bool):
            raise InputError(f"plan: mtp = {self.mtp!r} must be True (the modules that the model has) or False (none)")
        reshard = self.reshard_after_forward
        if reshard is not None and not isinstance(reshard, bool):
            raise InputError(f"plan: reshard_after_forward = {reshard!r} must be True, False or None (by the rule)")
        if reshard is not None and self.sharding not in ("fsdp", "hsdp"):
            raise InputError(
                f"plan: reshard_after_forward = {reshard} belongs to sharding 'fsdp' or 'hsdp', not {self.sharding!r}; "
                "leave it out"
            )
        axes = str(self.order).split("-")
        if sorted(axes) not in (sorted(AXES), sorted((*AXES, "ep"))):
            raise InputError(
                f"plan: order = {self.order!r} must name tp, cp, dp and pp once each, and may name ep; "
                "write for example 'tp-cp-ep-dp-pp'"
            )
        if "ep" in axes and axes.index("ep") > axes.index("dp"):
            raise InputError(f"plan: order = {self.order!r} puts ep outside dp, which it is part of; put it before dp")

    @property
    def _plain(self) -> tuple[Any, ...]:
        """What few plans change, for a quick look."""
        return self.schedule, self.recompute_layers, self.recompute_modules, self.node_limit, self.offload

    def _check_words(self) -> None:
        """Words that ask for others."""
        if self.schedule != "1f1b":
            if self.sharding in ("fsdp", "hsdp"):
                raise InputError(
                    f"plan: schedule = {self.schedule!r} needs whole weights, which {self.sharding!r} frees before their "
                    "gradients are due; use sharding none, zero1 or zero2"
                )
            if not all_true(self.virtual_stages == 1):
                raise InputError(
                    f"plan: virtual_stages = {shown(self.virtual_stages, 60)} belongs to schedule '1f1b'; {self.schedule!r} "
                    "cuts the layers by its own rule, so use 1"
                )
        for name, least in (("recompute_layers", 1), ("node_limit", 1)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InputError(f"plan: {name} = {value!r} must be a whole number of at least {least}, or None")
        if self.recompute_layers is not None and self.recompute != "full":
            raise InputError(
                f"plan: recompute_layers = {self.recompute_layers} belongs to recompute 'full', not {self.recompute!r}"
            )
        modules: Any = self.recompute_modules
        if isinstance(modules, str) or not set(modules) <= set(memory.MODULES):
            raise InputError(
                f"plan: recompute_modules = {self.recompute_modules!r} must be a tuple of {', '.join(memory.MODULES)}"
            )
        if self.recompute_modules and (self.recompute != "selective" or self.sharding in ("fsdp", "hsdp")):
            raise InputError(
                f"plan: recompute_modules = {self.recompute_modules!r} belong to recompute 'selective' with whole weights, "
                f"not to {self.recompute!r} with {self.sharding!r}"
            )
        object.__setattr__(self, "recompute_modules", tuple(self.recompute_modules))

    @property
    def devices(self) -> Num:
        return self.tp * self.pp * self.cp * self.dp

    @property
    def stage_copies(self) -> int:
        """Stages whose weights a device holds: two with DualPipe, which feeds micro-batches from both ends."""
        return 2 if self.schedule == "dualpipe" else 1

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
        return self.dp * self.cp // self.ep

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

        >>> Plan(tp=8, pp=4).check(catalog.Model("toy", 8, 512, 8, 8, 64, 2048, 1000)).devices  # 2 layers a stage
        32
        """
        m = catalog.model(model)

        def need(condition: bool, name: str, why: str) -> None:
            if not condition:
                raise InputError(f"plan: {name} = {getattr(self, name)!r} {why}")

        for name in ("tp", "pp", "cp", "dp", "ep"):
            need(not is_array(getattr(self, name)), name, "is an array; check one plan at a time")
        need(m.heads % self.tp == 0, "tp", f"must divide the {m.heads} heads of {m.name}; choose a divisor")
        need(
            m.is_mla or m.kv_heads % self.tp == 0 or self.tp % m.kv_heads == 0,
            "tp",
            f"must divide the {m.kv_heads} key-value heads of {m.name}, or be a multiple of them (then they are copied)",
        )
        if m.ffn:
            need(m.ffn % self.tp == 0, "tp", f"must divide the MLP width {m.ffn} of {m.name}; choose a divisor")
        chunks = self.pp * self.virtual_stages
        need(
            self.pp <= m.layers,
            "pp",
            f"must lie in [1, {m.layers}], the layers of {m.name}; use fewer stages",
        )
        need(self.pp > 1 or self.virtual_stages == 1, "virtual_stages", "needs a pipeline; use 1 when pp is 1")
        need(
            chunks <= m.layers + _EMPTY_CHUNKS,
            "virtual_stages",
            f"makes {chunks} chunks of {m.layers} layers, and only the first and the last chunk, with the embedding and "
            f"the head, may hold no layer; stay in [1, {(m.layers + _EMPTY_CHUNKS) // self.pp}]",
        )
        if m.is_moe:
            need(m.n_experts % self.ep == 0, "ep", f"must divide the {m.n_experts} experts of {m.name}")
        else:
            need(self.ep == 1, "ep", f"needs experts, and {m.name} has none; use 1")
        if self._plain != _PLAIN or self.dispatch != "bf16" or self.cp_comm_type == "a2a":
            self._check_schedule(m, need)
        need(
            (self.dp * self.cp) % self.ep == 0,
            "ep",
            f"must divide dp x cp = {self.dp * self.cp}, whose ranks it is made of; choose a divisor",
        )
        if self.sharding == "hsdp":
            need(
                (self.dp * self.cp) % self.hsdp_group == 0,
                "hsdp_group",
                f"must divide dp x cp = {self.dp * self.cp}; choose a divisor",
            )
        else:
            need(self.hsdp_group == 1, "hsdp_group", f"belongs to sharding 'hsdp', not {self.sharding!r}; use 1")
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
            count = global_batch // group
            if self.schedule == "dualpipe" and (count % 2 or count < 2 * self.pp):
                raise InputError(
                    f"plan: schedule = 'dualpipe' feeds half of the micro-batches from each end and needs an even number of at "
                    f"least 2 x pp = {2 * self.pp}; there are {count}: change the batch, dp or micro_batch"
                )
            need(
                self.virtual_stages == 1 or count <= self.pp or count % self.pp == 0,
                "virtual_stages",
                f"interleaves {count} micro-batches over {self.pp} stages, and the schedule takes them in groups of "
                f"{self.pp}; make them a multiple of it by the batch, dp or micro_batch, or use 1",
            )
        return self

    def _check_schedule(self, m: Model, need: Any) -> None:
        """What schedule, cut of the context and limit of nodes ask of degrees and model."""
        if self.schedule != "1f1b":
            need(self.pp > 1, "schedule", "needs a pipeline; use '1f1b' when pp is 1")
            need(self.schedule != "dualpipe" or self.pp % 2 == 0, "pp", "must be even with schedule 'dualpipe'")
            need(
                self.schedule != "zb-v" or 2 * self.pp <= m.layers + _EMPTY_CHUNKS,
                "pp",
                f"must be at most {(m.layers + _EMPTY_CHUNKS) // 2} with schedule 'zb-v', which gives every device two "
                f"chunks of the {m.layers} layers",
            )
        if self.cp_comm_type == "a2a" and self.cp > 1:
            need(
                m.heads % (self.tp * self.cp) == 0,
                "cp",
                f"must divide the {m.heads // self.tp} heads of {m.name} that a tensor-parallel rank has, since with "
                "cp_comm_type 'a2a' each rank takes some of them; use fewer ranks, or p2p",
            )
        need(m.is_moe or self.node_limit is None, "node_limit", f"limits experts, and {m.name} has none; leave it out")
        need(
            m.is_moe or self.dispatch == "bf16", "dispatch", f"is of tokens to experts, and {m.name} has none; use bf16"
        )
        need(
            m.is_moe or not self.overlap_experts,
            "overlap_experts",
            f"hides messages to experts, and {m.name} has none; leave it out",
        )


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
_PLAIN = ("1f1b", None, (), None, "none")


@dataclass(frozen=True)
class Placement(Listed):
    """Where the groups of a plan lie, by name of the axis (``data`` is dp and cp together)."""

    inside: Mapping[str, Num]  # ranks of one group that share a scale-up domain
    domains: Mapping[str, Num]  # scale-up domains that one group spans
    leaves: Mapping[str, Any]  # whether its traffic leaves the domain
    used: Num  # devices of each domain that the plan fills; the rest stay idle


def placement(plan: Plan, domain: Num) -> Placement:
    """Which groups of a plan stay inside a scale-up domain of so many devices, in the plan's order of ranks.

    Ranks are dealt out in the plan's order, and every domain takes the same number of them, so that groups split
    evenly. A group of one rank never leaves.

    >>> placement(Plan(tp=8, pp=4, dp=16), domain=8).inside
    {'tp': 8, 'cp': 1, 'dp': 1, 'pp': 1, 'data': 1, 'ep': 1}
    >>> placement(Plan(tp=16, dp=4), domain=8).leaves["tp"]
    True
    """
    if not is_array(domain) and (isinstance(domain, bool) or not isinstance(domain, int) or domain < 1):
        raise InputError(f"placement: domain = {domain!r} must be a whole number of at least 1")
    return place({axis: getattr(plan, axis) for axis in (*AXES, "ep")}, plan.axes, domain)


def place(degrees: Mapping[str, Num], axes: Sequence[str], domain: Num) -> Placement:
    """:func:`placement` of bare degrees (of every axis, and ep), with the axes listed from neighbouring ranks outwards.

    >>> place({"tp": 2, "cp": 1, "dp": 8, "pp": 2, "ep": 4}, ("tp", "cp", "dp", "pp"), domain=8).inside["ep"]
    4
    """
    sizes = {name: whole(size) for name, size in degrees.items()}
    domain = whole(domain)
    inside: dict[str, Num] = {}
    used: Num = 1
    full: Any = True  # whether every axis so far lies inside; an outer axis can only start where the inner one ended
    for axis in axes:
        room = where(full, domain // used, 1)
        inside[axis] = even_share(sizes[axis], room)
        full = full & (inside[axis] == sizes[axis])
        used = used * inside[axis]
    sizes["data"] = sizes["dp"] * sizes["cp"]
    inside = {axis: inside[axis] for axis in AXES}
    inside["data"] = inside["cp"] * inside["dp"]
    inside["ep"] = even_share(sizes["ep"], inside["data"])
    return Placement(
        inside=inside,
        domains={axis: sizes[axis] // inside[axis] for axis in (*AXES, "data", "ep")},
        leaves={axis: inside[axis] < sizes[axis] for axis in (*AXES, "data", "ep")},
        used=used,
    )


@equation(
    "eq-parallel-degrees", formula="tp * pp * cp * dp", domain={"tp": COUNT, "pp": COUNT, "cp": COUNT, "dp": COUNT}
)
def devices(tp: Num, pp: Num, cp: Num, dp: Num) -> Num:
    """Devices of a job: every combination of the four degrees is one device.

    Formula: devices = TP x PP x CP x DP.

    Parameters
    ----------
    tp, pp, cp, dp : float or array, 1
        Tensor-, pipeline-, context- and data-parallel degree.

    Returns
    -------
    float or array, 1

    Assumptions: expert parallelism reuses data- and context-parallel ranks, so EP divides CP x DP and adds no factor.

    >>> devices(tp=8, pp=16, cp=1, dp=128)
    16384

    Source: grattafiori2024llama3, sec. 3.3.2.
    """
    return tp * pp * cp * dp


@equation(
    "eq-expert-replicas",
    formula="devices / (tp * pp * ep)",
    domain={"devices": COUNT, "tp": COUNT, "pp": COUNT, "ep": COUNT},
)
def expert_replicas(devices: Num, tp: Num, pp: Num, ep: Num) -> Num:
    """Ranks that hold a copy of the same expert, and average its gradients.

    Formula: expert replicas = devices / (TP x PP x EP) = CP x DP / EP.

    Parameters
    ----------
    devices : float or array, 1
        Devices of the job.
    tp, pp, ep : float or array, 1
        Tensor-, pipeline- and expert-parallel degree.

    Returns
    -------
    float or array, 1

    Assumptions: experts are cut by TP as the dense layers are. The source calls this number the data-parallel degree;
    that is so for the experts only.

    >>> expert_replicas(devices=2048, tp=1, pp=16, ep=64)
    2.0

    Source: reddi2026mathpage, sec. 2.4.
    """
    return devices / (tp * pp * ep)


@equation(
    "eq-micro-batches",
    formula="global_batch / (dp * micro_batch)",
    domain={"global_batch": COUNT, "dp": COUNT, "micro_batch": COUNT},
)
def micro_batches(global_batch: Num, dp: Num, micro_batch: Num) -> Num:
    """Micro-batches that each data-parallel replica works through in a step.

    Formula: m = B / (DP x b).

    Parameters
    ----------
    global_batch : float or array, 1
        Sequences per optimiser step.
    dp : float or array, 1
        Data-parallel degree.
    micro_batch : float or array, 1
        Sequences per micro-batch.

    Returns
    -------
    float or array, 1

    Assumptions: the batch divides evenly (:meth:`Plan.check` insists on it).

    >>> micro_batches(global_batch=2048, dp=128, micro_batch=1)
    16.0

    Source: narayanan2021megatron, sec. 3.1.
    """
    return global_batch / (dp * micro_batch)


@equation(
    "eq-pipeline-bubble",
    formula="(pp - 1 + (virtual_stages - 1) * max(0, pp - micro_batches)) / (virtual_stages * micro_batches + pp - 1 "
    "+ (virtual_stages - 1) * max(0, pp - micro_batches))",
    domain={"pp": COUNT, "micro_batches": COUNT, "virtual_stages": AT_LEAST_ONE},
)
def bubble_fraction(pp: Num, micro_batches: Num, virtual_stages: Num = 1) -> Num:
    """Share of the **whole** step in which a pipeline's device waits.

    Formula: u / (V m + u), where u = P - 1 + (V - 1) max(0, P - m).

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages (devices in the pipeline).
    micro_batches : float or array, 1
        Micro-batches per step.
    virtual_stages : float or array, 1
        Model chunks per device; 1 is plain 1F1B or GPipe. Where chunks are unequal: a device's work over that of the
        largest chunk, at most their number.

    Returns
    -------
    float or array, 1

    Assumptions: as for :func:`bubble_ratio`.

    >>> bubble_fraction(pp=4, micro_batches=57)
    0.05

    Source: reddi2026mathpage, sec. 2.3, here with interleaving.
    """
    waits = pp - 1 + (virtual_stages - 1) * maximum(0, pp - micro_batches)
    return waits / (virtual_stages * micro_batches + waits)


@equation(
    "eq-pipeline-bubble-ratio",
    formula="(pp - 1 + (virtual_stages - 1) * max(0, pp - micro_batches)) / (virtual_stages * micro_batches)",
    domain={"pp": COUNT, "micro_batches": COUNT, "virtual_stages": AT_LEAST_ONE},
)
def bubble_ratio(pp: Num, micro_batches: Num, virtual_stages: Num = 1) -> Num:
    """Waiting time of a pipeline's device over its **ideal** computing time.

    Formula: (P - 1 + (V - 1) max(0, P - m)) / (V m). With m >= P that is (P - 1) / (V m); with fewer, no step is shorter
    than P stage times, because one micro-batch must pass every chunk.

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages (devices in the pipeline).
    micro_batches : float or array, 1
        Micro-batches per step.
    virtual_stages : float or array, 1
        Model chunks per device; 1 is plain 1F1B or GPipe. Where chunks are unequal: a device's work over that of the
        largest chunk, at most their number.

    Returns
    -------
    float or array, 1

    Assumptions: equal chunks, dealt to the devices in turn; transfers between stages are hidden. No schedule waits less, and
    one attains it: all forward passes chunk by chunk, then all backward ones. Interleaved 1F1B attains it with less memory
    where m is a multiple of P, which Megatron asks for. Tied to :func:`bubble_fraction` by fraction = ratio / (1 + ratio).

    >>> bubble_ratio(pp=5, micro_batches=16)
    0.25
    >>> bubble_ratio(pp=16, micro_batches=1, virtual_stages=4)  # alone in the pipeline, however thin its chunks
    15.0

    Source: narayanan2021megatron, sec. 2.2, here also for fewer micro-batches than stages.
    """
    return (pp - 1 + (virtual_stages - 1) * maximum(0, pp - micro_batches)) / (virtual_stages * micro_batches)


@equation(
    "eq-pipeline-time",
    formula="micro_batches * slowest_stage + other_stages / virtual_stages + (1 - 1 / virtual_stages) * "
    "max(0 * other_stages, other_stages - (micro_batches - 1) * slowest_stage)",
    domain={"micro_batches": COUNT, "virtual_stages": AT_LEAST_ONE},
)
def pipeline_time(slowest_stage: Num, other_stages: Num, micro_batches: Num, virtual_stages: Num = 1) -> Num:
    """Time of a pipelined step, whose slowest stage sets the beat.

    Formula: T = m t_slowest + t_others / V + (1 - 1/V) max(0, t_others - (m - 1) t_slowest). The last term is there when
    the pipeline has more stages than micro-batches: the first micro-batch comes round too late for the next chunk.

    Parameters
    ----------
    slowest_stage : float or array, s
        Forward and backward time of one micro-batch on the slowest stage.
    other_stages : float or array, s
        The same, summed over all the other stages.
    micro_batches : float or array, 1
        Micro-batches per step.
    virtual_stages : float or array, 1
        Model chunks per device.

    Returns
    -------
    float or array, s

    Assumptions: every stage splits its time between forward and backward in the same proportion; transfers are hidden;
    exact for GPipe and an upper bound for 1F1B; with V > 1 the stages are equal, and what :func:`bubble_ratio` says of
    schedules holds.

    >>> pipeline_time(slowest_stage=2.0, other_stages=6.0, micro_batches=8)
    22.0
    >>> pipeline_time(slowest_stage=1.0, other_stages=1.0, micro_batches=1, virtual_stages=100)
    2.0

    Source: narayanan2021megatron, sec. 2.2, here for unequal stages.
    """
    late = maximum(0 * other_stages, other_stages - (micro_batches - 1) * slowest_stage)
    return micro_batches * slowest_stage + other_stages / virtual_stages + (1 - 1 / virtual_stages) * late


@equation(
    "eq-zero-bubble",
    formula="(pp - 1) * max(0 * forward, forward + backward_input - backward_weight)",
    domain={"pp": COUNT},
)
def split_backward_bubble(pp: Num, forward: Num, backward_input: Num, backward_weight: Num) -> Num:
    """Waiting time when weight gradients are put off to fill the drain, at the memory of 1F1B (schedule ZB-H1).

    Formula: (P - 1) max(0, t_F + t_B - t_W).

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages.
    forward : float or array, s
        Forward time of one micro-batch on one stage.
    backward_input : float or array, s
        Time of the gradient of the stage's input, which the stage before waits for.
    backward_weight : float or array, s
        Time of the gradient of the weights, which nobody waits for.

    Returns
    -------
    float or array, s

    Assumptions: equal stages, hidden transfers, enough micro-batches. With twice the activations in flight (ZB-H2) the
    weight time counts twice and, for equal times, the bubble is gone.

    >>> split_backward_bubble(pp=8, forward=1.0, backward_input=1.0, backward_weight=1.0)
    7.0

    Source: qi2024zerobubble, table 2, ZB-H1.
    """
    return (pp - 1) * maximum(0 * forward, forward + backward_input - backward_weight)


@equation(
    "eq-zb-v",
    formula="(pp - 1) * max(backward_input / 2, backward_weight / 2, forward - backward_input / 2, max(forward, backward_input) - backward_weight)",
    domain={"pp": COUNT},
)
def v_shape_bubble(pp: Num, forward: Num, backward_input: Num, backward_weight: Num) -> Num:
    """Waiting time when every device has two chunks along a V and weight gradients fill what is left (schedule ZB-V).

    Formula: (P - 1) max(t_B / 2, t_W / 2, t_F - t_B / 2, max(t_F, t_B) - t_W).

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages: devices, with two half-stage chunks each.
    forward : float or array, s
        Forward time of one micro-batch on one stage, both chunks together.
    backward_input : float or array, s
        Time of the gradient of the stage's input.
    backward_weight : float or array, s
        Time of the gradient of the weights.

    Returns
    -------
    float or array, s

    Assumptions: 2 P - 1 micro-batches or more, the memory of 1F1B, and the fixed order that ``pipelines.timed`` runs, with an update
    that all devices begin together. Exact where the gradient of the input takes the longest of the three times; else too long
    by at most half of what it takes less than another.

    >>> v_shape_bubble(pp=8, forward=1.0, backward_input=1.0, backward_weight=1.0)
    3.5

    Source: sail2024zerobubble, README, comparison of schedules; for no bubble inside; the rest is read off the order as it runs.
    """
    chunk = maximum(maximum(backward_input, backward_weight) / 2, forward - backward_input / 2)
    return (pp - 1) * maximum(chunk, maximum(forward, backward_input) - backward_weight)


@equation(
    "eq-dualpipe",
    formula="(pp / 2 - 1) * max(0 * pair, pair + backward_input - 2 * backward_weight)",
    domain={"pp": "[2, inf)"},
)
def dualpipe_bubble(pp: Num, pair: Num, backward_input: Num, backward_weight: Num) -> Num:
    """Waiting time when micro-batches enter from both ends and a forward pass runs beside a backward pass (DualPipe).

    Formula: (P/2 - 1) max(0, t_FB + t_B - 2 t_W).

    Parameters
    ----------
    pp : float or array, 1
        Pipeline stages, an even number.
    pair : float or array, s
        Forward pass of one micro-batch and whole backward pass of another on one stage, run side by side.
    backward_input : float or array, s
        Time of the gradient of the stage's input alone. The source's B is the whole backward pass, this and the next.
    backward_weight : float or array, s
        Time of the gradient of the weights.

    Returns
    -------
    float or array, s

    Assumptions: at least twice as many micro-batches as stages; transfers hidden; exact where t_B = t_W. Of every m pairs,
    P + 1 do not run side by side: their messages stay in sight.

    >>> dualpipe_bubble(pp=8, pair=3.0, backward_input=1.0, backward_weight=1.0)
    6.0

    Source: deepseek2024v3report, table 2, DualPipe.
    """
    return (pp / 2 - 1) * maximum(0 * pair, pair + backward_input - 2 * backward_weight)


@equation("eq-tp-message", formula="all_reduces * layers * seq * micro_batch * hidden * element_bytes")
def tp_allreduce_bytes(
    seq: Num, micro_batch: Num, hidden: Num, layers: Num, all_reduces: Num = 4, element_bytes: Num = 2
) -> Num:
    """Activations that tensor parallelism adds up over its group, for one micro-batch.

    Formula: M = n_AR L s b h x bytes per element.

    Parameters
    ----------
    seq : float or array, 1
        Tokens per sequence (on this rank, with context parallelism).
    micro_batch : float or array, 1
        Sequences per micro-batch.
    hidden : float or array, 1
        Width of the residual stream.
    layers : float or array, 1
        Layers on the device.
    all_reduces : float or array, 1
        Per layer: 2 forward and 2 backward; 6 when full recompute runs the forward again. Halves of an all-reduce, as
        sequence parallelism uses them, come in as many pairs.
    element_bytes : float or array, byte
        Size of an activation: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: a layer has one attention and one MLP block in sequence; embedding and loss are left out. Through
    eq-ring-allreduce it gives eq-tp-allreduce, where latency is counted as well.

    >>> tp_allreduce_bytes(seq=2048, micro_batch=1, hidden=12288, layers=1)
    201326592

    Source: shoeybi2019megatron, sec. 3.
    """
    return all_reduces * layers * collectives.activation_bytes(seq, micro_batch, hidden, element_bytes)


@equation("eq-tp-volume", formula="2 * message * (tp - 1) / tp", domain={"tp": COUNT})
def tp_volume(message: Num, tp: Num) -> Num:
    """Bytes each device of a tensor-parallel group sends to have a message added up over the group.

    Formula: 2 M (TP - 1) / TP.

    Parameters
    ----------
    message : float or array, byte
        What is to be added up, as from :func:`tp_allreduce_bytes`.
    tp : float or array, 1
        Tensor-parallel degree.

    Returns
    -------
    float or array, byte

    Assumptions: a reduce-scatter and an all-gather, each of which moves (TP - 1)/TP of the message: the bytes that
    eq-ring-allreduce divides by a bandwidth. With sequence parallelism the two stand apart and move the same.

    >>> tp_volume(message=1e9, tp=8)
    1750000000.0

    Source: narayanan2021megatron, sec. 3.2.
    """
    return 2 * message * (tp - 1) / tp


@equation(
    "eq-cp-exchange",
    formula="passes * tensors * layers * seq * micro_batch * kv_heads * head_dim * element_bytes * (cp - 1) / cp",
    domain={"cp": AT_LEAST_ONE},
)
def cp_exchange_bytes(
    seq: Num,
    micro_batch: Num,
    kv_heads: Num,
    head_dim: Num,
    layers: Num,
    cp: Num,
    passes: Num = 3,
    tensors: Num = 2,
    element_bytes: Num = 2,
) -> Num:
    """Keys and values that each device of a context-parallel group sends, for one micro-batch.

    Formula: 3 x 2 L s b H_kv d x bytes per element x (CP - 1) / CP.

    Parameters
    ----------
    seq : float or array, 1
        Tokens of the whole sequence, before it is cut.
    micro_batch : float or array, 1
        Sequences per micro-batch.
    kv_heads : float or array, 1
        Key and value heads on the device (after tensor parallelism).
    head_dim : float or array, 1
        Size of one head.
    layers : float or array, 1
        Layers on the device.
    cp : float or array, 1
        Context-parallel degree.
    passes : float or array, 1
        1 forward, and 2 backward: the blocks again, and their gradients.
    tensors : float or array, 1
        2: keys and values.
    element_bytes : float or array, byte
        Size of an element: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: every block visits every device, whether the causal mask needs it or not, in CP - 1 hops of equal size. An
    all-gather of keys and values moves the same bytes; what differs is the link that they get and what hides them.

    >>> cp_exchange_bytes(seq=131072, micro_batch=1, kv_heads=1, head_dim=128, layers=1, cp=16)
    188743680.0

    Source: liu2023ring, sec. 3.
    """
    return passes * tensors * layers * seq * micro_batch * kv_heads * head_dim * element_bytes * (cp - 1) / cp


@equation(
    "eq-causal-imbalance",
    formula="(2 * pieces - 1) / pieces",
    domain={"pieces": AT_LEAST_ONE},
)
def causal_imbalance(pieces: Num) -> Num:
    """How much longer the device with the last tokens works than the mean, when each has one piece in a row.

    Formula: (2 CP - 1) / CP.

    Parameters
    ----------
    pieces : float or array, 1
        Pieces of the sequence, one a device.

    Returns
    -------
    float or array, 1

    Assumptions: a causal mask and a long sequence; attention alone. With an early and a late piece for each device (zig-zag)
    the work is equal and the factor 1.

    >>> causal_imbalance(4)
    1.75

    Source: megatron2026cp, context_parallel package; for the balance; the factor is counted in the chapter.
    """
    return (2 * pieces - 1) / pieces


@equation(
    "eq-ulysses",
    formula="layers * seq * micro_batch * (heads * (qk_dim + v_dim) + max(kv_heads, cp) * (qk_dim + v_dim)) * element_bytes "
    "* (cp - 1) / cp**2",
    domain={"cp": AT_LEAST_ONE},
)
def ulysses_bytes(
    seq: Num,
    micro_batch: Num,
    heads: Num,
    kv_heads: Num,
    qk_dim: Num,
    v_dim: Num,
    layers: Num,
    cp: Num,
    element_bytes: Num = 2,
) -> Num:
    """What a device sends in a forward pass to swap tokens for heads before attention, and back after it (Ulysses).

    Formula: L s b (H (d_qk + d_v) + max(H_kv, CP) (d_qk + d_v)) e (CP - 1) / CP^2.

    Parameters
    ----------
    seq : float or array, 1
        Tokens of the whole sequence, before it is cut.
    micro_batch : float or array, 1
        Sequences per micro-batch.
    heads, kv_heads : float or array, 1
        Query heads and key-value heads on the device before the swap (after tensor parallelism). With fewer key-value heads
        than devices they are copied, so that everyone has one.
    qk_dim, v_dim : float or array, 1
        Size of a query or key, and of a value or result, of one head.
    layers : float or array, 1
        Layers on the device.
    cp : float or array, 1
        Context-parallel degree, which divides the heads.
    element_bytes : float or array, byte
        Size of an element: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: queries, keys, values and results each once; a backward pass sends as much. For equal heads the four tensors
    of the source, 4 N h / P, less the part that stays.

    >>> ulysses_bytes(seq=8192, micro_batch=1, heads=32, kv_heads=32, qk_dim=128, v_dim=128, layers=1, cp=8)
    29360128.0

    Source: jacobs2023ulysses, sec. 3.2 (communication analysis).
    """
    each = (heads + maximum(kv_heads, cp)) * (qk_dim + v_dim)
    return layers * seq * micro_batch * each * element_bytes * (cp - 1) / cp**2


@equation(
    "eq-node-limit",
    formula="min(limit, nodes) * (1 - (1 - 1 / min(limit, nodes))**top_k) * (nodes - 1) / nodes",
    domain={"nodes": AT_LEAST_ONE, "limit": AT_LEAST_ONE},
)
def limited_nodes(top_k: Num, nodes: Num, limit: Num) -> Num:
    """Other nodes that a token travels to on average, when the router may choose experts on so many nodes only.

    Formula: M (1 - (1 - 1/M)^k) (n - 1) / n, with M = min(limit, n).

    Parameters
    ----------
    top_k : float or array, 1
        Experts of a token.
    nodes : float or array, 1
        Nodes that the experts lie on.
    limit : float or array, 1
        Nodes that a token's experts may lie on.

    Returns
    -------
    float or array, 1

    Assumptions: the allowed nodes are chosen evenly among all, and the experts evenly among those; a token travels once to a
    node, however many of its experts are there, and not at all to its own. Without a limit, and with
    many experts on a node, it is ``collectives.places_reached`` without the own node.

    >>> round(limited_nodes(top_k=8, nodes=8, limit=4), 2), round(limited_nodes(8, 8, 8), 2)
    (3.15, 4.59)

    Source: deepseek2024v3report, sec. 2.1.2 and 3.2.2; for the rule; the mean is derived in the chapter.
    """
    among = minimum(limit, nodes)
    return among * (1 - (1 - 1 / among) ** top_k) * (nodes - 1) / nodes


@equation(
    "eq-pp-transfer",
    formula="directions * virtual_stages * micro_batches * seq * micro_batch * hidden * element_bytes / shards",
    domain={"shards": COUNT},
)
def pp_transfer_bytes(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    micro_batches: Num,
    virtual_stages: Num = 1,
    shards: Num = 1,
    directions: Num = 2,
    element_bytes: Num = 2,
) -> Num:
    """Bytes that a device in the middle of a pipeline sends to its neighbours in a step.

    Formula: 2 V m s b h x bytes per element / shards.

    Parameters
    ----------
    seq : float or array, 1
        Tokens per sequence (on this rank, with context parallelism).
    micro_batch : float or array, 1
        Sequences per micro-batch.
    hidden : float or array, 1
        Width of the residual stream.
    micro_batches : float or array, 1
        Micro-batches per step.
    virtual_stages : float or array, 1
        Model chunks per device: each ends in a transfer.
    shards : float or array, 1
        TP when each rank of a tensor-parallel group sends its own part, else 1.
    directions : float or array, 1
        2: activations forward and their gradients backward.
    element_bytes : float or array, byte
        Size of an activation: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: the ends of the pipeline send less; a pipeline of one stage sends nothing (do not ask it).

    >>> pp_transfer_bytes(seq=2048, micro_batch=1, hidden=12288, micro_batches=192, shards=8)
    2415919104.0

    Source: narayanan2021megatron, sec. 4.1.
    """
    activations = collectives.activation_bytes(seq, micro_batch, hidden, element_bytes)
    return directions * virtual_stages * micro_batches * activations / shards


@equation(
    "eq-fsdp-gather",
    formula="micro_batches * parameters * (gathers * element_bytes + grad_bytes) * (ranks - 1) / ranks",
    domain={"ranks": COUNT},
)
def fsdp_bytes(
    parameters: Num, ranks: Num, micro_batches: Num = 1, gathers: Num = 2, element_bytes: Num = 2, grad_bytes: Num = 2
) -> Num:
    """Bytes each device moves in a step when the weights themselves are sharded (ZeRO-3, FSDP).

    Formula: m N (2 x weight bytes + gradient bytes) (n - 1) / n.

    Parameters
    ----------
    parameters : float or array, 1
        Parameters that are cut over the ranks (the model's, over TP and PP).
    ranks : float or array, 1
        Ranks that share one copy.
    micro_batches : float or array, 1
        Micro-batches per step, when each gathers and reduces anew.
    gathers : float or array, 1
        All-gathers per micro-batch: 2 (forward, and again backward), or 1 when weights are kept in between.
    element_bytes, grad_bytes : float or array, byte
        Size of a gathered weight and of a reduced gradient: 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: every rank needs every weight; nothing is cached between micro-batches.

    >>> fsdp_bytes(parameters=8e9, ranks=8)
    42000000000.0

    Source: rajbhandari2020zero, sec. 7.2.2.
    """
    return micro_batches * parameters * (gathers * element_bytes + grad_bytes) * (ranks - 1) / ranks


@equation("eq-dp-gradients", formula="parameters * grad_bytes / (tp * pp)", domain={"tp": COUNT, "pp": COUNT})
def dp_gradient_bytes(parameters: Num, tp: Num, pp: Num, grad_bytes: Num = 4) -> Num:
    """Gradients that a device adds up over its data-parallel group, once per step.

    Formula: M = N x bytes per gradient / (TP x PP).

    Parameters
    ----------
    parameters : float or array, 1
        Parameters of the model.
    tp, pp : float or array, 1
        Tensor- and pipeline-parallel degree: a device holds the gradients of its own share only.
    grad_bytes : float or array, byte
        Size of a gradient as it is reduced: 4 in FP32, 2 in BF16.

    Returns
    -------
    float or array, byte

    Assumptions: stages of equal size; experts are cut further, by EP.

    >>> dp_gradient_bytes(parameters=175e9, tp=8, pp=16)
    5468750000.0

    Source: narayanan2021megatron, sec. 3.3.
    """
    return parameters * grad_bytes / (tp * pp)


@equation(
    "eq-scaling-efficiency", formula="compute / (compute + dp_time + tp_time + bubble)", domain={"compute": POSITIVE}
)
def scaling_efficiency(compute: Num, dp_time: Num, tp_time: Num, bubble: Num) -> Num:
    """Share of perfect scaling that is left when nothing hides the costs of splitting. Never above one.

    Formula: T_compute / (T_compute + T_DP + T_TP + T_bubble).

    Parameters
    ----------
    compute : float or array, s
        Computing time of a device per step: its share of the work at the speed of one device alone.
    dp_time, tp_time : float or array, s
        Data- and tensor-parallel communication that nothing hides.
    bubble : float or array, s
        Waiting in the pipeline.

    Returns
    -------
    float or array, 1

    Assumptions: the terms add up; hidden communication counts as zero.

    >>> scaling_efficiency(compute=8.0, dp_time=0.5, tp_time=0.5, bubble=1.0)
    0.8

    Source: reddi2026mathpage, sec. 2.1.
    """
    return compute / (compute + dp_time + tp_time + bubble)


@equation(
    "eq-tp-penalty",
    formula="step_time * (1 + leaves * (penalty - 1))",
    domain={"leaves": "[0, 1]", "penalty": AT_LEAST_ONE},
)
def penalised_step(step_time: Num, leaves: Num, penalty: Num) -> Num:
    """Step time with a fixed factor for tensor parallelism that leaves the scale-up domain: a rule of thumb.

    Formula: T x (1 + [TP leaves the domain] (penalty - 1)).

    Parameters
    ----------
    step_time : float or array, s
        Step time with all tensor-parallel traffic inside the domain.
    leaves : float or array, 1
        1 when a tensor-parallel group spans several domains, else 0 (``placement(...).leaves["tp"]``).
    penalty : float or array, 1
        The factor; :data:`TP_PENALTY` names the one that the source prints.

    Returns
    -------
    float or array, s

    Assumptions: the factor depends neither on the model nor on either link. Derive the cost instead where you can.

    >>> penalised_step(10.0, leaves=1, penalty=TP_PENALTY.value)
    14.0

    Source: narayanan2021megatron, sec. 3.2, tensor parallelism within a node; the fixed factor is rooflinepage2026, sec. 3.4.
    """
    return step_time * (1 + leaves * (penalty - 1))


@dataclass(frozen=True)
class TensorParallelCost(Listed):
    """One micro-batch through the whole model on one tensor-parallel group."""

    tp: int
    node: Node
    tokens: Num
    inside: Num  # ranks of the group in one scale-up domain
    domains: Num  # domains that the group spans
    message: Num  # bytes to be added up over the group
    compute_time: Num
    communication_time: Num

    @property
    def time(self) -> Num:
        """Nothing hides the all-reduces: the next product needs their result."""
        return self.compute_time + self.communication_time

    @property
    def token_rate(self) -> Num:
        """Tokens per second and device."""
        return self.tokens / self.time / self.tp


def tensor_parallel_cost(
    model: Model | str,
    tp: int,
    node: Node | str,
    seq: Num,
    micro_batch: Num = 1,
    efficiency: Num = 1.0,
    precision: str = "bf16",
    recompute: str = "none",
    domain: int | None = None,
) -> TensorParallelCost:
    """Computing and communicating of a tensor-parallel group for one micro-batch, forward and backward.

    Formula: eq-compute-time for a TP-th of the work; eq-hierarchical-allreduce for the messages of eq-tp-message, inside
    the domain as far as :func:`placement` says and between domains beyond.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    tp : int
        Tensor-parallel degree; the plan is checked against the model.
    node : Node or str
        Where the group runs.
    seq, micro_batch : float or array, 1
        Tokens per sequence, and sequences.
    efficiency : float or array, 1
        Share of the dense peak that the products reach; 1 is the bound.
    precision : str
        Of the products. Activations travel in 16 bits.
    recompute : str
        ``none``, ``selective`` or ``full``; the last sends the forward all-reduces again.
    domain : int, optional
        A scale-up domain of another size than the node's, to ask what it would change.

    Returns
    -------
    TensorParallelCost

    Raises
    ------
    InputError, UnknownNameError
        A degree that does not divide the model, a value out of range, an unknown name.

    Assumptions: bandwidth terms only; ring in each tier; nothing overlaps; causal attention.

    >>> tensor_parallel_cost("Llama-3.1-70B", 16, "DGX-H100", seq=4096).domains
    2
    """
    m, node = catalog.model(model), catalog.node(node)
    plan = Plan(tp=tp, micro_batch=1, recompute=recompute).check(m)
    where_it_lies = placement(plan, node.domain if domain is None else domain)
    tokens = seq * micro_batch
    work = flops.training_flops_per_token(m, seq, causal=True, recompute=recompute).hardware_flops * tokens
    message = tp_allreduce_bytes(seq, micro_batch, m.hidden, m.layers, all_reduces=6 if recompute == "full" else 4)
    inside, spanned = where_it_lies.inside["tp"], where_it_lies.domains["tp"]
    # A domain of one device has no link of its own to ask for.
    local = node.scale_up_bandwidth if inside > 1 else node.scale_out_bandwidth
    return TensorParallelCost(
        tp=tp,
        node=node,
        tokens=tokens,
        inside=inside,
        domains=spanned,
        message=message,
        compute_time=roofline.compute_time(work / tp, node.device.peak_flops[precision], efficiency),
        communication_time=collectives.hierarchical_all_reduce(
            message, inside, spanned, local, node.scale_out_bandwidth
        ),
    )
