"""Class gemm: one matrix product (or a group of equal ones) on one device.

The time is eq-kernel-time on whole tiles, the result written after the last multiply-add. Memory efficiency comes from
STREAM, never from products. What is fitted is one share of the peak per vendor and width of precision, and one start-up
time per vendor. A device without a like in the rows of the fit gets datasheet values and sourced efficiencies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import catalog, kernels
from mlsysim.validation.measured.checks import stream_efficiency
from mlsysim.validation.measured.measurements import measurements
from mlsysim.validation.predictors.base import (
    Constants,
    Prediction,
    Predictor,
    Row,
    Sample,
    Unsupported,
    element_bytes,
)
from mlsysim.validation.predictors.fitting import coordinate_descent, log_loss, steps, votes

TILE, NARROW_TILE = 128, 64  # the sizes that nvidia2023matmul, sec. 2.3, finds typical
_STREAM = {"Ampere": "a100", "Hopper": "h100"}  # generations whose STREAM figures we ship
_MIN_ROWS = 2  # no constant may rest on a single row


@dataclass(frozen=True)
class Work:
    """A product in the terms of eq-kernel-time."""

    flops: float
    reads: float
    writes: float
    peak: float
    bandwidth: float
    memory_efficiency: float
    family: str
    silicon: str
    vendor: str

    def time(self, compute_efficiency: float, startup: float) -> float:
        return float(
            kernels.measured_kernel_time(
                self.flops,
                self.reads,
                self.peak,
                self.bandwidth,
                compute_efficiency,
                self.memory_efficiency,
                startup,
                unhidden_bytes=self.writes,
            )
        )


def memory_efficiency(row: Row) -> float:
    """Share of the bandwidth that STREAM triad reaches on the device's generation; 1 where we ship no measurement."""
    short = _STREAM.get(row.generation)
    if short is None:
        row.assume("memory_efficiency", 1.0, "the bound: no STREAM measurement of this generation")
        return 1.0
    return stream_efficiency(short, "triad")


def _work(row: Row) -> Work:
    groups = row.number_or("groups", 1.0)
    m, n, k = row.number("m"), row.number("n"), row.number("k")
    if not min(m, n, k, groups) > 0:
        raise Unsupported("an empty product has no time")
    precision = row.need("precision")
    size, out = element_bytes(precision), element_bytes(row.or_assume("out_precision", precision, "as the inputs"))
    padded_m, padded_n = (kernels.tile_padding(x, NARROW_TILE if x <= NARROW_TILE else TILE) for x in (m, n))
    device = row.device
    vendor = device.vendor if device else "?"
    return Work(
        flops=float(groups * kernels.gemm_flops(padded_m, padded_n, k)),
        reads=groups * (m * k + k * n) * size,
        writes=groups * m * n * out,
        peak=row.rate("peak_flops", f"peak_flops.{precision}"),
        bandwidth=row.rate("hbm_bandwidth", "memory_bandwidth"),
        memory_efficiency=memory_efficiency(row),
        family=f"{vendor} {size * 8:g}-bit",
        silicon=row.silicon,
        vendor=vendor,
    )


def sourced_efficiency(row: Row) -> float:
    """Share of the peak that the device's maker measured on a product outside the cases; 1, the bound, elsewhere."""
    device, precision = row.device, row.need("precision")
    for m in measurements().values():
        if m.kind == "gemm" and m.group == "maker" and device and (m.device, m.precision) == (device.name, precision):
            return m.value / catalog.device(m.device).peak_flops[precision]
    row.assume("compute_efficiency", 1.0, "the bound: no measurement of the maker's in the package")
    return 1.0


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class gemm in seconds."""
    row = Row(inputs)
    work = _work(row)
    seen = f"seen: {work.silicon}" in constants
    if seen and work.family in constants:
        efficiency = constants[work.family]["compute_efficiency"]
        startup = constants[work.vendor]["startup_s"]
    else:
        efficiency, startup = sourced_efficiency(row), 0.0
    return Prediction(work.time(efficiency, startup), assumptions=tuple(row.assumptions))


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """One compute efficiency per vendor and width of precision, one start-up time per vendor."""
    works = [(_work(Row(inputs)), measured, group) for inputs, measured, group in rows]
    fitted: dict[str, dict[str, float]] = {}
    for vendor in sorted({w.vendor for w, _, _ in works}):
        own = [x for x in works if x[0].vendor == vendor]
        families = sorted({w.family for w, _, _ in own})
        families = [f for f in families if sum(w.family == f for w, _, _ in own) >= _MIN_ROWS]
        own = [x for x in own if x[0].family in families]
        if len(own) <= len(families):  # a start-up time needs a row of its own
            continue

        weighted = [(w, t, v) for (w, t, _), v in zip(own, votes([g for _, _, g in own]), strict=True)]

        def loss(c: Mapping[str, float], rows: Sequence[tuple[Work, float, float]] = weighted) -> float:
            return sum(vote * log_loss(w.time(c[w.family], c["startup"]), t) for w, t, vote in rows)

        grids = {"startup": steps(0.0, 10e-6, 0.25e-6), **dict.fromkeys(families, steps(0.4, 1.0, 0.01))}
        best = coordinate_descent(loss, grids)
        fitted[vendor] = {"startup_s": best.pop("startup")}
        fitted |= {family: {"compute_efficiency": value} for family, value in best.items()}
        for silicon in sorted({w.silicon for w, _, _ in own}):
            fitted[f"seen: {silicon}"] = {"rows": float(sum(w.silicon == silicon for w, _, _ in own))}
    return fitted


PREDICTOR = Predictor(predict, fit)
