"""Measured points of throughput per device and tokens per second of a user, with what the closed loop says of each.

A choice of some tens of published points, each with server, release and date; and the services of large mixtures whose pools
were measured apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlsysim import catalog, inference, serving
from mlsysim.capacity import USABLE
from mlsysim.catalog.sourced import shipped
from mlsysim.efficiencies import shipped as constants_of
from mlsysim.errors import InputError, named
from mlsysim.evidence.measured.measurements import Check
from mlsysim.evidence.predictors.serving import predict_tpot, predict_ttft
from mlsysim.results import Result
from mlsysim.serving.measured import LENGTH_RANGE

_USERS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # in flight, of a front
_FULL = 1.0  # answers that somebody waits for a place before a front ends
_BACKENDS = {"TensorRT-LLM": "trtllm", "SGLang": "sglang", "vLLM": "vllm"}  # as class serving_tpot writes them


@dataclass(frozen=True)
class FrontPoint(Result):
    """One measured point; times in s, rates in tokens/s of answers. Where the source prints a rate there are no times."""

    run: str  # table of the file that it stands in
    model: str
    device: str
    server: str
    release: str
    date: str
    precision: str
    layout: str
    devices: int
    input_len: int
    output_len: int
    concurrency: int
    itl: float | None
    ttft: float | None
    device_rate: float
    drafted: int  # tokens that a module proposes in a step; 0 without speculation
    inputs: Mapping[str, Any]  # as a row of class serving_tpot
    source: str
    where: str
    chapter: int  # that has the point

    @property
    def user_rate(self) -> float:
        """Tokens per second that a user reads; where only a rate is printed, of the whole request, its prompt's time included."""
        return self.device_rate * self.devices / self.concurrency if self.itl is None else 1.0 / self.itl


def front_runs(chapter: int = 24) -> Mapping[str, tuple[FrontPoint, ...]]:
    """The measured points of a chapter, by run of a server.

    >>> len(front_runs()["gpt-oss-b200"]), round(1 / front_runs()["gpt-oss-b200"][0].itl)
    (11, 280)
    """
    return {name: points for name, points in _every_run().items() if points[0].chapter == chapter}


@cache
def _every_run() -> Mapping[str, tuple[FrontPoint, ...]]:
    return shipped(__package__, "fronts.toml", _run)


def _run(name: str, raw: Mapping[str, Any], file: str) -> tuple[FrontPoint, ...]:
    counted = raw.get("counted", "")
    if counted not in ("", "device", "server"):
        raise InputError(f"{file}: {name}: counted = {counted!r}; write 'device' or 'server', or leave it out")
    return tuple(_point(name, raw, row, counted) for row in raw["rows"])


def _point(name: str, raw: Mapping[str, Any], row: list[float], counted: str) -> FrontPoint:
    tp, ep, concurrency = (int(x) for x in row[:3])
    degrees = dict(raw.get("degrees", {}))
    p, n = int(raw["input_len"]), int(raw["output_len"])
    least = float(raw.get("length_range", LENGTH_RANGE))
    drawn = serving.drawn(least)[0]
    apart = raw.get("attention") == "dp"  # of as many replicas of attention, which share the experts
    if degrees:
        pools = {
            pool: int(degrees[f"{pool}_workers"] * degrees[f"{pool}_tp"] * degrees.get(f"{pool}_attention_dp", 1))
            for pool in ("prefill", "decode")
        }
        devices = sum(pools.values())
        layout = f"{pools['prefill']} devices for prompts, {pools['decode']} for answers"
    else:
        devices = tp
        layout = f"{'DP' if apart else 'TP'}{tp}" + (f" EP{ep}" if ep > 1 else "")
    if counted:
        itl, ttft = None, None
        rate = float(row[3]) * n / (p + n) / (devices if counted == "server" else 1)
    else:
        itl, ttft = float(row[3]), float(row[4])
        rate = float(serving.loop_rate(concurrency, ttft, itl, drawn * n)) * drawn * n / devices
    inputs: dict[str, Any] = {
        "model": raw["model"], "device": raw["device"], "backend": _BACKENDS.get(raw["server"], ""),
        "mode": "disagg" if degrees else "agg", "precision": raw["precision"], "gemm_quant": raw["weights"],
        "moe_quant": raw.get("experts", raw["weights"]), "input_len": p, "output_len": n, "concurrency": concurrency,
        "kv_precision": raw.get("kv"), "length_range": least, "statistic": "mean", "requests_per_user": raw.get("requests_per_user"),
        "tp": 1 if apart else tp, "attention_dp": tp if apart else 1, "moe_tp": 1 if ep > 1 else tp, "moe_ep": ep, **degrees,
    }  # fmt: skip
    return FrontPoint(
        run=name, model=raw["model"], device=raw["device"], server=raw["server"], release=raw["release"],
        date=raw["date"], precision=raw["precision"], layout=layout, devices=devices, input_len=p, output_len=n,
        concurrency=concurrency, itl=itl, ttft=ttft, device_rate=rate, drafted=int(raw.get("drafted", 0)),
        inputs=inputs, source=raw["source"], where=raw["where"], chapter=int(raw.get("chapter", 24)),
    )  # fmt: skip


@cache
def _deployed(model: str, device: str, tp: int, precision: str) -> inference.Deployment:
    """A replica with attention cut over its devices, and what it keeps wider than its products."""
    m = catalog.model(model)
    own = "mxfp4" if m.stored == "mxfp4" else "nvfp4"
    kept = {"kv": "bf16" if precision == "bf16" else "fp8", **({"weights": own} if precision == "fp4" else {})}
    if m.stored_experts and precision == "fp8":
        kept |= {"weights": "fp8", "experts": m.stored_experts}
    return inference.deploy(m, catalog.device(device), tp=tp, precision=precision, **kept)  # type: ignore[arg-type]


def loop_at(
    model: str,
    device: str,
    *,
    tp: int,
    concurrency: float,
    input_len: float,
    output_len: float,
    precision: str = "fp4",
    drafted: float = 0.0,
    accepted: float = 1.0,
    ahead: float = 0.0,
    spread: float = serving.SPREAD,
) -> serving.Loop:
    """The closed loop of one replica with attention cut over its devices, as :func:`mlsysim.explore.frontier` works it out.

    Parameters
    ----------
    model, device : str
        Names of the catalogue.
    tp : int
        Devices of the replica.
    concurrency, input_len, output_len : float
        Requests in flight, and mean tokens of prompts and answers.
    precision : str
        ``fp4``, ``fp8`` or ``bf16``; in ``fp4`` a mixture keeps attention in 16 bits.
    drafted, accepted : float
        Tokens proposed in a step, and tokens that it yields on average.
    ahead, spread : float
        Steps that the server launches ahead, and the standard deviation of lengths over their mean.

    >>> 100 < 1 / loop_at("gpt-oss-120B", "B200", tp=1, concurrency=16, input_len=8192, output_len=1024).tpot < 200
    True
    """
    made = _deployed(model, device, tp, precision)
    m, d = made.model, made.device
    blocks = float(precision == "fp8" and serving.in_blocks(m, d))
    by = serving.server_constants(made.work, float(precision == "fp4"), constants_of("serving_tpot"), blocks)
    room = USABLE * d.usable_memory - made.weight_memory
    slots = room / float(made.kv_memory(1.0, input_len + output_len / 2.0))
    if slots < 1:
        raise InputError(
            f"loop_at: {m.name} on {tp} x {d.name} has no room for the cache of a request; give more devices"
        )
    eff = serving.answers(serving.served(made.efficiencies, by), by)
    pool = serving.Pool(made.split, made.machine, eff, slots=slots)
    latency, launches, pace = serving.ttft_constants(
        made.work, constants_of("serving_ttft"), fused=float(precision == "fp4")
    )
    return serving.closed_loop(
        made.work, pool, concurrency=concurrency, input_len=input_len, output_len=output_len,
        latency=latency, launches=launches, prefill_slowdown=pace, drafted=drafted, accepted=accepted, async_steps=ahead, spread=spread,
    )  # fmt: skip


def tensor_front(
    model: str, device: str, *, input_len: float, output_len: float, precision: str = "fp4", most: int = 8
) -> tuple[tuple[float, float, int, int], ...]:
    """The front of replicas whose prompts and answers share devices cut by tensor parallelism alone: the measured part.

    Returns
    -------
    tuple of (user rate, device rate, devices, requests in flight)
        The points that none beats, those who read fastest first; empty where the model does not fit.

    >>> front = tensor_front("gpt-oss-120B", "B200", input_len=1024, output_len=1024)
    >>> front[0][3], front[-1][3] > 100  # requests in flight at its two ends
    (1, True)
    """
    found: list[tuple[float, float, int, int]] = []
    for tp in (n for n in (1, 2, 4, 8, 16, 32, 64) if n <= most):
        for users in _USERS:
            try:
                loop = loop_at(
                    model,
                    device,
                    tp=tp,
                    concurrency=users,
                    input_len=input_len,
                    output_len=output_len,
                    precision=precision,
                )
            except InputError:  # too large for so few devices, or degrees that do not divide it
                break
            if users > loop.decoding and loop.ttft > _FULL * loop.tpot * output_len:
                break  # who comes now waits for memory
            found.append((1.0 / float(loop.tpot), float(loop.tokens_per_s) / tp, tp, users))
    front, best = [], 0.0
    for point in sorted(found, key=lambda p: (-p[0], -p[1])):
        if point[1] > best:
            best = point[1]
            front.append(point)
    return tuple(front)


def check_front(point: FrontPoint, accepted: float = 1.0) -> dict[str, Check]:
    """Predict a measured point: ``device_rate``, and ``itl`` and ``ttft`` where the source prints times.

    Parameters
    ----------
    point : FrontPoint
        As of :func:`front_runs`.
    accepted : float
        Tokens that a step yields, where the point speculates: sources do not print it.
    """
    drawn = serving.drawn(float(point.inputs["length_range"]))[0]
    if point.drafted:
        loop = loop_at(
            point.model, point.device, tp=point.devices, concurrency=point.concurrency, precision=point.precision,
            input_len=drawn * point.input_len, output_len=drawn * point.output_len, drafted=point.drafted, accepted=accepted,
        )  # fmt: skip
        itl, ttft = float(loop.tpot), float(loop.ttft)
    else:
        itl = _predicted(predict_tpot(point.inputs, constants_of("serving_tpot")))
        ttft = _predicted(predict_ttft(point.inputs, constants_of("serving_ttft")))
    n = drawn * point.output_len
    rate = float(serving.loop_rate(point.concurrency, ttft, itl, n)) * n / point.devices
    found = {"itl": (itl, point.itl), "ttft": (ttft, point.ttft), "device_rate": (rate, point.device_rate)}
    return {n: Check(point, ours, measured) for n, (ours, measured) in found.items() if measured is not None}


def _predicted(found: Any) -> float:
    if found.predicted is None:
        raise InputError(f"check_front: {found.reason}")
    return float(found.predicted)


def check_run(name: str, accepted: float = 1.0) -> tuple[dict[str, Check], ...]:
    """Every point of a run beside the closed loop.

    >>> [round(c["itl"].error, 1) for c in check_run("minimax-b200-0.17.0")][-1] < -0.2
    True
    """
    return tuple(check_front(p, accepted) for p in named("run", name, _every_run()))
