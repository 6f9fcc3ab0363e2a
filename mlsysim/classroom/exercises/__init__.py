"""Graded exercises: ``inputs``, ``question`` and ``check`` for readers; the data behind them for tests and notebooks.

>>> from mlsysim.classroom import check
>>> print(check("01.6", "dispatch", seed="demo").exercise)
01.6
"""

from collections.abc import Mapping
from types import MappingProxyType

from mlsysim.classroom.exercises import (
    calibration,
    capacity,
    communication,
    cost,
    counting,
    energy,
    estimators,
    exploring_designs,
    hypotheses,
    iron_law,
    memory,
    mixture_of_experts,
    network,
    parallelism,
    prefill_decode,
    reality_checks,
    reliability,
    request_simulation,
    stablehlo,
    step_model,
    training_step,
)
from mlsysim.classroom.exercises.engine import Exercise, Feedback, Inputs, Mistake, Question, grade, normalise_seed
from mlsysim.errors import unknown_name

_CHAPTERS = (
    iron_law,
    counting,
    memory,
    communication,
    parallelism,
    training_step,
    prefill_decode,
    capacity,
    energy,
    cost,
    reliability,
    reality_checks,
    exploring_designs,
    step_model,
    hypotheses,
    mixture_of_experts,
    request_simulation,
    calibration,
    estimators,
    stablehlo,
    network,
)
EXERCISES: Mapping[str, Exercise] = MappingProxyType({e.id: e for chapter in _CHAPTERS for e in chapter.EXERCISES})
OBJECTIVES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {chapter.SLUG: chapter.OBJECTIVES for chapter in _CHAPTERS}
)

__all__ = [
    "EXERCISES",
    "OBJECTIVES",
    "Exercise",
    "Feedback",
    "Inputs",
    "Mistake",
    "Question",
    "assignment",
    "check",
    "exercise",
    "inputs",
    "normalise_seed",
    "question",
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
    if slug not in OBJECTIVES:
        raise unknown_name("assignment", slug, OBJECTIVES)
    return tuple(e for e in EXERCISES.values() if e.slug == slug)


def inputs(id: str, seed: str | int | None = "") -> Inputs:
    """Your numbers for an exercise: a mapping of SI values that prints with units.

    >>> inputs("01.5")["n"]
    4096
    """
    return exercise(id).draw(seed)


def question(id: str, seed: str | int | None = "") -> Question:
    """The prompt of an exercise with your numbers in it."""
    return exercise(id).question(inputs(id, seed))


def check(id: str, answer: object, seed: str | int | None = "") -> Feedback:
    """Check an answer: a number in SI units, text with a unit, or one of the words asked for.

    Parameters
    ----------
    id : str
        The exercise, as in "01.2".
    answer : object
        Anything; what is not an answer gets a sentence that says how to write one.
    seed : str, int or None
        Your student id: numbers differ from reader to reader. Empty is the public demo.

    Returns
    -------
    Feedback
        Prints as one line; true when correct.

    Raises
    ------
    UnknownNameError, InputError
        No such exercise; a seed that is not a short text.

    >>> check("01.7", "GB")
    01.7: answer: 'GB' is not a quantity; write a number and a unit, as in '1.5 s'
    """
    return grade(exercise(id), answer, inputs(id, seed))
