"""Kernel efficiencies of a device: measured shares of its datasheet rates, and launch overhead."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache

from mlsysim import catalog
from mlsysim._numeric import Num
from mlsysim.catalog import Device
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.results import Result

_LIKE = "H100-SXM5-80GB"
_MEASURED = ("H100-SXM5-80GB", "H800-SXM")
# Devices of one die, which differ in memory, links or what export rules leave of them.
_SILICON = dict.fromkeys(
    (*_MEASURED, "H100-SXM5-96GB", "H200-SXM-141GB", "GH200-96GB", "GH200-144GB"),
    _MEASURED,
)


@dataclass(frozen=True)
class Rate(Result):
    """One kind of kernel: shares of the dense peak and of the memory bandwidth, and a start in seconds."""

    compute: Num = 1.0
    memory: float = 1.0
    start: float = 0.0
    origin: str = "the printed rate"
    rows: int = 0  # of the table that it was fitted to
    error: float | None = None  # mean size of the relative error on them


@dataclass(frozen=True)
class Rates(Result):
    """The kernels of one device."""

    products_16bit: Rate = Rate()
    products_8bit: Rate = Rate()
    prefill_attention: Rate = Rate()
    decode_attention: Rate = Rate()
    latent_attention: Rate = Rate()  # decode attention of MLA
    grouped_products: Rate = Rate()  # of experts; shares measured with 8-bit products


PRINTED = Rates()  # every kernel at the printed rates, without a start


@cache
def shipped_rates() -> Mapping[str, Mapping[str, Rate]]:
    """What was measured, by device and kind; a device may lack kinds."""
    raw = shipped_toml(__package__, "rates.toml")
    return {name: {kind: Rate(**figures) for kind, figures in kinds.items()} for name, kinds in raw.items()}


def rates(device: Device | str) -> Rates:
    """The measured rates of a device. A kind that was not measured on it has the shares of another device.

    Those of the same silicon if there is one, else those of H100; the ``origin`` of the rate says so.

    >>> rates("H100").products_16bit.compute
    0.652
    >>> rates("H200").decode_attention.origin.partition(":")[0]
    'not measured on H200-SXM-141GB'
    """
    return _rates(catalog.device(device).name)


@cache
def _rates(name: str) -> Rates:
    known = shipped_rates()
    found = {}
    for f in fields(Rates):
        others = [d for d in _SILICON.get(name, (_LIKE,)) if d != name]
        if _LIKE not in others:
            others.append(_LIKE)
        places = [name, *others, *_MEASURED]
        where = next(d for d in places if f.name in known.get(d, {}))
        rate = known[where][f.name]
        if where != name:
            kin = "the same silicon" if where in _SILICON.get(name, ()) else "another device"
            origin = f"not measured on {name}: shares of {where}, {kin} ({rate.origin})"
            rate = replace(rate, origin=origin, rows=0, error=None)
        found[f.name] = rate
    return Rates(**found)
