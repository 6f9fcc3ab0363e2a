"""A network for the estimate: every collective of a program is played on a topology, on the part of it that its groups cover.

Which part: in every dimension the ranks of a group must take evenly spaced places, and all combinations of them. All places of a
dimension are the dimension itself. Some places of a switch or of a full connection are a smaller one. Neighbours on a ring or a mesh
are a line; every s-th rank of a ring is a ring of links s hops long, which s such groups share. Whole groups of a dragonfly
are a smaller dragonfly, and ranks of one router group are fully connected, or hang on one router; one rank of each group has its
diameter between them, and shares the links between groups with the ranks of all other places.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import fsum, prod
from typing import Any

from mlsysim import units
from mlsysim.catalog import Device
from mlsysim.errors import InputError
from mlsysim.hlo.fusing.items import Collective
from mlsysim.hlo.reader.groups import Groups
from mlsysim.network import (
    ALGORITHMS,
    OPS,
    Dimension,
    Topology,
    astrasim,
    collective_time,
    dragonfly,
    parse,
)
from mlsysim.network.timing import check_asked, check_numbers, wiring

NATURAL: Mapping[str, str] = {"fullyconnected": "direct", "dragonfly": "direct"}  # a ring elsewhere
_Link = tuple[int, tuple[int, ...], int, int]  # dimension, address in the others, from, to


@dataclass(frozen=True)
class Part:
    """A dimension of the part that a group covers: its wiring, how many times the latency of the whole's links, how many groups to
    a link, and the index in the whole."""

    wiring: Dimension
    stretch: int
    sharing: int
    index: int


@dataclass(frozen=True)
class Fabric:
    """Time of every collective of a program by the schedule of its algorithm on a topology.

    Parameters
    ----------
    topology : str or Topology
        As in ``"ring:4xswitch:2"``. Device d of the program is rank d; the first dimension counts fastest.
    bandwidth : float, or one per dimension, byte/s
        Of a link, one way.
    latency : float, or one per dimension, s
        Of a link.
    algorithm : str, or one per dimension, optional
        By default ``direct`` on full connections and dragonflies, ``ring`` elsewhere. Where it cannot do an operation, or not on so
        many ranks, ``direct`` does it instead, and :attr:`notes` says so.
    splits, active_chunks, endpoint_delay, memory_bandwidth, optimization, congestion
        As for :func:`mlsysim.network.collective_time`.
    compat : str, optional
        ``astrasim``: its rounding, in which every time becomes whole nanoseconds. All arguments stay in SI units.

    A permutation is one message per pair, all at once; a broadcast is cut through to the furthest rank. A link that several messages
    of a permutation share carries them one after the other unless congestion is ``unaware``.

    >>> fabric = Fabric("ring:4xswitch:2", bandwidth=(50e9, 25e9), latency=1e-6)
    >>> everybody = Collective("all_reduce", (0,), (1,), 10**6, 10**6, (tuple(range(8)),), 8)
    >>> round(1e6 * fabric(everybody), 3)
    50.0
    """

    topology: str | Topology
    bandwidth: float | Sequence[float]
    latency: float | Sequence[float] = 0.0
    algorithm: str | Sequence[str] | None = None
    splits: int = 1
    active_chunks: int = 1
    endpoint_delay: float = 0.0
    memory_bandwidth: float | None = None
    optimization: str = "localBWAware"
    congestion: str = "aware"
    compat: str | None = None
    _wired: Topology = field(init=False, repr=False, compare=False)
    _rates: tuple[float, ...] = field(init=False, repr=False, compare=False)  # of a link, one per dimension
    _waits: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _known: dict[object, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _notes: dict[str, None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.compat not in (None, "astrasim"):
            raise InputError(f"fabric: compat = {str(self.compat)[:20]!r} is not known; it can be 'astrasim'")
        chosen = self.algorithm
        if chosen is None:
            chosen = tuple(NATURAL.get(d.kind, "ring") for d in parse(self.topology).dimensions)
        wired, names, rates, waits = wiring(self.topology, chosen, self.bandwidth, self.latency)
        given = {"topology": wired, "algorithm": names, "bandwidth": rates, "latency": waits}
        for name, value in (given | {"_wired": wired, "_rates": rates, "_waits": waits}).items():
            object.__setattr__(self, name, value)
        check_numbers(rates, waits, self.endpoint_delay, self.memory_bandwidth)
        check_asked("all_reduce", self.congestion, self.optimization, self.splits, self.active_chunks)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done otherwise than asked for, in the collectives so far."""
        return tuple(self._notes)

    def __call__(self, collective: Collective) -> float:
        """Time of a collective, in s: that of its slowest group, all groups at once."""
        if collective.key not in self._known:
            self._known[collective.key] = self._collective(collective)
        return self._known[collective.key]

    def _collective(self, c: Collective) -> float:
        op = c.name
        groups = c.groups or (tuple(range(c.ranks)),)
        if not c.whole or c.ranks <= 1:
            return 0.0
        self._check(c, groups)
        if op == "collective_permute":
            return self._permute(groups, c.in_bytes)
        if op == "collective_broadcast":
            return max(self._broadcast(group, c.in_bytes) for group in groups)
        if op not in OPS:
            raise InputError(f"fabric: no schedule for {op[:40]!r}; there are {', '.join(OPS)}, permute and broadcast")
        # what a rank holds before an all-reduce, a reduce-scatter or an all-to-all; for an all-gather see _time
        held = c.in_bytes
        shapes = {self.parts(group) for group in groups if len(group) > 1}
        return max((self._time(op, held, shape) for shape in shapes), default=0.0)

    def _check(self, c: Collective, groups: Groups) -> None:
        worst = max((device for group in groups for device in group), default=0)
        if worst >= self._wired.ranks:
            raise InputError(
                f"fabric: {c.op} takes in device {worst}, but {self._wired} has {self._wired.ranks} ranks; give a topology of at "
                f"least {worst + 1}"
            )

    def parts(self, group: Sequence[int]) -> tuple[Part, ...]:
        """The part of the topology that a group covers: a dimension for each in which its ranks differ.

        Raises
        ------
        InputError
            For a group that is not a block along the dimensions.
        """
        wired = self._wired
        places = [sorted({wired.address(rank)[i] for rank in group}) for i in range(len(wired.dimensions))]
        if prod(map(len, places)) != len(set(group)):
            raise InputError(_no_part(group, wired, "take every combination of their places"))
        found = []
        for i, (dimension, taken) in enumerate(zip(wired.dimensions, places, strict=True)):
            if len(taken) == 1:
                continue
            part = _part(dimension, taken, i)
            if part is None:
                must = (
                    "be whole groups, or of one group or router"
                    if dimension.kind == "dragonfly"
                    else "be evenly spaced"
                )
                raise InputError(_no_part(group, wired, f"{must} in {dimension}"))
            found.append(part)
            if part.stretch > 1:
                self._note(
                    f"groups of ranks that are no neighbours on {dimension}: links {part.stretch} hops long, shared by "
                    f"{part.sharing} groups"
                )
        return tuple(found)

    def _note(self, text: str) -> None:
        self._notes.setdefault(text)

    def _algorithm(self, op: str, part: Part, last: bool) -> str:
        """The algorithm of a dimension; where it cannot do what it has to, direct."""
        name, n = str(self.algorithm[part.index]) if self.algorithm else "direct", part.wiring.ranks
        step = op if op != "all_reduce" or last or self.optimization == "baseline" else "reduce_scatter"
        powers = name in ("halving_doubling", "double_binary_tree")
        if step in ALGORITHMS[name] and not (powers and n & (n - 1)):
            return name
        self._note(f"{name} cannot do {step} on {part.wiring}; direct does it there")
        return "direct"

    def _time(self, op: str, held: int, parts: Sequence[Part]) -> float:
        """Time on a part. ``held`` is what a rank holds at the start, for an all-gather its shard."""
        if not parts:
            return 0.0
        wired = Topology(tuple(p.wiring for p in parts))
        shared = self.congestion == "aware"
        rates = [self._rates[p.index] / (p.sharing if shared else 1) for p in parts]
        waits = [self._waits[p.index] * p.stretch for p in parts]
        names = [self._algorithm(op, p, p is parts[-1]) for p in parts]
        if self.compat is None:
            return collective_time(
                op,
                held * wired.ranks if op == "all_gather" else held,
                wired,
                names,
                rates,
                waits,
                self.splits,
                self.active_chunks,
                self.endpoint_delay,
                self.memory_bandwidth,
                self.optimization,
                self.congestion,
            ).time
        everybody = (
            wired.ranks == self._wired.ranks
        )  # ASTRA-sim plans a communicator of fewer ranks with its default delay
        return astrasim.collective_time(
            op,
            held,
            wired,
            names,
            [rate / astrasim.GB for rate in rates],
            [round(wait * 1e9, 6) for wait in waits],  # 1000 ns, and not 999.9999999999999
            self.splits,
            self.active_chunks,
            round(self.endpoint_delay * 1e9) if everybody else astrasim.ENDPOINT_DELAY_NS,
            None if self.memory_bandwidth is None else self.memory_bandwidth / 1e9,
            self.optimization,
            self.congestion,
        ).time

    def _permute(self, pairs: Groups, size: int) -> float:
        """Every pair's message at once: the longest way, and the busiest link."""
        load: Counter[_Link] = Counter()
        for source, destination in pairs:
            load.update(self._way(source, destination))
        if not load:
            return 0.0
        shared = self.congestion == "aware"
        busy = max((n if shared else 1) * size / self._rates[link[0]] for link, n in load.items())
        return max(self._wait(a, b) for a, b in pairs) + busy + 2 * self.endpoint_delay

    def _broadcast(self, group: Sequence[int], size: int) -> float:
        """From the first rank of a group to all others, each byte once over every link."""
        others = [(group[0], rank) for rank in group[1:]]
        links = {link for a, b in others for link in self._way(a, b)}
        if not links:
            return 0.0
        slowest = min(self._rates[link[0]] for link in links)
        return max(self._wait(a, b) for a, b in others) + size / slowest + 2 * self.endpoint_delay

    def _wait(self, source: int, destination: int) -> float:
        ends = zip(self._wired.address(source), self._wired.address(destination), strict=True)
        return fsum(self._wired.dimensions[i].hops(a, b) * self._waits[i] for i, (a, b) in enumerate(ends))

    def _way(self, source: int, destination: int) -> list[_Link]:
        """Links of a route, one dimension after the other: dimension, address of the others, from, to."""
        here, there = list(self._wired.address(source)), self._wired.address(destination)
        links: list[_Link] = []
        for i, dimension in enumerate(self._wired.dimensions):
            rest = (*here[:i], *here[i + 1 :])
            links += [(i, rest, a, b) for a, b in pairwise(dimension.route(here[i], there[i]))]
            here[i] = there[i]
        return links


def _no_part(group: Sequence[int], wired: Topology, must: str) -> str:
    some = ", ".join(map(str, group[:8])) + (", ..." if len(group) > 8 else "")
    return (
        f"fabric: ranks {some} are not a block of {wired}: they must {must}; choose dimensions that hold such groups, as a "
        f"switch does"
    )


def _part(d: Dimension, taken: Sequence[int], index: int) -> Part | None:
    """The wiring among some places of a dimension, or None where it is none that is known here."""
    n, k = d.ranks, len(taken)
    if k == n:
        return Part(d, 1, 1, index)
    if d.kind in ("switch", "fullyconnected"):
        return Part(Dimension(d.kind, k), 1, 1, index)
    if d.kind == "dragonfly":
        return _dragonfly_part(d, taken, index)
    if d.kind == "fattree":
        return _fat_tree_part(d, taken, index)
    gaps = [b - a for a, b in pairwise(taken)]
    if d.kind == "mesh":
        step = gaps[0]
        return Part(Dimension("mesh", k), step, step, index) if set(gaps) == {step} else None
    gaps.append(n - taken[-1] + taken[0])  # on a ring, the way round
    if len(set(gaps)) == 1:
        return Part(Dimension(d.kind, k), gaps[0], gaps[0], index)
    gaps.remove(max(gaps))
    step = gaps[0]
    return Part(Dimension("mesh", k), step, step, index) if set(gaps) == {step} else None


def _dragonfly_part(d: Dimension, taken: Sequence[int], index: int) -> Part | None:
    per_router = max(1, d.hosts)
    size = d.routers * per_router
    groups = {p // size for p in taken}
    routers = {p // per_router for p in taken}
    whole = list(product(sorted(groups), range(size))) == [(p // size, p % size) for p in taken]
    if whole and len(groups) > 1:
        return Part(dragonfly(len(groups), d.routers, d.hosts), 1, 1, index)
    if len(groups) > 1:  # a rank of each, at the same place: as far as it gets, over links that all places share
        same = len({p % size for p in taken}) == 1
        return Part(Dimension("fullyconnected", len(taken)), d.diameter, size, index) if same else None
    if len(routers) == 1:
        return Part(Dimension("switch", len(taken)), 1, 1, index)
    if d.hosts == 0:
        return Part(Dimension("fullyconnected", len(taken)), 1, 1, index)
    if len(taken) == len(routers) * d.hosts:
        return Part(dragonfly(1, len(routers), d.hosts), 1, 1, index)
    return None


def _fat_tree_part(d: Dimension, taken: Sequence[int], index: int) -> Part:
    """A switch for any ranks, its links as long as half the way, and shared where the tree has fewer of them above."""
    climbed = max(d.hops(taken[0], p) for p in taken[1:]) // 2
    return Part(Dimension("switch", len(taken)), climbed, 1 if climbed == 1 else d.oversubscription, index)


def on_device(topology: str | Topology, device: Device, **options: Any) -> Fabric:
    """A topology of one dimension whose links have the device's scale-up bandwidth, which the links of a rank share.

    Raises
    ------
    InputError
        Several dimensions, of which only one can be the device's own links; a device without such links.

    >>> from mlsysim import catalog
    >>> on_device("ring:8", catalog.device("A100")).notes
    ('ring:8: links of 150 GB/s and one way: 300 GB/s of scale-up bandwidth of A100-SXM4-80GB over 2 of a rank',)
    """
    wired = parse(topology)
    if len(wired.dimensions) != 1:
        raise InputError(
            f"topology {wired} has {len(wired.dimensions)} dimensions: give the bandwidth of a link of each, with --bandwidth or to "
            "hlo.Fabric; only one dimension can take the device's own"
        )
    if not device.has("scale_up_bandwidth"):
        raise InputError(
            f"topology: {device.name} lists no scale-up bandwidth; give one, with --bandwidth or to hlo.Fabric"
        )
    ports = max(1, wired.dimensions[0].ports)
    fabric = Fabric(wired, device.scale_up_bandwidth / ports, **options)
    whole = units.format(device.scale_up_bandwidth, "byte/s")
    each = units.format(device.scale_up_bandwidth / ports, "byte/s")
    fabric._notes[
        f"{wired}: links of {each} and one way: {whole} of scale-up bandwidth of {device.name} over {ports} of a rank"
    ] = None
    return fabric
