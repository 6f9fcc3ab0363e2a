"""Topologies: how ranks are wired in one dimension, and products of such dimensions.

A dimension joins ranks 0 … N - 1 by links of equal bandwidth and latency; a topology of several dimensions is their product, in which
every group of ranks that differ in one address only is wired like that dimension. Links are directed: a cable is two of them.
Definitions: Dally and Towles, Principles and Practices of Interconnection Networks (2004); Kim, Dally, Scott and Abts,
Technology-Driven, Highly-Scalable Dragonfly Topology (ISCA 2008); Al-Fares, Loukissas and Vahdat, A Scalable, Commodity Data
Center Network Architecture (SIGCOMM 2008).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod

from mlsysim.errors import InputError, unknown_name

# What one dimension of a topology may be.
KINDS = ("ring", "fullyconnected", "switch", "mesh", "torus", "dragonfly", "fattree")
MAX_DIMENSIONS = 8
MAX_RANKS = 1_000_000
_SEGMENT = re.compile(r"(?:([a-z_ -]+):)?(\d+(?:/\d+)*)", re.IGNORECASE)


@dataclass(frozen=True)
class Dimension:
    """One way of wiring ``ranks`` ranks.

    ``ring`` (also called ``torus``): rank i has links to i - 1 and i + 1, and the ends are joined. ``mesh``: a line, the ends are not
    joined. ``fullyconnected``: a link between every two ranks. ``switch``: one link from every rank to a switch. ``dragonfly``: groups
    of routers, fully connected inside a group, and one link between every two groups; with ``hosts`` = 0 every rank is a router,
    otherwise so many ranks hang on each. ``fattree``: small switches of ``radix`` ports in three layers, ``radix`` pods of them; a
    switch of the lowest layer has ``oversubscription`` ranks to each cable up, 1 where no layer is narrower than the one below.

    >>> Dimension("ring", 8).hops(1, 7), Dimension("mesh", 8).hops(1, 7), Dimension("switch", 8).hops(1, 7)
    (2, 6, 2)
    """

    kind: str
    ranks: int
    groups: int = 0
    routers: int = 0  # per group
    hosts: int = 0  # per router
    radix: int = 0  # ports of each switch of a fat tree
    oversubscription: int = 0  # its ranks to a cable up

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("topology", self.kind, KINDS)
        if isinstance(self.ranks, bool) or not isinstance(self.ranks, int) or not 1 <= self.ranks <= MAX_RANKS:
            raise InputError(
                f"topology: {self.kind} of {str(self.ranks)[:20]} ranks; give a whole number in [1, {MAX_RANKS:,}]"
            )
        if self.kind == "dragonfly" and self.groups * self.routers * max(1, self.hosts) != self.ranks:
            raise InputError(
                f"topology: a dragonfly of {self.groups} groups with {self.routers} routers each and {self.hosts} ranks per "
                f"router does not hold {self.ranks} ranks; use dragonfly(groups, routers, hosts)"
            )

        if self.kind == "fattree" and not (
            self.radix >= 2
            and self.radix % 2 == 0
            and self.oversubscription >= 1
            and self.radix % (self.oversubscription + 1) == 0
            and self.ranks == self._pod * self.radix
        ):
            raise InputError(
                f"topology: a fat tree of switches with {self.radix} ports and {self.oversubscription} ranks to a cable up does not "
                f"hold {self.ranks} ranks; use fat_tree(ports, oversubscription), with an even number of ports that one more than "
                "the oversubscription divides"
            )

    @property
    def rotates(self) -> bool:
        """Whether the wiring looks the same from every rank, so that hops depend on the difference of two ranks only."""
        return self.kind not in ("mesh", "dragonfly", "fattree")

    @property
    def switches(self) -> int:
        """Nodes that are not ranks; they are numbered after the ranks."""
        if self.ranks == 1:
            return 0
        if self.kind == "fattree":  # 5 radix^2 / 4 where nothing is oversubscribed
            return self.radix * (self._half + self._up) + self._up * self._half
        return 1 if self.kind == "switch" else self.groups * self.routers if self.hosts else 0

    @property
    def ports(self) -> int:
        """Most links that leave one rank: how many messages it can send at the same time."""
        if self.ranks == 1:
            return 0
        if self.kind in ("switch", "fattree") or self.hosts:
            return 1
        if self.kind == "fullyconnected":
            return self.ranks - 1
        if self.kind == "dragonfly":
            return self.routers - 1 + min(self._globals, max(0, self.groups - 1))
        return min(2, self.ranks - 1)

    @property
    def links(self) -> int:
        """Number of directed links, in closed form."""
        n = self.ranks
        if n == 1:
            return 0
        if self.kind == "fullyconnected":
            return n * (n - 1)
        if self.kind == "switch":
            return 2 * n
        if self.kind == "fattree":
            return 2 * (n + self.radix**2 * self._up)
        if self.kind == "mesh":
            return 2 * (n - 1)
        if self.kind == "dragonfly":
            a, g = self.routers, self.groups
            return g * a * (a - 1) + g * (g - 1) + (2 * n if self.hosts else 0)
        return 2 * n if n > 2 else 2

    @property
    def diameter(self) -> int:
        """Most hops between two ranks, in closed form."""
        n = self.ranks
        if n == 1:
            return 0
        if self.kind == "dragonfly":
            # at worst from a router without the link, over it, to another router of the other group
            between = 1 + 2 * min(1, self.routers - 1) if self.groups > 1 else min(1, self.routers - 1)
            return between + (2 if self.hosts else 0)
        return {"fullyconnected": 1, "switch": 2, "mesh": n - 1, "fattree": 6}.get(self.kind, n // 2)

    @property
    def bisection(self) -> int:
        """Directed links, one way, that join one half of the ranks to the other (the halves differ by one rank when N is odd).

        The least over all halves, except on a dragonfly: there the halves are whole groups, or half of the only group.
        """
        n = self.ranks
        if n == 1:
            return 0
        if self.kind == "fullyconnected":
            return (n // 2) * (n - n // 2)
        if self.kind == "switch":
            return n // 2
        if self.kind == "fattree":
            return self.radix**2 * self._up // 4
        if self.kind == "mesh":
            return 1
        if self.kind == "dragonfly":
            parts = self.groups if self.groups > 1 else self.routers
            if parts == 1:
                return n // 2
            return (parts // 2) * (parts - parts // 2)
        return 2 if n > 2 else 1

    def hops(self, source: int, destination: int) -> int:
        """Links on the route between two ranks, in closed form."""
        self._check(source, destination)
        if source == destination:
            return 0
        if self.kind == "fullyconnected":
            return 1
        if self.kind == "switch":
            return 2
        if self.kind == "fattree":
            down = self._pod // self._half
            return (
                2
                if source // down == destination // down
                else 4
                if source // self._pod == destination // self._pod
                else 6
            )
        if self.kind == "mesh":
            return abs(destination - source)
        if self.kind == "dragonfly":
            per = max(1, self.hosts)
            return self._hops_of_routers(source // per, destination // per) + (2 if self.hosts else 0)
        ahead = (destination - source) % self.ranks
        return min(ahead, self.ranks - ahead)

    def route(self, source: int, destination: int) -> tuple[int, ...]:
        """Nodes that a message passes, both ends included.

        The shorter way on a ring (upwards when both are as long); over the direct link between two groups on a dragonfly, which is
        its minimal routing (Kim et al.): at most one link between groups, even where a way over a third group is shorter. Upwards in a
        fat tree as the destination's place says, so that all to one rank come down the same way and neighbours come apart.

        >>> Dimension("ring", 6).route(1, 5), Dimension("switch", 6).route(1, 5)
        ((1, 0, 5), (1, 6, 5))
        """
        self._check(source, destination)
        if source == destination:
            return (source,)
        if self.kind == "fullyconnected":
            return (source, destination)
        if self.kind == "switch":
            return (source, self.ranks, destination)
        if self.kind == "mesh":
            step = 1 if destination > source else -1
            return tuple(range(source, destination + step, step))
        if self.kind == "dragonfly":
            return self._dragonfly_route(source, destination)
        if self.kind == "fattree":
            return self._fat_tree_route(source, destination)
        ahead = (destination - source) % self.ranks
        step, count = (1, ahead) if ahead <= self.ranks - ahead else (-1, self.ranks - ahead)
        return tuple((source + step * i) % self.ranks for i in range(count + 1))

    def edges(self) -> set[tuple[int, int]]:
        """Every directed link as (from, to): the definition that hops, diameter and counts are checked against."""
        n = self.ranks
        if n == 1:
            return set()
        if self.kind == "fullyconnected":
            pairs = {(i, j) for i in range(n) for j in range(i)}
        elif self.kind == "switch":
            pairs = {(i, n) for i in range(n)}
        elif self.kind == "mesh":
            pairs = {(i, i + 1) for i in range(n - 1)}
        elif self.kind == "dragonfly":
            base = n if self.hosts else 0
            a = self.routers
            pairs = {
                (base + g * a + i, base + g * a + j) for g in range(self.groups) for i in range(a) for j in range(i)
            }
            pairs |= {
                (base + self._gateway(g, h), base + self._gateway(h, g)) for g in range(self.groups) for h in range(g)
            }
            pairs |= {(rank, base + rank // self.hosts) for rank in range(n) if self.hosts}
        elif self.kind == "fattree":
            pods, half, up = range(self.radix), range(self._half), range(self._up)
            down = self._pod // self._half
            pairs = {(rank, self._edge(rank // down)) for rank in range(n)}
            pairs |= {(self._edge(p * self._half + e), self._upper(p, i)) for p in pods for e in half for i in up}
            pairs |= {(self._upper(p, i), self._core(i, c)) for p in pods for i in up for c in half}
        else:
            pairs = {(i, (i + 1) % n) for i in range(n)}
        return pairs | {(b, a) for a, b in pairs}

    @property
    def _globals(self) -> int:
        """Links to other groups on one router, at most: the other groups are dealt out to the routers in order."""
        return -(-(self.groups - 1) // self.routers) if self.groups > 1 else 0

    @property
    def _half(self) -> int:
        """Lowest switches of a pod, and cables that lead up from one above them."""
        return self.radix // 2

    @property
    def _up(self) -> int:
        """Cables up from one of the lowest switches of a fat tree: one to each upper switch of its pod."""
        return self.radix // (self.oversubscription + 1)

    @property
    def _pod(self) -> int:
        """Ranks of a pod."""
        return self._half * (self.radix - self._up)

    def _edge(self, i: int) -> int:
        return self.ranks + i

    def _upper(self, pod: int, i: int) -> int:
        return self.ranks + self.radix * self._half + pod * self._up + i

    def _core(self, i: int, c: int) -> int:
        return self.ranks + self.radix * (self._half + self._up) + i * self._half + c

    def _fat_tree_route(self, source: int, destination: int) -> tuple[int, ...]:
        down = self._pod // self._half
        first, last, i, c = (
            source // down,
            destination // down,
            destination % down % self._up,
            destination // down % self._half,
        )
        if first == last:
            return (source, self._edge(first), destination)
        pod, other = source // self._pod, destination // self._pod
        top = (self._upper(pod, i), self._core(i, c), self._upper(other, i)) if pod != other else (self._upper(pod, i),)
        return (source, self._edge(first), *top, self._edge(last), destination)

    def _gateway(self, group: int, other: int) -> int:
        """Router of a group that holds the link to another group."""
        position = other if other < group else other - 1
        return group * self.routers + position // self._globals

    def _hops_of_routers(self, source: int, destination: int) -> int:
        group, other = source // self.routers, destination // self.routers
        if group == other:
            return int(source != destination)
        return 1 + int(source != self._gateway(group, other)) + int(destination != self._gateway(other, group))

    def _dragonfly_route(self, source: int, destination: int) -> tuple[int, ...]:
        base, per = (self.ranks, self.hosts) if self.hosts else (0, 1)
        first, last = source // per, destination // per
        way = [first]
        group, other = first // self.routers, last // self.routers
        if group != other:
            way += [self._gateway(group, other), self._gateway(other, group)]
        way.append(last)
        nodes = [base + r for i, r in enumerate(way) if i == 0 or r != way[i - 1]]
        return (source, *nodes, destination) if self.hosts else tuple(nodes)

    def _check(self, *ranks: int) -> None:
        for rank in ranks:
            if not 0 <= rank < self.ranks:
                raise InputError(f"topology: rank {rank} is not in 0 to {self.ranks - 1} of {self}")

    def __str__(self) -> str:
        if self.kind == "dragonfly":
            return "dragonfly:" + "/".join(map(str, filter(None, (self.groups, self.routers, self.hosts))))
        if self.kind == "fattree":
            return f"fattree:{self.radix}" + (f"/{self.oversubscription}" if self.oversubscription > 1 else "")
        return f"{self.kind}:{self.ranks}"


def dragonfly(groups: int, routers: int, hosts: int = 0) -> Dimension:
    """A dragonfly of ``groups`` groups with ``routers`` routers each; every rank is a router, or ``hosts`` hang on each.

    >>> d = dragonfly(9, 4, 2)
    >>> d.ranks, d.diameter
    (72, 5)
    """
    return Dimension("dragonfly", groups * routers * max(1, hosts), groups, routers, hosts)


def fat_tree(ports: int, oversubscription: int = 1) -> Dimension:
    """A fat tree of switches that all have so many ports, which stands for one switch of very many.

    Formula: ports^3 / 4 ranks and 5 ports^2 / 4 switches where nothing is oversubscribed

    Parameters
    ----------
    ports : int, 1
        Of each switch, even: half of them lead up in the two lower layers, and there are as many pods.
    oversubscription : int, 1
        Ranks to a cable up at the lowest switches; one more than it must divide the ports.

    Returns
    -------
    Dimension

    Raises
    ------
    InputError
        An odd number of ports, or one that does not divide as it must; more ranks than a topology may have.

    Assumptions: three layers, each rank on one port.

    >>> d = fat_tree(48)
    >>> d.ranks, d.switches, d.diameter
    (27648, 2880, 6)

    Source: alfares2008fattree; the numbers of ranks and switches follow from the wiring.
    """
    for name, value, least in (("ports", ports, 2), ("oversubscription", oversubscription, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_RANKS:
            raise InputError(f"fat_tree: {name} = {str(value)[:20]} must be a whole number in [{least}, {MAX_RANKS:,}]")
    if ports % 2 or ports % (oversubscription + 1):
        raise InputError(
            f"fat_tree: ports = {ports} must be even and divisible by {oversubscription + 1}, one more than the oversubscription; "
            "take other switches or another share"
        )
    ranks = ports * (ports // 2) * (ports - ports // (oversubscription + 1))
    return Dimension("fattree", ranks, radix=ports, oversubscription=oversubscription)


@dataclass(frozen=True)
class Topology:
    """A product of dimensions. The address of a rank has one number per dimension, and the first counts fastest.

    >>> t = parse("ring:4xswitch:2")
    >>> t.ranks, t.address(6), t.hops(0, 6), t.diameter
    (8, (2, 1), 4, 4)
    """

    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.dimensions) <= MAX_DIMENSIONS:
            raise InputError(f"topology: {len(self.dimensions)} dimensions; give 1 to {MAX_DIMENSIONS}")
        if self.ranks > MAX_RANKS:
            raise InputError(f"topology: {self.ranks:,} ranks; give at most {MAX_RANKS:,}")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.ranks for d in self.dimensions)

    @property
    def ranks(self) -> int:
        return prod(self.shape)

    @property
    def links(self) -> int:
        """Directed links of the whole product."""
        return sum(self.ranks // d.ranks * d.links for d in self.dimensions)

    @property
    def diameter(self) -> int:
        """Most hops between two ranks: a route passes one dimension after the other."""
        return sum(d.diameter for d in self.dimensions)

    @property
    def bisection(self) -> int:
        """Directed links, one way, across the middle of the dimension where they are fewest: the least cut for even sizes."""
        cuts = [self.ranks // d.ranks * d.bisection for d in self.dimensions if d.ranks > 1]
        return min(cuts, default=0)

    def stride(self, dimension: int) -> int:
        """Difference between two ranks that are neighbours in the address of this dimension."""
        return prod(self.shape[:dimension])

    def address(self, rank: int) -> tuple[int, ...]:
        """Position of a rank in every dimension."""
        if not 0 <= rank < self.ranks:
            raise InputError(f"topology: rank {rank} is not in 0 to {self.ranks - 1} of {self}")
        return tuple(rank // self.stride(i) % d.ranks for i, d in enumerate(self.dimensions))

    def hops(self, source: int, destination: int) -> int:
        """Links on the route between two ranks, one dimension after the other."""
        ends = zip(self.address(source), self.address(destination), self.dimensions, strict=True)
        return sum(d.hops(a, b) for a, b, d in ends)

    @property
    def name(self) -> str:
        """Its text, as :func:`parse` reads it."""
        return "x".join(map(str, self.dimensions))

    def __str__(self) -> str:
        return self.name


def parse(text: str | Topology) -> Topology:
    """A topology from its text: ``kind:ranks``, dimensions joined by ``x``.

    A size without a kind takes the kind before it: ``torus:4x4x4``. A dragonfly is ``groups/routers`` (every rank is a router) or
    ``groups/routers/ranks per router``; with one number N it gets groups of the largest divisor of N up to its square root. A
    fat tree is the ports of its switches, ``fattree:4``, or those and its oversubscription, ``fattree:48/3``.

    >>> str(parse("torus:4x4xswitch:2")), str(parse("dragonfly:128")), parse("dragonfly:9/4/2").ranks
    ('torus:4xtorus:4xswitch:2', 'dragonfly:16/8', 72)
    """
    if isinstance(text, Topology):
        return text
    if not isinstance(text, str) or len(text) > 200:
        raise InputError(f"topology: {str(text)[:40]!r} is not a topology; write one as in 'ring:4xswitch:2'")
    dimensions: list[Dimension] = []
    kind = ""
    for part in text.strip().split("x"):
        match = _SEGMENT.fullmatch(part.strip())
        if match is None or not (match[1] or kind):
            raise InputError(
                f"topology: {part[:40]!r} in {text[:60]!r} is not a dimension; write kind:ranks joined by x, as in "
                f"'ring:4xswitch:2', with kind one of {', '.join(KINDS)}"
            )
        kind = re.sub("[_ -]", "", match[1]).lower() if match[1] else kind
        if kind not in KINDS:
            raise unknown_name("topology", match[1], KINDS, "as in 'ring:4xswitch:2'")
        dimensions.append(_dimension(kind, [int(n) for n in match[2][:60].split("/")], part))
    return Topology(tuple(dimensions))


def _dimension(kind: str, sizes: Sequence[int], part: str) -> Dimension:
    if kind == "fattree":
        if len(sizes) > 2:
            raise InputError(f"topology: {part[:40]!r}: write fattree:ports or fattree:ports/oversubscription")
        return fat_tree(*sizes)
    if kind != "dragonfly":
        if len(sizes) > 1:
            raise InputError(
                f"topology: {part[:40]!r} has several sizes; only a dragonfly and a fat tree do, as dragonfly:9/4/2 and fattree:48/3"
            )
        return Dimension(kind, sizes[0])
    if len(sizes) > 3 or min(sizes) < 1 or prod(sizes) > MAX_RANKS:
        raise InputError(
            f"topology: {part[:40]!r}: write dragonfly:groups/routers or dragonfly:groups/routers/ranks per router, each at "
            f"least 1 and {MAX_RANKS:,} ranks at most"
        )
    if len(sizes) == 1:
        n = sizes[0]
        routers = next(a for a in range(isqrt(n), 0, -1) if n % a == 0)
        return dragonfly(n // routers, routers)
    return dragonfly(*sizes)
