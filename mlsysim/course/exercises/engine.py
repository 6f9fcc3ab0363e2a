"""How an answer is read and answered.

Plain Python: the same code checks an answer in Jupyter, in Colab, in the browser lab and in a test.
"""

from dataclasses import dataclass

from mlsysim import units
from mlsysim.course.exercises import answers, slips, tasks
from mlsysim.course.exercises.definitions import Answer, Exercise, Inputs
from mlsysim.errors import InputError


@dataclass(frozen=True, repr=False)
class Feedback:
    """The answer to an answer. Prints as one line and is true when the answer is correct."""

    exercise: str
    correct: bool
    message: str
    mistake: str | None = None
    points: float = 0

    def __bool__(self) -> bool:
        return self.correct

    def __str__(self) -> str:
        return f"{self.exercise}: {self.message}"

    __repr__ = __str__


def close(a: float, b: float, tolerance: float) -> bool:
    """Whether a lies within the relative tolerance of b, the edge included."""
    return abs(a - b) <= tolerance * abs(b) * (1 + 1e-9)


def grade(exercise: Exercise, answer: object, g: Inputs, attempt: int = 1, word: str = "") -> Feedback:
    """Compare an answer with the library's; a wrong one gets the hint of the mistake that makes it.

    Where no mistake is recognised, the first two attempts get a question back, and later ones the relation to use.

    Parameters
    ----------
    exercise : Exercise
        The question.
    answer : object
        Anything.
    g : Inputs
        The reader's numbers.
    attempt : int
        How many wrong answers there were, this one included.
    word : str
        Makes the cases of a function: empty for the public ones.
    """
    if exercise.form in ("function", "data"):
        share, name, said = tasks.verdict(exercise, answer, g, word)
        if share >= 1.0:
            return Feedback(exercise.id, True, f"Correct: {said}.", points=exercise.points)
        hints = {m.name: m.hint for m in exercise.mistakes}
        hint = hints[name].format_map(g.texts()) if name in hints else said or _advice(exercise, g, attempt)
        before = "" if name in ("no-answer", "not-read") else "Not yet. "
        return Feedback(exercise.id, False, f"{before}{hint}", name, round(exercise.points * share, 2))
    try:
        got = _read(exercise, answer)
    except InputError as error:
        return Feedback(exercise.id, False, str(error), "not-read" if answers.is_given(answer) else "no-answer")
    expected = exercise.solve(g)
    if _same(exercise, got, expected):
        shown = expected if isinstance(expected, str) else units.format(expected, exercise.unit)
        return Feedback(exercise.id, True, f"Correct: {shown}.", points=exercise.points)
    ways = [(m, way(g)) for m in exercise.mistakes for way in m.ways]
    number = not isinstance(got, str)
    sharp = 1e-9 if exercise.whole else slips.nearness(got) if number else 0.0
    same = [m for m, v in ways if got == v or (number and slips.near(got, v, min(sharp, exercise.tolerance)))]
    slip = slips.recognised(got, expected, exercise, g) if number and not same else None
    if not same and slip is None and number and got * expected > 0 and sharp > _COARSE:  # then what lies near
        same = [m for m, v in ways if _same(exercise, got, v)]
    if number and got * expected <= 0 and not same and slip is None:
        plain = "The answer is not zero." if got == 0 else f"The answer is {'above' if expected > 0 else 'below'} zero."
        return Feedback(exercise.id, False, f"Not yet. {plain} {_advice(exercise, g, attempt)}")
    if same:
        twice = (
            number and slips.ambiguous(got, expected) and not same[0].hint.startswith("You have")
        )  # half of it: so it is
        several = len(dict.fromkeys(m.name for m in same)) > 1 or twice
        may = "More than one slip gives this number. One of them: " if several else ""
        return Feedback(exercise.id, False, f"Not yet. {may}{same[0].hint.format_map(g.texts())}", same[0].name)
    if slip is not None:
        return Feedback(exercise.id, False, f"Not yet. {slip.hint}", slip.name)
    return Feedback(exercise.id, False, f"Not yet. {_advice(exercise, g, attempt)}")


_COARSE = 5e-4  # answers with fewer digits than four may lie beside what a mistake gives


def _advice(exercise: Exercise, g: Inputs, attempt: int) -> str:
    """A question back, and again; the relation to use from the third wrong answer on."""
    if attempt <= 1:
        return exercise.ask.format_map(g.texts())
    if attempt == 2:
        return f"{exercise.ask.format_map(g.texts())} The next hint names the relation to use."
    return exercise.nudge.format_map(g.texts())


def _same(exercise: Exercise, a: Answer, b: Answer) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return bool(a == b)
    if exercise.whole:  # a count is right or wrong; what is left is the rounding of floats
        return bool(abs(a - b) <= 1e-9 * abs(b))
    return close(a, b, exercise.tolerance)


def _read(exercise: Exercise, answer: object) -> Answer:
    """An answer as a float in base units or as one of the words; an InputError says how to write it."""
    share = "fraction" in exercise.prompt or "share" in exercise.prompt.casefold()
    wanted = " or ".join(map(repr, exercise.answers)) or answers.forms(exercise.unit, share, exercise.whole)
    if not answers.is_given(answer):
        raise InputError(f"No answer yet: give {wanted}.")
    if exercise.answers:
        word = answer.strip().casefold().removesuffix("bound").rstrip(" -") if isinstance(answer, str) else ""
        if word not in exercise.answers:
            raise InputError(f"{answers.describe(answer)} is not one of the choices: give {wanted}.")
        return word
    return answers.read(answer, exercise.unit, f"{exercise.title} {exercise.prompt}", exercise.whole)
