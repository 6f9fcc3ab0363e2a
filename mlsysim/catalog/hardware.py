"""The device catalogue: dense peaks per precision, one-way links, memory, power; one source per field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim.catalog import display, entries, registry
from mlsysim.catalog.entries import Entry, count, figure
from mlsysim.catalog.sourced import read_toml, sourced
from mlsysim.errors import InputError, UnknownNameError, unknown_name
from mlsysim.results import Report, Result, format_rows, plain
from mlsysim.results import format_value as written
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

_MOST_PEAKS = 4  # roofs in one chart
_RATES = ("peak_flops", "vector_flops")
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4")
_KINDS = ("gpu", "tpu", "accelerator", "superchip", "soc", "cpu")
_STATUSES = ("", "announced")


@dataclass(frozen=True)
class Rates(Mapping[str, float], Result):
    """FLOP/s by precision. A precision that the source does not list raises; nothing stands in for it."""

    device: str
    name: str
    by_precision: Mapping[str, float]

    def __getitem__(self, precision: str) -> float:
        try:
            return self.by_precision[precision]
        except (KeyError, TypeError):
            have = ", ".join(self.by_precision) or "none"
            raise UnknownNameError(
                f"{self.device} lists no {self.name} for precision {str(precision)[:20]!r}; it lists {have}"
            ) from None

    def summary(self) -> list[str]:
        rates = ", ".join(f"{p} {written(v, 'FLOP/s')}" for p, v in self.by_precision.items())
        return format_rows(f"{self.device}, {self.name}: {rates or 'none listed'}")

    def chart(self) -> "Drawing | None":
        """A bar per precision."""
        from mlsysim.drawing import shapes

        return shapes.terms(f"{self.device}, {self.name}", self.by_precision, self.name, "FLOP/s")

    def explain(self) -> Report:
        """Rates by precision; where each was read says ``explain()`` of the device."""
        rows = [(p, written(v, "FLOP/s")) for p, v in self.by_precision.items()]
        return Report(f"{self.device}, {self.name}", (table(("Precision", "Rate"), rows),))

    def to_dict(self) -> dict[str, Any]:
        """FLOP/s by precision."""
        return dict(plain(self.by_precision))

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_precision)

    def __len__(self) -> int:
        return len(self.by_precision)


@dataclass(frozen=True, kw_only=True)
class Device(Entry):
    """One device. Numbers are SI floats; a figure that no source gives raises when it is asked for.

    ``peak_flops`` are dense rates of the fastest unit for inputs of that type, ``vector_flops`` those outside the
    matrix units. ``scale_up_bandwidth`` is per device and one way, summed over its links.

    ``status`` is "announced" where the figures are the maker's intent: such a part is shown so, and nothing takes it unasked.

    ``usable_memory`` is what the driver reports to a program: an 80 GB part is built of 80 GiB and reports a little less.
    """

    vendor: str = ""
    kind: str = "accelerator"
    architecture: str = ""
    status: str = ""
    year = count("Year of introduction.")
    memory_capacity = figure("byte", "Main memory in bytes, as the vendor counts it.")
    usable_memory = figure(
        "byte",
        "Main memory in bytes that everything has to fit into: as the driver reports it or, where no source gives that, "
        "the printed capacity; `origin` says which of the two it is.",
        otherwise=lambda device: device.memory_capacity,
    )
    memory_bandwidth = figure("byte/s", "Main-memory bandwidth in byte/s.")
    tdp = figure("W", "Thermal design power in W.")
    scale_up_bandwidth = figure("byte/s", "Scale-up link bandwidth in byte/s, per device, one way.")
    scale_up_domain = count("Devices in one scale-up domain.")
    host_bandwidth = figure(
        "byte/s", "Link to the host (PCIe) in byte/s, one way: what cards without a scale-up link have between them."
    )
    multiprocessors = count("Multiprocessors, each of which computes one tile of a product at a time.")

    def origin(self, name: str) -> str:
        """Where a figure was read, in words; of ``usable_memory``, also whether it is the driver's or the printed one."""
        if name == "usable_memory" and self.has("memory_capacity"):
            printed = self.fields["memory_capacity"]
            if not self.has(name):
                return f"{printed}; the printed capacity, as no figure of the driver is known"
            return f"driver: {self.fields[name]}; the datasheet prints {units.format(printed.value, 'byte')}"
        return super().origin(name)

    def _rates(self, kind: str) -> Rates:
        found = {p: self.fields[f"{kind}.{p}"].value for p in PRECISIONS if f"{kind}.{p}" in self.fields}
        return Rates(self.name, "dense peak" if kind == "peak_flops" else "vector rate", found)

    @cached_property
    def peak_flops(self) -> Rates:
        """Dense peak FLOP/s by precision."""
        return self._rates("peak_flops")

    @cached_property
    def vector_flops(self) -> Rates:
        """FLOP/s outside the matrix units, by precision."""
        return self._rates("vector_flops")

    def summary(self) -> list[str]:
        return _lines(self)

    def chart(self) -> "Drawing | None":
        """Its rooflines."""
        return _chart(self)


def _lines(d: Device) -> list[str]:
    """A device in a few lines: peaks, memory, links, power."""
    peaks = dict(d.peak_flops)
    born = f", {d.year}" if d.has("year") else ""
    first = next((p for p in ("bf16", "fp16", "int8") if p in peaks), next(iter(peaks), ""))
    fastest = f"{written(peaks[first], 'FLOP/s')} dense in {first}" if peaks else ""
    maker = " ".join(word for word in (d.vendor, d.architecture) if word)
    have = [fastest, written(d.memory_bandwidth, "byte/s")]
    memory = ""
    if d.has("memory_capacity") or d.has("usable_memory"):
        have.append(written(d.usable_memory, "byte"))
        memory = f"{written(d.usable_memory, 'byte')} for everything: {d.origin('usable_memory')}"
    link = (
        f"{written(d.scale_up_bandwidth, 'byte/s')} one way, all links together" if d.has("scale_up_bandwidth") else ""
    )
    if link and d.has("scale_up_domain"):
        link += f", between {d.scale_up_domain} devices"
    given = (
        "memory_bandwidth",
        "memory_capacity",
        "usable_memory",
        "scale_up_bandwidth",
        "scale_up_domain",
        "tdp",
        "year",
    )
    more = [name for name in d.fields if name not in given and not name.startswith("peak_flops.")]
    return format_rows(
        f"{d.name} ({maker or d.kind}{born}{', ' + d.status if d.status else ''}): {', '.join(part for part in have if part)}",
        ("dense peaks", ", ".join(f"{p} {written(v, 'FLOP/s')}" for p, v in peaks.items())),
        ("memory", memory),
        ("links", link),
        ("power", written(d.tdp, "W") if d.has("tdp") else ""),
        ("source", str(d.fields["memory_bandwidth"]) if d.has("memory_bandwidth") else ""),
        ("more", ", ".join(more[:12])),
        ("notes", display.short(d.notes)),
    )


def _chart(d: Device) -> "Drawing | None":
    """Its rooflines: a roof for each of its first precisions."""
    from mlsysim.drawing import DASHES, PALETTE, Chart, Line, log_space

    lines = []
    peaks = dict(d.peak_flops)
    first: list[str] = [
        p for p in ("bf16", "fp16", "fp8", "fp4", "fp32") if p in peaks and (p != "fp16" or "bf16" not in peaks)
    ]
    for i, precision in enumerate((first or list(peaks))[:_MOST_PEAKS]):
        peak = peaks[precision]
        ridge = peak / d.memory_bandwidth
        xs = sorted({*log_space(0.1, 1e4), ridge})
        roof = [min(peak, x * d.memory_bandwidth) / units.TFLOP for x in xs]
        lines.append(Line(xs, roof, precision, PALETTE[i], DASHES[i]))
    return Chart("arithmetic intensity (FLOP/byte)", "at most (TFLOP/s)", lines, title=d.name) if lines else None


def read_device(name: str, raw: Any, file: str) -> Device:
    """A device from its table; errors name file, device and field."""
    found = entries.read(
        Device, "devices", name, raw, file, choices={"kind": _KINDS, "status": _STATUSES}, beside=_RATES
    )
    where = f"{file}: {name[:60]}"
    fields = dict(found.fields)
    for kind in _RATES:
        rates = raw.get(kind, {})
        if not isinstance(rates, Mapping):
            raise InputError(f'{where}, {kind} must be a table by precision, as in {kind}.bf16 = "312 TFLOP/s"')
        for precision, rate in rates.items():
            entries.choice(precision, PRECISIONS, "precision", f"{where}, {kind}")
            fields[f"{kind}.{precision}"] = sourced(rate, "FLOP/s", f"{where}, {kind}.{precision}", file)
    if "memory_bandwidth" not in fields:
        raise InputError(f'{where}: no memory_bandwidth; a device needs it, as in memory_bandwidth = "2 TB/s"')
    if not any(key.startswith("peak_flops.") for key in fields):
        raise InputError(f'{where}: no peak_flops; a device needs one, as in peak_flops.bf16 = "312 TFLOP/s"')
    return replace(found, fields=MappingProxyType(fields))


def load_devices(path: str | Path) -> dict[str, Device]:
    """Read devices from a TOML file: your own, in the same form as the catalogue's.

    A field is a quantity (``memory_bandwidth = "3.35 TB/s"``) or a table with its provenance
    (``{ value = "3.35 TB/s", source = "...", where = "..." }``). At least ``memory_bandwidth`` and one dense
    ``peak_flops`` are needed. The file is read as data, never executed, and its size is bounded.

    Raises
    ------
    InputError
        Naming the file, the device and the field, and how to mend it.
    """
    path = Path(path)
    entries = {name: read_device(name, raw, path.name) for name, raw in read_toml(path).items()}
    if not entries:
        raise InputError(f'{path.name}: holds no device; start one with ["My-Accelerator"]')
    return entries


@cache
def shipped_devices() -> entries.LazyTable[Device]:
    """All shipped devices, in the order of their files."""
    return entries.LazyTable("device", "devices", read_device)


def devices() -> Mapping[str, Device]:
    """Every device of the catalogue, by canonical name.

    >>> devices()["H100-SXM5-80GB"].vendor
    'NVIDIA'
    """
    return registry.joined("device", shipped_devices())


def of_architecture(*architectures: str) -> list[Device]:
    """Every device of these architectures; of the shipped ones no other is read.

    >>> [d.name for d in of_architecture("Volta")]
    ['V100-SXM2-16GB', 'V100-SXM2-32GB']
    """
    known = devices()
    if isinstance(known, entries.LazyTable):
        return known.where("architecture", architectures)
    return [d for d in known.values() if d.architecture in architectures]


# Words before the part, as drivers, shops and tables write them: makers, and the families of their parts.
_BEFORE = (
    "nvidia",
    "amd",
    "google",
    "cloud",
    "aws",
    "intel",
    "habana",
    "apple",
    "qualcomm",
    "instinct",
    "tesla",
    "geforce",
)


@cache
def _joined() -> dict[str, set[str]]:
    """The shipped devices of each name and alias written without hyphens."""
    found: dict[str, set[str]] = {}
    for key, name in shipped_devices().names.items():
        found.setdefault(key.replace("-", ""), set()).add(name)
    return found


def without_maker(name: str) -> str:
    """A name as compared, and without the maker and the family before the part, as drivers and shops write it.

    What is left has to be a name or an alias whole; where it is none, hyphens do not count, if one device alone is left.

    >>> without_maker("NVIDIA B200"), without_maker("TPU-v4"), without_maker("AMD Instinct MI355X")
    ('b200', 'tpu-v4', 'mi355x')
    >>> without_maker("Trainium 2")
    'trainium2'
    """
    names = shipped_devices().names
    part = registry.fold(name)
    while part not in names and part.partition("-")[0] in _BEFORE:
        part = part.partition("-")[2]
    if part not in names and len(same := _joined().get(part.replace("-", ""), set())) == 1:
        return registry.fold(*same)
    return part


def device(name: "str | Device") -> Device:
    """The device of that name or alias, maker and family before it or not; spelling ignores case, blanks, underscores and hyphens.

    Parameters
    ----------
    name : str or Device
        A device is passed through, so that solvers take either.

    Raises
    ------
    UnknownNameError
        With the nearest known names.

    >>> device("h100").name, device("NVIDIA B200").name
    ('H100-SXM5-80GB', 'B200-SXM-180GB')
    """
    if isinstance(name, Device):
        return name
    if (mine := registry.find("device", name)) is not None:
        return mine  # type: ignore[no-any-return]
    found = shipped_devices()
    part = without_maker(name) if isinstance(name, str) else ""
    if part not in found.names:
        raise unknown_name(
            "device",
            name,
            devices(),
            "'mlsysim devices' lists them; catalog.define adds one of yours",
            found.aliases,
        )
    return found[found.names[part]]
