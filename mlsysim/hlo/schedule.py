"""When regions run on one device with a stream for computing and a stream for communicating."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlsysim import network, units
from mlsysim.hlo.fusing.slicing import Region

_STREAM = {"compute": "compute", "comm": "communication"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """Start and end of every region in s, and when the last one ends."""

    spans: tuple[tuple[float, float], ...]
    total: float

    def __repr__(self) -> str:
        return f"Timeline({len(self.spans)} regions, {units.format(self.total, 's')})"


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
    spans: list[tuple[float, float]] = []
    now = 0.0
    first = 0  # of the regions since the last loop

    def run(until: int) -> float:
        tasks = [
            network.Task(
                str(i),
                _STREAM[regions[i].kind],
                seconds(regions[i]),
                tuple(str(d) for d in regions[i].after if d >= first),
            )
            for i in range(first, until)
        ]
        done = network.schedule(tasks)
        spans.extend((now + done.starts[t.name], now + done.ends[t.name]) for t in tasks)
        return done.time

    for i, region in enumerate(regions):
        if region.kind == "loop":
            start = now = now + run(i)
            now += region.count * schedule(region.body, seconds).total
            spans.append((start, now))
            first = i + 1
    now += run(len(regions))
    return Timeline(tuple(spans), now)
