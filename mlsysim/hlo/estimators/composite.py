"""Several estimators for one program: each kernel goes to the first that takes one of its operations."""

from collections.abc import Mapping
from itertools import groupby
from math import fsum

from mlsysim.errors import InputError
from mlsysim.hlo.estimators.base import Arguments, Estimator, RunTime
from mlsysim.hlo.fusing.fusion import Kernel, LoopKernels, Piece
from mlsysim.hlo.fusing.slicing import Region

PRODUCTS = "products"  # every operation with matrix work: dots, convolutions, and library calls that are one of them


class CompositeEstimator:
    """Prices kernels by what is in them.

    ``by_op`` maps an operation (``dot_general``, ``convolution``, ...), or ``"products"`` for all with matrix work, to its estimator.
    A kernel goes to the first entry that names one of its operations, and to ``rest`` if none does. The times of the parts of a
    region add up: its kernels run one after another. ``parts`` of the answer holds the seconds of each estimator.
    """

    name = "composite"

    def __init__(self, by_op: Mapping[str, Estimator], rest: Estimator) -> None:
        if not by_op:
            raise InputError("composite: by_op is empty; with one estimator for everything, use that one")
        self.by_op, self.rest = dict(by_op), rest
        self._all = (*self.by_op.items(), ("rest", rest))

    def chosen(self, kernel: Kernel) -> Estimator:
        """The estimator of a kernel."""
        bases = {node.base for node in kernel.nodes}
        products = any(node.cost.matrix_flops for node in kernel.nodes)
        for op, estimator in self.by_op.items():
            if op in bases or (op == PRODUCTS and products):
                return estimator
        return self.rest

    def get_run_time_estimate(self, region: Region) -> RunTime:
        """Time of a region: the sum over its kernels."""
        found: list[tuple[RunTime, int]] = []
        self._price(region.pieces, 1, found)
        parts: dict[str, float] = {}
        for price, times in found:
            for source, seconds in (price.parts or {price.source: price.seconds}).items():
                parts[source] = parts.get(source, 0.0) + seconds * times
        low, middle, high = (
            fsum(getattr(p, what) * times for p, times in found) for what in ("low", "seconds", "high")
        )
        return RunTime(middle, min(low, middle), max(high, middle), self.name, parts)

    def _price(self, pieces: tuple[Piece, ...], times: int, found: list[tuple[RunTime, int]]) -> None:
        """Price the pieces, those of one estimator that follow each other together; a loop turn by turn."""

        def owner(piece: Piece) -> Estimator | None:
            if isinstance(piece, LoopKernels):
                return None
            if not isinstance(piece, Kernel):
                raise InputError(f"{self.name}: a compute region holds a {type(piece).__name__}")
            return self.chosen(piece)

        for estimator, together in groupby(pieces, owner):
            if estimator is not None:
                region = Region("compute", tuple(together), ())
                found.append((estimator.get_run_time_estimate(region), times))
                continue
            for piece in together:
                assert isinstance(piece, LoopKernels)
                self._price(tuple(piece.body), times * piece.count, found)

    def get_compile_args(self) -> Arguments:
        """Those of its parts, each under what it prices."""
        names: dict[str, str | int | float | bool] = {op: part.name for op, part in self._all}
        return names | {f"{op}: {key}": v for op, part in self._all for key, v in part.get_compile_args().items()}

    def get_exec_args(self) -> Arguments:
        """Those of its parts, each under what it prices."""
        return {f"{op}: {key}": v for op, part in self._all for key, v in part.get_exec_args().items()}
