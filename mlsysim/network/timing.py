"""Time of a collective on a topology: from arguments in SI units to a result that explains itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument
from mlsysim.errors import InputError, unknown_name
from mlsysim.network import straight
from mlsysim.network.costs import Exact
from mlsysim.network.schedules import OPS, OPTIMIZATIONS, Phase, algorithm_name, bytes_sent, phases
from mlsysim.network.simulation import Outcome, Simulation
from mlsysim.network.topology import Topology, parse
from mlsysim.results import Report, Result, format_rows, format_value
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# Whether messages that meet on a link wait for each other.
CONGESTION = ("aware", "unaware")
MAX_SPLITS = 100_000
_POSITIVE, _NON_NEGATIVE = Domain.of(POSITIVE), Domain.of(NON_NEGATIVE)


@dataclass(frozen=True)
class PhaseTime(Result):
    """One phase: a collective on one dimension, from the first chunk that starts it to the last that ends it."""

    NUMBERS = "op algorithm dimension bytes sent_bytes start_s end_s"

    op: str
    algorithm: str
    dimension: str
    bytes: float  # that a rank holds at its start, all chunks together
    sent: float  # bytes that a rank sends
    start: float
    end: float


@dataclass(frozen=True)
class NetworkTime(Result):
    """What :func:`collective_time` returns; SI units."""

    NUMBERS = (
        "op topology=topology.name ranks=topology.ranks algorithms bytes bandwidth_bytes_per_s latency_s splits active_chunks "
        "endpoint_delay_s memory_bandwidth_bytes_per_s optimization congestion compat phases "
        "sent_bytes_per_rank=traffic link_busy_s least_time_s time_s"
    )

    op: str
    topology: Topology
    algorithms: tuple[str, ...]
    bytes: float
    bandwidth: tuple[float, ...]
    latency: tuple[float, ...]
    splits: int
    active_chunks: int
    endpoint_delay: float
    memory_bandwidth: float | None
    optimization: str
    congestion: str
    compat: str | None
    phases: tuple[PhaseTime, ...]
    traffic: tuple[float, ...]  # bytes that a rank sends, per dimension
    link_busy: (
        tuple[float, ...] | None
    )  # time for which the busiest link of each dimension carries bytes; with congestion only
    time: float

    @property
    def least_time(self) -> float:
        """No schedule with this traffic can be faster: the bytes of a rank over all its links of a dimension, at full bandwidth.

        Formula: max over the dimensions of sent / (links of a rank x bandwidth), in seconds.
        """
        dims = zip(self.traffic, self.topology.dimensions, self.bandwidth, strict=True)
        return max((sent / (d.ports * b) for sent, d, b in dims if d.ranks > 1), default=0.0)

    def summary(self) -> list[str]:
        longest = max(self.phases, key=lambda p: p.end - p.start, default=None)
        links = zip(self.topology.dimensions, self.bandwidth, self.latency, strict=True)
        busy = [
            (b / self.time, d)
            for b, d in zip(self.link_busy or (), self.topology.dimensions, strict=False)
            if self.time
        ]
        fullest = max(busy, key=lambda pair: pair[0], default=None)
        return format_rows(
            f"{self.op} of {format_value(self.bytes, 'byte')} on {self.topology}, {self.topology.ranks} ranks: {format_value(self.time, 's')}",
            (
                "bound",
                f"no schedule with this traffic beats {format_value(self.least_time, 's')}" if self.phases else "",
            ),
            (
                "binds",
                ""
                if longest is None
                else f"{longest.op} on {longest.dimension}, {format_value(longest.end - longest.start, 's')}",
            ),
            (
                "busiest link",
                "" if fullest is None else f"{fullest[1]}: {units.percent(fullest[0], signed=False)} of the time",
            ),
            ("links", "; ".join(f"{d} {format_value(b, 'byte/s')}, {format_value(a, 's')}" for d, b, a in links)),
            ("algorithms", f"{', '.join(self.algorithms)}; {self.splits} splits, congestion {self.congestion}"),
            ("compat", self.compat or ""),
        )

    def chart(self) -> "Drawing | None":
        """The phases as lanes, one per dimension."""
        from mlsysim.drawing import Lanes, Span
        from mlsysim.drawing.shapes import readable

        factor, unit = readable(self.time, "s")
        spans = [Span(p.dimension, factor * p.start, factor * p.end, p.op.replace("_", "-")) for p in self.phases]
        return Lanes(spans, f"time ({unit})", f"{self.op} on {self.topology}") if spans else None

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per phase."""
        return list(self.to_dict()["phases"])

    def explain(self) -> Report:
        """Every phase with what it carries and when, and what the links would allow."""
        rows = [
            (
                f"{p.op}, {p.algorithm}",
                p.dimension,
                units.format(p.bytes, "byte"),
                units.format(p.sent, "byte"),
                units.format(p.start, "s"),
                units.format(p.end, "s"),
            )
            for p in self.phases
        ]
        links = [
            (str(d), units.format(b, "byte/s"), units.format(a, "s"), str(d.diameter), units.format(sent, "byte"), busy)
            for d, b, a, sent, busy in zip(
                self.topology.dimensions, self.bandwidth, self.latency, self.traffic, self._busy_in_words(), strict=True
            )
        ]
        notes = [
            f"{units.format(self.bytes, 'byte')}, {self.splits} split{'s' if self.splits > 1 else ''}, "
            f"{self.active_chunks} active per dimension, congestion {self.congestion}"
        ]
        if self.phases:
            notes.append(
                f"least time that the links of a rank allow for these bytes: {units.format(self.least_time, 's')}"
            )
        if self.time < self.least_time * (1 - 1e-9):
            notes.append("the time is below that, since congestion-unaware messages do not share links")
        if self.compat:
            notes.append(
                f"units and rounding of {self.compat}: bytes are its communication size, 1 GB/s of a link is 2^30 B/s"
            )
        return Report(
            f"{self.op} on {self.topology}, {self.topology.ranks} ranks: {units.format(self.time, 's')}",
            (
                table(("Phase", "Dimension", "Holds", "Sends", "Start", "End"), rows),
                table(("Dimension", "Bandwidth", "Latency", "Diameter", "Sent per rank", "Busiest link"), links),
            ),
            notes,
        )

    def _busy_in_words(self) -> list[str]:
        if self.link_busy is None:
            return ["not counted"] * len(self.traffic)
        return [units.percent(busy / self.time, signed=False) if self.time else "0 %" for busy in self.link_busy]


def per_dimension(name: str, values: Any, topology: Topology) -> tuple[Any, ...]:
    """One value for every dimension: as many as there are, or one for all."""
    given = tuple(values) if isinstance(values, (list, tuple)) else (values,)
    count = len(topology.dimensions)
    if len(given) not in (1, count):
        raise InputError(
            f"collective: {name} has {len(given)} values, but {topology} has {count} dimension{'s' * (count > 1)}; give one for each, or one for all"
        )
    return given * count if len(given) == 1 else given


def wiring(
    topology: str | Topology,
    algorithm: str | Sequence[str],
    bandwidth: float | Sequence[float],
    latency: float | Sequence[float],
) -> tuple[Topology, tuple[str, ...], tuple[float, ...], tuple[float, ...]]:
    """The topology, and of each of its dimensions the algorithm, the bandwidth and the latency."""
    wired = parse(topology)
    names = tuple(map(algorithm_name, per_dimension("algorithm", algorithm, wired)))
    return wired, names, per_dimension("bandwidth", bandwidth, wired), per_dimension("latency", latency, wired)


def check_asked(op: str, congestion: str, optimization: str, splits: int, active_chunks: int) -> None:
    """Raise unless what is asked of a collective can be asked; numbers of the links are another matter."""
    for name, value, known in (
        ("op", op, OPS),
        ("congestion", congestion, CONGESTION),
        ("optimization", optimization, OPTIMIZATIONS),
    ):
        if value not in known:
            raise unknown_name(f"{name} of a collective", value, known)
    for name, count in (("splits", splits), ("active_chunks", active_chunks)):
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_SPLITS:
            raise InputError(f"collective: {name} = {str(count)[:20]} must be a whole number in [1, {MAX_SPLITS:,}]")


def collective_time(
    op: str,
    bytes: float,
    topology: str | Topology,
    algorithm: str | Sequence[str],
    bandwidth: float | Sequence[float],
    latency: float | Sequence[float] = 0.0,
    splits: int = 1,
    active_chunks: int = 1,
    endpoint_delay: float = 0.0,
    memory_bandwidth: float | None = None,
    optimization: str = "localBWAware",
    congestion: str = "aware",
) -> NetworkTime:
    """Time of a collective on a topology, by the schedule of its algorithms.

    Parameters
    ----------
    op : str
        ``all_reduce``, ``reduce_scatter``, ``all_gather`` or ``all_to_all``.
    bytes : float, byte
        Size of the whole buffer: what a rank holds before an all-reduce, a reduce-scatter or an all-to-all, and after an
        all-gather.
    topology : str or Topology
        As in ``"ring:8"`` or ``"ring:4xswitch:2"``.
    algorithm : str, or one per dimension
        ``ring``, ``direct``, ``halving_doubling`` or ``double_binary_tree`` (all-reduce of one dimension, or of the last).
    bandwidth : float, or one per dimension, byte/s
        Of a link, one way.
    latency : float, or one per dimension, s
        Of a link.
    splits : int
        Chunks that the buffer is cut into. They pass the phases one behind the other.
    active_chunks : int
        Chunks that a dimension works on at once.
    endpoint_delay : float, s
        Delay before a message leaves a rank and after it arrives.
    memory_bandwidth : float, byte/s
        Memory bandwidth of the additions, which read two pieces and write one (default: they are free).
    optimization : str
        How several dimensions are used: localBWAware or baseline (default: localBWAware). For an all-reduce on several dimensions: ``localBWAware`` (reduce-scatter, all-reduce, all-gather) or ``baseline``. For a
        direct all-to-all on several: every piece goes straight to its rank, over the links of all dimensions at once, or with
        ``baseline`` one dimension after the other, as ASTRA-sim plays it.
    congestion : str
        Whether links are shared (aware: one message at a time) or messages wait for nobody (unaware).

    Raises
    ------
    InputError, UnknownNameError
        A value out of range, an algorithm that cannot do the operation, more messages than are simulated.

    Assumptions: all ranks start together; nothing else uses the links; messages are cut through, that is, a node passes on the head of
    a message while the rest is still coming; routes are the shortest of :meth:`Dimension.route`.

    >>> r = collective_time("all_reduce", 1e9, "ring:8", "ring", bandwidth=50e9, latency=500e-9)
    >>> round(r.time, 9), round(r.least_time, 9)
    (0.035007, 0.0175)

    Source: the schedules are those of :mod:`mlsysim.network.schedules` and :mod:`mlsysim.network.straight`.
    """
    check_asked(op, congestion, optimization, splits, active_chunks)
    wired, names, rates, waits = wiring(topology, algorithm, bandwidth, latency)
    check_argument("collective", "bytes", bytes, "byte", _NON_NEGATIVE)
    check_numbers(rates, waits, endpoint_delay, memory_bandwidth)
    costs = Exact(rates, waits, endpoint_delay, memory_bandwidth)
    held = bytes / wired.ranks if op == "all_gather" else bytes
    chunk, count = costs.chunks(op, held, splits, wired.ranks)
    aware = congestion == "aware"
    plan: tuple[Phase, ...]
    if straight.is_straight(op, wired, names, optimization):
        plan = (straight.phase(wired, chunk),)
        outcome = straight.Straight(wired, chunk, count, active_chunks, costs, aware).run()
    else:
        plan = phases(op, wired, names, chunk, optimization, costs)
        outcome = Simulation(wired, plan, count, active_chunks, costs, aware).run()
    return NetworkTime(
        op=op,
        topology=wired,
        algorithms=names,
        bytes=bytes,
        bandwidth=rates,
        latency=waits,
        splits=splits,
        active_chunks=active_chunks,
        endpoint_delay=endpoint_delay,
        memory_bandwidth=memory_bandwidth,
        optimization=optimization,
        congestion=congestion,
        compat=None,
        **measured(wired, plan, count, costs, outcome),
    )


def check_numbers(
    bandwidth: Sequence[float], latency: Sequence[float], endpoint_delay: float, memory_bandwidth: float | None
) -> None:
    """Raise an InputError unless every rate and delay is a number inside its range."""
    for rate in bandwidth:
        check_argument("collective", "bandwidth", rate, "byte/s", _POSITIVE)
    for wait in latency:
        check_argument("collective", "latency", wait, "s", _NON_NEGATIVE)
    check_argument("collective", "endpoint_delay", endpoint_delay, "s", _NON_NEGATIVE)
    if memory_bandwidth is not None:
        check_argument("collective", "memory_bandwidth", memory_bandwidth, "byte/s", _POSITIVE)


def measured(
    topology: Topology, plan: Sequence[Phase], chunks: int, costs: Exact, outcome: Outcome, second: float = 1.0
) -> dict[str, Any]:
    """The parts of a result that come out of the simulation; ``second`` in the unit of its clock."""
    parts = tuple(
        PhaseTime(
            op=p.op,
            algorithm=p.algorithm,
            dimension="all at once" if p.dimension < 0 else str(topology.dimensions[p.dimension]),
            bytes=p.bytes * chunks,
            sent=bytes_sent(p, costs) * chunks,
            start=outcome.starts[i] / second,
            end=outcome.ends[i] / second,
        )
        for i, p in enumerate(plan)
    )
    traffic = [0.0] * len(topology.dimensions)
    for phase, part in zip(plan, parts, strict=True):
        if phase.dimension < 0:
            traffic = [sent * chunks for sent in straight.traffic(topology, phase.bytes)]
        else:
            traffic[phase.dimension] += part.sent
    busy = tuple(outcome.link_busy.get(i, 0.0) / second for i in range(len(traffic))) if outcome.aware else None
    return {"phases": parts, "traffic": tuple(traffic), "link_busy": busy, "time": outcome.time / second}
