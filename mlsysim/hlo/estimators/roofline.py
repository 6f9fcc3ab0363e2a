"""The analytical estimator: each kernel takes as long as the slowest of matrix units, vector units and memory."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import fsum

from mlsysim import roofline
from mlsysim.catalog import Device
from mlsysim.errors import InputError
from mlsysim.hlo.estimators.base import Arguments, Estimator, RunTime
from mlsysim.hlo.fusing.fusion import Kernel, LoopKernels, Piece
from mlsysim.hlo.fusing.items import Work
from mlsysim.hlo.fusing.slicing import Region

_PRECISION = {"bf16": "bf16", "f16": "fp16", "f64": "fp64", "complex<f64>": "fp64", "tf32": "tf32"}
_PRECISION |= {"i8": "int8", "ui8": "int8", "i4": "int4", "ui4": "int4"}


def precision_of(dtype: str, device: Device) -> str:
    """The precision of the device's matrix units that a product of inputs of this type runs at.

    A product of f32 at default precision runs in TF32 where there is TF32, as XLA runs it on a GPU, and in BF16 on a device
    that multiplies nothing wider, as on a TPU (JAX's page on matmul precision); one that asks for more ("f32 exact") runs in
    FP32. Integers wider than 8 bit run at the FP32 rate.
    """
    if dtype == "f32":
        return next((p for p in ("tf32", "fp32", "bf16") if device.has(f"peak_flops.{p}")), "fp32")
    narrow = {"f8": "fp8", "f6": "fp6", "f4": "fp4"}.get(dtype[:2])
    return narrow or _PRECISION.get(dtype, "fp32")


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


class RooflineEstimator(Estimator):
    """The sum of its kernels' rooflines. ``efficiency`` and ``memory_efficiency`` are fractions of the peaks; at 1 no kernel is faster.

    ``run_as`` maps a type of inputs to the precision that its products run at.
    """

    name = "roofline"

    def __init__(
        self,
        device: Device,
        efficiency: float = 1.0,
        memory_efficiency: float = 1.0,
        run_as: Mapping[str, str] | None = None,
    ) -> None:
        self.device, self.efficiency = device, efficiency
        self.bandwidth = float(roofline.effective_bandwidth(device.memory_bandwidth, memory_efficiency))
        self.run_as = dict(run_as or {})
        if not 0 < efficiency <= 1:
            raise InputError(f"efficiency = {efficiency} is outside (0, 1]")
        self._peaks: dict[str, float] = {}

    def peak(self, dtype: str) -> float:
        """Dense peak for products of this type; a device that lists none raises."""
        if dtype not in self._peaks:
            self._peaks[dtype] = self.device.peak_flops[self.run_as.get(dtype) or precision_of(dtype, self.device)]
        return self._peaks[dtype]

    @cached_property
    def vector_rate(self) -> float | None:
        """FLOP/s outside the matrix units; None where the catalogue has no figure, and then only memory bounds such work."""
        rates = self.device.vector_flops
        return rates["fp32"] if "fp32" in rates.by_precision else None

    def seconds(self, work: Work) -> float:
        """The bound of one kernel's work, by the same two times as every kernel's of the library."""
        clocks = [roofline.memory_time(work.bytes, self.bandwidth)]
        if self.vector_rate:
            clocks.append(roofline.compute_time(work.vector, self.vector_rate))
        products = (roofline.compute_time(n, self.peak(dtype), self.efficiency) for dtype, n in work.matrix.items())
        return float(max(*clocks, fsum(products)))

    def get_run_time_estimate(self, region: Region) -> RunTime:
        """Time of a region."""
        seconds = fsum(self.seconds(kernel.work) * n for kernel, n in kernels_of(region, self.name))
        return RunTime.exactly(seconds, self.name)

    def get_compile_args(self) -> Arguments:
        """The device's figures and what is made of them."""
        figures: dict[str, str | int | float | bool] = {
            "device": self.device.name,
            "memory_bandwidth": self.bandwidth,
            "efficiency": self.efficiency,
            "vector_rate": self.vector_rate or 0.0,
        }
        peaks = {f"peak {precision}": rate for precision, rate in self.device.peak_flops.by_precision.items()}
        return figures | peaks | {f"run {dtype} as": precision for dtype, precision in sorted(self.run_as.items())}
