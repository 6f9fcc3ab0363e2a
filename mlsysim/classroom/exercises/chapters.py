"""Reads the exercises of a chapter from its table ``chapters/NN-slug.toml``; the first call of a chapter loads it."""

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from mlsysim.classroom.exercises.engine import Answer, Exercise, Given, Inputs, Mistake, Options
from mlsysim.classroom.exercises.running import run
from mlsysim.errors import InputError

FOLDER = Path(__file__).parent / "chapters"
SLUGS = tuple(sorted(path.stem for path in FOLDER.glob("[0-9]*.toml")))
_KEYS = {  # what an exercise may say, and what it must
    "title": True,
    "objective": True,
    "points": True,
    "unit": True,
    "prompt": True,
    "inputs": True,
    "computed": False,
    "hidden": False,
    "answers": False,
    "tolerance": False,
    "solution": True,
    "reference": False,
    "mistakes": True,
    "nudge": True,
}


@cache
def read(slug: str) -> tuple[tuple[tuple[str, str], ...], tuple[Exercise, ...]]:
    """The objectives of a chapter, each with the exercise that grades it, and its exercises."""
    table = _table(slug)
    shared, objectives = _table("shared") | table.pop("shared", {}), table.pop("objectives")
    exercises = (_exercise(slug, id, _with(shared, row), objectives) for id, row in table.items())
    return tuple((sentence, id) for sentence, id in objectives.values()), tuple(exercises)


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def _with(shared: Mapping[str, Any], value: Any) -> Any:
    """A value in which "{NAME}" is replaced by what the chapter's table ``shared``, or that of all, has."""
    if isinstance(value, dict):
        return {key: _with(shared, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with(shared, item) for item in value]
    if isinstance(value, str):
        if value[1:-1] in shared:
            return _with(shared, shared[value[1:-1]])
        return re.sub(r"\{([A-Z_]+)\}", lambda found: shared[found[1]], value)
    return value


def _exercise(slug: str, id: str, row: dict[str, Any], objectives: Mapping[str, tuple[str, str]]) -> Exercise:
    wrong = sorted(row.keys() - _KEYS.keys()) + [key for key, needed in _KEYS.items() if needed and key not in row]
    if wrong or row["objective"] not in objectives:
        at = f"{slug}.toml, exercise {id}: "
        raise InputError(
            at
            + (
                f"{wrong[0]!r} is missing or not one of {', '.join(_KEYS)}"
                if wrong
                else f"objective = {row['objective']!r} is not one of {', '.join(objectives)}"
            )
        )
    drawn = f'g = inputs("{id}", seed=SEED)\n'
    text = row["solution"]
    code = text.replace(drawn, "")
    answer = partial(_answer, code)
    return Exercise(
        id=id,
        slug=slug,
        title=row["title"],
        objective=objectives[row["objective"]][0],
        points=row["points"],
        prompt=_folded(row["prompt"]),
        unit=row["unit"],
        options={name: Options(_values(v), unit, meaning) for name, (v, unit, meaning) in row["inputs"].items()},
        derive=partial(_derived, row.get("computed", {}), row.get("hidden", ())),
        solve=answer(row.get("reference", "")),
        mistakes=tuple(
            Mistake(name, _folded(hint), tuple(map(answer, ways))) for name, (hint, *ways) in row["mistakes"].items()
        ),
        nudge=_folded(row["nudge"]),
        solution=text if drawn in text else drawn + text,
        tolerance=row.get("tolerance", 0.01),
        answers=tuple(row.get("answers", ())),
    )


def _answer(code: str, way: str) -> Callable[[Inputs], Answer]:
    return lambda g: run(g, code, way)


def _folded(text: str) -> str:
    """A text whose lines are broken as the table has room for."""
    return " ".join(text.split())


def _values(values: Any) -> tuple[Any, ...]:
    """The values of an input, as a list or as Python that makes one: "x / units.hour for x in (2.0, 2.5)"."""
    if isinstance(values, str):
        values = run({}, f"list({values})" if " for " in values else f"[{values}]")
    return tuple(tuple(v) if isinstance(v, list) else v for v in values)


def _derived(
    rows: Mapping[str, tuple[str, str, str]], hidden: tuple[str, ...], chosen: Mapping[str, Any]
) -> dict[str, Given | None]:
    """The inputs that follow from those drawn, and None for those that the prompt does not show."""
    found: dict[str, Given | None] = dict.fromkeys(hidden)
    for name, (code, unit, meaning) in rows.items():
        found[name] = Given(run(chosen, code), unit, meaning)
    return found
