"""Results that were recorded once, with how they were obtained, so that lessons need neither simulator nor compiler."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlsysim.catalog.sourced import read_toml
from mlsysim.errors import InputError


@dataclass(frozen=True)
class SimulatedGemm:
    """Cycles that a simulator counted for a product of (m, k) with (k, n) on one array."""

    dataflow: str
    rows: int
    columns: int
    m: int
    n: int
    k: int
    cycles: int
    source: str
    how: str


@cache
def scalesim_runs() -> tuple[SimulatedGemm, ...]:
    """Our runs of SCALE-Sim.

    >>> scalesim_runs()[0].cycles
    3449
    """
    name = "scalesim_runs.toml"
    held = read_toml(Path(__file__).with_name(name))
    try:
        return tuple(SimulatedGemm(**row, source=held["source"], how=held["how"]) for row in held["runs"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{name}: {error}; record it again with scripts/record_scalesim.py") from None
