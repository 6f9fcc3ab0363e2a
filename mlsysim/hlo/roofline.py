"""The time of a kernel from its work and its traffic, on one device: the slowest of matrix units, vector units and memory."""

from collections.abc import Mapping
from functools import cached_property

from mlsysim import roofline
from mlsysim.catalog import Device
from mlsysim.errors import InputError
from mlsysim.hlo.fusing.fusion import Kernel

_PRECISION = {"bf16": "bf16", "f16": "fp16", "f64": "fp64", "complex<f64>": "fp64", "tf32": "tf32"}


def precision_of(dtype: str, device: Device) -> str:
    """The precision of the device's matrix units that a product of inputs of this type runs at.

    A product of f32 at default precision runs in TF32 where there is TF32, as XLA runs it on a GPU, and in BF16 on a device
    that multiplies nothing wider, as on a TPU (JAX's page on matmul precision); one that asks for more ("f32 exact") runs in
    FP32. Integers wider than 8 bit run at the FP32 rate.
    """
    if dtype in _PRECISION:
        return _PRECISION[dtype]
    if dtype == "f32":
        listed = (p for p in ("tf32", "fp32", "bf16") if device.has(f"peak_flops.{p}"))
        return next(listed, "fp32")
    for prefix, precision in (("f8", "fp8"), ("f6", "fp6"), ("f4", "fp4")):
        if dtype.startswith(prefix):
            return precision
    return {"i8": "int8", "ui8": "int8", "i4": "int4", "ui4": "int4"}.get(dtype, "fp32")


class Roofline:
    """Times kernels of one device. ``run_as`` maps a type of inputs to the precision that its products run at."""

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
        self._rates: dict[str, float] = {}

    def peak(self, dtype: str) -> float:
        """Dense peak for products of this type; a device that lists none raises."""
        if dtype not in self._rates:
            precision = self.run_as.get(dtype) or precision_of(dtype, self.device)
            self._rates[dtype] = self.device.peak_flops[precision]
        return self._rates[dtype]

    @cached_property
    def vector_rate(self) -> float | None:
        """FLOP/s outside the matrix units; None where the catalogue has no figure, and then only memory bounds such work."""
        rates = self.device.vector_flops
        return rates["fp32"] if "fp32" in rates.by_precision else None

    def without_products(self, kernel: Kernel) -> float:
        """The bound of one kernel by its traffic and its vector work alone, where its products run elsewhere."""
        moved, vector, _ = kernel.sums()
        time = moved / self.bandwidth
        if self.vector_rate:
            time = max(time, vector / self.vector_rate)
        return time

    def seconds(self, kernel: Kernel) -> float:
        """The bound of one kernel."""
        time = self.without_products(kernel)
        matrix = kernel.sums()[2]
        if matrix:
            time = max(time, sum(work / (self.peak(dtype) * self.efficiency) for dtype, work in matrix.items()))
        return time
