"""Regions: a program's kernels between its collectives, as a directed graph without cycles.

The linear split keeps program order: what stands between two collectives is one region. The dependency-aware split puts
kernels together that wait for the same collectives and that the same collectives wait for; a collective may then start
as soon as its own inputs are there. Both hold the same kernels, so every total is the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim.errors import unknown_name
from mlsysim.hlo.fusing import joining
from mlsysim.hlo.fusing.fusion import Kernel, LoopKernels, Piece
from mlsysim.hlo.fusing.items import Collective
from mlsysim.hlo.reader.limits import MAX_BITS, check


@dataclass(frozen=True, slots=True)
class Region:
    """Kernels that run one after another, one collective, or a loop whose body communicates.

    ``after`` are the indices of the regions that it waits for, each smaller than its own.
    """

    kind: str  # "compute", "comm" or "loop"
    pieces: tuple[Piece, ...]
    after: tuple[int, ...]
    body: "tuple[Region, ...]" = ()  # of a loop
    count: int = 1  # times that a loop's body runs

    def __repr__(self) -> str:
        inside = f", {self.count} x {len(self.body)} regions" if self.body else ""
        return f"Region({self.kind}, {len(self.pieces)} pieces{inside}, after {len(self.after)} others)"

    def signature(self) -> Any:
        """Equal for regions that do the same work on the same shapes."""
        if self.kind == "loop":
            return self.kind, self.count, tuple((r.signature(), r.after) for r in self.body)
        return self.kind, tuple(_signature(p) for p in self.pieces)


def _signature(piece: Piece) -> Any:
    if isinstance(piece, Kernel):
        return piece.signature, sum(piece.reads.values()), sum(piece.writes.values())
    if isinstance(piece, Collective):
        return piece.op, piece.in_bytes, piece.out_bytes, piece.groups
    return piece.count, tuple(_signature(p) for p in piece.body)


def is_barrier(piece: Piece) -> bool:
    """Whether the piece communicates: a collective, or a loop that holds one."""
    return isinstance(piece, Collective) or (isinstance(piece, LoopKernels) and piece.communicates)


def _alone(piece: Piece, after: tuple[int, ...], split: str) -> Region:
    if isinstance(piece, LoopKernels):
        return Region("loop", (piece,), after, slices(piece.body, split), piece.count)
    return Region("comm", (piece,), after)


def _linear(pieces: Sequence[Piece]) -> tuple[Region, ...]:
    regions: list[Region] = []
    pending: list[Piece] = []

    def before() -> tuple[int, ...]:
        return (len(regions) - 1,) if regions else ()

    for piece in pieces:
        if not is_barrier(piece):
            pending.append(piece)
            continue
        if pending:
            regions.append(Region("compute", tuple(pending), before()))
            pending = []
        regions.append(_alone(piece, before(), "linear"))
    if pending:
        regions.append(Region("compute", tuple(pending), before()))
    return tuple(regions)


def _dependency(pieces: Sequence[Piece]) -> tuple[Region, ...]:
    barriers = [i for i, piece in enumerate(pieces) if is_barrier(piece)]
    check(len(barriers) * len(pieces), MAX_BITS, "the number of collectives times kernels", "use the linear split")
    bit = {i: 1 << n for n, i in enumerate(barriers)}
    sources = joining.sources(pieces, lambda piece: piece.reads)
    same: dict[int, int] = {}  # equal sets as one object
    before, behind = (
        [0] * len(pieces),
        [0] * len(pieces),
    )  # the collectives that a piece, or its reader, waits for, a bit each
    for i, found in enumerate(sources):
        waits = 0
        for source in found:
            waits |= behind[source]
        before[i] = behind[i] = same.setdefault(waits, waits)
        if i in bit:
            behind[i] = waits | bit[i]
    after = [0] * len(pieces)  # the collectives that wait for a piece
    for i in range(len(pieces) - 1, -1, -1):
        waits = after[i] = same.setdefault(after[i], after[i])
        if i in bit:
            waits |= bit[i]
        for source in sources[i]:
            after[source] |= waits
    group: dict[tuple[int, int], int] = {}
    members: list[list[int]] = []
    region_of = []
    for i in range(len(pieces)):
        key = (i, -1) if i in bit else (id(before[i]), id(after[i]))
        if key not in group:
            group[key] = len(members)
            members.append([])
        region_of.append(group[key])
        members[group[key]].append(i)
    waits_for: list[set[int]] = [set() for _ in members]
    for i, found in enumerate(sources):
        waits_for[region_of[i]] |= {region_of[s] for s in found} - {region_of[i]}
    regions: list[Region] = []
    place: dict[int, int] = {}
    for r in joining.in_order(waits_for):  # regions are numbered as their first pieces stand
        place[r] = len(regions)
        deps = tuple(sorted(place[d] for d in waits_for[r]))
        first = pieces[members[r][0]]
        if members[r][0] in bit:
            regions.append(_alone(first, deps, "dependency"))
        else:
            regions.append(Region("compute", tuple(pieces[i] for i in members[r]), deps))
    return tuple(regions)


SPLITS: dict[str, Callable[[Sequence[Piece]], tuple[Region, ...]]] = {"linear": _linear, "dependency": _dependency}


def slices(pieces: Sequence[Piece], split: str = "dependency") -> tuple[Region, ...]:
    """Slice kernels and collectives, in an order in which they can run, into regions.

    Raises
    ------
    UnknownNameError
        For a split that is neither ``linear`` nor ``dependency``.
    """
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    return SPLITS[split](pieces)


def count(regions: Sequence[Region]) -> int:
    """Regions that run, those of a loop's body once per turn."""
    return sum(r.count * count(r.body) if r.kind == "loop" else 1 for r in regions)
