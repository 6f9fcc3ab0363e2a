"""Estimators that price matrix products by an array of multipliers, and everything else by a roofline."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from mlsysim.catalog import Device
from mlsysim.errors import InputError
from mlsysim.hlo.estimators.arrays import SystolicArray
from mlsysim.hlo.estimators.base import Arguments, Estimator, RunTime
from mlsysim.hlo.estimators.pricing import running
from mlsysim.hlo.estimators.roofline import RooflineEstimator, kernels_of
from mlsysim.hlo.fusing.fusion import Kernel
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.work.products import Gemm


def gemms_of(kernels: Iterable[tuple[Kernel, int]]) -> Counter[Gemm]:
    """The distinct products of some kernels, in order, with the times each runs."""
    found: Counter[Gemm] = Counter()
    for kernel, times in kernels:
        for node in kernel.nodes:
            if node.cost.gemm is not None:
                found[node.cost.gemm] += times
    return found


def products_of(regions: Sequence[Region]) -> Counter[Gemm]:
    """Every product in some regions with the times it runs."""
    computing = ((region, times) for region, times in running(regions) if region.kind == "compute")
    return gemms_of((kernel, times * n) for region, times in computing for kernel, n in kernels_of(region, "products"))


class SystolicEstimator(Estimator):
    """Products on systolic arrays by closed forms, the rest of each kernel by the roofline of the device.

    A kernel takes as long as the slowest of: its products one after another on the arrays, its vector work, its memory traffic. The
    device gives the vector rate and the memory; its own matrix peaks are not used.
    """

    name = "systolic"

    def __init__(self, device: Device, array: SystolicArray, memory_efficiency: float = 1.0) -> None:
        self.array = array
        self.rest = RooflineEstimator(device, memory_efficiency=memory_efficiency)

    def gemm_times(self, gemms: Iterable[Gemm]) -> Mapping[Gemm, float]:
        """Seconds of each product."""
        return {gemm: self.array.seconds(gemm) for gemm in gemms}

    def get_run_time_estimate(self, region: Region) -> RunTime:
        """Time of a region; ``parts`` splits it by what bound each kernel: the arrays or the roofline."""
        kernels = kernels_of(region, self.name)
        times = self.gemm_times(gemms_of(kernels))
        parts = {self.name: 0.0, self.rest.name: 0.0}
        for kernel, count in kernels:
            work = [node.cost for node in kernel.nodes if node.cost.matrix_flops]
            products = fsum(self._product(cost.gemm, times) for cost in work if not cost.ground)
            # A call that is priced as a whole, such as a fused attention, tells no product: the device's own roofline prices it
            whole = any(cost.ground for cost in work)
            other = self.rest.seconds(kernel.work if whole else kernel.work._replace(matrix={}))
            parts[self.name if products > other else self.rest.name] += count * max(products, other)
        seconds = fsum(parts.values())
        return RunTime(seconds, seconds, seconds, self.name, {k: v for k, v in parts.items() if v})

    def _product(self, gemm: Gemm | None, times: Mapping[Gemm, float]) -> float:
        if gemm is None:
            raise InputError(f"{self.name}: a product whose shape is not known cannot run on an array")
        return times[gemm]

    def get_compile_args(self) -> Arguments:
        """The arrays, and the device's figures."""
        a = self.array
        found = dict(self.rest.get_compile_args())
        found |= {"rows": a.rows, "columns": a.columns, "arrays": a.arrays, "clock": a.clock, "dataflow": a.dataflow}
        return found
