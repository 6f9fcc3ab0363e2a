"""Units at the edge: inside the package every number is a float in SI base units.

Base units: byte, FLOP, s (second), J (joule; W is J/s), kg, L (litre), token, USD. Decimal prefixes are powers of
1000 and binary ones (Ki, Mi, Gi, Ti, Pi) powers of 1024; nothing here ever mixes the two.
"""

import math
import re
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

from mlsysim._numeric import Num, is_array
from mlsysim.errors import InputError

__all__ = [
    "EFLOP",
    "GB",
    "GFLOP",
    "MB",
    "MFLOP",
    "MW",
    "PB",
    "PFLOP",
    "TB",
    "TFLOP",
    "Gbit",
    "GiB",
    "Kbit",
    "KiB",
    "MWh",
    "Mbit",
    "MiB",
    "Tbit",
    "TiB",
    "Unit",
    "day",
    "format",
    "hour",
    "kB",
    "kW",
    "kWh",
    "minute",
    "month",
    "ms",
    "ns",
    "parse",
    "percent",
    "rounded",
    "unit",
    "us",
    "year",
]


def __dir__() -> list[str]:
    return __all__


kB, MB, GB, TB, PB = 1e3, 1e6, 1e9, 1e12, 1e15
KiB, MiB, GiB, TiB = 2.0**10, 2.0**20, 2.0**30, 2.0**40
Kbit, Mbit, Gbit, Tbit = 1e3 / 8, 1e6 / 8, 1e9 / 8, 1e12 / 8  # in bytes: a network's 400 Gbit/s is 50 GB/s
MFLOP, GFLOP, TFLOP, PFLOP, EFLOP = 1e6, 1e9, 1e12, 1e15, 1e18
ns, us, ms, minute, hour, day, year = 1e-9, 1e-6, 1e-3, 60.0, 3600.0, 86400.0, 365.25 * 86400.0
month = year / 12  # 730.5 h
kW, MW, kWh, MWh = 1e3, 1e6, 3.6e6, 3.6e9  # watt; joule

Dimension = tuple[tuple[str, int], ...]  # (("byte", 1), ("s", -1))


class Unit(NamedTuple):
    """A unit as a factor to base units and the powers of the base units."""

    factor: float
    dimension: Dimension


_BASE: dict[str, tuple[float, dict[str, int]]] = {
    "1": (1.0, {}),
    "%": (0.01, {}),
    "byte": (1.0, {"byte": 1}),
    "bytes": (1.0, {"byte": 1}),
    "B": (1.0, {"byte": 1}),
    "bit": (0.125, {"byte": 1}),
    "b": (0.125, {"byte": 1}),
    "FLOP": (1.0, {"FLOP": 1}),
    "s": (1.0, {"s": 1}),
    "min": (minute, {"s": 1}),
    "h": (hour, {"s": 1}),
    "Hz": (1.0, {"s": -1}),
    "day": (day, {"s": 1}),
    "days": (day, {"s": 1}),
    "month": (month, {"s": 1}),
    "months": (month, {"s": 1}),
    "year": (year, {"s": 1}),
    "years": (year, {"s": 1}),
    "J": (1.0, {"J": 1}),
    "W": (1.0, {"J": 1, "s": -1}),
    "Wh": (3600.0, {"J": 1}),
    "g": (1e-3, {"kg": 1}),
    "t": (1e3, {"kg": 1}),
    "L": (1.0, {"L": 1}),
    "token": (1.0, {"token": 1}),
    "tokens": (1.0, {"token": 1}),
    "USD": (1.0, {"USD": 1}),
}
_DECIMAL = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
# Which prefixes make sense: nobody means a milli-byte, and "min" must not read as milli-inch.
_SMALL_AND_LARGE = {
    "s": "nuµm",
    "J": "nuµmkMGTP",
    "W": "nuµmkMGTP",
    "Wh": "kMGTP",
    "g": "mk",
    "t": "kM",
    "L": "mkM",
    "Hz": "kMG",
}
_SMALL_AND_LARGE |= dict.fromkeys(("B", "byte", "bytes", "bit", "b", "FLOP", "token", "tokens"), "kMGTPE")

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµ%].*)?")
_MAX_TEXT = 64


def _symbols() -> dict[str, tuple[float, dict[str, int]]]:
    table = dict(_BASE)
    for base, prefixes in _SMALL_AND_LARGE.items():
        factor, dimension = _BASE[base]
        table |= {p + base: (_DECIMAL[p] * factor, dimension) for p in prefixes}
    for base in ("B", "byte", "bytes", "bit", "b"):
        factor, dimension = _BASE[base]
        table |= {p + base: (f * factor, dimension) for p, f in _BINARY.items()}
    return table


_SYMBOLS = MappingProxyType(_symbols())
_AMBIGUOUS = re.compile(r"[kMGTPE]?FLOP[Ss](/s)?")


def unit(text: str) -> Unit:
    """Read a unit such as ``TFLOP/s``, ``g/kWh`` or ``byte/token``.

    Products are written with ``*`` and quotients with ``/`` (every ``/`` divides by the one unit that follows it).
    Case counts: ``Gb`` is a gigabit and ``GB`` a gigabyte.

    Raises
    ------
    InputError
        The text names no unit, or one with two meanings (``TFLOPS``: work or rate?).

    Examples
    --------
    >>> unit("Gb/s")
    Unit(factor=125000000.0, dimension=(('byte', 1), ('s', -1)))
    """
    text = text.strip()
    if not 0 < len(text) <= _MAX_TEXT:
        raise InputError(
            f"unit {text[:20]!r}… is empty or longer than {_MAX_TEXT} characters; write for example 'GB/s'"
        )
    if _AMBIGUOUS.fullmatch(text):
        stem = text.removesuffix("/s")[:-1]
        raise InputError(f"unit {text!r} has two meanings; write {stem!r} for work or '{stem}/s' for a rate")
    factor, powers, sign = 1.0, dict[str, int](), 1
    for token in re.split(r"([*/])", text):
        token = token.strip()
        if token in "*/" and token:
            sign = 1 if token == "*" else -1
            continue
        if token not in _SYMBOLS:
            raise InputError(
                f"unknown unit {token!r} in {text!r}; write for example 'GB', 'GB/s', 'TFLOP/s', 'ms', 'h', 'month', 'W', 'kWh'"
            )
        f, dimension = _SYMBOLS[token]
        factor *= f**sign
        for base, power in dimension.items():
            powers[base] = powers.get(base, 0) + sign * power
    return Unit(factor, tuple(sorted((b, p) for b, p in powers.items() if p)))


# Rates of money that nobody says in SI units, and how people write them: text without a unit is refused, not read per second.
_BY_THE_HOUR = {"USD/s": "2.5 USD/h", "USD/J": "0.08 USD/kWh"}


def parse(text: str | float, expected: str, name: str = "quantity") -> float:
    """Turn ``"3.35 TB/s"`` into base units; a bare number is taken to be in the expected unit, but text in no rate of money.

    Parameters
    ----------
    text : str or float
        The quantity. Commas are refused, since 1,979 and 3,35 cannot be told apart.
    expected : str
        The unit the caller needs, as in ``"byte/s"``; any unit of the same dimension is accepted.
    name : str
        What to call the quantity in an error.

    Returns
    -------
    float
        The value in base units.

    Raises
    ------
    InputError
        Not a finite number, an unknown unit, or a unit of another dimension.

    Examples
    --------
    >>> parse("3.35 TB/s", "byte/s")
    3350000000000.0
    >>> parse("400 Gbit/s", "byte/s") / GB
    50.0
    >>> parse(1e12, "FLOP")
    1000000000000.0
    """
    need = unit(expected)
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        try:
            value = float(text) * need.factor
        except OverflowError:  # an integer of hundreds of digits
            value = math.inf
    else:
        match = _QUANTITY.fullmatch(text) if isinstance(text, str) and len(text) <= _MAX_TEXT else None
        if match is None:
            raise InputError(
                f"{name}: {str(text)[:40]!r} is not a quantity; write a number and a unit, as in '1.5 {expected}'"
            )
        factor = need.factor
        if expected in _BY_THE_HOUR and not match[2] and float(match[1]):
            raise InputError(
                f"{name}: {str(text)[:40]!r} has no unit, and nobody says money in {expected}; "
                f"write for example '{_BY_THE_HOUR[expected]}'"
            )
        if match[2]:
            try:
                have = unit(match[2])
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
            if have.dimension != need.dimension:
                raise InputError(
                    f"{name}: {text!r} is not in {expected} or a multiple of it; write for example '1.5 {expected}'"
                )
            factor = have.factor
        exact = Decimal(match[1]) * Decimal(repr(factor))  # decimal, so that 0.385 ms is 0.385e-3 exactly
        value = float(exact)
        if value == 0 and exact != 0:
            raise InputError(f"{name}: {str(text)[:40]!r} is nearer to 0 than any float; give 0, or a larger number")
    if not math.isfinite(value):
        raise InputError(f"{name}: {_shorten(text)} is not finite; give a finite number in {expected}")
    return value


def _shorten(value: object) -> str:
    """Shorten a value for an error message; Python refuses to write integers of thousands of digits."""
    return f"an integer of {value.bit_length()} bits" if isinstance(value, int) else repr(str(value)[:40])


# Quotients that nobody reads in base units: what format writes instead, and how many of it make one.
_READABLE = {
    "kg/J": ("g/kWh", 3.6e9),
    "L/J": ("L/kWh", kWh),
    "USD/J": ("USD/kWh", kWh),
    "USD/s": ("USD/h", hour),
    "USD/token": ("USD/Mtoken", 1e6),
}
# Larger units for large values: unit, its size, and the value from which it is written.
_LARGER = {"kg": (("t", 1e3, 1e4),), "s": (("years", year, 2 * year), ("days", day, 2 * day))}
_STEPS = (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
_STEPS_SMALL = (("m", 1e-3), ("µ", 1e-6), ("n", 1e-9))


def _significant(value: float, digits: int) -> str:
    """Round to significant digits, but never drop digits before the decimal point."""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if decimals > 12:  # below every prefix: a chance of 1e-40 needs no forty zeros
        return f"{value:.{digits}g}"
    text = f"{value:.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format(value: Num, unit_text: str, digits: int = 4, prefix: str | None = None) -> str:
    """Write an SI value with a readable prefix and its unit.

    Parameters
    ----------
    value : float or array
        In base units. An array is written as its range and size.
    unit_text : str
        The base unit: ``"byte/s"``, ``"FLOP"``, ``"s"``, ``"1"`` …
    digits : int
        Significant digits.
    prefix : str, optional
        Force a prefix, as in ``"T"`` for TFLOP/s.

    Examples
    --------
    >>> format(3.35e12, "byte/s")
    '3.35 TB/s'
    >>> format(9.5e-3, "s")
    '9.5 ms'
    >>> format(1.979e15, "FLOP/s", prefix="T")
    '1979 TFLOP/s'
    >>> format(0.25, "1")
    '0.25'
    >>> format(1.1e-7, "kg/J")
    '396 g/kWh'
    """
    if is_array(value):
        low, high = format(value.min(), unit_text, digits), format(value.max(), unit_text, digits)
        return f"{low} … {high} ({value.size} values)"
    value = float(value)
    if unit_text == "1":
        return f"{value:.{digits}g}"
    if not math.isfinite(value):
        raise InputError(f"format: {value} {unit_text} cannot be written with a prefix; give a finite value")
    if unit_text in _READABLE and prefix is None:
        unit_text, factor = _READABLE[unit_text]
        return f"{_significant(value * factor, digits)} {unit_text}"
    if prefix is None:
        for larger, factor, start in _LARGER.get(unit_text, ()):
            if abs(value) >= start:
                return f"{_significant(value / factor, digits)} {larger}"
    head, slash, tail = unit_text.partition("/")
    if head in ("FLOP", "byte") and tail in ("byte", "FLOP"):  # an intensity is read as a plain number
        return f"{value:.{digits}g} {unit_text}"
    symbol = {"byte": "B"}.get(head, head)
    steps = dict(
        _STEPS if head in ("byte", "FLOP", "W", "J", "token", "Hz") else _STEPS[3:] if head == "L" else [("", 1.0)]
    )
    if head in ("s", "W", "J"):
        steps |= dict(_STEPS_SMALL)
    if prefix is None:
        prefix = next((p for p, f in steps.items() if abs(value) >= f), "" if value == 0 else list(steps)[-1])
        if unit_text == "s" and value == 0:
            prefix = ""
    elif prefix not in _DECIMAL and prefix != "":
        raise InputError(f"prefix: {prefix!r} is not one of {', '.join(_DECIMAL)}")
    scale = _DECIMAL[prefix] if prefix else 1.0
    return f"{_significant(value / scale, digits)} {prefix}{symbol}{slash}{tail}"


def rounded(value: float, digits: int = 3) -> str:
    """Write an amount to three digits, with commas.

    >>> rounded(103_949.9), rounded(5.6468)
    ('104,000', '5.65')
    """
    return f"{float(f'{value:.{digits}g}'):,.12g}"


def percent(fraction: float, digits: int = 1, signed: bool = True) -> str:
    """Write a fraction as a percentage, with a true minus sign; signed unless said otherwise.

    >>> percent(-0.2464)
    '−24.6 %'
    >>> percent(0.0623, signed=False)
    '6.2 %'
    """
    return f"{fraction:{'+' if signed else ''}.{digits}%}".replace("-", "−").replace("%", " %")
