"""Class inference: prompt passes, decode steps and static batches of dense and mixture transformers.

The time is that of ``inference.pass_cost``: one pass, or a prompt pass and the decode steps after it. Fitted are the launch
of a layer, messages inside a domain, what a Python host does for each sequence, the second reading of caches, memory that a
processor shares, and a family of compiled programs. Kernels are those of tables, messages over nodes and slots those of
``communication.library_time``; traffic, the launches of eager Python, and what a server's own source says of its
micro-batches and kernels are counted. Datasheet mode has no fitted constant.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim import inference
from mlsysim.catalog import Model
from mlsysim.efficiencies import CALIBRATED, DATASHEET, MIDDLE, Server, launched_as, lineage
from mlsysim.evidence.predictors.base import (
    Constants,
    Prediction,
    Predictor,
    Row,
    Sample,
    Unsupported,
    element_bytes,
    made_once,
)
from mlsysim.evidence.predictors.fitting import gauss_newton, nested, picked, stacked
from mlsysim.evidence.predictors.shapes import model_of
from mlsysim.inference import Efficiencies, Machine, Split, Work, work_of
from mlsysim.inference.shares import from_constants, shares_memory, vector_rate
from mlsysim.inference.wiring import CAPTURED, tensor_plans
from mlsysim.inference.work import alike_plans
from mlsysim.transformer import matrix_count

_PHASES = ("prefill", "decode_step", "end_to_end", "throughput_static")
_MOST_PLANS = 7  # protocols of a library; rows that are taken together all have as many
_NO_LIMIT = 1e30  # of a rate that no one gives and nothing uses
# Physical range of every fitted constant, and where its fit starts.
_RANGES = {
    ("software", "launch_time"): (1e-5, 1e-3, 2e-4),
    ("software", "link_latency"): (1e-6, 5e-5, 8e-6),
    ("software", "library_latency"): (1e-6, 1e-4, 8e-6),
    ("software", "short_link"): (0.03, 0.8, 0.4),
    ("software", "switch_time"): (5e-6, 3e-4, 5e-5),
    ("software", "sequence_overhead"): (1e-6, 2e-3, 1e-4),
    ("software", "ungrouped"): (0.01, 0.99, 0.5),
    ("shared memory", "memory"): (0.3, 0.95, 0.65),
}
# Of a family of devices that is not like the others: fitted only where rows of it are there to fit them to.
_FAMILIES = {
    ("AWS accelerator", "layer_overhead"): (1e-5, 1e-3, 1e-4),
    ("AWS accelerator", "products"): (0.02, 0.9, 0.3),
    ("AWS accelerator", "attention"): (0.002, 0.9, 0.05),
}


@dataclasses.dataclass(frozen=True)
class _Case:
    """A row in the terms of the solver."""

    work: Work
    split: Split
    machine: Machine
    batch: float
    input_len: float
    context: float
    prefills: float  # prompt passes and decode steps that make the measured time
    steps: float
    server: Server
    line: tuple[str, ...]
    vector_flops: float
    shared_memory: bool
    sharded: bool  # activations cut like the weights, as the compiler of a TPU does


def _split(row: Row, shape: Model, server: Server) -> Split:
    bits = row.number_or("weight_bits", 16.0, "16-bit weights")
    width = experts = bits / 8.0
    if "mxfp4" in str(row.inputs.get("weight_precision") or ""):  # the experts; everything else in 16 bits
        width, experts = 2.0, 4.25 / 8.0
    if row.has("weight_bytes"):
        count = matrix_count(shape)
        width = experts = row.number("weight_bytes") / (count.total - count.norms)
    compute = str(row.or_assume("compute_precision", "bf16", "16-bit products"))
    split = Split(
        tp=row.number_or("tp", 1.0),
        pp=row.number_or("pp", 1.0),
        dp=row.number_or("dp", 1.0),
        ep=max(1.0, row.optional("ep", 1.0)),
        weight_bytes=width,
        expert_bytes=experts,
        head_bytes=max(2.0, width) if server.wide_head and not row.has("weight_bytes") else width,
        kv_bytes=element_bytes(str(row.or_assume("kv_precision", "bf16", "16-bit cache"))),
        dispatch_bytes=min(2.0, element_bytes(compute)),
        interleaved=2.0 if server.interleaved else 1.0,
        micro_tokens=server.micro_tokens,
    )
    for name in ("tp", "pp", "dp", "weight_bytes"):
        if not getattr(split, name) >= (1.0 if name != "weight_bytes" else 1e-3):
            raise Unsupported(f"{name} = {getattr(split, name):g} cannot be")
    return split


def _machine(row: Row, split: Split, server: Server, word: str, line: Sequence[str]) -> Machine:
    compute = str(row.inputs.get("compute_precision") or "bf16")
    bandwidth = row.rate("hbm_bandwidth", "memory_bandwidth")
    try:
        peak = row.rate("peak_flops", f"peak_flops.{compute}")
    except Unsupported:
        peak = _NO_LIMIT
        row.assume("peak_flops", "unlimited", "no source gives one: memory decides")
    if not (bandwidth > 0 and peak > 0):
        raise Unsupported("a peak or a bandwidth is zero")
    intra = inter = _NO_LIMIT
    domain = max(1.0, row.number_or("devices_per_node", 8.0)) if split.tp * split.pp * split.dp > 1 else 1.0
    if split.tp * split.pp * split.dp > 1:
        intra = row.inside(line) if split.tp * split.pp * split.ep > 1 else intra  # replicas send each other nothing
        inter = row.number_or("inter_node_bandwidth", intra, "one network")
    plans = tensor_plans(
        line, split.tp, min(split.tp, domain), intra, inter, word,
        captured=server.decode in CAPTURED, device=row.device.name if row.device else "",
    )  # fmt: skip
    return Machine(
        peak_flops=peak,
        half_peak_flops=peak if element_bytes(compute) >= 2.0 else peak / 2.0,
        memory_bandwidth=bandwidth,
        intra_bandwidth=intra,
        inter_bandwidth=inter,
        tp_inside=min(split.tp, domain),
        ep_inside=min(split.ep, domain),
        pp_bandwidth=intra if split.tp * split.pp <= domain else inter,
        plans=alike_plans([plans], _MOST_PLANS)[0],
    )


def _cases(row: Row, word: str = CALIBRATED) -> tuple[_Case, ...]:
    """A row by each way in which its server may launch its kernels; one where that is known."""
    name = str(row.or_assume("framework", "", MIDDLE.name))
    ways = launched_as(name)
    if len(ways) > 1:
        row.assume(
            "framework", "captured or eager", f"{name[:40]!r} is not in the table of servers and does not say which"
        )
    elif not ways[0].known:
        row.assume("framework", ways[0].decode, f"as {name[:40]!r} says, which is not in the table of servers")
    return tuple(_case(row if not i else Row(row.inputs), way, word) for i, way in enumerate(ways))


def _case(row: Row, server: Server, word: str) -> _Case:
    phase = row.need("phase")
    if phase not in _PHASES:
        raise Unsupported(f"phase {str(phase)[:20]!r} is not one of {', '.join(_PHASES)}")
    shape = model_of(row)
    if row.number("vocab") < 1:
        raise Unsupported("vocab = 0 is not a model")
    split = _split(row, shape, server)
    batch = row.number_or("batch", 1.0)
    if batch < split.dp:
        raise Unsupported(
            f"batch = {batch:g} gives some of the {split.dp:g} data-parallel replicas no sequence; it counts all devices, "
            f"so give {split.dp:g} or more"
        )
    if phase == "decode_step":
        prompt, context, prefills, steps = 1.0, max(1.0, row.number_or("context_len", 0.0, "no cache read")), 0.0, 1.0
    else:
        prompt, prefills = row.number("input_len"), 1.0
        out = 1.0 if phase == "prefill" else row.number("output_len")
        context, steps = prompt + out / 2.0, out - 1.0
        if prompt < 1 or out < 1:
            raise Unsupported("a prompt and an answer have at least one token")
    device = row.device
    line = lineage(str(row.inputs.get("device") or ""), row.inputs.get("peak_flops"), row.inputs.get("hbm_bandwidth"))
    machine = _machine(row, split, server, word, line)
    return _Case(
        work=work_of(shape),
        split=split,
        machine=machine,
        batch=batch,
        input_len=prompt,
        context=context,
        prefills=prefills,
        steps=steps,
        server=server,
        line=line,
        vector_flops=float(vector_rate(device, machine.half_peak_flops, line)),
        shared_memory=shares_memory(device, machine.memory_bandwidth, line),
        sharded=device is not None and device.kind == "tpu",
    )


def _kind(case: _Case) -> tuple[Any, ...]:
    """All that :func:`_efficiencies` reads of a case."""
    m = case.machine
    rates = (m.peak_flops, m.half_peak_flops, m.memory_bandwidth, case.vector_flops)
    return *rates, tuple(case.line), case.server, case.shared_memory, case.sharded


def _efficiencies(case: _Case, constants: Constants) -> Efficiencies:
    m = case.machine
    return from_constants(
        m.peak_flops,
        m.half_peak_flops,
        m.memory_bandwidth,
        line=case.line,
        server=case.server,
        shared_memory=case.shared_memory,
        sharded=case.sharded,
        vector_flops=case.vector_flops,
        constants=constants,
    )


def _time(case: Any, eff: Efficiencies) -> Any:
    c = case
    first = inference.pass_cost(c.work, c.split, c.machine, eff, c.batch, c.input_len, 0.0, 0.0).time
    step = inference.pass_cost(c.work, c.split, c.machine, eff, c.batch, 1.0, c.context - 1.0, 1.0).time
    return c.prefills * first + c.steps * step


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class inference in seconds."""
    row = Row(inputs)
    cases = _cases(row, CALIBRATED if constants else DATASHEET)
    times = [float(_time(case, _efficiencies(case, constants))) for case in cases]
    if len(times) > 1:
        row.assume("time", "the middle by ratio", f"of {min(times):.3g} s captured and {max(times):.3g} s eager")
    return Prediction((min(times) * max(times)) ** 0.5, assumptions=tuple(row.assumptions))


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Fit the constants; every group has one vote; needs NumPy."""
    import numpy as np

    ways = [made_once(_cases, inputs) for inputs, _, _ in rows]
    cases = [case for each in ways for case in each]
    of: Any = np.repeat(np.arange(len(rows)), [len(each) for each in ways])  # the row of each case
    measured = np.array([m for _, m, _ in rows])
    here = {name for case in cases for name in case.line}
    ranges = _RANGES | {key: value for key, value in _FAMILIES.items() if key[0] in here}
    plain = {
        n: np.array([getattr(c, n) for c in cases]) for n in ("batch", "input_len", "context", "prefills", "steps")
    }
    parts = {n: stacked([getattr(c, n) for c in cases]) for n in ("work", "split", "machine")}
    every = dataclasses.replace(cases[0], **plain, **parts)
    alike: dict[Any, int] = {}  # cases whose efficiencies are the same
    which = np.array([alike.setdefault(_kind(c), len(alike)) for c in cases])
    kinds = [cases[int(np.argmax(which == i))] for i in range(len(alike))]

    def log_errors(values: Any) -> Any:
        constants = nested(list(ranges), values)
        eff = picked(stacked([_efficiencies(c, constants) for c in kinds]), which)
        return np.bincount(of, np.log(_time(every, eff))) / np.bincount(of) - np.log(measured)

    return nested(list(ranges), gauss_newton(list(ranges.values()), log_errors, [g for _, _, g in rows]))


PREDICTOR = Predictor(
    predict, fit, "Gauss-Newton on a robust log error within physical ranges; every group of rows has one vote"
)
