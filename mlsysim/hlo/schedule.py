"""When regions run on one device with a stream for computing and a stream for communicating."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from mlsysim import units
from mlsysim.errors import InputError
from mlsysim.hlo.fusing.slicing import Region

_STREAMS = ("compute", "comm")


@dataclass(frozen=True, slots=True)
class Timeline:
    """Start and end of every region in s, and when the last one ends."""

    spans: tuple[tuple[float, float], ...]
    total: float

    def __repr__(self) -> str:
        return f"Timeline({len(self.spans)} regions, {units.format(self.total, 's')})"


class _Stretch:
    """Regions between two loops, numbered from its first: the stream of each, for how many it waits, and who waits for it."""

    def __init__(self, regions: Sequence[Region], first: int) -> None:
        self.regions = regions
        self.streams = [_STREAMS.index(r.kind) for r in regions]
        before = [[d - first for d in region.after if d >= first] for region in regions]
        self.waits = [len(found) for found in before]
        self.followers: list[list[int]] = [[] for _ in regions]
        for i, found in enumerate(before):
            for d in found:
                self.followers[d].append(i)

    def run(self, seconds: Callable[[Region], float], begin: float) -> tuple[list[tuple[float, float]], float]:
        """Spans of all, and when the last one ends. The same rule as :func:`mlsysim.network.schedule`, for one rank."""
        takes = [seconds(region) for region in self.regions]
        for time in takes:
            if not 0 <= time < inf:
                raise InputError(f"schedule: duration = {time} of a region must be finite and at least 0 s")
        streams, followers, waits = self.streams, self.followers, list(self.waits)
        ready: tuple[list[int], list[int]] = ([], [])
        for i, n in enumerate(waits):
            if not n:
                ready[streams[i]].append(i)  # in order, so each is a heap
        spans = [(begin, begin)] * len(takes)
        runs, ends, now = [-1, -1], [inf, inf], 0.0
        while True:
            for stream in (0, 1):
                if runs[stream] < 0 and ready[stream]:
                    i = runs[stream] = heappop(ready[stream])
                    ends[stream] = now + takes[i]
                    spans[i] = (begin + now, begin)
            if min(ends) == inf:
                return spans, now
            now = min(ends)
            for stream in (0, 1):
                if ends[stream] == now:
                    i, runs[stream], ends[stream] = runs[stream], -1, inf
                    spans[i] = (spans[i][0], begin + now)
                    for j in followers[i]:
                        waits[j] -= 1
                        if not waits[j]:
                            heappush(ready[streams[j]], j)


class Order:
    """What a schedule needs to know of regions besides their times: made once for all times that a slider asks for."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._parts: list[tuple[_Stretch, tuple[Region, Order] | None]] = []
        first = 0  # of the regions since the last loop
        for i, region in enumerate(regions):
            if region.kind == "loop":
                self._parts.append((_Stretch(regions[first:i], first), (region, Order(region.body))))
                first = i + 1
        self._parts.append((_Stretch(regions[first:], first), None))

    def run(self, seconds: Callable[[Region], float]) -> Timeline:
        """When each region runs; see :func:`schedule`."""
        spans: list[tuple[float, float]] = []
        now = 0.0
        for stretch, loop in self._parts:
            found, took = stretch.run(seconds, now)
            spans += found
            now += took
            if loop is not None:
                region, body = loop
                start, now = now, now + region.count * body.run(seconds).total
                spans.append((start, now))
        return Timeline(tuple(spans), now)


def schedule(regions: Sequence[Region], seconds: Callable[[Region], float]) -> Timeline:
    """Start regions as they become ready, the earliest in the program first, one at a time on each stream.

    Parameters
    ----------
    regions : sequence of Region
        In an order in which they can run.
    seconds : callable
        Time of a compute or communication region by itself. A loop that communicates runs alone: after all that stands
        before it, and turn by turn.

    Returns
    -------
    Timeline
    """
    return Order(regions).run(seconds)
