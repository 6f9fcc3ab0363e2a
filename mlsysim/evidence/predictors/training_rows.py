"""A row of class training_step in the terms of the solver: checked cells, and what stands in for empty ones."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim import memory, training
from mlsysim.catalog import Model
from mlsysim.efficiencies import clock_of, generation_of, lineage
from mlsysim.evidence.predictors.base import Row, Unsupported, element_bytes
from mlsysim.evidence.predictors.shapes import model_of
from mlsysim.parallelism import CP_COMM_TYPES, RECOMPUTES
from mlsysim.training import Layout, Machine, Work
from mlsysim.training.shares import most_of

# Layers per model chunk where a row names a pipeline but no schedule: the median of the rows that name one.
CHUNK = 2
_USABLE = 0.95  # of the printed memory, beside the runtime and what the allocator wastes
_ELEMENT = training.ELEMENT_BYTES
_ROUND = 1e-9  # by which a quotient of whole numbers may miss a whole one
_NODE = 8.0  # devices of a domain where a row names none
_ZERO3 = ("zero3/fsdp", "zero3", "fsdp")
_GATHERED = (*_ZERO3, "hsdp")
_CP_WAYS = CP_COMM_TYPES[:2]  # no row swaps tokens for heads
_SHARDINGS = ("none", "zero1", "zero2", *_GATHERED)


@dataclasses.dataclass(frozen=True)
class Step:
    """A row in the terms of the solver."""

    work: Work
    layout: Layout
    machine: Machine
    generation: str  # as of efficiencies.generation_of; empty for a device that the catalogue does not know
    line: tuple[str, ...]  # whose constants apply, the nearest relatives first
    precision: str  # of the linear layers
    clock: float  # clock at this part's power over that of the fastest of its kind
    most: tuple[float, float]  # shares of the peak that products can reach at best, as of training.shares.most_of
    updated: bool = True  # whether the measured time has an optimizer's update in it

    @property
    def narrow(self) -> bool:
        """Whether the products run in fewer than 16 bits."""
        return element_bytes(self.precision) < training.ELEMENT_BYTES


def _count(row: Row, name: str, empty: float | None = None, whole: bool = True) -> float:
    """A count of at least one; an empty cell may mean something."""
    if empty is not None and not row.has(name):
        return empty
    value = row.number(name)
    if value < 1.0 or (whole and value != int(value)):
        raise Unsupported(f"{name} = {value:g} must be a {'whole ' if whole else ''}number of at least 1")
    return value


def _word(row: Row, name: str, value: str, known: Mapping[str, Any] | Sequence[str], why: str = "") -> str:
    text = row.or_assume(name, value, why)
    if text not in known:
        raise Unsupported(f"{name} = {str(text)[:40]!r} is not modelled ({', '.join(known)})")
    return str(text)


def _work(row: Row, shape: Model) -> Work:
    """What the library counts of the model; layers that were timed alone have neither embedding nor head."""
    work = training.work_of(shape)
    return work if row.number("vocab") else dataclasses.replace(work, head_params=0.0, embedding_params=0.0)


def _degrees(row: Row, domain: float) -> dict[str, float]:
    """The degrees of the row, which multiply to its devices; a layout that is not stated is assumed."""
    n = _count(row, "n_devices")
    if not row.has("tp"):
        tp = math.gcd(int(n), int(min(n, domain)))
        row.assume("tp", float(tp), "layout not stated: tensor parallel inside a node, data parallel across")
        return {"tp": tp, "pp": 1.0, "cp": 1.0, "dp": n / tp}
    found = {"tp": _count(row, "tp")}
    for name in ("pp", "cp"):
        found[name] = _count(row, name, row.number_or(name, 1.0))
    rest = n / math.prod(found.values())
    found["dp"] = _count(row, "dp", row.number_or("dp", rest, "what the other degrees leave"))
    if math.prod(found.values()) != n:
        product = " x ".join(f"{name} {value:g}" for name, value in found.items())
        raise Unsupported(f"{product} = {math.prod(found.values()):g} devices, but n_devices = {n:g}")
    return found


def _experts_apart(row: Row, degrees: Mapping[str, float], domain: float, sharding: str) -> tuple[float, float]:
    """Expert-parallel degree and tensor-parallel ranks that it folds in, whose experts are whole.

    The degree is the row's own; else none where weights are gathered, else as many as a domain can hold.
    """
    experts, group = int(row.optional("n_experts", 0.0)), int(degrees["dp"] * degrees["cp"])
    if row.has("ep"):
        ep = int(_count(row, "ep"))
        if ep > 1 and (not experts or experts % ep or group * int(degrees["tp"]) % ep):
            raise Unsupported(f"ep = {ep} must divide the experts ({experts}) and tp x cp x dp")
        shared = math.gcd(ep, group)
        whole = shared < ep and ep == shared * int(degrees["tp"])
        if shared < ep and not whole:
            row.assume("ep", shared, f"of {ep}: the rest are tensor-parallel ranks, which cut experts")
        return float(shared), degrees["tp"] if whole else 1.0
    if not experts:
        return 1.0, 1.0
    gathered = sharding in _GATHERED
    ep = 1 if gathered else math.gcd(math.gcd(experts, group), int(domain))
    row.assume("ep", ep, "experts gathered like other weights" if gathered else "experts spread over one domain")
    return float(ep), 1.0


def _shared_by(row: Row, work: Work, degrees: Mapping[str, float], domain: float) -> float:
    """Ranks that share one copy of the weights in HSDP: those of a domain, doubled until the training state fits."""
    group = degrees["dp"] * degrees["cp"]
    shards = float(math.gcd(int(group), max(1, int(domain / degrees["tp"]))))
    capacity = row.rate("hbm_bytes", "memory_capacity")
    parameters = work.layers * (work.dense_params + work.expert_params) + work.embedding_params
    state = memory.recipe("megatron-bf16").bytes_per_parameter * parameters / (degrees["tp"] * degrees["pp"])
    while state / shards > capacity and group % (2.0 * shards) == 0:
        shards *= 2.0
    row.assume("ranks that share the weights", shards, "a domain, or as many as the training state needs")
    return shards


def _recomputed(row: Row, work: Work, p: Layout) -> float:
    """Share of the layers that a row which does not say must recompute to fit: counted as the frugal do.

    Gradients in 16 bits, and of a layer only what is costly to make again: what its products write and attention's results.
    """
    stage = float(-(-work.layers // p.pp))
    dense = (stage * work.dense_params + work.embedding_params) / p.tp
    routed = stage * work.expert_params / (p.tp * p.ep)
    weights, optimizer = 2.0 * _ELEMENT, 3.0 * training.GRADIENT_BYTES  # with gradients; master weights and two moments
    if not p.weight_gradients:
        state = _ELEMENT * (dense + routed)
    elif p.weight_shards > 1:
        state = (weights + optimizer) * (dense / p.weight_shards + routed / max(1.0, p.weight_shards / p.ep))
        state += weights * (work.dense_params + work.expert_params) / p.tp  # a layer and its gradients, gathered
    else:
        state = weights * (dense + routed)
        state += optimizer * (dense / p.optimizer_shards + routed / max(1.0, p.optimizer_shards / p.ep))
    tokens = p.micro_batch * p.seq / p.cp
    in_flight = work.layers
    if p.pp > 1:
        chunks = p.pp + (p.pp - 1.0) / p.virtual_stages
        in_flight = stage * min(chunks, max(1.0, p.global_batch / p.dp / p.micro_batch))
    else:
        state += (_ELEMENT + training.GRADIENT_BYTES) * tokens * work.head_params / work.hidden / p.tp  # logits
    layer = _ELEMENT * tokens * (work.outputs + work.heads * work.v_dim) / p.tp
    least = _ELEMENT * tokens * work.hidden / p.tp * in_flight + layer
    room = _USABLE * row.rate("hbm_bytes", "memory_capacity") - state
    needed = in_flight * layer
    return training.recomputed_share(needed, room, least) if least < needed else float(needed > room)


def _batches(row: Row, dp: float) -> tuple[float, float]:
    """Sequences of a step and of a micro-batch: a rank that takes whole micro-batches, the fullest, decides the time."""
    batch = _count(row, "global_batch", whole=False)
    micro = _count(row, "micro_batch", row.number_or("micro_batch", 1.0, "the usual value"), whole=False)
    if micro > batch / dp >= 1.0:
        micro = batch / dp
        row.assume("micro_batch", micro, "all that a rank has")
    if batch < dp:
        row.assume(
            "global_batch", dp, f"{batch:g} is less than the {dp:g} ranks of data: each is priced with a sequence"
        )
    parts = batch / (dp * micro)
    if parts > 1.0 and abs(parts - round(parts)) > _ROUND * parts:
        row.assume("micro-batches", float(math.ceil(parts)), f"{parts:.4g} rounded up, as the fullest rank has them")
        batch = math.ceil(parts) * dp * micro
    return batch, micro


def _layout(row: Row, shape: Model, work: Work, domain: float) -> Layout:
    degrees, layers = _degrees(row, domain), work.layers
    pp, group = degrees["pp"], degrees["dp"] * degrees["cp"]
    if pp > layers:
        raise Unsupported(f"pp = {pp:g} is more than the {layers:g} layers")
    seq = _count(row, "seq")
    stages = 1.0
    if row.has("virtual_stages"):
        stages = _count(row, "virtual_stages")
    elif pp > 1:
        stages = max(1.0, float(math.ceil(layers / pp) // CHUNK))
        row.assume("virtual_stages", stages, f"interleaved, {CHUNK} layers a chunk")
    recompute = _word(row, "recompute", "none", RECOMPUTES) if row.has("recompute") else ""
    sharding = _word(row, "sharding", "zero1", _SHARDINGS)
    task = _word(row, "task", "pretrain", training.TASKS)
    shards = group if sharding in _ZERO3 else 1.0
    if sharding == "hsdp":
        shards = _shared_by(row, work, degrees, domain)
    length = row.number_or("attn_len", seq) if row.has("attn_len") else seq
    if length < 1:
        raise Unsupported(f"attn_len = {length:g} must be at least 1")
    batch, micro = _batches(row, degrees["dp"])
    ep, folded = _experts_apart(row, degrees, domain, sharding)
    found = Layout(
        global_batch=batch,
        seq=seq,
        micro_batch=micro,
        tp=degrees["tp"],
        pp=pp,
        cp=degrees["cp"],
        dp=degrees["dp"],
        ep=ep,
        folded=folded,
        virtual_stages=stages,
        sequence_parallel=float(bool(row.or_assume("seq_parallel", True))),
        recompute_full=float(recompute == "full"),
        recompute_selective=float(recompute == "selective"),
        weight_shards=shards,
        optimizer_shards=1.0 if sharding == "none" else group,
        keeps_gathered=float(memory.keeps_gathered(pp)) if sharding in _GATHERED else 0.0,
        attended=training.mean_context(shape, length),
        cp_gather=float(_word(row, "cp_comm_type", "p2p", _CP_WAYS) == "all_gather") if degrees["cp"] > 1 else 0.0,
        weight_gradients=0.0 if task == "lora" else 1.0,
    )
    if recompute:
        return found
    share = _recomputed(row, work, found)
    row.assume("recompute", f"{share:.3g}", "of the layers: no more than memory demands")
    return dataclasses.replace(found, recompute_full=share)


def _half_peak(row: Row, precision: str, peak: float) -> float:
    """Peak of the 16-bit formats beside that of a narrow one: in the catalogue's proportion, else by the width."""
    width = element_bytes(precision)
    if width >= _ELEMENT:
        return peak
    device = row.device
    rates = {} if device is None else device.peak_flops
    own, half = (rates.get(name, 0.0) for name in (training.PEAK_FORMAT.get(precision, precision), "bf16"))
    return peak * (half / own if own and half else width / _ELEMENT)


def _machine(row: Row, domain: float) -> Machine:
    precision = str(row.need("precision"))
    peak = row.rate("peak_flops", f"peak_flops.{training.PEAK_FORMAT.get(precision, precision)}")
    intra = row.inside(row.line) if row.number("n_devices") > 1 else row.optional("intra_node_bandwidth", peak)
    inter = row.number_or("inter_node_bandwidth", intra, "one network")
    stream = row.rate("hbm_bandwidth", "memory_bandwidth")
    rates = {
        "peak_flops": peak,
        "hbm_bandwidth": stream,
        "intra_node_bandwidth": intra,
        "inter_node_bandwidth": inter,
    }
    for name, value in rates.items():
        if value <= 0:
            raise Unsupported(f"{name} = {value:g} must be above zero")
    return Machine(
        peak_flops=peak,
        half_peak_flops=_half_peak(row, precision, peak),
        memory_bandwidth=stream,
        intra_bandwidth=intra,
        inter_bandwidth=inter,
        domain=domain,
    )


def step_of(row: Row) -> Step:
    """A row in the terms of the solver.

    Raises
    ------
    Unsupported
        A cell that is missing, or that no training run can have.
    """
    shape = model_of(row)
    work = _work(row, shape)
    domain = _count(row, "devices_per_node", row.number_or("devices_per_node", _NODE, "the usual node"))
    device, clock = row.device, clock_of(row.device)
    if device is not None and clock < 1.0:
        row.assume("clock", round(clock, 3), f"cube root of {device.tdp:.0f} W over the power of the fastest such part")
    machine = _machine(row, domain)
    return Step(
        work=work,
        layout=_layout(row, shape, work, domain),
        machine=machine,
        generation=generation_of(device),
        line=lineage(
            device if device is not None else str(row.inputs.get("device") or ""),
            machine.peak_flops,
            machine.memory_bandwidth,
        ),
        precision=str(row.need("precision")),
        clock=clock,
        most=most_of(device, str(row.need("precision"))),
        updated=work.head_params > 0,  # a layer without vocabulary was timed alone: forward and backward
    )
