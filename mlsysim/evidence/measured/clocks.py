"""Measured clocks, caps and grids beside our curves: fitted on one pass of one model, and scored on everything else."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from mlsysim import energy
from mlsysim.catalog.sourced import shipped
from mlsysim.errors import named
from mlsysim.evidence.metrics import signed_error
from mlsysim.results import Result

FITTED = "a100-gpt3-forward"  # the run that the curve is fitted on: every second of its rows
HIGHEST = {"A100-SXM4-80GB": 1380.0, "A40": 1440.0}  # MHz: above it the passes no longer get faster
_KNEES = [0.01 * i for i in range(60, 96)]
_EXPONENTS = [1.5 + 0.05 * i for i in range(31)]


@dataclass(frozen=True)
class ClockRun(Result):
    """One published run: a row for each clock in MHz, cap in W, or hour of the day."""

    name: str
    kind: str  # clock, cap or grid
    device: str
    work: str
    settings: tuple[float, ...]
    time: tuple[float, ...]  # s; none of a grid
    power: tuple[float, ...]  # W; none of a grid
    intensity: tuple[float, ...]  # g/kWh, of a grid
    chosen: tuple[float, ...]  # of a grid: saved by the cleanest 4, 8 and 12 hours of each single day
    source: str
    where: str
    retrieved: str

    @property
    def energy(self) -> tuple[float, ...]:
        """Joules of each row."""
        return tuple(t * p for t, p in zip(self.time, self.power, strict=True))

    @property
    def cheapest(self) -> float:
        """The setting of the row with the least energy."""
        return min(zip(self.energy, self.settings, strict=True))[1]


class PowerCurve(NamedTuple):
    """A device's power against its clock, and the share of the work that the clock sets."""

    static: float
    dynamic: float
    knee: float
    exponent: float
    compute_share: float

    @property
    def shape(self) -> dict[str, float]:
        """Knee and exponent, by the names that the equations use."""
        return {"knee": self.knee, "exponent": self.exponent}

    def scaled(self, power: float) -> "PowerCurve":
        """The same curve for a device that draws so much at its highest clock."""
        by = power / (self.static + self.dynamic)
        return self._replace(static=self.static * by, dynamic=self.dynamic * by)


@cache
def clock_runs() -> Mapping[str, ClockRun]:
    """All shipped runs at locked clocks or under caps, and days of grids, by name.

    >>> clock_runs()["a100-gpt3-forward"].cheapest
    1080.0
    """
    return shipped(__package__, "clocks.toml", _run)


def _run(name: str, raw: Mapping[str, Any], file: str) -> ClockRun:
    time = tuple(map(float, raw.get("time", ())))
    power = raw.get("power") or [e / t for e, t in zip(raw.get("energy", ()), time, strict=True)]
    rows = {"settings": raw["settings"], "time": time, "power": power}
    rows |= {k: raw.get(k, ()) for k in ("intensity", "chosen")}
    told: dict[str, Any] = {k: raw[k] for k in ("kind", "device", "work", "source", "where", "retrieved")}
    told |= {k: tuple(map(float, v)) for k, v in rows.items()}
    return ClockRun(name=name, **told)


def _clocks(run: ClockRun) -> list[float]:
    top = HIGHEST[run.device]
    return [min(f, top) / top for f in run.settings]


@cache
def fitted_curve() -> PowerCurve:
    """The curve of an A100, fitted by least squares of relative errors on every second row of one pass.

    >>> c = fitted_curve()
    >>> round(c.knee, 2), round(c.exponent, 2)
    (0.81, 2.6)
    """
    run = clock_runs()[FITTED]
    clocks, powers, times = _clocks(run)[::2], run.power[::2], run.time[::2]
    best = (math.inf, 0.0, 0.0, 0.0, 0.0)
    for knee in _KNEES:
        for exponent in _EXPONENTS:
            # two unknowns that are linear, with 1/P as weights
            xs = [float(energy.clock_power(0.0, 1.0, x, knee, exponent)) for x in clocks]
            a, b, c = (sum(x**i / p**2 for x, p in zip(xs, powers, strict=True)) for i in range(3))
            u, v = (sum(x**i / p for x, p in zip(xs, powers, strict=True)) for i in range(2))
            static, dynamic = (u * c - v * b) / (a * c - b * b), (a * v - b * u) / (a * c - b * b)
            if static > 0:
                off = sum(((static + dynamic * x) / p - 1) ** 2 for x, p in zip(xs, powers, strict=True))
                best = min(best, (off, static, dynamic, knee, exponent))
    slower = [(1 / x - 1, t / times[-1] - 1) for x, t in zip(clocks, times, strict=True)]
    share = sum(a * b for a, b in slower) / sum(a * a for a, _ in slower)
    _, static, dynamic, knee, exponent = best
    return PowerCurve(static, dynamic, knee, exponent, share)


def on_curve(name: str) -> ClockRun:
    """A run as the curve has it. Another device takes the A100's shape, scaled to what it draws at its highest setting.

    >>> max(map(abs, errors("a100-bloom-forward", "energy"))) < 0.15
    True
    """
    run = named("run", name, clocked())
    own = run.device == clock_runs()[FITTED].device
    curve = fitted_curve() if own else fitted_curve().scaled(run.power[-1])
    if run.kind == "clock":
        clocks = _clocks(run)
    else:
        clocks = [float(energy.capped_clock(cap, curve.static, curve.dynamic, **curve.shape)) for cap in run.settings]
    power = tuple(float(energy.clock_power(curve.static, curve.dynamic, x, **curve.shape)) for x in clocks)
    time = tuple(float(energy.clock_time(run.time[-1], curve.compute_share, x)) for x in clocks)
    return replace(run, time=time, power=power)


def errors(name: str, what: str) -> tuple[float, ...]:
    """Errors of the curve on each row of a run, predicted over measured less 1; ``what`` is time or energy."""
    ours, measured = getattr(on_curve(name), what), getattr(clock_runs()[name], what)
    return tuple(float(signed_error(a, b)) for a, b in zip(ours, measured, strict=True))


def clocked() -> dict[str, ClockRun]:
    """Every run at locked clocks or under caps, in the order of the data; rows of ``FITTED`` are in the fit."""
    return {n: r for n, r in clock_runs().items() if r.kind != "grid"}


def shifted(name: str, hours: int) -> float:
    """Share of the emissions that the cleanest hours of the mean day save, from the published hours themselves.

    >>> round(shifted("grid-germany", 8), 3)
    0.082
    """
    curve = sorted(clock_runs()[name].intensity)
    return 1 - sum(curve[:hours]) / hours / (sum(curve) / len(curve))


def swing(name: str) -> float:
    """Half of highest less lowest hour of the mean day, over its mean.

    >>> round(swing("grid-germany"), 3)
    0.119
    """
    curve = clock_runs()[name].intensity
    return (max(curve) - min(curve)) / 2 / (sum(curve) / len(curve))
