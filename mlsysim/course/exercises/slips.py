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
from typing import Any, NamedTuple

from mlsysim import units
from mlsysim.course.exercises.definitions import Exercise, Inputs
from mlsysim.course.exercises.running import run

MOST_RUNS = 120  # of a solution, for one wrong answer; a run takes some hundredths of a millisecond
MOST_LISTED = 2  # inputs that one hint names; of more, the number says nothing
_LOGARITHM = re.compile(r"\b(?:log|ln|exp|quantile)|logarithm|\be\^", re.I)
_BITS = re.compile(r"\b[kMGT]?bits?\b")
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


class Slip(NamedTuple):
    """A way to a wrong answer: its name, what comes out, the hint, and the inputs that it is about, by their meaning."""

    name: str
    value: float
    hint: str
    about: tuple[str, ...] = ()


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


def recognised(got: float, expected: float, exercise: Exercise, g: Inputs) -> Slip | None:
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
    if not exercise.whole and float(f"{got:.1e}") == got and not (got == int(got) and abs(got) < 1000):
        for digits, what in enumerate(
            ("One digit is", "Two digits are")
        ):  # a small whole number comes about by counting
            if got == float(f"{expected:.{digits}e}"):
                hint = f"{what} too few to tell: it must be within {100 * exercise.tolerance:g} %. Carry more."
                return Slip("rounding", got, hint)
    if float(f"{got:.0e}") == got and not exercise.whole:  # one digit says too little
        return None
    if got * expected <= 0 and not near(-got, expected, tolerance):
        return None
    found = [s for s in _of_the_answer(got, expected, exercise, g) if near(got, s.value, tolerance)]
    if not exercise.searches:
        found += [s for s in _of_the_way(expected, exercise, g) if near(got, s.value, tolerance)]
    if not found or len({_cause(s) for s in found}) > 1:  # nothing, or different slips that no digit parts
        return None
    if any(s.about and _otherwise(abs(got / expected), s.about, g, tolerance) for s in found):
        return None
    rest = got + expected  # with what lies on the other side it makes a whole: then it is that part
    if found[0].name == "swapped" and any(near(v, rest, tolerance) for v in (1.0, *_numbers(g))):
        return None
    return _together(found)


def _numbers(g: Inputs, but: tuple[str, ...] = ()) -> list[float]:
    """The sizes of a question's numbers that are not zero."""
    return [abs(float(i.value)) for i in g.given.values() if _is_number(i.value) and i.value and i.meaning not in but]


def ambiguous(value: float, expected: float) -> bool:
    """Whether a wrong answer is off by just a factor of two, which comes about in many ways."""
    return any(near(value, f * expected, 1e-9) for f in (2.0, 0.5))


_PLAIN = (2.0, 4.0, 10.0, 24.0, 60.0, 100.0, 1000.0)  # factors that come about in many ways


def _otherwise(ratio: float, about: tuple[str, ...], g: Inputs, tolerance: float) -> bool:
    """Whether other numbers of the question, or a plain factor, change the answer as much."""
    given = _numbers(g, about)
    made = {*_PLAIN, *given, *(1 - v for v in given if 0 < v < 1)}
    if any("byte" in i.unit for i in g.given.values()):
        made.add(8.0)
    for v in given:
        made |= {f for w in (*given, 2.0, 4.0, 8.0) for f in (v * w, v / w)}
    return any(near(ratio, f, tolerance) or near(1 / ratio, f, tolerance) for f in made if f != 1)


# Names of one cause: a number left out of a product is one of them for all, or all for one.
_CAUSE = {"one-or-all": "left-out", "unit-slip": "bare-number"}


def _cause(slip: Slip) -> str:
    return _CAUSE.get(slip.name, slip.name)


def _together(found: list[Slip]) -> Slip | None:
    """One hint for slips that no answer can tell apart; none where it would list too much."""
    first = found[0]
    about = dict.fromkeys(s.about for s in found)
    if len(about) > MOST_LISTED or (len(about) > 1 and first.name == "swapped"):
        return None
    if len(first.about) != 1:
        return first
    return first._replace(hint=first.hint.replace(f"“{first.about[0]}”", f"“{' or '.join(a[0] for a in about)}”"))


def _of_the_answer(got: float, expected: float, exercise: Exercise, g: Inputs) -> Iterator[Slip]:
    """Slips that change the answer by a factor, where the units of the question and the inputs allow their cause."""
    for i in g.given.values():
        if _is_number(i.value) and i.unit == "1" and i.value == int(i.value) and i.value > 2:
            hint = f"Off by a number that you were given, “{i.meaning}”. For one of them, or for all together?"
            yield Slip("one-or-all", expected * i.value, hint, (i.meaning,))
            yield Slip("one-or-all", expected / i.value, hint, (i.meaning,))
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

    given = _numbers(g)
    own = {*given, *(1 - v for v in given if 0 < v < 1)}
    own |= {a / b for a in given for b in given} | {
        v for p in _constants(exercise.code) for v in (p, *(a / p for a in own))
    }
    tolerance = nearness(got)
    for name, factor, hint in _factors_off(got, expected, exercise, g):
        if not (near(got, expected * factor, tolerance) or near(got, expected / factor, tolerance)):
            continue
        # Both ways, unless the question's own numbers make the factor too: then nobody knows where it comes from.
        made = own if factor < 1000 else {v * f for v in own for f in (0.5, 1.0, 2.0)}
        if not any(near(v, f, tolerance) for v in made for f in (factor, 1 / factor)):
            yield Slip(name, expected * factor, hint)
            yield Slip(name, expected / factor, hint)


_TIMES = (
    (60.0, "minutes and seconds, or hours and minutes"),
    (3600.0, "hours and seconds"),
    (24.0, "days and hours"),
    (86_400.0, "days and seconds"),
)
_BASES = ((math.log(10), "e and 10"), (math.log(2), "e and 2"), (math.log2(10), "2 and 10"))


def _factors_off(got: float, expected: float, exercise: Exercise, g: Inputs) -> Iterator[tuple[str, float, str]]:
    """Factors that units, logarithms and pairs bring in, each with its slip's name and hint."""
    named = {exercise.unit, *(i.unit for i in g.given.values())}
    dimensions = {base for unit in named if unit not in ("", "%") for base, _ in units.unit(unit).dimension}
    if exercise.unit != "1" or max(abs(got), abs(expected)) >= 1e6:
        hint = (
            "The digits are right, the power of ten is not. A number alone is read in base units; mind ms for s, and tera "
            "for giga."
        )
        yield from (("unit-slip", 1000.0**power, hint) for power in (1, 2, 3, 4, 5))
    if exercise.unit == "1" and abs(expected) <= 1.0:
        hint = "Your answer is off by 100: 25 % is 0.25. Write the fraction, or text as in '25 %'."
        yield "percent", 100.0, hint
    if (
        "byte" in dimensions and exercise.unit != "1" and nearness(got) <= 2e-4
    ):  # 2 or 7 per cent come about by other ways too: four digits are needed
        hint = (
            "Close: it differs as powers of 1024 differ from powers of 1000. Bandwidths, files and most capacities are "
            "quoted in powers of 1000."
        )
        powers = {_thousands(v) - k for v in _bytes_of(expected, exercise, g) for k in (0, 1)} & {2, 3, 4}
        yield from (("binary-prefix", 1.024**power, hint) for power in powers)
    if "byte" in dimensions and _BITS.search(exercise.prompt):
        yield "bits", 8.0, "Off by a factor of eight: look for bits taken as bytes, or bytes as bits."
    if "s" in dimensions | {base for base, _ in units.unit(exercise.unit).dimension}:
        for factor, what in _TIMES:
            yield "time-unit", factor, f"Off by a factor of {factor:,.0f}: look for {what} taken for each other."
    if _LOGARITHM.search(exercise.solution + exercise.nudge):
        for factor, what in _BASES:
            yield "base", factor, f"Off by the ratio of two logarithms: look for {what} as the base."
    if {"byte", "FLOP"} & dimensions or re.search(r"\b[2468]\b|\b0\.5\b|\b[248]\.0\b", exercise.code):
        yield "factor-2", 2.0, _FACTOR_TWO + " ".join(t for base, t in _TWICE.items() if base in dimensions)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _thousands(value: float) -> int:
    return int(math.log10(abs(value)) // 3) if value else 0


def _bytes_of(expected: float, exercise: Exercise, g: Inputs) -> Iterator[float]:
    """Every size and bandwidth of a question, its answer included."""
    for value, unit in ((expected, exercise.unit), *((i.value, i.unit) for i in g.given.values())):
        if unit not in ("", "%") and dict(units.unit(unit).dimension).get("byte", 0) > 0 and _is_number(value):
            yield value


@cache
def _constants(code: str) -> frozenset[float]:
    """The numbers that a solution is written with, 2 apart, which every question knows."""
    nodes = (n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant))
    values = (n.value for n in nodes)
    return frozenset(float(v) for v in values if type(v) in (int, float) and v not in (0, 1, 2))  # type: ignore[arg-type]


@cache
def _factors(code: str) -> frozenset[str]:
    """The names that a solution multiplies with or divides by, so that one stands for leaving them out."""
    return _operands(code, (ast.Mult, ast.Div, ast.FloorDiv))


@cache
def _terms(code: str, with_given: bool) -> frozenset[str]:
    """The names that stand in a sum or a product, or also those given to the library, so that zero leaves them out."""
    given = {x for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Call) for a in n.args for x in _names(a)}
    return _operands(code, (ast.Add, ast.Sub, ast.Mult)) | (given if with_given else frozenset())


def _operands(code: str, signs: tuple[type, ...]) -> frozenset[str]:
    found = (n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.BinOp) and isinstance(n.op, signs))
    whole = (n for n in found if not (isinstance(n.op, ast.Div) and isinstance(n.left, ast.Constant)))  # not of 1 / n
    return frozenset(x for n in whole for s in (n.left, n.right) for x in _names(s))


def _names(node: ast.AST) -> list[str]:
    """A name, or an input by its name."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return [str(node.slice.value)]
    return [node.id] if isinstance(node, ast.Name) else []


def _of_the_way(expected: float, exercise: Exercise, g: Inputs) -> Iterator[Slip]:
    """Slips on the way to the answer: the solution, done once more with one thing otherwise."""
    numbers = {n: i for n, i in g.given.items() if _is_number(i.value)}
    left = MOST_RUNS

    def value(**changed: float) -> float | None:
        nonlocal left
        left -= 1
        return _ran({**g, **changed}, exercise.code) if left >= 0 else None

    def with_(name: str, hint: str, about: tuple[str, ...], **changed: float) -> Iterator[Slip]:
        """What comes out with other inputs, unless it comes out with still others too: then something larger hides them."""
        made = value(**changed)
        if made is None or near(expected, made, 1e-9):
            return
        for n in changed:
            step = (g[n] - changed[n]) / 10
            beside = (
                changed[n] + step
                if isinstance(g[n], float)
                else changed[n] + int(math.copysign(max(1, abs(step)), step))
            )
            other = value(**{**changed, n: beside})
            if other is not None and near(other, made, 1e-9) and re.search(rf"\b{n}\b", exercise.code):
                return
        yield Slip(name, made, hint, about)

    for n, i in numbers.items():
        hint = f"That is what comes out without one number that you were given, “{i.meaning}”. Where does it come in?"
        for neutral in (1.0, 0.0):
            for s in with_("left-out", hint, (i.meaning,), **{n: neutral}) if i.value != neutral else ():
                whole = any(near(s.value, expected * f, 1e-9) for f in (i.value, 1 / (i.value or 1.0)))
                count = i.unit == "1" and i.value >= 1  # the library is not asked for no layers at all
                once = len(re.findall(rf"\b{n}\b", exercise.code)) == 1  # who forgets a number forgets it at one place
                if whole or (once and n in (_factors(exercise.code) if neutral else _terms(exercise.code, not count))):
                    yield s
    for (a, one), (b, two) in combinations(numbers.items(), 2):
        if one.unit == two.unit and one.value != two.value and (one.unit != "1" or _noun(one) == _noun(two)):
            hint = f"Two numbers are taken for each other: “{one.meaning}” and “{two.meaning}”. Which is which?"
            yield from with_("swapped", hint, (one.meaning, two.meaning), **{a: two.value, b: one.value})
    for n, i in numbers.items():
        beside = re.search(rf"\b{n}(?:\"\])? [-+] 1\b|\b1 [-+] (?:g\[\")?{n}\b", exercise.code)
        if i.unit == "1" and i.value == int(i.value) and i.value >= 2 and beside:
            hint = f"That is what comes out with one more or one fewer of “{i.meaning}”. How many of them count?"
            yield from with_("off-by-one", hint, (i.meaning,), **{n: type(i.value)(i.value + 1)})
            yield from with_("off-by-one", hint, (i.meaning,), **{n: type(i.value)(i.value - 1)})
        if i.unit in ("1", "%") and 0 < i.value < 1:
            hint = f"You took what is left of one for “{i.meaning}”. Which of the two shares is meant?"
            yield from with_("complement", hint, (i.meaning,), **{n: 1 - i.value})


def _noun(given: Any) -> str:
    """The noun of a meaning: heads of "query heads, in each layer"."""
    words = re.split(r",| of | per | in | that | to | for | with ", given.meaning)[0].split()
    return words[-1] if words else ""


def _ran(given: Mapping[str, Any], code: str) -> float | None:
    try:
        value = float(run(dict(given), code))
    except Exception:  # a number left out or turned may be outside of what the library takes: then it was not that
        return None
    return value if math.isfinite(value) else None
