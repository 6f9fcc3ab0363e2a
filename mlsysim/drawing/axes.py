"""Axes: where a value stands, which round values are named, and how these are written."""

import math
from dataclasses import dataclass

from mlsysim.errors import InputError

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
FEWEST, MOST = 3, 7  # named values of an axis


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    log: bool
    start: float
    end: float

    def place(self, value: float) -> float:
        low, high, value = (
            (math.log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, (last - first) // 6)
            return [10.0**e for e in range(first, last + 1, every)]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(n for n in (1, 2, 5, 10) if n * power >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [step * i for i in range(first, last + 1)]


def padded(low: float, high: float, log: bool) -> tuple[float, float]:
    """A little air around the data, as matplotlib gives."""
    if log:
        room = (high / low) ** 0.05
        return low / room, high * room
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def axis(values: list[float], given: tuple[float, float] | None, log: bool, start: float, end: float) -> Axis:
    if log and min(values) <= 0:
        raise InputError(f"chart: a logarithmic axis cannot show {min(values):g}; give values above 0 or a linear axis")
    low, high = given or padded(min(values), max(values), log)
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
    return Axis(low, high, log, start, end)


def thin_ticks(ticks: list[float], most: int) -> list[float]:
    """Thin ticks to at most ``most``, evenly."""
    return ticks[:: max(1, -(-len(ticks) // most))]


def minor_ticks(ends: tuple[float, float]) -> list[float]:
    """Round values on a logarithmic axis of less than two decades: ones, twos and fives, and all digits where these are too few.

    >>> minor_ticks((1.0, 12.0)), minor_ticks((3.0, 8.0))
    ([1.0, 2.0, 5.0, 10.0], [3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    """
    first, last = math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1]))
    found: list[float] = []
    for digits in ((1, 2, 5), range(1, 10)):
        if len(found) < 2:
            every = [m * 10.0**e for e in range(first, last + 1) for m in digits]
            found = [v for v in every if ends[0] <= v <= ends[1] * (1 + 1e-9)]
    return found


def label_ticks(one: Axis) -> list[tuple[float, str]]:
    """Labelled ticks; ones, twos and fives where an axis has few powers of ten."""
    ticks = one.ticks()
    if one.log and len(ticks) < FEWEST:
        ticks = minor_ticks((one.low, one.high))
    return [(t, format_tick(t, one.log)) for t in thin_ticks(ticks, MOST)]


def format_tick(value: float, log: bool) -> str:
    """Format a tick in few characters.

    >>> format_tick(20000.0, False), format_tick(1e6, True), format_tick(0.01, True)
    ('20,000', '10⁶', '0.01')
    """
    if value and log and not 1e-3 <= value < 1e5:
        power = math.floor(math.log10(value) + 1e-9)
        first = round(value / 10.0**power)
        return f"{first}·" * (first != 1) + "10" + str(power).translate(_RAISED)
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,g}"
