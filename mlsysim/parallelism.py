"""Splitting a model: which plan is possible, which link carries what, and what each kind of splitting costs.

A :class:`Plan` names the degrees and checks itself. :func:`placement` says which of its groups fit inside a scale-up
domain. Everything takes a float or an array (broadcasting) in SI units and returns the same; sizes are in bytes, and
times come from ``mlsysim.collectives``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from mlsysim import catalog
from mlsysim._numeric import Num, is_array, where
from mlsysim.catalog import Model
from mlsysim.errors import InputError

SHARDINGS = ("none", "zero1", "zero2", "fsdp", "hsdp")
RECOMPUTES = ("none", "selective", "full")
AXES = ("tp", "cp", "dp", "pp")


@dataclass(frozen=True)
class Plan:
    """How a training job is split. Degrees are whole numbers, or integer arrays of plans for a sweep.

    ``ep`` is nested: the expert-parallel group is made of data- and context-parallel ranks, so it multiplies no
    devices. ``order`` lists the axes from neighbouring ranks outwards; ``ep`` takes the innermost ranks of ``cp`` and
    ``dp`` together.
    """

    tp: Num = 1
    pp: Num = 1
    cp: Num = 1
    dp: Num = 1
    ep: Num = 1
    virtual_stages: Num = 1  # model chunks per device in the interleaved schedule
    micro_batch: Num = 1  # sequences
    sharding: str = "zero1"
    hsdp_group: Num = 1  # ranks that share one copy of the state; only with hsdp
    sequence_parallel: bool = True
    recompute: str = "none"
    order: str = "tp-cp-ep-dp-pp"

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "cp", "dp", "ep", "virtual_stages", "micro_batch", "hsdp_group"):
            value = getattr(self, name)
            if is_array(value):
                if getattr(value.dtype, "kind", "") not in "iu" or bool((value < 1).any()):
                    raise InputError(f"plan: {name} = {str(value)[:60]} must hold whole numbers of at least 1")
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"plan: {name} = {value!r} must be a whole number of at least 1")
        for name, allowed in (("sharding", SHARDINGS), ("recompute", RECOMPUTES)):
            if getattr(self, name) not in allowed:
                raise InputError(f"plan: {name} = {getattr(self, name)!r} is not one of {', '.join(allowed)}")
        axes = str(self.order).split("-")
        if sorted(axes) not in (sorted(AXES), sorted((*AXES, "ep"))):
            raise InputError(
                f"plan: order = {self.order!r} must name tp, cp, dp and pp once each, and may name ep; "
                "write for example 'tp-cp-ep-dp-pp'"
            )
        if "ep" in axes and axes.index("ep") > axes.index("dp"):
            raise InputError(f"plan: order = {self.order!r} puts ep outside dp, which it is part of; put it before dp")

    @property
    def devices(self) -> Num:
        return self.tp * self.pp * self.cp * self.dp

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

    def micro_batches(self, global_batch: Num) -> Num:
        """Micro-batches per data-parallel rank and step, for a global batch in sequences."""
        return global_batch // (self.dp * self.micro_batch)

    def slowest_stage_layers(self, layers: Num) -> Num:
        """Layers on the fullest device of the pipeline; chunks take turns in receiving the left-over layers."""
        return -(-layers // self.pp)

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
        need(
            chunks <= m.layers,
            "virtual_stages",
            f"makes {chunks} chunks of {m.layers} layers; stay in [1, {m.layers // self.pp}]",
        )
        need(self.pp > 1 or self.virtual_stages == 1, "virtual_stages", "needs a pipeline; use 1 when pp is 1")
        if m.is_moe:
            need(m.n_experts % self.ep == 0, "ep", f"must divide the {m.n_experts} experts of {m.name}")
        else:
            need(self.ep == 1, "ep", f"needs experts, and {m.name} has none; use 1")
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
        return self


@dataclass(frozen=True)
class Placement:
    """Where the groups of a plan lie, by name of the axis (``data`` is dp and cp together)."""

    inside: Mapping[str, Num]  # ranks of one group that share a scale-up domain
    domains: Mapping[str, Num]  # scale-up domains that one group spans
    leaves: Mapping[str, Any]  # whether its traffic leaves the domain
    used: Num  # devices of each domain that the plan fills; the rest stay idle


def _common(size: Num, room: Num) -> Num:
    """Ranks of a group that share a domain with room for so many: all of them, or the most that divide it evenly.

    Beside the common divisor the largest power of two is tried, as for 8 of the 9 places that 72 devices offer TP 8.
    """
    if is_array(size) or is_array(room):
        import numpy as np

        power = np.left_shift(1, np.log2(np.maximum(room, 1)).astype(np.int64))
        return where(size <= room, size, np.maximum(np.gcd(size, room), np.gcd(size, power)))
    if size <= room:
        return size
    return max(gcd(size, room), gcd(size, 1 << (room.bit_length() - 1)))


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
    inside: dict[str, Num] = {}
    used: Num = 1
    full: Any = True  # whether every axis so far lies inside; an outer axis can only start where the inner one ended
    for axis in plan.axes:
        size = getattr(plan, axis)
        room = where(full, domain // used, 1)
        inside[axis] = _common(size, room)
        full = full & (inside[axis] == size)
        used = used * inside[axis]
    sizes = {axis: getattr(plan, axis) for axis in AXES} | {"data": plan.dp * plan.cp, "ep": plan.ep}
    inside = {axis: inside[axis] for axis in AXES}
    inside["data"] = inside["cp"] * inside["dp"]
    inside["ep"] = _common(plan.ep, inside["data"])
    return Placement(
        inside=inside,
        domains={axis: sizes[axis] // inside[axis] for axis in sizes},
        leaves={axis: inside[axis] < sizes[axis] for axis in sizes},
        used=used,
    )
