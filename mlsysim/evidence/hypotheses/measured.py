"""Measured kernels as tables: products, grouped products of experts, and attention, each row with time and share.

The package ships the rows that chapter 16 uses (``expert_tables.toml``); other tables are built by whoever has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from mlsysim import catalog
from mlsysim.catalog import Device
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import named
from mlsysim.results import Result
from mlsysim.units import us


class Product(NamedTuple):
    """One product of ``rows`` x k with k x n: seconds, and the share of the 8-bit peak."""

    rows: float
    k: float
    n: float
    time: float
    share: float


class Grouped(NamedTuple):
    """The products of all experts on one device: two into the width (``up``), then one out of it (``down``)."""

    experts: int
    devices: int
    local: int  # experts on the device
    top_k: int
    hidden: int
    width: int
    tokens: float  # per device
    up_time: float
    up_share: float
    down_time: float
    down_share: float

    @property
    def rows(self) -> float:
        """Token-expert pairs on the device, when routing is balanced."""
        return self.tokens * self.top_k

    @property
    def per_expert(self) -> float:
        return self.rows / self.local

    @property
    def time(self) -> float:
        return self.up_time + self.down_time

    @property
    def params(self) -> float:
        """Weights of one expert."""
        return 3.0 * self.hidden * self.width


class Attention(NamedTuple):
    """One call: sequences, tokens of each, seconds, and the share of the 16-bit peak. ``kv`` names the cache's format."""

    sequences: float
    tokens: float
    time: float
    share: float
    kv: str = "bf16"


@dataclass(frozen=True)
class KernelTables(Result):
    """What was measured on one device. The keys of attention are what one device holds of it.

    ``("MHA", heads, kv heads, head size)``, ``("MLA", heads, rank, rotary size)`` for decoding,
    ``("MLA", heads, head size, rotary size)`` for prompts.
    """

    products: tuple[Product, ...] = ()
    grouped_decode: tuple[Grouped, ...] = ()
    grouped_prefill: tuple[Grouped, ...] = ()
    decode: Mapping[tuple[Any, ...], tuple[Attention, ...]] = field(default_factory=lambda: MappingProxyType({}))
    prefill: Mapping[tuple[Any, ...], tuple[Attention, ...]] = field(default_factory=lambda: MappingProxyType({}))
    source: str = ""


NO_TABLES = KernelTables()


def _grouped(raw: Mapping[str, Any]) -> tuple[Grouped, ...]:
    e, k, h, w = (raw[name] for name in ("experts", "top_k", "hidden", "width"))
    return tuple(
        Grouped(e, ranks, e // ranks, k, h, w, tokens, up * us, up_share, down * us, down_share)
        for ranks, tokens, up, up_share, down, down_share in raw["rows"]
    )


@cache
def _shipped() -> Mapping[str, KernelTables]:
    raw = shipped_toml(__package__, "expert_tables.toml")
    found = {}
    for name, t in raw.items():
        d, p = t["latent_decode"], t["latent_prefill"]
        found[name] = KernelTables(
            products=tuple(
                Product(m, k, n, time * us, share) for k, n, rows in t["products"]["shapes"] for m, time, share in rows
            ),
            grouped_decode=_grouped(t["grouped_decode"]),
            grouped_prefill=_grouped(t["grouped_prefill"]),
            decode={
                ("MLA", d["heads"], d["rank"], d["rotary"]): tuple(
                    Attention(b, s, time * us, share) for b, s, time, share in d["rows"]
                )
            },
            prefill={
                ("MLA", p["heads"], p["size"], p["rotary"]): tuple(
                    Attention(1, s, time * us, share) for s, time, share in p["rows"]
                )
            },
            source=t["source"],
        )
    return MappingProxyType(found)


def kernel_tables(device: Device | str) -> KernelTables:
    """The measured kernels of a device that ship with the package.

    Raises
    ------
    UnknownNameError
        A device without tables.

    >>> tables = kernel_tables("H800")
    >>> len(tables.grouped_decode), len(tables.grouped_prefill), len(tables.products)
    (47, 24, 88)
    """
    name = catalog.device(device).name
    return named("device with kernel tables", name, _shipped())
