"""Graded exercises: ``inputs``, ``question`` and ``check`` for readers; the data behind them for tests and notebooks.

>>> from mlsysim.course import check
>>> print(check("01.6", "dispatch", seed="demo").exercise)
01.6
"""

from mlsysim.course.exercises.chapters import EXERCISES, OBJECTIVES, assignment, exercise
from mlsysim.course.exercises.definitions import Exercise, Inputs, Mistake, Prompt, normalise_seed
from mlsysim.course.exercises.engine import Feedback, grade
from mlsysim.course.exercises.routes import Route, route
from mlsysim.course.exercises.session import Desk

__all__ = [
    "EXERCISES",
    "OBJECTIVES",
    "Desk",
    "Exercise",
    "Feedback",
    "Inputs",
    "Mistake",
    "Prompt",
    "Route",
    "assignment",
    "check",
    "exercise",
    "inputs",
    "normalise_seed",
    "question",
    "worked",
]


def inputs(id: str, seed: str | int | None = "") -> Inputs:
    """Your numbers for an exercise: a mapping of SI values that prints with units.

    >>> inputs("01.5")["n"]
    4096
    """
    return exercise(id).draw(seed)


def question(id: str, seed: str | int | None = "") -> Prompt:
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
