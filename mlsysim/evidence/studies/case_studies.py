"""Section V of the StableHLO paper with our own code: its figures as typed data, its systems, and our predictions beside them.

A claim is never compared with as if it were a measurement: :func:`compare` takes measured figures only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from mlsysim import catalog, hlo, units
from mlsysim.catalog import Device
from mlsysim.catalog.sourced import Sourced, shipped, sourced
from mlsysim.equations import cache_by_identity
from mlsysim.errors import InputError, named, unknown_name
from mlsysim.evidence.metrics import signed_error
from mlsysim.evidence.scoring.comparing import rounding_share
from mlsysim.hlo.estimators.roofline import RooflineEstimator, weighted
from mlsysim.results import Result

KINDS = ("measured", "predicted", "claim", "spec", "simulated")
_KEYS = ("kind", "system", "workload", "quantity", "unit", "note", "last_digit", "spread", "value")


@dataclass(frozen=True)
class Figure(Result):
    """One printed figure in SI units. ``last_digit`` is one unit of its last digit, ``spread`` a printed deviation."""

    name: str
    kind: str
    system: str
    workload: str
    quantity: str
    sourced: Sourced
    last_digit: float
    spread: float = 0.0
    note: str = ""

    @property
    def value(self) -> float:
        """The figure, in SI units."""
        return self.sourced.value

    @property
    def low(self) -> float:
        """The smallest value that is rounded to this figure."""
        return float(self.value * (1 - rounding_share(self.value, self.last_digit)))

    @property
    def high(self) -> float:
        """The largest value that is rounded to this figure."""
        return float(self.value * (1 + rounding_share(self.value, self.last_digit)))


def _figure(name: str, raw: Mapping[str, Any], file: str) -> Figure:
    where = f"{file}: {name}"
    for key in raw:
        if key not in _KEYS:
            raise InputError(f"{where}: {unknown_name('key', key, _KEYS)}")
    if raw["kind"] not in KINDS:
        raise InputError(f"{where}: {unknown_name('kind', raw['kind'], KINDS)}")
    unit = raw["unit"]
    return Figure(
        name=name,
        kind=raw["kind"],
        system=raw["system"],
        workload=raw["workload"],
        quantity=raw["quantity"],
        sourced=sourced(raw["value"], unit, where, file),
        last_digit=units.parse(raw["last_digit"], unit, f"{where}, last_digit"),
        spread=units.parse(raw["spread"], unit, f"{where}, spread") if "spread" in raw else 0.0,
        note=raw.get("note", ""),
    )


@cache
def figures() -> Mapping[str, Figure]:
    """All figures, by name.

    >>> figures()["a100-llama3-100m"].value
    0.09
    """
    return shipped(__package__, "case_studies.toml", _figure)


def figure(name: str) -> Figure:
    """The figure of that name.

    >>> figure("claim-llama3-mape").kind
    'claim'
    """
    return named("figure", name, figures())


@dataclass(frozen=True)
class Comparison(Result):
    """A prediction beside a measurement whose digits are few: errors against the printed value and its two ends."""

    predicted: float
    measured: Figure

    @property
    def error(self) -> float:
        """Signed error against the figure as printed."""
        return float(signed_error(self.predicted, self.measured.value))

    @property
    def errors(self) -> tuple[float, float]:
        """The lowest and the highest signed error that the rounding of the figure allows."""
        return (
            float(signed_error(self.predicted, self.measured.high)),
            float(signed_error(self.predicted, self.measured.low)),
        )

    @property
    def is_below(self) -> bool:
        """Whether the prediction is not above the measurement with its rounding, as a roofline of the kernels that ran must not be."""
        return self.predicted <= self.measured.high


def compare(predicted: float, measured: Figure | str) -> Comparison:
    """Put a prediction beside a measured figure.

    Raises
    ------
    InputError
        For a figure that nobody measured.

    >>> compare(0.06, "a100-llama3-100m").is_below
    True
    """
    found = figure(measured) if isinstance(measured, str) else measured
    if found.kind != "measured":
        raise InputError(f"{found.name} is a {found.kind}, not a measurement; compare with a measured figure")
    return Comparison(predicted, found)


def mape(found: Sequence[Comparison]) -> tuple[float, float, float]:
    """Mean size of the errors as printed, and the lowest and highest mean that the rounding of all figures allows.

    >>> mape([compare(0.045, "a100-llama3-100m")])[0]
    0.5
    """
    if not found:
        raise InputError("mape of no comparison; give one or more")

    def closest(c: Comparison) -> float:
        low, high = c.errors
        return 0.0 if low <= 0 <= high else min(abs(low), abs(high))

    n = len(found)
    return (
        sum(abs(c.error) for c in found) / n,
        sum(closest(c) for c in found) / n,
        sum(max(abs(e) for e in c.errors) for c in found) / n,
    )


def speedup_range(old: Figure, new: Figure) -> tuple[float, float, float]:
    """The speed-up of two printed times, and the lowest and highest that their rounding allows.

    >>> low = speedup_range(figure("a100-llama3-100m"), figure("h100-llama3-100m"))[1]
    >>> round(low, 2)
    1.89
    """
    return old.value / new.value, old.low / new.high, old.high / new.low


def with_figures(device: Device | str, prefix: str, links: int = 3) -> Device:
    """A catalogue device with the peak, bandwidth and links that a table of the paper prints for it.

    Parameters
    ----------
    device : Device or str
        Where everything else comes from.
    prefix : str
        Of the figures' names, as in ``table4-h100``.
    links : int
        Peers that each device reaches: the table prints the bandwidth to one of them.

    >>> with_figures("H100", "table4-h100").peak_flops["bf16"] / 1e12
    1979.0
    """
    device = catalog.device(device)
    fields = dict(device.fields)
    peak, bandwidth, link = (figure(f"{prefix}-{what}").sourced for what in ("peak", "bandwidth", "link"))
    fields |= {"peak_flops.bf16": peak, "peak_flops.fp16": peak, "memory_bandwidth": bandwidth}
    fields["scale_up_bandwidth"] = replace(link, value=links * link.value, transform=f"{links} peers together")
    return replace(device, name=f"{device.name} as in {prefix}", fields=fields)


def with_peak(device: Device | str, flops: float, precisions: Sequence[str] = ("bf16", "fp16")) -> Device:
    """A catalogue device with another matrix peak and nothing else changed.

    >>> with_peak("H100", 2e15).peak_flops["fp16"]
    2000000000000000.0
    """
    device = catalog.device(device)
    changed = {f"peak_flops.{p}": replace(device.fields[f"peak_flops.{p}"], value=flops) for p in precisions}
    return replace(device, name=f"{device.name} at {flops / 1e12:g} TFLOP/s", fields={**device.fields, **changed})


def tpu_core(peak_flops: float) -> Device:
    """One TPU v3 core as the paper models it: a peak, the bandwidth of Fig. 5, and nothing else.

    >>> tpu_core(61.6e12).memory_bandwidth / 1e9
    429.2
    """
    peak = Sourced(peak_flops, "FLOP/s", "given")
    return Device(
        name="TPU-v3 core",
        vendor="Google",
        kind="tpu",
        fields={"peak_flops.bf16": peak, "memory_bandwidth": figure("fig5-tpu-bandwidth").sourced},
    )


def arithmetic_share(estimate: hlo.Estimate, device: Device | str) -> float:
    """Share of the predicted compute time of kernels whose time is that of their matrix products in 16 bits.

    >>> arithmetic_share(hlo.estimate(hlo.sample("gemm_bf16_4096"), "H100"), "H100")
    1.0
    """
    on = catalog.device(device)
    known = _shares(estimate)
    if on.name not in known:
        known[on.name] = on, _arithmetic_share(estimate, on)
    before, share = known[on.name]
    return share if before is on else _arithmetic_share(estimate, on)


@cache_by_identity
def _shares(estimate: hlo.Estimate) -> dict[str, tuple[Device, float]]:
    """What :func:`arithmetic_share` found of an estimate, by device."""
    return {}


def _arithmetic_share(estimate: hlo.Estimate, device: Device) -> float:
    clock = RooflineEstimator(device)
    bound = total = 0.0
    for region in estimate.parts:
        for kernel, times in weighted(region.pieces):
            work, seconds = kernel.work, clock.seconds(kernel.work)
            narrow = {dtype: flops for dtype, flops in work.matrix.items() if dtype in ("bf16", "f16")}
            products = clock.seconds(work._replace(bytes=0.0, vector=0.0, matrix=narrow))
            total += seconds * times
            if products and products >= seconds * (1 - 1e-9):
                bound += seconds * times
    return bound / total if total else 0.0
