"""Regions one after another as they run: loops that communicate unrolled, every region with its time.

A collective that a compiler would join from several is written as those, one behind the other: so the estimate times it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum, isfinite

from mlsysim.errors import InputError, unknown_name
from mlsysim.hlo.fusing.items import Collective
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.reader.limits import check

MAX_STEPS = 100_000
MAX_EDGES = 4_000_000
MICRO = 1e-6
ROUNDINGS = ("carried", "nearest")


@dataclass(frozen=True, slots=True)
class Step:
    """A region that runs once, or one message of it. ``data`` are the steps whose results it waits for, ``order`` those that it
    follows because a loop runs turn by turn."""

    region: Region
    name: str
    data: tuple[int, ...]
    order: tuple[int, ...] = ()
    seconds: float = 0.0  # of a compute region
    micros: int = 0
    message: Collective | None = None


def messages(region: Region) -> tuple[Collective, ...]:
    """The collectives of a region that communicates."""
    return tuple(part for piece in region.pieces if isinstance(piece, Collective) for part in piece.parts or (piece,))


def count(regions: Sequence[Region]) -> int:
    """Steps that regions make, those of a loop's body once per turn."""
    return sum(
        r.count * count(r.body) if r.kind == "loop" else len(messages(r)) if r.kind == "comm" else 1 for r in regions
    )


class _Unroller:
    def __init__(self, seconds: Callable[[Region], float]) -> None:
        self.seconds = seconds
        self.steps: list[Step] = []
        self.known: dict[int, float] = {}
        self.edges = 0

    def time(self, region: Region) -> float:
        if region.kind != "compute":
            return 0.0
        if id(region) not in self.known:
            self.known[id(region)] = self.seconds(region)
        return self.known[id(region)]

    def add(self, regions: Sequence[Region], path: str, first: tuple[int, ...]) -> tuple[int, ...]:
        """Add regions that start after the steps ``first``. Returns the steps that nothing here waits for."""
        place: dict[int, int] = {}  # of the regions since the last loop
        open_ends: dict[int, None] = {}
        for i, region in enumerate(regions):
            if region.kind == "loop":
                first = tuple(open_ends) or first
                for turn in range(region.count):
                    first = self.add(region.body, f"{path}{i}@{turn}.", first)
                place, open_ends = {}, {}
                continue
            data = tuple(place[d] for d in region.after if d in place)
            order = () if data else first
            for d in data:
                open_ends.pop(d, None)
            name = f"{region.kind} r{path}{i}"
            for message in messages(region) if region.kind == "comm" else (None,):
                self.edges += len(data) + len(order)
                check(self.edges, MAX_EDGES, "the number of dependencies in the trace", "use the linear split")
                place[i] = len(self.steps)
                self.steps.append(Step(region, name, data, order, self.time(region), message=message))
                data, order = (place[i],), ()
            open_ends[place[i]] = None
        return tuple(open_ends) or first


def unroll(regions: Sequence[Region], seconds: Callable[[Region], float], most: int = MAX_STEPS) -> tuple[Step, ...]:
    """Every region as often as it runs.

    Raises
    ------
    InputError
        When there are more than ``most``: a trace has no loops, so a loop that communicates is written out turn by turn.
    """
    check(count(regions), most, "the number of regions with loops unrolled", "communicate outside of loops")
    unroller = _Unroller(seconds)
    unroller.add(regions, "", ())
    return tuple(unroller.steps)


def whole_micros(seconds: Sequence[float], rounding: str = "carried") -> Iterator[int]:
    """Times in whole microseconds.

    ``nearest`` rounds each by itself, so that errors may add up. ``carried`` hands what it cut to the next, so that every sum
    from the start is right to half a microsecond.

    >>> list(whole_micros([0.4e-6] * 5, "nearest")), list(whole_micros([0.4e-6] * 5))
    ([0, 0, 0, 0, 0], [0, 1, 0, 1, 0])
    """
    if rounding not in ROUNDINGS:
        raise unknown_name("rounding", rounding, ROUNDINGS)
    written = 0
    total = 0.0
    lost = 0.0  # of the running sum, as Kahan keeps it
    for time in seconds:
        if not isfinite(time) or time < 0:
            raise InputError(f"a region of {time} s cannot be written; times are finite and at least 0")
        if rounding == "nearest":
            yield round(time / MICRO)
            continue
        wanted = fsum((total, time, lost))
        lost = fsum((total, time, lost, -wanted))
        total = wanted
        micros = round(total / MICRO) - written
        written += micros
        yield micros
