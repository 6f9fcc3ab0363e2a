"""Which groups of a plan fit inside a scale-up domain, and what a tensor-parallel group costs that does or does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import catalog, collectives, flops, roofline
from mlsysim._numeric import Num, even_share, is_array, where, whole
from mlsysim.catalog import Model, Node
from mlsysim.errors import InputError
from mlsysim.parallelism.equations import tp_allreduce_bytes
from mlsysim.parallelism.plan import AXES, Plan
from mlsysim.results import Result


@dataclass(frozen=True)
class Placement(Result):
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
    return place({axis: getattr(plan, axis) for axis in (*AXES, "ep", "folded")}, plan.axes, domain)


def place(degrees: Mapping[str, Num], axes: Sequence[str], domain: Num) -> Placement:
    """:func:`placement` of bare degrees (of every axis, ep, and the ranks folded into it), the axes listed from neighbouring ranks outwards.

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
    # Groups of experts take in tensor-parallel ranks where these do not cut experts
    inside["ep"] = even_share(sizes["ep"], inside["data"] * where(sizes.get("folded", 1) > 1, inside["tp"], 1))
    return Placement(
        inside=inside,
        domains={axis: sizes[axis] // inside[axis] for axis in (*AXES, "data", "ep")},
        leaves={axis: inside[axis] < sizes[axis] for axis in (*AXES, "data", "ep")},
        used=used,
    )


@dataclass(frozen=True)
class TensorParallelCost(Result):
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
    message = tp_allreduce_bytes(seq, micro_batch, m.hidden, m.n_layers, all_reduces=6 if recompute == "full" else 4)
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
