"""Reads the exercises of a chapter from its table ``chapters/NN-slug.toml``; README.md says how such a table is written.

A chapter is read when it is asked for, and once.
"""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from mlsysim.course.exercises.definitions import KINDS, Answer, Exercise, Given, Inputs, Mistake, Options
from mlsysim.course.exercises.running import run
from mlsysim.equations import is_tracing
from mlsysim.errors import InputError, unknown_name

T = TypeVar("T")
_FOLDER = Path(__file__).parent / "chapters"
SLUGS = tuple(sorted(path.stem for path in _FOLDER.glob("[0-9]*.toml")))
_NEEDED = (
    "title", "objective", "kind", "difficulty", "minutes", "points", "unit", "prompt", "ask", "nudge", "solution", "inputs",
    "mistakes",
)  # fmt: skip
_MAY = (
    "answers", "tolerance", "whole", "reference", "computed", "not_shown", "searches", "cases", "judge", "starter", "rubric",
)  # fmt: skip

Objectives = tuple[tuple[str, str], ...]


@cache
def read(slug: str) -> tuple[Objectives, tuple[Exercise, ...]]:
    """The objectives of a chapter, each with the exercise that grades it, and its exercises."""
    table = _table(slug)
    objectives, shared = table.pop("objectives"), _table("shared") | table.pop("shared", {})
    sentences = {name: sentence for name, (sentence, _) in objectives.items()}
    exercises = []
    for id, row in table.items():
        try:
            exercises.append(_exercise(slug, id, _with(shared, row), sentences))
        except (TypeError, ValueError) as error:
            raise InputError(f"{slug}.toml, exercise {id}: {error}") from error
    return tuple((sentence, id) for sentence, id in objectives.values()), tuple(exercises)


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def digest(slug: str) -> str:
    """A few letters that change with the table of a chapter."""
    return hashlib.sha256((_FOLDER / f"{slug}.toml").read_bytes()).hexdigest()[:16]


def _with(shared: Mapping[str, Any], value: Any) -> Any:
    """A value in which {NAME} is replaced by what is shared under that name: a text within a text, or a whole row."""
    if isinstance(value, dict):
        return {key: _with(shared, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with(shared, item) for item in value]
    if not isinstance(value, str):
        return value
    if whole := re.fullmatch(r"\{([A-Z_]+)\}", value):
        return _with(shared, shared[whole[1]])
    return re.sub(r"\{([A-Z_]+)\}", lambda found: shared[found[1]], value)


def _exercise(slug: str, id: str, row: Mapping[str, Any], objectives: Mapping[str, str]) -> Exercise:
    for key in (*(key for key in _NEEDED if key not in row), *(key for key in row if key not in _NEEDED + _MAY)):
        raise InputError(f"{key!r} is missing, or none of {', '.join(_NEEDED + _MAY)}")
    if row["objective"] not in objectives:
        raise InputError(f"objective = {row['objective']!r} is none of {', '.join(objectives)}")
    if row["kind"] not in KINDS or row["difficulty"] not in (1, 2, 3) or not 1 <= row["minutes"] <= 240:
        raise InputError(f"kind is one of {', '.join(KINDS)}, difficulty 1 to 3, minutes 1 to 240")
    drawn = f'g = inputs("{id}", seed=SEED)\n'
    code = row["solution"].replace(drawn, "")
    answer = partial(_answer, f"{slug}.toml, exercise {id}", code)
    return Exercise(
        id=id,
        slug=slug,
        title=row["title"],
        objective=objectives[row["objective"]],
        points=row["points"],
        prompt=_folded(row["prompt"]),
        unit=row["unit"],
        options={name: Options(_values(v), unit, meaning) for name, (v, unit, meaning) in row["inputs"].items()},
        derive=partial(_derived, row.get("computed", {}), row.get("not_shown", ())),
        solve=answer(row.get("reference", "")),
        mistakes=tuple(
            Mistake(name, _folded(hint), tuple(map(answer, ways))) for name, (hint, *ways) in row["mistakes"].items()
        ),
        nudge=_folded(row["nudge"]),
        solution=row["solution"] if drawn in row["solution"] else drawn + row["solution"],
        tolerance=row.get("tolerance", 0.01),
        whole=row.get("whole", False),
        answers=tuple(row.get("answers", ())),
        code=code,
        searches=row.get("searches", False),
        kind=row["kind"],
        difficulty=row["difficulty"],
        minutes=row["minutes"],
        ask=_folded(row["ask"]),
        cases=row.get("cases", ""),
        judge=row.get("judge", ""),
        starter=row.get("starter", ""),
        rubric=tuple(map(_folded, row.get("rubric", ()))),
    )


def _answer(where: str, code: str, way: str) -> Callable[[Inputs], Answer]:
    def answer(g: Mapping[str, Any]) -> Answer:
        try:
            found: Answer = run(g, code, way)
        except Exception as error:
            error.add_note(f"{where}: {way or code}")
            raise
        return found

    @lru_cache(maxsize=80)  # a search takes a while, and has few draws; a checker asks for the same one again
    def kept(items: tuple[tuple[str, Any], ...]) -> Answer:
        return answer(dict(items))

    return lambda g: answer(g) if is_tracing() else kept(tuple(g.items()))  # what is kept shows no equation


def _folded(text: str) -> str:
    """A text whose lines are broken where the table has no more room."""
    return " ".join(text.split())


def _values(values: Any) -> tuple[Any, ...]:
    """The values of an input: a list, or what stands in one in Python ("x / units.hour for x in (2.0, 2.5)")."""
    return tuple(
        tuple(v) if isinstance(v, list) else v for v in (run({}, f"[{values}]") if isinstance(values, str) else values)
    )


def _derived(
    rows: Mapping[str, tuple[str, str, str]], not_shown: tuple[str, ...], chosen: Mapping[str, Any]
) -> dict[str, Given | None]:
    """The inputs that follow from those drawn, and None for those that the prompt does not show."""
    computed = {name: Given(run(chosen, code), unit, meaning) for name, (code, unit, meaning) in rows.items()}
    return {**dict.fromkeys(not_shown), **computed}


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
