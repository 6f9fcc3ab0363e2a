"""The hierarchy of devices, for partial pooling: from which relatives a device may take fitted constants and measured shares.

The one place to pool by maker, generation and kind: fits and solvers both ask here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mlsysim._numeric import Num, exp, log
from mlsysim.catalog import Device, device, hardware
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.results import Result

ANY = "any"
# A generation that carries on another with more of one format: its closest relative before the vendor's other parts.
_OF = {"Blackwell Ultra": "Blackwell"}
_KIND_WORDS = {
    "gpu": "GPUs",
    "tpu": "TPUs",
    "soc": "systems on a chip",
    "cpu": "processors",
    "accelerator": "accelerators",
}
_MEASURED = ("Ampere", "Hopper")  # generations whose products and STREAM others measured, the newest last


def generation_name(device: Device | None) -> str:
    """Architecture of a device; a superchip has that of its accelerator.

    >>> from mlsysim import catalog
    >>> generation_name(catalog.device("GH200"))
    'Hopper'
    """
    return "" if device is None else device.architecture.removeprefix("Grace ")


def _peak(device: Device) -> float:
    return device.fields["peak_flops.bf16"].value


def generation_of(device: Device | None) -> str:
    """The generation of a device; parts with arithmetic cut to a fraction are a class of their own.

    >>> from mlsysim import catalog
    >>> generation_of(catalog.device("H200")), generation_of(catalog.device("H20"))
    ('Hopper', 'Hopper, cut to 150 TFLOP/s')
    """
    return _generation(device, {})


def _generation(device: Device | None, best: dict[str, float]) -> str:
    """The generation, given the largest peak of each architecture, which the caller looked up."""
    if device is None or not (device.architecture and device.has("peak_flops.bf16")):
        return ""
    if device.architecture not in best:
        alike = hardware.of_architecture(device.architecture)
        best[device.architecture] = max([_peak(d) for d in alike if d.has("peak_flops.bf16")], default=0.0)
    name, own = generation_name(device), _peak(device)
    return name if own > best[device.architecture] / 2.0 else f"{name}, cut to {round(own / 1e13) * 10} TFLOP/s"


@cache
def _names() -> Mapping[str, tuple[str, str, str]]:
    """Vendor, kind and generation of devices outside the catalogue, by every spelling of their names."""
    found: dict[str, tuple[str, str, str]] = {}
    for name, entry in shipped_toml(__package__, "hierarchy.toml").items():
        for text in (name, *entry["names"]):
            if found.setdefault(_plain(text), (about := (entry["maker"], entry["kind"], entry["generation"]))) != about:
                raise InputError(f"hierarchy.toml: {text!r} stands under two generations; keep one")
    return found


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c not in " -_")


def _line(maker: str, kind: str, generation: str, cut: str = "") -> tuple[str, ...]:
    kind = "gpu" if kind == "superchip" else kind  # the accelerator of a superchip is what computes
    return tuple(n for n in (cut, generation, _OF.get(generation, ""), f"{maker} {kind}", kind, ANY) if n)


def lineage(of: Device | str | None, peak: float | None = None, bandwidth: float | None = None) -> tuple[str, ...]:
    """The classes that a device belongs to, the closest first: generation, vendor and kind, kind, any.

    A name that the catalogue does not know is looked up in an explicit table of names (``hierarchy.toml``). A name that neither
    knows is a device of the catalogue when its peak and its bandwidth are, within a hundredth, those of one generation's
    devices; else nobody is nearer to it than ``any``. No part of a name decides.

    Parameters
    ----------
    of : Device or str or None
        A device, or the name that a row gives.
    peak, bandwidth : float, optional, FLOP/s and byte/s
        What a row gives for a device whose name nobody knows.

    >>> lineage("H100"), lineage("GB300")
    (('Hopper', 'NVIDIA gpu', 'gpu', 'any'), ('Blackwell Ultra', 'Blackwell', 'NVIDIA gpu', 'gpu', 'any'))
    >>> lineage("H20")[0], lineage("MI355X"), lineage("a chip of your own")
    ('Hopper, cut to 150 TFLOP/s', ('CDNA 4', 'AMD gpu', 'gpu', 'any'), ('any',))
    """
    if isinstance(of, str):
        name = of
        try:
            of = device(name)
        except UnknownNameError:
            if about := _names().get(_plain(name)):
                return _line(*about)
            of = _alike(peak, bandwidth)
    if of is None:
        return (ANY,)
    if not of.architecture:
        return _line(of.vendor or "another maker's", of.kind, "")
    generation = generation_name(of) if of.kind != "soc" else of.architecture
    cut = generation_of(of)
    return _line(of.vendor, of.kind, generation, cut if cut.startswith(f"{generation}, cut") else "")


def _alike(peak: float | None, bandwidth: float | None) -> Device | None:
    """The catalogue device with these datasheet figures; None where devices of several generations or of none match."""
    if not (peak and bandwidth):
        return None
    near = [
        d
        for d in hardware.devices().values()
        if math.isclose(d.memory_bandwidth, bandwidth, rel_tol=0.01)
        and any(math.isclose(rate, peak, rel_tol=0.01) for rate in d.peak_flops.values())
    ]
    return near[0] if len({generation_of(d) for d in near}) == 1 else None


@dataclass(frozen=True)
class Pooled(Result):
    """Constants of a device, pooled from the closest classes that have them, and the class they come from."""

    values: Mapping[str, float]
    whose: str  # the widest class of the lineage from which a constant was taken
    line: tuple[str, ...]

    @property
    def own(self) -> bool:
        """Whether all constants come from the device's own generation."""
        return self.whose == self.line[0]

    def describe(self, none: str = "no row ran on") -> str:
        """Describe where the constants come from and which class has no rows; empty when they are the device's own.

        >>> pooled({"NVIDIA gpu": {"gemm": 0.6}}, lineage("GB300")).describe()
        'constants of NVIDIA GPUs: no row ran on Blackwell Ultra'
        """
        return "" if self.own else f"constants of {describe_class(self.whose)}: {none} {_missing(self.line)}"


def _missing(line: Sequence[str]) -> str:
    return line[0] if len(line) > 1 else "a device that is known by this name"


def describe_class(name: str) -> str:
    """A class of the hierarchy in words.

    >>> describe_class("AMD gpu"), describe_class("gpu"), describe_class("any"), describe_class("Hopper")
    ('AMD GPUs', 'GPUs', 'all devices', 'Hopper')
    """
    *maker, kind = name.rsplit(" ", 1)
    words = [*maker, _KIND_WORDS[kind]] if kind in _KIND_WORDS else [name]
    return "all devices" if name == ANY else " ".join(words)


def pooled(constants: Mapping[str, Mapping[str, float]], line: Sequence[str], prefix: str = "") -> Pooled | None:
    """Pool constants: each from the narrowest class of the lineage that has it.

    Parameters
    ----------
    constants : mapping
        Class of devices to name to value; a class is ``prefix`` and a name of a lineage.
    line : sequence of str
        As of :func:`lineage`.
    prefix : str
        What else stands before the name, as in ``"8-bit, "``.

    Returns
    -------
    Pooled or None
        None where no relative has any.

    >>> found = pooled({"any": {"gemm": 0.5, "link": 0.9}, "Hopper": {"gemm": 0.66}}, ("Hopper", "NVIDIA gpu", "gpu", "any"))
    >>> found.values["gemm"], found.values["link"], found.whose
    (0.66, 0.9, 'any')
    """
    values: dict[str, float] = {}
    whose = ""
    for name in line:
        own = constants.get(prefix + name, {})
        new = {key: value for key, value in own.items() if key not in values}
        if new:
            values, whose = values | new, name
    return Pooled(values, whose, tuple(line)) if values else None


@equation(
    "eq-pooled-share",
    formula="exp((sources * log(own) + strength * log(family)) / (sources + strength))",
    domain={"own": POSITIVE, "family": POSITIVE, "sources": "[0, inf)", "strength": POSITIVE},
)
def pooled_share(own: Num, family: Num, sources: Num, strength: Num) -> Num:
    """A generation's share of the peak, drawn towards its family's: the fewer sources, the closer to it.

    Formula: ln eta = (n ln eta_g + kappa ln eta_f) / (n + kappa).

    Parameters
    ----------
    own : float or array, 1
        What the generation's own sources say on average.
    family : float or array, 1
        What its family says.
    sources : float or array, 1
        Sources whose rows ran on the generation.
    strength : float or array, 1
        How many sources the family counts as: the variance within generations over the one between them.

    Returns
    -------
    float or array, 1

    Assumptions: log shares of sources are normal about their generation's, and those about the family's.

    >>> pooled_share(0.8, family=0.5, sources=0, strength=2.0), round(pooled_share(0.8, 0.5, 2, 2.0), 3)
    (0.5, 0.632)

    Source: gelman2006multilevel, eq. 12.1; here of log shares, with the ratio of the variances as one number.
    """
    return exp((sources * log(own) + strength * log(family)) / (sources + strength))


def parents(lines: Sequence[Sequence[str]]) -> dict[str, str]:
    """Each class of some lineages with the next wider one; empty for the widest. For fits with partial pooling.

    >>> parents([("Hopper", "NVIDIA gpu", "gpu", "any")])["Hopper"]
    'NVIDIA gpu'
    """
    found: dict[str, str] = {}
    for line in lines:
        for name, wider in zip(line, (*line[1:], ""), strict=True):
            found.setdefault(name, wider)
    return found


def clock_of(device: Device | None) -> float:
    """Clock of a GPU with a lower power limit, relative to the one of its generation with most power per FLOP.

    Power grows with the cube of the clock, as the voltage follows it. A superchip's power feeds its processor too. A generation
    that carries on another in the same process (Blackwell Ultra) is one with it.

    >>> from mlsysim import catalog
    >>> round(clock_of(catalog.device("H100-SXM5-96GB")), 3)  # 500 W of 700 W
    0.894
    >>> round(clock_of(catalog.device("GB200")), 3)  # 1200 W, where Blackwell Ultra has 1400 W for as many FLOPs
    0.95
    """
    if device is None or device.kind != "gpu" or not (device.has("tdp") and device.has("peak_flops.bf16")):
        return 1.0
    best: dict[str, float] = {}
    name = _generation(device, best)
    if not name:
        return 1.0
    family = {name, _OF.get(name, name), *(later for later, first in _OF.items() if first in (name, _OF.get(name)))}
    near = hardware.of_architecture(
        *(n for own in sorted(family) for n in (own.split(",")[0], f"Grace {own.split(',')[0]}"))
    )
    alike = [d for d in near if d.kind == "gpu" and d.has("tdp") and _generation(d, best) in family]
    own = device.tdp / _peak(device)
    most = max([d.tdp / _peak(d) for d in alike], default=own)
    return float(min(1.0, (own / most) ** (1.0 / 3.0)))


def measured_kin(generation: str) -> str:
    """The generation whose measured products and STREAM stand for another: its own, else those of the newest measured.

    >>> measured_kin("Ampere"), measured_kin("CDNA 3")
    ('Ampere', 'Hopper')
    """
    return generation if generation in _MEASURED else _MEASURED[-1]


class Same:
    """A device as a dictionary key, by identity, since a user's own device may have any name."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def __hash__(self) -> int:
        return id(self.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.device is self.device
