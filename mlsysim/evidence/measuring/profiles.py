"""Tier 2: a device profile, measured by ``mlsysim bench-device``, and the device and rates that a step model reads from it."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from mlsysim.catalog import Device
from mlsysim.errors import InputError, named, unknown_name
from mlsysim.evidence.measuring import machines
from mlsysim.evidence.measuring.measured import Measured
from mlsysim.results import Result
from mlsysim.serving_steps import documents
from mlsysim.serving_steps.patterns import mixed_bandwidth, scattered_bandwidth
from mlsysim.serving_steps.rates import Rate, Rates

KIND, VERSION = "mlsysim-device-profile", 1
SEQUENTIAL = ("read", "copy", "triad")


@dataclass(frozen=True)
class Point:
    """One measured point and what it was measured at (``m``, ``n``, ``k``; ``block_bytes``; ...)."""

    at: Mapping[str, float]
    value: Measured


@dataclass(frozen=True)
class Profile(Result):
    """What one device was measured to do. Bandwidths in byte/s, arithmetic in FLOP/s, times in s."""

    name: str
    kind: str  # "cpu" or "gpu"
    date: str
    conditions: str
    software: Mapping[str, str]
    threads: int
    precision: str
    element_bytes: int
    memory_capacity: float
    cache_bytes: float
    bandwidth: Mapping[str, Measured]  # read, copy, triad, gather_in_order
    scattered: Sequence[Point]  # at block_bytes
    mixed: Sequence[Point]  # at scattered_share, block_bytes
    products: Sequence[Point]  # FLOP/s at m, n, k
    prefill_attention: Sequence[Point]  # FLOP/s of causal pairs at tokens, heads, width
    decode_attention: Sequence[Point]  # byte/s of keys and values at context, heads, width
    start: Measured  # s, of a kernel that is too small to matter
    checks: Sequence[Point]  # s, of the small transformer at layers, batch, new, context; not used by the rates

    # Rates

    @property
    def peak_flops(self) -> float:
        """The fastest product that was measured: the profile's own peak, since nobody states one for software."""
        return max(p.value.median for p in self.products)

    @property
    def memory_bandwidth(self) -> float:
        """The fastest sequential pattern."""
        return max(self.bandwidth[n].median for n in SEQUENTIAL)

    @property
    def gathered_in_order(self) -> float:
        """The gather's bandwidth when it takes its blocks in order, byte/s: what scattered blocks stand beside, counted alike."""
        return self.bandwidth["gather_in_order"].median

    @cached_property
    def half_bytes(self) -> float:
        """Block that reaches half of the same gather in order, the median over the blocks but the largest."""
        points = sorted(self.scattered, key=lambda p: p.at["block_bytes"])
        rates = [(p.at["block_bytes"], p.value.median) for p in points[:-1]]
        return median(block * max(0.0, self.gathered_in_order / rate - 1.0) for block, rate in rates)

    def scattered_bandwidth(self, block_bytes: float) -> float:
        """eq-scattered-bandwidth with this device's two constants, byte/s."""
        return float(scattered_bandwidth(self.gathered_in_order, block_bytes, self.half_bytes))

    def mixed_bandwidth(self, block_bytes: float, scattered_share: float) -> float:
        """eq-mixed-bandwidth between the gather in order and in scattered blocks, byte/s."""
        return float(mixed_bandwidth(self.gathered_in_order, self.scattered_bandwidth(block_bytes), scattered_share))

    def product_time(self, rows: float, k: float, n: float) -> float:
        """Seconds of a product with a matrix of k x n, from the measured ones: straight between counts of rows.

        The time is proportional to the matrix; beyond the last count it is proportional to the rows.
        """
        points = sorted(self.products, key=lambda p: p.at["m"])
        counts = [p.at["m"] for p in points]
        times = [2.0 * p.at["m"] / p.value.median for p in points]  # per element of the matrix
        if rows >= counts[-1]:
            return k * n * times[-1] * rows / counts[-1]
        i = max(0, bisect_right(counts, rows) - 1)
        share = (rows - counts[i]) / (counts[i + 1] - counts[i])
        return k * n * (times[i] + share * (times[i + 1] - times[i]))

    @property
    def rates(self) -> Rates:
        """What a step model needs: shares of this profile's own peak and bandwidth.

        The largest products give the arithmetic share, the product with a single row the memory share.
        """
        largest = max(p.at["m"] for p in self.products)
        many = [p.value.median for p in self.products if p.at["m"] == largest]
        single = [
            p.value.median / _product_flops(p) * self.element_bytes * p.at["n"] * p.at["k"]
            for p in self.products
            if p.at["m"] == 1
        ]
        origin = f"measured on {self.name}, {self.date}"
        start = self.start.median
        products = Rate(
            min(1.0, median(many) / self.peak_flops), min(1.0, median(single) / self.memory_bandwidth), start, origin
        )
        prefill = median(p.value.median for p in self.prefill_attention) / self.peak_flops
        decode = median(p.value.median for p in self.decode_attention) / self.memory_bandwidth
        return Rates(
            products_16bit=products,
            products_8bit=products,
            prefill_attention=Rate(min(1.0, prefill), products.memory, start, origin),
            # arithmetic of one query per key is never what limits a processor; its share is that of the traffic
            decode_attention=Rate(1.0, min(1.0, decode), start, origin),
        )

    @property
    def device(self) -> Device:
        """The device as a catalogue entry whose every figure is this profile's."""
        return machines.entry(
            self.name,
            self.kind,
            self.precision,
            self.date,
            max((p.value for p in self.products), key=lambda value: value.median),
            {name: self.bandwidth[name] for name in SEQUENTIAL},
            self.conditions,
            self.memory_capacity,
        )

    # Files

    def save(self, path: str | Path) -> None:
        """Write the profile as JSON, or its device as a file of the catalogue where the name ends in ``.toml``."""
        if Path(path).suffix == ".toml":
            Path(path).write_text(machines.toml(self.device), encoding="utf-8")
        else:
            documents.write(path, KIND, VERSION, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The profile as it stands in its file."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in _SERIES:
            plain[name] = [{**p.at, **_rounded(p.value)} for p in plain[name]]
        plain["software"] = dict(self.software)
        plain["bandwidth"] = {n: _rounded(v) for n, v in self.bandwidth.items()}
        plain["start"] = _rounded(self.start)
        return plain


def _product_flops(p: Point) -> float:
    return 2.0 * p.at["m"] * p.at["n"] * p.at["k"]


def _rounded(value: Measured) -> dict[str, float]:
    """Four digits are more than a measurement holds."""
    short = {n: float(f"{getattr(value, n):.4g}") for n in ("median", "low", "high")}
    return {**short, "repeats": value.repeats}


_SERIES: Mapping[str, tuple[str, ...]] = {
    "scattered": ("block_bytes",),
    "mixed": ("block_bytes", "scattered_share"),
    "products": ("m", "n", "k"),
    "prefill_attention": ("tokens", "heads", "width"),
    "decode_attention": ("batch", "context", "heads", "width"),
    "checks": ("layers", "batch", "new", "context"),
}
_MEASURED = ("median", "low", "high", "repeats")
_TEXTS = ("name", "kind", "date", "conditions", "precision")


def _measured(f: documents.Fields) -> Measured:
    m = Measured(
        f.number("median", 1e-12, 1e20), f.number("low", 0, 1e20), f.number("high", 0, 1e20), f.whole("repeats", 1)
    )
    if not m.low <= m.median <= m.high:
        raise InputError(f"{f.where}: the median must lie between low and high")
    return m


def _points(f: documents.Fields, name: str) -> tuple[Point, ...]:
    at = _SERIES[name]
    found = [one.only(*at, *_MEASURED) for one in f.objects(name, 0 if name == "checks" else 1)]
    return tuple(Point(MappingProxyType({a: one.number(a, 0, 1e15) for a in at}), _measured(one)) for one in found)


def load_profile(path: str | Path) -> Profile:
    """Read a device profile. The file is data from anywhere: its size is bounded and every field is checked.

    Raises
    ------
    InputError
        Naming the file and the field.
    """
    f = documents.read(path, KIND, VERSION)
    f.only("format", "version", *Profile.__dataclass_fields__)
    bandwidth = f.object("bandwidth").only(*SEQUENTIAL, "gather_in_order")
    software = f.object("software")
    text = {n: f.text(n) for n in _TEXTS}
    if text["kind"] not in ("cpu", "gpu"):
        raise InputError(f"{f.where}: {unknown_name('kind', text['kind'], ('cpu', 'gpu'))}")
    if text["precision"] not in ("fp32", "bf16", "fp16"):
        raise InputError(f"{f.where}: {unknown_name('precision', text['precision'], ('fp32', 'bf16', 'fp16'))}")
    profile = Profile(
        name=text["name"],
        kind=text["kind"],
        date=text["date"],
        conditions=text["conditions"],
        software=MappingProxyType({n: software.text(n) for n in list(software.raw)[: documents.MAX_ITEMS]}),
        threads=f.whole("threads", 1, 10_000),
        precision=text["precision"],
        element_bytes=f.whole("element_bytes", 1, 8),
        memory_capacity=f.number("memory_capacity", 1),
        cache_bytes=f.number("cache_bytes", 0),
        bandwidth=MappingProxyType({n: _measured(bandwidth.object(n)) for n in (*SEQUENTIAL, "gather_in_order")}),
        scattered=_points(f, "scattered"),
        mixed=_points(f, "mixed"),
        products=_points(f, "products"),
        prefill_attention=_points(f, "prefill_attention"),
        decode_attention=_points(f, "decode_attention"),
        start=_measured(f.object("start")),
        checks=_points(f, "checks"),
    )
    if len({p.at["m"] for p in profile.products}) < 2:
        raise InputError(f"{f.where}, products: one count of rows alone; a profile needs m = 1 and a large one")
    if not any(p.at["m"] == 1 for p in profile.products):
        raise InputError(f"{f.where}, products: none has m = 1, which shows what reading weights takes")
    for p in (*profile.products, *profile.scattered):
        if min(p.at.values()) <= 0:
            raise InputError(f"{f.where}: a size of 0 among {dict(p.at)}; sizes are positive")
    return profile


def shipped_profiles() -> dict[str, Profile]:
    """Profiles that come with the package: our own measurements, each with its conditions.

    >>> all(p.conditions for p in shipped_profiles().values())
    True
    """
    found = {}
    with as_file(files(__package__) / "profile_data") as folder:
        for path in sorted(folder.glob("*.json")):
            found[path.stem] = load_profile(path)
    return found


def profile(name: str) -> Profile:
    """A profile that comes with the package, by its file's name.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    """
    return named("device profile", name, shipped_profiles(), "'mlsysim bench-device' makes one of your own")
