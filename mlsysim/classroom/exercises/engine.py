"""What an exercise is, how its numbers follow from a seed, and how an answer is read and answered.

Plain Python: the same code checks an answer in Jupyter, in Colab, in the browser lab and in a test.
"""

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

from mlsysim import units
from mlsysim.classroom.exercises import answers
from mlsysim.errors import InputError
from mlsysim.tables import Table, table

Answer = float | str
_MAX_SEED = 200


@dataclass(frozen=True)
class Given:
    """One number or name of a prompt: SI value, unit ("" for a name), and what it means."""

    value: Any
    unit: str
    meaning: str

    def __str__(self) -> str:
        if self.unit == "":
            return str(self.value)
        if self.unit == "%":  # a share: the value is the fraction, the prompt says per cent
            return f"{100 * self.value:.6g} %"
        if self.unit == "1":
            if 1e6 <= self.value < 1e8:  # nobody says 1.6e+07 tokens
                return f"{self.value / 1e6:.10g} million"
            return f"{self.value / 1e9:g} billion" if self.value >= 1e8 else f"{self.value:g}"
        if self.unit == "1/s":
            return f"{self.value:g} per second"
        return units.format(self.value, self.unit)


@dataclass(frozen=True)
class Options:
    """The values that one input may take; the first stands in the public demo."""

    values: tuple[Any, ...]
    unit: str
    meaning: str


@dataclass(frozen=True, repr=False)
class Inputs(Mapping[str, Any]):
    """The numbers of one reader's exercise: a mapping of SI values that prints with units."""

    exercise: str
    given: Mapping[str, Given]

    def __getitem__(self, name: str) -> Any:
        return self.given[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)

    def texts(self) -> dict[str, str]:
        """Every input as it stands in the prompt."""
        return {name: str(g) for name, g in self.given.items()}

    def table(self) -> Table:
        """Name, value with unit, and meaning."""
        return table(("input", "value", "meaning"), [(n, str(g), g.meaning) for n, g in self.given.items()])

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Question(str):
    """A prompt: text everywhere, rendered Markdown in a notebook."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Mistake:
    """A classic wrong answer. Slips that no answer can tell apart share one hint and are its several ``ways``."""

    name: str
    hint: str
    ways: tuple[Callable[[Inputs], Answer], ...]


@dataclass(frozen=True)
class Exercise:
    """A question whose numbers depend on a seed and whose answer the library computes.

    ``solution`` is the code a reader might write: it may use ``inputs``, ``SEED``, ``catalog``, ``roofline`` and
    ``units``, and its last line assigns ``answer``.
    """

    id: str
    slug: str
    title: str
    objective: str
    points: int
    prompt: str
    unit: str
    options: Mapping[str, Options]
    solve: Callable[[Inputs], Answer]
    mistakes: tuple[Mistake, ...]
    nudge: str
    solution: str
    tolerance: float = 0.01
    answers: tuple[str, ...] = ()  # the words to choose from; empty for a number
    whole: bool = False  # the answer is a count, and no other number is near enough
    derive: Callable[[Mapping[str, Any]], Mapping[str, Given | None]] = field(default=lambda chosen: {})  # None hides

    def draw(self, seed: object = "") -> Inputs:
        """The inputs of a seed; the empty seed is the public demo."""
        text = normalise_seed(seed)
        return self._inputs(
            {
                name: o.values[_index(f"{self.id}|{text}|{name}", len(o.values)) if text else 0]
                for name, o in self.options.items()
            }
        )

    def every_draw(self) -> Iterator[Inputs]:
        """All inputs that any seed can get, for tests."""
        for values in product(*(o.values for o in self.options.values())):
            yield self._inputs(dict(zip(self.options, values, strict=True)))

    def _inputs(self, chosen: dict[str, Any]) -> Inputs:
        given = {
            name: Given(value, self.options[name].unit, self.options[name].meaning) for name, value in chosen.items()
        }
        derived = self.derive(chosen)
        shown = {name: g for name, g in {**given, **derived}.items() if g is not None}
        return Inputs(self.id, MappingProxyType(shown))

    def question(self, g: Inputs) -> Question:
        """The prompt with the numbers in."""
        return Question(
            f"**{self.id} {self.title}** ({self.points} point{'s' * (self.points > 1)}). "
            f"{self.prompt.format_map(g.texts())}"
        )


@dataclass(frozen=True, repr=False)
class Feedback:
    """The answer to an answer. Prints as one line and is true when the answer is correct."""

    exercise: str
    correct: bool
    message: str
    mistake: str | None = None
    points: int = 0

    def __bool__(self) -> bool:
        return self.correct

    def __str__(self) -> str:
        return f"{self.exercise}: {self.message}"

    __repr__ = __str__


def normalise_seed(seed: object) -> str:
    """A seed as compared: trimmed, case-folded text; None is the public demo.

    >>> normalise_seed("  Ada ")
    'ada'
    """
    if seed is None:
        return ""
    if not isinstance(seed, (str, int)) or isinstance(seed, bool) or len(text := str(seed)) > _MAX_SEED:
        raise InputError(f"seed = {str(seed)[:40]!r} is not a short text; give your student id, as in seed='ada'")
    return unicodedata.normalize("NFKC", text).strip().casefold()


def _index(text: str, n: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big") % n


def close(a: float, b: float, tolerance: float) -> bool:
    """Whether a lies within the relative tolerance of b, the edge included."""
    return abs(a - b) <= tolerance * abs(b) * (1 + 1e-9)


def grade(exercise: Exercise, answer: object, g: Inputs) -> Feedback:
    """Compare an answer with the library's; wrong answers get the hint of the mistake that makes them."""
    try:
        got = _read(exercise, answer)
    except InputError as error:
        return Feedback(exercise.id, False, str(error), "not-read" if answers.is_given(answer) else "no-answer")
    expected = exercise.solve(g)
    if _same(exercise, got, expected):
        shown = expected if isinstance(expected, str) else units.format(expected, exercise.unit)
        return Feedback(exercise.id, True, f"Correct: {shown}.", points=exercise.points)
    for mistake in exercise.mistakes:
        if any(_same(exercise, got, way(g)) for way in mistake.ways):
            return Feedback(exercise.id, False, f"Not yet. {mistake.hint.format_map(g.texts())}", mistake.name)
    generic = None if isinstance(got, str) or isinstance(expected, str) else _generic(got, expected, exercise, g)
    name, hint = generic or (None, exercise.nudge.format_map(g.texts()))
    return Feedback(exercise.id, False, f"Not yet. {hint}", name)


def _same(exercise: Exercise, a: Answer, b: Answer) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    if exercise.whole:  # a count is right or wrong; what is left is the rounding of floats
        return abs(a - b) <= 1e-9 * abs(b)
    return close(a, b, exercise.tolerance)


def _read(exercise: Exercise, answer: object) -> Answer:
    """An answer as a float in base units or as one of the words; an InputError says how to write it."""
    share = "fraction" in exercise.prompt
    wanted = " or ".join(map(repr, exercise.answers)) or answers.forms(exercise.unit, share)
    if not answers.is_given(answer):
        raise InputError(f"No answer yet: give {wanted}.")
    if exercise.answers:
        word = answer.strip().casefold().removesuffix("bound").rstrip(" -") if isinstance(answer, str) else ""
        if word not in exercise.answers:
            raise InputError(f"{answers.said(answer)} is not one of the choices: give {wanted}.")
        return word
    return answers.read(answer, exercise.unit, f"{exercise.title} {exercise.prompt}")


def _generic(got: float, expected: float, exercise: Exercise, g: Inputs) -> tuple[str, str] | None:
    """A hint for slips that every exercise shares; an exercise's own mistakes are looked at first.

    A factor alone proves nothing: a hint is given only where the units of the question and the inputs allow its cause, and
    where the answer is the right one times that factor to a few digits.
    """
    named = {exercise.unit, *(i.unit for i in g.given.values())}
    dimensions = {base for unit in named if unit not in ("", "%") for base, _ in units.unit(unit).dimension}
    of_answer = {base for base, _ in units.unit(exercise.unit).dimension}
    text = exercise.solution + exercise.nudge

    def like(factor: float) -> bool:
        return close(got, expected * factor, _SHARP)

    def either(factor: float) -> bool:
        return like(factor) or like(1.0 / factor)

    if like(-1):
        return "sign", "The size is right and the sign is not."
    if (
        exercise.unit in ("1", "FLOP/byte", "1/s")
        and not 0.9 < abs(expected) < 1.1
        and close(got * expected, 1, _SHARP)
    ):
        return "reciprocal", "Your answer is upside down: one over it would be right. Check what is divided by what."
    if exercise.unit == "byte" and like(2.0**-30):
        return (
            "bare-gibibytes",
            "Your number is right in GiB. A number alone is read as bytes: write the unit behind it.",
        )
    if exercise.unit in _BARE and like(1.0 / _BARE[exercise.unit][0]):
        name = _BARE[exercise.unit][1]
        return (
            "bare-number",
            f"Your number is right in {name}. A number alone is read in base units: write {name} behind it.",
        )
    if exercise.unit != "1" or max(abs(got), abs(expected)) >= 1e6:
        for power in (1, 2, 3, 4, 5):
            if either(1000.0**power):
                return (
                    "unit-slip",
                    "The digits are right, the power of ten is not. A number alone is read in base units; mind ms for s, and tera for "
                    "giga.",
                )
    if exercise.unit == "1" and abs(expected) <= 1.0 and (like(100) or like(0.01)):
        return "percent", "Your answer is off by 100: 25 % is 0.25. Write the fraction, or text as in '25 %'."
    if "byte" in dimensions:
        for power in (1, 2, 3, 4):
            if either(1.024**power):
                return (
                    "binary-prefix",
                    "Close: it differs as powers of 1024 differ from powers of 1000. Bandwidths, files and most capacities are "
                    "quoted in powers of 1000.",
                )
        if either(8.0):
            return "bits", "Off by a factor of eight: look for bits taken as bytes, or bytes as bits."
    if "s" in of_answer | dimensions:
        for factor, what in (
            (60.0, "minutes and seconds, or hours and minutes"),
            (3600.0, "hours and seconds"),
            (24.0, "days and hours"),
            (86_400.0, "days and seconds"),
        ):
            if either(factor):
                return "time-unit", f"Off by a factor of {factor:,.0f}: look for {what} taken for each other."
    if _LOGARITHM.search(text):
        for factor, what in ((math.log(10), "e and 10"), (math.log(2), "e and 2"), (math.log2(10), "2 and 10")):
            if either(factor):
                return "base", f"Off by the ratio of two logarithms: look for {what} as the base."
    if either(2.0):
        return "factor-2", _FACTOR_TWO + " ".join(t for base, t in _TWICE.items() if base in dimensions)
    if any(close(got, _rounded(expected, digits), 1e-9) for digits in (1, 2)):
        return (
            "rounding",
            f"Rounded too far: it must be within {100 * exercise.tolerance:g} %. Carry more digits.",
        )
    return None


_SHARP = 0.002  # how near a slip's factor must be: a tenth of what parts 1.024 from the tolerance of most answers
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


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")
