"""Ranges of a server's memory: quantiles of errors against start-up logs, one vote per model, and their domain.

The figures of a release were read off the starts of two models, which have no vote; for the others nothing was fitted. The pool
is what remains of the server's share, so its range is that of everything else, in bytes. Data; written by
``scripts/maintain/fit_all.py``.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from mlsysim.catalog import Device, Model
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.efficiencies import lineage
from mlsysim.efficiencies.domains import DENSE, LATENT, MIXTURE, prediction_domain, stored_as
from mlsysim.intervals import KNOWN, ErrorQuantiles

# What has quantiles of its own; ``taken`` is all of the server's share that is no cache.
PARTS = ("weights", "activations", "runtime", "graphs", "taken")
_STATES = " with recurrence"


def server_place(
    m: Model, device: Device, *, bits: float, dtype: str, kv: str, tp: int, pp: int, engine: str, since: str
) -> Mapping[str, str]:
    """Where a server's memory lies: the four parts of every domain, the format of the cache, and the release.

    Parameters
    ----------
    m : Model
    device : Device
    bits : float, 1
        Of a weight of the layers.
    dtype, kv : str
        What is computed in, and what the cache is stored in.
    tp, pp : int
        Tensor-parallel ranks and pipeline stages.
    engine, since : str
        The server, and the release whose figures it takes.
    """
    kind = (LATENT if m.is_mla else MIXTURE) if m.is_moe else DENSE
    width = "32-bit" if dtype == "fp32" and bits > 16 else stored_as(bits)
    split = "pipeline stages" if pp > 1 else "tensor-parallel ranks" if tp > 1 else "one device"
    found = prediction_domain(lineage(device)[0], kind + _STATES * bool(m.n_recurrent_layers), width, split)
    return {**found, "cache": kv.replace("fp16", "bf16"), "release": f"{engine} {since}"}


@cache
def server_seen() -> Mapping[str, tuple[str, ...]]:
    """What the starts of two models or more have of each part.

    >>> server_seen()["generation"]
    ('Hopper',)
    """
    raw = shipped_toml(__package__, "server_ranges.toml")["seen"]
    return MappingProxyType({part: tuple(values) for part, values in raw.items()})


def server_unseen(where: Mapping[str, str]) -> tuple[str, ...]:
    """The parts of a place that fewer than two models have, in words."""
    return tuple(f"{part} {value!r}" for part, value in where.items() if value not in server_seen()[part])


@cache
def server_quantiles(part: str) -> ErrorQuantiles:
    """Of the log errors of one of :data:`PARTS`, in domain.

    >>> server_quantiles("weights").high < server_quantiles("activations").high
    True
    """
    raw = shipped_toml(__package__, "server_ranges.toml")
    shared = raw["starts"]
    return ErrorQuantiles(f"server {part}", KNOWN, **shared, **raw["parts"][part])
