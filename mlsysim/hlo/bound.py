"""A time that no fusion of a program can beat: all of its work in one kernel, as if everything fitted on the chip.

Such a kernel does the program's work at the device's peaks, reads of each argument once what the program reads of it, and writes
each result once. Nothing between goes through memory: not the scores of an attention, not the activations of a network. So
the time is a bound for every compiler, and mostly a loose one. The program's loops and branches are as everywhere: a loop without a
count runs once, and of branches the heaviest is taken. The roofline of our fusion (:mod:`mlsysim.hlo.estimate`) is none:
it is the time of the kernels that our rule makes, and better kernels can be faster.
"""

from collections.abc import Iterator, Sequence
from math import fsum

from mlsysim.hlo.fusing.fusion import Kernel, LoopKernels, Piece
from mlsysim.hlo.fusing.items import Work


def _written(pieces: Sequence[Piece]) -> set[int]:
    return {v for p in pieces for v in p.writes} | {
        v for p in pieces if isinstance(p, LoopKernels) for v in _written(p.body)
    }


def _outside(
    pieces: Sequence[Piece], seen: frozenset[int] | None = None
) -> Iterator[tuple[Kernel, frozenset[int] | None]]:
    """Every kernel, with the values that loops around it take from outside (None: there is no loop). What a loop carries is not
    among them: it may stay on the chip from turn to turn."""
    for piece in pieces:
        if isinstance(piece, Kernel):
            yield piece, seen
        elif isinstance(piece, LoopKernels):
            yield from _outside(piece.body, frozenset(piece.reads) if seen is None else seen & piece.reads.keys())


def compulsory(pieces: Sequence[Piece], results: Sequence[int]) -> float:
    """Bytes that cross the program's own boundary: of each argument the most that one kernel reads of it, and each result.

    What a loop reads is counted for one turn, since all turns may read the same.
    """
    made, wanted = _written(pieces), set(results)
    reads: dict[int, float] = {}
    writes: dict[int, float] = {}
    for kernel, seen in _outside(pieces):
        for value, part in kernel.reads.items():
            if value not in made and (seen is None or value in seen):
                reads[value] = max(part, reads.get(value, 0.0))
        for value, part in kernel.writes.items():
            if value in wanted:
                writes[value] = max(part, writes.get(value, 0.0))
    return fsum(reads.values()) + fsum(writes.values())


def least(pieces: Sequence[Piece], work: Work, results: Sequence[int]) -> Work:
    """The part of a program's work that no fusion saves: all of it but for the bytes, which are the compulsory ones.

    Nothing can take less than :meth:`mlsysim.hlo.estimators.RooflineEstimator.seconds` of it.
    """
    # A call may say that it moves less than its operands and results are
    return work._replace(bytes=min(work.bytes, compulsory(pieces, results)))
