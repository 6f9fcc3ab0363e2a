"""Slips that every exercise shares: what somebody did, read off the number that came out.

A hint is given only where one slip, made with the question's own numbers, gives this answer to the digits that were written.
Where several different ones do, none is named.
"""

import ast
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from mlsysim import units
from mlsysim.classroom.exercises.running import run

if TYPE_CHECKING:
    from mlsysim.classroom.exercises.engine import Exercise, Inputs

MOST_RUNS = 120  # of a solution, for one wrong answer; a run takes some hundredths of a millisecond
_LOGARITHM = re.compile(r"\b(?:log|ln|exp|quantile)|logarithm|\be\^", re.I)
_FACTOR_TWO = (
    "Off by exactly a factor of two: look for something counted once that comes twice, or twice that comes once. "
)
_TWICE = {
    "FLOP": "A multiply-add is two FLOP; a peak with 2:4 sparsity is twice the dense one.",
    "byte": "A bf16 number is two bytes; keys and values are two; a link's two-way figure is twice the one-way one.",
}
_BARE = {
    "byte": (1e9, "GB"), "byte/s": (1e9, "GB/s"), "FLOP": (1e12, "TFLOP"), "FLOP/s": (1e12, "TFLOP/s"), "s": (1e-3, "ms"),
}  # fmt: skip
_TURNED = {ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Add: ast.Sub, ast.Sub: ast.Add}


class Slip(NamedTuple):
    """A way to a wrong answer: its name, what comes out, and the hint."""

    name: str
    value: float
    hint: str


def nearness(value: float) -> float:
    """How near a slip must come to an answer: half a unit of the last digit that was written, within limits.

    >>> nearness(0.04179), nearness(12.0), nearness(0.0123456789)
    (0.00011964584828906438, 0.002, 0.0001)
    """
    digits = len(f"{abs(value):.10e}".partition("e")[0].rstrip("0").replace(".", ""))
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1) if value else 1.0
    return min(0.002, max(1e-4, unit / 2 / abs(value or 1.0)))


def near(a: float, b: float, tolerance: float) -> bool:
    """Whether a lies within a relative tolerance of b."""
    return abs(a - b) <= tolerance * abs(b) * (1 + 1e-9)


def recognised(got: float, expected: float, exercise: "Exercise", g: "Inputs") -> Slip | None:
    """The one slip that explains an answer, or None.

    Parameters
    ----------
    got : float
        The answer, in base units.
    expected : float
        The right answer.
    exercise : Exercise
        The question.
    g : Inputs
        The reader's numbers.
    """
    tolerance = nearness(got)
    found = [s for s in _of_the_answer(got, expected, exercise, g) if near(got, s.value, tolerance)]
    if not found and not exercise.searches:
        found = [
            s
            for s in _of_the_way(expected, exercise, g)
            if near(got, s.value, tolerance) and not near(expected, s.value, 1e-9)
        ]
    if not found:
        return None
    best = min(abs(s.value - got) for s in found)
    rivals = [s for s in found if abs(s.value - got) <= best + 1e-9 * abs(got)]
    if any(s.name != rivals[0].name for s in found if s not in rivals):  # two different slips, and no digit parts them
        return None
    return _together(rivals)


def _together(rivals: list[Slip]) -> Slip:
    """One hint for slips that no answer can tell apart."""
    first = rivals[0]
    same = dict.fromkeys(s.hint for s in rivals if s.name == first.name)
    if first.name in _LISTED and len(same) > 1:
        what = " or ".join(dict.fromkeys(_QUOTED.search(h)[1] for h in same))  # type: ignore[index]
        return first._replace(hint=_QUOTED.sub(lambda m: f"“{what}”", first.hint, count=1))
    return first


_QUOTED = re.compile("“(.*?)”")
_LISTED = ("left-out", "upside-down", "off-by-one", "one-or-all", "complement", "input-unit")


def _of_the_answer(got: float, expected: float, exercise: "Exercise", g: "Inputs") -> Iterator[Slip]:
    """Slips that change the answer by a factor, where the units of the question and the inputs allow their cause."""
    named = {exercise.unit, *(i.unit for i in g.given.values())}
    dimensions = {base for unit in named if unit not in ("", "%") for base, _ in units.unit(unit).dimension}
    of_answer = {base for base, _ in units.unit(exercise.unit).dimension}

    def either(name: str, factor: float, hint: str) -> Iterator[Slip]:
        yield Slip(name, expected * factor, hint)
        yield Slip(name, expected / factor, hint)

    for i in g.given.values():  # a factor that stands among the numbers of the question is rather that one
        if isinstance(i.value, (int, float)) and i.value >= 2 and (i.unit == "1" or i.value in _POWERS):
            if i.unit == "1" and i.value == int(i.value):
                hint = f"Off by a number that you were given, “{i.meaning}”. For one of them, or for all together?"
                yield from either("one-or-all", i.value, hint)
            elif i.value in _POWERS:
                hint = f"That is what comes out without one number that you were given, “{i.meaning}”. Where does it come in?"
                yield from either("left-out", i.value, hint)
    yield Slip("sign", -expected, "The size is right and the sign is not.")
    if exercise.unit in ("1", "FLOP/byte", "1/s") and expected and not 0.9 < abs(expected) < 1.1:
        hint = "Your answer is upside down: one over it would be right. Check what is divided by what."
        yield Slip("reciprocal", 1 / expected, hint)
    if exercise.unit == "byte":
        hint = "Your number is right in GiB. A number alone is read as bytes: write the unit behind it."
        yield Slip("bare-gibibytes", expected * 2.0**-30, hint)
    if exercise.unit in _BARE:
        factor, name = _BARE[exercise.unit]
        hint = f"Your number is right in {name}. A number alone is read in base units: write {name} behind it."
        yield Slip("bare-number", expected / factor, hint)
    if exercise.unit != "1" or max(abs(got), abs(expected)) >= 1e6:
        hint = (
            "The digits are right, the power of ten is not. A number alone is read in base units; mind ms for s, and tera "
            "for giga."
        )
        for power in (1, 2, 3, 4, 5):
            yield from either("unit-slip", 1000.0**power, hint)
    if exercise.unit == "1" and abs(expected) <= 1.0:
        hint = "Your answer is off by 100: 25 % is 0.25. Write the fraction, or text as in '25 %'."
        yield from either("percent", 100.0, hint)
    if "byte" in dimensions:
        hint = (
            "Close: it differs as powers of 1024 differ from powers of 1000. Bandwidths, files and most capacities are "
            "quoted in powers of 1000."
        )
        for power in (1, 2, 3, 4):
            yield from either("binary-prefix", 1.024**power, hint)
        yield from either("bits", 8.0, "Off by a factor of eight: look for bits taken as bytes, or bytes as bits.")
    if "s" in of_answer | dimensions:
        for factor, what in (
            (60.0, "minutes and seconds, or hours and minutes"),
            (3600.0, "hours and seconds"),
            (24.0, "days and hours"),
            (86_400.0, "days and seconds"),
        ):
            yield from either(
                "time-unit", factor, f"Off by a factor of {factor:,.0f}: look for {what} taken for each other."
            )
    if _LOGARITHM.search(exercise.solution + exercise.nudge):
        for factor, what in ((math.log(10), "e and 10"), (math.log(2), "e and 2"), (math.log2(10), "2 and 10")):
            yield from either("base", factor, f"Off by the ratio of two logarithms: look for {what} as the base.")
    yield from either("factor-2", 2.0, _FACTOR_TWO + " ".join(t for base, t in _TWICE.items() if base in dimensions))
    for digits in (1, 2):
        hint = f"Rounded too far: it must be within {100 * exercise.tolerance:g} %. Carry more digits."
        rounded = float(f"{expected:.{digits - 1}e}")
        if near(got, rounded, 1e-9):
            yield Slip("rounding", rounded, hint)


def _of_the_way(expected: float, exercise: "Exercise", g: "Inputs") -> Iterator[Slip]:
    """Slips on the way to the answer: the solution, done once more with one thing otherwise."""
    numbers = {n: i for n, i in g.given.items() if isinstance(i.value, (int, float)) and not isinstance(i.value, bool)}
    left = MOST_RUNS

    def with_(name: str, hint: str, **changed: float) -> Iterator[Slip]:
        nonlocal left
        left -= 1
        value = _solved(exercise, {**g, **changed}) if left >= 0 else None
        if value is not None:
            yield Slip(name, value, hint)

    for n, i in numbers.items():
        hint = f"That is what comes out without one number that you were given, “{i.meaning}”. Where does it come in?"
        for neutral in (1.0, 0.0):
            if i.value != neutral:
                yield from with_("left-out", hint, **{n: neutral})
    for (a, one), (b, two) in combinations(numbers.items(), 2):
        if one.unit == two.unit and one.value != two.value:
            hint = f"Two numbers are taken for each other: “{one.meaning}” and “{two.meaning}”. Which is which?"
            yield from with_("swapped", hint, **{a: two.value, b: one.value})
    for n, i in numbers.items():
        if i.unit == "1" and i.value == int(i.value) and i.value >= 2:
            hint = f"That is what comes out with one more or one fewer of “{i.meaning}”. How many of them count?"
            yield from with_("off-by-one", hint, **{n: type(i.value)(i.value + 1)})
            yield from with_("off-by-one", hint, **{n: type(i.value)(i.value - 1)})
        if i.unit in ("1", "%") and 0 < i.value < 1:
            hint = f"You took what is left of one for “{i.meaning}”. Which of the two shares is meant?"
            yield from with_("complement", hint, **{n: 1 - i.value})
    for n, i in numbers.items():
        if i.value not in (0, 1):
            hint = f"You divided where it multiplies, or the other way round: “{i.meaning}”. Does more of it make the answer larger?"
            yield from with_("upside-down", hint, **{n: 1 / i.value})
    for n, i in numbers.items():
        if i.unit not in ("", "1", "%"):
            hint = f"One number is read in another unit than it has, “{i.meaning}”. Bits or bytes, powers of ten or of two, minutes or seconds?"
            for factor in _UNIT_SLIPS.get(next(iter(dict(units.unit(i.unit).dimension)), ""), ()):
                yield from with_("input-unit", hint, **{n: i.value * factor})
                yield from with_("input-unit", hint, **{n: i.value / factor})
    hint = "One step of yours goes the other way: times where it is over, or plus where it is minus. Which unit has each step?"
    for code in _turned(exercise.code):
        left -= 1
        value = _ran(g, code) if left >= 0 else None
        if value is not None:
            yield Slip("turned", value, hint)


_POWERS = tuple(1000.0**n for n in range(1, 6))
_UNIT_SLIPS = {"byte": (8.0, 1.024**3), "s": (1000.0, 60.0), "FLOP": (1000.0,)}


def _solved(exercise: "Exercise", given: Mapping[str, Any]) -> float | None:
    """The answer with other inputs; None where they are none that the library takes."""
    return _ran(given, exercise.code)


def _ran(given: Mapping[str, Any], code: str) -> float | None:
    try:
        value = float(run(dict(given), code))
    except Exception:  # a number left out or turned may be outside of what the library takes: then it was not that
        return None
    return value if math.isfinite(value) else None


@cache
def _turned(code: str) -> tuple[str, ...]:
    """The code with one sign of it turned, for each sign: times for over, plus for minus."""
    tree = ast.parse(code)
    signs = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and type(n.op) in _TURNED]
    made = []
    for node in signs[:20]:
        before, node.op = node.op, _TURNED[type(node.op)]()
        made.append(ast.unparse(tree))
        node.op = before
    return tuple(made)
