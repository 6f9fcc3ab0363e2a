"""A measured machine as a catalogue entry: the file that ``mlsysim bench-device`` and the page of chapter 1 write alike."""

from collections.abc import Mapping
from types import MappingProxyType

from mlsysim import units
from mlsysim.catalog import Device
from mlsysim.catalog.sourced import Sourced
from mlsysim.evidence.measuring.measured import Measured
from mlsysim.runs.reports import toml_text

_LONGEST = 60  # characters of an entry's name


def _told(value: Measured, unit: str, what: str) -> str:
    ends = " to ".join(units.format(v, unit) for v in (value.low, value.high))
    return f"{what}: median of {value.repeats}, half of them {ends}"


def entry(
    name: str,
    kind: str,
    precision: str,
    day: str,
    product: Measured,
    bandwidth: Mapping[str, Measured],
    notes: str = "",
    memory_capacity: float | None = None,
) -> Device:
    """The machine as a catalogue entry: its fastest product is the peak, its fastest sequential pattern the bandwidth.

    >>> m = Measured(2e9, 1e9, 3e9, 5)
    >>> entry("Desk", "cpu", "fp32", "2026-11-24", m, {"copy": m}).fields["memory_bandwidth"].where
    '2026-11-24; copy: median of 5, half of them 1 GB/s to 3 GB/s'
    """

    def field(value: float, unit: str, where: str) -> Sourced:
        return Sourced(value, unit, "measured here", where=f"{day}; {where}" if where else day)

    pattern, fastest = max(bandwidth.items(), key=lambda one: one[1].median)
    fields = {
        "memory_bandwidth": field(fastest.median, "byte/s", _told(fastest, "byte/s", pattern)),
        f"peak_flops.{precision}": field(product.median, "FLOP/s", _told(product, "FLOP/s", "product")),
    }
    if memory_capacity is not None:
        fields["memory_capacity"] = field(memory_capacity, "byte", "")
    return Device(name=name[:_LONGEST], kind=kind, notes=notes, fields=MappingProxyType(fields))


def toml(*devices: Device) -> str:
    """Measured entries as a file of the catalogue, which ``catalog.add`` and ``--catalog`` take."""
    lines = []
    for d in devices:
        lines += ["", f"[devices.{toml_text(d.name)}]", f"kind = {toml_text(d.kind)}", f"notes = {toml_text(d.notes)}"]
        lines += [
            f"{name} = {{ value = {toml_text(f'{f.value:.6g} {f.unit}')}, source = {toml_text(f.source)}, where = {toml_text(f.where)} }}"
            for name, f in d.fields.items()
        ]
    return "\n".join(lines[1:]) + "\n"
