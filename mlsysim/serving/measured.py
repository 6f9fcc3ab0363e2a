"""The published measurement of a server that lies nearest to an answer, and what the same step model says of it.

The points are data of ``mlsysim/evidence`` that are read as files here: nothing of that wing is imported.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mlsysim import catalog, inference, units
from mlsysim.capacity.batching import request_capacity
from mlsysim.catalog import Device, Model
from mlsysim.catalog.sourced import parse_toml
from mlsysim.efficiencies import lineage
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.inference.counting import work_of
from mlsysim.memory.serving import checkpoint
from mlsysim.results import Result, format_rows, plain
from mlsysim.serving.closed import drawn
from mlsysim.serving.loops import loop_rate

_FILES = ("evidence/rows/serving.csv", "evidence/measured/fronts.toml")
_BACKENDS = {"trtllm": "TensorRT-LLM", "sglang": "SGLang", "vllm": "vLLM"}
# How the tables write formats: what the products run in, and the format of the weights where it is another.
_PRODUCTS = {"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "mxfp4": "fp4", "int4_wo": "bf16", "bf16": "bf16"}
LENGTH_RANGE = 0.8  # least length over the greatest of the runs of fronts.toml (InferenceX: RANDOM_RANGE_RATIO)
_NEAR = 4.0  # times the tokens of a prompt or of an answer, up to which a point is near


@dataclass(frozen=True)
class MeasuredPoint(Result):
    """One server at a fixed number of requests in flight; prompts and answers on the same devices, no speculation."""

    model: str
    device: str
    server: str  # with its release, as far as the source says it
    weights: str  # as the source writes the format
    tp: int
    input_len: float  # as the source prints them
    output_len: float
    concurrency: int
    device_rate: float  # tokens/s of answers, of each device
    itl: float | None  # s; None where the source prints a rate alone
    source: str
    where: str
    mean_length: float = 1.0  # mean of the lengths that are sent, over those printed

    @property
    def precision(self) -> str:
        """What the products run in: fp4, fp8 or bf16."""
        return _PRODUCTS[self.weights]

    @property
    def mean_lengths(self) -> tuple[float, float]:
        """Tokens of a prompt and of an answer on average: where lengths are drawn, fewer than those printed."""
        return self.mean_length * self.input_len, self.mean_length * self.output_len

    @property
    def user_rate(self) -> float:
        """Tokens/s of one request, its prompt included."""
        return self.device_rate * self.tp / self.concurrency

    def deployment(self) -> inference.Deployment:
        """The replica in the formats of the source; what it does not say, as its server keeps it."""
        m, d = catalog.model(self.model), catalog.device(self.device)
        narrow = self.weights != "bf16"
        told = self.server.startswith("TensorRT-LLM") or "Blackwell" in lineage(d)
        products = self.precision if d.has(f"peak_flops.{self.precision}") else "bf16"
        stored: dict[str, str] = {}
        if self.precision == "fp4":
            stored = {"weights": "mxfp4" if m.stored == "mxfp4" else "nvfp4"}
        elif m.stored_experts and self.precision == "fp8":
            stored = {"weights": "fp8", "experts": m.stored_experts}
        elif self.weights == "int4_wo":
            stored = {"weights": "int4-sym-g32" if m.is_moe else "int4-g128"}
        cache_in = "fp8" if narrow and told else "bf16"
        return inference.deploy(m, d, tp=self.tp, precision=products, kv=cache_in, **stored)  # type: ignore[arg-type]

    def predicted(self) -> float:
        """Tokens/s of answers of each device, by the step model of an answer with so many places, all of them taken."""
        d, (prompt, answer) = self.deployment(), self.mean_lengths
        first = float(inference.prefill(d, input_len=prompt, batch=1.0).time)
        step = float(inference.decode_step(d, context=prompt + answer / 2.0, batch=float(self.concurrency)).time)
        rate = request_capacity(float(self.concurrency), first, step, max(1.0, answer - 1.0))
        return float(rate) * answer / self.tp

    @property
    def error(self) -> float:
        """Signed: what is predicted over what was measured, less one."""
        return self.predicted() / self.device_rate - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return dict(plain(vars(self))) | {"predicted_device_rate": self.predicted(), "error": self.error}


def points_of_rows(rows: Iterable[Mapping[str, str]]) -> Iterator[MeasuredPoint]:
    """The points of a table with the columns of ``evidence/rows/serving.csv``; of servers whose attention is cut, not copied."""
    for row in rows:
        tp = int(row["tp"] or 1)
        copied = row["attention_dp"] not in ("", "0", "1")
        experts = max(1, int(row["moe_tp"] or 1)) * max(1, int(row["moe_ep"] or 1))
        if row["mode"] != "agg" or copied or experts not in (1, tp) or row["gemm_quant"] not in _PRODUCTS:
            continue
        itl, ttft, c = float(row["measured_tpot_s"]), float(row["measured_ttft_s"]), int(row["concurrency"])
        server = _BACKENDS.get(row["backend"], row["backend"])
        yield _timed(
            row["model"], row["device"], f"{server} {row['backend_version']}".strip(), row["gemm_quant"], tp,
            float(row["input_len"]), float(row["output_len"]), c, itl, ttft, row["source"], row["where"],
            float(row["length_range"] or 1.0),
        )  # fmt: skip


def points_of_runs(runs: Mapping[str, Mapping[str, Any]]) -> Iterator[MeasuredPoint]:
    """The points of a table with the form of ``evidence/measured/fronts.toml``; those of pools apart, with copied attention or speculation are left out."""
    for run in runs.values():
        if run.get("degrees") or run.get("drafted") or run.get("attention"):
            continue
        p, n, counted = float(run["input_len"]), float(run["output_len"]), run.get("counted")
        least = float(run.get("length_range", LENGTH_RANGE))
        mean = float(drawn(least)[0])
        about = (run["model"], run["device"], f"{run['server']} {run['release']}".strip(), run["weights"])
        for tp, _, c, *measured in run["rows"]:
            if counted:  # of prompt and answer together
                rate = float(measured[0]) * n / (p + n) / (tp if counted == "server" else 1)
                yield MeasuredPoint(*about, int(tp), p, n, int(c), rate, None, run["source"], run["where"], mean)
            else:
                itl, ttft = map(float, measured)
                yield _timed(*about, int(tp), p, n, int(c), itl, ttft, run["source"], run["where"], least)


def _timed(
    model: str, device: str, server: str, weights: str, tp: int, p: float, n: float, c: int, itl: float, ttft: float,
    source: str, where: str, least: float,
) -> MeasuredPoint:  # fmt: skip
    mean = float(drawn(least)[0])
    rate = float(loop_rate(c, ttft, itl, mean * n)) * mean * n / tp
    return MeasuredPoint(model, device, server, weights, tp, p, n, c, rate, itl, source, where, mean)


@cache
def _line(device: str) -> tuple[str, ...]:
    """The lineage of a point's device, which ships and does not change."""
    return lineage(device)


@cache
def measured_points() -> tuple[MeasuredPoint, ...]:
    """Every published point of a server that ships.

    >>> any(p.model == "gpt-oss-120B" and p.device == "B200-SXM-180GB" for p in measured_points())
    True
    """
    found: list[MeasuredPoint] = []
    for name in _FILES:
        text = files("mlsysim").joinpath(name).read_text(encoding="utf-8")
        if name.endswith(".csv"):
            found += points_of_rows(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        else:
            found += points_of_runs(parse_toml(text, name))
    return tuple(found)


@dataclass(frozen=True)
class Nearest(Result):
    """The nearest point, and how far it is from what was asked."""

    point: MeasuredPoint
    model: str
    device: Device
    precision: str
    lengths: tuple[float, float]
    each: float  # requests in flight on a device

    @property
    def near(self) -> bool:
        """The same model and device, and prompts and answers of about the same length."""
        p = self.point
        close = all(max(a, b) <= _NEAR * min(a, b) for a, b in zip(self.lengths, p.mean_lengths, strict=True))
        return p.model == self.model and p.device == self.device.name and close

    @property
    def distance(self) -> tuple[float, ...]:
        """What is compared in order: another model, another device, other products, and the logarithms of lengths and load."""
        return self._distance(lineage(self.device))

    def _distance(self, own: tuple[str, ...]) -> tuple[float, ...]:
        p, theirs = self.point, _line(self.point.device)
        apart = 0 if p.device == self.device.name else 1 + next(i for i, of in enumerate(own) if of in theirs)
        pairs = [*zip(self.lengths, p.mean_lengths, strict=True), (self.each, p.concurrency / p.tp)]
        far = sum(abs(math.log(a / b)) for a, b in pairs)
        return float(p.model != self.model), float(apart), float(p.precision != self.precision), far

    def words(self, ours: float | None = None) -> str:
        """The point, what of it is other than asked, and what we say of it, in a sentence.

        Of another model or device it says no more of what was asked. ``ours`` is the rate that another model than an answer's gives there.
        """
        p = self.point
        (a, b), (c, d) = self.lengths, (p.input_len, p.output_len)
        same = p.device == self.device.name
        alike = same and p.model == self.model

        def here(asked: str, equal: bool = False) -> str:
            return f" (here {asked})" if alike and not equal else ""

        said = [
            "" if p.model == self.model else f"{p.model} (not {self.model})",
            "" if alike else "on " + (p.device if same else f"{p.device} (not {self.device.name})"),
            p.server,
            p.precision + here(self.precision, p.precision == self.precision),
            f"{c:g} + {d:g} tokens" + here(f"{a:g} + {b:g}", (a, b) == (c, d)),
            f"TP{p.tp}" if p.tp > 1 else "",
            f"{p.concurrency / p.tp:.3g} in flight a device" + here(f"{self.each:.3g}"),
        ]
        name = "nearest measurement" + ("" if self.near else ", not near")
        try:
            rate = p.predicted() if ours is None else ours
            we = f"we say {units.rounded(rate)} ({units.percent(rate / p.device_rate - 1.0, 0)})"
        except InputError:
            we = "we say that it does not fit"
        return f"{name}: {', '.join(filter(None, said))}: {units.rounded(p.device_rate)} tokens/s a device, {we}"

    def summary(self) -> list[str]:
        return format_rows(self.words(), ("source", f"{self.point.source}, {self.point.where}"))

    def to_dict(self) -> dict[str, Any]:
        """The point with what we predict there, and whether it is near."""
        return self.point.to_dict() | {"near": self.near}


def nearest_point(
    model: Model,
    device: Device,
    precision: str,
    input_len: float,
    output_len: float,
    each: float,
    points: Iterable[MeasuredPoint] | None = None,
) -> Nearest | None:
    """The nearest of some points: first of the same model, then of the device or its next relative, of the format, of lengths and load.

    Parameters
    ----------
    model : Model
        An entry of the catalogue, under the name of a checkpoint too.
    device : Device
        Where it shall run.
    precision : str
        What the products run in.
    input_len, output_len : float, 1
        Tokens of a prompt and of an answer.
    each : float, 1
        Requests in flight on a device.
    points : iterable of MeasuredPoint, optional
        Those to look among (default: all that ship).

    Returns
    -------
    Nearest or None
        None where there are no points at all of known models and devices.
    """
    try:
        name = checkpoint(model.name)[0].name
    except UnknownNameError:  # a shape of one's own
        name = model.name
    asked = (name, device, precision, (float(input_len), float(output_len)), max(float(each), 1e-9))
    known = (Nearest(p, *asked) for p in (measured_points() if points is None else points) if _known(p))
    own = lineage(device)
    return min(known, key=lambda n: n._distance(own), default=None)


@cache
def _known(p: MeasuredPoint) -> bool:
    """Whether the catalogue has its model and device, and its prompts were computed: in no format faster than the device's peak."""
    try:
        w, d = work_of(catalog.model(p.model)), catalog.device(p.device)
    except UnknownNameError:
        return False
    prompt, answer = p.mean_lengths
    weights = float(w.layers * (w.dense_params + w.attention_params))  # that every token meets
    return 2.0 * weights * p.device_rate * prompt / answer <= max(d.peak_flops.values())
