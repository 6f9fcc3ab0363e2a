"""Throughput against interactivity: what each way to serve a model gives per device and per user, and the Pareto front of them.

Every layout, format and concurrency is one closed loop (``serving.closed_loop``) with prompts and answers together or in pools
apart; all of them are worked out as arrays. Needs NumPy.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, energy, inference, intervals, serving, units
from mlsysim.capacity import USABLE
from mlsysim.capacity.pace import LENGTH_VARIATION, answer_spread, answer_time, in_time, lengths
from mlsysim.capacity.waiting import wait_tail
from mlsysim.catalog import Device, Machines, Model, Price
from mlsysim.catalog.shapes import asked_for
from mlsysim.cost.rent import rent_of
from mlsysim.declared import in_si
from mlsysim.efficiencies import lineage, shipped
from mlsysim.efficiencies.domains import loop_domain
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument
from mlsysim.errors import InputError, unknown_name
from mlsysim.inference import Deployment
from mlsysim.inference.wiring import CARDS
from mlsysim.inference.work import alike_plans
from mlsysim.memory.quantised import WIDE, experts_alone
from mlsysim.results import Result, brief, format_rows, format_value, plain
from mlsysim.serving import Pool, ServerOverheads
from mlsysim.serving.measured import MeasuredPoint, Nearest, nearest_point
from mlsysim.tables import Table, table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

FORMATS = ("fp4", "fp8", "bf16")
MIXED = "fp4-fp8"  # routed experts in 4 bits, all else in 8: tried where it is asked for
MODES = ("aggregated", "disaggregated")
_MILLION = 1e6
_MOST_DEVICES = 64  # of a replica
_MOST_RATIO = 4  # replicas of one pool for one of the other
_STEPS_PER_DOUBLING = 2  # of the concurrency
_MOST_IN_FLIGHT = 1024  # of one attention replica: what servers run at a time unless told otherwise
_MOST_TOKENS = 10**7
_ALWAYS = 1.0 - 1e-6  # share of the time in which prompts run, at most


@dataclass(frozen=True)
class Layout(Result):
    """A replica: its degrees in words, and the devices that it takes."""

    words: str
    tp: int
    dp: int
    ep: int

    @property
    def devices(self) -> int:
        return self.tp * self.dp


@dataclass(frozen=True)
class Point(Result):
    """One way to serve, at one concurrency."""

    mode: str
    precision: str
    speculation: bool
    prefill: str  # layout and number of replicas; empty where prompts run with the answers
    decode: str
    devices: int
    concurrency: int  # over all replicas
    tpot: float  # s
    ttft: float
    user_rate: float  # tokens/s that one user reads
    device_rate: float  # tokens/s of answers, per device
    user_range: tuple[float, float] | None  # in which 80 % of measurements are expected
    device_range: tuple[float, float] | None
    cost: float | None  # USD per million tokens of answers
    energy: float | None  # J per million, at most: thermal design power
    range_whose: str = ""  # what share of which measurements the ranges hold
    cost_range: tuple[float, float] | None = None  # as the rate of a device is uncertain, at the same price
    energy_range: tuple[float, float] | None = None  # likewise, at the same power

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; seconds, tokens per second, dollars and joules per million tokens."""
        names = {"tpot": "tpot_s", "ttft": "ttft_s", "user_rate": "tokens_per_s_per_user"}
        names |= {"device_rate": "tokens_per_s_per_device", "cost": "usd_per_million_tokens"}
        names |= {"user_range": "tokens_per_s_per_user_range", "device_range": "tokens_per_s_per_device_range"}
        names |= {"energy": "joule_per_million_tokens", "energy_range": "joule_per_million_tokens_range"}
        names |= {"cost_range": "usd_per_million_tokens_range"}
        return {names.get(k, k): plain(list(v) if isinstance(v, tuple) else v) for k, v in vars(self).items()}


@dataclass(frozen=True, repr=False)
class Frontier(Result):
    """What :func:`frontier` returns: ``points`` of the Pareto front, the highest interactivity first."""

    model: Model
    device: Device
    input_len: int
    output_len: int
    points: tuple[Point, ...]
    others: tuple[tuple[float, float], ...]  # user and device rate of what is beaten
    targets: Mapping[str, float]
    tried: int
    price: str
    notes: tuple[str, ...] = ()
    rate: float | None = None  # requests/s, where they were asked for
    quantile: float | None = None  # of the requests of every point that meet the targets; None: of means
    length_variation: float | None = None

    @property
    def fits(self) -> bool:
        """Whether any way to serve holds the model."""
        return bool(self.tried)

    def meets(self, point: Point) -> bool:
        """Whether a point meets the targets."""
        if self.quantile is not None:
            return True
        times = {"ttft": point.ttft, "itl": point.tpot}
        return all(times[name] <= target for name, target in self.targets.items())

    @cached_property
    def nearest(self) -> Nearest | None:
        """The published measurement that lies nearest to the point within the targets, or to the last one."""
        if (p := self.best or (self.points[-1] if self.points else None)) is None:
            return None
        products = p.precision.split("-")[0]
        each = p.concurrency / p.devices
        return nearest_point(self.model, self.device, products, self.input_len, self.output_len, each)

    @property
    def best(self) -> Point | None:
        """The point with most throughput per device that meets the targets; None where none does."""
        found = [p for p in self.points if self.meets(p)]
        return max(found, key=lambda p: p.device_rate, default=None)

    @property
    def devices(self) -> int | None:
        """Devices, in whole replicas of the best point, that make the tokens of the rate; None without a rate, or a point."""
        return None if self.best is None else self._needed(self.best.device_rate)

    @property
    def devices_range(self) -> tuple[int | None, int | None] | None:
        """The same at both ends of the range of its throughput."""
        if self.best is None or self.rate is None or self.best.device_range is None:
            return None
        low, high = (self._needed(x) for x in self.best.device_range)
        return high, low

    def _needed(self, device_rate: float) -> int | None:
        if self.rate is None or self.best is None:
            return None
        each = self.best.devices
        return each * math.ceil(self.rate * self.output_len / (device_rate * each))

    def _sized(self) -> str:
        if self.rate is None or self.devices is None:
            return ""
        known = (
            ""
            if self.devices_range is None
            else f" ({self.devices_range[0]:,} to {self.devices_range[1]:,} in that range)"
        )
        at, more = ("", "") if self.quantile else (" and at mean times", " and sizes a percentile")
        return f"{self.devices:,}{known} make the tokens of {self.rate:g} requests/s, always full{at}; 'serve' adds room for chance{more}"

    def summary(self) -> Sequence[str]:
        what = f"{self.model.name} on {self.device.name}, {self.input_len:,} tokens in and {self.output_len:,} out"
        asked = ", ".join(f"{name.upper()} {units.format(value, 's')}" for name, value in self.targets.items())
        if self.quantile is not None:
            asked += f" for {100 * self.quantile:g} % of the requests (--length-variation {self.length_variation:g})"
        if not self.points:
            none = f"NO POINT MEETS {asked}" if self.fits else "DOES NOT FIT"
            return format_rows(f"{none}: {what}: none of the ways to serve it", *(("note", n) for n in self.notes))
        first, last = self.points[0], self.points[-1]
        best = self.best
        chosen = "" if not asked else f"{asked}: NO POINT MEETS IT" if best is None else f"{asked}: {_short(best)}"
        near = self.nearest
        if near is not None and not near.near:
            what += "; no measurement near"
        ends = () if asked else (("most patient", _short(last)), ("least patient", _short(first)))
        return brief(
            f"{what}: {last.device_rate:.4g} tokens/s a device at {last.user_rate:.3g} tokens/s a user, down to "
            f"{first.device_rate:.3g} at {first.user_rate:.4g}",
            ("target", chosen),
            *ends,
            ("front", f"{len(self.points)} of {self.tried:,} points; price of a device {self.price}"),
            ("range", _range_words(best, "at the target") if best and asked else _range_words(last, "last point")),
            ("devices", self._sized()),
            ("measured", "" if near is None else near.words(_looped(near.point))),
            *(("note", note) for note in self.notes),
            spare=("note", "measured"),
        )

    def chart(self) -> "Drawing | None":
        """Throughput per device against tokens per second of a user: the front, its two ends, and what it beats."""
        from mlsysim.drawing import shapes
        from mlsysim.drawing.charts import Chart
        from mlsysim.drawing.marks import Line, Marks
        from mlsysim.drawing.style import PALETTE

        if not self.points:
            return None
        pairs = [(p.user_rate, p.device_rate) for p in self.points]
        lines = [Line([x for x, _ in pairs], [y for _, y in pairs], "front", PALETTE[0])]
        for end, dash in ((0, "dashed"), (1, "dotted")):
            if all(p.user_range and p.device_range for p in self.points):
                ranged = [
                    (p.user_range[end], p.device_range[end]) for p in self.points if p.user_range and p.device_range
                ]
                label = ("lower", "upper")[end] + " end of the 80 % range"
                lines.append(Line([x for x, _ in ranged], [y for _, y in ranged], label, PALETTE[0], dash))
        beaten = shapes.sampled(list(self.others))
        marks = [Marks([x for x, _ in beaten], [y for _, y in beaten], "beaten", (), PALETTE[1], "^")] if beaten else []
        title = f"{self.model.name} on {self.device.name}, {self.input_len:,} in, {self.output_len:,} out"
        return Chart("tokens/s of a user", "tokens/s of a device", lines, marks, title)

    def explain(self) -> Table:
        """The front, a row per point."""
        return table(
            ("user", "device", "TPOT", "TTFT", "mode", "format", "prefill", "decode", "in flight", "USD/M", "kWh/M"),
            [
                (
                    f"{p.user_rate:.4g}/s",
                    f"{p.device_rate:.4g}/s",
                    format_value(p.tpot, "s", 3),
                    format_value(p.ttft, "s", 3),
                    p.mode,
                    p.precision + (" + MTP" if p.speculation else ""),
                    p.prefill or "-",
                    p.decode,
                    f"{p.concurrency:,}",
                    "-" if p.cost is None else f"{p.cost:.3g}",
                    "-" if p.energy is None else f"{p.energy / units.kWh:.3g}",
                )
                for p in self.points
            ],
        )

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per point of the front."""
        return [p.to_dict() for p in self.points]

    def to_dict(self) -> dict[str, Any]:
        """The question, the front, and the best point within the targets."""
        best = self.best
        return {
            "model": self.model.name,
            "device": self.device.name,
            "input_len": self.input_len,
            "output_len": self.output_len,
            "targets_s": dict(self.targets),
            "quantile": self.quantile,
            "length_variation": self.length_variation,
            "fits": self.fits,
            "tried": self.tried,
            "front": [p.to_dict() | {"meets_targets": self.meets(p)} for p in self.points],
            "best": None if best is None else best.to_dict() | {"meets_targets": True},
            "rate_per_s": self.rate,
            "devices": self.devices,
            "devices_range": None if self.devices_range is None else list(self.devices_range),
            "price": self.price,
            "notes": list(self.notes),
        }


def _short(p: Point) -> str:
    where = f"{p.decode}" if p.mode == "aggregated" else f"{p.prefill} for prompts, {p.decode} for answers"
    money = "" if p.cost is None else f", {p.cost:.3g} USD per million tokens"
    spec = " with speculation" if p.speculation else ""
    return (
        f"{p.device_rate:.4g} tokens/s a device, {p.user_rate:.3g} a user (TTFT {format_value(p.ttft, 's', 3)}): {p.precision}{spec}, "
        f"{where}, {p.concurrency:,} in flight{money}"
    )


def _looped(p: MeasuredPoint) -> float:
    """Tokens/s of answers of each device in the closed loop that a front is made of, at a measured point."""
    d = p.deployment()
    found = [(Layout(f"TP{p.tp}", p.tp, 1, 1), d, float(p.concurrency))]
    prompt, answer = p.mean_lengths
    loop = _loops(d.model, found, [_Choice(0, 0, 1, 0, float(p.concurrency))], "aggregated", prompt, answer, 0.0, 1.0)
    return float(loop.tokens_per_s[0]) / p.tp


def _range_words(p: Point, which: str) -> str:
    if p.user_range is None or p.device_range is None:
        return "none: this class of predictions has none"
    (a, b), (c, d) = p.device_range, p.user_range
    end = intervals.log_error(d, c) / 2.0
    caveat = f"; wider than x{intervals.LARGEST:g}: we do not know" if end > math.log(intervals.LARGEST) else ""
    return f"{which} {p.range_whose}: {a:.4g} to {b:.4g} tokens/s a device and {c:.3g} to {d:.3g} a user{caveat}"


def _formats(model: Model, device: Device, wanted: Sequence[str] | None) -> Iterator[tuple[str, dict[str, str]]]:
    """Name of a format, and how a deployment writes it: what the device multiplies in, and what stays wider."""
    for name in wanted or FORMATS:
        own = "mxfp4" if "mxfp4" in (model.stored, model.stored_experts) else "nvfp4"
        if name in ("fp4", MIXED):
            products = "fp4" if device.has("peak_flops.fp4") else "bf16" if model.stored == "mxfp4" else ""
            if not products:
                continue
            if name == "fp4":
                yield name, {"precision": products, "kv": "fp8", "weights": own}
            elif model.is_moe and device.has("peak_flops.fp8"):
                yield name, {"precision": products, "kv": "fp8", "weights": "fp8", "experts": own}
        elif device.has(f"peak_flops.{name}"):
            yield name, {"precision": name, "kv": "fp8" if name == "fp8" else "bf16"}


def _as_asked(style: dict[str, str], experts: str | None, head: str | None, mixture: bool) -> dict[str, str]:
    """The same with the formats of experts and head that were asked for; all else stays as it was."""
    if experts is not None:
        if "experts" not in style and experts_alone(style.get("weights", ""), mixture):
            style = style | {"weights": WIDE}
        style = style | {"experts": experts}
    return style if head is None else style | {"head": head}


def _layouts(model: Model, domain: int, reach: int, most: int) -> Iterator[Layout]:
    """Attention split over tp, or copied over dp with the experts placed on all devices; tp stays within reach."""
    size = 1
    while size <= most:
        if size <= reach:
            yield Layout(f"TP{size}", size, 1, 1)
        if size > reach and not model.is_moe:
            return  # across domains only experts are worth the way
        if model.is_moe and size > 1 and model.n_experts % size == 0:
            yield Layout(f"DP{size} EP{size}", 1, size, size)
            if size > 4 and domain >= 4:
                yield Layout(f"DP{size // 4} TP4 EP{size}", 4, size // 4, size)
        size *= 2


def _replicas(
    model: Model, machines: Machines, style: Mapping[str, str], most: int, tokens: float
) -> list[tuple[Layout, Deployment, float]]:
    """Layouts that hold the model, each with the sequences that an attention replica has cache for."""
    found = []
    # cards without links of their own talk through their slots in one server
    slots = machines.domain < CARDS and machines.node is None and machines.device.has("host_bandwidth")
    reach = CARDS if slots else machines.domain
    for layout in _layouts(model, machines.domain, reach, most):
        far = {"inter_bandwidth": serving.ADAPTER} if layout.devices > reach else {}
        degrees = {"tp": layout.tp, "dp": layout.dp, "ep": layout.ep}
        try:
            d = inference.deploy(model, machines.device, **degrees, **style, **far)  # type: ignore[arg-type]
        except InputError:  # degrees that do not divide this model
            continue
        room = USABLE * d.device.usable_memory - d.weight_memory
        held = room / float(d.kv_memory(float(layout.dp), tokens))
        if held >= 1:
            found.append((layout, d, held))
    return found


def _in_flight(slots: float) -> list[float]:
    """Requests of an attention replica: two to a doubling, up to what its cache holds."""
    most = min(slots, _MOST_IN_FLIGHT)
    count = int(math.log2(most) * _STEPS_PER_DOUBLING) + 1
    steps = {round(2.0 ** (i / _STEPS_PER_DOUBLING)) for i in range(count)}
    return sorted(float(n) for n in steps if n <= most)


def _stacked(parts: Sequence[Any]) -> Any:
    import numpy as np

    kind = type(parts[0])
    values = {f.name: [getattr(p, f.name) for p in parts] for f in dataclasses.fields(kind)}
    if "plans" in values:
        values["plans"] = alike_plans(values["plans"])
    return kind(**{name: np.array(value, float) for name, value in values.items()})


@dataclass(frozen=True)
class _Choice:
    """A column of the arrays: where prompts and answers run, how many replicas of each, how many requests in flight."""

    decode: int
    prefill: int  # the same where they run together
    decoders: int
    prefillers: int  # none where they run together
    concurrency: float  # over all replicas


def _choices(found: Sequence[tuple[Layout, Deployment, float]], mode: str) -> list[_Choice]:
    several = [(i, layout, slots) for i, (layout, _, slots) in enumerate(found)]
    if mode == "aggregated":
        return [_Choice(i, i, 1, 0, n * layout.dp) for i, layout, slots in several for n in _in_flight(slots)]
    ratios = [(x, y) for x in range(1, _MOST_RATIO + 1) for y in range(1, _MOST_RATIO + 1) if math.gcd(x, y) == 1]
    smallest = [
        i for i, layout, _ in several if layout.devices <= 4 * several[0][1].devices
    ]  # prompts fill few devices
    return [
        _Choice(i, j, y, x, n * layout.dp * y)
        for i, layout, slots in several
        for j in smallest
        for x, y in ratios
        for n in _in_flight(slots)
    ]


def _check(name: str, value: Any, most: float = _MOST_TOKENS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"frontier: {name} = {repr(value)[:40]} must be a whole number from 1 to {most:,.0f}")
    return value


def frontier(
    model: Model | str,
    device: Device | Machines | str,
    *,
    input_len: int = 8192,
    output_len: int = 1024,
    ttft: float | str | None = None,
    itl: float | str | None = None,
    quantile: float | None = None,
    length_variation: float | None = None,
    rate: float | None = None,
    precisions: Sequence[str] | None = None,
    modes: Sequence[str] = MODES,
    acceptance: float | None = None,
    drafted: int = 1,
    max_devices: int = _MOST_DEVICES,
    price: str | Price | None = None,
    pue: float = 1.0,
    experts: str | None = None,
    head: str | None = None,
) -> Frontier:
    """The Pareto front of throughput per device against tokens per second of a user.

    Parameters
    ----------
    model : Model or str
        A catalogue entry or its name.
    device : Device, Machines or str
        What ``catalog.where`` reads; its scale-up domain bounds tensor parallelism. Experts may lie beyond it, each device then
        has one adapter of 400 Gbit/s.
    input_len : int, token
        Tokens of each prompt.
    output_len : int, token
        Tokens of each answer.
    ttft : float or str, s, (0, inf), optional
        Target for the time to the first token, as in ``"2 s"``.
    itl : float or str, s, (0, inf), optional
        Target for the time per output token, as in ``"40 ms"``. Both are means of a loop, in which all requests are as long as the mean,
        unless ``quantile`` is given.
    quantile : float, 1, (0, 1), optional
        Share of the requests that must meet the targets (default: their means must). The front then has only points that do.
    length_variation : float, 1, [0, inf), optional
        As in :func:`mlsysim.serve`. With ``quantile``.
    rate : float, 1/s, (0, inf), optional
        Requests per second, whose tokens the devices of the best point are to make.
    precisions : sequence of str, optional
        Number formats to try, of fp4, fp8 and bf16, or fp4-fp8 where it is asked for (default: all that the device multiplies in).
        A mixture in ``fp4`` has its routed experts in 4 bits and all else in 16, as published checkpoints do; ``fp4-fp8`` has all
        else in 8.
    modes : sequence of str, one of MODES
        Whether prompts share the devices of the answers (together), have a pool of their own (apart), or both are tried. Pools
        have up to four replicas of one for one of the other.
    acceptance : float, 1, (0, 1], optional
        Chance that a proposed token is accepted: speculation is tried too.
    drafted : int
        Tokens proposed in a step of speculation.
    max_devices : int
        Devices of a replica, at most.
    price : str or Price, optional
        As in :func:`mlsysim.serve`.
    pue : float
        As in :func:`mlsysim.serve`.
    experts : str, optional
        As in :func:`mlsysim.serve`.
    head : str, optional
        As in :func:`mlsysim.serve`.

    Returns
    -------
    Frontier
        ``points``, ``best`` within the targets, ``explain()``, ``plot()``, ``to_dict()``. Where nothing fits ``fits`` is False.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; a format that the device has not; an unknown name, with the nearest ones.

    Assumptions: a closed loop; every request is as long as the mean; experts are as popular as in the fit of class serving_tpot;
    the cache moves between pools at the speed of one adapter of 400 Gbit/s a device.

    >>> found = frontier("gpt-oss-120B", "H100", input_len=1024, output_len=1024, modes=["aggregated"])
    >>> rates = [p.device_rate for p in found.points]
    >>> found.fits, rates == sorted(rates)
    (True, True)
    """
    m, machines = asked_for(model), catalog.where(device)
    d = machines.device
    input_len, output_len = _check("input_len", input_len), _check("output_len", output_len)
    m.check_length("frontier", input_len + output_len)
    targets = _targets(**in_si(frontier, {"ttft": ttft, "itl": itl}))
    if (quantile is None and length_variation is not None) or (quantile is not None and not targets):
        raise InputError(
            "frontier: quantile is the share that meets ttft or itl, and length_variation goes with it; give them together"
        )
    if quantile is not None:
        check_argument("frontier", "quantile", quantile, "1", Domain.of("(0, 1)"))
        length_variation = LENGTH_VARIATION if length_variation is None else length_variation
        check_argument("frontier", "length_variation", length_variation, "1", Domain.of(NON_NEGATIVE))
    if rate is not None:
        check_argument("frontier", "rate", rate, "1/s", Domain.of(POSITIVE))
    _check("max_devices", max_devices, 4096)
    _check("drafted", drafted, 16)
    _check_names(m, d, modes, precisions, experts, head)
    if acceptance is not None and not (isinstance(acceptance, (int, float)) and 0 <= acceptance <= 1):
        raise InputError(f"frontier: acceptance = {repr(acceptance)[:40]} must lie between 0 and 1")
    if not (math.isfinite(pue) and pue >= 1):
        raise InputError(f"frontier: pue = {pue!r} must be a number of at least 1")
    rent, said = _rent(d, price)
    speculation = [(0.0, 1.0)]
    if acceptance is not None:
        speculation.append((float(drafted), float(inference.speculative_tokens(acceptance, drafted))))
    columns: list[tuple[str, str, bool, Sequence[Any], list[_Choice], serving.Loop]] = []
    for name, style in _formats(m, d, precisions):
        style = _as_asked(style, experts, head, m.is_moe)
        found = _replicas(m, machines, style, min(max_devices, _MOST_DEVICES), input_len + output_len / 2.0)
        for mode in modes if found else ():
            choices = _choices(found, mode)
            for k, tokens in speculation:
                loop = _loops(m, found, choices, mode, input_len, output_len, k, tokens, length_variation)
                columns.append((name, mode, k > 0, found, choices, loop))
    front = _front(m, d, input_len, output_len, targets, columns, rent, said, pue, acceptance, quantile)
    return dataclasses.replace(front, rate=rate, quantile=quantile, length_variation=length_variation)


def _check_names(
    m: Model, d: Device, modes: Sequence[str], precisions: Sequence[str] | None, experts: str | None, head: str | None
) -> None:
    """Refuse words that are none, and formats that the model or the device has not."""
    for mode in modes:
        if mode not in MODES:
            raise unknown_name("mode of frontier", str(mode), MODES)
    if not modes:
        raise InputError(f"frontier: modes is empty; give one of {', '.join(MODES)}, or both")
    for name in precisions or ():
        if name not in (*FORMATS, MIXED):
            raise unknown_name("precision of frontier", str(name), (*FORMATS, MIXED))
        if name == MIXED and not m.is_moe:
            raise InputError(
                f"frontier: precisions has {name!r}, which is for mixtures; {m.name} has no routed experts"
            )
        if not any(_formats(m, d, [name])):
            raise InputError(f"frontier: {d.name} does not multiply in {name}; leave it out of precisions")
    if not any(_formats(m, d, None)):
        raise InputError(
            f"frontier: the catalogue lists no peak of {d.name} in 16, 8 or 4 bits, and a front needs one; define the device with its "
            "peaks (catalog.define), or take one that has them"
        )
    if experts is not None and not m.is_moe:
        raise InputError(
            f"frontier: experts = {experts!r} is a format of routed experts, and {m.name} has none; leave it out"
        )
    for option, stored in (("experts", experts), ("head", head)):
        if stored is not None and stored not in inference.FORMATS:
            raise unknown_name(f"number format of {option}", str(stored), inference.FORMATS)


def _targets(**given: Any) -> dict[str, float]:
    for name, value in given.items():
        if value is not None and not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
            raise InputError(f"frontier: {name} = {repr(value)[:40]} must be a number of seconds above zero")
    return {name: float(value) for name, value in given.items() if value is not None}


def _rent(device: Device, price: "str | Price | None") -> tuple[float | None, str]:
    """USD/s of a device, and the seller."""
    rent = rent_of(device, price)
    if rent is None:
        return None, "none: the catalogue has no rental price of it; give price"
    return rent.rate, f"{rent.rate * 3600:.3g} USD/h ({rent.kind})"


def _loops(
    model: Model, found: Sequence[tuple[Layout, Deployment, float]], choices: Sequence[_Choice], mode: str,
    input_len: float, output_len: float, drafted: float, accepted: float, spread: float | None = None,
) -> serving.Loop:  # fmt: skip
    """All columns of one format and mode at once."""
    import numpy as np

    first = found[0][1]
    steps, begin = shipped("serving_tpot"), shipped("serving_ttft")
    fused = float(first.device.has("peak_flops.fp4") and first.precision == "fp4")
    blocks = float(first.precision == "fp8" and serving.in_blocks(model, first.device))
    by: ServerOverheads = serving.server_constants(first.work, fused, steps, blocks)
    eff = serving.served(first.efficiencies, by)
    apart = float(mode == "disaggregated")
    latency, launches, pace = serving.ttft_constants(first.work, begin, fused=fused)

    def pool(at: Sequence[int], replicas: Sequence[int], eff: inference.Efficiencies) -> Pool:
        splits, machines = (
            _stacked([found[i][1].split for i in at]),
            _stacked([found[i][1].machine for i in at]),
        )
        slots = np.array([found[i][2] for i in at])
        return Pool(splits, machines, eff, np.array(replicas, float), slots)

    decode = pool([c.decode for c in choices], [c.decoders for c in choices], serving.answers(eff, by))
    prefill = pool([c.prefill for c in choices], [c.prefillers for c in choices], eff) if apart else None
    w = first.work
    cache = input_len * w.kv_elements * (1.0 - w.thinned) * w.layers * first.split.kv_bytes
    return serving.closed_loop(
        w,
        decode,
        prefill,
        concurrency=np.array([c.concurrency for c in choices]),
        input_len=float(input_len),
        output_len=float(output_len),
        disaggregated=apart,
        latency=latency,
        launches=launches,
        prefill_slowdown=pace,
        transfer=apart * cache / serving.ADAPTER,
        drafted=drafted,
        accepted=accepted,
        requests_per_user=math.inf,
        **({} if spread is None else {"spread": spread}),
    )


# How far the served runs go that the constants were fitted to: devices that attention was copied over, requests in flight a device.
MEASURED: Mapping[str, tuple[int, int]] = {
    "DeepSeek-V3": (32, 480),
    "GLM-5": (1, 16),
    "Kimi-K2.5": (1, 18),
    "Llama-3.1-70B": (1, 128),
    "Llama-3.1-8B": (1, 352),
    "MiniMax-M2": (1, 512),
    "Qwen3-235B-A22B": (4, 32),
    "Qwen3-32B": (1, 224),
    "Qwen3.5-397B-A17B": (1, 32),
    "gpt-oss-120B": (4, 256),
}


MEASURED_ON = ("Hopper", "Blackwell")  # generations that they ran on, with their relatives


def _beyond(model: Model, device: Device, front: Sequence[tuple[Point, Layout]]) -> Iterator[str]:
    """Evidence behind a front: how many of its points extrapolate beyond every measured run of the model."""
    if not set(MEASURED_ON) & set(lineage(device)):
        yield (
            f"no served run on {device.architecture} stands behind the constants, which are those of {' and '.join(MEASURED_ON)}"
        )
    if model.name not in MEASURED:
        yield f"no served run of {model.name} stands behind the constants; the best of many predictions flatters"
        return
    copies, each = MEASURED[model.name]
    far = sum(layout.dp > copies or p.concurrency > each * p.devices for p, layout in front)
    if far:
        yield (
            f"{far} of the {len(front)} points go beyond every measured run of {model.name} (attention on {copies} "
            f"device{'s' * (copies > 1)}, {each} in flight a device): the best of many predictions flatters"
        )


def _front(
    model: Model, device: Device, input_len: int, output_len: int, targets: Mapping[str, float],
    columns: Sequence[tuple[str, str, bool, Sequence[Any], list[_Choice], serving.Loop]],
    rent: float | None, said: str, pue: float, acceptance: float | None, quantile: float | None = None,
) -> Frontier:  # fmt: skip
    """The points that nothing beats, of all formats and modes together."""
    import numpy as np

    every: list[tuple[float, float, int, int]] = []
    for at, (_, _, _, found, choices, loop) in enumerate(columns):
        devices = np.array([_devices(found, c) for c in choices], float)
        user, each = 1.0 / loop.tpot, loop.tokens_per_s / devices
        good = np.isfinite(user) & np.isfinite(each)
        if quantile is not None:
            some = np.flatnonzero(good)
            good[some] = share_within(loop, some, output_len - 1.0, **targets) >= quantile
        elif "ttft" in targets:  # who misses it may not beat who meets it
            good &= loop.ttft <= targets["ttft"]
        every += [(float(user[i]), float(each[i]), at, int(i)) for i in np.flatnonzero(good)]
    every.sort(key=lambda p: (-p[0], -p[1]))
    front, best = [], 0.0
    for point in every:
        if point[1] > best:
            best = point[1]
            front.append(point)
    chosen = {(at, i) for _, _, at, i in front}
    points = tuple(_point(model, device, columns[at], i, rent, pue) for _, _, at, i in front)
    notes = []
    if acceptance is None and model.n_mtp_layers:
        notes.append("the model has a module for further tokens; give acceptance to try speculation")
    if points:
        notes += _beyond(
            model,
            device,
            [(p, columns[at][3][columns[at][4][i].decode][0]) for p, (_, _, at, i) in zip(points, front, strict=True)],
        )
    return Frontier(
        model=model,
        device=device,
        input_len=input_len,
        output_len=output_len,
        points=points,
        others=tuple((u, e) for u, e, at, i in every if (at, i) not in chosen),
        targets=targets,
        tried=sum(len(c[4]) for c in columns),
        price=said,
        notes=tuple(notes),
    )


def share_within(loop: serving.Loop, at: Any, steps: float, ttft: float | None = None, itl: float | None = None) -> Any:
    """Share of the requests of some columns of a loop that meet targets for the first token and for the time per token of an answer.

    As :mod:`mlsysim.capacity` has it of replicas under a rate, but that the batch is always full. What others' prompts add to an answer
    varies as lengths do, in their number (answers end after so many steps) and in each: c^2 twice. The wait for them has an exponential
    tail with the mean of the loop, and its own prompt varies as of :attr:`capacity.Replica.own_prompt`.
    """
    import numpy as np

    def of(value: Any) -> Any:
        return np.broadcast_to(value, loop.tpot.shape)[at]

    met, c = np.ones(len(at)), float(loop.spread)
    if itl is not None:
        pace, busy = of(loop.pace), np.maximum(0.0, 1.0 - of(loop.pace) / of(loop.tpot))
        met = 0.0 * met
        for n, share in lengths(max(1.0, steps), c):
            time = answer_time(n, pace, busy)
            spread = answer_spread(time, busy * of(loop.added) * 2.0 * c**2, busy)
            met = met + share * in_time(n * itl * (1 + 1e-12), time, spread)
    if ttft is not None:
        own, queue, busy = min(1.0, c) * of(loop.added), of(loop.queue), np.minimum(of(loop.busy), _ALWAYS)
        left = ttft - np.maximum(0.0, of(loop.ttft) - queue - own)
        drain = busy / np.maximum(queue, 1e-12)
        late = wait_tail(busy, drain / (1.0 - busy), busy, np.maximum(0.0, left), own)
        met = np.where(left < 0, 0.0, 1.0 - late) * met
    return met


def _devices(found: Sequence[tuple[Layout, Deployment, float]], c: _Choice) -> int:
    return c.decoders * found[c.decode][0].devices + c.prefillers * found[c.prefill][0].devices


def _point(
    model: Model, device: Device, column: tuple[str, str, bool, Sequence[Any], list[_Choice], serving.Loop],
    at: int, rent: float | None, pue: float,
) -> Point:  # fmt: skip
    name, mode, speculation, found, choices, loop = column
    c = choices[at]
    devices = _devices(found, c)
    tpot, ttft, rate = float(loop.tpot[at]), float(loop.ttft[at]), float(loop.tokens_per_s[at])
    each = rate / devices
    found_range = _factors(model, device, name, mode == "disaggregated")
    ranged = None if found_range is None else (1.0 / float(found_range.high), 1.0 / float(found_range.low))
    watts = float(energy.facility_energy(energy.it_power(devices, device.tdp), 1.0, pue)) if device.has("tdp") else None

    def words(count: int, place: int) -> str:
        layout: Layout = found[place][0]
        return layout.words if count == 1 else f"{count} x {layout.words}"

    dollars = None if rent is None else rent * devices / rate * _MILLION
    joules = None if watts is None else watts / rate * _MILLION

    def beside(value: float | None) -> tuple[float, float] | None:
        """Ends of what is asked for each token: as much more or less as a device makes fewer or more of them."""
        return None if value is None or ranged is None else (value / ranged[1], value / ranged[0])

    return Point(
        mode=mode,
        precision=name,
        speculation=speculation,
        prefill=words(c.prefillers, c.prefill) if mode == "disaggregated" else "",
        decode=words(c.decoders, c.decode),
        devices=devices,
        concurrency=round(c.concurrency),
        tpot=tpot,
        ttft=ttft,
        user_rate=1.0 / tpot,
        device_rate=each,
        user_range=None if ranged is None else (ranged[0] / tpot, ranged[1] / tpot),
        device_range=None if ranged is None else (ranged[0] * each, ranged[1] * each),
        range_whose="" if found_range is None else found_range.whose,
        cost=dollars,
        energy=joules,
        cost_range=beside(dollars),
        energy_range=beside(joules),
    )


def _factors(model: Model, device: Device, precision: str, disaggregated: bool) -> intervals.Interval | None:
    """The range of a time per output token, as factors."""
    if "serving_tpot" not in intervals.class_names():
        return None
    place = loop_domain(lineage(device)[0], model.is_moe, model.is_mla, precision.split("-")[0], disaggregated)
    return intervals.interval("serving_tpot", 1.0, place)
