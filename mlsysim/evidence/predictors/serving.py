"""Classes serving_tpot and serving_ttft: servers at a fixed number of requests in flight, prompts and answers together or apart.

The times are those of ``serving.closed_loop`` on the steps that every other prediction of inference has. Six constants say what
servers of 2025 and 2026 change of these: hops of all-reduces inside a domain, what a layer does around the grouped products of
its experts, how unevenly experts are chosen, how much longer prompts take than their kernels, what a host does for each
sequence of a step, and how slow kernels with block scales are where few rows have none made for them. Three are for the first token: the pace of prompt passes of mixtures, what a kernel adds where a host launches
those of prompts one by one, and what a request takes on its way through any server. None belongs to a model, a device or a server.
How a run was made (its length, how lengths are drawn, which number is printed, what the server was told) is stated by a row's
columns; where it states nothing, the neutral value stands and is written down.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlsysim import catalog, memory
from mlsysim.catalog import Device, Model
from mlsysim.efficiencies import MIDDLE, Server, known_server, lineage, server_of, shipped
from mlsysim.errors import UnknownNameError
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
from mlsysim.inference import Efficiencies, Machine, Split, Work, work_of
from mlsysim.inference.shares import efficiencies_of, half_peak
from mlsysim.memory.quantised import experts_alone
from mlsysim.memory.serving import checkpoint
from mlsysim.serving.closed import (
    ADAPTER,
    REQUESTS_PER_USER,
    SLOW_BLOCKS,
    SPREAD,
    Loop,
    Pool,
    ServerOverheads,
    answers,
    closed_loop,
    drawn,
    served,
    server_constants,
    ttft_constants,
)
from mlsysim.transformer import parameter_count

# How a row writes formats: bytes of a weight, and what the products run in. Those of AIConfigurator that are no format of their
# own (aiconfigurator2026configs, aic-core/src/aiconfigurator_core/sdk/common.py at 095f58a51, GEMMQuantMode and MoEQuantMode)
# follow in _ALSO; its four bits have no scales, ours have the format's (w4afp8: one of 16 bits to 128 weights).
_FORMATS = {
    "fp8": (1.0, "fp8"),
    "fp8_block": (1.0 + 4.0 / 128.0**2, "fp8"),
    "nvfp4": (4.5 / 8.0, "fp4"),
    "mxfp4": (4.25 / 8.0, "fp4"),
    "int4_wo": (4.5 / 8.0, "bf16"),
    "nvfp4_wo": (4.5 / 8.0, "bf16"),
    "w4a16_mxfp4": (4.25 / 8.0, "bf16"),
    "w4a8_mxfp4_mxfp8": (4.25 / 8.0, "fp8"),
    "w4afp8": (4.125 / 8.0, "fp8"),
    "mxfp8": (8.25 / 8.0, "fp8"),
    "int8_wo": (1.0, "bf16"),
    "sq": (1.0, "int8"),
    "bf16": (2.0, "bf16"),
    "fp16": (2.0, "bf16"),
    "float16": (2.0, "bf16"),
    "bfloat16": (2.0, "bf16"),
}
# Bytes of a number that products multiply, and that is sent to an expert.
_OPERANDS = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
_ALSO = {
    "fp4": "nvfp4", "int4": "int4_wo", "int8": "int8_wo", "w4a16": "int4_wo", "w8a16": "int8_wo", "fp8_static": "fp8",
    "fp8_ootb": "fp8", "w4a16_nvfp4": "nvfp4_wo", "w4a16_mxfp4_cutlass": "w4a16_mxfp4",
    "w4a8_mxfp4_mxfp8_trtllm": "w4a8_mxfp4_mxfp8",
}  # fmt: skip
# The checkpoint's format, where a mixture's says which parts are stored in it.
_STORED = {"int4_wo": "int4-sym-g32", "nvfp4_wo": "nvfp4", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4"}
_MODES = {"agg": "agg", "aggregated": "agg", "disagg": "disagg", "disaggregated": "disagg"}
_FULL = 0.95  # of a device's memory that weights and cache may take
_LEAST = 0.05  # of it that is left for cache where the weights leave less: they were loaded, or there would be no row
# Rows of a group that make a whole vote. Groups of few rows are single deployments, which settings that no row states may have made
# slower by factors; times to a first token feel these most.
_FEW = {"tpot": 15, "ttft": 100}
_RANGES = {
    ("messages", "hops"): (0.05, 3.0, 0.3),
    ("experts", "starts"): (0.3, 6.0, 2.6),
    ("experts", "routing_cv2"): (1e-3, 5.0, 0.7),
    ("host", "prompts"): (0.3, 8.0, 1.4),
    ("host", "sequence"): (1e-7, 3e-4, 2e-5),
    ("block scales", "slow"): (1.0, 6.0, 2.0),
}
_FIRST = {
    ("pace", "experts"): (0.3, 6.0, 1.2),
    ("latency", "kernel"): (1e-6, 1e-3, 8e-5),
    ("latency", "request"): (1e-3, 0.3, 2e-2),
}
_STATISTICS = ("mean", "median")


@dataclasses.dataclass(frozen=True)
class Degrees:
    """Ranks of a replica: of attention, split and replicated, and of experts that are placed rather than cut."""

    tp: float
    dp: float
    ep: float

    @property
    def devices(self) -> float:
        return self.tp * self.dp


def degrees_of(tp: float, attention_dp: float | None, moe_tp: float, moe_ep: float) -> Degrees:
    """Ranks of a replica from the degrees of a row.

    Two ways to write them stand in the source. Where a row does not say ``attention_dp``, or says 1, and the degrees of
    experts multiply to those of attention, they are what they are called. Where benchmarks run tensor and expert parallelism
    over the *same* devices, the source multiplies them into each other: then tp, or attention_dp, is moe_tp x moe_ep with both
    alike, and rows of the same run at the true degrees have the same times. Where tp and attention_dp are both above one and
    alike, experts are placed on their product, and again the times are those of tp alone.

    >>> degrees_of(8, 1, 8, 1), degrees_of(16, 1, 4, 4), degrees_of(1, 64, 8, 8)
    (Degrees(tp=8, dp=1, ep=1), Degrees(tp=4, dp=1, ep=4), Degrees(tp=1, dp=8, ep=8))
    >>> degrees_of(4, 4, 1, 16), degrees_of(1, None, 2, 1), degrees_of(4, None, 2, 2)
    (Degrees(tp=4, dp=1, ep=4), Degrees(tp=1, dp=2, ep=1), Degrees(tp=4, dp=1, ep=2))
    """
    dp = attention_dp or 1
    moe_tp, moe_ep = max(1, moe_tp), max(1, moe_ep)
    if tp > 1 and dp > 1:
        return Degrees(tp, 1, min(moe_ep, tp))
    if attention_dp is not None and moe_tp == moe_ep > 1 and tp * dp == moe_tp * moe_ep:
        return Degrees(1, moe_ep, moe_ep) if dp > 1 else Degrees(moe_ep, 1, moe_ep)
    return Degrees(tp, max(dp, moe_tp * moe_ep // tp), moe_ep)


@dataclasses.dataclass(frozen=True)
class _Side:
    """A pool, before any fitted number."""

    split: Split
    machine: Machine
    efficiencies: Efficiencies
    replicas: float
    slots: float


@dataclasses.dataclass(frozen=True)
class _Case:
    """A row in the terms of the closed loop."""

    work: Work
    decode: _Side
    prefill: _Side
    apart: float
    alone: float
    fused: float
    transfer: float
    experts: bool
    captured: float
    blocks: float
    concurrency: float
    input_len: float
    output_len: float
    requests_per_user: float
    poll: float
    gather: float
    gather_tokens: float
    ahead: float
    spread: float


def _model(row: Row) -> Model:
    name = str(row.need("model"))
    try:
        return checkpoint(name)[0]
    except UnknownNameError as error:
        raise Unsupported(f"column model: {error}") from None


def _device(row: Row) -> Device:
    try:
        return catalog.device(str(row.need("device")))
    except UnknownNameError as error:
        raise Unsupported(f"column device: {error}") from None


def _format(row: Row, column: str, other: str) -> tuple[str, float, str]:
    name = str(row.inputs.get(column) or other).casefold()
    name = _ALSO.get(name, name)
    if name not in _FORMATS:
        raise Unsupported(f"{column} = {name[:20]!r} is not one of {', '.join(_FORMATS)}")
    return name, *_FORMATS[name]


def _degree(row: Row, name: str) -> float:
    value = row.optional(name, 1.0)
    if value != int(value):
        raise Unsupported(f"{name} = {value:g} is not a whole number")
    return value


def _degrees(row: Row, pool: str) -> Degrees:
    dp = row.number(f"{pool}attention_dp") if row.has(f"{pool}attention_dp") else None
    tp = max(1.0, _degree(row, f"{pool}tp"))
    return degrees_of(tp, dp, _degree(row, f"{pool}moe_tp"), _degree(row, f"{pool}moe_ep"))


def _side(row: Row, model: Model, device: Device, server: Server, d: Degrees, replicas: float, tokens: float) -> _Side:
    plain = str(row.inputs.get("precision") or "bf16")
    name, weight, products = _format(row, "gemm_quant", plain)
    experts = _format(row, "moe_quant", name)[1] if model.is_moe else weight
    if experts_alone(_STORED.get(name, name), model.is_moe):
        weight = 2.0
    if not device.has(f"peak_flops.{products}"):
        products = "bf16"
    kv = _cached(row, name, server)
    ep = (
        max(d.ep, d.dp) if model.is_moe and d.dp > 1 else 1.0
    )  # within tp all hold all tokens: placing or cutting is one
    split = Split(
        tp=d.tp, pp=1.0, dp=d.dp, ep=ep, weight_bytes=weight, expert_bytes=experts, head_bytes=2.0, kv_bytes=kv,
        dispatch_bytes=_OPERANDS[products], interleaved=1.0,
    )  # fmt: skip
    domain = max(1.0, float(device.scale_up_domain)) if device.has("scale_up_domain") else 1.0
    intra = device.scale_up_bandwidth if device.has("scale_up_bandwidth") else device.memory_bandwidth
    inter = ADAPTER
    machine = Machine(
        peak_flops=device.peak_flops[products],
        half_peak_flops=half_peak(device, "bf16"),
        memory_bandwidth=device.memory_bandwidth,
        intra_bandwidth=intra,
        inter_bandwidth=inter,
        tp_inside=min(d.tp, domain),
        ep_inside=min(ep, domain),
        pp_bandwidth=inter,
    )
    room = max(_LEAST * device.usable_memory, _FULL * device.usable_memory - _weights(model, split, weight, experts))
    w = work_of(model)
    held = memory.kv_cache_of(model, 1.0, tokens, kv) / min(d.tp, float(w.kv_shards)) + memory.state_of(model) / d.tp
    return _Side(split, machine, efficiencies_of(device, products), replicas, max(1.0, room / max(float(held), 1.0)))


def _cached(row: Row, products: str, server: Server) -> float:
    """Bytes of a cached number: as the row states; else as the server has it where it is told nothing."""
    if row.has("kv_precision"):
        return element_bytes(str(row.need("kv_precision")))
    narrow = _FORMATS[products][1] != "bf16" or _STORED.get(products) in ("mxfp4", "nvfp4")
    return 1.0 if narrow and server.narrow_cache else 2.0


def _weights(model: Model, split: Split, weight: float, experts: float) -> float:
    """Bytes of weights on a device."""
    count = parameter_count(model)
    rest = count.total - count.experts - count.embedding - count.lm_head
    ranks = split.tp * split.dp if model.is_moe else split.tp
    tables = (count.embedding + count.lm_head) * split.head_bytes
    return float(rest * weight / split.tp + count.experts * experts / ranks + tables / split.tp)


def _case(row: Row) -> _Case:
    """A row in the terms of the loop; rows that were read before are kept, since fits read all of them again and again."""
    key = tuple(sorted((k, v) for k, v in row.inputs.items() if v is not None))
    if key not in _KEPT:
        if len(_KEPT) >= _MOST:
            _KEPT.clear()
        fresh = Row(row.inputs)
        _KEPT[key] = _read(fresh), tuple(fresh.assumptions)
    case, assumed = _KEPT[key]
    row.assumptions += assumed
    return case


_KEPT: dict[Any, tuple[_Case, tuple[str, ...]]] = {}
_MOST = 1 << 14


def _read(row: Row) -> _Case:
    model, device = _model(row), _device(row)
    mode = _MODES.get(str(row.need("mode")).casefold(), row.need("mode"))
    if mode not in ("agg", "disagg"):
        raise Unsupported(f"mode = {str(mode)[:20]!r} is neither 'agg' nor 'disagg'")
    concurrency = row.number("concurrency")
    prompt, answer, spread = _lengths(row)
    if concurrency < 1 or prompt < 1 or answer < 1:
        raise Unsupported("concurrency, input_len and output_len are at least 1")
    server = _server(row)
    tokens = prompt + (answer if server.whole_answers else answer / 2.0)  # half of an answer under way on average
    if mode == "agg":
        decode = prefill = _side(row, model, device, server, _degrees(row, ""), 1.0, tokens)
    else:
        decode, prefill = (
            _side(
                row,
                model,
                device,
                server,
                _degrees(row, f"{pool}_"),
                max(1.0, row.number_or(f"{pool}_workers", 1.0)),
                tokens,
            )
            for pool in ("decode", "prefill")
        )
    w, s = work_of(model), decode.split
    products = decode.machine.peak_flops
    return _Case(
        work=w,
        decode=decode,
        prefill=prefill,
        apart=float(mode == "disagg"),
        alone=float(server.prompts_alone),
        fused=server.expert_kernels * float(device.has("peak_flops.fp4") and products == device.peak_flops["fp4"]),
        transfer=prompt * w.kv_elements * (1.0 - w.thinned) * w.layers * s.kv_bytes / decode.machine.inter_bandwidth,
        experts=model.is_moe,
        captured=float(server.captured_prompts),
        blocks=float(_in_blocks(row) and any(name in lineage(device) for name in SLOW_BLOCKS)),
        concurrency=concurrency,
        input_len=prompt,
        output_len=answer,
        requests_per_user=_requests_per_user(row),
        poll=row.optional("poll_steps", 0.0),
        gather=row.optional("gather_steps", 0.0),
        gather_tokens=row.optional("gather_tokens", 0.0),
        ahead=server.async_steps,
        spread=spread,
    )


def _in_blocks(row: Row) -> bool:
    """Whether weights have a scale for every block."""
    plain = str(row.inputs.get("precision") or "bf16")
    return "fp8_block" in (_format(row, column, plain)[0] for column in ("gemm_quant", "moe_quant"))


def _lengths(row: Row) -> tuple[float, float, float]:
    """Mean tokens of prompts and answers, and their standard deviation over the mean."""
    prompt, answer = row.number("input_len"), row.number("output_len")
    if not row.has("length_range"):
        row.assume("lengths", "means of lengths that differ", "the row states no length_range")
        return prompt, answer, SPREAD
    least = row.number("length_range")
    if least > 1.0:
        raise Unsupported(f"length_range = {least:g} is the least length over the greatest, from 0 to 1")
    mean, spread = drawn(least)
    return mean * prompt, mean * answer, spread


def _requests_per_user(row: Row) -> float:
    """Requests of the run over requests in flight; infinite for a median, which the few who begin together do not move."""
    statistic = row.or_assume("statistic", _STATISTICS[0], "as benchmarks print it, over the whole run")
    if statistic not in _STATISTICS:
        raise Unsupported(f"statistic = {str(statistic)[:20]!r} is neither {' nor '.join(_STATISTICS)}")
    if statistic == "median":
        return float("inf")
    requests = row.number_or("requests_per_user", REQUESTS_PER_USER, "a run that begins with all users at once")
    if requests < 1:
        raise Unsupported(f"requests_per_user = {requests:g} is less than one request of each user")
    return requests


def _server(row: Row) -> Server:
    """The server of the table, in its newest release; what it means that there is none is written down."""
    name = str(row.or_assume("backend", ""))
    if known_server(name):
        return server_of(name)
    row.assume("backend", MIDDLE.name, f"{name[:40]!r} is not in the table of servers")
    return MIDDLE


@dataclasses.dataclass(frozen=True)
class _Fitted:
    """The fitted numbers of a case; the defaults leave all as it is."""

    served: ServerOverheads = dataclasses.field(default_factory=ServerOverheads)
    latency: float = 0.0
    launches: float = 0.0
    pace: float = 1.0


def _fitted(case: _Case, steps: Constants, first: Constants) -> _Fitted:
    found = _Fitted(server_constants(case.work, case.fused, steps, case.blocks))
    if not first:
        return found
    latency, launches, pace = map(float, ttft_constants(case.work, first, case.captured, case.fused))
    return dataclasses.replace(found, latency=latency, launches=launches, pace=pace)


def _loop(c: Any, fitted: Any) -> Loop:
    by = fitted.served
    prefill = Pool(
        c.prefill.split, c.prefill.machine, served(c.prefill.efficiencies, by), c.prefill.replicas, c.prefill.slots
    )
    own = answers(served(c.decode.efficiencies, by), by)
    decode = Pool(c.decode.split, c.decode.machine, own, c.decode.replicas, c.decode.slots)
    return closed_loop(
        c.work, decode, prefill, concurrency=c.concurrency, input_len=c.input_len, output_len=c.output_len,
        disaggregated=c.apart, alone=c.alone, transfer=c.transfer, latency=fitted.latency,
        launches=fitted.launches, prefill_slowdown=fitted.pace,
        poll=c.poll, gather=c.gather, gather_tokens=c.gather_tokens, async_steps=c.ahead, spread=c.spread,
        requests_per_user=c.requests_per_user,
    )  # fmt: skip


def _predicted(row: Row, steps: Constants, first: Constants) -> Loop:
    case = _case(row)
    return _loop(case, _fitted(case, steps, first))


def predict_tpot(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Seconds per output token of one row."""
    row = Row(inputs)
    return Prediction(float(_predicted(row, constants, {}).tpot), assumptions=tuple(row.assumptions))


def predict_ttft(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Seconds to the first token of one row; its steps have the shipped constants of class serving_tpot."""
    row = Row(inputs)
    steps = shipped("serving_tpot") if constants else {}
    return Prediction(float(_predicted(row, steps, constants).ttft), assumptions=tuple(row.assumptions))


def _kind(case: _Case) -> tuple[Any, ...]:
    """All that :func:`_fitted` reads of a case."""
    return case.captured, case.blocks, case.apart, case.fused, case.experts, case.work.moe, case.work.layers


def _fit(
    rows: Sequence[Sample], ranges: Mapping[tuple[str, str], tuple[float, float, float]], what: str, soft: float
) -> dict[str, dict[str, float]]:
    """Fit constants; every group of at least as many rows as ``_FEW`` says has one vote; needs NumPy."""
    import numpy as np

    cases = [made_once(_case, inputs) for inputs, _, _ in rows]
    measured = np.array([m for _, m, _ in rows])
    every = stacked(cases)
    alike: dict[Any, int] = {}  # rows whose fitted numbers are the same
    which = np.array([alike.setdefault(_kind(c), len(alike)) for c in cases])
    kinds = [cases[int(np.argmax(which == i))] for i in range(len(alike))]

    def log_errors(values: Any) -> Any:
        constants = nested(list(ranges), values)
        steps = constants if what == "tpot" else shipped("serving_tpot")
        first = constants if what == "ttft" else {}
        fitted = picked(stacked([_fitted(c, steps, first) for c in kinds]), which)
        return np.log(getattr(_loop(every, fitted), what) / measured)

    groups = [g for _, _, g in rows]
    return nested(list(ranges), gauss_newton(list(ranges.values()), log_errors, groups, soft=soft, least=_FEW[what]))


def _predictor(
    predict: Callable[[Mapping[str, Any], Constants], Prediction],
    ranges: Mapping[tuple[str, str], tuple[float, float, float]],
    what: str,
    soft: float,
) -> Predictor:
    method = f"Gauss-Newton on a robust log error within physical ranges; every group of {_FEW[what]} rows or more has one vote"
    return Predictor(predict, lambda rows: _fit(rows, ranges, what, soft), method)


TPOT = _predictor(predict_tpot, _RANGES, "tpot", 0.05)
TTFT = _predictor(predict_ttft, _FIRST, "ttft", 0.1)
