"""What every predictor of a case is given and returns, and how it asks the catalogue for what a row leaves empty."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from mlsysim import catalog
from mlsysim.catalog import Device
from mlsysim.efficiencies import lineage
from mlsysim.errors import MlsysimError, UnknownNameError
from mlsysim.evidence.measured.kernels import ELEMENT_BYTES
from mlsysim.results import Result
from mlsysim.training import PEAK_FORMAT

Made = TypeVar("Made")
# Fitted constants: class of rows -> name -> value. Empty in datasheet mode.
Constants = Mapping[str, Mapping[str, float]]
# What a fit sees of a row: its inputs, the measured value, and which rows belong together (their name does not matter).
Sample = tuple[Mapping[str, Any], float, Hashable]


class Unsupported(MlsysimError):
    """A row that the model does not cover; the message becomes its reason."""


@dataclass(frozen=True)
class Prediction(Result):
    """A value in SI units, or the reason why there is none; and every value assumed for an empty cell."""

    predicted: float | None
    reason: str = ""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Predictor:
    """One class of cases: how to predict a row, and how to fit the constants (None when there are none)."""

    predict: Callable[[Mapping[str, Any], Constants], Prediction]
    fit: Callable[[Sequence[Sample]], dict[str, dict[str, float]]] | None = None
    method: str = "least squares of the log error on a grid of two to three digits; every group of rows has one vote"


class Row:
    """The inputs of one row; remembers what had to be assumed."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self.inputs = inputs
        self.assumptions: list[str] = []

    def has(self, name: str) -> bool:
        return self.inputs.get(name) is not None

    def need(self, name: str) -> Any:
        """A cell that nothing can stand in for."""
        value = self.inputs.get(name)
        if value is None:
            raise Unsupported(f"the row gives no {name}; fill it in")
        return value

    def number(self, name: str) -> float:
        value = self.need(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Unsupported(f"{name} = {str(value)[:40]!r} is not a number")
        return float(value)

    def number_or(self, name: str, value: float, why: str = "") -> float:
        """A number, or the one that stands in for an empty cell, which is written down."""
        if self.has(name):
            return self.number(name)
        self.assume(name, value, why)
        return value

    def optional(self, name: str, value: float) -> float:
        """A number, or the value that its absence means."""
        return self.number(name) if self.has(name) else value

    def or_assume(self, name: str, value: Any, why: str = "") -> Any:
        """A cell, or the value that stands in for an empty one, which is written down."""
        if self.has(name):
            return self.inputs[name]
        self.assume(name, value, why)
        return value

    def assume(self, name: str, value: Any, why: str = "") -> None:
        text = f"{value:g}" if isinstance(value, float) else str(value)
        self.assumptions.append(f"{name} = {text}" + (f" ({why})" if why else ""))

    @cached_property
    def device(self) -> Device | None:
        """The catalogue's entry for the row's device, if it has one."""
        try:
            return catalog.device(str(self.inputs.get("device") or ""))
        except UnknownNameError:
            return None

    @cached_property
    def line(self) -> tuple[str, ...]:
        """Whose constants the device may take, the nearest relatives first."""
        return lineage(
            self.device or str(self.inputs.get("device") or ""),
            self.inputs.get("peak_flops"),
            self.inputs.get("hbm_bandwidth"),
        )

    @property
    def generation(self) -> str:
        """Architecture of the device, or nothing when the catalogue does not know it."""
        device = self.device
        return device.architecture.removeprefix("Grace ") if device else ""

    @property
    def silicon(self) -> str:
        """What devices must share for an efficiency to carry over: generation and 16-bit peak.

        An H800 and an H200 compute as an H100 does; an H20 has its memory and a seventh of its arithmetic.
        """
        device = self.device
        if device is None or not device.has("peak_flops.bf16"):
            return ""
        return f"{self.generation}, about {round(device.peak_flops['bf16'] / 1e13) * 10} TFLOP/s"

    def rate(self, name: str, field: str) -> float:
        """A device figure: the row's own, else the catalogue's."""
        if self.has(name):
            return self.number(name)
        device = self.device
        if device is None:
            raise Unsupported(
                f"the row gives no {name}, and the catalogue has no device {str(self.inputs.get('device') or '')[:40]!r}; "
                "fill it in, or add the device (--catalog FILE.toml)"
            )
        kind, _, precision = field.partition(".")
        if kind == "peak_flops":  # products in mxfp8 run at the rate of fp8
            field = f"{kind}.{PEAK_FORMAT.get(precision, precision)}"
        if not device.has(field):
            raise Unsupported(f"the row gives no {name}, and the catalogue none for {device.name}; fill it in")
        value = device.fields[field].value
        self.assume(name, value, f"{device.name} in the catalogue")
        return value

    def inside(self, line: Sequence[str]) -> float:
        """Bandwidth between devices of a server; cards without a link of their own have their slots in the host."""
        device, name = self.device, "intra_node_bandwidth"
        if device is not None and not device.has("scale_up_bandwidth") and device.has("host_bandwidth"):
            return self.number_or(name, device.host_bandwidth, "the link to the host")
        if "NVIDIA gpu" in line and (device is None or not device.has("scale_up_bandwidth")):
            return self.number_or(name, catalog.link("PCIe-4-x16").bandwidth, "sixteen lanes of PCIe 4")
        return self.rate(name, "scale_up_bandwidth")


def element_bytes(precision: str) -> float:
    """Bytes of one element of a precision.

    >>> element_bytes("bf16")
    2.0
    """
    try:
        return ELEMENT_BYTES[precision]
    except KeyError:
        raise Unsupported(f"bytes of precision {precision[:20]!r} are not known") from None


_MADE: dict[tuple[Any, int], tuple[Mapping[str, Any], Any]] = {}


def made_once(make: Callable[[Row], Made], inputs: Mapping[str, Any]) -> Made:
    """What a fit makes of a row, made once: leaving out fits the same rows again and again.

    >>> row = {"x": 1.0}
    >>> made_once(list_of := lambda row: [row.inputs["x"]], row) is made_once(list_of, row)
    True
    """
    seen = _MADE.get((make, id(inputs)))
    if seen is None or seen[0] is not inputs:  # another row at the same place in memory
        seen = _MADE[make, id(inputs)] = (inputs, make(Row(inputs)))
    made: Made = seen[1]
    return made
