"""Graded exercises: ``inputs``, ``question`` and ``check`` for readers; the data behind them for tests and notebooks.

>>> from mlsysim.course import check
>>> print(check("01.6", "dispatch", seed="demo").exercise)
01.6
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from mlsysim.course.exercises.chapters import SLUGS, read
from mlsysim.course.exercises.desk import Desk
from mlsysim.course.exercises.engine import Exercise, Feedback, Inputs, Mistake, Question, grade, normalise_seed
from mlsysim.course.exercises.routes import Route, route
from mlsysim.errors import InputError, unknown_name

T = TypeVar("T")


class _Lazy(Mapping[str, T], Generic[T]):
    """A mapping that reads the chapter of a key when the key is asked for, and all chapters to list its keys."""

    def __init__(self, slug_of: Callable[[str], str], of_chapter: Callable[[str], Mapping[str, T]]) -> None:
        self._slug_of, self._of_chapter = slug_of, of_chapter

    def __getitem__(self, key: str) -> T:
        return self._of_chapter(self._slug_of(key))[key]

    def __iter__(self) -> Iterator[str]:
        return (key for slug in SLUGS for key in self._of_chapter(slug))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_BY_NUMBER = {slug[:2]: slug for slug in SLUGS}
# Every exercise by its id, read from its chapter's definitions when first asked for.
EXERCISES: Mapping[str, Exercise] = _Lazy(lambda id: _BY_NUMBER[id[:2]], lambda slug: {e.id: e for e in read(slug)[1]})
# The objectives of every chapter, each with the ids of the exercises that ask for it.
OBJECTIVES: Mapping[str, tuple[tuple[str, str], ...]] = _Lazy(
    lambda slug: _BY_NUMBER[slug[:2]], lambda slug: {slug: read(slug)[0]}
)

__all__ = [
    "EXERCISES",
    "OBJECTIVES",
    "Desk",
    "Exercise",
    "Feedback",
    "Inputs",
    "Mistake",
    "Question",
    "Route",
    "assignment",
    "check",
    "exercise",
    "inputs",
    "normalise_seed",
    "question",
    "worked",
]


def exercise(id: str) -> Exercise:
    """The exercise of that id.

    Raises
    ------
    UnknownNameError
        With the nearest known ids.
    """
    key = id.strip() if isinstance(id, str) else id
    if not isinstance(key, str) or key not in EXERCISES:
        padded = f"0{key}"  # 1.1 for 01.1
        raise unknown_name("exercise", key, [padded] if padded in EXERCISES else EXERCISES)
    return EXERCISES[key]


def assignment(slug: str) -> tuple[Exercise, ...]:
    """The exercises of a chapter, in order."""
    if slug in ("training", "serving"):
        raise InputError(
            f"assignment = {slug!r} is a capstone, which is not graded here: its notebook checks the figures with "
            "capstones.check_report, and a person reads the page by the rubric in the notebook"
        )
    if slug not in SLUGS:
        raise unknown_name("assignment", slug, SLUGS)
    return read(slug)[1]


def inputs(id: str, seed: str | int | None = "") -> Inputs:
    """Your numbers for an exercise: a mapping of SI values that prints with units.

    >>> inputs("01.5")["n"]
    4096
    """
    return exercise(id).draw(seed)


def question(id: str, seed: str | int | None = "") -> Question:
    """The prompt of an exercise with your numbers in it."""
    return exercise(id).question(inputs(id, seed))


def check(id: str, answer: object, seed: str | int | None = "", attempt: int = 1, cases: str = "") -> Feedback:
    """Check an answer: a number in SI units, text with a unit, or one of the words asked for.

    Parameters
    ----------
    id : str
        The exercise, as in "01.2".
    answer : object
        Anything; what is not an answer gets a sentence that says how to write one.
    seed : str, int or None
        Your student id: numbers differ from reader to reader. Empty is the public demo.
    attempt : int
        How many wrong answers there were, this one included: the first two get a question back, later ones the relation to use.
    cases : str
        Makes the cases that a function is tried with; empty for the public ones.

    Returns
    -------
    Feedback
        Prints as one line; true when correct.

    Raises
    ------
    UnknownNameError, InputError
        No such exercise; a seed that is not a short text.

    >>> check("01.7", "GB")
    01.7: 'GB' is not read: give '3.5 ms', '2 hours', or a number of seconds.
    """
    return grade(exercise(id), answer, inputs(id, seed), attempt, cases)


def worked(id: str, seed: str | int | None = "") -> Route:
    """The worked route of an exercise, step by step with your numbers.

    >>> worked("01.5").answer
    '0.6201'
    """
    return route(exercise(id), inputs(id, seed))
