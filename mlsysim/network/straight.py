"""An all-to-all that uses all dimensions at once: every rank sends each piece straight to its rank, over the links of the whole product.

Dimension after dimension, as ASTRA-sim plays it, the links of all but one dimension are idle at any time, and a piece that has to go
two ways is sent twice. Sent straight, a message passes the links of all dimensions on its way, cut through. Routes are the shortest.
Ranks begin with another dimension for every other partner, and between two ways of equal length ranks take turns, so that the links
carry equal shares (Dally and Towles, Principles and Practices of Interconnection Networks, 2004, ch. 8).
"""

import heapq
from collections.abc import Iterator
from itertools import pairwise

from mlsysim.errors import InputError
from mlsysim.network.costs import Exact
from mlsysim.network.schedules import Phase
from mlsysim.network.simulation import MAX_MESSAGES, Links, Outcome
from mlsysim.network.topology import Dimension, Topology

_Hop = tuple[int, int]  # dimension, and place of the link in the lists of the simulation


def is_straight(op: str, topology: Topology, algorithms: tuple[str, ...], optimization: str) -> bool:
    """Whether a collective is played so: a direct all-to-all, unless the baseline is asked for."""
    return op == "all_to_all" and topology.ranks > 1 and set(algorithms) == {"direct"} and optimization != "baseline"


def phase(topology: Topology, bytes: float) -> Phase:
    """The one phase, over all dimensions (their number is -1)."""
    return Phase("all_to_all", "direct", -1, topology.ranks, bytes, bytes)


def traffic(topology: Topology, bytes: float) -> tuple[float, ...]:
    """Bytes of a rank that have to pass each dimension: those for ranks whose address differs there.

    >>> from mlsysim.network.topology import parse
    >>> traffic(parse("torus:4x4"), 16.0)
    (12.0, 12.0)
    """
    return tuple(bytes / n * (n - 1) for n in topology.shape)


class Straight:
    """All messages of all ranks, link by link, first come first served."""

    def __init__(self, topology: Topology, bytes: float, chunks: int, active: int, costs: Exact, aware: bool) -> None:
        self.topology, self.chunks, self.active, self.costs, self.aware = topology, chunks, active, costs, aware
        self.size = costs.piece(bytes, topology.ranks)
        self.addresses = [topology.address(r) for r in range(topology.ranks)]
        self.strides = [topology.stride(i) for i in range(len(topology.shape))]
        self.times = [costs.link(i, self.size) for i in range(len(topology.shape))]
        self.links = Links()
        mean_hops = sum(topology.hops(0, r) for r in range(topology.ranks)) / topology.ranks
        messages = mean_hops * topology.ranks**2 * chunks
        if messages > MAX_MESSAGES:
            raise InputError(
                f"collective: about {messages:.3g} messages over links; at most {MAX_MESSAGES:,} are simulated; use congestion = "
                "unaware, optimization = baseline (one dimension after the other), fewer splits or fewer ranks"
            )

    def run(self) -> Outcome:
        """Every rank sends to the next, the one after it, … of all ranks; a chunk begins when an earlier one is complete at the rank."""
        ranks, endpoint = self.topology.ranks, self.costs.endpoint
        missing = [[ranks - 1] * self.chunks for _ in range(ranks)]
        begun = [min(self.active, self.chunks)] * ranks
        events: list[tuple[float, int, int, int, float, list[_Hop], int]] = []
        made = 0

        def begin(rank: int, chunk: int, now: float) -> None:
            nonlocal made
            for k in range(1, ranks):
                to = (rank + k) % ranks
                heapq.heappush(events, (now + endpoint, made, chunk, to, now, self._way(rank, to, k + chunk), 0))
                made += 1

        for rank in range(ranks):
            for chunk in range(begun[rank]):
                begin(rank, chunk, 0.0)
        end = 0.0
        while events:
            now, _, chunk, to, tail, way, hop = heapq.heappop(events)
            if hop < len(way):
                dimension, link = way[hop]
                busy, ahead, through = self.times[dimension]
                start = now
                if self.aware:
                    start = max(now, self.links.free[link])
                    self.links.free[link] = start + busy
                    self.links.busy[link] += busy
                tail = max(tail + ahead, start + through)
                last = hop + 1 == len(way)
                heapq.heappush(events, (tail if last else start + ahead, made, chunk, to, tail, way, hop + 1))
                made += 1
                continue
            end = max(end, tail + endpoint)
            missing[to][chunk] -= 1
            if not missing[to][chunk] and begun[to] < self.chunks:
                begun[to] += 1
                begin(to, begun[to] - 1, tail + endpoint)
        return Outcome(end, {0: 0.0}, {0: end}, self.aware, self.links.busiest())

    def _way(self, source: int, destination: int, turn: int) -> list[_Hop]:
        """Links from a rank to another; ``turn`` says with which dimension the way begins."""
        here, there = list(self.addresses[source]), self.addresses[destination]
        count = len(here)
        way: list[_Hop] = []
        for i in ((turn + j) % count for j in range(count)):
            if here[i] != there[i]:
                base = sum(a * s for j, (a, s) in enumerate(zip(here, self.strides, strict=True)) if j != i)
                up = sum(self.addresses[source]) % 2 == 0
                for a, b in _steps(self.topology.dimensions[i], here[i], there[i], up):
                    way.append((i, self.links[i, base, a, b]))
                here[i] = there[i]
        return way


def _steps(dimension: Dimension, source: int, destination: int, up: bool) -> Iterator[tuple[int, int]]:
    """The links of a route inside a dimension; to the place opposite on a ring, up or down."""
    n = dimension.ranks
    if dimension.kind in ("ring", "torus") and 2 * abs(destination - source) == n and not up:
        return pairwise([(source - k) % n for k in range(n // 2 + 1)])
    return pairwise(dimension.route(source, destination))
