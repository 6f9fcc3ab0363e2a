"""Tasks that ask for something made: a function, which is tried on cases, or plain data (points, a plan, a fit), which is judged.

What a student made is looked at as data only. A function is called here when it runs on the student's own machine; the grader
calls it in the sandbox and hands over what it gave.
"""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim.course.exercises import answers, judging
from mlsysim.course.exercises.definitions import Exercise, Inputs
from mlsysim.course.exercises.running import fresh
from mlsysim.errors import InputError

MOST_NUMBERS = 5000  # of one answer
_MOST_TEXT = 2000


class Results(list[Any]):
    """What a function gave for each case, in the sandbox: data, or ``{"error": sentence}``."""


def cases(exercise: Exercise, word: str = "") -> list[tuple[Any, ...]]:
    """The arguments that a function is tried with; another word makes others.

    Parameters
    ----------
    exercise : Exercise
        A task whose answer is a function.
    word : str
        Empty for the public cases. The grader draws a word that nobody knows.
    """
    rng = random.Random(f"{exercise.id}|{word}")
    code = exercise.cases if "answer" in exercise.cases else f"answer = {exercise.cases}"
    made = fresh({"rng": rng}, code)
    return [case if isinstance(case, tuple) else (case,) for case in made]


def plain(value: object, left: int = MOST_NUMBERS) -> Any:
    """A value as plain data: numbers, short texts, lists and tables of them; a figure becomes its points.

    >>> plain({"tp": 8, "times": (1.5, 2)})
    {'tp': 8, 'times': [1.5, 2]}
    """
    count = [left]

    def made(v: Any, depth: int) -> Any:
        count[0] -= 1
        if count[0] < 0 or depth > 6:
            raise ValueError(f"more than {left} values")
        if v is None or v is ... or isinstance(v, (bool, int, float)):
            if isinstance(v, int) and not isinstance(v, bool) and v.bit_length() > 900:
                raise ValueError("a very large number")
            return None if v is ... else v
        if isinstance(v, str):
            return str.__str__(v)[:_MOST_TEXT]
        if isinstance(v, Mapping):
            return {str(k)[:60]: made(x, depth + 1) for k, x in v.items()}
        if callable(getattr(v, "get_axes", None)) or callable(getattr(v, "get_lines", None)):
            axes = v.get_axes() if callable(getattr(v, "get_axes", None)) else [v]
            lines = [line for a in axes for line in a.get_lines()]
            return [[[float(x), float(y)] for x, y in zip(*line.get_data(), strict=True)] for line in lines][:20]
        if callable(getattr(v, "tolist", None)):
            v = v.tolist()
            return made(v, depth + 1)
        if isinstance(v, (list, tuple, range)):
            return [made(x, depth + 1) for x in v]
        return float(v)

    return made(value, 0)


def outputs(function: Any, arguments: Sequence[tuple[Any, ...]]) -> Results:
    """What a function gives for each case; an error is data too."""
    found = Results()
    for case in arguments:
        try:
            found.append(plain(function(*case), 500))
        except Exception as error:  # whatever a student's function raises
            found.append({"error": f"{type(error).__name__}: {error}"[:200]})
    return found


def alike(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two results are the same: numbers within a tolerance, the rest exactly."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isfinite(a) and abs(a - b) <= max(tolerance * abs(b), 1e-12 * (b == 0))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k], tolerance) for k in a)
    return bool(a == b)


def verdict(exercise: Exercise, answer: object, g: Inputs, word: str = "") -> tuple[float, str | None, str]:
    """What is right of an answer (0 to 1), the mistake that makes it, and a sentence."""
    if answer is None or answer is ... or (isinstance(answer, str) and not answer.strip(" .…")):
        return 0.0, "no-answer", f"No answer yet: {_WANTED[exercise.form]}"
    return _function(exercise, answer, g, word) if exercise.form == "function" else _data(exercise, answer, g)


_WANTED = {
    "function": "give the function itself, without calling it.",
    "data": "give the numbers that the question asks for, in a list or under their names.",
}


def _function(exercise: Exercise, answer: object, g: Inputs, word: str) -> tuple[float, str | None, str]:
    arguments = cases(exercise, word)
    if isinstance(answer, Results):
        got = answer
    elif callable(answer):
        got = outputs(answer, arguments)
    else:
        return 0.0, "not-read", f"A value of type {type(answer).__name__} is no function: {_WANTED['function']}"
    wanted = outputs(exercise.solve(g), arguments)
    right = [alike(a, b, exercise.tolerance) for a, b in zip(got, wanted, strict=False)]
    if len(right) == len(wanted) and all(right):
        return 1.0, None, f"right in all {len(wanted)} cases"
    for mistake in exercise.mistakes:
        for way in mistake.ways:
            if alike(list(got), list(outputs(way(g), arguments)), exercise.tolerance):
                return 0.0, mistake.name, ""
    if all(x is None for x in got):
        said = "No answer yet: your function gives None in every case. It hands its result back with `return`; what it prints is not seen."
        return 0.0, "no-answer", said
    first = right.index(False) if False in right else 0
    gave = got[first] if first < len(got) else None
    place, count = f"with the arguments {arguments[first]!r}"[:300], f"{sum(right)} of {len(wanted)} cases are right"
    if isinstance(gave, dict) and "error" in gave:
        return 0.0, "raised", f"{count}. {_sentence(place)} it raises {gave['error']}."
    what = f"{place} it gives {gave!r}"[:400]
    if _kind(gave) != _kind(wanted[first]):
        return 0.0, "not-read", f"{count}. {_sentence(what)}, {_kind(gave)}, where {_kind(wanted[first])} is asked for."
    return 0.0, None, f"{count}; the first that is not: {what}. {exercise.ask}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _kind(value: object) -> str:
    """What a value is, in words."""
    if value is None or isinstance(value, bool):
        return "None, as where no `return` is reached" if value is None else "true or false"
    names: dict[type, str] = {str: "a text", list: "a list", dict: "a dictionary"}
    return names.get(type(value), "a number")


def _leaves(value: Any) -> list[Any]:
    """What stands in lists and dictionaries, however deep."""
    if isinstance(value, (list, dict)):
        return [x for v in (value.values() if isinstance(value, dict) else value) for x in _leaves(v)]
    return [value]


def _filled(data: Any, best: Any, starter: str) -> Any:
    """An answer in the shape of the right one: texts that are numbers read as such.

    Raises
    ------
    InputError
        What is missing, no number, or something else than is asked for.
    """
    shape = f"write it as `{starter.strip().splitlines()[-1]}`" if starter else _WANTED["data"]
    if not any(x is not None for x in _leaves(data)):
        raise InputError(f"No answer yet: {_WANTED['data']}")
    if any(isinstance(x, float) and not math.isfinite(x) for x in _leaves(data)):
        raise InputError("A number of the answer is not finite (nan or inf): look for a division by zero.")
    if isinstance(data, str) and _kind(best) == "a number":
        return answers.read(data, "1")
    if _kind(data) != _kind(best):
        raise InputError(f"The answer is {_kind(data)}, where {_kind(best)} is asked for: {shape}.")
    if not isinstance(best, dict):
        return data
    done = dict(data)
    for key, right in best.items():
        if data.get(key) is None:
            raise InputError(f"{key!r} is missing or holds dots still: {shape}.")
        kind = _kind(right)
        if kind == "a number" and isinstance(data[key], str):
            try:
                done[key] = answers.read(data[key], "1")
            except InputError as error:
                raise InputError(f"{key!r}: {error}") from None
        elif kind in ("a list", "a text") and _kind(data[key]) != kind:
            raise InputError(f"{key!r} is {_kind(data[key])}, where {kind} is asked for: {shape}.")
    return done


def _data(exercise: Exercise, answer: object, g: Inputs) -> tuple[float, str | None, str]:
    best = exercise.solve(g)
    try:
        data = _filled(plain(answer), plain(best), exercise.starter)
    except InputError as error:
        return 0.0, "no-answer" if "No answer yet" in str(error) else "not-read", str(error)
    except Exception as error:  # any object at all may be handed in
        return 0.0, "not-read", f"The answer is not read ({type(error).__name__}): {_WANTED['data']}"

    def judged(data: Any, reference: Any) -> tuple[float, str | None, str]:
        share, why, said = fresh({**g, "given": data, "best": reference, "judging": judging}, exercise.judge)
        return float(share), why or None, str(said)

    try:
        share, why, said = judged(data, best)
    except Exception:  # a judge takes what it needs; what is not there is the answer's fault
        shape = f": write it as `{exercise.starter.strip().splitlines()[-1]}`" if exercise.starter else ""
        return 0.0, "not-read", f"The answer has not the shape that the question asks for{shape}."
    if share < 1.0:
        for mistake in exercise.mistakes:
            for way in mistake.ways:
                other = plain(way(g))
                if alike(data, other, 1e-6) or (
                    exercise.kind in ("plot", "find-error") and judged(data, other)[0] >= 1.0
                ):
                    return share, mistake.name, ""
    return share, why, said
