"""What the kernels of a device sustain: measured shares of its rates, and their start."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import as_file, files

from mlsysim import catalog
from mlsysim.catalog import Device
from mlsysim.catalog.sourced import read_toml

_LIKE = "H100-SXM5-80GB"


@dataclass(frozen=True)
class Rate:
    """One kind of kernel: shares of the dense peak and of the memory bandwidth, and a start in seconds."""

    compute: float = 1.0
    memory: float = 1.0
    start: float = 0.0
    origin: str = "the datasheet"


@dataclass(frozen=True)
class Rates:
    """The kernels of one device."""

    products_16bit: Rate = Rate()
    products_8bit: Rate = Rate()
    prefill_attention: Rate = Rate()
    decode_attention: Rate = Rate()


DATASHEET = Rates()


@cache
def _shipped() -> Mapping[str, Rates]:
    with as_file(files(__package__) / "rates.toml") as path:
        raw = read_toml(path)
    return {name: Rates(**{f.name: Rate(**table[f.name]) for f in fields(Rates)}) for name, table in raw.items()}


def rates(device: Device | str) -> Rates:
    """The measured rates of a device; those of H100, as shares, where no kernel of the device was measured.

    >>> rates("H100").products_16bit.compute
    0.652
    """
    d = catalog.device(device)
    known = _shipped()
    if d.name in known:
        return known[d.name]
    like = known[_LIKE]
    note = f"no table of {d.name}: the shares of {_LIKE} ("
    return Rates(
        **{
            f.name: Rate(r.compute, r.memory, r.start, f"{note}{r.origin})")
            for f in fields(Rates)
            if (r := getattr(like, f.name))
        }
    )
