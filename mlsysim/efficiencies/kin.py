"""Which devices compute alike: whose fitted constants and measured shares a device may take.

The one place to pool by maker, generation and kind: fits and solvers both ask here.
"""

from mlsysim.catalog import Device, hardware

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
    """Devices that compute alike: a generation, without parts whose arithmetic was cut to a fraction.

    >>> from mlsysim import catalog
    >>> generation_of(catalog.device("H200")), generation_of(catalog.device("H20"))
    ('Hopper', 'Hopper, cut to 150 TFLOP/s')
    """
    return _generation(device, {})


def _generation(device: Device | None, best: dict[str, float]) -> str:
    """The same, with the largest peak of each architecture that was looked at before."""
    if device is None or not (device.architecture and device.has("peak_flops.bf16")):
        return ""
    if device.architecture not in best:
        alike = hardware.of_architecture(device.architecture)
        best[device.architecture] = max([_peak(d) for d in alike if d.has("peak_flops.bf16")], default=0.0)
    name, own = generation_name(device), _peak(device)
    return name if own > best[device.architecture] / 2.0 else f"{name}, cut to {round(own / 1e13) * 10} TFLOP/s"


def family_of(device: Device | None) -> str:
    """Whose share of the peak a device has: its generation's; all TPUs share one."""
    return "TPU" if device is not None and device.kind == "tpu" else generation_of(device)


def clock_of(device: Device | None) -> float:
    """How fast a GPU with a lower power limit runs, over the one of its generation with most power per FLOP.

    Power grows with the cube of the clock, as the voltage follows it. A superchip's power feeds its processor too.

    >>> from mlsysim import catalog
    >>> round(clock_of(catalog.device("H100-SXM5-96GB")), 3)  # 500 W of 700 W
    0.894
    """
    if device is None or device.kind != "gpu" or not (device.has("tdp") and device.has("peak_flops.bf16")):
        return 1.0
    best: dict[str, float] = {}
    name = _generation(device, best)
    if not name:
        return 1.0
    near = hardware.of_architecture(generation_name(device), f"Grace {generation_name(device)}")
    alike = [d for d in near if d.kind == "gpu" and d.has("tdp") and _generation(d, best) == name]
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
    """A device as a key: the same object, since one of your own may have any name."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def __hash__(self) -> int:
        return id(self.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.device is self.device
