"""The analytical estimator: each kernel takes as long as the slowest of matrix units, vector units and memory."""

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from mlsysim.catalog import Device
from mlsysim.errors import InputError
from mlsysim.hlo.estimators.base import Arguments, RunTime
from mlsysim.hlo.fusing.fusion import Kernel, LoopKernels, Piece
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.roofline import Roofline


def weighted(pieces: Sequence[Piece], times: int = 1) -> Iterator[tuple[Kernel, int]]:
    """Every kernel of some pieces with the times it runs."""
    for piece in pieces:
        if isinstance(piece, Kernel):
            yield piece, times
        elif isinstance(piece, LoopKernels):
            yield from weighted(piece.body, times * piece.count)


def kernels_of(region: Region, owner: str) -> list[tuple[Kernel, int]]:
    """The kernels of a compute region with the times each runs; a region of another kind is refused."""
    if region.kind != "compute":
        raise InputError(
            f"{owner}: the region is of kind {region.kind!r}; an estimator prices regions of kind 'compute'"
        )
    return list(weighted(region.pieces))


class RooflineEstimator:
    """The sum of its kernels' rooflines. ``efficiency`` and ``memory_efficiency`` are fractions of the peaks; at 1 no kernel is faster."""

    name = "roofline"

    def __init__(
        self,
        device: Device,
        efficiency: float = 1.0,
        memory_efficiency: float = 1.0,
        run_as: Mapping[str, str] | None = None,
    ) -> None:
        self.clock = Roofline(device, efficiency, memory_efficiency, run_as)

    def get_run_time_estimate(self, region: Region) -> RunTime:
        """Time of a region."""
        seconds = fsum(self.clock.seconds(kernel) * n for kernel, n in kernels_of(region, self.name))
        return RunTime.exactly(seconds, self.name)

    def get_compile_args(self) -> Arguments:
        """The device's figures and what is made of them."""
        clock = self.clock
        figures: dict[str, str | int | float | bool] = {
            "device": clock.device.name,
            "memory_bandwidth": clock.bandwidth,
            "efficiency": clock.efficiency,
            "vector_rate": clock.vector_rate or 0.0,
        }
        peaks = {f"peak {precision}": rate for precision, rate in clock.device.peak_flops.by_precision.items()}
        return figures | peaks | {f"run {dtype} as": precision for dtype, precision in sorted(clock.run_as.items())}

    def get_exec_args(self) -> Arguments:
        """None: it runs nothing."""
        return {}
