"""When regions run on one device with a stream for computing and a stream for communicating."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from mlsysim.hlo.slicing import Region


@dataclass(frozen=True, slots=True)
class Timeline:
    """Start and end of every region in s, and when the last one ends."""

    spans: tuple[tuple[float, float], ...]
    total: float


def schedule(regions: Sequence[Region], seconds: Callable[[Region], float]) -> Timeline:
    """Start regions as they become ready, the earliest in the program first, one at a time on each stream.

    Parameters
    ----------
    regions : sequence of Region
        In an order in which they can run.
    seconds : callable
        Time of a compute or communication region by itself. A loop takes both streams for its turns, one after another.

    Returns
    -------
    Timeline
    """
    waits = [len(region.after) for region in regions]
    leads: list[list[int]] = [[] for _ in regions]
    for i, region in enumerate(regions):
        for source in region.after:
            leads[source].append(i)
    ready: dict[str, list[int]] = {"compute": [], "comm": [], "loop": []}
    for i, region in enumerate(regions):
        if not waits[i]:
            heappush(ready[region.kind], i)
    spans = [(0.0, 0.0)] * len(regions)
    running: list[tuple[float, int]] = []
    idle = {"compute", "comm"}
    now = 0.0

    def start(kind: str) -> None:
        i = heappop(ready[kind])
        region = regions[i]
        if kind == "loop":
            time = region.count * schedule(region.body, seconds).total
            idle.clear()
        else:
            time = seconds(region)
            idle.discard(kind)
        spans[i] = (now, now + time)
        heappush(running, (now + time, i))

    while True:
        loop = ready["loop"][0] if ready["loop"] else len(regions)
        for kind in ("compute", "comm"):  # what stands before a waiting loop may still start
            if kind in idle and ready[kind] and ready[kind][0] < loop:
                start(kind)
        if ready["loop"] and len(idle) == 2:
            start("loop")
        if not running:
            break
        now, done = heappop(running)
        idle |= {"compute", "comm"} if regions[done].kind == "loop" else {regions[done].kind}
        for follower in leads[done]:
            waits[follower] -= 1
            if not waits[follower]:
                heappush(ready[regions[follower].kind], follower)
    return Timeline(tuple(spans), max((end for _, end in spans), default=0.0))
