"""The estimate of a program on a device: its work, its regions, and when they run."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from itertools import chain
from math import fsum, inf, isclose, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlsysim import catalog, collectives, communication, units
from mlsysim.catalog import Device
from mlsysim.equations import cache_by_identity
from mlsysim.errors import InputError, unknown_name
from mlsysim.hlo.bound import least
from mlsysim.hlo.estimators.base import Estimator
from mlsysim.hlo.estimators.cache import Cache, CachedEstimator, NotDescribed, described, digest, toolchain_of
from mlsysim.hlo.estimators.pricing import Prices, Pricing, numbered, running
from mlsysim.hlo.estimators.roofline import RooflineEstimator, weighted
from mlsysim.hlo.fabric import on_device
from mlsysim.hlo.fusing import slicing
from mlsysim.hlo.fusing.fusion import kernels
from mlsysim.hlo.fusing.graph import build
from mlsysim.hlo.fusing.items import Collective, Graph, Work
from mlsysim.hlo.fusing.joining import Machine
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.reader.calls import CallPrice
from mlsysim.hlo.reader.form import read_bounded
from mlsysim.hlo.reader.limits import no_collection
from mlsysim.hlo.reader.program import Block, Program
from mlsysim.hlo.reader.stablehlo import read
from mlsysim.hlo.schedule import Order, Timeline
from mlsysim.network import Topology, exposed_communication
from mlsysim.results import Report, Result, format_rows, plain, share
from mlsysim.results import format_value as _shown
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

Network = Callable[[Collective], float]  # the time of one collective in s
FUSIONS = ("auto", "on", "off")
_ALGORITHM = {"all_to_all": "pairwise"}


_QUANTITIES = (
    *("flops", "matrix_flops", "transcendentals", "bytes", "regions", "kernels", "ops"),
    *("compute_s", "comm_s", "exposed_comm_s", "total_s"),
)


@dataclass(frozen=True)
class Links:
    """The simplest network: every rank reaches its ring neighbours, or all others in turn, at one bandwidth."""

    bandwidth: float
    latency: float = 0.0

    def __call__(self, collective: Collective) -> float:
        if collective.ranks <= 1 or not collective.whole:
            return 0.0
        op = collective.name
        if op not in communication.ALGORITHMS:  # a permute or a broadcast: one message of the whole
            return float(collectives.transfer_time(collective.in_bytes, self.bandwidth, self.latency))
        found = communication.collective(
            op, _ALGORITHM.get(op, "ring"), collective.whole, collective.ranks, self.bandwidth, self.latency
        )
        return float(found.time)


@dataclass(frozen=True)
class Message:
    """A collective of the program, with the times it runs. ``bytes`` is what goes in on one rank."""

    op: str
    bytes: int
    output_bytes: int
    ranks: int
    groups: int
    count: int
    time_s: float


@dataclass(frozen=True)
class Estimate(Result):
    """What :func:`estimate` returns: totals of one device in SI units.

    ``flops`` are without transcendentals and without the additions of collectives. ``exposed_comm_s`` is the time that
    nothing computes: ``total_s - compute_s``. ``total_s`` is the roofline of our fusion; ``bound_s`` is what no fusion can beat.
    """

    program: str
    device: str
    split: str
    shapes: str  # "per device" or "global"
    partitions: int
    flops: float
    matrix_flops: float
    transcendentals: float
    bytes: float
    compute_s: float
    comm_s: float
    exposed_comm_s: float
    total_s: float
    regions: int
    unique_regions: int
    kernels: int
    ops: int
    collectives: tuple[Message, ...]
    unknown_ops: Mapping[str, int]
    unknown_share: float  # of the operations that run
    notes: tuple[str, ...]
    parts: tuple[Region, ...]
    timeline: Timeline
    pricing: Pricing
    bound_s: float | None = None  # of the roofline: all in one kernel; see :mod:`mlsysim.hlo.bound`
    from_cache: bool = False  # read back as a whole; then ``parts`` is empty

    @property
    def at_least(self) -> bool:
        """Whether something of the program is not counted in full: an operation without a rule, or a loop without a count."""
        return bool(self.unknown_ops)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the regions and when they run, for JSON."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("parts", "timeline")}
        shown["collectives"] = [asdict(m) for m in self.collectives]
        shown["pricing"] = self.pricing.to_dict()
        return shown | {"unknown_ops": dict(self.unknown_ops), "at_least": self.at_least, "notes": list(self.notes)}

    def _calls(self) -> Counter[str]:
        """How often each collective runs, over how many ranks."""
        calls = Counter[str]()
        for message in self.collectives:
            calls[f"{message.op} over {message.ranks}"] += message.count
        return calls

    def summary(self) -> list[str]:
        calls = self._calls()
        sent = ", ".join(f"{n} x {what}" for what, n in calls.most_common(4)) + (" …" if len(calls) > 4 else "")
        unknown = ", ".join(f"{n} x {name}" for name, n in list(self.unknown_ops.items())[:4])
        bind = (
            "communication"
            if self.exposed_comm_s > self.compute_s
            else f"computing, {share(self.compute_s / self.total_s)}"
            if self.total_s
            else ""
        )
        p = self.pricing
        spread = f"{_shown(p.low_s, 's')} to {_shown(p.high_s, 's')} over repeats of the measurement"
        return format_rows(
            f"{self.program} on {self.device}: {'at least ' if self.at_least else ''}{_shown(self.total_s, 's')}",
            ("range", spread if p.low_s < p.high_s else "none is known: check it against a profile first"),
            ("binds", bind),
            (
                "computing",
                f"{_shown(self.compute_s, 's')} in {self.kernels} kernels of {self.regions} regions, {self.unique_regions} different",
            ),
            (
                "communicating",
                f"{_shown(self.comm_s, 's')}, {_shown(self.exposed_comm_s, 's')} of it exposed: {sent}"
                if sent
                else "nothing",
            ),
            ("bound", "" if self.bound_s is None else f"{_shown(self.bound_s, 's')}: what no fusion can beat"),
            (
                "work",
                f"{_shown(self.flops, 'FLOP')}, {share(self.matrix_flops / self.flops) if self.flops else '0 %'} in products; {_shown(self.bytes, 'byte')}",
            ),
            ("NOT COUNTED", unknown),
            ("shapes", f"{self.shapes}, {self.partitions} partitions, {self.split} split"),
            ("efficiencies", f"those of the estimator {p.estimator}"),
            ("notes", "; ".join(self.notes)[:240]),
        )

    def chart(self) -> "Drawing | None":
        """The schedule as lanes: regions that compute, and collectives."""
        from mlsysim.drawing import Lanes, Span
        from mlsysim.drawing.lanes import joined
        from mlsysim.drawing.shapes import MOST_POINTS, readable, sampled

        factor, unit = readable(self.total_s, "s")
        spans_ = self.timeline.spans
        kinds = [r.kind for r in self.parts] if len(self.parts) == len(spans_) else ["regions"] * len(spans_)
        spans: list[Span] = []
        for kind, (start, end) in zip(kinds, spans_, strict=True):
            lane = {"compute": "computing", "comm": "communicating", "loop": "loop"}.get(kind, kind)
            if end > start:
                spans.append(Span(lane, factor * start, factor * end, lane))
        if len(spans) > MOST_POINTS:
            spans = joined(spans)
        return Lanes(sampled(spans), f"time ({unit})", f"{self.program} on {self.device}") if spans else None

    def explain(self) -> Report:
        """Everything that :func:`print` shows, the collectives, and the regions that take longest."""
        messages = [
            (m.op, str(m.ranks), str(m.count), units.format(m.bytes, "byte"), units.format(m.time_s, "s"))
            for m in self.collectives[:20]
        ]
        spans = sorted(enumerate(self.timeline.spans), key=lambda pair: pair[1][0] - pair[1][1])[:10]
        kinds = [r.kind for r in self.parts] or [""] * len(self.timeline.spans)
        longest = [(str(i), kinds[i], units.format(a, "s"), units.format(b - a, "s")) for i, (a, b) in spans]
        first, *rest = str(self).splitlines()
        return Report(
            first,
            (
                table(("Collective", "Ranks", "Times", "Bytes", "Time"), messages),
                table(("Region", "Kind", "Start", "Takes"), longest),
            ),
            [line.strip() for line in rest],
        )

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row of all totals."""
        return [{k: plain(v) for k, v in self.to_dict().items() if k not in ("collectives", "notes")}]

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> "Estimate":
        """What a cache kept of an estimate: all but the regions themselves. Nothing was evaluated for it."""
        pricing = {k: v for k, v in held["pricing"].items() if k != "saved"} | {"evaluated": 0}
        known = {f.name: held[f.name] for f in fields(cls) if f.name not in ("parts", "timeline", "pricing")}
        known |= {
            "collectives": tuple(Message(**m) for m in held["collectives"]),
            "notes": tuple(held["notes"]),
            "from_cache": True,
        }
        timeline = Timeline(tuple((float(a), float(b)) for a, b in held["spans"]), float(held["total_s"]))
        found = cls(**known, parts=(), timeline=timeline, pricing=Pricing(**pricing))
        found._check()
        return found

    def _check(self) -> None:
        """Refuse totals that no program has: what a cache kept may have been damaged, or written by somebody else."""
        amounts = [getattr(self, name) for name in _QUANTITIES]
        bounds = [self.pricing.low_s, self.pricing.high_s, 0 if self.bound_s is None else self.bound_s]
        messages = [(m.count, m.time_s) for m in self.collectives]
        ends = [end for span in self.timeline.spans for end in span]
        numbers = (*amounts, *bounds, *chain.from_iterable(messages), *ends, *self.pricing.seconds.values())
        if not all(type(x) in (int, float) and 0 <= x < inf for x in numbers):
            raise ValueError("a quantity that is no finite number of at least 0")

        def near(a: float, b: float) -> bool:
            return isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)

        together = (
            self.compute_s <= self.total_s * (1 + 1e-9) + 1e-15,
            self.total_s <= (self.compute_s + self.comm_s) * (1 + 1e-9) + 1e-15,
            near(self.exposed_comm_s, self.total_s - self.compute_s),
            near(self.comm_s, fsum(count * time for count, time in messages)),
            near(self.compute_s, fsum(self.pricing.seconds.values())),
            self.matrix_flops <= self.flops * (1 + 1e-9),
            self.bound_s is None or self.bound_s <= self.total_s * (1 + 1e-9),
        )
        if not all(together):
            raise ValueError("totals that contradict each other")

    def __str__(self) -> str:
        def row(name: str, value: float, unit: str) -> str:
            return f"  {name:<24}{units.format(value, unit):>16}"

        lines = [f"{self.program} on {self.device}, {self.shapes} shapes, {self.split} split"]
        lines += [
            row("work", self.flops, "FLOP"),
            row("  of it in products", self.matrix_flops, "FLOP"),
            row("transcendentals", self.transcendentals, "1"),
            row("traffic", self.bytes, "byte"),
            row("computing", self.compute_s, "s"),
            row("communicating", self.comm_s, "s"),
            row("  of it exposed", self.exposed_comm_s, "s"),
            row("total, at least" if self.at_least else "total", self.total_s, "s"),
            *([] if self.bound_s is None else [row("bound (one kernel)", self.bound_s, "s")]),
            f"  {self.kernels} kernels in {self.regions} regions, {self.unique_regions} of them different",
            *str(self.pricing).splitlines(),
        ]
        lines += [f"  {n} x {what}" for what, n in self._calls().items()]
        lines += [f"  unknown: {n} x {name}" for name, n in self.unknown_ops.items()]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def _notes(made: "_Made", estimator: Estimator, network: object, device: Device) -> list[str]:
    program, graph = made.program, made.graph
    notes = []
    if program.sharded and not made.calls:
        devices = max([program.partitions, *(prod(size for _, size in axes) for axes in program.meshes.values())])
        notes.append(
            f"sharding annotations without a collective: shapes are global, so this is the work of the whole mesh"
            f" ({devices} devices); partition the program to see one device's share"
        )
    if not graph.optimised:
        how = "our own fusion did" if made.fused else "every operation moves its bytes"
        notes.append(f"no compiler has fused this program; {how}")
    if isinstance(estimator, RooflineEstimator) and estimator.vector_rate is None:
        notes.append(f"{estimator.device.name} lists no vector rate: only memory bounds its elementwise work")
    widest = max((c.ranks for c, _ in made.calls), default=0)
    domain = device.scale_up_domain if device.has("scale_up_domain") and isinstance(network, Links) else None
    if domain and widest > domain:
        notes.append(
            f"a collective over {widest} ranks leaves the scale-up domain of {domain}, whose bandwidth was used for it"
        )
    notes += [f"{n} x custom_call @{name[:160]}" for name, n in graph.assumed.items()]
    return notes + list(getattr(network, "notes", ()))


def estimate(
    program: Program | str | Path,
    device: Device | str,
    split: str = "dependency",
    fusion: str = "auto",
    network: Network | None = None,
    efficiency: float = 1.0,
    memory_efficiency: float = 1.0,
    run_as: Mapping[str, str] | None = None,
    estimator: Estimator | None = None,
    cache: Cache | str | Path | None = None,
    join: bool = False,
    custom_calls: Mapping[str, CallPrice] | None = None,
    topology: str | Topology | None = None,
) -> Estimate:
    """Work and time of a program on one device, by the roofline of its kernels or by another estimator.

    The total is the roofline of *our fusion*: kernels one after another, none faster than its roofs. A fusion that keeps more on
    the chip, as a fused attention does, can be faster. ``bound_s`` of the result is what nothing can beat.

    Parameters
    ----------
    program : Program, str or Path
        A program, or the file that holds it.
    device : Device or str
    split : str, one of hlo.fusing.slicing.SPLITS
        What may overlap: what the dependencies allow, or nothing (linear).
    fusion : str, one of FUSIONS
        Whether to fuse operations: where no compiler has (auto), always, or never.
    network : callable, optional
        Time of a collective, as a :class:`Fabric` or :class:`Links` gives it; by default rings at the device's scale-up bandwidth,
        without latency.
    topology : str, optional
        As in ``"ring:8"``, instead of a network: a rank's links share the device's scale-up bandwidth and have no latency.
    efficiency : float, 1
        Fraction of the dense peak that products reach (default: 1, the bound).
    memory_efficiency : float, 1
        Fraction of the memory bandwidth that kernels reach (default: 1, the bound).
    run_as : mapping, optional
        Precision that products of a type run at, as in ``{"f32": "fp32"}``.
    estimator : Estimator, optional
        What prices compute regions, each distinct one once; by default the roofline with the three arguments before.
    cache : Cache or folder, optional
        Folder that keeps prices of regions, and results for files as a whole; a second run reads them.
    join : bool, optional
        Also join and cut products and pack messages, as a compiler for the device does (moves more bytes; never faster). That models the
        compiler's program: its partial sums and packed messages move more bytes, for an occupancy and a latency that a roofline
        does not charge, so the estimate can only be longer for it. Not for an estimator that runs the operations.
    custom_calls : mapping, optional
        Prices of custom calls by target: (FLOPs, bytes) of one call, or a function of its attributes, operands and results that
        returns them. They go before our own table (:mod:`mlsysim.hlo.reader.calls`).

    Returns
    -------
    Estimate

    Raises
    ------
    InputError, UnknownNameError
        A program that cannot be read; a precision or a bandwidth that the device does not list.
    """
    device = catalog.device(device)
    if estimator is None:
        estimator = RooflineEstimator(device, efficiency, memory_efficiency, run_as)
    elif (efficiency, memory_efficiency) != (1.0, 1.0) or run_as:
        raise InputError("efficiency, memory_efficiency and run_as belong to the roofline; give them to the estimator")
    if fusion not in FUSIONS:
        raise unknown_name("fusion", fusion, FUSIONS)
    if topology is not None:
        if network is not None:
            raise InputError("topology and network both price collectives; give one of them")
        network = on_device(topology, device)
    if join and _runs_operations(estimator):
        raise InputError(f"join: the estimator {estimator.name} runs the program's operations as they are written")
    as_written = _runs_operations(estimator)

    def made() -> _Made:  # holds nothing of a program that is read here, so that it can go on the way
        return _made(_loaded(program), device, split, fusion, join, as_written, custom_calls)

    if cache is None:
        with no_collection():
            return _priced(made(), device, split, network, estimator)
    cache = cache if isinstance(cache, Cache) else Cache(cache)
    key = _key(program, device, [split, fusion, join], network, estimator, custom_calls)
    held = cache.get(key) if key else None
    if held is not None:
        try:
            return replace(Estimate.from_dict(held), notes=(*held["notes"], *cache.problems))
        except (KeyError, TypeError, ValueError):
            cache.reject(key, "is no estimate")
    with no_collection():
        cached = CachedEstimator(estimator, cache, device.name)
        result = _priced(made(), device, split, network, cached)
        if key:
            cache.put(key, result.to_dict() | {"spans": result.timeline.spans})
    return replace(result, notes=(*result.notes, *cache.problems))


def _loaded(program: Program | str | Path) -> Program:
    return program if isinstance(program, Program) else read(program)


def _key(
    program: Program | str | Path,
    device: Device,
    options: Sequence[str | bool | None],
    network: Network | None,
    estimator: Estimator,
    custom_calls: Mapping[str, CallPrice] | None,
) -> str:
    """Key of a whole result; empty for a program that is no file, and for a network or a price that cannot be described."""
    if isinstance(program, Program):
        return ""
    try:
        asked = {
            "file": sha256(read_bounded(program).encode()).hexdigest(),
            "name": Path(program).name,
            "device": [device.name, {name: fact.value for name, fact in device.fields.items()}],
            "options": list(options),
            "network": described(network),
            "toolchain": toolchain_of(estimator),
            "custom calls": described(custom_calls),
        }
    except NotDescribed:
        return ""
    return digest(asked)


def _machine(device: Device) -> Machine:
    """The device as products are cut for it; not cut where the catalogue does not count its multiprocessors."""
    count = device.multiprocessors if device.has("multiprocessors") else None
    return Machine(count, device.memory_bandwidth, RooflineEstimator(device).peak)


def _runs_operations(estimator: object) -> bool:
    """Whether an estimator, or one inside it, compiles and runs the program's own operations."""
    inner = [*getattr(estimator, "by_op", {}).values(), getattr(estimator, "rest", None)]
    inner.append(getattr(estimator, "estimator", None))
    return getattr(estimator, "runs_operations", False) or any(_runs_operations(e) for e in inner if e is not None)


class _Made(NamedTuple):
    """What is made of a program before anything is priced."""

    program: Program  # without its functions
    graph: Graph
    fused: bool
    regions: tuple[Region, ...]
    kernels: int
    work: Work  # of all of them
    least: Work
    alike: dict[int, int]  # a number for each region, equal for those that do the same
    order: Order
    calls: list[tuple[Collective, int]]  # with the times each runs
    messages: dict[int, int]  # a number for each collective, equal for those that take the same time


_SMALL = 30_000  # operations of a program of which that is kept; more take more memory than it is worth


@cache_by_identity
def _known(program: Program) -> dict[tuple[str, str, bool], _Made]:
    """What was made of a program, by split and fusion: a slider asks of the same one again and again."""
    return {}


def _made(
    program: Program,
    device: Device,
    split: str,
    fusion: str,
    join: bool,
    as_written: bool,
    custom_calls: Mapping[str, CallPrice] | None,
) -> _Made:
    """What every price of a program needs of it, however often it is priced."""
    known = {} if join or custom_calls else _known(program)
    if (split, fusion, as_written) in known:
        return known[split, fusion, as_written]
    graph = build(program, custom_calls)
    # The graph has all that costs; what was read from a file goes before kernels are made of it.
    program = replace(program, values=(), functions={program.main: Block((), (), ())})
    fused = fusion == "on" or (fusion == "auto" and not graph.optimised)
    if as_written:  # as they are written, and no copy is
        graph.kept = frozenset()
    pieces = kernels(graph, fused, _machine(device) if join else None)
    regions = slicing.slices(pieces, split)
    calls = list(graph.collectives())
    keys: dict[object, int] = {}
    messages: dict[int, int] = {}
    sent = [p for region, _ in running(regions) for p in region.pieces if isinstance(p, Collective)]
    for c in chain((c for c, _ in calls), sent):
        for one in (c, *c.parts):
            messages[id(one)] = keys.setdefault(one.key, len(keys))
    each = list(weighted(pieces))
    work, count = Work.total((kernel.work, n) for kernel, n in each), sum(n for _, n in each)
    lowest = least(pieces, work, graph.results)
    made = _Made(
        program, graph, fused, regions, count, work, lowest, numbered(regions), Order(regions), calls, messages
    )
    if graph.ops <= _SMALL:
        known[split, fusion, as_written] = made
    return made


def _wire(made: _Made, device: Device, network: Network | None) -> tuple[Network | None, Network]:
    """The network, by default the device's own links, and the time of a message on it: of equal ones it is asked once."""
    if network is None and made.calls:
        if not device.has("scale_up_bandwidth"):
            raise InputError(f"{device.name} lists no scale-up bandwidth for the program's collectives; give a network")
        network = Links(device.scale_up_bandwidth)
    timed: dict[int, float] = {}

    def time(c: Collective) -> float:
        if c.parts:
            return fsum(time(part) for part in c.parts)
        number = made.messages[id(c)]
        if number not in timed:
            timed[number] = network(c) if network else 0.0
        return timed[number]

    return network, time


def _priced(made: _Made, device: Device, split: str, network: Network | None, estimator: Estimator) -> Estimate:
    program, graph, regions, work = made.program, made.graph, made.regions, made.work
    network, time = _wire(made, device, network)
    prices = Prices(estimator, regions, made.alike)

    def region_time(region: Region) -> float:
        if region.kind == "comm":
            return fsum(time(p) for p in region.pieces if isinstance(p, Collective))
        return prices.of(region).seconds

    inner = getattr(estimator, "estimator", estimator)  # of one with a cache
    timeline = made.order.run(region_time)
    messages = [Message(c.op, c.in_bytes, c.out_bytes, c.ranks, len(c.groups), n, time(c)) for c, n in made.calls]
    compute, comm = prices.total(), fsum(m.time_s * m.count for m in messages)
    total = compute + comm if split == "linear" else max(timeline.total, compute)
    return Estimate(
        program=program.name,
        device=device.name,
        split=split,
        shapes="global" if program.sharded and not messages else "per device",
        partitions=max(program.partitions, program.replicas),
        flops=work.flops,
        matrix_flops=fsum(work.matrix.values()),
        transcendentals=work.transcendentals,
        bytes=work.bytes,
        compute_s=compute,
        comm_s=comm,
        exposed_comm_s=exposed_communication(total, compute),
        total_s=total,
        regions=slicing.count(regions),
        unique_regions=prices.unique,
        kernels=made.kernels,
        ops=graph.ops,
        collectives=tuple(messages),
        unknown_ops=dict(graph.unknown),
        unknown_share=sum(graph.unknown.values()) / max(1, graph.ops),
        notes=tuple(_notes(made, inner, network, device)),
        parts=regions,
        timeline=timeline,
        pricing=prices.summary(),
        bound_s=max(inner.seconds(made.least), comm) if isinstance(inner, RooflineEstimator) else None,
    )
