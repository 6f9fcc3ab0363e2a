"""Recorded runs of the profiling estimator, for lessons that cannot run it: what was measured, when and on what.

Written by ``scripts/maintain/profile_regions.py``. Counts and roofline of a region are those that this package gave on that day.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import fsum
from typing import Any

from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Result

FORMAT = "mlsysim-profiled 1"
FILE = "profiled.json"


@dataclass(frozen=True)
class Spread(Result):
    """Median and first and third quartile, in s, of so many repeats."""

    seconds: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class ProfiledRegion(Result):
    """One compute region: its work by our counts, the roofline's time, and what was measured.

    ``inputs`` and ``outputs`` are bytes of the region's program, and ``temporary`` what XLA kept in between.
    """

    flops: float
    matrix_flops: float
    bytes: float
    kernels: int
    roofline_s: float
    measured: Spread
    compile_s: float
    inputs: float
    outputs: float
    temporary: float


@dataclass(frozen=True)
class ProfiledProgram(Result):
    """A program's compute regions in the linear split, and the program as a whole with every collective left out."""

    name: str
    regions: tuple[ProfiledRegion, ...]
    comm_regions: int
    evaluated: int  # regions that were run: those whose programs differ
    whole: Spread
    whole_compile_s: float

    @property
    def seconds(self) -> float:
        """All regions one after another."""
        return fsum(r.measured.seconds for r in self.regions)

    @property
    def low(self) -> float:
        return fsum(r.measured.low for r in self.regions)

    @property
    def high(self) -> float:
        return fsum(r.measured.high for r in self.regions)

    @property
    def roofline_s(self) -> float:
        return fsum(r.roofline_s for r in self.regions)

    @property
    def flops(self) -> float:
        return fsum(r.flops for r in self.regions)

    @property
    def compile_s(self) -> float:
        return fsum(r.compile_s for r in self.regions)

    @property
    def saved(self) -> float:
        """Share of the regions that need not be run because their program equals another's."""
        return 1 - self.evaluated / len(self.regions)


@dataclass(frozen=True)
class Profiled(Result):
    """A session of measurements with its conditions. ``start`` is a program that negates one number: the cost of a call."""

    date: str
    conditions: str
    compile_args: Mapping[str, Any]
    exec_args: Mapping[str, Any]
    roofline_device: str
    start: Spread
    programs: Mapping[str, ProfiledProgram]

    def program(self, name: str) -> ProfiledProgram:
        """One program by name.

        Raises
        ------
        UnknownNameError
        """
        if name not in self.programs:
            raise unknown_name("profiled program", name, self.programs)
        return self.programs[name]


def _spread(row: list[Any]) -> Spread:
    return Spread(float(row[0]), float(row[1]), float(row[2]), int(row[3]))


@cache
def profiled() -> Profiled:
    """The recorded measurements.

    >>> from mlsysim.hlo.profiler.profiled import profiled
    >>> profiled().program("mlp_train_dp8.spmd").comm_regions
    7
    """
    held = json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    if held.pop("format", None) != FORMAT:
        raise InputError(f"{FILE}: its 'format' should be {FORMAT!r}")
    programs = {
        name: ProfiledProgram(
            name,
            tuple(ProfiledRegion(**{**r, "measured": _spread(r["measured"])}) for r in p["regions"]),
            p["comm_regions"],
            p["evaluated"],
            _spread(p["whole"]),
            p["whole_compile_s"],
        )
        for name, p in held.pop("programs").items()
    }
    return Profiled(**{**held, "start": _spread(held["start"])}, programs=programs)
