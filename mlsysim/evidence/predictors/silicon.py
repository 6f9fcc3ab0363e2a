"""What a row of a kernel says of its device, and what its relatives stand in for: bandwidth, multiprocessors, shares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from mlsysim import catalog, kernels
from mlsysim.catalog import Device
from mlsysim.catalog.hardware import of_architecture
from mlsysim.efficiencies import lineage, measured_kin
from mlsysim.evidence.measured.kernels import stream_efficiency
from mlsysim.evidence.measured.measurements import measurements
from mlsysim.evidence.predictors.base import Row, element_bytes

_STREAM = {"Ampere": "a100", "Hopper": "h100"}  # generations whose STREAM figures we ship


def is_cut(line: Sequence[str]) -> bool:
    """Whether the arithmetic of the device was cut to a fraction of its generation's."""
    return len(line) > 1 and line[0].startswith(f"{line[1]}, cut")


def generation(row: Row) -> str:
    """Architecture of the row's device, as its lineage names it; ``any`` for a device that nobody knows."""
    line = row.line
    return line[1] if is_cut(line) else line[0]


def width(precision: str) -> str:
    """Which products a precision is one of: those of 16 bits and more, or those of fewer.

    >>> width("bf16"), width("nvfp4")
    ('16-bit', '8-bit')
    """
    return "16-bit" if element_bytes(precision) >= 2 else "8-bit"


def _relatives(row: Row, field: str) -> list[Device]:
    """Devices of the row's generation that the catalogue knows, and of which it gives a field."""
    name = generation(row)
    return [d for d in of_architecture(name, f"Grace {name}") if d.has(field) and d.has("peak_flops.bf16")]


def _whole(row: Row) -> Device | None:
    """The relative with most arithmetic whose multiprocessors are counted."""
    near = _relatives(row, "multiprocessors")
    return max(near, key=lambda d: d.peak_flops["bf16"], default=None)


def bandwidth(row: Row) -> float:
    """The row's own figure, the catalogue's, else that of its nearest relatives: bytes per FLOP of their peaks."""
    device = row.device
    if row.has("hbm_bandwidth") or (device is not None and device.has("memory_bandwidth")):
        return row.rate("hbm_bandwidth", "memory_bandwidth")
    near = _relatives(row, "memory_bandwidth")
    if not near:
        return row.rate("hbm_bandwidth", "memory_bandwidth")  # says what is missing
    like = max(near, key=lambda d: (d.peak_flops["bf16"], d.memory_bandwidth))
    row.assume("hbm_bandwidth", like.memory_bandwidth, f"of {like.name}, a relative: the row gives none")
    return like.memory_bandwidth


def multiprocessors(row: Row) -> int | None:
    """The catalogue's count, else that of a relative; None where nobody counts them, and then there are no waves."""
    device = row.device
    if device is not None and device.has("multiprocessors"):
        return int(device.multiprocessors)
    like = None if is_cut(row.line) else _whole(row)
    if like is None:
        row.assume("multiprocessors", "unknown", "no waves are counted")
        return None
    row.assume("multiprocessors", float(like.multiprocessors), f"of {like.name}, a relative")
    return int(like.multiprocessors)


def rate_ratio(row: Row, field: str) -> float:
    """Rate per multiprocessor over that of the whole part of the generation; 1 unless the part was cut."""
    device = row.device
    if device is None or not (is_cut(row.line) and device.has("multiprocessors")) or (like := _whole(row)) is None:
        return 1.0
    return (device.fields[field].value / device.multiprocessors) / (like.fields[field].value / like.multiprocessors)


def cut(share: float, row: Row, field: str, ceiling: float = 1.0) -> float:
    """A share of the generation's, on this part (eq-share-of-cut)."""
    return float(kernels.share_of_cut(share, rate_ratio(row, field), ceiling))


def stream_share(row: Row) -> float:
    """Share of the bandwidth that STREAM triad reaches on the device's generation, else on the newest measured one."""
    name = generation(row)
    kin = measured_kin(name)
    share = stream_efficiency(_STREAM[kin], "triad")
    if kin != name:
        row.assume("memory_efficiency", share, f"STREAM on {kin}: none of {name} in the package")
    return cut(share, row, "memory_bandwidth")


def makers(row: Row) -> tuple[float, str] | None:
    """Share of the peak that the device's maker measured on a product outside the cases, and on what; None without one.

    Of several relatives the geometric mean.
    """
    return makers_share(row, row.need("precision"))


def makers_share(row: Row, precision: str) -> tuple[float, str] | None:
    """The same, of products in another precision than the row's."""
    device = row.device
    own = [m for m in _makers() if device is not None and (m.device, m.precision) == (device.name, precision)]
    found = own or _of_line(row.line, width(precision))
    if not found:
        return None
    mean = math.exp(sum(math.log(m.share) for m in found) / len(found))
    return mean, ", ".join(sorted({m.device for m in found}))


@dataclass(frozen=True)
class _Makers:
    """A product that the maker of a device measured, as a share of its peak."""

    device: str
    precision: str
    share: float
    line: tuple[str, ...]


@cache
def _makers() -> tuple[_Makers, ...]:
    alike = [m for m in measurements().values() if m.kind == "gemm" and m.group == "maker"]
    peaks = [catalog.device(m.device).peak_flops[m.precision] for m in alike]
    return tuple(
        _Makers(m.device, m.precision, m.value / p, lineage(m.device)) for m, p in zip(alike, peaks, strict=True)
    )


def _of_line(line: Sequence[str], kind: str) -> list[_Makers]:
    """Measurements of the nearest relatives of one maker at the same width."""
    for name in [n for n in line if n not in ("gpu", "any")]:
        found = [m for m in _makers() if name in m.line and width(m.precision) == kind]
        if found:
            return found
    return []
