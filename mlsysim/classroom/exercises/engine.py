"""What an exercise is, how its numbers follow from a seed, and how an answer is read and answered.

Plain Python: the same code checks an answer in Jupyter, in Colab, in the browser lab and in a test.
"""

import hashlib
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import EllipsisType, MappingProxyType
from typing import Any

from mlsysim import units
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
        if self.unit == "1":
            if self.value >= 1e8:
                return f"{self.value / 1e9:g} billion"
            return f"{self.value / 1e6:g} million" if self.value >= 1e6 else f"{self.value:g}"
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
        return Feedback(exercise.id, False, str(error), "not-read" if _given(answer) else "no-answer")
    expected = exercise.solve(g)
    if _same(exercise, got, expected):
        shown = expected if isinstance(expected, str) else units.format(expected, exercise.unit)
        return Feedback(exercise.id, True, f"Correct: {shown}.", points=exercise.points)
    for mistake in exercise.mistakes:
        if any(_same(exercise, got, way(g)) for way in mistake.ways):
            return Feedback(exercise.id, False, f"Not yet. {mistake.hint.format_map(g.texts())}", mistake.name)
    generic = None if isinstance(got, str) or isinstance(expected, str) else _generic(got, expected, exercise)
    name, hint = generic or (None, exercise.nudge.format_map(g.texts()))
    return Feedback(exercise.id, False, f"Not yet. {hint}", name)


def _same(exercise: Exercise, a: Answer, b: Answer) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return close(a, b, exercise.tolerance)


def _given(answer: object) -> bool:
    return not (
        answer is None or isinstance(answer, EllipsisType) or (isinstance(answer, str) and not answer.strip(" .…"))
    )


def _read(exercise: Exercise, answer: object) -> Answer:
    """An answer as a float in base units or as one of the words; an InputError says how to write it."""
    wanted = " or ".join(map(repr, exercise.answers)) or "a number" + _in_unit(exercise.unit)
    if not _given(answer):
        raise InputError(f"No answer yet: give {wanted}.")
    if exercise.answers:
        word = answer.strip().casefold().removesuffix("bound").rstrip(" -") if isinstance(answer, str) else ""
        if word not in exercise.answers:
            raise InputError(f"{_shown(answer)} is not one of the choices: give {wanted}.")
        return word
    if isinstance(answer, str):
        return units.parse(answer, exercise.unit, "answer")
    try:
        if isinstance(answer, (bool, bytes, bytearray)):
            raise TypeError
        value = float(answer)  # type: ignore[arg-type]  # whatever has a float value will do, as NumPy's scalars
    except OverflowError:
        value = math.inf
    except Exception:  # an answer may be any object; its conversion may fail in any way
        raise InputError(f"{_shown(answer)} is not a number: give {wanted}.") from None
    if not math.isfinite(value):
        raise InputError(f"{value} is not a finite number: give {wanted}.")
    return value * units.unit(exercise.unit).factor


def _shown(answer: object) -> str:
    if isinstance(answer, str):
        return repr(answer if len(answer) <= 40 else answer[:40] + "…")
    if isinstance(answer, (bool, int, float)):
        return "a very large number" if isinstance(answer, int) and answer.bit_length() > 256 else repr(answer)
    return f"a value of type {type(answer).__name__}"


def _in_unit(unit: str) -> str:
    if unit == "1":
        return " without a unit"
    example = {"s": "3.5 ms", "FLOP/s": "120 TFLOP/s", "byte": "12 GB", "byte/s": "1.2 TB/s"}.get(unit)
    return f" in {unit}" + (f", or text with a unit as in '{example}'" if example else "")


def _generic(got: float, expected: float, exercise: Exercise) -> tuple[str, str] | None:
    """A hint for slips that every exercise shares; an exercise's own mistakes are looked at first."""

    def like(factor: float) -> bool:
        return close(got, expected * factor, exercise.tolerance)

    if like(-1):
        return "sign", "The size is right and the sign is not."
    if close(got * expected, 1, exercise.tolerance):
        return "reciprocal", "Your answer is upside down: one over it would be right. Check what is divided by what."
    for power in (1, 2, 3, 4, 5):
        if like(1000.0**power) or like(1000.0**-power):
            return (
                "unit-slip",
                f"The digits are right, the power of ten is not. The answer is read "
                f"as{_in_unit(exercise.unit) or ' a number'}; mind ms for s, and tera for giga.",
            )
    if exercise.unit == "1" and (like(100) or like(0.01)):
        return "percent", "Your answer is off by 100: 25 % is 0.25. Write the fraction, or text as in '25 %'."
    for power in (1, 2, 3, 4):
        if like(1.024**power) or like(1.024**-power):
            return (
                "binary-prefix",
                "Close: it differs as powers of 1024 differ from powers of 1000. Peaks and bandwidths are quoted in "
                "powers of 1000.",
            )
    if like(2) or like(0.5):
        return (
            "factor-2",
            "Off by a factor of two. Candidates: a multiply-add is two FLOP; a bf16 number is two bytes; a peak with "
            "2:4 sparsity is twice the dense one; a link's two-way figure is twice the one-way one.",
        )
    if like(8) or like(0.125):
        return "bits", "Off by a factor of eight: look for bits taken as bytes."
    if close(got, expected, 5 * exercise.tolerance):
        return (
            "rounding",
            f"Close, but not within {100 * exercise.tolerance:g} %. Carry more digits, and take peaks and bandwidths "
            "from the catalogue.",
        )
    return None
