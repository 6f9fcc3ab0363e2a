"""Results that were recorded once, with how they were obtained, so that lessons need neither simulator nor compiler."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlsysim.catalog.sourced import read_toml
from mlsysim.errors import InputError
from mlsysim.results import Result


@dataclass(frozen=True)
class SimulatedGemm(Result):
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


def _read(name: str) -> tuple[SimulatedGemm, ...]:
    held = read_toml(Path(__file__).with_name(name))
    try:
        return tuple(SimulatedGemm(**row, source=held["source"], how=held["how"]) for row in held["runs"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{name}: {error}; a run has dataflow, rows, columns, m, n, k and cycles") from None


@cache
def scalesim_runs() -> tuple[SimulatedGemm, ...]:
    """Our runs of SCALE-Sim, written by scripts/maintain/record_scalesim.py.

    >>> scalesim_runs()[0].cycles
    3449
    """
    return _read("scalesim_runs.toml")


@cache
def zigzag_runs() -> tuple[SimulatedGemm, ...]:
    """Runs of ZigZag, whose latency includes its memories; it names no dataflow.

    >>> zigzag_runs()[0].cycles
    99
    """
    return _read("zigzag_runs.toml")
