"""The device catalogue: dense peaks per precision, one-way links, memory, power; one source per field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim import units
from mlsysim.catalog import kept
from mlsysim.catalog.sourced import Sourced, read_toml, sourced
from mlsysim.errors import InputError, UnknownNameError, unknown_name

_FIELDS = {
    "year": "1",
    "memory_capacity": "byte",
    "usable_memory": "byte",
    "memory_bandwidth": "byte/s",
    "tdp": "W",
    "scale_up_bandwidth": "byte/s",
    "scale_up_domain": "1",
    "host_bandwidth": "byte/s",
    "multiprocessors": "1",
}
_RATES = ("peak_flops", "vector_flops")
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4")
_KINDS = ("gpu", "tpu", "accelerator", "superchip", "soc", "cpu")
_TEXT = ("vendor", "kind", "architecture", "notes")
_REQUIRED = ("memory_bandwidth",)


@dataclass(frozen=True)
class Rates(Mapping[str, float]):
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

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_precision)

    def __len__(self) -> int:
        return len(self.by_precision)


@dataclass(frozen=True)
class Device:
    """One device. Numbers are SI floats; a figure that no source gives raises when it is asked for.

    ``peak_flops`` are dense rates of the fastest unit for inputs of that type, ``vector_flops`` those outside the
    matrix units. ``scale_up_bandwidth`` is per device and one way, summed over its links.
    """

    name: str
    vendor: str = ""
    kind: str = "accelerator"
    architecture: str = ""
    aliases: tuple[str, ...] = ()
    notes: str = ""
    fields: Mapping[str, Sourced] = field(default_factory=dict, repr=False)

    def _value(self, name: str) -> float:
        if name not in self.fields:
            raise UnknownNameError(f"{self.name} has no {name} in its catalogue entry; it has {', '.join(self.fields)}")
        return self.fields[name].value

    def has(self, name: str) -> bool:
        """Whether a field such as ``tdp`` or ``peak_flops.fp8`` is known."""
        return name in self.fields

    def origin(self, name: str) -> str:
        """Where a field was read, in words; of ``usable_memory``, also whether it is the driver's figure or the printed one."""
        if name == "usable_memory" and self.has("memory_capacity"):
            printed = self.fields["memory_capacity"]
            if not self.has(name):
                return f"{printed}; the printed capacity, as no figure of the driver is known"
            return f"driver: {self.fields[name]}; the datasheet prints {units.format(printed.value, 'byte')}"
        self._value(name)
        return str(self.fields[name])

    @property
    def year(self) -> int:
        """Year of introduction."""
        return int(self._value("year"))

    @property
    def memory_capacity(self) -> float:
        """Main memory in bytes, as the vendor counts it."""
        return self._value("memory_capacity")

    @property
    def usable_memory(self) -> float:
        """Main memory in bytes that the driver reports to a program: what everything has to fit into.

        An 80 GB part is built of 80 GiB and reports a little less. Where no source gives the figure of the driver, it is
        the printed capacity; ``origin("usable_memory")`` says which of the two it is.
        """
        return self._value("usable_memory" if self.has("usable_memory") else "memory_capacity")

    @property
    def memory_bandwidth(self) -> float:
        """Main-memory bandwidth in byte/s."""
        return self._value("memory_bandwidth")

    @property
    def tdp(self) -> float:
        """Thermal design power in W."""
        return self._value("tdp")

    @property
    def scale_up_bandwidth(self) -> float:
        """Scale-up link bandwidth in byte/s, per device, one way."""
        return self._value("scale_up_bandwidth")

    @property
    def scale_up_domain(self) -> int:
        """Devices in one scale-up domain."""
        return int(self._value("scale_up_domain"))

    @property
    def host_bandwidth(self) -> float:
        """Link to the host (PCIe) in byte/s, one way: what cards without a scale-up link have between them."""
        return self._value("host_bandwidth")

    @property
    def multiprocessors(self) -> int:
        """Multiprocessors of the device, each of which computes one tile of a product at a time."""
        return int(self._value("multiprocessors"))

    def _rates(self, kind: str) -> Rates:
        found = {p: self.fields[f"{kind}.{p}"].value for p in PRECISIONS if f"{kind}.{p}" in self.fields}
        return Rates(self.name, "dense peak" if kind == "peak_flops" else "vector rate", found)

    @property
    def peak_flops(self) -> Rates:
        """Dense peak FLOP/s by precision."""
        return self._rates("peak_flops")

    @property
    def vector_flops(self) -> Rates:
        """FLOP/s outside the matrix units, by precision."""
        return self._rates("vector_flops")


def _text(raw: Mapping[str, Any], key: str, where: str) -> str:
    value = raw.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"{where}, {key} = {str(value)[:40]!r} is not text; put it in quotes")
    return value


def read_device(name: str, raw: Any, file: str) -> Device:
    """A device from its table; errors name file, device and field."""
    where = f"{file}: {name[:60]}"
    if not isinstance(raw, Mapping):
        raise InputError(f'{where} is not a table; start it with ["{name[:60]}"]')
    known = (*_TEXT, "aliases", *_FIELDS, *_RATES)
    for key in raw:
        if key not in known:
            raise InputError(f"{where}: {unknown_name('field', key, known)}")
    text = {key: _text(raw, key, where) for key in _TEXT}
    text["kind"] = text["kind"] or "accelerator"
    if text["kind"] not in _KINDS:
        raise InputError(f"{where}: {unknown_name('kind', text['kind'], _KINDS)}")
    aliases = raw.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise InputError(f'{where}, aliases must be a list of names, as in ["H100"]')
    fields = {key: sourced(raw[key], unit, f"{where}, {key}", file) for key, unit in _FIELDS.items() if key in raw}
    for kind in _RATES:
        rates = raw.get(kind, {})
        if not isinstance(rates, Mapping):
            raise InputError(f'{where}, {kind} must be a table by precision, as in {kind}.bf16 = "312 TFLOP/s"')
        for precision, rate in rates.items():
            if precision not in PRECISIONS:
                raise InputError(f"{where}, {kind}: {unknown_name('precision', precision, PRECISIONS)}")
            fields[f"{kind}.{precision}"] = sourced(rate, "FLOP/s", f"{where}, {kind}.{precision}", file)
    for key in _REQUIRED:
        if key not in fields:
            raise InputError(f'{where}: no {key}; a device needs it, as in {key} = "2 TB/s"')
    if not any(key.startswith("peak_flops.") for key in fields):
        raise InputError(f'{where}: no peak_flops; a device needs one, as in peak_flops.bf16 = "312 TFLOP/s"')
    for key in ("scale_up_domain", "year", "multiprocessors"):
        if key in fields and fields[key].value != int(fields[key].value):
            raise InputError(f"{where}, {key} = {fields[key].value} must be a whole number")
    return Device(name=name, aliases=tuple(aliases), fields=MappingProxyType(fields), **text)


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
def _catalogue() -> tuple[Mapping[str, Device], Mapping[str, str]]:
    """All shipped devices by name, and the canonical name of every folded name and alias."""
    entries: dict[str, Device] = {}
    with as_file(files("mlsysim.catalog") / "devices") as folder:
        for path in sorted(folder.glob("*.toml")):
            entries |= load_devices(path)
    index = {kept.fold(key): d.name for d in entries.values() for key in (d.name, *d.aliases)}
    return MappingProxyType(entries), MappingProxyType(index)


def devices() -> Mapping[str, Device]:
    """Every device of the catalogue, by canonical name.

    >>> devices()["H100-SXM5-80GB"].vendor
    'NVIDIA'
    """
    return kept.joined("device", _catalogue()[0])


def device(name: "str | Device") -> Device:
    """The device of that name or alias; spelling ignores case, blanks and underscores.

    Parameters
    ----------
    name : str or Device
        A device is passed through, so that solvers take either.

    Raises
    ------
    UnknownNameError
        With the nearest known names.

    >>> device("h100").name
    'H100-SXM5-80GB'
    """
    if isinstance(name, Device):
        return name
    if (mine := kept.find("device", name)) is not None:
        return mine  # type: ignore[no-any-return]
    entries, index = _catalogue()
    if not isinstance(name, str) or kept.fold(name) not in index:
        raise unknown_name(
            "device",
            name,
            devices(),
            "'mlsysim devices' lists them; catalog.define adds one of yours",
            (a for d in entries.values() for a in d.aliases),
        )
    return entries[index[kept.fold(name)]]
